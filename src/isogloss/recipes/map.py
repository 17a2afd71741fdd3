"""`isogloss map`: where, layer by layer, the languages of a model meet.

One pass over the text feeds everything (several where the sums of many languages would not fit). Sentences come in a
seeded random order; the first of them, the pool, also give word vectors and are kept for retrieval, the rest only enter
the sums CKA is made of. So memory does not grow with the text, and blocks of consecutive sentences are random samples,
as the jackknife needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.measures import anisotropy, retrieve
from isogloss.measures.retrieval import retrieve_each
from isogloss.progress import Progress, silent
from isogloss.recipes.arguments import at_least, model_name, one_of
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.layers import LayerMean, compared, layer_list
from isogloss.recipes.steps.reading import read_once
from isogloss.recipes.steps.store import Store
from isogloss.recipes.steps.vocabulary import Pair, Vocabulary
from isogloss.recipes.steps.wordmap import draw
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.chain import Chain
from isogloss.stack.load import load
from isogloss.stack.stack import Stack
from isogloss.text import embedded
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.words import unknown_notes

METHODS = ("cosine", "centred", "csls")
KS = (1, 5, 10)


@dataclass(frozen=True)
class Options:
    """How much is measured, and how."""

    pool: int | None
    pairs: str
    layers: tuple[int, ...] | None
    words: int
    points: int
    centre: bool
    perplexity: float
    seed: int


def map_job(
    model: str | Path | Stack | Chain = "mini",
    *bitext: Bitext | Corpus,
    pool: Annotated[int | str, "sentences for retrieval and words, drawn by seed; 'all' takes every one"] = 2000,
    pairs: Annotated[str, "'all' pairs of languages, or 'first': the first language with each other"] = "all",
    layers: Annotated[str | None, "cuts to read, as in 0,4,8-12; default all"] = None,
    words: Annotated[int, "most word pairs a pair of languages to judge words by"] = 1000,
    points: Annotated[int, "most words a language on the word map; 0 draws none"] = 120,
    centre: Annotated[bool, "remove each language's mean before drawing the word map"] = True,
    perplexity: Annotated[float, "t-SNE's perplexity, the same at every layer"] = 15.0,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
    seed: int = 0,
    device: str = "auto",
    dtype: str | None = None,
) -> Job:
    """Map a model: at every layer, how close are translations? CKA, retrieval, words, with floors and intervals.

    With no bitext the embedded sentences in seven languages are used.

    Example: isogloss map ./my-encoder --bitext en.txt --bitext nl.txt --languages en,nl --out runs/mine
    """
    texts = _bitexts(bitext)
    stack = load(model, revision, dtype=dtype, device=device) if isinstance(model, str | Path) else model
    options = Options(
        pool=_pool(pool),
        pairs=one_of("pairs", pairs, ("all", "first")),
        layers=layer_list(layers, stack),
        words=at_least("words", words, 1),
        points=at_least("points", points, 0),
        centre=centre,
        perplexity=at_least("perplexity", perplexity, 1),
        seed=at_least("seed", seed, 0),
    )
    for text in texts:
        if len(text.languages) < 2:
            raise InputError(f"{text.name or 'the text'} has one language only ({text.languages[0]}); a map needs two")
        if text.rows < 4:
            raise InputError(
                f"{text.name or 'the text'} has {text.rows} parallel sentences; debiased CKA needs at least 4"
            )

    def steps(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        stores = []
        for number, text in enumerate(texts):
            store = _store(stack, text, options, run.scratch / str(number))
            yield from _map_one(stack, text, options, run, store, progress)
            stores.append(store)
        if options.points:
            if len(texts) > 1:
                run.note(f"the word map shows {names[0]}, the first of {len(texts)} texts")
            draw(run, stores[0], points=options.points, centre=options.centre, perplexity=options.perplexity,
                 seed=options.seed, progress=progress)  # fmt: skip

    names = [text.name or "-".join(text.languages) for text in texts]
    if len(set(names)) < len(names):
        raise InputError(f"two texts have the same name ({', '.join(names)}); their rows could not be told apart")
    hashes = {
        "model": stack.fingerprint,
        "data": {name: text.fingerprint for name, text in zip(names, texts, strict=True)},
    }
    notes = [
        f"{text.dropped} rows of {name} were left out: they have an empty side, or repeat an earlier row on every "
        "side, which CKA would take for agreement"
        for name, text in zip(names, texts, strict=True)
        if text.dropped
    ]
    notes += [one for text in texts for one in unknown_notes(stack.tokenizer, text)]
    name = model_name(stack.name)
    return Job(name, steps, hashes, notes, depth=stack.cuts[-1])


def map_layers(
    model: str | Path | Stack | Chain = "mini",
    *bitext: Bitext | Corpus,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Map a model's languages, from Python: `map_job` says what the options are. Returns the table of rows.

    >>> table = map_layers("mini", en, nl)  # doctest: +SKIP
    """
    if out is None:
        options["points"] = 0  # a map nobody will see is not drawn
    job = map_job(model, *bitext, **options)
    return execute(
        job, command="map", arguments=options, seed=options.get("seed", 0), out=out, resume=resume, progress=progress
    )


