"""The figures of a run as PNG and SVG: curves by measure, the two grids, the word map, and the map in motion."""

from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.report.animation import write_animation
from isogloss.report.folder import RunFolder, read_run
from isogloss.report.fonts import choose_fonts
from isogloss.report.gridfigure import write_grids
from isogloss.report.languages import colour, display_names, language_name
from isogloss.report.look import DARK, QUIET, VARIANT_LOOKS, caption, drawing, file_name, new_figure, printable, save
from isogloss.report.lookuppart import write_lookup_figures
from isogloss.report.meanings import LOWER, meaning, variant_title
from isogloss.report.paperpart import paper_of, write_pictures
from isogloss.report.payload import drawn
from isogloss.report.points import word_map
from isogloss.report.similarityfigure import write_similarity_figures
from isogloss.report.stepfigures import write_step_figures
from isogloss.report.stitchpart import write_stitch_figures
from isogloss.report.summary import Curve, best_layer, central_language, curves, leading, overall
from isogloss.report.transferfigure import write_transfer_figures
from isogloss.report.wordfigure import picture, write_map, write_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_THIN = 24


def write_figures(run: Path, out_dir: Path) -> list[Path]:
    """Draw every figure the run's rows and points allow into `out_dir` and return the files.

    `curve-*.png` and `.svg` (one a measure), `heat-map`, `language-matrix`, `word-map`, `word-map-layers`, and
    `layers.gif`, the word map moving through the layers. A training gives `steps-*` instead: loss, perplexity and
    retrieval over the steps; a task `transfer-*`, scores by plan, and `languages-*` where languages were compared;
    words and sentences looked up `lookup-*`, P@1 by layer; stitched models `stitch-*`, scores by layer; a reproduction
    the paper's own figures. What a run does not hold is not drawn.
    """
    folder, out = read_run(Path(run)), Path(out_dir)
    names = display_names(folder.languages)
    with drawing():
        families = choose_fonts([folder.model, *folder.data, *names.values()]).families
    with drawing(families):
        written = write_pictures(folder, out)
        written += write_step_figures(folder, names, out=out)
        if paper_of(folder) is None:
            written += write_transfer_figures(folder, names, out=out) + write_similarity_figures(folder, out=out)
            written += write_lookup_figures(folder, out=out) + write_stitch_figures(folder.rows, out=out)
        written += _write_curves(folder, out) + write_grids(folder, names, out=out)
    return written + _write_word_maps(folder, out)


def _write_word_maps(run: RunFolder, out: Path) -> list[Path]:
    points = None if run.points is None else word_map(run.points)
    if points is None:
        return []
    lead = leading(run.mapped)
    mean = overall(run.mapped, *lead) if lead else None
    best = best_layer(mean) if mean is not None and best_layer(mean) in points.layers else points.layers[-1]
    shown = picture(points, run.languages, title=run.model, centre=central_language(run.mapped))
    with drawing(shown.fonts.families):
        return [*write_map(shown, best, out), *write_sheet(shown, best, out), write_animation(shown, out)]


def _write_curves(run: RunFolder, out: Path) -> list[Path]:
    measures: dict[str, list[str]] = {}
    for measure, variant in drawn(run):
        measures.setdefault(measure, []).append(variant)
    written: list[Path] = []
    for measure, variants in measures.items():
        figure, axes = new_figure(6.2, 4.0)
        notes = [_draw_curves(axes, run, measure, variant, alone=len(variants) == 1) for variant in variants]
        _finish(axes, run, measure)
        caption(figure, f"{printable(run.model)}. {notes[0]} Layer 0 is the embedding output.")
        written += save(figure, out, f"curve-{file_name(measure)}")
    return written


