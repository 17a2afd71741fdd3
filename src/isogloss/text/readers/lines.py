"""Text files: strict reading of lines, the languages in a file's name, and parallel tables.

Only this module opens text files.

A file must be UTF-8; otherwise the problem names the line that is not. Lines end at a line feed only: `str.splitlines`
would also split at U+2028, U+0085 and form feeds, which occur inside sentences, and shift every translation after them
by one line. gzip and xz files are recognised by their first bytes.

Problems are passed to a callback. `fail`, the default, raises at the first; a checker passes one that collects them.

A parallel table is tab-separated. It has a header of language codes (`en<TAB>nl`), or none if the languages are given
by its name (`en-nl.tsv`) or by the caller; codes of other languages than the name's are text, not a header. Other
columns must be named `key`, `kind`, `genre`, `domain`, `label` or `split`, or begin with `#`; they are ignored, and any
other name is an error (`id` is Indonesian: call it `#id`). Quotation marks have no special meaning: a cell is the text
between two tabs. A file with ` ||| ` between the sides is read in the same way, but has no header.
"""

import gzip
import json
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

from isogloss.errors import InputError, require
from isogloss.text.corpora import Corpus
from isogloss.text.languages import code, is_code, name as language_name

Source = str | os.PathLike[str]
Problem = Callable[[str], None]
T = TypeVar("T")

# Exceptions of damaged archives, in addition to those of the file system.
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
IGNORED = frozenset({"key", "kind", "genre", "domain", "label", "split"})
HEADINGS = frozenset({"source", "target", "src", "tgt", "trg", "sentence1", "sentence2", "text", "translation"})
BARS = "|||"
SIDE = r"[-_.](src|ref)$"  # in the stem of a file: the side of a translation
HUB = "hf:"
LONGEST = 1 << 26  # bytes of a line
EXPANDED, EXPANSION = 1 << 28, 200  # largest decompressed size in bytes, and beyond it, largest ratio
_OPENERS = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}


def fail(sentence: str) -> NoReturn:
    """Raise the problem as an InputError."""
    raise InputError(sentence)


class BadRow(ValueError):
    """A problem of a row, `BadRow(line number, sentence)`, which the reader reports with the file."""


def require_rows(rows: Iterable[T], source: Source, what: str) -> list[T]:
    """The rows of a file as a list; if there are none, an InputError says that the file has no `what`."""
    usable = list(rows)
    require(usable, f"{Path(source)} has no {what} that can be used")
    return usable


def file_path(source: Source) -> Path:
    """The path of a file; a folder or a missing file is an InputError."""
    path = Path(source)
    require(not path.is_dir(), f"{path} is a folder; a file was expected")
    if not path.exists():
        # A hint: files in the same folder with the same ending, or that the folder is missing too.
        require(path.parent.is_dir(), f"{path} does not exist; nor does the folder {path.parent}")
        files = path.parent.glob(f"*{path.suffix}") if path.suffix else ()
        near = sorted(each.name for each in files if each.is_file())
        hint = f"; {path.parent} has {', '.join(near[:5])}{' ...' if len(near) > 5 else ''}" if near else ""
        raise InputError(f"{path} does not exist{hint}")
    return path


