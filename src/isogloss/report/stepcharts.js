/* A training over its steps: one chart a measure, with its own menus for unit, layer and line. */

MORE_SECTIONS.training = (root) => {
  const several = DATA.runs.filter((run) => run.steps).length > 1;
  const cursors = [];
  root.append(
    several ? html("div", { class: "controls" }, runLegend()) : "",
    html("div", { class: "panels large" }, ...DATA.charts.map((chart) => stepChart(chart, { several, cursors }))),
  );
};

function stepChart(chart, { several, cursors }) {
  const panels = DATA.runs.map((run) => (run.steps || []).filter((panel) => panel.chart === chart.key));
  const all = panels.flat();
  const choice = { unit: all[0].unit, layer: "", code: "" };
  const body = html("div");
  const change = (name) => (value) => {
    choice[name] = value;
    render();
  };
  const units = [...new Set(all.map((panel) => panel.unit))];
  const layers = [...new Set(all.map((panel) => panel.layer))].sort((a, b) => a - b);
  const best = all.find((panel) => panel.best);
  const which = chart.better === "" ? "highest" : "best";
  const top = several ? `the ${which} of each run` : best ? `${best.layer} (${which})` : String(layers[0]);
  const codes = new Map(all.flatMap((panel) => panel.lines.map((line) => [line.code, line.label])));
  const menus = [
    units.length > 1 ? ["Per", units.map((unit) => [unit, unit]), "unit"] : null,
    chart.layered && layers.length > 1
      ? ["Layer", [["", top], ...layers.map((layer) => [String(layer), String(layer)])], "layer"]
      : null,
    several && codes.size > 1 ? ["Show", [["", "what stands for all"], ...codes], "code"] : null,
  ].filter(Boolean);
  const controls = menus.map(([label, options, name]) => {
    const made = menu(label, options, change(name));
    made.select.dataset.choice = name;
    return made.node;
  });
  const cursor = { node: null, frame: null };
  cursors.push(cursor);

  function render() {
    const chosen = panels.map((found) => choosePanel(found, chart, choice));
    const lines = stepLines(chosen, { chart, choice, several });
    const words = chosen.filter(Boolean).map((panel) => panel.basis);
    body.replaceChildren(
      stepLegend(chart, lines, several),
      lines.length ? stepPicture(chart, lines, { cursor, cursors }) : html("p", { class: "quiet" }, "Not measured."),
      html("figcaption", {}, chart.words, " ", several ? "" : words.join(" ")),
    );
  }
  render();
  return html(
    "figure",
    { class: "panel", "data-chart": chart.key.split("\u0000")[0] },
    html("h3", {}, chart.title),
    controls.length ? html("div", { class: "controls" }, ...controls) : null,
    body,
  );
}

/* The panel a run shows: of the wanted unit, at the wanted layer or its own best one. */
function choosePanel(found, chart, choice) {
  const own = found.filter((panel) => panel.unit === choice.unit);
  if (!chart.layered) return own[0];
  return choice.layer === ""
    ? own.find((panel) => panel.best) || own[0]
    : own.find((panel) => String(panel.layer) === choice.layer);
}

/* One run shows all its lines; several show one line each, in the colour of the run. */
function stepLines(chosen, { chart, choice, several }) {
  return chosen.flatMap((panel, place) => {
    if (!panel) return [];
    if (!several) return panel.lines.map((line) => strokeOf(line, line.colour, line.label));
    const line = panel.lines.find((one) => (choice.code ? one.code === choice.code : one.leads));
    const at = chart.layered ? `, layer ${panel.layer}` : "";
    if (!line) return [];
    return [strokeOf({ ...line, leads: true, band: true, dash: "" }, runColour(place), `${DATA.runs[place].name}${at}`)];
  });
}

function strokeOf(line, colour, label) {
  return { curve: line, colour, label, faint: false, dash: line.dash, leads: line.leads };
}

function stepLegend(chart, lines, several) {
  const entries = [];
  if (chart.better === "lower") entries.push(html("span", { class: "tag" }, "lower is better"));
  if (lines.length > 1 || several)
    entries.push(...lines.map((line) => legendSample(line.colour, line.dash, line.label, line.leads ? 3 : 1.8)));
  if (lines.some((line) => line.curve.floor)) entries.push(legendSample("#8a8577", "3 3", "chance", 1.4));
  return html("div", { class: "panel-legend" }, ...entries);
}
