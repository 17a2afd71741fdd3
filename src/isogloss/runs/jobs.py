"""Calls of recipes as jobs: each has a run folder of its own, which is not run again once it is finished.

A job is data, so that it can be run in this process, in another, or on another machine. Where it runs is an `Executor`,
a function that is given jobs and returns those that failed:

    one_by_one(call)                  in this process, one after the other
    side_by_side(parallel, devices)   here, several at a time, each a process of its own
    on_cluster(address)               on the machines of a Ray cluster: `isogloss.runs.cluster`
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.runs.lease import still_held
from isogloss.runs.run import read_facts

WORKER = (sys.executable, "-m", "isogloss.recipes.work")  # reads a job as a line of JSON and runs it
PAUSE = 0.2  # seconds between looks at processes
ASIDE = {"device", "dtype", "checkpoint", "compiled"}  # options that another machine may want otherwise


@dataclass(frozen=True)
class Job:
    """One call of a recipe: `first` is what stands before the options (a model, or text), `folder` its run.

    place: what tells the job from others, such as its plan and seed. needs: folders of runs that must be finished
    before it, such as that of the model it reads.
    """

    name: str
    recipe: str
    first: Any
    options: Mapping[str, Any]
    folder: Path
    place: Mapping[str, Any]
    needs: Sequence[Path] = ()

    @property
    def done(self) -> bool:
        """Whether its run is finished."""
        return _finished(self.folder)

    @property
    def otherwise(self) -> str | None:
        """How its run was made with other options than these, in words; files and folders may have moved."""
        made = read_facts(self.folder).get("arguments") if (self.folder / "run.json").is_file() else None
        if not made:
            return None
        numbers = {name for name, value in made.items() if isinstance(value, int | float)}
        for name in sorted({*self.options, *numbers} - ASIDE):
            before, now = made.get(name), self.options.get(name)
            if before is None and isinstance(now, str):  # what only says how text is read is not in a run's arguments
                continue
            if before != now and _comparable(before) and _comparable(now):
                told = " then, ".join("without" if one is None else str(one) for one in (before, now))
                return f"{self.folder} was made with another --{name.replace('_', '-')} than is asked for ({told} now)"
        return None

    @property
    def missing(self) -> list[Path]:
        """What it needs and is not finished."""
        return [folder for folder in self.needs if not _finished(folder)]

    @property
    def log(self) -> Path:
        """What it said, where it ran as a process of its own or failed."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def lease(self) -> Path:
        """What a worker on another machine holds while it works in the folder."""
        return self.folder.with_name(f"{self.folder.name}.lease")

    @property
    def words(self) -> list[str]:
        """The same as a command, an option with its value in one string."""
        found = ["isogloss", self.recipe]
        text = {"text": self.first} if self.recipe == "pretrain" else {}
        found += [] if text else [str(self.first)]
        for name, value in {**text, **self.options, "out": self.folder}.items():
            spelt = name.replace("_", "-")
            if isinstance(value, bool):
                found.append(f"--{spelt}" if value else f"--no-{spelt}")
            else:
                found += [f"--{spelt} {part}" for part in _parts(value) if part is not None]
        return found

    def as_json(self) -> str:
        """What a worker reads; `place` stays here."""
        given = {"name": self.name, "recipe": self.recipe, "first": self.first, "options": self.options}
        return json.dumps({**given, "folder": self.folder}, default=str)


@dataclass(frozen=True)
class Failure:
    """A job that did not finish, and the last thing it said."""

    job: Job
    said: str


Executor = Callable[[Sequence[Job], Progress], Sequence[Failure]]
"""Runs every job it is given, whatever becomes of the others, and returns those that failed.

progress is told of the stage `jobs`. A job's folder is filled by `isogloss.recipes.work`, wherever that runs.
"""


def finish_jobs(jobs: Sequence[Job], executor: Executor, *, progress: Progress = silent) -> None:
    """Run every job that is not finished, those that need others after them; those that fail are named at the end."""
    refuse_others(jobs)
    left = [job for job in jobs if not job.done]
    held = still_held([job.lease for job in left])
    if held:
        path, holder = next(iter(held.items()))
        raise InputError(
            f"{len(held)} of these jobs still run elsewhere, {path.stem} as {holder}; end that first, or wait for it"
        )
    failed = _in_order(left, executor, progress)
    if failed:
        first, others = failed[0], failed[1:]
        also = f"; also {', '.join(f'{one.job.name} ({one.job.log})' for one in others)}" if others else ""
        raise InputError(
            f"{len(failed)} of {len(left)} jobs failed, {first.job.name} first: {first.said}; all it said is in "
            f"{first.job.log}, and --resume goes on with what is left{also}"
        )


def refuse_others(jobs: Sequence[Job]) -> None:
    """Refuse runs, finished or begun, that were made with other options than their jobs have."""
    for told in filter(None, (job.otherwise for job in jobs)):
        raise InputError(f"{told}; remove it, give the options it was made with, or another --out")


