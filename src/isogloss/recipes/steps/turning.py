"""Sentences of two languages mapped onto each other at one layer, and how many find their translation, as rows.

Where the means of a normalisation come from matters: *inductive* ones are those of the text that the map was learned
from, so that a new sentence can be treated alone; *transductive* ones are those of the very sentences that are looked
up, which have to be known all at once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.files import whole
from isogloss.mappings import Mapping as SpaceMapping
from isogloss.mappings import normalisation, save
from isogloss.measures import retrieve
from isogloss.progress import Progress
from isogloss.recipes.steps.inducing import KS, Fits, Found, underdetermined_note
from isogloss.recipes.steps.ways import Way
from isogloss.runs.table import Row, row
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Corpus
from isogloss.vectors.extract import stream

METHODS = ("cosine", "csls")
Pair = tuple[Tensor, Tensor]
Direction = tuple[str, str]


def sentence_file(
    stack: Stack,
    corpus: Corpus,
    path: Path,
    *,
    layers: Sequence[int],
    note: Callable[[str], None],
    progress: Progress,
) -> Path:
    """Sentence vectors (layers, sentences, width), float32, in a file; one that is there is not made again.

    note: is told how many sentences were cut to the model's length.
    """
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    shape, done, shortened = (len(layers), len(corpus), stack.width), 0, 0
    with whole(path) as beside:
        file = np.lib.format.open_memmap(beside, mode="w+", dtype=np.float32, shape=shape)
        for chunk in stream(stack, corpus, layers=layers, progress=progress):
            file[:, done : done + len(chunk.rows)] = chunk.values["sentence"].cpu().numpy()
            done += len(chunk.rows)
            shortened += len(chunk.shortened)
        file.flush()
    if shortened:
        where = f" in {corpus.name}" if corpus.name else ""
        note(
            f"{shortened:,} of {done:,} sentences of {corpus.language}{where} were longer than {stack.max_length} "
            "tokens and were cut"
        )
    return path


def layer_of(path: Path, place: int) -> Tensor:
    """The vectors (sentences, width) at one place of the layers of a file."""
    values: NDArray[Any] = np.load(path, mmap_mode="r")
    return torch.from_numpy(np.array(values[place]))


def turned(way: Way, learned: Pair | None, asked: Pair, fits: Fits) -> Iterator[tuple[str, SpaceMapping]]:
    """The mappings of a way, each with a name that says where its means come from.

    learned: vectors of the parallel text (n, d), None where there is none. asked: those that are looked up (m, d).
    """
    if learned is None:
        yield _named(way, "transductive"), way.fit(*asked, spaces=asked, refine=0, strength=fits.strength)
        return
    mapping = way.fit(*learned, spaces=learned, refine=fits.refine, strength=fits.strength)
    yield _named(way, "inductive"), mapping
    if way.normalise not in ("none", "length"):
        source, target = (normalisation(side, way.normalise) for side in asked)
        yield _named(way, "transductive"), replace(mapping, source=source, target=target)


def turned_rows(
    learned: Pair | None,
    asked: Pair,
    fits: Fits,
    *,
    keys: tuple[Sequence[str], Sequence[str]],
    ways: Direction,
    place: Mapping[str, Any],
    found: Mapping[Direction, Found],
    kept: Path | None = None,
) -> Iterator[Row]:
    """P@k of every way, both directions.

    keys: the texts of what is looked up, whose copies are as right. ways: the two languages. found: takes what each
    direction got right. kept: folder in which maps that were learned are left.
    """
    there_and_back = (ways, ways[::-1])
    for way in fits.ways:
        for number, (name, mapping) in enumerate(turned(way, learned, asked, fits)):
            if kept is not None and way.learns and number == 0:  # with the means of the text it was learned from
                save(mapping, kept / f"{way.name}.safetensors")
            if mapping.underdetermined:
                note = underdetermined_note(way.name, mapping.pairs, asked[0].shape[1], "the parallel text")
                found[ways].notes.append(note)
            mapped, goal = mapping(asked[0]), mapping.target(asked[1])
            for method in METHODS:
                both = retrieve(mapped, goal, method=method, ks=KS, keys_x=keys[0], keys_y=keys[1])
                for direction, one in zip(there_and_back, both, strict=True):
                    where = {**place, "source": direction[0], "target": direction[1], "n": one.n}
                    where |= {"condition": name, "method": method}
                    here = found[direction]
                    here.hits[name, method], here.floors[name, method] = (one.ranks == 1).double(), one.floor[1]
                    for k in KS:
                        low, high = one.p_interval[k]
                        yield row(f"p@{k}", one.p[k], low=low, high=high, floor=one.floor[k], **where)


def _named(way: Way, means: str) -> str:
    """A way whose means matter says where they come from."""
    return way.name if way.normalise in ("none", "length") else f"{way.name} {means}"
