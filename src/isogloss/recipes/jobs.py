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
    """Run every job that is not finished, `parallel` at a time; a job that fails stops none of the others.

    devices: GPUs that take turns, as in `cuda:0`. executor: where jobs run instead of this machine.
    """
    if executor is None:
        alone = parallel == 1 and len(devices) < 2
        few = sum(not job.done for job in jobs) < 2 and not devices
        executor = one_by_one(run_job) if alone or few else side_by_side(parallel, devices)
    refuse_others(jobs)
    finish_jobs(jobs, executor, progress=progress)


def refuse_others(jobs: Sequence[Job]) -> None:
    """Refuse runs, finished or begun, that were made with other options than their jobs have; files may have moved."""
    for job in jobs:
        made = read_facts(job.folder).get("arguments") if (job.folder / "run.json").is_file() else None
        if not made:
            continue
        options = find_recipe(job.recipe).options
        asked = recorded_arguments(options, {name: value for name, value in job.options.items() if name in options})
        for name, option in options.items():
            # A run records the defaults, too, which a job does not give; a default that is text may be a file's name.
            if isinstance(made.get(name), int | float) and option.default is not inspect.Parameter.empty:
                asked.setdefault(name, option.default)
        for name in sorted(asked.keys() - MACHINE_OPTIONS):
            before, now = made.get(name), asked[name]
            only_reading = before is None and isinstance(now, str)  # how text is read, which a run does not record
            if before != now and not only_reading and _comparable(before) and _comparable(now):
                change = " then, ".join("without" if value is None else str(value) for value in (before, now))
                raise InputError(
                    f"{job.folder} was made with another --{name.replace('_', '-')} than is asked for ({change} now); "
                    "remove it, give the options it was made with, or another --out"
                )


def _comparable(value: Any) -> bool:
    """Whether a value means the same wherever a run lies, as a number does and the path of a file does not."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and "/" not in value)


def main() -> None:
    """Run the job that standard input names, and end when that is closed; a mistake is a sentence on standard error."""
    given = json.loads(sys.stdin.readline())
    seconds = given.pop("lease", None)
    job = Job(**{**given, "folder": Path(given["folder"]), "coordinates": {}})
    lease = None if seconds is None else job_lease(job.lease, seconds=seconds)

    def give_back() -> None:
        if lease is not None and lease.is_locked:
            lease.release(force=True)

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
    main()
