"""The pages of scores: `lexicon` and `rotate` by layer and mapping, `stitch` by layer, `transfer` by plan and language.

A lookup finds words (lexicon) or sentences (rotate) of one language among those of another, with the vectors as they
are (`raw`) or through a fitted mapping; P@1 by CSLS or cosine is what the papers read. Before any mapping, CKA says how
alike two models arrange the same sentences. A stitch page says what a target model scores through a head that was
trained on another model's states, at each layer. A transfer page says what is learned in the language trained in and
what is left of it elsewhere, under each plan; of tasks learned from a model at several steps of its tuning, what became
of the scores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from isogloss.figure import DARK, NOTHING, QUIET, Figure, Line, Panel, Table, file_name, printable
from isogloss.measures import FORMS
from isogloss.measures.registry import describe
from isogloss.report import curves, training_view
from isogloss.report.curves import ORACLE, OTHERS, Curve, Fact, RunFolder, View, display_names, number, records, select

UNITS = {"lexicon": "word", "rotate": "sentence"}
METHODS = {"lexicon": "csls", "rotate": "cosine"}  # what the papers read; the other one is in the rows
METHOD_NAMES = {"lexicon": "CSLS", "rotate": "cosine"}
STATIC = "static: "
COUNTED = ("coverage", "identical", "p@1_behind", "cka_retrieval")
MOST_PAIRS = 8
FEW_MAPPINGS, FEW_SETS = 3, 2  # that have room for their intervals
FOUND = "The share whose nearest neighbour in the other language is a translation (P@1)."
ALIKE = (
    "CKA says how alike two models arrange the same sentences before any map: 1 is the same arrangement up to a turn "
    "and a change of size. Read the debiased form; what is printed stands beside it, each form with its chance."
)
TEXTS = {"train": "the text learned from", "test": "the text looked up"}
FORM_TITLES = {"cka": "debiased", "cka_biased": "as printed, centred", "cka_uncentred": "as printed, not centred"}
STITCHED, HOME = "stitched", "in the source language"
STITCH_HEADING = (
    "Scores by layer, stitched",
    "The task's layers were trained on the source model's states at each layer, and then given the target model's. Of "
    "the epochs that the source's development set chose.",
)
TRANSFER_HEADING = (
    "Scores, by plan and language",
    "Of the models that the source's development set chose. Every plan and seed, and what an oracle would choose, is "
    "in the rows.",
)
MOST_PLANS, MOST_CURVES, MOST_LANGUAGES, MOST_TIES = 14, 8, 3, 3
# What is shown of several seeds, and of one:
BRACKETS = {True: "t intervals over seeds", False: "bootstrap intervals over examples, of one seed"}
BANDS = {True: "means and t intervals over seeds", False: "one seed, bootstrap intervals over examples"}
EMBEDDING = "Layer 0 is the embedding output."
Record = Mapping[str, Any]


def _cell(row: Record | None, *, interval: bool = True) -> str:
    """The value of a row, with its interval where that is wanted; a dash where there is none."""
    if row is None or isnan(row["value"]):
        return NOTHING
    return curves.between(row["value"], row["low"], row["high"]) if interval else number(row["value"])


def _line(label: str, rows: Mapping[int, Record], **look: Any) -> Line:
    """Rows by their positions as a line with its band."""
    value, low, high = ([float(row[name]) for row in rows.values()] for name in ("value", "low", "high"))
    return Line(label, list(rows), value, low, high, **look)


def _highest(rows: Iterable[Record]) -> Record:
    return max(rows, key=lambda row: float(row["value"]))


def _by_layer(rows: Iterable[Record]) -> dict[int, Record]:
    return {int(row["layer"]): row for row in sorted(rows, key=lambda row: int(row["layer"]))}


@dataclass(frozen=True)
class LayerScores:
    """One score of two languages on one data set, compared by way and layer.

    Attributes:
        row: one of its rows, which names the models, the task, the languages and the data set.
        ways: a mapping, a form of CKA or a way of stitching -> layer -> row, in the order of the layers.
        flat: the rows without a layer, such as those of static vectors.
        counted: the rows of `COUNTED`: coverage, ties and correlations.
    """

    row: Record
    ways: Mapping[str, Mapping[int, Record]]
    flat: Sequence[Record] = ()
    counted: Sequence[Record] = ()

    @property
    def models(self) -> str:
        """The names of the models."""
        return " and ".join(str(self.row[name]) for name in ("model", "other_model") if self.row[name])

    @property
    def layered(self) -> list[Record]:
        """The rows at layers, in the order of the layers."""
        rows = [row for own in self.ways.values() for row in own.values()]
        return sorted(rows, key=lambda row: int(row["layer"]))

    @property
    def best(self) -> Record:
        """The row with the highest value at a layer, or else of what there is."""
        return _highest(self.layered or self.flat)

    @property
    def beside(self) -> list[Record]:
        """What has no layer, each with its own best mapping: static vectors need one where a model may need none."""
        names = dict.fromkeys(map(flat_name, self.flat))
        bests = [_highest(row for row in self.flat if flat_name(row) == name) for name in names]
        return [row for row in bests if row is not self.best]

    @property
    def names(self) -> tuple[str, str]:
        """Both languages by name, the source first."""
        source, target = self.row["source"], self.row["target"]
        names = display_names([source, target])
        return names[source], names[target]

    def figure(
        self, columns: Sequence[str], name: str, title: str, caption: str, panels: Sequence[Panel], score: str
    ) -> Figure:
        """A figure by layer, whose file is called by a name and what stands in these columns."""
        name = "-".join((name, *(file_name(self.row[column]) for column in columns)))
        caption = f"{self.models}, {self.row['data']}: {caption} {EMBEDDING}"
        return Figure(name, title, caption, panels, score, xlabel="layer")


def lookups(frame: pd.DataFrame) -> list[LayerScores]:
    """Every source and target that were looked up, in order of appearance: P@1 by mapping and layer."""
    rows = records(frame[frame["task"].isin(list(UNITS)) & (frame["target"] != "")])
    pairs = []
    for (task, *_), table in _grouped(rows, "task", "source", "target", "data", "seed").items():
        scores = [row for row in table if row["measure"] == "p@1" and row["method"] == METHODS[task]]
        layered, flat = ([row for row in scores if pd.isna(row["layer"]) == absent] for absent in (False, True))
        ways = {way: _by_layer(own) for (way,), own in _grouped(layered, "condition").items()}
        counted = [row for row in table if row["measure"] in COUNTED]
        pairs += [LayerScores(first, ways, flat, counted) for first in (layered or flat)[:1]]
    return pairs


def likenesses(frame: pd.DataFrame) -> list[LayerScores]:
    """Every pair of languages and text that has CKA, in order of appearance, a text learned from before its test."""
    rows = records(frame[(frame["task"] == "rotate") & frame["measure"].isin(FORMS) & frame["layer"].notna()])
    pairs = []
    for same in _grouped(rows, "source", "target", "data").values():
        for text in TEXTS:
            own = [row for row in same if row["condition"] == text]
            for table in _grouped(own, "seed").values():
                forms = {form: _by_layer(row for row in table if row["measure"] == form) for form in FORMS}
                pairs.append(LayerScores(table[0], forms))
    return pairs


def stitchings(frame: pd.DataFrame) -> list[LayerScores]:
    """Every test set of the target, in order of appearance: the main score by way, and that of the source, by layer."""
    rows = frame[frame["layer"].notna() & frame["task"].ne("") & frame["step"].isna()]
    if (rows["seed"].isna() & rows["measure"].eq("gap")).any():
        rows = rows[rows["seed"].isna()]
    stitched = []
    for (*_, source), same in _grouped(records(rows), "model", "other_model", "task", "source").items():
        gaps = [row for row in same if row["measure"] == "gap"]
        for target, data, measure in _grouped(gaps, "target", "data", "unit"):
            scores = _grouped([row for row in same if row["measure"] == measure], "target", "data")
            home = next(own for (code, _), own in scores.items() if code == source)
            ways = {way: _by_layer(own) for (way,), own in _grouped(scores[target, data], "condition").items()}
            stitched.append(LayerScores(scores[target, data][0], {HOME: _by_layer(home), **ways}))
    return stitched


def _grouped(rows: Iterable[Record], *columns: str) -> dict[tuple[Any, ...], list[Record]]:
    """Rows by what stands in some columns, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    return groups


