"""The page of a drift run: what tuning on one language gained there, what it cost elsewhere, and which layers moved.

Intervals are over seeds where there are several, else over the text. Nothing is called a change unless the intervals of
the two readings part, over seeds and over the text: seeds that agree say nothing of other sentences. Trainings with
defects of the original code are told apart: what each defect does to the curves, in a sentence and in one figure.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isclose, isnan

import pandas as pd

from isogloss.errors import InputError
from isogloss.figure import Figure, Line, Panel
from isogloss.measures.statistics import mean_over_seeds
from isogloss.recipes.drift import drift
from isogloss.recipes.legacy import DEFECTS, LEGACY, legacy_condition, parse_legacy
from isogloss.report import map_view, training_view
from isogloss.report.curves import Curve, apart, average, curves, line_of
from isogloss.report.folder import OTHERS, RunFolder
from isogloss.report.style import DARK, file_name, language_name, printable
from isogloss.report.training_view import HELD, TEST, complete, with_trainings
from isogloss.report.verdict import Fact, between, digits, listed, name_layers, reading, records
from isogloss.runs.table import training_name
from isogloss.training.plans import parse_plan

START = "start"
SHIFT, STRAY = "legacy_shift", "legacy_stray"
LEAST_SHIFT = 0.005  # a change that is worth a word
SPOILT = "#D55E00"


@dataclass(frozen=True)
class Course:
    """One measure over the steps: with intervals over seeds, and with those over the text; the same for one seed."""

    curve: Curve
    text: Curve

    @property
    def turn(self) -> int:
        """-1 where it fell, 1 where it rose, 0 where its ends cannot be told apart."""
        if not (apart(self.curve, 0, -1) and apart(self.text, 0, -1)):
            return 0
        return 1 if self.curve.value[-1] > self.curve.value[0] else -1

    def say(self, index: int) -> str:
        """A value and its interval: that over the text where seeds agree, as they do before they begin."""
        agree = isclose(self.curve.low[index], self.curve.high[index], rel_tol=1e-9)
        return reading(self.text if agree else self.curve, index)

    def from_to(self, *, steps: bool = True) -> str:
        """Where it began and ended."""
        first, last = (f" at step {self.curve.at[at]:,}" if steps else "" for at in (0, -1))
        return f"from {self.say(0)}{first} to {self.say(-1)}{last}"

    def way(self, down: str, up: str) -> str:
        """Which of two words says how it went; "" where its ends cannot be told apart."""
        return {-1: down, 0: "", 1: up}[self.turn]


def _course(rows: pd.DataFrame) -> Course:
    seeds = [curves(group, along="step")[0] for _, group in rows.groupby("seed")]
    return Course(curves(rows, along="step")[0], average(seeds))


def _is_legacy(rows: pd.DataFrame) -> "pd.Series[bool]":
    return rows["condition"].str.startswith(LEGACY)


def verdict(run: RunFolder) -> list[str]:
    """Sentences on both perplexities by plan, crossing and balance, the test, layers, retrieval, and defects."""
    trainings = complete(with_trainings(run.rows))
    perplexity = trainings[(trainings["measure"] == "perplexity") & trainings["step"].notna()]
    tuned = perplexity[(perplexity["data"] == HELD) & (perplexity["unit"] == "token")]
    if tuned.empty:
        return [*unfinished(run), "No perplexity was read yet, so nothing can be said of the tuning."]
    language = str(tuned["target"].iloc[0])
    honest = tuned[~_is_legacy(tuned)]
    plans = [str(name) for name in (tuned if honest.empty else honest)["training"].unique()]
    sentences = unfinished(run)
    for plan in plans:
        by = f" by {plan}" if len(plans) > 1 else ""
        own = perplexity[(perplexity["training"] == plan) & (perplexity["unit"] == "token")]
        sentences.append(_perplexity(own, language, by))
        watched = bool((own["target"] == OTHERS).any())
        sentences += _turning_points(trainings[trainings["training"] == plan], by=by) if watched else []
    read = trainings[trainings["step"].notna()]
    sentences += [*_tests(trainings, plans), *_moved(read, plans), *_towards(read, plans), *_retrieval(read, plans)]
    return sentences + defect_sentences(run.rows)


def facts(run: RunFolder) -> list[Fact]:
    """The few numbers a reader takes away."""
    rows = run.trained[(run.trained["measure"] == "perplexity") & (run.trained["unit"] == "token")]
    trainings = complete(with_trainings(rows))
    tuned, others = trainings[trainings["data"] == HELD], trainings[trainings["target"] == OTHERS]
    if tuned.empty:
        return []
    defects = tuned.loc[_is_legacy(tuned), "condition"].nunique()
    numbers: list[Fact] = [
        ("steps", f"{int(run.trained['step'].max()):,}", ""),
        ("plans", f"{tuned['plan'].nunique()}", ""),
    ]
    numbers += [("defects", f"{defects}", "")] if defects else []
    numbers += [("seeds", f"{tuned['seed'].nunique()}", "")]
    first = str(tuned["training"].iloc[0])
    for name, side in ((language_name(str(tuned["target"].iloc[0])), tuned), ("other languages", others)):
        if not side.empty:
            curve = _course(side[side["training"] == first]).curve
            numbers.append((f"perplexity of {name}", f"{digits(curve.value[0])} → {digits(curve.value[-1])}", first))
    return [*numbers, ("languages", str(len(run.languages)), "")]


def figures(run: RunFolder) -> list[Figure]:
    """The charts over the steps, and what each defect does."""
    charts = training_view.step_figures(run, training_view.panels(run.trained))
    return [*charts, *defect_figures(run), *map_view.figures(run)]


def _perplexity(rows: pd.DataFrame, language: str, by: str) -> str:
    """What happened to the target, then to the others, of whom the one that changed most is named."""
    here = _course(rows[rows["data"] == HELD])
    verb = here.way("lowered its perplexity per token", "raised its perplexity per token")
    told = verb or "did not clearly change its perplexity per token:"
    sentence = f"Tuning on {language_name(language)}{by} {told} {here.from_to()}"
    seeds = f" (means of {here.curve.seeds} seeds)" if here.curve.seeds > 1 else ""
    others = rows[rows["target"] != language]
    if others.empty:
        return f"{sentence}{seeds}."
    pooled = _course(others[others["target"] == OTHERS])
    groups = others[others["target"] != OTHERS].groupby("target", sort=False)
    each = {str(code): _course(group) for code, group in groups}
    whose = "that of the other languages, pooled," if len(each) > 1 else f"that of {language_name(next(iter(each)))}"
    told = pooled.way("fell", "rose") or "did not clearly change:"
    sentence += f"; {whose} {told} {pooled.from_to(steps=False)}"
    if len(each) > 1 and pooled.turn:
        most = max(each, key=lambda code: pooled.turn * each[code].curve.value[-1] / each[code].curve.value[0])
        sentence += f" ({language_name(most)} most, {each[most].from_to(steps=False)})"
    return f"{sentence}{seeds}."


def _turning_points(rows: pd.DataFrame, *, by: str) -> list[str]:
    """Where the curves cross and where they balance best, per token and per character."""
    steps: dict[str, dict[str, str]] = {"crossing_step": {}, "balance_step": {}}
    for row in records(rows[rows["measure"].isin(list(steps))]):
        value, low, high = (f"{row[name]:,.0f}" for name in ("value", "low", "high"))
        over = "" if isnan(row["low"]) else f" [{low}, {high}] ({row['n']} seeds)"
        steps[row["measure"]][str(row["unit"])] = f"step {value}{over}"
    crossed, balanced = steps.values()
    if not balanced:  # every finished run has one
        return []
    never = [f"per {unit}" for unit in ("token", "character") if unit not in crossed]
    parts = [f"cross at {' and '.join(f'{text} per {unit}' for unit, text in crossed.items())}"] if crossed else []
    parts += [f"do not cross{'' if len(never) == 2 else ' ' + never[0]}"] if never else []
    best = " and ".join(f"{text} per {unit}" for unit, text in balanced.items())
    return [f"The two curves{by} {' and '.join(parts)}; gain and loss balance best at {best}."]


def _tests(rows: pd.DataFrame, plans: Sequence[str]) -> Iterator[str]:
    """The test of each plan's best models, the lowest first, beside the model before; a native one per character."""
    tests = rows[(rows["measure"] == "perplexity") & (rows["data"] == TEST)]
    models = list(dict.fromkeys(tests.loc[tests["training"].isin(plans), "model"]))
    if not models:
        return
    before, native = (tests[tests["step"].isna() & (tests["model"].isin(models) == same)] for same in (True, False))
    for unit, beside in (("token", before), ("character", native)):
        results = {plan: _test(tests[(tests["training"] == plan) & (tests["unit"] == unit)]) for plan in plans}
        beside = beside[beside["unit"] == unit]
        if beside.empty:
            continue
        ranked = sorted(results, key=lambda plan: results[plan][0])
        said = listed([f"{results[plan][1]}{f' by {plan}' if len(plans) > 1 else ''}" for plan in ranked])
        name = "before" if unit == "token" else f"of the native model {beside.iloc[0]['model']}"
        best = "best model has" if len(plans) == 1 else "best models have"
        yield f"On the test the {best} a perplexity per {unit} of {said}, against {_test(beside)[1]} {name}."


