"""How a space is brought into shape before it is mapped, as a record that treats new vectors alike.

All ways are one way with other settings: rounds of "divide each row by its length, subtract the mean", and a last
division by length.

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

from isogloss.errors import InputError
from isogloss.measures.inputs import matrix
from isogloss.measures.retrieval import unit_rows

NORMALISATIONS = ("none", "centred", "length", "iterative")
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Normalisation:
    """What is done to the vectors of one space.

    means: (rounds, d), float64, the mean subtracted in each round; lengths: whether rows are divided by their lengths,
    before each subtraction and once after the last. mean: (d,), float64, of the space as it came.
    """

    kind: str
    means: Tensor = field(repr=False)
    lengths: bool
    mean: Tensor = field(repr=False)

    @property
    def width(self) -> int:
        """Width of the vectors it takes."""
        return self.mean.shape[0]

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x (n, d) as the space was, in the precision of x."""
        if x.shape[-1] != self.width:
            raise InputError(f"these vectors have width {x.shape[-1]} and the space has width {self.width}")
        for mean in self.means:
            x = (unit_rows(x) if self.lengths else x) - mean.to(x.dtype).to(x.device)
        return unit_rows(x) if self.lengths else x


def normalisation(space: Tensor, kind: str = "iterative") -> Normalisation:
    """The normalisation of a whole space (n, d).

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> shaped = normalisation(space)(space)
    >>> [round(length, 4) for length in shaped.norm(dim=1).tolist()], bool((shaped.mean(dim=0).abs() < 0.2).all())
    ([1.0, 1.0, 1.0], True)
    """
    count, lengths = _rounds(kind)
    space = matrix(space, name="the space")
    n, d = space.shape
    raw = _double_sum(space) / n
    means = torch.zeros((count, d), dtype=torch.float64)
    for mean in means:
        space = unit_rows(space) if lengths else space
        mean[:] = _double_sum(space) / n
        space = space - mean.to(space.dtype).to(space.device)
    return Normalisation(kind, means, lengths, raw)


def streamed_normalisations(read: Callable[[], Iterable[Tensor]], kind: str = "iterative") -> list[Normalisation]:
    """`normalisation` of several spaces that are too large to be held, such as all words of a text at every layer.

    read: gives the vectors again each time it is called, in chunks (spaces, n, d); it is called once a round, and once
    where there is none.

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> (streamed,) = streamed_normalisations(lambda: [space[None, :2], space[None, 2:]])
    >>> bool(torch.allclose(streamed.means, normalisation(space).means))
    True
    """
    count, lengths = _rounds(kind)
    shapes: list[Normalisation] = []
    for _ in range(max(1, count)):
        raw, shaped, n = list[Tensor](), list[Tensor](), 0
        for chunk in read():
            n += chunk.shape[1]
            parts = [matrix(space, name="a space") for space in chunk]
            none = torch.zeros((0, chunk.shape[2]), dtype=torch.float64)
            shapes = shapes or [Normalisation(kind, none, lengths, none.sum(dim=0)) for _ in parts]
            # The last division of what is known so far is the first of this round.
            turned = [shape(part) for shape, part in zip(shapes, parts, strict=True)]
            raw, shaped = _added(raw, parts), _added(shaped, turned)
        if not n:
            raise InputError("there are no vectors to take the means of")
        shapes = [
            replace(shape, means=torch.cat([shape.means, total[None] / n])[:count], mean=own / n)
            for shape, total, own in zip(shapes, shaped, raw, strict=True)
        ]
    return shapes


def _added(totals: list[Tensor], parts: list[Tensor]) -> list[Tensor]:
    """Sums of rows, each (d,), with those of these parts (n, d) added."""
    sums = [_double_sum(part) for part in parts]
    return [total + added for total, added in zip(totals, sums, strict=True)] if totals else sums


def _rounds(kind: str) -> tuple[int, bool]:
    """How often a mean is subtracted, and whether rows are divided by their lengths."""
    if kind not in NORMALISATIONS:
        raise InputError(f"normalisation {kind!r} is not known; choose {', '.join(NORMALISATIONS)}")
    return {"centred": 1, "iterative": ROUNDS}.get(kind, 0), kind in ("length", "iterative")


def _double_sum(x: Tensor) -> Tensor:
    """Sum of the rows in float64, on the CPU, without a copy of all rows in float64."""
    x = x.cpu() if x.device.type == "mps" else x
    return x.sum(dim=0, dtype=torch.float64).cpu()
