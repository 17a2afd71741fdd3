"""Probes: every so many steps, take these measures.

A probe is a record of two things, how often and how; the loop adds the step. Whatever is drawn for it is a function of
its seed alone: the same sentences, cut at the same places, under the same masks each time, so that a curve moves
because the model moved. A probe sets evaluation mode and restores it, and leaves no gradient behind.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from isogloss.errors import InputError
from isogloss.measures.perplexity import UNITS, Likelihood, perplexity, perplexity_interval, tokens_per
from isogloss.measures.retrieval import retrieve
from isogloss.measures.statistics import jackknife_interval
from isogloss.seeds import seed_of
from isogloss.stack.stack import Stack, measuring
from isogloss.text.batches import chunks
from isogloss.text.corpora import Bitext
from isogloss.text.masking import IGNORE, Masked, mask
from isogloss.training.heads import masked_scores
from isogloss.vectors.extract import vectors

Reading = dict[str, Any]
"""One number: `measure`, `value` and any other column of the table of rows (low, high, floor, n, layer, target ...)."""

BLOCKS = 20  # of a jackknife
MASKED_AT_ONCE = 256  # streams; fixed, so that masks do not hang on how many streams the model runs at a time
SHORTEST = 8  # tokens of a last stream that is worth predicting in


@dataclass(frozen=True)
class Probe:
    """Measures to take every `every` steps: `take()` yields readings of the model as it then is.

    every: None takes them before the first update and after the last one only, which every probe is taken at.
    notes: sentences on what it leaves out, for whoever shows the readings.
    """

    every: int | None
    take: Callable[[], Iterable[Reading]]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise InputError(f"a probe is taken every 1 step or more rarely, not every {self.every}")

    def due(self, step: int) -> bool:
        """Whether it is taken after so many updates, the last one apart."""
        return step == 0 or (self.every is not None and step % self.every == 0)


class TextSize(NamedTuple):
    """How much text was evaluated: content tokens, and the words and characters they make."""

    tokens: int
    words: int
    characters: int


@dataclass(frozen=True)
class HeldOut:
    """One language's held-out text: ids (tokens,), end to end, cut into streams of `length`.

    size: of all of it, of which the content tokens are counted.
    """

    language: str
    ids: np.ndarray
    length: int
    pool: Tensor
    size: TextSize

    @property
    def streams(self) -> int:
        """Number of streams: each token is in exactly one, unless a tail too short to predict in is left over."""
        return len(self.ids) // self.length + (len(self.ids) % self.length >= SHORTEST)


def perplexity_probe(
    models: Callable[[str], nn.Module],
    streams: Mapping[str, np.ndarray],
    facts: Mapping[str, tuple[int, int]],
    *,
    length: int,
    mask_id: int,
    marks: Sequence[int],
    pools: Mapping[str, Tensor],
    every: int,
    seed: int,
    device: torch.device | str,
    rows: int = 256,
    limit: int | None = None,
    dtype: torch.dtype | None = None,
) -> Probe:
    """Perplexity of masked models on held-out text, per token, word and character.

    models(language): the `...ForMaskedLM` of a language, which may be one for all. streams: ids (tokens,) of each
    language's text, cut here into streams of `length` and a shorter last one. facts: words and characters of each
    text. marks: ids that are never masked. pools: ids (m,) that random words are drawn from. rows: streams the model
    runs at a time, which changes nothing but rounding. limit: at most so many streams a language, spread evenly over
    the text; `n` of a reading, the predicted tokens, tells. dtype: of autocast, none if absent.

    Readings: `perplexity` of each `target` in three `unit`s, with a jackknife interval over blocks of neighbouring
    streams; and of target `all`, the texts pooled, where there are several.
    """
    if limit is not None and limit < 1:
        raise InputError(f"perplexity needs at least one stream a language, not {limit}")
    if not streams:
        raise InputError("perplexity needs held-out text of at least one language")
    texts = []
    for language, ids in streams.items():
        content = int((~np.isin(ids, list(marks))).sum())
        texts.append(HeldOut(language, ids, length, pools[language].cpu(), TextSize(content, *facts[language])))
        if texts[-1].streams == 0 or content == 0:
            raise InputError(
                f"the held-out text of {language} has {content} tokens, too few to take its perplexity; give more text"
            )

    def take() -> Iterator[Reading]:
        losses = []
        for text in texts:
            batches = held_out_masks(text, mask_id=mask_id, marks=marks, seed=seed, limit=limit)
            losses.append(_surprise(models(text.language), batches, rows=rows, device=device, dtype=dtype))
            yield from perplexities(text.language, [text.size], losses[-1:])
        if len(texts) > 1:
            yield from perplexities("all", [text.size for text in texts], losses)

    return Probe(every, take)


def held_out_masks(
    text: HeldOut, *, mask_id: int, marks: Sequence[int], seed: int, limit: int | None = None
) -> Iterator[Masked]:
    """The streams of a text under their masks, on the CPU: the same each time, drawn again to keep memory small.

    Every batch holds MASKED_AT_ONCE streams at most; the shorter last stream is a batch of its own.
    """
    whole = len(text.ids) // text.length
    table = text.ids[: whole * text.length].reshape(whole, text.length)
    total = text.streams
    chosen = range(total) if limit is None or limit >= total else [i * total // limit for i in range(limit)]
    pieces = list(chunks([row for row in chosen if row < whole], MASKED_AT_ONCE))
    tail = [[whole]] if total > whole and whole in chosen else []
    special = torch.as_tensor(list(marks), dtype=torch.long)
    for number, rows in enumerate(pieces + tail):
        streams = text.ids[None, whole * text.length :] if rows == [whole] else table[rows]
        ids = torch.from_numpy(streams.astype(np.int64))  # (streams, length)
        generator = torch.Generator().manual_seed(seed_of(seed, "held-out masks", text.language, number))
        content = ~torch.isin(ids, special)
        yield mask(ids, content, mask_id=mask_id, pool=text.pool, generator=generator)


def retrieval_probe(
    stacks: Callable[[str], Stack],
    bitexts: Sequence[Bitext],
    *,
    every: int,
    sample: int | None = None,
    seed: int = 0,
) -> Probe:
    """How often a sentence's nearest neighbour is its translation, at every layer, named as `isogloss map` names it.

    stacks(language): the stack that reads a language; two languages may have stacks of their own, equally deep. English
    is paired with each other language of a bitext, or its first language where it has no English. sample: at most so
    many rows of each bitext, drawn once by the seed; fewer candidates make higher scores, so compare equal `n` only.

    Readings: `p@1` of each direction and layer, from `source` to `target`, and `p@1_mean`, the mean of all directions
    of a bitext, whose interval counts each sentence once. A copy of the right sentence is right too.
    """
    names = [_name(bitext) for bitext in bitexts]
    if len(set(names)) < len(names):
        raise InputError(f"two texts have the same name ({', '.join(names)}); their readings could not be told apart")
    texts = []
    for bitext, name in zip(bitexts, names, strict=True):
        if len(bitext.languages) < 2:
            raise InputError(f"{name} has one language only; retrieval needs two")
        whole = sample is None or sample >= bitext.rows
        rows = [] if whole else np.random.default_rng(seed).permutation(bitext.rows)[:sample].tolist()
        texts.append(bitext if whole else bitext.take(rows))
    return Probe(every, lambda: (reading for text in texts for reading in _retrieval(stacks, text)))


def _surprise(
    model: nn.Module, batches: Iterable[Masked], *, rows: int, device: torch.device | str, dtype: torch.dtype | None
) -> tuple[Tensor, Tensor]:
    """Nats summed over the predicted tokens of each stream, float64, and their number: (streams,) and (streams,)."""
    nats, counts = [], []
    with measuring(model), arithmetic(device, dtype):
        for batch in batches:
            counts.append((batch.labels != IGNORE).sum(dim=1))
            fields = (batch.inputs, batch.places, batch.labels)
            for part in zip(*(torch.split(field, rows) for field in fields), strict=True):
                inputs, places, labels = (tensor.to(device) for tensor in part)
                scores = masked_scores(model, inputs, places).float()  # (rows, k, vocabulary)
                losses = cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="none")
                nats.append(losses.view_as(labels))
        # Only now is anything read from the device, which until here never had to wait.
        totals = torch.cat([tensor.cpu().double().sum(dim=1) for tensor in nats])
    return totals, torch.cat(counts)


def arithmetic(device: torch.device | str, dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """Computing in another precision inside the block, the weights staying as they are; None changes nothing."""
    return nullcontext() if dtype is None else torch.autocast(torch.device(device).type, dtype=dtype)


def perplexities(target: str, sizes: Sequence[TextSize], losses: Sequence[tuple[Tensor, Tensor]]) -> Iterator[Reading]:
    """The readings of some texts taken together: losses (totals, counts) of each text's streams or sentences.

    Block i of several texts is block i of each: languages differ, and a block that held one of them would take that
    difference for chance.
    """
    whole = Likelihood(0.0, 0, 0, 0, 0)
    for size, (totals, counts) in zip(sizes, losses, strict=True):
        whole += Likelihood(float(totals.sum()), int(counts.sum()), *size)
    blocks = min(BLOCKS, *(len(totals) for totals, _ in losses))
    # Sums over consecutive blocks of streams, (blocks,), of nats and of tokens.
    totals, counts = (
        torch.stack([torch.stack([part.sum() for part in each.tensor_split(blocks)]) for each in side]).sum(dim=0)
        for side in zip(*losses, strict=True)
    )
    for unit in UNITS:
        low, high = perplexity_interval(totals, counts, rate=tokens_per(whole, unit))
        reading = {"measure": "perplexity", "value": perplexity(whole, unit), "low": low, "high": high}
        yield reading | {"n": whole.count, "target": target, "unit": unit}


def _retrieval(stacks: Callable[[str], Stack], bitext: Bitext) -> Iterator[Reading]:
    """The readings of one bitext, layer by layer."""
    first = "en" if "en" in bitext.languages else bitext.languages[0]
    vectors_of = {corpus.language: vectors(stacks(corpus.language), corpus) for corpus in bitext}
    device = stacks(first).device
    device = device if device.type == "cuda" else torch.device("cpu")
    for layer in range(len(vectors_of[first])):
        coordinates = {"layer": layer, "unit": "sentence", "method": "centred", "data": _name(bitext)}
        hits, floors = [], []
        for other in (language for language in bitext.languages if language != first):
            x, y = vectors_of[first][layer].to(device), vectors_of[other][layer].to(device)
            keys_x, keys_y = bitext[first].sentences, bitext[other].sentences
            both = retrieve(x, y, method="centred", ks=(1,), keys_x=keys_x, keys_y=keys_y)
            for result, direction in zip(both, ((first, other), (other, first)), strict=True):
                answer = {"measure": "p@1", **asdict(result.p[1])}
                yield answer | coordinates | {"source": direction[0], "target": direction[1]}
                hits.append((result.ranks == 1).double())
                floors.append(result.p[1].floor)
        mean_hits = torch.stack(hits).mean(dim=0)  # (n,), the share of directions that found each sentence
        value = float(mean_hits.mean())
        low, high = jackknife_interval(value, (mean_hits.sum() - mean_hits) / max(1, len(mean_hits) - 1))
        answer = {"measure": "p@1_mean", "value": value, "low": max(low, 0.0), "high": min(high, 1.0)}
        yield answer | {"floor": sum(floors) / len(floors), "n": len(mean_hits)} | coordinates


def _name(bitext: Bitext) -> str:
    return bitext.name or "-".join(bitext.languages)
