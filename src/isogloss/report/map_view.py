"""The page of a map: the best layers, and every measure by layer, by language and by pair of languages.

To add a figure, write a function that takes a run and returns a `Figure`, and call it in `figures`; `section` is its
place on the page (`curves`, `heat-map` or `matrix`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from operator import attrgetter
from typing import Any

import pandas as pd

from isogloss.figure import DARK, Figure, Panel, file_name, printable
from isogloss.measures.registry import describe
from isogloss.measures.statistics import Interval
from isogloss.report import curves
from isogloss.report.curves import Curve, Fact, RunFolder, View, average, language_name, number, overall, select
from isogloss.runs.table import WITHOUT_SINKS

MOST_SENTENCES = 8
MEASURES = ("p@1", "cka", "word_agreement", "aer", "mexa", "anc", "separability", "anisotropy")
METHODS = ("centred", "cosine", "csls", "debiased", "itermax")
METHOD_LOOKS: Mapping[str, dict[str, Any]] = {
    "centred": {"colour": DARK},
    "cosine": {"hue": 1, "dash": 2},
    "csls": {"hue": 2, "dash": 1},
}
ASKS = {
    "p@1": "finding a sentence's translation as its nearest neighbour",
    "cka": "whether the languages arrange their sentences alike",
    "word_agreement": "whether a word lies nearest to the word that translates it",
}
# Measures that are parts of the curves of p@1 and cka:
COMPARED = tuple(f"{measure}_{end}" for measure in ("p@1", "cka") for end in ("mean", "behind", "best"))
COUNTED = ("duplicates", "truncated", "skipped", "coverage", "identical", "vocabulary", "learned_from")
CHOSEN = ("gap", "relative_gap", "chosen_step", "chosen_rate")
SINKS = ("sink_share", "sink_times", "sink_first")
NOT_DRAWN = frozenset(("p@5", "p@10", "mrr", *COUNTED, *CHOSEN, *COMPARED, *SINKS))
AVERAGE = "the average over language pairs"
EMBEDDING = "Layer 0 is the embedding output."
Groups = Mapping[tuple[str, str], Sequence[Curve]]
MOST_MEMBERS = 24  # most curves of single pairs drawn behind their average


def figures(run: RunFolder) -> list[Figure]:
    """Figures of every measure with at least two layers: by layer, by language and layer, and by pair of languages.

    As in the verdict, values at layers with attention sinks are those without them.
    """
    order = {name: index for index, name in enumerate((*MEASURES, *METHODS))}
    drawn = [part for part in run.without_sinks if part.measure not in NOT_DRAWN]
    known = curves.grouped(drawn, attrgetter("measure", "method"))
    pairs = sorted(known, key=lambda pair: [order.get(name, len(order)) for name in pair])
    groups = {pair: known[pair] for pair in pairs if len({layer for part in known[pair] for layer in part.at}) > 1}
    means = {pair: overall(run.without_sinks, *pair) for pair in groups}
    measures = [measure for measure, _ in groups]
    drawings = [_layer_figure(run, measure, groups, means) for measure in dict.fromkeys(measures)]
    lead = (run.lead.measure, run.lead.method) if run.lead else None
    matrices = []
    for pair, parts in groups.items():
        method = f", {curves.METHOD_TITLES.get(pair[1], pair[1])}" if measures.count(pair[0]) > 1 else ""
        end = "" if pair == lead else f"-{'-'.join(map(file_name, pair))}"
        look = {"title": describe(pair[0]).title + method, "measure": pair[0], "page_only": pair != lead}
        drawings.append(_heat_map(run, parts, f"heat-map{end}", look))
        if any(part.target for part in parts):
            matrices.append(_matrix(run, parts, means[pair], name=f"language-matrix{end}", look=look))
    return drawings + matrices


def _layer_figure(run: RunFolder, measure: str, groups: Groups, means: Mapping[tuple[str, str], Curve]) -> Figure:
    """One measure by layer: panels of its average by method, of each data set, and of every language pair."""
    methods = [method for name, method in groups if name == measure]
    parts = [part for method in methods for part in groups[measure, method]]
    first = _panel(run, [means[measure, method] for method in methods], methods)
    thin = ""
    if len(methods) == 1 and len(parts) >= (3 if parts[0].target else 2):
        # Draw the members behind their average; if there are too many, only those from the central language.
        few = len(parts) <= MOST_MEMBERS
        members = [part for part in parts if few or not part.target or part.source == run.centre]
        hue = run.languages.index
        faint = [
            part.line(_pair_name(part), faint=True, hue=hue(curves.other_language(part, run.centre)))
            for part in members
        ]
        first = replace(first, lines=[*faint, *first.lines])
        single = "single pairs" if len(members) == len(parts) else f"pairs with {language_name(run.centre)}"
        single = single if any(part.target for part in members) else "single languages"
        thin = f"Thin: {single}." if members else ""
    panels = [first]
    if _pairs_repeat(groups[measure, methods[0]]):
        for data in dict.fromkeys(part.data for part in parts):
            same = [select(groups[measure, method], data=data) for method in methods]
            panels.append(_panel(run, [average(own) for own in same if own], methods, choice=f"{AVERAGE}, {data} only"))
    several = len({part.data for group in groups.values() for part in group}) > 1
    # Every direction of some curve, once; symmetric measures such as CKA have one per pair.
    parted = (own for (name, _), own in groups.items() if not describe(name).undirected)
    directed = (part for own in parted for part in own if part.target)
    for source, target, data in dict.fromkeys((part.source, part.target, part.data) for part in directed):
        pairs = [(source, target), (target, source)][: 2 if describe(measure).undirected else 1]
        own = [
            part
            for part in parts
            if (part.data == data and (part.source, part.target) in pairs)
            or (not part.target and part.source in (source, target))
        ]
        if own:
            title = f"{language_name(source)} → {language_name(target)}{f' ({data})' if several and data else ''}"
            panels.append(_panel(run, own, methods, choice=title, pair=(source, target)))
    method = curves.METHOD_TITLES.get(methods[0], methods[0]) if len(methods) == 1 else ""
    clean = run.rows[(run.rows["condition"] == WITHOUT_SINKS) & (run.rows["measure"] == measure)]["layer"]
    without = f"Without attention sinks at {curves.name_layers(sorted(set(clean)))}." if len(clean) else ""
    panels = [replace(panel, note=f"{panel.note} {without}".strip()) for panel in panels]
    return Figure(
        f"curve-{file_name(measure)}",
        f"{describe(measure).title} {method}".strip(),
        " ".join(filter(None, (f"{printable(run.model)}.", first.note, without, thin, EMBEDDING))),
        panels,
        xlabel="layer",
        section="curves",
        measure=measure,
        chosen={"Show": AVERAGE},
    )


def _pairs_repeat(parts: Sequence[Curve]) -> bool:
    """Whether a language pair was measured on several data sets (or seeds)."""
    return len({(part.source, part.target) for part in parts}) < len(parts)


def _panel(
    run: RunFolder,
    parts: Sequence[Curve],
    methods: Sequence[str],
    *,
    choice: str = AVERAGE,
    pair: tuple[str, str] | None = None,
) -> Panel:
    """A panel of curves, coloured by method, or by language if each curve is of one language; with a note.

    The note says what is averaged, what the band is, and the number of items.
    """
    about, several, lines = describe(parts[0].measure), len(methods) > 1, []
    for part in parts:
        look: dict[str, Any] = {"colour": DARK}
        label, code = about.title, part.method
        if several:
            look = METHOD_LOOKS.get(part.method) or {"hue": methods.index(part.method)}
            label = curves.METHOD_TITLES.get(part.method, part.method)
        if pair and part.source and not part.target:
            label, code, look = language_name(part.source), part.source, {"hue": run.languages.index(part.source)}
        best = part.best if about.better in ("higher", "lower") else None
        lines.append(part.line(label, best=best, code=code, **look))
    references = {}
    if about.name == "aer":  # the error of the statistical aligner has no layer and is drawn as a level line
        rows = run.mapped[run.mapped["layer"].isna() & run.mapped["value"].notna() & (run.mapped["measure"] == "aer")]
        rows = rows[(rows["source"] == pair[0]) & (rows["target"] == pair[1])] if pair else rows
        means = rows.groupby("method")["value"].mean()
        references = {curves.METHOD_TITLES.get(name, name): float(means[name]) for name in map(str, means.index)}
    kind = "languages" if about.takes == "space" else "language pairs" if about.undirected else "directions"
    members = [part.members for part in parts]
    counts = curves.span_of(count for part in parts for count in part.counts)
    own = any(part.own_interval for part in parts)
    known = any(reading.known for part in parts for reading in part.readings.values())
    band = "; the band is its interval" if own else "; the band averages their intervals"
    mean = f"Average over {curves.span_of(members)} {kind}{band if known else ''}."
    count = f"n\u00a0=\u00a0{counts}." if counts else ""
    note = " ".join(filter(None, (mean if max(members) > 1 else "", count)))
    return Panel("", lines, choice={"Show": choice}, note=note, references=references)


def _pair_name(part: Curve) -> str:
    joined = "–" if describe(part.measure).undirected else "→"
    return f"{part.source} {joined} {part.target}" if part.target else part.source


def _heat_map(run: RunFolder, parts: Sequence[Curve], name: str, look: Mapping[str, Any]) -> Figure:
    """A heat map of languages (or directions, if there are two languages) by layer."""
    few = len(run.languages) < 3
    pairs = curves.grouped(parts, _pair_name).items() if few else ()
    rows = {name: average(group) for name, group in pairs} or curves.by_partner(parts, run.centre)
    ranked = sorted(rows, key=lambda code: -sum(reading.value for reading in rows[code].readings.values()))
    alone = few or not any(part.target for part in parts)
    rows_are = "" if alone else f"Each row: that language with {language_name(run.centre)}, both directions averaged."
    lines = [rows[code].line(language_name(code)) for code in ranked]
    return Figure(
        name,
        caption=f"{rows_are} {EMBEDDING}".strip(),
        panels=[Panel("", lines, note=f"{rows_are[:-1]}; the rows are sorted." if rows_are else "")],
        section="heat-map",
        xlabel="layer",
        ylabel="direction" if alone and parts[0].target else "language",
        **look,
    )


def _matrix(run: RunFolder, parts: Sequence[Curve], mean: Curve, *, name: str, look: Mapping[str, Any]) -> Figure:
    """A matrix of all pairs of languages at one layer, initially the best."""
    symmetric = describe(mean.measure).undirected
    groups = curves.grouped(parts, attrgetter("source", "target"))
    groups |= curves.grouped(parts, attrgetter("target", "source")) if symmetric else {}
    codes = [code for code in run.languages if any(code in pair for pair in groups)]
    lines = [
        average(group).line("", cell=(language_name(source), language_name(target)))
        for (source, target), group in groups.items()
    ]
    note = "Row: the language searched from; column: the language searched in."
    note = "The measure is the same both ways." if symmetric else note
    note += " Empty cells were not measured." if len(groups) < len(codes) * (len(codes) - 1) else ""
    return Figure(
        name,
        caption=note,
        panels=[Panel("", lines, note=note)],
        section="matrix",
        xlabel="" if symmetric else "to",
        ylabel="" if symmetric else "from",
        ticks={float(index): language_name(code) for index, code in enumerate(codes)},
        chosen={"Layer": str(mean.best)},
        **look,
    )


def facts(run: RunFolder) -> list[Fact]:
    """The key numbers."""
    if run.lead is None:
        return []
    numbers = [*layer_facts(run.lead, run.depth), ("languages", str(len(run.languages)), "")]
    counts = curves.span_of(run.lead.counts)
    return [*numbers, (f"{run.lead.items} a pair", counts, "")] if counts else numbers


def layer_facts(curve: Curve, depth: int | None) -> list[Fact]:
    """The best layer of a curve, its value, and the chance level."""
    label = "highest at layer" if curve.above_chance is False else "best layer"
    numbers = [(label, str(curve.best), f"of {depth or curve.at[-1]}"), (curve.name, number(curve.peak.value), "")]
    floor = curve.peak.floor
    return numbers if isnan(floor) else [*numbers, ("by chance", number(floor), "")]


def view(run: RunFolder) -> View:
    """The page of a map: its verdict, facts and figures.

    The verdict has three to six sentences for each model on its most cross-lingual layers. Centred retrieval P@1 comes
    first, then CKA, word agreement and alignment error, each with its value, interval, number of items and chance
    level. The page warns if nothing was measured by layer, or nothing is above chance.
    """
    caution = run.lead is None or run.lead.above_chance is False
    verdict = [head + sentence for head, own in by_model(run) for sentence in map_sentences(own)]
    return View("map", verdict, facts(run), figures(run), caution=caution)


def by_model(run: RunFolder) -> list[tuple[str, RunFolder]]:
    """Each model's part of the run, with a prefix for its sentences such as "mini: ", which is empty for one model."""
    models = [model for model in run.rows["model"].unique() if model]
    if len(models) < 2:
        return [("", run)]
    tables = {model: run.rows[run.rows["model"] == model] for model in models}
    return [(f"{model}: ", RunFolder(run.path, run.record, rows, run.points)) for model, rows in tables.items()]


