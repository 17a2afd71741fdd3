"""The claims of a paper, and how they are judged on the rows of a reproduction.

A `Claim` is a sentence of the paper with the contrasts that it rests on, each a value with an interval over seeds and
test items together, corrected by Holm where a claim has several. A claim is held when the interval of every contrast
lies on its side, and refuted when one lies on the other. An interval that reaches over is not enough for either: the
claim is not held, and stays open. With fewer than three seeds there is no interval worth the name, and nothing is
judged.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from isogloss.figure import percent, signed
from isogloss.measures.statistics import Estimate, Interval, Seeds, holm_confidences, two_way_mean
from isogloss.papers.results import LEAST, Results, Values, by_seed, less, no_interval, over_seeds

T = TypeVar("T")
decimals = "{:.3f}".format


class Side(Enum):
    """Where an interval lies: on the claim's side, on both, or on the other."""

    HELD = "held"
    OPEN = "not held, open"
    REFUTED = "not held"


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


def all_of(judged: Iterable[Side | None]) -> Side | None:
    """One judgement of several: refuted if one is, None if one cannot be made, open if one is, else held.

    >>> all_of([Side.HELD, Side.OPEN]), all_of([None, Side.REFUTED]), all_of([Side.HELD, None])
    (<Side.OPEN: 'not held, open'>, <Side.REFUTED: 'not held'>, None)
    """
    sides = list(judged)
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


def compared_claim(name: str, line: Mapping[str, Any]) -> Claim:
    """A claim that rests on comparisons alone, as a table of `captions/NAME.toml` has it.

    Args:
        name: of the claim.
        line: its `statement`; `compared`, the fields of each `Comparison`; and those that all of them have, such as
            `over`. `at` has the coordinates of all, to which a comparison may add. `test` is a name: above or below.
    """
    shared = {field: value for field, value in line.items() if field not in ("statement", "compared")}
    comparisons = []
    for own in line["compared"]:
        fields = {"test": "above", **shared, **own, "at": {**shared.get("at", {}), **own.get("at", {})}}
        comparisons.append(Comparison(**{**fields, "test": {"above": above, "below": below}[fields["test"]]}))
    return Claim(name, line["statement"], comparisons)


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
