"""Scores of labels: accuracy, and named entities as spans under the rules of `conlleval` (seqeval's default mode).

A sentence's tags are `O`, `B-X` (a span of type X begins) and `I-X` (it goes on). What a classifier guesses for each
word by itself need not be well formed. The rules of `conlleval`, under which such tags are read as spans:

    a span begins   at B-X; at I-X after O, at the start, or after another type
    a span ends     before the next beginning, before O, at the end

A guessed span is right if a gold span has the same words and the same type. Sums are carried and the ratio formed last,
so that two languages, or the sentences of a bootstrap sample, add.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from isogloss.errors import InputError
from isogloss.measures.registry import measure

OUTSIDE = "O"
Labelled = tuple[int, int, str]  # first word, word after the last, type
Mixed = Literal["split", "last"]


@measure("accuracy", higher_is_better=True, range=(0.0, 1.0), takes="other")
def accuracy(gold: Sequence[Hashable], guess: Sequence[Hashable]) -> float:
    """Share of the items whose guessed label is the gold one.

    >>> accuracy(["yes", "no", "no", "yes"], ["yes", "no", "yes", "yes"])
    0.75
    """
    _same_length(gold, guess, "labels")
    if not gold:
        raise InputError("accuracy needs at least one label, and there is none")
    return sum(one == other for one, other in zip(gold, guess, strict=True)) / len(gold)


def repair_bio(tags: Sequence[str], *, mixed: Mixed = "split") -> list[str]:
    """The same spans in well-formed tags: every span begins with B and has one type.

    An I-X with no span before it becomes B-X. mixed: what becomes of I-Y right after a span of type X. "split": a new
    span begins there, as `conlleval` counts it. "last": the whole stretch becomes one span of the type it ends with,
    the rule of wu2020's code.

    >>> repair_bio(["O", "I-PER", "I-LOC", "O"])
    ['O', 'B-PER', 'B-LOC', 'O']
    >>> repair_bio(["O", "I-PER", "I-LOC", "O"], mixed="last")
    ['O', 'B-LOC', 'I-LOC', 'O']
    """
    if mixed not in ("split", "last"):
        raise InputError(f"mixed spans are repaired by 'split' or 'last', not by {mixed!r}")
    repaired = [OUTSIDE] * len(tags)
    for start, end, kind in _stretches(tags) if mixed == "last" else spans(tags):
        repaired[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return repaired


def spans(tags: Sequence[str]) -> list[Labelled]:
    """The spans of one sentence, in order: (first word, word after the last, type), by the rules above.

    >>> spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [(0, 2, 'PER'), (3, 4, 'LOC'), (4, 5, 'LOC')]
    """
    found: list[Labelled] = []
    for place, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if prefix == OUTSIDE:
            continue
        if prefix == "I" and found and found[-1][1:] == (place, kind):
            found[-1] = (found[-1][0], place + 1, kind)
        else:
            found.append((place, place + 1, kind))
    return found


def _stretches(tags: Sequence[str]) -> list[Labelled]:
    """Spans that only B and O end, each of the type of its last word."""
    found: list[Labelled] = []
    for place, tag in enumerate(tags):
        prefix, kind = split_tag(tag)
        if prefix == "I" and found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1, kind)
        elif prefix != OUTSIDE:
            found.append((place, place + 1, kind))
    return found


def split_tag(tag: str) -> tuple[str, str]:
    """A tag's prefix and type: ("B", "PER"), or ("O", ""); any other shape is an InputError.

    >>> split_tag("I-LOC")
    ('I', 'LOC')
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = tag.partition("-")
    if prefix not in ("B", "I") or not dash or not kind:
        raise InputError(f"the tag {tag!r} is not O, B-type or I-type")
    return prefix, kind


@dataclass(frozen=True)
class SpanCounts:
    """What precision, recall and F1 of spans are made of; two of them are added to pool two texts.

    right: spans that both have; guessed and gold: spans each side has. Where a ratio would be 0 / 0 it is 0, as in
    `conlleval`.

    >>> both = SpanCounts(1, 1, 2) + SpanCounts(2, 3, 2)
    >>> both.precision, both.recall, both.f1
    (0.75, 0.75, 0.75)
    """

    right: int
    guessed: int
    gold: int

    def __add__(self, other: "SpanCounts") -> "SpanCounts":
        """The counts of both texts together."""
        return SpanCounts(self.right + other.right, self.guessed + other.guessed, self.gold + other.gold)

    @property
    def precision(self) -> float:
        """Share of the guessed spans that are right."""
        return self.right / self.guessed if self.guessed else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold spans that were found."""
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of the two: 2 right / (guessed + gold)."""
        return 2 * self.right / (self.guessed + self.gold) if self.guessed + self.gold else 0.0


def span_counts(gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> SpanCounts:
    """Count the spans of sentences, each a sequence of tags, and those on which both sides agree.

    >>> span_counts([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])
    SpanCounts(right=1, guessed=2, gold=1)
    """
    _same_length(gold, guess, "sentences")
    total = SpanCounts(0, 0, 0)
    for number, (one, other) in enumerate(zip(gold, guess, strict=True)):
        _same_length(one, other, f"tags in sentence {number}")
        right, guessed = set(spans(one)), set(spans(other))
        total += SpanCounts(len(right & guessed), len(guessed), len(right))
    return total


@measure(
    "span_f1",
    higher_is_better=True,
    range=(0.0, 1.0),
    paper="Tjong Kim Sang and De Meulder 2003, Introduction to the CoNLL-2003 Shared Task",
    takes="other",
)
def span_f1(gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> float:
    """F1 of the spans of all sentences together; `span_counts` has precision, recall and the sums.

    >>> span_f1([["B-PER", "O"], ["B-LOC", "I-LOC"]], [["B-PER", "O"], ["B-LOC", "O"]])
    0.5
    """
    return span_counts(gold, guess).f1


def _same_length(gold: Sequence[object], guess: Sequence[object], what: str) -> None:
    if len(gold) != len(guess):
        raise InputError(f"there are {len(gold):,} gold and {len(guess):,} guessed {what}; they must be as many")
