"""Leases: one holder at a time, also when one is taken for dead that still runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import isogloss as ig
from isogloss.recipes.jobs import Job, run_jobs
from isogloss.runs.lease import LOST, held, holder_of, release, still_held

SECONDS = 2.0
HOLDER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[4])
import lease
with lease.held(Path(sys.argv[1]), sys.argv[2], seconds=float(sys.argv[3]), told=print):
    with open(sys.argv[1] + ".work", "a") as work:
        while True:
            print(sys.argv[2], time.monotonic(), file=work, flush=True)
            time.sleep(0.02)
"""


@pytest.fixture
def holder(tmp_path):
    """`holder("a")` is a process that holds the lease, or waits for it, and works all the while."""
    begun, folder = [], str(Path(sys.modules[held.__module__].__file__).parent)  # without torch it starts at once

    def start(owner):
        words = [sys.executable, "-c", HOLDER, tmp_path / "job.lease", owner, str(SECONDS), folder]
        begun.append(subprocess.Popen(words, stdout=subprocess.PIPE))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.wait()


def works(folder):
    """Who worked when."""
    path = folder / "job.lease.work"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(owner, float(when)) for owner, when in (line.split() for line in lines)]


def until(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def test_a_second_worker_waits_for_the_first_and_comes_after_it(holder, tmp_path):
    first = holder("a")
    until(lambda: works(tmp_path))
    second = holder("b")
    assert b"waiting for process " in second.stdout.readline()
    time.sleep(1.5 * SECONDS)
    assert {owner for owner, _ in works(tmp_path)} == {"a"}  # it lives, so nobody takes its place
    first.kill()
    until(lambda: works(tmp_path)[-1][0] == "b")
    last = max(when for owner, when in works(tmp_path) if owner == "a")
    assert min(when for owner, when in works(tmp_path) if owner == "b") > last + SECONDS * 0.8
    assert holder_of(tmp_path / "job.lease") == "b"


def test_a_worker_that_stood_still_ends_when_it_wakes_and_leaves_the_lease_of_its_successor(holder, tmp_path):
    first = holder("a")
    until(lambda: works(tmp_path))
    os.kill(first.pid, signal.SIGSTOP)
    holder("b")
    until(lambda: works(tmp_path)[-1][0] == "b")
    os.kill(first.pid, signal.SIGCONT)
    assert first.wait(timeout=SECONDS) == LOST
    assert holder_of(tmp_path / "job.lease") == "b"
    count = len(works(tmp_path))
    until(lambda: len(works(tmp_path)) > count)  # and the other goes on


def test_a_worker_whose_lease_is_gone_ends(holder, tmp_path):
    first = holder("a")
    until(lambda: works(tmp_path))
    (tmp_path / "job.lease").unlink()
    assert first.wait(timeout=SECONDS) == LOST


def test_a_lease_is_given_back_and_only_by_its_owner(tmp_path):
    path = tmp_path / "job.lease"
    with held(path, "a"):
        release(path, "b")
        assert holder_of(path) == "a"
    assert holder_of(path) is None
    release(path, "a")


def test_jobs_that_still_run_elsewhere_are_not_run_here_and_leases_of_the_dead_are_forgotten(
    holder, tmp_path, monkeypatch
):
    monkeypatch.setattr("isogloss.runs.jobs.still_held", lambda paths: still_held(paths, seconds=SECONDS))
    job = Job("job", "map", "m", {}, tmp_path / "job", {})
    assert still_held([job.lease]) == {}
    first = holder("a")
    until(lambda: works(tmp_path))
    with pytest.raises(ig.InputError, match=r"1 of these jobs still run elsewhere, job as process \d+ on "):
        run_jobs([job], executor=lambda *_: pytest.fail("it runs elsewhere"))
    first.kill()
    assert job.lease.exists()
    run_jobs([job], executor=lambda *_: [])
    assert not job.lease.exists()
