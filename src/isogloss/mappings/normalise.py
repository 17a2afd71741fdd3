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

from dataclasses import dataclass, field

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import matrix
from isogloss.measures.neighbours import unit_rows

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


def normalisation(space: Tensor, kind: str = "iterative", *, rounds: int = ROUNDS) -> Normalisation:
    """The normalisation of a whole space (n, d); `rounds` are those of "iterative".

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> shaped = normalisation(space)(space)
    >>> [round(one, 4) for one in shaped.norm(dim=1).tolist()], bool((shaped.mean(dim=0).abs() < 0.2).all())
    ([1.0, 1.0, 1.0], True)
    """
    if kind not in NORMALISATIONS:
        raise InputError(f"normalisation {kind!r} is not known; choose {', '.join(NORMALISATIONS)}")
    if rounds < 1:
        raise InputError(f"iterative normalisation takes at least 1 round, not {rounds}")
    space = matrix(space, name="the space")
    lengths = kind in ("length", "iterative")
    raw = _mean(space)
    means = []
    for _ in range({"centred": 1, "iterative": rounds}.get(kind, 0)):
        space = unit_rows(space) if lengths else space
        means.append(_mean(space))
        space = space - means[-1].to(space.dtype).to(space.device)
    empty = torch.zeros((0, space.shape[1]), dtype=torch.float64)
    return Normalisation(kind, torch.stack(means) if means else empty, lengths, raw)


def _mean(x: Tensor) -> Tensor:
    """Mean of the rows in float64, on the CPU, without a copy of all rows in float64."""
    x = x.cpu() if x.device.type == "mps" else x
    return x.mean(dim=0, dtype=torch.float64).cpu()
