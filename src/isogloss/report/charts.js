/* Figures as charts: curves with bands over layers, steps or plans, and grids of shaded cells, from the one figure spec. */

const SIZES = {
  curves: { width: 420, height: 270, left: 46, right: 12, top: 12, bottom: 40 },
  training: { width: 560, height: 300, left: 54, right: 16, top: 12, bottom: 42 },
  alone: { width: 860, height: 360, left: 60, right: 16, top: 12, bottom: 42 },
};
const DASHES = ["", "6 3", "2 2"];
const AXIS_STEPS = [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]];

/* The figures of a section, each with its run; a line has its numbers beside its look. */
function figuresOf(section) {
  const expand = (run) => (line) => ({ n: 0, members: 1, ...run.curves[line.c], ...line, steps: run.steps[run.curves[line.c].steps], code: line.code || line.label });
  return DATA.runs.flatMap((run, place) =>
    run.figures
      .filter((figure) => figure.section === section)
      .map((figure) => ({
        ...figure,
        place,
        run,
        chosen: figure.chosen || {},
        panels: figure.panels.map((panel) => ({ ...panel, lines: panel.lines.map(expand(run)) })),
      })),
  );
}

/* Every figure of a section as a card. Figures of several runs with one name share a card, with a line for each run;
   what belongs to one run alone (scores, and the figures of a paper) does not. */
function chartSection(root, section) {
  const figures = figuresOf(section);
  if (!figures.length) {
    if (section === "curves") root.append(quiet("These runs hold no measure by layer.", "p"));
    return;
  }
  const own = section === "scores" || section === "pictures";
  const several = new Set(figures.map((figure) => figure.place)).size > 1;
  const groups = new Map();
  for (const figure of figures) {
    const key = own ? `${figure.place} ${figure.name}` : figure.name;
    groups.set(key, [...(groups.get(key) || []), figure]);
  }
  const page = { section, own, several, cursors: [], choice: {}, relative: false };
  page.last = Math.max(1, ...figures.flatMap((figure) => figure.panels.flatMap((panel) => panel.lines.map((line) => line.steps.at(-1)))));
  const cards = [...groups.values()].map((group) => card(group, page));
  const refresh = () => cards.forEach((one) => one.render());
  const shown = section === "curves" ? [...new Set(figures.flatMap((figure) => figure.panels.map((panel) => panel.choice.Show)))] : [];
  const pairs = menu("Show", shown.map((text) => [text, text]), (value) => {
    page.choice.Show = value;
    refresh();
  });
  const depth = html("input", {
    type: "checkbox",
    onchange: () => {
      page.relative = depth.checked;
      refresh();
    },
  });
  const ends = figures.map((figure) => Math.max(...figure.panels.flatMap((panel) => panel.lines.map((line) => line.steps.at(-1)))));
  const controls = [
    shown.length > 1 ? pairs.node : null,
    section === "curves" && new Set(ends).size > 1 ? html("label", { class: "menu" }, depth, html("span", {}, "layers as a share of the depth")) : null,
    several && !own ? html("div", { class: "run-legend" }, ...DATA.runs.map((run, place) => legendSample(runColour(place), "", run.name, 3))) : null,
  ].filter(Boolean);
  const look = { curves: "panels", training: "panels large" }[section] || "panels wide-panels";
  root.append(controls.length ? html("div", { class: "controls" }, ...controls) : "", html("div", { class: look }, ...cards.map((one) => one.node)));
  refresh();
}

