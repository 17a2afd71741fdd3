"""Distances between two models, layer by layer, on the same words, measured by a probe during training.

The other model is a native model of the language, or the model itself before its first update. Two tokenizers segment a
sentence differently, so tokens do not correspond; words do. A word is a span of characters, and its vector is the mean
of its subwords. Each is compared with the vector of the same word in the other model; a word that either model
truncated is left out. Special tokens and padding are never used.

The sample of words is drawn once. The other model's vectors are computed once and kept in memory; nothing is written.
Dropout is off, so a frozen layer has the same distance at every step.

CKA and the Procrustes distance compare how two spaces arrange the words. A word that occurs twice has nearly the same
vector twice in both spaces, which both would read as agreement: vectors drawn at random for each word of 2,029 running
Dutch words, in each space anew, have a CKA of 0.85. So they take the first use of each word.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.cka import CkaStream
from isogloss.measures.geometry import cosine_distances, l2_distances, procrustes_distance, procrustes_floor
from isogloss.measures.inputs import double
from isogloss.measures.statistics import PARTS, jackknife_interval
from isogloss.progress import listening, silent
from isogloss.seeds import seed_of
from isogloss.stack.stack import Part, Stack, measuring, reading
from isogloss.text.batches import chunks
from isogloss.text.corpora import Corpus
from isogloss.text.words import word_spans, words_of
from isogloss.training.probes import Probe, Reading
from isogloss.vectors.extract import stream

Distance = Literal["l2", "cosine", "cka", "procrustes"]

ANY_WIDTH = ("cka",)  # distances that compare spaces of different widths too
FEWEST = 4  # minimum number of items for a debiased CKA
PADDED_TOGETHER = 16  # sentences of a padded batch: the paper's evaluation batch


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample:
    """A sample of words and a model's vectors of them: values (layers, items, width), float32, at these `layers`.

    items: (items, 2), a word's row in the corpus and its index in the sentence, or its position in a padded batch if
    vectors are read by position. rows: the sampled sentences. cuts: all cuts of the model.
    """

    corpus: Corpus
    rows: tuple[int, ...]
    layers: tuple[int, ...]
    part: Part
    by_position: bool
    attend_padding: bool
    seed: int
    cuts: range
    values: Tensor = torch.empty(0)
    items: Tensor = torch.empty(0)


def sample_vectors(
    stack: Stack,
    corpus: Corpus,
    *,
    seed: int,
    words: int | None = 5000,
    layers: Sequence[int] | None = None,
    part: Part = "states",
    by_position: bool = False,
    attend_padding: bool = False,
) -> Sample:
    """A stack's current vectors of a sample of words, on the CPU, as the reference for `distance_probe`.

    A resumed run needs the vectors of step 0, not those of the step at which it resumes: call this before a checkpoint
    is restored.

    Args:
        stack: the reference model: another one, or the one that is about to be trained.
        corpus: the text to sample from.
        seed: of the sampling of sentences.
        words: sentences are drawn until they contain this many words; None takes all.
        layers: the layers to read; all by default.
        part: "states", or "attention", the output that the attention of block k adds to its input, k from 1.
        by_position: compare position i of a padded batch with position i, special tokens and padding included, as
            Hussain & Dudev (2020) do; this is wrong if the tokenizers differ, and serves to show how wrong.
        attend_padding: with `by_position`, run without an attention mask, so that tokens attend to padding.
    """
    require(words is None or words >= FEWEST, f"distances need at least {FEWEST} words, not {words}")
    # Whole sentences in random order until they contain `words` words; so jackknife blocks are random too.
    rows = tuple(np.random.default_rng(seed_of(seed, "words for distances")).permutation(len(corpus)).tolist())
    require(rows, f"{corpus.name or corpus.language}: the corpus is empty")
    if words is not None:
        totals = accumulate(len(word_spans(corpus, row)) for row in rows)
        rows = next((rows[:count] for count, total in enumerate(totals, 1) if total >= words), rows)
    sample = Sample(
        corpus=corpus,
        rows=rows,
        layers=tuple(stack.cuts_of(part) if layers is None else layers),
        part=part,
        by_position=by_position,
        attend_padding=attend_padding,
        seed=seed,
        cuts=stack.cuts,
    )
    return _read(stack, sample, torch.device("cpu"))


def distance_probe(
    stack: Stack,
    reference: Sample,
    *,
    every: int,
    other: str,
    measures: Sequence[Distance] = ("l2", "cosine", "cka", "procrustes"),
) -> Probe:
    """Distances of a stack in training to another model, or to its own initial state, on the words of a sample.

    reference: the other model's vectors; other: its name in the readings.

    Readings, each with `layer` and the same `other_layer`, `n` words and `unit` "word" (or "position"): `l2_drift` and
    `cosine_drift`, means over all uses of words with a jackknife interval over blocks of sentences; of the first use of
    each word `cka`, debiased, with its jackknife interval and the floor of shuffled pairs, and `procrustes_distance`
    with its floor. `method` is "attention" if the part is. Models of different widths have `cka` only, and the probe's
    `notes` say so.
    """
    depths = f"{other} has {len(reference.cuts) - 1} layers, {stack.name} has {len(stack.cuts) - 1}"
    compared = "layers are compared one by one; choose a model of the same depth"
    require(reference.cuts == stack.cuts, f"{depths}: {compared}")
    if unknown := [name for name in measures if name not in get_args(Distance)]:
        raise InputError(f"no distance is called {unknown[0]!r}; choose {', '.join(get_args(Distance))}")
    corpus, width = reference.corpus, reference.values.shape[2]
    names = [name for name in measures if width == stack.width or name in ANY_WIDTH]
    left_out = [name for name in measures if name not in names]
    note = f"{other} is {width} wide and {stack.name} {stack.width}: {', '.join(left_out)} left out, only cka compares "
    note += "models of different widths"
    require(names, note)
    unit, data = "position" if reference.by_position else "word", corpus.name or corpus.language
    coordinates = {"unit": unit, "other_model": other, "data": data}
    coordinates |= {"method": "attention"} if reference.part == "attention" else {}

    unmoved: dict[int, list[Reading]] = {}  # readings of layers equal to the reference, such as frozen ones

    def take() -> Iterator[Reading]:
        sample = _read(stack, reference, stack.device)
        # Indices of the common items in both: sentences, and the items of each sentence, are in the same order.
        both = (sample.items, reference.items)
        most = 1 + max((int(items[:, 1].max()) for items in both if len(items)), default=0)
        keys = [items[:, 0] * most + items[:, 1] for items in both]
        mine, theirs = (torch.isin(own, others).nonzero().flatten() for own, others in (keys, keys[::-1]))
        assert torch.equal(keys[0][mine], keys[1][theirs])
        first = torch.arange(len(mine)) if reference.by_position else _first_uses(corpus, sample.items[mine])
        few = f"{data}: {stack.name} and {other} have {len(first)} different {unit}s in common"
        require(len(first) >= FEWEST, f"{few}, and a distance needs at least {FEWEST}; give more sentences")
        sentences = torch.unique(sample.items[mine, 0], return_inverse=True)[1]
        for layer, own, others in zip(sample.layers, sample.values, reference.values, strict=True):
            x = own[mine.to(own.device)]
            y = others[theirs].to(x.device)
            equal = torch.equal(x, y)
            readings = unmoved.get(layer) if equal else None
            readings = readings or [
                _distance(name, x, y, sentences=sentences, first=first.to(x.device), seed=reference.seed)
                for name in names
            ]
            if equal:
                unmoved[layer] = readings
            for row in readings:
                yield row | {"layer": layer, "other_layer": layer} | coordinates

    return Probe(every, take, (note,) if left_out else ())


def _read(stack: Stack, sample: Sample, device: torch.device) -> Sample:
    """Return the sample with a stack's vectors of it, on `device`."""
    if sample.by_position:
        parts = list(_positions(stack, sample))
    else:
        chunks_read = stream(
            stack, sample.corpus, layers=sample.layers, units=("word",), rows=sample.rows, part=sample.part
        )
        with listening(silent):
            parts = [(chunk.values["word"].to(device), chunk.items["word"]) for chunk in chunks_read]
    values = torch.cat([chunk.to(device) for chunk, _ in parts], dim=1)
    return replace(sample, values=values, items=torch.cat([chunk for _, chunk in parts]))


