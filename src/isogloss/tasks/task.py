"""A task is a record of functions: read, labels, encode, head, loss, guess, decode, score.

Whatever the task, the model runs over *items* and its head reads the states at some *places* of each:

    task      an item is                places are                          gold of a place (columns)
    NLI       a pair of sentences       the first token, or all but the     its label, at the first place
                                        special ones
    tagging   a sentence                the first subword of each word      its tag
    parsing   a sentence                the first token (as the root),      number of its head among the places, its
                                        the first subword of each word      relation; nothing at the root
    QA        a question and a window   the first token (for: not here),    1 where the answer begins, 1 where it ends,
              of its context            every token of the context          else 0

so freezing, caching, packing, batches and the loop know nothing of tasks, and a task nothing of them. An example (what
was read and is scored) may become several items, as the windows of a long context do. In a decoder, where a token sees
only those before it, `read_at_ends` moves every place to the end of what it stands for: the pair, the word.

    examples = task.read(path, "nl", labels=None, problem=fail)
    labels = task.labels(examples)                                   # of the training examples
    items = join_items(task.encode(examples, labels, tokenizer=tokenizer, length=128))
    head = task.head(width, labels)
    scores = head(states, present)                                   # states (rows, k, width), present (rows, k) bool
    task.loss(scores, gold, present)                                 # summed over targets
    task.guess(scores, present)                                      # still on the device, as small as it can be
    task.decode(example, predictions, labels)                        # an answer of the kind task.gold(example) gives
    task.score(examples, answers, language)                          # {"accuracy": Score, ...}
    task.shuffle(answers, generator)                                 # answers dealt out anew: scored, they are chance
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

DRAWS = 5  # of shuffled answers, for a chance floor
DROPOUT = 0.1  # of heads, as in BERT's own
SPREAD = 0.02  # standard deviation of fresh weights, as BERT draws them


@dataclass(frozen=True)
class Segments:
    """How the examples of a task fall into two segments of text: what code-switching needs to know of a task.

        NLI   a premise and a hypothesis, either of which may be taken from a translation of the pair
        QA    a question, which may be taken from a translation, and its context, which may not: it has the answer

    A row of a file and its translation are found by their position in their files, or by the name the row has in it
    (the id of a question). Labels never change.

    names: the fields of an example that are its segments. switched: numbers of those that may come from a translation.
    rows(file, problem): every row of a file, in order. answers: whether the second segment has `answers`, which begin
    at `starts`, and stay word for word. labelled: whether an example has a `label`, which a translation has, too.
    """

    names: tuple[str, str]
    switched: tuple[int, ...]
    rows: Callable[[Source, Problem], Iterator[FileRow]]
    answers: bool = False
    labelled: bool = False

    def texts(self, example: Any) -> list[tuple[str, Sequence[Span]]]:
        """Each segment and the spans in it where no word may be replaced."""
        first, second = (getattr(example, name) for name in self.names)
        fixed = zip(example.starts, example.answers, strict=True) if self.answers else ()
        return [(first, ()), (second, [(start, start + len(text)) for start, text in fixed])]

    def rebuild(self, example: Any, texts: Sequence[Switched]) -> Any:
        """The example with other texts; answers move with the text before them."""
        changed: dict[str, Any] = {name: text.text for name, text in zip(self.names, texts, strict=True)}
        if self.answers:
            changed["starts"] = tuple(texts[1].moved(start) for start in example.starts)
        return replace(example, **changed)

    def swap(self, example: Any, translation: Any, segment: int) -> Any:
        """The example with one segment of its translation."""
        return replace(example, **{self.names[segment]: getattr(translation, self.names[segment])})

    def differ(self, example: Any, translation: Any) -> str:
        """Why the two cannot be translations of each other, "" where they can."""
        if self.labelled and example.label != translation.label:
            return f"the label is {translation.label!r}, and {example.label!r}"
        return ""


Example = Any
"""What a task reads and scores: a frozen record of its own."""
Answer = Any
"""What is said of one example: a label, tags, a tree, a text."""
Labels = tuple[str, ...]
Tensors = tuple[Tensor, ...]


def shuffle_answers(answers: Sequence[Any], generator: np.random.Generator) -> list[Any]:
    """The answers in random order; one may stay with its own example.

    >>> sorted(shuffle_answers(["yes", "no", "no"], np.random.default_rng(0)))
    ['no', 'no', 'yes']
    """
    return [answers[number] for number in generator.permutation(len(answers))]


def shuffle_words(answers: Sequence[Sequence[Any]], generator: np.random.Generator) -> list[list[Any]]:
    """Answers of words to other words, of any sentence; sentences keep their lengths.

    >>> [len(one) for one in shuffle_words([["DET", "NOUN"], ["VERB"]], np.random.default_rng(0))]
    [2, 1]
    """
    dealt = iter(shuffle_answers([answer for sentence in answers for answer in sentence], generator))
    return [[next(dealt) for _ in sentence] for sentence in answers]


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

    def tokens(self, numbers: Sequence[int] | np.ndarray) -> np.ndarray:
        """Where the tokens of some items lie, in this order, (tokens,)."""
        return ranges((np.cumsum(self.lengths) - self.lengths)[numbers], self.lengths[numbers])

    def take(self, numbers: np.ndarray) -> "Items":
        """The items of these numbers, in this order; `lost` stays the count of all items."""
        tokens = self.tokens(numbers)
        places = ranges((np.cumsum(self.counts) - self.counts)[numbers], self.counts[numbers])
        chosen = {"ids": tokens, "types": tokens, "places": places, "gold": places, "units": places}
        return replace(self, **{name: getattr(self, name)[chosen.get(name, numbers)] for name in COLUMNS})

    def batch(self, numbers: np.ndarray, device: torch.device) -> Batch:
        """The tokens of some items, end to end, in this order, without the masks of words and content."""
        tokens, none = self.tokens(numbers), torch.zeros(0, dtype=torch.long)
        ids, types = (torch.from_numpy(array[tokens].astype(np.int64)) for array in (self.ids, self.types))
        lengths, rows = torch.from_numpy(self.lengths[numbers]), torch.from_numpy(numbers)
        parts = (ids, lengths, none.bool(), none, rows, none.bool(), types)
        return Batch(*(part.to(device, non_blocking=True) for part in parts))


COLUMNS = tuple(column.name for column in fields(Items) if column.name != "lost")


@dataclass(frozen=True)
class Prediction:
    """What the model says of one item: its units (k, u), and its part of each of `guess`'s tensors, (k, ...).

    A second dimension over places, as that of arcs in parsing, is as wide as the longest item of the batch: only its
    first k columns count.
    """

    units: np.ndarray
    guess: tuple[np.ndarray, ...]


Read = Callable[..., list[Example]]
"""read(source, language, *, labels=None, problem=fail): the examples of a file, in its order.

