/* The drawing of a chart over steps: frame, axes that may count in factors, and what the pointer reads off. */

const STEP_PANEL = { width: 560, height: 300, left: 54, right: 16, top: 12, bottom: 42 };

function stepPicture(chart, lines, { cursor, cursors }) {
  const frame = stepFrame(chart, lines);
  const bottom = STEP_PANEL.height - STEP_PANEL.bottom;
  const drawn = [...lines].sort((a, b) => a.leads - b.leads);
  cursor.frame = frame;
  cursor.node = svg("line", { class: "cursor", y1: STEP_PANEL.top, y2: bottom, visibility: "hidden" });
  const picture = svg(
    "svg",
    {
      class: "panel-figure",
      viewBox: `0 0 ${STEP_PANEL.width} ${STEP_PANEL.height}`,
      role: "img",
      "aria-label": `${chart.title} over the steps`,
    },
    ...stepAxes(frame),
    ...drawn.flatMap((line) => bandOf({ ...line, curve: banded(line.curve) }, frame)),
    ...drawn.map((line) => strokeLine(line, frame)),
    cursor.node,
  );
  picture.addEventListener("pointermove", (event) => pointStep(event, picture, { chart, lines, frame, cursors }));
  picture.addEventListener("pointerleave", () => {
    tooltip.hide();
    cursors.forEach((one) => one.node && one.node.setAttribute("visibility", "hidden"));
  });
  return picture;
}

function banded(curve) {
  return curve.band ? curve : { ...curve, low: null, high: null };
}

function strokeLine(line, frame) {
  const node = pathOf(line, frame);
  node.classList.toggle("thin", !line.leads);
  node.setAttribute("data-code", line.curve.code);
  return node;
}

/* All charts share the steps across, so that the cursor stands at one moment in all of them. */
function stepFrame(chart, lines) {
  const every = DATA.runs.flatMap((run) => run.steps || []).flatMap((panel) => panel.lines);
  const last = every.reduce((most, line) => Math.max(most, line.steps.at(-1)), 1);
  const seen = lines
    .flatMap(({ curve }) => [
      ...curve.value,
      ...(curve.band ? [...(curve.low || []), ...(curve.high || [])] : []),
      ...(curve.floor || []),
    ])
    .filter((value) => value !== null && (!chart.log || value > 0));
  let [low, high] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
  if (chart.log) {
    const room = Math.max((high / low) ** 0.06, 1.01);
    [low, high] = [low / room, high * room];
  } else {
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    const floored = chart.span && chart.span[0] === 0 && low >= 0;
    [low, high] = [floored ? 0 : low - room, high + room];
  }
  const ends = [STEP_PANEL.height - STEP_PANEL.bottom, STEP_PANEL.top];
  const straight = linear(chart.log ? [Math.log10(low), Math.log10(high)] : [low, high], ends);
  return {
    low,
    high,
    last,
    log: chart.log,
    y: chart.log ? (value) => straight(Math.log10(Math.max(value, low))) : straight,
    x: linear([0, last], [STEP_PANEL.left, STEP_PANEL.width - STEP_PANEL.right]),
  };
}

function stepAxes(frame) {
  const bottom = STEP_PANEL.height - STEP_PANEL.bottom;
  const rows = frame.log ? factorTicks(frame.low, frame.high) : ticks(frame.low, frame.high, 5);
  return [
    ...rows.flatMap((value) => [
      svg("line", {
        class: "rule",
        x1: STEP_PANEL.left,
        x2: STEP_PANEL.width - STEP_PANEL.right,
        y1: frame.y(value),
        y2: frame.y(value),
      }),
      svg(
        "text",
        { class: "tick", x: STEP_PANEL.left - 7, y: frame.y(value) + 4, "text-anchor": "end" },
        shortNumber(value),
      ),
    ]),
    ...ticks(0, frame.last, 6)
      .filter((step) => Number.isInteger(step) && step <= frame.last)
      .map((step) =>
        svg("text", { class: "tick", x: frame.x(step), y: bottom + 17, "text-anchor": "middle" }, shortNumber(step)),
      ),
    svg(
      "text",
      {
        class: "axis-name",
        x: (STEP_PANEL.left + STEP_PANEL.width) / 2,
        y: STEP_PANEL.height - 5,
        "text-anchor": "middle",
      },
      "step",
    ),
  ];
}

