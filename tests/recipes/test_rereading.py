"""Vectors that several rounds go through: read once, kept in memory or a file, or read again where nothing has room."""

from collections import namedtuple

import pytest
import torch

from isogloss.recipes.steps import rereading
from isogloss.recipes.steps.rereading import rereadable

CHUNKS = [torch.arange(6.0).view(1, 3, 2), torch.arange(4.0).view(1, 2, 2) + 10, torch.ones(1, 1, 2)]  # 24, 16, 8 bytes


@pytest.fixture
def reading():
    """What is read, and how often it was."""
    times = []

    def read():
        times.append(len(times))
        yield from (one.clone() for one in CHUNKS)

    return read, times


def free(monkeypatch, *, memory, disk):
    """So many bytes have room."""
    share = rereading.SHARE
    monkeypatch.setattr(rereading, "free_bytes", lambda device: memory / share)
    usage = namedtuple("usage", "free")(disk / share)
    monkeypatch.setattr(rereading.shutil, "disk_usage", lambda path: usage)


@pytest.mark.parametrize(
    ("memory", "disk", "times", "in_file"),
    [(100, 100, 1, 0), (24, 100, 1, 24), (30, 100, 1, 24), (0, 100, 1, 48), (0, 20, 3, 0), (24, 15, 3, 0)],
)
def test_it_is_rereadable_where_anything_has_room(monkeypatch, tmp_path, reading, memory, disk, times, in_file):
    free(monkeypatch, memory=memory, disk=disk)
    read, seen = reading
    file = tmp_path / "chunks"
    with rereadable(read, file=file) as again:
        for _ in range(3):
            found = list(again())
            assert len(found) == 3 and all(map(torch.equal, found, CHUNKS))
        assert len(seen) == times
        assert (file.stat().st_size if file.exists() else 0) == in_file
    assert not file.exists()


def test_a_reading_that_was_broken_off_is_not_taken_for_the_whole(monkeypatch, tmp_path, reading):
    free(monkeypatch, memory=24, disk=100)
    read, seen = reading
    with rereadable(read, file=tmp_path / "chunks") as again:
        first = again()
        next(first), next(first)
        del first
        assert all(map(torch.equal, again(), CHUNKS)) and all(map(torch.equal, again(), CHUNKS))
        assert len(seen) == 2


def test_what_fails_leaves_no_file(monkeypatch, tmp_path, reading):
    free(monkeypatch, memory=0, disk=100)
    with pytest.raises(RuntimeError), rereadable(reading[0], file=tmp_path / "chunks") as again:
        next(again())
        raise RuntimeError
    assert not list(tmp_path.iterdir())
