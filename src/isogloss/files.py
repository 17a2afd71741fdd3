"""Atomic writing of files and folders: written to a temporary name, flushed to disk, then moved to their place."""

import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from zlib import crc32

from filelock import FileLock

_MARK = crc32(platform.node().encode()) % 10**6  # process ids may coincide on machines that share a disk


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary path to write to inside the block; it is then moved to `path`, which any error leaves unchanged."""
    beside = path.with_name(f".{path.name}.{_process()}.part")
    try:
        with _as_os_error(path):
            yield beside
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.chmod(0o644)  # some writers make files that only their owner can read
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Run the block in one process at a time, by a lock beside `path`; others wait until it has left, or died.

    If the file system has no such locks, processes do not wait; files are then written several times, each atomically.
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
    """Write a file atomically, creating its folder if necessary; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside:
        beside.write_bytes(content)
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with whole(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to fill inside the block; it then replaces `path`.

    Any error leaves `path` unchanged and no temporary files behind.
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
    """Raise an OSError for a full disk: safetensors and tokenizers raise their own errors, with "(os error 28)"."""
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if isinstance(error, OSError) or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error


def _process() -> str:
    """A number that identifies this process among those of all machines."""
    return f"{os.getpid()}{_MARK:06d}"


def is_leftover(path: Path) -> bool:
    """Whether this is a temporary file or folder that a killed process left."""
    return path.name.startswith(".") and path.name.endswith(".part")


def clear_leftovers(folder: Path, *, locked: bool = True) -> None:
    """Remove temporary files that killed processes left in this folder; files about to be replaced are restored.

    locked: whether no other process can be writing here; otherwise files of running processes, and of other machines,
    are left alone.
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
    """Whether the process that was writing this file or folder ran on this machine and has ended."""
    number = re.search(rf"\.(\d+){_MARK:06d}(\.old)?\.part$", leftover.name)
    try:
        if number is not None:
            os.kill(int(number[1]), 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        return False
    return False
