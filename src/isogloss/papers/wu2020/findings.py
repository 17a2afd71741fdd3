"""What the paper found, judged on the rows of a reproduction.

Intervals are over whatever there are several of: pairs of languages for what is said of languages, seeds of task heads
for transfer, sentences or words for what is looked up. The constants say what counts as far and as the middle.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from isogloss.measures.correlation import correlation
from isogloss.papers.evidence import LEAST, Contrast, Finding, Interval, above, below, no_interval
from isogloss.papers.wu2020.published import BILINGUAL, FIGURE_7_MEANS, KINDS, MONOLINGUAL, NAMES, PEARSON, TASKS
from isogloss.papers.wu2020.reading import DISTANCE, Results, Seeds, averaged, mean_by_seed, mean_over, over, slope
from isogloss.papers.wu2020.trials import STITCHED as STITCHED_TASKS
from isogloss.recipes.steps.stitching import STITCHED, UNMAPPED

FAR = 10  # times chance
LOWER, UPPER = range(1, 5), range(5, 9)
MIDDLE = range(3, 6)
WITHOUT_LAYERS, WITHOUT_ANCHORS = "Sep L1-6", "No anchors"


def findings(rows: pd.DataFrame) -> list[Finding]:
    """Every finding, in the order of the figures: 7, 6, 5, 4, then Table 1."""
    found = Results(rows)
    made: list[Callable[[Results], Finding]] = [
        _order, _depth, _distance, _far, _lower, _relation, _middle, _below_bilingual, _mapped_bilingual, _higher,
        _static, _upper_layers,
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
        words = f"CKA of {first} above {second} by {whole.share}, a mean over layers and {_pairs(apart)}"
        words += f" ({paper:.3f} in the paper)"
        contrasts.append(Contrast(words, above(whole)))
        contrasts += _by_seed(found, first, second)
    return _finding("order", claim, contrasts, "CKA of no pair has been measured", _few(len(found.targets("cka"))))


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
            contrasts.append(Contrast(f"{kind}: {mean.share} a layer over {_pairs(slopes)}", below(mean)))
    return _finding("depth", claim, contrasts, "CKA of no pair has been measured", _few(len(found.targets("cka"))))


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
        curve = averaged(found.retrieval(MONOLINGUAL, target))
        if not curve:
            continue
        best = max(curve, key=lambda layer: curve[layer])
        one = found.looked_up(MONOLINGUAL, target, best)
        if one is None:
            continue
        words = f"{target}: P@1 {one.value:.3f} [{one.low:.3f}, {one.high:.3f}] at layer {best}, chance {one.floor:.4f}"
        contrasts.append(Contrast(words, bool(one.low > FAR * one.floor)))
    return _finding("rotation", claim, contrasts, "no sentence was looked up with two models", "")


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
    words = f"P@1 in layers 1 to 4 above that in 5 to 8 by {mean.share} over {_pairs(apart)}"
    words += f"; highest at layer {', '.join(peaks)}"
    return _finding("lower layers", claim, [Contrast(words, above(mean))], "", _few(len(apart)))


def _relation(found: Results) -> Finding:
    claim = f"CKA and retrieval after a rotation rise and fall together over layers: Pearson above {PEARSON}."
    values, told = [], []
    for target in found.targets("retrieval"):
        by_seed = found.relation(MONOLINGUAL, target)
        if by_seed:
            one = by_seed[min(by_seed)]
            values.append(float(np.mean([each.value for each in by_seed.values()])))
            told.append(f"{target} {values[-1]:.3f} [{one.low:.3f}, {one.high:.3f}]")
    if not values:
        return Finding("similarity and retrieval", claim, [], "no sentence was looked up with two models")
    mean = over(values)
    words = f"{mean.share} over {len(values)} pairs: {', '.join(told)}, brackets over layers"
    return _finding("similarity and retrieval", claim, [Contrast(words, above(mean, PEARSON))], "", _few(len(values)))


def _middle(found: Results) -> Finding:
    claim = "Stitched layers carry a task best when they meet in the middle."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        curves = [found.stitched(task, MONOLINGUAL, one, STITCHED) for one in targets]
        last = max(max(one, default=0) for one in curves)
        middle, bottom, top = (
            mean_by_seed(mean_over(one, layers) for one in curves) for layers in (MIDDLE, (0,), (last,))
        )
        if not (middle and bottom and top):
            return None
        rise, fall = (over({seed: value - side[seed] for seed, value in middle.items()}) for side in (bottom, top))
        mean = averaged({layer: mean_by_seed(one.get(layer, {}) for one in curves) for layer in curves[0]})
        peak = max(mean, key=lambda layer: mean[layer])
        words = f"layers 3 to 5 above layer 0 by {_points(rise)} points, above layer {last} by {_points(fall)}"
        words += f"; best at {peak}"
        return Contrast(words, _both(above(rise), above(fall)))

    return _of_stitching(found, "middle", claim, judge)


def _below_bilingual(found: Results) -> Finding:
    claim = "Two models stitched by a rotation stay below the bilingual model."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        both = _way_means(found, task, targets, ((BILINGUAL, UNMAPPED), (MONOLINGUAL, STITCHED)))
        if both is None:
            return None
        apart = over({seed: both[0][seed] - value for seed, value in both[1].items()})
        words = f"bilingual above stitched by {_points(apart)} points in layers 3 to 5"
        return Contrast(words, above(apart))

    return _of_stitching(found, "below bilingual", claim, judge)


def _mapped_bilingual(found: Results) -> Finding:
    claim = "A map between its languages helps the bilingual model in parsing only (appendix A)."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        both = _way_means(found, task, targets, ((BILINGUAL, STITCHED), (BILINGUAL, UNMAPPED)))
        if both is None:
            return None
        apart = over({seed: both[0][seed] - value for seed, value in both[1].items()})
        helps = above(apart)
        judged = helps if task == "parsing" else None if helps is None else not helps
        return Contrast(f"mapped above unmapped by {_points(apart)} points in layers 3 to 5", judged)

    return _of_stitching(found, "mapped bilingual", claim, judge)


def _way_means(
    found: Results, task: str, targets: Sequence[str], ways: Sequence[tuple[str, str]]
) -> tuple[Seeds, Seeds] | None:
    """Scores in the middle layers by each of two (kind, way), means over the targets that have both."""
    curves = [[found.stitched(task, kind, one, way) for kind, way in ways] for one in targets]
    there = [pair for pair in curves if all(pair)]
    first, second = (mean_by_seed(mean_over(pair[side], MIDDLE) for pair in there) for side in (0, 1))
    common = set(first) & set(second)
    if not common:
        return None
    return {seed: first[seed] for seed in sorted(common)}, {seed: second[seed] for seed in sorted(common)}


def _of_stitching(
    found: Results, name: str, claim: str, judge: Callable[[str, Sequence[str]], Contrast | None]
) -> Finding:
    contrasts, seeds = [], 0
    for task in STITCHED_TASKS:
        targets = [one for one in found.targets(f"stitch {task}") if found.stitched(task, MONOLINGUAL, one, STITCHED)]
        one = judge(task, targets) if targets else None
        if one is not None:
            contrasts.append(Contrast(f"{NAMES[task]}, {', '.join(targets)}: {one.words}", one.held))
            curves = found.stitched(task, MONOLINGUAL, targets[0], STITCHED)
            seeds = len(next(iter(curves.values())))
    few = no_interval(seeds) if 0 < seeds < LEAST else ""
    return _finding(name, claim, contrasts, "no task was stitched at these layers", few)


def _higher(found: Results) -> Finding:
    claim = "Vectors of words, averaged over their uses, find translations better at higher layers."
    apart = {}
    for target in found.targets("lexicon"):
        words = found.words(target)
        sides = [[words[layer].value for layer in layers if layer in words] for layers in (LOWER, UPPER)]
        if all(sides):
            apart[target] = float(np.mean(sides[1]) - np.mean(sides[0]))
    if not apart:
        return Finding("higher layers", claim, [], "no word was looked up")
    mean = over(list(apart.values()))
    each = ", ".join(f"{target} {value:+.3f}" for target, value in apart.items())
    words_told = f"P@1 in layers 5 to 8 above that in 1 to 4 by {mean.share} over {_pairs(apart)}: {each}"
    return _finding("higher layers", claim, [Contrast(words_told, above(mean))], "", _few(len(apart)))


def _static(found: Results) -> Finding:
    claim = "Rows of the embedding matrix are above static vectors, words averaged over their uses below."
    pieces, words = dict[str, float](), dict[str, float]()
    for target in found.targets("lexicon"):
        for unit, apart in (("piece", pieces), ("word", words)):
            mine, static = found.words(target, unit=unit), found.words(target, unit=unit, kind="static")
            if mine and static:
                apart[target] = max(one.value for one in mine.values()) - next(iter(static.values())).value
    contrasts = []
    if pieces:
        mean = over(list(pieces.values()))
        contrasts.append(Contrast(f"embedding matrix above static by {mean.share} over {_pairs(pieces)}", above(mean)))
    if words:
        mean = over(list(words.values()))
        contrasts.append(Contrast(f"best layer above static by {mean.share} over {_pairs(words)}", below(mean)))
    few = _few(min(len(one) for one in (pieces, words) if one)) if contrasts else ""
    return _finding("static", claim, contrasts, "there is no baseline of static vectors", few)


def _upper_layers(found: Results) -> Finding:
    claim = "Sharing the layers matters more than sharing the vocabulary."
    contrasts, seeds = [], 0
    for task in TASKS:
        targets = found.targets(f"table-1 {task}")
        layers, anchors = (found.losses(task, one, targets) for one in (WITHOUT_LAYERS, WITHOUT_ANCHORS))
        common = {seed: value - anchors[seed] for seed, value in layers.items() if seed in anchors}
        if not common:
            continue
        apart, seeds = over(common), len(common)
        words = (
            f"{NAMES[task]}, {', '.join(targets)}: {_points(over(layers))} points to Default with layers 1 to 6 apart, "
            f"{_points(over(anchors))} without anchors; between them {_points(apart)}"
        )
        contrasts.append(Contrast(words, below(apart)))
    few = no_interval(seeds) if 0 < seeds < LEAST else ""
    return _finding("layers and vocabulary", claim, contrasts, "the rows of Table 1 that this needs were not run", few)


def _differences(found: Results, first: str, second: str) -> dict[str, float]:
    """CKA of one kind less that of another, means over layers and seeds, by target."""
    apart = {}
    for target in found.targets("cka"):
        mine, theirs = (found.cka_mean(kind, target) for kind in (first, second))
        if mine and theirs:
            apart[target] = float(np.mean(list(mine.values())) - np.mean(list(theirs.values())))
    return apart


def _finding(name: str, claim: str, contrasts: Sequence[Contrast], missing: str, few: str) -> Finding:
    return Finding(name, claim, contrasts, few) if contrasts else Finding(name, claim, [], missing)


def _few(pairs: int) -> str:
    return f"{pairs} pair{'s' * (pairs != 1)} of languages are too few for an interval" if pairs < LEAST else ""


def _both(first: bool | None, second: bool | None) -> bool | None:
    return None if first is None or second is None else first and second


def _pairs(some: dict[str, float]) -> str:
    return f"{len(some)} pair{'s' * (len(some) != 1)}"


def _points(one: Interval) -> str:
    return one.say(lambda value: f"{100 * value:+.1f}")
