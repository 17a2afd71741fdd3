"""From the answers of every model in training to what a run of a task reports: the chosen model's scores, and the gaps.

Whenever a model in training is scored, the counts of every example are written to a file. When a plan's trainings are
done, the step and the learning rate with the best main score on the source's development set are chosen, and the scores
of that one model on every test set are the result. The oracle chooses for each target language by that language's own
development set: an upper bound that zero-shot transfer does not have (Keung et al. 2020), so it is reported apart.

    gap           source - target, of the main score in the same model (lower is better)
    relative_gap  (source - target) / source

Every score has the floor that the chosen model's shuffled answers give (`isogloss.tasks.task.chance_floors`).

Intervals are bootstrap percentiles over examples; over seeds they are Student's t of the mean. Test sets with equally
many examples are drawn together, number by number: where they are translations of each other, what is hard in one is
hard in the other, and their difference varies less than that of independent sets. Where they are not, a number means
nothing in the other set, and drawing together is drawing independently.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isogloss.errors import readable, require
from isogloss.files import whole
from isogloss.measures import scores as ratios
from isogloss.measures.scores import Score, left_out, resampled
from isogloss.measures.statistics import PARTS, percentile_interval
from isogloss.recipes.task_sets import TaskSet, TaskSets
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.tasks.frozen_prefix import Prefix
from isogloss.tasks.model import TaskModel, predict
from isogloss.tasks.task import Items, Task, chance_floors
from isogloss.training.loop import Training
from isogloss.training.probes import Probe, Reading

OTHERS = "others"  # the target of a mean over all languages but the source
ORACLE = "oracle"
FLOOR = "floor"
DAMAGED = "holds no scores", "remove the folder of this training, and --resume trains it again"

Scores = Sequence[Mapping[str, Score]]
"""The scores of one model: by name, for every set of `TaskSets.scored`."""


# --- one model -------------------------------------------------------------------------------------------------------


def score_sets(
    model: TaskModel,
    task_sets: Sequence[TaskSet],
    items: Sequence[Items],
    *,
    prefixes: Sequence[Prefix | None],
    dtype: torch.dtype | None,
) -> Scores:
    """The scores of a model on sets, each with the floor of its shuffled answers."""
    every = []
    for task_set, part, prefix in zip(task_sets, items, prefixes, strict=True):
        given = predict(model, task_set.examples, part, prefix=prefix, dtype=dtype)
        scores = model.task.score(task_set.examples, given, task_set.language)
        floors = chance_floors(model.task, task_set.examples, given, task_set.language, name=task_set.name)
        every.append({name: replace(score, floor=floors[name]) for name, score in scores.items()})
    return every


def score_probe(
    training: Training,
    model: TaskModel,
    sets: TaskSets,
    items: Sequence[Items],
    *,
    prefixes: Sequence[Prefix | None],
    dtype: torch.dtype | None,
    folder: Path,
    every: int,
) -> Probe:
    """A probe that scores the model in training on every set that is scored, and leaves the counts in its folder."""

    def take() -> Iterator[Reading]:
        if training.step == 0:  # a head that was not trained says nothing
            return
        scores = score_sets(model, sets.scored, items, prefixes=prefixes, dtype=dtype)
        save_scores(folder, training.step, scores)
        for task_set, by_name in zip(sets.scored, scores, strict=True):
            for name, score in by_name.items():
                where = {"target": task_set.language, "data": task_set.name}
                yield {"measure": name, "value": score.value, "floor": score.floor, "n": score.n, **where}

    return Probe(every, take)


def save_scores(folder: Path, step: int, scores: Scores) -> None:
    """Write the counts of a model's scores below the folder of its training, whole or not at all."""
    arrays = {}
    for number, by_name in enumerate(scores):
        for name, score in by_name.items():
            arrays[f"{number} {score.ratio.__name__} {name}"] = np.asarray(score.counts, dtype=np.float64)
            arrays[f"{number} {FLOOR} {name}"] = np.array(score.floor)
    path = folder / "counts" / f"{step:07d}.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def read_scores(path: Path) -> Scores:
    """Read a file that `save_scores` wrote."""
    scores: dict[int, dict[str, Score]] = {}
    with readable(path, *DAMAGED), np.load(path) as arrays:
        for key in arrays.files:
            number, ratio, name = key.split(" ", 2)
            if ratio != FLOOR:
                floor = float(arrays[f"{number} {FLOOR} {name}"])
                scores.setdefault(int(number), {})[name] = Score(arrays[key], getattr(ratios, ratio), floor)
    return [scores[number] for number in range(len(scores))]


