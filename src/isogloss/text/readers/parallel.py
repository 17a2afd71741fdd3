"""Parallel text: read whole as bitexts, or as pairs of translations, one at a time, from files of any size.

`read_bitexts` decides by what it is given:

| given | read as |
|---|---|
| several files | line-aligned, one a language |
| several `.conllu` files | parallel treebanks, rows joined by `sent_id`, words = the treebank's |
| one file with ` ||| ` in its first line | the sides of each line |
| one other file | a tab-separated table, with a header of languages or languages told by its name |
| a folder | several bitexts, see `folders` |
| `hf:owner/name` | a data set of the Hugging Face hub, see `folders` |

Rows with an empty side are left out on every side and counted in `Bitext.dropped`.

`find_pairs` keeps nothing in memory. It takes the entries of an option such as --train:

| given | read as |
|---|---|
| `en-nl=en.txt,nl.txt` | two line-aligned files |
| `en-nl=table.tsv` | two columns of a table, by its header, its name or their order; or `a ||| b` lines |
| `table.en-de-nl.tsv` | every language of a table with English, or with its first language |
| a folder, or the name of a data set | its tables, line-aligned sets or Tatoeba files, by their names |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.text.catalog import resolve
from isogloss.text.corpora import Bitext, Corpus, assemble_bitext
from isogloss.text.languages import checked_codes, code, pick_languages
from isogloss.text.readers.conll import read_treebank, read_treebanks
from isogloss.text.readers.folders import PREFIX, ParallelFiles, aligned_corpora, parallel_files, read_folder, read_hub
from isogloss.text.readers.lines import (
    ParallelTable,
    Source,
    check_order,
    file_path,
    first_line,
    header,
    language_of,
    open_table,
    plain_name,
    read_lines,
    read_table,
    stream_lines,
)
from isogloss.text.readers.links import attach_links, read_links
from isogloss.text.words import pieces

Pair = tuple[str, str]
LinkFiles = Source | Mapping[Pair, Source]
Given = str | Path | Bitext | Mapping[str, Any] | Sequence[Any]


def read_corpus(path: Source, language: str) -> Corpus:
    """Sentences of one language: one a line, a treebank, or the language's column of a table with a header.

    Blank lines and empty cells are passed over.

    Args:
        path: the file.
        language: a language code of any known standard.
    """
    short, file = code(language), file_path(path)
    if plain_name(file).endswith(".conllu"):
        return read_treebank(file, short)
    cells = first_line(file).split("\t")
    is_table = len(cells) > 1 and header(cells) is not None
    lines = read_table(file, (short,))[0].sentences if is_table else read_lines(file)
    sentences = [line for line in lines if line and not line.isspace()]
    if not sentences:
        raise InputError(f"{file} has only blank lines; text was expected")
    return Corpus(short, sentences, name=file.name)


def read_bitexts(
    *paths: Source, languages: Sequence[str] | None = None, links: LinkFiles | None = None
) -> list[Bitext]:
    """Every bitext the paths hold: one, or several from a folder or the hub. See the first table above.

    Args:
        paths: the files, the folder or the data set.
        languages: the files' languages, or the columns of a table to choose, in this order.
        links: a Pharaoh file of word links for the two languages in that order, or a file for each pair; words are
            then what spaces separate, as in such files, unless the text has words of its own.
    """
    wanted = checked_codes(languages)
    if not paths:
        raise InputError("no bitext was given; name one file a language, a table or a folder")
    first = str(paths[0])
    several = first.startswith(PREFIX) or Path(first).is_dir()
    if several and (len(paths) > 1 or links is not None):
        raise InputError(f"{first} holds several bitexts; give it alone and without links")
    if first.startswith(PREFIX):
        return read_hub(first, wanted)
    if several:
        return read_folder(Path(first), wanted)
    files = [file_path(path) for path in paths]
    if all(plain_name(file).endswith(".conllu") for file in files):
        bitext = read_treebanks(files, _file_languages(files, wanted))
        return [bitext if links is None else _linked(bitext, links)]
    name = " ".join(file.name for file in files)
    many = len(files) > 1
    corpora = aligned_corpora(files, _file_languages(files, wanted)) if many else read_table(files[0], wanted)
    if links is None:
        return [assemble_bitext(corpora, name)]
    # Links count the file's rows, so they are attached before rows with an empty side are left out.
    split = tuple(replace(corpus, words=[pieces(text) for text in corpus]) for corpus in corpora)
    whole = _linked(Bitext(split, name=name), links)
    return [assemble_bitext(whole.corpora, name, links=whole.links)]


def read_bitext(*paths: Source, languages: Sequence[str] | None = None, links: LinkFiles | None = None) -> Bitext:
    """The one bitext the paths hold; a folder that holds several is an InputError. See `read_bitexts`.

    `en, nl = read_bitext("en.txt", "nl.txt", languages=("en", "nl"))`
    """
    bitexts = read_bitexts(*paths, languages=languages, links=links)
    if len(bitexts) > 1:
        names = ", ".join(bitext.name for bitext in bitexts[:6])
        raise InputError(f"{paths[0]} holds {len(bitexts)} bitexts ({names} ...); choose languages, or name one file")
    return bitexts[0]


def _linked(bitext: Bitext, links: LinkFiles) -> Bitext:
    if not isinstance(links, Mapping):
        if len(bitext.languages) != 2:
            raise InputError(f"{links}: one file of links joins two languages, here are {len(bitext.languages)}")
        links = {(bitext.languages[0], bitext.languages[1]): links}
    for pair, path in links.items():
        bitext = attach_links(bitext, pair, read_links(path, sentences=bitext.rows))
    return bitext


def _file_languages(files: list[Path], wanted: tuple[str, ...] | None) -> list[str]:
    """The language of each file: the caller's, else the one its name tells."""
    if wanted is not None and len(wanted) != len(files):
        raise InputError(f"{len(files)} files but {len(wanted)} languages ({', '.join(wanted)}): give one a file")
    named = wanted or [language_of(file) for file in files]
    unclear = [file.name for file, language in zip(files, named, strict=True) if language is None]
    if unclear:
        raise InputError(
            f"the language of {', '.join(unclear)} does not show in the name; give the languages, such as en,nl"
        )
    languages = [language for language in named if language is not None]
    check_order(files, languages)
    return languages


