"""Extract vectors of sentences, words or tokens from text at any set of cuts, as a stream.

Each cut is pooled as soon as it is computed, so that memory never holds all layers of all tokens of a batch. Sentences
are read in chunks; within a chunk a repeated sentence runs once (every premise of XNLI occurs three times in its
files), the others are grouped by length, and vectors are returned in the original order. Special tokens and padding
never enter a mean, and the other sentences of a batch change nothing but rounding.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.inputs import double
from isogloss.progress import progress
from isogloss.stack.stack import Chain, Part, Stack, measuring
from isogloss.text.batches import Batch, Unit, batch_tokens, encode, group, ranges
from isogloss.text.corpora import Corpus, shortened
from isogloss.text.words import words_of

Pooling = Literal["mean", "weighted", "last", "first"]
UNITS: tuple[Unit, ...] = get_args(Unit)
DWARFS = 5  # a state of at least this many times the layer's median norm is a sink
FEW = 0.4  # largest share of tokens after the first that may be sinks, or their median would be that of sinks
PROBED = 32  # sentences of a language that are searched for sinks
SINK_WEIGHT = 1e-12  # of a word that is a sink, in the mean of its type: it counts only if the type has no other use


@dataclass(frozen=True)
class Vectors:
    """The vectors of one chunk of sentences.

    values[unit]: (layers, items, width), float32, on the stack's device. items[unit]: (items, 2), the sentence's row in
    the corpus and the index of the word or content token in it (0 for a sentence). shortened: rows of sentences
    truncated to the model's length.
    """

    rows: list[int]
    values: Mapping[Unit, Tensor]
    items: Mapping[Unit, Tensor]
    shortened: list[int]


@dataclass(frozen=True)
class Sinks:
    """Attention sinks of a layer: tokens whose states are so large that they dominate the mean of a sentence.

    share: their share of the content tokens. times: the largest norm divided by the median norm. first: the share of
    sinks that are the first token of their sentence. limit: the norm from which a state is a sink.
    """

    share: float
    times: float
    first: float
    limit: float


def check_corpus(given: Any) -> None:
    """Raise for anything but a `Corpus`: plain sentences do not have a language, which determines their words."""
    if not isinstance(given, Corpus):
        raise InputError(f"sentences are given as a Corpus, as in Corpus('en', sentences), not {shortened(given)}")


def stream(
    stack: Stack | Chain,
    corpus: Corpus,
    *,
    layers: Sequence[int] | None = None,
    units: Sequence[Unit] = ("sentence",),
    pool: Pooling = "mean",
    pooling: Pooling = "mean",
    sinks: Mapping[int, Sinks] | None = None,
    rows: Sequence[int] | None = None,
    part: Part = "states",
    chunk: int = 2048,
    tokens: int | None = None,
    encoding: Callable[..., Batch] = encode,
) -> Iterator[Vectors]:
    """Vectors of a corpus, chunk by chunk, in the order of `rows`.

    Args:
        stack: the model.
        corpus: the text.
        layers: cuts to read; all by default.
        units: any of "sentence", "first", "word", "token", see `vectors`.
        pool: how the subwords of a word are pooled, with the same options as `pooling`.
        pooling: how the tokens of a sentence are pooled, see `vectors`.
        sinks: by layer, tokens to leave out of the mean of a sentence, from `find_sinks`; they are kept if a sentence
            has no other tokens.
        rows: sentences of the corpus; all by default.
        part: "attention" reads, instead of the states after a block, what its attention adds to them.
        chunk: sentences in a chunk.
        tokens: padded tokens in a batch, which bounds memory; the default suits the device.
        encoding: tokenizes sentences, with the parameters of `isogloss.text.batches.encode`.
    """
    check_corpus(corpus)
    asked = [("pool", pool, POOLINGS), ("pooling", pooling, POOLINGS), *(("unit", unit, UNITS) for unit in units)]
    for name, value, known in asked:
        require(value in known, f"{name} {value!r} is not known; choose {', '.join(known)}")
    options: dict[str, Any] = {} if part == "states" else {"part": part}
    wanted = list(stack.cuts_of(part) if layers is None else layers)
    order = list(range(len(corpus)) if rows is None else rows)
    budget = tokens or batch_tokens(stack.device, padded=not stack.packs)

    def pooled_by_unit(numbered: Mapping[Unit, tuple[Tensor, Tensor]], cut: int, states: Tensor) -> dict[Unit, Tensor]:
        pooled = {}
        for unit, (items, owners) in numbered.items():
            reduce = POOLINGS[{"sentence": pooling, "word": pool}.get(unit, "mean")]
            pooled[unit] = reduce(states, owners, len(items))
            if unit == "sentence" and sinks and cut in sinks:
                others = torch.where(states.float().norm(dim=1) < sinks[cut].limit, owners, -1)
                without = reduce(states, others, len(items))
                pooled[unit] = torch.where(without.isnan(), pooled[unit], without)
        return pooled

    def read(rows: list[int], before: int) -> Vectors:
        """Vectors of these rows in their order; before: the number of rows already read."""
        distinct: list[int] = []  # rows of distinct sentences
        copies: list[int] = []  # for every row, the index of its sentence in `distinct`
        seen: dict[Any, int] = {}
        for row in rows:
            spans = None if corpus.words is None else tuple(corpus.words[row])
            copies.append(seen.setdefault((corpus.sentences[row], spans), len(distinct)))
            if copies[-1] == len(distinct):
                distinct.append(row)
        whole = encoding(stack.tokenizer, corpus, distinct, max_length=stack.max_length, words="word" in units)
        sizes = torch.zeros(len(whole), dtype=torch.long)
        sizes.index_add_(0, whole.sentence_of_tokens(), whole.content.long())
        if not bool(sizes.all()):
            row = int(whole.rows[int(torch.nonzero(sizes == 0)[0])])
            raise InputError(
                f"{corpus.title}: nothing is left of sentence {row + 1} ({corpus.sentences[row]!r}) "
                "after tokenisation; remove it on every side"
            )
        numbers: list[int] = []  # indices of the distinct sentences, in the order in which they are run
        pooled: dict[Unit, list[Tensor]] = {unit: [] for unit in units}  # (layers, items of a batch, width) each
        items: dict[Unit, list[Tensor]] = {unit: [] for unit in units}
        for members in group(whole.lengths.tolist(), tokens=budget):
            batch = whole.take(members).to(stack.device)
            kinds: dict[Unit, Unit] = {"sentence": "first" if pooling == "first" else "sentence"}
            numbered = {unit: batch.items(kinds.get(unit, unit)) for unit in units}
            with measuring(stack.model):
                states = stack.read(batch, wanted, reduce=partial(pooled_by_unit, numbered), **options)
            for unit, (own_items, _) in numbered.items():
                pooled[unit].append(torch.stack([states[layer][unit] for layer in wanted]))
                items[unit].append(own_items.cpu() + torch.tensor([len(numbers), 0]))
            numbers += members
            progress(f"reading {corpus.language}", before + int(len(rows) * len(numbers) / len(distinct)), len(order))
        sentences = torch.argsort(torch.tensor(numbers))[copies]  # (rows,): index in the order of running
        ordered = {unit: _in_order(pooled.pop(unit), torch.cat(items[unit]), sentences, rows) for unit in units}
        cut = torch.as_tensor(rows)[whole.shortened[copies]]
        values, own = ({unit: pair[side] for unit, pair in ordered.items()} for side in (0, 1))
        if before == 0:
            odd = [layer for layer, own in zip(wanted, values[units[0]], strict=True) if not own.isfinite().all()]
            damaged = "its weights are damaged, or its precision is too low"
            require(
                not odd, f"{stack.name} gives states that are no numbers from layer {min(odd, default=0)} on: {damaged}"
            )
        return Vectors(rows, values, own, cut.tolist())

    # A generator expression, since a local variable would keep a chunk in memory while the next one is computed.
    return (read(order[start : start + chunk], start) for start in range(0, len(order), chunk))


def vectors(
    stack: Stack | Chain,
    corpus: Corpus | Sequence[str],
    *,
    layers: Sequence[int] | None = None,
    unit: Unit = "sentence",
    pool: Pooling = "mean",
    pooling: Pooling = "mean",
    keep_sinks: bool = True,
) -> Tensor:
    """Vectors of a corpus at every cut, or at `layers`: (layers, items, width), float32, on the CPU.

    A word that is truncated entirely has no vector; `stream` also returns the word of each vector.

    Args:
        stack: the model.
        corpus: the text; a list of sentences is accepted, unless the unit is "word", which requires their language.
        layers: cuts to read; all by default.
        unit: "sentence" (its tokens pooled by `pooling`), "first" (the first token of a sentence, such as [CLS]),
            "word" or "token" (content tokens in order).
        pool: how the subwords of a word are pooled, with the same options as `pooling`.
        pooling: how the tokens of a sentence are pooled: "mean" of its content tokens, "weighted" by position (the i-th
            content token counts i times, since in a decoder later tokens have more context), "last" content token, or
            "first" token, as the unit "first".
        keep_sinks: whether attention sinks, tokens whose states dwarf all others, stay in the mean of a sentence;
            `find_sinks` says where there are any.

    >>> vectors(stack, en).shape  # doctest: +SKIP
    torch.Size([13, 224, 384])
    """
    require(not isinstance(stack, str), f"vectors are read from a loaded model; give isogloss.load({stack!r})")
    require(not isinstance(layers, int), f"layers is a list of cuts; give layers=[{layers}]")
    if isinstance(corpus, list | tuple) and unit != "word":
        corpus = Corpus("", list(corpus))
    check_corpus(corpus)
    corpus = cast(Corpus, corpus)
    require(len(corpus) > 0, f"{corpus.title} is empty")
    wanted = list(stack.cuts if layers is None else layers)
    sinks = {} if keep_sinks else find_sinks(stack, [corpus], layers=wanted, rows=range(len(corpus)))
    chunks = stream(stack, corpus, layers=wanted, units=(unit,), pool=pool, pooling=pooling, sinks=sinks)
    return _on_the_host(
        (chunk.values[unit] for chunk in chunks), len(corpus) if unit in ("sentence", "first") else None
    )


def _on_the_host(chunks: Iterator[Tensor], count: int | None) -> Tensor:
    """Join chunks (layers, items, width) on the CPU; each is copied from a GPU while the next one is computed there.

    count: the number of all items, if it is known before.
    """
    whole, parts = torch.empty(0), list[Tensor]()
    copying: Future[None] | None = None
    with ThreadPoolExecutor(1) as thread:
        for values in chunks:
            layers, items, width = values.shape
            host: dict[str, Any] = {"dtype": values.dtype, "device": "cpu"}
            done = sum(part.shape[1] for part in parts)
            if count is not None and not parts:
                whole = torch.empty((layers, count, width), **host)
            parts.append(torch.empty(values.shape, **host) if count is None else whole[:, done : done + items])
            if not values.is_cuda:
                parts[-1].copy_(values)
                continue
            if copying is not None:  # one at a time, so that few chunks are in the GPU's memory
                copying.result()
            ready = torch.cuda.current_stream(values.device).record_event()
            copying = thread.submit(_copy, values.detach(), parts[-1], ready)
        if copying is not None:
            copying.result()
    return torch.cat(parts, dim=1) if count is None else whole


def _copy(values: Tensor, room: Tensor, ready: torch.cuda.Event) -> None:
    """Copy values (layers, items, width) from a GPU, layer by layer, when `ready` is reached there and not later.

    They pass through pinned memory: the driver would copy to other memory with a single thread.
    """
    stream: Any = torch.cuda.Stream(values.device)  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream), torch.inference_mode(room.is_inference()):  # a thread has a mode of its own
        ready.wait()
        pinned = torch.empty(values.shape[1:], dtype=values.dtype, pin_memory=True)
        for own, layer in zip(values, room, strict=True):
            layer.copy_(pinned.copy_(own))


def _in_order(batches: list[Tensor], items: Tensor, sentences: Tensor, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Reorder the values and items of all batches into the order of the rows.

    batches: (layers, items of a batch, width) each; items (items, 2): the sentence of each, counted over all batches,
    and its index there; sentences (rows,): the sentence of each row.
    """
    borders = torch.searchsorted(items[:, 0].contiguous(), torch.arange(int(sentences.max()) + 2))
    sizes = borders[sentences + 1] - borders[sentences]
    chosen = torch.from_numpy(ranges(borders[sentences].numpy(), sizes.numpy()))
    values = batches[0].new_empty((len(batches[0]), len(chosen), batches[0].shape[2]))
    start = 0
    for batch in batches:  # `torch.cat(batches, dim=1)[:, chosen]` without a copy of all batches
        here = torch.nonzero((chosen >= start) & (chosen < start + batch.shape[1])).flatten()
        values[:, here.to(batch.device)] = batch[:, (chosen[here] - start).to(batch.device)]
        start += batch.shape[1]
    return values, torch.stack([torch.repeat_interleave(torch.as_tensor(rows), sizes), items[chosen, 1]], dim=1)


