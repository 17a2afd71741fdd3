"""Vectors of the pool on disk, so that only one layer is ever in memory and a resumed run need not read again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from isogloss.files import whole, write_text
from isogloss.text.corpora import Corpus
from isogloss.text.vocabulary import Vocabulary, words_of
from isogloss.vectors.extract import Vectors


class Store:
    """Sentence vectors and mean word vectors of a pool: one memory-mapped file a language, (layers, pool, width).

    `begin`, then `put` every chunk in order, then `finish`; a finished store in the same folder is simply there.
    """

    def __init__(self, folder: Path, languages: Sequence[str], layers: list[int], pool: int, width: int) -> None:
        self.folder, self.languages, self.layers, self.pool, self.width = folder, languages, layers, pool, width

    @property
    def complete(self) -> bool:
        """Whether the pass over the text has been finished, now or before."""
        return (self.folder / "vocabulary.json").is_file()

    def begin(self, words: Vocabulary) -> None:
        """Make room for the pool and for the types of this vocabulary."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._words = words
        self._numbers = {name: {one: i for i, one in enumerate(types)} for name, types in words.types.items()}
        self._filled = dict.fromkeys(((name, layer) for name in self.languages for layer in self.layers), 0)
        shape = {name: (len(self.layers), len(words.types[name])) for name in self.languages}
        self._sums = {name: np.zeros((*shape[name], self.width)) for name in self.languages}
        self._counts = {name: np.zeros(shape[name]) for name in self.languages}
        for name in self.languages:
            size = (len(self.layers), self.pool, self.width)
            np.lib.format.open_memmap(self._path(name), mode="w+", dtype=np.float32, shape=size)

    def put(self, language: str, layers: list[int], chunk: Vectors, corpus: Corpus) -> None:
        """Keep the next sentences' vectors at these layers, and add their words to the sums of their types."""
        numbers = self._numbers[language]
        kinds = {row: [numbers.get(word.lower(), -1) for word in words_of(corpus, row)] for row in chunk.rows}
        kind = np.array([kinds[row][word] for row, word in chunk.items["word"].tolist()], dtype=np.int64)
        inside = np.flatnonzero(kind >= 0)
        found, place_of, uses = np.unique(kind[inside], return_inverse=True, return_counts=True)
        adding = csr_array((np.ones(len(inside)), (place_of, inside)), shape=(len(found), len(kind)))
        file = np.lib.format.open_memmap(self._path(language), mode="r+")
        for number, layer in enumerate(layers):
            place, start = self.layers.index(layer), self._filled[language, layer]
            file[place, start : start + len(chunk.rows)] = chunk.values["sentence"][number].cpu().numpy()
            self._sums[language][place, found] += adding @ chunk.values["word"][number].cpu().numpy()
            self._counts[language][place, found] += uses
            self._filled[language, layer] = start + len(chunk.rows)

    def finish(self) -> None:
        """Write the means of the word types and the vocabulary; from here on the store is complete."""
        for language, sums in self._sums.items():
            with np.errstate(invalid="ignore"):  # a type lost to cutting has no vector: nan, left out later
                means = sums / self._counts[language][:, :, None]
            with whole(self._path(f"{language}.types")) as beside, beside.open("wb") as file:
                np.save(file, means.astype(np.float32))
        words = self._words
        pairs = [[*pair, [list(one) for one in found]] for pair, found in words.pairs.items()]
        text = {"types": words.types, "surface": words.surface, "pairs": pairs}
        write_text(self.folder / "vocabulary.json", json.dumps(text, ensure_ascii=False))

    def words(self) -> Vocabulary:
        """The vocabulary the store was finished with."""
        text = json.loads((self.folder / "vocabulary.json").read_text(encoding="utf-8"))
        pairs = {(source, target): [(i, j) for i, j in found] for source, target, found in text["pairs"]}
        return Vocabulary(text["types"], text["surface"], pairs)

    def sentences(self, language: str, layer: int) -> Tensor:
        """Sentence vectors of the pool at one layer, (pool, width)."""
        return torch.from_numpy(np.array(self._open(language)[self.layers.index(layer)]))

    def types(self, language: str, layer: int | None = None) -> Tensor:
        """Mean vectors of the word types at one layer, (types, width), or at all, (layers, types, width)."""
        means = self._open(f"{language}.types")
        return torch.from_numpy(np.array(means if layer is None else means[self.layers.index(layer)]))

    def put_hits(self, method: str, layer: int, hits: Tensor) -> None:
        """Keep each sentence's share of directions in which its translation was found first, (pool,)."""
        with whole(self._path(f"hits.{method}.{layer}")) as beside, beside.open("wb") as file:
            np.save(file, hits.numpy())

    def hits(self, method: str, layer: int) -> Tensor:
        """What `put_hits` kept, (pool,)."""
        return torch.from_numpy(np.array(self._open(f"hits.{method}.{layer}")))

    def _open(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = np.load(self._path(name), mmap_mode="r")
        return found

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"
