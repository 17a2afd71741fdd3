"""The benchmark of the callbacks runs whole at a tiny size."""

from benchmarks import callbacks


def test_it_trains_with_and_without_and_says_what_the_callbacks_cost(benchmark):
    sizes = "--depth 1 --width 32 --vocabulary 200 --steps 8 --every 4 --rounds 1"
    _, found = benchmark(callbacks, sizes)
    assert found["readings"] == [3, 2]  # perplexity at 0, 4 and 8; drift every 500, so at 0 and after the last
    assert 0 < found["inside"] < 1
    assert found["cost"] == found["with"] / found["without"] - 1
