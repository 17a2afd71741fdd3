"""The examples in the docstrings give what they say."""

import doctest
import sys
from pkgutil import iter_modules

import pytest
import torch

import isogloss.measures

NAMES = [module.name for module in iter_modules(isogloss.measures.__path__) if module.name != "inputs"]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_examples(name):
    # `isogloss.measures.retrieval` is also a function of the package, so the module is looked up by its full name.
    module = sys.modules[f"isogloss.measures.{name}"]
    result = doctest.testmod(module, extraglobs={"torch": torch})
    assert result.attempted > 0
    assert result.failed == 0
