"""The verdict of a training: where the languages have come to meet, how far the loss fell, and what held-out text says.

Nothing is called a change unless the intervals of the two readings part; without intervals the values speak.
"""

from collections.abc import Sequence
from math import isinf, isnan

import pandas as pd

from isogloss.report.languages import display_names
from isogloss.report.meanings import meaning
from isogloss.report.phrases import (
    ASKS,
    capitalise,
    listed,
    measure_name,
    name_layers,
    name_partners,
    number,
    say_value,
)
from isogloss.report.plans import without_plan
from isogloss.report.stepcurves import StepCurve, apart
from isogloss.report.steplabels import about
from isogloss.report.steps import Line, Panel, at_step, best_panel, panels
from isogloss.report.summary import (
    LEADING,
    Curve,
    above_floor,
    alike,
    best_layer,
    curves,
    leading,
)
from isogloss.report.summary import average as average_layers

MOST_SENTENCES = 8
SAME = ", not clearly different from"


def step_verdict(rows: pd.DataFrame) -> list[str]:
    """Sentences on a training, from its rows: retrieval by layer, loss, held-out perplexity, then anything else.

    Each with the step it was read at, its interval where there is one, and the number of items.
    """
    rows = without_plan(rows)
    found = panels(rows)
    if not found:
        return ["These rows hold steps but no value, so nothing can be said of the training."]
    sentences = [*_meeting(rows), *_loss(found), *_perplexity(found), *_others(found)]
    return sentences[:MOST_SENTENCES]


def step_facts(rows: pd.DataFrame, *, depth: int | None) -> list[tuple[str, str, str]]:
    """The few numbers a reader takes away from a training: label, value, what stands small behind it."""
    rows = without_plan(rows)
    found = panels(rows)
    facts = [("steps", f"{int(rows['step'].max()):,}", "")]
    for measure, label in (("loss", "training loss"), ("perplexity", "held-out perplexity")):
        panel = next((panel for panel in found if panel.measure == measure and panel.lead), None)
        if panel is not None and panel.lead is not None:
            unit = "" if not panel.unit else f"nats a {panel.unit}" if measure == "loss" else f"per {panel.unit}"
            facts.append((label, digits(panel.lead.curve.value[-1]), unit))
    curve = last_layer_curve(rows)
    if curve is not None:
        best = best_layer(curve)
        place = curve.place(best)
        chance = above_floor(curve, best) is False
        facts.append(("highest at layer" if chance else "best layer", str(best), f"of {depth or curve.layers[-1]}"))
        facts.append((measure_name(curve), number(curve.value[place]), ""))
        facts += [] if isnan(curve.floor[place]) else [("by chance", number(curve.floor[place]), "")]
    return facts


def last_layer_curve(rows: pd.DataFrame) -> Curve | None:
    """The leading measure over the layers at its last step; None where nothing is taken by layer."""
    rows = without_plan(rows)
    lead = leading(rows)
    return None if lead is None else layer_curve(at_step(rows, _span(rows, *lead)[1]), *lead)


def _span(rows: pd.DataFrame, measure: str, variant: str) -> tuple[int, int]:
    """The first and the last step at which a measure was taken by layer."""
    steps = rows.loc[(rows["measure"] == measure) & (rows["variant"] == variant) & rows["layer"].notna(), "step"]
    return int(steps.min()), int(steps.max())


def _loss(found: Sequence[Panel]) -> list[str]:
    return [
        _moved(
            f"The {about(panel).title[:1].lower()}{about(panel).title[1:]}",
            line.curve,
            unit=f"nats a {panel.unit}" if panel.unit else "",
            items=f"{panel.unit or 'item'}s",
        )
        for panel in found
        for line in panel.lines
        if panel.measure == "loss" and panel.layer is None and line.leads
    ]


