"""Intervals, means over seeds and the correlation of curves: all computation of uncertainty.

How an interval is computed depends on what it is taken over:

| over | what varies | interval |
|---|---|---|
| seeds | the training run | Student's t of the mean: `mean_over_seeds` |
| both | the training run and the items of the test | sum of both variances: `two_way_mean`, `change_interval` |
| items, a proportion | the sentences or words of the test | Wilson's score interval: `wilson_interval` |
| items, a mean of shares | the same | Wilson's, for a proportion that varies as much: `share_interval` |
| items, any other mean | the same | Student's t of the mean: `mean_interval` |
| items, a ratio of counts | the same | percentiles of a bootstrap: `percentile_interval` |
| blocks of items | the same, if items cannot be resampled | jackknife: `jackknife_interval`, `ratio_interval` |
| layers | which layers are compared | Fisher's interval of fewer, independent layers: `correlation` |

With three seeds a t interval extends 4.3 standard errors to either side, as it should: three runs say little about a
fourth. A single seed has no interval. An interval over seeds does not generalise to other sentences, nor one over
sentences to other runs: `docs/statistics.md` has simulations of how often each covers the true value.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from torch import Tensor

from isogloss.errors import InputError
from isogloss.figure import number

Floats = NDArray[np.float64]
Scale = Literal["linear", "log", "fisher"]
Seeds = Mapping[int, float]  # seed -> value
Kind = Literal["spearman", "pearson"]
CONFIDENCE = 0.95  # of every interval
NORMAL = float(special.ndtri((1 + CONFIDENCE) / 2))  # half-width of a normal interval in standard errors
MANY = 1e9  # degrees of freedom at which Student's t equals the normal distribution
PARTS = 20  # parts of the items, each of which is left out in turn
LEAST_LAYERS = 4  # for the interval of a correlation
# Transformations to a scale with nearly normal errors, and back: for ratios and perplexities, and for correlations.
SCALES: Mapping[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "linear": (np.asarray, np.asarray),
    "log": (np.log, np.exp),
    "fisher": (lambda r: np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12)), np.tanh),
}


# Means over seeds


@dataclass(frozen=True)
class Interval:
    """A number with its interval, as a row of the table needs it: `row("cka", interval, layer=3)`.

    Attributes:
        value: the estimate.
        low: lower end of its interval; NaN, like `high`, if there are too few values for one.
        high: upper end of its interval.
        n: the number of values or items behind it.
        floor: the value expected by chance, if known.
        parts: the value without each of at most `PARTS` parts of the items, if they were left out in turn.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    floor: float = math.nan
    parts: tuple[float, ...] = ()

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def say(self, form: Callable[[float], str]) -> str:
        """The mean, and the interval in brackets if there is one; `form` formats a number."""
        return form(self.value) + (f" [{form(self.low)}, {form(self.high)}]" if self.known else "")

    def __str__(self) -> str:
        """The mean and the interval with at least three digits.

        >>> str(Interval(0.4, -0.2, 1.1, 3))
        '0.400 [-0.200, 1.10]'
        """
        return self.say(number)

    @property
    def share(self) -> str:
        """The mean and the interval with three decimals, for ratios and shares."""
        return self.say(lambda value: f"{value:.3f}")

    def clipped(self, least: float = 0.0, most: float = 1.0) -> "Interval":
        """Clip the interval to the range [least, most] of the measure.

        >>> clipped = Interval(0.4, -0.2, 1.1).clipped(0.0, 1.0)
        >>> clipped.low, clipped.high
        (0.0, 1.0)
        """
        return replace(self, low=float(np.maximum(self.low, least)), high=float(np.minimum(self.high, most)))


def mean_over_seeds(values: Seeds | Sequence[float] | Floats, *, least: int = 2, scale: Scale = "linear") -> Interval:
    """Compute the mean of one value per seed with Student's t interval of the mean.

    Args:
        values: seed -> value, or a sequence of values. NaN is a seed without a value: it is left out.
        least: minimum number of seeds for an interval; with fewer, low and high are NaN. A t interval needs at least
            two; claims of papers are judged with three or more.
        scale: "log" takes mean and interval of the logarithms and exponentiates them (a geometric mean): for ratios and
            perplexities.

    Returns:
        The mean, the interval and the number of seeds. Without any seed all are NaN.

    >>> mean = mean_over_seeds({0: 1.0, 1: 2.0, 2: 3.0})
    >>> mean.value, round(mean.low, 3), round(mean.high, 3), mean.n
    (2.0, -0.484, 4.484, 3)
    >>> mean_over_seeds([1.0, 3.0], least=3).known
    False
    """
    mean = two_way_mean(values, scale=scale)
    return mean.interval() if mean.n >= max(least, 2) else Interval(mean.value, n=mean.n)


