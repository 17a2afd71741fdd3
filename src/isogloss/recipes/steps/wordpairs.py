"""Words in context that translate each other: which pairs of a parallel text, and their vectors at every layer.

Pairs come from links, given with the text or made by the statistical aligner, never by the models that are mapped.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.files import whole
from isogloss.mappings import Normalisation
from isogloss.measures.word_alignment import one_to_one
from isogloss.progress import Progress, silent
from isogloss.recipes.steps.turning import layer_of
from isogloss.recipes.steps.wordspaces import word_spaces
from isogloss.seeds import seed_of
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Corpus, Link
from isogloss.text.vocabulary import links_of, words_of
from isogloss.vectors.extract import Vectors


@dataclass(frozen=True)
class WordPair:
    """Word `first` of one side and word `other` of the other, in one row of a bitext."""

    row: int
    first: int
    other: int


def word_pairs(
    bitext: Bitext, languages: tuple[str, str], *, most: int, cap: int, seed: int, progress: Progress = silent
) -> list[WordPair]:
    """One-to-one links of words that differ, at most `most` of them, in the order of the text.

    cap: how often a word type may occur on either side, case ignored: without it, articles and commas would decide the
    map. Rows are visited in an order drawn from the seed. Words written alike and words without a letter are left out.
    """
    rows = range(bitext.rows)
    links, _ = links_of(bitext, languages, rows, progress=progress)
    order = list(rows)
    random.Random(seed_of(seed, "word pairs")).shuffle(order)
    seen: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    found: list[WordPair] = []
    for row in order:
        sides = [[word.lower() for word in words_of(bitext[language], row)] for language in languages]
        for i, j in one_to_one(links[row]):
            _refuse_beyond((i, j), sides, bitext, row)
            words = sides[0][i], sides[1][j]
            if words[0] == words[1] or not all(any(letter.isalpha() for letter in word) for word in words):
                continue
            if len(found) < most and seen[0][words[0]] < cap and seen[1][words[1]] < cap:
                seen[0][words[0]] += 1
                seen[1][words[1]] += 1
                found.append(WordPair(row, i, j))
    if not found:
        raise InputError(
            f"{bitext.name or 'the parallel text'} has no pair of words to learn a map from: no link joins one word of "
            f"{languages[0]} to one differently written word of {languages[1]}; give more text, or its --links"
        )
    return sorted(found, key=lambda one: (one.row, one.first, one.other))


def read_words(
    stack: Stack,
    corpus: Corpus,
    places: Sequence[tuple[int, int]],
    folder: Path,
    *,
    kind: str,
    rows: Sequence[int],
    layers: Sequence[int],
    pool: str = "mean",
    progress: Progress = silent,
) -> tuple[Path, list[Normalisation]]:
    """What one reading of a text gives: a file of vectors of some words, and `word_spaces` of these rows.

    places: (row, word) of the corpus. The file has them as (layers, places, width), float32; a word of which nothing is
    left after cutting a long sentence is nan. What is in the folder already is not made again.
    """
    words, space = folder / f"words.{corpus.language}.npy", folder / f"space.{corpus.language}.safetensors"
    how: dict[str, Any] = {"kind": kind, "rows": rows, "layers": layers, "pool": pool, "progress": progress}
    if not words.is_file():
        space.unlink(missing_ok=True)  # a kill came between the two
        folder.mkdir(parents=True, exist_ok=True)
        with whole(words) as file, _filling(file, places, layers=len(layers), width=stack.width) as seen:
            word_spaces(stack, corpus, space, more={row for row, _ in places}, seen=seen, **how)
    return words, word_spaces(stack, corpus, space, **how)


@contextmanager
def _filling(
    path: Path, places: Sequence[tuple[int, int]], *, layers: int, width: int
) -> Iterator[Callable[[Vectors], None]]:
    """A file of vectors, nan until chunks are given that have them."""
    wanted: dict[tuple[int, int], list[int]] = {}
    for number, place in enumerate(places):
        wanted.setdefault(place, []).append(number)
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(layers, len(places), width))
    file[:] = np.nan

    def fill(chunk: Vectors) -> None:
        items = [(int(row), int(word)) for row, word in chunk.items["word"].tolist()]
        both = [(item, number) for item, place in enumerate(items) for number in wanted.get(place, ())]
        if both:
            taken, put = (list(one) for one in zip(*both, strict=True))
            file[:, put] = chunk.values["word"].cpu()[:, taken].float().numpy()

    yield fill
    file.flush()


def pairs_at(files: tuple[Path, Path], place: int) -> tuple[Tensor, Tensor]:
    """Vectors of both sides, (pairs, width) each, at one place of the layers; pairs of which a side is lost are out."""
    x, y = (layer_of(path, place) for path in files)
    there = torch.isfinite(x[:, 0]) & torch.isfinite(y[:, 0])
    return x[there], y[there]


def _refuse_beyond(link: Link, sides: Sequence[Sequence[str]], bitext: Bitext, row: int) -> None:
    for number, words in zip(link, sides, strict=True):
        if not 0 <= number < len(words):
            raise InputError(
                f"{bitext.name or 'the parallel text'}, sentence {row + 1}: a link points at word {number} of a "
                f"sentence of {len(words)} words, counted from 0; the links belong to another text or segmentation"
            )