def _positions(stack: Stack, sample: Sample) -> Iterator[tuple[Tensor, Tensor]]:
    """Every position of padded batches, padding included: values (layers, items, width), items (items, 2)."""
    attention = stack.family.attention if sample.part == "attention" else None
    states_at: dict[int, Tensor] = {}

    def keep(cut: int, states: Tensor) -> None:
        states_at[cut] = states.float().flatten(0, 1)  # (sentences * longest, width)

    hooks: dict[str, Any] = {"first": stack.first, "keep": keep, "attention": attention}
    for rows in chunks(sample.rows, PADDED_TOGETHER):
        texts = [sample.corpus.sentences[row] for row in rows]
        options = {"padding": True, "truncation": True, "max_length": stack.max_length, "return_tensors": "pt"}
        encoded = stack.tokenizer(texts, return_token_type_ids=False, **options).to(stack.device)
        if sample.attend_padding:
            del encoded["attention_mask"]
        with measuring(stack.model), reading(stack.blocks, set(sample.layers), **hooks):
            stack.model(**encoded)
        longest = encoded["input_ids"].shape[1]
        items = torch.cartesian_prod(torch.tensor(rows), torch.arange(longest))  # (sentences * longest, 2)
        yield torch.stack([states_at[layer] for layer in sample.layers]), items


