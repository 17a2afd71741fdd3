"""The segments of an example, for tasks whose examples have two: what code-switching needs to know of a task.

    NLI   a premise and a hypothesis, either of which may be taken from a translation of the pair
    QA    a question, which may, and its context, which may not: the answer is a part of it and stays there

A row of a file and its translation are found by their place in their files, or by the name the row has in it (the id of
a question). Labels never change.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from isogloss.text.corpora import Span
from isogloss.text.readers.lines import Problem, Source
from isogloss.text.switching import Switched


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file of examples, bad or not, so that rows of translated files can be told to correspond.

    where: file and line. example: what was read; None where the row is bad (its problem was told) or passed over. name:
    what the row is called in every language, "" where only its place tells it from others.
    """

    where: str
    example: Any
    name: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Segments:
    """How the examples of a task fall into segments.

    switched: numbers of the segments that may come from a translation. rows(file, problem): every row of a file, in
    order. texts(example): each segment and the spans in it where no word may be replaced. rebuild(example, texts): the
    example with other texts. swap(example, translation, segment): the example with one segment of its translation.
    differ(example, translation): why the two cannot be translations of each other, "" where they can.
    """

    switched: tuple[int, ...]
    rows: Callable[[Source, Problem], Iterator[FileRow]]
    texts: Callable[[Any], Sequence[tuple[str, Sequence[Span]]]]
    rebuild: Callable[[Any, Sequence[Switched]], Any]
    swap: Callable[[Any, Any, int], Any]
    differ: Callable[[Any, Any], str]
