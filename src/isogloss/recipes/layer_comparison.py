"""Comparison of layers on the same items: the mean over all pairs of languages, and the distance to the best layer.

All layers are evaluated on the same text, so their scores rise and fall together, and their separate intervals can
overlap although the difference is clear. What counts is the interval of the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.retrieval import Retrieval
from isogloss.measures.statistics import Interval, jackknife_interval, means_without_parts, share_interval
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.stack import Chain, Stack, layer_list
from isogloss.text.corpora import Bitext


@dataclass(frozen=True)
class LayerMean:
    """A score averaged over all pairs of languages, and its chance level.

    without: the score without each block or sentence in turn, (blocks,). hits: whether it is a mean over sentences of
    values between 0 and 1, each of which is a block.
    """

    value: float
    without: Tensor
    floor: float
    hits: bool = False

    @property
    def scores(self) -> Tensor:
        """The score of each block: n v - (n - 1) v_i, (blocks,)."""
        count = len(self.without)
        return count * self.value - (count - 1) * self.without

    @property
    def interval(self) -> Interval:
        """The score with its interval and chance level."""
        if self.hits:
            scores = self.scores.clamp(0, 1)
            return replace(share_interval(scores, floor=self.floor), parts=means_without_parts(scores))
        return jackknife_interval(self.value, self.without, floor=self.floor).clipped(-1.0, 1.0)


def mean_of_scores(scores: Tensor, floor: float, *, hits: bool) -> LayerMean:
    """The mean of the scores of blocks or sentences (blocks,), float64; hits: whether they are hits of sentences."""
    return LayerMean(float(scores.mean()), (scores.sum() - scores) / max(1, len(scores) - 1), floor, hits)


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

    A layer whose `behind` interval includes 0 cannot be distinguished from the best one. That one was chosen on the
    same items, so these intervals have the confidence that those of all pairs of layers together need. The score of the
    best of many layers is biased upwards on the items it was chosen on. So `best` is cross-fitted: the layer is chosen
    on every second item and scored on the others, and vice versa. n: number of items.
    """
    known = [mean for mean in layers.values() if mean.value == mean.value]  # a side without variation has no value
    best = max(known or layers.values(), key=lambda mean: mean.value)
    pairs = max(1, len(layers) * (len(layers) - 1) // 2)
    for layer, mean in layers.items():
        coordinates = {**base, "layer": layer, "unit": unit, "method": method, "n": n}
        yield row(f"{measure}_mean", mean.interval, **coordinates)
        behind = jackknife_interval(best.value - mean.value, best.without - mean.without, among=pairs)
        yield row(f"{measure}_behind", behind.clipped(-1.0, 1.0), **coordinates)
    count = len(best.without)
    if len(known) > 1 and count > 3:
        scores = torch.stack([mean.scores for mean in known])  # (layers, count)
        judged = torch.empty_like(scores[0])
        for half in (0, 1):
            other_means = scores[:, 1 - half :: 2].mean(dim=1).round(decimals=9)  # rounding error breaks no tie
            judged[half::2] = scores[other_means.argmax(), half::2]
        estimate = mean_of_scores(judged, best.floor, hits=best.hits).interval
        yield row(f"{measure}_best", estimate, **{**base, "unit": unit, "method": method, "n": n})


Judged = dict[tuple[str, str], Retrieval]
"""The retrieval results of one layer, by mapping and retrieval method."""


def behind_rows(layers: Mapping[int, Judged], *, base: Mapping[str, Any], unit: str) -> Iterator[Row]:
    """Rows `p@1_behind` and `p@1_best` of the layers, on the same queries, for every mapping and method."""
    if len(layers) < 2:
        return
    for mapping, method in next(iter(layers.values())):
        means = {}
        for layer, by_mapping in layers.items():
            judged = by_mapping[mapping, method]
            means[layer] = mean_of_scores((judged.ranks == 1).double(), judged.p[1].floor, hits=True)
        rows = layer_rows("p@1", method, means, n=judged.n, base={**base, "condition": mapping}, unit=unit)
        yield from (entry for entry in rows if entry["measure"] != "p@1_mean")  # with one direction it equals p@1


def shared_layers(first: Stack, other: Stack, layers: Any) -> list[int]:
    """The layers to read in each of two models: those of --layers, or all if both have the same depth."""
    if layers is None and first.cuts != other.cuts:
        raise InputError(
            f"{first.name} has {first.cuts[-1]} layers and {other.name} has {other.cuts[-1]}; layer k of one is "
            "compared with layer k of the other, so choose models of one depth, or some layers of both with --layers"
        )
    chosen = layer_list(first.cuts if layers is None else layers, first)
    return list(layer_list(chosen, other) or ())


def note_shortened(run: Run, shortened: int, total: int, *, text: str, stack: Stack | Chain) -> None:
    """Add a note on how many sentences of a text were truncated to the model's maximum length, if any."""
    if shortened:
        longest = f"longer than {stack.max_length} tokens"
        run.note(f"{shortened:,} of {total:,} sentences of {text} were {longest} and were cut")


def bitext_with(texts: Sequence[Bitext], languages: tuple[str, str], option: str) -> Bitext:
    """The first text that has both languages; option: the name of the option that gave the texts."""
    for text in texts:
        if set(languages) <= set(text.languages):
            return text
    pairs = ", ".join("-".join(text.languages) for text in texts)
    raise InputError(f"--{option} has no parallel text of {languages[0]} and {languages[1]}; it has {pairs}")
