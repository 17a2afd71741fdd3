"""The tables and figures of a paper, with its published numbers beside what was measured.

`Published` has the numbers of a paper from `published/NAME.csv`: a line has the measure, the value, its coordinates and
the reference, its place in the paper. `Captions` has the text of its tables and figures. `grid` and `panels` make
tables and the panels of figures from coordinates.
"""

import csv
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from isogloss.figure import NOTHING, Figure, Line, Panel, Table, percent, span
from isogloss.measures.statistics import Interval
from isogloss.papers.results import ALONE, LEAST, Coordinates, Results, no_interval, over_seeds
from isogloss.runs.table import KEY, OTHERS, Row, is_given
from isogloss.text.languages import short_name

EXACT = ("condition", "selection", "method")  # a number without one of these matches only rows without it


@dataclass(frozen=True)
class Published:
    """The numbers of a paper: the lines of its file, as text by column."""

    lines: Sequence[Mapping[str, str]]

    def where(self, **coordinates: Any) -> list[Mapping[str, str]]:
        """The lines with these cells; a reference may be given by its first characters."""
        reference = coordinates.pop("reference", "")
        wanted = {name: str(value) for name, value in coordinates.items()}
        lines = [line for line in self.lines if wanted.items() <= line.items()]
        return [line for line in lines if line["reference"].startswith(reference)]

    def values(self, **coordinates: Any) -> list[float]:
        """The numbers at these coordinates."""
        return [float(line["value"]) for line in self.where(**coordinates)]

    def value(self, **coordinates: Any) -> float:
        """The only number at these coordinates; KeyError if there is none, or several."""
        values = self.values(**coordinates)
        if len(values) != 1:
            raise KeyError(f"{len(values)} published values at {coordinates}")
        return values[0]

    def beside(self, entry: Row, **respelt: Any) -> dict[str, Any]:
        """The row with the column `published`, if the paper has its number.

        Args:
            entry: A row.
            respelt: Coordinates of the row as spelt in the paper's file, such as `target="tuned"`.
        """
        value = self.at(**{**entry, **respelt})
        return dict(entry) if value is None else {**entry, "published": value}

    def at(self, **coordinates: Any) -> float | None:
        """The number whose coordinates are all among these, to compare with measured values; None if there is none."""
        for names, values in self._known.items():
            key = tuple(str(cell) if is_given(cell := coordinates.get(name)) else "" for name in names)
            if key in values:
                return values[key]
        return None

    @cached_property
    def _known(self) -> dict[tuple[str, ...], dict[tuple[str, ...], float]]:
        known: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
        for line in self.lines:
            names = tuple(name for name in KEY if line.get(name) or name in EXACT)
            known.setdefault(names, {})[tuple(line.get(name, "") for name in names)] = float(line["value"])
        return known


