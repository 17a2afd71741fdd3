"""Natural language inference: whether the first sentence entails the second, contradicts it, or neither.

The pair is one item, `[CLS] premise [SEP] hypothesis [SEP]`, its head on the first token (Devlin et al. 2019; XNLI:
Conneau et al. 2018). Chance is a third where the labels are equally many, as they are in XNLI.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import nn

from isogloss.measures.counts import Score
from isogloss.tasks.heads import LabelHead, label_guess, label_loss
from isogloss.tasks.task import Found, Item, Labels, Task
from isogloss.text.readers.lines import Problem, Source, fail
from isogloss.text.readers.pairs import NLI as LABELS
from isogloss.text.readers.pairs import SentencePair, read_pairs


def read(source: Source, language: str, *, labels: Labels | None = None, problem: Problem = fail) -> list[SentencePair]:
    """Pairs of a file; a label other than the three is a problem."""
    return read_pairs(source, problem)


def encode(examples: Sequence[SentencePair], labels: Labels, *, tokenizer: Any, length: int) -> list[Item]:
    """One item a pair; where it is too long, the longer sentence is cut first."""
    encoded = tokenizer(
        [one.first for one in examples],
        [one.second for one in examples],
        truncation="longest_first",
        max_length=length,
        return_attention_mask=False,
        return_token_type_ids=True,
    )
    numbers = {label: number for number, label in enumerate(labels)}
    return [
        Item(ids, [0], [[numbers[one.label]]], [[0]], 1, owner, types)
        for owner, (one, ids, types) in enumerate(
            zip(examples, encoded["input_ids"], encoded["token_type_ids"], strict=True)
        )
    ]


def head(width: int, labels: Labels) -> nn.Module:
    """A dense layer with tanh, then the labels."""
    return LabelHead(width, len(labels), pooled=True)


def decode(example: SentencePair, found: Sequence[Found], labels: Labels) -> str:
    """The best label."""
    return labels[int(found[0].guess[0][0])]


def score(examples: Sequence[SentencePair], answers: Sequence[str], language: str) -> Mapping[str, Score]:
    """Accuracy; n counts pairs."""
    right = [one.label == answer for one, answer in zip(examples, answers, strict=True)]
    return {"accuracy": Score(np.array([[one, 1] for one in right], dtype=np.float64))}


NLI = Task(
    "nli", "accuracy", read, lambda _: LABELS, encode, head, label_loss, label_guess, decode,
    gold=lambda one: one.label, score=score,
)  # fmt: skip
