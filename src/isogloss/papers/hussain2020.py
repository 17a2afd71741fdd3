"""Hussain & Dudev (2020): the effect of fine-tuning on one language on other languages and on each layer.

The published numbers are from the paper's Tables 1 and 2. Those of its figures were computed from the files released
with its code (github AmanDaVinci/X-Lingual-Transfer-Learning). The released code measures perplexity on 32 sentences,
redraws their masks each time, and keeps the worst model as the best. Its three runs share all time stamps, so their
spread is not a spread over seeds. It logs from step 1 on, after one update, whereas our first reading is step 0; its
plots count blocks from 0, ours from 1.

Perplexities are compared as ratios, in logarithms, per token if vocabularies are the same, else per character. Plans
are compared seed by seed, since a seed determines the order of sentences and the masks for all of them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from isogloss.figure import DARK, NOTHING, Figure, Line, Panel, Table, number, span
from isogloss.measures.perplexity import crossing
from isogloss.measures.statistics import Floats, Seeds, mean_over_seeds
from isogloss.papers import paper
from isogloss.papers.claims import Claim, Contrast, above, below, differs, needed
from isogloss.papers.data_sets import as_lines, find_file, lowest_hashed
from isogloss.papers.results import LEAST, Curves, Results, differences, over_seeds
from isogloss.papers.tables import bands_note, grid, panels, read_captions, read_published, seeds_note
from isogloss.recipes.drift import curve_rows, split
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import model_name
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import OTHERS, START, UNTUNED, Row, frame, records, row
from isogloss.text.corpora import Corpus
from isogloss.text.languages import short_name
from isogloss.text.readers.lines import read_lines
from isogloss.text.readers.parallel import read_corpus

ABOUT = "Hussain & Dudev (2020), Evolution of representations in cross-lingual fine-tuning"
ALL, GRADUAL, LAST_6, LAST_3, LAST_1 = "last:12", "unfreeze:4/epoch", "last:6", "last:3", "last:1"
# Plans with their names in tables, in the paper's order of test perplexity.
PLANS = {
    ALL: "all 12 layers",
    GRADUAL: "gradual unfreezing",
    LAST_6: "last 6 layers",
    LAST_3: "last 3 layers",
    LAST_1: "last layer",
}
NATIVE = "native"  # folder and name of the native model, if the reproduction pretrains it
EPOCHS, BATCH, HELD_OUT, DEPTH = 3, 8, 0.1, 12
FEW = "validation, first "  # drift's name for the batch of 16 sentences on which the paper measures distances
PUBLISHED, CAPTIONS = read_published("hussain2020"), read_captions("hussain2020")
SCALES, OPTIONS = paper.read_scales("hussain2020")
STEPS, UNITS = (1, 501, 1501), ("token", "character")  # of Table 1, and of the tables here
# Deviations of the released code from the paper that --legacy repeats, to show their effect, and the options of drift.
DEFECTS: paper.Defects = {
    "no-mask": ("no attention mask is given, so that padding is read as text", {"attend_padding": True}),
    "two-batches": ("perplexity is read on the first 32 sentences of each text", {"read_first": 32}),
    "redrawn": ("the masks of the validation texts are drawn anew at each reading", {"redraw_masks": True}),
    "worst": ("the model with the worst reading is kept as the best", {"keep_worst": True}),
    "by-position": (
        "distances compare position with position, special tokens and padding among them",
        {"by_position": True},
    ),
    "no-dropout": ("there is no dropout while the model trains", {"dropout": False}),
}
SHIFT, STRAY = "legacy_shift", "legacy_stray"  # effects of a defect on a curve


# ------------------------------------------------------------------------------------------------ the jobs


def plan(request: paper.Request, scale: SimpleNamespace) -> paper.Outline:
    """The jobs of a reproduction: pretraining first, then every plan with every seed."""
    language, native = scale.language, scale.native or str(request.out / NATIVE / "model")
    wanted = {f"{language}.txt": scale.sentences, **{f"{code}.txt": scale.watched for code in scale.others}}
    texts = paper.Texts(request, partial(_contents, scale), wanted)
    model, called, before = request.model_to_read(scale)
    if scale.native is None:
        shape = paper.TINY
        if scale.model is not None:  # use the shape of the fine-tuned model
            config = paper.config_of(scale.model, "no native model of its shape can be made")
            shape = {"architecture": config.model_type, "depth": config.num_hidden_layers, "width": config.hidden_size}
            shape |= {"heads": config.num_attention_heads, "feedforward": config.intermediate_size}
        options = {**shape, **scale.native_pretraining}
        read, folder = {language: texts.path(f"{NATIVE}.txt")}, request.out / NATIVE
        before.append(request.job("pretrain", NATIVE, read, options, folder=folder))
    options = {
        "target": {language: texts.path(f"{language}.txt")},
        "others": {other: texts.path(f"{other}.txt") for other in scale.others},
        **{"native": native, "held_out": HELD_OUT, "epochs": EPOCHS, "batch": BATCH, "rate": scale.rate},
        **{"sample_seed": 0, "probe": scale.every, "distance": scale.distance, "words": scale.words},
        "attention": scale.attention,
        "checkpoint": 5000,
    }
    asked = [*DEFECTS, "all"] if scale.legacy == "each" else [scale.legacy] if scale.legacy else []
    spoilt = [("", {}), *(paper.with_defects(each, DEFECTS) for each in asked)]
    jobs = []
    for (condition, defects), seed, each in product(spoilt, range(request.seeds), PLANS):
        own = {"plans": each, "seed": seed, **({"condition": condition} if condition else {}), **defects}
        name = re.sub("[:/,]", "-", f"{each}-seed-{seed}-{condition}".removesuffix("-"))
        coordinates = {"plan": each, "seed": seed, **({"legacy": condition.partition(":")[2]} if condition else {})}
        jobs.append(request.job("drift", name, model, {**options, **own}, **coordinates))
    beside = model_name(scale.native) if scale.native else NATIVE
    conditions = f"{called} tuned on {language}, watched on {', '.join(scale.others)}, beside {beside}"
    arguments = {"model": called, "native": beside}
    return paper.Outline(
        conditions, arguments, texts=texts, jobs=jobs, seconds=scale.seconds, before=before, depth=DEPTH
    )


# ------------------------------------------------------------------------------------------------ the texts


def _contents(scale: SimpleNamespace, data: Path) -> dict[str, str]:
    """The files: sentences for fine-tuning (LANG.txt), of other languages, and for a native model (native.txt).

    The fine-tuning text is the given file, else `drift/LANG.txt` in the data folder. The text of other languages are
    distinct premises of XNLI's development sets.
    """
    language, texts = scale.language, dict[str, Iterable[str]]()
    path = Path(scale.text) if scale.text else find_file(data, f"drift/{language}.txt")
    tuned = Corpus(language, lowest_hashed(list(read_corpus(path, language)), scale.sentences), name=f"{language}.txt")
    texts[language] = tuned
    for other in scale.others:
        lines = read_lines(find_file(data, f"xnli/dev-{other}.tsv"))
        premises = dict.fromkeys(line.split("\t")[0].strip() for line in lines)
        texts[other] = lowest_hashed(list(filter(None, premises)), scale.watched)
    if scale.native is None:  # the training part of drift's split with this share of held-out sentences
        texts[NATIVE] = split(tuned, HELD_OUT)[2]
    return {f"{name}.txt": as_lines(corpus) for name, corpus in texts.items()}


# ------------------------------------------------------------------------------------------------ the rows


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with the rows of these finished jobs, and crossing and balance over their seeds.

    Only the mean of retrieval over directions is collected; single directions are in the jobs' tables. Rows of models
    before fine-tuning are the same in all jobs, which use the same masks, and are taken from the first.
    """
    rows = []
    for position, job in enumerate(jobs):
        table = read_rows(job.folder)
        left_out = table["measure"].isin(("crossing_step", "balance_step"))  # computed over all seeds below
        left_out |= table["measure"].str.startswith("p@") & (table["source"] != "")
        rows += records(table[~left_out & ((table["plan"] != UNTUNED) | (position == 0))])
    if not rows:
        return
    curves = [each for each in rows if each["measure"] == "perplexity" and "step" in each and each["data"] != "test"]
    language = next(entry["target"] for entry in curves if entry["data"] == "validation")
    native = next((entry["other_model"] for entry in rows if entry.get("other_model") not in (None, "", START)), "")
    last = {each["plan"]: int(each["step"]) for each in sorted(curves, key=lambda entry: int(entry["step"]))}
    beside = []
    for entry in rows:  # respell coordinates as in the file of published numbers
        spelt = {name: "native" for name in ("model", "other_model") if native and entry.get(name) == native}
        spelt |= {"target": "tuned"} if entry.get("target") == language else {}
        spelt |= {"data": "first batch"} if str(entry.get("data", "")).startswith(FEW) else {}
        if "step" in entry:
            ends = {0: "first", last.get(entry["plan"]): "last"}
            spelt["step"] = ends.get(entry["step"], "") if entry["measure"] == "l2_drift" else str(entry["step"] + 1)
        beside.append(PUBLISHED.beside(entry, **spelt))
    run.append(beside)
    for more in curve_rows(run, language, model=rows[0]["model"]):
        run.append(more)
    run.append(effect_rows(frame(run.rows)))


