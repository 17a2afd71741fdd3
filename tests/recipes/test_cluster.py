"""Jobs on a Ray cluster: the rows they have here, a lost machine costs what came after a checkpoint, and no more."""

import functools
import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import isogloss as ig
from isogloss.progress import listening
from isogloss.recipes import cluster as cluster_module
from isogloss.recipes.cluster import Share, find_ray, machine_fault, on_cluster, run_worker
from isogloss.recipes.jobs import Job, run_jobs
from isogloss.runs import read_facts
from tiny_tasks import SMALL, write_sets

LEASE = 3.0
STORE = 100 * 2**20
COUNTING = """
import os, sys, time
from pathlib import Path
from isogloss.recipes import jobs
from isogloss.training.loop import Training
real, count, folder = Training.update, [0], Path({folder!r})

def update(self):
    count[0] += 1
    with (folder / "updates").open("a") as file:
        print(self.settings.seed, file=file)
    if os.environ["RAY_RAYLET_PID"] == (folder / "victim").read_text() and count[0] == 5:
        (folder / "ready").touch()
        time.sleep(60)
    real(self)

Training.update = update
jobs.main()
"""
STUB = """
import json, os, sys, time
from pathlib import Path
from isogloss.recipes.jobs import holding, job_lease
job = json.loads(sys.stdin.readline())
folder, what, seconds = Path(job["folder"]), job["options"]["model"], job["lease"]

def tell(event):
    with folder.with_name("events").open("a") as file:
        print(job["name"], event, time.monotonic(), os.getpid(), file=file, flush=True)

tell("start")
starter = os.getppid()
if what == "zombie" and os.fork():  # the child is none of those that Ray ends with its own processes
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
if what == "mistake":
    sys.exit("there is no such model")
if what == "killed":
    os.kill(os.getpid(), 9)
with holding(job_lease(folder.with_name(folder.name + ".lease"), seconds=seconds)):
    if (folder / "run.json").exists():
        tell("found")
        sys.exit()
    tell("begin")
    if what == "zombie":
        os.setsid()  # Ray would end the others of a worker's group
        os.kill(starter, 9)
    while what == "zombie" and folder.with_name("events").read_text().count("start") < 2:
        time.sleep(0.1)
    time.sleep({"long": 60, "zombie": 1.5 * seconds}.get(what, 0.3))
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"status": "finished", "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}))
    tell("end")
"""


