"""Layers compared on the same sentences: the mean over all pairs of languages, and how far behind the best each is.

Two layers are read on the same text, so their scores move together; intervals of each alone overlap long after the
difference is plain. What counts is the interval of the difference.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from isogloss.measures import MEASURES, jackknife_interval
from isogloss.runs.table import Row, row


@dataclass(frozen=True)
class LayerMean:
    """A score averaged over all pairs of languages, and what chance gives.

    without: the same without each block or sentence in turn, (blocks,).
    """

    value: float
    without: Tensor
    floor: float


def layer_rows(
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
    known = [mean for mean in layers.values() if mean.value == mean.value]  # a side without variation has no value
    best = max(known or layers.values(), key=lambda mean: mean.value)
    for layer, mean in layers.items():
        coordinates = {**base, "layer": layer, "unit": unit, "method": method, "n": n}
        low, high = jackknife_interval(mean.value, mean.without)
        low, high = max(low, least), min(high, 1.0)
        yield row(f"{measure}_mean", mean.value, low=low, high=high, floor=mean.floor, **coordinates)
        behind = best.value - mean.value
        low, high = jackknife_interval(behind, best.without - mean.without)
        yield row(f"{measure}_behind", behind, low=low, high=high, **coordinates)
