"""What is known about each measure, declared beside its function.

A measure is a plain function of tensors to a number. The decorator leaves the function as it is and writes down which
direction is better, the range, what leaves the value unchanged, and the paper: code that selects reads the direction
here instead of guessing it, and one contract test holds every measure to what it declares.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Takes = Literal["pair", "space", "other"]
F = TypeVar("F", bound=Callable[..., Any])

INVARIANCES = frozenset(
    {"rotation", "scale", "shift", "joint rotation", "joint shift", "permutation of items", "symmetric"}
)


@dataclass(frozen=True)
class Measure:
    """One measure and its declared facts.

    `takes` says what the function is called with: "pair" for `function(x, y)` with rows that correspond, "space" for
    `function(x)`, "other" for anything else. `invariances` names what may be done to `x` alone (rotation, scale,
    shift), to both alike (joint rotation, joint shift, permutation of items) or to the order of the arguments
    (symmetric) without changing the value.
    """

    name: str
    function: Callable[..., float]
    higher_is_better: bool
    range: tuple[float, float]
    invariances: frozenset[str] = frozenset()
    paper: str = ""
    takes: Takes = "pair"


MEASURES: dict[str, Measure] = {}


def register(entry: Measure) -> Measure:
    """Add a measure to the registry; a name is given once and invariances are known words."""
    known = MEASURES.get(entry.name)
    # A module that is loaded again in a notebook brings its own measures again; that is no clash.
    if known is not None and known.function.__module__ != entry.function.__module__:
        raise ValueError(f"a measure named {entry.name!r} is already registered")
    unknown = entry.invariances - INVARIANCES
    if unknown:
        raise ValueError(f"{entry.name}: unknown invariances {sorted(unknown)}; known are {sorted(INVARIANCES)}")
    MEASURES[entry.name] = entry
    return entry


def measure(
    name: str,
    *,
    higher_is_better: bool,
    range: tuple[float, float],
    invariances: tuple[str, ...] = (),
    paper: str = "",
    takes: Takes = "pair",
) -> Callable[[F], F]:
    """Register the decorated function under `name`; the function itself is returned unchanged."""

    def declare(function: F) -> F:
        register(Measure(name, function, higher_is_better, range, frozenset(invariances), paper, takes))
        return function

    return declare
