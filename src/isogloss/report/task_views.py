"""The pages of models that learned a task: `transfer`, by plan and language, and `stitch`, by layer.

A transfer page says what is learned in the language trained in and what is left of it elsewhere, under each plan; of
tasks learned from a model at several steps of its tuning, what became of the scores. A stitch page says what a target
model scores through a head that was trained on another model's states, at each layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from isogloss.figure import NOTHING, Figure, Line, Panel, Table
from isogloss.measures.registry import describe
from isogloss.report import training_view
from isogloss.report.curves import Curve, apart, average, curves
from isogloss.report.folder import OTHERS, RunFolder
from isogloss.report.style import DARK, QUIET, colour, display_names, file_name, printable
from isogloss.report.training_view import ORACLE
from isogloss.report.verdict import Fact, listed, number, reading, records, value_of
from isogloss.runs.table import training_name

MOST_PLANS, MOST_CURVES = 14, 8
MOST_LANGUAGES = 3
MOST_TIES = 3
FEW_SETS = 2  # test sets that have room for their intervals
# What is shown of several seeds, and of one:
BRACKETS = {True: "t intervals over seeds", False: "bootstrap intervals over examples, of one seed"}
BANDS = {True: "means and t intervals over seeds", False: "one seed, bootstrap intervals over examples"}
STITCHED, HOME = "stitched", "in the source language"
SCORES_TITLE = "Scores, by plan and language"
SCORES_LEDE = (
    "Of the models that the source's development set chose. Every plan and seed, and what an oracle would choose, is "
    "in the rows."
)
STITCH_TITLE = "Scores by layer, stitched"
STITCH_LEDE = (
    "The task's layers were trained on the source model's states at each layer, and then given the target model's. Of "
    "the epochs that the source's development set chose."
)


def results(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are results: of the chosen models, means over seeds where there are several, without the oracle's.

    The column `training` names plan, condition and settings; `main` says whether a row is of the score that languages
    are compared by.
    """
    rows = frame[frame["step"].isna() & frame["task"].ne("") & frame["selection"].ne(ORACLE)]
    rows = training_view.with_trainings(rows)
    if rows["seed"].isna().any():
        means = set(rows[rows["seed"].isna()]["training"])
        rows = rows[rows["seed"].isna() | ~rows["training"].isin(means)]
    gaps = rows[rows["measure"] == "gap"]
    mains = set(zip(gaps["task"], gaps["unit"], strict=True))
    main = [pair in mains for pair in zip(rows["task"], rows["measure"], strict=True)]
    return rows.assign(main=pd.Series(main, index=rows.index, dtype=bool))


def experiments(rows: pd.DataFrame) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Results by model, task and source language, in order of appearance; only those with a gap."""
    compared = rows[rows["layer"].isna()]
    groups = {
        (str(model), str(task), str(source)): group
        for (model, task, source), group in compared.groupby(["model", "task", "source"], sort=False)
    }
    return {key: group for key, group in groups.items() if group["main"].any()}


def transfer_facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away: of the plan under which the others score highest."""
    rows = results(run.rows)
    main = rows[rows["main"]]
    means = main[main["target"] == OTHERS]
    if means.empty:
        return training_view.facts(run)
    best = means.iloc[int(means["value"].argmax())]
    same = (main["training"] == best["training"]) & (main["model"] == best["model"]) & (main["task"] == best["task"])
    home = main[same & (main["source"] == best["source"]) & (main["target"] == best["source"])]
    numbers = [("best plan for the others", str(best["training"]), "")] if means["training"].nunique() > 1 else []
    numbers += [("in the language trained in", number(home["value"].iloc[0]), "")] if len(home) else []
    numbers.append(("in the others", number(best["value"]), ""))
    numbers += [] if isnan(best["floor"]) else [("by chance", number(best["floor"]), "")]
    return numbers if run.trained.empty else [*numbers, ("languages", str(len(run.languages)), "")]


