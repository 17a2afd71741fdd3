"""A head on a stack, for training and prediction: items in, the task's scores out.

The stack runs over the tokens of a batch of items: packed or padded, as everywhere, or, in training on a GPU, laid out
several to a row in few shapes, so that whole updates can be captured. The states of the top cut (after the final norm,
if there is one) are gathered at the items' places; the head sees only those:

    ids (tokens,)  ->  states (tokens, width)  ->  states at places (rows, k, width)  ->  scores (rows, k, ...)

A frozen layer is in evaluation mode while the rest is trained, so that it is the same function at every step, unless
`dropout` keeps its dropout on. With dropout off, a `Prefix` can replace the frozen layers: the states of the cut below
the first trained layer, computed once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.seeds import seed_of, seeded
from isogloss.stack.edit import parts_to_train
from isogloss.stack.stack import Stack, measuring
from isogloss.tasks.frozen_prefix import Prefix
from isogloss.tasks.task import Items, Labels, Prediction, Task
from isogloss.text.batches import Batch, batch_tokens, group, layout_of, padded_rows, size_of
from isogloss.text.masking import IGNORE
from isogloss.training.language_modelling import padding_id
from isogloss.training.loop import Objective, Part, Rows, steps_in_epoch, to_device
from isogloss.training.mixed_precision import arithmetic


@dataclass(frozen=True)
class TaskBatch:
    """A batch of items, with the positions that the head reads.

    numbers (rows,): indices of the items. index (rows, k): indices of the states to read, in the batch's tokens;
    present (rows, k) bool: which of them exist; gold (rows, k, c).
    """

    numbers: np.ndarray
    batch: Batch
    index: Tensor
    present: Tensor
    gold: Tensor


class TaskModel(nn.Module):
    """A stack and a task's head on it.

    dropout: whether frozen layers keep their dropout. eval_stack: the same stack, as it runs in evaluation mode. The
    variable-length kernel of a GPU has no dropout, so a model with attention dropout is padded when it is trained
    without tables.
    """

    def __init__(self, stack: Stack, task: Task, labels: Labels, *, seed: int, dropout: bool = False) -> None:
        super().__init__()
        self.stack, self.eval_stack, self.task, self.labels, self.dropout = stack, stack, task, labels, dropout
        if stack.device.type == "cuda":
            self.stack = replace(stack, pack=stack.packs and not _drops_attention(stack))
        self.encoder = stack.model
        with seeded(seed_of(seed, "head")):
            self.head = task.head(stack.width, labels)
        self.head.to(stack.device)
        self._parts: list[tuple[nn.Module, bool]] = []
        self._uppers: dict[tuple[int, bool], Stack] = {}

    def hold(self, frozen: int, *, until: int | None = None) -> None:
        """Freeze embeddings and blocks 1 to `frozen`, and those above `until`, as `freeze` does."""
        self._parts = parts_to_train(self.stack, frozen, until=until)
        self.train(self.training)

    def train(self, mode: bool = True) -> "TaskModel":
        """Training mode, with frozen layers in evaluation mode."""
        super().train(mode)
        if mode and not self.dropout:
            for part, trains in self._parts:
                part.train(trains)
        return self

    def forward(self, asked: TaskBatch, prefix: Prefix | None = None) -> tuple[Tensor, ...]:
        """The task's scores in float32; prefix: precomputed states of the items at a cut."""
        hidden = None if prefix is None else prefix.states(asked.numbers, self.stack.device)
        stack = self._from(None if prefix is None else prefix.cut)
        states = stack.read(asked.batch, [stack.last], hidden=hidden)[stack.last]  # (tokens, width)
        return self.score(states, asked.index, asked.present)

    def score_table(self, table: Rows, prefix: Prefix | None = None) -> tuple[Tensor, ...]:
        """The task's scores of items laid out in rows by `table_rows`."""
        hidden = None if prefix is None else prefix.at(table["tokens"])  # (rows, length, width)
        states = self._from(None if prefix is None else prefix.cut).read_table(table, hidden)
        return self.score(states, table["index"], table["present"])

    def score(self, states: Tensor, index: Tensor, present: Tensor) -> tuple[Tensor, ...]:
        """The head's scores of the states of the top cut, (n, width), at `index` (rows, k)."""
        # Not `states[index]`, whose gradient is accumulated sequentially.
        chosen = torch.index_select(self.stack.head_input(states), 0, index.flatten()).view(*index.shape, -1)
        chosen = chosen * present.unsqueeze(-1).to(states.dtype)  # (rows, k, width)
        return tuple(score.float() for score in self.head(chosen, present))

    def _from(self, cut: int | None) -> Stack:
        """The stack for the current mode, from a cut on or from text."""
        stack = self.stack if self.training else self.eval_stack
        return stack if cut is None else self._uppers.setdefault((cut, self.training), stack[cut:])


def _drops_attention(stack: Stack) -> bool:
    """Whether attention has dropout, which the variable-length kernel does not support."""
    names = ("attention_dropout", "attention_probs_dropout_prob")
    return any(getattr(stack.model.config, name, 0.0) for name in names)


def task_batch(items: Items, chosen: Sequence[int] | np.ndarray, *, device: torch.device) -> TaskBatch:
    """Make a batch of the chosen items, in this order."""
    numbers = np.asarray(chosen)
    arrays = _asked(items, numbers, np.arange(int(items.lengths[numbers].sum())))
    moved = [torch.from_numpy(array).to(device, non_blocking=True) for array in arrays]
    return TaskBatch(numbers, items.batch(numbers, device), *moved)


