"""Two curves over training steps: where they cross, where they balance, and both over seeds.

Fine-tuning on one language lowers its perplexity and raises that of the others. Two numbers tell how far to go: the
step where the two curves cross, and the step of the best balance between what is gained and what is lost,

    balance(s) = log target(s) / target(0) + log others(s) / others(0)

Both are taken in logarithms, where equal factors are equal distances: a perplexity that doubles and one that halves
cancel out. Both hang on the unit: the logarithm per character is that per token times the tokens a character has, a
factor of each text's own. Per token, the crossing moves with the vocabulary, so give it per character too.

A value over seeds is a mean with a t interval. With three seeds it is 4.3 standard errors wide on either side, and that
is right: three runs say little about a fourth.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from isogloss.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OverSeeds:
    """A step over seeds: its mean, a t interval (NaN from one seed alone), and the share of seeds that have one."""

    value: float
    low: float
    high: float
    share: float
    seeds: int


@dataclass(frozen=True)
class Band:
    """A curve over seeds: mean, low and high, each (n,)."""

    mean: Floats
    low: Floats
    high: Floats


def crossings(steps: ArrayLike, first: ArrayLike, second: ArrayLike) -> list[float]:
    """Every step where two curves change their order, interpolated linearly between evaluations of their logarithms.

    steps (n,), rising; first (n,) and second (n,), above zero. Curves that touch and part in their old order do not
    cross. Where they run together for a while and part in the other order, the crossing is the middle of that while.

    >>> crossings([0, 100, 200, 300], [8, 4, 2, 2], [2, 2, 4, 1])
    [150.0, 250.0]
    """
    at = _steps(steps)
    apart = np.log(_curve(first, at, "first")) - np.log(_curve(second, at, "second"))
    ordered = np.flatnonzero(apart)
    found = []
    for before, after in zip(ordered[:-1], ordered[1:], strict=True):
        if np.sign(apart[before]) == np.sign(apart[after]):
            continue
        if after == before + 1:
            share = apart[before] / (apart[before] - apart[after])
            found.append(float(at[before] + share * (at[after] - at[before])))
        else:
            found.append(float(at[before + 1] + at[after - 1]) / 2)
    return found


def crossing(steps: ArrayLike, first: ArrayLike, second: ArrayLike) -> float | None:
    """The first of `crossings`, or None where the curves keep their order throughout.

    Noisy curves cross several times: look at `crossings` before one of them is called the crossing. Table 1 of Hussain
    & Dudev (2020), Dutch against the other languages at three steps:

    >>> round(crossing([1, 501, 1501], [11.54, 7.76, 5.56], [6.08, 10.39, 22.45]))
    345
    >>> crossing([0, 100], [8, 4], [2, 2]) is None
    True
    """
    found = crossings(steps, first, second)
    return found[0] if found else None


def balance(target: ArrayLike, others: ArrayLike) -> Floats:
    """Nats lost (above zero) or gained since the first evaluation, both curves together: two (n,) -> (n,).

    >>> balance([8, 4, 2], [2, 2, 16]).round(3).tolist()  # halved; quartered while the others grew eightfold
    [0.0, -0.693, 0.693]
    """
    target = _curve(target, None, "target")
    others = _curve(others, target, "others")
    return np.log(target / target[0]) + np.log(others / others[0])


def balance_step(steps: ArrayLike, target: ArrayLike, others: ArrayLike) -> int:
    """The evaluated step with the lowest `balance`, the earliest of equals.

    steps (n,), rising, of which the first is what the others are compared with; target (n,), others (n,), above zero.
    Where no gain was worth its price, that is the first step.

    >>> balance_step([0, 50, 100], [8, 4, 2], [2, 2, 16])
    50
    """
    at = _steps(steps)
    found = balance(_curve(target, at, "target"), _curve(others, at, "others"))
    return int(at[np.argmin(found)])


def crossing_interval(
    steps: ArrayLike, first: ArrayLike, second: ArrayLike, *, confidence: float = 0.95
) -> OverSeeds | None:
    """The mean `crossing` of several seeds with a t interval, clipped to the range of steps; None where none crosses.

    steps (n,); first (seeds, n) and second (seeds, n), row i of both from one seed; NaN where a seed was not evaluated,
    as after an early stop. Seeds whose curves do not cross are left out of the mean, and `share` says how many are in:
    below 1 the mean is too early, because the seeds left out would cross later if at all.

    >>> first, second = [[8, 4, 2], [8, 4, 1], [8, 8, 8]], [[2, 2, 4], [2, 2, 2], [2, 2, 2]]
    >>> found = crossing_interval([0, 100, 200], first, second)
    >>> found.value, round(found.share, 2), found.seeds
    (150.0, 0.67, 3)
    """
    found = [crossing(*each) for each in _seeds(steps, first, second)]
    return _over_seeds([one for one in found if one is not None], len(found), steps, confidence)


def balance_interval(
    steps: ArrayLike, target: ArrayLike, others: ArrayLike, *, confidence: float = 0.95
) -> OverSeeds | None:
    """The mean `balance_step` of several seeds with a t interval, clipped to the range of steps; every seed has one.

    steps (n,); target (seeds, n), others (seeds, n), NaN where a seed was not evaluated. The first evaluation may not
    be missing: it is what the others are compared with. None without seeds.

    >>> found = balance_interval([0, 50, 100], [[8, 4, 2], [8, 4, 2]], [[2, 2, 16], [2, 2, 3]])
    >>> found.value, found.low, found.high  # 50 and 100: two seeds leave everything open
    (75.0, 0.0, 100.0)
    """
    each = _seeds(steps, target, others)
    start = _steps(steps)[0]
    if any(at[0] != start for at, _, _ in each):
        raise InputError(f"a seed has no values at step {start:g}, the first, which balance is measured from")
    return _over_seeds([float(balance_step(*one)) for one in each], len(each), steps, confidence)


def band(values: ArrayLike, *, scale: Literal["linear", "log"] = "linear", confidence: float = 0.95) -> Band:
    """The mean of a curve over seeds at each step, with a t interval: (seeds, n) -> three times (n,).

    scale: "log" takes mean and interval of the logarithms and raises them again (geometric mean), which keeps the band
    of a perplexity above zero. NaN where a seed was not evaluated: there the others make the mean, so that a curve may
    jump where a seed ends. Fewer than two seeds have no interval (NaN), none has no mean.

    >>> found = band([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])
    >>> found.mean.tolist(), found.low.round(2).tolist(), found.high.round(2).tolist()
    ([2.0, 2.0], [-0.48, 2.0], [4.48, 2.0])
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise InputError(f"a band needs values (seeds, steps), not shape {table.shape}")
    if scale == "log" and (table <= 0).any():
        raise InputError("a band in logarithms needs values above zero; use the linear scale")
    table = np.log(table) if scale == "log" else table
    columns = [_mean(column[~np.isnan(column)], confidence) for column in table.T]
    mean, low, high = np.array(columns, dtype=np.float64).reshape(-1, 3).T
    return Band(np.exp(mean), np.exp(low), np.exp(high)) if scale == "log" else Band(mean, low, high)