def _map_one(
    stack: Stack | Chain, bitext: Bitext, options: Options, run: Run, store: Store, progress: Progress
) -> Iterator[Sequence[Row]]:
    """All rows of one bitext: first those that need the pass over the text, then layer by layer those of the pool."""
    base = {"model": run.facts["model"], "data": bitext.name or "-".join(bitext.languages), "seed": options.seed}
    order = np.random.default_rng(options.seed).permutation(bitext.rows).tolist()
    pool = order[: options.pool]
    pairs = _pairs(bitext.languages, options.pairs)
    if not store.complete:
        store.folder.mkdir(parents=True, exist_ok=True)
        rows = list(
            read_once(stack, bitext, order, store, pairs=pairs, words=options.words, base=base, progress=progress)
        )
        for one in rows:
            if one["measure"] == "truncated" and one["value"]:
                run.note(
                    f"{one['value']:.0f} of {one['n']} sentences of {one['source']} in {base['data']} were longer than "
                    f"{stack.max_length} tokens and were cut"
                )
        yield rows
        store.finish()  # only now: rows reach the disk before the store that makes reading again needless
    words = store.words()
    keys = {corpus.language: [corpus.sentences[i] for i in pool] for corpus in bitext}
    for done, layer in enumerate(store.layers):
        last = row("anisotropy", 0, **base, layer=layer, unit="sentence", source=bitext.languages[-1])
        if not run.has(last):
            yield list(_pool_rows(store, layer, pairs, words, keys, _fast(stack.device), base))
        progress("comparing sentences and words", done + 1, len(store.layers))
    for method in METHODS:
        yield list(compared("p@1", method, _hit_means(run, store, method, base), n=len(pool), base=base))


def _pool_rows(
    store: Store,
    layer: int,
    pairs: list[Pair],
    words: Vocabulary,
    keys: Mapping[str, list[str]],
    device: torch.device,
    base: Mapping[str, Any],
) -> Iterator[Row]:
    """Retrieval, word agreement and anisotropy at one layer, from what the pass left in the store."""
    hits: dict[str, list[Tensor]] = {method: [] for method in METHODS}
    for source, target in pairs:
        x, y = (store.sentences(language, layer).to(device) for language in (source, target))
        judged = retrieve_each(x, y, methods=METHODS, ks=KS, keys_x=keys[source], keys_y=keys[target])
        for method, (there, back) in zip(METHODS, judged, strict=True):
            hits[method] += [(one.ranks == 1).double() for one in (there, back)]
            for one, way in ((there, (source, target)), (back, (target, source))):
                place = {**base, "layer": layer, "unit": "sentence", "variant": method, "n": one.n}
                place |= {"source": way[0], "target": way[1]}
                for k in KS:
                    low, high = one.p_interval[k]
                    yield row(f"p@{k}", one.p[k], low=low, high=high, floor=one.floor[k], **place)
                low, high = one.mrr_interval
                yield row("mrr", one.mrr, low=low, high=high, floor=one.mrr_floor, **place)
                if method == METHODS[0] and layer == store.layers[0]:
                    known = {**base, "source": way[0], "target": way[1], "unit": "sentence"}
                    yield row("duplicates", one.duplicates, n=one.m, **known)
    for method, found in hits.items():
        store.put_hits(method, layer, torch.stack(found).mean(dim=0))
    for (source, target), right in words.pairs.items():
        yield from _word_rows(store, layer, (source, target), right, base)
    for language in store.languages:
        x = store.sentences(language, layer)
        yield row("anisotropy", anisotropy(x), n=len(x), layer=layer, unit="sentence", source=language, **base)


