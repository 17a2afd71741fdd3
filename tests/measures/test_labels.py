"""Labels: spans by the rules of conlleval, against an implementation of those rules that shares nothing with ours."""

import random

import pytest
from sklearn.metrics import accuracy_score

from isogloss.errors import InputError
from isogloss.measures import accuracy, repair_bio, span_counts, span_f1, spans

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
    guess[::2] = [[tag if i % 4 else other for i, (tag, other) in enumerate(zip(*pair, strict=True))]
                  for pair in zip(gold[::2], guess[::2], strict=True)]  # fmt: skip
    counts = span_counts(gold, guess)
    assert (counts.right, counts.guessed, counts.gold) == conlleval(gold, guess)


def test_hand_cases():
    assert spans(["I-PER", "I-PER", "O"]) == [(0, 2, "PER")]
    assert spans(["B-PER", "I-LOC"]) == [(0, 1, "PER"), (1, 2, "LOC")]
    assert spans(["B-PER", "B-PER"]) == [(0, 1, "PER"), (1, 2, "PER")]
    assert spans(["B-A-b", "I-A-b"]) == [(0, 2, "A-b")]  # a dash in the type
    assert spans([]) == []
    counts = span_counts([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
    assert (counts.precision, counts.recall, counts.f1) == (0.5, 0.5, 0.5)


def test_nothing_guessed_and_nothing_there_score_0():
    assert span_f1([["O", "B-PER"]], [["O", "O"]]) == 0.0
    assert span_f1([["O"]], [["O"]]) == 0.0
    counts = span_counts([["O"]], [["B-PER"]])
    assert (counts.precision, counts.recall) == (0.0, 0.0)


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
    total = span_counts([], [])
    for one, other in zip(gold, guess, strict=True):
        total += span_counts([one], [other])
    assert total == span_counts(gold, guess)


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
