"""Training examples in other languages, row by row translations of the source's: read so that rows correspond.

A pair of sentences is found by its place in the file, a question by its id. A row that is bad in one language is left
out of all, so that nothing after it is shifted.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.recipes.recipe import language_files
from isogloss.recipes.steps.tasktexts import Set, Sets, set_name
from isogloss.tasks.task import FileRow, Segments, Task
from isogloss.text.readers.lines import Problem, fail

Key = tuple[str, int]  # a row's name, "" where it has none, and which of those that are called so it is


def with_translated(task: Task, sets: Sets, given: Any, *, skip_bad: bool = False) -> Sets:
    """The sets, with `LANG=FILE[,FILE]` of --translated among those trained on; without any, as they are.

    Where bad rows are skipped, so are questions that a language lacks; of sentence pairs, which have no names, there
    must be as many in every language.
    """
    others = language_files(given or [], option="translated")
    if not others:
        return sets
    segments = need_segments(task, "--translated")
    if sets.source in others:
        raise InputError(f"--translated has a set of {sets.source}, the language of --train; leave it out")
    problems: list[str] = []
    problem: Problem = problems.append if skip_bad else fail
    files = [sets.train.files, *others.values()]
    found = [_rows(segments, some, problem) for some in files]
    _refuse_unequal(found, files)
    kept, bad = _corresponding(segments, found, files, problem)
    if not kept:
        raise InputError(f"{_told(files[1])} has no row that is a translation of one of {_told(files[0])}")
    first = problems[0] if problems else ""
    made = [
        Set(language, set_name(paths), [rows[key].example for key in kept], tuple(paths), bad, first)
        for language, paths, rows in zip([sets.source, *others], files, found, strict=True)
    ]
    return replace(sets, train=made[0], translated=tuple(made[1:]))


def need_segments(task: Task, option: str) -> Segments:
    """The segments of a task, or a sentence that it has none."""
    if task.segments is None:
        raise InputError(
            f"{option} is for tasks whose examples have two segments of text, nli and qa; {task.name} has words with "
            "labels of their own, which no translation keeps"
        )
    return task.segments


def _rows(segments: Segments, files: Sequence[Path], problem: Problem) -> dict[Key, FileRow]:
    seen: Counter[str] = Counter()
    found: dict[Key, FileRow] = {}
    for path in files:
        for row in segments.rows(path, problem):
            found[row.name, seen[row.name]] = row
            seen[row.name] += 1
    return found


def _refuse_unequal(found: Sequence[dict[Key, FileRow]], files: Sequence[Sequence[Path]]) -> None:
    """Rows without names correspond by their place: where one file has more of them, who knows which is too many."""
    source = _unnamed(found[0])
    for rows, paths in zip(found[1:], files[1:], strict=True):
        other = _unnamed(rows)
        if len(other) != len(source):
            longer, shorter = (source, paths) if len(source) > len(other) else (other, files[0])
            less = min(len(source), len(other))
            raise InputError(
                f"{longer[less].where}: this row has no counterpart in {_told(shorter)}, which has {less:,} rows; "
                "--translated takes row by row translations of --train"
            )


def _unnamed(rows: dict[Key, FileRow]) -> list[FileRow]:
    return [row for (name, _), row in rows.items() if not name]


def _corresponding(
    segments: Segments, found: Sequence[dict[Key, FileRow]], files: Sequence[Sequence[Path]], problem: Problem
) -> tuple[list[Key], int]:
    """The rows that are sound in every language, in the order of the source; and how many are not."""
    kept: list[Key] = []
    bad = 0
    for key in dict.fromkeys(key for rows in found for key in rows):
        there = [rows.get(key) for rows in found]
        if any(row is not None and row.bad for row in there):
            bad += 1
        elif wrong := _wrong(segments, there, files):
            problem(wrong)
            bad += 1
        elif all(row is not None and row.example is not None for row in there):
            kept.append(key)
    return kept, bad


def _wrong(segments: Segments, there: Sequence[FileRow | None], files: Sequence[Sequence[Path]]) -> str:
    """What keeps a row and its translations from being used together, "" where nothing does."""
    missing = [paths for row, paths in zip(there, files, strict=True) if row is None]
    held = [row for row in there if row is not None]
    if missing:
        return f"{held[0].where} is not in {_told(missing[0])}; --translated takes translations of --train"
    first = held[0]
    for other in held[1:]:
        if (first.example is None) != (other.example is None):
            which, rest = (other, first) if other.example is None else (first, other)
            return f"{which.where}: this row has no gold label, and {rest.where} has one; translations have one label"
        why = "" if first.example is None else segments.differ(first.example, other.example)
        if why:
            return f"{other.where}: {why} in {first.where}, whose translation it should be"
    return ""


def _told(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))