def effect_rows(table: pd.DataFrame) -> Iterator[Row]:
    """Rows `legacy_shift` and `legacy_stray` of every training with defects whose plan was also run without them.

    They are computed for perplexity per token (of the target on validation and test text, of each other language, and
    pooled) and for L2 distances (to each model, on each text, the mean over layers that moved). `task` is the measure.

    With x(s) a reading at step s with a defect, and y(s) the reading of the same seed without it, the shift of a curve
    is the mean over the readings s of

        e(s) = log x(s) / y(s)

    and its straying is the standard deviation of e(s) around that mean. Both are means over seeds with a t interval; a
    shift of 0.1 is a curve 10.5% too high. Step 0 is included: an error there cannot be due to training.
    """
    compared = (table["measure"] == "l2_drift") | ((table["measure"] == "perplexity") & (table["unit"] == "token"))
    table = table[compared & table["step"].notna() & (table["method"] != "attention")]
    # A test is a single reading, of the step whose model was kept.
    table = table.assign(step=table["step"].where(table["data"] != "test", 0))
    honest, spoilt = table[table["condition"] == ""], table[table["condition"] != ""]
    names = ["plan", "condition", "measure", "target", "data", "other_model"]
    same = ["plan", "measure", "target", "data", "other_model", "layer", "seed", "step"]
    pairs = spoilt.merge(honest, on=same, suffixes=("", "_honest"))
    pairs = pairs[(pairs["value"] > 0) & (pairs["value_honest"] > 0)]
    pairs = pairs.assign(effect=np.log(pairs["value"] / pairs["value_honest"]))  # e(s)
    for coordinates, readings in pairs.groupby(names, sort=False):
        at = {name: value for name, value in zip(names, coordinates, strict=True) if value}
        curves = []
        for _, group in readings.groupby("seed", sort=False):
            layers = [each.to_numpy() for _, each in group.groupby("layer", sort=False, dropna=False)["effect"]]
            # A layer that starts to move late has no earlier readings, so its mean would be over other steps.
            most = max(map(len, layers))
            curves.append(np.mean([layer for layer in layers if len(layer) == most], axis=0))
        at |= {"model": readings["model"].iloc[0], "task": at.pop("measure"), "over": "seeds"}
        for kind in (SHIFT, STRAY) if any(len(curve) > 1 for curve in curves) else (SHIFT,):
            mean = mean_over_seeds([float(curve.mean() if kind == SHIFT else curve.std()) for curve in curves])
            yield row(kind, mean, **at)


