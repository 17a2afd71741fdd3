"""Muller, Elazar, Sagot & Seddah (2021): which layers carry a task across languages, by layers that begin anew.

The weights of two neighbouring layers begin anew, the whole model is fine-tuned on a task in one language, and tested
there and in others; the reference begins with all its weights. No number of the paper could be read, so nothing stands
beside what is measured, and what counts as small, free and unchanged in its claims are thresholds of this project's
own (`SMALL`, `FREE`, `SAME`). The released code compares languages by CKA with Gaussian kernels, on four batches that
are almost the same sentences, which is repeated here under the condition `legacy:...`, beside debiased CKA.

Claims are judged on each task by itself, over seeds. A seed's value is the mean over sources, and a pair of layers is
compared with the reference of the same seed. Scores are shares of one, so 0.01 is a point.
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
from isogloss.papers.results import OTHERS, Curves, Results, by_seed, changes, curves_of, less, mean_over, over_seeds
from isogloss.papers.tables import bands_note, grid, panels, read_captions
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import START, UNTUNED, Row, frame, mean_rows, records, row
from isogloss.text.readers.parallel import read_bitext

ABOUT = "Muller, Elazar, Sagot & Seddah (2021), First align, then predict"
CAPTIONS = read_captions("muller2021")
SCALES, OPTIONS = paper.read_scales("muller2021")
REFERENCE = "freeze:-1"
PAIRS = tuple(f"reinit:{first}-{first + 1}" for first in range(1, 12, 2))
TORCH = "/torch"  # ends the plan of a pair whose weights are drawn as PyTorch does by default
PLANS = {REFERENCE: "reference", **{plan: plan.removeprefix("reinit:") for plan in PAIRS}}
ALL_PLANS = (*PLANS, *(f"{plan}{TORCH}" for plan in PAIRS))
TASKS = {"parsing": "las", "pos": "accuracy", "ner": "span_f1"}
NAMES = {"parsing": "parsing", "pos": "POS", "ner": "NER"}
RELATION = "gap_similarity"  # rank correlation of gap and similarity over targets
UNSEEN, DOMAINS = "unseen", "other domains"  # means over languages a model was not pretrained on, over further sets
# CKA by layer, a mean over languages: of source and target, and of a model with itself before training.
SIMILARITY = {"measure": "cka", "condition": None, "other_layer": None, "target": OTHERS}
MOVED = {"measure": "cka", "condition": None, "other_model": START, "target": OTHERS}
DEPTH = 12
LENGTH = 256  # tokens: Chinese WikiAnn has a space between characters
WINDOWS = 203  # sentences of four windows of 200, each shifted by one
ICELANDIC = "is"  # half of its parallel sentences are others, so it is tested and not compared
# What a model was pretrained on, where not on all that is tested.
KNOWN: Mapping[str, Sequence[str]] = {"mini": ("en", "nl", "de", "fr", "es", "ru", "zh")}
DEFECTS = paper.read_fixed("muller2021")[
    "defects"
]  # how the released code compares languages otherwise than the paper says


# ------------------------------------------------------------------------------------------------ the jobs


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: a model to pretrain where none is given, then every task, source and seed."""
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
    repeated = [defect["words"] for name, defect in DEFECTS.items() if name in condition]
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
        f"from {', '.join(scale.named_in)} (WikiAnn), the reference and {len(PAIRS)} pairs of layers that begin anew"
    )
    return paper.Outline(conditions, {"model": called}, texts, jobs, scale.seconds, before, DEPTH, notes)


def _files(scale: SimpleNamespace, task: str, source: str) -> dict[str, int | None]:
    """What a task from one source takes, and at most how many sentences of it.

    Train, dev, then tests, the first of each language its main one.
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
    """Every file's content: those of the tasks, and a table of parallel sentences, a column a language."""
    contents = {task_file(stem): cut_file(data, stem, most) for stem, most in files.items()}
    languages = [language for language in (*scale.parallel, *scale.unseen) if language != ICELANDIC]
    banks = [find_file(data, f"ud_pud/{language}_pud-ud-test.conllu") for language in languages]
    contents["pud.tsv"] = parallel_table(read_bitext(*banks, languages=languages), scale.compared)
    return contents