def transfer_verdict(run: RunFolder) -> list[str]:
    """A sentence for each model, task and plan, and which plan leaves the others most; or what the steps say."""
    groups = experiments(results(run.rows))
    if not groups:
        return task_curve_sentences(run.rows)
    sentences = []
    for (model, task, source), rows in groups.items():
        names = display_names(code for code in dict.fromkeys(rows["target"]) if code not in ("", OTHERS))
        head = f"{model}, {task} from {names.get(source, source)}: " if len(groups) > 1 else ""
        table = records(rows)
        plans = list(dict.fromkeys(row["training"] for row in table if row["main"]))
        for plan in plans[:MOST_PLANS]:
            sentences.append(head + _sentence([row for row in table if row["training"] == plan], source, names))
        if len(plans) > MOST_PLANS:
            sentences.append(f"{len(plans) - MOST_PLANS} more plans are in the rows.")
        means = [row for row in table if row["main"] and row["target"] == OTHERS]
        if len(means) > 1:
            best = max(means, key=lambda row: float(row["value"]))
            others = [row for row in means if row["training"] != best["training"] and row["data"] == best["data"]]
            same = [str(row["training"]) for row in others if row["high"] >= best["low"]]
            tied = f"{len(same)} more plans" if len(same) > MOST_TIES else listed(same) if same else ""
            reach = f"interval of {tied} reaches" if len(same) == 1 else f"intervals of {tied} reach"
            ties = f"; the {reach} into that" if same else ""
            sentences.append(f"{head}The others score highest under {best['training']}: {value_of(best)}{ties}.")
    return sentences


def _sentence(rows: Sequence[Mapping[str, Any]], source: str, names: Mapping[str, str]) -> str:
    main = [row for row in rows if row["main"]]
    home = next(row for row in main if row["target"] == source)
    words = f"{home['training']}: {home['measure']} {value_of(home)} in {names.get(source, source)}"
    for mean in (row for row in main if row["target"] == OTHERS):
        gap = next(row for row in rows if row["measure"] == "gap" and row["target"] == OTHERS)
        chance = "" if isnan(mean["floor"]) else f", where chance gives {number(mean['floor'])}"
        words += f", {value_of(mean)} in the others{chance}, a gap of {value_of(gap)}"
    others = sorted((row for row in main if row["target"] not in (source, OTHERS)), key=lambda row: -row["value"])
    targets = [row["target"] for row in others]
    said = [f"{_set_name(row['target'], row['data'], targets, names)} {number(row['value'])}" for row in others]
    if len(said) > 2 * MOST_LANGUAGES:
        said = [*said[:MOST_LANGUAGES], "...", *said[-MOST_LANGUAGES:]]
    return f"{words} ({', '.join(said)})." if len(said) > 1 else f"{words}."


def _set_name(target: str, data: str, targets: Sequence[str], names: Mapping[str, str]) -> str:
    """The language of a test set, with the set's name where the language has several."""
    return names.get(target, target) + (f" ({data})" if targets.count(target) > 1 else "")


