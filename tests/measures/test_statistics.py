"""Intervals, means over seeds and the correlation of curves: against scipy, explicit loops and simulation."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import binomtest

from isogloss.errors import InputError
from isogloss.measures.statistics import (
    Interval,
    change_interval,
    correlation,
    holm_confidences,
    jackknife_interval,
    mean_interval,
    mean_over_seeds,
    paired_differences,
    share_interval,
    two_way_mean,
    wilson_interval,
)

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("n", [5, 12])
def test_one_curve_is_what_scipy_says(n):
    for _ in range(5):
        x, y = RNG.normal(size=(2, n)).round(1)  # rounded: with ties
        assert math.isclose(correlation(x, y).value, stats.spearmanr(x, y).statistic, abs_tol=1e-12)
        assert math.isclose(correlation(x, y, kind="pearson").value, stats.pearsonr(x, y).statistic, abs_tol=1e-12)


def test_groups_are_pooled_by_what_happens_within_them():
    x, y = RNG.normal(size=(2, 3, 8))
    inner = [one - one.mean(axis=1, keepdims=True) for one in (x, y)]
    expected = stats.pearsonr(inner[0].ravel(), inner[1].ravel()).statistic
    assert math.isclose(correlation(x, y, kind="pearson").value, expected, abs_tol=1e-12)
    ranks = [stats.rankdata(one, axis=1) for one in (x, y)]
    inner = [one - one.mean(axis=1, keepdims=True) for one in ranks]
    expected = stats.pearsonr(inner[0].ravel(), inner[1].ravel()).statistic
    assert math.isclose(correlation(x, y).value, expected, abs_tol=1e-12)
    level = np.array([[0.0], [100.0], [-7.0]])  # a language that is better everywhere adds nothing
    assert math.isclose(
        correlation(x + level, y + level, kind="pearson").value, correlation(x, y, kind="pearson").value, abs_tol=1e-9
    )


@pytest.mark.parametrize(("kind", "factor"), [("spearman", 1.06), ("pearson", 1.0)])
def test_the_interval_of_a_correlation_is_fishers_of_fewer_layers_in_a_loop(kind, factor):
    x, y = np.random.default_rng(3).normal(size=(2, 13)).cumsum(axis=1)
    first, second = (stats.rankdata(side) if kind == "spearman" else side for side in (x, y))
    inverse = 1 / 13  # of the number of independent layers
    for step in range(1, 5):
        own = []
        for side in (first, second):
            moved = side - side.mean()
            products = [moved[at] * moved[at + step] for at in range(13 - step)]
            own.append(np.mean(products) / np.mean(moved**2))
        inverse += 2 / 13 * (13 - step) / 13 * own[0] * own[1]
    layers = min(13, 1 / inverse)
    found = correlation(x, y, kind=kind)
    ends = np.tanh(np.arctanh(found.value) + np.array([-1, 1]) * stats.norm.ppf(0.975) * np.sqrt(factor / (layers - 3)))
    assert 3 < layers < 13 and (found.low, found.high) == pytest.approx(ends)
    alone = correlation(x, y, kind=kind, ordered=False)
    ends = np.tanh(np.arctanh(found.value) + np.array([-1, 1]) * stats.norm.ppf(0.975) * np.sqrt(factor / 10))
    assert (alone.value, alone.low, alone.high) == pytest.approx((found.value, *ends))
    assert found.high - found.low > alone.high - alone.low


@pytest.mark.parametrize("kind", ["spearman", "pearson"])
def test_random_walks_over_layers_agree_by_chance_no_more_often_than_said(kind):
    """Size on independent walks of 13 layers, and power where their steps have a correlation of 0.9.

    Small and seeded; `scripts/interval_coverage.py` is the large one.
    """
    random, apart = np.random.default_rng(0), dict.fromkeys((0.0, 0.9), 0)
    for true in apart:
        for _ in range(600):
            steps, noise = random.normal(size=(2, 13))
            found = correlation(steps.cumsum(), (true * steps + math.sqrt(1 - true**2) * noise).cumsum(), kind=kind)
            apart[true] += found.low > 0 or found.high < 0
    assert apart[0.0] / 600 <= 0.06 + 0.018 and apart[0.9] / 600 >= 0.6  # two standard errors of 600 walks


def test_languages_share_their_layers_and_add_no_observations():
    same = correlation([1.0, 2, 3, 5, 8, 6, 4.5], [1.0, 2, 3, 5, 8, 6, 4.5])
    assert (same.value, same.high, same.n) == (1.0, pytest.approx(1.0), 7)
    walk = np.random.default_rng(5).normal(size=(2, 12)).cumsum(axis=1)
    once, twice = correlation(*walk), correlation(*(np.stack([side, side]) for side in walk))
    assert (once.value, once.low, once.high) == pytest.approx((twice.value, twice.low, twice.high))


def test_what_does_not_vary_has_no_correlation():
    found = correlation([1, 1, 1, 1], [1, 2, 3, 4])
    assert all(math.isnan(one) for one in (found.value, found.low, found.high))
    assert math.isnan(correlation([1, 2, 3], [1, 2, 4]).low)


@pytest.mark.parametrize(
    ("x", "y", "part"),
    [([1, 2], [1, 2, 3], "one shape"), ([1], [1], "two layers"), ([1, math.nan], [1, 2], "finite")],
)
def test_curves_that_cannot_be_compared_are_one_sentence(x, y, part):
    with pytest.raises(InputError, match=part):
        correlation(x, y)


def walks(seed, shape):
    """Curves above zero that wander and, with luck, cross."""
    return np.exp(np.random.default_rng(seed).normal(size=shape).cumsum(axis=-1) / 2)


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (10, 10), (50, 1000)])
def test_wilson_agrees_with_scipy(hits, n):
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    found = wilson_interval(hits, n)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (found.value, found.n) == (hits / n, n)


@pytest.mark.parametrize(("hits", "n"), [(3, 100), (99, 100), (0, 400), (400, 400)])
def test_the_interval_of_a_share_of_hits_is_wilson_s_with_the_t_quantile(hits, n):
    confidence = 2 * stats.norm.cdf(stats.t.ppf(0.975, n - 1)) - 1
    expected = binomtest(hits, n).proportion_ci(confidence, method="wilson")
    found = share_interval(torch.tensor([1.0] * hits + [0.0] * (n - hits)), floor=0.1)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (found.value, found.n, found.floor) == (hits / n, n, 0.1)
    assert not share_interval(torch.ones(1)).known


@pytest.mark.parametrize(("n", "p", "directions"), [(50, 0.99, 1), (100, 0.99, 6), (1000, 0.999, 1), (3, 0.7, 20)])
def test_shares_near_one_and_of_few_items_are_covered(n, p, directions):
    """Regression: a normal interval of 50 hits at p = 0.99 covered 40% of the time, since [1, 1] has no width."""
    draws = np.random.default_rng(0).binomial(directions, p, size=(2000, n)) / directions
    found = [share_interval(torch.from_numpy(row)) for row in draws]
    assert np.mean([one.low <= p <= one.high for one in found]) > 0.9


def test_shares_that_rounding_put_out_of_range_and_those_that_do_not_vary_have_an_interval():
    for values in ([1, 1 - 1.1e-16, 1, 1], [1.0000001, 1, 1.0000001, 1], [0, -1e-9, 0, 0], [0.7] * 7):
        found = share_interval(torch.tensor(values, dtype=torch.float64))
        assert 0 <= found.low <= found.value <= found.high <= 1 and found.high - found.low > 0.2
    unknown = share_interval(torch.tensor([0.5, math.nan]))
    assert math.isnan(unknown.value) and not unknown.known


def test_a_mean_of_few_items_is_covered():
    draws = np.random.default_rng(0).normal(size=(2000, 3))
    found = [mean_interval(torch.from_numpy(row)) for row in draws]
    assert np.mean([one.low <= 0 <= one.high for one in found]) == pytest.approx(0.95, abs=0.015)
    assert [found[0].low, found[0].high] == pytest.approx(
        stats.t.interval(0.95, 2, draws[0].mean(), stats.sem(draws[0]))
    )


def test_intervals_are_clipped_and_contain_the_value():
    assert wilson_interval(10, 10).high == 1
    assert wilson_interval(0, 10).low == 0
    mean = mean_interval(torch.tensor([1.0, 1.0, 0.0])).clipped()
    assert 0 <= mean.low < mean.value == pytest.approx(2 / 3) and mean.high == 1
    assert not mean_interval(torch.ones(1)).known


def test_a_geometric_mean_of_zero_is_refused():
    with pytest.raises(InputError, match="above zero"):
        mean_over_seeds([1.0, 0.0], scale="log")


@pytest.mark.parametrize("seeds", [2, 3, 5, 9])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_means_over_seeds_against_scipy(seeds, scale):
    values = walks(seeds, (seeds,))
    to, back = (np.log, np.exp) if scale == "log" else (np.asarray, np.asarray)
    low, high = stats.t.interval(0.95, seeds - 1, loc=to(values).mean(), scale=stats.sem(to(values)))
    expected = back([to(values).mean(), low, high]).tolist()
    for given in (values, values.tolist(), dict(enumerate(values.tolist())), [*values, math.nan]):
        mean = mean_over_seeds(given, scale=scale)
        assert [mean.value, mean.low, mean.high] == pytest.approx(expected, rel=1e-9)
        assert mean.n == seeds and mean.known
        assert mean_over_seeds(given, least=3, scale=scale).known == (seeds >= 3)


def test_one_seed_or_none_has_no_interval():
    single, none = mean_over_seeds({7: 2.0}), mean_over_seeds([])
    assert (single.value, single.n, single.known) == (2.0, 1, False)
    assert math.isnan(none.value) and none.n == 0 and not none.known
    assert not single.clipped(0.0, 1.0).known


def test_an_interval_is_clipped_to_the_range_of_its_measure():
    wide = mean_over_seeds([0.1, 0.5, 0.9])
    clipped = wide.clipped(0.0, 1.0)
    assert wide.low < 0 < 1 < wide.high
    assert (clipped.value, clipped.low, clipped.high, clipped.n) == (wide.value, 0.0, 1.0, 3)


def test_paired_differences_are_narrower_than_the_difference_of_two_means():
    base = {seed: float(value) for seed, value in enumerate(walks(5, (6,)))}
    better = {seed: value + 0.1 + 0.01 * seed for seed, value in base.items()} | {99: 5.0}
    differences = paired_differences(better, base)
    assert list(differences) == list(base)
    assert [differences[seed] for seed in base] == pytest.approx([0.1 + 0.01 * seed for seed in base])
    paired = mean_over_seeds(differences)
    expected = stats.ttest_rel([better[seed] for seed in base], list(base.values())).confidence_interval(0.95)
    assert (paired.low, paired.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert paired.high - paired.low < mean_over_seeds(base).high - mean_over_seeds(base).low
    ratios = paired_differences(better, base, scale="log")
    assert ratios[2] == better[2] / base[2]


def two_ways(random, seeds, parts, *, of_seeds, of_items, of_both):
    """Values of seeds (S,) around 0, and without each part of the items (S, B), with these standard deviations."""
    scores = (
        of_seeds * random.normal(size=(seeds, 1))
        + of_items * math.sqrt(parts) * random.normal(size=(1, parts))
        + of_both * math.sqrt(parts) * random.normal(size=(seeds, parts))
    )
    return scores.mean(axis=1), (scores.sum(axis=1, keepdims=True) - scores) / (parts - 1)


def test_variances_over_seeds_and_items_are_those_of_a_two_way_table():
    values, without = two_ways(np.random.default_rng(0), 4, 20, of_seeds=3.0, of_items=0.7, of_both=0.5)
    scores = 20 * values[:, None] - 19 * without  # the values of the parts themselves
    grand, of_seed, of_part = scores.mean(), scores.mean(axis=1), scores.mean(axis=0)
    squares = {
        "seeds": sum(20 * (mean - grand) ** 2 for mean in of_seed) / 3,
        "items": sum(4 * (mean - grand) ** 2 for mean in of_part) / 19,
        "both": sum((scores[s, b] - of_seed[s] - of_part[b] + grand) ** 2 for s in range(4) for b in range(20)) / 57,
    }
    variance = (squares["seeds"] + squares["items"] - squares["both"]) / 80
    freedom = variance**2 / ((squares["seeds"] / 80) ** 2 / 3 + (squares["items"] / 80) ** 2 / 19)
    mean = two_way_mean(values, without)
    assert (mean.mean, mean.error, mean.freedom, mean.n) == pytest.approx((grand, math.sqrt(variance), freedom, 4))
    logs = two_way_mean(np.exp(values), np.exp(without), scale="log")
    assert (logs.error, logs.freedom, logs.value) == pytest.approx((mean.error, mean.freedom, math.exp(grand)))
    holes = two_way_mean([*values, math.nan], np.vstack([without, np.full((1, 20), math.nan)]))
    assert (holes.error, holes.n) == (pytest.approx(mean.error), 4)


def test_items_that_do_not_matter_leave_students_t_and_its_p_value():
    values = [0.2, 0.5, 0.4]
    mean = two_way_mean(values, np.repeat(np.array(values)[:, None], 20, axis=1))
    for alone in (mean, two_way_mean(dict(enumerate(values)))):
        assert (alone.error, alone.freedom) == pytest.approx((stats.sem(values), 2))
        assert alone.p_value(0.1) == pytest.approx(stats.ttest_1samp(values, 0.1).pvalue)
        expected = stats.t.interval(0.99, 2, loc=np.mean(values), scale=stats.sem(values))
        assert (alone.interval(0.99).low, alone.interval(0.99).high) == pytest.approx(expected)
    same = two_way_mean([1.0, 1.0, 1.0])
    assert (same.p_value(1.0), same.p_value(0.0), same.interval().low) == (1.0, 0.0, 1.0)
    assert math.isnan(two_way_mean([1.0]).p_value()) and not two_way_mean([1.0]).interval().known


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("of_items", [0.3, 1.0, 2.0])
def test_an_interval_over_seeds_and_items_covers_what_both_would_give(seeds, of_items):
    """Small and seeded; `scripts/interval_coverage.py` is the large one. Over seeds alone it covers far less."""
    random, trials = np.random.default_rng(seeds), 1000
    covered = dict.fromkeys(("both", "seeds"), 0)
    for _ in range(trials):
        values, without = two_ways(random, seeds, 20, of_seeds=1.0, of_items=of_items, of_both=of_items)
        for name, mean in (("both", two_way_mean(values, without)), ("seeds", two_way_mean(values))):
            covered[name] += mean.interval().low <= 0 <= mean.interval().high
    assert 0.93 <= covered["both"] / trials <= 0.98
    if of_items >= 1:
        assert covered["seeds"] / trials < 0.92


@pytest.mark.parametrize("p_values", [[0.001], [0.04, 0.03], [0.02, 0.03], [0.2, 0.001, 0.012, 0.02], [0.01, 0.01]])
def test_holm_rejects_what_a_loop_over_sorted_p_values_rejects(p_values):
    adjusted, least = {}, 0.0  # Holm's adjusted p values
    for rank, p in enumerate(sorted(p_values)):
        least = max(least, p * (len(p_values) - rank))
        adjusted[p] = least
    rejected = [p <= 1 - level for p, level in zip(p_values, holm_confidences(p_values), strict=True)]
    assert rejected == [adjusted[p] <= 0.05 for p in p_values]


def test_holm_counts_and_orders_only_the_p_values_that_are_there():
    first, unknown, second = holm_confidences([0.04, math.nan, 0.001])
    assert [first, second] == holm_confidences([0.04, 0.001]) and unknown == 0.95
    assert holm_confidences([math.nan, math.nan]) == [0.95, 0.95]


def perplexity_of(nats):
    """The perplexity of items' mean nats (items,), with that without each twentieth of them, by a loop."""
    parts = np.array_split(np.arange(len(nats)), 20)
    without = tuple(float(np.exp(np.delete(nats, part).mean())) for part in parts)
    return Interval(float(np.exp(nats.mean())), parts=without)


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_change_on_the_same_items_is_that_of_the_items_differences(seeds):
    random = np.random.default_rng(seeds)
    before = [random.normal(3, 1, size=200) for _ in range(seeds)]
    after = [nats + random.normal(0.05, 0.1, size=200) for nats in before]
    sides = [perplexity_of(nats) for nats in before], [perplexity_of(nats) for nats in after]
    change = change_interval(*sides, scale="log")
    logs = [np.log(perplexity_of(y).parts) - np.log(perplexity_of(x).parts) for x, y in zip(before, after, strict=True)]
    means = [float((y - x).mean()) for x, y in zip(before, after, strict=True)]
    if seeds == 1:
        expected = jackknife_interval(means[0], torch.tensor(logs[0]))
    else:
        expected = two_way_mean(means, logs).interval()
    assert (change.value, change.low, change.high) == pytest.approx(
        tuple(math.exp(end) for end in (expected.value, expected.low, expected.high))
    )
    assert change.low > 1
    reach, wider = math.log(change.high / change.value), change_interval(*sides, scale="log", among=10)
    freedom = 19 if seeds == 1 else two_way_mean(means, logs).freedom
    quantiles = stats.t.ppf([0.975, 1 - 0.025 / 10], freedom)
    assert math.log(wider.high / wider.value) / reach == pytest.approx(quantiles[1] / quantiles[0])
    linear = change_interval([Interval(1.0, parts=(1.0,) * 20)], [Interval(3.0, parts=(3.0,) * 20)])
    assert (linear.value, linear.low, linear.high) == (2.0, 2.0, 2.0)


def test_a_change_on_the_same_items_covers_the_true_one():
    """Items differ far more than they change, so that separate intervals would nearly always overlap."""
    random, covered = np.random.default_rng(5), 0
    for _ in range(500):
        before = random.normal(3, 1, size=200)
        after = before + random.normal(0.02, 0.1, size=200)
        change = change_interval([perplexity_of(before)], [perplexity_of(after)], scale="log")
        covered += change.low <= math.exp(0.02) <= change.high
    assert 0.93 <= covered / 500 <= 0.98


def test_a_change_needs_parts_of_every_reading():
    whole, lacking = Interval(2.0, parts=(2.0,) * 20), Interval(2.0, parts=(2.0,) * 4)
    for sides in (([], []), ([whole], [lacking]), ([whole, whole], [whole, lacking])):
        assert not change_interval(*sides).known
    assert not change_interval([whole], [Interval(math.inf, parts=(math.inf,) * 20)], scale="log").known
