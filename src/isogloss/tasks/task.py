"""A task is a record of functions: read, labels, encode, head, loss, guess, decode, score.

Whatever the task, the model runs over *items* and its head reads the states at some *places* of each:

    task      an item is                places are                          gold of a place (columns)
    NLI       a pair of sentences       the first token                     its label
    tagging   a sentence                the first subword of each word      its tag
    parsing   a sentence                the first token (as the root),      number of its head among the places, its
                                        the first subword of each word      relation; nothing at the root
    QA        a question and a window   the first token (for: not here),    1 where the answer begins, 1 where it ends,
              of its context            every token of the context          else 0

so freezing, caching, packing, batches and the loop know nothing of tasks, and a task nothing of them. An example (what
was read and is scored) may become several items, as the windows of a long context do.

    examples = task.read(path, "nl", labels=None, problem=fail)
    labels = task.labels(examples)                                   # of the training examples
    items = join_items(task.encode(examples, labels, tokenizer=tokenizer, length=128))
    head = task.head(width, labels)
    scores = head(states, present)                                   # states (rows, k, width), present (rows, k) bool
    task.loss(scores, gold, present)                                 # summed over targets
    task.guess(scores, present)                                      # still on the device, as small as it can be
    task.decode(example, found, labels)                              # an answer of the kind task.gold(example) gives
    task.score(examples, answers, language)                          # {"accuracy": Score, ...}
    task.shuffle(answers, generator)                                 # answers dealt out anew: scored, they are chance
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.measures.registry import MEASURES
from isogloss.measures.scores import Score
from isogloss.tasks.chance import Shuffle, shuffle_answers
from isogloss.tasks.segments import Segments
from isogloss.text.masking import IGNORE
from isogloss.text.readers.lines import Problem, Source, fail

__all__ = ["IGNORE", "Example", "Found", "Item", "Items", "Score", "Task", "chain_items", "join_items"]

Example = Any
"""What a task reads and scores: a frozen record of its own."""
Answer = Any
"""What is said of one example: a label, tags, a tree, a text."""
Labels = tuple[str, ...]
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Item:
    """One run of tokens, as a task encodes it.

    ids (tokens,): with special tokens. places (k,): which tokens the head reads. gold (k, c): what is right there,
    `IGNORE` where nothing is asked. units (k, u): what a place is of its example, for `decode` alone (the number of
    the word, the characters of the token). targets: how many losses it adds up. owner: the number of its example.
    types (tokens,): 0 and 1 for the first and second sentence, where the model's tokenizer tells them apart. lost:
    targets of the example that fell behind the model's length, or have no token.
    """

    ids: Sequence[int] | np.ndarray
    places: Sequence[int] | np.ndarray
    gold: Sequence[Sequence[int]] | np.ndarray
    units: Sequence[Sequence[int]] | np.ndarray
    targets: int
    owner: int
    types: Sequence[int] | np.ndarray | None = None
    lost: int = 0


@dataclass(frozen=True)
class Items:
    """Items end to end, as batches are made of them.

    ids, types (tokens,); lengths, counts, targets, owners (items,): tokens and places of each; places (all places,):
    numbered within their item; gold (all places, c); units (all places, u).
    """

    ids: np.ndarray
    types: np.ndarray
    lengths: np.ndarray
    places: np.ndarray
    counts: np.ndarray
    gold: np.ndarray
    units: np.ndarray
    targets: np.ndarray
    owners: np.ndarray
    lost: int

    def __len__(self) -> int:
        """Number of items."""
        return len(self.lengths)

    def take(self, numbers: np.ndarray) -> "Items":
        """The items of these numbers, in this order; what was lost is what was lost of all."""
        tokens, places = _numbers_within(self.lengths, numbers), _numbers_within(self.counts, numbers)
        return Items(
            self.ids[tokens], self.types[tokens], self.lengths[numbers], self.places[places], self.counts[numbers],
            self.gold[places], self.units[places], self.targets[numbers], self.owners[numbers], self.lost,
        )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What the model says of one item: its units (k, u), and its part of each of `guess`'s tensors, (k, ...).

    A second dimension over places, as of arcs, is still as wide as the batch was: only the first k are meant.
    """

    units: np.ndarray
    guess: tuple[np.ndarray, ...]


class Read(Protocol):
    """Read the examples of a file.

    labels: those of training, where a label that is not among them cannot be used; None for the training file itself.
    problem: given one sentence for each bad row, with file and line; where it returns, the row is left out.
    """

    def __call__(
        self, source: Source, language: str, *, labels: Labels | None = None, problem: Problem = fail
    ) -> list[Example]:
        """Examples in the order of the file."""
        ...


