"""What became of the other languages: whether their perplexity changed, which way, and whether the curves cross.

The null hypothesis, that it stays as it was, is rejected by a rise and by a fall alike, so forgetting is judged apart,
as a rise: from step 0, and from the lowest point on. The lowest point of a curve is below its end by construction, and
a mean over seeds of such rises is above zero even where there is none. So the step is chosen for each seed by the mean
curve of the other seeds, and the rise from there is read in the seed that had no part in the choice.
"""

import numpy as np

from isogloss.figure import number
from isogloss.measures.perplexity import crossing
from isogloss.papers.evidence import LEAST, Contrast, Finding, Interval, Side, above, below, no_interval, over_seeds
from isogloss.papers.hussain2020.published import ALL, CROSSING, TABLE_1
from isogloss.papers.hussain2020.reading import Curves, Floats, Results

_FIRST, _LAST = TABLE_1[min(TABLE_1)][1][0], TABLE_1[max(TABLE_1)][1][0]


def unchanged(found: Results) -> Finding:
    """The null hypothesis, and which way it is rejected."""
    claim = "The null hypothesis, that tuning on one language leaves the others' perplexity as it was, is rejected."
    curves = found.perplexity(ALL, target="others")
    if curves is None:
        return missing("null", claim, f"no other languages were read under {ALL}")
    factor = over_seeds(curves.end / curves.start, log=True)
    judged = None if not factor.known else Side.HELD if above(factor, 1.0) or below(factor, 1.0) else Side.OPEN
    words = f"that of the others {way(factor)} {from_to(curves)}, a factor of {factor.share}"
    if below(factor, 1.0):
        words += ": rejected by a fall, where the paper sees a rise"
    return Finding("null", claim, [Contrast(words, judged)], no_interval_of(curves))


def forgotten(found: Results) -> Finding:
    """A rise of the others' perplexity: from step 0, and from the lowest point on."""
    claim = f"The others are forgotten: their perplexity rises (from {_FIRST} to {_LAST} at step {max(TABLE_1) - 1:,})."
    curves = found.perplexity(ALL, target="others")
    if curves is None:
        return missing("forgetting", claim, f"no other languages were read under {ALL}")
    whole = over_seeds(curves.end / curves.start, log=True)
    ratios, steps = since_lowest(curves)
    later = over_seeds(ratios, log=True)
    span = (
        f"step {steps.min():,.0f}" if steps.min() == steps.max() else f"steps {steps.min():,.0f} to {steps.max():,.0f}"
    )
    languages = [code for code in found.watched(ALL) if (one := found.perplexity(ALL, target=code)) and _rose(one)]
    single = f"it rose in {len(languages)} of {len(found.watched(ALL))} languages"
    single += f" ({', '.join(languages)})" if 0 < len(languages) < len(found.watched(ALL)) else ""
    first = f"from step 0 it {way(whole)} by a factor of {whole.share}"
    first += f", {single}" if whole.known and found.watched(ALL) else ""
    second = f"from its lowest point ({span}) to the end it {way(later)} by a factor of {later.share}"
    contrasts = [Contrast(first, above(whole, 1.0)), Contrast(second, above(later, 1.0))]
    return Finding("forgetting", claim, contrasts, no_interval_of(curves))


def since_lowest(curves: Curves) -> tuple[Floats, Floats]:
    """How far each seed rises from the lowest point of the others' mean to its end, and the steps of those points.

    Both (seeds,). A seed that is alone is read at its own lowest point. Curves that fall to the end give 1.
    """
    logs = np.log(curves.values)  # (seeds, n)
    seeds = len(logs)
    places = [
        int(np.argmin(np.delete(logs, seed, axis=0).mean(axis=0) if seeds > 1 else logs[0])) for seed in range(seeds)
    ]
    at = np.array(places)
    return curves.end / curves.values[np.arange(seeds), at], curves.steps[at]


def crossed(found: Results) -> Finding:
    """Where the curves of what is tuned on and of the others cross, from above to below; or how they lie instead."""
    claim = f"The two curves cross, at about step {CROSSING}: what is tuned on begins above the others and ends below."
    told, judged, why = list[str](), None, ""
    for unit in ("token", "character"):
        target = found.perplexity(ALL, target=found.language, unit=unit) if found.plans else None
        others = found.perplexity(ALL, target="others", unit=unit)
        if target is None or others is None:
            return missing("crossing", claim, f"there are no two curves under {ALL}")
        why = no_interval_of(target)
        words, all_cross = _crossing(target, others)
        told.append(f"per {unit} {words}")
        # The paper's claim is per token; per character it is said beside, and judges nothing.
        if unit == "token":
            judged = None if len(target.seeds) < LEAST else all_cross
    return Finding("crossing", claim, [Contrast("; ".join(told), judged)], why)


def _crossing(target: Curves, others: Curves) -> tuple[str, bool]:
    """What the two curves do, and whether they cross in every seed from above the others to below."""
    both = list(zip(target.values, others.values, strict=True))
    down = [crossing(target.steps, a, b) for a, b in both if a[0] > b[0] and a[-1] < b[-1]]
    up = sum(bool(a[0] < b[0] and a[-1] > b[-1]) for a, b in both)
    steps = [one for one in down if one is not None]
    first, last = (over_seeds(getattr(target, at) / getattr(others, at), log=True) for at in ("start", "end"))
    moved = over_seeds((target.end / others.end) / (target.start / others.start), log=True)
    lie = f"{_side(first)} ({_pair(target.start, others.start)})"
    end = f"{_side(last)} ({_pair(target.end, others.end)})"
    course = f"what is tuned on begins {lie} and ends {end}"
    if len(steps) == len(both):
        return f"they cross at step {over_seeds(steps).say(_step)}: {course}", True
    seen = f"they cross so in {len(steps)} of {len(both)} seeds" if steps else "they do not cross so in any seed"
    seen += f", the other way round in {up}" if up else ""
    return f"{seen}: {course}; its ratio to the others went from {first.share} to {last.share}, {_went(moved)}", False


def _side(ratio: Interval) -> str:
    return "above" if ratio.value > 1 else "below"


def _went(moved: Interval) -> str:
    clear = "clearly up, " if above(moved, 1.0) else "clearly down, " if below(moved, 1.0) else ""
    return f"{clear}by a factor of {moved.share}"


def _rose(curves: Curves) -> bool:
    return bool(above(over_seeds(curves.end / curves.start, log=True), 1.0))


def no_interval_of(curves: Curves) -> str:
    """The sentence on too few seeds, "" where there are enough."""
    return no_interval(len(curves.seeds)) if len(curves.seeds) < LEAST else ""


def way(factor: Interval) -> str:
    """How a perplexity went; without an interval, in which direction it points."""
    if not factor.known:
        return "went up" if factor.value > 1 else "went down" if factor.value < 1 else "stayed"
    return "rose" if above(factor, 1.0) else "fell" if below(factor, 1.0) else "did not clearly change:"


def from_to(curves: Curves) -> str:
    """Where curves begin and end, as geometric means over seeds."""
    return f"from {number(over_seeds(curves.start, log=True).value)} to {over_seeds(curves.end, log=True)}"


def missing(name: str, claim: str, why: str) -> Finding:
    """A finding that nothing was measured for."""
    return Finding(name, claim, [], why)


def _step(value: float) -> str:
    return f"{value:,.0f}"


def _pair(target: Floats, others: Floats) -> str:
    return " against ".join(number(over_seeds(one, log=True).value) for one in (target, others))
