"""The page of a map: at which layers the languages meet, every measure by layer, language by layer and pair by pair.

To show one more figure, write a function of a run that returns a `Figure` and add it to `figures`: its `section` says
where on the page it stands (`curves`, `heat-map` or `matrix`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.measures.registry import describe
from isogloss.report.curves import (
    LEADING,
    Curve,
    above_floor,
    alike,
    average,
    best_layer,
    by_partner,
    curves,
    leading,
    line_of,
    overall,
)
from isogloss.report.folder import RunFolder
from isogloss.report.style import DARK, colour, display_names, file_name, language_name, member_colour, printable
from isogloss.report.verdict import (
    ASKS,
    METHOD_TITLES,
    Fact,
    capitalise,
    count_items,
    measure_name,
    method_title,
    name_layers,
    name_partners,
    number,
    say_value,
    span_of,
)

MOST_SENTENCES = 6
MEASURES = ("p@1", "cka", "word_agreement", "aer", "anisotropy")
METHODS = ("centred", "cosine", "csls", "debiased", "itermax")
METHOD_LOOKS = {"centred": (DARK, 0), "cosine": ("#D55E00", 2), "csls": ("#009E73", 1)}
COMPARED = ("p@1_mean", "p@1_behind", "cka_mean", "cka_behind")  # part of the curves of p@1 and cka
COUNTED = ("duplicates", "truncated", "skipped", "coverage", "identical", "vocabulary", "learned_from")
CHOSEN = ("gap", "relative_gap", "chosen_step", "chosen_rate")
NOT_DRAWN = frozenset(("p@5", "p@10", "mrr", *COUNTED, *CHOSEN, *COMPARED))
AVERAGE = "the average over language pairs"
Groups = Mapping[tuple[str, str], Sequence[Curve]]
MOST_MEMBERS = 24  # curves of single pairs that have room behind their average


def verdict(run: RunFolder) -> list[str]:
    """Three to six sentences on which layers are most cross-lingual; a table of several models has some for each.

    Centred retrieval P@1 leads, then CKA, word agreement and alignment error; each with its value, its interval, the
    number of items and what chance gives.
    """
    return [head + sentence for head, own in run.by_model() for sentence in map_sentences(own.mapped)]


def map_sentences(rows: pd.DataFrame) -> list[str]:
    """The verdict on the rows of one model."""
    first = leading(rows)
    if first is None:
        return ["These rows hold no retrieval, CKA or word agreement by layer, so no layer can be named."]
    lead = overall(rows, *first)
    assert lead is not None
    others = [overall(rows, measure, method) for measure, method in LEADING[3:] if measure != first[0]]
    sentences = [_lead(lead), _basis(lead, curves(rows, *first)), *name_partners(rows, lead)]
    sentences += [_second(other, lead) for other in others if other is not None]
    sentences += _alignment(rows)
    return (sentences + _direction_of_travel(lead))[:MOST_SENTENCES]


def facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away."""
    curve = lead_curve(run)
    if curve is None:
        return []
    low, high = curve.counts
    counted = "words a pair" if curve.measure == "word_agreement" else "sentences a pair"
    numbers = [*layer_facts(curve, run.depth), ("languages", str(len(run.languages)), "")]
    return [*numbers, (counted, span_of(low, high), "")] if high else numbers


def layer_facts(curve: Curve, depth: int | None) -> list[Fact]:
    """The best layer of a curve, its value, and what chance gives."""
    best = best_layer(curve)
    place = curve.place(best)
    label = "highest at layer" if above_floor(curve, best) is False else "best layer"
    numbers = [(label, str(best), f"of {depth or curve.at[-1]}"), (measure_name(curve), number(curve.value[place]), "")]
    return numbers if isnan(curve.floor[place]) else [*numbers, ("by chance", number(curve.floor[place]), "")]


def lead_curve(run: RunFolder) -> Curve | None:
    """The leading measure over the layers, averaged over language pairs."""
    first = leading(run.mapped)
    return None if first is None else overall(run.mapped, *first)


