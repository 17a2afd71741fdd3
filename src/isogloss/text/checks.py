"""Checks of data files: each reads one kind of file line by line, tells every problem and gives the rows it found.

They use the readers' own streams with a callback that collects, so what passes here is what the readers accept.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from isogloss.text.kinds import LABELS, SUMS, TAG
from isogloss.text.readers.conllu import stream_trees
from isogloss.text.readers.dictionaries import stream_pairs
from isogloss.text.readers.lines import DAMAGED, Problem, open_bytes, stream_lines
from isogloss.text.readers.names import languages_of
from isogloss.text.readers.tables import stream_table, table_columns

NO_LABEL = "-"  # SNLI and OCNLI: the annotators did not agree
_LABEL_COLUMNS = ("label", "entailment_label", "gold_label")


def check_lines(path: Path, problem: Problem) -> int:
    """UTF-8, not empty."""
    return sum(1 for _ in stream_lines(path, problem))


def check_table(path: Path, problem: Problem) -> int:
    """As many cells in each row as the header has, and no row without any text."""
    columns, has_header = table_columns(path, None)
    rows = 0
    for number, cells in stream_table(path, len(columns), skip=int(has_header), problem=problem):
        rows += 1
        if not any(cell.strip() for cell in cells):
            problem(f"{path}:{number}: no cell has text")
    return rows


def check_pairs(path: Path, problem: Problem) -> int:
    """As many cells in each row as the name has languages, each with text."""
    rows = 0
    for number, cells in stream_table(path, len(languages_of(path) or ()), problem=problem):
        rows += 1
        if not all(cell.strip() for cell in cells):
            problem(f"{path}:{number}: an empty cell; both sides of a pair need text")
    return rows


def check_treebank(path: Path, problem: Problem) -> int:
    """Ten columns, words numbered in order, forms found in the text, one tree a sentence."""
    return sum(1 for _ in stream_trees(path, problem))


def check_dictionary(path: Path, problem: Problem) -> int:
    """Two words on each line."""
    return sum(1 for _ in stream_pairs(path, problem))


def check_tags(path: Path, problem: Problem) -> int:
    """Equally many columns everywhere; tags are O, B-x or I-x, and I-x continues an x."""
    sentences, width, before = 0, 0, ""
    for number, line in stream_lines(path, problem):
        fields = line.split("\t") if "\t" in line else line.split(" ")
        if not line.strip():
            before = ""
            continue
        sentences += before == ""
        width = width or len(fields)
        tag = fields[-1].strip()
        if len(fields) != width:
            problem(f"{path}:{number}: {len(fields)} columns where the lines before have {width}")
        elif not TAG.fullmatch(tag):
            problem(f"{path}:{number}: tag {tag!r} where O, B-... or I-... was expected")
        elif tag.startswith("I-") and before[1:] != tag[1:]:
            problem(f"{path}:{number}: {tag} continues nothing; an entity begins with B{tag[1:]}")
        before = tag or "O"
    return sentences


def check_inference(path: Path, problem: Problem) -> int:
    """Premise, hypothesis and one of the three labels (or `-`) in each row."""
    rows = _inference_json(path, problem) if ".json" in path.name else _inference_table(path, problem)
    count = 0
    for number, premise, hypothesis, label in rows:
        count += 1
        if not (premise.strip() and hypothesis.strip()):
            problem(f"{path}:{number}: a premise or hypothesis without text")
        if label.lower() not in LABELS and label != NO_LABEL:
            problem(f"{path}:{number}: label {label!r} where {', '.join(sorted(LABELS))} or - was expected")
    return count


def _inference_table(path: Path, problem: Problem) -> Iterator[tuple[int, str, str, str]]:
    first = next(stream_lines(path))[1].split("\t")
    label = next((first.index(name) for name in _LABEL_COLUMNS if name in first), None)
    premise = next((first.index(name) for name in ("sentence1", "sentence_A", "premise") if name in first), 0)
    skip = 0 if label is None else 1
    for number, cells in stream_table(path, len(first), skip=skip, problem=problem):
        yield number, cells[premise], cells[premise + 1], cells[2 if label is None else label]


def _inference_json(path: Path, problem: Problem) -> Iterator[tuple[int, str, str, str]]:
    for number, line in stream_lines(path, problem):
        try:
            row = json.loads(line)
            yield number, str(row["sentence1"]), str(row["sentence2"]), str(row["label"])
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            problem(f"{path}:{number}: no JSON object with sentence1, sentence2 and label ({error})")


def check_questions(path: Path, problem: Problem) -> int:
    """SQuAD-like JSON whose answers stand in the context where they say."""
    try:
        with open_bytes(path) as file:
            articles = json.loads(file.read())["data"]
        return sum(_check_article(path, article, problem) for article in articles)
    except json.JSONDecodeError as error:
        problem(f"{path}:{error.lineno}: not valid JSON ({error.msg})")
    except DAMAGED as error:
        problem(f"{path}: the compressed file is damaged or cut short ({error}); fetch it again")
    except (UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        problem(f"{path}: not SQuAD-like, expected 'data', 'paragraphs', 'qas' and 'answers' ({error})")
    return 0


def _check_article(path: Path, article: dict[str, Any], problem: Problem) -> int:
    questions = 0
    for paragraph in article.get("paragraphs", ()):
        for question in paragraph.get("qas", ()):
            questions += 1
            where = f"{path}: question {question.get('id')}"
            if not str(question.get("question", "")).strip():
                problem(f"{where} has no text")
            for answer in question.get("answers", ()):
                text, start = answer.get("text", ""), answer.get("answer_start", -1)
                found = paragraph.get("context", "")[start : start + len(text)] if start >= 0 else None
                if not text or found != text:
                    problem(f"{where}: the answer {text!r} is not at character {start} of its context")
    return questions


def check_sums(folder: Path, problem: Problem) -> int:
    """Every file listed in the folder's SHA256SUMS is there and has its sum; the number of files compared."""
    listed = 0
    for number, line in stream_lines(folder / SUMS, problem):
        if not line.strip():
            continue
        expected, _, name = line.partition(" ")
        path = folder / name.strip().removeprefix("*")
        if len(expected) != 64 or not name.strip():
            problem(f"{folder / SUMS}:{number}: expected a SHA-256 sum and a file name")
        elif not path.is_file():
            problem(f"{folder / SUMS}:{number}: {name.strip()} is not there")
        else:
            listed += 1
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != expected.lower():
                problem(f"{path}: its SHA-256 sum is not the one in {SUMS}; fetch it again")
    return listed


CHECKS: dict[str, Callable[[Path, Problem], int]] = {
    "lines": check_lines,
    "aligned": check_lines,
    "table": check_table,
    "pairs": check_pairs,
    "treebank": check_treebank,
    "dictionary": check_dictionary,
    "tags": check_tags,
    "inference": check_inference,
    "questions": check_questions,
}
