"""Layers compared on the same items: the mean over all pairs of languages, and how far behind the best each is.

Two layers are read on the same text, so their scores move together; intervals of each alone overlap long after the
difference is plain. What counts is the interval of the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.registry import MEASURES
from isogloss.measures.retrieval import Retrieval
from isogloss.measures.statistics import jackknife_interval
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.stack import Chain, Stack, layer_list
from isogloss.text.corpora import Bitext


@dataclass(frozen=True)
class LayerMean:
    """A score averaged over all pairs of languages, and what chance gives.

    without: the same without each block or sentence in turn, (blocks,).
    """

    value: float
    without: Tensor
    floor: float


def mean_of_hits(hits: Tensor, floor: float) -> LayerMean:
    """The mean of each sentence's hits (sentences,), float64, and without each of them."""
    return LayerMean(float(hits.mean()), (hits.sum() - hits) / max(1, len(hits) - 1), floor)


def layer_rows(
    measure: str,
    method: str,
    layers: Mapping[int, LayerMean],
    *,
    n: int,
    base: Mapping[str, Any],
    unit: str = "sentence",
) -> Iterator[Row]:
    """Rows `MEASURE_mean` and `MEASURE_behind` of every layer, and `MEASURE_best` of the best one.

    A layer whose `behind` interval reaches 0 cannot be told from the best one. The highest of many layers is too high
    on the items it was chosen on. So `best` is chosen on every second item and read on the others, and the other way
    round: their mean. An item's own score is what its absence takes away, n v - (n - 1) v_i. n: items, of this unit.
    """
    least = MEASURES[measure].range[0]
    known = [mean for mean in layers.values() if mean.value == mean.value]  # a side without variation has no value
    best = max(known or layers.values(), key=lambda mean: mean.value)
    for layer, mean in layers.items():
        coordinates = {**base, "layer": layer, "unit": unit, "method": method, "n": n}
        estimate = jackknife_interval(mean.value, mean.without, floor=mean.floor).clipped(least, 1.0)
        yield row(f"{measure}_mean", estimate, **coordinates)
        behind = jackknife_interval(best.value - mean.value, best.without - mean.without)
        yield row(f"{measure}_behind", behind, **coordinates)
    count = len(best.without)
    if len(known) > 1 and count > 3:
        scores = torch.stack([count * mean.value - (count - 1) * mean.without for mean in known])  # (layers, count)
        judged = torch.empty_like(scores[0])
        for half in (0, 1):
            means_there = scores[:, 1 - half :: 2].mean(dim=1).round(decimals=9)  # so that equal ones are
            judged[half::2] = scores[means_there.argmax(), half::2]
        read = mean_of_hits(judged, best.floor)
        estimate = jackknife_interval(read.value, read.without, floor=read.floor).clipped(least, 1.0)
        yield row(f"{measure}_best", estimate, **{**base, "unit": unit, "method": method, "n": n})


Judged = dict[tuple[str, str], Retrieval]
"""What one layer answered, by mapping and retrieval method."""


def behind_rows(layers: Mapping[int, Judged], *, base: Mapping[str, Any], unit: str) -> Iterator[Row]:
    """How far each layer is behind the best, on the same queries, and the best, for every mapping and method."""
    if len(layers) < 2:
        return
    for mapping, method in next(iter(layers.values())):
        means = {}
        for layer, by_mapping in layers.items():
            judged = by_mapping[mapping, method]
            means[layer] = mean_of_hits((judged.ranks == 1).double(), judged.p[1].floor)
        rows = layer_rows("p@1", method, means, n=judged.n, base={**base, "condition": mapping}, unit=unit)
        yield from (entry for entry in rows if entry["measure"] != "p@1_mean")  # a mean over one direction is p@1


def shared_layers(first: Stack, other: Stack, layers: Any) -> list[int]:
    """The layers to read in each of two models: those of --layers, or all where both are equally deep."""
    if layers is None and first.cuts != other.cuts:
        raise InputError(
            f"{first.name} has {first.cuts[-1]} layers and {other.name} has {other.cuts[-1]}; layer k of one is "
            "compared with layer k of the other, so choose models of one depth, or some layers of both with --layers"
        )
    chosen = layer_list(first.cuts if layers is None else layers, first)
    return list(layer_list(chosen, other) or ())


def note_shortened(run: Run, shortened: int, total: int, text: str, stack: Stack | Chain) -> None:
    """Note how many sentences of a text, named by its language, were cut to the model's length, if any were."""
    if shortened:
        longest = f"longer than {stack.max_length} tokens"
        run.note(f"{shortened:,} of {total:,} sentences of {text} were {longest} and were cut")


def bitext_with(texts: Sequence[Bitext], languages: tuple[str, str], option: str) -> Bitext:
    """The first text that has both languages; option: the one that names the texts."""
    for text in texts:
        if set(languages) <= set(text.languages):
            return text
    pairs = ", ".join("-".join(text.languages) for text in texts)
    raise InputError(f"--{option} has no parallel text of {languages[0]} and {languages[1]}; it has {pairs}")
