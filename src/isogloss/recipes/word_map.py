"""The word map: translated words in a plane, one frame per layer, so that layers can be compared as an animation.

t-SNE (van der Maaten and Hinton 2008) of openTSNE is used. The first layer is initialised with its principal
components, every other one with the layer before it; perplexity and seed stay the same. Far distances mean nothing.

The vectors of the words are saved in the run folder. If openTSNE is not installed (as on many GPU nodes), `isogloss
report` draws the map later.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from isogloss.files import whole
from isogloss.progress import progress
from isogloss.runs.run import Run
from isogloss.stack.stack import Chain, Stack
from isogloss.text.batches import encode
from isogloss.text.corpora import Bitext
from isogloss.text.vocabulary import Vocabulary
from isogloss.vectors.extract import stream

Array = NDArray[np.float32]

VECTORS, POINTS = "words.safetensors", "points.parquet"
TOTAL = 1200  # points on the map, at most; more would be neither readable nor better for t-SNE


def draw(
    run: Run, make: Callable[[], tuple[dict[str, list[Any]], Array]], *, layers: list[int], how: Mapping[str, Any]
) -> None:
    """Choose the words of a run, save their vectors in its folder, and draw the map if openTSNE is installed.

    Args:
        run: Its folder gets the vectors or the points of the map.
        make: Chooses the points, as `choose` and `choose_tokens` do.
        layers: The layers of the vectors.
        how: `centre`, whether to remove each language's mean first, t-SNE's `perplexity`, and its `seed`.
    """
    path = run.folder / VECTORS
    if (run.folder / POINTS).is_file():
        return
    if not path.is_file():
        chosen, vectors = make()
        if len(chosen["words"]) < 5:
            run.note(f"no word map: only {len(chosen['words'])} words or tokens were found for it")
            return
        facts = {"layers": layers, **chosen, **how}
        with whole(path) as beside:
            save_file({"vectors": vectors}, beside, {name: json.dumps(fact) for name, fact in facts.items()})
    draw_points(run.folder)
    if path.is_file():
        run.note("the word map was not drawn here: openTSNE is not installed; `isogloss report` draws it where it is")


def choose(words: Vocabulary, vectors: Mapping[str, Array], points: int) -> tuple[dict[str, list[Any]], Array]:
    """Choose the words of the first language with translations in most languages, and these translations.

    Returns:
        The `languages`, `words` and translation groups, `pairs`, of the points; and the vectors (layers, words, width).
    """
    first = next(iter(words.pairs))[0]
    translations: dict[int, dict[str, int]] = {}
    for (_, target), linked in words.pairs.items():
        for i, j in linked:
            translations.setdefault(i, {})[target] = j
    most = min(points, TOTAL // len(words.types))
    concepts = sorted(translations, key=lambda i: (-len(translations[i]), i))[:most]
    picked = [(pair, first, i) for pair, i in enumerate(concepts)]
    picked += [(pair, language, j) for pair, i in enumerate(concepts) for language, j in translations[i].items()]
    picked = [word for word in picked if not np.isnan(vectors[word[1]][:, word[2]]).any()]
    chosen: dict[str, list[Any]] = {
        "languages": [language for _, language, _ in picked],
        "words": [words.surface[language][words.types[language][i]] for _, language, i in picked],
        "pairs": [pair for pair, _, _ in picked],
    }
    columns = [vectors[language][:, i] for _, language, i in picked]
    return chosen, np.stack(columns, axis=1).astype(np.float32) if picked else np.zeros((0, 0, 0), np.float32)


def choose_tokens(
    stack: Stack | Chain, bitext: Bitext, rows: Sequence[int], *, layers: list[int], points: int
) -> tuple[dict[str, list[Any]], Array]:
    """Choose the content tokens of the first of these rows, at most `points` per language; returns as `choose` does.

    As in Jexus (2020), each use of a token is a point, and tokens are not joined to translations.
    """
    most, words, values = min(points, TOTAL // len(bitext.languages)), list[tuple[str, str]](), list[Array]()
    for corpus in bitext.corpora:
        left = most
        for chunk in stream(stack, corpus, layers=layers, units=("token",), rows=rows[:most], chunk=16):
            batch = encode(stack.tokenizer, corpus, chunk.rows, max_length=stack.max_length)
            names = stack.tokenizer.convert_ids_to_tokens(batch.ids[batch.content].tolist())[:left]
            words += [(corpus.language, name) for name in names]
            values.append(chunk.values["token"][:, :left].float().cpu().numpy())
            left -= len(names)
            if not left:
                break
    chosen: dict[str, list[Any]] = {"languages": [language for language, _ in words]}
    chosen |= {"words": [token for _, token in words], "pairs": list(range(len(words)))}
    return chosen, np.concatenate(values, axis=1)


def draw_points(folder: Path) -> None:
    """Project the words of a run to a plane at every layer, if their vectors are there and openTSNE is installed.

    The vectors (layers, n, d) are deleted afterwards. Their file also has the words from `choose`, `layers`, and the
    parameters of t-SNE: `centre`, `perplexity` (at most (n - 1) / 3) and `seed`.
    """
    path = folder / VECTORS
    if not path.is_file() or find_spec("openTSNE") is None:
        return
    from openTSNE import TSNEEmbedding
    from openTSNE.affinity import PerplexityBasedNN
    from openTSNE.initialization import rescale

    with safe_open(path, framework="numpy") as file:
        facts = {name: json.loads(text) for name, text in file.metadata().items()}
        vectors = file.get_tensor("vectors")
    names, seed = np.asarray(facts["languages"]), facts["seed"]
    words = {"language": facts["languages"], "word": facts["words"], "pair": facts["pairs"]}
    perplexity = min(facts["perplexity"], (len(names) - 1) / 3)
    frames: list[pd.DataFrame] = []
    positions: NDArray[np.float64] | None = None
    for number, layer in enumerate(facts["layers"]):
        x = vectors[number].astype(np.float64)
        for name in np.unique(names) if facts["centre"] else ():  # a language's offset would otherwise decide the map
            x[names == name] -= x[names == name].mean(axis=0)
        # Unit rows instead of the metric "cosine": the only word of its language is zero once centred (0 / 0).
        rows = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        near = PerplexityBasedNN(rows, perplexity=perplexity, metric="euclidean", method="exact", random_state=seed)
        start = positions
        if start is None:  # the first two principal components, their signs fixed by the largest entry
            left, sizes, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
            scores = left[:, :2] * sizes[:2]
            start = scores * np.sign(scores[np.abs(scores).argmax(axis=0), [0, 1]])
        embedding = TSNEEmbedding(rescale(start), near, negative_gradient_method="bh", random_state=seed, n_jobs=1)
        # Only the first layer needs early exaggeration; the others start from the layer before.
        if positions is None:
            embedding = embedding.optimize(n_iter=250, exaggeration=12, momentum=0.5)
        positions = np.asarray(embedding.optimize(n_iter=250, momentum=0.8), dtype=np.float64)
        centred = positions - positions.mean(axis=0)
        frames.append(pd.DataFrame({"layer": layer, **words, "x": centred[:, 0], "y": centred[:, 1]}))
        progress("drawing the word map", number + 1, len(facts["layers"]))
    with whole(folder / POINTS) as beside:
        pd.concat(frames, ignore_index=True).to_parquet(beside, index=False)
    path.unlink()
