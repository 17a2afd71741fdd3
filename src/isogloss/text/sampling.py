"""Held-out text and the sampling of training batches, as pure functions of the text, the seed and the step.

Whether a paragraph is held out depends on the paragraph alone. A hash of its characters gives a number in [0, 1), and
the paragraphs below the held-out share are held out: the decision is the same for every file, order, run and machine,
and for every copy of the paragraph.

Rows are numbered through the whole of training. Row g belongs to the language whose interval of [0, 1) contains (u + g
/ golden ratio) mod 1; the intervals are as long as the languages' shares. Such a sequence fills [0, 1) evenly (Weyl),
so every batch has nearly the target mixture. Within a language, streams are visited in a random order without repeats;
each epoch has a new order and new cutting points. Pairs of translations are drawn in the same way.

So a run can be resumed at any step, and a process can compute its part of a batch, without any saved state.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from isogloss.errors import require

_TURN = 2**64  # represents 1: numbers in [0, 1) are uint64, which wraps around by itself
_STRIDE = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd
_ROUNDS = 4


def hash_fraction(paragraph: str) -> float:
    """Hash a paragraph to a number in [0, 1): uniform, stable across versions, and independent of spacing.

    A share of the text is held out for evaluation by holding out paragraphs with numbers below that share.

    >>> hash_fraction("The cat sleeps.") == hash_fraction("  The  cat sleeps. ")
    True
    """
    text = " ".join(unicodedata.normalize("NFC", paragraph).split())
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"isogloss").digest()
    return int.from_bytes(digest, "big") / 2**64


def shares(sizes: Mapping[str, int], *, exponent: float) -> dict[str, float]:
    """The share of each language in the mixture: p_l = sizes_l ** exponent / sum_k sizes_k ** exponent.

    An exponent of 1 keeps the proportions of the text, 0 makes all languages equal.

    >>> shares({"en": 900, "nl": 100}, exponent=0.5)
    {'en': 0.75, 'nl': 0.25}
    """
    weights = {language: float(size) ** exponent for language, size in sizes.items()}
    total = sum(weights.values())
    return {language: weight / total for language, weight in weights.items()}


class Mixture:
    """The group of each row of training, and its index within that group.

    weights: shares of the groups. The running counts only save time; no result depends on earlier calls.
    """

    def __init__(self, weights: Mapping[str, float], *, seed: int) -> None:
        # No group has the number len(weights), so this draw is independent of those of groups.
        chance = np.random.default_rng([seed, len(weights)])
        self._start = int(chance.integers(_TURN, dtype=np.uint64, endpoint=False))
        ends = np.cumsum(list(weights.values()))
        self._ends = [min(int(float(end) * _TURN), _TURN) for end in ends[:-1]] + [_TURN]
        self._borders = np.array(self._ends[:-1], dtype=np.uint64)
        self._reached = (0, [0] * len(weights))  # a row number, and the rows of each group before it

    def rows(self, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Group of every row of a step, and its index within that group, (batch,) int64 each."""
        first = step * batch
        after = list(self.before(first))
        numbers = np.arange(first, first + batch, dtype=np.uint64)
        points = np.uint64(self._start) + numbers * np.uint64(_STRIDE)
        groups = np.searchsorted(self._borders, points, side="right").astype(np.int64)
        within = np.empty(batch, dtype=np.int64)
        for group in range(len(after)):
            mine = np.flatnonzero(groups == group)
            within[mine] = after[group] + np.arange(len(mine))
            after[group] += len(mine)
        self._reached = (first + batch, after)
        return groups, within

    def before(self, row: int) -> list[int]:
        """The number of rows of each group before this row."""
        if self._reached[0] == row:
            return self._reached[1]
        # Points below `end` among the first `row`: x mod m < t exactly when floor(x / m) - floor((x - t) / m) is 1, so
        # their number is a difference of two sums of floors. Adding m - t keeps the second one non-negative.
        upper = _floor_sum(row, _TURN, _STRIDE, self._start) + row
        below = [0, *(upper - _floor_sum(row, _TURN, _STRIDE, self._start + _TURN - end) for end in self._ends)]
        return [high - low for low, high in zip(below, below[1:], strict=False)]