def _language(results: Results) -> str:
    """The language of fine-tuning."""
    return str(next(iter(results.distinct("target", measure="perplexity", data="validation", plan=[*PLANS])), ""))


def _native(results: Results) -> str:
    """The native model's name, or "" if there is none: a model is not native beside itself."""
    return next((name for name in results.distinct("other_model") if name not in (START, results.model)), "")


def _at(results: Results, target: str, unit: str = "token") -> dict[str, Any]:
    """Coordinates of perplexity during fine-tuning, of one language or of all others pooled."""
    data = {"data": "validation"} if target == _language(results) else {}
    return {"measure": "perplexity", "condition": None, "target": target, "unit": unit, **data}


def _perplexity(results: Results, each: str, target: str, unit: str = "token") -> Curves | None:
    """Perplexity of one language, or of all others pooled, during the training of a plan (`each`)."""
    return results.curves("step", **_at(results, target, unit), plan=each)


def _watched(results: Results) -> list[str]:
    """The other languages with perplexity during training of all layers, in the order of the rows."""
    targets = results.distinct("target", measure="perplexity", plan=ALL, unit="token")
    return [target for target in targets if target not in (_language(results), OTHERS)]


DISTANCE = {"measure": "l2_drift", "data": "validation", "condition": None, "method": None}  # on the larger sample
NO_DISTANCES = "no distances to a native model were measured under "


def _distances(results: Results, each: str) -> dict[int, Curves]:
    """L2 of every block to the native model during the training of a plan."""
    at = {**DISTANCE, "plan": each, "other_model": _native(results)}
    curves = {int(block): results.curves("step", **at, layer=block) for block in results.distinct("layer", **at)}
    return {block: curve for block, curve in sorted(curves.items()) if block and curve is not None}


