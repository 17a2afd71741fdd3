"""Which rows are taken where there are more than are wanted: the same ones in every language, and every time."""

from collections.abc import Sequence

import numpy as np


def drawn(rows: Sequence[int], count: int | None) -> list[int]:
    """At most `count` of these rows, in their order; which ones hangs on how many there are, and on nothing else."""
    if count is None or len(rows) <= count:
        return list(rows)
    kept = np.random.default_rng(0).permutation(len(rows))[:count]
    return [rows[place] for place in sorted(kept.tolist())]
