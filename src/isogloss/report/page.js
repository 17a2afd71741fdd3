/* Small tools of the page, and its start: elements, scales, markers, menus, legends, the tooltip. Text only ever enters
   through text nodes, so no word of a corpus can become markup. The data is a block of JSON, and each section fills its
   own stage. */

const SVG = "http://www.w3.org/2000/svg";
const LETTERS = document.createElement("canvas").getContext("2d");

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const moveLine = (line, x) => ["x1", "x2"].forEach((end) => line.setAttribute(end, x));
const quiet = (text, tag = "div") => html(tag, { class: "quiet" }, text);

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
  const found = Array.from({ length: Math.floor(last / step) + 1 }, (_, place) => place * step);
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

const whole = (value) => value.toLocaleString("en");
const axisNumber = (value) => String(Number(value.toPrecision(6)));
const isNumber = (value) => value !== null && value !== undefined;
const interval = (low, high) => (isNumber(low) && isNumber(high) ? ` [${number(low)}, ${number(high)}]` : "");

function shortNumber(value) {
  if (value >= 1e9) return value.toExponential(0).replace("+", "");
  if (value >= 1e6) return `${axisNumber(value / 1e6)}M`;
  if (value >= 1e5) return `${axisNumber(value / 1e3)}k`;
  return value >= 1000 ? whole(value) : axisNumber(value);
}

/* The corners of each marker: how many, the first one's angle in turns, and the distance of odd and even ones. */
const CORNERS = {
  square: [4, 0.125, 1.2, 1.2],
  diamond: [4, 0, 1.3, 1.3],
  triangle: [3, 0, 1.35, 1.35],
  wedge: [3, 0.5, 1.35, 1.35],
  hexagon: [6, 0, 1.15, 1.15],
  star: [10, 0, 1.5, 0.62],
};

function markerPath(shape, r) {
  if (shape === "plus") {
    const [long, short] = [r * 1.3, r * 0.48];
    const half = `H${short}V${-short}H${long}V${short}H${short}`;
    return `M${-short},${-long}${half}V${long}H${-short}V${short}H${-long}V${-short}H${-short}Z`;
  }
  if (!CORNERS[shape]) return `M${r},0A${r},${r} 0 1 1 ${-r},0A${r},${r} 0 1 1 ${r},0Z`;
  const [count, turn, even, odd] = CORNERS[shape];
  const corners = Array.from({ length: count }, (_, corner) => {
    const [angle, reach] = [(turn + corner / count) * 2 * Math.PI, corner % 2 ? odd : even];
    return `${(Math.sin(angle) * reach * r).toFixed(2)},${(-Math.cos(angle) * reach * r).toFixed(2)}`;
  });
  return `M${corners.join("L")}Z`;
}

function markerIcon(language, size = 16) {
  const box = { width: size, height: size, viewBox: `${-size / 2} ${-size / 2} ${size} ${size}` };
  const path = svg("path", { d: markerPath(language.shape, size * 0.34), fill: language.colour });
  return svg("svg", { class: "icon", ...box, "aria-hidden": "true" }, path);
}

/* A colour between pale and dark for a share between 0 and 1, and whether text on it must be light. */
function shade(share) {
  const stops = DATA.shades;
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const index = Math.min(Math.floor(place), stops.length - 2);
  const channel = (colour, at) => parseInt(colour.slice(1 + 2 * at, 3 + 2 * at), 16);
  const mixed = [0, 1, 2].map((at) => {
    const [from, to] = [channel(stops[index], at), channel(stops[index + 1], at)];
    return Math.round(from + (place - index) * (to - from));
  });
  return { colour: `rgb(${mixed.join(",")})`, dark: 0.299 * mixed[0] + 0.587 * mixed[1] + 0.114 * mixed[2] < 140 };
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

function menu(label, options, onchange, chosen) {
  const entries = options.map(([value, text]) => html("option", { value, selected: value === chosen }, text));
  const select = html("select", { onchange: () => onchange(select.value) }, ...entries);
  return { node: html("label", { class: "menu" }, html("span", {}, label), select), select };
}

/* A menu of runs, given the chosen one's place; null where there is one run only. */
function runMenu(runs, choose) {
  const options = runs.map((run, place) => [place, run.name]);
  return runs.length > 1 ? menu("Run", options, (place) => choose(Number(place))) : null;
}

const runColour = (place) => DATA.run_colours[place % DATA.run_colours.length];

function languageOf(code) {
  const unknown = { code, name: code, colour: "#333333", ink: "#1f2a33", shape: "circle" };
  return DATA.languages.find((language) => language.code === code) || unknown;
}

function begin() {
  document.body.append(tooltip.node);
  const grids = { "step-grid": gridSection, "heat-map": gridSection, matrix: gridSection, "lens-grid": gridSection };
  const sections = { "word-map": wordMap, rows: rowTable, ...grids };
  for (const stage of document.querySelectorAll(".stage")) {
    const { id } = stage.closest("section");
    (sections[id] || chartSection)(stage, id);
  }
  document.documentElement.classList.add("ready");
}