def task_curve_sentences(frame: pd.DataFrame) -> list[str]:
    """A sentence for each task and training: what other languages score before and after a tuning.

    A point is the mean over the seeds of the tuning. Its interval is that over seeds or that over examples, whichever
    reaches further: at step 0 all seeds share one model, and would have none. Nothing is called a change unless the
    intervals of the first and the last step part.
    """
    rows = frame[frame["step"].notna() & frame["task"].ne("") & frame["selection"].ne(ORACLE)]
    gaps = rows[rows["measure"] == "gap"]
    columns = ["task", "source", "unit", "plan", "condition", "settings"]
    sentences = []
    for task, source, measure, *training in gaps[columns].drop_duplicates().itertuples(index=False):
        same = rows["measure"].eq(measure) & rows["task"].eq(task) & rows["source"].eq(source)
        for name, value in zip(columns[3:], training, strict=True):
            same &= rows[name].eq(value)
        parts: dict[str, list[Curve]] = {}
        for (target, _), group in rows[same].groupby(["target", "data"], sort=False):
            curve = curves(group, along="step")[0]
            bounds = group.groupby("step")[["low", "high"]].mean().reindex(curve.at)
            low, high = np.fmin(curve.low, bounds["low"]), np.fmax(curve.high, bounds["high"])
            parts.setdefault(str(target), []).append(replace(curve, low=tuple(low.tolist()), high=tuple(high.tolist())))
        courses = {target: average(group) for target, group in parts.items()}
        name = training_name(dict(zip(columns[3:], training, strict=True)))
        sentences.append(_course_sentence(f"{name}: {task} {measure}", courses, source))
    more = len(sentences) - MOST_CURVES
    return sentences[:MOST_CURVES] + ([f"{more} more plans are in the rows."] if more > 0 else [])


def _course_sentence(subject: str, courses: Mapping[str, Curve], source: str) -> str:
    names = display_names(code for code in courses if code != OTHERS)
    shown = [(OTHERS, "the others")] if OTHERS in courses else []
    shown += [(source, names[source])] if source in courses else []
    parts = []
    for code, name in shown:
        curve = courses[code]
        ends = [f"{reading(curve, end)} at step {curve.at[end]:,}" for end in (0, -1)]
        parts.append(f"{_went(curve)} in {name} (from {' to '.join(ends)})")
    others = {code: curve for code, curve in courses.items() if code not in (OTHERS, source)}
    single = [
        f"{names[code]} ({reading(curve, 0)} to {reading(curve, -1)}, {_went(curve)})"
        for code, curve in others.items()
        if len(curve.at) > 1 and apart(curve, 0, -1)
    ]
    changed = f" It clearly changed in {listed(single)}." if single else ""
    changed = changed or (" In no single language it clearly changed." if len(others) > 1 else "")
    seeds = max(curve.seeds for curve in courses.values())
    over = f", over {seeds} seeds of the tuning" if seeds > 1 else ""
    return f"{subject} {', and '.join(parts)}{over}.{changed}"


def _went(curve: Curve) -> str:
    if len(curve.at) == 1 or not apart(curve, 0, -1):
        return "did not clearly change" if len(curve.at) > 1 else "was read once"
    return "fell" if curve.value[-1] < curve.value[0] else "rose"


def transfer_tables(run: RunFolder) -> list[Table]:
    """A table for each model, task and source: plans down, test sets across, then what the others lose, and chance."""
    groups = experiments(results(run.rows))
    tables = []
    for (model, task, source), rows in groups.items():
        names = display_names(code for code in dict.fromkeys(rows["target"]) if code not in ("", OTHERS))
        main = rows[rows["main"]]
        title = f"{describe(str(main['measure'].iloc[0])).title}, {task} from {names.get(source, source)}"
        tables.append(_score_table(f"{model}, {title}" if len(groups) > 1 else title, rows, main, names))
    return tables


def _score_table(title: str, rows: pd.DataFrame, main: pd.DataFrame, names: Mapping[str, str]) -> Table:
    sets = list(dict.fromkeys(zip(main["target"], main["data"], strict=True)))
    sets.sort(key=lambda pair: pair[0] == OTHERS)
    targets = [target for target, _ in sets]
    named = {**names, OTHERS: "mean of the others"}
    heads = [named[target] if target == OTHERS else _set_name(target, data, targets, named) for target, data in sets]
    wide = len(sets) <= FEW_SETS + 1
    lines = []
    for plan in dict.fromkeys(main["training"]):
        cells = [
            _cell(main, plan, target, data, interval=wide or target in (OTHERS, sets[0][0])) for target, data in sets
        ]
        losses = [
            _cell(rows[rows["measure"] == name], plan, OTHERS, "", interval=name == "gap")
            for name in ("gap", "relative_gap")
        ]
        lines.append([str(plan), *cells, *losses])
    floors = [main[(main["target"] == target) & (main["data"] == data)]["floor"].mean() for target, data in sets]
    if not all(map(isnan, floors)):
        lines.append(["chance", *(NOTHING if isnan(floor) else number(floor) for floor in floors), NOTHING, NOTHING])
    over = BRACKETS[bool(rows["seed"].isna().any())]
    note = (
        f"Brackets hold {over}. The gap is the score in the language trained in less that in the others. Chance is "
        "what the models' own answers score when they are dealt out at random."
    )
    return Table(title, ["plan", *heads, "gap of the others", "relative gap"], lines, [note])


