"""Read what a run left: its record, its rows and the points of its word map.

Tolerant of absent parts, not of wrong ones.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.report.lookup import is_lookup
from isogloss.report.plans import OTHERS
from isogloss.report.steps import POOLED, Panel, panels, with_steps, without_steps
from isogloss.report.stitchpart import is_stitch
from isogloss.report.transferverdict import is_transfer
from isogloss.runs import table

TOGETHER = ("drift", "transfer")
POINT_COLUMNS = ("layer", "language", "word", "pair", "x", "y")


@dataclass(frozen=True)
class RunFolder:
    """One run: `record` is run.json, `rows` the table, `points` the word map or None. `name` tells runs apart."""

    path: Path
    name: str
    record: Mapping[str, Any]
    rows: pd.DataFrame
    points: pd.DataFrame | None

    @cached_property
    def model(self) -> str:
        """What was mapped, from the record or else the rows."""
        named = self.record.get("model") or ""
        models = [model for model in self.rows["model"].unique() if model]
        return str(named or ", ".join(models) or self.path.name)

    @cached_property
    def trained(self) -> pd.DataFrame:
        """The rows of a training: those with a step."""
        return with_steps(self.rows)

    @cached_property
    def panels(self) -> list[Panel]:
        """The panels of a training; many rows make them slowly, so they are made once."""
        return panels(self.trained)

    @cached_property
    def mapped(self) -> pd.DataFrame:
        """The rows of a map: those without a step, which are all rows of a run that trained nothing.

        What a task did to the layers of a model is no map of it.
        """
        rows = without_steps(self.rows)
        return rows[rows["layer"].isna() | (rows["task"] == "")]

    @cached_property
    def has_map(self) -> bool:
        """Whether there is anything of a map: every run that trained nothing, and learned no task, counts as one."""
        nothing = self.trained.empty and not any(kind(self.rows) for kind in (is_transfer, is_lookup, is_stitch))
        return nothing or self.points is not None or bool(self.mapped["layer"].notna().any())

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


def parts(path: Path) -> list[Path]:
    """The folders a report of this one shows: itself, or the jobs of a sweep that do not fit into one picture.

    Trainings of one model differ by plan and seed, and are drawn from one table; maps and pretrained models are not.
    """
    _check_there(path)
    record = _record(path / "run.json")
    arguments = record.get("arguments")
    recipe = arguments.get("recipe") if isinstance(arguments, dict) else None
    if record.get("command") != "sweep" or recipe in TOGETHER:
        return [path]
    names = record.get("jobs", {}).get("finished", [])
    return [path / "jobs" / name for name in names] or [path]


def read_run(path: Path) -> RunFolder:
    """The run in a folder; raises `InputError` when it is not one."""
    _check_there(path)
    return RunFolder(path, path.name, _record(path / "run.json"), _rows(path), _points(path / "points.parquet"))


def _check_there(path: Path) -> None:
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


def _rows(folder: Path) -> pd.DataFrame:
    parquet, text = folder / "rows.parquet", folder / "rows.csv"
    if parquet.exists():
        data = _read_parquet(parquet)
    elif text.exists():
        # Only numbers may be absent: "nan" and "NA" are fine names of a language or a data set.
        data = pd.read_csv(text, dtype=str, keep_default_na=False)
        numbers = [name for name in (*table.NUMBERS, *table.COUNTS) if name in data]
        data[numbers] = data[numbers].replace("", None)
    else:
        raise InputError(
            f"{folder} has neither rows.parquet nor rows.csv; give the folder that `isogloss map --out` wrote"
        )
    if "measure" not in data or "value" not in data:
        raise InputError(f"the rows in {folder} have no columns measure and value; they have {', '.join(data.columns)}")
    return table.typed(data)


def _points(path: Path) -> pd.DataFrame | None:
    if not path.exists():
        return None
    data = _read_parquet(path)
    missing = [name for name in POINT_COLUMNS if name not in data]
    if missing:
        raise InputError(f"{path} lacks the columns {', '.join(missing)}; expected {', '.join(POINT_COLUMNS)}")
    data = data[list(POINT_COLUMNS)].dropna()
    kinds = {"layer": "int64", "pair": "int64", "language": "str", "word": "str", "x": "float64", "y": "float64"}
    return None if data.empty else data.astype(kinds).reset_index(drop=True)


def _read_parquet(path: Path) -> pd.DataFrame:
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as parquet ({error}); the run must be made again") from error
