"""The page of a drift run: the effect of fine-tuning on its language, on other languages, and on layers.

Intervals are over seeds if there are several, else over the text. Something is called a change only if its interval on
the same text, over seeds and text, excludes no change (`Curve.apart`).
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import isnan
from operator import itemgetter
from typing import Any

import pandas as pd

from isogloss.errors import InputError
from isogloss.measures.statistics import mean_over_seeds
from isogloss.report import curves, map_view, training_view
from isogloss.report.curves import HELD, TEST, Curve, Fact, RunFolder, View, language_name, listed, select
from isogloss.runs.table import OTHERS, START, training_name
from isogloss.training.plans import parse_plan


def view(run: RunFolder) -> View:
    """Sentences on perplexities by plan, crossing, balance, the test, layers and retrieval; and figures over steps."""
    tuned = select(run.by_step, measure="perplexity", data=HELD, unit="token")
    sentences = unfinished(run)
    sentences += [] if tuned else ["No perplexity was read yet, so nothing can be said of the tuning."]
    plans = list(dict.fromkeys(curve.training for curve in tuned))
    bys = {plan: f" by {plan}" if len(plans) > 1 else "" for plan in plans}
    for plan, by in bys.items():
        sentences += _perplexity(run, tuned[0].target, plan, by)
    sentences += _tests(run.trainings, bys)
    for plan, by in bys.items():
        # The layers that moved most and least, and those that did not move:
        layers = _by_layer(run, "l2_drift", plan, kind=f"to {START}")
        still = [layer for layer, curve in layers.items() if not curve.last.value > 0]
        ranked = sorted(layers.keys() - still, key=lambda layer: (-layers[layer].last.value, layer))
        if ranked:
            most, least = (layers[layer].reading(-1) for layer in (ranked[0], ranked[-1]))
            others = f", layer {ranked[-1]} least ({least})" if len(ranked) > 1 else ""
            others += f"; {curves.name_layers(still)} did not move" if still else ""
            sentences.append(f"Layer {ranked[0]} moved most{by} (L2 {most} from its start){others}.")
    natives = [name for name in dict.fromkeys(run.trained["other_model"]) if name not in ("", START)]
    for native in natives[:1]:  # similarity of the last layer to the native model's, by CKA: invariant to rotation
        ends = {plan: _by_layer(run, "cka", plan, kind=f"to {native}") for plan in plans}
        layer = max((layer for courses in ends.values() for layer in courses), default=-1)
        sentences += _listing(f"CKA of layer {layer} with the native model {native}", ends, layer, bys)
    # Change of retrieval at the layer that was best before fine-tuning:
    retrieval = {plan: _by_layer(run, "p@1_mean", plan, kind="centred") for plan in plans}
    for first in [courses for courses in retrieval.values() if courses][:1]:
        best = max(first, key=lambda layer: (first[layer].first.value, -layer))
        subject = f"Centred P@1 at layer {best}, the best at the start,"
        sentences += _listing(subject, retrieval, best, bys, among=len(first))
    figures = [*training_view.step_figures(run), *map_view.figures(run)]
    return View("training", sentences, facts(run), figures)


def facts(run: RunFolder) -> list[Fact]:
    """The key numbers."""
    read = select(run.by_step, measure="perplexity", unit="token")
    here = select(read, data=HELD)
    if not here:
        return []
    numbers: list[Fact] = [("steps", f"{int(run.trained['step'].max()):,}", "")]
    numbers += [("plans", str(len({curve.plan for curve in here})), "")]
    numbers += [("seeds", str(max(curve.seeds for curve in here)), "")]
    for name, side in ((language_name(here[0].target), here), ("other languages", select(read, target=OTHERS))):
        for curve in select(side, training=here[0].training)[:1]:
            change = f"{curves.digits(curve.first.value)} → {curves.digits(curve.last.value)}"
            numbers.append((f"perplexity of {name}", change, curve.training))
    return [*numbers, ("languages", str(len(run.languages)), "")]


def _perplexity(run: RunFolder, language: str, plan: str, by: str) -> list[str]:
    """Sentences on a plan's effect on the target and on the others, naming the one that changed most.

    Then on the steps where the two curves cross and where they balance best, per token and per character.
    """
    courses = select(run.by_step, measure="perplexity", unit="token", training=plan)
    here = select(courses, data=HELD)[0]
    per = "its perplexity per token"
    change = here.way(f"lowered {per}", f"did not clearly change {per}:", f"raised {per}")
    sentence = f"Tuning on {language_name(language)}{by} {change} {here.from_to()}{_changed(here)}"
    seeds = f" (means of {here.seeds} seeds)" if here.seeds > 1 else ""
    others = {curve.target: curve for curve in reversed(courses) if curve.target != language}  # the first of each
    pooled = others.pop(OTHERS, None)
    if pooled is None or not others:  # no other language was given, or the run stopped before the first reading
        return [f"{sentence}{seeds}."]
    whose = "the other languages, pooled," if len(others) > 1 else language_name(next(iter(others)))
    change = pooled.way("fell", "did not clearly change:", "rose")
    sentence += f"; that of {whose} {change} {pooled.from_to(steps=False)}{_changed(pooled)}"
    if len(others) > 1 and (turn := pooled.turn()):
        most = max(others, key=lambda code: turn * others[code].last.value / others[code].first.value)
        sentence += f" ({language_name(most)} most, {others[most].from_to(steps=False)})"
    sentences = [f"{sentence}{seeds}."]
    steps: dict[str, dict[str, str]] = {"crossing_step": {}, "balance_step": {}}
    rows = run.trainings[(run.trainings["training"] == plan) & run.trainings["measure"].isin(list(steps))]
    for row in rows.to_dict("records"):
        over = "" if isnan(row["low"]) else f" [{row['low']:,.0f}, {row['high']:,.0f}] ({row['n']} seeds)"
        steps[row["measure"]][row["unit"]] = f"step {row['value']:,.0f}{over}"
    crossed, balanced = steps.values()
    if balanced:  # every finished run has a balance step
        never = [f"per {unit}" for unit in ("token", "character") if unit not in crossed]
        parts = [f"cross at {' and '.join(f'{text} per {unit}' for unit, text in crossed.items())}"] if crossed else []
        parts += [f"do not cross{'' if len(never) == 2 else ' ' + never[0]}"] if never else []
        best = " and ".join(f"{text} per {unit}" for unit, text in balanced.items())
        ends = {f"step {step:,}": name for step, name in ((here.at[0], "the first"), (here.at[-1], "the last"))}
        at_end = {ends[text] for text in balanced.values() if text in ends}
        edge = f" ({' and '.join(sorted(at_end))} reading, so not necessarily an optimum)" if at_end else ""
        sentences.append(f"The two curves{by} {' and '.join(parts)}; gain and loss balance best at {best}{edge}.")
    return sentences


def _changed(curve: Curve) -> str:
    """The change from the first to the last reading on the same text, in brackets, if it is known."""
    changed = curve.changed()
    return changed and f" ({changed})"


def _tests(rows: pd.DataFrame, bys: Mapping[str, str]) -> Iterator[str]:
    """Test perplexity of each plan's best models, lowest first, against the model before, or a native one."""
    tests = rows[(rows["measure"] == "perplexity") & (rows["data"] == TEST)]
    models = list(dict.fromkeys(tests.loc[tests["training"].isin(bys), "model"]))
    if not models:
        return
    before, native = (tests[tests["step"].isna() & (tests["model"].isin(models) == same)] for same in (True, False))
    for unit, beside in (("token", before), ("character", native)):
        beside = beside[beside["unit"] == unit]
        if beside.empty:
            continue
        results = {plan: _test(tests[(tests["training"] == plan) & (tests["unit"] == unit)]) for plan in bys}
        said = listed([results[plan][1] + bys[plan] for plan in sorted(results, key=lambda plan: results[plan][0])])
        name = "before" if unit == "token" else f"of the native model {beside.iloc[0]['model']}"
        best = "best model has" if len(bys) == 1 else "best models have"
        yield f"On the test the {best} a perplexity per {unit} of {said}, against {_test(beside)[1]} {name}."