def _test(results: Results, each: str, unit: str = "token", **model: str) -> Seeds:
    """Test perplexity of the best model of each seed, or of a named model before fine-tuning."""
    return results.values(measure="perplexity", data="test", plan=each, condition=None, unit=unit, **model)


# ------------------------------------------------------------------------------------------------ the claims

# A curve has settled after a step if its range from there on is at most a quarter (REST) of its whole range, or 1%
# (LITTLE) of its level; it is away from zero if at least half (AWAY) of its first value is left.
REST, LITTLE, AWAY = 0.25, 0.01, 0.5
NO_OTHERS = f"no other languages were read under {ALL}"


def _factors(curves: Curves) -> Floats:
    """The ratio of the last value to the first, by seed."""
    return curves.values[:, -1] / curves.values[:, 0]


@Claim("null")
def null(results: Results) -> Iterator[Contrast]:
    """The null hypothesis, that tuning on one language leaves the others' perplexity as it was, is rejected."""
    # Both a rise and a fall reject it, so forgetting is judged separately.
    curves = needed(_perplexity(results, ALL, OTHERS), NO_OTHERS)
    words = f"that of the others {_way(_factors(curves))} from {_from_to(curves)}, a factor of {{}}"
    words += ": a fall, where the paper sees a rise" if over_seeds(_factors(curves), log=True).value < 1 else ""
    yield Contrast(words, _factors(curves), differs, 1.0, log=True)


@Claim(
    "forgetting",
    "The others are forgotten: their perplexity rises (from {} to {} at step {:,}).".format(
        *(PUBLISHED.value(reference="Table 1", step=step, target=OTHERS) for step in (STEPS[0], STEPS[-1])),
        STEPS[-1] - 1,
    ),
)
def forgetting(results: Results) -> Iterator[Contrast]:
    """A rise of the others' perplexity: from step 0, and from the lowest point on."""
    curves, watched = needed(_perplexity(results, ALL, OTHERS), NO_OTHERS), _watched(results)
    factors = _factors(curves)
    each = {code: own for code in watched if (own := _perplexity(results, ALL, code))}
    rose = [code for code, own in each.items() if (_factors(own) > 1).all()]
    which = f" ({', '.join(rose)})" if 0 < len(rose) < len(watched) else ""
    single = f", it rose in {len(rose)} of {len(watched)} languages in every seed{which}" if watched else ""
    yield Contrast(f"from step 0 it {_way(factors)} by a factor of {{}}{single}", factors, above, 1.0, log=True)
    later, steps = since_lowest(curves)
    lowest = f"{'step' if steps.min() == steps.max() else 'steps'} {span(steps)}"
    words = f"from its lowest point ({lowest}) to the end it {_way(later)} by a factor of {{}}"
    yield Contrast(words, later, above, 1.0, log=True)


def since_lowest(curves: Curves) -> tuple[Floats, Floats]:
    """The rise of each seed from the lowest step of the other seeds' mean to the end, and these steps; both (seeds,).

    The lowest value of a curve is by construction not above its last one, so rises from each curve's own minimum are
    biased upwards. A single seed uses its own minimum. Curves that fall until the end give 1.
    """
    lowest = _peaks(-np.log(curves.values))
    return curves.values[:, -1] / curves.values[range(len(lowest)), lowest], curves.steps[lowest]


def _peaks(values: Floats) -> list[int]:
    """The column with the highest mean over the other seeds, for each seed (seeds, n); of a single seed its own."""
    others = [np.delete(values, seed, axis=0) if len(values) > 1 else values for seed in range(len(values))]
    return [int(own.mean(axis=0).argmax()) for own in others]


@Claim("falls")
def falls(results: Results) -> Iterator[Contrast]:
    """The perplexity of the language that is tuned on falls."""
    curves = needed(_perplexity(results, ALL, _language(results)), f"{ALL} was not run")
    factors = _factors(curves)
    yield Contrast(f"it {_way(factors)} from {_from_to(curves)}, a factor of {{}}", factors, below, 1.0, log=True)


