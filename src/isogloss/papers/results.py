"""The rows of a reproduction: how they are read, compared with published values, and judged.

`Results` gives values by seed, and curves, at any coordinates. A `Claim` is a sentence of the paper with the contrasts
that it rests on, each a value with an interval over seeds and test items together, corrected by Holm where a claim has
several. A claim is held when the interval of every contrast lies on its side, and refuted when one lies on the other.
An interval that reaches over is not enough for either: the claim is not held, and stays open. With fewer than three
seeds there is no interval worth the name, so nothing is judged.

`Published` holds the numbers of a paper, read from `published/NAME.csv`: a line has the measure, the value, the
coordinates it applies to and the reference, which says where in the paper it was read.
"""

import csv
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from scipy.stats import gmean

from isogloss.figure import NOTHING, Figure, Line, Panel, Table, percent, signed
from isogloss.measures.statistics import (
    NORMAL,
    PARTS,
    Estimate,
    Floats,
    Interval,
    Seeds,
    band,
    holm_confidences,
    mean_over_seeds,
    paired_differences,
    two_way_mean,
)
from isogloss.runs.table import KEY, Row, is_given, records, row
from isogloss.seeds import seed_of
from isogloss.text.languages import short_name

LEAST = 3  # seeds for an interval
OTHERS = "others"  # the target of a mean over the languages besides the source
ALONE = -1  # the seed of what has none, such as a model before training

T = TypeVar("T")
Coordinates = Mapping[str, Any]
Values = Seeds | Sequence[float] | Floats  # a value for each seed, or values one after the other (seeds,)
decimals = "{:.3f}".format


def over_seeds(values: Values, *, log: bool = False) -> Interval:
    """The mean of one value a seed and its t interval.

    Args:
        values: by seed, or one after the other (seeds,).
        log: take mean and interval of the logarithms, and raise them again.

    >>> str(over_seeds([1.0, 2.0, 3.0])), str(over_seeds({0: 1.0, 1: 3.0}))
    ('2.00 [-0.484, 4.48]', '2.00')
    """
    return mean_over_seeds(values, least=LEAST, scale="log" if log else "linear")


def no_interval(seeds: int) -> str:
    """The sentence on too few seeds; empty where there are enough, or none at all."""
    if not 0 < seeds < LEAST:
        return ""
    return f"intervals are not available from {seeds} seed{'s' * (seeds != 1)}: {LEAST} are the fewest"


def target_title(target: str) -> str:
    """The name of a target language; an invented language is named by its code.

    >>> target_title("de"), target_title("qaa"), target_title("others")
    ('German', 'qaa', 'mean of targets')
    """
    return "mean of targets" if target == OTHERS else short_name(target)


def seeds_note(counts: Sequence[int], means: str = "means") -> str:
    """The sentence under a table on the seeds of its measured values.

    Args:
        counts: how many seeds the values have.
        means: which means they are.

    >>> seeds_note([3, 3])
    'Measured: means over 3 seeds; brackets hold t intervals over them.'
    """
    fewest, most = min(counts), max(counts)
    count = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    few = no_interval(most) or f"brackets hold t intervals over them{f', from {LEAST} on' * (fewest < LEAST)}"
    return f"Measured: {means} over {count} seed{'s' * (most != 1)}; {few}."


def bands(seeds: int) -> str:
    """The sentence of a caption on the bands of curves over seeds."""
    if seeds < LEAST:
        return f"Mean of {seeds} seeds, too few for a band." if seeds > 1 else "One seed, so no band."
    return f"Bands: t intervals over {seeds} seeds."


# ------------------------------------------------------------------------------------------------ reading the rows


@dataclass(frozen=True)
class Curves:
    """One measure over steps or layers, a row a seed: steps (n,), values (seeds, n), which seeds."""

    steps: Floats
    values: Floats
    seeds: tuple[int, ...]

    @property
    def mean(self) -> Floats:
        """The mean over seeds at each step (n,)."""
        return self.values.mean(axis=0)

    @property
    def peak(self) -> int:
        """The step where the mean over seeds is highest."""
        return int(self.steps[self.mean.argmax()])

    def at(self, *steps: float) -> Seeds:
        """The mean over these steps or layers, by seed; empty where one of them was not measured."""
        if not set(steps) <= set(self.steps.tolist()):
            return {}
        means = self.values[:, np.isin(self.steps, steps)].mean(axis=1)
        return dict(zip(self.seeds, means.tolist(), strict=True))

    def line(
        self,
        label: str,
        *,
        until: float = math.inf,
        log: bool = False,
        share: bool = False,
        scale: float = 1.0,
        **look: Any,
    ) -> Line:
        """The mean over seeds as a curve of a figure, with a band where there are seeds enough.

        Args:
            label: name of the curve.
            until: the last step that is shown.
            log: geometric means.
            share: whether values are shares, so that the band stays between 0 and 1.
            scale: what values and band are multiplied by, as 100 for points.
            look: further fields of `Line`.
        """
        shown = self.steps <= until
        mean = band(self.values[:, shown], scale="log" if log else "linear")
        sides = [np.clip(side, 0.0, 1.0) if share else side for side in (mean.low, mean.high)]
        ends = [(scale * side).tolist() for side in sides] if len(self.seeds) >= LEAST else []
        return Line(label, self.steps[shown].tolist(), (scale * mean.mean).tolist(), *ends, **look)


