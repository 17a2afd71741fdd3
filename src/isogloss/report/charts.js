/* Figures as charts: curves with bands over layers, steps or plans, and grids of shaded cells, from one figure spec. */

const SIZES = {
  curves: { width: 420, height: 270, left: 46, right: 12, top: 12, bottom: 40 },
  training: { width: 560, height: 300, left: 54, right: 16, top: 12, bottom: 42 },
  alone: { width: 860, height: 360, left: 60, right: 16, top: 12, bottom: 42 },
};
const DASHES = ["", "6 3", "2 2"];
const FIGURE = { section: "scores", xlabel: "step", ylabel: "", chosen: {} };
const AXIS_STEPS = [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];

/* The figures of a section, each with its run; a line has its numbers beside its look. */
function figuresOf(section) {
  const expand = (run) => (line) => {
    const curve = run.curves[line.c];
    return { ...curve, ...line, steps: run.steps[curve.steps], code: line.code || line.label };
  };
  const whole = (run, place) => (figure) => ({
    ...figure,
    place,
    run,
    ticks: figure.ticks && Object.entries(figure.ticks).map(([at, text]) => [Number(at), text]),
    panels: figure.panels.map((panel, index) => ({ ...panel, index, lines: panel.lines.map(expand(run)) })),
  });
  const own = (run) => run.figures.map((figure) => ({ ...FIGURE, ...figure })).filter((one) => one.section === section);
  return DATA.runs.flatMap((run, place) => own(run).map(whole(run, place)));
}

const linesOf = (figure) => figure.panels.flatMap((panel) => panel.lines);
const lastStep = (figures) => Math.max(1, ...figures.flatMap(linesOf).map((line) => line.steps.at(-1)));

/* Every figure of a section as a card. Figures of several runs with one name share a card, with a line for each run;
   what belongs to one run alone (scores, and the figures of a paper) does not. */
function chartSection(root, section) {
  const figures = figuresOf(section);
  if (!figures.length && section === "curves") root.append(quiet("These runs hold no measure by layer.", "p"));
  if (!figures.length) return;
  const own = section === "scores" || section === "pictures";
  const several = new Set(figures.map((figure) => figure.place)).size > 1;
  const groups = new Map();
  for (const figure of figures) {
    const key = own ? `${figure.place} ${figure.name}` : figure.name;
    groups.set(key, [...(groups.get(key) || []), figure]);
  }
  const page = { section, own, several, cursors: [], choice: {}, last: lastStep(figures) };
  const cards = [...groups.values()].map((group) => card(group, page));
  const change = (name) => (value) => {
    page.choice[name] = value;
    cards.forEach((one) => one.render());
  };
  const controls = [];
  const layered = section === "curves";
  const shown = new Set(layered ? figures.flatMap((figure) => figure.panels.map((panel) => panel.choice.Show)) : []);
  if (shown.size > 1) controls.push(menu("Show", [...shown].map((text) => [text, text]), change("Show")).node);
  if (layered && new Set(figures.map((figure) => lastStep([figure]))).size > 1) {
    const depth = html("input", { type: "checkbox", onchange: () => change("relative")(depth.checked) });
    controls.push(html("label", { class: "menu" }, depth, html("span", {}, "layers as a share of the depth")));
  }
  const samples = DATA.runs.map((run, place) => legendSample(runColour(place), "", run.name, 3));
  if (several && !own) controls.push(html("div", { class: "run-legend" }, ...samples));
  if (controls.length) root.append(html("div", { class: "controls" }, ...controls));
  const look = { curves: "panels", training: "panels large" }[section] || "panels wide-panels";
  root.append(html("div", { class: look }, ...cards.map((one) => one.node)));
  cards.forEach((one) => one.render());
}

