"""On which side of a claim an interval lies, and what becomes of several of them."""

import itertools
import math

import pytest

from isogloss.papers.evidence import Contrast, Finding, Interval, Side, above, all_of, below, over_seeds, within

NONE = Interval(1.0, math.nan, math.nan, 2)


def interval(low, high):
    return Interval((low + high) / 2, low, high, 3)


@pytest.mark.parametrize(
    ("low", "high", "over", "under", "inside"),
    [
        (1.0, 3.0, Side.HELD, Side.REFUTED, Side.OPEN),
        (-3.0, -1.0, Side.REFUTED, Side.HELD, Side.OPEN),
        (-1.0, 3.0, Side.OPEN, Side.OPEN, Side.OPEN),
        (-1.0, 1.0, Side.OPEN, Side.OPEN, Side.HELD),
        (2.5, 3.0, Side.HELD, Side.REFUTED, Side.REFUTED),
        (-3.0, -2.5, Side.REFUTED, Side.HELD, Side.REFUTED),
    ],
)
def test_an_interval_lies_on_one_side_or_on_both(low, high, over, under, inside):
    found = interval(low, high)
    assert (above(found), below(found), within(found, 2.0)) == (over, under, inside)
    moved = interval(low + 5, high + 5)
    assert (above(moved, 5.0), below(moved, 5.0)) == (over, under)


def test_without_an_interval_nothing_is_judged():
    assert over_seeds([1.0, 3.0]).known is False
    assert above(NONE) is below(NONE) is within(NONE, 1.0) is None


def test_the_worst_of_several_judges():
    ranks = [Side.REFUTED, None, Side.OPEN, Side.HELD]
    for several in itertools.product(ranks, repeat=3):
        assert all_of(several) == ranks[min(map(ranks.index, several))]
    assert all_of([]) is None
    assert all_of([True, False]) is Side.REFUTED and all_of([True, True]) is Side.HELD


def test_a_finding_whose_interval_reaches_over_is_not_held_and_says_that_it_is_open():
    held, against, over = (Contrast("w", above(interval(*ends))) for ends in ((1, 2), (-2, -1), (-1, 2)))
    assert Finding("n", "c", [held, over]).verdict == "not held, open" and Finding("n", "c", [held, over]).held is False
    assert Finding("n", "c", [against, over]).verdict == "not held"
    assert Finding("n", "c", [held, held]).verdict == "held"
    assert Finding("n", "c", [over, Contrast("w", above(NONE))]).verdict == "not judged"
