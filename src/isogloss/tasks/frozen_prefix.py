"""The frozen lower part of a model, computed once: the states of its last cut for every item.

With embeddings and blocks 1 to n frozen and their dropout off, the states of cut n are the same in every epoch, for
every learning rate and every seed. They are kept in memory (the GPU's, if they fit) or in a memory-mapped file and
replace the text as input, so that only the blocks above are run:

    bytes = tokens x width x 2 or 4
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
from isogloss.training.probes import arithmetic

SHARE = 0.5  # largest share of the free memory for one prefix


@dataclass(frozen=True)
class Prefix:
    """States of one cut: kept (tokens, width), those of the items' concatenated tokens.

    turn: applied to states, (tokens, width), before they are returned: a map into another model's space.
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
        """The states of tokens, by their indices in all items, in float32: (...) -> (..., width)."""
        states = self.kept[tokens].to(device or self.kept.device, non_blocking=True).float()
        return states if self.turn is None else self.turn(states.flatten(0, -2)).view(states.shape)


def read_prefix(
    stack: Stack, items: Items, cut: int, *, dtype: torch.dtype | None = None, file: Path | None = None
) -> Prefix:
    """Run every item through the frozen layers once, in evaluation mode.

    dtype: of autocast, and of the stored states. file: where they are stored if they do not fit into memory
    (`home_of`); an existing one is used unchecked, so its name must identify the model, the cut and the text. The dtype
    is added to the name, because a run may be resumed on a device with another one.
    """
    home, kind, shape = home_of(stack, items, dtype), dtype or torch.float32, (len(items.ids), stack.width)
    if file is None or home is not None:
        room = torch.empty(shape, dtype=kind, device=home or "cpu")
        _fill(stack, items, cut, room=room, dtype=dtype)
        return Prefix(cut, room, items)

    def states_in(path: Path, *, shared: bool) -> Tensor:
        return torch.from_file(str(path), shared=shared, size=shape[0] * shape[1], dtype=kind).view(shape)

    file = file.with_stem(f"{file.stem}-{str(kind).removeprefix('torch.')}")
    if not file.is_file():
        with whole(file) as beside:
            _fill(stack, items, cut, room=states_in(beside, shared=True), dtype=dtype)
    return Prefix(cut, states_in(file, shared=False), items)


def _fill(stack: Stack, items: Items, cut: int, *, room: Tensor, dtype: torch.dtype | None) -> None:
    lower, done = stack[:cut], 0
    with measuring(stack.model), arithmetic(stack.device, dtype):
        for members in group(items.lengths.tolist(), tokens=batch_tokens(stack.device)):
            states = lower.read(items.batch(np.array(members), stack.device), [cut])[cut]
            tokens = torch.from_numpy(items.tokens(members))
            room[tokens.to(room.device)] = states.to(room.device, room.dtype)
            done += len(members)
            progress("frozen layers", done, len(items.lengths))


def home_of(stack: Stack, items: Items, dtype: torch.dtype | None) -> torch.device | None:
    """The device on which the states of one cut fit: the stack's GPU, the CPU, or None."""
    size, homes = len(items.ids) * stack.width * (dtype or torch.float32).itemsize, (stack.device, torch.device("cpu"))
    return next((home for home in homes if size < SHARE * free_bytes(home)), None)


def free_bytes(device: torch.device) -> float:
    """Bytes of memory available on a GPU or in the machine; 0 for a device that does not report it."""
    if device.type == "cpu":
        return float(psutil.virtual_memory().available)
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 0.0
