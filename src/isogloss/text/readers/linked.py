"""The project's own hand-linked tables: parallel sentences whose words say which word they translate.

A header of languages, the first being the one that is linked to. Words are separated by a space, or by `~`
where they touch in the natural text. In the other columns a word may end in `/i` or `/i,j`: the numbers, from
0, of the first column's words it translates.

    en                    nl                             zh
    The cat sleeps~.      De/0 kat/1 slaapt/2~./3        猫/1~睡觉/2~。/3

The natural text is the cell without those numbers and with each `~` removed.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import resources
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, Lexicon, Link, Span
from isogloss.text.readers.dictionaries import read_lexicon
from isogloss.text.readers.lines import Source
from isogloss.text.readers.names import chosen, pick
from isogloss.text.readers.tables import stream_table, table_columns

_LINKED = re.compile(r"(.+?)/(\d+(?:,\d+)*)")
_MALFORMED = re.compile(r"/[\d,]+|.+/[\d,]*")
EVERYDAY, LEXICON = "everyday.tsv", "lexicon.tsv"


def parse_cell(cell: str, *, linked: bool) -> tuple[str, list[Span], list[list[int]]]:
    """Natural text, word spans, and the numbers after each word; ValueError says what is malformed.

    >>> parse_cell("slaapt/2~./3", linked=True)
    ('slaapt.', [(0, 6), (6, 7)], [[2], [3]])
    """
    text = ""
    spans: list[Span] = []
    numbers: list[list[int]] = []
    for index, part in enumerate(re.split(r"([ ~])", cell)):
        if index % 2:
            text += " " if part == " " else ""
            continue
        word, ends = _parse_word(part) if linked else (part, [])
        if not word:
            raise ValueError("an empty word (two separators in a row, or one at the end)")
        spans.append((len(text), len(text) + len(word)))
        numbers.append(ends)
        text += word
    return text, spans, numbers


def _parse_word(part: str) -> tuple[str, list[int]]:
    match = _LINKED.fullmatch(part)
    if match:
        return match.group(1), [int(number) for number in match.group(2).split(",")]
    if part != "/" and _MALFORMED.fullmatch(part):
        raise ValueError(f"{part!r} where a word such as 'kat/1' or 'kat/1,2' was expected")
    return part, []


def _row(cells: Sequence[str]) -> tuple[list[str], list[list[Span]], list[list[Link]]]:
    """Texts and spans a column, and links (first, other) for each column after the first."""
    texts: list[str] = []
    spans: list[list[Span]] = []
    links: list[list[Link]] = []
    for column, cell in enumerate(cells):
        text, words, numbers = parse_cell(cell, linked=column > 0)
        texts.append(text)
        spans.append(words)
        found = sorted({(number, target) for target, ends in enumerate(numbers) for number in ends})
        if found and found[-1][0] >= len(spans[0]):
            raise ValueError(f"a link to word {found[-1][0]}, but the first column has words 0 to {len(spans[0]) - 1}")
        links.append(found)
    return texts, spans, links


def read_linked(source: Source, languages: Sequence[str] | None = None) -> Bitext:
    """A many-language bitext with words, and links for each pair (first column, other).

    `languages` picks and orders the columns; links are kept for the pairs whose languages are both picked.
    """
    path = Path(source)
    columns, has_header = table_columns(path, None)
    there = [each for each in columns if each is not None]
    if not has_header:
        raise InputError(f"{path}:1: a header of languages was expected, the linked-to language first")
    wanted = pick(chosen(languages), there, where=path)
    kept = [place for place, each in enumerate(columns) if each is not None]
    texts: dict[str, list[str]] = {each: [] for each in there}
    spans: dict[str, list[list[Span]]] = {each: [] for each in there}
    links: dict[str, list[list[Link]]] = {each: [] for each in there}
    for number, cells in stream_table(path, len(columns), skip=1):
        try:
            row = _row([cells[place] for place in kept])
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from error
        for each, text, words, found in zip(there, *row, strict=True):
            texts[each].append(text)
            spans[each].append(words)
            links[each].append(found)
    if not texts[there[0]]:
        raise InputError(f"{path} has a header but no rows")
    corpora = tuple(Corpus(each, texts[each], spans[each], path.name) for each in wanted)
    pairs = {(there[0], each): links[each] for each in there[1:] if {there[0], each} <= set(wanted)}
    return Bitext(corpora, pairs, path.name)


def _packaged(name: str) -> AbstractContextManager[Path]:
    file = resources.files("isogloss") / "data" / name
    if not file.is_file():
        raise InputError(f"this installation of isogloss lacks its data file {name}; install it again")
    return resources.as_file(file)


def embedded(languages: Sequence[str] | None = None) -> Bitext:
    """The hand-linked everyday sentences that come with the package.

    `en, nl = embedded(("en", "nl"))`
    """
    with _packaged(EVERYDAY) as path:
        return read_linked(path, languages)


def embedded_lexicon(source: str, target: str) -> Lexicon:
    """The word pairs that come with the package, for two of its languages: `embedded_lexicon("en", "nl")`."""
    with _packaged(LEXICON) as path:
        return read_lexicon(path, source, target)
