"""Retrieval: how often the nearest neighbour in the other language is the translation.

The rank of the right answer is 1 plus the number of wrong candidates that score as high or higher. **Ties count against
us**: a collapsed encoder that gives every sentence the same vector must not score 100%. Scores closer than rounding
(1e-6 in float32) are ties.

Sentences that occur twice are a trap of the same kind: both have the same vector, so the right one cannot be told from
its copy. Pass the texts as `keys_x` and `keys_y`; a copy of a right answer is then right as well.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import double, tensor_of
from isogloss.measures.intervals import mean_interval, wilson
from isogloss.measures.neighbours import (
    TIE,
    Scoring,
    adjusted,
    centres,
    cosine_scoring,
    kept,
    pair_scores,
    score_blocks,
)
from isogloss.measures.registry import Measure, register

Gold = Sequence[Collection[int]] | Tensor


@dataclass(frozen=True)
class Retrieval:
    """One direction of retrieval: `n` queries among `m` candidates.

    `p` maps k to the share of queries with a right answer among the first k, with Wilson intervals `p_interval`;
    `mrr` is the mean of 1 / rank with a normal interval. `floor` and `mrr_floor` are what random order gives (k / m
    where each query has one right answer). `duplicates` counts candidates that repeat an earlier one. `queries` and
    `ranks` (n,) are the row numbers and the ranks behind it all.
    """

    n: int
    m: int
    p: Mapping[int, float]
    p_interval: Mapping[int, tuple[float, float]]
    mrr: float
    mrr_interval: tuple[float, float]
    floor: Mapping[int, float]
    mrr_floor: float
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
    gold: Gold | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
    block: int | None = None,
) -> dict[str, float]:
    """P@k and mean reciprocal rank, averaged over both directions: {"p@1": ..., "p@5": ..., "p@10": ..., "mrr": ...}.

    x (n, d), y (m, d). `method` as in `isogloss.measures.neighbours`; `k` is the number of neighbours CSLS and the
    margin look at, `ks` where precision is read. See `retrieve` for the rest, and for the two directions apart.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> retrieval(x, 2 * x, ks=(1,))
    {'p@1': 1.0, 'mrr': 1.0}
    """
    there, back = retrieve(x, y, method=method, k=k, ks=ks, gold=gold, keys_x=keys_x, keys_y=keys_y, block=block)
    answer = {f"p@{at}": (there.p[at] + back.p[at]) / 2 for at in ks}
    return answer | {"mrr": (there.mrr + back.mrr) / 2}


def retrieve(
    x: Tensor,
    y: Tensor,
    *,
    method: str = "cosine",
    k: int = 10,
    ks: Sequence[int] = (1, 5, 10),
    gold: Gold | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
    block: int | None = None,
) -> tuple[Retrieval, Retrieval]:
    """Retrieval from x (n, d) to y (m, d) and from y to x.

    Row i of x matches row i of y unless `gold` says otherwise: for each row of x the rows of y that are right, or a
    tensor (p, 2) of right pairs. A query with several right answers counts by its best one, the others are not in its
    way. Rows without a right answer are no queries, and remain candidates. `keys_x` and `keys_y` are labels (the
    texts): whatever carries the label of a right answer is right too.
    """
    return retrieve_each(x, y, methods=(method,), k=k, ks=ks, gold=gold, keys_x=keys_x, keys_y=keys_y, block=block)[0]


def retrieve_each(
    x: Tensor,
    y: Tensor,
    *,
    methods: Sequence[str],
    k: int = 10,
    ks: Sequence[int] = (1, 5, 10),
    gold: Gold | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
    block: int | None = None,
) -> list[tuple[Retrieval, Retrieval]]:
    """`retrieve` by each of several methods: these share the right pairs and, unless there are many, the cosines."""
    if min(ks, default=1) < 1:
        raise InputError(f"ks must be numbers of candidates from 1 on, not {tuple(ks)}")
    x, y = tensor_of(x, "x"), tensor_of(y, "y")
    plain = {one: cosine_scoring(x, y, centred=one) for one in sorted({centres(method) for method in methods})}
    if block is None:
        plain = {one: kept(scores) for one, scores in plain.items()}
    pairs = right_pairs(x.shape[0], y.shape[0], gold=gold, keys_x=keys_x, keys_y=keys_y)
    copies_x, copies_y = _repeats(x, keys_x), _repeats(y, keys_y)
    found = []
    for method in methods:
        scores = adjusted(plain[centres(method)], method=method, k=k, block=block)
        there = one_way(scores, pairs, ks, block=block, duplicates=copies_y)
        found.append((there, one_way(scores.flipped(), pairs.flip(1), ks, block=block, duplicates=copies_x)))
    return found


def ranks(scores: Scoring, pairs: Tensor, *, block: int | None = None) -> tuple[Tensor, Tensor]:
    """The rank of the best right answer of each query that has one: pairs (p, 2) -> (queries (q,), ranks (q,)).

    1 + the number of wrong candidates that score at least as high, within rounding.
    """
    pairs = _distinct(pairs, scores.y.shape[0]).to(scores.x.device)
    queries, counts = torch.unique_consecutive(pairs[:, 0], return_counts=True)
    place = torch.repeat_interleave(torch.arange(queries.numel(), device=pairs.device), counts)
    best = scores.x.new_full((queries.numel(),), -torch.inf)
    best = best.scatter_reduce(0, place, pair_scores(scores, pairs), "amax")
    least = best - TIE[scores.x.dtype] * (2 if scores.form == "csls" else 1)
    above = []
    done = 0
    ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    for rows, tile in score_blocks(scores, queries, block=block):
        first, last = int(ends[done]), int(ends[done + rows.numel()])
        # Right answers are never in each other's way.
        tile[place[first:last] - done, pairs[first:last, 1]] = -torch.inf
        # Comparing in place and adding floats is many times faster than adding booleans; exact below 2^24.
        above.append(tile.ge_(least[done : done + rows.numel(), None]).sum(dim=1).long())
        done += rows.numel()
    return queries, 1 + torch.cat(above)


def right_pairs(
    n: int,
    m: int,
    *,
    gold: Gold | None = None,
    keys_x: Sequence[Hashable] | None = None,
    keys_y: Sequence[Hashable] | None = None,
) -> Tensor:
    """All right pairs (p, 2): the diagonal or `gold`, extended to items that carry the same key."""
    for name, keys, rows in (("keys_x", keys_x, n), ("keys_y", keys_y, m)):
        if keys is not None and len(keys) != rows:
            raise InputError(f"{name} has {len(keys)} labels for {rows} items; give one label an item")
    pairs = _listed(n, m, gold)
    if keys_x is None and keys_y is None:
        return pairs
    same_x, same_y = _same(n, keys_x), _same(m, keys_y)
    found = {(a, b) for i, j in pairs.tolist() for a in same_x[i] for b in same_y[j]}
    return torch.tensor(sorted(found), dtype=torch.long).reshape(-1, 2)


def _listed(n: int, m: int, gold: Gold | None) -> Tensor:
    if gold is None:
        if n != m:
            raise InputError(f"x has {n} items and y has {m}; say which rows match with gold=, or give equally many")
        return torch.arange(n)[:, None].expand(n, 2)
    if isinstance(gold, Tensor):
        if gold.ndim != 2 or gold.shape[1] != 2 or gold.is_floating_point():
            raise InputError(f"gold must be a tensor of row numbers of shape (pairs, 2), not {tuple(gold.shape)}")
        pairs = gold.cpu().long()
    else:
        if len(gold) != n:
            raise InputError(f"gold lists answers for {len(gold)} queries but x has {n} items")
        listed = [(i, j) for i, answers in enumerate(gold) for j in answers]
        pairs = torch.tensor(listed, dtype=torch.long).reshape(-1, 2)
    if pairs.numel() == 0:
        raise InputError("gold holds no pair, so there is nothing to retrieve")
    if bool((pairs < 0).any()) or int(pairs[:, 0].max()) >= n or int(pairs[:, 1].max()) >= m:
        raise InputError(f"gold names a row outside x ({n} items) or y ({m} items)")
    return pairs


def _distinct(pairs: Tensor, m: int) -> Tensor:
    """Every pair (p, 2) of a query and one of `m` candidates once, sorted by query and candidate, on the CPU."""
    numbers = torch.unique(pairs[:, 0].cpu() * m + pairs[:, 1].cpu())  # many times faster than by rows
    return torch.stack([numbers // m, numbers % m], dim=1)


def _same(n: int, keys: Sequence[Hashable] | None) -> list[list[int]]:
    """For each item the items with the same key, itself included."""
    if keys is None:
        return [[i] for i in range(n)]
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        groups[key].append(i)
    return [groups[key] for key in keys]


def _repeats(y: Tensor, keys: Sequence[Hashable] | None) -> int:
    """How many items repeat an earlier one: by key, or else by having the very same vector."""
    if keys is not None:
        return len(keys) - len(set(keys))
    rows = y.detach().float().cpu().contiguous().numpy()
    return len(rows) - len({hashlib.blake2b(row.data, digest_size=16).digest() for row in rows})


def one_way(
    scores: Scoring,
    pairs: Tensor,
    ks: Sequence[int],
    *,
    block: int | None = None,
    duplicates: int = 0,
    names: Tensor | None = None,
) -> Retrieval:
    """Judge the right pairs (p, 2) of queries and candidates; names: the row numbers that queries are called by."""
    queries, rank = ranks(scores, pairs, block=block)
    n, m = queries.numel(), scores.y.shape[0]
    hits = {k: int((rank <= k).sum()) for k in ks}
    reciprocal = 1 / double(rank)
    answers = torch.unique_consecutive(_distinct(pairs, m)[:, 0], return_counts=True)[1]
    floor, mrr_floor = _chance(answers, m, ks)
    return Retrieval(
        n=n,
        m=m,
        p={k: hits[k] / n for k in ks},
        p_interval={k: wilson(hits[k], n) for k in ks},
        mrr=float(reciprocal.mean()),
        mrr_interval=mean_interval(reciprocal, low=0.0, high=1.0),
        floor=floor,
        mrr_floor=mrr_floor,
        duplicates=duplicates,
        queries=queries.cpu() if names is None else names[queries.cpu()],
        ranks=rank.cpu(),
    )


def _chance(answers: Tensor, m: int, ks: Sequence[int]) -> tuple[dict[int, float], float]:
    """P@k and MRR of a random order of `m` candidates, averaged over queries with `answers` (q,) right ones each.

    A query with g right answers has none among the first r with probability prod_{t < r} (m - g - t) / (m - t).
    """
    sizes, counts = torch.unique(answers, return_counts=True)
    weights = counts.double() / counts.sum()
    places = torch.arange(m, dtype=torch.float64)
    floor, mrr = dict.fromkeys(ks, 0.0), 0.0
    for g, weight in zip(sizes.tolist(), weights.tolist(), strict=True):
        missed = ((m - g - places).clamp(min=0) / (m - places)).cumprod(dim=0)  # (m,), after 1, 2, ... m candidates
        first = torch.cat([missed.new_ones(1), missed[:-1]]) - missed
        mrr += weight * float((first / (places + 1)).sum())
        for k in ks:
            floor[k] += weight * (min(k, m) / m if g == 1 else 1 - float(missed[min(k, m) - 1]))
    return floor, mrr


def _register_all() -> None:
    """P@1, P@5, P@10 and MRR as measures of their own: the mean of both directions, by cosine."""
    for name in ("p@1", "p@5", "p@10", "mrr"):
        register(
            Measure(
                name,
                lambda x, y, name=name, **options: retrieval(x, y, **options)[name],
                higher_is_better=True,
                range=(0.0, 1.0),
                invariances=frozenset({"scale", "joint rotation", "permutation of items", "symmetric"}),
                paper="Conneau et al. 2018, Word Translation Without Parallel Data",
            )
        )


_register_all()
