"""Lines of text files, read strictly, and what a file's name says about its languages.

This is the one module that opens a text file.

A file is UTF-8, or it is refused with the number of the line that is not. Lines end at a line feed only:
`str.splitlines` would also cut at U+2028, U+0085 and form feeds, which occur inside sentences, and shift
every translation after them by one line. gzip and xz files are recognised by their first bytes.

Problems go to a callback. `fail`, the default, raises at the first; a checker passes one that collects.
"""

import gzip
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from isogloss.errors import InputError
from isogloss.text.languages import code, is_code

Source = str | os.PathLike[str]
Problem = Callable[[str], None]

# What reading a damaged archive may raise, besides the file system's own errors.
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
_ENDINGS = (".txt", ".tsv", ".conllu", ".json")
_GZIP, _XZ, _BOM = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\xef\xbb\xbf"


def fail(sentence: str) -> NoReturn:
    """Raise the problem as an InputError."""
    raise InputError(sentence)


def file_path(source: Source) -> Path:
    """The path of a file that must exist; a folder or nothing there is an InputError."""
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a file was expected")
    if not path.exists():
        # A hint: files next to the missing one that share its ending, or that the folder is missing too.
        if not path.parent.is_dir():
            raise InputError(f"{path} does not exist; nor does the folder {path.parent}")
        files = path.parent.glob(f"*{path.suffix}") if path.suffix else ()
        near = sorted(each.name for each in files if each.is_file())
        hint = f"; {path.parent} has {', '.join(near[:5])}{' ...' if len(near) > 5 else ''}" if near else ""
        raise InputError(f"{path} does not exist{hint}")
    return path


def open_bytes(source: Source) -> BinaryIO:
    """The file's bytes, decompressed where it begins as a gzip or xz file does."""
    path = file_path(source)
    try:
        with path.open("rb") as file:
            start = file.read(6)
        if start.startswith(_GZIP):
            return cast(BinaryIO, gzip.open(path, "rb"))
        if start.startswith(_XZ):
            return cast(BinaryIO, lzma.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def stream_lines(source: Source, problem: Problem = fail) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of every line, one at a time.

    With a `problem` that returns, an undecodable line is given with replacement characters, so that counts
    stay right.
    """
    path = Path(source)
    number = 0
    with open_bytes(path) as file:
        try:
            for number, raw in enumerate(file, start=1):
                if number == 1 and raw.startswith(_BOM):
                    raw = raw[len(_BOM) :]
                try:
                    line = raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                        wrong = "this looks like UTF-16"
                    else:
                        byte, position = raw[error.start], error.start + 1
                        wrong = f"not valid UTF-8 (byte 0x{byte:02x} at position {position} of the line)"
                    problem(f"{path}:{number}: {wrong}; save the file as UTF-8")
                    line = raw.decode("utf-8", errors="replace")
                yield number, line.removesuffix("\n").removesuffix("\r")
        except DAMAGED as error:
            problem(f"{path}:{number + 1}: the compressed file is damaged or cut short ({error}); fetch it again")
            return
    if number == 0:
        problem(f"{path} is empty; text was expected")


def usable_lines(source: Source, problem: Problem) -> Iterator[tuple[int, str | None]]:
    """Number and text of every line; None in the place of one that is not UTF-8, whose problem is told.

    `stream_lines` gives such a line with replacement characters, so that counts stay right; a reader whose rows are
    trained on must leave it out.
    """
    problems: list[str] = []
    for number, line in stream_lines(source, problems.append):
        yield number, None if problems else line
        while problems:
            problem(problems.pop(0))
    for sentence in problems:
        problem(sentence)


def read_lines(source: Source) -> list[str]:
    r"""Every line without its ending: `\n` or `\r\n` is removed and nothing else, blank lines are kept."""
    return [line for _, line in stream_lines(source)]


def first_line(source: Source) -> str:
    """The first line only, for telling formats apart."""
    return next(stream_lines(source))[1]


def plain_name(source: Source) -> str:
    """The file's name without a compression suffix: `train.en` for `data/train.en.gz`."""
    name = Path(source).name
    return name.removesuffix(".gz").removesuffix(".xz")


def _stem(source: Source) -> str:
    name = plain_name(source)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def language_of(source: Source) -> str | None:
    """The language a file's name tells, or None: `nl` for `nl.txt`, `europarl.nl.txt`, `train.nl.gz`, `nl_x.conllu`."""
    name = plain_name(source)
    if name.endswith(".conllu"):
        first = name.split("_")[0]
        return code(first) if is_code(first) else None
    last = re.split(r"[.\-_]", _stem(source))[-1]
    return code(last) if last.islower() and is_code(last) else None


def languages_of(source: Source) -> tuple[str, ...] | None:
    """The languages a many-language file's name tells, or None: `("en", "nl")` for `qgis.en-nl.tsv`."""
    for part in _stem(source).split("."):
        codes = part.split("-")
        if len(codes) > 1 and all(each.islower() and is_code(each) for each in codes):
            return tuple(code(each) for each in codes)
    return None


def check_order(files: Sequence[Source], languages: Sequence[str]) -> None:
    """Refuse languages that the files' names have in another order: each text would be taken for the other's."""
    named = [language_of(file) for file in files]
    if None in named or named == list(languages) or {*named} != {*languages}:
        return
    raise InputError(
        f"{', '.join(str(file) for file in files)}: by their names these are {', '.join(map(str, named))}, and they "
        f"were given as {', '.join(languages)}; change the order of the files or of the languages"
    )
