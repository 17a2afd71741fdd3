"""Scores, changes and similarities out of the one table, by task, source, plan and layer."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from isogloss.papers.evidence import Interval, Seeds, mean_by_seed
from isogloss.papers.muller2021.published import REFERENCE, RELATION, TASKS, UNSEEN
from isogloss.papers.muller2021.scales import KNOWN
from isogloss.recipes.legacy import MARK
from isogloss.recipes.task_scores import OTHERS
from isogloss.runs.table import START, UNTUNED

POOLED = (OTHERS, UNSEEN)


@dataclass(frozen=True)
class Point:
    """A target of the reference: its gap over seeds, and its similarity to the source, a mean over layers."""

    source: str
    target: str
    gap: float
    similarity: float


@dataclass(frozen=True)
class Results:
    """The rows of a reproduction, and what they are of."""

    rows: pd.DataFrame

    @cached_property
    def _seeded(self) -> dict[tuple[Any, ...], Seeds]:
        """Scores and gaps of every seed: by measure, task, source, target, data and plan."""
        return _by_seed(self.rows[self.rows["seed"].notna() & self.rows["layer"].isna()], "value")

    @cached_property
    def _floors(self) -> dict[tuple[Any, ...], Seeds]:
        """What chance gives of every seed, by the same."""
        rows = self.rows[self.rows["seed"].notna() & self.rows["layer"].isna() & self.rows["floor"].notna()]
        return _by_seed(rows, "floor")

    @cached_property
    def experiments(self) -> list[tuple[str, str]]:
        """Tasks and sources that were run, in the paper's order of tasks."""
        there = list(dict.fromkeys((key[1], key[2]) for key in self._seeded))
        return [one for task in TASKS for one in there if one[0] == task]

    def sources(self, task: str) -> list[str]:
        """Sources of a task."""
        return [source for of, source in self.experiments if of == task]

    @cached_property
    def _sets(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """Test sets (target, data) of every task and source, in order; the first of a language is its main one."""
        found: dict[tuple[str, str], dict[tuple[str, str], None]] = {}
        for measure, task, source, target, data, _ in self._seeded:
            if measure == TASKS.get(task) and target not in POOLED:
                found.setdefault((task, source), {})[target, data] = None
        return {one: list(sets) for one, sets in found.items()}

    def mains(self, task: str, source: str) -> list[tuple[str, str]]:
        """The main test set of every language, the source's first."""
        found: dict[str, str] = {}
        for target, data in self._sets.get((task, source), []):
            found.setdefault(target, data)
        return sorted(found.items(), key=lambda one: one[0] != source)

    def domains(self, task: str, source: str) -> list[tuple[str, str]]:
        """The other test sets."""
        main = set(self.mains(task, source))
        return [one for one in self._sets.get((task, source), []) if one not in main]

    def scores(self, task: str, source: str, plan: str, *, target: str, data: str | None = None) -> Seeds:
        """The main score of each seed; data: by default the target's main set."""
        if data is None:
            data = "" if target in POOLED else dict(self.mains(task, source)).get(target, "")
        return self._seeded.get((TASKS[task], task, source, target, data, plan), {})

    def floors(self, task: str, source: str, *, target: str, data: str | None = None) -> Seeds:
        """What chance gives on a test set, of the reference of each seed."""
        if data is None:
            data = "" if target in POOLED else dict(self.mains(task, source)).get(target, "")
        return self._floors.get((TASKS[task], task, source, target, data, REFERENCE), {})

    def known(self, task: str, source: str) -> list[str]:
        """Other languages that the model was pretrained on."""
        languages = KNOWN.get(self.model)
        return [
            target
            for target, _ in self.mains(task, source)
            if target != source and (languages is None or target in languages)
        ]

    def changes(self, task: str, source: str, plan: str, *, target: str, data: str | None = None) -> Seeds:
        """What each seed's score under a plan is above the reference's."""
        mine = self.scores(task, source, plan, target=target, data=data)
        reference = self.scores(task, source, REFERENCE, target=target, data=data)
        return {seed: value - reference[seed] for seed, value in mine.items() if seed in reference}

    def mean_change(self, task: str, plan: str, *, home: bool) -> Seeds:
        """The change in the source language, or the mean over targets: by seed, the mean over sources that have it."""
        sides = [self.changes(task, source, plan, target=source if home else OTHERS) for source in self.sources(task)]
        return mean_by_seed(sides)

    @cached_property
    def _alike(self) -> pd.DataFrame:
        rows = self.rows[self.rows["layer"].notna() & (self.rows["target"] == OTHERS)]
        return rows[rows["measure"].isin(("cka", "cka_rbf"))]

    def similarity(
        self, task: str, variant: str, *, which: str, measure: str = "cka", column: str = "value"
    ) -> dict[int, Seeds]:
        """Mean over languages and sources, by layer and seed; before training the seed is 0.

        which: "target" (source with target), "start" (now with the start) or "below" (a layer with the one below).
        column: "floor" for what chance gives.
        """
        rows = self._alike
        rows = rows[(rows["task"] == task) & (rows["variant"] == variant) & (rows["measure"] == measure)]
        started = rows["other_model"] == START
        kind = {
            "target": rows["other_layer"].isna(),
            "start": started,
            "below": ~started & rows["other_layer"].notna(),
        }[which]
        found: dict[int, dict[int, list[float]]] = {}
        for layer, seed, value in rows[kind][["layer", "seed", column]].itertuples(index=False):
            number = 0 if seed is pd.NA else int(seed)
            found.setdefault(int(layer), {}).setdefault(number, []).append(float(value))
        return {
            layer: {seed: float(np.mean(some)) for seed, some in seeds.items()}
            for layer, seeds in sorted(found.items())
        }

    def as_published(self, task: str) -> list[str]:
        """Variants before training that are read with the defects of the original."""
        variants = self._alike.loc[self._alike["task"] == task, "variant"].unique()
        return [str(one) for one in variants if str(one).startswith(f"{UNTUNED}{MARK}")]

    @property
    def tasks(self) -> list[str]:
        """Tasks that were run."""
        return list(dict.fromkeys(task for task, _ in self.experiments))

    @cached_property
    def model(self) -> str:
        """What was trained."""
        return str(self.rows["model"].iloc[0])

    def relation(self, task: str, variant: str) -> Interval | None:
        """The rank correlation of gap and similarity; `seeds` counts targets."""
        rows = self.rows[(self.rows["measure"] == RELATION) & (self.rows["task"] == task)]
        rows = rows[(rows["variant"] == variant) & rows["layer"].isna()]
        if rows.empty:
            return None
        one = rows.iloc[0]
        return Interval(float(one["value"]), float(one["low"]), float(one["high"]), int(one["n"]))

    def points(self, task: str) -> list[Point]:
        """Gap and similarity after training of every target, the means over seeds."""
        rows = self.rows[(self.rows["measure"] == "cka") & (self.rows["task"] == task) & (self.rows["layer"] > 0)]
        rows = rows[rows["other_layer"].isna() & (rows["variant"] == REFERENCE) & (rows["target"] != OTHERS)]
        near = rows.groupby(["source", "target"], sort=False)["value"].mean().reset_index()
        found = []
        for source, target, value in near.itertuples(index=False):
            data = dict(self.mains(task, source)).get(target)
            gaps = self._seeded.get(("gap", task, source, target, data, REFERENCE))
            if gaps:
                found.append(Point(str(source), str(target), float(np.mean(list(gaps.values()))), float(value)))
        return found


def _by_seed(rows: pd.DataFrame, column: str) -> dict[tuple[Any, ...], Seeds]:
    found: dict[tuple[Any, ...], Seeds] = {}
    names = ["measure", "task", "source", "target", "data", "variant", "seed", column]
    for *place, seed, value in rows[names].itertuples(index=False):
        found.setdefault(tuple(place), {})[int(seed)] = float(value)
    return found
