"""The registry of measures: title, explanation, direction, range, invariances and paper of each.

A measure is a plain function from tensors to a number. The decorator `measure` returns the function unchanged and
registers its properties: model selection reads the direction here instead of guessing it, the report reads titles and
explanations, and a contract test checks every measure against its declaration.

Tables of results also contain measures without a function here: counts, losses, differences of scores. Their properties
are in `row_measures.toml`. `describe` finds the properties of any name in the column `measure`.
"""

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from typing import Any, Literal, TypeVar

Takes = Literal["pair", "space", "other"]
Direction = Literal["higher", "lower", "neither"]
Range = tuple[float, float]
F = TypeVar("F", bound=Callable[..., Any])
SHARE: Range = (0.0, 1.0)

INVARIANCES = frozenset(
    {"rotation", "scale", "shift", "joint rotation", "joint shift", "permutation of items", "symmetric"}
)


@dataclass(frozen=True)
class Measure:
    """The properties of one measure.

    Attributes:
        name: its name in the column `measure` of a table.
        title: the heading of a figure or a column.
        explanation: its meaning, for a reader who does not know it; empty if unknown.
        higher_is_better: the direction used in selection; None if there is none.
        range: the smallest and largest possible value; intervals are clipped to it.
        axis: the range on which it is drawn, if it has a natural one.
        logarithmic: whether that axis is logarithmic.
        neutral: whether a report calls neither direction better, because no value is good in itself, such as the
            distance of a model from its initial state.
        invariances: some of `INVARIANCES`: transformations of `x` alone (rotation, scale, shift), of both alike (joint
            rotation, joint shift, permutation of items) or of the order of the arguments (symmetric) that do not change
            the value.
        directed: whether tables have a row for each direction between two languages, although the function, which is
            symmetric, averages both.
        paper: the publication of the measure.
        takes: the arguments of the function: "pair" for `function(x, y)` with corresponding rows, "space" for
            `function(x)`, "other" for anything else.
        function: computes the measure; None for one that occurs only in tables.
    """

    name: str
    title: str
    explanation: str = ""
    higher_is_better: bool | None = None
    range: Range = (-math.inf, math.inf)
    axis: Range | None = None
    logarithmic: bool = False
    neutral: bool = False
    invariances: frozenset[str] = frozenset()
    directed: bool = False
    paper: str = ""
    takes: Takes = "pair"
    function: Callable[..., Any] | None = field(default=None, repr=False)

    @property
    def known(self) -> bool:
        """Whether the measure was declared; the title of an unknown one is its name."""
        return bool(self.explanation)

    @property
    def better(self) -> Direction:
        """The direction that a report calls better."""
        if self.neutral or self.higher_is_better is None:
            return "neither"
        return "higher" if self.higher_is_better else "lower"

    @property
    def undirected(self) -> bool:
        """Whether a table has one row for a pair of languages, with the same value in both directions."""
        return "symmetric" in self.invariances and not self.directed


MEASURES: dict[str, Measure] = {}
"""The measures that have a function, by name."""


def measure(
    name: str, title: str = "", explanation: str = "", *, range: Range, invariances: tuple[str, ...] = (), **facts: Any
) -> Callable[[F], F]:
    """Register the decorated function under `name`; the function itself is returned unchanged.

    Args:
        name: its unique name in the column `measure` of a table.
        title: the heading of a figure; by default the name.
        explanation: its meaning, for a reader who does not know it.
        range: the smallest and largest value; if it is 0 to 1, this is also the default of `axis`.
        invariances: some of `INVARIANCES`.
        facts: other attributes of `Measure`, such as `higher_is_better`.
    """
    if unknown := set(invariances) - INVARIANCES:
        raise ValueError(f"{name}: unknown invariances {sorted(unknown)}; known are {sorted(INVARIANCES)}")
    facts = {"axis": SHARE if range == SHARE else None, **facts}

    def declare(function: F) -> F:
        known = MEASURES.get(name)
        # A module that is reloaded in a notebook registers its measures again, which is not a conflict.
        if known is not None and getattr(known.function, "__module__", "") != function.__module__:
            raise ValueError(f"a measure named {name!r} is already registered")
        given = {"range": range, "invariances": frozenset(invariances), "function": function, **facts}
        MEASURES[name] = Measure(name, title or name, explanation, **given)
        return function

    return declare


