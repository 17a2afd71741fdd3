/* The word map: points glide between layers, translations are joined by thin lines, a word can be hovered or searched.
   Below it a slider runs along the leading curve; beside it are search, languages and notes. */

/* Positions reach from -1.55 to 1.55 across and from -1.15 to 1.15 up, so this scale keeps a margin on every side. */
const MAP = { width: 1000, height: 720, scale: 296, radius: 5, labels: 26, reach: 18 };
const NO_MAP = "There is no word map: the run holds no points.parquet, which map writes unless it was told --points 0.";
const FURTHER = [1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8, 10, -10];

function wordMap(root) {
  const runs = DATA.runs.filter((run) => run.map);
  if (!runs.length) return root.append(quiet(NO_MAP, "p"));
  const state = { run: runs[0], position: 0, target: 0, playing: false };
  const sheet = mapSheet();
  const side = mapSide(state, runs, { choose, pin, toggle, settle });
  const transport = mapTransport(state, { goTo, replay: () => setPlaying(!state.playing) });
  const stage = html("div", { class: "map-stage" }, sheet.root, zoomButtons());
  root.append(html("div", { class: "map-grid" }, stage, side.node), transport.node);

  function choose(run) {
    setPlaying(false);
    const start = run.lead ? Math.max(0, run.map.layers.indexOf(run.lead.best)) : 0;
    Object.assign(state, { run, position: start, target: start, hover: -1, zoom: 1, centre: [0, 0], labelled: [] });
    Object.assign(state, { hidden: new Set(), pinned: new Set(), groups: groupsOf(run.map, run.centre) });
    sheet.build(run.map, run.map.language.map(languageOf));
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
    const [px, py] = [x, y].map((axis) => (axis[low][index] * (1 - share) + axis[high][index] * share) / 1000);
    const scale = MAP.scale * state.zoom;
    return [MAP.width / 2 + (px - state.centre[0]) * scale, MAP.height / 2 - (py - state.centre[1]) * scale];
  }

  const shown = (index) => !state.hidden.has(state.run.map.language[index]);

  function draw() {
    state.places = state.run.map.word.map((_, index) => at(index));
    state.places.forEach(([x, y], index) => sheet.move(index, x, y, shown(index)));
    sheet.lines(state.groups, state.places, shown);
    drawFocus();
    transport.show(state.position);
  }

  function drawFocus() {
    const pairs = new Set([...state.pinned, state.run.map.pair[state.hover]]);
    sheet.focus(state, [...pairs].map((pair) => state.groups.byPair.get(pair)).filter(Boolean), shown);
  }

  /* At rest: draw once more and choose which words get a label. */
  function settle() {
    draw();
    sheet.root.classList.remove("moving");
    const wanted = side.labelsWanted() && !state.pinned.size;
    const labelled = sheet.label(state, wanted ? shown : () => false);
    if (wanted) state.labelled = labelled;
  }

  function goTo(index, after) {
    state.target = Math.min(Math.max(index, 0), state.run.map.layers.length - 1);
    const [from, began] = [state.position, performance.now()];
    const distance = Math.abs(state.target - from);
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const lasts = still ? 0 : Math.min(1600, 480 + 160 * Math.max(0, distance - 1));
    const ticket = (state.ticket = {});
    sheet.root.classList.add("moving");
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
      if (!state.playing || state.target >= last) setPlaying(false);
      else step(state.target + 1);
    };
    const step = (layer) => goTo(layer, () => (state.timer = setTimeout(next, 650)));
    step(state.target >= last ? 0 : state.target + 1);
  }

  /* Hides a language or shows it again; whether it is shown now. */
  function toggle(code) {
    if (!state.hidden.delete(code)) state.hidden.add(code);
    settle();
    return !state.hidden.has(code);
  }

  function pin(pairs) {
    state.pinned = new Set(pairs);
    sheet.root.classList.toggle("pinned", state.pinned.size > 0);
    settle();
  }

  function zoomButtons() {
    const zoom = (factor) => {
      state.zoom = Math.min(12, Math.max(1, state.zoom * factor));
      if (state.zoom === 1) state.centre = [0, 0];
      settle();
    };
    const button = (label, factor, text) =>
      html("button", { type: "button", "aria-label": label, onclick: () => zoom(factor) }, text);
    const [closer, further] = [button("zoom in", 1.5, "+"), button("zoom out", 1 / 1.5, "−")];
    return html("div", { class: "zoom" }, closer, further, button("show everything", 0, "⤢"));
  }

  function pointer(event) {
    const { left, top, width, height } = sheet.root.getBoundingClientRect();
    return [((event.clientX - left) / width) * MAP.width, ((event.clientY - top) / height) * MAP.height];
  }

  function nearestPoint([x, y]) {
    let [found, distance] = [-1, MAP.reach];
    state.places.forEach(([px, py], index) => {
      const gap = Math.hypot(px - x, py - y);
      if (gap < distance && shown(index)) [found, distance] = [index, gap];
    });
    return found;
  }

  function pan(event) {
    const [x, y] = pointer(event);
    const scale = MAP.scale * state.zoom;
    const [dx, dy] = [x - state.drag.from[0], y - state.drag.from[1]];
    if (Math.hypot(dx, dy) < 4 || state.zoom === 1) return;
    state.drag.moved = true;
    state.centre = [state.drag.centre[0] - dx / scale, state.drag.centre[1] + dy / scale];
    draw();
  }

  function hover(found, event) {
    if (found >= 0) tooltip.show(wordCard(state, found), event.clientX, event.clientY);
    else tooltip.hide();
    if (found === state.hover) return;
    state.hover = found;
    drawFocus();
  }

  sheet.root.addEventListener("pointermove", (event) => {
    if (state.drag) pan(event);
    else hover(nearestPoint(pointer(event)), event);
  });
  sheet.root.addEventListener("pointerleave", (event) => hover(-1, event));
  sheet.root.addEventListener("pointerdown", (event) => {
    state.drag = { from: pointer(event), centre: state.centre, moved: false };
  });
  window.addEventListener("pointerup", (event) => {
    const drag = state.drag;
    state.drag = null;
    if (!drag || !sheet.root.contains(event.target)) return;
    const pair = state.run.map.pair[nearestPoint(pointer(event))];
    if (drag.moved) settle();
    else pin(pair !== undefined && !state.pinned.has(pair) ? [pair] : []);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") pin([]);
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
    setPlaying(false);
    goTo(state.target + (event.key === "ArrowRight" ? 1 : -1));
  });
  return choose(runs[0]);
}

