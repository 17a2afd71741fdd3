"""The rows of a reproduction: reading them by coordinates, and deriving further rows.

`Results` gives values by seed, and curves over steps or layers, at any coordinates. The functions below it derive the
rows that a paper collects: rows at other coordinates, means over languages, and changes from a reference.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean

from isogloss.figure import Line
from isogloss.measures.statistics import (
    NORMAL,
    PARTS,
    Floats,
    Interval,
    Seeds,
    mean_over_seeds,
    paired_differences,
)
from isogloss.runs.table import KEY, OTHERS, Row, is_given, records, row
from isogloss.seeds import seed_of

LEAST = 3  # minimum number of seeds for an interval
ALONE = -1  # the seed of rows without one, such as those of a model before training

Coordinates = Mapping[str, Any]
Values = Seeds | Sequence[float] | Floats  # a value for each seed, or values one after the other (seeds,)


def over_seeds(values: Values, *, log: bool = False) -> Interval:
    """The mean of one value per seed, and its t interval.

    Args:
        values: Values by seed, or (seeds,).
        log: Whether to compute mean and interval of the logarithms, and exponentiate them.

    >>> str(over_seeds([1.0, 2.0, 3.0])), str(over_seeds({0: 1.0, 1: 3.0}))
    ('2.00 [-0.484, 4.48]', '2.00')
    """
    return mean_over_seeds(values, least=LEAST, scale="log" if log else "linear")


def no_interval(seeds: int) -> str:
    """The sentence on too few seeds; empty if there are enough, or none at all."""
    if not 0 < seeds < LEAST:
        return ""
    return f"intervals are not available from {seeds} seed{'s' * (seeds != 1)}: {LEAST} are the fewest"


# ------------------------------------------------------------------------------------------------ reading the rows


@dataclass(frozen=True)
class Curves:
    """One measure over steps or layers for several seeds: steps (n,), values (seeds, n), and the seeds."""

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
        """The mean over these steps or layers, by seed; empty if one of them was not measured."""
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
        """The mean over seeds as a line of a figure, with a band if there are enough seeds.

        Args:
            label: Name of the curve.
            until: The last step that is shown.
            log: Whether to use geometric means.
            share: Whether values are shares, so that the band is clipped to 0 and 1.
            scale: Factor for values and band, such as 100 for percentage points.
            look: Further fields of `Line`.
        """
        shown = self.steps <= until
        means = [over_seeds(column, log=log) for column in self.values[:, shown].T]
        means = [mean.clipped() for mean in means] if share else means
        value, low, high = ([scale * getattr(mean, end) for mean in means] for end in ("value", "low", "high"))
        ends = (low, high) if len(self.seeds) >= LEAST else ()
        return Line(label, self.steps[shown].tolist(), value, *ends, **look)


def curves_of(points: Mapping[int, Seeds]) -> Curves | None:
    """Curves from the values of each seed at each step, at the steps that all seeds have; None if there are none.

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

    A coordinate is given as its value, as a list or tuple of allowed values, or as None for rows without it;
    coordinates that are not given can have any value. If a seed has several rows, such as both directions of a pair of
    languages, their mean is taken. Rows without a seed are used only if no row has one, as seed -1.
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
            column: Column of the value, such as `floor` for the chance level.
            base: Coordinates that differ in the values to subtract, for differences by seed: within each of several
                languages, then averaged. Only for the column `value`.
            log: Whether to use ratios instead of differences, and their geometric mean.
            coordinates: Coordinates of the rows.
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
            changes.append(differences(self.values(**at), self.values(**{**at, **base}), log=log))
        return by_seed(changes, gmean) if log else by_seed(changes)

    @cached_property
    def left_out(self) -> list["Results"]:
        """The same rows with their values without each part of the test items in turn, for `two_way_mean`.

        If a row has no `parts`, its interval over items is used instead: its error is distributed over parts at random,
        in the same way for all seeds and languages and independently for different models, plans, layers and steps.
        Compared values are then treated as if they were measured on different items, which makes intervals too wide.
        """
        left = np.repeat(np.array(self.cells("value"), dtype=np.float64)[:, None], PARTS, axis=1)
        drawn: dict[tuple[Any, ...], Floats] = {}
        shared = ("source", "target", "data", "seed")
        keys = zip(*(self.cells(name) for name in KEY if name not in shared), strict=True)
        columns = (self.cells(name) for name in ("parts", "low", "high", "over"))
        for at, (key, parts, low, high, over) in enumerate(zip(keys, *columns, strict=True)):
            if parts is not None and parts.count(" ") == PARTS - 1:
                left[at] = np.array(parts.split(), dtype=np.float64)
            elif low is not None and over not in ("seeds", "layers", "languages"):
                if key not in drawn:
                    draws = np.random.default_rng(seed_of(0, *map(str, key))).normal(size=PARTS)
                    drawn[key] = (draws - draws.mean()) / draws.std() / math.sqrt(PARTS - 1)
                left[at] += drawn[key] * (high - low) / (2 * NORMAL)
        every = [copy(self) for _ in range(PARTS)]  # the copies share the index of the rows
        for results, numbers in zip(every, left.T.tolist(), strict=True):
            results._columns = {**self._columns, "value": [None if math.isnan(cell) else cell for cell in numbers]}
        return every

    def interval(self, **coordinates: Any) -> Interval | None:
        """The value and the interval of the first row at these coordinates; None if there is no row."""
        rows = self.where(**coordinates)
        return None if rows.empty else Interval(*rows.iloc[0][["value", "low", "high", "n"]])

    def curves(self, over: str | Mapping[int, Coordinates] = "step", **coordinates: Any) -> Curves | None:
        """Values over steps (or layers) for each seed, at the steps that all seeds have; None if there are none.

        Args:
            over: The coordinate used as step, or the coordinates of each step.
            coordinates: Coordinates of all steps, and other arguments of `values`.
        """
        if isinstance(over, str):
            named = {name: value for name, value in coordinates.items() if name in KEY}
            over = {step: {over: step} for step in self.distinct(over, **named)}
        return curves_of({step: self.values(**{**coordinates, **own}) for step, own in over.items()})

    def distinct(self, name: str, **coordinates: Any) -> list[Any]:
        """The distinct values of a coordinate in the rows at these coordinates, in the order of the rows."""
        key = (name, *((other, *_choices(value)) for other, value in coordinates.items()))
        if key not in self._distinct:
            cells, positions = self.cells(name), self._positions(coordinates)
            self._distinct[key] = [cell for cell in dict.fromkeys(cells[at] for at in positions) if cell is not None]
        return list(self._distinct[key])

    @cached_property
    def model(self) -> str:
        """The first model in the rows."""
        return str(next(iter(self.distinct("model")), ""))

    @cached_property
    def source(self) -> str:
        """The first source language in the rows; English if there is none."""
        return str(next(iter(self.distinct("source")), "en"))

    def targets(self, **coordinates: Any) -> list[str]:
        """The languages other than the source in the rows at these coordinates, in their order."""
        return [code for code in self.distinct("target", **coordinates) if code not in (self.source, OTHERS)]

    def cells(self, name: str) -> list[Any]:
        """A column as a list, with None for empty cells."""
        if name not in self._columns:
            self._columns[name] = list(map(_cell, self.rows[name].astype("object").to_numpy().tolist()))
        return self._columns[name]

    def _positions(self, coordinates: Mapping[str, Any]) -> list[int]:
        """The positions of the rows at these coordinates; an index is built once for each set of names."""
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
    """The allowed cells of a coordinate: one, or several if it is a list."""
    return tuple(dict.fromkeys(value)) if isinstance(value, list | tuple) else (_cell(value),)


