"""Calls of recipes as jobs: each has its own run folder and is not run again once it is finished.

    job = Job("freeze-8", "transfer", {"task": "nli", ...}, Path("runs/freeze-8"), {"plans": "freeze:8"})
    run_jobs([job, ...], parallel=2)

A job is plain data, so that it can run in this process, in another one, or on another machine. Its options are those of
the recipe's function or of its command; `bitext`, `languages`, `links` and `data` are read from paths. An `Executor`
decides where jobs run: it is a function that takes jobs and returns those that failed.

    one_by_one                        in this process, one after the other
    side_by_side(parallel, gpus)      on this machine, several at a time, each in its own process
    on_cluster(address)               on the machines of a Ray cluster: `isogloss.recipes.cluster`

`python -m isogloss.recipes.jobs` is a worker: it reads one job as a line of JSON from standard input and runs it. The
process that started it holds the other end of the pipe. When that end closes, the worker exits: if a job outlived a
killed sweep, two processes would run it as soon as the sweep is resumed.

A cluster may take a machine for dead that cannot be reached but still works. Its jobs are then restarted elsewhere
while it still writes into their folders. A worker on a cluster therefore holds the lease of its job, a file beside the
job's folder: filelock's `SoftFileLease`, which the holder renews and others may take if it was not renewed for `LEASE`
seconds of their own clock. A worker that lost its lease, or could not renew it for two thirds of that time, exits with
the code `LOST`, before another worker may take its place.
"""

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

from isogloss.errors import InputError, JobsFailed, ended_in_order
from isogloss.progress import progress
from isogloss.recipes.recipe import find_recipe, recorded_arguments
from isogloss.runs.run import MAY_DIFFER, clear_finished, is_finished, read_facts

WORKER = (sys.executable, "-m", "isogloss.recipes.jobs")  # reads a job as a line of JSON and runs it
PAUSE = 0.2  # seconds between checks of running processes
LEASE = 60.0  # seconds: longer than the usual interruption when storage moves to another server
RENEWALS = 10  # renewals of a lease in that time
LOST = 75  # exit code of a worker that lost its lease; its job may be tried again
MACHINE_OPTIONS = {"device", "dtype", "compiled", *MAY_DIFFER}  # options that may differ between machines


@dataclass(frozen=True)
class Job:
    """One call of a recipe with these options, including the model; `folder` is its run folder.

    coordinates: identify the job among others, such as its plan and seed. needs: folders of runs that must be finished
    first, such as the run that trains its model.
    """

    name: str
    recipe: str
    options: Mapping[str, Any]
    folder: Path
    coordinates: Mapping[str, Any]
    needs: Sequence[Path] = ()

    @property
    def done(self) -> bool:
        """Whether its run is finished."""
        return is_finished(self.folder)

    @property
    def missing(self) -> list[Path]:
        """The needed runs that are not finished."""
        return [folder for folder in self.needs if not is_finished(folder)]

    @property
    def log(self) -> Path:
        """The file with its output, if it ran in its own process or failed."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def lease(self) -> Path:
        """The lease file that a worker on a cluster holds while it works in the folder."""
        return self.folder.with_name(f"{self.folder.name}.lease")

    @property
    def words(self) -> list[str]:
        """The words of the equivalent command; an option and its value are one string."""
        words = ["isogloss", self.recipe]
        for name, value in {**self.options, "out": self.folder}.items():
            spelt = name.replace("_", "-")
            if name == "model":
                words.insert(2, str(value))
            elif isinstance(value, bool):
                words.append(f"--{spelt}" if value else f"--no-{spelt}")
            elif isinstance(value, Mapping):  # files by language
                files = {key: item if isinstance(item, str | Path) else ",".join(item) for key, item in value.items()}
                words += [f"--{spelt} {key}={paths}" for key, paths in files.items()]
            else:
                parts = value if isinstance(value, list | tuple) else [value]
                words += [f"--{spelt} {part}" for part in parts if part is not None]
        return words

    def as_json(self, **more: Any) -> str:
        """The line of JSON that a worker reads, with further fields; `coordinates` are not included."""
        given = {"name": self.name, "recipe": self.recipe, "options": self.options, "folder": self.folder}
        return json.dumps(given | more, default=str)


Failure = tuple[Job, str]  # a job that did not finish, and the last line of its output


Executor = Callable[[Sequence[Job]], Sequence[Failure]]
"""Runs every job it is given, even if others fail, and returns those that failed.

