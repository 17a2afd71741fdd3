"""A task is a record of functions: read, labels, encode, head, loss, guess, decode, score.

For every task, the model runs over *items* and its head reads the states at some token positions (*places*) of each:

    task      an item is                places are                          gold of a place (columns)
    NLI       a pair of sentences       the first token, or all but the     its label, at the first place
                                        special ones
    tagging   a sentence                the first subword of each word      its tag
    parsing   a sentence                the first token (as the root),      number of its head among the places, its
                                        the first subword of each word      relation; nothing at the root
    QA        a question and a window   the first token (for: not here),    1 where the answer begins, 1 where it ends,
              of its context            every token of the context          else 0

so freezing, caching, packing, batching and the loop are independent of tasks. An example (what is read and scored) may
become several items, such as the windows of a long context. In a decoder, where a token attends only to earlier ones,
`read_at_ends` moves every place to the last token of the pair or word that it represents.

    examples = task.read(path, "nl", labels=None, problem=fail)
    labels = task.labels(examples)                                   # of the training examples
    items = join_items(task.encode(examples, labels, tokenizer=tokenizer, length=128))
    head = task.head(width, labels)
    scores = head(states, present)                                   # states (rows, k, width), present (rows, k) bool
    task.loss(scores, gold, present)                                 # summed over targets
    task.guess(scores, present)                                      # small tensors for decoding, on the device
    task.decode(example, predictions, labels)                        # an answer of the same type as task.gold(example)
    task.score(examples, answers, language)                          # {"accuracy": Score, ...}
    task.shuffle(answers, generator)                                 # shuffled answers, whose scores are the floor
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isogloss.errors import require
from isogloss.measures.registry import MEASURES
from isogloss.measures.scores import Score
from isogloss.seeds import seed_of
from isogloss.text.batches import Batch, encode, ranges
from isogloss.text.corpora import Corpus, Span
from isogloss.text.masking import IGNORE
from isogloss.text.readers.examples import FileRow
from isogloss.text.readers.lines import Problem, Source
from isogloss.text.switching import Switched

DRAWS = 5  # shuffles of the answers, for a chance floor
DROPOUT = 0.1  # of heads, as in BERT
SPREAD = 0.02  # standard deviation of initial weights, as in BERT


@dataclass(frozen=True)
class Segments:
    """The two text segments of a task's examples, for code-switching.

        NLI   a premise and a hypothesis, either of which may be taken from a translation of the pair
        QA    a question, which may be taken from a translation, and its context, which may not: it has the answer

    A row of a file and its translation are matched by their position in their files, or by the name of the row (the id
    of a question). Labels never change.

    names: the fields of an example that are its segments. switched: indices of those that may come from a translation.
    rows(file, problem): every row of a file, in order. answers: whether the second segment has `answers`, which begin
    at `starts`, and are never changed. labelled: whether an example has a `label`, which its translation shares.
    """

    names: tuple[str, str]
    switched: tuple[int, ...]
    rows: Callable[[Source, Problem], Iterator[FileRow]]
    answers: bool = False
    labelled: bool = False

    def texts(self, example: Any) -> list[tuple[str, Sequence[Span]]]:
        """Each segment and its spans in which no word may be replaced."""
        first, second = (getattr(example, name) for name in self.names)
        fixed = zip(example.starts, example.answers, strict=True) if self.answers else ()
        return [(first, ()), (second, [(start, start + len(text)) for start, text in fixed])]

    def rebuild(self, example: Any, texts: Sequence[Switched]) -> Any:
        """Return the example with other texts; the starts of answers are adjusted."""
        changed: dict[str, Any] = {name: text.text for name, text in zip(self.names, texts, strict=True)}
        if self.answers:
            changed["starts"] = tuple(texts[1].moved(start) for start in example.starts)
        return replace(example, **changed)

    def swap(self, example: Any, translation: Any, segment: int) -> Any:
        """Return the example with one segment taken from its translation."""
        return replace(example, **{self.names[segment]: getattr(translation, self.names[segment])})

    def differ(self, example: Any, translation: Any) -> str:
        """The reason why the two cannot be translations of each other, or ""."""
        if self.labelled and example.label != translation.label:
            return f"the label is {translation.label!r}, and {example.label!r}"
        return ""


Example = Any
"""What a task reads and scores: a frozen record of its own."""
Answer = Any
"""The prediction for one example: a label, tags, a tree, a text."""
Labels = tuple[str, ...]
Tensors = tuple[Tensor, ...]


def shuffle_answers(answers: Sequence[Any], generator: np.random.Generator) -> list[Any]:
    """Return the answers in random order; one may stay with its own example.

    >>> sorted(shuffle_answers(["yes", "no", "no"], np.random.default_rng(0)))
    ['no', 'no', 'yes']
    """
    return [answers[number] for number in generator.permutation(len(answers))]


def shuffle_words(answers: Sequence[Sequence[Any]], generator: np.random.Generator) -> list[list[Any]]:
    """Shuffle the answers of words over all sentences; sentences keep their lengths.

    >>> [len(one) for one in shuffle_words([["DET", "NOUN"], ["VERB"]], np.random.default_rng(0))]
    [2, 1]
    """
    dealt = iter(shuffle_answers([answer for sentence in answers for answer in sentence], generator))
    return [[next(dealt) for _ in sentence] for sentence in answers]


@dataclass(frozen=True)
class Item:
    """One token sequence, as a task encodes it.

    ids (tokens,): including special tokens. places (k,): positions of the tokens that the head reads. gold (k, c): the
    gold labels there, `IGNORE` for none. units (k, u): what a place represents in its example, for `decode` alone (the
    index of the word, the characters of the token). targets: the number of its losses. owner: the index of its example.
    types (tokens,): 0 and 1 for the first and second sentence, if the model's tokenizer distinguishes them. lost:
    targets of the example that were truncated or have no token.
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
    """Concatenated items, from which batches are made.

    ids, types (tokens,); lengths, counts, targets, owners (items,): tokens and places of each; places (all places,):
    positions within their item; gold (all places, c); units (all places, u).
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

    def tokens(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Indices of the tokens of the selected items, in this order, (tokens,)."""
        return ranges((np.cumsum(self.lengths) - self.lengths)[numbers], self.lengths[numbers])

    def take(self, numbers: np.ndarray) -> "Items":
        """The selected items, in this order; `lost` remains the count of all items."""
        tokens = self.tokens(numbers)
        places = ranges((np.cumsum(self.counts) - self.counts)[numbers], self.counts[numbers])
        chosen = {"ids": tokens, "types": tokens, "places": places, "gold": places, "units": places}
        return replace(self, **{name: getattr(self, name)[chosen.get(name, numbers)] for name in COLUMNS})

    def batch(self, numbers: np.ndarray, device: torch.device) -> Batch:
        """The tokens of the selected items, concatenated in this order, without the masks of words and content."""
        tokens, none = self.tokens(numbers), torch.zeros(0, dtype=torch.long)
        ids, types = (torch.from_numpy(array[tokens].astype(np.int64)) for array in (self.ids, self.types))
        lengths, rows = torch.from_numpy(self.lengths[numbers]), torch.from_numpy(numbers)
        parts = (ids, lengths, none.bool(), none, rows, none.bool(), types)
        return Batch(*(part.to(device, non_blocking=True) for part in parts))


