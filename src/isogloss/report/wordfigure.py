"""The word map as a figure, and as a sheet of several layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from isogloss.report.fonts import FontChoice, choose_fonts
from isogloss.report.languages import colour, display_names, shape, text_colour
from isogloss.report.look import MARKER_SIZES, MARKERS, bare, caption, new_figure, printable, save
from isogloss.report.points import EDGE, WIDE, WordMap, groups_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELS = 30
LONGEST_LABEL = 24
SHEET = 6
SIDES = ((6, 0, "left", "center"), (-6, 0, "right", "center"), (0, 6, "center", "bottom"), (0, -6, "center", "top"))
Positions = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """A word map and how it is drawn.

    `members` has, for each language, the places of its points, `looks` its colour and marker, `inks` the colour of its
    words; `lines`, shape (lines, 2), which points are joined; `groups` the points of each translation group, the
    central language's first.
    """

    points: WordMap
    title: str
    fonts: FontChoice
    names: Mapping[str, str]
    members: Mapping[str, Sequence[int]]
    looks: Mapping[str, tuple[str, str]]
    inks: Mapping[str, str]
    groups: Sequence[Sequence[int]]
    lines: npt.NDArray[np.int64]


def picture(points: WordMap, languages: Sequence[str], *, title: str, centre: str) -> Figure:
    """Everything that the drawings of one word map share; `languages` in the order that gives them their colours."""
    codes = [*languages, *(code for code in dict.fromkeys(points.languages) if code not in languages)]
    used = [code for code in codes if code in set(points.languages)]
    places = {code: codes.index(code) for code in used}
    names = display_names(used)
    groups = groups_of(points, centre)
    joined = [(group[0], other) for group in groups for other in group[1:]]
    return Figure(
        points=points,
        title=printable(title),
        fonts=choose_fonts([*map(printable, points.words), title, *names.values()]),
        names=names,
        members={code: [at for at, language in enumerate(points.languages) if language == code] for code in used},
        looks={code: (colour(place), MARKERS[shape(place)]) for code, place in places.items()},
        inks={code: text_colour(place) for code, place in places.items()},
        groups=groups,
        lines=np.array(joined, dtype="int64").reshape(-1, 2),
    )


def draw_map(axes: "Axes", shown: Figure, positions: Positions, *, size: float) -> list[Any]:
    """Lines and points at `positions`, shape (points, 2); returns the artists, lines first, then one a language."""
    from matplotlib.collections import LineCollection

    alpha = float(np.clip(60 / (len(shown.lines) + 1), 0.16, 0.5))
    lines = LineCollection(list(positions[shown.lines]), colors="#8d98a0", linewidths=0.5, alpha=alpha)
    artists: list[Any] = [axes.add_collection(lines)]
    for code, places in shown.members.items():
        ink, marker = shown.looks[code]
        x, y = positions[places].T
        look: dict[str, Any] = {"color": ink, "marker": marker, "edgecolors": "white", "linewidths": 0.4, "alpha": 0.9}
        artists.append(axes.scatter(x, y, s=size * MARKER_SIZES.get(marker, 1.0), label=shown.names[code], **look))
    axes.set_xlim(-WIDE - EDGE - 0.06, WIDE + EDGE + 0.06)
    axes.set_ylim(-1.06 - EDGE, 1.06 + EDGE)
    axes.set_aspect("equal")
    bare(axes)
    return artists


def write_map(shown: Figure, layer: int, out: Path) -> list[Path]:
    """`word-map`: one layer, with labels on some of the words."""
    figure, axes = new_figure(10.4, 6.8)
    positions = shown.points.at(layer)
    draw_map(axes, shown, positions, size=26)
    axes.set_title(f"{shown.title}: words at layer {layer}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handletextpad=0.2)
    caption(figure, _notes(shown))
    figure.draw_without_rendering()
    _label(axes, shown, positions)
    return save(figure, out, "word-map")


def _notes(shown: Figure) -> str:
    """What is not shown, in words."""
    points = shown.points
    thinned = "" if points.kept == points.total else f"{points.kept:,} of {points.total:,} groups of translations."
    return " ".join(
        filter(
            None,
            (
                "Near means alike; directions mean nothing. Words far outside the rest are drawn at the edge.",
                thinned,
                shown.fonts.caption(),
            ),
        )
    )


def _label(axes: "Axes", shown: Figure, positions: Positions) -> None:
    """Write a word and one of its translations beside their points, wherever the text overlaps no other text."""
    taken: list[Any] = []
    count = len(shown.groups)
    # A stride spreads the first few labels over the whole list; the dict keeps each group once.
    order = dict.fromkeys([*((place * 37) % count for place in range(count)), *range(count)])
    for place, at_group in enumerate(order):
        if len(taken) >= MOST_LABELS:
            return
        group = shown.groups[at_group]
        other = [group[1 + place % (len(group) - 1)]] if len(group) > 1 else []
        for at in (group[0], *other):
            word = printable(shown.points.words[at])
            if shown.fonts.draws(word) and len(word) <= LONGEST_LABEL:
                _write_word(axes, word, positions[at], ink=shown.inks[shown.points.languages[at]], taken=taken)


def _write_word(axes: "Axes", word: str, at: Positions, *, ink: str, taken: list[Any]) -> None:
    """Try the four sides of a point; `taken` grows by the box of the side that was free."""
    from matplotlib import patheffects

    halo = [patheffects.withStroke(linewidth=2.2, foreground="white")]
    look: dict[str, Any] = {"fontsize": 8.5, "color": ink, "path_effects": halo, "textcoords": "offset points"}
    for dx, dy, side, rise in SIDES:
        text: Any = axes.annotate(word, (at[0], at[1]), xytext=(dx, dy), ha=side, va=rise, **look)
        box = text.get_window_extent().padded(2)
        inside = axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1)
        if inside and not any(box.overlaps(other) for other in taken):
            taken.append(box)
            return
        text.remove()


def write_sheet(shown: Figure, best: int, out: Path) -> list[Path]:
    """`word-map-layers`: several layers side by side, the first, the best and the last among them."""
    layers = choose_layers(shown.points.layers, best, most=SHEET)
    columns = min(3, len(layers))
    rows = -(-len(layers) // columns)
    figure, grid = new_figure(3.8 * columns, 2.9 * rows + 0.9, nrows=rows, ncols=columns, squeeze=False)
    for place, axes in enumerate(grid.flat):
        if place >= len(layers):
            axes.set_axis_off()
            continue
        draw_map(axes, shown, shown.points.at(layers[place]), size=7)
        axes.set_title(f"layer {layers[place]}" + (" (best)" if layers[place] == best else ""), fontsize=10)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.suptitle(shown.title, x=0.004, ha="left", fontweight="bold")
    look: dict[str, Any] = {
        "ncols": min(7, len(labels)),
        "markerscale": 1.8,
        "handletextpad": 0.1,
        "columnspacing": 1.2,
    }
    figure.legend(handles, labels, loc="outside lower center", **look)
    return save(figure, out, "word-map-layers")


def choose_layers(layers: Sequence[int], best: int, *, most: int) -> list[int]:
    """Evenly spread layers with the first, the best and the last among them.

    >>> choose_layers(range(13), 8, most=6)
    [0, 2, 5, 8, 10, 12]
    """
    if len(layers) <= most:
        return list(layers)
    chosen = {layers[int(place)] for place in np.linspace(0, len(layers) - 1, most).round()}
    if best not in chosen:
        inner = sorted(chosen)[1:-1]
        chosen.remove(min(inner, key=lambda layer: abs(layer - best)))
        chosen.add(best)
    return sorted(chosen)
