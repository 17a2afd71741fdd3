"""Hussain & Dudev (2020): what tuning on one language does to the others, and to each layer."""

from isogloss.papers.hussain2020 import findings, pictures, tables
from isogloss.papers.hussain2020.rows import collect
from isogloss.papers.hussain2020.settings import ABOUT, plan
from isogloss.papers.paper import Paper

PAPER = Paper(
    "hussain2020",
    ABOUT,
    plan=plan,
    collect=collect,
    tables=tables.tables,
    findings=findings.findings,
    pictures=pictures.pictures,
)
