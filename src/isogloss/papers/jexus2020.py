"""Jexus (2020): XNLI by the number of frozen layers, and where English and Chinese meet.

The post gives its table and its chart as images whose numbers are not available, and names neither the variant of the
model nor learning rate, batch, epochs, seeds or languages. So it has no published number here, only three claims:
accuracy in other languages is best when the representation of layer 8 is kept fixed; accuracy in English hardly depends
on N; and accuracy goes with how well the languages of layer N are aligned, judged by eye on t-SNE maps of WMT-17
(English and Chinese), where layers 7 and 8 look best, 1 to 4 and 11 and 12 poor. The published values in
`published/jexus2020.csv` are of another source: zero-shot XNLI of a multilingual BERT with nothing frozen.

The settings are ours: batch 32 and a rate of 5e-5, as the authors of multilingual BERT have them for XNLI; three epochs
with 10% warm-up, linear decay and the model chosen on English development data, as Wu & Dredze (2019) have them, who
freeze layers in the same way. `mini`, being smaller, takes 1e-4. Freezing changes which rate is best, so `rate` may be
several, of which English development data chooses for each N and seed.

Accuracies are compared seed by seed, since a seed draws the same order of pairs and the same head for each N.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from isogloss.errors import InputError
from isogloss.figure import Figure, Line, Panel, Table, percent, signed
from isogloss.measures.statistics import Floats, correlation
from isogloss.papers import paper, results as evidence
from isogloss.papers.paper import as_lines, data_file, drawn
from isogloss.papers.results import OTHERS, Claim, Contrast, Results, above, less, needed, over_seeds, target_title
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import Row, frame, mean_rows, records, row
from isogloss.text import read_bitext
from isogloss.text.catalog import data_dir
from isogloss.text.corpora import Corpus
from isogloss.text.invented import invented
from isogloss.text.readers.examples import NLI, SentencePair, read_pairs
from isogloss.text.readers.lines import read_lines

ABOUT = "Jexus (2020), Which layer preserves the best cross-lingual representations in multilingual BERT?"
PUBLISHED = evidence.published("jexus2020")
NOTHING_FROZEN, BEST, DEPTH, NEAR = -1, 8, 12, 1  # the best N of how many blocks; layers to either side that are near
MARGIN = 0.02  # within which English accuracy counts as the same
DUTCH, SICK, SICK_TEST = "nl", "sick.tsv", "sick-test-nl.tsv"  # XNLI has no Dutch
TRAIN, DEV, PARALLEL = "mnli-train.tsv", "mnli-dev.tsv", "xnli.tsv"
XNLI = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
FEWEST = 8  # rows that a rehearsal may be cut to
REHEARSAL = "rows of every data set, at most, for a rehearsal; default: all"
INVENTED_SEED = 2
SCORES: dict[str, Any] = {"measure": "accuracy", "task": "nli", "selection": None}
AVERAGED = ("accuracy", "gap", "relative_gap")  # whose means over the other languages are taken
# How well the languages of a layer are aligned: measures of `map`, and their method.
ALIGNMENT: Mapping[str, dict[str, Any]] = {
    "centred P@1": {"measure": "p@1", "method": "centred"},
    "CSLS P@1": {"measure": "p@1", "method": "csls"},
    "CKA": {"measure": "cka", "method": "debiased"},
    "word agreement": {"measure": "word_agreement", "method": "centred"},
}
CORRELATIONS: tuple[Literal["spearman", "pearson"], ...] = ("spearman", "pearson")  # of ranks, and of values
FROM_MAPS = {"p@1", "cka", "word_agreement", "p@1_mean", "cka_mean", "p@1_behind", "cka_behind", "anisotropy"}
WORD_MAP = ("points.parquet", "words.safetensors")  # the points, or the vectors that they are drawn from elsewhere


# ------------------------------------------------------------------------------------------------ the jobs


TINY_ENCODER = {**paper.TINY, "length": 64, "batch": 32, "steps": 60, "vocabulary": 300}
H200 = f"{paper.H200}, with nothing frozen"
SCALES, OPTIONS = paper.scale_table(
    source=("qaa", "en", "en"),
    count=(60, 20_000, 392_702),  # pairs to train on
    model=(None, "mini", "bert-base-multilingual-cased"),
    dutch=(False, True, False),  # whether SICK-NL is tested, too
    pair=("qab", "zh", "zh"),  # the language that is on the word map with the source
    depth=(DEPTH, DEPTH, DEPTH),
    batch=(8, 32, 32),
    known=(400, 0, 0),  # sentences of each language to pretrain on
    pretraining=(TINY_ENCODER, {}, {}),
    map=({"sample": 100, "words": 60, "points": 40}, {"points": 300}, {"points": 300}),  # options of the maps
    seconds=(2.5, 74, 1_360),  # about how long a training takes
    measured=(paper.EPYC, f"{H200}; mini is as deep and smaller, so this is more than it takes", H200),
    train=paper.option("file of English pairs to train on; default: nli_en/mnli_train.tsv of --data", own_data=True),
    languages=paper.option(
        "languages of XNLI besides English, with commas", "qab,qac", "de,fr,es,ru,zh", ",".join(XNLI), own_data=True
    ),
    rate=paper.option("learning rates, with commas; English development data chooses", "1e-2", "1e-4", "5e-05"),
    epochs=paper.option("times the training pairs are seen; default 3", 3, 3, 3),
    limit=paper.option(REHEARSAL, kind=int, least=FEWEST, own_data=True, recorded=True),
)


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: a training for every N, with all its seeds, and maps of the untrained model.

    A job has all seeds of one N, since the states of the frozen layers are computed once for them.
    """
    source, seeds = scale.source, request.seeds
    targets = scale.targets = [code.strip() for code in scale.languages.split(",")]
    scale.languages = ",".join(targets)
    if source in targets or DUTCH in targets:
        raise InputError(f"--languages are those of XNLI besides {source}; {DUTCH} is tested on other data anyway")
    texts = paper.Texts(request.out / "text", partial(_contents, request, scale), wanted={TRAIN: scale.count})
    if scale.limit:
        texts.wanted, texts.notes = {}, [f"a rehearsal: every data set was cut to {scale.limit:,} rows"]
    tested = (source, *targets)
    known = {code: texts.path(f"known.{code}.txt") for code in tested}
    model, called, before = request.model_to_read(scale.model, known, scale.pretraining)
    purpose = "it is not known how many layers it has"
    depth = int(paper.config_of(request.model, purpose).num_hidden_layers) if request.model else scale.depth
    test = {code: texts.path(f"xnli-test-{code}.tsv") for code in tested}
    options = {
        "task": "nli",
        "train": {source: texts.path(TRAIN)},
        "dev": {source: texts.path(DEV), **{code: texts.path(f"xnli-dev-{code}.tsv") for code in targets}},
        "test": test | ({DUTCH: texts.path(SICK_TEST)} if scale.dutch else {}),
        **{"seeds": seeds, "epochs": scale.epochs, "batch": scale.batch, "rate": scale.rate, "checkpoint": 5000},
    }
    jobs = []
    for point in range(NOTHING_FROZEN, depth):
        name, frozen = f"freeze-{'nothing' if point == NOTHING_FROZEN else point}", f"freeze:{point}"
        jobs.append(request.job("transfer", name, model, {**options, "plans": frozen}, part="transfer", plan=frozen))
    other = scale.pair if scale.pair in targets else targets[0]
    maps = [("xnli", PARALLEL, tested, {"points": 0}), (f"{source}-{other}", PARALLEL, (source, other), {})]
    maps += [("sick", SICK, (source, DUTCH), {"points": 0})] if scale.dutch else []
    for name, text, pair, points in maps:
        own = {"bitext": texts.path(text), "languages": ",".join(pair), **scale.map, "pairs": "first", **points}
        jobs.append(request.job("map", f"map-{name}", model, own, part="map", text=name))
    arguments = {"model": called, "seeds": seeds}
    conditions = (
        f"{called} trained on pairs of {source}, N = {NOTHING_FROZEN} to {depth - 1}, {seeds} seeds, tested on XNLI in "
        f"{', '.join(tested)}{f', and on SICK-NL in {DUTCH}' * scale.dutch}"
    )
    seconds = {"transfer": scale.seconds * seeds * len(scale.rate.split(","))}
    measured = f"as measured on {scale.measured}; what frozen layers save, the maps and loading are not counted"
    return paper.Outline(conditions, arguments, texts, jobs, seconds, measured, before, depth)


