"""Jexus (2020): XNLI by the number of frozen layers, and where English and Chinese meet.

The post shows its table and chart only as images whose numbers are not available, and does not name the variant of the
model, learning rate, batch size, epochs, seeds or languages. So it has no published number here, only three claims:
accuracy in other languages is best when the representation of layer 8 is kept fixed; accuracy in English hardly depends
on N; and accuracy is related to the alignment of languages at layer N, judged by eye on t-SNE maps of WMT-17 (English
and Chinese), where layers 7 and 8 look best, and 1 to 4 and 11 and 12 poor. The values in `published/jexus2020.csv`
have another source: zero-shot XNLI of a multilingual BERT without frozen layers.

The settings are ours: batch size 32 and learning rate 5e-5, which the authors of multilingual BERT use for XNLI; three
epochs with 10% warm-up, linear decay and model selection on English development data, as in Wu & Dredze (2019), who
freeze layers in the same way. The best learning rate depends on freezing, so `rate` may have several values, one of
which is selected on English development data for each N and seed; `mini`, a smaller model, needs higher ones. Findings
use the head on the first token; `heads` may add the head on the mean of all tokens (`nli-mean`).

Accuracies are compared seed by seed, since a seed determines the order of pairs and the initial head for every N.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from isogloss.figure import Figure, Line, Panel, Table, percent, signed, span
from isogloss.measures.statistics import Estimate, Floats, correlation
from isogloss.papers import paper
from isogloss.papers.claims import Claim, Contrast, above, below, chance_contrast, needed
from isogloss.papers.data_sets import as_lines, balanced, find_file, inference_files, pair_table, read_sick
from isogloss.papers.results import LEAST, Curves, Results, differences, final, mean_over, over_seeds
from isogloss.papers.tables import grid, panels, read_captions, read_published, target_title
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import ORACLE, OTHERS, Row, frame, mean_rows, records, row
from isogloss.text.readers.parallel import read_bitext

ABOUT = "Jexus (2020), Which layer preserves the best cross-lingual representations in multilingual BERT?"
PUBLISHED, CAPTIONS = read_published("jexus2020"), read_captions("jexus2020")
SCALES, OPTIONS = paper.read_scales("jexus2020")
NOTHING_FROZEN, BEST, DEPTH, NEAR = -1, 8, 12, 1  # the post's best N, its number of blocks, and the tolerance in layers
MARGIN = 0.02  # differences in English accuracy up to this count as none
DUTCH, SICK, SICK_TEST = "nl", "sick.tsv", "sick-test-nl.tsv"  # XNLI has no Dutch
TRAIN, DEV, PARALLEL = "mnli-train.tsv", "mnli-dev.tsv", "xnli.tsv"
SCORES: dict[str, Any] = {"measure": "accuracy", "task": "nli", "selection": None}
MEAN_SCORES = {**SCORES, "task": "nli-mean"}  # with the head on the mean of all tokens
AVERAGED = ("accuracy", "gap", "relative_gap")  # measures that are averaged over the other languages
# Measures of the alignment of languages at a layer, from `map`, with their method.
ALIGNMENT: Mapping[str, dict[str, Any]] = {
    "centred P@1": {"measure": "p@1", "method": "centred"},
    "CSLS P@1": {"measure": "p@1", "method": "csls"},
    "CKA": {"measure": "cka", "method": "debiased"},
    "word agreement": {"measure": "word_agreement", "method": "centred"},
}
CORRELATIONS: tuple[Literal["spearman", "pearson"], ...] = ("spearman", "pearson")  # rank and linear correlation
FROM_MAPS = {"p@1", "cka", "word_agreement", "p@1_mean", "cka_mean", "p@1_behind", "cka_behind", "anisotropy"}
WORD_MAP = ("points.parquet", "words.safetensors")  # the points, or the vectors if they are drawn on another machine


# ------------------------------------------------------------------------------------------------ the jobs


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: a training for every N, with all its seeds, and maps of the original model.

    A job has all seeds of one N, so that the hidden states of the frozen layers are computed once for all of them.
    """
    source, tested, seeds = scale.source, (scale.source, *scale.targets), request.seeds
    texts = paper.Texts(request, partial(_contents, scale), wanted={TRAIN: scale.count})
    model, called, before = request.model_to_read(scale)
    purpose = "it is not known how many layers it has"
    depth = int(paper.config_of(request.model, purpose).num_hidden_layers) if request.model else scale.depth
    test = {code: texts.path(f"xnli-test-{code}.tsv") for code in tested}
    options = {
        "train": {source: texts.path(TRAIN)},
        "dev": {source: texts.path(DEV), **{code: texts.path(f"xnli-dev-{code}.tsv") for code in scale.targets}},
        "test": test | ({DUTCH: texts.path(SICK_TEST)} if scale.dutch else {}),
        **{"seeds": seeds, "epochs": scale.epochs, "batch": scale.batch, "rate": scale.rate, "checkpoint": 5000},
    }
    jobs = []
    for task, point in product(scale.heads, range(NOTHING_FROZEN, depth)):
        name, frozen = f"freeze-{'nothing' if point == NOTHING_FROZEN else point}", f"freeze:{point}"
        own = {"task": task, **options, "plans": frozen}
        name += task.removeprefix("nli")
        jobs.append(request.job("transfer", name, model, own, part="transfer", task=task, plan=frozen))
    both, pair = (source, scale.pair), f"{source}-{scale.pair}"
    maps = [("xnli", PARALLEL, tested, {"points": 0}), (pair, PARALLEL, both, {})]
    maps += [(f"{pair}-tokens", PARALLEL, both, {"words": 0, "tokens": True})]
    maps += [("sick", SICK, (source, DUTCH), {"points": 0})] if scale.dutch else []
    for name, text, codes, points in maps:
        own = {"bitext": texts.path(text), "languages": ",".join(codes), **scale.map, "pairs": "first", **points}
        jobs.append(request.job("map", f"map-{name}", model, own, part="map", text=name))
    conditions = (
        f"{called} trained on pairs of {source}, N = {NOTHING_FROZEN} to {depth - 1}, {seeds} seeds, tested on XNLI in "
        f"{', '.join(tested)}{f', and on SICK-NL in {DUTCH}' * scale.dutch}"
    )
    seconds = {"transfer": scale.seconds["transfer"] * seeds * len(scale.rate.split(","))}
    return paper.Outline(
        conditions,
        {"model": called, "seeds": seeds},
        texts=texts,
        jobs=jobs,
        seconds=seconds,
        before=before,
        depth=depth,
    )


