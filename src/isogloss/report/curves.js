/* Curves over layers, one small picture a measure: line, interval as a band, chance as a dashed line. */

const PANEL = { width: 420, height: 270, left: 46, right: 12, top: 12, bottom: 40 };
const FAINT = 24;
const DASHES = { centred: "", cosine: "2 4", csls: "8 4" };

function curvePanels(root) {
  if (!DATA.panels.length) {
    root.append(html("p", { class: "quiet" }, "These runs hold no measure by layer."));
    return;
  }
  const several = DATA.runs.length > 1;
  const grid = html("div", { class: "panels" });
  const keys = pairKeys();
  const only = [...new Set(DATA.runs.flatMap((run) => run.curves.map((curve) => curve.only).filter(Boolean)))];
  const averages = only.map((data) => [`\u0001${data}`, `the average over language pairs, ${data} only`]);
  const pairMenu = menu(
    "Show",
    [["", "the average over language pairs"], ...averages, ...keys.map(({ key, text }) => [key, text])],
    render,
  );
  const depth = html("input", { type: "checkbox", onchange: () => render(pairMenu.select.value) });
  const uneven = new Set(DATA.runs.map((run) => run.last_layer)).size > 1;
  root.append(
    html(
      "div",
      { class: "controls" },
      keys.length > 1 ? pairMenu.node : null,
      uneven ? html("label", { class: "menu" }, depth, html("span", {}, "layers as a share of the depth")) : null,
      several ? runLegend() : null,
    ),
    grid,
  );

  function render(key) {
    const panels = DATA.panels.flatMap((panel) =>
      several ? panel.variants.map((variant) => ({ ...panel, variants: [variant] })) : [panel],
    );
    const drawn = panels
      .map((panel) => ({ panel, lines: linesOf(panel, key, several) }))
      .filter(({ lines }) => lines.length);
    const cursors = [];
    // Panels of one measure share their vertical axis, so that heights can be compared.
    const peers = (measure) => drawn.filter((other) => other.panel.measure === measure).flatMap((other) => other.lines);
    grid.replaceChildren(
      ...drawn.map(({ panel, lines }) =>
        figurePanel(panel, lines, { relative: depth.checked, cursors, key, peers: peers(panel.measure) }),
      ),
    );
  }
  render("");
}

function runLegend() {
  return html(
    "div",
    { class: "run-legend" },
    ...DATA.runs.map((run, place) => legendSample(runColour(place), null, run.name, 3)),
  );
}

function runColour(place) {
  return DATA.run_colours[place % DATA.run_colours.length];
}

/* Every direction that some curve has, once. */
function pairKeys() {
  const found = new Map();
  const datas = new Set(DATA.runs.flatMap((run) => run.data));
  for (const run of DATA.runs) {
    for (const curve of run.curves) {
      if (curve.mean || !curve.target || curve.measure === "cka") continue;
      const key = [curve.source, curve.target, curve.data || ""].join("\u0000");
      found.set(key, {
        key,
        text: `${languageOf(curve.source).name} → ${languageOf(curve.target).name}${datas.size > 1 && curve.data ? ` (${curve.data})` : ""}`,
      });
    }
  }
  return [...found.values()];
}

function belongs(curve, key) {
  if (!key) return Boolean(curve.mean) && !curve.only;
  if (key.startsWith("\u0001")) return curve.only === key.slice(1);
  if (curve.mean && curve.members > 1) return false;
  const [source, target, data] = key.split("\u0000");
  if (!curve.target) return (curve.source === source || curve.source === target) && !curve.mean;
  const same = curve.source === source && curve.target === target;
  const turned = curve.measure === "cka" && curve.source === target && curve.target === source;
  return !curve.mean && (same || turned) && (!data || (curve.data || "") === data);
}

/* The lines of one panel: strong ones with a band, and in a single run faint ones for the members of an average. */
function linesOf(panel, key, several) {
  const lines = [];
  DATA.runs.forEach((run, place) => {
    for (const variant of panel.variants) {
      const own = run.curves.filter((curve) => curve.measure === panel.measure && curve.variant === variant);
      if (!key && !several && panel.variants.length === 1)
        lines.push(
          ...faintLines(
            own.filter((curve) => !curve.mean),
            run,
          ),
        );
      const strong = own.filter((curve) => belongs(curve, key));
      lines.push(
        ...strong.map((curve) => ({
          curve,
          dash: panel.variants.length > 1 ? DASHES[variant] || "" : "",
          variant,
          colour: several
            ? runColour(place)
            : !curve.target && !curve.mean
              ? languageOf(curve.source).colour
              : variantColour(panel, variant),
          label: several
            ? run.name
            : panel.variants.length > 1
              ? DATA.variants[variant] || variant
              : curve.target || !curve.source
                ? panel.title
                : languageOf(curve.source).name,
        })),
      );
    }
  });
  return lines;
}

/* The members of an average; of very many only those that start from the central language. */
function faintLines(members, run) {
  if (members.length < (members[0] && members[0].target ? 3 : 2)) return [];
  const shown =
    members.length > FAINT ? members.filter((curve) => !curve.target || curve.source === run.centre) : members;
  return shown.map((curve) => ({
    curve,
    faint: true,
    some: shown.length < members.length,
    colour: languageOf(partner(curve, run.centre)).colour,
    label: pairName(curve),
  }));
}

