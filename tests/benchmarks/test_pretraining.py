"""The pretraining benchmark runs whole at a tiny size, and its two sides learn the same."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForMaskedLM

from benchmarks import pretraining
from isogloss.stack.families import configure
from isogloss.stack.head import scores


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


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_useful_operations_are_those_that_torch_counts(family):
    """Of a forward pass over one text, and of the head at so many of its tokens as are masked on average."""
    config = configure(family, vocabulary=500, depth=3, width=64, heads=2, length=100)
    config._attn_implementation = "eager"  # whose two products are counted
    model = AutoModelForMaskedLM.from_config(config).eval()
    ids = torch.arange(100)[None] + 5
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        states = model.base_model(input_ids=ids)[0]
        scores(model, states[:, :15])
    assert 100 * pretraining.useful_flops(model, 100) == pytest.approx(3 * counted.get_total_flops(), rel=0.01)
