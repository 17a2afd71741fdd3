"""Read dictionaries, word links of parallel sentences, and word vectors.

Dictionaries are MUSE files, or tables with a header of languages.

A MUSE file has a word and a translation on each line, separated by a tab or else by the first space (files from PanLex
have translations of several words); a word with several translations has several lines. If its name contains the
languages (`en-de.0-5000.txt`), it can be read in either direction.

Word vectors are in word2vec's and fastText's text format: a word and its numbers on each line, separated by spaces. The
first line may contain the number of words and the width (word2vec, fastText), or already a word (GloVe). A word may
contain spaces: the numbers are counted from the end of the line.

Word links, which words of parallel sentences translate each other, have two formats.

Pharaoh format has on each line the links of one sentence pair, `0-0 1-2 2p1`. Words are counted from 0, source before
target. `-` is a sure link, `p` one that annotators only accept as possible (the alignment error rate treats the two
differently). A blank line is a pair without links.

The project's own hand-linked tables contain parallel sentences in which each word refers to the words it translates.
There is a header of languages; links refer to the first one. Words are separated by a space, or by `~` if they touch in
the natural text. In the other columns a word may end in `/i` or `/i,j`: the indices, from 0, of the first column's
words that it translates.

    en                    nl                             zh
    The cat sleeps~.      De/0 kat/1 slaapt/2~./3        猫/1~睡觉/2~。/3

The natural text is the cell without those numbers and with each `~` removed.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import InputError, require
from isogloss.text.corpora import Bitext, Corpus, Lexicon, Link, Span
from isogloss.text.languages import checked_codes, code
from isogloss.text.readers import lines
from isogloss.text.readers.lines import Problem, Source, fail, pick_languages
from isogloss.text.words import word_spans

_LINK = re.compile(r"(\d{1,6})([-p])(\d{1,6})")
_LINKED = re.compile(r"(.+?)/(\d{1,6}(?:,\d{1,6})*)")
_MALFORMED = re.compile(r"/[\d,]+|.+/[\d,]*")


def stream_pairs(path: Path, problem: Problem = fail) -> Iterator[tuple[str, str]]:
    """The pair of each line of a MUSE file."""
    for number, line in lines.stream_lines(path, problem):
        words = [word.strip() for word in line.split("\t")] if "\t" in line else line.split(maxsplit=1)
        if len(words) != 2 or not all(words):
            problem(
                f"{path}:{number}: {len(words)} cells where a word and its translation were expected, "
                "separated by a tab or a space"
            )
            continue
        yield words[0], words[1].strip()


def read_lexicon(path: Source, source: str, target: str) -> Lexicon:
    """Word pairs from `source` to `target`, each pair once, in the file's order.

    In a table, the columns of these languages are used; rows that lack one of the two are skipped.
    """
    file, source, target = Path(path), code(source), code(target)
    require(source != target, f"{file}: a lexicon joins two different languages, not {source} and {target}")
    if lines.header_languages(file):
        rows = lines.open_table(file).rows((source, target))
        pairs = [(left.strip(), right.strip()) for _, (left, right) in rows if left.strip() and right.strip()]
    else:
        pairs, named = list(stream_pairs(file)), lines.languages_of(file)
        if named == (target, source):
            pairs = [(right, left) for left, right in pairs]
        elif named not in (None, (source, target)):
            by_name = " and ".join(named or ())
            raise InputError(f"{file} is a dictionary of {by_name} by its name, not of {source} and {target}")
    require(pairs, f"{file} has no pair of {source} and {target}")
    return Lexicon(source, target, list(dict.fromkeys(pairs)), file.name)


def read_word_vectors(
    source: Source, *, keep: Collection[str] | None = None, most: int | None = None
) -> tuple[list[str], NDArray[np.float32]]:
    """The lower-cased words of a text file of vectors, and the vectors, (words, width).

    Of words that occur several times, the first, which is more frequent, is used.

    Args:
        source: the file.
        keep: read only these words (a set), which saves memory.
        most: read only this many lines; such files are in order of frequency, and 200,000 is usual.
    """
    path = Path(source)
    head = lines.first_line(path).split()
    counted = len(head) == 2 and all(re.fullmatch("[0-9]{1,9}", cell) for cell in head)
    width = int(head[1]) if counted else sum(1 for _ in itertools.takewhile(_is_number, reversed(head[1:])))
    require(width >= 2, f"{path}:1: no word vector: a word and its numbers were expected, separated by spaces")
    vectors: dict[str, NDArray[np.float32]] = {}
    number = 0
    for number, line in lines.stream_lines(path):
        if counted and number == 1:
            continue
        if most is not None and number - counted > most:
            break
        word, *cells = line.rstrip().rsplit(" ", width)
        key = word.strip().lower()
        if len(cells) != width or not key:
            raise InputError(f"{path}:{number}: {len(cells)} numbers where {width} were expected after a word")
        if key in vectors or (keep is not None and key not in keep):
            continue
        try:
            vectors[key] = np.array(cells, dtype=np.float32)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}; numbers were expected after the word") from error
        if not np.isfinite(vectors[key]).all():
            raise InputError(f"{path}:{number}: a number of this vector is not finite")
    declared = int(head[0]) if counted else 0
    ends = f"{path}:{number}: the file ends here, after {number - 1:,} words, but says {declared:,}"
    is_whole = number - 1 >= min(declared, most or declared)
    require(is_whole, f"{ends} on its first line; it was cut short: download it again, or correct that number")
    require(vectors, f"{path} has no vectors of the words that are needed; check its language")
    return list(vectors), np.stack(list(vectors.values()))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_links(path: Source) -> tuple[list[list[Link]], list[list[Link]]]:
    """The sure links of every line, sorted, and the possible ones, which include the sure ones."""
    sure: list[list[Link]] = []
    possible: list[list[Link]] = []
    for number, line in lines.stream_lines(path):
        kinds: dict[Link, str] = {}
        for piece in line.split():
            match = _LINK.fullmatch(piece)
            if not match:
                raise InputError(f"{path}:{number}: {piece!r} where a link such as 0-2 or 0p2 was expected")
            link = (int(match[1]), int(match[3]))
            kinds[link] = min(match[2], kinds.get(link, "p"))  # "-" sorts before "p": a sure link stays sure
        sure.append(sorted(link for link, kind in kinds.items() if kind == "-"))
        possible.append(sorted(kinds))
    return sure, possible


def attach_links(bitext: Bitext, pair: tuple[str, str], path: Source) -> Bitext:
    """Add the sure links of a file for a pair of languages to a bitext, each checked against the words."""
    sides = [bitext[code(each)] for each in pair]
    sure, possible = read_links(path)
    require(len(sure) == bitext.rows, f"{path} has links for {len(sure):,} sentences, the text has {bitext.rows:,}")
    for row, links in enumerate(possible):
        for side, corpus in enumerate(sides) if links else ():
            words = len(word_spans(corpus, row))
            last = max(links, key=lambda link: link[side])
            if last[side] >= words:
                raise InputError(
                    f"{path}:{row + 1}: link {last[0]}-{last[1]}, but the {corpus.language} "
                    f"sentence has {words} words, counted from 0"
                )
    return replace(bitext, links={**bitext.links, (sides[0].language, sides[1].language): sure})


def parse_cell(cell: str, *, linked: bool) -> tuple[str, list[Span], list[list[int]]]:
    """Natural text, word spans, and the indices after each word; raises a ValueError for a malformed cell.

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
        match = _LINKED.fullmatch(part) if linked else None
        word, ends = match.groups() if match else (part, "")
        if not word:
            raise ValueError("an empty word (two separators in a row, or one at the end)")
        if linked and not match and part != "/" and _MALFORMED.fullmatch(part):
            raise ValueError(f"{part!r} where a word such as 'kat/1' or 'kat/1,2' was expected")
        spans.append((len(text), len(text) + len(word)))
        numbers.append([int(number) for number in ends.split(",")] if ends else [])
        text += word
    return text, spans, numbers


