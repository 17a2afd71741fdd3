"""What every paper's table asks of finished jobs: their notes, and that they are runs of one reproduction."""

from collections.abc import Hashable, Sequence
from typing import Any

from isogloss.errors import InputError
from isogloss.recipes.jobs import Job
from isogloss.runs.run import read_facts

Known = dict[Hashable, tuple[Job, Any]]


def notes_of(jobs: Sequence[Job]) -> list[str]:
    """The notes of these jobs, each once, in order."""
    return list(dict.fromkeys(note for job in jobs for note in read_facts(job.folder).get("notes", [])))


def refuse_mixtures(jobs: Sequence[Job]) -> None:
    """Refuse finished jobs of one recipe that differ in the hash of a model or a text."""
    first: dict[str, Job] = {}
    for job in jobs:
        other = first.setdefault(job.recipe, job)
        mine, theirs = (read_facts(one.folder)["hashes"] for one in (job, other))
        for name in sorted({*mine, *theirs}):
            if mine.get(name) != theirs.get(name):
                raise InputError(
                    f"{other.folder} and {job.folder} were run on a different {name}; they are no runs of one "
                    "reproduction: remove one of them and run again with --resume"
                )


def agree(known: Known, place: Hashable, job: Job, mine: Any, what: str) -> None:
    """Refuse a job whose hash is not that of the first at this place. known: the first of each, kept between calls."""
    other, theirs = known.setdefault(place, (job, mine))
    if mine != theirs:
        raise InputError(
            f"{other.folder} and {job.folder} were run with a different {what}; they are no runs of one reproduction: "
            "remove one of them and run again with --resume"
        )
