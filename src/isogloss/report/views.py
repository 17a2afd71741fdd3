"""How the run of each command is told: verdict, numbers, figures and tables, chosen by the command in run.json.

A view is a record of functions of a run. A sweep has the view of its recipe; a reproduction shows the paper's own
findings, tables and figures, and below them what the view of `BENEATH` says of the paper's table.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from isogloss.errors import InputError
from isogloss.figure import Figure, Table
from isogloss.measures.statistics import mean_over_seeds
from isogloss.papers import Paper, Results, find
from isogloss.papers import names as paper_names
from isogloss.report import drift_view, map_view, score_views, training_view
from isogloss.report.curves import Fact, RunFolder, between, number, parts, read_run
from isogloss.runs.table import training_name

MOST_TRAININGS = 12


@dataclass(frozen=True)
class View:
    """How a run is told.

    Attributes:
        mark: what the page calls the run, in one word.
        verdict: the sentences that say what was found.
        facts: the few numbers that a reader takes away.
        figures: every figure; its `section` says where on the page it stands.
        tables: tables above the figures of the section `scores`.
        heading: the title and the introduction of that section.
        caution: whether the verdict is a warning, such as that nothing is better than chance.
        two_models: whether a second model is named in the title.
        parallel: whether the text is called parallel text.

    """

    mark: str
    verdict: Callable[[RunFolder], list[str]]
    facts: Callable[[RunFolder], list[Fact]]
    figures: Callable[[RunFolder], list[Figure]]
    tables: Callable[[RunFolder], list[Table]] = lambda run: []
    heading: Callable[[RunFolder], tuple[str, str]] = lambda run: ("", "")
    caution: Callable[[RunFolder], bool] = lambda run: False
    two_models: bool = False
    parallel: bool = False


MAP = View("map", map_view.verdict, map_view.facts, map_view.figures, caution=map_view.caution)
LOOKUP = View(
    "lookup",
    score_views.lookup_verdict,
    score_views.lookup_facts,
    score_views.lookup_figures,
    score_views.lookup_tables,
    score_views.lookup_heading,
    two_models=True,
)
TRAINING = View(
    "training",
    training_view.verdict,
    training_view.facts,
    training_view.figures,
    caution=training_view.caution,
    parallel=True,
)
VIEWS = {
    "map": MAP,
    "lexicon": LOOKUP,
    "rotate": LOOKUP,
    "stitch": View(
        "training",
        score_views.stitch_verdict,
        score_views.stitch_facts,
        score_views.stitch_figures,
        score_views.stitch_tables,
        lambda run: score_views.STITCH_HEADING,
        two_models=True,
    ),
    "drift": View("training", drift_view.verdict, drift_view.facts, drift_view.figures),
    "transfer": View(
        "training",
        score_views.transfer_verdict,
        score_views.transfer_facts,
        score_views.transfer_figures,
        score_views.transfer_tables,
        lambda run: score_views.TRANSFER_HEADING,
    ),
    "align": TRAINING,
    "pretrain": TRAINING,
}
BENEATH = {"hussain2020": VIEWS["drift"], "jexus2020": MAP}
"""What is shown below the findings of a paper: the view of the command that most of its table comes from."""


def view_of(run: RunFolder) -> View:
    """The view of a run, by its command; a folder without a record is shown as a map."""
    paper = reproduced_paper(run)
    if paper is None:
        return VIEWS.get(run.command, MAP)
    nothing = View("reproduction", lambda run: [], lambda run: [], lambda run: [])
    below = BENEATH.get(paper.name, nothing)

    def figures(run: RunFolder) -> list[Figure]:
        own = [replace(figure, section="pictures") for figure in paper.figures(Results(run.rows))]
        return own + below.figures(run)

    return replace(below, mark="reproduction", figures=figures)


def verdict(run: str | Path | pd.DataFrame, command: str | None = None) -> list[str]:
    """Say in a few sentences what a run found.

    Args:
        run: a run folder, or a table of rows.
        command: the command that made the table, such as "map"; a folder's own record says it.

    Raises:
        InputError: a table was given without a command, or one that no view is for.

    """
    if isinstance(run, pd.DataFrame):
        if command not in VIEWS:
            raise InputError(
                f"a table needs the command it was made by: verdict(rows, {' or '.join(map(repr, VIEWS))})"
            )
        return VIEWS[command].verdict(RunFolder(Path(), "", {"command": command}, run))
    jobs = parts(Path(run))
    if jobs == [Path(run)]:
        folder = read_run(Path(run))
        return view_of(folder).verdict(folder)
    first = ((job.name, view_of(folder := read_run(job)).verdict(folder)) for job in jobs)
    return [*(f"{name}: {said[0]}" for name, said in first if said), *sweep_sentences(read_run(Path(run)).rows)]


def sweep_sentences(rows: pd.DataFrame) -> list[str]:
    """One sentence on mean P@1, first to last step, of every training of a sweep; none where it was not read.

    The layer is the one at which all jobs together end highest. Brackets are t intervals over seeds.
    """
    read = rows[(rows["measure"] == "p@1_mean") & rows["layer"].notna() & rows["step"].notna() & rows["seed"].notna()]
    read = read[read["method"].isin(("centred", ""))]
    several_models = read["model"].nunique() > 1
    began: dict[tuple[str, Any], Any] = {}
    ended: dict[tuple[str, Any], Any] = {}
    columns = ["model", "plan", "condition", "settings", "seed"]
    for (model, plan, condition, settings, seed), group in read.groupby(columns, sort=False):
        name = training_name({"plan": plan, "condition": condition, "settings": settings})
        name = " ".join(filter(None, (str(model) if several_models or not name else "", name)))
        steps = group["step"].astype(int)
        began[name, seed], ended[name, seed] = (
            group[steps == end].groupby("layer")["value"].mean() for end in (steps.min(), steps.max())
        )
    if len(ended) < 2:
        return []
    layer = int(cast(float, pd.DataFrame(list(ended.values())).mean().idxmax()))
    names = list(dict.fromkeys(name for name, _ in ended))
    said = []
    for name in names[:MOST_TRAININGS]:
        before, after = (
            [float(means.get(layer, np.nan)) for (own, _), means in side.items() if own == name]
            for side in (began, ended)
        )
        seeds = f", {len(after)} seeds" if len(after) > 1 else ""
        said.append(f"{name} from {_mean(before)} to {_mean(after)}{seeds}")
    said += [f"{len(names) - MOST_TRAININGS} more are in the rows"] if len(names) > MOST_TRAININGS else []
    chance = read["floor"].mean()
    floor = "" if np.isnan(chance) else f" (chance {number(chance)})"
    return [f"Mean P@1 at layer {layer}, where all jobs together end highest{floor}: {'; '.join(said)}."]


def _mean(values: Sequence[float]) -> str:
    mean = mean_over_seeds(values)
    return number(mean.value) if np.isclose(mean.low, mean.high) else between(mean.value, mean.low, mean.high)


def reproduced_paper(run: RunFolder) -> Paper | None:
    """The paper that a run reproduces, or None."""
    name = run.arguments.get("paper")
    reproduces = run.record.get("command") == "reproduce" and name in paper_names() and len(run.rows)
    return find(str(name)) if reproduces else None


def paper_part(run: RunFolder) -> dict[str, Any] | None:
    """The findings and the tables of a reproduction for the page; None for any other run."""
    paper = reproduced_paper(run)
    if paper is None:
        return None
    results = Results(run.rows)
    findings = list(paper.findings(results))
    return {
        "title": f"{paper.name} at {run.arguments.get('scale', '')} scale, on {run.model}",
        "conditions": str(run.record.get("conditions", "")),
        "findings": findings,
        "count": Counter(finding.verdict for finding in findings),
        "tables": list(paper.tables(results)),
    }
