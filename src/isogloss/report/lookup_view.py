"""The pages of `lexicon` and `rotate`: translations looked up by layer and mapping, and how alike the two spaces are.

A lookup finds words (lexicon) or sentences (rotate) of one language among those of another, with the vectors as they
are (`raw`) or through a fitted mapping; P@1 by CSLS or cosine is what the papers read. Before any mapping, CKA says how
alike two models arrange the same sentences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from isogloss.figure import NOTHING, Figure, Line, Panel, Table
from isogloss.measures import FORMS
from isogloss.report.folder import RunFolder
from isogloss.report.style import display_names, file_name
from isogloss.report.verdict import Fact, name_layers, number, records, value_of

UNITS = {"lexicon": "word", "rotate": "sentence"}
METHODS = {"lexicon": "csls", "rotate": "cosine"}  # what the papers read; the other one is in the rows
METHOD_NAMES = {"csls": "CSLS", "cosine": "cosine"}
STATIC = "static: "
COUNTED = ("coverage", "identical", "p@1_behind", "cka_retrieval")
MOST_PAIRS = 8
FEW_MAPPINGS = 3  # that have room for their intervals
FOUND = "The share whose nearest neighbour in the other language is a translation (P@1)."
ALIKE = (
    "CKA says how alike two models arrange the same sentences before any map: 1 is the same arrangement up to a turn "
    "and a change of size. Read the debiased form; what is printed stands beside it, each form with its chance."
)
TEXTS = {"train": "the text learned from", "test": "the text looked up"}
FORM_TITLES = {"cka": "debiased", "cka_biased": "as printed, centred", "cka_uncentred": "as printed, not centred"}
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Lookup:
    """One source and target: P@1 rows by mapping, at layers (`layered`) and without one (`flat`), as records.

    `counted` holds the rows of `COUNTED`: coverage, ties and correlations.
    """

    task: str
    model: str
    source: str
    target: str
    data: str
    layered: Sequence[Record]
    flat: Sequence[Record]
    counted: Sequence[Record]

    @property
    def mappings(self) -> list[str]:
        """The mappings that were compared, in the order of the run."""
        return list(dict.fromkeys(str(row["condition"]) for row in [*self.layered, *self.flat]))

    @property
    def best(self) -> Record:
        """The row with the highest P@1 of the model at a layer, or else of what there is."""
        return max(self.layered or self.flat, key=lambda row: float(row["value"]))

    @property
    def beside(self) -> list[Record]:
        """What has no layer, each with its own best mapping: static vectors need one where a model may need none."""
        rows: dict[str, list[Record]] = {}
        for row in self.flat:
            rows.setdefault(flat_name(row), []).append(row)
        tops = [max(group, key=lambda row: float(row["value"])) for group in rows.values()]
        return [row for row in tops if row is not self.best]

    def curve(self, mapping: str) -> list[Record]:
        """The rows of a mapping by layer."""
        return sorted((row for row in self.layered if row["condition"] == mapping), key=lambda row: int(row["layer"]))

    @property
    def names(self) -> dict[str, str]:
        """Both languages by name."""
        return display_names([self.source, self.target])


def lookups(frame: pd.DataFrame) -> list[Lookup]:
    """Every source and target of a run, in order of appearance."""
    rows = frame[frame["task"].isin(list(UNITS)) & (frame["target"] != "")]
    pairs = []
    for (task, source, target, data, _), group in rows.groupby(
        ["task", "source", "target", "data", "seed"], sort=False, dropna=False
    ):
        table = records(group)
        scores = [row for row in table if row["measure"] == "p@1" and row["method"] == METHODS[str(task)]]
        layered, flat = ([row for row in scores if pd.isna(row["layer"]) == absent] for absent in (False, True))
        if scores:
            first = (layered or flat)[0]
            model = " and ".join(str(name) for name in (first["model"], first["other_model"]) if name)
            counted = [row for row in table if row["measure"] in COUNTED]
            pairs.append(Lookup(str(task), model, str(source), str(target), str(data), layered, flat, counted))
    return pairs


def flat_name(row: Record) -> str:
    """What a row without a layer is of."""
    kind = {"piece": "single-piece words", "word": "words"}.get(str(row["unit"]), str(row["unit"]))
    if str(row["model"]).startswith(STATIC):
        return f"{row['model']}, {kind}"
    return "embedding matrix" if row["unit"] == "piece" else str(row["unit"])


def verdict(run: RunFolder) -> list[str]:
    """Sentences for each source and target: the best layer and mapping, what none gives, baselines, coverage, CKA."""
    pairs = lookups(run.rows)
    sentences = [line for lookup in pairs[:MOST_PAIRS] for line in _sentences(lookup, several=len(pairs) > 1)]
    sentences += [f"{len(pairs) - MOST_PAIRS} more pairs are in the rows."] if len(pairs) > MOST_PAIRS else []
    firsts: dict[tuple[str, str, str], Likeness] = {}
    for alike in likenesses(run.rows):
        firsts.setdefault((alike.source, alike.target, alike.data), alike)
    for alike in list(firsts.values())[:MOST_PAIRS]:
        if rows := alike.known:
            best, last = max(rows, key=lambda row: float(row["value"])), rows[-1]
            head = f"{alike.title}: " if len(firsts) > 1 else ""
            end = "" if last is best else f"; at layer {int(last['layer'])}, the last read, {value_of(last)}"
            sentences.append(
                f"{head}Before any map the two spaces are most alike at layer {int(best['layer'])}: CKA "
                f"{value_of(best)}, where chance gives {number(best['floor'])}{end} (n = {int(best['n']):,}, "
                f"{TEXTS[alike.text]})."
            )
    return sentences


def facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away: of the pair that does best, or CKA where nothing was looked up."""
    bests = [lookup.best for lookup in lookups(run.rows)]
    bests = bests or [row for alike in likenesses(run.rows)[:1] for row in alike.known]
    if not bests:
        return []
    best = max(bests, key=lambda row: float(row["value"]))
    name = "CKA" if best["measure"] == "cka" else "P@1"
    layers: list[Fact] = [] if pd.isna(best["layer"]) else [("best layer", str(int(best["layer"])), "")]
    return [*layers, (name, number(best["value"]), ""), ("by chance", number(best["floor"]), "")]


