"""What Jexus (2020) says, and numbers to hold ours against.

The post gives its table and its chart as images whose numbers are not available, and names neither the model's variant
nor learning rate, batch, epochs, seeds or languages. So there is no published number of its own, only its three claims:
accuracy in other languages is best when the representation of layer 8 is kept fixed, accuracy in English hardly depends
on N, and accuracy goes with how well the layer's languages are aligned, which is judged by eye on t-SNE maps of an
English-Chinese corpus (WMT-17), where layers 7 and 8 look best aligned, 1 to 4 and 11 and 12 poorly.

`ANCHORS` are of another source: zero-shot accuracy on XNLI of a multilingual BERT with nothing frozen.
"""

from collections.abc import Mapping

ABOUT = "Jexus (2020), Which layer preserves the best cross-lingual representations in multilingual BERT?"
BEST, DEPTH = 8, 12  # the N of the best accuracy, of how many blocks
NEAR = 1  # layers to either side that still count as near
NOTHING_FROZEN = -1

# BERT-Base, Multilingual Uncased, zero-shot from English: github google-research/bert, multilingual.md
ANCHORS: Mapping[str, float] = {
    "en": 0.814, "zh": 0.638, "es": 0.743, "de": 0.705, "ar": 0.621, "ur": 0.583,
}  # fmt: skip
ANCHOR_SOURCE = "multilingual BERT (uncased), by its authors, everything trained on all of MultiNLI"


def plan_of(point: int) -> str:
    """The plan that freezes embeddings and blocks 1 to `point`; 0 embeddings only, -1 nothing.

    >>> plan_of(8), plan_of(-1)
    ('freeze:8', 'freeze:-1')
    """
    return f"freeze:{point}"


def near_best(depth: int) -> range:
    """The N that count as near the post's best: 7 to 9 of 12 blocks, and as high up in a model of another depth.

    >>> list(near_best(12)), list(near_best(3))
    ([7, 8, 9], [1, 2])
    """
    middle = round(BEST * depth / DEPTH)
    return range(max(0, middle - NEAR), min(depth - 1, middle + NEAR) + 1)