@Claim(
    "crossing",
    f"The two curves cross, at about step {PUBLISHED.value(measure='crossing_step'):.0f}: what is tuned on begins "
    "above the others and ends below.",
)
def crossed(results: Results) -> Iterator[Contrast]:
    """The ratio of the target's perplexity to that of the others: above 1 at the start, below 1 at the end.

    The paper's claim is per token; the result per character is added to the words, but not judged.
    """
    told: dict[str, str] = {}  # description of the curves by unit
    for unit in UNITS[::-1]:
        target, others = (
            needed(_perplexity(results, ALL, code, unit), f"there are no two curves under {ALL}")
            for code in (_language(results), OTHERS)
        )
        ratio = target.values / others.values  # (seeds, n)
        both = zip(target.values, others.values, (ratio[:, 0] > 1) & (ratio[:, -1] < 1), strict=True)
        steps = [step for own, other, down in both if down and (step := crossing(target.steps, own, other)) is not None]
        ends = []
        for at in (0, -1):
            values = [over_seeds(side.values[:, at], log=True).value for side in (target, others)]
            ends.append(f"{'above' if values[0] > values[1] else 'below'} ({' against '.join(map(number, values))})")
        up = int(((ratio[:, 0] < 1) & (ratio[:, -1] > 1)).sum())
        told[unit] = f"they cross so in {len(steps)} of {len(ratio)} seeds"
        told[unit] += f", at step {over_seeds(steps).say('{:,.0f}'.format)}" if steps else ""
        told[unit] += f", the other way round in {up}" if up else ""
        told[unit] += f": what is tuned on begins {ends[0]} and ends {ends[1]}"
    words = f"per token {told['token']}; its ratio to the others is {{}} at first"
    yield Contrast(words, ratio[:, 0], above, 1.0, log=True)
    words = f"{{}} at the end; per character {told['character']}"
    yield Contrast(words, ratio[:, -1], below, 1.0, log=True)


def _order(name: str, statement: str, *pairs: tuple[str, str]) -> Claim:
    """The claim that the first plan of each pair has the lower test perplexity, seed by seed."""

    def contrasts(results: Results) -> Iterator[Contrast]:
        words = "test perplexities as ratios, "
        for lower, higher in pairs:
            ratios = differences(_test(results, higher), _test(results, lower), log=True)
            needed(ratios, f"{PLANS[lower]} and {PLANS[higher]} have no seed in common")
            yield Contrast(f"{words}{PLANS[higher]} over {PLANS[lower]} {{}}", ratios, above, 1.0, log=True)
            words = ""

    return Claim(name, statement, contrasts)


TESTS = sorted(PUBLISHED.values(measure="perplexity", data="test"))  # the native model is last


@Claim(
    "native",
    "The native model, not tuned, is worse on the test than every tuned model "
    f"({TESTS[-1]} against {TESTS[0]} to {TESTS[-2]} per token).",
)
def native_worse(results: Results) -> Iterator[Contrast]:
    """Test perplexity per character of the native model over that of each plan."""
    missing = "no native model was measured"
    (own,) = needed(_test(results, UNTUNED, "character", model=_native(results)), missing).values()
    tests = {each: seeds for each in PLANS if (seeds := _test(results, each, "character"))}
    words = f"per character, where vocabularies do not matter, it has {number(own)}; that over "
    for each, seeds in needed(tests, missing).items():
        ratios = [own / value for value in seeds.values()]
        yield Contrast(f"{words}{PLANS[each]} {{}}", ratios, above, 1.0, log=True)
        words = ""


@Claim("settles")
def settles(results: Results) -> Iterator[Contrast]:
    """The distance of every block to the native model settles, away from zero."""
    curves = needed(_distances(results, ALL), NO_DISTANCES + ALL)
    late = _epochs(next(iter(curves.values())))[-1]
    rest = {block: _rest(curve, late) for block, curve in curves.items()}
    moved = {block: _range(curve, late) / curve.values[:, -1] for block, curve in curves.items()}
    # The better of the two criteria, as a share of its threshold.
    still = {block: np.minimum(rest[block] / REST, moved[block] / LITTLE) for block in curves}
    left = {block: _factors(curve) for block, curve in curves.items()}
    most = max(rest, key=lambda block: rest[block].mean())
    words = (
        f"in the last epoch block {most} makes {rest[most].mean():.3f} of all its movement, the largest share, "
        f"which is {moved[most].mean():.3f} of its distance (settled: up to {REST}, or {LITTLE}); "
        "of what is allowed, the most "
    )
    for block in sorted(still, key=lambda block: -still[block].mean()):
        yield Contrast(f"{words}in block {block} {{}}", still[block], below, 1.0, quiet=not words)
        words = ""
    words = f"of the distance at first (away: {AWAY}) the least is left "
    for block in sorted(left, key=lambda block: left[block].mean()):
        yield Contrast(f"{words}in block {block} {{}}", left[block], above, AWAY, log=True, quiet=not words)
        words = ""