def _draw_curves(axes: "Axes", run: RunFolder, measure: str, variant: str, *, alone: bool) -> str:
    """The average of a measure with its band and floor, members thin behind it; returns what was averaged."""
    parts = curves(run.mapped, measure, variant)
    mean = overall(run.mapped, measure, variant)
    if mean is None:
        return ""
    ink, dash = (DARK, "-") if alone else VARIANT_LOOKS.get(variant, (QUIET, "-."))
    if alone and len(parts) > 1:
        _draw_members(axes, run, parts)
    if not any(isnan(low) for low in mean.low):
        axes.fill_between(mean.layers, mean.low, mean.high, color=ink, alpha=0.14, linewidth=0)
    label = meaning(measure).title if alone else variant_title(variant)
    gaps = mean.layers[-1] - mean.layers[0] > len(mean.layers) - 1  # layers left out: show which were read
    axes.plot(
        mean.layers, mean.value, color=ink, linestyle=dash, linewidth=2.0, label=label, marker="o" if gaps else ""
    )
    if not any(isnan(floor) for floor in mean.floor):
        known = any(line.get_label() == "chance" for line in axes.lines)
        look: dict[str, Any] = {"color": "#8a8577", "linewidth": 1.1, "label": "_" if known else "chance"}
        axes.plot(mean.layers, mean.floor, linestyle=(0, (3, 3)), **look)
    if meaning(measure).better:
        best = best_layer(mean)
        look = {"markersize": 7, "markerfacecolor": "white", "markeredgecolor": ink, "markeredgewidth": 1.8}
        axes.plot([best], [mean.value[mean.place(best)]], "o", **look)
    return _describe(mean, thin=_thin_words(run, parts) if alone else "")


def _draw_members(axes: "Axes", run: RunFolder, parts: Sequence[Curve]) -> None:
    centre = central_language(run.mapped)
    many = len(parts) > MOST_THIN
    for part in parts:
        if many and part.target and part.source != centre:
            continue
        other = part.target if part.source == centre and part.target else part.source
        look: dict[str, Any] = {"linewidth": 0.7, "alpha": 0.45, "color": colour(run.languages.index(other))}
        axes.plot(part.layers, part.value, **look)


def _thin_words(run: RunFolder, parts: Sequence[Curve]) -> str:
    if len(parts) < 2:
        return ""
    if parts[0].target and len(parts) > MOST_THIN:
        return f"Thin: pairs with {language_name(central_language(run.mapped))}."
    return "Thin: single pairs." if parts[0].target else "Thin: single languages."


def _describe(mean: Curve, *, thin: str) -> str:
    """What a curve averages, how many items it stands on, and what its band is."""
    low, high = mean.n
    count = "" if high == 0 else f"n\u00a0=\u00a0{low:,}." if low == high else f"n\u00a0=\u00a0{low:,} to {high:,}."
    kind = {"anisotropy": "languages", "cka": "language pairs"}.get(mean.measure, "directions")
    members = "" if mean.members == 1 else f"Average over {mean.members} {kind}."
    band = "Band: interval." if mean.members == 1 or mean.tied is not None else "Band: the average of their intervals."
    parts = (members, "" if isnan(mean.low[0]) else band, count, thin)
    return " ".join(filter(None, parts))


def _finish(axes: "Axes", run: RunFolder, measure: str) -> None:
    """Reference lines, title, axes and legend."""
    from matplotlib.ticker import MaxNLocator

    references = run.mapped[(run.mapped["measure"] == measure) & run.mapped["layer"].isna()]
    for variant, value in references.groupby("variant")["value"].mean().items():
        look: dict[str, Any] = {"color": "#CC79A7", "linewidth": 1.3, "label": variant_title(str(variant))}
        axes.axhline(float(value), linestyle=(0, (7, 4)), **look)
    about = meaning(measure)
    axes.set_title(about.title + (" (lower is better)" if about.better == LOWER else ""))
    axes.set_xlabel("layer")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=13, integer=True))
    if about.span is not None:
        low, high = axes.get_ylim()
        least = min(float(np.min(np.asarray(line.get_ydata(), dtype="float64"))) for line in axes.lines)
        axes.set_ylim(low if least < 0 else 0.0, min(1.02, high))
    if len(axes.get_legend_handles_labels()[1]) > 1:
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda place: labels[place] == "chance")
        axes.legend([handles[place] for place in order], [labels[place] for place in order], loc="best")
