"""Runs as the report reads them: record, rows, curves along layers or steps, and the wording of values.

The average over language pairs averages values, floors, and both ends of the intervals. The averaged ends are the
interval of the mean if the errors of all pairs are perfectly correlated; pairs share their sentences, so a narrower
interval would be too optimistic. `isogloss map` computes the interval of the mean itself, and how far each layer is
behind the best; `overall` prefers these rows.
Only curves with the same layers or steps are averaged; otherwise the average would move because its members changed.
Along steps, several seeds become one curve, their mean with a t interval; along layers they stay separate.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isclose, isinf, isnan, nan
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from isogloss.figure import Figure, Line, Table
from isogloss.measures.registry import describe
from isogloss.measures.statistics import Interval, Scale, change_interval, mean_over_seeds
from isogloss.runs.table import OTHERS, POOLED, WITHOUT_SINKS, is_given, training_name
from isogloss.text import languages

HELD, TEST = "validation", "test"
RETRIEVAL = (("p@1", "centred"), ("p@1", "csls"), ("p@1", "cosine"))
LEADING = (*RETRIEVAL, ("cka", "debiased"), ("word_agreement", "centred"))
SHORT_TITLES = {"p@1": "P@1", "cka": "CKA", "word_agreement": "word agreement", "aer": "alignment error"}
METHOD_TITLES = {"cosine": "raw cosine", "csls": "CSLS", "statistical": "statistical aligner"}  # others are their names
BOUNDS = ("value", "low", "high", "floor")
bounds = attrgetter(*BOUNDS)  # the fields of a reading
NAMES = ("method", "task", "model", "other_model", "data", "source", "target", "unit", "plan", "condition", "selection")
DERIVED_NAMES = ("training", "kind", "seed")

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Fact = tuple[str, str, str]
"""A key number of a run: its label, its value, and a short remark."""

Readings = dict[int | None, dict[int, Interval]]
"""Seed -> position -> reading; the seed is None for rows without one."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The values of one measure at several layers or steps: a single curve, a mean over seeds, or an average of curves.

    Attributes:
        measure: The measure.
        readings: By layer or step, ascending: the value, its interval, the chance level, and the number of items (for
            an average, the fewest of its members; 0 if unknown).
        most: For an average, the largest number of items of its members.
        members: Number of curves in the average.
        seeds: Number of seeds in the mean.
        text: For a mean over seeds, the readings with the intervals over the text, averaged over seeds.
        own: For a curve along steps, the readings of each seed, by which steps are compared on the same items.
        tied: Layers that cannot be distinguished from the best one on the same sentences; None if the run did not
            compare them.
        own_interval: For an average, whether its intervals are its own, computed by the run, not averages of theirs.
        layer: For a curve along steps, its layer.
        method: Method of the measure. This and the other texts are empty in an average whose members differ in them.
        training: The name of plan, condition and settings together.
        kind: For a curve along steps, distinguishes panels of a measure: method, selection, reference of a distance.
        code: Distinguishes the curve from others in its panel, such as `en → nl` or the name of a training.
        languages: The languages in its label.
        leads: Whether it is the main line of its panel, such as the mean over all languages.
    """

    measure: str
    readings: Mapping[int, Interval]
    most: int = 0
    members: int = 1
    seeds: int = 1
    text: Mapping[int, Interval] = field(default_factory=dict)
    own: Readings = field(default_factory=dict)
    tied: tuple[int, ...] | None = None
    own_interval: bool = False
    layer: int | None = None
    method: str = ""
    task: str = ""
    model: str = ""
    other_model: str = ""
    data: str = ""
    source: str = ""
    target: str = ""
    unit: str = ""
    plan: str = ""
    condition: str = ""
    selection: str = ""
    training: str = ""
    kind: str = ""
    seed: str = ""
    code: str = ""
    languages: tuple[str, ...] = ()
    leads: bool = False

    @cached_property
    def at(self) -> tuple[int, ...]:
        """The layers or steps, ascending."""
        return tuple(self.readings)

    @property
    def first(self) -> Interval:
        """The reading at the first layer or step."""
        return self.readings[self.at[0]]

    @property
    def last(self) -> Interval:
        """The reading at the last layer or step."""
        return self.readings[self.at[-1]]

    @property
    def counts(self) -> tuple[int, int]:
        """The smallest and the largest number of items of a value, (0, 0) if unknown."""
        known = [reading.n for reading in self.readings.values() if reading.n]
        return (min(known), max(self.most, *known)) if known else (0, 0)

    @property
    def best(self) -> int:
        """The layer with the best value (highest or lowest, depending on the measure); the earliest of ties."""
        pick = min if describe(self.measure).better == "lower" else max
        return pick(self.readings, key=lambda layer: self.readings[layer].value)

    @property
    def peak(self) -> Interval:
        """The reading at the best layer."""
        return self.readings[self.best]

    @property
    def chance(self) -> "Curve":
        """The chance level as a curve."""
        return Curve(self.measure, {at: Interval(reading.floor) for at, reading in self.readings.items()})

    @property
    def alike(self) -> list[int]:
        """The layers that cannot be distinguished from the best one, including itself.

        The run's comparison of layers on the same sentences is used if there is one, otherwise overlapping intervals.
        """
        best = self.best
        if self.tied is not None:
            return sorted({best, *self.tied})
        return [layer for layer in self.at if layer == best or overlap(self.readings[layer], self.readings[best])]

    @property
    def above_chance(self) -> bool | None:
        """Whether the best layer's interval (or value, if it has none) is above the floor; None without a floor."""
        peak = self.peak
        if isnan(peak.floor):
            return None
        if describe(self.measure).better == "lower":
            return (peak.high if peak.known else peak.value) < peak.floor
        return (peak.low if peak.known else peak.value) > peak.floor

    @property
    def name(self) -> str:
        """The measure and its method in a sentence, such as "centred P@1"."""
        name = SHORT_TITLES.get(self.measure, describe(self.measure).title)
        return f"{METHOD_TITLES.get(self.method, self.method)} {name}".strip() if self.measure == "p@1" else name

    @property
    def items(self) -> str:
        """The items that its values are computed over, such as sentences."""
        return "words" if self.unit == "word" else "sentences"

    @property
    def pairs(self) -> str:
        """What the members of an average over languages are: pairs or directions."""
        return "pairs of languages" if describe(self.measure).undirected else "directions"

    def turn(self, *, among: int = 1) -> int:
        """-1 if it fell, 1 if it rose, 0 if its first and last readings cannot be distinguished."""
        return 0 if not self.apart(0, -1, among=among) else 1 if self.last.value > self.first.value else -1

    def way(self, fell: str, stayed: str, rose: str, *, among: int = 1) -> str:
        """The one of three wordings that describes the change from the first to the last reading."""
        return (stayed, rose, fell)[self.turn(among=among)]

    def change(self, first: int = 0, second: int = -1, *, among: int = 1) -> Interval:
        """The change between two positions on the same items, a ratio if the measure is logarithmic; NaN if unknown.

        among: the number of changes of which this one was chosen (`change_interval`).
        """
        places = self.at[first], self.at[second]
        pairs = [[own[place] for place in places] for own in self.own.values() if set(places) <= set(own)]
        before, after = zip(*pairs, strict=True) if pairs else ((), ())
        scale: Scale = "log" if describe(self.measure).logarithmic else "linear"
        return change_interval(before, after, scale=scale, among=among)

    def apart(self, first: int, second: int, *, among: int = 1) -> bool:
        """Whether two readings differ: whether the interval of their change on the same items excludes no change.

        If that is unknown, whether their intervals do not overlap or, without intervals, their values differ. Readings
        of one training share their items, so this is conservative. With several seeds, both the intervals over seeds
        and those over the text must not overlap: seeds that agree say nothing about other sentences.
        """
        change, none = self.change(first, second, among=among), 1.0 if describe(self.measure).logarithmic else 0.0
        if change.known:
            return not change.low <= none <= change.high
        for readings in filter(None, (self.readings, self.text)):
            one, other = readings[self.at[first]], readings[self.at[second]]
            if overlap(one, other) if one.known and other.known else one.value == other.value:
                return False
        return True

    def changed(self, first: int = 0, second: int = -1, *, among: int = 1) -> str:
        """The change between two positions on the same items as text, as in "a factor of 0.9 [0.8, 1.0]", or ""."""
        change = self.change(first, second, among=among)
        if not change.known:
            return ""
        if describe(self.measure).logarithmic:
            return f"a factor of {change.say(number if change.value >= 0.1 else digits)} on the same text"
        signed = "{:+.3f}" if abs(change.value) >= 0.001 else "{:+.2g}"
        return f"a change of {change.say(signed.format)} on the same items"

    def say(self, layer: int, *, floor: bool = True) -> str:
        """The value at a layer, its interval and, if higher is better, the chance level, as text."""
        reading = self.readings[layer]
        chance = f"chance gives {number(reading.floor)}" if not isnan(reading.floor) else "no floor was measured"
        untold = not floor or describe(self.measure).better == "lower"
        return reading.say(number) + ("" if untold else f", where {chance}")

    def reading(self, index: int) -> str:
        """The reading at a position of the curve as text: its value and interval.

        The interval is over seeds. If all seeds have the same value, as before the first update, it is the one over
        sentences instead. Shares have three decimals, other values four digits.
        """
        reading = self.readings[self.at[index]]
        if self.text and isclose(reading.low, reading.high, rel_tol=1e-9):
            reading = self.text[self.at[index]]
        return reading.say(number if (describe(self.measure).axis or (0, 2))[1] <= 1 else digits)

    def from_to(self, *, steps: bool = True) -> str:
        """The first and the last reading as text."""
        first, last = (f" at step {self.at[end]:,}" if steps else "" for end in (0, -1))
        return f"from {self.reading(0)}{first} to {self.reading(-1)}{last}"

    def thin(self, *, most: int) -> "Curve":
        """At most `most` readings, evenly spaced, including the first and the last.

        >>> Curve("loss", {step: Interval(1.0) for step in range(9)}).thin(most=3).at
        (0, 4, 8)
        """
        return replace(self, readings={step: self.readings[step] for step in spread(self.at, most=most)})

    def line(self, label: str, **look: Any) -> Line:
        """The curve as a line of a figure, with gaps for infinite values; `look` has further fields of the line."""
        readings, lists = self.readings.values(), {}
        for name in BOUNDS:
            values = [getattr(reading, name) for reading in readings]
            if name == "value" or not all(map(isnan, values)):
                lists[name] = tuple(nan if isinf(value) else value for value in values)
        n = min((reading.n for reading in readings), default=0)
        return Line(label, self.at, **{"n": n, "members": self.members, **lists, **look})


