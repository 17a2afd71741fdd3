"""List and check a folder of data sets, and resolve data sets by name.

The layout is one folder for each data set, each with a README: `DATA/tatoeba/...`, `DATA/xnli/...`. The folder is given
by `--data DIR` or the environment variable ISOGLOSS_DATA. The kind of a file is detected from its name and first lines:

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

A check reads every file with its own reader and a callback that collects problems instead of raising them, so a file
passes the check if its reader accepts it. In addition, cells without text, I- tags without a preceding tag of the same
type and wrong check sums are reported.
"""

import difflib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.text.languages import code, is_code
from isogloss.text.readers import lines
from isogloss.text.readers.conll import TaggedSentence, read_tagged, stream_trees
from isogloss.text.readers.dictionaries import stream_pairs
from isogloss.text.readers.examples import NLI, pair_rows, question_rows
from isogloss.text.readers.lines import DAMAGED, Problem, Source, plain_name, stream_lines

VARIABLE = "ISOGLOSS_DATA"
SUMS = "SHA256SUMS"
_SPLIT_NAMES = {"train": ("0-5000", "train"), "test": ("5000-6500", "test")}
_TAG = re.compile(r"O|[BI]-\S+")
_PREMISE = ("sentence1", "sentence_A", "premise")
# CoNLL-2002 uses native names of languages.
_OWN_NAMES = {"ned": "nl", "esp": "es", "deu": "de", "eng": "en"}
_LOOK = 20  # lines from which the kind of a file is detected
_HEAD = 65536  # bytes from which the kind of a JSON file is detected
_MOST = 20  # maximum problems reported for one file
Reader = Callable[[Path, Problem], Iterable[Any]]


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


@dataclass(frozen=True)
class CheckReport:
    """The result of a check: problems with file and line, the rows of each file read, files of unknown kind.

    Of a file with many problems the first are listed, with the number of the others; `count` counts all of them.
    """

    problems: tuple[str, ...]
    count: int
    checked: dict[Path, int]
    unchecked: tuple[Path, ...]


def data_dir(option: Source | None = None) -> Path:
    """The data folder: the option, or else ISOGLOSS_DATA; a missing or unset folder is an InputError."""
    folder = option or os.environ.get(VARIABLE)
    if not folder:
        raise InputError(f"no data folder is set; give --data DIR or set the environment variable {VARIABLE}")
    path = Path(folder).expanduser()
    given = f"the data folder {path} (from {'--data' if option else VARIABLE})"
    require(path.is_dir(), f"{given} is no folder; it should contain one folder per data set")
    return path


