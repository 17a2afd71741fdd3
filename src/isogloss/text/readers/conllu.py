"""Universal Dependencies treebanks (CoNLL-U): sentences whose words, tags and trees are given.

A word's span lies in the sentence's `# text`; without that line the text is put together from the forms and
`SpaceAfter=No`. The syntactic words of a multi-word token (French `aux` = `à` + `les`) all have the span of the
surface token, so that each of them can be looked up in the text; when tokens are sent to words, the first
takes them. Empty nodes (`8.1`) are passed over: no character belongs to them.

Parallel treebanks are joined by `sent_id`, never by position when they have ids: Icelandic PUD has the ids of
the others in another order, and by position half of its rows would be no translations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, Span
from isogloss.text.readers.assemble import assemble
from isogloss.text.readers.lines import Problem, Source, fail
from isogloss.text.readers.sound import sound_lines

_COLUMNS = 10
Row = tuple[int, list[str]]  # line number, cells


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
    for number, line in sound_lines(path, problem):
        if line is None:
            whole = False
        elif line.startswith("#"):
            name, _, value = line[1:].partition("=")
            comments[name.strip()] = value.strip()
        elif line.strip():
            rows.append((number, line.split("\t")))
        else:
            if rows and whole:
                yield from _parsed(path, comments, rows=rows, heads=heads, problem=problem)
            elif whole and comments.keys() & {"sent_id", "text"}:
                problem(f"{path}:{number}: a sentence without words")
            comments, rows, whole = {}, [], True
    if rows and whole:
        yield from _parsed(path, comments, rows=rows, heads=heads, problem=problem)


def _parsed(path: Path, comments: dict[str, str], *, rows: list[Row], heads: bool, problem: Problem) -> Iterator[Tree]:
    try:
        yield _tree(comments, rows, heads=heads)
    except _Malformed as error:
        problem(f"{path}:{error.number}: {error}")


class _Malformed(ValueError):
    """What is wrong with a sentence, and on which line."""

    def __init__(self, number: int, sentence: str) -> None:
        super().__init__(sentence)
        self.number = number


def _tree(comments: dict[str, str], rows: list[Row], *, heads: bool) -> Tree:
    surface: list[tuple[int, str, bool, int]] = []  # line, form, whether a space follows, how many words it holds
    words: list[Row] = []
    inside = 0  # last word number of the multi-word token being read
    for number, cells in rows:
        if len(cells) != _COLUMNS:
            raise _Malformed(number, f"{len(cells)} columns where a treebank has {_COLUMNS}, separated by tabs")
        if "." in cells[0]:
            continue
        spaced = "SpaceAfter=No" not in cells[9].split("|")
        if "-" in cells[0]:
            first, last = _range(number, cells[0], expected=len(words) + 1)
            surface.append((number, cells[1], spaced, last - first + 1))
            inside = last
            continue
        if cells[0] != str(len(words) + 1):
            raise _Malformed(number, f"word number {cells[0]!r} where {len(words) + 1} was expected")
        words.append((number, cells))
        if len(words) > inside:
            surface.append((number, cells[1], spaced, 1))
    if inside > len(words) or not words:
        raise _Malformed(rows[0][0], "a multi-word token without its words")
    text, spans = _spans(comments.get("text", ""), surface)
    return Tree(
        text,
        tuple(spans),
        tuple(cells[1] for _, cells in words),
        tuple(cells[3] for _, cells in words),
        _heads(words) if heads else (-1,) * len(words),
        tuple(cells[7] for _, cells in words),
        comments.get("sent_id", ""),
        tuple(number for number, _ in words),
    )


def _range(number: int, cell: str, *, expected: int) -> tuple[int, int]:
    """First and last word number of a multi-word token: `15-16`."""
    first, _, last = cell.partition("-")
    if not (first.isdecimal() and last.isdecimal()) or int(first) != expected or int(last) <= int(first):
        raise _Malformed(number, f"multi-word token {cell!r} where one from {expected} was expected")
    return int(first), int(last)


def _heads(words: list[Row]) -> tuple[int, ...]:
    heads = []
    for place, (number, cells) in enumerate(words, start=1):
        cell = cells[6]
        if cell == "_":
            heads.append(-1)
            continue
        if cell == str(place):
            raise _Malformed(number, f"word {place} is its own head")
        if not cell.isdecimal() or int(cell) > len(words):
            raise _Malformed(number, f"head {cell!r} where 0 (root) or a word's number was expected")
        heads.append(int(cell))
    if -1 not in heads:
        if heads.count(0) != 1:
            raise _Malformed(words[0][0], f"the sentence has {heads.count(0)} roots where one was expected")
        looped = _looped(heads)
        if looped:
            raise _Malformed(words[looped - 1][0], f"the heads run in a circle through word {looped}")
    return tuple(heads)


def _looped(heads: list[int]) -> int:
    """A word from which the root is never reached, or 0."""
    reached = {0}
    for word in range(1, len(heads) + 1):
        path = []
        while word not in reached:
            if word in path:
                return word
            path.append(word)
            word = heads[word - 1]
        reached.update(path)
    return 0


def _spans(text: str, surface: list[tuple[int, str, bool, int]]) -> tuple[str, list[Span]]:
    """The text and each word's span in it: surface tokens in order, white space between them."""
    if not text:
        text = "".join(form + " " * spaced for _, form, spaced, _ in surface).rstrip(" ")
    spans: list[Span] = []
    position = 0
    for number, form, _, count in surface:
        start = position
        while start < len(text) and text[start].isspace():
            start += 1
        if not form or not text.startswith(form, start):
            near = text[start : start + max(len(form), 12)]
            raise _Malformed(number, f"the form {form!r} is not what '# text' has there ({near!r})")
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
        indexes = [_by_identifier(bank, path) for bank, path in zip(banks, paths, strict=True)]
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
    return assemble(corpora, " ".join(path.name for path in paths), dropped=dropped)


def _by_identifier(bank: list[Tree], path: Path) -> dict[str, Tree]:
    index = {tree.identifier: tree for tree in bank}
    if len(index) < len(bank):
        identifiers = [tree.identifier for tree in bank]
        twice = next(each for each in identifiers if identifiers.count(each) > 1)
        raise InputError(f"{path}: sent_id {twice} occurs more than once; rows are joined by sent_id")
    return index