@dataclass(frozen=True)
class PairSource:
    """Where pairs of two languages come from: `open()` reads them from the beginning, in order.

    files: what is read, empty where a `Bitext` is in memory, whose fingerprint is `mark`.
    """

    languages: Pair
    name: str
    open: Callable[[], Iterator[Pair]]
    files: tuple[Path, ...] = ()
    mark: str = ""

    @property
    def title(self) -> str:
        """Such as `en-nl`."""
        return "-".join(self.languages)


def find_pairs(given: Given, *, option: str = "train") -> list[PairSource]:
    """What the entries of an option name, see the second table above.

    Args:
        given: an entry, entries, files by their languages, or a `Bitext`.
        option: the name of the option, for messages.

    >>> find_pairs({"en-nl": ("en.txt", "nl.txt")})[0].title  # doctest: +SKIP
    'en-nl'
    """
    entries: Sequence[Any]
    if isinstance(given, Mapping):
        listed = ((key, [files] if isinstance(files, str | Path) else files) for key, files in given.items())
        entries = [f"{languages}={','.join(map(str, files))}" for languages, files in listed]
    else:
        entries = [given] if isinstance(given, str | Path | Bitext) else given
    sources = [source for entry in entries for source in _entry_sources(entry, option)]
    if not sources:
        raise InputError(f"--{option} is missing: give SOURCE-TARGET=FILE,FILE, a table or a folder of parallel text")
    return sources


def stream_aligned(first: Path, second: Path) -> Iterator[Pair]:
    """Lines of two files that translate each other; files of unequal length are refused when the shorter one ends."""
    for number, (source, target) in enumerate(zip_longest(stream_lines(first), stream_lines(second)), 1):
        if source is None or target is None:
            short, long = (first, second) if source is None else (second, first)
            raise InputError(
                f"line-aligned files must have equally many lines: {short} has {number - 1:,} lines, {long} has more"
            )
        yield source[1], target[1]


def _entry_sources(entry: Any, option: str) -> Iterator[PairSource]:
    if isinstance(entry, Bitext):
        yield from _memory_sources(entry, option)
        return
    languages, equals, names = str(entry).partition("=")
    if not equals:
        path = Path(resolve(str(entry)))
        sets = parallel_files(path) if path.is_dir() else [ParallelFiles("table", path.name, (), (file_path(path),))]
        for files in sets:
            yield from _file_sources(files, None, option)
        return
    named = tuple(code(each.strip()) for each in languages.split("-"))
    paths = tuple(file_path(each.strip()) for each in names.split(",") if each.strip())
    if len(named) != 2 or len(paths) not in (1, 2):
        raise InputError(
            f"--{option} takes SOURCE-TARGET=FILE,FILE, SOURCE-TARGET=TABLE, a table or a folder, not {str(entry)!r}"
        )
    if named[0] == named[1]:
        raise InputError(f"--{option} {entry}: {named[0]} is named twice; alignment needs two languages")
    if len(paths) == 2:
        check_order(paths, named)
    files = ParallelFiles("aligned" if len(paths) == 2 else "table", paths[0].name, named, paths)
    yield from _file_sources(files, (named[0], named[1]), option)


def _file_sources(files: ParallelFiles, wanted: Pair | None, option: str) -> Iterator[PairSource]:
    """The pairs of two languages, or of English (or the first language) and each other one."""
    if files.kind == "treebanks":
        yield from _memory_sources(read_treebanks(files.files, files.languages), option)
        return
    table = open_table(files.files[0], wanted) if files.kind == "table" else None
    languages = pick_languages(wanted, table.languages if table else files.languages, where=files.files[0])
    for source, target in [wanted] if wanted else _with_centre(languages, str(files.files[0]), option):
        if table is not None:
            yield PairSource((source, target), files.name, partial(_table_pairs, table, source, target), files.files)
        else:
            paths = dict(zip(files.languages, files.files, strict=True))
            first, second = paths[source], paths[target]
            name = f"{first.name} {second.name}"
            yield PairSource((source, target), name, partial(stream_aligned, first, second), (first, second))


def _table_pairs(table: ParallelTable, source: str, target: str) -> Iterator[Pair]:
    for _, cells in table.rows((source, target)):
        yield cells[0], cells[1]


def _memory_sources(bitext: Bitext, option: str) -> Iterator[PairSource]:
    for source, target in _with_centre(bitext.languages, bitext.name or "the bitext", option):
        sides = bitext[source].sentences, bitext[target].sentences
        name = bitext.name or f"{source}-{target}"
        yield PairSource((source, target), name, partial(zip, *sides, strict=True), mark=bitext.fingerprint)


def _with_centre(languages: Sequence[str], where: str, option: str) -> Iterator[Pair]:
    """English with each other language, or the first one where there is no English."""
    if len(languages) < 2:
        raise InputError(f"--{option} {where} has one language only, {', '.join(languages)}; alignment needs two")
    centre = "en" if "en" in languages else languages[0]
    yield from ((centre, other) for other in languages if other != centre)
