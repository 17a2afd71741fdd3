"""Vectors that several rounds go through, computed in the first: later rounds are given what was kept of it.

They are kept in memory, the GPU's first, as far as a share of it reaches, and beyond that in a file that is read chunk
by chunk. Where the disk has no room either, nothing is kept and every round computes them: slower, the same values.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isogloss.training.frozen_prefix import free_bytes

SHARE = 0.125  # of what is free, of memory and disk: other runs may do the same beside this one
CPU = torch.device("cpu")

Read = Callable[[], Iterable[Tensor]]


@contextmanager
def rereadable(read: Read, *, file: Path) -> Iterator[Read]:
    """A stand-in for `read`, inside the block: it reads until it was once read to its end, and then gives that again.

    read: gives float32 tensors, which are not changed. file: for those that memory has no room for; gone afterwards.

    >>> chunks = iter([torch.zeros(2), torch.ones(3)])  # a second reading of them would give nothing
    >>> with rereadable(lambda: chunks, file=Path("chunks")) as again:
    ...     [[len(one) for one in again()] for _ in range(2)]
    [[2, 3], [2, 3]]
    """
    kept: Kept | None = None

    def again() -> Iterator[Tensor]:
        nonlocal kept
        if kept is not None:
            yield from kept
            return
        here = Kept(file)
        for one in read():
            here.add(one)
            yield one
        kept = here if here.whole else None

    try:
        yield again
    finally:
        file.unlink(missing_ok=True)


class Kept:
    """Tensors in their order: in memory, or only their shapes, and the values in a file.

    whole: whether all that were added are there; one that has room nowhere empties it.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.whole = file, True
        self._parts: list[Tensor | torch.Size] = []
        self._room: dict[torch.device, float] = {}
        self._device = CPU
        file.unlink(missing_ok=True)

    def add(self, one: Tensor) -> None:
        """Keep a tensor where there is room for it."""
        if not self.whole:
            return
        self._device, size = one.device, one.numel() * one.element_size()
        for home in dict.fromkeys((one.device, CPU)):
            room = self._room.setdefault(home, SHARE * free_bytes(home))
            if size <= room:
                self._room[home] = room - size
                self._parts.append(one.to(home))
                return
        if size <= SHARE * shutil.disk_usage(self.file.parent).free:
            with self.file.open("ab") as file:
                one.cpu().numpy().tofile(file)
            self._parts.append(one.shape)
            return
        self.whole, self._parts = False, []
        self.file.unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Tensor]:
        """Every tensor in turn, where it came from; those of the file are read as they are needed."""
        done = 0
        for one in self._parts:
            if isinstance(one, Tensor):
                yield one.to(self._device)
            else:
                values = np.fromfile(self.file, dtype=np.float32, count=one.numel(), offset=4 * done)
                yield torch.from_numpy(values).view(one).to(self._device)
                done += one.numel()
