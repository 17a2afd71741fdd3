"""The training loop: draw, loss, update; at intervals a probe, a checkpoint, a report of the loss.

A step (its rows, their masks, the dropout) is a pure function of the seed and its number. So a run that was killed
resumes to the same weights, and several processes that share a batch follow the curve of one.

The objective defines what is learned; the loop knows nothing of language. Losses are sums over targets, and the number
of targets of the whole batch is known before the first part is run: splitting a batch over parts, passes or processes
changes nothing but rounding.

Several processes may train one model: `torchrun` or `accelerate launch` starts them, and accelerate joins them. Every
process draws the whole batch of a step and runs its own share of the rows; gradients are summed before the update, so
every process has the same weights at every step.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from isogloss.errors import InputError, readable, require
from isogloss.files import clear_leftovers, whole_folder, write_text
from isogloss.progress import progress
from isogloss.seeds import seed_of, seeded
from isogloss.stack.load import STEP_FILE
from isogloss.stack.packing import cudnn_attention, float32_products
from isogloss.training import checkpoints as saved
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.cuda_graphs import CapturedUpdates, CudaGraphs
from isogloss.training.mixed_precision import arithmetic, half_weights
from isogloss.training.probes import Probe, Reading
from isogloss.training.stopping import Choice, Memory, Rule

T = TypeVar("T")
Rows = Mapping[str, Tensor]
PATIENCE = timedelta(days=1)  # others wait while the first process tokenizes, longer than torch's default timeout


Decay = Literal["linear", "cosine", "inverse-sqrt", "constant", "trapezoid"]
FINE_TUNING = (0.9, 0.999), 1e-8  # betas and epsilon of the Adam paper


@dataclass(frozen=True)
class Optimisation:
    """AdamW's hyperparameters and the schedule: the learning rate rises to `rate`, and then decays.

    warm_up: share of the steps over which it rises. decay: linear or cosine to 0 at the last step; inverse-sqrt, rate *
    sqrt(steps of warm-up / step); constant; trapezoid, constant and then linear to 0 over the last fifth. clip: maximum
    norm of all gradients together, 0 for no clipping. betas, epsilon: by default those of RoBERTa and InfoXLM;
    `FINE_TUNING` holds those for fine-tuning.
    """

    rate: float = 1e-4
    warm_up: float = 0.0
    decay: Decay = "linear"
    weight_decay: float = 0.01
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        require(0 <= self.warm_up <= 1, f"warm_up is a share of the updates, from 0 to 1, not {self.warm_up}")


def rate_at(step: int, *, steps: int, optimisation: Optimisation) -> float:
    """The learning rate of update `step` (0 is the first) out of `steps`.

    >>> [rate_at(s, steps=6, optimisation=Optimisation(rate=1.0, warm_up=1 / 3)) for s in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warm_up = round(optimisation.warm_up * steps)
    if step < warm_up:
        return optimisation.rate * (step + 1) / warm_up
    left = (steps - step) / max(1, steps - warm_up)
    shapes: dict[Decay, Callable[[], float]] = {
        "linear": lambda: left,
        "cosine": lambda: 0.5 * (1 + math.cos(math.pi * (1 - left))),
        "inverse-sqrt": lambda: math.sqrt(max(1, warm_up) / (step + 1)),
        "constant": lambda: 1.0,
        "trapezoid": lambda: min(1.0, (steps - step) / max(1, steps // 5)),
    }
    return optimisation.rate * shapes[optimisation.decay]()


def adamw(model: nn.Module, optimisation: Optimisation) -> torch.optim.AdamW:
    """AdamW over every weight of the model, frozen ones too: a weight without a gradient is not updated.

    So a layer that is unfrozen later is trained from then on, without decay or stale momentum from before. Weight decay
    applies to matrices, not to biases and norms.
    """
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": optimisation.weight_decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    values: dict[str, Any] = {"betas": optimisation.betas, "eps": optimisation.epsilon}
    if any(weight.is_cuda for weight in weights):  # a captured update reads the learning rate from the device
        rate = torch.tensor(optimisation.rate, device=weights[0].device)
        return torch.optim.AdamW(groups, lr=rate, fused=True, capturable=True, **values)
    return torch.optim.AdamW(groups, lr=optimisation.rate, **values)


@dataclass(frozen=True)
class Processes:
    """One process among `count`; the one of rank 0 writes."""

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and shows progress."""
        return self.rank == 0

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over the processes, in one all-reduce for each dtype."""
        if self.count == 1:
            return
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for tensor in tensors:
            kinds.setdefault(tensor.dtype, []).append(tensor)
        for members in kinds.values():
            flat = torch.cat([member.reshape(-1) for member in members])
            torch.distributed.all_reduce(flat)
            pieces = torch.split(flat, [member.numel() for member in members])
            for member, piece in zip(members, pieces, strict=True):
                member.copy_(piece.view_as(member))

    def wait(self) -> None:
        """Wait until all processes have reached this point."""
        if self.count > 1:
            torch.distributed.barrier()


def launched() -> tuple[int, int]:
    """Rank and number of processes as set by the launcher, (0, 1) without one."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def join(device: torch.device) -> Processes:
    """Join the processes that the launcher started; a single process needs nothing."""
    rank, count = launched()
    if count == 1:
        return Processes(0, 1, device)
    from accelerate import PartialState

    state = PartialState(cpu=device.type == "cpu", timeout=PATIENCE)
    return Processes(rank, count, state.device)


def together(processes: Processes, make: Callable[[], T]) -> T:
    """Return `make()`, called in the first process before the others; if it fails there, it fails in all."""
    results, mistake = [], None
    if processes.first:
        try:
            results.append(make())
        except Exception as error:
            mistake = error
    failed = torch.tensor(float(mistake is not None), device=processes.device)
    processes.add([failed])
    if mistake is not None:
        raise mistake
    require(not failed, "the first process could not go on, and says why")
    return results[0] if results else make()


@dataclass(frozen=True)
class Part:
    """Rows of a step that run through the model together.

    rows: tensors whose first dimension is the row, unless they are never split. name: the model or task they are for.
    """

    rows: Rows
    name: str = ""

    def pieces(self, processes: Processes, size: int | None) -> Iterator[Rows]:
        """Rows of this process, at most `size` at a time; with one process and no size, all rows unchanged."""
        mine = {key: value[processes.rank :: processes.count] for key, value in self.rows.items()}
        total = len(next(iter(mine.values())))
        if total and processes.count == 1 and size is None:
            yield self.rows
            return
        assert len(set(map(len, self.rows.values()))) == 1, "a table of texts cannot be split by rows"
        for start in range(0, total, size or max(1, total)):
            yield {key: value[start : start + (size or total)] for key, value in mine.items()}


@dataclass(frozen=True)
class Objective:
    """A training objective.

    draw(step): the whole batch of that step, in parts, a pure function of the step. loss(rows, name): the loss of some
    rows, summed over their targets. count(rows): the number of their targets. around(): a context in which the loss is
    computed. before(): called at the start of a step, and again if the step is retried. after(): called after the
    optimiser step, for instance to update a moving average of the weights. cudnn: whether the gradients of cuDNN's
    attention are correct for the length of the rows, see `cudnn_attention`. captured: whether all of these depend only
    on weights and the tensors of the rows, so that a GPU can replay an update. compiled: whether the loss is compiled.
    sums: buffers of the model in which each process sums a quantity over its own rows.
    """

    draw: Callable[[int], Sequence[Part]]
    loss: Callable[[Rows, str], Tensor]
    count: Callable[[Rows], Tensor | int]
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    cudnn: bool = False
    captured: bool = False
    compiled: bool = False
    sums: Sequence[Tensor] = ()


@dataclass(frozen=True)
class Settings:
    """How an objective is trained.

    report: steps between two readings of the mean loss. piece: rows of one forward pass, if a batch does not fit into
    memory. dtype: of autocast, None for no autocast; weights stay float32.
    """

    steps: int
    seed: int
    optimisation: Optimisation
    report: int = 50
    piece: int | None = None
    dtype: torch.dtype | None = None


def to_device(array: Any, device: torch.device) -> Tensor:
    """Copy an array to the device, from pinned memory, so that the copy does not wait for a running step."""
    tensor = torch.as_tensor(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def steps_in_epoch(items: Sized, batch: int) -> int:
    """Number of steps that see every item once; the last may have fewer than `batch` items."""
    return -(-len(items) // batch)


class Training:
    """A model in training: its step, its optimiser, and the sums of losses since the last report."""

    def __init__(self, model: nn.Module, objective: Objective, settings: Settings, processes: Processes) -> None:
        self.model, self.objective, self.settings, self.processes = model, objective, settings, processes
        self.optimiser = adamw(model, settings.optimisation)
        self.step = 0
        self.best: float | None = None
        self.best_step: int | None = None
        self.best_weights: dict[str, Tensor] | None = None  # in the first process only
        self.memory: Memory = {}  # of the stopping rule
        self.stopped: str | None = None
        self._judged = -1
        wide = torch.float32 if processes.device.type == "mps" else torch.float64
        self._total = torch.zeros((), dtype=wide, device=processes.device)  # of this process
        self._count = torch.zeros((), dtype=wide, device=processes.device)  # of all together
        alone = processes.count == 1 and settings.piece is None
        captured = objective.captured and alone and processes.device.type == "cuda"
        self._graphs = CapturedUpdates(CudaGraphs(processes.device)) if captured else None

    def update(self) -> None:
        """One step: run its batch, sum the gradients over all processes, and update the weights."""
        parts, settings = self.objective.draw(self.step), self.settings
        rate = rate_at(self.step, steps=settings.steps, optimisation=settings.optimisation)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        device = self.processes.device
        with (
            seeded(seed_of(settings.seed, "dropout", self.step, self.processes.rank), device),
            float32_products(by_onednn=True) if device.type == "cpu" else nullcontext(),
        ):
            if self._graphs is None:
                self._learn(parts)
            else:
                names = tuple((part.name, tuple(part.rows)) for part in parts)
                trained = tuple(weight.requires_grad for weight in self.model.parameters())
                modes = tuple(module.training for module in self.model.modules())
                tensors = [tensor for part in parts for tensor in part.rows.values()]
                self._graphs.run(partial(self._learn_tensors, names), tensors, kind=(names, trained, modes))
        self.step += 1

    def _learn_tensors(self, names: Sequence[tuple[str, Sequence[str]]], tensors: Sequence[Tensor]) -> None:
        """Update the weights with parts given as a flat sequence of the tensors of their rows."""
        given = iter(tensors)
        self._learn([Part({key: next(given) for key in keys}, name) for name, keys in names])

    def _learn(self, parts: Sequence[Part]) -> None:
        """Update the weights with one batch, without a device synchronisation."""
        device, dtype = self.processes.device, self.settings.dtype
        counts = sum(self.objective.count(part.rows) for part in parts)
        # A Python number is filled in on the device, because a copy would wait for the last step.
        count = counts.to(device) if isinstance(counts, Tensor) else torch.full((), counts, device=device)
        self.objective.before()
        try:
            for part in parts:
                for rows in part.pieces(self.processes, self.settings.piece):
                    with (
                        arithmetic(device, dtype),
                        half_weights(self.model, None if self.objective.compiled else dtype),
                        cudnn_attention(self.objective.cudnn),
                        self.objective.around(),
                    ):
                        total = self.objective.loss(rows, part.name)
                    (total / count.clamp(min=1)).backward()  # type: ignore[no-untyped-call]
                    self._total += total.detach()
            self._count += count
            weights = [weight for weight in self.model.parameters() if weight.requires_grad]
            self._share_gradients(parts, weights)
            if self.settings.optimisation.clip:
                nn.utils.clip_grad_norm_(weights, self.settings.optimisation.clip)
            self.optimiser.step()
        finally:
            self.optimiser.zero_grad(set_to_none=True)
        self.objective.after()

    def _share_gradients(self, parts: Sequence[Part], weights: Sequence[nn.Parameter]) -> None:
        """Sum the gradients over the processes.

        If a part has fewer rows than there are processes, a weight may have a gradient in some of them only, which they
        exchange first; otherwise every process ran every part. A weight without any gradient keeps none.
        """
        if self.processes.count == 1:
            return
        if min(len(next(iter(part.rows.values()))) for part in parts) < self.processes.count:
            held = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.int32)
            held = held.to(self.processes.device)
            self.processes.add([held])
            for weight, holders in zip(weights, held.tolist(), strict=True):
                if holders and weight.grad is None:
                    weight.grad = torch.zeros_like(weight)
        self.processes.add(weight.grad for weight in weights if weight.grad is not None)

    def judge(self, rule: Rule, readings: Sequence[Reading]) -> bool:
        """Whether the rule ends the training at this step; `stopped` is then the reason.

        After a restart, readings of the checkpoint's own step are not judged again. Every process applies the rule; if
        rounding makes them disagree, the first decides, since a process that continued alone would wait forever.
        """
        if not readings or self.step <= self._judged:
            return False
        self._judged = self.step
        self.memory, why = rule(self.memory, self.step, readings)
        decided = torch.tensor(float(self.processes.first and why is not None), device=self.processes.device)
        self.processes.add([decided])
        self.stopped = (why or "the first process stopped") if decided else None
        return self.stopped is not None

    def save(self, checkpoints: Checkpoints) -> None:
        """Write a checkpoint of this step; the first process writes, the others wait for it."""
        total, count = self.losses()
        best = {"best": self.best, "best_step": self.best_step, "memory": dict(self.memory)}
        state = {"step": self.step, "total": total, "count": count} | best
        self.processes.add(self.objective.sums)
        self._leave_sums_to_the_first()
        if self.processes.first:
            apart = None if self.best_step == self.step else self.best_weights
            saved.save_checkpoint(checkpoints, self.model, self.optimiser, state=state, best=apart)
        self.processes.wait()

    def restore(self, checkpoint: Path) -> None:
        """Resume from a checkpoint."""
        state, best = saved.restore_checkpoint(checkpoint, self.model, self.optimiser)
        with readable(checkpoint, *saved.UNUSABLE):
            self.step, self.best, self.best_step = state["step"], state["best"], state["best_step"]
            self.best_weights = best if self.processes.first else None
            self.memory, self._judged = state.get("memory", {}), self.step
            self._total.fill_(state["total"] if self.processes.first else 0.0)
            self._count.fill_(state["count"])
        self._leave_sums_to_the_first()

    def _leave_sums_to_the_first(self) -> None:
        """Keep the sums over all processes in the first one and set those of the others to 0."""
        for sums in () if self.processes.first else self.objective.sums:
            sums.zero_()

    def losses(self) -> tuple[float, float]:
        """Sum of the losses and number of targets since they were last cleared, over all processes.

        Raises an `InputError` if a loss or weight is not finite: an update can spoil weights after a finite loss.
        """
        sums = self._total.clone()
        self.processes.add([sums])
        total = float(sums)
        # NaN and infinity reach the minimum or maximum; `isfinite` of every weight takes 30 times as long on a CPU.
        ends = [torch.stack(torch.aminmax(weight.detach())).float() for weight in self.model.parameters()]
        if not math.isfinite(total) or not bool(torch.isfinite(torch.cat(ends)).all()):
            raise InputError(
                f"the loss is no number any more at step {self.step}; lower --rate or lengthen --warm-up and begin "
                "again in another folder (the last checkpoint is from before and intact)"
            )
        return total, float(self._count)


def train(
    training: Training,
    *,
    probes: Sequence[Probe] = (),
    plan: Callable[[int], None] | None = None,
    checkpoints: Checkpoints | None = None,
    selection: Choice | None = None,
    stop: Rule | None = None,
) -> Iterator[list[Reading]]:
    """Train from the start, or from the last checkpoint, to the last step.

    Args:
        training: the model before its first update, with a plan's blocks already reinitialised; a checkpoint replaces
            its weights. Probes that compare with the initial model must be created before this call.
        probes: the measures taken before the first update, at intervals, and after the last update.
        plan: called with the number of each update before it is made; sets `requires_grad` of the weights.
        checkpoints: where and how often checkpoints are written; None for never.
        selection: the reading by which the best model is chosen; it is kept in `training.best_weights` and, at the end,
            as `best` beside the checkpoints.
        stop: a rule that receives the readings of each step that has any; if it returns a sentence, that step is the
            last, all probes are taken there, and `training.stopped` is the sentence.

    Returns:
        An iterator of the readings of each step that has any, with their `step`, the number of updates made.
    """
    settings, model = training.settings, training.model
    if checkpoints is not None and training.step == 0:
        if training.processes.first:
            clear_leftovers(checkpoints.folder)
        checkpoint = together(training.processes, lambda: saved.latest(checkpoints.folder))
        if checkpoint is not None:
            training.restore(checkpoint)
    begun, mode = training.step, model.training
    stage = "training"
    model.train()
    try:
        while True:
            step = training.step
            if any(probe.due(step) for probe in probes) or step == settings.steps:
                progress("training: measuring", step, settings.steps)
            readings = _take(training, probes, begun, due=True)
            last = step == settings.steps or (stop is not None and training.judge(stop, readings))
            if last:
                readings += _take(training, probes, begun, due=False)
            value = None if selection is None else selection.value(readings)
            if selection is not None and value is not None and selection.better(value, training.best):
                training.best, training.best_step = value, step
                if checkpoints is not None and training.processes.first:
                    training.best_weights = saved.copy_weights(model, training.best_weights)
            if readings:
                stage = next((f"training: loss {x['value']:.3f}" for x in readings if x["measure"] == "loss"), stage)
                yield [{**reading, "step": step} for reading in readings]
            if last:
                if checkpoints is not None and training.best_weights is not None:
                    saved.export_best(checkpoints, model, training.best_weights)
                progress(stage, step, settings.steps)
                return
            if checkpoints is not None and step > begun and step % checkpoints.every == 0:
                training.save(checkpoints)
            if plan is not None:
                plan(step)
            training.update()
            progress(stage, training.step, settings.steps)
    finally:
        model.train(mode)


def saved_models(
    training: Training, folder: Path, export: Callable[[Path], None], *, every: int, about: Mapping[str, Any]
) -> Probe:
    """A probe without readings that saves the model permanently, every `every` updates, as `folder/step-N`.

    about: fields of the file `step.json` in each folder besides the step. Step 0 is not written: it is the initial
    model. Models are written completely or not at all, and an existing one is left unchanged: a resumed training
    repeats the same steps, with the same weights.
    """
    if training.processes.first:
        clear_leftovers(folder)

    def take() -> Sequence[Reading]:
        path = folder / f"step-{training.step}"
        if training.processes.first and training.step > 0 and training.step % every == 0 and not path.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with whole_folder(path) as beside:
                export(beside)
                write_text(beside / STEP_FILE, json.dumps({**about, "step": training.step}, indent=2) + "\n")
        return ()

    return Probe(every, take)


def _take(training: Training, probes: Sequence[Probe], begun: int, *, due: bool) -> list[Reading]:
    """The readings due at this step, of probes and then the loss; or else all others, at the last step."""
    chosen = [probe for probe in probes if probe.due(training.step) is due]
    if chosen:
        training.losses()  # raises here if weights are not finite, before a probe fails on them
    readings = [reading for probe in chosen for reading in probe.take()]
    if training.step > begun and (training.step % training.settings.report == 0) is due:
        total, count = training.losses()
        training._total.zero_()
        training._count.zero_()
        readings.append({"measure": "loss", "value": total / max(1.0, count), "n": int(count), "unit": "token"})
    return readings
