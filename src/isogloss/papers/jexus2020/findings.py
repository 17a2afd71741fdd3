"""What Jexus (2020) found, judged on the rows of a reproduction.

Accuracies are compared seed by seed, since a seed draws the same order of pairs and the same head for each N. "Near 8"
is 7 to 9 of 12 blocks, and as high up in models of another depth. English is flat where its accuracy stays within two
points (`MARGIN`) of that with nothing frozen, interval and all. Chance is what the same answers score
when they are shuffled.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from isogloss.figure import percent, signed
from isogloss.papers.evidence import (
    LEAST,
    Contrast,
    Finding,
    Interval,
    Side,
    above,
    all_of,
    no_interval,
    over_seeds,
    share_over_seeds,
    within,
)
from isogloss.papers.jexus2020.published import NOTHING_FROZEN, near_best
from isogloss.papers.jexus2020.reading import ALIGNMENT, Results, title
from isogloss.recipes.task_scores import OTHERS

MARGIN = 0.02


def findings(rows: pd.DataFrame) -> list[Finding]:
    """Every claim of the post, in its order, after what all of them rest on."""
    found = Results(rows)
    return [_above_chance(found), _best(found), _flat(found), _correlates(found)]


def _above_chance(found: Results) -> Finding:
    claim = "What is learned in one language carries over to the others: accuracy there is above chance."
    if not found.seeds:
        return Finding("above chance", claim, [], "no N was run")
    point = found.points[0]
    contrasts = []
    for language in found.languages:
        if language != found.source and found.accuracy(point, language):
            curve, floor = found.curve(language), found.floor(language)
            chance, gain = percent(float(floor.mean())), over_seeds((curve - floor).mean(axis=1))
            words = f"{title(language)} {share_over_seeds(curve.mean(axis=1)).say(percent)} (chance {chance})"
            contrasts.append(Contrast(words, above(gain)))
    if contrasts:
        contrasts[0] = Contrast(f"the mean over N in {contrasts[0].words}", contrasts[0].judged)
    return Finding("above chance", claim, contrasts, _few(found))


def _best(found: Results) -> Finding:
    near = list(near_best(found.depth))
    claim = (
        "Accuracy in other languages is best when the representation of layer 8 is kept fixed (N near 8: "
        f"{_span(near)})."
    )
    last = found.depth - 1
    missing = [one for one in (NOTHING_FROZEN, *near, last) if one not in found.points]
    if missing or not found.seeds or not found.targets:
        return Finding(
            "best near 8", claim, [], f"N = {', '.join(map(str, missing))} was not run" if missing else "no N was run"
        )
    curve = found.curve(OTHERS)  # (seeds, points)
    there = curve[:, [found.points.index(one) for one in near]].mean(axis=1)
    contrasts = []
    for point, words in ((NOTHING_FROZEN, "with nothing frozen"), (last, f"at N = {last}")):
        gain = over_seeds(there - curve[:, found.points.index(point)])
        contrasts.append(Contrast(f"N = {_span(near)} less that {words}: {gain.say(signed)}", above(gain)))
    contrasts[0] = Contrast(f"the mean over targets at {contrasts[0].words}", contrasts[0].judged)
    best = [found.points[place] for place in curve.argmax(axis=1)]
    top = found.points[int(curve.mean(axis=0).argmax())]
    among = [one for one in found.points if one != top and not _told_apart(found, curve, top, one)]
    alike = f", not told from N = {', '.join(map(str, among))}" if among and len(found.seeds) >= LEAST else ""
    words = (
        f"highest at N = {', '.join(map(str, best))} in the {len(best)} seeds, and at {top} on average "
        f"({percent(float(curve.mean(axis=0).max()))}{alike}); by language at {_each_best(found)}"
    )
    return Finding("best near 8", claim, [*contrasts, Contrast(words, _summit(found, curve, near, top))], _few(found))


def _flat(found: Results) -> Finding:
    claim = (
        f"Accuracy in the language that is trained in hardly depends on N (within {100 * MARGIN:g} points of nothing "
        "frozen)."
    )
    if NOTHING_FROZEN not in found.points or len(found.points) < 2 or not found.seeds:
        return Finding("flat at home", claim, [], "nothing frozen, or nothing else, was not run")
    curve = found.curve(found.source)
    start = curve[:, found.points.index(NOTHING_FROZEN)]
    moved = {point: over_seeds(curve[:, place] - start) for place, point in enumerate(found.points)}
    del moved[NOTHING_FROZEN]
    farthest = max(moved, key=lambda point: abs(moved[point].value))
    held = all_of(within(one, MARGIN) for one in moved.values())
    flat = [point for point, one in moved.items() if within(one, MARGIN)]
    means, others = curve.mean(axis=0), found.curve(OTHERS).mean(axis=0) if found.targets else None
    words = (
        f"{title(found.source)} between {percent(float(means.min()))} and {percent(float(means.max()))}, farthest from "
        f"{percent(float(start.mean()))} at N = {farthest}: {moved[farthest].say(signed)}"
    )
    if held is not None:
        words += f"; within the margin at {f'N = {_span(flat)}' if flat else 'no N'}"
    if others is not None:
        words += f"; the mean over targets between {percent(float(others.min()))} and {percent(float(others.max()))}"
    return Finding("flat at home", claim, [Contrast(words, held)], _few(found))


def _correlates(found: Results) -> Finding:
    claim = "Accuracy with N layers frozen goes with how well layer N is aligned."
    rows = found.rows[(found.rows["measure"] == "spearman") & (found.rows["target"] == OTHERS)]
    if rows.empty:
        return Finding("goes with alignment", claim, [], "it takes every N from 0 on, and the map")
    shares = found.rows[(found.rows["measure"] == "spearman_share") & (found.rows["target"] == OTHERS)]
    by_chance = dict(zip(shares["unit"], shares["value"], strict=True))
    contrasts = []
    for one in rows.to_dict("records"):
        name = str(one["unit"])
        mean = Interval(one["value"], one["low"], one["high"], len(found.seeds))
        share = f", as high or higher in {100 * by_chance[name]:.0f}% of moved curves" if name in by_chance else ""
        judged = above(mean) if len(found.seeds) >= LEAST else None
        contrasts.append(Contrast(f"{name} {mean.say(lambda value: f'{value:.2f}')}{share}", judged))
    first = f"rank correlations over N, within languages: {contrasts[0].words}"
    missing = [name for name in ALIGNMENT if name not in set(rows["unit"])]
    why = [f"no {', '.join(missing)}"] if missing else []
    few = _few(found)
    return Finding(
        "goes with alignment", claim, [Contrast(first, contrasts[0].judged), *contrasts[1:]],
        "; ".join([*why, few] if few else why),
    )  # fmt: skip


def _summit(found: Results, curve: np.ndarray, near: Sequence[int], top: int) -> Side | None:
    """Held where every seed is highest near 8, refuted where the highest on average is told from each N that is."""
    if len(curve) < LEAST:
        return None
    if all(found.points[place] in near for place in curve.argmax(axis=1)):
        return Side.HELD
    return Side.REFUTED if all(_told_apart(found, curve, top, one) for one in near) else Side.OPEN


def _told_apart(found: Results, curve: np.ndarray, top: int, other: int) -> bool:
    """Whether the difference of two N, seed by seed, has an interval that leaves out 0."""
    behind = over_seeds(curve[:, found.points.index(top)] - curve[:, found.points.index(other)])
    return bool(above(behind))


def _each_best(found: Results) -> str:
    best = {
        one: found.points[int(found.curve(one).mean(axis=0).argmax())] for one in found.languages if one != found.source
    }
    return ", ".join(f"{point} ({title(one)})" for one, point in best.items())


def _span(points: list[int]) -> str:
    """Numbers in a row as their ends.

    >>> _span([7, 8, 9]), _span([0, 2])
    ('7 to 9', '0, 2')
    """
    if len(points) > 2 and points == list(range(points[0], points[-1] + 1)):
        return f"{points[0]} to {points[-1]}"
    return ", ".join(map(str, points))


def _few(found: Results) -> str:
    return no_interval(len(found.seeds)) if len(found.seeds) < LEAST else ""
