"""How alike two spaces are before any map, by layer: what a run of `rotate` says, tables and draws of its CKA."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.figure import NOTHING, Figure, Line, Panel, Table
from isogloss.measures import FORMS
from isogloss.report.languages import display_names
from isogloss.report.look import file_name
from isogloss.report.paperfigures import write_picture
from isogloss.report.phrases import number

NAME = "alike"
TASK = "rotate"
MOST_PAIRS = 8
TEXTS = {"train": "the text learned from", "test": "the text looked up"}
TITLES = {"cka": "debiased", "cka_biased": "as printed, centred", "cka_uncentred": "as printed, not centred"}
Record = dict[str, Any]


@dataclass(frozen=True)
class Likeness:
    """CKA of two languages on one text, by form: records in the order of the layers."""

    source: str
    target: str
    data: str
    text: str
    models: str
    forms: dict[str, list[Record]]

    @property
    def title(self) -> str:
        """The two languages."""
        names = display_names([self.source, self.target])
        return f"{names[self.source]} and {names[self.target]}"


def likenesses(frame: pd.DataFrame) -> list[Likeness]:
    """Every pair of languages and text that has CKA, in order of appearance, a text learned from before its test."""
    rows = frame[(frame["task"] == TASK) & frame["measure"].isin(FORMS) & frame["layer"].notna()]
    found = []
    places = ["source", "target", "data", "seed", "variant"]
    for (source, target, data, _, text), some in rows.groupby(places, sort=False, dropna=False):
        records: list[Record] = [{str(name): cell for name, cell in one.items()} for one in some.to_dict("records")]
        records.sort(key=lambda one: int(one["layer"]))
        forms = {form: [one for one in records if one["measure"] == form] for form in FORMS}
        models = " and ".join(str(records[0][name]) for name in ("model", "other_model") if records[0][name])
        found.append(Likeness(str(source), str(target), str(data), str(text), models, forms))
    order = list(TEXTS)
    pairs = list(dict.fromkeys((one.source, one.target, one.data) for one in found))
    return sorted(found, key=lambda one: (pairs.index((one.source, one.target, one.data)), order.index(one.text)))


def likeness_verdict(frame: pd.DataFrame) -> list[str]:
    """A sentence for each pair of languages, on the text learned from where there is one."""
    firsts: dict[tuple[str, str, str], Likeness] = {}
    for one in likenesses(frame):
        firsts.setdefault((one.source, one.target, one.data), one)
    shown = list(firsts.values())[:MOST_PAIRS]
    return [line for one in shown for line in _sentence(one, several=len(firsts) > 1)]


def likeness_facts(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The few numbers a reader takes away, where nothing was looked up."""
    known = [one for each in likenesses(frame)[:1] for one in each.forms["cka"] if not isnan(one["value"])]
    if not known:
        return []
    best = max(known, key=lambda one: float(one["value"]))
    return [("best layer", str(int(best["layer"])), ""), ("CKA", number(best["value"]), ""),
            ("by chance", number(best["floor"]), "")]  # fmt: skip


def likeness_tables(frame: pd.DataFrame) -> list[Table]:
    """CKA by layer and form, a table for each pair of languages and text."""
    return [_table(one) for one in likenesses(frame)[: 2 * MOST_PAIRS]]


def write_likeness_figures(frame: pd.DataFrame, *, out: Path) -> list[Path]:
    """`alike-SOURCE-TARGET-TEXT`: CKA by layer and what chance gives, a panel for each form."""
    return [path for one in likenesses(frame)[: 2 * MOST_PAIRS] for path in write_picture(_picture(one), out)]


def _sentence(one: Likeness, *, several: bool) -> Iterator[str]:
    rows = [row for row in one.forms["cka"] if not isnan(row["value"])]
    if not rows:
        return
    best, last = max(rows, key=lambda row: float(row["value"])), rows[-1]
    head = f"{one.title}: " if several else ""
    end = "" if last is best else f"; at layer {int(last['layer'])}, the last read, {_value(last)}"
    yield (
        f"{head}Before any map the two spaces are most alike at layer {int(best['layer'])}: CKA {_value(best)}, where "
        f"chance gives {number(best['floor'])}{end} (n = {int(best['n']):,}, {TEXTS[one.text]})."
    )


def _table(one: Likeness) -> Table:
    layers = sorted({int(row["layer"]) for rows in one.forms.values() for row in rows})
    lines = []
    for layer in layers:
        cells = [next((row for row in rows if int(row["layer"]) == layer), None) for rows in one.forms.values()]
        shown = [part for cell in cells for part in ((NOTHING,) * 2 if cell is None else _cells(cell))]
        lines.append([f"layer {layer}", *shown])
    heads = [head for form in one.forms for head in (TITLES[form], "chance")]
    n = max(int(row["n"]) for rows in one.forms.values() for row in rows)
    notes = [
        f"{one.models}; {one.data}, n = {n:,}. Brackets hold 95% intervals: one block of sentences is left out at a "
        "time. Chance is what shuffled pairs give."
    ]
    return Table(f"CKA, {one.title}, {TEXTS[one.text]}", ["", *heads], lines, notes)


def _cells(row: Record) -> tuple[str, str]:
    return _value(row), number(row["floor"])


def _picture(one: Likeness) -> Figure:
    panels = [Panel(TITLES[form], list(_lines(rows))) for form, rows in one.forms.items()]
    n = max(int(row["n"]) for rows in one.forms.values() for row in rows)
    caption = (
        f"{one.models}, {one.data}: CKA of {n:,} sentences. Bands: 95% intervals. Layer 0 is the embedding output."
    )
    name = "-".join((NAME, *(file_name(part) for part in (one.source, one.target, one.data)), one.text))
    return Figure(name, f"{one.title}, {TEXTS[one.text]}", caption, panels, "CKA", xlabel="layer")


def _lines(rows: Sequence[Record]) -> Iterator[Line]:
    layers = [int(row["layer"]) for row in rows]
    value, low, high, floor = ([float(row[name]) for row in rows] for name in ("value", "low", "high", "floor"))
    yield Line("CKA", layers, value, low, high)
    yield Line("chance", layers, floor)


def _value(one: Record) -> str:
    bounds = "" if isnan(one["low"]) else f" [{number(one['low'])}, {number(one['high'])}]"
    return f"{number(one['value'])}{bounds}"
