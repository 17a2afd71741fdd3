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

import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from threading import Thread

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import find_recipe, read_options
from isogloss.runs.jobs import Executor, Job, finish_jobs, holding, job_lease, one_by_one, side_by_side

__all__ = ["Job", "run_job", "run_jobs"]


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
    finish_jobs(jobs, executor, progress=progress)


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