def _test(rows: pd.DataFrame) -> tuple[float, str]:
    """A test over seeds, or with the interval of one; as a number and in words."""
    mean = mean_over_seeds(rows["value"].tolist(), scale="log")
    low, high = (mean.low, mean.high) if len(rows) > 1 else (float(rows[name].iloc[0]) for name in ("low", "high"))
    return mean.value, between(mean.value, low, high, write=digits)


def _moved(rows: pd.DataFrame, plans: Sequence[str]) -> Iterator[str]:
    """Which layer is farthest from where it began, which nearest, and which never moved."""
    for plan in plans:
        layers = _by_layer(rows, "l2_drift", plan, kind=f"to {START}")
        moved = {layer: course for layer, course in layers.items() if course.curve.value[-1] > 0}
        if not moved:
            continue
        still = [layer for layer in layers if layer not in moved]
        ranked = sorted(moved, key=lambda layer: -moved[layer].curve.value[-1])
        by = f" by {plan}" if len(plans) > 1 else ""
        least = f", layer {ranked[-1]} least ({moved[ranked[-1]].say(-1)})" if len(ranked) > 1 else ""
        stood = f"; {name_layers(still)} did not move" if still else ""
        yield f"Layer {ranked[0]} moved most{by} (L2 {moved[ranked[0]].say(-1)} from its start){least}{stood}."


