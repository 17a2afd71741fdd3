"""How far a space moved, how narrow it is, and whether its neighbourhoods stayed: distances rather than alignment."""

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import double, matrix, mean_row, paired
from isogloss.measures.neighbours import TIE, Scoring, score_blocks, unit_rows
from isogloss.measures.registry import measure


@measure(
    "l2_drift",
    higher_is_better=False,
    range=(0.0, float("inf")),
    invariances=("joint rotation", "joint shift", "permutation of items", "symmetric"),
    paper="Hussain & Dudev 2020",
)
def l2_drift(x: Tensor, y: Tensor) -> float:
    """Mean Euclidean distance between corresponding rows of x (n, d) and y (n, d), in float64.

    Grows with the length of the vectors, so compare models of one family only, or read `cosine_drift` beside it.

    >>> l2_drift(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), torch.tensor([[3.0, 4.0], [1.0, 1.0]]))
    2.5
    """
    return float(l2_distances(x, y).mean())


def l2_distances(x: Tensor, y: Tensor) -> Tensor:
    """The Euclidean distance of each row of x (n, d) to its counterpart in y (n, d) -> (n,), float64."""
    x, y = _same_width(x, y)
    return (x - y).norm(dim=1)


@measure(
    "cosine_drift",
    higher_is_better=False,
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
    """1 - cos of each row of x (n, d) with its counterpart in y (n, d) -> (n,), float64."""
    x, y = _same_width(x, y)
    cosines = (unit_rows(x) * unit_rows(y)).sum(dim=1)
    # Rounding lets the cosine of equal vectors exceed 1, which would be a negative distance.
    return (1 - cosines).clamp(min=0, max=2)


@measure(
    "anisotropy",
    higher_is_better=False,
    range=(-1.0, 1.0),
    invariances=("rotation", "scale", "permutation of items"),
    paper="Ethayarajh 2019, How Contextual are Contextualized Word Representations?",
    takes="space",
)
def anisotropy(x: Tensor) -> float:
    """Mean cosine of two different rows of x (n, d), over all pairs: near 0 if directions are spread, 1 if all agree.

    No pair is visited: with unit rows u_i it is (|sum u_i|^2 - sum |u_i|^2) / (n (n - 1)), in float64.

    >>> anisotropy(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))  # cosines 0, 1 and 0
    0.3333333333333333
    """
    units = unit_rows(double(matrix(x, at_least=2)))
    n = units.shape[0]
    total = float(units.sum(dim=0).square().sum() - units.square().sum()) / (n * (n - 1))
    return max(-1.0, min(1.0, total))


@measure(
    "neighbourhood_overlap",
    higher_is_better=True,
    range=(0.0, 1.0),
    invariances=("rotation", "scale", "permutation of items", "symmetric"),
    paper="",
)
def neighbourhood_overlap(
    x: Tensor, y: Tensor, *, k: int = 10, method: str = "cosine", block: int | None = None
) -> float:
    """Mean share of an item's k nearest items in x (n, dx) that are also among its k nearest in y (n, dy).

    Each space is searched by itself, so the widths may differ; `method` is "cosine" or "centred". Independent spaces
    score about k / (n - 1). Where several items are equally near and only some fit among the k, each of them counts
    with the share of them that fits: two collapsed spaces score the floor, not 1. Scores (block, n) at a time.
    """
    x, y = paired(x, y, at_least=2)
    n = x.shape[0]
    if not 1 <= k < n:
        raise InputError(f"k must lie between 1 and n - 1 = {n - 1}, not {k}")
    if method not in ("cosine", "centred"):
        raise InputError(f"unknown method {method!r} of neighbourhoods; known are cosine, centred")
    sides = [unit_rows(side - mean_row(side) if method == "centred" else side) for side in (x, y)]
    blocks = [score_blocks(Scoring(side, side, "cosine"), block=block) for side in sides]
    total = 0.0
    for (rows, tile_x), (_, tile_y) in zip(*blocks, strict=True):
        common = _membership(tile_x, rows, k) * _membership(tile_y, rows, k)
        total += float(double(common.sum(dim=1)).sum())
    return min(1.0, total / (n * k))


def _membership(tile: Tensor, rows: Tensor, k: int) -> Tensor:
    """How much each item belongs to the k nearest of each row: (b, n) scores -> (b, n) in [0, 1], rows summing to k."""
    tile[torch.arange(rows.numel(), device=tile.device), rows] = -torch.inf  # nobody is its own neighbour
    last = tile.topk(k).values[:, -1:]  # (b, 1)
    above = (tile > last + TIE[tile.dtype]).to(tile.dtype)
    tied = (tile >= last - TIE[tile.dtype]).to(tile.dtype) - above
    return above + tied * ((k - above.sum(dim=1)) / tied.sum(dim=1))[:, None]


def _same_width(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x, y = paired(x, y)
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"x has width {x.shape[1]} and y has width {y.shape[1]}; a drift compares vectors of one width"
        )
    return double(x), double(y)
