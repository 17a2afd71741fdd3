"""What was found by looking words or sentences up in another language, by layer and way, in a few sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from isogloss.report.languages import display_names
from isogloss.report.likeness import likeness_facts, likeness_verdict
from isogloss.report.phrases import name_layers, number

TASKS = {"lexicon": "word", "rotate": "sentence"}
METHOD = {"lexicon": "csls", "rotate": "cosine"}  # what the papers read; the other one is in the rows
STATIC = "static: "
FACTS = ("coverage", "identical", "p@1_behind", "cka_retrieval")
MOST_PAIRS = 8
Record = dict[str, Any]


@dataclass(frozen=True)
class Lookup:
    """One source and target: P@1 rows by way, at layers (`layered`) and without one (`flat`), as records.

    ways are in the order of the run; a way's name is the variant without the method.
    """

    task: str
    model: str
    source: str
    target: str
    data: str
    method: str
    layered: Sequence[Record]
    flat: Sequence[Record]
    facts: Sequence[Record]

    @property
    def ways(self) -> list[str]:
        """The ways that were compared."""
        return list(dict.fromkeys(self.way(one) for one in [*self.layered, *self.flat]))

    @property
    def best(self) -> Record:
        """The row with the highest P@1 of the model at a layer, or else of what there is."""
        return max(self.layered or self.flat, key=lambda one: float(one["value"]))

    def way(self, one: Record) -> str:
        """The way of a row."""
        return str(one["variant"]).removesuffix(f" {self.method}")

    @property
    def beside(self) -> list[Record]:
        """What has no layer, each with its own best way: static vectors need a map where a model may need none."""
        rows: dict[str, list[Record]] = {}
        for one in self.flat:
            rows.setdefault(flat_name(one), []).append(one)
        tops = [max(some, key=lambda one: float(one["value"])) for some in rows.values()]
        return [one for one in tops if one is not self.best]

    def curve(self, way: str) -> list[Record]:
        """The rows of a way by layer."""
        return sorted((one for one in self.layered if self.way(one) == way), key=lambda one: int(one["layer"]))


def is_lookup(frame: pd.DataFrame) -> bool:
    """Whether these rows are of words or sentences that were looked up."""
    return bool(frame["task"].isin(list(TASKS)).any())


def lookups(frame: pd.DataFrame) -> list[Lookup]:
    """Every source and target of a run, in order of appearance."""
    rows = frame[frame["task"].isin(list(TASKS))]
    found = []
    places = ["task", "source", "target", "data", "seed"]
    for (task, source, target, data, _), some in rows[rows["target"] != ""].groupby(places, sort=False, dropna=False):
        method = METHOD[str(task)]
        records = [{str(name): cell for name, cell in one.items()} for one in some.to_dict("records")]
        p = [one for one in records if one["measure"] == "p@1" and str(one["variant"]).endswith(f" {method}")]
        layered = [one for one in p if not pd.isna(one["layer"])]
        flat = [one for one in p if pd.isna(one["layer"])]
        facts = [one for one in records if one["measure"] in FACTS]
        if layered or flat:
            first = (layered or flat)[0]
            model = " and ".join(str(one) for one in (first["model"], first["other_model"]) if one)
            found.append(Lookup(str(task), model, str(source), str(target), str(data), method, layered, flat, facts))
    return found


def lookup_verdict(frame: pd.DataFrame) -> list[str]:
    """A few sentences for each source and target: the best layer and way, what no map gives, baselines, coverage."""
    found = lookups(frame)
    sentences = [line for one in found[:MOST_PAIRS] for line in _sentences(one, several=len(found) > 1)]
    more = [f"{len(found) - MOST_PAIRS} more pairs are in the rows."] if len(found) > MOST_PAIRS else []
    return sentences + more + likeness_verdict(frame)


def lookup_facts(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The few numbers a reader takes away: of the pair that does best."""
    found = lookups(frame)
    if not found:
        return likeness_facts(frame)
    best = max((one.best for one in found), key=lambda one: float(one["value"]))
    facts = [("P@1", number(best["value"]), ""), ("by chance", number(best["floor"]), "")]
    if not pd.isna(best["layer"]):
        facts.insert(0, ("best layer", str(int(best["layer"])), ""))
    return facts


