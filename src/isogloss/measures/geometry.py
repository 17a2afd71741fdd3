"""Geometry of vector spaces: drift, anisotropy, separability of languages, and distance after a rotation.

A plain distance between two independently trained models says little: the same arrangement of words may be rotated.
Procrustes analysis first rotates one space onto the other as well as possible, with reflections allowed, and then
measures the remaining distance.
"""

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from isogloss.errors import require
from isogloss.measures.cka import PairSums, SideSums
from isogloss.measures.inputs import centre_rows, double, matrix, paired, same_width, shuffled_order
from isogloss.measures.registry import measure
from isogloss.measures.retrieval import TIE, Scoring, score_blocks, unit_rows
from isogloss.measures.statistics import Interval, share_interval

_neutral = partial(measure, higher_is_better=False, neutral=True)  # lower is selected, neither is called better


@_neutral(
    "l2_drift",
    title="L2 distance",
    explanation="The Euclidean distance between the vectors of the same word in two models, or in one model before "
    "and after training. Models that were trained separately can be far apart even if one space is a rotation of the "
    "other.",
    range=(0.0, float("inf")),
    invariances=("joint rotation", "joint shift", "permutation of items", "symmetric"),
    paper="Hussain & Dudev 2020",
)
def l2_drift(x: Tensor, y: Tensor) -> float:
    """Mean Euclidean distance between corresponding rows of x (n, d) and y (n, d), in float64.

    It grows with the norm of the vectors, so compare only models of one family, or read `cosine_drift` as well.

    >>> l2_drift(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 4.0], [1.0, 1.0]]))
    2.5
    """
    return float(l2_distances(x, y).mean())