/* One figure: its title, its menus, its legend, its panels and what they mean. */
function card(group, page) {
  const [first] = group;
  const several = page.several && !page.own;
  const choice = { Line: "" };
  const body = html("div", { class: "card-body" });
  const controls = cardMenus(group, several, choice).map(([label, name, options, chosen]) => {
    const change = (value) => {
      choice[name] = value;
      render();
    };
    const made = menu(label, options, change, chosen);
    made.select.dataset.choice = name;
    return made.node;
  });
  const title = page.own && page.several ? `${first.run.name}: ${first.title}` : first.title;
  const menus = controls.length ? html("div", { class: "controls" }, ...controls) : null;
  const about = { class: first.columns ? "panel whole" : "panel", "data-figure": first.name };
  const node = html("figure", about, html("h3", {}, title), menus, body);

  function render() {
    const chosen = { ...page.choice, ...choice };
    const own = (several ? group : [first]).flatMap((figure) => chosenPanels(figure, chosen));
    const panels = several ? mergedPanels(group, chosen) : own;
    node.hidden = !panels.length && Boolean(page.choice.Show);
    if (!panels.length) {
      body.replaceChildren(quiet("Not measured.", "p"));
      return;
    }
    const peers = (panel) => (several || first.columns ? panels : [panel]);
    const alone = panels.length === 1;
    const charts = panels.map((panel) => chart(first, panel, { page, peers: peers(panel), alone }));
    if (several && !alone) node.classList.add("whole");
    const look = first.columns === 3 ? "sub-panels three" : "sub-panels";
    const notes = new Set(own.map((panel) => panel.note));
    const words = [first.words, ...notes].filter(Boolean).join(" ");
    const drawn = alone ? charts[0] : html("div", { class: look }, ...charts);
    body.replaceChildren(legend(first, panels, several), drawn, html("figcaption", {}, words));
    page.cursors = page.cursors.filter((cursor) => cursor.node.isConnected);
  }
  return { node, render };
}

/* The menus of a card: units, layers, and which line stands for a run where several are compared. */
function cardMenus(group, several, choice) {
  const [first] = group;
  const choices = group.flatMap((figure) => figure.panels.map((panel) => panel.choice || {}));
  const values = (key) => [...new Set(choices.map((one) => one[key]).filter(Boolean))];
  const found = [];
  const units = values("Per");
  choice.Per = first.chosen.Per;
  if (units.length > 1) found.push(["Per", "Per", units.map((unit) => [unit, unit]), choice.Per]);
  const layers = values("Layer").sort((a, b) => a - b);
  if (layers.length > 1) {
    const which = first.better === "neither" ? "highest" : "best";
    const top = several ? `the ${which} of each run` : `${first.chosen.Layer} (${which})`;
    found.push(["Layer", "Layer", [["", top], ...layers.map((layer) => [layer, layer])], ""]);
  }
  const lines = group.flatMap(linesOf);
  const codes = new Map(lines.map((line) => [line.code, line.label]));
  if (several && codes.size > 1 && lines.some((line) => line.thick))
    found.push(["Show", "Line", [["", "what stands for all"], ...codes], ""]);
  return found;
}

/* The panels that the menus choose; what no menu speaks of is as the figure begins. */
function chosenPanels(figure, choice) {
  const agrees = ([key, value]) => value === (choice[key] || figure.chosen[key]);
  return figure.panels.filter((panel) => Object.entries(panel.choice || {}).every(agrees));
}

/* A line for each run: what stands for all in it, or the chosen one; where nothing does, a panel for each line. */
function mergedPanels(group, choice) {
  const found = new Map();
  const leads = group.flatMap(linesOf).some((line) => line.thick);
  for (const figure of group) {
    for (const panel of chosenPanels(figure, choice)) {
      const strong = panel.lines.filter((line) => !line.faint);
      const lead = strong.find((line) => (choice.Line ? line.code === choice.Line : line.thick));
      const layer = panel.choice && panel.choice.Layer;
      const label = layer ? `${figure.run.name}, layer ${layer}` : figure.run.name;
      for (const line of leads ? [lead].filter(Boolean) : strong) {
        const key = leads ? "" : line.code;
        const made = found.get(key) || { ...panel, title: strong.length > 1 && !leads ? line.label : "", lines: [] };
        made.lines.push({ ...line, colour: runColour(figure.place), label, thick: true, band: true, dash: 0 });
        found.set(key, made);
      }
    }
  }
  return [...found.values()];
}

