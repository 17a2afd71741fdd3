"""Names of `results` under which papers that are not converted yet import them; to be removed with the last of them."""

from isogloss.papers.results import (
    LEAST,
    Contrast,
    Finding,
    Interval,
    Seeds,
    Side,
    above,
    all_of,
    below,
    mean_by_seed,
    no_interval,
    over_seeds,
    within,
)

__all__ = [
    "LEAST",
    "Contrast",
    "Finding",
    "Interval",
    "Seeds",
    "Side",
    "above",
    "all_of",
    "below",
    "mean_by_seed",
    "no_interval",
    "over",
    "over_seeds",
    "share_over_seeds",
    "within",
]
over = over_seeds


def share_over_seeds(values: list[float]) -> Interval:
    """A share over seeds, whose interval does not leave 0 to 1."""
    return over_seeds(values).clipped()