def mean_by_group(states: Tensor, groups: Tensor, count: int) -> Tensor:
    """Mean of the rows of each group, in float32.

    states: (tokens, d); groups: (tokens,) group of each row, -1 for rows that belong to none; returns (count, d). The
    mean of a group without rows is NaN.

    >>> mean_by_group(torch.tensor([[1.], [3.], [9.]]), torch.tensor([0, 0, -1]), 1)
    tensor([[2.]])
    """
    # Rows of no group are summed as well and dropped: faster than selecting the others from wide states.
    sums = torch.zeros((count + 1, states.shape[1]), dtype=torch.float32, device=states.device)
    sums.index_add_(0, groups + 1, states.float())
    sizes = torch.bincount(groups + 1, minlength=count + 1)
    return sums[1:] / sizes[1:].unsqueeze(1)


def first_of_group(states: Tensor, groups: Tensor, count: int) -> Tensor:
    """The first row of each group, in float32; shapes as in `mean_by_group`."""
    firsts = torch.full((count,), len(groups), dtype=torch.long, device=groups.device)
    inside = torch.nonzero(groups >= 0).squeeze(1)
    firsts.scatter_reduce_(0, groups[inside], inside, "amin")
    present = firsts < len(groups)
    result = torch.full((count, states.shape[1]), torch.nan, dtype=torch.float32, device=states.device)
    result[present] = states[firsts[present]].float()
    return result


