"""Prediction targets of a language model: masked tokens, or in a decoder each next token (`following`).

In each row a fixed share of the content tokens is chosen, uniformly and without replacement. A chosen token is replaced
by the mask in 80% of cases, by a random word in 10%, and left unchanged in 10% (Devlin et al. 2019), so that the model
must represent every token and not only the masks.

Two functions implement this rule. `mask` is for training and for rows of equal length: shapes depend on the length
alone and nothing is copied to the host, so a compiled step always sees the same shapes and a GPU never waits. Training
draws new masks at each step; evaluation passes a generator with a fixed seed instead.

`fixed_masks` is for the evaluation of concatenated sentences. An evaluation compares a model with itself a thousand
steps ago, or on another machine with larger batches and another order of sentences, so the masks must be the same each
time. With a generator each mask would depend on all earlier draws. Here every draw is instead a hash of the seed, the
sentence's index and the token's position (the finaliser of splitmix64, Steele et al. 2014).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import require
from isogloss.text.batches import Sentences, marks
from isogloss.text.sampling import splitmix

IGNORE = -100
MASKED, RANDOM = 0.8, 0.1  # expected shares of the chosen tokens that become the mask, or a random word


@dataclass(frozen=True)
class Masking:
    """The properties of a tokenizer that masking depends on.

    mask_id: the id of the mask; None for causal modelling, in which every token is predicted from those before it.
    marks: ids that are never masked. pool (m,): ids from which random words are drawn.
    """

    mask_id: int | None
    marks: Sequence[int]
    pool: Tensor

    @property
    def causal(self) -> bool:
        """Whether tokens are predicted from those before them, without masks."""
        return self.mask_id is None

    def content(self, ids: np.ndarray) -> np.ndarray:
        """Which of these ids can be predicted in an evaluation, bool of the same shape."""
        return ~np.isin(ids, list(self.marks))

    def count(self, sentences: Sentences, limit: int | None = None) -> int:
        """The number of tokens of a corpus that can be predicted; raises if its first `limit` sentences have none."""
        first, counted = (
            sum(int(self.content(ids).sum()) for _, ids, _ in sentences.parts(most)) for most in (limit, None)
        )
        few = "" if limit is None else f" in its first {limit} sentences"
        title = f"{sentences.name} ({sentences.language})" if sentences.name else f"of {sentences.language}"
        if self.causal and len(sentences) and int(sentences.lengths[:limit].max()) < 2:
            first = 0  # no token has a context
        asked = "predicted" if self.causal else "masked"
        require(first, f"the corpus {title} has no token that could be {asked}{few}; give other text")
        return counted


def masking_of(tokenizer: Any, *, causal: bool = False) -> Masking:
    """The masking of a tokenizer; random words are any pieces except special tokens. causal: without a mask."""
    masks = causal or tokenizer.mask_token_id is not None
    require(masks, f"the tokenizer {tokenizer.name_or_path} has no mask token, which masked-language modelling needs")
    special = sorted({*marks(tokenizer), tokenizer.mask_token_id, tokenizer.unk_token_id} - {None})
    content = torch.ones(len(tokenizer), dtype=torch.bool)
    content[special] = False
    return Masking(None if causal else tokenizer.mask_token_id, special, content.nonzero().squeeze(1))


@dataclass(frozen=True)
class Masked:
    """Masked rows and their labels.

    inputs (rows, length): the inputs of the model. places (rows, k): positions to predict, distinct within a row.
    labels (rows, k): the original ids at these positions, IGNORE in unused slots.
    """

    inputs: Tensor
    places: Tensor
    labels: Tensor


def mask(
    ids: Tensor,
    content: Tensor,
    *,
    mask_id: int,
    pool: Tensor,
    generator: torch.Generator,
    share: float = 0.15,
    starts: Tensor | None = None,
) -> Masked:
    """Choose tokens to predict in each row, and replace them.

    In a row with c content tokens, max(1, round(share * c)) of them are chosen, none if c = 0. There are always k =
    slots(length, share) slots; the token at an unused slot is not changed.

    Args:
        ids: (rows, length) long.
        content: (rows, length) bool, tokens that may be chosen: never special tokens or padding.
        mask_id: the id of the mask.
        pool: (m,), the ids from which random words are drawn, on the device of `ids`.
        generator: the random generator, on the device of `ids`.
        share: the share of the content tokens that is chosen.
        starts: (rows, length) bool, where words begin, for whole-word masking: the pieces of a word are chosen
            together, so that none can be guessed from the others; the last word chosen in a row may be chosen in part,
            to keep the share exact.

    >>> ids, content = torch.tensor([[2, 7, 8, 9, 3]]), torch.tensor([[False, True, True, True, False]])
    >>> generator = torch.Generator().manual_seed(0)
    >>> rows = mask(ids, content, mask_id=4, pool=torch.tensor([7, 8, 9]), generator=generator, share=1)
    >>> sorted(rows.labels[0].tolist())
    [-100, -100, 7, 8, 9]
    """
    device = ids.device
    exact = torch.float32 if device.type == "mps" else torch.float64
    k = slots(ids.shape[1], share)
    draw = torch.rand(ids.shape, generator=generator, device=device)
    if starts is not None:
        word = (torch.cumsum(starts, dim=1) - 1).clamp(min=0)  # (rows, length), index of the word in its row
        step = 2.0**-40 * torch.arange(ids.shape[1], device=device, dtype=exact)
        draw = draw.to(exact).gather(1, word) + step  # keeps the pieces of a word together and in order
    # The k smallest draws are at k distinct positions, so that the scatter below has no duplicates.
    places = draw.masked_fill(~content, 2.0).topk(k, dim=1, largest=False, sorted=True).indices  # (rows, k)
    counts = content.sum(dim=1)
    wanted = torch.minimum((counts.to(exact) * share).round().long().clamp(min=1), counts)
    used = torch.arange(k, device=device) < wanted[:, None]  # (rows, k)

    original = ids.gather(1, places)
    kind = torch.rand(places.shape, generator=generator, device=device)
    words = pool[torch.randint(pool.shape[0], places.shape, generator=generator, device=device)]
    # Not `torch.where` with a number, which would be copied to the GPU synchronously.
    new = torch.where(kind < MASKED + RANDOM, words, original).masked_fill(kind < MASKED, mask_id)
    inputs = ids.scatter(1, places, torch.where(used, new, original))
    return Masked(inputs, places, original.masked_fill(~used, IGNORE))


def following(ids: Tensor, predicted: Tensor) -> Masked:
    """Targets of causal language modelling: unchanged rows, with each token as the label of the position before it.

    ids (rows, length) long; predicted (rows, length) bool: which tokens have a label, never the first of a row.

    >>> following(torch.tensor([[2, 7, 8, 0]]), torch.tensor([[True, True, True, False]])).labels
    tensor([[   7,    8, -100]])
    """
    places = torch.arange(ids.shape[1] - 1, device=ids.device).expand(len(ids), -1)
    return Masked(ids, places, ids[:, 1:].masked_fill(~predicted[:, 1:], IGNORE))


def slots(length: int, share: float = 0.15) -> int:
    """Maximum number of predicted positions in a row of `length` tokens: max(1, round(share * length)).

    >>> slots(128)
    19
    """
    return max(1, round(share * length))


def fixed_masks(
    ids: np.ndarray,
    lengths: np.ndarray,
    *,
    content: np.ndarray,
    mask_id: int,
    pool: np.ndarray,
    seed: int,
    share: float = 0.15,
    first: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose tokens to predict in each sentence, as a function of its index and its tokens alone, and replace them.

    In a sentence with c content tokens, max(1, round(share * c)) of them are chosen, none if c = 0.

    Args:
        ids: (tokens,), concatenated sentences.
        lengths: (sentences,).
        content: (tokens,) bool, tokens that may be chosen.
        mask_id: the id of the mask.
        pool: (m,), the ids from which random words are drawn.
        seed: determines the masks.
        share: the share of the content tokens that is chosen.
        first: the index of the first sentence, if these are a part of a corpus.

    Returns:
        The inputs of the model, (tokens,), and the positions to predict, (tokens,) bool.

    >>> ids, content = np.array([2, 7, 8, 3, 2, 9, 3]), np.array([0, 1, 1, 0, 0, 1, 0], dtype=bool)
    >>> everything = dict(content=content, pool=np.array([7]), seed=0, share=1)
    >>> inputs, chosen = fixed_masks(ids, np.array([4, 3]), mask_id=4, **everything)
    >>> np.flatnonzero(chosen).tolist()
    [1, 2, 5]
    """
    sentence = np.repeat(np.arange(len(lengths)), lengths)  # (tokens,)
    position = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)  # (tokens,)
    counts = np.bincount(sentence[content], minlength=len(lengths))  # (sentences,)
    wanted = np.minimum(np.maximum(np.round(share * counts), 1), counts)

    candidates = np.flatnonzero(content)
    draw = draws(seed, first + sentence[candidates], position[candidates], kind=0)
    order = candidates[np.lexsort((draw, sentence[candidates]))]  # by sentence, smallest draw first
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = np.zeros(len(ids), dtype=bool)
    chosen[order[rank < np.repeat(wanted, counts)]] = True

    where = first + sentence[chosen], position[chosen]
    kind, word = draws(seed, *where, kind=1), draws(seed, *where, kind=2)
    words = pool[(word * len(pool)).astype(np.int64)]
    inputs = ids.copy()
    inputs[chosen] = np.where(kind < MASKED, mask_id, np.where(kind < MASKED + RANDOM, words, ids[chosen]))
    return inputs, chosen


def draws(seed: int, sentence: np.ndarray, position: np.ndarray, *, kind: int) -> np.ndarray:
    """A number in [0, 1) for each token, (tokens,) float64, a hash of seed, sentence, position and kind.

    >>> first, second = draws(0, np.array([5, 6]), np.array([1, 1]), kind=0).tolist()
    >>> first == draws(0, np.array([5]), np.array([1]), kind=0).item(), first == second
    (True, False)
    """
    key = np.array([seed, kind], dtype=np.uint64)
    state = splitmix(splitmix(key[:1]) ^ key[1:])
    for coordinate in (sentence, position):
        state = splitmix(state ^ coordinate.astype(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53
