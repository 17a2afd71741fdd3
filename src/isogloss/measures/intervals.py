"""Intervals for numbers that are means over items."""

import math

from scipy import stats
from torch import Tensor


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a proportion; unlike the normal one it is honest at 0 and 1.

    >>> tuple(round(bound, 3) for bound in wilson(9, 10))
    (0.596, 0.982)
    """
    if n == 0:
        return math.nan, math.nan
    z = float(stats.norm.ppf((1 + confidence) / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not push a bound past the value itself at 0 and 1.
    return max(0.0, min(share, centre - reach)), min(1.0, max(share, centre + reach))


def mean_interval(
    values: Tensor, *, low: float = -math.inf, high: float = math.inf, confidence: float = 0.95
) -> tuple[float, float]:
    """Normal interval of the mean of `values` (n,), clipped to [low, high]; NaN with fewer than two values."""
    n = values.numel()
    if n < 2:
        return math.nan, math.nan
    z = float(stats.norm.ppf((1 + confidence) / 2))
    mean, reach = float(values.double().mean()), z * float(values.double().std()) / math.sqrt(n)
    return max(low, mean - reach), min(high, mean + reach)
