"""Centred kernel alignment (CKA): the similarity of two sets of vectors of the same items.

CKA(x, y) = HSIC(K, L) / sqrt(HSIC(K, K) HSIC(L, L)), where K and L hold the similarities of all pairs of items within
each space (Kornblith et al. 2019). Rotating, scaling or shifting a space leaves it unchanged; the widths may differ.

A pitfall: with the published (biased) HSIC two *independent* sets score about d / (n + d), 0.79 at n = 200, d = 768.
The default here is therefore the debiased U-statistic, which is about 0 there; it can be slightly negative.

Contents, from single pairs to streams:

1. measures of two whole matrices: `cka`, `cka_uncentred`, `cka_rbf`, `cka_minibatch`, and the floor of shuffled pairs;
2. kernel matrices and their centring; 3. exact linear CKA from sums of size d x d, so that a corpus of any length is
read once and never kept; 4. parts of the items, for intervals; 5. `CkaStream`: every pair of many languages over a
stream of vectors, in one pass; 6. `cka_forms`: the debiased and the two published forms of one pair, each with its
interval and floor; 7. `cka_of_pairs`, `cka_rbf_of_pairs`: many pairs of sides at once, in a few large products, as a
GPU needs them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.inputs import Sums, centre_rows, double, matrix, numbers_of, paired, shuffled_order
from isogloss.measures.registry import measure
from isogloss.measures.statistics import PARTS, Interval, jackknife_interval, t_quantile

_kornblith = partial(
    measure,
    higher_is_better=True,
    invariances=("rotation", "scale", "shift", "permutation of items", "symmetric"),
    paper="Kornblith et al. 2019, Similarity of Neural Network Representations Revisited",
)
FORMS = ("cka", "cka_biased", "cka_uncentred")  # of linear CKA: debiased, and as published, with and without centring
# Rows multiplied at a time: their float32 products are then summed in float64, and copies of them fit the cache.
ROWS_PER_PRODUCT = 1024
KEPT = 512  # first items of a stream, from which its interval is computed

Pair = tuple[str, str]
SidePairs = Sequence[tuple[int, int]]


# 1. Measures of two whole matrices


@_kornblith(
    "cka",
    "CKA",
    "How similarly the two languages arrange the same sentences in space: 1 is the same arrangement up to rotation "
    "and scale, 0 is the value of unrelated sentences.",
    axis=(0.0, 1.0),
    range=(-1.0, 1.0),
)
def cka(x: Tensor, y: Tensor, *, biased: bool = False) -> float:
    """Linear CKA of two sets of vectors whose rows correspond, in float64.

    Computed from d x d sums if n > d and from n x n Gram matrices otherwise. NaN if a side does not vary.

    Args:
        x: (n, dx) vectors of n >= 4 items (biased: 2).
        y: (n, dy) vectors of the same items; the widths may differ.
        biased: use the published formula with centring, |Yc'Xc|^2 / (|Xc'Xc| |Yc'Yc|), instead of the debiased one.

    >>> x = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 3.0], [4.0, 0.0]])
    >>> round(cka(x, 3 * x + 1), 6)
    1.0
    """
    return linear_cka(x, y, _form(biased))


@_kornblith(
    "cka_biased",
    "Biased CKA, centred",
    "CKA by the formula that most papers use. It is above 0 for unrelated sentences, too, and more so the fewer there "
    "are: compare it with the chance level.",
    range=(0.0, 1.0),
)
def cka_biased(x: Tensor, y: Tensor) -> float:
    """`cka` with `biased=True`: the published formula, with centring."""
    return cka(x, y, biased=True)


@measure(
    "cka_uncentred",
    title="Biased CKA, not centred",
    explanation="The biased formula without centring. If all vectors point in similar directions, it is near 1 "
    "whatever the sentences say: compare it with the chance level.",
    higher_is_better=True,
    range=(0.0, 1.0),
    invariances=("rotation", "scale", "permutation of items", "symmetric"),
    paper="Conneau, Wu et al. 2020, Emerging Cross-lingual Structure in Pretrained Language Models",
)
def cka_uncentred(x: Tensor, y: Tensor) -> float:
    """The formula of Conneau, Wu et al. (2020), |Y'X|^2 / (|X'X| |Y'Y|), without centring.

    x (n, dx), y (n, dy), in float64. Two independent sets away from the origin score near 1, so it says little about
    vectors that share a direction; it serves to compare with published numbers. NaN if all vectors of a side are zero.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> cka_uncentred(x, x), round(cka_uncentred(x, torch.ones(2, 2)), 6)
    (1.0, 0.707107)
    """
    return linear_cka(x, y, "cka_uncentred")


@_kornblith(
    "cka_rbf",
    "CKA with Gaussian kernels",
    "CKA in which near neighbours count more than distant ones. It is high for unrelated sentences, too: compare it "
    "with the chance level.",
    range=(-1.0, 1.0),
)
def cka_rbf(x: Tensor, y: Tensor, *, bandwidth: float = 1.0, biased: bool = True) -> float:
    """CKA with Gaussian kernels exp(-|x_i - x_j|^2 / (2 sigma^2)), sigma^2 = bandwidth^2 * median of |x_i - x_j|^2.

    The median is taken over all n^2 pairs, including items with themselves, as in Kornblith's published code. It tends
    to linear CKA for a large bandwidth, and builds n x n matrices. Its floor for independent data is even higher than
    that of linear CKA (0.86 at n = 200, d = 768): `biased=False` is the U-statistic.
    """
    form = _form(biased)
    sides = (centre_rows(double(side)) for side in _checked_pair(x, y, form))
    grams = torch.stack([gaussian_gram(side, form, bandwidth=bandwidth) for side in sides])
    return float(ratio(*_terms(inner_products(grams), 0, 1)))


@measure(
    "cka_minibatch",
    title="CKA from batches",
    explanation="CKA computed from small batches of sentences.",
    higher_is_better=True,
    range=(-1.0, 1.0),
    # The items of a batch depend on their order, so permuting the items changes the value.
    invariances=("rotation", "scale", "shift", "symmetric"),
    paper="Nguyen et al. 2021, Do Wide and Deep Networks Learn the Same Things?",
)
def cka_minibatch(x: Tensor, y: Tensor, *, batch: int = 256) -> float:
    """Debiased linear CKA of x (n, dx) and y (n, dy) from batches of at most `batch` items.

    The three HSIC_1 values are averaged over the batches, then the ratio is formed. The batches are even and visit
    each item once.
    """
    x, y = _checked_pair(x, y, "cka")
    return cka_from_blocks(torch.stack([block_hsic(x[rows], y[rows]) for rows in even_blocks(x.shape[0], batch)]))


def cka_floor(x: Tensor, y: Tensor, *, biased: bool = False) -> float:
    """The mean of linear CKA of x (n, dx) and y (n, dy) over all shuffles of the pairs: the value by chance.

    Exactly 0 if debiased; if biased, the floor against which to read every value.
    """
    x, y = _checked_pair(x, y, _form(biased))
    first, second = (reduce(add, map(side_sums, _chunks(side))) for side in (x, y))
    return floor_from_sums(first, second, _form(biased))


def _form(biased: bool) -> str:
    return "cka_biased" if biased else "cka"


def _checked_pair(x: Tensor, y: Tensor, form: str) -> tuple[Tensor, Tensor]:
    x, y = paired(x, y)
    _enough_items(x.shape[0], form)
    return x, y


def _enough_items(n: int, form: str) -> None:
    """Raise for fewer items than the estimate requires: the U-statistic divides by n - 3."""
    needed, kind = {"cka": (4, "debiased"), "cka_biased": (2, "biased"), "cka_uncentred": (1, "uncentred")}[form]
    require(n >= needed, f"{kind} CKA needs at least {needed} items, not {n}; give it more sentences")


def ratio(xy: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
    """CKA from three HSIC values; NaN if a side does not vary."""
    return xy / (xx.clamp(min=0) * yy.clamp(min=0)).sqrt()


def linear_cka(x: Tensor, y: Tensor, form: str) -> float:
    """Linear CKA in one of `FORMS` of x (n, dx) and y (n, dy), in float64."""
    x, y = _checked_pair(x, y, form)
    # Sums of d x d take n d^2 operations, Gram matrices of n x n take n^2 d.
    if x.shape[0] > max(x.shape[1], y.shape[1]):
        first, second = (reduce(add, map(side_sums, _chunks(side))) for side in (x, y))
        shared = hsic_from_sums(first, second, reduce(add, map(pair_sums, _chunks(x), _chunks(y))), form)
        own = [hsic_from_sums(side, side, side.own, form) for side in (first, second)]
    else:
        gram_x, gram_y = (linear_gram(double(side), form) for side in (x, y))
        shared = (gram_x * gram_y).sum()
        own = [gram_x.square().sum(), gram_y.square().sum()]
    return float(ratio(shared, *own))


# 2. Kernel matrices


def centre_gram(k: Tensor, form: str = "cka") -> Tensor:
    """Centre kernel matrices `k` (..., n, n) of float64.

    "cka_biased": subtract row and column means (H K H). "cka": U-centring (Szekely & Rizzo 2014): the diagonal is
    removed and rows then sum to zero, so that inner products over n (n - 3) are unbiased HSIC values. "cka_uncentred":
    unchanged.
    """
    if form == "cka_uncentred":
        return k
    n, debiased = k.shape[-1], form == "cka"
    if debiased:
        k = k.clone()
        k.diagonal(dim1=-2, dim2=-1).zero_()
    means = k.sum(dim=-1) / (n - 2 * debiased)
    means = means - means.sum(dim=-1, keepdim=True) / (2 * (n - debiased))
    k = k - means[..., :, None] - means[..., None, :]
    if debiased:
        k.diagonal(dim1=-2, dim2=-1).zero_()
    return k


def linear_gram(x: Tensor, form: str = "cka") -> Tensor:
    """Centred linear kernel matrices (..., n, n), float64, of vectors (..., n, d), multiplied in their precision."""
    x = x.detach() if form == "cka_uncentred" else centre_rows(x.detach())
    return centre_gram(double(x @ x.mT), form)


def gaussian_gram(x: Tensor, form: str, *, bandwidth: float = 1.0, zeros: bool = True) -> Tensor:
    """Centred kernel matrices (..., n, n) exp(-|x_i - x_j|^2 / (2 bandwidth^2 m)) of vectors (..., n, d).

    m is the median of the n^2 squared distances, or of the non-zero ones (`zeros=False`). The vectors must be centred
    and in float64. NaN if no distance is left.
    """
    squares = x.square().sum(-1)
    distances = (squares[..., :, None] + squares[..., None, :] - 2 * x @ x.mT).clamp(min=0)
    distances.diagonal(dim1=-2, dim2=-1).zero_()  # exactly zero despite rounding
    ordered = distances.flatten(-2).sort(dim=-1).values
    least = (ordered == 0).sum(-1) * (not zeros)
    counted = ordered.shape[-1] - least
    # The two middle values are averaged; torch's own median is the lower one.
    ranks = torch.stack([least + (counted - 1) // 2, least + counted // 2], dim=-1).clamp(max=ordered.shape[-1] - 1)
    median = torch.where(counted > 0, ordered.gather(-1, ranks).mean(-1), torch.nan)
    return centre_gram(torch.exp(-distances / (2 * bandwidth**2 * median[..., None, None])), form)


# 3. Linear CKA from sums of size d x d
#
# HSIC of two linear kernels needs the n x n Gram matrices only through a few sums over items. Write x_i, y_i for rows,
# a_i = |x_i|^2, b_i = |y_i|^2, s = sum x_i, t = sum y_i. With the diagonals removed (K~, L~), as in the U-statistic,
#
#     tr(K~ L~)   = |X'Y|^2 - sum a_i b_i
#     1' K~ 1     = |s|^2 - sum a_i
#     1' K~ L~ 1  = s' X'Y t - s' (sum b_i x_i) - (sum a_i y_i)' t + sum a_i b_i
#
# Some sums belong to one side (`SideSums`) and some to a pair (`PairSums`). With many languages each side is therefore
# summed once, however many pairs it is part of. All sums are additive, so chunks, workers and devices merge with `+`.
#
# HSIC is invariant to a shift of a side. The sums are not: far from the origin they are large and cancel. Every chunk
# is therefore shifted by one fixed reference, the mean of the first chunk, before it is summed.


@dataclass(frozen=True, eq=False)
class Shifted:
    """A chunk of one side minus its reference.

    `rows` (b, d) in their own precision, for the large products; `exact`, the same in float64, for the small ones;
    `squares` (b,), their squared norms; `reference` (d,), float64. Computed once, however many pairs the side is in.
    """

    rows: Tensor
    exact: Tensor
    squares: Tensor
    reference: Tensor


@dataclass(frozen=True, eq=False)
class PairSums(Sums):
    """Sums over the corresponding items of two sides; `+` and `-` add and remove items.

    `cross` X'Y (dx, dy), `x_rows` sum |y|^2 x (dx,), `y_rows` sum |x|^2 y (dy,), `squares` sum |x|^2 |y|^2.
    """

    cross: Tensor
    x_rows: Tensor
    y_rows: Tensor
    squares: Tensor


@dataclass(frozen=True, eq=False)
class SideSums(Sums):
    """Sums over the items of one side, shifted by one reference; `+` and `-` add and remove items.

    `n` items, `total` sum x (d,), `square` sum |x|^2, `own` the sums of the pair of the side with itself, `offset` n
    times the reference (d,), the sum of the shifts.
    """

    n: int
    total: Tensor
    square: Tensor
    own: PairSums
    offset: Tensor


def shift(x: Tensor, reference: Tensor) -> Shifted:
    """The rows of `x` (b, d) minus `reference` (d,)."""
    rows = x - reference
    exact = double(rows)
    return Shifted(rows, exact, torch.linalg.vecdot(exact, exact), double(reference))


def side_sums(x: Shifted) -> SideSums:
    """The sums of one side over one chunk."""
    d = x.rows.shape[1]
    width = -(-d // 4)
    # X'X in four strips to the right of the diagonal, mirrored: 5/8 of the work of the full product.
    gram = torch.empty(d, d, dtype=torch.float64, device=x.exact.device)
    for start in range(0, d, width):
        strip = _product(x.rows[:, start : start + width], x.rows[:, start:])
        gram[start : start + width, start:] = strip
        gram[start:, start : start + width] = strip.T
    cubes = x.squares @ x.exact
    own = PairSums(gram, cubes, cubes, x.squares.square().sum())
    n = x.rows.shape[0]
    return SideSums(n, x.exact.sum(dim=0), x.squares.sum(), own, n * x.reference)


def pair_sums(x: Shifted, y: Shifted) -> PairSums:
    """The sums of a pair over one chunk of corresponding rows."""
    return PairSums(_product(x.rows, y.rows), y.squares @ x.exact, x.squares @ y.exact, x.squares @ y.squares)


def mean_row(x: Tensor) -> Tensor:
    """The mean of the rows of `x` (n, d) -> (d,), exact if all rows are equal (see `centre_rows`)."""
    return x[0] + (x - x[0]).mean(dim=0)


def _chunks(x: Tensor) -> Iterator[Shifted]:
    """The rows of a whole matrix x (n, d), shifted and in float64, in chunks.

    The reference is the mean of rows sampled over the whole matrix, since the first ones may not be representative.
    """
    n = x.shape[0]
    reference = mean_row(double(x[:: max(1, n // ROWS_PER_PRODUCT)]))
    for start in range(0, n, ROWS_PER_PRODUCT):
        rows = slice(start, start + ROWS_PER_PRODUCT)
        yield shift(double(x[rows]), reference)


def _product(x: Tensor, y: Tensor) -> Tensor:
    """X'Y (dx, dy) in float64. Float32 rows are multiplied in float32, a few at a time, and added in float64."""
    if x.dtype == torch.float64 or y.dtype == torch.float64:
        return double(x).T @ double(y)
    parts = zip(torch.split(x, ROWS_PER_PRODUCT), torch.split(y, ROWS_PER_PRODUCT), strict=True)
    return reduce(torch.add, (double(left.T @ right) for left, right in parts))


