"""Attention where no padding is computed: over sentences that lie end to end, and over rows of one length.

Both are registered with `transformers`' attention interface. `NAME`: the borders of the sentences arrive as the
keyword arguments `transformers` itself uses for packed input (`cu_seq_lens_q`, `max_length_q`). Half precision on a
GPU runs the variable-length flash kernel; anything else runs neighbours of one length together, so that a batch sorted
by length takes few calls, none of them with a mask. `WHOLE`: no mask at all. `transformers` makes one while a model is
being compiled, even if nothing is padded, and with a mask the fused kernels are out: a training step of 12 layers, 384
wide, then took 48.7 ms instead of 43.5 on an H200.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from isogloss.errors import require
from isogloss.stack.families import FAMILIES, Family

NAME = "isogloss_packed"
WHOLE = "isogloss_whole"
CHANGED_SCORES = ("softcap", "s_aux", "position_bias")  # what some models have attention do besides
SWITCH: Any = getattr(torch.backends.mkldnn, "matmul", None)  # of `float32_products`


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attention within each sentence of a packed row, to earlier tokens only where the module or the model says so.

    query, key, value: (1, heads, tokens, width of a head), of keys and values perhaps fewer heads, each for several
    queries; cu_seq_lens_q: (sentences + 1,) borders. `sliding_window` w lets a token see w - 1 neighbours on either
    side, or before it. Returns (1, tokens, heads, width of a head).
    """
    changed = [name for name in CHANGED_SCORES if others.get(name) is not None]
    require(not changed, f"packed attention does not know {changed}, which changes scores")
    causal = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    window = None if sliding_window is None or sliding_window > max_length_q else sliding_window - 1
    query, key = query.to(value.dtype), key.to(value.dtype)  # rotated in float32 by some models
    if (group := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    q, k, v = (part[0].transpose(0, 1) for part in (query, key, value))  # (tokens, heads, width)
    if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) and not dropout and _flash_takes(window, causal):
        from torch.nn.attention.varlen import varlen_attn

        reach = -1 if window is None else window  # -1: no limit
        options: dict[str, Any] = (
            {"window_size": (reach, 0 if causal else reach)} if causal or window is not None else {}
        )
        borders = cu_seq_lens_q.to(torch.int32)
        out: Any = varlen_attn(q, k, v, borders, borders, max_length_q, max_length_q, scale=scaling, **options)
        return out.unsqueeze(0), None
    pieces = []
    start = 0
    with float32_products(by_onednn=False) if q.device.type == "cpu" else nullcontext():
        for length, same in groupby(cu_seq_lens_q.diff().tolist()):
            count = len(list(same))
            stop = start + count * length
            sides = (part[0, :, start:stop] for part in (query, key, value))
            piece = [side.view(len(side), count, length, side.shape[2]).transpose(0, 1) for side in sides]
            mask = None if window is None else _band(length, window, q.device, causal=causal)
            order = causal and mask is None
            out = scaled_dot_product_attention(piece[0], piece[1], piece[2], mask, dropout, order, scale=scaling)
            pieces.append(out.transpose(1, 2).flatten(0, 1))  # (count * length, heads, width)
            start = stop
    return torch.cat(pieces).unsqueeze(0), None  # (1, tokens, heads, width)


def whole_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Bidirectional attention within rows that are full of text: (rows, heads, length, width of a head) each."""
    length = query.shape[2]
    window = None if sliding_window is None or sliding_window > length else sliding_window - 1
    mask = None if window is None else _band(length, window, query.device)
    query, key = query.to(value.dtype), key.to(value.dtype)  # rotated in float32 by some models
    out = scaled_dot_product_attention(query, key, value, mask, dropout, scale=scaling)
    return out.transpose(1, 2).contiguous(), None  # (rows, length, heads, width)


def packing_pays(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether sentences that lie end to end are read faster: on a CPU, and where a GPU has a kernel for them."""
    return device.type == "cpu" or (device.type == "cuda" and dtype in (torch.float16, torch.bfloat16))


@contextmanager
def packed(model: Any) -> Iterator[None]:
    """Run a model's attention packed inside the block, and as before after it; what is only read on a CPU, faster."""
    faster = not torch.is_grad_enabled() and not next(model.parameters()).is_cuda
    with _attending([model], NAME, packed_attention), float32_products(by_onednn=True) if faster else nullcontext():
        yield


@contextmanager
def float32_products(*, by_onednn: bool) -> Iterator[None]:
    """Have oneDNN, or else MKL, compute products of float32 matrices on a CPU inside the block.

    MKL is torch's own choice, and makes little use of the wide registers of AMD's processors: 230 GFLOP/s on two cores
    of an EPYC 9005, where oneDNN reaches 500 with products as large as those of linear layers. With the small ones of
    attention it takes five times as long. The switch is torch's leave to round to bfloat16. Where a processor makes use
    of that (those with matrix units may), and in a torch older than the switch, nothing is changed.
    """
    if _onednn_is_exact():
        with swapped([(SWITCH, "fp32_precision", "bf16" if by_onednn else "ieee")]):
            yield
    else:
        yield