# ------------------------------------------------------------------------------------------------ the texts


def _contents(request: paper.Request, scale: SimpleNamespace) -> dict[str, str]:
    """Every file: MultiNLI to train on and choose by, XNLI and SICK-NL to test on, and parallel sentences to map.

    The development sets of XNLI are for the oracle. Where there is more than is wanted, rows are drawn, the same ones
    in every language.
    """
    if scale.model is None:
        return invented_pairs(scale.source, scale.targets, pairs=scale.count, known=scale.known)
    folder, limit, languages = data_dir(request.data), scale.limit, (scale.source, *scale.targets)
    files = inference_files(folder, languages, scale.train, count=scale.count, limit=limit)
    del files[f"xnli-dev-{scale.source}.tsv"]  # MultiNLI chooses
    bitext = read_bitext(data_file(folder / "xnli" / "xnli.15way.tsv", "parallel sentences"), languages=languages)
    files[PARALLEL] = bitext_table(bitext, drawn(range(bitext.rows), limit))
    if scale.dutch:
        sick = read_sick(data_file(folder / "nli_nl_sick" / "SICK_NL.txt", "pairs in Dutch"))
        test = balanced([(dutch, english) for part, dutch, english in sick if part == "TEST"])
        files[SICK_TEST] = pair_table([dutch for dutch, _ in test], limit)
        first = {(english.first, dutch.first) for _, dutch, english in sick}
        second = {(english.second, dutch.second) for _, dutch, english in sick}
        files[SICK] = as_lines([(scale.source, DUTCH), *drawn(sorted(first | second), limit)])
    return files