def map_sentences(run: RunFolder) -> list[str]:
    """The verdict on the rows of one model."""
    lead, parts = run.lead, run.without_sinks
    if lead is None:
        return ["These rows hold no retrieval, CKA or word agreement by layer, so no layer can be named."]
    own = select(parts, measure=lead.measure, method=lead.method)
    without = bool(_layers_without_sinks(run, lead.measure, lead.method))
    sentences = [_lead(lead, run.depth, without=without), _basis(lead, own, run.mapped, without=without)]
    sentences += _sinks(run, lead)
    sentences += curves.name_partners(run, run.centre, lead)
    sentences += _collapse(lead, parts)
    for measure, method in curves.LEADING[len(curves.RETRIEVAL) :]:
        if measure == lead.measure or not select(parts, measure=measure, method=method):
            continue
        curve = overall(parts, measure, method)
        kind = "pairs" if describe(measure).undirected else "directions"
        basis = f"{f'average over {curve.members} {kind}, ' if curve.members > 1 else ''}{curves.count_items(curve)}"
        best, name = curve.say(curve.best), curve.name[:1].upper() + curve.name[1:]
        if curve.above_chance is False:
            none = f"By {curve.name} no layer is better than chance: at best"
            sentences.append(f"{none} {best}, at layer {curve.best} ({basis}).")
            continue
        if lead.above_chance is False:
            opening = " does rise above chance: it"
        elif len(lead.alike) == len(lead.at) or len(curve.alike) == len(curve.at):  # in one of them no layer stands out
            opening = ""
        else:
            opening = f" {'agrees' if set(curve.alike) & set(lead.alike) else 'differs'}: it"
        sentences.append(f"{name}{opening} is highest at {curves.where_best(curve)} with {best} ({basis}).")
    sentences += _alignment(run.mapped, select(parts, measure="aer", method="itermax"))
    # The first and the last layer, if they can be distinguished from the best one:
    first, last = lead.at[0], lead.at[-1]
    ends = [layer for layer in (first, last) if layer not in lead.alike]
    if ends and lead.above_chance is not False:
        said = " and ".join(f"{number(lead.readings[layer].value)} at layer {layer}" for layer in ends)
        names = {first: "the embedding output" if first == 0 else f"layer {first}"}
        names[last] = "the last layer" if last == (run.depth or last) else "the last one read"
        places = " and ".join(names[layer] for layer in ends)
        sentences.append(f"Away from there the languages lie further apart: {lead.name} is {said} ({places}).")
    return sentences[:MOST_SENTENCES]


