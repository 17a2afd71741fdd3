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

from isogloss.figure import NOTHING, Figure, Line, Panel, Table
from isogloss.measures import FORMS
from isogloss.measures.registry import describe
from isogloss.report import curves, training_view
from isogloss.report.curves import ORACLE, OTHERS, Curve, Fact, RunFolder, View, display_names, number, records, select
from isogloss.report.style import DARK, QUIET, file_name, printable

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
    def layers(self) -> list[int]:
        """The layers that were read."""
        return sorted({layer for rows in self.ways.values() for layer in rows})

    @property
    def mappings(self) -> list[str]:
        """The ways that were compared, in the order of the run."""
        return list(dict.fromkeys([*self.ways, *(str(row["condition"]) for row in self.flat)]))

    @property
    def best(self) -> Record:
        """The row with the highest value at a layer, or else of what there is."""
        return _highest(self.layered or self.flat)

    @property
    def beside(self) -> list[Record]:
        """What has no layer, each with its own best mapping: static vectors need one where a model may need none."""
        rows: dict[str, list[Record]] = {}
        for row in self.flat:
            rows.setdefault(flat_name(row), []).append(row)
        return [row for row in map(_highest, rows.values()) if row is not self.best]

    @property
    def names(self) -> tuple[str, str]:
        """Both languages by name, the source first."""
        source, target = self.row["source"], self.row["target"]
        names = display_names([source, target])
        return names[source], names[target]

    @property
    def known(self) -> list[Record]:
        """The rows of debiased CKA that have a value."""
        return [row for row in self.ways["cka"].values() if not isnan(row["value"])]

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


def lookup_verdict(run: RunFolder) -> list[str]:
    """Sentences for each source and target: the best layer and mapping, what none gives, baselines, coverage, CKA."""
    pairs = lookups(run.rows)
    sentences = [line for lookup in pairs[:MOST_PAIRS] for line in _lookup_sentences(lookup, several=len(pairs) > 1)]
    sentences += [f"{len(pairs) - MOST_PAIRS} more pairs are in the rows."] if len(pairs) > MOST_PAIRS else []
    firsts: dict[tuple[str, ...], LayerScores] = {}
    for alike in likenesses(run.rows):
        firsts.setdefault((*alike.names, alike.row["data"]), alike)
    for alike in list(firsts.values())[:MOST_PAIRS]:
        if alike.known:
            best, last = _highest(alike.known), alike.known[-1]
            head = f"{' and '.join(alike.names)}: " if len(firsts) > 1 else ""
            end = "" if last is best else f"; at layer {int(last['layer'])}, the last read, {_cell(last)}"
            sentences.append(
                f"{head}Before any map the two spaces are most alike at layer {int(best['layer'])}: CKA "
                f"{_cell(best)}, where chance gives {number(best['floor'])}{end} (n = {int(best['n']):,}, "
                f"{TEXTS[alike.row['condition']]})."
            )
    return sentences


def _lookup_sentences(lookup: LayerScores, *, several: bool) -> Iterator[str]:
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


