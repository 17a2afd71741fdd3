"""What the released code of Hussain & Dudev (2020) does otherwise than their paper says, and what that changes.

Each difference is a switch of `isogloss drift --legacy`, and none is ever on by itself: they are here so that the
effect of each can be shown. What a defect changes is where `isogloss.recipes.drift` asks for its name.

With x(s) a reading at step s with a defect, and y(s) the same reading of the same seed without it, the defect shifts a
curve by the mean over the readings s of

    e(s) = log x(s) / y(s)

and makes it stray by the standard deviation of e(s) around that mean. Both are means over seeds with a t interval; a
shift of 0.1 is a curve that lies 10.5% too high. Step 0 counts: what is wrong there was never learned.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from isogloss.errors import InputError
from isogloss.measures.statistics import mean_over_seeds
from isogloss.runs.table import Row, frame, row

DEFECTS = {
    "no-mask": "no attention mask is given, so that padding is read as text",
    "two-batches": "perplexity is read on the first 32 sentences of each text",
    "redrawn": "the masks of the validation texts are drawn anew at each reading",
    "worst": "the model with the worst reading is kept as the best",
    "by-position": "distances compare position with position, special tokens and padding among them",
    "no-dropout": "there is no dropout while the model trains",
}
EACH, LEGACY = "each", "legacy:"
Defects = frozenset[str]
"""The names of the defects that a training is run with."""


def parse_legacy(text: str | None) -> list[Defects]:
    """The sets of defects that every plan is run with: those named, or all; `each` is none, every one alone, and all.

    >>> parse_legacy(None), parse_legacy("worst, worst")
    ([frozenset()], [frozenset({'worst'})])
    >>> [len(defects) for defects in parse_legacy("each")]
    [0, 1, 1, 1, 1, 1, 1, 6]
    """
    names = [name.strip() for name in text.split(",")] if text else []
    if names == [EACH]:
        return [frozenset(), *(frozenset({name}) for name in DEFECTS), frozenset(DEFECTS)]
    if unknown := [name for name in names if name not in (*DEFECTS, "all")]:
        raise InputError(f"--legacy {unknown[0]!r} is not known; choose {', '.join(DEFECTS)}, all, or each by itself")
    return [frozenset(DEFECTS) if "all" in names else frozenset(names)]


def legacy_notes(sets: Sequence[Defects]) -> list[str]:
    """A sentence on every defect that is on, for the reader of a run."""
    return [f"as the original did: {DEFECTS[name]}" for name in DEFECTS if any(name in defects for defects in sets)]


def legacy_condition(defects: Defects) -> str:
    """What rows say of a training in `condition`: the defects that are on.

    >>> legacy_condition(frozenset({"worst", "no-mask"})), legacy_condition(frozenset())
    ('legacy:no-mask,worst', '')
    """
    names = [name for name in DEFECTS if name in defects]
    text = "all" if len(names) == len(DEFECTS) else ",".join(names)
    return f"{LEGACY}{text}" if names else ""


# --- the effect of each defect ---------------------------------------------------------------------------------------

SHIFT, STRAY = "legacy_shift", "legacy_stray"
COMPARED = ("perplexity", "l2_drift")


def effect_rows(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """`legacy_shift` and `legacy_stray` of every training with defects whose plan was run without them, too.

    Of perplexity per token: the target's (validation and test), each other language and the others pooled. Of L2
    distances: to each model, on each text, the mean over the layers that moved. `task` names the measure compared.
    """
    table = frame(rows)
    counts = table["measure"].isin(COMPARED) & ((table["measure"] != "perplexity") | (table["unit"] == "token"))
    table = table[counts & table["step"].notna()]
    # A test is one reading, of whichever step was kept.
    table = table.assign(step=table["step"].where(table["data"] != "test", 0))
    honest, spoilt = table[table["condition"] == ""], table[table["condition"] != ""]
    text = ["target", "data", "other_model"]
    pairs = spoilt.merge(honest, on=["plan", "measure", *text, "layer", "seed", "step"], suffixes=("", "_honest"))
    pairs = pairs[(pairs["value"] > 0) & (pairs["value_honest"] > 0)]
    pairs = pairs.assign(effect=np.log(pairs["value"] / pairs["value_honest"]))  # e(s)
    for (plan, condition), own in pairs.groupby(["plan", "condition"], sort=False):
        base = {"model": own["model"].iloc[0], "plan": plan, "condition": condition}
        effects = []
        for measure in COMPARED:
            for coordinates, readings in own[own["measure"] == measure].groupby(text, sort=False):
                about = {name: value for name, value in zip(text, coordinates, strict=True) if value}
                curves = []
                for _, group in readings.groupby("seed", sort=False):
                    layers = [each.to_numpy() for _, each in group.groupby("layer", sort=False, dropna=False)["effect"]]
                    # A layer that begins to move late has no readings before, and would count for other steps.
                    most = max(map(len, layers))
                    curves.append(np.mean([layer for layer in layers if len(layer) == most], axis=0))
                for kind in (SHIFT, STRAY) if any(len(curve) > 1 for curve in curves) else (SHIFT,):
                    mean = mean_over_seeds([float(curve.mean() if kind == SHIFT else curve.std()) for curve in curves])
                    effects.append(row(kind, mean, over="seeds", task=measure, **about, **base))
        yield effects
