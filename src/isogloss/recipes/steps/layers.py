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
    """A score averaged over all pairs of languages; the same without each block or sentence in turn, (blocks,); and
    what chance gives.
    """  # noqa: D205

    value: float
    without: Tensor
    floor: float


def compared(
    measure: str, variant: str, layers: Mapping[int, LayerMean], *, n: int, base: Mapping[str, Any]
) -> Iterator[Row]:
    """Rows `MEASURE_mean` and `MEASURE_behind` of every layer.

    A layer whose `behind` interval reaches 0 cannot be told from the best one. n: sentences.
    """
    least = MEASURES[measure].range[0]
    known = [one for one in layers.values() if one.value == one.value]  # a side without variation has no value
    best = max(known or layers.values(), key=lambda one: one.value)
    for layer, one in layers.items():
        place = {**base, "layer": layer, "unit": "sentence", "variant": variant, "n": n}
        low, high = jackknife_interval(one.value, one.without)
        low, high = max(low, least), min(high, 1.0)
        yield row(f"{measure}_mean", one.value, low=low, high=high, floor=one.floor, **place)
        behind = best.value - one.value
        low, high = jackknife_interval(behind, best.without - one.without)
        yield row(f"{measure}_behind", behind, low=low, high=high, **place)
