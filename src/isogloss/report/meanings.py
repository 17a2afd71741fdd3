"""What each measure is called, which direction is better, and what it means: from the registry of measures."""

from dataclasses import dataclass

from isogloss.measures.registry import MEASURES, ROW_MEASURES, describe

HIGHER = "higher"
LOWER = "lower"


@dataclass(frozen=True)
class Meaning:
    """How a measure is presented.

    `title` heads a figure, `words` explains it to a reader who never met it, `better` is "higher", "lower" or ""
    (neither is better), `span` the axis it is drawn on where the measure has a natural one, `log` whether that axis
    counts in factors.
    """

    title: str
    words: str
    better: str = HIGHER
    span: tuple[float, float] | None = None
    log: bool = False


def meaning(measure: str) -> Meaning:
    """How to present a measure; an unknown one keeps its own name and no direction."""
    facts = describe(measure)
    better = "" if facts.better == "neither" else facts.better
    return Meaning(facts.title, facts.explanation, better, facts.axis, facts.logarithmic)


MEANINGS = {name: meaning(name) for name in (*MEASURES, *ROW_MEASURES)}

VARIANTS = {
    "cosine": "raw cosine",
    "centred": "centred",
    "csls": "CSLS",
    "debiased": "debiased",
    "itermax": "itermax",
    "statistical": "statistical aligner",
}

VARIANT_WORDS = {
    "cosine": "Raw cosine compares the vectors as they are.",
    "centred": "Centred first subtracts each language's own mean, so that a constant difference between two languages "
    "does not hide what they share.",
    "csls": "CSLS holds back sentences that are near to everything.",
}

LAYERS_SENTENCE = "Layer 0 is the embedding output, before any block; layer k is the output of block k."


def variant_title(variant: str) -> str:
    """A variant's name in a legend; an unknown one keeps its own."""
    return VARIANTS.get(variant, variant)
