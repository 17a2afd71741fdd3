"""Freeze, reinitialise and replace blocks of a stack by exact layer numbers, and add adapters to them."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from isogloss.errors import InputError, require
from isogloss.seeds import seeded
from isogloss.stack.stack import Stack

OWN, TORCH = "own", "torch"
INITIALISERS = (OWN, TORCH)


def freeze(stack: Stack, n: int, *, until: int | None = None) -> Stack:
    """Freeze the embeddings and blocks 1..n in place; the rest of the stack is trained.

    n = 0 freezes the embeddings only, n = -1 nothing. until: blocks above it are frozen as well. Sets `requires_grad`
    on the stack's own weights and returns the stack. An output head tied to the embeddings is frozen with them.
    """
    require(-1 <= n <= stack.last, f"{stack.name} has {stack.last} blocks; freeze takes -1 to {stack.last}, not {n}")
    for part, trains in parts_to_train(stack, n, until=until):
        part.requires_grad_(trains)
    return stack


def parts_to_train(stack: Stack, n: int, *, until: int | None = None) -> list[tuple[nn.Module, bool]]:
    """The model and then parts of it, each with whether `freeze(stack, n, until=until)` leaves it trainable.

    The last pair that contains a module decides. All modules except blocks, final norm and pooler count as embeddings,
    including position biases.
    """
    blocks, modules = stack.model.get_submodule(stack.family.blocks), dict(stack.model.named_modules())
    above = [modules[path] for path in (stack.family.norm, "pooler") if path in modules]
    closed = () if until is None else blocks[until:]
    trained = [(part, True) for part in (*blocks[max(n, 0) :], *above)]
    return [(stack.model, n < 0), *trained, *((block, False) for block in closed)]


def reinitialise(
    stack: Stack,
    blocks: Iterable[int],
    *,
    seed: int,
    embeddings: bool = False,
    initialiser: str = OWN,
    in_place: bool = False,
) -> Stack:
    """Return a copy of the stack with these blocks (numbered from 1) reinitialised by the model's own class.

    initialiser: `own`, or `torch` for the defaults of PyTorch's modules: uniform within 1/sqrt(inputs), also for
    biases, instead of N(0, 0.02) and 0. The re-released code of Muller et al. (2021) does this inadvertently. All other
    weights are unchanged; the draw depends on the seed alone and the global random state is left unchanged. in_place:
    write the fresh weights into the stack's own model and return the stack, so that an optimiser or a head keeps its
    references to these weights.
    """
    numbers = sorted(set(blocks))
    if numbers and not 1 <= numbers[0] <= numbers[-1] <= stack.last:
        raise InputError(f"{stack.name} has blocks 1 to {stack.last}, not {numbers}")
    if initialiser not in INITIALISERS:
        raise InputError(f"the initialiser {initialiser!r} is not known; choose {' or '.join(INITIALISERS)}")
    stack = stack if in_place else replace(stack, model=copy.deepcopy(stack.model))
    with seeded(seed):
        fresh = type(stack.model)(copy.deepcopy(stack.model.config))
        if initialiser == TORCH:
            for number in numbers:
                for part in fresh.get_submodule(stack.family.blocks)[number - 1].modules():
                    if callable(reset := getattr(part, "reset_parameters", None)):
                        reset()
    _copy_lower(fresh, stack.model, stack, [number - 1 for number in numbers], embeddings=embeddings)
    return stack


def _copy_lower(source: nn.Module, target: nn.Module, stack: Stack, blocks: Iterable[int], *, embeddings: bool) -> None:
    """Copy the weights of some blocks, numbered from 0, and with `embeddings` those of all modules below the blocks."""
    weights = source.state_dict()
    chosen = tuple(f"{stack.family.blocks}.{number}." for number in blocks)
    above = tuple(f"{name}." for name in (stack.family.norm, "pooler") if name)
    with torch.no_grad():
        for name, weight in target.state_dict().items():
            below = not name.startswith((f"{stack.family.blocks}.", *above))
            if name.startswith(chosen) or (embeddings and below):
                weight.copy_(weights[name])


def add_adapters(stack: Stack, rank: int, *, seed: int) -> None:
    """Add low-rank adapters (LoRA, Hu et al. 2022) to every matrix of the blocks, in place.

    The output of a matrix becomes W x + 2 B A x, with A (rank, inputs) drawn from the seed and B (outputs, rank)
    initially zero, so that the model is unchanged at first. Requires the package `peft`.
    """
    require(find_spec("peft"), "the plan lora needs the package peft, which is not here: pip install 'isogloss[lora]'")
    from peft import LoraConfig, inject_adapter_in_model

    inside = {path: type(module).__name__ for path, module in stack.model.named_modules()}
    matrices = [path for path, kind in inside.items() if kind in ("Linear", "Conv1D")]
    turned = "Conv1D" in inside.values()  # the transposed matrices of GPT-2
    chosen = [path for path in matrices if path.startswith(f"{stack.family.blocks}.")]
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=chosen, fan_in_fan_out=turned)
    with seeded(seed):
        inject_adapter_in_model(config, stack.model)


def train_adapters_only(model: nn.Module) -> None:
    """Freeze every weight of a model except its adapters, whose `requires_grad` is unchanged."""
    for name, weight in model.named_parameters():
        weight.requires_grad_(weight.requires_grad and ".lora_" in name)


def merged(model: Any) -> Any:
    """Merge adapters into the weights: returns a copy without adapters, or the model itself if it has none."""
    adapted = [path for path, module in model.named_modules() if hasattr(module, "lora_A")]
    model = copy.deepcopy(model) if adapted else model
    for path in adapted:
        layer, (owner, _, name) = model.get_submodule(path), path.rpartition(".")
        layer.merge()
        setattr(model.get_submodule(owner), name, layer.get_base_layer())
    return model


def without_dropout(model: nn.Module) -> None:
    """Set every dropout of a model to 0: its dropout modules, and the attributes that fused attention reads.

    Modules that read their configuration, as Falcon's do, get a copy of it without dropout. The model's own is left as
    it was, since it is saved with the model.
    """
    configs: dict[int, Any] = {}  # the copies, one for all modules that share a configuration
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if module is not model and hasattr(module, "config"):
            module.config = configs.setdefault(id(module.config), copy.copy(module.config))
    for holder in (*model.modules(), *configs.values()):
        for name, value in list(vars(holder).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(holder, name, 0.0)


def with_fresh_blocks(stack: Stack, cut: int, *, count: int, seed: int) -> Stack:
    """A new stack of the embeddings and blocks 1 to `cut` of a whole encoder, with `count` fresh blocks above them.

    The lower part is an exact copy; the blocks above it, and a final norm if the model has one, are initialised by the
    model's own class from the seed alone; the global random state is left unchanged. Its depth is cut + count, whatever
    the depth of the model was.

    >>> with_fresh_blocks(stack, 4, count=4, seed=0).cuts  # doctest: +SKIP
    range(0, 9)
    """
    config = stack.model.config
    facts = config.to_dict()
    for listed in ("layer_types", "transformers_version", "model_type"):  # per-block lists take the class's defaults
        facts.pop(listed, None)
    facts[next(name for name in ("num_hidden_layers", "n_layers") if name in facts)] = cut + count
    deep = type(config)(**facts)
    if kinds := getattr(deep, "layer_types", None):  # copied blocks keep their attention
        deep.layer_types = [*config.layer_types[:cut], *kinds[cut:]]
    deep._attn_implementation = config._attn_implementation  # no public name says which attention a model has
    with seeded(seed):
        model = type(stack.model)(deep)
    _copy_lower(stack.model, model, stack, range(cut), embeddings=True)
    model = model.to(stack.device, stack.dtype).eval()
    return replace(stack, model=model, last=len(model.get_submodule(stack.family.blocks)))
