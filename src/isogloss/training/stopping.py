"""Model selection and early stopping.

A `Choice` reduces the readings of a step to one number and compares it in the direction their measure declares:
`select_by` takes one reading, `balance_of` weighs what is gained by one reading against what is lost by another. The
loop keeps the best model by it.

A rule receives the readings of each step and may end the training. It is a pure function of them and of its own memory,

    rule(memory, step, readings) -> (memory, sentence or None)

where memory is JSON-serialisable and empty at first. The loop saves it in every checkpoint, so that a resumed run stops
where it would have stopped: readings from before the checkpoint are not taken again.

    choice = select_by("perplexity", target="nl", unit="token")
    train(training, probes=probes, selection=choice, stop=stop_after(choice, patience=5))

    both = balance_of(choice, select_by("perplexity", target="others", unit="token"))
    train(training, probes=probes, checkpoints=checkpoints, selection=both, stop=stop_after(both, patience=5))
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isogloss.errors import InputError, require
from isogloss.measures.registry import MEASURES, direction
from isogloss.training.probes import Reading

Memory = Mapping[str, Any]
"""What a rule remembers of earlier steps; JSON-serialisable."""

Rule = Callable[[Memory, int, Sequence[Reading]], tuple[Memory, str | None]]
"""(memory, step, readings of that step) -> (memory, the reason to stop or None)."""


@dataclass(frozen=True)
class Choice:
    """The criterion by which the best model is selected.

    title: a description of the number. higher: whether higher is better. value(readings): the number at a step with
    these readings, None if they do not contain it.
    """

    title: str
    higher: bool
    value: Callable[[Sequence[Reading]], float | None]

    def better(self, new: float, old: float | None, *, least: float = 0.0) -> bool:
        """Whether a value improves on the best so far by more than `least`: any number beats None, NaN nothing."""
        if old is None or math.isnan(new):
            return not math.isnan(new)
        return new > old + least if self.higher else new < old - least


def select_by(measure: str, **where: Any) -> Choice:
    """Select by the mean of the readings with the given coordinates, in the direction of their measure.

    >>> choice = select_by("perplexity", target="nl")
    >>> choice.value([{"measure": "perplexity", "value": 9.0, "target": "en"}]) is None
    True
    >>> choice.title, choice.better(5.0, 6.0)
    ('perplexity (target nl)', True)
    """
    higher = direction(measure)
    require(higher is not None, f"{measure!r} has no declared direction; choose {', '.join(MEASURES)}")
    wanted = {"measure": measure, **where}.items()
    coordinates = ", ".join(f"{name} {value}" for name, value in where.items())

    def value(readings: Sequence[Reading]) -> float | None:
        values = [float(reading["value"]) for reading in readings if wanted <= reading.items()]
        return sum(values) / len(values) if values else None

    return Choice(f"{measure} ({coordinates})" if where else measure, bool(higher), value)


def balance_of(target: Choice, others: Choice) -> Choice:
    """The best balance of two readings: lowest log target + log others.

    It is `measures.perplexity.balance` up to a constant.

    Each counts in its own direction: the logarithm of a reading that is better when higher is subtracted. If a reading
    is 0 or below, the balance is NaN; a step without one of the two readings has none.

    >>> both = balance_of(select_by("perplexity", target="nl"), select_by("perplexity", target="others"))
    >>> perplexities = {"nl": 8.0, "others": 2.0}
    >>> readings = [{"measure": "perplexity", "value": value, "target": name} for name, value in perplexities.items()]
    >>> round(both.value(readings), 4)
    2.7726
    """

    def value(readings: Sequence[Reading]) -> float | None:
        total = 0.0
        for side in (target, others):
            reading = side.value(readings)
            if reading is None:
                return None
            logarithm = math.log(reading) if reading > 0 else math.nan
            total += -logarithm if side.higher else logarithm
        return total

    return Choice(f"the balance of {target.title} and {others.title}", False, value)


def stop_after(selection: Choice, patience: int, least: float = 0.0) -> Rule:
    """A rule that stops when the reading has not improved by more than `least` for `patience` evaluations.

    A reading is compared with the best so far, so slow progress adds up until it exceeds `least`. NaN counts as no
    progress. A step without the reading is not an evaluation. Memory holds the best value, its step, and the number of
    evaluations since.

    >>> rule = stop_after(select_by("perplexity"), patience=2)
    >>> memory = {}
    >>> for step, value in enumerate((9.0, 7.0, 8.0, 7.0)):
    ...     memory, sentence = rule(memory, step, [{"measure": "perplexity", "value": value}])
    >>> sentence
    'perplexity has not improved since step 1 (patience 2)'
    """
    require(patience >= 1, f"patience is 1 evaluation or more, not {patience}")
    require(0 <= least < math.inf, f"the least improvement that counts is 0 or more, not {least}")

    def rule(memory: Memory, step: int, readings: Sequence[Reading]) -> tuple[Memory, str | None]:
        value = selection.value(readings)
        if value is None:
            if step == 0:  # every probe is taken at step 0: a reading missing now will always be missing
                measures = ", ".join(dict.fromkeys(reading["measure"] for reading in readings))
                raise InputError(
                    f"training cannot stop by {selection.title}: no probe reads it (they read {measures}); mend its "
                    "coordinates or add the probe"
                )
            return memory, None
        if selection.better(value, memory.get("best"), least=least):
            return {"best": value, "step": step, "waited": 0}, None
        memory = {"best": None, "step": None, **memory, "waited": memory.get("waited", 0) + 1}
        if memory["waited"] < patience:
            return memory, None
        since = "has been no number" if memory["step"] is None else f"has not improved since step {memory['step']}"
        return memory, f"{selection.title} {since} (patience {patience})"

    return rule
