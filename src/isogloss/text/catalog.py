"""A folder of data sets: what is in it, whether it is sound, and data sets called by name.

The layout is one folder a data set, each with a README: `DATA/tatoeba/...`, `DATA/xnli/...`. The folder is told by
`--data DIR` or the environment variable ISOGLOSS_DATA.
"""

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.text.checks import CHECKS, check_sums
from isogloss.text.kinds import SUMS, kind_of, languages_in, row_count
from isogloss.text.languages import code, is_code
from isogloss.text.readers.folders import aligned_sets
from isogloss.text.readers.hub import PREFIX
from isogloss.text.readers.lines import Problem, Source, stream_lines
from isogloss.text.readers.names import languages_of

VARIABLE = "ISOGLOSS_DATA"
_MOST = 20  # problems told of one file
_SPLIT_NAMES = {"train": ("0-5000", "train"), "test": ("5000-6500", "test")}


@dataclass(frozen=True)
class DataSet:
    """One data set: the kinds of its files, its languages, its rows (parallel files counted once) and its size."""

    name: str
    kinds: tuple[str, ...]
    languages: tuple[str, ...]
    rows: int
    files: int
    bytes: int
    about: str


@dataclass(frozen=True)
class Checked:
    """One file that was read, and the rows it holds."""

    path: str
    kind: str
    rows: int


@dataclass(frozen=True)
class CheckReport:
    """What a check found: problems as sentences with file and line, files read, files no check knows."""

    problems: tuple[str, ...]
    checked: tuple[Checked, ...]
    unchecked: tuple[str, ...]
    sums: int


def data_dir(option: Source | None = None) -> Path:
    """The data folder: the option, else ISOGLOSS_DATA; one that is missing or unset is an InputError."""
    told = option or os.environ.get(VARIABLE)
    if not told:
        raise InputError(f"no data folder is set; give --data DIR or set the environment variable {VARIABLE}")
    path = Path(told).expanduser()
    if not path.is_dir():
        given = "--data" if option else VARIABLE
        raise InputError(f"the data folder {path} (from {given}) is no folder; it should hold one folder a data set")
    return path


