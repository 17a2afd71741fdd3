"""What a stitch run found, for its page: a verdict, a table and a figure of scores by layer, for each test set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.figure import NOTHING, Figure, Line, Panel, Table
from isogloss.report.languages import display_names
from isogloss.report.look import file_name
from isogloss.report.meanings import meaning
from isogloss.report.paperfigures import write_picture
from isogloss.report.phrases import number

NAME = "stitch"
STITCHED = "stitched"
HOME = "in the source language"
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Stitching:
    """One test set of the target: rows of its main score, and of the source's, by curve and layer.

    curves: `HOME` and every way (`stitched`, `unmapped` ...) -> layer -> row. several: they are means over seeds.
    """

    model: str
    task: str
    measure: str
    source: str
    target: str
    data: str
    several: bool
    curves: Mapping[str, Mapping[int, Record]]

    @property
    def layers(self) -> list[int]:
        """The layers that were stitched at."""
        return sorted(self.curves[STITCHED])

    @property
    def best(self) -> int:
        """The layer at which the stitched target scores highest."""
        return max(self.layers, key=lambda layer: float(self.curves[STITCHED][layer]["value"]))


def is_stitch(frame: pd.DataFrame) -> bool:
    """Whether these rows are of models that were stitched: what a target loses, at a layer."""
    lost = frame["measure"].eq("gap") & frame["task"].ne("") & frame["layer"].notna() & frame["step"].isna()
    return bool((lost & frame["variant"].eq(STITCHED)).any())


def stitchings(frame: pd.DataFrame) -> list[Stitching]:
    """Every test set of the target, in order of appearance."""
    rows = frame[frame["layer"].notna() & frame["task"].ne("") & frame["step"].isna()]
    several = bool((rows["seed"].isna() & rows["measure"].eq("gap")).any())
    rows = rows[rows["seed"].isna()] if several else rows
    found = []
    columns = ["model", "other_model", "task", "source", "target", "data", "unit"]
    gaps = rows[rows["measure"] == "gap"]
    for model, other, task, source, target, data, measure in gaps[columns].drop_duplicates().itertuples(index=False):
        same = (rows["model"] == model) & (rows["other_model"] == other) & (rows["task"] == task)
        own = rows[same & (rows["source"] == source) & (rows["measure"] == measure)]
        home = own[own["target"] == source]
        curves = {HOME: _by_layer(home[home["data"] == home["data"].iloc[0]])}
        there = own[(own["target"] == target) & (own["data"] == data)]
        curves |= {str(way): _by_layer(some) for way, some in there.groupby("variant", sort=False)}
        named = f"{model} and {other}" if other else str(model)
        found.append(Stitching(named, task, measure, source, target, data, several, curves))
    return found


def stitch_verdict(frame: pd.DataFrame) -> list[str]:
    """For each test set: the best layer with and without the map, what is left of the source's score, and chance."""
    return [sentence for one in stitchings(frame) for sentence in _sentences(one)]


def stitch_facts(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The few numbers a reader takes away: of the first test set."""
    found = stitchings(frame)
    if not found:
        return []
    one = found[0]
    facts = [("best layer", str(one.best), ""), (HOME, _short(one, HOME), ""), (STITCHED, _short(one, STITCHED), "")]
    return [*facts, ("unmapped", _short(one, "unmapped"), "")]


def stitch_part(run_rows: pd.DataFrame, folder: Path) -> dict[str, Any] | None:
    """The tables and figures of a stitch run for the page; None for any other run."""
    from isogloss.report.transferpart import embedded

    if not is_stitch(run_rows):
        return None
    return {
        "title": "Scores by layer, stitched",
        "lede": "The task's layers were trained on the source model's states at each layer, and then given the target "
        "model's. Of the epochs that the source's development set chose.",
        "tables": [_table(one) for one in stitchings(run_rows)],
        "pictures": [embedded(path) for path in sorted((folder / "figures").glob(f"{NAME}-*.png"))],
    }


def write_stitch_figures(rows: pd.DataFrame, *, out: Path) -> list[Path]:
    """`stitch-TASK-TARGET-DATA`: the main score by layer, a line a way, the source's besides."""
    written: list[Path] = []
    for one in stitchings(rows) if is_stitch(rows) else ():
        written += write_picture(_picture(one), out)
    return written


def _by_layer(rows: pd.DataFrame) -> dict[int, Record]:
    records = [{str(name): cell for name, cell in one.items()} for one in rows.to_dict("records")]
    return {int(one["layer"]): one for one in records}


def _sentences(one: Stitching) -> Sequence[str]:
    names = display_names([one.source, one.target])
    score, best = meaning(one.measure).title, one.best
    floor = float(one.curves[STITCHED][best]["floor"])
    chance = "" if floor != floor else f", where chance gives {number(floor)}"
    first = (
        f"{names[one.target]} ({one.data}), {one.task}: stitched, {score} is highest at layer {best}: "
        f"{_cell(one, STITCHED, best)}{chance}; in {names[one.source]} the same model has {_cell(one, HOME, best)}."
    )
    others = [way for way in one.curves if way not in (HOME, STITCHED)]
    said = [f"{way} {_cell(one, way, best)}" for way in others]
    return [first, f"At that layer without the map: {'; '.join(said)}."] if said else [first]


def _picture(one: Stitching) -> Figure:
    names = display_names([one.source, one.target])
    lines = []
    for hue, (way, rows) in enumerate(one.curves.items()):
        layers = sorted(rows)
        value, low, high = ([float(rows[layer][name]) for layer in layers] for name in ("value", "low", "high"))
        band = way in (HOME, STITCHED)
        label = f"{names[one.source]}, trained in" if way == HOME else f"{names[one.target]}, {way}"
        lines.append(Line(label, layers, value, low if band else (), high if band else (), hue=hue))
    floors = [float(row["floor"]) for row in one.curves[STITCHED].values()]
    floor = sum(floors) / len(floors)
    told = "means and t intervals over seeds" if one.several else "one seed, bootstrap intervals over examples"
    caption = f"{one.model}, {one.data}: {told}. Layer 0 is the embedding output."
    title = f"{one.task}, {names[one.source]} to {names[one.target]}"
    name = "-".join((NAME, file_name(one.task), file_name(one.target), file_name(one.data)))
    panel = Panel("", lines, floor=None if floor != floor else floor)
    return Figure(name, title, caption, [panel], meaning(one.measure).title, xlabel="layer")


def _table(one: Stitching) -> Table:
    names = display_names([one.source, one.target])
    lines = [[f"layer {layer}", *(_cell(one, way, layer) for way in one.curves)] for layer in one.layers]
    heads = [f"in {names[one.source]}" if way == HOME else way for way in one.curves]
    over = "t intervals over seeds" if one.several else "bootstrap intervals over examples, of one seed"
    notes = [
        f"{one.data}. Brackets hold {over}. The ways are those of the target: stitched, through the fitted map; "
        "shifted, by the means alone; unmapped, as it is; random, through a random rotation."
    ]
    title = f"{meaning(one.measure).title}, {one.task}, {names[one.source]} to {names[one.target]}"
    return Table(title, ["", *heads], lines, notes)


def _cell(one: Stitching, way: str, layer: int) -> str:
    row = one.curves[way].get(layer)
    if row is None:
        return NOTHING
    interval = "" if row["low"] != row["low"] else f" [{number(row['low'])}, {number(row['high'])}]"
    return f"{number(row['value'])}{interval}"


def _short(one: Stitching, way: str) -> str:
    return number(float(one.curves[way][one.best]["value"]))