def last_of_group(states: Tensor, groups: Tensor, count: int) -> Tensor:
    """The last row of each group, in float32; shapes as in `mean_by_group`."""
    return first_of_group(states.flip(0), groups.flip(0), count)


def weighted_by_group(states: Tensor, groups: Tensor, count: int) -> Tensor:
    """Mean of the rows of each group weighted by their position 1, 2, 3, ... in it (Muennighoff 2022), in float32.

    Shapes as in `mean_by_group`; groups are in order, with rows of no group anywhere between them.

    >>> weighted_by_group(torch.tensor([[1.], [9.], [4.]]), torch.tensor([0, -1, 0]), 1)
    tensor([[3.]])
    """
    inside = groups >= 0
    passed = torch.cumsum(inside, 0)  # rows of any group up to each one
    sizes = torch.bincount(groups + 1, minlength=count + 1)[1:]
    before = torch.cumsum(sizes, 0) - sizes
    places = torch.where(inside, passed - before[groups.clamp(min=0)], 0).float()
    sums = mean_by_group(states.float() * places[:, None], groups, count) * sizes[:, None]
    return sums / (sizes * (sizes + 1) / 2)[:, None]


POOLINGS = {"mean": mean_by_group, "weighted": weighted_by_group, "last": last_of_group, "first": first_of_group}