score = partial(measure, higher_is_better=True, range=SHARE, takes="other")
"""Register the score of a task, from 0 to 1, of answers that are compared with gold answers."""


def describe(measure: str) -> Measure:
    """Look up the properties of a measure, by its name in the column `measure` of a table.

    The name is looked up in `MEASURES` (measures with a function), in `ROW_MEASURES` (measures of tables alone), and by
    its parts: `X_mean` is the mean of X over languages or directions, with the range and the direction of X; `X_behind`
    is the difference of X to the best layer, with the range of a difference; `X_best` is X at the best layer, on items
    that were not used to choose it; `p@K` is precision at any K. For an unknown name the title is the name itself,
    without explanation, direction and bounds (`known` is False).

    Args:
        measure: a name such as `cka`, `p@1`, `p@1_mean`, `gap`, `loss`.

    >>> describe("p@20").title, describe("p@20").range
    ('Retrieval P@20', (0.0, 1.0))
    >>> describe("gap").better, describe("mrr_mean").better, describe("mrr_behind").better, describe("mine").better
    ('lower', 'higher', 'lower', 'neither')
    """
    if measure in MEASURES and MEASURES[measure].known:
        return MEASURES[measure]
    if measure in ROW_MEASURES:
        return ROW_MEASURES[measure]
    kind, _, number = measure.partition("@")
    if kind == "p" and number.isdecimal() and int(number) > 0:
        words = f"As P@1, but the translation may be among the nearest {number}."
        return replace(describe("p@1"), name=measure, title=f"Retrieval P@{number}", explanation=words)
    name, _, suffix = measure.rpartition("_")
    whole = describe(name) if suffix in ("mean", "behind", "best") else Measure(measure, measure)
    if whole.known and suffix == "mean":
        words = f"{whole.title} averaged over all {'pairs of languages' if whole.undirected else 'directions'}."
        return replace(whole, name=measure, title=f"{whole.title}, mean", explanation=words, axis=None)
    if whole.known and suffix == "best":
        words = f"{whole.title} at the best layer, chosen on half of the items and read on the other half."
        return replace(whole, name=measure, title=f"{whole.title} at the best layer", explanation=words, axis=None)
    if whole.known:
        words = (
            f"How much worse {whole.title} is than at the best layer, on the same sentences. If the interval contains "
        )
        words += "0, the layer cannot be distinguished from the best."
        reach = whole.range[1] - whole.range[0]
        title = f"{whole.title} behind the best layer"
        return Measure(measure, title, words, higher_is_better=False, range=(-reach, reach))
    return Measure(measure, measure)


def direction(measure: str) -> bool | None:
    """Whether higher values of a measure are selected (True) or lower ones (False); None if it is not declared.

    A mean over directions or languages, `X_mean`, has the direction of X.

    >>> direction("p@1_mean"), direction("perplexity"), direction("vocabulary")
    (True, False, None)
    """
    entry = MEASURES.get(measure.removesuffix("_mean"))
    return None if entry is None else entry.higher_is_better


def _row_measures() -> dict[str, Measure]:
    """Read every entry of `row_measures.toml`, by name."""
    table = tomllib.loads(files("isogloss.measures").joinpath("row_measures.toml").read_text(encoding="utf-8"))
    for facts in table.values():
        facts |= {name: tuple(facts[name]) for name in ("range", "axis") if name in facts}
    return {name: Measure(name, **facts) for name, facts in table.items()}


ROW_MEASURES = _row_measures()
"""Properties of the measures that occur in tables and have no function here, by name."""
