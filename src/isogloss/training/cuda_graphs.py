"""Whole updates as CUDA graphs: with small batches, kernel launches take a GPU longer than the arithmetic.

One update of twelve blocks (forward pass, backward pass, clipping, AdamW) is about two thousand kernels, each launched
from Python. Captured once and replayed, it is one launch. A graph reads its batch from the same memory at every replay
and supports tensors of one shape only, so batches have few shapes (`isogloss.text.batches.layout_of`), and each shape
has its own graph.

The first batch of a shape is computed as usual: AdamW allocates its moments, and kernels are chosen. The second one is
captured. Everything else that a replay reads must keep its address: weights and moments are changed in place, the
learning rate is a tensor, and dropout draws from the generator of the device, whose seed and offset are read at every
replay. So dropout differs between updates and follows the seed, as it does without graphs.
"""

import gc
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

MOST = 32  # graphs of one training; batches of further shapes run without a graph

Update = Callable[[Sequence[Tensor]], None]
Capture = Callable[[Callable[[], None]], Callable[[], None]]


class CapturedUpdates:
    """The CUDA graphs of one training's updates, captured as they are needed.

    capture: turns a function without arguments into one that does the same in one launch.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._graphs: dict[Hashable, tuple[list[Tensor], Callable[[], None]]] = {}
        self._met: set[Hashable] = set()  # kinds of batches that have been computed once
        self._refused: set[Hashable] = set()  # kinds that cannot be captured

    def run(self, update: Update, batch: Sequence[Tensor], *, kind: Hashable) -> None:
        """Run an update with a batch, through the graph for its shapes if there is one.

        update: changes weights in place and reads only the batch and tensors with a fixed address. kind: what else the
        update depends on, such as which weights are trained.
        """
        # A graph's own copies are contiguous; code compiled for other strides would be compiled again in the capture.
        batch = [tensor.contiguous() for tensor in batch]
        key = kind, tuple((tensor.shape, tensor.dtype) for tensor in batch)
        if key in self._met and key not in self._graphs and key not in self._refused:
            static_batch = [tensor.clone() for tensor in batch]
            replay = None if len(self._graphs) >= MOST else self._captured(lambda: update(static_batch))
            if replay is None:
                self._refused.add(key)
            else:
                self._graphs[key] = static_batch, replay
        self._met.add(key)
        if key not in self._graphs:
            update(batch)
            return
        static_batch, replay = self._graphs[key]
        for static, tensor in zip(static_batch, batch, strict=True):
            static.copy_(tensor, non_blocking=True)
        replay()

    def _captured(self, function: Callable[[], None]) -> Callable[[], None] | None:
        """Capture a function as a graph; None, with a warning, if that fails."""
        try:
            return self._capture(function)
        except RuntimeError as error:
            warnings.warn(f"updates run without a CUDA graph, which is slower: {error}", stacklevel=2)
            return None


class CudaGraphs:
    """Captures functions as CUDA graphs in one memory pool, so that many take little more than the largest.

    torch requires of graphs that share a pool that they never run concurrently, and that no output of one is read after
    the next has run. Updates run one after the other on one stream, and their only results are weights and sums, which
    are not in the pool.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, cast(Any, None)

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        """Capture a function without computing it; returns the graph's replay."""
        if self._pool is None:
            gc.collect()  # old graphs are in reference cycles and hold memory; freeing one during a capture breaks it
            self._pool = torch.cuda.graph_pool_handle()
        stream, graph = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
        try:
            with (
                torch.cuda.device(self._device),
                torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
            ):
                function()
        except RuntimeError:
            self._pool = None  # a pool whose capture failed may not be used again
            torch.cuda.set_stream(stream)  # if ending a capture fails too, torch leaves its own stream current
            raise
        replay: Callable[[], None] = graph.replay
        return replay
