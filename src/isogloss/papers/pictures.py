"""Figures as a paper prints them, as data: panels of curves with bands. `report` draws them, whatever the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isogloss.papers.evidence import LEAST


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
class Picture:
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


def bands_over(seeds: int) -> str:
    """The end of a caption, for curves that have at least so many seeds."""
    return f"; bands are t intervals over {seeds} seeds." if seeds >= LEAST else "; too few seeds for a band."
