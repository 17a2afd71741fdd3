"""Jobs of any recipe: run one, or many on this machine, in this process or several.

    job = Job("freeze-8", "transfer", "mini", {"task": "nli", ...}, Path("runs/freeze-8"), {"plans": "freeze:8"})
    run_jobs([job, ...], parallel=2)

Options are those of the recipe's function, or as its command has them; `bitext`, `languages`, `links` and `data` are
read from paths.

`python -m isogloss.recipes.jobs` is a worker: it runs one job in a process of its own, and reads that job as a line of
JSON from standard input. The process that started it holds the other end of the pipe. When that closes, the worker
ends: a job that outlived a killed sweep would be run by two processes as soon as the sweep is resumed. A worker on a
cluster also holds the lease of its job while it runs (`isogloss.runs.jobs`).
"""

import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Thread
from typing import Any

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import find_recipe, read_options, recorded_arguments
from isogloss.runs.jobs import Executor, Job, finish_jobs, holding, job_lease, one_by_one, side_by_side
from isogloss.runs.run import read_facts

__all__ = ["Job", "refuse_others", "run_job", "run_jobs"]

MACHINE_OPTIONS = {"device", "dtype", "checkpoint", "compiled"}  # options that another machine may want otherwise


def run_job(job: Job, progress: Progress = silent) -> None:
    """Run a job, or go on with it; one that is finished is left as it is."""
    if job.done:
        return
    recipe = find_recipe(job.recipe)
    texts, options = read_options(recipe, job.options)
    resume = (job.folder / "run.json").is_file()
    recipe.call(job.first, *texts, out=job.folder, resume=resume, progress=progress, **options)


def run_jobs(
    jobs: Sequence[Job],
    *,
    parallel: int = 1,
    devices: Sequence[str] = (),
    progress: Progress = silent,
    executor: Executor | None = None,
) -> None:
    """Run every job that is not finished; a job that fails stops none of the others.

    Args:
        jobs: The jobs.
        parallel: How many run at a time.
        devices: GPUs that take turns, as in `cuda:0`.
        progress: Is told of the stage `jobs`.
        executor: Where jobs run instead of this machine.

    """
    if executor is None:
        alone = parallel == 1 and len(devices) < 2
        few = sum(not job.done for job in jobs) < 2 and not devices
        executor = one_by_one(run_job) if alone or few else side_by_side(parallel, devices)
    refuse_others(jobs)
    finish_jobs(jobs, executor, progress=progress)


def refuse_others(jobs: Sequence[Job]) -> None:
    """Refuse runs, finished or begun, that were made with other options than their jobs have."""
    for job in jobs:
        if difference := _difference(job):
            raise InputError(f"{difference}; remove it, give the options it was made with, or another --out")


def _difference(job: Job) -> str | None:
    """How the run of a job was made with other options than the job has; files and folders may have moved."""
    made = read_facts(job.folder).get("arguments") if (job.folder / "run.json").is_file() else None
    if not made:
        return None
    signature = inspect.signature(find_recipe(job.recipe).check)
    given = {name: value for name, value in job.options.items() if name in signature.parameters}
    asked = recorded_arguments(signature, given)
    for name, parameter in signature.parameters.items():
        # A run records the defaults, too, and a job does not give them; a default that is text may be a file's name.
        if isinstance(made.get(name), int | float) and parameter.default is not parameter.empty:
            asked.setdefault(name, parameter.default)
    for name in sorted(asked.keys() - MACHINE_OPTIONS):
        before, now = made.get(name), asked[name]
        if before is None and isinstance(now, str):  # a run does not record what only says how text is read
            continue
        if before != now and _comparable(before) and _comparable(now):
            change = " then, ".join("without" if value is None else str(value) for value in (before, now))
            return f"{job.folder} was made with another --{name.replace('_', '-')} than is asked for ({change} now)"
    return None


def _comparable(value: Any) -> bool:
    """Whether a value means the same wherever a run lies, as a number does and the path of a file does not."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and "/" not in value)


def main(*, watched: bool = False) -> None:
    """Run the job that standard input names; a mistake is one sentence on standard error.

    Args:
        watched: Whether the worker ends when standard input is closed.

    """
    given = json.loads(sys.stdin.readline())
    seconds = given.pop("lease", None)
    job = Job(**{**given, "folder": Path(given["folder"]), "place": {}})
    lease = None if seconds is None else job_lease(job.lease, seconds=seconds)

    def give_back() -> None:
        if lease is not None and lease.is_locked:
            lease.release(force=True)

    if watched:
        end_with_starter(give_back)
    try:
        with nullcontext() if lease is None else holding(lease, tell=lambda text: sys.stderr.write(f"{text}\n")):
            run_job(job)
    except InputError as error:
        sys.exit(str(error))


def end_with_starter(before: Callable[[], None] = lambda: None) -> None:
    """End this process at once when standard input is closed at its other end; `before` is called then."""

    def watch() -> None:
        # Not sys.stdin: a thread that waits in its buffer would crash the interpreter at exit.
        while os.read(0, 1):
            pass
        before()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(watched=True)
