"""What Hussain & Dudev (2020) found, judged on the rows of a reproduction.

Perplexities are compared as ratios, in logarithms; plans are compared seed by seed, since a seed draws the same order
of sentences and the same masks for each. Per token where both sides have the same vocabulary, else per character. A
curve has settled after a step when what it still moves after it is at most a quarter (`REST`) of all it ever moves, or
1% (`LITTLE`) of its level; it is away from zero when half (`AWAY`) of what it began with is left.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from isogloss.figure import number
from isogloss.papers.evidence import (
    Contrast,
    Finding,
    Interval,
    Side,
    above,
    all_of,
    below,
    no_interval,
    over_seeds,
)  # fmt: skip
from isogloss.papers.hussain2020.forgetting import crossed, forgotten, from_to, missing, no_interval_of, unchanged, way
from isogloss.papers.hussain2020.published import ALL, GRADUAL, LAST_1, LAST_3, LAST_6, PLANS, TABLE_2
from isogloss.papers.hussain2020.reading import Curves, Floats, Results

REST, LITTLE, AWAY = 0.25, 0.01, 0.5


def findings(rows: pd.DataFrame) -> list[Finding]:
    """Every finding of the paper, in its order."""
    found = Results(rows)
    made: list[Callable[[Results], Finding]] = [
        unchanged, forgotten, _falls, crossed, _all_best, _gradual_second, _rest_in_order, _native, _settles, _levels,
        _last_layer,
    ]  # fmt: skip
    return [one(found) for one in made]


def _falls(found: Results) -> Finding:
    claim = "The perplexity of the language that is tuned on falls."
    curves = found.perplexity(ALL, target=found.language) if found.plans else None
    if curves is None:
        return missing("falls", claim, f"{ALL} was not run")
    factor = over_seeds(curves.end / curves.start, log=True)
    words = f"it {way(factor)} {from_to(curves)}, a factor of {factor.share}"
    return Finding("falls", claim, [Contrast(words, below(factor, 1.0))], no_interval_of(curves))


def _all_best(found: Results) -> Finding:
    claim = "Training all layers gives the lowest test perplexity."
    return _order(found, "all layers best", claim, [(ALL, other) for other in PLANS if other != ALL])


def _gradual_second(found: Results) -> Finding:
    claim = "Gradual unfreezing comes second."
    pairs = [(ALL, GRADUAL), *((GRADUAL, other) for other in (LAST_6, LAST_3, LAST_1))]
    return _order(found, "gradual second", claim, pairs)


def _rest_in_order(found: Results) -> Finding:
    claim = "Then follow the last 6 layers, the last 3 and the last one."
    return _order(found, "then last 6, 3, 1", claim, [(LAST_6, LAST_3), (LAST_3, LAST_1)])


def _order(found: Results, name: str, claim: str, pairs: Sequence[tuple[str, str]]) -> Finding:
    """The first plan of each pair should have the lower test perplexity, seed by seed."""
    tests = {plan: found.test(plan) for plan in PLANS}
    contrasts, why = list[Contrast](), ""
    for lower, higher in pairs:
        both = [seed for seed in tests[lower] if seed in tests[higher]]
        if not both:
            return missing(name, claim, f"{PLANS[lower]} and {PLANS[higher]} have no seed in common")
        ratio = over_seeds([tests[higher][seed] / tests[lower][seed] for seed in both], log=True)
        why = no_interval(ratio.seeds) if not ratio.known else why
        told = "" if contrasts else "test perplexities as ratios, "
        contrasts.append(Contrast(f"{told}{PLANS[higher]} over {PLANS[lower]} {ratio.share}", above(ratio, 1.0)))
    return Finding(name, claim, contrasts, why)


def _native(found: Results) -> Finding:
    values = [value for plan, (value, _) in TABLE_2.items() if plan in PLANS]
    claim = (
        f"The native model, not tuned, is worse on the test than every tuned model ({TABLE_2['untuned'][0]} against "
        f"{min(values)} to {max(values)} per token)."
    )
    own = found.untuned(found.native, unit="character") if found.native else None
    tests = {plan: found.test(plan, unit="character") for plan in found.plans}
    tests = {plan: seeds for plan, seeds in tests.items() if seeds}
    if own is None or not tests:
        return missing("native", claim, "no native model was measured")
    contrasts, why = list[Contrast](), ""
    for plan, seeds in tests.items():
        ratio = over_seeds([own / value for value in seeds.values()], log=True)
        why = no_interval(ratio.seeds) if not ratio.known else why
        told = "" if contrasts else f"per character, where vocabularies do not matter, it has {number(own)}; that over "
        contrasts.append(Contrast(f"{told}{PLANS[plan]} {ratio.share}", above(ratio, 1.0)))
    return Finding("native", claim, contrasts, why)


def _settles(found: Results) -> Finding:
    claim = "The distance of every block to the native model settles, away from zero."
    curves = _by_block(found, ALL)
    if not curves:
        return missing("settles", claim, f"no distances to a native model were measured under {ALL}")
    late = 2 * found.epoch(ALL)
    rest = {block: _rest(one, late) for block, one in curves.items()}
    moved = {block: _share(_range(one, late) / one.end) for block, one in curves.items()}
    still = {block: _either(below(rest[block], REST), below(moved[block], LITTLE)) for block in curves}
    left = {block: over_seeds(one.end / one.start, log=True) for block, one in curves.items()}
    most, least = max(rest, key=lambda block: rest[block].value), min(left, key=lambda block: left[block].value)
    moving = [block for block, settled in still.items() if settled is not None and not settled]
    told = f"blocks {', '.join(map(str, moving))} do not clearly settle; " if moving else ""
    settled = (
        f"{told}in the last epoch block {most} makes {rest[most].share} of all its movement, the largest share, which "
        f"is {moved[most].share} of its distance (settled: up to {REST}, or {LITTLE})"
    )
    near = f"of the distance at first, {left[least].share} is left where it shrank most (block {least}; away: {AWAY})"
    parts = [(settled, list(still.values())), (near, [above(one, AWAY) for one in left.values()])]
    contrasts = [Contrast(words, all_of(judged)) for words, judged in parts]
    return Finding("settles", claim, contrasts, no_interval_of(curves[most]))


def _levels(found: Results) -> Finding:
    claim = "It settles at different levels for different blocks."
    curves = _by_block(found, ALL)
    if not curves:
        return missing("levels", claim, f"no distances to a native model were measured under {ALL}")
    ends = {block: over_seeds(one.end) for block, one in curves.items()}
    high, low = max(ends, key=lambda block: ends[block].value), min(ends, key=lambda block: ends[block].value)
    judged = above(ends[high], ends[low].high) if ends[low].known else None
    words = f"from {ends[low]} in block {low} to {ends[high]} in block {high}"
    return Finding("levels", claim, [Contrast(words, judged)], no_interval_of(curves[low]))


def _last_layer(found: Results) -> Finding:
    claim = "When only the last layer is trained, it settles within the first epoch."
    curves = _by_block(found, LAST_1)
    if not curves:
        return missing("last layer", claim, f"no distances to a native model were measured under {LAST_1}")
    top = max(curves)
    rest = _rest(curves[top], found.epoch(LAST_1))
    words = (
        f"{rest.share} of all the movement of block {top} comes after the first epoch (at most {REST} would be settled)"
    )
    return Finding("last layer", claim, [Contrast(words, below(rest, REST))], no_interval_of(curves[top]))


def _by_block(found: Results, plan: str) -> Mapping[int, Curves]:
    curves = {block: found.distance(plan, block) for block in found.blocks(plan)}
    return {block: one for block, one in curves.items() if one is not None}


def _rest(curves: Curves, step: float) -> Interval:
    """The share of a curve's whole range that it still moves from a step on; 0 for one that never moves."""
    whole = np.ptp(curves.values, axis=1)
    return _share(np.divide(_range(curves, step), whole, out=np.zeros_like(whole), where=whole > 0))


def _share(values: Floats) -> Interval:
    """A share over seeds, whose interval does not go below 0."""
    found = over_seeds(values)
    return Interval(found.value, max(found.low, 0.0) if found.known else found.low, found.high, found.seeds)


def _range(curves: Curves, step: float) -> Floats:
    """How far each seed's curve still moves from a step on (seeds,)."""
    later = curves.values[:, curves.steps >= step]
    return np.ptp(later, axis=1) if later.shape[1] else np.zeros(len(curves.values))


def _either(one: Side | None, other: Side | None) -> Side | None:
    """The better of two judgements."""
    return next((side for side in (Side.HELD, Side.OPEN, Side.REFUTED) if side in (one, other)), None)
