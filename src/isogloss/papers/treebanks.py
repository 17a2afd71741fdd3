"""Treebanks and named entities for papers: files found in folders of data sets and cut to size, or invented ones.

Where a file has more sentences than are wanted, those with the lowest hash are taken, in the order of the file. It is
the hash of a sentence's id, or of its lines where it has none: neither a seed nor the order decides, and parallel
treebanks keep the same sentences. A file that must serve as development and test set is halved by the same hash.

Invented treebanks are of the sentences of `isogloss.text.invented`. The verb is the root, the first noun its subject
(the second where the language begins with the object), articles and adjectives hang on their noun. One noun in four is
a person, one in four a place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from isogloss.errors import InputError, require
from isogloss.papers.paper import lowest_hashed
from isogloss.text import read_lines
from isogloss.text.catalog import data_dir
from isogloss.text.invented import Grammar, grammar, invented
from isogloss.text.sampling import hash_fraction

# Kinds of files, which are options of papers: the folder of a data folder that has them, and what they are.
FOLDERS = {
    "text": ("train", "a folder of text to pretrain on, files named *.LANG.txt"),
    "treebanks": ("ud_train", "a folder of UD treebanks, such as en_ewt-ud-train.conllu"),
    "pud": ("ud_pud", "a folder of the parallel treebanks of UD, such as de_pud-ud-test.conllu"),
    "entities": ("wikiann_panx", "a folder of WikiAnn, train-en.tsv and so on, a word and its tag a line"),
}
WHOLE, FIRST_HALF, SECOND_HALF = (0.0, 1.0), (0.0, 0.5), (0.5, 1.0)  # ranges of hashes
Folders = Mapping[str, Path | None]


@dataclass(frozen=True)
class TaskFile:
    """A file of a reproduction that is cut from a treebank, or from WikiAnn.

    stem: its name without an ending, which says what it is cut from: `en_ewt.train` and `en_ewt.dev` to train on and to
    choose by, `en_ewt`, `de_pud` and `nl_wikiann` to test on. most: sentences, None for all. optional: left out where
    there is no such file.
    """

    stem: str
    most: int | None = None
    optional: bool = False

    @property
    def language(self) -> str:
        """The code of its language."""
        return self.stem.partition("_")[0]

    @property
    def kind(self) -> str:
        """What it is cut from, a key of `FOLDERS`."""
        corpus = self.stem.partition("_")[2].partition(".")[0]
        return {"wikiann": "entities", "pud": "pud"}.get(corpus, "treebanks")

    @property
    def name(self) -> str:
        """Its name in the folder of the reproduction's texts."""
        return f"{self.stem}.{'tsv' if self.kind == 'entities' else 'conllu'}"

    @property
    def patterns(self) -> dict[str, tuple[float, float]]:
        """Names of the files it may be cut from, the first that is there counts, and which part of each is taken.

        Where WikiAnn has no test of a language, half of its development set is one.
        """
        corpus, _, part = self.stem.partition(".")
        if self.kind != "entities":
            return {f"{corpus}-ud-{'train*' if part == 'train' else part or 'test'}.conllu": WHOLE}
        files = {"train": {"train": WHOLE}, "dev": {"dev": FIRST_HALF}, "": {"test": WHOLE, "dev": SECOND_HALF}}
        return {f"{name}-{self.language}.tsv": hashes for name, hashes in files[part].items()}

    def candidates(self, folder: Path) -> list[tuple[Path, tuple[float, float]]]:
        """The files of a folder that it may be cut from, and which part of each is taken; `.gz` may follow a name."""
        return [
            (path, hashes)
            for pattern, hashes in self.patterns.items()
            for path in sorted((*folder.glob(pattern), *folder.glob(f"{pattern}.gz")))
        ]


def folder_of(kind: str, given: str | None, data: str | None) -> Path | None:
    """The folder of a kind of files: the one that was given, else that in the data folder; None without either."""
    require(given is None or Path(given).is_dir(), f"--{kind} {given} is no folder")
    return Path(given) if given else data_dir(data) / FOLDERS[kind][0] if data is not None else None


def existing(kind: str, folders: Folders) -> Path:
    """The folder of a kind of files, which must be there."""
    folder, (below, what) = folders[kind], FOLDERS[kind]
    if folder is None:
        raise InputError(f"--{kind} is missing: give {what}, or a data folder with {below} in it")
    require(folder.is_dir(), f"{folder} is no folder; --{kind} is {what}")
    return folder


def find_file(file: TaskFile, folders: Folders) -> tuple[Path, tuple[float, float]]:
    """The file that a file is cut from, and which part of it is taken; an error where there is none."""
    folder = existing(file.kind, folders)
    if paths := file.candidates(folder):
        return paths[0]
    raise InputError(f"{folder} has no {' or '.join(file.patterns)}; --{file.kind} is {FOLDERS[file.kind][1]}")


