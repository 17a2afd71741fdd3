"""The page of a training: every measure over its steps, and what is taken by layer as shades of layer by step.

Curves of one measure share a chart. A measure taken at every layer has a panel for each layer, in which a language
stands for its pair with the central one, both directions averaged. Data sets are averaged. Where several trainings were
run (plans, conditions or settings), each is a line; their seeds are a band. Pretraining and alignment are told as
`verdict` does here; drift and transfer use the charts and have verdicts of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.measures.registry import Measure, describe
from isogloss.report import map_view
from isogloss.report.curves import (
    LEADING,
    Curve,
    above_floor,
    alike,
    apart,
    average,
    best_layer,
    central_language,
    curves,
    leading,
    line_of,
    thin,
)
from isogloss.report.folder import OTHERS, POOLED, RunFolder
from isogloss.report.style import COLOURS, DARK, DASHES, colour, display_names, file_name, language_name, printable
from isogloss.report.verdict import (
    ASKS,
    Fact,
    capitalise,
    digits,
    listed,
    measure_name,
    method_title,
    name_layers,
    name_partners,
    reading,
    say_value,
    span_of,
)
from isogloss.runs.table import training_name

MOST_SENTENCES = 8
SAME = ", not clearly different from"
UNITS = ("character", "word", "token")  # characters first: their perplexities do not depend on the vocabulary
HELD, TEST, ORACLE = "validation", "test", "oracle"
BY_PLAN = "other languages, by plan"
MEAN, DERIVED = "_mean", ("_mean", "_behind")
LOSSES = {"answer": "loss of a task", "pair": "loss of pairs"}  # by what they are counted in, where that is no token
AXIS_NAMES = {"loss": "nats a {}", "perplexity": "perplexity per {}"}
MOST_STEPS, MOST_STEPS_BY_LAYER = 400, 80


@dataclass(frozen=True)
class StepLine:
    """A curve in a panel.

    Attributes:
        code: tells it from the others: a language, `en → nl`, the name of a training, or `all` for what stands for all.
        languages: the codes it names.
        curve: its readings.
        leads: whether it stands for the whole panel.
        pooled: whether the run itself took it over all languages' text together.

    """

    code: str
    languages: tuple[str, ...]
    curve: Curve
    leads: bool
    pooled: bool = False


@dataclass(frozen=True)
class StepPanel:
    """The lines of one measure, kind and unit, at one layer where it is taken by layer; the leading line first.

    Attributes:
        measure: the measure.
        kind: what tells panels of one measure apart: a training, a method, what a distance is to.
        unit: the unit, such as token.
        layer: the layer, None for a measure of the whole model.
        lines: the lines.
        centre: the language whose pairs the lines are, "" where they are something else.
        other: the model that distances are to.

    """

    measure: str
    kind: str
    unit: str
    layer: int | None
    lines: tuple[StepLine, ...]
    centre: str = ""
    other: str = ""

    @property
    def by_training(self) -> bool:
        """Whether each line is a training."""
        return not any(line.leads or line.languages for line in self.lines)

    @property
    def lead(self) -> StepLine | None:
        """The line that stands for all, if there is one."""
        return self.lines[0] if self.lines[0].leads else None

    @property
    def about(self) -> Measure:
        """What the measure means here: between models CKA is of other things, and a task has a loss of its own."""
        if self.measure == "loss" and self.unit in LOSSES:
            return describe(LOSSES[self.unit])
        return describe("cka to another model" if self.measure == "cka" and self.other else self.measure)

    @property
    def title(self) -> str:
        """The measure and the kind."""
        return self.about.title + (f" ({method_title(self.kind)})" if self.kind else "")


def with_trainings(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with two more columns: `training`, its name, and `kind`, which tells panels of one measure apart."""
    # Small groups of plain objects are read much faster than those of pandas' text columns.
    rows = rows.astype({name: "object" for name in rows.columns if rows[name].dtype == "str"})
    keys = list(zip(rows["plan"], rows["condition"], rows["settings"], strict=True))
    names = {key: training_name(dict(zip(("plan", "condition", "settings"), key, strict=True))) for key in set(keys)}
    compared = rows.loc[rows["other_model"] != "", ["other_model", "data"]].drop_duplicates()
    texts = compared["other_model"].value_counts()
    to = {
        (other, data): f"to {other}" + (f" on {data}" if texts[other] > 1 and data != HELD else "")
        for other, data in compared.itertuples(index=False)
    }
    ways = zip(rows["method"], rows["selection"], rows["other_model"], rows["data"], strict=True)
    kinds = [", ".join(filter(None, (method, selection, to.get((a, b))))) for method, selection, a, b in ways]
    return rows.assign(training=[names[key] for key in keys], kind=kinds)


