"""What the paper found of tasks on stitched layers, of words, and of what a bilingual model must share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isogloss.figure import signed
from isogloss.papers.evidence import (
    LEAST,
    Contrast,
    Finding,
    Interval,
    Seeds,
    Side,
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
from isogloss.recipes.stitch import STITCHED, UNMAPPED

LOWER, UPPER = range(1, 5), range(5, 9)
MIDDLE = range(3, 6)
WITHOUT_LAYERS, WITHOUT_ANCHORS = "Sep L1-6", "No anchors"


def middle(found: Results) -> Finding:
    """Where the seam is best."""
    claim = "Stitched layers carry a task best when they meet in the middle."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        curves = [found.stitched(task, MONOLINGUAL, one, STITCHED) for one in targets]
        last = max(max(one, default=0) for one in curves)
        rise, fall = (
            _differences([(mean_over(one, MIDDLE), mean_over(one, (end,))) for one in curves]) for end in (0, last)
        )
        if rise is None or fall is None:
            return None
        mean = averaged({layer: mean_by_seed(one.get(layer, {}) for one in curves) for layer in curves[0]})
        peak = max(mean, key=lambda layer: mean[layer])
        words = f"layers 3 to 5 above layer 0 by {rise.told}, above layer {last} by {fall.told}; best at {peak}"
        return Contrast(words, all_of([rise.judged(above), fall.judged(above)]))

    return _of_stitching(found, "middle", claim, judge)


def below_bilingual(found: Results) -> Finding:
    """Two models beside one."""
    claim = "Two models stitched by a rotation stay below the bilingual model."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        apart = _between(found, task, targets, (BILINGUAL, UNMAPPED), (MONOLINGUAL, STITCHED))
        if apart is None:
            return None
        return Contrast(f"bilingual above stitched by {apart.told} in layers 3 to 5", apart.judged(above))

    return _of_stitching(found, "below bilingual", claim, judge)


def mapped_bilingual(found: Results) -> Finding:
    """What a map does for the bilingual model."""
    claim = "A map between its languages helps the bilingual model in parsing only (appendix A)."

    def judge(task: str, targets: Sequence[str]) -> Contrast | None:
        apart = _between(found, task, targets, (BILINGUAL, STITCHED), (BILINGUAL, UNMAPPED))
        if apart is None:
            return None
        side = above if task == "parsing" else below
        return Contrast(f"mapped above unmapped by {apart.told} in layers 3 to 5", apart.judged(side))

    return _of_stitching(found, "mapped bilingual", claim, judge)


@dataclass(frozen=True)
class _Apart:
    """A difference of two scores, over seeds of the head (means over pairs) and over pairs (means over seeds)."""

    seeds: Interval
    pairs: Interval

    @property
    def told(self) -> str:
        """Both intervals in words; that over pairs where there are enough of them."""
        if not self.pairs.known:
            return f"{points_told(self.seeds)} points"
        between = f"[{signed(self.pairs.low)}, {signed(self.pairs.high)}]"
        return f"{points_told(self.seeds)} points over seeds, {between} over {self.pairs.seeds} pairs"

    def judged(self, judge: Callable[[Interval], Side | None]) -> Side | None:
        """By both, where there are both."""
        return all_of([judge(self.seeds), *([judge(self.pairs)] if self.pairs.known else [])])


def _between(
    found: Results, task: str, targets: Sequence[str], first: tuple[str, str], second: tuple[str, str]
) -> _Apart | None:
    """Scores in the middle layers by one (kind, way) less those by another."""
    curves = [[found.stitched(task, kind, one, way) for kind, way in (first, second)] for one in targets]
    return _differences([(mean_over(mine, MIDDLE), mean_over(other, MIDDLE)) for mine, other in curves])


def _differences(sides: Sequence[tuple[Seeds, Seeds]]) -> _Apart | None:
    """First scores less second ones, a pair of languages each; of pairs that have both."""
    apart = [{seed: mine[seed] - other[seed] for seed in mine if seed in other} for mine, other in sides]
    apart = [one for one in apart if one]
    by_seed = mean_by_seed(apart)
    return _Apart(over(by_seed), over([float(np.mean(list(one.values()))) for one in apart])) if by_seed else None


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
                apart[target] = float(np.mean([one.value for one in mine.values()])) - next(iter(static.values())).value
    contrasts = []
    if pieces:
        mean = over(list(pieces.values()))
        contrasts.append(
            Contrast(f"embedding matrix above static by {mean.share} over {pairs_told(pieces)}", above(mean))
        )
    if words:
        mean = over(list(words.values()))
        contrasts.append(
            Contrast(f"words, a mean over layers, above static by {mean.share} over {pairs_told(words)}", below(mean))
        )
    few = too_few(min(len(one) for one in (pieces, words) if one)) if contrasts else ""
    return finding_of("static", claim, contrasts, "there is no baseline of static vectors", few)


def _between_losses(found: Results, task: str, targets: Sequence[str]) -> Seeds:
    """The loss with layers apart less that without anchors, by seed; empty where one of them is not there."""
    layers, anchors = (found.losses(task, one, targets) for one in (WITHOUT_LAYERS, WITHOUT_ANCHORS))
    return {seed: value - anchors[seed] for seed, value in layers.items() if seed in anchors}


def upper_layers(found: Results) -> Finding:
    """Layers and vocabulary, by the rows of Table 1."""
    claim = "Sharing the layers matters more than sharing the vocabulary."
    contrasts, seeds = [], 0
    for task in TASKS:
        targets = [one for one in found.targets(f"table-1 {task}") if _between_losses(found, task, [one])]
        layers, anchors = (found.losses(task, one, targets) for one in (WITHOUT_LAYERS, WITHOUT_ANCHORS))
        common = _between_losses(found, task, targets)
        if not common:
            continue
        apart, seeds = over(common), len(common)
        each = ", ".join(f"{one} {signed(over(_between_losses(found, task, [one])).value)}" for one in targets)
        words = (
            f"{NAMES[task]}, {', '.join(targets)}: {points_told(over(layers))} points to Default with layers 1 to 6 "
            f"apart, {points_told(over(anchors))} without anchors; between them {points_told(apart)} ({each})"
        )
        contrasts.append(Contrast(words, below(apart)))
    few = no_interval(seeds) if 0 < seeds < LEAST else ""
    return finding_of(
        "layers and vocabulary", claim, contrasts, "the rows of Table 1 that this needs were not run", few
    )