def find_sinks(
    stack: Stack | Chain, corpora: Sequence[Corpus], *, layers: Sequence[int], rows: Sequence[int]
) -> dict[int, Sinks]:
    """Find layers at which a few content tokens have states of at least 5 times the median norm.

    The median is over the tokens after the first of their text. In many decoders the first token of a text is such a
    sink, with up to 1,000 times the norm: the mean of a sentence is then close to that one state, whatever the
    sentence. The first `PROBED` of the rows of every corpus are read.
    """
    lengths: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    begins: list[Tensor] = []
    for corpus in corpora:
        whole = encode(stack.tokenizer, corpus, list(rows[:PROBED]), max_length=stack.max_length)
        whole = whole.take(torch.nonzero(whole.lengths).flatten().tolist())  # a sentence may have no token
        for members in group(whole.lengths.tolist(), tokens=1_024):
            batch = whole.take(members).to(stack.device)
            with measuring(stack.model):
                states = stack.read(batch, layers, reduce=lambda _, states: states.float().norm(dim=1))
            items, owners = batch.items("token")
            begins.append((items[owners[batch.content], 1] == 0).cpu())
            for layer, norms in states.items():
                lengths[layer].append(norms[batch.content].cpu())
    sinks = {}
    for layer, parts in lengths.items():
        norms, first = torch.cat([torch.empty(0), *parts]), torch.cat([torch.empty(0, dtype=torch.bool), *begins])
        if first.all():
            continue
        # The first token of a text is the usual sink, and half of a sentence of two tokens.
        limit = DWARFS * float(norms[~first].median())
        long = norms >= limit
        if limit > 0 and long.any() and float(long[~first].float().mean()) <= FEW:
            times = DWARFS * float(norms.max()) / limit
            sinks[layer] = Sinks(float(long.float().mean()), times, float(first[long].float().mean()), limit)
    return sinks


