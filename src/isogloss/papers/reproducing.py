"""`isogloss reproduce`: run what a paper ran, and put its numbers beside the measured ones.

The folder of a reproduction is a run folder (rows, figures, report), with the texts in `text`, models pretrained on the
spot, and the run folder of every recipe call in `jobs`. A job that is finished is not run again, so a reproduction can
be stopped, shared between commands (`only`, `only_seeds`) and gone on with; each command collects what is there.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.figure import as_text
from isogloss.files import write_text
from isogloss.papers.choosing import selected
from isogloss.papers.evidence import finding_lines
from isogloss.papers.options import taken
from isogloss.papers.paper import Outline, Paper, Request
from isogloss.papers.registry import find
from isogloss.progress import Progress, silent
from isogloss.recipes.jobs import Job, run_job, run_jobs
from isogloss.recipes.recipe import at_least
from isogloss.runs.jobs import refuse_others
from isogloss.runs.run import Run, check_folder, read_facts, start
from isogloss.runs.table import frame

SUMMARY = "summary.txt"
TOY = "models at smoke scale are tiny and hardly trained: what is held or not held here says nothing of the paper"


def reproduce(
    paper: str,
    *,
    scale: Annotated[str, "smoke: invented languages; mini: the embedded model; paper: as published"] = "smoke",
    out: str | Path,
    data: Annotated[str | None, "folder of data sets, with xnli in it"] = None,
    model: Annotated[str | None, "model to train: mini, a folder, or a hub id; default: by --scale"] = None,
    seeds: Annotated[int | None, "how many seeds everything has; default 3"] = None,
    only: Annotated[str | None, "run these jobs only, as in last:6,seed=1; what others have run is collected"] = None,
    only_seeds: Annotated[str | None, "run these seeds only, as in 0,2"] = None,
    parallel: Annotated[int, "jobs at a time, each a process of its own"] = 1,
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
    at_least("parallel", parallel, 1)
    chosen, outline = outline_of(paper, Request(scale, Path(out), data, model, seeds, device, dtype), **options)
    jobs = selected(outline.jobs, only, only_seeds)
    folder = Path(out)
    check_folder(folder, resume=resume)
    facts = {"command": "reproduce", "arguments": outline.arguments, "seed": 0, "model": outline.arguments["model"],
             "hashes": dict(outline.hashes()), "depth": outline.depth, "conditions": outline.conditions}  # fmt: skip
    run = start(folder, facts, resume=resume)
    refuse_others(outline.jobs)  # those that are not run again are collected with the rest
    try:
        outline.ready(progress)
        for job in outline.before:
            run_job(job, progress)
        run_jobs(jobs, parallel=parallel, progress=progress)
    except InputError:
        if not any(job.folder.exists() for job in (*outline.before, *outline.jobs)):
            run.discard()
        raise
    finally:
        done = [job for job in outline.jobs if job.done]
        if done:
            _collect(run, chosen, done, outline)
    return run.finish() if len(done) == len(outline.jobs) else frame(run.rows)


def _collect(run: Run, paper: Paper, done: Sequence[Job], outline: Outline) -> None:
    """Make the table and the summary anew from all jobs that are finished, whichever command ran them."""
    run.begin_anew()
    for sentence in outline.notes():
        run.note(sentence)
    if outline.arguments["scale"] == "smoke":
        run.note(TOY)
    paper.collect(run, done)
    run.facts["jobs"] = _facts_of(done)
    if len(done) < len(outline.jobs):
        run.note(f"{len(done)} of {len(outline.jobs)} jobs are finished; the others are missing here")
    write_text(run.folder / SUMMARY, "\n\n".join(summary(paper, frame(run.rows))) + "\n")


def outline_of(paper: str, request: Request, **options: Any) -> tuple[Paper, Outline]:
    """A paper, and what reproducing it as asked would do; nothing is written. options: those of this paper alone."""
    chosen = find(paper)
    return chosen, chosen.plan(request, **taken(chosen, options))


def outline_lines(outline: Outline, jobs: Sequence[Job]) -> list[str]:
    """What would be done for these jobs of it, and what all of them cost, a line each."""
    cost = outline.cost
    lines = [outline.conditions]
    for job in outline.before:
        lines += ["", f"first, {job.name}{' (finished)' * job.done}:", f"  {' '.join(job.words)}"]
    for kind in dict.fromkeys(map(_kind, jobs)):
        alike = [job for job in jobs if _kind(job) == kind]
        shared = set.intersection(*(set(job.words) for job in outline.jobs if _kind(job) == kind))
        lines += ["", f"then, {len(alike)} job{'s' * (len(alike) > 1)}:"]
        lines.append(f"  {' '.join(word for word in alike[0].words if word in shared)}")
        owns = [" ".join(word for word in job.words if word not in shared) for job in alike]
        lines += ["with"] * any(owns)
        lines += [f"  {own}{' (finished)' * job.done}" for own, job in zip(owns, alike, strict=True) if own]
    time = f"{cost.hours:.1f} hours" if cost.hours >= 1 else f"{60 * cost.hours:.0f} minutes"
    return [
        *lines,
        "",
        f"all {len(outline.jobs)} jobs: {cost.steps:,} updates, {cost.tokens / 1e6:,.1f} million tokens, about {time} "
        f"one by one, {cost.memory:.1f} GB each",
        *(f"  {sentence}" for sentence in cost.basis),
    ]


def _kind(job: Job) -> tuple[str, Any]:
    """What jobs whose commands are told together have in common."""
    return job.recipe, job.place.get("part")


def summary(paper: Paper, rows: pd.DataFrame) -> list[str]:
    """The paper's tables and the findings, as text."""
    return [
        *(as_text(one) for one in paper.tables(rows)),
        "\n".join(["Findings", *finding_lines(paper.findings(rows))]),
    ]


def _facts_of(done: Sequence[Job]) -> dict[str, Any]:
    """What finished jobs say of themselves: where they ran may be another machine than the one that collects."""
    facts = {job.name: read_facts(job.folder) for job in done}
    hours = [datetime.fromisoformat(one["finished"]) - datetime.fromisoformat(one["started"]) for one in facts.values()]
    places = {", ".join(str(part) for part in one["hardware"].values()) for one in facts.values()}
    versions = {f"{name} {number}" for one in facts.values() for name, number in one["versions"].items()}
    return {
        "finished": list(facts),
        "hours, all together": round(sum(one.total_seconds() for one in hours) / 3600, 3),
        "hardware": sorted(places),
        "versions": sorted(versions),
        "hashes": _hashes_of(facts, done),
    }


def _hashes_of(facts: Mapping[str, Any], done: Sequence[Job]) -> Any:
    """Of the first job of each recipe, which the others agree with; by recipe where there are several."""
    found = {job.recipe: facts[job.name]["hashes"] for job in reversed(done)}
    return found if len(found) > 1 else next(iter(found.values()))
