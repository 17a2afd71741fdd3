"""Faults, tried by seed: kills, second starts, damaged files, mutated input, full disks, hostile text.

    make faults                                             # goes on where the last call stopped, for ten minutes
    python scripts/faults.py WORK --minutes 60 --workers 14
    python scripts/faults.py WORK --only kill --subject drift --seed 17   # one try again, told at length
    python scripts/faults.py WORK --table                   # what was tried so far, as a table

A try is a kind, a subject and a seed, and the same three give the same try. Each adds a line to `WORK/tries.csv`, so
that tries gather over calls; the kind and subject that is furthest from its aim comes next, until all have reached it.

| kind | subject | what is done | what may come of it |
|---|---|---|---|
| input | each reader, by its name | its file is mutated and read | it is read, or refused in a sentence with the file |
| model | a family | a file of the model's folder is damaged; it is loaded | it is loaded, or refused so |
| folder | each run | a file of its run folder is damaged; reported, resumed | the same rows, or refused so |
| unfinished | each run | its table is cut, thinned and emptied in places; reported | a page, or refused so |
| kill | each command | killed up to three times, resumed | the same rows and weights |
| double | each command | a second process resumes while the first writes | the same rows; one may be refused |
| limit | each command | files may not grow beyond a size; then resumed without | a sentence; then the same rows |
| tmpfs | each command | it writes to a small disk; then resumed on a larger one | a sentence; then the same rows |
| page | each run | text that is code, reported and opened in a browser | nothing of it runs |

Readers are found in `isogloss.text.readers` and commands in the registry of recipes: one that is new and has no sound
input here counts as failed. Inputs, models and command lines are those of `scripts/reference_runs.py`, with a sweep one
by one and side by side, a paper, `report` and `export`. Every try is a fork of this process, which has loaded
everything, so that a command begins at once. The moment of a kill is a share of the processor time that the command
takes when nothing happens to it, which other work on the machine does not change; one in four comes after the rows are
finished, while figures and page are drawn. `tmpfs` needs the right to mount and `page` needs Chromium: where they are
missing these count as not tried.
"""

import argparse
import csv
import ctypes
import gc
import gzip
import importlib
import inspect
import io
import json
import lzma
import os
import pickle
import pkgutil
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests"), str(ROOT)]
os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg"}
os.environ |= {"TOKENIZERS_PARALLELISM": "false", "OMP_WAIT_POLICY": "passive"}

import reference_runs  # noqa: E402