def spread(items: Sequence[T], *, most: int) -> list[T]:
    """At most `most` items, evenly spaced, including the first and the last."""
    chosen = range(len(items)) if len(items) <= most else np.linspace(0, len(items) - 1, most).round().astype(int)
    return [items[index] for index in chosen]


def overlap(first: Interval, second: Interval) -> bool:
    """Whether two intervals overlap; False if one of them is unknown."""
    return first.low <= second.high and second.low <= first.high


def curves(rows: pd.DataFrame, *, along: str = "layer", by: Sequence[str] = ()) -> list[Curve]:
    """Every curve of the rows along layers or steps, in order of appearance.

    Rows without a value or without a layer (step) are ignored; of a repeated reading, the last one counts.

    Args:
        rows: A table of rows.
        along: The column on the horizontal axis, `layer` or `step`.
        by: Columns that distinguish curves; by default the measure and all coordinates, along steps without the seed.
            If `with_trainings` has added the name of the training, curves have it, too.
    """
    rows = rows[rows[along].notna() & rows["value"].notna()]
    apart = ("step", "seed") if along == "layer" else ("layer", "other_layer")
    names = by or ("measure", *NAMES, "pooling", "settings", *apart, *rows.columns.intersection(["training"]))
    numbers = rows[["seed", along, "n", *BOUNDS]].to_numpy(dtype="float64", na_value=np.nan).tolist()
    left_out = [text.split() if is_given(text) else () for text in rows["parts"]]
    coordinates = zip(*(rows[name].tolist() for name in names), strict=True)
    made = []
    for values, own in grouped(zip(coordinates, numbers, left_out, strict=True), itemgetter(0)).items():
        group: Readings = {}
        for _, (seed, position, n, value, low, high, floor), parts in own:
            low, high = (low, high) if low <= high else (nan, nan)  # an interval with one end is unknown
            reading = Interval(
                value, low, high, n=0 if isnan(n) else int(n), floor=floor, parts=tuple(map(float, parts))
            )
            group.setdefault(None if isnan(seed) else int(seed), {})[int(position)] = reading
        known = {name: "" if pd.isna(value) else str(value) for name, value in zip(names, values, strict=True)}
        fields = ("measure", *NAMES, *DERIVED_NAMES)
        about: dict[str, Any] = {name: cell for name, cell in known.items() if name in fields}
        about["layer"] = int(known["layer"]) if known.get("layer") else None
        about["own"] = group if along == "step" else {}
        if along == "step" and len(group.keys() - {None}) > 1:
            made.append(_curve_over_seeds(group, about))
        else:
            every = (reading for readings in group.values() for reading in readings.items())
            made.append(Curve(readings=dict(sorted(dict(every).items())), **about))
    return made