/* Powers of ten; or 1, 2, 5, 10; or closer: the coarsest that are four or more, as `logaxis.py` chooses them. */
function factorTicks(low, high) {
  for (const series of [[1], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
      for (const factor of series) found.push(factor * 10 ** power);
    const inside = found.filter((value) => value >= low && value <= high);
    if (inside.length >= 4) return inside.filter((_, place) => place % Math.ceil(inside.length / 9) === 0);
  }
  return ticks(low, high, 5).filter((value) => value > 0);
}

function shortNumber(value) {
  if (value >= 1e9) return value.toExponential(0).replace("+", "");
  if (value >= 1e6) return `${axisNumber(value / 1e6)}M`;
  if (value >= 1e5) return `${axisNumber(value / 1e3)}k`;
  return value >= 1000 ? value.toLocaleString("en") : axisNumber(value);
}

/* The reading nearest to the pointer, marked in every chart at once; each line tells its own nearest step. */
function pointStep(event, picture, { chart, lines, frame, cursors }) {
  const box = picture.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * STEP_PANEL.width;
  const width = STEP_PANEL.width - STEP_PANEL.left - STEP_PANEL.right;
  const wanted = Math.min(1, Math.max(0, (x - STEP_PANEL.left) / width)) * frame.last;
  const step = nearestStep(lines.flatMap(({ curve }) => curve.steps), wanted);
  for (const { node, frame: other } of cursors) {
    if (!node) continue;
    node.setAttribute("visibility", "visible");
    node.setAttribute("x1", other.x(step));
    node.setAttribute("x2", other.x(step));
  }
  tooltip.show(stepReadings(chart, lines, step), event.clientX, event.clientY);
}

function nearestStep(steps, wanted) {
  return steps.reduce((found, step) => (Math.abs(step - wanted) < Math.abs(found - wanted) ? step : found), steps[0]);
}

function stepReadings(chart, lines, step) {
  const found = lines
    .filter(({ curve }) => step <= curve.steps.at(-1))
    .map((line) => ({ line, at: line.curve.steps.indexOf(nearestStep(line.curve.steps, step)) }))
    .filter(({ line, at }) => line.curve.value[at] !== null)
    .sort((a, b) => b.line.curve.value[b.at] - a.line.curve.value[a.at]);
  const rows = found.map(({ line: { curve, colour, label }, at }) =>
    html(
      "div",
      { class: "reading" },
      swatch(colour),
      html("span", {}, curve.steps[at] === step ? label : `${label} (step ${curve.steps[at].toLocaleString("en")})`),
      html("strong", {}, number(curve.value[at])),
      html("span", { class: "quiet" }, curve.low ? interval(curve.low[at], curve.high[at]) : ""),
    ),
  );
  const floors = found
    .map(({ line, at }) => (line.curve.floor ? line.curve.floor[at] : null))
    .filter((floor) => floor !== null);
  const counts = found.map(({ line, at }) => line.curve.n[at]).filter((count) => count > 0);
  const [few, many] = [Math.min(...counts), Math.max(...counts)].map((count) => count.toLocaleString("en"));
  return [
    html("div", { class: "card-rule" }, `${chart.title}, step ${step.toLocaleString("en")}`),
    ...shortest(rows).map((one) => (typeof one === "string" ? html("div", { class: "quiet" }, one) : one)),
    floors.length ? html("div", { class: "quiet" }, `chance ${number(floors[0])}`) : null,
    counts.length ? html("div", { class: "quiet" }, few === many ? `n = ${few}` : `n = ${few} to ${many}`) : null,
  ].filter(Boolean);
}
