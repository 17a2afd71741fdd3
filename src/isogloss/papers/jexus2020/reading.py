"""Accuracies by N, language and seed, and alignment by layer, out of the one table."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isogloss.papers.jexus2020.published import NOTHING_FROZEN, plan_of
from isogloss.papers.jexus2020.texts import DUTCH
from isogloss.recipes.task_scores import ORACLE, OTHERS
from isogloss.text.languages import short_name

Floats = NDArray[np.float64]
_Placed = dict[tuple[str, str], dict[int, float]]  # variant and target -> seed -> value
# How well a layer's languages are aligned, by measures of `map`: their column `measure`, and `variant`.
ALIGNMENT = {
    "centred P@1": ("p@1", "centred"),
    "CSLS P@1": ("p@1", "csls"),
    "CKA": ("cka", "debiased"),
    "word agreement": ("word_agreement", "centred"),
}


@dataclass(frozen=True)
class Results:
    """The rows of a reproduction, and what they are of."""

    rows: pd.DataFrame

    @cached_property
    def _scores(self) -> pd.DataFrame:
        """Accuracies of single seeds."""
        rows = self.rows
        return rows[(rows["measure"] == "accuracy") & (rows["task"] == "nli") & rows["seed"].notna()]

    @cached_property
    def _maps(self) -> pd.DataFrame:
        return self.rows[self.rows["layer"].notna()]

    @cached_property
    def model(self) -> str:
        """The model's name."""
        return str(self.rows["model"].iloc[0])

    @cached_property
    def source(self) -> str:
        """The language that is trained in."""
        some = self._scores if len(self._scores) else self._maps
        return str(some["source"].iloc[0])

    @cached_property
    def targets(self) -> list[str]:
        """The other languages of XNLI, in the order of the table; Dutch is of other data."""
        return [one for one in self.languages if one not in (self.source, DUTCH)]

    @cached_property
    def languages(self) -> list[str]:
        """Every language that was tested or, where none was, mapped: the source first, Dutch last."""
        some = self._scores if len(self._scores) else self._maps
        there = dict.fromkeys([self.source, *some["target"]])
        return [one for one in there if one not in (OTHERS, DUTCH)] + [DUTCH] * (DUTCH in there)

    @cached_property
    def depth(self) -> int:
        """How many blocks the model has, as far as the rows tell."""
        layers = int(self._maps["layer"].max()) if len(self._maps) else 0
        return max([layers, *(one + 1 for one in self.points)])

    @cached_property
    def points(self) -> list[int]:
        """Every N that was run, in order."""
        plans = {str(one).removesuffix(f" {ORACLE}") for one in self._scores["variant"]}
        return sorted(int(one.removeprefix(plan_of(0)[:-1])) for one in plans)

    @cached_property
    def _values(self) -> _Placed:
        return _placed(self._scores, "value")

    @cached_property
    def _floors(self) -> _Placed:
        return _placed(self._scores, "floor")

    def accuracy(self, point: int, language: str, *, oracle: bool = False) -> dict[int, float]:
        """Accuracy by seed with N layers frozen; `others` is the mean over the other languages of XNLI."""
        variant = f"{plan_of(point)} {ORACLE}" if oracle else plan_of(point)
        return self._values.get((variant, language), {})

    @cached_property
    def seeds(self) -> list[int]:
        """The seeds that every N has."""
        each = [set(self.accuracy(point, self.source)) for point in self.points]
        return sorted(set.intersection(*each)) if each else []

    def curve(self, language: str, points: list[int] | None = None) -> Floats:
        """Accuracy (seeds, points) of a language: every N unless told."""
        wanted = self.points if points is None else points
        return np.array([[self.accuracy(point, language)[seed] for point in wanted] for seed in self.seeds])

    def floor(self, language: str) -> Floats:
        """What the same models' shuffled answers score (seeds, points)."""
        places = [self._floors[plan_of(point), language] for point in self.points]
        return np.array([[one[seed] for one in places] for seed in self.seeds])

    def alignment(self, name: str, language: str) -> dict[int, float]:
        """An alignment measure of the source with a language by layer, the mean of both directions."""
        measure, variant = ALIGNMENT[name]
        rows = self._maps[(self._maps["measure"] == measure) & (self._maps["variant"] == variant)]
        ends = {self.source, language}
        rows = rows[rows["source"].isin(ends) & rows["target"].isin(ends) & (rows["source"] != rows["target"])]
        means = rows.groupby("layer")["value"].mean()
        return {int(layer): float(value) for layer, value in zip(means.index, means, strict=True)}

    def both(self, name: str, language: str) -> tuple[list[int], Floats, Floats]:
        """N from 0 on, alignment at layer N, and accuracy with N layers frozen, where both are there."""
        aligned = self.alignment(name, language)
        points = [one for one in self.points if one > NOTHING_FROZEN and one in aligned]
        if not points or not self.accuracy(points[0], language):
            return [], np.zeros(0), np.zeros(0)
        return points, np.array([aligned[one] for one in points]), self.curve(language, points).mean(axis=0)


def _placed(rows: pd.DataFrame, column: str) -> _Placed:
    found: _Placed = {}
    columns = (rows[one] for one in ("variant", "target", "seed", column))
    for variant, target, seed, value in zip(*columns, strict=True):
        found.setdefault((str(variant), str(target)), {})[int(seed)] = float(value)
    return found


def title(language: str) -> str:
    """A language's name; invented ones have none but their code, and `others` is a mean.

    >>> title("de"), title("qaa"), title("others")
    ('German', 'qaa', 'mean of targets')
    """
    if language == OTHERS:
        return "mean of targets"
    return short_name(language)