def _cell(rows: pd.DataFrame, plan: str, target: str, data: str, *, interval: bool) -> str:
    chosen = rows[(rows["training"] == plan) & (rows["target"] == target) & (rows["data"] == data)]
    if chosen.empty or isnan(chosen.iloc[0]["value"]):
        return NOTHING
    row = records(chosen)[0]
    return value_of(row) if interval else number(row["value"])


def transfer_figures(run: RunFolder) -> list[Figure]:
    """Scores by plan, languages by layer where they were compared, and the charts over the steps."""
    charts = training_view.step_figures(run, training_view.panels(run.trained))
    return [*_plan_figures(run), *similarity_figures(run), *charts]


def _plan_figures(run: RunFolder) -> list[Figure]:
    """`transfer-TASK`: a line a language, the source dashed, the mean of the others thick with its interval."""
    groups = experiments(results(run.rows))
    several_models = len({model for model, _, _ in groups}) > 1
    drawings = []
    for (model, task, source), rows in groups.items():
        main = rows[rows["main"]]
        plans = list(dict.fromkeys(main["training"]))
        sets = list(dict.fromkeys(zip(main["target"], main["data"], strict=True)))
        targets = [code for code, _ in sets]
        named = {OTHERS: "mean of the others", source: f"{run.names.get(source, source)}, trained in"}
        lines = []
        for target, data in sets:
            own = main[(main["target"] == target) & (main["data"] == data)].drop_duplicates("training")
            by_plan = own.set_index("training").reindex(plans)
            value, low, high = (by_plan[name].to_numpy(float).tolist() for name in ("value", "low", "high"))
            label = _set_name(target, data, targets, {**run.names, **named})
            mean, home = target == OTHERS, target == source
            ink = DARK if mean else QUIET if home else colour(list(dict.fromkeys(targets)).index(target))
            look: dict[str, Any] = {"colour": ink, "dash": int(home), "thick": mean, "band": mean or home}
            lines.append(Line(label, list(range(len(plans))), value, low, high, **look))
        floor = float(main["floor"].mean())
        bands = BANDS[bool(main["seed"].isna().any())]
        end = (f"-{source}" if len(groups) > 1 else "") + (f"-{file_name(model)}" if several_models else "")
        title = describe(str(main["measure"].iloc[0])).title
        drawings.append(
            Figure(
                f"transfer-{file_name(task)}{end}",
                f"{title} by plan, {task}",
                f"{printable(model)}, {task} from {run.names.get(source, source)}; {bands}.",
                [Panel("", lines, floor=None if isnan(floor) else floor)],
                ylabel=title,
                xlabel="",
                ticks={float(index): str(plan) for index, plan in enumerate(plans)},
            )
        )
    return drawings