@pytest.mark.cluster
@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_a_cluster_of_two_machines(tiny, tmp_path, monkeypatch, capsys):
    """One test, since a cluster takes ten seconds to start."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = find_ray()
    from ray.cluster_utils import Cluster

    before, cluster = signal.getsignal(signal.SIGTERM), Cluster()
    try:
        cluster.add_node(num_cpus=2, include_dashboard=False, object_store_memory=STORE)
        other = cluster.add_node(num_cpus=2, object_store_memory=STORE)
        a_machine_is_lost_in_a_sweep(cluster, other, tiny("bert"), tmp_path / "sweep", monkeypatch)
        assert not ray.is_initialized() and capsys.readouterr().out == ""  # Ray itself is silent
        monkeypatch.setattr(cluster_module, "COMMAND", ("-c", STUB))
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        jobs_fail_and_are_tried_again(tmp_path / "failing", monkeypatch)
        an_interrupt_ends_remote_work(tmp_path / "interrupted")
        machines_are_refused(tmp_path / "refused", monkeypatch)
        no_machine_is_left(tmp_path / "left", monkeypatch)
        a_worker_is_taken_for_dead_and_runs_on(tmp_path / "zombie")
        assert ray.is_initialized()  # it was before
    finally:
        ray.shutdown()
        cluster.shutdown()
        signal.signal(signal.SIGTERM, before)


def a_machine_is_lost_in_a_sweep(cluster, victim, model, folder, monkeypatch):
    sets = write_sets(folder / "data", "pos", count=8)
    plain = {name: {key: str(file) for key, file in sets[name].items()} for name in ("train", "dev", "test")}
    given = {"model": model, "task": "pos", **plain, **SMALL, "epochs": 3}  # six updates, a checkpoint after three
    (folder / "victim").write_text(str(victim.all_processes["raylet"][0].process.pid))
    monkeypatch.setattr(cluster_module, "COMMAND", ("-c", COUNTING.format(folder=str(folder))))
    monkeypatch.setattr("isogloss.recipes.sweep.on_cluster", functools.partial(on_cluster, lease=2 * LEASE))
    told, grid = [], {"seed": [0, 1]}

    def kill():
        wait_for(lambda: (folder / "ready").exists())
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    with listening(lambda *news: told.append(news)):
        there = ig.sweep("transfer", grid=grid, out=folder / "there", cluster=cluster.address, cpus=2, **given)
    killer.join()
    here = ig.sweep("transfer", grid=grid, out=folder / "here", **given)
    pd.testing.assert_frame_equal(there, here)
    count = Counter((folder / "updates").read_text().split())
    assert sorted(count.values()) == [6, 5 + 3]  # the job whose machine was lost went on from its checkpoint
    lost = max(count, key=count.get)
    assert (f"jobs: seed-{lost} lost its machine and will be restarted", 2, 2) in told
    assert ("checking the cluster", 2, 2) in told
    assert read_facts(folder / "there")["status"] == "finished"
    assert {one.name for one in (folder / "there" / "jobs").iterdir()} == {
        "seed-0",
        "seed-0.log",
        "seed-1",
        "seed-1.log",
    }


def jobs_fail_and_are_tried_again(folder, monkeypatch):
    monkeypatch.setattr(cluster_module, "RETRIES", 1)
    jobs = made(folder, one="plain", wrong="mistake", dies="killed", two="plain")
    with pytest.raises(ig.InputError) as error:
        run_jobs(jobs, executor=on_cluster("auto", parallel=1, lease=LEASE))
    said = str(error.value)
    assert said.startswith("2 of 4 jobs failed, wrong first: there is no such model (on ") and "also dies" in said
    found = events(folder)
    assert Counter(name for name, event, *_ in found if event == "start") == {"one": 1, "wrong": 1, "dies": 2, "two": 1}
    spans = [when for name, event, when, _ in found if name in ("one", "two") and event != "start"]
    assert spans == sorted(spans) and [job.done for job in jobs] == [True, False, False, True]
    assert read_facts(folder / "one")["gpus"] == "" and not list(folder.glob("*.lease"))


def an_interrupt_ends_remote_work(folder):
    def interrupt():
        wait_for(lambda: sum(event == "begin" for _, event, *_ in events(folder)) == 2)
        os.kill(os.getpid(), signal.SIGTERM)  # from outside: it comes while Ray waits

    jobs, thread = made(folder, one="long", two="long"), threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(SystemExit, match="143"):
        run_jobs(jobs, executor=on_cluster("auto", lease=LEASE))
    thread.join()
    for *_, process in events(folder):
        wait_for(lambda process=process: not Path(f"/proc/{process}").exists())
    wait_for(lambda: not list(folder.glob("*.lease")))


def machines_are_refused(folder, monkeypatch):
    jobs = made(folder, one="plain")
    with pytest.raises(
        ig.InputError, match=r"no machine has 1 GPU and 1 CPU for a job, they have 2 CPUs; ask for less"
    ):
        run_jobs(jobs, executor=on_cluster("auto", share=Share(gpus=1)))
    with monkeypatch.context() as change:
        change.setattr(cluster_module, "machine_fault", lambda *_: "does not see /runs")
        with pytest.raises(ig.InputError, match=r"--cluster: [\d.]+ does not see /runs; no job was started"):
            run_jobs(jobs, executor=on_cluster("auto"))
    assert not list(folder.iterdir())


def no_machine_is_left(folder, monkeypatch):
    monkeypatch.setattr(cluster_module, "ALONE", 0.0)

    def lose(*_):
        if any(event == "begin" for _, event, *_ in events(folder)):
            change.setattr(Share, "fits", lambda *_: False)

    with (
        monkeypatch.context() as change,
        pytest.raises(ig.InputError, match="no machine with 1 CPU is left in the clu"),
        listening(lose),
    ):
        run_jobs(made(folder, one="long"), executor=on_cluster("auto", lease=LEASE))
    wait_for(lambda: not list(folder.glob("*.lease")))


def a_worker_is_taken_for_dead_and_runs_on(folder):
    told = []
    with listening(lambda *news: told.append(news)):
        run_jobs(made(folder, one="zombie"), executor=on_cluster("auto", lease=LEASE))
    assert ("jobs: one lost its machine and will be restarted", 1, 1) in told
    order = [event for _, event, *_ in events(folder)]
    assert order == ["start", "begin", "start", "end", "found"]  # the second waited, and found the work done


def test_a_machine_says_what_keeps_it_from_running_jobs(tmp_path, monkeypatch):
    mark, version = tmp_path / "mark", importlib.metadata.version("isogloss")
    said = f"does not see {tmp_path}; --out and files must be on storage that every machine has at the same path"
    assert machine_fault(str(mark), str(tmp_path), version) == said
    mark.touch()
    assert machine_fault(str(mark), str(tmp_path), version) == ""
    assert machine_fault(str(mark), "/nowhere", version).startswith("does not see /nowhere; ")
    assert machine_fault(str(mark), str(tmp_path), "9").startswith(f"has isogloss {version}, and this machine 9; ")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert machine_fault(str(mark), str(tmp_path), version) == f"cannot write to {tmp_path}"


def test_what_a_job_asks_for():
    def node(alive=True, **resources):
        return {"Alive": alive, "Resources": {"memory": 1e9, **resources}}

    plain, gpu, dead = node(CPU=4), node(CPU=2, GPU=1), node(alive=False, CPU=64, GPU=8)
    assert cluster_module._resolve(Share(), [plain, dead], "auto") == Share(0.0, 1.0)
    assert cluster_module._resolve(Share(), [plain, gpu], "auto") == Share(1.0, 1.0)
    assert cluster_module._resolve(Share(0.25, 2), [gpu], "auto") == Share(0.25, 2)
    assert [Share(0.5).fits(one) for one in (plain, gpu, dead)] == [False, True, False]
    with pytest.raises(
        ig.InputError, match="has 8 CPUs for a job, they have 1 GPU and 2 CPUs, or 4 CPUs; ask for less"
    ):
        cluster_module._resolve(Share(0, 8), [plain, gpu, dead], "auto")


MISTAKES = [
    ({"cluster": "somewhere"}, "--cluster takes auto, local or the HOST:PORT of a cluster's head, not 'somewhere'"),
    ({"cluster": "ray://head:10001"}, "--cluster takes auto, local or the HOST:PORT"),
    ({"cluster": "127.0.0.1:9"}, "--cluster 127.0.0.1:9: nothing answers there"),
    ({"cluster": "127.0.0.1:99999"}, "--cluster 127.0.0.1:99999: nothing answers there"),
    ({"cluster": "local", "gpus": 2}, "--gpus 2: a job uses one GPU or a share of one; give 0 to 1"),
    ({"cluster": "local", "cpus": 0}, "--cpus must be above 0, not 0"),
    ({"cluster": "local", "parallel": 0}, "--parallel must be at least 1"),
    ({"gpus": 0.5}, "--gpus and --cpus are resources of a job on a cluster; give --cluster, too"),
]


@pytest.mark.parametrize(("given", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence_and_leaves_nothing(given, sentence, tmp_path):
    if "cluster" in given and len(given) == 1:
        pytest.importorskip("ray")
    with pytest.raises(ig.InputError, match=re.escape(sentence)):
        ig.sweep("map", grid=["seed=0,1"], out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_what_answers_but_is_no_cluster_is_told_within_a_bounded_time(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(cluster_module, "ANSWER", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(ig.InputError, match=f"--cluster {address}: no Ray cluster answers there; start one with"):
            on_cluster(address)
        assert time.monotonic() - begun < 10
    monkeypatch.setattr("subprocess.run", lambda *_, **__: SimpleNamespace(returncode=1))
    with pytest.raises(ig.InputError, match="--cluster auto: this machine is not part of a running cluster; start"):
        on_cluster("auto")


def test_without_ray_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ig.InputError, match=r"--cluster needs Ray, which is not installed; install it with isogloss\[ray\]"
    ):
        ig.sweep("map", grid=["seed=0,1"], out=tmp_path / "run", cluster="auto")
    assert not (tmp_path / "run").exists()
    assert "RAY_DEDUP_LOGS_SKIP_REGEX" not in os.environ


def made(folder, **firsts):
    folder.mkdir()
    return [Job(name, "map", {"model": first}, folder / name, {}) for name, first in firsts.items()]


def events(folder):
    """Name, event, time and process, in the order of time."""
    path = folder / "events"
    lines = path.read_text().splitlines() if path.exists() else []
    found = [(name, event, float(when), int(process)) for name, event, when, process in map(str.split, lines)]
    return sorted(found, key=lambda one: one[2])


def wait_for(what, seconds=180):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def test_work_can_be_interrupted_where_a_shell_in_the_background_started_it(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run_worker(
            "", ("-c", "pass"), {}, directory=str(tmp_path), log=str(tmp_path / "log"), lease=str(tmp_path / "lease")
        )
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


KILLED = """
import os, sys
from pathlib import Path
from isogloss.recipes.jobs import holding, job_lease
with holding(job_lease(Path(sys.stdin.readline().strip()))):
    os.kill(os.getpid(), 9)
