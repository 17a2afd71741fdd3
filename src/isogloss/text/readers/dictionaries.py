"""Bilingual dictionaries: MUSE files, and tables with a header of languages.

A MUSE file has a word and a translation on each line, separated by a tab or else by the first space (what comes from
PanLex has translations of several words); a word with several translations has several lines. When its name tells the
languages (`en-de.0-5000.txt`) it can be read in either direction.
"""

from collections.abc import Iterator
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Lexicon
from isogloss.text.languages import code
from isogloss.text.readers.lines import Problem, Source, fail, first_line, stream_lines
from isogloss.text.readers.names import languages_of, pick
from isogloss.text.readers.tables import header, stream_table


def stream_pairs(path: Path, problem: Problem = fail) -> Iterator[tuple[int, tuple[str, str]]]:
    """Line number and pair of each line of a MUSE file."""
    for number, line in stream_lines(path, problem):
        words = [word.strip() for word in line.split("\t")] if "\t" in line else line.split(maxsplit=1)
        if len(words) != 2 or not all(words):
            problem(
                f"{path}:{number}: {len(words)} cells where a word and its translation were expected, "
                "separated by a tab or a space"
            )
            continue
        yield number, (words[0], words[1].strip())


def read_lexicon(path: Source, source: str, target: str) -> Lexicon:
    """Word pairs from `source` to `target`, each pair once, in the file's order.

    A table gives the two columns of those languages; rows that lack one of the two are passed over.
    """
    file, source, target = Path(path), code(source), code(target)
    if source == target:
        raise InputError(f"{file}: a lexicon joins two different languages, not {source} and {target}")
    cells = first_line(file).split("\t")
    columns = header(cells) if len(cells) > 1 else None
    if columns is not None:
        there = [each for each in columns if each is not None]
        left, right = (columns.index(each) for each in pick((source, target), there, where=file))
        rows = stream_table(file, len(columns), skip=1)
        found = [(cells[left].strip(), cells[right].strip()) for _, cells in rows]
        pairs = [pair for pair in found if all(pair)]
    else:
        pairs = _directed([pair for _, pair in stream_pairs(file)], file, (source, target))
    if not pairs:
        raise InputError(f"{file} has no pair of {source} and {target}")
    return Lexicon(source, target, list(dict.fromkeys(pairs)), file.name)


def _directed(pairs: list[tuple[str, str]], file: Path, wanted: tuple[str, str]) -> list[tuple[str, str]]:
    """The pairs in the wanted direction, turned round where the file's name says it goes the other way."""
    told = languages_of(file)
    if told is None or told == wanted:
        return pairs
    if told == wanted[::-1]:
        return [(right, left) for left, right in pairs]
    raise InputError(f"{file} is a dictionary of {' and '.join(told)} by its name, not of {' and '.join(wanted)}")
