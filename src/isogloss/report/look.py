"""How figures look, and how they are saved: one style, set for the time of drawing only, and files written whole."""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.errors import InputError
from isogloss.report.languages import INK
from isogloss.report.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUIET, RULE, PAPER, DARK = "#66707a", "#e4e0d6", "#ffffff", "#12294a"
VARIANT_LOOKS = {"centred": (DARK, "-"), "cosine": ("#D55E00", ":"), "csls": ("#009E73", "--")}
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "wedge": "v",
    "plus": "P",
    "star": "*",
    "hexagon": "h",
}
MARKER_SIZES = {"*": 2.4, "P": 1.5, "^": 1.25, "v": 1.25, "D": 0.8, "h": 1.2}  # areas that look as large as a circle's
DPI = 160
FILE_NAMES = {"p@1": "retrieval"}


@contextmanager
def drawing(families: Sequence[str] = ("DejaVu Sans",)) -> Iterator[None]:
    """The style of figures while the block runs; the caller's matplotlib settings are untouched afterwards.

    Text is never read as mathematics: a `$` in a word or a model's name is a `$`.
    """
    try:
        import matplotlib
        import matplotlib.style
    except ImportError as error:
        raise InputError("figures need matplotlib and Pillow: pip install 'isogloss[report]'") from error
    chosen = {
        "font.family": list(families),
        "font.size": 10,
        "text.color": INK,
        "text.parse_math": False,
        "axes.labelcolor": QUIET,
        "axes.edgecolor": RULE,
        "axes.titlesize": 12,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": "#eceae2",
        "xtick.color": QUIET,
        "ytick.color": QUIET,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "figure.facecolor": PAPER,
        "svg.fonttype": "path",
        "svg.hashsalt": "isogloss",
    }
    with matplotlib.style.context(["default", chosen]), warnings.catch_warnings():
        # A glyph that is missing from one family is drawn from the next; what none has never reaches a figure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float, height: float, **grid: Any) -> "tuple[Figure, Any]":
    """A figure in inches with axes, without pyplot's global list of figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(**grid)


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """The figure as PNG and SVG; laid out once for both, which takes longer than drawing it."""
    figure.draw_without_rendering()
    figure.set_layout_engine(None)
    around = figure.get_tightbbox().padded(0.15)
    written = []
    for kind in ("png", "svg"):
        content = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, dpi=DPI, metadata=metadata, bbox_inches=around)
        written.append(write_whole(folder / f"{name}.{kind}", content.getvalue()))
    return written


def file_name(measure: str) -> str:
    """A measure's name in the name of a file.

    >>> file_name("p@1"), file_name("word_agreement")
    ('retrieval', 'word-agreement')
    """
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure).strip("-")
    return FILE_NAMES.get(measure, plain)


def printable(text: str) -> str:
    """Text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def caption(figure: "Figure", text: str) -> None:
    """A quiet line below the figure, as wide as the figure."""
    import textwrap

    if text:
        figure.supxlabel(
            "\n".join(textwrap.wrap(text, int(15.5 * figure.get_figwidth()))),
            x=0.01,
            ha="left",
            fontsize=8.5,
            color=QUIET,
        )


def bare(axes: "Axes") -> None:
    """Axes without ticks, for maps whose directions mean nothing."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(RULE)