/* Translation groups: the points of each pair number, the central language's first, which the others are joined to. */
function groupsOf(map, centre) {
  const byPair = new Map();
  map.pair.forEach((pair, index) => byPair.set(pair, [...(byPair.get(pair) || []), index]));
  const first = (index) => map.language[index] === centre;
  for (const group of byPair.values()) group.sort((a, b) => first(b) - first(a) || a - b);
  const all = [...byPair.values()];
  // A stride spreads the first few groups over the whole list; a Set keeps each group once.
  const order = new Set([...all.map((_, place) => all[(place * 37) % all.length]), ...all]);
  return { byPair, order: [...order] };
}

/* What a pointed-at word shows: itself, and its translations. */
function wordCard(state, index) {
  const { word, language, pair } = state.run.map;
  const line = (place, tag) => {
    const known = languageOf(language[place]);
    const text = html(tag, { dir: "auto", lang: known.code }, word[place]);
    return html("div", { class: "card-line" }, markerIcon(known), text, quiet(known.name, "span"));
  };
  const others = state.groups.byPair.get(pair[index]).filter((place) => place !== index);
  const rule = others.length ? [html("div", { class: "card-rule" }, "translated as")] : [];
  return [line(index, "strong"), ...rule, ...others.map((place) => line(place, "span"))];
}

