"""Word vectors in word2vec's and fastText's text format: a word and its numbers on each line, separated by spaces.

The first line may say how many words there are and how wide they are (word2vec, fastText), or be a word already
(GloVe). A word may hold spaces: the numbers are counted from the end of the line.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import InputError
from isogloss.text.readers.lines import Source, first_line, stream_lines


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and a vector of each: values (words, width), float32."""

    words: list[str]
    values: NDArray[np.float32]
    name: str = ""


def read_word_vectors(source: Source, *, keep: Collection[str] | None = None, most: int | None = None) -> WordVectors:
    """The vectors of a text file, lower-cased words, each once: the first of several counts, as it is more frequent.

    keep: only these words (a set), so that memory is that of the words kept. most: look at so many lines only; such
    files are in order of frequency, and 200,000 is what is usually taken.
    """
    path = Path(source)
    head = first_line(path).split()
    counted = len(head) == 2 and all(cell.isdigit() for cell in head)
    width = int(head[1]) if counted else _numbers_at_end(head)
    if width < 1:
        raise InputError(f"{path}:1: no word vector: a word and its numbers were expected, separated by spaces")
    words: dict[str, int] = {}
    rows: list[NDArray[np.float32]] = []
    number = 0
    for number, line in stream_lines(path):
        if counted and number == 1:
            continue
        if most is not None and number - counted > most:
            break
        word, *cells = line.rstrip().rsplit(" ", width)
        key = word.strip().lower()
        if len(cells) != width or not key:
            raise InputError(f"{path}:{number}: {len(cells)} numbers where {width} were expected after a word")
        if key in words or (keep is not None and key not in keep):
            continue
        rows.append(_vector(cells, path, number))
        words[key] = len(words)
    told = int(head[0]) if counted else 0
    if number - 1 < min(told, most or told):
        raise InputError(
            f"{path}:{number}: the file ends here, after {number - 1:,} words, and says {told:,} on its first line; it "
            "was cut short: fetch it again, or correct that number"
        )
    if not rows:
        raise InputError(f"{path} has a vector of none of the words asked for; check its language")
    return WordVectors(list(words), np.stack(rows), path.name)


def _numbers_at_end(cells: list[str]) -> int:
    """How many cells from the end on are numbers, the first cell being the word."""
    found = 0
    for cell in reversed(cells[1:]):
        try:
            float(cell)
        except ValueError:
            break
        found += 1
    return found


def _vector(cells: list[str], path: Path, number: int) -> NDArray[np.float32]:
    try:
        found = np.array(cells, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path}:{number}: {error}; numbers were expected after the word") from error
    if not np.isfinite(found).all():
        raise InputError(f"{path}:{number}: a number of this vector is not finite")
    return found
