"""Examples of tasks: labelled pairs of sentences (natural language inference), and questions about a text.

Pairs are in tables, with or without a header, or in JSON lines:

| file | columns or keys |
|---|---|
| XNLI in the format of XTREME | premise, hypothesis, label; no header |
| a table with a header (SNLI, MultiNLI, SICK, XNLI) | a name of each row of `COLUMNS`; others are ignored |
| JSON lines (OCNLI, SNLI) | the same names |

Quotation marks are part of the text, except in a table written by Python's `csv`, as in XTREME's preparation of XNLI:
if every cell that has quotation marks is in quotes, with those inside doubled, the quoting is removed.

Labels are compared in lower case, and `contradictory` is read as `contradiction`. A label of `-` means that the
annotators did not agree: such pairs have no gold label, are not in published scores, and are skipped here.

Questions, whose answers are parts of the text, are in JSON files in the format of SQuAD 1.1 (XQuAD, MLQA):

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}

Such a file is often a single line, so problems are reported with the question's id instead of a line.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.text.readers import lines
from isogloss.text.readers.lines import Problem, Source, fail, file_path, require_rows

NLI = ("entailment", "neutral", "contradiction")
COLUMNS = {
    "first": ("sentence1", "premise", "sentence_a"),
    "second": ("sentence2", "hypothesis", "sentence_b"),
    "label": ("gold_label", "label", "entailment_label", "entailment_judgment"),
    "split": ("split", "semeval_set"),
    "language": ("language",),
}
_NEEDED = ("first", "second", "label")
NO_GOLD = "-"
_QUOTED = re.compile(r'"(?:[^"]*+"")+[^"]*"')  # a cell with quotation marks, as `csv` writes it


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file of examples, valid or not, so that rows of translated files can be matched.

    where: file and line. example: the example; None if the row is bad (its problem was reported) or skipped. name: the
    row's id, common to all languages, "" if rows are matched by position.
    """

    where: str
    example: Any
    name: str = ""
    bad: bool = False


@dataclass(frozen=True)
class SentencePair:
    """Two sentences and their label, such as a premise, a hypothesis and `entailment`."""

    first: str
    second: str
    label: str


def read_pairs(source: Source, problem: Problem = fail, **chosen: str) -> list[SentencePair]:
    """Every labelled pair of a file.

    A row with the wrong number of cells, an empty sentence or an unknown label is a problem, and left out.

    Args:
        source: the file.
        problem: called with a sentence for each bad row; by default it raises.
        chosen: `split` or `language`: if the file has such a column, only rows with this value are read (`TEST` of
            SICK's `SemEval_set`).
    """
    gold = (row.example for row in pair_rows(source, problem, **chosen) if row.example is not None)
    part = f" in the split {chosen['split']!r}" if "split" in chosen else ""
    return require_rows(gold, source, f"pair of sentences with a label{part}")


def pair_rows(source: Source, problem: Problem = fail, **chosen: str) -> Iterator[FileRow]:
    """Every row of a file of pairs; one without a gold label has no example. Arguments as in `read_pairs`."""
    path = file_path(source)
    start = lines.first_line(path)
    is_json = start.lstrip().startswith("{")
    columns, wanted = _meanings(start.split("\t")), ""
    is_quoted = not is_json and _is_quoted(path)
    has_header = not is_json and all(columns.count(each) == 1 for each in _NEEDED)
    if not has_header:
        columns, wanted = list(_NEEDED), " (premise, hypothesis, label: there is no header)"
    for number, line in lines.usable_lines(path, problem):
        where, pair, bad = f"{path}:{number}", None, line is None
        if (number == 1 and has_header) or (is_json and line is not None and not line.strip()):
            continue
        try:
            if line is not None:
                row = [_unquoted(cell) if is_quoted else cell for cell in line.split("\t")]
                if not is_json and len(row) != len(columns):
                    raise ValueError(f"{len(row)} cells where {len(columns)} were expected, separated by tabs{wanted}")
                cells = _json_cells(line) if is_json else dict(zip(columns, row, strict=True))
                if any(cells.get(column, value).lower() != value.lower() for column, value in chosen.items()):
                    continue
                pair = _pair(*(cells[column].strip() for column in _NEEDED))
        except ValueError as error:
            problem(f"{where}: {error}")
            bad = True
        yield FileRow(where, pair, bad=bad)


def _is_quoted(path: Path) -> bool:
    """Whether a table has quotation marks, and each cell that has one is in quotes, with others inside, all doubled.

    `csv` writes quotation marks only in this way. In a file that was not written by it, some are elsewhere.
    """
    texts = (line for _, line in lines.stream_lines(path, lambda _: None) if '"' in line)
    cells = (cell for line in texts for cell in line.split("\t") if '"' in cell)
    return {_QUOTED.fullmatch(cell) is not None for cell in cells} == {True}


