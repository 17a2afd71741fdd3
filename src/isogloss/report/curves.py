"""Rows become curves: one measure of one thing, along the layers of a model or along the steps of a training.

The average over language pairs averages values, floors, and the two ends of the intervals. Averaged ends are the
interval of the mean if the errors of all pairs were perfectly correlated; pairs share their sentences, so anything
narrower would promise too much. `isogloss map` measures the interval of the mean itself, and how far each layer is
behind the best; `overall` prefers those.
Only curves read at the same positions enter an average: else it would move because its members changed. Along steps,
curves of several seeds become one, their mean with a t interval over seeds; along layers they stay apart.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isinf, isnan, nan
from typing import Any, Literal

import numpy as np
import pandas as pd

from isogloss.figure import Line
from isogloss.measures.registry import MEASURES, describe
from isogloss.measures.statistics import band

LEADING = (
    ("p@1", "centred"),
    ("p@1", "csls"),
    ("p@1", "cosine"),
    ("cka", "debiased"),
    ("word_agreement", "centred"),
)
BOUNDS = ("value", "low", "high", "floor")
NUMBERS = (*BOUNDS, "n")
NAMES = ("method", "task", "model", "other_model", "data", "source", "target")
IDENTITY = ("measure", *NAMES, "unit", "pooling", "plan", "selection", "condition", "settings")

Readings = dict[int | None, dict[int, list[float]]]
"""Seed -> position -> the numbers of a reading, in the order of `NUMBERS`; None is the seed of rows without one."""


@dataclass(frozen=True)
class Curve:
    """One measure of one thing at several layers or steps, its mean over `seeds`, or the average of `members` curves.

    Attributes:
        measure: the measure.
        at: the layers or steps, rising.
        value: one number for each of them, as in low, high and floor (NaN where absent).
        low: the lower ends of the intervals.
        high: the upper ends.
        floor: what chance gives.
        n: the items behind each value, the fewest of an average's members; 0 where unknown.
        most: the most items behind any value, 0 where unknown.
        members: how many curves it is the average of.
        seeds: how many seeds it is the mean of.
        tied: the layers that cannot be told from the best one when all are compared on the same sentences; None when
            the run did not compare them.
        method: how it was measured; as the names below, empty where the members of an average differ.

    """

    measure: str
    at: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...]
    n: tuple[int, ...]
    most: int = 0
    members: int = 1
    seeds: int = 1
    tied: tuple[int, ...] | None = None
    method: str = ""
    task: str = ""
    model: str = ""
    other_model: str = ""
    data: str = ""
    source: str = ""
    target: str = ""
    seed: str = ""

    def place(self, position: int) -> int:
        """The index of a layer or a step."""
        return self.at.index(position)

    @property
    def counts(self) -> tuple[int, int]:
        """The smallest and the largest number of items behind a value, (0, 0) when unknown."""
        known = [count for count in self.n if count]
        return (min(known), max(self.most, *known)) if known else (0, 0)


def curves(
    rows: pd.DataFrame,
    measure: str | None = None,
    method: str | None = None,
    *,
    along: Literal["layer", "step"] = "layer",
) -> list[Curve]:
    """Every curve of the rows in order of appearance; a reading taken twice counts once, the last time.

    Args:
        rows: a table; rows without a value or without a layer (step) make no curve.
        measure: the only measure wanted; all of them where None.
        method: the only method wanted.
        along: what the curves run along.

    """
    wanted = rows[along].notna() & rows["value"].notna()
    if measure is not None:
        wanted &= rows["measure"] == measure
    if method is not None:
        wanted &= rows["method"] == method
    rows = rows if wanted.all() else rows[wanted]
    names = [*IDENTITY, *(("step", "seed") if along == "layer" else ("layer", "other_layer"))]
    # Plain dictionaries: a page asks for thousands of small groups, and each of them costs pandas milliseconds.
    columns = [rows[name].to_numpy(dtype="float64", na_value=np.nan).tolist() for name in ("seed", along, *NUMBERS)]
    groups: dict[tuple[Any, ...], Readings] = {}
    for identity, seed, position, *numbers in zip(
        zip(*(rows[name].tolist() for name in names), strict=True), *columns, strict=True
    ):
        group = groups.setdefault(identity, {})
        group.setdefault(None if isnan(seed) else int(seed), {})[int(position)] = numbers
    found = []
    for values, group in groups.items():
        known = {name: "" if pd.isna(value) else value for name, value in zip(names, values, strict=True)}
        about: dict[str, Any] = {name: str(known.get(name, "")) for name in ("measure", *NAMES, "seed")}
        if along == "step" and len(group.keys() - {None}) > 1:
            found.append(_curve_over_seeds(group, about))
            continue
        readings = sorted((position, numbers) for steps in group.values() for position, numbers in steps.items())
        lists: dict[str, Any] = dict(zip(NUMBERS, zip(*(numbers for _, numbers in readings), strict=True), strict=True))
        counts = tuple(0 if isnan(count) else int(count) for count in lists.pop("n"))
        found.append(Curve(at=tuple(at for at, _ in readings), n=counts, most=max(counts), **lists, **about))
    return found


def _curve_over_seeds(group: Readings, about: dict[str, Any]) -> Curve:
    """The mean over seeds at each step that all were read at, and its interval; `n` the fewest items of a seed.

    Where one seed stops earlier than others, the mean of those that are left would be of other trainings.
    """
    seeds = sorted(seed for seed in group if seed is not None)
    every = [set(group[seed]) for seed in seeds]
    steps = sorted(set.intersection(*every) or set.union(*every))
    absent = [nan] * len(NUMBERS)
    table = np.array([[group[seed].get(step, absent) for step in steps] for seed in seeds])  # (seeds, steps, numbers)
    values, floors, counts = (table[:, :, NUMBERS.index(name)] for name in ("value", "floor", "n"))
    logarithmic = describe(about["measure"]).logarithmic and not (values <= 0).any()
    mean = band(values, scale="log" if logarithmic else "linear")
    known = MEASURES.get(about["measure"].removesuffix("_mean"))
    least, most = known.range if known else (-inf, inf)  # an interval over few seeds would go beyond
    fewest = np.where(np.isnan(counts), np.inf, counts).min(axis=0)
    n = tuple(int(count) if count < np.inf else 0 for count in fewest)
    return Curve(
        at=tuple(steps),
        value=tuple(mean.mean.tolist()),
        low=tuple(mean.low.clip(least).tolist()),
        high=tuple(mean.high.clip(max=most).tolist()),
        floor=tuple(band(floors).mean.tolist()),
        n=n,
        most=max(n, default=0),
        seeds=len(seeds),
        **about,
    )


def average(parts: Sequence[Curve]) -> Curve:
    """The mean of the curves read at the same positions (the longest list wins), ends of intervals too."""
    at = max((part.at for part in parts), key=len)
    whole = [part for part in parts if part.at == at]
    if len(whole) == 1:
        return whole[0]
    means: dict[str, Any] = {
        name: tuple(np.mean([getattr(part, name) for part in whole], axis=0, dtype="float64").tolist())
        for name in BOUNDS
    }
    for name in (*NAMES, "seed"):
        shared = {getattr(part, name) for part in whole}
        means[name] = shared.pop() if len(shared) == 1 else ""
    counted = [part.n for part in whole if any(part.n)]
    return Curve(
        whole[0].measure,
        at,
        n=tuple(min(counts) for counts in zip(*counted, strict=True)) if counted else whole[0].n,
        most=max(part.most for part in whole),
        members=len(whole),
        seeds=max(part.seeds for part in whole),
        **means,
    )


def overall(rows: pd.DataFrame, measure: str, method: str | None = None) -> Curve | None:
    """The average of a measure's curves by layer, with the interval and the comparison of layers the run itself took.

    Where the rows hold `MEASURE_mean` and `MEASURE_behind` of one data set, those stand for the average's interval and
    for which layers cannot be told from the best; else the averaged ends do. None where there is no curve.
    """
    parts = curves(rows, measure, method)
    if not parts:
        return None
    mean = average(parts)
    known, behind = (curves(rows, f"{measure}_{kind}", method) for kind in ("mean", "behind"))
    if len(known) != 1 or len(behind) != 1 or not known[0].at == behind[0].at == mean.at:
        return mean
    tied = tuple(layer for layer, low in zip(behind[0].at, behind[0].low, strict=True) if not low > 0)
    return replace(mean, low=known[0].low, high=known[0].high, tied=tied)


def best_layer(curve: Curve) -> int:
    """The layer with the best value under the measure's own direction; the earliest of equals."""
    values = np.array(curve.value)
    return curve.at[int(np.argmin(values) if describe(curve.measure).better == "lower" else np.argmax(values))]


