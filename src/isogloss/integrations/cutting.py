"""A stack cut at a layer, as a `transformers` model of its own that `from_pretrained` reads.

Weights are shared with the stack until they are written. A pooler is left out: no cut reads it, and one that was
trained on another layer would mean nothing.
"""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from isogloss.errors import InputError
from isogloss.stack.load import quietly
from isogloss.stack.stack import Stack, graft, module_at


def cut_model(stack: Stack, layer: int, *, spare: bool = False) -> Any:
    """The model with its first `layer` blocks.

    A pre-norm model normalises whatever its last block gives, so the raw output of block k is to be had only as what
    block k + 1 reads. `spare` adds such a block above the cut: all its weights are zero, so it adds nothing.
    """
    from transformers import AutoModel

    kept = list(module_at(stack.model, stack.family.blocks))[:layer]
    config = cut_config(stack.model.config, layer + spare)
    if spare:
        with torch.device("meta"):
            skeleton = AutoModel.from_config(config)
        block = module_at(skeleton, stack.family.blocks)[layer].to_empty(device="cpu").to(torch.float32)
        for tensor in block.state_dict().values():
            tensor.zero_()
        kept.append(block)
    model = graft(stack.model, stack.family.blocks, nn.ModuleList(kept))
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
