"""Layers compared on the same sentences: the mean over all pairs of languages, and how far behind the best each is.

Two layers are read on the same text, so their scores move together; intervals of each alone overlap long after the
difference is plain. What counts is the interval of the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures import MEASURES, jackknife_interval
from isogloss.runs.table import Row, row
from isogloss.stack.chain import Chain
from isogloss.stack.stack import Stack


@dataclass(frozen=True)
class LayerMean:
    """A score averaged over all pairs of languages, and what chance gives.

    without: the same without each block or sentence in turn, (blocks,).
    """

    value: float
    without: Tensor
    floor: float


def compared(
    measure: str,
    method: str,
    layers: Mapping[int, LayerMean],
    *,
    n: int,
    base: Mapping[str, Any],
    unit: str = "sentence",
) -> Iterator[Row]:
    """Rows `MEASURE_mean` and `MEASURE_behind` of every layer.

    A layer whose `behind` interval reaches 0 cannot be told from the best one. n: items, of this unit.
    """
    least = MEASURES[measure].range[0]
    known = [one for one in layers.values() if one.value == one.value]  # a side without variation has no value
    best = max(known or layers.values(), key=lambda one: one.value)
    for layer, one in layers.items():
        place = {**base, "layer": layer, "unit": unit, "method": method, "n": n}
        low, high = jackknife_interval(one.value, one.without)
        low, high = max(low, least), min(high, 1.0)
        yield row(f"{measure}_mean", one.value, low=low, high=high, floor=one.floor, **place)
        behind = best.value - one.value
        low, high = jackknife_interval(behind, best.without - one.without)
        yield row(f"{measure}_behind", behind, low=low, high=high, **place)


def layer_list(text: str | Sequence[int] | None, stack: Stack | Chain) -> tuple[int, ...] | None:
    """Cuts from `0,4,8-12`, each checked against the stack."""
    if text is None:
        return None
    found: set[int] = set()
    try:
        for part in text.split(",") if isinstance(text, str) else map(str, text):
            first, _, last = part.partition("-")
            if int(last or first) < int(first):
                raise InputError(f"--layers {part} runs backwards; write {last}-{first}")
            found.update(range(int(first), int(last or first) + 1))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--layers takes numbers as in 0,4,8-12, not {text!r}") from error
    wrong = sorted(found - set(stack.cuts))
    if wrong:
        raise InputError(
            f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layers asks for {', '.join(map(str, wrong))}"
        )
    return tuple(sorted(found))
