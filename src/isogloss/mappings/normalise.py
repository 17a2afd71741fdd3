"""Normalise a vector space before it is mapped, and apply the same normalisation to new vectors later.

Every kind is a number of rounds of "divide each row by its length (r), subtract the mean (c)", and a last division.

    none        nothing
    centred     subtract the mean
    length      divide by length
    iterative   five rounds and a last division: r c r c r c r c r c r (Zhang et al. 2019)

After the last one every row has length one *and* the mean is nearly zero, which a rotation needs: it can turn a space,
but neither shift nor stretch it. Means are those of the whole space of a language, not of the dictionary's rows only,
and they are kept: a vector that comes later is divided and shifted by the same numbers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.inputs import matrix
from isogloss.measures.retrieval import unit_rows

NORMALISATIONS = ("none", "centred", "length", "iterative")
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Normalisation:
    """What is done to the vectors of one space.

    means: (rounds, d), float64, the mean subtracted in each round. mean: (d,), float64, of the space as it came.
    """

    kind: str
    means: Tensor = field(repr=False)
    mean: Tensor = field(repr=False)

    @property
    def lengths(self) -> bool:
        """Whether rows are divided by their lengths, before each subtraction and once after the last."""
        return self.kind in ("length", "iterative")

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x (n, d) as the space was, in the precision of x."""
        if x.shape[-1] != len(self.mean):
            raise InputError(f"these vectors have width {x.shape[-1]} and the space has width {len(self.mean)}")
        for mean in self.means:
            x = (unit_rows(x) if self.lengths else x) - mean.to(x)
        return unit_rows(x) if self.lengths else x


def normalisation(space: Tensor, kind: str = "iterative") -> Normalisation:
    """The normalisation of a whole space (n, d).

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> shaped = normalisation(space)(space)
    >>> [round(length, 4) for length in shaped.norm(dim=1).tolist()], bool((shaped.mean(dim=0).abs() < 0.2).all())
    ([1.0, 1.0, 1.0], True)
    """
    whole = matrix(space, name="the space")
    return streamed_normalisations(lambda: [whole[None]], kind)[0]


def streamed_normalisations(read: Callable[[], Iterable[Tensor]], kind: str = "iterative") -> list[Normalisation]:
    """`normalisation` of several spaces that are too large to be held, such as all words of a text at every layer.

    read: gives the vectors again each time it is called, in chunks (spaces, n, d); it is called once a round, and once
    where there is none.

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> (streamed,) = streamed_normalisations(lambda: [space[None, :2], space[None, 2:]])
    >>> bool(torch.allclose(streamed.means, normalisation(space).means))
    True
    """
    require(kind in NORMALISATIONS, f"normalisation {kind!r} is not known; choose {', '.join(NORMALISATIONS)}")
    rounds = {"centred": 1, "iterative": ROUNDS}.get(kind, 0)
    shapes: list[Normalisation] = []
    for _ in range(max(1, rounds)):
        totals, n = None, 0  # sums of the rows, as they came and as they are normalised so far, (2, spaces, d)
        for chunk in read():
            n += chunk.shape[1]
            parts = [matrix(space, name="a space") for space in chunk]
            none = torch.zeros((0, chunk.shape[2]), dtype=torch.float64)
            shapes = shapes or [Normalisation(kind, none, none.sum(dim=0)) for _ in parts]
            # The last division of what is known so far is the first of this round.
            shaped = [shape(part) for shape, part in zip(shapes, parts, strict=True)]
            sums = torch.stack([torch.stack([_double_sum(part) for part in side]) for side in (parts, shaped)])
            totals = sums if totals is None else totals + sums
        if totals is None or not n:
            raise InputError("there are no vectors to take the means of")
        shapes = [
            replace(shape, means=torch.cat([shape.means, total[None] / n])[:rounds], mean=own / n)
            for shape, own, total in zip(shapes, *totals, strict=True)
        ]
    return shapes


def _double_sum(x: Tensor) -> Tensor:
    """Sum of the rows in float64, without a copy of all rows in float64; it is returned on the CPU."""
    x = x.cpu() if x.device.type == "mps" else x
    return x.sum(dim=0, dtype=torch.float64).cpu()
