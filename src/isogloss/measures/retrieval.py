"""Retrieval: how often the nearest neighbour in the other language is the translation.

Scores between two sets of vectors are computed in blocks, so that the full n x m matrix is never built. All methods use
unit vectors:

    cosine        cos(x, y)
    csls          2 cos(x, y) - r(x) - r(y), r the mean cosine to the k nearest in the other set (Conneau et al. 2018)
    margin        cos(x, y) / ((r(x) + r(y)) / 2) (Artetxe & Schwenk 2019)
    centred       cosine after subtracting each set's mean
    centred-csls  CSLS after subtracting each set's mean

Plain cosine suffers from hubs: a few candidates that are near to everything and are retrieved for every query. CSLS and
the margin correct for a candidate's mean similarity to its neighbours.

The rank of the right answer is 1 plus the number of wrong candidates that score as high or higher. **Ties count as
errors**: a collapsed encoder with the same vector for every sentence must not score 100%. Scores that differ by less
than rounding (1e-6 in float32) are ties.

Duplicate sentences are a similar trap: both have the same vector, so the right one cannot be distinguished from its
copy. Pass the texts as `keys_x` and `keys_y`; a copy of a right answer then counts as right.
"""

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.inputs import centre_rows, double, matrix, same_width, tensor_of
from isogloss.measures.registry import measure
from isogloss.measures.statistics import Interval, share_interval, wilson_interval

METHODS = ("cosine", "centred", "csls", "centred-csls", "margin")
INDUCTION_METHODS = ("cosine", "csls")

# Scores in memory at a time: 128 MiB in float32. Larger blocks are hardly faster, smaller ones slow the matrix product.
SCORES_AT_ONCE = 2**25

# Largest matrix of cosines that is kept and reused: 16 MiB in float32.
MOST_HELD_COSINES = 2**22

# Cosines of unit vectors that differ by less than this are equal up to rounding.
TIE = {torch.float32: 1e-6, torch.float64: 1e-12}


# Scores and nearest neighbours


@dataclass(frozen=True, eq=False)
class Scoring:
    """The inputs from which blocks of scores are computed.

    Unit rows `x` (n, d) and `y` (m, d) and, for CSLS and the margin, `near`: the mean cosine of each row to its k
    nearest in the other set, (n,) and (m,). `form` is "cosine", "csls" or "margin". `cosines` (n, m), if given, are not
    computed again.
    """

    x: Tensor
    y: Tensor
    form: str = "cosine"
    near: tuple[Tensor, Tensor] | None = None
    cosines: Tensor | None = None

    def flipped(self) -> "Scoring":
        """Exchange queries and candidates."""
        near = None if self.near is None else self.near[::-1]
        cosines = None if self.cosines is None else self.cosines.T.contiguous()
        return Scoring(self.y, self.x, self.form, near, cosines)

    def adjust(self, cosines: Tensor, rows: Tensor, columns: Tensor | slice) -> Tensor:
        """Convert cosines of these rows of x and y into scores, in place; the indices broadcast to their shape."""
        if self.near is not None:
            near_x, near_y = self.near[0][rows], self.near[1][columns]
            if self.form == "csls":
                return cosines.mul_(2).sub_(near_x).sub_(near_y)
            # With negative mean cosines the divisor would be negative and reverse the order.
            return cosines.div_(((near_x + near_y) / 2).clamp(min=torch.finfo(near_x.dtype).eps))
        return cosines


def scoring(x: Tensor, y: Tensor, *, method: str = "cosine", k: int = 10) -> Scoring:
    """Prepare scores between x (n, d) and y (m, d); `k` neighbours for CSLS and the margin."""
    return adjusted(cosine_scoring(x, y, centred=centres(method)), method=method, k=k)


def centres(method: str) -> bool:
    """Whether a method subtracts each set's mean; raises for an unknown one."""
    require(method in METHODS, f"unknown retrieval method {method!r}; known are {', '.join(METHODS)}")
    return method.startswith("centred")


