"""Mixed precision: weights stay float32, and products of matrices are computed in half precision.

`torch.autocast` converts each weight where it is used and its gradient on the way back. A model of twelve blocks has
150 weights in its linear layers, so this is 300 of the thousand kernels of an update, each of which takes a GPU longer
to launch than to compute if batches are small. `half_weights` converts all of them together, to the same bits.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


def arithmetic(device: torch.device | str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Autocast to `dtype` inside the block, which leaves the weights unchanged; None changes nothing."""
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype=dtype)


@contextmanager
def half_weights(model: nn.Module, dtype: torch.dtype | None) -> Iterator[None]:
    """Give the linear layers of a model their weights in `dtype` inside the block; None changes nothing.

    Gradients of what is computed inside reach the model's own weights. An embedding that is also a linear layer, as the
    tied head of a language model, is left as it is, since words are looked up in full precision.
    """
    looked_up = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    places: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}  # a weight may be shared by several layers
    for module in model.modules() if dtype is not None else ():
        if type(module) is nn.Linear:
            for name, weight in module.named_parameters(recurse=False):
                if id(weight) not in looked_up and weight.dtype == torch.float32:
                    places.setdefault(weight, []).append((module, name))
    trained = [weight for weight in places if weight.requires_grad]
    frozen = [weight for weight in places if not weight.requires_grad]
    halves = dict(zip(trained, _Converted.apply(dtype, *trained), strict=True))  # type: ignore[no-untyped-call]
    halves |= zip(frozen, _converted(frozen, dtype), strict=True)
    try:
        for weight, users in places.items():
            for module, name in users:
                module._parameters[name] = halves[weight]
        yield
    finally:
        for weight, users in places.items():
            for module, name in users:
                module._parameters[name] = weight


def half_norms(models: Sequence[Any]) -> None:
    """Make norms return half precision under autocast, which halves the memory of the states between blocks.

    `torch.autocast` computes norms in float32, as here, but also returns float32.
    """

    def halve(norm: nn.Module, inputs: Any, states: Tensor) -> Tensor:
        kind = states.device.type
        return states.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else states

    for model in models:
        for module in model.modules():
            if isinstance(module, nn.LayerNorm):
                module.register_forward_hook(halve)


def _converted(tensors: Sequence[Tensor], dtype: torch.dtype | None) -> list[Tensor]:
    """Copies of tensors in another precision, made by a few kernels."""
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    if copies:
        torch._foreach_copy_(copies, list(tensors))
    return copies


class _Converted(torch.autograd.Function):
    """`_converted` with gradients, which are converted back together."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(_converted(weights, dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        wide = iter(_converted([gradient for gradient in gradients if gradient is not None], torch.float32))
        return None, *(None if gradient is None else next(wide) for gradient in gradients)
