"""The aligner's two steps against IBM models written as the papers print them: dictionaries and loops."""

import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.special import digamma

from isogloss.measures.word_alignment import (
    Model,
    TranslationTable,
    best_links,
    count_words,
    expect,
    fit,
    flip,
    maximise,
)

NULL = None
SOURCE = ["the house is small", "the book", "a small book the", "a house", "the the book is a house", "is"]
TARGET = ["das haus ist klein", "das buch", "ein kleines buch", "das haus ist ein haus", "das buch ist haus", "es ist"]


def split(sentences):
    return [sentence.split() for sentence in sentences]


def terms(e, f, j, t, model):
    """The terms of p(f_j): one for null, one for each source place."""
    weights = [math.exp(-model.prior * abs((i + 1) / len(e) - (j + 1) / len(f))) for i in range(len(e))]
    written = [(1 - model.null) * weights[i] / sum(weights) * t[e[i], f[j]] for i in range(len(e))]
    return model.null * t[NULL, f[j]], written


def loop_expectation(source, target, t, model):
    counts, likelihood = defaultdict(float), 0.0
    for e, f in zip(source, target, strict=True):
        for j in range(len(f)):
            unwritten, written = terms(e, f, j, t, model)
            total = unwritten + sum(written)
            counts[NULL, f[j]] += unwritten / total
            for i in range(len(e)):
                counts[e[i], f[j]] += written[i] / total
            likelihood += math.log(total)
    return counts, likelihood


def loop_maximisation(counts, smoothing):
    totals = defaultdict(float)
    for (e, _), count in counts.items():
        totals[e] += count + smoothing
    if smoothing == 0:
        return {(e, f): count / totals[e] for (e, f), count in counts.items()}
    return {(e, f): math.exp(digamma(count + smoothing) - digamma(totals[e])) for (e, f), count in counts.items()}


def loop_fit(source, target, model, iterations):
    t = defaultdict(lambda: 1.0)
    for current in [Model(0.0, model.null, model.smoothing)] * iterations + [model] * iterations:
        counts, _ = loop_expectation(source, target, t, current)
        t = loop_maximisation(counts, model.smoothing)
    return t


def by_words(table, met, source, target):
    """The arrays of a table as a dictionary of words, numbered in order of appearance."""
    source_words, target_words = (
        list(dict.fromkeys(word for row in side for word in row)) for side in (source, target)
    )
    pairs = zip(met.pair_source.tolist(), met.pair_target.tolist(), table.words.tolist(), strict=True)
    numbers = {(source_words[e], target_words[f]): value for e, f, value in pairs}
    return numbers | {(NULL, target_words[f]): value for f, value in enumerate(table.null.tolist())}


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    assert max(abs(found[key] - wanted[key]) for key in wanted) < 1e-10


@pytest.mark.parametrize("model", [Model(0.0, 0.08), Model(4.0, 0.08), Model(1.5, 0.3)])
def test_expectation_equals_explicit_loops(model):
    source, target = split(SOURCE), split(TARGET)
    met = count_words(source, target)
    random = np.random.default_rng(0)
    table = TranslationTable(random.random(len(met.pair_source)), random.random(met.target_words))
    counts, likelihood = expect(met, table, model=model)
    wanted, wanted_likelihood = loop_expectation(source, target, by_words(table, met, source, target), model)
    assert_equal(by_words(counts, met, source, target), wanted)
    assert likelihood == pytest.approx(wanted_likelihood, abs=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.01, 1.0])
def test_maximisation_equals_explicit_loops(smoothing):
    source, target = split(SOURCE), split(TARGET)
    met = count_words(source, target)
    random = np.random.default_rng(1)
    counts = TranslationTable(random.random(len(met.pair_source)), random.random(met.target_words))
    table = maximise(met, counts, smoothing=smoothing)
    wanted = loop_maximisation(by_words(counts, met, source, target), smoothing)
    assert_equal(by_words(table, met, source, target), wanted)


@pytest.mark.parametrize("smoothing", [0.0, 0.01])
@pytest.mark.parametrize("backward", [False, True])
def test_fit_and_links_equal_explicit_loops(smoothing, backward):
    source, target, model = split(SOURCE), split(TARGET), Model(4.0, 0.08, smoothing)
    met = count_words(source, target)
    if backward:
        source, target, met = target, source, flip(met)
    table = fit(met, model, iterations=5)
    t = loop_fit(source, target, model, 5)
    assert_equal(by_words(table, met, source, target), t)
    wanted = []
    for e, f in zip(source, target, strict=True):
        choices = [terms(e, f, j, t, model) for j in range(len(f))]
        best = [(written.index(max(written)), j) for j, (_, written) in enumerate(choices)]
        wanted.append(sorted((i, j) for i, j in best if choices[j][1][i] > choices[j][0]))
    assert best_links(met, table, model=model, sentences=len(source)) == wanted
