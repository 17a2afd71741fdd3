"""What each defect of the original code does to the curves: the same training read, or made, with it and without.

With x(s) a reading at step s with the defect, and y(s) the same reading of the same seed without, a defect shifts a
curve by the mean over the readings s of

    e(s) = log x(s) / y(s)

and makes it stray by the standard deviation of e(s) around that. Both are means over seeds with a t interval; a shift
of 0.1 is a curve that lies 10.5% too high. Step 0 counts: what is wrong there was never learned.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.measures.statistics import band
from isogloss.runs.table import Row, row

SHIFT, STRAY = "legacy_shift", "legacy_stray"
SAME = ("target", "data", "other_model", "layer")  # what two readings to compare have in common, besides seed and step
COMPARED = ("perplexity", "l2_drift")


def effect_rows(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """`legacy_shift` and `legacy_stray` of every training with defects whose plan was run without them, too.

    Of perplexity per token: the target's (validation and test), each other language and the others pooled. Of L2
    distances: to each model, on each text, the mean over the layers that moved. `task` names the measure compared.
    """
    read = [one for one in rows if one["measure"] in COMPARED and "step" in one and _counts(one)]
    trainings = dict.fromkeys((str(one["plan"]), str(one.get("condition", ""))) for one in read)
    for plan, condition in trainings:
        if not condition or (plan, "") not in trainings:
            continue
        honest, spoilt = (
            [one for one in read if (one["plan"], one.get("condition", "")) == (plan, each)] for each in ("", condition)
        )
        found = [row for measure in COMPARED for row in _compare(measure, honest, spoilt)]
        yield [{**one, "plan": plan, "condition": condition, "model": spoilt[0]["model"]} for one in found]


def _counts(one: Row) -> bool:
    return one.get("unit") == "token" if one["measure"] == "perplexity" else True


def _compare(measure: str, honest: Sequence[Row], spoilt: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows on one measure, one text or language at a time."""
    both = [_table([one for one in side if one["measure"] == measure]) for side in (honest, spoilt)]
    places = dict.fromkeys(place[:3] for place in both[1])
    for target, data, other in places:
        seeds: dict[int, list[list[float]]] = {}
        for place, readings in both[1].items():
            if place[:3] != (target, data, other):
                continue
            for seed, curve in readings.items():
                effects = _effects(both[0].get(place, {}).get(seed, {}), curve, tested=data == "test")
                seeds.setdefault(seed, []).extend([effects] if effects else [])
        found = [np.mean(_same_length(layers), axis=0) for layers in seeds.values() if layers]
        about = {"task": measure, "target": target, "data": data, "other_model": other}
        yield from _over_seeds(found, {name: value for name, value in about.items() if value})


def _table(rows: Sequence[Row]) -> dict[tuple[Any, ...], dict[int, dict[int, float]]]:
    """Values by place, seed and step."""
    found: dict[tuple[Any, ...], dict[int, dict[int, float]]] = {}
    for one in rows:
        place = tuple(one.get(name, "") for name in SAME)
        found.setdefault(place, {}).setdefault(int(one["seed"]), {})[int(one["step"])] = float(one["value"])
    return found


def _effects(honest: dict[int, float], spoilt: dict[int, float], *, tested: bool) -> list[float]:
    """The logarithm of x/y at the steps both were read at; a test is one reading, of whichever step was kept."""
    pairs = zip(spoilt.values(), honest.values(), strict=False) if tested else (
        (value, honest[step]) for step, value in spoilt.items() if step in honest
    )  # fmt: skip
    return [float(np.log(x / y)) for x, y in pairs if x > 0 and y > 0]


def _same_length(curves: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The longest curves: a layer that begins to move late has none before, and would count for other steps."""
    most = max(len(one) for one in curves)
    return [one for one in curves if len(one) == most]


def _over_seeds(found: Sequence[np.ndarray], about: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if not found:
        return
    for measure, values in ((SHIFT, [one.mean() for one in found]), (STRAY, [one.std() for one in found])):
        if measure == STRAY and max(len(one) for one in found) < 2:
            continue
        over = band(np.array(values)[:, None])
        ends = {"low": float(over.low[0]), "high": float(over.high[0])} if len(values) > 1 else {}
        yield row(measure, float(over.mean[0]), n=len(values), over="seeds", **ends, **about)
