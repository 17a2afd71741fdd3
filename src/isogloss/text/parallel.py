"""Pairs of translations from files of any size, one pair at a time: nothing is held in memory.

| given | read as |
|---|---|
| `en-nl=en.txt,nl.txt` | two line-aligned files |
| `en-nl=table.tsv` | two columns of a table, by its header, its name or their order; or `a ||| b` lines |
| `table.en-de-nl.tsv` | every language of a table with English, or with its first language |
| a folder, or the name of a data set | its tables, line-aligned sets or Tatoeba files, by their names |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.text.catalog import resolve
from isogloss.text.corpora import Bitext
from isogloss.text.languages import code
from isogloss.text.readers.folders import aligned_sets, aligned_texts, headed_tables, pair_tables, tatoeba_files
from isogloss.text.readers.lines import file_path, first_line, stream_lines
from isogloss.text.readers.names import check_order, languages_of, pick
from isogloss.text.readers.tables import BARS, stream_bars, stream_table, table_columns

Pair = tuple[str, str]
Given = str | Path | Bitext | Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class Pairs:
    """Where pairs of two languages come from: `open()` reads them from the beginning, in order.

    files: what is read, empty where a `Bitext` is in memory, whose fingerprint is `mark`.
    """

    languages: tuple[str, str]
    name: str
    open: Callable[[], Iterator[Pair]]
    files: tuple[Path, ...] = ()
    mark: str = ""

    @property
    def title(self) -> str:
        """Such as `en-nl`."""
        return "-".join(self.languages)


def find_pairs(given: Given, *, option: str = "train") -> list[Pairs]:
    """What the entries of an option name, see the table above; in Python also files by languages, or a `Bitext`.

    >>> find_pairs({"en-nl": ("en.txt", "nl.txt")})[0].title  # doctest: +SKIP
    'en-nl'
    """
    found = [one for entry in _entries(given) for one in _read(entry, option)]
    if not found:
        raise InputError(f"--{option} is missing: give SOURCE-TARGET=FILE,FILE, a table or a folder of parallel text")
    return found


def stream_aligned(first: Path, second: Path) -> Iterator[Pair]:
    """Lines of two files that translate each other; files of unequal length are refused when the shorter one ends."""
    for number, (one, other) in enumerate(zip_longest(stream_lines(first), stream_lines(second)), 1):
        if one is None or other is None:
            short, long = (first, second) if one is None else (second, first)
            raise InputError(
                f"line-aligned files must have equally many lines: {short} has {number - 1:,} lines, {long} has more"
            )
        yield one[1], other[1]


def _entries(given: Given) -> Iterator[Any]:
    if isinstance(given, Mapping):
        for languages, files in given.items():
            several = [files] if isinstance(files, str | Path) else list(files)
            yield f"{languages}={','.join(map(str, several))}"
    elif isinstance(given, str | Path | Bitext):
        yield given
    else:
        yield from given


def _read(entry: Any, option: str) -> Iterator[Pairs]:
    if isinstance(entry, Bitext):
        yield from _memory(entry, option)
        return
    languages, equals, files = str(entry).partition("=")
    if not equals:
        path = Path(resolve(str(entry)))
        yield from _folder(path, option) if path.is_dir() else _table(file_path(path), None, option)
        return
    named = tuple(code(one.strip()) for one in languages.split("-"))
    paths = [file_path(one.strip()) for one in files.split(",") if one.strip()]
    if len(named) != 2 or len(paths) not in (1, 2):
        raise InputError(
            f"--{option} takes SOURCE-TARGET=FILE,FILE, SOURCE-TARGET=TABLE, a table or a folder, not {str(entry)!r}"
        )
    if named[0] == named[1]:
        raise InputError(f"--{option} {entry}: {named[0]} is named twice; alignment needs two languages")
    both = (named[0], named[1])
    if len(paths) == 2:
        check_order(paths, both)
    yield from _aligned(paths[0], paths[1], both) if len(paths) == 2 else _table(paths[0], both, option)


def _aligned(first: Path, second: Path, languages: tuple[str, str]) -> Iterator[Pairs]:
    name = f"{first.name} {second.name}"
    yield Pairs(languages, name, partial(stream_aligned, first, second), (first, second))


def _table(path: Path, languages: tuple[str, str] | None, option: str) -> Iterator[Pairs]:
    line = first_line(path)
    if BARS in line and "\t" not in line:
        yield _bars(path, languages or languages_of(path), option)
        return
    columns, has_header = table_columns(path, languages)
    there = pick(languages, [one for one in columns if one is not None], where=path)
    for source, target in [languages] if languages else _with_centre(there, str(path), option):
        places = columns.index(source), columns.index(target)

        def read(places: tuple[int, int] = places) -> Iterator[Pair]:
            for _, cells in stream_table(path, len(columns), skip=int(has_header)):
                yield cells[places[0]], cells[places[1]]

        yield Pairs((source, target), path.name, read, (path,))


def _bars(path: Path, languages: Sequence[str] | None, option: str) -> Pairs:
    """The sides of `a ||| b` lines."""
    if languages is None or len(languages) != 2:
        raise InputError(f"--{option} {path}: say of which languages its sides are, as in en-nl={path.name}")

    def read() -> Iterator[Pair]:
        for _, cells in stream_bars(path, 2):
            yield cells[0], cells[1]

    return Pairs((languages[0], languages[1]), path.name, read, (path,))


def _folder(folder: Path, option: str) -> Iterator[Pairs]:
    sets = aligned_sets(folder)
    tables = pair_tables(folder) or ({} if sets else headed_tables(folder))
    if tatoeba := tatoeba_files(folder):
        for other, (english, path) in tatoeba.items():
            yield from _aligned(english, path, ("en", other))
    elif tables:
        for path in tables:
            yield from _table(path, None, option)
    elif sets := sets or aligned_texts(folder):
        for stem, files in sets.items():
            for source, target in _with_centre(list(files), stem, option):
                yield from _aligned(files[source], files[target], (source, target))
    else:
        raise InputError(
            f"{folder} holds no parallel text by the names of its files; expected tatoeba.xxx-eng.xxx, en-nl.tsv, "
            f"train.en and train.nl, or en.txt and nl.txt; give --{option} SOURCE-TARGET=FILE,FILE instead"
        )


def _memory(bitext: Bitext, option: str) -> Iterator[Pairs]:
    for source, target in _with_centre(list(bitext.languages), bitext.name or "the bitext", option):
        sides = bitext[source].sentences, bitext[target].sentences
        name = bitext.name or f"{source}-{target}"
        yield Pairs((source, target), name, partial(zip, *sides, strict=True), mark=bitext.fingerprint)


def _with_centre(languages: Sequence[str], where: str, option: str) -> Iterator[tuple[str, str]]:
    """English with each other language, or the first one where there is no English."""
    if len(languages) < 2:
        raise InputError(f"--{option} {where} has one language only, {', '.join(languages)}; alignment needs two")
    centre = "en" if "en" in languages else languages[0]
    yield from ((centre, other) for other in languages if other != centre)