def paired_differences(first: Seeds, second: Seeds, *, scale: Scale = "linear") -> dict[int, float]:
    """Compare two conditions seed by seed: first - second ("log": first / second) of the common seeds.

    A seed draws the same initial weights and batches in both conditions, so that the interval of the paired difference,
    `mean_over_seeds(paired_differences(a, b))`, is far narrower than the difference of two intervals.

    >>> paired_differences({0: 3.0, 1: 5.0, 2: 1.0}, {1: 4.0, 0: 1.0})
    {0: 2.0, 1: 1.0}
    """
    both = [seed for seed in first if seed in second]
    return {seed: first[seed] / second[seed] if scale == "log" else first[seed] - second[seed] for seed in both}


def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Half-width of a t interval in standard errors, with `freedom` degrees of freedom."""
    return float(special.stdtrit(min(freedom, MANY), (1 + confidence) / 2))


# Means over seeds and items together


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, for an interval of any confidence and a p value against any bound.

    Attributes:
        mean: the value on the scale.
        error: its standard error on the scale; NaN if there are too few values.
        freedom: degrees of freedom of the error.
        n: the number of values behind it.
        scale: the name of `SCALES` on which the value is nearly normal.
    """

    mean: float
    error: float
    freedom: float = math.inf
    n: int = 0
    scale: Scale = "linear"

    @classmethod
    def of(cls, interval: Interval, scale: Scale = "linear") -> "Estimate":
        """The estimate behind a normal interval."""
        value, low, high = (float(SCALES[scale][0](end)) for end in (interval.value, interval.low, interval.high))
        return cls(value, (high - low) / (2 * NORMAL), n=interval.n, scale=scale)

    @property
    def value(self) -> float:
        """The value itself."""
        return float(SCALES[self.scale][1](self.mean))

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        """The value with its t interval."""
        reach, back = t_quantile(self.freedom, confidence) * self.error, SCALES[self.scale][1]
        return Interval(self.value, float(back(self.mean - reach)), float(back(self.mean + reach)), self.n)

    def p_value(self, bound: float = 0.0) -> float:
        """The two-sided p value against a bound; NaN without an error.

        >>> round(two_way_mean([1.0, 2.0, 3.0]).p_value(0.0), 4)  # as scipy.stats.ttest_1samp
        0.0742
        """
        away = abs(self.mean - float(SCALES[self.scale][0](bound)))
        if self.error == 0 or math.isinf(away):
            return float(away == 0)
        return 2 * float(special.stdtr(min(self.freedom, MANY), -away / self.error))


