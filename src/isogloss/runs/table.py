"""The one table: every answer of the toolkit is a row with the same columns.

`measure, value, low, high, floor, n` say what was measured; the coordinates say of what. Absent coordinates are
empty. Rows are written as text with full precision, so a table read back equals the table written.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

NUMBERS = ("value", "low", "high", "floor", "published")
COUNTS = ("n", "layer", "other_layer", "step", "seed")
ANSWER = ("measure", "value", "low", "high", "floor", "n")
COORDINATES = (
    "model",
    "other_model",
    "layer",
    "other_layer",
    "task",
    "data",
    "source",
    "target",
    "unit",
    "variant",
    "step",
    "seed",
    "published",
)
COLUMNS = ANSWER + COORDINATES
KEY = ("measure", *(name for name in COORDINATES if name != "published"))

Row = Mapping[str, Any]


def row(measure: str, value: float, **rest: Any) -> dict[str, Any]:
    """One row; unknown column names are refused."""
    unknown = set(rest) - set(COLUMNS)
    if unknown:
        raise TypeError(f"no such column: {', '.join(sorted(unknown))}")
    return {"measure": measure, "value": float(value), **rest}


def frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a data frame with every column in order and one type a column."""
    return typed(pd.DataFrame(list(rows), columns=list(COLUMNS)))


def typed(data: pd.DataFrame) -> pd.DataFrame:
    """Every column of the table in order and one type a column; absent ones are empty."""
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
    return [{str(name): value for name, value in one.items() if there(value)} for one in table.to_dict("records")]


def key(entry: Row) -> tuple[str, ...]:
    """What identifies a row: its measure and coordinates, as text."""
    return tuple(str(value) if there(value := entry.get(name)) else "" for name in KEY)


def there(value: Any) -> bool:
    """Whether a cell is filled: not None, an empty text, or any of the ways a number can be absent.

    >>> there(0), there(""), there(None), there(float("nan")), there(pd.NA)
    (True, False, False, False, False)
    """
    return not (value is None or value is pd.NA or value != value or value == "")
