"""The verdict of a drift run: what tuning on one language gained there, what it cost elsewhere, and which layers moved.

Intervals are over seeds where there are several, else over the text. Nothing is called a change unless the intervals of
the two readings part, over seeds and over the text: seeds that agree say nothing of other sentences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isnan

import pandas as pd

from isogloss.measures.statistics import band
from isogloss.recipes.legacy import plan_and_defects
from isogloss.report.defectverdict import defect_sentences
from isogloss.report.languages import language_name
from isogloss.report.phrases import listed, name_layers
from isogloss.report.plans import HELD, OTHERS, TEST, complete, with_places
from isogloss.report.stepcurves import StepCurve, apart, average, step_curves
from isogloss.report.stepverdict import digits
from isogloss.report.stepverdict import reading as with_interval

START = "start"


@dataclass(frozen=True)
class Course:
    """One measure over the steps: with intervals over seeds, and with those over the text; the same for one seed."""

    curve: StepCurve
    text: StepCurve

    @property
    def turn(self) -> int:
        """-1 where it fell, 1 where it rose, 0 where its ends cannot be told apart."""
        if not (apart(self.curve, 0, -1) and apart(self.text, 0, -1)):
            return 0
        return 1 if self.end > self.curve.value[0] else -1

    @property
    def end(self) -> float:
        """The last value."""
        return self.curve.value[-1]

    @property
    def factor(self) -> float:
        """How many times the first value the last one is."""
        return self.end / self.curve.value[0]

    def say(self, place: int) -> str:
        """A value and its interval: that over the text where seeds agree, as they do before they begin."""
        alike = isclose(self.curve.low[place], self.curve.high[place], rel_tol=1e-9)
        return with_interval(self.text if alike else self.curve, place)

    def from_to(self, *, steps: bool = True) -> str:
        """Where it began and ended."""
        first, last = (f" at step {self.curve.steps[at]:,}" if steps else "" for at in (0, -1))
        return f"from {self.say(0)}{first} to {self.say(-1)}{last}"


def drift_verdict(rows: pd.DataFrame) -> list[str]:
    """Sentences on a drift run: both perplexities by plan, crossing and balance, the test, layers, retrieval."""
    placed = complete(with_places(rows))
    read = placed[(placed["measure"] == "perplexity") & placed["step"].notna()]
    tuned = read[(read["data"] == HELD) & (read["unit"] == "token")]
    language, variants = str(tuned["target"].iloc[0]), list(dict.fromkeys(tuned["plan"]))
    plans = [one for one in variants if not plan_and_defects(one)[1]] or variants
    sentences = []
    for plan in plans:
        by = f" by {plan}" if len(plans) > 1 else ""
        own = read[(read["plan"] == plan) & (read["unit"] == "token")]
        sentences.append(_perplexity(own, language, by))
        sentences += _turning_points(placed[placed["plan"] == plan], watched=(own["target"] == OTHERS).any(), by=by)
    ended = placed[placed["step"].notna()]
    sentences += _tests(placed, plans) + _moved(ended, plans) + _towards(ended, plans) + _retrieval(ended, plans)
    return sentences + defect_sentences(rows)


def drift_facts(rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    """The few numbers a reader takes away: label, value, what stands small behind it."""
    read = rows[rows["step"].notna() & (rows["measure"] == "perplexity") & (rows["unit"] == "token")]
    placed = complete(with_places(read))
    tuned, others = placed[placed["data"] == HELD], placed[placed["target"] == OTHERS]
    facts = [("steps", f"{int(rows['step'].max()):,}", "")]
    apart = [plan_and_defects(str(one)) for one in tuned["plan"].unique()]
    facts += [("plans", f"{len({plan for plan, _ in apart})}", "")]
    facts += (
        [("defects", f"{len({defects for _, defects in apart} - {''})}", "")] if any(one[1] for one in apart) else []
    )
    facts += [("seeds", f"{tuned['seed'].nunique()}", "")]
    first = str(tuned["plan"].iloc[0])
    sides = ((language_name(str(tuned["target"].iloc[0])), tuned), ("other languages", others))
    for name, side in sides:
        if not side.empty:
            curve = _course(side[side["plan"] == first]).curve
            facts.append((f"perplexity of {name}", f"{digits(curve.value[0])} → {digits(curve.value[-1])}", first))
    return facts


def _perplexity(rows: pd.DataFrame, language: str, by: str) -> str:
    """What happened to the target, then to the others, of whom the one that changed most is named."""
    here = _course(rows[rows["data"] == HELD])
    verb = _way(here, "lowered its perplexity per token", "raised its perplexity per token")
    told = verb or "did not clearly change its perplexity per token:"
    sentence = f"Tuning on {language_name(language)}{by} {told} {here.from_to()}"
    seeds = f" (means of {here.curve.seeds} seeds)" if here.curve.seeds > 1 else ""
    others = rows[rows["target"] != language]
    if others.empty:
        return f"{sentence}{seeds}."
    there = _course(others[others["target"] == OTHERS])
    groups = others[others["target"] != OTHERS].groupby("target", sort=False)
    each = {str(code): _course(group) for code, group in groups}
    pooled = "that of the other languages, pooled," if len(each) > 1 else f"that of {language_name(next(iter(each)))}"
    told = _way(there, "fell", "rose") or "did not clearly change:"
    sentence += f"; {pooled} {told} {there.from_to(steps=False)}"
    if len(each) > 1 and there.turn:
        most = max(each, key=lambda code: there.turn * each[code].factor)
        sentence += f" ({language_name(most)} most, {each[most].from_to(steps=False)})"
    return f"{sentence}{seeds}."


def _turning_points(rows: pd.DataFrame, *, watched: bool, by: str) -> list[str]:
    """Where the curves cross and where they balance best, per token and per character."""
    if not watched:
        return []
    said = {measure: _steps(rows[rows["measure"] == measure]) for measure in ("crossing_step", "balance_step")}
    if not said["balance_step"]:  # every finished run has one
        return []
    crossed = {unit: text for unit, text in said["crossing_step"].items() if text}
    never = [f"per {unit}" for unit in ("token", "character") if unit not in crossed]
    parts = [f"cross at {' and '.join(f'{text} per {unit}' for unit, text in crossed.items())}"] if crossed else []
    parts += [f"do not cross{'' if len(never) == 2 else ' ' + never[0]}"] if never else []
    sentence = f"The two curves{by} {' and '.join(parts)}"
    balanced = " and ".join(f"{text} per {unit}" for unit, text in said["balance_step"].items())
    return [f"{sentence}; gain and loss balance best at {balanced}."]


def _steps(rows: pd.DataFrame) -> dict[str, str]:
    found = {}
    for one in rows.to_dict("records"):
        seeds = "" if isnan(one["low"]) else f" [{_step(one['low'])}, {_step(one['high'])}] ({one['n']} seeds)"
        found[str(one["unit"])] = f"step {_step(one['value'])}{seeds}"
    return found


def _step(value: float) -> str:
    return f"{value:,.0f}"


def _tests(rows: pd.DataFrame, plans: Sequence[str]) -> list[str]:
    """The test of each plan's best models, the lowest first, beside the model before; a native one per character."""
    tests = rows[(rows["measure"] == "perplexity") & (rows["data"] == TEST)]
    models = list(dict.fromkeys(tests.loc[tests["plan"].isin(plans), "model"]))
    if not models:
        return []
    before, native = (tests[tests["step"].isna() & (tests["model"].isin(models) == same)] for same in (True, False))
    sentences = []
    for unit, beside in (("token", before), ("character", native)):
        found = {plan: _test(tests[(tests["plan"] == plan) & (tests["unit"] == unit)]) for plan in plans}
        beside = beside[beside["unit"] == unit]
        if beside.empty:
            continue
        other, value = beside.iloc[0], _test(beside)
        ranked = sorted(found, key=lambda plan: found[plan][0])
        said = listed([f"{found[plan][1]}{f' by {plan}' if len(plans) > 1 else ''}" for plan in ranked])
        name = "before" if unit == "token" else f"of the native model {other['model']}"
        best = "best model has" if len(plans) == 1 else "best models have"
        sentences.append(f"On the test the {best} a perplexity per {unit} of {said}, against {value[1]} {name}.")
    return sentences


