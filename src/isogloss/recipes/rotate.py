"""`isogloss rotate`: a rotation learned from parallel sentences, and how many translations of others it finds.

At every layer, a map is fitted on one parallel text and tried on another (Conneau, Wu et al. 2020, 5.1.3: learned on
XNLI's sentences, tried on Tatoeba's). The two languages may be read by two models that never saw each other's. CKA says
how alike the two spaces are before any map (5.2), from the same vectors; it needs no shared space.

Where the means of a normalisation come from matters: *inductive* ones are those of the text that the map was learned
from, so that a new sentence can be treated alone; *transductive* ones are those of the very sentences that are looked
up, which have to be known all at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.mappings import Mapping as SpaceMapping, normalisation, save
from isogloss.mappings.methods import MappingSpec, parse_mappings, underdetermined_note
from isogloss.measures import cka_forms, correlation, retrieve
from isogloss.progress import Progress, silent
from isogloss.recipes import layer_comparison, recipe as options
from isogloss.recipes.layer_comparison import Judged
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.edit import reinitialise
from isogloss.stack.load import load
from isogloss.stack.stack import Stack, layer_list, measuring_device
from isogloss.text import read_bitexts, resolve
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.vectors.extract import stream
from isogloss.vectors.store import VectorStore

METHODS = ("cosine", "csls")
KS = (1, 5, 10)
MAPPINGS = "mappings"  # folder of maps that are kept
CKA_LEAST = 4  # sentences for debiased CKA

Direction = tuple[str, str]
Sides = tuple[Tensor, Tensor]  # vectors of the same sentences in both languages, (n, d) each


@recipe
def rotate(
    model: options.Model = "mini",
    *bitext: Bitext | Corpus,
    train_bitext: Annotated[
        list[str] | Bitext | Sequence[Bitext] | None, "parallel text to learn from, named as --bitext is"
    ] = None,
    data: Annotated[str | None, "folder of data sets to find --train-bitext in"] = None,
    other: Annotated[str | None, "a second model, which reads the other languages; default the same"] = None,
    random_weights: Annotated[bool, "the other languages are read with fresh weights, drawn by seed"] = False,
    mappings: Annotated[
        str, "maps to compare, with commas; 'none' for CKA alone"
    ] = "raw,centred,procrustes,procrustes+iterative",
    train_sample: Annotated[int, Option("most parallel sentences to learn from, drawn by seed", least=2)] = 10_000,
    sample: Annotated[int, Option("most sentences to look up, drawn by seed", least=2)] = 2000,
    refine: Annotated[int, Option("rounds of refinement by mutual neighbours", least=0)] = 0,
    ridge_strength: Annotated[float, Option("strength of ridge", options.RARE, least=0)] = 1.0,
    layers: options.Layers = None,
    save_mappings: Annotated[str | None, "cuts whose maps stay in the run's folder, for export; default none"] = None,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
    progress: Progress = silent,
) -> Work:
    """Learn a rotation from parallel sentences at every layer, and find the translations of others with it.

    Example: isogloss rotate mini --bitext tatoeba/ --languages nl,de --train-bitext europarl.tsv --out runs/rotated

    >>> table = rotate("mini", tatoeba, train_bitext=europarl)  # doctest: +SKIP
    """
    specs = [] if mappings == "none" else parse_mappings(mappings)
    texts = bitexts_of(bitext)
    if not texts:
        raise InputError("--bitext is missing: it names the parallel sentences that are looked up")
    for text in texts:
        if len(text.languages) < 2 or text.rows < 2:
            raise InputError(
                f"{text.name or 'the text'} has {text.rows} parallel sentences in {len(text.languages)} languages; "
                "two of each are the least"
            )
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
    if random_weights:
        every = range(1, second.last + 1)
        second = reinitialise(second, every, embeddings=True, seed=seed_of(seed, "random weights"))
    layer_comparison.check_widths((first.name, second.name), (first.width, second.width), specs)
    cuts = layer_comparison.shared_layers(first, second, layers)
    if save_mappings is not None and out is None:
        raise InputError("save_mappings leaves maps in the run's folder; give it as out")
    saved = layer_list(save_mappings, first) or ()
    if missing := [layer for layer in saved if layer not in cuts]:
        raise InputError(
            f"--save-mappings {save_mappings}: layer {missing[0]} is not read; --layers has {', '.join(map(str, cuts))}"
        )
    if saved and not learned:
        raise InputError("--save-mappings keeps maps that are learned, and --mappings has none; add procrustes")
    pairs = [trial.test.languages for trial in trials]
    if saved and len(set(pairs)) < len(pairs):
        raise InputError("--save-mappings goes with one --bitext: several ask for a map of the same two languages")
    other_name = None if second is first else options.model_name(second.name) + (" random" if random_weights else "")
    names = {"model": options.model_name(first.name), "other_model": other_name}
    reading = RotateReading(
        stacks=(first, second),
        layers=cuts,
        saved=saved,
        specs=specs,
        fit={"refine": refine, "ridge_strength": ridge_strength},
        base={**names, "task": "rotate", "unit": "sentence", "seed": seed},
    )

    def rows(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        for number, trial in enumerate(trials):
            yield from _rows_of_trial(reading, trial, run, run.scratch / str(number), progress)

    hashes: dict[str, Any] = {"model": first.fingerprint}
    hashes |= {} if second is first else {"other": second.fingerprint}
    for trial in trials:
        train = None if trial.train is None else trial.train.fingerprint
        hashes[f"{trial.name} {'-'.join(trial.test.languages)}"] = {"test": trial.test.fingerprint, "train": train}
    return Work(str(names["model"]), rows, hashes, depth=first.cuts[-1])


@dataclass(frozen=True)
class Trial:
    """Two languages: the sentences to learn from (None where nothing is learned) and those to look up.

    left_out: sentences of the text to learn from that are looked up, and so were not learned from.
    """

    name: str
    train: Bitext | None
    test: Bitext
    left_out: int


@dataclass(frozen=True, kw_only=True)
class RotateReading:
    """How every trial is read and judged.

    Args:
        stacks: The model of the first language, and that of the others.
        layers: Cuts to read.
        saved: Those whose mappings stay in the run folder.
        specs: Which mappings are compared.
        fit: How they are fitted.
        base: Coordinates that every row has.
    """

    stacks: tuple[Stack, Stack]
    layers: Sequence[int]
    saved: Sequence[int]
    specs: Sequence[MappingSpec]
    fit: Mapping[str, Any]
    base: Mapping[str, Any]


# --- rows ------------------------------------------------------------------------------------------------------------


def _rows_of_trial(
    reading: RotateReading, trial: Trial, run: Run, folder: Path, progress: Progress
) -> Iterator[Sequence[Row]]:
    """All rows of two languages; how many sentences were learned from comes last, and says that they are all there."""
    source, target = trial.test.languages
    base = {**reading.base, "data": trial.name}
    pair = {**base, "source": source, "target": target}
    n = 0 if trial.train is None else trial.train.rows
    last = row("learned_from", n, n=n, **pair)
    if run.has(last):
        return
    if trial.left_out:
        run.note(f"{trial.left_out:,} sentences for learning are looked up in {trial.name}, and were not learned from")
    device = measuring_device(reading.stacks[0].device)
    texts = {"test": trial.test} | ({} if trial.train is None else {"train": trial.train})
    # A sentence that repeats an earlier one on both sides would pass for agreement in CKA.
    distinct = {part: text.distinct_rows for part, text in texts.items()}
    compared = {part: torch.tensor(rows, device=device) for part, rows in distinct.items() if len(rows) >= CKA_LEAST}
    store = VectorStore(folder)
    for part, text in texts.items():
        for corpus, stack in zip(text, reading.stacks, strict=True):
            name, done, shortened = f"{part}.{corpus.language}", 0, 0
            if name in store:
                continue
            with store.filling(name, (len(reading.layers), len(corpus), stack.width)) as states:
                for chunk in stream(stack, corpus, layers=reading.layers, progress=progress):
                    states[:, done : done + len(chunk.rows)] = chunk.values["sentence"].cpu().numpy()
                    done += len(chunk.rows)
                    shortened += len(chunk.shortened)
            title = f"{corpus.language} in {corpus.name}" if corpus.name else corpus.language
            layer_comparison.note_shortened(run, shortened, done, title, stack)
    by_layer: dict[Direction, dict[int, Judged]] = {(source, target): {}, (target, source): {}}
    alike: list[Row] = []
    for number, layer in enumerate(reading.layers):
        answers = {direction: layers.setdefault(layer, {}) for direction, layers in by_layer.items()}
        sides: dict[str, Sides] = {}
        for part in texts:
            x, y = (store.read(f"{part}.{name}", number).to(device) for name in (source, target))
            sides[part] = x, y
        saved = run.folder / MAPPINGS / f"{source}-{target}" / f"layer-{layer}" if layer in reading.saved else None
        yield list(_retrieval_rows(reading, trial, sides, {**base, "layer": layer}, answers, saved, run))
        # How alike the two spaces are before any map; `condition` says on which text, `train` or `test`. `cka` is
        # debiased, `cka_biased` the printed formula with centring and `cka_uncentred` without.
        of_layer = []
        for part, rows in compared.items():
            for form, cka in cka_forms(*(side[rows] for side in sides[part]), seed=base["seed"]).items():
                of_layer.append(row(form, cka, condition=part, **pair, layer=layer))
        alike += of_layer
        yield of_layer
        progress(f"looking up {source} and {target}", number + 1, len(reading.layers))
    for direction, layers in by_layer.items():
        where = {**base, "source": direction[0], "target": direction[1]}
        yield list(layer_comparison.behind_rows(layers, base=where, unit="sentence"))
    yield list(_correlation_rows(alike, by_layer, coordinates=pair))
    yield [last]


def _retrieval_rows(
    reading: RotateReading,
    trial: Trial,
    sides: Mapping[str, Sides],
    coordinates: Mapping[str, Any],
    answers: Mapping[Direction, Judged],
    saved: Path | None,
    run: Run,
) -> Iterator[Row]:
    """P@k of every mapping, both directions; `answers` takes what each direction found, `saved` the fitted mappings."""
    x, y = sides["test"]
    keys_x, keys_y = (list(corpus.sentences) for corpus in trial.test)
    for spec in reading.specs:
        for number, (name, mapping) in enumerate(_fitted(spec, sides, reading.fit)):
            if saved is not None and spec.learns and number == 0:  # with the means of the text it was learned from
                save(mapping, saved / f"{spec.name}.safetensors")
            if mapping.underdetermined:
                run.note(underdetermined_note(spec.name, mapping.pairs, x.shape[1], "the parallel text"))
            mapped, goal = mapping(x), mapping.target(y)
            for method in METHODS:
                both = retrieve(mapped, goal, method=method, ks=KS, keys_x=keys_x, keys_y=keys_y)
                for (source, target), judged in zip(answers, both, strict=True):
                    answers[source, target][name, method] = judged
                    how = {"source": source, "target": target, "condition": name, "method": method}
                    yield from (row(f"p@{k}", share, **how, **coordinates) for k, share in judged.p.items())


def _fitted(
    spec: MappingSpec, sides: Mapping[str, Sides], fit: Mapping[str, Any]
) -> Iterator[tuple[str, SpaceMapping]]:
    """The mappings of a spec, each with a name that says where its means come from, if it has any."""
    means = spec.normalise not in ("none", "length")
    inductive, transductive = (f"{spec.name} {kind}" if means else spec.name for kind in ("inductive", "transductive"))
    test = sides["test"]
    if "train" not in sides:
        yield transductive, spec.fit(*test, spaces=test, ridge_strength=fit["ridge_strength"])
        return
    mapping = spec.fit(*sides["train"], spaces=sides["train"], **fit)
    yield inductive, mapping
    if means:
        source, target = (normalisation(side, spec.normalise) for side in test)
        yield transductive, replace(mapping, source=source, target=target)


def _correlation_rows(
    cka: Sequence[Row],
    by_layer: Mapping[Direction, Mapping[int, Judged]],
    *,
    coordinates: Mapping[str, Any],
) -> Iterator[Row]:
    """`cka_retrieval`: do layers whose spaces are more alike let more translations be found.

    Pearson's correlation, over layers, of debiased CKA (of the text learned from where there is one) and P@1, the mean
    of both directions. n counts layers; below four there is no interval, and no row below three or where a curve is
    level.
    """
    debiased = [entry for entry in cka if entry["measure"] == "cka"]
    text = "train" if any(entry["condition"] == "train" for entry in debiased) else "test"
    alike = {
        int(entry["layer"]): float(entry["value"])
        for entry in debiased
        if entry["condition"] == text and isfinite(entry["value"])
    }
    if len(alike) < 3:  # a line goes through any two points
        return
    for mapping, method in next(iter(next(iter(by_layer.values())).values())):
        found = [sum(layers[layer][mapping, method].p[1].value for layers in by_layer.values()) / 2 for layer in alike]
        related = correlation(list(alike.values()), found, kind="pearson")
        if isfinite(related.value):
            yield row("cka_retrieval", related, condition=mapping, method=method, **coordinates)


# --- what is given ---------------------------------------------------------------------------------------------------


def _trials(text: Bitext, train: Any, *, data: str | None, most: int, sample: int, seed: int) -> Iterator[Trial]:
    """The first language of a text with each other one; train: bitexts, or what --train-bitext names."""
    given: Any = [train] if isinstance(train, Bitext) else train
    name = text.name or "-".join(text.languages)
    first, *others = text.languages
    for other in others:
        test = _drawn(Bitext((text[first], text[other]), name=text.name), sample, seed, "asked")
        if train is None:
            yield Trial(name, None, test, 0)
            continue
        texts = given
        if not all(isinstance(each, Bitext) for each in given):
            texts = read_bitexts(*(resolve(path, data) for path in given), languages=(first, other))
        found = layer_comparison.bitext_with(texts, (first, other), "train-bitext")
        parallel = Bitext((found[first], found[other]), name=found.name)
        known = [set(corpus.sentences) for corpus in test]
        sides = zip(*(corpus.sentences for corpus in parallel), strict=True)
        apart = [number for number, (x, y) in enumerate(sides) if x not in known[0] and y not in known[1]]
        if len(apart) < 2:
            raise InputError(
                f"--train-bitext has {len(apart)} sentences of {first} and {other} that are not looked up in {name}; "
                "give more"
            )
        yield Trial(name, _drawn(parallel.take(apart), most, seed, "learned"), test, parallel.rows - len(apart))


def _drawn(text: Bitext, most: int, seed: int, part: str) -> Bitext:
    """At most so many rows, drawn by the seed, in their order."""
    if text.rows <= most:
        return text
    chance = np.random.default_rng(seed_of(seed, part, *text.languages))
    return text.take(sorted(chance.choice(text.rows, size=most, replace=False).tolist()))
