"""isogloss maps the languages inside a transformer: at which layer they meet, and how training moves them.

    import isogloss as ig

    stack = ig.load("mini")
    en, nl = ig.read_bitext("en.txt", "nl.txt", languages=("en", "nl"))
    x, y = ig.vectors(stack, en), ig.vectors(stack, nl)  # (layers + 1, sentences, width)
    ig.cka(x[8], y[8])

Layer 0 is the embedding output, layer k the output of block k, everywhere. Names are loaded when they are first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isogloss.errors import InputError
    from isogloss.integrations.export import export
    from isogloss.mappings import Mapping, load_mapping, procrustes, save
    from isogloss.measures import cka, retrieval
    from isogloss.papers.reproduction import reproduce
    from isogloss.progress import bar
    from isogloss.recipes.align import align
    from isogloss.recipes.drift import drift
    from isogloss.recipes.lexicon import lexicon
    from isogloss.recipes.map import map
    from isogloss.recipes.pretrain import pretrain
    from isogloss.recipes.rotate import rotate
    from isogloss.recipes.stitch import stitch
    from isogloss.recipes.sweep import sweep
    from isogloss.recipes.transfer import transfer
    from isogloss.runs import read_rows
    from isogloss.stack import Stack, chain, freeze, load, reinitialise
    from isogloss.text import Bitext, Corpus, Lexicon, embedded, read_bitext, read_corpus, read_lexicon
    from isogloss.vectors import stream, vectors

_HOMES = {
    "errors": ("InputError",),
    "integrations.export": ("export",),
    "mappings": ("Mapping", "load_mapping", "procrustes", "save"),
    "measures": ("cka", "retrieval"),
    "papers.reproduction": ("reproduce",),
    "progress": ("bar",),
    "recipes.align": ("align",),
    "recipes.drift": ("drift",),
    "recipes.lexicon": ("lexicon",),
    "recipes.map": ("map",),
    "recipes.pretrain": ("pretrain",),
    "recipes.rotate": ("rotate",),
    "recipes.stitch": ("stitch",),
    "recipes.sweep": ("sweep",),
    "recipes.transfer": ("transfer",),
    "runs": ("read_rows",),
    "stack": ("Stack", "chain", "freeze", "load", "reinitialise"),
    "text": ("Bitext", "Corpus", "Lexicon", "embedded", "read_bitext", "read_corpus", "read_lexicon"),
    "vectors": ("stream", "vectors"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Bitext",
    "Corpus",
    "InputError",
    "Lexicon",
    "Mapping",
    "Stack",
    "align",
    "bar",
    "chain",
    "cka",
    "drift",
    "embedded",
    "export",
    "freeze",
    "lexicon",
    "load",
    "load_mapping",
    "map",
    "pretrain",
    "procrustes",
    "read_bitext",
    "read_corpus",
    "read_lexicon",
    "read_rows",
    "reinitialise",
    "reproduce",
    "retrieval",
    "rotate",
    "save",
    "stitch",
    "stream",
    "sweep",
    "transfer",
    "vectors",
]


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
    found = getattr(import_module(f"isogloss.{_HOME[name]}"), name)
    globals()[name] = found
    return found


class _Package(ModuleType):
    """The package, in which `vectors` is the function, although a room of the house has the same name."""

    @property
    def vectors(self) -> Any:
        """`isogloss.vectors.extract.vectors`."""
        return import_module("isogloss.vectors.extract").vectors

    @vectors.setter
    def vectors(self, room: ModuleType) -> None:
        """The import system would put the room here."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    """The public names."""
    return [*__all__, "__version__"]
