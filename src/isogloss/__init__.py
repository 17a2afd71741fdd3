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

from isogloss.recipes import RECIPES

if TYPE_CHECKING:
    from isogloss.errors import InputError as InputError
    from isogloss.integrations.export import export as export
    from isogloss.mappings import (
        Mapping as Mapping,
        load_mapping as load_mapping,
        procrustes as procrustes,
        save as save,
    )
    from isogloss.measures import cka as cka, retrieval as retrieval
    from isogloss.papers.paper import reproduce as reproduce
    from isogloss.progress import bar as bar
    from isogloss.recipes.align import align as align
    from isogloss.recipes.drift import drift as drift
    from isogloss.recipes.lexicon import lexicon as lexicon
    from isogloss.recipes.map import map as map
    from isogloss.recipes.pretrain import pretrain as pretrain
    from isogloss.recipes.rotate import rotate as rotate
    from isogloss.recipes.stitch import stitch as stitch
    from isogloss.recipes.sweep import sweep as sweep
    from isogloss.recipes.transfer import transfer as transfer
    from isogloss.runs import read_rows as read_rows
    from isogloss.stack import (
        Stack as Stack,
        chain as chain,
        freeze as freeze,
        load as load,
        reinitialise as reinitialise,
    )
    from isogloss.text import (
        Bitext as Bitext,
        Corpus as Corpus,
        Lexicon as Lexicon,
        embedded as embedded,
        read_bitext as read_bitext,
        read_corpus as read_corpus,
        read_lexicon as read_lexicon,
    )
    from isogloss.vectors import stream as stream, vectors as vectors

_HOMES = {
    "errors": ("InputError",),
    "integrations.export": ("export",),
    "mappings": ("Mapping", "load_mapping", "procrustes", "save"),
    "measures": ("cka", "retrieval"),
    "papers.paper": ("reproduce",),
    "progress": ("bar",),
    "runs": ("read_rows",),
    "stack": ("Stack", "chain", "freeze", "load", "reinitialise"),
    "text": ("Bitext", "Corpus", "Lexicon", "embedded", "read_bitext", "read_corpus", "read_lexicon"),
    "vectors": ("stream", "vectors"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_HOME |= {name: f"recipes.{name}" for name in (*RECIPES, "sweep")}

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
    globals()[name] = public = getattr(import_module(f"isogloss.{_HOME[name]}"), name)
    return public


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
