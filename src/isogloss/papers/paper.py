"""What a paper is to this toolkit: its published numbers, the recipe calls that answer them, and what was found.

A paper's own file (or folder) holds one `Paper`, a record of functions. `plan` turns what the user gave into an
`Outline`: the recipe calls to make, in order, and their cost, before anything is written; its keyword arguments are the
options that this paper alone has, as `papers.options` says. Everything after the runs is
read from the one table of rows: `collect` makes that table, with the published values beside measured ones, and
`tables`, `findings` and `pictures` are functions of it, so that a report can be made again from a run folder alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.figure import Figure, Table
from isogloss.papers.evidence import Finding
from isogloss.progress import Progress
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run

SCALES = ("smoke", "mini", "paper")


@dataclass(frozen=True)
class Request:
    """What the user asks of any paper; None where the scale decides.

    out: the folder of the reproduction. data: a folder of data sets. model: a folder or hub id. seeds: how many.
    """

    scale: str
    out: Path
    data: str | None = None
    model: str | None = None
    seeds: int | None = None
    device: str = "auto"
    dtype: str | None = None


@dataclass(frozen=True)
class Cost:
    """What a reproduction takes, roughly: updates, tokens, memory of one job, hours of all; `basis` says from what."""

    steps: int
    tokens: int
    memory: float
    hours: float
    basis: Sequence[str]


@dataclass(frozen=True)
class Outline:
    """What will be done: `ready(progress)` writes texts, then `before` (pretraining) and then `jobs` are run.

    arguments, and `hashes()` of the text: what must be the same for a folder to be gone on with. conditions: under
    which it is measured, in a line. `notes()`: what a reader must know of the text.
    """

    conditions: str
    arguments: Mapping[str, Any]
    hashes: Callable[[], Mapping[str, Any]]
    ready: Callable[[Progress], None]
    before: Sequence[Job]
    jobs: Sequence[Job]
    cost: Cost
    depth: int | None = None
    notes: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True)
class Paper:
    """One paper. `about` cites it; `collect(run, jobs)` fills the run's table from finished jobs.

    plan: `plan(request, *, ...)`, whose keyword arguments are annotated with their help and None unless given.
    """

    name: str
    about: str
    plan: Callable[..., Outline]
    collect: Callable[[Run, Sequence[Job]], None]
    tables: Callable[[pd.DataFrame], Sequence[Table]]
    findings: Callable[[pd.DataFrame], Sequence[Finding]]
    pictures: Callable[[pd.DataFrame], Sequence[Figure]]