@Claim("levels")
def levels(results: Results) -> Iterator[Contrast]:
    """It settles at different levels for different blocks."""
    curves = needed(_distances(results, ALL), NO_DISTANCES + ALL)
    ends = np.array([curve.values[:, -1] for curve in curves.values()]).T  # (seeds, blocks)
    # The other seeds decide which block is highest and which is lowest, so that blocks without a difference give 1.
    high, low = (ends[range(len(ends)), peaks] for peaks in (_peaks(ends), _peaks(-ends)))
    ordered = sorted(zip(curves, ends.mean(axis=0), strict=True), key=lambda end: end[1])
    (bottom, least), (top, most) = ordered[0], ordered[-1]
    words = f"from {number(least)} in block {bottom} to {number(most)} in block {top}, {{}} times"
    yield Contrast(words, high / low, above, 1.0, log=True)


@Claim("last layer")
def last_layer(results: Results) -> Iterator[Contrast]:
    """When only the last layer is trained, it settles within the first epoch."""
    curves = needed(_distances(results, LAST_1), NO_DISTANCES + LAST_1)
    top = max(curves)
    words = f"{{}} of all the movement of block {top} comes after the first epoch (at most {REST} would be settled)"
    yield Contrast(words, _rest(curves[top], _epochs(curves[top])[0]), below, REST)


def _rest(curves: Curves, step: float) -> Floats:
    """The range of a curve from a step on as a share of its whole range, by seed; 0 for a constant curve."""
    whole = np.ptp(curves.values, axis=1)
    return np.divide(_range(curves, step), whole, out=np.zeros_like(whole), where=whole > 0)


def _range(curves: Curves, step: float) -> Floats:
    """The range of each seed's curve from a step on (seeds,)."""
    later = curves.values[:, curves.steps >= step]
    return np.ptp(later, axis=1) if later.shape[1] else np.zeros(len(curves.values))


def _way(factors: Floats) -> str:
    """The direction of a perplexity's change, averaged over seeds, as text."""
    return "rose" if np.log(factors).mean() > 0 else "fell"


def _from_to(curves: Curves) -> str:
    """The first and last values of curves, as geometric means over seeds."""
    return " to ".join(number(over_seeds(curves.values[:, at], log=True).value) for at in (0, -1))


CLAIMS = (
    *(null, forgetting, falls, crossed),
    _order("all layers best", "Training all layers gives the lowest test perplexity.", *product([ALL], [*PLANS][1:])),
    _order("gradual second", "Gradual unfreezing comes second.", (ALL, GRADUAL), *product([GRADUAL], [*PLANS][2:])),
    _order(
        "then last 6, 3, 1",
        "Then follow the last 6 layers, the last 3 and the last one.",
        *pairwise((LAST_6, LAST_3, LAST_1)),
    ),
    *(native_worse, settles, levels, last_layer),
)


# ------------------------------------------------------------------------------------------------ tables and figures

SHOWN = 1500  # the last step of figure 2
EVERY = range(1, DEPTH + 1)
# The figures of L2: their number in the paper, the plan, and the blocks that have a panel.
DISTANCES: Mapping[str, Mapping[str, Any]] = {
    "figure-1": {"number": "Figure 1", "plan": GRADUAL, "blocks": (1, 8, 11, 12)},
    "figure-3": {"number": "Figure 3", "plan": LAST_1, "blocks": (11, 12)},
    "figure-a1": {"number": "Figure A.1", "plan": GRADUAL, "blocks": EVERY},
    "figure-a2": {"number": "Figure A.2", "plan": LAST_1, "blocks": EVERY},
    "figure-a3": {"number": "Figure A.3", "plan": ALL, "blocks": EVERY},
    "figure-a4": {"number": "Figure A.4", "plan": LAST_6, "blocks": EVERY},
}


