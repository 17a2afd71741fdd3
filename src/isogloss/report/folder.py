"""Read what a run left: its record, its rows and the points of its word map.

Tolerant of absent parts, not of wrong ones.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.report.curves import central_language
from isogloss.report.style import display_names
from isogloss.runs import read_rows

SHOWN_TOGETHER = ("drift", "transfer")
POINT_COLUMNS = ("layer", "language", "word", "pair", "x", "y")
POOLED, OTHERS = "all", "others"  # targets of readings over all languages' text, and over all but the trained one's


@dataclass(frozen=True)
class RunFolder:
    """One run: `record` is run.json, `rows` the table, `points` the word map or None. `name` tells runs apart."""

    path: Path
    name: str
    record: Mapping[str, Any]
    rows: pd.DataFrame
    points: pd.DataFrame | None = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the command, as far as the record has them."""
        arguments = self.record.get("arguments")
        return arguments if isinstance(arguments, dict) else {}

    @property
    def command(self) -> str:
        """The command that made the run; of a sweep that of its jobs."""
        command = str(self.record.get("command", ""))
        return str(self.arguments.get("recipe", "")) if command == "sweep" else command

    @cached_property
    def model(self) -> str:
        """What was measured, from the record or else the rows."""
        named = self.record.get("model") or ""
        models = [model for model in self.rows["model"].unique() if model]
        return str(named or ", ".join(models) or self.path.name)

    @cached_property
    def trained(self) -> pd.DataFrame:
        """The rows of a training: those with a step."""
        return self.rows[self.rows["step"].notna()]

    @cached_property
    def mapped(self) -> pd.DataFrame:
        """The rows of a map: those without a step. What a task did to the layers of a model is no map of it."""
        return self.rows[self.rows["step"].isna() & (self.rows["layer"].isna() | (self.rows["task"] == ""))]

    def by_model(self) -> "list[tuple[str, RunFolder]]":
        """The run of each model after the name that its sentences begin with; one model needs no name."""
        models = [model for model in self.rows["model"].unique() if model]
        if len(models) < 2:
            return [("", self)]
        return [(f"{model}: ", replace(self, rows=self.rows[self.rows["model"] == model])) for model in models]

    @property
    def depth(self) -> int | None:
        """How many blocks the model has, where the record says so; not all of them need have been read."""
        depth = self.record.get("depth")
        return depth if isinstance(depth, int) else None

    @cached_property
    def data(self) -> list[str]:
        """Names of the data sets in order of appearance."""
        return [str(name) for name in self.rows["data"].unique() if name]

    @cached_property
    def languages(self) -> list[str]:
        """Language codes in order of appearance, in the rows and then in the points."""
        codes: dict[str, None] = {}
        pooled = self.rows["step"].notna() & (self.rows["source"] == "") & self.rows["target"].isin((POOLED, OTHERS))
        pooled |= (self.rows["task"] != "") & (self.rows["target"] == OTHERS)
        for source, target in self.rows[~pooled][["source", "target"]].drop_duplicates().itertuples(index=False):
            codes |= {code: None for code in (source, target) if code}
        if self.points is not None:
            codes |= dict.fromkeys(self.points["language"].unique())
        return list(codes)

    @cached_property
    def names(self) -> dict[str, str]:
        """The languages by name."""
        return display_names(self.languages)

    @cached_property
    def centre(self) -> str:
        """The language that the others are compared with."""
        return central_language(self.rows)


def parts(path: Path) -> list[Path]:
    """The folders a report of this one shows: itself, or the jobs of a sweep that do not fit into one picture.

    Trainings of one model differ by plan and seed, and are drawn from one table; maps and pretrained models are not.
    """
    _check_folder(path)
    record = _record(path / "run.json")
    arguments = record.get("arguments")
    recipe = arguments.get("recipe") if isinstance(arguments, dict) else None
    if record.get("command") != "sweep" or recipe in SHOWN_TOGETHER:
        return [path]
    jobs = [path / "jobs" / name for name in record.get("jobs", {}).get("finished", [])]
    return [job for job in jobs if job.is_dir()] or [path]


def read_run(path: Path) -> RunFolder:
    """Read the run in a folder; raises `InputError` when it is not one."""
    _check_folder(path)
    return RunFolder(path, path.name, _record(path / "run.json"), read_rows(path), _points(path / "points.parquet"))


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        raise InputError(f"{path} is not a folder; give the folder that `isogloss map --out` wrote")


def _record(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); the run must be made again") from error
    if not isinstance(record, dict):
        raise InputError(f"{path} holds {type(record).__name__}, where an object with the run's arguments was expected")
    return record


def _points(path: Path) -> pd.DataFrame | None:
    if not path.exists():
        return None
    try:
        data = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as parquet ({error}); the run must be made again") from error
    missing = [name for name in POINT_COLUMNS if name not in data]
    if missing:
        raise InputError(f"{path} lacks the columns {', '.join(missing)}; expected {', '.join(POINT_COLUMNS)}")
    data = data[list(POINT_COLUMNS)].dropna()
    kinds = {"layer": "int64", "pair": "int64", "language": "str", "word": "str", "x": "float64", "y": "float64"}
    return None if data.empty else data.astype(kinds).reset_index(drop=True)
