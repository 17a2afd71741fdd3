"""The word map: prepares t-SNE points for drawing, and draws a figure, a sheet of layers, and an animation.

A t-SNE projection has no unit and no orientation. So each layer is centred, scaled to the same size, and rotated or
reflected to be as close as possible to the layer before it. Outliers beyond the frame are moved to its edge. The points
themselves are computed by the map recipe, each word at every layer.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.linalg import orthogonal_procrustes

from isogloss.figure import COLOURS, INK, QUIET, RULE, printable
from isogloss.files import whole
from isogloss.report.curves import RunFolder, language_name, spread
from isogloss.report.draw_matplotlib import FontChoice, caption, drawing, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

WIDE = 1.4  # ratio of the frame's width to its height
EDGE = 0.15  # margin for words beyond the middle 96%
MOST_LABELS = 30
LONGEST_LABEL, LONGEST_TITLE = 24, 46
SIDES = ((6, 0, "left", "center"), (-6, 0, "right", "center"), (0, 6, "center", "bottom"), (0, -6, "center", "top"))
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "star", "hexagon")
# The marker of each shape, and the area at which it looks as large as a circle:
MARKERS = dict(zip(SHAPES, zip("os^DvP*h", (1.0, 1.0, 1.25, 0.8, 1.25, 1.5, 2.4, 1.2), strict=True), strict=True))
MOST_FRAMES = 100
BETWEEN = (7, 3, 1)  # possible numbers of pictures between two layers; dropping every second gives the next number
MOST_BYTES = 3_000_000
REST, MOMENT, END = 900, 60, 1800  # milliseconds
Positions = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WordMap:
    """Words at every layer, and how they are drawn.

    Attributes:
        title: The name of the model.
        words: A row for each point: its `language`, its `word`, and its translation group, `pair`.
        positions: By layer, of shape (points, 2): x within about [-1.4, 1.4] and y within about [-1, 1].
        looks: Colour and shape of each language, from `language_look`.
        groups: The points of each translation group, the central language's first.
    """

    title: str
    words: pd.DataFrame
    positions: Mapping[int, Positions]
    looks: Mapping[str, Mapping[str, str]]
    groups: Sequence[Sequence[int]]

    def members(self, code: str) -> npt.NDArray[np.intp]:
        """The indices of a language's points."""
        return np.flatnonzero(self.words["language"] == code)

    def segments(self, positions: Positions) -> list[Positions]:
        """The lines from the first word of each group to the others, at positions of shape (points, 2)."""
        return [positions[[group[0], other]] for group in self.groups for other in group[1:]]


def language_look(index: int, code: str, name: str) -> dict[str, str]:
    """The name, colour and shape of a language; `ink`, the colour of its words, is darkened for legibility.

    >>> language_look(4, "nl", "Dutch")
    {'code': 'nl', 'name': 'Dutch', 'colour': '#E69F00', 'ink': '#8e6c16', 'shape': 'wedge'}
    """
    colour, shape = COLOURS[index % len(COLOURS)], SHAPES[index % len(SHAPES)]
    parts = ((int(colour[at : at + 2], 16), int(INK[at : at + 2], 16)) for at in (1, 3, 5))  # red, green and blue
    ink = "#" + "".join(f"{round(own + (dark - own) * 0.44):02x}" for own, dark in parts)
    return {"code": code, "name": name, "colour": colour, "ink": ink, "shape": shape}


def word_map(points: pd.DataFrame, languages: Sequence[str] = (), *, title: str = "", centre: str = "") -> WordMap:
    """The drawable word map of a run's points.

    Args:
        points: Has the columns layer, language, word, pair, x and y.
        languages: Languages in the order of their colours; others follow.
        title: The name of the model.
        centre: The language whose words are joined to their translations.
    """
    layers = sorted(int(layer) for layer in points["layer"].unique())
    data = points.sort_values(["layer", "pair", "language", "word"], kind="stable")
    first = data[data["layer"] == layers[0]].reset_index(drop=True)
    raw = data[["x", "y"]].to_numpy(dtype="float64").reshape(len(layers), len(first), 2)  # (layers, points, 2)
    own = first["language"].tolist()
    codes = enumerate(dict.fromkeys([*languages, *own]))
    looks = {code: language_look(index, code, language_name(code)) for index, code in codes}
    return WordMap(
        title=printable(title),
        words=first[["language", "word", "pair"]],
        positions=dict(zip(layers, _align(raw), strict=True)),
        looks={code: look for code, look in looks.items() if code in own},
        groups=[sorted(group, key=lambda at: own[at] != centre) for group in first.groupby("pair").indices.values()],
    )


