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

`ALIGNERS["fast_align"]` follows that tool link by link: no warm-up, and lambda, its tension, is fitted too.

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
METHODS = ("intersection", "union", "grow-diag", "grow-diag-final-and")
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
    second link, which is how one word comes to translate two. As in SimAlign's own program, there is no round after the
    first where a side has at most two words, and none once every word of a side is linked.

    Args:
        x: (source words, d) one vector for each word of the source sentence.
        y: (target words, d) the same for the target sentence.
        rounds: how often to choose.
        discount: factor on pairs of which one word is linked.

    Returns:
        Links (i, j) in rising order.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-0.2, 1.0]])
    >>> y = torch.tensor([[1.0, 0.0], [1.0, 0.4], [0.0, 1.0]])
    >>> itermax_links(x, y, rounds=1), itermax_links(x, y)
    ([(0, 0), (1, 2)], [(0, 0), (0, 1), (1, 2), (2, 2)])
    """
    x, y = (normalize(double(matrix(side, name=name, at_least=0)), dim=1) for side, name in ((x, "x"), (y, "y")))
    same_width(x, y, "words to link need vectors of the same width")
    closeness = np.maximum((1.0 + (x @ y.T).cpu().numpy()) / 2.0, 0.0)  # rounding can leave -1e-16
    linked = np.zeros(closeness.shape, dtype=bool)  # (source words, target words)
    for _ in range(rounds if min(linked.shape) > 2 else min(rounds, 1)):
        linked_sources, linked_targets = linked.any(axis=1, keepdims=True), linked.any(axis=0, keepdims=True)
        if linked_sources.all() or linked_targets.all():
            break
        linked_ends = linked_sources.astype(int) + linked_targets  # how many words of each pair are linked already
        # Both ends linked is closed, not merely worth 0: with a discount of 0, zeros would tie and be chosen.
        scores = np.where(linked_ends == 2, -1.0, closeness * np.where(linked_ends == 1, discount, 1.0))
        # Cells that are the first largest of their row and of their column.
        best_target, best_source = scores.argmax(axis=1), scores.argmax(axis=0)
        sources = np.flatnonzero(best_source[best_target] == np.arange(len(scores)))
        sources = sources[linked_ends[sources, best_target[sources]] < 2]
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

    `intersection` keeps what both found, `union` what either found. `grow-diag` (Koehn et al. 2003) starts from the
    intersection and goes through the rest of the union in rising order, again and again until nothing changes: a link
    is added that touches a kept one, also diagonally, and brings in a word with no link yet. `grow-diag-final-and` then
    adds links of either direction, forward first, of which both words have none. The order is that of fast_align's
    atools: it decides which of two links that want the same word is kept.

    >>> combine([(0, 0), (1, 1), (1, 2)], [(0, 0), (1, 1)], method="grow-diag-final-and")
    [(0, 0), (1, 1), (1, 2)]
    """
    require(method in METHODS, f"links cannot be joined by {method!r}; choose one of {', '.join(METHODS)}")
    links, either = set(forward) & set(backward), set(forward) | set(backward)
    if method == "intersection":
        return sorted(links)
    if method == "union" or links == either:
        return sorted(either)
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def link(i: int, j: int) -> None:
        links.add((i, j))
        sources.add(i)
        targets.add(j)

    before = -1
    while before < len(links):
        before = len(links)
        for i, j in sorted(either - links):
            near = ((i + down, j + right) in links for down in (-1, 0, 1) for right in (-1, 0, 1))
            if not (i in sources and j in targets) and any(near):
                link(i, j)
    for i, j in [*sorted(forward), *sorted(backward)] if method == "grow-diag-final-and" else ():
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
    """The numbers that are not fitted, and which aligner is followed.

    prior: lambda, how strongly links keep to the diagonal; null: p0, the probability that a word has no counterpart;
    smoothing: the Dirichlet parameter of the translation table, 0 for plain maximum likelihood; fast_align: give the
    links of `fast_align -d -o -v`. It has no rounds of model 1, fits lambda from where `prior` starts it
    (`fit_tension`), tells words that differ in case apart, and its last iteration is the one that links.
    """

    prior: float = 4.0
    null: float = 0.08
    smoothing: float = 0.01
    fast_align: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.null < 1 and self.smoothing >= 0):
            raise InputError(f"null must lie in [0, 1) and smoothing not be negative: {self}")


