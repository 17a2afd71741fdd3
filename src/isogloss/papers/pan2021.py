"""Pan et al. (2021): the gains and costs of training on parallel text after pretraining.

Only the abstract of the paper was available, so there is one number from it: zero-shot accuracy on XNLI rises by 4.7
points on average. The other numbers in `published/pan2021.csv` are from other papers.

The paper's settings were not available either. Those of the alignment come from MoCo and InfoXLM (see `isogloss
align`), those of fine-tuning on NLI from `jexus2020`, and those of question answering from XTREME for mBERT: learning
rate 3e-5, batches of 32, 384 tokens. `mini` sees hundreds of times fewer pairs than the paper's models, so its queue is
shorter and its momentum lower: with 0.999 the key encoder would hardly change in a thousand updates.

Every alignment has a job for each seed; its model is then mapped and fine-tuned with the same seed. The model before
alignment (`before`) is also fine-tuned with every seed. So models are compared seed by seed: a seed determines the
order of pairs and examples and the initial head. In the rows, `plan` is the alignment, `condition` is `translated` or
`switched` if a task was trained in all languages and `words` if words of English were replaced by their translations,
and `data` is the test (`xnli`, `sick`, `xquad`, `mlqa`, `tatoeba`). Retrieval is centred cosine, CKA is debiased.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from isogloss.errors import require
from isogloss.figure import NOTHING, Figure, Line, Panel, Table, number, percent, signed
from isogloss.measures.statistics import Seeds
from isogloss.papers import data_sets, paper
from isogloss.papers.claims import Claim, Comparison, Contrast, above, below, chance_contrast
from isogloss.papers.jexus2020 import DUTCH
from isogloss.papers.results import Results, by_seed, changes, differences, final, mean_over, over_seeds, rows_at
from isogloss.papers.tables import bands_note, grid, panels, read_captions, read_published, target_title
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import OTHERS, POOLED, key, mean_rows, records
from isogloss.text.catalog import find_lexicon
from isogloss.text.corpora import letters
from isogloss.text.readers.conll import read_treebank
from isogloss.text.readers.examples import read_pairs
from isogloss.text.readers.lines import read_lines
from isogloss.text.readers.parallel import find_pairs, read_bitext, read_bitexts

ABOUT = "Pan, Hang, Qi, Shah, Potdar & Yu (2021), Multilingual BERT post-pretraining alignment"
PUBLISHED, CAPTIONS = read_published("pan2021"), read_captions("pan2021")
SCALES, OPTIONS = paper.read_scales("pan2021")
RISE = PUBLISHED.value(measure="change")  # published gain in zero-shot XNLI
BEFORE, BOTH, TLM, CONTRASTIVE, UNSHUFFLED, SEARCH = "before", "both", "tlm", "contrastive", "unshuffled", "search"
IN_BATCH = {"pooling": "mean", "projection": "none", "negatives": "batch"}
# The alignments with their names in tables, and their training options; the scale adds alignments on less text.
ALIGNMENTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    BEFORE: ("before", {}),
    BOTH: ("both losses", {}),
    TLM: ("TLM only", {"contrastive": 0.0}),
    CONTRASTIVE: ("contrastive only", {"tlm": 0.0}),
    UNSHUFFLED: ("both, no shuffling", {"shuffle": False}),
    "batch": ("both, in-batch", IN_BATCH),
    SEARCH: ("for search", {"tlm": 0.0, **IN_BATCH}),
}
# The languages of each test besides English, or besides the invented language that acts as English.
COVERED = {
    "xnli": "ar bg de el es fr hi ru sw th tr ur vi zh qab qac",
    "xquad": "ar de el es hi ru th tr vi zh qab qac",
    "mlqa": "ar de es hi vi zh qab",
}
ZERO, TRANSLATED, SWITCHED, WORDS = "zero-shot", "translated", "switched", "words"
SWITCH = 0.5  # the probability that a sentence, or a word in a dictionary, is replaced by its translation
AIMS = {("de", "fr", "nl", "es"): 0.90, ("ru", "zh"): 0.82}  # Tatoeba P@1: goals of this project, not of the paper
TESTS = {"xnli": "XNLI", "sick": "SICK", "xquad": "XQuAD", "mlqa": "MLQA"}
SCORES = {"xnli": "accuracy", "sick": "accuracy", "xquad": "answer_f1", "mlqa": "answer_f1"}  # the measure of each test
TATOEBA_TRAIN = "tatoeba_train"
SOURCES = (TATOEBA_TRAIN, "europarl", "libreoffice_help", "gettext_mo", "docs_po", "multi30k", "pairs")

# ------------------------------------------------------------------------------------------------ the jobs


def alignments_of(scale: SimpleNamespace) -> dict[str, dict[str, Any]]:
    """The options of every alignment, by name."""
    options = {name: {**scale.align, **ALIGNMENTS[name][1]} for name in scale.trained}
    options |= dict.fromkeys(scale.amounts, options[BOTH])
    return {**options, SEARCH: {**options[SEARCH], **scale.longer}}


def shares_of(scale: SimpleNamespace) -> list[float]:
    """The ends of the parts of the parallel text, as shares of it."""
    return [*sorted(scale.amounts.values()), 1.0]


def languages_of(scale: SimpleNamespace, data: str) -> tuple[str, ...]:
    """The languages of a test: the source, and the aligned ones."""
    return (scale.source, *(code for code in scale.aligned if code in COVERED[data].split()))


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: alignments, then maps and fine-tuning before and after."""
    notes: list[str] = []
    texts = paper.Texts(request, partial(_contents, scale, notes), notes=notes)
    model, called, before = request.model_to_read(scale)
    jobs = list(_jobs(request, scale, texts, model))
    conditions = (
        f"{called} aligned in {', '.join((scale.source, *scale.aligned))}, {len(alignments_of(scale))} ways and "
        f"{request.seeds} seeds, then mapped and fine-tuned beside itself as it was"
    )
    return paper.Outline(conditions, {"model": called}, texts=texts, jobs=jobs, seconds=scale.seconds, before=before)


