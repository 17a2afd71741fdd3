"""Rates against their formulas, and which weights decay."""

import math
from typing import get_args

import pytest
import torch
from torch import nn

from isogloss.training.loop import Decay, Optimisation, adamw, rate_at

STEPS, WARM, RATE = 100, 10, 0.3


def rates(decay, steps=STEPS, warm_up=WARM):
    way = Optimisation(rate=RATE, warm_up=warm_up, decay=decay)
    return [rate_at(step, steps=steps, optimisation=way) for step in range(steps)]


def by_formula(decay, step):
    """The rate of update `step`, 0 the first, after warming up."""
    done = (step - WARM) / (STEPS - WARM)
    if decay == "linear":
        return RATE * (1 - done)
    if decay == "cosine":
        return RATE * (1 + math.cos(math.pi * done)) / 2
    if decay == "inverse-sqrt":
        return RATE * math.sqrt(WARM) / math.sqrt(step + 1)
    if decay == "trapezoid":
        return RATE if step <= 80 else RATE * (STEPS - step) / 20
    return RATE


@pytest.mark.parametrize("decay", get_args(Decay))
def test_rates_are_those_of_the_formula(decay):
    found = rates(decay)
    for step in range(WARM):
        assert found[step] == pytest.approx(RATE * (step + 1) / WARM)
    for step in range(WARM, STEPS):
        assert found[step] == pytest.approx(by_formula(decay, step))
    assert max(found) == pytest.approx(RATE)
    assert all(later <= earlier + 1e-12 for earlier, later in zip(found[WARM:], found[WARM + 1 :], strict=False))
    if decay in ("linear", "cosine", "trapezoid"):
        assert 0 < found[-1] < RATE / 15, "the last update still moves, a little"


@pytest.mark.parametrize("decay", get_args(Decay))
@pytest.mark.parametrize(("steps", "warm_up"), [(1, 0), (1, 1), (3, 3), (4, 0), (7, 6)])
def test_short_trainings_have_rates_too(decay, steps, warm_up):
    found = rates(decay, steps, warm_up)
    assert all(0 < rate <= RATE + 1e-12 for rate in found)
    if warm_up:
        assert found[:warm_up] == pytest.approx([RATE * (step + 1) / warm_up for step in range(warm_up)])


def test_matrices_decay_and_vectors_do_not():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    model[1].requires_grad_(False)
    optimiser = adamw(model, Optimisation(rate=0.5, weight_decay=0.1))
    held = [weight for group in optimiser.param_groups for weight in group["params"]]
    assert sorted(map(id, held)) == sorted(map(id, model.parameters())), "every weight once, frozen ones too"
    before = [weight.detach().clone() for weight in model.parameters()]
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
    optimiser.step()
    for weight, old in zip(model.parameters(), before, strict=True):
        kept = 1 - 0.5 * 0.1 if weight.dim() > 1 and weight.requires_grad else 1.0
        torch.testing.assert_close(weight.detach(), old * kept)
