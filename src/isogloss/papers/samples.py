"""Names of `paper` for papers that are not converted yet; to be removed with the last of them."""

from isogloss.papers.paper import drawn, lowest

__all__ = ["drawn", "lowest"]
