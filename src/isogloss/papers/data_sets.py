"""The texts of papers, from files in the folder of data sets that are found by name and reduced to a given size.

The selection depends neither on a seed nor on the order of a file. `lowest_hashed` takes the items with the lowest
hashes, so that a smaller selection is part of a larger one. `drawn` depends only on the number of rows, so that sets
which are translations of each other keep the same rows. For sentences of treebanks, hashes of their ids achieve both.
A file of WikiAnn that serves as development and test set is divided by hashes, too.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from isogloss.errors import InputError, require
from isogloss.text.corpora import Bitext, letters
from isogloss.text.readers.examples import NLI, SentencePair, read_pairs
from isogloss.text.readers.lines import read_lines
from isogloss.text.readers.parallel import Pair, PairSource
from isogloss.text.sampling import hash_fraction

TAB = "\t"
LONGEST = 400  # maximum number of characters on each side of a pair
HELD_ARTICLES = 0.03  # share of SQuAD's training articles held out for development
T = TypeVar("T")


def find_file(data: Path, *patterns: str) -> Path:
    """The first file of the data folder that matches one of these patterns, in order; `.gz` may follow a name."""
    for pattern in patterns:
        if paths := sorted((*data.glob(pattern), *data.glob(f"{pattern}.gz"))):
            return paths[0]
    raise InputError(f"{data / patterns[0]} is missing; docs/reproduce.md lists the files of the data folder")


def lowest_hashed(items: Sequence[T], count: int | None, text: Callable[[T], str] = str) -> list[T]:
    """At most `count` items: those whose `text` has the lowest hashes, in their original order.

    >>> lowest_hashed(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    if count is None or len(items) <= count:
        return list(items)
    ordered = sorted(range(len(items)), key=[hash_fraction(text(item)) for item in items].__getitem__)
    return [items[position] for position in sorted(ordered[:count])]


def drawn(items: Sequence[T], count: int | None) -> list[T]:
    """At most `count` of the items, in their order; the selection depends only on the number of items."""
    if count is None or len(items) <= count:
        return list(items)
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[position] for position in sorted(chosen.tolist())]


def as_lines(lines: Iterable[str | Sequence[str]]) -> str:
    """The content of a file from lines, or from cells to be separated by tabs."""
    return "".join(f"{line if isinstance(line, str) else TAB.join(line)}\n" for line in lines)


def parallel_table(bitext: Bitext, most: int | None) -> str:
    """Parallel sentences as a table with a header of languages: at most `most` rows, those with the lowest hash."""
    cleaned = [tuple(" ".join(text.split()) for text in cells) for cells in zip(*bitext, strict=True)]
    return as_lines([tuple(bitext.languages), *lowest_hashed(cleaned, most, lambda cells: cells[0])])


# ------------------------------------------------------------------------------------------------ pairs of sentences


def pair_table(pairs: Sequence[SentencePair], count: int | None = None) -> str:
    """At most `count` labelled pairs as a table."""
    return as_lines((pair.first, pair.second, pair.label) for pair in drawn(pairs, count))


def inference_files(data: Path, languages: Sequence[str], count: int) -> dict[str, str]:
    """MultiNLI for training (at most `count` pairs) and development, and both sets of XNLI in these languages."""
    files = {"mnli-train.tsv": ("nli_en/mnli_train.tsv", count), "mnli-dev.tsv": ("nli_en/mnli_val.tsv", None)}
    for name in (f"{part}-{code}.tsv" for code in languages for part in ("dev", "test")):
        files[f"xnli-{name}"] = f"xnli/{name}", None
    return {name: pair_table(read_pairs(find_file(data, path)), most) for name, (path, most) in files.items()}


def read_sick(data: Path) -> dict[str, list[tuple[SentencePair, SentencePair]]]:
    """The pairs of SICK-NL, in Dutch and in the original English, by part: TRAIN, TRIAL or TEST."""
    path = find_file(data, "nli_nl_sick/SICK_NL.txt")
    head, *lines = (line.split("\t") for line in read_lines(path))
    names = ["SemEval_set", "entailment_label"]
    names += [f"sentence_{side}{suffix}" for suffix in ("", "_original") for side in "AB"]
    if missing := [name for name in names if name not in head]:
        raise InputError(f"{path}:1: the column {missing[0]} of SICK-NL is missing")
    parts: dict[str, list[tuple[SentencePair, SentencePair]]] = {}
    for cells in lines:
        part, label, *sentences = (" ".join(cells[head.index(name)].split()) for name in names)
        label = label.lower()
        if all(sentences) and label in NLI:
            first, second, *original = sentences
            both = SentencePair(first, second, label), SentencePair(original[0], original[1], label)
            parts.setdefault(part, []).append(both)
    return parts


def balanced(pairs: Sequence[tuple[SentencePair, SentencePair]]) -> list[tuple[SentencePair, SentencePair]]:
    """The same number of pairs for each label: 57% of SICK are neutral, so a constant answer would look good."""
    rows = {label: [number for number, (pair, _) in enumerate(pairs) if pair.label == label] for label in NLI}
    fewest = min(map(len, rows.values()))
    return [pairs[at] for at in sorted(at for numbers in rows.values() for at in drawn(numbers, fewest))]


# ------------------------------------------------------------------------------------------------ running text


def sentences_of(paragraph: str) -> list[str]:
    """Split a paragraph after end marks, since models truncate long lines.

    >>> sentences_of("It rains. Still! 下雨了。还在下。")
    ['It rains.', 'Still!', '下雨了。', '还在下。']
    """
    parts = re.split(r"(?<=[.!?…])\s+|(?<=[。！？])", paragraph)
    return [part.strip() for part in parts if part.strip()]


