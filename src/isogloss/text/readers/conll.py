"""The CoNLL formats: treebanks (CoNLL-U), and files with a word and its tag on each line.

| file | read as |
|---|---|
| `.conllu` (Universal Dependencies) | sentences whose words, parts of speech and trees are given |
| `token<TAB>tag` (PAN-X, WikiANN) | a word a line, blank lines between sentences |
| `token pos tag` (CoNLL 2002, 2003) | the same, separated by spaces; the first column and the last |

A word's span in a treebank lies in the sentence's `# text`; without that line the text is put together from the forms
and `SpaceAfter=No`. The syntactic words of a multi-word token (French `aux` = `à` + `les`) all have the span of the
surface token, so that each of them can be looked up in the text; when tokens are sent to words, the first takes them.
Empty nodes (`8.1`) are passed over: no character belongs to them.

Parallel treebanks are joined by `sent_id`, never by position when they have ids: Icelandic PUD has the ids of
the others in another order, and by position half of its rows would be no translations.

A row that cannot be used takes its sentence with it: a sentence with a hole would teach something wrong.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, Span, assemble_bitext
from isogloss.text.readers.lines import Problem, Source, fail, file_path, plain_name, usable_lines

_UPOS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X"
_RELATIONS = """
    acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det discourse dislocated expl fixed
    flat goeswith iobj list mark nmod nsubj nummod obj obl orphan parataxis punct reparandum root vocative xcomp
"""
UPOS = tuple(_UPOS.split())
"""The universal parts of speech."""

RELATIONS = tuple(_RELATIONS.split())
"""The universal dependency relations, without subtypes."""

_COLUMNS = 10
_NONE = "_"
_DOCUMENT = "-DOCSTART-"
Row = tuple[int, list[str]]  # line number, cells
TaggedWord = tuple[int, str, str]  # line number, form, tag


@dataclass(frozen=True)
class Tree:
    """One sentence of a treebank; the tuples run parallel, one entry a syntactic word.

    `heads` count from 1, 0 is the root, -1 where the file has none (`_`). `tags` are universal parts of speech.
    `lines` says where in the file each word stands.
    """

    text: str
    words: tuple[Span, ...]
    forms: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    identifier: str = ""
    lines: tuple[int, ...] = field(default=(), compare=False)


def stream_trees(source: Source, problem: Problem = fail, *, heads: bool = True) -> Iterator[Tree]:
    """The sentences of a treebank one at a time; a malformed one is a problem, and left out.

    With `heads=False` the trees are not looked at (every head is -1): a slip in one does not matter to whoever
    wants only the words.
    """
    path = Path(source)
    comments: dict[str, str] = {}
    rows: list[Row] = []
    whole = True
    for number, line in chain(usable_lines(path, problem), [(0, "")]):  # the last sentence may lack its blank line
        if line is None:
            whole = False
        elif line.startswith("#"):
            name, _, value = line[1:].partition("=")
            comments[name.strip()] = value.strip()
        elif line.strip():
            rows.append((number, line.split("\t")))
        else:
            if rows and whole:
                try:
                    yield _tree(path, comments, rows, heads=heads)
                except InputError as error:
                    problem(str(error))
            elif whole and number and comments.keys() & {"sent_id", "text"}:
                problem(f"{path}:{number}: a sentence without words")
            comments, rows, whole = {}, [], True


def _tree(path: Path, comments: dict[str, str], rows: list[Row], *, heads: bool) -> Tree:
    surface: list[tuple[int, str, bool, int]] = []  # line, form, whether a space follows, how many words it holds
    words: list[Row] = []
    inside = 0  # last word number of the multi-word token being read
    for number, cells in rows:
        where, expected = f"{path}:{number}", len(words) + 1
        if len(cells) != _COLUMNS:
            raise InputError(f"{where}: {len(cells)} columns where a treebank has {_COLUMNS}, separated by tabs")
        if "." in cells[0]:
            continue
        spaced = "SpaceAfter=No" not in cells[9].split("|")
        if "-" in cells[0]:  # first and last word number of a multi-word token: 15-16
            first, _, last = cells[0].partition("-")
            if not (first.isdecimal() and last.isdecimal()) or not expected == int(first) < int(last):
                raise InputError(f"{where}: multi-word token {cells[0]!r} where one from {expected} was expected")
            inside = int(last)
            surface.append((number, cells[1], spaced, inside - expected + 1))
            continue
        if cells[0] != str(expected):
            raise InputError(f"{where}: word number {cells[0]!r} where {expected} was expected")
        words.append((number, cells))
        if len(words) > inside:
            surface.append((number, cells[1], spaced, 1))
    if inside > len(words) or not words:
        raise InputError(f"{path}:{rows[0][0]}: a multi-word token without its words")
    text, spans = _spans(path, comments.get("text", ""), surface)
    return Tree(
        text,
        tuple(spans),
        tuple(cells[1] for _, cells in words),
        tuple(cells[3] for _, cells in words),
        _heads(path, words) if heads else (-1,) * len(words),
        tuple(cells[7] for _, cells in words),
        comments.get("sent_id", ""),
        tuple(number for number, _ in words),
    )


def _heads(path: Path, words: list[Row]) -> tuple[int, ...]:
    """The head of every word; where all have one, there is one root, and every word leads to it."""
    heads = []
    for position, (number, cells) in enumerate(words, start=1):
        cell = cells[6]
        if cell == str(position):
            raise InputError(f"{path}:{number}: word {position} is its own head")
        if cell != _NONE and (not cell.isdecimal() or int(cell) > len(words)):
            raise InputError(f"{path}:{number}: head {cell!r} where 0 (root) or a word's number was expected")
        heads.append(-1 if cell == _NONE else int(cell))
    if -1 in heads:
        return tuple(heads)
    if heads.count(0) != 1:
        raise InputError(f"{path}:{words[0][0]}: the sentence has {heads.count(0)} roots where one was expected")
    reached = {0}
    for word in range(1, len(heads) + 1):
        way: list[int] = []
        while word not in reached:
            if word in way:
                raise InputError(f"{path}:{words[word - 1][0]}: the heads run in a circle through word {word}")
            way.append(word)
            word = heads[word - 1]
        reached.update(way)
    return tuple(heads)


def _spans(path: Path, text: str, surface: list[tuple[int, str, bool, int]]) -> tuple[str, list[Span]]:
    """The text and each word's span in it: surface tokens in order, white space between them."""
    text = text or "".join(form + " " * spaced for _, form, spaced, _ in surface).rstrip(" ")
    spans: list[Span] = []
    position = 0
    for number, form, _, count in surface:
        start = position
        while start < len(text) and text[start].isspace():
            start += 1
        if not form or not text.startswith(form, start):
            near = text[start : start + max(len(form), 12)]
            raise InputError(f"{path}:{number}: the form {form!r} is not what '# text' has there ({near!r})")
        position = start + len(form)
        spans.extend([(start, position)] * count)
    return text, spans


