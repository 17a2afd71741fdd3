"""Pairs of translations as rows for a step: a pair in one sequence under masks, and each side alone.

Rows are padded arrays, so that a step can be split into pieces; their lengths stay on the host. Where the hardware
allows, `row_states` takes the padding out again and runs the rows end to end, and nothing waits for the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isogloss.stack.packing import packed
from isogloss.stack.stack import Stack
from isogloss.text.sampling import splitmix
from isogloss.text.streams import Borders, PairStream
from isogloss.training.captured import Captured, drops_attention


@dataclass(frozen=True)
class Texts:
    """Sentences end to end, without special tokens: ids (tokens,), and how many each has, sizes (sentences,)."""

    ids: np.ndarray
    sizes: np.ndarray


Sides = tuple[Texts, Texts]


def read_sides(
    streams: Sequence[PairStream], groups: np.ndarray, numbers: np.ndarray, swapped: np.ndarray | None = None
) -> Sides:
    """Both sides of some pairs.

    groups, numbers (rows,): the stream each is of, and its number there. swapped (rows,) bool: which change sides.
    """
    rows, known = np.arange(len(groups)), np.unique(groups).tolist()
    borders = np.empty((3, len(rows)), dtype=np.int64)
    for group in known:
        mine = groups == group
        borders[:, mine] = streams[group].begins[2 * numbers[mine] + np.arange(3)[:, None]]
    sides = []
    for side in (0, 1):
        own = np.full(len(rows), side) if swapped is None else np.where(swapped, 1 - side, side)
        begins, sizes = borders[own, rows], borders[own + 1, rows] - borders[own, rows]
        tokens, owners = _spans(begins, sizes), np.repeat(groups, sizes)
        ids = np.empty(len(tokens), dtype=np.int64)
        for group in known:
            mine = owners == group
            ids[mine] = streams[group].ids[tokens[mine]]
        sides.append(Texts(ids, sizes))
    return sides[0], sides[1]


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


def fill_single(sentences: Texts, borders: Borders, padding: int) -> Filled:
    """Sentences, each between its borders: `[CLS]` a `[SEP]`."""
    return _fill([sentences], (borders.before, borders.after), padding)


def fill_pairs(sides: Sides, borders: Borders, padding: int, *, longest: int) -> Filled:
    """Both sentences of a pair in one row, `[CLS]` a `[SEP]` b `[SEP]`, cut to `longest` tokens as `fitting` says."""
    sizes = fitting(sides[0].sizes, sides[1].sizes, longest - borders.pair)
    cut = [_cut(side, size) for side, size in zip(sides, sizes, strict=True)]
    return _fill(cut, (borders.pair_before, borders.between, borders.pair_after), padding)


def fitting(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of two sentences that fit into the room together: the longer one is cut, then both to one half.

    >>> fitting(np.array([3, 3, 8]), np.array([4, 9, 9]), 10)
    (array([3, 3, 5]), array([4, 7, 5]))
    """
    kept = np.minimum(first, np.maximum(room - second, room - room // 2))
    return kept, np.minimum(second, room - kept)


def sentence_names(sentences: Texts) -> np.ndarray:
    """A number for each sentence, (sentences,) int64: a hash of its token ids and their order, never 0.

    >>> names = sentence_names(Texts(np.array([7, 8, 8, 7, 7, 8]), np.array([2, 2, 2])))
    >>> bool(names[0] == names[2]), bool(names[0] == names[1])
    (True, False)
    """
    sizes = sentences.sizes
    places = _spans(np.zeros_like(sizes), sizes).astype(np.uint64)
    mixed = splitmix(splitmix(sentences.ids.astype(np.uint64)) ^ places)
    sums = np.append(np.uint64(0), np.cumsum(mixed))  # beyond 64 bits they go on at 0, and differences stay right
    ends = np.cumsum(sizes)
    names = splitmix((sums[ends] - sums[ends - sizes]) ^ sizes.astype(np.uint64)).view(np.int64)
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
    graphs: Captured | None = None,
) -> States:
    """Run rows through a stack, to its last cut.

    ids: (rows, longest), padded; lengths (rows,) and second (rows,), where the second sentence of a pair begins, on the
    host. end_to_end: padding is taken out first, and where there are graphs of the stack, its blocks run as these.
    reset: positions begin again at the second sentence, as in XLM.
    """
    sizes = lengths.numpy() if end_to_end else np.full(len(ids), ids.shape[1])
    begins = np.cumsum(sizes) - sizes
    rows, places = np.repeat(np.arange(len(sizes)), sizes), _spans(np.zeros_like(sizes), sizes)  # (tokens,)
    starts = lengths.numpy() if second is None else second.numpy()
    later = (places >= starts[rows]) & (places < lengths.numpy()[rows])
    positions = (np.where(later, places - starts[rows], places) if reset else places) + stack.first_position
    given = {"position_ids": positions} if end_to_end or reset else {}
    if stack.family.token_types:
        given["token_type_ids"] = (later & stack.tells_types).astype(np.int64)
    if not end_to_end:
        given["attention_mask"] = (places < lengths.numpy()[rows]).astype(np.int64)
    chosen, starting, *others = _sent([rows * ids.shape[1] + places, begins, *given.values()], ids.device)
    inputs = dict(zip(given, others, strict=True))
    if end_to_end:
        return States(_run_packed(stack, ids.flatten()[chosen], starting, int(lengths.max()), inputs, graphs), starting)
    states: Tensor = stack._body(input_ids=ids, **{name: one.view(ids.shape) for name, one in inputs.items()})[0]
    return States(states.flatten(0, 1), starting)


def _run_packed(
    stack: Stack, ids: Tensor, begins: Tensor, longest: int, given: dict[str, Tensor], graphs: Captured | None
) -> Tensor:
    """The rows without their padding, in one row whose borders attention stops at: (tokens,) -> (tokens, width)."""
    borders = torch.nn.functional.pad(begins, (0, 1), value=len(ids))
    if graphs is not None:
        found = graphs.from_text(ids, given["position_ids"], borders, given.get("token_type_ids"))
        if found is not None:
            return found
    body: Any = stack._body
    inputs: dict[str, Any] = {name: one[None] for name, one in given.items()}
    inputs |= {"cu_seq_lens_q": borders.to(torch.int32), "max_length_q": longest}
    with packed(body):
        states: Tensor = body(input_ids=ids[None], attention_mask=None, **inputs)[0]
    return states[0]


def _sent(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Arrays of whole numbers on the device, in one copy."""
    return list(torch.split(to_device(np.concatenate(arrays), device), [len(one) for one in arrays]))


def _spans(begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The numbers from each beginning on, as many as its size says, end to end.

    >>> _spans(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.repeat(begins - before, sizes) + np.arange(int(sizes.sum())))


def _cut(sentences: Texts, sizes: np.ndarray) -> Texts:
    """Sentences with just their first tokens, so many of each."""
    if np.array_equal(sizes, sentences.sizes):
        return sentences
    begins = np.cumsum(sentences.sizes) - sentences.sizes
    return Texts(sentences.ids[_spans(begins, sizes)], sizes)


def _fill(texts: Sequence[Texts], marks: Sequence[Sequence[int]], padding: int) -> Filled:
    """Rows of marks, text, marks, text ... marks: texts, the sentences of each place; marks, one more than texts."""
    lengths = sum((one.sizes for one in texts), np.array(sum(map(len, marks))))
    rows, longest = len(lengths), int(lengths.max())
    ids = np.full(rows * longest, padding, dtype=np.int64)
    content = np.zeros(len(ids), dtype=bool)
    place = np.arange(rows) * longest  # (rows,), where a row goes on
    for number, some in enumerate(marks):
        for each in some:
            ids[place] = each
            place = place + 1
        if number < len(texts):
            inside = _spans(place, texts[number].sizes)
            ids[inside], content[inside] = texts[number].ids, True
            place = place + texts[number].sizes
    # The first mark between two sentences ends the first one; what follows it begins the second.
    second = lengths if len(texts) == 1 else len(marks[0]) + texts[0].sizes + min(1, len(marks[1]))
    return Filled(ids.reshape(rows, longest), content.reshape(rows, longest), lengths, second)
