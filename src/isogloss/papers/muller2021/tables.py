"""Tables 1 to 3: what re-initialised pairs of layers cost, at home, elsewhere, and in other domains."""

from collections.abc import Sequence

import pandas as pd

from isogloss.figure import NOTHING, Table, percent, signed
from isogloss.papers.evidence import LEAST, no_interval, over
from isogloss.papers.muller2021.published import (
    DOMAINS,
    NAMES,
    PAIRS,
    PLANS,
    RECALLED,
    REFERENCE,
    SOURCE,
    TABLE_1,
    TASKS,
)
from isogloss.papers.muller2021.reading import Results
from isogloss.recipes.task_scores import OTHERS

COLUMNS = ["", *PLANS.values(), "chance"]
SCORES = {"las": "labelled attachment score", "accuracy": "accuracy", "span_f1": "span F1"}
LAST = (
    "Points, of the model after its last update. The reference's column is its score; the others are differences to "
    "it, seed by seed, when the weights of these two layers begin anew. Chance: the reference's answers dealt out at "
    "random."
)
MEMORY = (
    f"Published: of mBERT, {RECALLED}; the paper's table could not be read, so take its numbers for their size alone."
)


def tables(rows: pd.DataFrame) -> list[Table]:
    """All tables the rows allow."""
    found = Results(rows)
    made = [_table_1(found)]
    made += [table for task in found.tasks for table in (_table_2(found, task), _table_3(found, task)) if table.rows]
    return made


def _table_1(found: Results) -> Table:
    lines = []
    for task in found.tasks:
        for source in found.sources(task):
            for target, to in ((source, source), (OTHERS, "X")):
                if source == SOURCE:
                    lines.append(_published(task, home=target == source))
                label = f"{NAMES[task]} {source} → {to}"
                lines.append(_line(found, task, source, label, target=target))
    seeds = [len(found.scores(*one, REFERENCE, target=one[1])) for one in found.experiments]
    return Table(
        "Table 1: layers that begin anew, in the source language and on average over the others (X)",
        COLUMNS, lines, [LAST, _seeds(seeds), MEMORY] if SOURCE in [one for _, one in found.experiments] else
        [LAST, _seeds(seeds)],
    )  # fmt: skip


def _table_2(found: Results, task: str) -> Table:
    lines = [
        _line(found, task, source, f"{source} → {target}", target=target)
        for source in found.sources(task)
        for target, _ in found.mains(task, source)
        if target != source
    ]
    score = SCORES[TASKS[task]]
    return Table(f"Table 2, {NAMES[task]}: every target language, {score}", COLUMNS, lines, [LAST])


def _table_3(found: Results, task: str) -> Table:
    lines = []
    for source in found.sources(task):
        sets = found.domains(task, source)
        home = [one for one in sets if one[0] == source]
        for target, data in [*home, *(one for one in sets if one not in home)]:
            lines.append(_line(found, task, source, f"{source} → {data}", target=target, data=data))
        if len(sets) > len(home):
            lines.append(_line(found, task, source, f"{source} → X, {DOMAINS}", target=OTHERS, data=DOMAINS))
    return Table(f"Table 3, {NAMES[task]}: other domains, by test set", COLUMNS, lines, [LAST])


def _line(found: Results, task: str, source: str, label: str, *, target: str, data: str | None = None) -> list[str]:
    reference = found.scores(task, source, REFERENCE, target=target, data=data)
    cells = [over(reference).say(percent) if reference else NOTHING]
    for plan in PAIRS:
        changes = found.changes(task, source, plan, target=target, data=data)
        cells.append(over(changes).say(signed) if changes else NOTHING)
    floors = found.floors(task, source, target=target, data=data)
    return [label, *cells, percent(over(floors).value) if floors else NOTHING]


def _published(task: str, *, home: bool) -> list[str]:
    score, changes = TABLE_1[task][0 if home else 1]
    label = f"{NAMES[task]} {SOURCE} → {SOURCE if home else 'X'}, recalled"
    return [label, f"{score:.1f}", *(f"{change:+.1f}" for change in changes), NOTHING]


def _seeds(counts: Sequence[int]) -> str:
    fewest, most = (min(counts), max(counts)) if counts else (0, 0)
    told = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    few = no_interval(fewest) if fewest < LEAST else "brackets hold t intervals over them"
    return f"Means over {told} seed{'s' * (most != 1)}; {few}."
