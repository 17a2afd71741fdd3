"""Rows with a step become curves over steps: one measure of one thing, followed while a model trains.

Curves of one measure share a panel. A measure taken at every layer has a panel for each layer, in which a language
stands for its pair with the central one, both directions averaged. Data sets are averaged; only curves read at the
same steps enter an average, else it would move because its members changed. Curves of several seeds become one, their
mean, whose interval is that over seeds; where several plans were run, each is a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from isogloss.report.languages import language_name
from isogloss.report.meanings import LOWER, meaning
from isogloss.report.plans import HELD, KINDS, OTHERS, TEST, complete, with_places
from isogloss.report.stepcurves import StepCurve, average, step_curves
from isogloss.report.summary import central_language

POOLED = "all"  # the target of a reading over all languages' text together
UNITS = ("character", "word", "token")  # characters first: their perplexities do not hang on the vocabulary
MEANS, DERIVED = "_mean", ("_mean", "_behind")
ORACLE, BY_PLAN = "oracle", "other languages, by plan"


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

    `centre` is the language whose pairs the lines are, "" where they are something else; `other` the model that
    distances are to.
    """

    measure: str
    variant: str
    unit: str
    layer: int | None
    lines: tuple[Line, ...]
    centre: str = ""
    other: str = ""

    @property
    def plans(self) -> bool:
        """Whether each line is a plan."""
        return not any(line.leads or line.languages for line in self.lines)

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
    known = complete(with_places(rows[rows["step"].notna() & rows["value"].notna()]))
    known = known[(known["measure"] != "perplexity") | (known["data"] != TEST)]
    known = known[
        (known["place"] != ORACLE) & (known["measure"] != "relative_gap")
    ]  # in the rows; no curve of their own
    centre = central_language(known)
    found = []
    for measure in sorted(dict.fromkeys(known["measure"]), key=_early):
        own = known[known["measure"] == measure]
        if measure.endswith(DERIVED) and measure.removesuffix(MEANS).removesuffix("_behind") in set(known["measure"]):
            continue
        means = known[known["measure"] == measure + MEANS]
        for (place, unit, layer), group in own.groupby(["place", "unit", "layer"], sort=False, dropna=False):
            mean = means[(means["place"] == place) & (means["unit"] == unit)]
            mean = mean[mean["layer"].isna() if pd.isna(layer) else mean["layer"] == layer]
            at = {"unit": unit, "layer": None if pd.isna(layer) else int(layer)}
            found += _panels(measure, place, group, mean, centre=centre, **at)
    return sorted(found, key=lambda panel: (_early(panel.measure), _unit_place(panel.unit)))


def _panels(
    measure: str, place: str, rows: pd.DataFrame, means: pd.DataFrame, *, centre: str, unit: str, layer: int | None
) -> list[Panel]:
    """The panel of one plan, or of several: a line a plan, and for perplexity what is tuned on and the others apart."""
    other = str(rows["other_model"].iloc[0])

    def panel(rows: pd.DataFrame, means: pd.DataFrame, variant: str) -> Panel:
        parts = step_curves(rows, measure)
        own_centre = centre if _many_pairs(parts) else ""
        lines = _lines(parts, step_curves(means, measure), centre=own_centre)
        return Panel(measure, variant, unit, layer, lines, own_centre, other)

    plans = {str(plan): (group, means[means["plan"] == plan]) for plan, group in rows.groupby("plan", sort=False)}
    apart = [panel(*both, _named(plan, place)) for plan, both in plans.items()]
    if len(plans) == 1:
        return apart
    if measure == "perplexity":
        return [*_sides(rows, unit=unit, layer=layer), *apart]
    of_task = bool((rows["task"] != "").all()) and layer is None  # what other languages score by plan, then each plan
    leads = [(plan, one.lead.curve) for plan, one in zip(plans, apart, strict=True) if one.lead is not None]
    lines = tuple(Line(plan, (), curve, leads=False) for plan, curve in leads)
    called = ("by plan" if measure == "loss" else BY_PLAN) if of_task else place
    together = [Panel(measure, called, unit, layer, lines, other=other)] if lines else []
    return [*together, *apart] if of_task or not together else together


