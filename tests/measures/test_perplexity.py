"""Perplexity and its intervals by hand; crossings and balance on published curves and against a fine grid."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from isogloss.errors import InputError
from isogloss.measures.perplexity import (
    Likelihood,
    balance_step,
    crossing,
    crossings,
    perplexity,
    perplexity_interval,
    step_over_seeds,
    tokens_per,
)
from isogloss.measures.registry import MEASURES


def test_a_uniform_guess_has_the_perplexity_of_its_choices():
    """Ten tokens guessed among 32: 5 bits each, 1.5 tokens a word, 5 characters a word."""
    known = Likelihood(10 * math.log(32), 10, tokens=300, words=200, characters=1000)
    assert perplexity(known) == pytest.approx(32, rel=1e-14)
    assert perplexity(known, "word") == pytest.approx(32**1.5, rel=1e-14)
    assert perplexity(known, "character") == pytest.approx(32**0.3, rel=1e-14)


def test_sums_are_added_before_the_ratio():
    one, two = Likelihood(10.0, 2, 20, 10, 50), Likelihood(3.0, 30, 100, 40, 300)
    both = one + two
    assert both == two + one == Likelihood(13.0, 32, 120, 50, 350)
    assert perplexity(both) == pytest.approx(math.exp(13 / 32))
    assert perplexity(both, "word") == pytest.approx(math.exp(13 / 32 * 120 / 50))


def test_two_vocabularies_of_one_text_agree_per_word_and_per_character():
    """The same 60 nats over 10 words: whole words cost 6 nats each, halves of words 3."""
    words = Likelihood(60.0, 10, tokens=10, words=10, characters=45)
    halves = Likelihood(60.0, 20, tokens=20, words=10, characters=45)
    assert perplexity(words) > 10 * perplexity(halves)
    for unit in ("word", "character"):
        assert perplexity(words, unit) == pytest.approx(perplexity(halves, unit), rel=1e-14)


def test_the_best_checkpoint_is_the_one_with_the_lowest_perplexity():
    """Named after an error of the papers' code: the highest perplexity was taken for the best."""
    entry = MEASURES["perplexity"]
    assert entry.function is perplexity
    assert not entry.higher_is_better
    assert entry.range == (1.0, math.inf)
    better, worse = (Likelihood(total, 10, 10, 10, 10) for total in (5.0, 50.0))
    assert entry.range[0] <= entry.function(better) < entry.function(worse) <= entry.range[1]


def test_ends_of_the_range():
    assert perplexity(Likelihood(0.0, 5, 5, 5, 5)) == 1.0
    assert perplexity(Likelihood(1e6, 1, 1, 1, 1)) == math.inf
    assert math.isnan(perplexity(Likelihood(math.nan, 1, 1, 1, 1)))


def test_interval_against_an_explicit_jackknife():
    draw = torch.Generator().manual_seed(0)
    totals = torch.rand(12, generator=draw, dtype=torch.float64) * 50 + 100
    counts = torch.randint(30, 60, (12,), generator=draw)
    for rate in (1.0, 1.4, 0.25):
        left = []
        for out in range(12):
            kept = [i for i in range(12) if i != out]
            left.append(rate * sum(totals[i].item() for i in kept) / sum(counts[i].item() for i in kept))
        mean = sum(left) / 12
        deviation = math.sqrt(11 / 12 * sum((one - mean) ** 2 for one in left))
        centre = rate * totals.sum().item() / counts.sum().item()
        reach = stats.t.ppf(0.975, 11) * deviation
        expected = (math.exp(centre - reach), math.exp(centre + reach))
        assert perplexity_interval(totals, counts, rate=rate) == pytest.approx(expected, rel=1e-12)


