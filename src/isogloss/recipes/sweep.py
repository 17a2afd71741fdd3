"""`isogloss sweep`: any recipe over a grid of its arguments, one table at the end.

Every combination of the grid's values is a job with a run folder of its own in `OUT/jobs`. Jobs run one after the
other, several at a time spread over this machine's GPUs, or on the machines of a Ray cluster; one that fails stops none
of the others. The rows of all finished jobs are in one table, in which each can be told from the others: an argument
whose value the rows do not carry in a column of their own stands in `settings`.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.jobs import run_jobs
from isogloss.recipes.recipe import Recipe, at_least, find_recipe, model_name, read_options
from isogloss.recipes.steps.grids import Grid, grid_jobs, known_option, read_grid, spread
from isogloss.recipes.steps.sweeptable import collect
from isogloss.runs.cluster import Share, on_cluster
from isogloss.runs.jobs import Executor, Job
from isogloss.runs.run import Run, check_folder, start
from isogloss.runs.table import frame

LEAVE_STATES = (
    "seed", "seeds", "epochs", "batch", "rate", "warm_up", "decay", "weight_decay", "clip", "probe", "save_models",
    "checkpoint", "switch", "switch_to", "switch_words",
)  # fmt: skip
"""Arguments that change nothing in the states of frozen layers."""


def sweep(
    recipe: str,
    *,
    grid: Sequence[str] | Mapping[str, Any],
    out: str | Path,
    parallel: int | None = None,
    devices: str | Sequence[str] | None = None,
    cluster: str | None = None,
    gpus: float | None = None,
    cpus: float | None = None,
    resume: bool = False,
    progress: Progress = silent,
    executor: Executor | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Run a recipe with every combination of some arguments' values.

    grid: `name=a,b,c` for each argument, or values by name. options: the recipe's others, `model` among them, the same
    in every job. parallel: jobs at a time, by default one a device. devices: GPUs that take turns, by default all there
    are. cluster: a Ray cluster that jobs run on instead, as `auto`, `local` or `host:port`; gpus, cpus: what each of
    them asks for there. executor: where jobs run otherwise. Returns the rows of all jobs.

    >>> table = sweep("transfer", grid={"plans": ["freeze:0", "freeze:8"], "seed": range(3)}, out="runs/frozen",
    ...               task="nli", train={"en": "mnli.tsv"}, dev={"en": "dev.tsv"},
    ...               test={"en": "en.tsv", "nl": "nl.tsv"})  # doctest: +SKIP
    """
    chosen, values, jobs = plan_sweep(recipe, grid, out=out, options=options)
    device = str(options.get("device", "auto"))
    if cluster is not None or gpus is not None or cpus is not None:
        executor = choose_cluster(cluster, parallel=parallel, devices=devices, device=device, gpus=gpus, cpus=cpus)
    places = [] if cluster is not None else choose_devices(devices, device)
    width = at_least("parallel", max(1, len(places)) if parallel is None else parallel, 1)
    check_folder(Path(out), resume=resume)
    check_jobs(chosen, values, jobs, progress=progress)
    models = list(dict.fromkeys(model_name(str(job.first)) for job in jobs)) if chosen.first == "model" else []
    arguments = {"recipe": chosen.name, "grid": _plain(values), "options": _plain(options)}
    facts = {"command": "sweep", "arguments": arguments, "seed": options.get("seed", 0), "model": ", ".join(models),
             "hashes": {}}  # fmt: skip
    run = start(out, facts, resume=resume)
    try:
        run_jobs(
            with_shared_states(jobs, chosen, run.scratch / "states"),
            parallel=width,
            devices=places,
            progress=progress,
            executor=executor,
        )
    except InputError:
        if not any(job.folder.exists() for job in jobs):
            _discard(run, jobs)
        raise
    finally:
        shutil.rmtree(run.folder / "scratch", ignore_errors=True)
        done = [job for job in jobs if job.done]
        if done:
            collect(run, jobs, values)
    return run.finish() if len(done) == len(jobs) else frame(run.rows)


def plan_sweep(
    recipe: str, grid: Sequence[str] | Mapping[str, Any], *, out: str | Path, options: Mapping[str, Any]
) -> tuple[Recipe, dict[str, list[Any]], list[Job]]:
    """The recipe, the grid's values and the jobs a sweep would run; nothing is read or written."""
    chosen = find_recipe(recipe)
    given = {known_option(name, chosen, "option"): value for name, value in options.items()}
    values = read_grid(grid, chosen)
    return chosen, values, grid_jobs(chosen, values, given, folder=Path(out) / "jobs")


