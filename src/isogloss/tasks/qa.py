"""Extractive question answering: the answer is a span of a text, predicted by its first and last token.

A question and its text are one item, `[CLS] question [SEP] context [SEP]`. A context that is too long is cut into
windows that overlap by `STRIDE` tokens, so that an answer at a border is complete in one of them (Devlin et al. 2019).
The head scores every token of the context as the start and as the end; the first token means "not in this window", and
is the target of windows without the answer. Loss: the mean of the two cross entropies, over the places of the window.
Answer: the span of at most `LONGEST` tokens, over all windows, with the highest

    log p(start | window) + log p(end | window)

"Not in this window" is never an answer.

Scored by exact match and F1 with the normalisation of the language (`isogloss.measures.scores`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from isogloss.errors import require
from isogloss.measures.scores import Score, answer_f1, exact_match
from isogloss.tasks.task import Item, LabelHead, Labels, Prediction, Segments, Task, Tensors, before_second
from isogloss.text.batches import refuse_slow
from isogloss.text.languages import plain
from isogloss.text.masking import IGNORE
from isogloss.text.readers.examples import Question, question_rows, read_questions
from isogloss.text.readers.lines import fail

STRIDE = 128  # tokens that neighbouring windows share, at most half of a window's context
QUESTION = 64  # tokens of a question, at most a third of the item
LONGEST = 30  # tokens of an answer


def encode(examples: Sequence[Question], labels: Labels, *, tokenizer: Any, length: int) -> list[Item]:
    """The windows of each question, in order; units are the character spans of the context's tokens."""
    refuse_slow(tokenizer)
    most = min(QUESTION, length // 3)  # tokens of a question
    room = length - most - tokenizer.num_special_tokens_to_add(pair=True)
    require(room >= 2, f"a window of {length} tokens leaves no room for a question and its context; give more")
    items: list[Item] = []
    questions = [example.question for example in examples]
    plain = tokenizer(questions, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    for number, offsets in enumerate(plain["offset_mapping"]):
        if len(offsets) > most:
            questions[number] = questions[number][: offsets[most - 1][1]]
    encoded = tokenizer(
        before_second(questions, tokenizer),
        [example.context for example in examples],
        truncation="only_second",
        max_length=length,
        stride=min(STRIDE, room // 2),
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_attention_mask=False,
        return_token_type_ids=True,
    )
    owners, complete = encoded["overflow_to_sample_mapping"], [False] * len(examples)
    for number, owner in enumerate(owners):
        tokens = np.flatnonzero([side == 1 for side in encoded.sequence_ids(number)])
        units = np.array(encoded["offset_mapping"][number], dtype=int)[tokens]  # (tokens, 2)
        begins, ends = number == 0 or owners[number - 1] != owner, owners[number + 1 : number + 2] != [owner]
        first = examples[owner].starts[0]
        stop = first + len(examples[owner].answers[0])
        inside = np.flatnonzero((units[:, 0] < stop) & (units[:, 1] > first) & (units[:, 1] > units[:, 0])) + 1
        # An answer that continues in a neighbouring window does not count as in this one.
        whole = len(inside) > 0 and (begins or units[0, 0] <= first) and (ends or units[-1, 1] >= stop)
        complete[owner] = complete[owner] or bool(whole)
        gold = np.zeros((len(tokens) + 1, 2), dtype=np.int64)
        gold[inside[0] if whole else 0, 0] = 1
        gold[inside[-1] if whole else 0, 1] = 1
        ids, types = encoded["input_ids"][number], encoded["token_type_ids"][number]
        places, lost = np.concatenate([[0], tokens]), int(ends and not complete[owner])
        all_units = np.concatenate([[[0, 0]], units])
        items.append(Item(ids, places, gold=gold, units=all_units, targets=1, owner=owner, types=types, lost=lost))
    return items


def loss(scores: Tensors, gold: Tensor, present: Tensor) -> Tensor:
    """Mean of the cross entropies of the gold start and the gold end, summed over windows."""
    table = scores[0].masked_fill(~present.unsqueeze(-1), -torch.inf)  # (rows, k, 2)
    targets = gold.masked_fill(gold == IGNORE, 0).argmax(1)  # (rows, 2)
    return 0.5 * cross_entropy(table.transpose(1, 2).flatten(0, 1), targets.flatten(), reduction="sum")


def guess(scores: Tensors, present: Tensor) -> Tensors:
    """Log probabilities of each place as start and as end, (rows, k, 2)."""
    return (scores[0].masked_fill(~present.unsqueeze(-1), -torch.inf).log_softmax(1),)


def best_span(logs: np.ndarray, *, longest: int = LONGEST) -> tuple[float, int, int]:
    """The best start and end among places 1 and up: (score, first, last); logs (k, 2), k at least 2.

    >>> best_span(np.log([[0.1, 0.1], [0.2, 0.6], [0.7, 0.3]]))[1:]  # 2 to 1 would run backwards
    (2, 2)
    """
    begin, end = logs[1:, 0], logs[1:, 1]
    best = (-np.inf, 1, 1)
    for width in range(min(longest, len(begin))):
        sums = begin[: len(begin) - width] + end[width:]
        position = int(sums.argmax())
        if sums[position] > best[0]:
            best = (float(sums[position]), position + 1, position + 1 + width)
    return best


def decode(example: Question, predictions: Sequence[Prediction], labels: Labels) -> str:
    """The text of the best span of all windows."""
    spans = [
        (best_span(prediction.guess[0]), prediction.units) for prediction in predictions if len(prediction.units) > 1
    ]
    if not spans:
        return ""
    (_, first, last), units = max(spans, key=lambda pair: pair[0][0])
    return example.context[units[first, 0] : units[last, 1]].strip()


def score(examples: Sequence[Question], answers: Sequence[str], language: str) -> Mapping[str, Score]:
    """F1 and exact match, the best over the gold answers; n counts questions."""
    pairs, language = list(zip(examples, answers, strict=True)), plain(language)
    f1 = [(answer_f1(example.answers, answer, language=language), 1) for example, answer in pairs]
    exact = [(exact_match(example.answers, answer, language=language), 1) for example, answer in pairs]
    return {"answer_f1": Score(np.array(f1)), "exact_match": Score(np.array(exact))}


QA = Task(
    name="qa",
    main="answer_f1",
    read=lambda source, language, *, labels=None, problem=fail: read_questions(source, problem),
    labels=lambda _: ("begin", "end"),
    encode=encode,
    head=lambda width, _: LabelHead(width, 2),
    loss=loss,
    guess=guess,
    decode=decode,
    gold=lambda example: example.answers[0],
    score=score,
    length=384,
    first_token=True,
    segments=Segments(("question", "context"), switched=(0,), rows=question_rows, answers=True),
)