def tables(results: Results) -> list[Table]:
    """Tables 1 and 2, published beside measured, and the change of the other languages under each plan."""
    counts = [len(seeds) for each in PLANS if (seeds := _test(results, each))]
    code, language = _language(results), short_name(_language(results))
    words = {"language": language, "seeds": seeds_note(counts or [0], "geometric means")}
    columns: dict[str, Any] = {}
    for label, target, own in ((language, "tuned", code), ("others", OTHERS, OTHERS)):
        columns[f"{label}, published"] = {"read": _published, "target": target}
        columns[f"{label}, measured"] = {"read": partial(_at_step, results), **_at(results, own), "plan": ALL}
    last = sorted(results.distinct("step", **_at(results, code), plan=ALL))[-1:]
    steps = {f"{step:,}": {"step": step} for step in (*(step - 1 for step in STEPS), *last)}
    made = grid(results, steps, columns, **CAPTIONS.table("table-1", **words))

    tests = {line["plan"]: line["value"] for line in PUBLISHED.where(measure="perplexity", data="test")}
    rows: dict[str, Any] = {title: {"each": each} for each, title in PLANS.items()}
    rows["native model, not tuned"] = {"each": UNTUNED, "model": _native(results)}
    rows["tuned model, before"] = {"each": UNTUNED, "model": results.model}
    columns = {
        "per token, published": {"read": lambda each, model="": NOTHING if model == results.model else tests[each]}
    }
    for unit in UNITS:
        columns[f"per {unit}, measured"] = {"read": lambda **at: _cell(_test(results, **at)), "unit": unit}
    made += grid(results, rows, columns, **CAPTIONS.table("table-2", **words))

    # Other languages by plan, and each language if all layers train: first, lowest and last value.
    wanted = [(title, each, OTHERS) for each, title in PLANS.items()]
    wanted += [(f"{PLANS[ALL]}, {short_name(code)}", ALL, code) for code in _watched(results)]
    lines, second = [], ""
    for title, each, target in wanted:
        curve = _perplexity(results, each, target)
        if curve is None or len(curve.steps) < 2:
            continue
        rises, lowest_steps = since_lowest(curve)
        at = [_at_step(results, **_at(results, target), plan=each, step=step) for step in curve.steps[[0, 1, -1]]]
        ratios = (over_seeds(values, log=True).share for values in (_factors(curve), rises))
        lines.append([title, at[0], at[1], span(lowest_steps), at[2], *ratios])
        second = second or f"step {curve.steps[1]:,.0f}"
    told = CAPTIONS.table("others", **words)
    heads = [told["corner"], "step 0", second, "lowest at step", "at the end", "end / step 0", "end / lowest"]
    made += [Table(told["title"], heads, lines, told["notes"])] if lines else []
    return made + _defect_table(results)


def _conditions(results: Results) -> list[tuple[str, str]]:
    """The plans that were trained both with and without defects, each with the condition of its rows."""
    rows = results.where(measure=SHIFT)
    return list(dict.fromkeys(zip(rows["plan"], rows["condition"], strict=True)))


def _defect_table(results: Results) -> list[Table]:
    """The effect of each defect of the released code on the curves of a plan."""
    code, to = _language(results), _native(results) or START
    columns: dict[str, Any] = {
        f"{short_name(code)} reads": {"measure": SHIFT, "target": code, "data": "validation"},
        "it strays by": {"measure": STRAY, "target": code, "data": "validation"},
        "others read": {"measure": SHIFT, "target": OTHERS},
        "they stray by": {"measure": STRAY, "target": OTHERS},
        "the model kept tests": {"measure": SHIFT, "target": code, "data": "test"},
        f"L2 to {to}": {"measure": SHIFT, "task": "l2_drift", "data": "validation", "other_model": to},
    }
    how = {"task": "perplexity", "read": results.interval, "form": lambda log: f"{100 * np.expm1(log):+.1f}"}
    rows = {
        f"{condition.removeprefix('legacy:')}, {PLANS[each]}": {**how, "plan": each, "condition": condition}
        for each, condition in _conditions(results)
    }
    notes = (f"{name}: {words}." for name, (words, _) in DEFECTS.items())
    return grid(results, rows, columns, **CAPTIONS.table("defects", *notes))


def _defect_figures(results: Results) -> Iterator[Figure]:
    """A row of panels for each defect, with curves with and without it; columns share their axes."""
    language, to = _language(results), _native(results) or START
    sides = {short_name(language): language, "other languages": OTHERS}
    read = {label: {**_at(results, target), "log": True} for label, target in sides.items()}
    for each in dict.fromkeys(plan for plan, _ in _conditions(results)):
        last = max(results.distinct("step", **DISTANCE, plan=each))
        moved, drawn = {"L2 by layer": {**DISTANCE, "other_model": to, "step": last}}, list[Panel]()
        for condition in [condition for plan, condition in _conditions(results) if plan == each]:
            lines: dict[str, Any] = {
                "as it should be": {"plan": each, "condition": None, "look": {"colour": DARK}},
                "with the defect": {"plan": each, "condition": condition, "look": {"dash": 1}},
            }
            own = [replace(panel, log=True) for panel in panels(results, read, lines, over="step")]
            own += [replace(panel, xlabel="layer") for panel in panels(results, moved, lines)]
            drawn += [replace(panel, title=f"{condition.removeprefix('legacy:')}: {panel.title}") for panel in own]
        bands = bands_note(len(results.distinct("seed", **_at(results, language), plan=each)))
        name, words = f"legacy-{re.sub('[:/]', '-', each)}", {"model": results.model, "plan": PLANS[each], "to": to}
        yield from CAPTIONS.figure(name, drawn, like="legacy", **words, bands=bands)


