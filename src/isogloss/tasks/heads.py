"""Heads that say one label of a place: what NLI and tagging share."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isogloss.tasks.task import IGNORE, Tensors

DROPOUT = 0.1  # of heads, as in BERT's own
SPREAD = 0.02  # standard deviation of fresh weights, as BERT draws them


class LabelHead(nn.Module):
    """Scores of labels at every place: dropout and a linear layer, with `pooled` a dense layer and tanh before it.

    states (rows, k, width) -> one tensor, (rows, k, labels).
    """

    def __init__(self, width: int, labels: int, *, pooled: bool = False) -> None:
        super().__init__()
        self.dropout = nn.Dropout(DROPOUT)
        self.dense = nn.Linear(width, width) if pooled else None
        self.out = nn.Linear(width, labels)
        for one in (self.dense, self.out):
            if one is not None:
                nn.init.normal_(one.weight, std=SPREAD)
                nn.init.zeros_(one.bias)

    def forward(self, states: Tensor, present: Tensor) -> Tensors:
        """Scores of each label before any softmax."""
        states = self.dropout(states)
        if self.dense is not None:
            states = self.dropout(torch.tanh(self.dense(states)))
        return (self.out(states),)


def label_loss(scores: Tensors, gold: Tensor, present: Tensor) -> Tensor:
    """Cross entropy of the gold labels (first column of gold), in nats, summed."""
    return cross_entropy(scores[0].flatten(0, 1), gold[..., 0].flatten(), ignore_index=IGNORE, reduction="sum")


def label_guess(scores: Tensors, present: Tensor) -> Tensors:
    """The number of the best label at each place, (rows, k)."""
    return (scores[0].argmax(-1),)
