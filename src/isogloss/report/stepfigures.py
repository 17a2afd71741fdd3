"""Figures of a training: each measure over the steps, and what is taken by layer as shades of layer by step."""

from collections.abc import Mapping, Sequence
from math import isfinite, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.report.defectfigure import write_defect_figures
from isogloss.report.folder import RunFolder
from isogloss.report.gridfigure import shade_range
from isogloss.report.logaxis import dress_factors
from isogloss.report.look import QUIET, caption, file_name, new_figure, printable, save
from isogloss.report.meanings import LOWER, meaning
from isogloss.report.payload import SHADES
from isogloss.report.stepcurves import thin
from isogloss.report.steplabels import basis, line_look, line_name, pooled_name, titled
from isogloss.report.steps import Line, Panel, best_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS, MOST_COLUMNS, MOST_NAMED = 2000, 80, 11
DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)))


def write_step_figures(run: RunFolder, names: Mapping[str, str], *, out: Path) -> list[Path]:
    """`steps-MEASURE` for each measure with a step, `steps-layers-MEASURE` for those taken by layer, and `legacy`.

    A measure in several units is drawn in the first: perplexity per character. One taken by layer is drawn at the
    layer that is best at the last step.
    """
    found = run.panels
    written: list[Path] = []
    for measure, variant in dict.fromkeys((panel.measure, panel.variant) for panel in found):
        own = [panel for panel in found if (panel.measure, panel.variant) == (measure, variant)]
        own = [panel for panel in own if panel.unit == own[0].unit]
        flat, layered = ([panel for panel in own if (panel.layer is None) == wanted] for wanted in (True, False))
        several = len({panel.variant for panel in found if panel.measure == measure}) > 1
        name = "-".join(filter(None, (file_name(measure), file_name(variant) if several else "")))
        chosen = flat[0] if flat else best_panel(layered)
        written += [] if chosen is None else _write_curves(run, chosen, names, out=out, name=f"steps-{name}")
        written += _write_shades(run, layered, out=out, name=f"steps-layers-{name}")
    return written + write_defect_figures(run.rows, out, model=run.model)


def _write_curves(run: RunFolder, panel: Panel, names: Mapping[str, str], *, out: Path, name: str) -> list[Path]:
    many = len(panel.lines) > 1
    figure, axes = new_figure(7.6 if many else 6.4, 4.2)
    for line in sorted(panel.lines, key=lambda one: one.leads):
        _draw(axes, panel, line, label=line_name(line, names, pooled=pooled_name(panel)), run=run)
    lead = panel.lead
    if lead is not None and not any(isnan(floor) for floor in lead.curve.floor):
        look: dict[str, Any] = {"color": "#8a8577", "linewidth": 1.1, "label": "chance", "linestyle": (0, (3, 3))}
        axes.plot(lead.curve.steps, lead.curve.floor, **look)
    at = "" if panel.layer is None else f" at layer {panel.layer}"
    axes.set_title(f"{titled(panel)}{at}" + (" (lower is better)" if _lower(panel) else ""))
    _finish(axes, panel, legend=many or lead is None)
    caption(figure, f"{printable(run.model)}. {basis(panel)}")
    return save(figure, out, name)


def _draw(axes: "Axes", panel: Panel, line: Line, *, label: str, run: RunFolder) -> None:
    curve = thin(line.curve, most=MOST_POINTS)
    ink, dash = line_look(panel, line, run.languages)
    value, low, high = (
        np.where(np.isfinite(column), column, np.nan) for column in (curve.value, curve.low, curve.high)
    )
    if (line.leads or panel.layer is None or panel.plans) and not np.isnan(low).all():
        axes.fill_between(curve.steps, low, high, color=ink, alpha=0.14, linewidth=0)
    look: dict[str, Any] = {"color": ink, "linestyle": DASHES[dash], "linewidth": 2.4 if line.leads else 1.4}
    axes.plot(curve.steps, value, label=label, marker="o" if len(curve.steps) == 1 else "", **look)


def _finish(axes: "Axes", panel: Panel, *, legend: bool) -> None:
    """Axes with their units, and a legend in the order in which the lines end."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    about = meaning(panel.measure)
    unit = {"loss": f"nats a {panel.unit}", "perplexity": f"perplexity per {panel.unit}"}.get(panel.measure, "")
    axes.set_ylabel(unit if panel.unit else "")
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    if about.log:
        dress_factors(axes)
    elif about.span is not None and about.span[0] == 0 and axes.get_ylim()[0] < 0:
        drawn = [value for line in panel.lines for value in line.curve.value if isfinite(value)]
        axes.set_ylim(bottom=0.0 if min(drawn, default=0.0) >= 0 else None)
    if legend:
        handles, labels = axes.get_legend_handles_labels()
        ends = [float(np.asarray(handle.get_ydata(), dtype="float64")[-1]) for handle in handles]  # type: ignore[attr-defined]
        order = sorted(range(len(ends)), key=lambda at: (labels[at] == "chance", -ends[at]))
        axes.legend(
            [handles[at] for at in order], [labels[at] for at in order], loc="upper left", bbox_to_anchor=(1, 1)
        )


def _write_shades(run: RunFolder, layered: Sequence[Panel], *, out: Path, name: str) -> list[Path]:
    """Layers upward, steps to the right, shaded by the line that stands for all; nothing for fewer than two layers."""
    from matplotlib.colors import LinearSegmentedColormap

    led = [(panel.layer or 0, thin(panel.lead.curve, most=MOST_COLUMNS)) for panel in layered if panel.lead is not None]
    led = sorted((one for one in led if one[1].steps == led[0][1].steps), key=lambda one: one[0])
    if len(led) < 2 or len(led[0][1].steps) < 2:
        return []
    steps, cells = led[0][1].steps, np.array([curve.value for _, curve in led])  # (layers, steps)
    figure, axes = new_figure(min(11.0, 3.4 + 0.3 * len(steps)), 1.9 + 0.26 * len(led))
    low, high = shade_range(float(np.nanmin(cells)), float(np.nanmax(cells)))
    span = meaning(layered[0].measure).span
    if span is not None and low < span[0] <= np.nanmin(cells):  # no shade for what cannot be
        low, high = span[0], high + span[0] - low
    shades = LinearSegmentedColormap.from_list("isogloss", SHADES[:: -1 if _lower(layered[0]) else 1])
    image: Any = axes.imshow(
        cells, cmap=shades, aspect="auto", origin="lower", vmin=low, vmax=high, interpolation="nearest"
    )
    named = range(0, len(steps), -(-len(steps) // MOST_NAMED))
    axes.set_xticks(named, [f"{steps[place]:,}" for place in named])
    axes.set_yticks(range(len(led)), [str(layer) for layer, _ in led])
    axes.tick_params(length=0)
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("step")
    axes.set_ylabel("layer")
    axes.set_title(f"{titled(layered[0])} by layer and step", pad=10)
    bar = figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=QUIET, length=0)
    counted = led[0][1]
    over = f"Average over {counted.members} curves, n = {counted.n[-1]:,}." if counted.n[-1] else ""
    floors = [floor for _, curve in led for floor in curve.floor if not isnan(floor)]
    chance = f"Chance: {np.mean(floors):.3f}." if floors else ""
    caption(figure, " ".join(filter(None, (f"{printable(run.model)}.", over, chance, "Layer 0: embedding output."))))
    return save(figure, out, name)


def _lower(panel: Panel) -> bool:
    return meaning(panel.measure).better == LOWER
