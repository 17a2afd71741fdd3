"""How far two models are from each other, layer by layer, on the same words: probes over the steps of training.

The other model is a native model of the language, or the model itself before its first update (`own_start`). Two
tokenizers cut one sentence in different places, so tokens do not correspond; words do. A word is a span of characters,
and its vector is the mean of its subwords. Each is compared with the vector of the same word in the other model; a word
that either model lost because its sentence was too long is left out. Special tokens and padding never enter.

The sample of words is drawn once. The other model's vectors of it are computed once and kept in memory; nothing is
written. Dropout is off, so a frozen layer has the same distance at every step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.cka import CkaStream
from isogloss.measures.geometry import cosine_distances, l2_distances, procrustes_distance, procrustes_floor
from isogloss.measures.statistics import jackknife_interval
from isogloss.seeds import seed_of
from isogloss.stack.stack import Part, Stack, measuring, reading
from isogloss.text.batches import chunks
from isogloss.text.corpora import Corpus
from isogloss.text.words import word_spans
from isogloss.training.probes import Probe, Reading
from isogloss.vectors.extract import stream

Distance = Literal["l2", "cosine", "cka", "procrustes"]
Unit = Literal["word", "position", "unmasked position"]

ANY_WIDTH = ("cka",)  # compares spaces of different widths too
FEWEST = 4  # items of a debiased CKA
BLOCKS, BLOCK = 20, 128  # of CKA's jackknife: about so many, of at most so many items
PADDED_TOGETHER = 16  # sentences of a padded batch: the paper's evaluation batch


@dataclass(frozen=True, eq=False)
class Sampled:
    """Vectors of a sample of words: values (layers, items, width), float32, at these `layers`.

    items: (items, 2), a word's row in the corpus and its number in the sentence; with unit "position" the number of a
    position in a padded batch. rows: the sentences drawn. cuts: all that the model has. text: hash of the corpus.
    """

    values: Tensor
    items: Tensor
    layers: tuple[int, ...]
    rows: tuple[int, ...]
    cuts: range
    unit: Unit
    part: Part
    text: str


def own_start(
    stack: Stack,
    corpus: Corpus,
    *,
    seed: int,
    words: int | None = 5000,
    layers: Sequence[int] | None = None,
    part: Part = "states",
    by_position: bool = False,
    attend_padding: bool = False,
) -> Sampled:
    """The vectors of a stack as it is now, on the CPU, to measure later how far it went from here.

    Give `distance_probe` the same corpus and options. A run that is resumed needs the vectors of step 0, not of the
    step it goes on from: load the model it began with, and give that to the probe instead.
    """
    chosen = tuple(stack.cuts_of(part) if layers is None else layers)
    rows = _sample(corpus, words, seed)
    unit = _unit(by_position, attend_padding)
    return _read(stack, corpus, rows, layers=chosen, part=part, unit=unit, device=torch.device("cpu"))


def distance_probe(
    stack: Stack,
    reference: Stack | Sampled,
    corpus: Corpus,
    *,
    every: int,
    other: str,
    seed: int,
    measures: Sequence[Distance] = ("l2", "cosine", "cka", "procrustes"),
    words: int | None = 5000,
    layers: Sequence[int] | None = None,
    part: Part = "states",
    by_position: bool = False,
    attend_padding: bool = False,
) -> Probe:
    """Distances of a stack in training to another model, or to its own start, at every layer.

    reference: the other stack, read here and now and not needed afterwards, or what `own_start` kept. other: its name
    in the readings. words: whole sentences are drawn by the seed until they hold so many; None takes all. layers:
    default all. part: "attention" compares what the attention inside block k adds to its input, k from 1.
    by_position: the way of Hussain & Dudev 2020, position i of a padded batch with position i, special tokens and
    padding included; wrong where the tokenizers differ, and here to show how wrong. attend_padding: with it, no
    attention mask is given either.

    Readings, each with `layer` and the same `other_layer`, `n` words and `unit` "word" (or "position"):
    `l2_drift` and `cosine_drift`, means with a jackknife interval over sentences; `cka`, debiased, with its jackknife
    interval over blocks and the floor of shuffled pairs; `procrustes_distance` with its floor. `method` is "attention"
    where that is read. Models of different widths have `cka` only, and the probe's `notes` say so.
    """
    chosen = tuple(stack.cuts_of(part) if layers is None else layers)
    if reference.cuts != stack.cuts:
        raise InputError(
            f"{other} has {len(reference.cuts) - 1} layers, {stack.name} has {len(stack.cuts) - 1}: layers are "
            "compared one by one; choose a model of the same depth"
        )
    if not isinstance(reference, Sampled):
        how = {"by_position": by_position, "attend_padding": attend_padding}
        reference = own_start(reference, corpus, seed=seed, words=words, layers=chosen, part=part, **how)
    start, rows, unit = reference, _sample(corpus, words, seed), _unit(by_position, attend_padding)
    if (start.rows, start.unit, start.part, start.text) != (rows, unit, part, corpus.fingerprint):
        raise InputError(
            f"the vectors kept of {other} are of other words than those to compare; keep them with the same corpus, "
            "words, seed, part and by_position"
        )
    if missing := set(chosen) - set(start.layers):
        raise InputError(f"the vectors kept of {other} are of layers {list(start.layers)}, not {sorted(missing)}")
    if unknown := [name for name in measures if name not in get_args(Distance)]:
        raise InputError(f"no distance is called {unknown[0]!r}; choose {', '.join(get_args(Distance))}")
    width, names, left = start.values.shape[2], list(measures), list[str]()
    widths = f"{other} is {width} wide and {stack.name} {stack.width}"
    if width != stack.width:
        names, left = [name for name in measures if name in ANY_WIDTH], [x for x in measures if x not in ANY_WIDTH]
        if not names:
            raise InputError(f"{widths}; of the distances only cka compares models of different widths")
    note = f"{widths}: {', '.join(left)} left out, only cka compares models of different widths"
    coordinates = {"unit": unit.removeprefix("unmasked "), "other_model": other, "data": corpus.name or corpus.language}
    coordinates |= {"method": "attention"} if part == "attention" else {}

    def take() -> Iterator[Reading]:
        sampled = _read(stack, corpus, rows, layers=chosen, part=part, unit=unit, device=stack.device)
        # Where the items that both have stand in each: both list a sentence's items in order, and sentences alike.
        both = (sampled.items, start.items)
        most = 1 + max((int(items[:, 1].max()) for items in both if len(items)), default=0)
        keys = [items[:, 0] * most + items[:, 1] for items in both]
        mine, theirs = (torch.isin(own, others).nonzero().flatten() for own, others in (keys, keys[::-1]))
        assert torch.equal(keys[0][mine], keys[1][theirs])
        if len(mine) < FEWEST:
            raise InputError(
                f"{corpus.name or corpus.language}: {stack.name} and {other} have {len(mine)} {unit}s in common, and "
                f"a distance needs at least {FEWEST}; give more sentences"
            )
        sentences = torch.unique(sampled.items[mine, 0], return_inverse=True)[1]
        for number, layer in enumerate(chosen):
            x = sampled.values[number][mine.to(sampled.values.device)]
            y = start.values[start.layers.index(layer)][theirs].to(x.device)
            for name in names:
                answer = _distance(name, x, y, sentences, seed)
                yield answer | {"n": len(mine), "layer": layer, "other_layer": layer} | coordinates

    return Probe(every, take, (note,) if left else ())


def _sample(corpus: Corpus, words: int | None, seed: int) -> tuple[int, ...]:
    """Rows of whole sentences in a drawn order, until they hold `words` words; in that order blocks are random too."""
    if words is not None and words < FEWEST:
        raise InputError(f"distances need at least {FEWEST} words, not {words}")
    generator = np.random.default_rng(seed_of(seed, "words for distances"))
    order = tuple(generator.permutation(len(corpus)).tolist())
    if not order:
        raise InputError(f"{corpus.name or corpus.language}: the corpus is empty")
    if words is None:
        return order
    totals = accumulate(len(word_spans(corpus, row)) for row in order)
    return next((order[:count] for count, total in enumerate(totals, 1) if total >= words), order)


def _read(
    stack: Stack,
    corpus: Corpus,
    rows: tuple[int, ...],
    *,
    layers: tuple[int, ...],
    part: Part,
    unit: Unit,
    device: torch.device,
) -> Sampled:
    """Vectors of every item of these sentences, in their order, on `device`."""
    if unit != "word":
        masked = unit == "position"
        parts = list(_positions(stack, corpus, rows, layers=layers, part=part, masked=masked))
    else:
        chunks_read = stream(stack, corpus, layers=layers, units=("word",), rows=rows, part=part)
        parts = [(chunk.values["word"].to(device), chunk.items["word"]) for chunk in chunks_read]
    values = torch.cat([chunk.to(device) for chunk, _ in parts], dim=1)
    items = torch.cat([chunk for _, chunk in parts])
    return Sampled(values, items, layers, rows, stack.cuts, unit, part, corpus.fingerprint)


def _positions(
    stack: Stack, corpus: Corpus, rows: tuple[int, ...], *, layers: tuple[int, ...], part: Part, masked: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Every position of padded batches, marks and padding included: values (layers, items, width), items (items, 2)."""
    if stack.family.kind != "encoder":
        raise InputError(f"{stack.name} is a {stack.family.kind}: only encoders are compared position by position")
    attention = stack.family.attention if part == "attention" else None
    states_at: dict[int, Tensor] = {}

    def keep(cut: int, states: Tensor) -> None:
        states_at[cut] = states.float().flatten(0, 1)  # (sentences * longest, width)

    for piece in chunks(rows, PADDED_TOGETHER):
        texts = [corpus.sentences[row] for row in piece]
        options = {"padding": True, "truncation": True, "max_length": stack.max_length, "return_tensors": "pt"}
        encoded = stack.tokenizer(texts, return_token_type_ids=False, **options).to(stack.device)
        if not masked:
            del encoded["attention_mask"]
        with (
            measuring(stack.model),
            reading(stack.blocks, set(layers), first=stack.first, keep=keep, attention=attention),
        ):
            stack.model(**encoded)
        longest = encoded["input_ids"].shape[1]
        items = torch.cartesian_prod(torch.tensor(piece), torch.arange(longest))  # (sentences * longest, 2)
        yield torch.stack([states_at[layer] for layer in layers]), items