def hsic_from_sums(x: SideSums, y: SideSums, pair: PairSums, form: str = "cka") -> Tensor:
    """HSIC of two linear kernels, up to a factor that cancels in CKA.

    "cka" is the U-statistic HSIC_1 of Song et al. (2012), "cka_biased" |Xc'Yc|^2 and "cka_uncentred" |X'Y|^2 of the
    vectors before the shift.
    """
    n = x.n
    if form == "cka_biased":
        return (pair.cross - torch.outer(x.total, y.total) / n).square().sum()
    if form == "cka_uncentred":
        moved = torch.outer(x.total, y.offset) + torch.outer(x.offset, y.total + y.offset)
        return (pair.cross + moved / n).square().sum()
    trace = pair.cross.square().sum() - pair.squares
    sum_x = x.total.square().sum() - x.square
    sum_y = y.total.square().sum() - y.square
    sum_xy = x.total @ pair.cross @ y.total - x.total @ pair.x_rows - pair.y_rows @ y.total + pair.squares
    return (trace + sum_x * sum_y / ((n - 1) * (n - 2)) - 2 * sum_xy / (n - 2)) / (n * (n - 3))


def cka_from_sums(x: SideSums, y: SideSums, pair: PairSums, form: str = "cka") -> float:
    """Linear CKA from sums: equal to the measure with the name `form` on all rows in the sums."""
    _enough_items(x.n, form)
    sides = ((x, y, pair), (x, x, x.own), (y, y, y.own))
    return float(ratio(*(hsic_from_sums(*sums, form) for sums in sides)))


