"""Models kept while one is tuned, and what is measured of them as curves over the steps of that tuning.

`isogloss drift --save-every N` writes the model as it is after N, 2N, ... updates to `RUN/models/PLAN-seed-S/step-N`,
with its head and tokenizer, as `from_pretrained` reads them. Step 0 is not written: it is the model that the run began
with. Beside the weights, `step.json` says where a model comes from. A sweep that is given the run as a model runs its
recipe on each of them and on the one they came from, and puts the step of the tuning into the rows.
"""

import json
from collections.abc import Sequence
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
        is_run = (run / "run.json").is_file()
        if not is_run or not (read_facts(run).get("command") == "drift" or (run / "jobs").is_dir()):
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
    condition where a task was trained on top), with the name of its run before that where another run has trained the
    same plan with the same seed. The model that was tuned is step 0 of every such curve. Of several seeds of one job
    their mean is taken, since `seed` is the tuning's now. Rows with a step of their own are left to the jobs' tables.
    """
    kept = [_read(Path(model)) for model in models if _is_kept(model)]
    if not kept:
        return [dict(entry) for entry in rows]
    coordinates: dict[str, list[dict[str, Any]]] = {}
    for model in kept:
        tuned = model_name(model.model)
        runs = {each.run for each in kept if (each.plan, each.seed) == (model.plan, model.seed)}
        plan = model.plan if len(runs) == 1 else f"{model.run.name} {model.plan}"
        after = {"model": tuned, "plan": plan, "seed": model.seed, "step": model.step}
        coordinates[model_name(model.path)] = [after]
        before = {**after, "step": 0}
        coordinates.setdefault(tuned, [])
        coordinates[tuned] += [before] if before not in coordinates[tuned] else []
    measured = [entry for entry in rows if "step" not in entry and entry["measure"] not in COUNTED]
    means = {key(entry) for entry in measured if "seed" not in entry}  # over the seeds of a job, where it has several
    curves: list[dict[str, Any]] = []
    for entry in measured:
        if "seed" in entry and key({**entry, "seed": None}) in means:
            continue
        for tuning in coordinates.get(entry.get("model", ""), []):
            own = {**entry, **tuning}
            if entry.get("plan"):  # of a training on top of the model that was kept
                condition = " ".join(filter(None, (tuning["plan"], entry.get("condition"))))
                own |= {"plan": entry["plan"], "condition": condition}
            curves.append(own)
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