/* One figure: its title, its menus, its legend, its panels and what they mean. */
function card(group, page) {
  const [first] = group;
  const several = page.several && !page.own;
  const choice = { Line: "" };
  const body = html("div", { class: "card-body" });
  const cursors = [];
  const change = (name) => (value) => {
    choice[name] = value;
    render();
  };
  const controls = cardMenus(group, several, choice).map(([label, name, options, chosen]) => {
    const made = menu(label, options, change(name), chosen);
    made.select.dataset.choice = name;
    return made.node;
  });
  const name = page.own && page.several ? `${first.run.name}: ${first.title}` : first.title;
  const node = html(
    "figure",
    { class: `panel${first.columns ? " whole" : ""}`, "data-figure": first.name },
    html("h3", {}, name),
    controls.length ? html("div", { class: "controls" }, ...controls) : null,
    body,
  );

  function render() {
    cursors.splice(0).forEach((cursor) => page.cursors.splice(page.cursors.indexOf(cursor), 1));
    const panels = several ? mergedPanels(group, { ...page.choice, ...choice }) : chosenPanels(first, { ...page.choice, ...choice });
    node.hidden = !panels.length && Boolean(page.choice.Show);
    if (!panels.length) {
      body.replaceChildren(quiet("Not measured.", "p"));
      return;
    }
    const notes = [...new Set((several ? group : [first]).flatMap((figure) => chosenPanels(figure, { ...page.choice, ...choice })).map((panel) => panel.note))];
    const shared = several || first.shared ? panels : null;
    const charts = panels.map((panel) => chart(first, panel, { page, cursors, peers: shared || [panel], alone: panels.length === 1 }));
    const wide = panels.length > 1 ? html("div", { class: first.columns === 3 ? "sub-panels three" : "sub-panels" }, ...charts) : charts[0];
    const words = [first.words, first.caption, ...notes].filter(Boolean).join(" ");
    body.replaceChildren(legend(first, panels, several), wide, html("figcaption", {}, words));
  }
  return { node, render };
}

/* The menus of a card: units, layers, and which line stands for a run where several are compared. */
function cardMenus(group, several, choice) {
  const values = (key) => [...new Set(group.flatMap((figure) => figure.panels.map((panel) => (panel.choice || {})[key])).filter(Boolean))];
  const found = [];
  const units = values("Per");
  choice.Per = group[0].chosen.Per;
  if (units.length > 1) found.push(["Per", "Per", units.map((unit) => [unit, unit]), choice.Per]);
  const layers = values("Layer").sort((a, b) => a - b);
  if (layers.length > 1) {
    const which = group[0].better === "neither" ? "highest" : "best";
    const top = several ? `the ${which} of each run` : `${group[0].chosen.Layer} (${which})`;
    found.push(["Layer", "Layer", [["", top], ...layers.map((layer) => [layer, layer])], ""]);
  }
  const lines = group.flatMap((figure) => figure.panels.flatMap((panel) => panel.lines));
  const codes = new Map(lines.map((line) => [line.code, line.label]));
  if (several && codes.size > 1 && lines.some((line) => line.thick)) found.push(["Show", "Line", [["", "what stands for all"], ...codes], ""]);
  return found;
}

/* The panels that the menus choose; what no menu speaks of is as the figure begins. */
function chosenPanels(figure, choice) {
  return figure.panels.filter((panel) => Object.entries(panel.choice || {}).every(([key, value]) => value === (choice[key] || figure.chosen[key])));
}

