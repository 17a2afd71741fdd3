"""The one table of a reproduction: results of all jobs, means over targets and seeds, differences to the reference.

Of a job's rows these are left to the job's own table: scores other than the main one, and comparisons of languages one
by one, of which the reference's with the source are here and of the rest the mean over languages (`others`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isogloss.papers.collecting import Known, agree, notes_of, refuse_mixtures
from isogloss.papers.evidence import over_seeds
from isogloss.papers.muller2021.published import (
    CHANGE,
    DOMAINS,
    PAIRS,
    PLANS,
    REFERENCE,
    TASKS,
    UNSEEN,
    published,
)  # fmt: skip
from isogloss.papers.muller2021.relations import relation_rows
from isogloss.papers.muller2021.scales import KNOWN
from isogloss.recipes.jobs import Job
from isogloss.recipes.task_scores import OTHERS
from isogloss.runs.run import Run, read_facts, read_rows
from isogloss.runs.table import UNTUNED, Row, records, row

SCORES = ("gap", "relative_gap")
ALIKE = ("cka", "cka_rbf")
PLACE = ("measure", "model", "task", "source", "target", "data", "unit", "variant")


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with what these finished jobs found."""
    _refuse_mixed(jobs)
    for sentence in notes_of(jobs):
        if "the parallel text has no" not in sentence:  # said once for all
            run.note(sentence)
    tables = [read_rows(job.folder) for job in jobs]
    results = [one for table in tables for one in _results(table)]
    if not results:
        return
    results += list(target_means(results, KNOWN.get(str(run.facts["model"]))))
    alike = pd.concat([_means_of_languages(table) for table in tables], ignore_index=True)
    single = pd.concat([_of_reference(table) for table in tables], ignore_index=True)
    beside = {tuple(sorted(one.where.items())): one.value for one in published()}
    run.append(results)
    run.append([*records(alike), *records(single)])
    run.append(_beside(one, beside) for one in (*over_seeds_rows(results), *change_rows(results)))
    run.append(relation_rows(results, records(single)))


