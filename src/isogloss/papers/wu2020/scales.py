"""What each scale of the paper is: languages, models, text and settings of every part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isogloss.papers.wu2020.published import AGAIN, DEPTH, ENGLISH, TABLE_1

# Which options of pretrain make a variant; pieces: how languages share them, which decides the packed text.
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "Default": {},
    "Wiki-CC": {},
    "No anchors": {"anchors": "none"},
    "Default anchors": {"vocabularies": "separate"},
    "Extra anchors": {"anchors": "extra"},
    "Sep Emb": {"separate": "embeddings"},
    "Sep L1-3": {"separate": "1-3"},
    "Sep L1-6": {"separate": "1-6"},
    "Sep Emb + L1-3": {"separate": "embeddings+1-3"},
    "Sep Emb + L1-6": {"separate": "embeddings+1-6"},
}
assert set(VARIANTS) == set(TABLE_1)
# What is of each language's own is frozen in fine-tuning; a plan that freezes blocks freezes the embeddings with them.
FREEZING: Mapping[str, int] = {"embeddings": 0, "1-3": 3, "1-6": 6, "embeddings+1-3": 3, "embeddings+1-6": 6}
HELD_OUT = 0.03  # by the places of paragraphs, of which mini_text.py sets the first 0.02 aside: a hundredth is left
# Sources of mini_text.py that are translations of each other, which no model here may be pretrained on.
PARALLEL = ("europarl", "libreoffice", "godot_docs", "python_docs", "qgis_docs")


@dataclass(frozen=True)
class Scale:
    """Settings of one scale.

    source, again, targets: English, English a second time, the other languages. repeated: the target whose models, and
    the source's, have several seeds. compared: targets of Table 1, of which `variants` are run. learned: data that maps
    are learned from and languages compared on, by target, others take XNLI; of each `pairs` sentences at most.
    treebanks: by language. text: bytes of text of each language to pretrain on, None for all there is; words: bytes
    that type vectors are averaged over. examples, tested: most sentences to train tasks on, of a test set; inferred:
    pairs of NLI to train on. shape, training: of pretraining, vocabulary: pieces of a bilingual model, half for one
    language. stitched, looked_up, tuned: settings of stitch, lexicon and transfer. made: languages are invented. The
    rest is for the estimate: tokens a second in pretraining, seconds that every model takes besides, seconds of an
    update of a task, weights.
    """

    source: str
    again: str
    targets: tuple[str, ...]
    repeated: str
    compared: tuple[str, ...]
    treebanks: Mapping[str, str]
    shape: Mapping[str, Any]
    training: Mapping[str, Any]
    vocabulary: int
    learned: Mapping[str, str] = field(default_factory=dict)
    variants: tuple[str, ...] = tuple(VARIANTS)
    pairs: int = 10_000
    text: int | None = None
    words: int | None = None
    examples: int | None = None
    tested: int | None = None
    inferred: int = 10**9
    stitched: Mapping[str, Any] = field(default_factory=dict)
    looked_up: Mapping[str, Any] = field(default_factory=dict)
    tuned: Mapping[str, Any] = field(default_factory=dict)
    made: bool = False
    rate: float = 1.0
    overhead: float = 0.0
    update: float = 0.0
    weights: float = 0.0
    basis: str = ""

    @property
    def steps(self) -> int:
        """Updates of a pretraining."""
        return int(self.training["steps"])

    @property
    def pair_targets(self) -> tuple[str, ...]:
        """Everything that the source is compared with."""
        return (self.again, *self.targets)


H200 = "an estimate for one H200, from 1.9 million tokens/s that a model of 12 x 384 with 32,000 pieces trains at"
MEASURED = "measured on one H200, nine models of 8 x 256 at a time, batches of 128 streams, their start included"
SCALES = {
    "smoke": Scale(
        "qaa", "qaa2", ("qab",), "qab", ("qab",), {"qaa": "home", "qab": "home"},
        shape={"architecture": "modernbert", "depth": DEPTH, "width": 16, "heads": 2, "length": 32},
        training={"steps": 20, "batch": 8, "rate": 1e-2, "warm_up": 2, "report": 8, "probe": 1000, "checkpoint": 1000,
                  "held_out": 0.05},
        vocabulary=300,
        variants=("Default", "No anchors", "Default anchors", "Extra anchors", "Sep Emb", "Sep L1-6"), pairs=60,
        text=9_000, words=6_000, examples=24, tested=16, inferred=24,
        stitched={"layers": "0,4,8", "epochs": 1, "batch": 8, "rate": 5e-3, "pairs": 200, "fresh": 1},
        looked_up={"vocabulary": 200, "least": 1},
        tuned={"epochs": 1, "batch": 8, "rates": "5e-3"},
        made=True, rate=2e4, overhead=0.6, update=0.03, weights=0.03e6, basis="one core of an AMD EPYC",
    ),
    "mini": Scale(
        ENGLISH, AGAIN, ("fr", "de", "ru", "zh", "nl"), "fr", ("fr", "ru"),
        {"en": "ewt", "fr": "gsd", "de": "gsd", "ru": "gsd", "zh": "gsdsimp", "nl": "lassysmall"},
        shape={"architecture": "modernbert", "depth": DEPTH, "width": 256, "heads": 4, "length": 128},
        training={"steps": 6_000, "batch": 128, "rate": 1e-3, "warm_up": 600, "mask_share": 0.3, "report": 500,
                  "probe": 100_000, "checkpoint": 100_000, "held_out": HELD_OUT, "store": "float16"},
        vocabulary=20_000, learned={"nl": "tatoeba_train"}, text=20_000_000, words=20_000_000, examples=2_000,
        tested=250, inferred=20_000,
        stitched={"epochs": 3, "batch": 32, "rate": 5e-4, "pairs": 20_000, "checkpoint": 100_000},
        looked_up={"sentences": 250_000, "vocabulary": 20_000},
        tuned={"epochs": 3, "batch": 32, "rates": "2e-4", "checkpoint": 100_000},
        rate=2.45e6, overhead=0.0, update=0.012, weights=11.4e6, basis=MEASURED,
    ),
    "paper": Scale(
        ENGLISH, AGAIN, ("fr", "de", "ru", "zh"), "fr", ("fr", "ru", "zh"),
        {"en": "ewt", "fr": "gsd", "de": "gsd", "ru": "gsd", "zh": "gsd"},
        shape={"architecture": "bert", "depth": DEPTH, "width": 768, "heads": 12, "dropout": 0.1, "length": 256},
        training={"steps": 52_000, "batch": 768, "rate": 1e-4, "warm_up": 30_000, "decay": "inverse-sqrt",
                  "probe": 5_000, "checkpoint": 2_000},
        vocabulary=80_000, stitched={"epochs": 10, "batch": 32, "rate": 5e-5},
        looked_up={"sentences": 500_000}, tuned={"epochs": 10, "batch": 32, "rates": "2e-5,3e-5,5e-5"},
        rate=0.6e6, overhead=60.0, update=0.03, weights=118e6, basis=H200,
    ),
}  # fmt: skip
