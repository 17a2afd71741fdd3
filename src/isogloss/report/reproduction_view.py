"""The page of a reproduction: the paper's findings, tables and figures, followed by the view of its rows."""

from collections import Counter
from dataclasses import replace

from isogloss.papers.claims import judging
from isogloss.papers.paper import find, names as paper_names
from isogloss.papers.results import Results
from isogloss.report import drift_view, map_view
from isogloss.report.curves import RunFolder, View

BENEATH = {"hussain2020": drift_view.view, "jexus2020": map_view.view}
"""The view shown below the findings of each paper: that of the command that most of its rows come from."""


def view(run: RunFolder) -> View:
    """The view of a reproduction; without rows, or for an unknown paper, the view of a map."""
    name = run.arguments.get("paper")
    if name not in paper_names() or run.rows.empty:
        return map_view.view(run)
    paper, results = find(str(name)), Results(run.rows)
    below = BENEATH[paper.name](run) if paper.name in BENEATH else View("reproduction", [], [], [])
    figures = [replace(figure, section="pictures") for figure in paper.figures(results)]
    findings = list(paper.findings(results))
    about = {
        "conditions": str(run.record.get("conditions", "")),
        "findings": findings,
        "judging": judging(results),
        "count": Counter(finding.verdict for finding in findings),
        "tables": list(paper.tables(results)),
    }
    title = f"{paper.name} at {run.arguments.get('scale', '')} scale, on {run.model}"
    return replace(below, mark="reproduction", title=title, figures=[*figures, *below.figures], tables=(), paper=about)
