"""`isogloss stitch`: train a task on one model's lower layers, and test it on another model's through a rotation.

The lower layers of the source model are frozen. New layers and a task head are trained on top of them, in the source
language. At test time, the hidden states come from the lower layers of the target model, through a rotation that was
fitted on pairs of words in context that translate each other (Conneau, Wu et al. 2020, 5.1.2). Each cut has a training
run of its own. The trained layers are given the target model's states at the same cut, in each of these conditions:

    stitched   mapped by the fitted matrix W, with means handled as --denormalise says
    shifted    the same with the identity as W, so that only means change (only with --denormalise recentred)
    unmapped   not mapped, but normalised if the trained layers were trained on normalised states: the control
    random     the same as stitched with a random rotation as W: the score that any rotation would give
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.mappings.mapping import RESTORES, Mapping as SpaceMapping
from isogloss.mappings.methods import MappingSpec, parse_mappings, underdetermined_note
from isogloss.mappings.normalise import NORMALISATIONS, Normalisation, streamed_normalisations
from isogloss.measures.word_alignment import one_to_one
from isogloss.progress import named
from isogloss.recipes import recipe as options, task_scores, training_options
from isogloss.recipes.layer_comparison import bitext_with, shared_layers
from isogloss.recipes.recipe import Option, Work, recipe
from isogloss.recipes.task_sets import TaskSets, lost_notes, read_sets, skipped_rows, tokenise_set
from isogloss.runs.run import Run
from isogloss.runs.table import OTHERS, Row, mean_rows, row
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
from isogloss.training.checkpoints import Checkpoints, finish, finished, replaced_weights
from isogloss.training.loop import FINE_TUNING, Optimisation, Settings, Training, join, steps_in_epoch, train
from isogloss.training.probes import Probe, Reading
from isogloss.training.stopping import select_by
from isogloss.vectors.extract import Pooling, Vectors, stream
from isogloss.vectors.store import VectorStore, rereadable

STITCHED, SHIFTED, UNMAPPED, RANDOM = "stitched", "shifted", "unmapped", "random"
CHUNK_BYTES = 300_000_000  # maximum size of the word vectors of one chunk
WORDS = 24  # assumed number of words in a sentence, to choose the number of sentences in a chunk

WordPair = tuple[int, int, int]
"""A row of a bitext, the index of a word on its first side, and the index of a word on its other side."""


@recipe
def stitch(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"task to train on: {', '.join(TASKS)}"],
    train: Annotated[options.LanguageFile, "training examples in the source language, LANG=FILE[,FILE]"],
    dev: Annotated[options.LanguageFiles, "development set in the source language, to select the epoch, LANG=FILE"],
    test: Annotated[
        options.LanguageFiles, "test examples in the source and target language, LANG=FILE[,FILE], once per test set"
    ],
    other: Annotated[str | None, "the model that reads the target language; default the same model"] = None,
    layers: options.Layers = None,
    fresh_layers: Annotated[int, Option("newly initialised layers between the cut and the head", least=1)] = 4,
    mapping: Annotated[
        str, "mapping to fit: procrustes, least-squares or ridge, alone or with +iterative, +centred or +length"
    ] = "procrustes+iterative",
    denormalise: Annotated[
        str, Option(f"how means are handled in mapped states: {', '.join(RESTORES)}", choices=RESTORES)
    ] = "recentred",
    word_pairs: Annotated[int, Option("word pairs to fit the mapping on, at most, drawn by seed", least=2)] = 50_000,
    max_uses: Annotated[int, Option("maximum number of pairs that a word type may be in", least=1)] = 20,
    aligner: options.Aligner = "ibm2",
    pooling: Annotated[Literal["first", "mean"], "word vector: first subword, or mean of all subwords"] = "first",
    sample: Annotated[
        int, Option("maximum number of sentences of --bitext for the means of a language, drawn by seed", least=2)
    ] = 50_000,
    refine: Annotated[int, Option("rounds of refinement by mutual nearest neighbours of paired words", least=0)] = 0,
    seeds: training_options.Seeds = 1,
    epochs: training_options.Epochs = 10,
    batch: training_options.Batch = 32,
    rate: training_options.Rate = 5e-5,
    warm_up: training_options.WarmUp = 0.1,
    length: Annotated[
        int | None, Option("maximum tokens of an example; default the task's, or the model's if it is less", least=8)
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
    """Train a task on one model's lower layers, and test it on another model's through a rotation, at every layer.

    Example: isogloss stitch ./english --other ./dutch --task ner --train en=train.tsv --dev en=dev.tsv
    --test en=en.tsv --test nl=nl.tsv --bitext en.txt --bitext nl.txt --languages en,nl
    """
    training_options.one_process("stitch")
    processor, (mapper, *more) = choose_device(device), parse_mappings(mapping, refine=refine, restore=denormalise)
    if more or not mapper.learns or mapper.normalise not in NORMALISATIONS:
        raise InputError(f"--mapping takes one mapping that is fitted, such as procrustes+iterative, not {mapping!r}")
    precision = training_options.autocast_dtype(dtype, processor)
    sets = read_sets(find_task(task), train=train, dev=dev, test=test, skip_bad=skip_bad)
    others = list(dict.fromkeys(test.language for test in sets.tests if test.language != sets.source))
    one_target = f"--test must have sets of exactly one target language besides {sets.source}, the source; it has"
    require(len(others) == 1, f"{one_target} {', '.join(others) or 'none'}")
    if len(sets.dev) > 1:
        raise InputError(f"--dev takes examples of {sets.source} only: the epoch is chosen without the target language")
    target = others[0]
    sets = replace(sets, tests=sorted(sets.tests, key=lambda test: test.language == target))  # the source's come first
    texts = bitexts_of(bitext)
    missing = f"--bitext is missing: give parallel text of {sets.source} and {target}"
    require(texts, f"{missing}, on whose words the mapping is fitted")
    parallel = bitext_with(texts, (sets.source, target), "bitext")
    source = load(model, revision, dtype="float32", device=processor)
    second = source if other is None else load(other, dtype="float32", device=processor)
    for stack in (source, second):
        require(stack.family.kind == "encoder", f"{stack.name} is of kind {stack.family.kind}; stitch takes encoders")
    widths = f"{source.name} is {source.width} wide and {second.name} {second.width}"
    advice = "layers of one cannot run on states of the other: choose models of equal width"
    require(source.width == second.width, f"{widths}; {advice}")
    base = {"model": options.model_name(model), "other_model": None if other is None else options.model_name(other)}
    base |= {"task": sets.task.name, "source": sets.source}
    cuts = shared_layers(source, second, layers)
    optimisation = Optimisation(rate, warm_up, "linear", 0.0, 1.0, *FINE_TUNING)
    sampled = random.Random(seed_of(seed, "space")).sample(range(parallel.rows), min(sample, parallel.rows))
    choose = partial(choose_word_pairs, parallel, (target, sets.source), most=word_pairs, max_uses=max_uses)
    stitching = Stitching(
        # The target comes first, since the mapping goes from its space to that of the source model.
        stacks={target: second, sets.source: source},
        sets=sets,
        cuts=cuts,
        length=min(source.max_length, second.max_length, length or sets.task.length),
        parallel=parallel,
        choose_pairs=partial(choose, seed=seed, aligner=aligner),
        read_words=partial(read_words, layers=cuts, rows=sorted(sampled), pooling=pooling, normalise=mapper.normalise),
        mapper=mapper,
        training=LayerTraining(fresh_layers, epochs, batch, optimisation, dtype=precision, checkpoint=checkpoint),
        seeds=range(seed, seed + seeds),
        base=base,
    )
    hashes: dict[str, Any] = {"model": source.fingerprint, "data": sets.hashes, "parallel text": parallel.fingerprint}
    hashes |= {} if other is None else {"other": second.fingerprint}
    return Work(str(base["model"]), partial(_rows_of_layers, stitching), hashes, sets.notes, source.last)


@dataclass(frozen=True)
class LayerTraining:
    """How new layers and the task head are trained on one layer."""

    fresh_layers: int  # newly initialised layers between the cut and the head
    epochs: int
    batch: int  # examples in a batch
    optimisation: Optimisation
    dtype: torch.dtype | None  # of autocast, None for float32
    checkpoint: int  # updates between checkpoints


@dataclass(frozen=True, kw_only=True)
class Stitching:
    """Two models, the text on which their layers are mapped, and the task that is trained on them."""

    stacks: Mapping[str, Stack]  # the model of the target language, then that of the source language
    sets: TaskSets
    cuts: Sequence[int]
    length: int  # maximum tokens of an example
    parallel: Bitext  # the text on whose words the mappings are fitted
    choose_pairs: Callable[[], list[WordPair]]  # `choose_word_pairs` of this text
    read_words: Callable[..., list[Normalisation]]  # `read_words` without the model, its text and words, and the store
    mapper: MappingSpec
    training: LayerTraining
    seeds: range  # of the training runs at each cut; the first is also that of the words
    base: Mapping[str, Any]  # coordinates that every row has


def _rows_of_layers(stitching: Stitching, run: Run) -> Iterator[Sequence[Row]]:
    """Fit the mapping of every layer, and train and test the task there; the rows are numbers of words, and scores."""
    stacks, sets, parallel, mapper = stitching.stacks, stitching.sets, stitching.parallel, stitching.mapper
    target, store, pairs = next(iter(stacks)), VectorStore(run.scratch), stitching.choose_pairs()
    items = {language: list[Items]() for language in stacks}  # each set tokenised for the model of its language
    for task_set in sets.all:
        tokenizer = stacks[task_set.language].tokenizer
        items[task_set.language].append(tokenise_set(sets, task_set, tokenizer, length=stitching.length))
    for sentence in lost_notes(sets.all, [*items[sets.source], *items[target]]):
        run.note(sentence)
    yield skipped_rows(sets, stitching.base)
    spaces = [
        stitching.read_words(stack, parallel[language], [(pair[0], pair[side]) for pair in pairs], store=store)
        for side, (language, stack) in enumerate(stacks.items(), 1)
    ]
    for number, (cut, *normalisations) in enumerate(zip(stitching.cuts, *spaces, strict=True)):
        x, y = (store.read(f"words.{language}", number) for language in stacks)
        complete = torch.isfinite(x[:, 0]) & torch.isfinite(y[:, 0])  # vectors of truncated words are NaN
        x, y = x[complete], y[complete]  # (pairs, width) each
        fitted = mapper.fit(x, y, spaces=(x, y), normalisations=normalisations)
        learned = {"data": parallel.name or "-".join(parallel.languages), "seed": stitching.seeds[0], "layer": cut}
        yield [row("learned_from", len(x), target=target, unit="word", **stitching.base, **learned)]
        if fitted.underdetermined:
            run.note(underdetermined_note(mapper.name, fitted.pairs, x.shape[1], "the parallel text"))
        yield from _rows_of_layer(stitching, cut, items, mapping=fitted, run=run)


def _rows_of_layer(
    stitching: Stitching, cut: int, items: Mapping[str, Sequence[Items]], *, mapping: SpaceMapping, run: Run
) -> Iterator[Sequence[Row]]:
    """The scores at one cut: the task is trained with each seed, unless an earlier run has done that.

    items: the tokenised sets of each language. mapping: the one fitted at this cut.
    """
    stacks, sets, training = stitching.stacks, stitching.sets, stitching.training
    read = partial(_read_states, stacks, items, cut, mapping=mapping, dtype=training.dtype, folder=run.scratch)
    states = cache(read)  # computed once for all seeds, and only if a training run is not finished yet
    results: list[Row] = []
    for seed in stitching.seeds:
        conditions = target_conditions(mapping, seed=seed_of(seed, "random rotation", cut))
        folder = run.folder / "checkpoints" / f"layer-{cut}-seed-{seed}"
        if not finished(folder):
            train_layer(stitching, states(), conditions=conditions, seed=seed, folder=folder)
        where = {**stitching.base, "layer": cut, "seed": seed}
        scores = _condition_rows(folder, training.optimisation.rate, sets, conditions=conditions, coordinates=where)
        results += scores
        yield scores
    yield mean_rows(results)
    for file in run.scratch.glob(f"cut-{cut}-*.states"):
        file.unlink()


# --- pairs of words in context that translate each other -------------------------------------------------------------


def choose_word_pairs(
    bitext: Bitext, languages: tuple[str, str], *, most: int, max_uses: int, seed: int, aligner: str = "ibm2"
) -> list[WordPair]:
    """Choose at most `most` pairs of words that are linked one-to-one, and return them in the order of the text.

    Links come with the text or from the statistical aligner, never from the models that are mapped. Rows are visited in
    an order drawn from the seed. Pairs of equally spelled words and words without a letter are left out. max_uses:
    maximum number of pairs with one word type on a side, ignoring case; without it, articles would dominate the map.
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
                        f"{bitext.name or 'the parallel text'}, sentence {number + 1}: a link refers to word {index}, "
                        f"counted from 0, of a sentence of {len(words)} words; the links belong to another text or "
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
            f"{bitext.name or 'the parallel text'} has no word pairs to fit a mapping on: no one-to-one link joins a "
            f"word of {languages[0]} to a differently spelled word of {languages[1]}; give more text, or its --links"
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
    """Read a text once: store the vectors of some words, and compute the normalisation from all words of some rows.

    The mapping is fitted on pairs of words, but the means that are subtracted on each side are those of all words of
    the language (Zhang et al. 2019). If they were those of the pairs, a word that is frequent in the pairs would shift
    all vectors. All rounds of `iterative` use the vectors of one reading.

    Args:
        stack: The model.
        corpus: The text of one language.
        words: (row, index of the word) in the corpus. Their vectors are stored as `words.LANGUAGE`, (layers, words,
            width), NaN for a word in the truncated part of a long sentence. Nothing is read if they are stored already.
        layers: The cuts.
        rows: The sentences from whose words the normalisation is computed.
        pooling: How the vectors of a word's subwords are combined, first or mean.
        normalise: The kind of normalisation.
        store: Where the vectors and means are stored.

    Returns:
        The normalisation at each layer, computed from all words of `rows`.
    """
    name = f"words.{corpus.language}"
    if name not in store:
        space_rows = set(rows)
        all_rows = sorted(space_rows.union(number for number, _ in words))
        positions: dict[tuple[int, int], list[int]] = {}
        for position, word in enumerate(words):
            positions.setdefault(word, []).append(position)
        chunk_size = max(16, min(512, CHUNK_BYTES // (WORDS * len(layers) * stack.width * 4)))
        chunks = partial(stream, stack, corpus, rows=all_rows, layers=layers, chunk=chunk_size)
        words_of_chunks = partial(chunks, units=("word",), pool=cast(Pooling, pooling))
        with store.filling(name, (len(layers), len(words), stack.width)) as vectors:
            vectors[:] = torch.nan
            read = partial(_word_states, words_of_chunks, positions, rows=space_rows, vectors=vectors)
            with rereadable(read, store.folder) if normalise == "iterative" else nullcontext(read) as again:
                spaces = streamed_normalisations(again, normalise)
            # Written before the block ends and the words get their file name: if that file exists, so do the means.
            means = torch.stack([torch.cat([space.means, space.mean[None]]) for space in spaces])
            store.write(f"means.{corpus.language}", means)  # (layers, rounds + 1, width)
    return [Normalisation(normalise, means[:-1], means[-1]) for means in store.read(f"means.{corpus.language}")]


def _word_states(
    chunks: Callable[[], Iterator[Vectors]],
    positions: Mapping[tuple[int, int], Sequence[int]],
    *,
    rows: Set[int],
    vectors: NDArray[Any],
) -> Iterator[Tensor]:
    """Yield the states of all words of these rows, (layers, words, width), chunk by chunk.

    Those of the words in `positions`, (row, index of the word), are written to these positions of `vectors`.
    """
    for chunk in chunks():
        states = chunk.values["word"].float()  # (layers, words, width)
        items = [(int(number), int(word)) for number, word in chunk.items["word"].tolist()]
        found = [(item, position) for item, word in enumerate(items) for position in positions.get(word, ())]
        if found:
            columns, places = (list(side) for side in zip(*found, strict=True))
            vectors[:, places] = states.cpu()[:, columns].numpy()
        inside = [number in rows for number, _ in items]
        if not all(inside):
            states = states[:, inside]
        if states.shape[1]:
            yield states


# --- a task trained on one layer -------------------------------------------------------------------------------------

Conditions = Mapping[str, SpaceMapping | None]
States = tuple[Sequence[Prefix], Sequence[Prefix]]
"""States at one cut: of the source's training, development and test sets, and of the target's test sets."""


def target_conditions(mapping: SpaceMapping, *, seed: int) -> dict[str, SpaceMapping | None]:
    """The mapping of the target model's states in each condition, by the condition's name; None: no mapping."""
    width = mapping.weight.shape[1]
    identity = replace(mapping, weight=torch.eye(width, dtype=torch.float64))
    return {
        STITCHED: mapping,
        **({SHIFTED: identity} if mapping.restore == "recentred" else {}),
        UNMAPPED: identity if mapping.restore == "normalised" else None,
        RANDOM: replace(mapping, weight=random_rotation(width, seed=seed)),
    }


def random_rotation(width: int, *, seed: int) -> Tensor:
    """Draw a rotation (it may reflect) uniformly at random: (width, width), float64.

    It is Q of a Gaussian matrix's QR decomposition, with columns times the signs of R's diagonal (Mezzadri 2007).

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
    *,
    mapping: SpaceMapping,
    dtype: torch.dtype | None,
    folder: Path,
) -> States:
    """Compute the states of all sets at one cut, and keep them in memory, or in files in `folder` if they do not fit.

    stacks, items: the model and the tokenised sets of each language, the target first.
    """
    target_states, source_states = (
        [
            read_prefix(stack, part, cut, file=folder / f"cut-{cut}-{language}-{number}.states", dtype=dtype)
            for number, part in enumerate(items[language])
        ]
        for language, stack in stacks.items()
    )
    # If the layers are given normalised states at test time, they have to be trained on normalised states, too.
    normalisation = mapping.target if mapping.restore == "normalised" else None
    return [replace(prefix, turn=normalisation) for prefix in source_states], target_states


def train_layer(stitching: Stitching, states: States, *, conditions: Conditions, seed: int, folder: Path) -> None:
    """Train new blocks above a cut, and a head, on the source's states; save the scores of the best epoch's model.

    The source's development set is scored after every epoch and selects the best one. With that epoch's weights, all
    development and test sets are scored, the target's once in each condition. The scores of each condition are saved in
    a subfolder of the folder.
    """
    (train_states, *source_states), target_states = states
    sets, training, cut = stitching.sets, stitching.training, train_states.cut
    source, blocks_seed = stitching.stacks[sets.source], seed_of(seed, "fresh blocks", cut)
    stack = with_fresh_blocks(source, cut, count=training.fresh_layers, seed=blocks_seed)
    stack = replace(stack, pack=training.dtype is not None if stack.device.type == "cuda" else None)
    freeze(stack, cut)
    model = TaskModel(stack, sets.task, sets.labels, seed=seed)
    model.hold(cut)
    epoch = steps_in_epoch(train_states.items, training.batch)
    steps = training.epochs * epoch
    # Losses are not written as rows; they are read only once per epoch, since reading one waits for the device.
    settings = Settings(steps, seed, training.optimisation, report=epoch, dtype=training.dtype)
    objective = task_objective(model, train_states.items, batch=training.batch, seed=seed, prefix=train_states)
    loop = Training(model, objective, settings, join(stack.device))
    probe = Probe(epoch, partial(_dev_score, loop, model, sets, source_states[0]))
    checkpoints = Checkpoints(folder, lambda folder: None, training.checkpoint)
    epochs = train(loop, checkpoints=checkpoints, probes=[probe], selection=select_by(sets.task.main))
    number = stitching.cuts.index(cut) + 1
    for _ in named(f"training on layer {cut} ({number} of {len(stitching.cuts)}), seed {seed}", epochs):
        pass  # losses and scores of single epochs are not written as rows, only those of the selected model
    assert loop.best_weights is not None and loop.best_step is not None
    with replaced_weights(model, loop.best_weights):
        count, items = len(source_states), [prefix.items for prefix in source_states]
        score = partial(task_scores.score_sets, model, dtype=training.dtype)
        scores = score(sets.scored[:count], items, prefixes=source_states)
        items = [prefix.items for prefix in target_states]
        for condition, mapping in conditions.items():
            mapped = [replace(prefix, turn=mapping) for prefix in target_states]
            target_scores = score(sets.scored[count:], items, prefixes=mapped)
            task_scores.save_scores(folder / condition, loop.best_step, [*scores, *target_scores])
    finish(folder, keep_best=False)


def _dev_score(loop: Training, model: TaskModel, sets: TaskSets, states: Prefix) -> Iterator[Reading]:
    """The main score on the source's development set, of which these are the states."""
    if loop.step > 0:  # the scores of an untrained head are meaningless
        dev, main = sets.dev[sets.source], sets.task.main
        answers = predict(model, dev.examples, states.items, prefix=states, dtype=loop.settings.dtype)
        yield {"measure": main, "value": sets.task.score(dev.examples, answers, dev.language)[main].value}


def _condition_rows(
    folder: Path, rate: float, sets: TaskSets, *, conditions: Conditions, coordinates: Mapping[str, Any]
) -> list[Row]:
    """The rows of a finished training run: the scores of the selected epoch's model in each condition.

    Scores on the source's sets are the same in every condition, so there are rows of them for `stitched` only.
    """
    rows: list[Row] = []
    for condition in conditions:
        models = task_scores.scored_models(folder / condition, rate)
        for entry in task_scores.result_rows(models, sets, {**coordinates, "condition": condition}):
            repeated = entry["target"] == sets.source and condition != STITCHED
            if entry["target"] != OTHERS and entry["measure"] != "chosen_rate" and not repeated:
                rows.append(entry)
    return rows
