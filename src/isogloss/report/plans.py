"""Rows of trainings that differ by their plan and seed: what shares a panel, what is a line of its own.

A variant such as `last:6 centred` is a plan and how its readings were taken. Readings of one kind share a panel, in
which each plan is a line. Distances to different models, or on different texts, have panels of their own.
"""

import pandas as pd

KINDS = ("attention", "centred", "cosine", "csls", "debiased", "oracle")
OTHERS = "others"  # the target of a reading over all languages' text but the tuned one's
HELD = "validation"
TEST = "test"


def plan_and_kind(variant: str) -> tuple[str, str]:
    """The plan a row is of, and how its reading was taken; either may be empty.

    >>> plan_and_kind("last:6 centred"), plan_and_kind("centred"), plan_and_kind("last:6")
    (('last:6', 'centred'), ('', 'centred'), ('last:6', ''))
    """
    plan, _, kind = variant.rpartition(" ")
    return (plan, kind) if kind in KINDS else (variant, "")


def without_plan(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a single plan, with how readings were taken as their only variant; those of several are as before."""
    parts = {one: plan_and_kind(one) for one in rows["variant"].unique()}
    if len({plan for plan, _ in parts.values()}) != 1:
        return rows
    return rows.assign(variant=rows["variant"].map({one: kind for one, (_, kind) in parts.items()}))


def with_places(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with two more columns: `plan`, and `place`, which tells panels of one measure apart."""
    variants = {one: plan_and_kind(one) for one in rows["variant"].unique()}
    plan, kind = (rows["variant"].map({one: both[at] for one, both in variants.items()}) for at in (0, 1))
    compared = rows.loc[rows["other_model"] != "", ["other_model", "data"]].drop_duplicates()
    texts = compared["other_model"].value_counts()
    to = {
        (other, data): f"to {other}" + (f" on {data}" if texts[other] > 1 and data != HELD else "")
        for other, data in compared.itertuples(index=False)
    }
    pairs = zip(rows["other_model"], rows["data"], kind, strict=True)
    return rows.assign(plan=plan, place=[", ".join(filter(None, (how, to.get((a, b))))) for a, b, how in pairs])


def complete(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `with_places` without trainings that were cut off, where their plan has others that were not.

    A training ends with a test of its best model. A mean over seeds of which one was cut off would jump where it ends.
    """
    tested = rows[(rows["measure"] == "perplexity") & (rows["data"] == TEST) & rows["step"].notna()]
    done = set(zip(tested["plan"], tested["seed"], strict=True))
    whole = {plan for plan, _ in done}
    kept = [
        plan not in whole or seed is pd.NA or (plan, seed) in done
        for plan, seed in zip(rows["plan"], rows["seed"], strict=True)
    ]
    return rows[pd.Series(kept, index=rows.index, dtype=bool)]


def is_drift(rows: pd.DataFrame) -> bool:
    """Whether the rows are of a model tuned on one language: its perplexity was read on validation text."""
    read = (rows["measure"] == "perplexity") & (rows["data"] == HELD) & rows["step"].notna()
    return bool(read.any())
