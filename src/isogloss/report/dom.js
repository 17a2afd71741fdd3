/* Small tools of the page: elements, scales, markers, menus, legends, the tooltip. Text only ever enters through text nodes, so no
   word of a corpus can become markup. */

const MORE_SECTIONS = {}; // what a page has beyond a map's, by the id of the section
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function linear([from, to], [start, end]) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

/* About `count` round numbers from `from` to `to`. */
function ticks(from, to, count) {
  const raw = (to - from || 1) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(from / step - 1e-9) * step; value <= to + step * 1e-6; value += step) {
    found.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  }
  return found;
}

/* Whole layers, thinned so that `most` of them are named, the first and the last always. */
function layerTicks(last, most) {
  const step = [1, 2, 3, 4, 6, 8, 12].find((size) => last / size <= most) || Math.ceil(last / most);
  const found = [];
  for (let layer = 0; layer <= last; layer += step) found.push(layer);
  if (found.at(-1) !== last) {
    if (last - found.at(-1) < step * 0.6) found.pop();
    found.push(last);
  }
  return found;
}

function number(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.0005 || size >= 1e5)) return value.toExponential(1);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 3);
}

function axisNumber(value) {
  return String(Number(value.toPrecision(6)));
}

function interval(low, high) {
  return low === null || low === undefined || high === null || high === undefined
    ? ""
    : ` [${number(low)}, ${number(high)}]`;
}

/* How a corner of each marker is drawn: angle in turns and distance from the middle. */
const CORNERS = {
  square: [
    [0.125, 1.2],
    [0.375, 1.2],
    [0.625, 1.2],
    [0.875, 1.2],
  ],
  diamond: [
    [0, 1.3],
    [0.25, 1.3],
    [0.5, 1.3],
    [0.75, 1.3],
  ],
  triangle: [
    [0, 1.35],
    [1 / 3, 1.35],
    [2 / 3, 1.35],
  ],
  wedge: [
    [0.5, 1.35],
    [0.5 + 1 / 3, 1.35],
    [1 / 6, 1.35],
  ],
  hexagon: [0, 1, 2, 3, 4, 5].map((corner) => [corner / 6, 1.15]),
  star: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((corner) => [corner / 10, corner % 2 ? 0.62 : 1.5]),
};

function markerPath(shape, radius) {
  const r = radius;
  if (shape === "plus") {
    const [long, short] = [r * 1.3, r * 0.48];
    return `M${-short},${-long}H${short}V${-short}H${long}V${short}H${short}V${long}H${-short}V${short}H${-long}V${-short}H${-short}Z`;
  }
  if (!CORNERS[shape]) return `M${r},0A${r},${r} 0 1 1 ${-r},0A${r},${r} 0 1 1 ${r},0Z`;
  const corners = CORNERS[shape].map(([turn, reach]) => {
    const angle = turn * 2 * Math.PI;
    return `${(Math.sin(angle) * reach * r).toFixed(2)},${(-Math.cos(angle) * reach * r).toFixed(2)}`;
  });
  return `M${corners.join("L")}Z`;
}

function markerIcon(language, size = 16) {
  const path = svg("path", { d: markerPath(language.shape, size * 0.34), fill: language.colour });
  return svg(
    "svg",
    {
      class: "icon",
      width: size,
      height: size,
      viewBox: `${-size / 2} ${-size / 2} ${size} ${size}`,
      "aria-hidden": "true",
    },
    path,
  );
}

/* A colour between pale and dark for a share between 0 and 1, and whether text on it must be light. */
function shade(share) {
  const stops = DATA.shades;
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  const channel = (colour, at) => parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16);
  const mixed = [0, 1, 2].map((at) =>
    Math.round(
      channel(stops[index], at) + (place - index) * (channel(stops[index + 1], at) - channel(stops[index], at)),
    ),
  );
  const light = 0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2];
  return { colour: `rgb(${mixed.join(",")})`, dark: light < 140 };
}

const tooltip = {
  node: html("div", { class: "tooltip", role: "status", hidden: true }),
  show(children, x, y) {
    this.node.replaceChildren(...children);
    this.node.hidden = false;
    const { width, height } = this.node.getBoundingClientRect();
    const left = x + 16 + width > document.documentElement.clientWidth ? x - width - 16 : x + 16;
    this.node.style.left = `${Math.max(4, left)}px`;
    this.node.style.top = `${Math.max(4, Math.min(y + 12, window.innerHeight - height - 4))}px`;
  },
  hide() {
    this.node.hidden = true;
  },
};

function menu(label, options, onchange) {
  const select = html(
    "select",
    { onchange: () => onchange(select.value) },
    ...options.map(([value, text]) => html("option", { value }, text)),
  );
  return { node: html("label", { class: "menu" }, html("span", {}, label), select), select };
}

/* A menu of runs, given the chosen one's place; null where there is one run only. */
function runMenu(runs, choose) {
  return runs.length > 1
    ? menu(
        "Run",
        runs.map((run, place) => [place, run.name]),
        (place) => choose(Number(place)),
      )
    : null;
}

/* A piece of a line, and what it stands for. */
function legendSample(colour, dash, text, width) {
  return html(
    "span",
    {},
    svg(
      "svg",
      { width: 26, height: 10, "aria-hidden": "true" },
      svg("line", { x1: 1, x2: 25, y1: 5, y2: 5, stroke: colour, "stroke-width": width, "stroke-dasharray": dash }),
    ),
    " ",
    text,
  );
}

function languageOf(code) {
  return (
    DATA.languages.find((language) => language.code === code) || {
      code,
      name: code,
      colour: "#333333",
      ink: "#1f2a33",
      shape: "circle",
    }
  );
}

function pairName(curve) {
  const parts = curve.target
    ? `${curve.source} ${curve.measure === "cka" ? "–" : "→"} ${curve.target}`
    : curve.source || "";
  return parts;
}
