"""The benchmark of training with frozen layers runs whole at a tiny size."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_both_sides_train_and_are_compared(tiny, tmp_path):
    out = tmp_path / "times.json"
    sizes = "--device cpu --frozen 2 --examples 12 --batch 4 --rounds 1"
    command = [sys.executable, "-m", "benchmarks.transfer", "--model", tiny("bert"), *sizes.split(), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["times"] == found["isogloss"] / found["trainer"] > 0