def first_bytes(lines: Sequence[str], size: int) -> list[str]:
    """The first lines that together have at most `size` bytes, including line ends.

    >>> first_bytes(["abc", "d", "ef"], 6)
    ['abc', 'd']
    """
    ends = np.cumsum([len(line.encode("utf-8")) + 1 for line in lines])
    return list(lines[: int(np.searchsorted(ends, size, side="right"))])


# ------------------------------------------------------------------------------------------------ parallel text


def choose_pairs(
    sources: Mapping[str, Sequence[PairSource]],
    languages: tuple[str, str],
    tests: Collection[str],
    most: Mapping[str, int | None],
) -> tuple[dict[str, list[Pair]], int]:
    """Pairs of two languages for alignment, without sentences of any test set.

    From each source, the pairs with the lowest hash are taken. A pair is left out if either side is a test sentence,
    compared by letters and digits only, without case.

    Args:
        sources: Sources of pairs by name.
        languages: The source language and the other one.
        tests: Test sentences, reduced to letters and digits.
        most: Maximum number of pairs by name of the source; None for all.

    Returns:
        The pairs by name of their source, lowest hash first, and the number of pairs left out because of tests.
    """
    chosen, left_out = {}, 0
    for name, several in sources.items():
        usable: set[Pair] = set()
        for pair in (pair for source in several if source.languages == languages for pair in source.open()):
            first, second = (" ".join(side.split()) for side in pair)
            if first and second and max(len(first), len(second)) <= LONGEST:
                if letters(first) in tests or letters(second) in tests:
                    left_out += 1
                else:
                    usable.add((first, second))
        if usable:
            ordered = sorted(usable, key=lambda pair: hash_fraction("\t".join(pair)))
            chosen[name] = ordered[: most[name]]
    require(chosen, f"there is no parallel text of {' and '.join(languages)} to align with")
    return chosen, left_out


# ------------------------------------------------------------------------------------------------ questions


def question_files(data: Path, train: int, dev: int) -> dict[str, str]:
    """Questions of SQuAD for training and, from other articles, for development: at most `train` and `dev` of them.

    The questions whose contexts have the lowest hashes are taken.
    """
    parts: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for article in json.loads("".join(read_lines(find_file(data, "squad/train-v1.1*.json"))))["data"]:
        parts[hash_fraction(article["title"]) < HELD_ARTICLES] += article["paragraphs"]
    files = {}
    for name, held, left in (("train", False, train), ("dev", True, dev)):
        chosen = []
        for paragraph in sorted(parts[held], key=lambda paragraph: hash_fraction(paragraph["context"])):
            chosen += [{**paragraph, "qas": paragraph["qas"][:left]}] if left else []
            left -= len(paragraph["qas"][:left])
        content = {"data": [{"title": "", "paragraphs": chosen}]}
        files[f"qa/squad-{name}.json"] = json.dumps(content, ensure_ascii=False)
    return files


# ------------------------------------------------------------------------------------------------ treebanks, entities


def task_file(stem: str) -> str:
    """The name of a file that `cut_file` makes; the stem names its source.

    `en_ewt.train` and `en_ewt.dev` are for training and development; `en_ewt`, `de_pud` and `nl_wikiann` are test sets;
    `en_gum-news` is one genre of a treebank whose sentence ids contain it (`GUM_news_...`).
    """
    return f"{stem}.{'tsv' if '_wikiann' in stem else 'conllu'}"


def cut_file(data: Path, stem: str, most: int | None = None) -> str:
    """The content of a file from a treebank or from WikiAnn, with at most `most` sentences.

    If WikiAnn has no test set for a language, half of its development set is used.
    """
    language, _, rest = stem.partition("_")
    corpus, _, part = rest.partition(".")
    corpus, _, genre = corpus.partition("-")
    hashes = (0.0, 1.0)
    if corpus == "wikiann":
        names = [part] if part else ["test", "dev"]
        path = find_file(data, *(f"wikiann_panx/{name}-{language}.tsv" for name in names))
        if path.name.startswith("dev"):
            hashes = (0.0, 0.5) if part else (0.5, 1.0)
    else:
        name = f"{language}_{corpus}-ud-{'train*' if part == 'train' else part or 'test'}.conllu"
        path = find_file(data, f"{'ud_pud' if corpus == 'pud' else 'ud_train'}/{name}")
    known = [block for block in sentences(read_lines(path)) if not genre or f"_{genre}_" in _identity(block)]
    blocks = choose(known, most, hashes)
    require(blocks, f"{path} has no sentence for {stem}")
    return "".join("\n".join(block) + "\n\n" for block in blocks)


def sentences(lines: Sequence[str]) -> list[list[str]]:
    """Blocks of lines separated by blank lines.

    >>> sentences(["a", "b", "", "", "c"])
    [['a', 'b'], ['c']]
    """
    return [list(block) for filled, block in groupby(lines, lambda line: bool(line.strip())) if filled]


def choose(blocks: Sequence[list[str]], most: int | None, hashes: tuple[float, float] = (0.0, 1.0)) -> list[list[str]]:
    """At most `most` sentences with hashes in a range: those with the lowest hash, in their order.

    The hash is that of a sentence's id, or of its lines if it has no id.

    >>> choose([["a"], ["b"], ["c"], ["d"], ["e"]], 2)
    [['a'], ['c']]
    """
    low, high = hashes
    return lowest_hashed([block for block in blocks if low <= hash_fraction(_identity(block)) < high], most, _identity)


def _identity(block: list[str]) -> str:
    """The line with a sentence's id, or all lines if it has none."""
    return next((line for line in block if line.startswith("# sent_id =")), "\n".join(block))
