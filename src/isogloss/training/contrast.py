"""Contrastive losses between sentences and their translations, and what momentum contrast keeps between steps.

A sentence should be nearer to its translation than to any other sentence. Momentum contrast (MoCo, He et al. 2020)
takes the others from a queue of translations of earlier steps, so that there can be many more of them than a batch
holds. They were encoded by a second encoder, whose weights follow the first one's slowly and which no gradient
reaches: so the old ones still compare with the new. Tensors in, tensors out; vectors have length 1 throughout.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

TINY = 1e-24  # under the root of a distance, whose gradient at 0 is then 0 and not undefined


def queue_loss(
    queries: Tensor, keys: Tensor, queue: Tensor, *, temperature: float, same: Tensor | None = None
) -> Tensor:
    """InfoNCE with negatives from a queue, in nats, summed over the rows.

    queries, keys: (rows, d), row i of one translates row i of the other; queue: (size, d). For each row

        -log( exp(q.k / T) / (exp(q.k / T) + sum_j exp(q.queue_j / T)) )

    same: (rows, size) bool, which of the queue are left out of a row's sum, being the sentence itself again.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(queue_loss(one, one, torch.tensor([[0.0, 1.0]]), temperature=1.0)), 4)  # log(1 + exp(-1))
    0.3133
    """
    own = (queries * keys).sum(dim=1, keepdim=True)  # (rows, 1)
    others = queries @ queue.T if same is None else (queries @ queue.T).masked_fill(same, -torch.inf)
    scores = torch.cat([own, others], dim=1) / temperature  # (rows, 1 + size)
    right = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
    return cross_entropy(scores, right, reduction="sum")


def batch_loss(x: Tensor, y: Tensor, *, temperature: float, names: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """InfoNCE with the other pairs of the batch as negatives, in nats, summed over the rows.

    x, y: (rows, d). The mean of both directions: x_i among all y, and y_i among all x (Wu & Dredze 2020). names: of the
    sentences of x and of y, (rows,) each; one that is row i's own sentence again is no negative of it.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(batch_loss(x, x, temperature=1.0)), 4)  # two rows of log(1 + exp(-1))
    0.6265
    """
    scores = x @ y.T / temperature  # (rows, rows)
    right = torch.arange(len(x), device=x.device)
    total = scores.new_zeros(())
    for side, table in ((1, scores), (0, scores.T)):
        if names is not None:
            same = repeats(names[side], names).fill_diagonal_(False)
            table = table.masked_fill(same, -torch.inf)
        total = total + cross_entropy(table, right, reduction="sum")
    return total / 2


def repeats(candidates: Tensor, names: tuple[Tensor, Tensor]) -> Tensor:
    """Which candidates are either sentence of a pair again: (size,), two of (rows,) -> (rows, size) bool.

    Sentences are told by a number each, equal where their tokens are.

    >>> repeats(torch.tensor([5, 7, 6]), (torch.tensor([5]), torch.tensor([6]))).tolist()
    [[True, False, True]]
    """
    first, second = names
    return (candidates == first[:, None]) | (candidates == second[:, None])


@torch.no_grad()
def enqueue(queue: Tensor, pointer: Tensor, keys: Tensor, *, names: tuple[Tensor, Tensor] | None = None) -> None:
    """Put keys into the queue where the oldest are: first in, first out, going on at the beginning after the end.

    queue: (size, d), pointer: () int64, the place of the oldest, both changed in place; keys: (rows, d), rows at most
    size. names: those of the queue, (size,), changed likewise, and of the keys, (rows,). Nothing waits for the device.

    >>> queue, pointer = torch.zeros(3, 1), torch.tensor(2)
    >>> enqueue(queue, pointer, torch.tensor([[1.0], [2.0]]))
    >>> queue.flatten().tolist(), int(pointer)
    ([2.0, 0.0, 1.0], 1)
    """
    places = (pointer + torch.arange(len(keys), device=queue.device)) % len(queue)
    queue.index_copy_(0, places, keys.to(queue.dtype))
    if names is not None:
        names[0].index_copy_(0, places, names[1])
    pointer.copy_((pointer + len(keys)) % len(queue))


@torch.no_grad()
def follow(slow: Sequence[Tensor], fast: Sequence[Tensor], *, momentum: float) -> None:
    """Move slow weights towards fast ones, in place: slow <- momentum * slow + (1 - momentum) * fast.

    >>> slow = [torch.tensor([1.0])]
    >>> follow(slow, [torch.tensor([2.0])], momentum=0.75)
    >>> slow[0].item()
    1.25
    """
    torch._foreach_lerp_(list(slow), list(fast), 1 - momentum)


def distance(weights: Iterable[Tensor], origins: Iterable[Tensor]) -> Tensor:
    """How far weights are from where they began, all of them one vector: sqrt(sum (w - w0)^2).

    Its gradient has length 1 and points away from the beginning; at the beginning it is 0. As a penalty it is the L2
    pull of Wu & Dredze (2020), who take it with the coefficient 1 and not squared.

    >>> round(float(distance([torch.tensor([3.0])], [torch.tensor([0.0])])), 4)
    3.0
    """
    squares = [(one - other).square().sum() for one, other in zip(weights, origins, strict=True)]
    return (torch.stack(squares).sum() + TINY).sqrt()
