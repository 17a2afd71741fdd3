"""The verdict of a run in a few plain sentences: where the languages meet, how sure that is, and what chance gives.

Rows with a step are a training's and get the sentences of `stepverdict`; the rest of this file is about maps.
"""

from collections.abc import Sequence
from math import isnan

import pandas as pd

from isogloss.report.driftverdict import drift_verdict
from isogloss.report.languages import display_names
from isogloss.report.lookup import is_lookup, lookup_verdict
from isogloss.report.phrases import (
    ASKS,
    capitalise,
    count_items,
    measure_name,
    name_layers,
    name_partners,
    number,
    say_value,
)
from isogloss.report.plans import is_drift
from isogloss.report.steps import with_steps, without_steps
from isogloss.report.stepverdict import step_verdict
from isogloss.report.stitchpart import is_stitch, stitch_verdict
from isogloss.report.summary import (
    LEADING,
    Curve,
    above_floor,
    alike,
    average,
    best_layer,
    curves,
    leading,
    overall,
    pairs_repeat,
)
from isogloss.report.taskcurves import is_task_curve, task_curve_verdict
from isogloss.report.transferverdict import is_transfer, transfer_verdict

MOST_SENTENCES = 6


def verdict(frame: pd.DataFrame) -> list[str]:
    """Three to six sentences on which layers are most cross-lingual, from the rows of a map.

    Centred retrieval P@1 leads, then CKA, word agreement and alignment error; each with its value, its interval, the
    number of items and what chance gives. Rows with a step come first: how loss, perplexity and retrieval moved. A
    frame of several models gets a verdict for each, named. A model tuned on one language, or
    trained on a task, has a verdict of its own kind.
    """
    if is_drift(frame):
        return drift_verdict(frame)
    if is_lookup(frame):
        return lookup_verdict(frame)
    if is_stitch(frame):
        return stitch_verdict(frame)
    if is_transfer(frame):
        return transfer_verdict(frame)
    if is_task_curve(frame):
        return task_curve_verdict(frame)
    models = [model for model in frame["model"].unique() if model]
    if len(models) < 2:
        return _verdict_of_one(frame)
    return [f"{model}: {line}" for model in models for line in _verdict_of_one(frame[frame["model"] == model])]


def _verdict_of_one(rows: pd.DataFrame) -> list[str]:
    trained, mapped = with_steps(rows), without_steps(rows)
    if trained.empty:
        return _map_verdict(rows)
    return step_verdict(trained) + (_map_verdict(mapped) if leading(mapped) else [])


def _map_verdict(rows: pd.DataFrame) -> list[str]:
    first = leading(rows)
    if first is None:
        return ["These rows hold no retrieval, CKA or word agreement by layer, so no layer can be named."]
    lead = overall(rows, *first)
    assert lead is not None
    others = [overall(rows, measure, variant) for measure, variant in LEADING[3:] if measure != first[0]]
    sentences = [_lead(lead), _basis(lead, curves(rows, *first)), *name_partners(rows, lead)]
    sentences += [_second(other, lead) for other in others if other is not None]
    sentences += _alignment(rows)
    return (sentences + _direction_of_travel(lead))[:MOST_SENTENCES]


def _lead(curve: Curve) -> str:
    best, same = best_layer(curve), alike(curve)
    told = f"{measure_name(curve)} ({ASKS[curve.measure]})"
    numbers = say_value(curve, best)
    unsure = isnan(curve.low[curve.place(best)])
    if above_floor(curve, best) is False:
        why = "which is no more than that" if unsure else "and its interval reaches down to that floor"
        return f"No layer is better than chance: {told} is highest at layer {best} with {numbers}, {why}."
    if len(same) == len(curve.layers) > 1:
        how = "none can be told from the best" if curve.tied else "all intervals overlap the best one's"
        opening = f"No layer stands out: of {name_layers(same)} {how}"
        return f"{opening}, layer {best}, where {told} is {numbers}."
    if len(same) > 1:
        opening = f"The languages meet most closely at {name_layers(same)}, which cannot be told apart"
        return f"{opening}: {told} peaks at layer {best} with {numbers}."
    how = (
        ", better than any other layer on the same sentences"
        if curve.tied
        else ", whose interval overlaps no other layer's"
    )
    sure = "" if unsure else how
    return f"The languages meet most closely at layer {best}{sure}: {told} is {numbers}."


def _basis(curve: Curve, parts: Sequence[Curve]) -> str:
    """What an average was taken over, and how many items stand behind it."""
    items = count_items(curve)
    if curve.members == 1:
        pair = " to ".join(display_names([code for code in (curve.source, curve.target) if code]).values())
        return f"This is one curve, {pair}, {items}." if pair else f"This is one curve, {items}."
    if curve.tied is not None:
        members = _members(curve, parts)
        return f"The value is the average over {members}, {items}; layers are compared on the same sentences."
    return (
        f"The value is the average over {_members(curve, parts)}, {items}; its interval is the average of theirs, no "
        "narrower one being safe for pairs that share their sentences."
    )


