"""Vectors on disk, for arrays that are too large for memory or worth keeping.

`VectorStore` holds named memory-mapped arrays in a folder, with a mark file that says they are complete, so that a
resumed run need not compute them again. `rereadable` stores a stream of tensors that is read in several passes.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor

from isogloss.errors import readable, require
from isogloss.files import whole, write_text

SHARE = 0.125  # largest share of the free disk space to use: other runs may do the same

DAMAGED = "is damaged", "remove the folder that it is in, and --resume makes it again"

Read = Callable[[], Iterable[Tensor]]


@dataclass(frozen=True)
class VectorStore:
    """Arrays by name in one folder, each a memory-mapped `.npy` file, with a mark file once all are complete.

    There are two ways to write an array. `create` allocates an array that is filled part by part, over any number of
    calls; it is valid only once `finish` has written the mark. `filling` and `write` create the file completely or not
    at all, so that its existence is enough: `name in store`.

    The mark contains the caller's facts as JSON, such as words, layers or counts, and their checksum; it is written
    last. Several stores may share a folder, which need not exist yet, if their marks and arrays have different names.

    >>> import tempfile
    >>> store = VectorStore(Path(tempfile.mkdtemp()))
    >>> states = store.create("en", (2, 3, 4))  # (layers, sentences, width)
    >>> states[:, 0] = 1.0
    >>> store.complete, store.finish({"layers": [0, 1]}), store.complete, store.facts()
    (False, None, True, {'layers': [0, 1]})
    >>> store.read("en", 1).sum(dim=1)
    tensor([4., 0., 0.])
    """

    folder: Path
    mark: str = "complete.json"

    @property
    def complete(self) -> bool:
        """Whether `finish` was called, by this or an earlier run."""
        return (self.folder / self.mark).is_file()

    def __contains__(self, name: str) -> bool:
        """Whether there is an array of this name, complete or not."""
        return self.path(name).is_file()

    def path(self, name: str) -> Path:
        """The file of an array."""
        return self.folder / f"{name}.npy"

    def create(self, name: str, shape: Sequence[int], *, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Create a memory-mapped array of zeros to be filled in place; replaces one of the same name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return _mapped(self.path(name), shape, dtype)

    @contextmanager
    def filling(self, name: str, shape: Sequence[int]) -> Iterator[NDArray[Any]]:
        """A memory-mapped array to fill inside the block; it gets its name when the block ends without an error."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole(self.path(name)) as beside:
            values: Any = _mapped(beside, shape, np.float32)
            yield values
            values.flush()

    def write(self, name: str, values: ArrayLike) -> None:
        """Write an array from memory, completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole(self.path(name)) as beside, beside.open("wb") as file:
            np.save(file, np.asarray(values))

    def read(self, name: str, index: int | None = None) -> Tensor:
        """Read an array into memory, or only one index of its first dimension (a layer)."""
        values = self.mapped(name)
        return torch.from_numpy(np.array(values if index is None else values[index]))

    def mapped(self, name: str) -> NDArray[Any]:
        """Memory-map an array copy-on-write: changes stay in memory."""
        with readable(self.path(name), *DAMAGED):
            values: Any = np.load(self.path(name), mmap_mode="c")
            expected, size = values.offset + values.nbytes, self.path(name).stat().st_size
            require(size == expected, f"{self.path(name)} has {size:,} bytes instead of {expected:,}; {DAMAGED[1]}")
            return values

    def finish(self, facts: Mapping[str, Any] | None = None) -> None:
        """Write the mark with these facts (JSON-serialisable), which makes the store complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dict(facts or {}), ensure_ascii=False)
        write_text(self.folder / self.mark, f"{text}\n{crc32(text.encode())}")

    def facts(self) -> dict[str, Any]:
        """The facts that were given to `finish`."""
        with readable(self.folder / self.mark, *DAMAGED):
            text, checksum = (self.folder / self.mark).read_text(encoding="utf-8").split("\n")
            require(checksum == str(crc32(text.encode())), f"{self.folder / self.mark} {DAMAGED[0]}; {DAMAGED[1]}")
            return dict(json.loads(text))


def _mapped(path: Path, shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Create an array in a preallocated file, so that a full disk raises here instead of killing the process later."""
    values = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=tuple(shape))
    if values.nbytes and hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return values


@contextmanager
def rereadable(read: Read, folder: Path) -> Iterator[Read]:
    """A replacement for `read` inside the block that, after one complete pass, yields the stored tensors again.

    Tensors are written to a temporary memory-mapped file, so that they stay in memory as far as they fit. If they would
    take too large a share of the disk, nothing is stored and every pass calls `read` again: slower, with equal values.

    Args:
        read: yields float32 tensors that are not empty and are not changed later.
        folder: where the temporary file is created.

    >>> chunks = iter([torch.zeros(2), torch.ones(3)])  # a second pass over them would be empty
    >>> with rereadable(lambda: chunks, Path()) as again:
    ...     [[len(chunk) for chunk in again()] for _ in range(2)]
    [[2, 3], [2, 3]]
    """
    stored: list[Tensor] = []
    origin, complete = torch.device("cpu"), False

    def again() -> Iterator[Tensor]:
        nonlocal origin, complete
        if complete:
            yield from (part.to(origin) for part in stored)
            return
        stored.clear()  # left by an incomplete pass
        file.truncate(0)
        file.seek(0)
        room, holding = SHARE * shutil.disk_usage(folder).free, True
        for chunk in read():
            begin, origin = file.tell(), chunk.device
            holding = holding and begin + 4 * chunk.numel() <= room
            if holding:
                file.write(chunk.cpu().numpy().tobytes())
                file.flush()
                mapped = np.memmap(file, np.float32, mode="c", offset=begin, shape=tuple(chunk.shape))
                stored.append(torch.from_numpy(mapped))
            yield chunk
        complete = holding

    with TemporaryFile(dir=folder) as file:
        yield again
