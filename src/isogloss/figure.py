"""The one figure spec and the one table spec: what is shown, as data.

Papers and the views of commands describe figures and tables with these records; `report` draws a figure twice, with
matplotlib for PNG and SVG and as a chart on the page, and shows a table on the page and in a terminal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NOTHING = "–"


@dataclass(frozen=True)
class Line:
    """A curve: steps (or whatever lies on the horizontal axis), values and the ends of its band, equally many each.

    Ends are NaN where there is no band. dots: points that are not joined, such as published numbers. hue: the number
    of its colour, its place in the panel where there is none. thick: a mean among its members.
    """

    label: str
    steps: Sequence[float]
    value: Sequence[float]
    low: Sequence[float] = field(default_factory=tuple)
    high: Sequence[float] = field(default_factory=tuple)
    dots: bool = False
    hue: int | None = None
    thick: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves that share axes; `marks` are steps with a thin line, such as the ends of epochs.

    floor: what chance gives, a dashed line.
    """

    title: str
    lines: Sequence[Line]
    marks: Sequence[float] = field(default_factory=tuple)
    floor: float | None = None


@dataclass(frozen=True)
class Figure:
    """A figure: its file's name, its title, what it shows, its panels.

    reach: the span of the vertical axis of every panel, 0 for each its own. log: that axis counts in factors. ticks:
    what stands at places of the horizontal axis, where numbers would not say it.
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
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.columns))]
    shown = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
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
    """A share as a percentage, without its sign.

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
