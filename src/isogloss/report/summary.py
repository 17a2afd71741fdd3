"""Rows become curves over layers; curves are averaged, compared and searched for their best layer.

The average over language pairs averages values, floors, and the two ends of the intervals. Averaged ends are what the
mean would have if all pairs erred together; pairs share their sentences, so anything narrower would promise too much.
A map measures the interval of the mean itself, and how far each layer is behind the best; `overall` prefers those.
Only pairs measured at every layer enter an average: else the curve would move because its members changed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from isogloss.report.meanings import LOWER, meaning

LEADING = (
    ("p@1", "centred"),
    ("p@1", "csls"),
    ("p@1", "cosine"),
    ("cka", "debiased"),
    ("word_agreement", "centred"),
)
IDENTITY = ["measure", "variant", "unit", "data", "source", "target", "task", "other_model", "step", "seed"]


@dataclass(frozen=True)
class Curve:
    """One measure of one language pair over the layers, or the average of `members` of them.

    `value`, `low`, `high` and `floor` have one number a layer (nan where absent); `n` is the smallest and the largest
    number of items behind a value, (0, 0) when unknown. `tied` holds the layers that cannot be told from the best one
    when all are compared on the same sentences; None when the run did not compare them.
    """

    measure: str
    variant: str
    data: str
    source: str
    target: str
    layers: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...]
    n: tuple[int, int]
    members: int = 1
    seed: str = ""
    tied: tuple[int, ...] | None = None

    def place(self, layer: int) -> int:
        """Where a layer stands in the lists."""
        return self.layers.index(layer)


def curves(rows: pd.DataFrame, measure: str, variant: str | None = None) -> list[Curve]:
    """Every curve of a measure (and variant) in order of appearance; rows without a layer have none."""
    chosen = rows[(rows["measure"] == measure) & rows["layer"].notna() & rows["value"].notna()]
    if variant is not None:
        chosen = chosen[chosen["variant"] == variant]
    chosen = chosen.drop_duplicates([*IDENTITY, "layer"], keep="last")
    groups = chosen.groupby(IDENTITY, sort=False, dropna=False).ngroup().to_numpy()
    layers = chosen["layer"].to_numpy(dtype="int64")
    order = np.lexsort((layers, groups))
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    numbers = chosen[["value", "low", "high", "floor"]].to_numpy(dtype="float64")  # (rows, 4)
    counts = chosen["n"].fillna(0).to_numpy(dtype="int64")
    names = chosen[["variant", "data", "source", "target", "seed"]].to_numpy(dtype="object")
    return [
        _curve(measure, names[at[0]], layers=layers[at], numbers=numbers[at], counts=counts[at])
        for at in np.split(order, cuts)
        if len(at)
    ]


def _curve(
    measure: str,
    names: npt.NDArray[np.object_],
    *,
    layers: npt.NDArray[np.int64],
    numbers: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
) -> Curve:
    variant, data, source, target = (str(name) for name in names[:4])
    value, low, high, floor = (tuple(column.tolist()) for column in numbers.T)
    known = counts[counts > 0]
    return Curve(
        measure=measure,
        variant=variant,
        data=data,
        source=source,
        target=target,
        layers=tuple(layers.tolist()),
        value=value,
        low=low,
        high=high,
        floor=floor,
        n=(int(known.min()), int(known.max())) if len(known) else (0, 0),
        seed="" if pd.isna(names[4]) else str(names[4]),
    )


def average(parts: Sequence[Curve]) -> Curve | None:
    """The mean of curves that share the same layers (the longest set of layers wins); None for no curves."""
    if not parts:
        return None
    layers = max((part.layers for part in parts), key=len)
    whole = [part for part in parts if part.layers == layers]
    if len(whole) == 1:
        return whole[0]
    counted = [part.n for part in whole if part.n != (0, 0)]
    return Curve(
        measure=whole[0].measure,
        variant=whole[0].variant,
        data=_shared([part.data for part in whole]),
        source=_shared([part.source for part in whole]),
        target=_shared([part.target for part in whole]),
        layers=layers,
        value=_mean([part.value for part in whole]),
        low=_mean([part.low for part in whole]),
        high=_mean([part.high for part in whole]),
        floor=_mean([part.floor for part in whole]),
        n=(min(low for low, _ in counted), max(high for _, high in counted)) if counted else (0, 0),
        members=len(whole),
        seed=_shared([part.seed for part in whole]),
    )


def overall(rows: pd.DataFrame, measure: str, variant: str | None = None) -> Curve | None:
    """The average of a measure's curves, with the interval and the comparison of layers the run itself took.

    Where the rows hold `MEASURE_mean` and `MEASURE_behind` of one data set, those stand for the average's interval and
    for which layers cannot be told from the best; else the averaged ends do.
    """
    mean = average(curves(rows, measure, variant))
    known, behind = (curves(rows, f"{measure}_{kind}", variant) for kind in ("mean", "behind"))
    if mean is None or len(known) != 1 or len(behind) != 1 or not known[0].layers == behind[0].layers == mean.layers:
        return mean
    tied = tuple(layer for layer, low in zip(behind[0].layers, behind[0].low, strict=True) if not low > 0)
    return replace(mean, low=known[0].low, high=known[0].high, tied=tied)


def _shared(names: Sequence[str]) -> str:
    return names[0] if len(set(names)) == 1 else ""


def _mean(columns: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(float(number) for number in np.mean(np.array(columns, dtype="float64"), axis=0))


def pairs_repeat(parts: Sequence[Curve]) -> bool:
    """Whether some language pair was measured on more than one data set (or seed)."""
    return len({(part.source, part.target) for part in parts}) < len(parts)


def best_layer(curve: Curve) -> int:
    """The layer with the best value under the measure's own direction; the earliest of equals."""
    values = np.array(curve.value)
    place = np.argmin(values) if meaning(curve.measure).better == LOWER else np.argmax(values)
    return curve.layers[int(place)]


