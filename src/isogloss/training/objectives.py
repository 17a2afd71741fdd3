"""What can be learned: an objective draws the rows of a step and says their loss."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from isogloss.seeds import seed_of
from isogloss.stack.families import FAMILIES
from isogloss.stack.packing import unpadded
from isogloss.text.masking import IGNORE, mask
from isogloss.text.sampling import Sampler
from isogloss.training.captured import Captured
from isogloss.training.heads import base, masked_scores, scores
from isogloss.training.loop import Objective, Part, Rows
from isogloss.training.sharing import Languages

RESIDENT = 2**31  # bytes of text that are worth a place in a GPU's memory


def masked_lm(
    models: Languages,
    streams: Mapping[str, np.ndarray],
    *,
    batch: int,
    length: int,
    mask_id: int,
    marks: Sequence[int],
    pools: Mapping[str, Tensor],
    device: torch.device,
    seed: int,
    exponent: float = 0.7,
    share: float = 0.15,
    starts: Mapping[str, Tensor] | None = None,
    compiled: bool = False,
) -> Objective:
    """Masked language modelling on streams of text in one or many languages.

    streams: token ids of each language, (tokens,). Each step takes `batch` streams of `length` tokens, languages in
    proportion to their size to the power of `exponent`, and predicts `share` of their tokens, masked anew. marks:
    special ids, never masked; pools: the ids each language's random words are drawn from; starts: the ids that begin a
    word in each language, (vocabulary,) bool, if words are to be masked whole. Languages that share one
    model run through it together, others each through its own. compiled: the loss is compiled for the device.
    """
    names = list(streams)
    sampler = Sampler({name: len(ids) for name, ids in streams.items()}, length=length, exponent=exponent, seed=seed)
    text = _Text([streams[name] for name in names], length, device)
    size = max(models.of(name).config.vocab_size for name in names)
    special = torch.zeros(size, dtype=torch.bool, device=device)
    special[list(marks)] = True
    pools = {name: pool.to(device) for name, pool in pools.items()}
    begins = {name: table.to(device) for name, table in (starts or {}).items()}
    alone, loss_of = _one_model(models, names), _compiled() if compiled else masked_loss
    if begins and alone:  # what goes on a word in one language is no word in any other
        begins = {names[0]: torch.stack(list(begins.values())).all(dim=0)}

    def draw(step: int) -> list[Part]:
        numbers, starts = sampler.rows(step, batch)
        generator = torch.Generator(device).manual_seed(seed_of(seed, "masks", step))
        parts = []
        for name, chosen in _together(models, names, numbers):
            ids = text.rows(numbers[chosen], starts[chosen])
            found = mask(
                ids,
                ~special[ids],
                mask_id=mask_id,
                pool=pools[name],
                generator=generator,
                share=share,
                starts=begins[name][ids] if begins else None,
            )
            rows = {"inputs": found.inputs, "places": found.places, "labels": found.labels}
            parts.append(Part(rows, name))
        return parts

    def loss(rows: Rows, name: str) -> Tensor:
        if compiled and not alone:  # how many rows a language has differs from step to step
            for one in rows.values():
                torch._dynamo.maybe_mark_dynamic(one, 0)
        return loss_of(models.of(name), rows)

    encoders: dict[int, Any] = {id(one): one for one in (base(models.of(name)) for name in names)}
    packing = [one for one in encoders.values() if FAMILIES[one.config.model_type].packs]
    around = unpadded(packing, length)
    return Objective(draw, loss, lambda rows: (rows["labels"] != IGNORE).sum(), around)


def masked_loss(model: torch.nn.Module, rows: Rows) -> Tensor:
    """Cross entropy of the masked tokens in nats, summed; rows: inputs, places, labels and, if padded, attention."""
    return _surprise(masked_scores(model, rows["inputs"], rows["places"], rows.get("attention")), rows["labels"])


@cache
def _compiled() -> Callable[[torch.nn.Module, Rows], Tensor]:
    """`masked_loss`, compiled once for all models of one shape that this process trains, one after the other.

    It is a function of the model: one that encloses its model would be compiled anew for each.
    """
    # Models of one process may have many shapes, and torch gives up after eight unless told.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(masked_loss)


def packed_loss(graphs: Captured, model: torch.nn.Module, rows: Rows) -> Tensor | None:
    """The same with the sentences end to end, through CUDA graphs; None where there is none for these rows.

    rows: as for `masked_loss`, and lengths (rows,), on the host, so that nothing waits for the device.
    """
    inputs, lengths = rows["inputs"], rows["lengths"]
    text = torch.arange(inputs.shape[1]) < lengths[:, None]  # (rows, longest)
    tokens = text.flatten().nonzero().squeeze(1).to(inputs.device, non_blocking=True)
    size = lengths.to(inputs.device, non_blocking=True)
    states = graphs.read(inputs.flatten()[tokens], size)
    if states is None:
        return None
    places = (torch.cumsum(size, 0) - size)[:, None] + rows["places"]  # beyond a sentence there are no labels
    return _surprise(scores(model, states[places.clamp(max=len(tokens) - 1)]), rows["labels"])


def _surprise(found: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(found.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")


def _together(models: Languages, names: list[str], numbers: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Which rows run together: all of them where there is one model, else language by language."""
    if _one_model(models, names):
        return [(names[0], np.arange(len(numbers)))]
    groups = [(name, np.flatnonzero(numbers == number)) for number, name in enumerate(names)]
    return [(name, chosen) for name, chosen in groups if len(chosen)]


def _one_model(models: Languages, names: list[str]) -> bool:
    return all(models.of(name) is models.of(names[0]) for name in names)


class _Text:
    """Token ids of all languages: on the GPU where they fit, else read from disk row by row."""

    def __init__(self, ids: list[np.ndarray], length: int, device: torch.device) -> None:
        self.ids, self.length, self.device = ids, length, device
        self.begins = np.cumsum([0, *(len(one) for one in ids)])
        self.resident: Tensor | None = None
        if device.type == "cuda" and 4 * int(self.begins[-1]) <= RESIDENT:
            self.resident = torch.cat([torch.from_numpy(one.astype(np.int32)) for one in ids]).to(device)
        self.steps = torch.arange(length, device=device)

    def rows(self, numbers: np.ndarray, starts: np.ndarray) -> Tensor:
        """Streams of these languages from these places on, (rows, length), int64."""
        if self.resident is not None:
            begins = torch.from_numpy(self.begins[numbers] + starts).to(self.device, non_blocking=True)
            return self.resident[begins[:, None] + self.steps].long()
        found = np.stack([self.ids[n][s : s + self.length] for n, s in zip(numbers, starts, strict=True)])
        rows = torch.from_numpy(found.astype(np.int32))
        if self.device.type == "cuda":  # from pinned memory the copy waits for no step that is still being computed
            rows = rows.pin_memory().to(self.device, non_blocking=True)
        return rows.to(self.device).long()
