"""Ticks of an axis that counts in factors: 1, 2, 5, 10 where the range is wide, closer ones where it is not.

A perplexity that falls from 13 to 10 has one power of ten in its range, and one of 1, 2, 5: no axis to read it by.
`stepdrawing.js` chooses ticks in the same way.
"""

from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST, MOST = 4, 9
SERIES = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0))
STEPS = (1.0, 2.0, 2.5, 5.0)


def factor_ticks(low: float, high: float) -> list[float]:
    """Ticks between two ends above zero, 4 to 9 of them: from the coarsest series that has as many.

    >>> factor_ticks(1, 3000), factor_ticks(2, 60), factor_ticks(3.9, 13.8), factor_ticks(1.34, 2.3)
    ([1, 10, 100, 1000], [2, 5, 10, 20, 50], [4, 5, 6, 8, 10], [1.5, 1.75, 2, 2.25])
    """
    if not 0 < low < high:
        return [low] if low > 0 else []
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for series in SERIES:
        found = [_round(part * 10.0**power) for power in powers for part in series]
        inside = [one for one in found if low <= one <= high]
        if len(inside) >= FEWEST:
            return inside[:: ceil(len(inside) / MOST)]
    return _even(low, high)


def dress_factors(axes: "Axes") -> None:
    """Give the vertical axis factors, with ticks that can be read; what is drawn must be there already."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(factor_ticks(*sorted(axes.get_ylim()))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:g}"))


def _even(low: float, high: float) -> list[float]:
    """Ticks at equal distances, in a range that no factor divides."""
    size = 10.0 ** floor(log10(high - low))
    for step in sorted((part * size * scale for part in STEPS for scale in (0.1, 1.0)), reverse=True):
        first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
        if last - first + 1 >= FEWEST:
            return [_round(number * step) for number in range(first, last + 1)]
    return [low, high]


def _round(value: float) -> float:
    rounded = float(f"{value:.6g}")
    return int(rounded) if rounded.is_integer() else rounded
