"""Parallel text to align with: pairs of several sources, without a sentence of any test, in parts for its amounts.

| source in the data folder | languages with English |
|---|---|
| `tatoeba_train` | all; every pair is taken |
| `europarl`, `multi30k` | de es fr nl; de fr |
| `libreoffice_help`, `gettext_mo`, `docs_po` | texts of software: all |

Of the other sources those pairs are taken whose places (a hash of both sides) are lowest. A pair is left out where
either side is a sentence of a test in letters and digits alone: a comma or a capital more does not make it another.
"""

import heapq
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.readers.parallel import Pair, PairSource, find_pairs
from isogloss.text.sampling import hash_fraction

WHOLE = "tatoeba_train"
SOURCES = (WHOLE, "europarl", "libreoffice_help", "gettext_mo", "docs_po", "multi30k")
LONGEST = 400  # characters of a side
_OTHER = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Chosen:
    """Pairs of one pair of languages by part, how many each source gave, and how many were left out for the tests."""

    parts: Sequence[Sequence[Pair]]
    sources: Mapping[str, int]
    tested: int


def letters(sentence: str) -> str:
    """A sentence by letters and digits alone, by which copies are known.

    >>> letters("Ja, natürlich!") == letters("ja natürlich")
    True
    """
    return _OTHER.sub("", sentence.casefold())


def sources_in(folder: Path) -> dict[str, list[PairSource]]:
    """Every source that is there, by its name; without Tatoeba's there is nothing to begin with."""
    if not (folder / WHOLE).is_dir():
        raise InputError(f"{folder / WHOLE} is missing: parallel text; give it, or tables of your own with --pairs")
    found = {}
    for name in SOURCES:
        if (folder / name).is_dir():
            tables = sorted((folder / name).glob("*way.tsv"))  # their names tell no languages, their headers do
            found[name] = find_pairs([str(one) for one in tables] or str(folder / name))
    return found


def choose(
    sources: Mapping[str, Sequence[PairSource]],
    languages: tuple[str, str],
    *,
    tests: Collection[str],
    shares: Sequence[float],
    most: int | None,
    whole: int | None = None,
) -> Chosen:
    """The pairs of two languages, in parts that end at these shares of every source.

    tests: sentences by their letters. most: pairs of a source, `whole` of Tatoeba's; None for all.
    """
    parts: list[list[Pair]] = [[] for _ in shares]
    counts, tested = {}, 0
    for name, several in sources.items():
        sift = _Sift(tests)
        pairs = {pair for one in several if one.languages == languages for pair in sift.kept(one.open())}
        tested += sift.tested
        if pairs:
            limit = whole if name == WHOLE else most
            ordered = heapq.nsmallest(len(pairs) if limit is None else limit, pairs, key=lambda pair: _place(pair))
            ends = [0, *(round(share * len(ordered)) for share in shares)]
            for part, start, end in zip(parts, ends, ends[1:], strict=False):
                part += ordered[start:end]
            counts[name] = len(ordered)
    if not counts:
        raise InputError(f"there is no parallel text of {' and '.join(languages)} to align with")
    return Chosen(parts, counts, tested)


class _Sift:
    """Lets pairs through that may be trained on, as cells of a table, and counts those of a test."""

    def __init__(self, tests: Collection[str]) -> None:
        self.tests, self.tested = tests, 0

    def kept(self, pairs: Iterator[Pair]) -> Iterator[Pair]:
        """The pairs, one at a time."""
        for first, second in pairs:
            one, other = " ".join(first.split()), " ".join(second.split())
            if one and other and max(len(one), len(other)) <= LONGEST:
                if letters(one) in self.tests or letters(other) in self.tests:
                    self.tested += 1
                else:
                    yield one, other


def _place(pair: Pair) -> float:
    return hash_fraction("\t".join(pair))