/* What the map is drawn with: one SVG in four sheets, lines below, then points, then what is in focus, then labels. */
function mapSheet() {
  const names = ["lines", "points", "focus", "labels"];
  const sheets = Object.fromEntries(names.map((name) => [name, svg("g", { class: name })]));
  const about = "Word map: words of all languages, translations joined by lines";
  const box = { class: "word-map", viewBox: `0 0 ${MAP.width} ${MAP.height}`, role: "img", "aria-label": about };
  const root = svg("svg", box, ...Object.values(sheets));
  let [marks, threads, map, codes] = [[], new Map(), null, []];

  function build(newMap, newCodes) {
    [map, codes] = [newMap, newCodes];
    MAP.radius = map.word.length > 700 ? 4 : 5;
    threads = new Map([...new Set(map.language)].map((code) => [code, svg("path", { class: "thread" })]));
    marks = map.word.map((_, index) => {
      const data = { class: "point", "data-index": index, "data-language": map.language[index] };
      return svg("path", { ...data, d: markerPath(codes[index].shape, MAP.radius), fill: codes[index].colour });
    });
    sheets.lines.replaceChildren(...threads.values());
    sheets.points.replaceChildren(...marks);
  }

  function move(index, x, y, visible) {
    marks[index].setAttribute("transform", `translate(${x.toFixed(1)},${y.toFixed(1)})`);
    if (visible) marks[index].removeAttribute("display");
    else marks[index].setAttribute("display", "none");
  }

  function lines(groups, places, shown) {
    const paths = new Map([...threads.keys()].map((code) => [code, []]));
    for (const group of groups.byPair.values()) {
      const [first, ...rest] = group.filter(shown);
      for (const index of rest) paths.get(map.language[index]).push(pathThrough([places[first], places[index]]));
    }
    for (const [code, path] of paths) threads.get(code).setAttribute("d", path.join(""));
  }

  /* The pinned and hovered groups, larger, joined by strong lines, with every word written out. */
  function focus(state, groups, shown) {
    const around = ([x, y], r) => ({ left: x - r, right: x + r, top: y - r, bottom: y + r });
    const taken = groups.flat().filter(shown).map((index) => around(state.places[index], MAP.radius));
    const nodes = [];
    for (const group of groups) {
      const visible = group.filter(shown);
      for (const index of visible.slice(1)) {
        const d = pathThrough([state.places[visible[0]], state.places[index]]);
        nodes.push(svg("path", { class: "strong-thread", d }));
      }
      for (const index of visible) {
        const transform = `translate(${state.places[index].map((place) => place.toFixed(1)).join(",")})`;
        const d = markerPath(codes[index].shape, MAP.radius * 1.6);
        nodes.push(svg("path", { class: "strong-point", d, fill: codes[index].colour, transform }));
      }
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
      const other = 1 + (state.groups.order.indexOf(group) % Math.max(1, seen.length - 1));
      const visible = many && seen.length > 1 ? [seen[0], seen[other]] : seen;
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
    if (!state.readable(map.word[index]) || x < 0 || y < 0 || x > MAP.width || y > MAP.height) return null;
    LETTERS.font = `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
    const text = shorten(map.word[index]);
    const width = LETTERS.measureText(text).width;
    const gap = MAP.radius * (force ? 1.6 : 1) + 4;
    const middle = y + size * 0.35;
    const spots = [[x + gap, middle, "start"], [x - gap, middle, "end"], [x, y - gap, "middle"]];
    spots.push([x, y + gap + size * 0.7, "middle"]);
    // Words in focus are all written: further up or down, where the four sides are taken.
    for (const step of force ? FURTHER : [])
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
    const look = { "text-anchor": anchor, "font-size": size, fill: codes[index].ink, lang: codes[index].code };
    return svg("text", { x: tx.toFixed(1), y: ty.toFixed(1), ...look }, text);
  }

  const apart = (a, b) => a.right + 4 < b.left || b.right + 4 < a.left || a.bottom + 1 < b.top || b.bottom + 1 < a.top;
  const shorten = (word) => ([...word].length > 22 ? `${[...word].slice(0, 21).join("")}…` : word);

  return { root, build, move, lines, focus, label: choose };
}

/* Beside the map: search, languages, switches and notes. */
function mapSide(state, runs, act) {
  const languages = html("div", { class: "legend", role: "group", "aria-label": "languages shown" });
  const results = html("div", { class: "results", "aria-live": "polite" });
  const note = quiet("", "p");
  const plainField = { type: "search", autocomplete: "off", spellcheck: "false", placeholder: "find a word" };
  const search = html("input", { id: "word-search", "aria-label": "find a word", ...plainField, oninput: find });
  const wanted = html("input", { type: "checkbox", checked: true, onchange: () => act.settle() });
  const hideLines = () => document.querySelector(".word-map .lines").classList.toggle("off", !threads.checked);
  const threads = html("input", { type: "checkbox", checked: true, onchange: hideLines });
  const chooser = runMenu(runs, (place) => act.choose(runs[place]));
  const switches = [html("label", {}, wanted, " labels"), html("label", {}, threads, " lines")];
  const parts = [chooser && chooser.node, search, results, languages, html("div", { class: "switches" }, ...switches)];
  const node = html("aside", { class: "map-side" }, ...parts, note);

  function languageButton(language) {
    const onclick = () => button.setAttribute("aria-pressed", String(act.toggle(language.code)));
    const about = { type: "button", class: "language", "aria-pressed": "true", "data-code": language.code, onclick };
    const button = html("button", about, markerIcon(language), language.name);
    return button;
  }

  function build() {
    search.value = "";
    results.replaceChildren();
    const { map } = state.run;
    const used = DATA.languages.filter((language) => map.language.includes(language.code));
    languages.classList.toggle("many", used.length > 10);
    languages.replaceChildren(...used.map(languageButton));
    const missing = Object.keys(map.scripts).filter((script) => !drawable(map.scripts[script]));
    const drawn = (word) => [...word].every((letter) => /\s/.test(letter) || drawable(letter));
    state.readable = missing.length ? drawn : () => true;
    const lacking = `This browser has no font for ${missing.join(", ")}, so those words carry no label.`;
    note.replaceChildren(missing.length ? lacking : "");
    note.classList.toggle("warning", missing.length > 0);
  }

  function find() {
    const query = plain(search.value.trim());
    const { word, pair, language } = state.run.map;
    const rank = (text) => (text === query ? 0 : text.startsWith(query) ? 1 : 2);
    const hits = word.map((text, index) => [plain(text), index]).filter(([text]) => query && text.includes(query));
    hits.sort((a, b) => rank(a[0]) - rank(b[0]) || a[0].length - b[0].length);
    const exact = hits.filter(([text]) => text === query);
    act.pin((exact.length ? exact : hits.slice(0, 1)).map(([, index]) => pair[index]));
    const buttons = hits.slice(0, 6).map(([, index]) => {
      const about = { type: "button", class: "result", onclick: () => act.pin([pair[index]]) };
      return html("button", about, markerIcon(languageOf(language[index])), html("span", { dir: "auto" }, word[index]));
    });
    const none = query ? "no such word on this map" : "";
    const more = hits.length > 6 ? `and ${hits.length - 6} more` : "";
    results.replaceChildren(...buttons, quiet(hits.length ? more : none, "span"));
  }

  return { node, build, labelsWanted: () => wanted.checked };
}

const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();

/* Whether the browser draws these letters: a letter without a font looks like a letter that does not exist. */
const DRAWABLE = new Map();

function drawable(letters) {
  if (!DRAWABLE.has(letters)) {
    const picture = (letter) => {
      const canvas = html("canvas", { width: 48, height: 48 });
      const pen = canvas.getContext("2d");
      pen.font = `32px ${getComputedStyle(document.body).fontFamily}`;
      pen.fillText(letter, 6, 36);
      return canvas.toDataURL();
    };
    const nothing = [picture("\u{10FFFE}"), picture(" ")];
    DRAWABLE.set(letters, [...letters].some((letter) => !nothing.includes(picture(letter))));
  }
  return DRAWABLE.get(letters);
}

/* Below the map: play, slider, and the leading curve it runs along. */
function mapTransport(state, act) {
  const [width, height] = [1000, 74];
  const box = { class: "guide", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const curve = svg("svg", box);
  const button = { type: "button", class: "play", id: "play", "aria-label": "play through the layers" };
  const play = html("button", { ...button, onclick: () => act.replay() }, "▶");
  const slider = html("input", { type: "range", id: "layer-slider", min: 0, step: 1, value: 0, "aria-label": "layer" });
  const readout = html("output", { class: "readout", for: "layer-slider" });
  const names = html("div", { class: "layer-names", "aria-hidden": "true" });
  const caption = html("p", { class: "guide-caption quiet" });
  const needle = svg("line", { class: "needle", y1: 0, y2: height });
  slider.addEventListener("input", () => {
    if (state.playing) act.replay();
    act.goTo(Number(slider.value));
  });
  const track = html("div", { class: "track" }, curve, slider, names, caption);
  const node = html("div", { class: "transport" }, play, track, readout);

  function build() {
    const { lead, map } = state.run;
    const { layers } = map;
    const last = Math.max(1, layers.length - 1);
    slider.max = layers.length - 1;
    curve.replaceChildren(...(lead ? guide(lead, layers, linear([0, last], [0, width])) : []), needle);
    const spans = layerTicks(layers.length - 1, 25).map((place) => {
      const name = html("span", {}, String(layers[place]));
      name.style.left = `${(place / last) * 100}%`;
      return name;
    });
    names.replaceChildren(...spans);
    const mean = lead && lead.members > 1 ? `, average over ${lead.members}` : "";
    const shaded = "shaded, the layers that cannot be told from the best.";
    caption.replaceChildren(lead ? `Above the slider: ${lead.name}${mean}; ${shaded}` : "");
    aim(state.target);
  }

  function guide(lead, layers, x) {
    const y = linear([0, Math.max(...lead.value, ...(lead.high || []).filter(isNumber)) || 1], [height - 4, 6]);
    const drawn = lead.steps.map((layer, at) => [layer, at]).filter(([layer]) => layers.includes(layer));
    const points = drawn.map(([layer, at]) => [x(layers.indexOf(layer)), y(lead.value[at])]);
    const half = x(0.5) - x(0);
    const best = lead.alike.filter((layer) => layers.includes(layer)).map((layer) => x(layers.indexOf(layer)));
    const ends = best.map((middle) => [Math.max(0, middle - half), Math.min(width, middle + half)]);
    const area = [[points[0][0], height], ...points, [points.at(-1)[0], height]];
    return [
      svg("path", { class: "guide-area", d: `${pathThrough(area)}Z` }),
      ...ends.map(([from, to]) => svg("rect", { class: "best-band", x: from, width: to - from, y: 0, height })),
      svg("path", { class: "guide-line", d: pathThrough(points) }),
    ];
  }

  function show(position) {
    moveLine(needle, (position / Math.max(1, state.run.map.layers.length - 1)) * width);
  }

  function aim(place) {
    const layer = state.run.map.layers[place];
    const depth = state.run.depth ?? state.run.map.layers.at(-1);
    slider.value = place;
    slider.setAttribute("aria-valuetext", `layer ${layer}`);
    readout.replaceChildren(quiet("layer", "span"), html("strong", {}, String(layer)), quiet(`of ${depth}`, "span"));
  }

  function playing(on) {
    play.textContent = on ? "❚❚" : "▶";
    play.setAttribute("aria-label", on ? "pause" : "play through the layers");
  }

  return { node, build, show, aim, playing };
}
