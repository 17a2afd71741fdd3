"""What a recipe is, and how one becomes a run.

A recipe is a function whose typed keyword arguments are its options, in Python and on the command line alike. It
checks everything it was given and returns a `Job`: facts about what will be measured, and a generator of rows. The run
appends rows as they come; a resumed job is told what is there and skips it.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.runs.run import Run, follow, start
from isogloss.runs.table import Row, frame
from isogloss.training.processes import launched

Steps = Callable[[Run, Progress], Iterator[Sequence[Row]]]
Hashes = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """Checked work: `steps(run, progress)` yields rows, a few at a time.

    hashes: of model and data, or where they take long a function `hashes(progress)` that makes them. depth: the
    model's number of blocks.
    """

    model: str
    steps: Steps
    hashes: Hashes | Callable[[Progress], Hashes]
    notes: Sequence[str] = field(default_factory=tuple)
    depth: int | None = None


def execute(
    job: Job,
    *,
    command: str,
    arguments: Mapping[str, Any],
    seed: int,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> pd.DataFrame:
    """Run a job in the folder `out` (a passing one if none is named) and return its table.

    A mistake found before anything was measured leaves no folder behind; anything later leaves one that `resume`
    goes on with.
    """
    if out is None:
        with tempfile.TemporaryDirectory() as folder:
            return execute(
                job, command=command, arguments=arguments, seed=seed, out=Path(folder) / "run", progress=progress
            )
    hashes = job.hashes(progress) if callable(job.hashes) else job.hashes
    facts = {"command": command, "arguments": arguments, "seed": seed, "model": job.model, "hashes": hashes}
    facts["depth"] = job.depth
    rank, _ = launched()
    run = start(out, facts, resume=resume) if rank == 0 else follow(out, facts)
    if run.finished:
        return frame(run.rows)
    try:
        for sentence in job.notes:
            run.note(sentence)
        for rows in job.steps(run, progress):
            run.append(rows)
        return run.finish()
    except InputError:
        run.discard()
        raise
