"""How long work tells how far it is: `progress(stage, done, total)`, shown by whoever is in front of a person.

What follows a colon and a space in a stage is news of it: `training: loss 3.214` goes on with the bar of `training`.

The library never prints. Work that can take more than two seconds tells the current listener, which is silent unless
somebody listens: the command line and notebooks inside `with bar():`, others inside `with listening(callback):`.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

Listener = Callable[[str, int, int], object]
T = TypeVar("T")
PAUSE = 30.0  # seconds between lines on a stage, where they are written to a file


def silent(stage: str, done: int, total: int) -> None:
    """Say nothing."""


listener: ContextVar[Listener] = ContextVar("listener", default=silent)
"""The listener. Threads do not inherit it: what runs in another one takes `listener.get()` along and calls that."""


def progress(stage: str, done: int, total: int) -> None:
    """Tell the current listener that so many of all are done."""
    listener.get()(stage, done, total)


@contextmanager
def listening(callback: Listener) -> Iterator[None]:
    """Let a callback `(stage, done, total)` hear the progress of the block; `silent` lets nobody hear it.

    Not for a block that yields: whoever takes the values would be heard, too. `named` and `shifted` are for that.
    """
    token = listener.set(callback)
    try:
        yield
    finally:
        listener.reset(token)


def named(stage: str, work: Iterable[T]) -> Iterator[T]:
    """What some work yields, its progress told under one name, whatever it calls its stages."""
    return _retold(work, lambda _, done, total: (stage, done, total))


def shifted(before: int, whole: int, work: Iterable[T]) -> Iterator[T]:
    """What part of some work yields, its progress told as that of the whole: `before` was done before it began."""
    return _retold(work, lambda stage, done, _: (stage, before + done, whole))


def _retold(work: Iterable[T], change: Callable[[str, int, int], tuple[str, int, int]]) -> Iterator[T]:
    remaining = iter(work)

    def advance() -> T:
        outer = listener.get()
        with listening(lambda stage, done, total: outer(*change(stage, done, total))):
            return next(remaining)

    with suppress(StopIteration):
        while True:  # without a variable for what is yielded, which would hold it while the next is computed
            yield advance()


def _write_lines() -> Listener:
    """A listener that writes a line when a stage begins, when it ends, and now and then between."""
    due: dict[str, float] = {}  # when the next line on each stage is to be written

    def write(stage: str, done: int, total: int) -> None:
        name, now = stage.partition(": ")[0], time.monotonic()
        if now >= due.get(name, 0.0) or (done >= total and due[name] < math.inf):
            due[name] = math.inf if done >= total else now + PAUSE
            sys.stderr.write(f"{stage}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    return write


@contextmanager
def bar() -> Iterator[None]:
    """Show one rich progress bar per stage on standard error while the block runs; lines, where that is a file."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    if not sys.stderr.isatty():
        with listening(_write_lines()):
            yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def show(stage: str, done: int, total: int) -> None:
            name = stage.partition(": ")[0]
            if name not in tasks:
                tasks[name] = bars.add_task(stage, total=total)
            bars.update(tasks[name], description=stage, completed=done, total=total)

        with listening(show):
            yield
