"""Ways to bring two spaces together, by name: a mapping, and what is done to both spaces first.

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
from isogloss.mappings.mapping import Mapping
from isogloss.mappings.methods import MAPPINGS, fit_mapping, unmapped
from isogloss.mappings.normalise import NORMALISATIONS, Normalisation

UNMAPPED = {"raw": "none", "centred": "centred", "normalised": "iterative"}


@dataclass(frozen=True)
class MappingSpec:
    """A mapping that is fitted, or none (`method` is empty), and a normalisation of both spaces."""

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
        normalisations: tuple[Normalisation, Normalisation] | None = None,
        refine: int = 0,
        ridge_strength: float = 1.0,
    ) -> Mapping:
        """Fit the mapping.

        Args:
            x: Vectors of the source, (n, d).
            y: Vectors of their translations, (n, d).
            spaces: All vectors of either side, by which both are normalised.
            normalisations: The normalisation of either side, where it is known already.
            refine: Rounds of refinement by mutual neighbours.
            ridge_strength: Strength of ridge.

        """
        if not self.learns:
            return unmapped(*spaces, normalise=self.normalise)
        return fit_mapping(
            x,
            y,
            method=self.method,
            normalise=self.normalise,
            spaces=spaces,
            shapes=normalisations,
            refine=refine,
            strength=ridge_strength,
        )


def parse_mappings(text: str | Sequence[str]) -> list[MappingSpec]:
    """The specs of --mappings, separated by commas, none of them twice.

    >>> [spec.normalise for spec in parse_mappings("raw,procrustes+iterative")]
    ['none', 'iterative']
    """
    names = [name.strip() for name in (text.split(",") if isinstance(text, str) else text)]
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise InputError(f"--mappings has {twice[0]} twice")
    specs = []
    for name in names:
        if name in UNMAPPED:
            specs.append(MappingSpec(name, "", UNMAPPED[name]))
            continue
        method, plus, normalise = name.partition("+")
        if method not in MAPPINGS or (plus and normalise not in NORMALISATIONS):
            raise InputError(
                f"--mappings takes {', '.join(UNMAPPED)}, or {', '.join(MAPPINGS)} with or without "
                f"{', '.join(f'+{each}' for each in NORMALISATIONS[1:])}, not {name!r}"
            )
        specs.append(MappingSpec(name, method, normalise or "none"))
    return specs


def underdetermined_note(name: str, pairs: int, width: int, what: str) -> str:
    """What it means that a mapping was fitted on fewer pairs than there are directions."""
    return (
        f"{name} was fitted on {pairs:,} pairs for {width:,} directions: where the pairs do not reach, the map is "
        f"arbitrary, and {what} should be larger before these scores are read as what the spaces allow"
    )