def cosine_scoring(x: Tensor, y: Tensor, *, centred: bool = False) -> Scoring:
    """Prepare cosines between x (n, d) and y (m, d), from which the scores of every method are computed."""
    x, y = matrix(x, name="x"), matrix(y, name="y")
    same_width(x, y, "vectors to compare need the same width")
    if x.dtype != y.dtype:
        x, y = x.double(), y.double()
    x, y = (unit_rows(centre_rows(side) if centred else side) for side in (x, y))
    return Scoring(x, y)


def adjusted(plain: Scoring, *, method: str, k: int = 10, whole: Scoring | None = None) -> Scoring:
    """Prepare a method's scores from its cosines; `k` neighbours for CSLS and the margin.

    whole: scores of all queries, used for the hub correction if `plain` has only some of them.
    """
    require(k >= 1, f"k must be at least 1, not {k}")
    form = method.removeprefix("centred-").replace("centred", "cosine")
    if form == "cosine":
        return plain
    near_x, near_y = (top(side, k=k)[0].mean(dim=1) for side in (plain, (whole or plain).flipped()))
    return replace(plain, form=form, near=(near_x, near_y))


def unit_rows(x: Tensor) -> Tensor:
    """Divide the rows of `x` (n, d) by their norms; rows of zeros remain zero."""
    return x / x.norm(dim=1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)


