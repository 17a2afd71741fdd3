"""The figures of a reproduced paper, as PNG and SVG: panels of curves with bands, published numbers as circles."""

from math import ceil, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.figure import Figure, Line, Panel
from isogloss.report.languages import COLOURS
from isogloss.report.logaxis import dress_factors
from isogloss.report.look import DARK, QUIET, RULE, caption, new_figure, printable, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_COLUMNS, MOST_TICKS = 4, 14
BESIDE = 2.4  # inches that the legend of a single panel takes
MOST_INSIDE = {False: 4, True: 3}  # curves that a legend inside a panel has room for, in small panels fewer


def write_picture(picture: Figure, out: Path) -> list[Path]:
    """Draw one figure of a paper."""
    count = len(picture.panels)
    lines = 2 if count == 4 else ceil(count / MOST_COLUMNS)
    columns = ceil(count / lines)
    small = columns > 2
    width, height = ((3.0, 2.3) if small else (5.0, 3.6)) if count > 1 else (7.0, 4.2)
    shared = _shared_labels(picture, small=small)
    width += BESIDE if shared and count == 1 else 0
    figure, grid = new_figure(width * columns, height * lines + 0.9, nrows=lines, ncols=columns, squeeze=False)
    places = list(grid.flat)
    for axes, panel in zip(places, picture.panels, strict=False):
        _draw(axes, panel, picture, small=small, legend=not shared)
    if shared:
        told: dict[str, Any] = {}
        fullest = sorted(range(count), key=lambda place: -len(picture.panels[place].lines))
        for place in fullest:
            for mark, name in zip(*places[place].get_legend_handles_labels(), strict=True):
                told.setdefault(name, mark)
        figure.legend(told.values(), told.keys(), loc="outside right upper", fontsize=8.5)
    for axes in places[count:]:
        axes.set_visible(False)
    for line in range(lines):
        grid[line, 0].set_ylabel(picture.ylabel)
    for axes in places[max(0, count - columns) : count]:
        axes.set_xlabel(printable(picture.xlabel))
    figure.suptitle(printable(picture.title), x=0.01, ha="left", fontsize=13, fontweight="bold")
    caption(figure, printable(picture.caption))
    return save(figure, out, picture.name)


def _shared_labels(picture: Figure, *, small: bool = False) -> bool:
    """Whether one legend beside the panels can stand for all of them: many curves, the same in each or the first ones.

    Colours go by the place of a curve in its panel, so one that is missing in the middle would change the others'.
    """
    labels = [[line.label for line in panel.lines] for panel in picture.panels]
    most = max(labels, key=len, default=[])
    return len(most) > MOST_INSIDE[small] and all(one == most[: len(one)] for one in labels)


def _ink(line: Line, place: int) -> str:
    return DARK if line.thick else COLOURS[(place if line.hue is None else line.hue) % len(COLOURS)]


def _draw(axes: "Axes", panel: Panel, picture: Figure, *, small: bool, legend: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    measured = [line for line in panel.lines if not line.dots]
    for place, line in enumerate(measured):
        _curve(axes, line, _ink(line, place))
    for place, line in enumerate(one for one in panel.lines if one.dots):
        look: dict[str, Any] = {"markersize": 4.5, "markerfacecolor": "white", "markeredgecolor": _ink(line, place)}
        axes.plot(line.steps, line.value, "o", label=line.label, **look)
    for mark in panel.marks:
        axes.axvline(mark, color=RULE, linewidth=1.0, zorder=0)
    if panel.floor is not None:
        axes.axhline(panel.floor, color=QUIET, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0, label="chance")
    axes.set_title(printable(panel.title), fontsize=9 if small else 10.5, fontweight="normal", color=QUIET)
    whole = all(float(step).is_integer() for line in panel.lines for step in line.steps)
    layers = whole and all(abs(step) < 100 for line in panel.lines for step in line.steps)  # longer numbers collide
    few = layers and max((len(line.steps) for line in panel.lines), default=0) <= MOST_TICKS and not small
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS if few else 4 if small else 6, integer=whole))
    if whole:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if picture.ticks:
        axes.set_xticks(list(picture.ticks), [printable(text) for text in picture.ticks.values()])
    axes.tick_params(labelsize=8 if small else 9)
    if picture.log:
        dress_factors(axes)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4 if small else 6))
    if picture.reach:
        ends = [end for line in panel.lines for end in (*line.value, *line.low, *line.high) if not isnan(end)]
        middle = (min(ends) + max(ends)) / 2
        axes.set_ylim(middle - picture.reach / 2, middle + picture.reach / 2)
    if legend and len(panel.lines) > 1:
        axes.legend(loc="best", fontsize=8.5)


def _curve(axes: "Axes", line: Line, ink: str) -> None:
    look: dict[str, Any] = {"color": ink, "linewidth": 2.6 if line.thick else 1.6, "label": line.label}
    if line.low:
        axes.fill_between(line.steps, line.low, line.high, color=ink, alpha=0.16, linewidth=0)
    axes.plot(line.steps, line.value, marker="o" if len(line.steps) < 8 else "", markersize=3, **look)
