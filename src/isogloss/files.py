"""Files and folders that appear whole or not at all: written beside their place, flushed to disk, then moved there."""

import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from filelock import FileLock

_MARK = crc32(platform.node().encode()) % 10**6  # machines that share a disk may have processes of the same number


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write to inside the block; afterwards it is moved to `path`. On any error `path` stays as it was."""
    beside = path.with_name(f".{path.name}.{_process()}.part")
    try:
        with _as_os_error(path):
            yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.chmod(0o644)  # some writers make files only their owner can read
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Let one process at a time into the block, by a lock beside `path`; others wait until it is out, or has died.

    Where the disk has no such locks all go in at once: what is written whole is then written several times.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    with suppress(OSError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file, whole or not at all, into a folder that need not be there yet; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside:
        beside.write_bytes(content)
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill inside the block; afterwards it is moved to `path`, in place of what was there.

    On any error `path` stays as it was and nothing is left beside it.
    """
    beside = path.with_name(f".{path.name}.{_process()}.part")
    old = path.with_name(f".{path.name}.{_process()}.old.part")
    try:
        beside.mkdir(parents=True)
        with _as_os_error(path):
            yield beside
        for file in filter(Path.is_file, beside.rglob("*")):
            file.chmod(0o644)
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
        if path.exists():
            path.replace(old)
        try:
            beside.replace(path)
        except OSError:
            if old.exists():
                old.replace(path)
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """A full disk in the block is an OSError: safetensors and tokenizers raise their own, with "(os error 28)"."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _process() -> str:
    """A number that no other process has, here or on another machine."""
    return f"{os.getpid()}{_MARK:06d}"


def is_leftover(path: Path) -> bool:
    """Whether this is what a kill leaves of a file or folder that was being written whole."""
    return path.name.startswith(".") and path.name.endswith(".part")


def clear_leftovers(folder: Path, *, locked: bool = True) -> None:
    """Remove what a kill left half-written in this folder; what was about to be replaced comes back.

    locked: whether no other process can be writing here; otherwise what belongs to one that runs, or to another
    machine, is left alone.
    """
    for path in sorted(filter(is_leftover, folder.iterdir() if folder.is_dir() else ())):
        if not locked and not _has_died(path):
            continue
        replaced = re.fullmatch(r"\.(.+)\.\d+\.old\.part", path.name)
        if replaced and not (folder / replaced[1]).exists():
            path.replace(folder / replaced[1])
            continue
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _has_died(leftover: Path) -> bool:
    """Whether the process that was writing this file or folder ran on this machine and runs no more."""
    number = re.search(rf"\.(\d+){_MARK:06d}(\.old)?\.part$", leftover.name)
    try:
        if number is not None:
            os.kill(int(number[1]), 0)  # sends nothing
    except ProcessLookupError:
        return True
    except OSError:  # of another user
        return False
    return False
