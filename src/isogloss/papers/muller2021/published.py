"""The numbers of Muller, Elazar, Sagot & Seddah (2021), and the names of what they are of.

None of them could be checked against the printed paper. They are recalled from its main table, approximate, and good
for their order of magnitude alone: wherever they are shown, that is said beside them. Here in points; rows hold shares
of one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from isogloss.recipes.task_scores import OTHERS

ABOUT = "Muller, Elazar, Sagot & Seddah (2021), First align, then predict"
RECALLED = "recalled, approximate"
REFERENCE = "freeze:-1"
PAIRS = tuple(f"reinit:{first}-{first + 1}" for first in range(1, 12, 2))
PLANS = {REFERENCE: "reference", **{plan: plan.removeprefix("reinit:") for plan in PAIRS}}
TASKS = {"parsing": "las", "pos": "accuracy", "ner": "span_f1"}
NAMES = {"parsing": "parsing", "pos": "POS", "ner": "NER"}
SOURCE = "en"  # of the numbers below

# task -> (score of the reference, difference to it for each pair): English to English, then to the others
TABLE_1: Mapping[str, tuple[tuple[float, tuple[float, ...]], tuple[float, tuple[float, ...]]]] = {
    "parsing": ((89.0, (-1.0, -0.7, -0.9, -0.6, 0.0, -0.1)), (53.2, (-15.8, -6.5, -3.4, -1.5, 0.3, 1.0))),
    "pos": ((96.5, (-0.3, -0.3, -0.4, 0.0, 0.0, 0.0)), (79.4, (-8.9, -2.5, -1.7, -0.9, 0.2, -0.1))),
    "ner": ((83.3, (-2.7, -2.1, -1.4, -0.6, -0.2, -0.1)), (64.2, (-8.3, -5.1, -3.1, -0.8, -0.4, -0.2))),
}

CHANGE = "change"  # score under a plan less that of the reference, seed by seed
RELATION = "gap_similarity"  # rank correlation of gap and similarity over targets
UNSEEN = "unseen"  # the mean over languages that the model was not pretrained on
DOMAINS = "other domains"


@dataclass(frozen=True)
class Published:
    """A recalled value, and the coordinates of the row it stands beside."""

    value: float
    where: Mapping[str, Any]


def published() -> Iterator[Published]:
    """Every number with its row: of the means over seeds, from English, to English and to the mean of the others."""
    for task, sides in TABLE_1.items():
        for target, (score, changes) in zip((SOURCE, OTHERS), sides, strict=True):
            at = {"task": task, "source": SOURCE, "target": target}
            yield Published(score / 100, {**at, "measure": TASKS[task], "variant": REFERENCE})
            for plan, change in zip(PAIRS, changes, strict=True):
                yield Published(change / 100, {**at, "measure": CHANGE, "variant": plan})
