"""The one table of a reproduction: rows of all jobs, crossing and balance over their seeds, published values beside."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from isogloss.papers.collecting import notes_of, refuse_mixtures
from isogloss.papers.hussain2020.published import FEW, UNTUNED, published
from isogloss.recipes.jobs import Job
from isogloss.recipes.steps.drifting import START, curve_rows
from isogloss.recipes.steps.tunedtext import Corpora
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import Row, records
from isogloss.text.corpora import Corpus

AT_THE_END = ("crossing_step", "balance_step")


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with the rows of these finished jobs.

    Single directions of retrieval are left to the jobs' own tables; their mean is here. What an untuned model scores
    is the same in each job, since all of them read the same masks, and is taken from the first.
    """
    refuse_mixtures(jobs)
    for sentence in notes_of(jobs):
        if not re.search(r"the curves of .* do not cross$", sentence):  # said anew below, over all seeds
            run.note(sentence)
    rows = [row for number, job in enumerate(jobs) for row in _of(job, first=number == 0)]
    if not rows:
        return
    language = next(one["target"] for one in rows if _is_curve(one) and one["data"] == "validation")
    native = next((one["other_model"] for one in rows if one.get("other_model") not in (None, "", START)), "")
    last: dict[str, int] = {}
    for one in rows:
        if _is_curve(one):
            last[one["variant"]] = max(last.get(one["variant"], 0), int(one["step"]))
    beside = _Beside(language, native, last)
    run.append(beside.fill(one) for one in rows)
    text = Corpus(language, [])
    for more in curve_rows(run, Corpora(text, text, text), model=rows[0]["model"]):
        run.append(more)


def _of(job: Job, *, first: bool) -> list[dict[str, Any]]:
    rows = read_rows(job.folder)
    left_out = rows["measure"].isin(AT_THE_END) | (rows["measure"].str.startswith("p@") & (rows["source"] != ""))
    if not first:
        left_out |= rows["variant"] == UNTUNED
    return records(rows[~left_out])


def _is_curve(row: Row) -> bool:
    return row["measure"] == "perplexity" and "step" in row and row["data"] != "test"


class _Beside:
    """Published values by the coordinates of their rows."""

    def __init__(self, language: str, native: str, last: Mapping[str, int]) -> None:
        self.known: dict[tuple[str, ...], dict[tuple[Any, ...], float]] = {}
        for one in published(language, native, last):
            names = tuple(sorted(one.where))
            self.known.setdefault(names, {})[tuple(one.where[name] for name in names)] = one.value

    def fill(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with the published value, where there is one."""
        data = str(row.get("data", ""))
        place = {**row, "data": FEW} if data.startswith(FEW) else row
        for names, values in self.known.items():
            value = values.get(tuple(place.get(name) for name in names))
            if value is not None:
                return {**row, "published": value}
        return row