/* A piece of a line, and what it stands for. */
function legendSample(colour, dash, text, width) {
  const line = { x1: 1, x2: 25, y1: 5, y2: 5, stroke: colour, "stroke-width": width, "stroke-dasharray": dash };
  return html("span", {}, svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, svg("line", line)), " ", text);
}

function legend(figure, panels, several) {
  const lines = panels.flatMap((panel) => panel.lines);
  const strong = new Map(lines.filter((line) => !line.faint).map((line) => [line.label, line]));
  const sample = ({ colour, dash, label, thick, dots }) => {
    if (dots) return html("span", {}, swatch(colour, true), " ", label);
    return legendSample(colour, DASHES[dash || 0], label, thick ? 3 : 1.8);
  };
  const entries = figure.better === "lower" ? [html("span", { class: "tag" }, "lower is better")] : [];
  if (strong.size > 1 && !(several && figure.section === "curves")) entries.push(...[...strong.values()].map(sample));
  const chance = lines.some((line) => line.floor && !line.faint) || panels.some((panel) => isNumber(panel.floor));
  if (chance) entries.push(legendSample("#8a8577", "3 3", "chance", 1.4));
  const references = new Set(panels.flatMap((panel) => Object.keys(panel.references || {})));
  for (const name of references) entries.push(legendSample("#CC79A7", "7 4", name, 1.6));
  const faint = lines.find((line) => line.faint);
  if (faint) entries.push(quiet(`thin: ${faint.label.includes(" ") ? "single pairs" : "single languages"}`, "span"));
  return html("div", { class: "panel-legend" }, ...entries);
}

/* The range of the vertical axis: that of lines, bands and levels, with some room, on the measure's own axis. */
function rangeOf(figure, panel, peers, log) {
  const column = (one) => one.index % (figure.columns || 1);
  const beside = peers.filter((one) => column(one) === column(panel));
  const band = (line) => (line.band === false ? [] : [...(line.low || []), ...(line.high || [])]);
  const more = (line) => (line.faint ? [] : [...band(line), ...(line.floor || [])]);
  const seen = beside
    .flatMap((one) => one.lines.flatMap((line) => [...line.value, ...more(line)]))
    .concat([panel.floor], Object.values(panel.references || {}))
    .filter((value) => isNumber(value) && (!log || value > 0));
  let [low, high] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
  if (figure.reach) return [(low + high - figure.reach) / 2, (low + high + figure.reach) / 2];
  if (log) {
    const factor = Math.max((high / low) ** 0.06, 1.01);
    return [low / factor, high * factor];
  }
  const { axis } = figure;
  if (axis && axis[0] === 0 && low >= 0) low = 0;
  if (axis && high > 0.8 * axis[1]) high = Math.max(axis[1], high);
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [!axis || low < 0 ? low - room : low, !axis || high < axis[1] ? high + room : high];
}

/* The axes of a panel: where a step and a value lie. Panels whose heights are compared share their range. */
function frameOf(figure, panel, { page, peers, size }) {
  const log = Boolean(figure.log || panel.log);
  const xlabel = panel.xlabel || figure.xlabel;
  const relative = page.choice.relative && xlabel === "layer";
  const [low, high] = rangeOf(figure, panel, peers, log);
  const steps = panel.lines.flatMap((line) => line.steps);
  let [from, to] = [Math.min(0, ...steps), Math.max(...steps)];
  if (page.section === "training" && xlabel === "step") to = page.last;
  if (relative) [from, to] = [0, 1];
  if (figure.ticks) [from, to] = [figure.ticks[0][0] - 0.4, figure.ticks.at(-1)[0] + 0.4];
  const ends = [size.height - size.bottom, size.top];
  const straight = linear(log ? [Math.log10(low), Math.log10(high)] : [low, high], ends);
  const across = linear([from, to], [size.left, size.width - size.right]);
  return {
    ...{ low, high, from, to, log, xlabel, relative, size },
    y: log ? (value) => straight(Math.log10(Math.max(value, low))) : straight,
    x: across,
    at: (line, place) => across(relative ? line.steps[place] / line.steps.at(-1) : line.steps[place]),
  };
}

