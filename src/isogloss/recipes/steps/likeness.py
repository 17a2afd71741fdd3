"""How alike two languages' spaces are before any map, as rows: CKA of the vectors a map is learned from and tried on.

CKA needs no shared space, so the two may be of two models, of any widths. `condition` says of which text a row is,
`test` (looked up) or `train` (learned from), and `measure` of which form: `cka` is debiased, `cka_biased` the printed
formula with centring and `cka_uncentred` without.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from isogloss.measures import cka_forms, correlation
from isogloss.recipes.steps.inducing import Found
from isogloss.runs.table import Row, row
from isogloss.text.corpora import Bitext

Direction = tuple[str, str]
LEAST = 4  # sentences for debiased CKA


def distinct_rows(texts: Mapping[str, Bitext]) -> dict[str, Tensor]:
    """The rows of each text that repeat no earlier one on both sides: a repeat would pass for agreement.

    Texts with fewer than 4 of them are left out.
    """
    found = {name: torch.tensor(text.distinct_rows) for name, text in texts.items()}
    return {name: rows for name, rows in found.items() if len(rows) >= LEAST}


def relation_rows(
    rows: Sequence[Row], found: Mapping[Direction, Mapping[int, Found]], *, place: Mapping[str, Any]
) -> Iterator[Row]:
    """Do layers whose spaces are more alike let more translations be found? `cka_retrieval`, one row a way of P@1.

    Pearson's correlation, over layers, of debiased CKA (rows: of the text learned from where there is one) and P@1,
    the mean of both directions. n counts layers; below four there is no interval, and no row below three or where a
    curve is level.
    """
    texts = [one["condition"] for one in rows if one["measure"] == "cka"]
    text = "train" if "train" in texts else "test"
    alike = {int(one["layer"]): float(one["value"]) for one in rows
             if one["measure"] == "cka" and one["condition"] == text and isfinite(one["value"])}  # fmt: skip
    if len(alike) < 3:  # a line goes through any two points
        return
    for way in next(iter(next(iter(found.values())).values())).hits:
        right = [sum(float(by[layer].hits[way].mean()) for by in found.values()) / len(found) for layer in alike]
        one = correlation(list(alike.values()), right, kind="pearson")
        if isfinite(one.value):
            yield row(
                "cka_retrieval",
                one.value,
                low=one.low,
                high=one.high,
                n=one.n,
                condition=way[0],
                method=way[1],
                **place,
            )


def likeness_rows(
    sides: Mapping[str, tuple[Tensor, Tensor]], rows: Mapping[str, Tensor], *, seed: int, place: Mapping[str, Any]
) -> Iterator[Row]:
    """Every form of CKA of both sides (n, dx) and (n, dy) of each text, on these rows."""
    for name, chosen in rows.items():
        x, y = (side[chosen.to(side.device)] for side in sides[name])
        for form, one in cka_forms(x, y, seed=seed).items():
            given = {"low": one.low, "high": one.high, "floor": one.floor, "n": one.n}
            yield row(form, one.value, condition=name, **given, **place)