def floor_from_sums(x: SideSums, y: SideSums, form: str = "cka") -> float:
    """The exact mean of linear CKA over *all* n! shuffles of the pairs, without shuffling.

    Shuffling permutes the diagonal of a Gram matrix and its other entries separately: with d the sum of the diagonal
    and r that of the rest, the mean of the inner product is d_x d_y / n + r_x r_y / (n (n - 1)). For the U-centred
    matrices of the debiased form both are 0, so that its mean is exactly 0; a doubly centred matrix has r = -d.
    """
    if form == "cka":
        return 0.0
    n, parts = x.n, []
    for side in (x, y):
        if form == "cka_biased":
            diagonal = side.square - side.total.square().sum() / n
            parts.append((diagonal, -diagonal))
        else:
            diagonal = side.square + (2 * side.offset @ side.total + side.offset.square().sum()) / n
            parts.append((diagonal, (side.total + side.offset).square().sum() - diagonal))
    diagonals, rests = (first * second for first, second in zip(*parts, strict=True))
    own = (hsic_from_sums(side, side, side.own, form) for side in (x, y))
    return float(ratio(diagonals / n + rests / (n * (n - 1)), *own))


# 4. Parts of the items: intervals, and the minibatch estimate
#
# A block of b items needs one b x b Gram matrix per side. Once these are U-centred (diagonal and row sums zero), HSIC_1
# of any two sides is the inner product of their matrices over b (b - 3); with many languages each matrix is computed
# once and all pairs are a single product.
#
# Intervals leave out parts of the items (`hsic_without`). A bootstrap is not valid: drawing items with replacement
# repeats some, and a repeated item is perfectly similar to itself in both spaces, which debiased CKA takes for signal
# (independent data, n = 200, d = 768: 0.78 instead of 0). The spread over blocks ignores pairs of items in different
# blocks, which are most of the pairs, and its interval would be 1.1 to 1.6 times too wide at n = 200 (3.4 times at CKA
# 0).