def _towards(rows: pd.DataFrame, plans: Sequence[str]) -> list[str]:
    """How alike the last layer and the native model's are, by CKA, which no rotation changes."""
    natives = [name for name in dict.fromkeys(rows["other_model"]) if name not in ("", START)]
    if not natives:
        return []
    ends = {plan: _by_layer(rows, "cka", plan, kind=f"to {natives[0]}") for plan in plans}
    layer = max((layer for courses in ends.values() for layer in courses), default=-1)
    ended = {plan: courses[layer] for plan, courses in ends.items() if layer in courses}
    return _listing(f"CKA of layer {layer} with the native model {natives[0]}", ended, plans)


def _retrieval(rows: pd.DataFrame, plans: Sequence[str]) -> list[str]:
    """What became of finding translations, at the layer that found most of them before."""
    each = {plan: _by_layer(rows, "p@1_mean", plan, kind="centred") for plan in plans}
    first = next((courses for courses in each.values() if courses), None)
    if first is None:
        return []
    best = max(first, key=lambda layer: (first[layer].curve.value[0], -layer))
    ended = {plan: courses[best] for plan, courses in each.items() if best in courses}
    return _listing(f"Centred P@1 at layer {best}, the best at the start,", ended, plans)


def _listing(subject: str, courses: Mapping[str, Course], plans: Sequence[str]) -> list[str]:
    """One sentence on where some curves ended that began together."""
    if not courses:
        return []
    said = []
    for plan, course in courses.items():
        how = course.way("fell to", "rose to") or "is not clearly different at"
        said.append(f"{how} {course.say(-1)}{f' by {plan}' if len(plans) > 1 else ''}")
    return [f"{subject} began at {next(iter(courses.values())).say(0)} and {listed(said)}."]


def _by_layer(rows: pd.DataFrame, measure: str, plan: str, *, kind: str) -> dict[int, Course]:
    chosen = rows[(rows["measure"] == measure) & (rows["training"] == plan) & (rows["kind"] == kind)]
    layers = sorted(int(layer) for layer in chosen["layer"].dropna().unique())
    return {layer: _course(chosen[chosen["layer"] == layer]) for layer in layers}


