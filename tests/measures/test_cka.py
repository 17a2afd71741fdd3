"""CKA: by hand, against plain formulas and loops, over streams, blocks, shuffles and many sides at once."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from isogloss.errors import InputError
from isogloss.measures.cka import (
    CkaStream,
    block_hsic,
    cka,
    cka_floor,
    cka_forms,
    cka_from_blocks,
    cka_from_sums,
    cka_minibatch,
    cka_of_pairs,
    cka_rbf,
    cka_rbf_of_pairs,
    cka_uncentred,
    even_blocks,
    hsic_without,
    inner_products,
    linear_gram,
    pair_sums,
    shift,
    side_sums,
)
from isogloss.measures.statistics import jackknife_interval


def draw(n, d, seed, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def jackknife(values):
    """The ratio of means of HSIC values of blocks (blocks, 3), and its interval."""
    without = [cka_from_blocks(torch.cat([values[:at], values[at + 1 :]])) for at in range(len(values))]
    estimate = jackknife_interval(cka_from_blocks(values), torch.tensor(without, dtype=torch.float64))
    return estimate.value, estimate.low, estimate.high


def by_blocks(x, y, size):
    return torch.stack([block_hsic(x[rows], y[rows]) for rows in even_blocks(x.shape[0], size)])


@pytest.mark.parametrize(("n", "d"), [(50, 8), (20, 64)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_space_is_perfectly_similar_to_itself(n, d, biased):
    x = draw(n, d, 1)
    assert cka(x, x, biased=biased) == pytest.approx(1, abs=1e-12)
    assert cka_rbf(x, x, biased=biased) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("n", "d"), [(65, 64), (64, 64)])
def test_both_forms_give_the_same_number(n, d, biased):
    """64 items of width 64 take the Gram form; with two columns of zeros more, or less, the value must not move."""
    x, y = draw(n, d, 1), draw(n, d, 2)
    y = y + x
    padded = torch.cat([x, torch.zeros(n, 10, dtype=x.dtype)], dim=1)  # widens x past n, so the Gram form is taken
    assert cka(padded, y, biased=biased) == pytest.approx(cka(x, y, biased=biased), rel=1e-11)


def test_no_matrix_of_items_by_items_is_built():
    """200,000 items: a Gram matrix would take 320 GB."""
    x = draw(200_000, 3, 1)
    assert cka(x, x + draw(200_000, 3, 2)) == pytest.approx(0.5, abs=0.02)


def test_far_from_the_origin_nothing_is_lost():
    x = draw(200, 8, 1)
    y = x + draw(200, 8, 2)
    assert cka(x + 1e6, y - 1e6) == pytest.approx(cka(x, y), abs=1e-9)


def test_float32_is_computed_in_float64():
    x = draw(300, 16, 1, torch.float32)
    y = x + draw(300, 16, 2, torch.float32)
    assert cka(x, y) == cka(x.double(), y.double())


def test_half_precision_is_accepted():
    x = draw(100, 16, 1, torch.float32)
    assert cka(x.bfloat16(), x) == pytest.approx(1, abs=1e-3)


def test_biased_cka_has_a_floor_debiased_has_not():
    x, y = draw(200, 768, 1), draw(200, 768, 2)
    assert abs(cka(x, y)) < 0.03
    assert cka(x, y, biased=True) == pytest.approx(0.79, abs=0.01)
    assert cka_floor(x, y, biased=True) == pytest.approx(0.79, abs=0.01) and cka_floor(x, y) == 0
    assert cka_rbf(x, y) == pytest.approx(0.86, abs=0.01)
    assert abs(cka_rbf(x, y, biased=False)) < 0.03


def test_uncentred_cka_scores_shifted_independent_sets_high_ours_does_not():
    x, y = draw(1000, 16, 1) + 10, draw(1000, 16, 2) + 10
    uncentred = (x.T @ y).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm())
    assert uncentred > 0.99
    assert cka(x, y, biased=True) < 0.05
    assert abs(cka(x, y)) < 0.02


def test_resampling_with_replacement_inflates_debiased_cka():
    x, y = draw(200, 768, 1), draw(200, 768, 2)
    generator = torch.Generator().manual_seed(3)
    drawn = [torch.randint(200, (200,), generator=generator) for _ in range(5)]
    assert sum(cka(x[rows], y[rows]) for rows in drawn) / 5 == pytest.approx(0.78, abs=0.05)
    value, low, high = jackknife(by_blocks(x, y, 20))
    assert abs(value) < 0.05
    assert low < 0 < high


def test_jackknife_interval_covers_as_often_as_it_says():
    """x and x + noise of the same size: the true value is 0.5; 60 draws, so a handful of misses is expected."""
    covered = 0
    for seed in range(60):
        x = draw(400, 6, seed)
        y = x + draw(400, 6, 1000 + seed)
        _, low, high = jackknife(by_blocks(x, y, 20))
        truth = 6 / (6 * 2)  # tr(C_xy C_yx) / sqrt(tr(C_x^2) tr(C_y^2)) with C_x = C_xy = I, C_y = 2 I
        covered += low <= truth <= high
    assert covered >= 52


def test_rbf_tends_to_linear_for_a_wide_kernel():
    x = draw(60, 5, 1)
    y = x + draw(60, 5, 2)
    assert cka_rbf(x, y, bandwidth=1000) == pytest.approx(cka(x, y, biased=True), abs=1e-4)


def test_constant_vectors_have_no_cka():
    x = torch.full((20, 4), 0.1)
    y = draw(20, 4, 1)
    assert math.isnan(cka(x, y))
    assert math.isnan(cka(x, y, biased=True))
    assert math.isnan(cka(x.double() + 1e6, y))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3, 2), "debiased CKA needs at least 4 items, not 3"),
        (torch.zeros(5, 2), torch.zeros(6, 2), "x has 5 items and y has 6"),
        (torch.zeros(5), torch.zeros(5), "two dimensions"),
        (torch.tensor([[0.0], [1.0], [2.0], [math.nan]]), torch.zeros(4, 1), "not finite, first in row 3"),
    ],
)
def test_unusable_input_is_refused_in_a_sentence(x, y, message):
    with pytest.raises(InputError, match=message):
        cka(x, y)


def test_minibatch_uses_every_item_once():
    blocks = even_blocks(103, 20)
    assert [i for rows in blocks for i in range(rows.start, rows.stop)] == list(range(103))
    sizes = {rows.stop - rows.start for rows in blocks}
    assert max(sizes) <= 20
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n", range(4, 30))
def test_no_block_is_too_small_for_the_estimate(n):
    assert min(rows.stop - rows.start for rows in even_blocks(n, 4)) >= 4


def test_one_batch_is_the_whole():
    x = draw(50, 6, 1)
    y = x + draw(50, 6, 2)
    assert cka_minibatch(x, y, batch=50) == pytest.approx(cka(x, y), rel=1e-10)


def three_languages(n=230, dtype=torch.float64):
    """Three spaces of different widths, off the origin, that share something."""
    shared = draw(n, 5, 1, dtype)
    return {
        "en": shared + 40,
        "nl": shared @ draw(5, 7, 2, dtype) + draw(n, 7, 3, dtype) - 3,
        "ru": torch.cat([shared, draw(n, 4, 4, dtype)], dim=1),
    }


def streamed(data, pairs, sizes, **options):
    stream = CkaStream(pairs, **options)
    start = 0
    n = len(next(iter(data.values())))
    while start < n:
        for size in sizes:
            stream.update({language: x[start : start + size] for language, x in data.items()})
            start += size
            if start >= n:
                break
    return stream


@pytest.mark.parametrize("sizes", [(230,), (16,), (1, 90, 7)])
def test_streaming_equals_the_direct_function(sizes):
    data = three_languages()
    pairs = [("en", "nl"), ("en", "ru"), ("nl", "ru")]
    stream = streamed(data, pairs, sizes, block=32)
    for a, b in pairs:
        estimate = stream.estimate(a, b)
        assert estimate.value == pytest.approx(cka(data[a], data[b]), rel=1e-9)
        assert estimate.n == 230


def test_answers_do_not_depend_on_how_the_stream_was_cut():
    data = three_languages()
    estimates = [
        streamed(data, [("en", "nl")], sizes, block=32).estimate("en", "nl") for sizes in ((230,), (5,), (1, 60))
    ]
    assert estimates[0] == estimates[1] == estimates[2]


def test_float32_chunks_lose_little():
    data = three_languages(n=2000, dtype=torch.float32)
    value = streamed(data, [("en", "ru")], (300,), block=128).estimate("en", "ru").value
    assert value == pytest.approx(cka(data["en"], data["ru"]), abs=1e-6)


def test_sums_of_parts_add_to_the_sums_of_the_whole():
    data = three_languages()
    x, y = shift(data["en"], data["en"][0]), shift(data["nl"], data["nl"][0])
    parts = [
        (shift(data["en"][rows], data["en"][0]), shift(data["nl"][rows], data["nl"][0]))
        for rows in (slice(0, 100), slice(100, 230))
    ]
    whole = cka_from_sums(side_sums(x), side_sums(y), pair_sums(x, y))
    left, right = (side_sums(parts[0][i]) + side_sums(parts[1][i]) for i in (0, 1))
    added = cka_from_sums(left, right, pair_sums(*parts[0]) + pair_sums(*parts[1]))
    assert added == pytest.approx(whole, rel=1e-9)
    assert whole == pytest.approx(cka(data["en"], data["nl"]), rel=1e-9)


@pytest.mark.parametrize("biased", [False, True])
def test_the_floor_is_the_mean_over_shuffles(biased):
    x, y = draw(40, 6, 1), draw(40, 9, 2)
    generator = torch.Generator().manual_seed(0)
    shuffled = [cka(x, y[torch.randperm(40, generator=generator)], biased=biased) for _ in range(2000)]
    error = np.std(shuffled) / math.sqrt(2000)
    assert abs(cka_floor(x, y, biased=biased) - np.mean(shuffled)) < 4 * error


def test_interval_lies_around_the_exact_value_and_the_floor_is_zero():
    data = three_languages(n=640)
    estimate = streamed(data, [("en", "nl")], (100,), block=32).estimate("en", "nl")
    assert estimate.low < estimate.value < estimate.high
    assert estimate.floor == 0 < estimate.low


def test_the_interval_of_a_stream_is_that_of_its_first_items_and_narrower_by_how_many_there_are():
    data = {language: x[:512] for language, x in three_languages(n=2048).items()}
    first = streamed(data, [("en", "nl")], (100,)).estimate("en", "nl")
    whole = streamed(three_languages(n=2048), [("en", "nl")], (100,)).estimate("en", "nl")
    assert whole.high - whole.low == pytest.approx((first.high - first.low) / 2, rel=1e-6)
    assert len(whole.parts) == 20


def test_independent_spaces_have_zero_inside_their_interval():
    data = {"a": draw(400, 200, 1), "b": draw(400, 200, 2)}
    estimate = streamed(data, [("a", "b")], (64,), block=32).estimate("a", "b")
    assert estimate.low < 0 < estimate.high


def test_asking_early_changes_nothing_later():
    data = three_languages()
    asked, silent = CkaStream([("en", "nl")], block=32), CkaStream([("en", "nl")], block=32)
    for start in range(0, 230, 23):
        chunk = {language: x[start : start + 23] for language, x in data.items()}
        asked.update(chunk)
        silent.update(chunk)
        asked.estimate("en", "nl")
    assert asked.estimate("en", "nl") == silent.estimate("en", "nl")


def test_fewer_items_than_a_block_still_have_a_value():
    for n, known in ((10, True), (7, False)):
        data = three_languages(n=n)
        estimate = streamed(data, [("en", "nl")], (n,), block=32).estimate("en", "nl")
        assert estimate.value == pytest.approx(cka(data["en"], data["nl"]), rel=1e-9)
        assert estimate.known == known and estimate.floor == 0


def test_all_pairs_from_grams_made_once():
    data = [draw(20, 5, seed) for seed in range(3)]
    grams = torch.stack([linear_gram(x) for x in data])
    values = inner_products(grams) / (20 * 17)
    for i in range(3):
        for j in range(3):
            assert float(values[i, j]) == pytest.approx(float(block_hsic(data[i], data[j])[0]), rel=1e-10, abs=1e-12)


@pytest.mark.parametrize(("n", "parts"), [(103, 20), (20, 20), (9, 9), (7, 0)])
def test_without_a_part_cka_is_that_of_the_items_that_are_left(n, parts):
    x, y = draw(n, 5, 1) + 3, draw(n, 8, 2)
    y[:, :5] += x
    left = hsic_without(torch.stack([side @ side.T for side in (x, y)]))
    assert left.shape == (1 + parts, 2, 2)
    values = (left[:, 0, 1] / (left[:, 0, 0] * left[:, 1, 1]).sqrt()).tolist()
    assert values[0] == pytest.approx(cka(x, y), rel=1e-9)
    for part, value in enumerate(values[1:]):
        rows = np.delete(np.arange(n), range(n * part // parts, n * (part + 1) // parts))
        assert value == pytest.approx(cka(x[rows], y[rows]), rel=1e-9)


@pytest.mark.parametrize("signal", [1.0, 3.0])
def test_the_jackknife_is_as_wide_as_values_vary(signal):
    """n = 200 and 300 directions: of blocks of 20 items it would be 1.5 times too wide."""
    generator = torch.Generator().manual_seed(0)
    mix = torch.randn(2, 5, 300, generator=generator)
    found = []
    for _ in range(60):
        shared, own = torch.randn(200, 5, generator=generator), torch.randn(2, 200, 300, generator=generator)
        found.append(cka_of_pairs(signal * shared @ mix / 5**0.5 + own, [(0, 1)])[0])
    deviation = np.std([one.value for one in found], ddof=1)
    error = np.sqrt(np.mean([((one.high - one.low) / 2 / 2.093) ** 2 for one in found]))  # t with 19
    assert 0.8 < error / deviation < 1.3


def test_jackknife_by_hand():
    """Denominators of one: the ratios without each block are the means of the other two, 2.5, 2 and 1.5."""
    values = torch.tensor([[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [3.0, 1.0, 1.0]])
    value, low, high = jackknife(values)
    deviation = math.sqrt(2 / 3 * (0.25 + 0 + 0.25))
    assert value == pytest.approx(2)
    assert high - value == pytest.approx(4.302653 * deviation, rel=1e-6)  # t with 2 degrees of freedom
    assert value - low == pytest.approx(high - value)


def test_two_blocks_have_no_interval():
    value, low, high = jackknife(torch.ones(2, 3))
    assert value == 1
    assert math.isnan(low)
    assert math.isnan(high)


def test_what_cannot_be_accumulated_is_refused_in_a_sentence():
    stream = CkaStream([("en", "nl")])
    with pytest.raises(InputError, match="no vectors"):
        stream.estimate("en", "nl")
    with pytest.raises(InputError, match="en 5, nl 4"):
        stream.update({"en": torch.zeros(5, 2), "nl": torch.zeros(4, 2)})
    with pytest.raises(InputError, match="not accumulated"):
        stream.estimate("en", "ru")
    with pytest.raises(InputError, match="at least 4"):
        CkaStream([("en", "nl")], block=3)
    stream.update({"en": torch.eye(3), "nl": torch.eye(3)})
    with pytest.raises(InputError, match="at least 4 items, not 3"):
        stream.estimate("en", "nl")


SHAPES = st.tuples(st.integers(5, 60), st.integers(1, 9), st.integers(1, 9))


@settings(max_examples=40, deadline=None)
@given(
    shape=SHAPES,
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    block=st.integers(4, 16),
    offset=st.floats(-1000, 1000),
    seed=st.integers(0, 1000),
)
def test_stream_equals_direct(shape, cuts, block, offset, seed):
    n, dx, dy = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dx, generator=generator, dtype=torch.float64)
    y = torch.randn(n, dy, generator=generator, dtype=torch.float64) + x[:, :1]
    stream = CkaStream([("x", "y")], block=block)
    start, turn = 0, 0
    while start < n:
        size = cuts[turn % len(cuts)]
        stream.update({"x": x[start : start + size] + offset, "y": y[start : start + size]})
        start, turn = start + size, turn + 1
    assert stream.estimate("x", "y").value == pytest.approx(cka(x, y), rel=1e-8, abs=1e-9)


def related(n, dx, dy, *, away=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dx, generator=generator, dtype=torch.float64)
    mix = torch.randn(dx, dy, generator=generator, dtype=torch.float64)
    return x + away, x @ mix + 2 * torch.randn(n, dy, generator=generator, dtype=torch.float64) - away / 2


def printed(x, y):
    """The formula as it is printed, with numpy."""
    x, y = np.asarray(x), np.asarray(y)
    return np.linalg.norm(y.T @ x) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


@pytest.mark.parametrize(("n", "dx", "dy"), [(60, 5, 7), (30, 40, 33)])
def test_the_uncentred_form_is_the_printed_formula(n, dx, dy):
    x, y = related(n, dx, dy)
    assert cka_uncentred(x, y) == pytest.approx(printed(x, y), rel=1e-12)


def test_independent_clouds_off_the_origin_look_alike_where_nothing_is_centred():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1000, 768, generator=generator) + 3 for _ in range(2))
    found = cka_forms(x, y)
    assert found["cka_uncentred"].value > 0.99  # as papers.md computes: 0.999
    assert found["cka_biased"].value == pytest.approx(0.434, abs=0.01)
    assert abs(found["cka"].value) < 0.01
    for one in found.values():  # nothing is there, and every form says so beside its floor
        assert one.value == pytest.approx(one.floor, abs=0.01)


@pytest.mark.parametrize("away", [0.0, 3.0, 1000.0])
def test_values_are_those_of_the_whole_matrices(away):
    x, y = related(90, 6, 9, away=away)
    found = cka_forms(x, y, seed=4)
    assert found["cka"].value == pytest.approx(cka(x, y), rel=1e-9)
    assert found["cka_biased"].value == pytest.approx(cka(x, y, biased=True), rel=1e-9)
    assert found["cka_uncentred"].value == pytest.approx(printed(x, y), rel=1e-9)
    assert {one.n for one in found.values()} == {90}
    for one in found.values():
        assert one.low <= one.value <= one.high


def test_floors_of_the_printed_forms_are_the_means_over_every_shuffle():
    x, y = related(6, 2, 3)
    orders = [list(order) for order in permutations(range(6))]
    found = cka_forms(x, y)
    assert found["cka_uncentred"].floor == pytest.approx(np.mean([printed(x, y[one]) for one in orders]), rel=1e-10)
    expected = np.mean([cka(x, y[one], biased=True) for one in orders])
    assert found["cka_biased"].floor == pytest.approx(expected, rel=1e-10)


def test_intervals_leave_out_one_block_after_the_other():
    x, y = related(103, 4, 5)
    found = cka_forms(x, y, seed=9)
    order = torch.randperm(103, generator=torch.Generator().manual_seed(9)).numpy()
    cuts = [103 * i // 18 for i in range(19)]  # blocks of at most 6: 18 of them
    biased = {name: lambda a, b, how=how: cka(a, b, biased=how) for name, how in (("cka", False), ("cka_biased", True))}
    for name, formula in ({"cka_uncentred": printed} | biased).items():
        without = [
            formula(*(side[np.delete(order, range(start, stop))] for side in (x, y)))
            for start, stop in zip(cuts, cuts[1:], strict=False)
        ]
        expected = jackknife_interval(formula(x, y), torch.tensor(without, dtype=torch.float64))
        assert (found[name].low, found[name].high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_the_interval_covers_what_many_sentences_give():
    x, y = related(20_000, 6, 6)
    truth = cka_forms(x, y)
    inside = {name: 0 for name in truth}
    for start in range(0, 20_000, 1000):
        part = cka_forms(x[start : start + 1000], y[start : start + 1000])
        for name, one in part.items():
            inside[name] += one.low <= truth[name].value <= one.high
    assert all(count >= 16 for count in inside.values()), inside  # 19 of 20 are expected


def test_widths_may_differ_and_three_items_are_too_few():
    x, y = related(12, 3, 20)
    assert set(cka_forms(x, y)) == {"cka", "cka_biased", "cka_uncentred"}
    with pytest.raises(InputError, match="debiased CKA needs at least 4 items, not 3"):
        cka_forms(x[:3], y[:3])


PAIRS = [(0, 1), (2, 0), (1, 1), (3, 2)]


def drawn(sides=4, n=90, d=12, *, common=0.7, seed=0):
    """Sides that share some of what they hold; float32, as models give them."""
    generator = torch.Generator().manual_seed(seed)
    shared = torch.randn(n, d, generator=generator)
    own = torch.randn(sides, n, d, generator=generator)
    return (common * shared + own + 5).float()


def slow_rbf(x, y):
    """One batch by explicit loops, as the released code writes it: the median of distances that are not zero."""
    grams = []
    for side in (x, y):
        n = len(side)
        far = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                far[i, j] = ((side[i] - side[j]) ** 2).sum()
        kernel = np.exp(-far / (2 * np.median(far[far != 0])))
        centre = np.eye(n) - np.ones((n, n)) / n
        grams.append(centre @ kernel @ centre)
    k, l = grams  # noqa: E741
    return (k * l).sum() / math.sqrt((k * k).sum() * (l * l).sum())


@pytest.mark.parametrize("n", [90, 13])
def test_values_are_those_of_cka(n):
    sides = drawn(n=n)
    for (i, j), one in zip(PAIRS, cka_of_pairs(sides, PAIRS), strict=True):
        assert one.value == pytest.approx(cka(sides[i], sides[j]), abs=1e-6)
        assert one.n == n and (n < 20 or one.low < one.value < one.high or one.value == pytest.approx(1))


def test_intervals_are_those_of_the_stream():
    sides = drawn(n=100)
    stream = CkaStream([("x", "y")], block=5)
    stream.update({"x": sides[0], "y": sides[1]})
    whole, mine = stream.estimate("x", "y"), cka_of_pairs(sides, [(0, 1)])[0]
    assert (mine.low, mine.high) == (pytest.approx(whole.low, abs=1e-6), pytest.approx(whole.high, abs=1e-6))


def test_the_floor_of_the_linear_form_is_zero_and_of_independent_sides_the_value_is_near_it():
    sides = drawn(sides=2, n=400, d=60, common=0.0)
    one = cka_of_pairs(sides, [(0, 1)])[0]
    assert one.floor == 0 and one.low < 0 < one.high
    assert cka_of_pairs(drawn(sides=2, n=400, d=60, common=2.0), [(0, 1)])[0].low > 0.3


@pytest.mark.parametrize("shifted", [False, True])
def test_rbf_is_the_mean_over_batches_of_the_written_formula(shifted):
    sides = drawn(n=40)
    found = cka_rbf_of_pairs(sides, PAIRS, shifted=shifted)
    begins = range(4) if shifted else range(0, 40, 10)
    for (i, j), one in zip(PAIRS, found, strict=True):
        batches = [
            slow_rbf(sides[i, b : b + 10].double().numpy(), sides[j, b : b + 10].double().numpy()) for b in begins
        ]
        assert one.value == pytest.approx(np.mean(batches), abs=1e-7)
        assert one.n == 10 and math.isnan(one.low) is shifted
    if not shifted:
        reach = 3.182446305284263 * np.std(batches, ddof=1) / 2  # t with three degrees of freedom
        assert found[-1].high == pytest.approx(min(1.0, np.mean(batches) + reach), abs=1e-7)


def test_the_floor_of_rbf_is_the_mean_over_all_shuffles():
    """Four items have 24 orders: all of them by hand."""
    import itertools

    sides = drawn(sides=2, n=4, d=3)
    one = cka_rbf_of_pairs(sides, [(0, 1)], batches=1)[0]
    x, y = (side.double().numpy() for side in sides)
    shuffled = [slow_rbf(x, y[list(order)]) for order in itertools.permutations(range(4))]
    assert one.floor == pytest.approx(np.mean(shuffled), abs=1e-9)


def test_published_batches_say_almost_nothing_of_independent_vectors():
    """As computed for the paper's sheet: 0.98 at 25 items of width 768, 0.86 at 200; the floor says so beside."""
    sides = torch.randn(2, 203, 768, generator=torch.Generator().manual_seed(1))
    for size, level in ((25, 0.98), (200, 0.86)):
        one = cka_rbf_of_pairs(sides, [(0, 1)], size=size, shifted=True)[0]
        assert one.value == pytest.approx(level, abs=0.01) and one.floor == pytest.approx(one.value, abs=0.01)


