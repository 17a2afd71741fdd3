"""How closely two curves over layers rise and fall together, with an interval that knows they are curves.

Two measures read at every layer of a model give two curves. Their correlation is easily overrated: neighbouring layers
are alike, so twelve layers are far fewer than twelve observations, and the curves of several languages share their
layers. So

- the interval draws *runs* of neighbouring layers with replacement (a circular block bootstrap, Politis & Romano 1992),
  the same runs for every language;
- beside it stands how often one curve, moved along the layers in a circle or read backwards, agrees with the other as
  well as it does in place. With n layers there are 2n such places, so this share is never below 1 / 2n.

Curves of several languages are pooled by what happens within each: ranks or values less the language's own mean, so
that a language that is better everywhere adds nothing.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from isogloss.errors import InputError

Kind = Literal["spearman", "pearson"]
Floats = NDArray[np.float64]
LEAST = 4  # layers for an interval


@dataclass(frozen=True)
class Correlation:
    """A correlation, its interval, the share of other places that agree as well, and of how many layers it is."""

    value: float
    low: float
    high: float
    share: float
    n: int


def correlation(
    x: ArrayLike, y: ArrayLike, *, kind: Kind = "spearman", run: int = 3, draws: int = 2000, confidence: float = 0.95,
    seed: int = 0,
) -> Correlation:  # fmt: skip
    """Correlate two curves, or curves of several groups pooled within the groups.

    x, y: (n,), or (groups, n) with a row a language and its layers in order. kind: "pearson" of the values, "spearman"
    of their ranks within each row. run: neighbouring layers that are drawn together. NaN where a curve does not vary,
    and no interval from fewer than four layers.

    >>> found = correlation([1, 2, 3, 5, 4, 2], [1, 3, 4, 6, 5, 2])
    >>> round(found.value, 3), round(found.share, 3), found.n
    (0.986, 0.083, 6)
    """
    first, second = (np.atleast_2d(np.asarray(one, dtype=np.float64)) for one in (x, y))
    if first.ndim != 2 or first.shape != second.shape or first.shape[1] < 2:
        raise InputError(
            f"curves to correlate must be alike and of two layers or more, not {first.shape}, {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise InputError("curves to correlate must be finite; leave out layers that were not measured")
    n = first.shape[1]
    value = float(_pooled(first[:, None], second[:, None], kind)[0])
    places = _places(n)  # (2n, n), its first row the layers in order
    moved = _pooled(first[:, places], np.broadcast_to(second[:, None], (len(second), *places.shape)), kind)
    share = float(np.mean(moved >= value - 1e-12)) if math.isfinite(value) else math.nan
    if n < LEAST or not math.isfinite(value):
        return Correlation(value, math.nan, math.nan, share, n)
    drawn = _runs(n, run=min(run, n), draws=draws, seed=seed)
    values = _pooled(first[:, drawn], second[:, drawn], kind)
    low, high = np.nanquantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Correlation(value, min(float(low), value), max(float(high), value), share, n)


def _pooled(x: Floats, y: Floats, kind: Kind) -> Floats:
    """Correlation within groups of many draws at once: twice (groups, draws, n) -> (draws,)."""
    if kind == "spearman":
        x, y = (cast(Floats, rankdata(one, axis=-1)) for one in (x, y))
    x, y = (one - one.mean(axis=-1, keepdims=True) for one in (x, y))
    above = (x * y).sum(axis=(0, 2))
    size = np.sqrt((x * x).sum(axis=(0, 2)) * (y * y).sum(axis=(0, 2)))
    found = np.full(len(above), np.nan)
    return cast(Floats, np.clip(np.divide(above, size, out=found, where=size > 1e-12), -1.0, 1.0))


def _places(n: int) -> NDArray[np.int64]:
    """Every way to move layers in a circle, forwards and read backwards: (2n, n)."""
    ahead = (np.arange(n) + np.arange(n)[:, None]) % n
    return np.concatenate([ahead, ahead[:, ::-1]])


def _runs(n: int, *, run: int, draws: int, seed: int) -> NDArray[np.int64]:
    """Layers in runs of neighbours, drawn with replacement until there are n of them: (draws, n)."""
    starts = np.random.default_rng(seed).integers(n, size=(draws, -(-n // run)))
    return ((starts[..., None] + np.arange(run)) % n).reshape(draws, -1)[:, :n]
