"""Models kept while one is tuned, and what is measured of them as curves over the steps of that tuning.

`isogloss drift --save N` writes the model as it is after N, 2N, ... updates to `RUN/models/PLAN-seed-S/step-N`, with
its head and tokenizer, as `from_pretrained` reads them. Step 0 is not written: it is the model that the run began with.
Beside the weights, `step.json` says where a model comes from. A sweep that is given the run as a model runs its recipe
on each of them and on the one they came from, and puts the step of the tuning into the rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.recipes.arguments import KEPT, model_name
from isogloss.runs.run import read_facts
from isogloss.runs.table import Row, key

FOLDER = "models"
COUNTED = ("chosen_step", "chosen_rate", "skipped")  # rows that describe one job, and are no curve


@dataclass(frozen=True)
class Kept:
    """A model that was kept: its folder, the run, the model that was tuned, by which plan and seed, after what step."""

    path: Path
    run: Path
    model: str
    variant: str
    seed: int
    step: int


def kept_models(run: Path) -> list[Kept]:
    """The models a run of drift has kept, by training and step; of a sweep of such runs, those of all its jobs."""
    found = [
        Kept(path.parent, run, *(json.loads(path.read_text(encoding="utf-8"))[name] for name in _FIELDS))
        for path in (run / FOLDER).glob(f"*/*/{KEPT}")
    ]
    for job in sorted(run.glob("jobs/*/run.json")):
        found += kept_models(job.parent)
    return sorted(found, key=lambda one: (str(one.run), one.variant, one.seed, one.step))


def with_kept(models: Sequence[Any]) -> list[str]:
    """The models of a grid, where the folder of a run of drift stands for the model it began with and all it has kept.

    >>> with_kept(["mini"])
    ['mini']
    """
    found: list[str] = []
    for one in models:
        run = Path(str(one))
        if not _is_tuning(run):
            found.append(str(one))
            continue
        kept = kept_models(run)
        if not kept:
            raise InputError(f"{run} has kept no models; tune again with --save N, which keeps one every N updates")
        found += [*(each.model for each in kept), *(str(each.path) for each in kept)]
    return list(dict.fromkeys(found))


def over_steps(rows: Sequence[Row], models: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a sweep over models, with those of kept models as curves over the steps of the tuning they come from.

    models: the grid's. A row of a kept model gets the name of the model that was tuned, the tuning's step and seed, and
    its plan before the variant; the model that was tuned is step 0 of every such curve. Of several seeds of one job
    their mean is taken, since `seed` is the tuning's now. Rows with a step of their own are left to the jobs' tables.
    """
    kept = [one for one in map(_read, models) if one is not None]
    if not kept:
        return [dict(one) for one in rows]
    places: dict[str, list[dict[str, Any]]] = {}
    for one in kept:
        begun = model_name(one.model)
        place = {"model": begun, "plan": _plan(one, kept), "seed": one.seed, "step": one.step}
        places[model_name(one.path)] = [place]
        start = {**place, "step": 0}
        places.setdefault(begun, [])
        places[begun] += [start] if start not in places[begun] else []
    results = [
        one for one in rows if one.get("model") in places and "step" not in one and one["measure"] not in COUNTED
    ]
    made = [_at(one, place) for one in _one_a_model(results) for place in places[one["model"]]]
    return [*made, *(dict(one) for one in rows if one.get("model") not in places)]


def same_names(models: Sequence[str]) -> list[str]:
    """Kept models that rows would call the same, though they are of different runs."""
    paths = [one for one in models if _read(one) is not None]
    names = [model_name(one) for one in paths]
    return [path for path, name in zip(paths, names, strict=True) if names.count(name) > 1]


_FIELDS = ("model", "variant", "seed", "step")


def _read(model: str) -> Kept | None:
    path = Path(model)
    if not (path / KEPT).is_file():
        return None
    record = json.loads((path / KEPT).read_text(encoding="utf-8"))
    return Kept(path, path.parent.parent.parent, *(record[name] for name in _FIELDS))


def _is_tuning(path: Path) -> bool:
    """Whether a folder is a run of drift, or a sweep or reproduction made of such."""
    if not (path / "run.json").is_file():
        return False
    facts = read_facts(path)
    return facts.get("command") == "drift" or (path / "jobs").is_dir()


def _plan(one: Kept, kept: Sequence[Kept]) -> str:
    """The plan, with the run before it where another run has trained the same plan with the same seed."""
    alike = {each.run for each in kept if (each.variant, each.seed) == (one.variant, one.seed)}
    return one.variant if len(alike) == 1 else f"{one.run.name} {one.variant}"


def _one_a_model(rows: Sequence[Row]) -> Iterator[Row]:
    """Means over the seeds of a job where there are any, else the rows of its only seed."""
    means = {key(one) for one in rows if "seed" not in one}
    for one in rows:
        if "seed" not in one or key({name: value for name, value in one.items() if name != "seed"}) not in means:
            yield one


def _at(one: Row, place: Mapping[str, Any]) -> dict[str, Any]:
    variant = f"{place['plan']} {one.get('variant', '')}".strip()
    return {**one, "model": place["model"], "variant": variant, "seed": place["seed"], "step": place["step"]}
