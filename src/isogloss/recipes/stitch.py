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
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.mappings.mapping import RESTORES, Mapping as SpaceMapping
from isogloss.mappings.methods import parse_mappings, underdetermined_note
from isogloss.mappings.normalise import NORMALISATIONS, Normalisation, streamed_normalisations
from isogloss.measures.word_alignment import one_to_one
from isogloss.progress import named
from isogloss.recipes import recipe as options, task_scores, training_options
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
from isogloss.tasks.frozen_prefix import Prefix, read_prefix
from isogloss.tasks.model import TaskModel, predict, task_objective
from isogloss.tasks.task import Items
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.vocabulary import links_of
from isogloss.text.words import words_of
from isogloss.training.checkpoints import Checkpoints, finish, finished, wearing
from isogloss.training.loop import FINE_TUNING, Optimisation, Settings, Training, join, steps_in_epoch, train
from isogloss.training.probes import Probe, Reading
from isogloss.training.stopping import select_by
from isogloss.vectors.extract import Pooling, stream
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
    aligner: options.Aligner = "ibm2",
    pooling: Annotated[Literal["first", "mean"], "a word's vector: its first subword, or the mean of all"] = "first",
    sample: Annotated[
        int, Option("most sentences of --bitext whose words are a language's space, drawn by seed", least=2)
    ] = 50_000,
    refine: Annotated[int, Option("rounds of refinement by mutual neighbours among the paired words", least=0)] = 0,
    seeds: training_options.Seeds = 1,
    epochs: training_options.Epochs = 10,
    batch: training_options.Batch = 32,
    rate: training_options.Rate = 5e-5,
    warm_up: training_options.WarmUp = 0.1,
    length: Annotated[
        int | None, Option("most tokens of an example; default the task's, or the model's if it is less", least=8)
    ] = None,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    checkpoint: training_options.CheckpointEvery = 1000,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    dtype: training_options.TrainDtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> Work:
    """Learn a task on one model's lower layers, and ask it of another model's through a rotation, layer by layer.

    Example: isogloss stitch ./english --other ./dutch --task ner --train en=train.tsv --dev en=dev.tsv
    --test en=en.tsv --test nl=nl.tsv --bitext en.txt --bitext nl.txt --languages en,nl
    """
    training_options.one_process("stitch")
    processor, (mapper, *more) = choose_device(device), parse_mappings(mapping, refine=refine, restore=denormalise)
    if more or not mapper.learns or mapper.normalise not in NORMALISATIONS:
        raise InputError(f"--mapping is one map that is fitted, such as procrustes+iterative, not {mapping!r}")
    half = training_options.half_precision(dtype, processor)
    sets = read_sets(find_task(task), train=train, dev=dev, test=test, skip_bad=skip_bad)
    others = list(dict.fromkeys(test.language for test in sets.tests if test.language != sets.source))
    one_target = f"--test must have sets of one language besides {sets.source}, the one that is stitched; it has"
    require(len(others) == 1, f"{one_target} {', '.join(others) or 'none'}")
    if len(sets.dev) > 1:
        raise InputError(f"--dev takes examples of {sets.source} only: the epoch is chosen without the target language")
    target = others[0]
    sets = replace(sets, tests=sorted(sets.tests, key=lambda test: test.language == target))  # the source's first
    texts = bitexts_of(bitext)
    missing = f"--bitext is missing: parallel text of {sets.source} and {target}"
    require(texts, f"{missing}, from whose words the map is learned")
    parallel = bitext_with(texts, (sets.source, target), "bitext")
    source = load(model, revision, dtype="float32", device=processor)
    second = source if other is None else load(other, dtype="float32", device=processor)
    for stack in (source, second):
        require(stack.family.kind == "encoder", f"{stack.name} is a {stack.family.kind}; stitch cuts encoders")
    widths = f"{source.name} is {source.width} wide and {second.name} {second.width}"
    apart = "layers of one cannot stand on layers of the other: take models of one width"
    require(source.width == second.width, f"{widths}; {apart}")
    cuts = shared_layers(source, second, layers)
    tokens = min(source.max_length, second.max_length, length or sets.task.length)
    base = {"model": options.model_name(model), "other_model": None if other is None else options.model_name(other)}
    base |= {"task": sets.task.name, "source": sets.source}

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        # The map leads from the target's space to the one the task is learned in.
        stacks, store = {target: second, sets.source: source}, VectorStore(run.scratch)
        drawn: dict[str, Any] = {"most": word_pairs, "max_uses": max_uses, "seed": seed}
        pairs = choose_word_pairs(parallel, (target, sets.source), aligner=aligner, **drawn)
        drawn_rows = random.Random(seed_of(seed, "space")).sample(range(parallel.rows), min(sample, parallel.rows))
        reading: dict[str, Any] = {"layers": cuts, "rows": sorted(drawn_rows), "pooling": pooling, "store": store}
        reading["normalise"] = mapper.normalise
        items = {language: list[Items]() for language in stacks}  # each set in the tokens of its language's model
        for task_set in sets.all:
            tokenizer = stacks[task_set.language].tokenizer
            items[task_set.language].append(tokenise_set(sets, task_set, tokenizer, length=tokens))
        for sentence in lost_notes(sets.all, [*items[sets.source], *items[target]]):
            run.note(sentence)
        epoch = steps_in_epoch(items[sets.source][0], batch)
        steps = epochs * epoch
        optimiser = Optimisation(rate, round(warm_up * steps), "linear", 0.0, 1.0, *FINE_TUNING)
        # A loss is no row here, and to read one the device has to be waited for.
        settings = Settings(steps, seed, optimiser, report=epoch, half=half)
        yield skipped_rows(sets, base)
        spaces = [
            read_words(stack, parallel[language], [(pair[0], pair[side]) for pair in pairs], **reading)
            for side, (language, stack) in enumerate(stacks.items(), 1)
        ]
        for number, (cut, *normalisations) in enumerate(zip(cuts, *spaces, strict=True), 1):
            x, y = (store.read(f"words.{language}", number - 1) for language in stacks)
            complete = torch.isfinite(x[:, 0]) & torch.isfinite(y[:, 0])  # a word may have been lost to cutting
            x, y = x[complete], y[complete]  # (pairs, width) each
            fitted = mapper.fit(x, y, spaces=(x, y), normalisations=normalisations)
            data = parallel.name or "-".join(parallel.languages)
            yield [row("learned_from", len(x), target=target, data=data, unit="word", seed=seed, **base, layer=cut)]
            if fitted.underdetermined:
                run.note(underdetermined_note(mapping, fitted.pairs, source.width, "the parallel text"))
            # Read once for all seeds, and only where something is left to train.
            states = cache(partial(_read_states, stacks, items, cut, fitted, half, run.scratch))
            results: list[Row] = []
            for each in range(seed, seed + seeds):
                conditions = target_conditions(fitted, seed=seed_of(each, "random rotation", cut))
                folder = run.folder / "checkpoints" / f"layer-{cut}-seed-{each}"
                if not finished(folder):
                    stage = f"training on layer {cut} ({number} of {len(cuts)}), seed {each}"
                    stack = with_fresh_blocks(source, cut, count=fresh_layers, seed=seed_of(each, "fresh blocks", cut))
                    own_settings, at = replace(settings, seed=each), {"batch": batch, "checkpoint": checkpoint}
                    train_layer(stack, sets, states(), conditions, own_settings, folder, stage=stage, **at)
                chosen = _condition_rows(folder, rate, sets, conditions, {**base, "layer": cut, "seed": each})
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
    bitext: Bitext, languages: tuple[str, str], *, most: int, max_uses: int, seed: int, aligner: str = "ibm2"
) -> list[WordPair]:
    """One-to-one links of words that differ, at most `most` of them, in the order of the text.

    Links come with the text or from the statistical aligner, never from the models that are mapped. Rows are visited in
    an order drawn from the seed. Words written alike and words without a letter are left out. max_uses: how often a
    word type may occur on either side, case ignored; without it, articles and commas would decide the map.
    """
    rows = range(bitext.rows)
    links, _ = links_of(bitext, languages, rows, aligner=aligner)
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
        how: dict[str, Any] = {"layers": layers, "units": ("word",), "pool": cast(Pooling, pooling)}

        with store.filling(name, (len(layers), len(words), stack.width)) as vectors:
            vectors[:] = torch.nan

            def read() -> Iterator[Tensor]:
                for chunk in stream(stack, corpus, rows=every, chunk=chunk_size, **how):
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

            with rereadable(read, store.folder) if normalise == "iterative" else nullcontext(read) as again:
                spaces = streamed_normalisations(again, normalise)
            # Before the words get their name, so that whoever has the words has the space.
            means = torch.stack([torch.cat([space.means, space.mean[None]]) for space in spaces])
            store.write(f"means.{corpus.language}", means)  # (layers, rounds + 1, width)
    return [Normalisation(normalise, means[:-1], means[-1]) for means in store.read(f"means.{corpus.language}")]