def _test(rows: pd.DataFrame) -> tuple[float, str]:
    """A test over seeds, or with the interval of one; as a number and in words."""
    if len(rows) == 1:
        value, low, high = (float(rows[name].iloc[0]) for name in ("value", "low", "high"))
    else:
        found = band(rows["value"].to_numpy(dtype="float64")[:, None], scale="log")
        value, low, high = (float(one[0]) for one in (found.mean, found.low, found.high))
    return value, digits(value) + ("" if isnan(low) else f" [{digits(low)}, {digits(high)}]")


def _moved(rows: pd.DataFrame, plans: Sequence[str]) -> list[str]:
    """Which layer is farthest from where it began, which nearest, and which never moved."""
    sentences = []
    for plan in plans:
        layers = _by_layer(rows, "l2_drift", plan, place=f"to {START}")
        moved = {layer: curve for layer, curve in layers.items() if curve.end > 0}
        if not moved:
            continue
        still = [layer for layer in layers if layer not in moved]
        ranked = sorted(moved, key=lambda layer: -moved[layer].end)
        by = f" by {plan}" if len(plans) > 1 else ""
        top = f"Layer {ranked[0]} moved most{by} (L2 {moved[ranked[0]].say(-1)} from its start)"
        least = f", layer {ranked[-1]} least ({moved[ranked[-1]].say(-1)})" if len(ranked) > 1 else ""
        stood = f"; {name_layers(still)} did not move" if still else ""
        sentences.append(f"{top}{least}{stood}.")
    return sentences


