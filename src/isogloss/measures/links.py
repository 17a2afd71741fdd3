"""Word links: which word of a sentence translates which word of its translation.

A link is a pair (i, j): word i of the source sentence and word j of the target sentence, counted from 0. Links
come from vectors (`argmax_links`, `itermax_links`) or from counting (`isogloss.measures.aligner`); two directions
are joined by `combine`, doubtful links dropped by `one_to_one`, and all are judged against links made by hand with
`alignment_error_rate`.

Links that a layer made may not judge that same layer: use the aligner's for that.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from isogloss.errors import InputError
from isogloss.measures.inputs import double, matrix

Link = tuple[int, int]
METHODS = ("intersection", "union", "grow-diag-final-and")
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def argmax_links(x: Tensor, y: Tensor, *, minimum: float = -1.0) -> list[Link]:
    """Link the words that choose each other: i's nearest word is j and j's nearest word is i, by cosine.

    The Argmax of SimAlign (Jalili Sabet et al. 2020). Pairs whose cosine is below `minimum` stay unlinked; of
    equally near words the first is chosen.

    Args:
        x: (source words, d) one vector for each word of the source sentence.
        y: (target words, d) the same for the target sentence.
        minimum: lowest cosine of a link.

    Returns:
        Links (i, j) in rising order; each word occurs at most once.

    >>> import torch
    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> y = torch.tensor([[0.1, 1.0], [1.0, 0.1]])
    >>> argmax_links(x, y)
    [(0, 1), (1, 0)]

    """
    closeness = _closeness(x, y)
    return _pairs(_mutual(closeness) & (closeness >= (1 + minimum) / 2))


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
    closeness = _closeness(x, y)
    linked = np.zeros(closeness.shape, dtype=bool)  # (source words, target words)
    for _ in range(rounds):
        linked_ends = linked.any(axis=1, keepdims=True).astype(int) + linked.any(
            axis=0, keepdims=True
        )  # 0, 1 or 2 a pair
        # Both ends linked is closed, not merely worth 0: with a discount of 0, zeros would tie and be chosen.
        scores = np.where(linked_ends == 2, -1.0, closeness * np.where(linked_ends == 1, discount, 1.0))
        chosen = _mutual(scores) & (linked_ends < 2)
        if not chosen.any():
            break
        linked |= chosen
    return _pairs(linked)


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
    if method not in METHODS:
        raise InputError(f"links cannot be joined by {method!r}; choose one of {', '.join(METHODS)}")
    both, either = set(forward) & set(backward), set(forward) | set(backward)
    if method == "intersection":
        return sorted(both)
    if method == "union" or both == either:
        return sorted(either)
    return _grow(both, either, (sorted(forward), sorted(backward)))


@dataclass(frozen=True)
class AER:
    """Alignment error rate of a corpus, as the sums it is formed from.

    With predicted links A, sure links S and possible links P (S among them):
    AER = 1 - (|A & S| + |A & P|) / (|A| + |S|), precision = |A & P| / |A|, recall = |A & S| / |S|.
    Sums of two corpora add up: `first + second`. A ratio over nothing is nan.
    """

    sure_found: int
    possible_found: int
    predicted: int
    sure: int

    def __add__(self, other: "AER") -> "AER":
        return AER(
            self.sure_found + other.sure_found,
            self.possible_found + other.possible_found,
            self.predicted + other.predicted,
            self.sure + other.sure,
        )

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

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; equals 1 - AER when every possible link is sure."""
        return _ratio(2.0 * self.precision * self.recall, self.precision + self.recall)


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


def _closeness(x: Tensor, y: Tensor) -> NDArray[np.float64]:
    """Compute (1 + cosine) / 2, (source words, target words): never negative, so that a discount lowers it."""
    x, y = (normalize(double(matrix(side, name=name, at_least=0)), dim=1) for side, name in ((x, "x"), (y, "y")))
    if x.shape[1] != y.shape[1]:
        raise InputError(f"x has vectors of width {x.shape[1]} and y of width {y.shape[1]}; they must be equal")
    return np.maximum((1.0 + (x @ y.T).cpu().numpy()) / 2.0, 0.0)  # rounding can leave -1e-16


def _mutual(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the cells that are the first largest of their row and of their column; scores and result (n, m)."""
    chosen = np.zeros(scores.shape, dtype=bool)
    if scores.size:
        best_target, best_source = scores.argmax(axis=1), scores.argmax(axis=0)
        sources = np.flatnonzero(best_source[best_target] == np.arange(len(scores)))
        chosen[sources, best_target[sources]] = True
    return chosen


def _pairs(linked: NDArray[np.bool_]) -> list[Link]:
    """List the links marked True, in rising order."""
    return [(int(i), int(j)) for i, j in np.argwhere(linked)]


def _grow(both: set[Link], either: set[Link], directions: tuple[list[Link], ...]) -> list[Link]:
    """Grow the links both directions share towards those either has, as `combine` describes."""
    links = set(both)
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(i: int, j: int) -> None:
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
                    add(*near)
                    grown = True
    for direction in directions:
        for i, j in direction:
            if i not in sources and j not in targets:
                add(i, j)
    return sorted(links)


def _ratio(part: float, whole: float) -> float:
    """Part over whole, nan over nothing."""
    return part / whole if whole else math.nan
