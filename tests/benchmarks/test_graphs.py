"""The benchmark of CUDA graphs runs whole at a tiny size, where nothing is captured."""

import json
import math
import subprocess
import sys
from pathlib import Path

from tiny_drift import write_model

ROOT = Path(__file__).parents[2]


def test_every_line_trains(tmp_path):
    out = tmp_path / "rows.json"
    sizes = "--device cpu --tasks 2 --pairs 4 --steps 2 --rounds 1 --queue 8"
    model = str(write_model(tmp_path / "model"))
    command = [sys.executable, "-m", "benchmarks.graphs", "--model", model, *sizes.split(), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    named = [(one["name"], one["batch"]) for one in rows]
    assert named == [("fine-tuning", 2), ("alignment, queue and TLM", 4), ("alignment, in-batch", 4)]
    assert all(one["without"] > 0 and one["captured"] is None for one in rows)
    # Random weights know no label and no translation.
    assert abs(rows[0]["loss_without"] - math.log(3)) < 1 and abs(rows[2]["loss_without"] - math.log(4)) < 0.6
    assert sum(line.startswith("| alignment") for line in done.stdout.splitlines()) == 2
