"""Grids of shaded cells as figures: layers by languages, and languages by languages at the best layer."""

from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.report.folder import RunFolder
from isogloss.report.languages import INK
from isogloss.report.look import caption, new_figure, save
from isogloss.report.meanings import meaning, variant_title
from isogloss.report.payload import SHADES
from isogloss.report.summary import Curve, average, best_layer, by_partner, central_language, curves, leading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL_WITH_TEXT = 0.42  # inches
LEAST_RANGE = 0.1
LIGHT_TEXT = 0.58  # darker shades than this share of the scale need light text


def write_grids(run: RunFolder, names: Mapping[str, str], *, out: Path) -> list[Path]:
    """`heat-map` and `language-matrix` of the leading measure; nothing without one."""
    lead = leading(run.mapped)
    parts = [] if lead is None else curves(run.mapped, *lead)
    mean = average(parts)
    if lead is None or mean is None:
        return []
    title = ", ".join(filter(None, (meaning(lead[0]).title, variant_title(lead[1]))))
    return _write_heat_map(run, parts, names, title, out) + _write_matrix(run, parts, names, title, out)


def _write_heat_map(
    run: RunFolder, parts: Sequence[Curve], names: Mapping[str, str], title: str, out: Path
) -> list[Path]:
    centre = central_language(run.mapped)
    layers = max((part.layers for part in parts), key=len)
    told = f"Each language with {names.get(centre, centre)}, both directions averaged."
    rows = {names[code]: curve for code, curve in by_partner(parts, centre).items()}
    if len(run.languages) < 3:
        told, rows = "", {f"{part.source} → {part.target}": part for part in parts}
    labels = sorted(rows, key=lambda label: -sum(rows[label].value))
    cells = [[_at(rows[label], layer) for layer in layers] for label in labels]
    figure, axes = _draw(cells, labels, [str(layer) for layer in layers])
    axes.set_title(f"{title} by layer", pad=12)
    caption(figure, f"{told} Layer 0 is the embedding output.".strip())
    return save(figure, out, "heat-map")


def _write_matrix(
    run: RunFolder, parts: Sequence[Curve], names: Mapping[str, str], title: str, out: Path
) -> list[Path]:
    from matplotlib.patches import Rectangle

    mean = average(parts)
    assert mean is not None
    best = best_layer(mean)
    codes = [code for code in run.languages if any(code in (part.source, part.target) for part in parts)]
    cells = [[_pair(parts, (source, target), best) for target in codes] for source in codes]
    labels = [names[code] for code in codes]
    figure, axes = _draw(cells, labels, labels)
    axes.set_title(f"{title} at layer {best}", pad=12)
    for place in range(len(codes)):
        axes.add_patch(Rectangle((place - 0.5, place - 0.5), 1, 1, facecolor="#e2e6ea"))
    caption(figure, "" if mean.measure == "cka" else "Row: searched from; column: searched in. White: not measured.")
    return save(figure, out, "language-matrix")


def _at(curve: Curve, layer: int) -> float:
    return curve.value[curve.place(layer)] if layer in curve.layers else float("nan")


def _pair(parts: Sequence[Curve], pair: tuple[str, str], layer: int) -> float:
    """The value of a direction, averaged over data sets; CKA is the same both ways."""
    found = [
        _at(part, layer)
        for part in parts
        if (part.source, part.target) == pair or (part.measure == "cka" and (part.target, part.source) == pair)
    ]
    return sum(found) / len(found) if found else float("nan")


def _draw(cells: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str]) -> "tuple[Any, Axes]":
    """Shaded cells, with their values where there is room."""
    from matplotlib.colors import LinearSegmentedColormap

    wide = max(0.24, min(0.62, 11 / len(columns)))
    figure, axes = new_figure(2.2 + wide * len(columns), 1.6 + 0.36 * len(rows))
    low, high = shade_range(float(np.nanmin(cells)), float(np.nanmax(cells)))
    shades = LinearSegmentedColormap.from_list("isogloss", SHADES)
    image: Any = axes.imshow(cells, cmap=shades, aspect="auto", vmin=low, vmax=high)
    slanted = any(len(label) > 4 for label in columns)
    axes.set_xticks(range(len(columns)), columns, rotation=45 if slanted else 0, ha="left" if slanted else "center")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    for label in axes.get_xticklabels():
        label.set_rotation_mode("anchor" if slanted else "default")
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if wide >= CELL_WITH_TEXT:
        _write_values(axes, cells, low, high)
    figure.colorbar(image, ax=axes, fraction=0.03, pad=0.02).outline.set_visible(False)
    return figure, axes


def shade_range(low: float, high: float) -> tuple[float, float]:
    """Values of the palest and the darkest shade: at least a tenth apart, or a hair would look like a gulf."""
    room = max(0.0, LEAST_RANGE - (high - low)) / 2
    return low - room, high + room


def _write_values(axes: "Axes", cells: Sequence[Sequence[float]], low: float, high: float) -> None:
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            if not isnan(value):
                light = (value - low) / (high - low or 1) > LIGHT_TEXT
                look: dict[str, Any] = {
                    "ha": "center",
                    "va": "center",
                    "fontsize": 8,
                    "color": "white" if light else INK,
                }
                axes.text(column, row, f"{value:.2f}", **look)
