"""How alike two languages' spaces are before any map, as rows: CKA of the vectors a map is learned from and tried on.

CKA needs no shared space, so the two may be of two models, of any widths. `variant` says of which text a row is, `test`
(looked up) or `train` (learned from), and `measure` of which form: `cka` is debiased, `cka_biased` the printed formula
with centring and `cka_uncentred` without.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from isogloss.measures import cka_forms
from isogloss.runs.table import Row, row
from isogloss.text.corpora import Bitext

LEAST = 4  # sentences for debiased CKA


def distinct_rows(texts: Mapping[str, Bitext]) -> dict[str, Tensor]:
    """The rows of each text that repeat no earlier one on both sides: a repeat would pass for agreement.

    Texts with fewer than 4 of them are left out.
    """
    found = {name: torch.tensor(text.distinct_rows) for name, text in texts.items()}
    return {name: rows for name, rows in found.items() if len(rows) >= LEAST}


def likeness_rows(
    sides: Mapping[str, tuple[Tensor, Tensor]], rows: Mapping[str, Tensor], *, seed: int, place: Mapping[str, Any]
) -> Iterator[Row]:
    """Every form of CKA of both sides (n, dx) and (n, dy) of each text, on these rows."""
    for name, chosen in rows.items():
        x, y = (side[chosen.to(side.device)] for side in sides[name])
        for form, one in cka_forms(x, y, seed=seed).items():
            given = {"low": one.low, "high": one.high, "floor": one.floor, "n": one.n}
            yield row(form, one.value, variant=name, **given, **place)