def _steps(steps: ArrayLike) -> Floats:
    at = np.asarray(steps, dtype=np.float64)
    if at.ndim != 1 or len(at) == 0 or not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise InputError("steps must be one rising list of at least one number; sort the evaluations by step")
    return at


def _curve(values: ArrayLike, like: Floats | None, name: str) -> Floats:
    """The values of one curve, as many as `like` has, finite and above zero."""
    curve = np.asarray(values, dtype=np.float64)
    if curve.ndim != 1 or len(curve) == 0 or (like is not None and len(curve) != len(like)):
        expected = "one value a step" if like is None else f"{len(like)} values, one a step"
        raise InputError(f"the {name} curve needs {expected}, not shape {curve.shape}")
    wrong = np.flatnonzero(~(np.isfinite(curve) & (curve > 0)))
    if len(wrong):
        raise InputError(
            f"value {wrong[0]} of the {name} curve is {curve[wrong[0]]:g}; logarithms need finite values above zero"
        )
    return curve


def _seeds(steps: ArrayLike, first: ArrayLike, second: ArrayLike) -> list[tuple[Floats, Floats, Floats]]:
    """The steps and both curves of each seed, without the evaluations that either curve lacks."""
    at = _steps(steps)
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim != 2 or one.shape != other.shape or one.shape[1] != len(at):
        raise InputError(f"curves over seeds must both be (seeds, {len(at)}), not {one.shape} and {other.shape}")
    there = ~(np.isnan(one) | np.isnan(other))  # (seeds, n)
    if not there.any(axis=1).all():
        raise InputError(f"seed {int(np.argmin(there.any(axis=1)))} has no evaluation with both values; leave it out")
    return [(at[kept], one[seed, kept], other[seed, kept]) for seed, kept in enumerate(there)]


def _over_seeds(found: list[float], seeds: int, steps: ArrayLike, confidence: float) -> OverSeeds | None:
    if not found:
        return None
    at = _steps(steps)
    value, *ends = _mean(np.array(found), confidence)
    low, high = (float(np.clip(end, at[0], at[-1])) for end in ends)  # NaN stays NaN
    return OverSeeds(value, low, high, len(found) / seeds, seeds)


def _mean(values: Floats, confidence: float) -> tuple[float, float, float]:
    """Mean and t interval of values (n,), which have no interval from fewer than two."""
    n = len(values)
    if n == 0:
        return math.nan, math.nan, math.nan
    mean = float(values.mean())
    if n == 1:
        return mean, math.nan, math.nan
    reach = _quantile(confidence, n - 1) * float(values.std(ddof=1)) / math.sqrt(n)
    return mean, mean - reach, mean + reach


@cache
def _quantile(confidence: float, freedom: int) -> float:
    """How many standard errors a t interval reaches to either side."""
    return float(stats.t.ppf((1 + confidence) / 2, freedom))
