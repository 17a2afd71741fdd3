"""Masked language modelling: on streams of running text, as in pretraining, and on sentences, as in fine-tuning.

Pretraining (`masked_lm`) cuts streams of one length out of running text in one or many languages. Fine-tuning studies
(Hussain & Dudev 2020) take a corpus as a set of sentences: an epoch of `masked_sentences` sees each of them once, in a
new order, and `perplexity_probe` predicts the same tokens of every sentence each time it is taken. Three
defects of the original code can be switched on, to see what each does to a curve: padding that is attended to
(`attend_padding`), an evaluation that stops early (`limit`), and masks redrawn at each evaluation (`redraw`).

The vocabulary head is computed only where there is a label. 15% of the places are asked for, while `model(ids).logits`
scores every place against the whole vocabulary; with 119,547 word pieces that costs more than the twelve blocks below
it. Here the blocks run over the whole text, the states at the asked places are gathered, and the head sees only those:

    scores(model, model.base_model(ids)[0][row, place])  =  model(ids).logits[row, place]

An evaluation lays sentences out in one of two ways that give the same numbers: packed, the sentences of a batch end to
end in one row, with attention that stops at their borders; and padded, one sentence a row, of similar length. Ids,
masks and batches are made once, when the probe is, and nothing is read from the device until a corpus is done.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from isogloss.errors import InputError, require
from isogloss.measures.perplexity import UNITS, Likelihood, perplexity, perplexity_interval, tokens_per
from isogloss.measures.statistics import PARTS
from isogloss.progress import progress
from isogloss.seeds import seed_of
from isogloss.stack.families import FAMILIES, family_of, trainable_family
from isogloss.stack.packing import half_norms, packed, unpadded
from isogloss.stack.stack import Stack, first_position, measuring, packed_inputs, tells_types
from isogloss.text.batches import chunks, encode, group, marks as marks_of
from isogloss.text.corpora import Corpus
from isogloss.text.masking import IGNORE, fixed_masks, mask
from isogloss.text.sampling import ItemSampler, Sampler
from isogloss.text.streams import Frame, Stream, fit, lay_out, read_spans, texts_of
from isogloss.text.words import word_spans
from isogloss.training.cuda_graphs import Captured
from isogloss.training.loop import Objective, Part, Rows, steps_in_epoch
from isogloss.training.probes import Probe, Reading, arithmetic
from isogloss.training.sharing import Languages

RESIDENT_BYTES = 2**31  # of streams that are worth a place in a GPU's memory
SCORES_AT_ONCE = 2**28  # numbers; a large vocabulary at every masked place of a batch would fill a small GPU
RESIDENT_TOKENS = 2**26  # of a corpus that are worth a place in a GPU's memory
PREPARED_AT_ONCE = 2**16  # sentences that are masked together
SHORTEST = 8  # tokens of a last stream that is worth predicting in
TOKENISED_AT_ONCE = 2_048  # sentences
STEPS_AT_ONCE = 16  # steps whose texts are drawn together, the first of which tell how many rows a step needs


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
    frame: Frame | None = None,
    ends: Mapping[str, Sequence[int]] | None = None,
    compiled: bool = False,
) -> Objective:
    """Masked language modelling on text of one or many languages: on streams of it, or text by text.

    streams: token ids of each language, (tokens,). Each step takes `batch` streams of `length` tokens, languages in
    proportion to their size to the power of `exponent`, and predicts `share` of their tokens, masked anew. marks:
    special ids, never masked; pools: the ids each language's random words are drawn from; starts: the ids that begin a
    word in each language, (vocabulary,) bool, if words are to be masked whole. frame: the special tokens around a text,
    if a step takes `batch` texts of at most `length` tokens instead, or those of a pair, if it takes texts in two, as
    `text_batches` lays them out; ends: the ids that end a sentence in each language. Languages that share one model run
    through it together, others each through its own. compiled: the loss is compiled for the device.

    Where the models have a head for it, which pairs are neighbours is learned besides (Devlin et al. 2019). The mean
    loss of the pairs is added to that of the masked tokens in the gradient; the value is that of the tokens alone, and
    the head keeps the sum of the other.
    """
    names = list(streams)
    sampler = row_sampler(streams, frame, length=length, exponent=exponent, seed=seed)
    head = models.next_sentence
    drawing: dict[str, Any] = {"batch": batch, "length": length, "ends": ends, "seed": None if head is None else seed}
    draw_texts = None if frame is None else text_batches(streams, frame, sampler, **drawing)
    texts = list(streams.values())
    borders = np.cumsum([0, *map(len, texts)])
    resident, steps = None, torch.arange(length, device=device)
    if frame is None and device.type == "cuda" and 4 * int(borders[-1]) <= RESIDENT_BYTES:
        resident = torch.cat([torch.from_numpy(text.astype(np.int32)) for text in texts]).to(device)
    size = max(models.of(name).config.vocab_size for name in names)
    special = torch.zeros(size, dtype=torch.bool, device=device)
    special[list(marks)] = True
    pools = {name: pool.to(device) for name, pool in pools.items()}
    begins = {name: table.to(device) for name, table in (starts or {}).items()}
    alone = all(models.of(name) is models.of(names[0]) for name in names)
    loss_of = _compiled(fixed=frame is not None and alone) if compiled else masked_loss
    if begins and alone:  # what goes on a word in one language is no word in any other
        begins = {names[0]: torch.stack(list(begins.values())).all(dim=0)}

    def read(numbers: np.ndarray, starts: np.ndarray) -> Tensor:
        """Streams of these languages from these places on, (rows, length); from disk where they do not fit a GPU."""
        if resident is not None:
            first = torch.from_numpy(borders[numbers] + starts).to(device, non_blocking=True)
            return resident[first[:, None] + steps].long()
        rows = np.stack([texts[n][s : s + length] for n, s in zip(numbers, starts, strict=True)])
        return to_device(rows.astype(np.int32), device).long()

    def rows_of(step: int) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """The rows of a step for each model, by a language that has it."""
        if draw_texts is not None:
            padding = padding_id(models.of(names[0]))
            for number, rows in draw_texts(step, padding=padding, together=alone):
                yield names[number], {name: to_device(values, device).long() for name, values in rows.items()}
            return
        numbers, starts = sampler.rows(step, batch)
        for number, name in enumerate(names[:1] if alone else names):
            chosen = np.arange(len(numbers)) if alone else np.flatnonzero(numbers == number)
            if len(chosen):
                yield name, {"ids": read(numbers[chosen], starts[chosen])}

    def draw(step: int) -> list[Part]:
        generator = torch.Generator(device).manual_seed(seed_of(seed, "masks", step))
        parts: list[tuple[str, dict[str, Tensor]]] = []
        for name, rows in rows_of(step):
            ids = rows.pop("ids")
            masked = mask(
                ids,
                ~special[ids],
                mask_id=mask_id,
                pool=pools[name],
                generator=generator,
                share=share,
                starts=begins[name][ids] if begins else None,
            )
            parts.append((name, {**vars(masked), **rows}))
        if head is not None and frame is not None:
            most = length // (sum(map(len, frame)) + 2)  # pairs in a row
            tokens, pairs = (torch.cat([rows[key].ravel() for _, rows in parts]) for key in ("labels", "neighbours"))
            for _, rows in parts:
                begun = rows["neighbours"] != IGNORE
                # The loop divides by tokens; this makes of it the mean over the pairs of the whole batch.
                rows["tokens_per_pair"] = ((tokens != IGNORE).sum() / (pairs != IGNORE).sum()).expand(len(begun))
                rows["firsts"] = (begun * (length - steps)).topk(most, dim=1).indices  # in their order, then any
                rows["neighbours"] = rows["neighbours"].gather(1, rows["firsts"])
        return [Part(rows, name) for name, rows in parts]

    def loss(rows: Rows, name: str) -> Tensor:
        if compiled and not alone:  # how many rows a language has differs from step to step
            for value in rows.values():
                torch._dynamo.maybe_mark_dynamic(value, 0)
        if head is None:
            return loss_of(models.of(name), rows)
        nats, of_pairs = loss_of(models.of(name), rows, head)
        head.sums += torch.stack([of_pairs.detach(), (rows["neighbours"] != IGNORE).sum()])
        added = of_pairs * rows["tokens_per_pair"][0]
        return nats + (added - added.detach())

    encoders: dict[int, Any] = {id(encoder): encoder for encoder in (models.of(name).base_model for name in names)}
    packing = [value for value in encoders.values() if FAMILIES[value.config.model_type].packs]
    around = unpadded(packing, length)
    if frame is not None:
        kind = models.of(names[0]).config.model_type
        require(packing, f"texts cannot share a row in the family {kind}; train it on streams")
        half_norms(packing)
        around = nullcontext
    return Objective(draw, loss, lambda rows: (rows["labels"] != IGNORE).sum(), around, cudnn=length % 128 == 0)


def row_sampler(
    streams: Mapping[str, np.ndarray], frame: Frame | None, *, length: int, exponent: float, seed: int
) -> Sampler | ItemSampler:
    """What `masked_lm`, whose arguments these are, draws its rows with: streams, or texts if they have a frame."""
    if frame is None:
        sizes = {name: len(ids) for name, ids in streams.items()}
        return Sampler(sizes, length=length, exponent=exponent, seed=seed)
    texts = {name: texts_of(ids, frame, length=length).shape[1] for name, ids in streams.items()}
    shortest, least = min(texts, key=texts.__getitem__), "one token" if len(frame) == 2 else "two tokens"
    require(texts[shortest], f"{shortest} has no text of at least {least}; give more text")
    return ItemSampler(texts, exponent=exponent, seed=seed)


def text_batches(
    streams: Mapping[str, np.ndarray],
    frame: Frame,
    sampler: Sampler | ItemSampler,
    *,
    batch: int,
    length: int,
    ends: Mapping[str, Sequence[int]] | None = None,
    seed: int | None = None,
) -> Callable[..., Iterator[tuple[int, dict[str, np.ndarray]]]]:
    """A function of a step that lays out its texts in rows that are nearly full.

    streams, ends: as in `masked_lm`; each step has `batch` texts, put together into rows of `length` tokens by `fit`.
    Called as `draw(step, padding=..., together=...)` it yields (number of a language, rows), for all languages at once
    if they go together: ids, positions, texts and, of pairs, types, as `lay_out` gives them, (rows, length) int32 each.
    Together, every step has as many rows, so that a compiled step sees one shape: those that a step needs on average
    and a standard deviation more. The last texts of a step that needs more are left out, about two in a thousand.

    seed: half of the pairs, drawn by it, have the second side of another text of their language and step, cut where it
    does not fit. `neighbours`, likewise (rows, length), says at the first token of a pair whether it is such a one.
    """
    ids = list(streams.values())
    known = [texts_of(each, frame, length=length, ends=(ends or {}).get(name, ())) for name, each in streams.items()]
    marked = sum(map(len, frame))

    @lru_cache(maxsize=1)
    def sampled(block: int) -> np.ndarray:
        """Language and number of the texts of several steps, (2, steps, batch): drawn together in less time."""
        return np.stack(sampler.rows(block, STEPS_AT_ONCE * batch)).reshape(2, STEPS_AT_ONCE, batch)

    def drawn(step: int) -> tuple[np.ndarray, ...]:
        """The texts of a step: the language of each, begin and size of its sides, its length, whether it is mixed."""
        numbers, items = sampled(step // STEPS_AT_ONCE)[:, step % STEPS_AT_ONCE]
        borders, others = np.empty((len(frame), batch), dtype=np.int64), np.empty(batch, dtype=np.int64)
        for number in np.unique(numbers).tolist():
            mine = np.flatnonzero(numbers == number)
            borders[:, mine], others[mine] = known[number][:, items[mine]], np.roll(mine, 1)
        spans, mixed = np.stack([borders[:-1], np.diff(borders, axis=0)], axis=1), items != items[others]
        if seed is not None:
            mixed &= coins(seed, step, batch)
            spans[1] = np.where(mixed, spans[1][:, others], spans[1])
            spans[1, 1] = np.minimum(spans[1, 1], length - marked - spans[0, 1])
        return numbers, spans, spans[:, 1].sum(axis=0) + marked, mixed

    needed = [int(fit(drawn(step)[2].tolist(), length)[0].max()) + 1 for step in range(STEPS_AT_ONCE)]
    fixed = math.ceil(np.mean(needed) + np.std(needed))

    def draw(step: int, *, padding: int, together: bool) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        numbers, spans, lengths, mixed = drawn(step)
        for number in [0] if together else np.unique(numbers).tolist():
            chosen = np.flatnonzero((numbers == number) | together)
            rows, places = fit(lengths[chosen].tolist(), length)
            while together and rows.max() >= fixed:
                beyond = (int(rows.max()) + 1 - fixed) * length  # tokens
                chosen = chosen[: -1 - int(np.searchsorted(np.cumsum(lengths[chosen][::-1]), beyond))]
                rows, places = fit(lengths[chosen].tolist(), length)
            shape, starts = (fixed if together else int(rows.max()) + 1, length), rows * length + places
            sides = [read_spans(ids, numbers[chosen], *span) for span in spans[..., chosen]]
            table = lay_out(sides, starts, shape, frame, padding=padding)[: len(frame) + 1]
            laid = dict(zip(("ids", "positions", "texts", "types"), table, strict=False))
            if seed is not None:
                laid["neighbours"] = np.full(shape, IGNORE, dtype=np.int32)
                laid["neighbours"].flat[starts] = mixed[chosen]
            yield number, laid

    return draw


def coins(seed: int, step: int, batch: int) -> np.ndarray:
    """Which pairs of a step are changed, (batch,) bool: even chances, a function of the seed and the step."""
    return np.random.default_rng(seed_of(seed, "coins", step)).random(batch) < 0.5


def scores(model: Any, states: Tensor) -> Tensor:
    """What the model's own head says of these states: (..., width) -> (..., vocabulary), before any softmax.

    The states are the base model's output, which in pre-norm families is after the final norm.
    """
    for path in trainable_family(model.config).head:
        states = model.get_submodule(path)(states)
    return states


def states_at(model: Any, inputs: Tensor, places: Tensor, attention: Any = None, **given: Tensor) -> Tensor:
    """What the base model leaves at some places of each row, (rows, k, width).

    inputs: (rows, length), token ids; places: (rows, k), positions in 0..length-1, repeated where a row has fewer
    than k to ask for; attention: (rows, length), 1 for text and 0 for padding, None where nothing is padded, or
    (rows, 1, length, length) bool, which tokens see each other, or one such for each kind of layer. given: further
    inputs, such as `position_ids`.

    >>> states_at(model, torch.tensor([[2, 4, 9, 3]]), torch.tensor([[1]])).shape  # doctest: +SKIP
    torch.Size([1, 1, 384])
    """
    states = model.base_model(input_ids=inputs, attention_mask=attention, **given)[0]  # (rows, length, width)
    return torch.gather(states, 1, places.unsqueeze(-1).expand(-1, -1, states.shape[-1]))


def masked_loss(model: torch.nn.Module, rows: Rows, head: torch.nn.Module | None = None) -> Tensor:
    """Cross entropy of the masked tokens in nats, summed; with a head, (2,), then that of the pairs.

    rows: inputs, places, labels; attention, if padded; positions and texts, if a row has several texts, none of which
    sees another; types, of texts with two sides. head: scores the states at `firsts`, whose labels are `neighbours`.
    """
    attention: Any = rows.get("attention")
    places, given = rows["places"], dict[str, Tensor]()
    if "texts" in rows:
        texts, positions = rows["texts"], rows["positions"]
        attention = (texts[:, :, None] == texts[:, None, :])[:, None]
        if window := getattr(model.config, "sliding_window", None):  # of layers that see their neighbourhood only
            near = (positions[:, :, None] - positions[:, None, :]).abs() <= window
            attention = {"full_attention": attention, "sliding_attention": attention & near[:, None]}
        given["position_ids"] = positions + first_position(model.base_model)
    if "types" in rows and tells_types(model):
        given["token_type_ids"] = rows["types"]
    asked = places if head is None else torch.cat([places, rows["firsts"]], dim=1)
    states = states_at(model, rows["inputs"], asked, attention, **given)
    nats = summed_cross_entropy(scores(model, states[:, : places.shape[1]]), rows["labels"])
    if head is None:
        return nats
    return torch.stack([nats, summed_cross_entropy(head(states[:, places.shape[1] :]), rows["neighbours"])])


@cache
def _compiled(*, fixed: bool = False) -> Callable[..., Tensor]:
    """`masked_loss`, compiled once for all models of one shape that this process trains, one after the other.

    It is a function of the model: one that encloses its model would be compiled anew for each. fixed: sizes never
    change, so that all kernels are launched as two CUDA graphs.
    """
    options: dict[str, Any] = {"triton.cudagraphs": True}
    if hasattr(torch._inductor.config.triton, "mix_order_reduction"):
        # One kernel for the two gradients of a norm took 270 us where two take 95, of 48,896 x 384 states on an H200.
        options["triton.mix_order_reduction"] = False
    compiled = torch.compile(masked_loss, dynamic=False, options=options) if fixed else torch.compile(masked_loss)

    def loss(*given: Any) -> Tensor:
        # Models of one process may have many shapes, and torch gives up after eight unless it is told. There is no
        # public name for this limit; without compiling, `masked_loss` is the same function.
        with torch._dynamo.config.patch(recompile_limit=max(64, torch._dynamo.config.recompile_limit)):
            return compiled(*given)

    return loss


def row_states(
    stack: Stack,
    ids: Tensor,
    lengths: Tensor,
    *,
    end_to_end: bool,
    second: Tensor | None = None,
    reset: bool = False,
    graphs: Captured | None = None,
) -> tuple[Tensor, Tensor]:
    """Run rows through a stack, to its last cut: their states there, (n, width), and where each row begins, (rows,).

    ids: (rows, longest), padded; lengths (rows,) and second (rows,), where the second sentence of a pair begins, on the
    host. end_to_end: padding is taken out first, and where there are graphs of the stack, its blocks run as these.
    reset: positions begin again at the second sentence, as in XLM.
    """
    text = torch.arange(ids.shape[1]) < lengths[:, None]  # (rows, longest)
    chosen = text if end_to_end else torch.ones_like(text)
    rows, places = chosen.nonzero(as_tuple=True)  # (tokens,) each
    sizes = chosen.sum(dim=1)
    begins = torch.cumsum(sizes, 0) - sizes
    starts = (lengths if second is None else second)[rows]
    later = (places >= starts) & text[chosen]
    positions = (torch.where(later, places - starts, places) if reset else places) + stack.first_position
    given = {"position_ids": positions} if end_to_end or reset else {}
    if stack.family.token_types:
        given["token_type_ids"] = (later & stack.tells_types).long()
    if not end_to_end:
        given["attention_mask"] = text[chosen].long()
    arrays = [rows * ids.shape[1] + places, begins, *given.values()]
    sent = to_device(torch.cat(arrays), ids.device)  # all in one copy
    tokens, starting, *others = torch.split(sent, [len(array) for array in arrays])
    inputs: dict[str, Any] = dict(zip(given, others, strict=True))
    body: Any = stack._body
    if not end_to_end:
        states = body(input_ids=ids, **{name: values.view(ids.shape) for name, values in inputs.items()})[0]
        return states.flatten(0, 1), starting
    # The rows without their padding, in one row whose borders attention stops at.
    flat, borders = ids.flatten()[tokens], pad(starting, (0, 1), value=len(tokens))
    if graphs is not None:
        states = graphs.from_text(flat, inputs["position_ids"], borders, inputs.get("token_type_ids"))
        if states is not None:
            return states, starting
    inputs = {name: values[None] for name, values in inputs.items()}
    inputs |= {"cu_seq_lens_q": borders.to(torch.int32), "max_length_q": int(lengths.max())}
    with packed(body):
        return body(input_ids=flat[None], attention_mask=None, **inputs)[0][0], starting


def row_loss(model: Any, stack: Stack, rows: Rows, **how: Any) -> Tensor:
    """`masked_loss` by `row_states`, whose options these are; rows: besides, their lengths (rows,), on the host."""
    states, begins = row_states(stack, rows["inputs"], rows["lengths"], **how)
    # The vocabulary is scored at the masked tokens only; beyond the end of a row there are no labels.
    chosen = states[(begins[:, None] + rows["places"]).clamp(max=len(states) - 1)]
    return summed_cross_entropy(scores(model, stack.head_input(chosen)), rows["labels"])


def to_device(array: np.ndarray | Tensor, device: torch.device) -> Tensor:
    """An array on the device; from pinned memory, so that the copy waits for no step that is being computed."""
    tensor = torch.as_tensor(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def summed_cross_entropy(predicted: Tensor, labels: Tensor) -> Tensor:
    """Nats of the labels, summed: predicted (rows, k, vocabulary), labels (rows, k) or `IGNORE`."""
    return cross_entropy(predicted.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")


@dataclass(frozen=True)
class MaskedBatch:
    """A batch, and what is asked of it.

    inputs: what the encoder takes. asked (k,): numbers of the states that are asked for, the batch's states flattened.
    labels (k,): the ids there before masking. owners (k,): the sentence of the corpus each belongs to, on the host.
    """

    inputs: dict[str, Any]
    asked: Tensor
    labels: Tensor
    owners: Tensor

    def to(self, device: torch.device) -> "MaskedBatch":
        """The same on another device, the owners still on the host."""
        moved = {
            name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in self.inputs.items()
        }
        asked, labels = (tensor.to(device, non_blocking=True) for tensor in (self.asked, self.labels))
        return replace(self, inputs=moved, asked=asked, labels=labels)


def padding_id(model: Any) -> int:
    """The id that fills rows up: the model's own, which some families know positions by."""
    number = model.config.pad_token_id
    return 0 if number is None else int(number)


