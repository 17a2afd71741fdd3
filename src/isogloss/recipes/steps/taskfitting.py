"""One training of a transfer run: from its start, or its last checkpoint, with every set scored as it goes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from isogloss.files import write_text
from isogloss.progress import Progress
from isogloss.recipes.drift import folder_name
from isogloss.recipes.steps.taskscores import Scored, Scores, keep_scores, kept_scores
from isogloss.recipes.steps.tasktexts import Set, Sets
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row, training_name
from isogloss.stack.load import load, quietly
from isogloss.stack.stack import Stack
from isogloss.tasks.model import TaskModel, answers, predict, task_model, task_objective
from isogloss.tasks.task import Items, Task, chance_floors
from isogloss.training.frozen_prefix import Prefix, has_room, read_prefix, shared_prefix
from isogloss.training.loop import Settings, Training, steps_in_epoch
from isogloss.training.plans import Plan, apply_plan, frozen_at
from isogloss.training.probes import Probe, Reading
from isogloss.training.processes import join
from isogloss.training.resumable import Resumable, export_nothing
from isogloss.training.stopping import Selection


@dataclass(frozen=True, kw_only=True)
class Fitting:
    """How every training of the run goes; settings are those of the first seed and rate.

    probe: updates between scores, None for an epoch. frozen_dropout: frozen layers keep
    their dropout. cache: frozen layers are computed once. keep: the best model of each training is written. states: a
    folder in which runs share what frozen layers give. weights: a hash of the model as it begins. own: models of target
    languages, whose frozen layers stand in for this one's.
    """

    model: str | Path
    revision: str | None
    device: torch.device
    task: Task
    sets: Sets
    settings: Settings
    batch: int
    checkpoint: int
    probe: int | None = None
    frozen_dropout: bool = False
    cache: bool = True
    keep: bool = False
    states: Path | None = None
    weights: str = ""
    own: Mapping[str, Stack] = field(default_factory=dict)

    @property
    def dtype(self) -> torch.dtype | None:
        """The precision that is computed in, None for that of the weights."""
        return torch.bfloat16 if self.settings.half else None


@dataclass
class Text:
    """The sets as items, and the states of frozen layers that are kept of them; it has identity over time.

    items: training first, then every set that is scored. changing(seed, epoch): the training items of an epoch, where
    they are others each time, `longest` the most tokens of one. key: which frozen layers the states are of.
    """

    items: Sequence[Items]
    changing: Callable[[int, int], Items] | None = None
    longest: int | None = None
    key: tuple[Any, ...] | None = None
    prefixes: list[Prefix | None] = field(default_factory=list)


def fit(
    run: Run,
    fitting: Fitting,
    text: Text,
    *,
    plan: Plan,
    rate: float,
    place: Mapping[str, Any],
    progress: Progress,
    at_end: Callable[[Stack], Sequence[Row]] | None = None,
) -> Iterator[Sequence[Row]]:
    """The rows of one training as they come; nothing where it is done.

    place: its model, task, source, plan, condition, settings (which tell rates apart) and seed. at_end: more rows,
    of the model as it is after the last update.
    """
    cycle = Resumable(training_folder(run, place), every=fitting.checkpoint)
    if cycle.finished():
        return
    steps = steps_in_epoch(text.items[0], fitting.batch)
    settings = replace(
        fitting.settings, seed=place["seed"], optimisation=replace(fitting.settings.optimisation, rate=rate)
    )
    stack = load(fitting.model, fitting.revision, dtype=torch.float32, device=fitting.device)
    model = task_model(
        stack,
        fitting.task,
        fitting.sets.labels,
        seed=settings.seed,
        dropout=fitting.frozen_dropout,
        half=settings.half,
    )
    planned = apply_plan(stack, plan, epoch=steps, seed=settings.seed)
    lowest = frozen_at(plan, settings.steps - 1, depth=stack.last, epoch=steps)
    prefixes = _prefixes(run, fitting, text, model.still, plan=plan, cut=lowest, seed=settings.seed, progress=progress)
    objective = task_objective(
        model,
        text.items[0],
        batch=fitting.batch,
        seed=settings.seed,
        prefix=prefixes[0],
        longest=text.longest,
        changing=None if text.changing is None else partial(text.changing, settings.seed),
    )
    training = Training(model, objective, settings, join(fitting.device))
    every = fitting.probe or steps
    probe = _probe(fitting, text, model, training, every=every, prefixes=prefixes[1:], folder=cycle.folder)
    training_steps = cycle.train(
        training,
        export=_export(model) if fitting.keep else export_nothing,
        probes=[probe],
        plan=_holding(model, planned, plan, steps),
        selection=_selection(fitting) if fitting.keep else None,
        progress=progress,
    )
    for readings in training_steps:
        yield [_row(reading, place) for reading in readings]
    if at_end is not None:
        yield at_end(model.still)
    cycle.finish()


def training_folder(run: Run, place: Mapping[str, Any]) -> Path:
    """Where a training leaves its checkpoints, counts and, if it is kept, its best model."""
    return run.folder / "checkpoints" / f"{folder_name(training_name(place))}-seed-{place['seed']}"


def scored_models(folder: Path, rate: float) -> list[Scored]:
    """Every model of a finished training that was scored, in order."""
    files = sorted((folder / "counts").glob("*.npz"))
    return [Scored(rate, int(path.stem), kept_scores(path)) for path in files]


def evaluate(fitting: Fitting, text: Text, model: TaskModel, prefixes: Sequence[Prefix | None]) -> Scores:
    """The scores of a model on every set."""
    task, found = fitting.task, []
    for one, items, prefix in zip(fitting.sets.read_each_time, text.items[1:], prefixes, strict=True):
        said = said_of(fitting, one, items, model, prefix)
        floors = chance_floors(task, one.examples, said, one.language, name=one.name)
        scores = task.score(one.examples, said, one.language)
        found.append({name: replace(score, floor=floors[name]) for name, score in scores.items()})
    return found


def said_of(fitting: Fitting, one: Set, items: Items, model: TaskModel, prefix: Prefix | None) -> list[Any]:
    """A model's answer to each example of a set."""
    guesses = predict(model, items, dtype=fitting.dtype, prefix=prefix)
    return answers(fitting.task, one.examples, items, guesses, fitting.sets.labels)


