"""The page of a training: every measure over its steps, and measures by layer as a heat map of layer by step.

Curves of one measure share a figure. A measure by layer has a panel for each layer, in which a language represents its
pair with the central one, averaged over both directions and over data sets. If there are several trainings (plans,
conditions or settings), each is a line, with a band over its seeds. Pretraining and alignment use the view defined
here; drift and transfer use the figures but have their own verdicts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from isogloss.figure import COLOURS, DASHES, Figure, Line, Panel, file_name, printable
from isogloss.measures.registry import describe
from isogloss.report import curves, map_view
from isogloss.report.curves import HELD, Curve, Fact, RunFolder, View, average, language_name, select
from isogloss.runs.table import ORACLE, OTHERS, POOLED

MOST_SENTENCES = 8
SAME = ", not clearly different from"
UNITS = ("character", "word", "token")  # characters first: their perplexities do not depend on the vocabulary
ATTRIBUTES = ("centred", "cosine", "csls", "attention", "debiased")  # kinds that follow a training's name without comma
MEAN = "_mean"
LOSSES = {"answer": "loss of a task", "pair": "loss of pairs"}  # by unit, if that is not a token
AXIS_NAMES = {"loss": "nats a {}", "perplexity": "perplexity per {}"}
MOST_STEPS, MOST_STEPS_BY_LAYER = 400, 80


class StepPanel:
    """The curves of one measure, kind and unit, and of one layer if it is a measure by layer; the leading one first.

    kind: distinguishes panels of a measure: a training, a method, the reference of a distance. lines: the curves.
    centre: the central language if the curves are its pairs, else "". measure, unit, layer: those of the curves. lead:
    the main line, if there is one. by_training: whether each line is a training. about: the description of the measure,
    which differs for CKA between models and for the loss of a task.
    """

    def __init__(self, kind: str, lines: Sequence[Curve], centre: str = "") -> None:
        self.kind, self.lines, self.centre, first = kind, lines, centre, lines[0]
        self.measure, self.unit, self.layer = first.measure, first.unit, first.layer
        self.lead = first if first.leads else None
        self.by_training = not any(line.leads or line.languages for line in lines)
        compared = "cka to another model" if self.measure == "cka" and first.other_model else self.measure
        self.about = describe(LOSSES.get(self.unit, "loss") if self.measure == "loss" else compared)


def panels(run: RunFolder) -> list[StepPanel]:
    """The panels of all curves along steps: loss first, then perplexity, then the rest in order of appearance."""
    known = [
        curve
        for curve in run.by_step
        if curve.selection != ORACLE
        and curve.measure != "relative_gap"
        and (curve.measure, curve.data) != ("perplexity", curves.TEST)
    ]
    centre = curves.central_language((curve.source, curve.target) for curve in known)
    measures = list(dict.fromkeys(curve.measure for curve in known))
    parts = {name for measure in measures for name in (measure + MEAN, f"{measure}_behind")}  # parts of other curves
    whole = [curve for curve in known if curve.measure not in parts]
    charts: list[StepPanel] = []
    for (measure, kind, unit, layer), group in curves.grouped(
        whole, attrgetter("measure", "kind", "unit", "layer")
    ).items():
        means = select(known, measure=measure + MEAN, kind=kind, unit=unit, layer=layer)
        charts += _panels(group, means, centre)
    early = {"loss": 0, "perplexity": 1}
    units = {unit: index for index, unit in enumerate(UNITS)}

    def order(panel: StepPanel) -> tuple[int, int, int]:
        return early.get(panel.measure, 2), units.get(panel.unit, len(UNITS)), measures.index(panel.measure)

    return sorted(charts, key=order)


def _panels(group: Sequence[Curve], means: Sequence[Curve], centre: str) -> list[StepPanel]:
    """The panel of one training; for several, a panel with a line each, and a panel for each if it has more lines."""
    first, kind, alone = group[0], group[0].kind, {}
    for name, parts in curves.grouped(group, attrgetter("training")).items():
        pairs = [(part.source, part.target) for part in parts if part.source and part.target and not part.task]
        own_centre = centre if len({code for pair in pairs for code in pair}) > 2 else ""
        titled = (" " if kind in ATTRIBUTES else ", ").join(filter(None, (name, kind)))
        alone[name] = StepPanel(titled, _lines(parts, select(means, training=name), centre=own_centre), own_centre)
    if len(alone) == 1:
        return list(alone.values())
    apart = first.measure == "perplexity" or (all(curve.task for curve in group) and first.layer is None)
    if first.measure == "perplexity":  # of the training language, and of the others pooled
        tuned = dict.fromkeys(curve.target for curve in select(group, data=HELD))
        sides = {f"{language_name(code)}, by plan": select(group, data=HELD, target=code) for code in tuned}
        sides["other languages, by plan"] = select(group, target=OTHERS)
    else:
        title = "by plan" if first.measure == "loss" else "other languages, by plan"
        leads = [replace(chart.lead, training=name) for name, chart in alone.items() if chart.lead]
        sides = {title if apart else kind: leads}
    together = []
    for title, own in sides.items():
        trainings = curves.grouped(own, attrgetter("training"))
        lines = [replace(same[0], code=name, languages=(), leads=False) for name, same in trainings.items()]
        together += [StepPanel(title, lines)] if lines else []
    return [*together, *alone.values()] if apart or not together else together


def _lines(parts: Sequence[Curve], means: Sequence[Curve], *, centre: str) -> list[Curve]:
    """The lines of a panel, the main line first; with a central language, its pairs."""
    several = [name for name in ("task", "model", "other_model") if len({getattr(part, name) for part in parts}) > 1]
    sets = Counter(target for target, _ in curves.grouped(parts, attrgetter("target", "data")))
    groups: dict[tuple[str, tuple[str, ...]], list[Curve]] = {}
    for part in parts:
        named = tuple(filter(None, (part.source, part.target)))
        if len(named) == 2 and part.task:
            named = (part.target,)  # a task is trained in one language, so only the test language varies
        elif len(named) == 2 and centre:
            if centre not in named:
                continue  # only used for the average
            named = (part.target if part.source == centre else part.source,)
        words = [getattr(part, name) for name in several]
        if part.task and sets[part.target] > 1:  # development and test sets are distinguished
            words.append(part.data)
        code = ", ".join([*words, " → ".join(named) or POOLED])
        groups.setdefault((code, named if named not in ((POOLED,), (OTHERS,)) else ()), []).append(part)
    tasks = all(part.task for part in parts)
    lines = [
        replace(average(group), code=code, languages=named, leads=code == POOLED or (code == OTHERS and tasks))
        for (code, named), group in groups.items()
    ]
    tuned = any(part.target == OTHERS and not part.source for part in parts)  # target and others are not averaged
    alone = {"model", "other_model"} & set(several) or tuned or any(line.leads for line in lines)
    if not alone and len(lines) == 1:
        lines = [replace(lines[0], leads=True)]
    elif not alone:
        others = [part for part in parts if tasks and part.target != part.source]
        lead = average(means or others or parts)
        if means:
            lead = replace(lead, measure=parts[0].measure, members=len(parts))
        lines = [replace(lead, code=OTHERS if others else POOLED, languages=(), leads=True), *lines]
    return sorted(lines, key=lambda line: not line.leads)


def best_panel(charts: Sequence[StepPanel]) -> StepPanel | None:
    """The best of a measure's panels by layer at the last step; of ties, the earliest layer.

    Without leading lines, trainings are averaged. None if nothing can be compared.
    """
    led = [(panel, panel.lead or average(panel.lines)) for panel in charts if panel.lead or panel.by_training]
    last = max((curve.at[-1] for _, curve in led), default=0)
    sign = -1 if describe(charts[0].measure).better == "lower" else 1
    ends = {panel: (sign * curve.last.value, -(panel.layer or 0)) for panel, curve in led if curve.at[-1] == last}
    return max(ends, key=ends.__getitem__, default=None)


def step_figures(run: RunFolder) -> Iterator[Figure]:
    """The figures `steps-MEASURE` for each measure with a step, and `steps-layers-MEASURE` for measures by layer.

    The initial unit is the first one (perplexity per character), the initial layer is the best one at the last step;
    both can be changed by menus on the page.
    """
    groups = curves.grouped(panels(run), lambda panel: (panel.measure, panel.kind, panel.layer is not None))
    for (measure, kind, layered), group in groups.items():
        several = len({name for other, name, _ in groups if other == measure}) > 1
        name = "-".join(filter(None, (file_name(measure), file_name(kind) if several else "")))
        flat = not layered or (measure, kind, False) not in groups
        first, about = group[0], group[0].about
        best = (best_panel([panel for panel in group if panel.unit == first.unit]) if layered else first) or first
        title = about.title + (f" ({curves.METHOD_TITLES.get(kind, kind)})" if kind else "")
        drawn = []
        for panel in group:
            choice = {"Per": panel.unit or "item", **({"Layer": str(panel.layer)} if layered else {})}
            lines = [_line(run, panel, line) for line in panel.lines]
            drawn.append(Panel("", lines, choice=choice, note=_note(panel)))
        yield Figure(
            f"steps-{name}" if flat else f"steps-at-layers-{name}",
            title,
            f"{printable(run.model)}. {_note(best)}",
            drawn,
            ylabel=AXIS_NAMES.get(measure, "").format(best.unit) if best.unit else "",
            log=about.logarithmic,
            section="training",
            measure=about.name,
            chosen=drawn[group.index(best)].choice,
            page_only=not flat,
        )
        own = [(panel, chart.lines) for panel, chart in zip(group, drawn, strict=True) if panel.unit == first.unit]
        own.sort(key=lambda pair: -(pair[0].layer or 0))
        cells = [
            replace(line, label=f"layer {panel.layer}")
            for panel, lines in own
            for line in lines
            if line.thick or panel.by_training
        ]
        grids = curves.grouped(cells, lambda line: "" if line.thick else line.code)
        for code, shades in grids.items() if layered and len(own) > 1 else ():
            over = f"Average over {shades[0].members} curves." if shades[0].members > 1 else ""
            yield Figure(
                f"steps-layers-{name}{f'-{file_name(code)}' if code else ''}",
                f"{title}{f', {code}' if code else ''}",
                " ".join(filter(None, (f"{printable(run.model)}.", over, "Layer 0: embedding output."))),
                [Panel("", shades, note="Each cell averages all directions; move over it for its interval.")],
                section="step-grid",
                measure=about.name,
                page_only=bool(code) or len(shades[0].steps) < 2 or not flat,
            )


def _line(run: RunFolder, panel: StepPanel, curve: Curve) -> Line:
    """The line of a curve: with label, thinned, and in the colour of its language.

    Lines of one language differ in their dashes. If there are too many, or a curve has no single language, a line has
    the colour of its index. The last colour is nearly as dark as the main line, so dashes begin with it. The main line
    is dark, and the chance level is drawn once, with it.
    """
    drawn = curve.thin(most=MOST_STEPS if panel.layer is None else MOST_STEPS_BY_LAYER)
    spelt = " → ".join(map(language_name, curve.languages))
    label = curve.code.removesuffix(" → ".join(curve.languages)) + spelt if curve.languages else curve.code
    if curve.code == POOLED:
        label = "average" if panel.lead and len(panel.lines) > 1 else describe(panel.measure).title
        label = "all languages pooled" if panel.lead and panel.lead.target == POOLED else label
    look: dict[str, Any] = {"n": tuple(reading.n for reading in drawn.readings.values()), "code": curve.code}
    if curve.leads:
        return drawn.line(label, thick=True, **look)
    same = [other for other in panel.lines if other.languages == curve.languages]
    if len(curve.languages) == 1 and curve.languages[0] in run.languages and len(same) <= DASHES:
        hue, nth = run.languages.index(curve.languages[0]), same.index(curve)
    else:
        hue, nth = panel.lines.index(curve), 0
    band = panel.layer is None or panel.by_training
    dash = (nth + (hue + 1) // len(COLOURS)) % DASHES
    return drawn.line(label, hue=hue, dash=dash, band=band, floor=(), **look)


def _note(panel: StepPanel) -> str:
    """Short sentences on the lines, the bands, and the number of items."""
    readings = [reading for line in panel.lines for reading in line.readings.values()]
    counts = curves.span_of(reading.n for reading in readings)
    items = {"loss": " predicted tokens a reading", "perplexity": " predicted tokens"}.get(panel.measure, "")
    items = f" {panel.unit}s a reading" if panel.measure == "loss" and panel.unit in LOSSES else items
    items = items or (f" {panel.unit}s" if panel.unit and panel.measure not in ("gap", "relative_gap") else "")
    averaged = f"Average over {panel.lead.members} curves." if panel.lead and panel.lead.members > 1 else ""
    pairs = f"Each language with {language_name(panel.centre)}, both directions averaged." if panel.centre else ""
    bands = "Bands: intervals" if panel.layer is None or panel.by_training else "Band: interval"
    seeds = max(line.seeds for line in panel.lines)
    band = f"{bands} over {seeds} seeds." if seeds > 1 else f"{bands}."
    count = f"n = {counts}{items}." if counts else ""
    total = max(len(line.at) for line in panel.lines)
    most = MOST_STEPS if panel.layer is None else MOST_STEPS_BY_LAYER
    left_out = f"Drawn: {most} of {total:,} readings; all are in the run's rows." if total > most else ""
    band = band if any(reading.known for reading in readings) else ""
    return " ".join(filter(None, (averaged, pairs, band, count, left_out)))


def view(run: RunFolder) -> View:
    """The view of a training: sentences on its readings, then on rows without a step as for a map, for each model.

    The order is retrieval by layer, loss, held-out perplexity, then other measures, each with its step, its interval if
    there is one, and the number of items. Something is called a change only if its interval on the same items excludes
    no change (`Curve.apart`). The page warns if no layer is better than chance.
    """
    verdict = []
    for head, own in map_view.by_model(run):
        charts, said = panels(own), _meeting(own)
        for panel in charts:
            if panel.measure == "loss" and panel.layer is None and panel.lead is not None:
                title, unit = panel.about.title, f"nats a {panel.unit}" if panel.unit else ""
                subject = f"The {title[:1].lower()}{title[1:]}"
                said.append(_moved(subject, panel.lead, unit=unit, items=f"{panel.unit or 'item'}s"))
        said = [*said, *_perplexity(charts), *_others(charts)][:MOST_SENTENCES]
        said += map_view.map_sentences(own) if not said or own.lead else []
        verdict += [head + sentence for sentence in said]
    at_end = run.map_at("max")
    caution = at_end is not None and at_end[-1].above_chance is False
    figures = [*step_figures(run), *map_view.figures(run)]
    return View("training", verdict, facts(run), figures, caution=caution)


def facts(run: RunFolder) -> list[Fact]:
    """The key numbers of a training; without readings, those of a map."""
    if run.trained.empty:
        return map_view.facts(run)
    numbers: list[Fact] = [("steps", f"{int(run.trained['step'].max()):,}", "")]
    leads = [panel.lead for panel in panels(run) if panel.lead is not None]
    for measure, label, per in (("loss", "training loss", "nats a"), ("perplexity", "held-out perplexity", "per")):
        for lead in select(leads, measure=measure)[:1]:
            numbers.append((label, curves.digits(lead.last.value), f"{per} {lead.unit}" if lead.unit else ""))
    if at_end := run.map_at("max"):
        numbers += map_view.layer_facts(at_end[-1], run.depth)
    return [*numbers, ("languages", str(len(run.languages)), "")]


def _meeting(run: RunFolder) -> list[str]:
    """Sentences on the best layer at the last step, compared with the first step, and on the closest language."""
    began, ended = run.map_at("min"), run.map_at("max")
    if began is None or ended is None:
        return []
    (first, _, before), (last, at_end, curve) = began, ended
    best = curve.best
    value = f"{curve.name} ({map_view.ASKS[curve.measure]}) is {curve.say(best)}"
    if curve.above_chance is False:
        opening = f"At step {last:,} no layer is better than chance: at layer {best}, the highest, {value}"
    else:
        opening = f"Languages meet best at {curves.where_best(curve)}: at step {last:,} {value}"
    compared = before.at if first < last else ()
    steps = first, last
    since = _since(run, before, curve, best, steps=steps) if best in compared else ""
    texts = run.trained.loc[run.trained["measure"] == curve.measure, "data"].nunique()
    on = f" on {texts} data sets" if texts > 1 else ""
    basis = f"average over {curve.members} {curve.pairs}{on}, " if curve.members > 1 else ""
    sentences = [f"{opening}{since}; {basis}{curves.count_items(curve)}."]
    end = curve.at[-1]
    if since.startswith(SAME) and best < end in compared:
        change = _since(run, before, curve, end, steps=steps)
        sentences.append(f"At layer {end}, the last one read, it is {curve.say(end, floor=False)}{change}.")
    return [*sentences, *curves.name_partners(at_end, run.centre, curve)]


def _since(run: RunFolder, began: Curve, ended: Curve, layer: int, *, steps: tuple[int, int]) -> str:
    """The change of a layer's value between two steps as text, on the same sentences if the run has their mean."""
    before, after = began.readings[layer], ended.readings[layer]
    means = select(run.by_step, measure=f"{ended.measure}_mean", method=ended.method, layer=layer)
    means = [mean for mean in means if set(steps) <= set(mean.at)]
    course = average(means) if means else Curve(ended.measure, dict(zip(steps, (before, after), strict=True)))
    places, layers = [course.at.index(step) for step in steps], len(ended.at)  # the layer is the best of these
    up = "up" if after.value > before.value else "down"
    how = f", {up} from" if course.apart(*places, among=layers) else SAME
    changed = course.changed(*places, among=layers)
    return f"{how} {began.say(layer, floor=False)} at step {steps[0]:,}{changed and f' ({changed})'}"