def _curve_over_seeds(group: Readings, about: dict[str, Any]) -> Curve:
    """The mean over seeds, with its interval, at each step that all seeds have; `n` is the fewest items of a seed.

    Later steps are dropped if one seed stopped early: the mean of the others would be a mean of other trainings.
    """
    own = [group[seed] for seed in sorted(seed for seed in group if seed is not None)]
    steps = sorted(set.intersection(*map(set, own)) or set.union(*map(set, own)))
    every = {step: [readings[step] for readings in own if step in readings] for step in steps}
    measure = describe(about["measure"])
    positive = all(reading.value > 0 for same in every.values() for reading in same)
    over_seeds, text = {}, {}
    for step, same in every.items():
        values, *ends = zip(*map(bounds, same), strict=True)
        mean = mean_over_seeds(values, scale="log" if measure.logarithmic and positive else "linear")
        low, high, floor = (mean_over_seeds(side).value for side in ends)
        reading = replace(mean, n=min((each.n for each in same if each.n), default=0), floor=floor)
        over_seeds[step] = reading.clipped(*measure.range)  # an interval over few seeds may exceed the range
        text[step] = replace(reading, low=low, high=high)
    return Curve(readings=over_seeds, text=text, seeds=len(own), **about)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by a key function, in order of appearance, as in `grouped(parts, attrgetter("task"))`."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def select(parts: Iterable[Curve], **wanted: Any) -> list[Curve]:
    """The curves whose fields have these values, as in `select(parts, measure="p@1", method="centred")`."""
    return [part for part in parts if all(getattr(part, name) == value for name, value in wanted.items())]