# ------------------------------------------------------------------------------------------------ the texts


def _contents(scale: SimpleNamespace, data: Path) -> dict[str, str]:
    """The files: MultiNLI for training and development, XNLI and SICK-NL for tests, and parallel sentences for maps.

    The development sets of XNLI are only used for the oracle.
    """
    languages = (scale.source, *scale.targets)
    files = inference_files(data, languages, scale.count)
    del files[f"xnli-dev-{scale.source}.tsv"]  # models are selected on MultiNLI
    bitext = read_bitext(find_file(data, "xnli/xnli.15way.tsv"), languages=languages)
    files[PARALLEL] = as_lines([languages, *zip(*bitext, strict=True)])
    if scale.dutch:
        sick = read_sick(data)
        files[SICK_TEST] = pair_table([dutch for dutch, _ in balanced(sick["TEST"])])
        pairs = [pair for part in sick.values() for pair in part]
        both = {(english.first, dutch.first) for dutch, english in pairs}
        both |= {(english.second, dutch.second) for dutch, english in pairs}
        files[SICK] = as_lines([(scale.source, DUTCH), *sorted(both)])
    return files


# ------------------------------------------------------------------------------------------------ the rows


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with the rows of these finished jobs, and correlations of accuracy with alignment.

    Scores by epoch are only in the tables of the jobs. The mean over other languages is recomputed without Dutch, which
    has other data. The word map of two languages is copied, but its values are taken from the map of all languages. The
    map of tokens stays in its job's folder.
    """
    for job in jobs:
        table = read_rows(job.folder)
        if job.recipe == "transfer":
            scores = [PUBLISHED.beside(entry) for entry in records(final(table))]
            targets = [  # languages of XNLI, which are averaged
                {name: value for name, value in entry.items() if name != "data"}
                for entry in scores
                if entry["target"] not in (entry["source"], DUTCH) and entry["measure"] in AVERAGED
            ]
            scores += mean_over(targets, "target", target=OTHERS)
            run.append([*scores, *mean_rows(scores)])
        elif not job.options["points"]:
            run.append(records(table[table["measure"].isin(FROM_MAPS)]))
        elif "tokens" not in job.options:  # copy the points of the word map, or the vectors if it was not drawn
            points, vectors = ((job.folder / name, run.folder / name) for name in WORD_MAP)
            copied = points if points[0].is_file() else vectors
            if copied[0].is_file() and (copied is points or not points[1].is_file()):
                shutil.copyfile(*copied)
    run.append(correlations(Results(frame(run.rows))))


def correlations(results: Results) -> Iterator[Row]:
    """Correlations of accuracy at N with alignment at layer N, over N >= 0: by language, and pooled within XNLI's.

    `unit` is the measure that is correlated with accuracy.
    """
    coordinates = {"model": results.model, "task": "nli", "source": results.source}
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
                if value.value == value.value:
                    at = {**coordinates, "target": target, "unit": name, "condition": "accuracy"}
                    yield row(kind, value, over="layers", **at)


def _languages(results: Results) -> list[str]:
    """All languages that were tested, or else mapped: the source first, Dutch last."""
    targets = results.distinct("target", **SCORES) or results.distinct("target", measure=["p@1", "cka"])
    codes = dict.fromkeys([results.source, *targets])
    return [code for code in codes if code not in (OTHERS, DUTCH)] + [DUTCH] * (DUTCH in codes)


def _frozen(results: Results) -> dict[int, dict[str, Any]]:
    """The coordinates of every N that was run, in order."""
    plans = {int(frozen.partition(":")[2]): {"plan": frozen} for frozen in results.distinct("plan", **SCORES)}
    return dict(sorted(plans.items()))


def _depth(results: Results) -> int:
    """The number of blocks of the model, inferred from the rows."""
    return max([0, *results.distinct("layer"), *(point + 1 for point in _frozen(results))])


def _curves(results: Results, language: str) -> Curves:
    """Accuracy over N; without any N, a claim is not judged."""
    return needed(results.curves(_frozen(results), **SCORES, target=language), "no N was run")


def _both(results: Results, name: str, language: str) -> tuple[Floats, Floats]:
    """Alignment at layer N, and accuracy with N frozen layers, for every N >= 0 that has both."""
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
    """The N near the post's best: 7 to 9 of 12 blocks, scaled to the depth of the model.

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
        for contrast in chance_contrast(f"{first}{target_title(language)} {{}}", results, **SCORES, target=language):
            yield contrast
            first = ""