def _probe(
    fitting: Fitting,
    text: Text,
    model: TaskModel,
    training: Training,
    *,
    every: int,
    prefixes: Sequence[Prefix | None],
    folder: Path,
) -> Probe:
    """The scores of every set, written to `folder/counts` too."""

    def take() -> Iterator[Reading]:
        if training.step == 0:  # a head that was not trained says nothing
            return
        scores = evaluate(fitting, text, model, prefixes)
        keep_scores(folder / "counts" / f"{training.step:07d}.npz", scores)
        for one, some in zip(fitting.sets.read_each_time, scores, strict=True):
            for name, score in some.items():
                where = {"target": one.language, "data": one.name}
                yield {"measure": name, "value": score.value, "floor": score.floor, "n": score.n, **where}

    return Probe(every, take)


def _holding(model: TaskModel, planned: Any, plan: Plan, epoch: int) -> Any:
    """The plan, with the model told which layers it freezes, so that their dropout is off."""
    held: list[int] = []

    def before(step: int) -> None:
        planned(step)
        now = frozen_at(plan, step, depth=model.stack.last, epoch=epoch)
        if held != [now]:
            held[:] = [now]
            model.hold(now, until=plan.until)

    return before


def _prefixes(
    run: Run, fitting: Fitting, text: Text, stack: Stack, *, plan: Plan, cut: int, seed: int, progress: Progress
) -> list[Prefix | None]:
    """The states of frozen layers of every set; none below block 1, where there is nothing to save.

    Training text has them in memory or in a file, and not at all where dropout makes them differ from step to step, or
    code-switching from epoch to epoch; scored sets have theirs where memory has room, and are run from their text
    otherwise. Where runs share them, all sets have them in files. A language with a model of its own has the states of
    that model, the embeddings' too.
    """
    saves = cut >= 1 and fitting.cache
    if not saves and not fitting.own:
        return [None] * len(text.items)
    owns = [None, *(fitting.own.get(one.language) for one in fitting.sets.read_each_time)]
    fresh = tuple(block for block in plan.reinit if block <= cut)
    key = (cut, fresh, (seed, plan.initialiser) if fresh else None)
    if key == text.key:
        return text.prefixes
    text.key, text.prefixes = None, []  # before the next ones need their room
    drawn = f"-{plan.initialiser}-{'-'.join(map(str, fresh))}-seed-{seed}" if fresh else ""
    name = f"cut-{cut}{drawn}"
    how: dict[str, Any] = {"dtype": fitting.dtype, "progress": progress}

    def read(number: int, items: Items) -> Prefix | None:
        if (own := owns[number]) is not None:
            return read_prefix(own, items, cut, **how) if cut >= 0 else None
        if not saves or (number == 0 and (fitting.frozen_dropout or text.changing is not None)):
            return None
        if fitting.states is not None:
            return shared_prefix(stack, items, cut, folder=fitting.states, weights=f"{fitting.weights} {name}", **how)
        wanted = number == 0 or has_room(stack, items, dtype=fitting.dtype)
        file = run.scratch / f"{name}.states" if number == 0 else None
        return read_prefix(stack, items, cut, file=file, **how) if wanted else None

    for number, items in enumerate(text.items):
        text.prefixes.append(read(number, items))
    text.key = key
    return text.prefixes


def _selection(fitting: Fitting) -> Selection:
    source = fitting.sets.dev[fitting.sets.source]
    return Selection(fitting.task.main, {"target": source.language, "data": source.name})


def _export(model: TaskModel) -> Any:
    def export(at: Path) -> None:
        with quietly():
            model.encoder.save_pretrained(at)
        model.stack.tokenizer.save_pretrained(at)
        weights = {name: weight.detach().cpu().contiguous() for name, weight in model.head.state_dict().items()}
        save_file(weights, at / "head.safetensors")
        write_text(at / "task.json", json.dumps({"task": model.task.name, "labels": model.labels}, indent=2) + "\n")

    return export


def _row(reading: Reading, place: Mapping[str, Any]) -> Row:
    return row(**{**reading, **place, **({"data": "train", "unit": "answer"} if reading["measure"] == "loss" else {})})
