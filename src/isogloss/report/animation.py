"""`layers.gif`: the word map rests at each layer and glides to the next."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import InputError
from isogloss.report.look import QUIET, new_figure
from isogloss.report.wordfigure import Picture, draw_map
from isogloss.report.writing import write_whole

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_FRAMES = 100
MOST_BETWEEN = 7
MOST_BYTES = 3_000_000
REST, MOMENT, END = 900, 60, 1800  # milliseconds
LONGEST_TITLE = 46


def write_animation(shown: Picture, out: Path) -> Path:
    """The animation, with fewer pictures between the layers until the file is below 3 MB."""
    steps = max(1, len(shown.points.layers) - 1)
    between = max(1, min(MOST_BETWEEN, MOST_FRAMES // steps - 1))
    while True:
        content = encode(list(frames(shown, between)), between)
        if len(content) <= MOST_BYTES or between == 0:
            return write_whole(out / "layers.gif", content)
        between = min(between - 1, int(between * MOST_BYTES / len(content)))


def frames(shown: Picture, between: int) -> "Iterator[Image]":
    """Every layer and `between` pictures on the way to the next."""
    try:
        from PIL import Image
    except ImportError as error:
        raise InputError("the animation needs Pillow: pip install 'isogloss[report]'") from error
    points = shown.points
    figure, axes = new_figure(6.6, 5.3)
    artists = draw_map(axes, shown, points.positions[0], size=14)
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
    for step in range((len(points.layers) - 1) * (between + 1) + 1):
        place, part = divmod(step, between + 1)
        share = part / (between + 1)
        eased = share * share * (3 - 2 * share)
        after = min(place + 1, len(points.layers) - 1)
        positions = points.positions[place] * (1 - eased) + points.positions[after] * eased
        artists[0].set_segments(list(positions[shown.lines]))
        for places, artist in zip(shown.members.values(), artists[1:], strict=True):
            artist.set_offsets(positions[places])
        heading.set_text(f"layer {points.layers[place if share < 0.5 else after]}")
        figure.canvas.draw()
        if step == 0:
            figure.set_layout_engine("none")  # else every frame would be laid out anew, and tremble
        yield Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[:, :, :3])  # type: ignore[attr-defined]


def encode(pictures: "Sequence[Image]", between: int) -> bytes:
    """Pictures as a looping GIF with one palette of 64 colours: a rest at each layer, a moment in between."""
    from PIL import Image

    palette = pictures[0].quantize(colors=64, method=Image.Quantize.MEDIANCUT)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in pictures]
    durations = [REST if step % (between + 1) == 0 else MOMENT for step in range(len(small))]
    durations[-1] = END
    content = io.BytesIO()
    look: dict[str, Any] = {
        "save_all": True,
        "append_images": small[1:],
        "duration": durations,
        "loop": 0,
        "disposal": 1,
    }
    small[0].save(content, format="GIF", **look)
    return content.getvalue()
