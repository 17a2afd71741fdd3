"""What the paper found of tasks on stitched layers, of words, and of what a bilingual model must share."""

from collections.abc import Callable, Sequence

import numpy as np

from isogloss.papers.evidence import (
    LEAST,
    Contrast,
    Finding,
    Seeds,
    above,
    all_of,
    below,
    mean_by_seed,
    no_interval,
    over,
)
from isogloss.papers.wu2020.judging import finding_of, pairs_told, points_told, too_few
from isogloss.papers.wu2020.published import BILINGUAL, MONOLINGUAL, NAMES, TASKS
from isogloss.papers.wu2020.reading import Results, averaged, mean_over
from isogloss.papers.wu2020.trials import STITCHED as STITCHED_TASKS
from isogloss.recipes.steps.stitching import STITCHED, UNMAPPED

LOWER, UPPER = range(1, 5), range(5, 9)
MIDDLE = range(3, 6)
WITHOUT_LAYERS, WITHOUT_ANCHORS = "Sep L1-6", "No anchors"


def middle(found: Results) -> Finding:
    """Where the seam is best."""
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
        words = f"layers 3 to 5 above layer 0 by {points_told(rise)} points, above layer {last} by {points_told(fall)}"
        words += f"; best at {peak}"
        return Contrast(words, all_of([above(rise), above(fall)]))

    return _of_stitching(found, "middle", claim, judge)


def below_bilingual(found: Results) -> Finding:
    """Two models beside one."""
    claim = "Two models stitched by a rotation stay below the bilingual model."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        both = _way_means(found, task, targets, ((BILINGUAL, UNMAPPED), (MONOLINGUAL, STITCHED)))
        if both is None:
            return None
        apart = over({seed: both[0][seed] - value for seed, value in both[1].items()})
        words = f"bilingual above stitched by {points_told(apart)} points in layers 3 to 5"
        return Contrast(words, above(apart))

    return _of_stitching(found, "below bilingual", claim, judge)


def mapped_bilingual(found: Results) -> Finding:
    """What a map does for the bilingual model."""
    claim = "A map between its languages helps the bilingual model in parsing only (appendix A)."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        both = _way_means(found, task, targets, ((BILINGUAL, STITCHED), (BILINGUAL, UNMAPPED)))
        if both is None:
            return None
        apart = over({seed: both[0][seed] - value for seed, value in both[1].items()})
        helps = above(apart)
        judged = helps if task == "parsing" else None if helps is None else not helps
        return Contrast(f"mapped above unmapped by {points_told(apart)} points in layers 3 to 5", judged)

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
            contrasts.append(Contrast(f"{NAMES[task]}, {', '.join(targets)}: {one.words}", one.judged))
            curves = found.stitched(task, MONOLINGUAL, targets[0], STITCHED)
            seeds = len(next(iter(curves.values())))
    few = no_interval(seeds) if 0 < seeds < LEAST else ""
    return finding_of(name, claim, contrasts, "no task was stitched at these layers", few)


def higher(found: Results) -> Finding:
    """Words by layer."""
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
    words_told = f"P@1 in layers 5 to 8 above that in 1 to 4 by {mean.share} over {pairs_told(apart)}: {each}"
    return finding_of("higher layers", claim, [Contrast(words_told, above(mean))], "", too_few(len(apart)))


def static(found: Results) -> Finding:
    """Words beside static vectors."""
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
        contrasts.append(
            Contrast(f"embedding matrix above static by {mean.share} over {pairs_told(pieces)}", above(mean))
        )
    if words:
        mean = over(list(words.values()))
        contrasts.append(Contrast(f"best layer above static by {mean.share} over {pairs_told(words)}", below(mean)))
    few = too_few(min(len(one) for one in (pieces, words) if one)) if contrasts else ""
    return finding_of("static", claim, contrasts, "there is no baseline of static vectors", few)


def upper_layers(found: Results) -> Finding:
    """Layers and vocabulary, by the rows of Table 1."""
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
            f"{NAMES[task]}, {', '.join(targets)}: {points_told(over(layers))} points to Default with layers 1 to 6 "
            f"apart, {points_told(over(anchors))} without anchors; between them {points_told(apart)}"
        )
        contrasts.append(Contrast(words, below(apart)))
    few = no_interval(seeds) if 0 < seeds < LEAST else ""
    return finding_of(
        "layers and vocabulary", claim, contrasts, "the rows of Table 1 that this needs were not run", few
    )
