"""The post's chart, accuracy by N, with alignment by layer beside it, and one against the other."""

from typing import Any

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.measures.statistics import band
from isogloss.papers.evidence import LEAST
from isogloss.papers.jexus2020.published import NOTHING_FROZEN
from isogloss.papers.jexus2020.reading import ALIGNMENT, Results, title
from isogloss.papers.jexus2020.texts import DUTCH
from isogloss.recipes.task_scores import OTHERS


def pictures(rows: pd.DataFrame) -> list[Figure]:
    """Every figure the rows allow."""
    found = Results(rows)
    made = [_by_point(found), _by_layer(found), _against(found)]
    return [one for one in made if one is not None]


def _by_point(found: Results) -> Figure | None:
    if not found.seeds:
        return None
    shown = [*found.languages, *([OTHERS] if len(found.targets) > 1 else [])]
    floor = float(found.floor(found.source).mean())
    panels = [Panel("accuracy", [_line(found, one) for one in shown], floor=floor)]
    if NOTHING_FROZEN in found.points:
        changes = [_line(found, one, change=True) for one in shown]
        panels.append(Panel("the same less that of nothing frozen (N = -1)", changes))
    few = "" if len(found.seeds) < LEAST else f" Bands: t intervals over {len(found.seeds)} seeds."
    caption = (
        f"{found.model}, trained in {title(found.source)}, zero-shot elsewhere. N = -1: nothing is frozen; 0: "
        f"embeddings; N: embeddings and blocks 1 to N. Dashed: shuffled answers. The mean is over targets on XNLI.{few}"
    )
    if DUTCH in found.languages:
        caption += " Dutch is of other data, SICK-NL, and not in the mean."
    heading = "Accuracy by the number of frozen layers"
    return Figure("accuracy-by-frozen-layers", heading, caption, panels, "accuracy", xlabel="N, frozen layers")


def _line(found: Results, language: str, *, change: bool = False) -> Line:
    """One language; bands are drawn of the source and the mean alone, so that the eye can follow them.

    change: less the same seed's accuracy with nothing frozen, which is the first N.
    """
    curve = found.curve(language)
    if change:
        curve = curve - curve[:, :1]
    mean, source = language == OTHERS, language == found.source
    look: dict[str, Any] = {"thick": True} if mean else {"hue": found.languages.index(language)}
    label, seen = f"{title(language)}, trained in" if source else title(language), band(curve)
    if len(found.seeds) < LEAST or not (mean or source):
        return Line(label, found.points, seen.mean.tolist(), **look)
    return Line(label, found.points, seen.mean.tolist(), seen.low.tolist(), seen.high.tolist(), **look)


def _by_layer(found: Results) -> Figure | None:
    panels = []
    for name in ALIGNMENT:
        lines = []
        for number, language in enumerate(found.languages):
            curve = found.alignment(name, language)
            if curve and language != found.source:
                layers = sorted(curve)
                lines.append(Line(title(language), layers, [curve[one] for one in layers], hue=number))
        if lines:
            panels.append(Panel(name, lines))
    if not panels:
        return None
    caption = (
        f"{found.model} as it was before any task, {title(found.source)} with each language; P@1 and word agreement "
        "are means of both directions. Layer 0 is the embedding output."
    )
    if DUTCH in found.languages:
        caption += " Dutch is on sentences of SICK, all others on those of XNLI: compare shapes, not levels."
    heading = "How well languages are aligned, by layer"
    return Figure("alignment-by-layer", heading, caption, panels, "alignment", xlabel="layer")


def _against(found: Results) -> Figure | None:
    panels = []
    for name in ALIGNMENT:
        lines = []
        for number, language in enumerate(found.languages):
            points, aligned, accuracy = found.both(name, language)
            if points and language != found.source:
                sides = (aligned - aligned.mean()).tolist(), (accuracy - accuracy.mean()).tolist()
                lines.append(Line(title(language), *sides, dots=True, hue=number))
        if lines:
            panels.append(Panel(f"{name}{_told(found, name)}", lines))
    if not panels:
        return None
    caption = (
        "Each circle is one N from 0 on and one language: alignment at layer N of the model as it was, and accuracy "
        "with N layers frozen (mean over seeds), both less the language's mean over N. In brackets: rank correlation "
        "within languages, pooled over those of XNLI."
    )
    heading = "Accuracy with N layers frozen against the alignment of layer N"
    return Figure(
        "accuracy-against-alignment",
        heading,
        caption,
        panels,
        "accuracy, less its mean",
        xlabel="alignment at layer N, less its mean",
    )


def _told(found: Results, name: str) -> str:
    rows = found.rows
    rows = rows[(rows["measure"] == "spearman") & (rows["target"] == OTHERS) & (rows["unit"] == name)]
    return f" ({rows['value'].iloc[0]:.2f})" if len(rows) else ""
