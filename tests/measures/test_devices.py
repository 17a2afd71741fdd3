"""The numbers do not depend on where the vectors live."""

import pytest
import torch

from isogloss.measures.cka import CkaStream, cka_floor, cka_forms
from isogloss.measures.registry import MEASURES
from isogloss.measures.retrieval import METHODS, mutual, nearest, retrieve

pytestmark = pytest.mark.gpu


def spaces(n=300, d=32):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    return x, x + torch.randn(n, d, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", [name for name, entry in MEASURES.items() if entry.takes == "pair"])
def test_measures_agree_with_the_cpu(name):
    x, y = spaces()
    expected = MEASURES[name].function(x, y)
    assert MEASURES[name].function(x.cuda(), y.cuda()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_retrieval_agrees_with_the_cpu(method):
    x, y = spaces()
    for here, there in zip(retrieve(x, y, method=method), retrieve(x.cuda(), y.cuda(), method=method), strict=True):
        assert torch.equal(here.ranks, there.ranks)
    rows = torch.tensor([5, 2])
    assert torch.equal(
        nearest(x, y, method=method, rows=rows)[1],
        nearest(x.cuda(), y.cuda(), method=method, rows=rows)[1].cpu(),
    )
    assert torch.equal(mutual(x, y, method=method)[0], mutual(x.cuda(), y.cuda(), method=method)[0].cpu())


def test_streams_agree_with_the_cpu():
    x, y = spaces()
    estimates = []
    for device in ("cpu", "cuda"):
        stream = CkaStream([("x", "y")], block=32)
        stream.update({"x": x.to(device), "y": y.to(device)})
        estimates.append(stream.estimate("x", "y"))
    here, there = estimates
    for field in ("value", "low", "high", "floor"):
        assert getattr(there, field) == pytest.approx(getattr(here, field), rel=1e-9, abs=1e-12)
    assert cka_floor(x, y) == pytest.approx(cka_floor(x.cuda(), y.cuda()))


def test_forms_of_cka_agree_with_the_cpu():
    x, y = spaces()
    here, there = (cka_forms(x.to(device), y.to(device)) for device in ("cpu", "cuda"))
    for name, one in here.items():
        for field in ("value", "low", "high", "floor"):
            assert getattr(there[name], field) == pytest.approx(getattr(one, field), rel=1e-9, abs=1e-12)
