"""The table: every result of the toolkit is a row with the same columns.

The result: `measure`, `value`, its interval `low` to `high` and what that interval is `over` (seeds, items or both;
of a correlation layers or languages), the chance `floor`, the number `n` of items, and the `published` value if a paper
has one. Rows used for claims also have `parts`: the value without each twentieth of the items in turn, separated by
spaces, by which rows on the same items are compared (`isogloss.measures.statistics.two_way_mean`). The coordinates:

    model, other_model    the model, and the one it was compared with
    layer, other_layer    cuts: 0 is the embedding output, k the output of block k
    task, data            the task, and the text
    source, target        languages
    unit                  sentence, word, token, character, ...
    pooling               pooling of sentence vectors, if it is not the mean
    plan                  what was trained: `freeze:8`, `tlm+queue`, `untuned`
    method                variant of the measure: `centred`, `csls`, `debiased`, `attention`, ...
    selection             how the checkpoint was selected: empty for the development set, or `oracle`
    condition             the experimental condition: a mapping, code-switching, a defect of the original code, ...
    settings              a JSON object of arguments that differ between trainings or jobs of one table
    step, seed

Coordinates that do not apply are empty, and no code parses the text of a cell. Rows are written with full precision, so
a table read back equals the table written.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import pandas as pd

SCHEMA = 2
WITHOUT_SINKS = "without sinks"  # condition: attention sinks were left out of sentence means
NUMBERS = ("value", "low", "high", "floor", "published")
COUNTS = ("n", "layer", "other_layer", "step", "seed")
ANSWER = ("measure", "value", "low", "high", "over", "floor", "n", "published")
_MODELS = ("model", "other_model", "layer", "other_layer")
_TEXT = ("task", "data", "source", "target", "unit", "pooling")
COORDINATES = (*_MODELS, *_TEXT, "plan", "method", "selection", "condition", "settings", "step", "seed")
COLUMNS = (*ANSWER, *COORDINATES, "parts")
NAMES = tuple(name for name in (*COORDINATES, "measure") if name not in COUNTS)
KEY = ("measure", *COORDINATES)
FORMULA = re.compile("'*[=+@\t\r-]")  # the start of texts that spreadsheets read as formulas, quoted or not
POOLED, OTHERS = "all", "others"  # targets: the text of all languages, and the mean or text of all but the trained one
ORACLE = "oracle"  # the selection on the targets themselves
UNTUNED, START = "untuned", "start"  # the plan of models before fine-tuning; the name of such a model as `other_model`

Row = Mapping[str, Any]


def row(measure: str, value: Any, **rest: Any) -> dict[str, Any]:
    """Make one row; unknown column names are refused.

    value: a number, or an estimate with `value` and optionally `low`, `high`, `floor`, `n` and `parts`, such as
    `isogloss.measures.statistics.Interval`. An interval is over items unless `over` says otherwise. `settings` may be
    given as a mapping, `parts` as numbers.

    >>> row("gap", 0.25, low=0.2, high=0.3, settings={"rate": 2e-5})
    {'measure': 'gap', 'value': 0.25, 'low': 0.2, 'high': 0.3, 'settings': '{"rate": 2e-05}', 'over': 'items'}
    """
    if not hasattr(value, "__float__"):
        answer = {name: getattr(value, name, None) for name in ("low", "high", "floor", "n", "parts")}
        rest = {name: cell for name, cell in answer.items() if is_given(cell) and (name, cell) != ("n", 0)} | rest
        value = value.value
    if unknown := set(rest) - set(COLUMNS):
        raise TypeError(f"no such column: {', '.join(sorted(unknown))}")
    if isinstance(settings := rest.get("settings"), Mapping):
        rest["settings"] = settings_text(settings)
    over = rest.pop("over", None)
    if is_given(rest.get("low")):
        rest["over"] = over or "items"
    if not isinstance(rest.get("parts", ""), str):
        parts = [float(part) for part in rest.pop("parts")]
        rest |= {"parts": " ".join(map(repr, parts))} if parts and all(map(isfinite, parts)) else {}
    return {"measure": measure, "value": float(value), **rest}


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as text for a row: a JSON object with sorted names, or "" if there are none."""
    return json.dumps(dict(sorted(settings.items())), ensure_ascii=False, default=str) if settings else ""


def settings_of(entry: Row) -> dict[str, Any]:
    """The settings of a row as a dictionary."""
    text = entry.get("settings")
    return dict(json.loads(str(text))) if is_given(text) else {}


