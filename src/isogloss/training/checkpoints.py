"""Training that can be killed at any moment: checkpoint every k updates, resume from the last one, finish once.

    if finished(folder):
        return
    training = Training(model, objective, settings, join(device))
    checkpoints = Checkpoints(folder, export, every=500)
    for readings in train(training, checkpoints=checkpoints, probes=probes, selection=choice):
        yield [row(**reading) for reading in readings]
    yield test_rows(folder / "best")
    finish(folder)

A step is a pure function of the seed and its number, and a checkpoint holds everything else. So a resumed training has
the same weights and readings, bit for bit, as one that was never killed. Readings taken between the last checkpoint and
the kill are yielded again; the code that writes them to a table skips the rows it has.

    step-0000500/   a checkpoint, which appears complete or not at all: the model in `from_pretrained` format, every
                    weight in full precision and AdamW's moments (`training.safetensors`), the step, the running sums
                    and the memory of the stopping rule (`training.json`), and the weights of the best model so far
                    if they differ (`best.safetensors`)
    best/           the model with the best reading, if a selection was given; it is held in memory during training and
                    written once, at the end, since writing it after every improvement would take longer than the
                    updates of a fine-tuning run
    finished        an empty file: the training and everything after it (a test, a score) are done
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from isogloss.errors import readable, require
from isogloss.files import whole_folder, write_text

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
BEST, FINISHED = "best.safetensors", "finished"
UNUSABLE = (
    "is no checkpoint to go on from",
    "remove it, and --resume begins at the one before, or anew where there is none",
)


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often a training is saved.

    Args:
        folder: where checkpoints and the best model are written; created when needed.
        export: writes the model in `from_pretrained` format into an empty folder.
        every: updates between two checkpoints.
        keep: how many of the latest checkpoints to keep.
    """

    folder: Path
    export: Callable[[Path], None]
    every: int
    keep: int = 1


def finished(folder: Path) -> bool:
    """Whether the training was finished earlier; removes checkpoints left by a kill right after the end."""
    done = (folder / FINISHED).is_file()
    for path in folder.glob("step-*") if done else ():
        shutil.rmtree(path)
    return done


def finish(folder: Path, *, keep_best: bool = True) -> None:
    """Mark a training and everything after it as done, and remove its checkpoints.

    keep_best: whether to keep `best/`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FINISHED).touch()
    finished(folder)
    if not keep_best:
        shutil.rmtree(folder / "best", ignore_errors=True)


def save_checkpoint(
    checkpoints: Checkpoints,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    *,
    state: Mapping[str, Any],
    best: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write the checkpoint of `state["step"]`, then remove all but the last `keep`.

    best: weights of the best model so far, from `copy_weights`, if they differ from those of this step.
    """
    path = checkpoints.folder / f"step-{state['step']:07d}"
    checkpoints.folder.mkdir(parents=True, exist_ok=True)
    with whole_folder(path) as beside:
        checkpoints.export(beside)
        tensors = {f"weight.{name}": value for name, value in _weights(model).items()}
        for name, weight in model.named_parameters():
            moments = optimiser.state.get(weight, {})
            tensors |= {f"{part}.{name}": torch.as_tensor(value) for part, value in moments.items()}
        whole = {name: value.detach().contiguous() for name, value in tensors.items()}
        save_file(whole, beside / "training.safetensors")
        if best is not None:
            save_file({name: value.contiguous() for name, value in best.items()}, beside / BEST)
        write_text(beside / "training.json", json.dumps(dict(state), indent=2) + "\n")
    for old in _all(checkpoints.folder)[: -max(1, checkpoints.keep)]:
        shutil.rmtree(old)
    return path


def copy_weights(model: nn.Module, into: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Copy the model's current weights on their own device, without a device synchronisation.

    into: an earlier copy, whose memory is reused.
    """
    with torch.no_grad():
        if into is None:
            return {name: value.clone() for name, value in _weights(model).items()}
        return {name: into[name].copy_(value) for name, value in _weights(model).items()}


def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights from `copy_weights` into the model, on its own device."""
    with torch.no_grad():
        for name, value in _weights(model).items():
            value.copy_(weights[name])


def export_best(checkpoints: Checkpoints, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Write the model with these weights as `best`, replacing an earlier one; the model itself is unchanged."""
    checkpoints.folder.mkdir(parents=True, exist_ok=True)
    with replaced_weights(model, weights), whole_folder(checkpoints.folder / "best") as beside:
        checkpoints.export(beside)


@contextmanager
def replaced_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Context manager that gives the model these weights, and restores its own afterwards."""
    before = copy_weights(model)
    try:
        put_weights(model, weights)
        yield
    finally:
        put_weights(model, before)


def latest(folder: Path) -> Path | None:
    """The last checkpoint in the folder, or None."""
    return next(reversed(_all(folder)), None)


def restore_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[dict[str, Any], dict[str, Tensor] | None]:
    """Restore weights and moments.

    Returns the saved `state`, and the weights of the best model at the time of the checkpoint.
    """
    with readable(path, *UNUSABLE):
        tensors = load_file(path / "training.safetensors")
        state = dict(json.loads((path / "training.json").read_text(encoding="utf-8")))
        device = str(next(model.parameters()).device)  # a later best model is copied into this one
        best = load_file(path / BEST, device=device) if (path / BEST).is_file() else None
    weights = _weights(model)
    expected = {f"weight.{name}": value.shape for name, value in weights.items()}
    shapes = {name: value.shape for name, value in tensors.items() if name.startswith("weight.")}
    require(expected == shapes, f"{path} holds another model than the one to be trained; choose another --out")
    put_weights(model, {name: tensors[f"weight.{name}"] for name in weights})
    for name, weight in model.named_parameters():
        moments = {part: tensors[f"{part}.{name}"] for part in MOMENTS if f"{part}.{name}" in tensors}
        if moments:  # AdamW keeps its step counts on the CPU unless it is fused; moments are on the weight's device
            optimiser.state[weight] = {
                part: value if part == "step" and not weight.is_cuda else value.to(weight.device)
                for part, value in moments.items()
            }
    return state, copy_weights(model) if state.get("best_step") == state.get("step") else best


def _all(folder: Path) -> list[Path]:
    paths = (path for path in folder.glob("step-*") if (path / "training.json").is_file())
    return sorted(paths, key=lambda path: int(path.name.removeprefix("step-")))


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters()) | dict(model.named_buffers())
