"""The one table of a reproduction: results by N, alignment by layer, and the correlation of the two."""

import math
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.measures.statistics import correlation
from isogloss.papers.collecting import notes_of, refuse_mixtures
from isogloss.papers.jexus2020.published import ANCHORS, NOTHING_FROZEN, plan_of
from isogloss.papers.jexus2020.reading import ALIGNMENT, Results
from isogloss.papers.jexus2020.texts import DUTCH
from isogloss.recipes.jobs import Job
from isogloss.recipes.task_scores import OTHERS
from isogloss.runs.run import Run, read_rows
from isogloss.runs.table import Row, frame, mean_rows, records, row

KEPT = {"p@1", "cka", "word_agreement", "p@1_mean", "cka_mean", "p@1_behind", "cka_behind", "anisotropy"}
WORD_MAP = ("points.parquet", "words.safetensors")
KINDS = ("spearman", "pearson")


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with the rows of these finished jobs.

    Of trainings these are the results; scores by epoch are in the jobs' own tables. The mean over other languages is
    taken anew without Dutch, which is of other data. The word map of two languages is shown as the run's own, and its
    values are left to its own table, since the map of all languages has them on the same text.
    """
    trained = [job for job in jobs if job.recipe == "transfer"]
    refuse_mixtures(trained)
    for sentence in notes_of(jobs):
        if "word map" not in sentence:
            run.note(sentence)
    for job in trained:
        results = list(_results(job))
        seeds = results + list(_others(results))
        run.append([*seeds, *mean_rows(seeds)])
    for job in jobs:
        if job.recipe == "map" and job.options["points"]:
            _take_map(run, job)
        elif job.recipe == "map":
            rows = read_rows(job.folder)
            run.append(records(rows[rows["measure"].isin(KEPT)]))
    if trained:
        run.append(_correlations(Results(frame(run.rows))))


def _results(job: Job) -> Iterator[dict[str, Any]]:
    """Results of every seed, the oracle's too; the published anchor beside what it can be held against."""
    rows = read_rows(job.folder)
    rows = rows[rows["step"].isna() & rows["seed"].notna() & (rows["target"] != OTHERS)]
    for one in records(rows):
        if (one["measure"], one["variant"]) == ("accuracy", plan_of(NOTHING_FROZEN)) and one["target"] in ANCHORS:
            one["published"] = ANCHORS[one["target"]]
        yield one


def _others(results: Sequence[Row]) -> Iterator[Row]:
    """The mean over the other languages of XNLI, of scores and gaps, for each plan and seed."""
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    for one in results:
        if one["target"] not in (one["source"], DUTCH) and one["measure"] in ("accuracy", "gap", "relative_gap"):
            grouped.setdefault((one["measure"], one["variant"], one["seed"], one.get("unit")), []).append(one)
    for (measure, variant, seed, unit), some in grouped.items():
        where = {name: some[0][name] for name in ("model", "task", "source")} | ({"unit": unit} if unit else {})
        value = float(np.mean([one["value"] for one in some]))
        if measure == "accuracy":
            where["floor"] = float(np.mean([one.get("floor", math.nan) for one in some]))
        yield row(measure, value, n=len(some), target=OTHERS, variant=variant, seed=seed, **where)


def _correlations(found: Results) -> Iterator[Row]:
    """Accuracy at N with alignment at layer N, over N from 0 on: for each language, and pooled within those of XNLI.

    `unit` says what is correlated with accuracy. A second row says how often curves moved along the layers agree as
    well.
    """
    place = {"model": found.model, "task": "nli", "source": found.source, "variant": "accuracy"}
    for name in ALIGNMENT:
        curves = {one: found.both(name, one) for one in found.languages if one != found.source}
        whole = {one: (x, y) for one, (points, x, y) in curves.items() if len(points) == found.depth}
        pooled = [one for one in found.targets if one in whole]
        if len(pooled) > 1:
            whole[OTHERS] = tuple(np.stack([whole[one][side] for one in pooled]) for side in (0, 1))  # type: ignore[assignment]
        for target, (x, y) in whole.items():
            for kind in KINDS:
                one = correlation(x, y, kind=kind)  # type: ignore[arg-type]
                at = {**place, "target": target, "unit": name, "n": one.n}
                if one.value == one.value:
                    yield row(kind, one.value, low=one.low, high=one.high, **at)
                    yield row(f"{kind}_share", one.share, **at)


def _take_map(run: Run, job: Job) -> None:
    """Its points, or the vectors that a machine with openTSNE draws them from, unless that has been done here."""
    there = next((job.folder / name for name in WORD_MAP if (job.folder / name).is_file()), None)
    if there is not None and (there.name == WORD_MAP[0] or not (run.folder / WORD_MAP[0]).is_file()):
        shutil.copyfile(there, run.folder / there.name)