def _perplexity(found: Sequence[Panel]) -> list[str]:
    panel = next((panel for panel in found if panel.measure == "perplexity" and panel.layer is None), None)
    if panel is None or panel.lead is None:
        return []
    lead, lines = panel.lead, [line for line in panel.lines if line.languages]
    names = display_names([code for line in lines for code in line.languages])
    of = f" of {names[lead.languages[0]]}" if lead.languages else ""
    per = f" per {panel.unit}" if panel.unit else ""
    told = (
        "" if lead.languages else ", all languages pooled" if lead.pooled else f", average over {len(lines)} languages"
    )
    sentence = _moved(f"Held-out perplexity{per}{of}", lead.curve, items="predicted tokens", told=told)
    extremes = "" if len(lines) < 2 else _extremes(lines, names)
    return [f"{sentence[:-1]}{extremes}.", *_rises(lines, names)]


def _extremes(lines: Sequence[Line], names: dict[str, str]) -> str:
    """Which language ends lowest and which highest, when their intervals do not meet."""
    ranked = sorted(lines, key=lambda line: line.curve.value[-1])
    low, high = ranked[0].curve, ranked[-1].curve
    if not low.high[-1] < high.low[-1] and not (isnan(low.high[-1]) and low.value[-1] < high.value[-1]):
        return ""
    near, far = (names[line.languages[0]] for line in (ranked[0], ranked[-1]))
    return f"; it is lowest for {near} ({reading(low, -1)}) and highest for {far} ({reading(high, -1)})"


def _rises(lines: Sequence[Line], names: dict[str, str]) -> list[str]:
    """Languages whose perplexity was lower before the end: clearly, or by less than the intervals."""
    clear, slight = [], []
    for line in lines:
        curve = line.curve
        place = min(range(len(curve.value)), key=lambda at: curve.value[at])
        if not curve.value[-1] > curve.value[place]:
            continue
        name, since = names[line.languages[0]], f"{curve.steps[place]:,}"
        if apart(curve, place, -1):
            clear.append(f"{name} from step {since} on ({reading(curve, place)} then, {reading(curve, -1)} at the end)")
        else:
            slight.append(f"{name} (lowest at step {since})")
    sentences = [f"It rose for {listed(clear)}."] if clear else []
    return sentences + ([f"It rose by less than its interval for {listed(slight)}."] if slight else [])


def _meeting(rows: pd.DataFrame) -> list[str]:
    """Where the languages meet at the last step, how that compares with the first, and who is nearest."""
    lead = leading(rows)
    if lead is None:
        return []
    first, last = _span(rows, *lead)
    curve = layer_curve(at_step(rows, last), *lead)
    assert curve is not None
    best, same = best_layer(curve), alike(curve)
    told = f"{measure_name(curve)} ({ASKS[curve.measure]}) is {say_value(curve, best)}"
    if above_floor(curve, best) is False:
        opening = f"At step {last:,} no layer is better than chance: at layer {best}, the highest, {told}"
    elif len(same) == len(curve.layers) > 1:
        opening = (
            f"At step {last:,} no layer stands out, all intervals overlapping: at layer {best}, the highest, {told}"
        )
    else:
        beside = f" ({name_layers(same)} cannot be told apart)" if len(same) > 1 else ""
        opening = f"Languages meet best at layer {best}{beside}: at step {last:,} {told}"
    began = layer_curve(at_step(rows, first), *lead) if first < last else None
    since = "" if began is None or best not in began.layers else _since(began, curve, best, step=first)
    sentences = [f"{opening}{since}; {_basis(rows, curve)}."]
    if began is not None and since.startswith(SAME) and best < curve.layers[-1] in began.layers:
        end = curve.layers[-1]
        change = _since(began, curve, end, step=first)
        sentences.append(f"At layer {end}, the last one read, it is {say_value(curve, end, floor=False)}{change}.")
    return [*sentences, *name_partners(at_step(rows, last), curve)]


def layer_curve(rows: pd.DataFrame, measure: str, variant: str) -> Curve | None:
    """The curve over layers of one step: the mean the run itself took where there is one, else the average."""
    parts = curves(rows, measure, variant)
    mean, own = average_layers(parts), average_layers(curves(rows, f"{measure}_mean", variant))
    if mean is None or own is None or own.layers != mean.layers:
        return mean
    return Curve(**{**vars(own), "measure": measure, "members": mean.members, "n": mean.n})


