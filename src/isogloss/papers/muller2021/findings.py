"""What Muller et al. (2021) found, judged on the rows of a reproduction: each task by itself, over seeds.

A seed's value is the mean over sources; a pair of layers is compared with the reference of the same seed. Scores are
shares of one, so 0.01 is a point. What counts as small, free and unchanged is the sheet's reading of the paper, in the
constants below.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from isogloss.figure import signed
from isogloss.papers.evidence import LEAST, Contrast, Finding, Seeds, above, all_of, below, no_interval, over
from isogloss.papers.muller2021.published import NAMES, PAIRS, PLANS, REFERENCE
from isogloss.papers.muller2021.reading import Results
from isogloss.runs.table import UNTUNED

SMALL = 0.03  # a loss in the source language: the largest recalled one is 2.7 points
FREE = 0.01  # within noise of the reference: the largest recalled loss of layers 9 to 12 is 0.4 points
SAME = 0.9  # CKA with the start of a part that hardly changes
LOWER, UPPER = range(1, 5), range(9, 13)
BOTTOM, MIDDLE, TOP = range(3), range(4, 9), range(11, 13)


def findings(rows: pd.DataFrame) -> list[Finding]:
    """Every finding, in the order of the paper's argument."""
    found = Results(rows)
    made: list[Callable[[Results], Finding]] = [
        _chance,
        _first_pair,
        _depth,
        _home,
        _upper,
        _unchanged,
        _middle,
        _relation,
    ]
    return [one(found) for one in made]


def _chance(found: Results) -> Finding:
    claim = "The task is carried across: the reference is above chance in every other language that the model knows."
    contrasts, seeds = list[Contrast](), 0
    for task in found.tasks:
        margins = {}
        for source in found.sources(task):
            for target in found.known(task, source):
                scores = found.scores(task, source, REFERENCE, target=target)
                floors = found.floors(task, source, target=target)
                if scores and set(scores) <= set(floors):
                    margins[source, target] = over({seed: scores[seed] - floors[seed] for seed in scores})
                    seeds = len(scores)
        if not margins:
            continue
        worst = min(margins, key=lambda pair: margins[pair].low if margins[pair].known else margins[pair].value)
        least = margins[worst]
        words = f"{NAMES[task]}: at least {least.say(signed)} points above it, from {worst[0]} to {worst[1]}"
        contrasts.append(Contrast(f"{words}, the least of {len(margins)}", above(least)))
    return _finding("above chance", claim, contrasts, seeds, "what chance gives is not in the rows")


def _first_pair(found: Results) -> Finding:
    claim = "On other languages, the loss is largest when layers 1 and 2 begin anew."

    def judge(changes: Mapping[str, Seeds]) -> Contrast:
        first, rest = PAIRS[0], PAIRS[1:]
        worst = min(rest, key=lambda plan: over(changes[plan]).value)
        apart = over({seed: value - changes[worst][seed] for seed, value in changes[first].items()})
        words = f"{_points(changes[first])} points with layers 1-2, {_points(changes[worst])} with {PLANS[worst]}, "
        return Contrast(f"{words}which is next; between them {apart.say(signed)}", below(apart))

    return _by_task(found, "first pair", claim, judge, home=False)


def _depth(found: Results) -> Finding:
    claim = "It falls with depth."

    def judge(changes: Mapping[str, Seeds]) -> Contrast:
        slopes = {
            seed: float(np.polyfit(range(len(PAIRS)), [changes[plan][seed] for plan in PAIRS], 1)[0])
            for seed in changes[PAIRS[0]]
        }
        course = ", ".join(signed(over(changes[plan]).value) for plan in PAIRS)
        slope = over(slopes)
        return Contrast(f"{course} points from the lowest pair up, {slope.say(signed)} a pair", above(slope))

    return _by_task(found, "depth", claim, judge, home=False)


def _home(found: Results) -> Finding:
    claim = "In the source language the loss is small, whichever pair begins anew."

    def judge(changes: Mapping[str, Seeds]) -> Contrast:
        losses = {plan: over(changes[plan]) for plan in PAIRS}
        worst = min(PAIRS, key=lambda plan: losses[plan].value)
        words = f"at worst {losses[worst].say(signed)} points, with {PLANS[worst]} (small: down to {signed(-SMALL)})"
        return Contrast(words, all_of(above(one, -SMALL) for one in losses.values()))

    return _by_task(found, "source", claim, judge, home=True)