def two_way_mean(
    values: Seeds | Sequence[float] | Floats, without: ArrayLike | None = None, *, scale: Scale = "linear"
) -> Estimate:
    """Compute the mean of one value per seed with its standard error over both seeds and test items.

    With S seeds and B parts of the items, v_s is the value of seed s and v_sb that without part b. Seeds and parts are
    crossed, because every seed is tested on the same items. The variance of the mean is A + I - R, where

    - A = sum_s (v_s - mean)^2 / (S (S - 1)) is that of a mean over seeds: training, and its noise on single items;
    - I, the delete-one-part jackknife of the mean over seeds, is that of the items, and the same noise once more;
    - R, from the interaction of seed and part in v_sb, is that noise, which both have counted.

    A + I - R is never taken below A or I. Its degrees of freedom are Satterthwaite's (1946), of A with S - 1 and of I
    with B - 1. If seeds agree by chance, these are too many, so the interval is never narrower than that of training
    alone, of variance A - R with S - 1. Without parts this is Student's t over seeds.

    Args:
        values: seed -> value, or a sequence of values (S,). NaN is a seed without a value: it is left out.
        without: the value of each seed without each part of the items, (S, B); None if items are not distinguished.
        scale: "log" for ratios and perplexities (a geometric mean), "fisher" for correlations.

    >>> two_way_mean([1.0, 2.0, 3.0]).interval().share
    '2.000 [-0.484, 4.484]'
    """
    listed = np.array(list(values.values() if isinstance(values, Mapping) else values), dtype=np.float64)
    known = ~np.isnan(listed)
    n, forward = int(known.sum()), SCALES[scale][0]
    if scale == "log" and (listed <= 0).any():
        raise InputError("a mean of logarithms needs values above zero; use the linear scale")
    transformed = forward(listed[known])
    mean = float(transformed.mean()) if n else math.nan
    if n < 2:
        return Estimate(mean, math.nan, n=n, scale=scale)
    of_seeds = float(transformed.var(ddof=1)) / n
    left = forward(np.asarray(listed[:, None] if without is None else without, dtype=np.float64)[known])  # (S, B)
    parts, by_part = left.shape[1], left.mean(axis=0)
    if np.ptp(by_part) == 0:  # nothing is known of the items
        return Estimate(mean, math.sqrt(of_seeds), n - 1, n, scale)
    of_items = (parts - 1) * float(by_part.var())
    rest = left - left.mean(axis=1, keepdims=True) - by_part + left.mean()
    of_both = (parts - 1) / (parts * n * (n - 1)) * float((rest * rest).sum())
    variance = max(of_seeds + of_items - of_both, of_seeds, of_items)
    freedom = variance**2 / (of_seeds**2 / (n - 1) + of_items**2 / (parts - 1))
    whole = Estimate(mean, math.sqrt(variance), freedom, n, scale)
    training = replace(whole, error=math.sqrt(max(of_seeds - of_both, 0.0)), freedom=n - 1)
    return max(whole, training, key=lambda estimate: estimate.error * t_quantile(estimate.freedom))


def change_interval(
    before: Sequence[Interval], after: Sequence[Interval], *, scale: Scale = "linear", among: int = 1
) -> Interval:
    """The change between two readings of the same items, after - before ("log": after / before), with its interval.

    Separate intervals of the readings may overlap although the change is clear, because most of what they contain is
    which items were chosen, the same for both. The items are therefore left out part by part in both readings, and the
    interval is that of the differences: of the items for one seed, of seeds and items together for several.

    Args:
        before: The reading of each seed, with its `parts`.
        after: The same of the same seeds.
        scale: "log" for ratios and perplexities.
        among: The number of changes of which this one was chosen, such as that from the lowest of several readings; its
            interval has the confidence that all of them together need (Bonferroni).

    Returns:
        The mean change over seeds with its interval; all NaN unless every reading has values without `PARTS` parts.
    """
    readings = [*before, *after]
    table = np.array([[each.value, *each.parts] for each in readings if len(each.parts) == PARTS])
    if len(table) < max(2, len(readings)) or not np.isfinite(table).all() or (scale == "log" and (table <= 0).any()):
        return Interval(math.nan)
    forward, back = SCALES[scale]
    first, second = np.split(forward(table), 2)  # (seeds, 1 + parts) each
    changes = second - first
    estimate = two_way_mean(changes[:, 0], changes[:, 1:])
    if len(changes) == 1:  # the jackknife over items alone
        estimate = replace(estimate, error=math.sqrt((PARTS - 1) * float(changes[0, 1:].var())), freedom=PARTS - 1)
    change = estimate.interval(1 - (1 - CONFIDENCE) / among)
    return Interval(float(back(change.value)), float(back(change.low)), float(back(change.high)))


def holm_confidences(p_values: Sequence[float]) -> list[float]:
    """The confidence of the interval of each of several contrasts, for a family-wise confidence of 95%.

    Holm (1979): the smallest of k p values is compared with 0.05 / k, the next with 0.05 / (k - 1) and so on, until one
    is larger; that one and all larger ones are compared with the same level. A contrast whose p value is NaN is not one
    of the k, and its interval has the plain confidence.

    >>> [round(1 - confidence, 4) for confidence in holm_confidences([0.03, 0.001, 0.4])]
    [0.025, 0.0167, 0.025]
    """
    confidences = [CONFIDENCE] * len(p_values)
    known = [at for at, p_value in enumerate(p_values) if not math.isnan(p_value)]
    order = sorted(known, key=p_values.__getitem__)
    for rank, at in enumerate(order):
        share = (1 - CONFIDENCE) / (len(order) - rank)
        for later in order[rank:]:
            confidences[later] = 1 - share
        if not p_values[at] <= share:
            break
    return confidences


# Intervals over items


