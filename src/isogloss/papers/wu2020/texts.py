"""The text of a reproduction, written into its own folder: to pretrain on, to learn maps from, to test on.

| file | what it is |
|---|---|
| `pretrain.LANG.txt.gz` | text to pretrain on; `en2` has other paragraphs than `en` |
| `words.LANG.txt.gz` | text whose words get vectors, the first part of the same, a sentence a line |
| `parallel.en-LANG.tsv` | sentences that maps are learned from and languages compared on |
| `tatoeba.en-LANG.tsv` | sentences that are looked up |
| `en_ewt.train.conllu`, `en_wikiann.train.tsv`, `nli.train.tsv`, ... | tasks |
| `lexicon.en-LANG.train.txt`, `lexicon.en-LANG.test.txt` | dictionaries |

Parallel sentences are those of XNLI; where that has none of a language, pairs of Tatoeba that are not looked up; for
`en2`, English sentences that share a translation. `texts.json` holds a hash of each file. Where it is there the texts
are taken as they are and no data folder is needed any more: so a folder can be prepared on one machine and gone on with
on another. Where a set has more than is wanted, those of the lowest places are taken (a hash of the paragraph read
backwards, since the one read forwards decides what `pretrain` holds out).
"""

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from isogloss.errors import InputError
from isogloss.files import whole, write_text
from isogloss.papers.muller2021.texts import Piece
from isogloss.papers.muller2021.texts import Texts as Pieces
from isogloss.papers.samples import drawn, lowest
from isogloss.papers.wu2020.invented import invented_texts
from isogloss.papers.wu2020.scales import PARALLEL, Scale
from isogloss.progress import Progress
from isogloss.text import read_bitext, read_bitexts
from isogloss.text.catalog import data_dir, find_lexicon
from isogloss.text.corpora import Bitext, paraphrases
from isogloss.text.readers.inference import read_pairs
from isogloss.text.readers.lines import language_of, read_lines
from isogloss.text.sampling import hash_fraction
from isogloss.text.streams import paragraphs

LIST = "texts.json"
FOLDERS = {"treebanks": "ud_train", "entities": "wikiann_panx"}
INFERRED = 4  # times as many pairs of a test of NLI as sentences of other tests: each has one answer only
_ENDS = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
HALF = 2  # of a test set's size, a development set has at most one of so many parts