@cache
def _onednn_is_exact() -> bool:
    """Whether products of float32 matrices by oneDNN can be had on this machine, and are not rounded to bfloat16."""
    if SWITCH is None:
        return False
    matrix = torch.linspace(1, 2, 256 * 256).view(256, 256)
    exact = matrix @ matrix
    with swapped([(SWITCH, "fp32_precision", "bf16")]):
        return torch.allclose(matrix @ matrix, exact, rtol=1e-5, atol=0)


def packed_positions(lengths: Tensor, *, tokens: int, first: int) -> tuple[Tensor, Tensor]:
    """Positions (tokens,) and borders (sentences + 1,) of sentences end to end, so many tokens together.

    Nothing waits for the device. first: the position of a sentence's first token.

    >>> packed_positions(torch.tensor([2, 3]), tokens=5, first=0)
    (tensor([0, 1, 0, 1, 2]), tensor([0, 2, 5]))
    """
    borders = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))
    begun = torch.repeat_interleave(borders[:-1], lengths, output_size=tokens)
    return torch.arange(tokens, device=lengths.device) - begun + first, borders


def packed_arguments(
    family: Family, positions: Tensor, borders: Tensor, longest: int, types: Tensor | None = None
) -> dict[str, Any]:
    """The arguments that tell a model where sentences that lie end to end begin, in the names `transformers` uses.

    positions, types (tokens,); borders (sentences + 1,); longest: tokens of the longest sentence, or more.
    """
    given: dict[str, Any] = {"position_ids": positions[None], "cu_seq_lens_q": borders, "max_length_q": longest}
    if family.token_types:
        given["token_type_ids"] = (torch.zeros_like(positions) if types is None else types)[None]
    return given


def unpadded(models: Sequence[Any], length: int) -> Callable[[], AbstractContextManager[None]]:
    """A context in which these base models run rows of `length` tokens that are full of text.

    Attention has no mask, and rotary positions come from a table: compiled, their sines would be computed again for
    every number they turn, in every layer; that kernel took 8.4 of the 39 ms of a step's kernels on an H200.
    """
    tables = [
        (model, path, _Rotary(model, path, length))
        for model in models
        if (path := FAMILIES[model.config.model_type].rotary) is not None
    ]

    @contextmanager
    def around() -> Iterator[None]:
        with swapped(tables), _attending(models, WHOLE, whole_attention):
            yield

    return around


@contextmanager
def cudnn_attention(allowed: bool) -> Iterator[None]:
    """Whether attention on a GPU may run cuDNN's kernel inside the block.

    With a mask and rows of an odd multiple of 64 tokens its gradients are not numbers where all scores of a query are
    very low (torch 2.11 on an H100 or H200, pytorch issue 196678); rows of a multiple of 128 are sound.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(allowed and before)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def half_norms(models: Sequence[Any]) -> None:
    """Have norms leave half precision where autocast computes in it, so that what lies between blocks is half as wide.

    `torch.autocast` computes norms in float32, as here, and leaves their results so.
    """

    def halve(norm: nn.Module, inputs: Any, states: Tensor) -> Tensor:
        kind = states.device.type
        return states.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else states

    for model in models:
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.register_forward_hook(halve)


class _Rotary(nn.Module):
    """The rotary positions 0 to length - 1 of a model, worked out once for each kind of layer."""

    def __init__(self, model: Any, path: str, length: int) -> None:
        super().__init__()
        rotary, weight = getattr(model, path), next(model.parameters())
        positions = torch.arange(length, device=weight.device).unsqueeze(0)
        states = weight.new_zeros(1, length, 1)
        with torch.no_grad():
            self.tables = {kind: rotary(states, positions, kind) for kind in set(model.config.layer_types)}

    def forward(self, states: Tensor, positions: Tensor, kind: str) -> tuple[Tensor, Tensor]:
        return self.tables[kind]


def _attending(models: Sequence[Any], name: str, function: Any) -> AbstractContextManager[None]:
    """A context in which the attention of these models is this function, registered under this name."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, function)
    # A block asks its own configuration, which is another model's where two models share the block. The public
    # `set_attn_implementation` changes the configurations of whole models only, so that such a block would be missed.
    configs = {
        id(module.config): module.config for model in models for module in model.modules() if hasattr(module, "config")
    }
    return swapped([(config, "_attn_implementation", name) for config in configs.values()])


@contextmanager
def swapped(changes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Attributes have other values inside the block, and their own after it: (object, name of the attribute, value)."""
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in changes]
    try:
        for holder, name, value in changes:
            setattr(holder, name, value)
        yield
    finally:
        for holder, name, value in before:
            setattr(holder, name, value)


def _band(length: int, window: int, device: torch.device, *, causal: bool = False) -> Tensor:
    position = torch.arange(length, device=device)
    near = (position[:, None] - position[None, :]).abs() <= window
    return near.tril() if causal else near


def _flash_takes(window: int | None, causal: bool) -> bool:
    """Whether this torch's variable-length kernel is there, and takes a window where one is needed."""
    try:
        from inspect import signature

        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return False
    names = signature(varlen_attn).parameters
    return "scale" in names and ("window_size" in names or (window is None and not causal))
