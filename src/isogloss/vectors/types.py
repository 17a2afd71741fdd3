"""Vectors of word types: a word's vectors averaged over all its uses in a text of any size, at every layer.

One pass over the text. A word in its sentence is the mean of its subwords; the sums over its uses lie on disk,
memory-mapped, (layers, types, width) in float64, and only what the sentences at hand touch is in memory. So neither
memory nor disk grows with the text, only with the vocabulary.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.errors import InputError
from isogloss.files import whole, write_text
from isogloss.progress import Progress, silent
from isogloss.stack.chain import Chain
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Corpus
from isogloss.text.words import spans, word_spans
from isogloss.vectors.extract import Vectors, prepare, stream

CHUNK_BYTES = 300_000_000  # what the word vectors of one chunk may take
MOST_COUNTED = 2_000_000  # types counted at once; beyond, those seen once are forgotten


@dataclass(frozen=True)
class TypeVectors:
    """Mean vectors of word types on disk.

    words: the types, most frequent first; counts: (types,) uses of each that were read; shortened: sentences cut to the
    model's length, of `sentences`.
    """

    language: str
    words: Sequence[str]
    layers: Sequence[int]
    counts: NDArray[np.int64]
    path: Path
    sentences: int
    shortened: int

    def at(self, layer: int) -> Tensor:
        """The vectors at a layer, (types, width), float32."""
        values: NDArray[Any] = np.load(self.path, mmap_mode="r")
        return torch.from_numpy(np.array(values[list(self.layers).index(layer)]))


def count_types(sentences: Iterable[str], language: str) -> Counter[str]:
    """How often each lower-cased word with a letter in it occurs.

    A text with millions of types keeps those that came more than once: memory stays bounded, and no frequent word is
    lost.

    >>> count_types(["The cat, the dog"], "en").most_common(1)
    [('the', 2)]
    """
    found: Counter[str] = Counter()
    for sentence in sentences:
        found.update(word for word in types_of(sentence, language) if any(map(str.isalpha, word)))
        if len(found) > MOST_COUNTED:
            found = Counter({word: count for word, count in found.items() if count > 1})
    return found


def types_of(sentence: str, language: str) -> list[str]:
    """The words of a sentence, lower-cased, punctuation included."""
    return [sentence[start:stop].lower() for start, stop in spans(sentence, language)]


def type_vectors(
    stack: Stack | Chain,
    sentences: Iterable[str],
    language: str,
    *,
    types: Sequence[str],
    folder: Path,
    layers: Sequence[int] | None = None,
    total: int = 0,
    progress: Progress = silent,
) -> TypeVectors:
    """Average the vectors of these types over all their uses, in one pass.

    folder: takes `LANGUAGE.npy` and, last, `LANGUAGE.json`. sentences: any stream of them, which is read once. total:
    how many there are, if known, for progress. A type that does not occur, or only beyond where long sentences are cut,
    has no vector: nan, and a count of 0.
    """
    wanted = list(stack.cuts if layers is None else layers)
    numbers = {word: place for place, word in enumerate(types)}
    if not numbers:
        raise InputError(f"there are no words of {language} to take vectors of")
    counts = np.zeros(len(types), dtype=np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f".{language}.sums.npy"
    shape = (len(wanted), len(types), stack.width)
    done = shortened = 0
    try:
        sums = np.lib.format.open_memmap(beside, mode="w+", dtype=np.float64, shape=shape)
        ready = prepare(stack, total or 10_000)
        worded = (one for one in sentences if spans(one, language))  # of nothing but control characters nothing is left
        for part in _parts(worded, len(wanted) * stack.width * 4):
            corpus = Corpus(language, part)
            for chunk in stream(stack, corpus, layers=wanted, units=("word",), chunk=len(part), prepared=ready):
                _add(chunk, corpus, numbers, sums, counts)
                shortened += len(chunk.shortened)
            done += len(part)
            progress(f"reading {language}", done, max(total, done))
        path = folder / f"{language}.npy"
        _write_means(path, sums, counts)
    finally:
        beside.unlink(missing_ok=True)
    facts = {"words": list(types), "layers": wanted, "counts": counts.tolist(), "read": [done, shortened]}
    write_text(folder / f"{language}.json", json.dumps(facts, ensure_ascii=False))
    return TypeVectors(language, list(types), wanted, counts, path, done, shortened)


def open_types(folder: Path, language: str) -> TypeVectors | None:
    """What `type_vectors` left in a folder; None where it was not finished there."""
    path = folder / f"{language}.json"
    if not path.is_file():
        return None
    facts = json.loads(path.read_text(encoding="utf-8"))
    counts = np.array(facts["counts"], dtype=np.int64)
    return TypeVectors(language, facts["words"], facts["layers"], counts, folder / f"{language}.npy", *facts["read"])


def _add(
    chunk: Vectors,
    corpus: Corpus,
    numbers: Mapping[str, int],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Add the words of a chunk to the sums and counts of their types."""
    known: dict[int, list[int]] = {}
    for row in chunk.rows:
        text = corpus.sentences[row]
        known[row] = [numbers.get(text[start:stop].lower(), -1) for start, stop in word_spans(corpus, row)]
    kinds = torch.tensor([known[row][word] for row, word in chunk.items["word"].tolist()], dtype=torch.long)
    inside = torch.nonzero(kinds >= 0).flatten()
    if not len(inside):
        return
    found, place, uses = torch.unique(kinds[inside], return_inverse=True, return_counts=True)
    rows = found.numpy()
    counts[rows] += uses.numpy()
    for number, values in enumerate(chunk.values["word"]):
        here = values[inside.to(values.device)]
        # Within a chunk single precision loses nothing that matters; over the whole text it would.
        added = here.new_zeros((len(found), here.shape[1])).index_add_(0, place.to(here.device), here)
        sums[number, rows] += added.cpu().double().numpy()


def _write_means(path: Path, sums: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    """Sums over counts, a layer at a time, in float32."""
    with whole(path) as beside:
        means = np.lib.format.open_memmap(beside, mode="w+", dtype=np.float32, shape=sums.shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            for number in range(len(sums)):
                means[number] = np.where(counts[:, None] > 0, sums[number] / counts[:, None], np.nan)
        means.flush()


def _parts(sentences: Iterable[str], bytes_a_word: int) -> Iterator[list[str]]:
    """Some sentences at a time, whose word vectors fit into `CHUNK_BYTES`, as a word has three letters or more."""
    room = max(1, CHUNK_BYTES // bytes_a_word)
    part: list[str] = []
    words = 0
    for sentence in sentences:
        part.append(sentence)
        words += len(sentence) // 3 + 1
        if words >= room or len(part) >= 512:
            yield part
            part, words = [], 0
    if part:
        yield part
