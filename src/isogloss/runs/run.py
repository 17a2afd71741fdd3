"""A run is a folder: what was asked, with which versions and hashes, and the rows as they came.

Rows are appended to `rows.csv` the moment they are known, so a run that was killed loses nothing; resuming reads them
back and skips the coordinates it has. `rows.parquet` is written when the run ends. `scratch` holds what a resumed run
would rather not compute again, and is removed at the end.
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
PACKAGES = ("isogloss", "torch", "transformers", "numpy", "scipy", "scikit-learn", "pandas", "openTSNE")


class Run(AbstractContextManager["Run"]):
    """An open run folder: rows and notes gather in it until it is finished. After its `with` other processes may write.

    scratch: a folder for what only this run needs, which recipes find made; gone when the run is finished.
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
        """After a mistake remove the folder, if nothing was measured in it; after an interruption record that."""
        if isinstance(error, InputError):
            empty = self.new and self.writes and not self.rows and not (self.folder / "checkpoints").is_dir()
            if empty and not any(self.folder.rglob("*/run.json")):  # those of a sweep's jobs
                shutil.rmtree(self.folder, ignore_errors=True)
        elif isinstance(error, KeyboardInterrupt | SystemExit) and not self.finished:
            self.facts["status"] = "interrupted"
            self._save()
        self.close()

    def lock(self) -> None:
        """Keep other processes out of the folder until `close`; the system opens it again if this one dies."""
        lock = FileLock(self.folder / LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                f"{self.folder} is in use: another process is writing to it; wait for it, or choose another --out"
            ) from error
        except OSError:  # a disk without locks
            return
        self._lock = lock

    def close(self) -> None:
        """Let other processes into the folder."""
        if self._lock is not None:
            (self.folder / LOCK).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def has(self, entry: Row) -> bool:
        """Whether a row with these coordinates is there already."""
        return key(entry) in self._keys

    def append(self, rows: Iterable[Row]) -> None:
        """Add the rows that are not there yet, in one write that reaches the disk."""
        fresh = [dict(entry) for entry in rows if key(entry) not in self._keys]
        if fresh and self.writes:
            with (self.folder / "rows.csv").open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(map(written_cells, fresh))
                file.flush()
                os.fsync(file.fileno())
        self.rows += fresh
        self._keys.update(map(key, fresh))
        if fresh:
            self._save()  # with their number, so that rows which are lost afterwards are missed

    def note(self, sentence: str) -> None:
        """Keep a sentence the reader of the run should see, once."""
        if sentence not in self.facts["notes"]:
            self.facts["notes"].append(sentence)
            self._save()

    def begin_anew(self) -> None:
        """Forget every row and note, for a table that is collected from other runs each time."""
        self.rows, self._keys, self.finished = [], set(), False
        self.facts |= {"finished": None, "status": "running", "notes": []}
        self._save()
        (self.folder / "rows.parquet").unlink(missing_ok=True)  # of the rows before
        write_text(self.folder / "rows.csv", ",".join(COLUMNS) + "\n")

    def finish(self) -> pd.DataFrame:
        """Write `rows.parquet`, mark the run finished, tidy up; of a finished run, write again what is missing."""
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
    """Begin a run in a new folder, or with `resume` go on with the one that is there.

    Args:
        folder: The run folder. No other process may write to it until the run is closed: `with start(...) as run`.
        facts: command, arguments, seed, model, hashes. To resume, they must be those of the first time.
        resume: Whether to go on with a run that is in the folder.
        writes: False in all but the first process of a launch: the same run, in which that one alone writes.
    """
    path = Path(folder)
    beginning: dict[str, Any] = {"started": _now(), "finished": None, "status": "running", "notes": []}
    run = Run(path, {"schema": table.SCHEMA, **facts, **_surroundings(), **beginning}, writes=writes)
    if not writes:
        run.finished = is_finished(path)
        return run
    check_folder(path, resume=resume)
    path.mkdir(parents=True, exist_ok=True)
    run.lock()
    try:
        if (path / "run.json").is_file():
            before = read_facts(path)
            if before.get("schema", 1) != table.SCHEMA:
                raise InputError(
                    f"{path} was made by another version of isogloss (schema {before.get('schema', 1)} of its rows, "
                    f"not {table.SCHEMA}); it can be reported, not resumed: choose another --out"
                )
            now = json.loads(json.dumps(run.facts, default=str))
            for name in ("command", "arguments", "seed", "model", "hashes"):
                if before.get(name) != now.get(name):
                    what = _difference(before.get(name), now.get(name), name)
                    raise InputError(
                        f"{path} was begun differently ({what}); resume with the same, or choose another --out"
                    )
            run.new = False
            run.finished = before.get("status") == "finished"
            run.facts |= {"started": before.get("started"), "notes": before.get("notes", []), "resumed": _now()}
            begun = before.get("rows") or any((path / name).is_file() for name in ("rows.csv", "rows.parquet"))
            rows = table.records(read_rows(path)) if begun else []
            run.rows, run._keys = rows, set(map(key, rows))
            # A kill may have left half a line behind; what was read back is written again, whole.
            with whole(path / "rows.csv") as beside, beside.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([COLUMNS, *map(written_cells, rows)])
    except InputError:
        run.close()
        raise
    if not run.finished:
        run._save()  # before the table: a folder with run.json is a run, whatever else a kill left undone
    clear_run(path)
    if not (path / "rows.csv").is_file():
        write_text(path / "rows.csv", ",".join(COLUMNS) + "\n")
    return run


