"""Tagging words: parts of speech (POS) and named entities (NER), each word by its first subword.

A linear layer reads the first subword of every word; the other subwords are left out of the loss, as in Devlin et al.
(2019) and Muller et al. (2021). Words without a token (truncated, or of characters that the tokenizer drops) are not
trained on, and in a test they are tagged `X` or `O`, which counts as mostly wrong.

POS is scored by accuracy over words, NER by F1 of spans under the rules of `conlleval`, which reads a stray `I-X` as
the beginning of a span (`isogloss.measures.scores`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from isogloss.measures.scores import OUTSIDE, Score, f1, repair_bio, share, span_counts
from isogloss.tasks import task
from isogloss.tasks.task import Item, Labels, Prediction
from isogloss.text.readers.conll import UPOS, TaggedSentence, read_tagged
from isogloss.text.readers.lines import fail

OTHER = "X"  # the tag of a word without a token


def encode(examples: Sequence[TaggedSentence], labels: Labels, *, tokenizer: Any, length: int) -> list[Item]:
    """One item for each sentence; its units are the indices of the words at its places."""
    numbers = {label: number for number, label in enumerate(labels)}
    items = []
    encoded = task.encode_words([example.words for example in examples], tokenizer, length=length)
    for owner, (example, (ids, places)) in enumerate(zip(examples, encoded, strict=True)):
        words = [word for word, position in enumerate(places) if position >= 0]
        gold = [[numbers[example.tags[word]]] for word in words]
        units = [[word] for word in words]
        lost = len(places) - len(words)
        items.append(
            Item(
                ids,
                [places[word] for word in words],
                gold=gold,
                units=units,
                targets=len(words),
                owner=owner,
                lost=lost,
            )
        )
    return items


def decode(
    example: TaggedSentence, predictions: Sequence[Prediction], labels: Labels, *, absent: str = OTHER
) -> list[str]:
    """The best tag of every word, or `absent` if it has no token."""
    tags = [absent] * len(example.words)
    for prediction in predictions:
        for unit, label in zip(prediction.units[:, 0], prediction.guess[0], strict=True):
            tags[unit] = labels[label]
    return tags


def score_pos(
    examples: Sequence[TaggedSentence], answers: Sequence[Sequence[str]], language: str
) -> Mapping[str, Score]:
    """Accuracy; n counts words."""
    pairs = [(example.tags, answer) for example, answer in zip(examples, answers, strict=True)]
    rows = [(sum(map(str.__eq__, gold, answer_tags)), len(gold)) for gold, answer_tags in pairs]
    return {"accuracy": Score(np.array(rows, dtype=np.float64))}


def labels_ner(examples: Sequence[TaggedSentence]) -> Labels:
    """O, then B and I of every entity type, in alphabetical order."""
    types = sorted({tag[2:] for example in examples for tag in example.tags if tag != OUTSIDE})
    return (OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in "BI"))


def score_ner(
    examples: Sequence[TaggedSentence], answers: Sequence[Sequence[str]], language: str
) -> Mapping[str, Score]:
    """F1 of spans, precision and recall; n counts the gold spans, for precision the predicted ones."""
    counts = span_counts([example.tags for example in examples], list(map(repair_bio, answers)))  # (sentences, 3)
    rows = counts.astype(np.float64)
    precision, recall = Score(rows[:, [0, 1]], share), Score(rows[:, [0, 2]], share)
    return {"span_f1": Score(rows, f1), "span_precision": precision, "span_recall": recall}


POS = task.Task(
    name="pos",
    main="accuracy",
    read=lambda source, language, *, labels=None, problem=fail: read_tagged(source, problem, tags=UPOS, bio=False),
    labels=lambda _: UPOS,
    encode=encode,
    head=lambda width, labels: task.LabelHead(width, len(labels)),
    decode=decode,
    gold=lambda example: list(example.tags),
    score=score_pos,
    shuffle=task.shuffle_words,
)
NER = replace(
    POS,
    name="ner",
    main="span_f1",
    # Tags are O, B-type or I-type; in a test, of types that were trained.
    read=lambda source, language, *, labels=None, problem=fail: read_tagged(source, problem, tags=labels, bio=True),
    labels=labels_ner,
    decode=partial(decode, absent=OUTSIDE),
    score=score_ner,
)
