"""What runs in Ray's own process on each machine of a cluster, beside the job, which is a process of its own.

These functions are sent there as they are, and use the standard library only: a machine without isogloss can say so,
and none loads torch twice.
"""

import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


def look(mark: str, place: str, version: str) -> str:
    """What keeps this machine from running jobs; nothing, if all is well.

    mark: a file in the folder of the jobs. place: the folder they work in. version: of isogloss elsewhere.
    """
    if not Path(mark).is_file() or not Path(place).is_dir():
        where = place if Path(mark).is_file() else str(Path(mark).parent)
        return f"does not see {where}; --out and files must be on storage that every machine has at the same path"
    if not os.access(Path(mark).parent, os.W_OK):
        return f"may not write into {Path(mark).parent}"
    try:
        found = importlib.metadata.version("isogloss")
    except importlib.metadata.PackageNotFoundError:
        return f"has no isogloss in {sys.executable}; install it there"
    return "" if found == version else f"has isogloss {found}, and this machine {version}; install the same everywhere"


def work(
    line: str, command: Sequence[str], surroundings: Mapping[str, str], place: str, log: str, lease: str, owner: str
) -> tuple[int, str, str]:
    """Run a job as a process: its exit code, the last it said, and the name of this machine.

    line: the job, as a worker reads it. command: what follows the name of Python. surroundings: variables of the
    environment besides those here. place: the folder to work in. lease, owner: what the worker holds, which is given
    back for it when it has ended.
    """
    node, said = socket.gethostname(), Path(log)
    with suppress(ValueError):  # not in the main thread, which Ray does not interrupt
        # Ray ends work by an interrupt, and what a shell starts in the background ignores those.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not Path(place).is_dir() or not said.parent.is_dir():
        return 1, f"this machine does not see {place} or {said.parent}", node
    with said.open("ab") as words:
        process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=words, stderr=words, cwd=place,
            env={**os.environ, **surroundings},
        )  # fmt: skip
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once, and its log says why
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()  # and stays open: when this process dies, the worker sees it closed
        while process.poll() is None:  # not wait(): Ray could not interrupt that
            time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):  # the worker has ended, whatever it was able to give back
            if Path(lease).read_text(encoding="utf-8").partition("\n")[0] == owner:
                Path(lease).unlink()
    lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return process.returncode, lines[-1] if lines else "no word", node