labels: those of training, where a label that is not among them cannot be used; None for the training file itself.
problem: given one sentence for each bad row, with file and line; where it returns, the row is left out.
"""
Encode = Callable[..., list[Item]]
"""encode(examples, labels, *, tokenizer, length): examples as items, in order, one an example or several.

length: most tokens of an item, special ones counted. An item's `owner` is the example's number in `examples`.
"""


def label_loss(scores: Tensors, gold: Tensor, present: Tensor) -> Tensor:
    """Cross entropy of the gold labels (first column of gold), in nats, summed."""
    return cross_entropy(scores[0].flatten(0, 1), gold[..., 0].flatten(), ignore_index=IGNORE, reduction="sum")


def label_guess(scores: Tensors, present: Tensor) -> Tensors:
    """The number of the best label at each place, (rows, k)."""
    return (scores[0].argmax(-1),)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is trained in one language and tested in others.

    Args:
        name: the task in tables.
        main: the score that selects the best model and compares languages; its measure declares the direction.
        read: the examples of a file, see `Read`.
        labels: `labels(examples)`, the labels of the training examples in a fixed order.
        encode: examples as items, see `Encode`.
        head: `head(width, labels)`, a module that takes states (rows, k, width) and present (rows, k) bool to a tuple
            of tensors (rows, k, ...). Where a row has fewer than k places, the rest is not present, its states are 0.
        loss: `loss(scores, gold, present)`, summed over targets; gold (rows, k, c) is `IGNORE` where not present.
        guess: `guess(scores, present)`, what decoding needs of the scores: tensors (rows, k, ...), without gradients.
        decode: `decode(example, predictions, labels)`, the answer, from the predictions of the example's items.
        gold: `gold(example)`, the right answer, of the same kind.
        score: `score(examples, answers, language)`, scores by name; given the gold answers each is perfect.
        length: most tokens of an item unless another length is given.
        shuffle: `shuffle(answers, generator)`, as many answers of the same kind, dealt out anew; what they score is the
            task's floor. See `shuffle_answers`.
        segments: the two texts of an example, None where it has no two. See `Segments`.
        first_token: whether the first token is asked for beside others; in a decoder it has seen nothing, so that only
            encoders learn the task.
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
    task: Any, examples: Sequence[Any], answers: Sequence[Any], language: str, *, name: str = "", draws: int = DRAWS
) -> dict[str, float]:
    """What guessing scores: the mean score of a model's own answers in random order.

    A floor is measured, not assumed: a third is chance in NLI only where a model gives each label equally often and the
    labels are equally many. Answers are dealt out anew at random, whole where an example has one, word by word where
    every word has one, so that each is given as often as before and nothing ties it to its example any more. The
    language and the name of the set decide the draws.
    """
    generator = np.random.default_rng(seed_of(0, "chance", language, name))
    scores = [task.score(examples, task.shuffle(answers, generator), language) for _ in range(draws)]
    return {key: float(np.mean([score[key].value for score in scores])) for key in scores[0]}


def join_items(items: Sequence[Item]) -> Items:
    """Items end to end.

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
    """Items of several sets one after the other; owners are as they are."""
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    return Items(**joined, lost=sum(part.lost for part in parts))