def caution(run: RunFolder) -> bool:
    """Whether the page should warn: nothing was measured by layer, or no layer is better than chance."""
    curve = lead_curve(run)
    return curve is None or above_floor(curve, best_layer(curve)) is False


def figures(run: RunFolder) -> list[Figure]:
    """Every measure by layer, language by layer, and pair by pair."""
    groups = {pair: curves(run.mapped, *pair) for pair in drawn(run)}
    measures = dict.fromkeys(measure for measure, _ in groups)
    means = {pair: mean for pair in groups if (mean := overall(run.mapped, *pair)) is not None}
    layers = [_layer_figure(run, measure, groups, means) for measure in measures]
    first = leading(run.mapped)
    shades = [_heat_map(run, *pair, parts, lead=pair == first) for pair, parts in groups.items()]
    pairs = {pair: parts for pair, parts in groups.items() if any(part.target for part in parts)}
    return layers + shades + [_matrix(run, *pair, parts, lead=pair == first) for pair, parts in pairs.items()]


def drawn(run: RunFolder) -> list[tuple[str, str]]:
    """The measures and methods with a value at two layers or more, the known ones first."""
    layered = run.mapped[run.mapped["layer"].notna() & run.mapped["value"].notna()]
    known = layered[~layered["measure"].isin(NOT_DRAWN)][["measure", "method", "layer"]].drop_duplicates()
    counts = Counter(zip(known["measure"].astype(str), known["method"].astype(str), strict=True))
    order = {name: index for index, name in enumerate((*MEASURES, *METHODS))}
    pairs = [pair for pair, count in counts.items() if count > 1]
    return sorted(pairs, key=lambda pair: [order.get(name, len(order)) for name in pair])


def _layer_figure(run: RunFolder, measure: str, groups: Groups, means: Mapping[tuple[str, str], Curve]) -> Figure:
    """One measure by layer: its average by method, then the average of each data set, then every language pair."""
    methods = [method for name, method in groups if name == measure]
    parts = [part for method in methods for part in groups[measure, method]]
    first = _panel(run, [means[measure, method] for method in methods], methods)
    if len(methods) == 1:
        first = replace(first, lines=[*_faint_lines(run, parts), *first.lines])
    panels = [first]
    if _pairs_repeat(groups[measure, methods[0]]):
        for data in dict.fromkeys(part.data for part in parts):
            same = [[part for part in groups[measure, method] if part.data == data] for method in methods]
            panels.append(_panel(run, [average(own) for own in same if own], methods, f"{AVERAGE}, {data} only"))
    several = len({part.data for group in groups.values() for part in group}) > 1
    # Every direction that some curve has, once; CKA has none of its own.
    directed = (part for (name, _), own in groups.items() if name != "cka" for part in own if part.target)
    for source, target, data in dict.fromkeys((part.source, part.target, part.data) for part in directed):
        title = f"{run.names[source]} → {run.names[target]}{f' ({data})' if several and data else ''}"
        if own := [part for part in parts if _belongs(part, source, target, data)]:
            panels.append(_panel(run, own, methods, title, pair=(source, target)))
    thin, members = "", [line.label for line in first.lines if line.faint]
    if members:
        some = len(members) < first.lines[-1].members
        pairs = f"pairs with {language_name(run.centre)}" if some else "single pairs"
        thin = f"Thin: {pairs if any(' ' in label for label in members) else 'single languages'}."
    about = describe(measure)
    return Figure(
        f"curve-{file_name(measure)}",
        " ".join(filter(None, (about.title, METHOD_TITLES.get(methods[0]) if len(methods) == 1 else ""))),
        " ".join(filter(None, (f"{printable(run.model)}.", first.note, thin, "Layer 0 is the embedding output."))),
        panels,
        xlabel="layer",
        section="curves",
        explanation=about.explanation,
        better=about.better,
        axis=about.axis,
        chosen={"Show": AVERAGE},
    )


def _pairs_repeat(parts: Sequence[Curve]) -> bool:
    """Whether some language pair was measured on more than one data set (or seed)."""
    return len({(part.source, part.target) for part in parts}) < len(parts)


