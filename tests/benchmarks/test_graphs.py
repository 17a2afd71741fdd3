"""The benchmark of CUDA graphs runs whole at a tiny size, where nothing is captured."""

import math

from benchmarks import graphs
from tiny_drift import write_model


def test_every_line_trains(tmp_path, benchmark):
    sizes = "--tasks 2 --pairs 4 --steps 2 --rounds 1 --queue 8"
    shown, found = benchmark(graphs, f"--model {write_model(tmp_path / 'model')} {sizes}")
    rows = found["rows"]
    named = [(one["name"], one["batch"]) for one in rows]
    assert named == [("fine-tuning", 2), ("alignment, queue and TLM", 4), ("alignment, in-batch", 4)]
    assert all(one["without"] > 0 and one["captured"] is None for one in rows)
    # Random weights know no label and no translation.
    assert abs(rows[0]["loss_without"] - math.log(3)) < 1 and abs(rows[2]["loss_without"] - math.log(4)) < 0.6
    assert sum(line.startswith("| alignment") for line in shown.splitlines()) == 2
