"""`layers.gif`: the word map rests at each layer and glides to the next."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import InputError
from isogloss.report.languages import COLOURS, INK, mix
from isogloss.report.look import PAPER, QUIET, new_figure
from isogloss.report.wordfigure import Figure, draw_map
from isogloss.report.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL.Image import Image

MOST_FRAMES = 100
BETWEEN = (7, 3, 1)  # pictures between two layers: each is half the one before, so frames can be halved
MOST_BYTES = 3_000_000
REST, MOMENT, END = 900, 60, 1800  # milliseconds
LONGEST_TITLE = 46


def write_animation(shown: Figure, out: Path) -> Path:
    """The animation; every second picture between the layers is left out until the file is below 3 MB."""
    layers = len(shown.points.layers)
    between = next((count for count in BETWEEN if (layers - 1) * (count + 1) <= MOST_FRAMES), 0)
    pictures = list(frames(shown, between))
    content = encode(pictures, between)
    while len(content) > MOST_BYTES and between > 0:
        pictures, between = pictures[::2], between // 2
        content = encode(pictures, between)
    return write_whole(out / "layers.gif", content)


def frames(shown: Figure, between: int) -> "Iterator[Image]":
    """Every layer and `between` pictures on the way to the next."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("the animation needs Pillow: pip install 'isogloss[report]'") from error
    points = shown.points
    figure, axes, moving = _stage(shown)
    canvas: Any = figure.canvas
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)  # frame, legend and title are drawn once
    for step in range((len(points.layers) - 1) * (between + 1) + 1):
        place, part = divmod(step, between + 1)
        share = part / (between + 1)
        eased = share * share * (3 - 2 * share)
        after = min(place + 1, len(points.layers) - 1)
        positions = points.positions[place] * (1 - eased) + points.positions[after] * eased
        heading, lines, *clouds = moving
        heading.set_text(f"layer {points.layers[place if share < 0.5 else after]}")
        lines.set_segments(list(positions[shown.lines]))
        for places, cloud in zip(shown.members.values(), clouds, strict=True):
            cloud.set_offsets(positions[places])
        canvas.restore_region(still)
        for artist in (lines, *clouds, heading):
            axes.draw_artist(artist)
        yield Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])


def _stage(shown: Figure) -> "tuple[Figure, Axes, list[Any]]":
    """The figure of the animation, its axes, and what moves in it: heading, lines, one cloud of points a language."""
    figure, axes = new_figure(6.6, 5.3)
    layout: Any = figure.get_layout_engine()
    layout.set(h_pad=0.1, w_pad=0.1)
    artists = draw_map(axes, shown, shown.points.positions[0], size=15)
    heading = axes.set_title("layer 00", fontsize=13)
    title = shown.title if len(shown.title) <= LONGEST_TITLE else f"{shown.title[: LONGEST_TITLE - 1]}…"
    axes.set_title(title, loc="right", fontsize=9, fontweight="normal", color=QUIET)
    look: dict[str, Any] = {
        "ncols": min(7, len(shown.names)),
        "handletextpad": 0.1,
        "columnspacing": 1.0,
        "fontsize": 8,
    }
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.01), **look)
    figure.set_dpi(100)
    moving = [heading, *artists]
    for artist in moving:
        artist.set_animated(True)
    return figure, axes, moving


def encode(pictures: "Sequence[Image]", between: int) -> bytes:
    """Pictures as a looping GIF with one small palette: a rest at each layer, a moment in between."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(palette_bytes())
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in pictures]
    durations = [REST if step % (between + 1) == 0 else MOMENT for step in range(len(small))]
    durations[-1] = END
    content = io.BytesIO()
    look: dict[str, Any] = {"append_images": small[1:], "duration": durations, "loop": 0, "disposal": 1}
    small[0].save(content, format="GIF", save_all=True, **look)
    return content.getvalue()


def palette_bytes() -> bytes:
    """White, greys, and each language colour on its way to white: the only colours there are, edges included."""
    greys = [mix(INK, PAPER, step / 11) for step in range(12)]
    tints = [mix(ink, PAPER, share) for ink in COLOURS for share in (0.0, 0.15, 0.35, 0.55, 0.75)]
    colours = [*greys, *tints, mix(QUIET, PAPER, 0.3)]
    padded = [*colours, *[PAPER] * (64 - len(colours))]
    return bytes(int(entry[at : at + 2], 16) for entry in padded for at in (1, 3, 5))
