/* The geometry of a panel of curves: frame, axes, bands, lines, the best layer, and what the pointer reads off. */

function panelFrame(panel, lines, references, relative) {
  const last = Math.max(...lines.map(({ curve }) => curve.layers.at(-1)));
  const seen = lines
    .flatMap(({ curve, faint }) =>
      faint ? curve.value : [...curve.value, ...(curve.low || []), ...(curve.high || []), ...(curve.floor || [])],
    )
    .concat(references.map((one) => one.value))
    .filter((value) => value !== null);
  let [low, high] = [Math.min(...seen), Math.max(...seen)];
  if (panel.span && panel.span[0] === 0 && low >= 0) low = 0;
  if (panel.span && high > 0.8 * panel.span[1]) high = Math.max(panel.span[1], high);
  const room = (high - low || 1) * 0.06;
  if (low < 0 || !panel.span) low -= room;
  if (!panel.span || high < panel.span[1]) high += room;
  const from = 0;
  const to = relative ? 1 : last;
  return {
    from,
    to,
    relative,
    y: linear([low, high], [PANEL.height - PANEL.bottom, PANEL.top]),
    x: linear([from, to], [PANEL.left, PANEL.width - PANEL.right]),
    low,
    high,
  };
}

function across(frame, curve, at) {
  const places = curve.steps || curve.layers;
  return frame.x(frame.relative ? places[at] / places.at(-1) : places[at]);
}

function axes(frame) {
  const bottom = PANEL.height - PANEL.bottom;
  const rows = ticks(frame.low, frame.high, 4).map((value) => [frame.y(value), axisNumber(value)]);
  const columns = frame.relative
    ? [0, 0.25, 0.5, 0.75, 1].map((share) => [frame.x(share), `${share * 100}%`])
    : layerTicks(frame.to, 13).map((layer) => [frame.x(layer), String(layer)]);
  return [
    ...rows.flatMap(([y, text]) => [
      svg("line", { class: "rule", x1: PANEL.left, x2: PANEL.width - PANEL.right, y1: y, y2: y }),
      svg("text", { class: "tick", x: PANEL.left - 7, y: y + 4, "text-anchor": "end" }, text),
    ]),
    ...columns.map(([x, text]) => svg("text", { class: "tick", x, y: bottom + 17, "text-anchor": "middle" }, text)),
    svg(
      "text",
      {
        class: "axis-name",
        x: (PANEL.left + PANEL.width - PANEL.right) / 2,
        y: PANEL.height - 5,
        "text-anchor": "middle",
      },
      frame.relative ? "depth" : "layer",
    ),
  ];
}

function pathOf({ curve, colour, dash, faint }, frame) {
  const steps = curve.value.map((value, at) => [value, across(frame, curve, at)]).filter(([value]) => value !== null);
  if (steps.length === 1) {
    const [[value, x]] = steps; // a line of one point would not be seen
    return svg("circle", { class: "only", cx: x, cy: frame.y(value), r: faint ? 2 : 3, fill: colour });
  }
  return svg("path", {
    class: faint ? "faint-line" : "line",
    d: `M${steps.map(([value, x]) => `${x.toFixed(1)},${frame.y(value).toFixed(1)}`).join("L")}`,
    stroke: colour,
    "stroke-dasharray": dash,
  });
}

/* The interval, and chance as a dashed line. */
function bandOf({ curve, colour }, frame) {
  const parts = [];
  if (curve.low && curve.high) {
    const known = curve.value.map((_, at) => at).filter((at) => curve.low[at] !== null && curve.high[at] !== null);
    const spot = (at, value) => `${across(frame, curve, at).toFixed(1)},${frame.y(value).toFixed(1)}`;
    const edge = [
      ...known.map((at) => spot(at, curve.high[at])),
      ...known.reverse().map((at) => spot(at, curve.low[at])),
    ];
    if (edge.length) parts.push(svg("path", { class: "band", d: `M${edge.join("L")}Z`, fill: colour }));
  }
  if (curve.floor) {
    const steps = curve.floor.map((value, at) => [value, at]).filter(([value]) => value !== null);
    parts.push(
      svg("path", {
        class: "floor",
        d: `M${steps.map(([value, at]) => `${across(frame, curve, at).toFixed(1)},${frame.y(value).toFixed(1)}`).join("L")}`,
      }),
    );
  }
  return parts;
}

function bestOf(panel, { curve, colour }, frame) {
  if (!panel.better) return [];
  const at = curve.layers.indexOf(curve.best);
  return [
    svg("circle", {
      class: "best",
      cx: across(frame, curve, at),
      cy: frame.y(curve.value[at]),
      r: 4.5,
      stroke: colour,
    }),
  ];
}

/* The pointer's layer, shown in every panel at once; the tooltip reads this panel's values there. */
function point(event, picture, panel, lines, references, frame, cursors, relative) {
  const box = picture.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * PANEL.width;
  const share = Math.min(1, Math.max(0, (x - PANEL.left) / (PANEL.width - PANEL.left - PANEL.right)));
  const wanted = frame.from + share * (frame.to - frame.from);
  const layer = relative ? wanted : Math.round(wanted);
  for (const { cursor, frame: other } of cursors) {
    const inside = layer >= other.from && layer <= other.to;
    cursor.setAttribute("visibility", inside ? "visible" : "hidden");
    cursor.setAttribute("x1", other.x(layer));
    cursor.setAttribute("x2", other.x(layer));
  }
  tooltip.show(readings(panel, lines, references, layer, relative), event.clientX, event.clientY);
}

function readings(panel, lines, references, layer, relative) {
  const row = ({ curve, colour, label }) => {
    const at = relative ? Math.round(layer * (curve.layers.length - 1)) : curve.layers.indexOf(layer);
    if (at < 0 || curve.value[at] === null || curve.value[at] === undefined) return null;
    return {
      value: curve.value[at],
      node: html(
        "div",
        { class: "reading" },
        swatch(colour),
        html("span", {}, relative ? `${label} (layer ${curve.layers[at]})` : label),
        html("strong", {}, number(curve.value[at])),
        html("span", { class: "quiet" }, curve.low ? interval(curve.low[at], curve.high[at]) : ""),
      ),
    };
  };
  const strong = lines.filter((line) => !line.faint);
  const faint = lines
    .filter((line) => line.faint)
    .map(row)
    .filter(Boolean)
    .sort((a, b) => b.value - a.value);
  const floor = strong
    .map(({ curve }) => (curve.floor && !relative ? curve.floor[curve.layers.indexOf(layer)] : null))
    .find((value) => value !== null && value !== undefined);
  return [
    html(
      "div",
      { class: "card-rule" },
      relative ? `${panel.title}, ${Math.round(layer * 100)}% of the depth` : `${panel.title}, layer ${layer}`,
    ),
    ...strong
      .map(row)
      .filter(Boolean)
      .map((one) => one.node),
    floor === undefined ? null : html("div", { class: "quiet" }, `chance ${number(floor)}`),
    ...references.map((one) =>
      html("div", { class: "quiet" }, `${DATA.variants[one.variant] || one.variant} ${number(one.value)}`),
    ),
    ...shortest(faint).map((one) => one.node || html("div", { class: "quiet" }, one)),
  ].filter(Boolean);
}

function shortest(found) {
  return found.length <= 9 ? found : [...found.slice(0, 4), `${found.length - 8} more between`, ...found.slice(-4)];
}

function swatch(colour) {
  return svg(
    "svg",
    { width: 10, height: 10, "aria-hidden": "true" },
    svg("rect", { width: 10, height: 10, rx: 2, fill: colour }),
  );
}
