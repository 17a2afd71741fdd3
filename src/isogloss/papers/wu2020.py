"""Conneau, Wu, Li, Zettlemoyer & Stoyanov (2020): how alike models of different languages are, and what they share.

Models of one language and of two are pretrained on the spot, from text that is packed by jobs of their own
(`part=pack`, for a machine without a GPU); then each part of the paper reads them: `rotate` (Figures 7 and 6), `stitch`
(5), `lexicon` (4) and `transfer` (Table 1). Figure 7 and Table 1 are printed as numbers (`published/wu2020.csv`);
Figures 4, 5, 6 and 8 are graphics only, so nothing stands beside what is measured for them.

Intervals are over whatever there are several of: pairs of languages for what is said of languages, seeds of task heads
for transfer, sentences or words for what is looked up.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from isogloss.errors import InputError
from isogloss.figure import NOTHING, Figure, Line, Panel, Table, number, percent, signed
from isogloss.measures.statistics import Interval, correlation
from isogloss.papers.jexus2020 import as_lines, pair_table
from isogloss.papers.paper import (
    EPYC,
    Outline,
    Paper,
    Request,
    Texts,
    data_file,
    join_jobs,
    lowest_hashed,
    scale_of,
)
from isogloss.papers.results import (
    LEAST,
    Claim,
    Contrast,
    Curves,
    NotMeasured,
    Results,
    Seeds,
    Side,
    above,
    all_of,
    below,
    cell,
    contrast,
    decimals,
    less,
    mean_by_seed,
    mean_over,
    needed,
    over_seeds,
    published,
    seed_mean_rows,
    share_cell,
)
from isogloss.papers.treebanks import (
    SEED,
    Folders,
    TaskFile,
    cut_file,
    existing,
    folder_of,
    invented_file,
    invented_sets,
)
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import Option
from isogloss.recipes.stitch import RANDOM as ANY_ROTATION
from isogloss.recipes.stitch import STITCHED, UNMAPPED
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import Row, records, row
from isogloss.text import read_bitext, read_bitexts
from isogloss.text.catalog import data_dir, find_lexicon
from isogloss.text.corpora import Bitext, paraphrases
from isogloss.text.invented import invented, invented_lexicon
from isogloss.text.readers.inference import NLI, read_pairs
from isogloss.text.readers.lines import language_of, read_lines
from isogloss.text.sampling import hash_fraction
from isogloss.text.streams import paragraphs

ABOUT = "Conneau, Wu, Li, Zettlemoyer & Stoyanov (2020), Emerging cross-lingual structure in pretrained language models"
PUBLISHED = published("wu2020")
BILINGUAL, MONOLINGUAL, RANDOM, STATIC = "bilingual", "monolingual", "random", "static"
KINDS = (BILINGUAL, MONOLINGUAL, RANDOM)
DEPTH = 8
ENGLISH, AGAIN = "en", "en2"  # AGAIN: English as a second language, en' in the paper
DEFAULT, CRAWL = "Default", "Wiki-CC"
TASKS = {"nli": "accuracy", "ner": "span_f1", "parsing": "las"}
NAMES = {"nli": "XNLI", "ner": "NER", "parsing": "parsing"}
STITCHED_TASKS = ("ner", "parsing")
MAPPINGS = "raw,centred,procrustes,procrustes+iterative"
# Which options of pretrain make a row of Table 1.
VARIANTS: Mapping[str, Mapping[str, str]] = {
    DEFAULT: {},
    CRAWL: {},
    "No anchors": {"anchors": "none"},
    "Default anchors": {"vocabularies": "separate"},
    "Extra anchors": {"anchors": "extra"},
    "Sep Emb": {"separate": "embeddings"},
    "Sep L1-3": {"separate": "1-3"},
    "Sep L1-6": {"separate": "1-6"},
    "Sep Emb + L1-3": {"separate": "embeddings+1-3"},
    "Sep Emb + L1-6": {"separate": "embeddings+1-6"},
}
# What is of each language's own is frozen in fine-tuning; a plan that freezes blocks freezes the embeddings with them.
FREEZING = {"embeddings": 0, "1-3": 3, "1-6": 6, "embeddings+1-3": 3, "embeddings+1-6": 6}
# Sources of mini_text.py that are translations of each other, which no model here may be pretrained on.
PARALLEL = ("europarl", "libreoffice", "godot_docs", "python_docs", "qgis_docs")
INFERRED = 4  # times as many pairs of a test of NLI as sentences of other tests: each has one answer only
KNOWN, ASKED = 400, 40  # invented sentences to pretrain on, and to look up


# ------------------------------------------------------------------------------------------------ the scales


@dataclass(frozen=True)
class WuScale:
    """Settings of one scale.

    source, again, targets: English, English a second time, the other languages. repeated: the target whose models, and
    the source's, have several seeds. tuned_targets: those of Table 1, of which `variants` are run. treebanks: by
    language. shape, training: options of pretraining besides `width`, `steps` and `batch`; vocabulary: pieces of a
    bilingual model, half for one language. learned: data that maps are learned from and languages compared on, by
    target, others take XNLI; of each `compared` sentences at most. text_bytes: of text of each language to pretrain on,
    None for all there is; words: bytes that type vectors are averaged over. examples, tested: most sentences to train
    tasks on, of a test set; inferred: pairs of NLI to train on. stitched, looked_up, tuned: options of stitch, lexicon
    and transfer. invented: whether the languages are. seconds: about how long a job takes, by its part; measured: on
    what.
    """

    source: str
    again: str
    targets: tuple[str, ...]
    repeated: str
    tuned_targets: tuple[str, ...]
    treebanks: Mapping[str, str]
    shape: Mapping[str, Any]
    training: Mapping[str, Any]
    width: int
    steps: int
    batch: int
    vocabulary: int
    stitched: Mapping[str, Any]
    looked_up: Mapping[str, Any]
    tuned: Mapping[str, Any]
    seconds: Mapping[str, float]
    measured: str
    learned: Mapping[str, str] = field(default_factory=dict)
    variants: tuple[str, ...] = tuple(VARIANTS)
    compared: int = 10_000
    text_bytes: int | None = None
    words: int | None = None
    examples: int | None = None
    tested: int | None = None
    inferred: int = 10**9
    invented: bool = False


SCALES = {
    "smoke": WuScale(
        source="qaa",
        again="qaa2",
        targets=("qab",),
        repeated="qab",
        tuned_targets=("qab",),
        treebanks={"qaa": "home", "qab": "home"},
        shape={"architecture": "modernbert", "depth": DEPTH, "heads": 2, "length": 32},
        training={"rate": 1e-2, "warm_up": 0.1, "report": 8, "probe": 1000, "checkpoint": 1000, "held_out": 0.05},
        width=16,
        steps=20,
        batch=8,
        vocabulary=300,
        stitched={"layers": "0,4,8", "epochs": 1, "batch": 8, "rate": 5e-3, "word_pairs": 200, "fresh_layers": 1},
        looked_up={"vocabulary": 200, "min_count": 1},
        tuned={"epochs": 1, "batch": 8, "rate": "5e-3"},
        seconds={"pretrain": 0.9, "stitch": 0.8, "transfer": 0.3},
        measured=f"as measured on {EPYC}",
        variants=(DEFAULT, "No anchors", "Default anchors", "Extra anchors", "Sep Emb", "Sep L1-6"),
        compared=60,
        text_bytes=9_000,
        words=6_000,
        examples=24,
        tested=16,
        inferred=24,
        invented=True,
    ),
    "mini": WuScale(
        source=ENGLISH,
        again=AGAIN,
        targets=("fr", "de", "ru", "zh", "nl"),
        repeated="fr",
        tuned_targets=("fr", "ru"),
        treebanks={"en": "ewt", "fr": "gsd", "de": "gsd", "ru": "gsd", "zh": "gsdsimp", "nl": "lassysmall"},
        shape={"architecture": "modernbert", "depth": DEPTH, "heads": 4, "length": 128},
        # held_out: by the hash of paragraphs, of which mini_text.py sets the first 0.02 aside, so a hundredth is left
        training={"rate": 1e-3, "warm_up": 0.1, "mask_share": 0.3, "report": 500, "probe": 100_000}
        | {"checkpoint": 100_000, "held_out": 0.03, "save_dtype": "float16"},
        width=256,
        steps=6_000,
        batch=128,
        vocabulary=20_000,
        stitched={"epochs": 3, "batch": 32, "rate": 5e-4, "word_pairs": 20_000, "checkpoint": 100_000},
        looked_up={"sample": 250_000, "vocabulary": 20_000},
        tuned={"epochs": 3, "batch": 32, "rate": "2e-4", "checkpoint": 100_000},
        seconds={"pretrain": 40, "stitch": 61, "transfer": 27},
        measured="as measured on one H200, nine models of 8 x 256 at a time; tasks share a GPU well, with --parallel",
        learned={"nl": "tatoeba_train"},
        text_bytes=20_000_000,
        words=20_000_000,
        examples=2_000,
        tested=250,
        inferred=20_000,
    ),
    "paper": WuScale(
        source=ENGLISH,
        again=AGAIN,
        targets=("fr", "de", "ru", "zh"),
        repeated="fr",
        tuned_targets=("fr", "ru", "zh"),
        treebanks={"en": "ewt", "fr": "gsd", "de": "gsd", "ru": "gsd", "zh": "gsd"},
        shape={"architecture": "bert", "depth": DEPTH, "heads": 12, "dropout": 0.1, "length": 256},
        training={"rate": 1e-4, "warm_up": 30 / 52, "decay": "inverse-sqrt", "probe": 5_000, "checkpoint": 2_000},
        width=768,
        steps=52_000,
        batch=768,
        vocabulary=80_000,
        stitched={"epochs": 10, "batch": 32, "rate": 5e-5},
        looked_up={"sample": 500_000},
        tuned={"epochs": 10, "batch": 32, "rate": "2e-5,3e-5,5e-5"},
        seconds={"pretrain": 17_100, "stitch": 3_200, "transfer": 11_800},
        measured="an estimate for one H200, from 1.9 million tokens/s that a model of 12 x 384 with 32,000 pieces has",
    ),
}


def plan(
    request: Request,
    *,
    text: Annotated[str | None, "folder of text to pretrain on, *.LANG.txt; default: train of --data"] = None,
    crawl: Annotated[str | None, "folder of LANG.txt, for the row Wiki-CC; with --scale paper only"] = None,
    treebanks: Annotated[str | None, "folder of UD treebanks; default: ud_train of --data"] = None,
    entities: Annotated[str | None, "folder of WikiAnn; default: wikiann_panx of --data"] = None,
    text_bytes: Annotated[
        int | None, Option("bytes of text of a language to pretrain on; default: by --scale", least=1000)
    ] = None,
    steps: Annotated[int | None, Option("updates of every pretraining; default: by --scale", least=1)] = None,
    batch: Annotated[int | None, Option("streams in a batch of pretraining; default: by --scale", least=1)] = None,
    width: Annotated[int | None, Option("width of every model; default: by --scale", least=8)] = None,
    vocabulary: Annotated[
        int | None, Option("pieces of a bilingual model, half for one language; default: by --scale", least=300)
    ] = None,
    compared: Annotated[
        int | None, Option("most parallel sentences to compare and learn maps on; default: by --scale", least=16)
    ] = None,
    examples: Annotated[int | None, Option("most sentences to train tasks on; default: by --scale", least=1)] = None,
    tested: Annotated[int | None, Option("most sentences of a test set; default: by --scale", least=8)] = None,
) -> Outline:
    """The jobs of a reproduction: packing, pretraining, and everything that reads the models."""
    if request.model:
        raise InputError("--model is no option here: the paper pretrains every model that it reads")
    if crawl is not None and (request.scale != "paper" or not Path(crawl).is_dir()):
        raise InputError(f"--crawl {crawl} goes with --scale paper, and is a folder of LANG.txt")
    given = {"text_bytes": text_bytes, "steps": steps, "batch": batch, "width": width, "vocabulary": vocabulary}
    given |= {"compared": compared, "examples": examples, "tested": tested}
    scale = scale_of(SCALES, request, (text, treebanks, entities), **given)
    scale = replace(scale, inferred=scale.inferred if examples is None else examples)
    if text_bytes is not None:
        scale = replace(scale, words=min(text_bytes, scale.words or text_bytes))
    kinds = {"text": text, "treebanks": treebanks, "entities": entities}
    data = None if scale.invented else request.data
    folders = {kind: folder_of(kind, path, data) for kind, path in kinds.items()}
    files = partial(_invented, scale) if scale.invented else partial(_contents, scale, folders, data)
    texts = Texts(
        request.out / "text", lambda: dict(files()), asked={**given, "scale": request.scale}, removable="pretrain."
    )
    # What is done needs nothing: its models and packed text may have been left on another machine.
    planned = Planner(request, scale, texts, folders, crawl).jobs()
    jobs = [replace(job, needs=()) if job.done else job for job in planned]
    called = f"{scale.shape['architecture']}-{DEPTH}x{scale.width}"
    arguments: dict[str, Any] = {"model": called, "seeds": request.seeds}
    arguments |= {"crawl": crawl is not None} | {name: getattr(scale, name) for name in given if name != "width"}
    conditions = (
        f"models {called}, {scale.steps:,} updates of {scale.batch} streams of "
        f"{scale.shape['length']} tokens, of {scale.source} with {', '.join((scale.again, *scale.targets))}"
    )
    measured = f"{scale.measured}; packing, rotate and lexicon are not counted"
    notes = _notes(scale, crawl)
    return Outline(conditions, arguments, texts, jobs, scale.seconds, measured, depth=DEPTH, notes=notes)


def _notes(scale: WuScale, crawl: str | None) -> list[str]:
    text = "the same text" if scale.text_bytes is None else "other text of the same language"
    notes = [
        f"{scale.again} is {scale.source} once more: a model of another seed, and a bilingual one whose embeddings are "
        f"apart, on {text}; its sentences share a translation, where the paper has a back-translation"
    ]
    if scale.learned:
        listed = ", ".join(f"{target} ({name})" for target, name in scale.learned.items())
        notes.append(f"XNLI has no {listed}: maps are learned and languages compared on other text there")
    if scale.text_bytes is not None and not scale.invented:
        notes.append(
            "text that is known to be parallel is not pretrained on; debates of one parliament in several languages are"
        )
    if crawl is None:
        notes.append(f"the row {CRAWL} of Table 1 needs other text, and is run at paper scale alone, with --crawl")
    return notes


# ------------------------------------------------------------------------------------------------ the jobs


@dataclass(frozen=True)
class PlannedModel:
    """A model to pretrain: its languages, the row of Table 1 that it is of, and which of several seeds it is."""

    languages: tuple[str, ...]
    variant: str = DEFAULT
    seed: int = 0

    @property
    def options(self) -> Mapping[str, str]:
        """The options of pretrain that make the variant."""
        return VARIANTS[self.variant]

    @property
    def piece_options(self) -> dict[str, str]:
        """Those that its packed text must have been made with: layers have no part in it."""
        own = self.options.get("separate", "").startswith("embeddings")
        return {name: value for name, value in self.options.items() if name != "separate"} | (
            {"separate": "embeddings"} if own else {}
        )

    @property
    def packed(self) -> str:
        """The name of its packed text, which all seeds share, and variants that differ in layers alone."""
        pieces = ["own" if name == "separate" else value for name, value in self.piece_options.items()]
        return ".".join(("-".join(self.languages), *pieces, *(["crawl"] if self.variant == CRAWL else [])))

    @property
    def name(self) -> str:
        """The name of its folder."""
        variant = "" if self.variant == DEFAULT else f".{_spelt(self.variant)}"
        return f"{'-'.join(self.languages)}{variant}.seed-{self.seed}"

    @property
    def apart(self) -> bool:
        """Whether there is a model folder for each language."""
        return bool(set(self.options) - {"anchors"} or self.options.get("anchors") == "none")

    @property
    def frozen(self) -> int:
        """How many blocks are frozen in fine-tuning, 0 for the embeddings alone, -1 for nothing."""
        return FREEZING.get(self.options.get("separate", ""), -1)


def _spelt(name: Any) -> str:
    """A coordinate as a part of a file's name."""
    return str(name).lower().replace(" + ", "+").replace(" ", "-")