It reports the number of finished jobs as progress of the stage `jobs`. A job's folder is filled by `run_job`.
"""


def run_job(job: Job) -> None:
    """Run or resume a job; a finished job is left as it is."""
    if job.done:
        return
    find_recipe(job.recipe).run(job.options, out=job.folder, resume=(job.folder / "run.json").is_file())


def run_jobs(jobs: Sequence[Job], *, parallel: int = 1, gpus: int = 0, executor: Executor | None = None) -> None:
    """Run every job that is not finished, `parallel` at a time; jobs that need others run after them.

    A failed job does not stop the others; failed jobs are named at the end. gpus: number of GPUs to distribute jobs
    over. executor: runs the jobs elsewhere than on this machine.
    """
    left = [job for job in jobs if not job.done]
    if executor is None:
        several = gpus > 1 or (parallel > 1 and len(left) > 1)
        executor = side_by_side(parallel, gpus) if several else one_by_one
    refuse_others(jobs)
    for job in jobs:
        if job not in left:
            clear_finished(job.folder)
    if held := still_held([job.lease for job in left]):
        path, holder = next(iter(held.items()))
        raise InputError(
            f"{len(held)} of these jobs still run elsewhere, {path.stem} as {holder}; end it, or wait until it ends"
        )
    failed, waiting = list[Failure](), left
    while ready := [job for job in waiting if not job.missing]:
        failed += executor(ready)
        waiting = [job for job in waiting if job not in ready]
    for job in waiting:  # a run that they need has failed
        failed.append(_failure(job, f"it needs {job.missing[0]}, which is not finished"))
    if failed:
        (first, message), *others = failed
        also = f"; also {', '.join(f'{job.name} ({job.log})' for job, _ in others)}" if others else ""
        raise JobsFailed(
            f"{len(failed)} of {len(left)} jobs failed, {first.name} first: {message}; its log is "
            f"{first.log}, and --resume runs the unfinished jobs{also}"
        )


def one_by_one(jobs: Sequence[Job]) -> list[Failure]:
    """Run jobs in this process, one after the other."""
    failed = []
    for number, job in enumerate(jobs):
        progress("jobs", number, len(jobs))
        try:
            with ended_in_order():  # else a signal that compiled code turned into an error would count as a failed job
                run_job(job)
        except Exception as error:
            failed.append(_failure(job, str(error) if isinstance(error, InputError) else traceback.format_exc()))
    progress("jobs", len(jobs), len(jobs))
    return failed


def side_by_side(parallel: int, gpus: int = 0) -> Executor:
    """Run up to `parallel` jobs at a time on this machine, each in its own process.

    gpus: number of visible GPUs to distribute jobs over. Each process sees only its own GPU, as `cuda`: so a job does
    not record which GPU it used, and can be resumed on another.
    """

    def execute(jobs: Sequence[Job]) -> list[Failure]:
        waiting, failed = list(jobs), list[Failure]()
        running: list[tuple[Job, int | None, subprocess.Popen[bytes]]] = []
        with ended_in_order():
            try:
                while waiting or running:
                    while waiting and len(running) < parallel:
                        job, taken = waiting.pop(0), [gpu for _, gpu, _ in running]
                        gpu = min(range(gpus), key=taken.count) if gpus else None
                        running.append((job, gpu, _start(job, parallel, gpu)))
                    time.sleep(PAUSE)
                    ended = [(job, process.returncode) for job, _, process in running if process.poll() is not None]
                    failed += [(job, last_line(job.log)) for job, code in ended if code]
                    running = [started for started in running if started[2].returncode is None]
                    progress("jobs", len(jobs) - len(waiting) - len(running), len(jobs))
            finally:
                for _, _, process in running:
                    process.terminate()
                for _, _, process in running:
                    process.wait()
        return failed

    return execute


def refuse_others(jobs: Sequence[Job]) -> None:
    """Refuse finished or unfinished runs that were made with other options than their jobs; files may have moved."""
    for job in jobs:
        past = read_facts(job.folder).get("arguments") if (job.folder / "run.json").is_file() else None
        if not past:
            continue
        options = find_recipe(job.recipe).options
        # A run also records defaults, which a job does not give. Only numbers: a default that is text may be a path.
        defaults = {name: option.default for name, option in options.items() if isinstance(past.get(name), int | float)}
        given = {name: value for name, value in {**defaults, **job.options}.items() if name in options}
        current = recorded_arguments(options, given)
        for name in sorted(current.keys() - MACHINE_OPTIONS):
            before, now = past.get(name), current[name]
            only_reading = before is None and isinstance(now, str)  # how text is read, which a run does not record
            if before != now and not only_reading and _comparable(before) and _comparable(now):
                change = " then, ".join("without" if value is None else str(value) for value in (before, now))
                raise InputError(
                    f"{job.folder} was made with a different --{name.replace('_', '-')} ({change} now); "
                    "remove it, give the options it was made with, or another --out"
                )


def _comparable(value: Any) -> bool:
    """Whether a value means the same on every machine; numbers do, paths of files do not."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and "/" not in value)


