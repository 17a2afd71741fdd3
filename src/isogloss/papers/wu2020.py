"""Conneau, Wu, Li, Zettlemoyer & Stoyanov (2020): how similar models of different languages are, and what they share.

Monolingual and bilingual models are pretrained, on text packed by separate jobs (`part=pack`, for a machine without a
GPU). Then each part of the paper uses them: `rotate` (Figures 7 and 6), `stitch` (5), `lexicon` (4) and `transfer`
(Table 1). Figure 7 and Table 1 have published numbers (`published/wu2020.csv`); Figures 4, 5, 6 and 8 are graphics
only, so there are no published values for them.

Intervals are over pairs of languages and seeds for claims about languages, over seeds of task heads for transfer, and
over sentences for retrieval of a pair with one seed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from isogloss.errors import InputError, require
from isogloss.figure import Figure, Line, Panel, Table, number, signed
from isogloss.measures.statistics import Estimate, Interval, Seeds, correlation
from isogloss.papers import data_sets, paper
from isogloss.papers.claims import Claim, Comparison, Contrast, above, below, over_pairs
from isogloss.papers.results import LEAST, Curves, Results, differences, mean_over, over_seeds, rows_at
from isogloss.papers.tables import grid, panels, read_captions, read_published
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import OTHERS, POOLED, mean_rows
from isogloss.text.catalog import find_lexicon
from isogloss.text.readers.examples import read_pairs
from isogloss.text.readers.lines import paragraphs, read_lines
from isogloss.text.readers.parallel import paraphrases, read_bitext, read_bitexts
from isogloss.text.sampling import hash_fraction

ABOUT = "Conneau, Wu, Li, Zettlemoyer & Stoyanov (2020), Emerging cross-lingual structure in pretrained language models"
PUBLISHED, CAPTIONS = read_published("wu2020"), read_captions("wu2020")
SCALES, OPTIONS = paper.read_scales("wu2020")
BILINGUAL, MONOLINGUAL, RANDOM, STATIC, FASTTEXT = "bilingual", "monolingual", "random", "static", "fasttext"
KINDS = (BILINGUAL, MONOLINGUAL, RANDOM)
DEPTH = 8
DEFAULT, CRAWL, OWN_EMBEDDINGS = "Default", "Wiki-CC", "Sep Emb"
TASKS = {"nli": "accuracy", "ner": "span_f1", "parsing": "las"}
NAMES = {"nli": "XNLI", "ner": "NER", "parsing": "parsing"}
STITCHED_TASKS = ("ner", "parsing")
MAPPINGS = "raw,centred,procrustes,procrustes+iterative"
LEARNED = {"nl": "tatoeba_train"}  # parallel text for mappings and CKA of languages that XNLI does not have
# Sources of mini_text.py that are translations of each other, which must not be used for pretraining here.
PARALLEL = ("europarl", "libreoffice", "godot_docs", "python_docs", "qgis_docs")
CURVE = "curve"  # the part of learning curves, with models trained for more and fewer updates
INFERRED = 4  # a test of NLI has this many times the sentences of other tests, since a pair has only one answer


@dataclass(frozen=True)
class Variant:
    """The bilingual models of a row of Table 1.

    options: options of pretrain. pieces: those of them that affect the vocabulary, and so the packed text. packed:
    suffix of the name of the packed text, which variants with the same pieces share. apart: whether there is a model
    folder for each language. frozen: number of blocks that are frozen in fine-tuning, together with the embeddings,
    because each language has its own; 0 for the embeddings only, -1 for nothing.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    pieces: Mapping[str, str] = field(default_factory=dict)
    packed: str = ""
    apart: bool = True
    frozen: int = -1


