"""Bitexts in one file: a tab-separated table, or ` ||| ` between the sides.

A table has a header of language codes (`en<TAB>nl`), or none when its name or the caller tells the languages
(`en-nl.tsv`). Other columns must be named `key`, `kind`, `genre`, `domain`, `label` or `split`, or begin with
`#`; they are ignored, and any other name is refused rather than guessed at (`id` is Indonesian: call it
`#id`). Quotation marks mean nothing: a cell is what stands between two tabs.

A file with ` ||| ` between the sides has no header; its name or the caller tells the languages.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Corpus
from isogloss.text.languages import code, is_code, name, pick_languages
from isogloss.text.readers.lines import Problem, Source, fail, first_line, languages_of, stream_lines

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
    languages = [each for each in names if not is_ignored(each)]
    if not languages or not all(map(is_code, languages)):
        return None
    return [None if is_ignored(each) else code(each) for each in names]


@dataclass(frozen=True)
class ParallelTable:
    """A file whose columns are languages, and how its lines are read; None stands for a column that is ignored."""

    path: Path
    columns: tuple[str | None, ...]
    has_header: bool
    bars: bool = False

    @property
    def languages(self) -> list[str]:
        """The languages of the columns that have one."""
        return [column for column in self.columns if column is not None]

    def rows(self, languages: Sequence[str] | None = None, problem: Problem = fail) -> Iterator[tuple[int, list[str]]]:
        """Line number and the cells of these languages, by default all, in each row; one of another width is a problem.

        Args:
            languages: columns of the table, in the order of the cells.
            problem: is told what is wrong with a row; by default it raises.
        """
        wanted = [self.columns.index(each) for each in pick_languages(languages, self.languages, where=self.path)]
        for number, line in stream_lines(self.path, problem):
            if number == 1 and self.has_header:
                continue
            cells = line.split(BARS if self.bars else "\t")
            if len(cells) != len(self.columns):
                parts, separator = ("sides", "' ||| '") if self.bars else ("cells", "tabs")
                width = f"{len(cells)} {parts} where {len(self.columns)} were expected"
                problem(f"{self.path}:{number}: {width}, separated by {separator}")
                continue
            if self.bars:
                cells = [cell.removeprefix(" ").removesuffix(" ") for cell in cells]
            yield number, [cells[column] for column in wanted]


def open_table(path: Path, languages: Sequence[str] | None = None) -> ParallelTable:
    """What the columns of a table are; nothing but the first line is read.

    Without a header the languages come from the file's name, else from the caller, in order.

    Args:
        path: the file.
        languages: what the caller takes the columns for, or chooses of them.
    """
    first = first_line(path)
    named = languages_of(path)
    if BARS in first and "\t" not in first:
        sides = named or languages
        if sides is None:
            raise InputError(
                f"{path}: give the languages of its sides in order, such as en,nl, or name the file like x.en-nl.txt"
            )
        return ParallelTable(path, tuple(sides), has_header=False, bars=True)
    cells = first.split("\t")
    columns = header(cells)
    if columns is not None:
        table = ParallelTable(path, tuple(columns), has_header=True)
        twice = sorted({each for each in table.languages if table.languages.count(each) > 1})
        if twice:
            raise InputError(f"{path}:1: the header names the language {', '.join(twice)} twice")
        return table
    known = named if named is not None and len(named) == len(cells) else languages
    if known is None or len(known) != len(cells):
        raise InputError(_no_header(path, cells, languages))
    if {cell.strip().lower() for cell in cells} <= HEADINGS | {name(each).lower() for each in known}:
        raise InputError(
            f"{path}:1: {', '.join(map(repr, cells))} looks like a header, but names no language codes; "
            f"write {'<TAB>'.join(known)} there, or take the line out"
        )
    return ParallelTable(path, tuple(known), has_header=False)


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
    given = "no languages were given" if languages is None else f"{len(languages)} languages were given"
    known = languages or ("en", "nl")
    rest = [f"#{number}" for number in range(len(known) + 1, len(cells) + 1)]
    return (
        f"{path}:1: the first line is no header of language codes, it has {len(cells)} cells and {given}; "
        f"put a header such as {'<TAB>'.join([*known, *rest])} on line 1 (columns that begin with # are not "
        "read), name the file like x.en-nl.tsv, or give one language a column"
    )


def read_table(source: Source, languages: Sequence[str] | None) -> list[Corpus]:
    """A corpus for each chosen language of a table or a ` ||| ` file, all rows kept."""
    path = Path(source)
    table = open_table(path, languages)
    wanted = pick_languages(languages, table.languages, where=path)
    rows = [cells for _, cells in table.rows(wanted)]
    return [Corpus(each, [cells[side] for cells in rows], name=path.name) for side, each in enumerate(wanted)]
