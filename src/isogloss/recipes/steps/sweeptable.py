"""The one table of a sweep, made anew from the rows of its finished jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from isogloss.recipes.kept_models import over_steps
from isogloss.recipes.recipe import model_name
from isogloss.recipes.steps.grids import Grid, as_settings
from isogloss.recipes.steps.seedmeans import mean_rows
from isogloss.runs.jobs import Job
from isogloss.runs.run import Run, read_facts, read_rows
from isogloss.runs.table import Row, is_given, key, settings_of, settings_text

CARRIED = ("model", "seed", "task", "plans", "switch", "switch_to", "switch_words")
"""Arguments whose value the rows have in a column: what is switched in `condition`, the others in their own."""


def collect(run: Run, jobs: Sequence[Job], grid: Grid) -> None:
    """Fill the run's table, notes and facts from all jobs that are finished.

    Where jobs differ in seeds, means over seeds are added, in place of those of single jobs. Models that a run of drift
    has kept become curves over its steps.
    """
    done = [job for job in jobs if job.done]
    run.begin_anew()
    notes = {job.name: list(read_facts(job.folder).get("notes", [])) for job in done}
    for job in done:
        for sentence in notes[job.name]:
            shared = all(sentence in others for others in notes.values())
            run.note(sentence if shared else f"{job.name}: {sentence}")
    rows = joined(done, grid)
    if "seed" in grid:
        rows = _without_means(rows)
        rows += mean_rows(rows)
    run.append(over_steps(rows, [str(one) for one in grid.get("model", ())]))
    run.facts["jobs"] = _facts_of(done)
    left = [job.name for job in jobs if job not in done]
    if left:
        run.note(f"{len(left)} of {len(jobs)} jobs are not finished and are missing here: {', '.join(left)}")


def joined(jobs: Sequence[Job], grid: Grid) -> list[dict[str, Any]]:
    """The rows of jobs one after the other, each told from the others' by its coordinates.

    An argument that no column carries, or whose column does not tell its values apart, is put into the row's
    settings. A row that is the same in several jobs is there once; where they have different values under the same
    coordinates, all of the grid is put into its settings.
    """
    told = [name for name in grid if not _carried(name, jobs)]
    found: dict[tuple[str, ...], list[tuple[Job, dict[str, Any]]]] = {}
    for job in jobs:
        own = as_settings(job.place, told, grid)
        for one in read_rows(job.folder).to_dict("records"):
            entry = {str(name): value for name, value in one.items() if is_given(value)}
            entry["settings"] = settings_text({**settings_of(entry), **own})
            found.setdefault(key(entry), []).append((job, entry))
    rows = []
    for some in found.values():
        differ = len({str(entry.get("value")) for _, entry in some}) > 1
        for job, entry in some if differ else some[:1]:
            rest = as_settings(job.place, [name for name in grid if name not in told], grid) if differ else {}
            rows.append({**entry, "settings": settings_text({**settings_of(entry), **rest})})
    return rows


def _carried(name: str, jobs: Sequence[Job]) -> bool:
    """Whether the rows have this argument in a column; two models may be called the same."""
    if name == "model":
        names = {str(job.place[name]): model_name(str(job.place[name])) for job in jobs}
        return len(set(names.values())) == len(names)
    return name in CARRIED


def _without_means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without rows that have no seed where the same is there with one: means over the seeds of one job."""

    def alike(one: Row) -> tuple[str, ...]:
        return key({name: value for name, value in one.items() if name != "seed"})

    seeded = {alike(one) for one in rows if "seed" in one}
    return [one for one in rows if "seed" in one or alike(one) not in seeded]


def _facts_of(done: Sequence[Job]) -> dict[str, Any]:
    """What finished jobs say of themselves, by name: they may have run on another machine than this."""
    facts = {job.name: read_facts(job.folder) for job in done}
    hours = [datetime.fromisoformat(one["finished"]) - datetime.fromisoformat(one["started"]) for one in facts.values()]
    return {
        "finished": list(facts),
        "hours, all together": round(sum(one.total_seconds() for one in hours) / 3600, 3),
        "hardware": sorted({", ".join(str(part) for part in one["hardware"].values()) for one in facts.values()}),
        "hashes": {name: one["hashes"] for name, one in facts.items()},
    }
