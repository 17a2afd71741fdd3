"""Lines of text files, read strictly: the one place that opens a text file.

A file is UTF-8, or it is refused with the number of the line that is not. Lines end at a line feed only:
`str.splitlines` would also cut at U+2028, U+0085 and form feeds, which occur inside sentences, and shift
every translation after them by one line. gzip and xz files are recognised by their first bytes.

Problems go to a callback. `fail`, the default, raises at the first; a checker passes one that collects.
"""

import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from isogloss.errors import InputError

Source = str | os.PathLike[str]
Problem = Callable[[str], None]

# What reading a damaged archive may raise, besides the file system's own errors.
DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error)
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
        raise InputError(f"{path} does not exist{_neighbours(path)}")
    return path


def _neighbours(path: Path) -> str:
    """A hint: files next to the missing one that share its ending, or that the folder is missing too."""
    if not path.parent.is_dir():
        return f"; nor does the folder {path.parent}"
    like = sorted(near.name for near in path.parent.glob(f"*{path.suffix}") if near.is_file()) if path.suffix else []
    if not like:
        return ""
    return f"; {path.parent} has {', '.join(like[:5])}{' ...' if len(like) > 5 else ''}"


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
                    problem(f"{path}:{number}: {_undecodable(raw, error.start)}")
                    line = raw.decode("utf-8", errors="replace")
                yield number, line.removesuffix("\n").removesuffix("\r")
        except DAMAGED as error:
            problem(f"{path}:{number + 1}: the compressed file is damaged or cut short ({error}); fetch it again")
            return
    if number == 0:
        problem(f"{path} is empty; text was expected")


def _undecodable(raw: bytes, at: int) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "this looks like UTF-16; save the file as UTF-8"
    return f"not valid UTF-8 (byte 0x{raw[at]:02x} at position {at + 1} of the line); save the file as UTF-8"


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
