"""Masks that belong to a sentence, against a loop in whole numbers, and what they must not depend on."""

import doctest

import numpy as np
import pytest

from isogloss.errors import InputError
from isogloss.text import masking as fixedmasks
from isogloss.text.masking import draws, fixed_masks

MASK, POOL = 4, np.arange(10, 60)
BITS = 2**64 - 1


def sentences(lengths, seed=0):
    """Ids between borders, and which of them are content."""
    draw = np.random.default_rng(seed)
    ids = [np.concatenate([[2], draw.integers(5, 90, length - 2), [3]]) for length in lengths]
    flat = np.concatenate(ids)
    return flat, np.array(lengths), flat > 4


def masked(ids, lengths, content, **changes):
    return fixed_masks(ids, lengths, **{"content": content, "mask_id": MASK, "pool": POOL, "seed": 7} | changes)


def mixed(state):
    state = (state + 0x9E3779B97F4A7C15) & BITS
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & BITS
    return state ^ (state >> 31)


def drawn(seed, kind, sentence, place):
    return (mixed(mixed(mixed(mixed(seed) ^ kind) ^ sentence) ^ place) >> 11) / 2**53


def test_masks_by_hand():
    ids, lengths, content = sentences([2, 3, 9, 31, 12, 2, 64])
    inputs, chosen = masked(ids, lengths, content)
    start = 0
    for number, length in enumerate(lengths.tolist()):
        places = sorted((drawn(7, 0, number, i), i) for i in range(length) if content[start + i])
        wanted = min(max(1, round(0.15 * len(places))), len(places))
        expected = {place for _, place in places[:wanted]}
        assert set(np.flatnonzero(chosen[start : start + length]).tolist()) == expected
        for i in range(length):
            here, kind = ids[start + i], drawn(7, 1, number, i)
            if i in expected and kind < 0.9:
                here = MASK if kind < 0.8 else POOL[int(drawn(7, 2, number, i) * len(POOL))]
            assert inputs[start + i] == here
        start += length


def test_a_mask_hangs_on_nothing_but_its_sentence():
    ids, lengths, content = sentences([9, 31, 12, 64])
    longer = np.concatenate([[2, *range(5, 45), 3], ids[9:], ids]), np.array([42, 31, 12, 64, *lengths])
    inputs, chosen = masked(ids, lengths, content)
    again, chosen_again = masked(*longer, longer[0] > 4)
    assert (inputs[9:] == again[42 : 42 + 107]).all()
    assert (chosen[9:] == chosen_again[42 : 42 + 107]).all()
    assert (masked(ids, lengths, content, seed=8)[1] != chosen).any()
    assert not (again[-116:] == inputs).all(), "the same sentence under another number is masked elsewhere"


def test_shares_are_as_declared():
    ids, lengths, content = sentences([42] * 2_000)
    inputs, chosen = masked(ids, lengths, content)
    assert chosen.reshape(2_000, 42).sum(axis=1).tolist() == [6] * 2_000
    assert not chosen[~content].any()
    assert (inputs[~chosen] == ids[~chosen]).all()
    assert np.mean(inputs[chosen] == MASK) == pytest.approx(0.8, abs=0.012)
    assert np.mean(inputs[chosen] == ids[chosen]) == pytest.approx(0.1 + 0.1 / 85, abs=0.012)
    places = np.tile(np.arange(42), 2_000)[chosen]
    assert np.bincount(places, minlength=42)[1:-1] == pytest.approx(300, abs=75), "every place is as likely"
    numbers = draws(1, np.arange(100_000), np.zeros(100_000), kind=0)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert np.histogram(numbers, 10)[0] == pytest.approx(10_000, abs=400)


def test_mistakes_are_refused():
    with pytest.raises(InputError, match="share"):
        masked(*sentences([9]), share=0)
    with pytest.raises(InputError, match="pool of at least one id"):
        masked(*sentences([9]), pool=np.arange(0))


def test_examples():
    assert doctest.testmod(fixedmasks).failed == 0
