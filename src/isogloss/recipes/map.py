"""`isogloss map`: at which layers of a model translations are closest to each other.

The text is read once (several times if the sums of many languages do not fit into memory). Sentences are read in a
seeded random order. The vectors of the first ones, the sample, are kept for retrieval and words; the rest only enter
the sums from which CKA is computed. So memory does not grow with the text, and blocks of consecutive sentences are
random samples, as the jackknife requires.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.measures.cka import CkaStream
from isogloss.measures.geometry import anc_from_sums, anisotropy, separability_interval
from isogloss.measures.retrieval import both_ways, retrieve_each
from isogloss.measures.statistics import Interval
from isogloss.measures.word_alignment import AER, ALIGNERS, align_words, alignment_error_rate, itermax_links
from isogloss.progress import listening, progress, shifted, silent
from isogloss.recipes import recipe as options
from isogloss.recipes.layer_comparison import LayerMean, layer_rows, mean_of_scores, note_shortened
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.recipes.word_map import choose, choose_tokens, draw
from isogloss.runs.run import Run
from isogloss.runs.table import WITHOUT_SINKS, Row, row
from isogloss.stack.load import load
from isogloss.stack.stack import Chain, Stack, layer_list, measuring_device
from isogloss.text.corpora import Bitext, Corpus, Link, bitexts_of
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.vocabulary import Pair, Vocabulary, links_of, vocabulary
from isogloss.text.words import words_of
from isogloss.vectors.extract import Pooling, Sinks, TypeSums, Vectors, find_sinks, stream
from isogloss.vectors.store import VectorStore

METHODS = ("cosine", "centred", "csls")
KS = (1, 5, 10)
CHUNK_BYTES = 400_000_000  # maximum size of the vectors of one chunk
SUMS_BYTES = 1_000_000_000  # maximum size of the d x d sums of CKA; above it, layers are read in several passes
FEW = 500  # sentences from which a statistical aligner learns little
WORD_MAP = "Word map"

Links = dict[Pair, list[Sequence[Link]]]


@recipe
def map(
    model: options.Models = "mini",
    *bitext: Bitext | Corpus,
    sample: Annotated[int | str, "sentences for retrieval and words, drawn by seed; 'all' takes every one"] = 2000,
    pairs: Annotated[
        Literal["all", "first"], "'all' pairs of languages, or 'first': the first language with each of the others"
    ] = "all",
    layers: options.Layers = None,
    pooling: Annotated[
        Pooling, "sentence vector: mean of the tokens, mean weighted by position, last token or first token"
    ] = "mean",
    normed_top: Annotated[bool, "read the top layer after the model's final norm, as its head does"] = False,
    words: Annotated[int, Option("most word pairs per pair of languages for word agreement; 0: none", least=0)] = 1000,
    aligner: options.Aligner = "ibm2",
    points: Annotated[int, Option("most words per language on the word map; 0: no map", WORD_MAP, least=0)] = 120,
    tokens: Annotated[bool, Option("show tokens of randomly drawn sentences, not translated words", WORD_MAP)] = False,
    centre: Annotated[bool, Option("remove each language's mean before drawing the word map", WORD_MAP)] = True,
    tsne_perplexity: Annotated[float, Option("t-SNE's perplexity, the same at every layer", WORD_MAP, least=1)] = 15.0,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.ReadingDevice = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> Work:
    """Map a model: at every layer, how close are translations? CKA, retrieval, words, with floors and intervals.

    Without a bitext, the embedded sentences in seven languages are used. Several models read the same text one after
    the other, and are compared on the rows all of them have. Returns the table of rows.

    Example: isogloss map ./my-encoder --bitext en.txt --bitext nl.txt --languages en,nl --out runs/mine

    >>> table = map("mini", en, nl)  # doctest: +SKIP
    """
    if sample != "all" and not str(sample).lstrip("-").isdigit():
        raise InputError(f"--sample takes a number of sentences or 'all', not {sample!r}")
    size = None if sample == "all" else int(sample)
    Option("", least=4).check("sample", size)
    texts = options.named_texts([text.keep(text.distinct_rows) for text in bitexts_of(bitext)] or [embedded()])
    for text in texts.values():
        title = text.name or "the text"
        require(len(text.languages) >= 2, f"{title} has one language only ({text.languages[0]}); a map needs two")
        require(text.rows >= 4, f"{title} has {text.rows} parallel sentences; debiased CKA needs at least 4")
    hashes: dict[str, Any] = {"data": {name: text.fingerprint for name, text in texts.items()}}
    given = cast(options.Model, model)  # if there are several models, this function is called for each of them
    stack = given if isinstance(given, Stack | Chain) else load(given, revision, dtype=dtype, device=device)
    if pooling == "first" and isinstance(stack, Stack) and stack.causal:
        raise InputError(f"{stack.name} is a decoder, whose first token sees no other; use --pooling last or weighted")
    if normed_top:
        require(isinstance(stack, Stack), "--normed-top takes a whole model, not a chain")
        stack = replace(cast(Stack, stack), normed=True)
    cuts = layer_list(layers, stack) or tuple(stack.cuts)
    hashes["model"], hardware = stack.fingerprint, measuring_device(stack.device)
    slow = words > 0 and not stack.tokenizer.is_fast
    words = 0 if slow else words

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        vocabularies: list[tuple[VectorStore, Vocabulary]] = []
        for number, (name, text) in enumerate(texts.items()):
            order = np.random.default_rng(seed).permutation(text.rows).tolist()
            compared = [
                pair for pair in combinations(text.languages, 2) if pairs == "all" or pair[0] == text.languages[0]
            ]
            store = VectorStore(run.scratch / str(number), mark="vocabulary.json")
            base = {"model": run.facts["model"], "data": name, "seed": seed}
            base |= {} if pooling == "mean" else {"pooling": pooling}
            reading = MapReading(
                stack,
                text,
                device=hardware,
                order=order,
                sample=order[:size],
                layers=list(cuts),
                pairs=compared,
                store=store,
                base=base,
                words=words > 0,
                pooling=pooling,
                sinks=find_sinks(stack, text.corpora, layers=list(cuts), rows=order),
            )
            known = yield from _rows_of_pass(reading, words, aligner, run)
            yield from _rows_of_sample(reading, known, run)
            if pooling in ("mean", "weighted") and reading.sinks:
                yield from _rows_without_sinks(reading, aligner, run)
            vocabularies.append((store, known))
        if points and (words or tokens) and out is not None:  # without a run folder there is no map
            if len(texts) > 1:
                run.note(f"the word map shows {next(iter(texts))}, the first of {len(texts)} texts")
            how = {"centre": centre, "perplexity": tsne_perplexity, "seed": seed}
            if tokens:
                text = next(iter(texts.values()))
                order = np.random.default_rng(seed).permutation(text.rows).tolist()
                make = partial(choose_tokens, stack, text, order, layers=list(cuts), points=points)
            else:
                store, vocabulary = vocabularies[0]
                vectors = {language: store.read(f"{language}.types").numpy() for language in vocabulary.types}
                make = partial(choose, vocabulary, vectors, points)
            draw(run, make, layers=list(cuts), how=how)

    notes = [
        f"{text.dropped} rows of {name} were left out: they have an empty side, or repeat an earlier row on every "
        "side, which CKA would take for agreement"
        for name, text in texts.items()
        if text.dropped
    ]
    if slow:
        notes.append(f"sentences alone were compared: the slow tokenizer of {stack.name} does not say where words are")
    notes += stack.notes
    notes += [note for text in texts.values() for note in options.tokenizer_notes(stack.tokenizer, text.corpora)]
    return Work(options.model_name(stack.name), rows, hashes, notes, depth=stack.cuts[-1])


@dataclass(frozen=True)
class MapReading:
    """How a model reads one bitext, and where vectors are stored.

    Args:
        device: Device on which measures are computed.
        order: Rows of the text in the seeded order.
        sample: The first rows of `order`, whose vectors are kept and whose words are compared.
        layers: Cuts to read.
        pairs: Pairs of languages to compare.
        store: Vectors of the sample, by layer: sentences (layers, sample, width) under a language's code, means of word
            types (layers, types, width) under `LANGUAGE.types`, and under `hits.METHOD.LAYER` each sentence's share of
            directions in which its translation ranked first, (sample,). The vocabulary marks it as complete.
        base: Coordinates that every row has: model, data and seed.
        words: Whether to compare words, too.
        pooling: How token vectors are combined into a sentence vector.
        sinks: Attention sinks by layer, which are left out of the means of words.
        without: Whether they are left out of sentences, too.
    """

    stack: Stack | Chain
    bitext: Bitext
    device: torch.device
    order: list[int]
    sample: list[int]
    layers: list[int]
    pairs: list[Pair]
    store: VectorStore
    base: Mapping[str, Any]
    words: bool
    pooling: Pooling
    sinks: Mapping[int, Sinks]
    without: bool = False


def _rows_without_sinks(reading: MapReading, aligner: str, run: Run) -> Iterator[Sequence[Row]]:
    """Rows about attention sinks, and all rows again without them, at layers where sinks dominate the sentence means.

    The text is read a second time at these layers only; without sinks, only a few sentences are read.
    """
    yield [
        row(f"sink_{name}", getattr(found, name), layer=layer, unit="token", **reading.base)
        for layer, found in reading.sinks.items()
        for name in ("share", "times", "first")
    ]
    store = VectorStore(reading.store.folder.with_name(f"{reading.store.folder.name}.sinks"), mark="vocabulary.json")
    base = {**reading.base, "condition": WITHOUT_SINKS}
    again = replace(reading, layers=list(reading.sinks), store=store, base=base, words=False, without=True)
    known = yield from _rows_of_pass(again, 0, aligner, run)
    yield from _rows_of_sample(again, known, run)


# --- the pass over the text: CKA of all sentences, links found by vectors, truncated sentences -----------------------


def _rows_of_pass(reading: MapReading, most: int, aligner: str, run: Run) -> Generator[Sequence[Row], None, Vocabulary]:
    """Read the rows of the bitext in their order, the sample first, and finish the store; returns the vocabulary.

    If an earlier run finished the store, nothing is read. most: maximum number of word pairs per pair of languages.
    """
    bitext, store, base, total = reading.bitext, reading.store, reading.base, len(reading.order)
    if store.complete:
        facts = store.facts()
        known_pairs = {(source, target): translations for source, target, translations in facts["pairs"]}
        return Vocabulary(facts["types"], facts["surface"], known_pairs)
    words, gold = _linked_words(reading, most, aligner, run)
    width, count = reading.stack.width, len(reading.layers)
    sentences = {name: store.create(name, (count, len(reading.sample), width)) for name in bitext.languages}
    types = {name: store.create(f"{name}.types", (count, len(known), width)) for name, known in words.types.items()}
    shortened: Mapping[str, set[int]] = {}
    means: dict[int, LayerMean] = {}
    rows: list[Row] = []
    at_once = max(1, SUMS_BYTES // ((len(bitext.languages) + len(reading.pairs)) * width * width * 8))
    for part in (slice(start, start + at_once) for start in range(0, count, at_once)):
        sums = PassSums(reading, reading.layers[part], words, gold)
        for first, chunks in _chunks(reading, sums.layers):
            sums.add(chunks, first)
            if first is not None:
                for language, chunk in chunks.items():
                    place = slice(first, first + len(chunk.rows))
                    sentences[language][part, place] = chunk.values["sentence"].cpu().numpy()
                del chunk
            del chunks  # free the memory before the next chunk is computed
        for language, of_types in sums.types.items():
            of_types.write_means(types[language][part])
        rows += sums.rows()
        means |= {layer: sums.mean(layer) for layer in sums.layers}
        shortened = sums.shortened  # every pass reads the whole text
    rows += layer_rows("cka", "debiased", means, n=total, base=base)
    for language, cut in shortened.items() if not reading.without else ():
        rows.append(row("truncated", len(cut), n=total, source=language, unit="sentence", **base))
        note_shortened(run, len(cut), total, text=f"{language} in {base['data']}", stack=reading.stack)
    for (source, target), given_links in gold.items():  # error of the statistical aligner on the same sentences
        sides = [[words_of(bitext[language], number) for number in reading.sample] for language in (source, target)]
        with listening(silent):
            judged = alignment_error_rate(align_words(*sides, model=ALIGNERS[aligner]), given_links)
        coordinates = {**base, "unit": "word", "source": source, "target": target}
        rows.append(row("aer", judged.value, n=judged.sure, method="statistical", **coordinates))
    yield rows
    # The mark comes last: a resumed run that finds it does not read again, so all rows must be on disk before.
    pairs = [[*pair, translations] for pair, translations in words.pairs.items()]
    store.finish({"types": words.types, "surface": words.surface, "pairs": pairs})
    return words


def _linked_words(reading: MapReading, most: int, aligner: str, run: Run) -> tuple[Vocabulary, Links]:
    """The word types of the sample and their translations, and the links that came with the bitext.

    The source of links is the language with the most given links, else the first language; the other pairs are linked
    by a statistical aligner.
    """
    bitext, sample = reading.bitext, reading.sample
    links: Links = {}
    gold: Links = {}
    least: dict[Pair, int] = {}
    ends = Counter(language for pair in bitext.links for language in pair)
    first = max(bitext.languages, key=lambda language: ends[language])
    for pair in ((first, language) for language in bitext.languages if language != first and reading.words):
        links[pair], given = links_of(bitext, pair, sample, aligner=aligner)
        least[pair] = 1 if given or len(sample) < FEW else 2
        if not given and len(sample) < FEW:
            linked = f"a statistical aligner linked the words of {' and '.join(pair)} in {len(sample)} sentences"
            run.note(f"{linked}, too few to rely on: many of these pairs of words are no translations")
        if given:
            gold[pair] = links[pair]
    return vocabulary(bitext, links, sample, limit=most, at_least=least), gold


def _chunks(reading: MapReading, layers: list[int]) -> Iterator[tuple[int | None, dict[str, Vectors]]]:
    """The vectors of the same sentences in every language, chunk by chunk: the sample with its words, then the rest.

    Each chunk comes with the place of its first sentence in the sample, None for the rest. Words take more memory, so
    their chunks are smaller.
    """
    bytes_a_row = len(layers) * reading.stack.width * 4 * len(reading.bitext.languages)
    total = len(reading.order)
    for before, rows, sampled in ((0, reading.sample, True), (len(reading.sample), reading.order, False)):
        worded = sampled and reading.words
        most, vectors = (64, 16) if worded else (2048, 1)
        size = max(16, min(most, CHUNK_BYTES // (bytes_a_row * vectors)))
        streams = {}
        for corpus in reading.bitext.corpora:
            chunks = stream(
                reading.stack,
                corpus,
                layers=layers,
                units=("sentence", "word") if worded else ("sentence",),
                rows=rows[before:],
                chunk=size,
                pooling=reading.pooling,
                sinks=reading.sinks if reading.without else None,
            )
            streams[corpus.language] = shifted(before, total, chunks)
        for first in range(0, len(rows) - before, size):
            yield first if sampled else None, {language: next(chunks) for language, chunks in streams.items()}


class PassSums:
    """What one pass over the text adds up at some layers: CKA, word types, and errors of word links.

    Attributes:
        layers: The layers, whose sums fit into memory together.
        types: The sums of the word types of each language.
        shortened: The rows of truncated sentences of each language.
    """

    def __init__(self, reading: MapReading, layers: list[int], words: Vocabulary, gold: Links) -> None:
        self.layers, self._reading, self._gold = layers, reading, gold
        self.types, sinks = {}, [reading.sinks.get(layer) for layer in layers]
        for name, known in words.types.items():
            zeros = np.zeros((len(layers), len(known), reading.stack.width))
            self.types[name] = TypeSums(known, zeros, exact=True, sinks=sinks)
        self.shortened: dict[str, set[int]] = {language: set() for language in reading.bitext.languages}
        self._cka = {layer: CkaStream(reading.pairs) for layer in layers}
        self._errors: dict[tuple[Pair, int], AER] = {}

    def add(self, chunks: Mapping[str, Vectors], first: int | None) -> None:
        """Add the next sentences of every language; first: the place of the first one in the sample, if they are."""
        reading = self._reading
        for language, chunk in chunks.items():
            self.shortened[language].update(chunk.shortened)
            if "word" in chunk.values:
                self.types[language].add(chunk, reading.bitext[language])
        if first is not None:
            for pair, links in self._gold.items():
                sides = [chunks[name] for name in pair]
                for layer, judged in _link_errors(sides, links[first : first + len(sides[0].rows)], self.layers):
                    known = self._errors.get((pair, layer))
                    self._errors[pair, layer] = judged if known is None else known + judged
        for number, layer in enumerate(self.layers):
            states = {name: chunk.values["sentence"][number].to(reading.device) for name, chunk in chunks.items()}
            self._cka[layer].update(states)

    @cached_property
    def _estimates(self) -> dict[int, dict[Pair, Interval]]:
        """CKA of each pair of languages by layer."""
        return {
            layer: {pair: sums.estimate(*pair) for pair in self._reading.pairs} for layer, sums in self._cka.items()
        }

    def mean(self, layer: int) -> LayerMean:
        """CKA of a layer averaged over the pairs of languages."""
        estimates = self._estimates[layer].values()
        without = torch.tensor([cka.parts for cka in estimates], dtype=torch.float64)  # (pairs, parts)
        value, floor = (sum(getattr(cka, name) for cka in estimates) for name in ("value", "floor"))
        return LayerMean(value / len(estimates), without.mean(dim=0), floor / len(estimates))

    def rows(self) -> Iterator[Row]:
        """Rows of the errors of word links, of CKA and of neuron-wise correlation."""
        base = self._reading.base
        for ((source, target), layer), judged in self._errors.items():
            coordinates = {**base, "layer": layer, "unit": "word", "source": source, "target": target}
            yield row("aer", judged.value, n=judged.sure, method="itermax", **coordinates)
        for layer, estimates in self._estimates.items():
            for (source, target), cka in estimates.items():
                coordinates = {**base, "layer": layer, "unit": "sentence", "source": source, "target": target}
                yield row("cka", cka.clipped(-1.0, 1.0), method="debiased", **coordinates)
                yield row("anc", anc_from_sums(*self._cka[layer].sums(source, target)), **coordinates)


def _link_errors(
    sides: Sequence[Vectors], links: Sequence[Sequence[Link]], layers: list[int]
) -> Iterator[tuple[int, AER]]:
    """The alignment error of links found by word vectors against those of the bitext, by layer, for each sentence.

    links: links of the chunk's sentences, in their order.
    """
    for sentence, given in zip(sides[0].rows, links, strict=True):
        inside = [side.items["word"][:, 0] == sentence for side in sides]
        names = [side.items["word"][mine, 1].tolist() for side, mine in zip(sides, inside, strict=True)]
        x, y = (side.values["word"][:, mine].cpu() for side, mine in zip(sides, inside, strict=True))
        for number, layer in enumerate(layers):
            linked = [(names[0][i], names[1][j]) for i, j in itermax_links(x[number], y[number])]
            yield layer, alignment_error_rate([linked], [given])


# --- the sample: retrieval, words and anisotropy, one layer at a time ------------------------------------------------


def _rows_of_sample(reading: MapReading, words: Vocabulary, run: Run) -> Iterator[Sequence[Row]]:
    """The rows computed from the stored vectors, layer by layer, and rows that compare layers."""
    store, base, layers = reading.store, reading.base, reading.layers
    keys = {corpus.language: [corpus.sentences[i] for i in reading.sample] for corpus in reading.bitext.corpora}
    for number in range(len(layers)):
        yield list(_rows_of_layer(reading, number, words.pairs, keys=keys, run=run))
        progress("comparing sentences and words", number + 1, len(layers))
    names = {"measure": "p@1", "data": base["data"], "condition": base.get("condition")}
    scores = [entry for entry in run.rows if all((entry.get(name) or None) == cell for name, cell in names.items())]
    for method in METHODS:
        means = {}
        for layer in layers:
            hits = store.read(f"hits.{method}.{layer}")
            floors = [entry["floor"] for entry in scores if (entry["layer"], entry["method"]) == (layer, method)]
            means[layer] = mean_of_scores(hits, sum(floors) / len(floors), hits=True)
        yield list(layer_rows("p@1", method, means, n=len(reading.sample), base=base))


def _rows_of_layer(
    reading: MapReading, number: int, pairs_of_types: Mapping[Pair, Any], *, keys: Mapping[str, list[str]], run: Run
) -> Iterator[Row]:
    """Rows of retrieval, word agreement and the shape of the space at one layer, computed from the stored vectors.

    A word agrees if its nearest neighbour in the other language, after removing language means, is its translation. A
    layer whose last row is in the run already is skipped.
    """
    store, layer, device = reading.store, reading.layers[number], reading.device
    base = {**reading.base, "layer": layer}
    last = {"measure": "anisotropy", **base, "unit": "sentence", "source": reading.bitext.languages[-1]}
    if run.has(last):
        return
    hits: dict[str, list[Tensor]] = {method: [] for method in METHODS}
    for source, target in reading.pairs:
        x, y = (store.read(language, number).to(device) for language in (source, target))
        judged = retrieve_each(x, y, methods=METHODS, ks=KS, keys_x=keys[source], keys_y=keys[target])
        for method, both in zip(METHODS, judged, strict=True):
            hits[method] += [(direction.ranks == 1).double() for direction in both]
            for direction, (asked, answer) in zip(both, ((source, target), (target, source)), strict=True):
                coordinates: dict[str, Any] = {"unit": "sentence", "source": asked, "target": answer}
                if method == METHODS[0] and number == 0 and not reading.without:
                    yield row("duplicates", direction.duplicates, n=direction.m, **reading.base, **coordinates)
                coordinates |= {**base, "method": method}
                yield from (row(f"p@{k}", share, **coordinates) for k, share in direction.p.items())
                yield row("mrr", direction.mrr, **coordinates)
        of_pair = {**base, "unit": "sentence", "source": source, "target": target}
        yield row("mexa", both_ways(*judged[METHODS.index("cosine")]), method="cosine", **of_pair)
        yield row("separability", separability_interval(x, y), **of_pair)
    for method, each in hits.items():
        store.write(f"hits.{method}.{layer}", torch.stack(each).mean(dim=0).numpy())
    for pair, translations in pairs_of_types.items():
        sides = [
            store.read(f"{language}.types", number)[[both[side] for both in translations]]
            for side, language in enumerate(pair)
        ]
        whole = ~(sides[0].isnan().any(1) | sides[1].isnan().any(1))  # words lost by truncation are NaN
        if whole.sum() < 2:
            continue
        x, y = (side[whole] for side in sides)
        (directions,) = retrieve_each(x, y, methods=("centred",), ks=(1,))
        for direction, (asked, answer) in zip(directions, (pair, pair[::-1]), strict=True):
            coordinates = {**base, "unit": "word", "method": "centred", "source": asked, "target": answer}
            yield row("word_agreement", direction.p[1], **coordinates)
    for language in reading.bitext.languages:
        x = store.read(language, number)
        yield row("anisotropy", anisotropy(x), n=len(x), unit="sentence", source=language, **base)
