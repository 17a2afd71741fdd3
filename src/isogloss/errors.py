"""The one exception a user's input can raise.

Every sentence says what was wrong, where (file and line), what was expected and what to do. The command line shows
it without a traceback and exits with code 2.
"""


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one clear sentence."""


def require(condition: object, sentence: str) -> None:
    """Raise the sentence as an InputError unless the condition holds: what a function asks of what it is given."""
    if not condition:
        raise InputError(sentence)
