"""The one exception a user's input can raise, and how a signal ends a process in order.

Every sentence says what was wrong, where (file and line), what was expected and what to do. The command line shows
it without a traceback and exits with code 2.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer, current_thread, main_thread
from typing import Any, NoReturn

MOST = 600  # characters of a sentence


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one clear sentence, however long what it quotes is."""

    def __init__(self, sentence: str) -> None:
        cut = len(sentence) > MOST
        super().__init__(f"{sentence[: MOST // 2]} ... {sentence[-MOST // 4 :]}" if cut else sentence)


class JobsFailed(InputError):
    """Some jobs of a sweep or a reproduction failed; what the others found is in their folders."""


def require(condition: object, sentence: str) -> None:
    """Raise the sentence as an InputError unless the condition holds: what a function asks of what it is given."""
    if not condition:
        raise InputError(sentence)


@contextmanager
def readable(path: object, wrong: str, remedy: str) -> Iterator[None]:
    """What goes wrong in the block, in whatever library, means that a file is missing, cut short or foreign.

    The sentence says which, what is wrong with it, why, and what to do: `data.npy holds no text (it is empty); ...`.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"{path} {wrong} ({why}); {remedy}") from error


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Inside the block SIGTERM and Ctrl-C end this process in order, and the processes that it started with it.

    Python raises what a signal means wherever it happens to be. Compiled code that was importing something turns that
    into an error of its own, and a destructor drops it: the first is told as the signal, the second sends it again.
    """
    if current_thread() is not main_thread():  # only that one may say what signals do
        yield
        return
    came = list[int]()

    def end(number: int, _: Any) -> NoReturn:
        came[:] = [number]
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def dropped(unraisable: Any) -> None:
        lost = came and issubclass(unraisable.exc_type, (KeyboardInterrupt, SystemExit))
        Timer(0.1, os.kill, (os.getpid(), came[0])).start() if lost else hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, dropped
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except Exception:
        if came:
            end(came[0], None)
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