def average(parts: Sequence[Curve]) -> Curve:
    """The mean of the curves with the longest list of positions; the ends of intervals are averaged, too."""
    at = max((part.at for part in parts), key=len)
    whole = [part for part in parts if part.at == at]
    if len(whole) == 1:
        return whole[0]
    means = np.mean([list(map(bounds, part.readings.values())) for part in whole], axis=0).tolist()
    counted = [part for part in whole if any(part.counts)]
    readings = {}
    for position, (value, low, high, floor) in zip(at, means, strict=True):
        n = min((part.readings[position].n for part in counted), default=0)
        readings[position] = Interval(value, low, high, n, floor)
    differing = [name for name in (*NAMES, *DERIVED_NAMES) if len({getattr(part, name) for part in whole}) > 1]
    about: dict[str, Any] = {"members": len(whole), "most": max(part.counts[1] for part in whole)}
    about |= {"seeds": max(part.seeds for part in whole), **dict.fromkeys(differing, "")}
    return replace(whole[0], readings=readings, text={}, own=_average_own([part.own for part in whole]), **about)


def _average_own(every: Sequence[Readings]) -> Readings:
    """The mean of several curves at each seed and position that all of them have, with its values without parts."""
    averaged: Readings = {}
    for seed in set.intersection(*map(set, every)):
        for position in set.intersection(*(set(own[seed]) for own in every)):
            same = [own[seed][position] for own in every]
            lengths = {len(reading.parts) for reading in same}
            parts = np.mean([reading.parts for reading in same], axis=0) if len(lengths) == 1 else ()
            value = float(np.mean([reading.value for reading in same]))
            averaged.setdefault(seed, {})[position] = Interval(value, parts=tuple(parts))
    return averaged


