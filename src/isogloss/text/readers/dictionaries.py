"""Words: bilingual dictionaries, and word vectors.

Dictionaries are MUSE files, or tables with a header of languages.

A MUSE file has a word and a translation on each line, separated by a tab or else by the first space (what comes from
PanLex has translations of several words); a word with several translations has several lines. When its name tells the
languages (`en-de.0-5000.txt`) it can be read in either direction.

Word vectors are in word2vec's and fastText's text format: a word and its numbers on each line, separated by spaces. The
first line may say how many words there are and how wide they are (word2vec, fastText), or be a word already (GloVe). A
word may hold spaces: the numbers are counted from the end of the line.
"""

import itertools
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import InputError
from isogloss.text.corpora import Lexicon
from isogloss.text.languages import code
from isogloss.text.readers import lines
from isogloss.text.readers.lines import Problem, Source, fail


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

    A table gives the two columns of those languages; rows that lack one of the two are passed over.
    """
    file, source, target = Path(path), code(source), code(target)
    if source == target:
        raise InputError(f"{file}: a lexicon joins two different languages, not {source} and {target}")
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
    if not pairs:
        raise InputError(f"{file} has no pair of {source} and {target}")
    return Lexicon(source, target, list(dict.fromkeys(pairs)), file.name)


def read_word_vectors(
    source: Source, *, keep: Collection[str] | None = None, most: int | None = None
) -> tuple[list[str], NDArray[np.float32]]:
    """The lower-cased words of a text file of vectors, and the vectors, (words, width).

    Of words that are there several times the first counts, as it is more frequent.

    Args:
        source: the file.
        keep: only these words (a set), so that memory is that of the words kept.
        most: look at so many lines only; such files are in order of frequency, and 200,000 is what is usually taken.
    """
    path = Path(source)
    head = lines.first_line(path).split()
    counted = len(head) == 2 and all(cell.isdigit() for cell in head)
    width = int(head[1]) if counted else sum(1 for _ in itertools.takewhile(_is_number, reversed(head[1:])))
    if width < 1:
        raise InputError(f"{path}:1: no word vector: a word and its numbers were expected, separated by spaces")
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
    if number - 1 < min(declared, most or declared):
        raise InputError(
            f"{path}:{number}: the file ends here, after {number - 1:,} words, and says {declared:,} on its first "
            "line; it was cut short: fetch it again, or correct that number"
        )
    if not vectors:
        raise InputError(f"{path} has a vector of none of the words asked for; check its language")
    return list(vectors), np.stack(list(vectors.values()))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