def _belongs(part: Curve, source: str, target: str, data: str) -> bool:
    if not part.target:
        return part.source in (source, target)
    pair = (part.source, part.target)
    return part.data == data and (pair == (source, target) or (part.measure == "cka" and pair == (target, source)))


def _panel(
    run: RunFolder,
    parts: Sequence[Curve],
    methods: Sequence[str],
    choice: str = AVERAGE,
    pair: tuple[str, str] | None = None,
) -> Panel:
    lines = [_line(run, part, methods, single=pair is not None) for part in parts]
    # Values without a layer that belong beside a curve: a statistical aligner's error.
    rows = run.mapped[run.mapped["layer"].isna() & run.mapped["value"].notna() & (run.mapped["measure"] == "aer")]
    if pair is not None:
        rows = rows[(rows["source"] == pair[0]) & (rows["target"] == pair[1])]
    means = rows.groupby("method")["value"].mean()
    references = {method_title(str(method)): float(value) for method, value in means.items()}
    beside = references if parts[0].measure == "aer" else {}
    return Panel("", lines, choice={"Show": choice}, note=_note(parts), references=beside)


def _line(run: RunFolder, curve: Curve, methods: Sequence[str], *, single: bool) -> Line:
    """A curve with the look of its method, or of its language where it is one of the two languages of a pair."""
    about, several = describe(curve.measure), len(methods) > 1
    look = METHOD_LOOKS.get(curve.method) or (colour(methods.index(curve.method)), 0)
    ink, dash = look if several else (DARK, 0)
    label, code = method_title(curve.method) if several else about.title, curve.method
    if single and curve.source and not curve.target:
        label, code, ink = run.names[curve.source], curve.source, member_colour(run.languages, curve.source)
    best = best_layer(curve) if about.better in ("higher", "lower") else None
    return line_of(curve, label, colour=ink, dash=dash, best=best, code=code)


def _faint_lines(run: RunFolder, parts: Sequence[Curve]) -> list[Line]:
    """The members of an average; of very many only those that start from the central language."""
    if len(parts) < (3 if parts[0].target else 2):
        return []
    few = len(parts) <= MOST_MEMBERS
    shown = [part for part in parts if few or not part.target or part.source == run.centre]
    partners = [part.target if part.target and part.source == run.centre else part.source for part in shown]
    inks = [member_colour(run.languages, partner) for partner in partners]
    return [line_of(part, _pair_name(part), faint=True, colour=ink) for part, ink in zip(shown, inks, strict=True)]


def _pair_name(part: Curve) -> str:
    return f"{part.source} {'–' if part.measure == 'cka' else '→'} {part.target}" if part.target else part.source


def _note(parts: Sequence[Curve]) -> str:
    """What curves average, what their band is, and how many items stand behind them."""
    kind = {"anisotropy": "languages", "cka": "language pairs"}.get(parts[0].measure, "directions")
    members = [part.members for part in parts]
    counts = [count for part in parts for count in part.counts if count]
    own = any(part.tied is not None for part in parts)
    band = "; the band is its interval" if own else "; the band averages their intervals"
    known = any(not isnan(low) for part in parts for low in part.low)
    mean = f"Average over {span_of(min(members), max(members))} {kind}{band if known else ''}."
    count = f"n\u00a0=\u00a0{span_of(min(counts), max(counts))}." if counts else ""
    return " ".join(filter(None, (mean if max(members) > 1 else "", count)))


def _heat_map(run: RunFolder, measure: str, method: str, parts: Sequence[Curve], *, lead: bool) -> Figure:
    """Languages (or directions, where there are two languages) by layer, as shades."""
    if len(run.languages) < 3:
        names = dict.fromkeys(map(_pair_name, parts))
        rows = {name: average([part for part in parts if _pair_name(part) == name]) for name in names}
    else:
        rows = by_partner(parts, run.centre)
    ranked = sorted(rows, key=lambda code: -sum(value for value in rows[code].value if not isnan(value)))
    alone = len(run.languages) < 3 or not any(part.target for part in parts)
    told = "" if alone else f"Each row: that language with {run.names[run.centre]}, both directions averaged."
    lines = [line_of(rows[code], run.names.get(code, code)) for code in ranked]
    return Figure(
        "heat-map" if lead else f"heat-map-{file_name(measure)}-{file_name(method)}",
        _titled(run, measure, method),
        f"{told} Layer 0 is the embedding output.".strip(),
        [Panel("", lines, note=f"{told[:-1]}; the rows are sorted." if told else "")],
        kind="shades",
        section="heat-map",
        xlabel="layer",
        ylabel="direction" if alone and parts[0].target else "language",
        better=describe(measure).better,
        axis=describe(measure).axis,
        page_only=not lead,
    )


