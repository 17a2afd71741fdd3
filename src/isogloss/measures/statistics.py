"""Intervals, means over seeds and the correlation of curves: the one place where uncertainty is computed.

What an interval is over decides how it is computed:

| over | what varies | interval |
|---|---|---|
| seeds | the training run | Student's t of the mean: `mean_over_seeds`, `band` for curves |
| items, a proportion | the sentences or words of the test | Wilson's score interval: `wilson_interval` |
| items, a mean | the same | normal interval: `mean_interval` |
| items, a ratio of counts | the same | percentiles of a bootstrap: `percentile_interval` |
| blocks of items | the same, where items cannot be drawn anew | delete-one-block jackknife: `jackknife_interval` |
| layers | which layers are compared | block bootstrap: `correlation` |

With three seeds a t interval reaches 4.3 standard errors to either side, and that is right: three runs say little about
a fourth. A single seed has no interval.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.figure import number

Floats = NDArray[np.float64]
Scale = Literal["linear", "log"]
Seeds = Mapping[int, float]  # seed -> value
Kind = Literal["spearman", "pearson"]
CONFIDENCE = 0.95  # of every interval
NORMAL = float(stats.norm.ppf((1 + CONFIDENCE) / 2))  # standard errors that a normal interval reaches
LEAST_LAYERS = 4  # for the interval of a correlation


# Means over seeds


@dataclass(frozen=True)
class Interval:
    """A number with its interval: what a row of the table needs, `row("cka", interval, layer=3)`.

    Attributes:
        value: the estimate.
        low: lower end of its interval; NaN, as `high`, where there are too few values for one.
        high: upper end of its interval.
        n: the number of values or items behind it.
        floor: what chance gives, where that is known.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    floor: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.low)

    def say(self, form: Callable[[float], str]) -> str:
        """The mean, and the interval in brackets where there is one; `form` writes a number."""
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
        """The same with an interval that does not leave the range [least, most] of the measure.

        >>> clipped = Interval(0.4, -0.2, 1.1).clipped(0.0, 1.0)
        >>> clipped.low, clipped.high
        (0.0, 1.0)
        """
        return replace(self, low=float(np.maximum(self.low, least)), high=float(np.minimum(self.high, most)))


class Band(NamedTuple):
    """A curve over seeds: mean, low and high, each (n,)."""

    mean: Floats
    low: Floats
    high: Floats


def mean_over_seeds(values: Seeds | Sequence[float] | Floats, *, least: int = 2, scale: Scale = "linear") -> Interval:
    """Compute the mean of one value per seed with Student's t interval of the mean.

    Args:
        values: seed -> value, or the values one after another. NaN is a seed without a value: it is left out.
        least: the fewest seeds that have an interval; with fewer of them low and high are NaN. Two is the fewest for
            which a t interval is defined; claims of papers are judged with three or more.
        scale: "log" takes mean and interval of the logarithms and raises them again (a geometric mean): for ratios and
            perplexities.

    Returns:
        The mean, the interval and the number of seeds. Without any seed everything is NaN.

    >>> mean = mean_over_seeds({0: 1.0, 1: 2.0, 2: 3.0})
    >>> mean.value, round(mean.low, 3), round(mean.high, 3), mean.n
    (2.0, -0.484, 4.484, 3)
    >>> mean_over_seeds([1.0, 3.0], least=3).known
    False
    """
    listed = np.array(list(values.values() if isinstance(values, Mapping) else values), dtype=np.float64)
    listed = listed[~np.isnan(listed)]
    if scale == "log" and (listed <= 0).any():
        raise InputError("a mean of logarithms needs values above zero; use the linear scale")
    transformed, n = np.log(listed) if scale == "log" else listed, len(listed)
    mean, reach = float(transformed.mean()) if n else math.nan, math.nan
    if n >= max(least, 2):
        reach = t_quantile(n - 1) * float(transformed.std(ddof=1)) / math.sqrt(n)
    value, low, high = map(math.exp if scale == "log" else float, (mean, mean - reach, mean + reach))
    return Interval(value, low, high, n)


