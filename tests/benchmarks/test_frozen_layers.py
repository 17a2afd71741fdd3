"""The benchmark of training with frozen layers runs whole at a tiny size."""

from benchmarks import transfer


def test_both_sides_train_and_are_compared(tiny, benchmark):
    _, found = benchmark(transfer, f"--model {tiny('bert')} --frozen -1 2 --examples 12 --batch 4 --rounds 1")
    assert [line["frozen"] for line in found["lines"]] == [-1, 2]
    assert all(line["times"] == line["later"] / line["trainer"] > 0 for line in found["lines"])