@dataclass(frozen=True, eq=False)
class Texts:
    """All files, found when they are needed: a dry run needs none.

    data: folder of data sets. given: folders that stand for its own, by the name of their option: `text`, `treebanks`,
    `entities`.
    """

    out: Path
    scale: Scale
    data: str | None
    given: Mapping[str, str | None]

    def path(self, name: str) -> str:
        """Where a file is written."""
        return str(self.out / "text" / name)

    def known(self, language: str) -> str:
        """What is pretrained on: a file of ours, or at full scale the files of the folder itself, with commas."""
        if self.scale.text is not None:
            return self.path(f"pretrain.{language}.txt.gz")
        return ",".join(map(str, self.sources(language))) if self.given["text"] else f"{language}.txt"

    def words(self, language: str) -> str:
        """What words get vectors from."""
        return self.known(language) if self.scale.words is None else self.path(f"words.{language}.txt.gz")

    def sources(self, language: str) -> list[Path]:
        """The files of a language in the folder of text."""
        folder = self._folder("text", "train", "a folder of text to pretrain on, files named *.LANG.txt")
        wanted = language.rstrip("2")
        found = [
            path
            for path in sorted((*folder.glob("*.txt"), *folder.glob("*.txt.gz")))
            if language_of(path) == wanted and (self.scale.text is None or path.name.split(".")[0] not in PARALLEL)
        ]
        if not found:
            raise InputError(f"{folder} has no text of {wanted}: no file is named *.{wanted}.txt")
        return found

    @cache  # noqa: B019 - as short-lived as the command
    def read(self) -> dict[str, str]:
        """Every file's content by its name."""
        return dict(invented_texts(self.scale) if self.scale.made else self._found())

    def hashes(self) -> dict[str, str]:
        """A hash of each file; of what is written, where it is."""
        if self._listed.is_file():
            return dict(json.loads(self._listed.read_text(encoding="utf-8")))
        return {name: sha256(content.encode("utf-8")).hexdigest() for name, content in self.read().items()}

    def write(self, progress: Progress) -> None:
        """Write them, unless they are there."""
        if self._listed.is_file():
            return
        hashes, folder = self.hashes(), self._listed.parent
        folder.mkdir(parents=True, exist_ok=True)
        for number, (name, content) in enumerate(self.read().items()):
            if name.endswith(".gz"):
                with whole(folder / name) as beside:
                    beside.write_bytes(gzip.compress(content.encode("utf-8"), mtime=0))
            else:
                write_text(folder / name, content)
            progress("writing texts", number + 1, len(hashes))
        write_text(self._listed, json.dumps(hashes, indent=1) + "\n")

    @property
    def _listed(self) -> Path:
        return self.out / "text" / LIST

    def _folder(self, option: str, below: str, what: str) -> Path:
        named = self.given[option]
        if named is None and self.data is None:
            raise InputError(f"--{option} is missing: give {what}, or a data folder with {below} in it")
        folder = Path(named) if named else data_dir(self.data) / below
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder; --{option} is {what}")
        return folder

    def _found(self) -> Iterator[tuple[str, str]]:
        """The files of a scale with data."""
        scale = self.scale
        if scale.text is not None:
            for language in (scale.source, *scale.targets):
                yield from self._pretraining(language)
        else:
            for language in (scale.source, *scale.targets):
                self.sources(language)
        data = data_dir(self.data)
        yield f"parallel.{scale.source}-{scale.again}.tsv", _table(self._again(data), scale.pairs)
        for target in scale.targets:
            yield f"parallel.{scale.source}-{target}.tsv", _table(self._learned(data, target), scale.pairs)
            asked = read_bitext(data / "tatoeba", languages=(scale.source, target))
            yield f"tatoeba.{scale.source}-{target}.tsv", _table(asked, None)
            for split in ("train", "test"):
                lines = read_lines(find_lexicon(data, scale.source, target, split=split))
                yield f"lexicon.{scale.source}-{target}.{split}.txt", "".join(f"{line}\n" for line in lines)
        yield from self._inference(data)
        folders = {kind: self._folder(kind, below, f"a folder as {below}") for kind, below in FOLDERS.items()}
        pieces = {one.name: one for one in task_pieces(scale)}
        yield from Pieces(self.out, folders, pieces, (), None).read().items()

    def _pretraining(self, language: str) -> Iterator[tuple[str, str]]:
        """Text to pretrain on, and a part of it for words; of the source, as much again for its second self."""
        assert self.scale.text is not None and self.scale.words is not None
        lines = list(dict.fromkeys(paragraphs(self.sources(language))))
        lines.sort(key=lambda line: hash_fraction(line[::-1]))
        first = cut(lines, self.scale.text)
        yield f"pretrain.{language}.txt.gz", "".join(f"{line}\n" for line in first)
        single = [one for line in first for one in sentences_of(line)]
        yield f"words.{language}.txt.gz", "".join(f"{one}\n" for one in cut(single, self.scale.words))
        if language == self.scale.source:
            again = cut(lines[len(first) :], self.scale.text)
            if not again:
                raise InputError(
                    f"the text of {language} has no more than {self.scale.text:,} bytes, and a second model of it "
                    "needs other text; give more, or a smaller --text-bytes"
                )
            yield f"pretrain.{self.scale.again}.txt.gz", "".join(f"{line}\n" for line in again)

    def _again(self, data: Path) -> Bitext:
        """Pairs of different sentences of the source that share a translation."""
        return paraphrases(read_bitexts(data / "tatoeba_train"), self.scale.source)

    def _learned(self, data: Path, target: str) -> Bitext:
        languages = (self.scale.source, target)
        if target not in self.scale.learned:
            return read_bitext(_there(data / "xnli" / "xnli.15way.tsv", "parallel sentences"), languages=languages)
        folder = data / self.scale.learned[target]
        return read_bitext(_there(folder / f"{languages[0]}-{target}.tsv", "pairs of sentences"), languages=languages)

    def _inference(self, data: Path) -> Iterator[tuple[str, str]]:
        scale = self.scale
        most: dict[str, int | None] = {"train": scale.inferred, "dev": scale.tested}
        files = {"train": data / "nli_en" / "mnli_train.tsv", "dev": data / "nli_en" / "mnli_val.tsv"}
        for one in (scale.source, *scale.compared):
            # Their rows are parallel, and which ones are drawn hangs on their number alone: the same in each language.
            files[one], most[one] = data / "xnli" / f"test-{one}.tsv", scale.tested and INFERRED * scale.tested
        for name, path in files.items():
            pairs = read_pairs(_there(path, "pairs of sentences"))
            rows = [pairs[row] for row in drawn(range(len(pairs)), most[name])]
            lines = ("\t".join((one.first, one.second, one.label)) for one in rows)
            yield f"nli.{name}.tsv", "".join(f"{line}\n" for line in lines)


