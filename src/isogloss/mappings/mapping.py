"""A fitted map from one space to another, with what was done to both of them before.

Row convention: a mapped row is x W', with W of shape (width of y, width of x).
"""

from dataclasses import dataclass, field, replace

from torch import Tensor

from isogloss.errors import InputError
from isogloss.mappings.normalise import Normalisation

RESTORES = ("normalised", "recentred", "raw")


@dataclass(frozen=True, eq=False)
class Mapping:
    """`mapping(x)` takes vectors of the source space to the target space.

    weight: W (d_y, d_x), float64. source, target: how each space was normalised before W was fitted. pairs: how many it
    was fitted on. restore says in which terms a mapped vector is given:

        normalised   W n_x(x), to be compared with mapping.target(y), or read by what was trained on such vectors
        recentred    W (x - mean_x) + mean_y, the target space's own place, lengths as they are
        raw          W x, as if nothing had been normalised

    Blocks trained on states as they are want one of the latter two: `chain(a[:4], w.restored("recentred"), b[4:])`.
    """

    method: str
    weight: Tensor = field(repr=False)
    source: Normalisation
    target: Normalisation
    pairs: int
    restore: str = "normalised"

    def __post_init__(self) -> None:
        if self.restore not in RESTORES:
            raise InputError(f"restore {self.restore!r} is not known; choose {', '.join(RESTORES)}")

    @property
    def underdetermined(self) -> bool:
        """Whether it was fitted on fewer pairs than there are directions.

        Then many maps fit the pairs equally well, and this is one of them: in directions the pairs do not span it is
        arbitrary (a rotation) or zero (least squares, ridge).
        """
        return 0 < self.pairs < self.weight.shape[1]

    def restored(self, restore: str) -> "Mapping":
        """The same mapping with its vectors given in other terms."""
        return replace(self, restore=restore)

    def __call__(self, x: Tensor) -> Tensor:
        """Map x (n, d_x) to (n, d_y), in the precision and on the device of x."""
        if x.shape[-1] != self.weight.shape[1]:
            raise InputError(f"these vectors have width {x.shape[-1]} and the mapping takes {self.weight.shape[1]}")
        if self.restore == "normalised":
            return self._turn(self.source(x))
        if self.restore == "raw":
            return self._turn(x)
        return self._turn(x - _like(self.source.mean, x)) + _like(self.target.mean, x)

    def _turn(self, x: Tensor) -> Tensor:
        return x @ _like(self.weight, x).T


def _like(tensor: Tensor, x: Tensor) -> Tensor:
    return tensor.to(x.dtype).to(x.device)