def read_linked(source: Source, languages: Sequence[str] | None = None) -> Bitext:
    """Read a bitext of several languages with words, and links for each pair (first column, other).

    Args:
        source: a hand-linked table.
        languages: the columns to read, in this order; links are kept for pairs of which both languages are read.
    """
    path = Path(source)
    table = lines.open_table(path)
    require(table.has_header, f"{path}:1: a header of languages was expected, the linked-to language first")
    wanted = pick_languages(checked_codes(languages), table.languages, where=path)
    rows: list[list[tuple[str, list[Span], list[Link]]]] = []  # each column's text, word spans and links
    for number, cells in table.rows():
        rows.append([])
        for column, cell in enumerate(cells):
            try:
                text, words, ends = parse_cell(cell, linked=column > 0)
            except ValueError as error:
                raise InputError(f"{path}:{number}: {error}") from error
            links = sorted({(linked, word) for word, several in enumerate(ends) for linked in several})
            rows[-1].append((text, words, links))
            last = len(rows[-1][0][1]) - 1
            if links and links[-1][0] > last:
                raise InputError(
                    f"{path}:{number}: a link to word {links[-1][0]}, but the first column has words 0 to {last}"
                )
    require(rows, f"{path} has a header but no rows")
    columns = dict(zip(table.languages, zip(*rows, strict=True), strict=True))
    corpora = tuple(
        Corpus(each, [text for text, _, _ in columns[each]], [words for _, words, _ in columns[each]], path.name)
        for each in wanted
    )
    first, *others = table.languages
    chosen = [each for each in others if {first, each} <= set(wanted)]
    return Bitext(corpora, {(first, each): [links for _, _, links in columns[each]] for each in chosen}, path.name)


def embedded(languages: Sequence[str] | None = None) -> Bitext:
    """Read the hand-linked everyday sentences that come with the package.

    `en, nl = embedded(("en", "nl"))`
    """
    file = resources.files("isogloss") / "data" / "everyday.tsv"
    require(file.is_file(), "this installation of isogloss lacks its data file everyday.tsv; install it again")
    with resources.as_file(file) as path:
        return read_linked(path, languages)
