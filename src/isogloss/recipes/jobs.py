"""Calls of recipes as jobs: each has a run folder of its own, which is not run again once it is finished.

    job = Job("freeze-8", "transfer", {"task": "nli", ...}, Path("runs/freeze-8"), {"plans": "freeze:8"})
    run_jobs([job, ...], parallel=2)

A job is data, so that it can be run in this process, in another, or on another machine. Its options are those of the
recipe's function, or as its command has them; `bitext`, `languages`, `links` and `data` are read from paths. Where it
runs is an `Executor`, a function that is given jobs and returns those that failed:

    one_by_one                        in this process, one after the other
    side_by_side(parallel, gpus)      here, several at a time, each a process of its own
    on_cluster(address)               on the machines of a Ray cluster: `isogloss.recipes.cluster`

`python -m isogloss.recipes.jobs` is a worker: it runs one job in a process of its own, and reads that job as a line of
JSON from standard input. The process that started it holds the other end of the pipe. When that closes, the worker
ends: a job that outlived a killed sweep would be run by two processes as soon as the sweep is resumed.

A cluster may take a machine for dead that only cannot be reached. Its jobs are begun again elsewhere while it still
writes into their folders. A worker on a cluster therefore holds the lease of its job, a file beside the job's folder:
filelock's `SoftFileLease`, which the holder renews and others may take when it was not renewed for `LEASE` seconds of
their own clock. A worker that lost its lease, or saw no renewal of it for two thirds of that time, ends itself with the
exit code `LOST`: it has ended before another may take its place.
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
from isogloss.runs.run import clear_finished, is_finished, read_facts

WORKER = (sys.executable, "-m", "isogloss.recipes.jobs")  # reads a job as a line of JSON and runs it
PAUSE = 0.2  # seconds between looks at processes
LEASE = 60.0  # seconds: longer than storage is commonly away when it moves to another server
RENEWALS = 10  # of a lease in that time
LOST = 75  # the exit code of a worker that lost its lease: its job may be tried again
MACHINE_OPTIONS = {"device", "dtype", "checkpoint", "compiled"}  # options that another machine may want otherwise


@dataclass(frozen=True)
class Job:
    """One call of a recipe with these options, its model among them; `folder` is its run.

    coordinates: what tells the job from others, such as its plan and seed. needs: folders of runs that must be finished
    before it, such as that of the model it reads.
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
        """What it needs and is not finished."""
        return [folder for folder in self.needs if not is_finished(folder)]

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
        words = ["isogloss", self.recipe]
        for name, value in {**self.options, "out": self.folder}.items():
            spelt = name.replace("_", "-")
            if name == "model":
                words.insert(2, str(value))
            elif isinstance(value, bool):
                words.append(f"--{spelt}" if value else f"--no-{spelt}")
            elif isinstance(value, Mapping):  # files by language
                files = {key: each if isinstance(each, str | Path) else ",".join(each) for key, each in value.items()}
                words += [f"--{spelt} {key}={each}" for key, each in files.items()]
            else:
                parts = value if isinstance(value, list | tuple) else [value]
                words += [f"--{spelt} {part}" for part in parts if part is not None]
        return words

    def as_json(self, **more: Any) -> str:
        """What a worker reads, and what it is told besides; `coordinates` stay here."""
        given = {"name": self.name, "recipe": self.recipe, "options": self.options, "folder": self.folder}
        return json.dumps(given | more, default=str)


Failure = tuple[Job, str]  # a job that did not finish, and the last thing it said


Executor = Callable[[Sequence[Job]], Sequence[Failure]]
"""Runs every job it is given, whatever becomes of the others, and returns those that failed.

The stage `jobs` tells how many are finished. A job's folder is filled by `run_job`, wherever that runs.
"""


def run_job(job: Job) -> None:
    """Run a job, or go on with it; one that is finished is left as it is."""
    if job.done:
        return
    find_recipe(job.recipe).run(job.options, out=job.folder, resume=(job.folder / "run.json").is_file())


