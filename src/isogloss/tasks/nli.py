"""Natural language inference: whether the first sentence entails the second, contradicts it, or neither.

The pair is one item, `[CLS] premise [SEP] hypothesis [SEP]`, with the head on the first token (Devlin et al. 2019;
XNLI: Conneau et al. 2018). Chance is a third if the labels are balanced, as in XNLI. `nli-mean` is the same task with
the head on the mean of all content tokens, for models whose first token was never trained to represent the text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from isogloss.measures.scores import Score
from isogloss.tasks.task import Item, LabelHead, Labels, Segments, Task, before_second
from isogloss.text.masking import IGNORE
from isogloss.text.readers.examples import NLI as LABELS, SentencePair, pair_rows, read_pairs
from isogloss.text.readers.lines import fail


def encode(
    examples: Sequence[SentencePair], labels: Labels, *, tokenizer: Any, length: int, mean: bool = False
) -> list[Item]:
    """One item for each pair; if it is too long, the longer sentence is truncated first.

    mean: whether the head reads all content tokens; the first of them has the label.
    """
    encoded = tokenizer(
        before_second([example.first for example in examples], tokenizer),
        [example.second for example in examples],
        truncation="longest_first",
        max_length=length,
        return_attention_mask=False,
        return_token_type_ids=True,
        return_special_tokens_mask=True,
    )
    numbers, items = {label: number for number, label in enumerate(labels)}, []
    columns = (encoded[name] for name in ("input_ids", "token_type_ids", "special_tokens_mask"))
    for owner, (example, ids, types, special) in enumerate(zip(examples, *columns, strict=True)):
        content = [place for place, marked in enumerate(special) if not marked] if mean else []
        places = content or [0]
        gold = [[numbers[example.label]], *[[IGNORE]] * (len(places) - 1)]
        items.append(Item(ids, places, gold=gold, units=[[0]] * len(places), targets=1, owner=owner, types=types))
    return items


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

NLI_MEAN = replace(
    NLI,
    name="nli-mean",
    encode=partial(encode, mean=True),
    head=lambda width, labels: LabelHead(width, len(labels), pooled=True, mean=True),
)
