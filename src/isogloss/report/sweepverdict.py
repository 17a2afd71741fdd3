"""What a sweep of trainings has moved: retrieval before and after, by what its jobs differ in, means over seeds."""

from typing import cast

import numpy as np
import pandas as pd

from isogloss.measures.statistics import band
from isogloss.report.phrases import number

MOST_KINDS = 12


def sweep_verdict(rows: pd.DataFrame) -> list[str]:
    """One sentence on mean P@1, first to last step, of every kind of job; none where it was not read over steps.

    The layer is the one at which all jobs together end highest. Brackets are t intervals over seeds.
    """
    read = rows[(rows["measure"] == "p@1_mean") & rows["layer"].notna() & rows["step"].notna() & rows["seed"].notna()]
    began, ended = {}, {}
    for (model, variant, seed), some in read.groupby(["model", "variant", "seed"], sort=False):
        steps = some["step"].astype(int)
        kind = str(variant).removesuffix("centred").strip() or str(model)
        place = (kind if read["model"].nunique() < 2 or kind == model else f"{model} {kind}", seed)
        began[place], ended[place] = (
            some[steps == end].groupby("layer")["value"].mean() for end in (steps.min(), steps.max())
        )
    if len(ended) < 2:
        return []
    layer = int(cast(float, pd.DataFrame(list(ended.values())).mean().idxmax()))
    kinds = list(dict.fromkeys(kind for kind, _ in ended))
    told = []
    for kind in kinds[:MOST_KINDS]:
        before, after = (
            [float(found.get(layer, np.nan)) for (one, _), found in side.items() if one == kind]
            for side in (began, ended)
        )
        seeds = f", {len(after)} seeds" if len(after) > 1 else ""
        told.append(f"{kind} from {_mean(before)} to {_mean(after)}{seeds}")
    told += [f"{len(kinds) - MOST_KINDS} more are in the rows"] if len(kinds) > MOST_KINDS else []
    chance = read["floor"].mean()
    floor = "" if np.isnan(chance) else f" (chance {number(chance)})"
    return [f"Mean P@1 at layer {layer}, where all jobs together end highest{floor}: {'; '.join(told)}."]


def _mean(values: list[float]) -> str:
    found = band([[value] for value in values])
    mean, low, high = (float(one[0]) for one in (found.mean, found.low, found.high))
    return number(mean) + ("" if np.isnan(low) or np.isclose(low, high) else f" [{number(low)}, {number(high)}]")
