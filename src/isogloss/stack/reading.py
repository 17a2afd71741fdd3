"""Reading cuts while the model runs: hooks that hand over what a block gives, or what the attention inside it gives."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def reading(
    blocks: Sequence[nn.Module],
    wanted: set[int],
    *,
    first: int,
    keep: Callable[[int, Tensor], None],
    attention: str | None = None,
) -> Iterator[None]:
    """Hook the blocks so that inside any pass of their model hands every wanted cut to `keep` as it is computed.

    first: the cut below the first block. attention: path within a block of a module whose output is taken instead of
    the block's; the first cut, below all blocks, has none and cannot be wanted then.
    """
    handles = []

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keep(first, args[0] if args else kwargs["hidden_states"])

    def after(cut: int) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            keep(cut, output[0] if isinstance(output, tuple) else output)

        return hook

    try:
        if blocks and first in wanted:
            handles.append(blocks[0].register_forward_pre_hook(before, with_kwargs=True))
        for cut, block in enumerate(blocks, first + 1):
            if cut in wanted:
                inner = block if attention is None else block.get_submodule(attention)
                handles.append(inner.register_forward_hook(after(cut)))
        yield
    finally:
        for handle in handles:
            handle.remove()
