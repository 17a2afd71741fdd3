"""What the page of a lookup shows besides the verdict: a table and a figure by layer for each pair of languages."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from isogloss.figure import NOTHING, Figure, Line, Panel, Table
from isogloss.report.folder import RunFolder
from isogloss.report.languages import display_names
from isogloss.report.likeness import NAME as ALIKE
from isogloss.report.likeness import likeness_tables, write_likeness_figures
from isogloss.report.look import file_name
from isogloss.report.lookup import MOST_PAIRS, TASKS, Lookup, Record, flat_name, is_lookup, lookups
from isogloss.report.paperfigures import write_picture
from isogloss.report.phrases import number
from isogloss.report.transferpart import embedded

NAME = "lookup"
FEW = 3  # ways that have room for their intervals
FOUND = "The share whose nearest neighbour in the other language is a translation (P@1)."
ALIKE_WORDS = (
    "CKA says how alike two models arrange the same sentences before any map: 1 is the same arrangement up to a turn "
    "and a change of size. Read the debiased form; what is printed stands beside it, each form with its chance."
)
METHODS = {"csls": "CSLS", "cosine": "cosine"}


def lookup_part(run: RunFolder) -> dict[str, Any] | None:
    """The tables and figures of a lookup for the page; None for any other run."""
    if not is_lookup(run.rows):
        return None
    found, alike = lookups(run.rows), likeness_tables(run.rows)
    drawn = [path for name in (NAME, ALIKE) for path in _in_order((run.path / "figures").glob(f"{name}-*.png"))]
    unit = TASKS[found[0].task] if found else "word"
    title, lede = f"Translations found, by layer and way ({unit}s)", FOUND
    if alike and not found:
        title, lede = "How alike the two spaces are, by layer", ALIKE_WORDS
    elif alike:
        lede = f"{FOUND} {ALIKE_WORDS}"
    tables = [_table(one) for one in found[:MOST_PAIRS]] + alike
    return {"title": title, "lede": lede, "tables": tables, "pictures": [embedded(path) for path in drawn]}


def write_lookup_figures(run: RunFolder, *, out: Path) -> list[Path]:
    """`lookup-SOURCE-TARGET`: P@1 by layer, a line a way; what has no layer as a level line; `alike-*`: CKA."""
    written: list[Path] = write_likeness_figures(run.rows, out=out)
    for one in lookups(run.rows)[:MOST_PAIRS] if is_lookup(run.rows) else ():
        if one.layered:
            written += write_picture(_picture(one), out)
    return written


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """Figures as the tables are: by name, a text learned from before the one looked up."""

    def place(path: Path) -> tuple[str, bool]:
        return path.stem.removesuffix("-test").removesuffix("-train"), path.stem.endswith("-test")

    return sorted(paths, key=place)


def _picture(one: Lookup) -> Figure:
    names = display_names([one.source, one.target])
    ends, best = [int(row["layer"]) for row in one.layered], one.way(one.best)
    curves = {way: one.curve(way) for way in one.ways if one.curve(way)}
    lines = [_line(way, rows, hue, band=way == best) for hue, (way, rows) in enumerate(curves.items())]
    beside = [row for row in one.beside if row["unit"] == "word" or row["model"] in one.model]
    for hue, row in enumerate(beside, len(lines)):
        label, value = f"{flat_name(row)},\nn = {int(row['n']):,} ({one.way(row)})", float(row["value"])
        lines.append(Line(label, [min(ends), max(ends)], [value, value], hue=hue))
    n, floor = int(one.best["n"]), float(one.best["floor"])
    caption = (
        f"{one.model}, {one.data}: share of {n:,} {TASKS[one.task]}s whose nearest neighbour by {METHODS[one.method]} "
        "is a translation. Band: 95% interval of the best way. Layer 0 is the embedding output."
    )
    title = f"{names[one.source]} to {names[one.target]}"
    name = "-".join((NAME, file_name(one.source), file_name(one.target), file_name(one.data)))
    return Figure(name, title, caption, [Panel("", lines, floor=floor)], "P@1", xlabel="layer")


def _line(way: str, rows: list[Record], hue: int, *, band: bool) -> Line:
    value, low, high = ([float(row[name]) for row in rows] for name in ("value", "low", "high"))
    return Line(way, [int(row["layer"]) for row in rows], value, low if band else (), high if band else (), hue=hue)


def _table(one: Lookup) -> Table:
    names = display_names([one.source, one.target])
    ways, lines = one.ways, []
    wide = [way for way in ways if len(ways) <= FEW or way == one.way(one.best)]
    for layer in sorted({int(row["layer"]) for row in one.layered}):
        cells = {one.way(row): row for row in one.layered if int(row["layer"]) == layer}
        lines.append([f"layer {layer}", *(_cell(cells, way, interval=way in wide) for way in ways)])
    for name in dict.fromkeys(flat_name(row) for row in one.flat):
        cells = {one.way(row): row for row in one.flat if flat_name(row) == name}
        count = int(next(iter(cells.values()))["n"])
        lines.append([f"{name} (n = {count:,})", *(_cell(cells, way, interval=way in wide) for way in ways)])
    notes = [
        f"{one.data}; n = {int(one.best['n']):,} at the layers. Brackets hold 95% intervals. By "
        f"{METHODS[one.method]}; the rows have P@5, P@10 and the other method, too."
    ]
    return Table(f"P@1, {names[one.source]} to {names[one.target]}", ["", *ways], lines, notes)


def _cell(cells: Mapping[str, Record], way: str, *, interval: bool) -> str:
    if way not in cells:
        return NOTHING
    one = cells[way]
    return number(one["value"]) + (f" [{number(one['low'])}, {number(one['high'])}]" if interval else "")
