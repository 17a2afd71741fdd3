"""Papers: their published numbers, and how to answer them with recipes. One file or folder a paper."""

from isogloss.papers.choosing import selected
from isogloss.papers.options import every_option
from isogloss.papers.paper import Outline, Paper, Request
from isogloss.papers.registry import find, names
from isogloss.papers.reproducing import outline_lines, outline_of, reproduce, summary

__all__ = [
    "Outline",
    "Paper",
    "Request",
    "every_option",
    "find",
    "names",
    "outline_lines",
    "outline_of",
    "reproduce",
    "selected",
    "summary",
]
