"""`isogloss transfer`: train a task in one language, test it in all the others, and ask which layers carry it across.

The model is given a head and trained on examples of the source language; then source and targets are tested, none of
which it has seen an answer of. What is frozen or re-initialised is a plan: with `freeze:n` for every n this is the
experiment of Jexus (2020), with `reinit:a-b` the RANDOM-INIT of Muller et al. (2021). Every plan is trained with every
seed and learning rate; the epoch and the rate are chosen on the source's development set. Translations of the training
examples may join them, and code-switching mixes languages within an example (Pan et al. 2021).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import torch

from isogloss.errors import InputError
from isogloss.progress import Progress, named, silent
from isogloss.recipes.arguments import at_least, half_precision, model_name, plan_list, share_of
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.ownmodels import read_own
from isogloss.recipes.steps.seedmeans import mean_rows
from isogloss.recipes.steps.switched import known_share, read_switching, training_text
from isogloss.recipes.steps.taskfitting import Fitting, fit, scored_models, training_folder
from isogloss.recipes.steps.taskscores import result_rows
from isogloss.recipes.steps.tasksimilarity import DEFECTS, comparing, tokenise_parallel
from isogloss.recipes.steps.tasktexts import lost_notes, read_sets, tokenise_set
from isogloss.recipes.steps.translations import with_translated
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.load import choose_device, load
from isogloss.tasks import TASKS, find_task
from isogloss.text.corpora import Bitext, Corpus
from isogloss.training.loop import Settings
from isogloss.training.optimisation import Decay, Optimisation
from isogloss.training.plans import frozen_at
from isogloss.training.processes import launched


def transfer_job(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"what is learned: {', '.join(TASKS)}"],
    train: Annotated[str, "examples to train on, LANG=FILE[,FILE]"],
    dev: Annotated[list[str], "examples to choose by, LANG=FILE; other languages' are the oracle's, once a language"],
    test: Annotated[list[str], "examples to test on, LANG=FILE[,FILE], once a set, the source's too"],
    translated: Annotated[
        list[str] | None, "row by row translations of --train, trained on, too, LANG=FILE[,FILE], once a language"
    ] = None,
    switch: Annotated[
        float,
        "probability that a segment (premise, hypothesis, question) is taken from a translation (the paper's could not "
        "be read; reproduce pan2021 takes 0.5)",
    ] = 0.0,
    switch_to: Annotated[str, "the language it is taken from: source, as Pan et al., or any other"] = "source",
    lexicon: Annotated[list[str] | None, "dictionary from the language of --train, LANG=FILE, once a language"] = None,
    switch_words: Annotated[float, "probability that a word of a --lexicon is replaced by a translation"] = 0.0,
    own: Annotated[list[str] | None, "LANG=FOLDER: a target's own model, for what the plan freezes"] = None,
    plans: Annotated[str, "what trains: freeze:8, reinit:1-2, ...; several with commas"] = "freeze:-1",
    seeds: Annotated[int, "how many seeds each plan is run with"] = 1,
    epochs: Annotated[int, "times the training examples are seen"] = 3,
    batch: Annotated[int, "examples in a batch"] = 32,
    rates: Annotated[str, "highest learning rate; several with commas, source dev chooses"] = "5e-5",
    warm_up: Annotated[float, "share of the updates until the rate is highest"] = 0.1,
    decay: Annotated[str, "linear, cosine, trapezoid, inverse-sqrt or constant"] = "linear",
    weight_decay: Annotated[float, "AdamW's weight decay of matrices"] = 0.0,
    clip: Annotated[float, "largest norm of the gradient; 0 for any"] = 1.0,
    length: Annotated[int | None, "most tokens of an example; default the task's, or the model's if it is less"] = None,
    probe: Annotated[int | None, "updates between scores; default an epoch"] = None,
    frozen_dropout: Annotated[bool, "dropout in frozen layers, too; they are then not computed once"] = False,
    cache: Annotated[bool, "compute frozen layers once and keep their states"] = True,
    states: Annotated[str | None, "folder where runs share states of frozen layers; they stay there"] = None,
    keep: Annotated[bool, "write the best model of each training"] = False,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    legacy: Annotated[str | None, f"of --bitext, as the original compares: {', '.join(DEFECTS)}"] = None,
    checkpoint: Annotated[int, "updates between checkpoints"] = 1000,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
    seed: Annotated[int, "the first seed: decides the head's and fresh weights, order and dropout"] = 0,
    device: str = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
) -> Job:
    """Train a task in one language and test it in others: scores, and the gap to the source.

    Example: isogloss transfer mini --task nli --train en=mnli.tsv --dev en=dev.tsv --test en=en.tsv --test nl=nl.tsv
    """
    if launched()[1] > 1:
        raise InputError("transfer trains in one process; start it without torchrun or accelerate")
    place, kind = choose_device(device), find_task(task)
    chosen, grid = plan_list(plans), _rates(rates)
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
    share_of("warm_up", warm_up)
    at_least("epochs", epochs, 1)
    numbers = range(at_least("seed", seed, 0), seed + at_least("seeds", seeds, 1))
    optimisation = Optimisation(grid[0], 0, cast(Decay, decay), weight_decay, (0.9, 0.999), 1e-8, clip)
    at_least("checkpoint", checkpoint, 1)
    if probe is not None:
        at_least("probe", probe, 1)
    owns = read_own(own, sets, stack, plans=chosen, device=place, half=half)
    if owns and bitext:
        raise InputError("--bitext compares languages in one model, and --own gives a language one of its own")
    compared = comparing(bitext, legacy, source=sets.source, seed=0, dtype=torch.bfloat16 if half else None)
    if states is not None and not cache:
        raise InputError("--states is where states of frozen layers are kept, and --no-cache keeps none; leave one out")
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
        settings = Settings(
            steps, seed, replace(optimisation, warm_up=round(warm_up * steps)), report=max(1, steps // 50), half=half
        )
        fitting = Fitting(
            model=model,
            revision=revision,
            device=place,
            task=kind,
            sets=sets,
            settings=settings,
            batch=batch,
            probe=probe,
            checkpoint=checkpoint,
            frozen_dropout=frozen_dropout,
            cache=cache,
            keep=keep,
            states=None if states is None else Path(states),
            weights=weights,
            own=owns,
        )
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
            called = f"{plan} {switching.variant}".strip()
            results: list[Row] = []
            for each in numbers:
                models = []
                for rate in grid:
                    done += 1
                    variant = f"{called} rate:{rate:g}" if len(grid) > 1 else called
                    at = {**where, "variant": variant, "seed": each}
                    told = named(progress, f"training {variant}, seed {each} ({done} of {total})")
                    after = None if alike is None else partial(alike.now, place=at, progress=told)
                    yield from fit(run, fitting, text, plan=plan, rate=rate, place=at, progress=told, at_end=after)
                    models += scored_models(training_folder(run, at), rate)
                rows = result_rows(models, sets, kind, place={**where, "variant": called, "seed": each})
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
    return Job(name, work, hashes, () if compared is None else compared.notes, depth)


def transfer(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: str,
    train: str | Mapping[str, Any],
    dev: Sequence[str] | Mapping[str, Any],
    test: Sequence[str] | Mapping[str, Any],
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Train a task in one language and test it in others, from Python: `transfer_job` says what the options are.

    train, dev, test: files by language, as are `translated` and `lexicon` among the options; `own` has folders. bitext:
    parallel text to compare languages on. Returns the rows.

    >>> transfer("mini", task="nli", train={"en": "mnli.tsv"}, dev={"en": "dev.tsv"},
    ...          test={"en": "en.tsv", "nl": "nl.tsv"}, plans="freeze:8")  # doctest: +SKIP
    """
    given = {"task": task, "train": train, "dev": dev, "test": test}
    given |= {name: options.pop(name) for name in ("translated", "lexicon", "own") if name in options}
    job = transfer_job(model, *bitext, **cast(Any, given), **options)
    arguments = {"model": str(model), **{name: str(value) for name, value in given.items()}, **options}
    arguments.pop("states", None)  # where they lie changes no row
    return execute(
        job, command="transfer", arguments=arguments, seed=options.get("seed", 0), out=out, resume=resume,
        progress=progress,
    )  # fmt: skip


def _rates(text: str | float) -> list[float]:
    try:
        found = [float(one) for one in str(text).split(",")]
    except ValueError as error:
        raise InputError(f"--rates takes numbers with commas, as in 2e-5,5e-5, not {text!r}") from error
    if not all(0 < one < inf for one in found):
        raise InputError(f"--rates must be above 0, not {text}")
    if len(set(found)) < len(found):
        raise InputError(f"--rates has a rate twice: {text}")
    return found
