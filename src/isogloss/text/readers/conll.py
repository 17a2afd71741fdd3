"""The CoNLL formats: treebanks (CoNLL-U), and files with a word and its tag on each line.

| file | read as |
|---|---|
| `.conllu` (Universal Dependencies) | sentences with words, parts of speech and trees |
| `token<TAB>tag` (PAN-X, WikiANN) | one word per line, blank lines between sentences; a prefix `nl:` is removed |
| `token pos tag` (CoNLL 2002, 2003) | the same, separated by spaces; the first column and the last |

A word's span in a treebank refers to the sentence's `# text`; without that line the text is built from the forms and
`SpaceAfter=No`. The syntactic words of a multi-word token (French `aux` = `à` + `les`) all have the span of the surface
token, so that each of them can be looked up in the text; its subword tokens are assigned to the first. Empty nodes
(`8.1`) are skipped, since they have no characters.

Parallel treebanks are joined by `sent_id`, never by position if they have ids: Icelandic PUD has the ids of the others
in a different order, and by position half of its rows would not be translations.

A bad row removes its whole sentence, because a sentence with missing words would give wrong annotations.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from isogloss.errors import InputError, require
from isogloss.text.corpora import Bitext, Corpus, Span
from isogloss.text.readers.lines import BadRow, Problem, Source, fail, file_path, plain_name, require_rows, usable_lines

_UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"
_RELATIONS = """
    acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl fixed
    flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative xcomp
