"""Probes: every so many steps, take these measures.

A probe is a record of two things, how often and how; the loop adds the step. Whatever is drawn for it is a function of
its seed alone: the same sentences, cut at the same places, under the same masks each time, so that a curve moves
because the model moved. A probe sets evaluation mode and restores it, and leaves no gradient behind.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch

from isogloss.errors import InputError
from isogloss.measures.retrieval import retrieve
from isogloss.measures.statistics import jackknife_interval
from isogloss.progress import listening, silent
from isogloss.stack.stack import Stack, measuring_device
from isogloss.text.corpora import Bitext
from isogloss.vectors.extract import vectors

Reading = dict[str, Any]
"""One number: `measure`, `value` and any other column of the table of rows (low, high, floor, n, layer, target ...)."""


@dataclass(frozen=True)
class Probe:
    """Measures to take every `every` steps: `take()` yields readings of the model as it then is.

    every: updates between two readings; every probe is also taken before the first update and after the last one, with
    None only there.
    notes: sentences on what it leaves out, for whoever shows the readings.
    """

    every: int | None
    take: Callable[[], Iterable[Reading]]
    notes: tuple[str, ...] = ()

    def due(self, step: int) -> bool:
        """Whether it is taken after this many updates; the training loop sees to the last one."""
        return step == 0 or (self.every is not None and step % self.every == 0)


def retrieval_probe(stacks: Callable[[str], Stack], bitexts: Sequence[Bitext], *, every: int) -> Probe:
    """How often a sentence's nearest neighbour is its translation, at every layer, named as `isogloss map` names it.

    stacks(language): the stack that reads a language; two languages may have stacks of their own, equally deep. English
    is paired with each other language of a bitext, or its first language where it has no English. Fewer candidates
    make higher scores, so compare equal `n` only.

    Readings: `p@1` of each direction and layer, from `source` to `target`, and `p@1_mean`, the mean of all directions
    of a bitext, whose interval counts each sentence once. A copy of the right sentence is right too.
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
                    answer = {"measure": "p@1", **asdict(result.p[1])}
                    yield answer | coordinates | {"source": direction[0], "target": direction[1]}
                    hits.append((result.ranks == 1).double())
                    floors.append(result.p[1].floor)
            mean_hits = torch.stack(hits).mean(dim=0)  # (n,), the share of directions that found each sentence
            n, without = len(mean_hits), (mean_hits.sum() - mean_hits) / max(1, len(mean_hits) - 1)
            mean = jackknife_interval(float(mean_hits.mean()), without, n=n, floor=sum(floors) / len(floors))
            yield {"measure": "p@1_mean", **asdict(mean.clipped())} | coordinates

    return Probe(every, lambda: (reading for pair in zip(bitexts, names, strict=True) for reading in readings(*pair)))


def arithmetic(device: torch.device | str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Computing in another precision inside the block, the weights staying as they are; None changes nothing."""
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype=dtype)
