/* Two grids of shaded cells: layers by languages, and languages by languages at one layer. */

/* The measures a grid can show: averaged curves with a direction. */
function gridChoices() {
  return DATA.panels.flatMap((panel) => panel.variants.map((variant) => ({ panel, variant, key: `${panel.measure}\u0000${variant}`,
    text: DATA.variants[variant] && panel.variants.length > 1 ? `${panel.title}, ${DATA.variants[variant]}` : panel.title })));
}

function gridSection(root, { render, matrix }) {
  const choices = gridChoices().filter(({ panel }) => !matrix || panel.measure !== "anisotropy");
  if (!choices.length) {
    root.append(html("p", { class: "quiet" }, "These runs hold no measure by layer and language pair."));
    return;
  }
  const stage = html("div", { class: "grid-stage" });
  const state = { run: DATA.runs[0], choice: choices[0], layer: null };
  const runs = DATA.runs.length > 1 ? menu("Run", DATA.runs.map((run, place) => [place, run.name]), (place) => { state.run = DATA.runs[place]; refresh(true); }) : null;
  const measures = menu("Measure", choices.map(({ key, text }) => [key, text]), (key) => { state.choice = choices.find((one) => one.key === key); refresh(true); });
  const layers = menu("Layer", [], (layer) => { state.layer = Number(layer); refresh(false); });
  layers.select.id = "matrix-layer";
  root.append(html("div", { class: "controls" }, runs && runs.node, measures.node, matrix ? layers.node : null), stage);

  function refresh(again) {
    const all = state.run.curves.filter((curve) => curve.measure === state.choice.panel.measure && curve.variant === state.choice.variant);
    const [mean, members] = [all.find((curve) => curve.mean), all.filter((curve) => !curve.mean)];
    if (!mean) { stage.replaceChildren(html("p", { class: "quiet" }, "This run does not hold this measure.")); return; }
    if (again) {
      state.layer = mean.best;
      layers.select.replaceChildren(...mean.layers.map((layer) => html("option", { value: layer, selected: layer === mean.best }, layer === mean.best && state.choice.panel.better ? `${layer} (best)` : String(layer))));
    }
    stage.replaceChildren(render({ ...state, mean, members }));
  }
  refresh(true);
}

/* The mean of several curves at a place, for grids of more pairs than cells. */
function meanAt(curves, layer) {
  const found = curves.map((curve) => ({ curve, at: curve.layers.indexOf(layer) })).filter(({ curve, at }) => at >= 0 && curve.value[at] !== null);
  const mean = (name) => {
    const values = found.map(({ curve, at }) => (curve[name] ? curve[name][at] : null)).filter((value) => value !== null);
    return values.length === found.length && values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
  };
  return { value: mean("value"), low: mean("low"), high: mean("high"), floor: mean("floor"), members: found.length, n: found.map(({ curve }) => curve.n[0]) };
}

function heatRows({ run, members }) {
  const groups = new Map();
  const pairwise = run.languages.length < 3;
  for (const curve of members) {
    if (curve.target && !pairwise && curve.source !== run.centre && curve.target !== run.centre) continue;
    const key = pairwise || !curve.target ? pairName(curve) : partner(curve, run.centre);
    if (!groups.has(key)) groups.set(key, { label: pairwise && curve.target ? key : languageOf(key).name, curves: [] });
    groups.get(key).curves.push(curve);
  }
  return [...groups.values()];
}

function heatMap(state) {
  const rows = heatRows(state);
  const layers = state.mean.layers;
  const cells = rows.map((row) => layers.map((layer) => meanAt(row.curves, layer)));
  const order = cells.map((_, at) => at).sort((a, b) => total(cells[b]) - total(cells[a]));
  const alone = state.run.languages.length < 3 || rows.every((row) => row.curves.every((curve) => !curve.target));
  const caption = alone ? "" : `Each row: that language with ${languageOf(state.run.centre).name}, both directions averaged; the rows are sorted.`;
  return html("div", {}, grid({ rows: order.map((at) => rows[at].label), columns: layers.map(String), cells: order.map((at) => cells[at]), state, rowName: alone && rows.some((row) => row.curves[0].target) ? "direction" : "language", columnName: "layer",
    name: (row, column) => `${row}, layer ${column}` }), html("p", { class: "quiet" }, caption));
}

function total(row) {
  return row.reduce((sum, cell) => sum + (cell.value || 0), 0);
}