def _upper(found: Results) -> Finding:
    claim = "Layers 9 to 12 can begin anew and other languages lose nothing beyond noise."

    def judge(changes: Mapping[str, Seeds]) -> Contrast:
        some = {plan: over(changes[plan]) for plan in PAIRS[-2:]}
        words = ", ".join(f"{one.say(signed)} points with {PLANS[plan]}" for plan, one in some.items())
        judged = [above(one, -FREE) for one in some.values()]
        return Contrast(f"{words} (free: above {signed(-FREE)})", all_of(judged))

    return _by_task(found, "upper layers", claim, judge, home=False)


def _unchanged(found: Results) -> Finding:
    claim = "Training leaves the lower part of the model as it is, and changes the upper part."
    contrasts, seeds = list[Contrast](), 0
    for task in found.tasks:
        alike = found.similarity(task, REFERENCE, which="start")
        if not set(LOWER) | set(UPPER) <= set(alike):
            continue
        low, high = _mean(alike, LOWER), _mean(alike, UPPER)
        apart = over({seed: value - high[seed] for seed, value in low.items()})
        lower, seeds = over(low), len(low)
        words = f"{NAMES[task]}: CKA with the start {lower.share} in layers 1 to 4, {over(high).share} in 9 to 12"
        judged = [above(lower, SAME), above(apart)]
        contrasts.append(Contrast(f"{words} (as it is: above {SAME})", all_of(judged)))
    return _finding("lower part", claim, contrasts, seeds, "no model was compared with its start")


def _middle(found: Results) -> Finding:
    claim = "Languages are most alike in the middle of the model, near layer 5."
    contrasts, seeds = list[Contrast](), 0
    for task in found.tasks:
        alike = found.similarity(task, REFERENCE, which="target")
        if not set(MIDDLE) | set(TOP) | set(BOTTOM) <= set(alike):
            continue
        middle, top, bottom = (_mean(alike, layers) for layers in (MIDDLE, TOP, BOTTOM))
        rise = over({seed: value - bottom[seed] for seed, value in middle.items()})
        fall = over({seed: value - top[seed] for seed, value in middle.items()})
        seeds = len(middle)
        words = (
            f"{NAMES[task]}: CKA of source and target {over(middle).share} in layers 4 to 8, above layers 0 to 2 by "
            f"{rise.share} and above 11 and 12 by {fall.share}; highest at layer {_peak(alike)}"
        )
        before = found.similarity(task, UNTUNED, which="target")
        words += f", before training at layer {_peak(before)}" if before else ""
        judged = [above(rise), above(fall)]
        contrasts.append(Contrast(words, all_of(judged)))
    return _finding("middle", claim, contrasts, seeds, "languages were not compared with the source")


def _relation(found: Results) -> Finding:
    claim = "Languages that are more like the source lose less: the gap falls with similarity."
    contrasts = list[Contrast]()
    for task in found.tasks:
        after, before = (found.relation(task, variant) for variant in (REFERENCE, UNTUNED))
        if after is None:
            continue
        words = f"{NAMES[task]}: rank correlation {after.share} over {after.seeds} targets"
        words += f", {before.share} with similarity before training" if before is not None else ""
        enough = len(found.scores(task, found.sources(task)[0], REFERENCE, target=found.sources(task)[0])) >= LEAST
        contrasts.append(Contrast(words, below(after) if enough else None))
    return _finding("gap and similarity", claim, contrasts, LEAST if contrasts else 0, "too few targets were compared")


def _by_task(
    found: Results, name: str, claim: str, judge: Callable[[Mapping[str, Seeds]], Contrast], *, home: bool
) -> Finding:
    """A contrast for each task whose reference and pairs have seeds in common."""
    contrasts, seeds = list[Contrast](), 0
    for task in found.tasks:
        changes = {plan: found.mean_change(task, plan, home=home) for plan in PAIRS}
        common = set.intersection(*(set(one) for one in changes.values()))
        if not common:
            continue
        seeds = len(common)
        one = judge({plan: {seed: some[seed] for seed in sorted(common)} for plan, some in changes.items()})
        contrasts.append(Contrast(f"{NAMES[task]}: {one.words}", one.judged))
    return _finding(name, claim, contrasts, seeds, "not all pairs and the reference were run")


def _finding(name: str, claim: str, contrasts: Sequence[Contrast], seeds: int, missing: str) -> Finding:
    if not contrasts:
        return Finding(name, claim, [], missing)
    return Finding(name, claim, contrasts, no_interval(seeds) if seeds < LEAST else "")


def _mean(alike: Mapping[int, Seeds], layers: range) -> Seeds:
    """The mean over layers, by seed."""
    return {seed: float(np.mean([alike[layer][seed] for layer in layers])) for seed in alike[layers[0]]}


def _peak(alike: Mapping[int, Seeds]) -> int:
    return max(alike, key=lambda layer: np.mean(list(alike[layer].values())))


def _points(changes: Seeds) -> str:
    return over(changes).say(signed)