def paired_differences(first: Seeds, second: Seeds, *, scale: Scale = "linear") -> dict[int, float]:
    """Compare two conditions seed by seed: first - second ("log": first / second) of the seeds that both have.

    A seed draws the same initial weights and batches in both conditions, so that the interval of the paired difference,
    `mean_over_seeds(paired_differences(a, b))`, is far narrower than the difference of two intervals.

    >>> paired_differences({0: 3.0, 1: 5.0, 2: 1.0}, {1: 4.0, 0: 1.0})
    {0: 2.0, 1: 1.0}
    """
    both = [seed for seed in first if seed in second]
    return {seed: first[seed] / second[seed] if scale == "log" else first[seed] - second[seed] for seed in both}


def band(values: ArrayLike, *, scale: Scale = "linear") -> Band:
    """`mean_over_seeds` of a curve at each of its steps: (seeds, n) -> three times (n,).

    scale: "log" takes mean and interval of the logarithms and raises them again (geometric mean), which keeps the band
    of a perplexity above zero. NaN where a seed was not evaluated: there the others make the mean, so that a curve may
    jump where a seed ends. Fewer than two seeds have no interval (NaN), none has no mean.

    >>> curve = band([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
    >>> curve.mean.tolist(), curve.low.round(2).tolist(), curve.high.round(2).tolist()
    ([2.0, 2.0], [-0.48, 2.0], [4.48, 2.0])
    """
    table = np.asarray(values, dtype=np.float64)
    require(table.ndim == 2, f"a band needs values (seeds, steps), not shape {table.shape}")
    means = [mean_over_seeds(column, scale=scale) for column in table.T]
    return Band(*np.array([(mean.value, mean.low, mean.high) for mean in means]).reshape(-1, 3).T)


