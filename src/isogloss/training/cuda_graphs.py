"""Blocks of a stack as CUDA graphs: a small batch keeps a GPU waiting for launches, not for arithmetic.

Twelve blocks, forwards and backwards, are more than a thousand kernels, each started from Python. Captured once, they
are two launches. A graph knows tensors of one size only, so batches are rounded up to a size of `size_of`: what is left
over are more sentences, of zeros, that nobody attends to and whose states nobody reads, and so their gradient is zero.
They are no longer than others may be: attention starts work for every place that the longest sentence could have, in
every sentence. There is a graph for each size, and for each set of weights that train.

A graph reads and writes the same memory at every run. So weights may only be changed in place, as optimisers and
checkpoints do; and what one run left, its states and the gradients of its weights, is gone when the next one begins.
Two passes that go forwards before either goes backwards need a `Captured` each, and a batch that is run piece by piece,
whose gradients are summed, needs none: pieces have fewer rows, and are not taken.

Large batches gain less by this. There blocks may be compiled first, which runs norms, rotations and sums, each of which
reads and writes all states, in fewer kernels; compiling takes its time, so it is for long runs.
"""

import gc
import warnings
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from isogloss.stack.packing import packed, packed_arguments, packed_positions
from isogloss.stack.stack import Stack, graft
from isogloss.text.batches import Batch

SIZE = 256  # tokens that sizes of batches are multiples of
MOST = 32  # graphs, each of which keeps the gradients of its weights
LARGE = 4_096  # tokens from which on the memory of a graph counts
COMPILER = "inductor"  # the backend of torch.compile

Graph = Callable[[Tensor, Tensor, Tensor], Tensor]
Capture = Callable[[nn.Module, tuple[Tensor, Tensor, Tensor]], Graph]