def read_trees(source: Source, *, heads: bool = True) -> list[Tree]:
    """Every sentence of a treebank; see `stream_trees`."""
    return list(stream_trees(source, heads=heads))


def read_treebank(source: Source, language: str) -> Corpus:
    """A treebank as a corpus whose words are the treebank's."""
    trees = read_trees(source, heads=False)
    return Corpus(language, [tree.text for tree in trees], [tree.words for tree in trees], Path(source).name)


def read_treebanks(paths: Sequence[Path], languages: Sequence[str]) -> Bitext:
    """Parallel treebanks as one bitext: the ids all files have, in the first file's order; without ids, by order.

    Sentences whose id some file lacks are counted in `dropped`.
    """
    banks = [read_trees(path, heads=False) for path in paths]
    dropped = 0
    if all(tree.identifier for bank in banks for tree in bank):
        indexes = [{tree.identifier: tree for tree in bank} for bank in banks]
        for path, bank, index in zip(paths, banks, indexes, strict=True):
            if len(index) < len(bank):
                identifiers = [tree.identifier for tree in bank]
                twice = next(each for each in identifiers if identifiers.count(each) > 1)
                raise InputError(f"{path}: sent_id {twice} occurs more than once; rows are joined by sent_id")
        common = [each for each in indexes[0] if all(each in index for index in indexes[1:])]
        if not common:
            names = ", ".join(path.name for path in paths)
            raise InputError(f"no sent_id occurs in every one of {names}; are these parallel treebanks?")
        dropped = len(banks[0]) - len(common)
        banks = [[index[each] for each in common] for index in indexes]
    elif len({len(bank) for bank in banks}) > 1:
        counts = ", ".join(f"{path} has {len(bank):,}" for path, bank in zip(paths, banks, strict=True))
        raise InputError(f"treebanks without a sent_id everywhere must have equally many sentences: {counts}")
    corpora = [
        Corpus(language, [tree.text for tree in bank], [tree.words for tree in bank], path.name)
        for language, bank, path in zip(languages, banks, paths, strict=True)
    ]
    return assemble_bitext(corpora, " ".join(path.name for path in paths), dropped=dropped)


