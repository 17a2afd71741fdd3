"""Checks that recipes share: an argument that cannot be used is named the way the command line spells it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import torch

from isogloss.errors import InputError
from isogloss.stack.load import choose_dtype
from isogloss.training.plans import Plan, parse_plan

Number = TypeVar("Number", int, float)
KEPT = "step.json"  # in the folder of a model that was kept while it was tuned: where it comes from


def plan_list(text: str) -> list[Plan]:
    """The plans of --plans, separated by commas, none of them twice."""
    found = [parse_plan(one.strip()) for one in text.split(",")]
    twice = [str(one) for number, one in enumerate(found) if one in found[:number]]
    if twice:
        raise InputError(f"--plans has {twice[0]} twice; --seeds runs a plan several times")
    return found


def one_of(name: str, value: str, choices: Sequence[str]) -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise InputError(f"--{_dashed(name)} takes {' or '.join(choices)}, not {value!r}")
    return value


def at_least(name: str, value: Number, least: float) -> Number:
    """The value, if it is finite and not below `least`."""
    if not value >= least:
        raise InputError(f"--{_dashed(name)} must be at least {least}, not {value}")
    if value == math.inf:
        raise InputError(f"--{_dashed(name)} must be a finite number, not {value}")
    return value


def share_of(name: str, value: float, *, zero: bool = True) -> float:
    """The value, if it is a share of a whole: from 0, or with `zero=False` above it, to below 1."""
    if not 0 <= value < 1 or (value == 0 and not zero):
        raise InputError(f"--{_dashed(name)} must be {'from' if zero else 'above'} 0 to below 1, not {value}")
    return value


def half_precision(dtype: str | None, device: torch.device) -> bool:
    """Whether training computes in bfloat16: as asked, by default on a GPU."""
    chosen = choose_dtype(dtype, device)
    if chosen == torch.float16:
        raise InputError("--dtype float16 does not train stably; use bfloat16 or float32")
    return chosen == torch.bfloat16


def model_name(given: str | Path) -> str:
    """What tables call a model: its folder's name, for `RUN/model` and `RUN/model/nl` that of the run, or the hub id.

    One that was kept while it was tuned, `RUN/models/last-6-seed-0/step-500`, is `RUN/last-6-seed-0/step-500`, and the
    best of a plan, `RUN/checkpoints/last-6-seed-0/best`, is `RUN/last-6-seed-0/best`.

    >>> model_name("bert-base-cased")
    'bert-base-cased'
    """
    path = Path(given)
    if not path.is_dir():
        return str(given)
    parts = path.resolve().parts
    if "model" in parts[-2:]:
        place = len(parts) - 1 - parts[::-1].index("model")
        return "/".join((parts[place - 1], *parts[place + 1 :]))
    best = parts[-3:-2] == ("checkpoints",) and parts[-1] == "best"
    if (best or (path / KEPT).is_file()) and len(parts) > 4:
        return "/".join((parts[-4], *parts[-2:]))
    return parts[-1]


def _dashed(name: str) -> str:
    return name.replace("_", "-")
