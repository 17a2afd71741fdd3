"""The words a verdict is made of: how measures, layers, numbers and counts are named in a sentence."""

from collections.abc import Sequence
from math import isnan

import pandas as pd

from isogloss.report.languages import display_names
from isogloss.report.meanings import LOWER, meaning, variant_title
from isogloss.report.summary import Curve, above_floor, best_layer, by_partner, central_language, curves

ASKS = {
    "p@1": "finding a sentence's translation as its nearest neighbour",
    "cka": "whether the languages arrange their sentences alike",
    "word_agreement": "whether a word lies nearest to the word that translates it",
}


def measure_name(curve: Curve) -> str:
    """How a sentence calls a measure and its variant, such as "centred P@1"."""
    plain = {"p@1": "P@1", "cka": "CKA", "word_agreement": "word agreement", "aer": "alignment error"}
    name = plain.get(curve.measure, meaning(curve.measure).title)
    return f"{variant_title(curve.variant)} {name}" if curve.measure == "p@1" and curve.variant else name


def listed(parts: Sequence[str]) -> str:
    """Parts with commas and an "and" before the last."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


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
    return f"{'layer' if len(layers) == 1 else 'layers'} {listed(parts)}"


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


def say_value(curve: Curve, layer: int, *, floor: bool = True) -> str:
    """A value, its interval, and what chance gives."""
    place = curve.place(layer)
    text = number(curve.value[place])
    low, high, chance = curve.low[place], curve.high[place], curve.floor[place]
    text += "" if isnan(low) or isnan(high) else f" [{number(low)}, {number(high)}]"
    if not floor or meaning(curve.measure).better == LOWER:
        return text
    return text + (", where no floor was measured" if isnan(chance) else f", where chance gives {number(chance)}")


def name_partners(rows: pd.DataFrame, lead: Curve) -> list[str]:
    """Which language lies nearest to the central one at the best layer, and which farthest; empty for two languages."""
    centre, best = central_language(rows), best_layer(lead)
    parts = curves(rows, lead.measure, lead.variant)
    partners = {code: curve for code, curve in by_partner(parts, centre).items() if best in curve.layers}
    if len(partners) < 2 or above_floor(lead, best) is False:
        return []
    ranked = sorted(partners, key=lambda code: -partners[code].value[partners[code].place(best)])
    near, far = partners[ranked[0]], partners[ranked[-1]]
    names = display_names([centre, *ranked])
    near_name, far_name = names[ranked[0]], names[ranked[-1]]
    near_value, far_value = say_value(near, best, floor=False), say_value(far, best, floor=False)
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
