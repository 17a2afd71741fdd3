"""Several processes train as one: as threads that meet at a barrier, and as a launcher starts them."""

import json
import os
import subprocess
import sys

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from isogloss.errors import InputError
from isogloss.recipes.pretrain import pretrain
from isogloss.runs import read_facts, read_rows
from isogloss.training import checkpoints as kept, loop
from isogloss.training.loop import Objective
from tiny_pretraining import SMALL, options, write_texts
from tiny_processes import together
from tiny_training import Tower, exported, run, same, squares, training, weights


@pytest.mark.parametrize(
    ("names", "rows", "piece"),
    [(("",), 7, None), (("",), 8, 2), (("a", "b"), 7, None), (("a", "b"), 3, None), (("a",), 1, None)],
)
def test_several_processes_follow_the_curve_of_one(names, rows, piece):
    """Also where a process has no rows of a part, and where nobody has any of it for some steps."""

    def objective(model):
        found = squares(model, names, rows)
        # At odd steps only the first name is drawn: what belongs to the other must neither decay nor go on moving.
        return Objective(lambda step: found.draw(step)[: 1 if step % 2 else None], found.loss, found.count)

    model = Tower()
    alone = training(model, objective=objective(model), piece=piece)
    expected = run(alone)

    def work(processes):
        mine = Tower()
        one = training(mine, objective=objective(mine), piece=piece, processes=processes)
        return run(one), weights(mine)

    found = together(3, work)
    for readings, moved in found:
        assert same(moved, found[0][1]), "every process holds the same weights"
        assert [reading["n"] for reading in readings] == [reading["n"] for reading in expected]
        assert [reading["value"] for reading in readings] == pytest.approx([reading["value"] for reading in expected])
        for name, weight in model.named_parameters():
            torch.testing.assert_close(moved[name], weight, rtol=1e-4, atol=1e-5)


def test_only_the_first_process_writes_and_all_go_on_from_it(tmp_path):
    def work(processes):
        one = training(processes=processes, steps=7, report=4)
        place = exported(one, tmp_path / str(processes.rank), every=3)
        readings = run(one, checkpoints=place)
        again = training(processes=processes, steps=7, report=4)
        again.restore(kept.latest(tmp_path / "0"))
        return readings, again.step, again.losses(), weights(one.model), run(again), weights(again.model)

    found = together(2, work)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    state = json.loads((kept.latest(tmp_path / "0") / "training.json").read_text())
    assert state["count"] == 10 and state["total"] > 0, "two steps of five targets since the last reading"
    for readings, step, losses, whole, later, resumed in found:
        assert step == state["step"] == 6
        assert losses == (state["total"], state["count"])
        assert later == [reading for reading in readings if reading["step"] > 6]
        assert same(whole, resumed)


@pytest.mark.parametrize("mistaken", [True, False])
def test_what_the_first_process_cannot_make_no_process_waits_for(mistaken):
    made = []

    def work(processes):
        def make():
            made.append(processes.rank)
            if mistaken:
                raise InputError("no such text")
            return processes.rank

        try:
            return loop.together(processes, make)
        except InputError as error:
            return str(error)

    told = ["no such text", "the first process could not go on, and says why"]
    assert together(2, work) == (told if mistaken else [0, 1])
    assert made == ([0] if mistaken else [0, 1]), "the others read what the first has made"


def test_two_processes_of_a_launcher_make_one_run_with_the_curve_of_one(tmp_path):
    """Three languages with embeddings of their own and three streams a step: mostly one process has none of some."""
    files = write_texts(tmp_path / "text", languages=("qaa", "qab", "qac"))
    rhythm = {"steps": 12, "report": 1, "probe": 6, "checkpoint": 5}
    changes = {"separate": "embeddings", "batch": 3, "rate": 0.01, **rhythm}
    command = ["pretrain", *options(files, **changes), "--quiet"]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "isogloss"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, *launch, *command, "--out", str(tmp_path / "two")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rows.csv") == 1, "one process tells"
    one = pretrain(files, out=tmp_path / "one", **SMALL | changes)
    two = read_rows(tmp_path / "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "text", "two"]
    assert not list((tmp_path / "two").rglob(".*.part"))
    coordinates = [name for name in two.columns if name not in ("value", "low", "high")]
    pd.testing.assert_frame_equal(two[coordinates], one[coordinates])
    assert set(one[one.measure == "loss"].step) == set(range(1, 13))
    loss = one.measure == "loss"
    assert two[loss].value.tolist() == pytest.approx(one[loss].value.tolist(), abs=1e-4)
    assert two.value.tolist() == pytest.approx(one.value.tolist(), rel=1e-3)
    for language in files:
        left, right = (load_file(tmp_path / name / "model" / language / "model.safetensors") for name in ("one", "two"))
        for name, weight in left.items():
            torch.testing.assert_close(right[name], weight, atol=1e-4, rtol=1e-4)
    facts = read_facts(tmp_path / "two")
    assert facts["status"] == "finished" and facts["hashes"] == read_facts(tmp_path / "one")["hashes"]
    assert [path.name for path in (tmp_path / "two" / "checkpoints").iterdir()] == ["step-0000010"]
