"""The one exception a user's input can raise, and how a signal ends a process in order.

Every sentence says what was wrong, where (file and line), what was expected and what to do. The command line shows
it without a traceback and exits with code 2.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

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
    """Inside the block SIGTERM ends this process in order, and the processes that it started with it."""
    if current_thread() is not main_thread():  # only that one may say what signals do
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)