# ------------------------------------------------------------------------------------------------ the rows


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table: results of all jobs, means over targets and seeds, differences to the reference.

    Of a job's rows these are left to its own table: scores other than the main one, and comparisons of languages one
    by one, of which the reference's with the source are here and of the rest the mean over languages (`others`). A
    source that scores 0 has no relative gap. What is scored while a model learns has a step.
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
        # Comparisons of languages and layers: all before training and of the reference, else debiased CKA alone.
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
    """Scores and gaps under the name of the mean that they belong to.

    `others`: the main test set of every other language; with `known`, of those that the model was pretrained on, and
    the rest is `unseen`. The other sets of these languages are `others` on `other domains`.
    """
    main: dict[tuple[str, str, str], str] = {}
    for entry in scores:
        if entry["target"] != entry["source"]:
            first = main.setdefault((entry["task"], entry["source"], entry["target"]), entry["data"])
            is_main, is_known = entry["data"] == first, known is None or entry["target"] in known
            target = UNSEEN if is_main and not is_known else OTHERS
            yield {**entry, "target": target, "data": None if is_main else DOMAINS}


def relation_rows(results: Results) -> Iterator[dict[str, Any]]:
    """Does a language that is more like the source lose less? The rank correlation of gap and similarity over targets.

    A row for each task and layer, and one without a layer for the mean over layers 1 and up; before training and
    after. Sources are pooled by what happens within each of them, those with fewer targets than others left out. The
    interval draws targets with replacement; n counts targets of all sources.
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
                    yield row(RELATION, both, n=near.size, **at)


def _points(results: Results, task: str, plan: str) -> dict[str, list[tuple[float, dict[int | None, float]]]]:
    """Targets of the reference by source: what each loses, over seeds, and its similarity to the source by layer.

    Under None is the mean over layers above the embeddings.
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
    """Coordinates of scores: on the main test set of every language, its first, and on the further ones.

    Both in the order of the rows, the source's before all others.
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
    """Coordinates of the mean of a score over the other languages."""
    return {"measure": TASKS[task], "task": task, "source": source, "target": OTHERS, "data": None, "step": None}


def _changes(results: Results, task: str, *, home: bool, ending: str = "") -> Curves | None:
    """What pairs of layers cost at home, or in other languages: means over sources, by a pair's first layer.

    ending: of the plans, `TORCH` for the other initialiser.
    """
    sources = _sources(results, task)
    tests = [_tests(results, task, source)[0][0] if home else _others(task, source) for source in sources]
    points = {}
    for number, plan in enumerate(PAIRS):
        moved = [results.values(**test, plan=plan + ending, base={"plan": REFERENCE}) for test in tests]
        points[1 + 2 * number] = by_seed(moved)
    return curves_of(points)


# ------------------------------------------------------------------------------------------------ the claims

SMALL = 0.03  # a loss in the source language
FREE = 0.01  # within noise of the reference
SAME = 0.9  # CKA with the start of a part that hardly changes
LOWER, UPPER = range(1, 5), range(9, 13)
BOTTOM, MIDDLE, TOP = range(3), range(4, 9), range(11, 13)
NOT_ALL_PAIRS = "not all pairs and the reference were run"


def task_claim(name: str, missing: str) -> Callable[[Callable[[Results, str], Iterable[Contrast]]], Claim]:
    """Make a function that judges one task into a claim, its docstring, on every task that has what it needs."""

    def made(contrasts_of: Callable[[Results, str], Iterable[Contrast]]) -> Claim:
        def contrasts(results: Results) -> Iterator[Contrast]:
            for task in _tasks(results):
                with suppress(NotMeasured):
                    first, *others = contrasts_of(results, task)
                    yield replace(first, words=f"{NAMES[task]}: {first.words}")
                    yield from others

        return Claim(name, str(contrasts_of.__doc__), contrasts, missing)

    return made


def _losses(results: Results, task: str, *, home: bool = False) -> tuple[Floats, Floats]:
    """What every pair costs, from the lowest up, by seed (seeds, pairs) and on average, where all of them were run."""
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
                margins[source, test["target"]] = less(scores, floors)
    needed(margins, "there is no chance score")
    worst = min(margins, key=lambda pair: over_seeds(margins[pair]).value)
    least = by_seed(margins.values(), min)
    words = f"at least {{}} points above it, from {worst[0]} to {worst[1]}, the least of {len(margins)}"
    yield Contrast(words, least, form=signed)


@task_claim("first pair", NOT_ALL_PAIRS)
def first_pair(results: Results, task: str) -> Iterator[Contrast]:
    """On other languages, the loss is largest when layers 1 and 2 begin anew."""
    losses, means = _losses(results, task)
    second = 1 + int(means[1:].argmin())
    words = f"{signed(means[0])} points with layers 1-2, {signed(means[second])} with {PLANS[PAIRS[second]]}, which is "
    words += "next; less the worst other pair of each seed {}"
    yield Contrast(words, losses[:, 0] - losses[:, 1:].min(axis=1), below, form=signed)


@task_claim("depth", NOT_ALL_PAIRS)
def depth(results: Results, task: str) -> Iterator[Contrast]:
    """It falls with depth."""
    losses, means = _losses(results, task)
    words = f"{', '.join(map(signed, means))} points from the lowest pair up, {{}} a pair"
    yield Contrast(words, np.polyfit(range(len(PAIRS)), losses.T, 1)[0], form=signed)


@task_claim("source", NOT_ALL_PAIRS)
def small_at_home(results: Results, task: str) -> Iterator[Contrast]:
    """In the source language the loss is small, whichever pair begins anew."""
    losses, means = _losses(results, task, home=True)
    worst = PLANS[PAIRS[int(means.argmin())]]
    words = f"at worst {{}} points, on average with {worst} (small: down to {signed(-SMALL)})"
    yield Contrast(words, losses.min(axis=1), above, -SMALL, form=signed)


@task_claim("upper layers", NOT_ALL_PAIRS)
def upper_layers(results: Results, task: str) -> Iterator[Contrast]:
    """Layers 9 to 12 can begin anew and other languages lose nothing beyond noise."""
    losses, means = _losses(results, task)
    course = ", ".join(f"{signed(means[at])} with {PLANS[PAIRS[at]]}" for at in (-2, -1))
    words = f"{course}; the worse of both {{}} points (free: above {signed(-FREE)})"
    yield Contrast(words, losses[:, -2:].min(axis=1), above, -FREE, form=signed)


@task_claim("lower part", "no model was compared with its start")
def unchanged(results: Results, task: str) -> Iterator[Contrast]:
    """Training leaves the lower part of the model as it is, and changes the upper part."""
    curves = needed(results.curves("layer", task=task, plan=REFERENCE, **MOVED), "there is no curve")
    low, high = (needed(curves.at(*layers), "not all layers were compared") for layers in (LOWER, UPPER))
    yield Contrast(f"CKA with the start {{}} in layers 1 to 4 (as it is: above {SAME})", low, above, SAME)
    yield Contrast(f"{over_seeds(high).value:.3f} in 9 to 12, which is less by {{}}", less(low, high))


@task_claim("middle", "languages were not compared with the source")
def middle(results: Results, task: str) -> Iterator[Contrast]:
    """Languages are most alike in the middle of the model, near layer 5."""
    before, after = (results.curves("layer", task=task, plan=plan, **SIMILARITY) for plan in (UNTUNED, REFERENCE))
    curves = needed(after, "there is no curve")
    most, low, high = (needed(curves.at(*layers), "not all layers were compared") for layers in (MIDDLE, BOTTOM, TOP))
    words = f"CKA of source and target {over_seeds(most).value:.3f} in layers 4 to 8, above layers 0 to 2 by {{}}"
    yield Contrast(words, less(most, low))
    words = f"above 11 and 12 by {{}}, highest at layer {curves.peak}"
    words += f", before training at layer {before.peak}" if before is not None else ""
    yield Contrast(words, less(most, high))


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
SHOWN = (REFERENCE, PAIRS[0], PAIRS[2], PAIRS[-1])  # all seven plans in one panel could not be told apart


def tables(results: Results) -> list[Table]:
    """Tables 1 to 3, as far as the rows allow: what pairs of layers cost at home, elsewhere, and in other domains."""
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
    """Every figure the rows allow: the cost of the pairs, and the paper's figures 1 to 3."""
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
            PLANS[plan] if plan == REFERENCE else f"anew {PLANS[plan]}": {**MOVED, "plan": plan} for plan in SHOWN
        },
    }
    titles = {NAMES[task]: {"task": task} for task in tasks}
    words = {"model": results.model, "bands": bands_note(seeds)}
    ticks = {1.0 + 2 * number: PLANS[plan] for number, plan in enumerate(PAIRS)}
    costs = []  # of each pair of layers, a panel a task: at home and elsewhere
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
    curves_of_first = {  # from the source that all tasks have
        f"{NAMES[task]}, {source} → {target}": {"task": task, "source": source, "target": target}
        for task in tasks
        for source in sources[:1]
        for target in (source, OTHERS)
    }
    shown = {PLANS[plan]: {"measure": [*SCORES], "plan": plan} for plan in SHOWN}
    return made + CAPTIONS.figure("learning", panels(results, curves_of_first, shown, over="step"), **words)


def _gaps(results: Results, sources: Sequence[str]) -> Iterator[Panel]:
    """A circle for every target: what it loses against its similarity to the source, which has a colour."""
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
