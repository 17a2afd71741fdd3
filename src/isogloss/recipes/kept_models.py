"""Models kept while one is tuned, and what is measured of them as curves over the steps of that tuning.

`isogloss drift --save-every N` writes the model as it is after N, 2N, ... updates to `RUN/models/PLAN-seed-S/step-N`,
with its head and tokenizer, as `from_pretrained` reads them. Step 0 is not written: it is the model that the run began
with. Beside the weights, `step.json` says where a model comes from. A sweep that is given the run as a model runs its
recipe on each of them and on the one they came from, and puts the step of the tuning into the rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.recipes.recipe import model_name
from isogloss.runs.run import read_facts
from isogloss.runs.table import Row, key
from isogloss.training.resumable import RECORD

FOLDER = "models"
COUNTED = ("chosen_step", "chosen_rate", "skipped")  # measures that describe one job, and are no curve


@dataclass(frozen=True)
class KeptModel:
    """A model that was kept: its folder, the run, the model that was tuned, by which plan and seed, after what step."""

    path: Path
    run: Path
    model: str
    plan: str
    seed: int
    step: int


def kept_models(run: Path) -> list[KeptModel]:
    """The models a run of drift has kept, by training and step; of a sweep of such runs, those of all its jobs."""
    models = [_read(path.parent) for path in (run / FOLDER).glob(f"*/*/{RECORD}")]
    for job in sorted(run.glob("jobs/*/run.json")):
        models += kept_models(job.parent)
    return sorted(models, key=lambda kept: (str(kept.run), kept.plan, kept.seed, kept.step))


def with_kept(models: Sequence[Any]) -> list[str]:
    """The models of a grid, where the folder of a run of drift stands for the model it began with and all it has kept.

    >>> with_kept(["mini"])
    ['mini']
    """
    names: list[str] = []
    for model in models:
        run = Path(str(model))
        if not _is_tuning(run):
            names.append(str(model))
            continue
        kept = kept_models(run)
        if not kept:
            raise InputError(
                f"{run} has kept no models; tune again with --save-every N, which keeps one every N updates"
            )
        names += [*(each.model for each in kept), *(str(each.path) for each in kept)]
    return list(dict.fromkeys(names))


def over_steps(rows: Sequence[Row], models: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a sweep over models, with those of kept models as curves over the steps of the tuning they come from.

    A row of a kept model gets the name of the model that was tuned, the tuning's step and seed, and its plan (as the
    condition where a task was trained on top). The model that was tuned is step 0 of every such curve. Of several seeds
    of one job their mean is taken, since `seed` is the tuning's now. Rows with a step of their own are left to the
    jobs' tables.

    Args:
        rows: the rows of all jobs.
        models: the models of the grid.

    """
    kept = [_read(Path(model)) for model in models if _is_kept(model)]
    if not kept:
        return [dict(entry) for entry in rows]
    coordinates: dict[str, list[dict[str, Any]]] = {}
    for model in kept:
        tuned = model_name(model.model)
        after = {"model": tuned, "plan": _plan(model, kept), "seed": model.seed, "step": model.step}
        coordinates[model_name(model.path)] = [after]
        before = {**after, "step": 0}
        coordinates.setdefault(tuned, [])
        coordinates[tuned] += [before] if before not in coordinates[tuned] else []
    results = [
        entry
        for entry in rows
        if entry.get("model") in coordinates and "step" not in entry and entry["measure"] not in COUNTED
    ]
    curves = [_moved(entry, each) for entry in _one_a_model(results) for each in coordinates[entry["model"]]]
    return [*curves, *(dict(entry) for entry in rows if entry.get("model") not in coordinates)]


def same_names(models: Sequence[str]) -> list[str]:
    """Kept models that rows would call the same, though they are of different runs."""
    paths = [model for model in models if _is_kept(model)]
    names = [model_name(path) for path in paths]
    return [path for path, name in zip(paths, names, strict=True) if names.count(name) > 1]


def _is_kept(model: str) -> bool:
    return (Path(model) / RECORD).is_file()


def _read(path: Path) -> KeptModel:
    record = json.loads((path / RECORD).read_text(encoding="utf-8"))
    return KeptModel(path, path.parent.parent.parent, *(record[name] for name in ("model", "plan", "seed", "step")))


def _is_tuning(path: Path) -> bool:
    """Whether a folder is a run of drift, or a sweep or reproduction made of such."""
    if not (path / "run.json").is_file():
        return False
    return read_facts(path).get("command") == "drift" or (path / "jobs").is_dir()


def _plan(model: KeptModel, kept: Sequence[KeptModel]) -> str:
    """The plan, with the run before it where another run has trained the same plan with the same seed."""
    runs = {each.run for each in kept if (each.plan, each.seed) == (model.plan, model.seed)}
    return model.plan if len(runs) == 1 else f"{model.run.name} {model.plan}"


def _one_a_model(rows: Sequence[Row]) -> Iterator[Row]:
    """Means over the seeds of a job where there are any, else the rows of its only seed."""
    means = {key(entry) for entry in rows if "seed" not in entry}
    for entry in rows:
        if "seed" not in entry or key({name: value for name, value in entry.items() if name != "seed"}) not in means:
            yield entry


def _moved(entry: Row, coordinates: Mapping[str, Any]) -> dict[str, Any]:
    """A row at the coordinates of the tuning."""
    own = {"plan": coordinates["plan"]}
    if entry.get("plan"):  # of a training on top of the model that was kept
        own = {"condition": " ".join(filter(None, (coordinates["plan"], entry.get("condition"))))}
    return {**entry, **own, **{name: coordinates[name] for name in ("model", "seed", "step")}}
