"""Vectors may be arrays of numpy: the same numbers as of tensors, and what is no array of numbers is refused."""

import numpy as np
import pytest
import torch

import isogloss as ig
from isogloss.measures.cka import cka_minibatch, cka_rbf
from isogloss.measures.geometry import anc, anisotropy, cosine_drift, l2_drift, neighbourhood_overlap, separability
from isogloss.measures.retrieval import mexa, nearest, retrieve, xsim
from isogloss.measures.word_alignment import argmax_links, itermax_links

OF_TWO = (
    ig.cka,
    cka_minibatch,
    cka_rbf,
    cosine_drift,
    l2_drift,
    ig.retrieval,
    retrieve,
    nearest,
    neighbourhood_overlap,
    ig.procrustes,
    argmax_links,
    itermax_links,
    anc,
    mexa,
    separability,
    xsim,
)


def two_sides(kind):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(40, 6))
    return x.astype(kind), (x + 0.1 * draw.normal(size=x.shape)).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
@pytest.mark.parametrize("measure", OF_TWO, ids=lambda one: one.__name__)
def test_arrays_give_the_numbers_of_tensors(measure, kind):
    x, y = two_sides(kind)
    assert str(measure(x, y)) == str(measure(torch.from_numpy(x), torch.from_numpy(y)))


def test_an_array_may_be_read_only_or_backwards():
    x, _ = two_sides("float32")
    expected = anisotropy(torch.from_numpy(x[::-1].copy()))
    x.flags.writeable = False
    assert anisotropy(x[::-1]) == expected


@pytest.mark.parametrize("bad", ["words", [[1.0, 2.0], [3.0]], np.array([["a", "b"]]), None], ids=str)
def test_what_is_no_array_of_numbers_is_refused(bad):
    with pytest.raises(ig.InputError, match="^x must be a tensor or an array of numbers"):
        anisotropy(bad)