def flat_name(row: Record) -> str:
    """What a row without a layer is of."""
    kind = {"piece": "single-piece words", "word": "words"}.get(str(row["unit"]), str(row["unit"]))
    if str(row["model"]).startswith(STATIC):
        return f"{row['model']}, {kind}"
    return "embedding matrix" if row["unit"] == "piece" else str(row["unit"])


def lookup_view(run: RunFolder) -> View:
    """Translations found by layer and mapping for each source and target, and CKA before any mapping."""
    pairs, likes = lookups(run.rows), likenesses(run.rows)
    shown = [_show_lookup(lookup) for lookup in pairs[:MOST_PAIRS]]
    alike_shown = [_show_alike(alike) for alike in likes[: 2 * MOST_PAIRS]]
    verdict = [line for lookup in pairs[:MOST_PAIRS] for line in _lookup_sentences(lookup, several=len(pairs) > 1)]
    verdict += [f"{len(pairs) - MOST_PAIRS} more pairs are in the rows."] if len(pairs) > MOST_PAIRS else []
    firsts: dict[tuple[str, ...], LayerScores] = {}
    for alike in likes:
        firsts.setdefault((*alike.names, alike.row["data"]), alike)
    bests = [lookup.best for lookup in pairs]
    for index, alike in enumerate(list(firsts.values())[:MOST_PAIRS]):
        known = [row for row in alike.ways["cka"].values() if not isnan(row["value"])]
        bests += known if index == 0 and not pairs else []
        if known:
            best, last = _highest(known), known[-1]
            head = f"{' and '.join(alike.names)}: " if len(firsts) > 1 else ""
            end = "" if last is best else f"; at layer {int(last['layer'])}, the last read, {_cell(last)}"
            verdict.append(
                f"{head}Before any map the two spaces are most alike at layer {int(best['layer'])}: CKA "
                f"{_cell(best)}, where chance gives {number(best['floor'])}{end} (n = {int(best['n']):,}, "
                f"{TEXTS[alike.row['condition']]})."
            )
    facts: list[Fact] = []
    for best in [_highest(bests)] if bests else ():  # of the pair that does best, or CKA where nothing was looked up
        facts += [] if pd.isna(best["layer"]) else [("best layer", str(int(best["layer"])), "")]
        facts.append(("CKA" if best["measure"] == "cka" else "P@1", number(best["value"]), ""))
        facts.append(("by chance", number(best["floor"]), ""))
    unit = UNITS[pairs[0].row["task"]] if pairs else "word"
    heading = f"Translations found, by layer and way ({unit}s)", f"{FOUND} {ALIKE}" if likes else FOUND
    if likes and not pairs:
        heading = "How alike the two spaces are, by layer", ALIKE
    tables = [table for table, _ in (*shown, *alike_shown)]
    figures = [figure for _, own in (*shown, *alike_shown) for figure in own]
    return View("lookup", verdict, facts, figures, tables, heading, two_models=True)


