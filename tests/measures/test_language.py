"""Perplexity against hand numbers and an explicit jackknife."""

import doctest
import math

import pytest
import torch
from scipy import stats

from isogloss.errors import InputError
from isogloss.measures import MEASURES, language
from isogloss.measures.language import Likelihood, perplexity, perplexity_interval, tokens_per


def test_a_uniform_guess_has_the_perplexity_of_its_choices():
    """Ten tokens guessed among 32: 5 bits each, 1.5 tokens a word, 5 characters a word."""
    known = Likelihood(10 * math.log(32), 10, tokens=300, words=200, characters=1000)
    assert perplexity(known) == pytest.approx(32, rel=1e-14)
    assert perplexity(known, "word") == pytest.approx(32**1.5, rel=1e-14)
    assert perplexity(known, "character") == pytest.approx(32**0.3, rel=1e-14)


def test_sums_are_added_before_the_ratio():
    one, two = Likelihood(10.0, 2, 20, 10, 50), Likelihood(3.0, 30, 100, 40, 300)
    both = one + two
    assert both == two + one == Likelihood(13.0, 32, 120, 50, 350)
    assert perplexity(both) == pytest.approx(math.exp(13 / 32))
    assert perplexity(both, "word") == pytest.approx(math.exp(13 / 32 * 120 / 50))


def test_two_vocabularies_of_one_text_agree_per_word_and_per_character():
    """The same 60 nats over 10 words: whole words cost 6 nats each, halves of words 3."""
    words = Likelihood(60.0, 10, tokens=10, words=10, characters=45)
    halves = Likelihood(60.0, 20, tokens=20, words=10, characters=45)
    assert perplexity(words) > 10 * perplexity(halves)
    for unit in ("word", "character"):
        assert perplexity(words, unit) == pytest.approx(perplexity(halves, unit), rel=1e-14)


def test_the_best_checkpoint_is_the_one_with_the_lowest_perplexity():
    """Named after an error of the papers' code: the highest perplexity was taken for the best."""
    entry = MEASURES["perplexity"]
    assert entry.function is perplexity
    assert not entry.higher_is_better
    assert entry.range == (1.0, math.inf)
    better, worse = (Likelihood(total, 10, 10, 10, 10) for total in (5.0, 50.0))
    assert entry.range[0] <= entry.function(better) < entry.function(worse) <= entry.range[1]


def test_ends_of_the_range():
    assert perplexity(Likelihood(0.0, 5, 5, 5, 5)) == 1.0
    assert perplexity(Likelihood(1e6, 1, 1, 1, 1)) == math.inf
    assert math.isnan(perplexity(Likelihood(math.nan, 1, 1, 1, 1)))


def test_interval_against_an_explicit_jackknife():
    draw = torch.Generator().manual_seed(0)
    totals = torch.rand(12, generator=draw, dtype=torch.float64) * 50 + 100
    counts = torch.randint(30, 60, (12,), generator=draw)
    for rate in (1.0, 1.4, 0.25):
        left = []
        for out in range(12):
            kept = [i for i in range(12) if i != out]
            left.append(rate * sum(totals[i].item() for i in kept) / sum(counts[i].item() for i in kept))
        mean = sum(left) / 12
        deviation = math.sqrt(11 / 12 * sum((one - mean) ** 2 for one in left))
        centre = rate * totals.sum().item() / counts.sum().item()
        reach = stats.t.ppf(0.975, 11) * deviation
        expected = (math.exp(centre - reach), math.exp(centre + reach))
        assert perplexity_interval(totals, counts, rate=rate) == pytest.approx(expected, rel=1e-12)


def test_interval_covers_the_truth():
    """Blocks of 50 exponential surprises around 2 nats: 95% intervals hold exp(2) about 95 times in 100."""
    draw = torch.distributions.Exponential(0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        blocks = draw.sample((400, 20, 50)).sum(dim=2)
    counts = torch.full((20,), 50)
    inside = sum(low <= math.exp(2) <= high for low, high in (perplexity_interval(one, counts) for one in blocks))
    assert 0.91 < inside / 400 < 0.985


def test_interval_needs_three_blocks_that_predict_something():
    totals, counts = torch.tensor([5.0, 6.0, 0.0, 0.0]), torch.tensor([2, 3, 0, 0])
    assert all(math.isnan(end) for end in perplexity_interval(totals, counts))
    totals, counts = torch.tensor([5.0, 6.0, 0.0, 7.0]), torch.tensor([2, 3, 0, 4])
    expected = perplexity_interval(torch.tensor([5.0, 6.0, 7.0]), torch.tensor([2, 3, 4]))
    assert perplexity_interval(totals, counts) == expected
    assert not math.isnan(expected[0])


def test_interval_stays_in_the_range():
    low, high = perplexity_interval(torch.tensor([0.0, 0.0, 9.0]), torch.tensor([10, 10, 10]))
    assert low == 1.0
    assert perplexity_interval(torch.tensor([1e5, 2e5, 9e5]), torch.tensor([1, 1, 1]))[1] == math.inf
    assert all(math.isnan(end) for end in perplexity_interval(torch.tensor([1.0, math.nan, 2.0]), torch.ones(3)))


def test_nothing_predicted_is_refused():
    with pytest.raises(InputError, match="at least one predicted token"):
        perplexity(Likelihood(0.0, 0, 5, 5, 5))
    with pytest.raises(InputError, match="no words"):
        perplexity(Likelihood(1.0, 1, 5, 0, 5), "word")
    with pytest.raises(InputError, match="not per 'sentence'"):
        tokens_per(Likelihood(1.0, 1, 5, 5, 5), "sentence")
    with pytest.raises(InputError, match="one number a block"):
        perplexity_interval(torch.zeros(3), torch.ones(4))


def test_docstring_examples():
    result = doctest.testmod(language, extraglobs={"torch": torch})
    assert result.attempted > 0
    assert result.failed == 0
