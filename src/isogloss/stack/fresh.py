"""Fresh blocks on a lower part of a model: what is below the cut stays, what is above it begins anew."""

from dataclasses import replace
from typing import Any

import torch

from isogloss.errors import InputError
from isogloss.seeds import seeded
from isogloss.stack.stack import Stack, module_at


def with_fresh_blocks(stack: Stack, cut: int, *, count: int, seed: int) -> Stack:
    """A new stack: embeddings and blocks 1 to `cut` of this one, and `count` fresh blocks of its own kind above them.

    The lower part is a copy, equal to the bit; blocks above it, and a final norm where the model has one, are as the
    model's own class draws them, from the seed alone; the global random state is left as it was. Its depth is
    cut + count, whatever the depth of the model was.

    >>> with_fresh_blocks(stack, 4, count=4, seed=0).cuts  # doctest: +SKIP
    range(0, 9)
    """
    if stack.family.kind != "encoder" or stack.first != 0:
        raise InputError(f"{stack.name} cannot be cut: fresh blocks stand on the lower part of a whole encoder")
    if not 0 <= cut <= stack.last:
        raise InputError(f"{stack.name} has cuts 0 to {stack.last}; fresh blocks cannot stand on cut {cut}")
    if count < 1:
        raise InputError(f"at least 1 fresh block is needed, not {count}")
    with seeded(seed):
        model = type(stack.model)(_deep(stack.model.config, cut + count))
    known = stack.model.state_dict()
    kept = tuple(f"{stack.family.blocks}.{number}." for number in range(cut))
    above = tuple(f"{name}." for name in (stack.family.norm, "pooler") if name)
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            block = name.startswith(f"{stack.family.blocks}.")
            if name.startswith(kept) if block else not name.startswith(above):
                weight.copy_(known[name])
    model = model.to(stack.device, stack.dtype).eval()
    return replace(stack, model=model, last=len(module_at(model, stack.family.blocks)))


def _deep(config: Any, depth: int) -> Any:
    """The configuration of a model of another depth; what it lists by block goes on as its class has it."""
    facts = config.to_dict()
    for listed in ("layer_types", "transformers_version", "model_type"):
        facts.pop(listed, None)
    own = next(name for name in ("num_hidden_layers", "n_layers") if name in facts)
    made = type(config)(**{**facts, own: depth})
    made._attn_implementation = config._attn_implementation
    return made
