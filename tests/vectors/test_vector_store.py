"""Vectors on disk: named arrays with a mark; and what several passes go through, held in a file."""

import tracemalloc
from collections import namedtuple

import numpy as np
import pytest
import torch

from isogloss.vectors import store as module
from isogloss.vectors.store import VectorStore, rereadable

CHUNKS = [torch.arange(6.0).view(1, 3, 2), torch.arange(4.0).view(1, 2, 2) + 10, torch.ones(1, 1, 2)]  # 24, 16, 8 bytes


@pytest.fixture
def reading():
    """What is read, and how often it was."""
    times = []

    def read():
        times.append(len(times))
        yield from (one.clone() for one in CHUNKS)

    return read, times


@pytest.mark.parametrize(("disk", "times"), [(48, 1), (47, 3), (0, 3)])
def test_it_is_rereadable_where_the_disk_has_room(monkeypatch, tmp_path, reading, disk, times):
    usage = namedtuple("usage", "free")(disk / module.SHARE)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    read, seen = reading
    with rereadable(read, tmp_path) as again:
        for _ in range(3):
            found = list(again())
            assert len(found) == 3 and all(map(torch.equal, found, CHUNKS))
        assert len(seen) == times
    assert not list(tmp_path.iterdir())


def test_a_reading_that_was_broken_off_is_not_taken_for_the_whole(tmp_path, reading):
    read, seen = reading
    with rereadable(read, tmp_path) as again:
        first = again()
        next(first), next(first)
        del first
        assert all(map(torch.equal, again(), CHUNKS)) and all(map(torch.equal, again(), CHUNKS))
        assert len(seen) == 2


def test_what_fails_leaves_no_file(tmp_path, reading):
    with pytest.raises(RuntimeError), rereadable(reading[0], tmp_path) as again:
        next(again())
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_store_is_complete_once_it_is_finished_and_not_before(tmp_path):
    store = VectorStore(tmp_path / "vectors", mark="facts.json")
    assert not store.complete and "en" not in store
    states = store.create("en", (2, 3, 4))
    states[:] = np.arange(24.0).reshape(2, 3, 4)
    assert "en" in store and not VectorStore(tmp_path / "vectors", mark="facts.json").complete
    states[1, 2] = 7.0
    store.finish({"words": ["été"]})
    again = VectorStore(tmp_path / "vectors", mark="facts.json")
    assert again.complete and again.facts() == {"words": ["été"]}
    assert again.read("en").shape == (2, 3, 4) and again.read("en").dtype == torch.float32
    assert again.read("en", 1)[2].tolist() == [7.0] * 4
    assert not VectorStore(tmp_path / "vectors", mark="other.json").complete
    again.path("en").unlink()
    assert "en" not in again


def test_what_is_filled_appears_whole_or_not_at_all(tmp_path):
    store = VectorStore(tmp_path)
    with pytest.raises(RuntimeError), store.filling("nl", (2, 2)) as values:
        values[0] = 1.0
        raise RuntimeError
    assert "nl" not in store and not list(tmp_path.iterdir())
    with store.filling("nl", (2, 2)) as values:
        assert "nl" not in store
        values[:] = 3.0
    store.write("hits", torch.ones(3))
    assert store.read("nl").dtype == torch.float32 and store.read("nl").tolist() == [[3.0, 3.0]] * 2
    assert store.read("hits").tolist() == [1.0] * 3


def test_an_array_on_disk_is_not_read_into_memory(tmp_path):
    store = VectorStore(tmp_path)
    with store.filling("large", (64, 1000, 100)) as values:
        values[5] = 2.0
    tracemalloc.start()
    assert float(store.read("large", 5).sum()) == 200_000.0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * store.read("large", 5).numel() * 4
