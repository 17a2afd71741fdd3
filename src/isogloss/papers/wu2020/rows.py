"""The one table of a reproduction: what every part found, means over layers and seeds, with published values beside.

`model` says which models read the two languages: `bilingual` (one), `monolingual` (one each) or `random` (one of the
source, fresh weights for the other); for the baseline of words it is `static`, in Table 1 the pair. `variant` is the
way of a map, the way into stitched layers, or the row of Table 1. Of a job's rows only the main scores are here; the
others stay with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from isogloss.errors import InputError
from isogloss.papers.evidence import over_seeds
from isogloss.papers.wu2020.published import BILINGUAL, MONOLINGUAL, TASKS, published
from isogloss.papers.wu2020.relations import relation_rows
from isogloss.recipes.jobs import Job
from isogloss.runs.run import Run, read_facts, read_rows
from isogloss.runs.table import Row, records, row

FORMS = ("cka", "cka_biased", "cka_uncentred")
AS_PRINTED = "cka_uncentred"  # the formula of the paper, which removes no means
SEEDLESS = ("measure", "model", "layer", "task", "data", "source", "target", "unit", "variant")


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with what these finished jobs found."""
    _refuse_mixed(jobs)
    read: Mapping[str, Callable[[Job, pd.DataFrame], Iterator[dict[str, Any]]]] = {
        "pretrain": _of_pretraining, "rotate": _of_rotation, "stitch": _of_stitching, "lexicon": _of_words,
        "transfer": _of_transfer,
    }  # fmt: skip
    found: list[Row] = []
    for job in jobs:
        part = str(job.place["part"])
        if part in read:
            found += read[part](job, read_rows(job.folder))
            for sentence in read_facts(job.folder).get("notes", []) if part != "pretrain" else ():
                run.note(sentence)
    found += list(layer_means(found))
    found += list(relation_rows(found))
    beside = {tuple(sorted(one.where.items())): one.value for one in published()}
    run.append(found)
    run.append(_beside(one, beside) for one in seed_means(found))


