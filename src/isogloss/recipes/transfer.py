"""`isogloss transfer`: train a task in one language, test it in all the others, and ask which layers carry it across.

The model is given a head and trained on examples of the source language; then source and targets are tested, none of
which it has seen an answer of. What is frozen or re-initialised is a plan: with `freeze:n` for every n this is the
experiment of Jexus (2020), with `reinit:a-b` the RANDOM-INIT of Muller et al. (2021). Every plan is trained with every
seed and learning rate; the epoch and the rate are chosen on the source's development set. Translations of the training
examples may join them, and code-switching mixes languages within an example (Pan et al. 2021).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any

import torch

from isogloss.errors import InputError
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
    model_name,
    one_process,
    optimisation,
    plan_list,
    recipe,
)
from isogloss.recipes.steps.ownmodels import read_own
from isogloss.recipes.steps.switched import known_share, read_switching, training_text
from isogloss.recipes.steps.taskfitting import Fitting, fit, scored_models, training_folder
from isogloss.recipes.steps.taskscores import result_rows
from isogloss.recipes.steps.tasksimilarity import DEFECTS, comparing, tokenise_parallel
from isogloss.recipes.steps.tasktexts import lost_notes, read_sets, tokenise_set
from isogloss.recipes.steps.translations import with_translated
from isogloss.runs.run import Run
from isogloss.runs.table import Row, mean_rows, row, settings_text, training_name
from isogloss.stack.load import choose_device, load
from isogloss.tasks import TASKS, find_task
from isogloss.text.corpora import Bitext, Corpus
from isogloss.training.loop import Settings
from isogloss.training.plans import frozen_at


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
    legacy: Annotated[str | None, f"of --bitext, as the original compares: {', '.join(DEFECTS)}"] = None,
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
    place, kind = choose_device(device), find_task(task)
    chosen, grid = plan_list(plans), _rates(rate)
    sets = with_translated(kind, read_sets(kind, train, dev, test, skip_bad=skip_bad), translated, skip_bad=skip_bad)
    switching = read_switching(kind, sets, share=switch, to=switch_to, words=switch_words, lexicon=lexicon)
    stack = load(model, revision, dtype="float32", device=place)
    if stack.family.kind != "encoder":
        raise InputError(f"{model} is a {stack.family.kind}; transfer trains encoders")
    depth, size = stack.last, min(stack.max_length, length or kind.length)
    if size < 8:
        raise InputError(f"--length must be at least 8, not {size}")
    at_least("batch", batch, 1)
    for plan in chosen:
        frozen_at(plan, 0, depth=depth, epoch=1)
    half = half_precision(dtype, place)
    at_least("epochs", epochs, 1)
    numbers = range(at_least("seed", seed, 0), seed + at_least("seeds", seeds, 1))
    schedule = {"rate": grid[0], "warm_up": warm_up, "decay": decay, "weight_decay": weight_decay, "clip": clip}
    optimisation(steps=1, **schedule)  # checks it
    at_least("checkpoint", checkpoint, 1)
    if probe is not None:
        at_least("probe", probe, 1)
    owns = read_own(target_models, sets, stack, plans=chosen, device=place, half=half)
    if owns and bitext:
        raise InputError(
            "--bitext compares languages in one model, and --target-models gives a language one of its own"
        )
    compared = comparing(bitext, legacy, source=sets.source, seed=0, dtype=torch.bfloat16 if half else None)
    if frozen_cache is not None and not cache:
        raise InputError(
            "--frozen-cache is where states of frozen layers are kept, and --no-cache keeps none; leave one out"
        )
    name, weights = model_name(model), stack.fingerprint

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        if switching.words:
            run.note(known_share(kind, sets, switching))
        elif switching.lexicons:
            run.note("no word is replaced by one of --lexicon: --switch-words is 0")
        found = [
            tokenise_set(kind, one, sets.labels, tokenizer=owns.get(one.language, stack).tokenizer, length=size,
                         progress=progress)
            for one in sets.all
        ]  # fmt: skip
        for sentence in [*sets.notes, *lost_notes(sets.all, found)]:
            run.note(sentence)
        text = training_text(kind, sets, found, switching, tokenizer=stack.tokenizer, length=size)
        items = text.items
        steps = epochs * -(-len(items[0]) // batch)
        way = optimisation(steps=steps, **schedule)
        settings = Settings(steps, seed, way, report=max(1, steps // 50), half=half)
        fitting = Fitting(
            model, revision, place, kind, sets, settings, batch, probe, checkpoint, frozen_dropout, cache, save_models,
            None if frozen_cache is None else Path(frozen_cache), weights, owns,
        )  # fmt: skip
        where = {"model": name, "task": kind.name, "source": sets.source}
        alike = None if compared is None else tokenise_parallel(stack, compared)
        if alike is not None:
            begun = replace(stack, pack=half) if place.type == "cuda" else stack
            yield alike.at_start(begun, where, progress)
        yield [
            row("skipped", one.skipped, target=one.language, data=one.name, **where) for one in sets.all if one.skipped
        ]
        done, total = 0, len(chosen) * len(numbers) * len(grid)
        for plan in chosen:
            about = {**where, "plan": str(plan), "condition": switching.condition}
            results: list[Row] = []
            for each in numbers:
                models = []
                for each_rate in grid:
                    done += 1
                    at = {
                        **about,
                        "seed": each,
                        "settings": settings_text({"rate": each_rate} if len(grid) > 1 else {}),
                    }
                    told = named(progress, f"training {training_name(at)}, seed {each} ({done} of {total})")
                    after = None if alike is None else partial(alike.now, place=at, progress=told)
                    yield from fit(run, fitting, text, plan=plan, rate=each_rate, place=at, progress=told, at_end=after)
                    models += scored_models(training_folder(run, at), each_rate)
                rows = result_rows(models, sets, kind, place={**about, "seed": each})
                results += rows
                yield rows
            yield mean_rows(results)

    hashes: dict[str, Any] = {"model": weights, "data": sets.hashes}
    if owns:
        hashes["own"] = {language: one.fingerprint for language, one in owns.items()}
    if switching.lexicons:
        hashes["dictionaries"] = switching.hashes
    if compared is not None:
        hashes["parallel text"] = compared.bitext.fingerprint
    return Work(name, work, hashes, () if compared is None else compared.notes, depth)


def _rates(text: str | float) -> list[float]:
    try:
        found = [float(one) for one in str(text).split(",")]
    except ValueError as error:
        raise InputError(f"--rate takes numbers with commas, as in 2e-5,5e-5, not {text!r}") from error
    if not all(0 < one < inf for one in found):
        raise InputError(f"--rate must be above 0, not {text}")
    if len(set(found)) < len(found):
        raise InputError(f"--rate has a rate twice: {text}")
    return found