def lookup_facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away: of the pair that does best, or CKA where nothing was looked up."""
    bests = [lookup.best for lookup in lookups(run.rows)]
    bests = bests or [row for alike in likenesses(run.rows)[:1] for row in alike.known]
    if not bests:
        return []
    best = _highest(bests)
    name = "CKA" if best["measure"] == "cka" else "P@1"
    layers: list[Fact] = [] if pd.isna(best["layer"]) else [("best layer", str(int(best["layer"])), "")]
    return [*layers, (name, number(best["value"]), ""), ("by chance", number(best["floor"]), "")]


def lookup_heading(run: RunFolder) -> tuple[str, str]:
    """The title of the section with tables and figures, and what it says."""
    pairs, alike = lookups(run.rows), likenesses(run.rows)
    if alike and not pairs:
        return "How alike the two spaces are, by layer", ALIKE
    unit = UNITS[pairs[0].row["task"]] if pairs else "word"
    return f"Translations found, by layer and way ({unit}s)", f"{FOUND} {ALIKE}" if alike else FOUND


def lookup_tables(run: RunFolder) -> list[Table]:
    """P@1 by layer and mapping for each pair of languages, and CKA by layer and form."""
    tables = []
    for lookup in lookups(run.rows)[:MOST_PAIRS]:
        mappings, best = lookup.mappings, lookup.best
        lines: dict[str, dict[str, Record]] = {}
        for row in lookup.layered:
            lines.setdefault(f"layer {int(row['layer'])}", {})[row["condition"]] = row
        counts = {flat_name(row): int(row["n"]) for row in reversed(lookup.flat)}  # the first of each
        for row in lookup.flat:
            name = flat_name(row)
            lines.setdefault(f"{name} (n = {counts[name]:,})", {})[row["condition"]] = row
        wide = [name for name in mappings if len(mappings) <= FEW_MAPPINGS or name == best["condition"]]
        cells = [
            [head, *(_cell(own.get(name), interval=name in wide) for name in mappings)] for head, own in lines.items()
        ]
        note = (
            f"{lookup.row['data']}; n = {int(best['n']):,} at the layers. Brackets hold 95% intervals. By "
            f"{METHOD_NAMES[lookup.row['task']]}; the rows have P@5, P@10 and the other method, too."
        )
        tables.append(Table(f"P@1, {' to '.join(lookup.names)}", ["", *mappings], cells, [note]))
    for alike in likenesses(run.rows)[: 2 * MOST_PAIRS]:
        cells = []
        for layer in alike.layers:
            rows = [own.get(layer) for own in alike.ways.values()]
            shown = [(_cell(row), NOTHING if row is None else number(row["floor"])) for row in rows]
            cells.append([f"layer {layer}", *(text for pair in shown for text in pair)])
        heads = [head for form in alike.ways for head in (FORM_TITLES[form], "chance")]
        note = (
            f"{alike.models}; {alike.row['data']}, n = {_most(alike):,}. Brackets hold 95% intervals: one block of "
            "sentences is left out at a time. Chance is what shuffled pairs give."
        )
        title = f"CKA, {' and '.join(alike.names)}, {TEXTS[alike.row['condition']]}"
        tables.append(Table(title, ["", *heads], cells, [note]))
    return tables


def _most(scores: LayerScores) -> int:
    return max(int(row["n"]) for row in scores.layered)


def lookup_figures(run: RunFolder) -> list[Figure]:
    """`lookup-SOURCE-TARGET-DATA`: P@1 by layer, a line a mapping; `alike-SOURCE-TARGET-DATA-TEXT`: CKA by layer."""
    drawings = []
    for lookup in lookups(run.rows)[:MOST_PAIRS]:
        if not lookup.ways:
            continue
        best, task, ends = lookup.best, lookup.row["task"], [lookup.layers[0], lookup.layers[-1]]
        lines = [_line(way, rows, band=way == best["condition"]) for way, rows in lookup.ways.items()]
        for row in lookup.beside:
            if row["unit"] == "word" or row["model"] in lookup.models:
                label = f"{flat_name(row)},\nn = {int(row['n']):,} ({row['condition']})"
                lines.append(Line(label, ends, [float(row["value"])] * 2))
        caption = (
            f"share of {int(best['n']):,} {UNITS[task]}s whose nearest neighbour by {METHOD_NAMES[task]} is a "
            "translation. Band: 95% interval of the best way."
        )
        panel = Panel("", lines, floor=float(best["floor"]))
        title = " to ".join(lookup.names)
        drawings.append(lookup.figure(("source", "target", "data"), "lookup", title, caption, [panel], "P@1"))
    for alike in likenesses(run.rows)[: 2 * MOST_PAIRS]:
        panels = []
        for form, rows in alike.ways.items():
            chance = Line("chance", list(rows), [float(row["floor"]) for row in rows.values()])
            panels.append(Panel(FORM_TITLES[form], [_line("CKA", rows), chance]))
        title = f"{' and '.join(alike.names)}, {TEXTS[alike.row['condition']]}"
        caption = f"CKA of {_most(alike):,} sentences. Bands: 95% intervals."
        drawings.append(alike.figure(("source", "target", "data", "condition"), "alike", title, caption, panels, "CKA"))
    return drawings


def _best_stitched(stitching: LayerScores) -> int:
    """The layer at which the stitched target scores highest."""
    return int(_highest(stitching.ways[STITCHED].values())["layer"])


def stitch_verdict(run: RunFolder) -> list[str]:
    """For each test set: the best layer with and without the map, what is left of the source's score, and chance."""
    sentences = []
    for stitching in stitchings(run.rows):
        (source, target), best = stitching.names, _best_stitched(stitching)
        at_best = {way: rows.get(best) for way, rows in stitching.ways.items()}
        top = stitching.ways[STITCHED][best]
        chance = "" if isnan(top["floor"]) else f", where chance gives {number(top['floor'])}"
        sentences.append(
            f"{target} ({top['data']}), {top['task']}: stitched, {describe(top['measure']).title} is highest at layer "
            f"{best}: {_cell(top)}{chance}; in {source} the same model has {_cell(at_best[HOME])}."
        )
        said = [f"{way} {_cell(row)}" for way, row in at_best.items() if way not in (HOME, STITCHED)]
        sentences += [f"At that layer without the map: {'; '.join(said)}."] if said else []
    return sentences


