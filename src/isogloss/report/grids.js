/* Two grids of shaded cells: layers by languages, and languages by languages at one layer. */

/* The measures a grid can show: averaged curves with a direction. */
function gridChoices() {
  return DATA.panels.flatMap((panel) =>
    panel.variants.map((variant) => ({
      panel,
      variant,
      key: `${panel.measure}\u0000${variant}`,
      text:
        DATA.variants[variant] && panel.variants.length > 1 ? `${panel.title}, ${DATA.variants[variant]}` : panel.title,
    })),
  );
}

function gridSection(root, { render, matrix }) {
  const choices = gridChoices().filter(({ panel }) => !matrix || panel.measure !== "anisotropy");
  if (!choices.length) {
    root.append(html("p", { class: "quiet" }, "These runs hold no measure by layer and language pair."));
    return;
  }
  const stage = html("div", { class: "grid-stage" });
  const state = { run: DATA.runs[0], choice: choices[0], layer: null };
  const runs = runMenu(DATA.runs, (place) => {
    state.run = DATA.runs[place];
    refresh(true);
  });
  const measures = menu(
    "Measure",
    choices.map(({ key, text }) => [key, text]),
    (key) => {
      state.choice = choices.find((one) => one.key === key);
      refresh(true);
    },
  );
  const layers = menu("Layer", [], (layer) => {
    state.layer = Number(layer);
    refresh(false);
  });
  layers.select.id = "matrix-layer";
  root.append(html("div", { class: "controls" }, runs && runs.node, measures.node, matrix ? layers.node : null), stage);

  function refresh(again) {
    const all = state.run.curves.filter(
      (curve) => curve.measure === state.choice.panel.measure && curve.variant === state.choice.variant,
    );
    const [mean, members] = [all.find((curve) => curve.mean && !curve.only), all.filter((curve) => !curve.mean)];
    if (!mean) {
      stage.replaceChildren(html("p", { class: "quiet" }, "This run does not hold this measure."));
      return;
    }
    if (again) {
      state.layer = mean.best;
      layers.select.replaceChildren(
        ...mean.layers.map((layer) =>
          html(
            "option",
            { value: layer, selected: layer === mean.best },
            layer === mean.best && state.choice.panel.better ? `${layer} (best)` : String(layer),
          ),
        ),
      );
    }
    stage.replaceChildren(render({ ...state, mean, members }));
  }
  refresh(true);
}

/* The mean of several curves at a place, for grids of more pairs than cells. */
function meanAt(curves, layer) {
  const found = curves
    .map((curve) => ({ curve, at: curve.layers.indexOf(layer) }))
    .filter(({ curve, at }) => at >= 0 && curve.value[at] !== null);
  const mean = (name) => {
    const values = found
      .map(({ curve, at }) => (curve[name] ? curve[name][at] : null))
      .filter((value) => value !== null);
    return values.length === found.length && values.length
      ? values.reduce((sum, value) => sum + value, 0) / values.length
      : null;
  };
  return {
    value: mean("value"),
    low: mean("low"),
    high: mean("high"),
    floor: mean("floor"),
    members: found.length,
    n: found.map(({ curve }) => curve.n[0]),
  };
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
  const caption = alone
    ? ""
    : `Each row: that language with ${languageOf(state.run.centre).name}, both directions averaged; the rows are sorted.`;
  return html(
    "div",
    {},
    grid({
      rows: order.map((at) => rows[at].label),
      columns: layers.map(String),
      cells: order.map((at) => cells[at]),
      state,
      rowName: alone && rows.some((row) => row.curves[0].target) ? "direction" : "language",
      columnName: "layer",
      name: (row, column) => `${row}, layer ${column}`,
    }),
    html("p", { class: "quiet" }, caption),
  );
}

function total(row) {
  return row.reduce((sum, cell) => sum + (cell.value || 0), 0);
}

function languageMatrix(state) {
  const codes = state.run.languages.filter((code) =>
    state.members.some((curve) => curve.source === code || curve.target === code),
  );
  const symmetric = state.choice.panel.measure === "cka";
  const cells = codes.map((source) =>
    codes.map((target) => {
      const found = state.members.filter(
        (curve) =>
          (curve.source === source && curve.target === target) ||
          (symmetric && curve.source === target && curve.target === source),
      );
      return found.length ? meanAt(found, state.layer) : { value: null, same: source === target };
    }),
  );
  const names = codes.map((code) => languageOf(code).name);
  const missing = cells.some((row) => row.some((cell) => cell.value === null && !cell.same));
  const reading = symmetric
    ? "The measure is the same both ways."
    : "Row: the language searched from; column: the language searched in.";
  const caption = missing ? `${reading} Empty cells were not measured.` : reading;
  return html(
    "div",
    {},
    grid({
      rows: names,
      columns: names,
      cells,
      state,
      square: true,
      rowName: symmetric ? "" : "from",
      columnName: symmetric ? "" : "to",
      name: (row, column) => `${row} ${symmetric ? "and" : "to"} ${column}, layer ${state.layer}`,
    }),
    html("p", { class: "quiet" }, caption),
  );
}