def _test(rows: pd.DataFrame) -> tuple[float, str]:
    """Mean test perplexity over seeds, with the interval over seeds or of the only seed; as a number and as text."""
    mean = mean_over_seeds(rows["value"].tolist(), scale="log")
    if len(rows) == 1:
        mean = replace(mean, low=rows["low"].iloc[0], high=rows["high"].iloc[0])
    return mean.value, mean.say(curves.digits)


def _by_layer(run: RunFolder, measure: str, plan: str, *, kind: str) -> dict[int, Curve]:
    chosen = select(run.by_step, measure=measure, training=plan, kind=kind)
    layers = {curve.layer: curve for curve in reversed(chosen) if curve.layer is not None}
    return dict(sorted(layers.items()))


def _listing(
    subject: str,
    courses: Mapping[str, Mapping[int, Curve]],
    layer: int,
    bys: Mapping[str, str],
    *,
    among: int = 1,
) -> list[str]:
    """A sentence on the end values of a layer's curves, one per plan, which have the same start.

    among: the number of layers of which this one was chosen by its value at the start.
    """
    ended = {plan: own[layer] for plan, own in courses.items() if layer in own}
    if not ended:
        return []
    ways = ("fell to", "is not clearly different at", "rose to")
    said = [f"{curve.way(*ways, among=among)} {curve.reading(-1)}{bys[plan]}" for plan, curve in ended.items()]
    return [f"{subject} began at {next(iter(ended.values())).reading(0)} and {listed(said)}."]


