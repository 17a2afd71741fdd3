"""Pairs of translations as rows for a step: a pair in one sequence under masks, and each side alone.

Rows are padded arrays, so that a step can be split into pieces; their lengths stay on the host. Where the hardware
allows, `row_states` takes the padding out again and runs the rows end to end, and nothing waits for the device.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isogloss.stack.packing import packed
from isogloss.stack.stack import Stack
from isogloss.text.pairstreams import Borders
from isogloss.training.captured import drops_attention

Sides = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Filled:
    """Rows with their special tokens, on the host.

    ids (rows, longest): padded; content (rows, longest) bool: text; lengths (rows,); second (rows,): where the second
    sentence of a pair begins, with the marks that belong to it (the length of the row where there is none).
    """

    ids: np.ndarray
    content: np.ndarray
    lengths: np.ndarray
    second: np.ndarray


def fill_single(sentences: Sequence[np.ndarray], borders: Borders, padding: int) -> Filled:
    """Sentences, each between its borders: `[CLS]` a `[SEP]`."""
    return _fill([sentences], (borders.before, borders.after), padding)


def fill_pairs(sides: Sides, borders: Borders, padding: int, *, longest: int) -> Filled:
    """Both sentences of a pair in one row, `[CLS]` a `[SEP]` b `[SEP]`, cut to `longest` tokens as `fitting` says."""
    room = longest - borders.pair
    sizes = [fitting(len(first), len(second), room) for first, second in sides]
    cut = [[pair[side][: size[side]] for pair, size in zip(sides, sizes, strict=True)] for side in (0, 1)]
    return _fill(cut, (borders.pair_before, borders.between, borders.pair_after), padding)


def fitting(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths of two sentences that fit into the room together: the longer one is cut, then both to one half.

    >>> fitting(3, 4, 10), fitting(3, 9, 10), fitting(8, 9, 10)
    ((3, 4), (3, 7), (5, 5))
    """
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        return first, room - first
    return (room - second, second) if second <= half else (room - half, half)


def sentence_names(sentences: Sequence[np.ndarray]) -> np.ndarray:
    """A number for each sentence, (sentences,) int64: a hash of its token ids, never 0.

    >>> names = sentence_names([np.array([7, 8]), np.array([8, 7]), np.array([7, 8])])
    >>> bool(names[0] == names[2]), bool(names[0] == names[1])
    (True, False)
    """
    digests = b"".join(
        hashlib.blake2b(np.ascontiguousarray(one, dtype=np.int64).data, digest_size=8).digest() for one in sentences
    )
    names = np.frombuffer(digests, dtype=np.int64)
    return np.where(names == 0, 1, names)


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """An array on the device; from pinned memory, so that the copy waits for no step that is being computed."""
    found = torch.from_numpy(array)
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)


def runs_packed(stack: Stack, device: torch.device, *, half: bool) -> bool:
    """Whether rows run end to end, where the family allows: on a CPU, and in half precision on a GPU.

    The kernel of a GPU knows no dropout of attention, without which lengths would be read back in every layer.
    """
    if device.type == "cpu":
        return stack.family.packs
    return device.type == "cuda" and half and stack.family.packs and not drops_attention(stack)


@dataclass(frozen=True)
class States:
    """The states of some rows at one cut: flat (n, width), and where each row begins in them, (rows,)."""

    flat: Tensor
    begins: Tensor

    def at(self, places: Tensor) -> Tensor:
        """The states at some places of each row: (rows, k) -> (rows, k, width)."""
        return self.flat[(self.begins[:, None] + places).clamp(max=len(self.flat) - 1)]

    def mean(self, lengths: Tensor, *, before: int, after: int) -> Tensor:
        """The mean over each row without its borders, (rows, width), float32; lengths (rows,), on the host."""
        sizes = (lengths - before - after).numpy()
        starts = np.cumsum(sizes) - sizes
        owners = np.repeat(np.arange(len(sizes)), sizes)  # (content tokens,)
        within = np.arange(len(owners)) - starts[owners] + before
        rows, places = (to_device(one, self.flat.device) for one in (owners, within))
        chosen = self.flat[self.begins[rows] + places].float()
        sums = torch.zeros((len(sizes), chosen.shape[1]), dtype=torch.float32, device=chosen.device)
        return sums.index_add(0, rows, chosen) / to_device(sizes, chosen.device)[:, None]

    def first(self) -> Tensor:
        """The state of each row's first token, (rows, width), float32."""
        return self.flat[self.begins].float()


