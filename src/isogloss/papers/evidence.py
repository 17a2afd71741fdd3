"""How a paper's finding is judged on new runs: contrasts over seeds, each with a t interval.

A finding is held when the interval of every contrast it rests on lies on its side; an interval that reaches over to the
other side is not enough. With fewer than three seeds there is no interval worth the name, so nothing is judged.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from isogloss.measures.curves import band
from isogloss.papers.tables import number

LEAST = 3  # seeds for an interval


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


@dataclass(frozen=True)
class Contrast:
    """One comparison a finding rests on: `words` says what it is, `held` whether its interval lies on its side.

    None where it cannot be judged: too few seeds, or nothing was measured.
    """

    words: str
    held: bool | None


@dataclass(frozen=True)
class Finding:
    """What a paper found (`claim`), and the contrasts that judge it here; `why` says what could not be judged."""

    name: str
    claim: str
    contrasts: Sequence[Contrast]
    why: str = ""

    @property
    def held(self) -> bool | None:
        """Whether every contrast holds; None where one cannot be judged and none fails."""
        judged = [one.held for one in self.contrasts]
        if False in judged:
            return False
        return None if not judged or None in judged else True

    @property
    def verdict(self) -> str:
        """Held, not held, or not judged."""
        return {True: "held", False: "not held", None: "not judged"}[self.held]

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


def share_over_seeds(values: ArrayLike) -> Interval:
    """A share over seeds, whose interval does not leave 0 to 1.

    >>> str(share_over_seeds([0.2, 0.3, 0.7]))
    '0.400 [0.0000, 1.00]'
    """
    found = over_seeds(values)
    if not found.known:
        return found
    return Interval(found.value, max(found.low, 0.0), min(found.high, 1.0), found.seeds)


def above(found: Interval, bound: float = 0.0) -> bool | None:
    """Whether an interval lies above a bound; None without one."""
    return found.low > bound if found.known else None


def below(found: Interval, bound: float = 0.0) -> bool | None:
    """Whether an interval lies below a bound; None without one."""
    return found.high < bound if found.known else None


def no_interval(seeds: int) -> str:
    """The sentence on too few seeds."""
    return f"intervals are not available from {seeds} seed{'s' * (seeds != 1)}: {LEAST} are the fewest" if seeds else ""


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings as lines of text."""
    return [f"{one.verdict}: {one.claim} Here: {one.measured}." for one in findings]