def _lead(curve: Curve, depth: int | None, *, without: bool) -> str:
    """A sentence on the best layer; without: whether values at layers with attention sinks are without them."""
    best, same = curve.best, curve.alike
    measure = f"{curve.name} ({ASKS[curve.measure]})" + " without attention sinks" * without
    numbers = curve.say(best)
    unsure = not curve.peak.known
    partly = depth is not None and curve.at != tuple(range(depth + 1))
    read = f" (only {curves.name_layers(curve.at)} were read)" if partly else ""
    if curve.above_chance is False:
        why = "which is no more than that" if unsure else "and its interval reaches down to that floor"
        return f"No layer is better than chance: {measure} is highest at layer {best} with {numbers}, {why}."
    if len(same) == len(curve.at) > 1:
        how = "none can be told from the best" if curve.tied else "all intervals overlap the best one's"
        return f"No layer stands out: of {curves.name_layers(same)} {how}, layer {best}, where {measure} is {numbers}."
    if len(curve.at) == 1:
        return f"At layer {best}, the only one read, {measure} is {numbers}."
    if len(same) > 1:
        opening = f"The languages meet most closely at {curves.name_layers(same)}{read}, which cannot be told apart"
        return f"{opening}: {measure} peaks at layer {best} with {numbers}."
    other = "other of these" if partly else "other layer"
    how = (
        f"better than any {other} on the same sentences"
        if curve.tied
        else f"whose interval overlaps that of no {other}"
    )
    how = "" if unsure else f", {how}"
    return f"The languages meet most closely at layer {best}{read}{how}: {measure} is {numbers}."


