"""Dictionary induction against an explicit implementation."""

import numpy as np
import pytest
import torch

from isogloss.errors import InputError
from isogloss.measures import induction, neighbours, retrieve


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def vocabulary(n=60, m=75, d=8):
    x = draw(n, d, seed=1)
    y = torch.cat([x[torch.arange(m - 20) % n] + 0.7 * draw(m - 20, d, seed=2), draw(20, d, seed=3)])
    gold = [(i, i) for i in range(0, 40, 2)] + [(4, 20), (4, 70), (6, 1)]
    return x, y, gold


def explicit(x, y, gold, method, ks):
    """P@k by loops: share of source words with any translation among the first k, ties against us."""
    x, y = x.double().numpy(), y.double().numpy()

    def cosine(a, b):
        return float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))

    table = [[cosine(a, b) for b in y] for a in x]
    near_x = [sum(sorted(row)[-10:]) / 10 for row in table]
    near_y = [sum(sorted(table[i][j] for i in range(len(x)))[-10:]) / 10 for j in range(len(y))]
    hits = dict.fromkeys(ks, 0)
    words = sorted({i for i, _ in gold})
    for i in words:
        scores = [c if method == "cosine" else 2 * c - near_x[i] - near_y[j] for j, c in enumerate(table[i])]
        right = {j for word, j in gold if word == i}
        best = max(scores[j] for j in right)
        rank = 1 + sum(score >= best for j, score in enumerate(scores) if j not in right)
        for k in ks:
            hits[k] += rank <= k
    return {k: hits[k] / len(words) for k in ks}


@pytest.mark.parametrize("method", ["cosine", "csls"])
@pytest.mark.parametrize("block", [None, 7])
def test_precision_equals_an_explicit_implementation(method, block):
    x, y, gold = vocabulary()
    found = induction(x, y, torch.tensor(gold), method=method, block=block)
    assert found.p == explicit(x, y, gold, method, (1, 5, 10))
    assert 0 < found.p[1] < found.p[10] <= 1
    assert (found.n, found.m) == (20, 75)
    assert found.queries.tolist() == sorted({i for i, _ in gold})


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_it_is_one_way_of_retrieval(method):
    x, y, gold = vocabulary()
    pairs = torch.tensor(gold)
    there, _ = retrieve(x, y, method=method, gold=pairs)
    found = induction(x, y, pairs, method=method)
    assert torch.equal(found.ranks, there.ranks) and torch.equal(found.queries, there.queries)
    assert (found.p, found.p_interval, found.floor) == (there.p, there.p_interval, there.floor)


def test_chance_is_that_of_a_random_order():
    x, y, gold = vocabulary()
    floor = induction(x, y, torch.tensor(gold)).floor
    single = [1 for word in {i for i, _ in gold} if word not in (4, 6)]
    expected = (len(single) * 1 / 75 + 3 / 75 + 2 / 75) / 20
    assert floor[1] == pytest.approx(expected)


def test_mistakes_are_one_sentence():
    x, y, gold = vocabulary()
    with pytest.raises(InputError, match="unknown method 'margin'; words are looked for by cosine or csls"):
        induction(x, y, torch.tensor(gold), method="margin")
    with pytest.raises(InputError, match="width 8 and y has width 3"):
        induction(x, y[:, :3], torch.tensor(gold))
    with pytest.raises(InputError, match="gold holds no pair"):
        induction(x, y, torch.zeros((0, 2), dtype=torch.long))


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_no_more_scores_are_held_than_were_said(method, monkeypatch):
    x, y, gold = vocabulary()
    product, sizes = torch.mm, []
    monkeypatch.setattr(neighbours, "SCORES_AT_ONCE", 200)
    monkeypatch.setattr(torch, "mm", lambda *given, out: sizes.append(out.numel()) or product(*given, out=out))
    induction(x, y, torch.tensor(gold), method=method)
    assert len(sizes) > 9 and max(sizes) <= 200
