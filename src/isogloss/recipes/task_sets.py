"""Examples of a task by language: read from files, joined with translations, code-switched and tokenised.

`transfer` and `stitch` train on examples of one language, the source. Models are selected on development sets and
evaluated on test sets of several languages. Line-aligned translations of the training examples may be added to them.
Code-switching mixes languages inside a training example, differently in every epoch; development and test sets are
never switched.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.errors import InputError, require
from isogloss.progress import listening, progress, silent
from isogloss.recipes.recipe import language_entries, language_files
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.tasks.task import Example, Items, Labels, Segments, Task, chain_items, join_items, read_at_ends
from isogloss.text.batches import marks
from isogloss.text.readers.dictionaries import read_lexicon
from isogloss.text.readers.examples import FileRow
from isogloss.text.readers.lines import Problem, fail, file_path, plain_name
from isogloss.text.switching import Switched, Switching, joined_dictionary, known_words, segment_draws, switch_words
from isogloss.text.words import spans

TOKENISED_TOGETHER = 1000  # examples tokenised between two reports of progress
LOOKED_UP = 10_000  # training examples on which the coverage of dictionaries is measured


@dataclass(frozen=True)
class TaskSet:
    """Examples of one language.

    name: name of the set in rows, its file names without suffixes. skipped: number of bad rows that were left out;
    first_problem: the error in the first of them.
    """

    language: str
    name: str
    examples: Sequence[Example]
    files: tuple[Path, ...]
    skipped: int = 0
    first_problem: str = ""

    def __str__(self) -> str:
        """The name and language, as in `dev (nl)`."""
        return f"{self.name} ({self.language})"

    @cached_property
    def hashes(self) -> list[str]:
        """The hash of each file."""
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in self.files]


@dataclass(frozen=True)
class TaskSets:
    """All examples of a run.

    train: in the source language. dev: by language; the source's selects the model. tests: in the order given.
    translated: line-aligned translations of `train`, also trained on. labels: those of the training examples.
    """

    task: Task
    train: TaskSet
    dev: Mapping[str, TaskSet]
    tests: Sequence[TaskSet]
    labels: Labels
    translated: Sequence[TaskSet] = ()

    @property
    def source(self) -> str:
        """The language of the training examples."""
        return self.train.language

    @property
    def trained(self) -> list[TaskSet]:
        """The training sets: the source's, then its translations."""
        return [self.train, *self.translated]

    @property
    def scored(self) -> list[TaskSet]:
        """The sets for evaluation: development sets, then test sets."""
        return [*self.dev.values(), *self.tests]

    @property
    def all(self) -> list[TaskSet]:
        """Every set, training sets first."""
        return [*self.trained, *self.scored]

    @property
    def hashes(self) -> dict[str, list[str]]:
        """The hashes of the files of every set."""
        hashes = {f"{part.language} {part.name}": part.hashes for part in [self.train, *self.scored]}
        return hashes | {f"translated {part.language} {part.name}": part.hashes for part in self.translated}

    @property
    def notes(self) -> list[str]:
        """Sentences on rows that were left out, and on evaluation sets that are also training sets."""
        notes = []
        if self.translated and self.train.skipped:
            notes.append(
                f"{self.train.skipped:,} rows that are bad in one of {', '.join(map(str, self.trained))} were left out "
                f"of all of them, the first: {self.train.first_problem}"
            )
        for each in self.scored if self.translated else self.all:
            if each.skipped:
                rows = "row" if each.skipped == 1 else "rows"
                notes.append(f"{each.skipped:,} bad {rows} of {each} left out, the first: {each.first_problem}")
        trained_hashes = {digest for each in self.trained for digest in each.hashes}
        return notes + [
            f"{each} is also trained on: its scores show what the model has memorised"
            for each in self.scored
            if not trained_hashes.isdisjoint(each.hashes)
        ]


# --- reading ---------------------------------------------------------------------------------------------------------


