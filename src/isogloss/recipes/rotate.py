"""`isogloss rotate`: learn a rotation from parallel sentences, and evaluate it by retrieval on others.

At every layer, a mapping is fitted on one parallel text and evaluated on another (Conneau, Wu et al. 2020, 5.1.3:
fitted on sentences of XNLI, evaluated on Tatoeba). The two languages may be read by two monolingual models. CKA
measures on the same vectors how similar the two spaces are before any mapping (5.2); it needs no shared space.

The means of a normalisation can come from two texts: *inductive* means are those of the text that the mapping was
fitted on, so that it applies to single new sentences; *transductive* means are those of the evaluated sentences, which
must all be known in advance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.mappings.mapping import Mapping as SpaceMapping, save
from isogloss.mappings.methods import MappingSpec, check_widths, parse_mappings, underdetermined_note
from isogloss.mappings.normalise import REMOVALS, normalisations
from isogloss.measures.cka import cka_forms
from isogloss.measures.retrieval import retrieve
from isogloss.measures.statistics import correlation
from isogloss.progress import progress
from isogloss.recipes import layer_comparison, recipe as options
from isogloss.recipes.layer_comparison import Judged
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.edit import reinitialise
from isogloss.stack.load import load
from isogloss.stack.stack import Stack, layer_list, measuring_device
from isogloss.text.catalog import resolve
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.readers.parallel import read_bitexts
from isogloss.vectors.extract import find_sinks, stream
from isogloss.vectors.store import VectorStore

METHODS = ("cosine", "csls")
KS = (1, 5, 10)
MAPPINGS = "mappings"  # folder of saved mappings
CKA_LEAST = 4  # minimum number of sentences for debiased CKA

Direction = tuple[str, str]
Sides = tuple[Tensor, Tensor]  # vectors of the same sentences in both languages, (n, d) each


@recipe
def rotate(
    model: options.Model = "mini",
    *bitext: Bitext | Corpus,
    train_bitext: Annotated[
        list[str] | Bitext | Sequence[Bitext] | None, "parallel text to fit mappings on, named like --bitext"
    ] = None,
    data: Annotated[str | None, "folder of data sets to find --train-bitext in"] = None,
    other: Annotated[str | None, "a second model for the other languages; default the same"] = None,
    random_weights: Annotated[bool, "reinitialise the model for the other languages, by seed"] = False,
    mappings: Annotated[
        str, "mappings to compare, separated by commas; 'none' for CKA only"
    ] = "raw,centred,procrustes,procrustes+iterative",
    train_sample: Annotated[int, Option("parallel sentences to fit on, at most, drawn by seed", least=2)] = 10_000,
    sample: Annotated[int, Option("sentences to evaluate retrieval on, at most, drawn by seed", least=2)] = 2000,
    refine: Annotated[int, Option("rounds of refinement by mutual nearest neighbours", least=0)] = 0,
    ridge_strength: Annotated[float, Option("regularisation strength of ridge", options.RARE, least=0)] = 1.0,
    layers: options.Layers = None,
    save_mappings: Annotated[str | None, "cuts whose mappings are saved in the run folder; default none"] = None,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.ReadingDevice = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> Work:
    """Learn a rotation from parallel sentences at every layer, and find the translations of others with it.

    Example: isogloss rotate mini --bitext tatoeba/ --languages nl,de --train-bitext europarl.tsv --out runs/rotated

    >>> table = rotate("mini", tatoeba, train_bitext=europarl)  # doctest: +SKIP
    """
    specs = [] if mappings == "none" else parse_mappings(mappings, refine=refine, ridge_strength=ridge_strength)
    texts = bitexts_of(bitext)
    require(texts, "--bitext is missing: it names the parallel sentences that are looked up")
    for text in texts:
        few = f"{text.name or 'the text'} has {text.rows} parallel sentences in {len(text.languages)} languages"
        require(len(text.languages) > 1 and text.rows > 1, f"{few}; two of each are the least")
    learned = [spec.name for spec in specs if spec.learns]
    if train_bitext is None and learned:
        raise InputError(
            f"{learned[0]} is learned from parallel text; give it with --train-bitext, or choose --mappings raw,centred"
        )
    trials = [
        trial
        for text in texts
        for trial in _trials(text, train_bitext, data=data, most=train_sample, sample=sample, seed=seed)
    ]
    first = model if isinstance(model, Stack) else load(cast(Any, model), revision, dtype=dtype, device=device)
    second = first if other is None else load(other, dtype=dtype, device=device)
    joint = [spec.name for spec in specs if spec.normalise in REMOVALS and (other is not None or random_weights)]
    require(not joint, f"{''.join(joint[:1])} removes what tells languages apart in one model; leave it out with two")
    if random_weights:
        every = range(1, second.last + 1)
        second = reinitialise(second, every, embeddings=True, seed=seed_of(seed, "random weights"))
    check_widths((first.name, second.name), (first.width, second.width), specs)
    cuts = layer_comparison.shared_layers(first, second, layers)
    require(save_mappings is None or out is not None, "save_mappings leaves maps in the run's folder; give it as out")
    saved = layer_list(save_mappings, first) or ()
    if missing := [layer for layer in saved if layer not in cuts]:
        raise InputError(
            f"--save-mappings {save_mappings}: layer {missing[0]} is not read; --layers has {', '.join(map(str, cuts))}"
        )
    if saved and not any(spec.saved for spec in specs):
        raise InputError("--save-mappings keeps maps that are learned, and --mappings has none; add procrustes")
    pairs = [trial.languages for trial in trials]
    if saved and len(set(pairs)) < len(pairs):
        raise InputError("--save-mappings goes with one --bitext: several ask for a map of the same two languages")
    other_name = None if second is first else options.model_name(second.name) + (" random" if random_weights else "")
    base: dict[str, Any] = {"model": options.model_name(first.name), "other_model": other_name}
    base |= {"task": "rotate", "unit": "sentence", "seed": seed}

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        for number, trial in enumerate(trials):
            source, target = trial.languages
            about, n = {**base, "data": trial.name}, trial.texts["train"].rows if "train" in trial.texts else 0
            # The row with the number of training sentences comes last, as a mark that the trial is complete.
            last = row("learned_from", n, n=n, **about, source=source, target=target)
            if run.has(last):
                continue
            if trial.left_out:
                pairs = f"{trial.left_out:,} sentence pairs for learning the mapping"
                run.note(f"{pairs} are also in the test text, {trial.name}, and were left out of learning")
            store = VectorStore(run.scratch / str(number))
            _read_vectors(trial, (first, second), cuts, store=store, run=run)
            folder = run.folder / MAPPINGS / f"{source}-{target}"
            folders = {layer: folder / f"layer-{layer}" if layer in saved else None for layer in cuts}
            yield from _trial_rows(
                trial, store, folders, specs=specs, base=about, device=measuring_device(first.device), run=run
            )
            yield [last]

    hashes: dict[str, Any] = {"model": first.fingerprint}
    hashes |= {} if second is first else {"other": second.fingerprint}
    for trial in trials:
        known = {part: text.fingerprint for part, text in trial.texts.items()}
        hashes[f"{trial.name} {'-'.join(trial.languages)}"] = {"train": None, **known}
    return Work(str(base["model"]), rows, hashes, tuple({*first.notes, *second.notes}), first.cuts[-1])


@dataclass(frozen=True)
class Trial:
    """Two languages and their texts: the `test` sentences, and the `train` sentences if a mapping is fitted.

    left_out: number of sentences left out of `train` since they are in `test`.
    """

    name: str
    languages: Direction
    texts: Mapping[str, Bitext]
    left_out: int = 0


# --- rows ------------------------------------------------------------------------------------------------------------


def _read_vectors(
    trial: Trial, stacks: Sequence[Stack], layers: Sequence[int], *, store: VectorStore, run: Run
) -> None:
    """Store the vectors of both texts, each language with its model: (layers, sentences, width) as `PART.LANGUAGE`."""
    test, sinks = trial.texts["test"], []
    for stack in stacks:  # one decision for all texts that a model reads, as mappings compare them
        corpora = [corpus for corpus, reader in zip(test, stacks, strict=True) if reader is stack]
        sinks.append(find_sinks(stack, corpora, layers=layers, rows=range(test.rows)))
        if sinks[-1]:
            where = f"{stack.name} has attention sinks, tokens whose states dwarf all others, at layers"
            run.note(f"{where} {', '.join(map(str, sinks[-1]))}: they are left out of the means of sentences")
    for part, text in trial.texts.items():
        for corpus, stack, own_sinks in zip(text, stacks, sinks, strict=True):
            name, done, shortened = f"{part}.{corpus.language}", 0, 0
            if name in store:
                continue
            title = f"{corpus.language} in {corpus.name}" if corpus.name else corpus.language
            with store.filling(name, (len(layers), len(corpus), stack.width)) as states:
                for chunk in stream(stack, corpus, layers=layers, sinks=own_sinks):
                    states[:, done : done + len(chunk.rows)] = chunk.values["sentence"].cpu().numpy()
                    done += len(chunk.rows)
                    shortened += len(chunk.shortened)
            layer_comparison.note_shortened(run, shortened, done, text=title, stack=stack)


def _trial_rows(
    trial: Trial,
    store: VectorStore,
    layers: Mapping[int, Path | None],
    *,
    specs: Sequence[MappingSpec],
    base: Mapping[str, Any],
    device: torch.device,
    run: Run,
) -> Iterator[Sequence[Row]]:
    """Rows of P@k and CKA at every layer, and rows that compare layers; layers: the folder for each one's mappings."""
    source, target = trial.languages
    pair = {**base, "source": source, "target": target}
    # CKA would count a sentence that repeats an earlier one on both sides as agreement.
    distinct = {part: torch.tensor(text.distinct_rows, device=device) for part, text in trial.texts.items()}
    compared = {part: rows for part, rows in distinct.items() if len(rows) >= CKA_LEAST}
    by_layer: dict[Direction, dict[int, Judged]] = {(source, target): {}, (target, source): {}}
    alike: dict[str, dict[int, float]] = {part: {} for part in ("train", "test")}  # debiased CKA of each layer
    for number, (layer, folder) in enumerate(layers.items()):
        answers = {direction: judged.setdefault(layer, {}) for direction, judged in by_layer.items()}
        sides: dict[str, Sides] = {}
        for part in trial.texts:
            x, y = (store.read(f"{part}.{language}", number).to(device) for language in trial.languages)
            sides[part] = x, y
        yield list(
            _retrieval_rows(
                specs, trial, sides, coordinates={**base, "layer": layer}, answers=answers, folder=folder, run=run
            )
        )
        # Similarity of the two spaces before any mapping; `condition` is the text, `train` or `test`. `cka` is
        # debiased, `cka_biased` the paper's formula with centring and `cka_uncentred` without.
        for part, rows in compared.items():
            forms = cka_forms(*(side[rows] for side in sides[part]), seed=base["seed"])
            yield [row(form, cka, condition=part, **pair, layer=layer) for form, cka in forms.items()]
            if isfinite(forms["cka"].value):
                alike[part][layer] = forms["cka"].value
        progress(f"looking up {source} and {target}", number + 1, len(layers))
    for direction, judged in by_layer.items():
        where = {**base, "source": direction[0], "target": direction[1]}
        yield list(layer_comparison.behind_rows(judged, base=where, unit="sentence"))
    part = "train" if "train" in compared else "test"
    yield list(_correlation_rows(alike[part], by_layer, coordinates=pair))


