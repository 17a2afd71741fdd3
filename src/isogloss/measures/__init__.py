"""Measures: pure functions of tensors to numbers. Each declares its facts once (`MEASURES`, `describe`).

Every module of this folder is loaded with it, so that all measures are declared.
"""

from importlib import import_module
from pkgutil import iter_modules

from isogloss.measures.registry import MEASURES as MEASURES, describe as describe, measure as measure

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
