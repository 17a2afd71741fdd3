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
    const lead = leadCurve(state.run);
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
