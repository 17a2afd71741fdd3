"""The page of a reproduction: the paper's own findings, tables and figures, and below them the view of its table."""

from collections import Counter
from dataclasses import replace

from isogloss.papers.claims import judging
from isogloss.papers.paper import find, names as paper_names
from isogloss.papers.results import Results
from isogloss.report import drift_view, map_view
from isogloss.report.curves import RunFolder, View

BENEATH = {"hussain2020": drift_view.view, "jexus2020": map_view.view}
"""What is shown below the findings of a paper: the view of the command that most of its table comes from."""


def view(run: RunFolder) -> View:
    """How a reproduction is told; one without rows, or of a paper that is not known here, is told as a map."""
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
