"""Exact linear CKA from sums of size d x d, so that a corpus of any length is read once and never kept.

HSIC of two linear kernels needs the n x n Gram matrices only through a few sums over items. Write x_i, y_i for rows,
a_i = |x_i|^2, b_i = |y_i|^2, s = sum x_i, t = sum y_i. With the diagonals removed (K~, L~), as the U-statistic asks,

    tr(K~ L~)   = |X'Y|^2 - sum a_i b_i
    1' K~ 1     = |s|^2 - sum a_i
    1' K~ L~ 1  = s' X'Y t - s' (sum b_i x_i) - (sum a_i y_i)' t + sum a_i b_i

Some sums belong to one side (`SideSums`) and some to a pair (`PairSums`). With many languages each side is therefore
summed once, however many pairs it is part of. All of them add, so chunks, workers and devices can be merged with `+`.

HSIC does not change when a side is shifted. The sums do: far from the origin they are large and cancel. Every chunk is
therefore shifted by one fixed reference, the mean of the first chunk, before it is summed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import double, enough_for_cka, mean_row

# Rows to a product: float32 products are summed in float64 after so many, and copies of so many rows stay in the cache.
ROWS_PER_PRODUCT = 1024


@dataclass(frozen=True, eq=False)
class Shifted:
    """A chunk of one side minus its reference.

    `rows` (b, d) as they came, for the large products; `exact`, the same in float64, for the small ones; `squares`
    (b,), their squared lengths. Made once, however many pairs the side is part of.
    """

    rows: Tensor
    exact: Tensor
    squares: Tensor


@dataclass(frozen=True, eq=False)
class SideSums:
    """Sums over the items of one side.

    `n` items, `total` sum x (d,), `gram` X'X (d, d), `square` sum |x|^2, `square_rows` sum |x|^2 x (d,), `quartic`
    sum |x|^4.
    """

    n: int
    total: Tensor
    gram: Tensor
    square: Tensor
    square_rows: Tensor
    quartic: Tensor

    def __add__(self, other: "SideSums") -> "SideSums":
        """The sums over the items of both; they must have been shifted by the same reference."""
        return SideSums(
            self.n + other.n,
            self.total + other.total,
            self.gram + other.gram,
            self.square + other.square,
            self.square_rows + other.square_rows,
            self.quartic + other.quartic,
        )

    def __sub__(self, other: "SideSums") -> "SideSums":
        """The sums without the items of the other, which are among these."""
        return SideSums(
            self.n - other.n,
            self.total - other.total,
            self.gram - other.gram,
            self.square - other.square,
            self.square_rows - other.square_rows,
            self.quartic - other.quartic,
        )


@dataclass(frozen=True, eq=False)
class PairSums:
    """Sums over the corresponding items of two sides.

    `cross` X'Y (dx, dy), `x_rows` sum |y|^2 x (dx,), `y_rows` sum |x|^2 y (dy,), `squares` sum |x|^2 |y|^2.
    """

    cross: Tensor
    x_rows: Tensor
    y_rows: Tensor
    squares: Tensor

    def __add__(self, other: "PairSums") -> "PairSums":
        """The sums over the items of both."""
        return PairSums(
            self.cross + other.cross,
            self.x_rows + other.x_rows,
            self.y_rows + other.y_rows,
            self.squares + other.squares,
        )

    def __sub__(self, other: "PairSums") -> "PairSums":
        """The sums without the items of the other."""
        return PairSums(
            self.cross - other.cross,
            self.x_rows - other.x_rows,
            self.y_rows - other.y_rows,
            self.squares - other.squares,
        )


def shift(x: Tensor, reference: Tensor) -> Shifted:
    """The rows of `x` (b, d) minus `reference` (d,)."""
    rows = x - reference
    exact = double(rows)
    return Shifted(rows, exact, torch.linalg.vecdot(exact, exact))


def side_sums(x: Shifted) -> SideSums:
    """The sums of one side over one chunk."""
    return SideSums(
        n=x.rows.shape[0],
        total=x.exact.sum(dim=0),
        gram=_self_product(x.rows),
        square=x.squares.sum(),
        square_rows=x.squares @ x.exact,
        quartic=x.squares.square().sum(),
    )


def pair_sums(x: Shifted, y: Shifted) -> PairSums:
    """The sums of a pair over one chunk of corresponding rows."""
    return PairSums(
        cross=_product(x.rows, y.rows),
        x_rows=y.squares @ x.exact,
        y_rows=x.squares @ y.exact,
        squares=x.squares @ y.squares,
    )


def aligned_chunks(x: Tensor, y: Tensor, *, order: Tensor | None = None) -> Iterator[tuple[Shifted, Shifted]]:
    """Corresponding rows of whole matrices x (n, dx) and y (n, dy), shifted and in float64, some at a time.

    With `order` (n,) row i of x meets row order[i] of y. The references are means of rows taken from all over the
    matrix, since its beginning may be unlike the rest.
    """
    n = x.shape[0]
    sample = slice(None, None, max(1, n // ROWS_PER_PRODUCT))
    reference_x, reference_y = (mean_row(double(side[sample])) for side in (x, y))
    for start in range(0, n, ROWS_PER_PRODUCT):
        rows = slice(start, start + ROWS_PER_PRODUCT)
        partner = y[rows] if order is None else y[order[rows]]
        yield shift(double(x[rows]), reference_x), shift(double(partner), reference_y)


def sums_of(x: Tensor, y: Tensor) -> tuple[SideSums, SideSums, PairSums]:
    """All sums of whole matrices x (n, dx) and y (n, dy), in float64."""
    parts = ((side_sums(a), side_sums(b), pair_sums(a, b)) for a, b in aligned_chunks(x, y))
    return reduce(lambda one, other: (one[0] + other[0], one[1] + other[1], one[2] + other[2]), parts)


def _product(x: Tensor, y: Tensor) -> Tensor:
    """X'Y (dx, dy) in float64. Float32 rows are multiplied as such, a few at a time, and added in float64."""
    if x.dtype == torch.float64 or y.dtype == torch.float64:
        return double(x).T @ double(y)
    parts = zip(torch.split(x, ROWS_PER_PRODUCT), torch.split(y, ROWS_PER_PRODUCT), strict=True)
    return reduce(torch.add, (double(left.T @ right) for left, right in parts))


