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

from isogloss.text.readers.lines import Problem, Source, fail, file_path, first_line, some, usable_lines

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


def read_pairs(source: Source, problem: Problem = fail, **chosen: str) -> list[SentencePair]:
    """Every labelled pair of a file.

    A row with the wrong number of cells, an empty sentence or an unknown label is a problem, and left out.

    Args:
        source: the file.
        problem: is told what is wrong with a row; by default it raises.
        chosen: `split` or `language`: where the file has such a column, only rows that have this value there (`TEST`
            of SICK's `SemEval_set`).
    """
    gold = (pair for _, pair in every_row(source, problem, **chosen) if pair is not None and pair.label != NO_GOLD)
    part = f" in the split {chosen['split']!r}" if "split" in chosen else ""
    return some(gold, source, f"pair of sentences with a label{part}")


def every_row(source: Source, problem: Problem = fail, **chosen: str) -> Iterator[tuple[int, SentencePair | None]]:
    """Line and pair of every row, None in the place of a bad one; pairs without a gold label are there, too.

    The arguments are those of `read_pairs`.
    """
    path = file_path(source)
    first = first_line(path)
    is_json = first.lstrip().startswith("{")
    names = _meanings(first.split("\t"))
    if is_json or any(names.count(each) != 1 for each in _NEEDED):
        names = []  # the first line is no header
    for number, line in usable_lines(path, problem):
        if (number == 1 and names) or (is_json and line is not None and not line.strip()):
            continue
        pair = None
        try:
            if line is not None:
                cells = _json_cells(line) if is_json else _table_cells(line, names)
                if any(cells.get(column, value).lower() != value.lower() for column, value in chosen.items()):
                    continue
                pair = _pair(cells)
        except ValueError as error:
            problem(f"{path}:{number}: {error}")
        yield number, pair


def _pair(cells: Cells) -> SentencePair:
    """The pair of a row; a ValueError says what is wrong with it."""
    first, second, label = (cells[column].strip() for column in _NEEDED)
    label = "contradiction" if label.lower() == "contradictory" else label.lower()
    if label != NO_GOLD and not (first and second):
        raise ValueError(f"the {'second' if first else 'first'} sentence of the pair is empty")
    if label not in (*NLI, NO_GOLD):
        raise ValueError(f"the label {label!r} is not one of {', '.join(NLI)}")
    return SentencePair(first, second, label)


def _table_cells(line: str, names: Sequence[str]) -> Cells:
    """The cells of a row by what their columns are; there are no names without a header."""
    columns, cells = names or _NEEDED, line.split("\t")
    if len(cells) != len(columns):
        wanted = "" if names else " (premise, hypothesis, label: there is no header)"
        raise ValueError(f"{len(cells)} cells where {len(columns)} were expected, separated by tabs{wanted}")
    return dict(zip(columns, cells, strict=True))


def _json_cells(line: str) -> Cells:
    """The same of a line of JSON."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"this line is not JSON ({error.msg})") from error
    texts = {key: each for key, each in row.items() if isinstance(each, str)} if isinstance(row, dict) else {}
    cells = dict(zip(_meanings(list(texts)), texts.values(), strict=True))
    missing = [COLUMNS[each][0] for each in _NEEDED if each not in cells]
    if missing:
        raise ValueError(f"there is no {' and no '.join(missing)} in this line")
    return cells


def _meanings(names: Sequence[str]) -> list[str]:
    """Which of `COLUMNS` each name is, by the first of the column's spellings that is there; "" for any other name."""
    lower = [name.strip().lower() for name in names]
    known = {next((each for each in spellings if each in lower), None): column for column, spellings in COLUMNS.items()}
    return [known.get(name, "") for name in lower]
