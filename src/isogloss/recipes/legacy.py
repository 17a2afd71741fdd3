"""What the released code of Hussain & Dudev (2020) does otherwise than their paper says, and what that changes.

Each difference is a switch of `isogloss drift --legacy`, and none is ever on by itself: they are here so that the
effect of each can be shown. `Protocol` holds the points in which a training can differ; its defaults are the paper's,
and a defect changes one of them.

With x(s) a reading at step s with a defect, and y(s) the same reading of the same seed without it, the defect shifts a
curve by the mean over the readings s of

    e(s) = log x(s) / y(s)

and makes it stray by the standard deviation of e(s) around that mean. Both are means over seeds with a t interval; a
shift of 0.1 is a curve that lies 10.5% too high. Step 0 counts: what is wrong there was never learned.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isogloss.errors import InputError
from isogloss.measures.statistics import mean_over_seeds
from isogloss.runs.table import Row, row
from isogloss.training.probes import Reading
from isogloss.training.stopping import Choice


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a drift training runs and is measured, in the points where the original code differs.

    Args:
        attend_padding: no attention mask is given.
        limit: sentences of each text that perplexity is read on; None for all of them.
        redraw_masks: the masks of perplexity are drawn anew at each reading.
        keep_worst: the model with the worst reading is kept, not the best.
        by_position: distances compare position with position, not word with word.
        dropout: the model's own dropout is on while it trains.

    """

    attend_padding: bool = False
    limit: int | None = None
    redraw_masks: bool = False
    keep_worst: bool = False
    by_position: bool = False
    dropout: bool = True


DEFECTS = {
    "no-mask": "no attention mask is given, so that padding is read as text",
    "two-batches": "perplexity is read on the first 32 sentences of each text",
    "redrawn": "the masks of the validation texts are drawn anew at each reading",
    "worst": "the model with the worst reading is kept as the best",
    "by-position": "distances compare position with position, special tokens and padding among them",
    "no-dropout": "there is no dropout while the model trains",
}
_CHANGES: dict[str, dict[str, Any]] = {
    "no-mask": {"attend_padding": True},
    "two-batches": {"limit": 32},
    "redrawn": {"redraw_masks": True},
    "worst": {"keep_worst": True},
    "by-position": {"by_position": True},
    "no-dropout": {"dropout": False},
}
EACH, LEGACY = "each", "legacy:"


def parse_legacy(text: str | None) -> list[frozenset[str]]:
    """The sets of defects that every plan is run with: those named, or all; `each` is none, every one alone, and all.

    >>> parse_legacy(None), parse_legacy("worst, worst")
    ([frozenset()], [frozenset({'worst'})])
    >>> [len(defects) for defects in parse_legacy("each")]
    [0, 1, 1, 1, 1, 1, 1, 6]
    """
    names = [name.strip() for name in text.split(",")] if text else []
    if names == [EACH]:
        return [frozenset(), *(frozenset({name}) for name in DEFECTS), frozenset(DEFECTS)]
    unknown = [name for name in names if name not in (*DEFECTS, "all")]
    if unknown:
        raise InputError(f"--legacy {unknown[0]!r} is not known; choose {', '.join(DEFECTS)}, all, or each by itself")
    return [frozenset(DEFECTS) if "all" in names else frozenset(names)]


def protocol_with(defects: frozenset[str]) -> Protocol:
    """The paper's protocol with these defects.

    >>> protocol_with(frozenset({"worst"})).keep_worst, protocol_with(frozenset()) == Protocol()
    (True, True)
    """
    return Protocol(**{field: value for name in defects for field, value in _CHANGES[name].items()})


def legacy_notes(sets: Sequence[frozenset[str]]) -> list[str]:
    """A sentence on every defect that is on, for the reader of a run."""
    return [f"as the original did: {DEFECTS[name]}" for name in DEFECTS if any(name in defects for defects in sets)]


def legacy_condition(defects: frozenset[str]) -> str:
    """What rows say of a training in `condition`: the defects that are on.

    >>> legacy_condition(frozenset({"worst", "no-mask"})), legacy_condition(frozenset())
    ('legacy:no-mask,worst', '')
    """
    names = [name for name in DEFECTS if name in defects]
    text = "all" if len(names) == len(DEFECTS) else ",".join(names)
    return f"{LEGACY}{text}" if names else ""


@dataclass(frozen=True)
class Worst:
    """A choice turned round: the worst reading is called the best, as the original code did."""

    of: Choice

    @property
    def title(self) -> str:
        """The reading in words."""
        return f"the worst of {self.of.title}"

    def value(self, readings: Sequence[Reading]) -> float | None:
        """The reading that the choice is about, if it is among these."""
        return self.of.value(readings)

    def better(self, new: float, old: float | None, *, least: float = 0.0) -> bool:
        """Whether a value is worse than the worst so far."""
        return self.of.better(new, None) if old is None else self.of.better(old, new, least=least)


