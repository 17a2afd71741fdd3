"""The data of a transfer run: training examples of one language, development and test sets of many, and as items."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.progress import Progress
from isogloss.recipes.recipe import language_entries
from isogloss.tasks.task import Example, Item, Items, Labels, Task, join_items
from isogloss.text.readers.lines import Problem, fail, file_path, plain_name

AT_ONCE = 1000  # examples that are tokenised together, between two words on the progress


@dataclass(frozen=True)
class Set:
    """Examples of one language; `name` tells sets apart in the rows, as their files are called."""

    language: str
    name: str
    examples: Sequence[Example]
    files: tuple[Path, ...]
    skipped: int = 0
    first_problem: str = ""


@dataclass(frozen=True)
class Sets:
    """All a run reads: `train` of the source, `dev` by language (the source's chooses), `tests` in the order given.

    translated: row by row translations of `train`, trained on, too.
    """

    train: Set
    dev: Mapping[str, Set]
    tests: Sequence[Set]
    labels: Labels
    translated: Sequence[Set] = ()

    @property
    def source(self) -> str:
        """The language that is trained in."""
        return self.train.language

    @property
    def source_test(self) -> int:
        """The number of the source's first test set, to which the others are compared."""
        return [one.language for one in self.tests].index(self.source)

    @property
    def all(self) -> list[Set]:
        """Every set, training first."""
        return [*self.trained, *self.read_each_time]

    @property
    def trained(self) -> list[Set]:
        """The sets that are trained on: the source's, then its translations."""
        return [self.train, *self.translated]

    @property
    def read_each_time(self) -> list[Set]:
        """The sets a model in training is scored on: development, then tests."""
        return [*self.dev.values(), *self.tests]

    @property
    def hashes(self) -> dict[str, list[str]]:
        """A hash of every file."""
        found = {f"{one.language} {one.name}": one for one in [self.train, *self.read_each_time]}
        found |= {f"translated {one.language} {one.name}": one for one in self.translated}
        return {name: [_digest(path) for path in one.files] for name, one in found.items()}

    @property
    def notes(self) -> list[str]:
        """What was left out, and what is no test."""
        alone = self.read_each_time if self.translated else self.all
        found = [
            f"{one.skipped:,} bad {'row' if one.skipped == 1 else 'rows'} of {one.name} ({one.language}) left out, the "
            f"first: {one.first_problem}"
            for one in alone
            if one.skipped
        ]
        if self.translated and self.train.skipped:
            names = ", ".join(f"{one.name} ({one.language})" for one in self.trained)
            left = f"{self.train.skipped:,} rows that are bad in one of {names} were left out of all of them"
            found.insert(0, f"{left}, the first: {self.train.first_problem}")
        return found + self._learned_notes()

    def _learned_notes(self) -> list[str]:
        """Which sets were trained on: a file is known by its content, whatever it is called."""
        learned = {_digest(path) for one in self.trained for path in one.files}
        return [
            f"{one.name} ({one.language}) is trained on, too: its scores say what was learned by heart"
            for one in self.read_each_time
            if any(_digest(path) in learned for path in one.files)
        ]


def read_sets(task: Task, train: Any, dev: Any, tests: Any, *, skip_bad: bool = False) -> Sets:
    """Read every file: train, dev and tests as `LANG=FILE[,FILE]`, or files by language.

    Where a bad row is not to be skipped, the first one ends it with its sentence.
    """
    trained = list(language_entries(train, "train"))
    if len(trained) != 1:
        named = ", ".join(language for language, _ in trained)
        raise InputError(f"--train is one language, LANG=FILE[,FILE], not {len(trained)} ({named})")
    source = trained[0][0]
    developed, tested = list(language_entries(dev, "dev")), list(language_entries(tests, "test"))
    _refuse_unclear(source, developed, tested)
    first = _read(task, *trained[0], labels=None, skip_bad=skip_bad)
    labels = task.labels(first.examples)
    rest = [_read(task, *one, labels=labels, skip_bad=skip_bad) for one in [*developed, *tested]]
    names = [(one.language, one.name) for one in rest]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(
            f"two sets of {twice[0][0]} are called {twice[0][1]}; their scores could not be told apart: rename a file"
        )
    held = rest[: len(developed)]
    return Sets(first, {one.language: one for one in held}, rest[len(developed) :], labels)


def tokenise_set(task: Task, one: Set, labels: Labels, *, tokenizer: Any, length: int, progress: Progress) -> Items:
    """A set as items of one tokenizer."""
    found = []
    for start in range(0, len(one.examples), AT_ONCE):
        some = one.examples[start : start + AT_ONCE]
        for item in task.encode(some, labels, tokenizer=tokenizer, length=length):
            found.append(item if not start else _moved(item, start))
        progress(f"tokenising {one.name} ({one.language})", min(start + AT_ONCE, len(one.examples)), len(one.examples))
    return join_items(found)


def lost_notes(sets: Sequence[Set], items: Sequence[Items]) -> list[str]:
    """Which sets have something to answer that the model does not see."""
    return [
        f"{some.lost:,} of {some.lost + int(some.targets.sum()):,} answers of {one.name} ({one.language}) are beyond "
        "the model's length or have no token; they are not trained on, and wrong in a test"
        for one, some in zip(sets, items, strict=True)
        if some.lost
    ]


def _read(task: Task, language: str, files: Sequence[Path], *, labels: Labels | None, skip_bad: bool) -> Set:
    problems: list[str] = []
    problem: Problem = problems.append if skip_bad else fail
    paths = [file_path(path) for path in files]
    if not paths:
        raise InputError(f"no file is named for {language}; give {language}=FILE")
    examples = [one for path in paths for one in task.read(path, language, labels=labels, problem=problem)]
    name = set_name(paths)
    if not examples:
        why = f" but bad ones, the first: {problems[0]}" if problems else ""
        raise InputError(f"{', '.join(map(str, paths))} has no example of the task {task.name}{why}")
    return Set(language, name, examples, tuple(paths), len(problems), problems[0] if problems else "")


def _refuse_unclear(source: str, dev: Sequence[tuple[str, Any]], tests: Sequence[tuple[str, Any]]) -> None:
    languages = [language for language, _ in dev]
    if source not in languages:
        raise InputError(f"--dev has no set of {source}, the language of --train, which chooses the model; give one")
    twice = [one for one in languages if languages.count(one) > 1]
    if twice:
        raise InputError(f"--dev has {twice[0]} twice; give its files together, {twice[0]}=A,B")
    if source not in [language for language, _ in tests]:
        raise InputError(
            f"--test has no set of {source}, the language of --train, to which the others are compared; give one"
        )
    strange = [one for one in languages if one not in [language for language, _ in tests]]
    if strange:
        raise InputError(f"--dev has a set of {strange[0]}, which --test has not; give its test set or leave it out")


def set_name(paths: Sequence[Path]) -> str:
    """What tables call a set: its files without what they end with."""
    return "+".join(_stem(path) for path in paths)


def _moved(item: Item, start: int) -> Item:
    return replace(item, owner=item.owner + start)


def _stem(path: Path) -> str:
    name = plain_name(path)
    return name.rpartition(".")[0] or name


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