def tokens_of(chosen: Sequence[int] | np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Where the tokens of some sentences lie, as padded rows: numbers (rows, longest), and bool, what is no padding.

    >>> numbers, text = tokens_of([2, 0], starts=np.array([0, 3, 7]), lengths=np.array([3, 4, 2]))
    >>> numbers.tolist(), text[0].tolist()
    ([[7, 8, 0], [0, 1, 2]], [True, True, False])
    """
    position = np.arange(max(1, lengths[chosen].max()))
    text = position < lengths[chosen][:, None]  # (rows, longest)
    return np.where(text, starts[chosen][:, None] + position, 0), text


def surprise(
    model: Any,
    batches: Iterable[MaskedBatch],
    *,
    device: torch.device | str,
    dtype: torch.dtype | None,
    end_to_end: bool = False,
) -> tuple[Tensor, Tensor]:
    """Nats of every asked token, in the order of the batches, and its owner: (tokens,) each.

    Nats are float32, on a device that may still compute. The model is in evaluation mode meanwhile, and as before
    afterwards. end_to_end: whether the sentences of a batch lie end to end.
    """
    encoder: Any = model.base_model
    places = max(1, SCORES_AT_ONCE // model.config.vocab_size)
    nats, owners = [], []
    with measuring(model), arithmetic(device, dtype), packed(encoder) if end_to_end else nullcontext():
        for batch in (batch.to(torch.device(device)) for batch in batches):
            states = encoder(**batch.inputs)[0].flatten(0, 1)[batch.asked]  # (k, width)
            for part, labels in zip(torch.split(states, places), torch.split(batch.labels, places), strict=True):
                nats.append(cross_entropy(scores(model, part).float(), labels, reduction="none"))
            owners.append(batch.owners)
        return torch.cat(nats), torch.cat(owners)


def sum_losses(nats: Tensor, owners: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Nats of each of `count` sentences, summed in float64, and how many tokens of it were asked for.

    owners: the sentence of each token, `count` for places that ask for nothing. Only here does the host wait for the
    device. It sums, too: a GPU adds in any order, and a curve taken again would differ in its last digits.
    """
    totals = torch.zeros(count + 1, dtype=torch.float64).index_add(0, owners, nats.cpu().double())
    return totals[:count], torch.bincount(owners, minlength=count)[:count]


@dataclass(frozen=True)
class Sentences:
    """The sentences of one corpus as token ids, special tokens included, end to end.

    ids: (tokens,); lengths: (sentences,). words and characters are those the ids stand for: of a sentence that was cut
    to the model's length, the share that was kept. shortened: how many were cut.
    """

    language: str
    name: str
    ids: np.ndarray
    lengths: np.ndarray
    words: int
    characters: int
    shortened: int

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self.lengths)

    def parts(self, limit: int | None) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """The first `limit` sentences, so many at a time: the number of the first, ids and lengths."""
        start, lengths = 0, self.lengths[:limit]
        for first in range(0, len(lengths), PREPARED_AT_ONCE):
            some = lengths[first : first + PREPARED_AT_ONCE]
            yield first, self.ids[start : start + int(some.sum())], some
            start += int(some.sum())


