"""Masks that belong to a sentence: a function of a seed, its number and its tokens, of nothing else.

An evaluation compares a model with itself a thousand steps ago, so the masks must be the same both times; and with
itself on another machine, where batches are larger and sentences come in another order. A generator that is read token
by token would tie each mask to all that was drawn before it. Here every draw is looked up instead: a hash of the seed,
the sentence's number and the token's place (the finaliser of splitmix64, Steele et al. 2014) is its random number.

The rule is that of `isogloss.text.masking.mask`, for sentences that lie end to end.
"""

import numpy as np

from isogloss.errors import InputError


def fixed_masks(
    ids: np.ndarray,
    lengths: np.ndarray,
    *,
    content: np.ndarray,
    mask_id: int,
    pool: np.ndarray,
    seed: int,
    share: float = 0.15,
    masked: float = 0.8,
    random: float = 0.1,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose tokens to predict in each sentence, and replace them.

    ids (tokens,), lengths (sentences,): sentences end to end; content (tokens,) bool: what may be chosen. pool (m,):
    the ids random words are drawn from. A sentence with c content tokens has max(1, round(share * c)) of them chosen,
    none where c = 0. Returns what the model reads, (tokens,), and which places are to be predicted, (tokens,) bool.

    >>> ids, content = np.array([2, 7, 8, 3, 2, 9, 3]), np.array([0, 1, 1, 0, 0, 1, 0], dtype=bool)
    >>> everything = dict(content=content, pool=np.array([7]), seed=0, share=1, masked=1, random=0)
    >>> inputs, chosen = fixed_masks(ids, np.array([4, 3]), mask_id=4, **everything)
    >>> inputs.tolist()
    [2, 4, 4, 3, 2, 4, 3]
    >>> np.flatnonzero(chosen).tolist()
    [1, 2, 5]
    """
    if not 0 < share <= 1:
        raise InputError(f"the share of tokens to mask must be above 0 and at most 1, not {share}")
    if len(pool) == 0:
        raise InputError("masking needs a pool of at least one id to draw random words from, and it is empty")
    sentence = np.repeat(np.arange(len(lengths)), lengths)  # (tokens,)
    place = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # (tokens,)
    counts = np.bincount(sentence[content], minlength=len(lengths))  # (sentences,)
    wanted = np.minimum(np.maximum(np.round(share * counts), 1), counts)

    candidates = np.flatnonzero(content)
    draw = draws(seed, sentence[candidates], place[candidates], kind=0)
    order = candidates[np.lexsort((draw, sentence[candidates]))]  # sentence by sentence, the least draw first
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(ids), dtype=bool)
    chosen[order[rank < np.repeat(wanted, counts)]] = True

    where = sentence[chosen], place[chosen]
    kind, word = draws(seed, *where, kind=1), draws(seed, *where, kind=2)
    words = pool[(word * len(pool)).astype(np.int64)]
    inputs = ids.copy()
    inputs[chosen] = np.where(kind < masked, mask_id, np.where(kind < masked + random, words, ids[chosen]))
    return inputs, chosen


def draws(seed: int, sentence: np.ndarray, place: np.ndarray, *, kind: int) -> np.ndarray:
    """A number in [0, 1) for each token, (tokens,) float64: the same for the same seed, sentence, place and kind.

    >>> one, two = draws(0, np.array([5, 6]), np.array([1, 1]), kind=0).tolist()
    >>> one == draws(0, np.array([5]), np.array([1]), kind=0).item(), one == two
    (True, False)
    """
    key = np.array([seed, kind], dtype=np.uint64)
    state = splitmix(splitmix(key[:1]) ^ key[1:])
    for coordinate in (sentence, place):
        state = splitmix(state ^ coordinate.astype(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def splitmix(state: np.ndarray) -> np.ndarray:
    """One step of splitmix64: 64 bits in, 64 bits out that depend on all of them."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
