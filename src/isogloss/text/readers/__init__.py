"""Readers: files in, records out. The only part of `text` that touches the disk, with the catalog.

`read_bitexts` decides by what it is given:

| given | read as |
|---|---|
| several files | line-aligned, one a language |
| several `.conllu` files | parallel treebanks, rows joined by `sent_id`, words = the treebank's |
| one file with ` ||| ` in its first line | the sides of each line |
| one other file | a tab-separated table, with a header of languages or languages told by its name |
| a folder | see `folders` |
| `hf:owner/name` | a data set of the Hugging Face hub |

Rows with an empty side are left out on every side and counted in `Bitext.dropped`.
"""

from collections.abc import Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import code
from isogloss.text.readers.assemble import assemble
from isogloss.text.readers.dictionaries import read_lexicon
from isogloss.text.readers.folders import read_aligned, read_folder
from isogloss.text.readers.lines import Source, file_path, first_line, read_lines
from isogloss.text.readers.linked import embedded, embedded_lexicon, read_linked
from isogloss.text.readers.names import chosen, language_of
from isogloss.text.readers.tables import BARS, read_bars, read_table

__all__ = [
    "Source",
    "embedded",
    "embedded_lexicon",
    "read_bitext",
    "read_bitexts",
    "read_corpus",
    "read_lexicon",
    "read_lines",
    "read_linked",
]


def read_corpus(path: Source, language: str) -> Corpus:
    """Sentences of one language, one a line; blank lines are passed over."""
    short = code(language)
    sentences = [line for line in read_lines(path) if line and not line.isspace()]
    if not sentences:
        raise InputError(f"{path} has only blank lines; text was expected")
    return Corpus(short, sentences, name=Path(path).name)


def read_bitexts(*paths: Source, languages: Sequence[str] | None = None) -> list[Bitext]:
    """Every bitext the paths hold; several only for a folder. See the table above."""
    wanted = chosen(languages)
    if not paths:
        raise InputError("no bitext was given; name one file a language, a table or a folder")
    if len(paths) > 1:
        return [_several([Path(path) for path in paths], wanted)]
    path = Path(paths[0])
    if path.is_dir():
        return read_folder(path, wanted)
    first = first_line(file_path(path))
    read = read_bars if BARS in first and "\t" not in first else read_table
    return [assemble(read(path, wanted), path.name)]


def _several(paths: list[Path], wanted: tuple[str, ...] | None) -> Bitext:
    files = [file_path(path) for path in paths]
    told: Sequence[str | None] = wanted or [language_of(path) for path in files]
    if len(told) != len(files):
        raise InputError(f"{len(files)} files but {len(told)} languages ({', '.join(wanted or ())}): give one a file")
    known = [each for each in told if each is not None]
    if len(known) < len(files):
        unclear = ", ".join(path.name for path, each in zip(files, told, strict=True) if each is None)
        raise InputError(f"the language of {unclear} does not show in its name; give the languages, such as en,nl")
    return read_aligned(files, known)


def read_bitext(*paths: Source, languages: Sequence[str] | None = None) -> Bitext:
    """The one bitext the paths hold; a folder that holds several is an InputError.

    `en, nl = read_bitext("en.txt", "nl.txt", languages=("en", "nl"))`
    """
    bitexts = read_bitexts(*paths, languages=languages)
    if len(bitexts) > 1:
        names = ", ".join(bitext.name for bitext in bitexts[:6])
        raise InputError(f"{paths[0]} holds {len(bitexts)} bitexts ({names} ...); choose languages, or name one file")
    return bitexts[0]
