"""Jobs on a Ray cluster: `on_cluster(address)` is an `Executor` like those that run jobs on this machine.

Ray chooses the machine and the GPU, and reports machines that are lost. Each job runs in its own process, and its
folder is on storage that every machine sees at the same path. So its rows are the same as on this machine, and a job
whose machine was lost continues on another one from its last checkpoint:

    what happened                                   state of the job
    the job finished                                finished
    the job ended with an error                     failed; it would fail again
    its machine or its process was lost             restarted on any machine, up to `RETRIES` times

A machine that cannot be reached may be taken for lost although it still works. The lease that a worker holds keeps its
job and the restarted one from writing into the same folder (`isogloss.recipes.jobs.holding`).
"""

import importlib
import importlib.metadata
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isogloss.errors import InputError, ended_in_order, require
from isogloss.progress import progress
from isogloss.recipes.jobs import LEASE, LOST, WORKER, Executor, Failure, Job, last_line, start_worker

SENT = (__name__, "isogloss.recipes.jobs")  # modules whose functions are sent to the machines by value
COMMAND = WORKER[1:]  # arguments after each machine's own Python
RETRIES = 3  # restarts of a job whose machine or process was lost
ANSWER = 20.0  # seconds to wait for a cluster to respond
LOOK = 60.0  # seconds to wait for the check of a machine
PAUSE = 0.5  # seconds between checks of running jobs
GOODBYE = 15.0  # seconds that interrupted jobs have to end
ALONE = 300.0  # seconds to wait without any machine that could run a job; one may still be starting
APPEAR = 90.0  # seconds until files written by another machine must be visible here


@dataclass(frozen=True)
class Share:
    """The resources of a job. gpus: 0.25 lets four jobs share a GPU; None: one if the cluster has any, else none."""

    gpus: float | None = None
    cpus: float = 1.0

    def fits(self, node: Mapping[str, Any]) -> bool:
        """Whether a machine, an entry of `ray.nodes()`, has enough resources in total to run such a job."""
        total = node["Resources"]
        return bool(node["Alive"] and total.get("GPU", 0) >= (self.gpus or 0) and total.get("CPU", 0) >= self.cpus)

    def __str__(self) -> str:
        """The resources in words, as in `1 GPU and 2 CPUs`."""
        counts = ((self.gpus or 0, "GPU"), (self.cpus, "CPU"))
        return " and ".join(f"{number:g} {name}{'s' * (number > 1)}" for number, name in counts if number)


def on_cluster(
    address: str, *, parallel: int | None = None, share: Share | None = None, lease: float = LEASE
) -> Executor:
    """Run jobs on a Ray cluster. The address is checked at once, the machines when jobs are given.

    Args:
        address: `auto` for the cluster this machine is part of, `local` for a cluster of this machine alone that ends
            with the jobs, or `host:port` of the cluster's head.
        parallel: Maximum number of jobs at a time; by default as many as the cluster has room for.
        share: The resources each job requests.
        lease: Seconds after which the lease of a lost worker expires; see `isogloss.recipes.jobs`.

    >>> run_jobs(jobs, executor=on_cluster("10.0.0.1:6379", share=Share(gpus=0.5)))  # doctest: +SKIP
    """
    find_ray()
    reach(address)

    def execute(jobs: Sequence[Job]) -> list[Failure]:
        try:
            # Twice, since `ray.init` installs its own handler for this signal.
            with ended_in_order(), connected(address) as ray, ended_in_order():
                for module in SENT:
                    ray.cloudpickle.register_pickle_by_value(sys.modules[module])
                resolved = _resolve(share or Share(), ray.nodes(), address)
                nodes = [node for node in ray.nodes() if resolved.fits(node)]
                _check_nodes(ray, nodes, jobs[0].folder.parent)
                return _run(ray, jobs, width=parallel or len(jobs), share=resolved, lease=lease)
        except SystemExit as stop:  # Ray replaces the exit code of a signal that arrives while it waits
            raise SystemExit(128 + signal.SIGTERM) from stop

    return execute


