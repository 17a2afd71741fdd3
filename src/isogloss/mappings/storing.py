"""Mappings as safetensors files: the matrices, and what they are in the file's metadata."""

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from isogloss.errors import InputError
from isogloss.files import whole
from isogloss.mappings.mapping import Mapping
from isogloss.mappings.normalise import Normalisation

FORMAT = "isogloss mapping 1"
_SIDES = ("source", "target")


def save(mapping: Mapping, path: str | os.PathLike[str]) -> Path:
    """Write a mapping to a safetensors file, whole or not at all; returns where it is.

    >>> save(procrustes(x, y), "w.safetensors")  # doctest: +SKIP
    """
    place = Path(path)
    tensors = {"weight": mapping.weight.contiguous()}
    facts = {"format": FORMAT, "method": mapping.method, "pairs": str(mapping.pairs), "restore": mapping.restore}
    for side in _SIDES:
        one: Normalisation = getattr(mapping, side)
        tensors |= {f"{side}.means": one.means.contiguous(), f"{side}.mean": one.mean.contiguous()}
        facts |= {f"{side}.kind": one.kind, f"{side}.lengths": str(one.lengths)}
    place.parent.mkdir(parents=True, exist_ok=True)
    with whole(place) as beside:
        save_file(tensors, beside, metadata=facts)
    return place


def load_mapping(path: str | os.PathLike[str]) -> Mapping:
    """The mapping that `save` wrote; a file that is missing, damaged or something else is an InputError."""
    place = Path(path)
    if not place.is_file():
        raise InputError(f"there is no file {place}; a mapping is what ig.save wrote")
    try:
        with safe_open(place, framework="pt") as file:
            facts: dict[str, str] = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{place} is damaged, cut off or no safetensors file ({error}); save it again") from error
    if facts.get("format") != FORMAT:
        raise InputError(f"{place} holds tensors, but no mapping that ig.save wrote")
    try:
        sides = [_side(name, facts, tensors) for name in _SIDES]
        weight, pairs = tensors["weight"], int(facts["pairs"])
        found = Mapping(facts["method"], weight, sides[0], sides[1], pairs, facts["restore"])
    except (KeyError, ValueError) as error:
        raise InputError(f"{place} lacks a part of a mapping ({error}); save it again") from error
    widths = (found.target.width, found.source.width)
    if weight.dtype != torch.float64 or tuple(weight.shape) != widths:
        raise InputError(f"{place}: the parts of the mapping do not fit each other; save it again")
    return found


def _side(name: str, facts: dict[str, Any], tensors: dict[str, Tensor]) -> Normalisation:
    lengths = facts[f"{name}.lengths"] == "True"
    return Normalisation(facts[f"{name}.kind"], tensors[f"{name}.means"], lengths, tensors[f"{name}.mean"])