def _in_order(jobs: Sequence[Job], executor: Executor, progress: Progress) -> list[Failure]:
    """Run all that can be run, then what waited for that, and so on; what is left waits for something that failed."""
    left, failed = list(jobs), list[Failure]()
    while ready := [job for job in left if not job.missing]:
        failed += executor(ready, progress)
        left = [job for job in left if job not in ready]
    for job in left:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.write_text(f"it needs {job.missing[0]}, which is not finished\n", encoding="utf-8")
    return failed + [Failure(job, _last_line(job.log)) for job in left]


def one_by_one(call: Callable[[Job, Progress], None]) -> Executor:
    """Run jobs in this process, one after the other; `call` runs one."""

    def execute(jobs: Sequence[Job], progress: Progress) -> list[Failure]:
        failed = []
        for number, job in enumerate(jobs):
            progress("jobs", number, len(jobs))
            try:
                call(job, progress)
            except Exception as error:
                job.log.parent.mkdir(parents=True, exist_ok=True)
                plain = isinstance(error, InputError)
                job.log.write_text(f"{error}\n" if plain else traceback.format_exc(), encoding="utf-8")
                failed.append(Failure(job, _last_line(job.log)))
        progress("jobs", len(jobs), len(jobs))
        return failed

    return execute


def side_by_side(parallel: int, devices: Sequence[str] = ()) -> Executor:
    """Run up to `parallel` jobs at a time on this machine, each a process of its own.

    devices: GPUs that take turns, as in `cuda:0`, `cuda:1`. A process sees only its own, as `cuda`: so a job does not
    record which one it was, and can go on with another.
    """

    def execute(jobs: Sequence[Job], progress: Progress) -> list[Failure]:
        waiting, failed = list(jobs), list[Failure]()
        running: list[tuple[Job, str | None, subprocess.Popen[bytes]]] = []
        before = ended_by(signal.SIGTERM)
        try:
            while waiting or running:
                while waiting and len(running) < parallel:
                    job, device = waiting.pop(0), _least_used(devices, [one for _, one, _ in running])
                    running.append((job, device, _start(job, parallel, device)))
                time.sleep(PAUSE)
                ended = [(job, process.returncode) for job, _, process in running if process.poll() is not None]
                failed += [Failure(job, _last_line(job.log)) for job, code in ended if code]
                running = [one for one in running if one[2].returncode is None]
                progress("jobs", len(jobs) - len(waiting) - len(running), len(jobs))
        finally:
            for _, _, process in running:
                process.terminate()
            for _, _, process in running:
                process.wait()
            if before is not None:
                signal.signal(signal.SIGTERM, before)
        return failed

    return execute


def job_lines(jobs: Sequence[Job]) -> list[str]:
    """Jobs of one recipe as text: what their commands share, then a line for what each has of its own."""
    if len(jobs) == 1:
        return [" ".join(jobs[0].words) + " (finished)" * jobs[0].done]
    shared = set.intersection(*(set(job.words) for job in jobs))
    lines = [" ".join(word for word in jobs[0].words if word in shared), "with"]
    for job in jobs:
        own = " ".join(word for word in job.words if word not in shared)
        lines.append(f"  {own}{' (finished)' * job.done}")
    return lines


def _parts(value: Any) -> list[Any]:
    """The values of an option that is given once or several times; files by language are `LANG=FILE[,FILE]`."""
    if isinstance(value, Mapping):
        return [f"{key}={file if isinstance(file, str | Path) else ','.join(file)}" for key, file in value.items()]
    return list(value) if isinstance(value, list | tuple) else [value]


def _comparable(value: Any) -> bool:
    """Whether a value means the same wherever a run lies, as a number does and the path of a file does not."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and "/" not in value)


def _finished(folder: Path) -> bool:
    return (folder / "run.json").is_file() and read_facts(folder).get("status") == "finished"


def ended_by(number: int) -> Any:
    """Let a signal end this process in order, and its own with it; what it did before, None where it is left."""
    if threading.current_thread() is not threading.main_thread():
        return None  # only the main thread may say what signals do

    def leave(*_: Any) -> None:
        raise SystemExit(128 + number)

    return signal.signal(number, leave)


def _least_used(devices: Sequence[str], taken: Sequence[str | None]) -> str | None:
    return min(devices, key=taken.count) if devices else None


def _start(job: Job, parallel: int, device: str | None = None) -> subprocess.Popen[bytes]:
    threads = str(max(1, (os.cpu_count() or 1) // parallel))  # processes that each take every core wait for each other
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("wb") as log:
        process = subprocess.Popen(
            WORKER, stdin=subprocess.PIPE, stdout=log, stderr=log,
            env={"OMP_NUM_THREADS": threads, **os.environ, **_seeing(device)},
        )  # fmt: skip
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it died at once, and its log says why
        process.stdin.write(f"{job.as_json()}\n".encode())
        process.stdin.flush()  # and stays open: when this process dies, whatever the cause, the worker sees it closed
    return process


def _seeing(device: str | None) -> dict[str, str]:
    """The environment in which `cuda` is this one of the GPUs that can be seen here."""
    if device is None:
        return {}
    number, seen = int(device.removeprefix("cuda:")), os.environ.get("CUDA_VISIBLE_DEVICES")
    return {"CUDA_VISIBLE_DEVICES": seen.split(",")[number].strip() if seen else str(number)}


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no word"