def is_first_process() -> bool:
    """Whether this process is the first of those that a launcher started, or the only one: the one that writes."""
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
    """The table of a run folder, finished or not, in today's columns whatever schema it was written in.

    `rows.csv` is what the run wrote row by row. `rows.parquet` takes its place where it is damaged, has fewer rows than
    `run.json` counts, or is not there, as in published results; where that does not help, it is an InputError.
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
        return table.typed(pd.read_parquet(packed))


def _read_csv(path: Path) -> pd.DataFrame:
    text = path.read_text(encoding="utf-8")
    lines = csv.reader(io.StringIO(text[: text.rfind("\n") + 1]))  # a kill may leave an incomplete last line
    columns = tuple(next(lines, ()))
    if "measure" not in columns or not set(columns) <= {*COLUMNS, "variant"}:
        raise InputError(f"{path}:1: the columns are not those of a run")
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
    """Remove what a kill leaves of a finished run that nobody resumes: scratch, lock, files that were half written."""
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    (folder / LOCK).unlink(missing_ok=True)
    clear_run(folder)


def clear_run(folder: Path) -> None:
    """Remove what a kill left half-written anywhere in a run folder, by the process that holds its lock.

    Runs inside it, such as the jobs of a sweep, have locks of their own; figures are drawn without a lock, and the
    report removes what is left of them.
    """
    clear_leftovers(folder)
    for path in folder.iterdir():
        own_run = path.name == "figures" or (path / "run.json").exists() or (path / LOCK).exists()
        if path.is_dir() and not path.is_symlink() and not own_run:
            clear_run(path)


def read_facts(folder: str | Path) -> dict[str, Any]:
    """What `run.json` says."""
    path = Path(folder) / "run.json"
    require(path.is_file(), f"{folder} is no run folder: it has no run.json")
    with readable(path, "is not JSON", "the run must be made again"):
        facts = json.loads(path.read_text(encoding="utf-8"))
    kind = type(facts).__name__
    require(isinstance(facts, dict), f"{path} holds {kind}, where an object with the run's arguments was expected")
    known = isinstance(facts.get("rows", 0), int) and isinstance(facts.get("notes", []), list)
    require(known, f"{path} has no number of rows or no list of notes; the run must be made again")
    return dict(facts)


def _difference(before: Any, now: Any, name: str) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        for part in sorted(set(before) | set(now)):
            if before.get(part) != now.get(part):
                return _difference(before.get(part), now.get(part), f"{name} {part}")
    return f"{name}: {before!r} then, {now!r} now"


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
