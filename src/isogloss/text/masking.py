"""What a language model is asked for: masked tokens, or in a decoder each token after those before it (`following`).

Of each row a fixed share of the content tokens is chosen, uniformly and without replacement. A chosen token is replaced
by the mask in 80% of cases, by a random word in 10%, and left as it is in 10% (Devlin et al. 2019), so that the model
has to keep a meaning for every token it reads and not only for the masks.

There are two functions for the one rule. `mask` is for training and for rows of equal length: shapes depend on the
length alone and nothing is read back to the host, so a compiled step sees the same shapes each time, and a GPU never
waits. Training draws new masks at each step; evaluation gives a generator of a fixed seed instead.

`fixed_masks` is for the evaluation of sentences that lie end to end. An evaluation compares a model with itself a
thousand steps ago, so the masks must be the same both times; and with itself on another machine, where batches are
larger and sentences come in another order. A generator that is read token by token would tie each mask to all that was
drawn before it. Here every draw is looked up instead: a hash of the seed, the sentence's number and the token's
position (the finaliser of splitmix64, Steele et al. 2014) is its random number.
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
    """What masking text needs to know of its tokenizer.

    mask_id: the id of the mask; None where nothing is masked, and every token is predicted from those before it.
    marks: ids that are never masked. pool (m,): ids that random words are drawn from.
    """

    mask_id: int | None
    marks: Sequence[int]
    pool: Tensor

    @property
    def causal(self) -> bool:
        """Whether tokens are predicted from those before them, and none is masked."""
        return self.mask_id is None

    def content(self, ids: np.ndarray) -> np.ndarray:
        """Which of these ids are predicted where a model is measured, bool of their shape."""
        return ~np.isin(ids, list(self.marks))

    def count(self, sentences: Sentences, limit: int | None = None) -> int:
        """How many tokens of a corpus could be predicted; refused where its first `limit` sentences have none."""
        first, counted = (
            sum(int(self.content(ids).sum()) for _, ids, _ in sentences.parts(most)) for most in (limit, None)
        )
        few = "" if limit is None else f" in its first {limit} sentences"
        title = f"{sentences.name} ({sentences.language})" if sentences.name else f"of {sentences.language}"
        if self.causal and len(sentences) and int(sentences.lengths[:limit].max()) < 2:
            first = 0  # no token has one before it
        asked = "predicted" if self.causal else "masked"
        require(first, f"the corpus {title} has no token that could be {asked}{few}; give other text")
        return counted


def masking_of(tokenizer: Any, *, causal: bool = False) -> Masking:
    """The masking of a tokenizer that has a mask; random words are all of its pieces but the marks. causal: no mask."""
    masks = causal or tokenizer.mask_token_id is not None
    require(masks, f"the tokenizer {tokenizer.name_or_path} has no mask token, which masked-language modelling needs")
    special = sorted({*marks(tokenizer), tokenizer.mask_token_id, tokenizer.unk_token_id} - {None})
    content = torch.ones(len(tokenizer), dtype=torch.bool)
    content[special] = False
    return Masking(None if causal else tokenizer.mask_token_id, special, content.nonzero().squeeze(1))


@dataclass(frozen=True)
class Masked:
    """Rows with masks in them, and what was there.

    inputs (rows, length): what the model reads. places (rows, k): where it predicts, no place twice in a row.
    labels (rows, k): the original ids at these places, IGNORE in slots that a row does not use.
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

    A row with c content tokens has max(1, round(share * c)) of them chosen, none where c = 0. There are always
    k = slots(length, share) slots, however few a row uses, and what an unused slot points at stays as it is.

    Args:
        ids: (rows, length) long.
        content: (rows, length) bool, what may be chosen: never special tokens or padding.
        mask_id: the id of the mask.
        pool: (m,), the ids random words are drawn from, on the device of `ids`.
        generator: the source of chance, on the device of `ids`.
        share: how many of the content tokens are chosen.
        starts: (rows, length) bool, where words begin. With it the pieces of a word are chosen together, so that no
            word can be guessed from its own other pieces; the last word chosen in a row may be cut, to keep the share
            exact.

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
        word = (torch.cumsum(starts, dim=1) - 1).clamp(min=0)  # (rows, length), a word's number within its row
        step = 2.0**-40 * torch.arange(ids.shape[1], device=device, dtype=exact)
        draw = draw.to(exact).gather(1, word) + step  # pieces of a word in their order, beside each other
    # The k least draws are k different places, so that writing to all of them never writes to one twice.
    places = draw.masked_fill(~content, 2.0).topk(k, dim=1, largest=False, sorted=True).indices  # (rows, k)
    counts = content.sum(dim=1)
    wanted = torch.minimum((counts.to(exact) * share).round().long().clamp(min=1), counts)
    used = torch.arange(k, device=device) < wanted[:, None]  # (rows, k)

    original = ids.gather(1, places)
    kind = torch.rand(places.shape, generator=generator, device=device)
    words = pool[torch.randint(pool.shape[0], places.shape, generator=generator, device=device)]
    # Not `torch.where` with a number, which a GPU would be sent and waited for.
    new = torch.where(kind < MASKED + RANDOM, words, original).masked_fill(kind < MASKED, mask_id)
    inputs = ids.scatter(1, places, torch.where(used, new, original))
    return Masked(inputs, places, original.masked_fill(~used, IGNORE))


def following(ids: Tensor, predicted: Tensor) -> Masked:
    """Rows as they are, each token asked for at the place before it, as a decoder learns them.

    ids (rows, length) long; predicted (rows, length) bool: which tokens are asked for, the first of a row never.

    >>> following(torch.tensor([[2, 7, 8, 0]]), torch.tensor([[True, True, True, False]])).labels
    tensor([[   7,    8, -100]])
    """
    places = torch.arange(ids.shape[1] - 1, device=ids.device).expand(len(ids), -1)
    return Masked(ids, places, ids[:, 1:].masked_fill(~predicted[:, 1:], IGNORE))


def slots(length: int, share: float = 0.15) -> int:
    """How many places a row of `length` tokens can have predicted at most: max(1, round(share * length)).

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
    """Choose tokens to predict in each sentence by its number and its tokens alone, and replace them.

    A sentence with c content tokens has max(1, round(share * c)) of them chosen, none where c = 0.

    Args:
        ids: (tokens,), sentences end to end.
        lengths: (sentences,).
        content: (tokens,) bool, what may be chosen.
        mask_id: the id of the mask.
        pool: (m,), the ids random words are drawn from.
        seed: other masks for another seed.
        share: how many of the content tokens are chosen.
        first: the number of the first sentence, where these are some of many.

    Returns:
        What the model reads, (tokens,), and which positions are to be predicted, (tokens,) bool.

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
    order = candidates[np.lexsort((draw, sentence[candidates]))]  # sentence by sentence, the least draw first
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
    """A number in [0, 1) for each token, (tokens,) float64: the same for the same seed, sentence, position and kind.

    >>> first, second = draws(0, np.array([5, 6]), np.array([1, 1]), kind=0).tolist()
    >>> first == draws(0, np.array([5]), np.array([1]), kind=0).item(), first == second
    (True, False)
    """
    key = np.array([seed, kind], dtype=np.uint64)
    state = splitmix(splitmix(key[:1]) ^ key[1:])
    for coordinate in (sentence, position):
        state = splitmix(state ^ coordinate.astype(np.uint64))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53
