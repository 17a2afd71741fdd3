"""The pretraining benchmark runs whole at a tiny size, and its two sides learn the same."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("rows", [[], ["--texts"]])
def test_both_sides_run_and_their_losses_agree(tmp_path, rows):
    sizes = "--depth 1 --width 32 --vocabulary 200 --length 32 --batch 32 --warm-up 4 --steps 16 --trainer-steps 6"
    out = tmp_path / "rows.json"
    command = [sys.executable, "-m", "benchmarks.pretraining", "--device", "cpu", *sizes.split(), *rows]
    command += ["--out", str(out)]
    alone = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "| Trainer |" in done.stdout
    ours, trainer = json.loads(out.read_text())["rows"]
    assert (ours["name"], ours["steps"], trainer["name"], trainer["steps"]) == ("isogloss", 16, "Trainer", 6)
    assert ours["tokens_per_second"] > 0 and trainer["tokens_per_second"] > 0
    # Ten steps of 160 predictions from the same weights, with other masks: the first loss is near the logarithm of 200.
    assert abs(ours["loss"] - trainer["loss"]) < 0.1
    assert abs(ours["loss"] - math.log(200)) < 0.5
