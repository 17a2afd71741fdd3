"""Progress of long computations: `progress(stage, done, total)` reports it to the current listener.

Text after a colon and a space in a stage is a status: `training: loss 3.214` updates the bar of `training`.

The library never prints. Computations that can take more than two seconds report to the listener, which is silent by
default: the command line and notebooks use `with bar():`, other programs `with listening(callback):`.
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
PAUSE = 30.0  # seconds between lines on a stage, if they are written to a file


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress."""


listener: ContextVar[Listener] = ContextVar("listener", default=silent)
"""The listener. Threads do not inherit it: pass `listener.get()` to a function that runs in another thread."""


def progress(stage: str, done: int, total: int) -> None:
    """Report to the current listener that `done` of `total` items are done."""
    listener.get()(stage, done, total)


@contextmanager
def listening(callback: Listener) -> Iterator[None]:
    """Call `callback(stage, done, total)` for the progress of the block; `silent` ignores it.

    Not for a block that yields, since progress of the consumer would be reported, too; use `named` and `shifted`.
    """
    token = listener.set(callback)
    try:
        yield
    finally:
        listener.reset(token)


def named(stage: str, work: Iterable[T]) -> Iterator[T]:
    """Yield the items of `work`, with its progress reported under the name `stage`."""
    return _retold(work, lambda _, done, total: (stage, done, total))


def shifted(before: int, whole: int, work: Iterable[T]) -> Iterator[T]:
    """Yield the items of `work`, with its progress reported as part of `whole`, of which `before` was done before."""
    return _retold(work, lambda stage, done, _: (stage, before + done, whole))


def _retold(work: Iterable[T], change: Callable[[str, int, int], tuple[str, int, int]]) -> Iterator[T]:
    remaining = iter(work)

    def advance() -> T:
        outer = listener.get()
        with listening(lambda stage, done, total: outer(*change(stage, done, total))):
            return next(remaining)

    with suppress(StopIteration):
        while True:  # no variable, which would keep the yielded item in memory while the next one is computed
            yield advance()


def _write_lines() -> Listener:
    """A listener that writes a line at the start and the end of a stage, and every `PAUSE` seconds between."""
    due: dict[str, float] = {}  # time of the next line on each stage

    def write(stage: str, done: int, total: int) -> None:
        name, now = stage.partition(": ")[0], time.monotonic()
        if now >= due.get(name, 0.0) or (done >= total and due[name] < math.inf):
            due[name] = math.inf if done >= total else now + PAUSE
            sys.stderr.write(f"{stage}: {done:,} of {total:,}\n")
            sys.stderr.flush()

    return write


@contextmanager
def bar() -> Iterator[None]:
    """Show one rich progress bar per stage on standard error while the block runs, or lines if that is a file."""
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