@cache
def t_quantile(freedom: int) -> float:
    """How many standard errors a t interval reaches to either side, with so many degrees of freedom."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))


# Intervals over items


def wilson_interval(successes: int, n: int, *, floor: float = math.nan) -> Interval:
    """A proportion of n >= 1 items with Wilson's score interval, which unlike the normal one is honest at 0 and 1.

    The values of `scipy.stats.binomtest(successes, n).proportion_ci(method="wilson")`, without its test, which would
    take most of the time where thousands of proportions are measured.

    >>> wilson_interval(9, 10).share
    '0.900 [0.596, 0.982]'
    """
    z, share = NORMAL, successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not push a bound past the value itself at 0 and 1.
    return Interval(share, max(0.0, min(share, centre - reach)), min(1.0, max(share, centre + reach)), n, floor)


def mean_interval(values: Tensor, *, floor: float = math.nan) -> Interval:
    """The mean of `values` (n,) with its normal interval; fewer than two values have none."""
    n, mean = values.numel(), float(values.double().mean())
    reach = NORMAL * float(values.double().std()) / math.sqrt(n) if n > 1 else math.nan
    return Interval(mean, mean - reach, mean + reach, n, floor)


def percentile_interval(values: Floats) -> tuple[float, float]:
    """The percentile interval of the values (draws,) that a statistic takes on bootstrap samples.

    >>> percentile_interval(np.linspace(0, 1, 101))
    (0.025, 0.975)
    """
    tail = (1 - CONFIDENCE) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail]) if np.isfinite(values).any() else (np.nan, np.nan)
    return round(float(low), 12), round(float(high), 12)


def jackknife_interval(value: float, without: Tensor, *, n: int = 0, floor: float = math.nan) -> Interval:
    """The interval around `value` of any statistic, from its values without each block in turn, (blocks,).

    Delete-one-block jackknife: with r_i the statistic without block i, the variance is (B - 1) / B * sum (r_i - mean
    r)^2, and the interval is value -+ t times its root with B - 1 degrees of freedom. The statistic may be a mean of
    several CKA values or a difference of two, which share their blocks: only so are layers compared on the same
    sentences. NaN with fewer than 3 blocks.
    """
    blocks = without.numel()
    if blocks < 3:
        return Interval(value, n=n, floor=floor)
    deviation = math.sqrt((blocks - 1) / blocks * float((without - without.mean()).square().sum()))
    reach = t_quantile(blocks - 1) * deviation
    return Interval(value, value - reach, value + reach, n, floor)


# The correlation of two curves over layers


@dataclass(frozen=True)
class Correlation:
    """A correlation of two curves of `n` layers, its interval, and the share of displacements that agree as well."""

    value: float
    low: float
    high: float
    share: float
    n: int


def correlation(
    x: ArrayLike, y: ArrayLike, *, kind: Kind = "spearman", run: int = 3, draws: int = 2000, seed: int = 0
) -> Correlation:
    """Correlate two curves over layers, or curves of several languages pooled within the languages.

    The correlation of two curves is easily overrated: neighbouring layers are alike, so twelve layers are far fewer
    than twelve observations, and the curves of several languages share their layers. So

    - the interval draws *runs* of neighbouring layers with replacement (a circular block bootstrap, Politis & Romano
      1992), the same runs for every language;
    - beside it stands how often one curve, moved along the layers in a circle or read backwards, agrees with the other
      as well as it does in place. With n layers there are 2n such displacements, so this share is never below 1 / 2n.

    Curves of several languages are pooled by what happens within each: ranks or values less the language's own mean, so
    that a language that is better everywhere adds nothing. NaN where a curve does not vary, and no interval from fewer
    than four layers.

    Args:
        x: (n,), or (languages, n) with the layers in order.
        y: the same shape.
        kind: "pearson" of the values, "spearman" of their ranks within each row.
        run: neighbouring layers that are drawn together.
        draws: bootstrap samples.
        seed: of the draws.

    >>> agreement = correlation([1, 2, 3, 5, 4, 2], [1, 3, 4, 6, 5, 2])
    >>> round(agreement.value, 3), round(agreement.share, 3), agreement.n
    (0.986, 0.083, 6)
    """
    first, second = (np.atleast_2d(np.asarray(curve, dtype=np.float64)) for curve in (x, y))
    if first.ndim != 2 or first.shape != second.shape or first.shape[1] < 2:
        raise InputError(
            f"curves to correlate must be alike and of two layers or more, not {first.shape}, {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError("curves to correlate must be finite; leave out layers that were not measured")
    n = first.shape[1]
    value = float(_pooled(first[:, None], second[:, None], kind)[0])
    ahead = (np.arange(n) + np.arange(n)[:, None]) % n
    displaced = np.concatenate([ahead, ahead[:, ::-1]])  # moved in a circle and read backwards, (2n, n)
    moved = _pooled(first[:, displaced], np.broadcast_to(second[:, None], (len(second), *displaced.shape)), kind)
    share = float(np.mean(moved >= value - 1e-12)) if math.isfinite(value) else math.nan
    if n < LEAST_LAYERS or not math.isfinite(value):
        return Correlation(value, math.nan, math.nan, share, n)
    # Layers in runs of neighbours, drawn with replacement until there are n of them: (draws, n).
    run = min(run, n)
    starts = np.random.default_rng(seed).integers(n, size=(draws, -(-n // run)))
    drawn = ((starts[..., None] + np.arange(run)) % n).reshape(draws, -1)[:, :n]
    values = _pooled(first[:, drawn], second[:, drawn], kind)
    low, high = np.nanquantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Correlation(value, min(float(low), value), max(float(high), value), share, n)


def _pooled(x: Floats, y: Floats, kind: Kind) -> Floats:
    """Correlation within groups of many draws at once: twice (groups, draws, n) -> (draws,)."""
    if kind == "spearman":
        x, y = (cast(Floats, stats.rankdata(side, axis=-1)) for side in (x, y))
    x, y = (side - side.mean(axis=-1, keepdims=True) for side in (x, y))
    products = (x * y).sum(axis=(0, 2))
    sizes = np.sqrt((x * x).sum(axis=(0, 2)) * (y * y).sum(axis=(0, 2)))
    constant = np.full(len(products), np.nan)
    return cast(Floats, np.clip(np.divide(products, sizes, out=constant, where=sizes > 1e-12), -1.0, 1.0))
