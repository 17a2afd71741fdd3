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
/* Beside and below the word map: search, languages, notes; play, slider, and the leading curve it runs along. */

function mapSide(state, runs, act) {
  const box = {
    languages: html("div", { class: "legend", role: "group", "aria-label": "languages shown" }),
    results: html("div", { class: "results", "aria-live": "polite" }),
    note: html("p", { class: "quiet" }),
  };
  const search = html("input", {
    type: "search",
    id: "word-search",
    placeholder: "find a word",
    "aria-label": "find a word",
    autocomplete: "off",
    spellcheck: "false",
    oninput: find,
  });
  const wanted = html("input", { type: "checkbox", checked: true, onchange: () => act.labels() });
  const threads = html("input", {
    type: "checkbox",
    checked: true,
    onchange: () => document.querySelector(".word-map .lines").classList.toggle("off", !threads.checked),
  });
  const chooser = runMenu(runs, (place) => act.choose(runs[place]));
  const node = html(
    "aside",
    { class: "map-side" },
    chooser && chooser.node,
    search,
    box.results,
    box.languages,
    html("div", { class: "switches" }, html("label", {}, wanted, " labels"), html("label", {}, threads, " lines")),
    box.note,
  );

  function build() {
    search.value = "";
    box.results.replaceChildren();
    const { map } = state.run;
    const used = DATA.languages.filter((language) => map.language.includes(language.code));
    box.languages.classList.toggle("many", used.length > 10);
    box.languages.replaceChildren(
      ...used.map((language) => {
        const button = html(
          "button",
          { type: "button", class: "language", "aria-pressed": "true", "data-code": language.code },
          markerIcon(language),
          language.name,
        );
        button.addEventListener("click", () => {
          act.toggle(language.code);
          button.setAttribute("aria-pressed", String(!state.hidden.has(language.code)));
        });
        return button;
      }),
    );
    const notes = [];
    if (map.kept < map.total)
      notes.push(
        `Shown: ${map.kept.toLocaleString("en")} of ${map.total.toLocaleString("en")} groups of translations, evenly spread, to keep the page light.`,
      );
    const missing = Object.entries(map.scripts)
      .filter(([, letters]) => !drawable(letters))
      .map(([script]) => script);
    if (missing.length)
      notes.push(`This browser has no font for ${missing.join(", ")}, so those words carry no label.`);
    state.readable = missing.length
      ? (word) => [...word].every((letter) => /\s/.test(letter) || drawable(letter))
      : () => true;
    box.note.replaceChildren(notes.join(" "));
    box.note.classList.toggle("warning", missing.length > 0);
  }

  function find() {
    const query = plain(search.value.trim());
    const { word, pair, language } = state.run.map;
    if (!query) {
      box.results.replaceChildren();
      act.pin([]);
      return;
    }
    const rank = (text) => (text === query ? 0 : text.startsWith(query) ? 1 : 2);
    const hits = word.map((text, index) => [plain(text), index]).filter(([text]) => text.includes(query));
    hits.sort((a, b) => rank(a[0]) - rank(b[0]) || a[0].length - b[0].length);
    const exact = hits.filter(([text]) => text === query);
    act.pin((exact.length ? exact : hits.slice(0, 1)).map(([, index]) => pair[index]));
    box.results.replaceChildren(
      ...hits
        .slice(0, 6)
        .map(([, index]) =>
          html(
            "button",
            { type: "button", class: "result", onclick: () => act.pin([pair[index]]) },
            markerIcon(languageOf(language[index])),
            html("span", { dir: "auto" }, word[index]),
          ),
        ),
      html(
        "span",
        { class: "quiet" },
        hits.length ? (hits.length > 6 ? `and ${hits.length - 6} more` : "") : "no such word on this map",
      ),
    );
  }

  return { node, build, labelsWanted: () => wanted.checked };
}

function plain(text) {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();
}

/* Whether the browser draws these letters: a letter without a font looks like a letter that does not exist. */
const DRAWABLE = new Map();

function drawable(letters) {
  if (!DRAWABLE.has(letters)) DRAWABLE.set(letters, looksDrawn(letters));
  return DRAWABLE.get(letters);
}

