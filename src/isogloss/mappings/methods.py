"""Methods to fit a map from pairs, each a pure function from two matrices to W, registered with its properties.

    procrustes      the rotation (it may reflect) with minimal |X W' - Y|: W = U V', where U S V' = SVD(Y' X)
    least-squares   the linear map with minimal |X W' - Y|
    ridge           the same plus strength * |W|^2, without an intercept: W' = (X'X + strength I)^-1 X'Y

If several maps fit equally well, as with fewer pairs than dimensions, least squares takes the smallest. A rotation
preserves all distances within a space, so it can only succeed if the two spaces have the same shape; the other maps
overfit few pairs and generalise worse to new words. All compute in float64.

Commands name a method together with a normalisation of both spaces (`parse_mappings`):

    raw                     nothing: vectors are unchanged
    centred                 subtract the mean of each space
    normalised              iterative normalisation of each space
    lir, lsar, leace        remove the directions that separate the two languages
    procrustes              a rotation; likewise least-squares and ridge
    procrustes+iterative    a rotation after iterative normalisation; likewise +centred, +length and the removals
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.mappings.mapping import Mapping
from isogloss.mappings.normalise import NORMALISATIONS, REMOVALS, Normalisation, normalisations as normalisations_of
from isogloss.measures.inputs import double, paired, same_width
from isogloss.measures.retrieval import mutual

Spaces = tuple[Tensor, Tensor]
MOST_REFINED = 10_000  # rows of each space used in refinement, of which the first are the most frequent words


@dataclass(frozen=True)
class Method:
    """solve(x (n, d_x), y (n, d_y), strength) -> W (d_y, d_x), all float64. keeps_distances: W is orthogonal."""

    name: str
    solve: Callable[[Tensor, Tensor, float], Tensor]
    keeps_distances: bool
    paper: str


def fit_mapping(
    x: Tensor,
    y: Tensor,
    *,
    method: str = "procrustes",
    normalise: str = "none",
    spaces: Spaces | None = None,
    normalisations: tuple[Normalisation, Normalisation] | None = None,
    restore: str = "normalised",
    refine: int = 0,
    ridge_strength: float = 1.0,
) -> Mapping:
    """Fit a map from x (n, d_x) to y (n, d_y), whose rows correspond.

    Args:
        x: (n, d_x) vectors of the source space.
        y: (n, d_y) their counterparts in the target space.
        method: one of `MAPPINGS`.
        normalise: the normalisation of each space, see `isogloss.mappings.normalise`.
        spaces: all vectors of each side, over which means are taken; by default x and y themselves.
        normalisations: those of both sides if already computed, for spaces too large for memory; `normalise` is then
            ignored.
        restore: the form of mapped vectors, see `Mapping`.
        refine: rounds in which the pairs are replaced by mutual nearest neighbours of the two spaces by CSLS, and the
            map is fitted again (Conneau et al. 2018 use 5). The first 10,000 rows are used, so spaces should be in
            order of frequency.
        ridge_strength: the penalty on |W|^2 of ridge, at least 0.
    """
    require(method in MAPPINGS, f"mapping {method!r} is not known; choose {', '.join(MAPPINGS)}")
    x, y = paired(x, y)
    if MAPPINGS[method].keeps_distances:
        one_width = "a rotation needs two spaces of the same width; take models of one width, or least-squares"
        same_width(x, y, one_width)
    require(refine >= 0, f"refine takes a number of rounds from 0 on, not {refine}")
    whole_x, whole_y = (x, y) if spaces is None else spaces
    source, target = normalisations or normalisations_of((whole_x, whole_y), normalise)
    solve = MAPPINGS[method].solve
    weight = solve(double(source(x)), double(target(y)), ridge_strength)
    pairs = x.shape[0]
    if refine:
        near_x, near_y = double(source(whole_x[:MOST_REFINED])), double(target(whole_y[:MOST_REFINED]))
        for _ in range(refine):
            matched, _ = mutual(near_x @ weight.T, near_y, method="csls")
            weight, pairs = solve(near_x[matched[:, 0]], near_y[matched[:, 1]], ridge_strength), matched.shape[0]
    return Mapping(method, weight.cpu(), source=source, target=target, pairs=pairs, restore=restore)


def remove_languages(
    spaces: dict[str, Tensor], *, method: str = "leace", rank: int | None = None
) -> dict[str, Mapping]:
    """Mappings that remove from each language what distinguishes it from the others, fitted on all languages.

    Args:
        spaces: language -> (n, d), vectors of one model. They need not be parallel, nor equal in number.
        method: "centred" (each language's mean), "lir", "lsar" or "leace", see `isogloss.mappings.normalise`.
        rank: number of directions that `lir` and `lsar` remove; by default 1, and all in which the means differ.

    >>> en = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> without = remove_languages({"en": en, "nl": en + torch.tensor([0.0, 7.0])}, method="lsar")
    >>> without["nl"](torch.tensor([[5.0, 3.0]])).tolist()
    [[5.0, 0.0]]
    """
    removals = ("centred", *REMOVALS)
    require(method in removals, f"removal {method!r} is not known; choose {', '.join(removals)}")
    shapes = normalisations_of(list(spaces.values()), method, rank=rank)
    identity = torch.eye(len(shapes[0].mean), dtype=torch.float64)
    return {language: Mapping(method, identity, own, own, 0) for language, own in zip(spaces, shapes, strict=True)}


def procrustes(
    x: Tensor,
    y: Tensor,
    *,
    normalise: str = "none",
    spaces: Spaces | None = None,
    restore: str = "normalised",
    refine: int = 0,
) -> Mapping:
    """Fit the rotation (reflections allowed) from x (n, d) to y (n, d) with the least squared error.

    With normalise="none" this is `scipy.linalg.orthogonal_procrustes`; "iterative" is the method of Conneau, Wu et al.
    (2020). The other arguments are those of `fit_mapping`.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> turn = procrustes(x, x @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    >>> (turn(torch.tensor([[5.0, 0.0]])) + 0).round(decimals=4).tolist()
    [[0.0, 5.0]]
    """
    return fit_mapping(x, y, method="procrustes", normalise=normalise, spaces=spaces, restore=restore, refine=refine)


def _procrustes(x: Tensor, y: Tensor, strength: float) -> Tensor:
    u, _, vh = torch.linalg.svd(y.T @ x)
    return u @ vh


def _least_squares(x: Tensor, y: Tensor, strength: float) -> Tensor:
    # gelsd finds the smallest of several solutions; it is available on the CPU only.
    return torch.linalg.lstsq(x.cpu(), y.cpu(), driver="gelsd").solution.T.to(x.device)


def _ridge(x: Tensor, y: Tensor, strength: float) -> Tensor:
    if strength == 0:
        return _least_squares(x, y, strength)
    gram = x.T @ x + strength * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    return torch.linalg.solve(gram, x.T @ y).T


MAPPINGS = {
    method.name: method
    for method in (
        Method("procrustes", _procrustes, True, "Schonemann 1966; Conneau, Wu et al. 2020"),
        Method("least-squares", _least_squares, False, "Mikolov, Le & Sutskever 2013"),
        Method("ridge", _ridge, False, "Hoerl & Kennard 1970"),
    )
}
"""Every method to fit a map, by name; add a line for a new one."""


# --- mappings by name

UNMAPPED = {
    "raw": "none",
    "centred": "centred",
    "normalised": "iterative",
    **dict(zip(REMOVALS, REMOVALS, strict=True)),
}


@dataclass(frozen=True)
class MappingSpec:
    """A method to fit a mapping, or none (`method` is empty), and a normalisation of both spaces.

    options: further arguments of `fit_mapping`.
    """

    name: str
    method: str
    normalise: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def learns(self) -> bool:
        """Whether it needs pairs for fitting."""
        return self.method != ""

    @property
    def saved(self) -> bool:
        """Whether there is something to save: a fitted map, or the removed directions of each language."""
        return self.learns or self.normalise in REMOVALS

    def fit(self, x: Tensor, y: Tensor, *, spaces: Spaces, **more: Any) -> Mapping:
        """Fit the mapping on x (n, d_x) and y (n, d_y); the other arguments are those of `fit_mapping`.

        Without a method it only normalises each space, of equal widths: the baseline of a fitted map.
        """
        if self.learns:
            options = {"method": self.method, "normalise": self.normalise, "spaces": spaces, **self.options, **more}
            return fit_mapping(x, y, **options)
        source, target = normalisations_of(spaces, self.normalise)
        return Mapping("none", torch.eye(x.shape[1], dtype=torch.float64), source, target, 0)


def parse_mappings(text: str | Sequence[str], **options: Any) -> list[MappingSpec]:
    """Parse the comma-separated specs of --mappings, without repetitions; options: other arguments of `fit_mapping`.

    >>> [spec.normalise for spec in parse_mappings("raw,procrustes+iterative")]
    ['none', 'iterative']
    """
    names = [name.strip() for name in (text.split(",") if isinstance(text, str) else text)]
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise InputError(f"--mappings has {twice[0]} twice")
    specs = []
    for name in names:
        if name in UNMAPPED:
            specs.append(MappingSpec(name, "", UNMAPPED[name]))
            continue
        method, plus, normalise = name.partition("+")
        if method not in MAPPINGS or (plus and normalise not in (*NORMALISATIONS, *REMOVALS)):
            raise InputError(
                f"--mappings takes {', '.join(UNMAPPED)}, or {', '.join(MAPPINGS)} with or without "
                f"{', '.join(f'+{each}' for each in (*NORMALISATIONS[1:], *REMOVALS))}, not {name!r}"
            )
        specs.append(MappingSpec(name, method, normalise or "none", options))
    return specs


def check_widths(names: tuple[str, str], widths: tuple[int, int], specs: Sequence[MappingSpec]) -> None:
    """Raise for mappings that require equal widths if the widths differ."""
    free = ("least-squares", "ridge")
    bound = [spec.name for spec in specs if spec.method not in free]
    if widths[0] != widths[1] and bound:
        raise InputError(
            f"{names[0]} is {widths[0]} wide and {names[1]} {widths[1]}; {bound[0]} needs equal widths: choose others "
            f"with --mappings, such as {'+centred,'.join(free)}+centred"
        )


def underdetermined_note(name: str, pairs: int, width: int, what: str) -> str:
    """The note on a mapping that was fitted on fewer pairs than there are dimensions."""
    return (
        f"{name} was fitted on {pairs:,} pairs for {width:,} directions: the map is arbitrary in "
        f"directions that the pairs do not span, so {what} should be larger to draw conclusions about the spaces"
    )