def _members(curve: Curve, parts: Sequence[Curve]) -> str:
    """How many curves of which kind an average is made of."""
    pairs = {(part.source, part.target) for part in parts}
    kind = "pairs of languages" if curve.measure == "cka" else "directions"
    if pairs_repeat(parts):
        kind = kind if len(pairs) > 1 else {"directions": "direction"}.get(kind, "pair of languages")
        texts, seeds = len({part.data for part in parts}), len({part.seed for part in parts})
        on = [f"{count} {name}" for count, name in ((texts, "data sets"), (seeds, "seeds")) if count > 1]
        return f"{curve.members} curves ({len(pairs)} {kind}{' on ' if on else ', repeated'}{' and '.join(on)})"
    both = all((target, source) in pairs for source, target in pairs)
    return f"{curve.members} {kind}" + (" (each pair of languages both ways)" if both else "")


def _second(curve: Curve, lead: Curve) -> str:
    best, same = best_layer(curve), alike(curve)
    name, told = measure_name(curve), _spread(curve)
    if above_floor(curve, best) is False:
        return f"By {name} no layer is better than chance: at best {say_value(curve, best)}, at layer {best} ({told})."
    if above_floor(lead, best_layer(lead)) is False:
        opening = f"{capitalise(name)} does rise above chance"
    elif len(alike(lead)) == len(lead.layers) or len(same) == len(curve.layers):  # nothing to agree with
        return f"{capitalise(name)} is highest at {_where(curve)} with {say_value(curve, best)} ({told})."
    else:
        opening = f"{capitalise(name)} {'agrees' if set(same) & set(alike(lead)) else 'differs'}"
    return f"{opening}: it is highest at {_where(curve)} with {say_value(curve, best)} ({told})."


def _where(curve: Curve) -> str:
    """The best layer, and those that cannot be told from it."""
    best, same = best_layer(curve), alike(curve)
    if len(same) == 1:
        return f"layer {best}"
    told = "no layer stands out" if len(same) == len(curve.layers) else f"{name_layers(same)} cannot be told apart"
    return f"layer {best} ({told})"


def _spread(curve: Curve) -> str:
    """What stands behind a value, in brackets."""
    kind = "pairs" if curve.measure == "cka" else "directions"
    return f"average over {curve.members} {kind}, {count_items(curve)}" if curve.members > 1 else count_items(curve)


def _alignment(rows: pd.DataFrame) -> list[str]:
    parts = curves(rows, "aer", "itermax")
    curve = average(parts)
    if curve is None:
        return []
    sentence = f"Words are linked with the fewest errors at {_where(curve)}: {say_value(curve, best_layer(curve))}"
    return [f"{sentence} (lower is better){_beside_statistics(rows, parts, curve)}."]


def _beside_statistics(rows: pd.DataFrame, parts: Sequence[Curve], curve: Curve) -> str:
    """How the best layer compares with a statistical aligner on the same pairs; "" without one."""
    pairs = {(part.source, part.target) for part in parts if part.layers == curve.layers}
    chosen = rows[(rows["measure"] == "aer") & (rows["variant"] == "statistical")]
    same = [pair in pairs for pair in zip(chosen["source"], chosen["target"], strict=True)]
    baseline = float(chosen.loc[same, "value"].mean())
    if isnan(baseline):
        return ""
    place = curve.place(best_layer(curve))
    value, low, high = curve.value[place], curve.low[place], curve.high[place]
    low, high = (value, value) if isnan(low) or isnan(high) else (low, high)
    side = "better than" if high < baseline else "worse than" if low > baseline else "not clearly different from"
    return f", {side} the {number(baseline)} of a statistical aligner"


def _direction_of_travel(curve: Curve) -> list[str]:
    """How the two ends of the stack compare with the best layer, when they can be told from it."""
    best, first, last = best_layer(curve), curve.layers[0], curve.layers[-1]
    same = alike(curve)
    if above_floor(curve, best) is False or len(same) == len(curve.layers):
        return []
    ends = [layer for layer in (first, last) if layer not in same]
    if not ends:
        return []
    said = " and ".join(f"{number(curve.value[curve.place(layer)])} at layer {layer}" for layer in ends)
    names = {first: "the embedding output" if first == 0 else f"layer {first}", last: "the last layer"}
    places = " and ".join(names[layer] for layer in ends)
    return [f"Away from there the languages lie further apart: {measure_name(curve)} is {said} ({places})."]
