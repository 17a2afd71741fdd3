"""Pan et al. (2021): what aligning a multilingual model with parallel text gains, and what it costs."""

from isogloss.papers.pan2021 import pictures, tables
from isogloss.papers.pan2021.published import ABOUT
from isogloss.papers.pan2021.rows import collect
from isogloss.papers.pan2021.settings import plan
from isogloss.papers.paper import Paper

PAPER = Paper(
    "pan2021",
    ABOUT,
    plan=plan,
    collect=collect,
    claims=(),  # findings.findings, until they are claims
    tables=lambda results: tables.tables(results.rows),
    figures=lambda results: pictures.pictures(results.rows),
)
