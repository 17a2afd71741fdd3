"""`isogloss reproduce`: run what a paper ran, and put its numbers beside the measured ones.

The folder of a reproduction is a run folder (rows, figures, report), with the texts in `text`, models pretrained on the
spot, and the run folder of every recipe call in `jobs`. A job that is finished is not run again, so a reproduction can
be stopped, shared between commands (`only`, `only_seeds`) and gone on with; each command collects what is there.
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.files import write_text
from isogloss.papers.evidence import finding_lines
from isogloss.papers.jobs import Job, run_job, run_jobs
from isogloss.papers.paper import Outline, Paper, Request
from isogloss.papers.registry import find
from isogloss.papers.tables import as_text
from isogloss.progress import Progress, silent
from isogloss.recipes.arguments import at_least
from isogloss.runs.run import Run, check_folder, read_facts, start
from isogloss.runs.table import frame

SUMMARY = "summary.txt"


def reproduce(
    paper: str,
    *,
    scale: Annotated[str, "smoke: invented languages; mini: the embedded model; paper: as published"] = "smoke",
    out: str | Path,
    data: Annotated[str | None, "folder of data sets, with xnli in it"] = None,
    text: Annotated[str | None, "file of sentences to tune on; default: drift/LANG.txt of --data"] = None,
    model: Annotated[str | None, "model to tune: mini, a folder, or a hub id; default: by --scale"] = None,
    native: Annotated[str | None, "masked LM of the language, equally deep; default: pretrained, or by --scale"] = None,
    native_text: Annotated[str | None, "file the native model is pretrained on; default: what is tuned on"] = None,
    native_steps: Annotated[int | None, "updates of that pretraining; default: by --scale"] = None,
    seeds: Annotated[int | None, "how many seeds each plan has; default 3"] = None,
    every: Annotated[int | None, "updates between readings of perplexity; default: by --scale"] = None,
    distance: Annotated[int | None, "updates between readings of distances; default: by --scale"] = None,
    watched: Annotated[int | None, "sentences of each other language; default: by --scale"] = None,
    only: Annotated[str | None, "run these plans only, with commas; what others have run is collected"] = None,
    only_seeds: Annotated[str | None, "run these seeds only, as in 0,2"] = None,
    parallel: Annotated[int, "jobs at a time, each a process of its own"] = 1,
    device: Annotated[str, "auto, cpu, cuda or mps"] = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
    resume: bool = False,
    progress: Progress = silent,
) -> pd.DataFrame:
    """Run what a paper ran, and set its published numbers beside the measured ones.

    Returns the rows of all jobs that are finished, `published` filled where the paper has a number.

    Example: isogloss reproduce hussain2020 --scale smoke

    >>> table = reproduce("hussain2020", scale="smoke", out="runs/smoke")  # doctest: +SKIP
    """
    at_least("parallel", parallel, 1)
    request = Request(scale, Path(out), data, text, model, native, native_text, native_steps, seeds, every, distance,
                      watched, device, dtype)  # fmt: skip
    chosen, outline = outline_of(paper, request)
    jobs = selected(outline.jobs, only, only_seeds)
    folder = Path(out)
    check_folder(folder, resume=resume)
    facts = {"command": "reproduce", "arguments": outline.arguments, "seed": 0, "model": outline.arguments["model"],
             "hashes": dict(outline.hashes()), "depth": outline.depth, "conditions": outline.conditions}  # fmt: skip
    run = start(folder, facts, resume=resume)
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
    paper.collect(run, done)
    run.facts["jobs"] = _facts_of(done)
    if len(done) < len(outline.jobs):
        run.note(f"{len(done)} of {len(outline.jobs)} jobs are finished; the others are missing here")
    write_text(run.folder / SUMMARY, "\n\n".join(summary(paper, frame(run.rows))) + "\n")


def outline_of(paper: str, request: Request) -> tuple[Paper, Outline]:
    """A paper, and what reproducing it as asked would do; nothing is written."""
    chosen = find(paper)
    return chosen, chosen.plan(request)


def outline_lines(outline: Outline, jobs: Sequence[Job]) -> list[str]:
    """What would be done for these jobs of it, and what all of them cost, a line each."""
    cost = outline.cost
    lines = [outline.conditions]
    for job in outline.before:
        lines += ["", f"first, {job.name}{' (finished)' * job.done}:", f"  {' '.join(job.words)}"]
    if jobs:
        shared = set.intersection(*(set(job.words) for job in outline.jobs))
        lines += [
            "",
            f"then, {len(jobs)} jobs:",
            f"  {' '.join(word for word in jobs[0].words if word in shared)}",
            "with",
        ]
        for job in jobs:
            own = " ".join(word for word in job.words if word not in shared)
            lines.append(f"  {own}{' (finished)' * job.done}")
    time = f"{cost.hours:.1f} hours" if cost.hours >= 1 else f"{60 * cost.hours:.0f} minutes"
    return [
        *lines,
        "",
        f"all {len(outline.jobs)} jobs: {cost.steps:,} updates, {cost.tokens / 1e6:,.1f} million tokens, about {time} "
        f"one by one, {cost.memory:.1f} GB each",
        *(f"  {sentence}" for sentence in cost.basis),
    ]


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
        "hashes": next(iter(facts.values()))["hashes"],
    }


def selected(jobs: Sequence[Job], only: str | None, only_seeds: str | None) -> list[Job]:
    """The jobs of these plans and seeds; all where nothing is said."""
    wanted: dict[str, set[Any]] = {}
    for option, place, given in (("only", "plan", only), ("only-seeds", "seed", only_seeds)):
        if given is None:
            continue
        known = {str(job.place[place]): job.place[place] for job in jobs}
        named = [one.strip() for one in given.split(",")]
        unknown = [one for one in named if one not in known]
        if unknown:
            raise InputError(f"--{option} {unknown[0]!r} is no {place} of this paper; it has {', '.join(known)}")
        wanted[place] = {known[one] for one in named}
    return [job for job in jobs if all(job.place[place] in values for place, values in wanted.items())]
