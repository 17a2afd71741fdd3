"""What the panels of a training and their lines are called, how they are coloured, and what stands behind them."""

from collections.abc import Mapping, Sequence
from math import isnan

from isogloss.report.languages import COLOURS, colour, language_name
from isogloss.report.look import DARK
from isogloss.report.meanings import Meaning, meaning, variant_title
from isogloss.report.steps import POOLED, Line, Panel

DASHES = 3
LOSSES = {"answer": "loss of a task", "pair": "loss of pairs"}  # by what they are counted in, where that is no token


def about(panel: Panel) -> Meaning:
    """What the panel's measure means there: between models CKA is of other things, and a task has a loss of its own."""
    if panel.measure == "loss" and panel.unit in LOSSES:
        return meaning(LOSSES[panel.unit])
    return meaning("cka to another model" if panel.measure == "cka" and panel.other else panel.measure)


def titled(panel: Panel, *, unit: bool = True) -> str:
    """What a panel shows: measure, unit if wanted, variant."""
    per = f"per {panel.unit}" if unit and panel.measure == "perplexity" and panel.unit else ""
    return " ".join(filter(None, (about(panel).title, per))) + (
        f" ({variant_title(panel.variant)})" if panel.variant else ""
    )


def line_name(line: Line, names: Mapping[str, str], *, pooled: str) -> str:
    """How a legend calls a line; `pooled` is what stands for all languages."""
    if line.code == POOLED:
        return pooled
    spelt = " → ".join(names.get(code, code) for code in line.languages)
    return line.code.removesuffix(" → ".join(line.languages)) + spelt if line.languages else line.code


def pooled_name(panel: Panel) -> str:
    """What the leading line of a panel is."""
    lead = panel.lead
    if lead is not None and lead.pooled:
        return "all languages pooled"
    return meaning(panel.measure).title if lead is None or len(panel.lines) == 1 else "average"


def basis(panel: Panel) -> str:
    """What the lines are, what the bands are, and how many items stand behind them, in short sentences."""
    counts = [count for line in panel.lines for count in line.curve.n if count]
    items = {"loss": " predicted tokens a reading", "perplexity": " predicted tokens"}.get(panel.measure, "")
    items = f" {panel.unit}s a reading" if panel.measure == "loss" and panel.unit in LOSSES else items
    items = items or (f" {panel.unit}s" if panel.unit and panel.measure not in ("gap", "relative_gap") else "")
    low, high = (min(counts), max(counts)) if counts else (0, 0)
    count = f"n = {low:,}" if low == high else f"n = {low:,} to {high:,}"
    lead = panel.lead
    averaged = f"Average over {lead.curve.members} curves." if lead and lead.curve.members > 1 else ""
    pairs = f"Each language with {language_name(panel.centre)}, both directions averaged." if panel.centre else ""
    banded = any(not isnan(low) for line in panel.lines for low in line.curve.low)
    band = "Bands: intervals" if banded and (panel.layer is None or panel.plans) else "Band: interval" if banded else ""
    seeds = max(line.curve.seeds for line in panel.lines)
    band += (f" over {seeds} seeds." if seeds > 1 else ".") if band else ""
    return " ".join(filter(None, (averaged, pairs, band, f"{count}{items}." if high else "")))


def line_look(panel: Panel, line: Line, languages: Sequence[str]) -> tuple[str, int]:
    """Colour, and which kind of dash: 0 is none. What stands for all is dark.

    A line has the colour of its language, and those of one language differ in their dashes, as far as there are dashes;
    beyond that, and where it is of no one language, a line has the colour of its own place. The last of the colours is
    nearly as dark as what stands for all, so dashes begin with it.
    """
    if line.leads:
        return DARK, 0
    alike = [one for one in panel.lines if one.languages == line.languages]
    if len(line.languages) == 1 and line.languages[0] in languages and len(alike) <= DASHES:
        at, nth = languages.index(line.languages[0]), alike.index(line)
    else:
        at, nth = panel.lines.index(line), 0
    return colour(at), (nth + (at + 1) // len(COLOURS)) % DASHES