def run_jobs(jobs: Sequence[Job], *, parallel: int = 1, gpus: int = 0, executor: Executor | None = None) -> None:
    """Run every job that is not finished, `parallel` at a time, those that need others after them.

    A job that fails stops none of the others; those that fail are named at the end. gpus: how many take turns.
    executor: where jobs run instead of this machine.
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
            f"{len(held)} of these jobs still run elsewhere, {path.stem} as {holder}; end that first, or wait for it"
        )
    failed, waiting = list[Failure](), left
    while ready := [job for job in waiting if not job.missing]:
        failed += executor(ready)
        waiting = [job for job in waiting if job not in ready]
    for job in waiting:  # for something that failed
        failed.append(_failure(job, f"it needs {job.missing[0]}, which is not finished"))
    if failed:
        (first, said), *others = failed
        also = f"; also {', '.join(f'{job.name} ({job.log})' for job, _ in others)}" if others else ""
        raise JobsFailed(
            f"{len(failed)} of {len(left)} jobs failed, {first.name} first: {said}; all it said is in "
            f"{first.log}, and --resume goes on with what is left{also}"
        )


def one_by_one(jobs: Sequence[Job]) -> list[Failure]:
    """Run jobs in this process, one after the other."""
    failed = []
    for number, job in enumerate(jobs):
        progress("jobs", number, len(jobs))
        try:
            with ended_in_order():  # or what a signal became in compiled code would pass for this job's own failure
                run_job(job)
        except Exception as error:
            failed.append(_failure(job, str(error) if isinstance(error, InputError) else traceback.format_exc()))
    progress("jobs", len(jobs), len(jobs))
    return failed


def side_by_side(parallel: int, gpus: int = 0) -> Executor:
    """Run up to `parallel` jobs at a time on this machine, each a process of its own.

    gpus: how many of those that can be seen here take turns. A process sees only its own, as `cuda`: so a job does not
    record which one it was, and can go on with another.
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
    """Refuse runs, finished or begun, that were made with other options than their jobs have; files may have moved."""
    for job in jobs:
        made = read_facts(job.folder).get("arguments") if (job.folder / "run.json").is_file() else None
        if not made:
            continue
        options = find_recipe(job.recipe).options
        # A run records the defaults, too, which a job does not give; a default that is text may be a file's name.
        usual = {name: option.default for name, option in options.items() if isinstance(made.get(name), int | float)}
        given = {name: value for name, value in {**usual, **job.options}.items() if name in options}
        asked = recorded_arguments(options, given)
        for name in sorted(asked.keys() - MACHINE_OPTIONS):
            before, now = made.get(name), asked[name]
            only_reading = before is None and isinstance(now, str)  # how text is read, which a run does not record
            if before != now and not only_reading and _comparable(before) and _comparable(now):
                change = " then, ".join("without" if value is None else str(value) for value in (before, now))
                raise InputError(
                    f"{job.folder} was made with another --{name.replace('_', '-')} than is asked for ({change} now); "
                    "remove it, give the options it was made with, or another --out"
                )


def _comparable(value: Any) -> bool:
    """Whether a value means the same wherever a run lies, as a number does and the path of a file does not."""
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and "/" not in value)


def job_lines(jobs: Sequence[Job], among: Sequence[Job] = ()) -> list[str]:
    """Jobs of one recipe as text: what their commands share, then a line for what each has of its own.

    among: all the jobs that words are shared with, where these are only some of them.
    """
    shared = set.intersection(*(set(job.words) for job in among or jobs))
    own = {" ".join(word for word in job.words if word not in shared): job.done for job in jobs}
    first = " ".join(word for word in jobs[0].words if word in shared)
    if list(own) == [""]:
        return [first + " (finished)" * jobs[0].done]
    return [first, "with", *(f"  {words}{' (finished)' * done}" for words, done in own.items())]


def facts_of_jobs(jobs: Sequence[Job]) -> dict[str, Any]:
    """What finished jobs say of themselves: where they ran may be another machine than the one that collects."""
    facts = [read_facts(job.folder) for job in jobs]
    times = [[datetime.fromisoformat(each[end]) for end in ("started", "finished")] for each in facts]
    return {
        "finished": [job.name for job in jobs],
        "hours, all together": round(sum((end - begin).total_seconds() for begin, end in times) / 3600, 3),
        "hardware": sorted({", ".join(map(str, each["hardware"].values())) for each in facts}),
        "versions": sorted({f"{name} {number}" for each in facts for name, number in each["versions"].items()}),
    }