def l2_distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances of corresponding rows of x (n, d) and y (n, d) -> (n,), float64."""
    x, y = _equally_wide(x, y, "a drift compares vectors of one width")
    return (x - y).norm(dim=1)


@_neutral(
    "cosine_drift",
    title="Cosine distance",
    explanation="The cosine distance between the vectors of the same word in two models, or in one model before and "
    "after training: 0 is the same direction, 1 a right angle.",
    range=(0.0, 2.0),
    invariances=("scale", "joint rotation", "permutation of items", "symmetric"),
    paper="Hussain & Dudev 2020",
)
def cosine_drift(x: Tensor, y: Tensor) -> float:
    """Mean of 1 - cos between corresponding rows of x (n, d) and y (n, d), in float64; a row of zeros has cosine 0.

    >>> cosine_drift(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    0.5
    """
    return float(cosine_distances(x, y).mean())


def cosine_distances(x: Tensor, y: Tensor) -> Tensor:
    """1 - cos of corresponding rows of x (n, d) and y (n, d) -> (n,), float64."""
    x, y = _equally_wide(x, y, "a drift compares vectors of one width")
    cosines = (unit_rows(x) * unit_rows(y)).sum(dim=1)
    # By rounding, the cosine of equal vectors may exceed 1, which would give a negative distance.
    return (1 - cosines).clamp(min=0, max=2)


@_neutral(
    "anisotropy",
    title="Anisotropy",
    explanation="How similar the directions of all sentences of a language are. Near 1 they lie in a narrow cone, in "
    "which raw cosines distinguish little; near 0 they point in all directions. Neither is better in itself.",
    range=(-1.0, 1.0),
    invariances=("rotation", "scale", "permutation of items"),
    paper="Ethayarajh 2019, How Contextual are Contextualized Word Representations?",
    takes="space",
)
def anisotropy(x: Tensor) -> float:
    """Mean cosine of two different rows of x (n, d), over all pairs: near 0 if directions are spread, 1 if all agree.

    Computed without enumerating pairs: with unit rows u_i, (|sum u_i|^2 - sum |u_i|^2) / (n (n - 1)), in float64.

    >>> anisotropy(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))  # cosines 0, 1 and 0
    0.3333333333333333
    """
    units = unit_rows(double(matrix(x, at_least=2)))
    n = units.shape[0]
    total = float(units.sum(dim=0).square().sum() - units.square().sum()) / (n * (n - 1))
    return max(-1.0, min(1.0, total))


@measure(
    "anc",
    title="Neuron-wise correlation",
    explanation="The correlation of a neuron's values for the same sentences in two languages, averaged over neurons: "
    "1 if every neuron responds in the same way, 0 is the value of unrelated sentences.",
    higher_is_better=True,
    range=(-1.0, 1.0),
    axis=(0.0, 1.0),
    invariances=("scale", "shift", "permutation of items", "symmetric"),
    paper="Del & Fishel 2022, Cross-lingual Similarity of Multilingual Representations Revisited",
)
def anc(x: Tensor, y: Tensor) -> float:
    """Average neuron-wise correlation: Pearson's r of x[:, j] and y[:, j], averaged over the d columns, in float64.

    x (n, d), y (n, d), whose rows correspond. Unlike CKA it compares single coordinates: a rotation of one side changes
    it. A column that is constant on either side has no correlation and is left out; NaN if no column is left.

    >>> x = torch.tensor([[1.0, 1.0], [2.0, 3.0], [3.0, 2.0]])
    >>> round(anc(x, 5 * x + 1), 6), round(anc(x, x * torch.tensor([1.0, -1.0])), 6)
    (1.0, 0.0)
    """
    x, y = map(centre_rows, _equally_wide(x, y, "a neuron of one side is compared with the same of the other"))
    return _mean_correlation((x * y).sum(dim=0), x.square().sum(dim=0), y.square().sum(dim=0))


def anc_from_sums(x: SideSums, y: SideSums, pair: PairSums) -> Interval:
    """`anc` of all rows in the sums of linear CKA, from the diagonals of their matrices.

    Its floor is 0, the mean over all shuffles of the pairs.
    """
    xy, xx, yy = (
        sums.diagonal() - first.total * second.total / x.n
        for sums, first, second in ((pair.cross, x, y), (x.own.cross, x, x), (y.own.cross, y, y))
    )
    return Interval(_mean_correlation(xy, xx, yy), n=x.n, floor=0.0)


def _mean_correlation(xy: Tensor, xx: Tensor, yy: Tensor) -> float:
    """The mean of xy / sqrt(xx yy), (d,) each, over the columns in which both sides vary."""
    varies = (xx > 0) & (yy > 0)
    return float((xy[varies] / (xx[varies] * yy[varies]).sqrt()).clamp(min=-1, max=1).mean())


@measure(
    "separability",
    title="Separability of languages",
    explanation="How often the language of a sentence can be told by which language's mean is nearer: 1 is always, "
    "0.5 is guessing, so the languages overlap. Neither is better in itself.",
    neutral=True,
    range=(0.0, 1.0),
    invariances=("joint rotation", "joint shift", "permutation of items", "symmetric"),
)
def separability(x: Tensor, y: Tensor) -> float:
    """The share of the rows of x (n, d) and y (n, d) that are nearer to the mean of their own side, in float64.

    Each pair is left out of both means when it is classified, so that two samples of one distribution score 0.5; ties
    count half. This is the nearest-centroid classifier, cross-validated pair by pair. Unlike a trained linear probe,
    which with as many dimensions as sentences separates any two languages at every layer, it has no regularisation to
    choose, and uses exactly the difference that centring removes. It is a lower bound of what a probe finds. A
    pitfall: it is meaningless for sides that were centred before, because the means then include the pair left out.

    >>> x = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]])
    >>> separability(x, x + torch.tensor([9.0, 0.0])), separability(x, x)
    (1.0, 0.5)
    """
    return separability_interval(x, y).value


def separability_interval(x: Tensor, y: Tensor) -> Interval:
    """`separability` with an interval over the pairs, and the floor 0.5."""
    x, y = _equally_wide(x, y, "two languages are told apart in one space", at_least=2)
    x, y = x - x[:1], y - x[:1]  # far from the origin differences would lose precision
    mean_x, mean_y = ((side.sum(dim=0) - side) / (len(x) - 1) for side in (x, y))  # (n, d): without each pair in turn
    across, middle = mean_x - mean_y, (mean_x + mean_y) / 2
    of_x, of_y = (torch.sign(((side - middle) * across).sum(dim=1)) for side in (x, y))  # 1: nearer to the mean of x
    return share_interval((of_x - of_y + 2) / 4, floor=0.5)


@measure(
    "neighbourhood_overlap",
    title="Overlap of neighbourhoods",
    explanation="The share of an item's nearest neighbours in one space that are also among its nearest neighbours in "
    "the other.",
    higher_is_better=True,
    range=(0.0, 1.0),
    invariances=("rotation", "scale", "permutation of items", "symmetric"),
)
def neighbourhood_overlap(x: Tensor, y: Tensor, *, k: int = 10, method: str = "cosine") -> float:
    """Mean share of an item's k nearest items in x (n, dx) that are also among its k nearest in y (n, dy).

    Each space is searched separately, so the widths may differ; `method` is "cosine" or "centred". Independent spaces
    score about k / (n - 1). If several items are tied for the last of the k places, each counts with the share of them
    that fits: two collapsed spaces score the floor, not 1. Rows are processed in blocks.
    """
    x, y = paired(x, y, at_least=2)
    n = x.shape[0]
    require(1 <= k < n, f"k must lie between 1 and n - 1 = {n - 1}, not {k}")
    require(method in ("cosine", "centred"), f"unknown method {method!r} of neighbourhoods; known are cosine, centred")
    sides = [unit_rows(centre_rows(side) if method == "centred" else side) for side in (x, y)]
    blocks = [score_blocks(Scoring(side, side)) for side in sides]
    total = 0.0
    for (rows, tile_x), (_, tile_y) in zip(*blocks, strict=True):
        common = _membership(tile_x, rows, k) * _membership(tile_y, rows, k)
        total += float(double(common.sum(dim=1)).sum())
    return min(1.0, total / (n * k))


def _membership(tile: Tensor, rows: Tensor, k: int) -> Tensor:
    """Membership of items in the k nearest of each row: (b, n) scores -> (b, n) in [0, 1], with row sums k."""
    tile[torch.arange(rows.numel(), device=tile.device), rows] = -torch.inf  # an item is not its own neighbour
    last = tile.topk(k).values[:, -1:]  # (b, 1)
    above = (tile > last + TIE[tile.dtype]).to(tile.dtype)
    tied = (tile >= last - TIE[tile.dtype]).to(tile.dtype) - above
    return above + tied * ((k - above.sum(dim=1)) / tied.sum(dim=1))[:, None]


def _equally_wide(x: Tensor, y: Tensor, why: str, *, at_least: int = 1) -> tuple[Tensor, Tensor]:
    """Validate corresponding rows of one width, in float64; `why` ends the sentence if the widths differ."""
    x, y = paired(x, y, at_least=at_least)
    same_width(x, y, why)
    return double(x), double(y)


# Distance after a rotation


@_neutral(
    "procrustes_distance",
    title="Distance after Procrustes",
    explanation="The distance between the same words in two models that remains after the best rotation and scaling: "
    "0 is the same arrangement. The chance level is that of shuffled words.",
    range=(0.0, 1.0),
    invariances=("rotation", "scale", "shift", "permutation of items", "symmetric"),
    paper="Gower 1975, Generalized Procrustes Analysis; Schonemann 1966",
)
def procrustes_distance(x: Tensor, y: Tensor) -> float:
    """The residual of fitting x (n, d) to y (n, d) by Procrustes analysis: 0 for the same shape, at most 1; in float64.

    With Xc and Yc centred, W orthogonal (it may reflect) and s > 0 a scale,

        min over s, W of |s Xc W - Yc|^2 / |Yc|^2 = 1 - (|Xc' Yc|_* / (|Xc| |Yc|))^2,

    where |.| is the Frobenius norm and |.|_* the sum of singular values: the `disparity` of `scipy.spatial.procrustes`.

    A pitfall: d x d numbers are fitted. Two *independent* sets of n items give far less than 1 unless n is much
    larger than d; read each value against `procrustes_floor`. NaN if a side does not vary.

    >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> round(procrustes_distance(x, 5 * x.flip(1) + 3), 6), round(procrustes_distance(x, x[[1, 0, 2]]), 6)
    (0.0, 0.48)
    """
    return _residual(*_centred(x, y))


def procrustes_floor(x: Tensor, y: Tensor, *, seed: int = 0) -> float:
    """`procrustes_distance` of a seeded shuffle of the pairs, from which other shuffles differ little.

    This is the distance of two unrelated spaces with this n, d and spread of directions.
    """
    x, y = _centred(x, y)
    return _residual(x, y[shuffled_order(len(x), seed)])


def _centred(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    return map(centre_rows, _equally_wide(x, y, "a rotation needs two spaces of the same width", at_least=2))


def _residual(x: Tensor, y: Tensor) -> float:
    """The residual of centred x and y (n, d), float64."""
    norms = float(x.norm() * y.norm())
    if norms == 0:
        return math.nan
    if x.shape[0] < x.shape[1]:
        # With fewer items than directions, X' = Q R and X'Y = Q_x (R_x R_y') Q_y' has the singular values of an n x n.
        x, y = (torch.linalg.qr(side.T, mode="r").R.T for side in (x, y))
    share = _nuclear_norm(x.T @ y) / norms
    return max(0.0, 1 - share * share)


def _nuclear_norm(matrix: Tensor, *, by_eigenvalues: bool = False) -> float:
    """The sum of the singular values of a square matrix, float64.

    by_eigenvalues: compute the singular values as roots of the eigenvalues of M'M, as on a GPU. On an H200 this takes 7
    ms for 768 x 768 numbers, a singular value decomposition 86 ms, and 58 ms on its host. Roots of small eigenvalues
    have half of the digits: the sum is exact to about 1e-6 of it if the matrix is nearly singular, else much better.
    """
    if not (matrix.is_cuda or by_eigenvalues):
        return float(torch.linalg.svdvals(matrix).sum())
    return float(torch.linalg.eigvalsh(matrix.T @ matrix).clamp(min=0).sqrt().sum())
