"""How sentences with masks in them are laid out in batches, and what a masked model's surprise at each of them is.

Two layouts give the same numbers: packed, the sentences of a batch end to end in one row, with attention that stops at
their borders; and padded, one sentence a row, of similar length. Whichever it is, the states at the asked places are
gathered and the vocabulary head sees only those. Nothing is read from the device until a corpus is done.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from isogloss.errors import InputError
from isogloss.stack.families import family_of
from isogloss.stack.packing import packed
from isogloss.stack.stack import Stack, measuring, packed_inputs, shape_only
from isogloss.text.batches import chunks, group
from isogloss.training.heads import base, scores
from isogloss.training.probes import arithmetic

SCORES_AT_ONCE = 2**28  # numbers; a large vocabulary at every masked place of a batch would fill a small GPU
RESIDENT = 2**26  # tokens of a corpus that are worth a place in a GPU's memory
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Layout:
    """How batches are made and run.

    dtype: of autocast. tokens: of a batch, padding counted. padding: its id. stack: says where positions begin if
    sentences lie end to end, None if they are padded. rows: sentences of a batch that are neighbours in the corpus and
    attend to their padding; None, as it should be, for batches of similar length that do not.
    """

    device: torch.device
    dtype: torch.dtype | None
    tokens: int
    padding: int
    stack: Stack | None = None
    rows: int | None = None


@dataclass(frozen=True)
class Asked:
    """A batch, and what is asked of it.

    inputs: what the encoder takes. asked (k,): numbers of the states that are asked for, the batch's states flattened.
    labels (k,): the ids there before masking. owners (k,): the sentence of the corpus each belongs to, on the host.
    """

    inputs: dict[str, Any]
    asked: Tensor
    labels: Tensor
    owners: Tensor

    def to(self, device: torch.device) -> "Asked":
        """The same on another device, the owners still on the host."""
        moved = {
            name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in self.inputs.items()
        }
        asked, labels = (one.to(device, non_blocking=True) for one in (self.asked, self.labels))
        return replace(self, inputs=moved, asked=asked, labels=labels)


def choose_layout(
    model: Any,
    device: torch.device,
    *,
    dtype: torch.dtype | None = None,
    tokens: int | None = None,
    pack: bool | None = None,
    rows: int | None = None,
) -> Layout:
    """The layout for a `...ForMaskedLM` on a device.

    pack: None packs in half precision on a GPU where the family allows, which is where it is fast; rows (see `Layout`)
    needs padding, and so is never packed.
    """
    encoder: Any = base(model)
    family = family_of(model.config, model.config.model_type)
    if pack and (rows is not None or not family.packs):
        why = "padding is to be attended to" if rows is not None else f"the family {model.config.model_type} is padded"
        raise InputError(f"sentences cannot lie end to end where {why}; leave `pack` out")
    if tokens is not None and tokens < 1 or rows is not None and rows < 1:
        raise InputError(f"a batch has at least one token and one sentence, not {tokens} and {rows}")
    if pack is None:
        half = (dtype or next(model.parameters()).dtype) in HALF
        pack = family.packs and rows is None and half and device.type == "cuda"
    size = tokens or (65_536 if device.type == "cuda" else 1_024)
    stack = Stack(encoder, family, None, model.config.model_type, 0, 0) if pack else None
    return Layout(device, dtype, size, padding_id(model), stack, rows)


def padding_id(model: Any) -> int:
    """The id that fills rows up: the model's own, which some families know positions by."""
    found = model.config.pad_token_id
    return 0 if found is None else int(found)


def tokens_of(chosen: Sequence[int] | np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Where the tokens of some sentences lie, as padded rows: numbers (rows, longest), and bool, what is no padding.

    >>> numbers, text = tokens_of([2, 0], starts=np.array([0, 3, 7]), lengths=np.array([3, 4, 2]))
    >>> numbers.tolist(), text[0].tolist()
    ([[7, 8, 0], [0, 1, 2]], [True, True, False])
    """
    place = np.arange(max(1, lengths[chosen].max()))
    text = place < lengths[chosen][:, None]  # (rows, longest)
    return np.where(text, starts[chosen][:, None] + place, 0), text


def ask(ids: np.ndarray, lengths: np.ndarray, *, inputs: np.ndarray, chosen: np.ndarray, layout: Layout) -> list[Asked]:
    """Batches that ask for every chosen token once; a sentence with none is left out, since it would change nothing.

    ids, inputs (tokens,): sentences end to end, before and after masking; chosen (tokens,) bool: what is predicted.
    """
    starts = np.cumsum(lengths) - lengths
    counts = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[chosen], minlength=len(lengths))
    if layout.rows is not None:
        groups: Iterable[list[int]] = chunks(range(len(lengths)), layout.rows)
    else:
        used = np.flatnonzero(counts)
        groups = (used[members].tolist() for members in group(lengths[used].tolist(), tokens=layout.tokens))
    home = layout.device if len(ids) <= RESIDENT else torch.device("cpu")
    found = []
    for members in groups:
        tokens, text = tokens_of(members, starts, lengths)  # (rows, longest)
        if layout.stack is not None:
            tokens, text = tokens[text][None], text[text][None]  # (1, tokens), all of it text
        given = {"input_ids": torch.from_numpy(np.where(text, inputs[tokens], layout.padding).astype(np.int64))}
        if layout.stack is not None:
            given |= packed_inputs(layout.stack, shape_only(torch.from_numpy(lengths[members])))
        elif layout.rows is None:
            given["attention_mask"] = torch.from_numpy(text.astype(np.int64))
        asked = np.flatnonzero(chosen[tokens] & text)
        labels = ids[tokens].reshape(-1)[asked].astype(np.int64)
        owners = np.repeat(members, counts[members])
        found.append(Asked(given, *(torch.from_numpy(one) for one in (asked, labels, owners))).to(home))
    return found


def surprise(model: Any, batches: Sequence[Asked], *, layout: Layout) -> Tensor:
    """Nats of every asked token, in the order of the batches: (tokens,), float32, on a device that may still compute.

    The model is in evaluation mode meanwhile, and as before afterwards.
    """
    encoder: Any = base(model)
    places = max(1, SCORES_AT_ONCE // model.config.vocab_size)
    within = nullcontext() if layout.stack is None else packed(encoder)
    nats = []
    with measuring(model), arithmetic(layout.device, layout.dtype), within:
        for batch in (one.to(layout.device) for one in batches):
            states = encoder(**batch.inputs)[0].flatten(0, 1)[batch.asked]  # (k, width)
            for part, labels in zip(torch.split(states, places), torch.split(batch.labels, places), strict=True):
                nats.append(cross_entropy(scores(model, part).float(), labels, reduction="none"))
        return torch.cat(nats)


def by_sentence(nats: Tensor, batches: Sequence[Asked], *, sentences: int) -> tuple[Tensor, Tensor]:
    """What `surprise` found, summed over the tokens of each sentence, float64, and their number: (sentences,) both.

    Only here does the host wait for the device. It sums, too: a GPU adds in any order, and a curve taken again would
    differ in its last digits.
    """
    owners = torch.cat([batch.owners for batch in batches])
    totals = torch.zeros(sentences, dtype=torch.float64).index_add(0, owners, nats.cpu().double())
    return totals, torch.bincount(owners, minlength=sentences)
