"""Alignment after pretraining (Pan et al. 2021): TLM on words and contrast on sentences, of the same pairs, jointly.

    L = tlm * mean over masked tokens of TLM  +  contrastive * mean over pairs of InfoNCE  +  pull * |weights - start|

TLM predicts masked tokens of a sentence and its translation in one sequence, so that each can be told from the other
language. The contrastive loss asks that a sentence be nearer to its translation than to any other sentence. Momentum
contrast (MoCo, He et al. 2020) takes the others from a queue of translations of earlier steps, so that there can be
many more of them than a batch holds. They were encoded by a second encoder (of keys), whose weights follow the first
one's (of queries) slowly and which no gradient reaches, so the old ones still compare with the new. A coin decides,
pair by pair, which of the two sentences comes first and is the query.

A sentence that occurs again is no negative of itself: beside each vector the queue holds a hash of its tokens.

Everything that must survive a kill is in the module the loop trains: weights of both encoders, queue, pointer, sums of
losses.

A step has up to three passes: TLM, query and key. In each the sentences are laid out several to a row, where the family
allows, so that little padding is computed and a GPU can replay the whole step (`isogloss.training.cuda_graphs`).
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

TINY = 1e-24  # under the root of a distance, whose gradient at 0 is then 0 and not undefined


def queue_loss(
    queries: Tensor, keys: Tensor, queue: Tensor, *, temperature: float, same: Tensor | None = None
) -> Tensor:
    """InfoNCE with negatives from a queue, in nats, summed over the rows.

    queries, keys: (rows, d), row i of one translates row i of the other; queue: (size, d). For each row

        -log( exp(q.k / T) / (exp(q.k / T) + sum_j exp(q.queue_j / T)) )

    same: (rows, size) bool, which of the queue are left out of a row's sum, being the sentence itself again.

    >>> one = torch.tensor([[1.0, 0.0]])
    >>> round(float(queue_loss(one, one, torch.tensor([[0.0, 1.0]]), temperature=1.0)), 4)  # log(1 + exp(-1))
    0.3133
    """
    own = (queries * keys).sum(dim=1, keepdim=True)  # (rows, 1)
    others = queries @ queue.T if same is None else (queries @ queue.T).masked_fill(same, -torch.inf)
    scores = torch.cat([own, others], dim=1) / temperature  # (rows, 1 + size)
    right = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
    return cross_entropy(scores, right, reduction="sum")


def batch_loss(x: Tensor, y: Tensor, *, temperature: float, names: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """InfoNCE with the other pairs of the batch as negatives, in nats, summed over the rows.

    x, y: (rows, d). The mean of both directions: x_i among all y, and y_i among all x (Wu & Dredze 2020). names: of the
    sentences of x and of y, (rows,) each; one that is row i's own sentence again is no negative of it.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> round(float(batch_loss(x, x, temperature=1.0)), 4)  # two rows of log(1 + exp(-1))
    0.6265
    """
    scores = x @ y.T / temperature  # (rows, rows)
    right = torch.arange(len(x), device=x.device)
    total = scores.new_zeros(())
    for side, table in ((1, scores), (0, scores.T)):
        if names is not None:
            same = repeats(names[side], names).fill_diagonal_(False)
            table = table.masked_fill(same, -torch.inf)
        total = total + cross_entropy(table, right, reduction="sum")
    return total / 2


def repeats(candidates: Tensor, names: tuple[Tensor, Tensor]) -> Tensor:
    """Which candidates are either sentence of a pair again: (size,), two of (rows,) -> (rows, size) bool.

    Sentences are told by a number each, equal where their tokens are.

    >>> repeats(torch.tensor([5, 7, 6]), (torch.tensor([5]), torch.tensor([6]))).tolist()
    [[True, False, True]]
    """
    first, second = names
    return (candidates == first[:, None]) | (candidates == second[:, None])


@torch.no_grad()
def enqueue(queue: Tensor, pointer: Tensor, keys: Tensor, *, names: tuple[Tensor, Tensor] | None = None) -> None:
    """Put keys into the queue where the oldest are: first in, first out, going on at the beginning after the end.

    queue: (size, d), pointer: () int64, the place of the oldest, both changed in place; keys: (rows, d), rows at most
    size. names: those of the queue, (size,), changed likewise, and of the keys, (rows,). Nothing waits for the device.

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
    """How far weights are from where they began, all of them one vector: sqrt(sum (w - w0)^2).

    Its gradient has length 1 and points away from the beginning; at the beginning it is 0. As a penalty it is the L2
    pull of Wu & Dredze (2020), who take it with the coefficient 1 and not squared.

    >>> round(float(distance([torch.tensor([3.0])], [torch.tensor([0.0])])), 4)
    3.0
    """
    squares = [(weight - other).square().sum() for weight, other in zip(weights, origins, strict=True)]
    return (torch.stack(squares).sum() + TINY).sqrt()


