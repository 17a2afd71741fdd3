"""The word map's points, made ready for drawing: thinned by whole translation groups, each layer scaled and turned.

A projection to the plane has no unit, no up and no left. So each layer is centred, scaled to the same size, and turned
or mirrored (never bent) to lie as near as it can to the layer before it. Strays beyond the frame are moved to its edge.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

MOST_POINTS = 1200
WIDE = 1.4  # the frame is this much wider than high
EDGE = 0.15  # room for the words that lie beyond the middle 96%


@dataclass(frozen=True)
class WordMap:
    """Words at every layer.

    `languages`, `words` and `pairs` have one entry a point; `positions` has shape (layers, points, 2), x within about
    [-1.4, 1.4] and y within about [-1, 1]; `total` counts the translation groups before thinning and `kept` after.
    """

    layers: tuple[int, ...]
    languages: tuple[str, ...]
    words: tuple[str, ...]
    pairs: tuple[int, ...]
    positions: npt.NDArray[np.float64]
    total: int
    kept: int

    def at(self, layer: int) -> npt.NDArray[np.float64]:
        """Positions of one layer, shape (points, 2)."""
        return self.positions[self.layers.index(layer)]


def word_map(points: pd.DataFrame, *, most: int = MOST_POINTS) -> WordMap | None:
    """The drawable word map of a run's points; None when no word is there at every layer."""
    layers = sorted(int(layer) for layer in points["layer"].unique())
    data = points.drop_duplicates(["layer", "pair", "language", "word"])
    present = data.groupby(["pair", "language", "word"], sort=False)["layer"].transform("nunique")
    data = data[present == len(layers)]
    groups = data["pair"].drop_duplicates().tolist()
    kept = _thin(groups, len(data) // max(len(layers), 1), most=most)
    data = data[data["pair"].isin(kept)].sort_values(["layer", "pair", "language", "word"], kind="stable")
    if data.empty:
        return None
    first = data[data["layer"] == layers[0]]
    raw = data[["x", "y"]].to_numpy(dtype="float64").reshape(len(layers), len(first), 2)  # (layers, points, 2)
    return WordMap(
        layers=tuple(layers),
        languages=tuple(first["language"]),
        words=tuple(first["word"]),
        pairs=tuple(int(pair) for pair in first["pair"]),
        positions=_standardise(_align(raw)),
        total=len(groups),
        kept=len(kept),
    )


def _thin(groups: Sequence[int], points: int, *, most: int) -> set[int]:
    """Whole translation groups, evenly spread over the list, so that at most `most` points remain."""
    if points <= most:
        return set(groups)
    keep = max(1, len(groups) * most // points)
    return {groups[int(place)] for place in np.linspace(0, len(groups) - 1, keep)}


def _standardise(layers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Fit each layer, shape (layers, points, 2), into the frame.

    The middle 96% decide where the frame is; what lies beyond its edge is moved onto it, so that one stray cannot
    shrink all the rest.
    """
    low, high = np.quantile(layers, (0.02, 0.98), axis=1, keepdims=True)  # (layers, 1, 2) each
    reach = ((high - low) / (2 * WIDE, 2.0)).max(axis=2, keepdims=True)
    scaled = (layers - (low + high) / 2) / np.where(reach > 0, reach, 1.0)
    return np.clip(scaled, (-WIDE - EDGE, -1.0 - EDGE), (WIDE + EDGE, 1.0 + EDGE))


def _align(layers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Turn or mirror each layer onto the one before, shape (layers, points, 2): orthogonal Procrustes in the plane.

    At the end all are turned together so that the longest direction of the whole lies across a wide frame.
    """
    centred = layers - layers.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(centred, axis=(1, 2), keepdims=True)
    centred = centred / np.where(sizes > 0, sizes, 1.0)
    aligned = [centred[0]]
    for layer in centred[1:]:
        left, _, right = np.linalg.svd(layer.T @ aligned[-1])
        aligned.append(layer @ (left @ right))
    _, _, directions = np.linalg.svd(np.concatenate(aligned), full_matrices=False)
    return np.stack(aligned) @ directions.T


def groups_of(points: WordMap, centre: str) -> list[list[int]]:
    """The places of each translation group's points, the central language's first."""
    groups: dict[int, list[int]] = {}
    for at, pair in enumerate(points.pairs):
        groups.setdefault(pair, []).append(at)
    return [sorted(group, key=lambda at: points.languages[at] != centre) for group in groups.values()]