def alike(curve: Curve) -> list[int]:
    """The layers that cannot be told from the best, itself included.

    By comparison where there is one, else because their intervals overlap.
    """
    if curve.tied is not None:
        return sorted({best_layer(curve), *curve.tied})
    best = curve.place(best_layer(curve))
    low, high = curve.low[best], curve.high[best]
    return [
        layer
        for index, layer in enumerate(curve.at)
        if index == best or (curve.low[index] <= high and curve.high[index] >= low)
    ]


def above_floor(curve: Curve, layer: int) -> bool | None:
    """Whether a layer's interval (its value, where there is none) clears the floor; None without a floor."""
    place = curve.place(layer)
    value, low, high, floor = (getattr(curve, name)[place] for name in BOUNDS)
    if isnan(floor):
        return None
    if describe(curve.measure).better == "lower":
        return bool((value if isnan(high) else high) < floor)
    return bool((value if isnan(low) else low) > floor)


def leading(rows: pd.DataFrame) -> tuple[str, str] | None:
    """The measure and method that a verdict leads with: the first of `LEADING` that was measured per layer."""
    layered = rows[rows["layer"].notna() & rows["value"].notna()]
    known = set(zip(layered["measure"], layered["method"], strict=True))
    return next((pair for pair in LEADING if pair in known), None)