def inference_files(
    folder: Path, languages: Sequence[str], train: str | None, *, count: int, limit: int | None
) -> dict[str, str]:
    """MultiNLI, or pairs of `train`, to train on (at most `count`) and choose by, and both sets of XNLI."""
    english = data_file(Path(train) if train else folder / "nli_en" / "mnli_train.tsv", "pairs to train on")
    chosen_by = data_file(folder / "nli_en" / "mnli_val.tsv", "English pairs to choose by")
    files = {TRAIN: pair_table(read_pairs(english), min(count, limit or count))}
    files[DEV] = pair_table(read_pairs(chosen_by), limit)
    for language in languages:
        for part in ("dev", "test"):
            path = data_file(folder / "xnli" / f"{part}-{language}.tsv", "a set of XNLI")
            files[f"xnli-{part}-{language}.tsv"] = pair_table(read_pairs(path), limit)
    return files


def invented_pairs(source: str, targets: Sequence[str], *, pairs: int, known: int) -> dict[str, str]:
    """The same files of invented languages, and `known.LANG.txt` to pretrain on.

    A sentence entails its last word, is neutral to another sentence, and contradicts three at once: something that a
    tiny model can learn, and that means nothing.
    """
    files = {}
    bitext = invented([source, *targets], known + 3 * pairs, seed=INVENTED_SEED)
    for corpus in bitext:
        sentences, language = corpus.sentences, corpus.language
        files[f"known.{language}.txt"] = as_lines(sentences[:known])
        train, dev, test = (_invented_table(sentences[known + part * pairs :][:pairs]) for part in range(3))
        files |= {TRAIN: train, DEV: dev} if language == source else {f"xnli-dev-{language}.tsv": dev}
        files[f"xnli-test-{language}.tsv"] = test
    return {**files, PARALLEL: bitext_table(bitext, range(known, known + 3 * pairs))}


