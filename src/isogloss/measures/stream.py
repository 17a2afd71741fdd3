"""Linear CKA of many languages over a stream of vectors: one pass, every pair, value and interval and floor together.

The holder over the pure functions of `streaming` (the exact value) and `blocks` (interval and floor).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.blocks import block_gram, cka_from_blocks, gram_hsic, jackknife, leave_one_out, shuffled_hsic
from isogloss.measures.inputs import matrix, mean_row
from isogloss.measures.streaming import (
    PairSums,
    SideSums,
    cka_from_sums,
    floor_from_sums,
    pair_sums,
    shift,
    side_sums,
)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, what chance gives, and the number of items: what a row of the table needs."""

    value: float
    low: float
    high: float
    floor: float
    n: int


class CkaStream:
    """Accumulates one layer of several languages whose items correspond.

    Rows are gathered into blocks of `block` items before anything is summed, so the answers do not depend on how the
    stream was cut into chunks. Each language is summed once and each pair once; what is kept is of size d x d, plus
    three numbers a pair and block, plus less than one block of rows. The last, incomplete block counts in the value
    and not in the interval.

    >>> x = torch.arange(24.0).reshape(12, 2).sin()
    >>> stream = CkaStream([("en", "nl")], block=4)
    >>> stream.update({"en": x[:7], "nl": 2 * x[:7]})
    >>> stream.update({"en": x[7:], "nl": 2 * x[7:]})
    >>> round(stream.estimate("en", "nl").value, 6)
    1.0
    """

    def __init__(self, pairs: Sequence[Pair], *, block: int = 128, shuffles: int = 4, seed: int = 0) -> None:
        if block < 4:
            raise InputError(f"a block for debiased CKA needs at least 4 items, not {block}")
        self.pairs = tuple(pairs)
        self.languages = tuple(dict.fromkeys(language for pair in self.pairs for language in pair))
        self.block = block
        self.shuffles = shuffles
        self._generator = torch.Generator().manual_seed(seed)
        self._pending: dict[str, Tensor] = {}
        self._references: dict[str, Tensor] = {}
        self._sides: dict[str, SideSums] = {}
        self._pairs: dict[Pair, PairSums] = {}
        self._values: list[Tensor] = []  # one (languages, languages) a block
        self._shuffled: list[Tensor] = []  # one (shuffles, languages, languages) a block

    def update(self, chunks: Mapping[str, Tensor]) -> None:
        """Take in the next rows of every language: language -> (b, d), the same items in the same order."""
        rows = {language: matrix(chunks[language], name=language) for language in self.languages}
        if len({x.shape[0] for x in rows.values()}) > 1:
            counts = ", ".join(f"{language} {x.shape[0]}" for language, x in rows.items())
            raise InputError(f"a chunk must hold the same items in every language: {counts}")
        if self._pending:
            rows = {language: torch.cat([self._pending[language], x]) for language, x in rows.items()}
        start = 0
        total = rows[self.languages[0]].shape[0]
        while total - start >= self.block:
            self._take({language: x[start : start + self.block] for language, x in rows.items()})
            start += self.block
        # A clone, so that a few waiting rows do not keep the caller's whole chunk alive.
        self._pending = {language: x[start:].clone() for language, x in rows.items()}

    def estimate(self, source: str, target: str, *, biased: bool = False) -> Estimate:
        """Linear CKA of two languages over all items so far.

        The interval of the debiased value is a delete-one-block jackknife placed around the exact value; its floor is
        the mean over shuffles inside the blocks. The biased value has the exact mean over all shuffles as its floor,
        and no interval: its bias depends on n, so that blocks say nothing about the whole.
        """
        x, y, pair = self._sums(source, target)
        value = cka_from_sums(x, y, pair, biased=biased)
        if biased or not self._values:
            return Estimate(value, math.nan, math.nan, floor_from_sums(x, y, biased=biased), x.n)
        terms = self._terms(source, target)
        i, j = self.languages.index(source), self.languages.index(target)
        _, low, high = jackknife(terms, value=value)
        return Estimate(value, low, high, self._floor(terms, i, j), x.n)

    def leave_one_out(self, source: str, target: str) -> Tensor:
        """Debiased CKA of two languages without each block in turn, (blocks,): for means and differences."""
        return leave_one_out(self._terms(source, target))

    def _terms(self, source: str, target: str) -> Tensor:
        """HSIC values of one pair, (blocks, 3) in the order xy, xx, yy."""
        if not self._values:
            return torch.zeros((0, 3), dtype=torch.float64)
        i, j = self.languages.index(source), self.languages.index(target)
        grid = torch.stack(self._values)  # (blocks, languages, languages)
        return torch.stack([grid[:, i, j], grid[:, i, i], grid[:, j, j]], dim=1)

    def _floor(self, terms: Tensor, i: int, j: int) -> float:
        if not self.shuffles:
            return 0.0
        shuffled = torch.stack(self._shuffled)[:, :, i, j].mean(dim=1)  # (blocks,)
        return cka_from_blocks(torch.stack([shuffled, terms[:, 1], terms[:, 2]], dim=1))

    def _take(self, rows: Mapping[str, Tensor]) -> None:
        if not self._references:
            self._references = {language: mean_row(x) for language, x in rows.items()}
        sides, pairs = _summed(rows, self._references, self.pairs)
        self._sides = {key: self._sides[key] + part if self._sides else part for key, part in sides.items()}
        self._pairs = {key: self._pairs[key] + part if self._pairs else part for key, part in pairs.items()}
        grams = torch.stack([block_gram(rows[language]) for language in self.languages])
        self._values.append(gram_hsic(grams, grams))
        if self.shuffles:
            self._shuffled.append(shuffled_hsic(grams, grams, generator=self._generator, shuffles=self.shuffles))

    def _sums(self, source: str, target: str) -> tuple[SideSums, SideSums, PairSums]:
        """The sums of one pair with the waiting rows included; the state stays as it is."""
        pair = (source, target)
        if pair not in self.pairs:
            raise InputError(f"the pair {pair} is not accumulated; the pairs are {', '.join(map(str, self.pairs))}")
        if not self._pending and not self._sides:
            raise InputError("no vectors have been taken in yet")
        rows = {language: self._pending[language] for language in pair}
        if rows[source].shape[0] == 0:
            return self._sides[source], self._sides[target], self._pairs[pair]
        references = self._references or {language: mean_row(x) for language, x in rows.items()}
        sides, pairs = _summed(rows, references, [pair])
        if not self._sides:
            return sides[source], sides[target], pairs[pair]
        return (
            self._sides[source] + sides[source],
            self._sides[target] + sides[target],
            self._pairs[pair] + pairs[pair],
        )


def _summed(
    rows: Mapping[str, Tensor], references: Mapping[str, Tensor], pairs: Sequence[Pair]
) -> tuple[dict[str, SideSums], dict[Pair, PairSums]]:
    """Each language shifted and summed once, each pair once."""
    shifted = {language: shift(x, references[language]) for language, x in rows.items()}
    sides = {language: side_sums(x) for language, x in shifted.items()}
    return sides, {(a, b): pair_sums(shifted[a], shifted[b]) for a, b in pairs}
