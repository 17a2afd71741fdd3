/* What the word map is drawn with: one SVG in four sheets, lines below, then points, then what is in focus, then labels. */

function mapLayers() {
  const sheets = {
    lines: svg("g", { class: "lines" }),
    points: svg("g", { class: "points" }),
    focus: svg("g", { class: "focus" }),
    labels: svg("g", { class: "labels" }),
  };
  const root = svg(
    "svg",
    {
      class: "word-map",
      viewBox: `0 0 ${MAP.width} ${MAP.height}`,
      role: "img",
      "aria-label": "Word map: words of all languages, translations joined by lines",
    },
    ...Object.values(sheets),
  );
  let [marks, threads, map, codes] = [[], new Map(), null, []];

  function build(newMap, newCodes) {
    [map, codes] = [newMap, newCodes];
    MAP.radius = map.word.length > 700 ? 4 : 5;
    threads = new Map([...new Set(map.language)].map((code) => [code, svg("path", { class: "thread" })]));
    marks = map.word.map((_, index) =>
      svg("path", {
        class: "point",
        "data-index": index,
        "data-language": map.language[index],
        d: markerPath(codes[index].shape, MAP.radius),
        fill: codes[index].colour,
      }),
    );
    sheets.lines.replaceChildren(...threads.values());
    sheets.points.replaceChildren(...marks);
  }

  function move(index, x, y, visible) {
    marks[index].setAttribute("transform", `translate(${x.toFixed(1)},${y.toFixed(1)})`);
    if (marks[index].hasAttribute("display") === visible)
      visible ? marks[index].removeAttribute("display") : marks[index].setAttribute("display", "none");
  }

  function lines(groups, places, shown) {
    const paths = new Map([...threads.keys()].map((code) => [code, []]));
    for (const group of groups.byPair.values()) {
      const visible = group.filter(shown);
      for (const index of visible.slice(1))
        paths.get(map.language[index]).push(segment(places[visible[0]], places[index]));
    }
    for (const [code, path] of paths) threads.get(code).setAttribute("d", path.join(""));
  }

  function segment([x1, y1], [x2, y2]) {
    return `M${x1.toFixed(1)},${y1.toFixed(1)}L${x2.toFixed(1)},${y2.toFixed(1)}`;
  }

  /* The pinned and hovered groups, larger, joined by strong lines, with every word written out. */
  function focus(state, groups, shown) {
    const nodes = [];
    const taken = groups
      .flat()
      .filter(shown)
      .map((index) => {
        const [x, y] = state.places[index];
        return { left: x - MAP.radius, right: x + MAP.radius, top: y - MAP.radius, bottom: y + MAP.radius };
      });
    for (const group of groups) {
      const visible = group.filter(shown);
      nodes.push(
        ...visible
          .slice(1)
          .map((index) =>
            svg("path", { class: "strong-thread", d: segment(state.places[visible[0]], state.places[index]) }),
          ),
      );
      nodes.push(
        ...visible.map((index) => {
          const [x, y] = state.places[index];
          return svg("path", {
            class: "strong-point",
            d: markerPath(codes[index].shape, MAP.radius * 1.6),
            fill: codes[index].colour,
            transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`,
          });
        }),
      );
      if (groups.length <= 12)
        nodes.push(...visible.map((index) => label(state, index, taken, { force: true, size: 16 })));
    }
    sheets.focus.replaceChildren(...nodes.filter(Boolean));
  }

  /* Labels that overlap no other, for the groups labelled before and then for the next ones; returns those groups. */
  function choose(state, shown) {
    const [taken, nodes, groups] = [[], [], []];
    const many = new Set(map.language).size > 4;
    for (const group of [...state.labelled, ...state.groups.order.filter((one) => !state.labelled.includes(one))]) {
      if (nodes.length >= MAP.labels) break;
      const seen = group.filter(shown);
      const visible =
        many && seen.length > 1 ? [seen[0], seen[1 + (state.groups.order.indexOf(group) % (seen.length - 1))]] : seen;
      const before = taken.length;
      const made = visible.map((index) => label(state, index, taken, { size: 14 }));
      if (visible.length && made.every((one, at) => one || !state.readable(map.word[visible[at]]))) {
        nodes.push(...made.filter(Boolean));
        groups.push(group);
      } else taken.length = before;
    }
    sheets.labels.replaceChildren(...nodes);
    return groups;
  }

  function label(state, index, taken, { force = false, size }) {
    const [x, y] = state.places[index];
    if (!state.readable(map.word[index])) return null;
    if (x < 0 || y < 0 || x > MAP.width || y > MAP.height) return null;
    LETTERS.font = `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
    const text = shorten(map.word[index]);
    const width = LETTERS.measureText(text).width;
    const gap = MAP.radius * (force ? 1.6 : 1) + 4;
    const middle = y + size * 0.35;
    const spots = [
      [x + gap, middle, "start"],
      [x - gap, middle, "end"],
      [x, y - gap, "middle"],
      [x, y + gap + size * 0.7, "middle"],
    ];
    // Words in focus are all written: further up or down, where the four sides are taken.
    const further = force ? [1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8, 10, -10] : [];
    for (const step of further)
      spots.push([x + gap, middle + step * size, "start"], [x - gap, middle + step * size, "end"]);
    const boxes = spots.map(([tx, ty, anchor]) => {
      const left = anchor === "start" ? tx : anchor === "end" ? tx - width : tx - width / 2;
      return { left, right: left + width, top: ty - size * 0.85, bottom: ty + size * 0.25 };
    });
    const inside = (box) => box.left >= 2 && box.right <= MAP.width - 2 && box.top >= 2 && box.bottom <= MAP.height - 2;
    const free = boxes.findIndex((box) => inside(box) && taken.every((other) => apart(box, other)));
    const place = free >= 0 ? free : force ? Math.max(0, boxes.findIndex(inside)) : -1;
    if (place < 0) return null;
    taken.push(boxes[place]);
    const [tx, ty, anchor] = spots[place];
    return svg(
      "text",
      {
        x: tx.toFixed(1),
        y: ty.toFixed(1),
        "text-anchor": anchor,
        "font-size": size,
        fill: codes[index].ink,
        lang: codes[index].code,
      },
      text,
    );
  }

  function apart(a, b) {
    return a.right + 4 < b.left || b.right + 4 < a.left || a.bottom + 1 < b.top || b.bottom + 1 < a.top;
  }

  function shorten(word) {
    const letters = [...word];
    return letters.length > 22 ? `${letters.slice(0, 21).join("")}…` : word;
  }

  return { root, build, move, lines, focus, label: choose };
}
