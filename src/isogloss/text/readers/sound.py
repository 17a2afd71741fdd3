"""Lines for readers that leave bad rows out: one that cannot be decoded is a problem, and marked."""

from collections.abc import Iterator

from isogloss.text.readers.lines import Problem, Source, stream_lines


def sound_lines(source: Source, problem: Problem) -> Iterator[tuple[int, str | None]]:
    """Number and text of every line; None in the place of one that is not UTF-8.

    `stream_lines` gives such a line with replacement characters, so that counts stay right; who trains on what is read
    must not have it.
    """
    found: list[str] = []
    for number, line in stream_lines(source, found.append):
        yield number, None if found else line
        while found:
            problem(found.pop(0))
    for sentence in found:
        problem(sentence)
