"""Probes: measures taken every so many steps of a training.

A probe is a record of how often it is taken and a function that takes it; the loop adds the step. Random draws depend
on its seed alone: the same sentences, truncated alike, with the same masks each time, so that a curve changes only
because the model changes. A probe sets evaluation mode and restores the former one, and leaves no gradient behind.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from isogloss.errors import InputError
from isogloss.measures.retrieval import retrieve
from isogloss.measures.statistics import means_without_parts, share_interval
from isogloss.progress import listening, silent
from isogloss.stack.stack import Stack, measuring_device
from isogloss.text.corpora import Bitext
from isogloss.vectors.extract import vectors

Reading = dict[str, Any]
"""One number: `measure`, `value` and any other column of the table of rows (low, high, floor, n, layer, target ...)."""


@dataclass(frozen=True)
class Probe:
    """Measures to take every `every` steps: `take()` yields readings of the current model.

    every: updates between two readings. Every probe is also taken before the first update and after the last one; None
    means only there. notes: sentences on what is left out, to be shown with the readings.
    """

    every: int | None
    take: Callable[[], Iterable[Reading]]
    notes: tuple[str, ...] = ()

    def due(self, step: int) -> bool:
        """Whether the probe is taken after this many updates; the training loop handles the last step."""
        return step == 0 or (self.every is not None and step % self.every == 0)


def retrieval_probe(stacks: Callable[[str], Stack], bitexts: Sequence[Bitext], *, every: int) -> Probe:
    """Sentence retrieval at every layer: how often a sentence's nearest neighbour is its translation.

    stacks(language): the stack of a language; languages may have different stacks of the same depth. English, or the
    first language of a bitext without English, is paired with each other language. Fewer candidates give higher scores,
    so compare scores of equal `n` only.

    Readings, with the names of `isogloss map`: `p@1` of each direction and layer, from `source` to `target`, and
    `p@1_mean`, the mean of all directions of a bitext, whose interval counts each sentence once. A duplicate of the
    right sentence counts as right.
    """
    names = [bitext.name or "-".join(bitext.languages) for bitext in bitexts]
    if len(set(names)) < len(names):
        raise InputError(f"two texts have the same name ({', '.join(names)}); their readings could not be told apart")

    def readings(bitext: Bitext, data: str) -> Iterator[Reading]:
        """The readings of one bitext, layer by layer."""
        first = "en" if "en" in bitext.languages else bitext.languages[0]
        with listening(silent):
            vectors_of = {corpus.language: vectors(stacks(corpus.language), corpus) for corpus in bitext}
        device = measuring_device(stacks(first).device)
        for layer in range(len(vectors_of[first])):
            coordinates = {"layer": layer, "unit": "sentence", "method": "centred", "data": data}
            hits, floors = [], []
            for other in (language for language in bitext.languages if language != first):
                x, y = vectors_of[first][layer].to(device), vectors_of[other][layer].to(device)
                keys_x, keys_y = bitext[first].sentences, bitext[other].sentences
                both = retrieve(x, y, method="centred", ks=(1,), keys_x=keys_x, keys_y=keys_y)
                for result, direction in zip(both, ((first, other), (other, first)), strict=True):
                    row = {"measure": "p@1", **asdict(result.p[1])}
                    yield row | coordinates | {"source": direction[0], "target": direction[1]}
                    hits.append((result.ranks == 1).double())
                    floors.append(result.p[1].floor)
            mean_hits = torch.stack(hits).mean(dim=0)  # (n,), the share of directions that found each sentence
            mean = share_interval(mean_hits, floor=sum(floors) / len(floors))
            mean = replace(mean, parts=means_without_parts(mean_hits))
            yield {"measure": "p@1_mean", **asdict(mean)} | coordinates

    return Probe(every, lambda: (reading for pair in zip(bitexts, names, strict=True) for reading in readings(*pair)))
