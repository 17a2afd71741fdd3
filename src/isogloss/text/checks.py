"""Checks of a folder of data sets: every file is read by its own reader, and every problem is told.

The readers take a callback for problems. Here it collects instead of raising, so what passes a check is what the
readers accept. Beyond the readers, cells without text and tags that continue nothing are problems, and so are check
sums that differ.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.text.catalog import SUMS, aligned_stem, data_dir, data_sets, files_by_kind, languages_in
from isogloss.text.readers.conll import TaggedWord, stream_tagged, stream_trees
from isogloss.text.readers.dictionaries import stream_pairs
from isogloss.text.readers.inference import every_row
from isogloss.text.readers.lines import Problem, Source, open_table, stream_lines
from isogloss.text.readers.questions import every_question

_MOST = 20  # problems told of one file
Reader = Callable[[Path, Problem], Iterable[Any]]


@dataclass(frozen=True)
class CheckedFile:
    """One file that was read, and the rows it holds."""

    path: str
    kind: str
    rows: int


@dataclass(frozen=True)
class CheckReport:
    """What a check found: problems as sentences with file and line, files read, files no check knows, sums compared."""

    problems: tuple[str, ...]
    checked: tuple[CheckedFile, ...]
    unchecked: tuple[str, ...]
    sums: int


def check(data: Source, progress: Progress = silent) -> CheckReport:
    """Read every file of every data set and tell what is wrong with each, rather than stop at the first problem.

    Memory stays small: files are read line by line (only question files, which are one JSON value, are not).

    Args:
        data: the folder of data sets.
        progress: is told how many files are checked.
    """
    folder = data_dir(data)
    files = [(path, kind) for each in data_sets(folder) for path, kind in files_by_kind(each)]
    problems: list[str] = []
    checked: list[CheckedFile] = []
    for done, (path, kind) in enumerate(files, start=1):
        if kind in READERS:
            checked.append(CheckedFile(str(path), kind, _count_rows(path, READERS[kind], problems)))
        progress("checking", done, len(files))
    problems += _unequal(checked)
    lists = [each / SUMS for each in (folder, *data_sets(folder)) if (each / SUMS).is_file()]
    sums = sum(_count_rows(path, _check_sums, problems) for path in lists)
    unchecked = tuple(str(path) for path, kind in files if kind == "unknown")
    return CheckReport(tuple(problems), tuple(checked), unchecked, sums)


def _count_rows(path: Path, reader: Reader, problems: list[str]) -> int:
    """How many rows a reader gives; the file's first problems are added to the list, and a count of the others.

    A file that cannot be opened at all is one more problem.
    """
    first: list[str] = []
    more = rows = 0

    def collect(sentence: str) -> None:
        nonlocal more
        if len(first) < _MOST:
            first.append(sentence)
        else:
            more += 1

    try:
        rows = sum(1 for _ in reader(path, collect))
    except InputError as error:
        collect(str(error))
    problems += [*first, f"{path}: and {more:,} problems more"] if more else first
    return rows


def _table_rows(path: Path, problem: Problem) -> Iterator[list[str]]:
    """Rows of a table; one without any text is a problem, and where there is no header, so is an empty cell."""
    table = open_table(path)
    for number, cells in table.rows(problem=problem):
        filled = [bool(cell.strip()) for cell in cells]
        if not any(filled):
            problem(f"{path}:{number}: no cell has text")
        elif not table.has_header and not all(filled):
            problem(f"{path}:{number}: an empty cell; both sides of a pair need text")
        yield cells


def _tagged_sentences(path: Path, problem: Problem) -> Iterator[list[TaggedWord]]:
    """Sentences whose tags are O, B-x or I-x; an I-x that continues no x is a problem."""
    for words in stream_tagged(path, problem):
        before = ""
        for number, _, tag in words:
            if tag.startswith("I-") and before[1:] != tag[1:]:
                problem(f"{path}:{number}: {tag} continues nothing; an entity begins with B{tag[1:]}")
            before = tag
        yield words


READERS: dict[str, Reader] = {
    "lines": stream_lines,
    "aligned": stream_lines,
    "table": _table_rows,
    "pairs": _table_rows,
    "treebank": stream_trees,
    "dictionary": stream_pairs,
    "tags": _tagged_sentences,
    "inference": every_row,
    "questions": every_question,
}
"""What reads each kind of file row by row and tells every problem."""


def _check_sums(sums: Path, problem: Problem) -> Iterator[Path]:
    """The files of a SHA256SUMS that were compared; one that is missing or has another sum is a problem."""
    for number, line in stream_lines(sums, problem):
        if not line.strip():
            continue
        expected, _, name = line.partition(" ")
        path = sums.parent / name.strip().removeprefix("*")
        if len(expected) != 64 or not name.strip():
            problem(f"{sums}:{number}: expected a SHA-256 sum and a file name")
        elif not path.is_file():
            problem(f"{sums}:{number}: {name.strip()} is not there")
        else:
            with path.open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
            if actual != expected.lower():
                problem(f"{path}: its SHA-256 sum is not the one in {SUMS}; fetch it again")
            yield path


def _unequal(checked: Iterable[CheckedFile]) -> list[str]:
    """Files that should run parallel, line by line, and have different numbers of rows.

    Those are `train.en` beside `train.de`, and inference sets `dev-en.tsv` beside `dev-de.tsv`.
    """
    groups: dict[tuple[str, str], list[CheckedFile]] = {}
    for each in checked:
        path = Path(each.path)
        if each.kind == "aligned":
            stem = aligned_stem(path)
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
