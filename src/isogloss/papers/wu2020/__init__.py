"""Conneau, Wu et al. (2020): how alike models of different languages are, and what languages must share to meet."""

from isogloss.papers.paper import Paper
from isogloss.papers.wu2020 import pictures, tables
from isogloss.papers.wu2020.published import ABOUT
from isogloss.papers.wu2020.rows import collect
from isogloss.papers.wu2020.settings import plan

PAPER = Paper(
    "wu2020",
    ABOUT,
    plan=plan,
    collect=collect,
    claims=(),  # findings.findings, until they are claims
    tables=lambda results: tables.tables(results.rows),
    figures=lambda results: pictures.pictures(results.rows),
)
