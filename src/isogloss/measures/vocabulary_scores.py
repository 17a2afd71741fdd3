"""What a distribution over a vocabulary says: how probable some pieces are, the rank of one, and how sure the model is.

Pure functions of probabilities, or of the scores before the softmax, (places, vocabulary).
"""

import math

import torch
from torch import Tensor


def masses(probabilities: Tensor, places: Tensor, ids: Tensor, sets: Tensor, count: int) -> Tensor:
    """The probability on each of several sets of pieces at every place, (places, count).

    Args:
        probabilities: (places, vocabulary).
        places: (k,), the place of each member of a set.
        ids: (k,), its piece.
        sets: (k,), the number of its set.
        count: how many sets a place has.

    >>> masses(torch.tensor([[0.5, 0.3, 0.2]]), *torch.tensor([[0, 0, 0], [0, 2, 1], [0, 0, 1]]), 2)
    tensor([[0.7000, 0.3000]])
    """
    sums = torch.zeros(len(probabilities) * count, dtype=probabilities.dtype, device=probabilities.device)
    sums.index_add_(0, places * count + sets, probabilities[places, ids])
    return sums.reshape(len(probabilities), count)


def ranks(scores: Tensor, ids: Tensor) -> Tensor:
    """How many pieces score as high as the given one or higher, itself among them: (places, vocabulary) -> (places,).

    Ties count against it, so that a head that says the same of every piece knows none.
    """
    own = scores.gather(1, ids[:, None])
    return (scores >= own).sum(dim=1)


def entropy_bits(probabilities: Tensor) -> Tensor:
    """The entropy of each place's distribution in bits: (places, vocabulary) -> (places,).

    >>> entropy_bits(torch.tensor([[0.5, 0.25, 0.25]]))
    tensor([1.5000])
    """
    return torch.special.entr(probabilities).sum(dim=1) / math.log(2)


def group_shares(probabilities: Tensor, members: Tensor) -> Tensor:
    """The probability on each group of pieces, such as scripts, (places, groups).

    members: (vocabulary, groups), 1 where a piece belongs to a group. Scattered sums are far slower on a CPU.

    >>> group_shares(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
    tensor([[0.3000, 0.7000]])
    """
    return probabilities @ members
