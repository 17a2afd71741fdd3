"""`isogloss map`: where, layer by layer, the languages of a model meet.

One pass over the text feeds everything (several where the sums of many languages would not fit). Sentences come in a
seeded random order; the first of them, the sample, also give word vectors and are kept for retrieval, the rest only
enter the sums CKA is made of. So memory does not grow with the text, and blocks of consecutive sentences are random
samples, as the jackknife needs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures import CkaStream, anisotropy, retrieve
from isogloss.measures.cka import block_size
from isogloss.measures.retrieval import retrieve_each
from isogloss.measures.word_alignment import AER, align_words, alignment_error_rate, itermax_links
from isogloss.progress import Progress, silent
from isogloss.recipes.layer_comparison import LayerMean, layer_rows, measuring_device, precision_rows
from isogloss.recipes.recipe import (
    Device,
    Dtype,
    Layers,
    Model,
    Option,
    Out,
    Resume,
    Revision,
    Seed,
    Work,
    layer_list,
    model_name,
    recipe,
)
from isogloss.recipes.word_map import draw
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.chain import Chain
from isogloss.stack.load import load
from isogloss.stack.stack import Stack
from isogloss.text import embedded
from isogloss.text.corpora import Bitext, Corpus, Link, bitexts_of
from isogloss.text.vocabulary import Pair, Vocabulary, links_of, vocabulary, words_of
from isogloss.text.words import unknown_notes
from isogloss.vectors.extract import Unit, Vectors, stream
from isogloss.vectors.store import VectorStore

METHODS = ("cosine", "centred", "csls")
KS = (1, 5, 10)
CHUNK_BYTES = 400_000_000  # what the vectors of one chunk may take
SUMS_BYTES = 1_000_000_000  # what the d x d sums of CKA may take before layers are read in several passes
WORD_MAP = "Word map"

Links = dict[Pair, list[Sequence[Link]]]


@recipe
def map(
    model: Model = "mini",
    *bitext: Bitext | Corpus,
    sample: Annotated[int | str, "sentences for retrieval and words, drawn by seed; 'all' takes every one"] = 2000,
    pairs: Annotated[
        str,
        Option("'all' pairs of languages, or 'first': the first language with each other", choices=("all", "first")),
    ] = "all",
    layers: Layers = None,
    words: Annotated[int, Option("most word pairs a pair of languages to judge words by", least=1)] = 1000,
    points: Annotated[int, Option("most words a language on the word map; 0 draws none", WORD_MAP, least=0)] = 120,
    centre: Annotated[bool, Option("remove each language's mean before drawing the word map", WORD_MAP)] = True,
    tsne_perplexity: Annotated[float, Option("t-SNE's perplexity, the same at every layer", WORD_MAP, least=1)] = 15.0,
    revision: Revision = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Map a model: at every layer, how close are translations? CKA, retrieval, words, with floors and intervals.

    With no bitext the embedded sentences in seven languages are used. Returns the table of rows.

    Example: isogloss map ./my-encoder --bitext en.txt --bitext nl.txt --languages en,nl --out runs/mine

    >>> table = map("mini", en, nl)  # doctest: +SKIP
    """
    texts = [_without_repeats(text) for text in bitexts_of(bitext)] or [embedded()]
    stack = load(model, revision, dtype=dtype, device=device) if not isinstance(model, Stack | Chain) else model
    size, cuts = _sample_size(sample), layer_list(layers, stack) or tuple(stack.cuts)
    for text in texts:
        if len(text.languages) < 2:
            raise InputError(f"{text.name or 'the text'} has one language only ({text.languages[0]}); a map needs two")
        if text.rows < 4:
            raise InputError(
                f"{text.name or 'the text'} has {text.rows} parallel sentences; debiased CKA needs at least 4"
            )
    names = [text.name or "-".join(text.languages) for text in texts]
    if len(set(names)) < len(names):
        raise InputError(f"two texts have the same name ({', '.join(names)}); their rows could not be told apart")

    def rows(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        stores = []
        for number, (name, text) in enumerate(zip(names, texts, strict=True)):
            kept = min(size or text.rows, text.rows)
            store = SampleStore(run.scratch / str(number), text.languages, list(cuts), kept, stack.width)
            both = combinations(text.languages, 2)
            compared = [pair for pair in both if pairs == "all" or pair[0] == text.languages[0]]
            base = {"model": run.facts["model"], "data": name, "seed": seed}
            yield from _rows_of_text(MapReading(stack, text, store, compared, words, base), run, progress)
            stores.append(store)
        if points and out is not None:  # a map nobody will see is not drawn
            if len(texts) > 1:
                run.note(f"the word map shows {names[0]}, the first of {len(texts)} texts")
            first, how = stores[0], {"centre": centre, "perplexity": tsne_perplexity, "seed": seed}
            draw(run, first.words(), first.types, layers=first.layers, points=points, progress=progress, how=how)

    hashes = {name: text.fingerprint for name, text in zip(names, texts, strict=True)}
    notes = [
        f"{text.dropped} rows of {name} were left out: they have an empty side, or repeat an earlier row on every "
        "side, which CKA would take for agreement"
        for name, text in zip(names, texts, strict=True)
        if text.dropped
    ]
    notes += [note for text in texts for note in unknown_notes(stack.tokenizer, text)]
    return Work(model_name(stack.name), rows, {"model": stack.fingerprint, "data": hashes}, notes, depth=stack.cuts[-1])


@dataclass
class SampleStore:
    """Sentence vectors and mean word vectors of the sample, on disk: only one layer is ever in memory.

    `begin`, then `put` every chunk in order, then `finish`; a finished store in the same folder is simply there, so
    that a resumed run need not read the text again. `arrays` also has `hits.METHOD.LAYER`: each sentence's share of
    directions in which its translation was found first, (sample,).
    """

    folder: Path
    languages: Sequence[str]
    layers: list[int]
    size: int
    width: int
    _words: Vocabulary | None = None
    _sums: dict[str, NDArray[Any]] = field(default_factory=dict)
    _counts: dict[str, NDArray[Any]] = field(default_factory=dict)
    _filled: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.arrays = VectorStore(self.folder, mark="vocabulary.json")

    def begin(self, words: Vocabulary) -> None:
        """Make room for the sample and for the types of this vocabulary."""
        self._words = words
        self._numbers = {name: {word: i for i, word in enumerate(types)} for name, types in words.types.items()}
        for name in self.languages:
            shape = len(self.layers), len(words.types[name])
            self._sums[name], self._counts[name] = np.zeros((*shape, self.width)), np.zeros(shape)
            self.arrays.create(name, (len(self.layers), self.size, self.width))

    def put(self, language: str, layers: list[int], chunk: Vectors, corpus: Corpus) -> None:
        """Keep the next sentences' vectors at these layers, and add their words to the sums of their types."""
        numbers = self._numbers[language]
        types_of = {row: [numbers.get(word.lower(), -1) for word in words_of(corpus, row)] for row in chunk.rows}
        types = np.array([types_of[row][word] for row, word in chunk.items["word"].tolist()], dtype=np.int64)
        inside = np.flatnonzero(types >= 0)
        known, number_of, uses = np.unique(types[inside], return_inverse=True, return_counts=True)
        adding = csr_array((np.ones(len(inside)), (number_of, inside)), shape=(len(known), len(types)))
        states = self.arrays.open(language, writable=True)
        for number, layer in enumerate(layers):
            index, start = self.layers.index(layer), self._filled[language, layer]
            states[index, start : start + len(chunk.rows)] = chunk.values["sentence"][number].cpu().numpy()
            self._sums[language][index, known] += adding @ chunk.values["word"][number].cpu().numpy()
            self._counts[language][index, known] += uses
            self._filled[language, layer] = start + len(chunk.rows)

    def finish(self) -> None:
        """Write the means of the word types and the vocabulary; from here on the store is complete."""
        assert self._words is not None
        for language, sums in self._sums.items():
            with np.errstate(invalid="ignore"):  # a type lost to cutting has no vector: nan, left out later
                means = sums / self._counts[language][:, :, None]
            self.arrays.write(f"{language}.types", means.astype(np.float32))
        pairs = [[*pair, [list(both) for both in found]] for pair, found in self._words.pairs.items()]
        self.arrays.finish({"types": self._words.types, "surface": self._words.surface, "pairs": pairs})

    def words(self) -> Vocabulary:
        """The vocabulary the store was finished with."""
        facts = self.arrays.facts()
        pairs = {(source, target): [(i, j) for i, j in found] for source, target, found in facts["pairs"]}
        return Vocabulary(facts["types"], facts["surface"], pairs)

    def sentences(self, language: str, layer: int) -> Tensor:
        """Sentence vectors of the sample at one layer, (sample, width)."""
        return self.arrays.read(language, self.layers.index(layer))

    def types(self, language: str, layer: int | None = None) -> Tensor:
        """Mean vectors of the word types at one layer, (types, width), or at all, (layers, types, width)."""
        return self.arrays.read(f"{language}.types", None if layer is None else self.layers.index(layer))


@dataclass(frozen=True)
class MapReading:
    """What is read and where it goes.

    Args:
        stack: The model.
        bitext: The text.
        store: Takes the vectors of the sample, which are its first sentences in the seeded order.
        pairs: Pairs of languages that are compared.
        words: Most word pairs a pair of languages.
        base: Coordinates that every row has: model, data and seed.

    """

    stack: Stack | Chain
    bitext: Bitext
    store: SampleStore
    pairs: list[Pair]
    words: int
    base: Mapping[str, Any]


def _rows_of_text(reading: MapReading, run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
    """All rows of one bitext: first those that need the pass over the text, then layer by layer those of the sample."""
    bitext, store, base = reading.bitext, reading.store, reading.base
    order = np.random.default_rng(base["seed"]).permutation(bitext.rows).tolist()
    sample = order[: store.size]
    if not store.arrays.complete:
        rows = list(_rows_of_pass(reading, order, progress))
        for entry in rows:
            if entry["measure"] == "truncated" and entry["value"]:
                run.note(
                    f"{entry['value']:.0f} of {entry['n']} sentences of {entry['source']} in {base['data']} were "
                    f"longer than {reading.stack.max_length} tokens and were cut"
                )
        yield rows
        store.finish()  # only now: rows reach the disk before the store that makes reading again needless
    vocabulary = store.words()
    keys = {corpus.language: [corpus.sentences[i] for i in sample] for corpus in bitext}
    for done, layer in enumerate(store.layers):
        last = row("anisotropy", 0, **base, layer=layer, unit="sentence", source=bitext.languages[-1])
        if not run.has(last):
            yield list(_rows_of_sample(reading, layer, vocabulary, keys))
        progress("comparing sentences and words", done + 1, len(store.layers))
    mine = [entry for entry in run.rows if (entry["measure"], entry["data"]) == ("p@1", base["data"])]
    for method in METHODS:
        means = {}
        for layer in store.layers:
            hits = store.arrays.read(f"hits.{method}.{layer}")
            floors = [entry["floor"] for entry in mine if (entry["layer"], entry["method"]) == (layer, method)]
            without = (hits.sum() - hits) / (len(hits) - 1)
            means[layer] = LayerMean(float(hits.mean()), without, sum(floors) / len(floors))
        yield list(layer_rows("p@1", method, means, n=len(sample), base=base))


# --- the pass over the text: CKA of all sentences, links found by vectors, sentences that were cut -------------------


def _rows_of_pass(reading: MapReading, order: list[int], progress: Progress) -> Iterator[Row]:
    """Read the rows of the bitext in this order, the sample first; afterwards the store can be finished."""
    bitext, store, base = reading.bitext, reading.store, reading.base
    sample = order[: store.size]
    known, gold = _vocabulary(bitext, sample, reading.words, progress)
    store.begin(known)
    shortened: dict[str, set[int]] = {language: set() for language in bitext.languages}
    means: dict[int, LayerMean] = {}
    width = reading.stack.width
    at_once = max(1, SUMS_BYTES // ((len(bitext.languages) + len(reading.pairs)) * width * width * 8))
    for start in range(0, len(store.layers), at_once):
        layers = store.layers[start : start + at_once]
        yield from _one_pass(reading, order, layers, gold, shortened, means, progress)
    yield from layer_rows("cka", "debiased", means, n=len(order), base=base)
    for language, cut in shortened.items():
        yield row("truncated", len(cut), n=len(order), source=language, unit="sentence", **base)
    for (source, target), given in gold.items():  # how far the statistical aligner gets on the same sentences
        sides = [[words_of(bitext[language], number) for number in sample] for language in (source, target)]
        judged = alignment_error_rate(align_words(sides[0], sides[1]), given)
        coordinates = {**base, "unit": "word", "source": source, "target": target}
        yield row("aer", judged.value, n=judged.sure, method="statistical", **coordinates)


def _one_pass(
    reading: MapReading,
    order: list[int],
    layers: list[int],
    gold: Links,
    shortened: dict[str, set[int]],
    means: dict[int, LayerMean],
    progress: Progress,
) -> Iterator[Row]:
    """Rows of some layers, whose sums fit into memory together; adds to `shortened` and `means`."""
    store, pairs, base = reading.store, reading.pairs, reading.base
    block, shuffles = block_size(len(order))
    sums = {layer: CkaStream(pairs, block=block, shuffles=shuffles, seed=base["seed"]) for layer in layers}
    errors: dict[tuple[Pair, int], AER] = {}
    device = measuring_device(reading.stack)
    sample, rest = order[: store.size], order[store.size :]
    parts: list[tuple[list[int], tuple[Unit, ...]]] = [(sample, ("sentence", "word")), (rest, ("sentence",))]
    for part, units in parts:
        before = 0 if part is sample else len(sample)

        def show(stage: str, done: int, _: int, before: int = before) -> None:
            progress(stage, before + done, len(order))

        for chunks in _chunks(reading, part, layers, units, show):
            for number, layer in enumerate(layers):
                sums[layer].update(
                    {name: chunk.values["sentence"][number].to(device) for name, chunk in chunks.items()}
                )
            for language, chunk in chunks.items():
                shortened[language].update(chunk.shortened)
                if "word" in units:
                    store.put(language, layers, chunk, reading.bitext[language])
            if "word" in units:
                _judge_links(chunks, layers, gold, sample, errors)
            del chunks, chunk  # else they are held while the next are computed
    for layer in layers:
        estimates = {pair: sums[layer].estimate(*pair) for pair in pairs}
        without = torch.stack([sums[layer].leave_one_out(*pair) for pair in pairs])  # (pairs, blocks)
        value, floor = (sum(getattr(each, name) for each in estimates.values()) for name in ("value", "floor"))
        means[layer] = LayerMean(value / len(pairs), without.mean(dim=0), floor / len(pairs))
        for (source, target), cka in estimates.items():
            coordinates = {**base, "layer": layer, "unit": "sentence", "source": source, "target": target}
            yield row("cka", cka.clipped(-1.0, 1.0), method="debiased", **coordinates)
    for ((source, target), layer), judged in errors.items():
        coordinates = {**base, "layer": layer, "unit": "word", "source": source, "target": target}
        yield row("aer", judged.value, n=judged.sure, method="itermax", **coordinates)


def _chunks(
    reading: MapReading, rows: list[int], layers: list[int], units: Sequence[Unit], progress: Progress
) -> Iterator[dict[str, Vectors]]:
    """The same sentences of every language, chunk by chunk. Words take more room, so their chunks are smaller."""
    stack, bitext = reading.stack, reading.bitext
    vectors = len(layers) * stack.width * 4 * len(bitext.languages)  # bytes for a sentence in every language
    size = max(16, min(64 if "word" in units else 2048, CHUNK_BYTES // (vectors * (16 if "word" in units else 1))))
    prepared = nullcontext  # weights laid out for a CPU's kernels took a quarter more memory here
    streams = [
        stream(stack, corpus, layers=layers, units=units, rows=rows, chunk=size, prepared=prepared, progress=progress)
        for corpus in bitext
    ]
    for _ in range(0, len(rows), size):
        yield {language: next(chunks) for language, chunks in zip(bitext.languages, streams, strict=True)}


def _judge_links(
    chunks: Mapping[str, Vectors],
    layers: list[int],
    gold: Links,
    sample: list[int],
    errors: dict[tuple[Pair, int], AER],
) -> None:
    """Add to `errors` how well the vectors of a chunk find the links that came with the bitext."""
    number_of = {row: number for number, row in enumerate(sample)} if gold else {}
    for pair, links in gold.items():
        source, target = (chunks[language] for language in pair)
        for sentence in source.rows:
            ours = [side.items["word"][:, 0] == sentence for side in (source, target)]
            names = [side.items["word"][mine, 1].tolist() for side, mine in zip((source, target), ours, strict=True)]
            x, y = (side.values["word"][:, mine].cpu() for side, mine in zip((source, target), ours, strict=True))
            for number, layer in enumerate(layers):
                linked = [(names[0][i], names[1][j]) for i, j in itermax_links(x[number], y[number])]
                judged = alignment_error_rate([linked], [links[number_of[sentence]]])
                errors[pair, layer] = errors[pair, layer] + judged if (pair, layer) in errors else judged


def _vocabulary(bitext: Bitext, sample: list[int], limit: int, progress: Progress) -> tuple[Vocabulary, Links]:
    """The vocabulary of the sample, and those of its links that came with the bitext.

    Words are linked from the language most links were given with, else from the first.
    """
    links: Links = {}
    gold: Links = {}
    least: dict[Pair, int] = {}
    ends = Counter(language for pair in bitext.links for language in pair)
    first = max(bitext.languages, key=lambda language: ends[language])
    for other in (language for language in bitext.languages if language != first):
        links[first, other], given = links_of(bitext, (first, other), sample, progress=progress)
        least[first, other] = 1 if given or len(sample) < 500 else 2
        if given:
            gold[first, other] = links[first, other]
    return vocabulary(bitext, links, sample, limit=limit, at_least=least), gold


# --- the sample: retrieval, words and anisotropy, one layer at a time ------------------------------------------------


def _rows_of_sample(reading: MapReading, layer: int, words: Vocabulary, keys: Mapping[str, list[str]]) -> Iterator[Row]:
    """Retrieval, word agreement and anisotropy at one layer, from what the pass left in the store."""
    store, base = reading.store, reading.base
    device = measuring_device(reading.stack)
    hits: dict[str, list[Tensor]] = {method: [] for method in METHODS}
    for source, target in reading.pairs:
        x, y = (store.sentences(language, layer).to(device) for language in (source, target))
        judged = retrieve_each(x, y, methods=METHODS, ks=KS, keys_x=keys[source], keys_y=keys[target])
        for method, both in zip(METHODS, judged, strict=True):
            hits[method] += [(direction.ranks == 1).double() for direction in both]
            for direction, (asked, answer) in zip(both, ((source, target), (target, source)), strict=True):
                coordinates = {**base, "unit": "sentence", "source": asked, "target": answer}
                if method == METHODS[0] and layer == store.layers[0]:
                    yield row("duplicates", direction.duplicates, n=direction.m, **coordinates)
                coordinates |= {"layer": layer, "method": method}
                yield from precision_rows(direction, coordinates)
                yield row("mrr", direction.mrr, **coordinates)
    for method, each in hits.items():
        store.arrays.write(f"hits.{method}.{layer}", torch.stack(each).mean(dim=0).numpy())
    for pair, translations in words.pairs.items():
        yield from _word_rows(store, layer, pair, translations, base)
    for language in store.languages:
        x = store.sentences(language, layer)
        yield row("anisotropy", anisotropy(x), n=len(x), layer=layer, unit="sentence", source=language, **base)


def _word_rows(
    store: SampleStore, layer: int, pair: Pair, translations: Sequence[tuple[int, int]], base: Mapping[str, Any]
) -> Iterator[Row]:
    """Share of words whose nearest neighbour across languages is their translation, language means removed."""
    sides = [store.types(name, layer)[[both[side] for both in translations]] for side, name in enumerate(pair)]
    whole = ~(sides[0].isnan().any(1) | sides[1].isnan().any(1))  # a word may have been lost to cutting
    x, y = (side[whole] for side in sides)
    if len(x) < 2:
        return
    both = retrieve(x, y, method="centred", ks=(1,))
    for direction, (source, target) in zip(both, (pair, pair[::-1]), strict=True):
        coordinates = {**base, "layer": layer, "unit": "word", "method": "centred", "source": source, "target": target}
        yield row("word_agreement", direction.p[1], **coordinates)


# --- what is given ---------------------------------------------------------------------------------------------------


def _without_repeats(bitext: Bitext) -> Bitext:
    """Rows that repeat an earlier one in every language are left out, and counted."""
    distinct = bitext.distinct_rows
    repeats = bitext.rows - len(distinct)
    return replace(bitext.take(distinct), dropped=bitext.dropped + repeats) if repeats else bitext


def _sample_size(sample: int | str) -> int | None:
    if sample == "all":
        return None
    try:
        size = int(sample)
    except ValueError as error:
        raise InputError(f"--sample takes a number of sentences or 'all', not {sample!r}") from error
    Option("", least=4).check("sample", size)
    return size