def table_rows(items: Items, numbers: np.ndarray, *, padding: int) -> dict[str, np.ndarray]:
    """Lay out items in rows with few shapes: the inputs of a stack, the positions to read, and the token indices.

    (rows, length): ids, positions, texts, types, tokens; then index, present and gold as in a `TaskBatch`, with the
    number of places rounded up; and targets (items,).
    """
    tokens, table = items.tokens(numbers), layout_of(items.lengths[numbers])
    rows = {"ids": table.spread(items.ids[tokens], padding), "positions": table.positions, "texts": table.texts}
    rows |= {"types": table.spread(items.types[tokens]), "tokens": table.spread(tokens)}
    places = int(items.counts[numbers].max())
    width = size_of(places) if places > 1 else places
    rows |= dict(zip(("index", "present", "gold"), _asked(items, numbers, table.slots, width), strict=True))
    return rows | {"targets": items.targets[numbers]}


def _asked(items: Items, numbers: np.ndarray, slots: np.ndarray, width: int = 0) -> tuple[np.ndarray, ...]:
    """Index, present and gold of a batch of items; slots: the index of the state of each of their tokens.

    width: minimum number of places in a row.
    """
    flat, present = padded_rows(numbers, np.cumsum(items.counts) - items.counts, items.counts)  # (rows, k)
    more = (0, 0), (0, max(0, width - flat.shape[1]))
    flat, present = np.pad(flat, more), np.pad(present, more)
    lengths = items.lengths[numbers]
    start = np.cumsum(lengths) - lengths
    index = slots[np.where(present, start[:, None] + items.places[flat], 0)]
    return index, present, np.where(present[..., None], items.gold[flat], IGNORE)  # (rows, k), (rows, k), (rows, k, c)


def task_objective(
    model: TaskModel,
    items: Items,
    *,
    batch: int,
    seed: int,
    prefix: Prefix | None = None,
    changing: Callable[[int], Items] | None = None,
    table: bool | None = None,
) -> Objective:
    """The objective of a task: `batch` items a step, each once an epoch, in an order drawn from seed and epoch.

    The loss is the task's, a mean over targets (pairs, words). prefix: the frozen layers' states of these items.
    changing(epoch): the items of an epoch, if they differ between epochs. The number of steps in an epoch is that of
    `items`; if an epoch has more or fewer items, its steps do. table: whether to lay out several items to a row, in few
    shapes, so that an update can be captured; by default on a GPU, if the family allows it and memory suffices.
    """
    device, steps = model.stack.device, steps_in_epoch(items, batch)
    if table is None:
        known = prefix is None or (prefix.kept.is_cuda and prefix.turn is None)  # a map may not be on the device
        table = device.type == "cuda" and model.stack.tables and known
    padding = padding_id(model.encoder)

    @lru_cache(maxsize=1)
    def order(epoch: int) -> np.ndarray:
        return np.random.default_rng(seed_of(seed, "order", epoch)).permutation(len(now(epoch)))

    @lru_cache(maxsize=1)
    def now(epoch: int) -> Items:
        return items if changing is None else changing(epoch)

    def draw(step: int) -> list[Part]:
        epoch, number = divmod(step, steps)
        chosen = order(epoch)[_step_rows(len(now(epoch)), number, steps=steps, batch=batch)]
        if table:
            rows = table_rows(now(epoch), chosen, padding=padding)
            return [Part({name: to_device(values, device) for name, values in rows.items()})]
        # Sorted, because packed attention runs one length at a time.
        chosen = chosen[np.argsort(-now(epoch).lengths[chosen], kind="stable")]
        return [Part({"items": torch.from_numpy(chosen), "epoch": torch.full((len(chosen),), epoch)})]

    def loss(rows: Rows, name: str) -> Tensor:
        if table:
            return model.task.loss(model.score_table(rows, prefix), rows["gold"], rows["present"])
        asked = task_batch(now(int(rows["epoch"][0])), rows["items"].numpy(), device=device)
        return model.task.loss(model(asked, prefix), asked.gold, asked.present)

    def count(rows: Rows) -> Tensor | int:
        return rows["targets"].sum() if table else int(now(int(rows["epoch"][0])).targets[rows["items"].numpy()].sum())

    return Objective(draw, loss, count, captured=table)


def _step_rows(count: int, number: int, *, steps: int, batch: int) -> slice:
    """Which of an epoch's items belong to a step: `batch` of them, or an even share if that does not cover all.

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
    prefix: Prefix | None = None,
) -> list[Any]:
    """Predict the answer to each example from its items, in evaluation mode.

    dtype: of autocast. prefix: precomputed states of the items below the trained layers. Batches group items of similar
    length, not in the order of the examples.
    """
    device = model.stack.device
    predictions: dict[int, Prediction] = {}
    border = np.cumsum(items.counts)
    waiting: list[tuple[list[int], tuple[Tensor, ...]]] = []
    with measuring(model), arithmetic(device, dtype):
        for members in group(items.lengths.tolist(), tokens=batch_tokens(device)):
            asked = task_batch(items, members, device=device)
            waiting.append((members, model.task.guess(model(asked, prefix), asked.present)))
    for members, guesses in waiting:  # the first device synchronisation
        arrays = [guess.cpu().numpy() for guess in guesses]
        for row, number in enumerate(members):
            count, end = int(items.counts[number]), int(border[number])
            units = items.units[end - count : end]
            predictions[number] = Prediction(units, tuple(array[row, :count] for array in arrays))
    grouped: list[list[Prediction]] = [[] for _ in examples]
    for number, owner in enumerate(items.owners):
        grouped[owner].append(predictions[number])
    return [model.task.decode(example, own, model.labels) for example, own in zip(examples, grouped, strict=True)]