def row_states(
    stack: Stack,
    ids: Tensor,
    lengths: Tensor,
    *,
    end_to_end: bool,
    second: Tensor | None = None,
    reset: bool = False,
) -> States:
    """Run rows through a stack, to its last cut.

    ids: (rows, longest), padded; lengths (rows,) and second (rows,), where the second sentence of a pair begins, on the
    host. end_to_end: padding is taken out first. reset: positions begin again at the second sentence, as in XLM.
    """
    body: Any = stack._body
    places = np.arange(ids.shape[1])[None, :]
    text = places < lengths.numpy()[:, None]  # (rows, longest)
    later = np.zeros_like(text) if second is None else places >= second.numpy()[:, None]
    positions = places - np.where(later, second.numpy()[:, None], 0) if reset and second is not None else places
    positions = np.broadcast_to(positions, text.shape) + stack.first_position
    given: dict[str, np.ndarray] = {}
    if end_to_end or reset:
        given["position_ids"] = positions
    if stack.family.token_types:
        given["token_type_ids"] = (later & text & stack.tells_types).astype(np.int64)
    if end_to_end:
        return _run_packed(body, ids, lengths, text, given)
    given["attention_mask"] = text.astype(np.int64)
    inputs = {name: to_device(np.ascontiguousarray(one), ids.device) for name, one in given.items()}
    states: Tensor = body(input_ids=ids, **inputs)[0]  # (rows, longest, width)
    begins = torch.arange(len(ids), device=ids.device) * ids.shape[1]
    return States(states.flatten(0, 1), begins)


def _run_packed(body: Any, ids: Tensor, lengths: Tensor, text: np.ndarray, given: Mapping[str, np.ndarray]) -> States:
    """The rows without their padding, in one row whose borders attention stops at."""
    chosen = to_device(np.flatnonzero(text), ids.device)
    inputs: dict[str, Any] = {name: to_device(one[text], ids.device)[None] for name, one in given.items()}
    borders = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0)).to(torch.int32)
    on_device = to_device(borders.numpy(), ids.device)
    inputs |= {"cu_seq_lens_q": on_device, "max_length_q": int(lengths.max())}
    with packed(body):
        states: Tensor = body(input_ids=ids.flatten()[chosen][None], attention_mask=None, **inputs)[0]
    return States(states[0], on_device[:-1].long())


def _fill(texts: Sequence[Sequence[np.ndarray]], marks: Sequence[Sequence[int]], padding: int) -> Filled:
    """Rows of marks, text, marks, text ... marks: texts, the sentences of each place; marks, one more than texts."""
    sizes = np.array([[len(one) for one in side] for side in texts], dtype=np.int64)  # (sides, rows)
    rows = np.arange(sizes.shape[1])
    lengths = sizes.sum(axis=0) + sum(map(len, marks))
    ids = np.full((len(rows), int(lengths.max())), padding, dtype=np.int64)
    content = np.zeros(ids.shape, dtype=bool)
    place, places = np.zeros(len(rows), dtype=np.int64), np.arange(ids.shape[1])[None, :]
    for number, some in enumerate(marks):
        for each in some:
            ids[rows, place] = each
            place = place + 1
        if number < len(texts):
            inside = (places >= place[:, None]) & (places < (place + sizes[number])[:, None])
            ids[inside] = np.concatenate(texts[number])
            content |= inside
            place = place + sizes[number]
    # The first mark between two sentences ends the first one; what follows it begins the second.
    second = lengths if len(texts) == 1 else len(marks[0]) + sizes[0] + min(1, len(marks[1]))
    return Filled(ids, content, lengths, second)
