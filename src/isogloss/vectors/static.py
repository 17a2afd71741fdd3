"""Static word vectors from counting: positive pointwise mutual information, and its best approximation of low rank.

What a model's vectors are compared with: one vector a word, from the same text, without any network. Of the ways to
make such vectors this one needs nothing but sparse matrices and gives the same numbers each time; with the settings of
Levy, Goldberg & Dagan (2015), taken here, they found it on a par with those that are trained:

    M_wc = max(0, log p(w, c) / (p(w) p(c)^0.75)),   M ~ U S V',   vectors = U S^0.5

with words c at most `window` words from w. The power 0.75 keeps rare contexts from looking remarkable, and the root of
S keeps the few strongest directions from drowning the rest.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.vectors.types import types_of

AT_ONCE = 4_000_000  # pairs of neighbours counted before they are added up


def cooccurrences(
    sentences: Iterable[str],
    language: str,
    *,
    types: Sequence[str],
    window: int = 5,
    total: int = 0,
    progress: Progress = silent,
) -> sparse.csr_matrix:
    """How often two types stand at most `window` words apart, (types, types), symmetric.

    Words that are none of the types keep their places. Memory is that of the pairs that occur, not of the text.

    >>> cooccurrences(["a b a"], "en", types=["a", "b"], window=1).toarray().tolist()
    [[0, 2], [2, 0]]
    """
    numbers = {word: place for place, word in enumerate(types)}
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
        if waiting > AT_ONCE:
            counts, keys, waiting = counts + _summed(keys, size), [], 0
        if done % 500 == 0:
            progress(f"counting {language}", done, max(total, done))
    counts = counts + _summed(keys, size)
    return sparse.csr_matrix(counts + counts.T)


def ppmi_vectors(counts: sparse.csr_matrix, *, width: int = 300, seed: int = 0) -> NDArray[np.float32]:
    """Vectors (types, width) of symmetric counts (types, types); zero for a type without neighbours.

    width: at most one less than there are types. The seed draws the start of the randomised decomposition.
    """
    from sklearn.utils.extmath import randomized_svd

    if counts.nnz == 0:
        raise InputError("no two words of the vocabulary stand near each other; give more text")
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
    found, counts = np.unique(np.concatenate([*keys, np.zeros(0, dtype=np.int64)]), return_counts=True)
    return sparse.csr_matrix((counts.astype(np.int64), (found // size, found % size)), shape=(size, size))
