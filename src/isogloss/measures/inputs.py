"""Validation of the inputs of measures: checked once here, and trusted by the measures."""

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
    """Validate `x`, a tensor or array (n, d), and return it as a detached tensor in float32 or float64.

    Half precision is converted to float32. Values that are not finite raise an `InputError`: a NaN compares as neither
    greater nor smaller, so that in a ranking it would look like a perfect score.
    """
    x = numbers_of(x, name)
    require(x.ndim == 2, f"{name} must have two dimensions (items, width), not shape {tuple(x.shape)}")
    require(x.shape[0] >= at_least, f"{name} has {x.shape[0]} items; this measure needs at least {at_least}")
    require(x.shape[1] > 0, f"{name} has vectors of width 0")
    # The extremes are NaN or infinite if any value is, and take one pass without a copy.
    if x.shape[0] and not all(map(math.isfinite, torch.stack(torch.aminmax(x)).tolist())):
        row = int((~torch.isfinite(x).all(dim=1)).nonzero()[0])
        raise InputError(f"{name} holds a value that is not finite, first in row {row}; drop that item or correct it")
    return x


def numbers_of(x: Any, name: str) -> Tensor:
    """`x`, a tensor or an array, as a detached tensor in float32 or float64; other types become float32."""
    x = tensor_of(x, name).detach()
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def tensor_of(x: Any, name: str) -> Tensor:
    """Convert `x`, a tensor or anything that numpy converts to an array of numbers, to a tensor."""
    if isinstance(x, Tensor):
        return x
    try:
        return torch.from_numpy(np.require(x, requirements=["C", "W"]))  # copied if it is read-only
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a tensor or an array of numbers, (items, width): {error}") from None


def paired(x: Tensor, y: Tensor, *, at_least: int = 1) -> tuple[Tensor, Tensor]:
    """Validate `x` (n, dx) and `y` (n, dy), whose rows correspond, so that their numbers must be equal."""
    x, y = matrix(x, name="x", at_least=at_least), matrix(y, name="y", at_least=at_least)
    if x.shape[0] != y.shape[0]:
        raise InputError(f"x has {x.shape[0]} items and y has {y.shape[0]}; row i of x must correspond to row i of y")
    return x, y


def same_width(x: Tensor, y: Tensor, why: str) -> None:
    """Raise if x (n, dx) and y (m, dy) have different widths; `why` ends the sentence."""
    require(x.shape[1] == y.shape[1], f"x has width {x.shape[1]} and y has width {y.shape[1]}; {why}")


def double(x: Tensor) -> Tensor:
    """Convert `x` to float64, on the CPU if its device does not support float64."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def centre_rows(x: Tensor) -> Tensor:
    """Subtract the mean over the n items from vectors (..., n, d), exactly if all items are equal.

    The mean is taken over differences to the first item, so that constant vectors become exactly zero and not rounding
    noise that a normalised measure would amplify.
    """
    first = x[..., :1, :]
    return x - (first + (x - first).mean(dim=-2, keepdim=True))


def shuffled_order(n: int, seed: int) -> Tensor:
    """A random permutation of n items, (n,), on the CPU, so that a seed gives the same one on every device."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


class Sums:
    """Base class of dataclasses of sums: `+` and `-` work field by field, so that parts of a text can be pooled.

    Sums and counts are kept, and ratios are formed last.
    """

    def __add__(self, other: Self) -> Self:
        return self._by_field(add, other)

    def __sub__(self, other: Self) -> Self:
        return self._by_field(sub, other)

    def _by_field(self, operation: Callable[[Any, Any], Any], other: Self) -> Self:
        names = (field.name for field in fields(self))  # type: ignore[arg-type]
        return type(self)(*(operation(getattr(self, name), getattr(other, name)) for name in names))