def _retrieval_rows(
    specs: Sequence[MappingSpec],
    trial: Trial,
    sides: Mapping[str, Sides],
    *,
    coordinates: Mapping[str, Any],
    answers: Mapping[Direction, Judged],
    folder: Path | None,
    run: Run,
) -> Iterator[Row]:
    """Rows of P@k of every mapping in both directions; results are added to `answers`, mappings saved in `folder`."""
    x, y = sides["test"]
    keys_x, keys_y = (list(corpus.sentences) for corpus in trial.texts["test"])
    for spec in specs:
        for number, (name, mapping) in enumerate(_fitted(spec, sides)):
            if folder is not None and spec.saved and number == 0:  # with the means of the text it was fitted on
                save(mapping, folder / f"{spec.name}.safetensors")
            if mapping.underdetermined:
                run.note(underdetermined_note(spec.name, mapping.pairs, x.shape[1], "the parallel text"))
            mapped, goal = mapping(x), mapping.target(y)
            for method in METHODS:
                both = retrieve(mapped, goal, method=method, ks=KS, keys_x=keys_x, keys_y=keys_y)
                for (source, target), judged in zip(answers, both, strict=True):
                    answers[source, target][name, method] = judged
                    where = {"source": source, "target": target, "condition": name, "method": method}
                    yield from (row(f"p@{k}", share, **where, **coordinates) for k, share in judged.p.items())


