"""What the code behind Hussain & Dudev (2020) does otherwise than the paper says, each as a switch.

Every one of them changes a curve or a choice, and none is ever on by itself: they are here so that the effect of each
can be shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from isogloss.errors import InputError
from isogloss.training.probes import Reading
from isogloss.training.stopping import Choice

DEFECTS = {
    "no-mask": "no attention mask is given, so that padding is read as text",
    "two-batches": "perplexity is read on the first 32 sentences of each text",
    "redrawn": "the masks of the validation texts are drawn anew at each reading",
    "worst": "the model with the worst reading is kept as the best",
    "by-position": "distances compare position with position, special tokens and padding among them",
    "no-dropout": "there is no dropout while the model trains",
}


EACH, LEGACY = "each", "legacy:"


def parse_legacy(text: str | None) -> list[frozenset[str]]:
    """The sets of defects that every plan is run with: those named, or all; `each` is none, every one alone, and all.

    >>> parse_legacy(None), parse_legacy("worst, worst")
    ([frozenset()], [frozenset({'worst'})])
    >>> [len(one) for one in parse_legacy("each")]
    [0, 1, 1, 1, 1, 1, 1, 6]
    """
    named = [one.strip() for one in text.split(",")] if text else []
    if named == [EACH]:
        return [frozenset(), *(frozenset({one}) for one in DEFECTS), frozenset(DEFECTS)]
    unknown = [one for one in named if one not in (*DEFECTS, "all")]
    if unknown:
        raise InputError(f"--legacy {unknown[0]!r} is not known; choose {', '.join(DEFECTS)}, all, or each by itself")
    return [frozenset(DEFECTS) if "all" in named else frozenset(named)]


def legacy_notes(sets: Sequence[frozenset[str]]) -> list[str]:
    """A sentence on every defect that is on, for the reader of a run."""
    return [f"as the original did: {DEFECTS[one]}" for one in DEFECTS if any(one in some for some in sets)]


def legacy_condition(defects: frozenset[str]) -> str:
    """What rows say of a training in `condition`: the defects that are on.

    >>> legacy_condition(frozenset({"worst", "no-mask"})), legacy_condition(frozenset())
    ('legacy:no-mask,worst', '')
    """
    named = [name for name in DEFECTS if name in defects]
    what = "all" if len(named) == len(DEFECTS) else ",".join(named)
    return f"{LEGACY}{what}" if named else ""


@dataclass(frozen=True)
class Worst:
    """A choice turned round: the worst reading is called the best, as the original code did."""

    of: Choice

    @property
    def title(self) -> str:
        """The reading in words."""
        return f"the worst of {self.of.title}"

    def value(self, readings: Sequence[Reading]) -> float | None:
        """The reading it is about."""
        return self.of.value(readings)

    def better(self, new: float, old: float | None, *, least: float = 0.0) -> bool:
        """Whether a value is worse than the worst so far."""
        return self.of.better(new, None) if old is None else self.of.better(old, new, least=least)


def without_dropout(model: torch.nn.Module) -> None:
    """Set every dropout of a model to 0: modules of it, and the numbers that fused attention is given."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)


MARK = "+legacy:"


def variant_of(plan: object, defects: frozenset[str]) -> str:
    """The plan and its defects in one text."""
    return f"{plan}+{legacy_condition(defects)}" if defects else str(plan)


def plan_and_defects(variant: str) -> tuple[str, str]:
    """What `variant_of` made, taken apart: the plan, and the defects as they are written."""
    plan, _, defects = variant.partition(MARK)
    return plan, defects