def task_pieces(scale: Scale) -> Iterator[Piece]:
    """Treebanks and named entities: training and development of the source, a test of every language."""
    half = None if scale.tested is None else scale.tested // HALF
    languages = (scale.source, *scale.targets)
    home = f"{scale.source}_{scale.treebanks[scale.source]}"
    yield Piece(f"{home}.train", scale.source, "treebanks", (f"{home}-ud-train*.conllu",), scale.examples)
    yield Piece(f"{home}.dev", scale.source, "treebanks", (f"{home}-ud-dev.conllu",), half)
    for one in languages:
        name = f"{one}_{scale.treebanks[one]}"
        yield Piece(name, one, "treebanks", (f"{name}-ud-test.conllu",), scale.tested)
    yield Piece(
        f"{scale.source}_wikiann.train", scale.source, "entities", (f"train-{scale.source}.tsv",), scale.examples
    )
    yield Piece(f"{scale.source}_wikiann.dev", scale.source, "entities", (f"dev-{scale.source}.tsv",), half, "dev")
    for one in languages:
        yield Piece(f"{one}_wikiann", one, "entities", (f"test-{one}.tsv", f"dev-{one}.tsv"), scale.tested, "test")


def task_files(scale: Scale, task: str, target: str) -> tuple[str, str, dict[str, str]]:
    """The files of a task: to train on, to choose by, and the tests of source and target."""
    source = scale.source
    if task == "nli":
        return "nli.train.tsv", "nli.dev.tsv", {one: f"nli.{one}.tsv" for one in (source, target)}
    kind, end = ({one: "wikiann" for one in scale.treebanks}, "tsv") if task == "ner" else (scale.treebanks, "conllu")
    home = f"{source}_{kind[source]}"
    return f"{home}.train.{end}", f"{home}.dev.{end}", {one: f"{one}_{kind[one]}.{end}" for one in (source, target)}


def sentences_of(paragraph: str) -> list[str]:
    """A paragraph cut behind end marks, since a model reads so many tokens of a line and no more.

    >>> sentences_of("It rains. Still! 下雨了。还在下。")
    ['It rains.', 'Still!', '下雨了。', '还在下。']
    """
    return [one.strip() for one in _ENDS.split(paragraph) if one.strip()]


def cut(lines: Sequence[str], size: int) -> list[str]:
    """The first lines that together have at most so many bytes, ends of lines counted.

    >>> cut(["abc", "d", "ef"], 6)
    ['abc', 'd']
    """
    found, left = list[str](), size
    for line in lines:
        left -= len(line.encode("utf-8")) + 1
        if left < 0:
            break
        found.append(line)
    return found


def _table(bitext: Bitext, most: int | None) -> str:
    """A table of languages, its rows those of the lowest places."""
    rows = [tuple(" ".join(cell.split()) for cell in row) for row in zip(*bitext, strict=True)]
    if most is not None and len(rows) > most:
        rows = [rows[number] for number in lowest([hash_fraction(row[0]) for row in rows], most)]
    return "".join("\t".join(row) + "\n" for row in (bitext.languages, *rows))


def _there(path: Path, what: str) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is missing: {what}; docs/reproduce.md lists the files of the data folder")
    return path