def _fitted(spec: MappingSpec, sides: Mapping[str, Sides]) -> Iterator[tuple[str, SpaceMapping]]:
    """The fitted mappings of a spec, each with a name that says which text its means come from, if it has any."""
    means = spec.normalise not in ("none", "length")
    inductive, transductive = (f"{spec.name} {kind}" if means else spec.name for kind in ("inductive", "transductive"))
    learned = sides.get("train", sides["test"])
    mapping = spec.fit(*learned, spaces=learned)
    yield inductive if "train" in sides else transductive, mapping
    if means and "train" in sides:
        source, target = normalisations(sides["test"], spec.normalise)
        yield transductive, replace(mapping, source=source, target=target)


def _correlation_rows(
    alike: Mapping[int, float], by_layer: Mapping[Direction, Mapping[int, Judged]], *, coordinates: Mapping[str, Any]
) -> Iterator[Row]:
    """Rows `cka_retrieval`: whether retrieval works better at layers whose spaces are more similar.

    Pearson's correlation, over layers, of debiased CKA (on the training text if there is one) and P@1, the mean of both
    directions. n is the number of layers: fewer than four have no interval, fewer than three no row. Neither has a
    curve without variation.
    """
    if len(alike) < 3:  # a line goes through any two points
        return
    for mapping, method in next(iter(next(iter(by_layer.values())).values())):
        hits = [sum(layers[layer][mapping, method].p[1].value for layers in by_layer.values()) / 2 for layer in alike]
        related = correlation(list(alike.values()), hits, kind="pearson")
        if isfinite(related.value):
            yield row("cka_retrieval", related, over="layers", condition=mapping, method=method, **coordinates)