COLUMNS = tuple(column.name for column in fields(Items) if column.name != "lost")


@dataclass(frozen=True)
class Prediction:
    """The model's output for one item: its units (k, u), and its part of each tensor of `guess`, (k, ...).

    A second dimension over places, as that of arcs in parsing, is padded to the longest item of the batch: only its
    first k columns are valid.
    """

    units: np.ndarray
    guess: tuple[np.ndarray, ...]


Read = Callable[..., list[Example]]
"""read(source, language, *, labels=None, problem=fail): the examples of a file, in its order.

labels: the training labels, if other labels cannot be used; None for the training file itself. problem: called with a
sentence for each bad row, with file and line; if it returns, the row is left out.
"""
Encode = Callable[..., list[Item]]
"""encode(examples, labels, *, tokenizer, length): examples as items, in order, one or several for each example.

length: maximum tokens of an item, including special ones. An item's `owner` is the example's index in `examples`.
"""


def label_loss(scores: Tensors, gold: Tensor, present: Tensor) -> Tensor:
    """Cross entropy of the gold labels (first column of gold), in nats, summed."""
    return cross_entropy(scores[0].flatten(0, 1), gold[..., 0].flatten(), ignore_index=IGNORE, reduction="sum")


def label_guess(scores: Tensors, present: Tensor) -> Tensors:
    """The index of the best label at each place, (rows, k)."""
    return (scores[0].argmax(-1),)


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, trained in one language and tested in others.

    Args:
        name: the task in tables.
        main: the score that selects the best model and compares languages; its measure declares the direction.
        read: the examples of a file, see `Read`.
        labels: `labels(examples)`, the labels of the training examples in a fixed order.
        encode: examples as items, see `Encode`.
        head: `head(width, labels)`, a module that maps states (rows, k, width) and present (rows, k) bool to a tuple of
            tensors (rows, k, ...). If a row has fewer than k places, the rest is not present and its states are 0.
        loss: `loss(scores, gold, present)`, summed over targets; gold (rows, k, c) is `IGNORE` where not present.
        guess: `guess(scores, present)`, the input of decoding: tensors (rows, k, ...), without gradients.
        decode: `decode(example, predictions, labels)`, the answer, from the predictions of the example's items.
        gold: `gold(example)`, the right answer, of the same type.
        score: `score(examples, answers, language)`, scores by name; each is perfect for the gold answers.
        length: default maximum tokens of an item.
        shuffle: `shuffle(answers, generator)`, the answers shuffled; their scores are the task's floor. See
            `shuffle_answers`.
        segments: the two texts of an example, None if it does not have two. See `Segments`.
        first_token: whether the head reads the first token beside others; in a decoder it has no context, so that only
            encoders can learn the task.
    """

    name: str
    main: str
    read: Read
    labels: Callable[[Sequence[Example]], Labels]
    encode: Encode
    head: Callable[[int, Labels], nn.Module]
    loss: Callable[[Tensors, Tensor, Tensor], Tensor] = label_loss
    guess: Callable[[Tensors, Tensor], Tensors] = label_guess
    decode: Callable[[Example, Sequence[Prediction], Labels], Answer]
    gold: Callable[[Example], Answer]
    score: Callable[[Sequence[Example], Sequence[Answer], str], Mapping[str, Score]]
    length: int = 128
    shuffle: Callable[[Sequence[Answer], np.random.Generator], list[Any]] = shuffle_answers
    segments: Segments | None = None
    first_token: bool = False

    @property
    def higher_is_better(self) -> bool:
        """The direction of the main score, as its measure declares it."""
        return bool(MEASURES[self.main].higher_is_better)


def chance_floors(
    task: Any, examples: Sequence[Any], answers: Sequence[Any], language: str, *, name: str = ""
) -> dict[str, float]:
    """Chance floors of the scores: the mean scores of the model's own answers in random order.

    A floor is measured, not assumed: a third is chance in NLI only if the model predicts each label equally often and
    the labels are balanced. Answers are shuffled among examples, or among words if every word has one, so that each
    occurs as often as before and is independent of its example. The language and the name of the set seed the draws.
    """
    generator = np.random.default_rng(seed_of(0, "chance", language, name))
    scores = [task.score(examples, task.shuffle(answers, generator), language) for _ in range(DRAWS)]
    return {key: float(np.mean([score[key].value for score in scores])) for key in scores[0]}


def join_items(items: Sequence[Item]) -> Items:
    """Concatenate items.

    >>> both = join_items([Item([2, 7, 3], [0], [[1]], [[0]], 1, 0), Item([2, 8, 9, 3], [0], [[2]], [[0]], 1, 1)])
    >>> both.ids.tolist(), both.lengths.tolist(), both.gold.tolist()
    ([2, 7, 3, 2, 8, 9, 3], [3, 4], [[1], [2]])
    """
    require(items, "there is no example to train on or to score")

    def flat(parts: Iterable[Any], kind: Any = np.int64) -> np.ndarray:
        return np.concatenate([np.asarray(part, dtype=kind) for part in parts])

    def table(parts: Sequence[Any]) -> np.ndarray:
        width = max(np.asarray(part).reshape(len(part), -1).shape[1] if len(part) else 0 for part in parts)
        return flat(np.asarray(part).reshape(len(part), width) for part in parts)

    return Items(
        ids=flat((item.ids for item in items), np.int32),
        types=flat((np.zeros(len(item.ids)) if item.types is None else item.types for item in items), np.int8),
        lengths=np.array([len(item.ids) for item in items]),
        places=flat(item.places for item in items),
        counts=np.array([len(item.places) for item in items]),
        gold=table([item.gold for item in items]),
        units=table([item.units for item in items]),
        targets=np.array([item.targets for item in items]),
        owners=np.array([item.owner for item in items]),
        lost=sum(item.lost for item in items),
    )


def chain_items(parts: Sequence[Items]) -> Items:
    """Concatenate several sets of items; owners are unchanged."""
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return Items(**joined, lost=sum(part.lost for part in parts))


def read_at_ends(items: Items, marks: Sequence[int]) -> Items:
    """Items for a decoder: each place moves to the last content token before the next place, or of the item.

    So the head of NLI reads a pair at its last token, and a word at its last subword. marks: ids of special tokens.

    >>> pair = Item([2, 7, 8, 3], [0], [[1]], [[0]], 1, 0)
    >>> words = Item([2, 7, 8, 9, 3], [1, 3], [[1], [0]], [[0], [1]], 2, 1)
    >>> read_at_ends(join_items([pair, words]), [2, 3]).places.tolist()
    [2, 2, 3]
    """
    begins = np.cumsum(items.lengths) - items.lengths
    owners = np.repeat(np.arange(len(items)), items.counts)  # the item of each place
    places = begins[owners] + items.places  # indices into all tokens
    last = np.append(places[1:], 0) - 1
    asked = items.counts > 0
    last[np.cumsum(items.counts)[asked] - 1] = (begins + items.lengths - 1)[asked]
    numbers = np.arange(len(items.ids))
    content = np.maximum.accumulate(np.where(np.isin(items.ids, marks), 0, numbers))  # the last content token so far
    return replace(items, places=np.maximum(places, content[last]) - begins[owners])


def before_second(texts: Sequence[str], tokenizer: Any) -> list[str]:
    """The first segments of pairs, each with a line break if the tokenizer puts nothing between the two."""
    apart = tokenizer.num_special_tokens_to_add(pair=True) > tokenizer.num_special_tokens_to_add(pair=False)
    return [text if apart else f"{text}\n" for text in texts]


class LabelHead(nn.Module):
    """Label logits at every place: dropout and a linear layer, with `pooled` a dense layer and tanh before it.

    states (rows, k, width) -> one tensor, (rows, k, labels). mean: classify the mean of a row's states, with the same
    logits at every place.
    """

    def __init__(self, width: int, labels: int, *, pooled: bool = False, mean: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.dropout = nn.Dropout(DROPOUT)
        self.dense = nn.Linear(width, width) if pooled else None
        self.out = nn.Linear(width, labels)
        for layer in (self.dense, self.out):
            if layer is not None:
                nn.init.normal_(layer.weight, std=SPREAD)
                nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, present: Tensor) -> Tensors:
        """Logits of each label."""
        places = states.shape[1]
        if self.mean:  # states of missing places are 0
            counts = present.sum(dim=1).clamp(min=1)[:, None, None]
            states = states.sum(dim=1, keepdim=True) / counts  # (rows, 1, width)
        states = self.dropout(states)
        if self.dense is not None:
            states = self.dropout(torch.tanh(self.dense(states)))
        scores = self.out(states)
        return (scores.expand(-1, places, -1) if self.mean else scores,)


def encode_words(
    sentences: Sequence[Sequence[str]], tokenizer: Any, *, length: int
) -> list[tuple[list[int], list[int]]]:
    """Token ids of each sentence, with special tokens, and for each of its words the position of its first subword.

    Tagging and parsing use the words of an annotated file. The input of the model is their forms joined by spaces (as
    in XTREME and Muller et al. 2021), not the original sentence: the two words of French `aux`, `à` and `les`, then
    have tokens of their own. Words and subwords are matched by characters, so any fast tokenizer can be used.

    The position is -1 if a word has no token: truncated at `length`, or of characters that the tokenizer drops.

    >>> encode_words([["The", "cats"]], tokenizer, length=128)  # doctest: +SKIP
    [([2, 187, 4211, 88, 3], [1, 2])]
    """
    spans = []
    for words in sentences:
        ends = accumulate(len(word) + 1 for word in words)  # where each word ends, with the space after it
        spans.append([(end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True)])
    corpus = Corpus("", [" ".join(words) for words in sentences], spans)
    batch = encode(tokenizer, corpus, range(len(corpus)), max_length=length, words=True)
    sides = (torch.split(part, batch.lengths.tolist()) for part in (batch.ids, batch.words))
    encodings = []
    for words, ids, owners in zip(sentences, *sides, strict=True):
        first = {owner: token for token, owner in reversed([*enumerate(owners.tolist())])}
        encodings.append((ids.tolist(), [first.get(word, -1) for word in range(len(words))]))
    return encodings
