"""Before and after by layer, and by the amount of parallel text."""

from collections.abc import Mapping

import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.papers.evidence import Seeds, share_over_seeds
from isogloss.papers.pan2021.published import BEFORE, BOTH, TITLES, titled
from isogloss.papers.pan2021.reading import Results, amount
from isogloss.papers.pictures import bands_over


def pictures(rows: pd.DataFrame) -> list[Figure]:
    """Every figure the rows allow."""
    found = Results(rows)
    made = [_retrieval(found), _similarity(found), _amounts(found)]
    return [one for one in made if one is not None]


def _retrieval(found: Results) -> Figure | None:
    panels = [Panel(", ".join(group), _lines(found, "p@1", "tatoeba", group)) for group in found.groups()]
    if not any(panel.lines for panel in panels):
        return None
    caption = (
        f"{found.model}: how often the nearest sentence of the other language is the translation, among the Tatoeba "
        f"test of each language with {found.source}; centred, both directions, means over languages{_bands(found)}"
    )
    return Figure("tatoeba-by-layer", "Retrieval before and after alignment", caption, panels, "P@1", xlabel="layer")


def _similarity(found: Results) -> Figure | None:
    languages = found.languages("xnli")
    panels = [
        Panel("CKA", _lines(found, "cka", "xnli", languages)),
        Panel("P@1", _lines(found, "p@1", "xnli", languages)),
    ]
    if not panels[0].lines:
        return None
    caption = (
        f"{found.model}: sentences of XNLI in {found.source} and in {', '.join(languages)}, means over languages; CKA "
        f"is debiased{_bands(found)}"
    )
    return Figure("xnli-by-layer", "The map before and after alignment", caption, panels, "", xlabel="layer")


def _amounts(found: Results) -> Figure | None:
    """Both losses on ever more of the text; 0 is the model as it was."""
    some = [one for one in found.alignments if one not in TITLES]
    if not some or BOTH not in found.alignments:
        return None
    places = {BEFORE: 0.0, **{name: amount(name) for name in some}, BOTH: 100.0}
    tatoeba = found.languages("tatoeba")
    measured = {
        "zero-shot XNLI, accuracy": {name: found.score("accuracy", "xnli", name) for name in places},
        "Tatoeba P@1, best layer": {name: found.retrieval(name, tatoeba) for name in places},
    }
    panels = []
    for what, values in measured.items():
        points = {places[name]: seeds for name, seeds in values.items() if seeds}
        if len(points) > 1:
            panels.append(Panel(what, [_line("both losses", points)]))
    if not panels:
        return None
    caption = (
        f"{found.model}, as it was and aligned with both losses on shares of the parallel text, equally many updates "
        f"each{_bands(found)}"
    )
    return Figure("by-amount-of-text", "How much parallel text", caption, panels, "", xlabel="share of the text, %")


def _lines(found: Results, measure: str, data: str, languages: list[str]) -> list[Line]:
    """A line for each alignment, amounts of text apart; the model as it was is thick."""
    made = []
    for number, name in enumerate(one for one in found.alignments if one in TITLES):
        curve = {float(layer): seeds for layer, seeds in found.curve(measure, data, name, languages).items()}
        if curve:
            made.append(_line(titled(name), curve, hue=number, thick=name == BEFORE))
    return made


def _line(label: str, points: Mapping[float, Seeds], *, hue: int | None = None, thick: bool = False) -> Line:
    """Means over seeds with their intervals; the model as it was is mapped once and has none."""
    places = sorted(points)
    means = [share_over_seeds(list(points[one].values())) for one in places]
    known = means if any(one.known for one in means) else []
    ends = [one.low for one in known], [one.high for one in known]
    return Line(label, places, [one.value for one in means], *ends, hue=hue, thick=thick)


def _bands(found: Results) -> str:
    seeds = [len(found.retrieval(name, found.languages("tatoeba"))) for name in found.alignments if name != BEFORE]
    return bands_over(min([one for one in seeds if one], default=0))
