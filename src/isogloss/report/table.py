"""The rows as the page's table: thinned when very many, each text column stored as numbers into a list."""

from math import isfinite
from typing import Any

import pandas as pd

from isogloss.report.summary import central_language
from isogloss.runs import table

MOST_ROWS = 12_000


def thin_rows(rows: pd.DataFrame, *, most: int = MOST_ROWS) -> tuple[pd.DataFrame, list[str]]:
    """At most `most` rows and what was left out, in words.

    Left out in this order, until the rest fits: ranks beyond the first, pairs without the central language, some of
    the steps of a training (the last one stays), and at last the tail. Everything stays in the run's rows.csv; figures
    and verdict are made from all rows.
    """
    left_out: list[str] = []
    centre = central_language(rows)
    with_centre = rows[["source", "target"]].isin([centre, ""]).any(axis=1)  # what is of one language is no pair
    for words, keep in (
        ("P@5, P@10 and MRR", ~rows["measure"].isin(["p@5", "p@10", "mrr"])),
        (f"pairs without {centre}", with_centre),
    ):
        if len(rows) > most and not keep.loc[rows.index].all():
            rows = rows[keep.loc[rows.index]]
            left_out.append(words)
    if len(rows) > most:
        fewer = _thin_steps(rows, most=most)
        if len(fewer) < len(rows):
            kept, total = (frame["step"].dropna().nunique() for frame in (fewer, rows))
            left_out.append(f"{total - kept:,} of {total:,} steps")
            rows = fewer
    if len(rows) > most:
        left_out.append(f"the last {len(rows) - most:,} rows")
        rows = rows.head(most)
    return rows, left_out


def _thin_steps(rows: pd.DataFrame, *, most: int) -> pd.DataFrame:
    """Every second step again and again, counted from the last, until the rows fit or two steps are left."""
    while len(rows) > most:
        steps = sorted(rows["step"].dropna().unique(), reverse=True)
        if len(steps) <= 2:
            return rows
        # Readings of different rhythms share few steps, so each measure is thinned by its own.
        places = rows.groupby("measure")["step"].rank(method="dense", ascending=False)
        rows = rows[places.isna() | (places % 2 == 1)]
    return rows


def table_payload(rows: pd.DataFrame) -> dict[str, Any]:
    """Columns that hold something, in the table's order; `total` counts the rows before thinning."""
    kept, left_out = thin_rows(rows)
    columns = [_column(name, kept[name]) for name in table.COLUMNS if _holds_something(kept[name])]
    return {"columns": columns, "length": len(kept), "total": len(rows), "left_out": left_out}


def _holds_something(column: "pd.Series[Any]") -> bool:
    return bool((column.notna() & (column.astype("str") != "")).any())


def _column(name: str, column: "pd.Series[Any]") -> dict[str, Any]:
    if name in table.NUMBERS:
        values = [float(f"{value:.6g}") if isfinite(value) else None for value in column.to_numpy(dtype="float64")]
        return {"name": name, "numbers": values}
    if name in table.COUNTS:
        return {"name": name, "numbers": [None if pd.isna(value) else int(value) for value in column]}
    codes, texts = pd.factorize(column)
    return {"name": name, "codes": codes.tolist(), "texts": [str(text) for text in texts]}
