"""Nearest neighbours between two sets of vectors, block by block: a large n x m matrix of scores is never built.

Methods, all on vectors of length one:

    cosine        cos(x, y)
    csls          2 cos(x, y) - r(x) - r(y), r the mean cosine to the k nearest in the other set (Conneau et al. 2018)
    margin        cos(x, y) / ((r(x) + r(y)) / 2) (Artetxe & Schwenk 2019)
    centred       cosine after subtracting each set's mean
    centred-csls  CSLS after subtracting each set's mean

Plain cosine suffers from hubs: a few candidates that are near to everything and are retrieved for every query. CSLS and
the margin take off what a candidate gives to everybody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import matrix, mean_row

METHODS = ("cosine", "centred", "csls", "centred-csls", "margin")

# Scores held at once: 128 MiB in float32. Larger blocks are hardly faster, and smaller ones starve the matrix product.
SCORES_AT_ONCE = 2**25

# Cosines that are kept to be read several times: 16 MiB in float32.
KEPT = 2**22

# Cosines of unit vectors that differ by less than this are equal up to rounding.
TIE = {torch.float32: 1e-6, torch.float64: 1e-12}


@dataclass(frozen=True, eq=False)
class Scoring:
    """What a block of scores is made of.

    Unit rows `x` (n, d) and `y` (m, d) and, for CSLS and the margin, the mean cosine of each row to its k nearest in
    the other set, `near_x` (n,) and `near_y` (m,). `form` is "cosine", "csls" or "margin". `cosines` (n, m), where
    they are kept, are not computed again.
    """

    x: Tensor
    y: Tensor
    form: str
    near_x: Tensor | None = None
    near_y: Tensor | None = None
    cosines: Tensor | None = None

    def flipped(self) -> "Scoring":
        """The same scores with queries and candidates exchanged."""
        cosines = None if self.cosines is None else self.cosines.T.contiguous()
        return Scoring(self.y, self.x, self.form, self.near_y, self.near_x, cosines)


def scoring(x: Tensor, y: Tensor, *, method: str = "cosine", k: int = 10, block: int | None = None) -> Scoring:
    """Prepare scores between x (n, d) and y (m, d); `k` neighbours for CSLS and the margin."""
    return adjusted(cosine_scoring(x, y, centred=centres(method)), method=method, k=k, block=block)


def centres(method: str) -> bool:
    """Whether a method subtracts each set's mean; an unknown one is refused."""
    if method not in METHODS:
        raise InputError(f"unknown retrieval method {method!r}; known are {', '.join(METHODS)}")
    return method.startswith("centred")


def cosine_scoring(x: Tensor, y: Tensor, *, centred: bool = False) -> Scoring:
    """Cosines between x (n, d) and y (m, d), which the scores of every method are made of."""
    x, y = matrix(x, name="x"), matrix(y, name="y")
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"x has width {x.shape[1]} and y has width {y.shape[1]}; vectors to compare need the same width"
        )
    if x.dtype != y.dtype:
        x, y = x.double(), y.double()
    x, y = (unit_rows(side - mean_row(side) if centred else side) for side in (x, y))
    return Scoring(x, y, "cosine")


