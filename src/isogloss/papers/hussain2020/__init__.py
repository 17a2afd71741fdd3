"""Hussain & Dudev (2020), Evolution of representations in cross-lingual fine-tuning: what tuning on one language does."""

from isogloss.papers.hussain2020.settings import plan

from isogloss.papers.hussain2020.findings import findings
from isogloss.papers.hussain2020.pictures import pictures
from isogloss.papers.hussain2020.rows import collect
from isogloss.papers.hussain2020.tables import tables
from isogloss.papers.paper import Paper

PAPER = Paper(
    "hussain2020",
    "Hussain & Dudev (2020), Evolution of representations in cross-lingual fine-tuning",
    plan=plan,
    collect=collect,
    tables=tables,
    findings=findings,
    pictures=pictures,
)