def _first_uses(corpus: Corpus, items: Tensor) -> Tensor:
    """The indices of the first use of each word among items (items, 2), in any case."""
    rows = {row: words_of(corpus, row) for row in set(items[:, 0].tolist())}
    seen: dict[str, int] = {}
    for number, (row, word) in enumerate(items.tolist()):
        seen.setdefault(rows[row][word].casefold(), number)
    return torch.tensor(list(seen.values()))


def _distance(name: Distance, x: Tensor, y: Tensor, *, sentences: Tensor, first: Tensor, seed: int) -> Reading:
    """The reading of one measure: x, y (items, width).

    sentences: (items,), the sentence of each item. first: the items that stand for their word in CKA and Procrustes.
    """
    if name in ("procrustes", "cka"):
        x, y = x[first], y[first]
    if name == "procrustes":
        floor = procrustes_floor(x, y, seed=seed)
        return {"measure": "procrustes_distance", "value": procrustes_distance(x, y), "floor": floor, "n": len(x)}
    if name == "cka":
        # A GPU makes one large product in float64 in less time than it takes to ask for a hundred small ones.
        pair = CkaStream([("x", "y")], **{"block": len(x)} if x.is_cuda else {})
        pair.update({"x": double(x) if x.is_cuda else x, "y": double(y) if y.is_cuda else y})
        return {"measure": "cka", **asdict(pair.estimate("x", "y"))}
    distances, most = (l2_distances, float("inf")) if name == "l2" else (cosine_distances, 2.0)
    values = distances(x, y).cpu()  # (items,)
    # A jackknife over blocks of neighbouring sentences: words of a sentence are not independent.
    count = int(sentences.max()) + 1
    parts = sentences * min(PARTS, count) // count  # the block of each word, (items,)
    totals = torch.zeros(min(PARTS, count), dtype=values.dtype).index_add_(0, parts, values)
    without = (values.sum() - totals) / (len(values) - torch.bincount(parts))
    mean = jackknife_interval(float(values.mean()), without).clipped(0.0, most)
    answer = {"value": mean.value, "low": mean.low, "high": mean.high, "parts": mean.parts, "n": len(values)}
    return {"measure": f"{name}_drift", **answer}