def cut_stream(stream: Stream, *, length: int, frame: Frame | None = None) -> Sentences:
    """A stream as sentences of `length` tokens, and a shorter last one that is worth predicting in.

    With `frame`, the special tokens around a text, its `texts_of` at most that length instead, each in its frame.
    """
    ids = stream.ids
    if frame is None:
        lengths = np.full(len(ids) // length, length)
        lengths = np.append(lengths, len(ids) % length) if len(ids) % length >= SHORTEST else lengths
        ids = ids[: int(lengths.sum())]
    else:
        begins, ends = texts_of(ids, frame, length=length)
        lengths = ends - begins + sum(map(len, frame))
        plain = read_spans([ids], np.zeros_like(begins), begins, ends - begins)
        shape = 1, int(lengths.sum())
        ids = lay_out([plain], np.cumsum(lengths) - lengths, shape, frame, padding=0)[0].ravel()
    kept = min(1.0, len(ids) / max(1, stream.tokens))  # of the text; words and characters are those of what is kept
    counts = round(kept * stream.words), round(kept * stream.characters)
    return Sentences(stream.language, "", ids, lengths, *counts, 0)


def tokenise(tokenizer: Any, corpus: Corpus, *, max_length: int) -> Sentences:
    """Token ids of a whole corpus, each sentence at most `max_length` long; without a name it is called its language.

    >>> tokenise(tokenizer, Corpus("en", ["a cat", "a dog"]), max_length=512).lengths  # doctest: +SKIP
    array([4, 4])
    """
    require(len(corpus), f"the corpus {corpus.name or corpus.language} has no sentences; give at least one")
    ids, lengths, words, characters, shortened = [], [], 0.0, 0.0, 0
    borders = tokenizer.num_special_tokens_to_add(pair=False)
    for rows in chunks(range(len(corpus)), TOKENISED_AT_ONCE):
        batch = encode(tokenizer, corpus, rows, max_length=max_length)
        ids.append(batch.ids.numpy().astype(np.int32))
        lengths.append(batch.lengths.numpy())
        for row, length, cut in zip(rows, batch.lengths.tolist(), batch.shortened.tolist(), strict=True):
            text = corpus.sentences[row]
            whole = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"] if cut else ()
            share = (length - borders) / len(whole) if cut else 1.0
            words += share * len(word_spans(corpus, row))
            characters += share * len(text)
            shortened += cut
        progress(f"tokenising {corpus.language}", rows[-1] + 1, len(corpus))
    flat, counts = np.concatenate(ids), np.concatenate(lengths)
    name = corpus.name or corpus.language
    return Sentences(corpus.language, name, flat, counts, round(words), round(characters), shortened)


def masking_of(tokenizer: Any) -> dict[str, Any]:
    """What masking a tokenizer's sentences needs, as keyword arguments of the functions below.

    mask_id: the mask. marks: ids that are never masked. pool (m,): ids that random words are drawn from, all but the
    marks.

    >>> masked_sentences(model, sentences, batch=8, seed=0, **masking_of(tokenizer))  # doctest: +SKIP
    """
    special = sorted({*marks_of(tokenizer), tokenizer.mask_token_id, tokenizer.unk_token_id} - {None})
    content = torch.ones(len(tokenizer), dtype=torch.bool)
    content[special] = False
    return {"mask_id": tokenizer.mask_token_id, "marks": special, "pool": content.nonzero().squeeze(1)}


def masked_sentences(
    model: Any,
    sentences: Sentences,
    *,
    batch: int,
    seed: int,
    mask_id: int,
    marks: Sequence[int],
    pool: Tensor,
    device: torch.device,
    attend_padding: bool = False,
    graphs: Captured | None = None,
) -> Objective:
    """Masked language modelling on `batch` sentences a step, padded to the longest of them.

    model: a `...ForMaskedLM`. The order of an epoch is a permutation drawn from the seed and its number; 15% of the
    content tokens are predicted, masked anew at each step. marks: special ids, never masked; pool: ids (m,) that random
    words are drawn from. attend_padding: no attention mask is given, so that padding is read as text. graphs: of the
    encoder's blocks, through which sentences run end to end instead.
    """
    if len(sentences) < batch:
        raise InputError(
            f"the target corpus has {len(sentences)} sentences, fewer than one batch of {batch} ({sentences.name}); "
            "give more sentences or a smaller batch"
        )
    _content_tokens(sentences, marks)
    content = ~np.isin(sentences.ids, list(marks))
    words = pool.to(device)
    starts = np.cumsum(sentences.lengths) - sentences.lengths
    padding, steps = padding_id(model), steps_in_epoch(sentences, batch)

    @lru_cache(maxsize=1)
    def order(epoch: int) -> np.ndarray:
        return np.random.default_rng(seed_of(seed, "order", epoch)).permutation(len(sentences))

    def draw(step: int) -> list[Part]:
        epoch, number = divmod(step, steps)
        chosen = order(epoch)[number * batch : (number + 1) * batch]
        tokens, text = tokens_of(chosen, starts, sentences.lengths)  # (rows, longest)
        ids = torch.from_numpy(np.where(text, sentences.ids[tokens], padding).astype(np.int64)).to(device)
        maskable = torch.from_numpy(content[tokens] & text).to(device)
        generator = torch.Generator(device).manual_seed(seed_of(seed, "masks", step))
        masked = mask(ids, maskable, mask_id=mask_id, pool=words, generator=generator)
        rows = dict(vars(masked))
        if not attend_padding:
            rows["attention"] = torch.from_numpy(text.astype(np.int64)).to(device)
        if graphs is not None:
            rows["lengths"] = torch.from_numpy(sentences.lengths[chosen])
        return [Part(rows)]

    def loss(rows: Rows, name: str) -> Tensor:
        if graphs is None:
            return masked_loss(model, rows)
        return row_loss(model, graphs.stack, rows, end_to_end=True, graphs=graphs)

    return Objective(draw, loss, lambda rows: (rows["labels"] != IGNORE).sum())


def perplexity_probe(
    model: Any,
    corpora: Sequence[Sentences],
    *,
    every: int,
    seed: int,
    mask_id: int,
    marks: Sequence[int],
    pool: Tensor | Mapping[str, Tensor],
    device: torch.device | str,
    target: str | None = None,
    dtype: torch.dtype | None = None,
    tokens: int | None = None,
    limit: int | None = None,
    attend_padding: bool = False,
    redraw: Callable[[], int] | None = None,
    pack: bool | None = None,
    rows: int = 16,
) -> Probe:
    """Perplexity of masked models on sentences, corpus by corpus, per token, word and character.

    model: a `...ForMaskedLM`, or one for each language by its code, all of one family; pool: likewise, the ids that
    random words are drawn from. dtype: of autocast, none if absent. tokens: of a batch, which bounds memory; the
    default suits the device. pack: sentences lie end to end; by default in half precision on a GPU, where the family
    allows. None of these changes more than rounding, for the masks of a sentence are a function of the seed, its corpus
    (language and name) and its number there.

    limit: only the first so many sentences of each corpus; `n`, the predicted tokens, tells. attend_padding: no
    attention mask is given, and batches are `rows` neighbours of the corpus, since their padding now matters.
    redraw: new masks at each take, drawn from the number that this function gives (the step, so that a run that is
    resumed draws what it would have drawn).

    Readings: `perplexity` of each corpus (`target` its language, `data` its name, if it has one) in three `unit`s, with
    a jackknife interval over blocks of neighbouring sentences. Beside them, where there are any, corpora that are not
    of the language `target` pooled, as target `others`; without a target all, as `all`, where there are several.
    """
    require(corpora, "perplexity needs at least one corpus to evaluate on")
    titles = [f"{corpus.name} ({corpus.language})" for corpus in corpora]
    if twice := [title for title in titles if titles.count(title) > 1]:
        raise InputError(f"two corpora are called {twice[0]}; their readings could not be told apart: rename one")
    sizes = [(_content_tokens(corpus, marks, limit), corpus.words, corpus.characters) for corpus in corpora]
    models = [model[corpus.language] if isinstance(model, Mapping) else model for corpus in corpora]
    config, device = models[0].config, torch.device(device)
    family = family_of(config, config.model_type)
    if pack and (attend_padding or not family.packs):
        why = "padding is to be attended to" if attend_padding else f"the family {config.model_type} is padded"
        raise InputError(f"sentences cannot lie end to end where {why}; leave `pack` out")
    if pack is None:
        half = (dtype or next(models[0].parameters()).dtype) in (torch.float16, torch.bfloat16)
        pack = family.packs and not attend_padding and half and device.type == "cuda"
    # Only its first position is asked for, where sentences lie end to end.
    stack = Stack(models[0].base_model, family, None, config.model_type, 0, 0) if pack else None
    padding, room = padding_id(models[0]), tokens or (65_536 if device.type == "cuda" else 1_024)

    def prepare(corpus: Sentences, *number: int) -> Iterator[MaskedBatch]:
        """Batches that ask for every chosen token once; a sentence with none is left out: it would change nothing."""
        key = seed_of(seed, "sentence masks", corpus.language, corpus.name, *number)
        words = (pool[corpus.language] if isinstance(pool, Mapping) else pool).cpu().numpy()
        home = device if len(corpus.ids) <= RESIDENT_TOKENS else torch.device("cpu")
        for first, ids, lengths in corpus.parts(limit):
            content = ~np.isin(ids, list(marks))
            how: dict[str, Any] = {"content": content, "mask_id": mask_id, "pool": words, "seed": key, "first": first}
            inputs, chosen = fixed_masks(ids, lengths, **how)
            starts = np.cumsum(lengths) - lengths
            counts = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[chosen], minlength=len(lengths))
            if attend_padding:
                groups: Iterable[list[int]] = chunks(range(len(lengths)), rows)
            else:
                used = np.flatnonzero(counts)
                groups = (used[members].tolist() for members in group(lengths[used].tolist(), tokens=room))
            for members in groups:
                places, text = tokens_of(members, starts, lengths)  # (rows, longest)
                if stack is not None:
                    places, text = places[text][None], text[text][None]  # (1, tokens), all of it text
                given = {"input_ids": torch.from_numpy(np.where(text, inputs[places], padding).astype(np.int64))}
                if stack is not None:
                    given |= packed_inputs(stack, torch.from_numpy(lengths[members]))
                elif not attend_padding:
                    given["attention_mask"] = torch.from_numpy(text.astype(np.int64))
                asked = np.flatnonzero(chosen[places] & text)
                labels = ids[places].reshape(-1)[asked].astype(np.int64)
                owners = first + np.repeat(members, counts[members])
                arrays = (torch.from_numpy(array) for array in (asked, labels, owners))
                yield MaskedBatch(given, *arrays).to(home)

    # What is masked once is kept, but for text that would fill the memory.
    ready = [list(prepare(each)) if len(each.ids) <= RESIDENT_TOKENS else None for each in corpora if redraw is None]

    def take() -> Iterator[Reading]:
        number = () if redraw is None else (redraw(),)
        batches = [
            prepare(corpus, *number) if known is None else known
            for corpus, known in zip(corpora, ready or [None] * len(corpora), strict=True)
        ]
        # All corpora are under way before the first is waited for, so that the device never idles between two.
        under_way = [
            surprise(each, own, device=device, dtype=dtype, end_to_end=bool(pack))
            for each, own in zip(models, batches, strict=True)
        ]
        losses = [
            sum_losses(*each, len(corpus.lengths[:limit])) for each, corpus in zip(under_way, corpora, strict=True)
        ]
        sets = [(corpus.language, corpus.name, [number]) for number, corpus in enumerate(corpora)]
        others = [number for number, corpus in enumerate(corpora) if corpus.language != target]
        if others and (target is not None or len(others) > 1):
            names = "+".join(dict.fromkeys(corpora[number].name for number in others if corpora[number].name))
            sets.append(("all" if target is None else "others", names, others))
        for language, name, members in sets:
            readings = perplexities(language, [sizes[i] for i in members], [losses[i] for i in members])
            yield from (reading | ({"data": name} if name else {}) for reading in readings)

    return Probe(every, take)


