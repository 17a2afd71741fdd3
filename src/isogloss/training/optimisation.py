"""How weights are moved: AdamW, and the learning rate as a function of the step."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

Decay = Literal["linear", "cosine", "inverse-sqrt", "constant", "trapezoid"]
DECAYS: tuple[Decay, ...] = get_args(Decay)


@dataclass(frozen=True)
class Optimisation:
    """AdamW's values and the schedule: the rate climbs from 0 over `warm_up` steps to `rate`, then decays.

    decay: linear or cosine to 0 at the last step; inverse-sqrt, rate * sqrt(warm_up / step); constant; trapezoid,
    constant and then linear to 0 over the last fifth. clip: the largest norm of all gradients together, 0 for none.
    """

    rate: float = 1e-4
    warm_up: int = 0
    decay: Decay = "linear"
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-6
    clip: float = 1.0


def rate_at(step: int, *, steps: int, optimisation: Optimisation) -> float:
    """The learning rate of update `step` (0 is the first) out of `steps`.

    >>> [rate_at(s, steps=6, optimisation=Optimisation(rate=1.0, warm_up=2)) for s in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < optimisation.warm_up:
        return optimisation.rate * (step + 1) / optimisation.warm_up
    left = (steps - step) / max(1, steps - optimisation.warm_up)
    shapes: dict[Decay, Callable[[], float]] = {
        "linear": lambda: left,
        "cosine": lambda: 0.5 * (1 + math.cos(math.pi * (1 - left))),
        "inverse-sqrt": lambda: math.sqrt(max(1, optimisation.warm_up) / (step + 1)),
        "constant": lambda: 1.0,
        "trapezoid": lambda: min(1.0, (steps - step) / max(1, steps // 5)),
    }
    return optimisation.rate * shapes[optimisation.decay]()


def adamw(model: nn.Module, optimisation: Optimisation) -> torch.optim.AdamW:
    """AdamW over every weight of the model, frozen ones too: a weight without a gradient is left alone.

    So a layer that is unfrozen later trains from then on, without decay or stale momentum from before. Matrices
    decay, biases and norms do not.
    """
    weights = list(model.parameters())
    groups = [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": optimisation.weight_decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
    fused = any(weight.is_cuda for weight in weights)
    return torch.optim.AdamW(
        groups, lr=optimisation.rate, betas=optimisation.betas, eps=optimisation.epsilon, fused=fused or None
    )