class Encode(Protocol):
    """Examples as items, in order; length: most tokens of an item, special ones counted."""

    def __call__(self, examples: Sequence[Example], labels: Labels, *, tokenizer: Any, length: int) -> list[Item]:
        """One item an example, or several; `owner` is the example's number in `examples`."""
        ...


@dataclass(frozen=True)
class Task:
    """What is trained in one language and tested in others.

    name: as in tables. main: the score that chooses and is compared between languages; its measure declares the
    direction. length: most tokens of an item unless told otherwise.

    read, encode: see `Read` and `Encode`. labels(examples): of the training examples, in a fixed order. head(width,
    labels): a module `(states (rows, k, width), present (rows, k) bool) -> tuple of tensors (rows, k, ...)`; where a
    row has fewer than k places, the rest is not present and its states are 0. loss(scores, gold (rows, k, c), present):
    summed over targets; gold is `IGNORE` where not present. guess(scores, present): what decoding needs of the scores,
    tensors (rows, k, ...), without gradients. decode(example, found of its items, labels): the answer. gold(example):
    the right answer, of the same kind. score(examples, answers, language): scores by name; given the gold answers each
    is perfect. shuffle: see `isogloss.tasks.chance`; what shuffled answers score is the task's floor. segments: see
    `isogloss.tasks.segments`, None where an example has no two.
    """

    name: str
    main: str
    read: Read
    labels: Callable[[Sequence[Example]], Labels]
    encode: Encode
    head: Callable[[int, Labels], nn.Module]
    loss: Callable[[Tensors, Tensor, Tensor], Tensor]
    guess: Callable[[Tensors, Tensor], Tensors]
    decode: Callable[[Example, Sequence[Found], Labels], Answer]
    gold: Callable[[Example], Answer]
    score: Callable[[Sequence[Example], Sequence[Answer], str], Mapping[str, Score]]
    length: int = 128
    shuffle: Shuffle = shuffle_answers
    segments: Segments | None = None

    @property
    def higher_is_better(self) -> bool:
        """The direction of the main score, as its measure declares it."""
        return MEASURES[self.main].higher_is_better


def join_items(items: Sequence[Item]) -> Items:
    """Items end to end.

    >>> both = join_items([Item([2, 7, 3], [0], [[1]], [[0]], 1, 0), Item([2, 8, 9, 3], [0], [[2]], [[0]], 1, 1)])
    >>> both.ids.tolist(), both.lengths.tolist(), both.gold.tolist()
    ([2, 7, 3, 2, 8, 9, 3], [3, 4], [[1], [2]])
    """
    if not items:
        raise InputError("there is no example to train on or to score")

    def flat(parts: Sequence[Any], kind: Any) -> np.ndarray:
        return np.concatenate([np.asarray(one, dtype=kind) for one in parts])

    def table(parts: Sequence[Any]) -> np.ndarray:
        width = max(np.asarray(one).reshape(len(one), -1).shape[1] if len(one) else 0 for one in parts)
        return flat([np.asarray(one, dtype=np.int64).reshape(len(one), width) for one in parts], np.int64)

    def each(values: Sequence[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    return Items(
        ids=flat([one.ids for one in items], np.int32),
        types=flat([np.zeros(len(one.ids)) if one.types is None else one.types for one in items], np.int8),
        lengths=each([len(one.ids) for one in items]),
        places=flat([one.places for one in items], np.int64),
        counts=each([len(one.places) for one in items]),
        gold=table([one.gold for one in items]),
        units=table([one.units for one in items]),
        targets=each([one.targets for one in items]),
        owners=each([one.owner for one in items]),
        lost=sum(one.lost for one in items),
    )


def chain_items(parts: Sequence[Items]) -> Items:
    """Items of several sets one after the other; owners are as they are."""
    columns = ("ids", "types", "lengths", "places", "counts", "gold", "units", "targets", "owners")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return Items(**joined, lost=sum(part.lost for part in parts))


def _numbers_within(sizes: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Numbers of the rows that belong to some items, end to end; sizes: how many rows each item has."""
    starts, some = np.cumsum(sizes) - sizes, sizes[chosen]
    before = np.cumsum(some) - some
    return np.asarray(np.repeat(starts[chosen] - before, some) + np.arange(int(some.sum())))
