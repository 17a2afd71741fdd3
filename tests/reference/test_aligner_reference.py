"""The aligner's two steps against IBM models written as the papers print them: dictionaries and loops."""

import math
from collections import defaultdict
from dataclasses import replace

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
    fit_tension,
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
    counts, likelihood, distance = defaultdict(float), 0.0, 0.0
    for e, f in zip(source, target, strict=True):
        for j in range(len(f)):
            unwritten, written = terms(e, f, j, t, model)
            total = unwritten + sum(written)
            counts[NULL, f[j]] += unwritten / total
            for i in range(len(e)):
                counts[e[i], f[j]] += written[i] / total
                distance += written[i] / total * abs((i + 1) / len(e) - j / len(f))  # j from 0, as in fast_align
            likelihood += math.log(total)
    return counts, likelihood, distance


def loop_maximisation(counts, smoothing):
    totals = defaultdict(float)
    for (e, _), count in counts.items():
        totals[e] += count + smoothing
    if smoothing == 0:
        return {(e, f): count / totals[e] for (e, f), count in counts.items()}
    return {(e, f): math.exp(digamma(count + smoothing) - digamma(totals[e])) for (e, f), count in counts.items()}


def loop_tension(source, target, distance, tension):
    """Eight gradient steps; the normaliser has the lengths exchanged and, past the shorter one, no end."""
    words = sum(map(len, target))
    for _ in range(8):
        expected = 0.0
        for e, f in zip(source, target, strict=True):
            n, m = len(e), len(f)
            for j in range(1, m + 1):
                far = [abs(i / n - j / m) for i in range(1, n + 1)]
                last = m if j <= n else 1000 * m
                z = sum(math.exp(-tension * abs(k / m - j / n)) for k in range(1, last + 1))
                expected += sum(d * math.exp(-tension * d) for d in far) / z
        tension = min(max(tension + 20 * (expected / words - distance / words), 0.1), 14)
    return tension


def loop_fit(source, target, model, iterations):
    t = defaultdict(lambda: 1.0)
    if model.fast_align:
        for number in range(iterations - 1):
            counts, _, distance = loop_expectation(source, target, t, model)
            t = loop_maximisation(counts, model.smoothing)
            if number > 0:
                model = replace(model, prior=loop_tension(source, target, distance, model.prior))
        return t, model
    for current in [Model(0.0, model.null, model.smoothing)] * iterations + [model] * iterations:
        counts, *_ = loop_expectation(source, target, t, current)
        t = loop_maximisation(counts, model.smoothing)
    return t, model


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
    counts, likelihood, distance = expect(met, table, model=model)
    t = by_words(table, met, source, target)
    wanted, wanted_likelihood, wanted_distance = loop_expectation(source, target, t, model)
    assert_equal(by_words(counts, met, source, target), wanted)
    assert likelihood == pytest.approx(wanted_likelihood, abs=1e-10)
    assert distance == pytest.approx(wanted_distance, abs=1e-10)


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
@pytest.mark.parametrize("fast_align", [False, True])
def test_fit_and_links_equal_explicit_loops(smoothing, backward, fast_align):
    source, target, model = split(SOURCE), split(TARGET), Model(4.0, 0.08, smoothing, fast_align)
    met = count_words(source, target)
    if backward:
        source, target, met = target, source, flip(met)
    table, fitted = fit(met, model, iterations=5)
    t, model = loop_fit(source, target, model, 5)
    assert fitted.prior == pytest.approx(model.prior, abs=1e-9) and (fitted.prior != 4.0) == fast_align
    assert_equal(by_words(table, met, source, target), t)
    wanted = []
    for e, f in zip(source, target, strict=True):
        choices = [terms(e, f, j, t, model) for j in range(len(f))]
        best = [(written.index(max(written)), j) for j, (_, written) in enumerate(choices)]
        wanted.append(sorted((i, j) for i, j in best if choices[j][1][i] > choices[j][0]))
    assert best_links(met, table, model=fitted, sentences=len(source)) == wanted


@pytest.mark.parametrize("tension", [0.3, 4.0, 13.0])
def test_tension_equals_explicit_loops(tension):
    source, target = split(SOURCE), split(TARGET)
    met = count_words(source, target)
    for distance in (0.5, 2.0, 4.0):
        found = fit_tension(met, distance, tension=tension)
        assert found == pytest.approx(loop_tension(source, target, distance, tension), abs=1e-9)
        assert 0.1 <= found <= 14.0
    assert fit_tension(met, 99.0, tension=tension) == 0.1  # links all over the place
    assert fit_tension(met, 0.0, tension=tension) > tension  # on the diagonal
