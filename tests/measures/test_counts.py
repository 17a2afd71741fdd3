"""Scores as counts: ratios of sums, and intervals by drawing examples again."""

import doctest

import numpy as np
import pytest

from isogloss.measures import counts
from isogloss.measures.counts import Score, bootstrap, f1, resampled, share


def test_examples_in_the_docstrings():
    assert doctest.testmod(counts).failed == 0


def test_a_score_is_the_ratio_of_sums_and_not_the_mean_of_ratios():
    score = Score(np.array([[1, 1], [0, 3]]))
    assert score.value == 0.25
    assert score.n == 4


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    right, guessed, there = 6, 8, 11
    precision, recall = right / guessed, right / there
    assert f1(np.array([right, guessed, there])) == pytest.approx(2 * precision * recall / (precision + recall))
    assert f1(np.array([0, 0, 0])) == 0
    assert np.isnan(share(np.array([0, 0])))


def test_resampling_equals_a_loop_over_drawn_examples():
    table = np.array([[1, 2, 3], [0, 1, 1], [2, 2, 2], [1, 1, 4]], dtype=float)
    drawn = np.random.default_rng(7).integers(0, 4, (50, 4))
    expected = [float(f1(sum(table[one] for one in row))) for row in drawn]
    assert resampled(Score(table, f1), 7, draws=50) == pytest.approx(expected)


def test_the_interval_of_a_share_has_the_width_that_theory_gives_and_many_examples_are_drawn_in_pieces(monkeypatch):
    table = np.stack([np.arange(4000) % 4 != 0, np.ones(4000)], axis=1)
    low, high = bootstrap(resampled(Score(table), 1))
    reach = 1.96 * np.sqrt(0.75 * 0.25 / 4000)
    assert (low, high) == pytest.approx((0.75 - reach, 0.75 + reach), abs=0.15 * reach)
    monkeypatch.setattr(counts, "AT_ONCE", 10_000)
    pieces = resampled(Score(table), 1, draws=11)
    monkeypatch.setattr(counts, "AT_ONCE", 2**23)
    assert (pieces == resampled(Score(table), 1, draws=11)).all()


def test_nothing_to_draw_from_has_no_interval():
    assert np.isnan(bootstrap(resampled(Score(np.zeros((0, 2))), 0))).all()
