"""Curves and scores out of the one table, by part, pair of languages, kind of models, layer and seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from isogloss.papers.evidence import Interval, Seeds, mean_by_seed, over
from isogloss.papers.wu2020.published import DEFAULT, MONOLINGUAL, TABLE_1, TASKS
from isogloss.papers.wu2020.relations import RELATION, WAY

Curves = dict[int, Seeds]  # by layer
COLUMNS = ["measure", "task", "model", "source", "target", "unit", "variant", "layer", "seed", "value", "low", "high",
           "floor", "n"]  # fmt: skip
NEVER = -1  # the layer, or the seed, of what has none
# How far a language is from English: the same, Germanic, Romance, Slavic, of another family.
DISTANCE = {"en2": 0, "nl": 1, "de": 1, "fr": 2, "ru": 3, "zh": 4}


@dataclass(frozen=True)
class Value:
    """A measured value with its ends, what chance gives, and of how many items it is; NaN where absent."""

    value: float
    low: float
    high: float
    floor: float
    n: int


@dataclass(frozen=True)
class Results:
    """The rows of a reproduction, and what they are of."""

    rows: pd.DataFrame

    @cached_property
    def _all(self) -> dict[tuple[Any, ...], dict[tuple[int, int], Value]]:
        """Every row: by measure, task, model, source, target, unit and variant, then by layer and seed."""
        found: dict[tuple[Any, ...], dict[tuple[int, int], Value]] = {}
        table = self.rows[COLUMNS].copy()
        table[["layer", "seed", "n"]] = table[["layer", "seed", "n"]].fillna(NEVER)
        for *place, layer, seed, value, low, high, floor, n in table.itertuples(index=False):
            one = Value(float(value), float(low), float(high), float(floor), int(n))
            found.setdefault(tuple(place), {})[int(layer), int(seed)] = one
        return found

    @cached_property
    def source(self) -> str:
        """English, or what stands for it."""
        named = [str(one) for one in self.rows["source"] if one]
        return named[0] if named else ""

    def targets(self, task: str) -> list[str]:
        """The languages that a part has, in order, without the source."""
        rows = self.rows[self.rows["task"] == task]
        both = [*rows["target"], *rows["source"]]
        return [one for one in dict.fromkeys(map(str, both)) if one not in ("", self.source)]

    def cka(self, kind: str, target: str, form: str = "cka") -> Curves:
        """CKA by layer and seed."""
        return self._curves((form, "cka", kind, self.source, target, "sentence", ""))

    def cka_mean(self, kind: str, target: str, form: str = "cka") -> Seeds:
        """CKA as a mean over layers, by seed."""
        found = self._all.get((form, "cka", kind, self.source, target, "sentence", ""), {})
        return {seed: one.value for (layer, seed), one in found.items() if layer == NEVER and seed != NEVER}

    def retrieval(self, kind: str, target: str, way: str = WAY) -> Curves:
        """P@1 by layer and seed, from the source."""
        return self._curves(("p@1", "retrieval", kind, self.source, target, "sentence", way))

    def looked_up(self, kind: str, target: str, layer: int, way: str = WAY) -> Value | None:
        """P@1 at a layer of the first seed, with its interval and what chance gives."""
        return self._all.get(("p@1", "retrieval", kind, self.source, target, "sentence", way), {}).get((layer, 0))

    def relation(self, kind: str, target: str) -> dict[int, Value]:
        """The correlation of CKA and retrieval over layers, by seed."""
        found = self._all.get((RELATION, "cka", kind, self.source, target, "pearson", ""), {})
        return {seed: one for (_, seed), one in found.items() if seed != NEVER}

    def stitched(self, task: str, kind: str, target: str, way: str) -> Curves:
        """The score of a task in the target language on stitched layers, by layer and seed of the head."""
        return self._curves((TASKS[task], f"stitch {task}", kind, self.source, target, "", way))

    def words(self, target: str, *, unit: str = "word", kind: str = MONOLINGUAL) -> dict[int, Value]:
        """P@1 of words by CSLS after a rotation, by layer; what has no layer is at -1."""
        way = "procrustes+iterative csls"
        found = self._all.get(("p@1", "lexicon", kind, self.source, target, unit, way), {})
        return {layer: one for (layer, _), one in found.items()}

    def coverage(self, target: str, unit: str = "word") -> float | None:
        """The share of the test dictionary's words that the vocabularies know."""
        found = self._all.get(("coverage", "lexicon", MONOLINGUAL, self.source, target, unit, "test"), {})
        return next((one.value for one in found.values()), None)

    def transferred(self, task: str, variant: str, target: str, *, home: bool = False) -> Seeds:
        """The score of a bilingual model in the target language, by seed of the head; home: in the source."""
        pair, there = f"{self.source}-{target}", self.source if home else target
        found = self._all.get((TASKS[task], f"table-1 {task}", pair, self.source, there, "", variant), {})
        return {seed: one.value for (_, seed), one in found.items() if seed != NEVER}

    def floor(self, task: str, variant: str, target: str) -> float | None:
        """What chance gives there."""
        pair = f"{self.source}-{target}"
        found = self._all.get((TASKS[task], f"table-1 {task}", pair, self.source, target, "", variant), {})
        return next((one.floor for one in found.values()), None)

    def variants(self, task: str) -> list[str]:
        """The rows of Table 1 that were run."""
        there = {str(one) for one in self.rows.loc[self.rows["task"] == f"table-1 {task}", "variant"]}
        return [one for one in TABLE_1 if one in there]

    def losses(self, task: str, variant: str, targets: Sequence[str]) -> Seeds:
        """What a variant's score is above Default's, seed by seed, a mean over targets that have both."""
        sides = []
        for target in targets:
            mine, default = (self.transferred(task, one, target) for one in (variant, DEFAULT))
            if mine and default:
                sides.append({seed: value - default[seed] for seed, value in mine.items() if seed in default})
        return mean_by_seed(sides)

    def perplexities(self) -> list[tuple[str, str, str, Seeds]]:
        """Held-out perplexity a character of every model: languages, variant, language, values by seed."""
        rows = self.rows[(self.rows["task"] == "pretrain") & (self.rows["unit"] == "character")]
        found: dict[tuple[str, str, str], Seeds] = {}
        for data, variant, target, seed, value in rows[["data", "variant", "target", "seed", "value"]].itertuples(
            index=False
        ):
            if seed is not pd.NA:
                found.setdefault((str(data), str(variant), str(target)), {})[int(seed)] = float(value)
        return [(*where, seeds) for where, seeds in found.items()]

    def _curves(self, place: tuple[Any, ...]) -> Curves:
        found: Curves = {}
        for (layer, seed), one in sorted(self._all.get(place, {}).items()):
            if layer != NEVER and seed != NEVER:
                found.setdefault(layer, {})[seed] = one.value
        return found


def mean_over(curves: Curves, layers: Iterable[int]) -> Seeds:
    """The mean over some layers, those that are there, by seed."""
    return mean_by_seed(curves[layer] for layer in layers if layer in curves)


def slope(curves: Mapping[int, float]) -> float:
    """The least-squares slope of a curve over its layers.

    >>> round(slope({1: 3.0, 2: 2.0, 3: 1.0}), 6)
    -1.0
    """
    layers = sorted(curves)
    return float(np.polyfit(layers, [curves[layer] for layer in layers], 1)[0])


def averaged(curves: Curves) -> dict[int, float]:
    """The mean over seeds at each layer."""
    return {layer: float(np.mean(list(seeds.values()))) for layer, seeds in curves.items()}


def over_share(values: Seeds) -> Interval:
    """The same of shares of one, whose interval ends where they do."""
    found = over(values)
    return replace(found, low=max(0.0, found.low), high=min(1.0, found.high)) if found.known else found