def read_sides(
    streams: Sequence[PairStream], groups: np.ndarray, numbers: np.ndarray, swapped: np.ndarray | None = None
) -> list[PlainSentences]:
    """Both sides of some pairs.

    groups, numbers (rows,): the stream each is of, and its number there. swapped (rows,) bool: which change sides.
    """
    borders = np.empty((3, len(groups)), dtype=np.int64)
    for group in np.unique(groups).tolist():
        mine = groups == group
        borders[:, mine] = streams[group].begins[2 * numbers[mine] + np.arange(3)[:, None]]
    spans = np.stack([borders[:-1], np.diff(borders, axis=0)], axis=1)  # (2, 2, rows): begin and size of each side
    spans = spans if swapped is None else np.where(swapped, spans[::-1], spans)
    return [read_spans([stream.ids for stream in streams], groups, *span) for span in spans]


def fill(
    texts: Sequence[PlainSentences], borders: Borders, padding: int, *, longest: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of sentences between their marks, `[CLS]` a `[SEP]`, or of pairs, where two texts are given: a `[SEP]` b.

    longest: tokens of a pair at most; sentences are cut where they do not fit together, as `fitting` says. Returns ids
    (rows, longest), padded; content (rows, longest) bool, which are text; lengths (rows,); second (rows,), where the
    second sentence of a pair begins, with the marks that belong to it (the length of the row where there is none).
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
    """Lengths of two sentences that fit into the room together: the longer one is cut, then both to one half.

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
    sums = np.append(np.uint64(0), np.cumsum(mixed))  # beyond 64 bits they go on at 0, and differences stay right
    ends = np.cumsum(sizes)
    names = splitmix((sums[ends] - sums[ends - sizes]) ^ sizes.astype(np.uint64)).view(np.int64)
    return np.where(names == 0, 1, names)


Negatives = Literal["queue", "batch"]
Projection = Literal["none", "linear", "mlp"]
Pool = Literal["first", "mean"]


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """What is learned from pairs.

    tlm, contrastive, pull: weights of the three terms, 0 for none. layer: the cut sentences are compared at, and
    pooling how a sentence is made of its tokens: `first` or the `mean` of its content. projection: what lies between
    that and the loss, `projection_width` wide. negatives: from a queue of `queue` keys, whose encoder follows with
    `momentum`; or from the `batch`. shuffle: a coin decides which side comes first. reset_positions: positions begin
    again at the second sentence. mask_share: of the tokens, predicted by TLM.
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
        self.sentences, device = stack[: how.layer], stack.device
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.register_buffer("sums", torch.zeros(4, dtype=wide, device=device))  # nats and counts: TLM, contrast
        self.projection: nn.Module = nn.Identity()
        if how.contrastive and how.projection != "none":
            with seeded(seed_of(seed, "projection")):  # one linear layer, or two with a ReLU between (MoCo v2)
                last = nn.Linear(stack.width, how.projection_width)
                lower = () if how.projection == "linear" else (nn.Linear(stack.width, stack.width), nn.ReLU())
            self.projection = (nn.Sequential(*lower, last) if lower else last).to(device)
        self.pending: list[tuple[Tensor, Tensor]] = []  # keys of the step that is being computed, and their names
        if how.queued:
            # The key encoder is a copy without what lies above the cut.
            self.key, self.key_projection = copy.deepcopy(stack.model), copy.deepcopy(self.projection)
            del self.key.get_submodule(stack.family.blocks)[how.layer :]
            if "pooler" in self.key._modules:
                self.key._modules["pooler"] = None
            self.key.requires_grad_(False)
            self.key_projection.requires_grad_(False)
            self.keys = replace(self.sentences, model=self.key)
            # Weights of the key encoder and its projection, and those they follow.
            fast = dict(stack.model.named_parameters())
            pairs = [(weight, fast[name]) for name, weight in self.key.named_parameters()]
            pairs += zip(self.key_projection.parameters(), self.projection.parameters(), strict=True)
            self.slow_and_fast = [slow for slow, _ in pairs], [weight for _, weight in pairs]
            draw = torch.Generator().manual_seed(seed_of(seed, "queue"))
            width = how.projection_width if how.projection != "none" else stack.width
            first = normalize(torch.randn(how.queue, width, generator=draw))  # as MoCo begins
            self.register_buffer("queue", first.to(device))
            self.register_buffer("names", torch.zeros(how.queue, dtype=torch.long, device=device))  # 0: no sentence
            self.register_buffer("pointer", torch.zeros((), dtype=torch.long, device=device))
        # Not part of a checkpoint: a run that goes on loads the same model first.
        self.start = [weight.detach().clone() for weight in model.parameters()] if how.pull else []

    def vectors(self, rows: Rows, side: str) -> Tensor:
        """Sentences of one side, `query` or `key`, as vectors of length 1, (rows, width), float32."""
        keys = side == "key" and self.how.queued
        stack, projection = (self.keys, self.key_projection) if keys else (self.sentences, self.projection)
        table = {name.removeprefix(f"{side}_"): values for name, values in rows.items() if name.startswith(side)}
        count, (height, length) = len(table["names"]), table["ids"].shape
        numbers = torch.arange(height, device=table["ids"].device)  # of the rows, where each has one sentence
        with torch.set_grad_enabled(torch.is_grad_enabled() and not keys):
            states = stack.read_table(table).float()
            if self.how.pooling == "first":
                begins = table["begins"] if "begins" in table else numbers * length
                return normalize(projection(torch.index_select(states, 0, begins)).float())
            # The mean over each sentence without its special tokens, which are summed up in a place of their own.
            texts = table["texts"] if "texts" in table else numbers[:, None]
            owners = torch.where(table["content"], texts, count).flatten()
            sums = states.new_zeros((count + 1, states.shape[1])).index_add(0, owners, states)
            counts = states.new_zeros(count + 1).index_add(0, owners, torch.ones_like(states[:, 0]))
            return normalize(projection(sums[:-1] / counts[:-1, None]).float())

    def contrast(self, rows: Rows) -> Tensor:
        """InfoNCE of these pairs, summed; keys that go into the queue are left in `pending`."""
        names, temperature = (rows["query_names"], rows["key_names"]), self.how.temperature
        query, keys = self.vectors(rows, "query"), self.vectors(rows, "key")
        with torch.autocast(query.device.type, enabled=False):  # similarities of half precision are coarse
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
        """When the weights of a step have moved: the key encoder follows, and the keys of the step enter the queue."""
        if self.pending:
            # slow <- momentum * slow + (1 - momentum) * fast
            get_ema_multi_avg_fn(self.how.momentum)(*self.slow_and_fast, None)  # type: ignore[no-untyped-call]
            keys, names = map(torch.cat, zip(*self.pending, strict=True))
            enqueue(self.queue, self.pointer, keys, names=(self.names, names))
            self.pending.clear()

    def losses(self) -> list[Reading]:
        """The mean loss of each term since it was last read: of TLM a masked token, of contrast a pair."""
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
    """The objective: `batch` pairs a step, groups of languages in proportion to their size to the power `exponent`.

    longest: tokens of a sequence at most; a longer pair is cut. piece: pairs that run through the model together, where
    all of a batch do not fit. compiled: the blocks of both encoders are compiled.
    """
    if compiled:  # block by block: they have the same code, which is compiled once for all, and for every size
        for block in (*aligner.stack.blocks, *(aligner.keys.blocks if aligner.how.queued else ())):
            block.compile(dynamic=True)
    how, streams, padding = aligner.how, list(pairs.values()), padding_id(aligner.model)
    masks: dict[str, Any] = {"mask_id": masking.mask_id, "pool": masking.pool, "share": how.mask_share}
    sampler = ItemSampler({name: len(stream) for name, stream in pairs.items()}, exponent=exponent, seed=seed)
    maskable = masking.content(np.arange(aligner.model.config.vocab_size))
    shared = aligner.stack.tables

    def masked_pairs(sides: Sequence[PlainSentences], step: int) -> Iterator[dict[str, Any]]:
        """What TLM reads of a step, piece by piece: pairs that are masked together, so that pieces change nothing."""
        ids, content, lengths, second = fill(sides, borders, padding, longest=longest)
        generator = torch.Generator().manual_seed(seed_of(seed, "masks", step))
        inside = torch.from_numpy(content & maskable[ids])
        masked = mask(torch.from_numpy(ids), inside, generator=generator, **masks)
        places = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        text = places < lengths[:, None]
        types = ((places >= second[:, None]) & text).astype(np.int64)
        positions = np.where(types & how.reset_positions, places - second[:, None], places)
        # The loop divides by pairs; this makes of it the mean over the masked tokens of the whole batch.
        pairs_per_token = torch.full((batch,), batch / max(1, int((masked.labels != IGNORE).sum())))
        for part in pieces:
            some = Masked(masked.inputs[part], masked.places[part], masked.labels[part])
            if shared:
                values = {"types": types[part][text[part]], "positions": positions[part][text[part]]}
                rows: dict[str, Any] = dict(masked_table(some, lengths[part], padding=padding, **values))
            else:
                rows = vars(some) | {"types": types[part], "attention": text[part].astype(np.int64)}
                rows |= {"positions": positions[part]} if how.reset_positions else {}
            yield rows | {"pairs_per_token": pairs_per_token[part]}

    def sentence_rows(sentences: PlainSentences, side: str) -> Iterator[dict[str, Any]]:
        """What a pass over the sentences of one side reads, piece by piece."""
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
    return Objective(draw, aligner.loss, pair_count, before=forget, after=aligner.after, captured=shared)


def pair_count(rows: Rows) -> int:
    """How many pairs there are in the rows of a step."""
    return len(rows["pairs_per_token"] if "pairs_per_token" in rows else rows["query_names"])
