"""How a paper's finding is judged on new runs: contrasts over seeds, each with a t interval.

A finding is held when the interval of every contrast it rests on lies on its side, and refuted when one lies on the
other. An interval that reaches over is not enough for either: the finding is not held, and stays open. With fewer than
three seeds there is no interval worth the name, so nothing is judged.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from isogloss.figure import number
from isogloss.measures.statistics import band

LEAST = 3  # seeds for an interval

Seeds = dict[int, float]  # a value for each seed


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its t interval, NaN where there are too few of them."""

    value: float
    low: float
    high: float
    seeds: int

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def __str__(self) -> str:
        """The mean, and the interval in brackets where there is one."""
        return self.say(number)

    @property
    def share(self) -> str:
        """The same with three decimals, for ratios and shares."""
        return self.say(lambda value: f"{value:.3f}")

    def say(self, how: Callable[[float], str]) -> str:
        """The same with numbers written in a way of one's own."""
        return how(self.value) + (f" [{how(self.low)}, {how(self.high)}]" if self.known else "")


class Side(Enum):
    """Where an interval lies: on the claim's side, on both, or on the other. True is the first alone."""

    HELD = "held"
    OPEN = "not held, open"
    REFUTED = "not held"

    def __bool__(self) -> bool:
        """Whether the claim is held."""
        return self is Side.HELD


def all_of(judged: Iterable[Side | bool | None]) -> Side | None:
    """One judgement of several: refuted if one is, None if one cannot be made, open if one is, else held.

    >>> all_of([True, Side.OPEN]), all_of([None, False]), all_of([True, None])
    (<Side.OPEN: 'not held, open'>, <Side.REFUTED: 'not held'>, None)
    """
    sides = [one if one is None or isinstance(one, Side) else Side.HELD if one else Side.REFUTED for one in judged]
    for worst in (Side.REFUTED, None, Side.OPEN):
        if worst in sides:
            return worst
    return Side.HELD if sides else None


@dataclass(frozen=True)
class Contrast:
    """One comparison a finding rests on: `words` says what it is, `judged` on which side its interval lies.

    None where it cannot be judged: too few seeds, or nothing was measured. True and False where there is no interval.
    """

    words: str
    judged: Side | bool | None

    @property
    def held(self) -> bool | None:
        """Whether it is held."""
        return None if self.judged is None else bool(self.judged)


@dataclass(frozen=True)
class Finding:
    """What a paper found (`claim`), and the contrasts that judge it here; `why` says what could not be judged."""

    name: str
    claim: str
    contrasts: Sequence[Contrast]
    why: str = ""

    @property
    def side(self) -> Side | None:
        """All contrasts taken together; None where one cannot be judged and none is refuted."""
        return all_of(one.judged for one in self.contrasts)

    @property
    def held(self) -> bool | None:
        """Whether every contrast holds."""
        return None if self.side is None else bool(self.side)

    @property
    def verdict(self) -> str:
        """Held, not held, not held but open, or not judged."""
        return "not judged" if self.side is None else self.side.value

    @property
    def measured(self) -> str:
        """What was found here, in words."""
        return "; ".join([one.words for one in self.contrasts] + ([self.why] if self.why else []))


def over_seeds(values: ArrayLike, *, log: bool = False) -> Interval:
    """The mean of one value a seed and its t interval; log: of the logarithms, raised again.

    >>> str(over_seeds([1.0, 2.0, 3.0])), str(over_seeds([1.0, 3.0]))
    ('2.00 [-0.484, 4.48]', '2.00')
    """
    seeds = np.asarray(values, dtype=np.float64).reshape(-1, 1)
    found = band(seeds, scale="log" if log else "linear")
    few = len(seeds) < LEAST
    return Interval(
        float(found.mean[0]) if len(seeds) else math.nan,
        math.nan if few else float(found.low[0]),
        math.nan if few else float(found.high[0]),
        len(seeds),
    )


def over(values: Mapping[int, float] | Sequence[float], *, log: bool = False) -> Interval:
    """`over_seeds` of values by seed, or one after the other."""
    return over_seeds(list(values.values()) if isinstance(values, Mapping) else list(values), log=log)


def mean_by_seed(sides: Iterable[Seeds]) -> Seeds:
    """The mean over sides, for the seeds that all of them have; sides without any do not count.

    >>> mean_by_seed([{0: 1.0, 1: 2.0}, {}, {1: 4.0}])
    {1: 3.0}
    """
    some = [side for side in sides if side]
    common = set.intersection(*(set(side) for side in some)) if some else set()
    return {seed: float(np.mean([side[seed] for side in some])) for seed in sorted(common)}


def share_over_seeds(values: ArrayLike) -> Interval:
    """A share over seeds, whose interval does not leave 0 to 1.

    >>> str(share_over_seeds([0.2, 0.3, 0.7]))
    '0.400 [0.0000, 1.00]'
    """
    found = over_seeds(values)
    if not found.known:
        return found
    return Interval(found.value, max(found.low, 0.0), min(found.high, 1.0), found.seeds)


def above(found: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval lies above a bound; None without one.

    >>> above(Interval(2.0, 1.0, 3.0, 3)), above(Interval(2.0, -1.0, 5.0, 3))
    (<Side.HELD: 'held'>, <Side.OPEN: 'not held, open'>)
    """
    if not found.known:
        return None
    return Side.HELD if found.low > bound else Side.REFUTED if found.high < bound else Side.OPEN


def below(found: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval lies below a bound; None without one."""
    return above(Interval(-found.value, -found.high, -found.low, found.seeds), -bound)


def within(found: Interval, margin: float) -> Side | None:
    """Whether an interval lies within a margin around 0, so that what it is of hardly differs; None without one."""
    if not found.known:
        return None
    inside = -margin < found.low and found.high < margin
    return Side.HELD if inside else Side.REFUTED if found.low > margin or found.high < -margin else Side.OPEN


def no_interval(seeds: int) -> str:
    """The sentence on too few seeds."""
    return f"intervals are not available from {seeds} seed{'s' * (seeds != 1)}: {LEAST} are the fewest" if seeds else ""


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings as lines of text."""
    return [f"{one.verdict}: {one.claim} Here: {one.measured}." for one in findings]
