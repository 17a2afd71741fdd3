"""Pairs of translations as token ids on disk: written once, then read pair by pair at any place.

Sides lie end to end, without special tokens: source 1, target 1, source 2, ... Where each begins is a second array.
Both are plain `.npy` files, memory-mapped, so that text larger than memory works; the counts are a `.json` file.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from isogloss.errors import InputError
from isogloss.files import whole, write_text
from isogloss.progress import Progress, silent
from isogloss.text.fixedmasks import splitmix
from isogloss.text.parallel import Pair
from isogloss.text.sampling import Mixture, shares, turn_of
from isogloss.text.streams import HEADER, write_header

_AT_ONCE = 2_000  # pairs
_ROUNDS = 4


@dataclass(frozen=True)
class Borders:
    """The special tokens around one sentence, and around, between and after the two of a pair.

    BERT: `[CLS]` a `[SEP]`, and `[CLS]` a `[SEP]` b `[SEP]`; RoBERTa has two marks between.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    pair_before: tuple[int, ...]
    between: tuple[int, ...]
    pair_after: tuple[int, ...]

    @property
    def single(self) -> int:
        """Special tokens of one sentence."""
        return len(self.before) + len(self.after)

    @property
    def pair(self) -> int:
        """Special tokens of a pair."""
        return len(self.pair_before) + len(self.between) + len(self.pair_after)


def borders_of(tokenizer: Any) -> Borders:
    """What a tokenizer puts around sentences; known by which tokens stand for no text, never by their place."""
    if not tokenizer.is_fast:
        raise InputError("pairs are packed by a fast tokenizer, which this model has not; choose another model")
    one, two = tokenizer("a"), tokenizer("a", "a")
    single, pair = _parted(one, 1), _parted(two, 2)
    return Borders(single[0], single[1], pair[0], pair[1], pair[2])


