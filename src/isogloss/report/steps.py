"""Rows with a step become curves over steps: one measure of one thing, followed while a model trains.

Curves of one measure share a panel. A measure taken at every layer has a panel for each layer, in which a language
stands for its pair with the central one, both directions averaged. Data sets and seeds are averaged; only curves read
at the same steps enter an average, else it would move because its members changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from isogloss.report.meanings import LOWER, meaning
from isogloss.report.summary import central_language

POOLED = "all"  # the target of a reading over all languages' text together
UNITS = ("character", "word", "token")  # characters first: their perplexities do not hang on the vocabulary
MEANS, DERIVED = "_mean", ("_mean", "_behind")
BOUNDS = ("value", "low", "high", "floor")
IDENTITY = [
    "variant", "unit", "task", "model", "other_model", "data", "source", "target", "layer", "other_layer", "seed",
]  # fmt: skip


@dataclass(frozen=True)
class StepCurve:
    """One measure over the steps of a training, or the average of `members` of them.

    `value`, `low`, `high` and `floor` have one number a step (nan where absent), and so has `n`, the items behind a
    value (the fewest of an average's members, 0 where unknown).
    """

    measure: str
    steps: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...]
    n: tuple[int, ...]
    members: int = 1


@dataclass(frozen=True)
class Line:
    """A curve in a panel. `code` tells it from the others: a language, `en → nl`, or `all` for what stands for all.

    `languages` are the codes it names, `leads` whether it stands for the whole panel, `pooled` whether the run itself
    took it over all languages' text together.
    """

    code: str
    languages: tuple[str, ...]
    curve: StepCurve
    leads: bool
    pooled: bool = False


@dataclass(frozen=True)
class Panel:
    """The lines of one measure, variant and unit, at one layer where it is taken by layer; the leading line first.

    `centre` is the language whose pairs the lines are, "" where they are something else.
    """

    measure: str
    variant: str
    unit: str
    layer: int | None
    lines: tuple[Line, ...]
    centre: str = ""

    @property
    def lead(self) -> Line | None:
        """The line that stands for all, if there is one."""
        return self.lines[0] if self.lines[0].leads else None


def with_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are readings of a training."""
    return rows[rows["step"].notna()]


def without_steps(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are not; all of them, untouched, when nothing was trained."""
    stepped = rows["step"].notna()
    return rows[~stepped] if stepped.any() else rows


def at_step(rows: pd.DataFrame, step: int) -> pd.DataFrame:
    """The rows of one step, from which curves over layers can be made as from a map's."""
    return rows[rows["step"] == step]


def panels(rows: pd.DataFrame) -> list[Panel]:
    """Every panel of the rows: loss first, then perplexity, then the rest in order of appearance."""
    known = rows[rows["step"].notna() & rows["value"].notna()]
    centre = central_language(known)
    found = []
    for measure in sorted(dict.fromkeys(known["measure"]), key=_early):
        own = known[known["measure"] == measure]
        if measure.endswith(DERIVED) and measure.removesuffix(MEANS).removesuffix("_behind") in set(known["measure"]):
            continue
        means = known[known["measure"] == measure + MEANS]
        for (variant, unit, layer), group in own.groupby(["variant", "unit", "layer"], sort=False, dropna=False):
            mean = means[(means["variant"] == variant) & (means["unit"] == unit)]
            mean = mean[mean["layer"].isna() if pd.isna(layer) else mean["layer"] == layer]
            parts = _curves(group, measure)
            own_centre = centre if _many_pairs(parts) else ""
            lines = _lines(parts, _curves(mean, measure), centre=own_centre)
            found.append(Panel(measure, variant, unit, None if pd.isna(layer) else int(layer), lines, own_centre))
    return sorted(found, key=lambda panel: (_early(panel.measure), _unit_place(panel.unit)))


def _early(measure: str) -> int:
    first = ("loss", "perplexity")
    return first.index(measure) if measure in first else len(first)


def _unit_place(unit: str) -> int:
    return UNITS.index(unit) if unit in UNITS else len(UNITS)


def _curves(rows: pd.DataFrame, measure: str) -> list[tuple[dict[str, str], StepCurve]]:
    """Every curve with its coordinates, in order of appearance; a reading taken twice counts once, the last time."""
    chosen = rows.drop_duplicates([*IDENTITY, "step"], keep="last")
    found = []
    for _, group in chosen.groupby(IDENTITY, sort=False, dropna=False):
        group = group.sort_values("step")
        numbers: dict[str, Any] = {name: tuple(group[name].to_numpy(dtype="float64").tolist()) for name in BOUNDS}
        steps, counts = (tuple(group[name].fillna(0).astype("int64").tolist()) for name in ("step", "n"))
        place = {name: str(group[name].iloc[0]) for name in ("task", "model", "other_model", "source", "target")}
        found.append((place, StepCurve(measure, steps, n=counts, **numbers)))
    return found


def _many_pairs(parts: Sequence[tuple[dict[str, str], StepCurve]]) -> bool:
    """Whether the curves are of pairs among more than two languages."""
    pairs = [(place["source"], place["target"]) for place, _ in parts if place["source"] and place["target"]]
    return len({code for pair in pairs for code in pair}) > 2


def _lines(
    parts: Sequence[tuple[dict[str, str], StepCurve]],
    means: Sequence[tuple[dict[str, str], StepCurve]],
    *,
    centre: str,
) -> tuple[Line, ...]:
    """The lines of a panel, what stands for all of them first; with a centre, its pairs."""
    several = {name: len({place[name] for place, _ in parts}) > 1 for name in ("task", "model", "other_model")}
    groups: dict[tuple[str, tuple[str, ...]], list[StepCurve]] = {}
    for place, curve in parts:
        named = _languages(place, centre)
        if named is None:
            continue
        code = ", ".join([*(place[name] for name in several if several[name]), " → ".join(named) or POOLED])
        groups.setdefault((code, named if named != (POOLED,) else ()), []).append(curve)
    pooled = any(place["target"] == POOLED and not place["source"] for place, _ in parts)
    lines = [
        Line(code, named, average(group), leads=code == POOLED, pooled=code == POOLED and pooled)
        for (code, named), group in groups.items()
    ]
    alone = several["model"] or several["other_model"] or any(line.leads for line in lines)
    if not alone and len(lines) == 1:
        lines = [replace(lines[0], leads=True)]
    elif not alone:
        lead = average([curve for _, curve in means] or [curve for _, curve in parts])
        if means:
            lead = replace(lead, members=len(parts))
        lines = [Line(POOLED, (), lead, leads=True), *lines]
    return tuple(sorted(lines, key=lambda line: not line.leads))


def _languages(place: dict[str, str], centre: str) -> tuple[str, ...] | None:
    """The languages a line is of; None for a pair without the central one, which only the average holds."""
    source, target = place["source"], place["target"]
    if not (source and target):
        return (source or target,) if source or target else ()
    if not centre:
        return (source, target)
    if centre not in (source, target):
        return None
    return (target if source == centre else source,)


def average(parts: Sequence[StepCurve]) -> StepCurve:
    """The mean of the curves read at the same steps (the longest list of steps wins), ends of intervals too."""
    steps = max((part.steps for part in parts), key=len)
    whole = [part for part in parts if part.steps == steps]
    if len(whole) == 1:
        return whole[0]
    means: dict[str, Any] = {
        name: tuple(np.mean([getattr(part, name) for part in whole], axis=0, dtype="float64").tolist())
        for name in BOUNDS
    }
    n = tuple(min(counts) for counts in zip(*(part.n for part in whole), strict=True))
    return StepCurve(whole[0].measure, steps, n=n, members=len(whole), **means)


def best_panel(found: Sequence[Panel]) -> Panel | None:
    """Of a measure's panels by layer, the one that leads at the last step; the earliest layer among equals.

    None without a leading line to judge by.
    """
    led = [(panel, panel.lead.curve) for panel in found if panel.lead is not None]
    if not led:
        return None
    last = max(curve.steps[-1] for _, curve in led)
    sign = -1 if meaning(led[0][0].measure).better == LOWER else 1
    ends = [(sign * curve.value[-1], panel) for panel, curve in led if curve.steps[-1] == last]
    return max(ends, key=lambda end: (end[0], -(end[1].layer or 0)))[1]


def apart(curve: StepCurve, first: int, second: int) -> bool:
    """Whether two places of a curve differ: their intervals do not overlap, or without intervals their values differ.

    Readings of one training share their items, so intervals that part are more than enough.
    """
    bounds = [curve.low[first], curve.high[first], curve.low[second], curve.high[second]]
    if any(isnan(bound) for bound in bounds):
        return curve.value[first] != curve.value[second]
    return bounds[0] > bounds[3] or bounds[2] > bounds[1]


def thin(curve: StepCurve, *, most: int) -> StepCurve:
    """At most `most` readings of a curve, evenly spread over its list, the first and the last among them.

    >>> thin(StepCurve("loss", tuple(range(9)), *[tuple(range(9))] * 5), most=3).steps
    (0, 4, 8)
    """
    if len(curve.steps) <= most:
        return curve
    places = [int(place) for place in np.linspace(0, len(curve.steps) - 1, most).round()]
    lists: dict[str, Any] = {
        name: tuple(getattr(curve, name)[place] for place in places) for name in ("steps", "n", *BOUNDS)
    }
    return replace(curve, **lists)
