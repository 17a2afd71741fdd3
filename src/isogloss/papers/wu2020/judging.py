"""Words and verdicts that the findings on similarity and those on tasks share."""

from collections.abc import Mapping, Sequence

from isogloss.figure import signed
from isogloss.papers.evidence import LEAST, Contrast, Finding, Interval


def finding_of(name: str, claim: str, contrasts: Sequence[Contrast], missing: str, few: str) -> Finding:
    """A finding with its contrasts, or with what is missing where there are none; few: why nothing is judged."""
    return Finding(name, claim, contrasts, few) if contrasts else Finding(name, claim, [], missing)


def too_few(pairs: int) -> str:
    """The sentence on too few pairs, "" where there are enough."""
    return f"{pairs} pair{'s' * (pairs != 1)} of languages are too few for an interval" if pairs < LEAST else ""


def pairs_told(some: Mapping[str, float]) -> str:
    """How many pairs of languages there are, in words."""
    return f"{len(some)} pair{'s' * (len(some) != 1)}"


def points_told(one: Interval) -> str:
    """An interval of shares in points, signed."""
    return one.say(signed)
