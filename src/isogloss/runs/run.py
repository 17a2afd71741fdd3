"""Run folders: the arguments, versions and hashes of a run, and its rows.

Rows are appended to `rows.csv` as soon as they are computed, so a killed run loses none; a resumed run reads them back
and skips their coordinates. `rows.parquet` is written when the run ends. `scratch` has intermediate results for a
resumed run, and is removed at the end.
"""

import csv
import datetime
import io
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from isogloss.errors import InputError, readable, require
from isogloss.files import clear_leftovers, is_leftover, whole, write_text
from isogloss.runs import table
from isogloss.runs.table import COLUMNS, Row, key, written_cells

LOCK = ".lock"
MAY_DIFFER = ("checkpoint", "keep_checkpoints")  # arguments that change no result, so a run is resumed with others, too
PACKAGES = ("isogloss", "torch", "transformers", "numpy", "scipy", "scikit-learn", "pandas", "openTSNE")


class Run(AbstractContextManager["Run"]):
    """An open run folder, to which rows and notes are added; a context manager that keeps other processes from writing.

    scratch: a folder for temporary files of the run; it exists from the start, and is removed when the run is finished.
    """

    def __init__(self, folder: Path, facts: dict[str, Any], *, writes: bool) -> None:
        self.folder, self.scratch = folder, folder / "scratch"
        self.writes = writes
        self.facts = facts
        self.new = True
        self.finished = False
        self.rows: list[dict[str, Any]] = []
        self._keys: set[tuple[str, ...]] = set()
        self._lock: FileLock | None = None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """After an error, remove the folder if it has no rows; after an interruption, record that."""
        if isinstance(error, InputError):
            empty = self.new and self.writes and not self.rows and not (self.folder / "checkpoints").is_dir()
            if empty and not any(self.folder.rglob("*/run.json")):  # no jobs of a sweep either
                shutil.rmtree(self.folder, ignore_errors=True)
        elif isinstance(error, KeyboardInterrupt | SystemExit) and not self.finished:
            self.facts["status"] = "interrupted"
            self._save()
        self.close()

    def lock(self) -> None:
        """Lock the folder for other processes until `close`; the system releases the lock if this process dies."""
        lock = FileLock(self.folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                f"{self.folder} is in use: another process is writing to it; wait for it, or choose another --out"
            ) from error
        except OSError:  # the file system has no locks
            return
        self._lock = lock

    def close(self) -> None:
        """Release the lock of the folder."""
        if self._lock is not None:
            (self.folder / LOCK).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def has(self, entry: Row) -> bool:
        """Whether the run has a row with these coordinates."""
        return key(entry) in self._keys

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows with new coordinates, in one write that is flushed to disk."""
        fresh = [dict(entry) for entry in rows if key(entry) not in self._keys]
        if fresh and self.writes:
            with (self.folder / "rows.csv").open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(map(written_cells, fresh))
                file.flush()
                os.fsync(file.fileno())
        self.rows += fresh
        self._keys.update(map(key, fresh))
        if fresh:
            self._save()  # records the number of rows, so that a later loss is noticed

    def note(self, sentence: str) -> None:
        """Add a sentence for readers of the run; repeated notes are kept once."""
        if sentence not in self.facts["notes"]:
            self.facts["notes"].append(sentence)
            self._save()

    def begin_anew(self) -> None:
        """Delete all rows and notes, for a table that is collected from other runs each time."""
        self.rows, self._keys, self.finished = [], set(), False
        self.facts |= {"finished": None, "status": "running", "notes": []}
        self._save()
        (self.folder / "rows.parquet").unlink(missing_ok=True)  # has the deleted rows
        write_text(self.folder / "rows.csv", ",".join(COLUMNS) + "\n")

    def finish(self) -> pd.DataFrame:
        """Write `rows.parquet`, mark the run as finished and clean up; for a finished run, rewrite missing files."""
        rows = table.frame(self.rows)
        if not self.writes:
            return rows
        with whole(self.folder / "rows.parquet") as beside:
            rows.to_parquet(beside, index=False)
        if not self.finished:
            self.facts |= {"finished": _now(), "status": "finished"}
            self.finished = True
            self._save()
        shutil.rmtree(self.scratch, ignore_errors=True)
        return rows

    def _save(self) -> None:
        if self.writes:
            self.facts["rows"] = len(self.rows)
            text = json.dumps(self.facts, indent=2, ensure_ascii=False, default=str)
            write_text(self.folder / "run.json", text + "\n")


def start(folder: str | Path, facts: Mapping[str, Any], *, resume: bool = False, writes: bool = True) -> Run:
    """Start a run in a new folder, or with `resume` continue an existing one.

    Args:
        folder: The run folder. No other process may write to it until the run is closed: `with start(...) as run`.
        facts: Command, arguments, seed, model, hashes. To resume, they must be the same as at the start.
        resume: Whether to continue a run that is in the folder.
        writes: False in all but the first process of a launch: only the first one writes.
    """
    path = Path(folder)
    beginning: dict[str, Any] = {"started": _now(), "finished": None, "status": "running", "notes": []}
    run = Run(path, {"schema": table.SCHEMA, **facts, **_surroundings(), **beginning}, writes=writes)
    if not writes:
        run.finished = is_finished(path)
        return run
    check_folder(path, resume=resume)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{path} cannot be made in {path.parent}: {error.strerror}; choose another --out") from error
    run.lock()
    try:
        if (path / "run.json").is_file():
            before = read_facts(path)
            if before.get("schema", 1) != table.SCHEMA:
                raise InputError(
                    f"{path} was made by another version of isogloss (schema {before.get('schema', 1)} of its rows, "
                    f"not {table.SCHEMA}); choose another --out"
                )
            now = json.loads(json.dumps(run.facts, default=str))
            names = ("command", "arguments", "seed", "model", "hashes")
            if what := [part for name in names for part in _differences(before.get(name), now.get(name), name)]:
                what = [part for part in what if f"arguments {part}" not in what]  # the seed is an argument, too
                differently = f"{path} was begun differently ({'; '.join(what)})"
                raise InputError(f"{differently}; resume with the same, or choose another --out")
            run.new = False
            run.finished = before.get("status") == "finished"
            run.facts |= {"started": before.get("started"), "notes": before.get("notes", []), "resumed": _now()}
            begun = before.get("rows") or any((path / name).is_file() for name in ("rows.csv", "rows.parquet"))
            rows = table.records(read_rows(path)) if begun else []
            run.rows, run._keys = rows, set(map(key, rows))
            # A kill may have left an incomplete last line, so the rows that were read are written again.
            with whole(path / "rows.csv") as beside, beside.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *map(written_cells, rows)])
    except InputError:
        run.close()
        raise
    if not run.finished:
        run._save()  # before the table: a folder with run.json is a run, even if it is killed before its first row
    clear_run(path)
    if not (path / "rows.csv").is_file():
        write_text(path / "rows.csv", ",".join(COLUMNS) + "\n")
    return run


def is_first_process() -> bool:
    """Whether this process is the one that writes: the first of those that a launcher started, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def check_folder(path: Path, *, resume: bool) -> None:
    """Refuse a folder that cannot be written, holds other files, or holds a run that is not to be resumed."""
    require(str(path).isprintable(), f"--out {str(path)!r} has characters that are no text; choose another name")
    if (path / "run.json").is_file():
        require(resume, f"{path} already holds a run; add --resume to go on with it, or choose another --out")
        return
    if path.exists() and (
        not path.is_dir() or any(not is_leftover(file) and file.name != LOCK for file in path.iterdir())
    ):
        raise InputError(f"{path} exists and is no run folder; choose another --out")
    above = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "you may not write there" if above.is_dir() else "it is a file"
        raise InputError(f"{path} cannot be made in {above}: {why}; choose another --out")