# --- a task trained on one layer -------------------------------------------------------------------------------------

Conditions = Mapping[str, SpaceMapping | None]
States = tuple[Sequence[Prefix], Sequence[Prefix]]
"""States of one cut: of the source's sets (training, development, tests) as the task's layers read them, and of the
target's tests."""


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


def _read_states(
    stacks: Mapping[str, Stack],
    items: Mapping[str, Sequence[Items]],
    cut: int,
    mapping: SpaceMapping,
    half: bool,
    folder: Path,
) -> States:
    """States of one cut, computed once, in memory or else in files below `folder`.

    stacks, items: the models and their sets, those of the target first.
    """
    dtype = torch.bfloat16 if half else None
    foreign, own = (
        [
            read_prefix(stack, part, cut, file=folder / f"cut-{cut}-{language}-{number}.states", dtype=dtype)
            for number, part in enumerate(items[language])
        ]
        for language, stack in stacks.items()
    )
    # Layers that will be given normalised states have to be trained on normalised states.
    turn = mapping.target if mapping.restore == "normalised" else None
    return [replace(prefix, turn=turn) for prefix in own], foreign


def train_layer(
    stack: Stack,
    sets: TaskSets,
    states: States,
    conditions: Conditions,
    settings: Settings,
    folder: Path,
    *,
    batch: int,
    checkpoint: int,
    stage: str = "training",
) -> None:
    """Train the blocks of a stack above a cut, and a head, on the source's states there; score the best epoch's model.

    The source's dev set is answered after every epoch and chooses one, with whose weights all sets are scored, once,
    the target's in each condition. The scores are left in the folder, in one for each condition. stage: what progress
    is told under.
    """
    (train_states, *own), foreign = states
    freeze(stack, train_states.cut)
    model = TaskModel(stack, sets.task, sets.labels, seed=settings.seed, half=settings.half)
    model.hold(train_states.cut)
    how: dict[str, Any] = {"batch": batch, "seed": settings.seed, "prefix": train_states}
    loop = Training(model, task_objective(model, train_states.items, **how), settings, join(stack.device))
    dev, main, dtype = sets.dev[sets.source], sets.task.main, torch.bfloat16 if settings.half else None

    def score() -> Iterator[Reading]:
        if loop.step > 0:  # a head that was not trained says nothing
            given = predict(model, dev.examples, own[0].items, prefix=own[0], dtype=dtype)
            yield {"measure": main, "value": sets.task.score(dev.examples, given, dev.language)[main].value}

    probe = Probe(steps_in_epoch(train_states.items, batch), score)
    checkpoints = Checkpoints(folder, lambda folder: None, checkpoint)
    epochs = train(loop, checkpoints=checkpoints, probes=[probe], selection=select_by(main))
    for _ in named(stage, epochs):
        pass  # losses and the scores of every epoch are not rows: a reader wants the chosen model's
    assert loop.best_weights is not None and loop.best_step is not None
    with wearing(model, loop.best_weights):
        items = [prefix.items for prefix in own]
        scores = task_scores.score_sets(model, sets.scored[: len(own)], items, prefixes=own, dtype=dtype)
        items = [prefix.items for prefix in foreign]
        for condition, mapping in conditions.items():
            turned = [replace(prefix, turn=mapping) for prefix in foreign]
            others = task_scores.score_sets(model, sets.scored[len(own) :], items, prefixes=turned, dtype=dtype)
            task_scores.save_scores(folder / condition, loop.best_step, [*scores, *others])
    finish(folder, keep_best=False)


def _condition_rows(
    folder: Path, rate: float, sets: TaskSets, conditions: Conditions, coordinates: Mapping[str, Any]
) -> list[Row]:
    """The rows of a finished training, of the epoch the source's dev set chose: scores of each condition.

    The scores on the source are those of one and the same model, so they stand once, beside `stitched`.
    """
    rows: list[Row] = []
    for condition in conditions:
        models = task_scores.scored_models(folder / condition, rate)
        for entry in task_scores.result_rows(models, sets, {**coordinates, "condition": condition}):
            repeated = entry["target"] == sets.source and condition != STITCHED
            if entry["target"] != task_scores.OTHERS and entry["measure"] != "chosen_rate" and not repeated:
                rows.append(entry)
    return rows