def number_or_text(text: str) -> Any:
    """A setting given as text, as a number if it is one.

    >>> number_or_text("3"), number_or_text("5e-05"), number_or_text("en=a.tsv")
    (3, 5e-05, 'en=a.tsv')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def training_name(coordinates: Row) -> str:
    """The name of a training: its plan, condition and settings.

    >>> training_name({"plan": "freeze:8", "condition": "switch:0.5", "settings": '{"rate": 5e-05}'})
    'freeze:8 switch:0.5 rate:5e-05'
    """
    own = (f"{name}:{value}" for name, value in settings_of(coordinates).items())
    return " ".join(filter(None, (coordinates.get("plan"), coordinates.get("condition"), *own)))


def training_folder(coordinates: Row) -> str:
    """The name of the folder of a training.

    >>> training_folder({"plan": "reinit:1-2", "condition": "switch:0.5/any", "seed": 3})
    'reinit-1-2-switch-0.5-any-seed-3'
    """
    return f"{re.sub('[:/, ]', '-', training_name(coordinates))}-seed-{coordinates['seed']}"


def frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a data frame with all columns in order and one type per column."""
    return typed(pd.DataFrame(list(rows), columns=list(COLUMNS)))


def typed(data: pd.DataFrame) -> pd.DataFrame:
    """A data frame with all columns in order and one type per column; absent ones are empty."""
    data = data.reindex(columns=list(COLUMNS))
    for name in COLUMNS:
        if name in NUMBERS:
            data[name] = pd.to_numeric(data[name]).astype("float64")
        elif name in COUNTS:
            data[name] = pd.to_numeric(data[name]).astype("Int64")
        else:
            data[name] = data[name].astype("object").fillna("").astype("str")
    return data


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a data frame, without their empty cells."""
    return [
        {str(name): value for name, value in entry.items() if is_given(value)} for entry in table.to_dict("records")
    ]


def key(entry: Row) -> tuple[str, ...]:
    """The key that identifies a row: its measure and coordinates, as text."""
    return tuple(str(value) if is_given(value := entry.get(name)) else "" for name in KEY)


def written_cells(entry: Row) -> list[str]:
    """The cells of a row as text: numbers with full precision, `'` before texts that look like a formula.

    A model or a file may have any name, and a spreadsheet would evaluate one that begins with `=`.
    """
    filled = {name: value for name, value in entry.items() if is_given(value)}
    filled |= {name: repr(float(filled[name])) for name in NUMBERS if name in filled}
    filled |= {name: f"'{filled[name]}" for name in NAMES if FORMULA.match(str(filled.get(name, "")))}
    return [str(filled.get(name, "")) for name in COLUMNS]


def read_name(cell: str) -> str:
    """The text of a cell that `written_cells` wrote.

    >>> read_name("'=1+1"), read_name("'t Gooi"), read_name("mini")
    ('=1+1', "'t Gooi", 'mini')
    """
    return cell.removeprefix("'") if FORMULA.match(cell) else cell


def is_given(value: Any) -> bool:
    """Whether a cell has a value: not None, "", NaN or NA.

    >>> is_given(0), is_given(""), is_given(None), is_given(float("nan")), is_given(pd.NA)
    (True, False, False, False, False)
    """
    return not (value is None or value is pd.NA or value != value or value == "")


def mean_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means over seeds of rows without a step that differ only in the seed, with Student's t intervals.

    n is the number of seeds, and the chance floor is averaged. There is no mean for rows without a seed or with a
    single one, or if a value is missing for some seed, such as the relative gap of a score of 0. If all seeds have the
    same value, there is no interval.

    >>> mean = mean_rows([row("gap", value, seed=seed) for seed, value in enumerate((0.1, 0.2, 0.3))])[0]
    >>> round(mean["value"], 3), round(mean["low"], 3), round(mean["high"], 3), mean["n"], mean["over"]
    (0.2, -0.048, 0.448, 3, 'seeds')
    """
    from isogloss.measures.registry import MEASURES  # these import torch, which is not needed to read a table
    from isogloss.measures.statistics import mean_over_seeds

    groups: dict[tuple[str, ...], list[Row]] = {}
    for entry in rows:
        if is_given(entry.get("seed")) and not is_given(entry.get("step")):
            groups.setdefault(key({**entry, "seed": None}), []).append(entry)
    means = []
    for group in groups.values():
        measure, values = str(group[0]["measure"]), [entry["value"] for entry in group if is_given(entry.get("value"))]
        if len(group) == 1 or measure.startswith("chosen_") or len(values) < len(group):
            continue
        # Equal values, as of CKA on all sentences, would give an interval over seeds without any width.
        mean = mean_over_seeds(values, least=len(values) + 1 if len(set(values)) == 1 else 2)
        if measure in MEASURES:
            mean = mean.clipped(*MEASURES[measure].range)
        cells = {name: group[0][name] for name in COORDINATES if name != "seed" and is_given(group[0].get(name))}
        floors = [entry["floor"] for entry in group if is_given(entry.get("floor"))]
        if len(floors) == len(group):
            cells["floor"] = sum(floors) / len(floors)
        means.append(row(measure, mean, over="seeds", **cells))
    return means
