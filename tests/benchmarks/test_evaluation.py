"""The evaluation benchmark runs whole at a tiny size, and its two sides find the same loss."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
from benchmarks.evaluation import make_text

ROOT = Path(__file__).parents[2]


def test_both_sides_run_and_their_losses_agree(tmp_path):
    sizes = "--depth 1 --width 32 --vocabulary 200 --sentences 60 --rounds 1 --batches 16"
    out = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks.evaluation", "--device", "cpu", *sizes.split(), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "| Trainer.evaluate, batch 16 |" in done.stdout
    ours, trainer = json.loads(out.read_text())["rows"]
    assert ours["sentences_per_second"] > 0 and trainer["sentences_per_second"] > 0 and ours["prepared"] > 0
    # Weights are random: what differs is which 450 tokens are asked for.
    assert abs(ours["loss"] - trainer["loss"]) < 0.1
    assert abs(ours["loss"] - math.log(200)) < 0.3


def test_sentences_are_as_long_as_those_of_newspapers():
    text = make_text("nl", 2_000, 500, seed=0)
    assert 25 < text.lengths.mean() < 29 and len(text.ids) == text.lengths.sum()
    starts = np.cumsum(text.lengths) - text.lengths
    assert set(text.ids[starts]) == {2} and set(text.ids[np.cumsum(text.lengths) - 1]) == {3}
    assert (np.delete(text.ids, [*starts, *(np.cumsum(text.lengths) - 1)]) >= 5).all()