def _hit_means(run: Run, store: Store, method: str, base: Mapping[str, Any]) -> dict[int, LayerMean]:
    """P@1 of each layer averaged over all directions, with the mean of the floors its rows carry."""
    here = [one for one in run.rows if one["measure"] == "p@1" and one["data"] == base["data"]]
    found = {}
    for layer in store.layers:
        hits = store.hits(method, layer)
        floors = [one["floor"] for one in here if one["layer"] == layer and one["variant"] == method]
        without = (hits.sum() - hits) / (len(hits) - 1)
        found[layer] = LayerMean(float(hits.mean()), without, sum(floors) / len(floors))
    return found


def _word_rows(
    store: Store, layer: int, pair: Pair, right: Sequence[tuple[int, int]], base: Mapping[str, Any]
) -> Iterator[Row]:
    """Share of words whose nearest neighbour across languages is their translation, language means removed."""
    sides = [store.types(language, layer)[[one[at] for one in right]] for at, language in enumerate(pair)]
    whole = ~(sides[0].isnan().any(1) | sides[1].isnan().any(1))  # a word may have been lost to cutting
    sides = [side[whole] for side in sides]
    if len(sides[0]) < 2:
        return
    for one, way in zip(retrieve(sides[0], sides[1], method="centred", ks=(1,)), (pair, pair[::-1]), strict=True):
        low, high = one.p_interval[1]
        place = {**base, "layer": layer, "unit": "word", "variant": "centred", "source": way[0], "target": way[1]}
        yield row("word_agreement", one.p[1], low=low, high=high, floor=one.floor[1], n=one.n, **place)


def _fast(device: torch.device) -> torch.device:
    """Where measures run: on an NVIDIA GPU where the model is on one, else on the CPU, which has double precision."""
    return device if device.type == "cuda" else torch.device("cpu")


def _store(stack: Stack | Chain, bitext: Bitext, options: Options, folder: Path) -> Store:
    layers = list(stack.cuts if options.layers is None else options.layers)
    return Store(folder, bitext.languages, layers, min(options.pool or bitext.rows, bitext.rows), stack.width)


def _pairs(languages: Sequence[str], which: str) -> list[Pair]:
    return list(combinations(languages, 2)) if which == "all" else [(languages[0], other) for other in languages[1:]]


def _bitexts(given: Sequence[Bitext | Corpus]) -> list[Bitext]:
    """Corpora given one by one are the sides of one bitext; with nothing given, the embedded sentences."""
    return [_without_repeats(text) for text in bitexts_of(given)] or [embedded()]


def _without_repeats(bitext: Bitext) -> Bitext:
    """Rows that repeat an earlier one in every language are left out, and counted."""
    kept = bitext.distinct_rows
    repeats = bitext.rows - len(kept)
    return replace(bitext.take(kept), dropped=bitext.dropped + repeats) if repeats else bitext


def _pool(pool: int | str) -> int | None:
    if pool == "all":
        return None
    try:
        return at_least("pool", int(pool), 4)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"--pool takes a number of sentences or 'all', not {pool!r}") from error
