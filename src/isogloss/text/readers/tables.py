"""Bitexts in one file: a tab-separated table, or ` ||| ` between the sides.

A table has a header of language codes (`en<TAB>nl`), or none when its name or the caller tells the languages
(`en-nl.tsv`). Other columns must be named `key`, `kind`, `genre`, `domain`, `label` or `split`, or begin with
`#`; they are ignored, and any other name is refused rather than guessed at (`id` is Indonesian: call it
`#id`). Quotation marks mean nothing: a cell is what stands between two tabs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Corpus
from isogloss.text.languages import code, is_code, name
from isogloss.text.readers.lines import Problem, Source, fail, first_line, stream_lines
from isogloss.text.readers.names import languages_of, pick

IGNORED = frozenset({"key", "kind", "genre", "domain", "label", "split"})
HEADINGS = frozenset({"source", "target", "src", "tgt", "trg", "sentence1", "sentence2", "text", "translation"})
BARS = "|||"


def is_ignored(column: str) -> bool:
    """Whether a column of this name is passed over: `key`, `#anything`."""
    return column.startswith("#") or column.lower() in IGNORED


def header(cells: Sequence[str]) -> list[str | None] | None:
    """Language code a column (None for an ignored one), or None when these cells are no header.

    >>> header(["key", "en", "nld"])
    [None, 'en', 'nl']
    """
    names = [cell.strip() for cell in cells]
    languages = [one for one in names if not is_ignored(one)]
    if not languages or not all(is_code(one) for one in languages):
        return None
    return [None if is_ignored(one) else code(one) for one in names]


def table_columns(path: Path, languages: Sequence[str] | None) -> tuple[list[str | None], bool]:
    """Language of each column, and whether the first line is a header.

    Without a header the languages come from the file's name, else from the caller, in order.
    """
    cells = first_line(path).split("\t")
    columns = header(cells)
    if columns is not None:
        found = [each for each in columns if each is not None]
        twice = sorted({each for each in found if found.count(each) > 1})
        if twice:
            raise InputError(f"{path}:1: the header names the language {', '.join(twice)} twice")
        return columns, True
    named = languages_of(path)
    told = named if named is not None and len(named) == len(cells) else languages
    if told is None or len(told) != len(cells):
        raise InputError(_no_header(path, cells, languages))
    if {cell.strip().lower() for cell in cells} <= HEADINGS | {name(one).lower() for one in told}:
        raise InputError(
            f"{path}:1: {', '.join(map(repr, cells))} looks like a header, but names no language codes; "
            f"write {'<TAB>'.join(told)} there, or take the line out"
        )
    return list(told), False


def _no_header(path: Path, cells: Sequence[str], languages: Sequence[str] | None) -> str:
    """Tell a misspelt header from sentences: a header has at least one language code in it."""
    if any(is_code(cell) for cell in cells):
        strange = [cell for cell in cells if not is_ignored(cell) and not is_code(cell)]
        return (
            f"{path}:1: the header has {', '.join(map(repr, strange[:3]))}, which is no language code; other "
            f"columns must begin with # or be called one of {', '.join(sorted(IGNORED))}"
        )
    if len(cells) == 1:
        return (
            f"{path}:1: there is no tab on the first line; a bitext is one file a language, or one table with a "
            "header of languages such as en<TAB>nl"
        )
    told = "no languages were given" if languages is None else f"{len(languages)} languages were given"
    known = languages or ("en", "nl")
    rest = [f"#{number}" for number in range(len(known) + 1, len(cells) + 1)]
    return (
        f"{path}:1: the first line is no header of language codes, it has {len(cells)} cells and {told}; "
        f"put a header such as {'<TAB>'.join([*known, *rest])} on line 1 (columns that begin with # are not "
        "read), name the file like x.en-nl.tsv, or give one language a column"
    )


def stream_table(path: Path, width: int, *, skip: int = 0, problem: Problem = fail) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each row after `skip` lines; one of another width is a problem."""
    for number, line in stream_lines(path, problem):
        if number <= skip:
            continue
        cells = line.split("\t")
        if len(cells) != width:
            problem(f"{path}:{number}: {len(cells)} cells where {width} were expected, separated by tabs")
            continue
        yield number, cells


def read_table(source: Source, languages: Sequence[str] | None) -> list[Corpus]:
    """A corpus for each chosen language column, all rows kept."""
    path = Path(source)
    columns, has_header = table_columns(path, languages)
    there = [each for each in columns if each is not None]
    wanted = pick(languages, there, where=path)
    places = [columns.index(language) for language in wanted]
    sides: list[list[str]] = [[] for _ in wanted]
    for _, cells in stream_table(path, len(columns), skip=int(has_header)):
        for side, place in zip(sides, places, strict=True):
            side.append(cells[place])
    return [Corpus(language, side, name=path.name) for language, side in zip(wanted, sides, strict=True)]


def stream_bars(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    """Line number and sides of each `a ||| b` line."""
    for number, line in stream_lines(path):
        cells = [cell.removeprefix(" ").removesuffix(" ") for cell in line.split(BARS)]
        if len(cells) != width:
            raise InputError(f"{path}:{number}: {len(cells)} sides where {width} were expected, separated by ' ||| '")
        yield number, cells


def read_bars(source: Source, languages: Sequence[str] | None) -> list[Corpus]:
    """A corpus for each side of an `a ||| b` file, in the order of the languages."""
    path = Path(source)
    there = languages_of(path) or languages
    if there is None:
        raise InputError(f"{path}: give the languages of its sides in order, such as en,nl")
    sides: list[list[str]] = [[] for _ in there]
    for _, cells in stream_bars(path, len(there)):
        for side, cell in zip(sides, cells, strict=True):
            side.append(cell)
    corpora = {code: Corpus(code, side, name=path.name) for code, side in zip(there, sides, strict=True)}
    return [corpora[code] for code in pick(languages, list(there), where=path)]
