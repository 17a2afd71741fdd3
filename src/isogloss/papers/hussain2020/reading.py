"""Curves and tests by plan and seed, out of the one table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isogloss.papers.hussain2020.published import EPOCHS, PLANS, UNTUNED
from isogloss.recipes.steps.drifting import START
from isogloss.text.languages import short_name

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """One measure over the steps, a row a seed: steps (n,), values (seeds, n), which seeds."""

    steps: Floats
    values: Floats
    seeds: tuple[int, ...]

    @property
    def end(self) -> Floats:
        """The last value of each seed (seeds,)."""
        return self.values[:, -1]

    @property
    def start(self) -> Floats:
        """The first."""
        return self.values[:, 0]


@dataclass(frozen=True)
class Results:
    """The rows of a reproduction, and what they are of."""

    rows: pd.DataFrame

    @cached_property
    def _scores(self) -> pd.DataFrame:
        return self.rows[self.rows["measure"] == "perplexity"]

    @cached_property
    def _tests(self) -> pd.DataFrame:
        return self._scores[self._scores["data"] == "test"]

    @cached_property
    def _readings(self) -> pd.DataFrame:
        return self._scores[self._scores["step"].notna() & (self._scores["data"] != "test")]

    @cached_property
    def _distances(self) -> pd.DataFrame:
        """L2 to the native model, on the larger sample of validation text."""
        rows = self.rows[(self.rows["measure"] == "l2_drift") & self.rows["step"].notna()]
        return rows[(rows["other_model"] == self.native) & (rows["data"] == "validation") & (self.native != "")]

    @cached_property
    def language(self) -> str:
        """The language that was tuned on."""
        return str(self._readings.loc[self._readings["data"] == "validation", "target"].iloc[0])

    @property
    def language_name(self) -> str:
        """Its name; invented languages have none but their code."""
        return short_name(self.language)

    @cached_property
    def plans(self) -> list[str]:
        """Which of the paper's plans were run, in its order."""
        there = set(self._readings["variant"])
        return [plan for plan in PLANS if plan in there]

    @cached_property
    def native(self) -> str:
        """The native model's name, "" where there is none."""
        names = [one for one in self.rows["other_model"].unique() if one not in ("", START)]
        return str(names[0]) if names else ""

    @cached_property
    def model(self) -> str:
        """The tuned model's name."""
        return str(self._readings["model"].iloc[0])

    def perplexity(self, plan: str, *, target: str, unit: str = "token") -> Curves | None:
        """Perplexity of one language, or of `others` pooled, while a plan was trained."""
        return _curves(self._readings, variant=plan, target=target, unit=unit)

    def watched(self, plan: str) -> list[str]:
        """The other languages that were read while a plan was trained, in the order of the rows."""
        targets = self._readings.loc[self._readings["variant"] == plan, "target"].unique()
        return [str(one) for one in targets if one not in (self.language, "others")]

    def distance(self, plan: str, block: int) -> Curves | None:
        """L2 of a block to the native model while a plan was trained."""
        return _curves(self._distances, variant=plan, layer=block)

    def blocks(self, plan: str) -> list[int]:
        """The blocks whose distance to the native model was measured."""
        layers = self._distances.loc[self._distances["variant"] == plan, "layer"].dropna().unique()
        return sorted(int(layer) for layer in layers if layer > 0)

    def test(self, plan: str, *, unit: str = "token") -> dict[int, float]:
        """Test perplexity of the best model of each seed."""
        rows = self._tests[(self._tests["unit"] == unit) & (self._tests["variant"] == plan)]
        return {int(seed): float(value) for seed, value in zip(rows["seed"], rows["value"], strict=True)}

    def untuned(self, model: str, *, unit: str = "token") -> float | None:
        """Test perplexity of a model that was not tuned."""
        rows = self._tests[(self._tests["variant"] == UNTUNED) & (self._tests["model"] == model)]
        rows = rows[rows["unit"] == unit]
        return float(rows["value"].iloc[0]) if len(rows) else None

    def epoch(self, plan: str) -> float:
        """Steps in an epoch: a third of all."""
        return float(self._readings.loc[self._readings["variant"] == plan, "step"].max()) / EPOCHS


def _curves(rows: pd.DataFrame, **where: Any) -> Curves | None:
    for name, value in where.items():
        rows = rows[rows[name] == value]
    if rows.empty:
        return None
    table = rows.pivot_table(index="seed", columns="step", values="value").dropna(axis="columns")
    if table.empty or not len(table.columns):
        return None
    return Curves(
        table.columns.to_numpy(dtype=np.float64),
        table.to_numpy(dtype=np.float64),
        tuple(int(one) for one in table.index),
    )
