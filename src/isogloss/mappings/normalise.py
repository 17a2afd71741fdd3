"""Normalise a vector space before it is mapped, and apply the same normalisation to new vectors later.

Every kind is a number of rounds of "divide each row by its norm (r), subtract the mean (c)", and a last division.

    none        nothing
    centred     subtract the mean
    length      divide by the norm
    iterative   five rounds and a last division: r c r c r c r c r c r (Zhang et al. 2019)

After the iterative kind every row has norm 1 *and* the mean is nearly zero, as a rotation requires, which can neither
shift nor scale a space. Means are taken over the whole space of a language, not only over the rows of a dictionary, and
are stored, so that new vectors are normalised with the same means.

Three further kinds remove the directions that separate the languages of a model, and leave the rest of the space
unchanged. `centred` is the simplest removal: of each language's mean.

    lir     remove from x its projection on the first singular vectors of its language's vectors (Yang et al. 2021)
    lsar    remove from x its projection on the span of the centred means of the languages (Xie et al. 2022)
    leace   x - S^(1/2) P S^(-1/2) (x - mean), with S the covariance of all languages together and P the projection onto
            their whitened means: afterwards no linear classifier predicts the language, and no linear map achieves this
            with a smaller change of x (Belrose et al. 2023)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.inputs import double, matrix, same_width
from isogloss.measures.retrieval import unit_rows

NORMALISATIONS = ("none", "centred", "length", "iterative")
REMOVALS = ("lir", "lsar", "leace")
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Normalisation:
    """The normalisation of the vectors of one space.

    means: (rounds, d), float64, the mean subtracted in each round. mean: (d,), float64, of the original space. removed:
    for a removal, (2, r, d), float64: a vector's coefficients are its products with the first r rows, and the
    combination of the last r rows with these is subtracted; `means` is then the origin of the coefficients.
    """

    kind: str
    means: Tensor = field(repr=False)
    mean: Tensor = field(repr=False)
    removed: Tensor | None = field(default=None, repr=False)

    @property
    def lengths(self) -> bool:
        """Whether rows are divided by their norms, before each subtraction and once after the last."""
        return self.kind in ("length", "iterative")

    def __call__(self, x: Tensor) -> Tensor:
        """Normalise x (n, d) like the space, in the precision of x (integers become float32)."""
        if x.shape[-1] != len(self.mean):
            raise InputError(f"these vectors have width {x.shape[-1]} and the space has width {len(self.mean)}")
        x = x if x.is_floating_point() else x.float()
        if self.removed is not None:
            read, subtracted = self.removed.to(x)
            return x - (x - self.means[0].to(x)) @ read.T @ subtracted
        for mean in self.means:
            x = (unit_rows(x) if self.lengths else x) - mean.to(x)
        return unit_rows(x) if self.lengths else x


def normalisation(space: Tensor, kind: str = "iterative") -> Normalisation:
    """Compute the normalisation of a whole space (n, d).

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> shaped = normalisation(space)(space)
    >>> [round(length, 4) for length in shaped.norm(dim=1).tolist()], bool((shaped.mean(dim=0).abs() < 0.2).all())
    ([1.0, 1.0, 1.0], True)
    """
    whole = matrix(space, name="the space")
    return streamed_normalisations(lambda: [whole[None]], kind)[0]


def normalisations(spaces: Sequence[Tensor], kind: str, *, rank: int | None = None) -> list[Normalisation]:
    """Compute the normalisation of each of several spaces (n, d), one per language; removals use all of them together.

    Args:
        spaces: vectors of each language, of one model for removals.
        kind: one of `NORMALISATIONS` or of `REMOVALS`.
        rank: number of directions that `lir` and `lsar` remove; by default 1, and all in which the means differ.

    >>> en = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> nl = en + torch.tensor([0.0, 5.0])
    >>> shaped = [own(space) for own, space in zip(normalisations([en, nl], "leace"), (en, nl))]
    >>> bool(torch.allclose(shaped[0].mean(dim=0), shaped[1].mean(dim=0), atol=1e-5))
    True
    """
    if kind not in REMOVALS:
        return [normalisation(space, kind) for space in spaces]
    require(rank is None or rank >= 1, f"rank is how many directions are removed, at least 1, not {rank}")
    whole = [double(matrix(space, name="a space")).cpu() for space in spaces]
    if kind == "lir":
        own = [torch.linalg.svd(space, full_matrices=False).Vh[: rank or 1] for space in whole]
        removals = [(torch.zeros_like(basis[:1]), torch.stack([basis, basis])) for basis in own]
    else:
        removals = [_separating(whole, kind, rank)] * len(whole)
    kinds = zip(whole, removals, strict=True)
    return [Normalisation(kind, origin, space.mean(dim=0), removed) for space, (origin, removed) in kinds]


def _separating(spaces: Sequence[Tensor], kind: str, rank: int | None) -> tuple[Tensor, Tensor]:
    """The origin (1, d) and the directions (2, r, d) that `lsar` or `leace` removes from all languages."""
    require(len(spaces) > 1, f"{kind} removes what separates languages, so it needs two languages or more")
    for space in spaces[1:]:
        same_width(spaces[0], space, f"{kind} needs languages in the space of one model")
    means = torch.stack([space.mean(dim=0) for space in spaces])  # (languages, d)
    if kind == "lsar":
        basis = _span(means - means.mean(dim=0))[:rank]
        return torch.zeros_like(means[:1]), torch.stack([basis, basis])
    total = sum(map(len, spaces))
    origin = torch.stack([space.sum(dim=0) for space in spaces]).sum(dim=0, keepdim=True) / total
    covariance = torch.stack([(space - origin).T @ (space - origin) for space in spaces]).sum(dim=0) / total
    variances, axes = torch.linalg.eigh(covariance)
    known = variances > 1e-12 * variances[-1]  # the others have no variance
    axes, roots = axes[:, known], variances[known].sqrt()
    basis = _span((means - origin) @ axes / roots)  # (r, axes), of the whitened means
    return origin, torch.stack([basis / roots @ axes.T, basis * roots @ axes.T])


def streamed_normalisations(read: Callable[[], Iterable[Tensor]], kind: str = "iterative") -> list[Normalisation]:
    """`normalisation` of several spaces that do not fit into memory, such as all words of a text at every layer.

    read: yields the vectors at each call, in chunks (spaces, n, d); it is called once for each round, and at least
    once.

    >>> space = torch.tensor([[3.0, 1.0], [1.0, 1.0], [0.0, 2.0]])
    >>> (streamed,) = streamed_normalisations(lambda: [space[None, :2], space[None, 2:]])
    >>> bool(torch.allclose(streamed.means, normalisation(space).means))
    True
    """
    require(kind in NORMALISATIONS, f"normalisation {kind!r} is not known; choose {', '.join(NORMALISATIONS)}")
    rounds = {"centred": 1, "iterative": ROUNDS}.get(kind, 0)
    shapes: list[Normalisation] = []
    for _ in range(max(1, rounds)):
        totals, n = None, 0  # sums of the rows, original and normalised so far, (2, spaces, d)
        for chunk in read():
            n += chunk.shape[1]
            parts = [matrix(space, name="a space") for space in chunk]
            none = torch.zeros((0, chunk.shape[2]), dtype=torch.float64)
            shapes = shapes or [Normalisation(kind, none, none.sum(dim=0)) for _ in parts]
            # The last division of the rounds so far is the first of this round.
            shaped = [shape(part) for shape, part in zip(shapes, parts, strict=True)]
            sums = torch.stack([torch.stack([_double_sum(part) for part in side]) for side in (parts, shaped)])
            totals = sums if totals is None else totals + sums
        if totals is None or not n:
            raise InputError("there are no vectors to take the means of")
        shapes = [
            replace(shape, means=torch.cat([shape.means, total[None] / n])[:rounds], mean=own / n)
            for shape, own, total in zip(shapes, *totals, strict=True)
        ]
    return shapes


def _span(rows: Tensor) -> Tensor:
    """An orthonormal basis (r, d) of the span of rows (k, d), the direction of largest variation first."""
    _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
    largest = sizes[:1].clamp(min=torch.finfo(rows.dtype).tiny)  # no directions if all rows are zero
    return directions[sizes > 1e-9 * largest]


def _double_sum(x: Tensor) -> Tensor:
    """Sum of the rows in float64 on the CPU, without a float64 copy of all rows."""
    x = x.cpu() if x.device.type == "mps" else x
    return x.sum(dim=0, dtype=torch.float64).cpu()