def _lookup_sentences(lookup: LayerScores, *, several: bool) -> Iterator[str]:
    """The best layer and mapping, what the other mappings give, baselines, the correlation with CKA, and coverage."""
    best, task = lookup.best, lookup.row["task"]
    head = f"{' to '.join(lookup.names)}: " if several else ""
    where = f"at layer {int(best['layer'])}" if lookup.ways else f"in {flat_name(best)}"
    mapping, floor = best["condition"], float(best["floor"])
    chance = number(floor) if floor >= 0.0005 or floor == 0 else f"{floor:.1g}"
    # Which layers cannot be told from the best one of the same mapping:
    same = [row for row in lookup.counted if (row["condition"], row["method"]) == (mapping, best["method"])]
    tied = sorted(int(row["layer"]) for row in same if row["measure"] == "p@1_behind" and row["low"] <= 0)
    ties = f"; {curves.name_layers(tied)} cannot be told apart" if len(tied) > 1 else ""
    yield (
        f"{head}Most translations are found {where} with {mapping}: {_cell(best)} of {int(best['n']):,} "
        f"{UNITS[task]}s have theirs nearest of all by {METHOD_NAMES[task]}, where chance gives {chance}{ties}."
    )
    tops = {way: _highest(rows.values()) for way, rows in lookup.ways.items() if way != mapping}
    if said := [f"{way} {_cell(row)} at layer {int(row['layer'])}" for way, row in tops.items()]:
        yield f"{head}The best layers of the other ways: {'; '.join(said)}."
    named = [(flat_name(row), row) for row in lookup.beside]
    if said := [f"{name} {_cell(row)} with {row['condition']} (n = {int(row['n']):,})" for name, row in named]:
        yield f"{head}Beside it, each with its best way: {'; '.join(said)}."
    for row in same:
        if row["measure"] == "cka_retrieval":
            yield (
                f"{head}Over {int(row['n'])} layers, CKA before any map and P@1 with {mapping}, the mean of both "
                f"directions, have a correlation of {_cell(row)}."
            )
    tested = [row for row in lookup.counted if row["condition"] == "test" and not str(row["model"]).startswith(STATIC)]
    counts = {row["measure"]: row for row in reversed(tested)}  # the first of each
    if covered := counts.get("coverage"):
        alike = counts.get("identical")
        written = f"; {alike['value']:.0%} of these have a translation that is written alike" if alike else ""
        yield f"{head}{covered['value']:.0%} of the {int(covered['n']):,} words of the test are known{written}."


