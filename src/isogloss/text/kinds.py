"""What a file of a data folder is, by its name and its first lines: which reader fits, and in which languages.

| kind | what it looks like |
|---|---|
| `table` | tab-separated, a header of language codes |
| `pairs` | tab-separated without a header, named after its languages: `en-nl.tsv` |
| `aligned` | one sentence a line, parallel to its neighbours: `train.en.gz` beside `train.de.gz` |
| `lines` | one sentence or paragraph a line: `source.en.txt` |
| `treebank` | CoNLL-U |
| `dictionary` | a word and its translation on each line: `en-de.0-5000.txt` |
| `tags` | a word and its tag on each line, blank lines between sentences |
| `inference` | premise, hypothesis and label: a table or JSON lines |
| `questions` | SQuAD-like JSON |
| `notes` | a README, a licence, check sums |
| `unknown` | anything else |
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.languages import code
from isogloss.text.readers.folders import aligned_sets
from isogloss.text.readers.lines import DAMAGED, open_bytes, plain_name, stream_lines
from isogloss.text.readers.names import language_of, languages_of
from isogloss.text.readers.tables import header

SUMS = "SHA256SUMS"
LABELS = frozenset({"entailment", "neutral", "contradiction"})
TAG = re.compile(r"O|[BI]-\S+")
_PREMISE = ("sentence1", "sentence_A", "premise")
# CoNLL-2002 calls its languages by their own names.
_OWN_NAMES = {"ned": "nl", "esp": "es", "deu": "de", "eng": "en"}
_LOOK = 20
_HEAD = 65536


def kind_of(path: Path, aligned: bool | None = None) -> str:
    """The kind of a file, see the table above; `aligned` says whether it is known to have parallel neighbours."""
    name = plain_name(path)
    if name == SUMS or name.endswith(".md") or re.match(r"(?i)(readme|licen[cs]e|copying|notice)\b", name):
        return "notes"
    try:
        if name.endswith(".conllu"):
            return "treebank"
        if name.endswith((".json", ".jsonl")):
            return _json_kind(path)
        lines = [line for _, line in islice(stream_lines(path, _ignore), _LOOK)]
    except InputError:
        return "unknown"
    if aligned if aligned is not None else path in _aligned_files(path.parent):
        return "aligned"
    return _text_kind(path, lines)


def _ignore(sentence: str) -> None:
    """Looking is not checking: what is wrong with the file is told when it is read."""


def _aligned_files(folder: Path) -> set[Path]:
    return {path for files in aligned_sets(folder).values() for path in files.values()}


def _json_kind(path: Path) -> str:
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
    except DAMAGED:
        return "questions"  # so that a check says it is damaged
    if b'"paragraphs"' in head:
        return "questions"
    return "inference" if any(f'"{name}"'.encode() in head for name in _PREMISE) else "unknown"


def _text_kind(path: Path, lines: Sequence[str]) -> str:
    filled = [line for line in lines if line.strip()]
    if not filled:
        return "lines"  # so that a check says it is empty
    cells = lines[0].split("\t")
    if len(cells) > 1 and header(cells) is not None:
        return "table"
    if any(name in cells for name in _PREMISE):
        return "inference"
    if _mostly(filled, lambda line: 2 <= len(line.split()) <= 4 and TAG.fullmatch(line.split()[-1]) is not None):
        return "tags"
    if len(cells) == 3 and cells[-1].lower() in LABELS:
        return "inference"
    named = languages_of(path)
    if named is not None and len(cells) == len(named) and path.suffix != ".txt":
        return "pairs"
    if named is not None and len(named) == 2 and _mostly(filled, _is_word_pair):
        return "dictionary"
    told = plain_name(path).endswith(".txt") or language_of(path) is not None
    return "lines" if told and len(cells) == 1 else "unknown"


def _mostly(lines: Sequence[str], fits: Callable[[str], bool]) -> bool:
    """Whether half of the lines or more fit, so that a slip in one does not hide what the file is."""
    return 2 * sum(fits(line) for line in lines) >= len(lines)


def _is_word_pair(line: str) -> bool:
    return len(line.split("\t" if "\t" in line else None)) == 2


def languages_in(path: Path, kind: str) -> tuple[str, ...]:
    """The languages of a file, by its header or its name; empty where neither tells."""
    if kind in ("notes", "unknown"):
        return ()
    if kind == "table":
        columns = header(next(stream_lines(path, _ignore))[1].split("\t")) or []
        return tuple(each for each in columns if each is not None)
    if kind == "tags":
        own = [_OWN_NAMES[part] for part in path.name.split(".") if part in _OWN_NAMES]
        if own:
            return tuple(own)
    if kind == "aligned":
        return (code(plain_name(path).rpartition(".")[2]),)
    several = languages_of(path)
    if several is not None:
        return several
    one = language_of(path)
    return (one,) if one else ()


def row_count(path: Path, kind: str) -> int:
    """How many rows, by counting bytes: sentences, pairs, questions. Fast, and right for well-formed files."""
    if kind == "treebank":
        return sum(line.startswith(b"1\t") for line in _raw_lines(path))
    if kind == "tags":
        return _blocks(path)
    if kind == "questions":
        return sum(line.count(b'"question"') for line in _raw_lines(path))
    lines = sum(1 for _ in _raw_lines(path))
    return lines - 1 if kind == "table" or (kind == "inference" and _has_header(path)) else lines


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Lines as bytes, up to where a damaged archive ends: counting is not checking."""
    with open_bytes(path) as file, suppress(*DAMAGED):
        yield from file


def _blocks(path: Path) -> int:
    """Runs of lines between blank ones."""
    count, inside = 0, False
    for line in _raw_lines(path):
        filled = bool(line.strip())
        count += filled and not inside
        inside = filled
    return count


def _has_header(path: Path) -> bool:
    cells = next(stream_lines(path, _ignore))[1].split("\t")
    return any(name in cells for name in _PREMISE)