def wilson_interval(successes: int, n: int, *, floor: float = math.nan) -> Interval:
    """A proportion of n >= 1 items with Wilson's score interval, which unlike the normal one is valid at 0 and 1.

    The values of `scipy.stats.binomtest(successes, n).proportion_ci(method="wilson")`, without its test, which would
    take most of the time for thousands of proportions.

    >>> wilson_interval(9, 10).share
    '0.900 [0.596, 0.982]'
    """
    return Interval(successes / n, *_wilson_ends(successes / n, n, NORMAL), n, floor)


def share_interval(values: Tensor, *, floor: float = math.nan) -> Interval:
    """The mean of values (n,) between 0 and 1, with the interval of a proportion that varies as much as this mean.

    A normal interval has no width if all values are 0 or all are 1, and covers too little near these ends. A mean m
    with standard error s is as certain as a proportion of m (1 - m) / s^2 items, of n if s is 0. This is Wilson's
    interval for that many items, with the t quantile of n - 1 degrees of freedom. NaN for fewer than two values.

    >>> share_interval(Tensor([1, 1, 1, 1, 1, 1, 1, 1, 1, 1])).share
    '1.000 [0.661, 1.000]'
    """
    values, n = values.double().clamp(0, 1), values.numel()  # rounding may have left the range
    mean, variance = float(values.mean()), float(values.var(correction=0))
    if n < 2 or math.isnan(mean):
        return Interval(mean, n=n, floor=floor)
    items = n * mean * (1 - mean) / variance if variance > 1e-12 else float(n)
    return Interval(mean, *_wilson_ends(mean, items, t_quantile(n - 1)), n, floor)


def _wilson_ends(share: float, items: float, z: float) -> tuple[float, float]:
    """The ends of Wilson's interval of a proportion, z standard errors to either side."""
    centre = (share + z * z / (2 * items)) / (1 + z * z / items)
    reach = z / (1 + z * z / items) * math.sqrt(share * (1 - share) / items + z * z / (4 * items * items))
    # Rounding must not push an end past the value itself at 0 and 1.
    return max(0.0, min(share, centre - reach)), min(1.0, max(share, centre + reach))


def mean_interval(values: Tensor, *, floor: float = math.nan) -> Interval:
    """The mean of `values` (n,) with its t interval, NaN for fewer than two values."""
    n, mean = values.numel(), float(values.double().mean())
    reach = t_quantile(n - 1) * float(values.double().std()) / math.sqrt(n) if n > 1 else math.nan
    return Interval(mean, mean - reach, mean + reach, n, floor)


def percentile_interval(values: Floats) -> tuple[float, float]:
    """The percentile interval of the values (draws,) of a statistic on bootstrap samples.

    >>> percentile_interval(np.linspace(0, 1, 101))
    (0.025, 0.975)
    """
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail]) if np.isfinite(values).any() else (np.nan, np.nan)
    return round(float(low), 12), round(float(high), 12)


def jackknife_interval(
    value: float, without: Tensor, *, n: int = 0, floor: float = math.nan, among: int = 1
) -> Interval:
    """The interval around `value` of any statistic, from its values without each block in turn, (blocks,).

    Delete-one-block jackknife: with r_i the statistic without block i, the variance is (B - 1) / B * sum (r_i - mean
    r)^2, and the interval is value -+ t times its root with B - 1 degrees of freedom. The statistic may also be a mean
    of several CKA values or a difference of two with the same blocks, which compares layers on the same sentences. NaN
    with fewer than 3 blocks. among: the number of statistics of which this one is looked at; the interval has the
    confidence that all of them together need (Bonferroni).
    """
    blocks = without.numel()
    if blocks < 3:
        return Interval(value, n=n, floor=floor)
    deviation = math.sqrt((blocks - 1) / blocks * float((without - without.mean()).square().sum()))
    quantile = t_quantile(blocks - 1, 1 - (1 - CONFIDENCE) / among)
    reach, parts = quantile * deviation, tuple(without.tolist()) if blocks <= PARTS else ()
    return Interval(value, value - reach, value + reach, n=n, floor=floor, parts=parts)


def means_without_parts(values: Tensor) -> tuple[float, ...]:
    """The mean of values (n,) without each of `PARTS` consecutive parts in turn; empty for fewer values.

    >>> means_without_parts(Tensor(range(40)))[0]  # without 0 and 1
    20.5
    """
    if len(values) < PARTS:
        return ()
    parts = values.double().tensor_split(PARTS)
    return tuple(float((values.double().sum() - part.sum()) / (len(values) - len(part))) for part in parts)