def _towards(rows: pd.DataFrame, plans: Sequence[str]) -> list[str]:
    """How alike the last layer and the native model's are, by CKA, which no rotation changes."""
    natives = [one for one in dict.fromkeys(rows["other_model"]) if one not in ("", START)]
    if not natives:
        return []
    ends = {plan: _by_layer(rows, "cka", plan, place=f"to {natives[0]}") for plan in plans}
    layer = max((layer for found in ends.values() for layer in found), default=-1)
    curves = {plan: found[layer] for plan, found in ends.items() if layer in found}
    return _listing(f"CKA of layer {layer} with the native model {natives[0]}", curves, plans)


def _retrieval(rows: pd.DataFrame, plans: Sequence[str]) -> list[str]:
    """What became of finding translations, at the layer that found most of them before."""
    found = {plan: _by_layer(rows, "p@1_mean", plan, place="centred") for plan in plans}
    first = next((layers for layers in found.values() if layers), None)
    if first is None:
        return []
    best = max(first, key=lambda layer: (first[layer].curve.value[0], -layer))
    curves = {plan: layers[best] for plan, layers in found.items() if best in layers}
    return _listing(f"Centred P@1 at layer {best}, the best at the start,", curves, plans)


def _listing(subject: str, curves: Mapping[str, Course], plans: Sequence[str]) -> list[str]:
    """One sentence on where some curves ended that began together."""
    if not curves:
        return []
    said = []
    for plan, curve in curves.items():
        how = _way(curve, "fell to", "rose to") or "is not clearly different at"
        said.append(f"{how} {curve.say(-1)}{f' by {plan}' if len(plans) > 1 else ''}")
    start = next(iter(curves.values())).say(0)
    return [f"{subject} began at {start} and {listed(said)}."]


def _by_layer(rows: pd.DataFrame, measure: str, plan: str, *, place: str) -> dict[int, Course]:
    chosen = rows[(rows["measure"] == measure) & (rows["plan"] == plan) & (rows["place"] == place)]
    layers = sorted(int(layer) for layer in chosen["layer"].dropna().unique())
    return {layer: _course(chosen[chosen["layer"] == layer]) for layer in layers}


def _course(rows: pd.DataFrame) -> Course:
    measure = str(rows["measure"].iloc[0])
    seeds = [step_curves(group, measure)[0][1] for _, group in rows.groupby("seed")]
    return Course(step_curves(rows, measure)[0][1], average(seeds))


def _way(course: Course, down: str, up: str) -> str:
    """Which of two words says how a curve went; "" where its ends cannot be told apart."""
    return {-1: down, 0: "", 1: up}[course.turn]
