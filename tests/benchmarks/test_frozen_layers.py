"""The benchmark of training with frozen layers runs whole at a tiny size."""

from benchmarks import transfer


def test_both_sides_train_and_are_compared(tiny, benchmark):
    _, found = benchmark(transfer, f"--model {tiny('bert')} --frozen 2 --examples 12 --batch 4 --rounds 1")
    assert found["times"] == found["isogloss"] / found["trainer"] > 0
