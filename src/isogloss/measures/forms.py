"""Linear CKA of whole matrices in three forms at once: debiased, as printed with centring, and as printed without.

Papers print numbers of one form or another, and rarely say which. Here each form has its value, an interval and its
own floor, from the same items. The debiased one is `CkaStream`'s. The two printed ones come from d x d sums: since sums
add, the value without a block of items comes from the whole sums less the block's, which is what a delete-one-block
jackknife asks for. Their floors are exact means over all n! ways of shuffling the pairs. A printed form's interval says
how the value moves with the sentences, not how far it lies above what more sentences would give.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from isogloss.measures.blocks import block_size, even_blocks, jackknife_interval
from isogloss.measures.inputs import double, enough_for_cka, mean_row, paired
from isogloss.measures.stream import CkaStream, Estimate
from isogloss.measures.streaming import (
    PairSums,
    SideSums,
    cka_from_sums,
    floor_from_sums,
    pair_sums,
    ratio,
    shift,
    side_sums,
)

FORMS = ("cka", "cka_biased", "cka_uncentred")
BLOCKS = 20  # of the jackknife of the printed forms, about so many


def cka_forms(x: Tensor, y: Tensor, *, seed: int = 0) -> dict[str, Estimate]:
    """Each form of linear CKA of x (n, dx) and y (n, dy), n >= 4, by the name of its measure.

    The seed draws the order in which items make up blocks, and the shuffles of the debiased floor.

    >>> x = torch.arange(48.0).reshape(24, 2).sin()
    >>> [(name, round(one.value, 6)) for name, one in cka_forms(x, 3 * x).items()]
    [('cka', 1.0), ('cka_biased', 1.0), ('cka_uncentred', 1.0)]
    """
    x, y = paired(x, y)
    n = x.shape[0]
    enough_for_cka(n, biased=False)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(x.device)
    x, y = x[order], y[order]
    block, shuffles = block_size(n)
    stream = CkaStream([("x", "y")], block=block, shuffles=shuffles, seed=seed)
    stream.update({"x": x, "y": y})
    debiased = stream.estimate("x", "y")
    clipped = Estimate(debiased.value, max(debiased.low, -1.0), min(debiased.high, 1.0), debiased.floor, n)
    return {"cka": clipped, **_printed(x, y)}


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of both sides less their references (dx,) and (dy,)."""

    x: SideSums
    y: SideSums
    pair: PairSums
    references: tuple[Tensor, Tensor]

    def __add__(self, other: "_Sums") -> "_Sums":
        return _Sums(self.x + other.x, self.y + other.y, self.pair + other.pair, self.references)

    def __sub__(self, other: "_Sums") -> "_Sums":
        return _Sums(self.x - other.x, self.y - other.y, self.pair - other.pair, self.references)

    @property
    def biased(self) -> float:
        return cka_from_sums(self.x, self.y, self.pair, biased=True)

    @property
    def uncentred(self) -> float:
        return float(ratio(self._product(self.pair.cross, 0, 1), *self._own()))

    @property
    def uncentred_floor(self) -> float:
        """Shuffling leaves a Gram matrix its diagonal and the rest apart, each spread evenly: their sums are enough."""
        n = self.x.n
        diagonals, rests = [], []
        for side, reference in zip((self.x, self.y), self.references, strict=True):
            diagonal = side.square + 2 * reference @ side.total + n * reference.square().sum()
            diagonals.append(diagonal)
            rests.append((side.total + n * reference).square().sum() - diagonal)
        shuffled = diagonals[0] * diagonals[1] / n + rests[0] * rests[1] / (n * (n - 1))
        return float(ratio(shuffled, *self._own()))

    def _own(self) -> tuple[Tensor, Tensor]:
        return self._product(self.x.gram, 0, 0), self._product(self.y.gram, 1, 1)

    def _product(self, cross: Tensor, one: int, other: int) -> Tensor:
        """Squared size of A'B of the vectors as they were, from that of the shifted ones."""
        totals = (self.x.total, self.y.total)
        a, b = self.references[one], self.references[other]
        moved = torch.outer(totals[one], b) + torch.outer(a, totals[other] + self.x.n * b)
        return (cross + moved).square().sum()


def _printed(x: Tensor, y: Tensor) -> dict[str, Estimate]:
    n = x.shape[0]
    references = (mean_row(double(x[: block_size(n)[0]])), mean_row(double(y[: block_size(n)[0]])))
    blocks = even_blocks(n, -(-n // BLOCKS))

    def parts() -> Iterator[_Sums]:
        for rows in blocks:
            a, b = (shift(double(side[rows]), at) for side, at in zip((x, y), references, strict=True))
            yield _Sums(side_sums(a), side_sums(b), pair_sums(a, b), references)

    made = parts()
    whole = next(made)
    for one in made:
        whole = whole + one
    # Each block is summed a second time: to keep them all would take 20 times the memory of the sums.
    without = [_values(whole - one) for one in parts()] if len(blocks) > 2 else []
    floors = (floor_from_sums(whole.x, whole.y, biased=True), whole.uncentred_floor)
    found = {}
    lefts = torch.tensor(without, dtype=torch.float64).reshape(-1, 2).T  # (forms, blocks)
    for name, value, left, floor in zip(FORMS[1:], _values(whole), lefts, floors, strict=True):
        low, high = jackknife_interval(value, left)
        found[name] = Estimate(value, max(low, 0.0), min(high, 1.0), floor, n)
    return found


def _values(sums: _Sums) -> tuple[float, float]:
    return sums.biased, sums.uncentred
