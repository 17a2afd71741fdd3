"""Specifications of figures and tables as data.

Papers and the views of commands describe figures and tables with these records; `report` draws a figure twice, with
matplotlib for PNG and SVG and as a chart on the page, and shows a table on the page and in a terminal.

Colours are those of the Okabe-Ito palette, which is safe for common colour blindness, without its yellow, which is too
pale on white. Seven colours are combined with eight shapes, so the first 56 languages all differ, and the first seven
differ in both.
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
    """A curve: a value at every step, which is a position on the horizontal axis (a layer, an update, a plan).

    Attributes:
        label: Label in the legend.
        steps: Positions on the horizontal axis, ascending.
        value: A value for each step; NaN if there is none.
        low: Lower ends of the band, for each step or empty; NaN if there is none.
        high: Upper ends of the band.
        floor: Chance level at each step; empty if unknown.
        n: Number of items of each value, or of all of them; 0 if unknown.
        members: Number of curves of which it is the mean.
        dots: Whether its points are not joined, as for published numbers.
        hue: Index of its colour; by default its position in the panel.
        colour: Its colour, if it is not determined by `hue`.
        dash: Dash style, 0 for a solid line.
        thick: Whether it is the main line of the panel, such as a mean among its members.
        faint: Whether it is drawn thin and without a band, as a member of a mean.
        band: Whether its interval is drawn as a band; the page always shows it as a number.
        best: The step that is marked with a ring.
        code: Identifies the line in its panel, and the same line of another run; by default the label.
        cell: The row and the column of its cell in a matrix.
        texts: In a grid, the text of its cells instead of the values, one per step.
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
        title: Title of the panel, in addition to that of its figure.
        lines: The curves; in a heat map each is a row of cells, the first on top, and in a matrix a cell.
        marks: Steps with a thin vertical line, such as the ends of epochs.
        floor: Chance level, drawn as a dashed line.
        references: Values that are drawn as level lines, by name.
        choice: The entry of each menu that shows this panel, such as {"Layer": "8"}; empty: always shown.
        note: A note on the curves.
        log: Whether its vertical axis is logarithmic, if the figure's is not.
        xlabel: Label of its horizontal axis, if it differs from the figure's.
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
        name: Name of its file; figures of several runs on one page are matched by it.
        title: Title.
        caption: Caption of the file.
        panels: The panels.
        ylabel: Label of the vertical axis.
        reach: Range of the vertical axis in every panel; 0 for separate ranges.
        log: Whether the vertical axis is logarithmic.
        xlabel: Label of the horizontal axis.
        ticks: Labels at positions of the horizontal axis, instead of numbers.
        section: Id of its section on the page. In `step-grid`, `heat-map` and `lens-grid` it is a grid with a row per
            line and a column per step; in `matrix` a line is a cell, of which the value at the chosen layer is shown.
        measure: The measure, if there is only one; it determines the axis and which direction is better.
        chosen: The initial entries of the menus, which the files show.
        columns: Number of panels side by side, with a shared vertical axis in each column; 0: chosen by the number of
            panels.
        page_only: Whether it is drawn only on the page and not as a file.
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
    """A table: title, column heads, rows with a cell per column, and notes below."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)


def as_text(table: Table) -> str:
    """The table as lines of text; the first column is left-aligned, the others right-aligned.

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
    """A number with at least three digits and thousands separators; a dash for None or NaN.

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
    """A difference of shares in percentage points, with a sign.

    >>> signed(0.0123), signed(-0.2)
    ('+1.2', '-20.0')
    """
    return f"{100 * value:+.1f}"


def span(values: Iterable[float]) -> str:
    """The range of whole numbers, or the only number if all are equal.

    >>> span([1500, 90, 200]), span([8, 8])
    ('90 to 1,500', '8')
    """
    ordered = sorted(values)
    return " to ".join(dict.fromkeys(f"{end:,.0f}" for end in (ordered[0], ordered[-1])))


def file_name(measure: str) -> str:
    """A measure's name as part of a file name.

    >>> file_name("p@1"), file_name("word_agreement")
    ('retrieval', 'word-agreement')
    """
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure).strip("-")
    return "retrieval" if measure == "p@1" else plain


def printable(text: str) -> str:
    """Text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
