"""The paper's figures: 1 to 3 and A.1 to A.4. Blocks are numbered from 1, the paper's plots count them from 0."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from isogloss.figure import Figure, Line, Panel
from isogloss.measures.statistics import band
from isogloss.papers.evidence import LEAST
from isogloss.papers.hussain2020.published import (
    ALL,
    DISTANCES,
    EPOCHS,
    GRADUAL,
    LAST_1,
    LAST_6,
    LOGGED,
    PLANS,
    TABLE_1,
)  # fmt: skip
from isogloss.papers.hussain2020.reading import Curves, Results

SHOWN = 1500  # the last step of figure 2
LAYERS = (
    ("figure-1", "Figure 1", GRADUAL, (1, 8, 11, 12)),
    ("figure-3", "Figure 3", LAST_1, (11, 12)),
    ("figure-a1", "Figure A.1", GRADUAL, None),
    ("figure-a2", "Figure A.2", LAST_1, None),
    ("figure-a3", "Figure A.3", ALL, None),
    ("figure-a4", "Figure A.4", LAST_6, None),
)


def pictures(rows: pd.DataFrame) -> list[Figure]:
    """Every figure the rows allow, in the paper's order."""
    found = Results(rows)
    made = [_distances(found, *one) for one in LAYERS]
    made.insert(1, _perplexities(found))
    return [one for one in made if one is not None]


def _perplexities(found: Results) -> Figure | None:
    own, others = (found.perplexity(ALL, target=one) for one in (found.language, "others"))
    if own is None or others is None:
        return None
    language = found.language_name
    last = own.steps[-1]
    until = SHOWN if last >= SHOWN else last
    published = {**{step: (one[0], other[0]) for step, (one, other) in TABLE_1.items()}, **LOGGED}
    steps = sorted(step for step in published if step - 1 <= until)
    dots = [
        Line(f"{name}, published", [step - 1 for step in steps], [published[step][place] for step in steps], dots=True)
        for place, name in enumerate(("Dutch", "other languages"))
    ]
    lines = [_line(one, name, until, log=True) for one, name in ((own, language), (others, "other languages"))]
    dots = dots if len(steps) >= LEAST else []  # a training of a few steps has nothing to be compared with
    panels = [Panel(f"the first {until:,.0f} steps", [*lines, *dots])]
    if last > until:
        whole = [_line(one, name, last, log=True) for one, name in ((own, language), (others, "other languages"))]
        panels.append(Panel("the whole training", whole, _epochs(last)))
    caption = (
        f"{found.model}, {PLANS[ALL]} tuned on {language}; perplexity per token, read on whole texts under fixed "
        f"masks. {_bands(own)}"
    )
    if dots:
        caption += (
            " Circles: the paper's table and released logs, of mBERT on Dutch, each on 32 sentences whose masks are "
            "drawn anew."
        )
    title = "Figure 2: perplexity of what is tuned on, and of the others"
    return Figure("figure-2", title, caption, panels, "perplexity per token", log=True)


def _distances(found: Results, name: str, title: str, plan: str, blocks: Sequence[int] | None) -> Figure | None:
    wanted = [block for block in found.blocks(plan) if blocks is None or block in blocks]
    curves = {block: found.distance(plan, block) for block in wanted}
    drawn = {block: one for block, one in curves.items() if one is not None}
    if not drawn:
        return None
    panels = []
    for block, one in drawn.items():
        ends = DISTANCES.get(plan, {}).get(block)
        paper = f"  (paper: {ends[0]:.2f} → {ends[1]:.2f})" if ends else ""
        panels.append(Panel(f"block {block}{paper}", [_line(one, PLANS[plan], one.steps[-1])], _epochs(one.steps[-1])))
    # One span for all panels, as in the paper: what moves little looks so.
    reach = max(float(np.nanmax(_ends(panel)) - np.nanmin(_ends(panel))) for panel in panels)
    first = next(iter(drawn.values()))
    caption = (
        f"{found.model} to the native model {found.native}, {PLANS[plan]}: mean L2 between the vectors of the same "
        f"words of validation text. {_bands(first)} Thin lines end epochs; every panel spans as much. The paper's "
        "values are of wider models, by position rather than by word."
    )
    heading = f"{title}: distance to the native model, {PLANS[plan]}"
    return Figure(name, heading, caption, panels, "L2 distance", reach=1.08 * reach)


def _ends(panel: Panel) -> list[float]:
    line = panel.lines[0]
    return [*line.value, *line.low, *line.high]


def _line(curves: Curves, label: str, until: float, *, log: bool = False) -> Line:
    kept = curves.steps <= until
    found = band(curves.values[:, kept], scale="log" if log else "linear")
    steps, value = curves.steps[kept].tolist(), found.mean.tolist()
    if len(curves.seeds) < LEAST:
        return Line(label, steps, value)
    return Line(label, steps, value, found.low.tolist(), found.high.tolist())


def _bands(curves: Curves) -> str:
    seeds = len(curves.seeds)
    if seeds < LEAST:
        return f"Mean of {seeds} seeds, too few for a band." if seeds > 1 else "One seed, so no band."
    return f"Bands: t intervals over {seeds} seeds."


def _epochs(last: float) -> list[float]:
    return [last * number / EPOCHS for number in range(1, EPOCHS)]