def overall(parts: Sequence[Curve], measure: str, method: str) -> Curve:
    """The average of a measure's curves by layer, with the run's own interval and comparison of layers.

    If the curves include `MEASURE_mean` of one data set, the average has its interval; else the ends are averaged.
    `MEASURE_behind` determines which layers cannot be distinguished from the best.
    """
    mean, known, behind = (select(parts, measure=measure + end, method=method) for end in ("", "_mean", "_behind"))
    curve = average(mean)
    if len(known) != 1 or known[0].at != curve.at:
        return curve
    own, tied = known[0].readings, None
    if len(behind) == 1 and behind[0].at == curve.at:
        tied = tuple(layer for layer, reading in behind[0].readings.items() if not reading.low > 0)
    readings = {
        at: replace(reading, low=own[at].low, high=own[at].high, parts=own[at].parts)
        for at, reading in curve.readings.items()
    }
    return replace(curve, readings=readings, tied=tied, own_interval=True)


def _identity(curve: Curve) -> tuple[Any, ...]:
    """What identifies a curve, except whether it is with or without attention sinks."""
    return (curve.measure, curve.layer, *(getattr(curve, name) for name in (*NAMES, "seed") if name != "condition"))


def central_language(pairs: Iterable[tuple[str, str]]) -> str:
    """The language in most pairs, with which the others are compared; of ties, the first source."""
    known = [pair for pair in dict.fromkeys(pairs) if all(pair)]
    partners = Counter(code for pair in set(map(frozenset, known)) for code in pair)
    # `known` is in order of appearance and max keeps the first of equals.
    return max((code for end in (0, 1) for code in (pair[end] for pair in known)), key=partners.__getitem__, default="")


class RunFolder:
    """One run, with the facts that its views use.

    record: run.json. rows: the table. points: the word map, or None. name: distinguishes runs. arguments: those of the
    command, as far as recorded. command: the command that made the run; for a sweep, that of its jobs. model: the name
    of the model, from the record or else the rows. depth: number of blocks of the model, if recorded, even if not all
    were read. data: names of the data sets. languages: codes, in order of appearance in the rows, then in the points.
    centre: the language that the others are compared with.
    """

    def __init__(
        self, path: Path, record: Mapping[str, Any], rows: pd.DataFrame, points: pd.DataFrame | None = None
    ) -> None:
        self.path, self.name, self.record, self.rows, self.points = path, path.name, record, rows, points
        self.arguments: Mapping[str, Any] = record.get("arguments", {})
        self.command = self.arguments["recipe"] if record.get("command") == "sweep" else record.get("command", "")
        self.model = str(record.get("model") or ", ".join(filter(None, rows["model"].unique())) or path.name)
        self.depth: int | None = record.get("depth")
        self.data = [str(name) for name in rows["data"].unique() if name]
        pairs = rows[["source", "target"]].drop_duplicates().to_numpy().ravel()
        codes = dict.fromkeys([*pairs, *([] if points is None else points["language"].unique())])
        self.languages = [code for code in codes if code not in ("", POOLED, OTHERS)]
        self.centre = central_language(zip(rows["source"], rows["target"], strict=True))

    @cached_property
    def trained(self) -> pd.DataFrame:
        """The rows of a training: those with a step."""
        return self.rows[self.rows["step"].notna()]

    @cached_property
    def mapped(self) -> pd.DataFrame:
        """The rows of a map: those without a step, except scores of a task at single layers and rows without sinks."""
        rows = self.rows[self.rows["step"].isna() & (self.rows["condition"] != WITHOUT_SINKS)]
        return rows[rows["layer"].isna() | (rows["task"] == "")]

    @cached_property
    def by_layer(self) -> list[Curve]:
        """The curves of a map: along layers."""
        return curves(self.mapped)

    @cached_property
    def without_sinks(self) -> list[Curve]:
        """The curves of a map along layers, at layers with attention sinks with the values without them.

        If there are any, layers are not compared on the same sentences: the run compares those with sinks apart.
        """
        clean = {_identity(curve): curve for curve in curves(self.rows[self.rows["condition"] == WITHOUT_SINKS])}
        kept = [curve for curve in self.by_layer if not (clean and curve.measure.endswith("_behind"))]
        return [
            replace(curve, readings={**curve.readings, **clean[_identity(curve)].readings})
            if _identity(curve) in clean
            else curve
            for curve in kept
        ]

    @cached_property
    def lead(self) -> Curve | None:
        """The leading measure of a map by layer, without attention sinks, averaged over language pairs, if any."""
        known = {(curve.measure, curve.method) for curve in self.without_sinks}
        return next((overall(self.without_sinks, *pair) for pair in LEADING if pair in known), None)

    def map_at(self, end: str) -> "tuple[int, RunFolder, Curve] | None":
        """The first (`min`) or last (`max`) step with a measure by layer, its rows as a map, and the leading curve.

        None if there is no measure by layer, or there are several trainings.
        """
        rows = self.trained[self.trained["layer"].notna() & self.trained["value"].notna() & self.trained["task"].eq("")]
        steps = rows.groupby(["measure", "method"])["step"].agg(end)
        leading = next((pair for pair in LEADING if pair in steps.index), None)
        if leading is None or len(self.trained[["plan", "condition", "settings"]].drop_duplicates()) > 1:
            return None
        mapped = RunFolder(self.path, self.record, rows[rows["step"] == steps[leading]].assign(step=pd.NA))
        return (int(steps[leading]), mapped, mapped.lead) if mapped.lead else None

    @cached_property
    def trainings(self) -> pd.DataFrame:
        """All rows with the column `training`, without unfinished seeds if other seeds of the plan are finished.

        A finished training of `drift` has a test of its best model. With an unfinished seed among the others, the mean
        over seeds would jump at the step where that seed stops.
        """
        rows = with_trainings(self.rows)
        tested = rows[(rows["measure"] == "perplexity") & (rows["data"] == TEST) & rows["step"].notna()]
        whole, each = (pd.MultiIndex.from_frame(own[["training", "seed"]]) for own in (tested, rows))
        return rows[each.isin(whole) | rows["seed"].isna() | ~rows["training"].isin(tested["training"])]

    @cached_property
    def by_step(self) -> list[Curve]:
        """The curves of a training: along steps."""
        texts = self.trained.groupby("other_model")["data"].nunique()
        named = []
        for curve in curves(self.trainings, along="step"):
            on = f" on {curve.data}" if texts[curve.other_model] > 1 and curve.data != HELD else ""
            to = f"to {curve.other_model}{on}" if curve.other_model else ""
            named.append(replace(curve, kind=", ".join(filter(None, (curve.method, curve.selection, to)))))
        return named