def _basis(curve: Curve, parts: Sequence[Curve], rows: pd.DataFrame, *, without: bool) -> str:
    """A sentence on what was averaged, the number of items, and the cross-fitted value of the best layer.

    without: whether sinks are left out of the curve, but not of the cross-fitted value, which is then not given.
    """
    rows = rows[(rows["measure"] == f"{curve.measure}_best") & (rows["method"] == curve.method)]
    apart = ""
    if len(rows) == 1 and not without:
        honest = Interval(*rows.iloc[0][["value", "low", "high"]]).say(number)
        apart = f" Chosen on half of the sentences and read on the other half, the best layer has {honest}."
    if curve.members == 1:
        pair = " to ".join(map(language_name, filter(None, (curve.source, curve.target))))
        return f"This is one curve, {f'{pair}, ' if pair else ''}{curves.count_items(curve)}.{apart}"
    pairs = {(part.source, part.target) for part in parts}
    kind = curve.pairs
    if _pairs_repeat(parts):
        kind = kind if len(pairs) > 1 else {"directions": "direction"}.get(kind, "pair of languages")
        texts, seeds = len({part.data for part in parts}), len({part.seed for part in parts})
        on = [f"{count} {name}" for count, name in ((texts, "data sets"), (seeds, "seeds")) if count > 1]
        members = f"curves ({len(pairs)} {kind}{' on ' if on else ', repeated'}{' and '.join(on)})"
    else:
        both = all((target, source) in pairs for source, target in pairs)
        members = f"{kind} (each pair of languages both ways)" if both else kind
    averaged = "the ends of its interval are the averages of theirs, which is cautious"
    averaged = "the interval is that of the average" if curve.own_interval else averaged
    averaged = "layers are compared on the same sentences" if curve.tied is not None else averaged
    return f"The value is the average over {curve.members} {members}, {curves.count_items(curve)}; {averaged}.{apart}"


