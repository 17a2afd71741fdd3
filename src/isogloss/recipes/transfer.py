"""`isogloss transfer`: fine-tune a model on a task in one language, and test it in this and in other languages.

A model with a task head is trained on examples of the source language, and scored on other examples of the source and
of target languages. A plan freezes or reinitialises layers, to find those that transfer depends on: `freeze:n` for
every n is the experiment of Jexus (2020), `reinit:a-b` the RANDOM-INIT of Muller et al. (2021). Every plan is run with
every seed and learning rate; the epoch and the rate are selected on the source's development set. Translations of the
training examples may be added to them, and code-switching mixes languages within an example (Pan et al. 2021).
"""

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from isogloss.errors import InputError, require
from isogloss.files import write_text
from isogloss.measures.cka import cka_of_pairs, cka_rbf_of_pairs
from isogloss.measures.statistics import Interval
from isogloss.progress import listening, named, progress, silent
from isogloss.recipes import recipe, task_sets, training_options
from isogloss.recipes.recipe import OPTIMISER, LanguageFile, LanguageFiles, Option, hidden
from isogloss.recipes.task_scores import ScoredModel, result_rows, score_probe, score_sets, scored_models
from isogloss.recipes.task_sets import TaskSets
from isogloss.runs.run import Run
from isogloss.runs.table import START, UNTUNED, Row, mean_rows, row, settings_text, training_folder, training_name
from isogloss.seeds import seed_of
from isogloss.stack.edit import merged
from isogloss.stack.load import choose_device, load, quietly
from isogloss.stack.stack import Stack
from isogloss.tasks import TASKS, find_task
from isogloss.tasks.frozen_prefix import FrozenStates
from isogloss.tasks.model import TaskModel, task_objective
from isogloss.text.batches import Batch as TokenBatch, encode
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.switching import Switching
from isogloss.training.checkpoints import Checkpoints, finish, finished
from isogloss.training.loop import FINE_TUNING, Optimisation, Settings, Training, join, steps_in_epoch
from isogloss.training.mixed_precision import arithmetic
from isogloss.training.plans import Plan, apply_plan, frozen_at
from isogloss.training.stopping import select_by
from isogloss.vectors.extract import stream

BATCHES = 4  # number of batches of sentences over which Gaussian CKA is averaged


