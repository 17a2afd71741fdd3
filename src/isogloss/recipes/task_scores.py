"""Scores of a model during training, selection of the best model, and the rows of results: its scores and gaps.

Every evaluation during training writes the score counts of each example to a file. When all training runs of a plan are
finished, the step and the learning rate with the best main score on the source's development set are selected, and the
scores of that one model on every test set are the result. The oracle selects a model for each target language on that
language's development set: an upper bound, impossible in zero-shot transfer (Keung et al. 2020), reported separately.

    gap           source - target, of the main score in the same model (lower is better)
    relative_gap  (source - target) / source

The floor of a score is that of the model's shuffled answers (`isogloss.tasks.task.chance_floors`).

Intervals over examples are bootstrap percentiles; those over seeds are Student's t intervals of the mean. Test sets
with equally many examples are resampled with the same example numbers. If they are translations of each other, the same
examples are hard in both, so their difference varies less than that of independent sets. If they are not, equal numbers
mean nothing, and the result is the same as that of independent resampling.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from isogloss.runs.table import ORACLE, OTHERS, Row, row
from isogloss.seeds import seed_of
from isogloss.tasks.frozen_prefix import Prefix
from isogloss.tasks.model import TaskModel, predict
from isogloss.tasks.task import Items, Task, chance_floors
from isogloss.training.loop import Training
from isogloss.training.probes import Probe, Reading

FLOOR = "floor"
DAMAGED = "holds no scores", "remove the folder of this training, and --resume trains it again"

Scores = Sequence[Mapping[str, Score]]
"""The scores of one model: for every set of `TaskSets.scored`, each score by its name."""


# --- one model -------------------------------------------------------------------------------------------------------


def score_sets(
    model: TaskModel,
    task_sets: Sequence[TaskSet],
    items: Sequence[Items],
    *,
    prefixes: Sequence[Prefix | None],
    dtype: torch.dtype | None,
) -> Scores:
    """The scores of a model on several sets, with the chance floor of each score."""
    all_scores = []
    for task_set, set_items, prefix in zip(task_sets, items, prefixes, strict=True):
        answers = predict(model, task_set.examples, set_items, prefix=prefix, dtype=dtype)
        scores = model.task.score(task_set.examples, answers, task_set.language)
        floors = chance_floors(model.task, task_set.examples, answers, task_set.language, name=task_set.name)
        all_scores.append({name: replace(score, floor=floors[name]) for name, score in scores.items()})
    return all_scores


def score_probe(
    training: Training, sets: TaskSets, current_scores: Callable[[], Scores], *, folder: Path, every: int
) -> Probe:
    """A probe that scores the model on all development and test sets, and writes the counts into `folder`.

    current_scores: returns the scores of the model as it is now, on every set of `TaskSets.scored`.
    """

    def take() -> Iterator[Reading]:
        if training.step == 0:  # the scores of an untrained head are meaningless
            return
        scores = current_scores()
        save_scores(folder, training.step, scores)
        for task_set, by_name in zip(sets.scored, scores, strict=True):
            for name, score in by_name.items():
                where = {"target": task_set.language, "data": task_set.name}
                yield {"measure": name, "value": score.value, "floor": score.floor, "n": score.n, **where}

    return Probe(every, take)


def save_scores(folder: Path, step: int, scores: Scores) -> None:
    """Write the counts of a model's scores to a file below the folder of its training run, atomically."""
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


# --- model selection -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredModel:
    """A model after `step` updates of a training run with learning rate `rate`, and its scores."""

    rate: float
    step: int
    scores: Scores


def scored_models(folder: Path, rate: float, *, number: int = 1) -> list[ScoredModel]:
    """The `number` scored models of a finished training run, by step; if one is missing, selection is refused."""
    files = sorted((folder / "counts").glob("*.npz"))
    require(len(files) == number, f"{folder} holds {len(files)} of {number} scored models; {DAMAGED[1]}")
    return [ScoredModel(rate, int(path.stem), read_scores(path)) for path in files]


def choose(models: Sequence[ScoredModel], number: int, task: Task) -> ScoredModel:
    """The model with the best main score on `TaskSets.scored[number]`; of equal scores, that of the earliest step."""
    sign = 1 if task.higher_is_better else -1
    return max(models, key=lambda model: (sign * model.scores[number][task.main].value, -model.step))


def result_rows(models: Sequence[ScoredModel], sets: TaskSets, coordinates: Mapping[str, Any]) -> list[Row]:
    """The rows of one plan and seed: of the model selected on the source's dev set, and of the oracle, if there is one.

    Args:
        models: Every scored model of the plan's training runs.
        sets: The sets that they were scored on.
        coordinates: Columns that all rows share: model, plan, condition, seed and so on.
    """
    best = {language: choose(models, number, sets.task) for number, language in enumerate(sets.dev)}
    rows = list(_test_rows([best[sets.source]] * len(sets.tests), sets, coordinates))
    if len(best) > 1:
        oracles = [best.get(test.language) for test in sets.tests]
        rows += _test_rows(oracles, sets, {**coordinates, "selection": ORACLE})
    return rows


def _test_rows(chosen: Sequence[ScoredModel | None], sets: TaskSets, coordinates: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of the scores of the model selected for each test set, if there is one, and of the gaps to the source.

    Both scores of a gap come from the same model. The mean over languages needs a selected model for every test set.
    """
    name, main = sets.task.main, dict[int, np.ndarray]()
    about: dict[int, dict[str, Any]] = {}  # floor, number of items and coordinates of each main score
    first = len(sets.dev) + [test.language for test in sets.tests].index(sets.source)  # the source's first test set
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
                main[number], about[number] = values, {**where, "floor": score.floor, "n": score.n}
        yield row("chosen_step", model.step, **where)
        yield row("chosen_rate", model.rate, **where)
    others = [number for number in main if sets.tests[number].language != sets.source]
    source_values = {number: sources[id(chosen[number])] for number in others}
    for number in others:
        yield from _gap_rows(source_values[number], main[number], {**about[number], "floor": None, "unit": name})
    if others and None not in chosen:
        source, mean = (np.mean([values[number] for number in others], axis=0) for values in (source_values, main))
        floor = float(np.mean([about[number]["floor"] for number in others]))
        where = {**coordinates, "target": OTHERS, "n": sum(about[number]["n"] for number in others)}
        yield _interval_row(name, mean, floor=floor, **where)
        yield from _gap_rows(source, mean, {**where, "unit": name})


def _drawn_values(score: Score) -> np.ndarray:
    """The score of all examples, then without each part of them, then of bootstrap draws: (1 + parts + draws,)."""
    draws = resampled(score, seed_of(0, "bootstrap", len(score.counts)))
    return np.concatenate([[score.value], left_out(score), draws])


def _gap_rows(source: np.ndarray, target: np.ndarray, where: Mapping[str, Any]) -> Iterator[Row]:
    yield _interval_row("gap", source - target, **where)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (source - target) / source
        relative[0] = relative[0] if source[0] else np.nan  # undefined if the source's score is 0
        relative_row = _interval_row("relative_gap", relative, **where)
    yield relative_row


def _interval_row(name: str, values: np.ndarray, **rest: Any) -> Row:
    low, high = percentile_interval(values[1 + PARTS :])
    return row(name, values[0], low=low, high=high, parts=values[1 : 1 + PARTS], **rest)
