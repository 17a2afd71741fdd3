"""Draw figures as PNG and SVG with matplotlib: panels of curves, grids of shades, and matrices of languages.

The style is set only while drawing, and files are written atomically. `charts.js` draws the same figures on the page
and chooses the ticks of logarithmic axes in the same way.

A figure never shows an empty box: a word that no installed font covers is not labelled, and its script is named in the
caption. Scripts with joined or right-to-left letters also need a matplotlib that shapes text (3.11, with libraqm).
"""

import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import InputError
from isogloss.figure import COLOURS, DARK, GRIDS, INK, QUIET, RULE, SHADES, Figure, Line, Panel, printable
from isogloss.files import whole
from isogloss.measures.registry import describe
from isogloss.text.words import script_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

STYLE = Path(__file__).with_name("figures.mplstyle")
DPI = 160
CHANCE, REFERENCE = "#8a8577", "#CC79A7"
MOST_COLUMNS, MOST_TICKS = 4, 14
BESIDE = 2.4  # width in inches of the legend of a single panel
MOST_INSIDE = {False: 4, True: 3}  # most curves for a legend inside a panel; fewer in small panels
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.5, 1.5)))
TURNED = 6  # from this many words below an axis on, they are rotated
CELL_WITH_TEXT = 0.42  # inches
MOST_NAMED_COLUMNS = 25
LEAST_RANGE = 0.1
LIGHT_TEXT = 0.58  # above this share of the scale, shades are so dark that text is light
FEWEST_FACTORS, MOST_FACTORS = 4, 9
FACTOR_SERIES = ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0))

BASE_FONT = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDER_FONTS = ("Last Resort", "LastResort", "Adobe Blank")  # they draw every letter as a box or not at all
# Preferred families, best first; a Chinese font also has the letters of Japanese and Korean.
CHINESE_FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", "SimHei", "WenQuanYi")
PREFERRED_FONTS = (*CHINESE_FONTS, "Noto Sans", "Noto Serif", "Noto")
INDIC = ("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala")
ASIAN = ("Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Mongolian")
JOINED = frozenset(("Arabic", "Hebrew", "Syriac", "Thaana", "Nko", *INDIC, *ASIAN))


@contextmanager
def drawing(words: Iterable[str] = ()) -> Iterator["FontChoice"]:
    """Set the style of figures inside the block and yield the fonts chosen for these words.

    The caller's matplotlib settings are restored afterwards.
    """
    try:
        import matplotlib.style
    except ImportError as error:
        raise InputError("figures need matplotlib and Pillow: pip install 'isogloss[report]'") from error
    fonts = choose_fonts(words)
    style: list[Any] = ["default", STYLE, {"font.family": fonts.families}]
    with matplotlib.style.context(style), warnings.catch_warnings():
        # A glyph that is missing from one family is drawn from the next; words that no family covers are not drawn.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield fonts


def characters_by_script(words: Iterable[str]) -> dict[str, str]:
    """The distinct letters of each script in the words, in order of appearance."""
    scripts: dict[str, str] = {}
    for character in dict.fromkeys(character for word in words for character in word):
        if script := script_of(character):
            scripts[script] = scripts.get(script, "") + character
    return scripts


@dataclass(frozen=True)
class FontChoice:
    """Fonts for a set of words.

    Attributes:
        families: The font families, in order.
        letters: The code points that they cover.
        cannot: The scripts that are not drawn, each with a sentence that gives the reason.
    """

    families: list[str]
    letters: frozenset[int]
    cannot: dict[str, str]

    def draws(self, word: str) -> bool:
        """Whether every letter of a word can be drawn, and joined if its script requires it."""
        return not any(
            script_of(letter) in self.cannot or ord(letter) not in self.letters
            for letter in word
            if not letter.isspace()
        )