def unfinished(run: RunFolder) -> list[str]:
    """Sentences on the trainings of a drift run that are not done: none for one that is finished.

    A training is done when its best model was tested. One that was cut off is left out of means over seeds where its
    plan has others that are done (`training_view.complete`).
    """
    if run.record.get("command") != "drift" or run.record.get("status", "finished") == "finished":
        return []
    perplexity = with_trainings(run.trained[run.trained["measure"] == "perplexity"])
    tested = perplexity[perplexity["data"] == TEST]
    done = {(str(plan), int(seed)) for plan, seed in zip(tested["training"], tested["seed"], strict=True)}
    begun = {
        (plan, seed): int(group["step"].max())
        for (plan, seed), group in perplexity.groupby(["training", "seed"], sort=False)
    }
    planned = _planned(run) or [(str(plan), int(str(seed))) for plan, seed in begun]
    sentences = [f"This run is not finished: {len(done)} of {len(planned)} trainings are done."]
    for (plan, seed), step in begun.items():
        if (plan, seed) in done:
            continue
        beside = any(name == plan for name, _ in done)
        how = "and is left out of the means below" if beside else "and all that is known of this plan is from before"
        sentences.append(f"{plan}, seed {seed} was read at step {step:,} last {how}.")
    waiting: dict[str, list[str]] = {}
    for plan, seed in planned:
        if (plan, seed) not in begun:
            waiting.setdefault(plan, []).append(str(seed))
    names = [f"{plan} (seed{'s' * (len(seeds) > 1)} {listed(seeds)})" for plan, seeds in waiting.items()]
    sentences += [f"Not begun: {listed(names)}."] if names else []
    return [*sentences, "Crossing, balance and models that were not tuned are worked out when all are done."]