def ratio_interval(numerators: Tensor, denominators: Tensor, *, n: int = 0, floor: float = math.nan) -> Interval:
    """The ratio of two sums, such as tokens to words, with the jackknife interval over blocks of the same items.

    Args:
        numerators: (blocks,), the sum of each block.
        denominators: (blocks,); a block with a denominator of 0 is left out.
        n: the number of items behind the ratio.
        floor: the value expected by chance.

    >>> ratio_interval(Tensor([2.0, 4.0, 3.0]), Tensor([1.0, 2.0, 1.0])).value
    2.25
    """
    above, below = (sums.double()[denominators != 0] for sums in (numerators, denominators))
    without = (above.sum() - above) / (below.sum() - below)
    return jackknife_interval(float(above.sum() / below.sum()), without, n=n, floor=floor)


# The correlation of two curves over layers


def correlation(x: ArrayLike, y: ArrayLike, *, kind: Kind = "spearman", ordered: bool = True) -> Interval:
    """Correlate two curves over layers, or curves of several languages pooled within the languages.

    The correlation of two curves is easily overestimated: neighbouring layers are similar, so thirteen layers are far
    fewer than thirteen observations, and the curves of several languages share their layers. The interval is Fisher's,
    for the effective number m of independent layers (Bartlett 1935; Pyper & Peterman 1998):

        1 / m = 1 / n + 2 / n sum_k (n - k) / n r_x(k) r_y(k),    k = 1 ... n / 3

    where r(k) is a curve's autocorrelation at lag k. It extends 1.96 sqrt(c / (m - 3)) to either side of arctanh r,
    with c = 1.06 for ranks (Fieller et al. 1957) and 1 otherwise, and is all of [-1, 1] if m is 3 or less. `n` counts
    layers, whatever the number of languages. Curves that are smoother than random walks, such as two arcs, still agree
    by chance in more than 5 of 100 cases: `docs/statistics.md` has numbers.

    Curves of several languages are pooled within languages: ranks or values minus the language's own mean, so that a
    language with better values at all layers adds nothing. NaN if a curve does not vary, and no interval from fewer
    than four layers.

    Args:
        x: (n,), or (languages, n) with the layers in order.
        y: the same shape.
        kind: "pearson" of the values, "spearman" of their ranks within each row.
        ordered: whether neighbours are similar, as layers are; False for languages, which have no order.

    >>> agreement = correlation([1, 2, 3, 5, 4, 2], [1, 3, 4, 6, 5, 2], ordered=False)
    >>> agreement.share, agreement.n
    ('0.986 [0.861, 0.999]', 6)
    """
    sides = [np.atleast_2d(np.asarray(curve, dtype=np.float64)) for curve in (x, y)]
    shapes = [side.shape for side in sides]
    if sides[0].ndim != 2 or shapes[0] != shapes[1] or shapes[0][1] < 2:
        raise InputError(f"curves to correlate need one shape and at least two layers, not {shapes[0]}, {shapes[1]}")
    if not all(np.isfinite(side).all() for side in sides):
        raise InputError("curves to correlate must be finite; leave out layers that were not measured")
    if kind == "spearman":
        from scipy.stats import rankdata  # the import takes a quarter of a second, which most commands do not need

        sides = [cast(Floats, rankdata(side, axis=1)) for side in sides]
    first, second = (side - side.mean(axis=1, keepdims=True) for side in sides)
    n, squares = first.shape[1], [float((side * side).sum()) for side in (first, second)]
    if min(squares) < 1e-12:
        return Interval(math.nan, n=n)
    value = float(np.clip((first * second).sum() / math.sqrt(squares[0] * squares[1]), -1, 1))
    if n < LEAST_LAYERS:
        return Interval(value, n=n)
    alike = 1.0  # n / m
    for step in range(1, n // 3 + 1 if ordered else 1):
        own = [float((side[:, step:] * side[:, :-step]).sum()) for side in (first, second)]
        # A short curve's r(k) is n / (n - k) times too small.
        alike += 2 * n / (n - step) * own[0] / squares[0] * own[1] / squares[1]
    freedom = n / max(alike, 1.0) - 3
    error = math.sqrt((1.06 if kind == "spearman" else 1.0) / freedom) if freedom > 0 else math.inf
    interval = Estimate(float(SCALES["fisher"][0](value)), error, n=n, scale="fisher").interval()
    return replace(interval, value=value)
