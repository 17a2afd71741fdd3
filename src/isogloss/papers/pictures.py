"""The end of captions, for papers that are not converted yet; `results.bands` replaces it."""

from isogloss.papers.results import LEAST


def bands_over(seeds: int) -> str:
    """The end of a caption, for curves that have at least so many seeds."""
    return f"; bands are t intervals over {seeds} seeds." if seeds >= LEAST else "; too few seeds for a band."
