"""What scores over a vocabulary say: how probable some pieces are, their rank, and how sure the model is.

Pure functions of scores (places, vocabulary) before any softmax, or of their logarithms after it.
"""

import math

import torch
from torch import Tensor


def masses(logs: Tensor, places: Tensor, ids: Tensor, sets: Tensor, count: int) -> Tensor:
    """The probability on each of several sets of pieces at every place, (places, count).

    Args:
        logs: (places, vocabulary), logarithms of probabilities.
        places: (k,), the place of each member of a set.
        ids: (k,), its piece.
        sets: (k,), the number of its set.
        count: how many sets a place has.

    >>> masses(torch.tensor([[0.5, 0.3, 0.2]]).log(), *torch.tensor([[0, 0, 0], [0, 2, 1], [0, 0, 1]]), 2)
    tensor([[0.7000, 0.3000]])
    """
    sums = torch.zeros(len(logs) * count, dtype=logs.dtype, device=logs.device)
    return sums.index_add_(0, places * count + sets, logs[places, ids].exp()).reshape(len(logs), count)


def ranks(scores: Tensor, ids: Tensor) -> Tensor:
    """How many pieces have a higher score than the given one, plus 1: (places, vocabulary), (places,) -> (places,)."""
    own = scores.gather(1, ids[:, None])
    return (scores > own).sum(dim=1) + 1


def entropy_bits(logs: Tensor) -> Tensor:
    """The entropy of each place's distribution in bits: (places, vocabulary) -> (places,).

    >>> entropy_bits(torch.tensor([[0.5, 0.25, 0.25]]).log())
    tensor([1.5000])
    """
    return -torch.special.xlogy(logs.exp(), logs.exp()).sum(dim=1) / math.log(2)


def group_shares(logs: Tensor, groups: Tensor, count: int) -> Tensor:
    """The probability on each group of pieces, such as scripts: groups (vocabulary,) -> (places, count).

    >>> group_shares(torch.tensor([[0.5, 0.3, 0.2]]).log(), torch.tensor([1, 0, 1]), 2)
    tensor([[0.3000, 0.7000]])
    """
    sums = torch.zeros(len(logs), count, dtype=logs.dtype, device=logs.device)
    return sums.index_add_(1, groups, logs.exp())
