/* The rows themselves: filter, sort, page, and take them along as CSV. */

const PAGE = 25;
const IN_FULL = "Numbers have six digits here; the run's rows.csv and rows.parquet hold every row in full.";

function rowTable(root) {
  const state = { run: 0, measure: "", layer: "", words: "", column: null, down: false, page: 0, rows: [] };
  const [head, body, note, pager] = [html("tr"), html("tbody"), quiet("", "p"), html("div", { class: "pager" })];
  const count = html("span", { class: "quiet", id: "row-count" });
  const same = html("p", { class: "quiet same" });
  const change = (name) => (value) => {
    state[name] = value;
    filter();
  };
  const runs = runMenu(DATA.runs, start);
  const [measures, layers] = [menu("Measure", [], change("measure")), menu("Layer", [], change("layer"))];
  const search = () => change("words")(words.value.toLocaleLowerCase());
  const field = { type: "search", placeholder: "filter, such as: nl csls", "aria-label": "filter rows" };
  const words = html("input", { id: "row-filter", ...field, oninput: search });
  const save = html("button", { type: "button", id: "download-csv", onclick: download }, "Download CSV");
  const controls = [runs && runs.node, measures.node, layers.node, words, save, count];
  const box = html("div", { class: "table-box" }, html("table", {}, html("thead", {}, head), body));
  root.append(html("div", { class: "controls" }, ...controls), same, box, pager, note);

  const table = () => DATA.runs[state.run].table;
  const cell = (column, row) => (column.numbers ? column.numbers[row] : column.texts[column.codes[row]]);
  const named = (name) => table().columns.find((column) => column.name === name);

  function start(run) {
    Object.assign(state, { run, measure: "", layer: "", column: null, page: 0 });
    const { columns, total, length, left_out: leftOut } = table();
    const options = (values) => ["", ...values].map((value) => html("option", { value }, String(value) || "all"));
    const known = new Set(named("layer") ? named("layer").numbers.filter(isNumber) : []);
    measures.select.replaceChildren(...options(named("measure") ? named("measure").texts : []));
    layers.select.replaceChildren(...options([...known].sort((a, b) => a - b)));
    const isWhole = (value) => value === null || Number.isInteger(value);
    for (const column of columns) column.whole = Boolean(column.numbers) && column.numbers.every(isWhole);
    const alike = ({ texts, numbers }) => (length > 1 && texts ? texts.length === 1 : new Set(numbers).size === 1);
    const fixed = columns.filter(alike).map((column) => `${column.name} ${cell(column, 0)}`);
    state.shown = columns.filter((column) => !alike(column));
    same.replaceChildren(fixed.length ? `In every row: ${fixed.join(", ")}.` : "");
    head.replaceChildren(...state.shown.map(heading));
    const some = `Here are ${whole(length)} of ${whole(total)} rows, to keep the page light; `;
    note.replaceChildren(length < total ? `${some}left out: ${leftOut.join(", ")}. ` : "", IN_FULL);
    filter();
  }

  function heading(column) {
    const turn = () => {
      state.down = state.column === column.name ? !state.down : Boolean(column.numbers);
      state.column = column.name;
      sort();
    };
    const button = html("button", { type: "button", "data-column": column.name, onclick: turn }, column.name);
    return html("th", { scope: "col", class: column.numbers ? "numeric" : null }, button);
  }

  function filter() {
    const { columns, length } = table();
    const asked = state.words.split(/\s+/).filter(Boolean);
    const [measure, layer] = [named("measure"), named("layer")];
    const textual = columns.filter((column) => column.texts);
    const wanted = (row) => {
      if (state.measure && cell(measure, row) !== state.measure) return false;
      if (state.layer !== "" && cell(layer, row) !== Number(state.layer)) return false;
      const texts = asked.length ? textual.map((column) => cell(column, row).toLocaleLowerCase()) : [];
      return asked.every((word) => texts.some((text) => text.includes(word)));
    };
    state.rows = Array.from({ length }, (_, row) => row).filter(wanted);
    state.page = 0;
    sort();
  }

  function sort() {
    const column = state.column && named(state.column);
    const sign = state.down ? -1 : 1;
    // Empty cells stay at the end whichever way the rest is turned.
    const order = (a, b) =>
      (a === null) - (b === null) || (a === null ? 0 : sign * (column.numbers ? a - b : a.localeCompare(b)));
    state.rows.sort((a, b) => (column ? order(cell(column, a), cell(column, b)) : 0) || a - b);
    show();
  }

  function show() {
    for (const button of head.querySelectorAll("button")) {
      const turned = button.dataset.column === state.column ? (state.down ? "descending" : "ascending") : "none";
      button.parentNode.setAttribute("aria-sort", turned);
    }
    const from = state.page * PAGE;
    const shown = (row) => (column) => {
      const value = cell(column, row);
      const text = value === null ? "" : column.numbers && !column.whole ? number(value) : String(value);
      return html("td", { class: column.numbers ? "numeric" : null }, text);
    };
    const lines = state.rows.slice(from, from + PAGE);
    body.replaceChildren(...lines.map((row) => html("tr", {}, ...state.shown.map(shown(row)))));
    count.textContent = `${whole(state.rows.length)} row${state.rows.length === 1 ? "" : "s"}`;
    const pages = Math.max(1, Math.ceil(state.rows.length / PAGE));
    const turn = (by) => {
      state.page = Math.min(pages - 1, Math.max(0, state.page + by));
      show();
    };
    pager.replaceChildren(
      html("button", { type: "button", disabled: state.page === 0, onclick: () => turn(-1) }, "‹ back"),
      html("span", {}, `page ${state.page + 1} of ${whole(pages)}`),
      html("button", { type: "button", disabled: state.page >= pages - 1, onclick: () => turn(1) }, "on ›"),
    );
  }

  function download() {
    const { columns } = table();
    const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const plain = (value) => (typeof value === "string" && /^'*[=+@\t\r-]/.test(value) ? `'${value}` : value);
    const quote = (value) => (value === null ? "" : quoted(String(plain(value))));
    const rows = state.rows.map((row) => columns.map((column) => cell(column, row)));
    const lines = [columns.map((column) => column.name), ...rows];
    const csv = `${lines.map((line) => line.map(quote).join(",")).join("\n")}\n`;
    const address = URL.createObjectURL(new Blob([csv], { type: "text/csv;charset=utf-8" }));
    const link = html("a", { href: address, download: "rows.csv", hidden: true });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  start(0);
}
