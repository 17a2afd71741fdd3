"""Words with a tag each, and words with a tree: named entities, parts of speech, dependencies.

| file | read as |
|---|---|
| `token<TAB>tag` (PAN-X, WikiANN) | a word a line, blank lines between sentences |
| `token pos tag` (CoNLL 2002, 2003) | the same, separated by spaces; the first column and the last |
| `.conllu` | forms and universal parts of speech of the syntactic words |

A row that cannot be used takes its sentence with it: a sentence with a hole would teach something wrong. Multi-word
tokens of a treebank are their words (French `aux` is `à` and `les`), empty nodes are passed over.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.readers.conllu import Tree, stream_trees
from isogloss.text.readers.lines import Problem, Source, fail, file_path, plain_name
from isogloss.text.readers.sound import sound_lines

# fmt: off
UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT",
    "SCONJ", "SYM", "VERB", "X",
)
"""The universal parts of speech."""

RELATIONS = (
    "acl", "advcl", "advmod", "amod", "appos", "aux", "case", "cc", "ccomp", "clf", "compound", "conj", "cop",
    "csubj", "dep", "det", "discourse", "dislocated", "expl", "fixed", "flat", "goeswith", "iobj", "list",
    "mark", "nmod", "nsubj", "nummod", "obj", "obl", "orphan", "parataxis", "punct", "reparandum", "root",
    "vocative", "xcomp",
)
"""The universal dependency relations, without subtypes."""
# fmt: on

_NONE = "_"
_DOCUMENT = "-DOCSTART-"
Word = tuple[int, str, str]  # line, form, tag


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their tags, as many of one as of the other."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(
    source: Source, problem: Problem = fail, *, tags: Collection[str] | None = None, bio: bool | None = None
) -> list[TaggedSentence]:
    """Every sentence of a file with a tag a word; a treebank's tags are its universal parts of speech.

    tags: the tags there may be; None takes any. bio: whether a tag must be O, B-type or I-type; None: unless it is a
    treebank. A row with the wrong number of columns, an empty word or an unknown tag is a problem, and its sentence is
    left out.
    """
    path = file_path(source)
    treebank = plain_name(path).endswith(".conllu")
    bio = not treebank if bio is None else bio
    sentences = _tree_words(path, problem) if treebank else _columns(path, problem)
    found = []
    for words in sentences:
        wrong = [f"{path}:{number}: {why}" for number, _, tag in words if (why := _wrong(tag, tags, bio=bio))]
        if wrong:
            problem(wrong[0])
        else:
            found.append(TaggedSentence(tuple(form for _, form, _ in words), tuple(tag for _, _, tag in words)))
    if not found:
        raise InputError(f"{path} has no sentence with tags that can be used")
    return found


def _wrong(tag: str, tags: Collection[str] | None, *, bio: bool) -> str:
    if tag in ("", _NONE):
        return "this word has no tag"
    if bio and tag != "O" and not (tag[:2] in ("B-", "I-") and tag[2:]):
        return f"the tag {tag!r} is not O, B-type or I-type"
    if tags is not None and tag not in tags:
        return f"the tag {tag!r} is not one of {', '.join(tags)}"
    return ""


def _tree_words(path: Path, problem: Problem) -> Iterator[list[Word]]:
    for tree in stream_trees(path, problem, heads=False):
        yield list(zip(tree.lines, tree.forms, tree.tags, strict=True))


def _columns(path: Path, problem: Problem) -> Iterator[list[Word]]:
    """The sentences of a file of columns; as many columns everywhere as on the first line that has any."""
    width = 0
    words: list[Word] = []
    sound = True
    for number, line in sound_lines(path, problem):
        if line is not None and not line.strip():
            if words and sound:
                yield words
            words, sound = [], True
            continue
        cells = [] if line is None else line.split("\t") if "\t" in line else line.split()
        if cells and cells[0].strip() == _DOCUMENT:
            continue
        width = width or len(cells)
        wrong = "" if line is None else _wrong_columns(cells, width)
        if wrong and sound:
            problem(f"{path}:{number}: {wrong}")
        sound = sound and line is not None and not wrong
        if sound:
            words.append((number, cells[0].strip(), cells[-1].strip()))
    if words and sound:
        yield words


def _wrong_columns(cells: list[str], width: int) -> str:
    if len(cells) < 2:
        return "1 column where a word and its tag were expected, separated by a tab or a space"
    if len(cells) != width:
        return f"{len(cells)} columns where the file has {width}"
    return "" if cells[0].strip() else "the word is empty"


def read_parses(source: Source, problem: Problem = fail, *, relations: Collection[str] | None = None) -> list[Tree]:
    """Every sentence of a treebank whose tree is whole: each word has a head and a relation, and there is one root.

    relations: those of training. A universal relation may still be new, and is then never guessed; any other one that
    is not among them, subtypes cut, is a problem. So is everything `stream_trees` calls one.
    """
    path = file_path(source)
    known = None if relations is None else {*relations, *RELATIONS}
    found = []
    for tree in stream_trees(path, problem):
        wrong = _unparsed(tree, known)
        if wrong:
            word, why = wrong
            problem(f"{path}:{tree.lines[word]}: {why}")
        else:
            found.append(tree)
    if not found:
        raise InputError(f"{path} has no sentence with a whole tree that can be used")
    return found


def _unparsed(tree: Tree, known: Collection[str] | None) -> tuple[int, str] | None:
    """The first word that keeps a tree from being used, and why."""
    for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
        if head < 0:
            return word, "this word has no head"
        if relation in ("", _NONE):
            return word, "this word has no relation to its head"
        if known is not None and relation not in known and relation.partition(":")[0] not in known:
            return word, f"the relation {relation!r} is neither universal nor one of those trained on"
    return None
