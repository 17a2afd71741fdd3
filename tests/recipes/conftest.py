"""Models that tests of several recipes stand on."""

import pytest

from tiny_stitching import turned_model


@pytest.fixture(scope="session")
def planted(tiny, tmp_path_factory):
    """A model, the same turned, and the rotation."""
    folder = tmp_path_factory.mktemp("planted")
    return tiny("bert"), *turned_model(tiny("bert"), folder / "turned")
