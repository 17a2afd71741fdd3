"""How alike languages are inside a model, layer by layer, before a task is learned and after (Muller et al. 2021).

On parallel text, with a sentence's vector the mean of its word pieces without special tokens, three comparisons:

    source with target       the same layer of one model                  is what the two say in the same place?
    now with the start       the same layer and language of two models    what did the training change?
    layer k with k - 1       the same language and model                  what does a block do?

Each by debiased linear CKA with its interval and floor, and by CKA with Gaussian kernels over four batches of a quarter
of the sentences, as the paper has it. The sentences come in a seeded random order. One pass over each language feeds
all layers; the vectors of the start are kept in memory, and nothing but rows is written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures.cka import Estimate, cka_of_pairs, cka_rbf_of_pairs
from isogloss.progress import Progress
from isogloss.recipes.drift import START
from isogloss.recipes.legacy import LEGACY
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.stack import Stack, measuring
from isogloss.text.batches import Batch, encode, group
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.training.probes import arithmetic
from isogloss.vectors.pool import mean_by_group

UNTUNED = "untuned"
BATCHES = 4
FEWEST = 4 * BATCHES  # sentences
SIZES = {"batch-25": 25, "batch-200": 200}
DEFECTS = {
    "windows": "the four batches are sentences i to i + size for i = 0 to 3, almost the same ones",
    "batch-25": "a batch has 25 sentences",
    "batch-200": "a batch has 200 sentences",
    "specials": "special tokens are written into the text and added again, and one on each side stays in the mean",
}


@dataclass(frozen=True)
class Comparing:
    """What is compared, and how: parallel text, and the defects that Gaussian CKA is read with besides, if any."""

    bitext: Bitext
    legacy: frozenset[str]
    source: str
    seed: int
    dtype: torch.dtype | None = None

    @property
    def notes(self) -> list[str]:
        """What a reader must know."""
        missing = [] if self.source in self.bitext.languages else [
            f"the parallel text has no {self.source}, so no language is compared with the one that is trained in"
        ]  # fmt: skip
        return missing + [f"CKA as the original took it: {DEFECTS[one]}" for one in DEFECTS if one in self.legacy]


def comparing(
    bitext: Sequence[Bitext | Corpus], legacy: str | None, *, source: str, seed: int, dtype: torch.dtype | None
) -> Comparing | None:
    """The options of a command, checked; None where no text is given."""
    named = frozenset(one.strip() for one in legacy.split(",")) if legacy else frozenset[str]()
    unknown = sorted(named - set(DEFECTS))
    if unknown:
        raise InputError(f"--legacy {unknown[0]!r} is not known; choose {', '.join(DEFECTS)}")
    if not bitext:
        if named:
            raise InputError("--legacy is about how languages are compared, which needs --bitext")
        return None
    texts = bitexts_of(bitext)
    if len(texts) > 1:
        raise InputError(f"--bitext holds {len(texts)} parallel texts; languages are compared on one")
    sizes = [SIZES[one] for one in SIZES if one in named]
    if len(sizes) > 1:
        raise InputError("--legacy takes batch-25 or batch-200, not both")
    least = FEWEST
    if sizes:
        least = max(FEWEST, sizes[0] + BATCHES - 1 if "windows" in named else BATCHES * sizes[0])
    if texts[0].rows < least:
        raise InputError(
            f"{texts[0].name or 'the parallel text'} has {texts[0].rows} sentences; comparing languages so takes at "
            f"least {least}"
        )
    return Comparing(texts[0], named, source, seed, dtype)


@dataclass
class Similarity:
    """The text as tokens, and the vectors of the start; it has identity over time: the start is read first.

    batches: by language, as it should be, and with `specials` as the original has it. start: the vectors of each.
    """

    how: Comparing
    batches: Mapping[str, Mapping[str, Batch]]
    start: dict[str, Tensor] = field(default_factory=dict)

    def at_start(self, stack: Stack, place: Mapping[str, Any], progress: Progress) -> list[Row]:
        """Read a model before any training, and keep its vectors; its rows have the plan `untuned`."""
        for kind, batches in self.batches.items():
            self.start[kind] = read_vectors(stack, batches, dtype=self.how.dtype, progress=progress)
        return list(self._rows(self.start, {}, {**place, "plan": UNTUNED}))

    def now(self, stack: Stack, place: Mapping[str, Any], progress: Progress) -> list[Row]:
        """Read a model after a training."""
        vectors = {
            kind: read_vectors(stack, batches, dtype=self.how.dtype, progress=progress)
            for kind, batches in self.batches.items()
        }
        return list(self._rows(vectors, self.start, place))

    def _rows(self, now: Mapping[str, Tensor], start: Mapping[str, Tensor], place: Mapping[str, Any]) -> Iterator[Row]:
        place = {**place, "data": self.how.bitext.name or "parallel text", "unit": "sentence"}
        yield from _compared(now[""], start.get(""), self.how, place, legacy=False)
        if self.how.legacy:
            kind = "specials" if "specials" in self.how.legacy else ""
            named = ",".join(one for one in DEFECTS if one in self.how.legacy)
            spoilt = {**place, "condition": f"{LEGACY}{named}"}
            yield from _compared(now[kind], start.get(kind), self.how, spoilt, legacy=True)


def tokenise_parallel(stack: Stack, how: Comparing) -> Similarity:
    """The text as tokens of one model, in a random order; a sentence that is too long is cut."""
    order = np.random.default_rng(seed_of(how.seed, "parallel text")).permutation(how.bitext.rows).tolist()
    kinds = ["", *(["specials"] if "specials" in how.legacy else [])]
    batches = {kind: {one.language: _encode(stack, one, order, kind) for one in how.bitext} for kind in kinds}
    return Similarity(how, batches)


def _encode(stack: Stack, corpus: Corpus, order: Sequence[int], kind: str) -> Batch:
    if not kind:
        return encode(stack.tokenizer, corpus, order, max_length=stack.max_length)
    marks = stack.tokenizer.cls_token, stack.tokenizer.sep_token
    if None in marks:
        raise InputError(f"{stack.name} has no first and last token; --legacy specials is about those")
    written = replace(corpus, sentences=[f"{marks[0]} {one} {marks[1]}" for one in corpus], words=None)
    found = encode(stack.tokenizer, written, order, max_length=stack.max_length)
    inside = torch.ones_like(found.content)
    ends = torch.cumsum(found.lengths, 0)
    inside[ends - found.lengths] = False
    inside[ends - 1] = False
    return replace(found, content=inside)


def read_vectors(
    stack: Stack, batches: Mapping[str, Batch], *, dtype: torch.dtype | None, progress: Progress
) -> Tensor:
    """Sentence vectors (layers, languages, sentences, width), float32, on the stack's device, in evaluation mode."""
    device, layers = stack.device, list(stack.cuts)
    tokens = 65_536 if device.type == "cuda" else 2_048
    count = len(next(iter(batches.values())))
    found = torch.empty((len(layers), len(batches), count, stack.width), dtype=torch.float32, device=device)
    with measuring(stack.model), arithmetic(device, dtype):
        for number, whole in enumerate(batches.values()):
            for members in group(whole.lengths.tolist(), tokens=tokens):
                batch = whole.take(members).to(device)
                groups = torch.where(batch.content, batch.sentence_of_tokens(), -1)
                size = len(members)

                def pool(_: int, states: Tensor, groups: Tensor = groups, size: int = size) -> Tensor:
                    return mean_by_group(states, groups, size)

                means = stack.read(batch, layers, reduce=pool)
                found[:, number, members] = torch.stack([means[layer] for layer in layers])
            progress("comparing languages", number + 1, len(batches))
    return found


