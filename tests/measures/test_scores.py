"""Scores of tasks: counts and their bootstrap, labels and spans against conlleval, answers step by step."""

import random
import re
import string
import sys
import unicodedata
from collections import Counter

import numpy as np
import pytest
from sklearn.metrics import accuracy_score

from isogloss.errors import InputError
from isogloss.measures import scores
from isogloss.measures.scores import (
    Score,
    accuracy,
    answer_f1,
    exact_match,
    f1,
    normalise_answer,
    repair_bio,
    resampled,
    share,
    span_counts,
    span_f1,
    spans,
)
from isogloss.measures.statistics import percentile_interval


def test_a_score_is_the_ratio_of_sums_and_not_the_mean_of_ratios():
    score = Score(np.array([[1, 1], [0, 3]]))
    assert score.value == 0.25
    assert score.n == 4


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    right, guessed, there = 6, 8, 11
    precision, recall = right / guessed, right / there
    assert f1(np.array([right, guessed, there])) == pytest.approx(2 * precision * recall / (precision + recall))
    assert f1(np.array([0, 0, 0])) == 0
    assert np.isnan(share(np.array([0, 0])))


def test_resampling_equals_a_loop_over_drawn_examples():
    table = np.array([[1, 2, 3], [0, 1, 1], [2, 2, 2], [1, 1, 4]], dtype=float)
    drawn = np.random.default_rng(7).integers(0, 4, (50, 4))
    expected = [float(f1(sum(table[one] for one in row))) for row in drawn]
    assert resampled(Score(table, f1), 7, draws=50) == pytest.approx(expected)


def test_the_interval_of_a_share_has_the_width_that_theory_gives_and_many_examples_are_drawn_in_pieces(monkeypatch):
    table = np.stack([np.arange(4000) % 4 != 0, np.ones(4000)], axis=1)
    low, high = percentile_interval(resampled(Score(table), 1))
    reach = 1.96 * np.sqrt(0.75 * 0.25 / 4000)
    assert (low, high) == pytest.approx((0.75 - reach, 0.75 + reach), abs=0.15 * reach)
    monkeypatch.setattr(scores, "AT_ONCE", 10_000)
    pieces = resampled(Score(table), 1, draws=11)
    monkeypatch.setattr(scores, "AT_ONCE", 2**23)
    assert (pieces == resampled(Score(table), 1, draws=11)).all()


def test_nothing_to_draw_from_has_no_interval():
    assert np.isnan(percentile_interval(resampled(Score(np.zeros((0, 2))), 0))).all()


TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def conlleval(gold, guess):
    """conlleval.pl line by line: begin and end of chunks from neighbouring tags, counted while reading both columns."""

    def ends(before, kind, tag, new):
        return before != "O" and (tag in ("B", "O") or kind != new)

    def begins(before, kind, tag, new):
        return tag == "B" or (before == "O" and tag == "I") or (tag != "O" and kind != new)

    right = found = there = 0
    for one, other in zip(gold, guess, strict=True):
        open_ = False
        last = [("O", ""), ("O", "")]
        for pair in [*zip(one, other, strict=True), ("O", "O")]:
            now = [(tag[0], tag[2:]) for tag in pair]
            end = [ends(*last[side], *now[side]) for side in (0, 1)]
            begin = [begins(*last[side], *now[side]) for side in (0, 1)]
            if open_ and end[0] and end[1] and last[0][1] == last[1][1]:
                right, open_ = right + 1, False
            elif open_ and (end[0] != end[1] or now[0][1] != now[1][1]):
                open_ = False
            if begin[0] and begin[1] and now[0][1] == now[1][1]:
                open_ = True
            there, found = there + begin[0], found + begin[1]
            last = now
    return right, found, there


def drawn(seed, sentences=40):
    draw = random.Random(seed)
    lengths = [draw.randint(1, 9) for _ in range(sentences)]
    return [[[draw.choice(TAGS) for _ in range(length)] for length in lengths] for _ in range(2)]


@pytest.mark.parametrize("seed", range(25))
def test_counts_are_those_of_conlleval(seed):
    gold, guess = drawn(seed)
    # Half of the guesses are gold with a few slips, as a trained model's are.
    guess[::2] = [
        [tag if i % 4 else other for i, (tag, other) in enumerate(zip(*pair, strict=True))]
        for pair in zip(gold[::2], guess[::2], strict=True)
    ]
    assert tuple(span_counts(gold, guess).sum(0)) == conlleval(gold, guess)


def test_hand_cases():
    assert spans(["I-PER", "I-PER", "O"]) == [(0, 2, "PER")]
    assert spans(["B-PER", "I-LOC"]) == [(0, 1, "PER"), (1, 2, "LOC")]
    assert spans(["B-PER", "B-PER"]) == [(0, 1, "PER"), (1, 2, "PER")]
    assert spans(["B-A-b", "I-A-b"]) == [(0, 2, "A-b")]  # a dash in the type
    assert spans([]) == []
    counts = span_counts([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
    assert counts.tolist() == [[1, 2, 2]] and float(f1(counts[0])) == 0.5


def test_nothing_guessed_and_nothing_there_score_0():
    assert span_f1([["O", "B-PER"]], [["O", "O"]]) == 0.0
    assert span_f1([["O"]], [["O"]]) == 0.0
    assert span_f1([["O"]], [["B-PER"]]) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_gold_scores_1_and_repair_keeps_the_spans(seed):
    gold, _ = drawn(seed)
    assert span_f1(gold, gold) == 1.0
    for tags in gold:
        repaired = repair_bio(tags)
        assert spans(repaired) == spans(tags)
        assert repair_bio(repaired) == repaired
        assert [tag == "O" for tag in repaired] == [tag == "O" for tag in tags]


def test_mixed_spans_may_take_the_last_type():
    tags = ["B-PER", "I-LOC", "O", "I-LOC", "I-PER", "B-LOC"]
    assert repair_bio(tags, mixed="last") == ["B-LOC", "I-LOC", "O", "B-PER", "I-PER", "B-LOC"]
    with pytest.raises(InputError, match="'split' or 'last'"):
        repair_bio(tags, mixed="first")


def test_sums_of_sentences_are_the_sum_of_the_text():
    gold, guess = drawn(3)
    apart = [span_counts([one], [other])[0].tolist() for one, other in zip(gold, guess, strict=True)]
    assert span_counts(gold, guess).tolist() == apart and span_counts([], []).sum(0).tolist() == [0, 0, 0]


def test_accuracy_is_scikit_learns():
    gold, guess = (random.Random(seed).choices("abc", k=50) for seed in (1, 2))
    assert accuracy(gold, guess) == accuracy_score(gold, guess)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: accuracy([1, 2], [1]), "2 gold and 1 guessed labels"),
        (lambda: accuracy([], []), "at least one label"),
        (lambda: span_f1([["O"]], []), "1 gold and 0 guessed sentences"),
        (lambda: span_f1([["O"]], [["O", "O"]]), "1 gold and 2 guessed tags in sentence 0"),
        (lambda: spans(["PER"]), "'PER' is not O, B-type or I-type"),
        (lambda: spans(["E-PER"]), "'E-PER' is not"),
        (lambda: spans(["B-"]), "'B-' is not"),
    ],
)
def test_what_cannot_be_scored_is_said(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


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
