"""Readers: files in, records out. With the catalog, the only part of `text` that touches the disk.

`read_bitexts` decides by what it is given:

| given | read as |
|---|---|
| several files | line-aligned, one a language |
| several `.conllu` files | parallel treebanks, rows joined by `sent_id`, words = the treebank's |
| one file with ` ||| ` in its first line | the sides of each line |
| one other file | a tab-separated table, with a header of languages or languages told by its name |
| a folder | several bitexts, see `folders` |
| `hf:owner/name` | a data set of the Hugging Face hub, see `hub` |

Rows with an empty side are left out on every side and counted in `Bitext.dropped`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import code
from isogloss.text.readers.assemble import Pair, assemble
from isogloss.text.readers.conllu import Tree, read_treebank, read_treebanks, read_trees
from isogloss.text.readers.dictionaries import read_lexicon
from isogloss.text.readers.folders import aligned_corpora, read_folder
from isogloss.text.readers.hub import PREFIX, read_hub
from isogloss.text.readers.lines import Source, file_path, first_line, plain_name, read_lines
from isogloss.text.readers.linked import embedded, embedded_lexicon, read_linked
from isogloss.text.readers.links import WordLinks, attach_links, read_links
from isogloss.text.readers.names import check_order, chosen, language_of
from isogloss.text.readers.pairs import NLI, SentencePair, read_pairs
from isogloss.text.readers.questions import Question, read_questions
from isogloss.text.readers.tables import BARS, header, read_bars, read_table
from isogloss.text.readers.tagged import RELATIONS, UPOS, TaggedSentence, read_parses, read_tagged
from isogloss.text.words import pieces

__all__ = [
    "NLI",
    "RELATIONS",
    "UPOS",
    "Question",
    "SentencePair",
    "Source",
    "TaggedSentence",
    "Tree",
    "WordLinks",
    "attach_links",
    "embedded",
    "embedded_lexicon",
    "read_bitext",
    "read_bitexts",
    "read_corpus",
    "read_lexicon",
    "read_lines",
    "read_linked",
    "read_links",
    "read_pairs",
    "read_parses",
    "read_questions",
    "read_tagged",
    "read_trees",
]

Links = Source | Mapping[Pair, Source]


def read_corpus(path: Source, language: str) -> Corpus:
    """Sentences of one language: one a line, a treebank, or the language's column of a table with a header.

    Blank lines and empty cells are passed over.
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


def read_bitexts(*paths: Source, languages: Sequence[str] | None = None, links: Links | None = None) -> list[Bitext]:
    """Every bitext the paths hold: one, or several from a folder or the hub. See the table above.

    `languages` names the files' languages, or picks and orders the columns of a table. `links` is a Pharaoh file
    for the two languages in that order, or one a pair; words are then what spaces separate, as in such files,
    unless the text has words of its own.
    """
    wanted = chosen(languages)
    if not paths:
        raise InputError("no bitext was given; name one file a language, a table or a folder")
    spec = str(paths[0])
    several = spec.startswith(PREFIX) or Path(spec).is_dir()
    if several and (len(paths) > 1 or links is not None):
        raise InputError(f"{spec} holds several bitexts; give it alone and without links")
    if spec.startswith(PREFIX):
        return read_hub(spec, wanted)
    if several:
        return read_folder(Path(spec), wanted)
    return [_one([file_path(path) for path in paths], wanted, links)]


def _one(files: list[Path], wanted: tuple[str, ...] | None, links: Links | None) -> Bitext:
    if all(plain_name(file).endswith(".conllu") for file in files):
        bitext = read_treebanks(files, _one_each(files, wanted))
        return bitext if links is None else _linked(bitext, links)
    name = " ".join(file.name for file in files)
    if len(files) > 1:
        corpora = aligned_corpora(files, _one_each(files, wanted))
    else:
        first = first_line(files[0])
        read = read_bars if BARS in first and "\t" not in first else read_table
        corpora = read(files[0], wanted)
    if links is None:
        return assemble(corpora, name)
    # Links count the file's rows, so they are attached before rows with an empty side are left out.
    split = tuple(replace(corpus, words=[pieces(text) for text in corpus]) for corpus in corpora)
    whole = _linked(Bitext(split, name=name), links)
    return assemble(whole.corpora, name, links=whole.links)


def _linked(bitext: Bitext, links: Links) -> Bitext:
    if not isinstance(links, Mapping):
        if len(bitext.languages) != 2:
            raise InputError(f"{links}: one file of links joins two languages, here are {len(bitext.languages)}")
        links = {(bitext.languages[0], bitext.languages[1]): links}
    for pair, path in links.items():
        bitext = attach_links(bitext, pair, read_links(path, sentences=bitext.rows))
    return bitext


def _one_each(files: list[Path], wanted: tuple[str, ...] | None) -> list[str]:
    """The language of each file: the caller's, else the one its name tells."""
    if wanted is not None and len(wanted) != len(files):
        raise InputError(f"{len(files)} files but {len(wanted)} languages ({', '.join(wanted)}): give one a file")
    told: Sequence[str | None] = wanted or [language_of(file) for file in files]
    unclear = [file.name for file, each in zip(files, told, strict=True) if each is None]
    if unclear:
        raise InputError(
            f"the language of {', '.join(unclear)} does not show in the name; give the languages, such as en,nl"
        )
    known = [each for each in told if each is not None]
    check_order(files, known)
    return known


def read_bitext(*paths: Source, languages: Sequence[str] | None = None, links: Links | None = None) -> Bitext:
    """The one bitext the paths hold; a folder that holds several is an InputError.

    `en, nl = read_bitext("en.txt", "nl.txt", languages=("en", "nl"))`
    """
    bitexts = read_bitexts(*paths, languages=languages, links=links)
    if len(bitexts) > 1:
        names = ", ".join(bitext.name for bitext in bitexts[:6])
        raise InputError(f"{paths[0]} holds {len(bitexts)} bitexts ({names} ...); choose languages, or name one file")
    return bitexts[0]
