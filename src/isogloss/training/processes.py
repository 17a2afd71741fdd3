"""Several processes that train one model: who this one is, and the sums they share.

`torchrun` or `accelerate launch` starts them; accelerate joins them. Every process draws the whole batch of a step,
which is a function of the seed and the step, and keeps its own rows of it; gradients are summed before the update, so
every process holds the same weights at every step.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor

from isogloss.errors import InputError

T = TypeVar("T")
PATIENCE = timedelta(days=1)  # the others wait while the first packs text, which takes longer than the usual minutes


@dataclass(frozen=True)
class Processes:
    """One process among `count`; the one of rank 0 writes."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and shows progress."""
        return self.rank == 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over the processes, in one exchange for each type of number."""
        if self.count == 1:
            return
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            kinds.setdefault(tensor.dtype, []).append(tensor)
        for members in kinds.values():
            flat = torch.cat([member.reshape(-1) for member in members])
            torch.distributed.all_reduce(flat)
            pieces = torch.split(flat, [member.numel() for member in members])
            for member, piece in zip(members, pieces, strict=True):
                member.copy_(piece.view_as(member))

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.count > 1:
            torch.distributed.barrier()


def launched() -> tuple[int, int]:
    """Rank and number of processes as the launcher says, (0, 1) without one."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def join(device: torch.device) -> Processes:
    """Join the processes the launcher started; alone, this does nothing."""
    rank, count = launched()
    if count == 1:
        return Processes(0, 1, device)
    from accelerate import PartialState

    state = PartialState(cpu=device.type == "cpu", timeout=PATIENCE)
    return Processes(rank, count, state.device)


def together(processes: Processes, make: Callable[[], T]) -> T:
    """What `make` gives, made by the first process before the others read it; what it cannot make, none of them has."""
    made, mistake = [], None
    if processes.first:
        try:
            made.append(make())
        except Exception as error:
            mistake = error
    failed = torch.tensor(float(mistake is not None), device=processes.device)
    processes.add([failed])
    if mistake is not None:
        raise mistake
    if failed:
        raise InputError("the first process could not go on, and says why")
    return made[0] if made else make()