def _perplexity(charts: Sequence[StepPanel]) -> list[str]:
    panel = next((panel for panel in charts if panel.measure == "perplexity" and panel.layer is None), None)
    if panel is None or panel.lead is None:
        return []
    lead, lines = panel.lead, [line for line in panel.lines if line.languages]
    of = f" of {language_name(lead.languages[0])}" if lead.languages else ""
    per = f" per {panel.unit}" if panel.unit else ""
    mean = ", all languages pooled" if lead.target == POOLED else f", average over {len(lines)} languages"
    over = "" if lead.languages else mean
    sentence = _moved(f"Held-out perplexity{per}{of}", lead, items="predicted tokens", over=over)
    # The languages with the lowest and the highest final value, if their intervals do not overlap.
    ranked = sorted(lines, key=lambda line: line.last.value)
    low, high = (ranked[0], ranked[-1]) if ranked else (lead, lead)
    if low.last.high < high.last.low or (not low.last.known and low.last.value < high.last.value):
        near, far = (f"{language_name(line.languages[0])} ({line.reading(-1)})" for line in (low, high))
        sentence = f"{sentence[:-1]}; it is lowest for {near} and highest for {far}."
    # Languages whose perplexity was lower before the end, clearly or not.
    clear, slight = [], []
    for line in lines:
        step = min(line.at, key=lambda step: line.readings[step].value)
        if not line.last.value > line.readings[step].value:
            continue
        name, since, lowest = language_name(line.languages[0]), f"{step:,}", line.at.index(step)
        if line.apart(lowest, -1, among=len(line.at) - 1):
            ends = f"({line.reading(lowest)} then, {line.reading(-1)} at the end)"
            clear.append(f"{name} from step {since} on {ends}")
        else:
            slight.append(f"{name} (lowest at step {since})")
    rises = [f"It rose for {curves.listed(clear)}."] if clear else []
    rises += [f"It rose, but not clearly, for {curves.listed(slight)}."] if slight else []
    return [sentence, *rises]


