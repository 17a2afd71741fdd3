"""Faults, tried by seed: kills, second starts, damaged files, mutated input, full disks, hostile text.

    make faults                                             # goes on where the last call stopped, for ten minutes
    python scripts/faults.py WORK --minutes 60 --only kill double
    python scripts/faults.py WORK --table                   # what was tried so far, as a table

A try is a kind, a subject and a seed, and the same three give the same try. Each adds a line to `WORK/tries.csv`, so
that tries gather over calls; a kind takes its subjects in turn, the least tried first.

| kind | subject | what is done | what may come of it |
|---|---|---|---|
| input | each reader, by its name | its file is mutated and read | it is read, or refused in a sentence with the file |
| model | a family | a file of the model's folder is damaged; it is loaded | it is loaded, or refused so |
| folder | each command | a file of its run folder is damaged; resumed, reported | the same rows, or refused so |
| kill | each command | killed up to three times, resumed | the same rows and weights |
| double | each command | a second process resumes while the first writes | the same rows; one may be refused |
| limit | each command | files may not grow beyond a size; then resumed without | a sentence; then the same rows |
| page | each command | text that is code, reported and opened in a browser | nothing of it runs |

Readers are found in `isogloss.text.readers` and commands in the registry of recipes: one that is new and has no sound
input here counts as failed. Inputs, models and command lines are those of `scripts/reference_runs.py`. Every try is a
fork of this process, which has loaded everything, so that a command begins at once.
"""

import argparse
import csv
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
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests"), str(ROOT)]
os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg"}

import reference_runs  # noqa: E402

LINE = ("kind", "subject", "seed", "outcome", "seconds")
PATIENCE = 5.0  # seconds beyond what sound input takes, after which a try hangs
MEMORY = 12 << 30  # bytes of address space of a try
FAMILIES = ("bert", "modernbert", "gpt2", "t5")  # of the models that are damaged
SOUND = ("same", "read", "refused")  # outcomes that are no failure
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
    parser.add_argument("--tries", type=int, help="of each subject, in all calls together")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND")
    parser.add_argument("--subject", nargs="+", help="these subjects alone")
    parser.add_argument("--seed", type=int, help="this seed alone, told at length and not counted")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(given.work))
        return
    campaign = Campaign(given.work.resolve())
    if given.seed is not None:
        for kind in given.only:
            for subject in given.subject or campaign.subjects(kind):
                print(kind, subject, given.seed, *campaign.attempt(kind, subject, given.seed))
        return
    end = time.monotonic() + 60 * given.minutes
    failed = 0
    while time.monotonic() < end and (chosen := campaign.next_try(given.only, given.subject, given.tries)):
        outcome, seconds = campaign.attempt(*chosen)
        campaign.note(*chosen, outcome, seconds)
        if outcome.split(":")[0] not in SOUND:
            failed += 1
            print(*chosen, outcome, flush=True)
    print(table(given.work))
    sys.exit(failed > 0)


def table(work: Path) -> str:
    """Tried, failed and seconds of each kind and subject, in Markdown."""
    with (work / "tries.csv").open(encoding="utf-8", newline="") as file:
        tries = list(csv.DictReader(file))
    lines = ["| kind | subject | tried | failed | refused | seconds |", "|---|---|---:|---:|---:|---:|"]
    for kind, subject in sorted({(each["kind"], each["subject"]) for each in tries}):
        own = [each for each in tries if (each["kind"], each["subject"]) == (kind, subject)]
        outcomes = Counter(each["outcome"].split(":")[0] for each in own)
        failed = len(own) - sum(outcomes[name] for name in SOUND)
        seconds = sum(float(each["seconds"]) for each in own)
        lines.append(f"| {kind} | {subject} | {len(own):,} | {failed} | {outcomes['refused']:,} | {seconds:,.0f} |")
    return "\n".join(lines)