@dataclass(frozen=True)
class View:
    """The presentation of a run.

    Attributes:
        mark: The kind of run, in one word.
        verdict: Sentences with the findings.
        facts: The key numbers.
        figures: All figures; `section` is a figure's place on the page.
        tables: Tables above the figures of the section `scores`.
        heading: Selects the title and introduction of that section in the template.
        caution: Whether the verdict is a warning, such as that nothing is better than chance.
        title: Title of the page; empty for the name of the model.
        paper: For a reproduction, the conditions, the findings and the tables of the paper.
    """

    mark: str
    verdict: list[str]
    facts: list[Fact]
    figures: list[Figure]
    tables: Sequence[Table] = ()
    heading: str = ""
    caution: bool = False
    title: str = ""
    paper: Mapping[str, Any] | None = None


def with_trainings(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the column `training`: the name of plan, condition and settings together."""
    columns = ("plan", "condition", "settings")
    keys = list(zip(*(rows[name] for name in columns), strict=True))
    names = {key: training_name(dict(zip(columns, key, strict=True))) for key in set(keys)}
    return rows.assign(training=[names[key] for key in keys])


def by_partner(parts: Sequence[Curve], centre: str) -> dict[str, Curve]:
    """For each language, the average of its curves with the central one, over both directions and all data sets."""
    own = [part for part in parts if not part.target or centre in (part.source, part.target)]
    return {
        language: average(group) for language, group in grouped(own, lambda part: other_language(part, centre)).items()
    }


def other_language(part: Curve, centre: str) -> str:
    """The language of a curve that is not the central one."""
    return part.target if part.target and part.source == centre else part.source


def count_items(curve: Curve) -> str:
    """The number of sentences or words of a curve's values, as text."""
    counts = span_of(curve.counts)
    return f"n = {counts} {curve.items}{' each' if curve.members > 1 else ''}" if counts else "n not recorded"


def name_partners(run: RunFolder, centre: str, lead: Curve) -> list[str]:
    """A sentence on the closest and the farthest language from the central one at the best layer; none for two."""
    best, parts = lead.best, select(run.without_sinks, measure=lead.measure, method=lead.method)
    partners = {code: curve for code, curve in by_partner(parts, centre).items() if best in curve.at}
    if len(partners) < 2 or lead.above_chance is False:
        return []
    ranked = sorted(partners, key=lambda code: -partners[code].readings[best].value)
    near, far = (partners[code].readings[best] for code in (ranked[0], ranked[-1]))
    said = {code: f"{language_name(code)} ({curve.say(best, floor=False)})" for code, curve in partners.items()}
    middle = language_name(centre)
    if near.low <= far.high:
        return [
            f"At layer {best} no language is clearly closer to {middle} than another: from {said[ranked[0]]} to "
            f"{said[ranked[-1]]} the intervals overlap."
        ]
    # Those that cannot be told from the closest, or from the farthest; one between that overlaps both is not named.
    between = {code: partners[code].readings[best] for code in ranked[1:-1]}
    alike = [said[code] for code, reading in between.items() if reading.high >= near.low and reading.low > far.high]
    apart = [said[code] for code, reading in between.items() if reading.low <= far.high and reading.high < near.low]
    nearest, farthest = [said[ranked[0]], *alike], [*apart, said[ranked[-1]]]
    low, high = (pick(count for curve in partners.values() for count in curve.counts) for pick in (min, max))
    warning = f"; they were searched among {low:,} to {high:,} sentences, and more sentences make it harder"
    closest = f"{listed(nearest)} {'is' if len(nearest) == 1 else 'are'} closest to {middle}"
    sentence = f"At layer {best}, {closest} and {listed(farthest)} farthest"
    return [f"{sentence}{warning if lead.measure == 'p@1' and high > 1.1 * low > 0 else ''}."]


def where_best(curve: Curve) -> str:
    """The best layer, and those that cannot be distinguished from it, as text."""
    best, same = curve.best, curve.alike
    if len(same) == 1:
        return f"layer {best}"
    ties = "no layer stands out" if len(same) == len(curve.at) else f"{name_layers(same)} cannot be told apart"
    return f"layer {best} ({ties})"


def language_name(code: str) -> str:
    """The English name of a language code; an unknown code is its own name.

    >>> language_name("nl"), language_name("zh-Hans"), language_name("??")
    ('Dutch', 'Chinese', '??')
    """
    return languages.name(code) if languages.is_code(code) else code


def listed(names: Sequence[str]) -> str:
    """Names with commas and an "and" before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def name_layers(layers: Sequence[int]) -> str:
    """Layers as ranges.

    >>> name_layers([7, 8, 9]), name_layers([2, 7, 8])
    ('layers 7 to 9', 'layers 2, 7 and 8')
    """
    names: list[str] = []
    for group in grouped(layers, lambda layer: layer - layers.index(layer)).values():  # neighbours
        names += [f"{group[0]} to {group[-1]}"] if len(group) > 2 else [str(layer) for layer in group]
    return f"{'layer' if len(layers) == 1 else 'layers'} {listed(names)}"


def number(value: float) -> str:
    """Three decimals, enough to see an interval move."""
    return f"{value:.3f}".replace("-0.000", "0.000")


def digits(value: float) -> str:
    """Four digits that count, without powers of ten.

    >>> digits(8.5219), digits(206.4147), digits(263601.46), digits(float("inf"))
    ('8.522', '206.4', '263,600', 'infinite')
    """
    if isnan(value) or isinf(value):
        return "infinite" if isinf(value) else "unknown"
    rounded = float(f"{value:.4g}")
    if abs(rounded) >= 1000 or rounded == 0:
        return f"{rounded:,.0f}"
    return f"{rounded:#.4g}".rstrip(".") if abs(rounded) >= 1e-4 else f"{rounded:.3e}"


def span_of(counts: Iterable[int]) -> str:
    """A count, or the range of counts; empty where none is known.

    >>> span_of([1000]), span_of([1000, 90, 0]), span_of([0])
    ('1,000', '90 to 1,000', '')
    """
    known = sorted(count for count in counts if count)
    return " to ".join(dict.fromkeys(f"{end:,}" for end in (*known[:1], *known[-1:])))
