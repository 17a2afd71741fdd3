"""Word links in Pharaoh format: on each line the links of one sentence pair, `0-0 1-2 2p1`.

Numbers count words from 0, source before target. `-` is a sure link, `p` one that annotators only accept as
possible (the alignment error rate treats the two differently). A blank line is a pair without links.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, Link, Span
from isogloss.text.languages import code
from isogloss.text.readers.lines import Source, stream_lines
from isogloss.text.words import spans

_LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class WordLinks:
    """Links a row: the sure ones, and the possible ones with the sure ones among them. `name` is the file."""

    sure: Sequence[Sequence[Link]]
    possible: Sequence[Sequence[Link]]
    name: str = ""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.sure)


def parse_links(line: str) -> tuple[list[Link], list[Link]]:
    """Sure and possible links of one line, sorted; ValueError names a malformed one.

    >>> parse_links("0-0 2p1 1-2")
    ([(0, 0), (1, 2)], [(0, 0), (1, 2), (2, 1)])
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for piece in line.split():
        match = _LINK.fullmatch(piece)
        if not match:
            raise ValueError(f"{piece!r} where a link such as 0-2 or 0p2 was expected")
        link = (int(match.group(1)), int(match.group(3)))
        possible.add(link)
        if match.group(2) == "-":
            sure.add(link)
    return sorted(sure), sorted(possible)


def read_links(path: Source, sentences: int | None = None) -> WordLinks:
    """The links of every line; with `sentences`, a file that has not so many lines is an InputError."""
    sure: list[list[Link]] = []
    possible: list[list[Link]] = []
    for number, line in stream_lines(path):
        try:
            first, second = parse_links(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from error
        sure.append(first)
        possible.append(second)
    if sentences is not None and sentences != len(sure):
        raise InputError(f"{path} has links for {len(sure):,} sentences, the text has {sentences:,}")
    return WordLinks(sure, possible, str(Path(path)))


def _word_spans(corpus: Corpus, row: int) -> Sequence[Span]:
    return corpus.words[row] if corpus.words is not None else spans(corpus.sentences[row], corpus.language)


def attach_links(bitext: Bitext, pair: tuple[str, str], links: WordLinks) -> Bitext:
    """The bitext with the sure links of a pair of its languages, each checked against the sentence's words."""
    source, target = (bitext[code(each)] for each in pair)
    if len(links) != bitext.rows:
        raise InputError(f"{links.name or 'links'}: links of {len(links):,} rows for {bitext.rows:,} rows of text")
    for row, found in enumerate(links.possible):
        for side, corpus in enumerate((source, target)):
            if not found:
                continue
            words = len(_word_spans(corpus, row))
            last = max(found, key=lambda link: link[side])
            if last[side] >= words:
                raise InputError(
                    f"{links.name or 'links'}:{row + 1}: link {last[0]}-{last[1]}, but the {corpus.language} "
                    f"sentence has {words} words, counted from 0"
                )
    return replace(bitext, links={**bitext.links, (source.language, target.language): links.sure})
