"""The benchmark of the callbacks runs whole at a tiny size."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_trains_with_and_without_and_says_what_the_callbacks_cost(tmp_path):
    out = tmp_path / "cost.json"
    sizes = "--depth 1 --width 32 --vocabulary 200 --steps 8 --every 4 --rounds 1"
    command = [sys.executable, "-m", "benchmarks.callbacks", "--device", "cpu", *sizes.split(), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["readings"] == [3, 2]  # perplexity at 0, 4 and 8; drift every 500, so at 0 and after the last
    assert 0 < found["inside"] < 1
    assert found["cost"] == found["with"] / found["without"] - 1