@cache
def read_published(name: str) -> Published:
    """The numbers of a paper, from `published/NAME.csv`."""
    with (Path(__file__).parent / "published" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return Published(list(csv.DictReader(file)))


# ------------------------------------------------------------------------------------------------ words


def target_title(target: str) -> str:
    """The name of a target language; an invented language is named by its code.

    >>> target_title("de"), target_title("qaa"), target_title("others")
    ('German', 'qaa', 'mean of targets')
    """
    return "mean of targets" if target == OTHERS else short_name(target)


def seeds_note(counts: Sequence[int], means: str = "means") -> str:
    """The sentence under a table on the seeds of its measured values.

    Args:
        counts: Numbers of seeds of the values.
        means: The kind of means.

    >>> seeds_note([3, 3])
    'Measured: means over 3 seeds; brackets hold t intervals over them.'
    """
    fewest, most = min(counts), max(counts)
    few = no_interval(most) or f"brackets hold t intervals over them{f', from {LEAST} on' * (fewest < LEAST)}"
    return f"Measured: {means} over {span(counts)} seed{'s' * (most != 1)}; {few}."


def bands_note(seeds: int) -> str:
    """The sentence of a caption on the bands of curves over seeds."""
    if seeds < LEAST:
        return f"Mean of {seeds} seeds, too few for a band." if seeds > 1 else "One seed, so no band."
    return f"Bands: t intervals over {seeds} seeds."


@dataclass(frozen=True)
class Captions:
    """The titles, captions and notes of a paper's tables and figures, from `captions/NAME.toml`.

    A figure has a `title`, a `caption` and the names of its axes; a table has a `title`, `notes` and optionally the
    head of its first column (`corner`). Names in braces are filled in. Shared or optional sentences come first in the
    file, by name; the value False leaves one out. Other fields of `Figure`, such as `log`, are passed on.
    """

    words: Mapping[str, Any]

    def figure(self, name: str, panels: Sequence[Panel], like: str = "", **filled: Any) -> list[Figure]:
        """A list with a figure of these panels, empty without panels. like: the entry with its text, if it differs."""
        return [Figure(name=name, panels=panels, **self._filled(self.words[like or name], filled))] if panels else []

    def table(self, name: str, *further: str, **filled: Any) -> dict[str, Any]:
        """Title, notes (for a figure, its caption) with further ones, and corner, as arguments of `grid`."""
        words = self._filled(self.words[name], filled)
        notes = words.get("notes", [words["caption"]] if "caption" in words else [])
        return {
            "title": words.get("title", ""),
            "notes": [*filter(None, notes), *further],
            "corner": words.get("corner", ""),
        }

    def _filled(self, words: Any, filled: Mapping[str, Any]) -> Any:
        """Fill in names in braces in a text, or in a list or table of texts."""
        if isinstance(words, str):
            shared = {name: text for name, text in self.words.items() if isinstance(text, str)}
            given = {name: shared[name] * it if isinstance(it, bool) else it for name, it in filled.items()}
            return words.format(**{**shared, **given})
        if isinstance(words, list):
            return [self._filled(each, filled) for each in words]
        if isinstance(words, dict):
            return {field: self._filled(each, filled) for field, each in words.items()}
        return words


@cache
def read_captions(name: str) -> Captions:
    """Read the text of a paper's tables and figures from `captions/NAME.toml`."""
    return Captions(tomllib.loads((Path(__file__).parent / "captions" / f"{name}.toml").read_text(encoding="utf-8")))


# ------------------------------------------------------------------------------------------------ tables and figures

# Fields of a specification of cells or curves besides coordinates and arguments of `Results.values`.
LOOKS = ("read", "form", "printed", "share", "scale", "items", "look", "respelt")


def grid(
    results: Results,
    rows: Mapping[str, Coordinates],
    columns: Mapping[str, Coordinates],
    *,
    title: str,
    notes: Sequence[str] = (),
    corner: str = "",
    known: Published | None = None,
) -> list[Table]:
    """A list with a table of the values at the coordinates of each row and column; empty without values.

    Besides coordinates, rows and columns may have arguments of `Results.values` and formatting options: `form` formats
    a number (a function or a format; by default a share in percent), `printed` a published one; `share` clips intervals
    to 0 and 1 (by default those in percent); `log` selects geometric means. `read` is called with the coordinates
    instead of `Results.values`, and returns values by seed, an interval, or the text of the cell. `respelt` has the
    coordinates that are spelt differently in the paper's file.

    Args:
        results: The measured rows.
        rows: Coordinates by label; a row without any value is left out.
        columns: Coordinates by label; a column without any value is left out.
        title: Title of the table.
        notes: Notes below the table, before the one on seeds.
        corner: Head of the first column.
        known: The numbers of the paper, which are shown in a line below each row.
    """
    lines, counts = [], list[int]()
    for label, row_at in rows.items():
        cells = [_written(results, known, {**row_at, **column_at}) for column_at in columns.values()]
        counts += [seeds for _, _, seeds in cells if seeds]
        measured, printed = [each[0] for each in cells], [each[1] for each in cells]
        if set(measured) - {NOTHING}:
            lines.append([label, *measured])
            lines += [[f"{label}, published", *printed]] if set(printed) != {NOTHING} else []
    heads = [corner, *columns]
    shown = [at for at in range(len(heads)) if at == 0 or any(line[at] != NOTHING for line in lines)]
    told = [seeds_note(counts)] if counts else []
    cut = [[line[at] for at in shown] for line in lines]
    return [Table(title, [heads[at] for at in shown], cut, [*notes, *told])] if lines else []


def _written(results: Results, known: Published | None, spec: Mapping[str, Any]) -> tuple[str, str, int]:
    """A cell of `grid`: the measured value, the published value, and the number of seeds."""
    form = spec.get("form", percent)
    forms = [form, spec.get("printed", form)]
    write, write_published = (each.format if isinstance(each, str) else each for each in forms)
    at = _reading(spec)
    values = spec.get("read", results.values)(**at)
    if isinstance(values, str):
        return values, NOTHING, 0
    interval = values if isinstance(values, Interval) else over_seeds(values or {}, log=at.get("log", False))
    shown = interval.clipped() if spec.get("share", form is percent) else interval
    written = shown.say(write) if interval.n else NOTHING
    if at.get("column", "value") != "value":
        return written, NOTHING, 0
    value = known.at(**{**at, **spec.get("respelt", {})}) if known else None
    seeds = 0 if isinstance(values, Interval) or not values or ALONE in values else len(values)
    return written, NOTHING if value is None else write_published(value), seeds


def panels(
    results: Results,
    titles: Mapping[str, Coordinates],
    lines: Mapping[str, Coordinates],
    *,
    over: str | Mapping[int, Coordinates] = "layer",
    floor: bool = False,
    known: Published | None = None,
) -> list[Panel]:
    """Panels of curves over layers, or other steps; those without a curve are left out.

    Besides coordinates, panels and lines may have arguments of `Results.values` and options for drawing: `share`,
    `scale` and `log` as in `Curves.line`, `look` with further fields of `Line`, and `items` for bands from the
    intervals of the rows. `respelt` has the coordinates that are spelt differently in the paper's file. Rows without a
    layer are drawn as a level line.

    Args:
        results: The measured rows.
        titles: Coordinates of each panel by its title.
        lines: Coordinates of each curve by its label; a curve has the same colour in all panels.
        over: The horizontal axis, as in `Results.curves`.
        floor: Whether to draw the chance level, from the first line that has one.
        known: The numbers of the paper, drawn as circles in the colours of their curves.
    """
    made = []
    for title, at in titles.items():
        specs = {label: {**at, **own} for label, own in lines.items()}
        numbered = enumerate(specs.items())
        curves = [
            line
            for hue, (label, spec) in numbered
            for line in _drawn(results, known, over=over, label=label, hue=hue, spec=spec)
        ]
        if steps := [step for line in curves for step in line.steps]:
            ends = [min(steps), max(steps)]
            drawn = [
                line if line.steps or line.dots else replace(line, steps=ends, value=[*line.value] * 2)
                for line in curves
            ]
            chances = [
                results.curves(over, **{**_reading(spec), "column": "floor"}) for spec in specs.values() if floor
            ]
            level = next((float(curve.mean.mean()) for curve in chances if curve), None)
            made.append(Panel(title, sorted(drawn, key=lambda line: line.dots), floor=level))
    return made


def _drawn(
    results: Results,
    known: Published | None,
    over: str | Mapping[int, Coordinates],
    label: str,
    hue: int,
    spec: Mapping[str, Any],
) -> Iterator[Line]:
    """A curve of `panels`, if it exists, and its published values; a level line has no steps yet."""
    at, look = _reading(spec), {"hue": hue, **spec.get("look", {})}
    curves = results.curves(over, **at)
    if curves is None:
        values = results.values(**{**at, over: None}) if isinstance(over, str) else {}
        if values:
            yield Line(label, [], [over_seeds(values).value], **look)
        return
    how = {name: spec[name] for name in ("share", "scale", "log") if name in spec}
    line = curves.line(label, **how, **look)
    if spec.get("items"):
        ends = [results.curves(over, **{**at, "column": end}) for end in ("low", "high")]
        low, high = ([] if end is None else end.mean.tolist() for end in ends)
        line = replace(line, low=low, high=high)
    yield line
    if known and isinstance(over, str):
        asked = {**at, **spec.get("respelt", {})}
        points = {step: known.at(**{**asked, over: int(step)}) for step in line.steps}
        dots = {step: value for step, value in points.items() if value is not None}
        yield Line(f"{label}, published", list(dots), list(dots.values()), dots=True, hue=hue)


def _reading(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a specification that selects values."""
    return {name: value for name, value in spec.items() if name not in LOOKS}