/* A line for each run: what stands for all in it, or the chosen one; where nothing does, a panel for each line. */
function mergedPanels(group, choice) {
  const found = new Map();
  for (const figure of group) {
    for (const panel of chosenPanels(figure, choice)) {
      const strong = panel.lines.filter((line) => !line.faint);
      const lead = strong.find((line) => (choice.Line ? line.code === choice.Line : line.thick));
      const leads = group.some((one) => one.panels.some((other) => other.lines.some((line) => line.thick)));
      for (const line of leads ? [lead].filter(Boolean) : strong) {
        const key = leads ? "" : line.code;
        const layer = panel.choice && panel.choice.Layer;
        const label = layer ? `${figure.run.name}, layer ${layer}` : figure.run.name;
        const made = found.get(key) || { ...panel, title: strong.length > 1 && !leads ? line.label : "", lines: [] };
        made.lines.push({ ...line, colour: runColour(figure.place), label, thick: true, flat: false, dash: 0 });
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
  const entries = [];
  if (figure.better === "lower") entries.push(html("span", { class: "tag" }, "lower is better"));
  if (strong.size > 1 && !(several && figure.section === "curves"))
    for (const line of strong.values())
      entries.push(line.dots ? html("span", {}, swatch(line.colour, true), " ", line.label) : legendSample(line.colour, DASHES[line.dash || 0], line.label, line.thick ? 3 : 1.8));
  if (lines.some((line) => line.floor && !line.faint) || panels.some((panel) => isNumber(panel.floor))) entries.push(legendSample("#8a8577", "3 3", "chance", 1.4));
  const references = new Set(panels.flatMap((panel) => (panel.references || []).map(([name]) => name)));
  for (const name of references) entries.push(legendSample("#CC79A7", "7 4", name, 1.6));
  const faint = lines.filter((line) => line.faint);
  if (faint.length) entries.push(quiet(`thin: ${faint[0].label.includes(" ") ? "single pairs" : "single languages"}`, "span"));
  return html("div", { class: "panel-legend" }, ...entries);
}

/* The axes of a panel: where a step and a value lie. Panels whose heights are compared share their range. */
function frameOf(figure, panel, { page, peers, size }) {
  const log = Boolean(figure.log || panel.log);
  const xlabel = panel.xlabel || figure.xlabel || "";
  const lines = peers.filter((one) => (one.xlabel || "") === (panel.xlabel || "")).filter((one, _, all) => !figure.shared || sameColumn(figure, panel, one, all)).flatMap((one) => one.lines);
  const seen = lines
    .flatMap((line) => [...line.value, ...(line.faint || line.flat ? [] : [...(line.low || []), ...(line.high || [])]), ...(line.faint ? [] : line.floor || [])])
    .concat(isNumber(panel.floor) ? [panel.floor] : [], (panel.references || []).map(([, value]) => value))
    .filter((value) => isNumber(value) && (!log || value > 0));
  let [low, high] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
  if (figure.reach) [low, high] = [(low + high - figure.reach) / 2, (low + high + figure.reach) / 2];
  else if (log) {
    const room = Math.max((high / low) ** 0.06, 1.01);
    [low, high] = [low / room, high * room];
  } else {
    const { axis } = figure;
    if (axis && axis[0] === 0 && low >= 0) low = 0;
    if (axis && high > 0.8 * axis[1]) high = Math.max(axis[1], high);
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    if (!axis || low < 0) low -= room;
    if (!axis || high < axis[1]) high += room;
  }
  const steps = panel.lines.flatMap((line) => line.steps);
  const relative = page.relative && xlabel === "layer";
  let [from, to] = [Math.min(0, ...steps), Math.max(...steps)];
  if (page.section === "training" && xlabel === "step") to = page.last;
  if (relative) [from, to] = [0, 1];
  if (figure.ticks) [from, to] = [Math.min(...figure.ticks.map(([at]) => at)) - 0.4, Math.max(...figure.ticks.map(([at]) => at)) + 0.4];
  const straight = linear(log ? [Math.log10(low), Math.log10(high)] : [low, high], [size.height - size.bottom, size.top]);
  const across = linear([from, to], [size.left, size.width - size.right]);
  return {
    ...{ low, high, from, to, log, xlabel, relative, size },
    y: log ? (value) => straight(Math.log10(Math.max(value, low))) : straight,
    x: across,
    at: (line, place) => across(relative ? line.steps[place] / line.steps.at(-1) : line.steps[place]),
  };
}

function sameColumn(figure, panel, other) {
  const column = (one) => figure.panels.findIndex((each) => each.title === one.title && each.lines[0].c === one.lines[0].c) % (figure.columns || 1);
  return !figure.columns || column(panel) === column(other);
}

function axes(frame, figure) {
  const { size } = frame;
  const bottom = size.height - size.bottom;
  const right = size.width - size.right;
  const rows = frame.log ? factorTicks(frame.low, frame.high) : ticks(frame.low, frame.high, size.width > 500 ? 5 : 4);
  const layers = frame.xlabel === "layer" && frame.from === 0;
  let columns = layers ? layerTicks(frame.to, 13) : ticks(frame.from, frame.to, 6).filter((step) => step <= frame.to && (frame.to < 3 || Number.isInteger(step)));
  columns = columns.map((step) => [step, layers ? String(step) : shortNumber(step)]);
  if (frame.relative) columns = [0, 0.25, 0.5, 0.75, 1].map((share) => [share, `${share * 100}%`]);
  if (figure.ticks) columns = figure.ticks;
  const slanted = size.slanted ? (x) => ({ transform: `translate(${x + 4},${bottom + 12}) rotate(-38)`, "text-anchor": "end" }) : (x) => ({ x, y: bottom + 17, "text-anchor": "middle" });
  return [
    ...rows.flatMap((value) => [
      svg("line", { class: "rule", x1: size.left, x2: right, y1: frame.y(value), y2: frame.y(value) }),
      svg("text", { class: "tick", x: size.left - 7, y: frame.y(value) + 4, "text-anchor": "end" }, shortNumber(value)),
    ]),
    ...columns.map(([step, text]) => svg("text", { class: "tick", ...slanted(frame.x(step)) }, text)),
    size.top > 20 ? svg("text", { class: "axis-name", x: size.left - 7, y: 12 }, figure.ylabel) : null,
    svg("text", { class: "axis-name", x: (size.left + right) / 2, y: size.height - 5, "text-anchor": "middle" }, frame.relative ? "depth" : frame.xlabel),
  ];
}

/* Powers of ten; or 1, 2, 5, 10; or closer: the coarsest that are four or more, as `draw_matplotlib.py` chooses them. */
function factorTicks(low, high) {
  for (const series of AXIS_STEPS) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
      for (const factor of series) found.push(factor * 10 ** power);
    const inside = found.filter((value) => value >= low && value <= high);
    if (inside.length >= 4) return inside.filter((_, place) => place % Math.ceil(inside.length / 9) === 0);
  }
  return ticks(low, high, 5).filter((value) => value > 0);
}

const pathThrough = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;

function pathOf(line, frame) {
  const points = line.value.map((value, at) => [frame.at(line, at), value]).filter(([, value]) => value !== null).map(([x, value]) => [x, frame.y(value)]);
  const dot = ([cx, cy]) => svg("circle", line.dots ? { class: "published", cx, cy, r: 3.4, stroke: line.colour } : { class: "only", cx, cy, r: 3, fill: line.colour });
  if (line.dots || points.length === 1) return points.map(dot); // a line of one point would not be seen
  const kind = line.faint ? "faint-line" : line.thick ? "line thick" : "line";
  return [svg("path", { class: kind, d: pathThrough(points), stroke: line.colour, "stroke-dasharray": DASHES[line.dash || 0], "data-code": line.code })];
}

/* The interval of a line, and its chance as a dashed line. */
function bandOf(line, frame) {
  const parts = [];
  const known = line.value.map((_, at) => at).filter((at) => line.low && line.high && isNumber(line.low[at]) && isNumber(line.high[at]));
  const spot = (values) => (at) => [frame.at(line, at), frame.y(values[at])];
  if (known.length === 1 && !line.flat) {
    const [[x, y1], [, y2]] = [spot(line.low)(known[0]), spot(line.high)(known[0])];
    parts.push(svg("line", { class: "band-line", x1: x, x2: x, y1, y2, stroke: line.colour }));
  } else if (known.length && !line.flat) {
    const edge = [...known.map(spot(line.high)), ...[...known].reverse().map(spot(line.low))];
    parts.push(svg("path", { class: "band", d: `${pathThrough(edge)}Z`, fill: line.colour }));
  }
  if (line.floor) parts.push(svg("path", { class: "floor", d: pathThrough(line.floor.map((value, at) => [value, at]).filter(([value]) => value !== null).map(([value, at]) => [frame.at(line, at), frame.y(value)])) }));
  return parts;
}

/* One panel as a picture that can be read off with the pointer. */
function chart(figure, panel, { page, cursors, peers, alone }) {
  const size = { ...(SIZES[page.section] || (alone ? SIZES.alone : SIZES.curves)) };
  if (page.own && figure.ylabel) size.top = 24;
  const words = (figure.ticks || []).map(([, text]) => text.length);
  size.slanted = words.length > 0 && Math.max(...words) * words.length * 7 > size.width - size.left;
  if (size.slanted) {
    size.bottom = 30 + 4.4 * Math.min(24, Math.max(...words));
    size.height += size.bottom - 42;
  }
  const frame = frameOf(figure, panel, { page, peers, size });
  const bottom = size.height - size.bottom;
  const [strong, faint] = [panel.lines.filter((line) => !line.faint), panel.lines.filter((line) => line.faint)];
  const level = (value, kind) => svg("line", { class: kind, x1: size.left, x2: size.width - size.right, y1: frame.y(value), y2: frame.y(value) });
  const rings = strong.filter((line) => isNumber(line.best)).map((line) => [line, line.steps.indexOf(line.best)]);
  const cursor = { node: svg("line", { class: "cursor", y1: size.top, y2: bottom, visibility: "hidden" }), frame };
  cursors.push(cursor);
  page.cursors.push(cursor);
  const picture = svg(
    "svg",
    { class: "panel-figure", viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": `${figure.title} ${panel.title || ""}` },
    ...axes(frame, figure),
    ...(panel.marks || []).map((step) => svg("line", { class: "rule", x1: frame.x(step), x2: frame.x(step), y1: size.top, y2: bottom })),
    ...strong.flatMap((line) => bandOf(line, frame)),
    isNumber(panel.floor) ? level(panel.floor, "floor") : null,
    ...[...faint, ...strong].sort((a, b) => Boolean(a.thick) - Boolean(b.thick)).flatMap((line) => pathOf(line, frame)),
    ...rings.map(([line, at]) => svg("circle", { class: "best", cx: frame.at(line, at), cy: frame.y(line.value[at]), r: 4.5, stroke: line.colour })),
    ...(panel.references || []).map(([, value]) => level(value, "reference")),
    cursor.node,
  );
  picture.addEventListener("pointermove", (event) => pointAt(event, picture, { figure, panel, frame, page }));
  picture.addEventListener("pointerleave", () => {
    tooltip.hide();
    page.cursors.forEach((one) => one.node.setAttribute("visibility", "hidden"));
  });
  return panel.title ? html("div", { class: "sub-panel" }, ...panel.title.split("\n").map((text, at) => (at || !panel.title.includes("\n") ? quiet(text) : html("strong", {}, text))), picture) : picture;
}

const nearest = (steps, wanted) => steps.reduce((found, step) => (Math.abs(step - wanted) < Math.abs(found - wanted) ? step : found), steps[0]);

/* The step nearest to the pointer, marked in every chart with that axis at once; the tooltip reads this one's values. */
function pointAt(event, picture, { figure, panel, frame, page }) {
  const box = picture.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * frame.size.width;
  const share = Math.min(1, Math.max(0, (x - frame.size.left) / (frame.size.width - frame.size.left - frame.size.right)));
  const wanted = frame.from + share * (frame.to - frame.from);
  const step = frame.relative ? wanted : nearest(panel.lines.flatMap((line) => line.steps), wanted);
  for (const { node, frame: other } of page.cursors) {
    const inside = other.xlabel === frame.xlabel && step >= other.from && step <= other.to;
    node.setAttribute("visibility", inside ? "visible" : "hidden");
    node.setAttribute("x1", other.x(step));
    node.setAttribute("x2", other.x(step));
  }
  tooltip.show(readings(figure, panel, frame, step), event.clientX, event.clientY);
}

function readings(figure, panel, frame, step) {
  const read = (line) => {
    const place = frame.relative ? Math.round(step * (line.steps.length - 1)) : line.steps.indexOf(nearest(line.steps, step));
    return { line, place, step: line.steps[place], value: line.value[place] };
  };
  const beyond = (line) => !frame.relative && (step > line.steps.at(-1) || (frame.xlabel !== "step" && !line.steps.includes(step)));
  const found = panel.lines.filter((line) => !beyond(line)).map(read).filter(({ value }) => isNumber(value)).sort((a, b) => b.value - a.value);
  const named = ({ line, step: own }) => (frame.relative ? `${line.label} (layer ${own})` : own === step ? line.label : `${line.label} (step ${whole(own)})`);
  const row = (one) =>
    html(
      "div",
      { class: "reading" },
      swatch(one.line.colour),
      html("span", {}, named(one)),
      html("strong", {}, number(one.value)),
      quiet(one.line.low && !one.line.faint ? interval(one.line.low[one.place], one.line.high[one.place]) : "", "span"),
    );
  const strong = found.filter(({ line }) => !line.faint);
  const floor = strong.map(({ line, place }) => (line.floor ? line.floor[place] : null)).concat([panel.floor]).find(isNumber);
  const counts = strong.map(({ line, place }) => (Array.isArray(line.n) ? line.n[place] : 0)).filter((count) => count > 0);
  const [few, many] = [Math.min(...counts), Math.max(...counts)].map(whole);
  const word = (figure.ticks || []).find(([at]) => at === step);
  const where = word ? word[1] : frame.relative ? `${Math.round(step * 100)}% of the depth` : `${frame.xlabel} ${whole(step)}`;
  return [
    html("div", { class: "card-rule" }, `${panel.title ? `${panel.title.split("\n").at(-1)}` : figure.title}, ${where}`),
    ...shortest(strong.map(row)),
    isNumber(floor) ? quiet(`chance ${number(floor)}`) : null,
    ...(panel.references || []).map(([name, value]) => quiet(`${name} ${number(value)}`)),
    ...shortest(found.filter(({ line }) => line.faint).map(row)),
    counts.length ? quiet(few === many ? `n = ${few}` : `n = ${few} to ${many}`) : null,
  ].filter(Boolean);
}

function shortest(found) {
  return found.length <= 9 ? found : [...found.slice(0, 4), quiet(`${found.length - 8} more between`), ...found.slice(-4)];
}

function swatch(colour, open = false) {
  const square = open ? svg("circle", { cx: 5, cy: 5, r: 3.6, fill: "#fff", stroke: colour, "stroke-width": 1.6 }) : svg("rect", { width: 10, height: 10, rx: 2, fill: colour });
  return svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, square);
}

/* One grid at a time, chosen by menus: the run, the measure, and for a matrix the layer. */
function gridSection(root, section) {
  const figures = figuresOf(section);
  if (!figures.length) {
    root.append(quiet("These runs hold no measure by layer and language pair.", "p"));
    return;
  }
  const runs = [...new Set(figures.map((figure) => figure.run))];
  const stage = html("div", { class: "grid-stage" });
  const state = { run: runs[0], figure: figures[0], layer: null };
  const show = () => stage.replaceChildren(gridFigure(state.figure, state.layer));
  const layers = menu("Layer", [], (layer) => {
    state.layer = Number(layer);
    show();
  });
  layers.select.id = `${section}-layer`;
  const measures = menu("Show", [], (name) => choose(figures.find((figure) => figure.run === state.run && figure.name === name)));
  const heading = html("h3");
  const pick = runMenu(runs, (place) => {
    state.run = runs[place];
    const own = figures.filter((figure) => figure.run === state.run);
    choose(own.find((figure) => figure.name === state.figure.name) || own[0]);
  });

  function choose(figure) {
    state.figure = figure;
    const own = figures.filter((one) => one.run === state.run);
    measures.select.replaceChildren(...(own.length > 1 ? own : []).map((one) => html("option", { value: one.name, selected: one === figure }, one.title)));
    measures.node.hidden = own.length < 2;
    heading.textContent = own.length < 2 ? figure.title : "";
    if (figure.kind === "matrix") {
      const steps = [...new Set(figure.panels[0].lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
      state.layer = Number(figure.chosen.Layer);
      const text = (step) => (step === state.layer && figure.better !== "neither" ? `${step} (best)` : String(step));
      layers.select.replaceChildren(...steps.map((step) => html("option", { value: step, selected: step === state.layer }, text(step))));
    }
    show();
  }
  root.append(heading, html("div", { class: "controls" }, pick && pick.node, measures.node, section === "matrix" ? layers.node : null), stage);
  choose(state.figure);
}

/* A grid of shaded cells: labels, values where there is room, and the key to the shades. */
function gridFigure(figure, layer) {
  const [panel] = figure.panels;
  const matrix = figure.kind === "matrix";
  const read = (line, step) => {
    const at = line ? line.steps.indexOf(step) : -1;
    const cell = (name) => (at >= 0 && line[name] ? line[name][at] : null);
    return { value: cell("value"), low: cell("low"), high: cell("high"), floor: cell("floor"), members: line ? line.members : 0, n: line && Array.isArray(line.n) ? cell("n") : line ? line.n : 0 };
  };
  const steps = [...new Set(panel.lines.flatMap((line) => line.steps))].sort((a, b) => a - b);
  const names = (figure.ticks || []).map(([, text]) => text);
  const at = (row, column) => panel.lines.find((line) => line.cell[0] === row && line.cell[1] === column);
  const [rows, columns] = matrix ? [names, names] : [panel.lines.map((line) => line.label), steps.map(whole)];
  const cells = matrix
    ? names.map((row) => names.map((column) => ({ ...read(at(row, column), layer), same: row === column })))
    : panel.lines.map((line) => steps.map((step) => read(line, step)));
  const values = cells.flat().map((cell) => cell.value).filter(isNumber);
  const [low, high] = shadeRange(Math.min(...values), Math.max(...values), figure.axis);
  const share = linear([low, high], figure.better === "lower" ? [1, 0.04] : [0.04, 1]);
  LETTERS.font = "14px sans-serif";
  const longest = (labels) => Math.max(...labels.map((label) => LETTERS.measureText(label).width));
  const left = longest(rows) + 22;
  const slanted = matrix && columns.some((label) => label.length > 4);
  const top = slanted ? 26 + longest(columns) * 0.72 : 34;
  const width = Math.min(matrix ? 74 : 92, (1080 - left) / columns.length);
  const height = matrix ? Math.min(44, Math.max(26, width * 0.7)) : 30;
  const every = layerTicks(columns.length - 1, Math.floor((width * columns.length) / (figure.xlabel === "step" ? 64 : 30)));
  const title = (row, column) => (matrix ? `${row} ${figure.xlabel ? "to" : "and"} ${column}, layer ${layer}` : `${row}, ${figure.xlabel} ${column}`);
  const parts = [
    svg("text", { class: "axis-name", x: left, y: 13 }, figure.xlabel || ""),
    svg("text", { class: "axis-name", x: left - 12, y: top - 8, "text-anchor": "end" }, figure.ylabel || ""),
    ...columns.map((label, place) => {
      const x = left + (place + 0.5) * width;
      if (slanted) return svg("text", { class: "grid-label", transform: `translate(${x - 4},${top - 8}) rotate(-45)` }, label);
      return matrix || every.includes(place) ? svg("text", { class: "grid-label", x, y: top - 8, "text-anchor": "middle" }, label) : null;
    }),
    ...rows.flatMap((label, row) => [
      svg("text", { class: "grid-label", x: left - 12, y: top + (row + 0.5) * height + 5, "text-anchor": "end" }, label),
      ...cells[row].flatMap((cell, column) => gridCell(cell, { x: left + column * width, y: top + row * height, width, height, share, title: title(label, columns[column]) })),
    ]),
  ];
  const full = { width: left + width * columns.length + 80, height: top + height * rows.length + 8 };
  const look = { class: "grid-figure", viewBox: `0 0 ${full.width} ${full.height}`, width: full.width, role: "img", "aria-label": figure.title };
  return html("div", {}, html("div", { class: "grid-box" }, svg("svg", look, ...parts), shadeKey(low, high, figure.better)), quiet(panel.note || "", "p"));
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
  const counted = cell.members > 1 ? `average of ${cell.members}, n = ${whole(cell.n)} or more` : `n = ${whole(cell.n)}`;
  const card = () => [
    html("div", { class: "card-rule" }, title),
    html("div", {}, html("strong", {}, number(cell.value)), quiet(interval(cell.low, cell.high), "span")),
    isNumber(cell.floor) ? quiet(`chance ${number(cell.floor)}`) : "",
    cell.n ? quiet(counted) : "",
  ];
  const onpointermove = (event) => tooltip.show(card(), event.clientX, event.clientY);
  const node = svg("rect", { ...box, class: "cell", fill: look.colour, onpointermove, onpointerleave: () => tooltip.hide() });
  if (width < 44) return [node];
  const place = { x: x + width / 2, y: y + height / 2 + 4.5, "text-anchor": "middle", fill: look.dark ? "#ffffff" : "#1f2a33" };
  return [node, svg("text", { class: "cell-text", ...place }, cell.value.toFixed(2))];
}

function shadeKey(low, high, better) {
  const steps = Array.from({ length: 24 }, (_, at) => at / 23);
  const colour = (share) => shade(better === "lower" ? 1 - share : share).colour;
  const bar = svg("svg", { width: 192, height: 12, "aria-hidden": "true" }, ...steps.map((share, at) => svg("rect", { x: at * 8, width: 8.5, height: 12, fill: colour(share) })));
  const words = better === "neither" ? null : quiet("darker is better", "span");
  return html("div", { class: "shade-key" }, html("span", {}, number(low)), bar, html("span", {}, number(high)), words);
}