def adjusted(plain: Scoring, *, method: str, k: int = 10, block: int | None = None) -> Scoring:
    """A method's scores from its cosines; `k` neighbours for CSLS and the margin."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    form = method.removeprefix("centred-").replace("centred", "cosine")
    if form == "cosine":
        return plain
    near_x = top(plain, k=k, block=block)[0].mean(dim=1)
    near_y = top(plain.flipped(), k=k, block=block)[0].mean(dim=1)
    return replace(plain, form=form, near_x=near_x, near_y=near_y)


def kept(plain: Scoring) -> Scoring:
    """The same with all cosines computed now, unless there are too many: for whoever reads them more than once."""
    few = plain.x.shape[0] * plain.y.shape[0] <= KEPT
    return replace(plain, cosines=plain.x @ plain.y.T) if few else plain


def unit_rows(x: Tensor) -> Tensor:
    """Rows of `x` (n, d) divided by their lengths; rows of zeros stay zero."""
    return x / x.norm(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def score_blocks(
    scores: Scoring, rows: Tensor | None = None, *, block: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """The scores of the queries `rows` (all if None), some at a time: yields (row numbers (b,), scores (b, m)).

    The scores are written into one buffer that is used again for the next block; whoever consumes them may overwrite
    them and must not keep them. (Fresh memory for each block costs as much time as the product itself.)
    """
    m = scores.y.shape[0]
    rows = torch.arange(scores.x.shape[0], device=scores.x.device) if rows is None else rows
    size = min(block or max(1, SCORES_AT_ONCE // m), max(1, rows.numel()))
    buffer = scores.x.new_empty(size, m)
    for part in torch.split(rows, size):
        tile = buffer[: part.numel()]  # (b, m)
        if scores.cosines is None:
            torch.mm(scores.x[part], scores.y.T, out=tile)
        else:
            torch.index_select(scores.cosines, 0, part, out=tile)
        yield part, _adjust(tile, scores, part)


def _adjust(tile: Tensor, scores: Scoring, rows: Tensor) -> Tensor:
    """Cosines (b, m) to scores, in place."""
    if scores.near_x is None or scores.near_y is None:
        return tile
    if scores.form == "csls":
        return tile.mul_(2).sub_(scores.near_x[rows, None]).sub_(scores.near_y)
    return tile.div_(_margin_divisor(scores.near_x[rows, None], scores.near_y))


def _margin_divisor(near_x: Tensor, near_y: Tensor) -> Tensor:
    # Where neighbours point away from each other the divisor would turn negative and reverse the order.
    return ((near_x + near_y) / 2).clamp(min=torch.finfo(near_x.dtype).eps)


def pair_scores(scores: Scoring, pairs: Tensor) -> Tensor:
    """The scores of given pairs: row numbers (p, 2) into x and y -> (p,)."""
    parts = []
    for part in torch.split(pairs, 2**16):
        i, j = part.T
        cosine = (scores.x[i] * scores.y[j]).sum(dim=1)
        if scores.near_x is not None and scores.near_y is not None:
            near_x, near_y = scores.near_x[i], scores.near_y[j]
            cosine = 2 * cosine - near_x - near_y if scores.form == "csls" else cosine / _margin_divisor(near_x, near_y)
        parts.append(cosine)
    return torch.cat(parts) if parts else scores.x.new_empty(0)


def top(scores: Scoring, rows: Tensor | None = None, *, k: int, block: int | None = None) -> tuple[Tensor, Tensor]:
    """The `k` best candidates of each query: (scores (q, k), candidate numbers (q, k)), best first."""
    k = min(k, scores.y.shape[0])
    best = [tile.topk(k) for _, tile in score_blocks(scores, rows, block=block)]
    return torch.cat([part.values for part in best]), torch.cat([part.indices for part in best])


def nearest(
    x: Tensor,
    y: Tensor,
    *,
    method: str = "cosine",
    k: int = 10,
    neighbours: int = 10,
    rows: Tensor | None = None,
    block: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` best candidates in y (m, d) for the rows of x (n, d): scores (n, k) and row numbers of y (n, k).

    `rows` restricts the queries while hubs are still judged by all of x; `neighbours` is the k of CSLS and the margin;
    `block` is how many queries are scored at once.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> nearest(x, x.flip(0), k=1)[1].flatten().tolist()
    [1, 0]
    """
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    return top(scoring(x, y, method=method, k=neighbours, block=block), rows, k=k, block=block)


def mutual(x: Tensor, y: Tensor, *, method: str = "csls") -> tuple[Tensor, Tensor]:
    """Pairs that are each other's best: (pairs (p, 2) of row numbers into x and y, their scores (p,)), best first.

    What dictionary induction keeps. x (n, d), y (m, d).
    """
    scores = scoring(x, y, method=method)
    values, forward = (part[:, 0] for part in top(scores, k=1))
    backward = top(scores.flipped(), k=1)[1][:, 0]
    i = torch.arange(forward.numel(), device=forward.device)
    kept = i[backward[forward] == i]
    kept = kept[values[kept].argsort(descending=True, stable=True)]
    return torch.stack([kept, forward[kept]], dim=1), values[kept]
