"""What each scale of the paper is: models, languages, treebanks and settings, and the files that follow from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from isogloss.papers.muller2021.texts import Piece

MINI = ("en", "nl", "de", "fr", "es", "ru", "zh")
PUD = ("en", "fr", "de", "ru", "tr", "id", "ar", "pt", "es", "fi", "it", "sv", "cs", "pl", "hi", "zh", "ko", "ja", "th")
ICELANDIC = "is"  # half of its parallel sentences are others, so it is tested and not compared
# Languages a model was pretrained on, where it is not all that are tested.
KNOWN: Mapping[str, tuple[str, ...]] = {"mini": MINI}
PRETRAINING = {
    "architecture": "modernbert", "depth": 12, "width": 32, "heads": 2, "length": 32, "batch": 32, "rate": 1e-2,
    "warm_up": 10, "report": 20, "probe": 1000, "checkpoint": 1000, "held_out": 0.05, "vocabulary": 300, "steps": 60,
}  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """Settings of one scale.

    treebanks: the treebank each source of parsing and POS is trained on. entities: sources of NER, which are each
    other's targets. pud: languages tested on parallel treebanks, and compared there. domains: further treebanks of a
    language, the first of them standing in where it has no parallel one. examples, tested, compared: most sentences to
    train on, of a test set, and to compare languages on. step, read and basis are for the estimate: seconds an update,
    sentences a second in evaluation.
    """

    treebanks: Mapping[str, str]
    entities: tuple[str, ...]
    tagged: tuple[str, ...]
    pud: tuple[str, ...]
    unseen: tuple[str, ...] = ()
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    model: str | None = None
    examples: int | None = None
    tested: int | None = None
    compared: int | None = None
    epochs: int = 3
    batch: int = 32
    rate: float = 5e-5
    legacy: str = "windows,batch-200"
    checkpoint: int = 10_000
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    weights: float = 0.0
    tokens: float = 0.0
    step: float = 0.0
    read: float = 1.0
    basis: str = ""


SCALES = {
    "smoke": Scale(
        {"qaa": "home"}, ("qaa",), ("qaa", "qab", "qac"), ("qaa", "qab", "qac"), domains={"qaa": ("home",)},
        examples=48, tested=24, compared=24, epochs=2, batch=8, rate=5e-3, legacy="windows", pretraining=PRETRAINING,
        weights=0.17e6, tokens=12, step=0.04, read=500, basis="one core of an AMD EPYC",
    ),
    "mini": Scale(
        {"en": "ewt", "nl": "lassysmall", "fr": "sequoia"}, MINI, MINI,
        tuple(one for one in PUD if one in MINI), tuple(one for one in (*PUD, ICELANDIC) if one not in MINI),
        {"en": ("ewt", "gum"), "nl": ("lassysmall", "alpino"), "fr": ("sequoia", "gsd", "parisstories"),
         "de": ("gsd", "lit"), "es": ("gsd",), "ru": ("gsd", "taiga"), "zh": ("gsdsimp", "beginner")},
        model="mini", examples=4000, tested=500, compared=1000, rate=1e-4,
        sizes={"fr": 2231}, weights=33.5e6, tokens=30, step=0.03, read=3000,
        basis="an mBERT-shaped model on one H200, which a smaller one will not exceed; several at a time share it",
    ),
    "paper": Scale(
        {"en": "ewt", "ru": "gsd", "ar": "padt"}, ("en", "ru", "ar"), PUD, PUD, domains={"en": ("ewt", "gum")},
        model="bert-base-multilingual-cased", sizes={"en": 12_544, "ru": 3850, "ar": 6075, "ner": 20_000},
        weights=178e6, tokens=35, step=0.036, read=2000, checkpoint=5000, basis="an mBERT-shaped model on one H200",
    ),
}  # fmt: skip


def treebank_sets(scale: Scale, source: str) -> Iterator[Piece]:
    """What parsing and POS from one source take: train, dev, then tests, the first of each language its main one."""
    home, half = f"{source}_{scale.treebanks[source]}", None if scale.tested is None else scale.tested // 2
    yield Piece(f"{home}.train", source, "treebanks", (f"{home}-ud-train*.conllu",), scale.examples)
    yield Piece(f"{home}.dev", source, "treebanks", (f"{home}-ud-dev.conllu",), half)
    others = dict.fromkeys((*scale.treebanks, *scale.domains, *scale.pud))
    for language in [source, *(one for one in others if one != source)]:
        named = [f"{language}_{name}" for name in scale.domains.get(language, ())]
        parallel = [f"{language}_pud"] if language in scale.pud else []
        order = [*dict.fromkeys([home, *named]), *parallel] if language == source else [*parallel, *named]
        for number, name in enumerate(order):
            kind = "pud" if name in parallel else "treebanks"
            main = kind == "pud" or name == f"{language}_{scale.treebanks.get(language)}"
            most = scale.tested if main else half
            yield Piece(name, language, kind, (f"{name}-ud-test.conllu",), most, optional=number > 0)
    for language in scale.unseen:
        name = f"{language}_pud"
        yield Piece(name, language, "pud", (f"{name}-ud-test.conllu",), half, optional=True)


def entity_sets(scale: Scale, source: str) -> Iterator[Piece]:
    """What NER from one source takes: train, dev, then a test of each language, half of dev where there is no test."""
    half = None if scale.tested is None else scale.tested // 2
    yield Piece(f"{source}_wikiann.train", source, "entities", (f"train-{source}.tsv",), scale.examples)
    yield Piece(f"{source}_wikiann.dev", source, "entities", (f"dev-{source}.tsv",), half, "dev")
    for language in [source, *(one for one in scale.tagged if one != source)]:
        files = (f"test-{language}.tsv", f"dev-{language}.tsv")
        yield Piece(f"{language}_wikiann", language, "entities", files, scale.tested, "test")
