"""Run folders as `isogloss pretrain` leaves them, made up: loss and perplexity fall, languages come to meet."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import pandas as pd
from report_runs import HOSTILE, HOSTILE_NAME

from isogloss.report.curves import RunFolder
from isogloss.report.training_view import StepPanel, panels
from isogloss.runs import table


@dataclass(frozen=True)
class Course:
    """How a made-up training goes: `rises` names the languages whose perplexity turns up again half way."""

    languages: Sequence[str] = ("en", "nl", "ru", "zh")
    layers: int = 6
    steps: int = 1000
    every: int = 100
    best: int = 4
    height: float = 0.5
    rises: Sequence[str] = ()
    model: str = "made-up-bert"
    data: str = "made-up text"


def write_training(folder: Path, course: Course | None = None, *, hostile: bool = False) -> Path:
    """A whole run folder."""
    course = course or Course(model=HOSTILE_NAME if hostile else "made-up-bert", data=HOSTILE[0] if hostile else "text")
    folder.mkdir(parents=True, exist_ok=True)
    table.frame(training_rows(course)).to_parquet(folder / "rows.parquet")
    record = {
        "command": "pretrain",
        "arguments": {"text": ["texts"], "steps": course.steps, "batch": 8},
        "model": course.model,
        "seed": 0,
        "depth": course.layers,
        "status": "finished",
        "notes": [HOSTILE[2]] if hostile else [],
    }
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    return folder


def training_rows(course: Course) -> list[dict]:
    """The rows of a training: loss every tenth step of the probes, perplexity and retrieval at each probe."""
    common = {"model": course.model, "seed": 0}
    found = []
    for step in range(course.every // 10, course.steps + 1, course.every // 10):
        loss = 2.0 + 8.0 * exp(-4 * step / course.steps)
        found.append(table.row("loss", loss, n=1200, unit="token", step=step, **common))
    for step in range(0, course.steps + 1, course.every):
        share = step / course.steps
        for place, language in enumerate((*course.languages, "all")):
            if language == "all":
                place = 1
            base = 4.0 * 2**place
            turn = 0.5 * max(0.0, share - 0.5) if language in course.rises else 0.0
            value = base * (1 + 2 * exp(-5 * share) + turn)
            for unit, power in (("token", 3.0), ("word", 4.0), ("character", 1.0)):
                bounds = {"low": 0.97 * value**power, "high": 1.03 * value**power}
                found.append(
                    table.row(
                        "perplexity", value**power, **bounds, n=3000, target=language, unit=unit, step=step, **common
                    )
                )
        for layer in range(course.layers + 1):
            found += _retrieval_rows(course, step, layer, share, common)
    return found


def _retrieval_rows(course: Course, step: int, layer: int, share: float, common: dict) -> list[dict]:
    place = {"layer": layer, "unit": "sentence", "method": "centred", "data": course.data, "step": step, "n": 500}
    found = []
    centre, *others = course.languages
    for at, other in enumerate(others):
        hill = exp(-(((layer - course.best) / 2.5) ** 2))
        value = 0.02 + share * course.height * hill / (1 + at)
        for source, target in ((centre, other), (other, centre)):
            bounds = {"low": max(0.0, value - 0.01), "high": value + 0.01, "floor": 0.002}
            found.append(table.row("p@1", value, **bounds, source=source, target=target, **place, **common))
    mean = sum(one["value"] for one in found) / len(found)
    bounds = {"low": mean - 0.005, "high": mean + 0.005, "floor": 0.002}
    return [*found, table.row("p@1_mean", mean, **bounds, **place, **common)]


def panels_of(rows: pd.DataFrame) -> list[StepPanel]:
    """The panels of a table of rows."""
    return panels(RunFolder(Path(), {}, rows))