def data_sets(folder: Path) -> list[Path]:
    """The folders of the data sets, sorted."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def resolve(given: Source, data: Source | None = None) -> Source:
    """Resolve a path or a data set's name: an existing path comes first, then a name in the data folder.

    A data set's name resolves to its table with a header of languages if it has exactly one (`xnli` ->
    `xnli.15way.tsv`), otherwise to its folder (`tatoeba`, `ud_pud`). `europarl/some.tsv` is looked up there too.
    """
    text = os.fspath(given)
    if text.startswith(lines.HUB) or Path(text).exists():
        return given
    may_be_named = not Path(text).is_absolute() and (data is not None or os.environ.get(VARIABLE))
    expected = "does not exist; expected a file, a folder, or the name of a data set in the data folder (--data DIR or"
    require(may_be_named, f"{text} {expected} {VARIABLE})")
    folder, name = data_dir(data), text.rstrip("/")
    if (folder / text).is_file():
        return folder / text
    available = {path.name: path for path in data_sets(folder)}
    if name not in available:
        close = difflib.get_close_matches(name, available, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"{folder} has no data set {name!r}; {hint}it has {', '.join(available) or 'none'}")
    path = available[name]
    tables = [file for file in sorted(path.iterdir()) if ".tsv" in file.name and kind_of(file) == "table"]
    return tables[0] if len(tables) == 1 else path


def find_lexicon(data: Source, source: str, target: str, *, split: str = "train") -> Path:
    """Find the dictionary of two languages in the data folder, in either direction; `split` is `train` or `test`.

    MUSE has priority; `0-5000` and `train` in a name mean train, `5000-6500` and `test` mean test.
    """
    folder, wanted = data_dir(data), {code(source), code(target)}
    pairs = set()
    for each in sorted(data_sets(folder), key=lambda path: (path.name != "muse", path.name)):
        for path in (path for path, kind in files_by_kind(each) if kind == "dictionary"):
            languages = lines.languages_of(path) or ()
            pairs.add("-".join(languages))
            if set(languages) == wanted and any(part in _SPLIT_NAMES[split] for part in path.name.split(".")):
                return path
    raise InputError(
        f"{folder} has no {split} dictionary of {source} and {target}; it has {', '.join(sorted(pairs)) or 'none'}"
    )


def files_by_kind(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file of a data set with its kind."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    sets = (each for parent in {path.parent for path in files} for each in lines.aligned_sets(parent))
    aligned = {path for each in sets for path in each.files}
    for path in files:
        yield path, kind_of(path, aligned=path in aligned)


def listing(data: Source) -> list[DataSet]:
    """List every data set of the folder."""
    folders = data_sets(data_dir(data))
    records = []
    for done, folder in enumerate(folders, start=1):
        files = list(files_by_kind(folder))
        kinds = {path: kind for path, kind in files if kind in READERS}
        languages = {each for path, kind in kinds.items() for each in languages_in(path, kind)}
        if not languages:  # `nli_en`: the folder's name may contain them
            languages = {code(part) for part in folder.name.split("_") if is_code(part)}
        # Parallel files are counted once.
        counted = {_stem(path) if kind == "aligned" else path: path for path, kind in reversed(kinds.items())}
        rows = sum(row_count(path, kinds[path]) for path in counted.values())
        size = sum(path.stat().st_size for path, _ in files)
        readmes = (folder / name for name in ("README.md", "README.txt", "README"))
        readme = next((path for path in readmes if path.is_file()), None)
        text = (line.strip() for _, line in stream_lines(readme, _ignore)) if readme else ()
        about = next((line for line in text if line and not line.startswith("#")), "")
        names = tuple(sorted({*kinds.values()})) or ("unknown",)
        records.append(
            DataSet(
                folder.name,
                names,
                languages=tuple(sorted(languages)),
                rows=rows,
                files=len(files),
                bytes=size,
                about=about,
            )
        )
        progress("reading", done, len(folders))
    return records


def kind_of(path: Path, *, aligned: bool = False) -> str:
    """The kind of a file, see the table above; aligned: whether it has parallel neighbours."""
    name = plain_name(path)
    if name == SUMS or name.endswith(".md") or re.match(r"(?i)(readme|licen[cs]e|copying|notice)\b", name):
        return "notes"
    try:
        if name.endswith(".conllu"):
            return "treebank"
        if name.endswith((".json", ".jsonl")):
            with lines.open_bytes(path) as file, suppress(*DAMAGED):
                head = file.read(_HEAD)
                if b'"paragraphs"' not in head:
                    return "inference" if any(f'"{each}"'.encode() in head for each in _PREMISE) else "unknown"
            return "questions"  # also for a damaged file, so that a check reports it
        head_lines = [line for _, line in islice(stream_lines(path, _ignore), _LOOK)]
    except InputError:
        return "unknown"
    filled = [line for line in head_lines if line.strip()]
    if aligned or not filled:
        return "aligned" if aligned else "lines"  # so that a check reports an empty file
    cells = head_lines[0].split("\t")
    if len(cells) > 1 and lines.file_header(path, cells) is not None:
        return "table"
    if any(each in cells for each in _PREMISE):
        return "inference"
    if _mostly(filled, lambda line: 2 <= len(line.split()) <= 4 and _TAG.fullmatch(line.split()[-1]) is not None):
        return "tags"
    if len(cells) == 3 and cells[-1].lower() in NLI:
        return "inference"
    named = lines.languages_of(path)
    if named is not None and len(cells) == len(named) and path.suffix != ".txt":
        return "pairs"
    two_words = _mostly(filled, lambda line: len(line.split("\t" if "\t" in line else None)) == 2)
    if named is not None and len(named) == 2 and two_words:
        return "dictionary"
    is_text = name.endswith(".txt") or lines.language_of(path) is not None
    return "lines" if is_text and len(cells) == 1 else "unknown"


def _ignore(sentence: str) -> None:
    """Ignore a problem: problems of a file are reported when it is checked or read."""


def _mostly(texts: Sequence[str], fits: Callable[[str], bool]) -> bool:
    """Whether at least half of the lines fit, so that one malformed line does not hide the kind of a file."""
    return 2 * sum(fits(line) for line in texts) >= len(texts)


def languages_in(path: Path, kind: str) -> tuple[str, ...]:
    """The languages of a file by its header or its name; empty if neither contains any."""
    if kind == "table":
        return lines.header_languages(path)
    own = tuple(_OWN_NAMES[part] for part in path.name.split(".") if part in _OWN_NAMES)
    if kind == "tags" and own:
        return own
    if kind == "aligned":
        return (code(plain_name(path).rpartition(".")[2]),)
    language = lines.language_of(path)
    return lines.languages_of(path) or ((language,) if language else ())


def row_count(path: Path, kind: str) -> int:
    """Count rows (sentences, pairs, questions) by bytes: fast, and right for well-formed files."""
    raw = _raw_lines(path)
    if kind == "treebank":
        return sum(line.startswith(b"1\t") for line in raw)
    if kind == "tags":
        return sum(filled for filled, _ in groupby(raw, key=lambda line: bool(line.strip())))
    if kind == "questions":
        return sum(line.count(b'"question"') for line in raw)
    first = next(raw, b"").decode(errors="replace").split("\t")
    is_header = kind == "table" or (kind == "inference" and any(name in first for name in _PREMISE))
    return sum(1 for _ in raw) + (not is_header)


def _raw_lines(path: Path) -> Iterator[bytes]:
    """Lines as bytes; a damaged archive is read up to the damage, without an error."""
    with lines.open_bytes(path) as file, suppress(*DAMAGED):
        yield from file


def _stem(path: Path) -> Path:
    """The common stem of line-aligned files: `train` for `train.en.gz`."""
    return path.with_name(re.sub(r"\.[a-z]+(\.gz|\.xz)?$", "", path.name))


def check(data: Source) -> CheckReport:
    """Read every file of every data set and collect all problems instead of stopping at the first.

    Most files are read line by line, in little memory (except questions and tags).

    Args:
        data: the folder of data sets.
    """
    folder = data_dir(data)
    files = {path: kind for each in data_sets(folder) for path, kind in files_by_kind(each)}
    problems: dict[Path, list[str]] = {}
    checked: dict[Path, int] = {}
    parallel: dict[Path, list[Path]] = {}  # train.en beside train.de, and inference sets dev-en.tsv beside dev-de.tsv
    for done, (path, kind) in enumerate(files.items(), start=1):
        if kind in READERS:
            checked[path] = _count_rows(path, READERS[kind], problems.setdefault(path, []).append)
        if kind == "aligned":
            parallel.setdefault(_stem(path), []).append(path)
        elif kind == "inference" and languages_in(path, kind):
            parallel.setdefault(path.with_name(path.stem.rpartition("-")[0]), []).append(path)
        progress("checking", done, len(files))
    for stem, paths in parallel.items():
        if len({checked[path] for path in paths}) > 1:
            counts = ", ".join(f"{path.name} has {checked[path]:,}" for path in paths)
            unequal = f"{stem.parent}: the files {stem.name}.* should have equally many lines: {counts}"
            problems.setdefault(stem, []).append(unequal)
    for each in (folder, *data_sets(folder)):
        if (each / SUMS).is_file():
            _count_rows(each / SUMS, _check_sums, problems.setdefault(each / SUMS, []).append)
    unknown = tuple(path for path, kind in files.items() if kind == "unknown")
    listed = [
        sentence
        for path, own in problems.items()
        for sentence in (*own[:_MOST], *([f"{path}: and {len(own) - _MOST:,} problems more"] * (len(own) > _MOST)))
    ]
    return CheckReport(tuple(listed), sum(map(len, problems.values())), checked, unknown)


def _count_rows(path: Path, reader: Reader, problem: Problem) -> int:
    """Count the rows of a reader; a file that cannot be opened is a problem, too."""
    rows = 0
    try:
        for _ in reader(path, problem):
            rows += 1
    except InputError as error:
        problem(str(error))
    return rows


def _table_rows(path: Path, problem: Problem) -> Iterator[list[str]]:
    """Rows of a table; a row without any text is a problem, and without a header so is an empty cell."""
    table = lines.open_table(path)
    for number, cells in table.rows(problem=problem):
        filled = [bool(cell.strip()) for cell in cells]
        if not any(filled):
            problem(f"{path}:{number}: no cell has text")
        elif not table.has_header and not all(filled):
            problem(f"{path}:{number}: an empty cell; both sides of a pair need text")
        yield cells


def _tagged_sentences(path: Path, problem: Problem) -> Iterator[TaggedSentence]:
    """Sentences with tags O, B-x or I-x; an I-x after anything but B-x or I-x is a problem."""
    for sentence in read_tagged(path, problem):
        before = ""
        for number, tag in zip(sentence.lines, sentence.tags, strict=True):
            if tag.startswith("I-") and before[1:] != tag[1:]:
                problem(f"{path}:{number}: {tag} does not continue an entity; an entity begins with B{tag[1:]}")
            before = tag
        yield sentence


READERS: dict[str, Reader] = {
    "lines": stream_lines,
    "aligned": stream_lines,
    "table": _table_rows,
    "pairs": _table_rows,
    "treebank": stream_trees,
    "dictionary": stream_pairs,
    "tags": _tagged_sentences,
    "inference": pair_rows,
    "questions": question_rows,
}
"""The reader of each kind of file, which yields rows and reports every problem."""


def _check_sums(sums: Path, problem: Problem) -> Iterator[Path]:
    """Compare the files of a SHA256SUMS; a missing file or a different sum is a problem."""
    for number, line in stream_lines(sums, problem):
        if not line.strip():
            continue
        expected, _, name = line.partition(" ")
        path = sums.parent / name.strip().removeprefix("*")
        if len(expected) != 64 or not name.strip():
            problem(f"{sums}:{number}: expected a SHA-256 sum and a file name")
        elif not path.is_file():
            problem(f"{sums}:{number}: {name.strip()} is not there")
        else:
            with path.open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
            if actual != expected.lower():
                problem(f"{path}: its SHA-256 sum is not the one in {SUMS}; fetch it again")
            yield path
