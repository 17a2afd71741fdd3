"""A model and an objective small enough to write out by hand, for tests of the training loop."""

import math
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Objective, Optimisation, Part, Processes, Settings, Training, train

ALONE = Processes(0, 1, torch.device("cpu"))
WIDTH = 4


class Tower(nn.Module):
    """Two linear layers with dropout between, and a part for each name that only its own rows reach."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.lower, self.drop, self.upper = nn.Linear(WIDTH, 6), nn.Dropout(dropout), nn.Linear(6, 1)
        self.own = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in ("a", "b")})
        draw = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for weight in self.parameters():
                weight.copy_(torch.randn(weight.shape, generator=draw) / 2)

    def forward(self, x, name=""):
        x = self.own[name](x) if name else x
        return self.upper(self.drop(torch.tanh(self.lower(x)))).squeeze(-1)


def data(step, rows):
    """Rows of a step; those whose target is not a number have no target."""
    draw = torch.Generator().manual_seed(100 + step)
    x, y = torch.randn(rows, WIDTH, generator=draw), torch.randn(rows, generator=draw)
    y[1::3] = torch.nan
    return {"x": x, "y": y}


def squares(model, names=("",), rows=7, spoil=None):
    """Squared errors of the rows that have a target; each name's rows are a part. spoil: a step that goes wrong."""

    def draw(step):
        whole = data(step, rows)
        if step == spoil:
            whole["x"] = whole["x"] * math.nan
        return [
            Part({key: value[number :: len(names)] for key, value in whole.items()}, name)
            for number, name in enumerate(names)
        ]

    def loss(rows, name):
        used = ~rows["y"].isnan()
        return ((model(rows["x"], name) - rows["y"])[used] ** 2).sum()

    return Objective(draw, loss, lambda rows: (~rows["y"].isnan()).sum())


def settings(**changes):
    way = {"rate": 0.05, "warm_up": 2 / max(2, changes.get("steps", 9)), "weight_decay": 0.1, "clip": 0.5}
    own = {key: changes.pop(key) for key in list(changes) if key in Optimisation.__dataclass_fields__}
    return Settings(**{"steps": 9, "seed": 3, "report": 4, **changes}, optimisation=Optimisation(**way | own))


def training(model=None, *, processes=ALONE, objective=None, **changes):
    model = model or Tower()
    return Training(model, objective or squares(model), settings(**changes), processes)


def run(one, **how):
    return [reading for readings in train(one, **how) for reading in readings]


def weights(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def same(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


def numbers(model):
    """All weights of a model, as text that differs where they do."""
    return str([value.tolist() for value in weights(model).values()])


def exported(one, folder, every=2, **more):
    """Checkpoints of a training whose own files are the step it is in and what `numbers` says."""

    def export(place):
        (place / "at").write_text(str(one.step))
        (place / "numbers").write_text(numbers(one.model))

    return Checkpoints(folder, export, every=every, **more)


@contextmanager
def interrupted(monkeypatch, *, after):
    """Within it, whatever trains is interrupted after so many updates, as by Ctrl-C."""
    updates, update = [], Training.update

    def failing(self):
        updates.append(1)
        if len(updates) > after:
            raise KeyboardInterrupt
        update(self)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Training, "update", failing)
        yield
