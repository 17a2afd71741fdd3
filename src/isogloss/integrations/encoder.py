"""What an export holds: a stack, a layer, how a sentence is made of its tokens, and the linear steps that follow.

What follows is a list of two kinds of steps, which every format knows in some form: an affine map, and a division of
each row by its length. A fitted mapping with its normalisation is such a list, and so is centring.

`cut_model` is the stack cut at a layer as a `transformers` model of its own that `from_pretrained` reads. Weights are
shared with the stack until they are written. A pooler is left out: no cut reads it, and one that was trained on another
layer would mean nothing.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.mappings import Mapping, Normalisation
from isogloss.progress import Progress, silent
from isogloss.stack.load import quietly
from isogloss.stack.stack import Stack, graft, module_at
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
        steps = [] if self.mapping is None else mapping_steps(self.mapping, self.side)
        if self.mean is not None:
            steps.append(Affine(None, -self.mean.double()))
        return joined(steps)

    def vectors(self, corpus: Corpus, *, progress: Progress = silent) -> Tensor:
        """What isogloss itself gives, (sentences, width), float32: every export is held to this."""
        pooled = vectors(self.stack, corpus, layers=[self.layer], unit=UNIT[self.pooling], progress=progress)[0]
        if self.mapping is not None:
            pooled = mapped(pooled, self.mapping, self.side)
        return pooled if self.mean is None else pooled - self.mean.to(pooled.dtype)


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
    steps: list[Step] = []
    for mean in normalisation.means:
        steps += [UnitLength()] if normalisation.lengths else []
        steps.append(Affine(None, -mean))
    return [*steps, UnitLength()] if normalisation.lengths else steps


def joined(steps: Sequence[Step]) -> list[Step]:
    """The same with neighbouring affine maps made one."""
    merged: list[Step] = []
    for step in steps:
        if isinstance(step, Affine) and merged and isinstance(merged[-1], Affine):
            merged[-1] = step.after(merged[-1])
        else:
            merged.append(step)
    return merged


def matrices(step: Affine) -> tuple[Tensor, Tensor]:
    """Weight (d_out, d_in) and bias (d_out,) in float32, as files hold them."""
    weight = torch.eye(len(step.bias), dtype=torch.float64) if step.weight is None else step.weight
    return weight.float().contiguous(), step.bias.float().contiguous()


def cut_model(stack: Stack, layer: int, *, spare: bool = False) -> Any:
    """The model with its first `layer` blocks.

    A pre-norm model normalises whatever its last block gives, so the raw output of block k is to be had only as what
    block k + 1 reads. `spare` adds such a block above the cut: all its weights are zero, so it adds nothing.
    """
    from transformers import AutoModel

    blocks = list(module_at(stack.model, stack.family.blocks))[:layer]
    config = cut_config(stack.model.config, layer + spare)
    if spare:
        with torch.device("meta"):
            skeleton = AutoModel.from_config(config)
        block = module_at(skeleton, stack.family.blocks)[layer].to_empty(device="cpu").to(torch.float32)
        for tensor in block.state_dict().values():
            tensor.zero_()
        blocks.append(block)
    model = graft(stack.model, stack.family.blocks, nn.ModuleList(blocks))
    if "pooler" in model._modules:
        model._modules["pooler"] = None
    model.config = config
    return model


def cut_config(config: Any, depth: int) -> Any:
    """The configuration for another number of blocks; kinds of layers beyond the last are as the last."""
    changed = copy.deepcopy(config)
    changed.num_hidden_layers = depth
    kinds = getattr(config, "layer_types", None)
    if kinds:
        changed.layer_types = [*kinds, *[kinds[-1]] * depth][:depth]
    try:
        return type(config).from_dict(changed.to_dict())
    except Exception as error:  # what a configuration raises differs by family and version
        raise InputError(
            f"transformers makes no {config.model_type} of {depth} blocks; cut it at another layer, or take another "
            "format"
        ) from error


def write_model(folder: Path, stack: Stack, layer: int, *, spare: bool = False) -> None:
    """Weights in float32 and configuration of the cut model, and the tokenizer."""
    with quietly():
        cut_model(stack, layer, spare=spare).save_pretrained(folder)
    write_tokenizer(folder, stack)


def write_tokenizer(folder: Path, stack: Stack) -> None:
    """The tokenizer, which cuts sentences where isogloss does."""
    tokenizer = copy.deepcopy(stack.tokenizer)
    tokenizer.model_max_length = stack.max_length
    if tokenizer.is_fast:  # for those who read tokenizer.json alone, whatever the last call asked for
        tokenizer.backend_tokenizer.enable_truncation(stack.max_length)
        tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
