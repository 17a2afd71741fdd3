"""Whether a rotation finds more translations at layers whose spaces are more alike.

Conneau, Wu et al. (2020, 5.2) report a Pearson correlation above 0.9 between CKA of two models and the retrieval that a
rotation between them allows, over layers. Here it comes with an interval that knows layers are neighbours.
"""

from typing import cast

import pandas as pd

from isogloss.errors import InputError
from isogloss.measures.correlation import Correlation, Kind, correlation

Pair = tuple[str, str]


def likeness_and_retrieval(
    rows: pd.DataFrame,
    *,
    measure: str = "cka",
    text: str = "train",
    way: str = "procrustes+iterative inductive cosine",
    kind: Kind = "pearson",
    seed: int = 0,
) -> dict[Pair | None, Correlation]:
    """Correlate CKA and P@1 over the layers of each pair of languages, and under None of all pairs pooled within pairs.

    rows: those of `rotate`, of one or many runs; whatever differs besides the layer and the pair (models, seeds, both
    directions of P@1) is averaged first, so give the rows of one kind of model at a time. measure: `cka`, `cka_biased`
    or `cka_uncentred`; text: that of `train` or of `test`; way: the variant of P@1. Layers that lack one of the two in
    any pair are left out.
    """
    alike = _curves(rows[(rows["measure"] == measure) & (rows["variant"] == text)])
    found = _curves(rows[(rows["measure"] == "p@1") & (rows["variant"] == way)])
    pairs = [cast(Pair, pair) for pair in alike.columns if pair in found.columns]  # pandas' types know names alone
    both = pd.concat([alike[pairs], found[pairs]], axis=1, keys=["alike", "found"]).dropna() if pairs else alike[:0]
    if len(both) < 2:
        raise InputError(
            f"no two layers have both {measure} of the {text} text and P@1 of {way!r}; give rows of a run that has them"
        )
    x, y = both["alike"].to_numpy().T, both["found"].to_numpy().T  # (pairs, layers) each
    answer: dict[Pair | None, Correlation] = {
        pair: correlation(x[at], y[at], kind=kind, seed=seed) for at, pair in enumerate(pairs)
    }
    return {**answer, None: correlation(x, y, kind=kind, seed=seed)}


def _curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean values, a row a layer in order, a column a pair of languages, whichever was mapped onto the other."""
    rows = rows[rows["layer"].notna()]
    ordered = [tuple(sorted(pair)) for pair in zip(rows["source"], rows["target"], strict=True)]
    means = rows["value"].groupby([rows["layer"], pd.Series(ordered, index=rows.index, dtype=object)]).mean()
    return means.unstack().sort_index()
