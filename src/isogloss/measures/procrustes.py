"""The distance left between two spaces after the best shift, scale and rotation of one onto the other.

A plain distance between two models that were trained apart says little: the same arrangement of words may lie turned in
another direction. Procrustes analysis first turns one onto the other as well as can be, reflections allowed, and then
measures what remains.
"""

import math

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import double, mean_row, paired
from isogloss.measures.registry import measure


@measure(
    "procrustes_distance",
    higher_is_better=False,
    range=(0.0, 1.0),
    invariances=("rotation", "scale", "shift", "permutation of items", "symmetric"),
    paper="Gower 1975, Generalized Procrustes Analysis; Schonemann 1966",
)
def procrustes_distance(x: Tensor, y: Tensor) -> float:
    """What is left of y (n, d) after x (n, d) was laid onto it: 0 if they have one shape, at most 1; in float64.

    With Xc and Yc centred, W orthogonal (it may reflect) and s > 0 a scale,

        min over s, W of |s Xc W - Yc|^2 / |Yc|^2 = 1 - (|Xc' Yc|_* / (|Xc| |Yc|))^2,

    where |.| is the Frobenius norm and |.|_* the sum of singular values: the `disparity` of `scipy.spatial.procrustes`.

    The footgun: d x d numbers are fitted. Two *independent* sets of n items leave far less than 1 unless n is much
    larger than d; read each value against `procrustes_floor`. NaN where a side does not vary.

    >>> x = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> round(procrustes_distance(x, 5 * x.flip(1) + 3), 6), round(procrustes_distance(x, x[[1, 0, 2]]), 6)
    (0.0, 0.48)
    """
    return _residual(*_centred(x, y))


def procrustes_floor(x: Tensor, y: Tensor, *, seed: int = 0, shuffles: int = 1) -> float:
    """What `procrustes_distance` leaves when the pairs are shuffled: the mean over `shuffles` seeded shuffles.

    The distance of two spaces that have nothing to do with each other, at this n, d and spread of directions. Shuffles
    differ little among themselves, and each costs as much as the value: one is the default.
    """
    if shuffles < 1:
        raise InputError(f"shuffles must be at least 1, not {shuffles}")
    x, y = _centred(x, y)
    generator = torch.Generator().manual_seed(seed)
    orders = (torch.randperm(x.shape[0], generator=generator).to(y.device) for _ in range(shuffles))
    return sum(_residual(x, y[order]) for order in orders) / shuffles


def _centred(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x, y = paired(x, y, at_least=2)
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"x has width {x.shape[1]} and y has width {y.shape[1]}; a rotation leads from a space to one equally wide"
        )
    x, y = double(x), double(y)
    return x - mean_row(x), y - mean_row(y)


def _residual(x: Tensor, y: Tensor) -> float:
    """The residual of centred x and y (n, d), float64."""
    norms = float(x.norm() * y.norm())
    if norms == 0:
        return math.nan
    if x.shape[0] < x.shape[1]:
        # With fewer items than directions, X' = Q R and X'Y = Q_x (R_x R_y') Q_y' has the singular values of an n x n.
        x, y = (torch.linalg.qr(side.T, mode="r").R.T for side in (x, y))
    product = (x.T @ y).cpu()  # finding singular values has little to do in parallel: a GPU is no quicker at it
    share = float(torch.linalg.svdvals(product).sum()) / norms
    return max(0.0, 1 - share * share)