@dataclass(frozen=True)
class PairStream:
    """The pairs of two languages as ids.

    ids (tokens,): unsigned; begins (2 * pairs + 1,): where each side begins, and the end. left_out: pairs with an empty
    side. cut: pairs that are longer than the model reads, or have a side that is; such a side is cut here.
    """

    languages: tuple[str, str]
    ids: np.ndarray
    begins: np.ndarray
    left_out: int
    cut: int

    def __len__(self) -> int:
        """Number of pairs."""
        return (len(self.begins) - 1) // 2

    def sides(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Source and target of one pair, ids without special tokens."""
        first, second, end = self.begins[2 * number : 2 * number + 3]
        return self.ids[first:second], self.ids[second:end]


def pack_pairs(
    tokenizer: Any,
    pairs: Iterable[Pair],
    path: Path,
    *,
    languages: tuple[str, str],
    longest: int,
    progress: Progress = silent,
) -> PairStream:
    """Write pairs as token ids to `path` (`.npy`), where they begin and their counts beside it, whole or not at all.

    longest: tokens the model reads, special ones included. A `[MASK]` or `[SEP]` written in the text is text.

    >>> len(pack_pairs(tokenizer, [("a cat", "een kat")], Path("en-nl.npy"), **how))  # doctest: +SKIP
    1
    """
    borders = borders_of(tokenizer)
    machine = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())  # a copy: truncation is left in the tokenizer
    machine.no_truncation()
    machine.no_padding()
    machine.encode_special_tokens = True
    kind, room = np.dtype("<u2" if len(tokenizer) <= 2**16 else "<u4"), longest - borders.single
    tokens = count = left_out = cut = 0
    begins_path, facts_path = _beside(path)
    facts_path.unlink(missing_ok=True)  # counts never stand beside ids they are not of
    with whole(path) as flat, whole(begins_path) as places, flat.open("wb") as file, places.open("wb") as index:
        file.write(bytes(HEADER))
        index.write(bytes(HEADER))
        for chunk in _chunks(pairs):
            sides = [
                machine.encode_batch_fast([one[side] for one in chunk], add_special_tokens=False) for side in (0, 1)
            ]
            found = [(one.ids, other.ids) for one, other in zip(*sides, strict=True) if one.ids and other.ids]
            left_out += len(chunk) - len(found)
            cut += sum(_too_long(*one, longest, borders) for one in found)
            kept = [np.array(side[:room], dtype=kind) for one in found for side in one]
            lengths = np.array([len(side) for side in kept], dtype=np.int64)
            index.write((tokens + np.cumsum(lengths) - lengths).astype("<i8").tobytes())
            file.write(np.concatenate(kept).tobytes() if kept else b"")
            tokens, count = tokens + int(lengths.sum()), count + len(found)
            progress(f"packing {'-'.join(languages)}", count, count)
        index.write(np.array([tokens], dtype="<i8").tobytes())
        write_header(file, kind, tokens)
        write_header(index, np.dtype("<i8"), 2 * count + 1)
    facts = _Facts(languages, count, left_out, cut)
    write_text(facts_path, json.dumps(asdict(facts), indent=1))
    return open_pairs(path)


def open_pairs(path: Path) -> PairStream:
    """The pairs that `pack_pairs` wrote to this path; ids and places stay on disk."""
    begins_path, facts_path = _beside(path)
    try:
        facts = _Facts(**json.loads(facts_path.read_text(encoding="utf-8")))
        begins = np.load(begins_path, mmap_mode="r").view(np.ndarray)
        ids = np.load(path, mmap_mode="r").view(np.ndarray) if facts.pairs else np.load(path)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} holds no packed pairs ({error}); pack the text again") from error
    if len(begins) != 2 * facts.pairs + 1 or int(begins[-1]) != len(ids):
        raise InputError(f"{path} does not hold the {facts.pairs:,} pairs its counts speak of; pack the text again")
    languages = (facts.languages[0], facts.languages[1])
    return PairStream(languages, ids, begins, facts.left_out, facts.cut)


class PairSampler:
    """Which pairs a step sees, a pure function of the seed and the step; memory does not grow with the text.

    sizes: pairs of each group (`en-nl`), which is drawn in proportion to its size to the power of `exponent`. Within a
    group an epoch sees every pair once, in a new order.
    """

    def __init__(self, sizes: dict[str, int], *, exponent: float, seed: int) -> None:
        self.groups, self._sizes, self._seed = list(sizes), np.array(list(sizes.values()), dtype=np.int64), seed
        self._mixture = Mixture(shares(sizes, exponent=exponent), turn_of(seed, len(sizes)))

    def rows(self, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Group and pair number of every row of a step, (batch,) int64 each; groups in the order of `sizes`."""
        groups, within = self._mixture.rows(step, batch)
        sizes = self._sizes[groups]
        epochs, places = np.divmod(within, sizes)
        orders, owners = np.unique(np.stack([groups, epochs]), axis=1, return_inverse=True)
        keys = np.stack([_round_keys(self._seed, *order) for order in orders.T.tolist()])
        return groups, _permuted(places, sizes, keys[owners.reshape(-1)])

    def epochs(self, step: int, batch: int) -> dict[str, float]:
        """How often each group's pairs have been seen before this step."""
        counts = self._mixture.before(step * batch)
        return {name: counts[i] / int(self._sizes[i]) for i, name in enumerate(self.groups)}


def shuffled(places: np.ndarray, size: int, *, key: list[int]) -> np.ndarray:
    """Where places of 0..size-1 go under a random permutation that is never written out.

    A Feistel network permutes the numbers below a power of 4; a number that lands beyond `size` goes through it again
    until it does not (Black & Rogaway 2002), which again is a permutation.

    >>> sorted(shuffled(np.arange(5), 5, key=[0]).tolist())
    [0, 1, 2, 3, 4]
    """
    keys = np.broadcast_to(_round_keys(*key), (len(places), _ROUNDS))
    return _permuted(places, np.full(len(places), size, dtype=np.int64), keys)


@lru_cache(maxsize=256)
def _round_keys(*key: int) -> np.ndarray:
    """What the rounds of a permutation mix in, (rounds,) uint64."""
    return np.random.default_rng(key).integers(2**64, size=_ROUNDS, dtype=np.uint64)


def _permuted(places: np.ndarray, sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """`shuffled` of places that are each below a size of its own, with keys (places, rounds) of its own."""
    bits = np.frexp(np.maximum(sizes - 1, 1).astype(np.float64))[1]  # as `int.bit_length`
    half = ((bits + 1) // 2).astype(np.uint64)
    mask = (np.uint64(1) << half) - np.uint64(1)
    found, outside = places.astype(np.uint64), np.arange(len(places))
    while len(outside):
        h, m, rounds = half[outside], mask[outside], keys[outside].T
        left, right = found[outside] >> h, found[outside] & m
        for one in rounds:
            left, right = right, left ^ (splitmix(right ^ one) & m)
        found[outside] = (left << h) | right
        outside = outside[found[outside] >= sizes[outside].astype(np.uint64)]
    return found.astype(np.int64)


@dataclass(frozen=True)
class _Facts:
    """What the `.json` file holds."""

    languages: tuple[str, str]
    pairs: int
    left_out: int
    cut: int


def _parted(encoded: Any, sides: int) -> list[tuple[int, ...]]:
    """Special tokens before, between and after the sides."""
    found: list[list[int]] = [[] for _ in range(sides + 1)]
    reached = 0
    for token, side in zip(encoded["input_ids"], encoded.sequence_ids(0), strict=True):
        if side is None:
            found[reached].append(token)
        else:
            reached = side + 1
    return [tuple(one) for one in found]


def _too_long(first: list[int], second: list[int], longest: int, borders: Borders) -> bool:
    return len(first) + len(second) + borders.pair > longest or max(len(first), len(second)) + borders.single > longest


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    rest = iter(pairs)
    while chunk := list(islice(rest, _AT_ONCE)):
        yield chunk


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_suffix(".begins.npy"), path.with_suffix(".json")