@dataclass(frozen=True)
class Planner:
    """The jobs of a reproduction; `models`: those that they read, each once. crawl: folder of other text, or None."""

    request: Request
    scale: WuScale
    texts: Texts
    folders: Folders
    crawl: str | None = None
    models: dict[PlannedModel, None] = field(default_factory=dict)

    def jobs(self) -> list[Job]:
        """Packing, pretraining, and what reads the models, in the order of what the paper's argument needs most."""
        reading = [*self._rotate(), *self._stitch(), *self._lexicon(), *self._transfer()]
        packs: dict[str, Job] = {}
        for model in self.models:
            packs.setdefault(model.packed, self._packing(model))
        return [*packs.values(), *(self._pretraining(model, packs[model.packed]) for model in self.models), *reading]

    def _model(self, *languages: str, variant: str = DEFAULT, seed: int = 0) -> PlannedModel:
        """A model that is read; the source with itself has separate embeddings."""
        model = PlannedModel(languages, "Sep Emb" if self.scale.again in languages else variant, seed)
        self.models[model] = None
        return model

    def _sides(self, kind: str, target: str, seed: int = 0) -> tuple[PlannedModel, PlannedModel]:
        """The models that read source and target."""
        source = self.scale.source
        if kind == BILINGUAL:
            return (self._model(source, target, seed=seed),) * 2
        first = self._model(source, seed=seed)
        if target == self.scale.again:  # English once more is English of another seed
            return first, self._model(source, seed=(seed + 1) % max(2, self.request.seeds))
        return first, self._model(target, seed=seed)

    def _path(self, model: PlannedModel, language: str) -> str:
        """What is loaded to read a language."""
        folder = self.request.out / "models" / model.name / "model"
        return str(folder / language if model.apart else folder)

    def _read(
        self,
        recipe: str,
        models: Sequence[PlannedModel],
        options: Mapping[str, Any],
        seed: int | None = None,
        **place: Any,
    ) -> Job:
        """A job that reads models: the first the source, the last the target."""
        target = place["target"] if place["target"] in models[-1].languages else self.scale.source
        first, other = self._path(models[0], self.scale.source), self._path(models[-1], target)
        second = {"other": other} if other != first and recipe != "transfer" else {}
        name = "-".join((recipe, *map(_spelt, place.values()), *(() if seed is None else (f"seed-{seed}",))))
        needs = list(dict.fromkeys(self.request.out / "models" / model.name for model in models))
        seeded: dict[str, Any] = {} if seed is None else {"seed": seed}
        settings = {**options, **second, **seeded}
        return self.request.job(recipe, name, first, settings, needs=needs, part=recipe, **place, **seeded)

    def _packing(self, model: PlannedModel) -> Job:
        scale, pieces, pair = self.scale, model.piece_options, "-".join(model.languages)
        separate = (
            len(model.languages) < 2 or pieces.get("anchors") == "none" or {"vocabularies", "separate"} & {*pieces}
        )
        options: dict[str, Any] = {"steps": 0, "depth": 1, "width": 16, "heads": 1, "probe": 1, "report": 1}
        options |= {"architecture": scale.shape["architecture"], "length": scale.shape["length"]}
        options |= {"vocabulary": scale.vocabulary // 2 if separate else scale.vocabulary}
        options |= {"streams": str(self.request.out / "streams" / model.packed), **pieces}
        options |= {"held_out": scale.training["held_out"]} if "held_out" in scale.training else {}
        if pieces.get("anchors") == "extra":
            options["lexicon"] = [f"{pair}={self.texts.path(f'lexicon.{pair}.train.txt')}"]
        text = {language: self._known(language) for language in model.languages}
        if model.variant == CRAWL:
            text[model.languages[1]] = str(Path(str(self.crawl)) / f"{model.languages[1]}.txt")
        folder, packing = self.request.out / "packs" / model.packed, replace(self.request, device="cpu", dtype=None)
        place: dict[str, Any] = {"part": "pack", "model": pair, "condition": model.variant}
        return packing.job("pretrain", f"pack-{model.packed}", text, options, folder=folder, **place)

    def _known(self, language: str) -> str:
        """What is pretrained on: a file of ours, or at full scale the files of the folder itself, with commas."""
        if self.scale.text_bytes is not None:
            return self.texts.path(f"pretrain.{language}.txt.gz")
        folder = self.folders["text"]
        known = folder is not None and folder.is_dir()
        return ",".join(map(str, text_files(self.scale, self.folders, language))) if known else f"{language}.txt"

    def _pretraining(self, model: PlannedModel, pack: Job) -> Job:
        scale = self.scale
        training = {name: value for name, value in scale.training.items() if name != "held_out"}
        options = {"streams": pack.options["streams"], **scale.shape, "width": scale.width, "steps": scale.steps}
        options |= {"batch": scale.batch, **training, **model.options, "seed": model.seed}
        place = {"model": "-".join(model.languages), "condition": model.variant, "seed": model.seed}
        folder = self.request.out / "models" / model.name
        needs = [pack.folder]
        return self.request.job(
            "pretrain", model.name, None, options, folder=folder, needs=needs, part="pretrain", **place
        )

    def _rotate(self) -> Iterator[Job]:
        """CKA of two languages in one model, in two, and with fresh weights on the other side; sentences looked up.

        Without a test set, or with fresh weights, CKA alone.
        """
        scale, count = self.scale, self.request.seeds
        for target in (scale.again, *scale.targets):
            pair = f"{scale.source}-{target}"
            parallel = [self.texts.path(f"parallel.{pair}.tsv")]
            for kind in KINDS:
                if target == scale.again or kind == RANDOM:
                    options: dict[str, Any] = {"bitext": parallel, "mappings": "none", "sample": scale.compared}
                else:
                    options = {"bitext": [self.texts.path(f"tatoeba.{pair}.tsv")], "train_bitext": parallel}
                    options |= {"mappings": MAPPINGS, "train_sample": scale.compared}
                options |= {"random_weights": True} if kind == RANDOM else {}
                several = target == scale.repeated or (target == scale.again and kind != BILINGUAL)
                for seed in range(count if several else 1):
                    yield self._read("rotate", self._sides(kind, target, seed), options, seed, target=target, kind=kind)

    def _stitch(self) -> Iterator[Job]:
        """A task on one model's lower layers, read from another's; the same of the bilingual model."""
        for target in self.scale.targets:
            parallel = {"bitext": [self.texts.path(f"parallel.{self.scale.source}-{target}.tsv")]}
            for task in STITCHED_TASKS:
                for kind in (MONOLINGUAL, BILINGUAL):
                    options = {**parallel, **self._task(task, target), **self.scale.stitched}
                    yield self._read("stitch", self._sides(kind, target), options, target=target, kind=kind, task=task)

    def _lexicon(self) -> Iterator[Job]:
        """Words looked up with two models that never saw each other's language."""
        for target in self.scale.targets:
            pair = f"{self.scale.source}-{target}"
            options = {
                "text": {
                    language: self._known(language)
                    if self.scale.words is None
                    else self.texts.path(f"words.{language}.txt.gz")
                    for language in (self.scale.source, target)
                },
                "train_lexicon": [self.texts.path(f"lexicon.{pair}.train.txt")],
                "test_lexicon": [self.texts.path(f"lexicon.{pair}.test.txt")],
                "static": ["train"],
                **self.scale.looked_up,
            }
            yield self._read("lexicon", self._sides(MONOLINGUAL, target), options, target=target)

    def _transfer(self) -> Iterator[Job]:
        """Every bilingual model tuned on the source and tested on the target; what is a language's own is frozen."""
        for target in self.scale.tuned_targets:
            for variant in self.scale.variants:
                if variant == CRAWL and self.crawl is None:
                    continue
                model = self._model(self.scale.source, target, variant=variant)
                own = {"target_models": [f"{target}={self._path(model, target)}"]} if model.apart else {}
                for task in TASKS:
                    options = {**self._task(task, target), "plans": f"freeze:{model.frozen}", **own, **self.scale.tuned}
                    yield self._read("transfer", [model], options, target=target, condition=variant, task=task)

    def _task(self, task: str, target: str) -> dict[str, Any]:
        source = self.scale.source
        train, dev, tests = task_names(self.scale, task, target)
        return {
            "task": task,
            "train": {source: self.texts.path(train)},
            "dev": {source: self.texts.path(dev)},
            "test": [f"{language}={self.texts.path(name)}" for language, name in tests.items()],
            "skip_bad": True,
            "seeds": self.request.seeds,
        }


# ------------------------------------------------------------------------------------------------ the texts


def _contents(scale: WuScale, folders: Folders, data: str | None) -> Iterator[tuple[str, str]]:
    """Every file and its content.

    `pretrain.LANG.txt.gz` is text to pretrain on, where `en2` has other paragraphs than `en`; `words.LANG.txt.gz` is
    its first part, a sentence a line, whose words get vectors. Maps are learned from `parallel.en-LANG.tsv`, which is
    XNLI, or pairs of Tatoeba that are not looked up, or for `en2` English sentences that share a translation; sentences
    of `tatoeba.en-LANG.tsv` are looked up. The rest are dictionaries and files of the tasks. Where a set has more than
    is wanted, what has the lowest hash is taken (of a paragraph read backwards, since the hash of the one read forwards
    decides what `pretrain` holds out).
    """
    source = scale.source
    for language in (source, *scale.targets):
        files = text_files(scale, folders, language)
        if scale.text_bytes is not None:
            yield from _pretraining_text(scale, language, files)
    base = data_dir(data)
    yield (
        f"parallel.{source}-{scale.again}.tsv",
        _table(paraphrases(read_bitexts(base / "tatoeba_train"), source), scale.compared),
    )
    for target in scale.targets:
        pair = f"{source}-{target}"
        other = base / scale.learned[target] / f"{pair}.tsv" if target in scale.learned else None
        learned = data_file(other or base / "xnli" / "xnli.15way.tsv", "parallel sentences")
        yield f"parallel.{pair}.tsv", _table(read_bitext(learned, languages=(source, target)), scale.compared)
        yield f"tatoeba.{pair}.tsv", _table(read_bitext(base / "tatoeba", languages=(source, target)), None)
        for split in ("train", "test"):
            yield f"lexicon.{pair}.{split}.txt", as_lines(read_lines(find_lexicon(base, source, target, split=split)))
    most: dict[str, int | None] = {"train": scale.inferred, "dev": scale.tested}
    inference = {"train": base / "nli_en" / "mnli_train.tsv", "dev": base / "nli_en" / "mnli_val.tsv"}
    # Rows of the tests are parallel, and which ones are drawn hangs on their number alone: the same in each language.
    inference |= {language: base / "xnli" / f"test-{language}.tsv" for language in (source, *scale.tuned_targets)}
    for name, path in inference.items():
        count = most.get(name, scale.tested and INFERRED * scale.tested)
        yield f"nli.{name}.tsv", pair_table(read_pairs(data_file(path, "pairs of sentences")), count)
    for file in task_files(scale):
        yield file.name, cut_file(file, folders)


def text_files(scale: WuScale, folders: Folders, language: str) -> list[Path]:
    """The files of a language in the folder of text."""
    folder, wanted = existing("text", folders), language.rstrip("2")
    files = [
        path
        for path in sorted((*folder.glob("*.txt"), *folder.glob("*.txt.gz")))
        if language_of(path) == wanted and (scale.text_bytes is None or path.name.split(".")[0] not in PARALLEL)
    ]
    if not files:
        raise InputError(f"{folder} has no text of {wanted}: no file is named *.{wanted}.txt")
    return files


def _pretraining_text(scale: WuScale, language: str, files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Text to pretrain on, and a part of it for words; of the source, as much again for its second self."""
    size = scale.text_bytes or 0
    lines = sorted(dict.fromkeys(paragraphs(files)), key=lambda line: hash_fraction(line[::-1]))
    first = cut(lines, size)
    yield f"pretrain.{language}.txt.gz", as_lines(first)
    single = [sentence for line in first for sentence in sentences_of(line)]
    yield f"words.{language}.txt.gz", as_lines(cut(single, scale.words or 0))
    if language == scale.source:
        again = cut(lines[len(first) :], size)
        if not again:
            raise InputError(
                f"the text of {language} has no more than {size:,} bytes, and a second model of it needs other text; "
                "give more, or a smaller --text-bytes"
            )
        yield f"pretrain.{scale.again}.txt.gz", as_lines(again)


def task_files(scale: WuScale) -> Iterator[TaskFile]:
    """Treebanks and named entities: training and development of the source, a test of every language."""
    source, half = scale.source, None if scale.tested is None else scale.tested // 2
    home = f"{source}_{scale.treebanks[source]}"
    yield TaskFile(f"{home}.train", source, "treebanks", (f"{home}-ud-train*.conllu",), scale.examples)
    yield TaskFile(f"{home}.dev", source, "treebanks", (f"{home}-ud-dev.conllu",), half)
    yield TaskFile(f"{source}_wikiann.train", source, "entities", (f"train-{source}.tsv",), scale.examples)
    yield TaskFile(f"{source}_wikiann.dev", source, "entities", (f"dev-{source}.tsv",), half, "dev")
    for language in (source, *scale.targets):
        name, either = f"{language}_{scale.treebanks[language]}", (f"test-{language}.tsv", f"dev-{language}.tsv")
        yield TaskFile(name, language, "treebanks", (f"{name}-ud-test.conllu",), scale.tested)
        yield TaskFile(f"{language}_wikiann", language, "entities", either, scale.tested, "test")


def task_names(scale: WuScale, task: str, target: str) -> tuple[str, str, dict[str, str]]:
    """The files of a task: to train on, to choose by, and the tests of source and target."""
    both = (scale.source, target)
    if task == "nli":
        return "nli.train.tsv", "nli.dev.tsv", {language: f"nli.{language}.tsv" for language in both}
    end = "tsv" if task == "ner" else "conllu"
    home, away = (f"{language}_{'wikiann' if task == 'ner' else scale.treebanks[language]}" for language in both)
    return f"{home}.train.{end}", f"{home}.dev.{end}", {both[0]: f"{home}.{end}", target: f"{away}.{end}"}


def sentences_of(paragraph: str) -> list[str]:
    """A paragraph cut behind end marks, since a model reads so many tokens of a line and no more.

    >>> sentences_of("It rains. Still! 下雨了。还在下。")
    ['It rains.', 'Still!', '下雨了。', '还在下。']
    """
    parts = re.split(r"(?<=[.!?…])\s+|(?<=[。！？])", paragraph)
    return [part.strip() for part in parts if part.strip()]


def cut(lines: Sequence[str], size: int) -> list[str]:
    """The first lines that together have at most so many bytes, ends of lines counted.

    >>> cut(["abc", "d", "ef"], 6)
    ['abc', 'd']
    """
    ends = np.cumsum([len(line.encode("utf-8")) + 1 for line in lines])
    return list(lines[: int(np.searchsorted(ends, size, side="right"))])


def _invented(scale: WuScale) -> Iterator[tuple[str, str]]:
    """The same files in invented languages; a sentence and the same with its first two words turned are paraphrases."""
    source, examples, tested = scale.source, scale.examples or 0, scale.tested or 0
    languages = (source, *scale.targets)
    sets = invented_sets(languages, {"train": examples, "dev": tested, "test": tested})
    used = examples + 2 * tested  # sentences of the treebanks, which come first
    whole = invented(languages, used + 2 * KNOWN + scale.compared + ASKED, seed=SEED)
    bitext = whole.take(range(used, whole.rows))
    for corpus in bitext:
        for kind in ("pretrain", "words"):
            yield f"{kind}.{corpus.language}.txt.gz", as_lines(corpus.sentences[:KNOWN])
    yield f"pretrain.{scale.again}.txt.gz", as_lines(bitext[source].sentences[KNOWN : 2 * KNOWN])
    learned = bitext.take(range(2 * KNOWN, 2 * KNOWN + scale.compared))
    asked = bitext.take(range(2 * KNOWN + scale.compared, bitext.rows))
    turned = [(sentence, re.sub(r"^(\S+) (\S+)", r"\2 \1", sentence)) for sentence in learned[source].sentences]
    yield f"parallel.{source}-{scale.again}.tsv", as_lines(map("\t".join, [(source, scale.again), *turned]))
    for target in scale.targets:
        for name, text in (("parallel", learned), ("tatoeba", asked)):
            pairs = zip(text[source].sentences, text[target].sentences, strict=True)
            yield f"{name}.{source}-{target}.tsv", as_lines(map("\t".join, [(source, target), *pairs]))
        words = [" ".join(pair) for pair in invented_lexicon(source, target, seed=SEED).pairs]
        for split, half in (("train", words[::2]), ("test", words[1::2])):
            yield f"lexicon.{source}-{target}.{split}.txt", as_lines(half)
    yield "nli.train.tsv", _inference(bitext[source].sentences[: scale.inferred])
    for name, language in (("dev", source), *zip(languages, languages, strict=True)):
        start = KNOWN if name == "dev" else scale.inferred
        yield f"nli.{name}.tsv", _inference(bitext[language].sentences[start : start + tested])
    for file in task_files(scale):
        yield file.name, invented_file(file, sets, file.stem.partition(".")[2] or "test")


def _inference(sentences: Sequence[str]) -> str:
    """A sentence entails itself, is neutral to the one before it, and contradicts its words read backwards."""
    lines = []
    for position, sentence in enumerate(sentences):
        backwards = " ".join(sentence.split()[::-1])
        others = {"entailment": sentence, "neutral": sentences[position - 1], "contradiction": backwards}
        label = NLI[position % len(NLI)]
        lines.append(f"{sentence}\t{others[label]}\t{label}")
    return as_lines(lines)


def _table(bitext: Bitext, most: int | None) -> str:
    """A table of languages, its rows those with the lowest hash."""
    cleaned = [tuple(" ".join(text.split()) for text in cells) for cells in zip(*bitext, strict=True)]
    rows = lowest_hashed(cleaned, most, lambda cells: cells[0])
    return as_lines("\t".join(cells) for cells in (bitext.languages, *rows))


# ------------------------------------------------------------------------------------------------ the rows

FORMS = {"cka": "debiased", "cka_biased": "biased", "cka_uncentred": "as printed"}
AS_PRINTED = "cka_uncentred"  # the formula of the paper, which removes no means
RETRIEVED = ("data", "source", "target", "layer", "condition", "method")
RELATION = "cka_retrieval"
ROTATION = "procrustes+iterative inductive"


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table: what every part found, means over layers and seeds, with published values beside.

    `model` says which models read the two languages: `bilingual` (one), `monolingual` (one each) or `random` (one of
    the source, fresh weights for the other); for the baseline of words it is `static`, in Table 1 the pair. `condition`
    is the mapping, the way into stitched layers, or the row of Table 1. Of a job's rows only the main scores are here.
    """
    reading = [job for job in jobs if job.coordinates["part"] not in ("pack", "pretrain")]
    join_jobs(run, reading, _weights)
    rows = [entry for job in jobs if job.coordinates["part"] != "pack" for entry in _rows_of(job)]
    rows += mean_over([entry for entry in rows if entry["measure"] in FORMS], "layer")
    rows += relation_rows(rows)
    run.append(rows)
    run.append(map(PUBLISHED.beside, seed_mean_rows(rows)))


def _weights(job: Job, hashes: Mapping[str, Any]) -> dict[tuple[Any, ...], Any]:
    """Jobs of one part read the same weights from the same folder; fresh ones are drawn anew."""
    sides = {"model": job.first} | ({} if job.options.get("random_weights") else {"other": job.options.get("other")})
    return {
        (job.coordinates["part"], f"model: the weights of {path}"): hashes[side] for side, path in sides.items() if path
    }


def _rows_of(job: Job) -> Iterator[dict[str, Any]]:
    """The main rows of a job, at the coordinates that they have here."""
    part, place, table = job.coordinates["part"], job.coordinates, read_rows(job.folder)
    if part == "pretrain":
        rows = table[(table["measure"] == "perplexity") & (table["target"] != "all")]
        at = {"data": place["model"], "condition": place["condition"], "seed": place["seed"]}
        kind = BILINGUAL if "-" in place["model"] else MONOLINGUAL
        last = rows[rows["step"] == rows["step"].max()]
        yield from _moved(last, ("target", "unit"), task=part, model=kind, **at)
    elif part == "rotate":  # CKA on the text that is learned from, or on all there is where nothing is learned
        similar = table[table["measure"].isin(FORMS)]
        text = "train" if "train" in set(similar["condition"]) else "test"
        at = {"model": place["kind"], "seed": place["seed"], "unit": "sentence"}
        similar = similar[similar["condition"] == text]
        yield from _moved(similar, ("source", "target", "layer"), task="cka", data=text, **at)
        yield from _moved(table[table["measure"] == "p@1"], RETRIEVED, task="retrieval", **at)
    elif part == "lexicon":
        rows = table[table["measure"].isin(("p@1", "coverage"))]
        for entry in _moved(rows, (*RETRIEVED, "unit", "model"), task=part):
            yield {**entry, "model": STATIC if entry["model"].startswith(STATIC) else MONOLINGUAL}
    else:
        main = table[(table["measure"] == TASKS[place["task"]]) & table["seed"].notna()]
        if part == "stitch":
            names = ("data", "source", "target", "layer", "condition", "seed")
            main = main[main["target"] == place["target"]]
            yield from _moved(main, names, task=f"stitch {place['task']}", model=place["kind"])
        else:
            main = main[main["step"].isna() & (main["target"] != "others")]
            for entry in _moved(main, ("data", "source", "target", "seed"), task=f"table-1 {place['task']}"):
                yield {**entry, "model": f"{entry['source']}-{place['target']}", "condition": place["condition"]}


def _moved(table: pd.DataFrame, names: Sequence[str], **coordinates: Any) -> Iterator[dict[str, Any]]:
    """Rows with their answers and these of their coordinates, and others given."""
    for entry in records(table):
        kept = {name: entry[name] for name in ("n", "low", "high", "floor", *names) if name in entry}
        yield row(entry["measure"], entry["value"], **kept, **coordinates)


def relation_rows(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Where two languages' spaces are alike, is a rotation enough? CKA and retrieval after a rotation over layers.

    Pearson's correlation of debiased CKA and P@1, of each pair, kind of models and seed; n counts layers. Two layers
    have none: a line goes through any two points.
    """
    curves: dict[str, dict[tuple[Any, ...], dict[int, float]]] = {"cka": {}, "p@1": {}}
    for entry in rows:
        rotated = (entry.get("condition"), entry.get("method")) == (ROTATION, "cosine")
        if "layer" in entry and (entry["measure"] == "cka" or (entry["task"] == "retrieval" and rotated)):
            at = (entry["model"], entry["source"], entry["target"], entry["seed"])
            curves[entry["measure"]].setdefault(at, {})[int(entry["layer"])] = entry["value"]
    for at, similar in curves["cka"].items():
        right = curves["p@1"].get(at, {})
        layers = sorted(set(similar) & set(right))
        if len(layers) < LEAST:
            continue
        both = correlation([similar[layer] for layer in layers], [right[layer] for layer in layers], kind="pearson")
        if np.isfinite(both.value):
            ends = {"low": both.low, "high": both.high} if np.isfinite(both.low) else {}
            named = dict(zip(("model", "source", "target", "seed"), at, strict=True))
            yield row(RELATION, both.value, n=both.n, task="cka", unit="pearson", **ends, **named)


def _source(results: Results) -> str:
    """English, or what stands for it."""
    return str(next(iter(results.distinct("source")), ""))


def _targets(results: Results, task: str) -> list[str]:
    """The languages that a part has, in order, without the source."""
    both = [*results.distinct("target", task=task), *results.distinct("source", task=task)]
    return [language for language in dict.fromkeys(both) if language != _source(results)]


def _cka(results: Results, kind: str, target: str) -> Curves | None:
    """Debiased CKA by layer."""
    at = {"measure": "cka", "task": "cka", "model": kind, "target": target}
    return results.curves("layer", source=_source(results), **at)


def _cka_mean(results: Results, kind: str, target: str, form: str = "cka") -> Seeds:
    """CKA as a mean over layers, by seed."""
    return results.values(measure=form, task="cka", model=kind, target=target, layer=None)


def _rotated(results: Results, target: str, kind: str = MONOLINGUAL, **how: str) -> Curves | None:
    """P@1 of sentences by layer, from the source; how: the mapping (`condition`) and the method, if others."""
    at = {"task": "retrieval", "source": _source(results), "target": target, "model": kind}
    return results.curves("layer", measure="p@1", **at, **{"condition": ROTATION, "method": "cosine", **how})


def _stitched(results: Results, task: str, kind: str, target: str, way: str) -> Curves | None:
    """The score of a task in the target language on stitched layers, by layer and seed of the head."""
    at = {"task": f"stitch {task}", "model": kind, "target": target, "condition": way}
    return results.curves("layer", measure=TASKS[task], **at)


def _words(results: Results, target: str, unit: str = "word", kind: str = MONOLINGUAL) -> pd.DataFrame:
    """P@1 of words by CSLS after a rotation, a row a layer; the embedding matrix and static vectors have none."""
    at = {"task": "lexicon", "source": _source(results), "target": target, "unit": unit, "model": kind}
    return results.where(measure="p@1", condition="procrustes+iterative", method="csls", **at).sort_values("layer")


def _transferred(results: Results, task: str, variant: str, target: str) -> Seeds:
    """The score of a bilingual model in the target language, by seed of the head."""
    return results.values(measure=TASKS[task], task=f"table-1 {task}", target=target, condition=variant)


def _losses(results: Results, task: str, variant: str, targets: Iterable[str]) -> Seeds:
    """What a variant's score is above Default's, seed by seed, a mean over targets that have both."""
    sides = [[_transferred(results, task, each, target) for each in (variant, DEFAULT)] for target in targets]
    return mean_by_seed(less(first, second) for first, second in sides)


# ------------------------------------------------------------------------------------------------ the claims

PEARSON = 0.9  # section 5.2: "> 0.9 for all language pairs"
FAR = 10  # times chance
LOWER, UPPER, MIDDLE = range(1, 5), range(5, 9), range(3, 6)
WITHOUT_LAYERS, WITHOUT_ANCHORS = "Sep L1-6", "No anchors"
# How far a language is from English: the same, Germanic, Romance, Slavic, of another family.
DISTANCE = {"en2": 0, "nl": 1, "de": 1, "fr": 2, "ru": 3, "zh": 4}
NO_CKA, NOT_LOOKED_UP = "CKA of no pair has been measured", "no sentence was looked up with two models"


def _over_pairs(
    words: str,
    values: Mapping[str, float],
    test: Callable[[Interval, float], Side | None] = above,
    bound: float = 0.0,
) -> Contrast:
    """A contrast over pairs of languages; `{}` stands for the mean and its interval, `{pairs}` for their number."""
    few = ", too few for an interval" if len(values) < LEAST else ""
    pairs = f"{len(values)} pair{'s' * (len(values) != 1)}{few}"
    return replace(contrast(words.replace("{pairs}", pairs), list(values.values()), test, bound), seeds=None)


def _mean(values: Seeds) -> float:
    return float(np.mean(list(values.values())))


def _cka_differences(results: Results, first: str, second: str) -> dict[str, float]:
    """CKA of one kind less that of another, means over layers and seeds, by target."""
    sides = {
        target: [_cka_mean(results, kind, target) for kind in (first, second)] for target in _targets(results, "cka")
    }
    return {target: _mean(mine) - _mean(other) for target, (mine, other) in sides.items() if mine and other}


def _order(results: Results) -> Iterator[Contrast]:
    for first, second in zip(KINDS, KINDS[1:], strict=False):
        apart = _cka_differences(results, first, second)
        if not apart:
            continue
        means = [PUBLISHED.where(reference="Figure 7, mean", model=kind) for kind in (first, second)]
        printed = [float(np.mean([float(line["value"]) for line in lines])) for lines in means]
        paper = printed[0] - printed[1]
        yield _over_pairs(
            f"CKA of {first} above {second} by {{}}, a mean over layers and {{pairs}} ({paper:.3f} in the paper)", apart
        )
        for target in apart:
            seeds = less(_cka_mean(results, first, target), _cka_mean(results, second, target))
            if len(seeds) >= LEAST:
                yield contrast(f"in {_source(results)}-{target} by {{}} over {len(seeds)} seeds", seeds)


def _depth(results: Results) -> Iterator[Contrast]:
    for kind in (BILINGUAL, MONOLINGUAL):
        slopes = {}
        for target in _targets(results, "cka"):
            curves = _cka(results, kind, target)
            if curves is not None and len(curves.steps) > 2:
                above_0 = curves.steps > 0
                slopes[target] = float(np.polyfit(curves.steps[above_0], curves.values.mean(axis=0)[above_0], 1)[0])
        if slopes:
            yield _over_pairs(f"{kind}: {{}} a layer over {{pairs}}", slopes, below)


def _distance(results: Results) -> Iterator[Contrast]:
    apart = {
        target: gap for target, gap in _cka_differences(results, BILINGUAL, MONOLINGUAL).items() if target in DISTANCE
    }
    if len(apart) < 4:
        raise NotMeasured(f"{len(apart)} pairs are too few to rank")
    order = sorted(apart, key=lambda target: DISTANCE[target])
    both = correlation([DISTANCE[target] for target in order], [apart[target] for target in order], run=1)
    each = ", ".join(f"{target} {apart[target]:+.3f}" for target in order)
    words = f"bilingual less monolingual, nearest first: {each}; rank correlation with distance {{}}"
    yield replace(contrast(words, Interval(both.value, both.low, both.high, both.n), below), seeds=None)


def _looked_up(results: Results) -> dict[str, Curves]:
    """P@1 of sentences with two models after a rotation, by target."""
    curves = {target: _rotated(results, target) for target in _targets(results, "retrieval")}
    return needed({target: curve for target, curve in curves.items() if curve is not None}, NOT_LOOKED_UP)


def _peak(curves: Curves) -> int:
    return int(curves.steps[curves.values.mean(axis=0).argmax()])


def _far(results: Results) -> Iterator[Contrast]:
    for target, curves in _looked_up(results).items():
        best = _peak(curves)
        at = {"measure": "p@1", "task": "retrieval", "model": MONOLINGUAL, "source": _source(results), "seed": 0}
        first = results.where(target=target, layer=best, condition=ROTATION, method="cosine", **at).iloc[0]
        seeds = over_seeds(curves.at(best)).clipped()
        known = seeds if seeds.known else Interval(first["value"], first["low"], first["high"], 1)
        over = f" over {seeds.n} seeds" if seeds.known else ""
        words = f"{target}: P@1 {known.share} at layer {best}{over}, chance {first['floor']:.4f}"
        yield Contrast(words, bool(known.low > FAR * first["floor"]))


def _lower(results: Results) -> Iterator[Contrast]:
    apart, peaks = {}, []
    for target, curves in _looked_up(results).items():
        low, high = (_at_any(curves, layers) for layers in (LOWER, UPPER))
        if low and high:
            apart[target] = _mean(low) - _mean(high)
            peaks.append(f"{target} {_peak(curves)}")
    words = "P@1 in layers 1 to 4 above that in 5 to 8 by {} over {pairs}; highest at layer "
    yield _over_pairs(words + ", ".join(peaks), needed(apart, NOT_LOOKED_UP))


def _at_any(curves: Curves | None, layers: Iterable[int]) -> Seeds:
    """The mean over those of the layers that are there, by seed."""
    known = [] if curves is None else [layer for layer in layers if layer in curves.steps]
    return curves.at(*known) if curves is not None and known else {}


def _relation(results: Results) -> Iterator[Contrast]:
    values, each = {}, []
    for target in _looked_up(results):
        at = {"measure": RELATION, "model": MONOLINGUAL, "target": target}
        by_seed = results.values(**at)
        if by_seed:
            seeds, first = over_seeds(by_seed), results.where(seed=min(by_seed), **at).iloc[0]
            values[target] = seeds.value
            known = seeds if seeds.known else Interval(seeds.value, first["low"], first["high"], 1)
            each.append(f"{target} {known.clipped(-1.0).share} over {'seeds' if seeds.known else 'layers'}")
    needed(values, "no correlation: every layer finds as many, or there are fewer than three layers")
    yield _over_pairs(f"{{}} over {{pairs}}: {', '.join(each)}", values, above, PEARSON)


@dataclass(frozen=True)
class _Apart:
    """A difference of two scores, over seeds of the head (means over pairs) and over pairs (means over seeds)."""

    seeds: Interval
    pairs: Interval

    @property
    def words(self) -> str:
        """Both intervals; that over pairs where there are enough of them."""
        if not self.pairs.known:
            return f"{self.seeds.say(signed)} points"
        between = f"[{signed(self.pairs.low)}, {signed(self.pairs.high)}]"
        return f"{self.seeds.say(signed)} points over seeds, {between} over {self.pairs.n} pairs"

    def judged(self, test: Callable[[Interval], Side | None]) -> Side | None:
        """By both, where there are both."""
        return all_of([test(self.seeds), *([test(self.pairs)] if self.pairs.known else [])])


def _apart(sides: Iterable[tuple[Seeds, Seeds]]) -> _Apart | None:
    """First scores less second ones, a pair of languages each; of pairs that have both."""
    each = [difference for first, second in sides if (difference := less(first, second))]
    seeds = mean_by_seed(each)
    return _Apart(over_seeds(seeds), over_seeds([_mean(difference) for difference in each])) if seeds else None


Judged = tuple[str, Side | None, int]  # words, the side and how many seeds it is over


def _stitching_claim(name: str, statement: str, judge: Callable[[Results, str, Sequence[str]], Judged | None]) -> Claim:
    """A claim on every task that was stitched."""

    def contrasts(results: Results) -> Iterator[Contrast]:
        for task in STITCHED_TASKS:
            every = _targets(results, f"stitch {task}")
            targets = [target for target in every if _stitched(results, task, MONOLINGUAL, target, STITCHED)]
            if targets and (judged := judge(results, task, targets)):
                words, side, seeds = judged
                yield Contrast(f"{NAMES[task]}, {', '.join(targets)}: {words}", side, seeds)

    return Claim(name, statement, contrasts, "no task was stitched at these layers")


def _middle(results: Results, task: str, targets: Sequence[str]) -> Judged | None:
    curves = [curve for target in targets if (curve := _stitched(results, task, MONOLINGUAL, target, STITCHED))]
    last = int(max(curve.steps[-1] for curve in curves))
    rise, fall = (_apart((_at_any(curve, MIDDLE), curve.at(end)) for curve in curves) for end in (0, last))
    if rise is None or fall is None:
        return None
    layers = [int(layer) for layer in curves[0].steps]
    means = [_mean(mean_by_seed(curve.at(layer) for curve in curves)) for layer in layers]
    peak = layers[int(np.argmax(means))]
    words = f"layers 3 to 5 above layer 0 by {rise.words}, above layer {last} by {fall.words}; best at {peak}"
    return words, all_of([rise.judged(above), fall.judged(above)]), rise.seeds.n


def _between(
    first: tuple[str, str],
    second: tuple[str, str],
    what: str,
    helped: Sequence[str],
    results: Results,
    task: str,
    targets: Sequence[str],
) -> Judged | None:
    """Scores in the middle layers by one (kind, way) less those by another: above 0 for tasks it helps, else below."""
    middles = [
        [_at_any(_stitched(results, task, kind, target, way), MIDDLE) for kind, way in (first, second)]
        for target in targets
    ]
    apart = _apart((mine, other) for mine, other in middles)
    if apart is None:
        return None
    side = apart.judged(above if task in helped else below)
    return f"{what} by {apart.words} in layers 3 to 5", side, apart.seeds.n


def _higher(results: Results) -> Iterator[Contrast]:
    apart = {}
    for target in _targets(results, "lexicon"):
        words = _words(results, target)
        low, high = (words["value"][words["layer"].isin(layers)] for layers in (LOWER, UPPER))
        if len(low) and len(high):
            apart[target] = float(high.mean() - low.mean())
    each = ", ".join(f"{target} {value:+.3f}" for target, value in apart.items())
    words_told = f"P@1 in layers 5 to 8 above that in 1 to 4 by {{}} over {{pairs}}: {each}"
    yield _over_pairs(words_told, needed(apart, "no word was looked up"))


def _static(results: Results) -> Iterator[Contrast]:
    for unit, what, test in (
        ("piece", "embedding matrix above static by {} over {pairs}", above),
        ("word", "words, a mean over layers, above static by {} over {pairs}", below),
    ):
        apart = {}
        for target in _targets(results, "lexicon"):
            mine, static = (_words(results, target, unit, kind)["value"] for kind in (MONOLINGUAL, STATIC))
            if len(mine) and len(static):
                apart[target] = float(mine.mean() - static.iloc[0])
        if apart:
            yield _over_pairs(what, apart, test)


def _layers_and_vocabulary(results: Results) -> Iterator[Contrast]:
    for task in TASKS:
        losses = {
            target: [_losses(results, task, variant, [target]) for variant in (WITHOUT_LAYERS, WITHOUT_ANCHORS)]
            for target in _targets(results, f"table-1 {task}")
        }
        between = {target: less(*sides) for target, sides in losses.items() if less(*sides)}
        if not between:
            continue
        layers, anchors = (over_seeds(mean_by_seed(losses[target][side] for target in between)) for side in (0, 1))
        each = ", ".join(f"{target} {signed(_mean(seeds))}" for target, seeds in between.items())
        words = (
            f"{NAMES[task]}, {', '.join(between)}: {layers.say(signed)} points to Default with layers 1 to 6 apart, "
            f"{anchors.say(signed)} without anchors; between them {{}} ({each})"
        )
        yield contrast(words, mean_by_seed(between.values()), below, form=signed)


CLAIMS = (
    Claim(
        "order",
        "Languages are more alike in a bilingual model than in two models, and there more than with random weights.",
        _order,
        NO_CKA,
    ),
    Claim("depth", "Similarity falls with depth.", _depth, NO_CKA),
    Claim(
        "distance",
        "What a bilingual model adds to similarity is less for languages that are further from English.",
        _distance,
    ),
    Claim(
        "rotation",
        "A rotation learned from at most 10,000 sentences finds translations far more often than chance.",
        _far,
    ),
    Claim("lower layers", "After a rotation, sentences are found best at lower layers.", _lower),
    Claim(
        "similarity and retrieval",
        f"CKA and retrieval after a rotation rise and fall together over layers: Pearson above {PEARSON}.",
        _relation,
    ),
    _stitching_claim("middle", "Stitched layers carry a task best when they meet in the middle.", _middle),
    _stitching_claim(
        "below bilingual",
        "Two models stitched by a rotation stay below the bilingual model.",
        partial(_between, (BILINGUAL, UNMAPPED), (MONOLINGUAL, STITCHED), "bilingual above stitched", STITCHED_TASKS),
    ),
    _stitching_claim(
        "mapped bilingual",
        "A map between its languages helps the bilingual model in parsing only (appendix A).",
        partial(_between, (BILINGUAL, STITCHED), (BILINGUAL, UNMAPPED), "mapped above unmapped", ("parsing",)),
    ),
    Claim(
        "higher layers",
        "Vectors of words, averaged over their uses, find translations better at higher layers.",
        _higher,
    ),
    Claim(
        "static",
        "Rows of the embedding matrix are above static vectors, words averaged over their uses below.",
        _static,
        "there is no baseline of static vectors",
    ),
    Claim(
        "layers and vocabulary",
        "Sharing the layers matters more than sharing the vocabulary.",
        _layers_and_vocabulary,
        "the rows of Table 1 that this needs were not run",
    ),
)


# ------------------------------------------------------------------------------------------------ the tables

RETRIEVAL = (
    ("raw", "cosine"),
    ("centred inductive", "cosine"),
    ("centred transductive", "cosine"),
    ("procrustes", "cosine"),
    (ROTATION, "cosine"),
    ("procrustes+iterative transductive", "cosine"),
    ("procrustes+iterative transductive", "csls"),
)
SEAMS = ((MONOLINGUAL, STITCHED, "stitched"), (BILINGUAL, UNMAPPED, "bilingual"), (BILINGUAL, STITCHED, "mapped"))
FLAT = (("word", STATIC), ("piece", MONOLINGUAL), ("piece", STATIC))  # vectors of words that have no layer
GRAPHIC = "The paper prints a graphic only."


def tables(results: Results) -> list[Table]:
    """All tables the rows allow: the paper's figures as tables, and Table 1, published beside measured."""
    made = [_cka_means(results), *(_cka_table(results, target) for target in _targets(results, "cka"))]
    made += [*_retrieval_tables(results), *(_stitching_table(results, task) for task in STITCHED_TASKS)]
    made += [_word_table(results), _table_1(results), _model_table(results)]
    return [table for table in made if table.rows]


def _printed(form: str = ".2f", scale: float = 1.0, **coordinates: Any) -> str:
    """A published number, or a dash."""
    lines = PUBLISHED.where(**coordinates)
    return format(scale * float(lines[0]["value"]), form) if lines else NOTHING


def _cka_means(results: Results) -> Table:
    lines, source = [], _source(results)
    for target in _targets(results, "cka"):
        for form, name in FORMS.items():
            cells = [cell(_cka_mean(results, kind, target, form), decimals) for kind in KINDS]
            lines.append([f"{source}-{target}, {name}", *cells])
        at: dict[str, Any] = {"reference": "Figure 7, mean", "source": source, "target": target}
        if PUBLISHED.where(**at):
            lines.append([f"{source}-{target}, published", *(_printed(model=kind, **at) for kind in KINDS)])
    note = (
        "CKA of sentence vectors, a mean over layers 0 to 8. As printed: the paper's formula, which removes no means. "
        "Debiased: about 0 for vectors that have nothing to do with each other. Published: of models 768 wide."
    )
    return Table("Figure 7, means: how alike English and another language are", ["", *KINDS], lines, [note])


def _cka_table(results: Results, target: str) -> Table:
    curves, source = {kind: _cka(results, kind, target) for kind in KINDS}, _source(results)
    lines = []
    for layer in sorted({int(step) for curve in curves.values() if curve for step in curve.steps}):
        cells = [str(layer)]
        for kind, curve in curves.items():
            cells.append(cell(curve.at(layer) if curve else {}, decimals))
            cells.append(_printed(measure=AS_PRINTED, layer=layer, model=kind, source=source, target=target))
        lines.append(cells)
    columns = ["layer", *(column for kind in KINDS for column in (kind, "published"))]
    note = "Debiased CKA; brackets hold t intervals over seeds, where there are three. Published: biased."
    return Table(f"Figure 7, {source}-{target}", columns, lines, [note])


def _layer_table(
    title: str, curves: Mapping[str, Curves | None], note: str, show: Callable[[Seeds], str] = share_cell
) -> Table:
    """Shares by layer, a column for each curve."""
    layers = sorted({int(step) for curve in curves.values() if curve is not None for step in curve.steps})
    lines = [
        [str(layer), *(show(curve.at(layer) if curve is not None else {}) for curve in curves.values())]
        for layer in layers
    ]
    return Table(title, ["layer", *curves], lines, [note])


def _share(values: Seeds) -> str:
    return over_seeds(values).clipped().share if values else NOTHING


def _retrieval_tables(results: Results) -> list[Table]:
    targets, kinds = _targets(results, "retrieval"), ((MONOLINGUAL, "two models"), (BILINGUAL, "bilingual"))
    curves = {f"{target}, {label}": _rotated(results, target, kind) for kind, label in kinds for target in targets}
    note = (
        f"P@1 of Tatoeba's sentences from {_source(results)}, nearest by cosine, after a rotation with iterative "
        f"normalisation, means of the text that was learned from. {GRAPHIC}"
    )
    lines = []
    for mapping, method in RETRIEVAL:
        found = [_rotated(results, target, condition=mapping, method=method) for target in targets]
        if any(found):
            best = [f"{max(curve.values.mean(axis=0)):.3f} at {_peak(curve)}" if curve else NOTHING for curve in found]
            lines.append([f"{mapping} {method}", *best])
    ways = "Two models. Inductive: means of the text that was learned from; transductive: of the test's own sentences."
    return [
        _layer_table("Figure 6: sentences found after a rotation", curves, note, _share),
        Table("Figure 6, ways: P@1 at each way's best layer", ["", *targets], lines, [ways]),
    ]


def _stitching_table(results: Results, task: str) -> Table:
    every = {
        f"{target}, {label}": _stitched(results, task, kind, target, way)
        for target in _targets(results, f"stitch {task}")
        for kind, way, label in SEAMS
    }
    note = (
        "Points in the target language. Stitched: two models and a rotation; bilingual: the first layers of one model "
        f"as they are; mapped: the same with a rotation. Means over seeds of the task's layers. {GRAPHIC}"
    )
    curves = {label: curve for label, curve in every.items() if curve is not None}
    return _layer_table(f"Figure 5, {NAMES[task]}: a task on layers of two models", curves, note)


def _word_table(results: Results) -> Table:
    targets = _targets(results, "lexicon")
    words = [dict(zip(rows["layer"], rows["value"], strict=True)) for rows in (_words(results, one) for one in targets)]
    layers = sorted({layer for each in words for layer in each})
    lines = [[f"layer {layer}", *(_decimals(each.get(layer)) for each in words)] for layer in layers]
    labels = ("static, the same words", "embedding matrix", "static, the same pieces")
    for label, (unit, kind) in zip(labels, FLAT, strict=True):
        values = [next(iter(_words(results, target, unit, kind)["value"]), None) for target in targets]
        lines += [[label, *map(_decimals, values)]] if any(value is not None for value in values) else []
    at = {"measure": "coverage", "task": "lexicon", "model": MONOLINGUAL, "unit": "word", "condition": "test"}
    shares = [results.value(target=target, **at) for target in targets]
    lines += [["coverage of the test", *map(_decimals, shares)]] if any(share is not None for share in shares) else []
    note = (
        "P@1 of CSLS after a rotation with iterative normalisation, words of the test dictionary among all words. Only "
        f"words that the text has are asked; Chinese is cut into characters. {GRAPHIC}"
    )
    return Table("Figure 4: words looked up with two models", ["", *targets], lines, [note])


def _decimals(value: float | None) -> str:
    return NOTHING if value is None else decimals(value)


def _table_1(results: Results) -> Table:
    targets = {task: some for task in TASKS if (some := _targets(results, f"table-1 {task}"))}
    columns, chance, lines = [""], ["chance"], []
    for task, some in targets.items():
        columns += [*(f"{NAMES[task]} {target}" for target in some), "d"]
        at = {"measure": TASKS[task], "task": f"table-1 {task}", "condition": DEFAULT}
        floors = [results.value("floor", target=target, seed=0, **at) for target in some]
        chance += [*(NOTHING if floor is None else percent(floor) for floor in floors), NOTHING]
    for variant in VARIANTS:
        if not results.distinct("task", condition=variant, task=[f"table-1 {task}" for task in targets]):
            continue
        measured, paper = [variant], ["  published"]
        for task, some in targets.items():
            measured += [share_cell(_transferred(results, task, variant, target)) for target in some]
            measured.append(cell(_losses(results, task, variant, some), signed))
            at = {"task": f"table-1 {task}", "condition": variant}
            paper += [_printed(".1f", 100, measure=TASKS[task], target=target, **at) for target in some]
            paper.append(_printed("+.1f", 100, measure="change", **at))
        lines += [measured, paper] if _source(results) == ENGLISH else [measured]
    note = (
        "Points in the target language, tuned on English alone; d: the mean over targets less Default's, seed by seed "
        f"of the task's head, with t intervals from {LEAST} on. What is a language's own is frozen in tuning; the "
        "paper's d is over French, Russian and Chinese."
    )
    return Table("Table 1: what languages share, and transfer", columns, [*lines, chance] if targets else [], [note])


def _model_table(results: Results) -> Table:
    rows = results.where(task="pretrain", unit="character")
    lines = []
    for place, group in rows[rows["seed"].notna()].groupby(["data", "condition", "target"], sort=False):
        lines.append([*map(str, place), number(float(group["value"].mean())), str(len(group))])
    note = "Held-out text, a mean over seeds. Compare models within a language only."
    return Table("The models", ["languages", "variant", "language", "perplexity a character", "seeds"], lines, [note])


# ------------------------------------------------------------------------------------------------ the figures

BANDS = "bands are t intervals over seeds, where there are three"
CURVES_6 = {"raw": "raw", "centred inductive": "centred", "procrustes": "rotation", ROTATION: "rotation, normalised"}
CURVES_5 = (
    (MONOLINGUAL, STITCHED, "two models, stitched"),
    (MONOLINGUAL, UNMAPPED, "two models, as they are"),
    (MONOLINGUAL, ANY_ROTATION, "two models, any rotation"),
    (BILINGUAL, UNMAPPED, "bilingual, as it is"),
    (BILINGUAL, STITCHED, "bilingual, mapped"),
)


def figures(results: Results) -> list[Figure]:
    """Every figure the rows allow."""
    made = [_figure_7(results), _figure_6(results), _figure_6_and_7(results)]
    made += [*(_figure_5(results, task) for task in STITCHED_TASKS), _figure_4(results)]
    return [figure for figure in made if figure.panels]


def _panels(
    results: Results, task: str, lines_of: Callable[[str], list[Line]], floor: Mapping[str, Any] | None = None
) -> list[Panel]:
    """A panel for each target that has a curve; floor: coordinates of what chance gives."""
    source, panels = _source(results), []
    for target in _targets(results, task):
        lines = lines_of(target)
        if any(not line.dots for line in lines):
            chance = results.value("floor", target=target, source=source, **floor) if floor else None
            panels.append(Panel(f"{source}{'-' if task == 'cka' else ' to '}{target}", lines, floor=chance))
    return panels


def _drawn(curves: Mapping[str, Curves | None], **look: Any) -> list[Line]:
    """Curves of shares by their labels, those that are there."""
    return [curve.line(label, share=True, **look) for label, curve in curves.items() if curve is not None]


def _figure_7(results: Results) -> Figure:
    english = _source(results) == ENGLISH

    def lines_of(target: str) -> list[Line]:
        curves = {kind: _cka(results, kind, target) for kind in KINDS}
        lines = [curve.line(kind, hue=KINDS.index(kind)) for kind, curve in curves.items() if curve is not None]
        for hue, kind in enumerate(KINDS if english else ()):
            # A pair without numbers has empty lines, so that one legend does for all.
            printed = PUBLISHED.where(reference="Figure 7, layer", model=kind, target=target)
            values = [float(line["value"]) for line in printed]
            lines.append(Line(f"{kind}, published", list(range(len(values))), values, dots=True, hue=hue))
        return lines

    caption = (
        "Debiased CKA of sentence vectors of two languages: in one bilingual model, in two models, and with fresh "
        f"weights on the other side; {BANDS}."
    )
    caption += " Circles: the paper's, biased, of models 768 wide." if english else ""
    title, panels = "Figure 7: how alike two languages are, layer by layer", _panels(results, "cka", lines_of)
    return Figure("figure-7", title, caption, panels, "CKA", xlabel="layer")


def _figure_6(results: Results) -> Figure:
    def lines_of(target: str) -> list[Line]:
        curves = {label: _rotated(results, target, condition=mapping) for mapping, label in CURVES_6.items()}
        return _drawn({**curves, "bilingual, rotation, normalised": _rotated(results, target, BILINGUAL)})

    at = {"measure": "p@1", "task": "retrieval", "condition": ROTATION, "method": "cosine", "model": MONOLINGUAL}
    panels = _panels(results, "retrieval", lines_of, floor={**at, "layer": 0, "seed": 0})
    caption = f"P@1 of sentences of a test set, two models unless said otherwise; {BANDS}. Dashed: chance."
    return Figure("figure-6", "Figure 6: sentences found after a rotation", caption, panels, "P@1", xlabel="layer")


def _figure_6_and_7(results: Results) -> Figure:
    lines = []
    for target in _targets(results, "retrieval"):
        similar, right = _cka(results, MONOLINGUAL, target), _rotated(results, target)
        if similar is not None and right is not None:
            layers = sorted(set(similar.steps.tolist()) & set(right.steps.tolist()))
            x, y = ([_mean(curves.at(layer)) for layer in layers] for curves in (similar, right))
            lines.append(Line(target, x, y, dots=True))
    caption = "A circle is a layer: debiased CKA, and P@1 after a rotation with iterative normalisation."
    panels, title = [Panel("two models", lines)] if lines else [], "Similarity and retrieval, layer by layer"
    return Figure("figure-6-and-7", title, caption, panels, "P@1", xlabel="CKA")


def _figure_5(results: Results, task: str) -> Figure:
    def lines_of(target: str) -> list[Line]:
        curves = {label: _stitched(results, task, kind, target, way) for kind, way, label in CURVES_5}
        return _drawn(curves, scale=100)

    caption = (
        f"{NAMES[task]} in the target language: fresh layers are trained on the first layers of the source's model, "
        "and stand on those of the target's; bands are t intervals over seeds of the fresh layers."
    )
    title = f"Figure 5: {NAMES[task]} on stitched layers, by the layer of the seam"
    panels = _panels(results, f"stitch {task}", lines_of)
    return Figure(f"figure-5-{task}", title, caption, panels, "points", xlabel="layer")


def _figure_4(results: Results) -> Figure:
    def lines_of(target: str) -> list[Line]:
        words = _words(results, target).dropna(subset="layer")
        if words.empty:
            return []
        layers, values, low, high = (words[name].tolist() for name in ("layer", "value", "low", "high"))
        lines = [Line("words in use", layers, values, low, high)]
        labels = ("static", "embedding matrix", "static, single pieces")
        for label, (unit, kind) in zip(labels, FLAT, strict=True):
            for value in _words(results, target, unit, kind)["value"][:1]:
                lines.append(Line(label, [layers[0], layers[-1]], [value, value]))
        return lines

    caption = (
        "P@1 of words after a rotation with iterative normalisation, by CSLS; bands are Wilson intervals over words. "
        "Single pieces are other words than the layers', so compare them with the static line of their own."
    )
    panels = _panels(results, "lexicon", lines_of)
    return Figure("figure-4", "Figure 4: words found, layer by layer", caption, panels, "P@1", xlabel="layer")


PAPER = Paper("wu2020", ABOUT, plan, collect, CLAIMS, tables, figures)
