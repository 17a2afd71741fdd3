"""Jobs of any recipe: run one, or many on this machine, in this process or several.

    job = Job("freeze-8", "transfer", "mini", {"task": "nli", ...}, Path("runs/freeze-8"), {"plans": "freeze:8"})
    run_jobs([job, ...], parallel=2)

Options are those of the recipe's function, or as its command has them; `bitext`, `languages`, `links` and `data` are
read from paths.
"""

from collections.abc import Sequence

from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import find_recipe, read_options
from isogloss.runs.jobs import Executor, Job, finish_jobs, one_by_one, side_by_side

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
    """Run every job that is not finished, up to `parallel` at a time; a job that fails stops none of the others.

    devices: GPUs that take turns, as in `cuda:0`. executor: where jobs run instead.
    """
    if executor is None:
        alone = parallel == 1 and len(devices) < 2
        few = sum(not job.done for job in jobs) < 2 and not devices
        executor = one_by_one(run_job) if alone or few else side_by_side(parallel, devices)
    finish_jobs(jobs, executor, progress=progress)
