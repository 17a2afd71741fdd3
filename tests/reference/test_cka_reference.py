"""CKA against published numbers, the definition spelt out in loops, and another library."""

from itertools import permutations

import numpy as np
import pytest
import torch
from ckatorch import cka_base, cka_batch

from isogloss.measures.cka import block_hsic, cka, cka_from_blocks, cka_minibatch, cka_rbf


def demo():
    """The example of Kornblith's published notebook."""
    random = np.random.RandomState(1337)  # the published numbers come from this generator
    x = random.randn(100, 10)
    y = random.randn(100, 10) + x
    return torch.from_numpy(x), torch.from_numpy(y)


def related(n, dx, dy, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dx, generator=generator, dtype=torch.float64)
    mix = torch.randn(dx, dy, generator=generator, dtype=torch.float64)
    return x + 3, x @ mix + 2 * torch.randn(n, dy, generator=generator, dtype=torch.float64) - 1


def test_published_demo_values():
    x, y = demo()
    assert round(cka(x, y, biased=True), 5) == 0.55761
    assert round(cka(x, y), 5) == 0.51346
    assert round(cka_rbf(x, y, bandwidth=0.5), 5) == 0.65483


def test_debiased_hsic_is_the_mean_over_four_different_items():
    """HSIC_1 by its definition: the mean of K_ij (L_ij + L_qr - 2 L_iq) over all ordered (i, j, q, r)."""
    x, y = related(7, 3, 4)
    k, m = x @ x.T, y @ y.T

    def loop(k, m):
        terms = [k[i, j] * (m[i, j] + m[q, r] - 2 * m[i, q]) for i, j, q, r in permutations(range(len(k)), 4)]
        return float(sum(terms)) / len(terms)

    expected = loop(k, m), loop(k, k), loop(m, m)
    assert tuple(block_hsic(x, y).tolist()) == pytest.approx(expected, rel=1e-10)
    assert cka(x, y) == pytest.approx(expected[0] / (expected[1] * expected[2]) ** 0.5, rel=1e-10)


def test_biased_value_is_the_printed_formula_with_centring():
    x, y = related(30, 4, 6)
    a, b = (side.numpy() - side.numpy().mean(axis=0) for side in (x, y))
    top = sum((a[:, i] @ b[:, j]) ** 2 for i in range(4) for j in range(6))
    expected = top / (np.linalg.norm(a.T @ a) * np.linalg.norm(b.T @ b))
    assert cka(x, y, biased=True) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("n", "dx", "dy"), [(50, 8, 8), (300, 20, 33), (40, 64, 48), (60, 8, 100), (64, 64, 64)])
def test_agrees_with_ckatorch(n, dx, dy):
    x, y = related(n, dx, dy)
    assert abs(cka(x, y) - float(cka_base(x, y, unbiased=True))) < 1e-10
    assert abs(cka(x, y, biased=True) - float(cka_base(x, y))) < 1e-10


def test_minibatch_agrees_with_ckatorch():
    x, y = related(120, 8, 8)
    expected = float(cka_batch(x.reshape(6, 20, 8), y.reshape(6, 20, 8)))
    assert abs(cka_minibatch(x, y, batch=20) - expected) < 1e-10


def test_minibatch_averages_terms_not_ratios():
    x, y = related(120, 8, 8)
    x[:20] *= 30  # one batch with large vectors: by terms it dominates, by ratios it is one of six
    values = torch.stack([block_hsic(x[i : i + 20], y[i : i + 20]) for i in range(0, 120, 20)])
    ratios = values[:, 0] / (values[:, 1] * values[:, 2]).sqrt()
    sums = values.sum(dim=0)
    assert cka_minibatch(x, y, batch=20) == pytest.approx(float(sums[0] / (sums[1] * sums[2]).sqrt()), rel=1e-6)
    assert abs(cka_from_blocks(values) - float(ratios.mean())) > 0.05
