"""The words that verdicts, tables and captions share: names of measures and layers, numbers, counts."""

from collections.abc import Callable, Mapping, Sequence
from math import isinf, isnan
from typing import Any

import pandas as pd

from isogloss.measures.registry import describe
from isogloss.report.curves import Curve, above_floor, best_layer, by_partner, central_language, curves
from isogloss.report.style import display_names

Fact = tuple[str, str, str]
"""A number that a reader takes away: its label, its value, and what stands small behind it."""

ASKS = {
    "p@1": "finding a sentence's translation as its nearest neighbour",
    "cka": "whether the languages arrange their sentences alike",
    "word_agreement": "whether a word lies nearest to the word that translates it",
}
SHORT_TITLES = {"p@1": "P@1", "cka": "CKA", "word_agreement": "word agreement", "aer": "alignment error"}
METHOD_TITLES = {
    "cosine": "raw cosine",
    "centred": "centred",
    "csls": "CSLS",
    "debiased": "debiased",
    "itermax": "itermax",
    "statistical": "statistical aligner",
}
METHOD_EXPLANATIONS = {
    "cosine": "Raw cosine compares the vectors as they are.",
    "centred": "Centred first subtracts each language's own mean, so that a constant difference between two languages "
    "does not hide what they share.",
    "csls": "CSLS holds back sentences that are near to everything.",
}
LAYERS_SENTENCE = "Layer 0 is the embedding output, before any block; layer k is the output of block k."


def method_title(method: str) -> str:
    """A method's name in a legend; an unknown one keeps its own."""
    return METHOD_TITLES.get(method, method)


def measure_name(curve: Curve) -> str:
    """How a sentence calls a measure and its method, such as "centred P@1"."""
    name = SHORT_TITLES.get(curve.measure, describe(curve.measure).title)
    return f"{method_title(curve.method)} {name}" if curve.measure == "p@1" and curve.method else name


def listed(names: Sequence[str]) -> str:
    """Names with commas and an "and" before the last."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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
    names: list[str] = []
    for group in groups:
        names += [f"{group[0]} to {group[-1]}"] if len(group) > 2 else [str(layer) for layer in group]
    return f"{'layer' if len(layers) == 1 else 'layers'} {listed(names)}"


def number(value: float) -> str:
    """Three decimals, enough to see an interval move."""
    return f"{value:.3f}".replace("-0.000", "0.000")


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


def between(value: float, low: float, high: float, *, write: Callable[[float], str] = number) -> str:
    """A value with its interval in brackets, where it has one.

    >>> between(0.5, 0.4, 0.6), between(0.5, float("nan"), float("nan"))
    ('0.500 [0.400, 0.600]', '0.500')
    """
    return write(value) + ("" if isnan(low) or isnan(high) else f" [{write(low)}, {write(high)}]")


def value_of(row: Mapping[str, Any]) -> str:
    """The value of a row with its interval."""
    return between(row["value"], row["low"], row["high"])


def reading(curve: Curve, place: int) -> str:
    """A value of a curve with its interval: three decimals for shares, four digits for the rest."""
    write = number if (describe(curve.measure).axis or (0, 2))[1] <= 1 else digits
    return between(curve.value[place], curve.low[place], curve.high[place], write=write)


def capitalise(text: str) -> str:
    """First letter large, the rest untouched."""
    return text[:1].upper() + text[1:]


def span_of(low: int, high: int) -> str:
    """A count, or the range of counts.

    >>> span_of(1000, 1000), span_of(90, 1000)
    ('1,000', '90 to 1,000')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def count_items(curve: Curve) -> str:
    """How many sentences or words stand behind a value."""
    low, high = curve.counts
    items = "words" if curve.measure in ("word_agreement", "aer") else "sentences"
    if high == 0:
        return "n not recorded"
    return f"n = {span_of(low, high)} {items}{' each' if curve.members > 1 else ''}"


def say_value(curve: Curve, layer: int, *, floor: bool = True) -> str:
    """A value at a layer, its interval, and what chance gives."""
    place = curve.place(layer)
    text, chance = between(curve.value[place], curve.low[place], curve.high[place]), curve.floor[place]
    if not floor or describe(curve.measure).better == "lower":
        return text
    return text + (", where no floor was measured" if isnan(chance) else f", where chance gives {number(chance)}")


def name_partners(rows: pd.DataFrame, lead: Curve) -> list[str]:
    """Say which language lies nearest to the central one at the best layer, and which farthest; none for two."""
    centre, best = central_language(rows), best_layer(lead)
    parts = curves(rows, lead.measure, lead.method)
    partners = {code: curve for code, curve in by_partner(parts, centre).items() if best in curve.at}
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
    low, high = (pick(count for curve in partners.values() for count in curve.counts) for pick in (min, max))
    warning = f"; they were searched among {low:,} to {high:,} sentences, and more sentences make it harder"
    unequal = lead.measure == "p@1" and high > 1.1 * low > 0
    sentence = f"At layer {best}, {near_name} is closest to {names[centre]} ({near_value}) and {far_name} farthest"
    return [f"{sentence} ({far_value}){warning if unequal else ''}."]


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as dictionaries."""
    return [{str(name): cell for name, cell in row.items()} for row in rows.to_dict("records")]
