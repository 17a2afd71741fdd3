"""A Ray cluster, found by its address: one that is not there is one sentence, within a bounded time."""

import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from isogloss.errors import InputError

ANSWER = 20.0  # seconds for a cluster to show that it is there


def find_ray() -> Any:
    """Ray, which is loaded only here, and stays silent: what matters it tells by exceptions."""
    name, before = "RAY_DEDUP_LOGS_SKIP_REGEX", os.environ.get("RAY_DEDUP_LOGS_SKIP_REGEX")
    os.environ.setdefault(name, ".")  # is read when Ray is loaded
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("--cluster needs Ray, which is not installed; install it with isogloss[ray]") from error
    finally:
        if before is None:
            del os.environ[name]


def reach(address: str) -> None:
    """Refuse an address where no cluster answers; Ray itself would try for minutes, and then end this process."""
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
        found = subprocess.run(command, capture_output=True, timeout=ANSWER).returncode == 0
    except subprocess.TimeoutExpired:
        found = False
    if not found:
        if address == "auto":
            raise InputError("--cluster auto: this machine is part of no running cluster; ray start --head begins one")
        raise InputError(f"--cluster {address}: no Ray cluster answers there; ray start --head begins one")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected; a connection that was there before is used, and stays."""
    ray = find_ray()
    if ray.is_initialized():
        yield ray
        return
    own: dict[str, Any] = {}
    if address == "local":
        own = {"include_dashboard": False, "object_store_memory": 100 * 2**20}  # jobs leave nothing in the store
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
    except (OSError, RuntimeError, ValueError) as error:
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"--cluster {address} cannot be joined from this machine: {why}") from error
    try:
        yield ray
    finally:
        ray.shutdown()
