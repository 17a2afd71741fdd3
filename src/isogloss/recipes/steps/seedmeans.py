"""Means over seeds, with Student's t interval of the mean: what says whether another training would find the same."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from isogloss.measures.registry import MEASURES
from isogloss.runs.table import KEY, Row, is_given, row

ALIKE = tuple(name for name in KEY if name not in ("seed", "step"))


def mean_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means over seeds of rows without a step that differ in nothing but the seed; n counts seeds.

    The chance floor is the mean of theirs. A row that has no seed, or one seed only, has no mean; nor has one that is
    without a value in some seed, as is the share that is lost of a score of 0.

    >>> some = [row("gap", value, target="nl", seed=seed) for seed, value in enumerate((0.1, 0.2, 0.3))]
    >>> one = mean_rows(some)[0]
    >>> round(one["value"], 3), round(one["low"], 3), round(one["high"], 3), one["n"]
    (0.2, -0.048, 0.448, 3)
    """
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for one in rows:
        if is_given(one.get("seed")) and not is_given(one.get("step")):
            known = tuple(one[name] if is_given(one.get(name)) else None for name in ALIKE)
            grouped.setdefault(known, []).append(one)
    return [_mean(dict(zip(ALIKE, key, strict=True)), some) for key, some in grouped.items() if _has_mean(some)]


def _has_mean(rows: Sequence[Row]) -> bool:
    chosen = str(rows[0]["measure"]).startswith("chosen_")
    return len(rows) > 1 and not chosen and all(is_given(one.get("value")) for one in rows)


def _mean(where: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    values = np.array([one["value"] for one in rows], dtype=np.float64)
    floors = np.array([one.get("floor", np.nan) for one in rows], dtype=np.float64)
    reach = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    measure, mean = str(where.pop("measure")), float(values.mean())
    least, most = MEASURES[measure].range if measure in MEASURES else (-np.inf, np.inf)
    place = {name: value for name, value in where.items() if value is not None}
    if not np.isnan(floors).any():
        place["floor"] = float(floors.mean())
    return row(
        measure, mean, low=max(least, mean - reach), high=min(most, mean + reach), n=len(values), over="seeds", **place
    )
