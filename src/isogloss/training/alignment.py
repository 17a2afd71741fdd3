"""Alignment after pretraining (Pan et al. 2021): TLM and a contrastive loss, trained jointly on the same pairs.

    L = tlm * mean over masked tokens of TLM  +  contrastive * mean over pairs of InfoNCE  +  pull * |weights - start|

TLM predicts masked tokens of a sentence and its translation in one sequence, so a token can be predicted from the other
language. The contrastive loss pulls a sentence closer to its translation than to any other sentence. Momentum contrast
(MoCo, He et al. 2020) takes these negatives from a queue of translations of earlier steps, so that there can be many
more of them than a batch holds. They are encoded by a second encoder (the key encoder), whose weights are a slow moving
average of the first one's (the query encoder) and receive no gradient, so old keys stay comparable with new ones. For
each pair, a coin decides which of the two sentences comes first and is the query.

A repeated sentence is never a negative of itself: the queue stores a hash of its tokens beside each vector.

All state needed to resume is in the module that the loop trains: the weights of both encoders, the queue, its pointer
and the sums of the losses.

A step has up to three passes: TLM, query and key. Where the model family allows, each pass packs several sentences into
a row, so that little padding is computed and a GPU can replay the whole step (`isogloss.training.cuda_graphs`).
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize
from torch.optim.swa_utils import get_ema_multi_avg_fn

from isogloss.seeds import seed_of, seeded
from isogloss.stack.stack import Stack
from isogloss.text.batches import layout_of, ranges
from isogloss.text.masking import IGNORE, Masked, Masking, mask
from isogloss.text.sampling import ItemSampler, splitmix
from isogloss.text.streams import Borders, PairStream, PlainSentences, lay_out, read_spans
from isogloss.training.language_modelling import coins, masked_table, padding_id, token_loss
from isogloss.training.loop import Objective, Part, Rows, to_device
from isogloss.training.probes import Reading

TINY = 1e-24  # added under the square root of a distance, so that its gradient at 0 is 0 and not undefined


def queue_loss(
    queries: Tensor, keys: Tensor, queue: Tensor, *, temperature: float, same: Tensor | None = None
) -> Tensor:
    """InfoNCE with negatives from a queue, in nats, summed over the rows.

    queries, keys: (rows, d), whose rows i are translations of each other; queue: (size, d). For each row

        -log( exp(q.k / T) / (exp(q.k / T) + sum_j exp(q.queue_j / T)) )

    same: (rows, size) bool, the queue entries left out of a row's sum because they are the same sentence.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(queue_loss(one, one, torch.tensor([[0.0, 1.0]]), temperature=1.0)), 4)  # log(1 + exp(-1))
    0.3133
    """
    positives = (queries * keys).sum(dim=1, keepdim=True)  # (rows, 1)
    negatives = queries @ queue.T if same is None else (queries @ queue.T).masked_fill(same, -torch.inf)
    scores = torch.cat([positives, negatives], dim=1) / temperature  # (rows, 1 + size)
    targets = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
    return cross_entropy(scores, targets, reduction="sum")


def batch_loss(x: Tensor, y: Tensor, *, temperature: float, names: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """InfoNCE with the other pairs of the batch as negatives, in nats, summed over the rows.

    x, y: (rows, d). The mean of both directions: x_i among all y, and y_i among all x (Wu & Dredze 2020). names: hashes
    of the sentences of x and of y, (rows,) each; a repetition of row i's sentence is not a negative of it.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(batch_loss(x, x, temperature=1.0)), 4)  # two rows of log(1 + exp(-1))
    0.6265
    """
    scores = x @ y.T / temperature  # (rows, rows)
    targets = torch.arange(len(x), device=x.device)
    total = scores.new_zeros(())
    for side, table in ((1, scores), (0, scores.T)):
        if names is not None:
            same = repeats(names[side], names).fill_diagonal_(False)
            table = table.masked_fill(same, -torch.inf)
        total = total + cross_entropy(table, targets, reduction="sum")
    return total / 2


def repeats(candidates: Tensor, names: tuple[Tensor, Tensor]) -> Tensor:
    """Which candidates repeat either sentence of a pair: candidates (size,), names two of (rows,) -> (rows, size) bool.

    A sentence is identified by a number, which is equal for equal tokens.

    >>> repeats(torch.tensor([5, 7, 6]), (torch.tensor([5]), torch.tensor([6]))).tolist()
    [[True, False, True]]
    """
    first, second = names
    return (candidates == first[:, None]) | (candidates == second[:, None])


@torch.no_grad()
def enqueue(queue: Tensor, pointer: Tensor, keys: Tensor, *, names: tuple[Tensor, Tensor] | None = None) -> None:
    """Replace the oldest entries of a circular queue by new keys.

    queue: (size, d), pointer: () int64, the index of the oldest entry, both changed in place; keys: (rows, d), at most
    size. names: those of the queue, (size,), also changed in place, and of the keys, (rows,). No device sync happens.

    >>> queue, pointer = torch.zeros(3, 1), torch.tensor(2)
    >>> enqueue(queue, pointer, torch.tensor([[1.0], [2.0]]))
    >>> queue.flatten().tolist(), int(pointer)
    ([2.0, 0.0, 1.0], 1)
    """
    places = (pointer + torch.arange(len(keys), device=queue.device)) % len(queue)
    queue.index_copy_(0, places, keys.to(queue.dtype))
    if names is not None:
        names[0].index_copy_(0, places, names[1])
    pointer.copy_((pointer + len(keys)) % len(queue))


def distance(weights: Iterable[Tensor], origins: Iterable[Tensor]) -> Tensor:
    """L2 distance of the weights, taken as one vector, from their initial values: sqrt(sum (w - w0)^2).

    Its gradient has length 1 and points away from the initial weights, where it is 0. As a penalty it is the L2
    regularisation of Wu & Dredze (2020), who use the coefficient 1 and do not square it.

    >>> round(float(distance([torch.tensor([3.0])], [torch.tensor([0.0])])), 4)
    3.0
    """
    squares = [(weight - other).square().sum() for weight, other in zip(weights, origins, strict=True)]
    return (torch.stack(squares).sum() + TINY).sqrt()


def read_sides(
    streams: Sequence[PairStream], groups: np.ndarray, numbers: np.ndarray, swapped: np.ndarray | None = None
) -> list[PlainSentences]:
    """Token ids of both sides of the selected pairs.

    groups, numbers (rows,): the stream of each pair, and its index there. swapped (rows,) bool: pairs to swap.
    """
    borders = np.empty((3, len(groups)), dtype=np.int64)
    for group in np.unique(groups).tolist():
        chosen = groups == group
        borders[:, chosen] = streams[group].begins[2 * numbers[chosen] + np.arange(3)[:, None]]
    spans = np.stack([borders[:-1], np.diff(borders, axis=0)], axis=1)  # (2, 2, rows): begin and size of each side
    spans = spans if swapped is None else np.where(swapped, spans[::-1], spans)
    return [read_spans([stream.ids for stream in streams], groups, *span) for span in spans]


def fill(
    texts: Sequence[PlainSentences], borders: Borders, padding: int, *, longest: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Padded rows of sentences with special tokens: `[CLS]` a `[SEP]`, or for two texts `[CLS]` a `[SEP]` b `[SEP]`.

    longest: maximum tokens of a pair; longer pairs are truncated by `fitting`. Returns ids (rows, longest), padded;
    content (rows, longest) bool, which tokens are text; lengths (rows,); second (rows,), where the second sentence of a
    pair and its special tokens begin (the length of the row if there is none).
    """
    marks = borders[len(texts)]
    if longest is not None:
        sizes_in_room = fitting(texts[0][1], texts[1][1], longest - sum(map(len, marks)))
        texts = [
            (ids[ranges(np.cumsum(sizes) - sizes, fitted)], fitted)
            for (ids, sizes), fitted in zip(texts, sizes_in_room, strict=True)
        ]
    lengths = sum((sizes for _, sizes in texts), np.array(sum(map(len, marks))))
    shape = len(lengths), int(lengths.max())
    ids, _, _, types, content = lay_out(texts, np.arange(shape[0]) * shape[1], shape, marks, padding=padding)
    return ids.astype(np.int64), content.astype(bool), lengths, lengths - types.sum(axis=1)