@Claim(
    "best near 8",
    lambda results: (
        "Accuracy in other languages is best when the representation of layer 8 is kept fixed (N near "
        f"8: {span(near_best(_depth(results)))})."
    ),
)
def best(results: Results) -> Iterator[Contrast]:
    """The mean over targets and over these N compared with every other N."""
    points, near, last = list(_frozen(results)), near_best(_depth(results)), _depth(results) - 1
    missing = [str(point) for point in (NOTHING_FROZEN, *near, last) if point not in points]
    curves = _curves(results, OTHERS)
    needed(not missing, f"N = {', '.join(missing)} was not run")
    tops = [points[at] for at in curves.values.argmax(axis=1)]
    by_language = ", ".join(f"{_curves(results, code).peak} ({target_title(code)})" for code in _languages(results)[1:])
    words = (
        f"the mean over targets is highest at N = {', '.join(map(str, tops))} in the {len(tops)} seeds, and at "
        f"{curves.peak} on average ({percent(float(curves.mean.max()))}), by language at {by_language}; at "
        f"N = {span(near)} less "
    )
    for point in points:
        if point not in near:
            other = "nothing frozen" if point == NOTHING_FROZEN else f"N = {point}"
            yield Contrast(f"{words}{other} {{}}", differences(curves.at(*near), curves.at(point)), form=signed)
            words = ""


@Claim(
    "flat at home",
    f"Accuracy in the language that is trained in hardly depends on N (within {100 * MARGIN:g} points of nothing "
    "frozen).",
)
def flat(results: Results) -> Iterator[Contrast]:
    """The difference of accuracy in the source at every N from that without frozen layers, on either side."""
    points, source = list(_frozen(results)), results.source
    needed(NOTHING_FROZEN in points and len(points) > 1, "nothing frozen, or nothing else, was not run")
    curves = _curves(results, source)
    words = f"{target_title(source)} {_between(curves)}, {percent(float(curves.mean[0]))} with nothing frozen"
    if OTHERS in results.distinct("target", **SCORES):
        words += f" (the mean over targets {_between(_curves(results, OTHERS))})"
    words += "; less that, at "
    for point, moved in zip(points[1:], (curves.values[:, 1:] - curves.values[:, :1]).T, strict=True):
        # The nearer end of the margin: if a mean is within it, its distance to the other end is larger.
        test, bound = (above, -MARGIN) if moved.mean() < 0 else (below, MARGIN)
        yield Contrast(f"{words}N = {point} {{}}", moved, test, bound, form=signed)
        words = ""


def _between(curves: Curves) -> str:
    """The lowest and the highest mean over seeds, in percent, as text."""
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
        words += f"{name} {{}}"
        yield Contrast(words, Estimate.of(interval, "fisher"), form="{:.2f}".format, seeds=seeds)
        words = ""