def _invented_table(sentences: Sequence[str]) -> str:
    last = [sentence.split()[-1] for sentence in sentences]
    three = [" ".join(sentences[at - 3 : at]) or sentence for at, sentence in enumerate(sentences)]
    return invented_inference(sentences, last, three)


def invented_inference(sentences: Sequence[str], entailed: Sequence[str], contradicting: Sequence[str]) -> str:
    """A table of pairs, every label in turn: a sentence with what it entails, the one before it, what contradicts it.

    Args:
        sentences: the first of each pair; the one before it is neutral.
        entailed: what each of them entails.
        contradicting: what contradicts each.
    """
    seconds = {"entailment": entailed, "neutral": [*sentences[-1:], *sentences[:-1]], "contradiction": contradicting}
    labels = [NLI[at % len(NLI)] for at in range(len(sentences))]
    return pair_table([SentencePair(sentences[at], seconds[label][at], label) for at, label in enumerate(labels)])


def pair_table(pairs: Sequence[SentencePair], count: int | None = None) -> str:
    """Labelled pairs as a table, at most `count` of them."""
    return as_lines((pair.first, pair.second, pair.label) for pair in drawn(pairs, count))


def bitext_table(corpora: Iterable[Corpus], rows: Iterable[int]) -> str:
    """These rows of parallel sentences as a table, the languages in its head."""
    sides = list(corpora)
    return as_lines([[side.language for side in sides], *([side.sentences[at] for side in sides] for at in rows)])


def read_sick(path: Path) -> list[tuple[str, SentencePair, SentencePair]]:
    """The rows of SICK-NL: part (TRAIN, TRIAL or TEST), the Dutch pair and its English original."""
    head, *lines = (line.split("\t") for line in read_lines(path))
    names = ["SemEval_set", "entailment_label"]
    names += [f"sentence_{side}{suffix}" for suffix in ("", "_original") for side in "AB"]
    if missing := [name for name in names if name not in head]:
        raise InputError(f"{path}:1: the column {missing[0]} of SICK-NL is missing")
    rows = []
    for cells in lines:
        part, label, *sentences = (" ".join(cells[head.index(name)].split()) for name in names)
        label = label.lower()
        if all(sentences) and label in NLI:
            first, second, *original = sentences
            rows.append((part, SentencePair(first, second, label), SentencePair(original[0], original[1], label)))
    return rows


def balanced(pairs: Sequence[tuple[SentencePair, SentencePair]]) -> list[tuple[SentencePair, SentencePair]]:
    """As many pairs of each label: 57% of SICK are neutral, so that always saying so would look like knowledge."""
    rows = {label: [number for number, (pair, _) in enumerate(pairs) if pair.label == label] for label in NLI}
    fewest = min(map(len, rows.values()))
    return [pairs[at] for at in sorted(at for numbers in rows.values() for at in drawn(numbers, fewest))]


