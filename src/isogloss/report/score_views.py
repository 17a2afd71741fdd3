"""The pages of scores: `lexicon` and `rotate` by layer and mapping, `stitch` by layer, `transfer` by plan and language.

A lookup retrieves words (lexicon) or sentences (rotate) of one language among those of another, with the vectors as
they are (`raw`) or through a fitted mapping; the papers report P@1 by CSLS or cosine. CKA measures how similarly two
models arrange the same sentences before any mapping. A stitch page shows the scores of a target model, at each layer,
with a head that was trained on another model's hidden states. A transfer page shows the scores in the training language
and in others for each plan or, if the task was trained on checkpoints of a fine-tuning, at each of its steps.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from isogloss.errors import require
from isogloss.figure import DARK, NOTHING, QUIET, Figure, Line, Panel, Table, file_name, printable
from isogloss.measures.cka import FORMS
from isogloss.measures.registry import describe
from isogloss.papers.results import Results
from isogloss.papers.tables import panels
from isogloss.report import curves, map_view, training_view
from isogloss.report.curves import Curve, Fact, RunFolder, View, grouped, language_name, number, select
from isogloss.runs.table import ORACLE, OTHERS

UNITS = {"lexicon": "word", "rotate": "sentence"}
METHODS = {"lexicon": "csls", "rotate": "cosine"}  # as in the papers; the rows have both methods
METHOD_NAMES = {"lexicon": "CSLS", "rotate": "cosine"}
STATIC = "static: "
FLAT = -1  # position of the only reading of curves without a layer
COUNTED = ("coverage", "identical", "p@1_behind", "p@1_best", "cka_retrieval")
MOST_PAIRS = 8
FEW_MAPPINGS, FEW_SETS = 3, 2  # a table shows intervals for at most this many
TEXTS = {"train": "the text learned from", "test": "the text looked up"}
FORM_TITLES = {"cka": "debiased", "cka_biased": "biased, centred", "cka_uncentred": "biased, not centred"}
STITCHED, HOME = "stitched", "in the source language"
MOST_PLANS, MOST_CURVES, MOST_LANGUAGES, MOST_TIES = 14, 8, 3, 3
MADE_AGAIN = "resume the run, or make it again where its rows were changed"
# Descriptions of intervals for several seeds, and for one:
BRACKETS = {True: "t intervals over seeds", False: "bootstrap intervals over examples, of one seed"}
BANDS = {True: "means and t intervals over seeds", False: "one seed, bootstrap intervals over examples"}
BY_PLAN = ("measure", "task", "model", "data", "source", "target")  # columns that distinguish curves along plans
PLAIN: dict[str, Any] = {"floor": (), "n": 0}  # for lines in panels with a floor and the number of items in the caption


def _cell(curve: Curve | None, at: int, *, interval: bool = True) -> str:
    """The value of a curve at a layer or plan, optionally with its interval; a dash if there is none."""
    reading = curve.readings.get(at) if curve is not None else None
    if reading is None:
        return NOTHING
    return reading.say(number) if interval else number(reading.value)


def _highest(parts: Iterable[Curve]) -> Curve:
    """The curve with the highest value; of ties, the one with the earlier layer."""
    return max(parts, key=lambda part: (part.peak.value, -part.best))


def _named(part: Curve) -> tuple[str, str]:
    """The names of both languages of a curve, the source first."""
    return language_name(part.source), language_name(part.target)


def _models(model: str, *others: str) -> str:
    """The names of the models, joined by "and"."""
    return " and ".join(filter(None, (model, *others)))


def _layer_figure(
    part: Curve, columns: Sequence[str], name: str, title: str, caption: str, panels: Sequence[Panel], score: str
) -> Figure:
    """A figure by layer; its file name consists of a name and these fields of one of its curves."""
    name = "-".join((name, *(file_name(getattr(part, column)) for column in columns)))
    about = f"{_models(part.model, part.other_model)}, {part.data}"
    return Figure(name, title, f"{about}: {caption} {map_view.EMBEDDING}", panels, score, xlabel="layer")


def _table(
    title: str,
    lines: Mapping[int, str],
    columns: Sequence[tuple[str, Curve | None]],
    note: str,
    wide: Sequence[Curve | None] | None = None,
) -> Table:
    """A table of layers or plans by curves, with intervals for the curves in `wide` (default: all)."""
    cells = [
        [line, *(_cell(curve, at, interval=wide is None or curve in wide) for _, curve in columns)]
        for at, line in lines.items()
    ]
    return Table(title, ["", *(head for head, _ in columns)], cells, [note])


def _layers(parts: Iterable[Curve]) -> dict[int, str]:
    """The layers of some curves: number -> label in a table."""
    return {layer: f"layer {layer}" for layer in sorted({layer for part in parts for layer in part.at})}


@dataclass(frozen=True)
class Lookup:
    """P@1 of one source and target language on one data set.

    Attributes:
        by_mapping: Mapping -> its curve by layer.
        flat: Curves without a layer, such as static vectors, which have one reading, at `FLAT`.
        counted: Curves of the measures in `COUNTED`, such as coverage and correlations, also at `FLAT`.
    """

    by_mapping: Mapping[str, Curve]
    flat: Sequence[Curve]
    counted: Sequence[Curve]

    @property
    def best(self) -> Curve:
        """The curve with the highest value at a layer, or of those without a layer if there are no others."""
        return _highest(self.by_mapping.values() or self.flat)

    @property
    def beside(self) -> list[Curve]:
        """The curves without a layer, each with its best mapping, which may differ from the best of the layers."""
        bests = map(_highest, grouped(self.flat, flat_name).values())
        return [part for part in bests if part is not self.best]


def lookups(frame: pd.DataFrame) -> list[Lookup]:
    """The lookups of every source and target, in order of appearance: P@1 by mapping and layer."""
    rows = frame[frame["task"].isin(list(UNITS)) & (frame["target"] != "")]
    read = curves.curves(rows.assign(layer=rows["layer"].fillna(FLAT)))
    looked_up = []
    for group in grouped(read, attrgetter("task", "source", "target", "data", "seed")).values():
        scores = select(group, measure="p@1", method=METHODS[group[0].task])
        flat = [part for part in scores if part.at == (FLAT,)]
        mapped = {part.condition: part for part in scores if part not in flat}
        looked_up += [Lookup(mapped, flat, [part for part in group if part.measure in COUNTED])] if scores else []
    return looked_up


def flat_name(part: Curve) -> str:
    """The name of a curve without a layer."""
    kind = {"piece": "single-piece words", "word": "words"}.get(part.unit, part.unit)
    if part.model.startswith(STATIC):
        return f"{part.model}, {kind}"
    return "embedding matrix" if part.unit == "piece" else part.unit


def likenesses(frame: pd.DataFrame) -> list[dict[str, Curve]]:
    """CKA by form for every pair of languages and text, in order of appearance, training text first."""
    rows = frame[(frame["task"] == "rotate") & frame["measure"].isin(FORMS) & frame["layer"].notna()]
    pairs = []
    for same in grouped(curves.curves(rows), attrgetter("source", "target", "data")).values():
        texts = [part for text in TEXTS for part in select(same, condition=text)]
        for group in grouped(texts, attrgetter("condition", "seed")).values():
            pairs.append({form: part for form in FORMS for part in select(group, measure=form)})
    return pairs


def lookup_view(run: RunFolder) -> View:
    """The view of P@1 by layer and mapping for each source and target, and of CKA before any mapping."""
    pairs, likes = lookups(run.rows), likenesses(run.rows)
    shown = [_show_lookup(lookup) for lookup in pairs[:MOST_PAIRS]]
    shown += [_show_alike(alike) for alike in likes[: 2 * MOST_PAIRS]]
    verdict = [line for lookup in pairs[:MOST_PAIRS] for line in _lookup_sentences(lookup, several=len(pairs) > 1)]
    verdict += [f"{len(pairs) - MOST_PAIRS} more pairs are in the rows."] if len(pairs) > MOST_PAIRS else []
    compared = [alike["cka"] for alike in likes if "cka" in alike]
    texts = grouped(compared, attrgetter("source", "target", "data")).values()
    for part in [own[0] for own in texts][:MOST_PAIRS]:
        head = f"{' and '.join(_named(part))}: " if len(texts) > 1 else ""
        last = part.at[-1]
        end = "" if last == part.best else f"; at layer {last}, the last read, {_cell(part, last)}"
        verdict.append(
            f"{head}Before any map the two spaces are most alike at layer {part.best}: CKA {part.say(part.best)}{end} "
            f"(n = {part.peak.n:,}, {TEXTS[part.condition]})."
        )
    facts: list[Fact] = []
    bests = [lookup.best for lookup in pairs] or compared[:1]
    for best in [_highest(bests)] if bests else ():  # of the best pair of languages; of CKA if there is no lookup
        layered = not any(best in lookup.flat for lookup in pairs)
        facts = map_view.layer_facts(replace(best, method=""), run.depth)[0 if layered else 1 :]
    heading = pairs[0].best.task if pairs else "alike"
    figures = [figure for _, own in shown for figure in own]
    title = _models(run.model, *run.rows["other_model"].unique())
    return View(
        "lookup",
        verdict,
        facts=facts,
        figures=figures,
        tables=[table for table, _ in shown],
        heading=heading,
        title=title,
    )


def _lookup_sentences(lookup: Lookup, *, several: bool) -> Iterator[str]:
    """Sentences on the best layer and mapping, other mappings, baselines, the correlation with CKA, and coverage."""
    best, peak = lookup.best, lookup.best.peak
    head = f"{' to '.join(_named(best))}: " if several else ""
    where = f"at layer {best.best}" if lookup.by_mapping else f"in {flat_name(best)}"
    chance = number(peak.floor) if peak.floor >= 0.0005 or peak.floor == 0 else f"{peak.floor:.1g}"
    # Layers that cannot be distinguished from the best one of the same mapping:
    same = select(lookup.counted, condition=best.condition, method=best.method)
    behind = [pair for part in select(same, measure="p@1_behind") for pair in part.readings.items()]
    tied = sorted(layer for layer, reading in behind if reading.low <= 0)
    ties = f"; {curves.name_layers(tied)} cannot be told apart" if len(tied) > 1 else ""
    for part in select(same, measure="p@1_best"):
        ties += f"; with the layer chosen on half of the {UNITS[best.task]}s and read on the other half, "
        ties += part.peak.say(number)
    yield (
        f"{head}Most translations are found {where} with {best.condition}: {peak.say(number)} of {peak.n:,} "
        f"{UNITS[best.task]}s have theirs nearest of all by {METHOD_NAMES[best.task]}, where chance gives "
        f"{chance}{ties}."
    )
    others = [part for part in lookup.by_mapping.values() if part is not best]
    if said := [f"{part.condition} {part.peak.say(number)} at layer {part.best}" for part in others]:
        yield f"{head}The best layers of the other ways: {'; '.join(said)}."
    if said := [
        f"{flat_name(part)} {part.peak.say(number)} with {part.condition} (n = {part.peak.n:,})"
        for part in lookup.beside
    ]:
        yield f"{head}Beside it, each with its best way: {'; '.join(said)}."
    for part in select(same, measure="cka_retrieval"):
        yield (
            f"{head}Over {part.peak.n} layers, CKA before any map and P@1 with {best.condition}, the mean of both "
            f"directions, have a correlation of {part.peak.say(number)}."
        )
    tested = [part for part in select(lookup.counted, condition="test") if not part.model.startswith(STATIC)]
    for covered in select(tested, measure="coverage")[:1]:
        alike = select(tested, measure="identical")
        written = f"; {alike[0].peak.value:.0%} of these have a translation that is written alike" if alike else ""
        yield f"{head}{covered.peak.value:.0%} of the {covered.peak.n:,} words of the test are known{written}."


def _show_lookup(lookup: Lookup) -> tuple[Table, list[Figure]]:
    """P@1 by layer and mapping as a table, and as the figure `lookup-SOURCE-TARGET-DATA` with a line per mapping."""
    best, title = lookup.best, " to ".join(_named(lookup.best))
    mappings = list(dict.fromkeys([*lookup.by_mapping, *(part.condition for part in lookup.flat)]))
    wide = [name for name in mappings if len(mappings) <= FEW_MAPPINGS or name == best.condition]
    columns = [(name, lookup.by_mapping.get(name)) for name in mappings]
    note = (
        f"{best.data}; n = {best.peak.n:,} at the layers. Brackets hold 95% intervals. By "
        f"{METHOD_NAMES[best.task]}; the rows have P@5, P@10 and the other method, too."
    )
    layers = _layers(lookup.by_mapping.values())
    table = _table(f"P@1, {title}", layers, columns, note, [lookup.by_mapping.get(name) for name in wide])
    for own in grouped(lookup.flat, flat_name).values():
        named = {part.condition: part for part in own}
        cells = [_cell(named.get(name), FLAT, interval=name in wide) for name in mappings]
        table = replace(table, rows=[*table.rows, [f"{flat_name(own[0])} (n = {own[0].peak.n:,})", *cells]])
    if not lookup.by_mapping:
        return table, []
    drawn = [part.line(name, **PLAIN, band=part is best) for name, part in lookup.by_mapping.items()]
    for part in lookup.beside:
        if part.unit == "word" or part.model in (best.model, best.other_model):
            label = f"{flat_name(part)},\nn = {part.peak.n:,} ({part.condition})"
            drawn.append(Line(label, [min(layers), max(layers)], [part.peak.value] * 2))
    caption = (
        f"share of {best.peak.n:,} {UNITS[best.task]}s whose nearest neighbour by {METHOD_NAMES[best.task]} is a "
        "translation. Band: 95% interval of the best way."
    )
    panel = Panel("", drawn, floor=best.peak.floor)
    return table, [
        _layer_figure(
            best, ("source", "target", "data"), name="lookup", title=title, caption=caption, panels=[panel], score="P@1"
        )
    ]


def _show_alike(alike: Mapping[str, Curve]) -> tuple[Table, list[Figure]]:
    """CKA by layer and form as a table, and as the figure `alike-SOURCE-TARGET-DATA-TEXT` with a panel per form."""
    first = next(iter(alike.values()))
    most = max(part.counts[1] for part in alike.values())
    columns = [pair for form, part in alike.items() for pair in ((FORM_TITLES[form], part), ("chance", part.chance))]
    panels = [
        Panel(FORM_TITLES[form], [part.line("CKA", **PLAIN), part.chance.line("chance")])
        for form, part in alike.items()
    ]
    title = f"{' and '.join(_named(first))}, {TEXTS[first.condition]}"
    note = (
        f"{_models(first.model, first.other_model)}; {first.data}, n = {most:,}. Brackets hold 95% intervals: one "
        "block of sentences is left out at a time. Chance is what shuffled pairs give."
    )
    table = _table(f"CKA, {title}", _layers(alike.values()), columns, note)
    caption = f"CKA of {most:,} sentences. Bands: 95% intervals."
    fields = ("source", "target", "data", "condition")
    return table, [_layer_figure(first, fields, name="alike", title=title, caption=caption, panels=panels, score="CKA")]


def stitchings(frame: pd.DataFrame) -> list[dict[str, Curve]]:
    """For every target test set, in order of appearance: the main score by condition, and that of the source."""
    rows, stitched = results(frame[frame["layer"].notna()]), []
    for same in grouped(curves.curves(rows), attrgetter("model", "other_model", "task", "source")).values():
        for target, data, measure in grouped(select(same, measure="gap"), attrgetter("target", "data", "unit")):
            scores = select(same, measure=measure)
            home = [(HOME, part) for part in select(scores, target=same[0].source)[:1]]
            ways = [(part.condition, part) for part in select(scores, target=target, data=data)]
            stitched.append(dict([*home, *ways]))
    return stitched


def stitch_view(run: RunFolder) -> View:
    """The view of scores by layer for each test set: with and without the mapping, and in the source language.

    The figures are called `stitch-TASK-TARGET-DATA`.
    """
    verdict: list[str] = []
    facts: list[Fact] = []
    tables, figures = [], []
    for ways in stitchings(run.rows):
        for way in (HOME, STITCHED):
            require(way in ways, f"{run.path} has a gap without the score {way} that it is of; {MADE_AGAIN}")
        top = ways[STITCHED]
        (source, target), best, score, over_seeds = _named(top), top.best, describe(top.measure).title, not top.seed
        chance = "" if isnan(top.peak.floor) else f", where chance gives {number(top.peak.floor)}"
        verdict.append(
            f"{target} ({top.data}), {top.task}: stitched, {score} is highest at layer "
            f"{best}: {_cell(top, best)}{chance}; in {source} the same model has {_cell(ways[HOME], best)}."
        )
        said = [f"{way} {_cell(part, best)}" for way, part in ways.items() if way not in (HOME, STITCHED)]
        verdict += [f"At that layer without the map: {'; '.join(said)}."] if said else []
        if not facts:  # of the first test set
            values = [(way, _cell(ways.get(way), best, interval=False)) for way in (HOME, STITCHED, "unmapped")]
            facts = [("best layer", str(best), ""), *((way, value, "") for way, value in values)]
        title = f"{top.task}, {source} to {target}"
        note = (
            f"{top.data}. Brackets hold {BRACKETS[over_seeds]}. The ways are those of the target: stitched, through "
            "the fitted map; shifted, by the means alone; unmapped, as it is; random, through a random rotation."
        )
        columns = [(f"in {source}" if way == HOME else way, part) for way, part in ways.items()]
        tables.append(_table(f"{score}, {title}", _layers([top]), columns, note))
        labels = {way: f"{source}, trained in" if way == HOME else f"{target}, {way}" for way in ways}
        lines = [ways[way].line(labels[way], **PLAIN, band=way in (HOME, STITCHED)) for way in ways]
        panel, caption = Panel("", lines, floor=_floor(top)), f"{BANDS[over_seeds]}."
        figures.append(
            _layer_figure(
                top,
                ("task", "target", "data"),
                name="stitch",
                title=title,
                caption=caption,
                panels=[panel],
                score=score,
            )
        )
    title = _models(run.model, *run.rows["other_model"].unique())
    return View("training", verdict, facts=facts, figures=figures, tables=tables, heading="stitch", title=title)


def results(frame: pd.DataFrame) -> pd.DataFrame:
    """The scores of the selected models: means over seeds if there are several, without those of the oracle.

    The column `training` has plan, condition and settings.
    """
    rows = curves.with_trainings(frame[frame["step"].isna() & frame["task"].ne("") & frame["selection"].ne(ORACLE)])
    means = set(rows[rows["seed"].isna()]["training"])
    return rows[rows["seed"].isna() | ~rows["training"].isin(means)]


@dataclass(frozen=True)
class Experiment:
    """The results of one model that was trained on one task in one language.

    Attributes:
        plans: The plans, in order of appearance.
        scores: The main score along the plans, for each language and test set.
        gaps: `gap` and `relative_gap` of the mean over other languages, along the plans.
        several: Whether the rows are means over seeds.
    """

    plans: Sequence[str]
    scores: Sequence[Curve]
    gaps: Mapping[str, Curve]
    several: bool

    @cached_property
    def home(self) -> str:
        """The name of the training language."""
        return language_name(self.scores[0].source)

    @cached_property
    def sets(self) -> dict[str, Curve]:
        """The scores by name of the language, with the name of the test set if a language has several."""
        targets = Counter(part.target for part in self.scores)
        names = {**{code: language_name(code) for code in targets}, OTHERS: "mean of the others"}
        return {names[p.target] + f" ({p.data})" * (targets[p.target] > 1): p for p in self.scores}


def _floor(*parts: Curve) -> float | None:
    """The chance level, averaged over layers or plans and test sets; None if unknown."""
    known = [reading.floor for part in parts for reading in part.readings.values() if not isnan(reading.floor)]
    return float(np.mean(known)) if known else None


def experiments(run: RunFolder) -> list[Experiment]:
    """The experiments of a run, one per model, task and source, in order of appearance."""
    rows = results(run.rows)
    groups = []
    for _, group in rows[rows["layer"].isna()].groupby(["model", "task", "source"], sort=False):
        mains = set(group.loc[group["measure"] == "gap", "unit"])  # the main score
        plans = list(dict.fromkeys(group.loc[group["measure"].isin(mains), "training"]))
        group = group[group["training"].isin(plans)]
        parts = curves.curves(group.assign(layer=group["training"].map(plans.index)), by=BY_PLAN)
        scores = [part for part in parts if part.measure in mains]
        gaps = {part.measure: part for part in select(parts, target=OTHERS) if part.measure not in mains}
        home = {at for part in scores if part.target == part.source for at in part.at}
        alone = [plan for index, plan in enumerate(plans) if index not in home]
        require(not alone, f"{run.path} has no score of {', '.join(alone)} in the language trained in; {MADE_AGAIN}")
        groups += [Experiment(plans, scores, gaps, bool(group["seed"].isna().any()))] if scores else []
    return groups


def transfer_view(run: RunFolder) -> View:
    """The view of scores by plan and language for each model, task and source; without results, that of the steps."""
    groups = experiments(run)
    verdict: list[str] = []
    for experiment in groups:
        part = experiment.scores[0]
        about = f"{part.model}, {part.task} from {experiment.home}: "
        about = about if len(groups) > 1 else ""
        verdict += [*_plan_sentences(experiment, about), *_still_rising(run, experiment, about)]
    numbers: list[Fact] = []
    # Facts of the plan with the highest mean over the other languages:
    means = [(own, part) for own in groups for part in select(own.scores, target=OTHERS)]
    if means:
        own, mean = max(means, key=lambda pair: pair[1].peak.value)
        if len({plan for each, part in means for plan in map(each.plans.__getitem__, part.at)}) > 1:
            numbers.append(("best plan for the others", own.plans[mean.best], ""))
        home = [part for part in select(own.scores, target=mean.source) if mean.best in part.at]
        numbers += [("in the language trained in", _cell(part, mean.best, interval=False), "") for part in home[:1]]
        numbers.append(("in the others", number(mean.peak.value), ""))
        numbers += [] if isnan(mean.peak.floor) else [("by chance", number(mean.peak.floor), "")]
        numbers += [] if run.trained.empty else [("languages", str(len(run.languages)), "")]
    figures = [_plan_figure(experiment, groups) for experiment in groups]
    return View(
        "training",
        verdict if groups else _course_sentences(run),
        facts=numbers or training_view.facts(run),
        figures=[*figures, *similarity_figures(run), *training_view.step_figures(run)],
        tables=[_plan_table(experiment, named=len(groups) > 1) for experiment in groups],
        heading="transfer",
    )


def _plan_sentences(experiment: Experiment, head: str) -> list[str]:
    """A sentence for each plan, and one on the plan with the highest mean over the other languages."""
    home, source, sentences = experiment.home, experiment.scores[0].source, []
    means = select(experiment.scores, target=OTHERS)
    for index, plan in enumerate(experiment.plans[:MOST_PLANS]):
        sets = {name: part for name, part in experiment.sets.items() if index in part.at}
        trained_in = select(sets.values(), target=source)[0]
        words = f"{head}{plan}: {trained_in.measure} {_cell(trained_in, index)} in {home}"
        for mean in select(sets.values(), target=OTHERS):
            reading, gap = mean.readings[index], _cell(experiment.gaps.get("gap"), index)
            unclear = "which is not clearly above chance, " if reading.low <= reading.floor else "where chance gives "
            chance = "" if isnan(reading.floor) else f", {unclear}{number(reading.floor)}"
            words += f", {_cell(mean, index)} in the others{chance}, a gap of {gap}"
        others = [name for name, part in sets.items() if part.target not in (source, OTHERS)]
        ranked = sorted(others, key=lambda name: -sets[name].readings[index].value)
        said = [f"{name} {_cell(sets[name], index, interval=False)}" for name in ranked]
        if len(said) > 2 * MOST_LANGUAGES:
            said = [*said[:MOST_LANGUAGES], "...", *said[-MOST_LANGUAGES:]]
        sentences.append(f"{words} ({', '.join(said)})." if len(said) > 1 else f"{words}.")
    more = len(experiment.plans) - MOST_PLANS
    sentences += [f"{more} more plans are in the rows."] if more > 0 else []
    if sum(len(mean.at) for mean in means) > 1:
        mean = _highest(means)
        rivals = {experiment.plans[at]: reading for at, reading in mean.readings.items() if at != mean.best}
        same = [plan for plan, reading in rivals.items() if reading.high >= mean.peak.low]
        tied = f"{len(same)} more plans" if len(same) > MOST_TIES else curves.listed(same) if same else ""
        reach = f"interval of {tied} reaches" if len(same) == 1 else f"intervals of {tied} reach"
        ties = f"; the {reach} into that" if same else ""
        best, once = experiment.plans[mean.best], "" if experiment.several else "; each plan has one seed"
        sentences.append(f"{head}The others score highest under {best}: {mean.peak.say(number)}{ties}{once}.")
    return sentences


def _still_rising(run: RunFolder, experiment: Experiment, head: str) -> list[str]:
    """A sentence on plans whose score on the development set was highest at the last of several evaluations, if any."""
    first = experiment.scores[0]
    at = {"model": first.model, "task": first.task, "source": first.source}
    rows = curves.with_trainings(run.rows[(run.rows[list(at)] == pd.Series(at)).all(axis=1)])
    evaluated = rows[(rows["measure"] == first.measure) & rows["step"].notna()].groupby("training")["step"]
    ends = evaluated.max()[evaluated.nunique() > 1]  # the last step of each training with several evaluations
    chosen = rows[(rows["measure"] == "chosen_step") & (rows["target"] == first.source) & (rows["selection"] == "")]
    last = chosen[chosen["value"] == chosen["training"].map(ends)]
    plans = [
        name for name in experiment.plans if (last["training"] == name).sum() == (chosen["training"] == name).sum() > 0
    ]
    rising = "the score on the development set was highest after the last update"
    return [f"{head}Under {curves.listed(plans)} {rising}; more epochs or a higher rate may raise it."] if plans else []


def _course_sentences(run: RunFolder) -> list[str]:
    """A sentence for each task and training on the scores of other languages before and after a fine-tuning.

    A point is the mean over the seeds of the fine-tuning. Its interval is the wider of those over seeds and over
    examples: at step 0 all seeds share one model, so there is none over seeds. What is called a change is one on the
    same examples (`Curve.apart`).
    """
    read = [curve for curve in run.by_step if curve.task and curve.selection != ORACLE]
    sentences = []

    def went(curve: Curve) -> str:
        return curve.way("fell", "did not clearly change" if len(curve.at) > 1 else "was read once", "rose")

    def course(curve: Curve) -> str:
        return ", ".join(filter(None, (curve.from_to(), curve.changed() if len(curve.at) > 1 else "")))

    for task, source, measure, training in dict.fromkeys(
        (curve.task, curve.source, curve.unit, curve.training) for curve in select(read, measure="gap")
    ):
        sets = grouped(select(read, measure=measure, task=task, source=source, training=training), attrgetter("target"))
        courses = {target: curves.average([_widened(curve) for curve in own]) for target, own in sets.items()}
        ends = {OTHERS: "the others", source: language_name(source)}
        said = [
            f"{went(courses[code])} in {name} ({course(courses[code])})"
            for code, name in ends.items()
            if code in courses
        ]
        others = {code: curve for code, curve in courses.items() if code not in ends}
        single = [
            f"{language_name(code)} ({curve.from_to(steps=False).removeprefix('from ')}, {went(curve)})"
            for code, curve in others.items()
            if curve.turn()
        ]
        changed = f" It clearly changed in {curves.listed(single)}." if single else ""
        changed = changed or (" In no single language it clearly changed." if len(others) > 1 else "")
        seeds = max(curve.seeds for curve in courses.values())
        over = f", over {seeds} seeds of the tuning" if seeds > 1 else ""
        sentences.append(f"{training}: {task} {measure} {', and '.join(said)}{over}.{changed}")
    more = len(sentences) - MOST_CURVES
    return sentences[:MOST_CURVES] + ([f"{more} more plans are in the rows."] if more > 0 else [])


def _widened(curve: Curve) -> Curve:
    """A mean over seeds with the wider of its two intervals, over seeds and over examples."""
    wide = {}
    for at, reading in curve.readings.items():
        text = curve.text.get(at, reading)
        low, high = float(np.fmin(reading.low, text.low)), float(np.fmax(reading.high, text.high))
        wide[at] = replace(reading, low=low, high=high)
    return replace(curve, readings=wide, text={})


def _plan_table(experiment: Experiment, *, named: bool) -> Table:
    """A table of plans by test sets, with the gaps and the chance level."""
    part = experiment.scores[0]
    title = f"{describe(part.measure).title}, {part.task} from {experiment.home}"
    sets = sorted(experiment.sets.items(), key=lambda pair: pair[1].target == OTHERS)
    wide = [own for _, own in sets if len(sets) <= FEW_SETS + 1 or own.target in (OTHERS, sets[0][1].target)]
    gap, relative = (experiment.gaps.get(name) for name in ("gap", "relative_gap"))
    note = (
        f"Brackets hold {BRACKETS[experiment.several]}. The gap is the score in the language trained in less that "
        "in the others. Chance is what the models' own answers score when they are dealt out at random."
    )
    plans, columns = dict(enumerate(experiment.plans)), [*sets, ("gap of the others", gap), ("relative gap", relative)]
    table = _table(f"{part.model}, {title}" if named else title, plans, columns, note, [*wide, gap])
    floors = [NOTHING if floor is None else number(floor) for floor in (_floor(own) for _, own in sets)]
    chance = [["chance", *floors, NOTHING, NOTHING]] if set(floors) != {NOTHING} else []
    return replace(table, columns=["plan", *table.columns[1:]], rows=[*table.rows, *chance])


def _plan_figure(experiment: Experiment, groups: Sequence[Experiment]) -> Figure:
    """The figure `transfer-TASK`: a line per language, dashed for the source, thick for the mean of the others.

    Plans of one kind, such as `freeze:0`, `freeze:8`, are ordered; points of other plans are not joined.
    """
    part = experiment.scores[0]
    title, targets = describe(part.measure).title, list(dict.fromkeys(own.target for own in experiment.scores))
    looks: dict[str, dict[str, Any]] = {target: {"hue": hue, "band": False} for hue, target in enumerate(targets)}
    looks |= {OTHERS: {"colour": DARK, "thick": True}, part.source: {"colour": QUIET, "dash": 1}}
    apart = len({plan.partition(":")[0] for plan in experiment.plans}) > 1
    lines = [
        own.line(name + ", trained in" * (own.target == part.source), **PLAIN, **looks[own.target], dots=apart)
        for name, own in experiment.sets.items()
    ]
    models = {other.scores[0].model for other in groups}
    end = f"-{part.source}" if len(groups) > 1 else ""
    end += f"-{file_name(part.model)}" if len(models) > 1 else ""
    return Figure(
        f"transfer-{file_name(part.task)}{end}",
        f"{title} by plan, {part.task}",
        f"{printable(part.model)}, {part.task} from {experiment.home}; {BANDS[experiment.several]}.",
        [Panel("", lines, floor=_floor(*(select(experiment.scores, target=OTHERS) or experiment.scores)))],
        ylabel=title,
        xlabel="",
        ticks={float(index): plan for index, plan in enumerate(experiment.plans)},
    )


def similarity_figures(run: RunFolder) -> Iterator[Figure]:
    """The figures `languages-TASK`: CKA by layer before and after training a task, if `transfer` had parallel text.

    The left panel is CKA of the source with the others, the right one of each model with its start; a line per plan.
    """
    rows = run.rows
    rows = rows[(rows["measure"] == "cka") & rows["layer"].notna() & rows["task"].ne("") & rows["step"].isna()]
    rows = curves.with_trainings(rows[rows["target"] != OTHERS])
    groups = list(rows.groupby(["model", "task", "source"], sort=False))
    for key, group in groups:
        (model, task, source), read = map(str, key), Results(group)
        sides: dict[str, dict[str, Any]] = {
            f"{source} with the others": {"other_layer": None},
            "each model with its start": {"other_model": read.distinct("other_model")},
        }
        lines = {name: {"training": name, "look": {"band": False}} for name in read.distinct("training")}
        caption = (
            f"{model}, {task} from {source}: debiased linear CKA on parallel text, mean over "
            f"{group['target'].nunique()} languages and all seeds. {map_view.EMBEDDING}"
        )
        end = "" if len(groups) == 1 else "-" + "-".join(map(file_name, (source, model)))
        name, title = f"languages-{file_name(task)}{end}", f"Languages by layer, {task}"
        yield Figure(name, title, caption, panels(read, sides, lines), "CKA", xlabel="layer")
