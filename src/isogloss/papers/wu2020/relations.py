"""Where two languages' spaces are alike, is a rotation enough? CKA and retrieval after Procrustes, layer by layer."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.measures.statistics import correlation
from isogloss.runs.table import Row, row

RELATION = "cka_retrieval"
WAY = "procrustes+iterative inductive cosine"


def relation_rows(found: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Pearson's correlation over layers of debiased CKA and P@1, of each pair, kind of models and seed; n: layers."""
    alike = _curves(found, "cka", "")
    right = _curves(found, "p@1", WAY)
    for where, curve in alike.items():
        other = right.get(where, {})
        layers = sorted(set(curve) & set(other))
        if len(layers) < 2:
            continue
        both = correlation([curve[one] for one in layers], [other[one] for one in layers], kind="pearson")
        if not np.isfinite(both.value):
            continue
        ends = {"low": both.low, "high": both.high} if np.isfinite(both.low) else {}
        at = dict(zip(("model", "source", "target", "seed"), where, strict=True))
        yield row(RELATION, both.value, n=both.n, task="cka", unit="pearson", **ends, **at)


def _curves(found: Sequence[Row], measure: str, variant: str) -> dict[tuple[Any, ...], dict[int, float]]:
    curves: dict[tuple[Any, ...], dict[int, float]] = {}
    for one in found:
        if one["measure"] == measure and one.get("variant", "") == variant and "layer" in one:
            if one["task"] not in ("cka", "retrieval"):
                continue
            where = (one["model"], one["source"], one["target"], one["seed"])
            curves.setdefault(where, {})[int(one["layer"])] = float(one["value"])
    return curves
