"""Perplexity: how surprised a language model is, carried as sums and counts, the ratio formed last.

    per token       exp(total / count)
    per word        exp(total / count * tokens / words)
    per character   exp(total / count * tokens / characters)

The first cannot be compared between vocabularies: longer pieces are fewer and harder to guess. The other two spread
what the text costs over units that no tokenizer decides, and can.

With a masked model only some tokens are predicted, each from both sides, and `total / count` estimates the mean
surprise of a token. That is no likelihood of the text: the conditionals of a masked model need not belong to any one
distribution (pseudo-perplexity, Salazar et al. 2020). Compare it between masked models under the same masks, never with
the perplexity of a model that reads from left to right.
"""

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.blocks import jackknife_interval
from isogloss.measures.registry import measure

Unit = Literal["token", "word", "character"]
UNITS: tuple[Unit, ...] = ("token", "word", "character")


@dataclass(frozen=True)
class Likelihood:
    """What perplexity is made of; two of them are added to pool two texts.

    total: negative log-likelihood in nats, summed over predicted tokens; count: how many were predicted. tokens, words
    and characters are those of the text that the predicted tokens are a sample of.

    >>> Likelihood(2.0, 1, 10, 5, 20) + Likelihood(4.0, 2, 10, 5, 20)
    Likelihood(total=6.0, count=3, tokens=20, words=10, characters=40)
    """

    total: float
    count: int
    tokens: int
    words: int
    characters: int

    def __add__(self, other: "Likelihood") -> "Likelihood":
        """The likelihood of both texts together."""
        return Likelihood(
            self.total + other.total,
            self.count + other.count,
            self.tokens + other.tokens,
            self.words + other.words,
            self.characters + other.characters,
        )


@measure(
    "perplexity",
    higher_is_better=False,
    range=(1.0, math.inf),
    paper="Salazar et al. 2020, Masked Language Model Scoring",
    takes="other",
)
def perplexity(likelihood: Likelihood, unit: Unit = "token") -> float:
    """Perplexity per token, word or character; infinite where it is larger than a float can hold.

    >>> half = Likelihood(total=10 * math.log(2), count=10, tokens=40, words=20, characters=160)  # 1 bit a token
    >>> [round(perplexity(half, unit), 4) for unit in ("token", "word", "character")]
    [2.0, 4.0, 1.1892]
    """
    if likelihood.count == 0:
        raise InputError("perplexity needs at least one predicted token, and none was predicted")
    return _exp(likelihood.total / likelihood.count * tokens_per(likelihood, unit))


def tokens_per(likelihood: Likelihood, unit: Unit) -> float:
    """Tokens of the text for each of its tokens (1), words or characters.

    >>> tokens_per(Likelihood(0.0, 1, tokens=30, words=20, characters=120), "word")
    1.5
    """
    if unit not in UNITS:
        raise InputError(f"perplexity is per {', '.join(UNITS)}, not per {unit!r}")
    if unit == "token":
        return 1.0
    units = likelihood.words if unit == "word" else likelihood.characters
    if units == 0:
        raise InputError(f"the text has no {unit}s, so there is no perplexity per {unit}")
    return likelihood.tokens / units


def perplexity_interval(
    totals: Tensor, counts: Tensor, *, rate: float = 1.0, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of a perplexity from blocks of text: their totals (blocks,), in nats, and counts (blocks,).

    A delete-one-block jackknife of rate * sum(totals) / sum(counts), the logarithm of the perplexity, whose two ends
    are then raised: neighbouring sentences resemble each other, so blocks are left out and not tokens. `rate` is
    `tokens_per(likelihood, unit)`, taken as known. Blocks that predict nothing do not count; NaN with fewer than 3.

    >>> low, high = perplexity_interval(torch.tensor([20.0, 24.0, 22.0]), torch.tensor([10, 10, 10]))
    >>> round(low, 2), round(high, 2)
    (5.49, 14.83)
    """
    totals, counts = totals.detach().cpu().double(), counts.detach().cpu().double()
    if totals.ndim != 1 or totals.shape != counts.shape:
        raise InputError(
            f"totals and counts must be one number a block each, not {tuple(totals.shape)} and {tuple(counts.shape)}"
        )
    totals, counts = totals[counts > 0], counts[counts > 0]
    if len(counts) < 3:
        return math.nan, math.nan
    without = rate * (totals.sum() - totals) / (counts.sum() - counts)
    low, high = jackknife_interval(rate * float(totals.sum() / counts.sum()), without, confidence=confidence)
    return max(_exp(low), 1.0), _exp(high)  # in this order NaN stays NaN


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