@recipe.recipe
def transfer(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"task to train on: {', '.join(TASKS)}"],
    train: Annotated[LanguageFile, "training examples in the source language, LANG=FILE[,FILE]"],
    dev: Annotated[
        LanguageFiles, "development set of the source, LANG=FILE; further ones, of target languages, are for the oracle"
    ],
    test: Annotated[LanguageFiles, "test sets, LANG=FILE[,FILE], once per set; the source language needs one, too"],
    translated: Annotated[
        LanguageFiles | None, "row by row translations of --train, also trained on, LANG=FILE[,FILE], once per language"
    ] = None,
    switch: Annotated[
        float,
        "probability that a segment (premise, hypothesis, question) is replaced by a translation (the value in the "
        "paper is not known; reproduce pan2021 uses 0.5)",
    ] = 0.0,
    switch_to: Annotated[
        Literal["source", "any"], "language of the replacement: source, as in Pan et al., or any (drawn at random)"
    ] = "source",
    lexicon: Annotated[
        LanguageFiles | None, "dictionary from the source language into LANG, LANG=FILE, once per language"
    ] = None,
    switch_words: Annotated[float, "probability that a word found in a --lexicon is replaced by its translation"] = 0.0,
    target_models: Annotated[
        LanguageFiles | None, "LANG=FOLDER: model whose tokenizer and frozen layers are used to test this language"
    ] = None,
    plans: Annotated[str, "layers to freeze or reinitialise: freeze:8, reinit:1-2, ..., comma-separated"] = "freeze:-1",
    seeds: training_options.Seeds = 1,
    epochs: training_options.Epochs = 3,
    batch: training_options.Batch = 32,
    rate: Annotated[
        str | float, Option("peak learning rate, or several, comma-separated, to select one on the dev set", OPTIMISER)
    ] = 5e-5,
    warm_up: training_options.WarmUp = 0.1,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.0,
    clip: training_options.Clip = 1.0,
    length: Annotated[
        int | None, Option("maximum tokens of an example; default the task's, or the model's if it is less", least=8)
    ] = None,
    probe: Annotated[recipe.PositiveInt | None, "updates between evaluations; default one epoch"] = None,
    frozen_dropout: Annotated[bool, "keep dropout in frozen layers; training text then has no cached states"] = False,
    cache: Annotated[bool, "compute the hidden states of frozen layers once and cache them"] = True,
    save_models: Annotated[bool, "save the best model of each training run"] = False,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    checkpoint: training_options.CheckpointEvery = 1000,
    revision: recipe.Revision = None,
    seed: recipe.Seed = 0,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    cka_condition: Annotated[str, hidden("compute Gaussian CKA a second time, in rows of this condition")] = "",
    cka_shifted: Annotated[bool, hidden("with --cka-condition: windows shifted by one sentence as batches")] = False,
    cka_batch: Annotated[int | None, hidden("with --cka-condition: sentences per batch; default a quarter")] = None,
    cka_specials: Annotated[bool, hidden("with --cka-condition: write special tokens into sentences")] = False,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Train a task in one language and test it in others: scores, and their gap to the score in the source language.

    Example: isogloss transfer mini --task nli --train en=mnli.tsv --dev en=dev.tsv --test en=en.tsv --test nl=nl.tsv
    """
    training_options.one_process("transfer")
    processor, chosen_plans, rates = choose_device(device), training_options.plan_list(plans), rate_list(rate)
    precision = training_options.autocast_dtype(dtype, processor)
    sets = task_sets.read_sets(find_task(task), train=train, dev=dev, test=test, skip_bad=skip_bad)
    if translated:
        sets = task_sets.add_translations(sets, translated, skip_bad=skip_bad)
    switching = Switching()
    if switch or switch_words or lexicon:
        switching = task_sets.read_switching(sets, share=switch, to=switch_to, words=switch_words, lexicon=lexicon)
    packs = precision is not None if processor.type == "cuda" else None  # a GPU packs bfloat16 only
    stack = replace(load(model, revision, dtype="float32", device=processor), pack=packs)
    unsupported = f"{model} is an encoder-decoder; transfer trains encoders and decoders"
    require(stack.family.kind != "encoder-decoder", unsupported)
    no_context = f"{model} is a decoder, whose first token attends to no other, and --task {task} needs its state"
    require(not (stack.causal and sets.task.first_token), f"{no_context}; choose an encoder")
    for plan in chosen_plans:
        frozen_at(plan, 0, depth=stack.last, epoch=1)  # raises if the model lacks a layer of the plan
    one_model = "--bitext compares languages in one model, but --target-models gives a language its own; leave one out"
    require(not bitext or not target_models, one_model)
    own_models = _read_target_models(target_models, sets, stack, plans=chosen_plans) if target_models else {}
    comparison, notes = None, list(stack.notes)
    if bitext:
        text = compared_text(bitext, size=cka_batch or 0, shifted=cka_shifted)
        encoding = encode_written_specials if cka_specials else encode
        gaussian_cka = partial(cka_rbf_of_pairs, batches=BATCHES)
        second = {cka_condition: (encoding, partial(gaussian_cka, shifted=cka_shifted, size=cka_batch))}
        comparison = LanguageComparison(text, {"": (encode, gaussian_cka), **(second if cka_condition else {})})
        no_source = f"the parallel text has no {sets.source}, so no language is compared with the source language"
        notes += [no_source] if sets.source not in text.languages else []
    shared = Transfer(
        base={"model": recipe.model_name(model), "task": sets.task.name, "source": sets.source},
        stack=stack,
        own_models=own_models,
        sets=sets,
        switching=switching,
        length=min(stack.max_length, length or sets.task.length),
        comparison=comparison,
        plans=chosen_plans,
        seeds=range(seed, seed + seeds),
        optimisations=[Optimisation(each, warm_up, decay, weight_decay, clip, *FINE_TUNING) for each in rates],
        dtype=precision,
        epochs=epochs,
        batch=batch,
        probe=probe,
        frozen_dropout=frozen_dropout,
        cache=cache,
        save_models=save_models,
        checkpoint=checkpoint,
    )
    hashes = {
        "model": stack.fingerprint,
        "data": sets.hashes,
        "own": {language: own.fingerprint for language, own in own_models.items()},
        "dictionaries": {f"{part.target} {part.name}": part.fingerprint for part in switching.lexicons},
        "parallel text": "" if comparison is None else comparison.text.fingerprint,
    }
    given = {name: digest for name, digest in hashes.items() if digest}
    return recipe.Work(recipe.model_name(model), partial(_rows_of_run, shared), given, notes, stack.last)


def rate_list(given: str | float) -> list[float]:
    """The learning rates of --rate, separated by commas; a repeated rate is refused."""
    rates: list[float] = []
    with suppress(ValueError):
        rates = [float(part) for part in str(given).split(",")]
    if not rates or not all(0 < rate < inf for rate in rates) or len(set(rates)) < len(rates):
        raise InputError(f"--rate takes different numbers above 0, separated by commas, as in 2e-5,5e-5, not {given!r}")
    return rates


def _read_target_models(given: Any, sets: TaskSets, stack: Stack, *, plans: Sequence[Plan]) -> dict[str, Stack]:
    """Load the models of target languages, `LANG=FOLDER` or folders by language, which must fit that of the source.

    A model that was pretrained with `--separate`, or with a vocabulary for each language, has one folder per language.
    That of the source, `stack`, is trained. A target is tested with its own tokenizer and, of the layers that the plan
    freezes, its own embeddings and blocks; above them are the trained ones (Conneau, Wu et al. 2020, Table 1).
    """
    own_models: dict[str, Stack] = {}
    for language, folders in recipe.language_entries(given, "target-models"):
        option, trained = f"--target-models {language}", [task_set.language for task_set in sets.trained]
        tested = language in {test.language for test in sets.tests} - set(trained)
        require(tested, f"{option}: give a language of --test other than those trained on, {', '.join(trained)}")
        single = language not in own_models and len(folders) == 1
        require(single, f"{option}: give one model folder for this language, {language}=FOLDER")
        own = load(folders[0], dtype="float32", device=stack.device)
        if (own.family.kind, own.last, own.width) != (stack.family.kind, stack.last, stack.width):
            raise InputError(
                f"{option}: {own.name} is {own.width} wide with {own.last} layers and {stack.name} {stack.width} "
                f"wide with {stack.last}; give models of one kind, width and depth, whose layers can be combined"
            )
        own_models[language] = replace(own, pack=stack.pack)
    # Layers of the target's model must stay as they were pretrained, and trained embeddings must fit its token ids.
    for plan in plans:
        frozen = frozen_at(plan, 0, depth=stack.last, epoch=1)
        if plan.unfreeze is not None or any(block <= frozen for block in plan.reinit):
            raise InputError(
                f"the plan {plan} changes frozen layers, which --target-models takes from the target's model; use a "
                "plan such as freeze:N"
            )
        for language, own in own_models.items() if frozen < 0 else ():
            size, source_size = (len(either.model.get_input_embeddings().weight) for either in (own, stack))
            if size != source_size:
                raise InputError(
                    f"--target-models {language} has {size:,} token embeddings and {stack.name} {source_size:,}; "
                    f"different embeddings must be frozen, as with --plans freeze:0, not {plan}"
                )
    return own_models


def compared_text(given: Sequence[Bitext | Corpus], *, size: int, shifted: bool) -> Bitext:
    """The text of --bitext, which must be a single one with enough sentences for batches of this size."""
    text, *more = bitexts_of(given)
    require(not more, f"--bitext holds {1 + len(more)} parallel texts; give one, on which languages are compared")
    text = text.keep(text.distinct_rows)
    fewest = max(4 * BATCHES, size + BATCHES - 1 if shifted else BATCHES * size)
    name, rows = text.name or "the parallel text", text.rows
    require(rows >= fewest, f"{name} has {rows} sentences; comparing languages needs at least {fewest} different ones")
    return text


@dataclass(frozen=True)
class LanguageComparison:
    """How languages are compared on a parallel text, before and after training.

    readings: by the condition of rows, the function that encodes text, and the one that computes Gaussian CKA. start:
    `sentence_states` of the model before training; None until they are computed.
    """

    text: Bitext
    readings: Mapping[str, tuple[Callable[..., TokenBatch], Callable[..., list[Interval]]]]
    start: Mapping[str, Tensor] | None = None


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """The model, the examples and the parallel text of a run, and what all its trainings share."""

    base: Row  # coordinates that every row has
    stack: Stack  # the model before training, of which every training changes a copy
    own_models: Mapping[str, Stack]  # by language, models of target languages that have one of their own
    sets: TaskSets  # the examples
    switching: Switching  # how those for training are code-switched
    length: int  # maximum tokens of an example
    comparison: LanguageComparison | None  # None without parallel text
    plans: Sequence[Plan]  # each is run with every seed and every optimisation
    seeds: Sequence[int]
    optimisations: Sequence[Optimisation]  # one for each peak learning rate
    dtype: torch.dtype | None  # of autocast, None to compute in that of the weights
    epochs: int  # passes over the training examples
    batch: int  # examples in a batch
    probe: int | None  # updates between evaluations, None for one epoch
    frozen_dropout: bool  # whether frozen layers keep their dropout
    cache: bool  # whether states of frozen layers are computed once and kept
    save_models: bool  # whether the best model of each training is saved
    checkpoint: int  # updates between checkpoints


def _rows_of_run(transfer: Transfer, run: Run) -> Iterator[Sequence[Row]]:
    """Rows of the model before training, then of each plan: its trainings, the selected models, means over seeds."""
    sets, stack, switching = transfer.sets, transfer.stack, transfer.switching
    tokenizers = [transfer.own_models.get(task_set.language, stack).tokenizer for task_set in sets.all]
    items, notes = task_sets.tokenise_sets(sets, tokenizers, switching, length=transfer.length, causal=stack.causal)
    for note in notes:
        run.note(note)
    own = [None, *(transfer.own_models.get(task_set.language) for task_set in sets.scored)]
    constant = not transfer.frozen_dropout and not switching  # the training text has the same states in every epoch
    frozen = FrozenStates(items, own, run.scratch, cache=transfer.cache, training=constant, dtype=transfer.dtype)
    if transfer.comparison is not None:
        start = sentence_states(stack, transfer.comparison, dtype=transfer.dtype)
        yield compare_languages(start, transfer.comparison, {**transfer.base, "plan": UNTUNED})
        transfer = replace(transfer, comparison=replace(transfer.comparison, start=start))
    yield task_sets.skipped_rows(sets, transfer.base)
    epoch = steps_in_epoch(items[0], transfer.batch)
    steps, evaluations = transfer.epochs * epoch, ceil(transfer.epochs * epoch / (transfer.probe or epoch))
    numbers, total = itertools.count(1), len(transfer.plans) * len(transfer.seeds) * len(transfer.optimisations)
    for plan in transfer.plans:
        results: list[Row] = []
        for seed in transfer.seeds:
            models: list[ScoredModel] = []
            about = {**transfer.base, "plan": str(plan), "condition": switching.condition, "seed": seed}
            for optimisation in transfer.optimisations:
                rate = {"rate": optimisation.rate} if len(transfer.optimisations) > 1 else {}
                coordinates = {**about, "settings": settings_text(rate)}
                settings = Settings(steps, seed, optimisation, max(1, steps // 50), dtype=transfer.dtype)
                folder = run.folder / "checkpoints" / training_folder(coordinates)
                stage = f"training {training_name(coordinates)}, seed {seed} ({next(numbers)} of {total})"
                rows = _rows_of_training(transfer, plan, coordinates, settings=settings, frozen=frozen, folder=folder)
                yield from named(stage, rows)
                models += scored_models(folder, optimisation.rate, number=evaluations)
            selected = result_rows(models, sets, about)
            results += selected
            yield selected
        yield mean_rows(results)


def _rows_of_training(
    transfer: Transfer, plan: Plan, coordinates: Row, *, settings: Settings, frozen: FrozenStates, folder: Path
) -> Iterator[Sequence[Row]]:
    """The rows of one training, from its start or its last checkpoint; none if it is finished.

    coordinates: columns that all its rows share. folder: for checkpoints, the counts of every score and, with
    --save-models, the best model.
    """
    if finished(folder):
        return
    sets, stack, (train_items, *scored_items), seed = transfer.sets, transfer.stack, frozen.items, settings.seed
    epoch = steps_in_epoch(train_items, transfer.batch)
    copied = replace(stack, model=copy.deepcopy(stack.model))
    tuned = TaskModel(copied, sets.task, sets.labels, seed=seed, dropout=transfer.frozen_dropout)
    before_update = apply_plan(tuned.stack, plan, epoch=epoch, seed=seed, hold=tuned.hold)
    prefix, *prefixes = frozen.below(tuned.eval_stack, plan, step=settings.steps - 1, epoch=epoch, seed=seed)
    changing = None
    if transfer.switching:  # the items differ between epochs
        switched = partial(task_sets.switched_items, sets, train_items, transfer.switching, seed)
        changing = partial(switched, tokenizer=stack.tokenizer, length=transfer.length, causal=stack.causal)
    objective = task_objective(tuned, train_items, batch=transfer.batch, seed=seed, prefix=prefix, changing=changing)
    training = Training(tuned, objective, settings, join(tuned.stack.device))
    score = partial(score_sets, tuned, sets.scored, scored_items, prefixes=prefixes, dtype=transfer.dtype)
    export = partial(save_task_model, tuned) if transfer.save_models else lambda _: None
    dev_score = select_by(sets.task.main, target=sets.source, data=sets.dev[sets.source].name)
    yield from training_options.training_rows(
        training,
        coordinates,
        loss={"data": "train", "unit": "answer"},
        checkpoints=Checkpoints(folder, export, transfer.checkpoint),
        probes=[score_probe(training, sets, score, folder=folder, every=transfer.probe or epoch)],
        plan=before_update,
        selection=dev_score if transfer.save_models else None,
    )
    if transfer.comparison is not None:
        with listening(silent):
            now = sentence_states(tuned.eval_stack, transfer.comparison, dtype=transfer.dtype)
        yield compare_languages(now, transfer.comparison, coordinates)
    finish(folder)


def save_task_model(model: TaskModel, folder: Path) -> None:
    """Save the model in `from_pretrained` format, and in the same folder its head, its task and the task's labels."""
    with quietly():
        merged(model.stack.model).save_pretrained(folder)
    model.stack.tokenizer.save_pretrained(folder)
    head = {name: weight.detach().cpu().contiguous() for name, weight in model.head.state_dict().items()}
    save_file(head, folder / "head.safetensors")
    facts = {"task": model.task.name, "labels": model.labels}
    write_text(folder / "task.json", json.dumps(facts, indent=2) + "\n")


