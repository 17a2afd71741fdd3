/* The rows themselves: filter, sort, page, and take them along as CSV. */

const PAGE = 25;

function rowTable(root) {
  const state = { run: 0, measure: "", layer: "", words: "", column: null, down: false, page: 0, rows: [] };
  const body = html("tbody");
  const head = html("tr");
  const count = html("span", { class: "quiet", id: "row-count" });
  const note = html("p", { class: "quiet" });
  const same = html("p", { class: "quiet same" });
  const runs = runMenu(DATA.runs, (place) => {
    state.run = place;
    start();
  });
  const measures = menu("Measure", [], (value) => {
    state.measure = value;
    filter();
  });
  const layers = menu("Layer", [], (value) => {
    state.layer = value;
    filter();
  });
  const words = html("input", {
    type: "search",
    id: "row-filter",
    placeholder: "filter, such as: nl csls",
    "aria-label": "filter rows",
    oninput: () => {
      state.words = words.value.toLocaleLowerCase();
      filter();
    },
  });
  const pager = html("div", { class: "pager" });
  root.append(
    html(
      "div",
      { class: "controls" },
      runs && runs.node,
      measures.node,
      layers.node,
      words,
      html("button", { type: "button", id: "download-csv", onclick: () => download() }, "Download CSV"),
      count,
    ),
    same,
    html("div", { class: "table-box" }, html("table", {}, html("thead", {}, head), body)),
    pager,
    note,
  );

  const table = () => DATA.runs[state.run].table;
  const cell = (column, row) => (column.numbers ? column.numbers[row] : column.texts[column.codes[row]]);
  const named = (name) => table().columns.find((column) => column.name === name);

  function start() {
    Object.assign(state, { measure: "", layer: "", column: null, page: 0 });
    const choices = (select, every, values) =>
      select.replaceChildren(
        html("option", { value: "" }, every),
        ...values.map((value) => html("option", { value }, String(value))),
      );
    choices(measures.select, "all", named("measure") ? named("measure").texts : []);
    const known = named("layer")
      ? [...new Set(named("layer").numbers.filter((value) => value !== null))].sort((a, b) => a - b)
      : [];
    choices(layers.select, "all", known);
    for (const column of table().columns)
      column.whole =
        Boolean(column.numbers) && column.numbers.every((value) => value === null || Number.isInteger(value));
    const fixed = table().columns.filter((column) =>
      table().length > 1 && column.texts ? column.texts.length === 1 : new Set(column.numbers).size === 1,
    );
    state.shown = table().columns.filter((column) => !fixed.includes(column));
    same.replaceChildren(
      fixed.length ? `In every row: ${fixed.map((column) => `${column.name} ${cell(column, 0)}`).join(", ")}.` : "",
    );
    head.replaceChildren(
      ...state.shown.map((column) =>
        html(
          "th",
          { scope: "col", class: column.numbers ? "numeric" : null },
          html("button", { type: "button", "data-column": column.name, onclick: () => sortBy(column) }, column.name),
        ),
      ),
    );
    const { total, length, left_out: leftOut } = table();
    note.replaceChildren(
      length < total
        ? `Here are ${length.toLocaleString("en")} of ${total.toLocaleString("en")} rows, to keep the page light; `
        : "",
      length < total ? `left out: ${leftOut.join(", ")}. ` : "",
      "Numbers have six digits here; the run's rows.csv and rows.parquet hold every row in full.",
    );
    filter();
  }

  function filter() {
    const { columns, length } = table();
    const asked = state.words.split(/\s+/).filter(Boolean);
    const [measure, layer] = [named("measure"), named("layer")];
    state.rows = [];
    for (let row = 0; row < length; row += 1) {
      if (state.measure && cell(measure, row) !== state.measure) continue;
      if (state.layer !== "" && cell(layer, row) !== Number(state.layer)) continue;
      if (asked.length) {
        const texts = columns.filter((column) => column.texts).map((column) => cell(column, row).toLocaleLowerCase());
        if (!asked.every((word) => texts.some((text) => text.includes(word)))) continue;
      }
      state.rows.push(row);
    }
    state.page = 0;
    sort();
  }

  function sortBy(column) {
    state.down = state.column === column.name ? !state.down : Boolean(column.numbers);
    state.column = column.name;
    sort();
  }

  function sort() {
    const column = state.column && named(state.column);
    if (column) {
      const sign = state.down ? -1 : 1;
      // Empty cells stay at the end whichever way the rest is turned.
      const order = (a, b) =>
        (a === null) - (b === null) || (a === null ? 0 : sign * (column.numbers ? a - b : a.localeCompare(b)));
      state.rows.sort((a, b) => order(cell(column, a), cell(column, b)) || a - b);
    } else state.rows.sort((a, b) => a - b);
    show();
  }

  function show() {
    for (const button of head.querySelectorAll("button")) {
      const turned = button.dataset.column === state.column ? (state.down ? "descending" : "ascending") : "none";
      button.parentNode.setAttribute("aria-sort", turned);
    }
    const from = state.page * PAGE;
    body.replaceChildren(
      ...state.rows.slice(from, from + PAGE).map((row) =>
        html(
          "tr",
          {},
          ...state.shown.map((column) => {
            const value = cell(column, row);
            return html(
              "td",
              { class: column.numbers ? "numeric" : null },
              value === null ? "" : column.numbers && !column.whole ? number(value) : String(value),
            );
          }),
        ),
      ),
    );
    count.textContent = `${state.rows.length.toLocaleString("en")} rows`;
    const pages = Math.max(1, Math.ceil(state.rows.length / PAGE));
    const turn = (by) => {
      state.page = Math.min(pages - 1, Math.max(0, state.page + by));
      show();
    };
    pager.replaceChildren(
      html("button", { type: "button", disabled: state.page === 0, onclick: () => turn(-1) }, "‹ back"),
      html("span", {}, `page ${state.page + 1} of ${pages.toLocaleString("en")}`),
      html("button", { type: "button", disabled: state.page >= pages - 1, onclick: () => turn(1) }, "on ›"),
    );
  }

  function csv() {
    const { columns } = table();
    const quote = (value) =>
      value === null ? "" : /[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
    const lines = [
      columns.map((column) => column.name),
      ...state.rows.map((row) => columns.map((column) => cell(column, row))),
    ];
    return `${lines.map((line) => line.map(quote).join(",")).join("\n")}\n`;
  }

  function download() {
    const address = URL.createObjectURL(new Blob([csv()], { type: "text/csv;charset=utf-8" }));
    const link = html("a", { href: address, download: "rows.csv", hidden: true });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  start();
}
