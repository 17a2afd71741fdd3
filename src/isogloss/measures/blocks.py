"""CKA over small blocks of items: its interval, its floor under shuffling, and the minibatch estimate.

A block of b items costs one b x b Gram matrix per side. Once these are U-centred (diagonal and row sums zero), HSIC_1
of any two sides is the inner product of their matrices over b (b - 3); with many languages each matrix is made once and
all pairs are a single product. Shuffling the pairs permutes rows and columns of one of them.

Why blocks and not a bootstrap: drawing items with replacement repeats some, and a repeated item is perfectly similar to
itself in both spaces. Debiased CKA reads that as signal (independent data, n = 200, d = 768: 0.78 instead of 0).
"""

import math

import torch
from scipy import stats
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import double, matrix, mean_row, paired
from isogloss.measures.streaming import ratio


def centre_gram(k: Tensor, *, biased: bool = False) -> Tensor:
    """Centre kernel matrices `k` (..., n, n) of float64.

    Biased: subtract row and column means (H K H). Otherwise U-centring (Szekely & Rizzo 2014): the diagonal is
    removed and rows then sum to zero, so that inner products over n (n - 3) are unbiased HSIC values.
    """
    n = k.shape[-1]
    if biased:
        means = k.mean(dim=-1)
        means = means - means.mean(dim=-1, keepdim=True) / 2
        return k - means[..., :, None] - means[..., None, :]
    k = k.clone()
    k.diagonal(dim1=-2, dim2=-1).zero_()
    means = k.sum(dim=-1) / (n - 2)
    means = means - means.sum(dim=-1, keepdim=True) / (2 * (n - 1))
    k = k - means[..., :, None] - means[..., None, :]
    k.diagonal(dim1=-2, dim2=-1).zero_()
    return k


def block_gram(x: Tensor) -> Tensor:
    """The U-centred linear Gram matrix of a block: (b, d) -> (b, b) in float64. Needs b >= 4."""
    x = matrix(x, at_least=4)
    x = x - mean_row(x)
    return centre_gram(double(x @ x.T))


def gram_hsic(grams_x: Tensor, grams_y: Tensor) -> Tensor:
    """HSIC_1 of every x with every y: (l, b, b) and (m, b, b) U-centred Gram matrices -> (l, m)."""
    b = grams_x.shape[-1]
    return grams_x.flatten(-2) @ grams_y.flatten(-2).mT / (b * (b - 3))


def block_hsic(x: Tensor, y: Tensor) -> tuple[float, float, float]:
    """HSIC_1 of (x, y), (x, x) and (y, y) for one block: x (b, dx), y (b, dy) with corresponding rows."""
    x, y = paired(x, y, at_least=4)
    grams = torch.stack([block_gram(x), block_gram(y)])
    values = gram_hsic(grams, grams)
    return float(values[0, 1]), float(values[0, 0]), float(values[1, 1])


def shuffled_hsic(grams_x: Tensor, grams_y: Tensor, *, generator: torch.Generator, shuffles: int = 4) -> Tensor:
    """HSIC_1 of every x with every y after shuffling the pairs of a block: the floor.

    (l, b, b) and (m, b, b) U-centred Gram matrices -> (shuffles, l, m). A shuffle permutes rows and columns of the
    matrices, b * b each, and never makes them again. Draw from a generator on the CPU, so that one seed gives the same
    shuffles on every device.
    """
    b = grams_x.shape[-1]
    values = []
    for _ in range(shuffles):
        order = torch.randperm(b, generator=generator).to(grams_y.device)
        values.append(gram_hsic(grams_x, grams_y.index_select(1, order).index_select(2, order)))
    return torch.stack(values)


def cka_from_blocks(values: Tensor) -> float:
    """Minibatch CKA: the HSIC terms (blocks, 3), in the order xy, xx, yy, are averaged first and divided last.

    Nguyen et al. (2021). Averaging the blocks' ratios instead would let a small denominator speak loudest.
    """
    xy, xx, yy = double(values).mean(dim=0)
    return float(ratio(xy, xx, yy))


def jackknife(values: Tensor, *, value: float | None = None, confidence: float = 0.95) -> tuple[float, float, float]:
    """Minibatch CKA and its interval from the HSIC values of each block: (blocks, 3), order xy, xx, yy.

    Delete-one-block jackknife: the ratio is formed again without each block in turn, giving r_i; the variance is
    (B - 1) / B * sum (r_i - mean r)^2, and the interval is value -+ t times its root with B - 1 degrees of freedom.
    Returns (value, low, high); low and high are NaN with fewer than 3 blocks. Give `value` to place the interval
    around an estimate from all items at once (`cka_from_sums`), which is the sharper one.
    """
    if values.ndim != 2 or values.shape[1] != 3 or values.shape[0] == 0:
        raise InputError(f"jackknife takes HSIC values of shape (blocks, 3), not {tuple(values.shape)}")
    centre = cka_from_blocks(values) if value is None else value
    return centre, *jackknife_interval(centre, leave_one_out(values), confidence=confidence)


def leave_one_out(values: Tensor) -> Tensor:
    """Minibatch CKA without each block in turn: HSIC values (blocks, 3) -> (blocks,)."""
    values = double(values)
    without = (values.sum(dim=0) - values) / max(1, values.shape[0] - 1)  # (blocks, 3)
    return ratio(*without.T)


def jackknife_interval(value: float, without: Tensor, *, confidence: float = 0.95) -> tuple[float, float]:
    """The interval around `value` of any statistic, from its values without each block in turn, (blocks,).

    The statistic may be a mean of several CKA values or a difference of two, which share their blocks: only so are
    layers compared on the same sentences. NaN with fewer than 3 blocks.
    """
    blocks = without.numel()
    if blocks < 3:
        return math.nan, math.nan
    deviation = math.sqrt((blocks - 1) / blocks * float((without - without.mean()).square().sum()))
    reach = float(stats.t.ppf((1 + confidence) / 2, blocks - 1)) * deviation
    return value - reach, value + reach


def block_size(n: int) -> tuple[int, int]:
    """Items of a block, and shuffles of each: at most 128 items, at least ten blocks where n allows.

    Few blocks need more shuffles for as steady a floor.
    """
    block = max(4, min(128, n // 10))
    return block, max(4, 400 // max(1, n // block))


def even_blocks(n: int, size: int, *, at_least: int = 4) -> list[slice]:
    """Consecutive slices of at most `size` items that visit each of `n` items once and differ by one item at most.

    Equal sizes matter: each block's HSIC is unbiased whatever its size, so a last block of five items would only add
    noise at full weight. Where `size` cannot be kept with `at_least` items in each, blocks are larger.

    >>> even_blocks(10, 4)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    count = max(1, min(-(-n // size), n // at_least))
    edges = [n * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]