def open_bytes(source: Source) -> BinaryIO:
    """Open a file for reading bytes, decompressed if it begins like a gzip or xz file."""
    path = file_path(source)
    try:
        with path.open("rb") as file:
            start = file.read(6)
        opener: Any = next((each for mark, each in _OPENERS.items() if start.startswith(mark)), open)
        return cast(BinaryIO, opener(path, "rb"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def usable_lines(source: Source, problem: Problem) -> Iterator[tuple[int, str | None]]:
    """Number (from 1) and text of every line; the text is None if it is not UTF-8, which is reported."""
    path = Path(source)
    number = 0
    with open_bytes(path) as file:
        left = max(EXPANDED, EXPANSION * path.stat().st_size)
        try:
            for number, raw in enumerate(iter(partial(file.readline, LONGEST), b""), start=1):
                left -= len(raw)
                if len(raw) == LONGEST or left < 0:
                    what = "has a line of more than 64 MB" if left >= 0 else f"unpacks to {EXPANSION} times its size"
                    problem(f"{path}:{number}: the file {what}, so it is hardly text; check where it comes from")
                    return
                line = None
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    wrong = f"not valid UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line)"
                    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                        wrong = "this looks like UTF-16"
                    problem(f"{path}:{number}: {wrong}; save the file as UTF-8")
                yield number, None if line is None else line.removesuffix("\n").removesuffix("\r")
        except DAMAGED as error:
            problem(f"{path}:{number + 1}: the compressed file is damaged or cut short ({error}); fetch it again")
            return
    if number == 0:
        problem(f"{path} is empty; text was expected")


def stream_lines(source: Source, problem: Problem = fail) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of every line, one at a time.

    If `problem` returns, a line that is not UTF-8 is yielded as an empty one, so that line counts stay right.
    """
    for number, line in usable_lines(source, problem):
        yield number, line or ""


def read_lines(source: Source) -> list[str]:
    r"""Every line without its ending: `\n` or `\r\n` is removed and nothing else, blank lines are kept."""
    return [line for _, line in stream_lines(source)]


def paragraphs(paths: Sequence[Path], *, keep: Callable[[str], bool] = bool) -> Iterator[str]:
    """Stripped lines of plain text files, one at a time; empty lines are left out.

    A file that is missing, empty or not UTF-8 is an InputError with its name and the line.

    Args:
        paths: the files, read one after the other.
        keep: whether to keep a paragraph; by default all are kept.
    """
    for path in paths:
        for _, line in stream_lines(path):
            text = line.strip()
            if text and keep(text):
                yield text


def first_line(source: Source) -> str:
    """The first line only, for detecting formats."""
    return next(stream_lines(source))[1]


def parse_json(text: str) -> Any:
    """Parse JSON; every problem is a `json.JSONDecodeError`, which has a line."""
    try:
        value = json.loads(text)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise json.JSONDecodeError("it is nested too deeply", text, 0) from error
    except UnicodeEncodeError as error:
        raise json.JSONDecodeError("half a character, a lone surrogate", text, text.find("\\u")) from error
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError):
            raise
        raise json.JSONDecodeError(str(error).partition(";")[0], text, 0) from error  # a number of thousands of digits
    return value


def plain_name(source: Source) -> str:
    """The file's name without a compression suffix: `train.en` for `data/train.en.gz`."""
    return Path(source).name.removesuffix(".gz").removesuffix(".xz")


def is_treebank(source: Source) -> bool:
    """Whether the file's name is that of a treebank."""
    return plain_name(source).endswith(".conllu")


def _stem(source: Source) -> str:
    return re.sub(r"\.(txt|tsv|conllu|json)$", "", plain_name(source))


def language_of(source: Source) -> str | None:
    """The language in a file's name, or None: `nl` for `nl.txt`, `europarl.nl.txt`, `train.nl.gz`, `nl_x.conllu`."""
    part = plain_name(source).split("_")[0] if is_treebank(source) else re.split(r"[.\-_]", _stem(source))[-1]
    return code(part) if part.islower() and is_code(part) else None


def languages_of(source: Source) -> tuple[str, ...] | None:
    """The languages in the name of a multilingual file, or None: `("en", "nl")` for `qgis.en-nl.tsv`."""
    for part in _stem(source).split("."):
        codes = part.split("-")
        if len(codes) > 1 and all(each.islower() and is_code(each) for each in codes):
            return tuple(code(each) for each in codes)
    return None


def header(cells: Sequence[str]) -> list[str | None] | None:
    """The language code of each column (None for an ignored one), or None if these cells are not a header.

    >>> header(["key", "en", "nld"])
    [None, 'en', 'nl']
    """
    names = [cell.strip() for cell in cells]
    languages = [each for each in names if not _is_ignored(each)]
    if not languages or not all(map(is_code, languages)):
        return None
    return [None if _is_ignored(each) else code(each) for each in names]


def file_header(source: Source, cells: Sequence[str]) -> list[str | None] | None:
    """`header` of a file's first row; None if the file's name gives equally many languages, but different ones.

    Short words look like codes: in `qgis.en-nl.tsv` a first row of `No` and `Ne` is text.
    """
    columns, named = header(cells), languages_of(source) or ()
    return None if columns and len(named) == len(columns) and {*named} != {*columns} else columns


def header_languages(source: Source) -> tuple[str, ...]:
    """The languages in the header of a table; empty if the first line of the file is not a header."""
    cells = first_line(source).split("\t")
    return tuple(filter(None, file_header(source, cells) or ())) if len(cells) > 1 else ()


def _is_ignored(column: str) -> bool:
    return column.startswith("#") or column.lower() in IGNORED


def pick_languages(wanted: Sequence[str] | None, available: Sequence[str], *, where: object) -> list[str]:
    """The wanted languages in their order, or all available ones; a missing one is an InputError.

    Args:
        wanted: canonical codes, or None for all of `available`.
        available: the canonical codes to choose from.
        where: the file or folder, for the message.
    """
    missing = [each for each in wanted or () if each not in available]
    require(not missing, f"{where} has no language {', '.join(missing)}; it has {', '.join(available)}")
    return list(available if wanted is None else wanted)


@dataclass(frozen=True)
class ParallelTable:
    """Columns with their languages (None: an ignored one), in one file, or each in a separate line-aligned file."""

    files: tuple[Path, ...]
    columns: tuple[str | None, ...]
    name: str
    has_header: bool = False
    bars: bool = False

    @property
    def languages(self) -> list[str]:
        """The languages of the columns that are not ignored."""
        return [column for column in self.columns if column is not None]

    def rows(self, languages: Sequence[str] | None = None, problem: Problem = fail) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of each row; a row with another number of cells is a problem.

        Args:
            languages: the columns to read, in the order of the cells; all by default.
            problem: called with a sentence for each bad row; by default it raises.
        """
        path = self.files[0]
        wanted = pick_languages(languages, self.languages, where=path)
        if len(self.files) > 1:
            files = [self.file_of(each) for each in wanted]
            for number, row in enumerate(zip_longest(*map(stream_lines, files)), start=1):
                if None in row:
                    short = files[row.index(None)]
                    long = next(file for file, line in zip(files, row, strict=True) if line)
                    counts = f"{short} has {number - 1:,} lines, {long} has more"
                    raise InputError(f"line-aligned files must have equally many lines: {counts}")
                yield number, [text for _, text in row]
            return
        for number, line in usable_lines(path, problem):
            if line is None or (number == 1 and self.has_header):
                continue
            cells = line.split(BARS if self.bars else "\t")
            if len(cells) != len(self.columns):
                parts, separator = ("sides", "' ||| '") if self.bars else ("cells", "tabs")
                width = f"{len(cells)} {parts} where {len(self.columns)} were expected"
                problem(f"{path}:{number}: {width}, separated by {separator}")
                continue
            if self.bars:
                cells = [cell.removeprefix(" ").removesuffix(" ") for cell in cells]
            yield number, [cells[self.columns.index(each)] for each in wanted]

    def file_of(self, language: str) -> Path:
        """The file with the column of a language."""
        return self.files[self.columns.index(language)] if len(self.files) > 1 else self.files[0]

    def read(self, languages: Sequence[str] | None = None) -> list[Corpus]:
        """A corpus for each of these languages, by default all; all rows are kept."""
        wanted = pick_languages(languages, self.languages, where=self.files[0])
        rows = [cells for _, cells in self.rows(wanted)]
        return [
            Corpus(each, [cells[side] for cells in rows], name=self.file_of(each).name)
            for side, each in enumerate(wanted)
        ]


def aligned_sets(folder: Path, ending: str = "") -> list[ParallelTable]:
    """Line-aligned sets of a folder, one for each stem, of files with names such as `train.en.gz`.

    `source.en.txt` is included only if `ending` is `.txt`, since monolingual text has such names as well.
    `news-src.en.txt` and `news-ref.nl.txt`, named as by WMT, belong to one set.
    """
    sets: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        name = plain_name(path)
        stem, dot, last = name.removesuffix(ending).rpartition(".")
        if (dot or ending) and name.endswith(ending) and last.islower() and is_code(last) and path.is_file():
            sets.setdefault(re.sub(SIDE, "", stem) or folder.resolve().name, {})[code(last)] = path
    return [ParallelTable((*files.values(),), (*files,), stem) for stem, files in sets.items() if len(files) > 1]


def open_table(path: Path, languages: Sequence[str] | None = None) -> ParallelTable:
    """Determine the columns of a table from its first line.

    Without a header the languages come from the file's name, or else from the caller, in order.

    Args:
        path: the file.
        languages: the languages of the columns, or a choice of them.
    """
    first = first_line(path)
    bars = BARS in first and "\t" not in first
    cells = first.split(BARS if bars else "\t")
    columns = None if bars else file_header(path, cells)
    if columns is not None:
        twice = sorted(each for each, times in Counter(filter(None, columns)).items() if times > 1)
        require(not twice, f"{path}:1: the header names the language {', '.join(twice)} twice")
        return ParallelTable((path,), tuple(columns), path.name, has_header=True)
    known = next((each for each in (languages_of(path), languages) if each and len(each) == len(cells)), None)
    if known is None and bars:
        raise InputError(
            f"{path}: give the languages of its sides in order, such as en,nl, or name the file like x.en-nl.txt"
        )
    if known is None and any(map(is_code, cells)):  # a misspelt header, not sentences
        strange = [cell for cell in cells if not _is_ignored(cell) and not is_code(cell)]
        raise InputError(
            f"{path}:1: the header has {', '.join(map(repr, strange[:3]))}, which is no language code; other "
            f"columns must begin with # or be called one of {', '.join(sorted(IGNORED))}"
        )
    if known is None and len(cells) == 1:
        raise InputError(
            f"{path}:1: there is no tab on the first line; a bitext is one file per language, or a table with a "
            "header of languages such as en<TAB>nl"
        )
    if known is None:
        given = "no languages were given" if languages is None else f"{len(languages)} languages were given"
        named = languages or ("en", "nl")
        rest = [f"#{number}" for number in range(len(named) + 1, len(cells) + 1)]
        raise InputError(
            f"{path}:1: the first line is no header of language codes, it has {len(cells)} cells and {given}; "
            f"put a header such as {'<TAB>'.join([*named, *rest])} on line 1 (columns that begin with # are not "
            "read), name the file like x.en-nl.tsv, or give one language per column"
        )
    if {cell.strip().lower() for cell in cells} <= HEADINGS | {language_name(each).lower() for each in known}:
        raise InputError(
            f"{path}:1: {', '.join(map(repr, cells))} looks like a header, but names no language codes; "
            f"write {'<TAB>'.join(known)} there, or take the line out"
        )
    return ParallelTable((path,), tuple(known), path.name, bars=bars)
