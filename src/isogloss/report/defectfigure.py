"""One figure of what each defect of the original code does: a row a defect, its curves upon those without it.

Perplexity of what is tuned on, with a dot where the model that is kept was tested; of the other languages; and the L2
distance of every layer at the last step. Columns share their axes, so that rows can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from isogloss.recipes.legacy import DEFECTS, plan_and_defects
from isogloss.report.languages import language_name
from isogloss.report.logaxis import dress_factors
from isogloss.report.look import DARK, QUIET, caption, file_name, new_figure, printable, save
from isogloss.report.plans import HELD, OTHERS, TEST, complete, with_places
from isogloss.report.stepcurves import StepCurve, step_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SPOILT = "#D55E00"
START = "start"


@dataclass(frozen=True)
class Side:
    """What is drawn of one variant: two curves, tests as (step, perplexity), and L2 by layer with its interval."""

    here: StepCurve
    there: StepCurve | None
    tests: Sequence[tuple[float, float]]
    layers: Mapping[int, tuple[float, float, float]]


def write_defect_figures(rows: pd.DataFrame, out: Path, *, model: str = "") -> list[Path]:
    """`legacy.png` and `.svg` from the rows of `isogloss drift --legacy each`; `legacy-PLAN` for each of several plans.

    Nothing is drawn where no plan was run both with and without defects. Call it inside `look.drawing()`.
    """
    stepped = rows[rows["step"].notna() & rows["measure"].isin(["perplexity", "l2_drift"])]
    placed = complete(with_places(stepped)) if not stepped.empty else stepped
    variants = [str(one) for one in placed["plan"].unique()] if not placed.empty else []
    plans: dict[str, dict[str, str]] = {}
    for variant in variants:
        plan, defects = plan_and_defects(variant)
        if defects and plan in variants:
            plans.setdefault(plan, {})[defects] = variant
    written: list[Path] = []
    for plan, spoilt in plans.items():
        name = "legacy" if len(plans) == 1 else f"legacy-{file_name(plan)}"
        written += _write(placed, plan, spoilt, out=out, name=name, model=model)
    return written


def _write(rows: pd.DataFrame, plan: str, spoilt: Mapping[str, str], *, out: Path, name: str, model: str) -> list[Path]:
    others = [str(one) for one in rows["other_model"].unique() if one not in ("", START)]
    to = others[0] if others else START
    honest = _side(rows[rows["plan"] == plan], to)
    columns = 1 + (honest.there is not None) + bool(honest.layers)
    figure, grid = new_figure(3.3 * columns, 1.75 * len(spoilt) + 0.6, nrows=len(spoilt), ncols=columns, squeeze=False)
    engine: Any = figure.get_layout_engine()
    engine.set(h_pad=0.16)
    language = language_name(str(rows.loc[rows["data"] == HELD, "target"].iloc[0]))
    for line, (defects, variant) in zip(grid, spoilt.items(), strict=True):
        side = _side(rows[rows["plan"] == variant], to)
        for one, ink in ((honest, DARK), (side, SPOILT)):
            _draw(line, one, ink)
        words = "all of them together" if defects == "all" else DEFECTS.get(defects, "")
        text = line[0].text(
            0, 1.07, f"{defects}: {words}", transform=line[0].transAxes, fontsize=9.5, fontweight="bold"
        )
        text.set_in_layout(False)
    titles = [f"perplexity per token, {language}"]
    titles += ["perplexity per token, other languages"] if honest.there is not None else []
    titles += [f"L2 to {'the start' if to == START else printable(to)}, by layer"] if honest.layers else []
    for column, title in zip(grid.T, titles, strict=True):
        _dress(column, title, by_layer=title.endswith("by layer"))
    figure.legend(handles=_handles(), loc="outside upper left", ncols=3)
    seeds = max(honest.here.seeds, 1)
    bands = f"Means and intervals over {seeds} seeds." if seeds > 1 else "Bands: intervals over the text."
    caption(figure, " ".join(filter(None, (f"{printable(model)}." if model else "", f"Plan {plan}.", bands))))
    return save(figure, out, name)


def _side(rows: pd.DataFrame, to: str) -> Side:
    read = rows[(rows["measure"] == "perplexity") & (rows["unit"] == "token")]
    here, there, tests = read[read["data"] == HELD], read[read["target"] == OTHERS], read[read["data"] == TEST]
    moved = rows[(rows["measure"] == "l2_drift") & (rows["other_model"] == to) & (rows["data"] == HELD)]
    moved = moved[~moved["variant"].str.endswith(" attention")]
    layers = {}
    for layer, group in moved.groupby("layer"):
        curve = step_curves(group, "l2_drift")[0][1]
        layers[int(str(layer))] = (curve.value[-1], curve.low[-1], curve.high[-1])
    return Side(
        step_curves(here, "perplexity")[0][1],
        step_curves(there, "perplexity")[0][1] if not there.empty else None,
        [(float(one["step"]), float(one["value"])) for one in tests.to_dict("records")],
        layers,
    )


def _draw(line: Sequence["Axes"], side: Side, ink: str) -> None:
    for axes, curve in zip(line, (side.here, side.there), strict=False):
        if curve is not None:
            _band(axes, curve.steps, curve.value, curve.low, curve.high, ink)
    steps, values = [step for step, _ in side.tests], [value for _, value in side.tests]
    line[0].plot(steps, values, linestyle="", marker="o", markersize=5, color=ink, markeredgecolor="white", zorder=4)
    if side.layers:
        value, low, high = (tuple(one[at] for one in side.layers.values()) for at in range(3))
        _band(line[-1], tuple(side.layers), value, low, high, ink)


def _band(axes: "Axes", at: Sequence[int], value: Any, low: Any, high: Any, ink: str) -> None:
    if not all(isnan(one) for one in low):
        axes.fill_between(at, low, high, color=ink, alpha=0.14, linewidth=0)
    axes.plot(at, value, color=ink, linewidth=1.6, linestyle="-" if ink == DARK else (0, (4, 1.5)))


def _dress(column: Sequence["Axes"], title: str, *, by_layer: bool) -> None:
    """One range for the axes of a column, that of its lines: intervals over few seeds would flatten them all."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype="float64") for axes in column for line in axes.lines])
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    for axes in column:
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
        if by_layer:
            reach = 0.15 * (high - low) or 0.1 * high or 1.0
            axes.set_ylim(low - reach, high + reach)
            continue
        reach = max((high / low) ** 0.15, 1.1)
        axes.set_ylim(low / reach, high * reach)
        dress_factors(axes)
    column[0].set_title(title, fontsize=9.5, fontweight="normal", color=QUIET, pad=22)
    column[-1].set_xlabel("layer" if by_layer else "step")


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=DARK, linewidth=1.6, label="as it should be"),
        Line2D([], [], color=SPOILT, linewidth=1.6, linestyle=(0, (4, 1.5)), label="with the defect"),
        Line2D([], [], color=QUIET, linestyle="", marker="o", markersize=5, label="test of the model that is kept"),
    ]
