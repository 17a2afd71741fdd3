"""One layer of a stitch run: the ways from the target model into the task's layers, and the task trained on them.

The task's layers (fresh blocks and a head) are trained on states of the source model at one cut. At test they are given
states of the target model at the same cut, by each of these ways:

    stitched   through the fitted map: W, and means as `restore` has them
    shifted    means alone: the same with W = 1 (only where the map moves means, restore "recentred")
    unmapped   as they are (as normalised, where the task's layers were trained on normalised states): the control
    random     the same as stitched with a random rotation for W: what any turn would give
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isogloss.files import clear_leftovers
from isogloss.mappings import Mapping as SpaceMapping
from isogloss.progress import Progress
from isogloss.recipes.steps.taskfitting import Fitting, Text, evaluate, said_of, scored_models
from isogloss.recipes.steps.taskscores import OTHERS, Scored, keep_scores, result_rows
from isogloss.recipes.steps.tasktexts import Set, Sets
from isogloss.runs.run import Run
from isogloss.runs.table import Row
from isogloss.seeds import seed_of
from isogloss.stack.edit import freeze, with_fresh_blocks
from isogloss.stack.stack import Stack
from isogloss.tasks.model import TaskModel, task_model, task_objective
from isogloss.tasks.task import Items
from isogloss.training import checkpoints as kept
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.frozen_prefix import Prefix, read_prefix
from isogloss.training.loop import Training, steps_in_epoch, train
from isogloss.training.probes import Probe, Reading
from isogloss.training.processes import join
from isogloss.training.resumable import FINISHED
from isogloss.training.stopping import Selection

STITCHED, SHIFTED, UNMAPPED, RANDOM = "stitched", "shifted", "unmapped", "random"
Ways = Mapping[str, SpaceMapping | None]


@dataclass(frozen=True)
class Stitched:
    """The sets as items: `home` of the source's tokenizer (training, dev, tests), `abroad` the target's tests."""

    sets: Sets
    home: Sequence[Items]
    abroad: Sequence[Items]

    @property
    def tests(self) -> tuple[Sequence[Set], Sequence[Set]]:
        """Test sets of the source, and of the target."""
        here = [one for one in self.sets.tests if one.language == self.sets.source]
        return here, [one for one in self.sets.tests if one.language != self.sets.source]

    def scored(self, ways: Sequence[str]) -> Sets:
        """All that a model is scored on: dev, the source's tests, and the target's tests once for each way."""
        here, there = self.tests
        return replace(self.sets, tests=[*here, *(one for _ in ways for one in there)])

    def items(self, ways: Sequence[str]) -> list[Items]:
        """The items of training and of `scored`."""
        return [*self.home, *(one for _ in ways for one in self.abroad)]


def ways_of(mapping: SpaceMapping, *, seed: int) -> dict[str, SpaceMapping | None]:
    """The ways by name, see above; None is: as they are."""
    width = mapping.weight.shape[1]
    alone = replace(mapping, weight=torch.eye(width, dtype=torch.float64))
    found: dict[str, SpaceMapping | None] = {STITCHED: mapping}
    if mapping.restore == "recentred":
        found[SHIFTED] = alone
    found[UNMAPPED] = alone if mapping.restore == "normalised" else None
    return {**found, RANDOM: replace(mapping, weight=random_rotation(width, seed=seed))}


def random_rotation(width: int, *, seed: int) -> Tensor:
    """A rotation (it may reflect) drawn evenly from all of them: (width, width), float64.

    The Q of a Gaussian matrix, its columns given the signs of R's diagonal (Mezzadri 2007).

    >>> turn = random_rotation(5, seed=0)
    >>> bool(torch.allclose(turn @ turn.T, torch.eye(5, dtype=torch.float64)))
    True
    """
    drawn = torch.randn(width, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    q, r = torch.linalg.qr(drawn)
    return q * torch.sign(torch.diagonal(r))


def read_states(
    stacks: tuple[Stack, Stack],
    text: Stitched,
    mapping: SpaceMapping,
    *,
    cut: int,
    dtype: torch.dtype | None,
    file: Path,
    progress: Progress,
) -> tuple[list[Prefix], list[Prefix]]:
    """States of one cut, computed once: of the source's sets, as the task's layers read them, and of the target's."""
    how: dict[str, Any] = {"dtype": dtype, "progress": progress}
    # Layers that will be given normalised states have to be trained on normalised states.
    turn = mapping.target if mapping.restore == "normalised" else None
    home = [
        replace(read_prefix(stacks[0], items, cut, file=_numbered(file, "home", number), **how), turn=turn)
        for number, items in enumerate(text.home)
    ]
    abroad = [
        read_prefix(stacks[1], items, cut, file=_numbered(file, "abroad", number), **how)
        for number, items in enumerate(text.abroad)
    ]
    return home, abroad


