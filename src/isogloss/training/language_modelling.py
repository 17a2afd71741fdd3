"""Language modelling: on streams of running text, as in pretraining, and on sentences, as in fine-tuning.

Pretraining (`language_modelling`) cuts streams of equal length out of running text in one or many languages, or packs
whole texts into rows. Fine-tuning studies (Hussain & Dudev 2020) treat a corpus as a set of sentences: an epoch of
`sentence_modelling` sees each sentence once, in a new order. `isogloss.training.perplexities` evaluates held-out text.

The targets are masked tokens, or in a decoder each next token. One loss serves both: it takes positions and labels.

The vocabulary head is computed only at positions with a label. Only 15% of the positions have one, while
`model(ids).logits` scores every position against the whole vocabulary; with 119,547 word pieces that costs more than
the twelve blocks below it. Here the blocks run over the whole text, and the head only sees the states at the labelled
positions:

    loss_head(model)(model.base_model(ids)[0][row, place])  =  model(ids).logits[row, place]
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from isogloss.errors import require
from isogloss.seeds import seed_of
from isogloss.stack.families import FAMILIES
from isogloss.stack.head import loss_head
from isogloss.stack.packing import unpadded
from isogloss.stack.stack import table_arguments
from isogloss.text.batches import Sentences, fit, layout_of, padded_rows
from isogloss.text.masking import IGNORE, Masked, Masking, following, mask, slots
from isogloss.text.sampling import ItemSampler, Sampler
from isogloss.text.streams import Frame, lay_out, read_spans, texts_of
from isogloss.training.loop import Objective, Part, Rows, steps_in_epoch, to_device
from isogloss.training.mixed_precision import half_norms
from isogloss.training.sharing import Languages

RESIDENT_BYTES = 2**31  # largest streams that are kept in a GPU's memory
MOST_ASKED = 0.2  # largest share of the positions of a table that have a label
STEPS_AT_ONCE = 16  # steps whose texts are drawn together; the first ones give the number of rows a step needs


def language_modelling(
    models: Languages,
    streams: Mapping[str, np.ndarray],
    *,
    batch: int,
    length: int,
    masking: Mapping[str, Masking],
    device: torch.device,
    seed: int,
    exponent: float = 0.7,
    share: float = 0.15,
    starts: Mapping[str, Tensor] | None = None,
    frame: Frame | None = None,
    ends: Mapping[str, Sequence[int]] | None = None,
    compiled: bool = False,
) -> Objective:
    """Language modelling on text of one or many languages: on streams, or text by text.

    streams: token ids of each language, (tokens,). Each step takes `batch` streams of `length` tokens, with languages
    sampled in proportion to size ** `exponent`, and predicts `share` of their tokens under fresh masks, or all but the
    first of each row or text if the masking is causal. masking: that of each language; the special tokens must be the
    same in all. starts: the ids that begin a word in each language, (vocabulary,) bool, for whole-word masking. frame:
    the special tokens around a text, if a step takes `batch` texts of at most `length` tokens instead, or those of a
    pair, if it takes texts in two segments, as `text_rows` lays them out; ends: the ids that end a sentence in each
    language. Languages that share one model run through it together. compiled: compile the loss for the device.

    If the models have a head for it, next sentence prediction (Devlin et al. 2019) is learned as well. The mean loss of
    the pairs is added to that of the masked tokens in the gradient only: the loss returned is that of the tokens alone,
    and the head accumulates the other.
    """
    names, head = list(streams), models.next_sentence
    causal = masking[names[0]].causal
    alone = all(models.of(name) is models.of(names[0]) for name in names)
    sampler = row_sampler(streams, frame, length=length, exponent=exponent, seed=seed)
    drawing: dict[str, Any] = {"batch": batch, "length": length, "together": alone, "device": device}
    if frame is None:
        rows_of = stream_rows(streams, sampler, **drawing)
    else:
        drawing |= {"padding": padding_id(models.of(names[0])), "ends": ends, "seed": None if head is None else seed}
        rows_of = text_rows(streams, sampler, frame, **drawing)
    size = max(models.of(name).config.vocab_size for name in names)
    special = torch.zeros(size, dtype=torch.bool, device=device)
    special[list(masking[names[0]].marks)] = True
    pools = {name: masking[name].pool.to(device) for name in names}
    begins = {name: table.to(device) for name, table in (starts or {}).items()}
    if begins and alone:  # a piece that continues a word in one language starts none in any other
        begins = {names[0]: torch.stack(list(begins.values())).all(dim=0)}
    loss_of = _compiled(fixed=frame is not None and alone) if compiled else token_loss

    def draw(step: int) -> list[Part]:
        generator = torch.Generator(device).manual_seed(seed_of(seed, "masks", step))
        parts: list[tuple[str, dict[str, Tensor]]] = []
        for number, rows in rows_of(step):
            ids, name = rows.pop("ids"), names[number]
            if causal:
                parts.append((name, {**vars(following(ids, _same_text(ids, rows.get("texts")))), **rows}))
                continue
            how: dict[str, Any] = {"mask_id": masking[name].mask_id, "pool": pools[name], "share": share}
            whole_words = begins[name][ids] if begins else None
            masked = mask(ids, ~special[ids], generator=generator, starts=whole_words, **how)
            parts.append((name, {**vars(masked), **rows}))
        if head is not None and frame is not None:
            most = length // (sum(map(len, frame)) + 2)  # pairs in a row
            tokens, pairs = (torch.cat([rows[key].ravel() for _, rows in parts]) for key in ("labels", "neighbours"))
            for _, rows in parts:
                begun = rows["neighbours"] != IGNORE
                # The loop divides by tokens; this factor makes it the mean over the pairs of the whole batch.
                rows["tokens_per_pair"] = ((tokens != IGNORE).sum() / (pairs != IGNORE).sum()).expand(len(begun))
                order = length - torch.arange(length, device=device)
                rows["firsts"] = (begun * order).topk(most, dim=1).indices  # in order, then arbitrary ones
                rows["neighbours"] = rows["neighbours"].gather(1, rows["firsts"])
        return [Part(rows, name) for name, rows in parts]

    def loss(rows: Rows, name: str) -> Tensor:
        if compiled and not alone:  # the number of rows of a language differs from step to step
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
    around = nullcontext if causal else unpadded(packing, length)
    if frame is not None:
        kind = models.of(names[0]).config.model_type
        require(packing, f"texts cannot share a row in the family {kind}; train it on streams")
        half_norms(packing)
        around = nullcontext

    def count(rows: Rows) -> Tensor:
        return (rows["labels"] != IGNORE).sum()

    sums = [] if head is None else [head.sums]
    return Objective(draw, loss, count, around, cudnn=length % 128 == 0, captured=alone, compiled=compiled, sums=sums)


def row_sampler(
    streams: Mapping[str, np.ndarray], frame: Frame | None, *, length: int, exponent: float, seed: int
) -> Sampler | ItemSampler:
    """The sampler of `language_modelling` with these arguments: of streams, or of texts if there is a frame."""
    if frame is None:
        sizes = {name: len(ids) for name, ids in streams.items()}
        return Sampler(sizes, length=length, exponent=exponent, seed=seed)
    texts = {name: texts_of(ids, frame, length=length).shape[1] for name, ids in streams.items()}
    shortest, least = min(texts, key=texts.__getitem__), "one token" if len(frame) == 2 else "two tokens"
    require(texts[shortest], f"{shortest} has no text of at least {least}; give more text")
    return ItemSampler(texts, exponent=exponent, seed=seed)


DrawnRows = Callable[[int], Iterator[tuple[int, dict[str, Tensor]]]]
"""A function from a step to its rows: the index of a language, and tensors whose first dimension is the row."""


def stream_rows(
    streams: Mapping[str, np.ndarray],
    sampler: Sampler | ItemSampler,
    *,
    batch: int,
    length: int,
    together: bool,
    device: torch.device,
) -> DrawnRows:
    """The `batch` streams of each step: ids (rows, length), of all languages in one table if `together`.

    They are sliced from text in the memory of a GPU that has room for it, or read from disk.
    """
    texts = list(streams.values())
    borders = np.cumsum([0, *map(len, texts)])
    resident, steps = None, torch.arange(length, device=device)
    if device.type == "cuda" and 4 * int(borders[-1]) <= RESIDENT_BYTES:
        resident = torch.cat([torch.from_numpy(text.astype(np.int32)) for text in texts]).to(device)

    def read(numbers: np.ndarray, starts: np.ndarray) -> Tensor:
        """Streams of the given languages from the given offsets on, (rows, length)."""
        if resident is not None:
            first = torch.from_numpy(borders[numbers] + starts).to(device, non_blocking=True)
            return resident[first[:, None] + steps].long()
        rows = np.stack([texts[n][s : s + length] for n, s in zip(numbers, starts, strict=True)])
        return to_device(rows.astype(np.int32), device).long()

    def draw(step: int) -> Iterator[tuple[int, dict[str, Tensor]]]:
        numbers, starts = sampler.rows(step, batch)
        for number in [0] if together else np.unique(numbers).tolist():
            chosen = np.flatnonzero((numbers == number) | together)
            yield number, {"ids": read(numbers[chosen], starts[chosen])}

    return draw


def text_rows(
    streams: Mapping[str, np.ndarray],
    sampler: Sampler | ItemSampler,
    frame: Frame,
    *,
    batch: int,
    length: int,
    together: bool,
    device: torch.device,
    padding: int,
    ends: Mapping[str, Sequence[int]] | None = None,
    seed: int | None = None,
) -> DrawnRows:
    """The `batch` texts of each step, packed by `fit` into nearly full rows of `length` tokens.

    Yields ids, positions, texts and, for pairs, types as returned by `lay_out`, (rows, length) each, of all languages
    in one table if `together`. Every step then has the same number of rows, so that a compiled step sees one shape: the
    mean number that a step needs plus one standard deviation. If a step needs more, its last texts are left out, about
    two in a thousand. streams, ends: as in `language_modelling`.

    seed: if given, half of the pairs, drawn by it, get the second side of another text of their language and step,
    truncated to fit. `neighbours`, also (rows, length), says at the first token of a pair whether it is one of these.
    """
    ids = list(streams.values())
    known = [texts_of(each, frame, length=length, ends=(ends or {}).get(name, ())) for name, each in streams.items()]
    marked = sum(map(len, frame))

    @lru_cache(maxsize=1)
    def sampled(block: int) -> np.ndarray:
        """Language and index of the texts of several steps, (2, steps, batch); drawing them together is faster."""
        return np.stack(sampler.rows(block, STEPS_AT_ONCE * batch)).reshape(2, STEPS_AT_ONCE, batch)

    def drawn(step: int) -> tuple[np.ndarray, ...]:
        """The texts of a step: the language of each, start and size of its sides, its length, whether it is mixed."""
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

    def draw(step: int) -> Iterator[tuple[int, dict[str, Tensor]]]:
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
            yield number, {name: to_device(values, device).long() for name, values in laid.items()}

    return draw


def coins(seed: int, step: int, batch: int) -> np.ndarray:
    """Which pairs of a step are changed, (batch,) bool: fair coin flips, a function of the seed and the step."""
    return np.random.default_rng(seed_of(seed, "coins", step)).random(batch) < 0.5


def _same_text(ids: Tensor, texts: Tensor | None) -> Tensor:
    """Which tokens follow a token of the same text, (rows, length) bool; texts: -1 at padding, None for one a row."""
    if texts is None:
        return torch.ones_like(ids, dtype=torch.bool)
    return (texts == texts.roll(1, dims=1)) & (texts >= 0)


def token_loss(model: Any, rows: Rows, head: torch.nn.Module | None = None) -> Tensor:
    """Summed cross entropy of the labelled tokens in nats, (); with a head, also that of the pairs, (2,).

    rows: inputs (rows, length); places and labels (rows, k), or asked and labels (k,), indices into all rows flattened;
    and what `table_arguments` takes. head: scores the states at `firsts`, whose labels are `neighbours`.
    """
    given = table_arguments(model.base_model, FAMILIES.get(model.config.model_type), rows)
    states, scores = model.base_model(input_ids=rows["inputs"], **given)[0], loss_head(model)  # (rows, length, width)
    if "asked" in rows:
        states = torch.index_select(states.flatten(0, 1), 0, rows["asked"])  # (k, width)
        return summed_cross_entropy(scores(states)[None], rows["labels"])
    places = rows["places"]
    asked = places if head is None else torch.cat([places, rows["firsts"]], dim=1)
    states = states.gather(1, asked.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # (rows, k, width)
    nats = summed_cross_entropy(scores(states[:, : places.shape[1]]), rows["labels"])
    if head is None:
        return nats
    return torch.stack([nats, summed_cross_entropy(head(states[:, places.shape[1] :]), rows["neighbours"])])


@cache
def _compiled(*, fixed: bool = False) -> Callable[..., Tensor]:
    """`token_loss`, compiled once for all models of one shape that this process trains, one after the other.

    It takes the model as an argument: a closure over the model would be recompiled for each. fixed: sizes never change.
    """
    # torch's own generator draws dropout faster than compiled code does: 28.6 ms a step instead of 30.1 on an H200.
    options: dict[str, Any] = {"fallback_random": True}
    if hasattr(torch._inductor.config.triton, "mix_order_reduction"):
        # One kernel for the two gradients of a norm took 270 us where two take 95, of 48,896 x 384 states on an H200.
        options["triton.mix_order_reduction"] = False
    compiled = torch.compile(token_loss, dynamic=False, options=options) if fixed else torch.compile(token_loss)

    def loss(*given: Any) -> Tensor:
        # Models of one process may have many shapes, and torch stops recompiling after eight by default. There is no
        # public name for this limit; without compiling, `token_loss` is the same function.
        with torch._dynamo.config.patch(recompile_limit=max(64, torch._dynamo.config.recompile_limit)):
            return compiled(*given)

    return loss


def summed_cross_entropy(predicted: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy in nats, summed: predicted (rows, k, vocabulary), labels (rows, k), ids or `IGNORE`."""
    return cross_entropy(predicted.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")


def padding_id(model: Any) -> int:
    """The padding id: the model's own, from which some families derive positions."""
    number = model.config.pad_token_id
    return 0 if number is None else int(number)


def sentence_modelling(
    model: Any,
    sentences: Sentences,
    *,
    batch: int,
    seed: int,
    masking: Masking,
    device: torch.device,
    attend_padding: bool = False,
    table: bool = False,
) -> Objective:
    """Language modelling on `batch` sentences a step, padded to the longest of them.

    model: a `...ForMaskedLM`, or a `...ForCausalLM` if the masking is causal. The order of an epoch is a permutation
    drawn from the seed and its number. The targets are 15% of the content tokens, under fresh masks at each step that
    are the same on every device, or for a decoder all tokens but the first, including the end of the sentence.
    attend_padding: pass no attention mask, so that padding is read as text. table: lay out several sentences to a row,
    in few shapes, so that an update can be captured as a CUDA graph.
    """
    few = f"the target corpus has {len(sentences)} sentences, fewer than one batch of {batch} ({sentences.name})"
    require(len(sentences) >= batch, f"{few}; give more sentences or a smaller batch")
    masking.count(sentences)
    content, starts = masking.content(sentences.ids), np.cumsum(sentences.lengths) - sentences.lengths
    padding, steps = padding_id(model), steps_in_epoch(sentences, batch)

    @lru_cache(maxsize=1)
    def order(epoch: int) -> np.ndarray:
        return np.random.default_rng(seed_of(seed, "order", epoch)).permutation(len(sentences))

    def draw(step: int) -> list[Part]:
        epoch, number = divmod(step, steps)
        chosen = order(epoch)[number * batch : (number + 1) * batch]
        tokens, text = padded_rows(chosen, starts, sentences.lengths)  # (rows, longest)
        ids = torch.from_numpy(np.where(text, sentences.ids[tokens], padding).astype(np.int64))
        if masking.mask_id is None:
            masked = following(ids, torch.from_numpy(text))
        else:
            generator = torch.Generator().manual_seed(seed_of(seed, "masks", step))
            maskable = torch.from_numpy(content[tokens] & text)
            masked = mask(ids, maskable, mask_id=masking.mask_id, pool=masking.pool, generator=generator)
        rows = dict(vars(masked))
        if table:
            rows = masked_table(masked, sentences.lengths[chosen], padding=padding)
        elif not attend_padding:
            rows["attention"] = torch.from_numpy(text.astype(np.int64))
        return [Part({name: to_device(values, device) for name, values in rows.items()})]

    def count(rows: Rows) -> Tensor:
        return (rows["labels"] != IGNORE).sum()

    return Objective(draw, lambda rows, name: token_loss(model, rows), count, captured=table)


def masked_table(masked: Masked, lengths: np.ndarray, *, padding: int, **more: np.ndarray) -> dict[str, Tensor]:
    """Lay out masked sentences several to a row, as inputs of `token_loss` with few different shapes.

    masked: sentences in padded rows, on the host; lengths (sentences,). more: other values of their tokens, (tokens,),
    with sentences concatenated.
    """
    table, text = layout_of(lengths), np.arange(masked.inputs.shape[1]) < lengths[:, None]
    used = (masked.labels != IGNORE).numpy()
    begins = np.cumsum(lengths) - lengths  # (sentences,)
    asked = table.slots[(begins[:, None] + masked.places.numpy())[used]]
    room = slots(table.texts.size, MOST_ASKED)
    while room < len(asked):  # short sentences, in which at least one token is masked, or decoders
        room = min(2 * room, table.texts.size)
    missing = room - len(asked)
    rows = {"inputs": table.spread(masked.inputs.numpy()[text], padding)}
    rows |= {"positions": table.positions, "texts": table.texts, "asked": np.pad(asked, (0, missing))}
    rows["labels"] = np.pad(masked.labels.numpy()[used], (0, missing), constant_values=IGNORE)
    rows |= {name: table.spread(values) for name, values in more.items()}
    return {name: torch.from_numpy(values) for name, values in rows.items()}
