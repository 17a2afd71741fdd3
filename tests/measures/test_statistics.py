"""Intervals, means over seeds and the correlation of curves: against scipy, explicit loops and simulation."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import binomtest

from isogloss.errors import InputError
from isogloss.measures.statistics import (
    band,
    correlation,
    mean_interval,
    mean_over_seeds,
    paired_differences,
    wilson_interval,
)

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("n", [5, 12])
def test_one_curve_is_what_scipy_says(n):
    for _ in range(5):
        x, y = RNG.normal(size=(2, n)).round(1)  # rounded: with ties
        assert math.isclose(correlation(x, y).value, stats.spearmanr(x, y).statistic, abs_tol=1e-12)
        assert math.isclose(correlation(x, y, kind="pearson").value, stats.pearsonr(x, y).statistic, abs_tol=1e-12)


def test_groups_are_pooled_by_what_happens_within_them():
    x, y = RNG.normal(size=(2, 3, 8))
    inner = [one - one.mean(axis=1, keepdims=True) for one in (x, y)]
    expected = stats.pearsonr(inner[0].ravel(), inner[1].ravel()).statistic
    assert math.isclose(correlation(x, y, kind="pearson").value, expected, abs_tol=1e-12)
    ranks = [stats.rankdata(one, axis=1) for one in (x, y)]
    inner = [one - one.mean(axis=1, keepdims=True) for one in ranks]
    expected = stats.pearsonr(inner[0].ravel(), inner[1].ravel()).statistic
    assert math.isclose(correlation(x, y).value, expected, abs_tol=1e-12)
    level = np.array([[0.0], [100.0], [-7.0]])  # a language that is better everywhere adds nothing
    assert math.isclose(
        correlation(x + level, y + level, kind="pearson").value, correlation(x, y, kind="pearson").value, abs_tol=1e-9
    )


@pytest.mark.parametrize("kind", ["spearman", "pearson"])
def test_the_share_counts_every_place_in_a_loop(kind):
    x, y = RNG.normal(size=(2, 7))
    reference = {"spearman": stats.spearmanr, "pearson": stats.pearsonr}[kind]
    here = reference(x, y).statistic
    places = [np.roll(one, shift) for one in (x, x[::-1]) for shift in range(7)]
    expected = np.mean([reference(one, y).statistic >= here - 1e-12 for one in places])
    assert math.isclose(correlation(x, y, kind=kind).share, expected)


def test_the_same_curve_is_found_in_place_alone():
    x = np.array([1.0, 2, 3, 5, 8, 6, 4.5])
    found = correlation(x, x)
    assert (found.value, found.share, found.n) == (1.0, 1 / 14, 7)
    assert (found.low, found.high) == (1.0, 1.0)
    assert correlation(x, -x).value == -1.0


def test_smooth_unrelated_curves_are_not_told_from_chance_by_the_share():
    """Plain permutations would call half of such pairs significant: neighbouring layers are alike."""
    hits = 0
    for seed in range(200):
        walk = np.random.default_rng(seed).normal(size=(2, 12)).cumsum(axis=1)
        hits += correlation(*walk, draws=1).share <= 0.05
    assert hits / 200 < 0.12


def test_intervals_are_wider_where_neighbours_are_drawn_together():
    walk = np.random.default_rng(5).normal(size=(2, 12)).cumsum(axis=1)
    alone, together = (correlation(*walk, kind="pearson", run=run) for run in (1, 4))
    assert together.high - together.low > alone.high - alone.low
    assert together.low <= together.value <= together.high


def test_a_seed_decides_the_interval():
    x, y = RNG.normal(size=(2, 9))
    assert correlation(x, y, seed=1) == correlation(x, y, seed=1)
    assert correlation(x, y, seed=1) != correlation(x, y, seed=2)


def test_what_does_not_vary_has_no_correlation():
    found = correlation([1, 1, 1, 1], [1, 2, 3, 4])
    assert all(math.isnan(one) for one in (found.value, found.low, found.high, found.share))
    assert math.isnan(correlation([1, 2, 3], [1, 2, 4]).low)


@pytest.mark.parametrize(
    ("x", "y", "part"),
    [([1, 2], [1, 2, 3], "alike"), ([1], [1], "two layers"), ([1, math.nan], [1, 2], "finite")],
)
def test_curves_that_cannot_be_compared_are_one_sentence(x, y, part):
    with pytest.raises(InputError, match=part):
        correlation(x, y)


def walks(seed, shape):
    """Curves above zero that wander and, with luck, cross."""
    return np.exp(np.random.default_rng(seed).normal(size=shape).cumsum(axis=-1) / 2)


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (50, 1000)])
def test_wilson_agrees_with_scipy(hits, n):
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    found = wilson_interval(hits, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (found.value, found.n) == (hits / n, n)


def test_intervals_are_clipped_and_contain_the_value():
    assert wilson_interval(10, 10).high == 1
    assert wilson_interval(0, 10).low == 0
    mean = mean_interval(torch.tensor([1.0, 1.0, 0.0])).clipped()
    assert 0 <= mean.low < mean.value == pytest.approx(2 / 3) and mean.high == 1
    assert not mean_interval(torch.ones(1)).known


@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_bands_against_scipy_column_by_column(seeds):
    values = walks(seeds, (seeds, 6))
    for scale, to, back in (("linear", np.asarray, np.asarray), ("log", np.log, np.exp)):
        found = band(values, scale=scale)
        for place in range(6):
            column = to(values[:, place])
            low, high = stats.t.interval(0.95, seeds - 1, loc=column.mean(), scale=stats.sem(column))
            expected = back([column.mean(), low, high]).tolist()
            assert [found.mean[place], found.low[place], found.high[place]] == pytest.approx(expected)
    assert (band(values, scale="log").low > 0).all()


def test_a_band_of_one_seed_or_none_has_no_width():
    found = band([[1.0, 2.0, math.nan], [3.0, math.nan, math.nan]])
    np.testing.assert_array_equal(found.mean, [2.0, 2.0, math.nan])
    np.testing.assert_array_equal(np.isnan(found.low), [False, True, True])
    np.testing.assert_array_equal(np.isnan(found.high), [False, True, True])
    assert band(np.zeros((3, 0))).mean.shape == (0,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: band([1, 2, 3]), r"\(seeds, steps\), not shape \(3,\)"),
        (lambda: band([[1, 0]], scale="log"), "above zero"),
        (lambda: mean_over_seeds([1.0, 0.0], scale="log"), "above zero"),
    ],
)
def test_what_is_no_curve_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("seeds", [2, 3, 5, 9])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_means_over_seeds_against_scipy(seeds, scale):
    values = walks(seeds, (seeds,))
    to, back = (np.log, np.exp) if scale == "log" else (np.asarray, np.asarray)
    low, high = stats.t.interval(0.95, seeds - 1, loc=to(values).mean(), scale=stats.sem(to(values)))
    expected = back([to(values).mean(), low, high]).tolist()
    for given in (values, values.tolist(), dict(enumerate(values.tolist())), [*values, math.nan]):
        mean = mean_over_seeds(given, scale=scale)
        assert [mean.value, mean.low, mean.high] == pytest.approx(expected, rel=1e-9)
        assert mean.n == seeds and mean.known
        assert mean_over_seeds(given, least=3, scale=scale).known == (seeds >= 3)


def test_the_mean_of_a_curve_is_that_of_its_points():
    values = walks(1, (4, 5))
    for scale in ("linear", "log"):
        curve = band(values, scale=scale)
        for step in range(5):
            mean = mean_over_seeds(values[:, step], scale=scale)
            expected = (curve.mean[step], curve.low[step], curve.high[step])
            assert (mean.value, mean.low, mean.high) == pytest.approx(expected, rel=1e-12)


def test_one_seed_or_none_has_no_interval():
    single, none = mean_over_seeds({7: 2.0}), mean_over_seeds([])
    assert (single.value, single.n, single.known) == (2.0, 1, False)
    assert math.isnan(none.value) and none.n == 0 and not none.known
    assert not single.clipped(0.0, 1.0).known


def test_an_interval_is_clipped_to_the_range_of_its_measure():
    wide = mean_over_seeds([0.1, 0.5, 0.9])
    clipped = wide.clipped(0.0, 1.0)
    assert wide.low < 0 < 1 < wide.high
    assert (clipped.value, clipped.low, clipped.high, clipped.n) == (wide.value, 0.0, 1.0, 3)


def test_paired_differences_are_narrower_than_the_difference_of_two_means():
    base = {seed: float(value) for seed, value in enumerate(walks(5, (6,)))}
    better = {seed: value + 0.1 + 0.01 * seed for seed, value in base.items()} | {99: 5.0}
    differences = paired_differences(better, base)
    assert list(differences) == list(base)
    assert [differences[seed] for seed in base] == pytest.approx([0.1 + 0.01 * seed for seed in base])
    paired = mean_over_seeds(differences)
    expected = stats.ttest_rel([better[seed] for seed in base], list(base.values())).confidence_interval(0.95)
    assert (paired.low, paired.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert paired.high - paired.low < mean_over_seeds(base).high - mean_over_seeds(base).low
    ratios = paired_differences(better, base, scale="log")
    assert ratios[2] == better[2] / base[2]
