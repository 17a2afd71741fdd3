"""A head on a stack, in training and in use: items in, the task's scores out.

The stack runs over the tokens of a batch of items, end to end or padded as it does everywhere; the states of the top
cut (after the last norm, where there is one) are gathered at the items' places; the head sees only those:

    ids (tokens,)  ->  states (tokens, width)  ->  states at places (rows, k, width)  ->  scores (rows, k, ...)

A frozen layer is in evaluation mode while the rest trains, so that it is the same function at every step, unless
`dropout` says that its dropout stays on. While it is off, a `Prefix` can take the place of the frozen layers: the
states of the cut below the first layer that trains, computed once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.seeds import seed_of, seeded
from isogloss.stack.stack import Stack, measuring
from isogloss.tasks.frozen_prefix import Prefix
from isogloss.tasks.task import Items, Labels, Prediction, Task
from isogloss.text.batches import Batch, group, padded_rows
from isogloss.text.masking import IGNORE
from isogloss.training.cuda_graphs import Captured, drops_attention
from isogloss.training.loop import Objective, Part, Rows, steps_in_epoch
from isogloss.training.probes import arithmetic


@dataclass(frozen=True)
class TaskBatch:
    """A batch of items, and what is asked of it.

    numbers (rows,): of the items. index (rows, k): numbers of the states asked for, in the batch's tokens; present
    (rows, k): where a row has so many; gold (rows, k, c).
    """

    numbers: np.ndarray
    batch: Batch
    index: Tensor
    present: Tensor
    gold: Tensor


class TaskModel(nn.Module):
    """A stack and a task's head on it; its weights change, and so does which layers are frozen.

    dropout: whether frozen layers keep their dropout. half: whether it computes in bfloat16, in which a GPU runs
    sentences end to end; its variable-length kernel knows no dropout, so a model whose attention has some is padded
    while it trains. still: the same stack, as it runs in evaluation mode. captured: its blocks as CUDA graphs, where it
    trains with any.
    """

    def __init__(
        self, stack: Stack, task: Task, labels: Labels, *, seed: int, dropout: bool = False, half: bool = False
    ) -> None:
        super().__init__()
        self.stack, self.still, self.task, self.labels, self.dropout = stack, stack, task, labels, dropout
        if stack.device.type == "cuda":
            self.stack = replace(stack, pack=half and not drops_attention(stack))
            self.still = replace(stack, pack=half)
        self.encoder = stack.model
        with seeded(seed_of(seed, "head")):
            self.head = task.head(stack.width, labels)
        self.head.to(stack.device)
        self._frozen: list[nn.Module] = []
        self._uppers: dict[tuple[int, bool], Stack] = {}
        self.captured: Captured | None = None

    def hold(self, frozen: int, *, until: int | None = None) -> None:
        """Say which layers are frozen: embeddings and blocks 1 to `frozen`, and those above `until`."""
        blocks = list(self.encoder.get_submodule(self.stack.family.blocks))
        modules = dict(self.encoder.named_modules())  # electra projects its embeddings only where they are narrower
        below = [modules[path] for path in self.stack.family.embeddings if path in modules]
        held = (below if frozen >= 0 else []) + blocks[: max(frozen, 0)]
        self._frozen = held + (blocks[until:] if until is not None else [])
        self.train(self.training)

    def train(self, mode: bool = True) -> "TaskModel":
        """Training mode, with frozen layers in evaluation mode."""
        super().train(mode)
        if mode and not self.dropout:
            for module in self._frozen:
                module.eval()
        return self

    def forward(self, asked: TaskBatch, prefix: Prefix | None = None) -> tuple[Tensor, ...]:
        """The task's scores in float32; prefix: the states of the items at a cut, where they are known."""
        stack = self.stack if self.training else self.still
        graphs, top = self.captured if self.training else None, stack.last
        cut = 0 if prefix is None else prefix.cut
        hidden = None if prefix is None else prefix.states(asked.numbers, stack.device)
        states = None if graphs is None else graphs.top(asked.batch, hidden, cut)
        if states is None and hidden is not None and cut == top:
            states = hidden
        elif states is None:
            run = stack if hidden is None else self._uppers.setdefault((cut, self.training), stack[cut:])
            states = run.read(asked.batch, [top], hidden=hidden)[top]
        states = stack.head_input(states)  # (tokens, width)
        chosen = states[asked.index] * asked.present.unsqueeze(-1).to(states.dtype)  # (rows, k, width)
        return tuple(score.float() for score in self.head(chosen, asked.present))


