"""Titles, explanations and directions of measures, until `isogloss.measures.registry.describe` has them.

The record and the function have the names and fields of those in the registry, so that this file can be dropped.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasureFacts:
    """How a measure is presented: title, explanation, which direction is better, the axis it is drawn on."""

    title: str
    explanation: str = ""
    better: str = "higher"
    axis: tuple[float, float] | None = None
    logarithmic: bool = False

    @property
    def known(self) -> bool:
        """Whether the measure was declared."""
        return bool(self.explanation)


MEANINGS = {
    "cka": MeasureFacts(
        "CKA",
        "Do the two languages arrange the same sentences in the same way, seen as a whole cloud? 1 is the same "
        "arrangement (up to a turn and a change of size), 0 is what unrelated sentences give.",
        axis=(0.0, 1.0),
    ),
    "cka_biased": MeasureFacts(
        "CKA as printed, centred",
        "As CKA, by the formula papers print. It lies above 0 for unrelated sentences too, the more so the fewer there "
        "are: read it against its chance.",
        axis=(0.0, 1.0),
    ),
    "cka_uncentred": MeasureFacts(
        "CKA as printed, not centred",
        "The printed formula on vectors as they are. Where all sentences point the same way it is near 1 whatever they "
        "say: read it against its chance.",
        axis=(0.0, 1.0),
    ),
    "cka_retrieval": MeasureFacts(
        "CKA with P@1",
        "Whether more translations are found at layers where the two spaces are more alike: the correlation over "
        "layers, 1 where both rise and fall together.",
        "neither",
    ),
    "p@1": MeasureFacts(
        "Retrieval P@1",
        "Take a sentence in one language and look for the nearest sentence of the other: how often is that its "
        "translation?",
        axis=(0.0, 1.0),
    ),
    "p@5": MeasureFacts("Retrieval P@5", "As P@1, but the translation may be among the nearest five.", axis=(0.0, 1.0)),
    "p@10": MeasureFacts(
        "Retrieval P@10", "As P@1, but the translation may be among the nearest ten.", axis=(0.0, 1.0)
    ),
    "mrr": MeasureFacts(
        "Mean reciprocal rank",
        "The translation's place in the list of nearest sentences, turned into a score: first place counts 1, second "
        "1/2, third 1/3.",
        axis=(0.0, 1.0),
    ),
    "word_agreement": MeasureFacts(
        "Word agreement",
        "Take a word and look for the nearest word of the other language: how often is that its translation?",
        axis=(0.0, 1.0),
    ),
    "anisotropy": MeasureFacts(
        "Anisotropy",
        "How far all sentences of a language point the same way. Near 1 they lie in a narrow cone, where raw cosines "
        "say little; near 0 they spread in every direction. Neither end is better in itself.",
        better="neither",
    ),
    "aer": MeasureFacts(
        "Alignment error rate",
        "Words of a sentence linked to the words of its translation by their vectors, compared with links drawn by "
        "people. Lower is better; the dashed line is a statistical aligner that learnt from the same text.",
        better="lower",
        axis=(0.0, 1.0),
    ),
    "p@1_mean": MeasureFacts("Mean P@1", "P@1 averaged over all directions; its interval counts each sentence once."),
    "p@1_behind": MeasureFacts(
        "P@1 behind the best layer",
        "How much less often than at the best layer a translation is found, on the same sentences. Where the interval "
        "reaches 0 the layer cannot be told from the best.",
        better="lower",
    ),
    "cka_mean": MeasureFacts(
        "Mean CKA", "CKA averaged over all pairs of languages; its interval counts each block once."
    ),
    "cka_behind": MeasureFacts(
        "CKA behind the best layer",
        "How much lower CKA is than at the best layer, on the same sentences.",
        better="lower",
    ),
    "loss": MeasureFacts(
        "Training loss",
        "How surprised the model is by the words hidden from it, on the text it learns from: the mean since the "
        "reading before.",
        better="lower",
    ),
    "loss of pairs": MeasureFacts(
        "Training loss of sentences",
        "How surprised the model is that a sentence belongs to its translation and to none of the others it is "
        "compared with, on the text it learns from: the mean since the reading before. A queue begins with random "
        "directions, which are easy to tell apart, so the loss rises until the queue is full.",
        better="lower",
    ),
    "loss of a task": MeasureFacts(
        "Training loss",
        "How surprised the model is by the right answers to the examples it learns from: the mean since the reading "
        "before.",
        better="lower",
    ),
    "perplexity": MeasureFacts(
        "Held-out perplexity",
        "How surprised the model is by hidden words of text it never learns from, under the same masks each time. Read "
        "each language against itself: a Chinese character says more than a letter.",
        better="lower",
        logarithmic=True,
    ),
    "l2_drift": MeasureFacts(
        "L2 distance",
        "How far a word's vector lies from the same word's in the other model, or in this one at its start. Models "
        "that were trained apart may hold the same arrangement turned another way, and be far apart all the same.",
        better="neither",
    ),
    "cosine_drift": MeasureFacts(
        "Cosine distance",
        "As the distance, but only by direction: 0 is the same direction, 1 none in common.",
        better="neither",
    ),
    "procrustes_distance": MeasureFacts(
        "Distance after Procrustes",
        "What is left of the distance when one model's words are turned onto the other's as well as can be: 0 is the "
        "same arrangement. Chance is what shuffled words leave.",
        better="neither",
        axis=(0.0, 1.0),
    ),
    "cka to another model": MeasureFacts(
        "CKA",
        "Do the two models arrange the same words in the same way, seen as a whole cloud? 1 is the same arrangement "
        "(up to a turn and a change of size), 0 is what unrelated words give.",
        better="neither",
        axis=(0.0, 1.0),
    ),
    "crossing_step": MeasureFacts(
        "Crossing",
        "The step where the perplexity of the language that is tuned on crosses that of the others.",
        "neither",
    ),
    "balance_step": MeasureFacts(
        "Balance", "The step where what is gained on one language best outweighs what is lost on the others.", "neither"
    ),
    "legacy_shift": MeasureFacts(
        "Shift by a defect",
        "The logarithm of a reading with a defect of the original code over the same reading without, the mean over "
        "the steps: 0.1 is a curve 10.5% too high.",
        "neither",
    ),
    "legacy_stray": MeasureFacts(
        "Straying by a defect",
        "How far a curve with a defect strays around its shift, in the same logarithms.",
        "neither",
    ),
    "accuracy": MeasureFacts(
        "Accuracy", "The share of answers that are right: labels of pairs, or tags of words.", axis=(0.0, 1.0)
    ),
    "span_f1": MeasureFacts(
        "F1 of spans",
        "How well the named spans are found: a span counts if its words and its type are right; false ones cost as "
        "much as missed ones.",
        axis=(0.0, 1.0),
    ),
    "span_precision": MeasureFacts(
        "Precision of spans", "The share of the spans found that are right.", axis=(0.0, 1.0)
    ),
    "span_recall": MeasureFacts(
        "Recall of spans", "The share of the spans there are that were found.", axis=(0.0, 1.0)
    ),
    "las": MeasureFacts(
        "Labelled attachment", "The share of words with the right head and the right relation to it.", axis=(0.0, 1.0)
    ),
    "uas": MeasureFacts("Unlabelled attachment", "The share of words with the right head.", axis=(0.0, 1.0)),
    "las_without_punctuation": MeasureFacts(
        "Labelled attachment without punctuation",
        "As labelled attachment, of words that are no punctuation.",
        axis=(0.0, 1.0),
    ),
    "uas_without_punctuation": MeasureFacts(
        "Unlabelled attachment without punctuation",
        "As unlabelled attachment, of words that are no punctuation.",
        axis=(0.0, 1.0),
    ),
    "answer_f1": MeasureFacts(
        "F1 of answers",
        "How many words the answer shares with the right one, on average; words too many cost as much as missing ones.",
        axis=(0.0, 1.0),
    ),
    "exact_match": MeasureFacts("Exact match", "The share of answers that are right to the letter.", axis=(0.0, 1.0)),
    "gap": MeasureFacts(
        "Gap",
        "The score in the language trained in, less the score in another, of one and the same model: what is lost on "
        "the way. 0 is nothing; a model that guesses in the other language loses all that it is above chance.",
        "lower",
    ),
    "relative_gap": MeasureFacts(
        "Relative gap",
        "The gap as a share of the score in the language trained in, so that tasks and plans that score differently "
        "can be compared.",
        "lower",
    ),
    "chosen_step": MeasureFacts("Chosen step", "The update after which the chosen model was taken.", "neither"),
    "chosen_rate": MeasureFacts("Chosen rate", "The learning rate of the chosen model.", "neither"),
    "skipped": MeasureFacts("Skipped", "Bad rows of a file that were left out.", "neither"),
    "coverage": MeasureFacts(
        "Coverage",
        "The share of a dictionary's words that occur in the text with one of their translations.",
        "neither",
    ),
    "identical": MeasureFacts(
        "Written alike",
        "The share of the words looked up that have a translation written like them. One model that reads both "
        "languages finds these for nothing.",
        "neither",
    ),
    "learned_from": MeasureFacts(
        "Learned from", "How many pairs of sentences, or words, maps were learned from.", "neither"
    ),
    "vocabulary": MeasureFacts("Vocabulary", "How many words of a language there are to choose from.", "neither"),
    "duplicates": MeasureFacts(
        "Duplicates", "Sentences that occur more than once, so that no search can tell them apart.", "neither"
    ),
    "truncated": MeasureFacts("Truncated", "Sentences longer than the model can read, which were cut.", "neither"),
}


def describe(measure: str) -> MeasureFacts:
    """How to present a measure; an unknown one keeps its own name and no direction."""
    return MEANINGS.get(measure, MeasureFacts(measure, "", "neither"))
