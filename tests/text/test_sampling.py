"""Rows of training text: the wanted mixture, every stretch once an epoch, and the same answer however it is reached."""

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given, strategies as st

from isogloss.errors import InputError
from isogloss.text.sampling import (
    _STRIDE,
    ItemSampler,
    Mixture,
    Sampler,
    _floor_sum,
    hash_fraction,
    shares,
    shuffled,
)

TOKENS = {"en": 52_345, "nl": 9_000, "ru": 2_600, "zh": 130}


def sampler(seed=0, **changes):
    return Sampler(TOKENS, **{"length": 128, "exponent": 0.7, **changes}, seed=seed)


def test_shares_by_hand():
    assert shares({"en": 900, "nl": 100}, exponent=0.5) == {"en": 0.75, "nl": 0.25}
    assert shares({"en": 900, "nl": 100}, exponent=1) == {"en": 0.9, "nl": 0.1}
    assert shares({"en": 900, "nl": 100, "ru": 1}, exponent=0) == dict.fromkeys(("en", "nl", "ru"), 1 / 3)
    # 8^0.7 = 4.2871, 1^0.7 = 1
    assert shares({"en": 8, "nl": 1}, exponent=0.7)["en"] == pytest.approx(0.81086, abs=1e-5)


@given(st.integers(0, 60), st.integers(1, 50), st.integers(0, 80), st.integers(0, 200))
def test_sum_of_floors(n, m, a, b):
    assert _floor_sum(n, m, a, b) == sum((a * i + b) // m for i in range(n))


@given(st.integers(0, 300), st.integers(0, 2**64 - 1), st.integers(0, 2**64))
def test_places_below_a_limit(count, start, limit):
    points = [(start + number * _STRIDE) % 2**64 for number in range(count)]
    mixture = Mixture({"en": 0.5, "nl": 0.5}, seed=0)
    mixture._start, mixture._ends = start, [limit, 2**64]
    below = sum(point < limit for point in points)
    assert mixture.before(count) == [below, count - below]


def test_the_mixture_is_as_wanted():
    one, batch = sampler(), 256
    found = np.concatenate([one.rows(step, batch)[0] for step in range(1_000)])
    for number, share in enumerate(shares(TOKENS, exponent=0.7).values()):
        assert abs((found == number).mean() - share) < 0.001
    for step in (0, 17, 999):  # and in every single batch
        counts = np.bincount(one.rows(step, batch)[0], minlength=len(TOKENS))
        assert np.abs(counts - batch * np.array(list(shares(TOKENS, exponent=0.7).values()))).max() < 4


def test_rows_lie_within_the_text():
    one = sampler()
    sizes = np.array(list(TOKENS.values()))
    for step in range(200):
        languages, starts = one.rows(step, 64)
        assert languages.dtype == starts.dtype == np.int64
        assert languages.shape == starts.shape == (64,)
        assert (starts >= 0).all()
        assert (starts + 128 <= sizes[languages]).all()


def test_every_epoch_visits_every_row_once_and_cuts_elsewhere():
    one = sampler()
    drawn = [one.rows(step, 50) for step in range(400)]
    languages, starts = (np.concatenate(part) for part in zip(*drawn, strict=True))
    for number, tokens in enumerate(TOKENS.values()):
        size = max(1, tokens // 128 - 1)
        mine = starts[languages == number]
        epochs = [mine[start : start + size] for start in range(0, len(mine) - size + 1, size)]
        assert len(epochs) >= 2
        for epoch in epochs:
            offset = epoch.min()
            assert sorted(epoch) == list(range(offset, offset + size * 128, 128))
            assert 0 <= offset <= tokens - size * 128
        assert len({epoch.min() for epoch in epochs}) > 1
        assert not np.array_equal(epochs[0] - epochs[0].min(), epochs[1] - epochs[1].min()) or size < 3


@pytest.mark.parametrize("tokens", [16, 17, 31, 32, 47, 48, 100])
def test_no_token_of_the_text_is_left_out_for_good(tokens):
    one, seen = Sampler({"en": tokens}, length=16, seed=0), np.zeros(tokens, dtype=bool)
    for start in np.concatenate([one.rows(step, 4)[1] for step in range(400)]).tolist():
        seen[start : start + 16] = True
    assert seen.all()


def test_a_step_is_the_same_however_it_is_reached():
    one = sampler(seed=3)
    reached = [one.rows(step, 48) for step in range(120)]
    jumping = sampler(seed=3)
    for step in (119, 0, 60, 60, 61, 7):
        for part, expected in zip(jumping.rows(step, 48), reached[step], strict=True):
            assert np.array_equal(part, expected)
    for step in (5, 90):
        for part, expected in zip(sampler(seed=3).rows(step, 48), reached[step], strict=True):
            assert np.array_equal(part, expected)


def test_rows_are_numbered_through_whatever_the_batch():
    """Two processes with half the batch each, or one with all of it, see the same rows."""
    whole = [np.concatenate(part) for part in zip(*(sampler().rows(step, 64) for step in range(4)), strict=True)]
    halves = [np.concatenate(part) for part in zip(*(sampler().rows(step, 32) for step in range(8)), strict=True)]
    assert all(np.array_equal(one, other) for one, other in zip(whole, halves, strict=True))


def test_a_far_step_is_quick():
    began = time.perf_counter()
    languages, starts = sampler().rows(20_000_000, 512)
    assert time.perf_counter() - began < 1
    assert len(languages) == len(starts) == 512


def test_seeds_differ_and_nothing_global_is_drawn():
    before = np.random.get_state()  # noqa: NPY002
    drawn = [sampler(seed=seed).rows(0, 64) for seed in (0, 1)]
    after = np.random.get_state()  # noqa: NPY002
    assert not np.array_equal(drawn[0][1], drawn[1][1])
    assert np.array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_epochs_seen():
    one, batch = sampler(), 32
    assert one.epochs(0, batch) == dict.fromkeys(TOKENS, 0.0)
    counts = np.zeros(len(TOKENS))
    for step in range(30):
        counts += np.bincount(one.rows(step, batch)[0], minlength=len(TOKENS))
    sizes = [max(1, tokens // 128 - 1) for tokens in TOKENS.values()]
    assert one.epochs(30, batch) == dict(zip(TOKENS, (counts / sizes).tolist(), strict=True))
    assert sampler().epochs(30, batch) == one.epochs(30, batch)


def test_one_language_and_too_little_text():
    languages, _ = Sampler({"en": 1_000}, length=128, seed=0).rows(5, 16)
    assert not languages.any()
    with pytest.raises(InputError, match="nl has only 127 tokens, fewer than one stream of 128"):
        Sampler({"en": 1_000, "nl": 127}, length=128, seed=0)


# Pairs of translations


def permuted(positions, size, key):
    keys = np.random.default_rng(key).integers(2**64, size=4, dtype=np.uint64)
    return shuffled(positions, np.full(len(positions), size), np.tile(keys, (len(positions), 1)))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 16, 17, 1000])
def test_a_shuffle_is_a_permutation_that_hangs_on_its_key_alone(size):
    found = permuted(np.arange(size), size, key=[3, 1])
    assert sorted(found.tolist()) == list(range(size))
    some = np.array([0, size - 1, size // 2])
    assert np.array_equal(permuted(some, size, key=[3, 1]), found[some])
    if size > 10:
        assert not np.array_equal(permuted(np.arange(size), size, key=[3, 2]), found)
        assert not np.array_equal(found, np.arange(size))


def test_a_shuffle_looks_random():
    found = permuted(np.arange(4096), 4096, key=[7])
    fixed = int((found == np.arange(4096)).sum())
    close = int((np.abs(np.diff(found)) == 1).sum())
    assert fixed < 8 and close < 12  # a random permutation has 1 and 2 on average
    assert abs(np.corrcoef(found, np.arange(4096))[0, 1]) < 0.06


def test_an_epoch_sees_every_pair_once_and_groups_in_proportion():
    sampler = ItemSampler({"en-nl": 30, "en-ru": 90}, exponent=1.0, seed=5)
    seen = [[], []]
    for step in range(24):
        for group, number in zip(*(one.tolist() for one in sampler.rows(step, 10)), strict=True):
            seen[group].append(number)
    assert abs(len(seen[0]) - 60) <= 2 and abs(len(seen[1]) - 180) <= 2
    for group, size in enumerate((30, 90)):
        first, second = seen[group][:size], seen[group][size : 2 * size]
        assert sorted(first) == list(range(size)) and first != sorted(first)
        assert len(set(second)) == len(second) and first[: len(second)] != second
    asked = [sampler.rows(step, 10) for step in (7, 3, 7)]
    assert all(np.array_equal(one, other) for one, other in zip(asked[0], asked[2], strict=True))
    other = ItemSampler({"en-nl": 30, "en-ru": 90}, exponent=1.0, seed=6).rows(7, 10)
    assert not np.array_equal(asked[0][1], other[1])


# Which paragraphs are held out is decided by the paragraph alone, the same for ever


def held_out(text, share):
    return hash_fraction(text) < share


PARAGRAPHS = [f"Paragraph {number} tells of {number * number % 97} things." for number in range(5_000)]


def test_places_are_the_same_for_ever():
    """Text that a published model was kept from must stay apart: these numbers may never change."""
    assert hash_fraction("The cat sleeps.") == pytest.approx(0.9879569058789544, abs=1e-15)
    assert hash_fraction("猫在睡觉。") == pytest.approx(0.5716955594285171, abs=1e-15)


def test_spacing_and_composition_do_not_matter_and_anything_else_does():
    assert (
        hash_fraction(" The\tcat  sleeps.\n")
        == hash_fraction("The cat sleeps.")
        == hash_fraction("The\u00a0cat\u3000sleeps.")
    )
    assert hash_fraction(unicodedata.normalize("NFD", "Où est l'été ?")) == hash_fraction(
        unicodedata.normalize("NFC", "Où est l'été ?")
    )
    assert (
        len(
            {hash_fraction(text) for text in ("The cat sleeps.", "the cat sleeps.", "The cat sleeps", "Thecat sleeps.")}
        )
        == 4
    )


@pytest.mark.parametrize("share", [0.02, 0.25, 0.5])
def test_the_share_is_kept_and_shares_are_nested(share):
    found = sum(held_out(text, share) for text in PARAGRAPHS)
    spread = 4 * (len(PARAGRAPHS) * share * (1 - share)) ** 0.5
    assert abs(found - len(PARAGRAPHS) * share) < spread
    assert all(held_out(text, share + 0.1) for text in PARAGRAPHS if held_out(text, share))


def test_places_are_even_and_none_or_all_can_be_set_aside():
    counts = [0] * 10
    for text in PARAGRAPHS:
        assert 0 <= hash_fraction(text) < 1
        counts[int(hash_fraction(text) * 10)] += 1
    assert sum((count - 500) ** 2 / 500 for count in counts) < 27.9  # chi-squared of 9 degrees, 1 in 1,000
    assert not any(held_out(text, 0.0) for text in PARAGRAPHS)
    assert all(held_out(text, 1.0) for text in PARAGRAPHS)