function axes(frame, figure) {
  const { size } = frame;
  const [bottom, right] = [size.height - size.bottom, size.width - size.right];
  const rows = frame.log ? factorTicks(frame.low, frame.high) : ticks(frame.low, frame.high, size.width > 500 ? 5 : 4);
  const layers = frame.xlabel === "layer" && frame.from === 0;
  const whole = (step) => step <= frame.to && (frame.to < 3 || Number.isInteger(step));
  const steps = layers ? layerTicks(frame.to, 13) : ticks(frame.from, frame.to, 6).filter(whole);
  const shares = [0, 0.25, 0.5, 0.75, 1].map((share) => [share, `${share * 100}%`]);
  const columns = frame.relative ? shares : figure.ticks || steps.map((step) => [step, shortNumber(step)]);
  const below = (x) =>
    size.slanted
      ? { transform: `translate(${x + 4},${bottom + 12}) rotate(-38)`, "text-anchor": "end" }
      : { x, y: bottom + 17, "text-anchor": "middle" };
  const middle = { x: (size.left + right) / 2, y: size.height - 5, "text-anchor": "middle" };
  return [
    ...rows.flatMap((value) => [
      svg("line", { class: "rule", x1: size.left, x2: right, y1: frame.y(value), y2: frame.y(value) }),
      svg("text", { class: "tick", x: size.left - 7, y: frame.y(value) + 4, "text-anchor": "end" }, shortNumber(value)),
    ]),
    ...columns.map(([step, text]) => svg("text", { class: "tick", ...below(frame.x(step)) }, text)),
    size.top > 20 ? svg("text", { class: "axis-name", x: size.left - 7, y: 12 }, figure.ylabel) : null,
    svg("text", { class: "axis-name", ...middle }, frame.relative ? "depth" : frame.xlabel),
  ];
}

/* Powers of ten; or 1, 2, 5, 10; or closer: the coarsest that are four or more, as in `draw_matplotlib.py`. */
function factorTicks(low, high) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: last - first + 1 }, (_, place) => 10 ** (first + place));
  for (const series of AXIS_STEPS) {
    const found = powers.flatMap((power) => series.map((factor) => factor * power));
    const inside = found.filter((value) => value >= low && value <= high);
    if (inside.length >= 4) return inside.filter((_, place) => place % Math.ceil(inside.length / 9) === 0);
  }
  return ticks(low, high, 5).filter((value) => value > 0);
}

const pathThrough = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;

function pathOf(line, frame, dotted) {
  const known = line.value.map((value, at) => [value, at]).filter(([value]) => value !== null);
  const points = known.map(([value, at]) => [frame.at(line, at), frame.y(value)]);
  const open = { class: "published", r: 3.4, stroke: line.colour };
  const full = { class: "only", r: 3, fill: line.colour };
  const dots = points.map(([cx, cy]) => svg("circle", { ...(line.dots ? open : full), cx, cy }));
  if (line.dots || points.length === 1) return dots; // a line of one point would not be seen
  const kind = line.faint ? "faint-line" : line.thick ? "line thick" : "line";
  const look = { class: kind, stroke: line.colour, "stroke-dasharray": DASHES[line.dash || 0], "data-code": line.code };
  return [svg("path", { ...look, d: pathThrough(points) }), ...(dotted ? dots : [])];
}

/* Whether the chance of lines differs by more than the eye sees; each is drawn in its line's colour then. */
function chanceDiffers(lines) {
  const seen = (value) => (isNumber(value) ? value.toFixed(2) : "");
  const floors = lines.filter((line) => line.floor).map(({ floor }) => floor.map(seen).join());
  return new Set(floors).size > 1;
}