def task_batch(items: Items, chosen: Sequence[int] | np.ndarray, *, device: torch.device) -> TaskBatch:
    """Some items as one batch, in this order."""
    numbers = np.asarray(chosen)
    flat, present = padded_rows(numbers, np.cumsum(items.counts) - items.counts, items.counts)  # (rows, k)
    lengths = items.lengths[numbers]
    start = np.cumsum(lengths) - lengths
    index = np.where(present, start[:, None] + items.places[flat], 0)
    gold = np.where(present[..., None], items.gold[flat], IGNORE)  # (rows, k, c)
    moved = [torch.from_numpy(array).to(device, non_blocking=True) for array in (index, present, gold)]
    return TaskBatch(numbers, items.batch(numbers, device), *moved)


def task_objective(
    model: TaskModel,
    items: Items,
    *,
    batch: int,
    seed: int,
    prefix: Prefix | None = None,
    changing: Callable[[int], Items] | None = None,
    longest: int | None = None,
) -> Objective:
    """Learn a task: `batch` items a step, every one of them once an epoch, in an order drawn from seed and epoch.

    The loss is the task's, a mean over targets (pairs, words). prefix: the frozen layers' states of these items.
    changing(epoch): the items of an epoch, where they are others each time, `longest` the most tokens one may have. An
    epoch has as many steps as `items` make; where an epoch has more items, or fewer, its steps have.
    """
    device, steps = model.stack.device, steps_in_epoch(items, batch)
    if device.type == "cuda" and model.stack.packs:
        model.captured = Captured(model.stack, rows=batch, longest=longest or int(items.lengths.max()))

    @lru_cache(maxsize=1)
    def order(epoch: int) -> np.ndarray:
        return np.random.default_rng(seed_of(seed, "order", epoch)).permutation(len(now(epoch)))

    @lru_cache(maxsize=1)
    def now(epoch: int) -> Items:
        return items if changing is None else changing(epoch)

    def draw(step: int) -> list[Part]:
        epoch, number = divmod(step, steps)
        chosen = order(epoch)[_step_rows(len(now(epoch)), number, steps=steps, batch=batch)]
        # Attention takes one length at a time.
        chosen = chosen[np.argsort(-now(epoch).lengths[chosen], kind="stable")]
        return [Part({"items": torch.from_numpy(chosen), "epoch": torch.full((len(chosen),), epoch)})]

    def loss(rows: Rows, name: str) -> Tensor:
        asked = task_batch(now(int(rows["epoch"][0])), rows["items"].numpy(), device=device)
        return model.task.loss(model(asked, prefix), asked.gold, asked.present)

    def count(rows: Rows) -> int:
        return int(now(int(rows["epoch"][0])).targets[rows["items"].numpy()].sum())

    return Objective(draw, loss, count)


def _step_rows(count: int, number: int, *, steps: int, batch: int) -> slice:
    """Which of an epoch's items are those of a step: `batch` of them, or an even share where that is not all.

    >>> _step_rows(10, 2, steps=3, batch=4), _step_rows(14, 2, steps=3, batch=4)
    (slice(8, 12, None), slice(9, 14, None))
    """
    if -(-count // batch) == steps:
        return slice(number * batch, (number + 1) * batch)
    first = number * count // steps
    return slice(first, max(first + 1, (number + 1) * count // steps))


def predict(
    model: TaskModel,
    examples: Sequence[Any],
    items: Items,
    *,
    dtype: torch.dtype | None = None,
    tokens: int | None = None,
    prefix: Prefix | None = None,
) -> list[Any]:
    """The model's answer to each example, from what it says of the example's items in evaluation mode.

    dtype: of autocast. tokens: of a batch, which bounds memory; batches are of similar length, so they are not those of
    the examples. prefix: the states of the items in the model's frozen layers, where they are known.
    """
    device = model.stack.device
    size = tokens or (65_536 if device.type == "cuda" else 2_048)
    predictions: dict[int, Prediction] = {}
    border = np.cumsum(items.counts)
    waiting: list[tuple[list[int], tuple[Tensor, ...]]] = []
    with measuring(model), arithmetic(device, dtype):
        for members in group(items.lengths.tolist(), tokens=size):
            asked = task_batch(items, members, device=device)
            waiting.append((members, model.task.guess(model(asked, prefix), asked.present)))
    for members, guesses in waiting:  # only now does the host wait for the device
        arrays = [guess.cpu().numpy() for guess in guesses]
        for row, number in enumerate(members):
            count, end = int(items.counts[number]), int(border[number])
            units = items.units[end - count : end]
            predictions[number] = Prediction(units, tuple(array[row, :count] for array in arrays))
    grouped: list[list[Prediction]] = [[] for _ in examples]
    for number, owner in enumerate(items.owners):
        grouped[owner].append(predictions[number])
    return [model.task.decode(example, own, model.labels) for example, own in zip(examples, grouped, strict=True)]
