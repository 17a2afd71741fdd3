"""Which words of a bitext stand for the languages: pairs of types that translate each other, with the links' word.

Links come with the bitext (set by hand) or from the statistical aligner; never from the model under study, which would
then be judged by its own opinion.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from isogloss.measures.word_alignment import align_words, one_to_one
from isogloss.progress import Progress, silent
from isogloss.text.corpora import Bitext, Corpus, Link
from isogloss.text.words import word_spans

Pair = tuple[str, str]


@dataclass(frozen=True)
class Vocabulary:
    """Word types of several languages and which of them translate each other.

    types: language -> its types, lower-cased; surface: how each is mostly written; pairs: (source, target) -> numbers
    of types that translate each other, most frequent first.
    """

    types: Mapping[str, Sequence[str]]
    surface: Mapping[str, Mapping[str, str]]
    pairs: Mapping[Pair, Sequence[tuple[int, int]]]


def words_of(corpus: Corpus, row: int) -> list[str]:
    """The words of one sentence."""
    sentence = corpus.sentences[row]
    return [sentence[start:stop] for start, stop in word_spans(corpus, row)]


def links_of(
    bitext: Bitext, pair: Pair, rows: Sequence[int], *, progress: Progress = silent
) -> tuple[list[Sequence[Link]], bool]:
    """Word links of some rows, and whether they came with the bitext rather than from the aligner."""
    source, target = pair
    if pair in bitext.links:
        return [bitext.links[pair][row] for row in rows], True
    if (target, source) in bitext.links:
        return [[(j, i) for i, j in bitext.links[target, source][row]] for row in rows], True
    sides = [[words_of(bitext[language], row) for row in rows] for language in pair]
    # Where both directions agree precision is near 0.98; recall matters little for a list of types.
    return list(align_words(sides[0], sides[1], symmetrise="intersection", progress=progress)), False


def vocabulary(
    bitext: Bitext,
    links: Mapping[Pair, Sequence[Sequence[Link]]],
    rows: Sequence[int],
    *,
    limit: int,
    at_least: Mapping[Pair, int],
) -> Vocabulary:
    """Pairs of types that are each other's most frequent translation, at most `limit` a pair of languages.

    at_least: how often a pair must have been linked, which should be more than once for statistical links. Words
    without letters, and pairs written alike (names, numbers), say nothing about meaning and are left out.
    """
    types: dict[str, dict[str, int]] = {language: {} for language in bitext.languages}
    written: dict[str, dict[str, Counter[str]]] = {language: {} for language in bitext.languages}
    pairs: dict[Pair, list[tuple[int, int]]] = {}
    for (source, target), each in links.items():
        counts: Counter[tuple[str, str]] = Counter()
        for words in _linked_words(bitext, (source, target), each, rows):
            low = words[0].lower(), words[1].lower()
            if low[0] != low[1] and all(any(letter.isalpha() for letter in word) for word in low):
                counts[low] += 1
                for language, word, key in zip((source, target), words, low, strict=True):
                    written[language].setdefault(key, Counter())[word] += 1
        often = [pair for pair in _mutual(counts) if counts[pair] >= at_least[source, target]]
        pairs[source, target] = [
            (
                types[source].setdefault(one, len(types[source])),
                types[target].setdefault(other, len(types[target])),
            )
            for one, other in often[:limit]
        ]
    surface = {
        language: {key: seen.most_common(1)[0][0] for key, seen in written[language].items() if key in types[language]}
        for language in types
    }
    return Vocabulary({language: list(known) for language, known in types.items()}, surface, pairs)


def _linked_words(
    bitext: Bitext, pair: Pair, links: Sequence[Sequence[Link]], rows: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Words as they are written, each linked to no other."""
    for row, found in zip(rows, links, strict=True):
        one, other = (words_of(bitext[language], row) for language in pair)
        for i, j in one_to_one(found):
            yield one[i], other[j]


def _mutual(counts: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs in which each is the other's most frequent partner, ties by alphabet."""
    ranked = sorted(counts, key=lambda pair: (-counts[pair], pair))
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    for one, other in ranked:
        first.setdefault(one, other)
        second.setdefault(other, one)
    return [(one, other) for one, other in ranked if first[one] == other and second[other] == one]
