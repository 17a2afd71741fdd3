"""CKA of many sides at once: languages, layers and models on the same items, each kernel matrix made once.

A side is a set of vectors of the same n items: a language at a layer, the same before training. Of s sides some pairs
are asked for. Everything is done for all sides in a few large products, which is what a GPU needs: `cka` called pair by
pair makes every matrix again, and starts a hundred small operations each time.
"""

import math
from collections.abc import Sequence

import torch
from scipy import stats
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.blocks import centre_gram, cka_from_blocks, jackknife
from isogloss.measures.inputs import double
from isogloss.measures.stream import Estimate
from isogloss.measures.streaming import ratio

BLOCKS, BLOCK = 20, 128  # of the jackknife: about so many, of at most so many items
Pairs = Sequence[tuple[int, int]]


def cka_of_pairs(sides: Tensor, pairs: Pairs, *, seed: int = 0, shuffles: int = 4) -> list[Estimate]:
    """Debiased linear CKA of some pairs of sides (s, n, d), with intervals and floors as `CkaStream` gives them.

    The value is that of `cka` on all n items. The interval is a delete-one-block jackknife over some 20 blocks of
    consecutive items, so items should come in a random order; the floor is the mean over shuffles inside the blocks.

    >>> x = torch.arange(48.0).reshape(1, 24, 2).sin()
    >>> round(cka_of_pairs(torch.cat([x, 3 * x + 1]), [(0, 1)])[0].value, 6)
    1.0
    """
    first, second = _checked(sides, pairs, least=4)
    n = sides.shape[1]
    size = max(4, min(BLOCK, n // BLOCKS))
    count = n // size
    apart = sides[:, : count * size].reshape(len(sides), count, size, -1)  # (s, blocks, size, d)
    blocks = _linear(apart)  # (s, blocks, size, size)
    terms = _terms(blocks, first, second) / (size * (size - 3))  # (pairs, blocks, 3)
    floors = _shuffled(blocks, first, second, seed=seed, shuffles=shuffles) / (size * (size - 3))  # (pairs, blocks)
    del blocks
    values = _ratios(_terms(_linear(sides), first, second)).tolist()
    found = []
    for value, mine, shuffled in zip(values, terms.cpu(), floors.cpu(), strict=True):
        _, low, high = jackknife(mine, value=value)
        floor = cka_from_blocks(torch.stack([shuffled, mine[:, 1], mine[:, 2]], dim=1))
        found.append(Estimate(value, low, high, floor, n))
    return found


def cka_rbf_of_pairs(
    sides: Tensor, pairs: Pairs, *, batches: int = 4, size: int | None = None, shifted: bool = False
) -> list[Estimate]:
    """CKA with Gaussian kernels as Muller et al. (2021) take it: the mean over some batches, of the biased form.

    K_ij = exp(-|x_i - x_j|^2 / (2 m)), where m is the median of the squared distances that are not zero, for every side
    and batch its own. sides (s, n, d). size: items of a batch, n / batches where it is None. The batches are apart, one
    after the other; `shifted=True` takes items i to i + size for i = 0, 1, 2 ..., as the released code does: they are
    almost the same items, and their spread says nothing. n of the answer is the size of a batch.

    The interval is Student's t over batches, none where they overlap. The floor is the exact mean over all shuffles of
    the pairs, tr(Kc) tr(Lc) / ((n - 1) |Kc| |Lc|): 0.98 for independent vectors at n = 25, d = 768.
    """
    first, second = _checked(sides, pairs, least=2)
    n = sides.shape[1]
    taken = n // batches if size is None else size
    begins = [number * (1 if shifted else taken) for number in range(batches)]
    if taken < 2 or begins[-1] + taken > n:
        raise InputError(f"{batches} batches of {taken} items do not fit into {n}; give more items or smaller batches")
    chosen = torch.stack([sides[:, begin : begin + taken] for begin in begins], dim=1)  # (s, batches, size, d)
    grams = _gaussian(chosen)
    values = _ratios(_terms(grams, first, second))  # (pairs, batches)
    traces = grams.diagonal(dim1=-2, dim2=-1).sum(-1)  # (s, batches)
    lengths = grams.square().sum((-2, -1))
    floors = ratio(traces[first] * traces[second] / (taken - 1), lengths[first], lengths[second]).mean(1)
    reach = [math.nan] * len(first)
    if batches > 1 and len(first) and not shifted:
        quantile = float(stats.t.ppf(0.975, batches - 1))
        reach = (quantile * values.std(dim=1) / math.sqrt(batches)).tolist()
    return [
        Estimate(value, max(0.0, value - far), min(1.0, value + far), floor, taken)
        if not math.isnan(far)
        else Estimate(value, math.nan, math.nan, floor, taken)
        for value, far, floor in zip(values.mean(1).tolist(), reach, floors.tolist(), strict=True)
    ]


def _checked(sides: Tensor, pairs: Pairs, *, least: int) -> tuple[Tensor, Tensor]:
    """Numbers of the first and the second side of each pair."""
    if sides.ndim != 3 or sides.shape[1] < least:
        raise InputError(
            f"sides must have shape (sides, items, width) with at least {least} items, not {tuple(sides.shape)}"
        )
    if not bool(torch.isfinite(sides).all()):
        raise InputError("a side holds a value that is not finite")
    numbers = torch.tensor([list(pair) for pair in pairs], dtype=torch.long).reshape(-1, 2)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(sides):
        raise InputError(f"there are {len(sides)} sides; a pair asks for another")
    where = torch.device("cpu") if sides.device.type == "mps" else sides.device
    return numbers[:, 0].to(where), numbers[:, 1].to(where)


def _centred(x: Tensor) -> Tensor:
    """Vectors (..., n, d) without their mean, which is exact where all are equal."""
    first = x[..., :1, :]
    return x - (first + (x - first).mean(dim=-2, keepdim=True))


def _linear(x: Tensor) -> Tensor:
    """U-centred Gram matrices (..., n, n) of vectors (..., n, d), in float64."""
    x = _centred(x.detach())
    return centre_gram(double(x @ x.mT))


def _gaussian(x: Tensor) -> Tensor:
    """Centred kernel matrices (..., n, n) of vectors (..., n, d), each with its own bandwidth, in float64."""
    x = double(_centred(x.detach()))
    squares = x.square().sum(-1)
    distances = (squares[..., :, None] + squares[..., None, :] - 2 * x @ x.mT).clamp(min=0)
    distances.diagonal(dim1=-2, dim2=-1).zero_()  # rounding must not make an item differ from itself
    widths = _median_above_zero(distances.flatten(-2))
    return centre_gram(torch.exp(-distances / (2 * widths[..., None, None])), biased=True)


def _median_above_zero(values: Tensor) -> Tensor:
    """The median of the values (..., m) that are not zero, the two middle ones averaged -> (...); NaN where all are."""
    ordered = values.sort(dim=-1).values
    zeros = (ordered == 0).sum(-1)
    left = values.shape[-1] - zeros
    last = values.shape[-1] - 1
    low, high = ((zeros + place).clamp(max=last) for place in ((left - 1) // 2, left // 2))
    middle = [ordered.gather(-1, one[..., None]).squeeze(-1) for one in (low, high)]
    return torch.where(left > 0, (middle[0] + middle[1]) / 2, torch.nan)


def _terms(grams: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Inner products of matrices (s, ..., n, n), of a pair and of each with itself: (pairs, ..., 3), xy, xx, yy."""
    own = grams.square().sum((-2, -1))  # (s, ...)
    both = [(grams[one] * grams[two]).sum((-2, -1)) for one, two in zip(first.tolist(), second.tolist(), strict=True)]
    crossed = torch.stack(both) if both else own[:0]
    return torch.stack([crossed, own[first], own[second]], dim=-1)


def _ratios(terms: Tensor) -> Tensor:
    return ratio(*terms.unbind(-1))


def _shuffled(grams: Tensor, first: Tensor, second: Tensor, *, seed: int, shuffles: int) -> Tensor:
    """Inner products after shuffling the items of the second side, their mean over shuffles: (pairs, blocks)."""
    generator = torch.Generator().manual_seed(seed)
    total = grams.new_zeros((len(first), grams.shape[1]))
    for _ in range(shuffles):
        order = torch.randperm(grams.shape[-1], generator=generator).to(grams.device)
        moved = grams[..., order, :][..., order]
        for place, (one, two) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            total[place] += (grams[one] * moved[two]).sum((-2, -1))
    return total / max(1, shuffles)
