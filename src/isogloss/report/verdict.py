"""The verdict of a map in a few plain sentences: where the languages meet, how sure that is, and what chance gives."""

from collections.abc import Sequence
from math import isnan

import pandas as pd

from isogloss.report.languages import display_names
from isogloss.report.meanings import LOWER, meaning, variant_title
from isogloss.report.summary import (
    LEADING,
    Curve,
    above_floor,
    alike,
    average,
    best_layer,
    by_partner,
    central_language,
    curves,
    leading,
    overall,
    pairs_repeat,
)

MOST_SENTENCES = 6

ASKS = {
    "p@1": "finding a sentence's translation as its nearest neighbour",
    "cka": "whether the languages arrange their sentences alike",
    "word_agreement": "whether a word lies nearest to the word that translates it",
}


def verdict(frame: pd.DataFrame) -> list[str]:
    """Three to six sentences on which layers are most cross-lingual, from the rows of a map.

    Centred retrieval P@1 leads, then CKA, word agreement and alignment error; each with its value, its interval, the
    number of items and what chance gives. A frame of several models gets a verdict for each, named.
    """
    models = [model for model in frame["model"].unique() if model]
    if len(models) < 2:
        return _verdict_of_one(frame)
    return [f"{model}: {line}" for model in models for line in _verdict_of_one(frame[frame["model"] == model])]


def _verdict_of_one(rows: pd.DataFrame) -> list[str]:
    first = leading(rows)
    if first is None:
        return ["These rows hold no retrieval, CKA or word agreement by layer, so no layer can be named."]
    lead = overall(rows, *first)
    assert lead is not None
    others = [overall(rows, measure, variant) for measure, variant in LEADING[3:] if measure != first[0]]
    sentences = [_lead(lead), _basis(lead, curves(rows, *first)), *_partners(rows, lead)]
    sentences += [_second(other, lead) for other in others if other is not None]
    sentences += _alignment(rows)
    return (sentences + _direction_of_travel(lead))[:MOST_SENTENCES]


def _lead(curve: Curve) -> str:
    best, same = best_layer(curve), alike(curve)
    told = f"{measure_name(curve)} ({ASKS[curve.measure]})"
    numbers = _numbers(curve, best)
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


def _partners(rows: pd.DataFrame, lead: Curve) -> list[str]:
    centre, best = central_language(rows), best_layer(lead)
    parts = curves(rows, lead.measure, lead.variant)
    partners = {code: curve for code, curve in by_partner(parts, centre).items() if best in curve.layers}
    if len(partners) < 2 or above_floor(lead, best) is False:
        return []
    ranked = sorted(partners, key=lambda code: -partners[code].value[partners[code].place(best)])
    near, far = partners[ranked[0]], partners[ranked[-1]]
    names = display_names([centre, *ranked])
    near_name, far_name = names[ranked[0]], names[ranked[-1]]
    near_value, far_value = _numbers(near, best, floor=False), _numbers(far, best, floor=False)
    if near.low[near.place(best)] <= far.high[far.place(best)]:
        return [
            f"At layer {best} no language is clearly closer to {names[centre]} than another: from {near_name} "
            f"({near_value}) to {far_name} ({far_value}) the intervals overlap."
        ]
    sentence = f"At layer {best}, {near_name} is closest to {names[centre]} ({near_value}) and {far_name} farthest"
    return [f"{sentence} ({far_value}){_pool_sizes(lead, list(partners.values()))}."]


def _pool_sizes(lead: Curve, partners: Sequence[Curve]) -> str:
    """A warning when languages were searched among unequally many sentences."""
    low, high = min(curve.n[0] for curve in partners), max(curve.n[1] for curve in partners)
    if lead.measure != "p@1" or not high > 1.1 * low > 0:
        return ""
    return f"; they were searched among {low:,} to {high:,} sentences, and more sentences make it harder"


def _second(curve: Curve, lead: Curve) -> str:
    best, same = best_layer(curve), alike(curve)
    name, told = measure_name(curve), _spread(curve)
    if above_floor(curve, best) is False:
        return f"By {name} no layer is better than chance: at best {_numbers(curve, best)}, at layer {best} ({told})."
    if above_floor(lead, best_layer(lead)) is False:
        opening = f"{capitalise(name)} does rise above chance"
    elif len(alike(lead)) == len(lead.layers) or len(same) == len(curve.layers):  # nothing to agree with
        return f"{capitalise(name)} is highest at {_where(curve)} with {_numbers(curve, best)} ({told})."
    else:
        opening = f"{capitalise(name)} {'agrees' if set(same) & set(alike(lead)) else 'differs'}"
    return f"{opening}: it is highest at {_where(curve)} with {_numbers(curve, best)} ({told})."


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
    sentence = f"Words are linked with the fewest errors at {_where(curve)}: {_numbers(curve, best_layer(curve))}"
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


def measure_name(curve: Curve) -> str:
    """How a sentence calls a measure and its variant, such as "centred P@1"."""
    plain = {"p@1": "P@1", "cka": "CKA", "word_agreement": "word agreement", "aer": "alignment error"}
    name = plain.get(curve.measure, meaning(curve.measure).title)
    return f"{variant_title(curve.variant)} {name}" if curve.measure == "p@1" and curve.variant else name


def name_layers(layers: Sequence[int]) -> str:
    """Layers as ranges.

    >>> name_layers([7, 8, 9]), name_layers([2, 7, 8])
    ('layers 7 to 9', 'layers 2, 7 and 8')
    """
    groups: list[list[int]] = []
    for layer in layers:
        if groups and layer == groups[-1][-1] + 1:
            groups[-1].append(layer)
        else:
            groups.append([layer])
    parts: list[str] = []
    for group in groups:
        parts += [f"{group[0]} to {group[-1]}"] if len(group) > 2 else [str(layer) for layer in group]
    joined = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"{'layer' if len(layers) == 1 else 'layers'} {joined}"


def number(value: float) -> str:
    """Three decimals, enough to see an interval move."""
    return f"{value:.3f}".replace("-0.000", "0.000")


def capitalise(text: str) -> str:
    """First letter large, the rest untouched."""
    return text[:1].upper() + text[1:]


def count_items(curve: Curve) -> str:
    """How many sentences or words stand behind a value."""
    low, high = curve.n
    items = "words" if curve.measure in ("word_agreement", "aer") else "sentences"
    if high == 0:
        return "n not recorded"
    each = " each" if curve.members > 1 else ""
    return f"n = {low:,} {items}{each}" if low == high else f"n = {low:,} to {high:,} {items}{each}"


def _numbers(curve: Curve, layer: int, *, floor: bool = True) -> str:
    place = curve.place(layer)
    text = number(curve.value[place])
    low, high, chance = curve.low[place], curve.high[place], curve.floor[place]
    text += "" if isnan(low) or isnan(high) else f" [{number(low)}, {number(high)}]"
    if not floor or meaning(curve.measure).better == LOWER:
        return text
    return text + (", where no floor was measured" if isnan(chance) else f", where chance gives {number(chance)}")