def differences(first: Seeds, second: Seeds, *, log: bool = False) -> Seeds:
    """Differences by seed, for the seeds that both have; a second side without seeds is used for all of them.

    log: whether to use ratios instead of differences.

    >>> differences({0: 3.0, 1: 5.0}, {1: 1.0}), differences({0: 3.0}, {-1: 1.0})
    ({1: 4.0}, {0: 2.0})
    """
    known = dict.fromkeys(first, second[ALONE]) if set(second) == {ALONE} else second
    return paired_differences(first, known, scale="log" if log else "linear")


def by_seed(sides: Iterable[Seeds], statistic: Callable[[list[float]], Any] = np.mean) -> Seeds:
    """The mean (or another statistic) over sides, for the seeds that all of them have; empty sides are ignored.

    >>> by_seed([{0: 1.0, 1: 2.0}, {}, {1: 4.0}]), by_seed([{0: 1.0}, {0: 3.0}], max)
    ({1: 3.0}, {0: 3.0})
    """
    given = [side for side in sides if side]
    common = set.intersection(*(set(side) for side in given)) if given else set()
    return {seed: float(statistic([side[seed] for side in given])) for seed in sorted(common)}


# ------------------------------------------------------------------------------------------------ making rows


def final(table: pd.DataFrame) -> pd.DataFrame:
    """The final rows of each seed: no scores at a step, no means over seeds or targets."""
    return table[table["step"].isna() & table["seed"].notna() & (table["target"] != OTHERS)]


