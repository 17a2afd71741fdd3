"""What papers that are not converted yet ask of finished jobs; `paper.refuse_mixtures` replaces `agree`."""

from collections.abc import Hashable
from typing import Any

from isogloss.errors import InputError
from isogloss.papers.paper import notes_of, refuse_mixtures
from isogloss.recipes.jobs import Job

__all__ = ["Known", "agree", "notes_of", "refuse_mixtures"]
Known = dict[Hashable, tuple[Job, Any]]


def agree(known: Known, place: Hashable, job: Job, mine: Any, what: str) -> None:
    """Refuse a job whose hash is not that of the first at this place. known: the first of each, kept between calls."""
    other, theirs = known.setdefault(place, (job, mine))
    if mine != theirs:
        raise InputError(
            f"{other.folder} and {job.folder} were run with a different {what}; they are no runs of one reproduction: "
            "remove one of them and run again with --resume"
        )
