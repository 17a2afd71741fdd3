"""One pass over a bitext, which fills the store and gives every row that needs the text itself.

That is CKA over all sentences, the error of links found by vectors, and the count of sentences cut short.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from isogloss.measures import CkaStream
from isogloss.measures.cka import block_size
from isogloss.measures.word_alignment import AER, align_words, alignment_error_rate, itermax_links
from isogloss.progress import Progress
from isogloss.recipes.steps.layers import LayerMean, compared
from isogloss.recipes.steps.store import Store
from isogloss.recipes.steps.vocabulary import Pair, Vocabulary, links_of, vocabulary, words_of
from isogloss.runs.table import Row, row
from isogloss.stack.chain import Chain
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Link
from isogloss.vectors.extract import Unit, Vectors, stream

Links = dict[Pair, list[Sequence[Link]]]
CHUNK_BYTES = 400_000_000  # what the vectors of one chunk may take
SUMS_BYTES = 1_000_000_000  # what the d x d sums of CKA may take before layers are read in several passes


def read_once(
    stack: Stack | Chain,
    bitext: Bitext,
    order: list[int],
    store: Store,
    *,
    pairs: list[Pair],
    words: int,
    base: Mapping[str, Any],
    progress: Progress,
) -> Iterator[Row]:
    """Read the rows of a bitext in this order, the pool first; afterwards the store can be finished.

    words: most word pairs a pair of languages. base: coordinates every row has.
    """
    pool = order[: store.pool]
    known, gold = _words(bitext, pool, words, progress)
    store.begin(known)
    shortened: dict[str, set[int]] = {language: set() for language in bitext.languages}
    means: dict[int, LayerMean] = {}
    for layers in _passes(store.layers, len(bitext.languages), len(pairs), stack.width):
        yield from _one_pass(stack, bitext, order, layers, pairs, gold, store, shortened, means, base, progress)
    yield from compared("cka", "debiased", means, n=len(order), base=base)
    for language, cut in shortened.items():
        yield row("truncated", len(cut), n=len(order), source=language, unit="sentence", **base)
    yield from _statistical(bitext, pool, gold, base)


def _one_pass(
    stack: Stack | Chain,
    bitext: Bitext,
    order: list[int],
    layers: list[int],
    pairs: list[Pair],
    gold: Links,
    store: Store,
    shortened: dict[str, set[int]],
    means: dict[int, LayerMean],
    base: Mapping[str, Any],
    progress: Progress,
) -> Iterator[Row]:
    block, shuffles = block_size(len(order))
    sums = {layer: CkaStream(pairs, block=block, shuffles=shuffles, seed=base["seed"]) for layer in layers}
    found: dict[tuple[Pair, int], AER] = {}
    pool, rest = order[: store.pool], order[store.pool :]
    parts: list[tuple[list[int], tuple[Unit, ...]]] = [(pool, ("sentence", "word")), (rest, ("sentence",))]
    for part, units in parts:
        before = 0 if part is pool else len(pool)

        def told(stage: str, done: int, _: int, before: int = before) -> None:
            progress(stage, before + done, len(order))

        for chunks in _together(stack, bitext, part, layers, units, told):
            for number, layer in enumerate(layers):
                sums[layer].update({language: _doubled(chunk, number) for language, chunk in chunks.items()})
            for language, chunk in chunks.items():
                shortened[language].update(chunk.shortened)
                if "word" in units:
                    store.put(language, layers, chunk, bitext[language])
            if "word" in units:
                _judge_links(chunks, layers, gold, pool, found)
            del chunks, chunk  # else they are held while the next are computed
    for layer in layers:
        estimates = {pair: sums[layer].estimate(*pair) for pair in pairs}
        without = torch.stack([sums[layer].leave_one_out(*pair) for pair in pairs])  # (pairs, blocks)
        value, floor = (sum(getattr(one, name) for one in estimates.values()) for name in ("value", "floor"))
        means[layer] = LayerMean(value / len(pairs), without.mean(dim=0), floor / len(pairs))
        for (source, target), one in estimates.items():
            place = {**base, "layer": layer, "unit": "sentence", "source": source, "target": target}
            given = {"low": max(one.low, -1.0), "high": min(one.high, 1.0), "floor": one.floor, "n": one.n}
            yield row("cka", one.value, variant="debiased", **given, **place)
    for ((source, target), layer), judged in found.items():
        place = {**base, "layer": layer, "unit": "word", "source": source, "target": target}
        yield row("aer", judged.value, n=judged.sure, variant="itermax", **place)


def _doubled(chunk: Vectors, number: int) -> Tensor:
    """Sentence vectors of one layer where double precision can be computed: not on an Apple GPU."""
    values = chunk.values["sentence"][number]
    return values if values.device.type == "cuda" else values.cpu()


def _together(
    stack: Stack | Chain, bitext: Bitext, rows: list[int], layers: list[int], units: Sequence[Unit], progress: Progress
) -> Iterator[dict[str, Vectors]]:
    """The same sentences of every language, chunk by chunk. Words take more room, so their chunks are smaller."""
    vectors = len(layers) * stack.width * 4 * len(bitext.languages)  # bytes for a sentence in every language
    size = max(16, min(64 if "word" in units else 2048, CHUNK_BYTES // (vectors * (16 if "word" in units else 1))))
    prepared = nullcontext  # weights laid out for a CPU's kernels took a quarter more memory here
    streams = [
        stream(stack, corpus, layers=layers, units=units, rows=rows, chunk=size, prepared=prepared, progress=progress)
        for corpus in bitext
    ]
    for _ in range(0, len(rows), size):
        yield {language: next(one) for language, one in zip(bitext.languages, streams, strict=True)}


def _judge_links(
    chunks: Mapping[str, Vectors],
    layers: list[int],
    gold: Links,
    pool: list[int],
    found: dict[tuple[Pair, int], AER],
) -> None:
    """Add to `found` how well the vectors of a chunk find the links that came with the bitext."""
    place = {number: at for at, number in enumerate(pool)} if gold else {}
    for pair, links in gold.items():
        source, target = (chunks[language] for language in pair)
        for number in source.rows:
            ours = [one.items["word"][:, 0] == number for one in (source, target)]
            names = [one.items["word"][mine, 1].tolist() for one, mine in zip((source, target), ours, strict=True)]
            x, y = (one.values["word"][:, mine].cpu() for one, mine in zip((source, target), ours, strict=True))
            for at, layer in enumerate(layers):
                linked = [(names[0][i], names[1][j]) for i, j in itermax_links(x[at], y[at])]
                judged = alignment_error_rate([linked], [links[place[number]]])
                found[pair, layer] = found[pair, layer] + judged if (pair, layer) in found else judged


def _words(bitext: Bitext, pool: list[int], limit: int, progress: Progress) -> tuple[Vocabulary, Links]:
    """The vocabulary of the pool, and those of its links that came with the bitext."""
    links: Links = {}
    gold: Links = {}
    at_least: dict[Pair, int] = {}
    first = _pivot(bitext)
    for other in bitext.languages:
        if other == first:
            continue
        links[first, other], given = links_of(bitext, (first, other), pool, progress=progress)
        at_least[first, other] = 1 if given or len(pool) < 500 else 2
        if given:
            gold[first, other] = links[first, other]
    return vocabulary(bitext, links, pool, limit=limit, at_least=at_least), gold


def _pivot(bitext: Bitext) -> str:
    """The language words are linked from: the one most links were given with, else the first."""
    ends = Counter(language for pair in bitext.links for language in pair)
    return max(bitext.languages, key=lambda language: ends[language])


def _statistical(bitext: Bitext, pool: list[int], gold: Links, base: Mapping[str, Any]) -> Iterator[Row]:
    """Where the bitext has links set by hand: how far the statistical aligner gets on the same sentences."""
    for (source, target), given in gold.items():
        sides = [[words_of(bitext[language], number) for number in pool] for language in (source, target)]
        judged = alignment_error_rate(align_words(sides[0], sides[1]), given)
        place = {**base, "unit": "word", "source": source, "target": target}
        yield row("aer", judged.value, n=judged.sure, variant="statistical", **place)


def _passes(layers: list[int], languages: int, pairs: int, width: int) -> Iterator[list[int]]:
    """Cut the layers into groups whose sums fit into memory together; each group is one pass over the text."""
    size = max(1, SUMS_BYTES // ((languages + pairs) * width * width * 8))
    for start in range(0, len(layers), size):
        yield layers[start : start + size]
