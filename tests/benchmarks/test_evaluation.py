"""The evaluation benchmark runs whole at a tiny size, and its two sides find the same loss."""

import math

import numpy as np

from benchmarks import evaluation


def test_both_sides_run_and_their_losses_agree(benchmark):
    sizes = "--depth 1 --width 32 --vocabulary 200 --sentences 60 --rounds 1 --batches 16"
    shown, found = benchmark(evaluation, sizes)
    assert "| Trainer.evaluate, batch 16 |" in shown
    ours, trainer = found["rows"]
    assert ours["sentences_per_second"] > 0 and trainer["sentences_per_second"] > 0 and ours["prepared"] > 0
    # Weights are random: what differs is which 450 tokens are asked for.
    assert abs(ours["loss"] - trainer["loss"]) < 0.1
    assert abs(ours["loss"] - math.log(200)) < 0.3


def test_sentences_are_as_long_as_those_of_newspapers():
    text = evaluation.make_text("nl", 2_000, 500, seed=0)
    assert 25 < text.lengths.mean() < 29 and len(text.ids) == text.lengths.sum()
    starts = np.cumsum(text.lengths) - text.lengths
    assert set(text.ids[starts]) == {2} and set(text.ids[np.cumsum(text.lengths) - 1]) == {3}
    assert (np.delete(text.ids, [*starts, *(np.cumsum(text.lengths) - 1)]) >= 5).all()