def _align(layers: Positions) -> Positions:
    """Rotate or reflect each layer onto the one before, and fit it into the frame; shape (layers, points, 2).

    This is orthogonal Procrustes in the plane; then all layers are rotated together so that the first principal
    component is horizontal. The frame contains the middle 96% of the points; points beyond its edge are moved onto it,
    so that outliers do not shrink the rest.
    """
    centred = layers - layers.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(centred, axis=(1, 2), keepdims=True)
    centred = centred / np.where(sizes > 0, sizes, 1.0)
    aligned = [centred[0]]
    for layer in centred[1:]:
        aligned.append(layer @ orthogonal_procrustes(layer, aligned[-1])[0])
    _, _, directions = np.linalg.svd(np.concatenate(aligned), full_matrices=False)
    turned = np.stack(aligned) @ directions.T
    low, high = np.quantile(turned, (0.02, 0.98), axis=1, keepdims=True)  # (layers, 1, 2) each
    reach = ((high - low) / (2 * WIDE, 2.0)).max(axis=2, keepdims=True)
    scaled = (turned - (low + high) / 2) / np.where(reach > 0, reach, 1.0)
    return np.clip(scaled, (-WIDE - EDGE, -1.0 - EDGE), (WIDE + EDGE, 1.0 + EDGE))