def _run(ray: Any, jobs: Sequence[Job], *, width: int, share: Share, lease: float) -> list[Failure]:
    """Run up to `width` jobs at a time until none is left."""
    remote = ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, max_retries=0)(run_worker)
    waiting, failed, finished = list(jobs), list[Failure](), list[Job]()
    running: dict[Any, Job] = {}
    losses = Counter[Path]()  # lost machines by the folder of the job
    hidden = {} if share.gpus else {"CUDA_VISIBLE_DEVICES": ""}  # a job that requested no GPU must not use one
    news, seen = "jobs", time.monotonic()
    for job in jobs:
        job.log.unlink(missing_ok=True)  # workers append to it
    try:
        while waiting or running:
            while waiting and len(running) < width:
                job = waiting.pop(0)
                # Symbolic links in paths are not resolved: other machines have them, too.
                log, marker = (os.path.abspath(path) for path in (job.log, job.lease))  # noqa: PTH100
                where = {"directory": str(Path.cwd()), "log": log, "lease": marker}
                running[remote.remote(job.as_json(lease=lease), COMMAND, hidden, **where)] = job
            for ref in ray.wait(list(running), num_returns=len(running), timeout=PAUSE)[0]:
                job = running.pop(ref)
                why, again = _outcome(ray, ref)
                if again and losses[job.folder] < RETRIES:
                    news = f"jobs: {job.name} lost its machine and will be restarted"
                    losses[job.folder] += 1
                    waiting.insert(0, job)
                elif why:
                    failed.append((job, f"{why} ({RETRIES + 1} times)" if again else why))
                else:
                    finished.append(job)
            progress(news, len(failed) + len(finished), len(jobs))
            if any(share.fits(node) for node in ray.nodes()):
                seen = time.monotonic()
            elif time.monotonic() - seen > ALONE:
                why = f"no machine with {share} is left in the cluster"
                return failed + [(job, why) for job in (*running.values(), *waiting)]
        deadline = time.monotonic() + APPEAR  # network storage may show files from other machines with a delay
        while (left := [job for job in finished if not job.done]) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        return failed + [(job, f"it finished, but {job.folder} shows no results on this machine") for job in left]
    finally:
        refs = list(running)
        for force in (False, True):  # first interrupt, so that leases are released, then kill
            for ref in refs:
                with suppress(Exception):
                    ray.cancel(ref, force=force)
            refs = ray.wait(refs, num_returns=len(refs), timeout=GOODBYE)[1] if refs else []


def _outcome(ray: Any, ref: Any) -> tuple[str, bool]:
    """Why a job did not finish (empty if it did), and whether it should be tried again."""
    try:
        code, message, node = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        return str(error).strip().splitlines()[-1], False
    except ray.exceptions.RayError as error:
        return f"its machine or its process there was lost: {str(error).strip().splitlines()[0]}", True
    if code == 0:
        return "", False
    # A negative code means that the process was killed: memory ran out, or its machine shuts down.
    return f"{message} (on {node})", code < 0 or code == LOST