def read_sets(task: Task, *, train: Any, dev: Any, test: Any, skip_bad: bool = False) -> TaskSets:
    """Read every file.

    Args:
        task: The task of the examples.
        train: `LANG=FILE[,FILE]` or files by language, of one language.
        dev: The same, of the source and any languages of `test`.
        test: The same; a language may have several sets.
        skip_bad: Leave bad rows out and count them, instead of raising InputError at the first one.
    """
    trained = list(language_entries(train, "train"))
    if len(trained) != 1:
        languages = ", ".join(language for language, _ in trained)
        raise InputError(f"--train takes one language, LANG=FILE[,FILE], not {len(trained)} ({languages})")
    source, files = trained[0]
    dev_entries, test_entries = list(language_entries(dev, "dev")), list(language_entries(test, "test"))
    dev_languages, test_languages = ([language for language, _ in entries] for entries in (dev_entries, test_entries))
    if source not in dev_languages:
        raise InputError(f"--dev has no set of {source}, the language of --train; give one to select the model on")
    if twice := [language for language in dev_languages if dev_languages.count(language) > 1]:
        raise InputError(f"--dev has {twice[0]} twice; give its files together, {twice[0]}=A,B")
    if source not in test_languages:
        raise InputError(
            f"--test has no set of {source}, the language of --train, to which the others are compared; give one"
        )
    if untested := [language for language in dev_languages if language not in test_languages]:
        raise InputError(f"--dev has a set of {untested[0]}, but --test has none; give its test set or leave it out")
    first = _read_set(task, source, files, labels=None, skip_bad=skip_bad)
    labels = task.labels(first.examples)
    scored = [_read_set(task, *entry, labels=labels, skip_bad=skip_bad) for entry in [*dev_entries, *test_entries]]
    names = [(each.language, each.name) for each in scored]
    if same := [language for language, paths in dev_entries if (language, paths) in test_entries]:
        raise InputError(f"--dev and --test name the same file of {same[0]}; a test needs examples of its own")
    if repeated := [entry for entry in names if names.count(entry) > 1]:
        language, name = repeated[0]
        raise InputError(
            f"two sets of {language} are called {name}; their scores could not be told apart: rename a file"
        )
    count = len(dev_entries)
    return TaskSets(task, first, {each.language: each for each in scored[:count]}, scored[count:], labels)


def _read_set(task: Task, language: str, files: Sequence[Path], *, labels: Labels | None, skip_bad: bool) -> TaskSet:
    problems: list[str] = []
    problem: Problem = problems.append if skip_bad else fail
    paths = [file_path(path) for path in files]
    require(paths, f"no file is named for {language}; give {language}=FILE")
    examples = [example for path in paths for example in task.read(path, language, labels=labels, problem=problem)]
    if not examples:
        why = f" except bad ones, the first: {problems[0]}" if problems else ""
        raise InputError(f"{_listed(paths)} has no example of the task {task.name}{why}")
    return TaskSet(
        language,
        _set_name(paths),
        examples=examples,
        files=tuple(paths),
        skipped=len(problems),
        first_problem=problems[0] if problems else "",
    )


def _set_name(paths: Sequence[Path]) -> str:
    return "+".join(name.rpartition(".")[0] or name for name in map(plain_name, paths))


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(map(str, paths))


def skipped_rows(sets: TaskSets, coordinates: Mapping[str, Any]) -> list[Row]:
    """Rows with the number of bad rows that were left out of each set, if any."""
    return [
        row("skipped", each.skipped, target=each.language, data=each.name, **coordinates)
        for each in sets.all
        if each.skipped
    ]


# --- tokenising ------------------------------------------------------------------------------------------------------


def tokenise_set(sets: TaskSets, task_set: TaskSet, tokenizer: Any, *, length: int, causal: bool = False) -> Items:
    """Tokenise the examples of a set into items of at most `length` tokens. causal: for a decoder."""
    items, count = [], len(task_set.examples)
    for start in range(0, count, TOKENISED_TOGETHER):
        examples = task_set.examples[start : start + TOKENISED_TOGETHER]
        for item in sets.task.encode(examples, sets.labels, tokenizer=tokenizer, length=length):
            items.append(replace(item, owner=item.owner + start) if start else item)
        progress(f"tokenising {task_set}", start + len(examples), count)
    joined = join_items(items)
    return read_at_ends(joined, marks(tokenizer)) if causal else joined


def tokenise_sets(
    sets: TaskSets, tokenizers: Sequence[Any], switching: Switching, *, length: int, causal: bool = False
) -> tuple[list[Items], list[str]]:
    """The training items, with translations last; then those of each evaluation set; and notes on all of the sets.

    tokenizers: one for each set of `TaskSets.all`. Owners are numbered consecutively over all training sets.
    """
    items = [tokenise_set(sets, *each, length=length, causal=causal) for each in zip(sets.all, tokenizers, strict=True)]
    count, trained = len(sets.train.examples), items[: len(sets.trained)]
    numbered = [replace(part, owners=part.owners + number * count) for number, part in enumerate(trained)]
    coverage = [dictionary_note(sets, switching)] if switching.lexicons else []
    notes = [*coverage, *sets.notes, *lost_notes(sets.all, items)]
    return [chain_items(numbered), *items[len(trained) :]], notes


