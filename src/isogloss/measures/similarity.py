"""Centred kernel alignment (CKA): how alike two sets of vectors arrange the same items.

CKA(x, y) = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)), where K and L hold the similarities of all pairs of items within
each space (Kornblith et al. 2019). Rotating, scaling or shifting a space leaves it unchanged; the widths may differ.

The footgun: with the printed (biased) HSIC two *independent* sets score about d / (n + d), 0.79 at n = 200, d = 768.
The default here is therefore the debiased U-statistic, which is about 0 there; it can be slightly negative.
"""

from functools import reduce
from operator import add

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.blocks import block_hsic, centre_gram, cka_from_blocks, even_blocks
from isogloss.measures.inputs import double, enough_for_cka, mean_row, paired
from isogloss.measures.registry import Measure, measure, register
from isogloss.measures.streaming import (
    aligned_chunks,
    cka_from_sums,
    hsic_from_sums,
    pair_sums,
    ratio,
    self_hsic_from_sums,
    sums_of,
)

KORNBLITH = "Kornblith et al. 2019, Similarity of Neural Network Representations Revisited"
INVARIANT = ("rotation", "scale", "shift", "permutation of items", "symmetric")


@measure("cka", higher_is_better=True, range=(-1.0, 1.0), invariances=INVARIANT, paper=KORNBLITH)
def cka(x: Tensor, y: Tensor, *, biased: bool = False) -> float:
    """Linear CKA of x (n, dx) and y (n, dy), rows corresponding, in float64.

    Debiased by default; `biased=True` is the printed formula with centring, |Yc'Xc|^2 / (|Xc'Xc| |Yc'Yc|). Items
    n >= 4 (biased: 2). Works with d x d sums when n > d and with the n x n Gram matrices otherwise. NaN where a side
    does not vary.

    >>> x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 3.0], [4.0, 0.0]])
    >>> round(cka(x, 3 * x + 1), 6)
    1.0
    """
    x, y = _checked(x, y, biased=biased)
    if _tall(x, y):
        return cka_from_sums(*sums_of(x, y), biased=biased)
    gram_x, gram_y = (_linear_gram(side, biased=biased) for side in (x, y))
    return float(ratio((gram_x * gram_y).sum(), gram_x.square().sum(), gram_y.square().sum()))


register(
    Measure(
        "cka_biased",
        lambda x, y: cka(x, y, biased=True),
        higher_is_better=True,
        range=(0.0, 1.0),
        invariances=frozenset(INVARIANT),
        paper=KORNBLITH,
    )
)


@measure(
    "cka_uncentred",
    higher_is_better=True,
    range=(0.0, 1.0),
    invariances=("rotation", "scale", "permutation of items", "symmetric"),
    paper="Conneau, Wu et al. 2020, Emerging Cross-lingual Structure in Pretrained Language Models",
)
def cka_uncentred(x: Tensor, y: Tensor) -> float:
    """The formula as Conneau, Wu et al. (2020) print it, |Y'X|^2 / (|X'X| |Y'Y|), on vectors as they are: no centring.

    x (n, dx), y (n, dy), in float64. Two independent clouds off the origin score near 1, so it says little of vectors
    that share a direction; it is here to stand beside printed numbers. NaN where a side is zero throughout.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> cka_uncentred(x, x), round(cka_uncentred(x, torch.ones(2, 2)), 6)
    (1.0, 0.707107)
    """
    x, y = (double(side) for side in paired(x, y))
    if _tall(x, y):
        return float(ratio(*((a.T @ b).square().sum() for a, b in ((x, y), (x, x), (y, y)))))
    gram_x, gram_y = x @ x.T, y @ y.T
    return float(ratio((gram_x * gram_y).sum(), gram_x.square().sum(), gram_y.square().sum()))


@measure("cka_rbf", higher_is_better=True, range=(-1.0, 1.0), invariances=INVARIANT, paper=KORNBLITH)
def cka_rbf(x: Tensor, y: Tensor, *, bandwidth: float = 1.0, biased: bool = True) -> float:
    """CKA with Gaussian kernels exp(-|x_i - x_j|^2 / (2 sigma^2)), sigma^2 = bandwidth^2 * median of |x_i - x_j|^2.

    The median runs over all n^2 pairs, an item with itself included, as in Kornblith's published code. Tends to
    linear CKA for a large bandwidth. Builds n x n matrices. Its floor for independent data is higher still than that
    of linear CKA (0.86 at n = 200, d = 768): `biased=False` is the U-statistic.
    """
    x, y = _checked(x, y, biased=biased)
    gram_x, gram_y = (centre_gram(_gaussian(side, bandwidth), biased=biased) for side in (x, y))
    return float(ratio((gram_x * gram_y).sum(), gram_x.square().sum(), gram_y.square().sum()))


