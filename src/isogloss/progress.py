"""How long work tells how far it is: a callback `(stage, done, total)`, shown by whoever is in front of a person.

What follows a colon and a space in a stage is news of it: `training: loss 3.214` goes on with the bar of `training`.

The library never prints. A function that can take more than two seconds accepts `progress=`; the command line and
notebooks pass `bar()`, everything else the silent default.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


def named(progress: Progress, stage: str) -> Progress:
    """The same progress under one name, whatever the work calls its stages."""
    return lambda _, done, total: progress(stage, done, total)


def shifted(progress: Progress, before: int, whole: int) -> Progress:
    """The progress of one part of some work, shown as that of the whole: `before` was done before it began."""
    return lambda stage, done, _: progress(stage, before + done, whole)


@contextmanager
def bar() -> Iterator[Progress]:
    """Show one rich progress bar per stage on standard error while the block runs."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bars, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Bars(*columns, console=Console(stderr=True)) as bars:

        def show(stage: str, done: int, total: int) -> None:
            name = stage.partition(": ")[0]
            if name not in tasks:
                tasks[name] = bars.add_task(stage, total=total)
            bars.update(tasks[name], description=stage, completed=done, total=total)

        yield show