def _start(job: Job, parallel: int, gpu: int | None) -> subprocess.Popen[bytes]:
    threads = str(max(1, (os.cpu_count() or 1) // parallel))  # processes that each take every core wait for each other
    environment = {"OMP_NUM_THREADS": threads, **os.environ}
    if gpu is not None:  # one of the GPUs that can be seen here, which the process sees as `cuda`
        seen = os.environ.get("CUDA_VISIBLE_DEVICES")
        environment["CUDA_VISIBLE_DEVICES"] = seen.split(",")[gpu].strip() if seen else str(gpu)
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.log.unlink(missing_ok=True)
    return start_worker(job.as_json(), WORKER, job.log, environment)


def start_worker(
    line: str, command: Sequence[str], log: Path, environment: Mapping[str, str], directory: str | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that reads its job as one line and adds what it says to a log.

    A cluster sends this function to machines by value: it uses the standard library alone.
    """
    with log.open("ab") as said:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=said, stderr=said, cwd=directory, env=environment)
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it died at once, and its log says why
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()  # and stays open: when this process dies, whatever the cause, the worker sees it closed
    return process


def last_line(log: Path) -> str:
    """The last thing that a worker said."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "no word"


def _failure(job: Job, text: str) -> Failure:
    """A job that failed without a process of its own, whose log gets the text."""
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.log.write_text(f"{text.strip()}\n", encoding="utf-8")
    return job, last_line(job.log)


# --- leases ----------------------------------------------------------------------------------------------------------


def job_lease(path: Path, *, seconds: float = LEASE) -> Any:
    """The lease of a job, not held yet; a process that loses it after it was held ends with the code `LOST`.

    seconds: how long nobody may have renewed it before another takes it; the same for everyone who wants it.
    """
    # Only clusters have leases, and a machine without one may have an older filelock.
    from filelock import SoftFileLease

    return SoftFileLease(
        path,
        lease_duration=seconds,
        heartbeat_interval=seconds / RENEWALS,
        thread_local=False,  # the thread that sees the starter die gives it back
        on_compromise=lambda loss: _end(f"{path} was lost ({loss.reason})"),
    )


@contextmanager
def holding(lease: Any, *, tell: Callable[[str], Any] = str) -> Iterator[None]:
    """Hold what `job_lease` returned inside the block; `tell` is given a sentence where there is something to wait for.

    >>> with holding(job_lease(Path("runs/seed-1.lease"))):  # doctest: +SKIP
    ...     run_job(job)
    """
    path, seconds = Path(lease.lock_file), lease.lease_duration
    if path.exists():
        tell(f"waiting for {_holder(lease)}, which holds {path}")
    _acquire(lease)
    stop, renewed, claimed = Event(), [time.monotonic()], _renewal(path)

    def look() -> None:  # apart from the guard, since it hangs for as long as storage does
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
    """Which of these leases have a holder that lives, and where; those that nobody renews are removed.

    Takes no time where there are none, and otherwise up to the duration of a lease.
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
    """Acquire a lease that nobody holds, or that nobody has renewed for as long as it lasts.

    wait: whether to wait for a holder that renews it; otherwise False is returned as soon as it is renewed.
    """
    from filelock import Timeout

    path, seconds = Path(lease.lock_file), lease.lease_duration
    seen, since = _renewal(path), time.monotonic()
    while True:
        with suppress(Timeout):
            lease.acquire(blocking=False)  # also where its holder is a process of this machine that is dead
            return True
        time.sleep(seconds / RENEWALS)
        if (now := _renewal(path)) != seen:
            if now is not None and not wait:
                return False
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > 1.25 * seconds:
            # filelock takes an expired lease by an exchange of two names, which network storage may not have.
            lease.force_break()


def _renewal(path: Path) -> tuple[int, int] | None:
    """The file of a lease and when it was renewed, by the clock of the storage; None where there is none."""
    try:
        with path.open("rb") as file:  # network storage is asked anew for a file that is opened
            status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _holder(lease: Any) -> str:
    """Who holds a lease, as `process 123 on node-4`."""
    owner = lease.owner
    return f"process {owner.pid} on {owner.hostname.partition('?')[0]}" if owner else "another worker"


def _end(why: str) -> None:
    with suppress(OSError):
        os.write(2, f"{why}: this worker ends\n".encode())
    os._exit(LOST)


# --- the worker -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Run the job that standard input names, and end when that is closed; a mistake is a sentence on standard error."""
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
    """End this process at once when standard input is closed at its other end; a lease that it holds is given back."""

    def watch() -> None:
        # Not sys.stdin: a thread that waits in its buffer would crash the interpreter at exit.
        while os.read(0, 1):
            pass
        if lease is not None and lease.is_locked:
            lease.release(force=True)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
