"""Jobs on a Ray cluster: `on_cluster(address)` is an `Executor` like those that run jobs on this machine.

Ray chooses the machine and the GPU, and tells when a machine is gone. A job there is a process of its own, as it is
here when several run at a time, and its folder is on storage that every machine sees at the same path. So its rows are
those it has here, and one whose machine was lost goes on elsewhere from its last checkpoint:

    what happened                                   what becomes of the job
    it finished                                     done
    it said what is wrong, or broke by itself       failed; it would break again
    its machine, or a process there, was lost       begun again on any machine, up to `RETRIES` times

A machine may be taken for lost that only cannot be reached. Its job and the one begun anew would write into one folder,
but for the lease that a worker holds (`isogloss.runs.lease`).
"""

import importlib.metadata
import json
import os
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.progress import Progress
from isogloss.runs import lease as leases
from isogloss.runs import nodes as there
from isogloss.runs.jobs import WORKER, Executor, Failure, Job, ended_by
from isogloss.runs.joining import connected, find_ray, reach

COMMAND = WORKER[1:]  # behind the name of each machine's own Python
RETRIES = 3  # of a job whose machine or process was lost
LOOK = 60.0  # seconds for a machine to say what it sees
PAUSE = 0.5  # seconds between looks at jobs
GOODBYE = 15.0  # seconds for jobs to end that are interrupted
ALONE = 300.0  # seconds without a machine that could run a job: one may be on its way
APPEAR = 90.0  # seconds until what another machine wrote must be seen here


@dataclass(frozen=True)
class Share:
    """What a job asks of a machine. gpus: 0.25 lets four jobs share one GPU; None is one where the cluster has any."""

    gpus: float | None = None
    cpus: float = 1.0

    def fits(self, node: Mapping[str, Any]) -> bool:
        """Whether a machine, as `ray.nodes()` tells of it, could ever run such a job."""
        has = node["Resources"]
        return bool(node["Alive"] and has.get("GPU", 0) >= (self.gpus or 0) and has.get("CPU", 0) >= self.cpus)

    def __str__(self) -> str:
        """In words, as `1 GPU and 2 CPUs`."""
        each = ((self.gpus or 0, "GPU"), (self.cpus, "CPU"))
        return " and ".join(f"{number:g} {name}{'s' * (number > 1)}" for number, name in each if number)


@dataclass(frozen=True)
class _Try:
    """A job under way, and how often its machine was lost so far."""

    job: Job
    lost: int = 0
    owner: str = field(default_factory=lambda: secrets.token_hex(8))


def on_cluster(
    address: str, *, parallel: int | None = None, share: Share | None = None, lease: float = leases.SECONDS
) -> Executor:
    """Run jobs on a Ray cluster, up to `parallel` at a time, or as many as it has room for.

    address: `auto` for the cluster this machine is part of, `local` for one that is made of this machine alone and ends
    with the jobs, or `host:port` of its head. share: what each job asks for. lease: see `isogloss.runs.lease`. Whether
    there is such a cluster is seen at once, the rest when jobs are given.

    >>> run_jobs(jobs, executor=on_cluster("10.0.0.1:6379", share=Share(gpus=0.5)))  # doctest: +SKIP
    """
    find_ray()
    reach(address)

    def execute(jobs: Sequence[Job], progress: Progress) -> list[Failure]:
        before = ended_by(signal.SIGTERM)
        try:
            with connected(address) as ray:
                ended_by(signal.SIGTERM)  # Ray has its own idea of what this signal does
                ray.cloudpickle.register_pickle_by_value(there)
                asked = _resolve(share or Share(), ray.nodes(), address)
                _check_nodes(ray, [node for node in ray.nodes() if asked.fits(node)], jobs[0].folder.parent, progress)
                return _run(ray, jobs, width=parallel or len(jobs), share=asked, lease=lease, progress=progress)
        except SystemExit as stop:  # what a signal raises while Ray waits comes out of Ray with another code
            raise SystemExit(128 + signal.SIGTERM) from stop
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)

    return execute


def _run(ray: Any, jobs: Sequence[Job], *, width: int, share: Share, lease: float, progress: Progress) -> list[Failure]:
    """Keep up to `width` jobs under way until none is left."""
    remote = ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, max_retries=0)(there.work)
    waiting, failed, finished = [_Try(job) for job in jobs], list[Failure](), list[Job]()
    running: dict[Any, _Try] = {}
    news, seen = "jobs", time.monotonic()
    for job in jobs:
        job.log.unlink(missing_ok=True)  # what follows adds to it
    try:
        while waiting or running:
            while waiting and len(running) < width:
                one = waiting.pop(0)
                running[remote.remote(*_told(one, share, lease))] = one
            for ref in ray.wait(list(running), num_returns=len(running), timeout=PAUSE)[0]:
                one = running.pop(ref)
                why, again = _outcome(ray, ref)
                if again and one.lost < RETRIES:
                    news = f"jobs: {one.job.name} lost its machine and goes on elsewhere"
                    waiting.insert(0, _Try(one.job, one.lost + 1))
                elif why:
                    failed.append(Failure(one.job, f"{why} ({RETRIES + 1} times)" if again else why))
                else:
                    finished.append(one.job)
            progress(news, len(failed) + len(finished), len(jobs))
            if any(share.fits(node) for node in ray.nodes()):
                seen = time.monotonic()
            elif time.monotonic() - seen > ALONE:
                left = [one.job for one in (*running.values(), *waiting)]
                return failed + [Failure(job, f"no machine with {share} is left in the cluster") for job in left]
        return failed + _unseen(finished)
    finally:
        _end(ray, running)