def choose_fonts(words: Iterable[str]) -> FontChoice:
    """Choose font families that together cover as many of the words as possible."""
    from matplotlib import ft2font

    scripts, joins = characters_by_script(words), hasattr(ft2font, "__libraqm_version__")
    unjoined = [script for script in scripts if script in JOINED and not joins]
    reasons = dict.fromkeys(unjoined, "this matplotlib cannot join or reorder letters; 3.11 can")
    needed = {script: set(map(ord, characters)) for script, characters in scripts.items() if script not in reasons}
    families, letters = [BASE_FONT], _letters_of(BASE_FONT)
    other = {name: [not name.startswith(preferred) for preferred in PREFERRED_FONTS] for name in _installed()}
    for family in sorted(other, key=lambda name: (other[name], "Sans" not in name, name)):
        missing = set().union(*needed.values()) - letters
        if missing & _letters_of(family):
            families.append(family)
            letters |= _letters_of(family)
        elif not missing:
            break
    for script, characters in needed.items():
        if missing := characters - letters:
            several = f"no installed font has {len(missing)} of their letters"
            reasons |= {script: "no installed font has them"} if missing == characters else {f"Some {script}": several}
    cannot = {script: f"{script} words not shown: {reason}." for script, reason in reasons.items()}
    return FontChoice(families, letters, cannot)


@lru_cache(maxsize=1)
def _installed() -> dict[str, tuple[str, int]]:
    """The file of each family's upright regular face, and the index of the face in the file."""
    from matplotlib.font_manager import fontManager

    entries: list[Any] = [
        entry
        for entry in fontManager.ttflist
        if entry.style == "normal" and not entry.name.lstrip(".").startswith(PLACEHOLDER_FONTS)
    ]
    entries.sort(key=lambda entry: abs(entry.weight - 400) if isinstance(entry.weight, int) else 0, reverse=True)
    return {entry.name: (entry.fname, getattr(entry, "index", 0)) for entry in entries}