def _show_lookup(lookup: LayerScores) -> tuple[Table, list[Figure]]:
    """P@1 by layer and mapping: as a table, and as `lookup-SOURCE-TARGET-DATA`, a line a mapping."""
    best, task, title = lookup.best, lookup.row["task"], " to ".join(lookup.names)
    mappings = list(dict.fromkeys([*lookup.ways, *(str(row["condition"]) for row in lookup.flat)]))
    wide = [name for name in mappings if len(mappings) <= FEW_MAPPINGS or name == best["condition"]]
    counts = {flat_name(row): int(row["n"]) for row in reversed(lookup.flat)}  # the first of each
    heads = [(f"layer {int(row['layer'])}", row) for row in lookup.layered]
    heads += [(f"{flat_name(row)} (n = {counts[flat_name(row)]:,})", row) for row in lookup.flat]
    cells: dict[str, dict[str, Record]] = {}
    for head, row in heads:
        cells.setdefault(head, {})[row["condition"]] = row
    lines = [[head, *(_cell(own.get(name), interval=name in wide) for name in mappings)] for head, own in cells.items()]
    note = (
        f"{lookup.row['data']}; n = {int(best['n']):,} at the layers. Brackets hold 95% intervals. By "
        f"{METHOD_NAMES[task]}; the rows have P@5, P@10 and the other method, too."
    )
    table = Table(f"P@1, {title}", ["", *mappings], lines, [note])
    if not lookup.ways:
        return table, []
    curves_drawn = [_line(way, rows, band=way == best["condition"]) for way, rows in lookup.ways.items()]
    ends = [int(lookup.layered[end]["layer"]) for end in (0, -1)]
    for row in lookup.beside:
        if row["unit"] == "word" or row["model"] in lookup.models:
            label = f"{flat_name(row)},\nn = {int(row['n']):,} ({row['condition']})"
            curves_drawn.append(Line(label, ends, [float(row["value"])] * 2))
    caption = (
        f"share of {int(best['n']):,} {UNITS[task]}s whose nearest neighbour by {METHOD_NAMES[task]} is a "
        "translation. Band: 95% interval of the best way."
    )
    panel = Panel("", curves_drawn, floor=float(best["floor"]))
    return table, [lookup.figure(("source", "target", "data"), "lookup", title, caption, [panel], "P@1")]


def _show_alike(alike: LayerScores) -> tuple[Table, list[Figure]]:
    """CKA by layer and form: as a table, and as `alike-SOURCE-TARGET-DATA-TEXT`, a panel a form."""
    cells, panels, most = [], [], max(int(row["n"]) for row in alike.layered)
    for layer in dict.fromkeys(int(row["layer"]) for row in alike.layered):
        rows = [own.get(layer) for own in alike.ways.values()]
        shown = [(_cell(row), NOTHING if row is None else number(row["floor"])) for row in rows]
        cells.append([f"layer {layer}", *(text for pair in shown for text in pair)])
    for form, own in alike.ways.items():
        chance = Line("chance", list(own), [float(row["floor"]) for row in own.values()])
        panels.append(Panel(FORM_TITLES[form], [_line("CKA", own), chance]))
    heads = [head for form in alike.ways for head in (FORM_TITLES[form], "chance")]
    title = f"{' and '.join(alike.names)}, {TEXTS[alike.row['condition']]}"
    note = (
        f"{alike.models}; {alike.row['data']}, n = {most:,}. Brackets hold 95% intervals: one block of "
        "sentences is left out at a time. Chance is what shuffled pairs give."
    )
    caption = f"CKA of {most:,} sentences. Bands: 95% intervals."
    figure = alike.figure(("source", "target", "data", "condition"), "alike", title, caption, panels, "CKA")
    return Table(f"CKA, {title}", ["", *heads], cells, [note]), [figure]


