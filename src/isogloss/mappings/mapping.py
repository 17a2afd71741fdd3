"""A fitted map from one space to another, with the normalisation of both, and its safetensors file.

Row convention: a mapped row is x W', with W of shape (width of y, width of x). A file contains the matrices, and their
description in its metadata.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from isogloss.errors import InputError, readable, require
from isogloss.files import whole
from isogloss.mappings.normalise import REMOVALS, Normalisation

RESTORES = ("normalised", "recentred", "raw")
FORMAT = "isogloss mapping 1"
_SIDES = ("source", "target")


@dataclass(frozen=True, eq=False)
class Mapping:
    """`mapping(x)` maps vectors of the source space to the target space.

    weight: W (d_y, d_x), float64. source, target: the normalisation of each space before W was fitted. pairs: the
    number of pairs it was fitted on. restore: the form of a mapped vector:

        normalised   W n_x(x), comparable with mapping.target(y), for models trained on such vectors
        recentred    W (x - mean_x) + mean_y, centred like the target space, with norms unchanged
        raw          W x, without any normalisation

    Blocks trained on unnormalised states need one of the last two: `chain(a[:4], w.restored("recentred"), b[4:])`.
    """

    method: str
    weight: Tensor = field(repr=False)
    source: Normalisation
    target: Normalisation
    pairs: int
    restore: str = "normalised"

    def __post_init__(self) -> None:
        require(self.restore in RESTORES, f"restore {self.restore!r} is not known; choose {', '.join(RESTORES)}")
        lost = self.restore != "normalised" and self.source.removed is not None
        require(
            not lost, f"restore {self.restore!r} would bring back what {self.source.kind} removes; use 'normalised'"
        )

    @property
    def underdetermined(self) -> bool:
        """Whether it was fitted on fewer pairs than there are dimensions.

        Then many maps fit the pairs equally well: in directions that the pairs do not span, this one is arbitrary (a
        rotation) or zero (least squares, ridge).
        """
        return 0 < self.pairs < self.weight.shape[1]

    def restored(self, restore: str) -> "Mapping":
        """Return the mapping with another value of `restore`."""
        return replace(self, restore=restore)

    def __call__(self, x: Tensor) -> Tensor:
        """Map x (n, d_x) to (n, d_y), in the precision (of whole numbers float32) and on the device of x."""
        if not isinstance(x, Tensor):
            raise InputError(f"a mapping takes vectors, a tensor (n, {self.weight.shape[1]}), not {x!r:.60}")
        if x.shape[-1] != self.weight.shape[1]:
            raise InputError(f"these vectors have width {x.shape[-1]} and the mapping takes {self.weight.shape[1]}")
        x = x if x.is_floating_point() else x.float()
        weight = self.weight.to(x)
        if self.restore == "recentred":
            return (x - self.source.mean.to(x)) @ weight.T + self.target.mean.to(x)
        return (self.source(x) if self.restore == "normalised" else x) @ weight.T


def save(mapping: Mapping, path: str | os.PathLike[str]) -> Path:
    """Write a mapping to a safetensors file, completely or not at all; returns its path.

    >>> save(procrustes(x, y), "w.safetensors")  # doctest: +SKIP
    """
    file, kind = Path(path), type(mapping).__name__
    require(isinstance(mapping, Mapping), f"ig.save writes a mapping, such as that of ig.procrustes, not a {kind}")
    require(not file.is_dir(), f"{file} is a folder; give the name of a file, as in {file / 'mapping.safetensors'}")
    tensors = {"weight": mapping.weight}
    facts = {"format": FORMAT, "method": mapping.method, "pairs": str(mapping.pairs), "restore": mapping.restore}
    for side in _SIDES:
        shape: Normalisation = getattr(mapping, side)
        tensors |= {f"{side}.means": shape.means, f"{side}.mean": shape.mean}
        tensors |= {} if shape.removed is None else {f"{side}.removed": shape.removed}
        facts |= {f"{side}.kind": shape.kind, f"{side}.lengths": str(shape.lengths)}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{file.parent} cannot be made: {error.strerror}; choose another folder") from error
    # Both sides may share one removal, but the tensors of a file must not share memory.
    apart = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    with whole(file) as beside:
        save_file(apart, beside, metadata=facts)
    return file


def load_mapping(path: str | os.PathLike[str]) -> Mapping:
    """Load a mapping written by `save`; a file that is missing, damaged or of another kind is an InputError."""
    file = Path(path)
    require(file.is_file(), f"there is no file {file}; mappings are files written by ig.save")
    damaged = readable(file, "is damaged, cut off or no safetensors file", "save it again")
    with damaged, safe_open(file, framework="pt") as opened:
        facts: dict[str, str] = opened.metadata() or {}
        tensors: dict[str, Tensor] = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    require(facts.get("format") == FORMAT, f"{file} holds tensors, but no mapping written by ig.save")
    with readable(file, "lacks a part of a mapping", "save it again"):
        source, target = (_side(side, facts[f"{side}.kind"], tensors) for side in _SIDES)
        weight = tensors["weight"]
        mapping = Mapping(
            facts["method"], weight, source=source, target=target, pairs=int(facts["pairs"]), restore=facts["restore"]
        )
    if weight.dtype != torch.float64 or tuple(weight.shape) != (len(target.mean), len(source.mean)):
        raise InputError(f"{file}: the parts of the mapping do not fit each other; save it again")
    return mapping


def _side(side: str, kind: str, tensors: dict[str, Tensor]) -> Normalisation:
    """The normalisation of one side, from the tensors of a file."""
    names = ("means", "mean", "removed") if kind in REMOVALS else ("means", "mean")
    return Normalisation(kind, *(tensors[f"{side}.{name}"] for name in names))
