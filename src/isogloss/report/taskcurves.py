"""The verdict of a task that was learned from a model at several steps of its tuning: what became of the scores.

A point is the mean over the seeds of the tuning. Its interval is that over seeds or that over examples, whichever
reaches further: at step 0 all seeds share one model, and would have none.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from isogloss.report.languages import display_names
from isogloss.report.phrases import listed
from isogloss.report.plans import plan_and_kind
from isogloss.report.stepcurves import StepCurve, apart, average, step_curves
from isogloss.report.stepverdict import reading
from isogloss.report.transferverdict import OTHERS

MOST_PLANS = 8


def is_task_curve(frame: pd.DataFrame) -> bool:
    """Whether these rows are scores of a task over the steps of a tuning."""
    gaps = frame[frame["measure"].eq("gap") & frame["task"].ne("")]
    return bool(len(gaps)) and bool(gaps["step"].notna().all())


def task_curve_verdict(frame: pd.DataFrame) -> list[str]:
    """A sentence for each task and plan: what other languages score before and after, and in which it clearly changed.

    Nothing is called a change unless the intervals of the first and the last step part.
    """
    rows = frame[frame["step"].notna() & frame["task"].ne("")]
    gaps = rows[rows["measure"] == "gap"]
    sentences = []
    for task, source, measure, variant in gaps[["task", "source", "unit", "variant"]].drop_duplicates().to_numpy():
        if plan_and_kind(variant)[1]:
            continue
        chosen = rows["measure"].eq(measure) & rows["task"].eq(task) & rows["source"].eq(source)
        curves = _by_target(rows[chosen & rows["variant"].eq(variant)], measure)
        sentences.append(_sentence(f"{variant}: {task} {measure}", curves, source))
    more = len(sentences) - MOST_PLANS
    return sentences[:MOST_PLANS] + ([f"{more} more plans are in the rows."] if more > 0 else [])


def _by_target(rows: pd.DataFrame, measure: str) -> dict[str, StepCurve]:
    found: dict[str, list[StepCurve]] = {}
    for (target, _), some in rows.groupby(["target", "data"], sort=False):
        curve = step_curves(some, measure)[0][1]
        bounds = some.groupby("step")[["low", "high"]].mean().reindex(curve.steps)
        low, high = np.fmin(curve.low, bounds["low"]), np.fmax(curve.high, bounds["high"])
        found.setdefault(str(target), []).append(replace(curve, low=tuple(low.tolist()), high=tuple(high.tolist())))
    return {target: average(parts) for target, parts in found.items()}


def _sentence(subject: str, curves: dict[str, StepCurve], source: str) -> str:
    names = display_names([one for one in curves if one != OTHERS])
    shown = [(OTHERS, "the others")] if OTHERS in curves else []
    shown += [(source, names[source])] if source in curves else []
    parts = [f"{_went(curves[code])} in {name} {_span(curves[code])}" for code, name in shown]
    single = [
        f"{names[code]} ({reading(one, 0)} to {reading(one, -1)}, {_went(one)})"
        for code, one in curves.items()
        if code not in (OTHERS, source) and len(one.steps) > 1 and apart(one, 0, -1)
    ]
    others = [code for code in curves if code not in (OTHERS, source)]
    told = f" It clearly changed in {listed(single)}." if single else ""
    told = told or (" In no single language it clearly changed." if len(others) > 1 else "")
    seeds = max(one.seeds for one in curves.values())
    over = f", over {seeds} seeds of the tuning" if seeds > 1 else ""
    return f"{subject} {', and '.join(parts)}{over}.{told}"


def _went(curve: StepCurve) -> str:
    if len(curve.steps) == 1 or not apart(curve, 0, -1):
        return "did not clearly change" if len(curve.steps) > 1 else "was read once"
    return "fell" if curve.value[-1] < curve.value[0] else "rose"


def _span(curve: StepCurve) -> str:
    return f"(from {reading(curve, 0)} at step {curve.steps[0]:,} to {reading(curve, -1)} at step {curve.steps[-1]:,})"