def flat_name(one: Record) -> str:
    """What a row without a layer is of."""
    kind = {"piece": "single-piece words", "word": "words"}.get(str(one["unit"]), str(one["unit"]))
    if str(one["model"]).startswith(STATIC):
        return f"{one['model']}, {kind}"
    return "embedding matrix" if one["unit"] == "piece" else str(one["unit"])


def _sentences(one: Lookup, *, several: bool) -> Iterator[str]:
    names = display_names([one.source, one.target])
    head = f"{names[one.source]} to {names[one.target]}: " if several else ""
    unit, best = TASKS[one.task], one.best
    where = f"at layer {int(best['layer'])}" if one.layered else f"in {flat_name(best)}"
    way = one.way(best)
    yield (
        f"{head}Most translations are found {where} with {way}: {_value(best)} of {int(best['n']):,} {unit}s have "
        f"theirs nearest of all by {_method(one.method)}, where chance gives {_small(best['floor'])}"
        f"{_ties(one, best)}."
    )
    others = [other for other in one.ways if other != way and one.curve(other)]
    if one.layered and others:
        tops = {other: max(one.curve(other), key=lambda row: float(row["value"])) for other in others}
        said = [f"{other} {_value(row)} at layer {int(row['layer'])}" for other, row in tops.items()]
        yield f"{head}The best layers of the other ways: {'; '.join(said)}."
    if one.beside:
        said = [f"{flat_name(row)} {_value(row)} with {one.way(row)} (n = {int(row['n']):,})" for row in one.beside]
        yield f"{head}Beside it, each with its best way: {'; '.join(said)}."
    yield from _relation(one, head)
    yield from _coverage(one, head)


def _ties(one: Lookup, best: Record) -> str:
    """Which layers cannot be told from the best one of the same way."""
    behind = [
        row
        for row in one.facts
        if row["measure"] == "p@1_behind" and row["variant"] == best["variant"] and not isnan(row["low"])
    ]
    same = sorted(int(row["layer"]) for row in behind if row["low"] <= 0)
    if len(behind) < 2 or len(same) < 2:
        return ""
    return f"; {name_layers(same)} cannot be told apart"


def _relation(one: Lookup, head: str) -> Iterator[str]:
    """Whether layers that are more alike let more be found, by the best way."""
    found = (row for row in one.facts if row["measure"] == "cka_retrieval" and row["variant"] == one.best["variant"])
    for row in found:
        yield (
            f"{head}Over {int(row['n'])} layers, CKA before any map and P@1 with {one.way(one.best)}, the mean of both "
            f"directions, have a correlation of {_value(row)}."
        )


def _coverage(one: Lookup, head: str) -> Iterator[str]:
    known = [row for row in one.facts if row["variant"] == "test" and not str(row["model"]).startswith(STATIC)]
    covered = next((row for row in known if row["measure"] == "coverage"), None)
    alike = next((row for row in known if row["measure"] == "identical"), None)
    if covered is None:
        return
    written = "" if alike is None else f"; {alike['value']:.0%} of these have a translation that is written alike"
    yield f"{head}{covered['value']:.0%} of the {int(covered['n']):,} words of the test are known{written}."


def _method(name: str) -> str:
    return {"csls": "CSLS"}.get(name, name)


def _value(one: Record) -> str:
    bounds = "" if isnan(one["low"]) else f" [{number(one['low'])}, {number(one['high'])}]"
    return f"{number(one['value'])}{bounds}"


def _small(value: float) -> str:
    return number(value) if value >= 0.0005 or value == 0 else f"{value:.1g}"