# ------------------------------------------------------------------------------------------------ the rows


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with the rows of these finished jobs, and correlations of accuracy with alignment.

    Scores by epoch stay in the tables of the jobs. The mean over other languages is taken anew without Dutch, which is
    of other data. The word map of two languages is copied; its values are those of the map of all languages.
    """
    trained = [job for job in jobs if job.recipe == "transfer"]
    paper.join_jobs(run, jobs, lambda job, hashes: paper.all_hashes(job, hashes) if job in trained else {}, "word map")
    for job in trained:
        table = read_rows(job.folder)
        final = table["step"].isna() & table["seed"].notna() & (table["target"] != OTHERS)
        scores = [PUBLISHED.beside(entry) for entry in records(table[final])]
        targets = [  # of XNLI; their sets are one mean
            {name: value for name, value in entry.items() if name != "data"}
            for entry in scores
            if entry["target"] not in (entry["source"], DUTCH) and entry["measure"] in AVERAGED
        ]
        scores += evidence.mean_over(targets, "target", target=OTHERS)
        run.append([*scores, *mean_rows(scores)])
    for job in jobs:
        if job.recipe == "map" and job.options["points"]:
            # The points of the word map or, unless they have been drawn here, the vectors.
            path = next((job.folder / name for name in WORD_MAP if (job.folder / name).is_file()), None)
            if path is not None and (path.name == WORD_MAP[0] or not (run.folder / WORD_MAP[0]).is_file()):
                shutil.copyfile(path, run.folder / path.name)
        elif job.recipe == "map":
            table = read_rows(job.folder)
            run.append(records(table[table["measure"].isin(FROM_MAPS)]))
    if trained:
        run.append(correlations(Results(frame(run.rows))))


def correlations(results: Results) -> Iterator[Row]:
    """Accuracy at N with alignment at layer N, over N from 0 on: for each language, and pooled within those of XNLI.

    `unit` says what is correlated with accuracy. A second row (`_share`) has how often curves that are moved along the
    layers agree as well.
    """
    coordinates = {"model": results.distinct("model")[0], "task": "nli", "source": results.source}
    for name in ALIGNMENT:
        curves = {code: _both(results, name, code) for code in _languages(results)[1:]}
        whole = {code: (x, y) for code, (x, y) in curves.items() if len(x) == _depth(results)}
        pooled = [sides for code, sides in whole.items() if code != DUTCH]
        if len(pooled) > 1:
            x, y = (np.stack(side) for side in zip(*pooled, strict=True))
            whole[OTHERS] = (x, y)
        for target, (x, y) in whole.items():
            for kind in CORRELATIONS:
                value = correlation(x, y, kind=kind)
                at = {**coordinates, "target": target, "unit": name, "condition": "accuracy", "n": value.n}
                if value.value == value.value:
                    yield row(kind, value.value, low=value.low, high=value.high, **at)
                    yield row(f"{kind}_share", value.share, **at)


def _languages(results: Results) -> list[str]:
    """Every language that was tested or, where none was, mapped: the source first, Dutch last."""
    targets = results.distinct("target", **SCORES) or results.distinct("target", measure=["p@1", "cka"])
    codes = dict.fromkeys([results.source, *targets])
    return [code for code in codes if code not in (OTHERS, DUTCH)] + [DUTCH] * (DUTCH in codes)


def _frozen(results: Results) -> dict[int, dict[str, Any]]:
    """Every N that was run, in order, and its coordinates."""
    plans = {int(frozen.partition(":")[2]): {"plan": frozen} for frozen in results.distinct("plan", **SCORES)}
    return dict(sorted(plans.items()))


def _depth(results: Results) -> int:
    """How many blocks the model has, as far as the rows tell."""
    return max([0, *results.distinct("layer"), *(point + 1 for point in _frozen(results))])


def _curves(results: Results, language: str) -> evidence.Curves:
    """Accuracy over N; a claim cannot be judged without any N."""
    return needed(results.curves(_frozen(results), **SCORES, target=language), "no N was run")


def _both(results: Results, name: str, language: str) -> tuple[Floats, Floats]:
    """Alignment at layer N, and accuracy with N layers frozen, for every N from 0 on that has both."""
    aligned = results.curves("layer", **ALIGNMENT[name], **_pair(results, language))
    accuracy = results.curves(_frozen(results), **SCORES, target=language)
    if aligned is None or accuracy is None:
        return np.zeros(0), np.zeros(0)
    x, y = (side.mean[np.isin(side.steps, other.steps)] for side, other in ((aligned, accuracy), (accuracy, aligned)))
    return x, y


def _pair(results: Results, language: str) -> dict[str, Any]:
    """The coordinates of a language with the source, in both directions."""
    ends = (results.source, language)
    return {"source": ends, "target": ends}


# ------------------------------------------------------------------------------------------------ the claims


def near_best(depth: int) -> list[int]:
    """The N that count as near the post's best: 7 to 9 of 12 blocks, and as high up in a model of another depth.

    >>> near_best(12), near_best(3)
    ([7, 8, 9], [1, 2])
    """
    middle = round(BEST * depth / DEPTH)
    return list(range(max(0, middle - NEAR), min(depth - 1, middle + NEAR) + 1))


@Claim("above chance", missing="no N was run")
def above_chance(results: Results) -> Iterator[Contrast]:
    """What is learned in one language carries over to the others: accuracy there is above chance."""
    first = "the mean over N in "
    for language in _languages(results)[1:]:
        scores, floors = (results.values(column, **SCORES, target=language) for column in ("value", "floor"))
        if scores:
            gain, chance = over_seeds(less(scores, floors)), percent(over_seeds(floors).value)
            words = f"{first}{target_title(language)} {over_seeds(scores).clipped().say(percent)} (chance {chance})"
            yield Contrast(words, above(gain), gain.n)
            first = ""


@Claim(
    "best near 8",
    lambda results: (
        "Accuracy in other languages is best when the representation of layer 8 is kept fixed (N near "
        f"8: {_span(near_best(_depth(results)))})."
    ),
)
def best(results: Results) -> Iterator[Contrast]:
    """The mean over targets at these N above that at others, and highest there in every seed."""
    points, near, last = list(_frozen(results)), near_best(_depth(results)), _depth(results) - 1
    missing = [str(point) for point in (NOTHING_FROZEN, *near, last) if point not in points]
    curves = _curves(results, OTHERS)
    needed(not missing, f"N = {', '.join(missing)} was not run")
    first = "the mean over targets at "
    for point, words in ((NOTHING_FROZEN, "with nothing frozen"), (last, f"at N = {last}")):
        gain = less(curves.at(*near), curves.at(point))
        yield evidence.contrast(f"{first}N = {_span(near)} less that {words}: {{}}", gain, form=signed)
        first = ""
    tops, top, seeds = [points[at] for at in curves.values.argmax(axis=1)], curves.peak, len(curves.seeds)
    behind = {point: over_seeds(less(curves.at(top), curves.at(point))) for point in points if point != top}
    alike = [str(point) for point, interval in behind.items() if not above(interval)]
    among = f", not told from N = {', '.join(alike)}" if alike and seeds >= evidence.LEAST else ""
    by_language = ", ".join(f"{_curves(results, code).peak} ({target_title(code)})" for code in _languages(results)[1:])
    words = (
        f"highest at N = {', '.join(map(str, tops))} in the {seeds} seeds, and at {top} on average "
        f"({percent(float(curves.mean.max()))}{among}); by language at {by_language}"
    )
    # Held where every seed is highest near 8, refuted where the highest on average is told from each N that is.
    refuted = all(point in behind and above(behind[point]) for point in near)
    side = evidence.Side.HELD if set(tops) <= set(near) else evidence.Side.REFUTED if refuted else evidence.Side.OPEN
    yield Contrast(words, side, seeds)


@Claim(
    "flat at home",
    f"Accuracy in the language that is trained in hardly depends on N (within {100 * MARGIN:g} points of nothing "
    "frozen).",
)
def flat(results: Results) -> Iterator[Contrast]:
    """Accuracy in the source at every N, less that with nothing frozen."""
    points, source = list(_frozen(results)), results.source
    needed(NOTHING_FROZEN in points and len(points) > 1, "nothing frozen, or nothing else, was not run")
    curves = _curves(results, source)
    start = curves.at(NOTHING_FROZEN)
    moved = {point: over_seeds(less(curves.at(point), start)) for point in points if point != NOTHING_FROZEN}
    farthest = max(moved, key=lambda point: abs(moved[point].value))
    side = evidence.all_of(evidence.within(interval, MARGIN) for interval in moved.values())
    level = [point for point, interval in moved.items() if evidence.within(interval, MARGIN)]
    words = (
        f"{target_title(source)} {_between(curves)}, farthest from {percent(over_seeds(start).value)} at "
        f"N = {farthest}: {moved[farthest].say(signed)}"
    )
    if side is not None:
        words += f"; within the margin at {f'N = {_span(level)}' if level else 'no N'}"
    if OTHERS in results.distinct("target", **SCORES):
        words += f"; the mean over targets {_between(_curves(results, OTHERS))}"
    yield Contrast(words, side, len(curves.seeds))


def _between(curves: evidence.Curves) -> str:
    """The lowest and the highest mean over seeds, in percent."""
    return f"between {percent(float(curves.mean.min()))} and {percent(float(curves.mean.max()))}"


@Claim("goes with alignment")
def goes_with_alignment(results: Results) -> Iterator[Contrast]:
    """Accuracy with N layers frozen goes with how well layer N is aligned."""
    missing = "it takes every N from 0 on, and the map"
    names = needed(results.distinct("unit", measure="spearman", target=OTHERS), missing)
    without, seeds = ", ".join(name for name in ALIGNMENT if name not in names), len(_curves(results, OTHERS).seeds)
    words = f"rank correlations over N, within languages{f' (no {without})' * bool(without)}: "
    for name in names:
        interval = needed(results.interval(measure="spearman", target=OTHERS, unit=name), missing)
        share = results.value(measure="spearman_share", target=OTHERS, unit=name)
        words += f"{name} {interval.say('{:.2f}'.format)}"
        words += "" if share is None else f", as high or higher in {100 * share:.0f}% of moved curves"
        yield Contrast(words, above(interval), seeds)
        words = ""


def _span(points: Sequence[int]) -> str:
    """Numbers in a row as their ends.

    >>> _span([7, 8, 9]), _span([0, 2])
    ('7 to 9', '0, 2')
    """
    if len(points) > 2 and list(points) == list(range(points[0], points[-1] + 1)):
        return f"{points[0]} to {points[-1]}"
    return ", ".join(map(str, points))


CLAIMS = (above_chance, best, flat, goes_with_alignment)


# ------------------------------------------------------------------------------------------------ tables and figures


def tables(results: Results) -> list[Table]:
    """Accuracy by N, the oracle's, and correlations with alignment; those that the rows allow."""
    source = target_title(results.source)
    points = {str(point): {**SCORES, **at} for point, at in _frozen(results).items()}
    codes = [code for code in (*_languages(results), OTHERS) if code != DUTCH]
    targets = {target_title(code): {"target": code} for code in codes}
    chance = percent(over_seeds(results.values("floor", **SCORES, target=results.source)).value)
    notes = ["The post's own table is an image whose numbers are not available."]
    if results.source == "en":
        notes.append(
            "Published: zero-shot, multilingual BERT (uncased), by its authors, everything trained on all of MultiNLI."
        )
    if DUTCH in _languages(results):
        notes.append("Dutch is of other data, SICK-NL, and in no mean: XNLI has no Dutch.")
    notes.append(f"Of the epoch that {source} development data chooses. Shuffled answers score {chance}.")
    title = f"Table 1: accuracy (%) of inference, trained in {source} with N layers frozen"
    columns = {**targets, "Dutch (SICK)": {"target": DUTCH}}
    made = evidence.grid(results, title, points, columns, notes, corner="N", known=PUBLISHED)
    title = "Table 2: the same of the epoch that each target's own development set chooses"
    note = "An upper bound, which zero-shot transfer does not have: no finding rests on it."
    rows = {point: {**at, "selection": "oracle"} for point, at in points.items()}
    others = {label: at for label, at in targets.items() if at["target"] != results.source}
    made += evidence.grid(results, title, rows, others, [note], corner="N")
    codes = results.distinct("target", measure=list(CORRELATIONS))
    how = {"read": results.interval, "form": "{:.2f}".format}
    rows = {"pooled" if code == OTHERS else target_title(code): {"target": code, **how} for code in codes}
    kinds = {f"{unit}, {kind}": {"unit": unit, "measure": kind} for kind in CORRELATIONS for unit in ALIGNMENT}
    note = (
        "Of accuracy with N layers frozen and alignment at layer N of the model as it was, over the "
        f"{''.join(map(str, results.distinct('n', measure='spearman')[:1]))} N from 0 on. Pooled: within the languages "
        "of XNLI. Brackets: 95%, of runs of three neighbouring layers drawn with replacement."
    )
    title = "Table 3: correlation of accuracy with alignment"
    return made + evidence.grid(results, title, rows, kinds, [note], corner="language")


