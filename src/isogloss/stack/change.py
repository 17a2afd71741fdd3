"""Freezing and re-initialising parts of a stack, by exact layer numbers."""

import copy
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from isogloss.errors import InputError
from isogloss.stack.stack import Stack, _module


def freeze(stack: Stack, n: int) -> Stack:
    """Freeze the embeddings and blocks 1..n; the rest of the stack trains.

    n = 0 freezes the embeddings only, n = -1 nothing. Sets `requires_grad` on the stack's own weights and returns
    the stack. An output head tied to the embeddings is frozen with them.
    """
    if not -1 <= n <= stack.last:
        raise InputError(f"{stack.name} has {stack.last} blocks; freeze takes -1 to {stack.last}, not {n}")
    stack.model.requires_grad_(True)
    if n >= 0:
        for path in stack.family.embeddings:
            if hasattr(stack.model, path):
                _module(stack.model, path).requires_grad_(False)
    for block in _module(stack.model, stack.family.blocks)[: max(n, 0)]:
        block.requires_grad_(False)
    return stack


def reinitialise(stack: Stack, blocks: Iterable[int], *, seed: int, embeddings: bool = False) -> Stack:
    """A copy of the stack with fresh weights in these blocks (numbered from 1), as the model's own class draws them.

    Everything else keeps its values bit for bit; the draw depends on the seed alone and the global random state is
    left as it was.
    """
    numbers = sorted(set(blocks))
    if numbers and not 1 <= numbers[0] <= numbers[-1] <= stack.last:
        raise InputError(f"{stack.name} has blocks 1 to {stack.last}, not {numbers}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = type(stack.model)(copy.deepcopy(stack.model.config))
    model = copy.deepcopy(stack.model)
    paths = [f"{stack.family.blocks}.{number - 1}" for number in numbers]
    paths += [path for path in stack.family.embeddings if embeddings and hasattr(model, path)]
    for path in paths:
        old: nn.Module = _module(model, path)
        old.load_state_dict(_module(fresh, path).state_dict())
    return replace(stack, model=model)