LINE = ("kind", "subject", "seed", "outcome", "seconds")
PATIENCE = 5.0  # seconds beyond what sound input takes, after which a try hangs
MEMORY = 12 << 30  # bytes of address space of a try
FAMILIES = ("bert", "modernbert", "gpt2", "t5")  # of the models that are damaged
NOT_TRIED = ("missed", "not tried")  # the command had ended before the signal, or the machine lacks what is needed
SOUND = ("same", "read", "refused", *NOT_TRIED)  # outcomes that are no failure
AIMS = {  # tries of each subject
    "input": 1000,
    "model": 125,  # of four families
    "folder": 50,  # of eleven runs
    "unfinished": 46,
    "kill": 100,
    "double": 5,
    "limit": 20,
    "tmpfs": 10,
    "page": 10,
}
DRAWING = "while drawing"
LIBC = ctypes.CDLL(None)
LATE = (  # what commands import when they come to it
    *("matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "PIL.PngImagePlugin"),
    *("PIL.GifImagePlugin", "openTSNE", "sklearn.manifold", "pandas", "pyarrow.dataset", "pyarrow.pandas_compat"),
    *("pyarrow.parquet", "torch.profiler", "typer._adapters", "pydantic.main", "pydantic.types", "pydantic.fields"),
    *("pydantic.type_adapter", "pydantic.functional_validators"),
)
NO_RUNS = ("report", "export")  # commands that begin no run folder
DRAWN = ("figures", "report.html", "word_map.html")  # what `report` makes in a run folder
HOSTILE = (
    "<script>document.documentElement.dataset.ran = 1</script>",
    "<img src=x onerror='document.documentElement.dataset.ran = 1'>",
    "</script><script>document.documentElement.dataset.ran = 1</script>",
    "\"><svg onload='document.documentElement.dataset.ran = 1'>",
    "{{ 7*7 }} ${document.documentElement.dataset.ran = 1} =HYPERLINK(1)",
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder of the inputs, the sound runs and the table")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=1, help="tries at a time, each with one thread")
    parser.add_argument("--tries", type=int, help="of each subject, in all calls together; default: the aims")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--subject", nargs="+", help="these subjects alone")
    parser.add_argument("--seed", type=int, help="this seed alone, told at length and not counted")
    parser.add_argument("--first-seed", type=int, default=0, help="none below it, where others were tried elsewhere")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(given.work))
        return
    end = time.monotonic() + 60 * given.minutes
    campaign = Campaign(given.work.resolve(), given.first_seed)
    if given.seed is not None:
        for kind in given.only:
            for subject in given.subject or campaign.subjects(kind):
                print(kind, subject, given.seed, *campaign.attempt(kind, subject, given.seed))
                print(f"what it left: {campaign.work / 'now'}")
        return
    campaign.make_sound(given.only, given.subject, given.workers)
    left = iter(lambda: campaign.next_try(given.only, given.subject, given.tries), None)
    tries = (each for each in left if time.monotonic() < end)
    for chosen, (outcome, seconds) in side_by_side(campaign.try_one, tries, given.workers):
        campaign.note(*chosen, outcome, seconds)
        if outcome.split(":")[0] not in SOUND:
            print(*chosen, outcome, flush=True)
    told = table(given.work)
    print(told)
    sys.exit("again:" in told)


def table(work: Path) -> str:
    """What was tried, by kind and then by subject, in Markdown, and how each failure is seen again."""
    with (work / "tries.csv").open(encoding="utf-8", newline="") as file:
        tries = list(csv.DictReader(file))
    subjects: dict[tuple[str, str], list[dict[str, str]]] = {}
    for each in sorted(tries, key=lambda each: (list(AIMS).index(each["kind"]), each["subject"])):
        subjects.setdefault((each["kind"], each["subject"]), []).append(each)
    numbers = " | tried | failed | refused | not tried | seconds |"
    lines = [f"| kind | subjects{numbers} furthest from its aim |", "|---|---:|---:|---:|---:|---:|---:|---|"]
    for kind in dict.fromkeys(kind for kind, _ in subjects):
        own = {subject: tried for (other, subject), tried in subjects.items() if other == kind}
        cells = _numbers([each for tried in own.values() for each in tried])
        furthest = min(own, key=lambda subject: _tried(own[subject]) / aim(kind, subject))  # noqa: B023
        lines.append(
            f"| {kind} | {len(own)} | {cells} | {_tried(own[furthest]):,} of {aim(kind, furthest):,.0f}: {furthest} |"
        )
    lines += ["", f"| kind | subject{numbers}", "|---|---|---:|---:|---:|---:|---:|"]
    lines += [f"| {kind} | {subject} | {_numbers(own)} |" for (kind, subject), own in subjects.items()]
    failures = [each for own in subjects.values() for each in own if _failed(each)]
    kills = [each for each in tries if each["kind"] == "kill"]
    signals = [word for each in kills for word in each["outcome"].split() if word.startswith("SIG")]
    drawing = sum(each["outcome"].count(DRAWING) for each in kills)
    if signals:
        names = ", ".join(f"{count:,} {name}" for name, count in Counter(signals).most_common())
        lines += [
            "",
            f"Signals that met a running command: {names}; {drawing:,} of them while figures and page were made.",
        ]
    for each in failures:
        again = f"--only {each['kind']} --subject {each['subject']} --seed {each['seed']}"
        lines += ["", f"{each['outcome']}", f"    again: python scripts/faults.py {work} {again}"]
    return "\n".join(lines)


def _numbers(tries: Sequence[dict[str, str]]) -> str:
    """Tried, failed, refused, not tried and seconds, as cells of a table."""
    refused, seconds = (
        sum(each["outcome"] == "refused" for each in tries),
        sum(float(each["seconds"]) for each in tries),
    )
    counts = (_tried(tries), sum(map(_failed, tries)), refused, len(tries) - _tried(tries), round(seconds))
    return " | ".join(f"{number:,}" for number in counts)


def _tried(tries: Sequence[dict[str, str]]) -> int:
    return sum(each["outcome"].split(":")[0] not in NOT_TRIED for each in tries)


def _failed(entry: dict[str, str]) -> bool:
    return entry["outcome"].split(":")[0] not in SOUND


def aim(kind: str, subject: str) -> float:
    """How often a kind is to be tried on a subject; a sweep side by side is a second sweep, whose jobs start slowly."""
    return AIMS[kind] * (0.3 if subject == SIDE_BY_SIDE else 1)


class Hang(Exception):
    """A process that did not end in time, and was ended."""


class Sound(NamedTuple):
    """A run to which nothing happened: its folder, seconds, and those of the processor in all and before drawing."""

    path: Path
    seconds: float
    processor: float
    drawing: float


class Campaign:
    """The folder of a campaign: inputs, sound runs to compare with, and the tries so far."""

    def __init__(self, work: Path, first_seed: int = 0) -> None:
        self.work, self.inputs, self.first_seed = work, work / "inputs", first_seed
        work.mkdir(parents=True, exist_ok=True)
        if not self.inputs.is_dir():
            _in_fork(lambda: reference_runs.prepare(self.inputs), seconds=600)
        self.tries: Counter[tuple[str, str]] = Counter()  # begun or ended, those that missed left out
        self.seeds: dict[tuple[str, str], int] = {}  # the next one
        if (work / "tries.csv").is_file():
            with (work / "tries.csv").open(encoding="utf-8", newline="") as file:
                for each in csv.DictReader(file):
                    subject = each["kind"], each["subject"]
                    self.tries[subject] += not each["outcome"].startswith("missed")
                    self.seeds[subject] = max(self.seeds.get(subject, 0), int(each["seed"]) + 1)
        else:
            (work / "tries.csv").write_text(",".join(LINE) + "\n", encoding="utf-8")
        _load_everything(self.inputs)

    def subjects(self, kind: str) -> Sequence[str]:
        """What a kind of fault is tried on."""
        if kind == "input":
            return sorted(_readers())
        if kind == "model":
            return FAMILIES
        runs_only = kind in ("folder", "unfinished", "page")
        return sorted(name for name in _commands() if not (runs_only and name in NO_RUNS))

    def make_sound(self, kinds: Sequence[str], only: Sequence[str] | None, workers: int) -> None:
        """Run every command that will be tried once, all at a time, so that its seconds are those of a busy machine."""
        kinds = [kind for kind in kinds if kind not in ("input", "model")]
        needed = {each for kind in kinds for each in self.subjects(kind) if only is None or each in only}
        for names in (["map"] if "report" in needed else [], sorted(needed)):  # a report is that of a map
            for _, problem in side_by_side(lambda name, _: self.sound(name) and None, iter(names), workers):
                if problem:
                    raise SystemExit(problem[0])

    def next_try(
        self, kinds: Sequence[str], only: Sequence[str] | None, most: int | None
    ) -> tuple[str, str, int] | None:
        """The kind and subject that is furthest from its aim, with its next seed; None where all have reached it."""
        open_ = [(kind, each) for kind in kinds for each in self.subjects(kind) if only is None or each in only]
        done = {each: self.tries[each] / (most or aim(*each)) for each in open_}
        chosen = min(open_, key=lambda each: done[each], default=None)
        if chosen is None or done[chosen] >= 1:
            return None
        seed = max(self.seeds.get(chosen, 0), self.first_seed)
        self.tries[chosen] += 1
        self.seeds[chosen] = seed + 1
        return (*chosen, seed)

    def note(self, kind: str, subject: str, seed: int, outcome: str, seconds: float) -> None:
        """Add a try that ended to the table; one that missed is tried again with another seed."""
        self.tries[kind, subject] -= outcome.startswith("missed")
        with (self.work / "tries.csv").open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow((kind, subject, seed, outcome, f"{seconds:.2f}"))

    def try_one(self, chosen: tuple[str, str, int], worker: int) -> tuple[str, float]:
        """A try in the folder of a worker; what one that failed has left is kept."""
        outcome, seconds = self.attempt(*chosen, f"now-{worker}")
        if outcome.split(":")[0] not in SOUND:
            (self.work / "failed").mkdir(exist_ok=True)
            with suppress(OSError):
                (self.work / f"now-{worker}").rename(self.work / "failed" / "-".join(map(str, chosen)))
        return outcome, seconds

    def attempt(self, kind: str, subject: str, seed: int, place: str = "now") -> tuple[str, float]:
        """What came of a try, and how long it took."""
        began = time.monotonic()
        folder = self.work / place
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            outcome = KINDS[kind](self, subject, random.Random(f"{kind} {subject} {seed}"), folder)
        except Hang as hang:
            outcome = f"failed: hangs: {hang}"
        return " ".join(outcome.split()), time.monotonic() - began

    # --- the kinds ---------------------------------------------------------------------------------------------------

    def input(self, reader: str, chance: random.Random, folder: Path) -> str:
        """Mutate the file of a reader."""
        function = _readers()[reader]
        if reader not in READERS:
            return "failed: no sound input is known for this reader"
        name, source, more = READERS[reader]
        path = folder / name
        path.write_bytes(mutated(_content(source), chance))
        given = GIVEN.get(reader, lambda path: path)(path)
        return _read_or_refused(lambda: function(given, *more), path, PATIENCE + 1)

    def model(self, family: str, chance: random.Random, folder: Path) -> str:
        """Damage a file of a model's folder."""
        from isogloss.stack.load import load

        path = folder / family
        shutil.copytree(self.inputs / family, path)
        damage_model(path, chance)
        return _read_or_refused(lambda: load(path, device="cpu"), path, PATIENCE + 1)

    def kill(self, command: str, chance: random.Random, folder: Path) -> str:
        """Kill a command up to three times, at any moment of it, and let it go on."""
        sound, signals, left = self.sound(command), list[str](), 1.0
        path = folder / "run"
        for _ in range(chance.randint(1, 3)):
            number = chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
            share, late, group = chance.random(), chance.random() < 0.25, chance.random() < 0.5
            late = late and sound.drawing < sound.processor
            seconds = share * (sound.processor - sound.drawing if late else left * sound.drawing)
            begun = _Moment(path if late else None, seconds, command == SIDE_BY_SIDE)
            code, told = self.run(command, path, moment=begun, kill=number, group=group)
            if code == 70 or ("Traceback" in told and number != signal.SIGKILL):
                return f"failed: a traceback after {number.name}: {_last(told)}"
            if not begun.came:
                break
            drawing = command == "report" or _is_finished(path)
            signals.append(f"{number.name} {share:.2f}{' ' + DRAWING if drawing else ''}")
            left = max(0.2, left - 0.8 * share) if not late else left
        outcome = self.compare(command, path, sound.path, self.run(command, path))
        return outcome if outcome != "same" else f"same: {', '.join(signals)}" if signals else "missed"

    def double(self, command: str, chance: random.Random, folder: Path) -> str:
        """Start a command again while it runs."""
        sound = self.sound(command)
        path = folder / "run"
        first = self.start(command, path)
        time.sleep(chance.uniform(0, 0.8 * sound.seconds))
        second = self.run(command, path, log="second")
        ended = _wait(first, 2 * sound.seconds + PATIENCE), (folder / "run.log").read_text(errors="replace")
        for code, told in (ended, second):
            if code not in (0, 2) or "Traceback" in told:
                return f"failed: exit code {code}: {_last(told)}"
        return self.compare(command, path, sound.path, self.run(command, path))

    def folder(self, command: str, chance: random.Random, folder: Path) -> str:
        """Damage a file of a run folder, finished or not.

        A file that a finished run does not read stays as it was damaged: that file alone, where it is no table of rows,
        is left out when the folders are compared.
        """
        sound = self.sound(command)
        path = folder / "run"
        if chance.random() < 0.5:
            shutil.copytree(sound.path, path)
        else:
            moment = _Moment(None, chance.uniform(0.2, 0.95) * sound.processor, command == SIDE_BY_SIDE)
            self.run(command, path, moment=moment)
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []
        if not files:
            return "missed"
        chosen = chance.choice(files)
        damaged = damage(chosen, chance)
        code, told = self.cli(["report", str(path)], folder / "report.log", sound.seconds + PATIENCE)
        if code not in (0, 2) or "Traceback" in told:
            return f"failed: report, {damaged}: exit code {code}: {_last(told)}"
        if code == 2 and str(path) not in told:
            return f"failed: report, {damaged}: no file is named: {_last(told)}"
        code, told = self.run(command, path)
        if code == 2 and "Traceback" not in told:
            return "refused" if str(path) in told else f"failed: {damaged}: no file is named: {_last(told)}"
        outcome = self.compare(command, path, sound.path, (code, told), but=str(chosen.relative_to(path)))
        return outcome if outcome == "same" else f"{outcome} ({damaged})"

    def unfinished(self, command: str, chance: random.Random, folder: Path) -> str:
        """Report a run that has only some of its rows, or rows with empty cells, alone or beside a sound one."""
        sound = self.sound(command)
        path = folder / "run"
        shutil.copytree(sound.path, path)
        for each in (path, *(job.parent for job in path.glob("jobs/*/run.json"))):
            thin_out(each, chance)
        others = []
        if chance.random() < 0.2:  # a copy: a report draws the figures of every run that it is given
            others = [str(shutil.copytree(sound.path, folder / "other"))]
        words = ["report", str(path), *others, "--out", str(path / "report.html")]
        code, told = self.cli(words, folder / "report.log", sound.seconds + PATIENCE)
        if code not in (0, 2) or "Traceback" in told:
            return f"failed: exit code {code}: {_last(told)}"
        return "same" if code == 0 else "refused" if str(path) in told else f"failed: no file is named: {_last(told)}"

    def limit(self, command: str, chance: random.Random, folder: Path) -> str:
        """Let no file grow beyond a size, as on a disk that is full."""
        sound = self.sound(command)
        path = folder / "run"
        sizes = sorted(file.stat().st_size for file in sound.path.rglob("*") if file.is_file())
        most = chance.randint(50, max(100, chance.choice(sizes)))
        code, told = self.run(command, path, file_size=most)
        if code not in (0, 1, 2) or "Traceback" in told:
            return f"failed: at {most} bytes: exit code {code}: {_last(told)}"
        return self.compare(command, path, sound.path, self.run(command, path))

    def tmpfs(self, command: str, chance: random.Random, folder: Path) -> str:
        """Write to a small disk until it is full, and go on when it has grown."""
        sound = self.sound(command)
        disk = folder / "disk"
        disk.mkdir()
        whole = sum(file.stat().st_size + 4096 for file in sound.path.rglob("*"))
        most = int(whole * chance.uniform(0.02, 1.1)) // 4096 * 4096 + 4096
        path = disk / "run"
        try:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={most}", "tmpfs", str(disk)]
            if subprocess.run(mount, capture_output=True).returncode:
                return "not tried: no right to mount"
        except FileNotFoundError:
            return "not tried: there is no mount"
        try:
            code, told = self.run(command, path, log=folder / "run.log")
            if code not in (0, 1, 2) or "Traceback" in told:
                return f"failed: on a disk of {most} bytes: exit code {code}: {_last(told)}"
            subprocess.run(["mount", "-o", f"remount,size={4 << 30}", str(disk)], check=True)
            again = self.run(command, path, log=folder / "run.log")
            return self.compare(command, path, sound.path, again)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=False)

    def page(self, command: str, chance: random.Random, folder: Path) -> str:
        """Put text that is code into every text of a run, and open its page."""
        browser = shutil.which("chromium")
        if browser is None:
            return "not tried: there is no Chromium"
        path = folder / "run"
        shutil.copytree(self.sound(command).path, path)
        (path / "rows.parquet").unlink(missing_ok=True)
        rows = list(csv.reader((path / "rows.csv").read_text(encoding="utf-8").splitlines()))
        for name in chance.sample(("model", "data", "target"), chance.randint(1, 3)):  # what others may have named
            column, code = rows[0].index(name), chance.choice(HOSTILE)
            named = chance.choice(rows[1:])[column]
            for row in rows[1:]:
                row[column] = code if row[column] == named else row[column]
        with (path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        facts = json.loads((path / "run.json").read_text(encoding="utf-8"))
        facts |= {"model": chance.choice(HOSTILE), "status": "interrupted", "finished": None}  # rows may be missed now
        (path / "run.json").write_text(json.dumps(facts), encoding="utf-8")
        code, told = self.cli(["report", str(path)], folder / "report.log", 60)
        if code not in (0, 2) or "Traceback" in told:
            return f"failed: report: exit code {code}: {_last(told)}"
        if code == 2:
            return "refused"
        command_line = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000"]
        shown = subprocess.run([*command_line, "--dump-dom", (path / "report.html").as_uri()], capture_output=True)
        return "failed: code of the text ran" if b"data-ran=" in shown.stdout else "same"

    # --- commands ----------------------------------------------------------------------------------------------------

    def sound(self, command: str) -> Sound:
        """The run of a command to which nothing happened; made if it is not there."""
        path, record = self.work / "sound" / command, self.work / "sound" / f"{command}.json"
        if not record.is_file():
            shutil.rmtree(path, ignore_errors=True)
            path.parent.mkdir(exist_ok=True)
            began = time.monotonic()
            moment = _Moment(None if command in NO_RUNS else path, 1e9, command == SIDE_BY_SIDE)
            process = self.start(command, path)
            code = _wait(process, 600, moment=moment)
            if code:
                printed = path.with_name(f"{command}.log").read_text(errors="replace")
                raise RuntimeError(f"{command} does not run at all: exit code {code}: {_last(printed)}")
            record.write_text(json.dumps((time.monotonic() - began, moment.last, moment.base or moment.last)))
        return Sound(path, *json.loads(record.read_text()))

    def start(self, command: str, path: Path, log: Path | None = None, **limits: Any) -> int:
        """Begin a command, or go on with it, and return its process."""
        if command == "report" and not path.is_dir():
            shutil.copytree(self.sound("map").path, path, ignore=shutil.ignore_patterns(*DRAWN))
        words = _commands()[command].replace("$IN", str(self.inputs)).split()
        words = [word.replace("$OUT", str(path)) for word in words]
        words += ["--out", str(path), "--resume"] if command not in NO_RUNS else []
        return _fork(lambda: _main(words), log or path.with_name(f"{path.name}.log"), **limits)

    def run(
        self,
        command: str,
        path: Path,
        *,
        moment: "_Moment | None" = None,
        kill: int = signal.SIGKILL,
        group: bool = False,
        log: Path | str | None = None,
        **limits: Any,
    ) -> tuple[int, str]:
        """Run a command to its end, or kill it at a moment; its exit code and what it printed."""
        told = path.with_name(f"{log or path.name}.log") if not isinstance(log, Path) else log
        process = self.start(command, path, told, **limits)
        code = _wait(process, self.sound(command).seconds + PATIENCE, moment=moment, kill=kill, group=group)
        return code, told.read_text(errors="replace")

    def cli(self, words: Sequence[str], log: Path, seconds: float) -> tuple[int, str]:
        """Run a command line; its exit code and what it printed."""
        return _wait(_fork(lambda: _main(words), log), seconds), log.read_text(errors="replace")

    def compare(self, command: str, path: Path, sound: Path, ended: tuple[int, str], but: str = "") -> str:
        """Whether a run that ended has the rows, weights and files of the sound one, `but` this file."""
        code, told = ended
        exported = command == "export" and code == 2 and f"{path} is already there" in told  # the first had ended
        if (code and not exported) or "Traceback" in told:
            return f"failed: exit code {code}: {_last(told)}"
        files, expected = ({str(file.relative_to(each)) for file in each.rglob("*")} for each in (path, sound))
        expected -= {but} - {"rows.csv"}
        if but:  # the report of a sweep without a finished job draws what there is
            files = {file for file in files if file.split("/")[0] not in DRAWN or file in expected}
        if missing := expected - files:
            return f"failed: missing: {sorted(missing)[:3]}"
        if litter := {file for file in files - expected - {but} if not file.endswith(".log")}:
            return f"failed: litter: {sorted(litter)[:3]}"
        for name in sorted(expected):
            one, other = sound / name, path / name
            if name == "rows.csv":
                lines = [each.read_text(encoding="utf-8").splitlines() for each in (one, other)]
                lost, new = Counter(lines[0]) - Counter(lines[1]), Counter(lines[1]) - Counter(lines[0])
                if lost or new:
                    what = next(iter(lost or new))[:80]
                    return f"failed: {lost.total()} rows lost or changed, {new.total()} new: {what}"
                continue
            content = _tensors if one.suffix == ".safetensors" else Path.read_bytes
            compared = one.suffix == ".safetensors" or (command == "export" and one.is_file())
            if compared and content(one) != content(other):
                return f"failed: {name} differs"
        return "same"


def _tensors(path: Path) -> tuple[Any, bytes]:
    """Header and numbers of a safetensors file; its writer puts metadata into an order of its own."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


KINDS: dict[str, Callable[[Campaign, str, random.Random, Path], str]] = {kind: getattr(Campaign, kind) for kind in AIMS}


# --- damage ----------------------------------------------------------------------------------------------------------


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Content with one to four changes, now and then compressed, and damaged after that."""
    pieces = [b"\0", b"\xff\xfe", b"\xed\xa0\x80", "²".encode(), b"9" * 5000, b"[" * 100_000, b"{" * 50_000, b"\t" * 9]
    pieces += [b"\r\n", b"\xef\xbb\xbf", b"\\ud800", b"1e999", b"-1", b'""', b"null", b"a" * 100_000, b"\n" * 50, b"=1"]
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(content) + 1), chance.choice((1, 1, 3, 40, 1000))
        kind = chance.choice(("flip", "cut", "drop", "double", "insert", "replace", "number", "kind"))
        if kind == "flip" and content:
            at %= len(content)
            content = content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "drop":
            content = content[:at] + content[at + length :]
        elif kind == "double":
            content = content[: at + length] + content[at:]
        elif kind == "insert":
            content = content[:at] + chance.choice(pieces) + content[at:]
        elif kind == "replace":
            content = content[:at] + chance.choice(pieces) + content[at + length :]
        else:
            content = _mutated_json(content, chance)
    if chance.random() < 0.15:
        content = chance.choice((gzip.compress, lzma.compress))(content)
        content = content if chance.random() < 0.3 else mutated(content, chance)
    return content


