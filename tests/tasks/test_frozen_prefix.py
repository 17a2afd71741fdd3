"""States of frozen layers that runs share: computed once, whoever comes first, and never those of something else."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from isogloss.stack.load import load
from isogloss.tasks import frozen_prefix
from isogloss.tasks.frozen_prefix import read_prefix, shared_prefix
from isogloss.tasks.task import join_items
from tiny_tasks import read_task, write_task


@pytest.fixture
def text(tiny, tmp_path):
    task, examples, labels = read_task("nli", write_task(tmp_path, "nli", count=12))
    stack = load(tiny("bert"), device="cpu")
    return stack, join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64))


def test_what_is_shared_is_what_is_computed(text, tmp_path):
    stack, items = text
    alone = read_prefix(stack, items, 2)
    for _ in range(2):  # written, then mapped
        found = shared_prefix(stack, items, 2, folder=tmp_path / "states", weights="bert")
        assert torch.equal(found.kept, alone.kept)
        assert torch.equal(found.states([3, 0], stack.device), alone.states([3, 0], stack.device))


def test_other_layers_weights_text_and_arithmetic_have_files_of_their_own(text, tmp_path):
    stack, items = text
    other = replace(items, ids=np.roll(items.ids, 1))
    for number, (cut, weights, some, dtype) in enumerate(
        [(2, "bert", items, None), (1, "bert", items, None), (2, "other", items, None), (2, "bert", other, None),
         (2, "bert", items, torch.bfloat16)], 1
    ):  # fmt: skip
        for _ in range(2):
            shared_prefix(stack, some, cut, folder=tmp_path, weights=weights, dtype=dtype)
        assert len(list(tmp_path.glob("*.states"))) == number


def test_of_runs_that_start_together_one_computes_and_the_others_wait(text, tmp_path, monkeypatch):
    stack, items = text
    real, begun = frozen_prefix._fill, []

    def slow(*given, **how):
        begun.append(1)
        time.sleep(0.2)
        real(*given, **how)

    monkeypatch.setattr(frozen_prefix, "_fill", slow)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(shared_prefix(stack, items, 2, folder=tmp_path, weights="bert")))
        for _ in range(3)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(begun) == 1 and len(found) == 3
    assert all(torch.equal(one.kept, found[0].kept) for one in found)


def test_a_run_that_died_leaves_neither_a_lock_nor_half_a_file(text, tmp_path, monkeypatch):
    stack, items = text

    def dies(*given, **how):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(frozen_prefix, "_fill", dies)
        shared_prefix(stack, items, 2, folder=tmp_path, weights="bert")
    assert not list(tmp_path.glob("*.states"))
    found = shared_prefix(stack, items, 2, folder=tmp_path, weights="bert")
    assert torch.equal(found.kept, read_prefix(stack, items, 2).kept)


def test_without_room_on_the_disk_states_are_computed_as_ever(text, tmp_path, monkeypatch):
    stack, items = text
    monkeypatch.setattr(frozen_prefix.shutil, "disk_usage", lambda _: type("", (), {"free": 0})())
    found = shared_prefix(stack, items, 2, folder=tmp_path, weights="bert")
    assert torch.equal(found.kept, read_prefix(stack, items, 2).kept) and not list(tmp_path.glob("*.states"))
