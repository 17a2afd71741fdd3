"""One training of a drift run: from its start, or its last checkpoint, to the test of its best model."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch

from isogloss.files import clear_leftovers
from isogloss.progress import Progress
from isogloss.recipes.steps.drifting import Watch, evaluate, make_probes
from isogloss.recipes.steps.keptmodels import FOLDER
from isogloss.recipes.steps.legacy import Worst, without_dropout
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row, training_name
from isogloss.stack.load import load_masked_lm, quietly
from isogloss.stack.stack import Stack
from isogloss.training import checkpoints as kept
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.cuda_graphs import Captured, drops_attention
from isogloss.training.loop import Settings, Training, train
from isogloss.training.masked_lm import masked_sentences
from isogloss.training.plans import Plan, apply_plan
from isogloss.training.processes import join
from isogloss.training.resumable import SavedModels
from isogloss.training.stopping import Choice, Stopping

FINISHED = "finished"  # the file that marks a training as done


@dataclass(frozen=True)
class Tuning:
    """How every training of the run goes: the model to begin with, batches, and what ends it or is kept.

    epoch: steps in one. settings are those of the first seed. save: updates between models that are kept.
    """

    model: str | Path
    revision: str | None
    device: torch.device
    settings: Settings
    batch: int
    epoch: int
    dropout: bool
    checkpoint: int
    choice: Choice
    rule: Stopping | None
    save: int | None = None


def tune(
    run: Run, tuning: Tuning, watch: Watch, *, plan: Plan, place: Mapping[str, Any], progress: Progress
) -> Iterator[list[Row]]:
    """The rows of one training, with the defects that `watch` is read with; nothing where it is done.

    place: its model, plan, condition and seed in the rows, by which its folder below `checkpoints` is called.
    """
    name = f"{folder_name(training_name(place))}-seed-{place['seed']}"
    folder = run.folder / "checkpoints" / name
    if not (folder / FINISHED).is_file():
        defects, settings = watch.how.defects, replace(tuning.settings, seed=place["seed"])
        model, stack = load_masked_lm(tuning.model, tuning.revision, device=tuning.device)
        if not tuning.dropout or "no-dropout" in defects:
            without_dropout(model)
        assert watch.text.train is not None
        objective = masked_sentences(
            model, watch.text.train, batch=tuning.batch, seed=settings.seed, device=tuning.device,
            attend_padding="no-mask" in defects, graphs=None if "no-mask" in defects else _graphs(stack, tuning, watch),
            **watch.text.masking,
        )  # fmt: skip
        training = Training(model, objective, settings, join(tuning.device))
        planned = apply_plan(stack, plan, epoch=tuning.epoch, seed=settings.seed)
        # Before a checkpoint is restored: distances to the start are to step 0, wherever a resumed run goes on.
        probes = make_probes(watch, model, stack, seed=settings.seed, step=lambda: training.step)
        for sentence in dict.fromkeys(note for probe in probes for note in probe.notes):
            run.note(sentence)
        clear_leftovers(folder)
        if (last := kept.latest(folder)) is not None:
            training.restore(last)

        def export(at: Path) -> None:
            with quietly():
                model.save_pretrained(at)
            stack.tokenizer.save_pretrained(at)

        if tuning.save is not None:
            about = {"model": str(tuning.model), "plan": training_name(place), "seed": place["seed"]}
            kept_in, step = run.folder / FOLDER / name, lambda: training.step
            probes.append(SavedModels(kept_in, export, every=tuning.save, step=step, about=about))
        readings = train(
            training, probes=probes, plan=planned, checkpoints=Checkpoints(folder, export, tuning.checkpoint),
            selection=cast(Choice, Worst(tuning.choice)) if "worst" in defects else tuning.choice, stop=tuning.rule,
            progress=progress,
        )  # fmt: skip
        for some in readings:
            yield [_row(one, place) for one in some]
        if training.stopped:
            run.note(
                f"{training_name(place)}, seed {settings.seed}: stopped at step {training.step}, {training.stopped}"
            )
        yield _tested(watch, tuning, folder, {**place, "step": training.best_step})
        (folder / FINISHED).touch()
    for old in folder.glob("step-*"):
        shutil.rmtree(old)


def _graphs(stack: Stack, tuning: Tuning, watch: Watch) -> Captured | None:
    """The blocks as CUDA graphs, where there can be any."""
    end_to_end = replace(stack, pack=True)
    if tuning.device.type != "cuda" or not tuning.settings.half or not end_to_end.packs or drops_attention(stack):
        return None
    assert watch.text.train is not None
    return Captured(end_to_end, rows=tuning.batch, longest=int(watch.text.train.lengths.max()))


def _tested(watch: Watch, tuning: Tuning, folder: Path, place: Mapping[str, Any]) -> list[Row]:
    best, stack = load_masked_lm(folder / "best", device=tuning.device)
    return [_row(one, place) for one in evaluate(watch, best, stack, text=watch.text, parts=["test"])]


def _row(reading: Mapping[str, Any], place: Mapping[str, Any]) -> Row:
    """A reading with its coordinates."""
    data = {"data": "train"} if reading["measure"] == "loss" else {}
    return row(**{**reading, **place, **data})


def folder_name(training: str) -> str:
    """The name of a training as the name of a folder."""
    return training.replace(":", "-").replace("/", "-").replace(",", "-").replace(" ", "-")
