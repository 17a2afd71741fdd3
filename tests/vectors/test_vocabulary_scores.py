"""Scores over a vocabulary against explicit loops."""

import math

import pytest
import torch

from isogloss.vectors.lens import entropy_bits, group_shares, masses, ranks

SCORES = torch.randn(5, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
CHANCES = SCORES.softmax(dim=1)


def probabilities(place):
    total = sum(math.exp(score) for score in SCORES[place].tolist())
    return [math.exp(score) / total for score in SCORES[place].tolist()]


def test_masses_are_sums_of_probabilities():
    members = [(0, 3, 0), (0, 4, 0), (0, 3, 1), (2, 10, 1), (4, 0, 0), (4, 1, 0), (4, 2, 0)]
    found = masses(CHANCES, *torch.tensor(members).T, 2)
    expected = [[0.0, 0.0] for _ in range(5)]
    for place, piece, number in members:
        expected[place][number] += probabilities(place)[piece]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_ranks_count_what_is_higher():
    ids = torch.tensor([0, 5, 10, 3, 7])
    expected = [1 + sum(other > row[piece] for other in row) for row, piece in zip(SCORES.tolist(), ids, strict=True)]
    assert ranks(SCORES, ids).tolist() == expected
    assert ranks(torch.zeros(1, 4), torch.tensor([2])).tolist() == [4], "a flat head knows no piece"


def test_entropy_is_that_of_the_definition_and_of_certainty_none():
    for place, found in enumerate(entropy_bits(CHANCES).tolist()):
        assert found == pytest.approx(-sum(p * math.log2(p) for p in probabilities(place)))
    sure = torch.tensor([[0.0, -1e9, -1e9]]).softmax(1)
    assert entropy_bits(sure).tolist() == [0.0]
    assert entropy_bits(torch.zeros(1, 8).softmax(1)).item() == pytest.approx(3)


def test_shares_of_groups_sum_to_one():
    groups = torch.tensor([0, 2, 2, 0, 1, 1, 0, 2, 2, 2, 0])
    found = group_shares(CHANCES, torch.nn.functional.one_hot(groups, 3).double())
    for place in range(5):
        for number in range(3):
            own = (p for p, piece in zip(probabilities(place), groups.tolist(), strict=True) if piece == number)
            assert found[place, number].item() == pytest.approx(sum(own))
    torch.testing.assert_close(found.sum(dim=1), torch.ones(5, dtype=torch.float64))
