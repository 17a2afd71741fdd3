"""The space of a language at every layer: what all words of a text have in common.

A map is fitted on pairs of words, but what is subtracted from either side are the means of the whole space of its
language (Zhang et al. 2019), or a word that is frequent in the pairs would shift everything.
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from isogloss.files import whole
from isogloss.mappings import Normalisation, streamed_normalisations
from isogloss.progress import Progress, silent
from isogloss.seeds import seed_of
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Corpus
from isogloss.training.frozen_prefix import free_bytes
from isogloss.vectors.extract import Pool, Vectors, stream
from isogloss.vectors.store import rereadable

CHUNK_BYTES = 300_000_000  # what the word vectors of one chunk may take
WORDS = 24  # of a sentence, for that


def space_rows(count: int, *, most: int, seed: int) -> list[int]:
    """At most so many of the rows of a text, drawn by the seed, in their order."""
    if count <= most:
        return list(range(count))
    return sorted(random.Random(seed_of(seed, "space")).sample(range(count), most))


def chunk_size(stack: Stack, layers: Sequence[int]) -> int:
    """Sentences whose word vectors at these layers fit into `CHUNK_BYTES`."""
    return max(16, min(512, CHUNK_BYTES // (WORDS * len(layers) * stack.width * 4)))


def word_spaces(
    stack: Stack,
    corpus: Corpus,
    path: Path,
    *,
    kind: str,
    rows: Sequence[int],
    layers: Sequence[int],
    pool: str = "mean",
    more: Collection[int] = (),
    seen: Callable[[Vectors], None] | None = None,
    progress: Progress = silent,
) -> list[Normalisation]:
    """The normalisation of all words of these rows, one a layer, kept in a file: what is there is not made again.

    more: rows to read with them that are no part of the space. seen: given what is read, chunk by chunk. All rounds of
    `iterative` go over one reading, see `rereadable`.
    """
    if not path.is_file():
        inside = set(rows)
        every = sorted(inside.union(more))
        how: dict[str, Any] = {"layers": layers, "units": ("word",), "pool": cast(Pool, pool), "rows": every}

        def read() -> Iterator[Tensor]:
            for one in stream(stack, corpus, chunk=chunk_size(stack, layers), progress=progress, **how):
                if seen is not None:
                    seen(one)
                words = one.values["word"].float()
                if len(every) > len(inside):
                    words = words[:, [row in inside for row in one.items["word"][:, 0].tolist()]]
                if words.shape[1]:
                    yield words

        path.parent.mkdir(parents=True, exist_ok=True)
        rounds = kind == "iterative"
        held = rereadable(read, file=path.with_suffix(".words"), free_bytes=free_bytes)
        with held if rounds else nullcontext(read) as reading:
            found = streamed_normalisations(reading, kind)
        with whole(path) as beside:
            tensors = {
                "means": torch.stack([one.means for one in found]),
                "mean": torch.stack([one.mean for one in found]),
            }
            save_file(tensors, beside)
    kept = load_file(path)
    lengths = kind in ("length", "iterative")
    return [Normalisation(kind, means, lengths, mean) for means, mean in zip(kept["means"], kept["mean"], strict=True)]