def inner_products(grams: Tensor) -> Tensor:
    """The inner products of all sides: centred Gram matrices (..., sides, b, b) -> (..., sides, sides).

    HSIC up to a factor that depends on b alone, so that it cancels in CKA of one block or of equal blocks.
    """
    return grams.flatten(-2) @ grams.flatten(-2).mT


def hsic_without(grams: Tensor) -> Tensor:
    """HSIC_1 of all pairs of sides, for all items and without each of up to `PARTS` parts of consecutive ones.

    grams: linear kernel matrices (sides, n, n), n >= 4, float64, whose diagonals are set to zero. Returns (1 + parts,
    sides, sides), each up to a factor that cancels in CKA. The sums of each part are subtracted from those of all
    items, so that no product is repeated. There are no parts if n < 8.
    """
    grams.diagonal(dim1=-2, dim2=-1).zero_()
    n, whole, sums = grams.shape[-1], inner_products(grams), grams.sum(-1)
    count = min(PARTS, n) if n >= 8 else 0
    left = []
    for rows in (slice(0, 0), *(slice(n * part // count, n * (part + 1) // count) for part in range(count))):
        m, out = n - (rows.stop - rows.start), grams[:, rows]  # (sides, size, n)
        rest = sums - out.sum(1)
        rest[:, rows] = 0  # sums of each row over the remaining items
        trace = whole - 2 * inner_products(out) + inner_products(out[:, :, rows])
        totals = rest.sum(-1)
        left.append(trace + torch.outer(totals, totals) / ((m - 1) * (m - 2)) - 2 / (m - 2) * rest @ rest.T)
    return torch.stack(left)


def block_hsic(x: Tensor, y: Tensor) -> Tensor:
    """HSIC_1 of (x, y), (x, x) and (y, y) for one block, (3,): x (b, dx), y (b, dy) with corresponding rows."""
    x, y = paired(x, y, at_least=4)
    b = x.shape[0]
    grams = torch.stack([linear_gram(double(side)) for side in (x, y)])
    return _terms(inner_products(grams), 0, 1) / (b * (b - 3))


def _terms(hsic: Tensor, first: Any, second: Any) -> Tensor:
    """Select the HSIC values xy, xx, yy of one or several pairs of sides: (..., sides, sides) -> (..., 3)."""
    return torch.stack([hsic[..., first, second], hsic[..., first, first], hsic[..., second, second]], dim=-1)


def cka_from_blocks(values: Tensor) -> float:
    """Minibatch CKA: the HSIC terms (blocks, 3), in the order xy, xx, yy, are averaged first and divided last.

    Nguyen et al. (2021). If the ratios were averaged instead, blocks with small denominators would dominate.
    """
    return float(ratio(*double(values).mean(dim=0)))


def even_blocks(n: int, size: int) -> list[slice]:
    """Consecutive slices of at most `size` items that cover `n` items and differ in length by at most one.

    Equal sizes matter: each block's HSIC is unbiased whatever its size, so a last block of five items would only add
    noise at full weight. If `size` would leave fewer than 4 items in a block, blocks are larger.

    >>> even_blocks(10, 4)
    [slice(0, 5, None), slice(5, 10, None)]
    """
    count = max(1, min(-(-n // size), n // 4))
    edges = [n * i // count for i in range(count + 1)]
    return [slice(start, stop) for start, stop in zip(edges, edges[1:], strict=False)]


# 5. Many languages over a stream of vectors


class CkaStream:
    """Accumulates CKA of one layer of several languages whose items correspond.

    Rows are collected into blocks of `block` items before they are summed, so the result does not depend on how the
    stream is split into chunks. Each language is summed once and each pair once; memory holds matrices of size d x d,
    less than one block of rows, and the first 512 rows, whose jackknife gives the interval.

    >>> x = torch.arange(24.0).reshape(12, 2).sin()
    >>> stream = CkaStream([("en", "nl")], block=4)
    >>> stream.update({"en": x[:7], "nl": 2 * x[:7]})
    >>> stream.update({"en": x[7:], "nl": 2 * x[7:]})
    >>> round(stream.estimate("en", "nl").value, 6)
    1.0
    """

    def __init__(self, pairs: Sequence[Pair], *, block: int = 128) -> None:
        require(block >= 4, f"a block for debiased CKA needs at least 4 items, not {block}")
        self.pairs = tuple(pairs)
        self.languages = tuple(dict.fromkeys(language for pair in self.pairs for language in pair))
        self.block = block
        self._pending: dict[str, Tensor] = {}
        self._references: dict[str, Tensor] = {}
        self._totals: dict[str | Pair, Any] = {}  # sums of each language and of each pair
        self._kept: dict[str, list[Tensor]] = {language: [] for language in self.languages}  # the first rows
        self._left: Tensor | None = None  # their HSIC, of all and without each part: (1 + parts, languages, languages)

    def update(self, chunks: Mapping[str, Tensor]) -> None:
        """Add the next rows of every language: language -> (b, d), the same items in the same order."""
        rows = {language: matrix(chunks[language], name=language) for language in self.languages}
        counts = ", ".join(f"{language} {len(x)}" for language, x in rows.items())
        require(len({*map(len, rows.values())}) == 1, f"a chunk must hold the same items in every language: {counts}")
        if (room := KEPT - sum(map(len, self._kept[self.languages[0]]))) > 0:
            for language, x in rows.items():
                self._kept[language].append(x[:room].clone())
            self._left = None
        if self._pending:
            rows = {language: torch.cat([self._pending[language], x]) for language, x in rows.items()}
        total = rows[self.languages[0]].shape[0]
        complete = total - total % self.block
        for start in range(0, complete, self.block):
            block = {language: x[start : start + self.block] for language, x in rows.items()}
            if not self._references:
                self._references = {language: mean_row(x) for language, x in block.items()}
            self._totals = self._with_rows(block, self._references, self.pairs)
        # A clone, so that a few pending rows do not keep the caller's whole chunk alive.
        self._pending = {language: x[complete:].clone() for language, x in rows.items()}

    def sums(self, source: str, target: str) -> tuple[SideSums, SideSums, PairSums]:
        """The sums of two languages and of their pair over all items so far."""
        pair = (source, target)
        if pair not in self.pairs:
            raise InputError(f"the pair {pair} is not accumulated; the pairs are {', '.join(map(str, self.pairs))}")
        require(self._pending, "no vectors have been taken in yet")
        sums, rows = self._totals, {language: self._pending[language] for language in pair}
        if rows[source].shape[0]:  # pending rows are included without changing the state
            references = self._references or {language: mean_row(x) for language, x in rows.items()}
            sums = self._with_rows(rows, references, [pair])
        return sums[source], sums[target], sums[pair]

    def estimate(self, source: str, target: str) -> Interval:
        """Debiased linear CKA of two languages over all items so far.

        The interval is the jackknife of the first 512 items, scaled to n items, around the exact value; the floor is 0,
        the mean over all shuffles.
        """
        x, y, pair = self.sums(source, target)
        value = cka_from_sums(x, y, pair)
        if self._left is None:
            kept = (centre_rows(torch.cat(rows)) for rows in self._kept.values())
            self._left = hsic_without(torch.stack([double(x @ x.mT) for x in kept]))
        at = self.languages.index(source), self.languages.index(target)
        without = ratio(*_terms(self._left, *at).T)[1:].cpu()
        nearer = value + math.sqrt(min(KEPT, x.n) / x.n) * (without - without.mean())
        return jackknife_interval(value, nearer, n=x.n, floor=0.0)

    def _with_rows(
        self, rows: Mapping[str, Tensor], references: Mapping[str, Tensor], pairs: Sequence[Pair]
    ) -> dict[str | Pair, Any]:
        """Return the totals with these rows added: each language is shifted and summed once, each pair summed once."""
        shifted = {language: shift(x, references[language]) for language, x in rows.items()}
        sums: dict[str | Pair, Any] = {language: side_sums(x) for language, x in shifted.items()}
        sums |= {(a, b): pair_sums(shifted[a], shifted[b]) for a, b in pairs}
        return {key: self._totals[key] + part if self._totals else part for key, part in sums.items()}


# 6. Three forms of linear CKA of one pair
#
# Papers publish numbers of one form or another, and rarely say which. Here each form has its value, an interval and its
# own floor, from the same items and d x d sums: since sums are additive, the value without a block of items comes from
# the total sums minus the block's, as the delete-one-block jackknife needs it. Floors are exact means over all n!
# shuffles of the pairs. The interval of a biased form shows how the value varies with the sentences, not how far it is
# above its limit for many sentences.


def cka_forms(x: Tensor, y: Tensor, *, seed: int = 0) -> dict[str, Interval]:
    """Compute each form of linear CKA of x (n, dx) and y (n, dy), n >= 4, by the name of its measure.

    The seed draws the order of the items, which are then split into blocks.

    >>> x = torch.arange(48.0).reshape(24, 2).sin()
    >>> [(name, round(form.value, 6)) for name, form in cka_forms(x, 3 * x).items()]
    [('cka', 1.0), ('cka_biased', 1.0), ('cka_uncentred', 1.0)]
    """
    x, y = _checked_pair(x, y, "cka")
    n = x.shape[0]
    order = shuffled_order(n, seed)
    x, y = x[order], y[order]
    blocks = even_blocks(n, -(-n // PARTS))
    references = [mean_row(double(side[blocks[0]])) for side in (x, y)]

    def parts() -> Iterator[tuple[SideSums, SideSums, PairSums]]:
        for rows in blocks:
            a, b = (shift(double(side[rows]), at) for side, at in zip((x, y), references, strict=True))
            yield side_sums(a), side_sums(b), pair_sums(a, b)

    whole = reduce(lambda first, second: (first[0] + second[0], first[1] + second[1], first[2] + second[2]), parts())
    # Each block is summed a second time, because keeping all of them would take 20 times the memory of the sums.
    lefts = ((whole[0] - part[0], whole[1] - part[1], whole[2] - part[2]) for part in parts() if len(blocks) > 2)
    without = torch.tensor([[cka_from_sums(*left, form) for form in FORMS] for left in lefts], dtype=torch.float64)
    estimates = {}
    for form, left_out in zip(FORMS, without.T if len(without) else [without] * len(FORMS), strict=True):
        value, floor = cka_from_sums(*whole, form), floor_from_sums(*whole[:2], form)
        estimates[form] = jackknife_interval(value, left_out, n=n, floor=floor).clipped(-1.0 if form == "cka" else 0.0)
    return estimates


# 7. Pairs of many sides at once
#
# A side is a set of vectors of the same n items: a language at a layer, the same before training. CKA is computed for
# some pairs of s sides, with all sides together in a few large products, as a GPU needs them: calling `cka` pair by
# pair would recompute every matrix and launch a hundred small operations each time.


def cka_of_pairs(sides: Tensor, pairs: SidePairs) -> list[Interval]:
    """Debiased linear CKA of some pairs of sides (s, n, d), with intervals, and the floor of all shuffles, which is 0.

    The value is that of `cka` on all n items. The interval is a jackknife over 20 parts of consecutive items, so items
    should be in random order.

    >>> x = torch.arange(48.0).reshape(1, 24, 2).sin()
    >>> round(cka_of_pairs(torch.cat([x, 3 * x + 1]), [(0, 1)])[0].value, 6)
    1.0
    """
    sides, first, second = _checked_sides(sides, pairs, least=4)
    x = centre_rows(sides)
    values = ratio(*_terms(hsic_without(double(x @ x.mT)), first, second).unbind(-1)).cpu()  # (1 + parts, pairs)
    return [jackknife_interval(float(each[0]), each[1:], n=sides.shape[1], floor=0.0) for each in values.T]


def cka_rbf_of_pairs(
    sides: Tensor, pairs: SidePairs, *, batches: int = 4, size: int | None = None, shifted: bool = False
) -> list[Interval]:
    """CKA with Gaussian kernels as in Muller et al. (2021): the mean of the biased form over batches.

    K_ij = exp(-|x_i - x_j|^2 / (2 m)), where m is the median of the non-zero squared distances of the side in the
    batch. sides (s, n, d). size: items of a batch; None for n / batches. Batches are consecutive and disjoint;
    `shifted=True` takes items i to i + size for i = 0, 1, 2 ..., as the released code does: these are almost the same
    items, so that their spread is meaningless. `n` of the result is the size of a batch.

    The interval is Student's t over batches, NaN if they overlap. The floor is the exact mean over all shuffles of the
    pairs, tr(Kc) tr(Lc) / ((n - 1) |Kc| |Lc|): 0.98 for independent vectors at n = 25, d = 768.
    """
    sides, first, second = _checked_sides(sides, pairs, least=2)
    n = sides.shape[1]
    taken = n // batches if size is None else size
    begins = [number * (1 if shifted else taken) for number in range(batches)]
    if taken < 2 or begins[-1] + taken > n:
        raise InputError(f"{batches} batches of {taken} items do not fit into {n}; give more items or smaller batches")
    chosen = torch.stack([sides[:, begin : begin + taken] for begin in begins])  # (batches, s, size, d)
    grams = gaussian_gram(double(centre_rows(chosen)), "cka_biased", zeros=False)
    terms = _terms(inner_products(grams), first, second)  # (batches, pairs, 3)
    values = ratio(*terms.unbind(-1))  # (batches, pairs)
    traces = grams.diagonal(dim1=-2, dim2=-1).sum(-1)  # (batches, s)
    floors = ratio(traces[:, first] * traces[:, second] / (taken - 1), *terms[..., 1:].unbind(-1)).mean(dim=0)
    reach = torch.full_like(floors, math.nan)
    if batches > 1 and len(first) and not shifted:
        reach = t_quantile(batches - 1) * values.std(dim=0) / math.sqrt(batches)
    return [
        Interval(value, value - far, value + far, taken, floor).clipped()
        for value, far, floor in zip(values.mean(dim=0).tolist(), reach.tolist(), floors.tolist(), strict=True)
    ]


def _checked_sides(sides: Tensor, pairs: SidePairs, *, least: int) -> tuple[Tensor, Tensor, Tensor]:
    """Validate sides and pairs; returns the sides in float32 or float64, and the indices of each pair's two sides."""
    sides = numbers_of(sides, "sides")
    wanted = f"sides must have shape (sides, items, width) with at least {least} items"
    require(sides.ndim == 3 and sides.shape[1] >= least, f"{wanted}, not {tuple(sides.shape)}")
    require(torch.isfinite(sides).all(), "a side holds a value that is not finite")
    numbers = torch.tensor([list(pair) for pair in pairs], dtype=torch.long).reshape(-1, 2)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < len(sides):
        raise InputError(f"there are {len(sides)} sides; a pair has an index that is not one of them")
    device = torch.device("cpu") if sides.device.type == "mps" else sides.device
    return sides, numbers[:, 0].to(device), numbers[:, 1].to(device)