def is_planned(file: TaskFile, folders: Folders) -> bool:
    """Whether to count on a file: an optional one has to be there, unless no folder is known yet."""
    folder = folders[file.kind]
    return not file.optional or folder is None or bool(file.candidates(folder))


def cut_file(file: TaskFile, folders: Folders) -> str:
    """The content of a file: the sentences that are taken."""
    source, hashes = find_file(file, folders)
    blocks = choose(sentences(read_lines(source)), file.most, hashes)
    require(blocks, f"{source} has no sentence for {file.stem}")
    return "".join("\n".join(block) + "\n\n" for block in blocks)


def sentences(lines: Sequence[str]) -> list[list[str]]:
    """Blocks of lines between blank ones.

    >>> sentences(["a", "b", "", "", "c"])
    [['a', 'b'], ['c']]
    """
    return [list(block) for filled, block in groupby(lines, lambda line: bool(line.strip())) if filled]


def choose(blocks: Sequence[list[str]], most: int | None, hashes: tuple[float, float] = WHOLE) -> list[list[str]]:
    """The sentences in a range of hashes, and of these at most so many: those with the lowest hash, in order.

    >>> choose([["a"], ["b"], ["c"], ["d"], ["e"]], 2)
    [['a'], ['c']]
    """

    def identity(block: list[str]) -> str:
        return next((line for line in block if line.startswith("# sent_id =")), "\n".join(block))

    low, high = hashes
    return lowest_hashed([block for block in blocks if low <= hash_fraction(identity(block)) < high], most, identity)


# ------------------------------------------------------------------------------------------------ invented ones

SEED = 1
TAGS = {"noun": "NOUN", "verb": "VERB", "adjective": "ADJ", "adverb": "ADV", "article": "DET", "stop": "PUNCT"}
RELATIONS = {"ADJ": "amod", "ADV": "advmod", "DET": "det", "PUNCT": "punct", "VERB": "root"}
ENTITIES: Mapping[int | None, str] = {0: "B-PER", 1: "B-LOC"}  # by the number of the noun, modulo 4
Words = list[tuple[str, str]]  # a sentence: each word's form and the concept it stands for


def invented_sets(languages: Sequence[str], counts: Mapping[str, int]) -> dict[str, dict[str, list[Words]]]:
    """So many sentences for each set, by the name of the set and the language.

    Sets differ in what their sentences say, and the same set of two languages says the same.
    """
    sets: dict[str, dict[str, list[Words]]] = {name: {} for name in counts}
    for corpus in invented(languages, sum(counts.values()), seed=SEED):
        concepts = {word: concept for concept, word in grammar(corpus.language, SEED).words.items()}
        words = iter(
            [(text[start:end], concepts[text[start:end]]) for start, end in spans]
            for text, spans in zip(corpus.sentences, corpus.words or (), strict=True)
        )
        for name, count in counts.items():
            sets[name][corpus.language] = [next(words) for _ in range(count)]
    return sets


def as_sentence(words: Words) -> str:
    """Plain text; the last word is the full stop."""
    return " ".join(form for form, _ in words[:-1]) + words[-1][0]


def invented_file(file: TaskFile, sets: Mapping[str, Mapping[str, list[Words]]], part: str) -> str:
    """The content of a file, of one of the sets that `invented_sets` gave: a tag or a tree for every word.

    The ids of a treebank's sentences are the same in every language.
    """
    speech, blocks = grammar(file.language, SEED), []
    for number, words in enumerate(sets[part][file.language]):
        if file.kind == "entities":
            nouns = [int(concept[4:]) % 4 if concept.startswith("noun") else None for _, concept in words]
            lines = [f"{form}\t{ENTITIES.get(noun, 'O')}" for (form, _), noun in zip(words, nouns, strict=True)]
        else:
            lines = [f"# sent_id = {part}-{number}", f"# text = {as_sentence(words)}"]
            tags = [TAGS[concept.rstrip("0123456789")] for _, concept in words]
            rows = zip(words, tags, _heads(tags, speech), strict=True)
            for at, ((form, _), tag, (head, relation)) in enumerate(rows, 1):
                last = "SpaceAfter=No" if at >= len(words) - 1 else "_"
                lines.append("\t".join([str(at), form, "_", tag, "_", "_", str(head), relation, "_", last]))
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


def _heads(tags: Sequence[str], speech: Grammar) -> Iterator[tuple[int, str]]:
    """The head and the relation of every word."""
    verb = tags.index("VERB") + 1
    nouns = [position for position, tag in enumerate(tags, 1) if tag == "NOUN"]
    subject = nouns[1 if speech.order == "osv" else 0]
    for position, tag in enumerate(tags, 1):
        if tag == "NOUN":
            yield verb, "nsubj" if position == subject else "obj"
        elif tag == "DET" or (tag == "ADJ" and speech.adjective_first):
            yield min(noun for noun in nouns if noun > position), RELATIONS[tag]
        elif tag == "ADJ":
            yield max(noun for noun in nouns if noun < position), RELATIONS[tag]
        else:
            yield (0 if tag == "VERB" else verb), RELATIONS[tag]