def lost_notes(task_sets: Sequence[TaskSet], items: Sequence[Items]) -> list[str]:
    """Notes on sets with answers that the model does not see."""
    return [
        f"{part.lost:,} of {part.lost + int(part.targets.sum()):,} answers of {task_set} are beyond the model's length "
        "or have no token; they are not trained on, and wrong in a test"
        for task_set, part in zip(task_sets, items, strict=True)
        if part.lost
    ]


# --- translations of the training examples ---------------------------------------------------------------------------

RowKey = tuple[str, int]
"""A row's name ("" if it has none), and the number of rows of that name before it."""


def add_translations(sets: TaskSets, translated: Any, *, skip_bad: bool = False) -> TaskSets:
    """Add the translations `LANG=FILE[,FILE]` of --translated to the training sets.

    Sentence pairs are matched by their position in the file, questions by their id. A row that is bad in one language
    is left out of all of them, so that later rows still match. If bad rows are skipped, so are questions that are
    missing in one language; sentence pairs have no ids, so every language must have the same number of them.
    """
    others = language_files(translated, option="translated")
    segments = need_segments(sets.task, "--translated")
    if sets.source in others:
        raise InputError(f"--translated has a set of {sets.source}, the language of --train; leave it out")
    problems: list[str] = []
    problem: Problem = problems.append if skip_bad else fail
    files = [sets.train.files, *others.values()]
    rows: list[dict[RowKey, FileRow]] = []
    for paths in files:
        seen, side = Counter[str](), dict[RowKey, FileRow]()
        for entry in (entry for path in paths for entry in segments.rows(path, problem)):
            side[entry.name, seen[entry.name]] = entry
            seen[entry.name] += 1
        rows.append(side)
    # Rows without names correspond by position: if a file has more of them, it is unclear which one is superfluous.
    source, *unnamed = [[entry for (name, _), entry in side.items() if not name] for side in rows]
    for other, paths in zip(unnamed, files[1:], strict=True):
        if len(other) != len(source):
            longer, shorter = (source, paths) if len(source) > len(other) else (other, files[0])
            fewer = min(len(source), len(other))
            raise InputError(
                f"{longer[fewer].where}: this row has no counterpart in {_listed(shorter)}, which has {fewer:,} rows; "
                "--translated takes row by row translations of --train"
            )
    keys, bad = list[RowKey](), 0  # rows usable in every language, in the order of the source; number of other rows
    for key in dict.fromkeys(key for side in rows for key in side):
        versions = [side.get(key) for side in rows]
        if any(version is not None and version.bad for version in versions):
            bad += 1
        elif mismatch := _mismatch(segments, versions, files):
            problem(mismatch)
            bad += 1
        elif all(version is not None and version.example is not None for version in versions):
            keys.append(key)
    require(keys, f"{_listed(files[1])} has no row that is a translation of one of {_listed(files[0])}")
    first = problems[0] if problems else ""
    train, *rest = (
        TaskSet(
            language,
            _set_name(paths),
            examples=[side[key].example for key in keys],
            files=tuple(paths),
            skipped=bad,
            first_problem=first,
        )
        for language, paths, side in zip([sets.source, *others], files, rows, strict=True)
    )
    return replace(sets, train=train, translated=tuple(rest))


def need_segments(task: Task, option: str) -> Segments:
    """The segments of a task; a task without segments is refused."""
    if task.segments is None:
        raise InputError(
            f"{option} is for tasks whose examples have two segments of text, nli and qa; {task.name} labels single "
            "words, and a translation has other words"
        )
    return task.segments


def _mismatch(segments: Segments, versions: Sequence[FileRow | None], files: Sequence[Sequence[Path]]) -> str:
    """Why a row and its translations cannot be used together, or "" if they can."""
    first, *others = [version for version in versions if version is not None]
    for version, paths in zip(versions, files, strict=True):
        if version is None:
            return f"{first.where} is not in {_listed(paths)}; --translated takes translations of --train"
    for other in others:
        if (first.example is None) != (other.example is None):
            without, rest = (other, first) if other.example is None else (first, other)
            return f"{without.where}: this row has no gold label, and {rest.where} has one; translations share a label"
        if why := "" if first.example is None else segments.differ(first.example, other.example):
            return f"{other.where}: {why} in {first.where}, whose translation it should be"
    return ""