@measure(
    "cka_minibatch",
    higher_is_better=True,
    range=(-1.0, 1.0),
    # Which items share a batch depends on their order, so permuting the items moves the value.
    invariances=("rotation", "scale", "shift", "symmetric"),
    paper="Nguyen et al. 2021, Do Wide and Deep Networks Learn the Same Things?",
)
def cka_minibatch(x: Tensor, y: Tensor, *, batch: int = 256) -> float:
    """Debiased linear CKA of x (n, dx) and y (n, dy) from batches of at most `batch` items.

    The three HSIC_1 values are averaged over the batches, then the ratio is formed. The batches are even and visit
    each item once.
    """
    x, y = _checked(x, y, biased=False)
    values = [block_hsic(double(x[rows]), double(y[rows])) for rows in even_blocks(x.shape[0], batch)]
    return cka_from_blocks(torch.tensor(values, dtype=torch.float64))


def cka_shuffled(x: Tensor, y: Tensor, *, seed: int = 0, shuffles: int = 8, biased: bool = False) -> Tensor:
    """Linear CKA of x (n, dx) with the rows of y (n, dy) shuffled, `shuffles` times -> (shuffles,).

    The spread is what chance alone produces at this n and d. HSIC of each side with itself is computed once.
    """
    if shuffles < 1:
        raise InputError(f"shuffles must be at least 1, not {shuffles}")
    x, y = _checked(x, y, biased=biased)
    n = x.shape[0]
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(n, generator=generator).to(y.device) for _ in range(shuffles)]
    if _tall(x, y):
        side_x, side_y, _ = sums_of(x, y)
        xx, yy = (self_hsic_from_sums(side, biased=biased) for side in (side_x, side_y))
        pairs = (reduce(add, (pair_sums(*chunk) for chunk in aligned_chunks(x, y, order=order))) for order in orders)
        return torch.stack([ratio(hsic_from_sums(side_x, side_y, pair, biased=biased), xx, yy) for pair in pairs])
    gram_x, gram_y = (_linear_gram(side, biased=biased) for side in (x, y))
    xx, yy = gram_x.square().sum(), gram_y.square().sum()
    return torch.stack([ratio((gram_x * gram_y[order][:, order]).sum(), xx, yy) for order in orders])


def cka_floor(x: Tensor, y: Tensor, *, seed: int = 0, shuffles: int = 8, biased: bool = False) -> float:
    """What linear CKA gives when the pairs are shuffled: the mean over `shuffles` seeded shuffles.

    About 0 debiased (over all shuffles exactly 0); biased it is the floor to read every value against.
    """
    return float(cka_shuffled(x, y, seed=seed, shuffles=shuffles, biased=biased).mean())


def _checked(x: Tensor, y: Tensor, *, biased: bool) -> tuple[Tensor, Tensor]:
    x, y = paired(x, y)
    enough_for_cka(x.shape[0], biased=biased)
    return x, y


def _tall(x: Tensor, y: Tensor) -> bool:
    """Whether sums of d x d (n d^2 operations) are cheaper than Gram matrices of n x n (n^2 d)."""
    return x.shape[0] > max(x.shape[1], y.shape[1])


def _linear_gram(x: Tensor, *, biased: bool) -> Tensor:
    x = double(x)
    x = x - mean_row(x)
    return centre_gram(x @ x.T, biased=biased)


def _gaussian(x: Tensor, bandwidth: float) -> Tensor:
    x = double(x)
    x = x - mean_row(x)
    squares = x.square().sum(dim=1)
    distances = (squares[:, None] + squares[None, :] - 2 * x @ x.T).clamp(min=0)
    return torch.exp(-distances / (2 * bandwidth**2 * _median(distances)))


def _median(values: Tensor) -> Tensor:
    """The median, with the two middle values averaged (torch takes the lower one)."""
    flat = values.flatten()
    low, high = (flat.numel() - 1) // 2, flat.numel() // 2
    middle = flat.kthvalue(low + 1).values
    return middle if low == high else (middle + flat.kthvalue(high + 1).values) / 2