def stitch_facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away: of the first test set."""
    numbers: list[Fact] = []
    for first in stitchings(run.rows)[:1]:
        best = _best_stitched(first)
        ways = [(way, first.ways[way][best]["value"]) for way in (HOME, STITCHED, "unmapped")]
        numbers = [("best layer", str(best), ""), *((way, number(value), "") for way, value in ways)]
    return numbers


def stitch_figures(run: RunFolder) -> list[Figure]:
    """`stitch-TASK-TARGET-DATA`: the main score by layer, a line a way, the source's besides."""
    drawings = []
    for stitching in stitchings(run.rows):
        source, target = stitching.names
        lines = [
            _line(f"{source}, trained in" if way == HOME else f"{target}, {way}", rows, band=way in (HOME, STITCHED))
            for way, rows in stitching.ways.items()
        ]
        rows = list(stitching.ways[STITCHED].values())
        floor = sum(float(row["floor"]) for row in rows) / len(rows)
        panel = Panel("", lines, floor=None if isnan(floor) else floor)
        title, score = f"{rows[0]['task']}, {source} to {target}", describe(rows[0]["measure"]).title
        caption = f"{BANDS[bool(pd.isna(rows[0]['seed']))]}."
        drawings.append(stitching.figure(("task", "target", "data"), "stitch", title, caption, [panel], score))
    return drawings


def stitch_tables(run: RunFolder) -> list[Table]:
    """Scores by layer and way, a table for each test set."""
    tables = []
    for stitching in stitchings(run.rows):
        (source, target), ways = stitching.names, stitching.ways
        layers = list(ways[STITCHED])
        lines = [[f"layer {layer}", *(_cell(rows.get(layer)) for rows in ways.values())] for layer in layers]
        heads = [f"in {source}" if way == HOME else way for way in ways]
        first = ways[STITCHED][layers[0]]
        over = BRACKETS[bool(pd.isna(first["seed"]))]
        note = (
            f"{first['data']}. Brackets hold {over}. The ways are those of the target: stitched, through the fitted "
            "map; shifted, by the means alone; unmapped, as it is; random, through a random rotation."
        )
        title = f"{describe(first['measure']).title}, {first['task']}, {source} to {target}"
        tables.append(Table(title, ["", *heads], lines, [note]))
    return tables


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
        model: the model.
        task: the task.
        source: the language trained in.
        title: the title of the score that languages are compared by.
        scores: plan -> language and test set -> row of that score.
        gaps: plan -> `gap` or `relative_gap` -> row, of the others' mean.
        several: whether the rows are means over seeds.

    """

    model: str
    task: str
    source: str
    title: str
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
        return {self.source: self.source, **display_names(code for code, _ in self.sets if code not in ("", OTHERS))}

    def floor(self, *places: tuple[str, str]) -> float:
        """What chance gives on these test sets, averaged over the plans; NaN where that is unknown."""
        floors = [scores[place]["floor"] for scores in self.scores.values() for place in places if place in scores]
        return float(pd.Series(floors, dtype="float64").mean())

    def set_name(self, place: tuple[str, str], names: Mapping[str, str]) -> str:
        """The language of a test set, with the set's name where the language has several."""
        target, data = place
        several = [code for code, _ in self.sets].count(target) > 1
        return names.get(target, target) + (f" ({data})" if several else "")


def experiments(rows: pd.DataFrame) -> list[Experiment]:
    """Results by model, task and source language, in order of appearance; only those with a gap."""
    made = []
    whole = records(rows[rows["layer"].isna()])
    for (model, task, source), group in _grouped(whole, "model", "task", "source").items():
        scores: dict[str, dict[tuple[str, str], Record]] = {}
        gaps: dict[str, dict[str, Record]] = {}
        for row in group:
            if row["main"]:
                scores.setdefault(row["training"], {}).setdefault((row["target"], row["data"]), row)
            elif row["measure"] in ("gap", "relative_gap") and row["target"] == OTHERS:
                gaps.setdefault(row["training"], {}).setdefault(row["measure"], row)
        if scores:
            title = describe(next(row["measure"] for row in group if row["main"])).title
            several = any(pd.isna(row["seed"]) for row in group)
            made.append(Experiment(model, task, source, title, scores, gaps, several))
    return made


