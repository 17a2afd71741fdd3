"""What each scale of the paper is: models, languages, amounts of text, and settings of every training.

The paper's own settings could not be read. What aligning leaves open is filled as `isogloss align` says, from MoCo and
InfoXLM; fine-tuning on inference as in `jexus2020`, on questions as XTREME has it for mBERT: 3e-5, batches of 32 of 384
tokens. `mini` sees fewer pairs than the paper's models by a factor of hundreds, so that its queue is shorter and its
momentum lower: with 0.999 the second encoder would still be near its start after a thousand updates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isogloss.papers.pan2021.published import AMOUNTS, BEFORE, BOTH, CONTRASTIVE, SEARCH, TLM, UNSHUFFLED

XNLI = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
AT_THE_END = 1_000_000  # updates between scores: what is scored is the model after its last update
SWITCH = 0.5
H200 = "an mBERT-shaped model on one H200"
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    BOTH: {},
    TLM: {"contrastive": 0.0},
    CONTRASTIVE: {"tlm": 0.0},
    UNSHUFFLED: {"shuffle": False},
    SEARCH: {"tlm": 0.0, "pool": "mean", "projection": "none", "negatives": "batch"},
}


@dataclass(frozen=True)
class Scale:
    """Settings of one scale.

    aligned: languages that are aligned with the source. tested: those of XNLI; asked, asked_too: of XQuAD, of MLQA.
    dutch: whether SICK-NL is there. amounts: shares of the parallel text, by their names. answering: alignments whose
    models are trained on questions. pairs, train, questions, compared, evaluated: most pairs of a source of parallel
    text, pairs of MultiNLI, questions of SQuAD, sentences of XNLI to map, sentences for perplexity. align, longer, nli,
    qa: options of trainings; `longer` of the alignment for search. seconds: an update of align, of inference and of
    questions, one job alone; tokens: of a pair, of an example of inference, of a window.
    """

    source: str
    aligned: tuple[str, ...]
    tested: tuple[str, ...]
    asked: tuple[str, ...]
    asked_too: tuple[str, ...]
    amounts: Mapping[str, float]
    align: Mapping[str, Any]
    longer: Mapping[str, Any]
    nli: Mapping[str, Any]
    qa: Mapping[str, Any]
    train: int
    questions: int
    compared: int
    evaluated: int
    model: str | None = None
    dutch: bool = False
    pairs: int | None = None
    chosen: int = 500
    answering: tuple[str, ...] = (BEFORE, BOTH, SEARCH)
    known: int = 0
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    weights: float = 0.0
    seconds: tuple[float, float, float] = (0.1, 0.03, 0.06)
    tokens: tuple[float, float, float] = (60.0, 45.0, 250.0)
    basis: str = H200

    @property
    def alignments(self) -> dict[str, dict[str, Any]]:
        """Options of every alignment by its name."""
        found = {name: {**self.align, **own} for name, own in OPTIONS.items()}
        found[SEARCH] |= self.longer
        return {BOTH: found.pop(BOTH), **{name: dict(self.align) for name in self.amounts}, **found}


PRETRAINING = {
    "architecture": "modernbert", "depth": 3, "width": 32, "heads": 2, "length": 64, "batch": 32, "rate": 1e-2,
    "warm_up": 10, "steps": 60, "report": 20, "probe": 1000, "checkpoint": 1000, "held_out": 0.05, "vocabulary": 300,
}  # fmt: skip
SCALES = {
    "smoke": Scale(
        "qaa", ("qab", "qac"), ("qab", "qac"), ("qab", "qac"), ("qab",), AMOUNTS,
        align={"batch": 16, "queue": 64, "steps": 20, "rate": 2e-3, "warm_up": 2, "projection_width": 16,
               "momentum": 0.9, "length": 48},
        longer={"steps": 30}, nli={"epochs": 1, "batch": 16, "rates": "5e-3"},
        qa={"epochs": 1, "batch": 16, "rates": "5e-3", "length": 64},
        train=48, questions=48, compared=60, evaluated=40, pairs=240, chosen=12, known=400, pretraining=PRETRAINING,
        weights=0.05e6, seconds=(0.02, 0.01, 0.01), tokens=(22, 20, 40), basis="one core of an AMD EPYC",
    ),
    "mini": Scale(
        "en", ("nl", "de", "fr", "es", "ru", "zh"), ("de", "fr", "es", "ru", "zh"), ("de", "es", "ru", "zh"),
        ("de", "es", "zh"), AMOUNTS,
        align={"batch": 384, "queue": 32 * 384, "steps": 1000, "rate": 2e-4, "warm_up": 100, "momentum": 0.99,
               "length": 128},
        longer={"steps": 2000}, nli={"epochs": 3, "batch": 32, "rates": "1e-4"},
        qa={"epochs": 2, "batch": 32, "rates": "1e-4"},
        train=20_000, questions=20_000, compared=3_000, evaluated=1_000, model="mini", dutch=True, pairs=12_000,
        weights=33.7e6, seconds=(0.035, 0.025, 0.04), tokens=(38, 45, 220),
        basis="alignments as measured on one H200 with --compiled, without it 1.8 times that; the others a guess",
    ),
    "paper": Scale(
        "en", XNLI, XNLI, ("ar", "de", "el", "es", "hi", "ru", "th", "tr", "vi", "zh"),
        ("ar", "de", "es", "hi", "vi", "zh"), {"12.5%": 0.125, "30%": 0.3},
        align={"batch": 128, "queue": 65_536, "steps": 100_000, "rate": 5e-5, "warm_up": 4_000, "momentum": 0.999,
               "length": 192},
        longer={}, nli={"epochs": 3, "batch": 32, "rates": "5e-5"},
        qa={"epochs": 3, "batch": 32, "rates": "3e-5", "weight_decay": 1e-4, "warm_up": 0.06},
        train=392_702, questions=87_599, compared=9_999, evaluated=5_000, model="bert-base-multilingual-cased",
        pairs=2_000_000, weights=178e6, seconds=(0.2, 32 / 1749, 0.12),
    ),
}  # fmt: skip
