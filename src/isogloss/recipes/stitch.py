"""`isogloss stitch`: a task learned on top of one model's lower layers, and asked of another's through a rotation.

The lower layers of the source model, frozen, and some fresh layers with a head are trained on the source language. At
test the lower layers of the target model stand in their place, with a rotation between that was fitted on words in
context that translate each other (Conneau, Wu et al. 2020, 5.1.2). Every layer to cut at is a training of its own. Its
task layers are given the target model's states at the same cut in each of these conditions:

    stitched   through the fitted map: W, and means as --denormalise says
    shifted    means alone: the same with the identity for W (only where the map moves means, --denormalise recentred)
    unmapped   as they are (as normalised, where the task's layers were trained on normalised states): the control
    random     the same as stitched with a random rotation for W: what any rotation would give
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.mappings import Mapping as SpaceMapping, Normalisation, streamed_normalisations
from isogloss.mappings.mapping import RESTORES
from isogloss.mappings.methods import parse_mappings, underdetermined_note
from isogloss.measures.word_alignment import one_to_one
from isogloss.progress import Progress, named, silent
from isogloss.recipes import recipe as options, task_scores
from isogloss.recipes.layer_comparison import bitext_with, shared_layers
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.recipes.task_sets import TaskSets, lost_notes, read_sets, skipped_rows, tokenise_set
from isogloss.runs.run import Run
from isogloss.runs.table import Row, mean_rows, row
from isogloss.seeds import seed_of
from isogloss.stack.edit import freeze, with_fresh_blocks
from isogloss.stack.load import choose_device, load
from isogloss.stack.stack import Stack
from isogloss.tasks import TASKS, find_task
from isogloss.tasks.frozen_prefix import Prefix, free_bytes, read_prefix
from isogloss.tasks.model import TaskModel, predict, task_objective
from isogloss.tasks.task import Items
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.vocabulary import links_of
from isogloss.text.words import words_of
from isogloss.training.checkpoints import Checkpoints, finish, finished, wearing
from isogloss.training.loop import Settings, Training, join, steps_in_epoch, train
from isogloss.training.probes import Probe, Reading
from isogloss.training.stopping import select_by
from isogloss.vectors.extract import Pool, stream
from isogloss.vectors.store import VectorStore, rereadable

STITCHED, SHIFTED, UNMAPPED, RANDOM = "stitched", "shifted", "unmapped", "random"
CHUNK_BYTES = 300_000_000  # what the word vectors of one chunk may take
WORDS = 24  # of a sentence, for that


@recipe
def stitch(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"what is learned: {', '.join(TASKS)}"],
    train: Annotated[options.LanguageFile, "examples to train on, LANG=FILE[,FILE]: the source language"],
    dev: Annotated[options.LanguageFiles, "examples of the source language to choose the epoch by, LANG=FILE"],
    test: Annotated[
        options.LanguageFiles, "examples to test on, LANG=FILE[,FILE], once a set: the source's, and the target's"
    ],
    other: Annotated[str | None, "the model that reads the target language; default the same model"] = None,
    layers: options.Layers = None,
    fresh_layers: Annotated[int, Option("fresh layers between the cut and the head", least=1)] = 4,
    mapping: Annotated[
        str, "the map: procrustes, least-squares or ridge, alone or with +iterative, +centred, +length"
    ] = "procrustes+iterative",
    denormalise: Annotated[
        str, Option(f"in which terms mapped states are given: {', '.join(RESTORES)}", choices=RESTORES)
    ] = "recentred",
    word_pairs: Annotated[int, Option("most pairs of words to fit the map on, drawn by seed", least=2)] = 50_000,
    max_uses: Annotated[int, Option("most pairs that one word type is in", least=1)] = 20,
    pooling: Annotated[Literal["first", "mean"], "a word's vector: its first subword, or the mean of all"] = "first",
    sample: Annotated[
        int, Option("most sentences of --bitext whose words are a language's space, drawn by seed", least=2)
    ] = 50_000,
    refine: Annotated[int, Option("rounds of refinement by mutual neighbours among the paired words", least=0)] = 0,
    seeds: options.Seeds = 1,
    epochs: options.Epochs = 10,
    batch: options.Batch = 32,
    rate: options.Rate = 5e-5,
    warm_up: options.WarmUp = 0.1,
    length: Annotated[
        int | None, Option("most tokens of an example; default the task's, or the model's if it is less", least=8)
    ] = None,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    checkpoint: options.CheckpointEvery = 1000,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    dtype: options.TrainDtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
    progress: Progress = silent,
) -> Work:
    """Learn a task on one model's lower layers, and ask it of another model's through a rotation, layer by layer.

    Example: isogloss stitch ./english --other ./dutch --task ner --train en=train.tsv --dev en=dev.tsv
    --test en=en.tsv --test nl=nl.tsv --bitext en.txt --bitext nl.txt --languages en,nl
    """
    options.one_process("stitch")
    processor, (mapper, *more) = choose_device(device), parse_mappings(mapping)
    if more or not mapper.learns:
        raise InputError(f"--mapping is one map that is fitted, such as procrustes+iterative, not {mapping!r}")
    half = options.half_precision(dtype, processor)
    sets = read_sets(find_task(task), train=train, dev=dev, test=test, skip_bad=skip_bad)
    others = list(dict.fromkeys(test.language for test in sets.tests if test.language != sets.source))
    if len(others) != 1:
        raise InputError(
            f"--test must have sets of one language besides {sets.source}, the one that is stitched; it has "
            f"{', '.join(others) or 'none'}"
        )
    if len(sets.dev) > 1:
        raise InputError(f"--dev takes examples of {sets.source} only: the epoch is chosen without the target language")
    (target,) = others
    sets = replace(sets, tests=sorted(sets.tests, key=lambda test: test.language == target))  # the source's first
    texts = bitexts_of(bitext)
    if not texts:
        raise InputError(
            f"--bitext is missing: parallel text of {sets.source} and {target}, from whose words the map is learned"
        )
    parallel = bitext_with(texts, (sets.source, target), "bitext")
    source = load(model, revision, dtype="float32", device=processor)
    second = source if other is None else load(other, dtype="float32", device=processor)
    for stack in (source, second):
        if stack.family.kind != "encoder":
            raise InputError(f"{stack.name} is a {stack.family.kind}; stitch cuts encoders")
    if source.width != second.width:
        raise InputError(
            f"{source.name} is {source.width} wide and {second.name} {second.width}; layers of one cannot stand on "
            "layers of the other: take models of one width"
        )
    cuts = shared_layers(source, second, layers)
    tokens = min(source.max_length, second.max_length, length or sets.task.length)
    base = {"model": options.model_name(model), "other_model": None if other is None else options.model_name(other)}
    base |= {"task": sets.task.name, "source": sets.source}

    def rows(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        languages = (target, sets.source)  # the map leads from the target's space to the one the task is learned in
        pairs = choose_word_pairs(parallel, languages, most=word_pairs, max_uses=max_uses, seed=seed, progress=progress)
        store = VectorStore(run.scratch)
        how: dict[str, Any] = {"layers": cuts, "pooling": pooling, "normalise": mapper.normalise}
        how["rows"] = space_rows(parallel.rows, most=sample, seed=seed)
        sides = [(number, first) for number, first, _ in pairs], [(number, other) for number, _, other in pairs]
        spaces = [
            read_words(stack, parallel[language], words, store=store, progress=progress, **how)
            for stack, language, words in zip((second, source), languages, sides, strict=True)
        ]
        own, foreign = list[Items](), list[Items]()  # sets of the source and of the target, each in its model's tokens
        for task_set in sets.all:
            stack, part = (source, own) if task_set.language == sets.source else (second, foreign)
            part.append(tokenise_set(sets, task_set, tokenizer=stack.tokenizer, length=tokens, progress=progress))
        for sentence in lost_notes(sets.all, [*own, *foreign]):
            run.note(sentence)
        epoch = steps_in_epoch(own[0], batch)
        optimiser = options.optimisation(epochs * epoch, rate, warm_up)
        # A loss is no row here, and to read one the device has to be waited for.
        settings = Settings(epochs * epoch, seed, optimiser, report=epoch, half=half)
        autocast = torch.bfloat16 if half else None
        setup = StitchSetup(source, second, sets, own, foreign, settings, batch, checkpoint, fresh_layers, autocast)
        yield skipped_rows(sets, base)
        for number, cut in enumerate(cuts):
            coordinates = {**base, "layer": cut}
            x, y = (store.read(f"words.{language}", number) for language in languages)
            complete = torch.isfinite(x[:, 0]) & torch.isfinite(y[:, 0])  # a word may have been lost to cutting
            x, y = x[complete], y[complete]  # (pairs, width) each
            data = parallel.name or "-".join(parallel.languages)
            yield [row("learned_from", len(x), target=target, data=data, unit="word", seed=seed, **coordinates)]
            known = spaces[0][number], spaces[1][number]
            fitted = mapper.fit(x, y, spaces=(x, y), normalisations=known, refine=refine, restore=denormalise)
            if fitted.underdetermined:
                run.note(underdetermined_note(mapping, fitted.pairs, x.shape[1], "the parallel text"))
            # Read once for all seeds, and only where something is left to train.
            states = cache(partial(_read_states, setup, fitted, cut=cut, folder=run.scratch, progress=progress))
            results: list[Row] = []
            for each in range(seed, seed + seeds):
                conditions = target_conditions(fitted, seed=seed_of(each, "random rotation", cut))
                folder = run.folder / "checkpoints" / f"layer-{cut}-seed-{each}"
                if not finished(folder):
                    shown = named(progress, f"training on layer {cut} ({number + 1} of {len(cuts)}), seed {each}")
                    at: dict[str, Any] = {"cut": cut, "seed": each, "folder": folder}
                    train_layer(setup, states(), conditions=conditions, progress=shown, **at)
                chosen = _condition_rows(setup, folder, conditions, {**coordinates, "seed": each})
                results += chosen
                yield chosen
            yield mean_rows(results)
            for file in run.scratch.glob(f"cut-{cut}-*.states"):
                file.unlink()

    hashes: dict[str, Any] = {"model": source.fingerprint, "data": sets.hashes, "parallel text": parallel.fingerprint}
    hashes |= {} if other is None else {"other": second.fingerprint}
    return Work(str(base["model"]), rows, hashes, sets.notes, source.last)


# --- words in context that translate each other ----------------------------------------------------------------------


WordPair = tuple[int, int, int]
"""A row of a bitext, and the numbers of a word of its first side and of one of its other side."""


def choose_word_pairs(
    bitext: Bitext, languages: tuple[str, str], *, most: int, max_uses: int, seed: int, progress: Progress = silent
) -> list[WordPair]:
    """One-to-one links of words that differ, at most `most` of them, in the order of the text.

    Links come with the text or from the statistical aligner, never from the models that are mapped. Rows are visited in
    an order drawn from the seed. Words written alike and words without a letter are left out. max_uses: how often a
    word type may occur on either side, case ignored; without it, articles and commas would decide the map.
    """
    rows = range(bitext.rows)
    links, _ = links_of(bitext, languages, rows, progress=progress)
    order = list(rows)
    random.Random(seed_of(seed, "word pairs")).shuffle(order)
    uses: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    pairs: list[WordPair] = []
    for number in order:
        sides = [[word.lower() for word in words_of(bitext[language], number)] for language in languages]
        for i, j in one_to_one(links[number]):
            for index, words in ((i, sides[0]), (j, sides[1])):
                if not 0 <= index < len(words):
                    raise InputError(
                        f"{bitext.name or 'the parallel text'}, sentence {number + 1}: a link points at word {index} "
                        f"of a sentence of {len(words)} words, counted from 0; the links belong to another text or "
                        "segmentation"
                    )
            first, other = sides[0][i], sides[1][j]
            if first == other or not all(any(letter.isalpha() for letter in word) for word in (first, other)):
                continue
            if len(pairs) < most and uses[0][first] < max_uses and uses[1][other] < max_uses:
                uses[0][first] += 1
                uses[1][other] += 1
                pairs.append((number, i, j))
    if not pairs:
        raise InputError(
            f"{bitext.name or 'the parallel text'} has no pair of words to learn a map from: no link joins one word of "
            f"{languages[0]} to one differently written word of {languages[1]}; give more text, or its --links"
        )
    return sorted(pairs)


def space_rows(count: int, *, most: int, seed: int) -> list[int]:
    """At most so many of the rows of a text, drawn by the seed, in their order."""
    if count <= most:
        return list(range(count))
    return sorted(random.Random(seed_of(seed, "space")).sample(range(count), most))


def read_words(
    stack: Stack,
    corpus: Corpus,
    words: Sequence[tuple[int, int]],
    *,
    layers: Sequence[int],
    rows: Sequence[int],
    pooling: str,
    normalise: str,
    store: VectorStore,
    progress: Progress = silent,
) -> list[Normalisation]:
    """Read a text once: vectors of some words go into the store, and the space of the language is returned.

    A map is fitted on pairs of words, but what is subtracted from either side are the means of the whole space of its
    language (Zhang et al. 2019), or a word that is frequent in the pairs would shift everything. All rounds of
    `iterative` go over one reading.

    Args:
        stack: The model.
        corpus: The text of one language.
        words: (row, word) of the corpus. The store has their vectors as `words.LANGUAGE`, (layers, words, width); a
            word of which nothing is left after cutting a long sentence is nan. What is stored is not made again.
        layers: The cuts.
        rows: The sentences whose words are the space of the language.
        pooling: How a word's vector is made of its subwords, first or mean.
        normalise: The normalisation of the space.
        store: Takes the vectors.
        progress: Told the sentences read.

    Returns:
        The normalisation of all words of `rows`, one a layer.
    """
    name = f"words.{corpus.language}"
    if name not in store:
        inside = set(rows)
        every = sorted(inside.union(number for number, _ in words))
        positions: dict[tuple[int, int], list[int]] = {}
        for position, word in enumerate(words):
            positions.setdefault(word, []).append(position)
        chunk_size = max(16, min(512, CHUNK_BYTES // (WORDS * len(layers) * stack.width * 4)))
        how: dict[str, Any] = {"layers": layers, "units": ("word",), "pool": cast(Pool, pooling)}

        with store.filling(name, (len(layers), len(words), stack.width)) as vectors:
            vectors[:] = torch.nan

            def read() -> Iterator[Tensor]:
                for chunk in stream(stack, corpus, rows=every, chunk=chunk_size, progress=progress, **how):
                    states = chunk.values["word"].float()  # (layers, words, width)
                    items = [(int(number), int(word)) for number, word in chunk.items["word"].tolist()]
                    asked = [
                        (item, position) for item, word in enumerate(items) for position in positions.get(word, ())
                    ]
                    if asked:
                        taken, put = (list(side) for side in zip(*asked, strict=True))
                        vectors[:, put] = states.cpu()[:, taken].numpy()
                    if len(every) > len(inside):
                        states = states[:, [number in inside for number, _ in items]]
                    if states.shape[1]:
                        yield states

            file = store.folder / f"{name}.spill"
            rounds = normalise == "iterative"
            with rereadable(read, file=file, free_bytes=free_bytes) if rounds else nullcontext(read) as again:
                spaces = streamed_normalisations(again, normalise)
            # Before the words get their name, so that whoever has the words has the space.
            store.write(f"means.{corpus.language}", torch.stack([space.means for space in spaces]))
            store.write(f"mean.{corpus.language}", torch.stack([space.mean for space in spaces]))
    means, mean = (store.read(f"{part}.{corpus.language}") for part in ("means", "mean"))
    return [Normalisation(normalise, subtracted, own) for subtracted, own in zip(means, mean, strict=True)]


# --- a task trained on one layer -------------------------------------------------------------------------------------

Conditions = Mapping[str, SpaceMapping | None]
States = tuple[Sequence[Prefix], Sequence[Prefix]]
"""States of one cut: of the source's sets, as the task's layers read them, and of the target's tests."""