ALIGNERS = {"ibm2": Model(), "fast_align": Model(fast_align=True)}


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
    model: Model = ALIGNERS["ibm2"],
    extra: tuple[Sentences, Sentences] | None = None,
) -> list[list[Link]]:
    """Link the words of sentences that translate each other.

    Args:
        source: words of each source sentence; case is ignored, except as fast_align.
        target: words of each target sentence.
        iterations: rounds of model 1, and then of model 2, in each direction; as fast_align, its option -I.
        symmetrise: how the directions are joined: `intersection`, `union`, `grow-diag` or `grow-diag-final-and`.
        model: the numbers of the model that are not fitted; `ALIGNERS["fast_align"]` follows that tool.
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
    met = count_words([*source, *extra[0]], [*target, *extra[1]], ignore_case=not model.fast_align)
    directions = []
    for stage in ("aligning words", "aligning words back"):
        table, fitted = fit(met, model, iterations=iterations, stage=stage)
        directions.append(best_links(met, table, model=fitted, sentences=len(source)))
        del table  # as large as the counts: not kept while the other direction is fitted
        met = flip(met)
    return [
        combine(links, [(i, j) for j, i in flipped], method=symmetrise)
        for links, flipped in zip(*directions, strict=True)
    ]


def count_words(source: Sentences, target: Sentences, *, ignore_case: bool = True) -> Cooccurrence:
    """Number the words and the pairs of words that meet; sentence pairs with an empty side are left out."""
    source_rows, source_words = _number(source, ignore_case)
    target_rows, target_words = _number(target, ignore_case)
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


def expect(met: Cooccurrence, table: TranslationTable, *, model: Model) -> tuple[TranslationTable, float, float]:
    """Share out every target word under t: the expected counts, and two sums over the target words.

    The sums are the log-likelihood, and the expected distance of links from the diagonal, |i/n - j/m|. In the latter,
    as in fast_align, i counts from 1 but j from 0.
    """
    counts = TranslationTable(np.zeros_like(table.words), np.zeros_like(table.null))
    likelihood = distance = 0.0
    for block in met.blocks:
        _, m, n = block.pairs.shape
        written, unwritten = _terms(block, table, model=model)  # (k, m, n), (k, m)
        total = written.sum(axis=2) + unwritten
        written /= total[:, :, None]
        np.add.at(counts.words, block.pairs.astype(np.intp).ravel(), written.ravel())
        np.add.at(counts.null, block.target.astype(np.intp).ravel(), (unwritten / total).ravel())
        likelihood += float(np.log(total).sum())
        distance += float((written.sum(axis=0) * _distances(n, m, first=0)).sum())
    return counts, likelihood, distance


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


def fit(
    met: Cooccurrence, model: Model, *, iterations: int = 5, stage: str = "aligning words"
) -> tuple[TranslationTable, Model]:
    """Fit t by `iterations` rounds of model 1 (lambda = 0), then as many with the diagonal prior.

    As fast_align, by `iterations` - 1 rounds with the diagonal prior, whose lambda is fitted after each but the first.
    Returns t, and the model with the lambda to link with.
    """
    table = TranslationTable(np.ones(len(met.pair_source)), np.ones(met.target_words))
    warm_up, rounds = (0, iterations - 1) if model.fast_align else (iterations, 2 * iterations)
    for done in range(rounds):
        current = replace(model, prior=0.0) if done < warm_up else model
        counts, _, distance = expect(met, table, model=current)
        table = maximise(met, counts, smoothing=model.smoothing)
        if model.fast_align and done:
            model = replace(model, prior=fit_tension(met, distance, tension=model.prior))
        progress(stage, done + 1, rounds)
    return table, model


def fit_tension(met: Cooccurrence, distance: float, *, tension: float) -> float:
    """Move lambda to where the prior expects links to lie as far from the diagonal as they do, by eight gradient steps.

    The derivative of the expected log-likelihood by lambda is the distance that the prior expects less the one found
    (Dyer, Chahuneau and Smith 2013), here as means over the target words; the step is 20 times that, and lambda
    stays within 0.1 and 14. distance: the sum found by `expect`.

    The prior expects sum_i |i/n - j/m| exp(-lambda |i/n - j/m|) / Z_j of target word j. As in fast_align, whose links
    could not be met otherwise, Z_j is formed with n and m exchanged: the sum of exp(-lambda |k/m - j/n|) over k = 1 to
    m, and where j > n over all k from 1 on. With x = j m / n this is two geometric series, down from floor(x) and up
    from floor(x) + 1, of ratio exp(-lambda / m).
    """
    shapes: Counter[tuple[int, ...]] = Counter()
    for block in met.blocks:
        shapes[block.pairs.shape[1:]] += len(block.rows)
    target_words = max(1, sum(m * sentences for (m, _), sentences in shapes.items()))
    for _ in range(8):
        expected = 0.0
        for (m, n), sentences in shapes.items():
            distances, j, ratio = _distances(n, m), np.arange(1, m + 1), np.exp(-tension / m)
            x = j * m / n
            below, above = np.floor(x), np.where(j > n, np.inf, m - np.floor(x))  # terms of the two series
            z = ratio ** (x - below) * (1 - ratio**below) + ratio ** (below + 1 - x) * (1 - ratio**above)
            of_words = (distances * np.exp(-tension * distances)).sum(axis=1) * (1 - ratio) / z  # (m,)
            expected += sentences * float(of_words.sum())
        tension = min(max(tension + 20.0 * (expected - distance) / target_words, 0.1), 14.0)
    return tension


def place_prior(n: int, m: int, *, model: Model) -> Floats:
    """Compute (1 - p0) a(i | j) for n source and m target words, (m, n); every row sums to 1 - p0.

    >>> place_prior(2, 1, model=Model(prior=0.0, null=0.08))
    array([[0.46, 0.46]])
    """
    weights = np.exp(-model.prior * _distances(n, m))  # (m, n)
    return (1.0 - model.null) * weights / weights.sum(axis=1, keepdims=True)


def _distances(n: int, m: int, *, first: int = 1) -> Floats:
    """Compute |i/n - j/m| for i = 1 to n, and m places j from `first` on: (m, n)."""
    return np.abs(np.arange(first, m + first)[:, None] / m - np.arange(1, n + 1) / n)


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


def _number(sentences: Sentences, ignore_case: bool) -> tuple[list[list[int]], int]:
    """Give each word a number in order of appearance; also how many there are."""
    numbers: dict[str, int] = {}
    cased = str.lower if ignore_case else str
    rows = [[numbers.setdefault(cased(word), len(numbers)) for word in words] for words in sentences]
    return rows, len(numbers)
