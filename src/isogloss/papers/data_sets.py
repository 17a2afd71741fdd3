"""What papers take from the folder of data sets: files that are found by their names, and cut to size.

Neither a seed nor the order of a file decides what is taken of it. `lowest_hashed` takes what has the lowest hashes, so
that a smaller cut is a part of a larger one. `drawn` goes by the number of rows alone, so that sets which are
translations of each other keep the same rows. Sentences of treebanks have ids, whose hashes do both; a file of WikiAnn
that must serve as development and test set is halved by hashes, too.
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
LONGEST = 400  # characters of a side of a pair
HELD_ARTICLES = 0.03  # share of SQuAD's training articles that models are not trained on
T = TypeVar("T")


def find_file(data: Path, *patterns: str) -> Path:
    """The first file of the data folder that fits one of these patterns, tried in turn; `.gz` may follow a name."""
    for pattern in patterns:
        if paths := sorted((*data.glob(pattern), *data.glob(f"{pattern}.gz"))):
            return paths[0]
    raise InputError(f"{data / patterns[0]} is missing; docs/reproduce.md lists the files of the data folder")


def lowest_hashed(items: Sequence[T], count: int | None, text: Callable[[T], str] = str) -> list[T]:
    """At most `count` items: those whose `text` has the lowest hashes, in the order they came.

    >>> lowest_hashed(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    if count is None or len(items) <= count:
        return list(items)
    ordered = sorted(range(len(items)), key=[hash_fraction(text(item)) for item in items].__getitem__)
    return [items[position] for position in sorted(ordered[:count])]


def drawn(items: Sequence[T], count: int | None) -> list[T]:
    """At most `count` of these items, in their order; which ones depends on how many there are, and on nothing else."""
    if count is None or len(items) <= count:
        return list(items)
    chosen = np.random.default_rng(0).permutation(len(items))[:count]
    return [items[position] for position in sorted(chosen.tolist())]


def as_lines(lines: Iterable[str | Sequence[str]]) -> str:
    """Lines, or cells between tabs, as the content of a file."""
    return "".join(f"{line if isinstance(line, str) else TAB.join(line)}\n" for line in lines)


def parallel_table(bitext: Bitext, most: int | None) -> str:
    """Parallel sentences as a table, the languages in its head: at most so many rows, those with the lowest hash."""
    cleaned = [tuple(" ".join(text.split()) for text in cells) for cells in zip(*bitext, strict=True)]
    return as_lines([tuple(bitext.languages), *lowest_hashed(cleaned, most, lambda cells: cells[0])])


# ------------------------------------------------------------------------------------------------ pairs of sentences


def pair_table(pairs: Sequence[SentencePair], count: int | None = None) -> str:
    """Labelled pairs as a table, at most `count` of them."""
    return as_lines((pair.first, pair.second, pair.label) for pair in drawn(pairs, count))


def inference_files(data: Path, languages: Sequence[str], count: int) -> dict[str, str]:
    """MultiNLI to train on, at most so many pairs, and to choose by, and both sets of XNLI in these languages."""
    files = {"mnli-train.tsv": ("nli_en/mnli_train.tsv", count), "mnli-dev.tsv": ("nli_en/mnli_val.tsv", None)}
    for name in (f"{part}-{code}.tsv" for code in languages for part in ("dev", "test")):
        files[f"xnli-{name}"] = f"xnli/{name}", None
    return {name: pair_table(read_pairs(find_file(data, path)), most) for name, (path, most) in files.items()}


def read_sick(data: Path) -> dict[str, list[tuple[SentencePair, SentencePair]]]:
    """The pairs of SICK-NL, in Dutch and in the English original, by their part: TRAIN, TRIAL or TEST."""
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
    """As many pairs of each label: 57% of SICK are neutral, so that always saying so would look like knowledge."""
    rows = {label: [number for number, (pair, _) in enumerate(pairs) if pair.label == label] for label in NLI}
    fewest = min(map(len, rows.values()))
    return [pairs[at] for at in sorted(at for numbers in rows.values() for at in drawn(numbers, fewest))]


# ------------------------------------------------------------------------------------------------ running text


def sentences_of(paragraph: str) -> list[str]:
    """A paragraph cut behind end marks, since a model reads so many tokens of a line and no more.

    >>> sentences_of("It rains. Still! 下雨了。还在下。")
    ['It rains.', 'Still!', '下雨了。', '还在下。']
    """
    parts = re.split(r"(?<=[.!?…])\s+|(?<=[。！？])", paragraph)
    return [part.strip() for part in parts if part.strip()]


def first_bytes(lines: Sequence[str], size: int) -> list[str]:
    """The first lines that together have at most so many bytes, ends of lines counted.

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
    """Pairs of two languages to align with, without a sentence of any test.

    Of each source the pairs with the lowest hash are taken. A pair is left out where either side is a sentence of a
    test in letters and digits alone: a comma or a capital more does not make it another.

    Args:
        sources: by name.
        languages: the source and the other.
        tests: sentences by their letters.
        most: how many pairs are taken of a source, by its name; None for all.

    Returns:
        The pairs by the name of their source, the lowest hash first, and how many were left out for the tests.
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
    """Questions of SQuAD to train on and, of other articles, to choose by: at most so many of each.

    Those are taken whose contexts have the lowest hashes.
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
    """The name of a file that `cut_file` makes; the stem says what it is cut from.

    `en_ewt.train` and `en_ewt.dev` are to train on and to choose by, `en_ewt`, `de_pud` and `nl_wikiann` to test on;
    `en_gum-news` is one genre of a treebank whose sentences have it in their ids (`GUM_news_...`).
    """
    return f"{stem}.{'tsv' if '_wikiann' in stem else 'conllu'}"


def cut_file(data: Path, stem: str, most: int | None = None) -> str:
    """The content of a file that is cut from a treebank or from WikiAnn: at most so many sentences.

    Where WikiAnn has no test of a language, half of its development set is one.
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
    """Blocks of lines between blank ones.

    >>> sentences(["a", "b", "", "", "c"])
    [['a', 'b'], ['c']]
    """
    return [list(block) for filled, block in groupby(lines, lambda line: bool(line.strip())) if filled]


def choose(blocks: Sequence[list[str]], most: int | None, hashes: tuple[float, float] = (0.0, 1.0)) -> list[list[str]]:
    """The sentences in a range of hashes, and of these at most so many: those with the lowest hash, in order.

    It is the hash of a sentence's id, or of its lines where it has none.

    >>> choose([["a"], ["b"], ["c"], ["d"], ["e"]], 2)
    [['a'], ['c']]
    """
    low, high = hashes
    return lowest_hashed([block for block in blocks if low <= hash_fraction(_identity(block)) < high], most, _identity)


def _identity(block: list[str]) -> str:
    """The line with a sentence's id, or all lines where it has none."""
    return next((line for line in block if line.startswith("# sent_id =")), "\n".join(block))