def heading(run: RunFolder) -> tuple[str, str]:
    """The title of the section with tables and figures, and what it says."""
    pairs, alike = lookups(run.rows), likenesses(run.rows)
    unit = UNITS[pairs[0].task] if pairs else "word"
    if alike and not pairs:
        return "How alike the two spaces are, by layer", ALIKE
    return f"Translations found, by layer and way ({unit}s)", f"{FOUND} {ALIKE}" if alike else FOUND


def tables(run: RunFolder) -> list[Table]:
    """P@1 by layer and mapping for each pair of languages, and CKA by layer and form."""
    alike = [_alike_table(alike) for alike in likenesses(run.rows)[: 2 * MOST_PAIRS]]
    return [_table(lookup) for lookup in lookups(run.rows)[:MOST_PAIRS]] + alike


def figures(run: RunFolder) -> list[Figure]:
    """`lookup-SOURCE-TARGET-DATA`: P@1 by layer, a line a mapping; `alike-SOURCE-TARGET-DATA-TEXT`: CKA by layer."""
    alike = [_alike_figure(alike) for alike in likenesses(run.rows)[: 2 * MOST_PAIRS]]
    return [_figure(lookup) for lookup in lookups(run.rows)[:MOST_PAIRS] if lookup.layered] + alike


def _sentences(lookup: Lookup, *, several: bool) -> Iterator[str]:
    names, best = lookup.names, lookup.best
    head = f"{names[lookup.source]} to {names[lookup.target]}: " if several else ""
    where = f"at layer {int(best['layer'])}" if lookup.layered else f"in {flat_name(best)}"
    mapping, floor = best["condition"], float(best["floor"])
    chance = number(floor) if floor >= 0.0005 or floor == 0 else f"{floor:.1g}"
    # Which layers cannot be told from the best one of the same mapping:
    key = ("p@1_behind", mapping, best["method"])
    compared = [row for row in lookup.counted if (row["measure"], row["condition"], row["method"]) == key]
    behind = [row for row in compared if not isnan(row["low"])]
    same = sorted(int(row["layer"]) for row in behind if row["low"] <= 0)
    ties = f"; {name_layers(same)} cannot be told apart" if len(same) > 1 else ""
    yield (
        f"{head}Most translations are found {where} with {mapping}: {value_of(best)} of {int(best['n']):,} "
        f"{UNITS[lookup.task]}s have theirs nearest of all by {METHOD_NAMES[METHODS[lookup.task]]}, where chance gives "
        f"{chance}{ties}."
    )
    tops = {
        name: max(rows, key=lambda row: float(row["value"])) for name in lookup.mappings if (rows := lookup.curve(name))
    }
    said = [f"{name} {value_of(row)} at layer {int(row['layer'])}" for name, row in tops.items() if name != mapping]
    if said:
        yield f"{head}The best layers of the other ways: {'; '.join(said)}."
    if lookup.beside:
        said = [
            f"{flat_name(row)} {value_of(row)} with {row['condition']} (n = {int(row['n']):,})" for row in lookup.beside
        ]
        yield f"{head}Beside it, each with its best way: {'; '.join(said)}."
    for row in lookup.counted:
        if row["measure"] == "cka_retrieval" and row["condition"] == mapping and row["method"] == best["method"]:
            yield (
                f"{head}Over {int(row['n'])} layers, CKA before any map and P@1 with {mapping}, the mean of both "
                f"directions, have a correlation of {value_of(row)}."
            )
    tested = [row for row in lookup.counted if row["condition"] == "test" and not str(row["model"]).startswith(STATIC)]
    counts = {row["measure"]: row for row in reversed(tested)}  # the first of each
    if covered := counts.get("coverage"):
        alike = counts.get("identical")
        written = f"; {alike['value']:.0%} of these have a translation that is written alike" if alike else ""
        yield f"{head}{covered['value']:.0%} of the {int(covered['n']):,} words of the test are known{written}."


