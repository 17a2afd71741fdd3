"""Curves and tests by plan and seed, out of the one table."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isogloss.papers.hussain2020.published import EPOCHS, PLANS, UNTUNED
from isogloss.recipes.steps.drifting import START
from isogloss.text.languages import name as language_name

LOCAL = re.compile("q[a-t][a-z]")
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

    @property
    def language(self) -> str:
        """The language that was tuned on."""
        return str(self.rows.loc[self._read & (self.rows["data"] == "validation"), "target"].iloc[0])

    @property
    def language_name(self) -> str:
        """Its name; invented languages have none but their code."""
        return self.language if LOCAL.fullmatch(self.language) else language_name(self.language)

    @property
    def plans(self) -> list[str]:
        """Which of the paper's plans were run, in its order."""
        there = set(self.rows.loc[self._read, "variant"])
        return [plan for plan in PLANS if plan in there]

    @property
    def native(self) -> str:
        """The native model's name, "" where there is none."""
        names = [one for one in self.rows["other_model"].unique() if one not in ("", START)]
        return str(names[0]) if names else ""

    @property
    def model(self) -> str:
        """The tuned model's name."""
        return str(self.rows.loc[self._read, "model"].iloc[0])

    @property
    def _read(self) -> "pd.Series[bool]":
        return (self.rows["measure"] == "perplexity") & self.rows["step"].notna()

    def others(self) -> list[str]:
        """The other languages that were watched."""
        known = self.rows.loc[self._read, "target"].unique()
        return [str(one) for one in known if one not in (self.language, "others")]

    def perplexity(self, plan: str, *, target: str, unit: str = "token") -> Curves | None:
        """Perplexity of one language, or of `others` pooled, while a plan was trained."""
        rows = self.rows[self._read & (self.rows["data"] != "test")]
        return _curves(rows, variant=plan, target=target, unit=unit)

    def distance(self, plan: str, block: int, *, measure: str = "l2_drift") -> Curves | None:
        """Distance of a block to the native model, on the larger sample of validation text."""
        if not self.native:
            return None
        where = {"measure": measure, "variant": plan, "layer": block, "other_model": self.native, "data": "validation"}
        return _curves(self.rows[self.rows["step"].notna()], **where)

    def test(self, plan: str, *, unit: str = "token") -> dict[int, float]:
        """Test perplexity of the best model of each seed."""
        rows = self._tests(unit)
        rows = rows[(rows["variant"] == plan) & rows["step"].notna()]
        return {int(seed): float(value) for seed, value in zip(rows["seed"], rows["value"], strict=True)}

    def untuned(self, model: str, *, unit: str = "token") -> float | None:
        """Test perplexity of a model that was not tuned."""
        rows = self._tests(unit)
        rows = rows[(rows["variant"] == UNTUNED) & (rows["model"] == model)]
        return float(rows["value"].iloc[0]) if len(rows) else None

    def _tests(self, unit: str) -> pd.DataFrame:
        rows = self.rows
        return rows[(rows["measure"] == "perplexity") & (rows["data"] == "test") & (rows["unit"] == unit)]

    def blocks(self, plan: str) -> list[int]:
        """The blocks whose distance to the native model was measured."""
        rows = self.rows[(self.rows["measure"] == "l2_drift") & (self.rows["variant"] == plan)]
        return sorted(int(layer) for layer in rows["layer"].dropna().unique() if layer > 0)

    def epoch(self, plan: str) -> float:
        """Steps in an epoch: a third of all."""
        steps = self.rows.loc[self._read & (self.rows["variant"] == plan) & (self.rows["data"] != "test"), "step"]
        return float(steps.max()) / EPOCHS


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
