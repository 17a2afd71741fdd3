"""CKA of many sides at once against `cka`, against explicit loops, and against the floors that simulation gives."""

import math

import numpy as np
import pytest
import torch

from isogloss.errors import InputError
from isogloss.measures import CkaStream, cka, cka_of_pairs, cka_rbf_of_pairs

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
    stream = CkaStream([("x", "y")], block=5, shuffles=0)
    stream.update({"x": sides[0], "y": sides[1]})
    whole, mine = stream.estimate("x", "y"), cka_of_pairs(sides, [(0, 1)])[0]
    assert (mine.low, mine.high) == (pytest.approx(whole.low, abs=1e-6), pytest.approx(whole.high, abs=1e-6))


def test_the_floor_of_the_linear_form_is_near_zero_and_of_independent_sides_the_value_too():
    sides = drawn(sides=2, n=400, d=60, common=0.0)
    one = cka_of_pairs(sides, [(0, 1)], shuffles=8)[0]
    assert abs(one.floor) < 0.02 and one.low < 0 < one.high
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


def test_no_pairs_are_no_answers():
    assert cka_of_pairs(drawn(), []) == [] and cka_rbf_of_pairs(drawn(), []) == []
