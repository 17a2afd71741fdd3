"""The tables and figures of a paper, with its published numbers beside what was measured.

`Published` holds the numbers of a paper, read from `published/NAME.csv`: a line has the measure, the value, the
coordinates it applies to and the reference, which says where in the paper it was read. `Captions` holds the words of
its tables and figures. `grid` and `panels` make tables and the panels of figures from coordinates.
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
from isogloss.papers.results import ALONE, LEAST, OTHERS, Coordinates, Results, no_interval, over_seeds
from isogloss.runs.table import KEY, Row, is_given
from isogloss.text.languages import short_name

EXACT = ("condition", "selection", "method")  # a number that names none of these stands beside rows that have none


@dataclass(frozen=True)
class Published:
    """The numbers of a paper: lines of text by column, as they stand in its file."""

    lines: Sequence[Mapping[str, str]]

    def where(self, **coordinates: Any) -> list[Mapping[str, str]]:
        """The lines with these cells; a reference may be given by its beginning."""
        reference = coordinates.pop("reference", "")
        wanted = {name: str(value) for name, value in coordinates.items()}
        lines = [line for line in self.lines if wanted.items() <= line.items()]
        return [line for line in lines if line["reference"].startswith(reference)]

    def values(self, **coordinates: Any) -> list[float]:
        """The numbers at these coordinates."""
        return [float(line["value"]) for line in self.where(**coordinates)]

    def value(self, **coordinates: Any) -> float:
        """The one number at these coordinates; KeyError where there is none, or several."""
        values = self.values(**coordinates)
        if len(values) != 1:
            raise KeyError(f"{len(values)} published values at {coordinates}")
        return values[0]

    def beside(self, entry: Row, **respelt: Any) -> dict[str, Any]:
        """The row with `published` filled, where the paper has its number.

        Args:
            entry: a row.
            respelt: coordinates of the row as the paper's file spells them, such as `target="tuned"`.
        """
        value = self.at(**{**entry, **respelt})
        return dict(entry) if value is None else {**entry, "published": value}

    def at(self, **coordinates: Any) -> float | None:
        """The number that stands beside what was measured at these coordinates, all of its own among them, or None."""
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
        counts: how many seeds the values have.
        means: which means they are.

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
    """What the tables and figures of a paper are called, and what a reader must know of each: `captions/NAME.toml`.

    A figure has a `title`, a `caption` and the names of its axes, a table a `title`, `notes` and maybe the head of its
    first column (`corner`). Names in braces are filled in. Sentences that several share, or that not every run has,
    stand first, under their name: given as False one is left out. Other fields of `Figure`, such as `log`, are taken as
    they are. Tables of coordinates may follow, which the paper reads from `words` itself.
    """

    words: Mapping[str, Any]

    def figure(self, name: str, panels: Sequence[Panel], like: str = "", **filled: Any) -> list[Figure]:
        """A figure of these panels, in a list; none without any. like: the name that its words stand under."""
        return [Figure(name=name, panels=panels, **self._filled(self.words[like or name], filled))] if panels else []

    def table(self, name: str, *further: str, **filled: Any) -> dict[str, Any]:
        """The title, the notes and further ones, and the corner, as `grid` takes them; of a figure its caption."""
        words = self._filled(self.words[name], filled)
        notes = words.get("notes", [words["caption"]] if "caption" in words else [])
        return {
            "title": words.get("title", ""),
            "notes": [*filter(None, notes), *further],
            "corner": words.get("corner", ""),
        }

    def _filled(self, words: Any, filled: Mapping[str, Any]) -> Any:
        """Words with names in braces filled in: a text, or a list or a table of texts."""
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
    """The words of a paper's tables and figures, from `captions/NAME.toml`."""
    return Captions(tomllib.loads((Path(__file__).parent / "captions" / f"{name}.toml").read_text(encoding="utf-8")))


# ------------------------------------------------------------------------------------------------ tables and figures

# What a specification of cells or curves has besides what is read: coordinates, and arguments of `Results.values`.
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
    """A table of what was measured at the coordinates of each row and column together, in a list; none without values.

    Besides coordinates, rows and columns may have arguments of `Results.values` and say how their cells are written:
    `form` writes a number (a function or a format; by default a share in percent), `printed` a published one; `share`
    tells whether intervals end at 0 and 1 (by default those in percent); `log` asks for geometric means. `read` is
    called with the coordinates in place of `Results.values`, and gives values by seed, an interval, or the text of the
    cell. `respelt` has the coordinates that the paper's file spells otherwise.

    Args:
        results: what was measured.
        rows: coordinates by label; a row without any value is left out.
        columns: coordinates by label; a column without any value is left out.
        title: of the table.
        notes: below the table, before the one on seeds.
        corner: head of the first column.
        known: the numbers of the paper; those of a row stand in a line below it.
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
    """A cell of `grid`: what was measured, what was published, and how many seeds were measured."""
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

    Besides coordinates, panels and lines may have arguments of `Results.values` and say how a curve is drawn: `share`,
    `scale` and `log` as `Curves.line` has them, `look` with further fields of `Line`, and `items` for bands that are
    the intervals of the rows themselves. `respelt` has the coordinates that the paper's file spells otherwise.
    A line whose rows have no layer is level.

    Args:
        results: what was measured.
        titles: coordinates of each panel by its title.
        lines: coordinates of each curve by its label; a curve has the same colour in all panels.
        over: what the curves are over, as `Results.curves` has it.
        floor: whether what chance gives is drawn, that of the first line which has one.
        known: the numbers of the paper, drawn as circles in the colours of their curves.
    """
    made = []
    for title, at in titles.items():
        specs = {label: {**at, **own} for label, own in lines.items()}
        numbered = enumerate(specs.items())
        curves = [line for hue, (label, spec) in numbered for line in _drawn(results, known, over, label, hue, spec)]
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
    """A curve of `panels`, if there is one, and its published values; one that is level has no steps yet."""
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
    """What of a specification says which values are read."""
    return {name: value for name, value in spec.items() if name not in LOOKS}
