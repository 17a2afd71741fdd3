"""The hidden states of a model's frozen lower layers, computed once for every item.

If embeddings and blocks 1 to n are frozen and their dropout is off, the states at cut n are the same in every epoch,
for every learning rate and every seed. They are kept in memory (the GPU's, if they fit) or in a memory-mapped file, and
are the input instead of the text, so that only the blocks above are run. Their size in bfloat16 or float32:

    bytes = tokens x width x 2 or 4

A `Prefix` holds the states of one set of items. `FrozenStates` computes those of all sets of a run, and keeps them for
the next training that freezes the same layers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import torch
from torch import Tensor

from isogloss.files import whole
from isogloss.progress import progress
from isogloss.stack.stack import Stack, measuring
from isogloss.tasks.task import Items
from isogloss.text.batches import batch_tokens, group
from isogloss.training.mixed_precision import arithmetic
from isogloss.training.plans import Plan, frozen_at

SHARE = 0.5  # maximum share of the free memory that one prefix may take


@dataclass(frozen=True)
class Prefix:
    """States of items at one cut. kept (tokens, width): the states of the items' tokens, concatenated.

    turn: applied to states (tokens, width) before they are returned, such as a mapping into another model's space.
    """

    cut: int
    kept: Tensor
    items: Items
    turn: Callable[[Tensor], Tensor] | None = None

    def states(self, chosen: Sequence[int] | np.ndarray, device: torch.device) -> Tensor:
        """The states of the selected items, concatenated, in float32: (tokens, width)."""
        tokens = torch.from_numpy(self.items.tokens(chosen))
        return self.at(tokens.to(self.kept.device, non_blocking=True), device)

    def at(self, tokens: Tensor, device: torch.device | None = None) -> Tensor:
        """The states of tokens (...), given as indices into the tokens of all items: (..., width), float32."""
        states = self.kept[tokens].to(device or self.kept.device, non_blocking=True).float()
        return states if self.turn is None else self.turn(states.flatten(0, -2)).view(states.shape)


def read_prefix(
    stack: Stack, items: Items, cut: int, *, dtype: torch.dtype | None = None, file: Path | None = None
) -> Prefix:
    """Run every item through the frozen layers once, in evaluation mode.

    dtype: of autocast and of the stored states; None for no autocast and float32. file: where the states are stored if
    they do not fit into memory (see `home_of`). An existing file is used unchecked, so its name must identify the
    model, the cut and the text. The dtype is added to the name: a run may be resumed on a device with another one.
    """
    device, kept_dtype, shape = home_of(stack, items, dtype), dtype or torch.float32, (len(items.ids), stack.width)
    if file is None or device is not None:
        kept = torch.empty(shape, dtype=kept_dtype, device=device or "cpu")
        _fill(stack, items, cut, kept=kept, dtype=dtype)
        return Prefix(cut, kept, items)

    def mapped_file(path: Path, *, shared: bool) -> Tensor:
        return torch.from_file(str(path), shared=shared, size=shape[0] * shape[1], dtype=kept_dtype).view(shape)

    file = file.with_stem(f"{file.stem}-{str(kept_dtype).removeprefix('torch.')}")
    if not file.is_file():
        with whole(file) as temporary:
            _fill(stack, items, cut, kept=mapped_file(temporary, shared=True), dtype=dtype)
    return Prefix(cut, mapped_file(file, shared=False), items)


def _fill(stack: Stack, items: Items, cut: int, *, kept: Tensor, dtype: torch.dtype | None) -> None:
    lower, done = stack[:cut], 0
    with measuring(stack.model), arithmetic(stack.device, dtype):
        for members in group(items.lengths.tolist(), tokens=batch_tokens(stack.device)):
            states = lower.read(items.batch(np.array(members), stack.device), [cut])[cut]
            tokens = torch.from_numpy(items.tokens(members))
            kept[tokens.to(kept.device)] = states.to(kept.device, kept.dtype)
            done += len(members)
            progress("frozen layers", done, len(items.lengths))


def home_of(stack: Stack, items: Items, dtype: torch.dtype | None) -> torch.device | None:
    """The device whose memory has room for the states of one cut: the stack's device, else the CPU, else None."""
    size = len(items.ids) * stack.width * (dtype or torch.float32).itemsize
    return next((device for device in (stack.device, torch.device("cpu")) if size < SHARE * free_bytes(device)), None)


def free_bytes(device: torch.device) -> float:
    """Available memory of a GPU or of the machine, in bytes; 0 for a device that does not report it."""
    if device.type == "cpu":
        return float(psutil.virtual_memory().available)
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0.0


@dataclass
class FrozenStates:
    """States of all sets of a run, computed once for consecutive training runs that freeze the same layers.

    States of the training text are kept in memory or in a file, but not at all if `training` is false, since dropout
    changes them in every step, or code-switching in every epoch. States of scored sets are kept if memory suffices;
    otherwise they are computed at every evaluation. For a language with its own model they are always kept, and are
    states of that model, even if only its embeddings are frozen.

    items: the training items, then those of every scored set. own_models: for each of these the model of its language,
    None if that is the trained one. folder: for files. cache: whether states of the trained model are kept at all.
    dtype: of autocast.
    """

    items: Sequence[Items]
    own_models: Sequence[Stack | None]
    folder: Path
    cache: bool
    training: bool
    dtype: torch.dtype | None
    _last: tuple[str, list[Prefix | None]] = "", []

    def below(self, stack: Stack, plan: Plan, *, step: int, epoch: int, seed: int) -> list[Prefix | None]:
        """States of the highest layer that is frozen up to `step`, for each of `items`; None if they are not kept.

        stack: the model with the plan's reinitialised blocks.
        """
        cut = frozen_at(plan, step, depth=stack.last, epoch=epoch)
        fresh = [block for block in plan.reinit if block <= cut]
        drawn = f"-{plan.initialiser}-{'-'.join(map(str, fresh))}-seed-{seed}" if fresh else ""
        if (name := f"cut-{cut}{drawn}") != self._last[0]:
            self._last = "", []  # frees the memory before the next states are computed
            self._last = name, [self._read(number, stack, cut, name=name) for number in range(len(self.items))]
        return self._last[1]

    def _read(self, number: int, stack: Stack, cut: int, *, name: str) -> Prefix | None:
        """States of `items[number]`; number 0 is the training text, whose states may be kept in a file of this name."""
        items, own = self.items[number], self.own_models[number]
        if own is not None:
            return read_prefix(own, items, cut, dtype=self.dtype) if cut >= 0 else None
        if not (self.cache and stack.family.cuts and cut >= 1):  # without a frozen block, nothing would be saved
            return None
        if number == 0:
            file = self.folder / f"{name}.states"
            return read_prefix(stack, items, cut, file=file, dtype=self.dtype) if self.training else None
        return read_prefix(stack, items, cut, dtype=self.dtype) if home_of(stack, items, self.dtype) else None