def _matrix(run: RunFolder, measure: str, method: str, parts: Sequence[Curve], *, lead: bool) -> Figure:
    """All pairs of languages at one layer, the best at first."""
    symmetric = measure == "cka"
    groups: dict[tuple[str, str], list[Curve]] = {}
    for part in parts:
        groups.setdefault((part.source, part.target), []).append(part)
        if symmetric:
            groups.setdefault((part.target, part.source), []).append(part)
    codes = [code for code in run.languages if any(code in pair for pair in groups)]
    lines = [
        line_of(average(group), "", cell=(run.names[source], run.names[target]))
        for (source, target), group in groups.items()
    ]
    reading = "Row: the language searched from; column: the language searched in."
    reading = "The measure is the same both ways." if symmetric else reading
    missing = " Empty cells were not measured." if len(groups) < len(codes) * (len(codes) - 1) else ""
    mean = overall(run.mapped, measure, method)
    assert mean is not None
    return Figure(
        "language-matrix" if lead else f"language-matrix-{file_name(measure)}-{file_name(method)}",
        _titled(run, measure, method),
        reading + missing,
        [Panel("", lines, note=reading + missing)],
        kind="matrix",
        section="matrix",
        xlabel="" if symmetric else "to",
        ylabel="" if symmetric else "from",
        ticks={float(index): run.names[code] for index, code in enumerate(codes)},
        chosen={"Layer": str(best_layer(mean))},
        better=describe(measure).better,
        axis=describe(measure).axis,
        page_only=not lead,
    )


def _titled(run: RunFolder, measure: str, method: str) -> str:
    """A measure with its method, where it has several."""
    several = sum(name == measure for name, _ in drawn(run)) > 1
    return f"{describe(measure).title}, {method_title(method)}" if several else describe(measure).title


def _lead(curve: Curve) -> str:
    best, same = best_layer(curve), alike(curve)
    told = f"{measure_name(curve)} ({ASKS[curve.measure]})"
    numbers = say_value(curve, best)
    unsure = isnan(curve.low[curve.place(best)])
    if above_floor(curve, best) is False:
        why = "which is no more than that" if unsure else "and its interval reaches down to that floor"
        return f"No layer is better than chance: {told} is highest at layer {best} with {numbers}, {why}."
    if len(same) == len(curve.at) > 1:
        how = "none can be told from the best" if curve.tied else "all intervals overlap the best one's"
        opening = f"No layer stands out: of {name_layers(same)} {how}"
        return f"{opening}, layer {best}, where {told} is {numbers}."
    if len(same) > 1:
        opening = f"The languages meet most closely at {name_layers(same)}, which cannot be told apart"
        return f"{opening}: {told} peaks at layer {best} with {numbers}."
    how = ", whose interval overlaps no other layer's" if not unsure else ""
    how = ", better than any other layer on the same sentences" if curve.tied and not unsure else how
    return f"The languages meet most closely at layer {best}{how}: {told} is {numbers}."