@dataclass(frozen=True)
class StitchSetup:
    """What all trainings of the run have in common.

    source, target: the models. sets: with the source's tests before the target's. own: the source's sets as items of
    its model: training, development, tests. foreign: the target's tests as items of its model. settings: those of the
    first seed. batch: items of an update. checkpoint: updates between checkpoints. fresh_layers: layers between the cut
    and the head. dtype: what forward passes compute in, None for that of the weights.
    """

    source: Stack
    target: Stack
    sets: TaskSets
    own: Sequence[Items]
    foreign: Sequence[Items]
    settings: Settings
    batch: int
    checkpoint: int
    fresh_layers: int
    dtype: torch.dtype | None


def target_conditions(mapping: SpaceMapping, *, seed: int) -> dict[str, SpaceMapping | None]:
    """What is done to the target model's states in each condition, by its name; None: nothing."""
    width = mapping.weight.shape[1]
    means_alone = replace(mapping, weight=torch.eye(width, dtype=torch.float64))
    return {
        STITCHED: mapping,
        **({SHIFTED: means_alone} if mapping.restore == "recentred" else {}),
        UNMAPPED: means_alone if mapping.restore == "normalised" else None,
        RANDOM: replace(mapping, weight=random_rotation(width, seed=seed)),
    }


def random_rotation(width: int, *, seed: int) -> Tensor:
    """A rotation (it may reflect) drawn evenly from all of them: (width, width), float64.

    The Q of a Gaussian matrix, its columns given the signs of R's diagonal (Mezzadri 2007).

    >>> rotation = random_rotation(5, seed=0)
    >>> bool(torch.allclose(rotation @ rotation.T, torch.eye(5, dtype=torch.float64)))
    True
    """
    drawn = torch.randn(width, width, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    q, r = torch.linalg.qr(drawn)
    return q * torch.sign(torch.diagonal(r))


def _read_states(setup: StitchSetup, mapping: SpaceMapping, *, cut: int, folder: Path, progress: Progress) -> States:
    """States of one cut, computed once, in memory or else in files below `folder`."""
    # Layers that will be given normalised states have to be trained on normalised states.
    turn = mapping.target if mapping.restore == "normalised" else None

    def read(side: str, stack: Stack, sets: Sequence[Items]) -> list[Prefix]:
        files = [folder / f"cut-{cut}-{side}-{number}.states" for number in range(len(sets))]
        how: dict[str, Any] = {"dtype": setup.dtype, "progress": progress}
        return [read_prefix(stack, items, cut, file=file, **how) for items, file in zip(sets, files, strict=True)]

    own = [replace(prefix, turn=turn) for prefix in read("own", setup.source, setup.own)]
    return own, read("foreign", setup.target, setup.foreign)


def train_layer(
    setup: StitchSetup,
    states: States,
    *,
    cut: int,
    seed: int,
    folder: Path,
    conditions: Conditions,
    progress: Progress = silent,
) -> None:
    """Train fresh blocks and a head on the source's states at a cut, and score the best epoch's model.

    The source's dev set is answered after every epoch and chooses one, with whose weights all sets are scored, once,
    the target's in each condition. The scores are left in the folder.
    """
    sets, (own, foreign) = setup.sets, states
    fresh = seed_of(seed, "fresh blocks", cut)
    stack = with_fresh_blocks(setup.source, cut, count=setup.fresh_layers, seed=fresh)
    freeze(stack, cut)
    model = TaskModel(stack, sets.task, sets.labels, seed=seed, half=setup.settings.half)
    model.hold(cut)
    objective = task_objective(model, setup.own[0], batch=setup.batch, seed=seed, prefix=own[0])
    loop = Training(model, objective, replace(setup.settings, seed=seed), join(stack.device))
    dev, main = sets.dev[sets.source], sets.task.main

    def score() -> Iterator[Reading]:
        if loop.step > 0:  # a head that was not trained says nothing
            given = predict(model, dev.examples, setup.own[1], prefix=own[1], dtype=setup.dtype)
            yield {"measure": main, "value": sets.task.score(dev.examples, given, dev.language)[main].value}

    probe = Probe(steps_in_epoch(setup.own[0], setup.batch), score)
    checkpoints = Checkpoints(folder, lambda folder: None, setup.checkpoint)
    for _ in train(loop, checkpoints=checkpoints, probes=[probe], selection=select_by(main), progress=progress):
        pass  # losses and the scores of every epoch are not rows: a reader wants the chosen model's
    assert loop.best_weights is not None and loop.best_step is not None
    count = len(own) - 1  # of the source's sets that are scored
    scored, items, prefixes = sets.scored[:count], list(setup.own[1:]), list(own[1:])
    for mapping in conditions.values():
        scored += sets.scored[count:]
        items += setup.foreign
        prefixes += [replace(prefix, turn=mapping) for prefix in foreign]
    with wearing(model, loop.best_weights):
        scores = task_scores.score_sets(model, scored, items, prefixes=prefixes, dtype=setup.dtype)
    task_scores.save_scores(folder, loop.best_step, scores)
    finish(folder, keep_best=False)


def _condition_rows(
    setup: StitchSetup, folder: Path, conditions: Conditions, coordinates: Mapping[str, Any]
) -> list[Row]:
    """The rows of a finished training, of the epoch the source's dev set chose: scores of each condition.

    The scores on the source are those of one and the same model, so they stand once, beside `stitched`.
    """
    models = task_scores.scored_models(folder, setup.settings.optimisation.rate)
    sets, begin, count = setup.sets, len(setup.own) - 1, len(setup.foreign)
    rows: list[Row] = []
    for number, condition in enumerate(conditions):
        first = begin + number * count
        taken = [
            replace(model, scores=[*model.scores[:begin], *model.scores[first : first + count]]) for model in models
        ]
        for entry in task_scores.result_rows(taken, sets, {**coordinates, "condition": condition}):
            repeated = entry["target"] == sets.source and condition != STITCHED
            if entry["target"] != task_scores.OTHERS and entry["measure"] != "chosen_rate" and not repeated:
                rows.append(entry)
    return rows
