r"""Scores of tasks: accuracy, spans of named entities, answers to questions; each as counts that can be resampled.

Accuracy is the number of correct answers over all, F1 of spans is twice the correct spans over the predicted plus the
gold ones, and neither is the mean of its values in single sentences. A score therefore keeps counts for every example:

    value = ratio(sum of the rows)

and the bootstrap draws examples with replacement, sums their rows and forms the ratio again (Efron 1979). Examples are
the sampling unit, so they are drawn as a whole: the words of a sentence are not independent.

**Spans** follow the rules of `conlleval` (seqeval's default mode). A sentence's tags are `O`, `B-X` (the first word of
a span of type X) and `I-X` (a later word). The predictions of a word classifier need not be well formed:

    a span begins   at B-X; at I-X after O, at the start, or after another type
    a span ends     before the next beginning, before O, at the end

A predicted span is correct if a gold span has the same words and the same type.

**Answers** are compared by exact match and F1 of words after normalisation, as published with SQuAD and MLQA. SQuAD
(Rajpurkar et al. 2016) compares answers in lower case, without punctuation and English articles. MLQA (Lewis et al.
2020) defines rules for each of its seven languages, which are used here:

| step | rule |
|---|---|
| case | lower |
| punctuation | every character of a Unicode category P, and ASCII's own, is removed |
| articles | those of the language: `ARTICLES` |
| words | separated by spaces; in Chinese every ideograph from U+4E00 to U+9FA5 is a word |

For a language that is not in MLQA, no articles are removed, and words are separated by spaces. The published rule for
Arabic removes the letters of the article everywhere, even inside words; it is kept so that numbers are comparable.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isogloss.errors import InputError, require
from isogloss.measures.registry import score
from isogloss.measures.statistics import PARTS

DRAWS = 1000
AT_ONCE = 2**23  # bootstrap weights in memory at a time
OUTSIDE = "O"
Labelled = tuple[int, int, str]  # first word, word after the last, type
Mixed = Literal["split", "last"]
ARTICLES = {
    "ar": re.compile("ال"),
    "de": re.compile(r"\b(?:ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "en": re.compile(r"\b(?:a|an|the)\b"),
    "es": re.compile(r"\b(?:un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(?:của|là|cái|chiếc|những)\b"),
}
_IDEOGRAPH = re.compile("([\u4e00-\u9fa5])")


# Counts of examples


def share(sums: np.ndarray) -> np.ndarray:
    """The ratio of sums (..., 2) of correct and all items -> (...); 0 / 0 is NaN.

    >>> float(share(np.array([3, 4])))
    0.75
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def f1(sums: np.ndarray) -> np.ndarray:
    """F1 of sums (..., 3) of correct, predicted and gold spans -> (...): 2 correct / (predicted + gold).

    This is the harmonic mean of precision and recall; 0 / 0 is 0, as in `conlleval`.

    >>> float(f1(np.array([1, 2, 2])))
    0.5
    """
    both = sums[..., 1] + sums[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(both == 0, 0.0, 2 * sums[..., 0] / both))


@dataclass(frozen=True)
class Score:
    """One score of a model on a test set.

    counts: (examples, c), float64; `n` is the sum of its last column (answers, words, gold spans). ratio: (..., c) ->
    (...), from sums of counts to the value. floor: the score expected by chance, if it was measured.

    >>> score = Score(np.array([[1, 1], [0, 1], [1, 1], [1, 1]]))
    >>> score.value, score.n
    (0.75, 4)
    """

    counts: np.ndarray
    ratio: Callable[[np.ndarray], np.ndarray] = share
    floor: float = np.nan

    @property
    def value(self) -> float:
        """The score over all examples."""
        return float(self.ratio(self.counts.sum(0)))

    @property
    def n(self) -> int:
        """The number of items behind the score."""
        return round(float(self.counts[:, -1].sum()))


