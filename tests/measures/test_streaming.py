import math

import pytest
import torch

from isogloss.errors import InputError
from isogloss.measures import (
    CkaStream,
    block_gram,
    block_hsic,
    cka,
    cka_from_sums,
    cka_shuffled,
    floor_from_sums,
    gram_hsic,
    jackknife,
    pair_sums,
    shift,
    shuffled_hsic,
    side_sums,
)


def draw(n, d, seed, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


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


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sizes", [(230,), (16,), (1, 90, 7)])
def test_streaming_equals_the_direct_function(biased, sizes):
    data = three_languages()
    pairs = [("en", "nl"), ("en", "ru"), ("nl", "ru")]
    stream = streamed(data, pairs, sizes, block=32)
    for a, b in pairs:
        estimate = stream.estimate(a, b, biased=biased)
        assert estimate.value == pytest.approx(cka(data[a], data[b], biased=biased), rel=1e-9)
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
def test_the_floor_from_sums_is_the_mean_over_shuffles(biased):
    x, y = draw(40, 6, 1), draw(40, 9, 2)
    sums = [side_sums(shift(side, side[0])) for side in (x, y)]
    shuffled = cka_shuffled(x, y, shuffles=2000, biased=biased)
    error = float(shuffled.std()) / math.sqrt(2000)
    assert abs(floor_from_sums(*sums, biased=biased) - float(shuffled.mean())) < 4 * error


def test_interval_lies_around_the_exact_value_and_the_floor_is_near_zero():
    data = three_languages(n=640)
    estimate = streamed(data, [("en", "nl")], (100,), block=32).estimate("en", "nl")
    assert estimate.low < estimate.value < estimate.high
    assert abs(estimate.floor) < 0.05 < estimate.low


def test_independent_spaces_have_zero_inside_their_interval():
    data = {"a": draw(400, 200, 1), "b": draw(400, 200, 2)}
    estimate = streamed(data, [("a", "b")], (64,), block=32).estimate("a", "b")
    assert estimate.low < 0 < estimate.high


def test_same_seed_same_floor():
    data = three_languages()
    floors = [
        streamed(data, [("en", "nl")], (50,), block=32, seed=seed).estimate("en", "nl").floor for seed in (1, 1, 2)
    ]
    assert floors[0] == floors[1] != floors[2]


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
    data = three_languages(n=10)
    estimate = streamed(data, [("en", "nl")], (10,), block=32).estimate("en", "nl")
    assert estimate.value == pytest.approx(cka(data["en"], data["nl"]), rel=1e-9)
    assert math.isnan(estimate.low)
    assert estimate.floor == 0


def test_all_pairs_from_grams_made_once():
    data = [draw(20, 5, seed) for seed in range(3)]
    grams = torch.stack([block_gram(x) for x in data])
    values = gram_hsic(grams, grams)
    for i in range(3):
        for j in range(3):
            assert float(values[i, j]) == pytest.approx(block_hsic(data[i], data[j])[0], rel=1e-10, abs=1e-12)


def test_shuffling_a_gram_matrix_is_shuffling_its_rows():
    x, y = draw(20, 5, 1), draw(20, 5, 2)
    grams = block_gram(x)[None], block_gram(y)[None]
    value = shuffled_hsic(*grams, generator=torch.Generator().manual_seed(4), shuffles=1)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(4))
    assert value.shape == (1, 1, 1)
    assert float(value) == pytest.approx(block_hsic(x, y[order])[0], rel=1e-10)


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