def complete(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `with_trainings` without trainings that were cut off, where others of the same name were not.

    A training ends with a test of its best model. A mean over seeds of which one was cut off would jump where it ends.
    """
    tested = rows[(rows["measure"] == "perplexity") & (rows["data"] == TEST) & rows["step"].notna()]
    done = set(zip(tested["training"], tested["seed"], strict=True))
    names = {name for name, _ in done}
    pairs = zip(rows["training"], rows["seed"], strict=True)
    wanted = [name not in names or seed is pd.NA or (name, seed) in done for name, seed in pairs]
    return rows[pd.Series(wanted, index=rows.index, dtype=bool)]


def panels(rows: pd.DataFrame) -> list[StepPanel]:
    """Every panel of the rows: loss first, then perplexity, then the rest in order of appearance."""
    known = complete(with_trainings(rows[rows["step"].notna() & rows["value"].notna()]))
    known = known[(known["measure"] != "perplexity") | (known["data"] != TEST)]
    known = known[(known["selection"] != ORACLE) & (known["measure"] != "relative_gap")]  # no curves of their own
    centre = central_language(known)
    measures = set(known["measure"])
    charts: list[StepPanel] = []
    for measure in sorted(dict.fromkeys(known["measure"]), key=_early):
        if measure.endswith(DERIVED) and measure.removesuffix(MEAN).removesuffix("_behind") in measures:
            continue
        own, means = known[known["measure"] == measure], known[known["measure"] == measure + MEAN]
        for (kind, unit, layer), group in own.groupby(["kind", "unit", "layer"], sort=False, dropna=False):
            mean = means[(means["kind"] == kind) & (means["unit"] == unit)]
            mean = mean[mean["layer"].isna() if pd.isna(layer) else mean["layer"] == layer]
            blank = StepPanel(measure, str(kind), str(unit), None if pd.isna(layer) else int(layer), ())
            charts += _panels(replace(blank, other=str(group["other_model"].iloc[0])), group, mean, centre)
    order = {unit: index for index, unit in enumerate(UNITS)}
    return sorted(charts, key=lambda panel: (_early(panel.measure), order.get(panel.unit, len(UNITS))))


def _early(measure: str) -> int:
    return {"loss": 0, "perplexity": 1}.get(measure, 2)


def _panels(blank: StepPanel, rows: pd.DataFrame, means: pd.DataFrame, centre: str) -> list[StepPanel]:
    """The panel of one training, or of several: a line each, and for perplexity the trained text and others apart."""

    def panel(name: str, group: pd.DataFrame, mean: pd.DataFrame) -> StepPanel:
        parts = curves(group, along="step")
        pairs = [(part.source, part.target) for part in parts if part.source and part.target and not part.task]
        own_centre = centre if len({code for pair in pairs for code in pair}) > 2 else ""
        kind = (" " if blank.kind in ("centred", "cosine", "csls", "attention", "debiased") else ", ").join(
            filter(None, (name, blank.kind))
        )
        lines = _lines(parts, curves(mean, along="step"), centre=own_centre)
        return replace(blank, kind=kind, lines=lines, centre=own_centre)

    groups = {
        str(name): (group, means[means["training"] == name]) for name, group in rows.groupby("training", sort=False)
    }
    alone = [panel(name, *tables) for name, tables in groups.items()]
    if len(groups) == 1:
        return alone
    if blank.measure == "perplexity":
        return [*_sides(blank, rows), *alone]
    leads = [(name, chart.lead.curve) for name, chart in zip(groups, alone, strict=True) if chart.lead is not None]
    lines = tuple(StepLine(name, (), curve, leads=False) for name, curve in leads)
    of_task = bool((rows["task"] != "").all()) and blank.layer is None  # other languages by plan, then each plan
    kind = ("by plan" if blank.measure == "loss" else BY_PLAN) if of_task else blank.kind
    together = [replace(blank, kind=kind, lines=lines)] if lines else []
    return [*together, *alone] if of_task or not together else together


def _sides(blank: StepPanel, rows: pd.DataFrame) -> list[StepPanel]:
    """Perplexity of what is trained on, and of the others pooled, a line a training."""
    sides = {language_name(str(code)): side for code, side in rows[rows["data"] == HELD].groupby("target", sort=False)}
    sides["other languages"] = rows[rows["target"] == OTHERS]
    charts = []
    for name, side in sides.items():
        groups = [
            (str(training), curves(group, along="step")) for training, group in side.groupby("training", sort=False)
        ]
        lines = tuple(StepLine(training, (), parts[0], leads=False) for training, parts in groups)
        charts += [replace(blank, kind=f"{name}, by plan", lines=lines)] if lines else []
    return charts


def _lines(parts: Sequence[Curve], means: Sequence[Curve], *, centre: str) -> tuple[StepLine, ...]:
    """The lines of a panel, what stands for all of them first; with a centre, its pairs."""
    several = [name for name in ("task", "model", "other_model") if len({getattr(part, name) for part in parts}) > 1]
    sets: dict[str, set[str]] = {}
    for part in parts:
        sets.setdefault(part.target, set()).add(part.data)
    groups: dict[tuple[str, tuple[str, ...]], list[Curve]] = {}
    for part in parts:
        named = _languages(part, centre)
        if named is None:
            continue
        words = [getattr(part, name) for name in several]
        if part.task and len(sets[part.target]) > 1:  # a development set is no test, nor one test another
            words.append(part.data)
        code = ", ".join([*words, " → ".join(named) or POOLED])
        groups.setdefault((code, named if named not in ((POOLED,), (OTHERS,)) else ()), []).append(part)
    pooled = any(part.target == POOLED and not part.source for part in parts)
    tasks = all(part.task for part in parts)
    lines = [
        StepLine(
            code,
            named,
            average(group),
            leads=code == POOLED or (code == OTHERS and tasks),
            pooled=code == POOLED and pooled,
        )
        for (code, named), group in groups.items()
    ]
    tuned = any(part.target == OTHERS and not part.source for part in parts)  # no average of both sides
    alone = {"model", "other_model"} & set(several) or tuned or any(line.leads for line in lines)
    if not alone and len(lines) == 1:
        lines = [replace(lines[0], leads=True)]
    elif not alone:
        others = [part for part in parts if tasks and part.target != part.source]
        lead = average(means or others or parts)
        if means:
            lead = replace(lead, measure=parts[0].measure, members=len(parts))
        lines = [StepLine(OTHERS if others else POOLED, (), lead, leads=True), *lines]
    return tuple(sorted(lines, key=lambda line: not line.leads))


def _languages(part: Curve, centre: str) -> tuple[str, ...] | None:
    """The languages a line is of; None for a pair without the central one, which only the average holds."""
    if not (part.source and part.target):
        return (part.source or part.target,) if part.source or part.target else ()
    if part.task:
        return (part.target,)  # a task is trained in one language, and tested in each
    if not centre:
        return (part.source, part.target)
    if centre not in (part.source, part.target):
        return None
    return (part.target if part.source == centre else part.source,)


def best_panel(charts: Sequence[StepPanel]) -> StepPanel | None:
    """Of a measure's panels by layer, the one that leads at the last step; the earliest layer among equals.

    Without leading lines, trainings are averaged. None where nothing could be compared.
    """
    led = [(panel, panel.lead.curve) for panel in charts if panel.lead is not None]
    led = led or [(panel, average([line.curve for line in panel.lines])) for panel in charts if panel.by_training]
    if not led:
        return None
    last = max(curve.at[-1] for _, curve in led)
    sign = -1 if describe(led[0][0].measure).better == "lower" else 1
    ends = [(sign * curve.value[-1], panel) for panel, curve in led if curve.at[-1] == last]
    return max(ends, key=lambda end: (end[0], -(end[1].layer or 0)))[1]


def figures(run: RunFolder) -> list[Figure]:
    """A chart for each measure and kind, grids of layer by step, and a map's figures of rows without a step."""
    return step_figures(run, panels(run.trained)) + map_view.figures(run)


def step_figures(run: RunFolder, charts: Sequence[StepPanel]) -> list[Figure]:
    """`steps-MEASURE` for each measure with a step, and `steps-layers-MEASURE` for those taken by layer.

    A measure in several units is drawn in the first: perplexity per character. One taken by layer is drawn at the
    layer that is best at the last step; units and layers are chosen by menus on the page.
    """
    groups: dict[tuple[str, str, bool], list[StepPanel]] = {}
    for panel in charts:
        groups.setdefault((panel.measure, panel.kind, panel.layer is not None), []).append(panel)
    drawings: list[Figure] = []
    for (measure, kind, layered), group in groups.items():
        several = len({name for other, name, _ in groups if other == measure}) > 1
        name = "-".join(filter(None, (file_name(measure), file_name(kind) if several else "")))
        drawings += _charts(run, group, name, flat=not layered or (measure, kind, False) not in groups)
    return drawings


def _charts(run: RunFolder, group: Sequence[StepPanel], name: str, *, flat: bool) -> Iterator[Figure]:
    first, layered = group[0], group[0].layer is not None
    best = (best_panel([panel for panel in group if panel.unit == first.unit]) if layered else first) or first
    lines = [[_line(run, panel, line) for line in panel.lines] for panel in group]
    drawn = [Panel("", own, choice=_choice(panel), note=_note(panel)) for panel, own in zip(group, lines, strict=True)]
    shared: dict[str, Any] = {"better": first.about.better, "axis": first.about.axis}
    yield Figure(
        f"steps-{name}" if flat else f"steps-at-layers-{name}",
        first.title,
        f"{printable(run.model)}. {_note(best)}",
        drawn,
        ylabel=AXIS_NAMES.get(best.measure, "").format(best.unit) if best.unit else "",
        log=first.about.logarithmic,
        section="training",
        explanation=first.about.explanation,
        chosen=_choice(best),
        page_only=not flat,
        **shared,
    )
    rows = [(panel, own) for panel, own in zip(group, lines, strict=True) if panel.unit == first.unit and layered]
    rows.sort(key=lambda pair: -(pair[0].layer or 0))
    trainings = dict.fromkeys(line.code for panel, _ in rows if panel.by_training for line in panel.lines)
    codes = [""] if any(panel.lead for panel, _ in rows) else list(trainings)
    for code in codes if len(rows) > 1 else ():
        cells = (
            (panel.layer, line) for panel, own in rows for line in own if (line.code == code if code else line.thick)
        )
        shades = [replace(line, label=f"layer {layer}") for layer, line in cells]
        over = f"Average over {shades[0].members} curves." if shades[0].members > 1 else ""
        yield Figure(
            f"steps-layers-{name}{f'-{file_name(code)}' if code else ''}",
            f"{first.title}{f', {code}' if code else ''}",
            " ".join(filter(None, (f"{printable(run.model)}.", over, "Layer 0: embedding output."))),
            [Panel("", shades, note="Each cell averages all directions; move over it for its interval.")],
            kind="shades",
            section="step-grid",
            page_only=bool(code) or len(shades[0].steps) < 2 or not flat,
            **shared,
        )


def _choice(panel: StepPanel) -> dict[str, str]:
    layer = {} if panel.layer is None else {"Layer": str(panel.layer)}
    return {"Per": panel.unit or "item", **layer}


def _line(run: RunFolder, panel: StepPanel, line: StepLine) -> Line:
    curve = thin(line.curve, most=MOST_STEPS if panel.layer is None else MOST_STEPS_BY_LAYER)
    ink, dash = line_look(panel, line, run.languages)
    pooled = "average" if panel.lead and len(panel.lines) > 1 else describe(panel.measure).title
    pooled = "all languages pooled" if panel.lead and panel.lead.pooled else pooled
    drawn = line_of(
        curve,
        line_name(line, run.names, pooled=pooled),
        n=curve.n,
        colour=ink,
        dash=dash,
        thick=line.leads,
        band=line.leads or panel.layer is None or panel.by_training,
        code=line.code,
    )
    return drawn if line.leads else replace(drawn, floor=())  # chance is drawn once, with the leading line


def line_name(line: StepLine, names: Mapping[str, str], *, pooled: str) -> str:
    """How a legend calls a line; `pooled` is what stands for all languages."""
    if line.code == POOLED:
        return pooled
    spelt = " → ".join(names.get(code, code) for code in line.languages)
    return line.code.removesuffix(" → ".join(line.languages)) + spelt if line.languages else line.code


def line_look(panel: StepPanel, line: StepLine, languages: Sequence[str]) -> tuple[str, int]:
    """Colour, and which kind of dash: 0 is none. What stands for all is dark.

    A line has the colour of its language, and those of one language differ in their dashes, as far as there are dashes;
    beyond that, and where it is of no one language, a line has the colour of its own index. The last of the colours is
    nearly as dark as what stands for all, so dashes begin with it.
    """
    if line.leads:
        return DARK, 0
    same = [other for other in panel.lines if other.languages == line.languages]
    if len(line.languages) == 1 and line.languages[0] in languages and len(same) <= DASHES:
        at, nth = languages.index(line.languages[0]), same.index(line)
    else:
        at, nth = panel.lines.index(line), 0
    return colour(at), (nth + (at + 1) // len(COLOURS)) % DASHES


def _note(panel: StepPanel) -> str:
    """What the lines are, what the bands are, and how many items stand behind them, in short sentences."""
    counts = [count for line in panel.lines for count in line.curve.n if count]
    items = {"loss": " predicted tokens a reading", "perplexity": " predicted tokens"}.get(panel.measure, "")
    items = f" {panel.unit}s a reading" if panel.measure == "loss" and panel.unit in LOSSES else items
    items = items or (f" {panel.unit}s" if panel.unit and panel.measure not in ("gap", "relative_gap") else "")
    lead = panel.lead
    averaged = f"Average over {lead.curve.members} curves." if lead and lead.curve.members > 1 else ""
    pairs = f"Each language with {language_name(panel.centre)}, both directions averaged." if panel.centre else ""
    banded = any(not isnan(low) for line in panel.lines for low in line.curve.low)
    bands = "Bands: intervals" if panel.layer is None or panel.by_training else "Band: interval"
    seeds = max(line.curve.seeds for line in panel.lines)
    band = f"{bands} over {seeds} seeds." if seeds > 1 else f"{bands}."
    count = f"n = {span_of(min(counts), max(counts))}{items}." if counts else ""
    total = max(len(line.curve.at) for line in panel.lines)
    most = MOST_STEPS if panel.layer is None else MOST_STEPS_BY_LAYER
    left_out = f"Drawn: {most} of {total:,} readings; all are in the run's rows." if total > most else ""
    return " ".join(filter(None, (averaged, pairs, band if banded else "", count, left_out)))


def verdict(run: RunFolder) -> list[str]:
    """Sentences on a training, then on the rows that have no step, as a map's; of several models for each, named."""
    sentences = []
    for head, own in run.by_model():
        said = [] if own.trained.empty else step_sentences(own.trained)
        said += map_view.map_sentences(own.mapped) if not said or leading(own.mapped) else []
        sentences += [head + sentence for sentence in said]
    return sentences


def step_sentences(rows: pd.DataFrame) -> list[str]:
    """Sentences on the readings of a training: retrieval by layer, loss, held-out perplexity, then anything else.

    Each with the step it was read at, its interval where there is one, and the number of items. Nothing is called a
    change unless the intervals of the two readings part; without intervals the values speak.
    """
    charts = panels(rows)
    if not charts:
        return ["These rows hold steps but no value, so nothing can be said of the training."]
    losses = [
        _moved(
            f"The {panel.about.title[:1].lower()}{panel.about.title[1:]}",
            line.curve,
            unit=f"nats a {panel.unit}" if panel.unit else "",
            items=f"{panel.unit or 'item'}s",
        )
        for panel in charts
        for line in panel.lines
        if panel.measure == "loss" and panel.layer is None and line.leads
    ]
    return [*_meeting(rows), *losses, *_perplexity(charts), *_others(charts)][:MOST_SENTENCES]


def facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away from a training; of a folder without readings, those of a map."""
    if run.trained.empty:
        return map_view.facts(run)
    charts = panels(run.trained)
    numbers: list[Fact] = [("steps", f"{int(run.trained['step'].max()):,}", "")]
    for measure, label in (("loss", "training loss"), ("perplexity", "held-out perplexity")):
        panel = next((panel for panel in charts if panel.measure == measure and panel.lead), None)
        if panel is not None and panel.lead is not None:
            unit = "" if not panel.unit else f"nats a {panel.unit}" if measure == "loss" else f"per {panel.unit}"
            numbers.append((label, digits(panel.lead.curve.value[-1]), unit))
    curve = last_layer_curve(run.trained)
    numbers += [] if curve is None else map_view.layer_facts(curve, run.depth)
    return [*numbers, ("languages", str(len(run.languages)), "")]


def caution(run: RunFolder) -> bool:
    """Whether the page should warn that no layer is better than chance."""
    curve = last_layer_curve(run.trained)
    return curve is not None and above_floor(curve, best_layer(curve)) is False


def _single_lead(rows: pd.DataFrame) -> tuple[str, str] | None:
    """The leading measure and method of one training; None of several."""
    return leading(rows) if len(rows[["plan", "condition", "settings"]].drop_duplicates()) == 1 else None


def last_layer_curve(rows: pd.DataFrame) -> Curve | None:
    """The leading measure over the layers at its last step; None where nothing is, or several trainings are read."""
    lead = _single_lead(rows)
    return None if lead is None else _layer_curve(_at_end(rows, lead, "max")[1], *lead)


def _at_end(rows: pd.DataFrame, lead: tuple[str, str], end: str) -> tuple[int, pd.DataFrame]:
    """The first (`min`) or the last (`max`) step at which a measure was taken by layer, and its rows."""
    same = (rows["measure"] == lead[0]) & (rows["method"] == lead[1]) & rows["layer"].notna()
    step = int(rows.loc[same, "step"].agg(end))
    return step, rows[rows["step"] == step]


def _layer_curve(rows: pd.DataFrame, measure: str, method: str) -> Curve:
    """The curve over layers of one step: the mean the run itself took where there is one, else the average."""
    mean, own = average(curves(rows, measure, method)), curves(rows, f"{measure}{MEAN}", method)
    if not own or (taken := average(own)).at != mean.at:
        return mean
    return replace(taken, measure=measure, members=mean.members, n=mean.n, most=mean.most)


def _meeting(rows: pd.DataFrame) -> list[str]:
    """Where the languages meet at the last step, how that compares with the first, and who is nearest."""
    lead = _single_lead(rows)
    if lead is None:
        return []
    (first, before), (last, after) = (_at_end(rows, lead, end) for end in ("min", "max"))
    curve = _layer_curve(after, *lead)
    best, same = best_layer(curve), alike(curve)
    told = f"{measure_name(curve)} ({ASKS[curve.measure]}) is {say_value(curve, best)}"
    if above_floor(curve, best) is False:
        opening = f"At step {last:,} no layer is better than chance: at layer {best}, the highest, {told}"
    elif len(same) == len(curve.at) > 1:
        opening = (
            f"At step {last:,} no layer stands out, all intervals overlapping: at layer {best}, the highest, {told}"
        )
    else:
        beside = f" ({name_layers(same)} cannot be told apart)" if len(same) > 1 else ""
        opening = f"Languages meet best at layer {best}{beside}: at step {last:,} {told}"
    began = _layer_curve(before, *lead) if first < last else None
    since = "" if began is None or best not in began.at else _since(began, curve, best, step=first)
    low, high = curve.counts
    items = "words" if curve.measure == "word_agreement" else "sentences"
    count = f"n = {span_of(low, high)} {items}" if high else "n not recorded"
    kind = "pairs of languages" if curve.measure == "cka" else "directions"
    texts = rows.loc[rows["measure"] == curve.measure, "data"].nunique()
    on = f" on {texts} data sets" if texts > 1 else ""
    basis = f"average over {curve.members} {kind}{on}, {count} each" if curve.members > 1 else count
    sentences = [f"{opening}{since}; {basis}."]
    if began is not None and since.startswith(SAME) and best < curve.at[-1] in began.at:
        end = curve.at[-1]
        change = _since(began, curve, end, step=first)
        sentences.append(f"At layer {end}, the last one read, it is {say_value(curve, end, floor=False)}{change}.")
    return [*sentences, *name_partners(after, curve)]


def _since(began: Curve, ended: Curve, layer: int, *, step: int) -> str:
    """How a layer's value compares with an earlier step's."""
    first, last = began.place(layer), ended.place(layer)
    before, after = began.value[first], ended.value[last]
    overlap = began.low[first] <= ended.high[last] and ended.low[last] <= began.high[first]
    if overlap or before == after:
        return f"{SAME} {say_value(began, layer, floor=False)} at step {step:,}"
    return f", {'up' if after > before else 'down'} from {say_value(began, layer, floor=False)} at step {step:,}"


def _perplexity(charts: Sequence[StepPanel]) -> list[str]:
    panel = next((panel for panel in charts if panel.measure == "perplexity" and panel.layer is None), None)
    if panel is None or panel.lead is None:
        return []
    lead, lines = panel.lead, [line for line in panel.lines if line.languages]
    names = display_names(code for line in lines for code in line.languages)
    of = f" of {names[lead.languages[0]]}" if lead.languages else ""
    per = f" per {panel.unit}" if panel.unit else ""
    mean = ", all languages pooled" if lead.pooled else f", average over {len(lines)} languages"
    told = "" if lead.languages else mean
    sentence = _moved(f"Held-out perplexity{per}{of}", lead.curve, items="predicted tokens", told=told)
    # Which language ends lowest and which highest, when their intervals do not meet.
    ranked = sorted(lines, key=lambda line: line.curve.value[-1])
    low, high = (ranked[0].curve, ranked[-1].curve) if ranked else (lead.curve, lead.curve)
    if low.high[-1] < high.low[-1] or (isnan(low.high[-1]) and low.value[-1] < high.value[-1]):
        near, far = (names[line.languages[0]] for line in (ranked[0], ranked[-1]))
        extremes = f"; it is lowest for {near} ({reading(low, -1)}) and highest for {far} ({reading(high, -1)})"
        sentence = f"{sentence[:-1]}{extremes}."
    # Languages whose perplexity was lower before the end: clearly, or by less than the intervals.
    clear, slight = [], []
    for line in lines:
        curve = line.curve
        lowest = min(range(len(curve.value)), key=lambda at: curve.value[at])
        if not curve.value[-1] > curve.value[lowest]:
            continue
        name, since = names[line.languages[0]], f"{curve.at[lowest]:,}"
        if apart(curve, lowest, -1):
            clear.append(
                f"{name} from step {since} on ({reading(curve, lowest)} then, {reading(curve, -1)} at the end)"
            )
        else:
            slight.append(f"{name} (lowest at step {since})")
    rises = [f"It rose for {listed(clear)}."] if clear else []
    rises += [f"It rose by less than its interval for {listed(slight)}."] if slight else []
    return [sentence, *rises]


def _others(charts: Sequence[StepPanel]) -> list[str]:
    """A sentence for every other measure: over the steps, and at its best layer where it is taken by layer."""
    told = {"loss", "perplexity", *(measure for measure, _ in LEADING)}
    sentences = []
    for measure in dict.fromkeys(panel.measure for panel in charts if panel.measure not in told):
        own = [panel for panel in charts if panel.measure == measure]
        whole = [panel for panel in own if panel.layer is None]
        best = whole[0] if whole else best_panel(own)
        if best is None or best.lead is None:
            continue
        per = f" per {best.unit}" if best.unit else ""
        at = "" if best.layer is None else f" at layer {best.layer}"
        members = best.lead.curve.members
        over = f", average over {members} curves" if members > 1 else ""
        sentences.append(_moved(f"{capitalise(describe(measure).title)}{per}{at}", best.lead.curve, told=over))
    return sentences


def _moved(subject: str, curve: Curve, *, unit: str = "", items: str = "items", told: str = "") -> str:
    """Where a curve began and where it ended, and whether that is a change."""
    behind = f" (n = {curve.n[-1]:,} {items})" if curve.n[-1] else ""
    end = f"{reading(curve, -1)}{' ' if unit else ''}{unit} at step {curve.at[-1]:,}{told}{behind}"
    if len(curve.at) == 1:
        return f"{subject} is {end}."
    start = f"from {reading(curve, 0)} at step {curve.at[0]:,} to {end}"
    if not apart(curve, 0, -1):
        return f"{subject} did not clearly change: {start}."
    return f"{subject} {'fell' if curve.value[-1] < curve.value[0] else 'rose'} {start}."