def _figure(lookup: Lookup) -> Figure:
    names, best = lookup.names, lookup.best
    ends = [int(row["layer"]) for row in lookup.layered]
    rows = {name: curve for name in lookup.mappings if (curve := lookup.curve(name))}
    lines = [_line(name, curve, hue, band=name == best["condition"]) for hue, (name, curve) in enumerate(rows.items())]
    beside = [row for row in lookup.beside if row["unit"] == "word" or row["model"] in lookup.model]
    for hue, row in enumerate(beside, len(lines)):
        label, value = f"{flat_name(row)},\nn = {int(row['n']):,} ({row['condition']})", float(row["value"])
        lines.append(Line(label, [min(ends), max(ends)], [value, value], hue=hue))
    caption = (
        f"{lookup.model}, {lookup.data}: share of {int(best['n']):,} {UNITS[lookup.task]}s whose nearest neighbour by "
        f"{METHOD_NAMES[METHODS[lookup.task]]} is a translation. Band: 95% interval of the best way. Layer 0 is the "
        "embedding output."
    )
    return Figure(
        "-".join(("lookup", *map(file_name, (lookup.source, lookup.target, lookup.data)))),
        f"{names[lookup.source]} to {names[lookup.target]}",
        caption,
        [Panel("", lines, floor=float(best["floor"]))],
        "P@1",
        xlabel="layer",
    )


def _line(label: str, rows: Sequence[Record], hue: int, *, band: bool) -> Line:
    value, low, high = ([float(row[name]) for row in rows] for name in ("value", "low", "high"))
    return Line(label, [int(row["layer"]) for row in rows], value, low, high, hue=hue, band=band)


