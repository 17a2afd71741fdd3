"""One job in a process of its own: `python -m isogloss.recipes.work`, with the job as a line of JSON on standard input.

The process that started it holds the other end of the pipe. When that closes, the worker ends: a job that outlived a
killed sweep would be run by two processes as soon as the sweep is resumed. Where the starter is on another machine than
the sweep, it names a lease, too, which the worker holds while it runs (`isogloss.runs.lease`).
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from typing import Any

from isogloss.errors import InputError
from isogloss.recipes.jobs import Job, run_job
from isogloss.runs.lease import held, release


def main(*, watched: bool = False) -> None:
    """Run the job; a mistake is one sentence on standard error. watched: end when standard input is closed."""
    given = json.loads(sys.stdin.readline())
    lease = given.pop("lease", None)
    if watched:
        end_with_starter(lambda: release(Path(lease["path"]), lease["owner"]) if lease else None)
    try:
        with _holding(lease):
            run_job(Job(**{**given, "folder": Path(given["folder"]), "place": {}}))
    except InputError as error:
        sys.exit(str(error))


def end_with_starter(before: Callable[[], None] = lambda: None) -> None:
    """End this process at once when standard input is closed at its other end; `before` is called then."""

    def watch() -> None:
        # Not sys.stdin: a thread that waits in its buffer would crash the interpreter at exit.
        while os.read(0, 1):
            pass
        before()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _holding(lease: dict[str, Any] | None) -> Any:
    if lease is None:
        return nullcontext()
    path = Path(lease["path"])
    return held(path, lease["owner"], seconds=lease["seconds"], told=lambda words: sys.stderr.write(f"{words}\n"))


if __name__ == "__main__":
    main(watched=True)