function languageMatrix(state) {
  const codes = state.run.languages.filter((code) => state.members.some((curve) => curve.source === code || curve.target === code));
  const symmetric = state.choice.panel.measure === "cka";
  const cells = codes.map((source) => codes.map((target) => {
    const found = state.members.filter((curve) => (curve.source === source && curve.target === target) || (symmetric && curve.source === target && curve.target === source));
    return found.length ? meanAt(found, state.layer) : { value: null, same: source === target };
  }));
  const names = codes.map((code) => languageOf(code).name);
  const missing = cells.some((row) => row.some((cell) => cell.value === null && !cell.same));
  const caption = `${symmetric ? "The measure is the same both ways." : "Row: the language searched from; column: the language searched in."}${missing ? " Empty cells were not measured." : ""}`;
  return html("div", {}, grid({ rows: names, columns: names, cells, state, square: true, rowName: symmetric ? "" : "from", columnName: symmetric ? "" : "to",
    name: (row, column) => `${row} ${symmetric ? "and" : "to"} ${column}, layer ${state.layer}` }), html("p", { class: "quiet" }, caption));
}

function grid({ rows, columns, cells, state, square = false, rowName, columnName, name }) {
  const values = cells.flat().map((cell) => cell.value).filter((value) => value !== null);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const share = linear([low, high], state.choice.panel.better === "lower" ? [1, 0.04] : [0.04, 1]);
  LETTERS.font = "14px sans-serif";
  const left = Math.max(...rows.map((label) => LETTERS.measureText(label).width)) + 22;
  const slanted = square && columns.some((label) => label.length > 4);
  const top = slanted ? 26 + Math.max(...columns.map((label) => LETTERS.measureText(label).width)) * 0.72 : 34;
  const width = Math.min(square ? 74 : 92, (1080 - left) / columns.length);
  const height = square ? Math.min(44, Math.max(26, width * 0.7)) : 30;
  const texts = width >= 44;
  const every = layerTicks(columns.length - 1, Math.floor((width * columns.length) / 30));
  const parts = [svg("text", { class: "axis-name", x: left, y: 13 }, columnName), svg("text", { class: "axis-name", x: left - 12, y: top - 8, "text-anchor": "end" }, rowName)];
  columns.forEach((label, at) => {
    const x = left + (at + 0.5) * width;
    if (slanted) parts.push(svg("text", { class: "grid-label", transform: `translate(${x - 4},${top - 8}) rotate(-45)` }, label));
    else if (square || every.includes(at)) parts.push(svg("text", { class: "grid-label", x, y: top - 8, "text-anchor": "middle" }, label));
  });
  rows.forEach((label, row) => {
    parts.push(svg("text", { class: "grid-label", x: left - 12, y: top + (row + 0.5) * height + 5, "text-anchor": "end" }, label));
    cells[row].forEach((cell, column) => parts.push(...gridCell(cell, { x: left + column * width, y: top + row * height, width, height, share, texts, title: name(label, columns[column]) })));
  });
  const full = { width: left + width * columns.length + 80, height: top + height * rows.length + 8 };
  return html("div", { class: "grid-box" }, svg("svg", { class: "grid-figure", viewBox: `0 0 ${full.width} ${full.height}`, width: full.width, role: "img", "aria-label": "shaded grid" }, ...parts), shadeKey(low, high, state.choice.panel.better));
}

function gridCell(cell, { x, y, width, height, share, texts, title }) {
  const box = { x: x + 1, y: y + 1, width: width - 2, height: height - 2, rx: 2 };
  if (cell.value === null) return [svg("rect", { ...box, class: cell.same ? "cell same" : "cell absent" })];
  const look = shade(share(cell.value));
  const node = svg("rect", { ...box, class: "cell", fill: look.colour });
  node.addEventListener("pointermove", (event) => tooltip.show([html("div", { class: "card-rule" }, title), html("div", {}, html("strong", {}, number(cell.value)), html("span", { class: "quiet" }, interval(cell.low, cell.high))),
    cell.floor === null ? "" : html("div", { class: "quiet" }, `chance ${number(cell.floor)}`), html("div", { class: "quiet" }, cell.members > 1 ? `average of ${cell.members}, n = ${Math.min(...cell.n).toLocaleString("en")} or more` : `n = ${cell.n[0].toLocaleString("en")}`)], event.clientX, event.clientY));
  node.addEventListener("pointerleave", () => tooltip.hide());
  if (!texts) return [node];
  return [node, svg("text", { class: "cell-text", x: x + width / 2, y: y + height / 2 + 4.5, "text-anchor": "middle", fill: look.dark ? "#ffffff" : "#1f2a33" }, cell.value.toFixed(2))];
}

function shadeKey(low, high, better) {
  const steps = Array.from({ length: 24 }, (_, at) => at / 23);
  const bar = svg("svg", { width: 192, height: 12, "aria-hidden": "true" }, ...steps.map((share, at) => svg("rect", { x: at * 8, width: 8.5, height: 12, fill: shade(better === "lower" ? 1 - share : share).colour })));
  return html("div", { class: "shade-key" }, html("span", {}, number(low)), bar, html("span", {}, number(high)), better ? html("span", { class: "quiet" }, "darker is better") : null);
}
