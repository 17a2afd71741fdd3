"""Word alignment: links a reader can find by eye, planted bitext, and explicit loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from isogloss.errors import InputError
from isogloss.measures import word_alignment
from isogloss.measures.word_alignment import (
    AER,
    ALIGNERS,
    METHODS,
    Model,
    align_words,
    alignment_error_rate,
    argmax_links,
    combine,
    count_words,
    expect,
    flip,
    itermax_links,
    maximise,
    one_to_one,
    place_prior,
)
from isogloss.progress import listening

GROW = "grow-diag-final-and"


def angles(*degrees, dtype=torch.float32):
    """Unit vectors in the plane: nearer angles, larger cosine."""
    radians = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack([radians.cos(), radians.sin()], dim=1).to(dtype)


def some_links(size=5):
    return st.lists(st.tuples(st.integers(0, size), st.integers(0, size)), max_size=12)


def itermax_by_loops(x, y, rounds, discount):
    """The rule of SimAlign's paper, cell by cell, with its program's two special cases."""
    unit = [[row / np.linalg.norm(row) for row in side.double().numpy()] for side in (x, y)]
    closeness = [[(1 + float(a @ b)) / 2 for b in unit[1]] for a in unit[0]]
    links = set()
    for number in range(rounds):
        sources, targets = {i for i, _ in links}, {j for _, j in links}
        if number > 0 and (min(len(x), len(y)) <= 2 or len(sources) == len(x) or len(targets) == len(y)):
            break
        scores = [list(row) for row in closeness]
        for i, row in enumerate(scores):
            for j in range(len(row)):
                if i in sources and j in targets:
                    row[j] = 0.0
                elif i in sources or j in targets:
                    row[j] *= discount
        for i, row in enumerate(scores):
            j = row.index(max(row))
            column = [other[j] for other in scores]
            if column.index(max(column)) == i and row[j] > 0:
                links.add((i, j))
    return sorted(links)


def test_argmax_links_nearest_angles_that_choose_each_other():
    # 50 is nearest to 40, but 40 prefers 41: it stays alone.
    assert argmax_links(angles(0, 40, 90), angles(91, 41, 50, 2)) == [(0, 3), (1, 1), (2, 0)]


def test_argmax_of_equal_words_takes_the_first():
    assert argmax_links(angles(0, 0), angles(0, 0)) == [(0, 0)]


def test_argmax_minimum_drops_far_pairs():
    x, y = angles(0, 90), angles(1, 150)  # cosines of the mutual pairs: about 1 and 1/2
    assert argmax_links(x, y) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_opposite_words_are_linked_when_there_is_no_other(seed):
    x = torch.randn(1, 5, generator=torch.Generator().manual_seed(seed))
    assert argmax_links(x, -x) == [(0, 0)]


def test_length_of_vectors_does_not_matter():
    x, y = angles(0, 40, 90), angles(91, 41, 2)
    assert argmax_links(x * torch.tensor([[9.0], [0.1], [3.0]]), y) == argmax_links(x, y)


def test_half_precision_and_gradients_are_accepted():
    x = angles(0, 90, dtype=torch.bfloat16).requires_grad_()
    assert argmax_links(x, angles(1, 80)) == itermax_links(x, angles(1, 80)) == [(0, 0), (1, 1)]


def test_no_words_no_links():
    assert argmax_links(torch.empty(0, 2), angles(0)) == itermax_links(angles(0), torch.empty(0, 2)) == []


def test_widths_must_agree():
    with pytest.raises(InputError, match="width 2 and y has width 3"):
        argmax_links(torch.ones(1, 2), torch.ones(1, 3))


def test_itermax_gives_left_over_words_a_second_chance():
    # 10 and 100 are left over; each is nearest to a linked word, which has no better partner left.
    x, y = angles(0, 90, 100), angles(0, 10, 90)
    assert itermax_links(x, y, rounds=1) == argmax_links(x, y) == [(0, 0), (1, 2)]
    assert itermax_links(x, y) == [(0, 0), (0, 1), (1, 2), (2, 2)]


def test_itermax_chooses_once_where_a_side_has_two_words():
    x, y = angles(0, 90), angles(0, 10, 80, 90)
    assert itermax_links(x, y) == argmax_links(x, y) == [(0, 0), (1, 3)]
    assert itermax_links(y, x) == argmax_links(y, x) == [(0, 0), (3, 1)]
    assert itermax_links(x[:1], y) == [(0, 0)]


def test_itermax_ends_when_a_side_is_linked():
    # Every source word has its own target word; 10, which is left over, gets none, on whichever side it is.
    x, y = angles(0, 90, 180), angles(0, 10, 90, 180)
    assert itermax_links(x, y, rounds=3) == argmax_links(x, y) == [(0, 0), (1, 2), (2, 3)]
    assert itermax_links(y, x, rounds=3) == [(0, 0), (2, 1), (3, 2)]


def test_itermax_discount_prefers_words_without_a_link():
    # Round one links 0 to 0 and 180 to 180. Then 12 is nearer to 0 (linked) than to 40 (free): the discount decides.
    x, y = angles(0, 40, 180), angles(0, 12, 180)
    assert itermax_links(x, y, discount=0.9) == [(0, 0), (1, 1), (2, 2)]
    assert itermax_links(x, y, discount=1.0) == [(0, 0), (0, 1), (2, 2)]


def test_itermax_never_links_two_linked_words():
    x = y = angles(0, 120, 240)
    assert itermax_links(x, y, rounds=9, discount=0.0) == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("seed", range(30))
def test_itermax_equals_explicit_loops(seed):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, 13, (2,), generator=generator).tolist()
    x, y = (torch.randn(count, 4, generator=generator) for count in words)
    for rounds in (1, 2, 3, 4):
        links = itermax_links(x, y, rounds=rounds, discount=0.9)
        assert links == itermax_by_loops(x, y, rounds, 0.9)
        assert set(argmax_links(x, y)) <= set(links)
        assert all(0 <= i < words[0] and 0 <= j < words[1] for i, j in links)


def test_one_to_one_keeps_words_with_a_single_link():
    assert one_to_one([(4, 5), (0, 0), (1, 1), (1, 2), (2, 3), (3, 3)]) == [(0, 0), (4, 5)]
    assert one_to_one([(0, 0), (0, 0)]) == [(0, 0)]


def test_combine_by_eye():
    # 2 found both ways, F forward only, B backward only
    #      j 0 1 2 3
    # i 0    2 F . .      (0, 1) touches (0, 0) and brings in j = 1: grown
    #   1    . . . .
    #   2    B . . F      (2, 0) touches nothing and j = 0 is taken; (2, 3) has two free words: added last
    #   3    . . . B      (3, 3) comes after (2, 3), which took j = 3
    forward, backward = [(0, 0), (0, 1), (2, 3)], [(0, 0), (2, 0), (3, 3)]
    assert combine(forward, backward, method="intersection") == [(0, 0)]
    assert combine(forward, backward, method=GROW) == [(0, 0), (0, 1), (2, 3)]
    assert combine(forward, backward, method="union") == [(0, 0), (0, 1), (2, 0), (2, 3), (3, 3)]


def test_combine_goes_through_the_union_in_rising_order():
    # (2, 2) comes before (2, 3), takes source word 2 and leaves it nothing new to bring in.
    for method in ("grow-diag", GROW):
        assert combine([(2, 3), (3, 3)], [(2, 2), (3, 3)], method=method) == [(2, 2), (3, 3)]


def test_grow_diag_adds_nothing_that_touches_nothing():
    forward, backward = [(0, 0), (0, 1), (2, 3)], [(0, 0), (2, 0), (3, 3)]
    assert combine(forward, backward, method="grow-diag") == [(0, 0), (0, 1)]


def grow_by_cells(forward, backward, size, final):
    """Grow-diag, and final-and, as loops over all cells of a grid from the top left."""
    grid = [[{(i, j) in set(forward), (i, j) in set(backward)} for j in range(size)] for i in range(size)]
    kept = [[grid[i][j] == {True} for j in range(size)] for i in range(size)]

    def has(i, j):
        return any(kept[i]), any(row[j] for row in kept)

    changed = True
    while changed:
        changed = False
        for i in range(size):
            for j in range(size):
                around = [kept[a][b] for a in range(size) for b in range(size) if max(abs(a - i), abs(b - j)) == 1]
                if True in grid[i][j] and not kept[i][j] and any(around) and not all(has(i, j)):
                    kept[i][j] = changed = True
    for direction in (forward, backward) if final else ():
        for i in range(size):
            for j in range(size):
                if (i, j) in direction and not any(has(i, j)):
                    kept[i][j] = True
    return [(i, j) for i in range(size) for j in range(size) if kept[i][j]]


@given(shared=some_links(), forward=some_links(), backward=some_links())
def test_growing_equals_loops_over_cells(shared, forward, backward):
    forward, backward = shared[:4] + forward, shared[:4] + backward
    assert combine(forward, backward, method="grow-diag") == grow_by_cells(forward, backward, 6, final=False)
    assert combine(forward, backward, method=GROW) == grow_by_cells(forward, backward, 6, final=True)


def test_combine_grows_step_by_step():
    # (3, 1) touches only (2, 1), which touches only (1, 1), which touches the shared (0, 0).
    chain = [(0, 0), (1, 1), (2, 1), (3, 1)]
    assert combine(chain, [(0, 0)], method=GROW) == chain


def test_combine_does_not_grow_between_linked_words():
    assert combine([(0, 0), (1, 1), (0, 1)], [(0, 0), (1, 1)], method=GROW) == [(0, 0), (1, 1)]


def test_combine_refuses_unknown_methods():
    with pytest.raises(InputError, match="grow-diag-final-and"):
        combine([], [], method="grow")


@given(forward=some_links(), backward=some_links())
def test_combined_links_are_nested(forward, backward):
    shared, either, grown, final = (set(combine(forward, backward, method=method)) for method in METHODS)
    assert shared <= grown <= final <= either
    assert set(one_to_one(forward)) <= set(forward)


def test_alignment_error_rate_by_hand():
    # A = 4 links, S = 3, P = S and one more; A & S = 2, A & P = 3.
    predicted = [[(0, 0), (1, 1)], [(0, 0), (0, 1)]]
    sure = [[(0, 0), (1, 2)], [(0, 0)]]
    possible = [[(1, 1)], []]
    found = alignment_error_rate(predicted, sure, possible=possible)
    assert found == AER(sure_found=2, possible_found=3, predicted=4, sure=3)
    assert found.value == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert (found.precision, found.recall) == (3 / 4, 2 / 3)


def test_gold_is_perfect_and_nothing_right_is_one():
    gold = [[(0, 0), (1, 1)], [(2, 0)]]
    assert alignment_error_rate(gold, gold).value == 0.0
    assert alignment_error_rate(gold, gold, possible=[[(0, 1)], []]).value == 0.0
    wrong = alignment_error_rate([[(0, 1)], []], gold)
    assert wrong.value == 1.0
    assert wrong.precision == wrong.recall == 0.0


def test_without_possible_links_the_rate_is_one_minus_f1():
    found = alignment_error_rate([[(0, 0), (1, 1), (2, 2)]], [[(0, 0), (1, 1), (3, 3), (4, 4)]])
    f1 = 2 * found.precision * found.recall / (found.precision + found.recall)
    assert found.value == pytest.approx(1 - f1) == pytest.approx(1 - 4 / 7)


def test_sums_of_corpora_add_up():
    predicted, sure = [[(0, 0)], [(0, 1), (1, 1)]], [[(0, 0)], [(1, 1)]]
    apart = alignment_error_rate(predicted[:1], sure[:1]) + alignment_error_rate(predicted[1:], sure[1:])
    assert apart == alignment_error_rate(predicted, sure)


def test_rate_over_nothing_is_nan_and_unequal_corpora_are_refused():
    empty = alignment_error_rate([[]], [[]])
    assert all(math.isnan(number) for number in (empty.value, empty.precision, empty.recall))
    with pytest.raises(InputError, match="1 predicted, 2 sure"):
        alignment_error_rate([[]], [[], []])


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
    links = align_words(split(ENGLISH), split(GERMAN))
    assert links[:4] == [[(0, 0), (1, 1)]] * 4
    assert links[4:] == [[(0, 0), (1, 1), (2, 2)]] * 2


def test_other_word_order_is_found():
    source = split(["red house", "red book", "white house", "white book", "red", "white"])
    target = split(["casa roja", "libro rojo", "casa blanca", "libro blanco", "roja", "blanca"])
    assert align_words(source, target)[0] == align_words(source, target)[2] == [(0, 1), (1, 0)]


def test_case_is_ignored():
    changed = align_words(split(map(str.upper, ENGLISH)), split(map(str.lower, GERMAN)))
    assert align_words(split(ENGLISH), split(GERMAN)) == changed


def test_as_fast_align_case_tells_words_apart():
    source, target = split(["A b", "a c", "A d"]), split(["x y", "z v", "x w"])
    met = count_words(source, target, ignore_case=False)
    assert (met.source_words, count_words(source, target).source_words) == (5, 4)
    changed = align_words(split(map(str.upper, ENGLISH)), split(map(str.upper, GERMAN)), model=ALIGNERS["fast_align"])
    assert align_words(split(ENGLISH), split(GERMAN), model=ALIGNERS["fast_align"]) == changed  # all words alike


def test_directions_join_into_nested_links_in_range():
    source, target, _ = planted(80, seed=2)
    joined = {method: align_words(source, target, symmetrise=method) for method in METHODS}
    for row, (words, others) in enumerate(zip(source, target, strict=True)):
        shared, either, grown, final = (set(joined[method][row]) for method in METHODS)
        assert shared <= grown <= final <= either
        assert all(0 <= i < len(words) and 0 <= j < len(others) for i, j in either)


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_planted_links_are_recovered(aligner):
    source, target, gold = planted(600, seed=3)
    found = alignment_error_rate(align_words(source, target, model=ALIGNERS[aligner]), gold)
    assert found.recall > 0.9
    assert found.precision > 0.9


def test_extra_text_helps_and_is_not_linked():
    source, target, gold = planted(1040, seed=4)
    few = slice(0, 40)
    alone = align_words(source[few], target[few])
    helped = align_words(source[few], target[few], extra=(source[40:], target[40:]))
    assert len(helped) == 40
    assert alignment_error_rate(helped, gold[few]).value < alignment_error_rate(alone, gold[few]).value / 2
    assert helped == align_words(source, target)[few]


def test_same_input_same_links():
    source, target, _ = planted(60, seed=5)
    assert align_words(source, target) == align_words(source, target)


def test_small_blocks_give_the_same_links(monkeypatch):
    source, target, _ = planted(60, seed=6)
    whole = align_words(source, target)
    monkeypatch.setattr(word_alignment, "CELLS", 50)
    assert align_words(source, target) == whole


@pytest.mark.parametrize("aligner", ALIGNERS)
def test_empty_sides_get_no_links_and_disturb_nothing(aligner):
    source, target, model = split(ENGLISH), split(GERMAN), ALIGNERS[aligner]
    links = align_words([[], *source, ["lonely"]], [["leer"], *target, []], model=model)
    assert links == [[], *align_words(source, target, model=model), []]
    assert align_words([], [], model=model) == []
    assert align_words([[]], [[]], model=model) == [[]]


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
    table = word_alignment.TranslationTable(np.ones(len(met.pair_source)), np.ones(met.target_words))
    table = maximise(met, expect(met, table, model=model)[0], smoothing=0.0)
    history = []
    for _ in range(15):
        counts, likelihood, _ = expect(met, table, model=model)
        table = maximise(met, counts, smoothing=0.0)
        history.append(likelihood)
    assert all(later >= earlier - 1e-9 for earlier, later in zip(history, history[1:], strict=False))
    assert history[-1] > history[0]


def test_every_target_word_is_shared_out_once():
    source, target, _ = planted(30, seed=8)
    met = count_words(source, target)
    table = word_alignment.TranslationTable(np.ones(len(met.pair_source)), np.ones(met.target_words))
    counts, *_ = expect(met, table, model=Model())
    assert counts.words.sum() + counts.null.sum() == pytest.approx(sum(map(len, target)))


@pytest.mark.parametrize(("aligner", "rounds"), [("ibm2", 4), ("fast_align", 1)])
def test_progress_counts_both_directions(aligner, rounds):
    told, stages = [], ("aligning words", "aligning words back")
    with listening(lambda *report: told.append(report)):
        align_words(split(ENGLISH), split(GERMAN), iterations=2, model=ALIGNERS[aligner])
    assert told == [(stage, done, rounds) for stage in stages for done in range(1, rounds + 1)]


def test_wrong_input_is_refused_in_one_sentence():
    with pytest.raises(InputError, match="equally many sentences: 1 and 2"):
        align_words([["a"]], [["b"], ["c"]])
    with pytest.raises(InputError, match="sentence 0 of the extra bitext"):
        align_words([["a"]], [["b"]], extra=(["a word"], [["ein", "Wort"]]))
    with pytest.raises(InputError, match="grow-diag-final-and"):
        align_words([["a"]], [["b"]], symmetrise="grow")
    with pytest.raises(InputError, match="null must lie"):
        align_words([["a"]], [["b"]], model=Model(null=1.0))


@pytest.mark.filterwarnings("error")
def test_plain_counting_without_null_divides_by_no_zero():
    links = align_words([*split(ENGLISH), ["lonely"]], [*split(GERMAN), []], model=Model(null=0.0, smoothing=0.0))
    assert links[:4] == [[(0, 0), (1, 1)]] * 4
