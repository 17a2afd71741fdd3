"""Calls of recipes as jobs: each has a run folder of its own, which is not run again once it is finished.

Jobs run one after the other in this process, or several at a time as processes of their own on one device.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes import drift, pretrain
from isogloss.runs.run import read_facts

RECIPES: Mapping[str, Callable[..., Any]] = {"drift": drift, "pretrain": pretrain}
WORKER = (sys.executable, "-m", "isogloss.papers.work")  # reads a job as JSON and runs it
PAUSE = 0.2  # seconds between looks at processes


@dataclass(frozen=True)
class Job:
    """One call of a recipe: `first` is what stands before the options (a model, or text), `folder` its run.

    place: what tells the job from others, such as its plan and seed.
    """

    name: str
    recipe: str
    first: Any
    options: Mapping[str, Any]
    folder: Path
    place: Mapping[str, Any]

    @property
    def done(self) -> bool:
        """Whether its run is finished."""
        return (self.folder / "run.json").is_file() and read_facts(self.folder).get("status") == "finished"

    @property
    def words(self) -> list[str]:
        """The same as a command, an option with its value in one string."""
        found = ["isogloss", self.recipe]
        text = {"text": self.first} if self.recipe == "pretrain" else {}
        found += [] if text else [str(self.first)]
        for name, value in {**text, **self.options, "out": self.folder}.items():
            parts = [f"{key}={file}" for key, file in value.items()] if isinstance(value, Mapping) else [value]
            found += [f"--{name.replace('_', '-')} {part}" for part in parts if part is not None]
        return found


def run_job(job: Job, progress: Progress = silent) -> None:
    """Run a job, or go on with it; one that is finished is left as it is."""
    if not job.done:
        resume = (job.folder / "run.json").is_file()
        RECIPES[job.recipe](job.first, out=job.folder, resume=resume, progress=progress, **job.options)


def run_jobs(jobs: Sequence[Job], *, parallel: int = 1, progress: Progress = silent) -> None:
    """Run every job that is not finished, up to `parallel` at a time; a job that fails stops none of the others."""
    left = [job for job in jobs if not job.done]
    if parallel > 1 and len(left) > 1:
        _side_by_side(left, parallel, progress)
        return
    for number, job in enumerate(left):
        progress("jobs", number, len(left))
        run_job(job, progress)
    progress("jobs", len(left), len(left))


def _side_by_side(jobs: Sequence[Job], parallel: int, progress: Progress) -> None:
    waiting, failed = list(jobs), list[Job]()
    running: list[tuple[Job, subprocess.Popen[bytes]]] = []
    before = _interrupted_by(signal.SIGTERM)
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                job = waiting.pop(0)
                running.append((job, _start(job, parallel)))
            time.sleep(PAUSE)
            failed += [job for job, process in running if process.poll() not in (None, 0)]
            running = [(job, process) for job, process in running if process.poll() is None]
            progress("jobs", len(jobs) - len(waiting) - len(running), len(jobs))
    finally:
        for _, process in running:
            process.terminate()
        for _, process in running:
            process.wait()
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    if failed:
        log = _log(failed[0])
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise InputError(
            f"{len(failed)} of {len(jobs)} jobs failed, {failed[0].name} first: {lines[-1] if lines else 'no word'}; "
            f"all it said is in {log}, and --resume goes on with what is left"
        )


def _interrupted_by(number: int) -> Any:
    """Let a signal interrupt, so that processes are ended with this one; what it did before, None where it is left."""
    if threading.current_thread() is not threading.main_thread():
        return None  # only the main thread may say what signals do

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    return signal.signal(number, interrupt)


def _start(job: Job, parallel: int) -> subprocess.Popen[bytes]:
    given = {"name": job.name, "recipe": job.recipe, "first": job.first, "options": job.options, "folder": job.folder}
    threads = str(max(1, (os.cpu_count() or 1) // parallel))  # processes that each take every core wait for each other
    _log(job).parent.mkdir(parents=True, exist_ok=True)
    with _log(job).open("wb") as log:
        process = subprocess.Popen(
            WORKER, stdin=subprocess.PIPE, stdout=log, stderr=log,
            env={"OMP_NUM_THREADS": threads, **os.environ},
        )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(json.dumps(given, default=str).encode())
    process.stdin.close()
    return process


def _log(job: Job) -> Path:
    return job.folder.with_name(f"{job.folder.name}.log")
