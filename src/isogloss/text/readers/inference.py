"""Labelled pairs of sentences (natural language inference): tables, with a header or without, and JSON lines.

| file | columns or keys |
|---|---|
| XNLI as XTREME has it | premise, hypothesis, label; no header |
| a table with a header (SNLI, MultiNLI, SICK, XNLI) | a name of each row of `COLUMNS`; others are passed over |
| JSON lines (OCNLI, SNLI) | the same names |

Labels are compared in lower case, and `contradictory` is read as `contradiction`. A label of `-` means that the
annotators did not agree: such pairs have no gold label, are in no published score, and are passed over here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from isogloss.errors import InputError
from isogloss.text.readers.lines import Problem, Source, fail, file_path, first_line, usable_lines

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
Cells = Mapping[str, str]  # what each column of COLUMNS holds in one row


@dataclass(frozen=True)
class SentencePair:
    """Two sentences and what joins them, such as a premise, a hypothesis and `entailment`."""

    first: str
    second: str
    label: str


def read_pairs(
    source: Source,
    problem: Problem = fail,
    *,
    labels: Sequence[str] | None = NLI,
    split: str | None = None,
    language: str | None = None,
) -> list[SentencePair]:
    """Every labelled pair of a file.

    A row with the wrong number of cells, an empty sentence or an unknown label is a problem, and left out.

    Args:
        source: the file.
        problem: is told what is wrong with a row; by default it raises.
        labels: the labels there may be; None takes any.
        split: only rows whose column of that name says so (`TEST` of SICK's `SemEval_set`).
        language: where the file has a column `language`, only its rows.
    """
    rows = every_row(source, problem, labels=labels, split=split, language=language)
    usable = [pair for _, pair in rows if pair is not None and pair.label != NO_GOLD]
    if not usable:
        part = "" if split is None else f" in the split {split!r}"
        raise InputError(f"{file_path(source)} has no pair of sentences with a label{part} that can be used")
    return usable


def every_row(
    source: Source,
    problem: Problem = fail,
    *,
    labels: Sequence[str] | None = NLI,
    split: str | None = None,
    language: str | None = None,
) -> Iterator[tuple[int, SentencePair | None]]:
    """Line and pair of every row, None in the place of a bad one; pairs without a gold label are there, too.

    The arguments are those of `read_pairs`.
    """
    path = file_path(source)
    first = first_line(path)
    is_json = first.lstrip().startswith("{")
    # What each column is in COLUMNS ("" where it is none of them); nothing where the first line is no header.
    heading = [cell.strip() for cell in first.split("\t")]
    names = [_meaning(name, heading) for name in heading]
    if is_json or any(names.count(each) != 1 for each in _NEEDED):
        names = []
    wanted = {"split": split, "language": language}
    chosen = {column: value.lower() for column, value in wanted.items() if value is not None}
    for number, line in usable_lines(path, problem):
        if (number == 1 and names) or (is_json and line is not None and not line.strip()):
            continue
        cells = "" if line is None else _json_cells(line) if is_json else _table_cells(line, names)
        pair, wrong = None, cells if isinstance(cells, str) else ""
        if not isinstance(cells, str):
            if any(cells.get(column, value).lower() != value for column, value in chosen.items()):
                continue
            label = cells["label"].strip().lower()
            label = "contradiction" if label == "contradictory" else label
            pair = SentencePair(cells["first"].strip(), cells["second"].strip(), label)
            wrong = "" if label == NO_GOLD else _wrong(pair, labels)
        if wrong:
            problem(f"{path}:{number}: {wrong}")
        yield number, None if wrong else pair


def _wrong(pair: SentencePair, labels: Sequence[str] | None) -> str:
    if not pair.first or not pair.second:
        return f"the {'second' if pair.first else 'first'} sentence of the pair is empty"
    if labels is None:
        return "" if pair.label else "the label is empty"
    return "" if pair.label in labels else f"the label {pair.label!r} is not one of {', '.join(labels)}"


def _table_cells(line: str, names: Sequence[str]) -> Cells | str:
    """The cells of a row by what their columns are, or what is wrong with it; there are no names without a header."""
    columns, cells = names or _NEEDED, line.split("\t")
    if len(cells) != len(columns):
        wanted = "" if names else " (premise, hypothesis, label: there is no header)"
        return f"{len(cells)} cells where {len(columns)} were expected, separated by tabs{wanted}"
    return {name: cell for name, cell in zip(columns, cells, strict=True) if name}


def _json_cells(line: str) -> Cells | str:
    """The same of a line of JSON."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        return f"this line is not JSON ({error.msg})"
    texts = {key: each for key, each in row.items() if isinstance(each, str)} if isinstance(row, dict) else {}
    cells = {meaning: each for key, each in texts.items() if (meaning := _meaning(key, list(texts)))}
    missing = [COLUMNS[each][0] for each in _NEEDED if each not in cells]
    return f"there is no {' and no '.join(missing)} in this line" if missing else cells


def _meaning(name: str, names: Sequence[str]) -> str:
    """Which of `COLUMNS` a name is: the first of its spellings that is there."""
    available = {each.lower() for each in names}
    for meaning, spellings in COLUMNS.items():
        known = [spelling for spelling in spellings if spelling in available]
        if known and name.lower() == known[0]:
            return meaning
    return ""