def write_word_maps(run: RunFolder, out: Path) -> list[Path]:
    """Draw the words of a run that has points, and return the files.

    `word-map` is one layer with labels on some words, `word-map-layers` is several layers side by side, and
    `layers.gif` is an animation over the layers. While it is above 3 MB, every second picture between layers is left
    out.
    """
    if run.points is None:
        return []
    points = word_map(run.points, run.languages, title=run.model, centre=run.centre)
    every = list(points.positions)
    best = run.lead.best if run.lead is not None and run.lead.best in every else every[-1]
    names = (look["name"] for look in points.looks.values())
    with drawing([*map(printable, points.words["word"]), run.model, *names]) as fonts:
        figure, axes = new_figure(10.4, 6.8)
        draw_map(axes, points, points.positions[best], size=26)
        axes.set_title(f"{points.title}: words at layer {best}")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handletextpad=0.2)
        about = "Near means alike; directions mean nothing. Words far outside the rest are drawn at the edge."
        caption(figure, " ".join([about, *fonts.cannot.values()]))
        figure.draw_without_rendering()
        _label(axes, points, fonts, points.positions[best])
        files = save(figure, out, "word-map")

        layers = choose_layers(every, best, most=6)
        columns = min(3, len(layers))
        rows = -(-len(layers) // columns)
        figure, grid = new_figure(3.8 * columns, 2.9 * rows + 0.9, nrows=rows, ncols=columns, squeeze=False)
        for axes in grid.flat[len(layers) :]:
            axes.set_axis_off()
        for axes, layer in zip(grid.flat, layers, strict=False):
            draw_map(axes, points, points.positions[layer], size=7)
            axes.set_title(f"layer {layer}" + (" (best)" if layer == best else ""), fontsize=10)
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.suptitle(points.title, x=0.004, ha="left", fontweight="bold")
        look: dict[str, Any] = {"markerscale": 1.8, "handletextpad": 0.1, "columnspacing": 1.2}
        figure.legend(handles, labels, loc="outside lower center", ncols=min(7, len(labels)), **look)
        files += save(figure, out, "word-map-layers")

        between = next((count for count in BETWEEN if (len(every) - 1) * (count + 1) <= MOST_FRAMES), 0)
        pictures = list(frames(points, between))
        while len(content := encode(pictures, between)) > MOST_BYTES and between > 0:
            pictures, between = pictures[::2], between // 2
        with whole(out / "layers.gif") as beside:
            beside.write_bytes(content)
        return [*files, out / "layers.gif"]


def draw_map(axes: "Axes", points: WordMap, positions: Positions, *, size: float) -> list[Any]:
    """Draw lines and points at `positions`, shape (points, 2); returns the artists: lines, then one per language."""
    from matplotlib.collections import LineCollection

    segments = points.segments(positions)
    alpha = float(np.clip(60 / (len(segments) + 1), 0.16, 0.5))
    lines = LineCollection(segments, colors="#8d98a0", linewidths=0.5, alpha=alpha)
    artists: list[Any] = [axes.add_collection(lines)]
    for code, look in points.looks.items():
        marker, area = MARKERS[look["shape"]]
        dots: dict[str, Any] = {"color": look["colour"], "edgecolors": "white", "linewidths": 0.4, "alpha": 0.9}
        x, y = positions[points.members(code)].T
        artists.append(axes.scatter(x, y, s=size * area, marker=marker, label=look["name"], **dots))
    across, up = WIDE + EDGE + 0.06, 1.06 + EDGE
    axes.set(xlim=(-across, across), ylim=(-up, up), aspect="equal", xticks=[], yticks=[])  # directions mean nothing
    axes.grid(False)
    axes.spines[:].set(visible=True, color=RULE)
    return artists


def _label(axes: "Axes", points: WordMap, fonts: FontChoice, positions: Positions) -> None:
    """Label words and one translation each beside their points, if the text does not overlap other text."""
    from matplotlib import patheffects

    halo = [patheffects.withStroke(linewidth=2.2, foreground="white")]
    taken: list[Any] = []
    count = len(points.groups)
    # A stride spreads the first few labels over the whole list; the dict keeps each group once.
    order = dict.fromkeys([*((place * 37) % count for place in range(count)), *range(count)])
    for place, group in enumerate(points.groups[at] for at in order):
        if len(taken) >= MOST_LABELS:
            return
        other = [group[1 + place % (len(group) - 1)]] if len(group) > 1 else []
        for at in (group[0], *other):
            language, word = points.words.loc[at, "language"], printable(points.words.loc[at, "word"])
            if not fonts.draws(word) or len(word) > LONGEST_LABEL:
                continue
            look: dict[str, Any] = {"color": points.looks[language]["ink"], "path_effects": halo}
            for dx, dy, side, rise in SIDES:  # try each side of the point
                look |= {"xytext": (dx, dy), "textcoords": "offset points", "ha": side, "va": rise}
                text: Any = axes.annotate(word, tuple(positions[at]), fontsize=8.5, **look)
                box = text.get_window_extent().padded(2)
                inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
                if inside and not any(box.overlaps(other) for other in taken):
                    taken.append(box)
                    break
                text.remove()


def choose_layers(layers: Sequence[int], best: int, *, most: int) -> list[int]:
    """Evenly spaced layers, including the first, the best and the last.

    >>> choose_layers(range(13), 8, most=6)
    [0, 2, 5, 8, 10, 12]
    """
    chosen = spread(layers, most=most)
    if best not in chosen:
        chosen.remove(min(chosen[1:-1], key=lambda layer: abs(layer - best)))
    return sorted({*chosen, best})


def frames(points: WordMap, between: int) -> "Iterator[Image]":
    """Pictures of every layer, with `between` intermediate pictures before the next."""
    from PIL import Image

    figure, axes = new_figure(6.6, 5.3)
    layout: Any = figure.get_layout_engine()
    layout.set(h_pad=0.1, w_pad=0.1)
    layers, stops = list(points.positions), list(points.positions.values())
    lines, *clouds = draw_map(axes, points, stops[0], size=15)
    heading = axes.set_title("layer 00", fontsize=13)
    title = points.title if len(points.title) <= LONGEST_TITLE else f"{points.title[: LONGEST_TITLE - 1]}…"
    axes.set_title(title, loc="right", fontsize=9, fontweight="normal", color=QUIET)
    look: dict[str, Any] = {"handletextpad": 0.1, "columnspacing": 1.0, "fontsize": 8}
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=min(7, len(points.looks)), **look)
    figure.set_dpi(100)
    canvas: Any = figure.canvas
    canvas.draw()
    figure.set_layout_engine(None)  # the layout is computed once, so that it does not change between pictures
    for step in range((len(layers) - 1) * (between + 1) + 1):
        place, part = divmod(step, between + 1)
        share = part / (between + 1)
        eased = share * share * (3 - 2 * share)
        after = min(place + 1, len(layers) - 1)
        positions = stops[place] * (1 - eased) + stops[after] * eased
        heading.set_text(f"layer {layers[place if share < 0.5 else after]}")
        lines.set_segments(points.segments(positions))
        for code, cloud in zip(points.looks, clouds, strict=True):
            cloud.set_offsets(positions[points.members(code)])
        canvas.draw()
        yield Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])


def encode(pictures: "Sequence[Image]", between: int) -> bytes:
    """Encode pictures as a looping GIF with one small palette, which pauses at each layer."""
    from PIL import Image

    palette = pictures[0].quantize(64)  # all pictures have the colours of the first
    small = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [REST if step % (between + 1) == 0 else MOMENT for step in range(len(small))]
    durations[-1] = END
    content = io.BytesIO()
    look: dict[str, Any] = {"append_images": small[1:], "duration": durations, "loop": 0, "disposal": 1}
    small[0].save(content, format="GIF", save_all=True, **look)
    return content.getvalue()