/* The interval of a line, and its chance as a dashed line. */
function bandOf(line, frame, ownChance) {
  const parts = [];
  const places = line.value.map((_, at) => at);
  const spot = (values) => (at) => [frame.at(line, at), frame.y(values[at])];
  const { low, high, floor, colour } = line;
  const known = places.filter((at) => line.band !== false && low && isNumber(low[at]) && isNumber(high[at]));
  if (known.length === 1 || line.dots) {
    for (const at of known) {
      const [[x, y1], [, y2]] = [spot(low)(at), spot(high)(at)];
      parts.push(svg("line", { class: "band-line", x1: x, x2: x, y1, y2, stroke: colour }));
    }
  } else if (known.length) {
    const edge = [...known.map(spot(high)), ...[...known].reverse().map(spot(low))];
    parts.push(svg("path", { class: "band", d: `${pathThrough(edge)}Z`, fill: colour }));
  }
  const chance = places.filter((at) => floor && isNumber(floor[at])).map(spot(floor));
  const look = ownChance ? { class: "own-floor", stroke: colour } : { class: "floor" };
  if (chance.length) parts.push(svg("path", { ...look, d: pathThrough(chance) }));
  return parts;
}

/* One panel as a picture that can be read off with the pointer. */
function chart(figure, panel, { page, peers, alone }) {
  const size = { ...(SIZES[page.section] || (alone ? SIZES.alone : SIZES.curves)) };
  if (page.own && figure.ylabel) size.top = 24;
  const words = (figure.ticks || []).map(([, text]) => text.length);
  size.slanted = words.length > 0 && Math.max(...words) * words.length * 7 > size.width - size.left;
  if (size.slanted) {
    size.bottom = 30 + 4.4 * Math.min(24, Math.max(...words));
    size.height += size.bottom - 42;
  }
  const frame = frameOf(figure, panel, { page, peers, size });
  const [top, bottom, left, right] = [size.top, size.height - size.bottom, size.left, size.width - size.right];
  const strong = panel.lines.filter((line) => !line.faint);
  const height = (line) => (line.thick ? 2 : line.faint ? 0 : 1);
  const upwards = [...panel.lines].sort((a, b) => height(a) - height(b));
  const straight = (kind, x1, x2, y1, y2) => svg("line", { class: kind, x1, x2, y1, y2 });
  const level = (value, kind) => straight(kind, left, right, frame.y(value), frame.y(value));
  const mark = (step) => straight("rule", frame.x(step), frame.x(step), top, bottom);
  const ring = (line) => {
    const at = line.steps.indexOf(line.best);
    const where = { cx: frame.at(line, at), cy: frame.y(line.value[at]) };
    return svg("circle", { class: "best", ...where, r: 4.5, stroke: line.colour });
  };
  const cursor = { node: svg("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" }), frame };
  page.cursors.push(cursor);
  const about = { role: "img", "aria-label": `${figure.title} ${panel.title || ""}` };
  const picture = svg(
    "svg",
    { class: "panel-figure", viewBox: `0 0 ${size.width} ${size.height}`, ...about },
    ...axes(frame, figure),
    ...(panel.marks || []).map(mark),
    ...strong.flatMap((line) => bandOf(line, frame, chanceDiffers(strong))),
    isNumber(panel.floor) ? level(panel.floor, "floor") : null,
    ...upwards.flatMap((line) => pathOf(line, frame, Boolean(figure.ticks))),
    ...strong.filter((line) => isNumber(line.best)).map(ring),
    ...Object.values(panel.references || {}).map((value) => level(value, "reference")),
    cursor.node,
  );
  picture.addEventListener("pointermove", (event) => pointAt(event, picture, { figure, panel, frame, page }));
  picture.addEventListener("pointerleave", () => {
    tooltip.hide();
    page.cursors.forEach((one) => one.node.setAttribute("visibility", "hidden"));
  });
  if (!panel.title) return picture;
  const [head, ...rest] = panel.title.split("\n");
  const lines = rest.length ? [html("strong", {}, head), ...rest.map((text) => quiet(text))] : [quiet(head)];
  return html("div", { class: "sub-panel" }, ...lines, picture);
}

const nearest = (steps, wanted) =>
  steps.reduce((best, step) => (Math.abs(step - wanted) < Math.abs(best - wanted) ? step : best), steps[0]);

