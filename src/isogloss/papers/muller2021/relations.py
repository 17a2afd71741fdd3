"""Does a language that is more like the source lose less? The rank correlation of gap and similarity over targets.

The gap of a target is the mean over seeds of what the reference loses from source to target, its similarity CKA with
the source: at each layer, and the mean over layers 1 and up; before training and after. Sources are pooled by what
happens within each of them. The interval draws targets with replacement. Below zero: more alike, less lost.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.measures.statistics import correlation
from isogloss.papers.muller2021.published import REFERENCE, RELATION
from isogloss.runs.table import UNTUNED, Row, row

LEAST = 4  # targets of a source


def relation_rows(results: Sequence[Row], alike: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows for each task: of every layer, and without a layer of the mean over layers; n counts targets of all sources.

    `variant` says whether similarity is read before training or after.
    """
    gaps = _gaps(results)
    for variant in (UNTUNED, REFERENCE):
        near = _similarities([one for one in alike if one["variant"] == variant])
        for task in dict.fromkeys(task for task, _, _ in gaps):
            points = relation_points(gaps, near, task)
            if not points:
                continue
            for layer in next(iter(near.values())):
                x = np.array([[one[1][layer] for one in some] for some in points.values()])
                y = np.array([[one[0] for one in some] for some in points.values()])
                found = correlation(x, y, run=1)
                if not np.isfinite(found.value):
                    continue
                at: dict[str, Any] = {"task": task, "variant": variant, "unit": "spearman", "model": _model(results)}
                at |= {} if layer is None else {"layer": layer}
                ends = {"low": found.low, "high": found.high} if np.isfinite(found.low) else {}
                yield row(RELATION, found.value, n=x.size, **ends, **at)


Gaps = dict[tuple[str, str, str], float]
Near = dict[tuple[str, str, str], dict[int | None, float]]


def relation_points(gaps: Gaps, near: Near, task: str) -> dict[str, list[tuple[float, dict[int | None, float]]]]:
    """Gap and similarities of every target by source; sources that have fewer targets than the others are left out."""
    found: dict[str, list[tuple[float, dict[int | None, float]]]] = {}
    for (of, source, target), gap in gaps.items():
        if of == task and (task, source, target) in near:
            found.setdefault(source, []).append((gap, near[task, source, target]))
    most = max((len(some) for some in found.values()), default=0)
    return {source: some for source, some in found.items() if len(some) == most >= LEAST}


def _gaps(results: Sequence[Row]) -> Gaps:
    """Of the reference, on the main test set of each target: the mean over seeds."""
    main: dict[tuple[str, str, str], str] = {}
    values: dict[tuple[str, str, str], list[float]] = {}
    for one in results:
        if one["measure"] == "gap" and one["variant"] == REFERENCE and "data" in one:
            place = (one["task"], one["source"], one["target"])
            if main.setdefault(place, one["data"]) == one["data"]:
                values.setdefault(place, []).append(float(one["value"]))
    return {place: float(np.mean(some)) for place, some in values.items()}


def _similarities(alike: Sequence[Row]) -> Near:
    """CKA of source and target by layer, and under None the mean over layers above the embeddings."""
    values: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for one in alike:
        place = (one["task"], one["source"], one["target"])
        values.setdefault(place, {}).setdefault(int(one["layer"]), []).append(float(one["value"]))
    found: Near = {}
    for place, layers in values.items():
        means: dict[int | None, float] = {layer: float(np.mean(some)) for layer, some in layers.items()}
        means[None] = float(np.mean([mean for layer, mean in means.items() if layer]))
        found[place] = means
    return found


def _model(results: Sequence[Row]) -> str:
    return str(results[0]["model"])