def _unquoted(cell: str) -> str:
    return cell[1:-1].replace('""', '"') if '"' in cell else cell


def _pair(first: str, second: str, label: str) -> SentencePair | None:
    """A labelled pair, or None without a gold label; raises a ValueError for an invalid pair."""
    label = "contradiction" if label.lower() == "contradictory" else label.lower()
    if label == NO_GOLD:
        return None
    if not (first and second):
        raise ValueError(f"the {'second' if first else 'first'} sentence of the pair is empty")
    if label not in NLI:
        raise ValueError(f"the label {label!r} is not one of {', '.join(NLI)}")
    return SentencePair(first, second, label)


def _json_cells(line: str) -> dict[str, str]:
    """The cells of a line of JSON by column."""
    try:
        row = lines.parse_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"this line is not JSON ({error.msg})") from error
    texts = {key: each for key, each in row.items() if isinstance(each, str)} if isinstance(row, dict) else {}
    cells = dict(zip(_meanings(list(texts)), texts.values(), strict=True))
    missing = [COLUMNS[each][0] for each in _NEEDED if each not in cells]
    if missing:
        raise ValueError(f"there is no {' and no '.join(missing)} in this line")
    return cells


def _meanings(names: Sequence[str]) -> list[str]:
    """The key of `COLUMNS` for each name, by the first spelling of the column that occurs; "" for any other name."""
    lower = [name.strip().lower() for name in names]
    known = {next((each for each in spellings if each in lower), None): column for column, spellings in COLUMNS.items()}
    return [known.get(name, "") for name in lower]


@dataclass(frozen=True)
class Question:
    """A question, its context, and the answers: `context[start : start + len(answer)] == answer`.

    `answers` and `starts` are parallel; the first answer is trained on, any of them counts as correct.
    """

    identifier: str
    question: str
    context: str
    answers: tuple[str, ...]
    starts: tuple[int, ...]


def read_questions(source: Source, problem: Problem = fail) -> list[Question]:
    """Every question of a file.

    A row without a question or an answer, with an answer that is not at its start in the context, or with a repeated id
    is a problem, and left out.
    """
    asked = (row.example for row in question_rows(source, problem) if row.example is not None)
    return require_rows(asked, source, "question with an answer")


def question_rows(source: Source, problem: Problem = fail) -> Iterator[FileRow]:
    """Every question of a file, named by its id."""
    seen: set[str] = set()
    for where, context, entry in _entries(file_path(source)):
        identifier, question = str(entry["id"]), None
        asked = str(entry.get("question", "")).strip()
        try:
            if not asked or not isinstance(context, str) or not context.strip():
                raise ValueError(f"the {'context' if asked else 'question'} is empty")
            answers = _answers(entry.get("answers"))
            for text, start in answers:
                if start < 0 or not context.startswith(text, start):
                    at = context.find(text)
                    hint = "it is not in its context" if at < 0 else f"its context has it at {at}"
                    raise ValueError(f"the answer {text!r} does not begin at character {start}: {hint}")
            if identifier in seen:
                raise ValueError("this id has occurred before")
            seen.add(identifier)
            texts, starts = zip(*answers, strict=True)
            question = Question(identifier, asked, context, texts, starts)
        except ValueError as error:
            problem(f"{where}: {error}")
        yield FileRow(where, question, identifier, bad=question is None)


def _answers(given: Any) -> list[tuple[str, int]]:
    """Text and start of each answer: SQuAD's list of records, or the hub's two lists."""
    if isinstance(given, dict):
        columns = [given.get(name) for name in ("text", "answer_start")]
        pairs: list[Any] = (
            list(zip(*columns, strict=False)) if all(isinstance(column, list) for column in columns) else [(0, 0)]
        )
    else:
        rows = given if isinstance(given, list) else []
        pairs = [(row.get("text"), row.get("answer_start")) if isinstance(row, dict) else (0, 0) for row in rows]
    if not pairs:
        raise ValueError("there is no answer; questions without an answer are not supported")
    for text, start in pairs:
        if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool) or not text.strip():
            raise ValueError("an answer has no text or no start")
    return pairs


def _entries(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each question of the file: its location, context and entry."""
    try:
        content = lines.parse_json("\n".join(lines.read_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}: this is not JSON ({error.msg}); questions are read from SQuAD's format"
        ) from error
    try:
        paragraphs = [paragraph for article in content["data"] for paragraph in article["paragraphs"]]
        for number, paragraph in enumerate(paragraphs, start=1):
            for asked, entry in enumerate(paragraph["qas"], start=1):
                entry = {"id": f"{number}-{asked}", **entry}  # paragraph and question, if there is no id
                yield f"{path}: question {entry['id']}", paragraph["context"], entry
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is JSON, but not in SQuAD's format: data > paragraphs > context and qas > question and answers "
            f"(missing or of another kind: {error})"
        ) from error
