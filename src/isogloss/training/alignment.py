"""Alignment after pretraining (Pan et al. 2021): TLM on words and contrast on sentences, of the same pairs, jointly.

    L = tlm * mean over masked tokens of TLM  +  contrastive * mean over pairs of InfoNCE  +  pull * |weights - start|

TLM predicts masked tokens of a sentence and its translation in one sequence, so that each can be told from the other
language. Contrast takes one sentence from the encoder that is trained (the query) and its translation from a second
one that follows it slowly (the key); `isogloss.training.contrast` says why. A coin decides, pair by pair, which of the
two comes first and is the query.

A sentence that occurs again is no negative of itself: beside each vector the queue holds a hash of its tokens.

All that must survive a kill is in the module the loop trains: weights of both encoders, queue, pointer, sums of losses.

On a GPU the three passes of a step, TLM, query and key, are many kernels, little arithmetic: blocks run as CUDA graphs
(`isogloss.training.captured`), each pass with graphs of its own, since all go forwards before any goes backwards.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from isogloss.seeds import seed_of, seeded
from isogloss.stack.stack import Stack, module_at
from isogloss.text.masking import IGNORE, mask
from isogloss.text.sampling import PairSampler
from isogloss.text.streams import Borders, PairStream
from isogloss.training.captured import Capture, Captured
from isogloss.training.contrast import batch_loss, distance, enqueue, follow, queue_loss, repeats
from isogloss.training.heads import scores
from isogloss.training.loop import Objective, Part, Rows
from isogloss.training.pairbatches import (
    Filled,
    fill_pairs,
    fill_single,
    read_sides,
    row_states,
    runs_packed,
    sentence_names,
    to_device,
)
from isogloss.training.probes import Probe, Reading
from isogloss.training.sentencebatches import padding_id

Negatives = Literal["queue", "batch"]
Projection = Literal["none", "linear", "mlp"]
NEGATIVES, PROJECTIONS, POOLS = ("queue", "batch"), ("none", "linear", "mlp"), ("first", "mean")


@dataclass(frozen=True)
class Alignment:
    """What is learned from pairs.

    tlm, contrastive, pull: weights of the three terms, 0 for none. layer: the cut sentences are compared at, and pool
    how a sentence is made of its tokens: `first` or the `mean` of its content. projection: what lies between that and
    the loss, `width` wide. negatives: from a `queue` of `size` keys, whose encoder follows with `momentum`; or from the
    `batch`. shuffle: a coin decides which side comes first. reset: positions begin again at the second sentence.
    """

    layer: int
    tlm: float = 1.0
    contrastive: float = 1.0
    pull: float = 0.0
    negatives: Negatives = "queue"
    size: int = 65_536
    momentum: float = 0.999
    temperature: float = 0.07
    projection: Projection = "mlp"
    width: int = 128
    pool: Literal["first", "mean"] = "first"
    shuffle: bool = True
    reset: bool = False
    share: float = 0.15

    @property
    def queued(self) -> bool:
        """Whether there is a second encoder and a queue."""
        return bool(self.contrastive) and self.negatives == "queue"


class Aligner(nn.Module):
    """A masked LM that is being aligned, and what goes with it: projection, key encoder, queue, sums of losses.

    model: a `...ForMaskedLM`, which is changed in place; stack: of its encoder.
    """

    queue: Tensor
    names: Tensor
    pointer: Tensor
    sums: Tensor

    def __init__(self, model: Any, stack: Stack, how: Alignment, *, seed: int) -> None:
        super().__init__()
        self.model, self.how, self.stack = model, how, stack
        self.sentences = stack[: how.layer]
        device = stack.device
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.register_buffer("sums", torch.zeros(4, dtype=wide, device=device))  # nats and counts: TLM, contrast
        self.projection = _projection(how, stack.width, seed).to(device) if how.contrastive else nn.Identity()
        self.pending: list[tuple[Tensor, Tensor]] = []  # keys of the step that is being computed, and their names
        if how.queued:
            self.key, self.key_projection = _lower(stack, how.layer), copy.deepcopy(self.projection)
            self.key.requires_grad_(False), self.key_projection.requires_grad_(False)
            self.keys = replace(self.sentences, model=self.key)
            draw = torch.Generator().manual_seed(seed_of(seed, "queue"))
            width = how.width if how.projection != "none" else stack.width
            first = normalize(torch.randn(how.size, width, generator=draw))  # as MoCo begins
            self.register_buffer("queue", first.to(device))
            self.register_buffer("names", torch.zeros(how.size, dtype=torch.long, device=device))  # 0: no sentence
            self.register_buffer("pointer", torch.zeros((), dtype=torch.long, device=device))
        # Not part of a checkpoint: a run that goes on loads the same model first.
        self.start = [one.detach().clone() for one in model.parameters()] if how.pull else []

    @cached_property
    def slow_and_fast(self) -> tuple[list[Tensor], list[Tensor]]:
        """Weights of the key encoder and its projection, and those they follow."""
        fast = dict(self.stack.model.named_parameters())
        pairs = [(one, fast[name]) for name, one in self.key.named_parameters()]
        pairs += zip(self.key_projection.parameters(), self.projection.parameters(), strict=True)
        return [one for one, _ in pairs], [other for _, other in pairs]

    def after(self) -> None:
        """When the weights of a step have moved: the key encoder follows, and the keys of the step enter the queue."""
        if self.pending:
            follow(*self.slow_and_fast, momentum=self.how.momentum)
            keys, names = (torch.cat(some) for some in zip(*self.pending, strict=True))
            enqueue(self.queue, self.pointer, keys, names=(self.names, names))
            self.pending.clear()


def align_pairs(
    aligner: Aligner,
    pairs: Mapping[str, PairStream],
    *,
    borders: Borders,
    batch: int,
    longest: int,
    seed: int,
    mask_id: int,
    marks: Sequence[int],
    pool: Tensor,
    device: torch.device,
    exponent: float = 0.7,
    half: bool = False,
    compiled: bool = False,
    graphs: Mapping[str, Captured] | None = None,
) -> Objective:
    """The objective: `batch` pairs a step, groups of languages in proportion to their size to the power `exponent`.

    longest: tokens of a sequence at most; a longer pair is cut. mask_id, marks, pool: as `masking_of` gives them. half:
    whether arithmetic is in half precision, in which a GPU runs the rows end to end. graphs: of `graphs_of`, none where
    it is empty; by default on a GPU, where rows run end to end, of blocks that are compiled where `compiled` says so.
    """
    how, words = aligner.how, pool.to(device)
    sampler = PairSampler({name: len(one) for name, one in pairs.items()}, exponent=exponent, seed=seed)
    streams, padding = list(pairs.values()), padding_id(aligner.model)
    maskable = np.ones(max(aligner.model.config.vocab_size, 1 + max(marks, default=0)), dtype=bool)
    maskable[list(marks)] = False
    end_to_end = runs_packed(aligner.stack, device, half=half)
    if graphs is None:
        on_gpu = end_to_end and device.type == "cuda"
        graphs = graphs_of(aligner, rows=batch, longest=longest, compiled=compiled) if on_gpu else {}
    run = _Runner(aligner, borders, end_to_end, graphs)

    def draw(step: int) -> list[Part]:
        groups, numbers = sampler.rows(step, batch)
        sides = read_sides(streams, groups, numbers, coins(seed, step, batch) if how.shuffle else None)
        rows: dict[str, Tensor] = {}
        if how.tlm:
            whole = fill_pairs(sides, borders, padding, longest=longest)
            content = to_device(whole.content & maskable[whole.ids], device)
            draw_from = torch.Generator(device).manual_seed(seed_of(seed, "masks", step))
            found = mask(
                to_device(whole.ids, device), content, mask_id=mask_id, pool=words, generator=draw_from, share=how.share
            )
            rows |= {"inputs": found.inputs, "places": found.places, "labels": found.labels}
            rows |= {"lengths": torch.from_numpy(whole.lengths), "second": torch.from_numpy(whole.second)}
            # The loop divides by pairs; this makes of it the mean over the masked tokens of the whole batch.
            tokens = (found.labels != IGNORE).sum().clamp(min=1)
            rows["pairs_per_token"] = (batch / tokens).expand(batch)
        if how.contrastive:
            for sentences, name in zip(sides, ("query", "key"), strict=True):
                rows |= _tensors(fill_single(sentences, borders, padding), name, device)
                rows[f"{name}_names"] = to_device(sentence_names(sentences), device)
        return [Part(rows)]

    def loss(rows: Rows, name: str) -> Tensor:
        return run.loss(rows)

    return Objective(draw, loss, lambda rows: len(next(iter(rows.values()))), after=aligner.after)


def graphs_of(
    aligner: Aligner, *, rows: int, longest: int, compiled: bool = False, capture: Capture | None = None
) -> dict[str, Captured]:
    """The blocks of each pass of a step as CUDA graphs: `tlm`, `query` and `key`, those that there are.

    rows: pairs of a step; longest: most tokens of a sequence; compiled: blocks are compiled first. No two passes share
    a graph, though they may share the weights: the memory of one is read backwards after the others went forwards.
    """
    how, passes = aligner.how, dict[str, Stack]()
    if how.tlm:
        passes["tlm"] = aligner.stack
    if how.contrastive:
        passes |= {"query": aligner.sentences, "key": aligner.keys if how.queued else aligner.sentences}
    return {
        name: Captured(stack, rows=rows, longest=longest, compiled=compiled, capture=capture)
        for name, stack in passes.items()
    }


def coins(seed: int, step: int, batch: int) -> np.ndarray:
    """Which pairs of a step change sides, (batch,) bool: even chances, a function of the seed and the step."""
    return np.random.default_rng(seed_of(seed, "coins", step)).random(batch) < 0.5


def loss_probe(aligner: Aligner, *, every: int) -> Probe:
    """The mean loss of each term since it was last read: of TLM a masked token, of contrast a pair."""

    def take() -> list[Reading]:
        found = aligner.sums.tolist()
        aligner.sums.zero_()
        told = (("tlm", "token", *found[:2]), ("contrastive", "pair", *found[2:]))
        return [
            {"measure": "loss", "value": nats / count, "n": int(count), "unit": unit, "task": task}
            for task, unit, nats, count in told
            if count
        ]

    return Probe(every, take)


@dataclass(frozen=True)
class _Runner:
    """The loss of some rows, term by term."""

    aligner: Aligner
    borders: Borders
    end_to_end: bool
    graphs: Mapping[str, Captured]

    def loss(self, rows: Rows) -> Tensor:
        """The weighted sum of the terms over these rows, to be divided by the number of pairs."""
        aligner, how = self.aligner, self.aligner.how
        total = aligner.sums.new_zeros((), dtype=torch.float32)
        if how.tlm:
            nats = self.tlm(rows)
            total = total + how.tlm * nats * rows["pairs_per_token"][0]
            aligner.sums[0] += nats.detach()
            aligner.sums[1] += (rows["labels"] != IGNORE).sum()
        if how.contrastive:
            nats = self.contrast(rows)
            total = total + how.contrastive * nats
            aligner.sums[2] += nats.detach()
            aligner.sums[3] += len(rows["query"])
        if how.pull:
            count = len(next(iter(rows.values())))
            total = total + how.pull * count * distance(aligner.model.parameters(), aligner.start)
        return total

    def tlm(self, rows: Rows) -> Tensor:
        """Nats of the masked tokens, summed; the vocabulary is scored there only."""
        stack, how = self.aligner.stack, self.aligner.how
        states = row_states(
            stack, rows["inputs"], rows["lengths"], end_to_end=self.end_to_end, second=rows["second"], reset=how.reset,
            graphs=self.graphs.get("tlm"),
        )  # fmt: skip
        found = scores(self.aligner.model, stack.head_input(states.at(rows["places"])))
        return cross_entropy(
            found.float().flatten(0, 1), rows["labels"].flatten(), ignore_index=IGNORE, reduction="sum"
        )

    def contrast(self, rows: Rows) -> Tensor:
        """InfoNCE of these pairs, summed; keys that go into the queue are left in `pending`."""
        aligner, how = self.aligner, self.aligner.how
        names = rows["query_names"], rows["key_names"]
        query = self.vectors(aligner.sentences, aligner.projection, rows, "query")
        if how.negatives == "batch":
            keys = self.vectors(aligner.sentences, aligner.projection, rows, "key")
        else:
            with torch.no_grad():
                keys = self.vectors(aligner.keys, aligner.key_projection, rows, "key")
            aligner.pending.append((keys, names[1]))
        with torch.autocast(query.device.type, enabled=False):  # similarities of half precision are coarse
            if how.negatives == "batch":
                return batch_loss(query, keys, temperature=how.temperature, names=names)
            same = repeats(aligner.names, names)
            return queue_loss(query, keys, aligner.queue, temperature=how.temperature, same=same)

    def vectors(self, stack: Stack, projection: nn.Module, rows: Rows, side: str) -> Tensor:
        """Sentences of one side as vectors of length 1, (rows, width), float32."""
        lengths = rows[f"{side}_lengths"]
        states = row_states(stack, rows[side], lengths, end_to_end=self.end_to_end, graphs=self.graphs.get(side))
        if self.aligner.how.pool == "first":
            pooled = states.first()
        else:
            pooled = states.mean(lengths, before=len(self.borders.before), after=len(self.borders.after))
        return normalize(projection(pooled).float())


def _tensors(filled: Filled, name: str, device: torch.device) -> dict[str, Tensor]:
    return {name: to_device(filled.ids, device), f"{name}_lengths": torch.from_numpy(filled.lengths)}


def _projection(how: Alignment, width: int, seed: int) -> nn.Module:
    """Nothing, one linear layer, or two with a ReLU between (MoCo v2), drawn from the seed."""
    if how.projection == "none":
        return nn.Identity()
    with seeded(seed_of(seed, "projection")):
        last = nn.Linear(width, how.width)
        return last if how.projection == "linear" else nn.Sequential(nn.Linear(width, width), nn.ReLU(), last)


def _lower(stack: Stack, layer: int) -> nn.Module:
    """A copy of the encoder without what lies above a cut."""
    copied: Any = copy.deepcopy(stack.model)
    del module_at(copied, stack.family.blocks)[layer:]
    if "pooler" in copied._modules:
        copied._modules["pooler"] = None
    return copied