def left_out(score: Score) -> np.ndarray:
    """Values of the score without each of `PARTS` parts of consecutive examples in turn, (parts,).

    >>> left_out(Score(np.array([[1, 1], [0, 1]] * 20))).round(3).tolist() == [0.5] * 20
    True
    """
    sums = np.stack([part.sum(0) for part in np.array_split(score.counts, PARTS)])  # (parts, c)
    return score.ratio(score.counts.sum(0) - sums)


def resampled(score: Score, seed: int, *, draws: int = DRAWS) -> np.ndarray:
    """Values of the score on examples drawn with replacement, (draws,); the same seed draws the same examples."""
    examples = len(score.counts)
    if not examples:
        return np.full(draws, np.nan)
    generator = np.random.default_rng(seed)
    together = max(1, AT_ONCE // examples)
    values = []
    for start in range(0, draws, together):
        shape = (min(together, draws - start), examples)
        chosen = generator.integers(0, examples, shape)
        numbers = chosen + examples * np.arange(shape[0])[:, None]
        weights = np.bincount(numbers.reshape(-1), minlength=shape[0] * examples).reshape(shape)
        values.append(score.ratio(weights @ score.counts))  # (draws,)
    return np.concatenate(values)


# Labels and spans


@score("accuracy", "Accuracy", "The share of correct answers: labels of pairs, or tags of words.")
def accuracy(gold: Sequence[Hashable], guess: Sequence[Hashable]) -> float:
    """Share of the items whose predicted label is the gold one.

    >>> accuracy(["yes", "no", "no", "yes"], ["yes", "no", "yes", "yes"])
    0.75
    """
    _same_length(gold, guess, "labels")
    require(gold, "accuracy needs at least one label, and there is none")
    return sum(right == guessed for right, guessed in zip(gold, guess, strict=True)) / len(gold)


def repair_bio(tags: Sequence[str], *, mixed: Mixed = "split") -> list[str]:
    """Rewrite tags with the same spans in well-formed BIO: every span begins with B and has one type.

    An I-X without a span before it becomes B-X. mixed: the rule for I-Y right after a span of type X. "split": a new
    span begins there, as in `conlleval`. "last": both become one span with the last type, as in wu2020's code.

    >>> repair_bio(["O", "I-PER", "I-LOC", "O"])
    ['O', 'B-PER', 'B-LOC', 'O']
    >>> repair_bio(["O", "I-PER", "I-LOC", "O"], mixed="last")
    ['O', 'B-LOC', 'I-LOC', 'O']
    """
    require(mixed in ("split", "last"), f"mixed spans are repaired by 'split' or 'last', not by {mixed!r}")
    repaired = [OUTSIDE] * len(tags)
    for start, end, kind in spans(tags, mixed=mixed):
        repaired[start:end] = [f"B-{kind}"] + [f"I-{kind}"] * (end - start - 1)
    return repaired


def spans(tags: Sequence[str], *, mixed: Mixed = "split") -> list[Labelled]:
    """The spans of one sentence, in order: (first word, word after the last, type), by the rules of `conlleval`.

    With mixed="last" a different type does not end a span, which then has the type of its last word (`repair_bio`).

    >>> spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
    [(0, 2, 'PER'), (3, 4, 'LOC'), (4, 5, 'LOC')]
    """
    labelled: list[Labelled] = []
    for word, tag in enumerate(tags):
        prefix, _, kind = tag.partition("-")
        if tag != OUTSIDE and (prefix not in ("B", "I") or not kind):
            raise InputError(f"the tag {tag!r} is not O, B-type or I-type")
        goes_on = prefix == "I" and bool(labelled) and labelled[-1][1] == word
        if goes_on and (mixed == "last" or labelled[-1][2] == kind):
            labelled[-1] = (labelled[-1][0], word + 1, kind)
        elif prefix != OUTSIDE:
            labelled.append((word, word + 1, kind))
    return labelled


def span_counts(gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> np.ndarray:
    """Count the spans of each sentence of tags -> (sentences, 3): correct, predicted and gold spans.

    From their sums over sentences, `f1` is computed, and with `share` precision (columns 0, 1) and recall (0, 2).

    >>> span_counts([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]]).tolist()
    [[1, 2, 1]]
    """
    _same_length(gold, guess, "sentences")
    counts = np.zeros((len(gold), 3), dtype=np.int64)
    for number, (gold_tags, guessed_tags) in enumerate(zip(gold, guess, strict=True)):
        _same_length(gold_tags, guessed_tags, f"tags in sentence {number}")
        right, guessed = set(spans(gold_tags)), set(spans(guessed_tags))
        counts[number] = len(right & guessed), len(guessed), len(right)
    return counts


@score(
    "span_f1",
    "F1 of spans",
    "How well named entities are found, the harmonic mean of precision and recall: an entity is correct if its words "
    "and its type are correct.",
    paper="Tjong Kim Sang and De Meulder 2003, Introduction to the CoNLL-2003 Shared Task",
)
def span_f1(gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]) -> float:
    """F1 of the spans of all sentences together, from `span_counts`.

    >>> span_f1([["B-PER", "O"], ["B-LOC", "I-LOC"]], [["B-PER", "O"], ["B-LOC", "O"]])
    0.5
    """
    return float(f1(span_counts(gold, guess).sum(0)))


def _same_length(gold: Sequence[object], guess: Sequence[object], what: str) -> None:
    if len(gold) != len(guess):
        raise InputError(f"there are {len(gold):,} gold and {len(guess):,} guessed {what}; there must be equally many")


# Answers to questions


def normalise_answer(text: str, language: str = "en") -> str:
    """Normalise an answer for comparison: words separated by single spaces.

    language: a canonical code, as `isogloss.text.languages.plain` gives it (`zh` for `cmn` and `zh-TW`).

    >>> normalise_answer("The Eiffel-Tower!")
    'eiffeltower'
    >>> normalise_answer("在 Paris 市", "zh")
    '在 paris 市'
    """
    letters = (each for each in text.lower() if each not in string.punctuation)
    bare = "".join(letter for letter in letters if not unicodedata.category(letter).startswith("P"))
    if language in ARTICLES:
        bare = ARTICLES[language].sub(" ", bare)
    if language == "zh":
        bare = _IDEOGRAPH.sub(r" \1 ", bare)
    return " ".join(bare.split())


@score(
    "exact_match",
    "Exact match",
    "The share of answers that are identical to a gold answer.",
    paper="Rajpurkar et al. 2016; Lewis et al. 2020, MLQA",
)
def exact_match(gold: Sequence[str], guess: str, *, language: str = "en") -> float:
    """1 if the prediction equals one of the gold answers after normalisation, otherwise 0.

    >>> exact_match(["the Eiffel Tower", "Paris"], "Eiffel Tower.")
    1.0
    """
    _check_gold(gold)
    wanted = normalise_answer(guess, language)
    return float(any(normalise_answer(answer, language) == wanted for answer in gold))


@score(
    "answer_f1",
    "F1 of answers",
    "The overlap of words between the answer and the gold answer, averaged over questions: the harmonic mean of "
    "precision and recall.",
    paper="Rajpurkar et al. 2016; Lewis et al. 2020, MLQA",
)
def answer_f1(gold: Sequence[str], guess: str, *, language: str = "en") -> float:
    """The highest F1 of the predicted words over the gold answers.

    With c common words, counted with multiplicity, F1 = 2 c / (words of one + words of the other), and 0 if there are
    none, even if both are empty after normalisation.

    >>> answer_f1(["the Eiffel Tower in Paris"], "Eiffel Tower")
    0.6666666666666666
    """
    _check_gold(gold)
    guessed = Counter(normalise_answer(guess, language).split())
    answers = [Counter(normalise_answer(answer, language).split()) for answer in gold]
    return max(2 * (words & guessed).total() / max(1, words.total() + guessed.total()) for words in answers)


def _check_gold(gold: Sequence[str]) -> None:
    require(not isinstance(gold, str) and gold, f"gold answers are a list with at least one text, not {gold!r}")
