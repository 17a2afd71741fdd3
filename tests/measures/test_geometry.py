"""Distances, anisotropy, neurons, languages, neighbourhoods and Procrustes: against loops, scipy and scikit-learn."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from scipy.spatial import procrustes
from scipy.stats import pearsonr
from sklearn.neighbors import NearestCentroid

from isogloss.errors import InputError
from isogloss.measures.cka import CkaStream
from isogloss.measures.geometry import (
    _nuclear_norm,
    anc,
    anc_from_sums,
    anisotropy,
    cosine_drift,
    l2_drift,
    neighbourhood_overlap,
    procrustes_distance,
    procrustes_floor,
    separability,
    separability_interval,
)
from isogloss.measures.retrieval import score_blocks


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


def test_neuron_wise_correlation_is_the_mean_over_columns_also_from_a_stream():
    x = draw(50, 7, 1, torch.float32) + 1000
    y = 0.5 * x + draw(50, 7, 2, torch.float32)
    x[:, 3] = 4.0  # a neuron that does not vary has no correlation
    columns = [pearsonr(x[:, j].numpy(), y[:, j].numpy()).statistic for j in range(7) if j != 3]
    assert anc(x, y) == pytest.approx(np.mean(columns), abs=1e-4)
    stream = CkaStream([("en", "nl")], block=8)
    for rows in (slice(0, 13), slice(13, 50)):
        stream.update({"en": x[rows], "nl": y[rows]})
    streamed = anc_from_sums(*stream.sums("en", "nl"))
    assert streamed.value == pytest.approx(anc(x, y), abs=1e-5) and (streamed.n, streamed.floor) == (50, 0.0)
    assert math.isnan(anc(torch.ones(5, 2), torch.ones(5, 2)))
    assert anc(draw(500, 50, 1), draw(500, 50, 2)) == pytest.approx(0, abs=0.02)


def test_separability_is_the_nearest_centroid_with_each_pair_left_out():
    x = draw(40, 5, 1)
    y = x + draw(40, 5, 2) + 0.6
    right = []
    for i in range(40):
        others = [j for j in range(40) if j != i]
        judge = NearestCentroid().fit(torch.cat([x[others], y[others]]).numpy(), [0] * 39 + [1] * 39)
        right += [judge.predict(x[i : i + 1].numpy())[0] == 0, judge.predict(y[i : i + 1].numpy())[0] == 1]
    assert 0.5 < np.mean(right) < 1
    assert separability(x, y) == pytest.approx(np.mean(right))
    found = separability_interval(x + 1e4, y + 1e4)
    assert found.value == pytest.approx(np.mean(right)) and (found.n, found.floor) == (40, 0.5)
    assert found.low < found.value < found.high


def test_languages_that_lie_on_one_another_cannot_be_told_apart():
    unrelated = [separability(draw(60, 20, seed), draw(60, 20, seed + 500)) for seed in range(60)]
    aligned = []  # translations are near each other, and neither language has a place of its own
    for seed in range(60):
        x = draw(60, 20, seed)
        aligned.append(separability(x, x + 0.1 * draw(60, 20, seed + 500)))
    assert np.mean(unrelated) == pytest.approx(0.5, abs=0.02) and np.mean(aligned) == pytest.approx(0.5, abs=0.02)
    x = draw(60, 20, 1)
    assert separability(x, x) == 0.5 and separability(x, x + 50) == 1.0


def test_neighbourhoods_of_independent_spaces_overlap_at_the_floor():
    x, y = draw(400, 20, 1), draw(400, 20, 2)
    assert neighbourhood_overlap(x, y, k=10) == pytest.approx(10 / 399, abs=0.01)
    assert neighbourhood_overlap(x, 3 * x, k=10) == pytest.approx(1)


def test_neighbourhoods_of_collapsed_spaces_are_no_agreement():
    """Equal vectors have no nearest ones; taking the first ten in both spaces would look like full agreement."""
    same = torch.ones(41, 3)
    assert neighbourhood_overlap(same, same, k=10) == pytest.approx(10 / 40)


def test_neighbourhood_block_size_changes_nothing(monkeypatch):
    x, y = draw(50, 6, 1), draw(50, 9, 2)
    values = {round(neighbourhood_overlap(x, y, k=5), 12)}
    for rows in (1, 7, 50):
        monkeypatch.setitem(score_blocks.__globals__, "SCORES_AT_ONCE", 50 * rows)
        values.add(round(neighbourhood_overlap(x, y, k=5), 12))
    assert len(values) == 1


def test_centred_neighbourhoods_ignore_a_shift():
    x = draw(60, 5, 1)
    assert neighbourhood_overlap(x, x + 4, method="centred") == pytest.approx(1)
    assert neighbourhood_overlap(x, x + 4) < 0.9


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


@pytest.mark.parametrize("shape", [(40, 6), (7, 7), (9, 30), (2, 5), (300, 48)])
@pytest.mark.parametrize("noise", [0.0, 0.3, 5.0])
def test_agrees_with_scipy(shape, noise):
    x = draw(*shape, 1) * torch.linspace(0.1, 3, shape[1]) + 4
    y = x @ torch.linalg.qr(draw(shape[1], shape[1], 2)).Q + noise * draw(*shape, 3) - 1
    *_, disparity = procrustes(x.numpy(), y.numpy())
    assert procrustes_distance(x, y) == pytest.approx(disparity, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("rank", "tolerance"), [(1, 1e-5), (10, 1e-6), (40, 1e-9)])
def test_singular_values_by_eigenvalues_as_on_a_gpu(rank, tolerance):
    matrix = draw(40, rank, 1) @ draw(rank, 40, 2)
    assert _nuclear_norm(matrix, by_eigenvalues=True) == pytest.approx(_nuclear_norm(matrix), rel=tolerance)


def test_is_what_remains_after_turning_by_hand():
    x, y = draw(50, 5, 1) + 2, draw(50, 5, 2)
    a, b = (side.numpy() - side.numpy().mean(axis=0) for side in (x, y))
    rotation, total = orthogonal_procrustes(a, b)
    scale = total / np.sum(a * a)
    remaining = sum(float(row @ row) for row in scale * a @ rotation - b) / float(np.sum(b * b))
    assert procrustes_distance(x, y) == pytest.approx(remaining, rel=1e-10)
    for wrong in (0.9, 1.1):
        assert np.sum((wrong * scale * a @ rotation - b) ** 2) / np.sum(b * b) > remaining


def test_a_turned_mirrored_scaled_and_shifted_space_is_the_same():
    x = draw(60, 8, 1, torch.float32)
    turn = torch.linalg.qr(draw(8, 8, 2)).Q.float()
    turn[:, 0] *= -torch.linalg.det(turn).sign()  # a reflection, whatever the draw
    assert torch.linalg.det(turn) < 0
    assert procrustes_distance(x, x) == pytest.approx(0, abs=1e-12)
    assert procrustes_distance(x, 3 * x @ turn + 5) == pytest.approx(0, abs=1e-9)


def test_few_items_leave_little_of_independent_spaces():
    """The floor says so: what independent spaces leave is what shuffled pairs leave, and far from 1."""
    for n, d in ((30, 60), (60, 30), (600, 6)):
        x, y = draw(n, d, 1), draw(n, d, 2)
        assert procrustes_distance(x, y) == pytest.approx(procrustes_floor(x, y), abs=0.05)
    assert procrustes_floor(draw(30, 60, 1), draw(30, 60, 2)) < 0.5
    assert procrustes_floor(draw(6000, 6, 1), draw(6000, 6, 2)) > 0.99


def test_the_floor_is_the_distance_of_a_seeded_shuffle():
    x, y = draw(20, 4, 1), draw(20, 4, 2)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(5))
    assert procrustes_floor(x, y, seed=5) == pytest.approx(procrustes_distance(x, y[order]), rel=1e-12)
    assert procrustes_floor(x, y, seed=5) != procrustes_floor(x, y, seed=6)


def test_a_side_that_does_not_vary_has_no_distance():
    x = torch.full((5, 3), 0.1)
    assert math.isnan(procrustes_distance(x, draw(5, 3, 1)))
    assert math.isnan(procrustes_floor(draw(5, 3, 1), x))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: procrustes_distance(x, x[:, :1]), "x has width 2 and y has width 1"),
        (lambda x: procrustes_distance(x, x[:2]), "4 items and y has 2"),
        (lambda x: procrustes_distance(x[:1], x[:1]), "at least 2"),
    ],
)
def test_unusable_input_of_procrustes_is_refused_in_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call(draw(4, 2, 1))
