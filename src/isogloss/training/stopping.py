"""Which model of a training is the best, and when going on is no longer worth it.

A choice names the readings that decide and compares them in the direction their measure declares: `Selection` by one
reading, `Balance` by what is gained on one side and lost on the other. The loop keeps the best model by it.

A rule looks at the readings of each step and may end the training. It is a pure function of them and of its own memory,

    rule(memory, step, readings) -> (memory, sentence or None)

where memory is what JSON can hold, empty at first. The loop carries it and keeps it in every checkpoint, so that a run
that was killed and goes on stops where it would have stopped: readings from before the checkpoint are not taken again.

    choice = Selection("perplexity", {"target": "nl", "unit": "token"})
    train(training, probes=probes, selection=choice, stop=Stopping(choice, patience=5))

    rule = at_balance({"target": "nl"}, {"target": "others"}, patience=5)
    train(training, probes=probes, checkpoints=place, selection=rule.selection, stop=rule)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isogloss.errors import InputError
from isogloss.measures.registry import MEASURES, direction
from isogloss.training.probes import Reading

Memory = Mapping[str, Any]
"""What a rule knows of earlier steps; JSON can hold it."""

Rule = Callable[[Memory, int, Sequence[Reading]], tuple[Memory, str | None]]
"""(memory, step, readings of that step) -> (memory, the sentence that ends the training or None)."""


@dataclass(frozen=True)
class Selection:
    """Which reading decides: its measure, whose declared direction is used, and its coordinates; the first that fits.

    >>> choice = Selection("perplexity", {"target": "nl"})
    >>> choice.value([{"measure": "perplexity", "value": 9.0, "target": "en"}]) is None
    True
    >>> choice.better(5.0, 6.0)
    True
    """

    measure: str
    where: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if direction(self.measure) is None:
            raise InputError(f"{self.measure!r} has no declared direction; choose {', '.join(MEASURES)}")

    @property
    def title(self) -> str:
        """The reading in words."""
        where = ", ".join(f"{name} {value}" for name, value in self.where.items())
        return f"{self.measure} ({where})" if where else self.measure

    @property
    def higher_is_better(self) -> bool:
        """The measure's own direction; a mean over directions of retrieval has that of its parts."""
        return bool(direction(self.measure))

    def value(self, readings: Sequence[Reading]) -> float | None:
        """The reading this selection is about, if it is among these."""
        for reading in readings:
            if reading["measure"] == self.measure and all(
                reading.get(name) == value for name, value in self.where.items()
            ):
                return float(reading["value"])
        return None

    def better(self, new: float, old: float | None, *, least: float = 0.0) -> bool:
        """Whether a value beats the best so far, by more than `least`."""
        return _better(new, old, least, higher=self.higher_is_better)


@dataclass(frozen=True)
class Balance:
    """The best balance of two readings: lowest log target + log others, up to a constant `measures.perplexity.balance`.

    Each counts in its own direction: the logarithm of a reading that is better when higher is subtracted. A reading
    that has no logarithm (0 or below) makes no balance.

    >>> nl, others = Selection("perplexity", {"target": "nl"}), Selection("perplexity", {"target": "others"})
    >>> both = {"nl": 8.0, "others": 2.0}
    >>> readings = [{"measure": "perplexity", "value": value, "target": name} for name, value in both.items()]
    >>> round(Balance(nl, others).value(readings), 4)
    2.7726
    """

    target: Selection
    others: Selection

    @property
    def title(self) -> str:
        """The two readings in words."""
        return f"the balance of {self.target.title} and {self.others.title}"

    def value(self, readings: Sequence[Reading]) -> float | None:
        """The balance at a step whose readings these are, in nats; None unless both are among them."""
        total = 0.0
        for side in (self.target, self.others):
            value = side.value(readings)
            if value is None:
                return None
            logarithm = math.log(value) if value > 0 else math.nan
            total += -logarithm if side.higher_is_better else logarithm
        return total

    def better(self, new: float, old: float | None, *, least: float = 0.0) -> bool:
        """Whether a balance is lower than the lowest so far, by more than `least` nats."""
        return _better(new, old, least, higher=False)


Choice = Selection | Balance


@dataclass(frozen=True)
class Stopping:
    """A rule: stop when the choice's reading has not become better by more than `least` for `patience` evaluations.

    A reading is compared with the best so far, so slow progress adds up until it is more than `least`. One that is no
    number is no progress. A step without the reading is no evaluation.

    >>> rule = Stopping(Selection("perplexity"), patience=2)
    >>> memory = {}
    >>> for step, value in enumerate((9.0, 7.0, 8.0, 7.0)):
    ...     memory, sentence = rule(memory, step, [{"measure": "perplexity", "value": value}])
    >>> sentence
    'perplexity has not improved since step 1 (patience 2)'
    """

    selection: Choice
    patience: int
    least: float = 0.0

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise InputError(f"patience is 1 evaluation or more, not {self.patience}")
        if not 0 <= self.least < math.inf:
            raise InputError(f"the least improvement that counts is 0 or more, not {self.least}")

    def __call__(self, memory: Memory, step: int, readings: Sequence[Reading]) -> tuple[Memory, str | None]:
        """The rule itself: memory holds the best value, its step, and the evaluations since."""
        value = self.selection.value(readings)
        if value is None:
            if step == 0:  # when every probe is taken: what is not read now will never be
                measures = ", ".join(dict.fromkeys(reading["measure"] for reading in readings))
                raise InputError(
                    f"training cannot stop by {self.selection.title}: no probe reads it (they read {measures}); mend "
                    "its coordinates or add the probe"
                )
            return memory, None
        best, at, waited = memory.get("best"), memory.get("step"), memory.get("waited", 0)
        if self.selection.better(value, best, least=self.least):
            return {"best": value, "step": step, "waited": 0}, None
        waited += 1
        if waited < self.patience:
            return {"best": best, "step": at, "waited": waited}, None
        since = "has been no number" if at is None else f"has not improved since step {at}"
        sentence = f"{self.selection.title} {since} (patience {self.patience})"
        return {"best": best, "step": at, "waited": waited}, sentence


def at_balance(
    target: Mapping[str, Any],
    others: Mapping[str, Any],
    *,
    patience: int,
    measure: str = "perplexity",
    least: float = 0.0,
) -> Stopping:
    """Stop when the balance of gain and loss has not improved for `patience` evaluations.

    target, others: coordinates of the two readings, as {"target": "nl", "unit": "token"}. least: in nats. Given the
    rule's own `selection`, the loop keeps the model of the balance step as `best`: the rule itself stops later.
    """
    return Stopping(Balance(Selection(measure, target), Selection(measure, others)), patience, least)


def _better(new: float, old: float | None, least: float, *, higher: bool) -> bool:
    """No number is better than nothing; any number is."""
    if old is None or math.isnan(new):
        return not math.isnan(new)
    return new > old + least if higher else new < old - least