def _results(table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Main score, gap and relative gap of every test set, plan and seed."""
    main = table["task"].map(TASKS)
    kept = table["step"].isna() & table["seed"].notna() & table["layer"].isna() & table["variant"].isin(PLANS)
    kept &= ((table["measure"] == main) | table["measure"].isin(SCORES)) & (table["target"] != OTHERS)
    kept &= np.isfinite(table["value"])  # a source that scores 0 has no relative gap
    yield from records(table[kept])


def target_means(results: Sequence[Row], known: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """Means over targets of each task, source, plan and seed, of scores and gaps.

    `others`: the main test set of every other language; with `known`, of those that the model was pretrained on, and
    the rest is `unseen`. The other sets of these languages are `others` on `other domains`.
    """
    main: dict[tuple[str, ...], str] = {}
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for one in results:
        if one["target"] == one["source"]:
            continue
        first = main.setdefault((one["task"], one["source"], one["target"]), one["data"])
        seen = known is None or one["target"] in known
        target, data = (OTHERS, "") if seen else (UNSEEN, "")
        if one["data"] != first:
            target, data = OTHERS, DOMAINS
        where = (one["measure"], one["model"], one["task"], one["source"], target, data, one.get("unit", ""))
        groups.setdefault((*where, one["variant"], one["seed"]), []).append(one)
    for where, some in groups.items():
        named = {name: value for name, value in zip((*PLACE[1:], "seed"), where[1:], strict=True) if value != ""}
        value = sum(float(one["value"]) for one in some) / len(some)
        yield row(str(where[0]), value, n=len(some), **_floor(some), **named)


def over_seeds_rows(results: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Means over seeds with t intervals; n counts seeds."""
    places: dict[tuple[Any, ...], list[Row]] = {}
    for one in results:
        places.setdefault(tuple(one.get(name, "") for name in PLACE), []).append(one)
    for where, some in places.items():
        at = dict(zip(PLACE[1:], where[1:], strict=True))
        yield _interval_row(str(where[0]), [float(one["value"]) for one in some], at) | _floor(some)


def change_rows(results: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Scores under each pair less those of the reference, paired by seed; `unit` says which score."""
    found = _by_place([one for one in results if one["measure"] not in SCORES])
    for where, seeds in found.items():
        at = dict(zip(PLACE[1:], where[1:], strict=True))
        reference = found.get((*where[:-1], REFERENCE), {})
        both = [seed for seed in seeds if seed in reference]
        if at["variant"] in PAIRS and both:
            changes = [seeds[seed] - reference[seed] for seed in both]
            yield _interval_row(CHANGE, changes, {**at, "unit": str(where[0])})


def _by_place(results: Sequence[Row]) -> dict[tuple[Any, ...], dict[int, float]]:
    found: dict[tuple[Any, ...], dict[int, float]] = {}
    for one in results:
        found.setdefault(tuple(one.get(name, "") for name in PLACE), {})[int(one["seed"])] = float(one["value"])
    return found


def _floor(some: Sequence[Row]) -> dict[str, float]:
    """The mean of what chance gives, where it is known of all."""
    floors = [float(one["floor"]) for one in some if "floor" in one]
    return {"floor": sum(floors) / len(floors)} if len(floors) == len(some) else {}


def _interval_row(measure: str, values: Sequence[float], where: Mapping[str, Any]) -> dict[str, Any]:
    mean = over_seeds(values)
    ends = {"low": mean.low, "high": mean.high} if mean.known else {}
    return row(measure, mean.value, n=mean.seeds, **ends, **{name: one for name, one in where.items() if one != ""})


def _beside(one: dict[str, Any], known: Mapping[tuple[tuple[str, Any], ...], float]) -> dict[str, Any]:
    """The row with the recalled value, where there is one; other domains have none."""
    names = ("measure", "task", "source", "target", "variant")
    home = one["target"] == one["source"] and one.get("data", "") not in ("en_ewt", "en_wikiann")
    value = known.get(tuple(sorted((name, one[name]) for name in names)))
    return one if value is None or home or one.get("data") == DOMAINS else {**one, "published": value}


def _alike(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["measure"].isin(ALIKE) & table["layer"].notna()].assign(data="pud", unit="sentence")


def _means_of_languages(table: pd.DataFrame) -> pd.DataFrame:
    """Comparisons of one job, their means over languages; n counts these, intervals are over seeds and not here."""
    rows = _alike(table)
    plan = rows["variant"].str.partition("+")[0]
    linear = (rows["measure"] == "cka") & ~((rows["other_model"] == "") & rows["other_layer"].notna())
    rows = rows[plan.isin((UNTUNED, REFERENCE)) | linear]
    names = ["measure", "model", "other_model", "layer", "other_layer", "task", "data", "source", "unit", "variant",
             "seed"]  # fmt: skip
    grouped = rows.groupby(names, dropna=False, sort=False)
    means = grouped.agg(value=("value", "mean"), floor=("floor", "mean"), n=("value", "size")).reset_index()
    return means.assign(target=OTHERS)


def _of_reference(table: pd.DataFrame) -> pd.DataFrame:
    """Debiased CKA of the source with each target, before training and in the reference."""
    rows = _alike(table)
    kept = (rows["measure"] == "cka") & rows["other_layer"].isna() & rows["variant"].isin((UNTUNED, REFERENCE))
    return rows[kept]


def _refuse_mixed(jobs: Sequence[Job]) -> None:
    """Refuse jobs of different models, or seeds of one experiment on different text."""
    experiments: dict[tuple[str, str], list[Job]] = {}
    for job in jobs:
        experiments.setdefault((job.place["task"], job.place["source"]), []).append(job)
    for some in experiments.values():
        refuse_mixtures(some)
    known: Known = {}
    for some in experiments.values():
        hashes = read_facts(some[0].folder)["hashes"]
        for name in ("model", "parallel text"):
            agree(known, name, some[0], hashes.get(name), name)
