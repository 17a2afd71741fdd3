"""The cycle of a training: whatever moment it is killed at, it goes on to the same weights and the same readings."""

import json

import pytest

from isogloss.training.checkpoints import FINISHED, Checkpoints, finish, finished
from isogloss.training.loop import saved_models, train
from isogloss.training.probes import Probe
from isogloss.training.stopping import select_by, stop_after
from tiny_training import interrupted, numbers, same, training, weights

CHOICE = select_by("perplexity")


def begin(folder, *, every=2, steps=9, saved=None, stop=None, selection=CHOICE):
    """A training, and the readings of its cycle in a folder, which a probe makes of its weights."""
    one = training(steps=steps)

    def take():
        yield {"measure": "perplexity", "value": abs(float(one.model.upper.weight.detach().sum()))}

    def export(at):
        (at / "numbers").write_text(numbers(one.model))

    probes = [Probe(1, take)]
    if saved is not None:
        probes.append(saved_models(one, saved, export, every=4, about={"seed": 3}))
    checkpoints = Checkpoints(folder, export, every)
    return one, train(one, checkpoints=checkpoints, probes=probes, selection=selection, stop=stop)


def flat(readings):
    return [reading for some in readings for reading in some]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nobody killed: its folder, itself, its readings."""
    folder = tmp_path_factory.mktemp("whole")
    one, readings = begin(folder)
    return folder, one, flat(readings)


@pytest.mark.parametrize("after", [1, 2, 5, 8])
def test_a_killed_training_goes_on_to_the_same_weights_and_readings(whole, after, tmp_path, monkeypatch):
    folder, one, readings = whole
    before = []
    with interrupted(monkeypatch, after=after):
        for some in begin(tmp_path)[1]:
            before += some
    again, rest = begin(tmp_path)
    resumed = flat(rest)
    assert again.step == 9 and same(weights(one.model), weights(again.model))
    checkpoint = (after - 1) // 2 * 2 if after > 2 else 0  # the kill came before the one of its own step was written
    assert min(reading["step"] for reading in resumed) in (checkpoint, after)
    known = {(reading["step"], reading["measure"]): reading for reading in before}
    assert all(known.get((one["step"], one["measure"]), one) == one for one in resumed)  # taken again, and the same
    known |= {(reading["step"], reading["measure"]): reading for reading in resumed}
    assert [known[key] for key in sorted(known)] == sorted(readings, key=lambda one: (one["step"], one["measure"]))
    assert (again.best, again.best_step) == (one.best, one.best_step)
    assert (tmp_path / "best" / "numbers").read_text() == (folder / "best" / "numbers").read_text()


def test_a_training_killed_twice_and_by_a_rule_stops_where_it_would_have_stopped(tmp_path, monkeypatch):
    rule = stop_after(CHOICE, patience=6)
    one, readings = begin(tmp_path / "whole", steps=40, stop=rule)
    expected = flat(readings)
    assert one.stopped and one.step < 40
    for _ in range(2):
        with interrupted(monkeypatch, after=2):
            flat(begin(tmp_path / "killed", steps=40, stop=rule, every=1)[1])
    again, rest = begin(tmp_path / "killed", steps=40, stop=rule, every=1)
    later = [reading for reading in flat(rest) if reading["step"] > 4]  # of the checkpoint's step, all but the loss
    assert (again.step, again.stopped) == (one.step, one.stopped) and same(weights(one.model), weights(again.model))
    assert later and later == [reading for reading in expected if reading["step"] > 4]


def test_what_a_kill_left_half_written_is_cleared(tmp_path):
    half = tmp_path / ".step-0000004.99999.part"
    half.mkdir()
    flat(begin(tmp_path)[1])
    assert not half.exists() and [path.name for path in tmp_path.glob("step-*")] == ["step-0000008"]


def test_a_finished_training_is_not_trained_again_and_leaves_its_best_model_only(tmp_path):
    _, readings = begin(tmp_path)
    assert not finished(tmp_path)
    flat(readings)
    assert not finished(tmp_path) and list(tmp_path.glob("step-*"))
    finish(tmp_path)
    assert finished(tmp_path) and sorted(path.name for path in tmp_path.iterdir()) == ["best", FINISHED]
    (tmp_path / "step-0000008").mkdir()  # a kill between the mark and the removal
    assert finished(tmp_path) and not list(tmp_path.glob("step-*"))
    finish(tmp_path, keep_best=False)
    assert [path.name for path in tmp_path.iterdir()] == [FINISHED]


def test_without_a_selection_there_is_no_best_model_and_an_empty_training_can_be_finished(tmp_path):
    folder = tmp_path / "new"
    one, readings = begin(folder, steps=0, selection=None)
    flat(readings)
    finish(folder)
    assert finished(folder) and one.best_weights is None and not (folder / "best").exists()


def test_models_are_saved_every_so_often_once_and_with_their_record(tmp_path, monkeypatch):
    saved = tmp_path / "models"
    with interrupted(monkeypatch, after=5):
        flat(begin(tmp_path / "run", saved=saved)[1])
    first = tmp_path / "models" / "step-4"
    written = (first / "numbers").stat().st_mtime_ns
    half = tmp_path / "models" / ".step-8.99999.part"
    half.mkdir()
    one, rest = begin(tmp_path / "run", saved=saved)
    flat(rest)
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["step-4", "step-8"]
    assert (first / "numbers").stat().st_mtime_ns == written  # passed again, and left as it is
    assert json.loads((tmp_path / "models" / "step-8" / "step.json").read_text()) == {"seed": 3, "step": 8}
    _, readings = begin(tmp_path / "other", saved=tmp_path / "others")
    flat(readings)
    assert (tmp_path / "others/step-8/numbers").read_text() == (tmp_path / "models/step-8/numbers").read_text()