def similarity_figures(run: RunFolder) -> list[Figure]:
    """`languages-TASK`: CKA by layer before a task is learned and after, where `transfer` had parallel text.

    To the left CKA of the source with the others, to the right of each model with its start; a line a plan.
    """
    rows = compared_rows(run.rows)
    groups = list(rows.groupby(["model", "task", "source"], sort=False))
    drawings = []
    for (model, task, source), group in groups:
        names = list(dict.fromkeys(group["training"]))
        sides = {
            f"{source} with the others": group[group["other_layer"].isna()],
            "each model with its start": group[group["other_model"].ne("")],
        }
        panels = [Panel(title, similarity_lines(side, names)) for title, side in sides.items()]
        caption = (
            f"{model}, {task} from {source}: debiased linear CKA on parallel text, mean over "
            f"{group['target'].nunique()} languages and all seeds. Layer 0 is the embedding output."
        )
        end = "" if len(groups) == 1 else "-" + "-".join(map(file_name, (str(source), str(model))))
        drawings.append(
            Figure(
                f"languages-{file_name(str(task))}{end}",
                f"Languages by layer, {task}",
                caption,
                [panel for panel in panels if panel.lines],
                "CKA",
                xlabel="layer",
            )
        )
    return drawings


def compared_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Debiased CKA at the layers of models that learned a task, a language at a time."""
    rows = frame[(frame["measure"] == "cka") & frame["layer"].notna() & frame["task"].ne("") & frame["step"].isna()]
    return training_view.with_trainings(rows[rows["target"] != OTHERS])


def similarity_lines(rows: pd.DataFrame, names: Sequence[str]) -> list[Line]:
    """A line for each training that is there, in the same colour in every panel."""
    means = rows.groupby(["training", "layer"], sort=False)["value"].mean()
    lines = []
    for hue, name in enumerate(names):
        if name in means.index:
            line = means[name].sort_index()
            lines.append(Line(name, [int(layer) for layer in line.index], [float(x) for x in line], hue=hue))
    return lines


@dataclass(frozen=True)
class Stitching:
    """One test set of the target: rows of its main score, and of the source's, by curve and layer.

    Attributes:
        model: the names of both models.
        task: the task.
        measure: its main score.
        source: the language trained in.
        target: the language tested.
        data: the test set.
        several: whether the rows are means over seeds.
        curves: `HOME` and every way (`stitched`, `unmapped` ...) -> layer -> row.

    """

    model: str
    task: str
    measure: str
    source: str
    target: str
    data: str
    several: bool
    curves: Mapping[str, Mapping[int, Mapping[str, Any]]]

    @property
    def layers(self) -> list[int]:
        """The layers that were stitched at."""
        return sorted(self.curves[STITCHED])

    @property
    def best(self) -> int:
        """The layer at which the stitched target scores highest."""
        return max(self.layers, key=lambda layer: float(self.curves[STITCHED][layer]["value"]))

    @property
    def names(self) -> dict[str, str]:
        """Both languages by name."""
        return display_names([self.source, self.target])

    def cell(self, way: str, layer: int) -> str:
        """A score with its interval."""
        row = self.curves[way].get(layer)
        return NOTHING if row is None else value_of(row)


def stitchings(frame: pd.DataFrame) -> list[Stitching]:
    """Every test set of the target, in order of appearance."""
    rows = frame[frame["layer"].notna() & frame["task"].ne("") & frame["step"].isna()]
    several = bool((rows["seed"].isna() & rows["measure"].eq("gap")).any())
    rows = rows[rows["seed"].isna()] if several else rows
    columns = ["model", "other_model", "task", "source", "target", "data", "unit"]
    gaps = rows[rows["measure"] == "gap"]
    stitched = []
    for model, other, task, source, target, data, measure in gaps[columns].drop_duplicates().itertuples(index=False):
        same = (rows["model"] == model) & (rows["other_model"] == other) & (rows["task"] == task)
        own = rows[same & (rows["source"] == source) & (rows["measure"] == measure)]
        home = own[own["target"] == source]
        tested = own[(own["target"] == target) & (own["data"] == data)]
        ways = {HOME: _by_layer(home[home["data"] == home["data"].iloc[0]])}
        ways |= {str(way): _by_layer(group) for way, group in tested.groupby("condition", sort=False)}
        named = f"{model} and {other}" if other else str(model)
        stitched.append(Stitching(named, task, measure, source, target, data, several, ways))
    return stitched


def _by_layer(rows: pd.DataFrame) -> dict[int, Mapping[str, Any]]:
    return {int(row["layer"]): row for row in records(rows)}


def stitch_verdict(run: RunFolder) -> list[str]:
    """For each test set: the best layer with and without the map, what is left of the source's score, and chance."""
    sentences = []
    for stitching in stitchings(run.rows):
        names, best, score = stitching.names, stitching.best, describe(stitching.measure).title
        floor = float(stitching.curves[STITCHED][best]["floor"])
        chance = "" if isnan(floor) else f", where chance gives {number(floor)}"
        sentences.append(
            f"{names[stitching.target]} ({stitching.data}), {stitching.task}: stitched, {score} is highest at layer "
            f"{best}: {stitching.cell(STITCHED, best)}{chance}; in {names[stitching.source]} the same model has "
            f"{stitching.cell(HOME, best)}."
        )
        others = [way for way in stitching.curves if way not in (HOME, STITCHED)]
        said = [f"{way} {stitching.cell(way, best)}" for way in others]
        sentences += [f"At that layer without the map: {'; '.join(said)}."] if said else []
    return sentences


