"""Scores, retrieval, similarity and perplexity out of the one table, by alignment, test, language and layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd

from isogloss.papers.evidence import Seeds
from isogloss.papers.pan2021.published import AIMS, BEFORE, SEARCH, TITLES
from isogloss.recipes.task_scores import OTHERS
from isogloss.text.languages import short_name

ALONE = -1  # the seed of the model as it was, which is mapped once


@dataclass(frozen=True)
class Results:
    """The rows of a reproduction, and what they are of."""

    rows: pd.DataFrame

    @cached_property
    def _scores(self) -> dict[tuple[str, ...], Seeds]:
        """Values without a layer of every seed: by measure, data, target, unit and variant."""
        return self._placed("value")

    @cached_property
    def _floors(self) -> dict[tuple[str, ...], Seeds]:
        return self._placed("floor")

    def _placed(self, column: str) -> dict[tuple[str, ...], Seeds]:
        rows = self.rows[self.rows["seed"].notna() & self.rows["layer"].isna() & self.rows[column].notna()]
        found: dict[tuple[str, ...], Seeds] = {}
        names = ["measure", "data", "target", "unit", "variant", "seed", column]
        for *place, seed, value in rows[names].itertuples(index=False):
            found.setdefault(tuple(place), {})[int(seed)] = float(value)
        return found

    @cached_property
    def _maps(self) -> dict[tuple[Any, ...], Seeds]:
        """Means of both directions at every layer: by measure, data, language, alignment and layer."""
        rows = self.rows[self.rows["layer"].notna()]
        if rows.empty:
            return {}
        source = rows["source"].mode()[0]
        language = rows["target"].where(rows["target"] != source, rows["source"])
        seed = rows["seed"].astype("float").fillna(ALONE).astype(int)
        keys = [rows["measure"], rows["data"], language, rows["variant"], rows["layer"].astype(int), seed]
        found: dict[tuple[Any, ...], Seeds] = {}
        for key, value in rows["value"].groupby(keys, sort=False).mean().items():
            *place, at = cast(tuple[Any, ...], key)
            found.setdefault(tuple(place), {})[int(at)] = float(value)
        return found

    @cached_property
    def model(self) -> str:
        """The model's name."""
        return str(self.rows["model"].iloc[0])

    @cached_property
    def source(self) -> str:
        """The language that tasks are learned in."""
        return next((str(one) for one in self.rows["source"] if one), "")

    @cached_property
    def alignments(self) -> list[str]:
        """Every alignment there is something of: before, the paper's and its ablations, amounts of text, for search."""
        there = {str(one).partition(" ")[0] for one in self.rows["variant"] if one}
        order = [one for one in TITLES if one != SEARCH and one in {BEFORE, *there}]
        return [*order, *sorted(there - set(TITLES), key=amount), *([SEARCH] if SEARCH in there else [])]

    @cached_property
    def layers(self) -> list[int]:
        """Every layer that was mapped."""
        return sorted({key[4] for key in self._maps})

    def languages(self, data: str) -> list[str]:
        """The languages a test has besides the source, in the order of the table: those scored, else those mapped."""
        scored = [key[2] for key in self._scores if key[1] == data and key[2] not in (OTHERS, self.source)]
        return list(dict.fromkeys(scored or [key[2] for key in self._maps if key[1] == data]))

    def groups(self) -> list[list[str]]:
        """The languages of Tatoeba as this project's aims group them; others are one group."""
        there = self.languages("tatoeba")
        known = [[one for one in group if one in there] for group in AIMS]
        rest = [one for one in there if not any(one in group for group in known)]
        return [group for group in (*known, rest) if group]

    def score(self, measure: str, data: str, variant: str, target: str = OTHERS) -> Seeds:
        """A score by seed; `others` is the mean over the languages besides the source."""
        return self._scores.get((measure, data, target, "", variant), {})

    def floor(self, measure: str, data: str, variant: str) -> Seeds:
        """What chance gives, by seed: the mean over the languages besides the source."""
        return self._floors.get((measure, data, OTHERS, "", variant), {})

    def perplexity(self, alignment: str, target: str, *, unit: str = "token") -> Seeds:
        """Perplexity of a language by seed."""
        return self._scores.get(("perplexity", "evaluate", target, unit, alignment), {})

    @cached_property
    def spoken(self) -> list[str]:
        """The languages whose perplexity was read."""
        return list(dict.fromkeys(key[2] for key in self._scores if key[0] == "perplexity"))

    def factor(self, alignment: str, target: str | None = None) -> Seeds:
        """Perplexity after alignment by that before, by seed; without a target the geometric mean over languages."""
        each = []
        for one in [target] if target else self.spoken:
            before, after = self.perplexity(BEFORE, one), self.perplexity(alignment, one)
            each.append({seed: value / before[seed] for seed, value in after.items() if seed in before})
        common = set.intersection(*(set(one) for one in each)) if each else set()
        return {seed: float(np.exp(np.mean([np.log(one[seed]) for one in each]))) for seed in sorted(common)}

    def layer(self, measure: str, data: str, alignment: str, layer: int, languages: Sequence[str]) -> Seeds:
        """The mean over languages of a map's measure at one layer, by seed."""
        each = [self._maps.get((measure, data, one, alignment, layer), {}) for one in languages]
        common = set.intersection(*(set(one) for one in each)) if each else set()
        return {seed: float(np.mean([one[seed] for one in each])) for seed in sorted(common)}

    def curve(self, measure: str, data: str, alignment: str, languages: Sequence[str]) -> dict[int, Seeds]:
        """The same at every layer that has it."""
        found = {one: self.layer(measure, data, alignment, one, languages) for one in self.layers}
        return {one: seeds for one, seeds in found.items() if seeds}

    def best_layer(self, alignment: str) -> int | None:
        """The layer with the highest Tatoeba P@1, over all languages and seeds; None where nothing was mapped."""
        curve = self.curve("p@1", "tatoeba", alignment, self.languages("tatoeba"))
        return max(curve, key=lambda layer: np.mean(list(curve[layer].values()))) if curve else None

    def retrieval(self, alignment: str, languages: Sequence[str]) -> Seeds:
        """Tatoeba P@1 at the best layer, the mean over these languages, by seed."""
        best = self.best_layer(alignment)
        return {} if best is None else self.layer("p@1", "tatoeba", alignment, best, languages)


def amount(name: str) -> float:
    """The number in the name of a share of the text.

    >>> amount("12.5%")
    12.5
    """
    return float(name.rstrip("%"))


def less(after: Mapping[int, float], before: Mapping[int, float]) -> Seeds:
    """The difference seed by seed; what has no seed is taken from each.

    >>> less({0: 3.0, 1: 5.0}, {0: 1.0, 1: 2.0}), less({0: 3.0, 1: 5.0}, {ALONE: 1.0})
    ({0: 2.0, 1: 3.0}, {0: 2.0, 1: 4.0})
    """
    if set(before) == {ALONE}:
        return {seed: value - before[ALONE] for seed, value in after.items()}
    return {seed: value - before[seed] for seed, value in after.items() if seed in before}


def title(language: str) -> str:
    """A language's name; invented ones have none but their code, `others` is a mean, and "" a source not known yet.

    >>> title("de"), title("qaa"), title("others"), title("")
    ('German', 'qaa', 'mean of targets', 'source')
    """
    if language in (OTHERS, ""):
        return "mean of targets" if language else "source"
    return short_name(language)
