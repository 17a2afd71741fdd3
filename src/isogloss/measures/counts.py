"""A score as counts of each example, the ratio formed last: so it can be added up, and resampled for an interval.

Accuracy is right answers over all, F1 of spans is twice the right ones over those guessed and those there, and neither
is the mean of its values in single sentences. A score therefore keeps a row of counts for every example:

    value = ratio(sum of the rows)

and the bootstrap draws examples with replacement, adds up their rows and forms the ratio anew (Efron 1979). Examples
are what was sampled from a language, so they are drawn whole: the words of a sentence are not independent.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

DRAWS = 1000
AT_ONCE = 2**23  # weights of draws that are held together


def share(sums: np.ndarray) -> np.ndarray:
    """(..., 2): how many were right, out of how many; 0 of 0 is nan.

    >>> float(share(np.array([3, 4])))
    0.75
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 0] / sums[..., 1])


def f1(sums: np.ndarray) -> np.ndarray:
    """(..., 3): right, guessed, there. 2 right / (guessed + there), the harmonic mean of precision and recall.

    0 / 0 is 0, as in `conlleval`.

    >>> float(f1(np.array([1, 2, 2])))
    0.5
    """
    both = sums[..., 1] + sums[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(both == 0, 0.0, 2 * sums[..., 0] / both))


@dataclass(frozen=True)
class Score:
    """One score of a model on a test set.

    counts: (examples, c), float64; its last column is what `n` counts (answers, words, spans that are there). ratio:
    (..., c) -> (...), from sums of counts to the value. floor: what guessing scores, where that was measured.

    >>> score = Score(np.array([[1, 1], [0, 1], [1, 1], [1, 1]]))
    >>> score.value, score.n
    (0.75, 4)
    """

    counts: np.ndarray
    ratio: Callable[[np.ndarray], np.ndarray] = share
    floor: float = np.nan

    @property
    def value(self) -> float:
        """The score over all examples."""
        return float(self.ratio(np.asarray(self.counts, dtype=np.float64).sum(0)))

    @property
    def n(self) -> int:
        """What the score is out of."""
        return int(round(float(np.asarray(self.counts)[:, -1].sum())))


def resampled(score: Score, seed: int, *, draws: int = DRAWS) -> np.ndarray:
    """Values of the score on examples drawn with replacement, (draws,); the same seed draws the same examples."""
    counts = np.asarray(score.counts, dtype=np.float64)  # (examples, c)
    examples = len(counts)
    if not examples:
        return np.full(draws, np.nan)
    generator = np.random.default_rng(seed)
    some = max(1, AT_ONCE // examples)
    found = []
    for start in range(0, draws, some):
        shape = (min(some, draws - start), examples)
        chosen = generator.integers(0, examples, shape)
        numbers = chosen + examples * np.arange(shape[0])[:, None]
        weights = np.bincount(numbers.reshape(-1), minlength=shape[0] * examples).reshape(shape)
        found.append(score.ratio(weights @ counts))  # (draws,)
    return np.concatenate(found)


def bootstrap(values: np.ndarray, *, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of resampled values.

    >>> bootstrap(np.linspace(0, 1, 101))
    (0.025, 0.975)
    """
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail]) if np.isfinite(values).any() else (np.nan, np.nan)
    return round(float(low), 12), round(float(high), 12)
