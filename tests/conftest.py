"""What every test may use: small models of each family, and a CPU to run them on."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers on two cores: more threads would only wait for each other

import pytest
import torch

from tiny_models import saved

torch.set_num_threads(1)


HAS_GPU = torch.cuda.is_available()


@pytest.fixture(autouse=True)
def on_the_cpu(request, monkeypatch):
    """Results are compared to the bit, so tests run on the CPU even beside a GPU; those marked `gpu` have it."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    elif not HAS_GPU:
        pytest.skip("needs a CUDA GPU")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """`tiny("bert")` is the folder of a small random BERT."""
    root = str(tmp_path_factory.mktemp("models"))
    return lambda family: saved(root, family)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Workers begin with whole files and take tests over from each other: `load` would share every file out, so that
    each worker makes the fixtures of each file.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)
