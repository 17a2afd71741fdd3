"""Answers: SQuAD's and MLQA's published normalisation and scores, by hand cases and step by step."""

import re
import string
import sys
import unicodedata
from collections import Counter

import pytest

from isogloss.errors import InputError
from isogloss.measures import answer_f1, exact_match, normalise_answer

PUNCT = {chr(i) for i in range(sys.maxunicode) if unicodedata.category(chr(i)).startswith("P")} | set(
    string.punctuation
)
TEXTS = {
    "en": ["The Eiffel Tower!", "a  theatre, an 'apple'", "$1,000.50 (about)", "the", "“quoted” — the dash"],
    "de": ["Der Turm des Königs", "die  Eine-Welt", "dasselbe", "in den USA"],
    "es": ["¿La casa?", "los años 1990", "elefante", "un día; unas horas"],
    "vi": ["của những người", "cái này là"],
    "ar": ["في المدينة، القاهرة", "السلام عليكم؟", "الرجال والنساء"],
    "hi": ["दिल्ली। नई", "यह है?"],
    "zh": ["在Paris市，有3个", "二〇二〇年", "《红楼梦》 abc", "長城 ab中c"],
    "ru": ["Это — дом.", "в 1990-е годы"],
}


def by_the_steps(text, language):
    """The steps of MLQA's paper in their order, each a loop."""
    text = text.lower()
    text = "".join(letter for letter in text if letter not in PUNCT)
    articles = {
        "en": r"\b(a|an|the)\b",
        "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
        "vi": r"\b(của|là|cái|chiếc|những)\b",
        "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
        "ar": r"\sال^|ال",
    }
    if language in articles:
        text = re.sub(articles[language], " ", text)
    words, rest = [], ""
    for letter in text:
        if language == "zh" and "\u4e00" <= letter <= "\u9fa5":
            words += [*rest.split(), letter]
            rest = ""
        else:
            rest += letter
    return [*words, *rest.split()]


@pytest.mark.parametrize("language", TEXTS)
def test_normalisation_is_that_of_the_steps(language):
    for text in TEXTS[language]:
        assert normalise_answer(text, language).split() == by_the_steps(text, language)


@pytest.mark.parametrize("language", TEXTS)
def test_f1_and_exact_match_are_those_of_the_steps(language):
    for one in TEXTS[language]:
        for other in [*TEXTS[language], one + " x"]:
            gold, guess = by_the_steps(one, language), by_the_steps(other, language)
            common = sum((Counter(gold) & Counter(guess)).values())
            precision, recall = (common / len(side) if side else 0.0 for side in (guess, gold))
            f1 = 2 * precision * recall / (precision + recall) if common else 0.0
            assert answer_f1([one], other, language=language) == pytest.approx(f1)
            assert exact_match([one], other, language=language) == float(gold == guess)


def test_the_best_of_several_answers_counts():
    gold = ["in Paris", "the Eiffel Tower"]
    assert exact_match(gold, "eiffel tower") == 1.0
    assert answer_f1(gold, "Paris") == pytest.approx(2 / 3)
    assert answer_f1(gold, "London") == 0.0
    assert exact_match(gold, "") == 0.0


def test_each_word_counts_as_often_as_both_have_it():
    assert answer_f1(["no no yes"], "no") == pytest.approx(0.5)


@pytest.mark.parametrize("gold", [[], "Paris"])
def test_answers_are_a_list(gold):
    for score in (exact_match, answer_f1):
        with pytest.raises(InputError, match="gold answers are a list"):
            score(gold, "Paris")
