"""The text of a reproduction: files to train, choose and test on, cut to size, and parallel text to compare languages.

Everything is written into the reproduction's own folder and read from there. Where a file has more sentences than are
wanted, those of the lowest places (a hash of the sentence's id, or of its lines where it has none, as in
`isogloss.text.split`) are taken, in the order of the file: neither a seed nor the order decides, and parallel treebanks
keep the same sentences. A file that must serve as development and test set is halved by the same hash.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from isogloss.errors import InputError
from isogloss.files import write_text
from isogloss.papers.samples import lowest
from isogloss.progress import Progress
from isogloss.text import read_bitext, read_lines
from isogloss.text.sampling import hash_fraction

IDENTIFIER = "# sent_id ="
HALVES = {"dev": (0.0, 0.5), "test": (0.5, 1.0)}  # which places are which
WHERE = {
    "treebanks": ("--treebanks", "a folder of UD treebanks, such as en_ewt-ud-train.conllu"),
    "pud": ("--pud", "a folder of the parallel treebanks of UD, such as de_pud-ud-test.conllu"),
    "entities": ("--entities", "a folder of WikiAnn, train-en.tsv and so on, a word and its tag a line"),
}


@dataclass(frozen=True)
class Piece:
    """A file of the reproduction: its name, the file it is made of, and how much of that.

    folder: `treebanks`, `pud` or `entities`. files: patterns, the first that is there counts; `.gz` may follow. most:
    sentences, None for all. half: which part is taken of the last pattern, which holds development and test.
    optional: left out where there is no such file.
    """

    name: str
    language: str
    folder: str
    files: tuple[str, ...]
    most: int | None = None
    half: str = ""
    optional: bool = False


def sentences(lines: Sequence[str]) -> list[list[str]]:
    """Blocks of lines between blank ones.

    >>> sentences(["a", "b", "", "", "c"])
    [['a', 'b'], ['c']]
    """
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def where(block: Sequence[str]) -> float:
    """The hash_fraction of a sentence: by its id where it has one, else by its lines."""
    named = [line for line in block if line.startswith(IDENTIFIER)]
    return hash_fraction(named[0] if named else "\n".join(block))


def choose(blocks: Sequence[list[str]], most: int | None, half: str = "") -> list[list[str]]:
    """A half, and of that at most so many sentences: those of the lowest places, in order.

    >>> choose([["a"], ["b"], ["c"], ["d"], ["e"]], 2)
    [['a'], ['c']]
    """
    low, high = HALVES.get(half, (0.0, 1.0))
    kept = [block for block in blocks if low <= where(block) < high] if half else list(blocks)
    if most is None or len(kept) <= most:
        return kept
    return [kept[row] for row in lowest([where(block) for block in kept], most)]


@dataclass(frozen=True, eq=False)
class Texts:
    """All files of a reproduction, found when they are planned and read when they are needed: a dry run needs none.

    folders: by kind; None where none is known. pieces: by name. parallel: the pieces of parallel text, in order.
    made: contents of all files by name, where languages are invented.
    """

    out: Path
    folders: Mapping[str, Path | None]
    pieces: Mapping[str, Piece]
    parallel: Sequence[str]
    compared: int | None
    made: Callable[[], Mapping[str, str]] | None = None

    def path(self, piece: Piece) -> Path:
        """Where a piece is written."""
        ending = "tsv" if piece.folder == "entities" else "conllu"
        return self.out / "text" / f"{piece.name}.{ending}"

    @property
    def bitext(self) -> Path:
        """Where the parallel text is written, a table of languages."""
        return self.out / "text" / "pud.tsv"

    def find(self, piece: Piece) -> tuple[Path, str]:
        """The file a piece is made of, and which half of it."""
        folder = self.folders[piece.folder]
        option, what = WHERE[piece.folder]
        if folder is None:
            raise InputError(f"{option} is missing: give {what}, or a data folder with it")
        for number, pattern in enumerate(piece.files):
            there = sorted(path for end in ("", ".gz") for path in folder.glob(f"{pattern}{end}"))
            if there:
                return there[0], piece.half if number == len(piece.files) - 1 else ""
        raise InputError(f"{folder} has no {' or '.join(piece.files)}; {option} is {what}")

    def there(self, piece: Piece) -> bool:
        """Whether to count on a piece: an optional one has to be there, unless no folder is known yet."""
        if not piece.optional or self.folders[piece.folder] is None:
            return True
        try:
            self.find(piece)
        except InputError:
            return False
        return True

    @cache  # noqa: B019 - as short-lived as the command
    def read(self) -> dict[str, str]:
        """Every file's content by its name."""
        if self.made is not None:
            return dict(self.made())
        found = {}
        for piece in self.pieces.values():
            source, half = self.find(piece)
            blocks = choose(sentences(read_lines(source)), piece.most, half)
            if not blocks:
                raise InputError(f"{source} has no sentence for {piece.name}")
            found[self.path(piece).name] = "".join("\n".join(block) + "\n\n" for block in blocks)
        if self.parallel:
            found[self.bitext.name] = "".join(f"{line}\n" for line in self._table())
        return found

    def _table(self) -> Iterator[str]:
        """Parallel sentences, a column a language; those that all languages have."""
        pieces = [self.pieces[name] for name in self.parallel]
        files = [self.find(piece)[0] for piece in pieces]
        bitext = read_bitext(*files, languages=[piece.language for piece in pieces])
        rows = list(zip(*(corpus.sentences for corpus in bitext), strict=True))
        if self.compared is not None and len(rows) > self.compared:
            rows = [rows[row] for row in lowest([hash_fraction(first) for first, *_ in rows], self.compared)]
        yield "\t".join(bitext.languages)
        for row in rows:
            yield "\t".join(" ".join(cell.split()) for cell in row)

    def hashes(self) -> dict[str, str]:
        """A hash of each file."""
        return {name: sha256(content.encode("utf-8")).hexdigest() for name, content in self.read().items()}

    def write(self, progress: Progress) -> None:
        """Write them, unless they are there as they should be."""
        folder = self.out / "text"
        folder.mkdir(parents=True, exist_ok=True)
        for number, (name, content) in enumerate(self.read().items()):
            path = folder / name
            if not path.is_file() or path.read_text(encoding="utf-8") != content:
                write_text(path, content)
            progress("writing texts", number + 1, len(self.read()))