/* The step nearest to the pointer, marked in every chart with that axis; the tooltip reads the values of this one. */
function pointAt(event, picture, { figure, panel, frame, page }) {
  const box = picture.getBoundingClientRect();
  const { width, left, right } = frame.size;
  const x = ((event.clientX - box.left) / box.width) * width;
  const share = Math.min(1, Math.max(0, (x - left) / (width - left - right)));
  const wanted = frame.from + share * (frame.to - frame.from);
  const step = frame.relative ? wanted : nearest(panel.lines.flatMap((line) => line.steps), wanted);
  for (const { node, frame: other } of page.cursors) {
    const inside = other.xlabel === frame.xlabel && step >= other.from && step <= other.to;
    node.setAttribute("visibility", inside ? "visible" : "hidden");
    moveLine(node, other.x(step));
  }
  tooltip.show(readings(figure, panel, frame, step), event.clientX, event.clientY);
}

function readings(figure, panel, frame, step) {
  const read = (line) => {
    const nearby = line.steps.indexOf(nearest(line.steps, step));
    const place = frame.relative ? Math.round(step * (line.steps.length - 1)) : nearby;
    return { line, place, step: line.steps[place], value: line.value[place] };
  };
  const beyond = ({ steps }) => step > steps.at(-1) || (frame.xlabel !== "step" && !steps.includes(step));
  const there = panel.lines.filter((line) => frame.relative || !beyond(line)).map(read);
  const found = there.filter(({ value }) => isNumber(value)).sort((a, b) => b.value - a.value);
  const named = ({ line, step: own }) => {
    if (frame.relative) return `${line.label} (layer ${own})`;
    return own === step ? line.label : `${line.label} (step ${whole(own)})`;
  };
  const strong = found.filter(({ line }) => !line.faint);
  const apart = chanceDiffers(strong.map(({ line }) => line));
  const row = (one) => {
    const { low, high, floor, colour, faint } = one.line;
    const known = low && !faint ? interval(low[one.place], high[one.place]) : "";
    const chance = apart && !faint && floor && isNumber(floor[one.place]) ? `chance ${number(floor[one.place])}` : "";
    const ends = quiet([known, chance].filter(Boolean).join(", "), "span");
    const value = html("strong", {}, number(one.value));
    return html("div", { class: "reading" }, swatch(colour), html("span", {}, named(one)), value, ends);
  };
  const floor = strong.map(({ line, place }) => line.floor && line.floor[place]).concat([panel.floor]).find(isNumber);
  const counts = strong.map(({ line, place }) => (Array.isArray(line.n) ? line.n[place] : 0)).filter(Boolean);
  const [few, many] = [Math.min(...counts), Math.max(...counts)].map(whole);
  const word = (figure.ticks || []).find(([at]) => at === step);
  const share = `${Math.round(step * 100)}% of the depth`;
  const where = word ? word[1] : frame.relative ? share : `${frame.xlabel} ${whole(step)}`;
  const title = panel.title ? panel.title.split("\n").at(-1) : figure.title;
  return [
    html("div", { class: "card-rule" }, `${title}, ${where}`),
    ...shortest(strong.map(row)),
    isNumber(floor) && !apart ? quiet(`chance ${number(floor)}`) : null,
    ...Object.entries(panel.references || {}).map(([name, value]) => quiet(`${name} ${number(value)}`)),
    ...shortest(found.filter(({ line }) => line.faint).map(row)),
    counts.length ? quiet(few === many ? `n = ${few}` : `n = ${few} to ${many}`) : null,
  ].filter(Boolean);
}

const shortest = (found) =>
  found.length <= 9 ? found : [...found.slice(0, 4), quiet(`${found.length - 8} more between`), ...found.slice(-4)];

function swatch(colour, open = false) {
  const ring = { cx: 5, cy: 5, r: 3.6, fill: "#fff", stroke: colour, "stroke-width": 1.6 };
  const shape = open ? svg("circle", ring) : svg("rect", { width: 10, height: 10, rx: 2, fill: colour });
  return svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, shape);
}