def score_blocks(scores: Scoring, rows: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """The scores of the queries `rows` (all if None), in blocks: yields (row indices (b,), scores (b, m)).

    The scores are written into one buffer that is reused for the next block; the caller may overwrite them and must not
    keep them. (Allocating memory for each block takes as much time as the product itself.)
    """
    m = scores.y.shape[0]
    rows = torch.arange(scores.x.shape[0], device=scores.x.device) if rows is None else rows
    size = min(max(1, SCORES_AT_ONCE // m), max(1, rows.numel()))
    buffer = scores.x.new_empty(size, m)
    for part in torch.split(rows, size):
        tile = buffer[: part.numel()]  # (b, m)
        if scores.cosines is None:
            torch.mm(scores.x[part], scores.y.T, out=tile)
        else:
            torch.index_select(scores.cosines, 0, part, out=tile)
        yield part, scores.adjust(tile, part[:, None], slice(None))


def top(scores: Scoring, rows: Tensor | None = None, *, k: int) -> tuple[Tensor, Tensor]:
    """The `k` best candidates of each query: (scores (q, k), candidate indices (q, k)), best first."""
    k = min(k, scores.y.shape[0])
    best = [tile.topk(k) for _, tile in score_blocks(scores, rows)]
    return torch.cat([part.values for part in best]), torch.cat([part.indices for part in best])


def nearest(
    x: Tensor, y: Tensor, *, method: str = "cosine", k: int = 10, neighbours: int = 10, rows: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The `k` best candidates in y for the rows of x: scores (n, k) and row indices of y (n, k), best first.

    Args:
        x: (n, d) queries.
        y: (m, d) candidates.
        method: one of `METHODS`.
        k: number of candidates.
        neighbours: the k of CSLS and the margin.
        rows: restricts the queries, while the hub correction still uses all of x.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> nearest(x, x.flip(0), k=1)[1].flatten().tolist()
    [1, 0]
    """
    require(k >= 1, f"k must be at least 1, not {k}")
    return top(scoring(x, y, method=method, k=neighbours), rows, k=k)


def mutual(x: Tensor, y: Tensor, *, method: str = "csls") -> tuple[Tensor, Tensor]:
    """Mutual nearest neighbours: (pairs (p, 2) of row indices of x and y, their scores (p,)), best first.

    These are the word pairs used in dictionary induction. x (n, d), y (m, d).
    """
    scores = scoring(x, y, method=method)
    values, forward = (part[:, 0] for part in top(scores, k=1))
    backward = top(scores.flipped(), k=1)[1][:, 0]
    i = torch.arange(forward.numel(), device=forward.device)
    chosen = i[backward[forward] == i]
    chosen = chosen[values[chosen].argsort(descending=True, stable=True)]
    return torch.stack([chosen, forward[chosen]], dim=1), values[chosen]


# Ranks and precision


@dataclass(frozen=True)
class Retrieval:
    """One direction of retrieval: `n` queries among `m` candidates.

    `p` maps k to the share of queries with a right answer among the first k, with a Wilson interval; `mrr` is the mean
    of 1 / rank with a normal interval. Their floors are those of a random order (k / m if each query has one right
    answer). `duplicates` counts candidates that repeat an earlier one. `queries` and `ranks` (n,) are the row indices
    and the ranks of the queries.
    """

    n: int
    m: int
    p: Mapping[int, Interval]
    mrr: Interval
    duplicates: int
    queries: Tensor = field(repr=False, compare=False)
    ranks: Tensor = field(repr=False, compare=False)


def retrieval(
    x: Tensor,
    y: Tensor,
    *,
    method: str = "cosine",
    k: int = 10,
    ks: Sequence[int] = (1, 5, 10),
    gold: Tensor | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
) -> dict[str, float]:
    """P@k and mean reciprocal rank, averaged over both directions: {"p@1": ..., "p@5": ..., "p@10": ..., "mrr": ...}.

    The arguments are those of `retrieve`, which returns both directions separately, with intervals and floors.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> retrieval(x, 2 * x, ks=(1,))
    {'p@1': 1.0, 'mrr': 1.0}
    """
    forward, backward = retrieve(x, y, method=method, k=k, ks=ks, gold=gold, keys_x=keys_x, keys_y=keys_y)
    answer = {f"p@{at}": (forward.p[at].value + backward.p[at].value) / 2 for at in ks}
    return answer | {"mrr": (forward.mrr.value + backward.mrr.value) / 2}


def retrieve(x: Tensor, y: Tensor, *, method: str = "cosine", **options: Any) -> tuple[Retrieval, Retrieval]:
    """Retrieval from x (n, d) to y (m, d) and from y to x.

    A query with several right answers is scored by its best one, and the others are ignored. Rows without a right
    answer are not queries, but remain candidates.

    Args:
        x: (n, d) vectors of one language.
        y: (m, d) vectors of the other.
        method: one of `METHODS`.
        options: k, ks, gold, keys_x and keys_y, as in `retrieve_each`.
    """
    return retrieve_each(x, y, methods=(method,), **options)[0]


def retrieve_each(
    x: Tensor,
    y: Tensor,
    *,
    methods: Sequence[str],
    k: int = 10,
    ks: Sequence[int] = (1, 5, 10),
    gold: Tensor | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
) -> list[tuple[Retrieval, Retrieval]]:
    """`retrieve` by each of several methods, which share the right pairs and, if these fit into memory, the cosines.

    Args:
        x: (n, d) vectors of one language.
        y: (m, d) vectors of the other.
        methods: some of `METHODS`.
        k: number of neighbours in CSLS and the margin.
        ks: the values of k at which precision is computed.
        gold: (p, 2) right pairs of row indices of x and y; if None, row i of x matches row i of y.
        keys_x: labels of the rows of x, such as their texts: every row with the label of a right answer is right too.
        keys_y: the same for y.
    """
    require(min(ks, default=1) >= 1, f"ks must be numbers of candidates from 1 on, not {tuple(ks)}")
    x, y = tensor_of(x, "x"), tensor_of(y, "y")
    plain: dict[bool, Scoring] = {}
    for centred in sorted(set(map(centres, methods))):
        plain[centred] = cosine_scoring(x, y, centred=centred)
        if len(x) * len(y) <= MOST_HELD_COSINES:
            plain[centred] = replace(plain[centred], cosines=plain[centred].x @ plain[centred].y.T)
    pairs = right_pairs(x.shape[0], y.shape[0], gold=gold, keys_x=keys_x, keys_y=keys_y)
    copies_x, copies_y = _repeats(x, keys_x), _repeats(y, keys_y)
    results = []
    for scores in [adjusted(plain[centres(method)], method=method, k=k) for method in methods]:
        forward = one_way(scores, pairs, ks, duplicates=copies_y)
        results.append((forward, one_way(scores.flipped(), pairs.flip(1), ks, duplicates=copies_x)))
    return results


def ranks(scores: Scoring, pairs: Tensor) -> tuple[Tensor, Tensor]:
    """The rank of the best right answer of each query that has one: pairs (p, 2) -> (queries (q,), ranks (q,)).

    1 + the number of wrong candidates that score at least as high, within rounding.
    """
    pairs = _distinct(pairs, scores.y.shape[0]).to(scores.x.device)
    queries, counts = torch.unique_consecutive(pairs[:, 0], return_counts=True)
    query = torch.repeat_interleave(torch.arange(queries.numel(), device=pairs.device), counts)
    parts = (part.T for part in torch.split(pairs, 2**16))
    right = torch.cat([(scores.x[i] * scores.y[j]).sum(dim=1) for i, j in parts])
    right = scores.adjust(right, *pairs.T)
    best = scores.x.new_full((queries.numel(),), -torch.inf).scatter_reduce(0, query, right, "amax")
    least = best - TIE[scores.x.dtype] * (2 if scores.form == "csls" else 1)
    above, done = [], 0
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    for rows, tile in score_blocks(scores, queries):
        first, last = int(ends[done]), int(ends[done + rows.numel()])
        # Other right answers do not count as wrong candidates.
        tile[query[first:last] - done, pairs[first:last, 1]] = -torch.inf
        # Comparing in place and adding floats is many times faster than adding booleans; exact below 2^24.
        above.append(tile.ge_(least[done : done + rows.numel(), None]).sum(dim=1).long())
        done += rows.numel()
    return queries, 1 + torch.cat(above)


def right_pairs(
    n: int,
    m: int,
    *,
    gold: Tensor | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
) -> Tensor:
    """All right pairs (p, 2): the diagonal or `gold`, extended to items with the same key."""
    for name, keys, rows in (("keys_x", keys_x, n), ("keys_y", keys_y, m)):
        if keys is not None and len(keys) != rows:
            raise InputError(f"{name} has {len(keys)} labels for {rows} items; give one label per item")
    if gold is None:
        require(n == m, f"x has {n} items and y has {m}; say which rows match with gold=, or give equally many")
        pairs = torch.arange(n)[:, None].expand(n, 2)
    else:
        if gold.ndim != 2 or gold.shape[1] != 2 or gold.is_floating_point():
            raise InputError(f"gold must be a tensor of row numbers of shape (pairs, 2), not {tuple(gold.shape)}")
        pairs = gold.cpu().long()
    require(len(pairs), "gold holds no pair, so there is nothing to retrieve")
    if bool((pairs < 0).any()) or int(pairs[:, 0].max()) >= n or int(pairs[:, 1].max()) >= m:
        raise InputError(f"gold names a row outside x ({n} items) or y ({m} items)")
    if keys_x is None and keys_y is None:
        return pairs
    labels_x, labels_y = (range(rows) if keys is None else keys for keys, rows in ((keys_x, n), (keys_y, m)))
    rows_x, rows_y = _rows_of(labels_x), _rows_of(labels_y)
    extended = {(a, b) for i, j in pairs.tolist() for a in rows_x[labels_x[i]] for b in rows_y[labels_y[j]]}
    return torch.tensor(sorted(extended), dtype=torch.long).reshape(-1, 2)


def _distinct(pairs: Tensor, m: int) -> Tensor:
    """Distinct pairs (p, 2) of a query and one of `m` candidates, sorted by query and candidate, on the CPU."""
    numbers = torch.unique(pairs[:, 0].cpu() * m + pairs[:, 1].cpu())  # many times faster than by rows
    return torch.stack([numbers // m, numbers % m], dim=1)


def _rows_of(keys: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """The rows with each key."""
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        rows[key].append(i)
    return rows


def _repeats(y: Tensor, keys: Sequence[Hashable] | None) -> int:
    """The number of items that repeat an earlier one, by key or, without keys, by equal vectors."""
    if keys is not None:
        return len(keys) - len(set(keys))
    rows = y.detach().float().cpu().contiguous().numpy()
    return len(rows) - len({hashlib.blake2b(row.data, digest_size=16).digest() for row in rows})


def one_way(
    scores: Scoring, pairs: Tensor, ks: Sequence[int], *, duplicates: int = 0, names: Tensor | None = None
) -> Retrieval:
    """Evaluate the right pairs (p, 2) of queries and candidates; names: row indices to report for the queries."""
    queries, rank = ranks(scores, pairs)
    n, m = queries.numel(), scores.y.shape[0]
    # Floors: P@k and MRR of a random order of the candidates. A query with g right answers has none among the first r
    # with probability prod_{t < r} (m - g - t) / (m - t). Averaged over the queries, with (q,) right answers each.
    answers = torch.unique_consecutive(_distinct(pairs, m)[:, 0], return_counts=True)[1]
    sizes, counts = torch.unique(answers, return_counts=True)
    passed = torch.arange(m, dtype=torch.float64)
    floors, mrr_floor = dict.fromkeys(ks, 0.0), 0.0
    for g, weight in zip(sizes.tolist(), (counts.double() / counts.sum()).tolist(), strict=True):
        missed = ((m - g - passed).clamp(min=0) / (m - passed)).cumprod(dim=0)  # (m,), after 1, 2, ... m candidates
        first = torch.cat([missed.new_ones(1), missed[:-1]]) - missed
        mrr_floor += weight * float((first / (passed + 1)).sum())
        for k in ks:
            floors[k] += weight * (min(k, m) / m if g == 1 else 1 - float(missed[min(k, m) - 1]))
    precision = {k: wilson_interval(int((rank <= k).sum()), n, floor=floors[k]) for k in ks}
    mrr = share_interval(1 / double(rank), floor=mrr_floor)
    named = queries.cpu() if names is None else names[queries.cpu()]
    return Retrieval(n, m, p=precision, mrr=mrr, duplicates=duplicates, queries=named, ranks=rank.cpu())


for _name, _title, _explanation in (
    (
        "p@1",
        "Retrieval P@1",
        "How often the nearest sentence in the other language is the translation.",
    ),
    ("p@5", "Retrieval P@5", "How often the translation is among the five nearest sentences in the other language."),
    ("p@10", "Retrieval P@10", "How often the translation is among the ten nearest sentences in the other language."),
    (
        "mrr",
        "Mean reciprocal rank",
        "The mean of 1/rank of the translation among the sentences of the other language, by similarity: 1 if it is "
        "always the first, 1/2 if always the second.",
    ),
):
    measure(  # one number of `retrieval`: the mean of both directions, by cosine
        _name,
        _title,
        _explanation,
        higher_is_better=True,
        range=(0.0, 1.0),
        invariances=("scale", "joint rotation", "permutation of items", "symmetric"),
        directed=True,
        paper="Conneau et al. 2018, Word Translation Without Parallel Data",
    )(lambda x, y, name=_name, **options: retrieval(x, y, **options)[name])


@measure(
    "mexa",
    "MEXA",
    "How often a sentence and its translation are each other's nearest neighbours.",
    higher_is_better=True,
    range=(0.0, 1.0),
    invariances=("scale", "joint rotation", "permutation of items", "symmetric"),
    paper="Kargaran et al. 2024, MEXA: Multilingual Evaluation of English-Centric LLMs via Cross-Lingual Alignment",
)
def mexa(x: Tensor, y: Tensor, *, method: str = "cosine", k: int = 10) -> float:
    """The share of pairs whose cosine is the largest of its row and of its column in the matrix of all cosines.

    x (n, d), y (n, d), whose rows correspond. The paper uses cosines of uncentred vectors, of a decoder's last token or
    of its tokens weighted by position (`vectors(..., pooling="last")`, `"weighted"`), and the mean or the largest value
    over layers. Ties count as errors. The matrix is computed in blocks and never kept.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> mexa(x, x), round(mexa(x, torch.tensor([[1.0, 0.1], [0.0, 1.0], [1.0, 0.0]])), 4)
    (1.0, 0.3333)
    """
    return both_ways(*retrieve(x, y, method=method, k=k, ks=(1,))).value


def both_ways(there: Retrieval, back: Retrieval) -> Interval:
    """MEXA from the two directions of a retrieval whose rows correspond: the share of items found first in both.

    It has a Wilson interval. The floor is that of scores in random order: a pair is the largest of 2 n - 1.
    """
    return wilson_interval(int(((there.ranks == 1) & (back.ranks == 1)).sum()), there.n, floor=1 / (2 * there.n - 1))


@measure(
    "xsim",
    "xSIM",
    "The share of sentences whose translation is not the nearest, by a score that lowers the similarity of sentences "
    "that are near to many others.",
    higher_is_better=False,
    range=(0.0, 1.0),
    invariances=("scale", "joint rotation", "permutation of items"),
    paper="Artetxe & Schwenk 2019; Chen et al. 2023, xSIM++",
)
def xsim(x: Tensor, y: Tensor, *, negatives: Tensor | None = None, k: int = 4) -> float:
    """The error of retrieving the translations of x (n, d) from y (n, d), in one direction.

    As in LASER, the ratio margin ranks only the k candidates with the largest cosines. It is an error if the right one
    is not the first of these, or if another has the same margin.

    Args:
        x: (n, d) sentences, the queries.
        y: (n, d) their translations, in corresponding rows.
        negatives: (m, d) additional wrong candidates: with altered translations this is xSIM++.
        k: number of candidates that are ranked, and of neighbours in the margin.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> xsim(x, x, k=1), xsim(x, x, negatives=torch.tensor([[0.0, 1.0]]), k=1)
    (0.0, 0.5)
    """
    candidates = y if negatives is None else torch.cat([tensor_of(y, "y"), tensor_of(negatives, "negatives")])
    require(len(x) == len(y), f"x has {len(x)} items and y has {len(y)}; row i of x must correspond to row i of y")
    plain = cosine_scoring(x, candidates)
    margin, tie = adjusted(plain, method="margin", k=k), TIE[plain.x.dtype]
    cosines, numbers = top(plain, k=k + 1)  # one more, which may be a copy of the last
    near = cosines >= cosines[:, :k][:, -1:] - tie
    queries = torch.arange(len(plain.x), device=numbers.device)[:, None]
    margins = margin.adjust(cosines, queries, numbers).where(near, -torch.inf)  # (n, k + 1)
    is_right = numbers == queries
    is_right[:, k:] = False
    right, wrong = (margins.where(side, -torch.inf).amax(dim=1) for side in (is_right, ~is_right))
    return 1 - float(double(wrong < right - tie).mean())


# Dictionary induction


def induction(
    x: Tensor, y: Tensor, gold: Tensor, *, method: str = "csls", k: int = 10, ks: tuple[int, ...] = (1, 5, 10)
) -> Retrieval:
    """Dictionary induction: retrieve the translations of the words in `gold` from all of y.

    As in MUSE (Conneau et al. 2018): the queries are the source words of a test dictionary, the candidates the *whole*
    target vocabulary, and a query is right at k if any of its translations is among the first k. CSLS corrects for the
    mean similarity of a candidate to its nearest words in the whole source vocabulary.

    x (n, d) and y (m, d) are the vocabularies in one space, the source mapped. gold: pairs of row indices (p, 2). Ties
    count as errors. Scores are computed in blocks, and only for the queries; CSLS also computes all pairs once, for the
    k nearest source words of every candidate.

    >>> x = torch.tensor([[1.0, 0.1], [0.1, 1.0], [-1.0, 0.0]])
    >>> induction(x, x.flip(0), torch.tensor([[0, 2], [1, 1]]), ks=(1,)).p[1].value
    1.0
    """
    if method not in INDUCTION_METHODS:
        raise InputError(f"unknown method {method!r}; dictionary induction uses {' or '.join(INDUCTION_METHODS)}")
    vocabularies = cosine_scoring(x, y)
    pairs = right_pairs(len(vocabularies.x), len(vocabularies.y), gold=gold)
    queries, numbers = torch.unique(pairs[:, 0], return_inverse=True)
    asked = torch.stack([numbers, pairs[:, 1]], dim=1)
    scores = replace(vocabularies, x=vocabularies.x[queries.to(vocabularies.x.device)])
    return one_way(adjusted(scores, method=method, k=k, whole=vocabularies), asked, ks, names=queries)
