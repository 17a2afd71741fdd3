"""The claims of a paper, and how they are judged on the rows of a reproduction.

A `Claim` is a sentence of the paper with the contrasts it is based on. Each contrast is a value with an interval over
seeds and test items together, with Holm's correction if a claim has several. A claim is held if the interval of every
contrast is on the claim's side of its bound, and refuted if one interval is on the other side. If an interval includes
the bound, the claim is not held and stays open. With fewer than three seeds there is no meaningful interval, and
nothing is judged.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

import numpy as np

from isogloss.figure import percent, signed
from isogloss.measures.statistics import Estimate, Interval, Seeds, holm_confidences, t_quantile, two_way_mean
from isogloss.papers.results import LEAST, Results, Values, by_seed, differences, no_interval, over_seeds

T = TypeVar("T")
decimals = "{:.3f}".format


class Side(Enum):
    """The position of an interval relative to a bound: on the claim's side, on both sides, or on the other side."""

    HELD = "held"
    OPEN = "not held, open"
    REFUTED = "not held"


def above(interval: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval is above a bound; None without an interval.

    >>> above(Interval(2.0, 1.0, 3.0, 3)), above(Interval(2.0, -1.0, 5.0, 3))
    (<Side.HELD: 'held'>, <Side.OPEN: 'not held, open'>)
    """
    if not interval.known:
        return None
    return Side.HELD if interval.low > bound else Side.REFUTED if interval.high < bound else Side.OPEN


def below(interval: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval is below a bound; None without an interval."""
    return above(Interval(-interval.value, -interval.high, -interval.low, interval.n), -bound)


def differs(interval: Interval, bound: float = 0.0) -> Side | None:
    """Whether an interval excludes a bound, on either side; None without an interval. This test is never refuted."""
    side = above(interval, bound)
    return Side.HELD if side is Side.REFUTED else side


def all_of(judged: Iterable[Side | None]) -> Side | None:
    """Combine several judgements: refuted if one is, else None if one is None, else open if one is, else held.

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
    """One comparison that a claim is based on: a value that must pass a test.

    Attributes:
        words: Description of the value; `{}` is replaced by the value and its interval.
        values: One value per seed, with an interval over seeds and test items together; or an estimate with another
            interval, such as over pairs of languages or layers.
        test: `above`, `below` or `differs`.
        bound: The bound of the test.
        log: Whether to use geometric means, for ratios.
        form: Formats numbers.
        seeds: Number of seeds of an estimate, which is not judged with too few; None if that does not matter.
        quiet: Whether the finding mentions it only if its interval is not on the claim's side, as for one of many.
        judged: The side of its interval, set by `judge`; None if it cannot be judged.
    """

    words: str
    values: Values | Estimate
    test: Test = above
    bound: float = 0.0
    log: bool = False
    form: Callable[[float], str] = decimals
    seeds: int | None = None
    quiet: bool = False
    judged: Side | None = None

    @property
    def count(self) -> int | None:
        """The number of seeds; None if that does not matter."""
        return self.seeds if isinstance(self.values, Estimate) else len(self.values)

    def estimate(self, without: Sequence["Contrast"] = ()) -> Estimate:
        """The value with its error; without: the same contrast without each part of the items in turn."""
        if isinstance(self.values, Estimate):
            return self.values
        left = np.array([_listed(part.values) for part in without]).T if without else None  # (seeds, parts)
        return two_way_mean(self.values, left, scale="log" if self.log else "linear")

    def placed(self, interval: Interval) -> "Contrast":
        """The contrast judged by an interval, which is added to its words."""
        told = (interval.clipped() if self.form is percent else interval).say(self.form)
        return replace(self, words=self.words.replace("{}", told), judged=self.test(interval, self.bound))


def _listed(values: Any) -> list[float]:
    return list(values.values() if isinstance(values, Mapping) else values)


@dataclass(frozen=True)
class Comparison:
    """The difference of values at two coordinates, over all target languages that have both, which must pass a test.

    Attributes:
        words: Description of the comparison.
        at: The coordinates that both have.
        first: Further coordinates of the minuend; several layers are averaged.
        second: Further coordinates of the subtrahend.
        test: `above` or `below` 0.
        over: The intervals: over `seeds` and test items (of means over targets), over `pairs` of languages and seeds
            (`over_pairs`), or both. The first must pass the test, the second only if there are enough pairs or seeds
            for an interval.
        shares: Whether values are shares, written in percentage points.
    """

    words: str
    at: Mapping[str, Any]
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    test: Test = above
    over: Sequence[str] = ("seeds",)
    shares: bool = True

    def __call__(self, results: Results) -> Iterator[Contrast]:
        """The contrasts that were measured."""
        sides: dict[str, list[Seeds]] = {}  # by target
        for target in results.targets(**self.at):
            at = {**self.at, "source": results.source, "target": target}
            both = [results.values(**at, **own) for own in (self.first, self.second)]
            sides |= {target: both} if differences(*both) else {}
        if not sides:
            return
        # These means include seeds that only one side has.
        means = {target: [over_seeds(seeds).value for seeds in both] for target, both in sides.items()}
        seeds = [differences(*both) for both in sides.values()]
        apart = {target: first - second for target, (first, second) in means.items()}
        level, signs = (percent, signed) if self.shares else (decimals, "{:+.3f}".format)
        levels = " less ".join(level(value) for value in np.mean(list(means.values()), axis=0))
        beside = f" ({levels}; {', '.join(f'{target} {signs(change)}' for target, change in apart.items())})"
        words = f"{self.words} by {{}}"
        for what in self.over:
            if what == "seeds":
                yield Contrast(words + beside, by_seed(seeds), self.test, form=signs)
            elif len(apart) >= LEAST or what == self.over[0]:
                each = over_pairs(words, list(apart.values()), seeds, self.test)
                yield replace(each, words=each.words + beside, form=signs)
            words, beside = "{}", ""


def chance_contrast(words: str, results: Results, **at: Any) -> Iterator[Contrast]:
    """The contrast of a score with its chance level, if every seed has both; `{}` in the words is the mean score."""
    scores, floors = (results.values(column, **at) for column in ("value", "floor"))
    if scores and set(scores) <= set(floors):
        mean, chance = (percent(over_seeds(each).value) for each in (scores, floors))
        yield Contrast(f"{words.format(mean)}, {{}} above chance ({chance})", differences(scores, floors), form=signed)


def over_pairs(words: str, values: Sequence[float], seeds: Sequence[Seeds], test: Test, bound: float = 0.0) -> Contrast:
    """The contrast of a mean over pairs of languages, with an interval over pairs and seeds together.

    All pairs share the model of the source, whose training may move all of them, and their spread does not show that.
    So the variance of the mean is the sum of that over pairs and that over seeds, which is taken from the pairs that
    have enough seeds; as in `two_way_mean`, the interval is never narrower than that of one of them alone. Two pairs
    have no interval, and with too few seeds of every pair the contrast is not judged.

    Args:
        words: Description of the mean; `{}` is replaced by the value and its interval.
        values: The value of each pair.
        seeds: The values of each pair by seed.
        test: `above` or `below`.
        bound: The bound of the test.
    """
    pairs = two_way_mean(values)
    training = two_way_mean(by_seed(each for each in seeds if len(each) >= LEAST))
    # Pairs with one seed share it: a seed's weight in the mean is its share of each pair, averaged over pairs.
    weights = [sum(1 / len(each) for each in seeds if seed in each) / len(seeds) for seed in set().union(*seeds)]
    training = replace(training, error=training.error * math.sqrt(training.n * sum(w * w for w in weights)))
    whole = replace(pairs, error=math.hypot(pairs.error, training.error))
    if whole.error > 0:
        parts = ((each.error / whole.error) ** 4 / each.freedom for each in (pairs, training))
        whole = replace(whole, freedom=1 / sum(parts))  # Satterthwaite (1946)
    alone = replace(training, mean=pairs.mean, n=pairs.n)
    wider = max(whole, pairs, alone, key=lambda estimate: estimate.error * t_quantile(estimate.freedom))
    few = ", too few for an interval" * (len(values) < LEAST)
    mean = replace(pairs, error=math.nan) if few else wider
    return Contrast(f"{words} over {len(values)} pairs{few}", mean, test, bound, seeds=max(map(len, seeds)))


class NotMeasured(Exception):
    """The rows lack values that a claim needs; the message says which."""


def needed(values: T | None, missing: str) -> T:
    """Return values that a claim needs; if there are none, the claim is not judged, for the reason `missing`."""
    if not values:
        raise NotMeasured(missing)
    return values


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper and the contrasts that judge it; as a decorator it takes these from a function.

    statement: the claim, or a function of the results if it depends on them; by default the docstring of the decorated
    function. contrasts: one or several functions that yield contrasts, such as a `Comparison`; they yield none, or
    raise `NotMeasured`, if the rows lack the values. missing: the reason given if there are no contrasts.
    """

    name: str
    statement: str | Callable[[Results], str] = ""
    contrasts: Callable[[Results], Iterable[Contrast]] | Sequence[Callable[[Results], Iterable[Contrast]]] = ()
    missing: str = "nothing was measured"

    def __call__(self, contrasts: Callable[[Results], Iterable[Contrast]]) -> "Claim":
        """The same claim with the contrasts of a function."""
        return replace(self, statement=self.statement or str(contrasts.__doc__), contrasts=contrasts)

    def contrasts_of(self, results: Results) -> list[Contrast]:
        """All contrasts of the claim on these results."""
        functions = self.contrasts if isinstance(self.contrasts, Sequence) else [self.contrasts]
        return [contrast for function in functions for contrast in function(results)]


@dataclass(frozen=True)
class Finding:
    """A judged claim.

    verdict: held, not held, not held but open, or not judged. measured: a description of the measured values, and of
    reasons why something could not be judged.
    """

    name: str
    claim: str
    contrasts: Sequence[Contrast]
    verdict: str
    measured: str

    @property
    def sentence(self) -> str:
        """The verdict, the claim and the measured values in one line."""
        return f"{self.verdict}: {self.claim} Here: {self.measured}."


def judge(claim: Claim, results: Results) -> Finding:
    """Judge a claim on the rows of a reproduction; it is not judged if a contrast cannot be and none is refuted.

    Values of seeds are judged by an interval over seeds and test items together (`two_way_mean`), for which the
    contrasts are recomputed without each part of the items (`Results.left_out`). Intervals of several contrasts have
    Holm's correction.
    """
    statement = claim.statement if isinstance(claim.statement, str) else claim.statement(results)
    try:
        contrasts, why = claim.contrasts_of(results), claim.missing
    except NotMeasured as reason:
        contrasts, why = [], str(reason)
    estimates = _estimates(claim, contrasts, results)
    known = [estimate.p_value(each.bound) for each, estimate in zip(contrasts, estimates, strict=True) if estimate]
    confidences = iter(holm_confidences(known))
    placed = []
    for each, estimate in zip(contrasts, estimates, strict=True):
        alone = each.estimate()
        if estimate == alone and not isinstance(each.values, Estimate):
            each = replace(each, words=each.words.replace("{}", "{} (over seeds alone)"))
        interval = estimate.interval(next(confidences)) if estimate else Interval(alone.value, n=alone.n)
        placed.append(each.placed(interval))
    if contrasts:
        why = no_interval(min((each.count for each in contrasts if each.count is not None), default=0))
    contrasts = placed
    side = all_of(each.judged for each in contrasts)
    verdict = "not judged" if side is None else side.value
    told = [each.words for each in contrasts if not each.quiet or each.judged in (Side.OPEN, Side.REFUTED)]
    measured = "; ".join(filter(None, [*told, why]))
    return Finding(claim.name, statement, contrasts, verdict, measured)


def _estimates(claim: Claim, contrasts: Sequence[Contrast], results: Results) -> list[Estimate | None]:
    """The value of each contrast with its error over seeds and test items; None if it has too few seeds or no error."""
    alone = [each.estimate() for each in contrasts]
    judged = [
        (each.count is None or each.count >= LEAST) and estimate.error >= 0
        for each, estimate in zip(contrasts, alone, strict=True)
    ]
    left: list[Sequence[Contrast]] = [()] * len(contrasts)
    if any(known and not isinstance(each.values, Estimate) for each, known in zip(contrasts, judged, strict=True)):
        left = list(zip(*(claim.contrasts_of(without) for without in results.left_out), strict=True))
    return [
        each.estimate(without) if known else None for each, without, known in zip(contrasts, left, judged, strict=True)
    ]


def judging(results: Results) -> str:
    """A few sentences on how findings on these results are judged."""
    told = (
        "Brackets of findings hold 95% intervals over seeds and test items together, unless they say otherwise, "
        "with Holm's correction if a finding has several intervals. A finding is held if every interval is on the "
        "claimed side of its bound, not held if one is on the other side, and open if one includes the bound."
    )
    if not any(results.cells("parts")):
        told += (
            " These rows do not have the values without parts of the test items, so compared values are treated as if "
            "they were measured on different items, which makes the intervals too wide."
        )
    return told
