"""Muller, Elazar, Sagot & Seddah (2021): which layers matter for cross-lingual transfer, by reinitialising layers.

Two neighbouring layers are reinitialised, the whole model is fine-tuned on a task in one language, and tested in that
language and in others; the reference keeps all pretrained weights. The numbers of the paper were not available, so
there are no published values, and the meanings of small, free and unchanged in its claims are thresholds of this
project (`SMALL`, `FREE`, `SAME`). The released code compares languages by CKA with Gaussian kernels, on four batches of
almost the same sentences, which is repeated here under the condition `legacy:...`, in addition to debiased CKA.

Claims are judged separately for each task, over seeds. A seed's value is the mean over sources, and a pair of layers is
compared with the reference of the same seed. Scores are between 0 and 1, so 0.01 is a percentage point.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from isogloss.figure import Figure, Line, Panel, Table, percent, signed
from isogloss.measures.statistics import Estimate, Floats, correlation
from isogloss.papers import paper
from isogloss.papers.claims import Claim, Contrast, NotMeasured, above, below, needed
from isogloss.papers.data_sets import cut_file, find_file, parallel_table, task_file
from isogloss.papers.results import Curves, Results, by_seed, changes, curves_of, differences, mean_over, over_seeds
from isogloss.papers.tables import bands_note, grid, panels, read_captions
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import OTHERS, START, UNTUNED, Row, frame, mean_rows, records, row
from isogloss.text.readers.parallel import read_bitext

ABOUT = "Muller, Elazar, Sagot & Seddah (2021), First align, then predict"
CAPTIONS = read_captions("muller2021")
SCALES, OPTIONS = paper.read_scales("muller2021")
REFERENCE = "freeze:-1"
PAIRS = tuple(f"reinit:{first}-{first + 1}" for first in range(1, 12, 2))
TORCH = "/torch"  # suffix of the plan of a pair with PyTorch's default initialisation
PLANS = {REFERENCE: "reference", **{plan: plan.removeprefix("reinit:") for plan in PAIRS}}
ALL_PLANS = (*PLANS, *(f"{plan}{TORCH}" for plan in PAIRS))
TASKS = {"parsing": "las", "pos": "accuracy", "ner": "span_f1"}
NAMES = {"parsing": "parsing", "pos": "POS", "ner": "NER"}
RELATION = "gap_similarity"  # rank correlation of gap and similarity over targets
UNSEEN, DOMAINS = "unseen", "other domains"  # means over languages without pretraining text, and over further test sets
# CKA by layer, averaged over languages: of source and target, and of a model with itself before training.
SIMILARITY = {"measure": "cka", "condition": None, "other_layer": None, "target": OTHERS}
MOVED = {"measure": "cka", "condition": None, "other_model": START, "target": OTHERS}
DEPTH = 12
LENGTH = 256  # tokens; Chinese WikiAnn has a space between characters
WINDOWS = 203  # sentences in four windows of 200, each shifted by one
ICELANDIC = "is"  # half of its sentences are not parallel to the others, so it is tested but not compared
# The pretraining languages of models that were not pretrained on all tested languages.
KNOWN: Mapping[str, Sequence[str]] = {"mini": ("en", "nl", "de", "fr", "es", "ru", "zh")}
# Deviations of the released code that --legacy repeats when languages are compared, and the options of transfer.
DEFECTS: paper.Defects = {
    "windows": (
        "the four batches are sentences i to i + size for i = 0 to 3, almost the same ones",
        {"cka_shifted": True},
    ),
    "batch-25": ("a batch has 25 sentences", {"cka_batch": 25}),
    "batch-200": ("a batch has 200 sentences", {"cka_batch": 200}),
    "specials": (
        "special tokens are written into the text and added again, and one on each side stays in the mean",
        {"cka_specials": True},
    ),
}


# ------------------------------------------------------------------------------------------------ the jobs


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: pretraining if no model is given, then every task, source and seed."""
    sources = {task: scale.named_in if task == "ner" else scale.trained_on for task in TASKS}
    experiments = {(task, source): _files(scale, task, source) for task in TASKS for source in sources[task]}
    files = {stem: most for experiment in experiments.values() for stem, most in experiment.items()}
    texts = paper.Texts(request, partial(_contents, scale, files))
    model, called, before = request.model_to_read(scale)
    legacy = scale.legacy or ("windows" if (scale.compared or WINDOWS) < WINDOWS else "windows,batch-200")
    condition, defects = paper.with_defects(legacy, DEFECTS)
    notes = [
        f"the parallel treebanks have no {language}: its similarity to others is not measured"
        for language in dict.fromkeys((*scale.trained_on, *scale.named_in))
        if language not in scale.parallel
    ]
    repeated = [words for name, (words, _) in DEFECTS.items() if name in condition]
    notes += [f"CKA as the original took it: {words}" for words in repeated]
    shared = {
        "plans": ",".join(ALL_PLANS if scale.torch else PLANS),
        "epochs": scale.epochs,
        "batch": scale.batch,
        "rate": scale.rate,
    }
    shared |= {"length": LENGTH, "probe": scale.probe, "bitext": [texts.path("pud.tsv")]}
    shared |= {"cka_condition": condition, **defects, "checkpoint": 5000, "skip_bad": True}
    jobs = []
    for (task, source), experiment in experiments.items():
        train, dev, *tests = (texts.path(task_file(stem)) for stem in experiment)
        sets = zip([stem.partition("_")[0] for stem in experiment][2:], tests, strict=True)
        own = {"task": task, "train": {source: train}, "dev": {source: dev}, "test": list(map("=".join, sets))}
        for seed in range(request.seeds):
            name, options = f"{task}-{source}-seed-{seed}", {**own, **shared, "seed": seed}
            jobs.append(request.job("transfer", name, model, options, task=task, source=source, seed=seed))
    conditions = (
        f"{called}, parsing and POS from {', '.join(scale.trained_on)} (UD), NER "
        f"from {', '.join(scale.named_in)} (WikiAnn), the reference and {len(PAIRS)} pairs of reinitialised layers"
    )
    return paper.Outline(
        conditions,
        {"model": called},
        texts=texts,
        jobs=jobs,
        seconds=scale.seconds,
        before=before,
        depth=DEPTH,
        notes=notes,
    )