def _self_product(x: Tensor) -> Tensor:
    """X'X (d, d) in float64: four strips from the diagonal rightwards, mirrored, are 5/8 of the work of the whole."""
    d = x.shape[1]
    width = -(-d // 4)
    gram = torch.empty(d, d, dtype=torch.float64, device="cpu" if x.device.type == "mps" else x.device)
    for start in range(0, d, width):
        strip = _product(x[:, start : start + width], x[:, start:])
        gram[start : start + width, start:] = strip
        gram[start:, start : start + width] = strip.T
    return gram


def hsic_from_sums(x: SideSums, y: SideSums, pair: PairSums, *, biased: bool = False) -> Tensor:
    """HSIC of two linear kernels: the U-statistic HSIC_1 of Song et al. (2012), or the biased |Xc'Yc|^2 / (n - 1)^2."""
    n = x.n
    if biased:
        return (pair.cross - torch.outer(x.total, y.total) / n).square().sum() / (n - 1) ** 2
    trace = pair.cross.square().sum() - pair.squares
    sum_x = x.total.square().sum() - x.square
    sum_y = y.total.square().sum() - y.square
    sum_xy = x.total @ pair.cross @ y.total - x.total @ pair.x_rows - pair.y_rows @ y.total + pair.squares
    return (trace + sum_x * sum_y / ((n - 1) * (n - 2)) - 2 * sum_xy / (n - 2)) / (n * (n - 3))


def self_hsic_from_sums(x: SideSums, *, biased: bool = False) -> Tensor:
    """HSIC of one side with itself."""
    return hsic_from_sums(x, x, PairSums(x.gram, x.square_rows, x.square_rows, x.quartic), biased=biased)


def ratio(xy: Tensor, xx: Tensor, yy: Tensor) -> Tensor:
    """CKA from three HSIC values; NaN where a side does not vary."""
    return xy / (xx.clamp(min=0) * yy.clamp(min=0)).sqrt()


def cka_from_sums(x: SideSums, y: SideSums, pair: PairSums, *, biased: bool = False) -> float:
    """Linear CKA from sums: exactly `cka` of all the rows that went into them."""
    enough_for_cka(x.n, biased=biased)
    if x.n != y.n:
        raise InputError(f"the two sides were summed over {x.n} and {y.n} items; they must be the same items")
    values = (self_hsic_from_sums(side, biased=biased) for side in (x, y))
    return float(ratio(hsic_from_sums(x, y, pair, biased=biased), *values))


def floor_from_sums(x: SideSums, y: SideSums, *, biased: bool = False) -> float:
    """The mean of linear CKA over *all* n! ways of shuffling the pairs, exactly and without shuffling.

    A doubly centred Gram matrix has rows that sum to zero, so averaging over permutations leaves only its trace:
    tr(Kc) tr(Lc) / ((n - 1) |Kc| |Lc|) for the biased form. The U-centred matrices of the debiased form also have zero
    trace: its mean over shuffles is exactly 0.
    """
    enough_for_cka(x.n, biased=biased)
    if not biased:
        return 0.0
    trace_x, trace_y = (side.square - side.total.square().sum() / side.n for side in (x, y))
    xx, yy = (self_hsic_from_sums(side, biased=True) for side in (x, y))
    return float(ratio(trace_x * trace_y / (x.n - 1) ** 3, xx, yy))