def _basis(curve: Curve, parts: Sequence[Curve]) -> str:
    """What an average was taken over, and how many items stand behind it."""
    items = count_items(curve)
    if curve.members == 1:
        pair = " to ".join(display_names([code for code in (curve.source, curve.target) if code]).values())
        return f"This is one curve, {pair}, {items}." if pair else f"This is one curve, {items}."
    pairs = {(part.source, part.target) for part in parts}
    kind = "pairs of languages" if curve.measure == "cka" else "directions"
    if _pairs_repeat(parts):
        kind = kind if len(pairs) > 1 else {"directions": "direction"}.get(kind, "pair of languages")
        texts, seeds = len({part.data for part in parts}), len({part.seed for part in parts})
        on = [f"{count} {name}" for count, name in ((texts, "data sets"), (seeds, "seeds")) if count > 1]
        members = f"curves ({len(pairs)} {kind}{' on ' if on else ', repeated'}{' and '.join(on)})"
    else:
        both = all((target, source) in pairs for source, target in pairs)
        members = f"{kind} (each pair of languages both ways)" if both else kind
    averaged = (
        "its interval is the average of theirs, no narrower one being safe for pairs that share their sentences"
        if curve.tied is None
        else "layers are compared on the same sentences"
    )
    return f"The value is the average over {curve.members} {members}, {items}; {averaged}."


def _second(curve: Curve, lead: Curve) -> str:
    best, same = best_layer(curve), alike(curve)
    kind = "pairs" if curve.measure == "cka" else "directions"
    over = f"average over {curve.members} {kind}, " if curve.members > 1 else ""
    name, told = measure_name(curve), f"{over}{count_items(curve)}"
    if above_floor(curve, best) is False:
        return f"By {name} no layer is better than chance: at best {say_value(curve, best)}, at layer {best} ({told})."
    if above_floor(lead, best_layer(lead)) is False:
        opening = f"{capitalise(name)} does rise above chance"
    elif len(alike(lead)) == len(lead.at) or len(same) == len(curve.at):  # nothing to agree with
        return f"{capitalise(name)} is highest at {_where(curve)} with {say_value(curve, best)} ({told})."
    else:
        opening = f"{capitalise(name)} {'agrees' if set(same) & set(alike(lead)) else 'differs'}"
    return f"{opening}: it is highest at {_where(curve)} with {say_value(curve, best)} ({told})."


def _where(curve: Curve) -> str:
    """The best layer, and those that cannot be told from it."""
    best, same = best_layer(curve), alike(curve)
    if len(same) == 1:
        return f"layer {best}"
    told = "no layer stands out" if len(same) == len(curve.at) else f"{name_layers(same)} cannot be told apart"
    return f"layer {best} ({told})"


def _alignment(rows: pd.DataFrame) -> list[str]:
    """The layer with the fewest alignment errors, and how it compares with a statistical aligner on the same pairs."""
    parts = curves(rows, "aer", "itermax")
    if not parts:
        return []
    curve = average(parts)
    linked = f"Words are linked with the fewest errors at {_where(curve)}: {say_value(curve, best_layer(curve))}"
    pairs = {(part.source, part.target) for part in parts if part.at == curve.at}
    chosen = rows[(rows["measure"] == "aer") & (rows["method"] == "statistical")]
    same = [pair in pairs for pair in zip(chosen["source"], chosen["target"], strict=True)]
    baseline = float(chosen.loc[same, "value"].mean())
    if isnan(baseline):
        return [f"{linked} (lower is better)."]
    place = curve.place(best_layer(curve))
    value, low, high = curve.value[place], curve.low[place], curve.high[place]
    low, high = (value, value) if isnan(low) or isnan(high) else (low, high)
    side = "better than" if high < baseline else "worse than" if low > baseline else "not clearly different from"
    return [f"{linked} (lower is better), {side} the {number(baseline)} of a statistical aligner."]


def _direction_of_travel(curve: Curve) -> list[str]:
    """How the two ends of the stack compare with the best layer, when they can be told from it."""
    best, first, last = best_layer(curve), curve.at[0], curve.at[-1]
    same = alike(curve)
    if above_floor(curve, best) is False or len(same) == len(curve.at):
        return []
    ends = [layer for layer in (first, last) if layer not in same]
    if not ends:
        return []
    said = " and ".join(f"{number(curve.value[curve.place(layer)])} at layer {layer}" for layer in ends)
    names = {first: "the embedding output" if first == 0 else f"layer {first}", last: "the last layer"}
    places = " and ".join(names[layer] for layer in ends)
    return [f"Away from there the languages lie further apart: {measure_name(curve)} is {said} ({places})."]