def read_rows(folder: str | Path) -> pd.DataFrame:
    """The table of a run folder, finished or not.

    `rows.csv` is what the run wrote row by row. `rows.parquet` is used instead if it is damaged, has fewer rows than
    `run.json` records, or is missing, as in published results. Raises InputError if that does not help.
    """
    path, packed = Path(folder) / "rows.csv", Path(folder) / "rows.parquet"
    there = path.is_file() or packed.is_file()
    counted = read_facts(folder).get("rows", 0) if (Path(folder) / "run.json").is_file() else 0
    require(there or counted, f"{folder} is no run folder: it has neither rows.csv nor rows.parquet")
    lost = "the run must be made again, in another folder"
    if path.is_file() or not packed.is_file():
        try:
            with readable(path, "cannot be read", lost):
                rows = _read_csv(path)
            require(len(rows) >= counted, f"{path} has {len(rows):,} rows where {counted:,} were written; {lost}")
            return rows
        except InputError:
            if not packed.is_file():
                raise
    with readable(packed, "cannot be read as parquet", lost):
        data = pd.read_parquet(packed)
    require(set(data.columns) <= set(COLUMNS), f"{packed}: the columns are not those of a run")
    return table.typed(data)


def _read_csv(path: Path) -> pd.DataFrame:
    text = path.read_text(encoding="utf-8")
    lines = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))  # a kill may leave an incomplete last line
    columns = tuple(next(lines, ()))
    require("measure" in columns and set(columns) <= set(COLUMNS), f"{path}:1: the columns are not those of a run")
    kinds: dict[str, Any] = dict.fromkeys(table.NUMBERS, float) | dict.fromkeys(table.COUNTS, int)
    kinds |= dict.fromkeys(table.NAMES, table.read_name)
    rows = []
    for number, cells in enumerate(lines, 2):
        if len(cells) != len(columns):
            raise InputError(f"{path}:{number}: {len(cells)} cells instead of {len(columns)}")
        entry = zip(columns, cells, strict=True)
        rows.append({name: kinds.get(name, str)(cell) for name, cell in entry if cell != ""})
    return table.typed(pd.DataFrame(rows, columns=list(columns)))


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a run that was finished."""
    return (folder / "run.json").is_file() and read_facts(folder).get("status") == "finished"


def clear_finished(folder: Path) -> None:
    """Remove what a kill leaves of a finished run: scratch, lock, incomplete files."""
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    (folder / LOCK).unlink(missing_ok=True)
    clear_run(folder)


def clear_run(folder: Path) -> None:
    """Remove incomplete files that a kill left anywhere in a run folder; only for the process that holds its lock.

    Runs inside it, such as the jobs of a sweep, have their own locks; figures are drawn without a lock, and the report
    removes their leftovers.
    """
    clear_leftovers(folder)
    for path in folder.iterdir():
        own_run = path.name == "figures" or (path / "run.json").exists() or (path / LOCK).exists()
        if path.is_dir() and not path.is_symlink() and not own_run:
            clear_run(path)


def read_facts(folder: str | Path) -> dict[str, Any]:
    """Read `run.json`."""
    path = Path(folder) / "run.json"
    require(path.is_file(), f"{folder} is no run folder: it has no run.json")
    with readable(path, "is not JSON", "the run must be made again"):
        facts = json.loads(path.read_text(encoding="utf-8"))
    kind = type(facts).__name__
    require(isinstance(facts, dict), f"{path} holds {kind}, where an object with the run's arguments was expected")
    known = isinstance(facts.get("rows", 0), int) and isinstance(facts.get("notes", []), list)
    require(known, f"{path} has no number of rows or no list of notes; the run must be made again")
    return dict(facts)


def _differences(before: Any, now: Any, name: str) -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        ignored = MAY_DIFFER if name == "arguments" else ()
        parts = [part for part in sorted(before.keys() | now.keys()) if part not in ignored]
        return [each for part in parts for each in _differences(before.get(part), now.get(part), f"{name} {part}")]
    return [] if before == now else [f"{name}: {before!r} then, {now!r} now"]


def _surroundings() -> dict[str, Any]:
    import torch

    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    hardware = {"system": f"{platform.system()} {platform.machine()}", "cpus": os.cpu_count()}
    if torch.cuda.is_available():
        hardware["gpu"] = torch.cuda.get_device_name()
    return {"versions": versions, "hardware": hardware, "python": sys.implementation.name}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