def _content_tokens(corpus: Sentences, marks: Sequence[int], limit: int | None = None) -> int:
    """How many tokens of a corpus could be masked; refused where its first `limit` sentences have none."""

    def counted(most: int | None) -> int:
        return sum(int((~np.isin(ids, list(marks))).sum()) for _, ids, _ in corpus.parts(most))

    if not counted(limit):
        first = "" if limit is None else f" in its first {limit} sentences"
        title = f"{corpus.name} ({corpus.language})" if corpus.name else f"of {corpus.language}"
        raise InputError(f"the corpus {title} has no token that could be masked{first}; give other text")
    return counted(None)


def perplexities(
    target: str, sizes: Sequence[tuple[int, int, int]], losses: Sequence[tuple[Tensor, Tensor]]
) -> Iterator[Reading]:
    """The readings of some texts taken together: losses (totals, counts) of each text's streams or sentences.

    sizes: content tokens of each text, and the words and characters they make.
    Block i of several texts is block i of each: languages differ, and a block that held one of them would take that
    difference for chance.
    """
    whole = Likelihood(0.0, 0, 0, 0, 0)
    for size, (totals, counts) in zip(sizes, losses, strict=True):
        whole += Likelihood(float(totals.sum()), int(counts.sum()), *size)
    blocks = min(PARTS, *(len(totals) for totals, _ in losses))
    # Sums over consecutive blocks of streams, (blocks,), of nats and of tokens.
    totals, counts = (
        torch.stack([torch.stack([part.sum() for part in each.tensor_split(blocks)]) for each in side]).sum(dim=0)
        for side in zip(*losses, strict=True)
    )
    for unit in UNITS:
        rate = tokens_per(whole, unit)
        low, high = perplexity_interval(totals, counts, rate=rate)
        reading = {"measure": "perplexity", "value": perplexity(whole, unit), "low": low, "high": high}
        if blocks == PARTS:
            reading["parts"] = (rate * (totals.sum() - totals) / (counts.sum() - counts)).exp().tolist()
        yield reading | {"n": whole.count, "target": target, "unit": unit}