# --- comparison of languages before and after training (Muller et al. 2021) ------------------------------------------


def sentence_states(stack: Stack, comparison: LanguageComparison, *, dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Sentence vectors by condition: (layers, languages, sentences, width), float32, on the stack's device.

    The sentences are in a seeded random order. dtype: of autocast, None to compute in that of the weights.
    """
    text, vectors = comparison.text, dict[Any, Tensor]()
    order = np.random.default_rng(seed_of(0, "parallel text")).permutation(text.rows).tolist()
    for encoding in dict.fromkeys(encoding for encoding, _ in comparison.readings.values()):
        sides = []
        for corpus in text:
            with arithmetic(stack.device, dtype), listening(silent):
                chunks = stream(stack, corpus, rows=order, encoding=encoding)
                sides.append(torch.cat([chunk.values["sentence"] for chunk in chunks], dim=1))
            progress("comparing languages", len(sides), len(text.languages))
        vectors[encoding] = torch.stack(sides, dim=1)
    return {condition: vectors[encoding] for condition, (encoding, _) in comparison.readings.items()}


def compare_languages(now: Mapping[str, Tensor], comparison: LanguageComparison, coordinates: Row) -> list[Row]:
    """Rows of CKA between languages, models and layers, at every layer of a model.

    The vector of a sentence is the mean of its subwords without special tokens. Three comparisons use parallel text:

        source with target          same layer of one model          does the model represent translations alike?
        now with before training    same layer, same language        what did training change?
        layer k with layer k - 1    same language in one model       what does a block change?

    Each gives debiased linear CKA with its interval and floor, and CKA with Gaussian kernels over four batches of a
    quarter of the sentences, as in the paper. Every further condition gives Gaussian CKA of its own reading.
    now: `sentence_states` of the model.
    """
    text, start, source = comparison.text, comparison.start, coordinates["source"]
    about = {**coordinates, "data": text.name or "parallel text", "unit": "sentence"}
    languages, rows = text.languages, list[Row]()
    for condition, (_, gaussian_cka) in comparison.readings.items():
        about |= {"condition": condition} if condition else {}
        for layer, states in enumerate(now[condition]):
            others: list[tuple[Tensor, Row]] = []
            others += [(now[condition][layer - 1], {"other_layer": layer - 1})] if layer else []
            others += [(start[condition][layer], {"other_layer": layer, "other_model": START})] if start else []
            pairs: dict[tuple[int, int], Row] = {}  # coordinates of rows, by indices of two sides
            for number, language in enumerate(languages):
                if source in languages and language != source:
                    pairs[languages.index(source), number] = {"target": language}
            for number, language in enumerate(languages):
                for position, (_, where) in enumerate(others, 1):
                    pairs[number, len(languages) * position + number] = {"target": language, **where}
            sides = torch.cat([states, *(side for side, _ in others)])  # (sides, sentences, width)
            estimates = {} if condition else {"cka": cka_of_pairs(sides, list(pairs))}
            estimates["cka_rbf"] = gaussian_cka(sides, list(pairs))
            for measure, values in estimates.items():
                for cka, where in zip(values, pairs.values(), strict=True):
                    rows.append(row(measure, cka, **about, layer=layer, **where))
    return rows


def encode_written_specials(tokenizer: Any, corpus: Corpus, rows: Sequence[int], **how: Any) -> TokenBatch:
    """`encode` with a first and a last special token written into each sentence, which then count as content."""
    first, last = tokenizer.cls_token, tokenizer.sep_token
    if first is None or last is None:
        raise InputError(f"{tokenizer.name_or_path} has no first and last special token to write into the text")
    written = replace(corpus, sentences=[f"{first} {sentence} {last}" for sentence in corpus], words=None)
    batch = encode(tokenizer, written, rows, **how)
    ends = torch.cumsum(batch.lengths, 0)
    content = torch.ones_like(batch.content)
    content[ends - batch.lengths] = content[ends - 1] = False
    return replace(batch, content=content)
