"""What every test may use: small models of each family, and a CPU to run them on."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores: more threads would only wait for each other

import pytest
import torch

from tiny_models import saved

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    """Results are compared to the bit, so tests run on the CPU even beside a GPU; GPU tests name their device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """`tiny("bert")` is the folder of a small random BERT."""
    root = str(tmp_path_factory.mktemp("models"))
    return lambda family: saved(root, family)