def curves_of(points: Mapping[int, Seeds]) -> Curves | None:
    """Curves from the values of each seed at each step, at the steps that all seeds have; None without any.

    >>> curves_of({0: {0: 1.0, 1: 2.0}, 8: {0: 3.0, 1: 4.0}, 12: {0: 5.0}}).values.tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    seeds = sorted({seed for point in points.values() for seed in point})
    steps = sorted(step for step, point in points.items() if point and len(point) == len(seeds))
    if not steps:
        return None
    values = [[points[step][seed] for step in steps] for seed in seeds]
    return Curves(np.array(steps, dtype=np.float64), np.array(values), tuple(seeds))


class Results:
    """The rows of a reproduction, read by their coordinates.

    A coordinate is given as its value, as a list or tuple of values of which a row must have one, or as None for rows
    without it; coordinates that are not named are free. Where a seed has several rows their mean is taken, as over both
    directions of a pair of languages. Rows without a seed count only where no row has one, as seed -1.
    """

    def __init__(self, rows: pd.DataFrame) -> None:
        self.rows = rows
        self._columns: dict[str, list[Any]] = {}
        self._index: dict[tuple[str, ...], dict[tuple[Any, ...], list[int]]] = {}
        self._distinct: dict[tuple[Any, ...], list[Any]] = {}

    def where(self, **coordinates: Any) -> pd.DataFrame:
        """The rows at these coordinates."""
        return self.rows.iloc[self._positions(coordinates)]

    def values(self, column: str = "value", *, base: Any = None, log: Any = False, **coordinates: Any) -> Seeds:
        """A value for each seed.

        Args:
            column: `floor` for what chance gives, and such.
            base: coordinates that the values to compare with have instead, for differences by seed: in each of several
                languages, and then their mean. Only a `value` has any.
            log: ratios in place of differences, and their geometric mean.
            coordinates: of the rows.
        """
        if base is None:
            seeds, cells, positions = self.cells("seed"), self.cells(column), self._positions(coordinates)
            groups: dict[int, list[float]] = {}
            for position in [at for at in positions if seeds[at] is not None] or positions:
                if cells[position] is not None:
                    seed = ALONE if seeds[position] is None else int(seeds[position])
                    groups.setdefault(seed, []).append(float(cells[position]))
            return {seed: float(np.mean(own)) if len(own) > 1 else own[0] for seed, own in groups.items()}
        several = {name: value for name, value in coordinates.items() if isinstance(value, list | tuple)}
        changes = []
        for chosen in product(*several.values()) if column == "value" else ():
            at = {**coordinates, **dict(zip(several, chosen, strict=True))}
            changes.append(less(self.values(**at), self.values(**{**at, **base}), log=log))
        return by_seed(changes, gmean) if log else by_seed(changes)

    @cached_property
    def left_out(self) -> list["Results"]:
        """The same rows with the values they have without each part of the test items in turn, for `two_way_mean`.

        Where a row has no `parts`, its interval over items stands in for them: its error is spread over parts at
        random, alike for the rows of all seeds and languages and independently for other models, plans, layers and
        steps. What is compared then counts as if it had been read on other items, which makes intervals too wide.
        """
        left = np.repeat(np.array(self.cells("value"), dtype=np.float64)[:, None], PARTS, axis=1)
        drawn: dict[tuple[Any, ...], Floats] = {}
        shared = ("source", "target", "data", "seed")
        keys = zip(*(self.cells(name) for name in KEY if name not in shared), strict=True)
        columns = (self.cells(name) for name in ("parts", "low", "high", "over"))
        for at, (key, parts, low, high, over) in enumerate(zip(keys, *columns, strict=True)):
            if parts is not None and parts.count(" ") == PARTS - 1:
                left[at] = np.array(parts.split(), dtype=np.float64)
            elif low is not None and over != "seeds":
                if key not in drawn:
                    draws = np.random.default_rng(seed_of(0, *map(str, key))).normal(size=PARTS)
                    drawn[key] = (draws - draws.mean()) / draws.std() / math.sqrt(PARTS - 1)
                left[at] += drawn[key] * (high - low) / (2 * NORMAL)
        every = [copy(self) for _ in range(PARTS)]  # which share the index of the rows
        for results, numbers in zip(every, left.T.tolist(), strict=True):
            results._columns = {**self._columns, "value": [None if math.isnan(cell) else cell for cell in numbers]}
        return every

    def value(self, column: str = "value", **coordinates: Any) -> float | None:
        """The mean of all rows at these coordinates; None where there is none."""
        cells = self.cells(column)
        values = [cells[position] for position in self._positions(coordinates) if is_given(cells[position])]
        return float(np.mean(values)) if values else None

    def interval(self, **coordinates: Any) -> Interval | None:
        """The value and the interval that the first row at these coordinates has; None where there is no row."""
        rows = self.where(**coordinates)
        return None if rows.empty else Interval(*rows.iloc[0][["value", "low", "high", "n"]])

    def curves(self, over: str | Mapping[int, Coordinates] = "step", **coordinates: Any) -> Curves | None:
        """Values over steps (or layers) for each seed, at the steps that all seeds have; None without any.

        Args:
            over: the coordinate that is the step, or the coordinates of each step.
            coordinates: the same for all steps, and other arguments of `values`.
        """
        if isinstance(over, str):
            named = {name: value for name, value in coordinates.items() if name in KEY}
            over = {step: {over: step} for step in self.distinct(over, **named)}
        return curves_of({step: self.values(**{**coordinates, **own}) for step, own in over.items()})

    def distinct(self, name: str, **coordinates: Any) -> list[Any]:
        """The values that a coordinate has in the rows at others, in the order of the rows."""
        key = (name, *((other, *_choices(value)) for other, value in coordinates.items()))
        if key not in self._distinct:
            cells, positions = self.cells(name), self._positions(coordinates)
            self._distinct[key] = [cell for cell in dict.fromkeys(cells[at] for at in positions) if cell is not None]
        return list(self._distinct[key])

    @cached_property
    def model(self) -> str:
        """The model that is read or trained, the first that rows have."""
        return str(next(iter(self.distinct("model")), ""))

    @cached_property
    def source(self) -> str:
        """The language that is transferred from, the first that rows have; English where no row says it yet."""
        return str(next(iter(self.distinct("source")), "en"))

    def targets(self, **coordinates: Any) -> list[str]:
        """The languages besides the source that rows at these coordinates have, in their order."""
        return [code for code in self.distinct("target", **coordinates) if code not in (self.source, OTHERS)]

    def cells(self, name: str) -> list[Any]:
        """A column as a list, None where it is empty."""
        if name not in self._columns:
            self._columns[name] = list(map(_cell, self.rows[name].astype("object").to_numpy().tolist()))
        return self._columns[name]

    def _positions(self, coordinates: Mapping[str, Any]) -> list[int]:
        """Which rows are at these coordinates; an index of the rows is built once for each set of names."""
        names = tuple(sorted(coordinates))
        index = self._index.setdefault(names, {})
        if not index:
            keys = zip(*map(self.cells, names), strict=True) if names else [()] * len(self.rows)
            for position, key in enumerate(keys):
                index.setdefault(key, []).append(position)
        wanted = product(*(_choices(coordinates[name]) for name in names))
        return sorted(position for key in wanted for position in index.get(key, []))


def _cell(value: Any) -> Any:
    return value if is_given(value) else None


def _choices(value: Any) -> tuple[Any, ...]:
    """The cells that a coordinate may have: one, or several where it is a list."""
    return tuple(dict.fromkeys(value)) if isinstance(value, list | tuple) else (_cell(value),)


def less(first: Seeds, second: Seeds, *, log: bool = False) -> Seeds:
    """Differences by seed, for the seeds that both have; a second side without seeds is the same for all.

    log: ratios in place of differences.

    >>> less({0: 3.0, 1: 5.0}, {1: 1.0}), less({0: 3.0}, {-1: 1.0})
    ({1: 4.0}, {0: 2.0})
    """
    known = dict.fromkeys(first, second[ALONE]) if set(second) == {ALONE} else second
    return paired_differences(first, known, scale="log" if log else "linear")


def by_seed(sides: Iterable[Seeds], statistic: Callable[[list[float]], Any] = np.mean) -> Seeds:
    """The mean over sides, or their `min`, for the seeds that all of them have; sides without any do not count.

    >>> by_seed([{0: 1.0, 1: 2.0}, {}, {1: 4.0}]), by_seed([{0: 1.0}, {0: 3.0}], max)
    ({1: 3.0}, {0: 3.0})
    """
    given = [side for side in sides if side]
    common = set.intersection(*(set(side) for side in given)) if given else set()
    return {seed: float(statistic([side[seed] for side in given])) for seed in sorted(common)}


# ------------------------------------------------------------------------------------------------ judging claims


class Side(Enum):
    """Where an interval lies: on the claim's side, on both, or on the other. True is the first alone."""

    HELD = "held"
    OPEN = "not held, open"
    REFUTED = "not held"

    def __bool__(self) -> bool:
        """Whether the claim is held."""
        return self is Side.HELD