def transfer_facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away: of the plan under which the others score highest."""
    means = [
        (row, experiment, plan)
        for experiment in experiments(results(run.rows))
        for plan, scores in experiment.scores.items()
        for (target, _), row in scores.items()
        if target == OTHERS
    ]
    if not means:
        return training_view.facts(run)
    best, experiment, plan = max(means, key=lambda mean: float(mean[0]["value"]))
    home = [row for (target, _), row in experiment.scores[plan].items() if target == experiment.source]
    numbers: list[Fact] = [("best plan for the others", plan, "")] if len({name for *_, name in means}) > 1 else []
    numbers += [("in the language trained in", number(row["value"]), "") for row in home[:1]]
    numbers.append(("in the others", number(best["value"]), ""))
    numbers += [] if isnan(best["floor"]) else [("by chance", number(best["floor"]), "")]
    return numbers if run.trained.empty else [*numbers, ("languages", str(len(run.languages)), "")]


def transfer_verdict(run: RunFolder) -> list[str]:
    """A sentence for each model, task and plan, and which plan leaves the others most; or what the steps say."""
    groups = experiments(results(run.rows))
    sentences = []
    for experiment in groups:
        about = f"{experiment.model}, {experiment.task} from {experiment.names[experiment.source]}: "
        head = about if len(groups) > 1 else ""
        plans = list(experiment.scores)
        sentences += [head + _plan_sentence(experiment, plan) for plan in plans[:MOST_PLANS]]
        if len(plans) > MOST_PLANS:
            sentences.append(f"{len(plans) - MOST_PLANS} more plans are in the rows.")
        own = [row for scores in experiment.scores.values() for row in scores.values() if row["target"] == OTHERS]
        if len(own) > 1:
            best = _highest(own)
            others = [row for row in own if row["training"] != best["training"] and row["data"] == best["data"]]
            same = [str(row["training"]) for row in others if row["high"] >= best["low"]]
            tied = f"{len(same)} more plans" if len(same) > MOST_TIES else curves.listed(same) if same else ""
            reach = f"interval of {tied} reaches" if len(same) == 1 else f"intervals of {tied} reach"
            ties = f"; the {reach} into that" if same else ""
            sentences.append(f"{head}The others score highest under {best['training']}: {_cell(best)}{ties}.")
    return sentences if groups else _course_sentences(run)


def _plan_sentence(experiment: Experiment, plan: str) -> str:
    rows, names, source = experiment.scores[plan].values(), experiment.names, experiment.source
    home = next(row for row in rows if row["target"] == source)
    words = f"{plan}: {home['measure']} {_cell(home)} in {names[source]}"
    for mean in (row for row in rows if row["target"] == OTHERS):
        chance = "" if isnan(mean["floor"]) else f", where chance gives {number(mean['floor'])}"
        words += f", {_cell(mean)} in the others{chance}, a gap of {_cell(experiment.gaps[plan]['gap'])}"
    others = sorted((row for row in rows if row["target"] not in (source, OTHERS)), key=lambda row: -row["value"])
    said = [f"{experiment.set_name((row['target'], row['data']), names)} {number(row['value'])}" for row in others]
    if len(said) > 2 * MOST_LANGUAGES:
        said = [*said[:MOST_LANGUAGES], "...", *said[-MOST_LANGUAGES:]]
    return f"{words} ({', '.join(said)})." if len(said) > 1 else f"{words}."


def _course_sentences(run: RunFolder) -> list[str]:
    """A sentence for each task and training: what other languages score before and after a tuning.

    A point is the mean over the seeds of the tuning. Its interval is that over seeds or that over examples, whichever
    reaches further: at step 0 all seeds share one model, and would have none. Nothing is called a change unless the
    intervals of the first and the last step part.
    """
    read = [curve for curve in run.by_step if curve.task and curve.selection != ORACLE]
    sentences = []
    for task, source, measure, training in dict.fromkeys(
        (curve.task, curve.source, curve.unit, curve.training) for curve in select(read, measure="gap")
    ):
        firsts: dict[tuple[str, str], Curve] = {}
        for curve in select(read, measure=measure, task=task, source=source, training=training):
            low, high = curve.text or (curve.low, curve.high)
            wide = {"low": np.fmin(curve.low, low), "high": np.fmax(curve.high, high)}
            bounds: dict[str, Any] = {name: tuple(ends.tolist()) for name, ends in wide.items()}
            firsts.setdefault((curve.target, curve.data), replace(curve, text=None, **bounds))
        parts: dict[str, list[Curve]] = {}
        for (target, _), curve in firsts.items():
            parts.setdefault(target, []).append(curve)
        courses = {target: curves.average(group) for target, group in parts.items()}
        sentences.append(_course_sentence(f"{training}: {task} {measure}", courses, source))
    more = len(sentences) - MOST_CURVES
    return sentences[:MOST_CURVES] + ([f"{more} more plans are in the rows."] if more > 0 else [])


def _course_sentence(subject: str, courses: Mapping[str, Curve], source: str) -> str:
    def went(curve: Curve) -> str:
        return curve.way("fell", "did not clearly change" if len(curve.at) > 1 else "was read once", "rose")

    names = display_names(code for code in courses if code != OTHERS)
    shown = {OTHERS: "the others", source: names.get(source, "")}
    parts = [
        f"{went(courses[code])} in {name} ({courses[code].from_to()})"
        for code, name in shown.items()
        if code in courses
    ]
    others = {code: curve for code, curve in courses.items() if code not in shown}
    single = [
        f"{names[code]} ({curve.from_to(steps=False).removeprefix('from ')}, {went(curve)})"
        for code, curve in others.items()
        if curve.turn
    ]
    changed = f" It clearly changed in {curves.listed(single)}." if single else ""
    changed = changed or (" In no single language it clearly changed." if len(others) > 1 else "")
    seeds = max(curve.seeds for curve in courses.values())
    over = f", over {seeds} seeds of the tuning" if seeds > 1 else ""
    return f"{subject} {', and '.join(parts)}{over}.{changed}"


def transfer_tables(run: RunFolder) -> list[Table]:
    """A table for each model, task and source: plans down, test sets across, then what the others lose, and chance."""
    groups = experiments(results(run.rows))
    tables = []
    for experiment in groups:
        names = experiment.names
        title = f"{experiment.title}, {experiment.task} from {names[experiment.source]}"
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
        tables.append(Table(f"{experiment.model}, {title}" if len(groups) > 1 else title, columns, lines, [note]))
    return tables


def transfer_figures(run: RunFolder) -> list[Figure]:
    """Scores by plan, languages by layer where they were compared, and the charts over the steps."""
    return [*_plan_figures(run), *similarity_figures(run), *training_view.step_figures(run)]


def _plan_figures(run: RunFolder) -> list[Figure]:
    """`transfer-TASK`: a line a language, the source dashed, the mean of the others thick with its interval."""
    groups = experiments(results(run.rows))
    several_models = len({experiment.model for experiment in groups}) > 1
    nothing = dict.fromkeys(("value", "low", "high"), float("nan"))
    drawings = []
    for experiment in groups:
        task, source, sets = experiment.task, experiment.source, experiment.sets
        home = run.names.get(source, source)
        names = {**run.names, OTHERS: "mean of the others", source: f"{home}, trained in"}
        targets = list(dict.fromkeys(target for target, _ in sets))
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
        end = (f"-{source}" if len(groups) > 1 else "") + (f"-{file_name(experiment.model)}" if several_models else "")
        drawings.append(
            Figure(
                f"transfer-{file_name(task)}{end}",
                f"{experiment.title} by plan, {task}",
                f"{printable(experiment.model)}, {task} from {home}; {BANDS[experiment.several]}.",
                [Panel("", lines, floor=None if isnan(floor) else floor)],
                ylabel=experiment.title,
                xlabel="",
                ticks={float(index): plan for index, plan in enumerate(experiment.scores)},
            )
        )
    return drawings


def similarity_figures(run: RunFolder) -> list[Figure]:
    """`languages-TASK`: CKA by layer before a task is learned and after, where `transfer` had parallel text.

    To the left CKA of the source with the others, to the right of each model with its start; a line a plan.
    """
    rows = run.rows
    rows = rows[(rows["measure"] == "cka") & rows["layer"].notna() & rows["task"].ne("") & rows["step"].isna()]
    rows = curves.with_trainings(rows[rows["target"] != OTHERS])
    groups = list(rows.groupby(["model", "task", "source"], sort=False))
    drawings = []
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
        drawings.append(Figure(name, title, caption, panels, "CKA", xlabel="layer"))
    return drawings


LOOKUP = View("lookup", lookup_verdict, lookup_facts, lookup_figures, lookup_tables, lookup_heading, two_models=True)
STITCH = View(
    "training", stitch_verdict, stitch_facts, stitch_figures, stitch_tables, lambda run: STITCH_HEADING, two_models=True
)
TRANSFER = View(
    "training", transfer_verdict, transfer_facts, transfer_figures, transfer_tables, lambda run: TRANSFER_HEADING
)