# --- the choice between models ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredModel:
    """A model of a training at one step, and its scores."""

    rate: float
    step: int
    scores: Scores


def scored_models(folder: Path, rate: float, *, number: int = 1) -> list[ScoredModel]:
    """The models of a finished training that were scored, in order; a choice between fewer would be another choice."""
    files = sorted((folder / "counts").glob("*.npz"))
    require(len(files) == number, f"{folder} holds {len(files)} of {number} scored models; {DAMAGED[1]}")
    return [ScoredModel(rate, int(path.stem), read_scores(path)) for path in files]


def choose(models: Sequence[ScoredModel], number: int, task: Task) -> ScoredModel:
    """The model with the best main score on the set of this number; of equals the first."""
    sign = 1 if task.higher_is_better else -1
    return max(models, key=lambda model: (sign * model.scores[number][task.main].value, -model.step))


def result_rows(models: Sequence[ScoredModel], sets: TaskSets, coordinates: Mapping[str, Any]) -> list[Row]:
    """The rows of one plan and seed: of the model that source dev chooses, then of the oracle's, if there is one.

    Args:
        models: Every model of the plan's trainings that was scored.
        sets: What they were scored on.
        coordinates: Model, plan, condition, seed and the like.
    """
    best = {language: choose(models, number, sets.task) for number, language in enumerate(sets.dev)}
    rows = list(_test_rows([best[sets.source]] * len(sets.tests), sets, coordinates))
    if len(best) > 1:
        oracles = [best.get(test.language) for test in sets.tests]
        rows += _test_rows(oracles, sets, {**coordinates, "selection": ORACLE})
    return rows


def _test_rows(chosen: Sequence[ScoredModel | None], sets: TaskSets, coordinates: Mapping[str, Any]) -> Iterator[Row]:
    """Scores of the model chosen for each test set, where there is one, and what they lose against the source.

    Both scores of a gap come from the same model. The mean over languages is left out unless each has a chosen model.
    """
    name, main = sets.task.main, dict[int, np.ndarray]()
    answers: dict[int, dict[str, Any]] = {}  # floor, number of items and coordinates of each main score
    first = len(sets.dev) + [test.language for test in sets.tests].index(sets.source)  # its first test set
    models = {id(model): model for model in chosen if model is not None}
    sources = {key: _drawn_values(model.scores[first][name]) for key, model in models.items()}
    for number, (test, model) in enumerate(zip(sets.tests, chosen, strict=True)):
        if model is None:
            continue
        where = {**coordinates, "target": test.language, "data": test.name}
        for measure, score in model.scores[len(sets.dev) + number].items():
            values = _drawn_values(score)
            yield _interval_row(measure, values, floor=score.floor, n=score.n, **where)
            if measure == name:
                main[number], answers[number] = values, {**where, "floor": score.floor, "n": score.n}
        yield row("chosen_step", model.step, **where)
        yield row("chosen_rate", model.rate, **where)
    others = [number for number in main if sets.tests[number].language != sets.source]
    own = {number: sources[id(chosen[number])] for number in others}
    for number in others:
        yield from _gap_rows(own[number], main[number], {**answers[number], "floor": None, "unit": name})
    if others and None not in chosen:
        source, mean = (np.mean([values[number] for number in others], axis=0) for values in (own, main))
        floor = float(np.mean([answers[number]["floor"] for number in others]))
        where = {**coordinates, "target": OTHERS, "n": sum(answers[number]["n"] for number in others)}
        yield _interval_row(name, mean, floor=floor, **where)
        yield from _gap_rows(source, mean, {**where, "unit": name})


def _drawn_values(score: Score) -> np.ndarray:
    """A score, the scores without each part of its examples, and those of its bootstrap draws: (1 + parts + draws,)."""
    draws = resampled(score, seed_of(0, "bootstrap", len(score.counts)))
    return np.concatenate([[score.value], left_out(score), draws])


def _gap_rows(source: np.ndarray, target: np.ndarray, where: Mapping[str, Any]) -> Iterator[Row]:
    yield _interval_row("gap", source - target, **where)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (source - target) / source
        relative[0] = relative[0] if source[0] else np.nan  # no share of nothing
        relative_row = _interval_row("relative_gap", relative, **where)
    yield relative_row


def _interval_row(name: str, values: np.ndarray, **rest: Any) -> Row:
    low, high = percentile_interval(values[1 + PARTS :])
    return row(name, values[0], low=low, high=high, parts=values[1 : 1 + PARTS], **rest)