def _files(scale: SimpleNamespace, task: str, source: str) -> dict[str, int | None]:
    """The files of a task from one source, with the maximum number of sentences of each.

    The order is train, dev, then tests; the first test of each language is its main one.
    """
    tested, half = scale.tested, None if scale.tested is None else scale.tested // 2
    home = f"{source}_{'wikiann' if task == 'ner' else scale.trained_on[source]}"
    files = {f"{home}.train": scale.named if task == "ner" else scale.examples, f"{home}.dev": half}
    if task == "ner":
        return files | {f"{code}_wikiann": tested for code in dict.fromkeys((source, *scale.named_in, *scale.parallel))}
    for language in dict.fromkeys((source, *scale.trained_on, *scale.domains, *scale.parallel)):
        named = [f"{language}_{name}" for name in scale.domains.get(language, ())]
        parallel = [f"{language}_pud"] if language in scale.parallel else []
        main = [*parallel, f"{language}_{scale.trained_on.get(language)}"]
        order = [*dict.fromkeys([home, *named]), *parallel] if language == source else [*parallel, *named]
        files |= {stem: tested if stem in main else half for stem in order}
    return files | {f"{language}_pud": half for language in scale.unseen}


def _contents(scale: SimpleNamespace, files: Mapping[str, int | None], data: Path) -> dict[str, str]:
    """The content of every file: those of the tasks, and a table of parallel sentences with a column per language."""
    contents = {task_file(stem): cut_file(data, stem, most) for stem, most in files.items()}
    languages = [language for language in (*scale.parallel, *scale.unseen) if language != ICELANDIC]
    banks = [find_file(data, f"ud_pud/{language}_pud-ud-test.conllu") for language in languages]
    contents["pud.tsv"] = parallel_table(read_bitext(*banks, languages=languages), scale.compared)
    return contents


