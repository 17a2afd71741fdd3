"""Which stretches of text a training step sees: a pure function of the seed and the step.

Rows are numbered through the whole of training. Row g is of the language in whose interval of [0, 1) the number
(u + g / golden ratio) mod 1 falls, intervals as long as the languages' shares. Such a sequence fills [0, 1) evenly
(Weyl), so every batch has nearly the wanted mixture. Within a language, stretches are visited in a random order
without repeats; each epoch has a new order and new cutting points.

A run can so be resumed at any step, and a process can work out its part of a batch, without any state being kept.
"""

from collections.abc import Mapping

import numpy as np

from isogloss.errors import InputError

_TURN = 2**64  # a whole turn of the sequence: uint64 wraps around by itself
_STRIDE = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd


def shares(sizes: Mapping[str, int], *, exponent: float) -> dict[str, float]:
    """How much of the mixture each language gets: p_l = sizes_l ** exponent / sum_k sizes_k ** exponent.

    1 keeps the proportions of the text, 0 makes all languages equal.

    >>> shares({"en": 900, "nl": 100}, exponent=0.5)
    {'en': 0.75, 'nl': 0.25}
    """
    weights = {language: float(size) ** exponent for language, size in sizes.items()}
    total = sum(weights.values())
    return {language: weight / total for language, weight in weights.items()}


class Mixture:
    """Of which group each row of training is, and the how-manieth of that group it is.

    weights: shares of the groups. turn: where the sequence begins, a number below 2^64. The running counts only save
    time; no answer depends on what was asked before.
    """

    def __init__(self, weights: Mapping[str, float], turn: int) -> None:
        self._start = turn
        ends = np.cumsum(list(weights.values()))
        self._ends = [min(int(float(end) * _TURN), _TURN) for end in ends[:-1]] + [_TURN]
        self._borders = np.array(self._ends[:-1], dtype=np.uint64)
        self._reached = (0, [0] * len(weights))  # a row number, and the rows of each group before it

    def rows(self, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Group of every row of a step, and its number within that group, (batch,) int64 each."""
        first = step * batch
        after = list(self.before(first))
        numbers = np.arange(first, first + batch, dtype=np.uint64)
        places = np.uint64(self._start) + numbers * np.uint64(_STRIDE)
        groups = np.searchsorted(self._borders, places, side="right").astype(np.int64)
        within = np.empty(batch, dtype=np.int64)
        for group in range(len(after)):
            mine = np.flatnonzero(groups == group)
            within[mine] = after[group] + np.arange(len(mine))
            after[group] += len(mine)
        self._reached = (first + batch, after)
        return groups, within

    def before(self, row: int) -> list[int]:
        """How many rows of each group come before this row."""
        if self._reached[0] == row:
            return self._reached[1]
        below = [0, *(_count_below(row, self._start, end) for end in self._ends)]
        return [high - low for low, high in zip(below, below[1:], strict=False)]


class Sampler:
    """Rows of training text for any step.

    tokens: how many token ids each language has. length: tokens in a row. The orders it keeps only save time; no
    answer depends on what was asked before.

    >>> sampler = Sampler({"en": 1_000, "nl": 500}, length=100, seed=0)
    >>> languages, starts = sampler.rows(0, 4)
    >>> languages.shape, starts.shape
    ((4,), (4,))
    """

    def __init__(self, tokens: Mapping[str, int], *, length: int, exponent: float = 0.7, seed: int) -> None:
        if seed < 0:
            raise InputError(f"a seed is a whole number from 0 on, not {seed}")
        for language, count in tokens.items():
            if count < length:
                raise InputError(
                    f"{language} has only {count:,} tokens, fewer than one stream of {length}; "
                    "give more text or a smaller --length"
                )
        self.languages = list(tokens)
        self.shares = shares(tokens, exponent=exponent)
        self.length = length
        self._tokens = list(tokens.values())
        self._seed = seed
        self._rows = [max(1, count // length - 1) for count in self._tokens]  # of an epoch
        self._mixture = Mixture(self.shares, turn_of(seed, len(tokens)))
        self._orders: dict[int, dict[int, np.ndarray]] = {number: {} for number in range(len(tokens))}

    def rows(self, step: int, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """Language number and start position of every row of a step, (batch,) int64 each.

        A row is `ids[start : start + length]` of its language; languages are numbered in the order of `tokens`.
        """
        languages, numbers = self._mixture.rows(step, batch)
        starts = np.empty(batch, dtype=np.int64)
        for language in range(len(self.languages)):
            mine = np.flatnonzero(languages == language)
            if len(mine):
                starts[mine] = self._stretches(language, int(numbers[mine[0]]), len(mine))
        return languages, starts

    def epochs(self, step: int, batch: int) -> dict[str, float]:
        """How often each language's text has been seen before this step."""
        counts = self._mixture.before(step * batch)
        return {name: counts[i] / self._rows[i] for i, name in enumerate(self.languages)}

    def _stretches(self, language: int, done: int, count: int) -> np.ndarray:
        """Starts of the next `count` rows of a language after `done` of them, (count,)."""
        size = self._rows[language]
        parts = []
        while count:
            epoch, place = divmod(done, size)
            part = self._order(language, epoch)[place : place + count]
            parts.append(part)
            done, count = done + len(part), count - len(part)
        return np.concatenate(parts)

    def _order(self, language: int, epoch: int) -> np.ndarray:
        """Starts of a language's rows in the order of this epoch, (rows of an epoch,)."""
        kept = self._orders[language]
        if epoch not in kept:
            random = np.random.default_rng([self._seed, language, epoch])
            spare = self._tokens[language] - self.length * self._rows[language]
            offset = int(random.integers(spare + 1))
            kept.clear()
            kept[epoch] = offset + self.length * random.permutation(self._rows[language])
        return kept[epoch]


def turn_of(seed: int, groups: int) -> int:
    """Where a `Mixture` begins; no group has the number `groups`, so this draw is apart from those of groups."""
    return int(np.random.default_rng([seed, groups]).integers(_TURN, dtype=np.uint64, endpoint=False))


def _count_below(count: int, start: int, limit: int) -> int:
    """How many of the first `count` places (start + g * stride) mod 2^64 are below `limit`.

    x mod m < t exactly when floor(x / m) - floor((x - t) / m) is 1, so the answer is a difference of two sums of
    floors. Adding m - t keeps the second one non-negative.
    """
    upper = _floor_sum(count, _TURN, _STRIDE, start)
    lower = _floor_sum(count, _TURN, _STRIDE, start + _TURN - limit)
    return upper - lower + count


def _floor_sum(n: int, m: int, a: int, b: int) -> int:
    """Sum of floor((a * i + b) / m) for i = 0 .. n - 1, in O(log m) steps as in Euclid's algorithm.

    Counts lattice points under a line; turning the triangle around exchanges a and m.

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
