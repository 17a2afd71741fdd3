"""What a drift run that was cut off, or still runs, has and has not."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.recipes.drift import drift_job
from isogloss.recipes.legacy import parse_legacy, variant_of
from isogloss.report.phrases import listed
from isogloss.report.plans import TEST, is_drift, with_places
from isogloss.training.plans import parse_plan

Trainings = Sequence[tuple[str, int]]


def unfinished(record: Mapping[str, Any], rows: pd.DataFrame) -> list[str]:
    """Sentences on the trainings of a drift run that are not done: none for one that is finished.

    A training is done when its best model was tested. One that was cut off is left out of means over seeds where its
    plan has others that are done (`plans.complete`).
    """
    if record.get("command") != "drift" or record.get("status") == "finished" or not is_drift(rows):
        return []
    read = with_places(rows[rows["step"].notna() & (rows["measure"] == "perplexity")])
    done = _trainings(read[read["data"] == TEST])
    begun = {
        one: int(read.loc[(read["plan"] == one[0]) & (read["seed"] == one[1]), "step"].max())
        for one in _trainings(read)
    }
    planned = _planned(record) or list(begun)
    sentences = [f"This run is not finished: {len(done)} of {len(planned)} trainings are done."]
    for (plan, seed), step in begun.items():
        if (plan, seed) in done:
            continue
        beside = any(one == plan for one, _ in done)
        how = "and is left out of the means below" if beside else "and all that is known of this plan is from before"
        sentences.append(f"{plan}, seed {seed} was read at step {step:,} last {how}.")
    waiting = [one for one in planned if one not in begun]
    if waiting:
        sentences.append(f"Not begun: {_named(waiting)}.")
    return [*sentences, "Crossing, balance and models that were not tuned are worked out when all are done."]


def _trainings(rows: pd.DataFrame) -> dict[tuple[str, int], None]:
    return dict.fromkeys((str(plan), int(seed)) for plan, seed in zip(rows["plan"], rows["seed"], strict=True))


def _planned(record: Mapping[str, Any]) -> Trainings:
    """Every training that the run was asked for; nothing where its record does not say."""
    defaults = {name: one.default for name, one in inspect.signature(drift_job).parameters.items()}
    asked = {**defaults, **(record.get("arguments") or {})}
    try:
        first, count = int(asked["seed"]), int(asked["seeds"])
        plans = [parse_plan(one.strip()) for one in str(asked["plans"]).split(",")]
        sets = parse_legacy(asked["legacy"])
    except (InputError, TypeError, ValueError):
        return []
    return [
        (variant_of(plan, defects), seed)
        for plan in plans
        for defects in sets
        for seed in range(first, first + count)
    ]  # fmt: skip


def _named(trainings: Trainings) -> str:
    """Plans with their seeds: `last:6 (seeds 1 and 2)`."""
    seeds: dict[str, list[int]] = {}
    for plan, seed in trainings:
        seeds.setdefault(plan, []).append(seed)
    return listed([
        f"{plan} (seed{'s' * (len(some) > 1)} {listed([str(one) for one in some])})" for plan, some in seeds.items()
    ])  # fmt: skip
