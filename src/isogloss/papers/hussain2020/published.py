"""The numbers of Hussain & Dudev (2020), each with its source, and the rows of ours they stand beside.

What the paper prints is in `TABLE_1` and `TABLE_2`. What its figures show was worked out from the files released with
its code (github AmanDaVinci/X-Lingual-Transfer-Learning): `LOGGED` from `results/finetune_bert`, `DISTANCES` from
`report/data/*_diff.csv`. The released code takes perplexity on 32 sentences, redraws their masks each time, and keeps
the worst model as the best, and its three runs share every time stamp: their spread is no spread over seeds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ALL, GRADUAL, LAST_6, LAST_3, LAST_1 = "last:12", "unfreeze:4/epoch", "last:6", "last:3", "last:1"
PLANS = {
    ALL: "all 12 layers",
    GRADUAL: "gradual unfreezing",
    LAST_6: "last 6 layers",
    LAST_3: "last 3 layers",
    LAST_1: "last layer",
}
UNTUNED = "untuned"
EPOCHS = 3
FEW = "validation, first "  # how drift names the batch of 16 sentences, which is what the paper measures distances on

# step -> (Dutch, its s.d.), (the other languages, their s.d.)
TABLE_1: Mapping[int, tuple[tuple[float, float], tuple[float, float]]] = {
    1: ((11.54, 1.28), (6.08, 0.33)),
    501: ((7.76, 0.86), (10.39, 0.69)),
    1501: ((5.56, 0.56), (22.45, 1.60)),
}
# plan -> (Dutch test perplexity, loss)
TABLE_2: Mapping[str, tuple[float, float]] = {
    ALL: (7.342, 1.994),
    LAST_6: (9.045, 2.202),
    LAST_3: (14.159, 2.650),
    LAST_1: (16.110, 2.779),
    GRADUAL: (8.950, 2.192),
    UNTUNED: (23.547, 3.159),  # of BERTje, the native model
}
# step -> Dutch, the other languages: further points of the first experiment, means of the released logs
LOGGED: Mapping[int, tuple[float, float]] = {
    51: (8.57, 5.62),
    101: (8.00, 4.04),
    151: (7.45, 4.81),
    201: (6.53, 5.07),
    251: (4.13, 5.24),
    301: (6.52, 6.07),
    401: (5.75, 10.44),
    1001: (7.52, 13.36),
    2001: (7.03, 28.0),
    5001: (5.38, 525.0),
}
CROSSING = 200  # "about", by the paper; between 201 and 301 in the logs
# plan -> block -> L2 to BERTje at the first and the last logged step
DISTANCES: Mapping[str, Mapping[int, tuple[float, float]]] = {
    ALL: {
        1: (30.64, 30.29), 4: (32.42, 33.54), 6: (34.83, 34.38), 8: (35.15, 35.06),
        9: (36.75, 36.27), 10: (39.13, 38.13), 11: (41.08, 39.85), 12: (27.66, 28.60),
    },
    GRADUAL: {
        1: (29.58, 29.51), 4: (32.12, 31.68), 6: (34.77, 34.30), 8: (34.96, 34.94),
        9: (36.36, 36.19), 10: (39.08, 38.19), 11: (41.22, 39.60), 12: (26.89, 27.83),
    },
    LAST_6: {
        1: (29.72, 29.62), 4: (32.16, 32.13), 6: (34.82, 34.79), 8: (35.03, 35.03),
        9: (36.39, 36.50), 10: (38.94, 38.66), 11: (40.93, 40.26), 12: (26.79, 27.36),
    },
    LAST_1: {
        1: (29.81, 29.56), 4: (32.19, 32.13), 6: (34.83, 34.76), 8: (35.03, 34.96),
        9: (36.41, 36.35), 10: (39.17, 39.06), 11: (41.29, 41.16), 12: (27.12, 27.93),
    },
}  # fmt: skip


@dataclass(frozen=True)
class Published:
    """A published value, where it was published, and the coordinates of the rows it stands beside."""

    value: float
    source: str
    where: Mapping[str, Any]


def published(language: str, native: str, last: Mapping[str, int]) -> Iterator[Published]:
    """Every number with its rows: language is the one tuned on, native the native model, last the last step by plan.

    The paper logs from step 1 on, after one update; our first reading is step 0, before any.
    """
    for step, ((target, _), (others, _)) in TABLE_1.items():
        at = {"measure": "perplexity", "unit": "token", "variant": ALL, "step": step - 1}
        yield Published(target, "Table 1", {**at, "target": language, "data": "validation"})
        yield Published(others, "Table 1", {**at, "target": "others"})
    for plan, (perplexity, _) in TABLE_2.items():
        at = {"measure": "perplexity", "unit": "token", "variant": plan, "data": "test"}
        yield Published(perplexity, "Table 2", {**at, "model": native} if plan == UNTUNED else at)
    for plan, blocks in DISTANCES.items():
        for block, ends in blocks.items():
            for logged, value in zip((0, last.get(plan)), ends, strict=True):
                at = {"measure": "l2_drift", "other_model": native, "variant": plan, "layer": block, "step": logged}
                yield Published(value, "released data of the figures", {**at, "data": FEW})
