"""Whole updates as CUDA graphs: a small batch keeps a GPU waiting for launches, not for arithmetic.

One update of twelve blocks (forward pass, backward pass, clipping, AdamW) is some two thousand kernels, each started
from Python. Captured once and replayed, it is one launch. A graph reads its batch from the same memory at every replay
and knows tensors of one shape only, so batches come in few shapes (`isogloss.text.batches.layout_of`), and each shape
has a graph of its own.

The first batch of a shape is computed as usual: AdamW makes its moments then, and kernels are chosen. The second one is
captured. What a replay reads besides the batch must stay where it was: weights and moments are changed in place, the
learning rate is a tensor, and dropout draws from the generator of the device, whose seed and offset are read at every
replay. So dropout differs between updates and follows the seed, as it does without graphs.
"""

import gc
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

MOST = 32  # graphs of one training; batches of further shapes are computed without

Update = Callable[[Sequence[Tensor]], None]
Capture = Callable[[Callable[[], None]], Callable[[], None]]


class CapturedUpdates:
    """Updates of one training as graphs, captured as they are needed; it has identity over time.

    capture: makes of a function without arguments another one that does the same in one launch.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._graphs: dict[Hashable, tuple[list[Tensor], Callable[[], None]]] = {}
        self._met: set[Hashable] = set()  # kinds of batches that were computed once
        self._refused: set[Hashable] = set()  # kinds that have no graph, and will have none

    def run(self, update: Update, batch: Sequence[Tensor], *, kind: Hashable) -> None:
        """Make an update with a batch, by a graph where there is one for its shapes.

        update: changes weights in place and reads nothing but the batch and what stays where it is. kind: what it
        depends on besides, such as which weights train.
        """
        key = kind, tuple((tensor.shape, tensor.dtype) for tensor in batch)
        if key in self._met and key not in self._graphs and key not in self._refused:
            held = [tensor.clone() for tensor in batch]
            replay = None if len(self._graphs) >= MOST else self._captured(lambda: update(held))
            if replay is None:
                self._refused.add(key)
            else:
                self._graphs[key] = held, replay
        self._met.add(key)
        if key not in self._graphs:
            update(batch)
            return
        held, replay = self._graphs[key]
        for place, tensor in zip(held, batch, strict=True):
            place.copy_(tensor, non_blocking=True)
        replay()

    def _captured(self, function: Callable[[], None]) -> Callable[[], None] | None:
        """A function as a graph; None, with a warning, where it cannot be captured."""
        try:
            return self._capture(function)
        except RuntimeError as error:
            warnings.warn(f"updates run without a CUDA graph, which is slower: {error}", stacklevel=2)
            return None


class CudaGraphs:
    """Captures functions as CUDA graphs that share one pool of memory, so that many take little more than the largest.

    torch asks of graphs that share a pool that they never run at once and that nothing is read of one after the next
    has run. Updates come one after the other on one stream, and leave nothing but weights and sums, which are not in
    the pool.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, cast(Any, None)

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        """Capture a function, which is not computed meanwhile; the graph's replay is returned."""
        if self._pool is None:
            gc.collect()  # old graphs lie in cycles: they hold memory, and one that is freed meanwhile spoils a capture
            self._pool = torch.cuda.graph_pool_handle()
        stream, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        try:
            with (
                torch.cuda.device(self._device),
                torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
            ):
                function()
        except RuntimeError:
            self._pool = None  # a pool that a capture broke off in may not be entered again
            torch.cuda.set_stream(stream)  # torch leaves its own current where the end of a capture fails, too
            raise
        replay: Callable[[], None] = graph.replay
        return replay
