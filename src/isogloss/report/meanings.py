"""What each measure is called, which direction is better, and what it means in everyday words."""

from dataclasses import dataclass

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


MEANINGS = {
    "cka": Meaning(
        "CKA",
        "Do the two languages arrange the same sentences in the same way, seen as a whole cloud? 1 is the same "
        "arrangement (up to a turn and a change of size), 0 is what unrelated sentences give.",
        span=(0.0, 1.0),
    ),
    "cka_biased": Meaning(
        "CKA as printed, centred",
        "As CKA, by the formula papers print. It lies above 0 for unrelated sentences too, the more so the fewer there "
        "are: read it against its chance.",
        span=(0.0, 1.0),
    ),
    "cka_uncentred": Meaning(
        "CKA as printed, not centred",
        "The printed formula on vectors as they are. Where all sentences point the same way it is near 1 whatever they "
        "say: read it against its chance.",
        span=(0.0, 1.0),
    ),
    "cka_retrieval": Meaning(
        "CKA with P@1",
        "Whether more translations are found at layers where the two spaces are more alike: the correlation over "
        "layers, 1 where both rise and fall together.",
        "",
    ),
    "p@1": Meaning(
        "Retrieval P@1",
        "Take a sentence in one language and look for the nearest sentence of the other: how often is that its "
        "translation?",
        span=(0.0, 1.0),
    ),
    "p@5": Meaning("Retrieval P@5", "As P@1, but the translation may be among the nearest five.", span=(0.0, 1.0)),
    "p@10": Meaning("Retrieval P@10", "As P@1, but the translation may be among the nearest ten.", span=(0.0, 1.0)),
    "mrr": Meaning(
        "Mean reciprocal rank",
        "The translation's place in the list of nearest sentences, turned into a score: first place counts 1, second "
        "1/2, third 1/3.",
        span=(0.0, 1.0),
    ),
    "word_agreement": Meaning(
        "Word agreement",
        "Take a word and look for the nearest word of the other language: how often is that its translation?",
        span=(0.0, 1.0),
    ),
    "anisotropy": Meaning(
        "Anisotropy",
        "How far all sentences of a language point the same way. Near 1 they lie in a narrow cone, where raw cosines "
        "say little; near 0 they spread in every direction. Neither end is better in itself.",
        better="",
    ),
    "aer": Meaning(
        "Alignment error rate",
        "Words of a sentence linked to the words of its translation by their vectors, compared with links drawn by "
        "people. Lower is better; the dashed line is a statistical aligner that learnt from the same text.",
        better=LOWER,
        span=(0.0, 1.0),
    ),
    "p@1_mean": Meaning("Mean P@1", "P@1 averaged over all directions; its interval counts each sentence once."),
    "p@1_behind": Meaning(
        "P@1 behind the best layer",
        "How much less often than at the best layer a translation is found, on the same sentences. Where the interval "
        "reaches 0 the layer cannot be told from the best.",
        better=LOWER,
    ),
    "cka_mean": Meaning("Mean CKA", "CKA averaged over all pairs of languages; its interval counts each block once."),
    "cka_behind": Meaning(
        "CKA behind the best layer",
        "How much lower CKA is than at the best layer, on the same sentences.",
        better=LOWER,
    ),
    "loss": Meaning(
        "Training loss",
        "How surprised the model is by the words hidden from it, on the text it learns from: the mean since the "
        "reading before.",
        better=LOWER,
    ),
    "loss of pairs": Meaning(
        "Training loss of sentences",
        "How surprised the model is that a sentence belongs to its translation and to none of the others it is "
        "compared with, on the text it learns from: the mean since the reading before. A queue begins with random "
        "directions, which are easy to tell apart, so the loss rises until the queue is full.",
        better=LOWER,
    ),
    "loss of a task": Meaning(
        "Training loss",
        "How surprised the model is by the right answers to the examples it learns from: the mean since the reading "
        "before.",
        better=LOWER,
    ),
    "perplexity": Meaning(
        "Held-out perplexity",
        "How surprised the model is by hidden words of text it never learns from, under the same masks each time. Read "
        "each language against itself: a Chinese character says more than a letter.",
        better=LOWER,
        log=True,
    ),
    "l2_drift": Meaning(
        "L2 distance",
        "How far a word's vector lies from the same word's in the other model, or in this one at its start. Models "
        "that were trained apart may hold the same arrangement turned another way, and be far apart all the same.",
        better="",
    ),
    "cosine_drift": Meaning(
        "Cosine distance",
        "As the distance, but only by direction: 0 is the same direction, 1 none in common.",
        better="",
    ),
    "procrustes_distance": Meaning(
        "Distance after Procrustes",
        "What is left of the distance when one model's words are turned onto the other's as well as can be: 0 is the "
        "same arrangement. Chance is what shuffled words leave.",
        better="",
        span=(0.0, 1.0),
    ),
    "cka to another model": Meaning(
        "CKA",
        "Do the two models arrange the same words in the same way, seen as a whole cloud? 1 is the same arrangement "
        "(up to a turn and a change of size), 0 is what unrelated words give.",
        better="",
        span=(0.0, 1.0),
    ),
    "crossing_step": Meaning(
        "Crossing", "The step where the perplexity of the language that is tuned on crosses that of the others.", ""
    ),
    "balance_step": Meaning(
        "Balance", "The step where what is gained on one language best outweighs what is lost on the others.", ""
    ),
    "legacy_shift": Meaning(
        "Shift by a defect",
        "The logarithm of a reading with a defect of the original code over the same reading without, the mean over "
        "the steps: 0.1 is a curve 10.5% too high.",
        "",
    ),
    "legacy_stray": Meaning(
        "Straying by a defect", "How far a curve with a defect strays around its shift, in the same logarithms.", ""
    ),
    "accuracy": Meaning(
        "Accuracy", "The share of answers that are right: labels of pairs, or tags of words.", span=(0.0, 1.0)
    ),
    "span_f1": Meaning(
        "F1 of spans",
        "How well the named spans are found: a span counts if its words and its type are right; false ones cost as "
        "much as missed ones.",
        span=(0.0, 1.0),
    ),
    "span_precision": Meaning("Precision of spans", "The share of the spans found that are right.", span=(0.0, 1.0)),
    "span_recall": Meaning("Recall of spans", "The share of the spans there are that were found.", span=(0.0, 1.0)),
    "las": Meaning(
        "Labelled attachment", "The share of words with the right head and the right relation to it.", span=(0.0, 1.0)
    ),
    "uas": Meaning("Unlabelled attachment", "The share of words with the right head.", span=(0.0, 1.0)),
    "las_without_punctuation": Meaning(
        "Labelled attachment without punctuation",
        "As labelled attachment, of words that are no punctuation.",
        span=(0.0, 1.0),
    ),
    "uas_without_punctuation": Meaning(
        "Unlabelled attachment without punctuation",
        "As unlabelled attachment, of words that are no punctuation.",
        span=(0.0, 1.0),
    ),
    "answer_f1": Meaning(
        "F1 of answers",
        "How many words the answer shares with the right one, on average; words too many cost as much as missing ones.",
        span=(0.0, 1.0),
    ),
    "exact_match": Meaning("Exact match", "The share of answers that are right to the letter.", span=(0.0, 1.0)),
    "gap": Meaning(
        "Gap",
        "The score in the language trained in, less the score in another, of one and the same model: what is lost on "
        "the way. 0 is nothing; a model that guesses in the other language loses all that it is above chance.",
        LOWER,
    ),
    "relative_gap": Meaning(
        "Relative gap",
        "The gap as a share of the score in the language trained in, so that tasks and plans that score differently "
        "can be compared.",
        LOWER,
    ),
    "chosen_step": Meaning("Chosen step", "The update after which the chosen model was taken.", ""),
    "chosen_rate": Meaning("Chosen rate", "The learning rate of the chosen model.", ""),
    "skipped": Meaning("Skipped", "Bad rows of a file that were left out.", ""),
    "coverage": Meaning(
        "Coverage", "The share of a dictionary's words that occur in the text with one of their translations.", ""
    ),
    "identical": Meaning(
        "Written alike",
        "The share of the words looked up that have a translation written like them. One model that reads both "
        "languages finds these for nothing.",
        "",
    ),
    "learned_from": Meaning("Learned from", "How many pairs of sentences, or words, maps were learned from.", ""),
    "vocabulary": Meaning("Vocabulary", "How many words of a language there are to choose from.", ""),
    "duplicates": Meaning(
        "Duplicates", "Sentences that occur more than once, so that no search can tell them apart.", ""
    ),
    "truncated": Meaning("Truncated", "Sentences longer than the model can read, which were cut.", ""),
}

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


def meaning(measure: str) -> Meaning:
    """How to present a measure; an unknown one keeps its own name and no direction."""
    return MEANINGS.get(measure, Meaning(measure, "", ""))


def variant_title(variant: str) -> str:
    """A variant's name in a legend; an unknown one keeps its own."""
    return VARIANTS.get(variant, variant)
