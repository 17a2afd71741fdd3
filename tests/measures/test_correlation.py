"""Correlation of curves over layers: against scipy, loops, and what its intervals promise."""

import math

import numpy as np
import pytest
from scipy import stats

from isogloss import InputError
from isogloss.measures.correlation import _places, _runs, correlation

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
    assert math.isclose(correlation(x + level, y + level, kind="pearson").value,
                        correlation(x, y, kind="pearson").value, abs_tol=1e-9)  # fmt: skip


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


def test_runs_are_neighbours_and_places_are_all_different():
    drawn = _runs(7, run=3, draws=50, seed=0)
    assert drawn.shape == (50, 7) and drawn.min() == 0 and drawn.max() == 6
    for start in (0, 3):
        assert (np.diff(drawn[:, start : start + 3], axis=1) % 7 == 1).all()
    assert len({tuple(one) for one in _places(5)}) == 10 and tuple(_places(5)[0]) == (0, 1, 2, 3, 4)


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
