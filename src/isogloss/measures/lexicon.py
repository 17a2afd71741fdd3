"""Dictionary induction: how often a word's translation is found among all words of the other language.

As in MUSE (Conneau et al. 2018): the queries are the source words of a test dictionary, the candidates the *whole*
target vocabulary, and a query is right at k if any of its translations is among the first k. CSLS takes off what a
candidate gives to everybody, which is judged by the whole source vocabulary.
"""

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.inputs import matrix
from isogloss.measures.neighbours import Scoring, top, unit_rows
from isogloss.measures.retrieval import Gold, Retrieval, one_way, right_pairs

INDUCTION = ("cosine", "csls")


def induction(
    x: Tensor,
    y: Tensor,
    gold: Gold,
    *,
    method: str = "csls",
    k: int = 10,
    ks: tuple[int, ...] = (1, 5, 10),
    block: int | None = None,
) -> Retrieval:
    """Find the translations of the words that have one in `gold` among all of y.

    x (n, d) and y (m, d) are the vocabularies in one space, the source mapped. gold: pairs of row numbers (p, 2), or
    for each row of x the rows of y that are right. Ties count against us. Scores are made block by block, and only of
    the queries; CSLS besides looks at all pairs once, for the k nearest source words of every candidate.

    >>> x = torch.tensor([[1.0, 0.1], [0.1, 1.0], [-1.0, 0.0]])
    >>> induction(x, x.flip(0), torch.tensor([[0, 2], [1, 1]]), ks=(1,)).p
    {1: 1.0}
    """
    if method not in INDUCTION:
        raise InputError(f"unknown method {method!r}; words are looked for by {' or '.join(INDUCTION)}")
    x, y = matrix(x, name="x"), matrix(y, name="y")
    if x.shape[1] != y.shape[1]:
        raise InputError(
            f"x has width {x.shape[1]} and y has width {y.shape[1]}; vectors to compare need the same width"
        )
    pairs = right_pairs(x.shape[0], y.shape[0], gold=gold)
    queries, numbers = torch.unique(pairs[:, 0], return_inverse=True)
    asked = torch.stack([numbers, pairs[:, 1]], dim=1)
    x, y = unit_rows(x), unit_rows(y)
    scores = Scoring(x[queries.to(x.device)], y, "cosine")
    if method == "csls":
        near_x = top(scores, k=k, block=block)[0].mean(dim=1)
        near_y = top(Scoring(y, x, "cosine"), k=k, block=block)[0].mean(dim=1)
        scores = Scoring(scores.x, y, "csls", near_x, near_y)
    return one_way(scores, asked, ks, block=block, names=queries)