def job_lines(jobs: Sequence[Job], among: Sequence[Job] = ()) -> list[str]:
    """Jobs of one recipe as text: the shared part of their commands, then one line per job with the rest.

    among: the jobs that define the shared part, if `jobs` are only some of them.
    """
    shared = set.intersection(*(set(job.words) for job in among or jobs))
    rest = {" ".join(word for word in job.words if word not in shared): job.done for job in jobs}
    first = " ".join(word for word in jobs[0].words if word in shared)
    if list(rest) == [""]:
        return [first + " (finished)" * jobs[0].done]
    return [first, "with", *(f"  {words}{' (finished)' * done}" for words, done in rest.items())]


def facts_of_jobs(jobs: Sequence[Job]) -> dict[str, Any]:
    """Times, hardware and versions of finished jobs, which may have run on other machines than this one."""
    facts = [read_facts(job.folder) for job in jobs]
    times = [[datetime.fromisoformat(record[end]) for end in ("started", "finished")] for record in facts]
    return {
        "finished": [job.name for job in jobs],
        "hours, all together": round(sum((end - begin).total_seconds() for begin, end in times) / 3600, 3),
        "hardware": sorted({", ".join(map(str, record["hardware"].values())) for record in facts}),
        "versions": sorted({f"{name} {number}" for record in facts for name, number in record["versions"].items()}),
    }