def _resolve(share: Share, nodes: Sequence[Mapping[str, Any]], address: str) -> Share:
    """The share with its number of GPUs filled in; refused if no machine has these resources."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    any_gpu = any(has.get("GPU", 0) > 0 for has in alive)
    share = replace(share, gpus=float(any_gpu)) if share.gpus is None else share
    if not any(share.fits(node) for node in nodes):
        sizes = sorted({str(Share(has.get("GPU", 0), has.get("CPU", 0))) or "nothing" for has in alive})
        raise InputError(
            f"--cluster {address}: no machine has {share} for a job, they have {', or '.join(sizes) or 'nothing'}; ask "
            "for less with --gpus or --cpus"
        )
    return share


def _check_nodes(ray: Any, nodes: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Refuse a machine that does not see the folder of the jobs, or has another version of isogloss."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".seen-{secrets.token_hex(8)}.part"
    mark.write_text("here", encoding="utf-8")
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    try:
        look = ray.remote(num_cpus=0, max_retries=0)(machine_fault)
        version = importlib.metadata.version("isogloss")
        path = os.path.abspath(mark)  # noqa: PTH100
        looks = [look.options(scheduling_strategy=affinity(node["NodeID"], soft=False)) for node in nodes]
        refs = [remote.remote(path, str(Path.cwd()), version) for remote in looks]
        addresses = dict(zip(refs, (node["NodeManagerAddress"] for node in nodes), strict=True))
        progress("checking the cluster", 0, len(refs))
        ready, late = ray.wait(refs, num_returns=len(refs), timeout=LOOK)
        progress("checking the cluster", len(ready), len(refs))
        for ref in ready:
            try:
                fault = str(ray.get(ref))
            except ray.exceptions.RayTaskError as error:
                fault = f"cannot be used: {str(error).strip().splitlines()[-1]}"
            except ray.exceptions.RayError:
                continue  # a machine that was lost meanwhile gets no jobs
            require(not fault, f"--cluster: {addresses[ref]} {fault}; no job was started")
        if late:
            names = ", ".join(addresses[ref] for ref in late)
            raise InputError(f"--cluster: {names} did not answer for {LOOK:.0f} seconds; no job was started")
    finally:
        mark.unlink(missing_ok=True)


# --- what runs in Ray's process on each machine, outside the worker ---------------------------------------------------


# These two functions, and those they call, are sent to the machines by value and use only the standard library: so a
# machine without isogloss can report that, and torch is loaded in the worker only.


def machine_fault(mark: str, directory: str, version: str) -> str:
    """Why this machine cannot run jobs; empty if it can.

    mark: a file in the folder of the jobs; directory: their working directory; version: the required isogloss.
    """
    if not Path(mark).is_file() or not Path(directory).is_dir():
        where = directory if Path(mark).is_file() else str(Path(mark).parent)
        return f"does not see {where}; --out and files must be on storage that every machine has at the same path"
    if not os.access(Path(mark).parent, os.W_OK):
        return f"cannot write to {Path(mark).parent}"
    try:
        installed = importlib.metadata.version("isogloss")
    except importlib.metadata.PackageNotFoundError:
        return f"has no isogloss in {sys.executable}; install it there"
    if installed != version:
        return f"has isogloss {installed}, and this machine {version}; install the same version on both"
    return ""


def run_worker(
    line: str, command: Sequence[str], variables: Mapping[str, str], *, directory: str, log: str, lease: str
) -> tuple[int, str, str]:
    """Run a job in a process; return its exit code, the last line of its log, and the name of this machine.

    Args:
        line: The job as JSON, which the worker reads.
        command: The arguments after the name of Python.
        variables: Environment variables in addition to those of this machine.
        directory: The working directory.
        log: The file that gets the output of the process.
        lease: The lease file that the worker holds; it is removed if the worker ended without removing it.
    """
    node, log_path = socket.gethostname(), Path(log)
    with suppress(ValueError):  # raised outside the main thread, which Ray does not interrupt
        # Ray cancels tasks by SIGINT, which processes that a shell starts in the background ignore.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not Path(directory).is_dir() or not log_path.parent.is_dir():
        return 1, f"this machine does not see {directory} or {log_path.parent}", node
    process = start_worker(
        line, [sys.executable, *command], log_path, environment={**os.environ, **variables}, directory=directory
    )
    try:
        while process.poll() is None:  # Ray could not interrupt wait()
            time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):  # another machine cannot see that the worker has ended, and would wait for its lease
            owner = dict(entry.partition("=")[::2] for entry in Path(lease).read_text(encoding="utf-8").splitlines())
            if (owner.get("pid"), owner.get("host", "").partition("?")[0]) == (str(process.pid), node):
                Path(lease).unlink()
    return process.returncode, last_line(log_path), node


# --- the connection ---------------------------------------------------------------------------------------------------


def find_ray() -> Any:
    """Import Ray with its log messages suppressed; failures arrive as exceptions."""
    name, before = "RAY_DEDUP_LOGS_SKIP_REGEX", os.environ.get("RAY_DEDUP_LOGS_SKIP_REGEX")
    os.environ.setdefault(name, ".")  # read when Ray is imported
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("--cluster needs Ray, which is not installed; install it with isogloss[ray]") from error
    finally:
        if before is None:
            del os.environ[name]


def reach(address: str) -> None:
    """Refuse an address where no cluster responds; Ray itself would try for minutes and then end this process."""
    if address == "local" or find_ray().is_initialized():
        return
    where = [] if address == "auto" else ["--address", address]
    if where:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or "/" in address:
            raise InputError(f"--cluster takes auto, local or the HOST:PORT of a cluster's head, not {address!r}")
        try:
            socket.create_connection((host, int(port)), timeout=ANSWER).close()
        except (OSError, OverflowError) as error:
            raise InputError(f"--cluster {address}: nothing answers there ({error})") from error
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", *where]
    try:
        healthy = subprocess.run(command, capture_output=True, timeout=ANSWER).returncode == 0
    except subprocess.TimeoutExpired:
        healthy = False
    if not healthy:
        fault = "this machine is not part of a running cluster" if address == "auto" else "no Ray cluster answers there"
        raise InputError(f"--cluster {address}: {fault}; start one with ray start --head")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to Ray for the duration of the block; an existing connection is used and left open."""
    ray = find_ray()
    if ray.is_initialized():
        yield ray
        return
    settings: dict[str, Any] = {}
    if address == "local":
        settings = {"include_dashboard": False, "object_store_memory": 100 * 2**20}  # jobs do not use the store
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **settings)
    except (OSError, RuntimeError, ValueError) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"--cluster {address} cannot be joined from this machine: {why}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