# --- code-switching --------------------------------------------------------------------------------------------------


def read_switching(sets: TaskSets, *, share: float, to: str, words: float, lexicon: Any) -> Switching:
    """Check the options of code-switching and read the dictionaries, `LANG=FILE[,FILE]`, from the source."""
    for name, value in (("switch", share), ("switch-words", words)):
        require(0 <= value <= 1, f"--{name} is a probability, from 0 to 1, not {value}")
    files = language_files(lexicon or [], option="lexicon")
    for name, given in (("switch", share), ("switch-words", words), ("lexicon", files)):
        if given:
            need_segments(sets.task, f"--{name}")
    if share and not sets.translated:
        raise InputError("--switch takes a segment from an example's translation; give --translated LANG=FILE")
    require(not words or files, "--switch-words takes words from dictionaries; give --lexicon LANG=FILE")
    lexicons = [read_lexicon(path, sets.source, language) for language, paths in files.items() for path in paths]
    return Switching(share, to, words, lexicons, joined_dictionary(lexicons))


def dictionary_note(sets: TaskSets, switching: Switching) -> str:
    """A note on the share of training words that are in the dictionaries; refused if there are none."""
    if not switching.words:
        return "no word is replaced by one of --lexicon: --switch-words is 0"
    known = total = 0
    for example in sets.train.examples[:LOOKED_UP]:
        for text, _ in need_segments(sets.task, "--switch-words").texts(example):
            total += len(spans(text, sets.source))
            known += len(known_words(text, switching.dictionary, language=sets.source))
    names = ", ".join(lexicon.name for lexicon in switching.lexicons)
    unknown = f"none of the {total:,} words of {sets.train} that were looked up is in {names}"
    require(known, f"{unknown}; check the languages of --lexicon")
    return f"{known / total:.0%} of the words of {sets.train}, punctuation included, are in {names}"


def switched_items(
    sets: TaskSets,
    items: Items,
    switching: Switching,
    seed: int,
    epoch: int,
    *,
    tokenizer: Any,
    length: int,
    causal: bool = False,
) -> Items:
    """The training items of an epoch: unswitched ones from `items`, switched ones newly tokenised."""
    changed = dict(switched_examples(sets, switching, seed=seed, epoch=epoch))
    if not changed:
        return items
    numbers = np.array(list(changed))
    switched = replace(sets.train, examples=list(changed.values()))
    with listening(silent):
        new = tokenise_set(sets, switched, tokenizer, length=length, causal=causal)
    unchanged = items.take(np.flatnonzero(~np.isin(items.owners, numbers)))
    both = chain_items([unchanged, replace(new, owners=numbers[new.owners])])
    return both.take(np.argsort(both.owners, kind="stable"))


def switched_examples(sets: TaskSets, switching: Switching, *, seed: int, epoch: int) -> Iterator[tuple[int, Example]]:
    """Number and new form of every training example that is changed in this epoch, in order.

    Examples are numbered consecutively over all training sets. Seed, epoch and number determine how an example is
    switched.
    """
    segments = need_segments(sets.task, "--switch")
    trained = [task_set.examples for task_set in sets.trained]
    count, others = len(trained[0]), max(1, len(trained) - 1)
    total, kinds = count * len(trained), len(segments.switched)
    draws = segment_draws(seed, epoch, count=total, share=switching.share, segments=kinds, others=others)
    for number, (segment, drawn) in enumerate(zip(*(draw.tolist() for draw in draws), strict=True)):
        language, position = divmod(number, count)
        old = example = trained[language][position]
        languages = [language] * len(segments.texts(example))  # of each segment, by number
        other = 0 if switching.to == "source" else drawn + (drawn >= language)  # `drawn` does not count `language`
        if segment >= 0 and other != language:  # a negative number leaves the example unchanged
            which = segments.switched[segment]
            example = segments.swap(example, trained[other][position], which)
            languages[which] = other
        if switching.words and 0 in languages:
            chance = np.random.default_rng(seed_of(seed, "words", epoch, number))
            how: dict[str, Any] = {"language": sets.source, "share": switching.words, "chance": chance}
            texts = [
                switch_words(text, switching.dictionary, kept=fixed, **how) if origin == 0 else Switched(text)
                for origin, (text, fixed) in zip(languages, segments.texts(example), strict=True)
            ]
            example = segments.rebuild(example, texts)
        if example != old:
            yield number, example
