"""One worker at a time in a job's folder, wherever workers run: a lease, which is a small file beside the folder.

A cluster may take a machine for dead that only cannot be reached. Its jobs are begun again elsewhere while it still
writes into their folders, so being told that a worker is gone is not enough. A worker therefore holds a lease:

    claim    the file is created, which only one can do; or it did not change for `seconds`, and is replaced
    beat     its holder counts on in it, ten times in `seconds`, and sees whether it still is there
    end      a holder that was replaced, or could not beat for two thirds of `seconds`, ends itself at once

So a holder has ended before another may take its place. No clock is compared with another machine's: who waits sees by
its own that the count stands still. A beat goes to the file that was opened, not to its name: a holder that comes back
late cannot write over the lease of the one that came after it.

Nothing here needs more than the standard library.
"""

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SECONDS = 60.0  # longer than storage is commonly away when it moves to another server
BEATS = 10  # in that time
LOST = 75  # the exit code of a worker that lost its lease: it may be tried again


@contextmanager
def held(path: Path, owner: str, *, seconds: float = SECONDS, told: Callable[[str], Any] = str) -> Iterator[None]:
    """Hold a lease inside the block; waits until it is free. A process that loses it ends with the code `LOST`.

    owner: a word no other worker has. told: is given a sentence where there is something to wait for.

    >>> with held(Path("runs/seed-1.lease"), "a3f0"):  # doctest: +SKIP
    ...     run_job(job)
    """
    file, stop, last = claim(path, owner, seconds=seconds, told=told), threading.Event(), [time.monotonic()]

    def beat() -> None:
        count = 0
        while not stop.wait(seconds / BEATS):
            begun, count = time.monotonic(), count + 1
            try:
                _write(file, owner, count)
                holder = holder_of(path)
            except OSError:
                continue  # storage is away: it may come back in time
            if holder != owner and not stop.is_set():
                _end(f"{path} is held by another worker")
            last[0] = begun

    def guard() -> None:  # apart, since a beat may hang for as long as storage does
        while not stop.wait(seconds / BEATS):
            if time.monotonic() - last[0] > seconds * 2 / 3:
                _end(f"{path} could not be renewed for {seconds * 2 / 3:.0f} seconds")

    threads = [threading.Thread(target=one, daemon=True) for one in (beat, guard)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        stop.set()
        release(path, owner)
        threads[0].join(seconds / BEATS)
        os.close(file)


def claim(path: Path, owner: str, *, seconds: float, told: Callable[[str], Any] = str) -> int:
    """Wait until nobody holds the lease, and take it; returns the open file to beat in."""
    seen, since = b"", time.monotonic()
    while True:
        with suppress(FileExistsError):
            file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
            _write(file, owner, 0)
            return file
        now = _read(path)
        if now is None:
            continue
        if now != seen:
            if not seen:
                told(f"waiting for {holder_words(now)}, which holds {path}")
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > seconds:
            taken = _replace(path, owner, pause=2 * seconds / BEATS)
            if taken is not None:
                return taken
        time.sleep(seconds / BEATS)


def release(path: Path, owner: str) -> None:
    """Give the lease up, if this owner holds it; its worker must have ended, or be about to."""
    with suppress(OSError):
        if holder_of(path) == owner:
            path.unlink()


def holder_of(path: Path) -> str | None:
    """Who holds the lease: the word it was claimed with; None where nobody does."""
    found = _read(path)
    return None if found is None else found.decode().partition("\n")[0]


def holder_words(found: bytes) -> str:
    """The holder of a lease that was read, as `process 123 on node-4`."""
    return (found.decode().split("\n") + ["", ""])[1] or "another worker"


def still_held(paths: Sequence[Path], *, seconds: float = SECONDS) -> dict[Path, str]:
    """Which of these leases have a holder that lives, and where; those that nobody renews are removed.

    Takes no time where there are none, and otherwise up to `seconds`.
    """
    before = {path: found for path in paths if (found := _read(path)) is not None}
    left, deadline = set(before), time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(seconds / BEATS)
        left = {path for path in left if _read(path) == before[path]}
    for path in left:
        path.unlink(missing_ok=True)
    return {path: holder_words(found) for path, found in before.items() if path.exists()}


def _replace(path: Path, owner: str, *, pause: float) -> int | None:
    """Put a lease of one's own in the place of one that nobody renews; None if somebody else did so, too, later."""
    beside = path.with_name(f".{path.name}.{owner}.part")
    file = os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o644)
    _write(file, owner, 0)
    beside.replace(path)
    time.sleep(pause)
    if holder_of(path) == owner:
        return file
    os.close(file)
    return None


def _write(file: int, owner: str, count: int) -> None:
    """Count on; the text is as long each time, so that a reader never meets the end of an older one."""
    text = f"{owner}\nprocess {os.getpid()} on {socket.gethostname()}\n{count:012d}\n"
    os.pwrite(file, text.encode(), 0)
    os.fsync(file)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):  # stale: gone while it was opened, says network storage
            return None
        raise


def _end(why: str) -> None:
    with suppress(OSError):
        os.write(2, f"{why}: this one ends\n".encode())
    os._exit(LOST)