def read_at_ends(items: Items, marks: Sequence[int]) -> Items:
    """Items for a decoder: each place moves to the last token before the next place, or of the item, that is no mark.

    So the head of NLI reads a pair at its last token, and a word is read at its last subword. marks: ids of special
    tokens.

    >>> pair = Item([2, 7, 8, 3], [0], [[1]], [[0]], 1, 0)
    >>> words = Item([2, 7, 8, 9, 3], [1, 3], [[1], [0]], [[0], [1]], 2, 1)
    >>> read_at_ends(join_items([pair, words]), [2, 3]).places.tolist()
    [2, 2, 3]
    """
    begins = np.cumsum(items.lengths) - items.lengths
    owners = np.repeat(np.arange(len(items)), items.counts)  # the item of each place
    places = begins[owners] + items.places  # among all tokens
    last = np.append(places[1:], 0) - 1
    asked = items.counts > 0
    last[np.cumsum(items.counts)[asked] - 1] = (begins + items.lengths - 1)[asked]
    numbers = np.arange(len(items.ids))
    content = np.maximum.accumulate(np.where(np.isin(items.ids, marks), 0, numbers))  # the last token that is no mark
    return replace(items, places=np.maximum(places, content[last]) - begins[owners])


def before_second(texts: Sequence[str], tokenizer: Any) -> list[str]:
    """The first segments of pairs, each with a line break where a tokenizer puts nothing between the two."""
    apart = tokenizer.num_special_tokens_to_add(pair=True) > tokenizer.num_special_tokens_to_add(pair=False)
    return [text if apart else f"{text}\n" for text in texts]


class LabelHead(nn.Module):
    """Scores of labels at every place: dropout and a linear layer, with `pooled` a dense layer and tanh before it.

    states (rows, k, width) -> one tensor, (rows, k, labels). mean: score the mean of a row's states, alike at every
    place.
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
        """Scores of each label before any softmax."""
        places = states.shape[1]
        if self.mean:  # states are 0 where a row has no place
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
    """Token ids of each sentence, with special tokens, and for each of its words the place of its first subword.

    Tagging and parsing ask about words that somebody else cut. What the model is given is their forms with a space
    between (as XTREME and Muller et al. 2021 do), not the sentence as written: the two words of French `aux`, `à` and
    `les`, then have tokens of their own. A word meets its subwords through characters, so any fast tokenizer will do.

    The place is -1 where a word has no token: behind the cut at `length` tokens, or of characters the tokenizer drops.

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
