"""Checkpoints appear whole or not at all, whatever happens while they are written, and bring everything back."""

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
    Checkpoints,
    copy_weights,
    export_best,
    latest,
    restore_checkpoint,
    save_checkpoint,
)
from isogloss.training.loop import Objective, Part
from isogloss.training.sharing import build, parse
from tiny_models import ENCODERS, tiny_config
from tiny_training import Tower, exported, numbers, run, same, training, weights

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
