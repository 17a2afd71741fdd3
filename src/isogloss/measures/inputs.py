"""The border of the measures: what comes in is checked once here, and trusted inside."""

import math
from collections.abc import Callable
from dataclasses import fields
from operator import add, sub
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError, require


def matrix(x: Any, *, name: str = "x", at_least: int = 1) -> Tensor:
    """`x`, a tensor or an array of shape (n, d), as a detached tensor in float32 or float64; else an `InputError`.

    Half precision becomes float32. Values that are not finite are refused: a NaN compares as neither greater nor
    smaller, so that in a ranking it would look like a perfect score.
    """
    x = numbers_of(x, name)
    require(x.ndim == 2, f"{name} must have two dimensions (items, width), not shape {tuple(x.shape)}")
    require(x.shape[0] >= at_least, f"{name} has {x.shape[0]} items; this measure needs at least {at_least}")
    require(x.shape[1] > 0, f"{name} has vectors of width 0")
    # The extremes are NaN or infinite if any value is, and take one pass without a copy.
    if x.shape[0] and not all(map(math.isfinite, torch.stack(torch.aminmax(x)).tolist())):
        row = int((~torch.isfinite(x).all(dim=1)).nonzero()[0])
        raise InputError(f"{name} holds a value that is not finite, first in row {row}; drop that item or mend it")
    return x


def numbers_of(x: Any, name: str) -> Tensor:
    """`x`, a tensor or an array, as a detached tensor in float32 or float64, which all else is made float32."""
    x = tensor_of(x, name).detach()
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def tensor_of(x: Any, name: str) -> Tensor:
    """`x`, a tensor or something that numpy makes an array of numbers of, as a tensor."""
    if isinstance(x, Tensor):
        return x
    try:
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))  # copied where it is read-only
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a tensor or an array of numbers, (items, width): {error}") from None


def paired(x: Tensor, y: Tensor, *, at_least: int = 1) -> tuple[Tensor, Tensor]:
    """`x` (n, dx) and `y` (n, dy), checked, with as many rows each: row i of one corresponds to row i of the other."""
    x, y = matrix(x, name="x", at_least=at_least), matrix(y, name="y", at_least=at_least)
    if x.shape[0] != y.shape[0]:
        raise InputError(f"x has {x.shape[0]} items and y has {y.shape[0]}; row i of x must correspond to row i of y")
    return x, y


def same_width(x: Tensor, y: Tensor, why: str) -> None:
    """Refuse x (n, dx) and y (m, dy) of different widths; `why` ends the sentence."""
    require(x.shape[1] == y.shape[1], f"x has width {x.shape[1]} and y has width {y.shape[1]}; {why}")


def double(x: Tensor) -> Tensor:
    """`x` in float64, moved to the CPU where its device has no float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def centre_rows(x: Tensor) -> Tensor:
    """Vectors (..., n, d) less their mean over the n items, which is exact where all are equal.

    Averaging the differences to the first item keeps constant vectors exactly constant: after the shift they are zero,
    and not rounding noise that a normalised measure would blow up to full size.
    """
    first = x[..., :1, :]
    return x - (first + (x - first).mean(dim=-2, keepdim=True))


def shuffled_orders(n: int, *, seed: int, shuffles: int) -> list[Tensor]:
    """Random orders of n items, (n,) each, on the CPU: one seed gives the same on every device, and indexes all."""
    require(shuffles >= 1, f"shuffles must be at least 1, not {shuffles}")
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(n, generator=generator) for _ in range(shuffles)]


class Sums:
    """What dataclasses of sums have in common: `+` and `-` work field by field, so that parts of a text can be pooled.

    Sums and counts are carried, and ratios are formed last.
    """

    def __add__(self, other: Self) -> Self:
        return self._by_field(add, other)

    def __sub__(self, other: Self) -> Self:
        return self._by_field(sub, other)

    def _by_field(self, operation: Callable[[Any, Any], Any], other: Self) -> Self:
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return type(self)(*(operation(getattr(self, name), getattr(other, name)) for name in names))
