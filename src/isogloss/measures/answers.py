r"""Answers to questions: exact match and F1 of words after normalisation, as published with SQuAD and MLQA.

SQuAD (Rajpurkar et al. 2016) compares answers in lower case, without punctuation and English articles. MLQA (Lewis et
al. 2020) made that a rule for each of its seven languages, which is what is done here:

| step | rule |
|---|---|
| case | lower |
| punctuation | every character of a Unicode category P, and ASCII's own, is removed |
| articles | those of the language: `ARTICLES` |
| words | what spaces separate; in Chinese every ideograph from U+4E00 to U+9FA5 is a word |

A language that MLQA does not have loses no articles, and its words are what spaces separate. The published rule for
Arabic removes the letters of the article wherever they stand, inside words too; it is kept, for the numbers to compare.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache

from isogloss.errors import InputError
from isogloss.measures.registry import measure

ARTICLES = {
    "ar": re.compile("ال"),
    "de": re.compile(r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "en": re.compile(r"\b(?:a|an|the)\b"),
    "es": re.compile(r"\b(?:un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(?:của|là|cái|chiếc|những)\b"),
}
_IDEOGRAPH = re.compile("([\u4e00-\u9fa5])")


def normalise_answer(text: str, language: str = "en") -> str:
    """An answer as it is compared: words with single spaces between them.

    >>> normalise_answer("The Eiffel-Tower!")
    'eiffeltower'
    >>> normalise_answer("在 Paris 市", "zh")
    '在 paris 市'
    """
    bare = "".join(letter for letter in text.lower() if not _is_punctuation(letter))
    if language in ARTICLES:
        bare = ARTICLES[language].sub(" ", bare)
    if language == "zh":
        bare = _IDEOGRAPH.sub(r" \1 ", bare)
    return " ".join(bare.split())


@cache
def _is_punctuation(letter: str) -> bool:
    return letter in string.punctuation or unicodedata.category(letter).startswith("P")


@measure(
    "exact_match",
    higher_is_better=True,
    range=(0.0, 1.0),
    paper="Rajpurkar et al. 2016; Lewis et al. 2020, MLQA",
    takes="other",
)
def exact_match(gold: Sequence[str], guess: str, *, language: str = "en") -> float:
    """1 if the guess equals one of the gold answers after normalisation, otherwise 0.

    >>> exact_match(["the Eiffel Tower", "Paris"], "Eiffel Tower.")
    1.0
    """
    _some(gold)
    wanted = normalise_answer(guess, language)
    return float(any(normalise_answer(answer, language) == wanted for answer in gold))


@measure(
    "answer_f1",
    higher_is_better=True,
    range=(0.0, 1.0),
    paper="Rajpurkar et al. 2016; Lewis et al. 2020, MLQA",
    takes="other",
)
def answer_f1(gold: Sequence[str], guess: str, *, language: str = "en") -> float:
    """The highest F1 of the guess's words with those of a gold answer.

    With c words in common, each as often as both have it: F1 = 2 c / (words of one + words of the other), and 0 if
    there are none in common, also where both are empty after normalisation.

    >>> answer_f1(["the Eiffel Tower in Paris"], "Eiffel Tower")
    0.6666666666666666
    """
    _some(gold)
    guessed = Counter(normalise_answer(guess, language).split())
    return max(_f1(Counter(normalise_answer(answer, language).split()), guessed) for answer in gold)


def _f1(gold: Counter[str], guess: Counter[str]) -> float:
    common = (gold & guess).total()
    return 2 * common / (gold.total() + guess.total()) if common else 0.0


def _some(gold: Sequence[str]) -> None:
    if isinstance(gold, str) or not gold:
        raise InputError(f"gold answers are a list with at least one text, not {gold!r}")