def _others(charts: Sequence[StepPanel]) -> Iterator[str]:
    """A sentence for every other measure on its change over the steps, at the best layer of measures by layer."""
    named = {"loss", "perplexity", *(measure for measure, _ in curves.LEADING)}  # these have separate sentences
    for measure in dict.fromkeys(panel.measure for panel in charts if panel.measure not in named):
        own = [panel for panel in charts if panel.measure == measure]
        whole = [panel for panel in own if panel.layer is None]
        best = whole[0] if whole else best_panel(own)
        if best is None or best.lead is None:
            continue
        per = f" per {best.unit}" if best.unit else ""
        at = "" if best.layer is None else f" at layer {best.layer}"
        over = f", average over {best.lead.members} curves" if best.lead.members > 1 else ""
        title = describe(measure).title
        layers = len({panel.layer for panel in own} if best.layer is not None else {None})
        yield _moved(f"{title[:1].upper()}{title[1:]}{per}{at}", best.lead, over=over, among=layers)


def _moved(subject: str, curve: Curve, *, unit: str = "", items: str = "items", over: str = "", among: int = 1) -> str:
    """A sentence on the first and last reading of a curve and whether they differ.

    over: describes an average. among: the number of curves of which this one was chosen.
    """
    behind = f" (n = {curve.last.n:,} {items})" if curve.last.n else ""
    end = f"{curve.reading(-1)}{' ' if unit else ''}{unit} at step {curve.at[-1]:,}{over}{behind}"
    if len(curve.at) == 1:
        return f"{subject} is {end}."
    how = curve.way("fell", "did not clearly change:", "rose", among=among)
    changed = curve.changed(among=among)
    by = f", {changed}" if changed else ""
    return f"{subject} {how} from {curve.reading(0)} at step {curve.at[0]:,} to {end}{by}."
