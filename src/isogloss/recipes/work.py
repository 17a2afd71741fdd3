"""One job in a process of its own: `python -m isogloss.recipes.work`, with the job as a line of JSON on standard input.

The process that started it holds the other end of the pipe. When that closes, the worker ends: a job that outlived a
killed sweep would be run by two processes as soon as the sweep is resumed.
"""

import json
import os
import sys
from pathlib import Path
from threading import Thread

from isogloss.errors import InputError
from isogloss.recipes.jobs import Job, run_job


def main(*, watched: bool = False) -> None:
    """Run the job; a mistake is one sentence on standard error. watched: end when standard input is closed."""
    given = json.loads(sys.stdin.readline())
    if watched:
        end_with_starter()
    try:
        run_job(Job(**{**given, "folder": Path(given["folder"]), "place": {}}))
    except InputError as error:
        sys.exit(str(error))


def end_with_starter() -> None:
    """End this process at once when standard input is closed at its other end."""

    def watch() -> None:
        # Not sys.stdin: a thread that waits in its buffer would crash the interpreter at exit.
        while os.read(0, 1):
            pass
        os._exit(1)

    Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(watched=True)