def _told(one: _Try, share: Share, lease: float) -> tuple[Any, ...]:
    """What `nodes.work` is given."""
    path = os.path.abspath(one.job.lease)  # noqa: PTH100  (links stay: other machines have them, too)
    held = {"path": path, "owner": one.owner, "seconds": lease}
    line = json.dumps({**json.loads(one.job.as_json()), "lease": held})
    hidden = {} if share.gpus else {"CUDA_VISIBLE_DEVICES": ""}  # what a job did not ask for it may not take
    return line, COMMAND, hidden, str(Path.cwd()), os.path.abspath(one.job.log), path, one.owner  # noqa: PTH100


def _outcome(ray: Any, ref: Any) -> tuple[str, bool]:
    """Why a job did not finish, empty if it did, and whether that was no fault of its own."""
    try:
        code, said, node = ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        return str(error).strip().splitlines()[-1], False
    except ray.exceptions.RayError as error:
        return f"its machine or its process there was lost: {str(error).strip().splitlines()[0]}", True
    if code == 0:
        return "", False
    # A process that was killed did not end by itself: memory ran out, or its machine shuts down.
    return f"{said} (on {node})", code < 0 or code == leases.LOST


def _unseen(finished: Sequence[Job]) -> list[Failure]:
    """Wait until what others finished is seen here; network storage may show it late."""
    deadline, left = time.monotonic() + APPEAR, list(finished)
    while (left := [job for job in left if not job.done]) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return [Failure(job, f"it finished, but {job.folder} does not show that on this machine") for job in left]


def _end(ray: Any, running: Mapping[Any, _Try]) -> None:
    """End what is under way: first asked to, so that leases are given back, then killed."""
    left = list(running)
    for force in (False, True):
        for ref in left:
            with suppress(Exception):
                ray.cancel(ref, force=force)
        left = ray.wait(left, num_returns=len(left), timeout=GOODBYE)[1] if left else []


def _resolve(share: Share, nodes: Sequence[Mapping[str, Any]], address: str) -> Share:
    """What each job asks for, where some machine has that."""
    there_now = [node["Resources"] for node in nodes if node["Alive"]]
    any_gpu = any(has.get("GPU", 0) > 0 for has in there_now)
    asked = replace(share, gpus=float(any_gpu)) if share.gpus is None else share
    if not any(asked.fits(node) for node in nodes):
        each = sorted({str(Share(has.get("GPU", 0), has.get("CPU", 0))) or "nothing" for has in there_now})
        found = ", or ".join(each) or "nothing"
        raise InputError(
            f"--cluster {address}: no machine has {asked} for a job, they have {found}; ask for less with --gpus or "
            "--cpus"
        )
    return asked


def _check_nodes(ray: Any, nodes: Sequence[Mapping[str, Any]], folder: Path, progress: Progress) -> None:
    """Refuse a machine that does not see the folder of the jobs, or has another isogloss."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".seen-{secrets.token_hex(8)}.part"
    mark.write_text("here", encoding="utf-8")
    place = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    try:
        look = ray.remote(num_cpus=0, max_retries=0)(there.look)
        version = importlib.metadata.version("isogloss")
        path = os.path.abspath(mark)  # noqa: PTH100
        there_only = [look.options(scheduling_strategy=place(node["NodeID"], soft=False)) for node in nodes]
        refs = [one.remote(path, str(Path.cwd()), version) for one in there_only]
        asked = dict(zip(refs, (node["NodeManagerAddress"] for node in nodes), strict=True))
        late, deadline = list(asked), time.monotonic() + LOOK
        while late and time.monotonic() < deadline:
            ready, late = ray.wait(late, num_returns=len(late), timeout=PAUSE)
            progress("checking the cluster", len(asked) - len(late), len(asked))
            for ref in ready:
                if wrong := _seen(ray, ref):
                    raise InputError(f"--cluster: {asked[ref]} {wrong}; no job was started")
        if late:
            names = ", ".join(asked[ref] for ref in late)
            raise InputError(f"--cluster: {names} did not answer for {LOOK:.0f} seconds; no job was started")
    finally:
        mark.unlink(missing_ok=True)


def _seen(ray: Any, ref: Any) -> str:
    """What a machine has to say against itself; one that is gone says nothing, and takes no jobs."""
    try:
        return str(ray.get(ref))
    except ray.exceptions.RayTaskError as error:
        return f"cannot be used: {str(error).strip().splitlines()[-1]}"
    except ray.exceptions.RayError:
        return ""