# --- what is given ---------------------------------------------------------------------------------------------------


def _trials(text: Bitext, train: Any, *, data: str | None, most: int, sample: int, seed: int) -> Iterator[Trial]:
    """Trials of the first language of a text with each of the others; train: bitexts, or paths of --train-bitext."""
    given: Any = [train] if isinstance(train, Bitext) else train
    name = text.name or "-".join(text.languages)
    first, *others = text.languages
    for other in others:
        test = _drawn(Bitext((text[first], text[other]), name=text.name), sample, seed, "asked")
        if train is None:
            yield Trial(name, (first, other), {"test": test})
            continue
        texts = given
        if not all(isinstance(bitext, Bitext) for bitext in given):
            texts = read_bitexts(*(resolve(path, data) for path in given), languages=(first, other))
        parallel = layer_comparison.bitext_with(texts, (first, other), "train-bitext")
        parallel = Bitext((parallel[first], parallel[other]), name=parallel.name)
        known = [set(corpus.sentences) for corpus in test]
        sides = zip(*(corpus.sentences for corpus in parallel), strict=True)
        apart = [number for number, (x, y) in enumerate(sides) if x not in known[0] and y not in known[1]]
        few = f"--train-bitext has {len(apart)} sentences of {first} and {other} that are not looked up in {name}"
        require(len(apart) > 1, f"{few}; give more")
        learned = _drawn(parallel.take(apart), most, seed, "learned")
        yield Trial(name, (first, other), {"test": test, "train": learned}, parallel.rows - len(apart))


def _drawn(text: Bitext, most: int, seed: int, part: str) -> Bitext:
    """At most `most` rows of a text, drawn by the seed, in their order."""
    if text.rows <= most:
        return text
    rng = np.random.default_rng(seed_of(seed, part, *text.languages))
    return text.take(sorted(rng.choice(text.rows, size=most, replace=False).tolist()))
