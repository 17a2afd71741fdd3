"""From the scores of every epoch to what a transfer run reports: the model source dev chooses, and the oracle's.

Whenever a model in training is scored, the counts of every example are kept in a file. When all its learning rates are
done, the epoch and rate with the best main score on the source's development set are chosen, and the scores of that one
model on every test set are the result. The oracle chooses for each target language by that language's own development
set: an upper bound that zero-shot transfer does not have (Keung et al. 2020), so it is reported apart.

    gap           source - target, of the main score in the same model (lower is better)
    relative_gap  (source - target) / source

Every score has the floor that the chosen model's shuffled answers give (`isogloss.tasks.task`).

Intervals are bootstrap percentiles over examples; over seeds they are Student's t of the mean. Test sets with equally
many examples are drawn together, number by number: where they are translations of each other, what is hard in one is
hard in the other, and their difference varies less than that of independent sets. Where they are not, a number means
nothing in the other set, and drawing together is drawing independently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.files import whole
from isogloss.measures import scores as counts
from isogloss.measures.scores import Score, resampled
from isogloss.measures.statistics import percentile_interval
from isogloss.recipes.steps.tasktexts import Sets
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.tasks.task import Task

OTHERS = "others"
ORACLE = "oracle"
FLOOR = "floor"

Scores = Sequence[Mapping[str, Score]]
"""The scores of one model: by name, for every set of `Sets.read_each_time`."""


@dataclass(frozen=True)
class Scored:
    """A model of a training at one step, and its scores."""

    rate: float
    step: int
    scores: Scores


def keep_scores(path: Path, scores: Scores) -> None:
    """Write the counts of scores, whole or not at all."""
    arrays = {
        f"{number} {score.ratio.__name__} {name}": np.asarray(score.counts, dtype=np.float64)
        for number, one in enumerate(scores)
        for name, score in one.items()
    }
    for number, one in enumerate(scores):
        arrays |= {f"{number} {FLOOR} {name}": np.array(score.floor) for name, score in one.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def kept_scores(path: Path) -> Scores:
    """What `keep_scores` wrote."""
    found: dict[int, dict[str, Score]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            number, ratio, name = key.split(" ", 2)
            if ratio != FLOOR:
                floor = arrays[known] if (known := f"{number} {FLOOR} {name}") in arrays else np.nan
                found.setdefault(int(number), {})[name] = Score(arrays[key], getattr(counts, ratio), float(floor))
    return [found[number] for number in range(len(found))]


def choose(models: Sequence[Scored], number: int, task: Task) -> Scored:
    """The model with the best main score on a set; of equals the first."""
    sign = 1 if task.higher_is_better else -1
    return max(models, key=lambda one: (sign * one.scores[number][task.main].value, -one.step))


def result_rows(models: Sequence[Scored], sets: Sets, task: Task, *, place: Mapping[str, Any]) -> list[Row]:
    """The rows of one plan and seed: of the model that source dev chooses, then of the oracle's, if there is one.

    place: model, plan, condition, seed and the like.
    """
    languages = list(sets.dev)
    best = choose(models, languages.index(sets.source), task)
    rows = _rows([best] * len(sets.tests), sets, task, place=place)
    if len(languages) > 1:
        chosen = [
            choose(models, languages.index(one.language), task) if one.language in languages else None
            for one in sets.tests
        ]
        rows += _rows(chosen, sets, task, place={**place, "selection": ORACLE})
    return rows


def _rows(chosen: Sequence[Scored | None], sets: Sets, task: Task, *, place: Mapping[str, Any]) -> list[Row]:
    """Scores of the chosen model of each test set, where there is one, and what they lose against the source."""
    found: list[Row] = []
    begin, home = len(sets.dev), sets.source_test
    drawn: dict[int, tuple[float, np.ndarray]] = {}
    floors: dict[int, float] = {}
    for number, (one, model) in enumerate(zip(sets.tests, chosen, strict=True)):
        if model is None:
            continue
        where = {**place, "target": one.language, "data": one.name}
        for name, score in model.scores[begin + number].items():
            values = resampled(score, seed_of(0, "bootstrap", len(score.counts)))
            low, high = percentile_interval(values)
            found.append(row(name, score.value, low=low, high=high, floor=score.floor, n=score.n, **where))
            if name == task.main:
                drawn[number], floors[number] = (score.value, values), score.floor
        found.append(row("chosen_step", model.step, **where))
        found.append(row("chosen_rate", model.rate, **where))
    source = drawn[home]
    for number, target in drawn.items():
        one = sets.tests[number]
        if one.language != sets.source:
            where = {**place, "target": one.language, "data": one.name, "unit": task.main}
            found += _gaps(source, target, n=_n(chosen, begin, number, task), where=where)
    others = [number for number in drawn if sets.tests[number].language != sets.source]
    if others:
        mean = (float(np.mean([drawn[n][0] for n in others])), np.mean([drawn[n][1] for n in others], axis=0))
        n = sum(_n(chosen, begin, number, task) for number in others)
        where = {**place, "target": OTHERS}
        low, high = percentile_interval(mean[1])
        floor = float(np.mean([floors[number] for number in others]))
        found.append(row(task.main, mean[0], low=low, high=high, floor=floor, n=n, **where))
        found += _gaps(source, mean, n=n, where={**where, "unit": task.main})
    return found


def _n(chosen: Sequence[Scored | None], begin: int, number: int, task: Task) -> int:
    model = chosen[number]
    assert model is not None
    return model.scores[begin + number][task.main].n


def _gaps(
    source: tuple[float, np.ndarray], target: tuple[float, np.ndarray], *, n: int, where: Mapping[str, Any]
) -> Iterator[Row]:
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, scale in (("gap", (1.0, np.ones(1))), ("relative_gap", source)):
            value = (source[0] - target[0]) / scale[0] if scale[0] else np.nan  # no share of nothing
            low, high = percentile_interval((source[1] - target[1]) / scale[1])
            yield row(name, value, low=low, high=high, n=n, **where)
