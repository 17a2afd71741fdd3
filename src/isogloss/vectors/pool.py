"""From the states of tokens to vectors of sentences and words: pure, on flat tensors."""

import torch
from torch import Tensor


def mean_by_group(states: Tensor, groups: Tensor, count: int) -> Tensor:
    """Mean of the rows of each group, in float32.

    states: (tokens, d); groups: (tokens,) group of each row, -1 for rows that belong to none; returns (count, d). A
    group without rows is nan: a missing vector must not pass for a vector.

    >>> mean_by_group(torch.tensor([[1.], [3.], [9.]]), torch.tensor([0, 0, -1]), 1)
    tensor([[2.]])
    """
    # Rows of no group are summed, too, and left out: faster than to pick the others out of wide states.
    sums = torch.zeros((count + 1, states.shape[1]), dtype=torch.float32, device=states.device)
    sums.index_add_(0, groups + 1, states.float())
    sizes = torch.bincount(groups + 1, minlength=count + 1)
    return sums[1:] / sizes[1:].unsqueeze(1)


def first_of_group(states: Tensor, groups: Tensor, count: int) -> Tensor:
    """The first row of each group, in float32; shapes as in `mean_by_group`."""
    firsts = torch.full((count,), len(groups), dtype=torch.long, device=groups.device)
    inside = torch.nonzero(groups >= 0).squeeze(1)
    firsts.scatter_reduce_(0, groups[inside], inside, "amin")
    present = firsts < len(groups)
    result = torch.full((count, states.shape[1]), torch.nan, dtype=torch.float32, device=states.device)
    result[present] = states[firsts[present]].float()
    return result
