"""Runs of different models or texts, which no table may hold side by side."""

from collections.abc import Sequence

from isogloss.errors import InputError
from isogloss.recipes.jobs import Job
from isogloss.runs.run import read_facts


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
