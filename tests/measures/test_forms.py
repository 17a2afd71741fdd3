"""Three forms of CKA at once: against plain formulas, all shuffles one by one, and blocks left out one by one."""

from itertools import permutations

import numpy as np
import pytest
import torch

from isogloss.errors import InputError
from isogloss.measures import cka, cka_forms, cka_uncentred, jackknife_interval


def related(n, dx, dy, *, away=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dx, generator=generator, dtype=torch.float64)
    mix = torch.randn(dx, dy, generator=generator, dtype=torch.float64)
    return x + away, x @ mix + 2 * torch.randn(n, dy, generator=generator, dtype=torch.float64) - away / 2


def printed(x, y):
    """The formula as it is printed, with numpy."""
    x, y = np.asarray(x), np.asarray(y)
    return np.linalg.norm(y.T @ x) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


@pytest.mark.parametrize(("n", "dx", "dy"), [(60, 5, 7), (30, 40, 33)])
def test_the_uncentred_form_is_the_printed_formula(n, dx, dy):
    x, y = related(n, dx, dy)
    assert cka_uncentred(x, y) == pytest.approx(printed(x, y), rel=1e-12)


def test_independent_clouds_off_the_origin_look_alike_where_nothing_is_centred():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(1000, 768, generator=generator) + 3 for _ in range(2))
    found = cka_forms(x, y)
    assert found["cka_uncentred"].value > 0.99  # as papers.md computes: 0.999
    assert found["cka_biased"].value == pytest.approx(0.434, abs=0.01)
    assert abs(found["cka"].value) < 0.01
    for one in found.values():  # nothing is there, and every form says so beside its floor
        assert one.value == pytest.approx(one.floor, abs=0.01)


@pytest.mark.parametrize("away", [0.0, 3.0, 1000.0])
def test_values_are_those_of_the_whole_matrices(away):
    x, y = related(90, 6, 9, away=away)
    found = cka_forms(x, y, seed=4)
    assert found["cka"].value == pytest.approx(cka(x, y), rel=1e-9)
    assert found["cka_biased"].value == pytest.approx(cka(x, y, biased=True), rel=1e-9)
    assert found["cka_uncentred"].value == pytest.approx(printed(x, y), rel=1e-9)
    assert {one.n for one in found.values()} == {90}
    for one in found.values():
        assert one.low <= one.value <= one.high


def test_floors_of_the_printed_forms_are_the_means_over_every_shuffle():
    x, y = related(6, 2, 3)
    orders = [list(order) for order in permutations(range(6))]
    found = cka_forms(x, y)
    assert found["cka_uncentred"].floor == pytest.approx(np.mean([printed(x, y[one]) for one in orders]), rel=1e-10)
    expected = np.mean([cka(x, y[one], biased=True) for one in orders])
    assert found["cka_biased"].floor == pytest.approx(expected, rel=1e-10)


def test_intervals_leave_out_one_block_after_the_other():
    x, y = related(103, 4, 5)
    found = cka_forms(x, y, seed=9)
    order = torch.randperm(103, generator=torch.Generator().manual_seed(9)).numpy()
    cuts = [103 * i // 18 for i in range(19)]  # blocks of at most 6: 18 of them
    for name, formula in (("cka_uncentred", printed), ("cka_biased", lambda a, b: cka(a, b, biased=True))):
        without = [
            formula(*(side[np.delete(order, range(start, stop))] for side in (x, y)))
            for start, stop in zip(cuts, cuts[1:], strict=False)
        ]
        low, high = jackknife_interval(formula(x, y), torch.tensor(without, dtype=torch.float64))
        assert (found[name].low, found[name].high) == pytest.approx((low, high), rel=1e-9)


def test_the_interval_covers_what_many_sentences_give():
    x, y = related(20_000, 6, 6)
    truth = cka_forms(x, y)
    inside = {name: 0 for name in truth}
    for start in range(0, 20_000, 1000):
        part = cka_forms(x[start : start + 1000], y[start : start + 1000])
        for name, one in part.items():
            inside[name] += one.low <= truth[name].value <= one.high
    assert all(count >= 16 for count in inside.values()), inside  # 19 of 20 are expected


def test_widths_may_differ_and_three_items_are_too_few():
    x, y = related(12, 3, 20)
    assert set(cka_forms(x, y)) == {"cka", "cka_biased", "cka_uncentred"}
    with pytest.raises(InputError, match="debiased CKA needs at least 4 items, not 3"):
        cka_forms(x[:3], y[:3])