"""
UPOS = tuple(_UPOS.split())
"""The universal parts of speech."""

RELATIONS = tuple(_RELATIONS.split())
"""The universal dependency relations, without subtypes."""

_NUMBER = re.compile("[0-9]{1,9}")
_LANGUAGE = re.compile("[a-z-]{2,12}:")
_COLUMNS = 10
_NONE = "_"
_DOCUMENT = "-DOCSTART-"
T = TypeVar("T")
Line = tuple[int, str]  # line number and text
Row = tuple[int, list[str]]  # line number, cells


@dataclass(frozen=True)
class Tree:
    """One sentence of a treebank; the tuples are parallel, with one entry for each syntactic word.

    `heads` count from 1, 0 is the root, -1 means that the file has none (`_`). `tags` are universal parts of speech.
    `lines` are the line numbers of the words in the file.
    """

    text: str
    words: tuple[Span, ...]
    forms: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    identifier: str = ""
    lines: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their tags. `lines` are the line numbers of the words in the file."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    lines: tuple[int, ...] = field(default=(), compare=False)


def _sentences(path: Path, problem: Problem, parse: Callable[[list[Line]], T | None]) -> Iterator[T]:
    """Apply `parse` to the lines of each sentence, which ends at a blank line.

    A sentence for which it raises is a problem, and left out; so is one with a line that is not UTF-8.
    """
    sentence: list[Line] = []
    usable = True
    for number, line in chain(usable_lines(path, problem), [(0, "")]):  # the last sentence may lack its blank line
        if line is None:
            usable = False
        elif line.strip():
            sentence.append((number, line))
        else:
            try:
                parsed = parse(sentence) if sentence and usable else None
            except BadRow as bad:
                problem(f"{path}:{bad.args[0]}: {bad.args[1]}")
            else:
                if parsed is not None:
                    yield parsed
            sentence, usable = [], True


def stream_trees(source: Source, problem: Problem = fail, *, heads: bool = True) -> Iterator[Tree]:
    """The sentences of a treebank one at a time; a malformed one is a problem, and left out.

    With `heads=False` the trees are not read (every head is -1), so that a malformed tree does not matter if only the
    words are needed.
    """
    return _sentences(Path(source), problem, lambda sentence: _tree(sentence, heads=heads))


def _tree(sentence: list[Line], *, heads: bool) -> Tree | None:
    """The tree of a sentence; None if there are neither words nor comments of a sentence."""
    pairs = (line[1:].partition("=") for _, line in sentence if line.startswith("#"))
    comments = {name.strip(): value.strip() for name, _, value in pairs}
    rows = [(number, line.split("\t")) for number, line in sentence if not line.startswith("#")]
    if not rows:
        if comments.keys() & {"sent_id", "text"}:
            raise BadRow(sentence[0][0], "a sentence without words")
        return None
    surface: list[tuple[int, str, bool, int]] = []  # line, form, whether a space follows, number of words
    words: list[Row] = []
    inside = 0  # last word number of the multi-word token being read
    for number, cells in rows:
        expected = len(words) + 1
        if len(cells) != _COLUMNS:
            raise BadRow(number, f"{len(cells)} columns where a treebank has {_COLUMNS}, separated by tabs")
        if "." in cells[0]:
            continue
        spaced = "SpaceAfter=No" not in cells[9].split("|")
        if "-" in cells[0]:  # first and last word number of a multi-word token: 15-16
            first, _, last = cells[0].partition("-")
            if not (_NUMBER.fullmatch(first) and _NUMBER.fullmatch(last)) or not expected == int(first) < int(last):
                raise BadRow(number, f"multi-word token {cells[0]!r} where one from {expected} was expected")
            inside = int(last)
            surface.append((number, cells[1], spaced, inside - expected + 1))
            continue
        if cells[0] != str(expected):
            raise BadRow(number, f"word number {cells[0]!r} where {expected} was expected")
        words.append((number, cells))
        if len(words) > inside:
            surface.append((number, cells[1], spaced, 1))
    if inside > len(words) or not words:
        raise BadRow(rows[0][0], "a multi-word token without its words")
    # The text and each word's span in it: surface tokens in order, white space between them.
    text = comments.get("text") or "".join(form + " " * spaced for _, form, spaced, _ in surface).rstrip(" ")
    spans: list[Span] = []
    position = 0
    for number, form, _, count in surface:
        start = position
        while start < len(text) and text[start].isspace():
            start += 1
        if not form or not text.startswith(form, start):
            near = text[start : start + max(len(form), 12)]
            raise BadRow(number, f"the form {form!r} is not what '# text' has there ({near!r})")
        position = start + len(form)
        spans.extend([(start, position)] * count)
    numbers, table = zip(*words, strict=True)
    _, forms, _, tags, _, _, _, relations, _, _ = zip(*table, strict=True)
    parents = _heads(words) if heads else (-1,) * len(words)
    return Tree(
        text,
        tuple(spans),
        forms=forms,
        tags=tags,
        heads=parents,
        relations=relations,
        identifier=comments.get("sent_id", ""),
        lines=numbers,
    )


def _heads(words: list[Row]) -> tuple[int, ...]:
    """The head of every word; if all have one, raises unless they form a tree with one root."""
    heads = []
    for position, (number, cells) in enumerate(words, start=1):
        cell = cells[6]
        if cell == str(position):
            raise BadRow(number, f"word {position} is its own head")
        if cell != _NONE and (not _NUMBER.fullmatch(cell) or int(cell) > len(words)):
            raise BadRow(number, f"head {cell!r} where 0 (root) or a word's number was expected")
        heads.append(-1 if cell == _NONE else int(cell))
    if -1 in heads:
        return tuple(heads)
    if heads.count(0) != 1:
        raise BadRow(words[0][0], f"the sentence has {heads.count(0)} roots where one was expected")
    reached = {0}
    for word in range(1, len(heads) + 1):
        way: list[int] = []
        while word not in reached:
            if word in way:
                raise BadRow(words[word - 1][0], f"the heads run in a circle through word {word}")
            way.append(word)
            word = heads[word - 1]
        reached.update(way)
    return tuple(heads)


def read_trees(source: Source, *, heads: bool = True) -> list[Tree]:
    """Every sentence of a treebank; see `stream_trees`."""
    return list(stream_trees(source, heads=heads))


def read_treebank(source: Source, language: str) -> Corpus:
    """Read a treebank as a corpus with the treebank's words."""
    return _corpus(read_trees(source, heads=False), language, Path(source))


def _corpus(trees: Sequence[Tree], language: str, path: Path) -> Corpus:
    return Corpus(language, [tree.text for tree in trees], [tree.words for tree in trees], path.name)


def read_treebanks(paths: Sequence[Path], languages: Sequence[str]) -> Bitext:
    """Read parallel treebanks as one bitext: the ids common to all files, in the first file's order, or by position.

    Sentences whose id is missing from some file are counted in `dropped`.
    """
    banks = [read_trees(path, heads=False) for path in paths]
    dropped = 0
    if all(tree.identifier for bank in banks for tree in bank):
        indexes = [{tree.identifier: tree for tree in bank} for bank in banks]
        for path, bank in zip(paths, banks, strict=True):
            for identifier, count in Counter(tree.identifier for tree in bank).most_common(1):
                require(count == 1, f"{path}: sent_id {identifier} occurs more than once; rows are joined by sent_id")
        common = [each for each in indexes[0] if all(each in index for index in indexes[1:])]
        names = ", ".join(path.name for path in paths)
        require(common, f"no sent_id occurs in every one of {names}; are these parallel treebanks?")
        dropped = len(banks[0]) - len(common)
        banks = [[index[each] for each in common] for index in indexes]
    elif len({len(bank) for bank in banks}) > 1:
        counts = ", ".join(f"{path} has {len(bank):,}" for path, bank in zip(paths, banks, strict=True))
        raise InputError(f"treebanks without a sent_id everywhere must have equally many sentences: {counts}")
    return Bitext(tuple(map(_corpus, banks, languages, paths)), dropped=dropped)


