/* A grid of shaded cells: labels, values where there is room, and the key to the shades. */

function grid({ rows, columns, cells, state, square = false, rowName, columnName, name, room = 30, range = null }) {
  const values = cells
    .flat()
    .map((cell) => cell.value)
    .filter((value) => value !== null);
  const [low, high] = range || shadeRange(Math.min(...values), Math.max(...values), state.choice.panel.span);
  const share = linear([low, high], state.choice.panel.better === "lower" ? [1, 0.04] : [0.04, 1]);
  LETTERS.font = "14px sans-serif";
  const left = Math.max(...rows.map((label) => LETTERS.measureText(label).width)) + 22;
  const slanted = square && columns.some((label) => label.length > 4);
  const top = slanted ? 26 + Math.max(...columns.map((label) => LETTERS.measureText(label).width)) * 0.72 : 34;
  const width = Math.min(square ? 74 : 92, (1080 - left) / columns.length);
  const height = square ? Math.min(44, Math.max(26, width * 0.7)) : 30;
  const texts = width >= 44;
  const every = layerTicks(columns.length - 1, Math.floor((width * columns.length) / room));
  const parts = [
    svg("text", { class: "axis-name", x: left, y: 13 }, columnName),
    svg("text", { class: "axis-name", x: left - 12, y: top - 8, "text-anchor": "end" }, rowName),
  ];
  columns.forEach((label, at) => {
    const x = left + (at + 0.5) * width;
    if (slanted)
      parts.push(svg("text", { class: "grid-label", transform: `translate(${x - 4},${top - 8}) rotate(-45)` }, label));
    else if (square || every.includes(at))
      parts.push(svg("text", { class: "grid-label", x, y: top - 8, "text-anchor": "middle" }, label));
  });
  rows.forEach((label, row) => {
    parts.push(
      svg(
        "text",
        { class: "grid-label", x: left - 12, y: top + (row + 0.5) * height + 5, "text-anchor": "end" },
        label,
      ),
    );
    cells[row].forEach((cell, column) =>
      parts.push(
        ...gridCell(cell, {
          x: left + column * width,
          y: top + row * height,
          width,
          height,
          share,
          texts,
          title: name(label, columns[column]),
        }),
      ),
    );
  });
  const full = { width: left + width * columns.length + 80, height: top + height * rows.length + 8 };
  return html(
    "div",
    { class: "grid-box" },
    svg(
      "svg",
      {
        class: "grid-figure",
        viewBox: `0 0 ${full.width} ${full.height}`,
        width: full.width,
        role: "img",
        "aria-label": "shaded grid",
      },
      ...parts,
    ),
    shadeKey(low, high, state.choice.panel.better),
  );
}

/* A tenth of the measure's own range at least, so that a hair's breadth does not look like a gulf. */
function shadeRange(low, high, span) {
  const least = span ? (span[1] - span[0]) / 10 : 0;
  const room = Math.max(0, least - (high - low)) / 2;
  return [low - room, high + room];
}

function gridCell(cell, { x, y, width, height, share, texts, title }) {
  const box = { x: x + 1, y: y + 1, width: width - 2, height: height - 2, rx: 2 };
  if (cell.value === null) return [svg("rect", { ...box, class: cell.same ? "cell same" : "cell absent" })];
  const look = shade(share(cell.value));
  const node = svg("rect", { ...box, class: "cell", fill: look.colour });
  node.addEventListener("pointermove", (event) =>
    tooltip.show(
      [
        html("div", { class: "card-rule" }, title),
        html(
          "div",
          {},
          html("strong", {}, number(cell.value)),
          html("span", { class: "quiet" }, interval(cell.low, cell.high)),
        ),
        cell.floor === null ? "" : html("div", { class: "quiet" }, `chance ${number(cell.floor)}`),
        html(
          "div",
          { class: "quiet" },
          cell.members > 1
            ? `average of ${cell.members}, n = ${Math.min(...cell.n).toLocaleString("en")} or more`
            : `n = ${cell.n[0].toLocaleString("en")}`,
        ),
      ],
      event.clientX,
      event.clientY,
    ),
  );
  node.addEventListener("pointerleave", () => tooltip.hide());
  if (!texts) return [node];
  return [
    node,
    svg(
      "text",
      {
        class: "cell-text",
        x: x + width / 2,
        y: y + height / 2 + 4.5,
        "text-anchor": "middle",
        fill: look.dark ? "#ffffff" : "#1f2a33",
      },
      cell.value.toFixed(2),
    ),
  ];
}

function shadeKey(low, high, better) {
  const steps = Array.from({ length: 24 }, (_, at) => at / 23);
  const bar = svg(
    "svg",
    { width: 192, height: 12, "aria-hidden": "true" },
    ...steps.map((share, at) =>
      svg("rect", { x: at * 8, width: 8.5, height: 12, fill: shade(better === "lower" ? 1 - share : share).colour }),
    ),
  );
  return html(
    "div",
    { class: "shade-key" },
    html("span", {}, number(low)),
    bar,
    html("span", {}, number(high)),
    better ? html("span", { class: "quiet" }, "darker is better") : null,
  );
}
