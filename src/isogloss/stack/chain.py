"""Slices of stacks, and maps between their spaces, run one after the other as if they were one stack."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isogloss.errors import InputError
from isogloss.stack.stack import Reduce, Stack
from isogloss.text.batches import Batch


@dataclass(frozen=True, eq=False)
class Chain:
    """Slices and maps run one after the other: `chain(a[:4], rotation, b[4:])`.

    Its cuts are numbered through; where a map stands, the cut is what comes out of the map, which is what the next
    block reads.
    """

    parts: tuple[Stack, ...]
    maps: tuple[tuple[Callable[[Tensor], Tensor], ...], ...]

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the part that takes text."""
        return self.parts[0].tokenizer

    @property
    def name(self) -> str:
        """The names of the parts, joined."""
        return " + ".join(f"{part.name}[{part.first}:{part.last}]" for part in self.parts)

    @property
    def width(self) -> int:
        """Width of the hidden states at the top."""
        return self.parts[-1].width

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.parts[0].device

    @property
    def max_length(self) -> int:
        """Most tokens a sentence may have."""
        return min(part.max_length for part in self.parts)

    @property
    def packs(self) -> bool:
        """Whether every part runs packed."""
        return all(part.packs for part in self.parts)

    @property
    def model(self) -> nn.Module:
        """All modules together, for switching modes."""
        maps = [mapping for group in self.maps for mapping in group if isinstance(mapping, nn.Module)]
        return nn.ModuleList([*(part.model for part in self.parts), *maps])

    @property
    def fingerprint(self) -> str:
        """A hash of the parts and of the maps that are modules; a map that is a plain function has only its name."""
        digest = hashlib.sha256("".join(part.fingerprint for part in self.parts).encode())
        for apply in (mapping for group in self.maps for mapping in group):
            digest.update(getattr(apply, "__qualname__", type(apply).__qualname__).encode())
            for name, weight in apply.state_dict().items() if isinstance(apply, nn.Module) else ():
                digest.update(name.encode() + weight.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    @property
    def cuts(self) -> range:
        """The cuts that can be read."""
        return range(0, sum(part.last - part.first for part in self.parts) + 1)

    def read(self, batch: Batch, layers: Sequence[int] | None = None, *, reduce: Reduce) -> dict[int, Any]:
        """Run a batch and reduce each wanted cut as soon as it is there; see `Stack.read`."""
        wanted = set(self.cuts if layers is None else layers)
        if not wanted <= set(self.cuts):
            raise InputError(f"{self.name} has cuts 0 to {self.cuts[-1]}, not {sorted(wanted - set(self.cuts))}")
        results: dict[int, Any] = {}
        hidden: Tensor | None = None
        base = 0
        for part, maps in zip(self.parts, self.maps, strict=True):
            offset, end = base - part.first, base + part.last - part.first

            def keep(cut: int, states: Tensor, offset: int = offset, end: int = end) -> Tensor | None:
                number = cut + offset
                if number in wanted and number < end:
                    results[number] = reduce(number, states)
                return states if number == end else None

            inner = [cut for cut in part.cuts if cut + offset in wanted or cut == part.last]
            if hidden is not None:
                inner = [cut for cut in inner if cut > part.first or part.first == part.last]
            hidden = part.read(batch, inner, reduce=keep, hidden=hidden)[part.last]
            for apply in maps:
                hidden = apply(hidden)
            if end in wanted:
                results[end] = reduce(end, hidden)
            base = end
        return results

    def states(self, batch: Batch, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """The hidden states at every cut, each (tokens, width)."""
        return self.read(batch, layers, reduce=lambda _, states: states)


def chain(*parts: Stack | Callable[[Tensor], Tensor]) -> Chain:
    """Join slices, with maps between them: `chain(dutch[:4], rotation, english[4:])`.

    The first part takes text, the others what the part before them gives (their embeddings are passed by); a map is
    any function (tokens, width) -> (tokens, width).
    """
    stacks: list[Stack] = []
    maps: list[list[Callable[[Tensor], Tensor]]] = []
    for part in parts:
        if isinstance(part, Stack):
            stacks.append(part)
            maps.append([])
        elif not stacks:
            raise InputError("a chain begins with a slice that takes text, as in chain(a[:4], rotation, b[4:])")
        else:
            maps[-1].append(part)
    if not stacks or not stacks[0].embeds:
        raise InputError("a chain begins with a slice that takes text, as in chain(a[:4], rotation, b[4:])")
    widths = {part.width for part in stacks}
    if len(widths) > 1:
        raise InputError(f"the parts of a chain must be equally wide, not {' and '.join(map(str, sorted(widths)))}")
    return Chain(tuple(stacks), tuple(tuple(group) for group in maps))
