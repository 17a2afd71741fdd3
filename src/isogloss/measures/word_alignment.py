"""Word alignment: which word of a sentence translates which word of its translation.

A link is a pair (i, j): word i of the source sentence and word j of the target sentence, counted from 0. Links come
from vectors (`argmax_links`, `itermax_links`) or from counting (`align_words`); two directions are joined by `combine`,
doubtful links dropped by `one_to_one`, and all are judged against links made by hand with `alignment_error_rate`.

Links that a layer made may not judge that same layer: use the links of `align_words` for that.

`align_words` is a statistical aligner. Words that translate each other keep turning up in the same sentence pairs, at
about the same relative place, and the aligner counts only that. Every target word f_j, at place j of m, is taken to be
written by one source word e_i, at place i of n, or by none of them (null, with probability p0):

    p(f_j) = p0 t(f_j | null) + (1 - p0) sum over i of a(i | j) t(f_j | e_i)
    a(i | j) in proportion to exp(-lambda |i/n - j/m|), places from 1; lambda = 0 is IBM model 1

This is IBM model 2 with the diagonal prior of fast_align (Dyer, Chahuneau and Smith 2013), warmed up by model 1
(Brown et al. 1993). Expectation: each target word is shared out over the source words by the terms of the sum.
Maximisation: t is estimated anew from these counts under a symmetric Dirichlet prior, by variational Bayes, which
keeps rare words from linking to everything. Both directions are fitted and joined.

Sentence pairs of equal lengths lie in one dense block (sentences, target words, source words) of pair numbers,
cut into `CELLS` cells at most. What stays in memory is four bytes a cell and some numbers a distinct word pair.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma
from torch import Tensor
from torch.nn.functional import normalize

from isogloss.errors import InputError, require
from isogloss.measures.inputs import Sums, double, matrix, same_width
from isogloss.progress import progress

Link = tuple[int, int]
Floats = NDArray[np.float64]
Integers = NDArray[np.int32]
Sentences = Sequence[Sequence[str]]
METHODS = ("intersection", "union", "grow-diag-final-and")
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
CELLS = 1_000_000  # of a block at once


# Links from vectors


def argmax_links(x: Tensor, y: Tensor) -> list[Link]:
    """Link the words that choose each other: i's nearest word is j and j's nearest word is i, by cosine.

    The Argmax of SimAlign (Jalili Sabet et al. 2020): the first round of `itermax_links`, whose x (source words, d) and
    y (target words, d) these are. Of equally near words the first is chosen; each word occurs in one link at most.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> y = torch.tensor([[0.1, 1.0], [1.0, 0.1]])
    >>> argmax_links(x, y)
    [(0, 1), (1, 0)]
    """
    return itermax_links(x, y, rounds=1)


def itermax_links(x: Tensor, y: Tensor, *, rounds: int = 2, discount: float = 0.9) -> list[Link]:
    """Link words that choose each other, then let the words left over choose again.

    The IterMax of SimAlign (Jalili Sabet et al. 2020). Before every round after the first, the closeness
    (1 + cosine) / 2 of words i and j is multiplied by 0 when both are linked already, by `discount` when one is,
    by 1 when neither is; the links of all rounds are kept. `rounds=1` is `argmax_links`. A linked word can get a
    second link, which is how one word comes to translate two.

    Args:
        x: (source words, d) one vector for each word of the source sentence.
        y: (target words, d) the same for the target sentence.
        rounds: how often to choose.
        discount: factor on pairs of which one word is linked.

    Returns:
        Links (i, j) in rising order.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0]])
    >>> y = torch.tensor([[1.0, 0.1], [1.0, 0.2]])
    >>> itermax_links(x, y, rounds=1), itermax_links(x, y)
    ([(0, 0)], [(0, 0), (0, 1)])
    """
    x, y = (normalize(double(matrix(side, name=name, at_least=0)), dim=1) for side, name in ((x, "x"), (y, "y")))
    same_width(x, y, "words to link need vectors of the same width")
    closeness = np.maximum((1.0 + (x @ y.T).cpu().numpy()) / 2.0, 0.0)  # rounding can leave -1e-16
    linked = np.zeros(closeness.shape, dtype=bool)  # (source words, target words)
    for _ in range(rounds):
        # How many words of each pair are linked already: 0, 1 or 2.
        linked_ends = linked.any(axis=1, keepdims=True).astype(int) + linked.any(axis=0, keepdims=True)
        # Both ends linked is closed, not merely worth 0: with a discount of 0, zeros would tie and be chosen.
        scores = np.where(linked_ends == 2, -1.0, closeness * np.where(linked_ends == 1, discount, 1.0))
        if not scores.size:
            break
        # Cells that are the first largest of their row and of their column.
        best_target, best_source = scores.argmax(axis=1), scores.argmax(axis=0)
        sources = np.flatnonzero(best_source[best_target] == np.arange(len(scores)))
        sources = sources[linked_ends[sources, best_target[sources]] < 2]
        if not len(sources):
            break
        linked[sources, best_target[sources]] = True
    return [(int(i), int(j)) for i, j in np.argwhere(linked)]


# Joining and judging links


def one_to_one(links: Collection[Link]) -> list[Link]:
    """Keep the links whose two words have no other link, in rising order.

    >>> one_to_one([(0, 0), (1, 1), (1, 2), (3, 3)])
    [(0, 0), (3, 3)]
    """
    unique = set(links)
    of_source = Counter(i for i, _ in unique)
    of_target = Counter(j for _, j in unique)
    return sorted((i, j) for i, j in unique if of_source[i] == of_target[j] == 1)


def combine(forward: Collection[Link], backward: Collection[Link], *, method: str) -> list[Link]:
    """Join the links of one sentence found in two directions, both written as (source word, target word).

    `intersection` keeps what both found, `union` what either found. `grow-diag-final-and` (Koehn et al. 2003)
    starts from the intersection; adds, until nothing changes, links of the union that touch a kept link, also
    diagonally, and bring in a word with no link yet; then adds links of either direction, forward first, of which
    both words have none.

    >>> combine([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 1)], method="grow-diag-final-and")
    [(0, 0), (1, 1), (1, 2)]
    """
    require(method in METHODS, f"links cannot be joined by {method!r}; choose one of {', '.join(METHODS)}")
    both, either = set(forward) & set(backward), set(forward) | set(backward)
    if method == "intersection":
        return sorted(both)
    if method == "union" or both == either:
        return sorted(either)
    links = both
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def link(i: int, j: int) -> None:
        links.add((i, j))
        sources.add(i)
        targets.add(j)

    grown = True
    while grown and len(links) < len(either):
        grown = False
        for i, j in sorted(links):
            for down, right in NEIGHBOURS:
                near = (i + down, j + right)
                if near in either and near not in links and not (near[0] in sources and near[1] in targets):
                    link(*near)
                    grown = True
    for i, j in [*sorted(forward), *sorted(backward)]:
        if i not in sources and j not in targets:
            link(i, j)
    return sorted(links)


@dataclass(frozen=True)
class AER(Sums):
    """Alignment error rate of a corpus, as the sums it is formed from; 1 - F1 where every possible link is sure.

    With predicted links A, sure links S and possible links P (S among them):
    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision = |A & P| / |A|, recall = |A & S| / |S|.
    Sums of two corpora add up: `first + second`. A ratio over nothing is nan.
    """

    sure_found: int
    possible_found: int
    predicted: int
    sure: int

    @property
    def value(self) -> float:
        """The error rate: 0 is perfect, 1 is nothing right."""
        return 1.0 - _ratio(self.sure_found + self.possible_found, self.predicted + self.sure)

    @property
    def precision(self) -> float:
        """Share of the predicted links that are possible."""
        return _ratio(self.possible_found, self.predicted)

    @property
    def recall(self) -> float:
        """Share of the sure links that were predicted."""
        return _ratio(self.sure_found, self.sure)


def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    *,
    possible: Sequence[Collection[Link]] | None = None,
) -> AER:
    """Judge predicted links against links made by hand (Och and Ney 2003), summed over all sentences.

    Args:
        predicted: links of each sentence.
        sure: links the annotators are sure of, for each sentence.
        possible: links they would accept, for each sentence; sure links count as possible, listed or not. None
            means the sure ones only.

    >>> alignment_error_rate([[(0, 0), (1, 2)]], [[(0, 0), (1, 1)]]).value
    0.5
    """
    accepted = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(accepted):
        counts = f"{len(predicted):,} predicted, {len(sure):,} sure, {len(accepted):,} possible"
        raise InputError(f"links must be given for the same sentences, but there are {counts}")
    total = AER(0, 0, 0, 0)
    for links, sure_links, accepted_links in zip(predicted, sure, accepted, strict=True):
        a, s = set(links), set(sure_links)
        p = s | set(accepted_links)
        total += AER(len(a & s), len(a & p), len(a), len(s))
    return total


def _ratio(part: float, whole: float) -> float:
    """Part over whole, nan over nothing."""
    return part / whole if whole else math.nan


# The statistical aligner


@dataclass(frozen=True)
class Model:
    """The numbers that are not fitted.

    prior: lambda, how strongly links keep to the diagonal; null: p0, the probability that a word has no counterpart;
    smoothing: the Dirichlet parameter of the translation table, 0 for plain maximum likelihood.
    """

    prior: float = 4.0
    null: float = 0.08
    smoothing: float = 0.01

    def __post_init__(self) -> None:
        if not (0 <= self.null < 1 and self.smoothing >= 0):
            raise InputError(f"null must lie in [0, 1) and smoothing not be negative: {self}")


STANDARD = Model()


@dataclass(frozen=True)
class Block:
    """Sentence pairs of one shape: rows (k,); word numbers source (k, n), target (k, m); pairs (k, m, n)."""

    rows: Integers
    source: Integers
    target: Integers
    pairs: Integers


@dataclass(frozen=True)
class Cooccurrence:
    """Which words meet in a sentence pair: the blocks, and the two words of each distinct pair, (pairs,)."""

    blocks: tuple[Block, ...]
    pair_source: Integers
    pair_target: Integers
    source_words: int
    target_words: int


@dataclass(frozen=True)
class TranslationTable:
    """A number, count or t, for each word pair (pairs,) and for each target word with null (target words,)."""

    words: Floats
    null: Floats


def align_words(
    source: Sentences,
    target: Sentences,
    *,
    iterations: int = 5,
    symmetrise: str = "grow-diag-final-and",
    model: Model = STANDARD,
    extra: tuple[Sentences, Sentences] | None = None,
) -> list[list[Link]]:
    """Link the words of sentences that translate each other.

    Args:
        source: words of each source sentence; case is ignored.
        target: words of each target sentence.
        iterations: rounds of model 1, and then of model 2, in each direction.
        symmetrise: how the directions are joined: `intersection`, `union` or `grow-diag-final-and`.
        model: the numbers of the model that are not fitted.
        extra: more (source, target) sentences to count but not to link: a few thousand are weak statistics.

    Returns:
        Links (i, j) of each sentence in rising order; none where a side is empty.

    >>> align_words([["the", "house"], ["the", "book"]], [["das", "Haus"], ["das", "Buch"]])
    [[(0, 0), (1, 1)], [(0, 0), (1, 1)]]
    """
    combine([], [], method=symmetrise)  # refuse an unknown method before the work, not after it
    extra = extra or ([], [])
    for name, (first, second) in (("bitext", (source, target)), ("extra bitext", extra)):
        if len(first) != len(second):
            counts = f"{len(first):,} and {len(second):,}"
            raise InputError(f"the sides of the {name} to align must have equally many sentences: {counts}")
        for row, pair in enumerate(zip(first, second, strict=True)):
            if any(isinstance(words, str) for words in pair):  # letters would be aligned
                raise InputError(f"sentence {row} of the {name} to align is text, not a list of words: {pair}")
    met = count_words([*source, *extra[0]], [*target, *extra[1]])
    directions = []
    for stage in ("aligning words", "aligning words back"):
        table = fit(met, model, iterations=iterations, stage=stage)
        directions.append(best_links(met, table, model=model, sentences=len(source)))
        del table  # as large as the counts: not kept while the other direction is fitted
        met = flip(met)
    return [
        combine(links, [(i, j) for j, i in flipped], method=symmetrise)
        for links, flipped in zip(*directions, strict=True)
    ]


def count_words(source: Sentences, target: Sentences) -> Cooccurrence:
    """Number the words and the pairs of words that meet; sentence pairs with an empty side are left out."""
    source_rows, source_words = _number(source)
    target_rows, target_words = _number(target)
    shapes: dict[tuple[int, int], list[int]] = {}
    for row, (written, read) in enumerate(zip(source_rows, target_rows, strict=True)):
        if written and read:
            shapes.setdefault((len(written), len(read)), []).append(row)
    blocks: list[Block] = []
    distinct: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for (n, m), rows in sorted(shapes.items()):
        step = max(1, CELLS // (n * m))
        for piece in (rows[start : start + step] for start in range(0, len(rows), step)):
            words = np.array([source_rows[row] for row in piece], dtype=np.int32)  # (k, n)
            others = np.array([target_rows[row] for row in piece], dtype=np.int32)  # (k, m)
            # First piece by piece: sorting all cells at once would hold several 64-bit copies of them.
            cells = words[:, None, :].astype(np.int64) * target_words + others[:, :, None]  # (k, m, n)
            keys, inverse = np.unique(cells, return_inverse=True)
            distinct.append(keys)
            numbers = inverse.reshape(cells.shape).astype(np.int32)
            blocks.append(Block(np.array(piece, dtype=np.int32), words, others, numbers))
    merged = np.concatenate(distinct)
    merged.sort()
    merged = merged[np.diff(merged, prepend=-1) > 0]
    for number, keys in enumerate(distinct[1:]):
        numbers = np.searchsorted(merged, keys).astype(np.int32)[blocks[number].pairs]
        blocks[number] = replace(blocks[number], pairs=numbers)
    pair_source, pair_target = (side.astype(np.int32) for side in np.divmod(merged, max(target_words, 1)))
    return Cooccurrence(tuple(blocks), pair_source, pair_target, source_words, target_words)


def flip(met: Cooccurrence) -> Cooccurrence:
    """Exchange source and target; pair numbers stay the same and are not copied."""
    blocks = tuple(
        replace(block, source=block.target, target=block.source, pairs=block.pairs.transpose(0, 2, 1))
        for block in met.blocks
    )
    return Cooccurrence(blocks, met.pair_target, met.pair_source, met.target_words, met.source_words)


def expect(met: Cooccurrence, table: TranslationTable, *, model: Model) -> tuple[TranslationTable, float]:
    """Share out every target word under t: the expected counts, and the log-likelihood of the targets."""
    counts = TranslationTable(np.zeros_like(table.words), np.zeros_like(table.null))
    likelihood = 0.0
    for block in met.blocks:
        written, unwritten = _terms(block, table, model=model)  # (k, m, n), (k, m)
        total = written.sum(axis=2) + unwritten
        written /= total[:, :, None]
        np.add.at(counts.words, block.pairs.astype(np.intp).ravel(), written.ravel())
        np.add.at(counts.null, block.target.astype(np.intp).ravel(), (unwritten / total).ravel())
        likelihood += float(np.log(total).sum())
    return counts, likelihood


def maximise(met: Cooccurrence, counts: TranslationTable, *, smoothing: float) -> TranslationTable:
    """Estimate t(f | e) from the expected counts c(e, f).

    With smoothing s > 0, exp(digamma(c(e, f) + s) - digamma(sum over f of (c(e, f) + s))), the sum over the f
    that meet e; with s = 0, c(e, f) / sum over f of c(e, f).
    """
    words, null = counts.words + smoothing, counts.null + smoothing
    totals = np.bincount(met.pair_source, weights=words, minlength=met.source_words)
    if smoothing == 0:
        tiny = np.finfo(np.float64).tiny  # a total is 0 where nothing was shared out, as for null with p0 = 0
        return TranslationTable(words / np.maximum(totals, tiny)[met.pair_source], null / max(null.sum(), tiny))
    expected = digamma(words) - digamma(totals)[met.pair_source]
    return TranslationTable(np.exp(expected), np.exp(digamma(null) - digamma(null.sum())))


def fit(met: Cooccurrence, model: Model, *, iterations: int = 5, stage: str = "aligning words") -> TranslationTable:
    """Fit t by `iterations` rounds of model 1 (lambda = 0), then as many with the diagonal prior."""
    table = TranslationTable(np.ones(len(met.pair_source)), np.ones(met.target_words))
    rounds = [replace(model, prior=0.0)] * iterations + [model] * iterations
    for done, current in enumerate(rounds, start=1):
        counts, _ = expect(met, table, model=current)
        table = maximise(met, counts, smoothing=model.smoothing)
        progress(stage, done, len(rounds))
    return table


def place_prior(n: int, m: int, *, model: Model) -> Floats:
    """Compute (1 - p0) a(i | j) for n source and m target words, (m, n); every row sums to 1 - p0.

    >>> place_prior(2, 1, model=Model(prior=0.0, null=0.08))
    array([[0.46, 0.46]])
    """
    source_places, target_places = np.arange(1, n + 1) / n, np.arange(1, m + 1) / m
    weights = np.exp(-model.prior * np.abs(target_places[:, None] - source_places[None, :]))  # (m, n)
    return (1.0 - model.null) * weights / weights.sum(axis=1, keepdims=True)


def best_links(met: Cooccurrence, table: TranslationTable, *, model: Model, sentences: int) -> list[list[Link]]:
    """Take the most probable source word of each target word in the first `sentences` rows, unless it is null."""
    links: list[list[Link]] = [[] for _ in range(sentences)]
    for block in met.blocks:
        if block.rows[0] >= sentences:  # rows rise within a block: all of it is extra text
            continue
        written, unwritten = _terms(block, table, model=model)
        item, j = np.nonzero((written.max(axis=2) > unwritten) & (block.rows[:, None] < sentences))
        best = written.argmax(axis=2)[item, j]
        for row, i, target in np.stack([block.rows[item], best, j], axis=1).tolist():
            links[row].append((i, target))
    return [sorted(row) for row in links]


def _terms(block: Block, table: TranslationTable, *, model: Model) -> tuple[Floats, Floats]:
    """Compute the terms of p(f_j): of each source word (k, m, n), and of null (k, m)."""
    _, m, n = block.pairs.shape
    written = table.words[block.pairs] * place_prior(n, m, model=model)
    return written, model.null * table.null[block.target]


def _number(sentences: Sentences) -> tuple[list[list[int]], int]:
    """Give each lower-cased word a number in order of appearance; also how many there are."""
    numbers: dict[str, int] = {}
    rows = [[numbers.setdefault(word.lower(), len(numbers)) for word in words] for words in sentences]
    return rows, len(numbers)
