"""Made-up run folders, shared by the tests of the report."""

from pathlib import Path

import pytest
from report_runs import write_run


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> Path:
    """A run of five languages in four scripts, twelve blocks."""
    return write_run(tmp_path_factory.mktemp("runs") / "plain")


@pytest.fixture(scope="session")
def hostile_run(tmp_path_factory) -> Path:
    """A run whose words, model name and notes try to be markup."""
    return write_run(tmp_path_factory.mktemp("runs") / "hostile", hostile=True)
