"""A language's text as token ids on disk: written once, end to end, then read at any place without loading it.

Every paragraph stands as `[CLS] ... [SEP]`, and the next one follows at once. Training cuts rows of a fixed length
out of this, so that nothing is padded. The ids are a plain `.npy` file (memory-mapped: a corpus larger than memory
works), the counts a `.json` file beside it.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tokenizers import Tokenizer

from isogloss.errors import InputError
from isogloss.files import whole, write_text
from isogloss.progress import Progress, silent
from isogloss.text.readers.lines import stream_lines
from isogloss.text.words import spans

_PARAGRAPHS, _CHARACTERS = 2_000, 2_000_000  # of one chunk, whichever is reached first
HEADER = 128  # bytes; the array follows, aligned


@dataclass(frozen=True)
class Stream:
    """One language's text as token ids.

    ids: (tokens,), uint16, or uint32 where the vocabulary needs it, memory-mapped. words: as `isogloss.text.words`
    divides text, punctuation marks and single ideographs included.
    """

    language: str
    ids: np.ndarray
    paragraphs: int
    characters: int
    words: int

    @property
    def tokens(self) -> int:
        """Number of token ids, special tokens included."""
        return len(self.ids)


@dataclass(frozen=True)
class _Facts:
    """What the `.json` file holds."""

    language: str
    tokens: int
    paragraphs: int
    characters: int
    words: int


def everything(paragraph: str) -> bool:
    """Keep every paragraph."""
    return True


def paragraphs(paths: Sequence[Path], *, keep: Callable[[str], bool] = everything) -> Iterator[str]:
    """Lines of plain text files, stripped, one at a time; empty lines and those `keep` refuses are left out.

    A file that is missing, empty or not UTF-8 is an InputError that names it, and the line.
    """
    for path in paths:
        for _, line in stream_lines(path):
            text = line.strip()
            if text and keep(text):
                yield text


def pack(
    tokenizer: Any,
    texts: Iterable[str],
    path: Path,
    *,
    language: str,
    total: int = 0,
    progress: Progress = silent,
) -> Stream:
    """Write paragraphs as token ids to `path` (`.npy`) and their counts beside it (`.json`), whole or not at all.

    Nothing is cut: a paragraph may be longer than the model. A `[MASK]` or `[SEP]` written in the text is text.
    total: bytes of text expected, if known, for progress.

    >>> pack(tokenizer, ["a cat", "a dog"], Path("en.npy"), language="en").tokens  # doctest: +SKIP
    8
    """
    # A copy: transformers leaves the truncation of its last call in the tokenizer.
    machine = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    machine.no_truncation()
    machine.no_padding()
    machine.encode_special_tokens = True
    kind = np.dtype("<u2" if len(tokenizer) <= 2**16 else "<u4")
    tokens = count = characters = words = done = 0
    with whole(path) as beside, beside.open("wb") as file:
        file.write(bytes(HEADER))
        for chunk in _chunks(texts):
            encoded = machine.encode_batch_fast(chunk)
            ids = np.fromiter(itertools.chain.from_iterable(one.ids for one in encoded), dtype=kind)
            file.write(ids.tobytes())
            tokens += len(ids)
            count += len(chunk)
            characters += sum(map(len, chunk))
            words += sum(len(spans(text, language)) for text in chunk)
            done += sum(len(text.encode()) + 1 for text in chunk)
            progress(f"packing {language}", done, max(total, done))
        if done < total:
            progress(f"packing {language}", total, total)
        write_header(file, kind, tokens)
        _facts_path(path).unlink(missing_ok=True)  # counts never stand beside ids they are not of
    write_text(_facts_path(path), json.dumps(asdict(_Facts(language, tokens, count, characters, words)), indent=1))
    return open_stream(path)


def open_stream(path: Path) -> Stream:
    """The stream that `pack` wrote to this path; the ids stay on disk."""
    facts = _read_facts(path)
    try:
        ids = np.load(path, mmap_mode="r", allow_pickle=False) if facts.tokens else np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(
            f"{path} is not a stream of token ids, or is cut short ({error}); pack the text again"
        ) from error
    if ids.ndim != 1 or ids.dtype.kind != "u" or len(ids) != facts.tokens:
        raise InputError(f"{path} does not hold the {facts.tokens:,} tokens its counts speak of; pack the text again")
    return Stream(facts.language, ids, facts.paragraphs, facts.characters, facts.words)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Some thousand paragraphs at a time, fewer when they are long."""
    chunk: list[str] = []
    length = 0
    for text in texts:
        chunk.append(text)
        length += len(text)
        if len(chunk) >= _PARAGRAPHS or length >= _CHARACTERS:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk


def write_header(file: BinaryIO, kind: np.dtype[Any], count: int) -> None:
    """Go back and say what the file holds, in the format of numpy's `.npy` files, version 1.0."""
    magic = np.lib.format.magic(1, 0)
    text = f"{{'descr': '{kind.str}', 'fortran_order': False, 'shape': ({count},), }}"
    room = HEADER - len(magic) - 2
    file.seek(0)
    file.write(magic + room.to_bytes(2, "little") + text.encode().ljust(room - 1) + b"\n")


def _facts_path(path: Path) -> Path:
    return path.with_suffix(".json")


def _read_facts(path: Path) -> _Facts:
    facts = _facts_path(path)
    if not path.is_file() or not facts.is_file():
        raise InputError(f"{path} and {facts.name} are not both there; pack the text again")
    try:
        return _Facts(**json.loads(facts.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"{facts} does not hold the counts of a stream ({error}); pack the text again") from error
