"""Word types of several languages and their translation pairs, from the word links of a bitext.

Links come with the bitext (set by hand) or from the statistical aligner, never from the model under study, which would
make the evaluation circular.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isogloss.measures.word_alignment import ALIGNERS, align_words, one_to_one
from isogloss.text.corpora import Bitext, Link
from isogloss.text.words import words_of

Pair = tuple[str, str]


@dataclass(frozen=True)
class Vocabulary:
    """Word types of several languages and their translation pairs.

    types: language -> its types, lower-cased; surface: the most frequent spelling of each; pairs: (source, target) ->
    indices of types that translate each other, most frequent first.
    """

    types: Mapping[str, Sequence[str]]
    surface: Mapping[str, Mapping[str, str]]
    pairs: Mapping[Pair, Sequence[tuple[int, int]]]


def links_of(
    bitext: Bitext, pair: Pair, rows: Sequence[int], *, aligner: str = "ibm2"
) -> tuple[list[Sequence[Link]], bool]:
    """Word links of the rows, and whether they come with the bitext rather than from one of the `ALIGNERS`."""
    source, target = pair
    if pair in bitext.links:
        return [bitext.links[pair][row] for row in rows], True
    if (target, source) in bitext.links:
        return [[(j, i) for i, j in bitext.links[target, source][row]] for row in rows], True
    sides = [[words_of(bitext[language], row) for row in rows] for language in pair]
    # Links found in both directions have a precision near 0.98; recall matters little for a list of types.
    return list(align_words(*sides, model=ALIGNERS[aligner], symmetrise="intersection")), False


def vocabulary(
    bitext: Bitext,
    links: Mapping[Pair, Sequence[Sequence[Link]]],
    rows: Sequence[int],
    *,
    limit: int,
    at_least: Mapping[Pair, int],
) -> Vocabulary:
    """Pairs of types that are each other's most frequent translation, at most `limit` for each pair of languages.

    at_least: minimum number of links of a pair, which should be more than 1 for statistical links. Words without
    letters and pairs with the same spelling (names, numbers) carry no information about meaning and are left out.
    """
    types: dict[str, dict[str, int]] = {language: {} for language in bitext.languages}
    written: dict[str, dict[str, Counter[str]]] = {language: {} for language in bitext.languages}
    pairs: dict[Pair, list[tuple[int, int]]] = {}
    for (source, target), each in links.items():
        counts: Counter[tuple[str, str]] = Counter()
        for row, row_links in zip(rows, each, strict=True):
            left, right = words_of(bitext[source], row), words_of(bitext[target], row)
            for i, j in one_to_one(row_links):
                low = left[i].lower(), right[j].lower()
                if low[0] != low[1] and all(any(letter.isalpha() for letter in word) for word in low):
                    counts[low] += 1
                    written[source].setdefault(low[0], Counter())[left[i]] += 1
                    written[target].setdefault(low[1], Counter())[right[j]] += 1
        # Pairs in which each is the other's most frequent partner, ties by alphabet.
        ranked = sorted(counts, key=lambda pair: (-counts[pair], pair))
        to_target = dict(reversed(ranked))
        to_source = {translation: word for word, translation in reversed(ranked)}
        mutual = [pair for pair in ranked if to_target[pair[0]] == pair[1] and to_source[pair[1]] == pair[0]]
        often = [pair for pair in mutual if counts[pair] >= at_least[source, target]]
        numbers, other_numbers = types[source], types[target]
        pairs[source, target] = [
            (numbers.setdefault(word, len(numbers)), other_numbers.setdefault(translation, len(other_numbers)))
            for word, translation in often[:limit]
        ]
    surface = {
        language: {key: seen.most_common(1)[0][0] for key, seen in written[language].items() if key in types[language]}
        for language in types
    }
    return Vocabulary({language: list(known) for language, known in types.items()}, surface, pairs)
