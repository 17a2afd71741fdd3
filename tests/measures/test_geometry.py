import pytest
import torch
from scipy.stats import binomtest

from isogloss.errors import InputError
from isogloss.measures import anisotropy, cosine_drift, l2_drift, mean_interval, neighbourhood_overlap, wilson


def draw(n, d, seed, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_drifts_agree_with_a_loop():
    x, y = draw(20, 5, 1), draw(20, 5, 2)
    distances = [float((a - b) @ (a - b)) ** 0.5 for a, b in zip(x, y, strict=True)]
    cosines = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(x, y, strict=True)]
    assert l2_drift(x, y) == pytest.approx(sum(distances) / 20)
    assert cosine_drift(x, y) == pytest.approx(1 - sum(cosines) / 20)


def test_nothing_moved_is_no_drift():
    x = draw(20, 5, 1, torch.float32)
    assert l2_drift(x, x) == 0
    assert cosine_drift(x, x) == pytest.approx(0, abs=1e-12)
    assert cosine_drift(x, -x) == pytest.approx(2)


def test_anisotropy_is_the_mean_over_all_pairs():
    x = draw(30, 4, 1) + 0.5
    units = x / x.norm(dim=1, keepdim=True)
    cosines = [float(units[i] @ units[j]) for i in range(30) for j in range(30) if i != j]
    assert anisotropy(x) == pytest.approx(sum(cosines) / len(cosines))
    assert anisotropy(draw(2000, 300, 1)) == pytest.approx(0, abs=0.01)
    assert anisotropy(torch.ones(5, 3)) == pytest.approx(1)


def test_neighbourhoods_of_independent_spaces_overlap_at_the_floor():
    x, y = draw(400, 20, 1), draw(400, 20, 2)
    assert neighbourhood_overlap(x, y, k=10) == pytest.approx(10 / 399, abs=0.01)
    assert neighbourhood_overlap(x, 3 * x, k=10) == pytest.approx(1)


def test_neighbourhoods_of_collapsed_spaces_are_no_agreement():
    """Equal vectors have no nearest ones; taking the first ten in both spaces would look like full agreement."""
    same = torch.ones(41, 3)
    assert neighbourhood_overlap(same, same, k=10) == pytest.approx(10 / 40)


def test_neighbourhood_block_size_changes_nothing():
    x, y = draw(50, 6, 1), draw(50, 9, 2)
    values = {round(neighbourhood_overlap(x, y, k=5, block=block), 12) for block in (1, 7, 50, None)}
    assert len(values) == 1


def test_centred_neighbourhoods_ignore_a_shift():
    x = draw(60, 5, 1)
    assert neighbourhood_overlap(x, x + 4, method="centred") == pytest.approx(1)
    assert neighbourhood_overlap(x, x + 4) < 0.9


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (50, 1000)])
def test_wilson_agrees_with_scipy(hits, n):
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_intervals_are_clipped_and_contain_the_value():
    assert wilson(10, 10)[1] == 1
    assert wilson(0, 10)[0] == 0
    low, high = mean_interval(torch.tensor([1.0, 1.0, 0.0]), low=0.0, high=1.0)
    assert 0 <= low < 2 / 3 < high == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: l2_drift(x, x[:, :1]), "width"),
        (lambda x: cosine_drift(x, x[:2]), "4 items and y has 2"),
        (lambda x: anisotropy(x[:1]), "at least 2"),
        (lambda x: neighbourhood_overlap(x, x, k=4), "between 1 and n - 1 = 3"),
        (lambda x: neighbourhood_overlap(x, x, k=2, method="csls"), "unknown method"),
    ],
)
def test_unusable_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call(draw(4, 2, 1))
