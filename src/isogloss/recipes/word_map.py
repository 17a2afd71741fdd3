"""The word map: translated words on a plane, one frame a layer.

Drawn where openTSNE is installed. Where it is not (a bare GPU node), the vectors of the words are left in the run
folder in half precision, and `isogloss report` draws the map later.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from isogloss.files import whole
from isogloss.progress import Progress, silent
from isogloss.runs.run import Run
from isogloss.text.vocabulary import Vocabulary
from isogloss.vectors.project import layers_on_a_plane

Array = NDArray[np.float32]

TOTAL = 1200  # points on the map: beyond this neither the eye nor t-SNE gains


@dataclass(frozen=True)
class Chosen:
    """Words for the map: language, spelling and translation group of each, and its vectors (layers, words, width)."""

    layers: list[int]
    languages: list[str]
    words: list[str]
    pairs: list[int]
    vectors: Array


def draw(
    run: Run,
    words: Vocabulary,
    vectors: Mapping[str, Array],
    *,
    layers: list[int],
    points: int,
    how: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Choose the words of a run and draw them, or leave their vectors behind for later.

    Args:
        run: Takes the points, or the vectors.
        words: Word types of every language, and which of them translate each other.
        vectors: The vectors of each language's types, (layers, types, width).
        layers: The layers of those vectors.
        points: Most words a language.
        how: `centre`, whether each language's mean is removed first, t-SNE's `perplexity`, and the projection's `seed`.
        progress: Is told how far it is.
    """
    if (run.folder / "points.parquet").is_file() or (run.folder / "words.safetensors").is_file():
        return
    chosen = choose(words, vectors, layers, points)
    if len(chosen.words) < 5:
        run.note(f"no word map: only {len(chosen.words)} words were found that translate each other")
    elif find_spec("openTSNE") is None:
        metadata = {name: json.dumps(fact) for name, fact in {**vars(chosen), **how}.items() if name != "vectors"}
        with whole(run.folder / "words.safetensors") as beside:
            save_file({"vectors": chosen.vectors.astype(np.float16)}, beside, metadata)
        run.note("the word map was not drawn here: openTSNE is not installed; `isogloss report` draws it where it is")
    else:
        _write(chosen, run.folder, how, progress)


def draw_later(folder: Path, *, progress: Progress = silent) -> None:
    """Draw the map of a run whose vectors were left behind, if that is so."""
    path = folder / "words.safetensors"
    if (folder / "points.parquet").is_file() or not path.is_file():
        return
    with safe_open(path, framework="numpy") as file:
        facts = {name: json.loads(text) for name, text in file.metadata().items()}
        vectors = file.get_tensor("vectors").astype(np.float32)
    how = {name: facts.pop(name) for name in ("centre", "perplexity", "seed")}
    _write(Chosen(**facts, vectors=vectors), folder, how, progress)
    path.unlink()


def choose(words: Vocabulary, vectors_of: Mapping[str, Array], layers: list[int], points: int) -> Chosen:
    """The words of the first language with translations in most languages, most frequent first, and those."""
    first = next(iter(words.pairs))[0]
    translations: dict[int, dict[str, int]] = {}
    for (_, target), found in words.pairs.items():
        for i, j in found:
            translations.setdefault(i, {})[target] = j
    each = min(points, TOTAL // len(words.types))
    concepts = sorted(translations, key=lambda i: (-len(translations[i]), i))[:each]
    picked = [(pair, first, i) for pair, i in enumerate(concepts)]
    picked += [(pair, language, j) for pair, i in enumerate(concepts) for language, j in translations[i].items()]
    picked = [word for word in picked if not np.isnan(vectors_of[word[1]][:, word[2]]).any()]
    columns = [vectors_of[language][:, i] for _, language, i in picked]
    vectors = np.stack(columns, axis=1) if picked else np.zeros((0, 0, 0))
    names = [words.surface[language][words.types[language][i]] for _, language, i in picked]
    languages, pairs = [language for _, language, _ in picked], [pair for pair, _, _ in picked]
    return Chosen(layers, languages, names, pairs, vectors.astype(np.float32))


def _write(chosen: Chosen, folder: Path, how: Mapping[str, Any], progress: Progress) -> None:
    """Write the points of every layer; how: options of `layers_on_a_plane`."""
    vectors = chosen.vectors.astype(np.float64)
    positions = layers_on_a_plane(vectors, groups=chosen.languages, progress=progress, **how)
    words = {"language": chosen.languages, "word": chosen.words, "pair": chosen.pairs}
    frames = [
        pd.DataFrame({"layer": layer, **words, "x": plane[:, 0], "y": plane[:, 1]})
        for layer, plane in zip(chosen.layers, positions, strict=True)
    ]
    with whole(folder / "points.parquet") as beside:
        pd.concat(frames, ignore_index=True).to_parquet(beside, index=False)
