"""Perplexity of language models, and the crossing of the curves of two languages during fine-tuning.

Perplexity is kept as sums and counts, and the ratio is formed last:

    per token       exp(total / count)
    per word        exp(total / count * tokens / words)
    per character   exp(total / count * tokens / characters)

The first is not comparable between vocabularies: longer pieces are fewer and harder to predict. The other two divide
the loss of the text by units that do not depend on the tokenizer, so they are comparable; so are bits per byte.

With a masked model only some tokens are predicted, each from both sides, and `total / count` estimates the mean loss of
a token. This is not a likelihood of the text: the conditionals of a masked model need not belong to one joint
distribution (pseudo-perplexity, Salazar et al. 2020). Compare it between masked models under the same masks, never with
the perplexity of a left-to-right model.

Fine-tuning on one language lowers its perplexity and raises that of the others. Two numbers show when to stop: the step
where the two curves cross, and the step of the best balance between gain and loss,

    balance(s) = log target(s) / target(0) + log others(s) / others(0)

Both are computed on logarithms, where equal factors are equal distances: a perplexity that doubles and one that halves
cancel out. Both depend on the unit: the logarithm per character is that per token times the tokens per character, a
factor that differs between texts. Per token, the crossing depends on the vocabulary, so report it per character too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.inputs import Sums
from isogloss.measures.registry import measure
from isogloss.measures.statistics import Interval, jackknife_interval, mean_over_seeds

Unit = Literal["token", "word", "character"]
UNITS: tuple[Unit, ...] = ("token", "word", "character")


@dataclass(frozen=True)
class Likelihood(Sums):
    """The sums behind a perplexity; add two of them to pool two texts.

    total: negative log-likelihood in nats, summed over predicted tokens; count: the number of predicted tokens. tokens,
    words and characters are those of the text from which the predicted tokens are sampled.

    >>> Likelihood(2.0, 1, 10, 5, 20) + Likelihood(4.0, 2, 10, 5, 20)
    Likelihood(total=6.0, count=3, tokens=20, words=10, characters=40)
    """

    total: float
    count: int
    tokens: int
    words: int
    characters: int


@measure(
    "perplexity",
    title="Held-out perplexity",
    explanation="How uncertain the model is about tokens of held-out text, masked or next ones, the same at every "
    "step. Compare each language only with itself: a Chinese character says more than a letter.",
    logarithmic=True,
    higher_is_better=False,
    range=(1.0, math.inf),
    paper="Salazar et al. 2020, Masked Language Model Scoring",
    takes="other",
)
def perplexity(likelihood: Likelihood, unit: Unit = "token") -> float:
    """Perplexity per token, word or character; infinite if it exceeds the range of a float.

    >>> half = Likelihood(total=10 * math.log(2), count=10, tokens=40, words=20, characters=160)  # 1 bit a token
    >>> [round(perplexity(half, unit), 4) for unit in ("token", "word", "character")]
    [2.0, 4.0, 1.1892]
    """
    require(likelihood.count > 0, "perplexity needs at least one predicted token, and none was predicted")
    return _exp(likelihood.total / likelihood.count * tokens_per(likelihood, unit))


def tokens_per(likelihood: Likelihood, unit: Unit) -> float:
    """The number of tokens of the text per token (1), per word or per character.

    >>> tokens_per(Likelihood(0.0, 1, tokens=30, words=20, characters=120), "word")
    1.5
    """
    require(unit in UNITS, f"perplexity is per {', '.join(UNITS)}, not per {unit!r}")
    if unit == "token":
        return 1.0
    units = likelihood.words if unit == "word" else likelihood.characters
    require(units > 0, f"the text has no {unit}s, so there is no perplexity per {unit}")
    return likelihood.tokens / units


def perplexity_interval(totals: Tensor, counts: Tensor, *, rate: float = 1.0) -> tuple[float, float]:
    """The interval of a perplexity from blocks of text: their totals (blocks,), in nats, and counts (blocks,).

    A delete-one-block jackknife of rate * sum(totals) / sum(counts), the logarithm of the perplexity, whose two ends
    are then exponentiated: neighbouring sentences are similar, so blocks are left out and not tokens. `rate` is
    `tokens_per(likelihood, unit)`, taken as known. Blocks without predicted tokens are ignored; NaN with fewer than 3.

    >>> low, high = perplexity_interval(torch.tensor([20.0, 24.0, 22.0]), torch.tensor([10, 10, 10]))
    >>> round(low, 2), round(high, 2)
    (5.49, 14.83)
    """
    totals, counts = totals.detach().cpu().double(), counts.detach().cpu().double()
    if totals.ndim != 1 or totals.shape != counts.shape:
        raise InputError(
            f"totals and counts must have one number per block, not {tuple(totals.shape)} and {tuple(counts.shape)}"
        )
    totals, counts = totals[counts > 0], counts[counts > 0]
    without = rate * (totals.sum() - totals) / (counts.sum() - counts)
    nats = jackknife_interval(rate * float(totals.sum() / counts.sum()), without)
    return max(_exp(nats.low), 1.0), _exp(nats.high)  # in this order NaN stays NaN


@measure(
    "bits_per_byte",
    title="Bits per byte",
    explanation="The bits that the language model needs for a byte of text, which can be compared between "
    "vocabularies. Decoders: the likelihood of all tokens. Masked models: the cross-entropy of masked tokens, which "
    "is not a likelihood of the text; compare it only with that of other masked models.",
    higher_is_better=False,
    range=(0.0, math.inf),
    takes="other",
)
def bits_per_byte(perplexity: float, *, characters: int, size: int) -> float:
    """Bits per byte of a text with `characters` characters and `size` bytes, from its perplexity per character.

    >>> bits_per_byte(16.0, characters=10, size=20)
    2.0
    """
    return math.log2(perplexity) * characters / size


def _exp(nats: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(nats))


# Two curves over training steps


def crossings(steps: ArrayLike, first: ArrayLike, second: ArrayLike) -> list[float]:
    """Every step where two curves change their order, interpolated linearly between evaluations of their logarithms.

    steps (n,), increasing; first (n,) and second (n,), above zero. Curves that touch without changing their order do
    not cross. If they are equal over several evaluations and then change their order, the middle is the crossing.

    >>> crossings([0, 100, 200, 300], [8, 4, 2, 2], [2, 2, 4, 1])
    [150.0, 250.0]
    """
    at, above, below = _curves(steps, first=first, second=second)
    apart = np.log(above) - np.log(below)
    ordered = np.flatnonzero(apart)
    steps_found = []
    for before, after in zip(ordered[:-1], ordered[1:], strict=True):
        if np.sign(apart[before]) == np.sign(apart[after]):
            continue
        if after == before + 1:
            share = apart[before] / (apart[before] - apart[after])
            steps_found.append(float(at[before] + share * (at[after] - at[before])))
        else:
            steps_found.append(float(at[before + 1] + at[after - 1]) / 2)
    return steps_found


def crossing(steps: ArrayLike, first: ArrayLike, second: ArrayLike) -> float | None:
    """The first of `crossings`, or None if the curves never change their order.

    Noisy curves cross several times: look at all `crossings` before you report one. Table 1 of Hussain & Dudev (2020),
    Dutch against the other languages at three steps:

    >>> round(crossing([1, 501, 1501], [11.54, 7.76, 5.56], [6.08, 10.39, 22.45]))
    345
    >>> crossing([0, 100], [8, 4], [2, 2]) is None
    True
    """
    return next(iter(crossings(steps, first, second)), None)


def balance_step(steps: ArrayLike, target: ArrayLike, others: ArrayLike) -> int:
    """The evaluated step with the lowest balance of gain and loss, the earliest one if several are equal.

    steps (n,), increasing, of which the first is the reference; target (n,), others (n,), above zero. If no gain
    outweighs its loss, the result is the first step.

    >>> balance_step([0, 50, 100], [8, 4, 2], [2, 2, 16])  # halved; quartered while the others grew eightfold
    50
    """
    at, target, others = _curves(steps, target=target, others=others)
    return int(at[np.argmin(np.log(target / target[0]) + np.log(others / others[0]))])


def step_over_seeds(
    step_of: Callable[..., float | None], steps: ArrayLike, first: ArrayLike, second: ArrayLike
) -> Interval | None:
    """The mean over seeds of a step computed from two curves, with a t interval clipped to the range of steps.

    Seeds without such a step (curves that do not cross) are left out of the mean and of its `n`: the mean of a crossing
    is then too early, because these seeds would cross later if at all. None if no seed has one.

    Args:
        step_of: `crossing` or `balance_step`.
        steps: (n,).
        first: (seeds, n), NaN where a seed was not evaluated, as after early stopping. The balance is measured from the
            first evaluation, which may not be missing.
        second: the other curve, (seeds, n), with the same seed in row i.

    >>> first, second = [[8, 4, 2], [8, 4, 1], [8, 8, 8]], [[2, 2, 4], [2, 2, 2], [2, 2, 2]]
    >>> mean = step_over_seeds(crossing, [0, 100, 200], first, second)
    >>> mean.value, mean.n
    (150.0, 2)
    """
    at, x, y = (np.asarray(values, dtype=np.float64) for values in (steps, first, second))
    if x.ndim != 2 or x.shape != y.shape or x.shape[1:] != at.shape:
        raise InputError(f"curves over seeds must both be (seeds, {at.size}), not {x.shape} and {y.shape}")
    evaluated = ~(np.isnan(x) | np.isnan(y))  # (seeds, n)
    if not evaluated.any(axis=1).all():
        missing = int(np.argmin(evaluated.any(axis=1)))
        raise InputError(f"seed {missing} has no evaluation with both values; leave it out")
    if step_of is balance_step and not evaluated[:, 0].all():
        raise InputError(f"a seed has no values at step {at[0]:g}, the first, from which the balance is measured")
    each = [step_of(at[both], x[seed, both], y[seed, both]) for seed, both in enumerate(evaluated)]
    known = [step for step in each if step is not None]
    return mean_over_seeds(known).clipped(at[0], at[-1]) if known else None


def _curves(steps: ArrayLike, **curves: ArrayLike) -> list[NDArray[np.float64]]:
    """Validate the steps and the curves: one finite value above zero for each step."""
    at = np.asarray(steps, dtype=np.float64)
    if at.ndim != 1 or len(at) == 0 or not np.isfinite(at).all() or (np.diff(at) <= 0).any():
        raise InputError("steps must be an increasing list of at least one number; sort the evaluations by step")
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in curves.items()}
    for name, curve in arrays.items():
        if curve.shape != at.shape:
            raise InputError(f"the {name} curve needs {len(at)} values, one per step, not shape {curve.shape}")
        wrong = np.flatnonzero(~(np.isfinite(curve) & (curve > 0)))
        if len(wrong):
            raise InputError(
                f"value {wrong[0]} of the {name} curve is {curve[wrong[0]]:g}; logarithms need finite values above zero"
            )
    return [at, *arrays.values()]
