"""Papers: their published numbers, and how to answer them with recipes. One file a paper."""

from isogloss.papers.paper import Outline, Paper, Request
from isogloss.papers.reproduction import (
    find,
    names,
    outline_lines,
    outline_of,
    paper_options,
    reproduce,
    selected,
    summary,
)
from isogloss.papers.results import Results

__all__ = [
    "Outline",
    "Paper",
    "Request",
    "Results",
    "find",
    "names",
    "outline_lines",
    "outline_of",
    "paper_options",
    "reproduce",
    "selected",
    "summary",
]
