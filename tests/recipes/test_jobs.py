"""Jobs on this machine: one that fails stops none of the others, and none outlives the process that started it."""

import json
import signal
import subprocess
import sys
import time

import pytest

import isogloss as ig
from isogloss.progress import listening
from isogloss.recipes import jobs as jobs_module
from isogloss.recipes.jobs import Job, one_by_one, run_jobs, side_by_side
from isogloss.runs import read_facts

STUB = """
import json, pathlib, sys, time
job = json.loads(sys.stdin.readline())
time.sleep(0.3)
if job["options"]["model"] == "gone":
    sys.exit("a line before\\nthere is no gone")
folder = pathlib.Path(job["folder"])
folder.mkdir(parents=True)
(folder / "run.json").write_text(json.dumps({"status": "finished", "given": job["options"]}))
"""


def test_jobs_side_by_side_fail_alone_and_say_why(tmp_path, monkeypatch):
    monkeypatch.setattr("isogloss.recipes.jobs.WORKER", (sys.executable, "-c", STUB))
    firsts = {"one": "here", "gone": "gone", "two": "here", "three": "here"}
    jobs = [Job(name, "drift", {"model": first, "seed": 1}, tmp_path / name, {}) for name, first in firsts.items()]
    told = []
    begun = time.perf_counter()
    failed = r"1 of 4 jobs failed, gone first: there is no gone; its log is .*gone\.log"
    with pytest.raises(ig.InputError, match=failed), listening(lambda *news: told.append(news)):
        run_jobs(jobs, parallel=4)
    assert time.perf_counter() - begun < 4 * 0.3 + 5
    assert [job.done for job in jobs] == [True, False, True, True]
    assert read_facts(tmp_path / "two")["given"] == {"model": "here", "seed": 1}
    assert told[-1] == ("jobs", 4, 4)


def test_a_signal_to_end_ends_the_jobs_too(tmp_path, monkeypatch):
    monkeypatch.setattr("isogloss.recipes.jobs.WORKER", (sys.executable, "-c", "import time; time.sleep(60)"))
    jobs = [Job(name, "drift", {"model": "m"}, tmp_path / name, {}) for name in ("one", "two")]
    started = []

    def start(*arguments):
        started.append(begin(*arguments))
        if len(started) == 2:
            signal.raise_signal(signal.SIGTERM)
        return started[-1]

    begin, before = jobs_module._start, signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("isogloss.recipes.jobs._start", start)
    with pytest.raises(SystemExit, match="143"):
        run_jobs(jobs, parallel=2)
    assert started[0].poll() is not None
    started[1].kill()
    assert signal.getsignal(signal.SIGTERM) is before


def test_jobs_one_by_one_fail_alone_too_and_every_failure_is_named(tmp_path, monkeypatch):
    def call(job):
        if job.options["model"] == "gone":
            raise ig.InputError("there is no gone")
        if job.options["model"] == "broken":
            raise ZeroDivisionError("a bug")
        job.folder.mkdir()
        (job.folder / "run.json").write_text('{"status": "finished"}')

    firsts = {"one": "gone", "two": "here", "three": "broken", "four": "here"}
    jobs = [Job(name, "drift", {"model": first}, tmp_path / name, {}) for name, first in firsts.items()]
    monkeypatch.setattr(jobs_module, "run_job", call)
    with pytest.raises(ig.InputError) as error:
        run_jobs(jobs, executor=one_by_one)
    said = str(error.value)
    assert said.startswith("2 of 4 jobs failed, one first: there is no gone; its log is") and "\n" not in said
    assert f"also three ({tmp_path / 'three.log'})" in said
    assert "ZeroDivisionError: a bug" in (tmp_path / "three.log").read_text()
    assert [job.done for job in jobs] == [False, True, False, True]
    run_jobs(jobs[1::2], executor=lambda *_: pytest.fail("nothing is left to run"))


SEEING = """
import json, os, pathlib, sys
folder = pathlib.Path(json.loads(sys.stdin.readline())["folder"])
folder.mkdir(parents=True)
facts = {"status": "finished", "seen": os.environ.get("CUDA_VISIBLE_DEVICES")}
(folder / "run.json").write_text(json.dumps(facts))
"""


