"""Files and folders that appear whole or not at all: written beside their place, flushed to disk, then moved there."""

import os
import shutil
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


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill inside the block; afterwards it is moved to `path`, in place of what was there.

    On any error, a full disk among them, `path` stays as it was and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    old = path.with_name(f".{path.name}.{os.getpid()}.old.part")
    try:
        beside.mkdir(parents=True)
        yield beside
        for file in filter(Path.is_file, beside.rglob("*")):
            file.chmod(0o644)
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        if path.exists():
            path.replace(old)
        beside.replace(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
