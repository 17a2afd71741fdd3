"""The examples in the docstrings of every module give what they say."""

import doctest
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1] / "src"
EXAMPLE = re.compile(r"^ *>>> (?!(?:.*\n *[.]{3} )*.*doctest: [+]SKIP)", re.MULTILINE)
FILES = [path for path in sorted(ROOT.rglob("*.py")) if EXAMPLE.search(path.read_text(encoding="utf-8"))]
NAMES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES]


@pytest.mark.parametrize("name", NAMES)
def test_docstring_examples(name):
    import_module(name)  # `isogloss.vectors` and some others are functions, too: modules are found by their full names
    result = doctest.testmod(sys.modules[name], extraglobs={"torch": torch})
    assert result.attempted > 0
    assert result.failed == 0
