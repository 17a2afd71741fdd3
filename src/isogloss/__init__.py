"""isogloss maps the languages inside a transformer: at which layer they meet, and how training moves them.

    import isogloss as ig

    stack = ig.load("mini")
    en, nl = ig.read_bitext("en.txt", "nl.txt", languages=("en", "nl"))
    x, y = ig.vectors(stack, en), ig.vectors(stack, nl)  # (layers + 1, sentences, width)
    ig.cka(x[8], y[8])

Layer 0 is the embedding output, layer k the output of block k, everywhere. Names are loaded when they are first used.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from isogloss.recipes import RECIPES

# The stub declares every public name once, for editors, type checkers and the lazy loading below.
_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_bytes())
_HOME = {name.name: node.module for node in _STUB.body if isinstance(node, ast.ImportFrom) for name in node.names}
_HOME |= {name: f"isogloss.recipes.{name}" for name in RECIPES}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("isogloss")
        except PackageNotFoundError:
            return "(not installed)"
    if name not in _HOME:
        raise AttributeError(f"module 'isogloss' has no attribute {name!r}")
    globals()[name] = public = getattr(import_module(_HOME[name]), name)
    return public


class _Package(ModuleType):
    """The package, in which `vectors` is the function, although a subpackage has the same name."""

    @property
    def vectors(self) -> Any:
        """`isogloss.vectors.extract.vectors`."""
        return import_module("isogloss.vectors.extract").vectors

    @vectors.setter
    def vectors(self, package: ModuleType) -> None:
        """Ignore the subpackage, which the import system would set here."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
