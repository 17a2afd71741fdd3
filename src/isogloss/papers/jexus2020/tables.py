"""The post's table, N by language, and what it leaves to the eye as numbers: how accuracy goes with alignment."""

import pandas as pd

from isogloss.figure import NOTHING, Table, percent
from isogloss.papers.evidence import LEAST, Interval, no_interval, share_over_seeds
from isogloss.papers.jexus2020.published import ANCHOR_SOURCE, ANCHORS, NOTHING_FROZEN
from isogloss.papers.jexus2020.reading import ALIGNMENT, Results, title
from isogloss.papers.jexus2020.texts import DUTCH
from isogloss.recipes.task_scores import OTHERS

POST = "The post's own table is an image whose numbers are not available."


def tables(rows: pd.DataFrame) -> list[Table]:
    """Accuracy by N, the oracle's, and correlations with alignment; those that the rows allow."""
    found = Results(rows)
    made = []
    if found.points:
        made = [_accuracies(found), _oracle(found)]
    for kind, name in (
        ("spearman", "Table 3: rank correlation (Spearman)"),
        ("pearson", "Table 4: correlation (Pearson)"),
    ):
        made.append(_correlations(found, kind, name))
    return [one for one in made if one is not None]


def _accuracies(found: Results) -> Table:
    columns = [found.source, *found.targets, OTHERS, *([DUTCH] if DUTCH in found.languages else [])]
    lines = []
    anchors = [percent(ANCHORS[one]) if one in ANCHORS else NOTHING for one in columns]
    if set(anchors) != {NOTHING}:
        lines.append([f"{NOTHING_FROZEN}, published", *anchors])
    lines += [[str(point), *(_cell(found, point, one) for one in columns)] for point in found.points]
    heads = [f"{title(one)} (SICK)" if one == DUTCH else title(one) for one in columns]
    notes = [POST]
    if len(lines) > len(found.points):
        notes.append(f"Published: zero-shot, {ANCHOR_SOURCE}.")
    notes.append(_measured(found))
    if DUTCH in columns:
        notes.append("Dutch is of other data, SICK-NL, and in no mean: XNLI has no Dutch.")
    name = f"Table 1: accuracy (%) of inference, trained in {title(found.source)} with N layers frozen"
    return Table(name, ["N", *heads], lines, notes)


def _oracle(found: Results) -> Table | None:
    columns = [one for one in (*found.targets, OTHERS) if found.accuracy(found.points[0], one, oracle=True)]
    if not columns:
        return None
    lines = [[str(point), *(_cell(found, point, one, oracle=True) for one in columns)] for point in found.points]
    heads = [title(one) for one in columns]
    note = "An upper bound, which zero-shot transfer does not have: no finding rests on it."
    return Table(
        "Table 2: the same of the epoch that each target's own development set chooses", ["N", *heads], lines, [note]
    )


def _cell(found: Results, point: int, language: str, *, oracle: bool = False) -> str:
    each = list(found.accuracy(point, language, oracle=oracle).values())
    return share_over_seeds(each).say(percent) if each else NOTHING


def _measured(found: Results) -> str:
    counts = sorted({len(found.accuracy(point, found.source)) for point in found.points})
    told = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    few = no_interval(counts[0]) if counts[0] < LEAST else "brackets hold t intervals over them"
    return (
        f"Measured: means over {told} seed{'s' * (counts[-1] != 1)} of the epoch that {title(found.source)} "
        f"development data chooses; {few}. Shuffled "
        f"answers score {percent(float(found.floor(found.source).mean()))}."
    )


def _correlations(found: Results, kind: str, name: str) -> Table | None:
    rows = found.rows[found.rows["measure"] == kind]
    if rows.empty:
        return None
    values = {
        (str(one["target"]), str(one["unit"])): Interval(one["value"], one["low"], one["high"], 0)
        for one in rows.to_dict("records")
    }
    lines = [
        [
            "pooled" if language == OTHERS else title(language),
            *(values[language, unit].say(_two) if (language, unit) in values else NOTHING for unit in ALIGNMENT),
        ]
        for language in dict.fromkeys(str(one) for one in rows["target"])
    ]
    notes = [
        "Of accuracy with N layers frozen and alignment at layer N of the model as it was, over the "
        f"{rows['n'].iloc[0]} N from 0 on. Pooled: within the languages of XNLI. Brackets: 95%, of runs of "
        "three neighbouring layers drawn with replacement."
    ]
    return Table(f"{name} of accuracy with alignment", ["language", *ALIGNMENT], lines, notes)


def _two(value: float) -> str:
    return NOTHING if value != value else f"{value:.2f}"