def choose_devices(given: str | Sequence[str] | None, device: str) -> list[str]:
    """The GPUs that take turns: those named, else all where there are several and none is named otherwise."""
    if given is None:
        several = device in ("auto", "cuda") and torch.cuda.is_available() and torch.cuda.device_count() > 1
        return [f"cuda:{number}" for number in range(torch.cuda.device_count())] if several else []
    if device not in ("auto", "cuda"):
        raise InputError(f"--devices are GPUs that take turns, and --device is {device}; leave one of them out")
    names = [one.strip() for one in given.split(",")] if isinstance(given, str) else list(given)
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for place, name in enumerate(names):
        number = name.removeprefix("cuda:")
        if not name.startswith("cuda:") or not number.isdigit():
            raise InputError(f"--devices takes GPUs with commas, as in cuda:0,cuda:1, not {name!r}")
        if int(number) >= there:
            raise InputError(f"--devices {name} is not there; this machine has {there} NVIDIA GPUs")
        if name in names[:place]:
            raise InputError(f"--devices has {name} twice; --parallel says how many jobs run at a time")
    return names


def choose_cluster(
    address: str | None,
    *,
    parallel: int | None,
    devices: str | Sequence[str] | None,
    device: str,
    gpus: float | None,
    cpus: float | None,
) -> Executor:
    """Jobs run on a cluster, each with a share of a machine there; one that computes on a CPU asks for no GPU."""
    if address is None:
        raise InputError("--gpus and --cpus are what a job asks of a cluster; give its --cluster, too")
    if devices is not None:
        raise InputError("--devices are GPUs of this machine; with --cluster, --gpus says what each job asks for")
    if gpus is not None and not 0 <= gpus <= 1:
        raise InputError(f"--gpus {gpus:g}: a job computes on one GPU, or shares it; give 0 to 1, as in 0.25")
    if cpus is not None and not cpus > 0:
        raise InputError(f"--cpus {cpus:g}: a job needs some of a CPU; give a number above 0")
    if parallel is not None:
        at_least("parallel", parallel, 1)
    asked = 0.0 if gpus is None and device == "cpu" else gpus
    return on_cluster(address, parallel=parallel, share=Share(asked, 1.0 if cpus is None else cpus))


def with_shared_states(jobs: Sequence[Job], recipe: Recipe, folder: Path) -> list[Job]:
    """The jobs, told where to share the states of frozen layers if others freeze the same layers over the same text."""
    if "frozen_cache" not in recipe.parameters:
        return list(jobs)

    def frozen(job: Job) -> str:
        return repr((job.first, sorted((str(k), str(v)) for k, v in job.options.items() if k not in LEAVE_STATES)))

    alike = Counter(map(frozen, jobs))
    shares = [
        alike[frozen(job)] > 1 and job.options.get("cache", True) and not job.options.get("frozen_cache")
        for job in jobs
    ]
    return [
        replace(job, options={**job.options, "frozen_cache": str(folder)}) if shared else job
        for job, shared in zip(jobs, shares, strict=True)
    ]


def check_jobs(recipe: Recipe, grid: Grid, jobs: Sequence[Job], *, progress: Progress = silent) -> None:
    """Let the recipe check every value of the grid before any job starts; what has begun was checked."""
    chosen = [jobs[number] for number in spread(grid) if not (jobs[number].folder / "run.json").is_file()]
    for number, job in enumerate(chosen):
        progress("checking the grid", number, len(chosen))
        texts, options = read_options(recipe, job.options)
        before = (job.first, *texts) if recipe.first == "model" else texts
        named = {} if recipe.first == "model" else {recipe.first: job.first}
        try:
            recipe.check(*before, **named, **options)
        except InputError as error:
            where = ", ".join(f"{name} {value}" for name, value in job.place.items())
            raise InputError(f"{error} (with {where}; no job was started)") from error
    progress("checking the grid", len(chosen), len(chosen))


def _discard(run: Run, jobs: Sequence[Job]) -> None:
    """Leave no folder behind where every job was refused: a mistake leaves no trace but its sentence."""
    for job in jobs:
        job.log.unlink(missing_ok=True)
    with suppress(OSError):  # not made yet, or there is more in it
        (run.folder / "jobs").rmdir()
    run.discard()


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As run.json keeps them: a path is a text, a range a list."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): plain(one) for key, one in value.items()}
        if isinstance(value, list | tuple | range):
            return [plain(one) for one in value]
        return value if isinstance(value, int | float | bool) or value is None else str(value)

    return {name: plain(value) for name, value in values.items()}
