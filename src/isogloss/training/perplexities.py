"""Perplexity of held-out text: a probe over the steps of training.

`perplexity_probe` predicts the same tokens of every sentence each time it is taken: masked ones, or in a decoder every
content token after the first. Three defects of the code of Hussain & Dudev (2020) can be switched on, to see how each
affects a curve: attention to padding (`attend_padding`), an evaluation that stops early (`limit`), and masks redrawn at
each evaluation (`redraw`).

Batches have one of two layouts with the same results: packed, the sentences concatenated in one row, with attention
within each sentence; and padded, one sentence a row, of similar length. Ids, masks and batches are created once, with
the probe, and results are copied from the device once for each corpus.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from isogloss.errors import InputError, require
from isogloss.measures.perplexity import UNITS, Likelihood, perplexity, perplexity_interval, tokens_per
from isogloss.measures.statistics import PARTS
from isogloss.seeds import seed_of
from isogloss.stack.families import FAMILIES, without_cache
from isogloss.stack.head import loss_head
from isogloss.stack.packing import packed, packing_pays
from isogloss.stack.stack import measuring, packed_inputs
from isogloss.text.batches import Sentences, batch_tokens, chunks, group, padded_rows
from isogloss.text.masking import Masking, fixed_masks
from isogloss.training.language_modelling import padding_id
from isogloss.training.mixed_precision import arithmetic
from isogloss.training.probes import Probe, Reading

SCORES_AT_ONCE = 2**28  # logits at a time; a large vocabulary at every masked token would fill a small GPU
RESIDENT_TOKENS = 2**26  # largest corpus whose batches are kept in a GPU's memory


def perplexity_probe(
    model: Any,
    corpora: Sequence[Sentences],
    *,
    every: int,
    seed: int,
    masking: Masking | Mapping[str, Masking],
    device: torch.device | str,
    target: str | None = None,
    dtype: torch.dtype | None = None,
    tokens: int | None = None,
    limit: int | None = None,
    attend_padding: bool = False,
    redraw: Callable[[], int] | None = None,
    rows: int = 16,
) -> Probe:
    """Perplexity of language models on sentences, corpus by corpus, per token, word and character.

    model: a `...ForMaskedLM`, or a `...ForCausalLM` if the masking is causal; or one for each language by its code, all
    of one family; masking: likewise. dtype: of autocast, None for no autocast. tokens: maximum tokens of a batch, which
    bounds memory; the default suits the device. Neither changes more than rounding, since the masks of a sentence are a
    function of the seed, its corpus (language and name) and its index there.

    limit: read only the first `limit` sentences of each corpus, which shows in `n`, the number of predicted tokens.
    attend_padding: pass no attention mask, and batch `rows` neighbouring sentences, since their padding now matters.
    redraw: draw new masks at each evaluation from the number that this function returns (the step, so that a resumed
    run draws the same masks).

    Readings: `perplexity` of each corpus (`target` its language, `data` its name, if it has one) in three `unit`s, with
    a jackknife interval over blocks of neighbouring sentences. In addition the corpora of languages other than `target`
    pooled, as target `others`; without a target all corpora, as `all`, if there are several.
    """
    require(corpora, "perplexity needs at least one corpus to evaluate on")
    titles = [f"{corpus.name} ({corpus.language})" for corpus in corpora]
    if twice := [title for title in titles if titles.count(title) > 1]:
        raise InputError(f"two corpora are called {twice[0]}; their readings could not be told apart: rename one")
    maskings = masking if isinstance(masking, Mapping) else {corpus.language: masking for corpus in corpora}
    sizes = [(maskings[each.language].count(each, limit), each.words, each.characters) for each in corpora]
    models = [model[corpus.language] if isinstance(model, Mapping) else model for corpus in corpora]
    causal, device = next(iter(maskings.values())).causal, torch.device(device)
    family = FAMILIES.get(models[0].config.model_type)
    packing = None  # sentences are concatenated if the family allows it and that is faster
    if family is not None and family.packs and not attend_padding:
        pays = packing_pays(device, dtype or next(models[0].parameters()).dtype)
        packing = partial(packed_inputs, models[0].base_model, family) if pays else None
    room = tokens or batch_tokens(device, padded=packing is None)
    reader = _Reader(
        device,
        dtype,
        packing=packing,
        padding=padding_id(models[0]),
        room=room,
        rows=rows if attend_padding else None,
        limit=limit,
    )

    def prepare(corpus: Sentences, *number: int) -> Iterator[AskedBatch]:
        key = seed_of(seed, "sentence masks", corpus.language, corpus.name, *number)
        return reader.batches(corpus, maskings[corpus.language], key)

    # Fixed masks are kept, except for a corpus that would fill the memory.
    ready = [list(prepare(each)) if len(each.ids) <= RESIDENT_TOKENS else None for each in corpora if redraw is None]

    def take() -> Iterator[Reading]:
        number = () if redraw is None else (redraw(),)
        batches = [
            prepare(corpus, *number) if known is None else known
            for corpus, known in zip(corpora, ready or [None] * len(corpora), strict=True)
        ]
        # All corpora are queued before the first result is awaited, so that the device never idles between two.
        under_way = [reader.nats(*each, causal=causal) for each in zip(models, batches, strict=True)]
        losses = []  # nats of each sentence, and the number of its predicted tokens
        for (nats, owners), corpus in zip(under_way, corpora, strict=True):
            # The host sums: a GPU adds in arbitrary order, so that a repeated curve would differ in its last digits. In
            # numpy, because it takes a few hundred small operations at every reading, of which torch's are slow.
            count = len(corpus.lengths[:limit])
            totals = np.bincount(owners.numpy(), nats.cpu().numpy(), minlength=count)
            losses.append((totals, np.bincount(owners.numpy(), minlength=count)))
        sets = [(corpus.language, corpus.name, [number]) for number, corpus in enumerate(corpora)]
        others = [number for number, corpus in enumerate(corpora) if corpus.language != target]
        if others and (target is not None or len(others) > 1):
            names = "+".join(dict.fromkeys(corpora[number].name for number in others if corpora[number].name))
            sets.append(("all" if target is None else "others", names, others))
        for language, name, members in sets:
            readings = perplexities(language, [sizes[i] for i in members], [losses[i] for i in members])
            more = ({"data": name} if name else {}) | ({"method": "causal"} if causal else {})
            yield from (reading | more for reading in readings)

    return Probe(every, take)


@dataclass(frozen=True)
class _Reader:
    """How the predicted tokens of a corpus are laid out in batches, and how a model's loss at them is computed.

    packing: the arguments of packed sentences from their lengths; None for padded rows. padding: id of the padding
    token. room: maximum tokens of a batch. rows: if not None, neighbouring sentences of a batch whose padding is
    attended to. limit: sentences of a corpus that are read, all if None.
    """

    device: torch.device
    dtype: torch.dtype | None
    packing: Callable[[Tensor], dict[str, Any]] | None
    padding: int
    room: int
    rows: int | None
    limit: int | None

    def batches(self, corpus: Sentences, masking: Masking, seed: int) -> Iterator["AskedBatch"]:
        """Batches that predict every chosen token once; a sentence without any is left out."""
        home = self.device if len(corpus.ids) <= RESIDENT_TOKENS else torch.device("cpu")
        for first, ids, lengths in corpus.parts(self.limit):
            starts = np.cumsum(lengths) - lengths
            inputs, chosen = _chosen(masking, ids, lengths, first=first, seed=seed)
            counts = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[chosen], minlength=len(lengths))
            if self.rows is not None:
                groups: Iterable[list[int]] = chunks(range(len(lengths)), self.rows)
            else:
                used = np.flatnonzero(counts)
                groups = (used[members].tolist() for members in group(lengths[used].tolist(), tokens=self.room))
            for members in groups:
                places, text = padded_rows(members, starts, lengths)  # (rows, longest)
                if self.packing is not None:
                    places, text = places[text][None], text[text][None]  # (1, tokens), all of it text
                given = {"input_ids": torch.from_numpy(np.where(text, inputs[places], self.padding).astype(np.int64))}
                if self.packing is not None:
                    given |= self.packing(torch.from_numpy(lengths[members]))
                elif self.rows is None:
                    given["attention_mask"] = torch.from_numpy(text.astype(np.int64))
                asked = np.flatnonzero(chosen[places] & text)
                labels = ids[places].reshape(-1)[asked].astype(np.int64)
                owners = first + np.repeat(members, counts[members])
                asked -= masking.causal  # the state before a token predicts it
                arrays = (torch.from_numpy(array) for array in (asked, labels, owners))
                yield AskedBatch(given, *arrays).to(home)

    def nats(self, model: Any, batches: Iterable["AskedBatch"], *, causal: bool) -> tuple[Tensor, Tensor]:
        """Nats of every predicted token, float32, not yet synchronised, and its sentence: (tokens,) each."""
        encoder, at_once = model.base_model, max(1, SCORES_AT_ONCE // model.config.vocab_size)
        options = without_cache(encoder) if causal else {}
        nats, owners = [], []
        with measuring(model), arithmetic(self.device, self.dtype), packed(encoder) if self.packing else nullcontext():
            scores = loss_head(model)
            for batch in (batch.to(self.device) for batch in batches):
                states = encoder(**batch.inputs, **options)[0].to(self.device)  # the last block may be elsewhere
                states = states.flatten(0, 1)[batch.asked]  # (k, width)
                for part, labels in zip(torch.split(states, at_once), torch.split(batch.labels, at_once), strict=True):
                    nats.append(cross_entropy(scores(part).float(), labels, reduction="none"))
                owners.append(batch.owners)
            return torch.cat(nats), torch.cat(owners)


def _chosen(masking: Masking, ids: Any, lengths: Any, *, first: int, seed: int) -> tuple[Any, Any]:
    """The input ids of sentences and which tokens are predicted, (tokens,) each: masked ones, or all after the first.

    ids: (tokens,) of sentences of these lengths (sentences,), the first of which is number `first` of its corpus.
    """
    content = masking.content(ids)
    if masking.mask_id is not None:
        pool = masking.pool.cpu().numpy()
        return fixed_masks(ids, lengths, content=content, first=first, mask_id=masking.mask_id, pool=pool, seed=seed)
    content[(np.cumsum(lengths) - lengths)[lengths > 0]] = False  # the first token of a sentence has no context
    return ids, content


def perplexities(
    target: str, sizes: Sequence[tuple[int, int, int]], losses: Sequence[tuple[np.ndarray, np.ndarray]]
) -> Iterator[Reading]:
    """The readings of several texts pooled: losses (totals, counts) of each text's sentences.

    sizes: content tokens, words and characters of each text. Jackknife block i of several texts is block i of each: a
    block of a single language would count the difference between languages as sampling error.
    """
    whole = Likelihood(0.0, 0, 0, 0, 0)
    for size, (totals, counts) in zip(sizes, losses, strict=True):
        whole += Likelihood(float(totals.sum()), int(counts.sum()), *size)
    blocks = min(PARTS, *(len(totals) for totals, _ in losses))
    nats, tokens = (
        torch.from_numpy(np.sum([_block_sums(each, blocks) for each in side], axis=0))
        for side in zip(*losses, strict=True)
    )
    for unit in UNITS:
        rate = tokens_per(whole, unit)
        low, high = perplexity_interval(nats, tokens, rate=rate)
        reading = {"measure": "perplexity", "value": perplexity(whole, unit), "low": low, "high": high}
        if blocks == PARTS:
            reading["parts"] = (rate * (nats.sum() - nats) / (tokens.sum() - tokens)).exp().tolist()
        yield reading | {"n": whole.count, "target": target, "unit": unit}


def _block_sums(values: np.ndarray, blocks: int) -> np.ndarray:
    """The sums of consecutive blocks of values, (blocks,), whose sizes differ by one at most, the larger ones first."""
    size, larger = divmod(len(values), blocks)
    numbers = np.arange(blocks)
    return np.add.reduceat(values, numbers * size + np.minimum(numbers, larger))


@dataclass(frozen=True)
class AskedBatch:
    """A batch and its prediction targets.

    inputs: arguments of the encoder. asked (k,): indices of the states to predict from, in the batch's flattened
    states. labels (k,): the ids to be predicted there. owners (k,): the sentence of the corpus of each, on the host.
    """

    inputs: dict[str, Any]
    asked: Tensor
    labels: Tensor
    owners: Tensor

    def to(self, device: torch.device) -> "AskedBatch":
        """Copy to another device, except for the owners, which stay on the host."""
        moved = {
            name: value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
            for name, value in self.inputs.items()
        }
        asked, labels = (tensor.to(device, non_blocking=True) for tensor in (self.asked, self.labels))
        return replace(self, inputs=moved, asked=asked, labels=labels)