def _published(step: int, target: str) -> str:
    """A cell of Table 1: value ± published s.d."""
    lines = PUBLISHED.where(reference="Table 1", target=target, step=step + 1)
    return f"{float(lines[0]['value']):.2f} ± {float(lines[0]['spread']):.2f}" if lines else NOTHING


def _cell(values: Seeds) -> str:
    return over_seeds(values, log=True).say(number) if values else NOTHING


def _at_step(results: Results, **at: Any) -> str:
    """A perplexity over seeds as text; before the first update all seeds are the same."""
    values = results.values(**at)
    first = next(iter(values.values()), np.nan)
    return number(first) if np.allclose(list(values.values()), first, rtol=1e-9) else _cell(values)


def figures(results: Results) -> list[Figure]:
    """All figures that can be made from the rows, in the paper's order: 1 to 3 and A.1 to A.4."""
    first, *others = (_distance_figure(results, name, **shown) for name, shown in DISTANCES.items())
    return [*first, *_perplexity_figure(results), *chain(*others), *_defect_figures(results)]


def _distance_figure(results: Results, name: str, number: str, *, plan: str, blocks: Sequence[int]) -> list[Figure]:
    """Distances of some blocks to the native model under a plan; titles have the paper's first and last value."""
    panels, reach, seeds = [], 0.0, 0
    for block, curve in _distances(results, plan).items():
        if block in blocks:
            printed = PUBLISHED.values(measure="l2_drift", plan=plan, layer=block)
            ends = " → ".join(map("{:.2f}".format, printed[:2]))
            line = curve.line(PLANS[plan])
            panels.append(Panel(f"block {block}{f'  (paper: {ends})' * bool(ends)}", [line], _epochs(curve)))
            reach, seeds = max(reach, float(np.ptp([*line.value, *line.low, *line.high]))), len(curve.seeds)
    filled = {"model": results.model, "native": _native(results), "plan": PLANS[plan], "bands": bands_note(seeds)}
    # One vertical range for all panels, as in the paper, so that small changes look small.
    made = CAPTIONS.figure(name, panels, like="figure", number=number, **filled)
    return [replace(figure, reach=1.08 * reach) for figure in made]


def _perplexity_figure(results: Results) -> list[Figure]:
    """Figure 2: the curves of the fine-tuning language and of the others, with the paper's values as dots."""
    language = short_name(_language(results))
    sides = {language: _language(results), "other languages": OTHERS}
    curves = {label: own for label, code in sides.items() if (own := _perplexity(results, ALL, code))}
    if len(curves) < len(sides):
        return []
    own = curves[language]
    until = min(SHOWN, float(own.steps[-1]))
    dots = []
    for target, name in (("tuned", "Dutch"), (OTHERS, "other languages")):
        read = {int(line["step"]) - 1: float(line["value"]) for line in PUBLISHED.where(target=target, plan=ALL)}
        steps = sorted(step for step in read if step <= until)
        if len(steps) >= LEAST:  # a short training has too few published steps to compare with
            dots.append(Line(f"{name}, published", steps, [read[step] for step in steps], dots=True))
    lines = [each.line(label, until=until, log=True) for label, each in curves.items()]
    panels = [Panel(f"the first {until:,.0f} steps", [*lines, *dots])]
    if own.steps[-1] > until:
        lines = [each.line(label, log=True) for label, each in curves.items()]
        panels.append(Panel("the whole training", lines, _epochs(own)))
    filled = {"model": results.model, "plan": PLANS[ALL], "language": language, "bands": bands_note(len(own.seeds))}
    return CAPTIONS.figure("figure-2", panels, **filled, circles=bool(dots))


def _epochs(curves: Curves) -> list[float]:
    """The last steps of all epochs but the final one."""
    return [float(curves.steps[-1]) * epoch / EPOCHS for epoch in range(1, EPOCHS)]


PAPER = paper.Paper("hussain2020", ABOUT, SCALES, OPTIONS, plan, collect, CLAIMS, tables, figures)
