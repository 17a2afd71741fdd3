/* What is taken by layer, as shades: layers upward, steps to the right. */

MORE_SECTIONS["step-grid"] = (root) => {
  const choices = DATA.charts
    .filter((chart) => chart.layered)
    .flatMap((chart) =>
      DATA.runs
        .map((run) => ({ chart, run, panels: (run.steps || []).filter((panel) => panel.chart === chart.key) }))
        .flatMap((choice) => gridLines(choice.panels).map((code) => ({ ...choice, code }))),
    );
  if (!choices.length) {
    root.append(html("p", { class: "quiet" }, "These runs hold no measure by layer and step."));
    return;
  }
  const stage = html("div", { class: "grid-stage" });
  const show = (place) => stage.replaceChildren(stepGrid(choices[place]));
  const named = ({ chart, run, code }) =>
    `${DATA.runs.length > 1 ? `${run.name}: ` : ""}${chart.title}${code ? `, ${code}` : ""}`;
  const pick = menu(
    "Show",
    choices.map((choice, place) => [place, named(choice)]),
    show,
  );
  const heading = html("h3", {}, named(choices[0]));
  root.append(choices.length > 1 ? html("div", { class: "controls" }, pick.node) : heading, stage);
  show(0);
};

/* The lines that have a grid: what stands for all (""), or each plan where plans are compared. */
function gridLines(panels) {
  const lines = panels.flatMap((panel) => panel.lines);
  if (lines.some((line) => line.leads)) return [""];
  return panels.some((panel) => panel.plans) ? [...new Set(lines.map((line) => line.code))] : [];
}

function stepGrid({ chart, panels, code }) {
  const led = panels
    .map((panel) => ({ layer: panel.layer, line: panel.lines.find((line) => (code ? line.code === code : line.leads)) }))
    .filter(({ line }) => line)
    .sort((a, b) => b.layer - a.layer);
  const steps = [...new Set(led.flatMap(({ line }) => line.steps))].sort((a, b) => a - b);
  const cells = led.map(({ line }) =>
    steps.map((step) => {
      const at = line.steps.indexOf(step);
      const read = (name) => (line[name] && at >= 0 ? line[name][at] : null);
      const numbers = { value: read("value"), low: read("low"), high: read("high"), floor: read("floor") };
      return { ...numbers, members: line.members, n: [read("n")] };
    }),
  );
  const values = cells.flat().map((cell) => cell.value).filter((value) => value !== null);
  let [low, high] = shadeRange(Math.min(...values), Math.max(...values), chart.span);
  // No shade for what cannot be, such as a share below nothing.
  if (chart.span && low < chart.span[0]) [low, high] = [chart.span[0], high + chart.span[0] - low];
  return html(
    "div",
    {},
    grid({
      rows: led.map(({ layer }) => `layer ${layer}`),
      columns: steps.map((step) => step.toLocaleString("en")),
      cells,
      state: { choice: { panel: { span: chart.span, better: chart.better } } },
      rowName: "",
      columnName: "step",
      name: (row, column) => `${row}, step ${column}`,
      room: 64,
      range: [low, high],
    }),
    html("p", { class: "quiet" }, "Each cell averages all directions; move over it for its interval."),
  );
}