class Campaign:
    """The folder of a campaign: inputs, sound runs to compare with, and the tries so far."""

    def __init__(self, work: Path) -> None:
        self.work, self.inputs = work, work / "inputs"
        work.mkdir(parents=True, exist_ok=True)
        if not self.inputs.is_dir():
            _in_fork(lambda: reference_runs.prepare(self.inputs), seconds=600)
        self.tries: Counter[tuple[str, str]] = Counter()
        if (work / "tries.csv").is_file():
            with (work / "tries.csv").open(encoding="utf-8", newline="") as file:
                self.tries.update((each["kind"], each["subject"]) for each in csv.DictReader(file))
        else:
            (work / "tries.csv").write_text(",".join(LINE) + "\n", encoding="utf-8")
        _load_everything(self.inputs)

    def subjects(self, kind: str) -> Sequence[str]:
        """What a kind of fault is tried on."""
        if kind == "input":
            return sorted(_readers())
        return FAMILIES if kind == "model" else sorted(_commands())

    def next_try(
        self, kinds: Sequence[str], only: Sequence[str] | None, most: int | None
    ) -> tuple[str, str, int] | None:
        """The kind and subject that were tried least, kinds in turn, with their next seed."""
        open_ = [(kind, each) for kind in kinds for each in self.subjects(kind) if only is None or each in only]
        open_ = [each for each in open_ if most is None or self.tries[each] < most]
        if not open_:
            return None
        chosen = min(open_, key=lambda each: (self.tries[each], kinds.index(each[0])))
        return (*chosen, self.tries[chosen])

    def note(self, kind: str, subject: str, seed: int, outcome: str, seconds: float) -> None:
        """Add a try to the table."""
        self.tries[kind, subject] += 1
        with (self.work / "tries.csv").open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow((kind, subject, seed, outcome, f"{seconds:.2f}"))

    def attempt(self, kind: str, subject: str, seed: int) -> tuple[str, float]:
        """What came of a try, and how long it took."""
        began = time.monotonic()
        folder = self.work / "now"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        outcome = KINDS[kind](self, subject, random.Random(f"{kind} {subject} {seed}"), folder)
        return outcome, time.monotonic() - began

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
        return _read_or_refused(lambda: load(path, device="cpu"), path, PATIENCE + 5)

    def kill(self, command: str, chance: random.Random, folder: Path) -> str:
        """Kill a command up to three times, at any moment of it, and let it go on."""
        sound, seconds = self.sound(command)
        for _ in range(chance.randint(1, 3)):
            number = chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT))
            code, told = self.run(command, folder / "run", after=chance.uniform(0, seconds), kill=number)
            if code == 70 or ("Traceback" in told and number != signal.SIGKILL):
                return f"failed: a traceback after {number.name}: {_last(told)}"
        return self.compare(command, folder / "run", sound, self.run(command, folder / "run"))

    def double(self, command: str, chance: random.Random, folder: Path) -> str:
        """Start a command again while it runs."""
        sound, seconds = self.sound(command)
        path = folder / "run"
        first = self.start(command, path)
        time.sleep(chance.uniform(0, 0.8 * seconds))
        second = self.run(command, path)
        ended = _wait(first, 3 * seconds + 60), (path.parent / "run.log").read_text(errors="replace")
        for code, told in (ended, second):
            if code not in (0, 2) or "Traceback" in told:
                return f"failed: exit code {code}: {_last(told)}"
        return self.compare(command, path, sound, self.run(command, path))

    def folder(self, command: str, chance: random.Random, folder: Path) -> str:
        """Damage a file of a run folder, finished or not."""
        sound, seconds = self.sound(command)
        path = folder / "run"
        if chance.random() < 0.5:
            shutil.copytree(sound, path)
        else:
            self.run(command, path, after=chance.uniform(0.2, 0.95) * seconds, kill=signal.SIGKILL)
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else []
        if not files:
            return "same"
        damaged = damage(chance.choice(files), chance)
        code, told = self.cli(["report", str(path)], folder / "report.log", seconds + 60)
        if code not in (0, 2) or "Traceback" in told:
            return f"failed: report, {damaged}: exit code {code}: {_last(told)}"
        code, told = self.run(command, path)
        if code == 2 and "Traceback" not in told:
            return "refused" if str(path) in told else f"failed: {damaged}: no file is named: {_last(told)}"
        outcome = self.compare(command, path, sound, (code, told))
        return outcome if outcome == "same" else f"{outcome} ({damaged})"

    def limit(self, command: str, chance: random.Random, folder: Path) -> str:
        """Let no file grow beyond a size, as on a disk that is full."""
        sound, _ = self.sound(command)
        path = folder / "run"
        most = chance.randint(100, max(file.stat().st_size for file in sound.rglob("*") if file.is_file()))
        code, told = self.run(command, path, file_size=most)
        if code not in (0, 1, 2) or "Traceback" in told:
            return f"failed: at {most} bytes: exit code {code}: {_last(told)}"
        return self.compare(command, path, sound, self.run(command, path))

    def page(self, command: str, chance: random.Random, folder: Path) -> str:
        """Put text that is code into every text of a run, and open its page."""
        sound, _ = self.sound(command)
        path = folder / "run"
        shutil.copytree(sound, path)
        (path / "rows.parquet").unlink(missing_ok=True)
        rows = list(csv.reader((path / "rows.csv").read_text(encoding="utf-8").splitlines()))
        for row in chance.sample(rows[1:], min(20, len(rows) - 1)):
            row[rows[0].index(chance.choice(("model", "data", "target", "condition")))] = chance.choice(HOSTILE)
        with (path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        code, told = self.cli(["report", str(path)], folder / "report.log", 60)
        if code not in (0, 2) or "Traceback" in told:
            return f"failed: report: exit code {code}: {_last(told)}"
        browser = shutil.which("chromium")
        if code == 2 or browser is None:
            return "refused"
        command_line = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000"]
        shown = subprocess.run([*command_line, "--dump-dom", (path / "report.html").as_uri()], capture_output=True)
        return "failed: code of the text ran" if b"data-ran=" in shown.stdout else "same"

    # --- commands ----------------------------------------------------------------------------------------------------

    def sound(self, command: str) -> tuple[Path, float]:
        """The run folder of a command to which nothing happened, and its seconds."""
        path, told = self.work / "sound" / command, self.work / "sound" / f"{command}.seconds"
        if not told.is_file():
            shutil.rmtree(path, ignore_errors=True)
            path.parent.mkdir(exist_ok=True)
            began = time.monotonic()
            code, printed = self.run(command, path)
            if code:
                raise SystemExit(f"{command} does not run at all: {printed}")
            told.write_text(str(time.monotonic() - began))
        return path, float(told.read_text())

    def start(self, command: str, path: Path, **limits: Any) -> int:
        """Begin a command, or go on with it, and return its process."""
        words = _commands()[command].replace("$IN", str(self.inputs)).split()
        return _fork(
            lambda: _main([*words, "--out", str(path), "--resume"]), path.parent / f"{path.name}.log", **limits
        )

    def run(
        self, command: str, path: Path, *, after: float | None = None, kill: int = signal.SIGKILL, **limits: Any
    ) -> tuple[int, str]:
        """Run a command to its end, or kill it after some seconds; its exit code and what it printed."""
        process = self.start(command, path, **limits)
        code = _wait(process, 120 if after is None else after, kill=kill)
        return code, (path.parent / f"{path.name}.log").read_text(errors="replace")

    def cli(self, words: Sequence[str], log: Path, seconds: float) -> tuple[int, str]:
        """Run a command line; its exit code and what it printed."""
        return _wait(_fork(lambda: _main(words), log), seconds), log.read_text(errors="replace")

    def compare(self, command: str, path: Path, sound: Path, ended: tuple[int, str]) -> str:
        """Whether a run that ended has the rows and weights of the sound one."""
        code, told = ended
        if code or "Traceback" in told:
            return f"failed: exit code {code}: {_last(told)}"
        lines = [(each / "rows.csv").read_text(encoding="utf-8").splitlines() for each in (sound, path)]
        lost, new = Counter(lines[0]) - Counter(lines[1]), Counter(lines[1]) - Counter(lines[0])
        if lost or new:
            return f"failed: {lost.total()} rows lost or changed, {new.total()} new: {next(iter(lost or new))[:80]}"
        for file in sound.rglob("*.safetensors"):
            other = path / file.relative_to(sound)
            if not other.is_file() or _tensors(other) != _tensors(file):
                return f"failed: {file.relative_to(sound)} differs"
        left = {str(file.relative_to(path)) for file in path.rglob("*")}
        left -= {str(file.relative_to(sound)) for file in sound.rglob("*")}
        return f"failed: litter: {sorted(left)[:3]}" if left else "same"


def _tensors(path: Path) -> tuple[Any, bytes]:
    """Header and numbers of a safetensors file; its writer puts metadata into an order of its own."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


KINDS: dict[str, Callable[[Campaign, str, random.Random, Path], str]] = {
    kind: getattr(Campaign, kind) for kind in ("input", "model", "folder", "kill", "double", "limit", "page")
}


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


def _commands() -> dict[str, str]:
    """A small command line of every recipe, and of a sweep."""
    from isogloss.recipes.recipe import RECIPES

    lines = dict.fromkeys([*RECIPES, "sweep"], "")
    for line in reference_runs.RECIPES.values():
        name = line.split()[0]
        if name in lines and not lines[name] and "$OUT" not in line:
            lines[name] = line
    return lines


def _load_everything(inputs: Path) -> None:
    """Import all that a command or a reader may need, so that a fork begins at once."""
    import isogloss

    for module in pkgutil.walk_packages(isogloss.__path__, "isogloss."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    import matplotlib.pyplot  # noqa: F401

    from isogloss.stack.load import load

    for family in FAMILIES:
        load(inputs / family, device="cpu")


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

    code = _wait(_fork(told, Path(os.devnull)), seconds)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        outcome = pipe.read().decode()
    return outcome or f"failed: {'hangs' if code == -signal.SIGKILL else f'died with {code}'}"


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
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(number, "w")) for number in (1, 2))
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


def _wait(process: int, seconds: float, *, kill: int = signal.SIGKILL) -> int:
    """The exit code of a process that is sent a signal after some seconds; negative where a signal ended it."""
    end, sent = time.monotonic() + seconds, False
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            if kill == signal.SIGKILL and sent:
                _end_group(process)
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            if sent:  # a polite signal was not enough
                kill = signal.SIGKILL
            os.kill(process, kill)
            sent, end = True, time.monotonic() + 20
        time.sleep(0.005)


def _end_group(process: int) -> None:
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        return


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
