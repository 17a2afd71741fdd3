"""Masking for masked language models: which tokens are to be predicted, and what stands in their place.

Of each row a fixed share of the content tokens is chosen, uniformly and without replacement. A chosen token is replaced
by the mask in 80% of cases, by a random word in 10%, and left as it is in 10% (Devlin et al. 2019), so that the model
has to keep a meaning for every token it reads and not only for the masks.

Shapes depend on the length alone and nothing is read back to the host: a compiled step sees the same shapes each time,
and a GPU never waits. Training draws new masks at each step; evaluation gives a generator of a fixed seed instead.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from isogloss.errors import InputError

IGNORE = -100


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
    masked: float = 0.8,
    random: float = 0.1,
    starts: Tensor | None = None,
) -> Masked:
    """Choose tokens to predict in each row, and replace them.

    ids (rows, length) long; content (rows, length) bool: what may be chosen, never special tokens or padding. pool
    (m,): the ids random words are drawn from, on the device of `ids`, as the generator is. A row with c content tokens
    has max(1, round(share * c)) of them chosen, none where c = 0; there are always k = slots(length, share) slots,
    however few a row uses, and what an unused slot points at stays as it is. The shares `masked` and `random` of the
    chosen are expected values: each token is drawn on its own.

    starts (rows, length) bool: where words begin. With it the pieces of a word are chosen together, so that no word can
    be told from its own other pieces; the last word chosen in a row may be cut, to keep the share exact.

    >>> ids, content = torch.tensor([[2, 7, 8, 9, 3]]), torch.tensor([[False, True, True, True, False]])
    >>> everything = dict(pool=torch.tensor([7, 8, 9]), generator=torch.Generator().manual_seed(0), share=1, masked=1)
    >>> found = mask(ids, content, mask_id=4, random=0, **everything)
    >>> found.inputs
    tensor([[2, 4, 4, 4, 3]])
    >>> sorted(found.labels[0].tolist())
    [-100, -100, 7, 8, 9]
    """
    _check(ids, content, pool, share, masked, random)
    device = ids.device
    k = slots(ids.shape[1], share)
    draw = torch.rand(ids.shape, generator=generator, device=device)
    if starts is not None:
        word = (torch.cumsum(starts, dim=1) - 1).clamp(min=0)  # (rows, length), a word's number within its row
        step = 2.0**-40 * torch.arange(ids.shape[1], device=device, dtype=_exact(device))
        draw = draw.to(_exact(device)).gather(1, word) + step  # pieces of a word in their order, beside each other
    # The k least draws are k different places, so that writing to all of them never writes to one twice.
    places = draw.masked_fill(~content, 2.0).topk(k, dim=1, largest=False, sorted=True).indices  # (rows, k)
    counts = content.sum(dim=1)
    wanted = torch.minimum((counts.to(_exact(device)) * share).round().long().clamp(min=1), counts)
    used = torch.arange(k, device=device) < wanted[:, None]  # (rows, k)

    original = ids.gather(1, places)
    kind = torch.rand(places.shape, generator=generator, device=device)
    words = pool[torch.randint(pool.shape[0], places.shape, generator=generator, device=device)]
    # Not `torch.where` with a number, which a GPU would be sent and waited for.
    new = torch.where(kind < masked + random, words, original).masked_fill(kind < masked, mask_id)
    inputs = ids.scatter(1, places, torch.where(used, new, original))
    return Masked(inputs, places, original.masked_fill(~used, IGNORE))


def _exact(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def slots(length: int, share: float = 0.15) -> int:
    """How many places a row of `length` tokens can have predicted at most: max(1, round(share * length)).

    >>> slots(128)
    19
    """
    return max(1, round(share * length))


def _check(ids: Tensor, content: Tensor, pool: Tensor, share: float, masked: float, random: float) -> None:
    """Shapes and shares only: to look at the values would make a GPU wait."""
    if ids.ndim != 2 or content.shape != ids.shape or content.dtype != torch.bool:
        raise InputError(
            "masking takes ids (rows, length) and content, bool, of the same shape; "
            f"not {tuple(ids.shape)} and {content.dtype} {tuple(content.shape)}"
        )
    if ids.shape[1] == 0 or pool.ndim != 1 or pool.shape[0] == 0:
        raise InputError(
            "masking needs rows of at least one token and a pool of at least one id to draw random words from; "
            f"ids are {tuple(ids.shape)}, the pool {tuple(pool.shape)}"
        )
    if not 0 < share <= 1:
        raise InputError(f"the share of tokens to mask must be above 0 and at most 1, not {share}")
    if masked < 0 or random < 0 or masked + random > 1 + 1e-9:
        raise InputError(f"of the chosen tokens {masked} masked and {random} random are no shares of a whole")