def fit_stitched(
    run: Run,
    fitting: Fitting,
    text: Stitched,
    *,
    source: Stack,
    fresh: int,
    ways: Ways,
    states: Callable[[], tuple[Sequence[Prefix], Sequence[Prefix]]],
    place: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Train fresh blocks and a head on the source's states, and score the best epoch's model; nothing if it is done.

    The source's dev set is answered after every epoch and chooses one, with whose weights all sets are scored, once.
    states: what `read_states` gives, asked for only where something is left to train. What was scored is left in
    the training's folder, for `stitched_rows`.
    """
    folder, cut, seed = stitched_folder(run, place), int(place["layer"]), int(place["seed"])
    if (folder / FINISHED).is_file():
        return
    stack = with_fresh_blocks(source, cut, count=fresh, seed=seed_of(seed, "fresh blocks", cut))
    freeze(stack, cut)
    model = task_model(stack, fitting.task, text.sets.labels, seed=seed, half=fitting.settings.half)
    model.hold(cut)
    home, abroad = states()
    turned = [replace(one, turn=way) for way in ways.values() for one in abroad]
    items = text.items(list(ways))
    objective = task_objective(model, items[0], batch=fitting.batch, seed=seed, prefix=home[0])
    training = Training(model, objective, replace(fitting.settings, seed=seed), join(fitting.device))
    clear_leftovers(folder)
    if (last := kept.latest(folder)) is not None:
        training.restore(last)
    probe = _probe(fitting, items, model, training, prefix=home[1])
    places, choice = Checkpoints(folder, _nothing, fitting.checkpoint), Selection(fitting.task.main)
    for _ in train(training, probes=[probe], checkpoints=places, selection=choice, progress=progress):
        pass  # losses and the scores of every epoch are not rows: a reader wants the chosen model's
    assert training.best_weights is not None
    scoring = replace(fitting, sets=text.scored(list(ways)))
    with kept.wearing(model, training.best_weights):
        scores = evaluate(scoring, Text(items), model, [*home[1:], *turned])
    keep_scores(folder / "counts" / f"{training.best_step:07d}.npz", scores)
    (folder / FINISHED).touch()
    for old in (*folder.glob("step-*"), *folder.glob("best")):
        shutil.rmtree(old)


def stitched_folder(run: Run, place: Mapping[str, Any]) -> Path:
    """Where a training leaves its checkpoints and counts."""
    return run.folder / "checkpoints" / f"layer-{place['layer']}-seed-{place['seed']}"


def stitched_rows(
    run: Run, fitting: Fitting, text: Stitched, *, ways: Sequence[str], place: Mapping[str, Any]
) -> list[Row]:
    """The rows of a finished training, of the epoch the source's dev set chooses: each way's scores in `condition`.

    The scores on the source are those of one and the same model, so they stand once, beside `stitched`.
    """
    models = scored_models(stitched_folder(run, place), fitting.settings.optimisation.rate)
    here, there = text.tests
    begin, count = len(text.sets.dev) + len(here), len(there)
    found: list[Row] = []
    for number, way in enumerate(ways):
        first = begin + number * count
        taken = [
            Scored(one.rate, one.step, [*one.scores[:begin], *one.scores[first : first + count]]) for one in models
        ]
        sets = replace(text.sets, tests=[*here, *there])
        for one in result_rows(taken, sets, fitting.task, place={**place, "condition": way}):
            again = one["target"] == text.sets.source and way != STITCHED
            if one["target"] != OTHERS and one["measure"] != "chosen_rate" and not again:
                found.append(one)
    return found


def _probe(fitting: Fitting, items: Sequence[Items], model: TaskModel, training: Training, *, prefix: Prefix) -> Probe:
    """The main score on the source's dev set, after every epoch."""
    task, dev = fitting.task, fitting.sets.dev[fitting.sets.source]

    def take() -> Iterator[Reading]:
        if training.step > 0:  # a head that was not trained says nothing
            said = said_of(fitting, dev, items[1], model, prefix)
            yield {"measure": task.main, "value": task.score(dev.examples, said, dev.language)[task.main].value}

    return Probe(steps_in_epoch(items[0], fitting.batch), take)


def _numbered(file: Path, kind: str, number: int) -> Path:
    return file.with_name(f"{file.name}-{kind}-{number}.states")


def _nothing(at: Path) -> None:
    """A checkpoint to go on from only: no model that anything else could load."""