# --- the effect of each defect ---------------------------------------------------------------------------------------

SHIFT, STRAY = "legacy_shift", "legacy_stray"
COMPARED = ("perplexity", "l2_drift")
Curves = dict[
    tuple[Any, ...], dict[int, dict[int, float]]
]  # (target, data, other model, layer) -> seed -> step -> value


def effect_rows(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """`legacy_shift` and `legacy_stray` of every training with defects whose plan was run without them, too.

    Of perplexity per token: the target's (validation and test), each other language and the others pooled. Of L2
    distances: to each model, on each text, the mean over the layers that moved. `task` names the measure compared.
    """
    readings = [
        reading
        for reading in rows
        if reading["measure"] in COMPARED
        and "step" in reading
        and (reading["measure"] != "perplexity" or reading.get("unit") == "token")
    ]
    trainings: dict[tuple[str, str], list[Row]] = {}
    for reading in readings:
        trainings.setdefault((str(reading["plan"]), str(reading.get("condition", ""))), []).append(reading)
    for (plan, condition), spoilt in trainings.items():
        if condition and (plan, "") in trainings:
            coordinates = {"plan": plan, "condition": condition, "model": spoilt[0]["model"]}
            effects = [effect for measure in COMPARED for effect in _compare(measure, trainings[plan, ""], spoilt)]
            yield [{**effect, **coordinates} for effect in effects]


def _compare(measure: str, honest: Sequence[Row], spoilt: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows on one measure, one text or language at a time."""
    without, with_defects = _curves(honest, measure), _curves(spoilt, measure)
    for target, data, other_model in dict.fromkeys(coordinates[:3] for coordinates in with_defects):
        layers_by_seed: dict[int, list[list[float]]] = {}
        for coordinates, seeds in with_defects.items():
            if coordinates[:3] == (target, data, other_model):
                for seed, curve in seeds.items():
                    effects = _effects(without.get(coordinates, {}).get(seed, {}), curve, tested=data == "test")
                    layers_by_seed.setdefault(seed, []).extend([effects] if effects else [])
        curves = [np.mean(_longest(layers), axis=0) for layers in layers_by_seed.values() if layers]
        about = {"task": measure, "target": target, "data": data, "other_model": other_model}
        yield from _means(curves, {name: value for name, value in about.items() if value})


def _curves(rows: Sequence[Row], measure: str) -> Curves:
    curves: Curves = {}
    for reading in rows:
        if reading["measure"] == measure:
            coordinates = tuple(reading.get(name, "") for name in ("target", "data", "other_model", "layer"))
            curve = curves.setdefault(coordinates, {}).setdefault(int(reading["seed"]), {})
            curve[int(reading["step"])] = float(reading["value"])
    return curves


def _effects(honest: Mapping[int, float], spoilt: Mapping[int, float], *, tested: bool) -> list[float]:
    """Log x/y at the steps both were read at; a test is one reading, of whichever step was kept."""
    if tested:
        pairs = list(zip(spoilt.values(), honest.values(), strict=False))
    else:
        pairs = [(value, honest[step]) for step, value in spoilt.items() if step in honest]
    return [float(np.log(x / y)) for x, y in pairs if x > 0 and y > 0]


def _longest(curves: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    """The longest curves: a layer that begins to move late has none before, and would count for other steps."""
    most = max(len(curve) for curve in curves)
    return [curve for curve in curves if len(curve) == most]


def _means(curves: Sequence[np.ndarray], about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Shift and stray over seeds; curves: e(s), one a seed."""
    strays = any(len(curve) > 1 for curve in curves)
    for measure in (SHIFT, STRAY) if strays else (SHIFT,) if curves else ():
        mean = mean_over_seeds([float(curve.mean() if measure == SHIFT else curve.std()) for curve in curves])
        ends = {"low": mean.low, "high": mean.high} if mean.n > 1 else {}
        yield row(measure, mean.value, n=mean.n, over="seeds", **ends, **about)


# --- a training's plan and defects in one text, as a report shows them -----------------------------------------------

MARK = f"+{LEGACY}"


def variant_of(plan: object, defects: frozenset[str]) -> str:
    """The plan and its defects in one text."""
    return f"{plan}+{legacy_condition(defects)}" if defects else str(plan)


def plan_and_defects(variant: str) -> tuple[str, str]:
    """What `variant_of` made, taken apart: the plan, and the defects as they are written."""
    plan, _, defects = variant.partition(MARK)
    return plan, defects
