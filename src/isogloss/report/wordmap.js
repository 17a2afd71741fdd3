/* The word map: points glide between layers, translations are joined by thin lines, a word can be hovered or searched. */

/* Positions reach from -1.55 to 1.55 across and from -1.15 to 1.15 up, so this scale keeps a margin on every side. */
const MAP = { width: 1000, height: 720, scale: 296, radius: 5, labels: 26, reach: 18 };
const LETTERS = document.createElement("canvas").getContext("2d");

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
    const lead = leadCurve(run);
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
