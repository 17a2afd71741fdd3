"""A training that can be killed at any moment: checkpoint every k updates, resume from the last one, finish once.

    cycle = Resumable(folder, every=500)
    if cycle.finished():
        return
    training = Training(model, objective, settings, join(device))
    for readings in cycle.train(training, export=export, probes=probes, selection=choice):
        yield [row(**reading) for reading in readings]
    yield test_rows(folder / "best")
    cycle.finish()

A step is a pure function of the seed and its number, and a checkpoint holds everything else (weights, moments, running
sums, the best weights so far, the memory of the stopping rule). So a training that was killed and goes on has the same
weights and the same readings, bit for bit, as one that was never killed. Readings taken between the last checkpoint and
the kill are given back again; whoever writes them to a table skips those it has.

What stands in the folder:

    step-0000500/    the last checkpoint, until the training is finished
    best/            the model of the best reading, where a selection was given
    finished         an empty file: the training and whatever came after it (a test, a score) are done
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, whole_folder, write_text
from isogloss.progress import Progress, silent
from isogloss.training.checkpoints import Checkpoints, latest
from isogloss.training.loop import Training, train
from isogloss.training.probes import Probe, Reading
from isogloss.training.processes import together
from isogloss.training.stopping import Choice, Rule

FINISHED = "finished"
RECORD = "step.json"  # beside the weights of a model that was saved on the way: where it comes from

Export = Callable[[Path], None]
"""export(folder) writes the model's own files, as `from_pretrained` reads them, into an empty folder."""


def export_nothing(folder: Path) -> None:
    """Export no model, for a training whose checkpoints are only there to be resumed from."""


@dataclass(frozen=True)
class SavedModels:
    """Models to keep for good while training: one every `every` updates, as `folder/step-N`.

    about: what the file `step.json` in each of them says besides the step. Step 0 is not written: it is the model that
    the training began with.
    """

    folder: Path
    every: int
    about: Mapping[str, Any] = field(default_factory=dict)

    def probe(self, training: Training, export: Export) -> Probe:
        """A probe that reads nothing and writes the model, whole or not at all.

        A model that is there already is left alone: a resumed training passes the same steps again, with the same
        weights.
        """
        if training.processes.first:
            clear_leftovers(self.folder)

        def take() -> Sequence[Reading]:
            path = self.folder / f"step-{training.step}"
            if training.processes.first and training.step > 0 and training.step % self.every == 0 and not path.is_dir():
                self.folder.mkdir(parents=True, exist_ok=True)
                with whole_folder(path) as beside:
                    export(beside)
                    write_text(beside / RECORD, json.dumps({**self.about, "step": training.step}, indent=2) + "\n")
            return ()

        return Probe(self.every, take)


@dataclass(frozen=True)
class Resumable:
    """The cycle of one training in a folder of its own.

    Args:
        folder: where checkpoints, the best model and the mark of the end are written; made when it is needed.
        every: updates between two checkpoints.
        keep: how many of the last checkpoints stay.

    """

    folder: Path
    every: int
    keep: int = 1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(f"checkpoints are written every 1 update or more rarely, not every {self.every}")

    def finished(self) -> bool:
        """Whether the training was finished earlier; checkpoints that a kill right after the end left are removed."""
        done = (self.folder / FINISHED).is_file()
        for path in self.folder.glob("step-*") if done else ():
            shutil.rmtree(path)
        return done

    def train(
        self,
        training: Training,
        *,
        export: Export = export_nothing,
        probes: Sequence[Probe] = (),
        plan: Callable[[int], None] | None = None,
        selection: Choice | None = None,
        stop: Rule | None = None,
        saved: SavedModels | None = None,
        progress: Progress = silent,
    ) -> Iterator[list[Reading]]:
        """Train from the start, or from the last checkpoint, to the last update.

        Args:
            training: the model as it is before its first update, with a plan's fresh weights already drawn: a
                checkpoint replaces its weights. Probes that compare with the start must be made before this call.
            export: writes the model's own files into every checkpoint and into `best/`.
            probes: what is measured on the way.
            plan: called with the number of each update before it is made; says what trains by `requires_grad`.
            selection: the reading by which the best model is kept, as `best/` and in `training.best_weights`.
            stop: a rule that may end the training early; `training.stopped` then says why.
            saved: models to keep for good, every so many updates.
            progress: told the updates done.

        Returns:
            The readings of each step that has any, as they come, with their `step`.

        """
        processes = training.processes
        if processes.first:
            clear_leftovers(self.folder)
        checkpoint = together(processes, lambda: latest(self.folder))
        if checkpoint is not None:
            training.restore(checkpoint)
        if saved is not None:
            probes = [*probes, saved.probe(training, export)]
        yield from train(
            training,
            probes=probes,
            plan=plan,
            checkpoints=Checkpoints(self.folder, export, self.every, self.keep),
            selection=selection,
            stop=stop,
            progress=progress,
        )

    def finish(self, *, keep_best: bool = True) -> None:
        """Mark the training as done, with everything that came after it; checkpoints to go on from are removed.

        keep_best: whether `best/` stays.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FINISHED).touch()
        self.finished()
        if not keep_best:
            shutil.rmtree(self.folder / "best", ignore_errors=True)
