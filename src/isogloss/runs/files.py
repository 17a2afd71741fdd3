"""Files that appear whole or not at all: written beside their place, flushed to disk, then moved there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to inside the block; afterwards it is moved to `path`. On any error `path` stays as it was."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.chmod(0o644)  # some writers make files only their owner can read
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole(path) as beside:
        beside.write_text(text, encoding="utf-8")
