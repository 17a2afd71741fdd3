"""The end of captions of figures over seeds."""

from isogloss.papers.evidence import LEAST


def bands_over(seeds: int) -> str:
    """The end of a caption, for curves that have at least so many seeds."""
    return f"; bands are t intervals over {seeds} seeds." if seeds >= LEAST else "; too few seeds for a band."
