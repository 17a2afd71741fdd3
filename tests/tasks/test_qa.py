"""Questions: windows, gold places, the best span against all there are."""

import itertools

import numpy as np
import pytest
import torch

from isogloss.errors import InputError
from isogloss.tasks.qa import QA, best_span, decode, encode, guess, loss
from isogloss.tasks.task import IGNORE, Prediction
from isogloss.text.readers.examples import Question
from tiny_models import tiny_tokenizer

WORDS = ["the", "old", "man", "reads", "a", "new", "book", "in", "the", "garden", "every", "day", "after", "lunch"]
CONTEXT = " ".join(WORDS * 6)  # 84 words, each of them one token


def asked(start, end, question="does it not?"):
    """A question whose answer is the words from start to end of the context."""
    place = len(" ".join([*WORDS * 6][:start])) + (start > 0)
    text = " ".join([*WORDS * 6][start:end])
    return Question("q", question, CONTEXT, (text,), (place,))


def test_windows_cover_the_context_overlap_and_each_has_its_gold():
    tokenizer = tiny_tokenizer()
    example = asked(30, 33)
    items = encode([asked(0, 1), example], ("begin", "end"), tokenizer=tokenizer, length=32)
    items = [one for one in items if one.owner == 1]
    assert len(items) > 3
    assert all(len(one.ids) <= 32 for one in items)
    covered = [tuple(unit) for one in items for unit in one.units[1:].tolist()]
    assert set(covered) == {(s, s + len(w)) for s, w in zip(starts(), WORDS * 6, strict=True)}
    assert len(covered) > len(set(covered))  # neighbours share tokens
    told = 0
    for one in items:
        begin, end = np.argmax(one.gold, axis=0)
        assert one.gold.sum() == 2
        assert one.targets == 1
        texts = [CONTEXT[a:b] for a, b in one.units[begin : end + 1]]
        if begin:
            assert " ".join(texts) == example.answers[0]
            told += 1
        else:
            assert end == 0
        for place, (a, b) in zip(one.places[1:], one.units[1:], strict=True):
            assert tokenizer.convert_ids_to_tokens(int(one.ids[place])) == CONTEXT[a:b]
    assert told >= 1
    assert sum(one.lost for one in items) == 0


def starts():
    place = 0
    for word in WORDS * 6:
        yield place
        place += len(word) + 1


@pytest.mark.parametrize("first", range(0, 80, 7))
def test_decoding_gold_places_gives_the_answer_wherever_it_stands(first):
    example = asked(first, first + 3)
    items = encode([example], (), tokenizer=tiny_tokenizer(), length=40)
    found = [Prediction(one.units, (np.log(one.gold + 1e-6),)) for one in items]
    assert decode(example, found, ()) == example.answers[0]
    scores = QA.score([example], [decode(example, found, ())], "en")
    assert (scores["exact_match"].value, scores["answer_f1"].value) == (1.0, 1.0)


def test_an_answer_longer_than_what_windows_share_may_be_lost_and_is_counted():
    items = encode([asked(10, 60)], (), tokenizer=tiny_tokenizer(), length=32)
    assert sum(one.lost for one in items) == 1
    assert all(np.argmax(one.gold, axis=0).tolist() == [0, 0] for one in items)


def test_a_long_question_is_cut():
    example = asked(3, 4, question=" ".join(WORDS * 3))
    items = encode([example], (), tokenizer=tiny_tokenizer(), length=48)
    for one in items:
        assert len(one.ids) - len(one.places) + 1 == 16 + 3  # a third of the item, and three marks


def test_a_context_that_fits_is_one_window_and_types_tell_the_sides_apart():
    example = Question("q", "yes", "the cat sleeps", ("cat",), (4,))
    (item,) = encode([example], (), tokenizer=tiny_tokenizer(), length=64)
    assert np.argmax(item.gold, axis=0).tolist() == [2, 2]
    assert len(item.types) == len(item.ids)


def test_many_questions_keep_their_numbers():
    examples = [asked(place, place + 1) for place in range(5)]
    items = encode(examples, (), tokenizer=tiny_tokenizer(), length=40)
    assert sorted({one.owner for one in items}) == [0, 1, 2, 3, 4]
    for number, example in enumerate(examples):
        found = [Prediction(one.units, (np.log(one.gold + 1e-6),)) for one in items if one.owner == number]
        assert decode(example, found, ()) == example.answers[0]


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_no_span_is_better(longest):
    draw = np.random.default_rng(longest)
    for k in (2, 3, 9, 40):
        logs = draw.normal(size=(k, 2))
        pairs = [(i, j) for i, j in itertools.product(range(1, k), repeat=2) if i <= j < i + longest]
        best = max(logs[i, 0] + logs[j, 1] for i, j in pairs)
        value, i, j = best_span(logs, longest=longest)
        assert (i, j) in pairs
        assert value == pytest.approx(best) == pytest.approx(logs[i, 0] + logs[j, 1])


def test_the_window_that_is_surest_answers():
    example = Question("q", "?", "ab cd ef", ("cd",), (3,))
    here = Prediction(np.array([[0, 0], [0, 2], [3, 5]]), (np.log([[0.1, 0.1], [0.1, 0.1], [0.8, 0.8]]),))
    away = Prediction(np.array([[0, 0], [6, 8]]), (np.log([[0.7, 0.7], [0.3, 0.3]]),))
    assert decode(example, [away, here], ()) == "cd"
    assert decode(example, [Prediction(np.array([[0, 0]]), (np.zeros((1, 2)),))], ()) == ""


def test_loss_and_guess_are_of_the_places_that_are_there():
    scores = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0))
    present = torch.tensor([[True, True, True], [True, True, False]])
    gold = torch.tensor([[[0, 0], [1, 0], [0, 1]], [[1, 1], [0, 0], [IGNORE, IGNORE]]])
    expected = 0.0
    for row, count, right in ((0, 3, (1, 2)), (1, 2, (0, 0))):
        for side in (0, 1):
            logits = scores[row, :count, side].double()
            expected += 0.5 * float(torch.logsumexp(logits, 0) - logits[right[side]])
    assert float(loss((scores,), gold, present)) == pytest.approx(expected, rel=1e-5)
    (logs,) = guess((scores,), present)
    np.testing.assert_allclose(logs.exp().sum(1).numpy(), np.ones((2, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("codes", "context", "answer", "f1"),
    [(("zh", "zh-TW", "cmn", "zh2"), "中国北京", "北京", 2 / 3), (("de", "deu", "de2"), "der Turm", "Turm", 1)],
)
def test_answers_are_normalised_by_the_language_whatever_its_code(codes, context, answer, f1):
    example = Question("q", "?", context, (context,), (0,))
    for code in codes:
        assert QA.score([example], [answer], code)["answer_f1"].value == pytest.approx(f1)


def test_a_window_without_room_is_refused():
    with pytest.raises(InputError, match="a window of 6 tokens leaves no room"):
        encode([asked(0, 1)], (), tokenizer=tiny_tokenizer(), length=6)
