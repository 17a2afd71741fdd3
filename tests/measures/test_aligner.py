"""The statistical aligner on sentences a reader can link by eye, and on planted bitext."""

import numpy as np
import pytest

from isogloss.errors import InputError
from isogloss.measures import aligner
from isogloss.measures.aligner import Model, align, count_words, expect, flip, maximise, place_prior
from isogloss.measures.links import METHODS, alignment_error_rate

ENGLISH = ["the house", "the book", "a book", "a house", "the small house", "a small book"]
GERMAN = ["das Haus", "das Buch", "ein Buch", "ein Haus", "das kleine Haus", "ein kleines Buch"]


def split(sentences):
    return [sentence.split() for sentence in sentences]


def planted(sentences, *, seed, words=300, swaps=0.2, drops=0.05):
    """Bitext in which word e7 is written f7, neighbours swap places and some words are left out; with its links."""
    random = np.random.default_rng(seed)
    frequency = 1 / np.arange(1, words + 1)
    source, target, gold = [], [], []
    for _ in range(sentences):
        numbers = random.choice(words, size=random.integers(4, 15), replace=False, p=frequency / frequency.sum())
        order = list(range(len(numbers)))
        for place in range(len(order) - 1):
            if random.random() < swaps:
                order[place], order[place + 1] = order[place + 1], order[place]
        order = [i for i in order if random.random() >= drops] or order
        source.append([f"e{number}" for number in numbers])
        target.append([f"f{numbers[i]}" for i in order])
        gold.append([(i, j) for j, i in enumerate(order)])
    return source, target, gold


def test_words_are_linked_by_eye():
    links = align(split(ENGLISH), split(GERMAN))
    assert links[:4] == [[(0, 0), (1, 1)]] * 4
    assert links[4:] == [[(0, 0), (1, 1), (2, 2)]] * 2


def test_other_word_order_is_found():
    source = split(["red house", "red book", "white house", "white book", "red", "white"])
    target = split(["casa roja", "libro rojo", "casa blanca", "libro blanco", "roja", "blanca"])
    assert align(source, target)[0] == align(source, target)[2] == [(0, 1), (1, 0)]


def test_case_is_ignored():
    assert align(split(ENGLISH), split(GERMAN)) == align(split(map(str.upper, ENGLISH)), split(map(str.lower, GERMAN)))


def test_directions_join_into_nested_links_in_range():
    source, target, _ = planted(80, seed=2)
    joined = {method: align(source, target, symmetrise=method) for method in METHODS}
    for row, (words, others) in enumerate(zip(source, target, strict=True)):
        shared, either, grown = (set(joined[method][row]) for method in METHODS)
        assert shared <= grown <= either
        assert all(0 <= i < len(words) and 0 <= j < len(others) for i, j in either)


def test_planted_links_are_recovered():
    source, target, gold = planted(600, seed=3)
    found = alignment_error_rate(align(source, target), gold)
    assert found.recall > 0.9
    assert found.precision > 0.9


def test_extra_text_helps_and_is_not_linked():
    source, target, gold = planted(1040, seed=4)
    few = slice(0, 40)
    alone = align(source[few], target[few])
    helped = align(source[few], target[few], extra=(source[40:], target[40:]))
    assert len(helped) == 40
    assert alignment_error_rate(helped, gold[few]).value < alignment_error_rate(alone, gold[few]).value / 2
    assert helped == align(source, target)[few]


def test_same_input_same_links():
    source, target, _ = planted(60, seed=5)
    assert align(source, target) == align(source, target)


def test_small_blocks_give_the_same_links(monkeypatch):
    source, target, _ = planted(60, seed=6)
    whole = align(source, target)
    monkeypatch.setattr(aligner, "CELLS", 50)
    assert align(source, target) == whole


def test_empty_sides_get_no_links_and_disturb_nothing():
    source, target = split(ENGLISH), split(GERMAN)
    links = align([[], *source, ["lonely"]], [["leer"], *target, []])
    assert links == [[], *align(source, target), []]
    assert align([], []) == []
    assert align([[]], [[]]) == [[]]


def test_flipping_twice_changes_nothing():
    met = count_words(split(ENGLISH), split(GERMAN))
    again = flip(flip(met))
    assert all(np.array_equal(a.pairs, b.pairs) for a, b in zip(met.blocks, again.blocks, strict=True))
    assert (again.source_words, again.target_words) == (met.source_words, met.target_words) == (5, 6)


def test_place_prior_sums_to_one_minus_null_and_peaks_on_the_diagonal():
    prior = place_prior(4, 4, model=Model(prior=4.0, null=0.08))
    assert prior.sum(axis=1) == pytest.approx(np.full(4, 0.92))
    assert prior.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert place_prior(3, 2, model=Model(prior=0.0, null=0.1)) == pytest.approx(np.full((2, 3), 0.3))


@pytest.mark.parametrize("prior", [0.0, 4.0])
def test_likelihood_never_falls_under_plain_em(prior):
    source, target, _ = planted(60, seed=7)
    met, model = count_words(source, target), Model(prior=prior, smoothing=0.0)
    table = aligner.Table(np.ones(len(met.pair_source)), np.ones(met.target_words))
    table = maximise(met, expect(met, table, model=model)[0], smoothing=0.0)
    history = []
    for _ in range(15):
        counts, likelihood = expect(met, table, model=model)
        table = maximise(met, counts, smoothing=0.0)
        history.append(likelihood)
    assert all(later >= earlier - 1e-9 for earlier, later in zip(history, history[1:], strict=False))
    assert history[-1] > history[0]


def test_every_target_word_is_shared_out_once():
    source, target, _ = planted(30, seed=8)
    met = count_words(source, target)
    table = aligner.Table(np.ones(len(met.pair_source)), np.ones(met.target_words))
    counts, _ = expect(met, table, model=Model())
    assert counts.words.sum() + counts.null.sum() == pytest.approx(sum(map(len, target)))


def test_progress_counts_both_directions():
    told = []
    align(split(ENGLISH), split(GERMAN), iterations=2, progress=lambda *report: told.append(report))
    assert told == [(stage, done, 4) for stage in ("aligning words", "aligning words back") for done in (1, 2, 3, 4)]


def test_wrong_input_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="equally many sentences: 1 and 2"):
        align([["a"]], [["b"], ["c"]])
    with pytest.raises(InputError, match="sentence 0 of the extra bitext"):
        align([["a"]], [["b"]], extra=(["a word"], [["ein", "Wort"]]))
    with pytest.raises(InputError, match="grow-diag-final-and"):
        align([["a"]], [["b"]], symmetrise="grow")
    with pytest.raises(InputError, match="null must lie"):
        align([["a"]], [["b"]], null=1.0)


@pytest.mark.filterwarnings("error")
def test_plain_counting_without_null_divides_by_no_zero():
    links = align([*split(ENGLISH), ["lonely"]], [*split(GERMAN), []], null=0.0, smoothing=0.0)
    assert links[:4] == [[(0, 0), (1, 1)]] * 4