def stitch_facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away: of the first test set."""
    stitched = stitchings(run.rows)
    if not stitched:
        return []
    first = stitched[0]
    ways = [(way, first.curves[way][first.best]) for way in (HOME, STITCHED, "unmapped")]
    return [("best layer", str(first.best), ""), *((way, number(float(row["value"])), "") for way, row in ways)]


def stitch_figures(run: RunFolder) -> list[Figure]:
    """`stitch-TASK-TARGET-DATA`: the main score by layer, a line a way, the source's besides."""
    drawings = []
    for stitching in stitchings(run.rows):
        names, lines = stitching.names, []
        for hue, (way, rows) in enumerate(stitching.curves.items()):
            layers = sorted(rows)
            value, low, high = ([float(rows[layer][name]) for layer in layers] for name in ("value", "low", "high"))
            label = f"{names[stitching.source]}, trained in" if way == HOME else f"{names[stitching.target]}, {way}"
            lines.append(Line(label, layers, value, low, high, hue=hue, band=way in (HOME, STITCHED)))
        floors = [float(row["floor"]) for row in stitching.curves[STITCHED].values()]
        floor = sum(floors) / len(floors)
        figure = Figure(
            "-".join(("stitch", *map(file_name, (stitching.task, stitching.target, stitching.data)))),
            f"{stitching.task}, {names[stitching.source]} to {names[stitching.target]}",
            f"{stitching.model}, {stitching.data}: {BANDS[stitching.several]}. Layer 0 is the embedding output.",
            [Panel("", lines, floor=None if isnan(floor) else floor)],
            describe(stitching.measure).title,
            xlabel="layer",
        )
        drawings.append(figure)
    return drawings


def stitch_tables(run: RunFolder) -> list[Table]:
    """Scores by layer and way, a table for each test set."""
    tables = []
    for stitching in stitchings(run.rows):
        names, ways = stitching.names, list(stitching.curves)
        lines = [[f"layer {layer}", *(stitching.cell(way, layer) for way in ways)] for layer in stitching.layers]
        heads = [f"in {names[stitching.source]}" if way == HOME else way for way in ways]
        note = (
            f"{stitching.data}. Brackets hold {BRACKETS[stitching.several]}. The ways are those of the target: "
            "stitched, through the fitted map; shifted, by the means alone; unmapped, as it is; random, through a "
            "random rotation."
        )
        score = describe(stitching.measure).title
        title = f"{score}, {stitching.task}, {names[stitching.source]} to {names[stitching.target]}"
        tables.append(Table(title, ["", *heads], lines, [note]))
    return tables