@lru_cache(maxsize=256)
def _letters_of(family: str) -> frozenset[int]:
    """The code points of a family; empty if its file cannot be read."""
    from matplotlib.ft2font import FT2Font

    path, index = _installed().get(family, ("", 0))
    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
        return frozenset(font.get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def new_figure(width: float, height: float, **grid: Any) -> "tuple[Drawing, Any]":
    """A drawing in inches with axes, without pyplot's global list of figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    sheet = Drawing(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(sheet)
    return sheet, sheet.subplots(**grid)


def save(sheet: "Drawing", folder: Path, name: str) -> list[Path]:
    """Write a drawing as PNG and SVG; the layout, which is slower than drawing, is computed once."""
    sheet.draw_without_rendering()
    sheet.set_layout_engine(None)
    around = sheet.get_tightbbox().padded(0.15)
    written = []
    for kind in ("png", "svg"):
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        written.append(folder / f"{name}.{kind}")
        with whole(written[-1]) as beside:
            sheet.savefig(beside, format=kind, dpi=DPI, metadata=metadata, bbox_inches=around)
    return written


def caption(sheet: "Drawing", text: str) -> None:
    """Add a caption in a muted colour below the drawing, wrapped to its width."""
    if text:
        lines = "\n".join(textwrap.wrap(text, int(15.5 * sheet.get_figwidth())))
        sheet.supxlabel(lines, x=0.01, ha="left", fontsize=8.5, color=QUIET)


def write_figure(figure: Figure, out: Path) -> list[Path]:
    """Draw a figure with the initial choice of its menus and return the files; call it inside `drawing()`."""
    sheet = _draw_grid(figure) if figure.section in GRIDS else _draw_curves(figure)
    layer = figure.chosen.get("Layer")
    along = "by layer and step" if figure.section == "step-grid" else "by layer" if figure.xlabel == "layer" else ""
    title = f"{figure.title} at layer {layer}" if layer else f"{figure.title} {along}".strip()
    lower = " (lower is better)" if describe(figure.measure).better == "lower" else ""
    sheet.suptitle(printable(title + lower), x=0.01, ha="left", fontsize=13, fontweight="bold")
    caption(sheet, printable(figure.caption))
    return save(sheet, out, figure.name)


def _visible(figure: Figure) -> list[Panel]:
    """The panels that the chosen entries of the menus show."""
    return [panel for panel in figure.panels if not panel.choice or dict(panel.choice) == dict(figure.chosen)]


def _draw_curves(figure: Figure) -> "Drawing":
    panels = _visible(figure)
    count = len(panels)
    rows = ceil(count / figure.columns) if figure.columns else 2 if count == 4 else ceil(count / MOST_COLUMNS)
    columns = figure.columns or ceil(count / rows)
    small = columns > 2
    width, height = ((3.0, 2.3) if small else (5.0, 3.6)) if count > 1 else (7.0, 4.2)
    labels = [[line.label for line in panel.lines if not line.faint] for panel in panels]
    # Many curves share one legend beside the panels if every panel has the same ones or the first of them: colours
    # depend on the index of a curve in its panel, so a curve missing in the middle would change the later colours.
    most = max(labels, key=len, default=[])
    alike = all(own == most[: len(own)] for own in labels)
    shared = bool(figure.columns) or (len(most) > MOST_INSIDE[small] and alike)
    width += BESIDE if shared and count == 1 else 0
    among: dict[str, Any] = {"nrows": rows, "ncols": columns, "sharey": "col" if figure.columns else False}
    sheet, grid = new_figure(width * columns, height * rows + 0.9, **among, squeeze=False)
    places = list(grid.flat)
    for axes, panel in zip(places, panels, strict=False):
        _draw_panel(axes, panel, figure, small=small, legend=not shared)
    if figure.columns:  # one range per column, from the lines: wide intervals over few seeds would flatten them
        for axes in places[:count]:
            drawn = np.concatenate([np.asarray(line.get_ydata(), "float64") for line in axes.lines])
            axes.dataLim.intervaly = np.nanmin(drawn), np.nanmax(drawn)
            axes.set_ymargin(0.15)
            axes.autoscale_view(scalex=False)
            if axes.get_yscale() == "log":
                dress_factors(axes)
    if shared:
        handles: dict[str, Any] = {}
        for index in sorted(range(count), key=lambda index: -len(labels[index])):
            for mark, name in zip(*places[index].get_legend_handles_labels(), strict=True):
                handles.setdefault(name, mark)
        sheet.legend(list(handles.values()), list(handles), loc="outside right upper", fontsize=8.5)
    for axes in places[count:]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(figure.ylabel)
    for axes, panel in list(zip(places, panels, strict=False))[max(0, count - columns) :]:
        axes.set_xlabel(printable(panel.xlabel or figure.xlabel))
    return sheet


def _draw_panel(axes: "Axes", panel: Panel, figure: Figure, *, small: bool, legend: bool) -> None:
    for line, ink in sorted(zip(panel.lines, inks(panel.lines), strict=True), key=lambda pair: pair[0].dots):
        if line.dots:
            look: dict[str, Any] = {"markersize": 4.5, "markerfacecolor": "white", "markeredgecolor": ink}
            axes.plot(line.steps, line.value, "o", label=line.label, **look)
            if len(line.low) and line.band:
                axes.vlines(line.steps, line.low, line.high, color=ink, alpha=0.5, linewidth=1.6)
            continue
        if line.faint:
            axes.plot(line.steps, line.value, color=ink, linewidth=0.7, alpha=0.45)
            continue
        if len(line.low) and line.band and len(line.steps) > 1:
            axes.fill_between(line.steps, line.low, line.high, color=ink, alpha=0.16, linewidth=0)
        elif len(line.low) and line.band:  # a single point has an error bar, since its band would have no width
            axes.vlines(line.steps, line.low, line.high, color=ink, alpha=0.5, linewidth=2.4 if line.thick else 1.6)
        look = {"color": ink, "linewidth": 2.6 if line.thick else 1.6, "linestyle": DASHES[line.dash]}
        gaps = line.steps[-1] - line.steps[0] > len(line.steps) - 1  # with gaps, markers show the existing steps
        marker = "o" if len(line.steps) < 8 and (gaps or line.best is None) else ""
        axes.plot(line.steps, line.value, label=line.label, marker=marker, markersize=3, **look)
        if line.best is not None:
            ring: dict[str, Any] = {"markersize": 7, "markerfacecolor": "white", "markeredgewidth": 1.8}
            axes.plot([line.best], [_at(line, line.best)], "o", markeredgecolor=ink, **ring)
    for name, value in panel.references.items():
        axes.axhline(value, color=REFERENCE, linewidth=1.3, linestyle=(0, (7, 4)), label=name)
    floors: dict[tuple[str, ...], tuple[Line, str]] = {}  # those that look alike are drawn once
    for line, ink in zip(panel.lines, inks(panel.lines), strict=True):
        if len(line.floor) and not line.faint:
            floors.setdefault(tuple(f"{value:.2f}" for value in line.floor), (line, ink))
    look = {"linewidth": 1.1, "linestyle": (0, (3, 3))}
    for line, ink in floors.values():
        axes.plot(line.steps, line.floor, color=ink if len(floors) > 1 else CHANCE, **look)
    if floors:
        axes.plot([], [], color=CHANCE, label="chance", **look)
    for mark in panel.marks:
        axes.axvline(mark, color=RULE, linewidth=1.0, zorder=0)
    if panel.floor is not None:
        axes.axhline(panel.floor, color=QUIET, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0, label="chance")
    title = "\n".join(map(printable, panel.title.split("\n")))
    axes.set_title(title, fontsize=9 if small else 10.5, fontweight="normal", color=QUIET)
    _dress_axes(axes, panel, figure, small=small)
    if legend and len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(loc="best", fontsize=8.5)


def inks(lines: Sequence[Line]) -> list[str]:
    """The colours of a panel's lines: given, dark for the main line, or by index; dots are counted separately."""
    counts, colours = [0, 0], []
    for line in lines:
        index = counts[line.dots] if line.hue is None else line.hue
        counts[line.dots] += 1
        colours.append(line.colour or (DARK if line.thick else COLOURS[index % len(COLOURS)]))
    return colours


def _dress_axes(axes: "Axes", panel: Panel, figure: Figure, *, small: bool) -> None:
    """Set the ticks of the horizontal axis (whole numbers or words), and range and ticks of the vertical axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    steps = [step for line in panel.lines for step in line.steps]
    whole = all(float(step).is_integer() for step in steps)
    layers = whole and all(abs(step) < 100 for step in steps)  # longer numbers would overlap
    few = layers and max((len(line.steps) for line in panel.lines), default=0) <= MOST_TICKS and not small
    axes.xaxis.set_major_locator(MaxNLocator(MOST_TICKS if few else 4 if small else 6, integer=whole))
    if whole:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if figure.ticks:
        turned = 90 if len(figure.ticks) >= TURNED and sum(map(len, figure.ticks.values())) > 40 else 0
        axes.set_xticks(list(figure.ticks), [printable(text) for text in figure.ticks.values()], rotation=turned)
    axes.tick_params(labelsize=8 if small else 9)
    if figure.log or panel.log:
        dress_factors(axes)
    else:
        axes.yaxis.set_major_locator(MaxNLocator(4 if small else 6))
        if axis := describe(figure.measure).axis:
            low, high = axes.get_ylim()
            least = min((value for line in panel.lines for value in line.value if not isnan(value)), default=0.0)
            axes.set_ylim(low if least < 0 or axis[0] > low > 0 else axis[0], min(1.02 * axis[1], high))
    if figure.reach:
        ends = [end for line in panel.lines for end in (*line.value, *line.low, *line.high) if not isnan(end)]
        middle = (min(ends) + max(ends)) / 2
        axes.set_ylim(middle - figure.reach / 2, middle + figure.reach / 2)


def factor_ticks(low: float, high: float) -> list[float]:
    """4 to 9 ticks between two positive ends, of the coarsest logarithmic series, or at equal distances.

    For a perplexity that falls from 13 to 10, powers of ten or the series 1, 2, 5 would give a single tick.

    >>> factor_ticks(1, 3000), factor_ticks(2, 60), factor_ticks(3.9, 13.8)
    ([1.0, 10.0, 100.0, 1000.0], [2.0, 5.0, 10.0, 20.0, 50.0], [4.0, 5.0, 6.0, 8.0, 10.0])
    """
    from matplotlib.ticker import LogLocator, MaxNLocator

    even = MaxNLocator(MOST_FACTORS - 1, steps=[1, 2, 2.5, 5, 10], min_n_ticks=FEWEST_FACTORS)
    for locator in (*(LogLocator(subs=series, numticks=1000) for series in FACTOR_SERIES), even):
        ticks = [tick for tick in np.asarray(locator.tick_values(low, high)).tolist() if low <= tick <= high]
        if len(ticks) >= FEWEST_FACTORS:
            break
    return ticks[:: ceil(len(ticks) / MOST_FACTORS)]


def dress_factors(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, with readable ticks; call it after drawing the curves."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator(factor_ticks(*sorted(axes.get_ylim()))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:g}"))


def _draw_grid(figure: Figure) -> "Drawing":
    """Draw shaded cells, with values if there is room: a row per line and a column per step, or a cell per line."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    lines = _visible(figure)[0].lines
    if figure.section == "matrix":
        rows = columns = list(figure.ticks.values())
        layer = float(figure.chosen["Layer"])
        values = {line.cell: _at(line, layer) for line in lines}
        table = [[values.get((row, column), nan) for column in columns] for row in rows]
    else:
        steps = sorted({step for line in lines for step in line.steps})
        rows, columns = [line.label for line in lines], [f"{step:,.0f}" for step in steps]
        table = [[_at(line, step) for step in steps] for line in lines]
    cells = np.array(table, dtype="float64")  # (rows, columns)
    wide = max(0.24, min(0.62, 11 / len(columns)))
    wide = min(wide, 9 / len(columns)) if figure.xlabel == "step" else wide
    sheet, axes = new_figure(2.2 + wide * len(columns), 1.6 + 0.36 * len(rows))
    about = describe(figure.measure)
    low, high = shade_range(float(np.nanmin(cells)), float(np.nanmax(cells)), about.axis)
    shades = LinearSegmentedColormap.from_list("isogloss", SHADES[:: -1 if about.better == "lower" else 1])
    image: Any = axes.imshow(cells, cmap=shades, aspect="auto", vmin=low, vmax=high, interpolation="nearest")
    slanted = figure.section == "matrix" and any(len(label) > 4 for label in columns)
    named = range(0, len(columns), ceil(len(columns) / MOST_NAMED_COLUMNS) if wide >= 0.24 else ceil(len(columns) / 10))
    look: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if slanted else {}
    axes.set_xticks(named, [printable(columns[index]) for index in named], **look)
    axes.set_yticks(range(len(rows)), [printable(label) for label in rows])
    axes.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
    axes.grid(False)
    axes.spines[:].set_visible(False)
    for row, column in np.argwhere(~np.isnan(cells)) if wide >= CELL_WITH_TEXT else ():
        dark = (cells[row, column] - low) / (high - low or 1) > LIGHT_TEXT
        light = dark != (about.better == "lower")
        text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "color": "white" if light else INK}
        written = printable(lines[row].texts[column]) if lines[0].texts else f"{cells[row, column]:.2f}"
        axes.text(column, row, written, **text)
    if figure.section == "matrix":
        for index in range(len(rows)):
            axes.add_patch(Rectangle((index - 0.5, index - 0.5), 1, 1, facecolor="#e2e6ea"))
    bar = sheet.colorbar(image, ax=axes, fraction=0.03, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=QUIET, length=0)
    return sheet


def _at(line: Line, step: float) -> float:
    return float(line.value[list(line.steps).index(step)]) if step in line.steps else nan


def shade_range(low: float, high: float, axis: tuple[float, float] | None = None) -> tuple[float, float]:
    """Values of the palest and the darkest shade, at least 0.1 apart so that tiny differences do not look large.

    The range is limited to possible values; a share, for instance, is never below 0.
    """
    room = max(0.0, LEAST_RANGE - (high - low)) / 2
    first, last = low - room, high + room
    if axis is not None and first < axis[0] <= low:
        first, last = axis[0], last + axis[0] - first
    return first, last
