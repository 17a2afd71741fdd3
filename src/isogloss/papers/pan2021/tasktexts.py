"""Tasks to fine-tune and test on, as files: inference (MultiNLI, XNLI, SICK-NL) and questions (SQuAD, XQuAD, MLQA).

| file | what it is |
|---|---|
| `nli/mnli-train.tsv`, `nli/mnli-dev.tsv` | English pairs, of `nli_en` in the data folder |
| `nli/xnli-train-LANG.tsv` | XNLI's development sets: translate-train, pairs in every language |
| `nli/xnli-test-LANG.tsv` | XNLI's test sets |
| `nli/sick-train-LANG.tsv`, `sick-dev-LANG.tsv`, `sick-test-LANG.tsv` | SICK in English and Dutch, by its own split |
| `qa/squad-train.json`, `qa/squad-dev.json` | of SQuAD's training articles, which no XQuAD question is of |
| `qa/xquad-LANG.json`, `qa/mlqa-LANG.json` | tests |
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.papers.samples import drawn
from isogloss.text.readers.inference import NLI, SentencePair, read_pairs
from isogloss.text.readers.lines import open_bytes, read_lines
from isogloss.text.sampling import hash_fraction

DUTCH = "nl"
SICK_PARTS = {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}
HELD_ARTICLES = 0.03  # share of SQuAD's training articles that models are not trained on
Files = dict[str, str]


def nli_files(
    folder: Path, source: str, targets: Sequence[str], *, train: Path | None, count: int, limit: int | None
) -> Files:
    """Pairs of MultiNLI to train on, at most `count`, and the sets of XNLI. train: a file of pairs instead."""
    file = train or there(folder / "nli_en" / "mnli_train.tsv", "pairs to train on")
    dev = there(folder / "nli_en" / "mnli_val.tsv", "English pairs to choose by")
    found = {
        "nli/mnli-train.tsv": _table(read_pairs(file), min(count, limit or count)),
        "nli/mnli-dev.tsv": _table(read_pairs(dev), limit),
    }
    for language in (source, *targets):
        for part, name in (("dev", "train"), ("test", "test")):
            path = there(folder / "xnli" / f"{part}-{language}.tsv", "a set of XNLI")
            found[f"nli/xnli-{name}-{language}.tsv"] = _table(read_pairs(path), limit)
    return found


def translated_files(folder: Path, source: str, targets: Sequence[str], *, train: Path, limit: int | None) -> Files:
    """Training pairs in every language, `LANG.tsv` in a folder, beside those that they translate: for translate-train.

    They take the hash_fraction of XNLI's development sets.
    """
    files = {source: train, **{one: there(folder / f"{one}.tsv", "translated pairs") for one in targets}}
    return {f"nli/xnli-train-{one}.tsv": _table(read_pairs(path), limit) for one, path in files.items()}


def sick_files(folder: Path, source: str, limit: int | None) -> Files:
    """SICK in two languages row by row; of the test as many pairs of each label, since more than half are neutral."""
    rows = list(_sick(there(folder / "nli_nl_sick" / "SICK_NL.txt", "pairs in Dutch")))
    found = {}
    for part, called in SICK_PARTS.items():
        mine = [(ours, theirs) for split, ours, theirs in rows if split == called]
        if part == "test":
            mine = _balanced(mine)
        for side, language in enumerate((DUTCH, source)):
            found[f"nli/sick-{part}-{language}.tsv"] = _table([one[side] for one in mine], limit)
    return found


def qa_files(
    folder: Path, languages: Sequence[str], also: Sequence[str], *, questions: int, dev: int, limit: int | None
) -> Files:
    """Questions of SQuAD to train on and to choose by, XQuAD in these languages and MLQA in `also`."""
    squad = there(folder / "squad" / "train-v1.1.rebuilt.json", "questions to train on", "train-v1.1.json")
    articles = _parsed(squad)
    held = [one for one in articles if hash_fraction(one["title"]) < HELD_ARTICLES]
    kept = [one for one in articles if hash_fraction(one["title"]) >= HELD_ARTICLES]
    found = {
        "qa/squad-train.json": _questions(kept, min(questions, limit or questions)),
        "qa/squad-dev.json": _questions(held, min(dev, limit or dev)),
    }
    for language in languages:
        path = there(folder / "xquad" / f"xquad.{language}.json", "a set of XQuAD")
        found[f"qa/xquad-{language}.json"] = _questions(_parsed(path), limit, first=True)
    for language in also:
        path = there(folder / "mlqa" / f"dev-context-{language}-question-{language}.json", "a set of MLQA")
        found[f"qa/mlqa-{language}.json"] = _questions(_parsed(path), limit)
    return found


def there(path: Path, what: str, *others: str) -> Path:
    """The file, or another one beside it; that it is missing is one sentence."""
    for one in (path, *(path.with_name(other) for other in others)):
        if one.is_file():
            return one
    raise InputError(f"{path} is missing: {what}; docs/reproduce.md lists the files of the data folder")


def sentences_of(files: Files) -> Iterator[str]:
    """Both sentences of every pair of these tables."""
    for content in files.values():
        for line in content.split("\n"):  # not splitlines: a sentence may have other separators in it
            yield from line.split("\t")[:2]


def _table(pairs: Sequence[SentencePair], count: int | None) -> str:
    rows = (pairs[row] for row in drawn(range(len(pairs)), count))
    return "".join(f"{one.first}\t{one.second}\t{one.label}\n" for one in rows)


def _sick(path: Path) -> Iterator[tuple[str, SentencePair, SentencePair]]:
    """Split, the Dutch pair and its English original."""
    head, *lines = (line.split("\t") for line in read_lines(path))
    names = ("SemEval_set", "entailment_label", "sentence_A", "sentence_B", "sentence_A_original",
             "sentence_B_original")  # fmt: skip
    missing = [name for name in names if name not in head]
    if missing:
        raise InputError(f"{path}:1: the column {missing[0]} of SICK-NL is missing")
    for cells in lines:
        split, label, *sentences = (" ".join(cells[head.index(name)].split()) for name in names)
        if all(sentences) and label.lower() in NLI:
            one, other, first, second = sentences
            yield split, SentencePair(one, other, label.lower()), SentencePair(first, second, label.lower())


def _balanced(pairs: Sequence[tuple[SentencePair, SentencePair]]) -> list[tuple[SentencePair, SentencePair]]:
    rows = {label: [row for row, (one, _) in enumerate(pairs) if one.label == label] for label in NLI}
    least = min(len(some) for some in rows.values())
    return [pairs[row] for row in sorted(row for some in rows.values() for row in drawn(some, least))]


def _parsed(path: Path) -> list[dict[str, Any]]:
    with open_bytes(path) as file:
        found: list[dict[str, Any]] = json.loads(file.read().decode("utf-8"))["data"]
    return found


def _questions(articles: Sequence[dict[str, Any]], most: int | None, *, first: bool = False) -> str:
    """Paragraphs with at most so many questions, by the places of their contexts, or the first ones of the file.

    Translations of a test set are cut at the same question, so that their rows stay side by side.
    """
    paragraphs = [one for article in articles for one in article["paragraphs"]]
    if not first:
        paragraphs.sort(key=lambda one: hash_fraction(one["context"]))
    kept, count = [], 0
    for one in paragraphs:
        room = len(one["qas"]) if most is None else min(len(one["qas"]), most - count)
        if room <= 0:
            break
        kept.append({**one, "qas": one["qas"][:room]})
        count += room
    return json.dumps({"data": [{"title": "", "paragraphs": kept}]}, ensure_ascii=False)