CLAIMS = (above_chance, best, flat, goes_with_alignment)


# ------------------------------------------------------------------------------------------------ tables and figures


def tables(results: Results) -> list[Table]:
    """Tables of accuracy by N, accuracy of the oracle, and correlations with alignment, if the rows have them."""
    source = target_title(results.source)
    points = {str(point): {**SCORES, **at} for point, at in _frozen(results).items()}
    codes = [code for code in (*_languages(results), OTHERS) if code != DUTCH]
    targets = {target_title(code): {"target": code} for code in codes}
    chance = percent(over_seeds(results.values("floor", **SCORES, target=results.source)).value)
    columns = {**targets, "Dutch (SICK)": {"target": DUTCH}}
    said: dict[str, Any] = {"published": results.source == "en", "no_dutch": DUTCH in _languages(results)}
    ends = [code for code in codes if code != OTHERS]
    aligned = results.curves("layer", **ALIGNMENT["centred P@1"], source=ends, target=ends)
    said["meeting"] = f"Translations lie closest at layer {aligned.peak} (centred P@1)." if aligned else ""
    words = CAPTIONS.table("table-1", source=source, chance=chance, **said)
    made = grid(results, points, columns, **words, known=PUBLISHED)
    rows = {point: {**at, **MEAN_SCORES} for point, at in points.items()}
    made += grid(results, rows, columns, **CAPTIONS.table("table-1-mean"))
    rows = {point: {**at, "selection": ORACLE} for point, at in points.items()}
    others = {label: at for label, at in targets.items() if at["target"] != results.source}
    made += grid(results, rows, others, **CAPTIONS.table("table-2"))
    codes = results.distinct("target", measure=list(CORRELATIONS))
    how = {"read": results.interval, "form": "{:.2f}"}
    rows = {"pooled" if code == OTHERS else target_title(code): {"target": code, **how} for code in codes}
    kinds = {f"{unit}, {kind}": {"unit": unit, "measure": kind} for kind in CORRELATIONS for unit in ALIGNMENT}
    count = "".join(map(str, results.distinct("n", measure="spearman")[:1]))
    return made + grid(results, rows, kinds, **CAPTIONS.table("table-3", count=count))


def figures(results: Results) -> list[Figure]:
    """All figures that can be made from the rows: the post's chart, alignment by layer, and one against the other."""
    languages, frozen = _languages(results), _frozen(results)
    dutch, seeds = DUTCH in languages, len(_curves(results, results.source).seeds) if frozen else 0
    # Only the source and the mean have bands, for readability.
    lines = {
        target_title(code): {
            "target": code,
            "look": {"band": code in (results.source, OTHERS), "thick": code == OTHERS},
        }
        for code in (*languages, *([OTHERS] if len(languages) > 2 + dutch else []))
    }
    change = {**SCORES, "base": {"plan": f"freeze:{NOTHING_FROZEN}"}}
    shown = {"accuracy": SCORES, "the same less that of nothing frozen (N = -1)": change}
    shown["accuracy, head on the mean of all tokens"] = MEAN_SCORES
    pairs = {
        target_title(code): {**_pair(results, code), "look": {"hue": hue}} for hue, code in enumerate(languages) if hue
    }
    model = {"model": results.model, "source": target_title(results.source)}
    bands = f" Bands: t intervals over {seeds} seeds." * (seeds >= LEAST)
    accuracy = panels(results, shown, lines, over=frozen, floor=True)
    made = CAPTIONS.figure("accuracy-by-frozen-layers", accuracy, **model, bands=bands, dutch=dutch)
    made += CAPTIONS.figure("alignment-by-layer", panels(results, ALIGNMENT, pairs), **model, dutch_text=dutch)
    return made + CAPTIONS.figure("accuracy-against-alignment", list(_against(results)))


def _against(results: Results) -> Iterator[Panel]:
    """A panel for each alignment measure: a circle for each N of each language, accuracy against alignment."""
    for name in ALIGNMENT:
        points = {code: _both(results, name, code) for code in _languages(results)}
        lines = [
            Line(target_title(code), (x - x.mean()).tolist(), (y - y.mean()).tolist(), dots=True, hue=hue)
            for hue, (code, (x, y)) in enumerate(points.items())
            if hue and len(x)
        ]
        pooled = results.interval(measure="spearman", target=OTHERS, unit=name)
        if lines:
            yield Panel(name if pooled is None else f"{name} ({pooled.value:.2f})", lines)


PAPER = paper.Paper("jexus2020", ABOUT, SCALES, OPTIONS, plan, collect, CLAIMS, tables, figures)