def size_of(tokens: int) -> int:
    """The size a batch is rounded up to: few sizes occur, and at most a sixteenth of a large batch is left over.

    >>> size_of(300), size_of(5_000), size_of(16_000), size_of(16_385)
    (512, 5120, 16384, 17408)
    """
    step = _step(tokens)
    return -(-tokens // step) * step


def _step(tokens: int) -> int:
    """What sizes near so many tokens are multiples of: a power of two, at most a sixteenth, and `SIZE` at least."""
    return max(SIZE, 1 << (tokens // 16).bit_length() >> 1)


class CudaGraphs:
    """Captures functions that are two launches, one forwards and one backwards, in the half precision of the moment.

    All of them share one pool of memory, so that many sizes take little more than the largest. torch asks of graphs
    that share one that they never run at once, and that nothing is read of one after another that may lie on the same
    memory has run. Here a graph's forward pass, its backward pass and the update that reads its gradients come before
    the next graph begins, all on one stream; only then are its states and gradients overwritten.
    """

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, blocks: nn.Module, sample: tuple[Tensor, Tensor, Tensor]) -> Graph:
        """Capture blocks for tensors of the sizes of a sample; without gradients there is no backward graph."""
        if self._pool is None:
            gc.collect()  # old graphs lie in cycles: they hold memory, and one that is freed meanwhile spoils a capture
            self._pool = torch.cuda.graph_pool_handle()
            # Newer versions warn that gradients arrive on another stream than the one a capture was tried out on.
            getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", lambda warn: None)(False)
        stream = torch.cuda.current_stream()
        try:
            with torch.autocast("cuda", dtype=torch.get_autocast_dtype("cuda"), cache_enabled=False):
                graph = torch.cuda.make_graphed_callables(blocks, sample, allow_unused_input=True, pool=self._pool)
        except RuntimeError:
            self._pool = None  # a pool that a capture broke off in may not be entered again
            torch.cuda.set_stream(stream)  # torch leaves its own current where the end of a capture fails, too
            raise
        return cast(Graph, graph)


class Captured:
    """The blocks of a stack in training, captured as they are first needed; it has identity over time.

    rows: sentences of a batch; others are not taken. longest: most tokens a sentence has. compiled: blocks are compiled
    before they are captured. The stack runs sentences end to end; `CudaGraphs` needs it on a GPU, in half precision. Of
    all its graphs one is in use at a time.
    """

    def __init__(
        self, stack: Stack, *, rows: int, longest: int, compiled: bool = False, capture: Capture | None = None
    ) -> None:
        self.stack, self._rows, self._longest, self._how = stack, rows, longest, capture or CudaGraphs()
        self._compiled = compiled
        self._graphs: dict[tuple[Any, ...], Graph | None] = {}
        self._below, self._uppers = stack[: stack.first], dict[int, tuple[Stack, list[nn.Module], list[Tensor]]]()

    def top(self, batch: Batch, hidden: Tensor | None = None, cut: int = 0) -> Tensor | None:
        """The states of the top cut, (tokens, width), from text or from those of a cut; None as `run` says."""
        tokens = len(batch.ids) if hidden is None else len(hidden)
        places, borders = packed_positions(batch.lengths, tokens=tokens, first=self.stack.first_position)
        if hidden is None:
            return self.from_text(batch.ids, places, borders, batch.types if self.stack.tells_types else None)
        return self.run(cut, hidden, places, borders)

    def from_text(self, ids: Tensor, places: Tensor, borders: Tensor, types: Tensor | None = None) -> Tensor | None:
        """The states of the top cut, (tokens, width), of text; None as `run` says.

        ids, places and types (tokens,): tokens, their positions, and which sentence of a pair they are of.
        """
        if len(borders) != self._rows + 1:
            return None
        given = packed_arguments(self.stack.family, places, borders, self._longest, types)
        body = self._below._body
        with packed(body):
            hidden: Tensor = body(input_ids=ids[None], attention_mask=None, **given)[0]
        return self.run(self._below.last, hidden[0], places, borders)

    def run(self, cut: int, hidden: Tensor, places: Tensor, borders: Tensor) -> Tensor | None:
        """Take the states of a cut to the top: (tokens, width) both; None where it must be done without a graph.

        places (tokens,), borders (sentences + 1,): as `packed_positions` gives them. Nothing waits for the device.
        """
        if len(borders) != self._rows + 1:
            return None
        if cut not in self._uppers:
            upper = self.stack[cut:]
            self._uppers[cut] = upper, upper.blocks, [weight for block in upper.blocks for weight in block.parameters()]
        upper, blocks, weights = self._uppers[cut]
        back = torch.is_grad_enabled()
        trained = tuple(weight.requires_grad for weight in weights) if back else ()
        if not weights or (back and not any(trained)):
            return None
        size, left = size_of(len(hidden)), size_of(len(hidden)) - len(hidden)
        what = (cut, hidden.dtype, back and hidden.requires_grad, trained, tuple(block.training for block in blocks))
        # Memory of a pool is used again by what is no larger, so the first graph is larger than those that follow.
        for captured_size in [size] if self._graphs or size < LARGE else [size_of(size + size // 8), size]:
            if (captured_size, *what) not in self._graphs:
                full = len(self._graphs) >= MOST
                self._graphs[(captured_size, *what)] = None if full else self._capture(upper, captured_size, hidden)
        graph = self._graphs[(size, *what)]
        if graph is None:
            return None
        ends = filled_up(borders, len(hidden), size, longest=self._longest)
        return graph(pad(hidden, (0, 0, 0, left)), pad(places, (0, left)), ends)[: len(hidden)]

    def _capture(self, upper: Stack, size: int, hidden: Tensor) -> Graph | None:
        """A graph, or None with a warning; the draws of a step are not disturbed."""
        each = size // (self._rows + 1)  # any lengths will do: they are read by the kernels, at each run
        lengths = torch.full((self._rows,), each, dtype=torch.long, device=hidden.device)
        places, borders = packed_positions(lengths, tokens=self._rows * each, first=upper.first_position)
        borders = filled_up(borders, len(places), size, longest=self._longest)
        places = pad(places, (0, size - len(places)))
        sample = torch.zeros((size, upper.width), dtype=hidden.dtype, device=hidden.device)
        sample.requires_grad_(hidden.requires_grad and torch.is_grad_enabled())
        while True:
            try:
                with torch.random.fork_rng(devices=[hidden.device] if hidden.is_cuda else []):
                    return self._how(_Blocks(upper, self._longest, compiled=self._compiled), (sample, places, borders))
            except RuntimeError as error:
                what = "not compiled" if self._compiled else "without a CUDA graph"
                warnings.warn(f"blocks run {what}, which is slower: {error}", stacklevel=2)
                if not self._compiled:
                    return None
                self._compiled = False


def drops_attention(stack: Stack) -> bool:
    """Whether attention drops weights while it trains, which the variable-length kernel does not know."""
    names = ("attention_dropout", "attention_probs_dropout_prob")
    return any(getattr(stack.model.config, name, 0.0) for name in names)


def filled_up(borders: Tensor, tokens: int, size: int, *, longest: int) -> Tensor:
    """Borders of sentences and of what fills them up to a size: sentences of `longest` tokens, then empty ones.

    How many there are depends on the size alone, (sentences + 1,) -> (sentences + 1 + more,) int32.

    >>> filled_up(torch.tensor([0, 150, 300]), 300, 512, longest=150)
    tensor([  0, 150, 300, 450, 512], dtype=torch.int32)
    """
    more = torch.arange(1, -(-_step(size) // longest), device=borders.device) * longest + tokens
    return pad(torch.cat([borders, more.clamp(max=size)]), (0, 1), value=size).to(torch.int32)


class _Blocks(nn.Module):
    """The blocks of a slice as a function of tensors alone."""

    def __init__(self, stack: Stack, longest: int, *, compiled: bool = False) -> None:
        super().__init__()
        self.body, self.longest, self.family = stack._body_from_hidden, longest, stack.family
        self.compiled = compiled
        if compiled:  # block by block: blocks have the same code, which is compiled once for all, and for every size
            blocks = nn.ModuleList(
                cast(nn.Module, torch.compile(block, dynamic=True, backend=COMPILER)) for block in stack.blocks
            )
            self.body = graft(self.body, stack.family.blocks, blocks)

    def forward(self, hidden: Tensor, places: Tensor, borders: Tensor) -> Tensor:
        given = packed_arguments(self.family, places, borders, self.longest)
        with packed(self.body, opaque=self.compiled):
            states: Tensor = self.body(inputs_embeds=hidden[None], attention_mask=None, **given)[0]
        return states[0]
