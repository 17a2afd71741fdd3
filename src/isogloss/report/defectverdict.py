"""What each defect of the original code does to the curves of a drift run, in a sentence each."""

from math import exp, isnan
from typing import Any

import pandas as pd

from isogloss.recipes.legacy import DEFECTS, SHIFT, STRAY, plan_and_defects
from isogloss.report.languages import language_name
from isogloss.report.phrases import listed
from isogloss.report.plans import HELD, OTHERS, TEST

LEAST = 0.005  # a change that is worth a word


def defect_sentences(rows: pd.DataFrame) -> list[str]:
    """A sentence for every variant with defects that was compared with its plan without them.

    A shift counts where its interval over seeds leaves 0 out; of one seed, from half a per cent on.
    """
    found = rows[rows["measure"].isin([SHIFT, STRAY])]
    plans = {plan_and_defects(variant)[0] for variant in found["variant"]}
    sentences = []
    for variant, own in found.groupby("variant", sort=False):
        plan, defects = plan_and_defects(str(variant))
        about = "all defects of the original together" if defects == "all" else f"{defects} ({_words(defects)})"
        by = f" by {plan}" if len(plans) > 1 else ""
        parts = _parts(own)
        sentences.append(f"With {about}{by}, {listed(parts) if parts else 'nothing clearly changes'}.")
    return sentences


def _words(defects: str) -> str:
    return "; ".join(DEFECTS[one] for one in defects.split(",") if one in DEFECTS)


def _parts(rows: pd.DataFrame) -> list[str]:
    read = rows[rows["task"] == "perplexity"]
    here, there = read[read["data"] == HELD], read[read["target"] == OTHERS]
    parts = [*_curve(here, "the perplexity of "), *_curve(there, "the perplexity of the other languages")]
    parts += [f"the model that is kept tests {said}" for said in _shifts(read[read["data"] == TEST])]
    moved = rows[(rows["task"] == "l2_drift") & (rows["data"] == HELD)]
    for other, group in moved.groupby("other_model", sort=False):
        to = "the start" if other == "start" else str(other)
        parts += [f"the L2 distance to {to} is {said}" for said in _shifts(group)]
    return parts


def _curve(rows: pd.DataFrame, subject: str) -> list[str]:
    """How a curve is shifted, and how it strays."""
    if rows.empty:
        return []
    whose = subject + (language_name(str(rows["target"].iloc[0])) if subject.endswith("of ") else "")
    shifts = _shifts(rows)
    said = [f"is {shifts[0]}"] if shifts else []
    said += [f"strays by {_share(one['value'])}" for one in _records(rows, STRAY) if one["value"] >= LEAST]
    return [f"{whose} {' and '.join(said)}"] if said else []


def _shifts(rows: pd.DataFrame) -> list[str]:
    found = []
    for one in _records(rows, SHIFT):
        alone = isnan(one["low"])
        if not (abs(one["value"]) >= LEAST if alone else one["low"] > 0 or one["high"] < 0):
            continue
        way = "higher" if one["value"] > 0 else "lower"
        ends = sorted((abs(exp(one["low"]) - 1), abs(exp(one["high"]) - 1))) if not alone else []
        between = f" [{_percent(ends[0])}, {_percent(ends[1])}]" if ends else ""
        found.append(f"{_percent(abs(exp(one['value']) - 1))}%{between} {way}")
    return found


def _records(rows: pd.DataFrame, measure: str) -> list[dict[str, Any]]:
    return [
        {str(name): value for name, value in one.items()} for one in rows[rows["measure"] == measure].to_dict("records")
    ]


def _share(value: float) -> str:
    return f"{_percent(exp(value) - 1)}%"


def _percent(share: float) -> str:
    return f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:,.0f}"
