"""A folder of data sets: what is in it, what kind each file is, and data sets called by name.

The layout is one folder a data set, each with a README: `DATA/tatoeba/...`, `DATA/xnli/...`. The folder is told by
`--data DIR` or the environment variable ISOGLOSS_DATA. The kind of a file shows in its name and its first lines:

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

import difflib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.text.languages import code, is_code
from isogloss.text.readers.folders import PREFIX, aligned_sets
from isogloss.text.readers.inference import NLI
from isogloss.text.readers.lines import (
    DAMAGED,
    Source,
    header,
    language_of,
    languages_of,
    open_bytes,
    plain_name,
    stream_lines,
)

VARIABLE = "ISOGLOSS_DATA"
SUMS = "SHA256SUMS"
_SPLIT_NAMES = {"train": ("0-5000", "train"), "test": ("5000-6500", "test")}
_TAG = re.compile(r"O|[BI]-\S+")
_PREMISE = ("sentence1", "sentence_A", "premise")
# CoNLL-2002 calls its languages by their own names.
_OWN_NAMES = {"ned": "nl", "esp": "es", "deu": "de", "eng": "en"}
_LOOK = 20  # lines that tell the kind of a file
_HEAD = 65536  # bytes of a JSON file that tell its kind


@dataclass(frozen=True)
class DataSet:
    """One data set: the kinds of its files, its languages, its rows (parallel files counted once) and its size."""

    name: str
    kinds: tuple[str, ...]
    languages: tuple[str, ...]
    rows: int
    files: int
    bytes: int
    about: str


def data_dir(option: Source | None = None) -> Path:
    """The data folder: the option, else ISOGLOSS_DATA; one that is missing or unset is an InputError."""
    folder = option or os.environ.get(VARIABLE)
    if not folder:
        raise InputError(f"no data folder is set; give --data DIR or set the environment variable {VARIABLE}")
    path = Path(folder).expanduser()
    if not path.is_dir():
        given = "--data" if option else VARIABLE
        raise InputError(f"the data folder {path} (from {given}) is no folder; it should hold one folder a data set")
    return path


def data_sets(folder: Path) -> list[Path]:
    """The folders of the data sets, sorted."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def find(data: Source, name: str) -> Path:
    """The folder of a data set; an unknown name is an InputError that names those there are."""
    folder = data_dir(data)
    path = folder / name
    if name and path.is_dir() and path.parent == folder:
        return path
    available = [each.name for each in data_sets(folder)]
    close = difflib.get_close_matches(name, available, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(f"{folder} has no data set {name!r}; {hint}it has {', '.join(available) or 'none'}")


def resolve(given: Source, data: Source | None = None) -> Source:
    """What to read for a path or a data set's name: an existing path wins, then a name in the data folder.

    A data set's name stands for its one table with a header of languages where it has exactly one (`xnli` ->
    `xnli.15way.tsv`), else for its folder (`tatoeba`, `ud_pud`). `europarl/some.tsv` is looked up there too.
    """
    text = os.fspath(given)
    if text.startswith(PREFIX) or Path(text).exists():
        return given
    if Path(text).is_absolute() or (data is None and not os.environ.get(VARIABLE)):
        raise InputError(
            f"{text} does not exist; expected a file, a folder, or the name of a data set in the data folder "
            f"(--data DIR or {VARIABLE})"
        )
    folder = data_dir(data)
    if (folder / text).is_file():
        return folder / text
    path = find(folder, text.rstrip("/"))
    tables = [file for file in sorted(path.iterdir()) if ".tsv" in file.name and kind_of(file, False) == "table"]
    return tables[0] if len(tables) == 1 else path


def find_lexicon(data: Source, source: str, target: str, *, split: str = "train") -> Path:
    """The dictionary of two languages in the data folder, read in either direction; `split` is `train` or `test`.

    MUSE comes first; `0-5000` and `train` in a name mean train, `5000-6500` and `test` mean test.
    """
    if split not in _SPLIT_NAMES:
        raise InputError(f"a dictionary's split is train or test, not {split!r}")
    folder, wanted = data_dir(data), {code(source), code(target)}
    pairs = set()
    for each in sorted(data_sets(folder), key=lambda path: (path.name != "muse", path.name)):
        for path in _files(each):
            languages = languages_of(path)
            if languages is None or path.suffix != ".txt" or kind_of(path, False) != "dictionary":
                continue
            pairs.add("-".join(languages))
            if set(languages) == wanted and any(part in _SPLIT_NAMES[split] for part in path.name.split(".")):
                return path
    raise InputError(
        f"{folder} has no {split} dictionary of {source} and {target}; it has {', '.join(sorted(pairs)) or 'none'}"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))