/* One grid at a time, chosen by menus: the run, the measure, and for a matrix the layer. */
function gridSection(root, section) {
  const figures = figuresOf(section);
  if (!figures.length) return root.append(quiet("These runs hold no measure by layer and language pair.", "p"));
  const runs = [...new Set(figures.map((figure) => figure.run))];
  const [stage, heading] = [html("div", { class: "grid-stage" }), html("h3")];
  let [own, shown] = [[], figures[0]];
  const show = (layer) => stage.replaceChildren(gridFigure(shown, Number(layer)));
  const layers = menu("Layer", [], show);
  layers.select.id = `${section}-layer`;
  const measures = menu("Show", [], (name) => choose(own.find((figure) => figure.name === name)));
  const pick = runMenu(runs, (place) => {
    const mine = figures.filter((figure) => figure.run === runs[place]);
    choose(mine.find((figure) => figure.name === shown.name) || mine[0]);
  });

  function choose(figure) {
    own = figures.filter((one) => one.run === figure.run);
    shown = figure;
    const single = own.length < 2;
    const option = (one) => html("option", { value: one.name, selected: one === figure }, one.title);
    measures.select.replaceChildren(...(single ? [] : own.map(option)));
    measures.node.hidden = single;
    heading.textContent = single ? figure.title : "";
    const best = Number(figure.chosen.Layer);
    const text = (step) => (step === best && figure.better !== "neither" ? `${step} (best)` : String(step));
    const entry = (step) => html("option", { value: step, selected: step === best }, text(step));
    if (figure.section === "matrix") layers.select.replaceChildren(...stepsOf(figure).map(entry));
    show(best);
  }
  const controls = [pick && pick.node, measures.node, section === "matrix" ? layers.node : null];
  root.append(heading, html("div", { class: "controls" }, ...controls), stage);
  return choose(shown);
}

const stepsOf = (figure) => [...new Set(linesOf(figure).flatMap((line) => line.steps))].sort((a, b) => a - b);

/* The numbers of one cell; empty where nothing was measured. */
function cellOf(line, step, same) {
  const at = line ? line.steps.indexOf(step) : -1;
  if (at < 0) return { value: null, same };
  const [value, low, high, floor] = ["value", "low", "high", "floor"].map((name) => line[name] && line[name][at]);
  const text = line.texts && line.texts[at];
  return { value, low, high, floor, text, members: line.members, n: Array.isArray(line.n) ? line.n[at] : line.n };
}

/* A grid of shaded cells: labels, values where there is room, and the key to the shades. */
function gridFigure(figure, layer) {
  const [panel] = figure.panels;
  const matrix = figure.section === "matrix";
  const steps = stepsOf(figure);
  const names = (figure.ticks || []).map(([, text]) => text);
  const byCell = new Map(panel.lines.map((line) => [String(line.cell), line]));
  const [rows, columns] = matrix ? [names, names] : [panel.lines.map((line) => line.label), steps.map(whole)];
  const cells = matrix
    ? names.map((row) => names.map((column) => cellOf(byCell.get(String([row, column])), layer, row === column)))
    : panel.lines.map((line) => steps.map((step) => cellOf(line, step)));
  const values = cells.flat().map((cell) => cell.value).filter(isNumber);
  const [low, high] = shadeRange(Math.min(...values), Math.max(...values), figure.axis);
  const share = linear([low, high], figure.better === "lower" ? [1, 0.04] : [0.04, 1]);
  LETTERS.font = "14px sans-serif";
  const longest = (labels) => Math.max(...labels.map((label) => LETTERS.measureText(label).width));
  const slanted = matrix && columns.some((label) => label.length > 4);
  const [left, top] = [longest(rows) + 22, slanted ? 26 + longest(columns) * 0.72 : 34];
  const width = Math.min(matrix ? 74 : 92, (1080 - left) / columns.length);
  const height = matrix ? Math.min(44, Math.max(26, width * 0.7)) : 30;
  const room = figure.xlabel === "step" ? 64 : 30;
  const every = layerTicks(columns.length - 1, Math.floor((width * columns.length) / room));
  const pair = (row, column) => `${row} ${figure.xlabel ? "to" : "and"} ${column}, layer ${layer}`;
  const title = (row, column) => (matrix ? pair(row, column) : `${row}, ${figure.xlabel} ${column}`);
  const label = (attributes, text) => svg("text", { class: "grid-label", ...attributes }, text);
  const head = (text, place) => {
    const x = left + (place + 0.5) * width;
    if (slanted) return label({ transform: `translate(${x - 4},${top - 8}) rotate(-45)` }, text);
    return matrix || every.includes(place) ? label({ x, y: top - 8, "text-anchor": "middle" }, text) : null;
  };
  const row = (text, at) => {
    const y = top + at * height;
    const box = { y, width, height, share };
    const name = label({ x: left - 12, y: y + height / 2 + 5, "text-anchor": "end" }, text);
    const drawn = (cell, column) =>
      gridCell(cell, { ...box, x: left + column * width, title: title(text, columns[column]) });
    return [name, ...cells[at].flatMap(drawn)];
  };
  const full = { width: left + width * columns.length + 80, height: top + height * rows.length + 8 };
  const view = { viewBox: `0 0 ${full.width} ${full.height}`, width: full.width };
  const picture = svg(
    "svg",
    { class: "grid-figure", ...view, role: "img", "aria-label": figure.title },
    svg("text", { class: "axis-name", x: left, y: 13 }, figure.xlabel),
    svg("text", { class: "axis-name", x: left - 12, y: top - 8, "text-anchor": "end" }, figure.ylabel),
    ...columns.map(head),
    ...rows.flatMap(row),
  );
  const box = html("div", { class: "grid-box" }, picture, shadeKey(low, high, figure.better));
  return html("div", {}, box, quiet(panel.note || "", "p"));
}

