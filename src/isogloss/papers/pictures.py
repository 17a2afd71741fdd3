"""Figures as a paper prints them, as data: panels of curves with bands. `report` draws them, whatever the paper."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """A curve: steps, values and the ends of its band (NaN where there is none), equally many each.

    seeds: how many stand behind it. dots: published numbers rather than a curve.
    """

    label: str
    steps: Sequence[float]
    value: Sequence[float]
    low: Sequence[float] = field(default_factory=tuple)
    high: Sequence[float] = field(default_factory=tuple)
    dots: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves that share axes; `marks` are steps with a thin line, such as the ends of epochs."""

    title: str
    lines: Sequence[Line]
    marks: Sequence[float] = field(default_factory=tuple)


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name, its title, what it shows, its panels.

    reach: the span of the vertical axis of every panel, 0 for each its own. log: that axis counts in factors.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    ylabel: str = ""
    reach: float = 0.0
    log: bool = False
