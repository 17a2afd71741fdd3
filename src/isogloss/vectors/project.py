"""Vectors of words on a plane, layer after layer, so that the frames of a film can be compared.

t-SNE (van der Maaten and Hinton 2008) by openTSNE. The first layer starts from its two main directions, every other
one from the layer before it; perplexity and seed are the same throughout. Distances between far groups mean nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isogloss.errors import InputError
from isogloss.progress import Progress, silent

Array = NDArray[np.float64]


def plane(x: Array) -> Array:
    """The two main directions of x (n, d) -> (n, 2), largest first; each sign is fixed by its largest entry."""
    centred = x - x.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    scores = left[:, :2] * sizes[:2]
    return scores * np.sign(scores[np.abs(scores).argmax(axis=0), [0, 1]])


def layers_on_a_plane(
    layers: Array,
    *,
    groups: Sequence[str],
    centre: bool = True,
    perplexity: float = 15,
    seed: int = 0,
    progress: Progress = silent,
) -> Array:
    """Map every layer to a plane: (layers, n, d) -> (layers, n, 2). Needs at least five points.

    Args:
        layers: (layers, n, d) the vectors of n points at every layer.
        groups: the language of each of the n points.
        centre: whether each language's mean is removed first.
        perplexity: how many neighbours count, at most (n - 1) / 3.
        seed: of t-SNE.
        progress: is told the layers done.

    """
    try:
        from openTSNE import TSNEEmbedding
        from openTSNE.affinity import PerplexityBasedNN
        from openTSNE.initialization import rescale
    except ImportError as error:
        raise InputError("the word map needs openTSNE: pip install 'isogloss[report]'") from error
    points = layers.shape[1]
    if points < 5:
        raise InputError(f"a word map needs at least 5 words, not {points}")
    names, frames = np.asarray(groups), []
    frame: Array | None = None
    for number, raw in enumerate(layers):
        x = np.array(raw, dtype=np.float64)
        for name in np.unique(names) if centre else ():  # the offset of a language would otherwise decide the map
            x[names == name] -= x[names == name].mean(axis=0)
        # Unit rows, not the metric "cosine": a word alone in its language is zero once centred, and would divide by it.
        rows = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        near = PerplexityBasedNN(
            rows, perplexity=min(perplexity, (points - 1) / 3), metric="euclidean", method="exact", random_state=seed
        )
        start = rescale(plane(x) if frame is None else frame)
        embedding = TSNEEmbedding(start, near, negative_gradient_method="bh", random_state=seed, n_jobs=2)
        # Only the first layer needs to find its shape from nothing; the others move on from the one before.
        if frame is None:
            embedding = embedding.optimize(n_iter=250, exaggeration=12, momentum=0.5)
        embedding = embedding.optimize(n_iter=250, momentum=0.8)
        frame = np.asarray(embedding, dtype=np.float64)
        frames.append(frame - frame.mean(axis=0))
        progress("drawing the word map", number + 1, len(layers))
    return np.stack(frames)
