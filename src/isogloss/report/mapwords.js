/* What the word map knows of its words: who translates whom, what a pointed-at word shows, which curve leads. */

/* Translation groups: the points of each pair number, the central language's first, which the others are joined to. */
function groupsOf(map, centre) {
  const byPair = new Map();
  map.pair.forEach((pair, index) => {
    if (!byPair.has(pair)) byPair.set(pair, []);
    byPair.get(pair).push(index);
  });
  for (const group of byPair.values()) {
    group.sort((a, b) => (map.language[b] === centre) - (map.language[a] === centre) || a - b);
  }
  const all = [...byPair.values()];
  // A stride spreads the first few groups over the whole list; a Set keeps each group once.
  const order = new Set([...all.map((_, place) => all[(place * 37) % all.length]), ...all]);
  return { byPair, order: [...order] };
}

function wordCard(state, index) {
  const { word, language, pair } = state.run.map;
  const line = (place, tag) => {
    const known = languageOf(language[place]);
    return html(
      "div",
      { class: "card-line" },
      markerIcon(known),
      html(tag, { dir: "auto", lang: known.code }, word[place]),
      html("span", { class: "quiet" }, known.name),
    );
  };
  const others = state.groups.byPair.get(pair[index]).filter((place) => place !== index);
  return [
    line(index, "strong"),
    ...(others.length ? [html("div", { class: "card-rule" }, "translated as")] : []),
    ...others.map((place) => line(place, "span")),
  ];
}

function leadCurve(run) {
  return (
    run.lead &&
    run.curves.find(
      (curve) => curve.mean && !curve.only && curve.measure === run.lead.measure && curve.variant === run.lead.variant,
    )
  );
}
