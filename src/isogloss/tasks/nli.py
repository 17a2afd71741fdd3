"""Natural language inference: whether the first sentence entails the second, contradicts it, or neither.

The pair is one item, `[CLS] premise [SEP] hypothesis [SEP]`, its head on the first token (Devlin et al. 2019; XNLI:
Conneau et al. 2018). Chance is a third where the labels are equally many, as they are in XNLI.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from isogloss.measures.scores import Score
from isogloss.tasks.task import Item, LabelHead, Labels, Segments, Task, before_second
from isogloss.text.readers.examples import NLI as LABELS, SentencePair, pair_rows, read_pairs
from isogloss.text.readers.lines import fail


def encode(examples: Sequence[SentencePair], labels: Labels, *, tokenizer: Any, length: int) -> list[Item]:
    """One item a pair; where it is too long, the longer sentence is cut first."""
    encoded = tokenizer(
        before_second([example.first for example in examples], tokenizer),
        [example.second for example in examples],
        truncation="longest_first",
        max_length=length,
        return_attention_mask=False,
        return_token_type_ids=True,
    )
    numbers = {label: number for number, label in enumerate(labels)}
    return [
        Item(ids, [0], [[numbers[example.label]]], [[0]], 1, owner, types)
        for owner, (example, ids, types) in enumerate(
            zip(examples, encoded["input_ids"], encoded["token_type_ids"], strict=True)
        )
    ]


def score(examples: Sequence[SentencePair], answers: Sequence[str], language: str) -> Mapping[str, Score]:
    """Accuracy; n counts pairs."""
    right = [example.label == answer for example, answer in zip(examples, answers, strict=True)]
    return {"accuracy": Score(np.array([[correct, 1] for correct in right], dtype=np.float64))}


NLI = Task(
    name="nli",
    main="accuracy",
    read=lambda source, language, *, labels=None, problem=fail: read_pairs(source, problem),
    labels=lambda _: LABELS,
    encode=encode,
    head=lambda width, labels: LabelHead(width, len(labels), pooled=True),
    decode=lambda example, predictions, labels: labels[int(predictions[0].guess[0][0])],
    gold=lambda example: example.label,
    score=score,
    segments=Segments(("first", "second"), switched=(0, 1), rows=pair_rows, labelled=True),
)