EMBEDDINGS = {"separate": "embeddings"}
VARIANTS = {
    DEFAULT: Variant(apart=False),
    CRAWL: Variant(packed=".crawl", apart=False),
    "No anchors": Variant({"anchors": "none"}, {"anchors": "none"}, ".none"),
    "Default anchors": Variant({"vocabularies": "separate"}, {"vocabularies": "separate"}, ".separate"),
    "Extra anchors": Variant({"anchors": "extra"}, {"anchors": "extra"}, ".extra", apart=False),
    OWN_EMBEDDINGS: Variant(EMBEDDINGS, EMBEDDINGS, ".own", frozen=0),
    "Sep L1-3": Variant({"separate": "1-3"}, frozen=3),
    "Sep L1-6": Variant({"separate": "1-6"}, frozen=6),
    "Sep Emb + L1-3": Variant({"separate": "embeddings+1-3"}, EMBEDDINGS, ".own", frozen=3),
    "Sep Emb + L1-6": Variant({"separate": "embeddings+1-6"}, EMBEDDINGS, ".own", frozen=6),
}


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: packing, pretraining, and all evaluations of the models."""
    if scale.crawl is not None and (request.scale != "paper" or not Path(scale.crawl).is_dir()):
        raise InputError(f"--crawl {scale.crawl} goes with --scale paper, and is a folder of LANG.txt")
    texts = paper.Texts(request, partial(_contents, scale))
    # Finished jobs need no other jobs: their models and packed text may be on another machine.
    planned = Planner(request, scale, texts).jobs()
    jobs = [replace(job, needs=()) if job.done else job for job in planned]
    called = f"{scale.pretraining['architecture']}-{DEPTH}x{scale.width}"
    arguments: dict[str, Any] = {"model": called, "seeds": request.seeds, "crawl": scale.crawl is not None}
    conditions = (
        f"models {called}, {scale.steps:,} updates of {scale.batch} streams of "
        f"{scale.pretraining['length']} tokens, of {scale.source} with {', '.join((scale.again, *scale.targets))}"
    )
    text_again = "other text of the same language" if scale.text_bytes is not None else "the same text"
    learned = ", ".join(f"{target} ({name})" for target, name in LEARNED.items() if target in scale.targets)
    said: dict[str, Any] = {"not_parallel": scale.text_bytes is not None, "no_crawl": scale.crawl is None}
    said["learned"] = learned and f"XNLI has no {learned}: maps are learned and languages compared on other text there"
    notes = CAPTIONS.table("run", again=scale.again, source=scale.source, text=text_again, **said)["notes"]
    return paper.Outline(conditions, arguments, texts, jobs, scale.seconds, depth=DEPTH, notes=notes)


# ------------------------------------------------------------------------------------------------ the jobs


@dataclass(frozen=True)
class Planner:
    """Plans the jobs of a reproduction.

    packs, models: jobs that pack text and pretrain, by name, planned when the first job needs the model.
    """

    request: paper.Request
    scale: SimpleNamespace
    texts: paper.Texts
    packs: dict[str, Job] = field(default_factory=dict)
    models: dict[str, Job] = field(default_factory=dict)

    def jobs(self) -> list[Job]:
        """Packing, pretraining, and evaluations, in the order of their importance for the paper's argument."""
        reading = list(self._reading())
        return [*self.packs.values(), *self.models.values(), *reading]

    def _model(self, *languages: str, variant: str = DEFAULT, seed: int = 0, steps: int | None = None) -> Job:
        """The pretraining of a model, and the packing of its text, each planned once.

        The source with itself has separate embeddings. Packed text is shared by all seeds, and by variants that differ
        only in layers. steps: number of updates, if it differs from the other models'.
        """
        scale, pair, out = self.scale, "-".join(languages), self.request.out
        steps = steps or scale.steps
        variant = OWN_EMBEDDINGS if scale.again in languages else variant
        made = VARIANTS[variant]
        packed = f"{pair}{made.packed}"
        name = f"{pair}{'' if variant == DEFAULT else f'.{_spelt(variant)}'}.seed-{seed}"
        name += f".steps-{steps}" * (steps != scale.steps)
        at: dict[str, Any] = {"model": pair, "condition": variant}
        streams = {"streams": str(out / "streams" / packed)}
        if packed not in self.packs:
            extra = made.pieces.get("anchors") == "extra"
            # If languages have separate vocabularies, each has half the size.
            halved = len(languages) < 2 or (made.pieces and not extra)
            options = {"steps": 0, "depth": 1, "width": 16, "heads": 1, "probe": 1, "report": 1, **streams}
            options |= {shared: scale.pretraining[shared] for shared in ("architecture", "length")}
            options |= {**scale.packing, **made.pieces, "vocabulary": scale.vocabulary // (2 if halved else 1)}
            options |= {"lexicon": [f"{pair}={self.texts.path(f'lexicon.{pair}.train.txt')}"]} if extra else {}
            text = {language: self._text(language) for language in languages}
            if variant == CRAWL:
                text[languages[1]] = str(Path(scale.crawl) / f"{languages[1]}.txt")
            own, folder = replace(self.request, device="cpu", dtype=None), out / "packs" / packed
            self.packs[packed] = own.job("pretrain", f"pack-{packed}", text, options, folder=folder, part="pack", **at)
        if name not in self.models:
            options = {**streams, **scale.pretraining, **made.options, "seed": seed, "depth": DEPTH}
            options |= {"width": scale.width, "steps": steps, "batch": scale.batch}
            at |= {"part": "pretrain", "seed": seed, "needs": [self.packs[packed].folder]}
            at |= {} if steps == scale.steps else {"updates": steps}
            self.models[name] = self.request.job("pretrain", name, None, options, folder=out / "models" / name, **at)
        return self.models[name]

    def _text(self, language: str, kind: str = "pretrain") -> str:
        """The text of a language: a prepared file, or at paper scale LANG.txt of the given folder."""
        if self.scale.text_bytes is not None:
            return self.texts.path(f"{kind}.{language}.txt.gz")
        return str(Path(self.scale.text or f"{self.request.data or 'DATA'}/train") / f"{language.rstrip('2')}.txt")

    def _sides(self, kind: str, target: str, seed: int = 0) -> tuple[Job, Job]:
        """The models that read source and target."""
        source = self.scale.source
        if kind == BILINGUAL:
            return (self._model(source, target, seed=seed),) * 2
        first = self._model(source, seed=seed)
        if target == self.scale.again:  # the source as a second language is a model with another seed
            return first, self._model(source, seed=(seed + 1) % max(2, self.request.seeds))
        return first, self._model(target, seed=seed)

    def _read(
        self, recipe: str, sides: tuple[Job, Job], options: Mapping[str, Any], seed: int | None = None, **at: Any
    ) -> Job:
        """A job with two models: the first reads the source, the second the target."""
        first, other = _path(sides[0], self.scale.source), _path(sides[1], at["target"])
        seeded: dict[str, Any] = {} if seed is None else {"seed": seed}
        settings = {**options, **({"other": other} if other != first and recipe != "transfer" else {}), **seeded}
        at = {"part": recipe, **at}
        name = "-".join((*map(_spelt, at.values()), *(f"seed-{seed}" for seed in seeded.values())))
        needs = list(dict.fromkeys(model.folder for model in sides))
        return self.request.job(recipe, name, first, settings, needs=needs, **at, **seeded)

    def _pair(self, kind: str, target: str, ending: str = "tsv") -> list[str]:
        """The file of the source with a target, as the value of an option."""
        return [self.texts.path(f"{kind}.{self.scale.source}-{target}.{ending}")]

    def _reading(self) -> Iterator[Job]:
        """The evaluations of the models: rotate, stitch, lexicon and transfer."""
        scale, source, again = self.scale, self.scale.source, self.scale.again
        # CKA of two languages in one model, in two, and with random weights for the target; retrieval of sentences.
        # Only CKA without a test set, or with random weights.
        for target, kind in product((again, *scale.targets), KINDS):
            parallel = self._pair("parallel", target)
            options: dict[str, Any] = {"bitext": parallel, "mappings": "none", "sample": scale.compared}
            if target != again and kind != RANDOM:
                options = {"bitext": self._pair("tatoeba", target), "train_bitext": parallel}
                options |= {"mappings": MAPPINGS, "train_sample": scale.compared}
            options |= {"random_weights": True} if kind == RANDOM else {}
            several = target == scale.targets[0] or (target == again and kind != BILINGUAL)
            for seed in range(self.request.seeds if several else 1):
                yield self._read("rotate", self._sides(kind, target, seed), options, seed, target=target, kind=kind)
        # A task trained on one model's lower layers and evaluated on another's; the same for the bilingual model.
        for target, task, kind in product(scale.targets, STITCHED_TASKS, (MONOLINGUAL, BILINGUAL)):
            options = {"bitext": self._pair("parallel", target), **self._task(task, target), **scale.stitching}
            yield self._read("stitch", self._sides(kind, target), options, target=target, kind=kind, task=task)
        # Lexicon induction with two monolingual models.
        for target in scale.targets:
            options = {"text": {language: self._text(language, "words") for language in (source, target)}}
            for split in ("train", "test"):
                options[f"{split}_lexicon"] = self._pair("lexicon", target, f"{split}.txt")
            sides = self._sides(MONOLINGUAL, target)
            yield self._read("lexicon", sides, {**options, "static": ["train"], **scale.lookup}, target=target)
            if scale.vectors is not None:
                files = [f"{code}={Path(scale.vectors) / f'{code}.vec'}" for code in (source, target)]
                options |= {"static": files, **scale.lookup}
                yield self._read("lexicon", sides, options, target=target, vectors=FASTTEXT)
        # Every bilingual model is fine-tuned on the source and tested on the target; unshared parts are frozen.
        variants = [variant for variant in scale.variants or VARIANTS if variant != CRAWL or scale.crawl is not None]
        tuned: list[tuple[str, str, dict[str, int]]] = [(*both, {}) for both in product(scale.tuned_targets, variants)]
        # The same after more and fewer updates, a new model and a new head for each seed.
        for variant, (updates, seeds) in product(scale.curve_variants, scale.curve.items()):
            for seed in range(min(seeds, self.request.seeds)):
                tuned.append((scale.targets[0], variant, {"steps": int(updates), "seed": seed}))
        for (target, variant, longer), task in product(tuned, TASKS):
            model, made = self._model(source, target, variant=variant, **longer), VARIANTS[variant]
            own = {"target_models": [f"{target}={_path(model, target)}"]} if made.apart else {}
            options = {**self._task(task, target), "plans": f"freeze:{made.frozen}", **own, **scale.tuning}
            at: dict[str, Any] = {"target": target, "condition": variant, "task": task}
            if longer:
                options, at = {**options, "seeds": 1}, {"part": CURVE, **at, "updates": longer["steps"]}
            yield self._read("transfer", (model, model), options, longer.get("seed"), **at)

    def _task(self, task: str, target: str) -> dict[str, Any]:
        """Options of a task that is trained on the source and tested on source and target."""
        source, both = self.scale.source, (self.scale.source, target)
        if task == "nli":
            stems = [f"nli.{part}" for part in ("train", "dev", *both)]
        else:
            home, away = (f"{code}_{'wikiann' if task == 'ner' else self.scale.parsed[code]}" for code in both)
            stems = [f"{home}.train", f"{home}.dev", home, away]
        ending = "conllu" if task == "parsing" else "tsv"
        train, dev, *tests = (self.texts.path(f"{stem}.{ending}") for stem in stems)
        options: dict[str, Any] = {"task": task, "train": {source: train}, "dev": {source: dev}}
        options["test"] = [f"{language}={path}" for language, path in zip(both, tests, strict=True)]
        return {**options, "skip_bad": True, "seeds": self.request.seeds}


def _path(model: Job, language: str) -> str:
    """The folder of a model from which a language is read."""
    folder = model.folder / "model"
    return str(folder / language if VARIANTS[model.coordinates["condition"]].apart else folder)


def _spelt(name: Any) -> str:
    """A coordinate as part of a file name."""
    return str(name).lower().replace(" + ", "+").replace(" ", "-")


# ------------------------------------------------------------------------------------------------ the texts


def _contents(scale: SimpleNamespace, data: Path) -> dict[str, str]:
    """The files and their content.

    `pretrain.LANG.txt.gz` is pretraining text, where `en2` has other paragraphs than `en`; `words.LANG.txt.gz` is its
    first part, one sentence per line, for word vectors. Mappings are learned from `parallel.en-LANG.tsv`, which is
    XNLI, or training pairs of Tatoeba, or for `en2` English sentences that share a translation; retrieval uses the
    sentences of `tatoeba.en-LANG.tsv`. The rest are dictionaries and files of the tasks. If a set is larger than
    needed, items with the lowest hash are taken (for paragraphs the hash of the reversed text, since `pretrain` splits
    by the hash of the text itself).
    """
    return dict(chain(_running_text(scale, data), _parallel_text(scale, data), _task_files(scale, data)))


def _running_text(scale: SimpleNamespace, data: Path) -> Iterator[tuple[str, str]]:
    """Pretraining text, and its sentences; at paper scale the files of the given folder are used."""
    size, folder = scale.text_bytes, Path(scale.text) if scale.text else data / "train"
    require(folder.is_dir(), f"{folder} is no folder; --text is a folder of text to pretrain on")
    for language in (scale.source, *scale.targets) if size is not None else ():
        files = [path for path in sorted(folder.glob(f"*.{language}.txt*")) if path.name.split(".")[0] not in PARALLEL]
        require(files, f"{folder} has no text of {language} to pretrain on: no file is named *.{language}.txt")
        ordered = sorted(dict.fromkeys(paragraphs(files)), key=lambda line: hash_fraction(line[::-1]))
        first = data_sets.first_bytes(ordered, size)
        sentences = [part for line in first for part in data_sets.sentences_of(line)]
        yield f"pretrain.{language}.txt.gz", data_sets.as_lines(first)
        yield f"words.{language}.txt.gz", data_sets.as_lines(data_sets.first_bytes(sentences, size))
        if language == scale.source:  # the same amount again for the source as a second language
            second = data_sets.first_bytes(ordered[len(first) :], size)
            few = f"the text of {language} has no more than {size:,} bytes, and a second model of it needs other text"
            require(second, f"{few}; give more, or a smaller --text-bytes")
            yield f"pretrain.{scale.again}.txt.gz", data_sets.as_lines(second)


def _parallel_text(scale: SimpleNamespace, data: Path) -> Iterator[tuple[str, str]]:
    """Sentences for fitting and evaluating mappings, and dictionaries."""
    again = paraphrases(read_bitexts(data / "tatoeba_train"), scale.source)
    yield f"parallel.{scale.source}-{scale.again}.tsv", data_sets.parallel_table(again, scale.compared)
    for both in product([scale.source], scale.targets):
        pair = "-".join(both)
        learned = f"{LEARNED[both[1]]}/{pair}.tsv" if both[1] in LEARNED else "xnli/xnli.15way.tsv"
        bitext = read_bitext(data_sets.find_file(data, learned), languages=both)
        yield f"parallel.{pair}.tsv", data_sets.parallel_table(bitext, scale.compared)
        yield f"tatoeba.{pair}.tsv", data_sets.parallel_table(read_bitext(data / "tatoeba", languages=both), None)
        for split in ("train", "test"):
            yield f"lexicon.{pair}.{split}.txt", data_sets.as_lines(read_lines(find_lexicon(data, *both, split=split)))


def _task_files(scale: SimpleNamespace, data: Path) -> Iterator[tuple[str, str]]:
    """NLI, treebanks and entities: training and development in the source, tests in all languages."""
    tested, half = scale.tested, scale.tested and scale.tested // 2
    inference = {"train": ("nli_en/mnli_train.tsv", scale.inferred), "dev": ("nli_en/mnli_val.tsv", tested)}
    # The tests are parallel, and the selection depends only on the number of rows, so it is the same in each language.
    many = tested and INFERRED * tested
    inference |= {code: (f"xnli/test-{code}.tsv", many) for code in (scale.source, *scale.tuned_targets)}
    for name, (path, count) in inference.items():
        yield f"nli.{name}.tsv", data_sets.pair_table(read_pairs(data_sets.find_file(data, path)), count)
    for language in (scale.source, *scale.targets):
        sets = {"": tested, ".train": scale.examples, ".dev": half} if language == scale.source else {"": tested}
        for corpus, (part, most) in product((scale.parsed[language], "wikiann"), sets.items()):
            stem = f"{language}_{corpus}{part}"
            yield data_sets.task_file(stem), data_sets.cut_file(data, stem, most)


# ------------------------------------------------------------------------------------------------ the rows

AS_PRINTED = "cka_uncentred"  # the formula of the paper, which does not centre
FORMS = ("cka", "cka_biased", AS_PRINTED)
RETRIEVED = ("data", "source", "target", "layer", "condition", "method")
RELATION = "cka_retrieval"
ROTATION = "procrustes+iterative inductive"
# Shared coordinates of measurements; compared values differ in other coordinates.
CKA = {"measure": "cka", "task": "cka"}
SENTENCES = {"measure": "p@1", "task": "retrieval", "condition": ROTATION, "method": "cosine"}
TABLE_1 = {task: {"measure": measure, "task": f"table-1 {task}"} for task, measure in TASKS.items()}
TWO_MODELS = {"model": MONOLINGUAL}
STITCHED = {task: {"measure": TASKS[task], "task": f"stitch {task}"} for task in STITCHED_TASKS}
WORDS = {"measure": "p@1", "task": "lexicon", "condition": "procrustes+iterative", "method": "csls"}


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table: main scores of every part, means over layers and seeds, with published values.

    `model` says which models read the two languages: `bilingual` (one), `monolingual` (one each) or `random` (one of
    the source, random weights for the other); for the baseline of lexicon induction it is `static`, in Table 1 the
    pair. `condition` is the mapping, the condition of stitching, or the row of Table 1.
    """
    rows = [entry for job in jobs if job.coordinates["part"] != "pack" for entry in _rows_of(job)]
    rows += mean_over([entry for entry in rows if entry["measure"] in FORMS], "layer")
    run.append(map(PUBLISHED.beside, rows))
    run.append(mean_rows(rows))


def _rows_of(job: Job) -> Iterator[dict[str, Any]]:
    """The main rows of a job, with the coordinates of the reproduction."""
    at, table = job.coordinates, read_rows(job.folder)
    part, measures = at["part"], table["measure"]
    if part == "pretrain":
        rows = table[(measures == "perplexity") & (table["target"] != POOLED)]
        kind = BILINGUAL if "-" in at["model"] else MONOLINGUAL
        own = {"data": at["model"], "condition": at["condition"], "seed": at["seed"], "task": part, "model": kind}
        own |= {"step": at["updates"]} if "updates" in at else {}
        yield from rows_at(rows[rows["step"] == rows["step"].max()], ("target", "unit"), **own)
    elif part == "rotate":  # CKA on the training text, or on all text if there is no training text
        similar = table[measures.isin(FORMS)]
        text = "train" if "train" in set(similar["condition"]) else "test"
        own = {"model": at["kind"], "seed": at["seed"], "unit": "sentence"}
        similar = similar[similar["condition"] == text]
        yield from rows_at(similar, ("source", "target", "layer"), task="cka", data=text, **own)
        yield from rows_at(table[measures == "p@1"], RETRIEVED, task="retrieval", **own)
        related = table[(measures == RELATION) & (table["condition"] == ROTATION) & (table["method"] == "cosine")]
        yield from rows_at(related, ("source", "target"), task="cka", **{**own, "unit": "pearson"})
    elif part == "lexicon":
        words = table[measures.isin(("p@1", "coverage"))]
        for entry in rows_at(words, (*RETRIEVED, "unit", "model"), task=part):
            if entry["model"].startswith(STATIC):
                yield {**entry, "model": at.get("vectors", STATIC)}
            elif "vectors" not in at:  # the models' results do not depend on the baseline's vectors
                yield {**entry, "model": MONOLINGUAL}
    elif part == "stitch":
        main = table[(measures == TASKS[at["task"]]) & table["seed"].notna() & (table["target"] == at["target"])]
        names = ("data", "source", "target", "layer", "condition", "seed")
        yield from rows_at(main, names, task=f"stitch {at['task']}", model=at["kind"])
    else:
        main = table[(measures == TASKS[at["task"]]) & table["seed"].notna() & table["step"].isna()]
        for entry in rows_at(main[main["target"] != OTHERS], ("data", "source", "target", "seed")):
            own = {"task": f"table-1 {at['task']}", "model": f"{entry['source']}-{at['target']}"}
            own |= {"task": f"{CURVE} {at['task']}", "step": at["updates"]} if part == CURVE else {}
            yield {**entry, **own, "condition": at["condition"]}


def _cka_and_retrieval(results: Results, target: str) -> Line | None:
    """A circle for every layer: P@1 after a rotation between two models over CKA, means over seeds."""
    similar, right = (_curves(results, target, **at, **TWO_MODELS) for at in (CKA, SENTENCES))
    if not similar or not right:
        return None
    layers = sorted({*similar.steps} & {*right.steps})
    x, y = ([over_seeds(curve.at(layer)).value for layer in layers] for curve in (similar, right))
    return Line(target, x, y, dots=True)


def _curves(results: Results, target: str, **at: Any) -> Curves | None:
    """Values over layers, from the source to a target."""
    return results.curves("layer", source=results.source, target=target, **at)


# ------------------------------------------------------------------------------------------------ the claims

PEARSON = 0.9  # section 5.2: "> 0.9 for all language pairs"
FAR = 10  # "far more often than chance" means at least this many times chance
# Distance of a language from English: the same, Germanic, Romance, Slavic, another family.
DISTANCE = {"en2": 0, "de": 1, "nl": 1, "fr": 2, "ru": 3, "zh": 4}
MEAN_CKA: dict[str, Any] = {**CKA, "layer": None}
LOWER, MIDDLE, UPPER = [1, 2, 3, 4], [3, 4, 5], [5, 6, 7, 8]  # layers
BOTH = ("seeds", "pairs")  # the intervals of a comparison


@Claim("order")
def _order(results: Results) -> Iterator[Contrast]:
    """Languages are more alike in a bilingual model than in two models, and there more than with random weights."""
    for first, second in pairwise(KINDS):
        means = [np.mean(PUBLISHED.values(reference="Figure 7, mean", model=kind)) for kind in (first, second)]
        words = f"CKA of {first} above {second} ({means[0] - means[1]:.3f} in the paper)"
        models = {"model": first}, {"model": second}
        yield from Comparison(words, MEAN_CKA, *models, over=("pairs",), shares=False)(results)


@Claim("depth")
def _depth(results: Results) -> Iterator[Contrast]:
    """Similarity falls with depth."""
    for kind in (BILINGUAL, MONOLINGUAL):
        curves = [_curves(results, target, **CKA, model=kind) for target in results.targets(task="cka")]
        slopes = [slope for curve in curves if curve and (slope := _slopes(curve))]
        if slopes:
            means = [over_seeds(slope).value for slope in slopes]
            yield over_pairs(f"{kind}, change of CKA a layer {{}}", means, slopes, below)


def _slopes(curves: Curves) -> Seeds:
    """The change per layer above the embeddings, by seed; empty for a single layer."""
    layers = curves.steps > 0
    if layers.sum() < 2:
        return {}
    slopes = np.polyfit(curves.steps[layers], curves.values[:, layers].T, 1)[0]
    return dict(zip(curves.seeds, slopes.tolist(), strict=True))


@Claim("distance", missing="the pairs are too few to rank")
def _distance(results: Results) -> Iterator[Contrast]:
    """What a bilingual model adds to similarity is less for languages that are further from English."""
    apart, most = {}, 0
    for target in DISTANCE:
        sides = [results.values(**MEAN_CKA, target=target, model=kind) for kind in KINDS[:2]]
        both, alone = map(over_seeds, sides)
        if both.n and alone.n:
            apart[target], most = both.value - alone.value, max(most, len(differences(*sides)))
    if len(apart) > LEAST:
        ranks = correlation([DISTANCE[target] for target in apart], list(apart.values()), ordered=False)
        each = ", ".join(f"{target} {gap:+.3f}" for target, gap in apart.items())
        words = f"bilingual less monolingual, nearest first: {each}; rank correlation with distance {{}}"
        yield Contrast(words, Estimate.of(ranks, "fisher"), below, seeds=most)


@Claim("rotation", missing="no sentence was looked up with two models")
def _far(results: Results) -> Iterator[Contrast]:
    """A rotation learned from at most 10,000 sentences finds translations far more often than chance."""
    targets = results.targets(task="retrieval")
    curves = {code: own for code in targets if (own := _curves(results, code, **SENTENCES, **TWO_MODELS))}
    for target, own in curves.items():
        # The layer is chosen on the sentences of the other languages, if there are any.
        others = [each for code, each in curves.items() if code != target] or [own]
        means = {step: np.mean([each.mean[each.steps == step].sum() for each in others]) for step in own.steps}
        layer = int(max(means, key=lambda step: means[step]))
        first = results.where(**SENTENCES, **TWO_MODELS, target=target, layer=layer, seed=0).iloc[0]
        seeds = own.at(layer)
        many = len(seeds) >= LEAST
        known = seeds if many else Estimate.of(Interval(*first[["value", "low", "high", "n"]]))
        over = f"{len(seeds)} seeds" if many else f"{first['n']:,} sentences"
        words = f"{target}: P@1 {{}} at layer {layer} over {over}, chance {first['floor']:.4f}"
        yield Contrast(words, known, above, FAR * first["floor"])


@Claim(
    "similarity and retrieval",
    f"CKA and retrieval after a rotation rise and fall together over layers: Pearson above {PEARSON}.",
    missing="no correlation: every layer finds as many, or there are fewer than three layers",
)
def _relation(results: Results) -> Iterator[Contrast]:
    values, each = [], []
    for target in results.targets(task="retrieval"):
        at: dict[str, Any] = {"measure": RELATION, "model": MONOLINGUAL, "target": target}
        if by_seed := results.values(**at):
            seeds, first = over_seeds(by_seed), results.interval(seed=min(by_seed), **at)
            known = seeds if seeds.known or first is None else replace(first, value=seeds.value)
            values.append(by_seed)
            each.append(f"{target} {known.clipped(-1.0).share} over {'seeds' if seeds.known else 'layers'}")
    if values:
        means = [over_seeds(by_seed).value for by_seed in values]
        yield over_pairs(f"{', '.join(each)}; all: {{}}", means, values, above, PEARSON)


@Claim("lower layers")
def _lower(results: Results) -> Iterator[Contrast]:
    """After a rotation, sentences are found best at lower layers."""
    at, layers = {**SENTENCES, **TWO_MODELS}, ({"layer": LOWER}, {"layer": UPPER})
    return Comparison("P@1 in layers 1 to 4 above 5 to 8", at, *layers, over=("pairs",), shares=False)(results)


@Claim("middle")
def _middle(results: Results) -> Iterator[Contrast]:
    """Stitched layers carry a task best when they meet in the middle."""
    for (task, at), end in product(STITCHED.items(), (0, DEPTH)):
        words, at = f"{NAMES[task]}, layers 3 to 5 above {end}", {**at, **TWO_MODELS, "condition": "stitched"}
        yield from Comparison(words, at, {"layer": MIDDLE}, {"layer": end}, over=BOTH)(results)


@Claim("below bilingual")
def _below(results: Results) -> Iterator[Contrast]:
    """Two models stitched by a rotation stay below the bilingual model."""
    ways = ({"model": BILINGUAL, "condition": "unmapped"}, {**TWO_MODELS, "condition": "stitched"})
    for task, at in STITCHED.items():
        words = f"{NAMES[task]}, bilingual above stitched"
        yield from Comparison(words, {**at, "layer": MIDDLE}, *ways, over=BOTH)(results)


@Claim("mapped bilingual")
def _mapped(results: Results) -> Iterator[Contrast]:
    """A map between its languages helps the bilingual model in parsing only (appendix A)."""
    for task, test in (("ner", below), ("parsing", above)):
        words, at = f"{NAMES[task]}, mapped above unmapped", {**STITCHED[task], "layer": MIDDLE, "model": BILINGUAL}
        yield from Comparison(words, at, {"condition": "stitched"}, {"condition": "unmapped"}, test, BOTH)(results)


@Claim("higher layers")
def _higher(results: Results) -> Iterator[Contrast]:
    """Vectors of words, averaged over their uses, find translations better at higher layers."""
    at, layers = {**WORDS, **TWO_MODELS, "unit": "word"}, ({"layer": UPPER}, {"layer": LOWER})
    return Comparison("P@1 in layers 5 to 8 above 1 to 4", at, *layers, over=("pairs",), shares=False)(results)


@Claim("static")
def _static(results: Results) -> Iterator[Contrast]:
    """Rows of the embedding matrix are above static vectors, words averaged over their uses below."""
    sides = (("embedding matrix", "piece", above), ("mean over layers", "word", below))
    for model, (side, unit, test) in product((STATIC, FASTTEXT), sides):
        words, at = f"{side} above {'fastText' if model == FASTTEXT else model}", {**WORDS, "unit": unit}
        yield from Comparison(words, at, TWO_MODELS, {"model": model}, test, ("pairs",), shares=False)(results)


@Claim("layers and vocabulary")
def _shared(results: Results) -> Iterator[Contrast]:
    """Sharing the layers matters more than sharing the vocabulary."""
    for task, at in TABLE_1.items():
        words = f"{NAMES[task]}, layers 1 to 6 apart above no anchors"
        yield from Comparison(words, at, {"condition": "Sep L1-6"}, {"condition": "No anchors"}, below)(results)


CLAIMS = (_order, _depth, _distance, _far, _lower, _relation, _middle, _below, _mapped, _higher, _static, _shared)


# ------------------------------------------------------------------------------------------------ tables and figures


@dataclass(frozen=True)
class Chart:
    """A figure by layer with a panel for each pair of languages, which is also a table with a column for each layer.

    shared: coordinates and formats of all curves. curves: further coordinates of each. table: lines of the table alone.
    """

    shared: Mapping[str, Any]
    curves: Mapping[str, Mapping[str, Any]]
    table: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


DECIMALS = {"form": "{:.3f}", "printed": "{:.2f}"}
TRANSDUCTIVE = {"condition": "procrustes+iterative transductive"}
STITCHINGS = {
    "two models, stitched": {"model": MONOLINGUAL, "condition": "stitched"},
    "two models, as they are": {"model": MONOLINGUAL, "condition": "unmapped"},
    "two models, any rotation": {"model": MONOLINGUAL, "condition": "random"},
    "bilingual, as it is": {"model": BILINGUAL, "condition": "unmapped"},
    "bilingual, mapped": {"model": BILINGUAL, "condition": "stitched"},
}
LOOKED_UP: dict[str, dict[str, Any]] = {
    "words in use": {"model": MONOLINGUAL, "unit": "word", "items": True},
    "static, the same words": {"unit": "word", "model": STATIC},
    "embedding matrix": {"unit": "piece", "model": MONOLINGUAL},
    "static, the same pieces": {"unit": "piece", "model": STATIC},
    "fastText, the same words": {"unit": "word", "model": FASTTEXT},
    "fastText, the same pieces": {"unit": "piece", "model": FASTTEXT},
}
COVERAGE = {"model": MONOLINGUAL, "unit": "word", "measure": "coverage", "condition": "test", "method": ""}
ROTATIONS = {
    "raw": {"condition": "raw"},
    "centred": {"condition": "centred inductive"},
    "rotation": {"condition": "procrustes"},
    "rotation, normalised": {},
    "bilingual, rotation, normalised": {"model": BILINGUAL},
}
ROTATIONS_OF_TEST = {
    "rotation, the test's means": TRANSDUCTIVE,
    "rotation, the test's means, CSLS": {**TRANSDUCTIVE, "method": "csls"},
}
CKA_FORMS = {
    f"{kind}, {form}": {"model": kind, "measure": measure}
    for form, measure in (("biased", "cka_biased"), ("as printed", AS_PRINTED))
    for kind in KINDS
}
CHARTS = {
    "figure-7": Chart({**CKA, **DECIMALS}, {kind: {"model": kind} for kind in KINDS}, CKA_FORMS),
    "figure-6": Chart({**SENTENCES, **TWO_MODELS, **DECIMALS, "share": True}, ROTATIONS, ROTATIONS_OF_TEST),
    **{f"figure-5-{task}": Chart({**at, "share": True, "scale": 100}, STITCHINGS) for task, at in STITCHED.items()},
    "figure-4": Chart({**WORDS, **DECIMALS}, LOOKED_UP, {"coverage of the test": COVERAGE}),
}


def _pairs(results: Results, task: str) -> dict[str, dict[str, Any]]:
    """The coordinates of the pairs of languages of a task, by title."""
    source = results.source
    return {f"{source}-{target}": {"source": source, "target": target} for target in results.targets(task=task)}


def _curve_tasks(results: Results) -> dict[str, dict[str, Any]]:
    """Coordinates of the learning curves of each task, in the target language."""
    at = {"source": results.source, "target": results.targets(task=[f"{CURVE} {task}" for task in TASKS])}
    return {name: {"measure": TASKS[task], "task": f"{CURVE} {task}", **at} for task, name in NAMES.items()}


def tables(results: Results) -> list[Table]:
    """All tables that can be made from the rows: the figures as tables, and Table 1, each with published numbers."""
    made: list[Table] = []
    layers = {str(layer): {"layer": layer} for layer in sorted(results.distinct("layer"))}
    for name, chart in CHARTS.items():
        shared = chart.shared
        rows = {
            f"{pair}, {label}": {**at, **shared, **own}
            for pair, at in _pairs(results, shared["task"]).items()
            for label, own in {**chart.curves, **chart.table}.items()
        }
        told = CAPTIONS.table(name)
        made += grid(results, rows, {"all layers": {"layer": None}, **layers}, **told, known=PUBLISHED)
    columns: dict[str, Any] = {}
    respelt = {"measure": "change", "target": OTHERS}
    change = {"base": {"condition": DEFAULT}, "form": signed, "respelt": respelt}
    for task, name in NAMES.items():
        targets = results.targets(task=f"table-1 {task}")
        at = {**TABLE_1[task], "source": results.source}
        columns |= {f"{name} {target}": {**at, "target": target} for target in targets}
        columns[f"{name}, d"] = {**at, "target": targets, **change}
    variants: dict[str, Any] = {variant: {"condition": variant} for variant in VARIANTS}
    variants["chance"] = {"condition": DEFAULT, "seed": 0, "column": "floor"}
    made += grid(results, variants, columns, **CAPTIONS.table("table-1"), known=PUBLISHED)
    tasks = _curve_tasks(results)
    rows = {f"{name}, {variant}": {**at, "condition": variant} for name, at in tasks.items() for variant in VARIANTS}
    steps = {f"{step:,}": {"step": step} for step in sorted(results.distinct("step", task=f"{CURVE} nli"))}
    made += grid(results, rows, steps, **CAPTIONS.table("curves"))
    models = {"measure": "perplexity", "task": "pretrain", "unit": "character", "step": None, "form": number}
    text = results.where(task="pretrain", unit="character", step=None)
    named = dict.fromkeys(zip(text["data"], text["condition"], strict=True))
    rows = {f"{data}, {variant}": {**models, "data": data, "condition": variant} for data, variant in named}
    languages = {code: {"target": code} for code in dict.fromkeys(text["target"])}
    return made + grid(results, rows, languages, **CAPTIONS.table("models"))


def figures(results: Results) -> list[Figure]:
    """All figures that can be made from the rows."""
    made = []
    for name, chart in CHARTS.items():
        shared, lines = chart.shared, chart.curves
        at = {**shared, "respelt": {"measure": AS_PRINTED}}
        pairs = {pair: {**ends, **at} for pair, ends in _pairs(results, shared["task"]).items()}
        known = PUBLISHED if name == "figure-7" and results.source == "en" else None
        made += CAPTIONS.figure(name, panels(results, pairs, lines, floor=name == "figure-6", known=known))
        if name == "figure-6":
            dots = [_cka_and_retrieval(results, code) for code in results.targets(task="retrieval")]
            shown = [line for line in dots if line and line.steps]
            made += CAPTIONS.figure("figure-6-and-7", [Panel("two models", shown)] if shown else [])
    variants = {variant: {"condition": variant} for variant in VARIANTS}
    return made + CAPTIONS.figure("curves", panels(results, _curve_tasks(results), variants, over="step"))


PAPER = paper.Paper("wu2020", ABOUT, SCALES, OPTIONS, plan, collect, CLAIMS, tables, figures)
