"""Whatever the shapes, the shifts and the cuts: the stream answers as the direct function does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.measures import CkaStream, cka

SHAPES = st.tuples(st.integers(5, 60), st.integers(1, 9), st.integers(1, 9))


@settings(max_examples=40, deadline=None)
@given(
    shape=SHAPES,
    cuts=st.lists(st.integers(1, 20), min_size=1, max_size=6),
    block=st.integers(4, 16),
    offset=st.floats(-1000, 1000),
    seed=st.integers(0, 1000),
    biased=st.booleans(),
)
def test_stream_equals_direct(shape, cuts, block, offset, seed, biased):
    n, dx, dy = shape
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, dx, generator=generator, dtype=torch.float64)
    y = torch.randn(n, dy, generator=generator, dtype=torch.float64) + x[:, :1]
    stream = CkaStream([("x", "y")], block=block, shuffles=0)
    start, turn = 0, 0
    while start < n:
        size = cuts[turn % len(cuts)]
        stream.update({"x": x[start : start + size] + offset, "y": y[start : start + size]})
        start, turn = start + size, turn + 1
    assert stream.estimate("x", "y", biased=biased).value == pytest.approx(cka(x, y, biased=biased), rel=1e-8, abs=1e-9)