def _jobs(request: paper.Request, scale: SimpleNamespace, texts: paper.Texts, model: str) -> Iterator[Job]:
    """The alignments; then question answering, which takes longest, NLI, and maps of aligned models and `before`."""
    seeds, names, tasks = range(request.seeds), list(alignments_of(scale)), _tasks(scale, texts.path)
    aligned = {
        (name, seed): _align(request, scale, texts=texts, model=model, name=name, seed=seed)
        for seed, name in product(seeds, names)
    }

    def reading(part: str, name: str, seed: int, condition: str | None = None) -> Job:
        """A job that maps or fine-tunes the model of an alignment, or the one before."""
        needs = [] if name == BEFORE else [aligned[name, seed].folder]
        first = str(needs[0] / "model") if needs else model
        called = f"{part}-{condition}" if condition in (SWITCHED, WORDS) else part
        job = f"{called}-{name.rstrip('%')}" + f"-seed-{seed}" * (part != "map" or name != BEFORE)
        at: dict[str, Any] = {"alignment": name, "seed": seed, "part": part}
        if condition is None:
            options = {"bitext": texts.path("compared"), "pairs": "first", "points": 0}
            return request.job("map", job, first, options, needs=needs, **at)
        options = {**tasks[part], "seed": seed, "probe": paper.AT_THE_END, "checkpoint": 5000}
        options["skip_bad"] = options["task"] == "qa"
        options |= {"switch": SWITCH, "switch_to": "source"} if condition == SWITCHED else {}
        if condition == WORDS:
            options["lexicon"] = {code: texts.path(f"lexicon/{code}.txt") for code in scale.dictionaries}
            options["switch_words"] = SWITCH
        return request.job("transfer", job, first, options, needs=needs, **at, training=condition)

    yield from aligned.values()
    both, ways = (BEFORE, BOTH), (TRANSLATED, SWITCHED)
    for seed in seeds:
        yield from (reading("qa", name, seed, ZERO) for name in scale.answering)
        yield from (reading("nli", name, seed, ZERO) for name in (BEFORE, *names))
        yield from (reading(part, name, seed, way) for name, part, way in product(both, [*tasks][2:], ways))
        if scale.dictionaries:
            yield from (reading(part, name, seed, WORDS) for name, part in product(both, ("nli", "qa")))
    yield reading("map", BEFORE, 0)
    yield from (reading("map", name, seed) for name, seed in aligned)