def stitch_view(run: RunFolder) -> View:
    """For each test set the score by layer and way: with and without the map, and in the source language.

    The figures are called `stitch-TASK-TARGET-DATA`.
    """
    verdict: list[str] = []
    facts: list[Fact] = []
    tables, figures = [], []
    for stitching in stitchings(run.rows):
        (source, target), ways, stitched = stitching.names, stitching.ways, stitching.ways[STITCHED]
        top = _highest(stitched.values())
        best, score, over_seeds = int(top["layer"]), describe(top["measure"]).title, bool(pd.isna(top["seed"]))
        at_best = {way: rows.get(best) for way, rows in ways.items()}
        chance = "" if isnan(top["floor"]) else f", where chance gives {number(top['floor'])}"
        verdict.append(
            f"{target} ({top['data']}), {top['task']}: stitched, {score} is highest at layer "
            f"{best}: {_cell(top)}{chance}; in {source} the same model has {_cell(at_best[HOME])}."
        )
        said = [f"{way} {_cell(row)}" for way, row in at_best.items() if way not in (HOME, STITCHED)]
        verdict += [f"At that layer without the map: {'; '.join(said)}."] if said else []
        if not facts:  # of the first test set
            values = [(way, ways[way][best]["value"]) for way in (HOME, STITCHED, "unmapped")]
            facts = [("best layer", str(best), ""), *((way, number(value), "") for way, value in values)]
        title = f"{top['task']}, {source} to {target}"
        cells = [[f"layer {layer}", *(_cell(rows.get(layer)) for rows in ways.values())] for layer in stitched]
        note = (
            f"{top['data']}. Brackets hold {BRACKETS[over_seeds]}. The ways are those of the target: stitched, through "
            "the fitted map; shifted, by the means alone; unmapped, as it is; random, through a random rotation."
        )
        heads = [f"in {source}" if way == HOME else way for way in ways]
        tables.append(Table(f"{score}, {title}", ["", *heads], cells, [note]))
        lines = [
            _line(f"{source}, trained in" if way == HOME else f"{target}, {way}", rows, band=way in (HOME, STITCHED))
            for way, rows in ways.items()
        ]
        floor = sum(float(row["floor"]) for row in stitched.values()) / len(stitched)
        panel = Panel("", lines, floor=None if isnan(floor) else floor)
        caption = f"{BANDS[over_seeds]}."
        figures.append(stitching.figure(("task", "target", "data"), "stitch", title, caption, [panel], score))
    return View("training", verdict, facts, figures, tables, STITCH_HEADING, two_models=True)