def _since(began: Curve, ended: Curve, layer: int, *, step: int) -> str:
    """How a layer's value compares with an earlier step's."""
    one, two = began.place(layer), ended.place(layer)
    before, after = began.value[one], ended.value[two]
    overlap = began.low[one] <= ended.high[two] and ended.low[two] <= began.high[one]
    if overlap or before == after:
        return f"{SAME} {say_value(began, layer, floor=False)} at step {step:,}"
    return f", {'up' if after > before else 'down'} from {say_value(began, layer, floor=False)} at step {step:,}"


def _basis(rows: pd.DataFrame, curve: Curve) -> str:
    """What the value averages and how many items stand behind it."""
    low, high = curve.n
    count = "n not recorded" if high == 0 else f"n = {low:,}" if low == high else f"n = {low:,} to {high:,}"
    items = "" if high == 0 else " words" if curve.measure == "word_agreement" else " sentences"
    kind = "pairs of languages" if curve.measure == "cka" else "directions"
    texts = rows.loc[rows["measure"] == curve.measure, "data"].nunique()
    on = f" on {texts} data sets" if texts > 1 else ""
    return f"average over {curve.members} {kind}{on}, {count}{items} each" if curve.members > 1 else f"{count}{items}"


def _others(found: Sequence[Panel]) -> list[str]:
    """A sentence for every other measure: over the steps, and at its best layer where it is taken by layer."""
    told = {"loss", "perplexity", *(measure for measure, _ in LEADING)}
    sentences = []
    for measure in dict.fromkeys(panel.measure for panel in found if panel.measure not in told):
        own = [panel for panel in found if panel.measure == measure]
        flat = [panel for panel in own if panel.layer is None]
        best = flat[0] if flat else best_panel(own)
        if best is None or best.lead is None:
            continue
        per = f" per {best.unit}" if best.unit else ""
        at = "" if best.layer is None else f" at layer {best.layer}"
        over = best.lead.curve.members
        told_of = f", average over {over} curves" if over > 1 else ""
        sentences.append(_moved(f"{capitalise(meaning(measure).title)}{per}{at}", best.lead.curve, told=told_of))
    return sentences


def _moved(subject: str, curve: StepCurve, *, unit: str = "", items: str = "items", told: str = "") -> str:
    """Where a curve began and where it ended, and whether that is a change."""
    behind = f" (n = {curve.n[-1]:,} {items})" if curve.n[-1] else ""
    end = f"{reading(curve, -1)}{' ' if unit else ''}{unit} at step {curve.steps[-1]:,}{told}{behind}"
    if len(curve.steps) == 1:
        return f"{subject} is {end}."
    start = f"from {reading(curve, 0)} at step {curve.steps[0]:,} to {end}"
    if not apart(curve, 0, -1):
        return f"{subject} did not clearly change: {start}."
    return f"{subject} {'fell' if curve.value[-1] < curve.value[0] else 'rose'} {start}."


def reading(curve: StepCurve, place: int) -> str:
    """A value with its interval: three decimals for shares, four digits for the rest."""
    write = number if (meaning(curve.measure).span or (0, 2))[1] <= 1 else digits
    low, high = curve.low[place], curve.high[place]
    return write(curve.value[place]) + ("" if isnan(low) or isnan(high) else f" [{write(low)}, {write(high)}]")


def digits(value: float) -> str:
    """Four digits that count, without powers of ten.

    >>> digits(8.5219), digits(206.4147), digits(263601.46), digits(float("inf"))
    ('8.522', '206.4', '263,600', 'infinite')
    """
    if isnan(value) or isinf(value):
        return "infinite" if isinf(value) else "unknown"
    rounded = float(f"{value:.4g}")
    if abs(rounded) >= 1000 or rounded == 0:
        return f"{rounded:,.0f}"
    return f"{rounded:#.4g}".rstrip(".") if abs(rounded) >= 1e-4 else f"{rounded:.3e}"
