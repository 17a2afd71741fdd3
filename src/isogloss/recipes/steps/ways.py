"""Ways to bring two spaces together, by name: a map, and what is done to both spaces first.

raw                     nothing: vectors as they are
centred                 each space less its mean
normalised              each space iteratively normalised
procrustes              a rotation; likewise least-squares and ridge
procrustes+iterative    a rotation after iterative normalisation; likewise +centred and +length
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from isogloss.errors import InputError
from isogloss.mappings import MAPPINGS, NORMALISATIONS, Mapping, Normalisation, fit_mapping, unmapped

PLAIN = {"raw": "none", "centred": "centred", "normalised": "iterative"}


@dataclass(frozen=True)
class Way:
    """A map, or none (""), and a normalisation."""

    name: str
    method: str
    normalise: str

    @property
    def learns(self) -> bool:
        """Whether it needs pairs to learn from."""
        return self.method != ""

    def fit(
        self,
        x: Tensor,
        y: Tensor,
        *,
        spaces: tuple[Tensor, Tensor],
        shapes: tuple[Normalisation, Normalisation] | None = None,
        refine: int,
        strength: float,
    ) -> Mapping:
        """The mapping of pairs x (n, d) and y (n, d), normalised as the whole spaces are, or as `shapes` say."""
        if not self.learns:
            return unmapped(*spaces, normalise=self.normalise)
        return fit_mapping(
            x, y, method=self.method, normalise=self.normalise, spaces=spaces, shapes=shapes, refine=refine,
            strength=strength,
        )  # fmt: skip


def parse_ways(text: str | Sequence[str]) -> list[Way]:
    """The ways of --ways, separated by commas.

    >>> [one.normalise for one in parse_ways("raw,procrustes+iterative")]
    ['none', 'iterative']
    """
    names = [one.strip() for one in (text.split(",") if isinstance(text, str) else text)]
    twice = [one for place, one in enumerate(names) if one in names[:place]]
    if twice:
        raise InputError(f"--ways has {twice[0]} twice")
    return [_way(name) for name in names]


def _way(name: str) -> Way:
    if name in PLAIN:
        return Way(name, "", PLAIN[name])
    method, plus, normalise = name.partition("+")
    if method not in MAPPINGS or (plus and normalise not in NORMALISATIONS):
        raise InputError(
            f"--ways takes {', '.join(PLAIN)}, or {', '.join(MAPPINGS)} with or without "
            f"{', '.join(f'+{one}' for one in NORMALISATIONS[1:])}, not {name!r}"
        )
    return Way(name, method, normalise or "none")