class TypeSums:
    """The vectors of word types summed over their occurrences.

    words: the types, lower-cased. sums: (layers, types, width), float64, in memory or memory-mapped; counts: (types,).
    exact: whether to sum within a chunk in float64 as well; single precision loses little within a chunk, but much over
    many, and is faster on a GPU. sinks: of each layer, the attention sinks, if it has any; a word as long as one is
    left out of the mean of its type there, unless the type has no other occurrence.
    """

    def __init__(
        self, words: Sequence[str], sums: NDArray[np.float64], *, exact: bool, sinks: Sequence[Sinks | None] = ()
    ) -> None:
        self.numbers = {word: number for number, word in enumerate(words)}
        self.sums, self.counts, self.exact = sums, np.zeros(len(words), dtype=np.int64), exact
        self.limits = {number: found.limit for number, found in enumerate(sinks) if found is not None}
        self.weights = {number: np.zeros(len(words)) for number in self.limits}

    def add(self, chunk: Vectors, corpus: Corpus) -> None:
        """Add the words of a chunk of the corpus, which was read at the layers of the sums."""
        numbers = {row: [self.numbers.get(word.lower(), -1) for word in words_of(corpus, row)] for row in chunk.rows}
        types = torch.tensor([numbers[row][word] for row, word in chunk.items["word"].tolist()], dtype=torch.long)
        inside = torch.nonzero(types >= 0).flatten()
        present, index, uses = torch.unique(types[inside], return_inverse=True, return_counts=True)
        rows = present.numpy()
        self.counts[rows] += uses.numpy()
        for number, values in enumerate(chunk.values["word"]):
            here = values[inside.to(values.device)]
            here = double(here) if self.exact else here
            if number in self.limits:
                weights = torch.where(here.norm(dim=1) < self.limits[number], 1.0, SINK_WEIGHT)
                here = here * weights[:, None]
                self.weights[number][rows] += np.bincount(index.numpy(), weights.cpu().numpy(), minlength=len(rows))
            added = here.new_zeros((len(present), here.shape[1])).index_add_(0, index.to(here.device), here)
            self.sums[number, rows] += added.cpu().double().numpy()

    def write_means(self, means: NDArray[np.float32], types: Any = slice(None)) -> None:
        """Write the means of all or some types to `means` (layers, types, width); NaN for a type that never occurs."""
        with np.errstate(invalid="ignore"):
            for number, sums in enumerate(self.sums):  # a layer at a time
                means[number] = sums[types] / self.weights.get(number, self.counts)[types, None]
