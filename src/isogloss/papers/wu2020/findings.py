"""What the paper found, judged on the rows of a reproduction.

Intervals are over whatever there are several of: pairs of languages for what is said of languages, seeds of task heads
for transfer, sentences or words for what is looked up.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from isogloss.measures.statistics import correlation
from isogloss.papers.evidence import LEAST, Contrast, Finding, Interval, above, below, over
from isogloss.papers.wu2020 import taskfindings as tasks
from isogloss.papers.wu2020.judging import finding_of, pairs_told, too_few
from isogloss.papers.wu2020.published import BILINGUAL, FIGURE_7_MEANS, KINDS, MONOLINGUAL, PEARSON
from isogloss.papers.wu2020.reading import DISTANCE, Results, averaged, mean_over, over_share, slope
from isogloss.papers.wu2020.taskfindings import LOWER, UPPER

FAR = 10  # times chance


def findings(rows: pd.DataFrame) -> list[Finding]:
    """Every finding, in the order of the figures: 7, 6, 5, 4, then Table 1."""
    found = Results(rows)
    made: list[Callable[[Results], Finding]] = [
        _order, _depth, _distance, _far, _lower, _relation, tasks.middle, tasks.below_bilingual,
        tasks.mapped_bilingual, tasks.higher, tasks.static, tasks.upper_layers,
    ]  # fmt: skip
    return [one(found) for one in made]


def _order(found: Results) -> Finding:
    claim = "Languages are more alike in a bilingual model than in two models, and there more than with random weights."
    contrasts = []
    for first, second in zip(KINDS, KINDS[1:], strict=False):
        apart = _differences(found, first, second)
        if not apart:
            continue
        paper = np.mean([means[KINDS.index(first)] - means[KINDS.index(second)] for means in FIGURE_7_MEANS.values()])
        whole = over(list(apart.values()))
        words = f"CKA of {first} above {second} by {whole.share}, a mean over layers and {pairs_told(apart)}"
        words += f" ({paper:.3f} in the paper)"
        contrasts.append(Contrast(words, above(whole)))
        contrasts += _by_seed(found, first, second)
    return finding_of("order", claim, contrasts, "CKA of no pair has been measured", too_few(len(found.targets("cka"))))


def _by_seed(found: Results, first: str, second: str) -> list[Contrast]:
    """The same of each pair that has enough seeds, over these."""
    contrasts = []
    for target in found.targets("cka"):
        mine, theirs = (found.cka_mean(kind, target) for kind in (first, second))
        both = {seed: mine[seed] - theirs[seed] for seed in mine if seed in theirs}
        if len(both) >= LEAST:
            apart = over(both)
            contrasts.append(
                Contrast(f"in {found.source}-{target} by {apart.share} over {len(both)} seeds", above(apart))
            )
    return contrasts


def _depth(found: Results) -> Finding:
    claim = "Similarity falls with depth."
    contrasts = []
    for kind in (BILINGUAL, MONOLINGUAL):
        curves = {one: averaged(found.cka(kind, one)) for one in found.targets("cka")}
        slopes = {
            one: slope({k: v for k, v in curve.items() if k > 0}) for one, curve in curves.items() if len(curve) > 2
        }
        if slopes:
            mean = over(list(slopes.values()))
            contrasts.append(Contrast(f"{kind}: {mean.share} a layer over {pairs_told(slopes)}", below(mean)))
    return finding_of("depth", claim, contrasts, "CKA of no pair has been measured", too_few(len(found.targets("cka"))))


def _distance(found: Results) -> Finding:
    claim = "What a bilingual model adds to similarity is less for languages that are further from English."
    apart = {one: gap for one, gap in _differences(found, BILINGUAL, MONOLINGUAL).items() if one in DISTANCE}
    if len(apart) < 4:
        return Finding("distance", claim, [], f"{len(apart)} pairs are too few to rank")
    order = sorted(apart, key=lambda one: DISTANCE[one])
    both = correlation([DISTANCE[one] for one in order], [apart[one] for one in order], run=1)
    found_there = Interval(both.value, both.low, both.high, both.n)
    each = ", ".join(f"{one} {apart[one]:+.3f}" for one in order)
    words = f"bilingual less monolingual, nearest first: {each}; rank correlation with distance {found_there.share}"
    return Finding("distance", claim, [Contrast(words, below(found_there))])


def _far(found: Results) -> Finding:
    claim = "A rotation learned from at most 10,000 sentences finds translations far more often than chance."
    contrasts = []
    for target in found.targets("retrieval"):
        curves = found.retrieval(MONOLINGUAL, target)
        curve = averaged(curves)
        best = max(curve, key=lambda layer: curve[layer], default=0)
        one = found.looked_up(MONOLINGUAL, target, best)
        if one is None:
            continue
        several = over_share(curves[best])
        there = several if several.known else Interval(one.value, one.low, one.high, 1)
        told = f" over {several.seeds} seeds" if several.known else ""
        words = f"{target}: P@1 {there.share} at layer {best}{told}, chance {one.floor:.4f}"
        contrasts.append(Contrast(words, bool(there.low > FAR * one.floor)))
    return finding_of("rotation", claim, contrasts, "no sentence was looked up with two models", "")


def _lower(found: Results) -> Finding:
    claim = "After a rotation, sentences are found best at lower layers."
    apart, peaks = {}, []
    for target in found.targets("retrieval"):
        curves = found.retrieval(MONOLINGUAL, target)
        low, high = (mean_over(curves, layers) for layers in (LOWER, UPPER))
        if low and high:
            apart[target] = float(np.mean(list(low.values())) - np.mean(list(high.values())))
            curve = averaged(curves)
            peaks.append(f"{target} {max(curve, key=lambda layer: curve[layer])}")
    if not apart:
        return Finding("lower layers", claim, [], "no sentence was looked up with two models")
    mean = over(list(apart.values()))
    words = f"P@1 in layers 1 to 4 above that in 5 to 8 by {mean.share} over {pairs_told(apart)}"
    words += f"; highest at layer {', '.join(peaks)}"
    return finding_of("lower layers", claim, [Contrast(words, above(mean))], "", too_few(len(apart)))


def _relation(found: Results) -> Finding:
    claim = f"CKA and retrieval after a rotation rise and fall together over layers: Pearson above {PEARSON}."
    values, told = [], []
    for target in found.targets("retrieval"):
        by_seed = found.relation(MONOLINGUAL, target)
        if by_seed:
            one, several = by_seed[min(by_seed)], over([each.value for each in by_seed.values()])
            values.append(several.value)
            there = several if several.known else Interval(several.value, one.low, one.high, 1)
            if there.known:
                there = replace(there, low=max(-1.0, there.low), high=min(1.0, there.high))
            told.append(f"{target} {there.share} over {'seeds' if several.known else 'layers'}")
    if not values:
        level = any(found.retrieval(MONOLINGUAL, target) for target in found.targets("retrieval"))
        why = (
            "every layer finds as many, so nothing rises or falls"
            if level
            else "no sentence was looked up with two models"
        )
        return Finding("similarity and retrieval", claim, [], why)
    mean = over(values)
    words = f"{mean.share} over {len(values)} pairs: {', '.join(told)}"
    return finding_of(
        "similarity and retrieval", claim, [Contrast(words, above(mean, PEARSON))], "", too_few(len(values))
    )


def _differences(found: Results, first: str, second: str) -> dict[str, float]:
    """CKA of one kind less that of another, means over layers and seeds, by target."""
    apart = {}
    for target in found.targets("cka"):
        mine, theirs = (found.cka_mean(kind, target) for kind in (first, second))
        if mine and theirs:
            apart[target] = float(np.mean(list(mine.values())) - np.mean(list(theirs.values())))
    return apart