def test_a_job_runs_after_what_it_needs_and_not_where_that_failed(tmp_path, monkeypatch):
    order = []

    def call(job):
        order.append(job.name)
        if job.options["model"] == "gone":
            raise ig.InputError("there is no gone")
        job.folder.mkdir()
        (job.folder / "run.json").write_text('{"status": "finished"}')

    def job(name, *needs, first="here"):
        return Job(name, "drift", {"model": first}, tmp_path / name, {}, [tmp_path / one for one in needs])

    jobs = [job("score", "tuned"), job("tuned", "model"), job("model"), job("other", "bad"), job("bad", first="gone")]
    monkeypatch.setattr(jobs_module, "run_job", call)
    with pytest.raises(ig.InputError, match="2 of 5 jobs failed, bad first: there is no gone") as error:
        run_jobs(jobs, executor=one_by_one)
    assert order == ["model", "bad", "tuned", "score"]
    assert f"also other ({tmp_path / 'other.log'})" in str(error.value)
    assert (tmp_path / "other.log").read_text() == f"it needs {tmp_path / 'bad'}, which is not finished\n"
    assert [one.done for one in jobs] == [True, True, True, False, False]


def test_devices_take_turns_and_a_process_sees_one(tmp_path, monkeypatch):
    monkeypatch.setattr("isogloss.recipes.jobs.WORKER", (sys.executable, "-c", SEEING))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4, 7")
    jobs = [Job(str(number), "map", {"model": "m"}, tmp_path / str(number), {}) for number in range(6)]
    assert side_by_side(4, 2)(jobs[:4]) == []
    assert [read_facts(job.folder)["seen"] for job in jobs[:4]] == ["4", "7", "4", "7"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert side_by_side(1, 1)(jobs[4:5]) == []
    assert side_by_side(1)(jobs[5:]) == []
    assert [read_facts(job.folder)["seen"] for job in jobs[4:]] == ["0", None]


def test_a_job_reads_as_the_command_it_is(tmp_path):
    options = {"test": {"en": "a", "nl": ["b", "c"]}, "save_models": True, "cache": False, "seed": 1, "dtype": None}
    job = Job("one", "transfer", {"model": "mini", **options}, tmp_path, {})
    words = ["isogloss", "transfer", "mini", "--test en=a", "--test nl=b,c", "--save-models", "--no-cache", "--seed 1"]
    assert job.words == [*words, f"--out {tmp_path}"]


def test_a_worker_ends_when_the_process_that_started_it_dies():
    code = "import time; from isogloss.recipes import jobs; jobs.end_with_starter(); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"\n" and process.poll() is None
    process.stdin.close()
    assert process.wait(timeout=10) == 1


def test_a_worker_that_dies_at_once_is_told_by_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr("isogloss.recipes.jobs.WORKER", (sys.executable, "-c", "import sys; sys.exit('no torch here')"))
    options = {"big": "x" * 1_000_000}  # more than a pipe holds
    jobs = [Job(name, "map", {"model": "m", **options}, tmp_path / name, {}) for name in ("one", "two")]
    with pytest.raises(ig.InputError, match="2 of 2 jobs failed, one first: no torch here"):
        run_jobs(jobs, parallel=2)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"epochs": 6, "plans": "last:1"}, r"--epochs \(4 then, 6 now\); remove it"),
        ({"epochs": 4}, None),  # a word that is not given any more may be a file's name: only numbers are missed
        ({"epochs": 4, "plans": "last:2"}, r"--plans \(last:1 then, last:2 now\)"),
        ({"plans": "last:1"}, r"--epochs \(4 then, 3 now\)"),  # 3 is what transfer takes by itself
        ({"epochs": 4, "plans": "last:1", "switch": 0.5}, r"--switch \(without then, 0.5 now\)"),
        ({"epochs": 4, "languages": "en,nl"}, None),  # how text is read is told by its hashes
        ({"epochs": 4, "train": "/moved/en.tsv", "device": "cuda", "checkpoint": 9, "keep_checkpoints": 3}, None),
        ({"epochs": 4, "rate": "5e-5", "batch": 32}, None),  # as a run records them
    ],
)
def test_a_job_that_is_finished_with_other_options_is_refused_and_one_whose_files_moved_is_not(
    tmp_path, asked, sentence
):
    made = {"model": "bert", "epochs": 4, "plans": "last:1", "train": "here/en.tsv", "device": "cpu", "checkpoint": 5}
    made |= {"rate": 5e-05, "batch": 32, "cache": True, "seed": 0}
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "run.json").write_text(json.dumps({"status": "finished", "arguments": made}))
    job = Job("job", "transfer", {"model": "bert", **asked}, tmp_path / "job", {})
    if sentence is None:
        run_jobs([job])
    else:
        with pytest.raises(ig.InputError, match=sentence):
            run_jobs([job])