def _sets(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def find(data: Source, name: str) -> Path:
    """The folder of a data set; an unknown name is an InputError that names those there are."""
    folder = data_dir(data)
    path = folder / name
    if name and path.is_dir() and path.parent == folder:
        return path
    there = [each.name for each in _sets(folder)]
    close = difflib.get_close_matches(name, there, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"{folder} has no data set {name!r}; {hint}it has {', '.join(there) or 'none'}")


def resolve(given: Source, data: Source | None = None) -> Source:
    """What to read for a path or a data set's name: an existing path wins, then a name in the data folder.

    A data set's name stands for its one table with a header of languages where it has exactly one (`xnli` ->
    `xnli.15way.tsv`), else for its folder (`tatoeba`, `ud_pud`). `europarl/some.tsv` is looked up there too.
    """
    text = os.fspath(given)
    if text.startswith(PREFIX) or Path(text).exists():
        return given
    if Path(text).is_absolute() or (data is None and not os.environ.get(VARIABLE)):
        raise InputError(
            f"{text} does not exist; expected a file, a folder, or the name of a data set in the data folder "
            f"(--data DIR or {VARIABLE})"
        )
    folder = data_dir(data)
    if (folder / text).is_file():
        return folder / text
    path = find(folder, text.rstrip("/"))
    tables = [file for file in sorted(path.iterdir()) if ".tsv" in file.name and kind_of(file, False) == "table"]
    return tables[0] if len(tables) == 1 else path


def find_lexicon(data: Source, source: str, target: str, *, split: str = "train") -> Path:
    """The dictionary of two languages in the data folder, read in either direction; `split` is `train` or `test`.

    MUSE comes first; `0-5000` and `train` in a name mean train, `5000-6500` and `test` mean test.
    """
    if split not in _SPLIT_NAMES:
        raise InputError(f"a dictionary's split is train or test, not {split!r}")
    folder, wanted = data_dir(data), {code(source), code(target)}
    pairs = set()
    for each in sorted(_sets(folder), key=lambda path: (path.name != "muse", path.name)):
        for path in _files(each):
            told = languages_of(path)
            if told is None or path.suffix != ".txt" or kind_of(path, False) != "dictionary":
                continue
            pairs.add("-".join(told))
            if set(told) == wanted and any(part in _SPLIT_NAMES[split] for part in path.name.split(".")):
                return path
    raise InputError(
        f"{folder} has no {split} dictionary of {source} and {target}; it has {', '.join(sorted(pairs)) or 'none'}"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def _kinds(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file of a data set with its kind."""
    aligned: dict[Path, set[Path]] = {}
    for path in _files(folder):
        if path.parent not in aligned:
            sets = aligned_sets(path.parent).values()
            aligned[path.parent] = {file for files in sets for file in files.values()}
        yield path, kind_of(path, path in aligned[path.parent])


def _about(folder: Path) -> str:
    """The README's first line that is no heading."""
    for name in ("README.md", "README.txt", "README"):
        path = folder / name
        if path.is_file():
            lines = (line.strip() for _, line in stream_lines(path, lambda _: None))
            return next((line for line in lines if line and not line.startswith("#")), "")
    return ""


def _data_set(folder: Path) -> DataSet:
    found = list(_kinds(folder))
    kinds = sorted({kind for _, kind in found} - {"notes", "unknown"}) or ["unknown"]
    languages = {each for path, kind in found for each in languages_in(path, kind)}
    if not languages:  # `nli_en`: the folder may tell what its files do not
        languages = {code(part) for part in folder.name.split("_") if is_code(part)}
    rows, counted = 0, set()
    for path, kind in found:
        stem = (path.parent, re.sub(r"\.[a-z]+(\.gz|\.xz)?$", "", path.name))
        if kind in ("notes", "unknown") or (kind == "aligned" and stem in counted):
            continue
        counted.add(stem)
        rows += row_count(path, kind)
    sizes = [path.stat().st_size for path, _ in found]
    return DataSet(folder.name, tuple(kinds), tuple(sorted(languages)), rows, len(found), sum(sizes), _about(folder))


def listing(data: Source, progress: Progress = silent) -> list[DataSet]:
    """Every data set of the folder."""
    folders = _sets(data_dir(data))
    records = []
    for done, folder in enumerate(folders, start=1):
        records.append(_data_set(folder))
        progress("reading", done, len(folders))
    return records


class _Collector:
    """Keeps the first problems of a file and counts the rest."""

    def __init__(self, path: Path) -> None:
        self.path, self.kept, self.more = path, list[str](), 0

    def __call__(self, sentence: str) -> None:
        if len(self.kept) < _MOST:
            self.kept.append(sentence)
        else:
            self.more += 1

    def sentences(self) -> list[str]:
        return self.kept + ([f"{self.path}: and {self.more:,} problems more"] if self.more else [])


def check(data: Source, progress: Progress = silent) -> CheckReport:
    """Read every file of every data set and tell what is wrong with each, rather than stop at the first problem.

    Memory stays small: files are read line by line (only question files, which are one JSON value, are not).
    """
    folder = data_dir(data)
    found = [(path, kind) for each in _sets(folder) for path, kind in _kinds(each)]
    problems: list[str] = []
    checked: list[Checked] = []
    unchecked: list[str] = []
    for done, (path, kind) in enumerate(found, start=1):
        if kind in CHECKS:
            collect = _Collector(path)
            rows = _guarded(path, kind, collect)
            problems += collect.sentences()
            checked.append(Checked(str(path), kind, rows))
        elif kind == "unknown":
            unchecked.append(str(path))
        progress("checking", done, len(found))
    problems += _unequal(checked)
    sums = 0
    for place in (folder, *_sets(folder)):
        if (place / SUMS).is_file():
            collect = _Collector(place / SUMS)
            sums += check_sums(place, collect)
            problems += collect.sentences()
    return CheckReport(tuple(problems), tuple(checked), tuple(unchecked), sums)


def _guarded(path: Path, kind: str, problem: Problem) -> int:
    """The check of a kind; a file that cannot be opened at all is one more problem."""
    try:
        return CHECKS[kind](path, problem)
    except InputError as error:
        problem(str(error))
        return 0


def _unequal(checked: list[Checked]) -> list[str]:
    """Files that should run parallel, line by line, and have different numbers of rows.

    Those are `train.en` beside `train.de`, and inference sets `dev-en.tsv` beside `dev-de.tsv`.
    """
    groups: dict[tuple[str, str], list[Checked]] = {}
    for each in checked:
        path = Path(each.path)
        if each.kind == "aligned":
            stem = re.sub(r"\.[a-z]+(\.gz|\.xz)?$", "", path.name)
        elif each.kind == "inference" and languages_in(path, each.kind):
            stem = path.stem.rpartition("-")[0]
        else:
            continue
        groups.setdefault((str(path.parent), stem), []).append(each)
    sentences = []
    for (parent, stem), files in groups.items():
        if len({each.rows for each in files}) > 1:
            counts = ", ".join(f"{Path(each.path).name} has {each.rows:,}" for each in files)
            sentences.append(f"{parent}: the files {stem}.* should have equally many lines: {counts}")
    return sentences
