"""The exception for invalid user input, and orderly exits on signals.

Every message says what was wrong, where (file and line), what was expected and what to do. The command line shows it
without a traceback and exits with code 2.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer, current_thread, main_thread
from typing import Any, NoReturn

MOST = 600  # maximum number of characters of a message


class InputError(ValueError):
    """Invalid user input; the message is one clear sentence, shortened if it quotes long text."""

    def __init__(self, sentence: str) -> None:
        cut = len(sentence) > MOST
        super().__init__(f"{sentence[: MOST // 2]} ... {sentence[-MOST // 4 :]}" if cut else sentence)


class JobsFailed(InputError):
    """Some jobs of a sweep or a reproduction failed; the results of the others are in their folders."""


def require(condition: object, sentence: str) -> None:
    """Raise an InputError with this sentence unless the condition holds."""
    if not condition:
        raise InputError(sentence)


@contextmanager
def readable(path: object, wrong: str, remedy: str) -> Iterator[None]:
    """Turn any error in the block into an InputError about a missing, incomplete or invalid file.

    The message has the path, what is wrong, why, and what to do, as in `data.npy holds no text (it is empty); ...`.
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
    """Inside the block, SIGTERM and Ctrl-C end this process and its children in an orderly way.

    Python raises the exception of a signal at an arbitrary point. Compiled code that is importing a module turns it
    into another error, and a destructor drops it: the former is replaced by the signal, the latter is sent again.
    """
    if current_thread() is not main_thread():  # only the main thread may set signal handlers
        yield
        return
    received = list[int]()

    def end(number: int, _: Any) -> NoReturn:
        received[:] = [number]
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def dropped(unraisable: Any) -> None:
        lost = received and issubclass(unraisable.exc_type, (KeyboardInterrupt, SystemExit))
        Timer(0.1, os.kill, (os.getpid(), received[0])).start() if lost else hook(unraisable)

    hook, sys.unraisablehook = sys.unraisablehook, dropped
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except Exception:
        if received:
            end(received[0], None)
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