def _mutated_json(content: bytes, chance: random.Random) -> bytes:
    """JSON with one value of another kind, or one key less; other content as it is."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return content
    holders = list(_holders(whole))
    if not holders:
        return content
    holder, key = chance.choice(holders)
    if isinstance(holder, dict) and chance.random() < 0.2:
        del holder[key]
    else:
        values = (None, -1, 0, 10_000_000, 10**30, 1e308, "x", "", [], {}, [[]], True, {"a": 1}, "../../etc/passwd")
        holder[key] = chance.choice(values)
    return json.dumps(whole).encode()


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _holders(each)


def damage(path: Path, chance: random.Random) -> str:
    """Damage a file in one of several ways; says how. Numbers of a table are not changed, for nobody could tell."""
    content = path.read_bytes()
    ways = ["removed", "emptied", "cut", "noise", "five"]
    if path.name != "rows.csv" and path.suffix not in (".png", ".svg", ".html"):
        ways += ["mutated"] * 2
    way = chance.choice(ways)
    if way == "removed":
        path.unlink()
    else:
        at = chance.randrange(len(content) + 1)
        path.write_bytes(
            {
                "emptied": b"",
                "cut": content[:at],
                "noise": content[:at] + b"\xff\xfe\x80" + content[at:],
                "five": b"5",
                "mutated": mutated(content, chance),
            }[way]
        )
    return f"{path.name} {way}"


def thin_out(folder: Path, chance: random.Random) -> None:
    """Leave a run as a kill, or a hand, might: some of its rows, some cells empty; not finished, or with rows lost."""
    rows = list(csv.DictReader((folder / "rows.csv").read_text(encoding="utf-8").splitlines()))
    for _ in range(chance.randint(1, 3)):
        way = chance.choice(("cut", "thin", "without", "only", "empty", "number"))
        column = chance.choice([name for name in (rows or [{}])[0] if len({row[name] for row in rows}) > 1] or [""])
        value = chance.choice(rows)[column] if rows and column else None
        if way == "cut":
            rows = rows[: chance.randrange(len(rows) + 1)]
        elif way == "thin":
            rows = [row for row in rows if chance.random() < 0.3]
        elif way in ("without", "only") and value is not None:
            rows = [row for row in rows if (row[column] == value) == (way == "only")]
        elif value is not None:
            numbers = ("nan", "inf", "-1", "1e300", "0") if column in ("value", "low", "high", "floor") else ("", "7")
            for row in rows:
                if row[column] == value:
                    row[column] = "" if way == "empty" else chance.choice(numbers)
    header = (folder / "rows.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "rows.parquet").unlink(missing_ok=True)
    facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    status = chance.choice(("running", "interrupted", "finished"))
    if status != "finished" or len(rows) == facts["rows"]:  # one that says it is finished has fewer than it says
        facts |= {"rows": len(rows), "status": "running" if status == "finished" else status, "finished": None}
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")


def damage_model(folder: Path, chance: random.Random) -> None:
    """Damage a file of a model's folder, or let an index name what must not be read."""
    if chance.random() < 0.1:
        weights = next(folder.glob("*.safetensors"))
        name = chance.choice(("pytorch_model.bin", "../outside.safetensors", "/etc/passwd", weights.name, ""))
        if name.endswith(".bin"):
            (folder / name).write_bytes(pickle.dumps({"a": 1}))
        index = {"metadata": {}, "weight_map": {f"layer.{number}": name for number in range(3)}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        if chance.random() < 0.5:
            weights.unlink()
        return
    damage(chance.choice(sorted(file for file in folder.rglob("*") if file.is_file())), chance)


# --- readers and commands --------------------------------------------------------------------------------------------


@cache
def _readers() -> dict[str, Any]:
    """Every public reader of the package, by its name."""
    import isogloss.text.readers as room

    found = {}
    for module in pkgutil.iter_modules(room.__path__):
        for name, function in vars(importlib.import_module(f"{room.__name__}.{module.name}")).items():
            if (
                name.startswith("read_")
                and inspect.isfunction(function)
                and function.__module__.startswith(room.__name__)
            ):
                found[name] = function
    return {name: function for name, function in found.items() if name not in ("read_hub",)}  # which needs a network


# Each reader's file: its name, what it holds (a file of the invented data, or bytes), and further arguments.
READERS: dict[str, tuple[str, str | bytes, Sequence[Any]]] = {
    "read_lines": ("a.txt", "drift/qaa.txt", ()),
    "read_corpus": ("a.txt", "drift/qaa.txt", ("qaa",)),
    "read_bitext": ("a.tsv", "xnli/xnli.15way.tsv", ()),
    "read_bitexts": ("qaa-qab.tsv", "tatoeba/qaa-qab.tsv", ()),
    "read_folder": ("qaa-qab.tsv", "tatoeba/qaa-qab.tsv", (None,)),
    "read_pairs": ("a.tsv", "xnli/dev-qaa.tsv", ()),
    "read_questions": ("a.json", "squad/train-v1.1.json", ()),
    "read_trees": ("a.conllu", "ud_pud/qaa_pud-ud-test.conllu", ()),
    "read_parses": ("a.conllu", "ud_pud/qaa_pud-ud-test.conllu", ()),
    "read_treebank": ("a.conllu", "ud_pud/qaa_pud-ud-test.conllu", ("qaa",)),
    "read_treebanks": ("a.conllu", "ud_pud/qaa_pud-ud-test.conllu", (["qaa", "qab"],)),
    "read_tagged": ("a.tsv", "wikiann_panx/dev-qaa.tsv", ()),
    "read_lexicon": ("qaa-qab.txt", "muse/qaa-qab.0-5000.txt", ("qaa", "qab")),
    "read_word_vectors": ("a.vec", b"3 4\na 1 2 3 4\nb 0 1 0 1\nc 5 6 7 8\n", ()),
    "read_links": ("a.txt", b"0-0 1-2 2p1\n0-1\n\n3-3 4-4\n" * 5, ()),
    "read_linked": ("a.tsv", b"en\tnl\nthe cat sleeps~.\tde/0 kat/1 slaapt/2~./3\nyes\tja/0\n" * 5, ()),
}
GIVEN = {  # where a reader is not given the one path
    "read_folder": lambda path: path.parent,
    "read_treebanks": lambda path: [path, path],
}


def _content(source: str | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    whole = (ROOT / "src/isogloss/data/invented" / source).read_bytes()
    return whole if source.endswith(".json") else whole[:3000].rpartition(b"\n")[0] + b"\n"


SIDE_BY_SIDE = "sweep-parallel"  # whose jobs are processes of their own
SWEEP = (
    f"sweep lexicon --grid model=$IN/multi,$IN/own {reference_runs.TEXT} --train-lexicon $IN/long/train.txt"
    " --test-lexicon $IN/long/test.txt --mappings raw,procrustes --min-count 1"
)
MORE = {
    "sweep": SWEEP,
    SIDE_BY_SIDE: f"{SWEEP} --parallel 2",
    "reproduce": "reproduce wu2020 --scale smoke --seeds 1 --steps 6 --batch 2 --text-bytes 3000 --width 8"
    " --compared 20 --only part=rotate,target=qab,kind=bilingual,seed=0",
    "report": "report $OUT",
    "export": "export $IN/bert $OUT --to transformers --layer 1",
}


SMALLER = {  # of commands whose reference run takes long; what they leave out is the same code again
    "map": "map $IN/bert " + reference_runs.PLANTED + " --layers 0,2 --words 60 --points 12 --tsne-perplexity 5",
    "drift": f"{reference_runs.DRIFT} {reference_runs.OTHERS} --plans freeze:0,last:1",
    "transfer": f"transfer $IN/bert {reference_runs.NLI} {reference_runs.TRAIN} --plans freeze:-1,freeze:2 --rate 1e-3",
}


@cache
def _commands() -> dict[str, str]:
    """A small command line of every recipe, of sweeps, and of what else writes a folder."""
    from isogloss.recipes.recipe import RECIPES

    lines = dict.fromkeys(RECIPES, "") | MORE | SMALLER
    for line in reference_runs.RECIPES.values():
        name = line.split()[0]
        if name in lines and not lines[name] and "$OUT" not in line:
            lines[name] = line
    return lines


def _load_everything(inputs: Path) -> None:
    """Import all that a command or a reader may need, so that a fork begins at once.

    What is loaded is kept from the garbage collector, which would write to the memory that forks share, and copy it.
    """
    import isogloss

    for module in pkgutil.walk_packages(isogloss.__path__, "isogloss."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)
    from isogloss.stack.load import load
    from isogloss.text.tokenizers import _borders

    _borders()  # a table of all characters, which takes longer than the pretraining
    for family in FAMILIES:
        load(inputs / family, device="cpu")
    gc.collect()
    gc.freeze()


def _main(words: Sequence[str]) -> None:
    from isogloss import cli

    sys.argv = ["isogloss", *words]
    cli.main()


# --- forks -----------------------------------------------------------------------------------------------------------


def _read_or_refused(read: Callable[[], Any], path: Path, seconds: float) -> str:
    """`read`, `refused` with a sentence that names the file, or what went wrong."""
    reader, writer = os.pipe()

    def told() -> None:
        import torch

        from isogloss.errors import InputError

        def refuse(*_: Any, **__: Any) -> None:
            raise SystemExit("a pickle was read")

        pickle.load = pickle.loads = torch.load = refuse
        pickle.Unpickler = type("Unpickler", (pickle.Unpickler,), {"load": refuse})
        try:
            read()
            outcome = "read"
        except InputError as error:
            whole = str(error)
            good = path.name in whole and len(whole) < 1000
            outcome = "refused" if good else f"failed: a bad sentence: {whole[:200]}"
        except OSError as error:
            outcome = "refused" if error.filename else f"failed: {error!r}"
        except BaseException as error:
            outcome = f"failed: {type(error).__name__}: {str(error)[:150]} at {_place(error)}"
        os.write(writer, outcome.replace("\n", " ").encode(errors="replace"))

    with os.fdopen(reader, "rb") as pipe:
        try:
            code = _wait(_fork(told, Path(os.devnull)), seconds)
        finally:
            os.close(writer)
        return pipe.read().decode() or f"failed: died with {code}"


def _place(error: BaseException) -> str:
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "isogloss" in frame.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def _fork(work: Callable[[], Any], log: Path, *, file_size: int | None = None) -> int:
    """A process of its own group that does the work, with what it prints in `log`."""
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setpgid(0, 0)
        LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it does not outlive the campaign
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w", closefd=False)) for number in (1, 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if file_size is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        work()
        code = 0
    except SystemExit as end:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command has ended
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


class _Moment:
    """When a process is to be sent a signal: after so many seconds of its processor, or of the clock.

    folder: the run folder whose rows must be finished before the seconds begin to count. `came` says whether it came
    to that, `last` the seconds when it was last looked at, and `base` those at which the rows were finished.
    """

    def __init__(self, folder: Path | None, seconds: float, by_clock: bool) -> None:
        self.folder, self.seconds, self.by_clock = folder, seconds, by_clock
        self.began, self.last, self.came = time.monotonic(), 0.0, False
        self.base = 0.0 if folder is None else None

    def has_come(self, process: int) -> bool:
        """Look at a process that has not been waited for."""
        if self.by_clock:
            self.last = time.monotonic() - self.began
        else:
            self.last = time.clock_gettime((~process << 3) | 2)  # Linux: the processor's time of another process
        if self.base is None and self.folder is not None and _is_finished(self.folder):
            self.base = self.last
        self.came = self.base is not None and self.last >= self.base + self.seconds
        return self.came


def _is_finished(folder: Path) -> bool:
    try:
        return '"status": "finished"' in (folder / "run.json").read_text(encoding="utf-8")
    except OSError:
        return False


def _load() -> float:
    """How many times longer work takes because more processes want to run than there are processors."""
    return max(1.0, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def _wait(
    process: int, seconds: float, *, moment: _Moment | None = None, kill: int = signal.SIGKILL, group: bool = False
) -> int:
    """The exit code of a process, negative where a signal ended it, which is sent one when its moment has come.

    It is a Hang where it does not end in so many seconds, on a busy machine in more, or 20 after the signal.
    """
    began, sent = time.monotonic(), False
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if kill == signal.SIGKILL and sent:
                _signal_group(process, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        if not sent and moment is not None and moment.has_come(process):
            _signal_group(process, kill) if group else os.kill(process, kill)
            began, seconds, sent = time.monotonic(), 20.0, True
        if time.monotonic() - began > seconds and time.monotonic() - began > seconds * _load():
            _signal_group(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise Hang(f"after {time.monotonic() - began:.0f} s{' from a signal' if sent else ''}")
        time.sleep(0.002)


def _signal_group(process: int, number: int) -> None:
    try:
        os.killpg(process, number)
    except ProcessLookupError:
        return


def side_by_side(work: Callable[[Any, int], Any], items: Iterator[Any], workers: int) -> Iterator[tuple[Any, Any]]:
    """Each item with what `work(item, worker)` returns in a process of its own, `workers` at a time, as they end."""
    free, running = list(range(workers)), dict[int, tuple[Any, int, int, Path]]()
    while True:
        while free and (item := next(items, None)) is not None:
            worker, (reader, writer) = free.pop(), os.pipe()
            log = Path(tempfile.gettempdir()) / f"faults-{os.getpid()}-{worker}.log"
            process = _fork(lambda: os.write(writer, json.dumps(work(item, worker)).encode()), log)  # noqa: B023
            os.close(writer)
            running[process] = item, worker, reader, log
        if not running:
            return
        item, worker, reader, log = running.pop(os.wait()[0])
        answer = os.read(reader, 1 << 16)
        os.close(reader)
        free.append(worker)
        problem = (f"failed: the campaign: {_last(log.read_text(errors='replace'))}", 0.0)
        log.unlink()
        yield item, json.loads(answer) if answer else problem


def _in_fork(work: Callable[[], Any], *, seconds: float) -> None:
    log = Path(os.devnull)
    code = _wait(_fork(work, log), seconds)
    if code:
        raise SystemExit(f"the inputs could not be made: exit code {code}")


def _last(told: str) -> str:
    lines = [line for line in told.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing was said"


if __name__ == "__main__":
    main()