/* A tenth of the measure's own range at least, so that a hair's breadth does not look like a gulf; nothing below it. */
function shadeRange(low, high, axis) {
  const room = Math.max(0, (axis ? (axis[1] - axis[0]) / 10 : 0) - (high - low)) / 2;
  const [first, last] = [low - room, high + room];
  return axis && first < axis[0] && low >= axis[0] ? [axis[0], last + axis[0] - first] : [first, last];
}

function gridCell(cell, { x, y, width, height, share, title }) {
  const box = { x: x + 1, y: y + 1, width: width - 2, height: height - 2, rx: 2 };
  if (!isNumber(cell.value)) return [svg("rect", { ...box, class: cell.same ? "cell same" : "cell absent" })];
  const look = shade(share(cell.value));
  const counted = (n) => (cell.members > 1 ? `average of ${cell.members}, n = ${n} or more` : `n = ${n}`);
  const card = () => [
    html("div", { class: "card-rule" }, title),
    cell.text ? html("div", { dir: "auto" }, cell.text) : "",
    html("div", {}, html("strong", {}, number(cell.value)), quiet(interval(cell.low, cell.high), "span")),
    isNumber(cell.floor) ? quiet(`chance ${number(cell.floor)}`) : "",
    cell.n ? quiet(counted(whole(cell.n))) : "",
  ];
  const onpointermove = (event) => tooltip.show(card(), event.clientX, event.clientY);
  const acts = { onpointermove, onpointerleave: () => tooltip.hide() };
  const node = svg("rect", { ...box, class: "cell", fill: look.colour, ...acts });
  if (width < 44) return [node];
  const middle = { x: x + width / 2, y: y + height / 2 + 4.5, "text-anchor": "middle" };
  const fill = look.dark ? "#ffffff" : "#1f2a33";
  return [node, svg("text", { class: "cell-text", ...middle, fill }, cell.text ?? cell.value.toFixed(2))];
}

function shadeKey(low, high, better) {
  const block = (_, at) => {
    const share = better === "lower" ? 1 - at / 23 : at / 23;
    return svg("rect", { x: at * 8, width: 8.5, height: 12, fill: shade(share).colour });
  };
  const bar = svg("svg", { width: 192, height: 12, "aria-hidden": "true" }, ...Array.from({ length: 24 }, block));
  const words = better === "neither" ? null : quiet("darker is better", "span");
  return html("div", { class: "shade-key" }, html("span", {}, number(low)), bar, html("span", {}, number(high)), words);
}