def unfinished(run: RunFolder) -> list[str]:
    """Sentences on the unfinished trainings of a drift run; none if all are finished.

    A training is finished when its best model was tested. An unfinished one is left out of means over seeds if its plan
    has finished ones (`RunFolder.trainings`).
    """
    if run.record.get("command") != "drift" or run.record.get("status", "finished") == "finished":
        return []
    perplexity = curves.with_trainings(run.trained[run.trained["measure"] == "perplexity"])
    tested = perplexity[perplexity["data"] == TEST]
    done = set(zip(tested["training"], tested["seed"], strict=True))
    begun: dict[Any, int] = perplexity.groupby(["training", "seed"], sort=False)["step"].max().to_dict()
    asked, planned = run.arguments, list(begun)
    with suppress(InputError, KeyError, TypeError, ValueError):  # all planned trainings, if the record is complete
        seeds = range(int(asked["seed"]), int(asked["seed"]) + int(asked["seeds"]))
        plans = [str(parse_plan(text.strip())) for text in str(asked["plans"]).split(",")]
        names = [training_name({"plan": plan, "condition": str(asked["condition"])}) for plan in plans]
        planned = [(name, seed) for name in names for seed in seeds]
    sentences = [f"This run is not finished: {len(done)} of {len(planned)} trainings are done."]
    for (plan, seed), step in begun.items():
        if (plan, seed) in done:
            continue
        beside = any(name == plan for name, _ in done)
        how = "and is left out of the means below" if beside else "and all that is known of this plan is from before"
        sentences.append(f"{plan}, seed {seed} was read at step {step:,} last {how}.")
    waiting = curves.grouped((training for training in planned if training not in begun), itemgetter(0))
    behind = [
        f"{plan} (seed{'s' * (len(own) > 1)} {listed([str(seed) for _, seed in own])})" for plan, own in waiting.items()
    ]
    sentences += [f"Not begun: {listed(behind)}."] if behind else []
    return [*sentences, "Crossing, balance and models that were not tuned are worked out when all are done."]