def rows_at(table: pd.DataFrame, names: Sequence[str], **coordinates: Any) -> Iterator[dict[str, Any]]:
    """Rows with their values, with these of their coordinates, and with new values of others."""
    for entry in records(table):
        taken = {name: entry[name] for name in ("n", "low", "high", "over", "floor", "parts", *names) if name in entry}
        yield row(entry["measure"], entry["value"], **taken, **coordinates)


def grouped_rows(rows: Iterable[Row], *free: str) -> Iterator[tuple[dict[str, Any], list[Row]]]:
    """Group rows by measure and all coordinates but the free ones; yields the shared coordinates and the rows."""
    names = [name for name in KEY if name not in free]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for entry in rows:
        groups.setdefault(tuple(_cell(entry.get(name)) for name in names), []).append(entry)
    for key, group in groups.items():
        yield {name: value for name, value in zip(names, key, strict=True) if value is not None}, group


def mean_over(rows: Iterable[Row], *names: str, **replaced: Any) -> Iterator[dict[str, Any]]:
    """Means of rows that differ only in some coordinates, such as the target; n is the number of rows.

    The ends of intervals are averaged, which is exact if errors on items are perfectly correlated over the rows, and
    too wide otherwise; `parts` are exact.

    Args:
        rows: The rows to average.
        names: The coordinates in which they differ.
        replaced: Coordinates of the mean, as in `target="others"`.
    """
    for coordinates, group in grouped_rows(rows, *names):
        value = float(np.mean([entry["value"] for entry in group]))
        known = [name for name in ("floor", "low", "high") if all(is_given(entry.get(name)) for entry in group)]
        at = {**coordinates, **{name: float(np.mean([entry[name] for entry in group])) for name in known}, **replaced}
        if all(is_given(entry.get("parts")) for entry in group):
            at["parts"] = np.mean([np.array(entry["parts"].split(), dtype=np.float64) for entry in group], axis=0)
        yield row(at.pop("measure"), value, n=len(group), **at)


def changes(
    rows: Iterable[Row], *, measure: str = "change", log: bool = False, **reference: Any
) -> Iterator[dict[str, Any]]:
    """Differences from a reference by seed, with their mean and t interval; `unit` is the measure compared.

    Args:
        rows: Rows that have a seed.
        measure: Name of the measure for the change.
        log: Whether to use ratios instead of differences, and their geometric mean; `unit` is then not changed.
        reference: Coordinates of the reference, as in `plan="freeze:-1"`; all others are the same.
    """
    groups = [
        (coordinates, {int(entry["seed"]): float(entry["value"]) for entry in group})
        for coordinates, group in grouped_rows(rows, "seed")
    ]
    known = {tuple(sorted(coordinates.items())): seeds for coordinates, seeds in groups}
    for coordinates, seeds in groups:
        start = known.get(tuple(sorted({**coordinates, **reference}.items())), {})
        moved = differences(seeds, start, log=log)
        if moved and {**coordinates, **reference} != coordinates:
            of, interval = coordinates.pop("measure"), over_seeds(moved, log=log)
            at = coordinates if log else {**coordinates, "unit": of}
            yield row(measure, interval, over="seeds", **at)