def test_repeated_items_do_not_make_the_bandwidth_zero():
    sides = drawn(n=8)
    sides[:, 4:] = sides[:, :4]
    one = cka_rbf_of_pairs(sides, [(0, 1)], batches=1)[0]
    x, y = (side.double().numpy() for side in sides[:2])
    assert one.value == pytest.approx(slow_rbf(x, y), abs=1e-7)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda x: cka_of_pairs(x[:, :3], [(0, 1)]), "at least 4 items"),
        (lambda x: cka_of_pairs(x, [(0, 9)]), "there are 4 sides"),
        (lambda x: cka_of_pairs(x * math.nan, [(0, 1)]), "not finite"),
        (lambda x: cka_rbf_of_pairs(x, [(0, 1)], size=30), "4 batches of 30 items do not fit into 90"),
    ],
)
def test_what_cannot_be_used_is_refused(call, part):
    with pytest.raises(InputError, match=part):
        call(drawn())


@pytest.mark.parametrize("measure", [cka_of_pairs, cka_rbf_of_pairs])
def test_sides_in_half_precision_whole_numbers_or_an_array_are_measured_in_float32(measure):
    """Products of float16 are infinite from 65,520 on."""
    sides = (100 * torch.randn(2, 24, 8, generator=torch.Generator().manual_seed(0))).round()
    expected = measure(sides, [(0, 1)])
    for same in (sides.half(), sides.long(), sides.numpy()):
        assert measure(same, [(0, 1)]) == expected
    assert measure(sides.bfloat16(), [(0, 1)]) == measure(sides.bfloat16().float(), [(0, 1)])
    assert measure(sides.double(), [(0, 1)])[0].value == pytest.approx(expected[0].value, rel=1e-5)


def test_no_pairs_are_no_answers():
    assert cka_of_pairs(drawn(), []) == [] and cka_rbf_of_pairs(drawn(), []) == []