function variantColour(panel, variant) {
  if (panel.variants.length === 1) return "#12294a";
  return (
    { centred: "#12294a", cosine: "#D55E00", csls: "#009E73" }[variant] ||
    DATA.run_colours[panel.variants.indexOf(variant) % DATA.run_colours.length]
  );
}

function partner(curve, centre) {
  return curve.target && curve.source === centre ? curve.target : curve.source;
}

function referencesOf(panel, key) {
  const [source, target] = key.split("\u0000");
  return DATA.runs.flatMap((run, place) => {
    const values = run.references.filter(
      (one) => one.measure === panel.measure && (!key || (one.source === source && one.target === target)),
    );
    if (!values.length) return [];
    return [
      { value: values.reduce((sum, one) => sum + one.value, 0) / values.length, variant: values[0].variant, place },
    ];
  });
}

function figurePanel(panel, lines, { relative, cursors, key, peers }) {
  const references = referencesOf(panel, key);
  const frame = panelFrame(panel, peers, references, relative);
  const parts = [...axes(frame)];
  for (const line of lines) if (!line.faint) parts.push(...bandOf(line, frame));
  for (const line of lines) parts.push(pathOf(line, frame));
  for (const line of lines.filter((one) => !one.faint)) parts.push(...bestOf(panel, line, frame));
  for (const { value } of references)
    parts.push(
      svg("line", {
        class: "reference",
        x1: frame.x(frame.from),
        x2: frame.x(frame.to),
        y1: frame.y(value),
        y2: frame.y(value),
      }),
    );
  const cursor = svg("line", { class: "cursor", y1: PANEL.top, y2: PANEL.height - PANEL.bottom, visibility: "hidden" });
  cursors.push({ cursor, frame });
  const picture = svg(
    "svg",
    {
      class: "panel-figure",
      viewBox: `0 0 ${PANEL.width} ${PANEL.height}`,
      role: "img",
      "aria-label": `${panel.title} by layer`,
    },
    ...parts,
    cursor,
  );
  picture.addEventListener("pointermove", (event) =>
    point(event, picture, panel, lines, references, frame, cursors, relative),
  );
  picture.addEventListener("pointerleave", () => {
    tooltip.hide();
    cursors.forEach((one) => one.cursor.setAttribute("visibility", "hidden"));
  });
  const title = html(
    "h3",
    {},
    panel.title,
    panel.variants.length === 1 && DATA.variants[panel.variants[0]]
      ? html("span", { class: "quiet" }, ` ${DATA.variants[panel.variants[0]]}`)
      : null,
  );
  return html(
    "figure",
    { class: "panel", "data-measure": panel.measure },
    title,
    panelLegend(panel, lines, references),
    picture,
    html("figcaption", {}, panel.words, " ", basis(lines)),
  );
}

function panelLegend(panel, lines, references) {
  const strong = lines.filter((line) => !line.faint);
  const entries =
    strong.length > 1 && DATA.runs.length === 1
      ? strong.map((line) => legendSample(line.colour, line.dash, line.label, 2.4))
      : [];
  if (lines.some((line) => line.curve.floor)) entries.push(legendSample("#8a8577", "3 3", "chance", 1.4));
  if (references.length)
    entries.push(legendSample("#CC79A7", "7 4", DATA.variants[references[0].variant] || references[0].variant, 1.6));
  const faint = lines.find((line) => line.faint);
  const thin =
    faint &&
    (!faint.curve.target
      ? "single languages"
      : faint.some
        ? `pairs with ${languageOf(faint.curve.source).name}`
        : "single pairs");
  if (faint) entries.push(html("span", { class: "quiet" }, `thin: ${thin}`));
  if (panel.better === "lower") entries.unshift(html("span", { class: "tag" }, "lower is better"));
  return html("div", { class: "panel-legend" }, ...entries);
}

/* What the band of an average is: its own interval where the run took one, else the mean of its members'. */
function bandWords(strong) {
  return strong.some((curve) => curve.compared) ? "; the band is its interval" : "; the band averages their intervals";
}

/* What a line averages and how many items stand behind it. */
function basis(lines) {
  const strong = lines.filter((line) => !line.faint).map((line) => line.curve);
  const kind = { anisotropy: "languages", cka: "language pairs" }[strong[0].measure] || "directions";
  const span = (values) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low === high ? low.toLocaleString("en") : `${low.toLocaleString("en")} to ${high.toLocaleString("en")}`;
  };
  const members = strong.map((curve) => curve.members);
  const counts = strong.flatMap((curve) => curve.n).filter((count) => count > 0);
  const parts = [
    Math.max(...members) > 1
      ? `Average over ${span(members)} ${kind}${strong.some((curve) => curve.low) ? bandWords(strong) : ""}.`
      : "",
    counts.length ? `n\u00a0=\u00a0${span(counts)}.` : "",
  ];
  return parts.filter(Boolean).join(" ");
}
