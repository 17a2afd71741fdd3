"""The verdict of a transfer run in a few sentences: what is learned at home, what is left of it elsewhere, by plan."""

from math import isnan
from typing import Any

import pandas as pd

from isogloss.report.languages import display_names
from isogloss.report.phrases import listed, number

OTHERS, ORACLE = "others", " oracle"
MOST_PLANS = 14
MOST_LANGUAGES = 3
MOST_TIES = 3


def is_transfer(frame: pd.DataFrame) -> bool:
    """Whether these rows are of a task that was trained in one language and tested in others, by plan, not by layer."""
    lost = frame["measure"].eq("gap") & frame["task"].ne("") & frame["step"].isna()
    return bool((lost & frame["layer"].isna()).any())


def results(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are results: of the chosen models, means over seeds where there are several, without the oracle's.

    A column `main` says whether a row is of the score that languages are compared by.
    """
    rows = frame[frame["step"].isna() & frame["task"].ne("") & ~frame["variant"].str.endswith(ORACLE)]
    if rows["seed"].isna().any():
        means = set(rows[rows["seed"].isna()]["variant"])
        rows = rows[rows["seed"].isna() | ~rows["variant"].isin(means)]
    gaps = rows[rows["measure"] == "gap"]
    mains = set(zip(gaps["task"], gaps["unit"], strict=True))
    return rows.assign(main=[one in mains for one in zip(rows["task"], rows["measure"], strict=True)])


def experiments(rows: pd.DataFrame) -> dict[tuple[str, str, str], pd.DataFrame]:
    """Results by model, task and source language, in order of appearance."""
    places = list(zip(rows["model"], rows["task"], rows["source"], strict=True))
    return {place: rows[[one == place for one in places]] for place in dict.fromkeys(places)}


def transfer_facts(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The few numbers a reader takes away: of the plan under which the others score highest."""
    found = results(frame)
    main = found[found["main"]]
    means = main[main["target"] == OTHERS]
    if means.empty:
        return []
    best = means.iloc[int(means["value"].argmax())]
    same = (main["variant"] == best["variant"]) & (main["model"] == best["model"]) & (main["task"] == best["task"])
    home = main[same & (main["source"] == best["source"]) & (main["target"] == best["source"])]
    facts = [("best plan for the others", str(best["variant"]), "")] if means["variant"].nunique() > 1 else []
    facts += [("in the language trained in", number(home["value"].iloc[0]), "")] if len(home) else []
    facts.append(("in the others", number(best["value"]), ""))
    return facts if isnan(best["floor"]) else [*facts, ("by chance", number(best["floor"]), "")]


def transfer_verdict(frame: pd.DataFrame) -> list[str]:
    """A sentence for each model, task and plan, and which plan leaves the others most."""
    rows = [{str(name): value for name, value in one.items()} for one in results(frame).to_dict("records")]
    names = display_names([one for one in dict.fromkeys(row["target"] for row in rows) if one not in ("", OTHERS)])
    grouped: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in rows:
        grouped.setdefault((one["model"], one["task"], one["source"]), []).append(one)
    found = []
    for (model, task, source), some in grouped.items():
        head = f"{model}, {task} from {names.get(source, source)}: " if len(grouped) > 1 else ""
        plans = list(dict.fromkeys(one["variant"] for one in some if one["main"]))
        for plan in plans[:MOST_PLANS]:
            found.append(head + _sentence([one for one in some if one["variant"] == plan], source, names))
        if len(plans) > MOST_PLANS:
            found.append(f"{len(plans) - MOST_PLANS} more plans are in the rows.")
        means = [one for one in some if one["main"] and one["target"] == OTHERS]
        if len(means) > 1:
            best = max(means, key=lambda one: one["value"])
            found.append(f"{head}The others score highest under {best['variant']}: {_value(best)}{_ties(best, means)}.")
    return found


def _ties(best: dict[str, Any], means: list[dict[str, Any]]) -> str:
    """Which other plans reach into the interval of the best one, on the same data."""
    others = [one for one in means if one["variant"] != best["variant"] and one["data"] == best["data"]]
    same = [str(one["variant"]) for one in others if one["high"] >= best["low"]]
    if not same:
        return ""
    if len(same) > MOST_TIES:
        return f"; the intervals of {len(same)} more plans reach into that"
    return f"; the interval{'s' * (len(same) > 1)} of {listed(same)} reach{'es' * (len(same) == 1)} into that"


def _sentence(rows: list[dict[str, Any]], source: str, names: dict[str, str]) -> str:
    main = [one for one in rows if one["main"]]
    home = next(one for one in main if one["target"] == source)
    words = f"{home['variant']}: {home['measure']} {_value(home)} in {names.get(source, source)}"
    for mean in (one for one in main if one["target"] == OTHERS):
        gap = next(one for one in rows if one["measure"] == "gap" and one["target"] == OTHERS)
        chance = "" if isnan(mean["floor"]) else f", where chance gives {number(mean['floor'])}"
        words += f", {_value(mean)} in the others{chance}, a gap of {_value(gap)}"
    others = [one for one in main if one["target"] not in (source, OTHERS)]
    others.sort(key=lambda one: -one["value"])
    said = [f"{_set_name(one, others, names)} {number(one['value'])}" for one in others]
    if len(said) > 2 * MOST_LANGUAGES:
        said = [*said[:MOST_LANGUAGES], "...", *said[-MOST_LANGUAGES:]]
    return f"{words} ({', '.join(said)})." if len(said) > 1 else f"{words}."


def _set_name(one: dict[str, Any], others: list[dict[str, Any]], names: dict[str, str]) -> str:
    several = sum(other["target"] == one["target"] for other in others) > 1
    return names.get(one["target"], one["target"]) + (f" ({one['data']})" if several else "")


def _value(one: dict[str, Any]) -> str:
    interval = "" if isnan(one["low"]) else f" [{number(one['low'])}, {number(one['high'])}]"
    return f"{number(one['value'])}{interval}"