def central_language(rows: pd.DataFrame) -> str:
    """The language the others are compared with: the one in most pairs, and among equals the first source."""
    pairs = rows.loc[(rows["source"] != "") & (rows["target"] != ""), ["source", "target"]].drop_duplicates()
    partners: Counter[str] = Counter()
    for pair in {frozenset(pair) for pair in pairs.itertuples(index=False)}:
        partners.update(pair)
    # `pairs` is in order of appearance and max keeps the first of equals.
    return max((*pairs["source"], *pairs["target"]), key=lambda code: partners[code], default="")


def by_partner(parts: Sequence[Curve], centre: str) -> dict[str, Curve]:
    """For each language, the average of its curves with the central one, both directions and all data."""
    groups: dict[str, list[Curve]] = {}
    for part in parts:
        if part.target == "":
            groups.setdefault(part.source, []).append(part)
        elif centre in (part.source, part.target):
            groups.setdefault(part.target if part.source == centre else part.source, []).append(part)
    return {language: average(group) for language, group in groups.items()}


def apart(curve: Curve, first: int, second: int) -> bool:
    """Whether two readings of a curve differ: their intervals do not overlap, or without intervals their values differ.

    Readings of one training share their items, so intervals that part are more than enough.
    """
    bounds = [curve.low[first], curve.high[first], curve.low[second], curve.high[second]]
    if any(isnan(bound) for bound in bounds):
        return curve.value[first] != curve.value[second]
    return bounds[0] > bounds[3] or bounds[2] > bounds[1]


def thin(curve: Curve, *, most: int) -> Curve:
    """At most `most` readings of a curve, evenly spread over its list, the first and the last among them.

    >>> thin(Curve("loss", tuple(range(9)), *[tuple(range(9))] * 5), most=3).at
    (0, 4, 8)
    """
    if len(curve.at) <= most:
        return curve
    places = [int(place) for place in np.linspace(0, len(curve.at) - 1, most).round()]
    lists: dict[str, Any] = {
        name: tuple(getattr(curve, name)[place] for place in places) for name in ("at", "n", *BOUNDS)
    }
    return replace(curve, **lists)


def line_of(curve: Curve, label: str, **look: Any) -> Line:
    """A curve as a line of a figure, where infinite values are gaps; `look` holds more fields of the line."""
    lists = {name: getattr(curve, name) for name in BOUNDS}
    finite = {
        name: values if not any(map(isinf, values)) else tuple(nan if isinf(x) else x for x in values)
        for name, values in lists.items()
    }
    known = {name: values for name, values in finite.items() if name == "value" or not all(map(isnan, values))}
    return Line(label, curve.at, **{"n": min(curve.n, default=0), "members": curve.members, **known, **look})
