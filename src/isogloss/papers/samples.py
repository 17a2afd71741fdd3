"""Which rows are taken where there are more than are wanted: the same ones in every language, and every time."""

from collections.abc import Sequence

import numpy as np


def drawn(rows: Sequence[int], count: int | None) -> list[int]:
    """At most `count` of these rows, in their order; which ones hangs on how many there are, and on nothing else."""
    if count is None or len(rows) <= count:
        return list(rows)
    kept = np.random.default_rng(0).permutation(len(rows))[:count]
    return [rows[place] for place in sorted(kept.tolist())]


def lowest(places: Sequence[float], count: int) -> list[int]:
    """The numbers of the `count` lowest places, rising.

    >>> lowest([0.5, 0.1, 0.9, 0.3], 2)
    [1, 3]
    """
    return sorted(sorted(range(len(places)), key=places.__getitem__)[:count])
