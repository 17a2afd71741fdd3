"""The paper's figures: similarity by layer (7), sentences found (6), a task on stitched layers (5), words found (4)."""

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.papers.evidence import over
from isogloss.papers.wu2020.published import BILINGUAL, ENGLISH, FIGURE_7, KINDS, MONOLINGUAL, NAMES
from isogloss.papers.wu2020.reading import Curves, Results, averaged, over_share
from isogloss.papers.wu2020.relations import WAY
from isogloss.papers.wu2020.trials import STITCHED as STITCHED_TASKS
from isogloss.recipes.stitch import RANDOM, STITCHED, UNMAPPED

LOOKED_UP = {
    "raw cosine": "raw",
    "centred inductive cosine": "centred",
    "procrustes cosine": "rotation",
    WAY: "rotation, normalised",
}
BANDS = "bands are t intervals over seeds, where there are three"


def pictures(rows: pd.DataFrame) -> list[Figure]:
    """Every figure the rows allow."""
    found = Results(rows)
    made = [_figure_7(found), _figure_6(found), _together(found), *(_figure_5(found, one) for one in STITCHED_TASKS),
            _figure_4(found)]  # fmt: skip
    return [picture for picture in made if picture.panels]


def _figure_7(found: Results) -> Figure:
    panels = []
    for target in found.targets("cka"):
        lines = [_line(found.cka(kind, target), kind, hue=place, shares=False) for place, kind in enumerate(KINDS)]
        lines = [line for line in lines if line.steps]
        if found.source == ENGLISH:  # a pair without numbers has empty lines, so that one legend does for all
            for place, kind in enumerate(KINDS):
                values = [layer[place] for layer in FIGURE_7.get(target, ())]
                lines.append(Line(f"{kind}, published", list(range(len(values))), values, dots=True, hue=place))
        panels.append(Panel(f"{found.source}-{target}", lines))
    caption = (
        "Debiased CKA of sentence vectors of two languages: in one bilingual model, in two models, and with fresh "
        f"weights on the other side; {BANDS}."
    )
    if found.source == ENGLISH:
        caption += " Circles: the paper's, biased, of models 768 wide."
    title = "Figure 7: how alike two languages are, layer by layer"
    return Figure("figure-7", title, caption, _filled(panels), "CKA", xlabel="layer")


def _figure_6(found: Results) -> Figure:
    panels = []
    for target in found.targets("retrieval"):
        lines = [_line(found.retrieval(MONOLINGUAL, target, way), label) for way, label in LOOKED_UP.items()]
        lines.append(_line(found.retrieval(BILINGUAL, target), "bilingual, rotation, normalised"))
        one = found.looked_up(MONOLINGUAL, target, 0)
        floor = None if one is None else one.floor
        panels.append(Panel(f"{found.source} to {target}", [line for line in lines if line.steps], floor=floor))
    caption = f"P@1 of sentences of a test set, two models unless said otherwise; {BANDS}. Dashed: chance."
    title = "Figure 6: sentences found after a rotation"
    return Figure("figure-6", title, caption, _filled(panels), "P@1", xlabel="layer")


def _together(found: Results) -> Figure:
    lines = []
    for target in found.targets("retrieval"):
        near, right = averaged(found.cka(MONOLINGUAL, target)), averaged(found.retrieval(MONOLINGUAL, target))
        layers = sorted(set(near) & set(right))
        lines.append(Line(target, [near[one] for one in layers], [right[one] for one in layers], dots=True))
    panels = [Panel("two models", [line for line in lines if line.steps])]
    caption = "A circle is a layer: debiased CKA, and P@1 after a rotation with iterative normalisation."
    title = "Similarity and retrieval, layer by layer"
    return Figure("figure-6-and-7", title, caption, _filled(panels), "P@1", xlabel="CKA")


def _figure_5(found: Results, task: str) -> Figure:
    panels = []
    for target in found.targets(f"stitch {task}"):
        lines = [
            _line(found.stitched(task, MONOLINGUAL, target, STITCHED), "two models, stitched", scale=100),
            _line(found.stitched(task, MONOLINGUAL, target, UNMAPPED), "two models, as they are", scale=100),
            _line(found.stitched(task, MONOLINGUAL, target, RANDOM), "two models, any rotation", scale=100),
            _line(found.stitched(task, BILINGUAL, target, UNMAPPED), "bilingual, as it is", scale=100),
            _line(found.stitched(task, BILINGUAL, target, STITCHED), "bilingual, mapped", scale=100),
        ]
        panels.append(Panel(f"{found.source} to {target}", [line for line in lines if line.steps]))
    caption = (
        f"{NAMES[task]} in the target language: fresh layers are trained on the first layers of the source's model, "
        "and stand on those of the target's; bands are t intervals over seeds of the fresh layers."
    )
    title = f"Figure 5: {NAMES[task]} on stitched layers, by the layer of the seam"
    return Figure(f"figure-5-{task}", title, caption, _filled(panels), "points", xlabel="layer")


def _figure_4(found: Results) -> Figure:
    panels = []
    for target in found.targets("lexicon"):
        words = {layer: one for layer, one in sorted(found.words(target).items()) if layer >= 0}
        if not words:
            continue
        layers = list(words)
        lines = [
            Line("words in use", layers, [one.value for one in words.values()], [one.low for one in words.values()],
                 [one.high for one in words.values()]),
        ]  # fmt: skip
        for unit, kind, label in (
            ("word", "static", "static"),
            ("piece", MONOLINGUAL, "embedding matrix"),
            ("piece", "static", "static, single pieces"),
        ):
            flat = next(iter(found.words(target, unit=unit, kind=kind).values()), None)
            if flat is not None:
                lines.append(Line(label, [layers[0], layers[-1]], [flat.value, flat.value]))
        panels.append(Panel(f"{found.source} to {target}", lines))
    caption = (
        "P@1 of words after a rotation with iterative normalisation, by CSLS; bands are Wilson intervals over words. "
        "Single pieces are other words than the layers', so compare them with the static line of their own."
    )
    title = "Figure 4: words found, layer by layer"
    return Figure("figure-4", title, caption, _filled(panels), "P@1", xlabel="layer")


def _filled(panels: list[Panel]) -> list[Panel]:
    return [panel for panel in panels if any(not line.dots for line in panel.lines) or _only_dots(panel)]


def _only_dots(panel: Panel) -> bool:
    return bool(panel.lines) and all(line.label and "published" not in line.label for line in panel.lines)


def _line(curves: Curves, label: str, *, scale: float = 1.0, hue: int | None = None, shares: bool = True) -> Line:
    layers = sorted(curves)
    means = [(over_share if shares else over)(curves[layer]) for layer in layers]
    values = [scale * one.value for one in means]
    if not means or not all(one.known for one in means):
        return Line(label, layers, values, hue=hue)
    return Line(label, layers, values, [scale * one.low for one in means], [scale * one.high for one in means], hue=hue)
