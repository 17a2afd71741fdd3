"""Checkpoints: folders that appear whole or not at all, and bring a run back to the very step it was in.

`step-000500/` holds the model as `from_pretrained` reads it, and beside it what training needs to go on: every weight
in full precision and AdamW's moments (`training.safetensors`), the step and the running sums (`training.json`).
Draws need no saving, since they are functions of the seed and the step.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.files import whole_folder, write_text

MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often: every `every` steps, the last `keep` kept; `export(folder)` writes the model's own files."""

    folder: Path
    export: Callable[[Path], None]
    every: int
    keep: int = 1


def save(place: Checkpoints, model: nn.Module, optimiser: torch.optim.Optimizer, *, state: Mapping[str, Any]) -> Path:
    """Write the checkpoint of `state["step"]`, then drop the ones older than the last `keep`."""
    path = place.folder / f"step-{state['step']:07d}"
    place.folder.mkdir(parents=True, exist_ok=True)
    with whole_folder(path) as beside:
        place.export(beside)
        save_file(_tensors(model, optimiser), beside / "training.safetensors")
        write_text(beside / "training.json", json.dumps(dict(state), indent=2) + "\n")
    for old in _all(place.folder)[: -max(1, place.keep)]:
        shutil.rmtree(old)
    return path


def save_best(place: Checkpoints) -> None:
    """Write the model as it is now as `best`, in place of the best so far."""
    place.folder.mkdir(parents=True, exist_ok=True)
    with whole_folder(place.folder / "best") as beside:
        place.export(beside)


def latest(folder: Path) -> Path | None:
    """The last checkpoint there, or None."""
    found = _all(folder)
    return found[-1] if found else None


def restore(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Put weights and moments back as they were; returns what was saved as `state`."""
    try:
        kept = load_file(path / "training.safetensors")
        state = json.loads((path / "training.json").read_text(encoding="utf-8"))
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is no checkpoint to go on from: {str(error).splitlines()[0]}") from error
    weights = dict(model.named_parameters()) | dict(model.named_buffers())
    expected = {f"weight.{name}": value.shape for name, value in weights.items()}
    found = {name: value.shape for name, value in kept.items() if name.startswith("weight.")}
    if expected != found:
        raise InputError(f"{path} holds another model than the one to be trained; choose another --out")
    with torch.no_grad():
        for name, value in weights.items():
            value.copy_(kept[f"weight.{name}"])
    for name, weight in model.named_parameters():
        moments = {part: kept[f"{part}.{name}"] for part in MOMENTS if f"{part}.{name}" in kept}
        if moments:
            optimiser.state[weight] = {part: _placed(part, value, weight) for part, value in moments.items()}
    return dict(state)


def _all(folder: Path) -> list[Path]:
    found = (one for one in folder.glob("step-*") if (one / "training.json").is_file())
    return sorted(found, key=lambda one: int(one.name.removeprefix("step-")))


def _tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    kept = dict(model.named_parameters()) | dict(model.named_buffers())
    found = {f"weight.{name}": value.detach().contiguous() for name, value in kept.items()}
    for name, weight in model.named_parameters():
        for part, value in optimiser.state.get(weight, {}).items():
            found[f"{part}.{name}"] = torch.as_tensor(value).detach().contiguous()
    return found


def _placed(part: str, value: Tensor, weight: Tensor) -> Tensor:
    """AdamW keeps its step counts on the CPU unless it runs fused; moments are beside their weight."""
    return value.to(weight.device) if part != "step" or weight.is_cuda else value
