"""The pretraining benchmark runs whole at a tiny size, and its two sides learn the same."""

import math

import pytest

from benchmarks import pretraining


@pytest.mark.parametrize("rows", ["", "--texts"])
def test_both_sides_run_and_their_losses_agree(benchmark, rows):
    sizes = "--depth 1 --width 32 --vocabulary 200 --length 32 --batch 32 --warm-up 4 --steps 16 --trainer-steps 6"
    shown, found = benchmark(pretraining, f"{sizes} {rows}")
    assert "| Trainer |" in shown
    ours, trainer = found["rows"]
    assert (ours["name"], ours["steps"], trainer["name"], trainer["steps"]) == ("isogloss", 16, "Trainer", 6)
    assert ours["tokens_per_second"] > 0 and trainer["tokens_per_second"] > 0
    # Ten steps of 160 predictions from the same weights, with other masks: the first loss is near the logarithm of 200.
    assert abs(ours["loss"] - trainer["loss"]) < 0.1
    assert abs(ours["loss"] - math.log(200)) < 0.5
