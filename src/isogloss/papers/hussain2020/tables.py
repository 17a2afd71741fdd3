"""Tables 1 and 2 of the paper, published beside measured, and what became of the other languages under each plan."""

import numpy as np
import pandas as pd

from isogloss.figure import NOTHING, Table, number
from isogloss.papers.evidence import LEAST, no_interval, over_seeds
from isogloss.papers.hussain2020.forgetting import since_lowest
from isogloss.papers.hussain2020.published import ALL, PLANS, TABLE_1, TABLE_2, UNTUNED
from isogloss.papers.hussain2020.reading import Curves, Results
from isogloss.text.languages import short_name

SOURCE = (
    "Published: on mBERT and Dutch, ± the s.d. it prints. The released code reads 32 sentences under masks drawn anew, "
    "and keeps the worst model as the best."
)


def tables(rows: pd.DataFrame) -> list[Table]:
    """The tables, from the rows of a reproduction."""
    found = Results(rows)
    return [_table_1(found), _table_2(found), *_others(found)]


def _table_1(found: Results) -> Table:
    sides = [found.perplexity(ALL, target=found.language), found.perplexity(ALL, target="others")]
    name = found.language_name
    lines = []
    for step, published in TABLE_1.items():
        cells = [f"{step - 1:,}"]
        for curves, (value, spread) in zip(sides, published, strict=True):
            cells += [f"{value:.2f} ± {spread:.2f}", _at(curves, step - 1)]
        lines.append(cells)
    last = next((int(one.steps[-1]) for one in sides if one is not None), None)
    if last is not None and last + 1 not in TABLE_1:
        lines.append([f"{last:,}", *(cell for one in sides for cell in (NOTHING, _at(one, last)))])
    columns = ["step", f"{name}, published", f"{name}, measured", "others, published", "others, measured"]
    return Table(f"Table 1: perplexity per token while all layers are tuned on {name}", columns, lines, _notes(found))


def _table_2(found: Results) -> Table:
    lines = []
    for plan, title in PLANS.items():
        each = list(found.test(plan).values())
        characters = list(found.test(plan, unit="character").values())
        measured = (str(over_seeds(one, log=True)) if one else NOTHING for one in (each, characters))
        lines.append([title, f"{TABLE_2[plan][0]:.3f}", *measured])
    native = [found.untuned(found.native, unit=unit) if found.native else None for unit in ("token", "character")]
    lines.append(["native model, not tuned", f"{TABLE_2[UNTUNED][0]:.3f}", *map(number, native)])
    before = [found.untuned(found.model, unit=unit) for unit in ("token", "character")]
    lines.append(["tuned model, before", NOTHING, *map(number, before)])
    columns = ["trained", "per token, published", "per token, measured", "per character, measured"]
    notes = [*_notes(found), "Perplexities per token of models with different vocabularies cannot be compared."]
    return Table(f"Table 2: test perplexity of {found.language_name} by what is trained", columns, lines, notes)


def _others(found: Results) -> list[Table]:
    """Other languages by plan, and each language where all layers train: at first, lowest, at last."""
    wanted = [(title, plan, "others") for plan, title in PLANS.items()]
    wanted += [(f"{PLANS[ALL]}, {short_name(code)}", ALL, code) for code in found.watched(ALL)]
    read = [(title, found.perplexity(plan, target=target)) for title, plan, target in wanted]
    curves = [(title, one) for title, one in read if one is not None and len(one.steps) > 1]
    if not curves:
        return []
    lines = []
    for title, one in curves:
        rises, lowest = since_lowest(one)
        at = f"{lowest.min():,.0f}" if lowest.min() == lowest.max() else f"{lowest.min():,.0f} to {lowest.max():,.0f}"
        shown = [_at(one, int(step)) for step in one.steps[[0, 1, -1]]]
        ratios = (over_seeds(each, log=True).share for each in (one.end / one.start, rises))
        lines.append([title, *shown[:2], at, shown[2], *ratios])
    second = curves[0][1].steps[1]
    columns = [
        "trained",
        "step 0",
        f"step {second:,.0f}",
        "lowest at step",
        "at the end",
        "end / step 0",
        "end / lowest",
    ]
    notes = [
        "Not in the paper. Lowest: of the mean of the other seeds, so that the rise from there, read in the seed that "
        "is left, is no product of the choice.",
        _notes(found)[1],
    ]
    return [Table("Other languages while one is tuned: perplexity per token", columns, lines, notes)]


def _at(curves: Curves | None, step: int) -> str:
    """The value at a step over seeds; before the first update all seeds are the same."""
    if curves is None or step not in curves.steps:
        return NOTHING
    values = curves.values[:, int(np.flatnonzero(curves.steps == step)[0])]
    return number(float(values[0])) if np.allclose(values, values[0], rtol=1e-9) else str(over_seeds(values, log=True))


def _notes(found: Results) -> list[str]:
    seeds = {plan: len(found.test(plan)) for plan in found.plans}
    counts = sorted(set(seeds.values()))
    told = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    few = no_interval(counts[0]) if counts[0] < LEAST else "brackets hold t intervals over them"
    return [SOURCE, f"Measured: geometric means over {told} seed{'s' * (counts[-1] != 1)}; {few}."]
