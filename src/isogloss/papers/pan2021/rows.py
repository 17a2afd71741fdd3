"""The one table of a reproduction: every model before and after alignment, on every test, with means over seeds.

`variant` is the alignment (`before`, `both`, `tlm` ...), with `translated` or `switched` behind it where a task was
trained in all languages at once; `data` the test set (`xnli`, `sick`, `xquad`, `mlqa`, `tatoeba`). Retrieval is centred
cosine, CKA debiased. Other scores, losses by step and other ways of retrieval are in the tables of the jobs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.papers.collecting import Known, agree, notes_of
from isogloss.papers.evidence import over_seeds
from isogloss.papers.pan2021.published import BEFORE, BOTH, CHANGE, FACTOR, RISE, ZERO
from isogloss.recipes.jobs import Job
from isogloss.recipes.task_scores import OTHERS
from isogloss.runs.run import Run, read_facts, read_rows
from isogloss.runs.table import Row, mean_rows, records, row

SCORES = ("accuracy", "answer_f1", "exact_match", "gap")
MAPPED = {"p@1": "centred", "cka": "debiased"}
EVALUATED = "evaluate"
ALIGN = "align"  # the task of maps here: a page does not take rows of a task for a map of one model
POOLED = "all"  # align's perplexity of all languages together, which those with most tokens decide


def collect(run: Run, jobs: Sequence[Job]) -> None:
    """Fill the run's table with what these finished jobs found."""
    refuse_mixed(jobs)
    for sentence in notes_of(jobs):
        run.note(sentence)
    model = str(run.facts["model"])
    scores = [one for job in jobs if job.recipe == "transfer" for one in _scores(job, model)]
    scores += list(_others(scores))
    spoken = [one for job in jobs if job.recipe == "align" for one in _perplexities(job, model)]
    seen: set[tuple[Any, ...]] = set()
    for one in list(spoken):  # what a seed has before is the same in each of its alignments, which share their masks
        place = (one["variant"], one["target"], one["unit"], one["seed"])
        if place in seen:
            spoken.remove(one)
        seen.add(place)
    every = [*scores, *spoken]
    run.append([*every, *mean_rows(every)])
    run.append(_beside(one) for one in change_rows(every))
    for job in jobs:
        if job.recipe == "map":
            run.append(_mapped(job, model))


def _scores(job: Job, model: str) -> Iterator[dict[str, Any]]:
    """Scores of every test set, and the gap to the source."""
    table = read_rows(job.folder)
    table = table[table["step"].isna() & table["seed"].notna() & (table["target"] != OTHERS)]
    alignment, training = job.place["alignment"], job.place["training"]
    variant = alignment if training == ZERO else f"{alignment} {training}"
    for one in records(table[table["measure"].isin(SCORES)]):
        yield {**one, "model": model, "variant": variant, "data": str(one["data"]).partition("-")[0]}


def _others(scores: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Means over the other languages of a test, of each model and seed."""
    grouped: dict[tuple[Any, ...], list[Row]] = {}
    names = ("measure", "model", "task", "data", "source", "unit", "variant", "seed")
    for one in scores:
        if one["target"] != one["source"]:
            grouped.setdefault(tuple(one.get(name, "") for name in names), []).append(one)
    for place, some in grouped.items():
        where = {name: value for name, value in zip(names, place, strict=True) if value != ""}
        floors = [float(one["floor"]) for one in some if "floor" in one]
        floor = {"floor": float(np.mean(floors))} if len(floors) == len(some) else {}
        value = float(np.mean([one["value"] for one in some]))
        yield row(str(where.pop("measure")), value, n=len(some), target=OTHERS, **floor, **where)


def _perplexities(job: Job, model: str) -> Iterator[dict[str, Any]]:
    """Perplexity of each language before the first update and after the last."""
    table = read_rows(job.folder)
    table = table[(table["measure"] == "perplexity") & (table["target"] != POOLED)]
    last = table["step"].max()
    for one in table[table["step"].isin([0, last])].to_dict("records"):
        variant = BEFORE if one["step"] == 0 else job.place["alignment"]
        place = {"target": one["target"], "unit": one["unit"], "variant": variant, "seed": job.place["seed"]}
        yield row("perplexity", one["value"], n=int(one["n"]), model=model, data=EVALUATED, **place)


def _mapped(job: Job, model: str) -> Iterator[dict[str, Any]]:
    """CKA and retrieval at every layer; the model as it was has no seed."""
    table = read_rows(job.folder)
    kept = table[table["layer"].notna() & (table["unit"] == "sentence")]
    alignment = job.place["alignment"]
    seed = {} if alignment == BEFORE else {"seed": job.place["seed"]}
    for measure, way in MAPPED.items():
        for one in kept[(kept["measure"] == measure) & (kept["variant"] == way)].to_dict("records"):
            values = {name: one[name] for name in ("low", "high", "floor", "n") if one[name] == one[name]}
            place = {name: one[name] for name in ("layer", "source", "target", "unit")}
            data = str(one["data"]).partition(".")[0]
            where = {"model": model, "task": ALIGN, "data": data, "variant": alignment}
            yield row(measure, one["value"], **where, **values, **place, **seed)


def change_rows(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Scores after alignment less those before, and perplexities after by those before, seed by seed.

    A task that was trained in all languages is compared with the same training of the model as it was. `unit` says
    which score; of perplexity it stays what it is counted by. n counts seeds.
    """
    names = ("measure", "model", "task", "data", "source", "target", "unit")
    found: dict[tuple[Any, ...], dict[str, dict[int, float]]] = {}
    for one in rows:
        place = tuple(one.get(name, "") for name in names)
        found.setdefault(place, {}).setdefault(one["variant"], {})[int(one["seed"])] = float(one["value"])
    for place, variants in found.items():
        where = dict(zip(names, place, strict=True))
        measure = where.pop("measure")
        for variant, seeds in variants.items():
            alignment, _, training = variant.partition(" ")
            start = variants.get(f"{BEFORE} {training}".strip(), {})
            both = [seed for seed in seeds if seed in start]
            if alignment == BEFORE or not both:
                continue
            spoken = measure == "perplexity"
            change = over_seeds(
                [seeds[one] / start[one] if spoken else seeds[one] - start[one] for one in both], log=spoken
            )
            named = {name: value for name, value in where.items() if value != ""} | (
                {} if spoken else {"unit": measure}
            )
            ends = {"low": change.low, "high": change.high} if change.known else {}
            yield row(FACTOR if spoken else CHANGE, change.value, n=len(both), variant=variant, **ends, **named)


def _beside(one: dict[str, Any]) -> dict[str, Any]:
    """The row with the paper's one number, where it is that: the rise of zero-shot XNLI."""
    place = {"measure": CHANGE, "unit": "accuracy", "data": "xnli", "target": OTHERS, "variant": BOTH}
    return {**one, "published": RISE} if all(one.get(name) == value for name, value in place.items()) else one


def refuse_mixed(jobs: Sequence[Job]) -> None:
    """Refuse jobs of one part that read different text, or that were run with different models of one name."""
    text: Known = {}
    models: Known = {}
    for job in jobs:
        hashes = read_facts(job.folder)["hashes"]
        same = job.place["part"], job.place.get("training"), str(job.options.get("train"))
        agree(text, same, job, hashes["data"], "text")
        began = BEFORE if job.recipe == "align" else job.place["alignment"]
        kind = job.recipe, began, None if began == BEFORE else job.place["seed"]
        agree(models, kind, job, hashes["model"], "model")
