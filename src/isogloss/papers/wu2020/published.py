"""The numbers of Conneau, Wu, Li, Zettlemoyer & Stoyanov (2020), as printed, and the names of what they are of.

Figure 7 and Table 1 are printed as numbers; Figures 4, 5, 6 and 8 are graphics only, so nothing stands beside what is
measured for them. Similarities are between 0 and 1; scores are in points here, and shares of one in the rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ABOUT = "Conneau, Wu, Li, Zettlemoyer & Stoyanov (2020), Emerging cross-lingual structure in pretrained language models"
BILINGUAL, MONOLINGUAL, RANDOM = "bilingual", "monolingual", "random"
KINDS = (BILINGUAL, MONOLINGUAL, RANDOM)
DEPTH = 8
ENGLISH, AGAIN = "en", "en2"  # AGAIN: English as a second language, en' in the paper

# pair with English -> layer 0 to 8 -> bilingual, monolingual, random
FIGURE_7: Mapping[str, tuple[tuple[float, float, float], ...]] = {
    AGAIN: (
        (0.76, 0.75, 0.52), (0.75, 0.77, 0.60), (0.74, 0.74, 0.58), (0.75, 0.71, 0.58), (0.73, 0.66, 0.60),
        (0.69, 0.58, 0.52), (0.64, 0.48, 0.44), (0.48, 0.24, 0.32), (0.55, 0.40, 0.30),
    ),
    "fr": (
        (0.61, 0.65, 0.46), (0.74, 0.71, 0.55), (0.71, 0.70, 0.52), (0.73, 0.70, 0.53), (0.73, 0.64, 0.55),
        (0.72, 0.59, 0.48), (0.71, 0.50, 0.41), (0.67, 0.34, 0.31), (0.62, 0.40, 0.28),
    ),
    "de": (
        (0.66, 0.64, 0.46), (0.76, 0.70, 0.54), (0.72, 0.69, 0.52), (0.73, 0.69, 0.54), (0.73, 0.63, 0.56),
        (0.74, 0.60, 0.49), (0.70, 0.52, 0.42), (0.60, 0.39, 0.31), (0.64, 0.43, 0.28),
    ),
    "ru": (
        (0.56, 0.56, 0.42), (0.67, 0.65, 0.50), (0.64, 0.63, 0.47), (0.65, 0.64, 0.48), (0.65, 0.61, 0.50),
        (0.64, 0.56, 0.44), (0.63, 0.50, 0.37), (0.60, 0.34, 0.29), (0.50, 0.39, 0.26),
    ),
    "zh": (
        (0.56, 0.60, 0.44), (0.65, 0.67, 0.51), (0.61, 0.65, 0.49), (0.59, 0.64, 0.50), (0.58, 0.60, 0.52),
        (0.59, 0.56, 0.46), (0.57, 0.51, 0.39), (0.50, 0.37, 0.30), (0.51, 0.40, 0.27),
    ),
}  # fmt: skip
# the last line of the figure, as printed
FIGURE_7_MEANS: Mapping[str, tuple[float, float, float]] = {
    AGAIN: (0.68, 0.59, 0.50), "fr": (0.69, 0.58, 0.46), "de": (0.70, 0.59, 0.46), "ru": (0.62, 0.54, 0.41),
    "zh": (0.57, 0.56, 0.43),
}  # fmt: skip

DEFAULT, CRAWL = "Default", "Wiki-CC"
TASKS = {"nli": "accuracy", "ner": "span_f1", "parsing": "las"}
NAMES = {"nli": "XNLI", "ner": "NER", "parsing": "parsing"}
TABLE_1_TARGETS = ("fr", "ru", "zh")
# variant -> task -> scores in French, Russian and Chinese, and the difference of their mean to Default
TABLE_1: Mapping[str, Mapping[str, tuple[tuple[float, float, float], float]]] = {
    DEFAULT: {"nli": ((73.6, 68.7, 68.3), 0.0), "ner": ((79.8, 60.9, 63.6), 0.0), "parsing": ((73.2, 56.6, 28.8), 0.0)},
    CRAWL: {
        "nli": ((74.2, 65.8, 66.5), -1.4), "ner": ((74.0, 49.6, 61.9), -6.2), "parsing": ((71.3, 54.8, 25.2), -2.5),
    },
    "No anchors": {
        "nli": ((72.1, 67.5, 67.7), -1.1), "ner": ((74.0, 57.9, 65.0), -2.4), "parsing": ((72.3, 56.2, 27.4), -0.9),
    },
    "Default anchors": {
        "nli": ((74.0, 68.1, 68.9), 0.1), "ner": ((76.8, 56.3, 61.2), -3.3), "parsing": ((73.0, 57.0, 28.3), -0.1),
    },
    "Extra anchors": {
        "nli": ((74.0, 69.8, 72.1), 1.8), "ner": ((76.1, 59.7, 66.8), -0.5), "parsing": ((73.3, 56.9, 29.2), 0.3),
    },
    "Sep Emb": {
        "nli": ((72.7, 63.6, 60.8), -4.5), "ner": ((75.5, 57.5, 59.0), -4.1), "parsing": ((71.7, 54.0, 27.5), -1.8),
    },
    "Sep L1-3": {
        "nli": ((72.4, 65.0, 63.1), -3.4), "ner": ((74.0, 53.3, 60.8), -5.3), "parsing": ((69.7, 54.1, 26.4), -2.8),
    },
    "Sep L1-6": {
        "nli": ((61.9, 43.6, 37.4), -22.6), "ner": ((61.2, 23.7, 3.1), -38.7), "parsing": ((61.7, 31.6, 12.0), -17.8),
    },
    "Sep Emb + L1-3": {
        "nli": ((69.2, 61.7, 56.4), -7.8), "ner": ((73.8, 46.8, 53.5), -10.0), "parsing": ((68.2, 53.6, 23.9), -4.3),
    },
    "Sep Emb + L1-6": {
        "nli": ((51.6, 35.8, 34.4), -29.6), "ner": ((56.5, 5.4, 1.0), -47.1), "parsing": ((50.9, 6.4, 1.5), -33.3),
    },
}  # fmt: skip
PEARSON = 0.9  # correlation of CKA and retrieval over layers: "> 0.9 for all language pairs"


@dataclass(frozen=True)
class Published:
    """A printed value, and the coordinates of the row it stands beside."""

    value: float
    where: Mapping[str, Any]


def published() -> Iterator[Published]:
    """Every number with its row: CKA as printed, by layer, and the scores of bilingual models in shares."""
    for target, layers in FIGURE_7.items():
        for layer, values in enumerate(layers):
            for kind, value in zip(KINDS, values, strict=True):
                yield Published(value, {"part": "cka", "model": kind, "target": target, "layer": layer})
    for variant, tasks in TABLE_1.items():
        for task, (scores, _) in tasks.items():
            for target, score in zip(TABLE_1_TARGETS, scores, strict=True):
                at = {"part": "table-1", "variant": variant, "task": task, "target": target}
                yield Published(score / 100, at)
