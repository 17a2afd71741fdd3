"""Checkpoints appear whole or not at all, bring everything back, and a killed training goes on to the same weights."""

import errno
import json
import resource
from contextlib import contextmanager

import pytest
import torch

from isogloss.errors import InputError
from isogloss.files import clear_leftovers
from isogloss.training import checkpoints as kept
from isogloss.training.checkpoints import (
    FINISHED,
    Checkpoints,
    copy_weights,
    export_best,
    finish,
    finished,
    latest,
    restore_checkpoint,
    save_checkpoint,
)
from isogloss.training.loop import Objective, Part, saved_models, train
from isogloss.training.probes import Probe
from isogloss.training.sharing import build, parse
from isogloss.training.stopping import select_by, stop_after
from tiny_models import ENCODERS, tiny_config
from tiny_training import Tower, exported, interrupted, numbers, run, same, training, weights

STATE = {"step": 4, "total": 0.1 + 0.2, "count": 7.0, "best": None, "best_step": None}


def begun(steps=4, **changes):
    """A model whose optimiser has moments, and where to keep it."""
    one = training(steps=steps, **changes)
    run(one)
    return one


def place(folder, **more):
    return Checkpoints(folder, lambda beside: (beside / "config.json").write_text("{}"), every=1, **more)


def state_of(optimiser):
    return [
        {name: torch.as_tensor(value).clone() for name, value in optimiser.state[weight].items()}
        for group in optimiser.param_groups
        for weight in group["params"]
        if weight in optimiser.state
    ]


def test_weights_moments_and_state_come_back_to_the_bit(tmp_path):
    one = begun()
    path = save_checkpoint(place(tmp_path), one.model, one.optimiser, state=STATE)
    other = training(Tower())
    with torch.no_grad():
        for weight in other.model.parameters():
            weight.add_(1)
    assert restore_checkpoint(path, other.model, other.optimiser) == (STATE, None)
    assert same(weights(one.model), weights(other.model))
    found, expected = state_of(other.optimiser), state_of(one.optimiser)
    assert len(found) == len(expected) == 4, "the parts no row reached have none"
    for left, right in zip(found, expected, strict=True):
        assert set(left) == set(right) == {"exp_avg", "exp_avg_sq", "step"}
        assert all(torch.equal(left[name], right[name]) and left[name].dtype == right[name].dtype for name in left)


@pytest.mark.parametrize("separate", ["nothing", "embeddings+1-1"])
@pytest.mark.parametrize("family", ENCODERS)
def test_models_of_every_family_come_back_with_what_they_share(tmp_path, family, separate):
    def fresh(seed):
        model = build(tiny_config(family, 40), ["en", "nl"], sharing=parse(separate), seed=seed)
        ids = torch.arange(5, 25).reshape(2, 10)

        def loss(rows, name):
            return model.of(name)(input_ids=rows["ids"], labels=rows["ids"]).loss

        return training(
            model, objective=Objective(lambda _: [Part({"ids": ids}, "en")], loss, lambda rows: 20), steps=2, report=9
        )

    one, other = fresh(0), fresh(1)
    one.update()
    other.restore(save_checkpoint(place(tmp_path), one.model, one.optimiser, state={**STATE, "step": 1}))
    one.update()
    other.update()
    assert same(weights(one.model), weights(other.model))
    assert same(dict(one.model.named_buffers()), dict(other.model.named_buffers()))


