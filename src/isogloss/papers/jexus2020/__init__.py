"""Jexus (2020): XNLI by the number of frozen layers, and where English and Chinese meet."""

from isogloss.papers.jexus2020 import pictures, tables
from isogloss.papers.jexus2020.published import ABOUT
from isogloss.papers.jexus2020.rows import collect
from isogloss.papers.jexus2020.settings import plan
from isogloss.papers.paper import Paper

PAPER = Paper(
    "jexus2020",
    ABOUT,
    plan=plan,
    collect=collect,
    claims=(),  # findings.findings, until they are claims
    tables=lambda results: tables.tables(results.rows),
    figures=lambda results: pictures.pictures(results.rows),
)
