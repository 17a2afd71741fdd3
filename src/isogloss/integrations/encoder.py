"""What an export holds, as a record: a stack, a layer, how a sentence is made of its tokens, and what follows.

What follows is a list of two kinds of steps, which every format knows in some form: an affine map, and a division of
each row by its length. A fitted mapping with its normalisation is such a list, and so is centring.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from isogloss.mappings import Mapping, Normalisation
from isogloss.measures.retrieval import unit_rows
from isogloss.progress import Progress, silent
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Corpus
from isogloss.vectors.extract import Unit, vectors

Pooling = Literal["mean", "first"]
Side = Literal["source", "target"]
UNIT: dict[Pooling, Unit] = {"mean": "sentence", "first": "first"}


@dataclass(frozen=True, eq=False)
class Affine:
    """x W' + b, row by row: weight (d_out, d_in) or None for the identity, bias (d_out,), both float64."""

    weight: Tensor | None = field(repr=False)
    bias: Tensor = field(repr=False)

    def after(self, first: "Affine") -> "Affine":
        """The one map that does what `first` and then this one do."""
        if self.weight is None:
            return replace(first, bias=first.bias + self.bias)
        weight = self.weight if first.weight is None else self.weight @ first.weight
        return Affine(weight, self.weight @ first.bias + self.bias)


@dataclass(frozen=True)
class UnitLength:
    """Each row divided by its length."""


Step = Affine | UnitLength


@dataclass(frozen=True, eq=False)
class Encoder:
    """Text to sentence vectors: the states of `stack` at `layer`, pooled, then mapped, then centred.

    side: which of the mapping's two spaces these sentences are of; mean: (width,), float64, subtracted at the end.
    """

    stack: Stack
    layer: int
    pooling: Pooling = "mean"
    mapping: Mapping | None = None
    side: Side = "source"
    mean: Tensor | None = None

    @property
    def width(self) -> int:
        """Width of the vectors that come out."""
        if self.mapping is None or self.side == "target":
            return self.stack.width
        return int(self.mapping.weight.shape[0])

    @property
    def steps(self) -> list[Step]:
        """What follows the pooling, as few steps as there can be."""
        found = [] if self.mapping is None else mapping_steps(self.mapping, self.side)
        if self.mean is not None:
            found.append(Affine(None, -self.mean.double()))
        return joined(found)

    def vectors(self, corpus: Corpus, *, progress: Progress = silent) -> Tensor:
        """What isogloss itself gives, (sentences, width), float32: every export is held to this."""
        found = vectors(self.stack, corpus, layers=[self.layer], unit=UNIT[self.pooling], progress=progress)[0]
        if self.mapping is not None:
            found = mapped(found, self.mapping, self.side)
        return found if self.mean is None else found - self.mean.to(found.dtype)


def mapped(x: Tensor, mapping: Mapping, side: Side) -> Tensor:
    """Vectors of one side (n, d) where the other side's can be compared with them."""
    if side == "source":
        return mapping(x)
    return mapping.target(x) if mapping.restore == "normalised" else x


def mapping_steps(mapping: Mapping, side: Side) -> list[Step]:
    """The steps of `mapped`."""
    if side == "target":
        return normalisation_steps(mapping.target) if mapping.restore == "normalised" else []
    turn = Affine(mapping.weight.double(), torch.zeros(mapping.weight.shape[0], dtype=torch.float64))
    if mapping.restore == "raw":
        return [turn]
    if mapping.restore == "recentred":
        return [Affine(None, -mapping.source.mean), turn, Affine(None, mapping.target.mean)]
    return [*normalisation_steps(mapping.source), turn]


def normalisation_steps(normalisation: Normalisation) -> list[Step]:
    """Rounds of "divide each row by its length, subtract the mean", and a last division."""
    found: list[Step] = []
    for mean in normalisation.means:
        found += [UnitLength()] if normalisation.lengths else []
        found.append(Affine(None, -mean))
    return [*found, UnitLength()] if normalisation.lengths else found


def joined(steps: Sequence[Step]) -> list[Step]:
    """The same with neighbouring affine maps made one."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Affine) and found and isinstance(found[-1], Affine):
            found[-1] = step.after(found[-1])
        else:
            found.append(step)
    return found


def matrices(step: Affine) -> tuple[Tensor, Tensor]:
    """Weight (d_out, d_in) and bias (d_out,) in float32, as files hold them."""
    weight = torch.eye(len(step.bias), dtype=torch.float64) if step.weight is None else step.weight
    return weight.float().contiguous(), step.bias.float().contiguous()


def apply(steps: Sequence[Step], x: Tensor) -> Tensor:
    """The steps on x (n, d), in the precision of x."""
    for step in steps:
        if isinstance(step, Affine):
            x = (x if step.weight is None else x @ step.weight.to(x.dtype).T) + step.bias.to(x.dtype)
        else:
            x = unit_rows(x)
    return x