def _align(request: paper.Request, scale: SimpleNamespace, texts: paper.Texts, model: str, name: str, seed: int) -> Job:
    """An alignment of the model with one seed, on its share of the parallel text."""
    options, share = alignments_of(scale)[name], scale.amounts.get(name, 1.0)
    read = (*languages_of(scale, "xnli"), DUTCH)
    evaluate = {code: texts.path(f"evaluate/{code}.txt") for code in (scale.source, *scale.aligned) if code in read}
    parts = [texts.path(f"pairs/{part}") for part, end in enumerate(shares_of(scale)) if end <= share]
    own = {**options, "train_bitext": parts, "evaluate": evaluate, "bitext": texts.path("compared")}
    own |= {"held_out": 0.0, "probe": paper.AT_THE_END, "checkpoint": max(500, options["steps"] // 10)}
    own |= {"compiled": "yes"} if scale.compiled else {}
    own |= {"packed": str(request.out / "packed"), "seed": seed}
    job = f"align-{name.rstrip('%')}-seed-{seed}"
    return request.job("align", job, model, own, part="align", alignment=name, seed=seed)


def _tasks(scale: SimpleNamespace, path: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    """The options of every task: zero-shot NLI and question answering, and NLI trained on translations, too."""
    source, tested = scale.source, languages_of(scale, "xnli")

    def files(name: str, *languages: str) -> dict[str, str]:
        return {code: path(name.format(code)) for code in languages}

    def inference(train: str, dev: str, test: Mapping[str, str], *translated: str) -> dict[str, Any]:
        options = {"task": "nli", "train": files(train, source), "dev": files(dev, source), "test": test}
        return {**options, **({"translated": files(train, *translated)} if translated else {}), **scale.nli}

    xnli, sick = files("nli/xnli-test-{}.tsv", *tested), files("nli/sick-test-{}.tsv", source, DUTCH)
    train, dev = (files(f"qa/squad-{part}.json", source) for part in ("train", "dev"))
    asked = [files(f"qa/{data}-{{}}.json", *languages_of(scale, data)) for data in ("xquad", "mlqa")]
    tests = [f"{code}={test}" for sets in asked for code, test in sets.items()]
    known = DUTCH in scale.aligned
    tasks = {
        "nli": inference("nli/mnli-train.tsv", "nli/mnli-dev.tsv", {**xnli, **({DUTCH: sick[DUTCH]} if known else {})}),
        "qa": {"task": "qa", "train": train, "dev": dev, "test": tests, **scale.qa},
        "translate": inference("nli/xnli-train-{}.tsv", "nli/mnli-dev.tsv", xnli, *tested[1:]),
    }
    asked_in, *translated = asked[0].items()  # the questions of XQuAD, which are the same in each language
    tasks["questions"] = {**tasks["qa"], "train": dict([asked_in]), "translated": dict(translated), "test": asked[1]}
    tasks["questions"] |= scale.qa_translated
    if known:
        tasks["sick"] = inference("nli/sick-train-{}.tsv", "nli/sick-dev-{}.tsv", sick, DUTCH)
    return tasks


# ------------------------------------------------------------------------------------------------ the texts


def _contents(scale: SimpleNamespace, notes: list[str], data: Path) -> dict[str, str]:
    """The files of text.

    | folder | content |
    |---|---|
    | `pairs/0`, `pairs/1` ... | parallel text, `en-nl.tsv` in each; its amounts are the first part, the first two ... |
    | `compared` | parallel sentences for maps: XNLI's in all languages, and Tatoeba's of each with English |
    | `evaluate` | sentences of each language for perplexity: XNLI's, for Dutch SICK's |
    | `nli` | MultiNLI for training; XNLI's development sets for training in all languages, and its tests; SICK |
    | `qa` | SQuAD's training articles, which have no XQuAD question, for training and development; XQuAD and MLQA |
    | `lexicon` | dictionaries from English |

    No sentence of `compared`, `evaluate`, `nli` or of the parallel treebanks of UD is in `pairs`.
    """
    files = _inference_files(data, scale)
    files |= _compared_files(data, scale, files.get(f"nli/sick-test-{DUTCH}.tsv", ""))
    sentences = [
        cell
        for name in files
        if "mnli" not in name
        for line in files[name].split("\n")  # of pairs the last column is their label
        for cell in line.split("\t")[: 2 if name.startswith("nli/") else None]
    ]
    for code in (scale.source, *scale.aligned):
        for treebank in data.glob(f"ud_pud/{code}_pud-ud-test.conllu"):
            sentences += read_treebank(treebank, code)
    files |= _pair_files(data, scale, set(map(letters, sentences)) - {""}, notes)
    files |= data_sets.question_files(data, scale.questions, scale.chosen)
    for name, path in (("xquad", "xquad/xquad.{0}.json"), ("mlqa", "mlqa/dev-context-{0}-question-{0}.json")):
        for code in languages_of(scale, name):
            files[f"qa/{name}-{code}.json"] = data_sets.as_lines(
                read_lines(data_sets.find_file(data, path.format(code)))
            )
    for code in scale.dictionaries:
        files[f"lexicon/{code}.txt"] = data_sets.as_lines(read_lines(find_lexicon(data, scale.source, code)))
    return files


def _pair_files(data: Path, scale: SimpleNamespace, tests: Collection[str], notes: list[str]) -> dict[str, str]:
    """Parallel text of the source with each language, in parts, without test sentences; adds its sizes to `notes`."""
    files, sources = dict[str, str](), {}
    for name in [name for name in SOURCES if (data / name).is_dir()]:
        tables = sorted((data / name).glob("*way.tsv"))  # their names tell no languages, their headers do
        sources[name] = find_pairs(list(map(str, tables)) or str(data / name))
    require(sources, f"{data} has no parallel text: none of {', '.join(SOURCES)}")
    most = {**dict.fromkeys(sources, scale.parallel), TATOEBA_TRAIN: None}
    for both in ((scale.source, code) for code in scale.aligned):
        chosen, left_out = data_sets.choose_pairs(sources, both, tests, most)
        for part, (start, end) in enumerate(pairwise([0.0, *shares_of(scale)])):
            rows = [own[round(start * len(own)) : round(end * len(own))] for own in chosen.values()]
            files[f"pairs/{part}/{'-'.join(both)}.tsv"] = data_sets.as_lines([both, *chain(*rows)])
        taken = ", ".join(f"{len(own):,} of {name}" for name, own in chosen.items())
        notes.append(f"{'-'.join(both)}: {taken}; {left_out:,} pairs left out that have a sentence of a test")
    return files


def _inference_files(data: Path, scale: SimpleNamespace) -> dict[str, str]:
    """MultiNLI, XNLI and SICK; training in all languages uses translations of MultiNLI, or XNLI's development sets.

    Line-aligned translations of MultiNLI are searched in `nli_translated` in the data folder.
    """
    languages = languages_of(scale, "xnli")
    files = data_sets.inference_files(data, languages, scale.examples)
    files = {name.replace("xnli-dev", "xnli-train"): content for name, content in files.items()}
    if (data / "nli_translated").is_dir():
        for code in languages:
            path = "nli_en/mnli_train.tsv" if code == scale.source else f"nli_translated/{code}.tsv"
            files[f"xnli-train-{code}.tsv"] = data_sets.pair_table(read_pairs(data_sets.find_file(data, path)))
    if DUTCH in scale.aligned:
        sick = data_sets.read_sick(data)
        parts = {"train": sick["TRAIN"], "dev": sick["TRIAL"], "test": data_sets.balanced(sick["TEST"])}
        for part, rows in parts.items():
            for side, code in enumerate((DUTCH, scale.source)):
                files[f"sick-{part}-{code}.tsv"] = data_sets.pair_table([sides[side] for sides in rows])
    return {f"nli/{name}": content for name, content in files.items()}


def _compared_files(data: Path, scale: SimpleNamespace, dutch: str) -> dict[str, str]:
    """Parallel sentences of XNLI, and of Tatoeba for each language with the source; those of XNLI also for perplexity.

    dutch: pairs of SICK as a table, whose sentences are used for Dutch, which XNLI does not have.
    """
    xnli = read_bitext(data_sets.find_file(data, "xnli/xnli.15way.tsv"), languages=languages_of(scale, "xnli"))
    tatoeba = read_bitexts(data / "tatoeba", languages=[scale.source, *scale.aligned])
    files, evaluated = {}, dict[str, Sequence[str]]()
    for name, bitext, count in (("xnli", xnli, scale.compared), *(("tatoeba", bitext, None) for bitext in tatoeba)):
        chosen = data_sets.drawn(list(zip(*bitext, strict=True)), count)
        rows = [[re.sub(r"\s+", " ", cell) for cell in cells] for cells in chosen]
        files[f"compared/{name}.{'-'.join(bitext.languages)}.tsv"] = data_sets.as_lines([bitext.languages, *rows])
        evaluated = evaluated or dict(zip(bitext.languages, zip(*rows, strict=True), strict=True))
    evaluated |= {DUTCH: [cell for pair in dutch.splitlines() for cell in pair.split("\t")[:2]]} if dutch else {}
    for code, sentences in evaluated.items():
        files[f"evaluate/{code}.txt"] = data_sets.as_lines(list(dict.fromkeys(sentences))[: scale.evaluated])
    return files


# ------------------------------------------------------------------------------------------------ the rows


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table: every model on every test, means over languages and seeds, and changes by alignment.

    A task trained in all languages is compared with the same training of the model before alignment. Other scores,
    losses by step and other kinds of retrieval are only in the tables of the jobs.
    """
    scores: list[dict[str, Any]] = []
    perplexities: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    for job in jobs:
        table, at = read_rows(job.folder), job.coordinates
        own, seeded = {"model": str(run.facts["model"]), "plan": at["alignment"]}, {"seed": at["seed"]}
        if job.recipe == "transfer":  # scores of every test set, and the gap to the source
            own["condition"] = "" if at["training"] == ZERO else at["training"]
            table = table[table["measure"].isin(("accuracy", "answer_f1", "exact_match", "gap"))]
            for entry in records(final(table)):
                scores.append({**entry, **own, "data": str(entry["data"]).partition("-")[0]})
        elif job.recipe == "align":  # perplexity of each language before the first update and after the last
            # `all` is skipped: in the pooled perplexity, languages with more tokens have more weight.
            table = table[(table["measure"] == "perplexity") & (table["target"] != POOLED)]
            for step, plan in ((0, BEFORE), (table["step"].max(), at["alignment"])):
                own |= {**seeded, "data": "evaluate", "plan": plan}
                perplexities += rows_at(table[table["step"] == step], ("target", "unit"), **own)
        else:  # centred retrieval and debiased CKA of sentences at every layer; the model as it was has no seed
            own |= {"task": "align"} | ({} if own["plan"] == BEFORE else seeded)
            wanted = (table["measure"] + " " + table["method"]).isin(("p@1 centred", "cka debiased"))
            wanted &= (table["unit"] == "sentence") & table["layer"].notna()
            for entry in rows_at(table[wanted], ("layer", "source", "target", "unit", "data"), **own):
                maps.append({**entry, "data": str(entry["data"]).partition(".")[0]})
    others = [entry for entry in scores if entry["target"] != entry["source"]]
    scores += list(mean_over(others, "target", target=OTHERS))
    # Values before alignment are the same in all alignments of a seed, which share their masks: the first is taken.
    perplexities = list({key(entry): entry for entry in reversed(perplexities)}.values())[::-1]
    run.append([*scores, *perplexities, *mean_rows([*scores, *perplexities])])
    run.append(PUBLISHED.beside(entry) for entry in changes(scores, plan=BEFORE))
    run.append(changes(perplexities, measure="factor", log=True, plan=BEFORE))
    run.append(maps)


def _alignments(results: Results) -> list[str]:
    """The alignments in the rows: before, the paper's and its ablations, amounts of text, for search."""
    names = {BEFORE, *results.distinct("plan")}
    order = [*(name for name in ALIGNMENTS if name != SEARCH), *_amounts(results), SEARCH]
    return [name for name in order if name in names]


def _amounts(results: Results) -> dict[str, float]:
    """The alignments on less text, and their share of the text in percent."""
    amounts = {name: float(name.rstrip("%")) for name in results.distinct("plan") if name not in ALIGNMENTS}
    return dict(sorted(amounts.items(), key=lambda amount: amount[1]))


def titled(alignment: str) -> str:
    """The name of an alignment in tables; amounts of text use both losses.

    >>> titled("tlm"), titled("10%")
    ('TLM only', 'both, 10% of the text')
    """
    return ALIGNMENTS[alignment][0] if alignment in ALIGNMENTS else f"both, {alignment} of the text"


def _languages(results: Results, data: str) -> list[str]:
    """The languages of a test except the source, in the order of the rows: those with scores, else those mapped."""
    return results.targets(data=data, layer=None) or results.targets(data=data)


def _groups(results: Results) -> list[list[str]]:
    """The languages of Tatoeba in the groups of `AIMS`; the others are one group."""
    codes = _languages(results, "tatoeba")
    known = [[code for code in group if code in codes] for group in AIMS]
    return [group for group in (*known, [code for code in codes if not any(code in group for group in known)]) if group]


def _score(results: Results, data: str, alignment: str, target: str = OTHERS) -> Seeds:
    """The zero-shot score on a test by seed, in the test's own measure."""
    return results.values(measure=SCORES[data], data=data, plan=alignment, target=target, condition=None)


def _factor(results: Results, alignment: str, *languages: str) -> Seeds:
    """The ratio of perplexity after alignment to before, by seed: the geometric mean over these or all languages."""
    at: dict[str, Any] = {"measure": "perplexity", "unit": "token"}
    codes = languages or results.distinct("target", **at)
    return results.values(**at, plan=alignment, target=codes, base={"plan": BEFORE}, log=True)


def _mapped(results: Results, measure: str, data: str, languages: Sequence[str] = ()) -> dict[str, Any]:
    """Coordinates of a measure of the map, in both directions of the source with these (default: all) languages."""
    ends = [results.source, *(languages or _languages(results, data))]
    return {"measure": measure, "data": data, "source": ends, "target": ends}


def _best_layer(results: Results, alignment: str, judged: str = "") -> int | None:
    """The layer with the highest Tatoeba P@1, over seeds and languages; None if nothing was mapped.

    judged: a language that is left out of the selection, since the layer is evaluated on it.
    """
    others = [code for code in _languages(results, "tatoeba") if code != judged]
    curves = results.curves("layer", **_mapped(results, "p@1", "tatoeba", others), plan=alignment)
    return None if curves is None else curves.peak


def _at_best(
    results: Results, alignment: str, languages: Sequence[str] = (), measure: str = "p@1", data: str = "tatoeba"
) -> Seeds:
    """A measure of the map by seed, by default P@1, at the layer where Tatoeba P@1 of the other languages is best."""
    sides = []
    for code in languages or _languages(results, data):
        best, at = _best_layer(results, alignment, code), _mapped(results, measure, data, [code])
        sides.append(results.values(**at, plan=alignment, layer=best))
    return by_seed(sides)


# ------------------------------------------------------------------------------------------------ the claims

ACCURACY = {"measure": "accuracy", "condition": None}  # zero-shot
XNLI_SCORES = {**ACCURACY, "data": "xnli"}


@Claim("above chance", missing="no inference was run")
def _above_chance(results: Results) -> Iterator[Contrast]:
    """(Not the paper's.) What is learned in one language carries over, before and after: accuracy is above chance."""
    for name in (BEFORE, BOTH):
        yield from chance_contrast(f"{titled(name)} {{}} on XNLI", results, **XNLI_SCORES, plan=name, target=OTHERS)


def _against(results: Results, others: Collection[str]) -> Iterator[Contrast]:
    """Zero-shot XNLI of both losses less that of others, which should be above 0; retrieval is added to the words."""
    for other in others:
        words = f"zero-shot XNLI of both losses above {titled(other)}"
        beside = differences(_at_best(results, BOTH), _at_best(results, other))
        tatoeba = f"; Tatoeba P@1 {over_seeds(beside).say(signed)}" if beside else ""
        for each in Comparison(words, XNLI_SCORES, {"plan": BOTH}, {"plan": other})(results):
            yield replace(each, words=f"{each.words}{tatoeba}")


@Claim("code-switching", missing="translate-train was not run both ways")
def _switching(results: Results) -> Iterator[Contrast]:
    """Code-switching of sentences helps where translations are trained on."""
    ways = ({"condition": SWITCHED}, {"condition": TRANSLATED})
    for data in ("xnli", "sick", "mlqa"):
        words, at = f"switched above translated on {TESTS[data]}", {"measure": SCORES[data], "data": data}
        sides = [Comparison(f"{titled(name)}, {words}", {**at, "plan": name}, *ways) for name in (BOTH, BEFORE)]
        aligned, before = (list(side(results)) for side in sides)
        for each in aligned:
            told = [other.placed(over_seeds(cast(Seeds, other.values))).words for other in before]
            yield replace(each, words="; not judged, ".join([each.words, *told]))


@Claim(
    "search",
    "(This project's aim, not the paper's.) Aligned for search, Tatoeba P@1 is at least "
    + " and ".join(f"{100 * aim:.0f} for {', '.join(group)}" for group, aim in AIMS.items())
    + ".",
    missing="these languages were not aligned for search and mapped",
)
def _search(results: Results) -> Iterator[Contrast]:
    for group, aim in AIMS.items():
        scores = _at_best(results, SEARCH, group) if set(group) <= set(_languages(results, "tatoeba")) else {}
        if scores:
            layers = sorted({_best_layer(results, SEARCH, code) or 0 for code in group})
            words = f"{', '.join(group)}: {{}} at layer {', '.join(map(str, layers))}"
            for name in (BOTH, BEFORE):
                beside = _at_best(results, name, group)
                words += f", {titled(name)} {percent(over_seeds(beside).value)}" if beside else ""
            yield Contrast(words, scores, above, aim, form=percent)


@Claim("perplexity", missing="no perplexity was read before and after")
def _costs_nothing(results: Results) -> Iterator[Contrast]:
    """(Not the paper's.) Alignment costs nothing in perplexity: it rises in no language."""
    codes = results.distinct("target", measure="perplexity")
    factors = {code: factor for code in codes if (factor := _factor(results, BOTH, code))}
    others = {name: _factor(results, name) for name in _alignments(results) if name not in (BEFORE, BOTH)}
    beside = [f"{titled(name)} {over_seeds(each, log=True).value:.3f}" for name, each in others.items() if each]
    words = f"means over languages of the others: {', '.join(beside)}; " * bool(beside) + "factors with both losses: "
    for code, factor in factors.items():
        yield Contrast(f"{words}{target_title(code)} {{}}", factor, below, 1.0, log=True)
        words = ""


F1 = {"measure": "answer_f1"}
ALIGNED = ({"plan": BOTH}, {"plan": BEFORE})  # the two sides of a comparison
NOT_COMPARED = "what is to be compared was not run"
CLAIMS = (
    _above_chance,
    Claim(
        "zero-shot rises",
        f"Zero-shot XNLI rises by alignment (by {100 * RISE:.1f} points on average).",
        Comparison("zero-shot XNLI after alignment above before", XNLI_SCORES, *ALIGNED),
        NOT_COMPARED,
    ),
    Claim(
        "both losses",
        "Both losses together are better than either alone.",
        partial(_against, others=(TLM, CONTRASTIVE)),
        NOT_COMPARED,
    ),
    Claim("shuffling", "Random input shuffling helps.", partial(_against, others=(UNSHUFFLED,)), NOT_COMPARED),
    _switching,
    Claim(
        "questions",
        "Answers to questions in other languages get better by alignment.",
        [
            Comparison(
                f"F1 on {TESTS[data]} after alignment above before", {**F1, "data": data, "condition": None}, *ALIGNED
            )
            for data in ("mlqa", "xquad")
        ],
        "no questions were asked before and after",
    ),
    Claim(
        "amount of text",
        "More parallel text is better (the paper varies it; its numbers could not be read).",
        lambda results: _against(results, _amounts(results)),
        NOT_COMPARED,
    ),
    _search,
    _costs_nothing,
)


# ------------------------------------------------------------------------------------------------ the tables


def tables(results: Results) -> list[Table]:
    """A table of all tests before and after, then each test by language, as far as the rows have them."""
    source, names, sick = results.source, _alignments(results), _languages(results, "sick")
    home = target_title(source)

    def columns(data: str, *targets: str) -> dict[str, Any]:
        titles = {target: f"{target_title(target)}{' (SICK)' * (data == 'sick')}" for target in targets}
        return {title: {"data": data, "target": target} for target, title in titles.items()}

    def elsewhere(**at: str) -> str:
        value = PUBLISHED.at(measure="accuracy", **at)
        return NOTHING if value is None else percent(value)

    tested = {data: columns(data, source, *_languages(results, data), OTHERS) for data in ("xnli", "xquad", "mlqa")}
    published = PUBLISHED.where(measure="accuracy") if source == "en" and _languages(results, "xnli") else []
    rows: dict[str, Any] = {
        f"{line['model']}, published": {"model": line["model"], "read": elsewhere} for line in published
    }
    rows |= {titled(name): {**ACCURACY, "plan": name} for name in names}
    words = CAPTIONS.table("table-2", others=bool(published), source=home, rise=signed(RISE))
    made = _overview(results)
    made += grid(results, rows, {**tested["xnli"], **columns("sick", *sick)}, **words)
    rows = {
        f"{titled(name)}, {what}": {**ACCURACY, "plan": name, "condition": way}
        for name in (BEFORE, BOTH)
        for way, what in ((WORDS, "words switched"), (TRANSLATED, "translations"), (SWITCHED, "and switched"))
    }
    both = {**tested["xnli"], **(columns("sick", source, *sick) if sick else {})}
    both |= {f"{TESTS[data]} others": {**F1, "data": data, "target": OTHERS} for data in ("xquad", "mlqa")}
    made += grid(results, rows, both, **CAPTIONS.table("table-3"))
    answers = {"answer_f1": "F1", "exact_match": "exact"}
    best = (f"{percent(PUBLISHED.value(model='XLM-R Base', measure=each))} {what}" for each, what in answers.items())
    rows = {
        f"{titled(name)}, {what}": {**ACCURACY, "plan": name, "measure": measure}
        for name in names
        for measure, what in answers.items()
    }
    made += grid(results, rows, tested["xquad"], **CAPTIONS.table("table-4a"))
    made += grid(results, rows, tested["mlqa"], **CAPTIONS.table("table-4b", best=", ".join(best)))
    return made + _maps_and_perplexity(results)


def _overview(results: Results) -> list[Table]:
    """Table 1: the mean of every test, and its change by alignment."""
    columns: dict[str, Any] = {}
    for data, target in product(TESTS, (results.source, OTHERS)):
        if target == OTHERS or data in ("xnli", "xquad"):
            head = f"{TESTS[data]} {'others' if target == OTHERS else target_title(target)}"
            columns[head] = {"read": partial(_moved, partial(_score, results, data, target=target))}
    for group in _groups(results):
        columns[f"Tatoeba {', '.join(group)}"] = {"read": partial(_moved, partial(_at_best, results, languages=group))}
    similar, factor = partial(_at_best, results, measure="cka", data="xnli"), partial(_factor, results)
    columns["layer"] = {"read": lambda name: NOTHING if (best := _best_layer(results, name)) is None else str(best)}
    columns["CKA"] = {"read": lambda name: _mean(similar(name), "{:.2f}".format)}
    columns["perplexity"] = {"read": lambda name: _mean({} if name == BEFORE else factor(name), _times, log=True)}
    rows = {titled(name): {"name": name} for name in _alignments(results)}
    return grid(results, rows, columns, **CAPTIONS.table("table-1"))


def _moved(read: Callable[[str], Seeds], name: str) -> str:
    """The text of a cell: a mean value of an alignment and, in brackets, its difference from before."""
    change = {} if name == BEFORE else differences(read(name), read(BEFORE))
    return _mean(read(name), percent) + (f" ({_mean(change, signed)})" if change else "")


def _mean(seeds: Seeds, form: Callable[[float], str], *, log: bool = False) -> str:
    """The mean over seeds as the text of a cell."""
    return form(over_seeds(seeds, log=log).value) if seeds else NOTHING


def _maps_and_perplexity(results: Results) -> list[Table]:
    names, last = _alignments(results), max(results.distinct("layer"), default=None)
    rows: dict[str, Any] = {
        f"{titled(name)}, layer {layer}": {"plan": name, "layer": layer}
        for name in names
        for layer in (_best_layer(results, name), last)
        if layer is not None
    }
    languages = _languages(results, "tatoeba")
    columns = {target_title(code): _mapped(results, "p@1", "tatoeba", [code]) for code in languages}
    retrieval = grid(results, rows, columns, **CAPTIONS.table("table-5"))
    at = {"measure": "perplexity", "unit": "token"}
    columns = {target_title(code): {**at, "target": code} for code in results.distinct("target", **at)}
    change = {"base": {"plan": BEFORE}, "log": True, "form": _times}
    rows = {titled(name): {"plan": name, **change} for name in names}
    first = {"read": lambda **at: _mean(results.values(**at), number, log=True)}
    rows[titled(BEFORE)] = {"plan": BEFORE, **first}
    return retrieval + grid(results, rows, columns, **CAPTIONS.table("table-6"))


def _times(factor: float) -> str:
    return f"×{factor:.2f}" if factor < 10 else f"×{number(factor)}"


# ------------------------------------------------------------------------------------------------ the figures


def figures(results: Results) -> list[Figure]:
    """Figures by layer, before and after, and by the amount of parallel text, as far as the rows have them."""
    # A line for each alignment except amounts of text; `before` is thick, and has no band since it is mapped once.
    lines = {
        titled(name): {"plan": name, "share": True, "look": {"thick": name == BEFORE}}
        for name in _alignments(results)
        if name in ALIGNMENTS
    }
    groups = {", ".join(group): _mapped(results, "p@1", "tatoeba", group) for group in _groups(results)}
    maps = {"CKA": _mapped(results, "cka", "xnli"), "P@1": _mapped(results, "p@1", "xnli")}
    counts = [len(_at_best(results, name)) for name in _alignments(results) if name != BEFORE]
    words = {"model": results.model, "source": results.source, "targets": ", ".join(_languages(results, "xnli"))}
    words["bands"] = bands_note(min(filter(None, counts), default=0))
    made = CAPTIONS.figure("tatoeba-by-layer", panels(results, groups, lines), **words)
    made += CAPTIONS.figure("xnli-by-layer", panels(results, maps, lines), **words)
    return made + CAPTIONS.figure("by-amount-of-text", list(_by_amount(results)), **words)


def _by_amount(results: Results) -> Iterator[Panel]:
    """Panels of both losses by the amount of text; 0 is the model before alignment."""
    shares = {BEFORE: 0.0, **_amounts(results), BOTH: 100.0}
    measured: dict[str, Callable[[str], Seeds]] = {
        "zero-shot XNLI, accuracy": partial(_score, results, "xnli"),
        "Tatoeba P@1, best layer": partial(_at_best, results),
    }
    for title, values in measured.items() if _amounts(results) else ():
        points = {share: over_seeds(seeds).clipped() for name, share in shares.items() if (seeds := values(name))}
        means = list(points.values())
        ends = ([mean.low for mean in means], [mean.high for mean in means]) if any(m.known for m in means) else ()
        if len(points) > 1:
            yield Panel(title, [Line("both losses", list(points), [mean.value for mean in means], *ends)])


PAPER = paper.Paper("pan2021", ABOUT, SCALES, OPTIONS, plan, collect, CLAIMS, tables, figures)