def _planned(run: RunFolder) -> list[tuple[str, int]]:
    """Every training that the run was asked for; nothing where its record does not say."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(drift).parameters.items()}
    asked = {**defaults, **run.arguments}
    try:
        first, count = int(asked["seed"]), int(asked["seeds"])
        plans = [parse_plan(text.strip()) for text in str(asked["plans"]).split(",")]
        sets = parse_legacy(asked["legacy"])
    except (InputError, TypeError, ValueError):
        return []
    names = [
        training_name({"plan": str(plan), "condition": legacy_condition(defects)}) for plan in plans for defects in sets
    ]
    return [(name, seed) for name in names for seed in range(first, first + count)]


def defect_sentences(rows: pd.DataFrame) -> list[str]:
    """A sentence for every training with defects that was compared with its plan without them.

    A shift counts where its interval over seeds leaves 0 out; of one seed, from half a per cent on.
    """
    effects = rows[rows["measure"].isin([SHIFT, STRAY])]
    several = effects["plan"].nunique() > 1
    sentences = []
    for (plan, condition), own in effects.groupby(["plan", "condition"], sort=False):
        defects = str(condition).removeprefix(LEGACY)
        words = "; ".join(DEFECTS[name] for name in defects.split(",") if name in DEFECTS)
        about = "all defects of the original together" if defects == "all" else f"{defects} ({words})"
        read = own[own["task"] == "perplexity"]
        tuned, others = read[read["data"] == HELD], read[read["target"] == OTHERS]
        name = "" if tuned.empty else language_name(str(tuned["target"].iloc[0]))
        parts = []
        for whose, side in ((name, tuned), ("the other languages", others)):
            said = [f"is {shift}" for shift in _shifts(side)[:1]]
            strays = side[(side["measure"] == STRAY) & (side["value"] >= LEAST_SHIFT)]["value"]
            said += [f"strays by {_percent(exp(value) - 1)}%" for value in strays]
            parts += [f"the perplexity of {whose} {' and '.join(said)}"] if said else []
        parts += [f"the model that is kept tests {said}" for said in _shifts(read[read["data"] == TEST])]
        moved = own[(own["task"] == "l2_drift") & (own["data"] == HELD)]
        for other, group in moved.groupby("other_model", sort=False):
            to = "the start" if other == START else str(other)
            parts += [f"the L2 distance to {to} is {said}" for said in _shifts(group)]
        by = f" by {plan}" if several else ""
        sentences.append(f"With {about}{by}, {listed(parts) if parts else 'nothing clearly changes'}.")
    return sentences


def _shifts(rows: pd.DataFrame) -> list[str]:
    shifts = []
    for row in records(rows[rows["measure"] == SHIFT]):
        value, low, high = (float(row[name]) for name in ("value", "low", "high"))
        alone = isnan(low)
        if not (abs(value) >= LEAST_SHIFT if alone else low > 0 or high < 0):
            continue
        ends = sorted((abs(exp(low) - 1), abs(exp(high) - 1))) if not alone else []
        interval = f" [{_percent(ends[0])}, {_percent(ends[1])}]" if ends else ""
        shifts.append(f"{_percent(abs(exp(value) - 1))}%{interval} {'higher' if value > 0 else 'lower'}")
    return shifts


def _percent(share: float) -> str:
    return f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:,.0f}"


def defect_figures(run: RunFolder) -> list[Figure]:
    """`legacy`, a row of panels for each defect, from `isogloss drift --legacy each`; `legacy-PLAN` of several plans.

    Perplexity of what is tuned on, with a dot where the model that is kept was tested; of the other languages; and the
    L2 distance of every layer at the last step. Columns share their axes, so that rows can be compared.
    """
    rows = run.trained[run.trained["measure"].isin(["perplexity", "l2_drift"])]
    trainings = complete(with_trainings(rows))
    spoilt = trainings[_is_legacy(trainings)]
    plans = [plan for plan in spoilt["plan"].unique() if ((trainings["plan"] == plan) & ~_is_legacy(trainings)).any()]
    others = [str(name) for name in trainings["other_model"].unique() if name not in ("", START)]
    to = others[0] if others else START
    drawings = []
    for plan in plans:
        own = trainings[trainings["plan"] == plan]
        honest = _defect_lines(own[~_is_legacy(own)], to, "as it should be", DARK, 0)
        panels = []
        for condition, group in own[_is_legacy(own)].groupby("condition", sort=False):
            name = str(condition).removeprefix(LEGACY)
            words = "all of them together" if name == "all" else DEFECTS.get(name, "")
            for title, lines in _defect_lines(group, to, "with the defect", SPOILT, 1).items():
                if title in honest:
                    by_layer = title.startswith("L2")
                    head = f"{name}: {words}\n{title}" if not by_layer and "other" not in title else title
                    both = [*honest[title], *lines]
                    panels.append(Panel(head, both, log=not by_layer, xlabel="layer" if by_layer else "step"))
        seeds = own["seed"].nunique()
        bands = f"Means and intervals over {seeds} seeds." if seeds > 1 else "Bands: intervals over the text."
        drawings.append(
            Figure(
                "legacy" if len(plans) == 1 else f"legacy-{file_name(str(plan))}",
                "What each defect of the original code does",
                f"{printable(run.model)}. Plan {plan}. {bands} Dots: tests of the model that is kept.",
                panels,
                section="training",
                columns=len(honest),
                shared=True,
                page_only=False,
            )
        )
    return drawings


def _defect_lines(rows: pd.DataFrame, to: str, label: str, ink: str, dash: int) -> dict[str, list[Line]]:
    """What is drawn of one training, by the title of the panel."""
    read = rows[(rows["measure"] == "perplexity") & (rows["unit"] == "token")]
    tuned, others, tests = read[read["data"] == HELD], read[read["target"] == OTHERS], read[read["data"] == TEST]
    language = language_name(str(tuned["target"].iloc[0]))
    panels = {}
    for name, side in ((language, tuned), ("other languages", others)):
        if not side.empty:
            curve = curves(side, along="step")[0]
            panels[f"perplexity per token, {name}"] = [line_of(curve, label, colour=ink, dash=dash)]
    steps, values = (tuple(float(value) for value in tests[name]) for name in ("step", "value"))
    dots = Line("test of the model that is kept", steps, values, dots=True, colour=ink)
    panels[f"perplexity per token, {language}"] += [dots] if steps else []
    moved = rows[(rows["measure"] == "l2_drift") & (rows["other_model"] == to) & (rows["data"] == HELD)]
    moved = moved[moved["method"] != "attention"]
    layers = {int(str(layer)): curves(group, along="step")[0] for layer, group in moved.groupby("layer")}
    if layers:
        value, low, high = (tuple(getattr(c, n)[-1] for c in layers.values()) for n in ("value", "low", "high"))
        line = Line(label, tuple(layers), value, low, high, colour=ink, dash=dash)
        panels[f"L2 to {'the start' if to == START else printable(to)}, by layer"] = [line]
    return panels