function looksDrawn(letters) {
  const picture = (letter) => {
    const canvas = html("canvas", { width: 48, height: 48 });
    const pen = canvas.getContext("2d");
    pen.font = `32px ${getComputedStyle(document.body).fontFamily}`;
    pen.fillText(letter, 6, 36);
    return canvas.toDataURL();
  };
  const nothing = picture("\u{10FFFE}");
  const blank = picture(" ");
  return [...letters].some((letter) => ![nothing, blank].includes(picture(letter)));
}

function mapTransport(state, act) {
  const width = 1000;
  const height = 74;
  const curve = svg("svg", {
    class: "guide",
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  const play = html(
    "button",
    { type: "button", class: "play", id: "play", "aria-label": "play through the layers", onclick: () => act.replay() },
    "▶",
  );
  const slider = html("input", { type: "range", id: "layer-slider", min: 0, step: 1, value: 0, "aria-label": "layer" });
  const readout = html("output", { class: "readout", for: "layer-slider" });
  const names = html("div", { class: "layer-names", "aria-hidden": "true" });
  const caption = html("p", { class: "guide-caption quiet" });
  let needle = null;
  slider.addEventListener("input", () => {
    if (state.playing) act.replay();
    act.goTo(Number(slider.value));
  });
  const node = html(
    "div",
    { class: "transport" },
    play,
    html("div", { class: "track" }, curve, slider, names, caption),
    readout,
  );

  function build() {
    const { layers } = state.run.map;
    const last = Math.max(1, layers.length - 1);
    slider.max = layers.length - 1;
    slider.value = state.target;
    const x = linear([0, last], [0, width]);
    const parts = [];
    const lead = state.run.lead;
    if (lead) parts.push(...guide(lead, layers, x));
    needle = svg("line", { class: "needle", y1: 0, y2: height });
    curve.replaceChildren(...parts, needle);
    names.replaceChildren(
      ...layerTicks(layers.length - 1, 25).map((place) => {
        const name = html("span", {}, String(layers[place]));
        name.style.left = `${(place / last) * 100}%`;
        return name;
      }),
    );
    caption.replaceChildren(
      lead
        ? `Above the slider: ${lead.name}${lead.members > 1 ? `, average over ${lead.members}` : ""}; shaded, the layers that cannot be told from the best.`
        : "",
    );
    aim(state.target);
  }

  function guide(lead, layers, x) {
    const top = Math.max(...lead.value, ...(lead.high || []).filter((value) => value !== null));
    const y = linear([0, top || 1], [height - 4, 6]);
    const places = lead.layers.map((layer) => layers.indexOf(layer));
    const line = places.map((place, at) => [place, lead.value[at]]).filter(([place]) => place >= 0);
    const half = x(0.5) - x(0);
    const best = lead.alike.map((layer) => layers.indexOf(layer)).filter((place) => place >= 0);
    const area = `M${x(line[0][0])},${height}${line.map(([place, value]) => `L${x(place)},${y(value)}`).join("")}L${x(line.at(-1)[0])},${height}Z`;
    return [
      svg("path", { class: "guide-area", d: area }),
      ...best
        .map((place) => [Math.max(0, x(place) - half), Math.min(width, x(place) + half)])
        .map(([from, to]) => svg("rect", { class: "best-band", x: from, width: to - from, y: 0, height })),
      svg("path", { class: "guide-line", d: `M${line.map(([place, value]) => `${x(place)},${y(value)}`).join("L")}` }),
    ];
  }

  function show(position) {
    const last = Math.max(1, state.run.map.layers.length - 1);
    if (needle) {
      needle.setAttribute("x1", (position / last) * width);
      needle.setAttribute("x2", (position / last) * width);
    }
  }

  function aim(place) {
    slider.value = place;
    const layer = state.run.map.layers[place];
    readout.replaceChildren(
      html("span", { class: "quiet" }, "layer"),
      html("strong", {}, String(layer)),
      html("span", { class: "quiet" }, `of ${state.run.depth ?? state.run.map.layers.at(-1)}`),
    );
    slider.setAttribute("aria-valuetext", `layer ${layer}`);
  }

  function playing(on) {
    play.textContent = on ? "❚❚" : "▶";
    play.setAttribute("aria-label", on ? "pause" : "play through the layers");
  }

  return { node, build, show, aim, playing };
}
/* The word map: points glide between layers, translations are joined by thin lines, a word can be hovered or searched. */

/* Positions reach from -1.55 to 1.55 across and from -1.15 to 1.15 up, so this scale keeps a margin on every side. */
const MAP = { width: 1000, height: 720, scale: 296, radius: 5, labels: 26, reach: 18 };

function wordMap(root) {
  const runs = DATA.runs.filter((run) => run.map);
  if (!runs.length) {
    root.append(
      html(
        "p",
        { class: "quiet" },
        "There is no word map: the run holds no points.parquet, which map writes unless it was told --points 0.",
      ),
    );
    return;
  }
  const state = {
    run: runs[0],
    position: 0,
    target: 0,
    zoom: 1,
    centre: [0, 0],
    hidden: new Set(),
    pinned: new Set(),
    hover: -1,
    playing: false,
    labelled: [],
  };
  const layers = mapLayers();
  const side = mapSide(state, runs, api());
  const transport = mapTransport(state, api());
  root.append(
    html("div", { class: "map-grid" }, html("div", { class: "map-stage" }, layers.root, zoomButtons()), side.node),
    transport.node,
  );

  function api() {
    return {
      choose,
      goTo,
      toggle,
      pin,
      redraw: () => draw(),
      replay: () => setPlaying(!state.playing),
      labels: () => settle(),
    };
  }

  function choose(run) {
    setPlaying(false);
    const lead = run.lead;
    const start = lead && run.map.layers.includes(lead.best) ? run.map.layers.indexOf(lead.best) : 0;
    const codes = run.map.language.map(languageOf);
    Object.assign(state, {
      run,
      position: start,
      target: start,
      hidden: new Set(),
      pinned: new Set(),
      hover: -1,
      zoom: 1,
      centre: [0, 0],
      labelled: [],
      codes,
    });
    state.groups = groupsOf(run.map, run.centre);
    layers.build(run.map, codes);
    side.build();
    transport.build();
    settle();
  }

  /* Where a point is on the drawing at the present, possibly fractional, place between layers. */
  function at(index) {
    const low = Math.floor(state.position);
    const share = state.position - low;
    const { x, y } = state.run.map;
    const high = Math.min(low + 1, x.length - 1);
    const px = (x[low][index] * (1 - share) + x[high][index] * share) / 1000;
    const py = (y[low][index] * (1 - share) + y[high][index] * share) / 1000;
    const scale = MAP.scale * state.zoom;
    return [MAP.width / 2 + (px - state.centre[0]) * scale, MAP.height / 2 - (py - state.centre[1]) * scale];
  }

  function shown(index) {
    return !state.hidden.has(state.run.map.language[index]);
  }

  function draw() {
    const count = state.run.map.word.length;
    state.places = Array.from({ length: count }, (_, index) => at(index));
    state.places.forEach(([x, y], index) => layers.move(index, x, y, shown(index)));
    layers.lines(state.groups, state.places, shown);
    drawFocus();
    transport.show(state.position);
  }

  function drawFocus() {
    const pairs = new Set(state.pinned);
    if (state.hover >= 0) pairs.add(state.run.map.pair[state.hover]);
    layers.focus(state, [...pairs].map((pair) => state.groups.byPair.get(pair)).filter(Boolean), shown);
  }

  /* At rest: draw once more and choose which words get a label. */
  function settle() {
    draw();
    layers.root.classList.remove("moving");
    if (!side.labelsWanted() || state.pinned.size)
      layers.label({ ...state, labelled: [], groups: { order: [] } }, shown);
    else state.labelled = layers.label(state, shown);
  }

  function goTo(index, after) {
    const last = state.run.map.layers.length - 1;
    state.target = Math.min(Math.max(index, 0), last);
    const [from, began] = [state.position, performance.now()];
    const distance = Math.abs(state.target - from);
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const lasts = still ? 0 : Math.min(1600, 480 + 160 * Math.max(0, distance - 1));
    const ticket = (state.ticket = {});
    layers.root.classList.add("moving");
    transport.aim(state.target);
    const step = (now) => {
      if (state.ticket !== ticket) return;
      const share = lasts ? Math.min(1, (now - began) / lasts) : 1;
      const eased = share < 0.5 ? 2 * share * share : 1 - 2 * (1 - share) * (1 - share);
      state.position = from + (state.target - from) * eased;
      draw();
      if (share < 1) requestAnimationFrame(step);
      else {
        settle();
        if (after) after();
      }
    };
    requestAnimationFrame(step);
  }

  function setPlaying(playing) {
    state.playing = playing;
    clearTimeout(state.timer);
    transport.playing(playing);
    if (!playing) return;
    const last = state.run.map.layers.length - 1;
    const next = () => {
      if (!state.playing) return;
      if (state.target >= last) {
        setPlaying(false);
        return;
      }
      goTo(state.target + 1, () => {
        state.timer = setTimeout(next, 650);
      });
    };
    if (state.target >= last)
      goTo(0, () => {
        state.timer = setTimeout(next, 650);
      });
    else next();
  }

  function toggle(code) {
    if (!state.hidden.delete(code)) state.hidden.add(code);
    settle();
  }

  function pin(pairs) {
    state.pinned = new Set(pairs);
    layers.root.classList.toggle("pinned", state.pinned.size > 0);
    settle();
  }

  function zoomButtons() {
    const zoom = (factor) => {
      state.zoom = Math.min(12, Math.max(1, state.zoom * factor));
      if (state.zoom === 1) state.centre = [0, 0];
      settle();
    };
    return html(
      "div",
      { class: "zoom" },
      html("button", { type: "button", "aria-label": "zoom in", onclick: () => zoom(1.5) }, "+"),
      html("button", { type: "button", "aria-label": "zoom out", onclick: () => zoom(1 / 1.5) }, "−"),
      html("button", { type: "button", "aria-label": "show everything", onclick: () => zoom(0) }, "⤢"),
    );
  }

  function pointer(event) {
    const box = layers.root.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * MAP.width,
      ((event.clientY - box.top) / box.height) * MAP.height,
    ];
  }

  function nearest([x, y]) {
    let [found, distance] = [-1, MAP.reach];
    state.places.forEach(([px, py], index) => {
      const gap = Math.hypot(px - x, py - y);
      if (gap < distance && shown(index)) [found, distance] = [index, gap];
    });
    return found;
  }

  layers.root.addEventListener("pointermove", (event) => {
    if (state.drag) {
      pan(event);
      return;
    }
    const found = nearest(pointer(event));
    if (found !== state.hover) {
      state.hover = found;
      drawFocus();
    }
    if (found >= 0) tooltip.show(wordCard(state, found), event.clientX, event.clientY);
    else tooltip.hide();
  });
  layers.root.addEventListener("pointerleave", () => {
    state.hover = -1;
    tooltip.hide();
    drawFocus();
  });
  layers.root.addEventListener("pointerdown", (event) => {
    state.drag = { from: pointer(event), centre: state.centre, moved: false };
  });
  window.addEventListener("pointerup", (event) => {
    const drag = state.drag;
    state.drag = null;
    if (!drag || !layers.root.contains(event.target)) return;
    if (drag.moved) {
      settle();
      return;
    }
    const found = nearest(pointer(event));
    pin(found >= 0 && !state.pinned.has(state.run.map.pair[found]) ? [state.run.map.pair[found]] : []);
  });

  function pan(event) {
    const [x, y] = pointer(event);
    const scale = MAP.scale * state.zoom;
    const [dx, dy] = [x - state.drag.from[0], y - state.drag.from[1]];
    if (Math.hypot(dx, dy) < 4 || state.zoom === 1) return;
    state.drag.moved = true;
    state.centre = [state.drag.centre[0] - dx / scale, state.drag.centre[1] + dy / scale];
    draw();
  }

  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      event.preventDefault();
      setPlaying(false);
      goTo(state.target + (event.key === "ArrowRight" ? 1 : -1));
    } else if (event.key === "Escape") pin([]);
  });
  choose(runs[0]);
}