def test_the_last_ones_are_kept(tmp_path):
    one = begun()
    for step in (1, 2, 3, 10_000_000):
        save_checkpoint(place(tmp_path, keep=2), one.model, one.optimiser, state={**STATE, "step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000003", "step-10000000"]
    assert latest(tmp_path).name == "step-10000000"
    assert (latest(tmp_path) / "config.json").is_file()


def test_the_latest_is_by_number_and_whole(tmp_path):
    assert latest(tmp_path / "nothing") is None
    one = begun()
    for step in (9_999_999, 10_000_000):
        save_checkpoint(place(tmp_path, keep=5), one.model, one.optimiser, state={**STATE, "step": step})
    assert latest(tmp_path).name == "step-10000000"
    (tmp_path / "step-10000000" / "training.json").unlink()
    assert latest(tmp_path).name == "step-9999999"


def test_what_a_kill_left_half_written_is_passed_by_and_cleared(tmp_path):
    one = begun()
    save_checkpoint(place(tmp_path), one.model, one.optimiser, state=STATE)
    half = tmp_path / ".step-0000009.77.part"
    half.mkdir()
    (half / "training.json").write_text(json.dumps({**STATE, "step": 9}))
    assert latest(tmp_path).name == "step-0000004"
    clear_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000004"]


def test_the_best_is_written_whole_and_the_model_trains_on_as_it_was(tmp_path):
    one = begun()
    best, expected = copy_weights(one.model), numbers(one.model)
    one.update()
    later = weights(one.model)
    for _ in range(2):
        export_best(exported(one, tmp_path), one.model, best)
        assert [path.name for path in tmp_path.iterdir()] == ["best"]
        assert (tmp_path / "best" / "numbers").read_text() == expected
        assert same(weights(one.model), later)
    assert latest(tmp_path) is None
    again = copy_weights(one.model, best)
    assert all(again[name] is best[name] for name in best) and same(again, later), "its memory is used again"


def test_the_best_so_far_is_in_a_checkpoint_once(tmp_path):
    """Not again where it is the checkpoint's own model, and either way it comes back."""
    one = begun()
    best = copy_weights(one.model)
    for name, better in (("own", 4), ("earlier", 2)):
        one.best, one.best_step, one.best_weights = 1.0, better, best
        one.save(exported(one, tmp_path / name))
        path = latest(tmp_path / name)
        assert (path / "best.safetensors").is_file() == (name == "earlier")
        other = training(Tower())
        other.restore(path)
        assert same(other.best_weights, best) and other.best_step == better
        with torch.no_grad():
            one.model.lower.weight.add_(1)


def test_another_model_is_refused(tmp_path):
    one = begun()
    path = save_checkpoint(place(tmp_path), one.model, one.optimiser, state=STATE)
    other = torch.nn.Linear(2, 2)
    with pytest.raises(InputError, match="holds another model than the one to be trained"):
        restore_checkpoint(path, other, torch.optim.AdamW(other.parameters()))


@pytest.mark.parametrize("file", ["training.safetensors", "training.json"])
@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_a_damaged_checkpoint_is_named(tmp_path, file, damage):
    one = begun()
    path = save_checkpoint(place(tmp_path), one.model, one.optimiser, state=STATE)
    if damage == "gone":
        (path / file).unlink()
    else:
        (path / file).write_bytes((path / file).read_bytes()[:-20])
    with pytest.raises(InputError, match="step-0000004 is no checkpoint to go on from"):
        restore_checkpoint(path, one.model, one.optimiser)


def test_a_damaged_best_model_in_a_checkpoint_is_named(tmp_path):
    one = begun()
    one.best, one.best_step, one.best_weights = 1.0, 2, copy_weights(one.model)
    one.save(exported(one, tmp_path))
    path = latest(tmp_path)
    (path / "best.safetensors").write_bytes((path / "best.safetensors").read_bytes()[:-20])
    with pytest.raises(
        InputError, match=r"no checkpoint to go on from \(.*\); remove it, and --resume begins at the one"
    ):
        training(Tower()).restore(path)


@contextmanager
def small_disk(limit):
    """No file may grow beyond `limit` bytes: the system itself refuses the write, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("where", ["the weights", "the model's own files"])
def test_a_disk_that_is_really_too_small_is_an_os_error_and_the_last_checkpoint_stays(tmp_path, where):
    one = begun()
    save_checkpoint(place(tmp_path), one.model, one.optimiser, state=STATE)
    before = {path.name: path.read_bytes() for path in latest(tmp_path).iterdir()}

    def export(beside):
        if where != "the weights":
            (beside / "tokenizer.json").write_bytes(bytes(10_000))

    full = Checkpoints(tmp_path, export, every=1)
    with small_disk(1_000), pytest.raises(OSError, match="File too large") as caught:
        save_checkpoint(full, one.model, one.optimiser, state={**STATE, "step": 5})
    assert caught.value.errno == errno.EFBIG
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000004"]
    assert {path.name: path.read_bytes() for path in latest(tmp_path).iterdir()} == before


def test_a_disk_that_fills_while_training_leaves_a_checkpoint_to_go_on_from(tmp_path, monkeypatch):
    whole = training(Tower(dropout=0.3))
    run(whole, checkpoints=exported(whole, tmp_path / "whole"))
    half = training(Tower(dropout=0.3))
    write = kept.save_file

    def filling(tensors, path):
        if half.step == 6:
            path.write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(tensors, path)

    monkeypatch.setattr(kept, "save_file", filling)
    with pytest.raises(OSError, match="No space left"):
        run(half, checkpoints=exported(half, tmp_path / "half"))
    assert [path.name for path in (tmp_path / "half").iterdir()] == ["step-0000004"]
    monkeypatch.undo()
    again = training(Tower(dropout=0.3))
    again.restore(latest(tmp_path / "half"))
    run(again, checkpoints=exported(again, tmp_path / "half"))
    assert same(weights(whole.model), weights(again.model))


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
