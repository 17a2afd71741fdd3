"""One measure of one thing, followed while a model trains: curves over steps, from rows.

Curves of several seeds are one, their mean at each step with a t interval over seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan
from typing import Any

import numpy as np
import pandas as pd

from isogloss.measures.registry import MEASURES
from isogloss.measures.statistics import band
from isogloss.report.meanings import meaning

BOUNDS = ("value", "low", "high", "floor")
NUMBERS = (*BOUNDS, "n")
PLACE = ("task", "model", "other_model", "data", "source", "target")
IDENTITY = [
    "variant", "unit", "task", "model", "other_model", "data", "source", "target", "layer", "other_layer",
]  # fmt: skip

Readings = dict[int | None, dict[int, list[float]]]
"""Seed -> step -> the numbers of a reading, in the order of `NUMBERS`; None is the seed of rows without one."""


@dataclass(frozen=True)
class StepCurve:
    """One measure over the steps of a training, its mean over `seeds` of them, or the average of `members` such.

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
    seeds: int = 1


def step_curves(rows: pd.DataFrame, measure: str) -> list[tuple[dict[str, str], StepCurve]]:
    """Every curve with its coordinates, in order of appearance; a reading taken twice counts once, the last time."""
    if rows.empty:
        return []
    # Plain dictionaries: a page asks for thousands of small groups, and each of them costs pandas milliseconds.
    whole = [rows[name].to_numpy(dtype="float64", na_value=np.nan).tolist() for name in ("seed", "step", *NUMBERS)]
    named = [rows[name].tolist() for name in IDENTITY]  # an absent layer is one object, equal to itself in a key
    groups: dict[tuple[Any, ...], Readings] = {}
    for identity, seed, step, *numbers in zip(zip(*named, strict=True), *whole, strict=True):
        group = groups.setdefault(identity, {})
        group.setdefault(None if isnan(seed) else int(seed), {})[int(step)] = numbers
    found = []
    for identity, group in groups.items():
        place = {name: str(value) for name, value in zip(IDENTITY, identity, strict=True) if name in PLACE}
        several = len(group.keys() - {None}) > 1
        found.append((place, _over_seeds(group, measure) if several else _curve(group, measure)))
    return found


def _curve(group: Readings, measure: str) -> StepCurve:
    read = sorted((step, numbers) for steps in group.values() for step, numbers in steps.items())
    columns: dict[str, Any] = dict(zip(NUMBERS, zip(*(numbers for _, numbers in read), strict=True), strict=True))
    counts = tuple(0 if isnan(count) else int(count) for count in columns.pop("n"))
    return StepCurve(measure, tuple(step for step, _ in read), n=counts, **columns)


def _over_seeds(group: Readings, measure: str) -> StepCurve:
    """The mean over seeds at each step that all were read at, and its interval; `n` the fewest items of a seed.

    Where one seed stops earlier than others, the mean of those that are left would be of other trainings.
    """
    seeds = sorted(seed for seed in group if seed is not None)
    every = [set(group[seed]) for seed in seeds]
    steps = sorted(set.intersection(*every) or set.union(*every))
    absent = [float("nan")] * len(NUMBERS)
    table = np.array([[group[seed].get(step, absent) for step in steps] for seed in seeds])  # (seeds, steps, numbers)
    values, floors, counts = (table[:, :, NUMBERS.index(name)] for name in ("value", "floor", "n"))
    found = band(values, scale="log" if meaning(measure).log and not (values <= 0).any() else "linear")
    least, most = _range(measure)
    fewest = np.where(np.isnan(counts), np.inf, counts).min(axis=0)
    columns: dict[str, Any] = {
        "value": tuple(found.mean.tolist()),
        "low": tuple(found.low.clip(least).tolist()),
        "high": tuple(found.high.clip(max=most).tolist()),
        "floor": tuple(band(floors).mean.tolist()),
        "n": tuple(int(count) if count < np.inf else 0 for count in fewest),
    }
    return StepCurve(measure, tuple(steps), seeds=len(seeds), **columns)


def _range(measure: str) -> tuple[float, float]:
    """What a measure can be: an interval over few seeds would go beyond."""
    known = MEASURES.get(measure.removesuffix("_mean"))
    return known.range if known else (-inf, inf)


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
    seeds = max(part.seeds for part in whole)
    return StepCurve(whole[0].measure, steps, n=n, members=len(whole), seeds=seeds, **means)


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