class Sampler:
    """Rows of training text for any step.

    The cached orders only save time; no result depends on earlier calls.

    Args:
        tokens: number of token ids of each language.
        length: tokens in a row.
        exponent: languages are sampled in proportion to tokens ** exponent.
        seed: determines the order.

    >>> sampler = Sampler({"en": 1_000, "nl": 500}, length=100, seed=0)
    >>> languages, starts = sampler.rows(0, 4)
    >>> languages.shape, starts.shape
    ((4,), (4,))
    """

    def __init__(self, tokens: Mapping[str, int], *, length: int, exponent: float = 0.7, seed: int) -> None:
        for language, count in tokens.items():
            few = f"{language} has only {count:,} tokens, fewer than one stream of {length}"
            require(count >= length, f"{few}; give more text or a smaller --length")
        self._tokens, self._length, self._seed = dict(tokens), length, seed
        self._rows = np.array([max(1, count // length - 1) for count in tokens.values()])  # of an epoch
        self._mixture = Mixture(shares(tokens, exponent=exponent), seed=seed)
        self._orders: dict[int, tuple[int, np.ndarray]] = {}  # language -> an epoch and its shuffled starts

    def rows(self, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Language number and start position of every row of a step, (batch,) int64 each.

        A row is `ids[start : start + length]` of its language; languages are numbered in the order of `tokens`.
        """
        languages, numbers = self._mixture.rows(step, batch)
        epochs, positions = np.divmod(numbers, self._rows[languages])
        starts = np.empty(batch, dtype=np.int64)
        for language, epoch in sorted({*zip(languages.tolist(), epochs.tolist(), strict=True)}):
            if self._orders.get(language, (-1,))[0] != epoch:
                random = np.random.default_rng([self._seed, language, epoch])
                rows, tokens = int(self._rows[language]), list(self._tokens.values())[language]
                offset = int(random.integers(tokens - self._length * rows + 1))
                self._orders[language] = epoch, offset + self._length * random.permutation(rows)
            mine = (languages == language) & (epochs == epoch)
            starts[mine] = self._orders[language][1][positions[mine]]
        return languages, starts

    def epochs(self, step: int, batch: int) -> dict[str, float]:
        """The number of epochs of each language's text before this step."""
        counts = self._mixture.before(step * batch)
        return {name: counts[i] / int(self._rows[i]) for i, name in enumerate(self._tokens)}


class ItemSampler:
    """Indices of items, such as pairs of translations or texts, for any step; memory does not grow with their number.

    Within a group an epoch sees every item once, in a new order.

    Args:
        sizes: number of items of each group (`en-nl`).
        exponent: groups are sampled in proportion to size ** exponent.
        seed: determines the order.
    """

    def __init__(self, sizes: Mapping[str, int], *, exponent: float, seed: int) -> None:
        self._names, self._seed = list(sizes), seed
        self._sizes = np.array(list(sizes.values()), dtype=np.int64)
        self._mixture = Mixture(shares(sizes, exponent=exponent), seed=seed)

    def rows(self, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Group and item index of every row of a step, (batch,) int64 each; groups in the order of `sizes`."""
        groups, within = self._mixture.rows(step, batch)
        sizes = self._sizes[groups]
        epochs, positions = np.divmod(within, sizes)
        orders, owners = np.unique(np.stack([groups, epochs]), axis=1, return_inverse=True)
        keys = np.stack([_round_keys(self._seed, *order) for order in orders.T.tolist()])
        return groups, shuffled(positions, sizes, keys[owners.reshape(-1)])

    def epochs(self, step: int, batch: int) -> dict[str, float]:
        """The number of epochs of each group's items before this step."""
        counts = self._mixture.before(step * batch)
        return {name: count / int(size) for name, count, size in zip(self._names, counts, self._sizes, strict=True)}


def splitmix(state: np.ndarray) -> np.ndarray:
    """One step of splitmix64: 64 bits in, 64 bits out that depend on all of them."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@lru_cache(maxsize=256)
def _round_keys(*key: int) -> np.ndarray:
    """The round keys of a permutation, (rounds,) uint64."""
    return np.random.default_rng(key).integers(2**64, size=_ROUNDS, dtype=np.uint64)


def shuffled(positions: np.ndarray, sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Map positions through random permutations that are never stored, (positions,).

    A Feistel network permutes the numbers below a power of 4; a result beyond the size is mapped again until it is not
    (Black & Rogaway 2002), which is again a permutation.

    Args:
        positions: (positions,), each from 0 to its size - 1.
        sizes: (positions,), the size of the permutation of each.
        keys: (positions, rounds) uint64, the round keys of the permutation of each.

    >>> everywhere, key = np.arange(5), np.arange(4, dtype=np.uint64)
    >>> sorted(shuffled(everywhere, np.full(5, 5), np.tile(key, (5, 1))).tolist())
    [0, 1, 2, 3, 4]
    """
    bits = np.frexp(np.maximum(sizes - 1, 1).astype(np.float64))[1]  # as `int.bit_length`
    half = ((bits + 1) // 2).astype(np.uint64)
    mask = (np.uint64(1) << half) - np.uint64(1)
    numbers, outside = positions.astype(np.uint64), np.arange(len(positions))
    while len(outside):
        h, m = half[outside], mask[outside]
        left, right = numbers[outside] >> h, numbers[outside] & m
        for key in keys[outside].T:
            left, right = right, left ^ (splitmix(right ^ key) & m)
        numbers[outside] = (left << h) | right
        outside = outside[numbers[outside] >= sizes[outside].astype(np.uint64)]
    return numbers.astype(np.int64)


def _floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Sum of floor((a * i + b) / m) for i = 0 .. n - 1, in O(log m) steps as in Euclid's algorithm.

    Counts lattice points under a line; reflecting the triangle exchanges a and m.

    >>> _floor_sum(4, 10, 6, 3)  # 0 + 0 + 1 + 2
    3
    """
    total = 0
    while n > 0:
        total += (n - 1) * n // 2 * (a // m) + n * (b // m)
        a, b = a % m, b % m
        top = a * n + b
        if top < m:
            break
        n, b = divmod(top, m)
        m, a = a, m
    return total