def _start(job: Job, parallel: int, gpu: int | None) -> subprocess.Popen[bytes]:
    threads = str(max(1, (os.cpu_count() or 1) // parallel))  # each process would otherwise use every core
    environment = {"OMP_NUM_THREADS": threads, **os.environ}
    if gpu is not None:  # the only GPU that the process sees, as `cuda`
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        environment["CUDA_VISIBLE_DEVICES"] = seen.split(",")[gpu].strip() if seen else str(gpu)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.log.unlink(missing_ok=True)
    return start_worker(job.as_json(), WORKER, job.log, environment=environment)


def start_worker(
    line: str, command: Sequence[str], log: Path, *, environment: Mapping[str, str], directory: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that reads its job as one line from standard input and appends its output to a log.

    A cluster sends this function to machines by value, so it uses only the standard library.
    """
    with log.open("ab") as output:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=output, stderr=output, cwd=directory, env=environment)
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # the process died at once; its log says why
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()  # not closed: it closes when this process dies for any reason, and the worker then exits
    return process


def last_line(log: Path) -> str:
    """The last line of a worker's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no output"


def _failure(job: Job, text: str) -> Failure:
    """The failure of a job without a separate process; the text is written to its log."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.log.write_text(f"{text.strip()}\n", encoding="utf-8")
    return job, last_line(job.log)


# --- leases ----------------------------------------------------------------------------------------------------------


def job_lease(path: Path, *, seconds: float = LEASE) -> Any:
    """The lease of a job, not acquired yet; a process that loses an acquired lease exits with the code `LOST`.

    seconds: a lease that was not renewed for this long may be taken by others; the same for all workers.
    """
    # Imported here: only clusters need leases, and other machines may have an older filelock.
    from filelock import SoftFileLease

    return SoftFileLease(
        path,
        lease_duration=seconds,
        heartbeat_interval=seconds / RENEWALS,
        thread_local=False,  # released by the thread that notices the death of the starting process
        on_compromise=lambda loss: _end(f"{path} was lost ({loss.reason})"),
    )


@contextmanager
def holding(lease: Any, *, tell: Callable[[str], Any] = str) -> Iterator[None]:
    """Hold a lease from `job_lease` inside the block; `tell` is called with a sentence if it has to be waited for.

    >>> with holding(job_lease(Path("runs/seed-1.lease"))):  # doctest: +SKIP
    ...     run_job(job)
    """
    path, seconds = Path(lease.lock_file), lease.lease_duration
    if path.exists():
        tell(f"waiting for {_holder(lease)}, which holds {path}")
    _acquire(lease)
    stop, renewed, claimed = Event(), [time.monotonic()], _renewal(path)

    def look() -> None:  # a separate thread from the guard, since it hangs while storage does
        seen = claimed
        while not stop.wait(seconds / RENEWALS):
            begun, now = time.monotonic(), _renewal(path)
            if now is not None and now != seen and (seen is None or now[0] == seen[0]):
                seen, renewed[0] = now, begun

    def guard() -> None:
        while not stop.wait(seconds / RENEWALS):
            if time.monotonic() - renewed[0] > seconds * 2 / 3:
                _end(f"{path} could not be renewed for {seconds * 2 / 3:.0f} seconds")

    for target in (look, guard):
        Thread(target=target, daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        lease.release()


def still_held(paths: Sequence[Path]) -> dict[Path, str]:
    """The holders of those leases that are still renewed; leases that nobody renews are removed.

    Returns at once if there are no leases, otherwise after at most the duration of a lease.
    """

    def holder_of(path: Path) -> str:
        owner = job_lease(path).owner
        lease = job_lease(path, seconds=owner.lease_duration if owner else LEASE)
        if not _acquire(lease, wait=False):
            return _holder(lease)
        lease.release()
        return ""

    existing = [path for path in paths if path.exists()]
    with ThreadPoolExecutor(len(existing) or 1) as threads:
        holders = dict(zip(existing, threads.map(holder_of, existing), strict=True))
    return {path: holder for path, holder in holders.items() if holder}


def _acquire(lease: Any, *, wait: bool = True) -> bool:
    """Acquire a lease that nobody holds, or that was not renewed for its duration.

    wait: whether to wait while another worker renews it; if not, False is returned at its first renewal.
    """
    from filelock import Timeout

    path, seconds = Path(lease.lock_file), lease.lease_duration
    seen, since = _renewal(path), time.monotonic()
    while True:
        with suppress(Timeout):
            lease.acquire(blocking=False)  # also succeeds if the holder is a dead process of this machine
            return True
        time.sleep(seconds / RENEWALS)
        if (now := _renewal(path)) != seen:
            if now is not None and not wait:
                return False
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > 1.25 * seconds:
            # filelock takes an expired lease by swapping two file names, which network storage may not support.
            lease.force_break()


def _renewal(path: Path) -> tuple[int, int] | None:
    """The inode of a lease file and its last renewal, by the clock of the storage; None if there is no such file."""
    try:
        with path.open("rb") as file:  # opening a file refreshes its status on network storage
            status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _holder(lease: Any) -> str:
    """The holder of a lease, as in `process 123 on node-4`."""
    owner = lease.owner
    return f"process {owner.pid} on {owner.hostname.partition('?')[0]}" if owner else "another worker"


def _end(why: str) -> None:
    with suppress(OSError):
        os.write(2, f"{why}: this worker ends\n".encode())
    os._exit(LOST)


# --- the worker -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the job given on standard input, and exit when that closes; an InputError is printed to standard error."""
    given = json.loads(sys.stdin.readline())
    seconds = given.pop("lease", None)
    job = Job(**{**given, "folder": Path(given["folder"]), "coordinates": {}})
    lease = None if seconds is None else job_lease(job.lease, seconds=seconds)
    end_with_starter(lease)
    try:
        with nullcontext() if lease is None else holding(lease, tell=lambda text: sys.stderr.write(f"{text}\n")):
            run_job(job)
    except InputError as error:
        sys.exit(str(error))


def end_with_starter(lease: Any = None) -> None:
    """Exit at once when the other end of standard input is closed; a lease that is held is released."""

    def watch() -> None:
        # Not sys.stdin: a thread blocked in its buffered read would crash the interpreter at exit.
        while os.read(0, 1):
            pass
        if lease is not None and lease.is_locked:
            lease.release(force=True)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