def _sinks(run: RunFolder, lead: Curve) -> list[str]:
    """A sentence on attention sinks: at which layers they dominate sentence means, and the measures without them.

    Their share and length are those of the text and layer where they are longest.
    """
    found = run.mapped[run.mapped["measure"].isin(SINKS)]
    changes = []
    for measure, method in dict.fromkeys(((lead.measure, lead.method), ("cka", "debiased"))):
        layers = _layers_without_sinks(run, measure, method)
        if layers and select(run.by_layer, measure=measure, method=method):
            before, after = (overall(parts, measure, method) for parts in (run.by_layer, run.without_sinks))
            moved = {layer: after.readings[layer].value - before.readings[layer].value for layer in layers}
            most = max(moved, key=lambda layer: abs(moved[layer]))
            numbers = (number(curve.readings[most].value) for curve in (after, before))
            changes.append(f"{after.name} at layer {most} is {' instead of '.join(numbers)}")
    if found.empty or not changes:
        return []
    table = found.pivot_table(index=["data", "layer"], columns="measure", values="value").reset_index()
    longest = table.sort_values("sink_times").iloc[-1]
    mostly = ", mostly the first of a sentence," if longest["sink_first"] > 0.5 else ""
    return [
        f"At {curves.name_layers(sorted(set(found['layer'])))} a few tokens{mostly} have states that dwarf all others "
        f"(at layer {longest['layer']} {longest['sink_share']:.1%} of the tokens, up to {longest['sink_times']:,.0f} "
        f"times the median length) and rule the mean of a sentence: without them, {curves.listed(changes)}."
    ]