def _table(lookup: Lookup) -> Table:
    names, mappings, best = lookup.names, lookup.mappings, lookup.best
    wide = [name for name in mappings if len(mappings) <= FEW_MAPPINGS or name == best["condition"]]

    def cells(rows: Sequence[Record]) -> list[str]:
        own = {row["condition"]: row for row in rows}
        shown = {name: value_of(row) if name in wide else number(row["value"]) for name, row in own.items()}
        return [shown.get(name, NOTHING) for name in mappings]

    lines = []
    for layer in sorted({int(row["layer"]) for row in lookup.layered}):
        lines.append([f"layer {layer}", *cells([row for row in lookup.layered if int(row["layer"]) == layer])])
    for name in dict.fromkeys(flat_name(row) for row in lookup.flat):
        rows = [row for row in lookup.flat if flat_name(row) == name]
        lines.append([f"{name} (n = {int(rows[0]['n']):,})", *cells(rows)])
    note = (
        f"{lookup.data}; n = {int(best['n']):,} at the layers. Brackets hold 95% intervals. By "
        f"{METHOD_NAMES[METHODS[lookup.task]]}; the rows have P@5, P@10 and the other method, too."
    )
    return Table(f"P@1, {names[lookup.source]} to {names[lookup.target]}", ["", *mappings], lines, [note])


@dataclass(frozen=True)
class Likeness:
    """CKA of two languages on one text, by form: records in the order of the layers."""

    source: str
    target: str
    data: str
    text: str
    models: str
    forms: Mapping[str, Sequence[Record]]

    @property
    def title(self) -> str:
        """The two languages."""
        names = display_names([self.source, self.target])
        return f"{names[self.source]} and {names[self.target]}"

    @property
    def known(self) -> list[Record]:
        """The rows of debiased CKA that have a value."""
        return [row for row in self.forms["cka"] if not isnan(row["value"])]

    @property
    def n(self) -> int:
        """The number of sentences."""
        return max(int(row["n"]) for rows in self.forms.values() for row in rows)


def likenesses(frame: pd.DataFrame) -> list[Likeness]:
    """Every pair of languages and text that has CKA, in order of appearance, a text learned from before its test."""
    rows = frame[(frame["task"] == "rotate") & frame["measure"].isin(FORMS) & frame["layer"].notna()]
    pairs = []
    for (source, target, data, _, text), group in rows.groupby(
        ["source", "target", "data", "seed", "condition"], sort=False, dropna=False
    ):
        table = sorted(records(group), key=lambda row: int(row["layer"]))
        forms = {form: [row for row in table if row["measure"] == form] for form in FORMS}
        models = " and ".join(str(table[0][name]) for name in ("model", "other_model") if table[0][name])
        pairs.append(Likeness(str(source), str(target), str(data), str(text), models, forms))
    order = list(dict.fromkeys((alike.source, alike.target, alike.data) for alike in pairs))
    texts = list(TEXTS)
    return sorted(
        pairs, key=lambda alike: (order.index((alike.source, alike.target, alike.data)), texts.index(alike.text))
    )


def _alike_table(alike: Likeness) -> Table:
    lines = []
    for layer in sorted({int(row["layer"]) for rows in alike.forms.values() for row in rows}):
        cells = [next((row for row in rows if int(row["layer"]) == layer), None) for rows in alike.forms.values()]
        shown = [(NOTHING, NOTHING) if row is None else (value_of(row), number(row["floor"])) for row in cells]
        lines.append([f"layer {layer}", *(text for pair in shown for text in pair)])
    heads = [head for form in alike.forms for head in (FORM_TITLES[form], "chance")]
    note = (
        f"{alike.models}; {alike.data}, n = {alike.n:,}. Brackets hold 95% intervals: one block of sentences is left "
        "out at a time. Chance is what shuffled pairs give."
    )
    return Table(f"CKA, {alike.title}, {TEXTS[alike.text]}", ["", *heads], lines, [note])


def _alike_figure(alike: Likeness) -> Figure:
    panels = []
    for form, rows in alike.forms.items():
        layers, floor = [int(row["layer"]) for row in rows], [float(row["floor"]) for row in rows]
        panels.append(
            Panel(FORM_TITLES[form], [_line("CKA", rows, 0, band=True), Line("chance", layers, floor, hue=1)])
        )
    return Figure(
        "-".join(("alike", *map(file_name, (alike.source, alike.target, alike.data)), alike.text)),
        f"{alike.title}, {TEXTS[alike.text]}",
        f"{alike.models}, {alike.data}: CKA of {alike.n:,} sentences. Bands: 95% intervals. Layer 0 is the embedding "
        "output.",
        panels,
        "CKA",
        xlabel="layer",
    )