def files_by_kind(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file of a data set with its kind."""
    files = _files(folder)
    aligned = {path for parent in {each.parent for each in files} for path in _aligned_files(parent)}
    for path in files:
        yield path, kind_of(path, path in aligned)


def listing(data: Source, progress: Progress = silent) -> list[DataSet]:
    """Every data set of the folder."""
    folders = data_sets(data_dir(data))
    records = []
    for done, folder in enumerate(folders, start=1):
        files = list(files_by_kind(folder))
        kinds = tuple(sorted({kind for _, kind in files} - {"notes", "unknown"})) or ("unknown",)
        languages = {each for path, kind in files for each in languages_in(path, kind)}
        if not languages:  # `nli_en`: the folder may tell what its files do not
            languages = {code(part) for part in folder.name.split("_") if is_code(part)}
        rows, counted = 0, set()
        for path, kind in files:
            stem = (path.parent, aligned_stem(path))
            if kind not in ("notes", "unknown") and not (kind == "aligned" and stem in counted):
                counted.add(stem)
                rows += row_count(path, kind)
        size = sum(path.stat().st_size for path, _ in files)
        readmes = (folder / name for name in ("README.md", "README.txt", "README"))
        readme = next((path for path in readmes if path.is_file()), None)
        lines = (line.strip() for _, line in stream_lines(readme, _ignore)) if readme else ()
        about = next((line for line in lines if line and not line.startswith("#")), "")
        records.append(DataSet(folder.name, kinds, tuple(sorted(languages)), rows, len(files), size, about))
        progress("reading", done, len(folders))
    return records


def kind_of(path: Path, aligned: bool | None = None) -> str:
    """The kind of a file, see the table above; `aligned` says whether it is known to have parallel neighbours."""
    name = plain_name(path)
    if name == SUMS or name.endswith(".md") or re.match(r"(?i)(readme|licen[cs]e|copying|notice)\b", name):
        return "notes"
    try:
        if name.endswith(".conllu"):
            return "treebank"
        if name.endswith((".json", ".jsonl")):
            with open_bytes(path) as file, suppress(*DAMAGED):
                head = file.read(_HEAD)
                if b'"paragraphs"' not in head:
                    return "inference" if any(f'"{each}"'.encode() in head for each in _PREMISE) else "unknown"
            return "questions"  # of a damaged file too, so that a check says it is damaged
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


def _text_kind(path: Path, lines: Sequence[str]) -> str:
    filled = [line for line in lines if line.strip()]
    if not filled:
        return "lines"  # so that a check says it is empty
    cells = lines[0].split("\t")
    if len(cells) > 1 and header(cells) is not None:
        return "table"
    if any(name in cells for name in _PREMISE):
        return "inference"
    if _mostly(filled, lambda line: 2 <= len(line.split()) <= 4 and _TAG.fullmatch(line.split()[-1]) is not None):
        return "tags"
    if len(cells) == 3 and cells[-1].lower() in NLI:
        return "inference"
    named = languages_of(path)
    if named is not None and len(cells) == len(named) and path.suffix != ".txt":
        return "pairs"
    two_words = _mostly(filled, lambda line: len(line.split("\t" if "\t" in line else None)) == 2)
    if named is not None and len(named) == 2 and two_words:
        return "dictionary"
    is_text = plain_name(path).endswith(".txt") or language_of(path) is not None
    return "lines" if is_text and len(cells) == 1 else "unknown"


def _mostly(lines: Sequence[str], fits: Callable[[str], bool]) -> bool:
    """Whether half of the lines or more fit, so that a slip in one does not hide what the file is."""
    return 2 * sum(fits(line) for line in lines) >= len(lines)


def languages_in(path: Path, kind: str) -> tuple[str, ...]:
    """The languages of a file, by its header or its name; empty where neither tells."""
    if kind in ("notes", "unknown"):
        return ()
    if kind == "table":
        return tuple(filter(None, header(next(stream_lines(path, _ignore))[1].split("\t")) or ()))
    if kind == "tags":
        languages = tuple(_OWN_NAMES[part] for part in path.name.split(".") if part in _OWN_NAMES)
        if languages:
            return languages
    if kind == "aligned":
        return (code(plain_name(path).rpartition(".")[2]),)
    language = language_of(path)
    return languages_of(path) or ((language,) if language else ())


def row_count(path: Path, kind: str) -> int:
    """How many rows, by counting bytes: sentences, pairs, questions. Fast, and right for well-formed files."""
    if kind == "treebank":
        return sum(line.startswith(b"1\t") for line in _raw_lines(path))
    if kind == "tags":
        return sum(filled for filled, _ in groupby(_raw_lines(path), key=lambda line: bool(line.strip())))
    if kind == "questions":
        return sum(line.count(b'"question"') for line in _raw_lines(path))
    lines = sum(1 for _ in _raw_lines(path))
    cells = next(stream_lines(path, _ignore))[1].split("\t") if kind == "inference" else []
    return lines - (kind == "table" or any(name in cells for name in _PREMISE))


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Lines as bytes, up to where a damaged archive ends: counting is not checking."""
    with open_bytes(path) as file, suppress(*DAMAGED):
        yield from file


def aligned_stem(path: Path) -> str:
    """What line-aligned files have in common: `train` for `train.en.gz`."""
    return re.sub(r"\.[a-z]+(\.gz|\.xz)?$", "", path.name)