def _of_pretraining(job: Job, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Perplexity of held-out text after the last update."""
    rows = table[(table["measure"] == "perplexity") & (table["target"] != "all")]
    last = rows[rows["step"] == rows["step"].max()]
    languages, variant = str(job.place["model"]), str(job.place["variant"])
    kind = BILINGUAL if "-" in languages else MONOLINGUAL
    for one in records(last):
        at = {"task": "pretrain", "data": languages, "target": one["target"], "unit": one["unit"], "variant": variant}
        yield row("perplexity", one["value"], n=one["n"], model=kind, seed=job.place["seed"], **_ends(one), **at)


def _of_rotation(job: Job, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """CKA on the text that is learned from (on all there is, where nothing is learned), and P@1 of every way."""
    alike = table[table["measure"].isin(FORMS)]
    text = "train" if "train" in set(alike["variant"]) else "test"
    at = {"model": job.place["kind"], "seed": job.place["seed"], "unit": "sentence"}
    for one in records(alike[alike["variant"] == text]):
        place = {"task": "cka", "data": text, "source": one["source"], "target": one["target"], "layer": one["layer"]}
        yield row(one["measure"], one["value"], n=one["n"], **_ends(one), **place, **at)
    for one in records(table[table["measure"] == "p@1"]):
        place = {name: one[name] for name in ("data", "source", "target", "layer", "variant")}
        yield row("p@1", one["value"], n=one["n"], task="retrieval", **_ends(one), **place, **at)


def _of_stitching(job: Job, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The main score in the target language by layer, way and seed."""
    task = str(job.place["task"])
    for one in records(_main(table[table["target"] == job.place["target"]], task)):
        place = {name: one[name] for name in ("data", "source", "target", "layer", "variant", "seed")}
        at = {"task": f"stitch {task}", "model": job.place["kind"]}
        yield row(TASKS[task], one["value"], n=one["n"], **_ends(one), **place, **at)


def _of_words(job: Job, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """P@1 and coverage, by layer and of the embedding matrix; the baseline is `static`."""
    for one in records(table[table["measure"].isin(("p@1", "coverage"))]):
        kind = "static" if str(one["model"]).startswith("static") else MONOLINGUAL
        place = {name: one[name] for name in ("data", "source", "target", "layer", "variant", "unit") if name in one}
        yield row(one["measure"], one["value"], n=one["n"], task="lexicon", model=kind, **_ends(one), **place)


def _of_transfer(job: Job, table: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The main score in both languages by seed."""
    task = str(job.place["task"])
    for one in records(_main(table[table["step"].isna()], task)):
        place = {name: one[name] for name in ("data", "source", "target", "seed")}
        pair = f"{one['source']}-{job.place['target']}"
        at = {"task": f"table-1 {task}", "model": pair, "variant": job.place["variant"]}
        yield row(TASKS[task], one["value"], n=one["n"], **_ends(one), **place, **at)


def _main(table: pd.DataFrame, task: str) -> pd.DataFrame:
    return table[(table["measure"] == TASKS[task]) & table["seed"].notna() & (table["target"] != "others")]


def layer_means(found: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """CKA as a mean over layers, of each pair, kind and seed; n counts layers."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    names = ("measure", "model", "task", "data", "source", "target", "unit", "seed")
    for one in found:
        if one["measure"] in FORMS:
            groups.setdefault(tuple(one[name] for name in names), []).append(one)
    for where, some in groups.items():
        at = dict(zip(names[1:], where[1:], strict=True))
        floor = float(np.mean([one["floor"] for one in some]))
        yield row(str(where[0]), float(np.mean([one["value"] for one in some])), n=len(some), floor=floor, **at)


def seed_means(found: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Means over seeds of everything that has one, with t intervals; n counts seeds."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for one in found:
        if "seed" in one:
            groups.setdefault(tuple(one.get(name, "") for name in SEEDLESS), []).append(one)
    for where, some in groups.items():
        mean = over_seeds([float(one["value"]) for one in some])
        ends = {"low": mean.low, "high": mean.high} if mean.known else {}
        floors = [float(one["floor"]) for one in some if "floor" in one]
        ends |= {"floor": float(np.mean(floors))} if len(floors) == len(some) else {}
        at = {name: value for name, value in zip(SEEDLESS[1:], where[1:], strict=True) if value != ""}
        yield row(str(where[0]), mean.value, n=mean.seeds, **ends, **at)


def _beside(one: dict[str, Any], known: Mapping[tuple[tuple[str, Any], ...], float]) -> dict[str, Any]:
    """The row with the printed value, where there is one."""
    if one["measure"] == AS_PRINTED and "layer" in one:
        where = {"part": "cka", "model": one["model"], "target": one["target"], "layer": int(one["layer"])}
    elif str(one.get("task", "")).startswith("table-1"):
        task = str(one["task"]).removeprefix("table-1 ")
        where = {"part": "table-1", "variant": one["variant"], "task": task, "target": one["target"]}
    else:
        return one
    value = known.get(tuple(sorted(where.items())))
    return one if value is None else {**one, "published": value}


def _ends(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in ("low", "high", "floor") if name in one}


def _refuse_mixed(jobs: Sequence[Job]) -> None:
    """Refuse jobs of one part that read a model of the same name and other weights."""
    first: dict[tuple[str, str], tuple[Job, str]] = {}
    for job in jobs:
        if job.place["part"] in ("pack", "pretrain"):
            continue
        hashes = read_facts(job.folder)["hashes"]
        sides = {"model": str(job.first)} | ({"other": str(job.options["other"])} if "other" in job.options else {})
        for side, path in sides.items():
            if side == "other" and job.options.get("random"):
                continue
            mine = str(hashes.get(side))
            before, theirs = first.setdefault((str(job.place["part"]), path), (job, mine))
            if mine != theirs:
                raise InputError(
                    f"{before.folder} and {job.folder} were run with different weights of {path}; they are no runs of "
                    "one reproduction: remove one of them and run again with --resume"
                )
