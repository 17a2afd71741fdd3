/* Start the page: the data is a block of JSON, and each section fills its own place. */

function begin() {
  document.body.append(tooltip.node);
  const fillers = {
    ...MORE_SECTIONS,
    "word-map": wordMap,
    curves: curvePanels,
    "heat-map": (root) => gridSection(root, { render: heatMap, matrix: false }),
    matrix: (root) => gridSection(root, { render: languageMatrix, matrix: true }),
    rows: rowTable,
  };
  for (const [id, filler] of Object.entries(fillers)) {
    const stage = document.querySelector(`#${id} .stage`);
    if (stage) filler(stage);
  }
  document.documentElement.classList.add("ready");
}

begin();
