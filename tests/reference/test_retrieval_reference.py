"""Retrieval against explicit n x m loops and scikit-learn."""

from importlib import import_module

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

from isogloss.measures.geometry import neighbourhood_overlap
from isogloss.measures.retrieval import METHODS, nearest, retrieve, retrieve_each

MODULE = import_module("isogloss.measures.retrieval")  # the package's attribute of this name is the function


def spaces(n=80, m=70, d=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64) + 0.4
    y = torch.randn(m, d, generator=generator, dtype=torch.float64) + 0.4
    both = min(n, m)
    y[:both] = 0.7 * y[:both] + x[:both]
    return x, y


def full_scores(x, y, method, k):
    """The n x m matrix of scores, written out."""
    x, y = x.numpy(), y.numpy()
    if method.startswith("centred"):
        x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    cosine = np.array([[a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for b in y] for a in x])
    near_x = np.array([np.sort(row)[-k:].mean() for row in cosine])
    near_y = np.array([np.sort(column)[-k:].mean() for column in cosine.T])
    if method.endswith("csls"):
        return 2 * cosine - near_x[:, None] - near_y[None, :]
    if method == "margin":
        return cosine / ((near_x[:, None] + near_y[None, :]) / 2)
    return cosine


@pytest.mark.parametrize("method", METHODS)
def test_nearest_agrees_with_the_full_matrix(method, monkeypatch):
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 13 * 50)
    x, y = spaces()
    expected = full_scores(x, y, method, 10)
    scores, found = nearest(x, y, method=method, k=5)
    order = np.argsort(-expected, axis=1)[:, :5]
    assert np.array_equal(found.numpy(), order)
    assert np.allclose(scores.numpy(), np.take_along_axis(expected, order, axis=1), atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_agree_with_a_loop(method, monkeypatch):
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 11 * 70)
    x, y = spaces(n=70, m=70)
    expected = full_scores(x, y, method, 10)
    there, back = retrieve(x, y, method=method, k=10)
    assert there.ranks.tolist() == [1 + sum(s > row[i] for s in row) for i, row in enumerate(expected)]
    assert back.ranks.tolist() == [1 + sum(s > row[i] for s in row) for i, row in enumerate(expected.T)]
    for one in (there, back):
        ranks = one.ranks.numpy()
        assert {k: one.p[k].value for k in one.p} == {k: float(np.mean(ranks <= k)) for k in (1, 5, 10)}
        assert one.mrr.value == pytest.approx(np.mean(1 / ranks))


@pytest.mark.parametrize("most", [MODULE.MOST_HELD_COSINES, 0])
def test_methods_judged_together_agree_with_a_loop(monkeypatch, most):
    monkeypatch.setattr(MODULE, "MOST_HELD_COSINES", most)
    x, y = spaces(n=70, m=70)
    together = retrieve_each(x, y, methods=METHODS, k=10)
    assert len(together) == len(METHODS)
    for method, (there, back) in zip(METHODS, together, strict=True):
        expected = full_scores(x, y, method, 10)
        assert there.ranks.tolist() == [1 + sum(s > row[i] for s in row) for i, row in enumerate(expected)]
        assert back.ranks.tolist() == [1 + sum(s > row[i] for s in row) for i, row in enumerate(expected.T)]


@pytest.mark.parametrize("method", METHODS)
def test_ranks_with_several_right_answers_agree_with_a_loop(method, monkeypatch):
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 9 * 50)
    x, y = spaces(n=40, m=50)
    random = np.random.default_rng(0)
    gold = [set(random.choice(50, size=random.integers(0, 4), replace=False).tolist()) for _ in range(40)]
    expected = full_scores(x, y, method, 10)
    pairs = torch.tensor([(i, j) for i, right in enumerate(gold) for j in right])
    there, back = retrieve(x, y, gold=pairs, method=method, k=10)

    def rank(row, right):
        best = max(row[j] for j in right)
        return 1 + sum(row[j] > best for j in range(len(row)) if j not in right)

    answers = {i: right for i, right in enumerate(gold) if right}
    assert there.queries.tolist() == list(answers)
    assert there.ranks.tolist() == [rank(expected[i], right) for i, right in answers.items()]
    reverse = {j: {i for i, right in enumerate(gold) if j in right} for j in range(50)}
    reverse = {j: right for j, right in reverse.items() if right}
    assert back.queries.tolist() == list(reverse)
    assert back.ranks.tolist() == [rank(expected[:, j], right) for j, right in reverse.items()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cosine_neighbours_agree_with_scikit_learn(dtype):
    x, y = (side.to(dtype) for side in spaces())
    distances, expected = NearestNeighbors(n_neighbors=7, metric="cosine").fit(y.numpy()).kneighbors(x.numpy())
    scores, found = nearest(x, y, k=7)
    assert np.array_equal(found.numpy(), expected)
    assert np.allclose(1 - scores.numpy(), distances, atol=1e-6)


def test_neighbourhood_overlap_agrees_with_scikit_learn(monkeypatch):
    monkeypatch.setattr(MODULE, "SCORES_AT_ONCE", 17 * 60)
    x, y = spaces(n=60, m=60)

    def neighbours(side):
        model = NearestNeighbors(n_neighbors=8, metric="cosine").fit(side.numpy())
        return [set(row) for row in model.kneighbors(return_distance=False)]

    shared = [len(a & b) / 8 for a, b in zip(neighbours(x), neighbours(y), strict=True)]
    assert neighbourhood_overlap(x, y, k=8) == pytest.approx(np.mean(shared))