def read_parses(source: Source, problem: Problem = fail, *, relations: Collection[str] | None = None) -> list[Tree]:
    """Every sentence of a treebank whose tree is whole: each word has a head and a relation, and there is one root.

    relations: those of training. A universal relation may still be new, and is then never guessed; any other one that
    is not among them, subtypes cut, is a problem. So is everything `stream_trees` calls one.
    """
    path = file_path(source)
    known = None if relations is None else {*relations, *RELATIONS}
    usable = []
    for tree in stream_trees(path, problem):
        for number, head, relation in zip(tree.lines, tree.heads, tree.relations, strict=True):
            if head < 0:
                wrong = "this word has no head"
            elif relation in ("", _NONE):
                wrong = "this word has no relation to its head"
            elif known is not None and relation not in known and relation.partition(":")[0] not in known:
                wrong = f"the relation {relation!r} is neither universal nor one of those trained on"
            else:
                continue
            problem(f"{path}:{number}: {wrong}")
            break
        else:
            usable.append(tree)
    if not usable:
        raise InputError(f"{path} has no sentence with a whole tree that can be used")
    return usable


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their tags, as many of one as of the other."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def read_tagged(
    source: Source, problem: Problem = fail, *, tags: Collection[str] | None = None, bio: bool | None = None
) -> list[TaggedSentence]:
    """Every sentence of a file with a tag a word; a treebank's tags are its universal parts of speech.

    A row with the wrong number of columns, an empty word or an unknown tag is a problem, and its sentence is left out.

    Args:
        source: the file.
        problem: is told what is wrong with a sentence; by default it raises.
        tags: the tags there may be; None takes any.
        bio: whether a tag must be O, B-type or I-type; by default it must, unless the file is a treebank.
    """
    path = file_path(source)
    usable = [
        TaggedSentence(tuple(form for _, form, _ in words), tuple(tag for _, _, tag in words))
        for words in stream_tagged(path, problem, tags=tags, bio=bio)
    ]
    if not usable:
        raise InputError(f"{path} has no sentence with tags that can be used")
    return usable


def stream_tagged(
    path: Path, problem: Problem = fail, *, tags: Collection[str] | None = None, bio: bool | None = None
) -> Iterator[list[TaggedWord]]:
    """Line, form and tag of the words of each sentence that can be used, see `read_tagged`."""
    treebank = plain_name(path).endswith(".conllu")
    bio = not treebank if bio is None else bio
    trees = stream_trees(path, problem, heads=False) if treebank else ()
    tree_words = (list(zip(tree.lines, tree.forms, tree.tags, strict=True)) for tree in trees)
    for words in tree_words if treebank else _column_words(path, problem):
        for number, _, tag in words:
            if tag in ("", _NONE):
                wrong = "this word has no tag"
            elif bio and tag != "O" and not (tag[:2] in ("B-", "I-") and tag[2:]):
                wrong = f"the tag {tag!r} is not O, B-type or I-type"
            elif tags is not None and tag not in tags:
                wrong = f"the tag {tag!r} is not one of {', '.join(tags)}"
            else:
                continue
            problem(f"{path}:{number}: {wrong}")
            break
        else:
            yield words


def _column_words(path: Path, problem: Problem) -> Iterator[list[TaggedWord]]:
    """The sentences of a file of columns; as many columns everywhere as on the first line that has any."""
    width = 0
    words: list[TaggedWord] = []
    sound = True
    for number, line in chain(usable_lines(path, problem), [(0, "")]):  # the last sentence may lack its blank line
        if line is not None and not line.strip():
            if words and sound:
                yield words
            words, sound = [], True
            continue
        cells = [] if line is None else line.split("\t") if "\t" in line else line.split()
        if cells and cells[0].strip() == _DOCUMENT:
            continue
        width = width or len(cells)
        wrong = ""
        if line is not None and len(cells) < 2:
            wrong = "1 column where a word and its tag were expected, separated by a tab or a space"
        elif line is not None and len(cells) != width:
            wrong = f"{len(cells)} columns where the file has {width}"
        elif line is not None and not cells[0].strip():
            wrong = "the word is empty"
        if wrong and sound:
            problem(f"{path}:{number}: {wrong}")
        sound = sound and line is not None and not wrong
        if sound:
            words.append((number, cells[0].strip(), cells[-1].strip()))