def figures(results: Results) -> list[Figure]:
    """Every figure the rows allow: the post's chart, alignment by layer, and one against the other."""
    model, source, languages = results.distinct("model")[0], target_title(results.source), _languages(results)
    frozen, dutch = _frozen(results), DUTCH in languages
    seeds = len(_curves(results, results.source).seeds) if frozen else 0
    # Bands of the source and the mean alone, so that the eye can follow them.
    lines = {
        target_title(code): {
            "target": code,
            "look": {"band": code in (results.source, OTHERS), "thick": code == OTHERS},
        }
        for code in (*languages, *([OTHERS] if len(languages) > 2 + dutch else []))
    }
    change = {**SCORES, "base": {"plan": f"freeze:{NOTHING_FROZEN}"}}
    shown = {"accuracy": SCORES, "the same less that of nothing frozen (N = -1)": change}
    pairs = {
        target_title(code): {**_pair(results, code), "look": {"hue": hue}} for hue, code in enumerate(languages) if hue
    }
    made = [
        Figure(
            "accuracy-by-frozen-layers",
            "Accuracy by the number of frozen layers",
            f"{model}, trained in {source}, zero-shot elsewhere. N = -1: nothing is frozen; 0: embeddings; N: "
            "embeddings and blocks 1 to N. Dashed: shuffled answers. The mean is over targets on XNLI."
            f"{f' Bands: t intervals over {seeds} seeds.' * (seeds >= evidence.LEAST)}"
            f"{' Dutch is of other data, SICK-NL, and not in the mean.' * dutch}",
            evidence.panels(results, shown, lines, over=frozen, floor=True),
            "accuracy",
            xlabel="N, frozen layers",
        ),
        Figure(
            "alignment-by-layer",
            "How well languages are aligned, by layer",
            f"{model} as it was before any task, {source} with each language; P@1 and word agreement are means of both "
            "directions. Layer 0 is the embedding output."
            f"{' Dutch is on sentences of SICK, all others on those of XNLI: compare shapes, not levels.' * dutch}",
            evidence.panels(results, ALIGNMENT, pairs),
            "alignment",
            xlabel="layer",
        ),
        Figure(
            "accuracy-against-alignment",
            "Accuracy with N layers frozen against the alignment of layer N",
            "Each circle is one N from 0 on and one language: alignment at layer N of the model as it was, and "
            "accuracy with N layers frozen (mean over seeds), both less the language's mean over N. In brackets: rank "
            "correlation within languages, pooled over those of XNLI.",
            list(_against(results)),
            "accuracy, less its mean",
            xlabel="alignment at layer N, less its mean",
        ),
    ]
    return [figure for figure in made if figure.panels]


def _against(results: Results) -> Iterator[Panel]:
    """A panel for each alignment measure: a circle for each N of each language, accuracy against alignment."""
    for name in ALIGNMENT:
        points = {code: _both(results, name, code) for code in _languages(results)}
        lines = [
            Line(target_title(code), (x - x.mean()).tolist(), (y - y.mean()).tolist(), dots=True, hue=hue)
            for hue, (code, (x, y)) in enumerate(points.items())
            if hue and len(x)
        ]
        pooled = results.value(measure="spearman", target=OTHERS, unit=name)
        if lines:
            yield Panel(name if pooled is None else f"{name} ({pooled:.2f})", lines)


PAPER = paper.Paper("jexus2020", ABOUT, SCALES, OPTIONS, plan, collect, CLAIMS, tables, figures)
