"""What the page of a reproduction shows before all else: the findings, the paper's tables, and its figures."""

import base64
from collections import Counter
from pathlib import Path
from typing import Any

from isogloss.figure import Figure
from isogloss.papers import Paper, Results, find, names
from isogloss.report.folder import RunFolder
from isogloss.report.paperfigures import write_picture

SHRINK = 0.62  # of a figure's pixels on the page: letters as large as the page's own


def paper_of(run: RunFolder) -> Paper | None:
    """The paper a run reproduces, or None."""
    arguments = run.record.get("arguments")
    name = arguments.get("paper") if isinstance(arguments, dict) else None
    return find(name) if run.record.get("command") == "reproduce" and name in names() and len(run.rows) else None


def reproduced_title(run: RunFolder) -> str:
    """What the page of a reproduction is called, "" for any other run."""
    paper = paper_of(run)
    return "" if paper is None else f"{paper.name} at {run.record['arguments'].get('scale', '')} scale, on {run.model}"


def write_pictures(run: RunFolder, out: Path) -> list[Path]:
    """Draw the paper's figures; none where the run reproduces nothing."""
    paper = paper_of(run)
    return (
        [] if paper is None else [path for one in paper.figures(Results(run.rows)) for path in write_picture(one, out)]
    )


def paper_part(run: RunFolder) -> dict[str, Any] | None:
    """Findings, tables and figures for the page; figures are those in the run's folder."""
    paper = paper_of(run)
    if paper is None:
        return None
    results = Results(run.rows)
    found = paper.findings(results)
    return {
        "name": paper.name,
        "about": paper.about,
        "conditions": str(run.record.get("conditions", "")),
        "findings": [
            {
                "verdict": one.verdict,
                "mark": one.verdict.replace(", ", "-").replace(" ", "-"),
                "claim": one.claim,
                "measured": one.measured,
            }
            for one in found
        ],
        "count": Counter(one.verdict for one in found),
        "tables": list(paper.tables(results)),
        "pictures": [part for one in paper.figures(results) for part in _embedded(run, one)],
    }


def _embedded(run: RunFolder, picture: Figure) -> list[dict[str, str]]:
    path = run.path / "figures" / f"{picture.name}.png"
    if not path.is_file():
        return []
    content = path.read_bytes()
    width = int.from_bytes(content[16:20], "big")  # a PNG's header says its size
    image = base64.b64encode(content).decode("ascii")
    return [{"title": picture.title, "source": f"data:image/png;base64,{image}", "width": str(round(width * SHRINK))}]
