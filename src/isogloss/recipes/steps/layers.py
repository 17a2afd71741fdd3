"""Layers compared on the same sentences: the mean over all pairs of languages, and how far behind the best each is.

Two layers are read on the same text, so their scores move together; intervals of each alone overlap long after the
difference is plain. What counts is the interval of the difference.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from isogloss.measures import jackknife_interval
from isogloss.runs.table import Row, row


def compared(
    measure: str, variant: str, layers: Mapping[int, tuple[float, Tensor]], *, n: int, base: Mapping[str, Any]
) -> Iterator[Row]:
    """Rows `MEASURE_mean` and `MEASURE_behind` of every layer.

    layers: cut -> (mean over the pairs of languages, the same mean without each block or sentence in turn, (blocks,)).
    A layer whose `behind` interval reaches 0 cannot be told from the best one. n: sentences.
    """
    best = max(layers, key=lambda layer: layers[layer][0])
    for layer, (value, without) in layers.items():
        place = {**base, "layer": layer, "unit": "sentence", "variant": variant, "n": n}
        low, high = jackknife_interval(value, without)
        yield row(f"{measure}_mean", value, low=low, high=high, **place)
        behind = layers[best][0] - value
        low, high = jackknife_interval(behind, layers[best][1] - without)
        yield row(f"{measure}_behind", behind, low=low, high=high, **place)
