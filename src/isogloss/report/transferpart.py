"""What the page of a task shows besides the verdict: its scores by plan and language, as a table and a figure."""

import base64
from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from isogloss.figure import NOTHING, Table
from isogloss.report.folder import RunFolder
from isogloss.report.languages import display_names
from isogloss.report.meanings import meaning
from isogloss.report.phrases import number
from isogloss.report.transferverdict import OTHERS, experiments, is_transfer, results

FEW = 2  # test sets that have room for their intervals
SHRINK = 0.62  # of a figure's pixels on the page: letters as large as the page's own


def transfer_part(run: RunFolder) -> dict[str, Any] | None:
    """The tables and figures of a task for the page; None for any other run."""
    if not is_transfer(run.rows):
        return None
    drawn = [
        path for kind in ("transfer", "languages") for path in sorted((run.path / "figures").glob(f"{kind}-*.png"))
    ]
    return {"tables": score_tables(run.rows), "pictures": [embedded(path) for path in drawn]}


def score_tables(frame: pd.DataFrame) -> list[Table]:
    """A table for each model, task and source: plans down, test sets across, then what the others lose, and chance."""
    rows = results(frame)
    found = []
    many = len(experiments(rows)) > 1
    for (model, task, source), some in experiments(rows).items():
        names = display_names([one for one in dict.fromkeys(some["target"]) if one not in ("", OTHERS)])
        main = some[some["main"]]
        title = f"{meaning(str(main['measure'].iloc[0])).title}, {task} from {names.get(source, source)}"
        found.append(_table(f"{model}, {title}" if many else title, some, main, names))
    return found


def _table(title: str, rows: pd.DataFrame, main: pd.DataFrame, names: Mapping[str, str]) -> Table:
    sets = list(dict.fromkeys(zip(main["target"], main["data"], strict=True)))
    sets.sort(key=lambda one: one[0] == OTHERS)
    repeated = [target for target, _ in sets]
    heads = [
        "mean of the others"
        if target == OTHERS
        else names[target] + (f" ({data})" if repeated.count(target) > 1 else "")
        for target, data in sets
    ]
    wide = len(sets) <= FEW + 1
    lines = []
    for plan in dict.fromkeys(main["variant"]):
        own = rows[rows["variant"] == plan]
        cells = [
            _cell(main, plan, target, data, interval=wide or target in (OTHERS, sets[0][0])) for target, data in sets
        ]
        losses = [
            _cell(own[own["measure"] == name], plan, OTHERS, "", interval=name == "gap")
            for name in ("gap", "relative_gap")
        ]
        lines.append([plan, *cells, *losses])
    floors = [main[(main["target"] == target) & (main["data"] == data)]["floor"].mean() for target, data in sets]
    if not all(map(isnan, floors)):
        lines.append(["chance", *(NOTHING if isnan(one) else number(one) for one in floors), NOTHING, NOTHING])
    return Table(title, ["plan", *heads, "gap of the others", "relative gap"], lines, _notes(rows))


def _notes(rows: pd.DataFrame) -> list[str]:
    over = "t intervals over seeds" if rows["seed"].isna().any() else "bootstrap intervals over examples, of one seed"
    return [
        f"Brackets hold {over}. The gap is the score in the language trained in less that in the others. Chance is "
        "what the models' own answers score when they are dealt out at random."
    ]


def _cell(rows: pd.DataFrame, plan: str, target: str, data: str, *, interval: bool = True) -> str:
    found = rows[(rows["variant"] == plan) & (rows["target"] == target) & (rows["data"] == data)]
    if found.empty or isnan(found.iloc[0]["value"]):
        return NOTHING
    one = found.iloc[0]
    bounds = f" [{number(one['low'])}, {number(one['high'])}]" if interval and not isnan(one["low"]) else ""
    return f"{number(one['value'])}{bounds}"


def embedded(path: Path) -> Mapping[str, str]:
    """A PNG as the page holds it."""
    content = path.read_bytes()
    width = int.from_bytes(content[16:20], "big")  # a PNG's header says its size
    image = base64.b64encode(content).decode("ascii")
    return {"title": path.stem, "source": f"data:image/png;base64,{image}", "width": str(round(width * SHRINK))}
