"""isogloss inside other people's tools: callbacks for a `transformers` Trainer of one's own.

    from isogloss.integrations import BalanceStopCallback, DriftCallback, PerplexityCallback, UnfreezeCallback

This room is imported by those who use it, never by `import isogloss`.
"""

from isogloss.integrations.callbacks import BalanceStopCallback, PerplexityCallback
from isogloss.integrations.layers import DriftCallback
from isogloss.integrations.unfreezing import UnfreezeCallback

__all__ = ["BalanceStopCallback", "DriftCallback", "PerplexityCallback", "UnfreezeCallback"]