def results(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are results: of the chosen models, means over seeds where there are several, without the oracle's.

    The column `training` names plan, condition and settings; `main` says whether a row is of the score that languages
    are compared by.
    """
    rows = curves.with_trainings(frame[frame["step"].isna() & frame["task"].ne("") & frame["selection"].ne(ORACLE)])
    means = set(rows[rows["seed"].isna()]["training"])
    rows = rows[rows["seed"].isna() | ~rows["training"].isin(means)]
    gaps = rows[rows["measure"] == "gap"]
    mains = set(zip(gaps["task"], gaps["unit"], strict=True))
    main = [pair in mains for pair in zip(rows["task"], rows["measure"], strict=True)]
    return rows.assign(main=pd.Series(main, index=rows.index, dtype=bool))


@dataclass(frozen=True)
class Experiment:
    """The results of one model that learned one task in one language.

    Attributes:
        row: one of the rows of the score that languages are compared by, which names the model, the task and more.
        scores: plan -> language and test set -> row of that score.
        gaps: plan -> `gap` or `relative_gap` -> row, of the others' mean.
        several: whether the rows are means over seeds.
    """

    row: Record
    scores: Mapping[str, Mapping[tuple[str, str], Record]]
    gaps: Mapping[str, Mapping[str, Record]]
    several: bool

    @property
    def sets(self) -> list[tuple[str, str]]:
        """The languages and test sets in order of appearance."""
        return list(dict.fromkeys(place for scores in self.scores.values() for place in scores))

    @property
    def names(self) -> dict[str, str]:
        """The languages by name."""
        source = self.row["source"]
        return {source: source, **display_names(code for code, _ in self.sets if code not in ("", OTHERS))}

    def floor(self, *places: tuple[str, str]) -> float:
        """What chance gives on these test sets, averaged over the plans; NaN where that is unknown."""
        floors = [scores[place]["floor"] for scores in self.scores.values() for place in places if place in scores]
        return float(pd.Series(floors, dtype="float64").mean())

    def set_name(self, place: tuple[str, str], names: Mapping[str, str]) -> str:
        """The language of a test set, with the set's name where the language has several."""
        target, data = place
        several = [code for code, _ in self.sets].count(target) > 1
        return names.get(target, target) + (f" ({data})" if several else "")


def transfer_view(run: RunFolder) -> View:
    """Scores by plan and language for each model, task and source; or what the steps say where no model was chosen."""
    rows = results(run.rows)
    groups = []
    for group in _grouped(records(rows[rows["layer"].isna()]), "model", "task", "source").values():
        scores: dict[str, dict[tuple[str, str], Record]] = {}
        gaps: dict[str, dict[str, Record]] = {}
        for row in group:
            if row["main"]:
                scores.setdefault(row["training"], {}).setdefault((row["target"], row["data"]), row)
            elif row["measure"] in ("gap", "relative_gap") and row["target"] == OTHERS:
                gaps.setdefault(row["training"], {}).setdefault(row["measure"], row)
        several = any(pd.isna(row["seed"]) for row in group)
        groups += [Experiment(row, scores, gaps, several) for row in group if row["main"]][:1]
    verdict: list[str] = []
    for experiment in groups:
        row = experiment.row
        about = f"{row['model']}, {row['task']} from {experiment.names[row['source']]}: "
        verdict += _plan_sentences(experiment, about if len(groups) > 1 else "")
    numbers: list[Fact] = []
    # Of the plan under which the others score highest:
    scored = [(own, row) for each in groups for own in each.scores.values() for row in own.values()]
    means = [(own, row) for own, row in scored if row["target"] == OTHERS]
    if means:
        own, best = max(means, key=lambda mean: float(mean[1]["value"]))
        if len({row["training"] for _, row in means}) > 1:
            numbers.append(("best plan for the others", best["training"], ""))
        home = [row for row in own.values() if row["target"] == row["source"]]
        numbers += [("in the language trained in", number(row["value"]), "") for row in home[:1]]
        numbers.append(("in the others", number(best["value"]), ""))
        numbers += [] if isnan(best["floor"]) else [("by chance", number(best["floor"]), "")]
        numbers += [] if run.trained.empty else [("languages", str(len(run.languages)), "")]
    figures = [_plan_figure(run, experiment, groups) for experiment in groups]
    return View(
        "training",
        verdict if groups else _course_sentences(run),
        numbers or training_view.facts(run),
        [*figures, *similarity_figures(run), *training_view.step_figures(run)],
        [_plan_table(experiment, named=len(groups) > 1) for experiment in groups],
        TRANSFER_HEADING,
    )


def _plan_sentences(experiment: Experiment, head: str) -> list[str]:
    """A sentence for each plan, and which plan leaves the others most."""
    names, source, sentences = experiment.names, experiment.row["source"], []
    for plan, scores in list(experiment.scores.items())[:MOST_PLANS]:
        home = next(row for row in scores.values() if row["target"] == source)
        words = f"{head}{plan}: {home['measure']} {_cell(home)} in {names[source]}"
        for mean in (row for row in scores.values() if row["target"] == OTHERS):
            chance = "" if isnan(mean["floor"]) else f", where chance gives {number(mean['floor'])}"
            words += f", {_cell(mean)} in the others{chance}, a gap of {_cell(experiment.gaps[plan]['gap'])}"
        others = {place: row["value"] for place, row in scores.items() if place[0] not in (source, OTHERS)}
        ranked = sorted(others, key=lambda place: -others[place])
        said = [f"{experiment.set_name(place, names)} {number(others[place])}" for place in ranked]
        if len(said) > 2 * MOST_LANGUAGES:
            said = [*said[:MOST_LANGUAGES], "...", *said[-MOST_LANGUAGES:]]
        sentences.append(f"{words} ({', '.join(said)})." if len(said) > 1 else f"{words}.")
    more = len(experiment.scores) - MOST_PLANS
    sentences += [f"{more} more plans are in the rows."] if more > 0 else []
    own = [row for scores in experiment.scores.values() for row in scores.values() if row["target"] == OTHERS]
    if len(own) > 1:
        best = _highest(own)
        rivals = [row for row in own if row["training"] != best["training"] and row["data"] == best["data"]]
        same = [str(row["training"]) for row in rivals if row["high"] >= best["low"]]
        tied = f"{len(same)} more plans" if len(same) > MOST_TIES else curves.listed(same) if same else ""
        reach = f"interval of {tied} reaches" if len(same) == 1 else f"intervals of {tied} reach"
        ties = f"; the {reach} into that" if same else ""
        sentences.append(f"{head}The others score highest under {best['training']}: {_cell(best)}{ties}.")
    return sentences


def _course_sentences(run: RunFolder) -> list[str]:
    """A sentence for each task and training: what other languages score before and after a tuning.

    A point is the mean over the seeds of the tuning. Its interval is that over seeds or that over examples, whichever
    reaches further: at step 0 all seeds share one model, and would have none. Nothing is called a change unless the
    intervals of the first and the last step part.
    """
    read = [curve for curve in run.by_step if curve.task and curve.selection != ORACLE]
    sentences = []

    def went(curve: Curve) -> str:
        return curve.way("fell", "did not clearly change" if len(curve.at) > 1 else "was read once", "rose")

    for task, source, measure, training in dict.fromkeys(
        (curve.task, curve.source, curve.unit, curve.training) for curve in select(read, measure="gap")
    ):
        sets: dict[str, dict[str, Curve]] = {}
        for curve in select(read, measure=measure, task=task, source=source, training=training):
            low, high = curve.text or (curve.low, curve.high)
            wide = {"low": np.fmin(curve.low, low), "high": np.fmax(curve.high, high)}
            bounds: dict[str, Any] = {name: tuple(ends.tolist()) for name, ends in wide.items()}
            sets.setdefault(curve.target, {}).setdefault(curve.data, replace(curve, text=None, **bounds))
        courses = {target: curves.average(list(own.values())) for target, own in sets.items()}
        names = display_names(code for code in courses if code != OTHERS)
        ends = {OTHERS: "the others", source: names.get(source, "")}
        said = [
            f"{went(courses[code])} in {name} ({courses[code].from_to()})"
            for code, name in ends.items()
            if code in courses
        ]
        others = {code: curve for code, curve in courses.items() if code not in ends}
        single = [
            f"{names[code]} ({curve.from_to(steps=False).removeprefix('from ')}, {went(curve)})"
            for code, curve in others.items()
            if curve.turn
        ]
        changed = f" It clearly changed in {curves.listed(single)}." if single else ""
        changed = changed or (" In no single language it clearly changed." if len(others) > 1 else "")
        seeds = max(curve.seeds for curve in courses.values())
        over = f", over {seeds} seeds of the tuning" if seeds > 1 else ""
        sentences.append(f"{training}: {task} {measure} {', and '.join(said)}{over}.{changed}")
    more = len(sentences) - MOST_CURVES
    return sentences[:MOST_CURVES] + ([f"{more} more plans are in the rows."] if more > 0 else [])


def _plan_table(experiment: Experiment, *, named: bool) -> Table:
    """Plans down, test sets across, then what the others lose, and chance."""
    row, names = experiment.row, experiment.names
    title = f"{describe(row['measure']).title}, {row['task']} from {names[row['source']]}"
    sets = sorted(experiment.sets, key=lambda place: place[0] == OTHERS)
    heads = ["mean of the others" if place[0] == OTHERS else experiment.set_name(place, names) for place in sets]
    wide = [place for place in sets if len(sets) <= FEW_SETS + 1 or place[0] in (OTHERS, sets[0][0])]
    lines = []
    for plan, scores in experiment.scores.items():
        cells = [_cell(scores.get(place), interval=place in wide) for place in sets]
        gaps = experiment.gaps.get(plan, {})
        lines.append([plan, *cells, _cell(gaps.get("gap")), _cell(gaps.get("relative_gap"), interval=False)])
    floors = [experiment.floor(place) for place in sets]
    if not all(map(isnan, floors)):
        shown = [NOTHING if isnan(floor) else number(floor) for floor in floors]
        lines.append(["chance", *shown, NOTHING, NOTHING])
    note = (
        f"Brackets hold {BRACKETS[experiment.several]}. The gap is the score in the language trained in less that "
        "in the others. Chance is what the models' own answers score when they are dealt out at random."
    )
    columns = ["plan", *heads, "gap of the others", "relative gap"]
    return Table(f"{row['model']}, {title}" if named else title, columns, lines, [note])


def _plan_figure(run: RunFolder, experiment: Experiment, groups: Sequence[Experiment]) -> Figure:
    """`transfer-TASK`: a line a language, the source dashed, the mean of the others thick with its interval."""
    model, task, source = (experiment.row[name] for name in ("model", "task", "source"))
    title, home, sets = describe(experiment.row["measure"]).title, run.names.get(source, source), experiment.sets
    names = {**run.names, OTHERS: "mean of the others", source: f"{home}, trained in"}
    targets = list(dict.fromkeys(target for target, _ in sets))
    nothing = dict.fromkeys(("value", "low", "high"), float("nan"))
    lines = []
    for place in sets:
        rows = {index: scores.get(place, nothing) for index, scores in enumerate(experiment.scores.values())}
        look: dict[str, Any] = {"hue": targets.index(place[0]), "band": False}
        if place[0] == OTHERS:
            look = {"colour": DARK, "thick": True}
        elif place[0] == source:
            look = {"colour": QUIET, "dash": 1}
        lines.append(_line(experiment.set_name(place, names), rows, **look))
    floor = experiment.floor(*sets)
    models = {other.row["model"] for other in groups}
    end = (f"-{source}" if len(groups) > 1 else "") + (f"-{file_name(model)}" if len(models) > 1 else "")
    return Figure(
        f"transfer-{file_name(task)}{end}",
        f"{title} by plan, {task}",
        f"{printable(model)}, {task} from {home}; {BANDS[experiment.several]}.",
        [Panel("", lines, floor=None if isnan(floor) else floor)],
        ylabel=title,
        xlabel="",
        ticks={float(index): plan for index, plan in enumerate(experiment.scores)},
    )


def similarity_figures(run: RunFolder) -> Iterator[Figure]:
    """`languages-TASK`: CKA by layer before a task is learned and after, where `transfer` had parallel text.

    To the left CKA of the source with the others, to the right of each model with its start; a line a plan.
    """
    rows = run.rows
    rows = rows[(rows["measure"] == "cka") & rows["layer"].notna() & rows["task"].ne("") & rows["step"].isna()]
    rows = curves.with_trainings(rows[rows["target"] != OTHERS])
    groups = list(rows.groupby(["model", "task", "source"], sort=False))
    for key, group in groups:
        model, task, source = map(str, key)
        hues = {name: hue for hue, name in enumerate(dict.fromkeys(group["training"]))}
        sides = {
            f"{source} with the others": group[group["other_layer"].isna()],
            "each model with its start": group[group["other_model"].ne("")],
        }
        panels = []
        for title, side in sides.items():
            means = side.groupby(["training", "layer"])["value"].mean()
            lines = [
                Line(name, [int(layer) for layer in means[name].index], means[name].tolist(), hue=hue)
                for name, hue in hues.items()
                if name in means.index
            ]
            panels += [Panel(title, lines)] if lines else []
        caption = (
            f"{model}, {task} from {source}: debiased linear CKA on parallel text, mean over "
            f"{group['target'].nunique()} languages and all seeds. {EMBEDDING}"
        )
        end = "" if len(groups) == 1 else "-" + "-".join(map(file_name, (source, model)))
        name, title = f"languages-{file_name(task)}{end}", f"Languages by layer, {task}"
        yield Figure(name, title, caption, panels, "CKA", xlabel="layer")