def _layers_without_sinks(run: RunFolder, measure: str, method: str) -> list[int]:
    """The layers at which a measure was taken without attention sinks, too; those of any text."""
    rows = run.rows[(run.rows["condition"] == WITHOUT_SINKS) & run.rows["layer"].notna() & run.rows["value"].notna()]
    return sorted(set(rows.loc[(rows["measure"] == measure) & (rows["method"] == method), "layer"]))


def _collapse(lead: Curve, parts: Sequence[Curve]) -> list[str]:
    """A sentence on the best layer without centring: separability of the languages, raw retrieval, and MEXA."""
    known = [select(parts, measure=name) for name in ("separability", "mexa")]
    raw = select(parts, measure="p@1", method="cosine")
    if lead.method != "centred" or lead.above_chance is False or not (raw and all(known)):
        return []
    (separable, mexa), best = map(average, known), lead.best
    accuracy = separable.readings[best]
    apart = (accuracy.low if accuracy.known else accuracy.value) > accuracy.floor
    opening = f"The languages are aligned {'but not collapsed' if apart else 'and lie on one another'} at layer {best}"
    means = f"the nearer language mean tells the language of a sentence with an accuracy of {separable.say(best)}"
    over_layers = sum(reading.value for reading in mexa.readings.values()) / len(mexa.at)
    both = f"{mexa.peak.say(number)} at layer {mexa.best}"
    both += f" and {number(over_layers)} on average over the layers" if len(mexa.at) > 1 else ""
    return [
        f"{opening}: {means}; without centring, P@1 is {overall(parts, 'p@1', 'cosine').say(best, floor=False)}, and "
        f"MEXA (found first from both sides) is {both}."
    ]


def _alignment(rows: pd.DataFrame, parts: Sequence[Curve]) -> list[str]:
    """A sentence on the layer with the lowest alignment error, and the error of the statistical aligner.

    Neither has an interval, so which of the two is better is not said.
    """
    if not parts:
        return []
    curve = average(parts)
    where, value = curves.where_best(curve), curve.say(curve.best)
    linked = f"Words are linked with the fewest errors at {where}: {value} (lower is better)"
    pairs = {(part.source, part.target) for part in parts if part.at == curve.at}
    chosen = rows[(rows["measure"] == "aer") & (rows["method"] == "statistical")]
    same = [pair in pairs for pair in zip(chosen["source"], chosen["target"], strict=True)]
    baseline = float(chosen.loc[same, "value"].mean())
    if isnan(baseline):
        return [f"{linked}."]
    return [f"{linked}; a statistical aligner makes {number(baseline)}."]