def above(interval: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval lies above a bound; None without an interval.

    >>> above(Interval(2.0, 1.0, 3.0, 3)), above(Interval(2.0, -1.0, 5.0, 3))
    (<Side.HELD: 'held'>, <Side.OPEN: 'not held, open'>)
    """
    if not interval.known:
        return None
    return Side.HELD if interval.low > bound else Side.REFUTED if interval.high < bound else Side.OPEN


def below(interval: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval lies below a bound; None without an interval."""
    return above(Interval(-interval.value, -interval.high, -interval.low, interval.n), -bound)


def differs(interval: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval lies apart from a bound, on either side; None without an interval. It cannot be refuted."""
    side = above(interval, bound)
    return Side.HELD if side is Side.REFUTED else side


def all_of(judged: Iterable[Side | bool | None]) -> Side | None:
    """One judgement of several: refuted if one is, None if one cannot be made, open if one is, else held.

    >>> all_of([True, Side.OPEN]), all_of([None, False]), all_of([True, None])
    (<Side.OPEN: 'not held, open'>, <Side.REFUTED: 'not held'>, None)
    """
    sides = [Side.HELD if side is True else Side.REFUTED if side is False else side for side in judged]
    for worst in (Side.REFUTED, None, Side.OPEN):
        if worst in sides:
            return worst
    return Side.HELD if sides else None


Test = Callable[[Interval, float], Side | None]


@dataclass(frozen=True)
class Contrast:
    """One comparison that a claim rests on: a value that must pass a test.

    Attributes:
        words: what was measured; `{}` stands for the value and its interval.
        values: one a seed, whose interval is over seeds and test items together; or an estimate over something else,
            such as pairs of languages or layers.
        test: `above`, `below` or `differs`.
        bound: what it is tested against.
        log: geometric means, for ratios.
        form: how numbers are written.
        seeds: how many are behind an estimate, too few of which judge nothing; None where that does not matter.
        judged: on which side its interval lies, once `judge` has said so; None where it cannot be judged.
    """

    words: str
    values: Values | Estimate
    test: Test = above
    bound: float = 0.0
    log: bool = False
    form: Callable[[float], str] = decimals
    seeds: int | None = None
    judged: Side | None = None

    def estimate(self, without: Sequence["Contrast"] = ()) -> Estimate:
        """The value with its error, from the same contrast without each part of the items in turn."""
        if isinstance(self.values, Estimate):
            return self.values
        left = np.array([_listed(each.values) for each in without]).T if without else None  # (seeds, parts)
        return two_way_mean(self.values, left, scale="log" if self.log else "linear")

    def placed(self, interval: Interval) -> "Contrast":
        """The contrast with its interval in its words, and judged by it."""
        told = (interval.clipped() if self.form is percent else interval).say(self.form)
        return replace(self, words=self.words.replace("{}", told), judged=self.test(interval, self.bound))


def _listed(values: Any) -> list[float]:
    return list(values.values() if isinstance(values, Mapping) else values)


@dataclass(frozen=True)
class Comparison:
    """Values at some coordinates less those at others, in all target languages that have both, which must pass a test.

    Attributes:
        words: what is compared.
        at: the coordinates that both have.
        first: those of the first alone; several layers count as their mean.
        second: those of what is subtracted.
        test: `above` or `below`, of 0.
        over: what intervals are over: `seeds` (of means over targets, and with them test items), `pairs` of languages
            (of means over seeds), or both. The first must pass the test, and the other where there are enough for an
            interval.
        shares: whether values are shares, to be told in points.
    """

    words: str
    at: Mapping[str, Any]
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    test: Test = above
    over: Sequence[str] = ("seeds",)
    shares: bool = True

    def __call__(self, results: Results) -> Iterator[Contrast]:
        """The contrasts, where they were measured."""
        sides: dict[str, list[Seeds]] = {}  # by target
        for target in results.targets(**self.at):
            at = {**self.at, "source": results.source, "target": target}
            both = [results.values(**at, **own) for own in (self.first, self.second)]
            sides |= {target: both} if less(*both) else {}
        if not sides:
            return
        # A seed that one side lacks counts in these means.
        means = {target: [over_seeds(seeds).value for seeds in both] for target, both in sides.items()}
        apart = {target: first - second for target, (first, second) in means.items()}
        level, signs = (percent, signed) if self.shares else (decimals, "{:+.3f}".format)
        levels = " less ".join(level(value) for value in np.mean(list(means.values()), axis=0))
        beside = f" ({levels}; {', '.join(f'{target} {signs(change)}' for target, change in apart.items())})"
        words = f"{self.words} by {{}}"
        for what in self.over:
            if what == "seeds":
                yield Contrast(words + beside, by_seed(less(*both) for both in sides.values()), self.test, form=signs)
            elif len(apart) >= LEAST or what == self.over[0]:
                each = over_pairs(words, list(apart.values()), self.test)
                yield replace(each, words=each.words + beside, form=signs)
            words, beside = "{}", ""


def over_pairs(words: str, values: Sequence[float], test: Test, bound: float = 0.0) -> Contrast:
    """A mean over pairs of languages, a value each, that must pass a test; from two pairs it has no interval."""
    mean, few = two_way_mean(values), ", too few for an interval" * (len(values) < LEAST)
    mean = replace(mean, error=math.nan) if few else mean
    return Contrast(f"{words} over {len(values)} pairs{few}", mean, test, bound)


class NotMeasured(Exception):
    """The rows do not have what a claim is about; the message says what is missing."""


def needed(values: T | None, missing: str) -> T:
    """What a claim is about, if it is there; else the claim is not judged, and `missing` says why."""
    if not values:
        raise NotMeasured(missing)
    return values


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and the contrasts that judge it; as a decorator it takes them from a function.

    statement: the claim, or a function of the results where it depends on them; by default the docstring of the
    decorated function. contrasts: functions that give them in order, such as a `Comparison`, or one; they give none, or
    raise `NotMeasured`, where the rows do not have them. missing: why there are none.
    """

    name: str
    statement: str | Callable[[Results], str] = ""
    contrasts: Callable[[Results], Iterable[Contrast]] | Sequence[Callable[[Results], Iterable[Contrast]]] = ()
    missing: str = "nothing was measured"

    def __call__(self, contrasts: Callable[[Results], Iterable[Contrast]]) -> "Claim":
        """The same claim with the contrasts of a function."""
        return replace(self, statement=self.statement or str(contrasts.__doc__), contrasts=contrasts)

    def contrasts_of(self, results: Results) -> list[Contrast]:
        """All contrasts on some rows."""
        functions = self.contrasts if isinstance(self.contrasts, Sequence) else [self.contrasts]
        return [contrast for function in functions for contrast in function(results)]


@dataclass(frozen=True)
class Finding:
    """A claim that was judged.

    verdict: held, not held, not held but open, or not judged. measured: what was measured, in words, and why something
    could not be judged.
    """

    name: str
    claim: str
    contrasts: Sequence[Contrast]
    verdict: str
    measured: str

    @property
    def sentence(self) -> str:
        """The verdict, the claim and what was measured, in a line."""
        return f"{self.verdict}: {self.claim} Here: {self.measured}."


def judge(claim: Claim, results: Results) -> Finding:
    """Judge a claim on the rows of a reproduction: not judged where a contrast cannot be and none is refuted.

    Values of seeds are judged by an interval over seeds and test items together (`two_way_mean`), for which the
    contrasts are taken anew without each part of the items (`Results.left_out`). Intervals of several contrasts are
    corrected by Holm.
    """
    statement = claim.statement if isinstance(claim.statement, str) else claim.statement(results)
    try:
        contrasts, why = claim.contrasts_of(results), claim.missing
    except NotMeasured as reason:
        contrasts, why = [], str(reason)
    counts = [each.seeds if isinstance(each.values, Estimate) else len(each.values) for each in contrasts]
    estimates = [each.estimate() for each in contrasts]
    judged = [at for at, count in enumerate(counts) if (count is None or count >= LEAST) and estimates[at].error >= 0]
    if any(not isinstance(contrasts[at].values, Estimate) for at in judged):
        left = list(zip(*(claim.contrasts_of(left) for left in results.left_out), strict=True))
        for at in judged:
            each, alone = contrasts[at], estimates[at]
            estimates[at] = each.estimate(left[at])
            if estimates[at] == alone and each.values is not alone:
                contrasts[at] = replace(each, words=each.words.replace("{}", "{} (over seeds alone)"))
    confidences = holm_confidences([estimates[at].p_value(contrasts[at].bound) for at in judged])
    intervals = [Interval(estimate.value, n=estimate.n) for estimate in estimates]
    for at, confidence in zip(judged, confidences, strict=True):
        intervals[at] = estimates[at].interval(confidence)
    contrasts = [each.placed(interval) for each, interval in zip(contrasts, intervals, strict=True)]
    if contrasts:
        why = no_interval(min((count for count in counts if count is not None), default=0))
    side = all_of(each.judged for each in contrasts)
    verdict = "not judged" if side is None else side.value
    measured = "; ".join([*(each.words for each in contrasts if each.words), *([why] if why else [])])
    return Finding(claim.name, statement, contrasts, verdict, measured)


def judging(results: Results) -> str:
    """How findings on some rows are judged, in a few sentences."""
    told = (
        "Brackets of findings hold 95% intervals over seeds and test items together, unless they say otherwise, "
        "corrected by Holm where a finding rests on several. It is held where every interval lies on its side, not "
        "held where one lies on the other, and open where one reaches over."
    )
    if not any(results.cells("parts")):
        told += (
            " These rows do not tell which items were hard, so that what is compared counts as if it had been read on "
            "other items: its intervals are too wide."
        )
    return told


# ------------------------------------------------------------------------------------------------ making rows


def final(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of trainings that are finished, by seed: neither scores at a step, nor means over seeds or targets."""
    return table[table["step"].isna() & table["seed"].notna() & (table["target"] != OTHERS)]


def moved(table: pd.DataFrame, names: Sequence[str], **coordinates: Any) -> Iterator[dict[str, Any]]:
    """Rows with their answers and these of their coordinates, and others given."""
    for entry in records(table):
        taken = {name: entry[name] for name in ("n", "low", "high", "over", "floor", "parts", *names) if name in entry}
        yield row(entry["measure"], entry["value"], **taken, **coordinates)


def alike(rows: Iterable[Row], *free: str) -> Iterator[tuple[dict[str, Any], list[Row]]]:
    """Rows that agree in their measure and all coordinates but the free ones, with these as a dictionary."""
    names = [name for name in KEY if name not in free]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for entry in rows:
        groups.setdefault(tuple(_cell(entry.get(name)) for name in names), []).append(entry)
    for key, group in groups.items():
        yield {name: value for name, value in zip(names, key, strict=True) if value is not None}, group


def mean_over(rows: Iterable[Row], *names: str, **replaced: Any) -> Iterator[dict[str, Any]]:
    """Means of rows that differ in some coordinates alone, such as the target; n counts them.

    The ends of an interval are means of theirs, which is right where what is hard in one is hard in all of them, and
    too wide otherwise; `parts` tell exactly.

    Args:
        rows: to take means of.
        names: the coordinates.
        replaced: what the mean's coordinates are instead, as in `target="others"`.
    """
    for coordinates, group in alike(rows, *names):
        value = float(np.mean([entry["value"] for entry in group]))
        known = [name for name in ("floor", "low", "high") if all(is_given(entry.get(name)) for entry in group)]
        at = {**coordinates, **{name: float(np.mean([entry[name] for entry in group])) for name in known}, **replaced}
        if all(is_given(entry.get("parts")) for entry in group):
            at["parts"] = np.mean([np.array(entry["parts"].split(), dtype=np.float64) for entry in group], axis=0)
        yield row(at.pop("measure"), value, n=len(group), **at)


def changes(
    rows: Iterable[Row], *, measure: str = "change", log: bool = False, **reference: Any
) -> Iterator[dict[str, Any]]:
    """Values less those of a reference, seed by seed, with their mean and t interval; `unit` says of which measure.

    Args:
        rows: with a seed each.
        measure: what the change is called.
        log: ratios in place of differences, and their geometric mean; `unit` then stays what it is.
        reference: coordinates of the rows to compare with, as in `plan="freeze:-1"`; all others are the same.
    """
    groups = [
        (coordinates, {int(entry["seed"]): float(entry["value"]) for entry in group})
        for coordinates, group in alike(rows, "seed")
    ]
    known = {tuple(sorted(coordinates.items())): seeds for coordinates, seeds in groups}
    for coordinates, seeds in groups:
        start = known.get(tuple(sorted({**coordinates, **reference}.items())), {})
        moved = less(seeds, start, log=log)
        if moved and {**coordinates, **reference} != coordinates:
            of, interval = coordinates.pop("measure"), over_seeds(moved, log=log)
            at = coordinates if log else {**coordinates, "unit": of}
            yield row(measure, interval, over="seeds", **at)


# ------------------------------------------------------------------------------------------------ published values

EXACT = ("condition", "selection")  # a number that names none of these stands beside rows that have none


@dataclass(frozen=True)
class Published:
    """The numbers of a paper: lines of text by column, as they stand in its file."""

    lines: Sequence[Mapping[str, str]]

    def where(self, **coordinates: Any) -> list[Mapping[str, str]]:
        """The lines with these cells; a reference may be given by its beginning."""
        reference = coordinates.pop("reference", "")
        wanted = {name: str(value) for name, value in coordinates.items()}
        lines = [line for line in self.lines if wanted.items() <= line.items()]
        return [line for line in lines if line["reference"].startswith(reference)]

    def values(self, **coordinates: Any) -> list[float]:
        """The numbers at these coordinates."""
        return [float(line["value"]) for line in self.where(**coordinates)]

    def value(self, **coordinates: Any) -> float:
        """The one number at these coordinates; KeyError where there is none, or several."""
        values = self.values(**coordinates)
        if len(values) != 1:
            raise KeyError(f"{len(values)} published values at {coordinates}")
        return values[0]

    def beside(self, entry: Row, **respelt: Any) -> dict[str, Any]:
        """The row with `published` filled, where the paper has its number.

        Args:
            entry: a row.
            respelt: coordinates of the row as the paper's file spells them, such as `target="tuned"`.
        """
        value = self.at(**{**entry, **respelt})
        return dict(entry) if value is None else {**entry, "published": value}

    def at(self, **coordinates: Any) -> float | None:
        """The number that stands beside what was measured at these coordinates, all of its own among them, or None."""
        for names, values in self._known.items():
            key = tuple(str(cell) if is_given(cell := coordinates.get(name)) else "" for name in names)
            if key in values:
                return values[key]
        return None

    @cached_property
    def _known(self) -> dict[tuple[str, ...], dict[tuple[str, ...], float]]:
        known: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
        for line in self.lines:
            names = tuple(name for name in KEY if line.get(name) or name in EXACT)
            known.setdefault(names, {})[tuple(line.get(name, "") for name in names)] = float(line["value"])
        return known


@cache
def published(name: str) -> Published:
    """The numbers of a paper, from `published/NAME.csv`."""
    with (Path(__file__).parent / "published" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return Published(list(csv.DictReader(file)))


# ------------------------------------------------------------------------------------------------ tables and figures

# What a specification of cells or curves has besides what is read: coordinates, and arguments of `Results.values`.
LOOKS = ("read", "form", "printed", "share", "scale", "items", "look", "respelt")


@dataclass(frozen=True)
class Captions:
    """What the tables and figures of a paper are called, and what a reader must know of each: `captions/NAME.toml`.

    A figure has a `title`, a `caption` and the names of its axes, a table a `title`, `notes` and maybe the head of its
    first column (`corner`). Names in braces are filled in; sentences that several share stand first, under their name.
    Other fields of `Figure`, such as `log`, are taken as they are.
    """

    words: Mapping[str, Any]

    def figure(self, name: str, panels: Sequence[Panel], like: str = "", **filled: str) -> list[Figure]:
        """A figure of these panels, in a list; none without any. like: the name that its words stand under."""
        return [Figure(name=name, panels=panels, **self._filled(self.words[like or name], filled))] if panels else []

    def table(self, name: str, *notes: str, **filled: str) -> dict[str, Any]:
        """The title, the notes with further ones, and the corner, as `grid` takes them; of a figure its caption."""
        words = self._filled(self.words[name], filled)
        own = words.get("notes", [words["caption"]] if "caption" in words else [])
        return {"title": words["title"], "notes": [*own, *notes], "corner": words.get("corner", "")}

    def _filled(self, words: Any, filled: Mapping[str, str]) -> Any:
        """Words with names in braces filled in: a text, or a list or a table of texts."""
        if isinstance(words, str):
            return words.format(**{name: text for name, text in self.words.items() if isinstance(text, str)}, **filled)
        if isinstance(words, list):
            return [self._filled(each, filled) for each in words]
        return (
            {field: self._filled(each, filled) for field, each in words.items()} if isinstance(words, dict) else words
        )


@cache
def captions(name: str) -> Captions:
    """The words of a paper's tables and figures, from `captions/NAME.toml`."""
    return Captions(tomllib.loads((Path(__file__).parent / "captions" / f"{name}.toml").read_text(encoding="utf-8")))


def grid(
    results: Results,
    rows: Mapping[str, Coordinates],
    columns: Mapping[str, Coordinates],
    *,
    title: str,
    notes: Sequence[str] = (),
    corner: str = "",
    known: Published | None = None,
) -> list[Table]:
    """A table of what was measured at the coordinates of each row and column together, in a list; none without values.

    Besides coordinates, rows and columns may have arguments of `Results.values` and say how their cells are written:
    `form` writes a number (by default a share in percent), `printed` a published one; `share` tells whether intervals
    end at 0 and 1 (by default those in percent); `log` asks for geometric means. `read` is called with the coordinates
    in place of `Results.values`, and gives values by seed, an interval, or the text of the cell. `respelt` has the
    coordinates that the paper's file spells otherwise.

    Args:
        results: what was measured.
        rows: coordinates by label; a row without any value is left out.
        columns: coordinates by label; a column without any value is left out.
        title: of the table.
        notes: below the table, before the one on seeds.
        corner: head of the first column.
        known: the numbers of the paper; those of a row stand in a line below it.
    """
    lines, counts = [], list[int]()
    for label, row_at in rows.items():
        cells = [_written(results, known, {**row_at, **column_at}) for column_at in columns.values()]
        counts += [seeds for _, _, seeds in cells if seeds]
        measured, printed = [each[0] for each in cells], [each[1] for each in cells]
        if set(measured) - {NOTHING}:
            lines.append([label, *measured])
            lines += [[f"{label}, published", *printed]] if set(printed) != {NOTHING} else []
    heads = [corner, *columns]
    shown = [at for at in range(len(heads)) if at == 0 or any(line[at] != NOTHING for line in lines)]
    told = [seeds_note(counts)] if counts else []
    cut = [[line[at] for at in shown] for line in lines]
    return [Table(title, [heads[at] for at in shown], cut, [*notes, *told])] if lines else []


def _written(results: Results, known: Published | None, spec: Mapping[str, Any]) -> tuple[str, str, int]:
    """A cell of `grid`: what was measured, what was published, and how many seeds were measured."""
    at, form = _reading(spec), spec.get("form", percent)
    values = spec.get("read", results.values)(**at)
    if isinstance(values, str):
        return values, NOTHING, 0
    interval = values if isinstance(values, Interval) else over_seeds(values or {}, log=at.get("log", False))
    shown = interval.clipped() if spec.get("share", form is percent) else interval
    written = shown.say(form) if interval.n else NOTHING
    if at.get("column", "value") != "value":
        return written, NOTHING, 0
    value = known.at(**{**at, **spec.get("respelt", {})}) if known else None
    seeds = 0 if isinstance(values, Interval) or not values or ALONE in values else len(values)
    return written, NOTHING if value is None else spec.get("printed", form)(value), seeds


def panels(
    results: Results,
    titles: Mapping[str, Coordinates],
    lines: Mapping[str, Coordinates],
    *,
    over: str | Mapping[int, Coordinates] = "layer",
    floor: bool = False,
    known: Published | None = None,
) -> list[Panel]:
    """Panels of curves over layers, or other steps; those without a curve are left out.

    Besides coordinates, panels and lines may have arguments of `Results.values` and say how a curve is drawn: `share`,
    `scale` and `log` as `Curves.line` has them, `look` with further fields of `Line`, and `items` for bands that are
    the intervals of the rows themselves. `respelt` has the coordinates that the paper's file spells otherwise.
    A line whose rows have no layer is level.

    Args:
        results: what was measured.
        titles: coordinates of each panel by its title.
        lines: coordinates of each curve by its label; a curve has the same colour in all panels.
        over: what the curves are over, as `Results.curves` has it.
        floor: whether what chance gives is drawn, that of the first line which has one.
        known: the numbers of the paper, drawn as circles in the colours of their curves.
    """
    made = []
    for title, at in titles.items():
        specs = {label: {**at, **own} for label, own in lines.items()}
        numbered = enumerate(specs.items())
        curves = [line for hue, (label, spec) in numbered for line in _drawn(results, known, over, label, hue, spec)]
        if steps := [step for line in curves for step in line.steps]:
            ends = [min(steps), max(steps)]
            drawn = [
                line if line.steps or line.dots else replace(line, steps=ends, value=[*line.value] * 2)
                for line in curves
            ]
            chances = [
                results.curves(over, **{**_reading(spec), "column": "floor"}) for spec in specs.values() if floor
            ]
            level = next((float(curve.mean.mean()) for curve in chances if curve), None)
            made.append(Panel(title, sorted(drawn, key=lambda line: line.dots), floor=level))
    return made


def _drawn(
    results: Results,
    known: Published | None,
    over: str | Mapping[int, Coordinates],
    label: str,
    hue: int,
    spec: Mapping[str, Any],
) -> Iterator[Line]:
    """A curve of `panels`, if there is one, and its published values; one that is level has no steps yet."""
    at, look = _reading(spec), {"hue": hue, **spec.get("look", {})}
    curves = results.curves(over, **at)
    if curves is None:
        values = results.values(**{**at, over: None}) if isinstance(over, str) else {}
        if values:
            yield Line(label, [], [over_seeds(values).value], **look)
        return
    how = {name: spec[name] for name in ("share", "scale", "log") if name in spec}
    line = curves.line(label, **how, **look)
    if spec.get("items"):
        ends = [results.curves(over, **{**at, "column": end}) for end in ("low", "high")]
        low, high = ([] if end is None else end.mean.tolist() for end in ends)
        line = replace(line, low=low, high=high)
    yield line
    if known and isinstance(over, str):
        asked = {**at, **spec.get("respelt", {})}
        points = {step: known.at(**{**asked, over: int(step)}) for step in line.steps}
        dots = {step: value for step, value in points.items() if value is not None}
        yield Line(f"{label}, published", list(dots), list(dots.values()), dots=True, hue=hue)


def _reading(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What of a specification says which values are read."""
    return {name: value for name, value in spec.items() if name not in LOOKS}
