"""`isogloss reproduce`: run what a paper ran, and put its numbers beside the measured ones.

The folder of a reproduction is a run folder (rows, figures, report), with the texts in `text`, models pretrained on the
spot, and the run folder of every recipe call in `jobs`. A job that is finished is not run again, so a reproduction can
be stopped, shared between commands (`only`, `only_seeds`) and gone on with; each command collects what is there.

A paper is a module of this package, named author and year, that holds `PAPER`: a new one is one more file, and nothing
else is edited. The options of a paper are the keyword arguments of its `plan`, each annotated with its help.
"""

import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.figure import as_text
from isogloss.files import write_text
from isogloss.papers.paper import SCALES, SEEDS, Outline, Paper, Request
from isogloss.papers.results import Results
from isogloss.progress import Progress, silent
from isogloss.recipes.jobs import Job, facts_of_jobs, job_lines, refuse_others, run_job, run_jobs
from isogloss.recipes.recipe import Option, check_arguments
from isogloss.runs.run import Run, check_folder, read_facts, start
from isogloss.runs.table import frame

SUMMARY = "summary.txt"
TOY = "models at smoke scale are tiny and hardly trained: what is held or not held here says nothing of the paper"


def reproduce(
    paper: str,
    *,
    scale: Annotated[
        str, Option("smoke: invented languages; mini: the embedded model; paper: as published", choices=SCALES)
    ] = "smoke",
    out: str | Path,
    data: Annotated[str | None, "folder of data sets, with xnli in it"] = None,
    model: Annotated[str | None, "model to train: mini, a folder, or a hub id; default: by --scale"] = None,
    seeds: Annotated[int, Option("how many seeds everything has", least=1)] = SEEDS,
    only: Annotated[str | None, "run these jobs only, as in last:6,seed=1; what others have run is collected"] = None,
    only_seeds: Annotated[str | None, "run these seeds only, as in 0,2"] = None,
    parallel: Annotated[int, Option("jobs at a time, each a process of its own", least=1)] = 1,
    device: Annotated[str, "auto, cpu, cuda or mps"] = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Run what a paper ran, and set its published numbers beside the measured ones.

    options: those that the paper alone has, which are the keyword arguments of its `plan`. Returns
    the rows of all jobs that are finished, `published` filled where the paper has a number.

    Example: isogloss reproduce hussain2020 --scale smoke

    >>> table = reproduce("hussain2020", scale="smoke", out="runs/smoke")  # doctest: +SKIP
    """
    check_arguments(reproduce, {"parallel": parallel})
    folder = Path(out)
    chosen, outline = outline_of(paper, Request(scale, folder, data, model, seeds, device, dtype), **options)
    jobs = selected(outline.jobs, only, only_seeds)
    check_folder(folder, resume=resume)
    facts = {
        "command": "reproduce",
        "arguments": outline.arguments,
        "seed": 0,
        "model": outline.arguments["model"],
        "hashes": dict(outline.texts.facts["hashes"]),
        "depth": outline.depth,
        "conditions": outline.conditions,
    }
    with start(folder, facts, resume=resume) as run:
        refuse_others(outline.jobs)  # those that are not run again are collected with the rest
        try:
            outline.texts.write(progress)
            for job in outline.before:
                run_job(job, progress)
            run_jobs(jobs, parallel=parallel, progress=progress)
        finally:
            done = [job for job in outline.jobs if job.done]
            if done:
                _collect(run, chosen, done, outline)
        return run.finish() if len(done) == len(outline.jobs) else frame(run.rows)


def _collect(run: Run, paper: Paper, done: Sequence[Job], outline: Outline) -> None:
    """Make the table and the summary anew from all jobs that are finished, whichever command ran them."""
    run.begin_anew()
    for sentence in (*outline.texts.facts["notes"], *outline.notes):
        run.note(sentence)
    if outline.arguments["scale"] == "smoke":
        run.note(TOY)
    paper.collect(run, done)
    hashes = {job.recipe: read_facts(job.folder)["hashes"] for job in reversed(done)}  # the first of each recipe's
    run.facts["jobs"] = facts_of_jobs(done) | {"hashes": hashes}
    if len(done) < len(outline.jobs):
        run.note(f"{len(done)} of {len(outline.jobs)} jobs are finished; the others are missing here")
    write_text(run.folder / SUMMARY, "\n\n".join(summary(paper, frame(run.rows))) + "\n")


def summary(paper: Paper, rows: pd.DataFrame) -> list[str]:
    """The paper's tables and what became of its claims, as text."""
    results = Results(rows)
    judged = "\n".join(["Findings", *(finding.sentence for finding in paper.findings(results))])
    return [*(as_text(table) for table in paper.tables(results)), judged]


def outline_of(paper: str, request: Request, **options: Any) -> tuple[Paper, Outline]:
    """A paper, and what reproducing it as asked would do; nothing is written.

    Args:
        paper: its name.
        request: what the user asks of any paper.
        options: those of this paper alone; None for one that was not given.
    """
    chosen, known = find(paper), paper_options(paper)
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            listed = ", ".join(f"--{each}" for each in known) or "none"
            raise InputError(f"--{name} is no option of {paper}, whose own are: {listed}".replace("_", "-"))
    check_arguments(reproduce, vars(request))
    check_arguments(chosen.plan, given)
    outline: Outline = chosen.plan(request, **given)
    conditions = f"{chosen.about}; at {request.scale} scale: {outline.conditions}"
    arguments = {"paper": paper, "scale": request.scale, **outline.arguments}
    return chosen, replace(outline, conditions=conditions, arguments=arguments)


def outline_lines(outline: Outline, jobs: Sequence[Job]) -> list[str]:
    """What would be done for these jobs of it, and how long all of them take, a line each."""
    lines, parts = [outline.conditions], list(map(_part, outline.jobs))
    for job in outline.before:
        lines += ["", f"first, {job.name}{' (finished)' * job.done}:", f"  {' '.join(job.words)}"]
    for part in dict.fromkeys(map(_part, jobs)):
        same, among = ([job for job in some if _part(job) == part] for some in (jobs, outline.jobs))
        first, *others = job_lines(same, among)
        lines += ["", f"then, {len(same)} job{'s' * (len(same) > 1)}:", f"  {first}", *others]
    hours = sum(outline.seconds.get(part, 0.0) for part in parts) / 3600
    time = f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"
    counts = ", ".join(f"{parts.count(part)} of {part}" for part in dict.fromkeys(parts))
    each = ", ".join(f"{seconds:,.0f} s a job of {part}" for part, seconds in outline.seconds.items())
    return [
        *lines,
        "",
        f"all {len(parts)} jobs, {counts}: about {time} one by one",
        f"  {each} at the settings of this scale, {outline.measured}",
    ]


def _part(job: Job) -> str:
    """What jobs whose commands are shown together, and which take about as long, have in common."""
    return str(job.coordinates.get("part", job.recipe))


# ------------------------------------------------------------------------------------------------ papers and options


def names() -> list[str]:
    """The papers there are.

    >>> "hussain2020" in names()
    True
    """
    modules = [path.stem for path in Path(__file__).parent.glob("*.py")]
    return sorted(name for name in modules if re.fullmatch(r"[a-z]+[0-9]{4}", name))


def find(name: str) -> Paper:
    """The paper of this name."""
    if name not in names():
        raise InputError(f"there is no paper {name!r} to reproduce; there is {', '.join(names())}")
    paper: Paper = import_module(f"isogloss.papers.{name}").PAPER
    return paper


def paper_options(name: str) -> dict[str, inspect.Parameter]:
    """The options that one paper alone has, by name: the keyword arguments of its `plan`, annotated with their help.

    >>> "native" in paper_options("hussain2020")
    True
    """
    parameters = inspect.signature(find(name).plan).parameters
    return {each: parameter for each, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY}


# ------------------------------------------------------------------------------------------------ choosing jobs


def selected(jobs: Sequence[Job], only: str | None = None, only_seeds: str | None = None) -> list[Job]:
    """The jobs that `only` names by their coordinates, and those that they need; all where nothing is said.

    Args:
        jobs: to choose from.
        only: values with commas, such as `last:6,seed=1`. A value may stand alone where one coordinate alone has it,
            else it is `coordinate=value`. Values of one coordinate are alternatives; each coordinate that is named must
            agree. Jobs that a chosen one needs, such as the training of its model, are chosen with it.
        only_seeds: numbers with commas, short for `seed=`.
    """
    known: dict[str, dict[str, None]] = {}  # every coordinate, and its values
    for job in jobs:
        for name, value in job.coordinates.items():
            known.setdefault(name, {})[str(value)] = None
    wanted: dict[str, set[str]] = {}
    given = [("only", "", item.strip()) for item in only.split(",")] if only is not None else []
    given += [("only-seeds", "seed=", item.strip()) for item in only_seeds.split(",")] if only_seeds is not None else []
    for option, prefix, written in given:
        item = f"{prefix}{written}"
        name, _, value = item.partition("=")
        alone = value not in known.get(name, {})  # a value without its coordinate
        having = [each for each in known if item in known[each]] if alone else [name]
        if len(having) > 1:
            choices = " or ".join(f"{each}={item}" for each in having)
            raise InputError(f"--{option} {written!r} may be {choices}; write one of them")
        if not having:
            listed = "; ".join(f"{each} {', '.join(values)}" for each, values in known.items())
            raise InputError(f"--{option} {written!r} chooses no job of this paper; it has {listed}")
        wanted.setdefault(having[0], set()).add(item if alone else value)
    chosen = [job for job in jobs if all(str(job.coordinates.get(name)) in values for name, values in wanted.items())]
    if not chosen:
        raise InputError(f"--only {only!r} leaves no job: none has all of {', '.join(wanted)} so")
    needed = {folder for job in chosen for folder in job.needs}
    while more := {folder for job in jobs if job.folder in needed for folder in job.needs} - needed:
        needed |= more
    return [job for job in jobs if job in chosen or job.folder in needed]