def _sides(rows: pd.DataFrame, *, unit: str, layer: int | None) -> list[Panel]:
    """Perplexity of what is tuned on, and of the others pooled, a line a plan."""
    own = rows[rows["data"] == HELD]
    sides = {language_name(str(code)): group for code, group in own.groupby("target", sort=False)}
    sides["other languages"] = rows[rows["target"] == OTHERS]
    found = []
    for name, side in sides.items():
        groups = side.groupby("plan", sort=False)
        lines = [Line(str(plan), (), step_curves(group, "perplexity")[0][1], leads=False) for plan, group in groups]
        found += [Panel("perplexity", f"{name}, by plan", unit, layer, tuple(lines))] if lines else []
    return found


def _named(plan: str, place: str) -> str:
    """What one plan's panel is called beside its measure: `last:6 centred`, `last:6, to native`."""
    between = " " if place in KINDS else ", "
    return between.join(filter(None, (plan, place)))


def _early(measure: str) -> int:
    first = ("loss", "perplexity")
    return first.index(measure) if measure in first else len(first)


def _unit_place(unit: str) -> int:
    return UNITS.index(unit) if unit in UNITS else len(UNITS)


def _many_pairs(parts: Sequence[tuple[dict[str, str], StepCurve]]) -> bool:
    """Whether the curves are of pairs among more than two languages."""
    pairs = [(one["source"], one["target"]) for one, _ in parts if one["source"] and one["target"] and not one["task"]]
    return len({code for pair in pairs for code in pair}) > 2


def _lines(
    parts: Sequence[tuple[dict[str, str], StepCurve]],
    means: Sequence[tuple[dict[str, str], StepCurve]],
    *,
    centre: str,
) -> tuple[Line, ...]:
    """The lines of a panel, what stands for all of them first; with a centre, its pairs."""
    several = {name: len({place[name] for place, _ in parts}) > 1 for name in ("task", "model", "other_model")}
    sets: dict[str, set[str]] = {}
    for place, _ in parts:
        sets.setdefault(place["target"], set()).add(place["data"])
    groups: dict[tuple[str, tuple[str, ...]], list[StepCurve]] = {}
    for place, curve in parts:
        named = _languages(place, centre)
        if named is None:
            continue
        apart = [place[name] for name in several if several[name]]
        if place["task"] and len(sets[place["target"]]) > 1:  # a development set is no test, nor one test another
            apart.append(place["data"])
        code = ", ".join([*apart, " → ".join(named) or POOLED])
        groups.setdefault((code, named if named not in ((POOLED,), (OTHERS,)) else ()), []).append(curve)
    pooled = any(place["target"] == POOLED and not place["source"] for place, _ in parts)
    tasks = all(place["task"] for place, _ in parts)
    lines = [
        Line(
            code,
            named,
            average(group),
            leads=code == POOLED or (code == OTHERS and tasks),
            pooled=code == POOLED and pooled,
        )
        for (code, named), group in groups.items()
    ]
    tuned = any(place["target"] == OTHERS and not place["source"] for place, _ in parts)  # no average of both sides
    alone = several["model"] or several["other_model"] or tuned or any(line.leads for line in lines)
    if not alone and len(lines) == 1:
        lines = [replace(lines[0], leads=True)]
    elif not alone:
        others = [curve for place, curve in parts if tasks and place["target"] != place["source"]]
        lead = average([curve for _, curve in means] or others or [curve for _, curve in parts])
        if means:
            lead = replace(lead, members=len(parts))
        lines = [Line(OTHERS if others else POOLED, (), lead, leads=True), *lines]
    return tuple(sorted(lines, key=lambda line: not line.leads))


def _languages(place: dict[str, str], centre: str) -> tuple[str, ...] | None:
    """The languages a line is of; None for a pair without the central one, which only the average holds."""
    source, target = place["source"], place["target"]
    if not (source and target):
        return (source or target,) if source or target else ()
    if place["task"]:
        return (target,)  # a task is trained in one language, and tested in each
    if not centre:
        return (source, target)
    if centre not in (source, target):
        return None
    return (target if source == centre else source,)


def best_panel(found: Sequence[Panel]) -> Panel | None:
    """Of a measure's panels by layer, the one that leads at the last step; the earliest layer among equals.

    Without leading lines, plans are averaged. None where nothing could be compared.
    """
    led = [(panel, panel.lead.curve) for panel in found if panel.lead is not None]
    led = led or [(panel, average([line.curve for line in panel.lines])) for panel in found if panel.plans]
    if not led:
        return None
    last = max(curve.steps[-1] for _, curve in led)
    sign = -1 if meaning(led[0][0].measure).better == LOWER else 1
    ends = [(sign * curve.value[-1], panel) for panel, curve in led if curve.steps[-1] == last]
    return max(ends, key=lambda end: (end[0], -(end[1].layer or 0)))[1]