# ------------------------------------------------------------------------------------------------ the rows


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table: results of all jobs, means over targets and seeds, differences from the reference.

    Scores other than the main one are only in the tables of the jobs, and so are comparisons of single languages except
    the reference's with the source; of the others the mean over languages (`others`) is collected. A source that scores
    0 has no relative gap. Scores during training have a step.
    """
    scores: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    single: list[dict[str, Any]] = []
    known = KNOWN.get(str(run.facts["model"]))
    for table in [read_rows(job.folder) for job in jobs]:
        main = table["seed"].notna() & table["layer"].isna() & table["plan"].isin(ALL_PLANS)
        main &= (table["selection"] == "") & (table["condition"] == "") & (table["target"] != OTHERS)
        main &= (table["measure"] == table["task"].map(TASKS)) | table["measure"].isin(("gap", "relative_gap"))
        main &= np.isfinite(table["value"])
        final = records(table[main & table["step"].isna()])
        scores += final
        by_step = records(table[main & table["step"].notna()])
        if final and len({entry["step"] for entry in by_step}) > 1:  # a curve: the first test, and the mean over others
            means += [entry for entry in by_step if entry["data"] == final[0]["data"]]
            means += mean_over(entry for entry in _pooled(by_step, known) if not entry["data"])
        # Comparisons of languages and layers: all of them before training and of the reference, else only debiased CKA.
        rows = table[table["measure"].isin(("cka", "cka_rbf")) & table["layer"].notna()]
        rows = rows.assign(data="pud", unit="sentence")
        both, debiased = rows["plan"].isin((UNTUNED, REFERENCE)), rows["measure"] == "cka"
        below_it = (rows["other_model"] == "") & rows["other_layer"].notna()
        means += mean_over(records(rows[both | (debiased & ~below_it)]), "target", target=OTHERS)
        single += records(rows[both & debiased & rows["other_layer"].isna() & (rows["condition"] == "")])
    if not scores:
        return
    scores += mean_over(list(_pooled(scores, known)))
    run.append(scores)
    run.append([*means, *single])
    run.append(mean_rows(scores))
    run.append(changes([entry for entry in scores if entry["measure"] in TASKS.values()], plan=REFERENCE))
    run.append(relation_rows(Results(frame([*scores, *single]))))


def _pooled(scores: Sequence[Row], known: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Scores and gaps with the name of the mean that they belong to as target.

    `others` has the main test set of every other language; with `known`, only of languages that the model was
    pretrained on, and the rest is `unseen`. Their further test sets are `others` on `other domains`.
    """
    main: dict[tuple[str, str, str], str] = {}
    for entry in scores:
        if entry["target"] != entry["source"]:
            first = main.setdefault((entry["task"], entry["source"], entry["target"]), entry["data"])
            is_main, is_known = entry["data"] == first, known is None or entry["target"] in known
            target = UNSEEN if is_main and not is_known else OTHERS
            yield {**entry, "target": target, "data": None if is_main else DOMAINS}


def relation_rows(results: Results) -> Iterator[dict[str, Any]]:
    """Rows with the rank correlation of gap and similarity over targets: whether more similar languages lose less.

    There is a row for each task and layer, and one without a layer for the mean over layers 1 and up, before and after
    training. Correlations within sources are pooled; sources with fewer targets than others are left out. The interval
    is a bootstrap over targets; n is the number of targets of all sources.
    """
    for plan in (UNTUNED, REFERENCE):
        for task in _tasks(results):
            points = _points(results, task, plan)
            most = max((len(some) for some in points.values()), default=0)
            sources = [some for some in points.values() if len(some) == most >= 4]
            for layer in sources[0][0][1] if sources else ():
                near = np.array([[similarity[layer] for _, similarity in some] for some in sources])
                both = correlation(near, [[gap for gap, _ in some] for some in sources], ordered=False)
                if np.isfinite(both.value):
                    at = {"task": task, "plan": plan, "unit": "spearman", "model": results.model, "layer": layer}
                    yield row(RELATION, both, n=near.size, over="languages", **at)


