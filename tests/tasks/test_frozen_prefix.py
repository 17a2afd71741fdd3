"""States of frozen layers: computed once, in memory or in a file."""

import pytest
import torch

from isogloss.stack.load import load
from isogloss.tasks import frozen_prefix
from isogloss.tasks.frozen_prefix import read_prefix
from isogloss.tasks.task import join_items
from tiny_tasks import read_task, write_task


@pytest.fixture
def text(tiny, tmp_path):
    task, examples, labels = read_task("nli", write_task(tmp_path, "nli", count=12))
    stack = load(tiny("bert"), device="cpu")
    return stack, join_items(task.encode(examples, labels, tokenizer=stack.tokenizer, length=64))


def test_states_in_a_file_are_those_in_memory(text, tmp_path, monkeypatch):
    stack, items = text
    alone = read_prefix(stack, items, 2, file=tmp_path / "cut.states")
    assert not list(tmp_path.glob("*.states"))  # memory has room
    monkeypatch.setattr(frozen_prefix, "free_bytes", lambda _: 0.0)
    for _ in range(2):  # written, then mapped
        found = read_prefix(stack, items, 2, file=tmp_path / "cut.states")
        assert torch.equal(found.kept, alone.kept)
        assert torch.equal(found.states([3, 0], stack.device), alone.states([3, 0], stack.device))
        monkeypatch.setattr(frozen_prefix, "_fill", lambda *_, **__: pytest.fail("the file is there"))


def test_states_of_one_precision_are_not_read_as_those_of_another(text, tmp_path, monkeypatch):
    """A run that began on a CPU may be resumed on a GPU, where it computes in bfloat16, and the other way round."""
    stack, items = text
    alone = {dtype: read_prefix(stack, items, 2, dtype=dtype).kept for dtype in (None, torch.bfloat16)}
    monkeypatch.setattr(frozen_prefix, "free_bytes", lambda _: 0.0)
    for dtype in (None, torch.bfloat16, None):
        found = read_prefix(stack, items, 2, dtype=dtype, file=tmp_path / "cut.states").kept
        assert found.dtype == (dtype or torch.float32) and torch.equal(found, alone[dtype])


def test_a_run_that_died_leaves_no_half_file(text, tmp_path, monkeypatch):
    stack, items = text

    def dies(*given, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(frozen_prefix, "free_bytes", lambda _: 0.0)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(frozen_prefix, "_fill", dies)
        read_prefix(stack, items, 2, file=tmp_path / "cut.states")
    assert not list(tmp_path.glob("*.states"))
    found = read_prefix(stack, items, 2, file=tmp_path / "cut.states")
    assert torch.equal(found.kept, read_prefix(stack, items, 2).kept)
