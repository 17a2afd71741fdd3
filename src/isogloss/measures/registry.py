"""What is known about each measure: title, explanation, direction, range, invariances, paper. Declared once, read here.

A measure is a plain function of tensors to a number. The decorator `measure` leaves the function as it is and writes
down its facts: code that selects reads the direction here instead of guessing it, the report reads titles and
explanations, and one contract test holds every measure to what it declares.

Tables of results also hold measures that have no function here: counts, losses, differences of scores. Their facts are
in `ROW_MEASURES`. `describe` finds the facts of any name that can stand in the column `measure`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

Takes = Literal["pair", "space", "other"]
Direction = Literal["higher", "lower", "neither"]
F = TypeVar("F", bound=Callable[..., Any])
EVERYTHING = (-math.inf, math.inf)
SHARE = (0.0, 1.0)

INVARIANCES = frozenset(
    {"rotation", "scale", "shift", "joint rotation", "joint shift", "permutation of items", "symmetric"}
)


@dataclass(frozen=True)
class MeasureFacts:
    """How a measure is presented and read.

    Attributes:
        name: what stands in the column `measure`.
        title: heads a figure or a column.
        explanation: what it means, for a reader who never met it; empty where nothing is known.
        better: the direction that a report calls better. "neither" also where a function declares a direction but no
            value is good in itself, such as the distance of a model from its start.
        range: the least and the greatest value it can take; intervals are clipped to it.
        axis: the range that it is drawn on, where it has a natural one.
        logarithmic: whether that axis counts in factors.

    """

    name: str
    title: str
    explanation: str = ""
    better: Direction = "neither"
    range: tuple[float, float] = EVERYTHING
    axis: tuple[float, float] | None = None
    logarithmic: bool = False

    @property
    def known(self) -> bool:
        """Whether the measure was declared; an unknown one is called by its own name."""
        return bool(self.explanation)


@dataclass(frozen=True)
class Measure:
    """One measure with a function, and its declared facts.

    `takes` says what the function is called with: "pair" for `function(x, y)` with rows that correspond, "space" for
    `function(x)`, "other" for anything else. `invariances` names what may be done to `x` alone (rotation, scale,
    shift), to both alike (joint rotation, joint shift, permutation of items) or to the order of the arguments
    (symmetric) without changing the value. `higher_is_better` is the direction that selection goes by; `facts` is what
    a report says.
    """

    name: str
    function: Callable[..., float]
    higher_is_better: bool
    range: tuple[float, float]
    invariances: frozenset[str] = frozenset()
    paper: str = ""
    takes: Takes = "pair"
    facts: MeasureFacts = field(default=MeasureFacts("", ""), repr=False)


MEASURES: dict[str, Measure] = {}


def register(entry: Measure) -> Measure:
    """Add a measure to the registry; a name is given once and invariances are known words."""
    known = MEASURES.get(entry.name)
    # A module that is loaded again in a notebook brings its own measures again; that is no clash.
    if known is not None and known.function.__module__ != entry.function.__module__:
        raise ValueError(f"a measure named {entry.name!r} is already registered")
    unknown = entry.invariances - INVARIANCES
    if unknown:
        raise ValueError(f"{entry.name}: unknown invariances {sorted(unknown)}; known are {sorted(INVARIANCES)}")
    MEASURES[entry.name] = entry
    return entry


def measure(
    name: str,
    *,
    higher_is_better: bool,
    range: tuple[float, float],
    title: str = "",
    explanation: str = "",
    invariances: tuple[str, ...] = (),
    paper: str = "",
    takes: Takes = "pair",
    neutral: bool = False,
    axis: tuple[float, float] | None = None,
    logarithmic: bool = False,
) -> Callable[[F], F]:
    """Register the decorated function under `name`; the function itself is returned unchanged.

    Args:
        name: what stands in the column `measure` of a table.
        higher_is_better: the direction that selection goes by.
        range: the least and the greatest value.
        title: heads a figure; the name where it is empty.
        explanation: what the measure means, for a reader who never met it.
        invariances: some of `INVARIANCES`.
        paper: where the measure was published.
        takes: what the function is called with, see `Measure`.
        neutral: whether a report calls neither direction better.
        axis: the range that it is drawn on; where the range is 0 to 1, that is the default.
        logarithmic: whether that axis counts in factors.

    """
    axis = SHARE if axis is None and range == SHARE else axis
    better: Direction = "neither" if neutral else "higher" if higher_is_better else "lower"
    facts = MeasureFacts(name, title or name, explanation, better, range, axis, logarithmic)

    def declare(function: F) -> F:
        register(Measure(name, function, higher_is_better, range, frozenset(invariances), paper, takes, facts))
        return function

    return declare


def describe(measure: str) -> MeasureFacts:
    """The facts of a measure, by the name that stands in the column `measure` of a table.

    Looked for in `MEASURES` (measures with a function), in `ROW_MEASURES` (measures of tables alone), and by its parts:
    `X_mean` is the mean of X over languages or directions, with the range and the direction of X; `X_behind` is what X
    lacks to the best layer; `p@K` is precision at any K. An unknown name gets facts that say nothing: its own name
    as the title, no explanation, no direction, no bounds (`known` is False).

    Args:
        measure: a name such as `cka`, `p@1`, `p@1_mean`, `gap`, `loss`.

    >>> describe("p@20").title, describe("p@20").range
    ('Retrieval P@20', (0.0, 1.0))
    >>> describe("gap").better, describe("mrr_mean").better, describe("mrr_behind").better, describe("mine").better
    ('lower', 'higher', 'lower', 'neither')

    """
    if measure in MEASURES and MEASURES[measure].facts.known:
        return MEASURES[measure].facts
    if measure in ROW_MEASURES:
        return ROW_MEASURES[measure]
    kind, _, number = measure.partition("@")
    if kind == "p" and number.isdecimal() and int(number) > 0:
        words = f"As P@1, but the translation may be among the nearest {number}."
        return replace(describe("p@1"), name=measure, title=f"Retrieval P@{number}", explanation=words)
    name, _, suffix = measure.rpartition("_")
    whole = describe(name) if suffix in ("mean", "behind") else MeasureFacts(measure, measure)
    if whole.known and suffix == "mean":
        words = f"{whole.title} averaged over all directions."
        return replace(whole, name=measure, title=f"{whole.title}, mean", explanation=words, axis=None)
    if whole.known:
        words = f"How much worse {whole.title} is than at the best layer, on the same sentences."
        return MeasureFacts(measure, f"{whole.title} behind the best layer", words, "lower")
    return MeasureFacts(measure, measure)


def direction(measure: str) -> bool | None:
    """Whether higher values of a measure are selected (True) or lower ones (False); None where nothing declares it.

    A mean over directions or languages, `X_mean`, has the direction of X.

    >>> direction("p@1_mean"), direction("perplexity"), direction("vocabulary")
    (True, False, None)
    """
    entry = MEASURES.get(measure.removesuffix("_mean"))
    return None if entry is None else entry.higher_is_better


ROW_MEASURES = {
    facts.name: facts
    for facts in (
        MeasureFacts(
            "cka_retrieval",
            "CKA with P@1",
            "Whether more translations are found at layers where the two spaces are more alike: the correlation over "
            "layers, 1 where both rise and fall together.",
            range=(-1.0, 1.0),
        ),
        MeasureFacts(
            "word_agreement",
            "Word agreement",
            "Take a word and look for the nearest word of the other language: how often is that its translation?",
            "higher",
            range=SHARE,
            axis=SHARE,
        ),
        MeasureFacts(
            "aer",
            "Alignment error rate",
            "Words of a sentence linked to the words of its translation by their vectors, compared with links drawn "
            "by people. Lower is better; the dashed line is a statistical aligner that learnt from the same text.",
            "lower",
            range=SHARE,
            axis=SHARE,
        ),
        MeasureFacts(
            "p@1_mean",
            "Mean P@1",
            "P@1 averaged over all directions; its interval counts each sentence once.",
            "higher",
            range=SHARE,
        ),
        MeasureFacts(
            "p@1_behind",
            "P@1 behind the best layer",
            "How much less often than at the best layer a translation is found, on the same sentences. Where the "
            "interval reaches 0 the layer cannot be told from the best.",
            "lower",
            range=(-1.0, 1.0),
        ),
        MeasureFacts(
            "cka_mean",
            "Mean CKA",
            "CKA averaged over all pairs of languages; its interval counts each block once.",
            "higher",
            range=(-1.0, 1.0),
        ),
        MeasureFacts(
            "cka_behind",
            "CKA behind the best layer",
            "How much lower CKA is than at the best layer, on the same sentences.",
            "lower",
            range=(-2.0, 2.0),
        ),
        MeasureFacts(
            "loss",
            "Training loss",
            "How surprised the model is by the words hidden from it, on the text it learns from: the mean since the "
            "reading before.",
            "lower",
            range=(0.0, math.inf),
        ),
        MeasureFacts(
            "loss of pairs",
            "Training loss of sentences",
            "How surprised the model is that a sentence belongs to its translation and to none of the others it is "
            "compared with, on the text it learns from: the mean since the reading before. A queue begins with random "
            "directions, which are easy to tell apart, so the loss rises until the queue is full.",
            "lower",
            range=(0.0, math.inf),
        ),
        MeasureFacts(
            "loss of a task",
            "Training loss",
            "How surprised the model is by the right answers to the examples it learns from: the mean since the "
            "reading before.",
            "lower",
            range=(0.0, math.inf),
        ),
        MeasureFacts(
            "cka to another model",
            "CKA",
            "Do the two models arrange the same words in the same way, seen as a whole cloud? 1 is the same "
            "arrangement (up to a turn and a change of size), 0 is what unrelated words give.",
            range=(-1.0, 1.0),
            axis=SHARE,
        ),
        MeasureFacts(
            "crossing_step",
            "Crossing",
            "The step where the perplexity of the language that is tuned on crosses that of the others.",
        ),
        MeasureFacts(
            "balance_step",
            "Balance",
            "The step where what is gained on one language best outweighs what is lost on the others.",
        ),
        MeasureFacts(
            "legacy_shift",
            "Shift by a defect",
            "The logarithm of a reading with a defect of the original code over the same reading without, the mean "
            "over the steps: 0.1 is a curve 10.5% too high.",
        ),
        MeasureFacts(
            "legacy_stray",
            "Straying by a defect",
            "How far a curve with a defect strays around its shift, in the same logarithms.",
        ),
        MeasureFacts(
            "span_precision",
            "Precision of spans",
            "The share of the spans found that are right.",
            "higher",
            range=SHARE,
            axis=SHARE,
        ),
        MeasureFacts(
            "span_recall",
            "Recall of spans",
            "The share of the spans there are that were found.",
            "higher",
            range=SHARE,
            axis=SHARE,
        ),
        MeasureFacts(
            "las_without_punctuation",
            "Labelled attachment without punctuation",
            "As labelled attachment, of words that are no punctuation.",
            "higher",
            range=SHARE,
            axis=SHARE,
        ),
        MeasureFacts(
            "uas_without_punctuation",
            "Unlabelled attachment without punctuation",
            "As unlabelled attachment, of words that are no punctuation.",
            "higher",
            range=SHARE,
            axis=SHARE,
        ),
        MeasureFacts(
            "gap",
            "Gap",
            "The score in the language trained in, less the score in another, of one and the same model: what is lost "
            "on the way. 0 is nothing; a model that guesses in the other language loses all that it is above chance.",
            "lower",
            range=(-1.0, 1.0),
        ),
        MeasureFacts(
            "relative_gap",
            "Relative gap",
            "The gap as a share of the score in the language trained in, so that tasks and plans that score "
            "differently can be compared.",
            "lower",
        ),
        MeasureFacts("chosen_step", "Chosen step", "The update after which the chosen model was taken."),
        MeasureFacts("chosen_rate", "Chosen rate", "The learning rate of the chosen model."),
        MeasureFacts("skipped", "Skipped", "Bad rows of a file that were left out."),
        MeasureFacts(
            "coverage",
            "Coverage",
            "The share of a dictionary's words that occur in the text with one of their translations.",
            range=SHARE,
        ),
        MeasureFacts(
            "identical",
            "Written alike",
            "The share of the words looked up that have a translation written like them. One model that reads both "
            "languages finds these for nothing.",
            range=SHARE,
        ),
        MeasureFacts("learned_from", "Learned from", "How many pairs of sentences, or words, maps were learned from."),
        MeasureFacts("vocabulary", "Vocabulary", "How many words of a language there are to choose from."),
        MeasureFacts(
            "duplicates",
            "Duplicates",
            "Sentences that occur more than once, so that no search can tell them apart.",
        ),
        MeasureFacts("truncated", "Truncated", "Sentences longer than the model can read, which were cut."),
    )
}
"""Facts of the measures that stand in tables and have no function here, by name."""
