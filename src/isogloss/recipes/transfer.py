"""`isogloss transfer`: train a task in one language, test it in all the others, and ask which layers carry it across.

The model is given a head and trained on examples of the source language; then source and targets are tested, none of
which it has seen an answer of. What is frozen or re-initialised is a plan: with `freeze:n` for every n this is the
experiment of Jexus (2020), with `reinit:a-b` the RANDOM-INIT of Muller et al. (2021). Every plan is trained with every
seed and learning rate; the epoch and the rate are chosen on the source's development set. Translations of the training
examples may join them, and code-switching mixes languages within an example (Pan et al. 2021).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from isogloss.errors import InputError
from isogloss.files import write_text
from isogloss.measures.cka import cka_of_pairs, cka_rbf_of_pairs
from isogloss.measures.statistics import Interval
from isogloss.progress import Progress, named, silent
from isogloss.recipes.recipe import (
    OPTIMISER,
    RARE,
    Batch,
    CheckpointEvery,
    Clip,
    DecayName,
    Device,
    Epochs,
    LanguageFile,
    LanguageFiles,
    Option,
    Out,
    Resume,
    Revision,
    Seed,
    Seeds,
    TrainDtype,
    WarmUp,
    WeightDecay,
    Work,
    at_least,
    half_precision,
    language_entries,
    model_name,
    one_of,
    one_process,
    optimisation,
    plan_list,
    recipe,
)
from isogloss.recipes.task_scores import result_rows, save_scores, score_sets, scored_models
from isogloss.recipes.task_sets import (
    TaskSets,
    add_translations,
    dictionary_note,
    join_training_items,
    lost_notes,
    read_sets,
    read_switching,
    skipped_rows,
    switched_items,
    tokenise_set,
)
from isogloss.runs.run import Run
from isogloss.runs.table import (
    START,
    UNTUNED,
    Row,
    mean_rows,
    row,
    settings_text,
    training_folder,
    training_name,
)
from isogloss.seeds import seed_of
from isogloss.stack.load import choose_device, load, quietly
from isogloss.stack.stack import Stack, measuring
from isogloss.tasks import TASKS, find_task
from isogloss.tasks.model import TaskModel, task_model, task_objective
from isogloss.tasks.task import Items
from isogloss.text.batches import Batch as TokenBatch
from isogloss.text.batches import encode, group
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.text.switching import Switching
from isogloss.training.frozen_prefix import Prefix, has_room, read_prefix, shared_prefix
from isogloss.training.loop import Settings, Training, steps_in_epoch
from isogloss.training.plans import Plan, apply_plan, frozen_at
from isogloss.training.probes import Probe, Reading, arithmetic
from isogloss.training.processes import join
from isogloss.training.resumable import Resumable, export_nothing
from isogloss.training.stopping import Selection
from isogloss.vectors.pool import mean_by_group

OF_LOSS = {"data": "train", "unit": "answer"}  # the coordinates of a loss

# How the code behind Muller et al. (2021) compares languages otherwise than the paper says: a sentence on each defect,
# and the arguments of `cka_rbf_of_pairs` that it changes. What `specials` changes is how sentences are read.
LEGACY: dict[str, tuple[str, dict[str, Any]]] = {
    "windows": (
        "the four batches are sentences i to i + size for i = 0 to 3, almost the same ones",
        {"shifted": True},
    ),
    "batch-25": ("a batch has 25 sentences", {"size": 25}),
    "batch-200": ("a batch has 200 sentences", {"size": 200}),
    "specials": (
        "special tokens are written into the text and added again, and one on each side stays in the mean",
        {},
    ),
}


@recipe
def transfer(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"what is learned: {', '.join(TASKS)}"],
    train: Annotated[LanguageFile, "examples to train on, LANG=FILE[,FILE]"],
    dev: Annotated[
        LanguageFiles, "examples to choose by, LANG=FILE; other languages' are the oracle's, once a language"
    ],
    test: Annotated[LanguageFiles, "examples to test on, LANG=FILE[,FILE], once a set, the source's too"],
    translated: Annotated[
        LanguageFiles | None, "row by row translations of --train, trained on, too, LANG=FILE[,FILE], once a language"
    ] = None,
    switch: Annotated[
        float,
        "probability that a segment (premise, hypothesis, question) is taken from a translation (the paper's could not "
        "be read; reproduce pan2021 takes 0.5)",
    ] = 0.0,
    switch_to: Annotated[str, "the language it is taken from: source, as Pan et al., or any other"] = "source",
    lexicon: Annotated[
        LanguageFiles | None, "dictionary from the language of --train, LANG=FILE, once a language"
    ] = None,
    switch_words: Annotated[float, "probability that a word of a --lexicon is replaced by a translation"] = 0.0,
    target_models: Annotated[
        LanguageFiles | None, "LANG=FOLDER: a target's own model, for what the plan freezes"
    ] = None,
    plans: Annotated[str, "what trains: freeze:8, reinit:1-2, ...; several with commas"] = "freeze:-1",
    seeds: Seeds = 1,
    epochs: Epochs = 3,
    batch: Batch = 32,
    rate: Annotated[
        str | float, Option("highest learning rate; several with commas, source dev chooses", OPTIMISER)
    ] = 5e-5,
    warm_up: WarmUp = 0.1,
    decay: DecayName = "linear",
    weight_decay: WeightDecay = 0.0,
    clip: Clip = 1.0,
    length: Annotated[int | None, "most tokens of an example; default the task's, or the model's if it is less"] = None,
    probe: Annotated[int | None, "updates between scores; default an epoch"] = None,
    frozen_dropout: Annotated[bool, "dropout in frozen layers, too; they are then not computed once"] = False,
    cache: Annotated[bool, "compute frozen layers once and keep their states"] = True,
    frozen_cache: Annotated[
        str | None, Option("folder where runs share states of frozen layers; they stay there", RARE, recorded=False)
    ] = None,
    save_models: Annotated[bool, "write the best model of each training"] = False,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    legacy: Annotated[str | None, f"of --bitext, as the original compares: {', '.join(LEGACY)}"] = None,
    checkpoint: CheckpointEvery = 1000,
    revision: Revision = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: TrainDtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Train a task in one language and test it in others: scores, and the gap to the source.

    Example: isogloss transfer mini --task nli --train en=mnli.tsv --dev en=dev.tsv --test en=en.tsv --test nl=nl.tsv
    """
    one_process("transfer")
    processor, chosen_plans, rates = choose_device(device), plan_list(plans), _rate_list(rate)
    half = half_precision(dtype, processor)
    autocast = torch.bfloat16 if half else None
    at_least("batch", batch, 1), at_least("epochs", epochs, 1), at_least("checkpoint", checkpoint, 1)
    one_of("switch_to", switch_to, ("source", "any"))
    if probe is not None:
        at_least("probe", probe, 1)
    chosen_seeds = range(at_least("seed", seed, 0), seed + at_least("seeds", seeds, 1))
    scheduled = partial(optimisation, rate=rates[0], warm_up=warm_up, decay=decay, weight_decay=weight_decay, clip=clip)
    scheduled(steps=1)  # checks it
    if frozen_cache is not None and not cache:
        raise InputError(
            "--frozen-cache is where states of frozen layers are kept, and --no-cache keeps none; leave one out"
        )
    sets = read_sets(find_task(task), train=train, dev=dev, test=test, skip_bad=skip_bad)
    if translated:
        sets = add_translations(sets, translated, skip_bad=skip_bad)
    switching = Switching()
    if switch or switch_words or lexicon:
        switching = read_switching(sets, share=switch, to=switch_to, words=switch_words, lexicon=lexicon)
    stack = load(model, revision, dtype="float32", device=processor)
    if stack.family.kind != "encoder":
        raise InputError(f"{model} is a {stack.family.kind}; transfer trains encoders")
    tokens = at_least("length", min(stack.max_length, length or sets.task.length), 8)
    for plan in chosen_plans:
        frozen_at(plan, 0, depth=stack.last, epoch=1)  # refuses a plan for a deeper model
    own_models: dict[str, Stack] = {}
    if target_models:
        own_models = _read_target_models(target_models, sets, stack, plans=chosen_plans, half=half)
        if bitext:
            raise InputError(
                "--bitext compares languages in one model, and --target-models gives a language one of its own"
            )
    comparison = None
    if bitext or legacy:
        comparison = compare_languages(bitext, legacy, source=sets.source, dtype=autocast)
    base = {"model": model_name(model), "task": sets.task.name, "source": sets.source}

    def rows(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        if switching.lexicons:
            run.note(dictionary_note(sets, switching))
        readers = [own_models.get(each.language, stack).tokenizer for each in sets.all]
        items = [
            tokenise_set(sets, each, tokenizer=tokenizer, length=tokens, progress=progress)
            for each, tokenizer in zip(sets.all, readers, strict=True)
        ]
        for sentence in [*sets.notes, *lost_notes(sets.all, items)]:
            run.note(sentence)
        count = len(sets.trained)
        trained = items[0] if count == 1 else join_training_items(sets, items[:count])
        text = TrainingText(trained, items[count:], run.scratch)
        if switching:
            text.longest = tokens
            text.changing = switched_items(sets, trained, switching, tokenizer=stack.tokenizer, length=tokens)
        steps = epochs * steps_in_epoch(trained, batch)
        setup = TransferSetup(
            reload=partial(load, model, revision, dtype=torch.float32, device=processor),
            sets=sets,
            dtype=autocast,
            batch=batch,
            probe=probe,
            checkpoint=checkpoint,
            save_models=save_models,
            frozen_dropout=frozen_dropout,
            cache=cache,
            frozen_cache=None if frozen_cache is None else Path(frozen_cache),
            weights=stack.fingerprint,
            own_models=own_models,
        )
        if comparison is not None:
            start = replace(stack, pack=half) if processor.type == "cuda" else stack
            yield comparison.start(start, base, progress)
        yield skipped_rows(sets, base)
        done, total = 0, len(chosen_plans) * len(chosen_seeds) * len(rates)
        for plan in chosen_plans:
            results: list[Row] = []
            for number in chosen_seeds:
                models = []
                about = {**base, "plan": str(plan), "condition": switching.condition, "seed": number}
                for each_rate in rates:
                    done += 1
                    coordinates = {**about, "settings": settings_text({"rate": each_rate} if len(rates) > 1 else {})}
                    optimiser = scheduled(steps=steps, rate=each_rate)
                    settings = Settings(steps, number, optimiser, report=max(1, steps // 50), half=half)
                    folder = run.folder / "checkpoints" / training_folder(coordinates)
                    training = PlanTraining(plan, settings, coordinates, folder)
                    name = f"training {training_name(coordinates)}, seed {number} ({done} of {total})"
                    yield from train_plan(setup, text, training, comparison=comparison, progress=named(progress, name))
                    models += scored_models(folder, each_rate)
                chosen = result_rows(models, sets, about)
                results += chosen
                yield chosen
            yield mean_rows(results)

    hashes: dict[str, Any] = {"model": stack.fingerprint, "data": sets.hashes}
    if own_models:
        hashes["own"] = {language: own.fingerprint for language, own in own_models.items()}
    if switching.lexicons:
        hashes["dictionaries"] = switching.hashes
    if comparison is not None:
        hashes["parallel text"] = comparison.bitext.fingerprint
    return Work(str(base["model"]), rows, hashes, () if comparison is None else comparison.notes, stack.last)


def _rate_list(text: str | float) -> list[float]:
    try:
        rates = [float(part) for part in str(text).split(",")]
    except ValueError as error:
        raise InputError(f"--rate takes numbers with commas, as in 2e-5,5e-5, not {text!r}") from error
    if not all(0 < rate < inf for rate in rates):
        raise InputError(f"--rate must be above 0, not {text}")
    if len(set(rates)) < len(rates):
        raise InputError(f"--rate has a rate twice: {text}")
    return rates


# --- one training ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TransferSetup:
    """What all trainings of the run have in common.

    reload: gives the model as it begins. dtype: what forward passes compute in, None for that of the weights. batch:
    items of an update. probe: updates between scores, None for an epoch. checkpoint: updates between checkpoints.
    save_models: whether the best model of each training is written. frozen_dropout: whether frozen layers keep their
    dropout while the rest trains. cache: whether they are computed once. frozen_cache: where runs share their states.
    weights: a hash of the model as it begins. own_models: models of target languages, whose frozen layers take the
    place of this one's.
    """

    reload: Callable[[], Stack]
    sets: TaskSets
    dtype: torch.dtype | None
    batch: int
    probe: int | None
    checkpoint: int
    save_models: bool
    frozen_dropout: bool
    cache: bool
    frozen_cache: Path | None
    weights: str
    own_models: Mapping[str, Stack]


@dataclass
class TrainingText:
    """The sets as items, and the states of frozen layers that were last computed for them.

    train: the items to train on. scored: those of `TaskSets.scored`. scratch: a folder for states that memory has no
    room for. changing(seed, epoch): the items to train on in an epoch, where epochs differ, and longest: the most
    tokens of such an item. prefix_name: which frozen layers `prefixes` are of, one of each set, the training's first.
    """

    train: Items
    scored: Sequence[Items]
    scratch: Path
    changing: Callable[[int, int], Items] | None = None
    longest: int | None = None
    prefix_name: str | None = None
    prefixes: list[Prefix | None] = field(default_factory=list)


@dataclass(frozen=True)
class PlanTraining:
    """One training: its plan, settings (seed and learning rate among them), coordinates in the rows, and folder."""

    plan: Plan
    settings: Settings
    coordinates: Mapping[str, Any]
    folder: Path


def train_plan(
    setup: TransferSetup,
    text: TrainingText,
    training: PlanTraining,
    *,
    comparison: "LanguageComparison | None" = None,
    progress: Progress = silent,
) -> Iterator[Sequence[Row]]:
    """The rows of one training as they come, from its start or its last checkpoint; none where it is finished."""
    cycle = Resumable(training.folder, setup.checkpoint)
    if cycle.finished():
        return
    plan, settings, stack, sets = training.plan, training.settings, setup.reload(), setup.sets
    seed, epoch, dropout = settings.seed, steps_in_epoch(text.train, setup.batch), setup.frozen_dropout
    model = task_model(stack, sets.task, sets.labels, seed=seed, dropout=dropout, half=settings.half)
    planned = apply_plan(stack, plan, epoch=epoch, seed=seed)
    lowest = frozen_at(plan, settings.steps - 1, depth=stack.last, epoch=epoch)
    first, *prefixes = _prefixes(setup, text, training, stack=model.still, cut=lowest, progress=progress)
    objective = task_objective(
        model,
        text.train,
        batch=setup.batch,
        seed=seed,
        prefix=first,
        longest=text.longest,
        changing=None if text.changing is None else partial(text.changing, seed),
    )
    loop = Training(model, objective, settings, join(stack.device))
    held: int | None = None

    def before_step(step: int) -> None:
        """The plan, which also tells the model which layers are frozen: their dropout is off."""
        nonlocal held
        planned(step)
        frozen = frozen_at(plan, step, depth=stack.last, epoch=epoch)
        if held != frozen:
            held = frozen
            model.hold(frozen, until=plan.until)

    def score() -> Iterator[Reading]:
        if loop.step == 0:  # a head that was not trained says nothing
            return
        scores = score_sets(model, sets.scored, text.scored, prefixes=prefixes, dtype=setup.dtype)
        save_scores(training.folder, loop.step, scores)
        for task_set, by_name in zip(sets.scored, scores, strict=True):
            for name, result in by_name.items():
                where = {"target": task_set.language, "data": task_set.name}
                yield {"measure": name, "value": result.value, "floor": result.floor, "n": result.n, **where}

    source = sets.dev[sets.source]
    choice = Selection(sets.task.main, {"target": source.language, "data": source.name})
    for readings in cycle.train(
        loop,
        export=partial(_export, model) if setup.save_models else export_nothing,
        probes=[Probe(setup.probe or epoch, score)],
        plan=before_step,
        selection=choice if setup.save_models else None,
        progress=progress,
    ):
        yield [
            row(**{**reading, **training.coordinates, **(OF_LOSS if reading["measure"] == "loss" else {})})
            for reading in readings
        ]
    if comparison is not None:
        yield comparison.compare(model.still, training.coordinates, progress)
    cycle.finish()


def _prefixes(
    setup: TransferSetup, text: TrainingText, training: PlanTraining, *, stack: Stack, cut: int, progress: Progress
) -> list[Prefix | None]:
    """The states of frozen layers of the training text and of every scored set; None where they are not kept.

    Below block 1 there is nothing to save. Training text has states in memory or in a file, and none where dropout
    makes them differ from step to step, or code-switching from epoch to epoch. Scored sets have states where memory has
    room, and are run from their text otherwise. Where runs share a folder, all sets have states in files. A language
    with a model of its own has the states of that model, those of its embeddings too.
    """
    plan, seed = training.plan, training.settings.seed
    saves = cut >= 1 and setup.cache
    if not saves and not setup.own_models:
        return [None] * (1 + len(text.scored))
    fresh = [block for block in plan.reinit if block <= cut]
    drawn = f"-{plan.initialiser}-{'-'.join(map(str, fresh))}-seed-{seed}" if fresh else ""
    name = f"cut-{cut}{drawn}"
    if name == text.prefix_name:
        return text.prefixes
    text.prefix_name, text.prefixes = None, []  # before the next ones need their room
    how: dict[str, Any] = {"dtype": setup.dtype, "progress": progress}

    def compute(items: Items, language: str | None) -> Prefix | None:  # None: the training text
        if language is not None and language in setup.own_models:
            return read_prefix(setup.own_models[language], items, cut, **how) if cut >= 0 else None
        if not saves or (language is None and (setup.frozen_dropout or text.changing is not None)):
            return None
        if (folder := setup.frozen_cache) is not None:
            return shared_prefix(stack, items, cut, folder=folder, weights=f"{setup.weights} {name}", **how)
        if language is None:
            return read_prefix(stack, items, cut, file=text.scratch / f"{name}.states", **how)
        return read_prefix(stack, items, cut, **how) if has_room(stack, items, dtype=setup.dtype) else None

    languages = [None, *(task_set.language for task_set in setup.sets.scored)]
    for items, language in zip([text.train, *text.scored], languages, strict=True):
        text.prefixes.append(compute(items, language))
    text.prefix_name = name
    return text.prefixes


def _export(model: TaskModel, folder: Path) -> None:
    """Write the encoder as `from_pretrained` reads it, and beside it the head and what it answers."""
    with quietly():
        model.encoder.save_pretrained(folder)
    model.stack.tokenizer.save_pretrained(folder)
    head = {name: weight.detach().cpu().contiguous() for name, weight in model.head.state_dict().items()}
    save_file(head, folder / "head.safetensors")
    write_text(folder / "task.json", json.dumps({"task": model.task.name, "labels": model.labels}, indent=2) + "\n")


# --- target languages with a model of their own ----------------------------------------------------------------------


def _read_target_models(
    given: Any, sets: TaskSets, stack: Stack, *, plans: Sequence[Plan], half: bool
) -> dict[str, Stack]:
    """The models of target languages, `LANG=FOLDER` or folders by language; they must fit the source's, `stack`.

    A model that was pretrained with `--separate`, or with a vocabulary for each language, is a folder for each of them.
    The source's is trained. A target is tested with its own tokenizer and, of what the plan freezes, with its own
    embeddings and blocks; above them stand the blocks and the head as they were trained (Conneau, Wu et al. 2020,
    Table 1). half: whether they compute in bfloat16, so that a GPU runs their sentences end to end.
    """
    own_models: dict[str, Stack] = {}
    for language, folders in language_entries(given, "target-models"):
        option = f"--target-models {language}"
        if language == sets.source or language not in [test.language for test in sets.tests]:
            raise InputError(f"{option}: it is for a language of --test other than {sets.source}")
        if language in [each.language for each in sets.translated]:
            raise InputError(f"{option} is only tested, so --translated cannot have {language}; leave one out")
        if language in own_models or len(folders) != 1:
            raise InputError(f"{option}: one folder of a model was expected, {language}=FOLDER")
        own = load(folders[0], dtype="float32", device=stack.device)
        if (own.family.kind, own.last, own.width) != (stack.family.kind, stack.last, stack.width):
            raise InputError(
                f"{option}: {own.name} is {own.width} wide with {own.last} layers and {stack.name} {stack.width} "
                f"wide with {stack.last}; layers of one cannot stand on those of the other"
            )
        own_models[language] = replace(own, pack=half) if stack.device.type == "cuda" else own
    # A part that is the target's own must stay as it was pretrained, and ids must mean what was trained.
    for plan in plans:
        frozen = frozen_at(plan, 0, depth=stack.last, epoch=1)
        if plan.unfreeze is not None or any(block <= frozen for block in plan.reinit):
            raise InputError(
                f"the plan {plan} changes frozen layers, which --target-models takes from the target's model; freeze:N "
                "goes with it"
            )
        for language, own in own_models.items() if frozen < 0 else ():
            pieces, source_pieces = (len(each.model.get_input_embeddings().weight) for each in (own, stack))
            if pieces != source_pieces:
                raise InputError(
                    f"--target-models {language} has {pieces:,} pieces and {stack.name} {source_pieces:,}; with "
                    f"embeddings of its own they must be frozen, as with --plans freeze:0, not {plan}"
                )
    return own_models


# --- languages compared before a task is learned and after (Muller et al. 2021) --------------------------------------

BATCHES = 4  # of sentences, over which Gaussian CKA is averaged


@dataclass
class LanguageComparison:
    """How alike languages are inside a model, layer by layer, before a task is learned and after.

    On parallel text, with a sentence's vector the mean of its word pieces without special tokens, three comparisons:

        source with target       the same layer of one model                  is what the two say in the same place?
        now with the start       the same layer and language of two models    what did the training change?
        layer k with k - 1       the same language and model                  what does a block do?

    Each by debiased linear CKA with its interval and floor, and by CKA with Gaussian kernels over four batches of a
    quarter of the sentences, as the paper has it; where defects are asked for, by Gaussian CKA with them besides. The
    sentences come in a seeded random order. The vectors of the start are held in memory, and nothing but rows is
    written: `start` comes first, then `compare` after every training.

    defects: names of `LEGACY`, in its order, and flawed: the arguments of Gaussian CKA with them. batches: tokens by
    language; the keys True have special tokens written into the text. start_vectors: those of the model before any
    training, likewise.
    """

    bitext: Bitext
    source: str
    dtype: torch.dtype | None
    defects: Sequence[str]
    flawed: Mapping[str, Any]
    batches: dict[bool, dict[str, TokenBatch]] = field(default_factory=dict)
    start_vectors: dict[bool, Tensor] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """What a reader must know."""
        missing = f"the parallel text has no {self.source}, so no language is compared with the one that is trained in"
        notes = [] if self.source in self.bitext.languages else [missing]
        return notes + [f"CKA as the original took it: {LEGACY[name][0]}" for name in self.defects]

    def start(self, stack: Stack, coordinates: Mapping[str, Any], progress: Progress) -> list[Row]:
        """Tokenise the text, read the model before any training and hold its vectors; the rows' plan is `untuned`."""
        order = np.random.default_rng(seed_of(0, "parallel text")).permutation(self.bitext.rows).tolist()
        for special in {False, "specials" in self.defects}:
            self.batches[special] = {corpus.language: _encode(stack, corpus, order, special) for corpus in self.bitext}
        vectors = self._read(stack, progress)
        rows = list(self._rows(vectors, {**coordinates, "plan": UNTUNED}))
        self.start_vectors = vectors
        return rows

    def compare(self, stack: Stack, coordinates: Mapping[str, Any], progress: Progress) -> list[Row]:
        """Read a model after its training."""
        return list(self._rows(self._read(stack, progress), coordinates))

    def _read(self, stack: Stack, progress: Progress) -> dict[bool, Tensor]:
        return {
            special: read_sentences(stack, batches, dtype=self.dtype, progress=progress)
            for special, batches in self.batches.items()
        }

    def _rows(self, now: Mapping[bool, Tensor], coordinates: Mapping[str, Any]) -> Iterator[Row]:
        """Rows of all comparisons, as they should be and then, where there are any, with the defects."""
        base = {**coordinates, "data": self.bitext.name or "parallel text", "unit": "sentence"}
        ways: list[tuple[bool, Mapping[str, Any], dict[str, Any]]] = [(False, {}, base)]
        if self.defects:
            flawed = {**base, "condition": f"legacy:{','.join(self.defects)}"}
            ways.append(("specials" in self.defects, self.flawed, flawed))
        for special, how, about in ways:
            for layer, sides, pairs in self._pairs(now[special], self.start_vectors.get(special)):
                estimates: dict[str, list[Interval]] = {}
                if about is base:
                    estimates["cka"] = cka_of_pairs(sides, list(pairs), seed=0)
                estimates["cka_rbf"] = cka_rbf_of_pairs(sides, list(pairs), batches=BATCHES, **how)
                for measure, values in estimates.items():
                    for cka, where in zip(values, pairs.values(), strict=True):
                        yield row(measure, cka, **about, layer=layer, **where)

    def _pairs(
        self, now: Tensor, start: Tensor | None
    ) -> Iterator[tuple[int, Tensor, dict[tuple[int, int], dict[str, Any]]]]:
        """Of each layer: its number, the sides (sides, sentences, width), and which two are compared, as coordinates.

        now, start: (layers, languages, sentences, width).
        """
        languages = self.bitext.languages
        many = len(languages)
        for layer in range(len(now)):
            sides = [now[layer], *([now[layer - 1]] if layer else []), *([] if start is None else [start[layer]])]
            pairs: dict[tuple[int, int], dict[str, Any]] = {}
            if self.source in languages:
                home = languages.index(self.source)
                pairs = {(home, number): {"target": languages[number]} for number in range(many) if number != home}
            for number, language in enumerate(languages):
                if layer:
                    pairs[number, many + number] = {"target": language, "other_layer": layer - 1}
                if start is not None:
                    last = many * (len(sides) - 1)
                    pairs[number, last + number] = {"target": language, "other_layer": layer, "other_model": START}
            yield layer, torch.cat(sides), pairs


def compare_languages(
    bitext: Sequence[Bitext | Corpus], legacy: str | None, *, source: str, dtype: torch.dtype | None
) -> LanguageComparison:
    """Check --bitext and --legacy; source: the language that is trained in, dtype: that of autocast."""
    asked = {name.strip() for name in legacy.split(",")} if legacy else set[str]()
    if unknown := sorted(asked - set(LEGACY)):
        raise InputError(f"--legacy {unknown[0]!r} is not known; choose {', '.join(LEGACY)}")
    if not bitext:
        raise InputError("--legacy is about how languages are compared, which needs --bitext")
    texts = bitexts_of(bitext)
    if len(texts) > 1:
        raise InputError(f"--bitext holds {len(texts)} parallel texts; languages are compared on one")
    if {"batch-25", "batch-200"} <= asked:
        raise InputError("--legacy takes batch-25 or batch-200, not both")
    defects = [name for name in LEGACY if name in asked]
    flawed = {key: value for name in defects for key, value in LEGACY[name][1].items()}
    size = flawed.get("size", 0)
    fewest = max(4 * BATCHES, size + BATCHES - 1 if "shifted" in flawed else BATCHES * size)
    if texts[0].rows < fewest:
        raise InputError(
            f"{texts[0].name or 'the parallel text'} has {texts[0].rows} sentences; comparing languages so takes at "
            f"least {fewest}"
        )
    return LanguageComparison(texts[0], source, dtype, defects, flawed)


def _encode(stack: Stack, corpus: Corpus, order: Sequence[int], special: bool) -> TokenBatch:
    """Sentences in this order as tokens; special: with special tokens in the text, of which the inner ones count."""
    if not special:
        return encode(stack.tokenizer, corpus, order, max_length=stack.max_length)
    first, last = stack.tokenizer.cls_token, stack.tokenizer.sep_token
    if first is None or last is None:
        raise InputError(f"{stack.name} has no first and last token; --legacy specials is about those")
    written = replace(corpus, sentences=[f"{first} {sentence} {last}" for sentence in corpus], words=None)
    batch = encode(stack.tokenizer, written, order, max_length=stack.max_length)
    ends = torch.cumsum(batch.lengths, 0)
    content = torch.ones_like(batch.content)
    content[ends - batch.lengths] = content[ends - 1] = False
    return replace(batch, content=content)


def read_sentences(
    stack: Stack, batches: Mapping[str, TokenBatch], *, dtype: torch.dtype | None, progress: Progress
) -> Tensor:
    """Sentence vectors (layers, languages, sentences, width), float32, on the stack's device, in evaluation mode."""
    device, layers = stack.device, list(stack.cuts)
    tokens = 65_536 if device.type == "cuda" else 2_048
    count = len(next(iter(batches.values())))
    vectors = torch.empty((len(layers), len(batches), count, stack.width), dtype=torch.float32, device=device)
    with measuring(stack.model), arithmetic(device, dtype):
        for number, whole in enumerate(batches.values()):
            for members in group(whole.lengths.tolist(), tokens=tokens):
                batch = whole.take(members).to(device)
                sentences = torch.where(batch.content, batch.sentence_of_tokens(), -1)  # (tokens,)

                def pool(_: int, states: Tensor, sentences: Tensor = sentences, size: int = len(members)) -> Tensor:
                    return mean_by_group(states, sentences, size)

                means = stack.read(batch, layers, reduce=pool)
                vectors[:, number, members] = torch.stack([means[layer] for layer in layers])
            progress("comparing languages", number + 1, len(batches))
    return vectors
