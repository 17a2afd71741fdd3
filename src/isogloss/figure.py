"""The one figure spec and the one table spec: what is shown, as data.

Papers and the views of commands describe figures and tables with these records; `report` draws a figure twice, with
matplotlib for PNG and SVG and as a chart on the page, and shows a table on the page and in a terminal.

Colours are the Okabe-Ito palette, which people with the common colour blindnesses can tell apart; its yellow is left
out, being too pale for a point on white. Seven colours meet eight shapes, so the first 56 languages all differ, and
the first seven differ in both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

NOTHING = "–"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
SHADES = ("#f5f1e6", "#d9e4d3", "#a5cbbf", "#62a5a6", "#2f7b8c", "#1b5270", "#12294a")
INK, QUIET, RULE, PAPER, DARK = "#1f2a33", "#66707a", "#e4e0d6", "#ffffff", "#12294a"
DASHES = 3
GRIDS = ("step-grid", "heat-map", "matrix", "lens-grid")  # sections of grids


@dataclass(frozen=True)
class Line:
    """A curve: a value at every step, where a step is whatever lies on the horizontal axis (layers, updates, plans).

    Attributes:
        label: what the legend calls it.
        steps: positions on the horizontal axis, rising.
        value: as many values; NaN where there is none.
        low: the lower ends of the band, empty or as many as values; NaN where there is none.
        high: the upper ends.
        floor: what chance gives at every step, empty where that is unknown.
        n: the items behind every value, or behind all of them; 0 where unknown.
        members: of how many curves it is the mean.
        dots: whether its points are not joined, such as published numbers.
        hue: the number of its colour; its position in the panel where there is none.
        colour: its colour, where it has one of its own.
        dash: the kind of its dashes, 0 for none.
        thick: whether it stands for the whole panel, such as a mean among its members.
        faint: whether it is drawn thin and without a band, as a member of a mean.
        band: whether its interval is drawn as a band; it can always be read off.
        best: the step that is marked with a ring.
        code: tells it from other lines of its panel, and finds the same line of another run; its label where empty.
        cell: the row and the column of its cell in a matrix.
        texts: in a grid, what stands in its cells in place of the values, one a step.
    """

    label: str
    steps: Sequence[float]
    value: Sequence[float]
    low: Sequence[float] = field(default_factory=tuple)
    high: Sequence[float] = field(default_factory=tuple)
    dots: bool = False
    hue: int | None = None
    thick: bool = False
    floor: Sequence[float] = field(default_factory=tuple)
    n: Sequence[int] | int = 0
    members: int = 1
    colour: str = ""
    dash: int = 0
    faint: bool = False
    band: bool = True
    best: float | None = None
    code: str = ""
    cell: tuple[str, str] | None = None
    texts: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True)
class Panel:
    """Curves that share axes.

    Attributes:
        title: what it is called beside the title of its figure.
        lines: the curves; in a figure of shades each is a row of cells, the first on top, and in a matrix a cell.
        marks: steps with a thin line, such as the ends of epochs.
        floor: what chance gives, a dashed line.
        references: values that are drawn as level lines, by name.
        choice: which entry of every menu of the figure shows this panel, such as {"Layer": "8"}; empty: always shown.
        note: what stands behind the curves, in words.
        log: whether its vertical axis counts in factors, where the figure's does not.
        xlabel: the name of its horizontal axis, where it differs from the figure's.
    """

    title: str
    lines: Sequence[Line]
    marks: Sequence[float] = field(default_factory=tuple)
    floor: float | None = None
    references: Mapping[str, float] = field(default_factory=dict)
    choice: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    log: bool = False
    xlabel: str = ""


@dataclass(frozen=True)
class Figure:
    """Panels with a title and a caption, drawn as files and on the page.

    Attributes:
        name: the name of its file, and what figures of several runs are matched by on one page.
        title: what it shows.
        caption: what a reader of the file must know.
        panels: what is drawn.
        ylabel: the name of the vertical axis.
        reach: the span of the vertical axis of every panel, 0 for each its own.
        log: whether the vertical axis counts in factors.
        xlabel: the name of the horizontal axis.
        ticks: what stands at positions of the horizontal axis, where numbers would not say it.
        section: the id of the page's section that it belongs to. In `step-grid`, `heat-map` and `lens-grid` it is a
            grid, a line a row and a step a column; in `matrix` a line is a cell, of which the value at the chosen
            layer is shown.
        measure: what is measured, where that is one thing: it tells what is better, and the axis.
        chosen: the entries of the menus that are chosen at first, and that the files show.
        columns: how many panels stand side by side, those of a column with one vertical axis; 0 lets the number of
            panels decide.
        page_only: whether it is drawn on the page and not as a file.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    ylabel: str = ""
    reach: float = 0.0
    log: bool = False
    xlabel: str = "step"
    ticks: Mapping[float, str] = field(default_factory=dict)
    section: str = "scores"
    measure: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    columns: int = 0
    page_only: bool = False


@dataclass(frozen=True)
class Table:
    """A title, the heads of the columns, rows of as many cells, and notes below."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)


def as_text(table: Table) -> str:
    """The table as lines of text; the first column to the left, the others to the right.

    >>> print(as_text(Table("Table 0", ["step", "value"], [["1", "2.50"], ["501", "12.50"]])))
    Table 0
    step  value
    1      2.50
    501   12.50
    """
    lines = [list(table.columns), *map(list, table.rows)]
    first, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    shown = ["  ".join([line[0].ljust(first), *map(str.rjust, line[1:], widths)]).rstrip() for line in lines]
    return "\n".join([table.title, *shown, *table.notes])


def number(value: float | None) -> str:
    """Three digits or more, thousands apart; a dash for what is not there.

    >>> number(7.342), number(23.5), number(1234.4), number(0.01234), number(None)
    ('7.34', '23.5', '1,234', '0.0123', '–')
    """
    if value is None or value != value:
        return NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    decimals = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3 if abs(value) >= 0.1 else 4
    return f"{value:.{decimals}f}"


def percent(value: float) -> str:
    """A share as a percentage, without the % sign.

    >>> percent(0.6138)
    '61.4'
    """
    return NOTHING if value != value else f"{100 * value:.1f}"


def signed(value: float) -> str:
    """A difference of shares in points, with a sign.

    >>> signed(0.0123), signed(-0.2)
    ('+1.2', '-20.0')
    """
    return f"{100 * value:+.1f}"


def span(values: Iterable[float]) -> str:
    """Whole numbers as their range, or the one that they all are.

    >>> span([1500, 90, 200]), span([8, 8])
    ('90 to 1,500', '8')
    """
    ordered = sorted(values)
    return " to ".join(dict.fromkeys(f"{end:,.0f}" for end in (ordered[0], ordered[-1])))


def file_name(measure: str) -> str:
    """A measure's name in the name of a file.

    >>> file_name("p@1"), file_name("word_agreement")
    ('retrieval', 'word-agreement')
    """
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure).strip("-")
    return "retrieval" if measure == "p@1" else plain


def printable(text: str) -> str:
    """Text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
