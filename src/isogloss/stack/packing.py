"""Attention without padding: over packed sentences, and over rows of equal length.

Both functions are registered with `transformers`' attention interface. `NAME`: sentences are packed, and their borders
are passed in the keyword arguments that `transformers` itself uses for packed input (`cu_seq_lens_q`, `max_length_q`).
Half precision on a GPU runs the variable-length flash kernel; otherwise neighbours of equal length run together, so
that a batch sorted by length takes few calls, none of them with a mask. `WHOLE`: no mask at all. While a model is being
compiled, `transformers` creates a mask even without padding, which rules out the fused kernels: a training step of 12
layers, 384 wide, then took 48.7 ms instead of 43.5 on an H200.
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
from isogloss.stack.families import FAMILIES

NAME = "isogloss_packed"
WHOLE = "isogloss_whole"
CHANGED_SCORES = ("softcap", "s_aux", "position_bias")  # options of some models' attention that are not supported
SWITCH: Any = getattr(torch.backends.mkldnn, "matmul", None)  # the switch of `float32_products`


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
    """Attention within each sentence of a packed row, causal if the argument or the module says so.

    query, key, value: (1, heads, tokens, head width); keys and values may have fewer heads, each for several queries;
    cu_seq_lens_q: (sentences + 1,) borders. With `sliding_window` w, a token attends to w - 1 neighbours on either
    side, or only before it if causal. Returns (1, tokens, heads, head width).
    """
    changed = [name for name in CHANGED_SCORES if others.get(name) is not None]
    require(not changed, f"packed attention does not know {changed}, which changes scores")
    causal = bool(getattr(module, "is_causal", False) if is_causal is None else is_causal)
    window = None if sliding_window is None or sliding_window > max_length_q else sliding_window - 1
    query, key = query.to(value.dtype), key.to(value.dtype)  # rotated in float32 by some models
    if (group := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    q, k, v = (projection[0].transpose(0, 1) for projection in (query, key, value))  # (tokens, heads, width)
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
            sides = (projection[0, :, start:stop] for projection in (query, key, value))
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
    """Bidirectional attention within rows without padding: query, key, value (rows, heads, length, head width)."""
    length = query.shape[2]
    window = None if sliding_window is None or sliding_window > length else sliding_window - 1
    mask = None if window is None else _band(length, window, query.device)
    query, key = query.to(value.dtype), key.to(value.dtype)  # rotated in float32 by some models
    out = scaled_dot_product_attention(query, key, value, mask, dropout, scale=scaling)
    return out.transpose(1, 2).contiguous(), None  # (rows, length, heads, width)


def packing_pays(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packed sentences run faster: on a CPU, and on a GPU that has a kernel for them."""
    return device.type == "cpu" or (device.type == "cuda" and dtype in (torch.float16, torch.bfloat16))


@contextmanager
def packed(model: Any) -> Iterator[None]:
    """Run a model's attention packed inside the block; without gradients on a CPU, with the faster matrix products."""
    faster = not torch.is_grad_enabled() and not next(model.parameters()).is_cuda
    with _attending([model], NAME, packed_attention), float32_products(by_onednn=True) if faster else nullcontext():
        yield


@contextmanager
def float32_products(*, by_onednn: bool) -> Iterator[None]:
    """Compute products of float32 matrices on a CPU with oneDNN, or else MKL, inside the block.

    MKL is torch's default, and makes little use of the wide registers of AMD's processors: 230 GFLOP/s on two cores of
    an EPYC 9005, where oneDNN reaches 500 for products as large as those of linear layers. For the small ones of
    attention it takes five times as long. The switch is torch's permission to round to bfloat16. On a processor that
    does so (those with matrix units may), and in a torch without the switch, nothing is changed.
    """
    if _onednn_is_exact():
        with swapped([(SWITCH, "fp32_precision", "bf16" if by_onednn else "ieee")]):
            yield
    else:
        yield


@cache
def _onednn_is_exact() -> bool:
    """Whether oneDNN can multiply float32 matrices on this machine without rounding to bfloat16."""
    if SWITCH is None:
        return False
    matrix = torch.linspace(1, 2, 256 * 256).view(256, 256)
    with torch.autocast("cpu", enabled=False):  # under autocast both products would be rounded alike
        with swapped([(SWITCH, "fp32_precision", "ieee")]):
            exact = matrix @ matrix
        with swapped([(SWITCH, "fp32_precision", "bf16")]):
            return torch.allclose(matrix @ matrix, exact, rtol=1e-5, atol=0)


def unpadded(models: Sequence[Any], length: int) -> Callable[[], AbstractContextManager[None]]:
    """A context in which these base models run rows of `length` tokens without padding.

    Attention has no mask, and rotary positions come from a table: compiled code would recompute their sines for every
    number they rotate, in every layer; that kernel took 8.4 of the 39 ms of a step's kernels on an H200.
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
    """Allow or forbid cuDNN's attention kernel on a GPU inside the block.

    With a mask and rows of an odd multiple of 64 tokens its gradients are NaN if all scores of a query are very low
    (torch 2.11 on an H100 or H200, pytorch issue 196678); rows of a multiple of 128 are correct.
    """
    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(allowed and before)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


class _Rotary(nn.Module):
    """The rotary positions 0 to length - 1 of a model, computed once for each type of layer."""

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
    """A context in which these models use `function` for attention, registered under `name`."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, function)
    # A block reads its own configuration, which is another model's if two models share the block. The public
    # `set_attn_implementation` changes the configurations of whole models only, and would miss such a block.
    configs = {
        id(module.config): module.config for model in models for module in model.modules() if hasattr(module, "config")
    }
    return swapped([(config, "_attn_implementation", name) for config in configs.values()])


@contextmanager
def swapped(changes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Set attributes inside the block and restore them afterwards: changes (object, name of the attribute, value)."""
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
    """Whether this torch has the variable-length kernel, with support for a window if one is needed."""
    try:
        from inspect import signature

        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return False
    names = signature(varlen_attn).parameters
    return "scale" in names and ("window_size" in names or (window is None and not causal))
