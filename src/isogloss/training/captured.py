"""Blocks of a stack as CUDA graphs: a small batch keeps a GPU waiting for launches, not for arithmetic.

Twelve blocks, forwards and backwards, are more than a thousand kernels, each started from Python. Captured once, they
are two launches. A graph knows tensors of one size only, so batches are rounded up to a multiple of `SIZE` tokens: what
is left over is one more sentence, of zeros, that nobody attends to and whose states nobody reads, and so its gradient
is zero. There is a graph for each size, and for each set of weights that train.
"""

import warnings
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from isogloss.stack.packing import packed
from isogloss.stack.stack import Stack
from isogloss.text.batches import Batch

SIZE = 256  # tokens that sizes of batches are multiples of
MOST = 32  # graphs, each of which keeps the states of a batch for its backward pass

Graph = Callable[[Tensor, Tensor, Tensor], Tensor]
Capture = Callable[[nn.Module, tuple[Tensor, Tensor, Tensor]], Graph]


def cuda_graph(blocks: nn.Module, sample: tuple[Tensor, Tensor, Tensor]) -> Graph:
    """A function that is two launches, one forwards and one backwards, in the half precision of the moment."""
    with torch.autocast("cuda", dtype=torch.get_autocast_dtype("cuda"), cache_enabled=False):
        return cast(Graph, torch.cuda.make_graphed_callables(blocks, sample, allow_unused_input=True))


class Captured:
    """The blocks of a stack in training, captured as they are first needed; it has identity over time.

    rows: sentences of a batch; others are not taken. longest: most tokens a sentence has. The stack runs sentences end
    to end; `cuda_graph` needs it on a GPU, in half precision.
    """

    def __init__(self, stack: Stack, *, rows: int, longest: int, capture: Capture = cuda_graph) -> None:
        self._stack, self._rows, self._longest, self._how = stack, rows, max(longest, SIZE), capture
        self._graphs: dict[tuple[Any, ...], Graph | None] = {}
        self._below, self._uppers = stack[: stack.first], dict[int, Stack]()

    def top(self, batch: Batch, hidden: Tensor | None = None, cut: int = 0) -> Tensor | None:
        """The states of the top cut, (tokens, width), from text or from those of a cut; None as `run` says."""
        if len(batch) != self._rows:
            return None
        if hidden is None:
            cut = self._below.last
            hidden = self._below.read(batch, [cut], reduce=lambda _, states: states)[cut]
        return self.run(cut, hidden, batch.lengths)

    def read(self, ids: Tensor, lengths: Tensor) -> Tensor | None:
        """What a head reads of some text: ids (tokens,), lengths (sentences,) -> states after the last norm."""
        none = ids.new_zeros(0)
        states = self.top(Batch(ids, lengths, none.bool(), none, none, none.bool()))
        return None if states is None else self._stack.head_input(states)

    def run(self, cut: int, hidden: Tensor, lengths: Tensor) -> Tensor | None:
        """Take the states of a cut to the top: (tokens, width) both; None where it must be done without a graph.

        lengths: (sentences,), on the device.
        """
        if len(lengths) != self._rows:
            return None
        upper = self._uppers.setdefault(cut, self._stack[cut:])
        trained = tuple(one.requires_grad for block in upper.blocks for one in block.parameters())
        if not any(trained):
            return None
        tokens = len(hidden)
        size = -(-tokens // SIZE) * SIZE
        key = (cut, size, hidden.dtype, hidden.requires_grad, trained)
        if key not in self._graphs:
            full = len(self._graphs) >= MOST
            self._graphs[key] = None if full else self._capture(upper, size, hidden)
        graph = self._graphs[key]
        if graph is None:
            return None
        places, borders = layout(lengths, size=size, first=self._stack.first_position)
        filled = nn.functional.pad(hidden, (0, 0, 0, size - tokens))
        return graph(filled, places, borders)[:tokens]

    def _capture(self, upper: Stack, size: int, hidden: Tensor) -> Graph | None:
        lengths = torch.zeros(self._rows, dtype=torch.long, device=hidden.device)
        lengths[0] = size - SIZE  # any lengths will do: they are read by the kernels, at each run
        sample = torch.zeros((size, upper.width), dtype=hidden.dtype, device=hidden.device)
        sample.requires_grad_(hidden.requires_grad)
        places, borders = layout(lengths, size=size, first=upper.first_position)
        try:
            return self._how(_Blocks(upper, self._longest), (sample, places, borders))
        except RuntimeError as error:
            warnings.warn(f"blocks run without a CUDA graph, which is slower: {error}", stacklevel=2)
            return None


def drops_attention(stack: Stack) -> bool:
    """Whether attention drops weights while it trains, which the variable-length kernel does not know."""
    names = ("attention_dropout", "attention_probs_dropout_prob")
    return any(getattr(stack.model.config, name, 0.0) for name in names)


def layout(lengths: Tensor, *, size: int, first: int) -> tuple[Tensor, Tensor]:
    """Positions (size,) and borders (sentences + 2,) of sentences end to end, the last of them what is left of `size`.

    Nothing waits for the device. first: the position of a sentence's first token.

    >>> layout(torch.tensor([2, 3]), size=7, first=0)
    (tensor([0, 1, 0, 1, 2, 0, 1]), tensor([0, 2, 5, 7], dtype=torch.int32))
    """
    ends = torch.cumsum(lengths, 0)
    borders = nn.functional.pad(ends, (1, 1))
    borders[-1] = size
    begun = torch.repeat_interleave(borders[:-1], borders.diff(), output_size=size)
    places = torch.arange(size, device=lengths.device) - begun + first
    return places, borders.to(torch.int32)


class _Blocks(nn.Module):
    """The blocks of a slice as a function of tensors alone."""

    def __init__(self, stack: Stack, longest: int) -> None:
        super().__init__()
        self.body, self.longest, self.types = stack._body_from_hidden, longest, stack.family.token_types

    def forward(self, hidden: Tensor, places: Tensor, borders: Tensor) -> Tensor:
        given: dict[str, Any] = {"position_ids": places[None], "cu_seq_lens_q": borders, "max_length_q": self.longest}
        if self.types:
            given["token_type_ids"] = torch.zeros_like(places)[None]
        with packed(self.body):
            states: Tensor = self.body(inputs_embeds=hidden[None], attention_mask=None, **given)[0]
        return states[0]
