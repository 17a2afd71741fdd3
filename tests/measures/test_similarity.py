import math

import pytest
import torch

from isogloss.errors import InputError
from isogloss.measures import block_hsic, cka, cka_floor, cka_minibatch, cka_rbf, cka_shuffled, even_blocks, jackknife


def draw(n, d, seed, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by_blocks(x, y, size):
    return torch.tensor([block_hsic(x[rows], y[rows]) for rows in even_blocks(x.shape[0], size)])


@pytest.mark.parametrize(("n", "d"), [(50, 8), (20, 64)])
@pytest.mark.parametrize("biased", [False, True])
def test_a_space_is_perfectly_similar_to_itself(n, d, biased):
    x = draw(n, d, 1)
    assert cka(x, x, biased=biased) == pytest.approx(1, abs=1e-12)
    assert cka_rbf(x, x, biased=biased) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("n", "d"), [(65, 64), (64, 64)])
def test_both_forms_give_the_same_number(n, d, biased):
    """64 items of width 64 take the Gram form; with two columns of zeros more, or less, the value must not move."""
    x, y = draw(n, d, 1), draw(n, d, 2)
    y = y + x
    padded = torch.cat([x, torch.zeros(n, 10, dtype=x.dtype)], dim=1)  # widens x past n, so the Gram form is taken
    assert cka(padded, y, biased=biased) == pytest.approx(cka(x, y, biased=biased), rel=1e-11)


def test_no_matrix_of_items_by_items_is_built():
    """200,000 items: a Gram matrix would take 320 GB."""
    x = draw(200_000, 3, 1)
    assert cka(x, x + draw(200_000, 3, 2)) == pytest.approx(0.5, abs=0.02)


def test_far_from_the_origin_nothing_is_lost():
    x = draw(200, 8, 1)
    y = x + draw(200, 8, 2)
    assert cka(x + 1e6, y - 1e6) == pytest.approx(cka(x, y), abs=1e-9)


def test_float32_is_computed_in_float64():
    x = draw(300, 16, 1, torch.float32)
    y = x + draw(300, 16, 2, torch.float32)
    assert cka(x, y) == cka(x.double(), y.double())


def test_half_precision_is_accepted():
    x = draw(100, 16, 1, torch.float32)
    assert cka(x.bfloat16(), x) == pytest.approx(1, abs=1e-3)


def test_biased_cka_has_a_floor_debiased_has_not():
    x, y = draw(200, 768, 1), draw(200, 768, 2)
    assert abs(cka(x, y)) < 0.03
    assert cka(x, y, biased=True) == pytest.approx(0.79, abs=0.01)
    assert cka_floor(x, y, biased=True, shuffles=3) == pytest.approx(0.79, abs=0.01)
    assert abs(cka_floor(x, y, shuffles=3)) < 0.03
    assert cka_rbf(x, y) == pytest.approx(0.86, abs=0.01)
    assert abs(cka_rbf(x, y, biased=False)) < 0.03


def test_uncentred_cka_scores_shifted_independent_sets_high_ours_does_not():
    x, y = draw(1000, 16, 1) + 10, draw(1000, 16, 2) + 10
    uncentred = (x.T @ y).square().sum() / ((x.T @ x).norm() * (y.T @ y).norm())
    assert uncentred > 0.99
    assert cka(x, y, biased=True) < 0.05
    assert abs(cka(x, y)) < 0.02


def test_resampling_with_replacement_inflates_debiased_cka():
    x, y = draw(200, 768, 1), draw(200, 768, 2)
    generator = torch.Generator().manual_seed(3)
    drawn = [torch.randint(200, (200,), generator=generator) for _ in range(5)]
    assert sum(cka(x[rows], y[rows]) for rows in drawn) / 5 == pytest.approx(0.78, abs=0.05)
    value, low, high = jackknife(by_blocks(x, y, 20))
    assert abs(value) < 0.05
    assert low < 0 < high


def test_jackknife_interval_covers_as_often_as_it_says():
    """x and x + noise of the same size: the true value is 0.5; 60 draws, so a handful of misses is expected."""
    covered = 0
    for seed in range(60):
        x = draw(400, 6, seed)
        y = x + draw(400, 6, 1000 + seed)
        _, low, high = jackknife(by_blocks(x, y, 20))
        truth = 6 / (6 * 2)  # tr(C_xy C_yx) / sqrt(tr(C_x^2) tr(C_y^2)) with C_x = C_xy = I, C_y = 2 I
        covered += low <= truth <= high
    assert covered >= 52


def test_rbf_tends_to_linear_for_a_wide_kernel():
    x = draw(60, 5, 1)
    y = x + draw(60, 5, 2)
    assert cka_rbf(x, y, bandwidth=1000) == pytest.approx(cka(x, y, biased=True), abs=1e-4)


def test_constant_vectors_have_no_cka():
    x = torch.full((20, 4), 0.1)
    y = draw(20, 4, 1)
    assert math.isnan(cka(x, y))
    assert math.isnan(cka(x, y, biased=True))
    assert math.isnan(cka(x.double() + 1e6, y))


def test_shuffles_follow_the_seed_and_nothing_global():
    x, y = draw(60, 4, 1), draw(60, 4, 2)
    before = torch.random.get_rng_state()
    first, second, other = (cka_shuffled(x, y, seed=seed, shuffles=5) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("n", "d"), [(30, 4), (12, 20)])
def test_a_shuffled_value_is_the_value_of_shuffled_rows(n, d, biased):
    x = draw(n, d, 1)
    y = x + draw(n, d, 2)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(9))
    expected = cka(x, y[order], biased=biased)
    assert float(cka_shuffled(x, y, seed=9, shuffles=1, biased=biased)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3, 2), "debiased CKA needs at least 4 items, not 3"),
        (torch.zeros(5, 2), torch.zeros(6, 2), "x has 5 items and y has 6"),
        (torch.zeros(5), torch.zeros(5), "two dimensions"),
        (torch.tensor([[0.0], [1.0], [2.0], [math.nan]]), torch.zeros(4, 1), "not finite, first in row 3"),
    ],
)
def test_unusable_input_is_refused_in_a_sentence(x, y, message):
    with pytest.raises(InputError, match=message):
        cka(x, y)


def test_minibatch_uses_every_item_once():
    blocks = even_blocks(103, 20)
    assert [i for rows in blocks for i in range(rows.start, rows.stop)] == list(range(103))
    sizes = {rows.stop - rows.start for rows in blocks}
    assert max(sizes) <= 20
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("n", range(4, 30))
def test_no_block_is_too_small_for_the_estimate(n):
    assert min(rows.stop - rows.start for rows in even_blocks(n, 4)) >= 4


def test_one_batch_is_the_whole():
    x = draw(50, 6, 1)
    y = x + draw(50, 6, 2)
    assert cka_minibatch(x, y, batch=50) == pytest.approx(cka(x, y), rel=1e-10)
