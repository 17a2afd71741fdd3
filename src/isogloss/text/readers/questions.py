"""Questions about a text whose answers are parts of it: JSON files in the format of SQuAD 1.1 (XQuAD, MLQA).

    {"data": [{"title": ..., "paragraphs": [{"context": ..., "qas": [
        {"id": ..., "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}

Such a file is often a single line, so what is wrong is told by the question's id instead of a line.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.text.readers.lines import DAMAGED, Problem, Source, fail, file_path, open_bytes, some


@dataclass(frozen=True)
class Question:
    """A question, the text it is asked about, and the answers: `context[start : start + len(answer)] == answer`.

    `answers` and `starts` run parallel; the first is the one that is trained on, any of them is right.
    """

    identifier: str
    question: str
    context: str
    answers: tuple[str, ...]
    starts: tuple[int, ...]


def read_questions(source: Source, problem: Problem = fail) -> list[Question]:
    """Every question of a file.

    One without a question or an answer, with an answer that is not where it should be in its context, or with an id
    that was there before is a problem, and left out.
    """
    asked = (question for _, _, question in every_question(source, problem) if question is not None)
    return some(asked, source, "question with an answer")


def every_question(source: Source, problem: Problem = fail) -> Iterator[tuple[str, str, Question | None]]:
    """Where each question of a file stands, its id, and the question; None in the place of a bad one."""
    seen: set[str] = set()
    for where, context, entry in _entries(file_path(source)):
        identifier, question = str(entry["id"]), None
        try:
            question = _question(context, entry)
            if identifier in seen:
                raise ValueError("this id was there before")
            seen.add(identifier)
        except ValueError as error:
            problem(f"{where}: {error}")
            question = None
        yield where, identifier, question


def _entries(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each question as it stands in the file: where, its context, its entry."""
    try:
        with open_bytes(path) as file:
            content = json.loads(file.read().decode("utf-8-sig"))
    except DAMAGED as error:
        raise InputError(f"{path}: the compressed file is damaged or cut short ({error}); fetch it again") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not valid UTF-8 (at byte {error.start + 1}); save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}:{error.lineno}: this is not JSON ({error.msg}); questions are read from SQuAD's format"
        ) from error
    try:
        paragraphs = [paragraph for article in content["data"] for paragraph in article["paragraphs"]]
        for number, paragraph in enumerate(paragraphs, start=1):
            for asked, entry in enumerate(paragraph["qas"], start=1):
                entry = {"id": f"{number}-{asked}", **entry}  # paragraph and question, where there is no id
                yield f"{path}: question {entry['id']}", paragraph["context"], entry
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} is JSON, but not in SQuAD's format: data > paragraphs > context and qas > question and answers "
            f"(missing or of another kind: {error})"
        ) from error


def _question(context: str, entry: dict[str, Any]) -> Question:
    """The question of an entry; a ValueError says what is wrong with it."""
    asked = str(entry.get("question", "")).strip()
    answers = entry.get("answers") or []
    if not asked or not context.strip():
        raise ValueError(f"the {'context' if asked else 'question'} is empty")
    if not answers:
        raise ValueError("there is no answer; questions without one are not asked here")
    for answer in answers:
        text, start = answer.get("text"), answer.get("answer_start")
        if not isinstance(text, str) or not isinstance(start, int) or not text.strip():
            raise ValueError("an answer has no text or no start")
        if start < 0 or not context.startswith(text, start):
            at = context.find(text)
            hint = "it is not in its context" if at < 0 else f"its context has it at {at}"
            raise ValueError(f"the answer {text!r} does not begin at character {start}: {hint}")
    texts, starts = zip(*((answer["text"], answer["answer_start"]) for answer in answers), strict=True)
    return Question(str(entry["id"]), asked, context, texts, starts)
