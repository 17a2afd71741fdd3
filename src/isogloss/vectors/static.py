"""One vector per word type: averaged over all its occurrences in a model, or from co-occurrence counts.

**From a model** (`type_vectors`): one pass over the text. A word in its sentence is the mean of its subwords; the sums
over its occurrences are memory-mapped on disk, (layers, types, width) in float64, and only the words of the current
sentences are in memory. So neither memory nor disk grows with the text, only with the vocabulary.

**From counts** (`cooccurrences`, `ppmi_vectors`): positive pointwise mutual information and its low-rank approximation,
a baseline from the same text without a neural network. This method needs only sparse matrices and is deterministic;
with the settings of Levy, Goldberg & Dagan (2015), used here, they found it on a par with trained vectors:

    M_wc = max(0, log p(w, c) / (p(w) p(c)^0.75)),   M ~ U S V',   vectors = U S^0.5

with words c at most `window` words from w. The power 0.75 reduces the bias towards rare contexts, and the root of S
keeps the strongest directions from dominating the others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from isogloss.errors import require
from isogloss.progress import listening, progress, silent
from isogloss.stack.stack import Chain, Stack
from isogloss.text.corpora import Corpus
from isogloss.text.streams import chunked
from isogloss.text.words import spans
from isogloss.vectors.extract import TypeSums, find_sinks, stream
from isogloss.vectors.store import VectorStore

CHUNK_BYTES = 300_000_000  # maximum size of the word vectors of one chunk
MOST_COUNTED = 2_000_000  # maximum number of types while counting; beyond it, types seen once are dropped
PAIRS_AT_ONCE = 4_000_000  # pairs of neighbours collected before they are summed


@dataclass(frozen=True)
class TypeVectors:
    """Mean vectors of word types.

    words: the types that occur, most frequent first. vectors: by layer, (words, width), float32, memory-mapped.
    shortened: sentences, of `sentences`, truncated to the model's length.
    """

    words: Sequence[str]
    vectors: Mapping[int, Tensor]
    sentences: int
    shortened: int


def count_types(sentences: Iterable[str], language: str) -> Counter[str]:
    """Count each lower-cased word that contains a letter.

    Of a text with millions of types only those seen more than once are kept, which bounds memory without losing
    frequent words.

    >>> count_types(["The cat, the dog"], "en").most_common(1)
    [('the', 2)]
    """
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(word for word in types_of(sentence, language) if any(map(str.isalpha, word)))
        if len(counts) > MOST_COUNTED:
            counts = Counter({word: count for word, count in counts.items() if count > 1})
    return counts


def types_of(sentence: str, language: str) -> list[str]:
    """The words of a sentence, lower-cased, including punctuation."""
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
) -> TypeVectors:
    """Average the vectors of these types over all their occurrences, in one pass, or load them from the folder.

    folder: where `LANGUAGE.npy` and, last, `LANGUAGE.json` are written. sentences: any stream, which is read once.
    total: the number of sentences, if known, for progress. A type that does not occur, or only in truncated parts of
    sentences, has no vector and is left out.
    """
    wanted = list(stack.cuts if layers is None else layers)
    store, in_progress = VectorStore(folder, mark=f"{language}.json"), f".{language}.sums"
    if not store.complete:
        done = shortened = 0
        try:
            zeros = store.create(in_progress, (len(wanted), len(types), stack.width), dtype=np.float64)
            # A sentence of control characters only has no tokens.
            worded = (sentence for sentence in sentences if spans(sentence, language))
            # Assumes at least three characters a word, so that the word vectors of a chunk fit into `CHUNK_BYTES`.
            room = max(1, CHUNK_BYTES // (len(wanted) * stack.width * 4))
            parts = chunked(worded, size=lambda sentence: len(sentence) // 3 + 1, room=room, most=512)
            first = next(parts, [])
            probed = Corpus(language, first)
            sinks = find_sinks(stack, [probed], layers=wanted, rows=range(len(first))) if first else {}
            sums = TypeSums(types, zeros, exact=False, sinks=[sinks.get(layer) for layer in wanted])
            for part in chain([first] if first else [], parts):
                corpus = Corpus(language, part)
                with listening(silent):  # progress is reported over the whole text
                    for chunk in stream(stack, corpus, layers=wanted, units=("word",), chunk=len(part)):
                        sums.add(chunk, corpus)
                        shortened += len(chunk.shortened)
                done += len(part)
                progress(f"reading {language}", done, max(total, done))
            seen = np.flatnonzero(sums.counts)
            with store.filling(language, (len(wanted), len(seen), stack.width)) as means:
                sums.write_means(means, seen)
        finally:
            store.path(in_progress).unlink(missing_ok=True)
        words = [types[number] for number in seen.tolist()]
        store.finish({"words": words, "layers": wanted, "read": [done, shortened]})
    facts, values = store.facts(), store.mapped(language)
    vectors = {layer: torch.from_numpy(values[number]) for number, layer in enumerate(facts["layers"])}
    return TypeVectors(facts["words"], vectors, *facts["read"])


def cooccurrences(
    sentences: Iterable[str], language: str, *, types: Sequence[str], window: int = 5, total: int = 0
) -> sparse.csr_matrix:
    """Count how often two types occur at most `window` words apart, (types, types), symmetric.

    Other words count towards the distance. Memory grows with the number of distinct pairs, not with the text.

    >>> cooccurrences(["a b a"], "en", types=["a", "b"], window=1).toarray().tolist()
    [[0, 2], [2, 0]]
    """
    numbers = {word: number for number, word in enumerate(types)}
    size = len(types)
    counts = _summed([], size)
    keys: list[NDArray[np.int64]] = []
    waiting = 0
    for done, sentence in enumerate(sentences, 1):
        ids = np.array([numbers.get(word, -1) for word in types_of(sentence, language)], dtype=np.int64)
        for apart in range(1, min(window, len(ids) - 1) + 1):
            left, right = ids[:-apart], ids[apart:]
            both = (left >= 0) & (right >= 0)
            keys.append(left[both] * size + right[both])
            waiting += len(keys[-1])
        if waiting > PAIRS_AT_ONCE:
            counts, keys, waiting = counts + _summed(keys, size), [], 0
        if done % 500 == 0:
            progress(f"counting {language}", done, max(total, done))
    counts = counts + _summed(keys, size)
    return sparse.csr_matrix(counts + counts.T)


def ppmi_vectors(counts: sparse.csr_matrix, *, width: int = 300, seed: int = 0) -> NDArray[np.float32]:
    """PPMI vectors (types, width) of symmetric counts (types, types); zero for a type without neighbours.

    width: at most the number of types minus one. seed: of the randomised decomposition.
    """
    from sklearn.utils.extmath import randomized_svd

    require(counts.nnz > 0, "no two words of the vocabulary stand near each other; give more text")
    table = counts.tocoo()
    words = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
    contexts = words**0.75
    share = table.data / table.data.sum()
    chance = (words[table.row] / words.sum()) * (contexts[table.col] / contexts.sum())
    values = np.maximum(0.0, np.log(share / chance))
    matrix = sparse.csr_matrix((values, (table.row, table.col)), shape=counts.shape)
    rank = max(1, min(width, counts.shape[0] - 1))
    u, s, _ = randomized_svd(matrix, n_components=rank, n_iter=4, random_state=seed % 2**32)
    return np.ascontiguousarray(u * np.sqrt(s), dtype=np.float32)


def _summed(keys: Sequence[NDArray[np.int64]], size: int) -> sparse.csr_matrix:
    pairs = np.concatenate([*keys, np.zeros(0, dtype=np.int64)])  # the matrix sums duplicates
    return sparse.csr_matrix((np.ones_like(pairs), (pairs // size, pairs % size)), shape=(size, size))