"""


def test_the_lease_of_a_worker_that_was_killed_is_given_back_for_it_and_that_of_another_is_left(tmp_path):
    lease, log = tmp_path / "job.lease", tmp_path / "log"
    code, *_ = run_worker(str(lease), ("-c", KILLED), {}, directory=str(tmp_path), log=str(log), lease=str(lease))
    assert code == -signal.SIGKILL and not lease.exists()
    lease.write_text(
        f"filelock/2\npid={os.getpid()}\nhost={socket.gethostname()}\nmode=lease\ntoken=a\nduration=60.0\n"
    )
    run_worker("", ("-c", "pass"), {}, directory=str(tmp_path), log=str(log), lease=str(lease))
    assert lease.exists()


ELSEWHERE = """
import pickle, sys
sys.modules["isogloss"] = None
machine_fault, run_worker = pickle.load(open(sys.argv[1], "rb"))
print(machine_fault("/nowhere/mark", "/", "1"), "torch" in sys.modules)
"""


def test_what_is_sent_to_a_machine_needs_no_isogloss_there(tmp_path):
    cloudpickle = pytest.importorskip("ray").cloudpickle
    modules = [sys.modules[name] for name in cluster_module.SENT]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        (tmp_path / "sent").write_bytes(cloudpickle.dumps((machine_fault, run_worker)))
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    words = [sys.executable, "-c", ELSEWHERE, tmp_path / "sent"]
    shown = subprocess.run(words, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert shown.stdout.startswith("does not see /nowhere; ") and shown.stdout.endswith("False\n"), shown.stderr