def test_interval_covers_the_truth():
    """Blocks of 50 exponential surprises around 2 nats: 95% intervals hold exp(2) about 95 times in 100."""
    draw = torch.distributions.Exponential(0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        blocks = draw.sample((400, 20, 50)).sum(dim=2)
    counts = torch.full((20,), 50)
    inside = sum(low <= math.exp(2) <= high for low, high in (perplexity_interval(one, counts) for one in blocks))
    assert 0.91 < inside / 400 < 0.985


def test_interval_needs_three_blocks_that_predict_something():
    totals, counts = torch.tensor([5.0, 6.0, 0.0, 0.0]), torch.tensor([2, 3, 0, 0])
    assert all(math.isnan(end) for end in perplexity_interval(totals, counts))
    totals, counts = torch.tensor([5.0, 6.0, 0.0, 7.0]), torch.tensor([2, 3, 0, 4])
    expected = perplexity_interval(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([2, 3, 4]))
    assert perplexity_interval(totals, counts) == expected
    assert not math.isnan(expected[0])


def test_interval_stays_in_the_range():
    low, high = perplexity_interval(torch.tensor([0.0, 0.0, 9.0]), torch.tensor([10, 10, 10]))
    assert low == 1.0
    assert perplexity_interval(torch.tensor([1e5, 2e5, 9e5]), torch.tensor([1, 1, 1]))[1] == math.inf
    assert all(math.isnan(end) for end in perplexity_interval(torch.tensor([1.0, math.nan, 2.0]), torch.ones(3)))


def test_nothing_predicted_is_refused():
    with pytest.raises(InputError, match="at least one predicted token"):
        perplexity(Likelihood(0.0, 0, 5, 5, 5))
    with pytest.raises(InputError, match="no words"):
        perplexity(Likelihood(1.0, 1, 5, 0, 5), "word")
    with pytest.raises(InputError, match="not per 'sentence'"):
        tokens_per(Likelihood(1.0, 1, 5, 5, 5), "sentence")
    with pytest.raises(InputError, match="one number per block"):
        perplexity_interval(torch.zeros(3), torch.ones(4))


# Dutch and other languages' perplexity as logged by Hussain & Dudev (2020), mean of three files.
STEPS = [1, 51, 101, 151, 201, 251, 301, 401, 501]
DUTCH = [11.54, 8.57, 8.00, 7.45, 6.53, 4.13, 6.52, 5.75, 7.76]
OTHERS = [6.08, 5.62, 4.04, 4.81, 5.07, 5.24, 6.07, 10.44, 10.39]


def walks(seed, shape):
    """Curves above zero that wander and, with luck, cross."""
    return np.exp(np.random.default_rng(seed).normal(size=shape).cumsum(axis=-1) / 2)


def test_the_published_curves_cross_three_times():
    """Noise of two validation batches: they cross, cross back and cross again, all soon after step 200."""
    found = crossings(STEPS, DUTCH, OTHERS)
    assert [int(step) // 50 * 50 for step in found] == [200, 250, 300]
    assert crossing(STEPS, DUTCH, OTHERS) == found[0] == pytest.approx(226, abs=1)


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ([8, 2], [4, 4], [5.0]),  # in logarithms exactly half way; on a linear scale it would be 6.67
        ([8, 1], [4, 4], [10 / 3]),
        ([8, 4, 8], [4, 4, 4], []),  # a touch
        ([8, 4, 2], [4, 4, 4], [10.0]),  # through an evaluation
        ([8, 4, 4, 2], [4, 4, 4, 4], [15.0]),  # together for a while
        ([8, 4, 4, 8], [4, 4, 4, 4], []),
        ([4, 2, 8], [4, 4, 4], [10 + 10 / 2]),  # equal at first: no order yet
        ([8, 4], [4, 4], []),  # equal at last: no new order
        ([4, 4], [4, 4], []),
        ([5], [4], []),
        ([8, 4, 8, 4, 2, 4, 8], [4, 4, 4, 4, 4, 4, 4], [30.0, 50.0]),
    ],
)
def test_crossings_by_hand(first, second, found):
    steps = [10 * place for place in range(len(first))]
    assert crossings(steps, first, second) == pytest.approx(found)
    assert crossing(steps, first, second) == (pytest.approx(found[0]) if found else None)


@pytest.mark.parametrize("seed", range(20))
def test_crossings_are_where_the_lines_change_order_on_a_fine_grid(seed):
    draw = np.random.default_rng(seed)
    steps = draw.integers(1, 60, size=12).cumsum()
    first, second = walks(seed, 12), walks(seed + 100, 12)
    grid = np.linspace(steps[0], steps[-1], 200_001)
    apart = np.interp(grid, steps, np.log(first)) - np.interp(grid, steps, np.log(second))
    changed = grid[1:][np.sign(apart[1:]) != np.sign(apart[:-1])]
    found = crossings(steps, first, second)
    assert found == pytest.approx(changed.tolist(), abs=0.01)
    assert found == pytest.approx(crossings(steps, second, first)), "whichever is called the first"
    assert found == pytest.approx(crossings(steps, 7 * first, 7 * second)), "factors of both move nothing"
    assert found == pytest.approx(crossings(steps, first**0.3, second**0.3)), "nor does a common unit"
    backwards = crossings(-steps[::-1], first[::-1], second[::-1])
    assert found == pytest.approx([-step for step in reversed(backwards)], abs=1e-9)