def read_parses(source: Source, problem: Problem = fail, *, relations: Collection[str] | None = None) -> list[Tree]:
    """Every sentence of a treebank with a complete tree: each word has a head and a relation, and there is one root.

    relations: those of the training data. A universal relation that is not among them is accepted, although it cannot
    be predicted; any other relation (without its subtype) is a problem, as is every problem of `stream_trees`.
    """
    path = file_path(source)
    known = None if relations is None else {*relations, *RELATIONS}

    def parse(sentence: list[Line]) -> Tree | None:
        tree = _tree(sentence, heads=True)
        for number, head, relation in zip(tree.lines, tree.heads, tree.relations, strict=True) if tree else ():
            if head < 0:
                raise BadRow(number, "this word has no head")
            if relation in ("", _NONE):
                raise BadRow(number, "this word has no relation to its head")
            if known is not None and not {relation, relation.partition(":")[0]} & known:
                raise BadRow(number, f"the relation {relation!r} is neither universal nor one of those trained on")
        return tree

    return require_rows(_sentences(path, problem, parse), path, "sentence with a complete tree")


def read_tagged(
    source: Source, problem: Problem = fail, *, tags: Collection[str] | None = None, bio: bool | None = None
) -> list[TaggedSentence]:
    """Every sentence of a file with one tag for each word; a treebank's tags are its universal parts of speech.

    A row with the wrong number of columns, an empty word or an unknown tag is a problem, and its sentence is left out.
    A language code before every word of the file (`nl:Nederland`) is removed.

    Args:
        source: the file.
        problem: called with a sentence for each problem; by default it raises.
        tags: the allowed tags; None allows any.
        bio: whether tags must be O, B-type or I-type; by default they must, unless the file is a treebank.
    """
    path = file_path(source)
    treebank = plain_name(path).endswith(".conllu")
    bio = not treebank if bio is None else bio
    width = 0  # the number of columns of the first line that has any

    def columns(sentence: list[Line]) -> Iterator[tuple[int, str, str]]:
        nonlocal width
        for number, line in sentence:
            cells = line.split("\t") if "\t" in line else line.split()
            if cells[0].strip() == _DOCUMENT:
                continue
            width = width or len(cells)
            if len(cells) < 2:
                raise BadRow(number, "1 column where a word and its tag were expected, separated by a tab or a space")
            if len(cells) != width:
                hint = "" if "\t" in line else "; is it running text, not a word and its tag on each line?"
                raise BadRow(number, f"{len(cells)} columns where the file has {width}{hint}")
            if not cells[0].strip():
                raise BadRow(number, "the word is empty")
            yield number, cells[0].strip(), cells[-1].strip()

    def parse(sentence: list[Line]) -> TaggedSentence | None:
        if treebank:
            tree = _tree(sentence, heads=False)
            words = [] if tree is None else list(zip(tree.lines, tree.forms, tree.tags, strict=True))
        else:
            words = list(columns(sentence))
        for number, _, tag in words:
            if tag in ("", _NONE):
                raise BadRow(number, "this word has no tag")
            if bio and tag != "O" and not (tag[:2] in ("B-", "I-") and tag[2:]):
                raise BadRow(number, f"the tag {tag!r} is not O, B-type or I-type")
            if tags is not None and tag not in tags:
                raise BadRow(number, f"the tag {tag!r} is not one of {', '.join(tags)}")
        if not words:
            return None
        numbers, forms, labels = zip(*words, strict=True)
        return TaggedSentence(forms, labels, numbers)

    sentences = require_rows(_sentences(path, problem, parse), path, "sentence with tags")
    return sentences if treebank else _without_language(sentences)


def _without_language(sentences: list[TaggedSentence]) -> list[TaggedSentence]:
    """The sentences without the language (`nl:`) that PAN-X's original files have before each word of the file."""
    match = _LANGUAGE.match(sentences[0].words[0])
    if match is None or not all(word.startswith(match[0]) for sentence in sentences for word in sentence.words):
        return sentences
    bare = [tuple(word.removeprefix(match[0]) or word for word in sentence.words) for sentence in sentences]
    return [replace(sentence, words=words) for sentence, words in zip(sentences, bare, strict=True)]