def _points(results: Results, task: str, plan: str) -> dict[str, list[tuple[float, dict[int | None, float]]]]:
    """Targets of the reference by source: the gap of each, over seeds, and its similarity to the source by layer.

    The layer None has the mean over layers above the embeddings.
    """
    points: dict[str, list[tuple[float, dict[int | None, float]]]] = {}
    for source in _sources(results, task):
        for test in _tests(results, task, source)[0]:
            gaps = results.values(**{**test, "measure": "gap"}, plan=REFERENCE, layer=None)
            at = {**SIMILARITY, "task": task, "source": source, "target": test["target"]}
            curves = results.curves("layer", **at, plan=plan)
            if gaps and curves is not None:
                similarity = dict(zip(curves.steps.astype(int).tolist(), curves.mean, strict=True))
                similarity[None] = curves.mean[curves.steps > 0].mean()
                points.setdefault(source, []).append((over_seeds(gaps).value, similarity))
    return points


def _tasks(results: Results) -> list[str]:
    return [task for task in TASKS if _sources(results, task)]


def _sources(results: Results, task: str) -> list[str]:
    return results.distinct("source", measure=TASKS[task], task=task)


def _tests(results: Results, task: str, source: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Coordinates of scores on the main test set of every language (its first), and on further ones.

    Both are in the order of the rows, with the source first.
    """
    at = {"measure": TASKS[task], "task": task, "source": source, "step": None}
    rows = results.where(**at)
    sets = [
        {**at, "target": target, "data": data}
        for target, data in dict.fromkeys(zip(rows["target"], rows["data"], strict=True))
        if target not in (OTHERS, UNSEEN)
    ]
    sets.sort(key=lambda test: test["target"] != source)
    mains = {test["target"]: test for test in reversed(sets)}.values()
    return [test for test in sets if test in mains], [test for test in sets if test not in mains]


def _others(task: str, source: str) -> dict[str, Any]:
    """Coordinates of a score's mean over the other languages."""
    return {"measure": TASKS[task], "task": task, "source": source, "target": OTHERS, "data": None, "step": None}


def _changes(results: Results, task: str, *, home: bool, ending: str = "") -> Curves | None:
    """The loss with each pair of layers in the source language or in others: means over sources, by first layer.

    ending: suffix of the plans; `TORCH` for the other initialisation.
    """
    sources = _sources(results, task)
    tests = [_tests(results, task, source)[0][0] if home else _others(task, source) for source in sources]
    points = {}
    for number, plan in enumerate(PAIRS):
        moved = [results.values(**test, plan=plan + ending, base={"plan": REFERENCE}) for test in tests]
        points[1 + 2 * number] = by_seed(moved)
    return curves_of(points)


# ------------------------------------------------------------------------------------------------ the claims

SMALL = 0.03  # losses in the source language up to this count as small
FREE = 0.01  # losses up to this count as noise
SAME = 0.9  # layers with a higher CKA with the model before training count as unchanged
LOWER, UPPER = range(1, 5), range(9, 13)
BOTTOM, MIDDLE, TOP = range(3), range(4, 9), range(11, 13)
NOT_ALL_PAIRS = "not all pairs and the reference were run"


def task_claim(name: str, missing: str) -> Callable[[Callable[[Results, str], Iterable[Contrast]]], Claim]:
    """Turn a function that yields contrasts for one task into a claim on all tasks; its docstring is the claim."""

    def decorate(contrasts_of: Callable[[Results, str], Iterable[Contrast]]) -> Claim:
        def contrasts(results: Results) -> Iterator[Contrast]:
            for task in _tasks(results):
                with suppress(NotMeasured):
                    first, *others = contrasts_of(results, task)
                    yield replace(first, words=f"{NAMES[task]}: {first.words}")
                    yield from others

        return Claim(name, str(contrasts_of.__doc__), contrasts, missing)

    return decorate


def _losses(results: Results, task: str, *, home: bool = False) -> tuple[Floats, Floats]:
    """The loss with every pair, from the lowest up, by seed (seeds, pairs) and on average, if all pairs were run."""
    curves = _changes(results, task, home=home)
    if curves is None or len(curves.steps) < len(PAIRS):
        raise NotMeasured(NOT_ALL_PAIRS)
    return curves.values, curves.mean


@task_claim("above chance", "what chance gives is not in the rows")
def above_chance(results: Results, task: str) -> Iterator[Contrast]:
    """The task is carried across: the reference is above chance in every other language that the model knows."""
    languages, margins = KNOWN.get(results.model), {}
    for source in _sources(results, task):
        for test in _tests(results, task, source)[0]:
            scores, floors = (results.values(column, **test, plan=REFERENCE) for column in ("value", "floor"))
            known = test["target"] != source and (languages is None or test["target"] in languages)
            if known and scores and set(scores) <= set(floors):
                margins[source, test["target"]] = differences(scores, floors)
    needed(margins, "there is no chance score")
    means = {pair: over_seeds(margin).value for pair, margin in margins.items()}
    words = f"points above it, the least of {len(margins)} "
    for source, target in sorted(means, key=lambda pair: means[pair]):
        told = f"{words}from {source} to {target} {{}}"
        yield Contrast(told, margins[source, target], form=signed, quiet=not words)
        words = ""


@task_claim("first pair", NOT_ALL_PAIRS)
def first_pair(results: Results, task: str) -> Iterator[Contrast]:
    """On other languages, the loss is largest when layers 1 and 2 are reinitialised."""
    losses, means = _losses(results, task)
    words = f"{signed(means[0])} points with layers 1-2; less that "
    for plan, other, mean in zip(PAIRS[1:], losses[:, 1:].T, means[1:], strict=True):
        yield Contrast(f"{words}with {PLANS[plan]} ({signed(mean)}) {{}}", losses[:, 0] - other, below, form=signed)
        words = ""


@task_claim("depth", NOT_ALL_PAIRS)
def depth(results: Results, task: str) -> Iterator[Contrast]:
    """It falls with depth."""
    losses, means = _losses(results, task)
    words = f"{', '.join(map(signed, means))} points from the lowest pair up, {{}} a pair"
    yield Contrast(words, np.polyfit(range(len(PAIRS)), losses.T, 1)[0], form=signed)


@task_claim("source", NOT_ALL_PAIRS)
def small_at_home(results: Results, task: str) -> Iterator[Contrast]:
    """In the source language the loss is small, whichever pair is reinitialised."""
    words = f"points (small: down to {signed(-SMALL)}) with "
    for plan, loss in zip(PAIRS, _losses(results, task, home=True)[0].T, strict=True):
        yield Contrast(f"{words}{PLANS[plan]} {{}}", loss, above, -SMALL, form=signed)
        words = ""


@task_claim("upper layers", NOT_ALL_PAIRS)
def upper_layers(results: Results, task: str) -> Iterator[Contrast]:
    """Layers 9 to 12 can be reinitialised and other languages lose nothing beyond noise."""
    words = f"points (free: above {signed(-FREE)}) with "
    for plan, loss in list(zip(PAIRS, _losses(results, task)[0].T, strict=True))[-2:]:
        yield Contrast(f"{words}{PLANS[plan]} {{}}", loss, above, -FREE, form=signed)
        words = ""


@task_claim("lower part", "no model was compared with its start")
def unchanged(results: Results, task: str) -> Iterator[Contrast]:
    """Training leaves the lower part of the model as it is, and changes the upper part."""
    curves = needed(results.curves("layer", task=task, plan=REFERENCE, **MOVED), "there is no curve")
    low, high = (needed(curves.at(*layers), "not all layers were compared") for layers in (LOWER, UPPER))
    yield Contrast(f"CKA with the start {{}} in layers 1 to 4 (as it is: above {SAME})", low, above, SAME)
    yield Contrast(f"{over_seeds(high).value:.3f} in 9 to 12, which is less by {{}}", differences(low, high))


@task_claim("middle", "languages were not compared with the source")
def middle(results: Results, task: str) -> Iterator[Contrast]:
    """Languages are most alike in the middle of the model, near layer 5."""
    before, after = (results.curves("layer", task=task, plan=plan, **SIMILARITY) for plan in (UNTUNED, REFERENCE))
    curves = needed(after, "there is no curve")
    most, low, high = (needed(curves.at(*layers), "not all layers were compared") for layers in (MIDDLE, BOTTOM, TOP))
    words = f"CKA of source and target {over_seeds(most).value:.3f} in layers 4 to 8, above layers 0 to 2 by {{}}"
    yield Contrast(words, differences(most, low))
    words = f"above 11 and 12 by {{}}, highest at layer {curves.peak}"
    words += f", before training at layer {before.peak}" if before is not None else ""
    yield Contrast(words, differences(most, high))


@task_claim("gap and similarity", "too few targets were compared")
def gap_and_similarity(results: Results, task: str) -> Iterator[Contrast]:
    """Languages that are more like the source lose less: the gap falls with similarity."""
    at = {"measure": RELATION, "task": task, "layer": None}
    before, after = results.interval(**at, plan=UNTUNED), needed(results.interval(**at, plan=REFERENCE), "too few")
    words = f"rank correlation {{}} over {after.n} targets"
    words += f", {before.share} with similarity before training" if before is not None else ""
    seeds = len(results.values(**_tests(results, task, _sources(results, task)[0])[0][0], plan=REFERENCE))
    yield Contrast(words, Estimate.of(after, "fisher"), below, seeds=seeds)


CLAIMS = (above_chance, first_pair, depth, small_at_home, upper_layers, unchanged, middle, gap_and_similarity)


# ------------------------------------------------------------------------------------------------ tables and figures

SCORES = {"las": "labelled attachment score", "accuracy": "accuracy", "span_f1": "span F1"}
TRAINING = {UNTUNED: "before training", REFERENCE: "after training"}
SHOWN = (REFERENCE, PAIRS[0], PAIRS[2], PAIRS[-1])  # all seven plans in one panel would be unreadable


def tables(results: Results) -> list[Table]:
    """Tables 1 to 3, as far as the rows have them: losses in the source language, in others, and in other domains."""
    columns: dict[str, Any] = {"reference": {"plan": REFERENCE, "share": False}}
    change = {"base": {"plan": REFERENCE}, "form": signed}
    columns |= {PLANS[plan]: {"plan": plan, **change} for plan in PAIRS}
    torch = {PLANS[plan]: {"plan": plan + TORCH, **change} for plan in PAIRS}
    chance = {"column": "floor", "read": lambda **at: percent(over_seeds(results.values(**at)).value)}
    columns["chance"] = {"plan": REFERENCE, **chance}
    first: dict[str, Any] = {}
    others: list[Table] = []
    for task in _tasks(results):
        targets, domains = dict[str, Any](), dict[str, Any]()
        for source in _sources(results, task):
            (home, *mains), further = _tests(results, task, source)
            first |= {f"{NAMES[task]} {source} → {source}": home, f"{NAMES[task]} {source} → X": _others(task, source)}
            targets |= {f"{source} → {test['target']}": test for test in mains}
            domains |= {f"{source} → {test['data']}": test for test in further}
            domains[f"{source} → X, {DOMAINS}"] = {**_others(task, source), "data": DOMAINS}
        for name, rows in (("table-2", targets), ("table-3", domains)):
            told = CAPTIONS.table(name, task=NAMES[task], score=SCORES[TASKS[task]])
            others += grid(results, rows, columns, **told)
    made = grid(results, first, columns, **CAPTIONS.table("table-1"))
    return made + grid(results, first, torch, **CAPTIONS.table("table-1-torch")) + others


def figures(results: Results) -> list[Figure]:
    """All figures that can be made from the rows: the losses by pair, and the paper's figures 1 to 3."""
    tasks = _tasks(results)
    homes = [_tests(results, task, source)[0][0] for task in tasks for source in _sources(results, task)]
    seeds = min((len(results.values(**home, plan=REFERENCE)) for home in homes), default=0)
    sources = list(dict.fromkeys(home["source"] for home in homes))
    gaussian = {**SIMILARITY, "measure": "cka_rbf"}
    as_published = {**gaussian, "condition": results.distinct("condition", measure="cka_rbf"), "plan": UNTUNED}
    by_layer: dict[str, dict[str, Any]] = {
        "figure-1": {label: {**SIMILARITY, "plan": plan} for plan, label in TRAINING.items()},
        "figure-1-gaussian": {label: {**gaussian, "plan": plan} for plan, label in TRAINING.items()}
        | {
            "chance": {**gaussian, "plan": UNTUNED, "column": "floor"},
            "before, as published": as_published,
            "chance, as published": {**as_published, "column": "floor"},
        },
        "figure-2": {
            PLANS[plan] if plan == REFERENCE else f"{PLANS[plan]} reinitialised": {**MOVED, "plan": plan}
            for plan in SHOWN
        },
    }
    titles = {NAMES[task]: {"task": task} for task in tasks}
    words = {"model": results.model, "bands": bands_note(seeds)}
    ticks = {1.0 + 2 * number: PLANS[plan] for number, plan in enumerate(PAIRS)}
    costs = []  # one panel per task: losses by pair of layers, in the source language and in others
    for task in tasks:
        sides = {
            f"{side}{', as PyTorch draws' * bool(ending)}": _changes(
                results, task, home=side == "source", ending=ending
            )
            for ending, side in product(("", TORCH), ("source", "others"))
        }
        if lines := [each.line(label, scale=100) for label, each in sides.items() if each]:
            costs.append(Panel(NAMES[task], lines))
    made = [replace(figure, ticks=ticks) for figure in CAPTIONS.figure("figure-pairs", costs, **words)]
    for name, curves in by_layer.items():
        made += CAPTIONS.figure(name, panels(results, titles, curves), **words)
    made += CAPTIONS.figure("figure-3", list(_gaps(results, sources)), **words)
    curves_of_first = {  # learning curves from the source that all tasks have
        f"{NAMES[task]}, {source} → {target}": {"task": task, "source": source, "target": target}
        for task in tasks
        for source in sources[:1]
        for target in (source, OTHERS)
    }
    shown = {PLANS[plan]: {"measure": [*SCORES], "plan": plan} for plan in SHOWN}
    return made + CAPTIONS.figure("learning", panels(results, curves_of_first, shown, over="step"), **words)


def _gaps(results: Results, sources: Sequence[str]) -> Iterator[Panel]:
    """Panels with a circle for every target: its gap against its similarity to the source, coloured by source."""
    for task in _tasks(results):
        lines = []
        for source, points in _points(results, task, REFERENCE).items():
            near, lost = [similarity[None] for _, similarity in points], [100 * gap for gap, _ in points]
            lines.append(Line(f"from {source}", near, lost, dots=True, hue=sources.index(source)))
        relation = results.interval(measure=RELATION, task=task, plan=REFERENCE, layer=None)
        value = f": {relation.say('{:.2f}'.format)}" if relation is not None else ""
        if lines:
            yield Panel(f"{NAMES[task]}{value}", lines)


PAPER = paper.Paper("muller2021", ABOUT, SCALES, OPTIONS, plan, collect, CLAIMS, tables, figures)
