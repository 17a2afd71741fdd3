"""The paper's figures: similarity of languages by layer, of models to their start, and gap against similarity.

Before them, what the pairs cost as a picture, with the recalled numbers as circles.
"""

from collections.abc import Callable
from typing import Any

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.papers.evidence import Seeds, over
from isogloss.papers.muller2021.published import NAMES, PAIRS, PLANS, REFERENCE, SOURCE, TABLE_1
from isogloss.papers.muller2021.reading import Results
from isogloss.papers.pictures import bands_over
from isogloss.runs.table import UNTUNED

SHOWN = (REFERENCE, PAIRS[0], PAIRS[2], PAIRS[-1])  # all seven plans in one panel could not be told apart


def pictures(rows: pd.DataFrame) -> list[Figure]:
    """Every figure the rows allow."""
    found = Results(rows)
    made = [_costs(found), _languages(found), _gaussian(found), _starts(found), _gaps(found)]
    return [one for one in made if one is not None]


def _costs(found: Results) -> Figure | None:
    panels = []
    for task in found.tasks:
        lines = []
        for home, label in ((True, "source"), (False, "others")):
            changes = {int(PLANS[plan].partition("-")[0]): found.mean_change(task, plan, home=home) for plan in PAIRS}
            lines += [_line({first: some for first, some in changes.items() if some}, label, scale=100)]
        if SOURCE in found.sources(task):
            for place, label in enumerate(("source", "others")):
                recalled = list(TABLE_1[task][place][1])
                lines.append(Line(f"{label}, recalled", list(range(1, 12, 2)), recalled, dots=True))
        panels.append(Panel(NAMES[task], [line for line in lines if line.steps]))
    panels = [panel for panel in panels if any(not line.dots for line in panel.lines)]
    if not panels:
        return None
    caption = (
        f"{found.model}: what the score loses when two layers begin anew, beside the reference of the same seed. Means "
        f"over sources{_bands(found)}"
    )
    if any(line.dots for panel in panels for line in panel.lines):
        caption += " Circles: the paper's, of mBERT from English, recalled and approximate."
    ticks: dict[float, str] = {int(PLANS[plan].partition("-")[0]): PLANS[plan] for plan in PAIRS}
    title = "What re-initialised layers cost"
    return Figure("figure-pairs", title, caption, panels, "difference in points", xlabel="layers anew", ticks=ticks)


def _languages(found: Results) -> Figure | None:
    variants = ((UNTUNED, "before training"), (REFERENCE, "after training"))
    panels = _panels(
        found,
        lambda task: [_line(found.similarity(task, variant, which="target"), label) for variant, label in variants],
    )
    if not panels:
        return None
    caption = (
        f"{found.model}: CKA of the source's sentences with those of each target, mean over targets and sources, on "
        f"parallel text; debiased and linear, 0 for unrelated sentences{_bands(found)}"
    )
    return Figure("figure-1", "Figure 1: source and target, layer by layer", caption, panels, "CKA", xlabel="layer")


def _gaussian(found: Results) -> Figure | None:
    how: dict[str, Any] = {"which": "target", "measure": "cka_rbf"}

    def lines_of(task: str) -> list[Line]:
        lines = [
            _line(found.similarity(task, UNTUNED, **how), "before training"),
            _line(found.similarity(task, REFERENCE, **how), "after training"),
            _line(found.similarity(task, UNTUNED, **how, column="floor"), "chance"),
        ]
        for variant in found.as_published(task):
            lines.append(_line(found.similarity(task, variant, **how), "before, as published"))
            lines.append(_line(found.similarity(task, variant, **how, column="floor"), "chance, as published"))
        return lines

    panels = _panels(found, lines_of)
    if not panels:
        return None
    caption = (
        f"{found.model}: the same with Gaussian kernels over four batches, as the paper has it; biased, so that chance "
        "lies far above 0. As published: batches that are almost the same sentences, and smaller."
    )
    title = "Figure 1 with Gaussian kernels, and what chance gives"
    return Figure("figure-1-gaussian", title, caption, panels, "CKA", xlabel="layer")


def _starts(found: Results) -> Figure | None:
    labels = {plan: PLANS[plan] if plan == REFERENCE else f"anew {PLANS[plan]}" for plan in SHOWN}
    panels = _panels(
        found,
        lambda task: [_line(found.similarity(task, plan, which="start"), label) for plan, label in labels.items()],
    )
    if not panels:
        return None
    caption = (
        f"{found.model} after training with itself before, the same sentences and layer: debiased linear CKA, mean "
        f"over languages and sources{_bands(found)}"
    )
    title = "Figure 2: what training changes, layer by layer"
    return Figure("figure-2", title, caption, panels, "CKA with the start", xlabel="layer")


def _gaps(found: Results) -> Figure | None:
    panels = []
    sources = list(dict.fromkeys(source for _, source in found.experiments))
    for task in found.tasks:
        points = found.points(task)
        lines = []
        for source in dict.fromkeys(one.source for one in points):
            mine = [one for one in points if one.source == source]
            near, gaps = [one.similarity for one in mine], [100 * one.gap for one in mine]
            lines.append(Line(f"from {source}", near, gaps, dots=True, hue=sources.index(source)))
        relation = found.relation(task, REFERENCE)
        told = f": {relation.say(lambda value: f'{value:.2f}')}" if relation is not None else ""
        panels.append(Panel(f"{NAMES[task]}{told}", lines))
    panels = [panel for panel in panels if panel.lines]
    if not panels:
        return None
    caption = (
        f"{found.model}, the reference after training: a circle is a target language. Similarity is CKA with the "
        "source, the mean over layers 1 and up; gap is what the score loses from source to target. Above "
        "each panel, the rank correlation within sources, with an interval over targets."
    )
    title = "Figure 3: gap and similarity"
    return Figure("figure-3", title, caption, panels, "gap in points", xlabel="CKA of source and target")


def _panels(found: Results, lines_of: Callable[[str], list[Line]]) -> list[Panel]:
    """A panel for each task that has a line."""
    panels = [Panel(NAMES[task], [line for line in lines_of(task) if line.steps]) for task in found.tasks]
    return [panel for panel in panels if panel.lines]


def _line(by_place: dict[int, Seeds], label: str, *, scale: float = 1.0) -> Line:
    places = sorted(by_place)
    means = [over(by_place[place]) for place in places]
    values = [scale * one.value for one in means]
    if not means or not all(one.known for one in means):
        return Line(label, places, values)
    return Line(label, places, values, [scale * one.low for one in means], [scale * one.high for one in means])


def _bands(found: Results) -> str:
    seeds = [len(found.scores(task, source, REFERENCE, target=source)) for task, source in found.experiments]
    return bands_over(min(seeds, default=0))