def test_balance_by_hand():
    """The target halves, the others grow by a quarter, then by three: worth it, no longer worth it."""
    target, others = [16, 8, 4], [4, 5, 15]
    assert balance_step([0, 50, 100], target, others) == 50
    assert balance_step([0, 50, 100], others, [1, 1, 1]) == 0, "nothing gained"
    assert balance_step([0, 50, 100], [4, 2, 2], [1, 1, 1]) == 50, "the earlier of equals"
    assert balance_step(STEPS, DUTCH, OTHERS) == 251


@pytest.mark.parametrize("seed", range(10))
def test_the_balance_step_is_the_lowest_product_and_hangs_on_no_factor(seed):
    target, others = walks(seed, 15), walks(seed + 50, 15)
    steps = np.arange(15) * 50
    found = balance_step(steps, target, others)
    assert found == min(steps, key=lambda step: target[step // 50] * others[step // 50])
    assert found == balance_step(steps, others, target) == balance_step(steps, 3 * target, others / 5)


def test_over_seeds_the_interval_is_students():
    steps = [0, 100, 200]
    second = [[2, 2, 2]] * 3
    first = [[8, 8, 0.5], [8, 4, 1], [8, 1, 1]]
    each = [crossing(steps, *pair) for pair in zip(first, second, strict=True)]
    assert each == pytest.approx([150, 150, 200 / 3])
    found = step_over_seeds(crossing, steps, first, second)
    low, high = stats.t.interval(0.95, 2, loc=np.mean(each), scale=stats.sem(each))
    assert low < 0 or high > 200, "clipping is of use here"
    assert (found.value, found.n) == (pytest.approx(np.mean(each)), 3)
    assert (found.low, found.high) == (pytest.approx(max(low, 0)), pytest.approx(min(high, 200)))


def test_seeds_that_do_not_cross_are_left_out_and_counted():
    steps, never, once = [0, 100], [8, 8], [8, 0.5]
    second = [2, 2]
    assert step_over_seeds(crossing, steps, [never, never], [second, second]) is None
    found = step_over_seeds(crossing, steps, [never, once, never, never], [second] * 4)
    assert (found.value, found.n) == (50.0, 1)
    assert math.isnan(found.low) and math.isnan(found.high), "one seed has no interval"
    found = step_over_seeds(crossing, steps, [once, never, once], [second] * 3)
    assert (found.value, found.low, found.high, found.n) == (50.0, 50.0, 50.0, 2)


def test_a_seed_that_ended_early_counts_as_far_as_it_went():
    steps, gone = [0, 100, 200], math.nan
    target, others = [[8, 4, 2], [8, 4, gone]], [[2, 2, 3], [2, 2, gone]]
    found = step_over_seeds(balance_step, steps, target, others)
    assert (found.value, found.n) == (150.0, 2)
    assert (found.low, found.high) == (0.0, 200.0)
    crossed = step_over_seeds(crossing, steps, target, [[2, 2, 3], [2, gone, 9]])
    assert (crossed.value, crossed.n) == (pytest.approx(crossing(steps, target[0], [2, 2, 3])), 1)
    with pytest.raises(InputError, match="no values at step 0, the first"):
        step_over_seeds(balance_step, steps, [[gone, 4, 2]], [[2, 2, 3]])
    with pytest.raises(InputError, match="seed 1 has no evaluation"):
        step_over_seeds(crossing, steps, target, [[2, 2, 3], [gone, gone, 2]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: crossing([0, 2, 1], [1, 1, 1], [1, 1, 1]), "increasing list"),
        (lambda: crossing([], [], []), "increasing list"),
        (lambda: crossing([0, 1], [1, 1, 1], [1, 1]), r"first curve needs 2 values, one per step, not shape \(3,\)"),
        (lambda: crossing([0, 1], [1, 1], [1, 0]), "value 1 of the second curve is 0"),
        (lambda: balance_step([0, 1], [1, math.nan], [1, 1]), "value 1 of the target curve is nan"),
        (lambda: balance_step([0, 1], [1, 1], [1, math.inf]), "value 1 of the others curve is inf"),
        (lambda: balance_step([], [], []), "increasing list of at least one"),
        (lambda: step_over_seeds(crossing, [0, 1], [[1, 1]], [[1, 1], [1, 1]]), r"must both be \(seeds, 2\)"),
    ],
)
def test_what_is_no_curve_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
