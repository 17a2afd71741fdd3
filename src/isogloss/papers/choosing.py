"""Which jobs of a reproduction a command runs: those that `only` names by their coordinates, and what these need."""

from collections.abc import Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.recipes.jobs import Job


def selected(jobs: Sequence[Job], only: str | None = None, only_seeds: str | None = None) -> list[Job]:
    """The jobs that `only` names; all where nothing is said.

    only: values with commas, such as `last:6,seed=1`. A value may stand alone where one coordinate alone has it, else
    it is `coordinate=value`. Values of one coordinate are alternatives; each coordinate that is named must agree. Jobs
    that a chosen one needs, such as the training of its model, are chosen with it.
    only_seeds: numbers with commas, short for `seed=`.
    """
    wanted: dict[str, set[str]] = {}
    for option, given, prefix in (("only", only, ""), ("only-seeds", only_seeds, "seed=")):
        for item in (given or "").split(",") if given is not None else ():
            name, value = _named(jobs, f"{prefix}{item.strip()}", f"--{option} {item.strip()!r}")
            wanted.setdefault(name, set()).add(value)
    found = [job for job in jobs if all(str(job.place.get(name)) in values for name, values in wanted.items())]
    if not found:
        raise InputError(f"--only {only!r} leaves no job: none has all of {', '.join(wanted)} so")
    return [job for job in jobs if job in found or job.folder in _needed(jobs, found)]


def _needed(jobs: Sequence[Job], some: Sequence[Job]) -> set[Path]:
    """The folders of all that these jobs need, and that those need in turn."""
    folders = {folder for job in some for folder in job.needs}
    return folders | _needed(jobs, [job for job in jobs if job.folder in folders]) if folders else folders


def _named(jobs: Sequence[Job], item: str, told: str) -> tuple[str, str]:
    """The coordinate and the value that an item names."""
    known: dict[str, dict[str, None]] = {}
    for job in jobs:
        for name, value in job.place.items():
            known.setdefault(name, {})[str(value)] = None
    name, _, value = item.partition("=")
    places = [name] if name in known and value in known[name] else [one for one in known if item in known[one]]
    if len(places) > 1:
        raise InputError(f"{told} may be {' or '.join(f'{one}={item}' for one in places)}; write one of them")
    if not places:
        listed = "; ".join(f"{one} {', '.join(values)}" for one, values in known.items())
        raise InputError(f"{told} chooses no job of this paper; it has {listed}")
    return places[0], value if places == [name] else item