def fitting(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths to which two sentences are truncated to fit into `room`: the longer one first, then both to one half.

    >>> fitting(np.array([3, 3, 8]), np.array([4, 9, 9]), 10)
    (array([3, 3, 5]), array([4, 7, 5]))
    """
    fitted = np.minimum(first, np.maximum(room - second, room - room // 2))
    return fitted, np.minimum(second, room - fitted)


def sentence_names(sentences: PlainSentences) -> np.ndarray:
    """A number for each sentence, (sentences,) int64: a hash of its token ids and their order, never 0.

    >>> names = sentence_names((np.array([7, 8, 8, 7, 7, 8]), np.array([2, 2, 2])))
    >>> bool(names[0] == names[2]), bool(names[0] == names[1])
    (True, False)
    """
    ids, sizes = sentences
    places = ranges(np.zeros_like(sizes), sizes).astype(np.uint64)
    mixed = splitmix(splitmix(ids.astype(np.uint64)) ^ places)
    sums = np.append(np.uint64(0), np.cumsum(mixed))  # sums wrap around at 64 bits, which leaves differences right
    ends = np.cumsum(sizes)
    names = splitmix((sums[ends] - sums[ends - sizes]) ^ sizes.astype(np.uint64)).view(np.int64)
    return np.where(names == 0, 1, names)


Negatives = Literal["queue", "batch"]
Projection = Literal["none", "linear", "mlp"]
Pool = Literal["first", "mean"]


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """The alignment objective.

    tlm, contrastive, pull: weights of the three terms, 0 to leave one out. layer: the cut at which sentences are
    compared. pooling: the `first` token or the `mean` of the content tokens. projection: the head between the pooled
    vector and the loss, with output width `projection_width`. negatives: from a `queue` of keys, whose encoder has the
    given `momentum`, or from the `batch`. shuffle: draw at random which side comes first. reset_positions: restart
    positions at the second sentence. mask_share: share of the tokens that TLM masks.
    """

    layer: int
    tlm: float = 1.0
    contrastive: float = 1.0
    pull: float = 0.0
    negatives: Negatives = "queue"
    queue: int = 65_536
    momentum: float = 0.999
    temperature: float = 0.07
    projection: Projection = "mlp"
    projection_width: int = 128
    pooling: Pool = "first"
    shuffle: bool = True
    reset_positions: bool = False
    mask_share: float = 0.15

    @property
    def queued(self) -> bool:
        """Whether there is a second encoder and a queue."""
        return bool(self.contrastive) and self.negatives == "queue"


class Aligner(nn.Module):
    """A masked LM in alignment training, with its projection, key encoder, queue and sums of losses.

    stack: the stack of a `...ForMaskedLM`, which is changed in place.
    """

    queue: Tensor
    names: Tensor
    pointer: Tensor
    sums: Tensor

    def __init__(self, stack: Stack, how: Alignment, *, seed: int) -> None:
        super().__init__()
        self.model, self.how, self.stack = stack.language_model, how, stack
        self.sentences, device = stack[: how.layer], stack.device
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.register_buffer("sums", torch.zeros(4, dtype=wide, device=device))  # nats and counts: TLM, contrast
        self.projection: nn.Module = nn.Identity()
        if how.contrastive and how.projection != "none":
            with seeded(seed_of(seed, "projection")):  # one linear layer, or two with a ReLU between (MoCo v2)
                last = nn.Linear(stack.width, how.projection_width)
                lower = () if how.projection == "linear" else (nn.Linear(stack.width, stack.width), nn.ReLU())
            self.projection = (nn.Sequential(*lower, last) if lower else last).to(device)
        self.pending: list[tuple[Tensor, Tensor]] = []  # keys of the current step, and their names
        if how.queued:
            # The key encoder is a copy without the modules above the cut.
            self.key, self.key_projection = copy.deepcopy(stack.model), copy.deepcopy(self.projection)
            del self.key.get_submodule(stack.family.blocks)[how.layer :]
            if "pooler" in self.key._modules:
                self.key._modules["pooler"] = None
            self.key.requires_grad_(False)
            self.key_projection.requires_grad_(False)
            self.keys = replace(self.sentences, model=self.key)
            # Weights of the key encoder and its projection, and the trained weights they average.
            fast = dict(stack.model.named_parameters())
            pairs = [(weight, fast[name]) for name, weight in self.key.named_parameters()]
            pairs += zip(self.key_projection.parameters(), self.projection.parameters(), strict=True)
            self.slow_and_fast = [slow for slow, _ in pairs], [weight for _, weight in pairs]
            draw = torch.Generator().manual_seed(seed_of(seed, "queue"))
            width = how.projection_width if how.projection != "none" else stack.width
            first = normalize(torch.randn(how.queue, width, generator=draw))  # as in MoCo
            self.register_buffer("queue", first.to(device))
            self.register_buffer("names", torch.zeros(how.queue, dtype=torch.long, device=device))  # 0: no sentence
            self.register_buffer("pointer", torch.zeros((), dtype=torch.long, device=device))
        # Not part of a checkpoint: a resumed run loads the same model first.
        self.start = [weight.detach().clone() for weight in self.model.parameters()] if how.pull else []

    def vectors(self, rows: Rows, side: str) -> Tensor:
        """Unit vectors of the sentences of one side, `query` or `key`: (rows, width), float32."""
        keys = side == "key" and self.how.queued
        stack, projection = (self.keys, self.key_projection) if keys else (self.sentences, self.projection)
        table = {name.removeprefix(f"{side}_"): values for name, values in rows.items() if name.startswith(side)}
        count, (height, length) = len(table["names"]), table["ids"].shape
        numbers = torch.arange(height, device=table["ids"].device)  # of the rows, if each has one sentence
        with torch.set_grad_enabled(torch.is_grad_enabled() and not keys):
            states = stack.read_table(table).float()
            if self.how.pooling == "first":
                begins = table["begins"] if "begins" in table else numbers * length
                return normalize(projection(torch.index_select(states, 0, begins)).float())
            # The mean over each sentence's content; special tokens are summed in an extra last row.
            texts = table["texts"] if "texts" in table else numbers[:, None]
            owners = torch.where(table["content"], texts, count).flatten()
            sums = states.new_zeros((count + 1, states.shape[1])).index_add(0, owners, states)
            counts = states.new_zeros(count + 1).index_add(0, owners, torch.ones_like(states[:, 0]))
            return normalize(projection(sums[:-1] / counts[:-1, None]).float())

    def contrast(self, rows: Rows) -> Tensor:
        """InfoNCE of these pairs, summed; keys for the queue are appended to `pending`."""
        names, temperature = (rows["query_names"], rows["key_names"]), self.how.temperature
        query, keys = self.vectors(rows, "query"), self.vectors(rows, "key")
        with torch.autocast(query.device.type, enabled=False):  # half precision is too coarse for similarities
            if not self.how.queued:
                return batch_loss(query, keys, temperature=temperature, names=names)
            self.pending.append((keys, names[1]))
            return queue_loss(query, keys, self.queue, temperature=temperature, same=repeats(self.names, names))

    def loss(self, rows: Rows, name: str) -> Tensor:
        """The weighted sum of the terms over these rows, to be divided by the number of pairs."""
        how, total = self.how, self.sums.new_zeros((), dtype=torch.float32)
        if how.tlm:
            nats = token_loss(self.model, rows)
            total = total + how.tlm * nats * rows["pairs_per_token"][0]
            self.sums[0] += nats.detach()
            self.sums[1] += (rows["labels"] != IGNORE).sum()
        if how.contrastive:
            nats = self.contrast(rows)
            total = total + how.contrastive * nats
            self.sums[2] += nats.detach()
            self.sums[3] += pair_count(rows)
        if how.pull:
            total = total + how.pull * pair_count(rows) * distance(self.model.parameters(), self.start)
        return total

    def after(self) -> None:
        """After each optimiser step: update the key encoder, and add the keys of the step to the queue."""
        if self.pending:
            # slow <- momentum * slow + (1 - momentum) * fast
            get_ema_multi_avg_fn(self.how.momentum)(*self.slow_and_fast, None)  # type: ignore[no-untyped-call]
            keys, names = map(torch.cat, zip(*self.pending, strict=True))
            enqueue(self.queue, self.pointer, keys, names=(self.names, names))
            self.pending.clear()

    def losses(self) -> list[Reading]:
        """The mean loss since the last call: of TLM per masked token, of the contrastive term per pair."""
        sums = self.sums.tolist()
        self.sums.zero_()
        terms = (("tlm", "token", *sums[:2]), ("contrastive", "pair", *sums[2:]))
        return [
            {"measure": "loss", "value": nats / count, "n": int(count), "unit": unit, "task": task}
            for task, unit, nats, count in terms
            if count
        ]


def align_pairs(
    aligner: Aligner,
    pairs: Mapping[str, PairStream],
    *,
    borders: Borders,
    batch: int,
    longest: int,
    seed: int,
    masking: Masking,
    device: torch.device,
    exponent: float = 0.7,
    piece: int | None = None,
    compiled: bool = False,
) -> Objective:
    """The objective: `batch` pairs a step, language groups sampled in proportion to size ** `exponent`.

    longest: maximum tokens of a sequence; longer pairs are truncated. piece: pairs in one forward pass, if a whole
    batch does not fit into memory. compiled: compile the blocks of both encoders.
    """
    if compiled:  # block by block: their code is the same, so it is compiled once, for every block and size
        for block in (*aligner.stack.blocks, *(aligner.keys.blocks if aligner.how.queued else ())):
            block.compile(dynamic=True)
    how, streams, padding = aligner.how, list(pairs.values()), padding_id(aligner.model)
    masks: dict[str, Any] = {"mask_id": masking.mask_id, "pool": masking.pool, "share": how.mask_share}
    sampler = ItemSampler({name: len(stream) for name, stream in pairs.items()}, exponent=exponent, seed=seed)
    maskable = masking.content(np.arange(aligner.model.config.vocab_size))
    shared = aligner.stack.tables

    def masked_pairs(sides: Sequence[PlainSentences], step: int) -> Iterator[dict[str, Any]]:
        """TLM inputs of a step, piece by piece; pairs are masked together, so that pieces change nothing."""
        ids, content, lengths, second = fill(sides, borders, padding, longest=longest)
        generator = torch.Generator().manual_seed(seed_of(seed, "masks", step))
        inside = torch.from_numpy(content & maskable[ids])
        masked = mask(torch.from_numpy(ids), inside, generator=generator, **masks)
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        text = places < lengths[:, None]
        types = ((places >= second[:, None]) & text).astype(np.int64)
        positions = np.where(types & how.reset_positions, places - second[:, None], places)
        # The loop divides by pairs; this factor makes it the mean over the masked tokens of the whole batch.
        pairs_per_token = torch.full((batch,), batch / max(1, int((masked.labels != IGNORE).sum())))
        for part in pieces:
            masked_part = Masked(masked.inputs[part], masked.places[part], masked.labels[part])
            if shared:
                values = {"types": types[part][text[part]], "positions": positions[part][text[part]]}
                rows: dict[str, Any] = dict(masked_table(masked_part, lengths[part], padding=padding, **values))
            else:
                rows = vars(masked_part) | {"types": types[part], "attention": text[part].astype(np.int64)}
                rows |= {"positions": positions[part]} if how.reset_positions else {}
            yield rows | {"pairs_per_token": pairs_per_token[part]}

    def sentence_rows(sentences: PlainSentences, side: str) -> Iterator[dict[str, Any]]:
        """Inputs of a pass over the sentences of one side, piece by piece."""
        ids, content, lengths, _ = fill([sentences], borders, padding)
        text, names = np.arange(ids.shape[1]) < lengths[:, None], sentence_names(sentences)
        for part in pieces:
            rows = {"ids": ids[part], "content": content[part], "attention": text[part].astype(np.int64)}
            if shared:
                table, sizes, own = layout_of(lengths[part]), lengths[part], text[part]
                rows = {"ids": table.spread(ids[part][own], padding), "content": table.spread(content[part][own]) > 0}
                rows |= {"texts": table.texts, "positions": table.positions}
                rows["begins"] = table.slots[np.cumsum(sizes) - sizes]
            yield {f"{side}_{name}": values for name, values in (rows | {"names": names[part]}).items()}

    pieces = [slice(start, start + (piece or batch)) for start in range(0, batch, piece or batch)]

    def draw(step: int) -> list[Part]:
        groups, numbers = sampler.rows(step, batch)
        sides = read_sides(streams, groups, numbers, coins(seed, step, batch) if how.shuffle else None)
        passes = [masked_pairs(sides, step)] if how.tlm else []
        passes += map(sentence_rows, sides, ("query", "key")) if how.contrastive else []
        parts = ({name: rows[name] for rows in part for name in rows} for part in zip(*passes, strict=True))
        return [Part({name: to_device(values, device) for name, values in rows.items()}) for rows in parts]

    forget = aligner.pending.clear
    return Objective(
        draw, aligner.loss, pair_count, before=forget, after=aligner.after, captured=shared, compiled=compiled
    )


def pair_count(rows: Rows) -> int:
    """The number of pairs in the rows of a step."""
    return len(rows["pairs_per_token"] if "pairs_per_token" in rows else rows["query_names"])
