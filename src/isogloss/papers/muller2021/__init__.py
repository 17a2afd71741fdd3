"""Muller et al. (2021): which layers carry a task across languages, by layers whose weights begin anew."""

from isogloss.papers.muller2021 import pictures, tables
from isogloss.papers.muller2021.published import ABOUT
from isogloss.papers.muller2021.rows import collect
from isogloss.papers.muller2021.settings import plan
from isogloss.papers.paper import Paper

PAPER = Paper(
    "muller2021",
    ABOUT,
    plan=plan,
    collect=collect,
    claims=(),  # findings.findings, until they are claims
    tables=lambda results: tables.tables(results.rows),
    figures=lambda results: pictures.pictures(results.rows),
)
