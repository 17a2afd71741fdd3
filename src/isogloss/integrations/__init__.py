"""Integrations with other libraries: callbacks for a `transformers` Trainer, and models written by `export`.

    from isogloss.integrations import BalanceStopCallback, DriftCallback, PerplexityCallback, UnfreezeCallback

The callbacks, and with them transformers' Trainer, are imported on first use, not by `import isogloss`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isogloss.integrations.callbacks import BalanceStopCallback, DriftCallback, PerplexityCallback, UnfreezeCallback

__all__ = ["BalanceStopCallback", "DriftCallback", "PerplexityCallback", "UnfreezeCallback"]


def __getattr__(name: str) -> Any:
    """Import the callbacks when one of them is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.callbacks"), name)