def _compared(
    now: Tensor, start: Tensor | None, how: Comparing, place: Mapping[str, Any], *, legacy: bool
) -> Iterator[Row]:
    """Rows of all three comparisons, a layer at a time."""
    languages = how.bitext.languages
    for layer in range(len(now)):
        parts = [now[layer], *([now[layer - 1]] if layer else []), *([start[layer]] if start is not None else [])]
        places: dict[tuple[int, int], dict[str, Any]] = {}
        many = len(languages)
        if how.source in languages:
            home = languages.index(how.source)
            for number, language in enumerate(languages):
                if number != home:
                    places[home, number] = {"target": language}
        for number, language in enumerate(languages):
            if layer:
                places[number, many + number] = {"target": language, "other_layer": layer - 1}
            if start is not None:
                last = many * (len(parts) - 1)
                places[number, last + number] = {"target": language, "other_layer": layer, "other_model": START}
        sides, pairs = torch.cat(parts), list(places)
        if not legacy:
            yield from _as_rows("cka", cka_of_pairs(sides, pairs, seed=how.seed), places, {**place, "layer": layer})
        size = next((SIZES[one] for one in SIZES if one in how.legacy), None) if legacy else None
        shifted = legacy and "windows" in how.legacy
        found = cka_rbf_of_pairs(sides, pairs, batches=BATCHES, size=size, shifted=shifted)
        yield from _as_rows("cka_rbf", found, places, {**place, "layer": layer})


def _as_rows(
    measure: str, found: Sequence[Estimate], places: Mapping[tuple[int, int], Mapping[str, Any]], at: Mapping[str, Any]
) -> Iterator[Row]:
    for one, where in zip(found, places.values(), strict=True):
        yield row(measure, one.value, low=one.low, high=one.high, floor=one.floor, n=one.n, **at, **where)
