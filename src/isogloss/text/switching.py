"""Code-switching: text in which some parts are in another language. Pure functions of text, dictionaries and chance.

Two ways. A whole segment of an example (a premise, a question) is taken from the example's translation, as Pan et al.
(2021) do; or single words are replaced by their translations in a dictionary. Every draw is a function of the seed, the
epoch and the example's number: not of what was drawn before, nor of the order in which examples are seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isogloss.seeds import seed_of
from isogloss.text.corpora import Lexicon, Span
from isogloss.text.words import spans

AS_IT_IS = -1
Dictionary = Mapping[str, Mapping[str, Sequence[str]]]
"""Translations of a word in lower case, by language."""
Edit = tuple[int, int, int]
"""A span of the old text, and how many characters stand there now."""


@dataclass(frozen=True)
class Switched:
    """A text in which words were replaced, and the edits, in order, that made it."""

    text: str
    edits: tuple[Edit, ...] = ()

    def moved(self, place: int) -> int:
        """Where a character of the old text is now; one inside a replaced word has no place.

        >>> Switched("een oude kat", ((0, 1, 3), (2, 5, 4))).moved(6)  # of "a old cat", the c
        9
        """
        return place + sum(size - (end - start) for start, end, size in self.edits if end <= place)


def segment_draws(
    seed: int, epoch: int, *, count: int, share: float, segments: int, others: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which segment of each example is taken from a translation, and from which: (count,), (count,).

    share: how likely an example is to be switched; the segment is `AS_IT_IS` where it is not. segments, others: how
    many there are to choose from, each as likely as the next. Draw i hangs on seed, epoch and i alone.

    >>> segment_draws(0, 0, count=3, share=1.0, segments=1, others=1)[0].tolist()
    [0, 0, 0]
    """
    chance = np.random.default_rng(seed_of(seed, "switch", epoch)).random((count, 3))
    segment = np.where(chance[:, 0] < share, (chance[:, 1] * segments).astype(np.int64), AS_IT_IS)
    return segment, (chance[:, 2] * others).astype(np.int64)


def word_chance(seed: int, epoch: int, example: int) -> np.random.Generator:
    """The chance that decides on the words of one example in one epoch."""
    return np.random.default_rng(seed_of(seed, "words", epoch, example))


def joined_dictionary(lexicons: Iterable[Lexicon]) -> dict[str, dict[str, list[str]]]:
    """All translations of each source word, in lower case, by language; each of them once, in the order given.

    >>> joined_dictionary([Lexicon("en", "nl", [("Cat", "kat")]), Lexicon("en", "de", [("cat", "Katze")])])
    {'cat': {'nl': ['kat'], 'de': ['Katze']}}
    """
    found: dict[str, dict[str, list[str]]] = {}
    for lexicon in lexicons:
        for word, translation in lexicon:
            known = found.setdefault(word.lower(), {}).setdefault(lexicon.target, [])
            if translation not in known:
                known.append(translation)
    return found


def switch_words(
    text: str,
    dictionary: Dictionary,
    *,
    language: str,
    share: float,
    chance: np.random.Generator,
    kept: Sequence[Span] = (),
) -> Switched:
    """Replace each word that the dictionary knows with probability `share`.

    The language of the translation is drawn anew for every word, among those that have one, then the translation. A
    word that begins with a capital has a translation that does. kept: spans in which nothing changes, nor in a word
    that reaches into one. Spaces and all that is no word stay as they are.

    >>> every = np.random.default_rng(0)
    >>> switch_words("A cat.", {"cat": {"nl": ["kat"]}}, language="en", share=1.0, chance=every)
    Switched(text='A kat.', edits=((2, 5, 3),))
    """
    parts: list[str] = []
    edits: list[Edit] = []
    done = 0
    for start, end in known_words(text, dictionary, language=language):
        if any(start < last and first < end for first, last in kept) or chance.random() >= share:
            continue
        word = text[start:end]
        languages = dictionary[word.lower()]
        chosen = languages[list(languages)[int(chance.integers(len(languages)))]]
        new = chosen[int(chance.integers(len(chosen)))]
        new = new[:1].upper() + new[1:] if word[:1].isupper() else new
        parts += [text[done:start], new]
        edits.append((start, end, len(new)))
        done = end
    return Switched("".join([*parts, text[done:]]), tuple(edits))


def known_words(text: str, dictionary: Dictionary, *, language: str) -> list[Span]:
    """Spans of the words that a dictionary knows, as they are segmented everywhere (`isogloss.text.words`)."""
    return [(start, end) for start, end in spans(text, language) if text[start:end].lower() in dictionary]
