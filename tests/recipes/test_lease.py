"""Leases of jobs: one holder at a time, also when one is taken for dead that still runs."""

import os
import signal
import time

import pytest

import isogloss as ig
from isogloss.recipes import jobs as jobs_module
from isogloss.recipes.jobs import LOST, Job, holding, job_lease, run_jobs, still_held
from tiny_processes import exit_code, fork, kill

SECONDS = 2.0


def hold(folder, name):
    """Hold the lease, or wait for it, and work all the while; what is said goes into a file."""
    os.dup2(os.open(folder / f"{name}.said", os.O_WRONLY | os.O_CREAT), 2)
    lease = job_lease(folder / "job.lease", seconds=SECONDS)
    with holding(lease, tell=lambda text: os.write(2, f"{text}\n".encode())), (folder / "work").open("a") as work:
        while True:
            print(name, time.monotonic(), file=work, flush=True)
            time.sleep(0.02)


@pytest.fixture
def holder(tmp_path):
    """`holder("a")` is a process that holds the lease, or waits for it, and works all the while."""
    begun = []

    def start(name):
        begun.append(fork(hold, tmp_path, name))
        return begun[-1]

    yield start
    for process in begun:
        kill(process)


def works(folder):
    """Who worked when."""
    path = folder / "work"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(name, float(when)) for name, when in (line.split() for line in lines)]


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def owner(folder):
    return job_lease(folder / "job.lease").owner


def test_a_second_worker_waits_while_the_first_lives_and_takes_the_place_of_a_dead_one_of_its_machine(holder, tmp_path):
    first = holder("a")
    until(lambda: works(tmp_path))
    second = holder("b")
    until(lambda: (tmp_path / "b.said").exists() and "\n" in (tmp_path / "b.said").read_text())
    assert (tmp_path / "b.said").read_text().startswith(f"waiting for process {first.pid} on ")
    time.sleep(1.5 * SECONDS)
    assert {name for name, _ in works(tmp_path)} == {"a"}  # it lives, so nobody takes its place
    kill(first)
    until(lambda: works(tmp_path)[-1][0] == "b")
    assert owner(tmp_path).pid == second.pid


def test_a_worker_that_stood_still_ends_when_it_wakes_and_leaves_the_lease_of_its_successor(holder, tmp_path):
    first = holder("a")
    until(lambda: works(tmp_path))
    os.kill(first.pid, signal.SIGSTOP)
    second = holder("b")
    until(lambda: works(tmp_path)[-1][0] == "b")
    last = max(when for name, when in works(tmp_path) if name == "a")
    assert min(when for name, when in works(tmp_path) if name == "b") > last + SECONDS * 0.8
    os.kill(first.pid, signal.SIGCONT)
    assert exit_code(first) == LOST
    assert "could not be renewed for 1 seconds" in (tmp_path / "a.said").read_text()
    assert owner(tmp_path).pid == second.pid
    count = len(works(tmp_path))
    until(lambda: len(works(tmp_path)) > count)  # and the other goes on


def test_a_worker_whose_lease_is_gone_ends(holder, tmp_path):
    first = holder("a")
    until(lambda: works(tmp_path))
    (tmp_path / "job.lease").unlink()
    assert exit_code(first) == LOST


def test_a_worker_whose_storage_hangs_ends_before_another_may_take_its_place(tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(jobs_module, "_end", lambda why: ended.append((time.monotonic(), why)))
    lease = job_lease(tmp_path / "job.lease", seconds=1.5)
    monkeypatch.setattr("filelock._lease.touch", lambda *_, **__: time.sleep(10))
    begun = time.monotonic()
    with holding(lease):
        until(lambda: ended)
    assert 0.9 < ended[0][0] - begun < 1.5 and "could not be renewed" in ended[0][1]


def test_a_lease_is_given_back(tmp_path):
    lease = job_lease(tmp_path / "job.lease")
    with holding(lease):
        assert owner(tmp_path).pid == os.getpid() and owner(tmp_path).lease_duration == jobs_module.LEASE
    assert not list(tmp_path.iterdir())


def test_a_lease_nobody_renews_is_taken_where_names_cannot_be_exchanged_as_on_network_storage(
    holder, tmp_path, monkeypatch
):
    monkeypatch.setattr("filelock._soft.exchange_names", lambda *_: False, raising=False)
    first = holder("a")
    until(lambda: works(tmp_path))
    os.kill(first.pid, signal.SIGSTOP)
    begun = time.monotonic()
    with holding(job_lease(tmp_path / "job.lease", seconds=SECONDS)):
        assert time.monotonic() - begun > SECONDS and owner(tmp_path).pid == os.getpid()
        os.kill(first.pid, signal.SIGCONT)
        assert exit_code(first) == LOST
        assert owner(tmp_path).pid == os.getpid()


def test_jobs_that_still_run_elsewhere_are_not_run_here_and_leases_of_the_dead_are_forgotten(holder, tmp_path):
    job = Job("job", "map", {"model": "m"}, tmp_path / "job", {})
    assert still_held([job.lease]) == {}
    first = holder("a")
    until(lambda: works(tmp_path))
    with pytest.raises(ig.InputError, match=r"1 of these jobs still run elsewhere, job as process \d+ on "):
        run_jobs([job], executor=lambda *_: pytest.fail("it runs elsewhere"))
    kill(first)
    assert job.lease.exists()
    begun = time.monotonic()
    run_jobs([job], executor=lambda *_: [])
    assert not job.lease.exists() and time.monotonic() - begun < SECONDS  # its process was of this machine


RECORD = "filelock/2\npid=1\nhost=far-away\nmode=lease\ntoken=a\nduration=0.5\n"


@pytest.mark.parametrize("text", [RECORD, ""], ids=["whole", "its machine was lost before it was written"])
def test_a_lease_of_another_machine_is_forgotten_when_nobody_renews_it(text, tmp_path, monkeypatch):
    monkeypatch.setattr(jobs_module, "LEASE", 0.5)
    path, begun = tmp_path / "job.lease", time.monotonic()
    path.write_text(text)
    assert still_held([path, tmp_path / "other.lease"]) == {}
    assert not path.exists() and 0.4 < time.monotonic() - begun < 5
