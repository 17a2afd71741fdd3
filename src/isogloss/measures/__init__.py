"""Measures: pure functions from tensors to numbers. Each declares its properties once (`MEASURES`, `describe`).

Importing this package imports every module of the folder, so that all measures are registered.
"""

from importlib import import_module
from pkgutil import iter_modules

from isogloss.measures.registry import MEASURES as MEASURES, describe as describe, measure as measure

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