def alike(curve: Curve) -> list[int]:
    """The layers that cannot be told from the best, itself included.

    By comparison where there is one, else because their intervals overlap.
    """
    if curve.tied is not None:
        return sorted({best_layer(curve), *curve.tied})
    place = curve.place(best_layer(curve))
    low, high = curve.low[place], curve.high[place]
    return [
        layer
        for index, layer in enumerate(curve.layers)
        if index == place or (curve.low[index] <= high and curve.high[index] >= low)
    ]


def above_floor(curve: Curve, layer: int) -> bool | None:
    """Whether a layer's interval (its value, where there is none) clears the floor; None without a floor."""
    place = curve.place(layer)
    floor = curve.floor[place]
    if np.isnan(floor):
        return None
    if meaning(curve.measure).better == LOWER:
        return _first(curve.high[place], curve.value[place]) < floor
    return _first(curve.low[place], curve.value[place]) > floor


def _first(bound: float, value: float) -> float:
    return value if np.isnan(bound) else bound


def leading(rows: pd.DataFrame) -> tuple[str, str] | None:
    """The measure and variant that the verdict leads with: the first of `LEADING` that was measured per layer."""
    for measure, variant in LEADING:
        if curves(rows, measure, variant):
            return measure, variant
    return None


def central_language(rows: pd.DataFrame) -> str:
    """The language the others are compared with: the one in most pairs, and among equals the first source."""
    pairs = rows.loc[(rows["source"] != "") & (rows["target"] != ""), ["source", "target"]].drop_duplicates()
    partners: Counter[str] = Counter()
    for pair in {frozenset(pair) for pair in pairs.itertuples(index=False)}:
        partners.update(pair)
    # `pairs` is in order of appearance and max keeps the first of equals.
    return max((*pairs["source"], *pairs["target"]), key=lambda code: partners[code], default="")


def by_partner(parts: Sequence[Curve], centre: str) -> dict[str, Curve]:
    """For each language, the average of its curves with the central one, both directions and all data."""
    groups: dict[str, list[Curve]] = {}
    for part in parts:
        if part.target == "":
            groups.setdefault(part.source, []).append(part)
        elif centre in (part.source, part.target):
            other = part.target if part.source == centre else part.source
            groups.setdefault(other, []).append(part)
    found = {language: average(group) for language, group in groups.items()}
    return {language: curve for language, curve in found.items() if curve is not None}