def _mean(measure: str, distances: Tensor, sentences: Tensor, *, most: float) -> Reading:
    """The mean of distances (n,), with a delete-one-sentence jackknife: words of a sentence are not independent."""
    values = distances.cpu()
    totals = torch.zeros(int(sentences.max()) + 1, dtype=values.dtype).index_add_(0, sentences, values)
    without = (values.sum() - totals) / (len(values) - torch.bincount(sentences))
    value = float(values.mean())
    low, high = jackknife_interval(value, without)
    return {"measure": measure, "value": value, "low": max(low, 0.0), "high": min(high, most)}


def _distance(name: Distance, x: Tensor, y: Tensor, sentences: Tensor, seed: int) -> Reading:
    """The reading of one measure: x, y (items, width), sentences (items,) the sentence of each item."""
    if name == "l2":
        return _mean("l2_drift", l2_distances(x, y), sentences, most=float("inf"))
    if name == "cosine":
        return _mean("cosine_drift", cosine_distances(x, y), sentences, most=2.0)
    if name == "procrustes":
        floor = procrustes_floor(x, y, seed=seed)
        return {"measure": "procrustes_distance", "value": procrustes_distance(x, y), "floor": floor}
    pair = CkaStream([("x", "y")], block=max(FEWEST, min(BLOCK, len(x) // BLOCKS)), seed=seed)
    pair.update({"x": x, "y": y})
    return {"measure": "cka", **asdict(pair.estimate("x", "y"))}


def _unit(by_position: bool, attend_padding: bool) -> Unit:
    if attend_padding and not by_position:
        raise InputError("padding is attended to by position only: words are read without any; add by_position=True")
    return "word" if not by_position else "unmasked position" if attend_padding else "position"
