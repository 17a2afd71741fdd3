"""`isogloss drift`: fine-tune a masked LM on one language, and watch what happens to the others and to each layer.

Hussain & Dudev (2020) tune a multilingual model on Dutch. While it trains, perplexity is taken on held-out text of that
language and on text of others, the distance of every layer to a native model and to its own start, and retrieval on
parallel text. Every plan (which layers train, when) is run with every seed, one after the other; at the end each one's
best model is tested, and the steps where the curves cross and where gain and loss balance best are worked out.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch

from isogloss.errors import InputError
from isogloss.progress import Progress, named, silent
from isogloss.recipes.recipe import (
    Batch,
    CheckpointEvery,
    Clip,
    DecayName,
    Device,
    Epochs,
    LanguageFile,
    LanguageFiles,
    Out,
    Rate,
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
    one_of,
    one_process,
    optimisation,
    plan_list,
    recipe,
    share_of,
)
from isogloss.recipes.steps.drifting import (
    Native,
    Readings,
    chosen_reading,
    curve_rows,
    evaluate_untuned,
    start_watch,
    with_defects,
)
from isogloss.recipes.steps.effects import effect_rows
from isogloss.recipes.steps.legacy import DEFECTS, legacy_condition, legacy_notes, parse_legacy
from isogloss.recipes.steps.probing import parallel_texts
from isogloss.recipes.steps.tunedtext import overlap_notes, read_corpora
from isogloss.recipes.steps.tuning import Tuning, tune
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row, training_name
from isogloss.stack.load import choose_device, load_masked_lm
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.words import unknown_notes
from isogloss.training.heads import fingerprint
from isogloss.training.loop import Settings
from isogloss.training.plans import frozen_at
from isogloss.training.stopping import Choice, Stopping, at_balance

UNTUNED = "untuned"


@recipe
def drift(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    target: Annotated[LanguageFile, "text to tune on, LANG=FILE[,FILE], a sentence a line"],
    others: Annotated[
        LanguageFiles | None, "text of other languages to watch, LANG=FILE[,FILE], once a language"
    ] = None,
    native: Annotated[str | None, "a masked LM of the target language, equally deep, to measure distances to"] = None,
    plans: Annotated[str, "what trains: last:6, freeze:0, unfreeze:4/epoch, ...; several with commas"] = "freeze:0",
    seeds: Seeds = 1,
    held_out: Annotated[float, "share of the target's sentences for the test, and as many for validation"] = 0.1,
    epochs: Epochs = 3,
    batch: Batch = 8,
    rate: Rate = 5e-5,
    warm_up: WarmUp = 0.0,
    decay: DecayName = "linear",
    weight_decay: WeightDecay = 0.0,
    clip: Clip = 1.0,
    dropout: Annotated[bool, "the model's own dropout while it trains"] = True,
    probe: Annotated[int, "updates between readings of loss and perplexity"] = 50,
    distance: Annotated[int, "updates between readings of distances and retrieval"] = 250,
    words: Annotated[int, "words that distances are measured on; the paper's 16 sentences are read besides"] = 2000,
    attention: Annotated[bool, "distances of what attention adds in each layer, too"] = False,
    stop: Annotated[str, "never; early: perplexity no longer falls; balance: gain no longer outweighs loss"] = "never",
    patience: Annotated[int, "readings without improvement before stopping"] = 10,
    legacy: Annotated[
        str | None, f"defects of the original to repeat: {', '.join(DEFECTS)}; all; or each, to compare them"
    ] = None,
    checkpoint: CheckpointEvery = 500,
    save_every: Annotated[int | None, "updates between models that are kept, in RUN/models; default none"] = None,
    revision: Revision = None,
    seed: Seed = 0,
    sample_seed: Annotated[int | None, "seed of the masks and words that are measured on; default --seed"] = None,
    device: Device = "auto",
    dtype: TrainDtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Tune a model on one language and watch: perplexity there and elsewhere, and how far each layer moves.

    Example: isogloss drift mini --target nl=nl.txt --others en=en.txt --others de=de.txt --plans last:12,last:1
    """
    one_process("drift")
    place = choose_device(device)
    chosen, sets = plan_list(plans), parse_legacy(legacy)
    share = share_of("held_out", held_out, zero=False)
    corpora = read_corpora(target, others or [], share=share, batch=at_least("batch", batch, 1))
    if one_of("stop", stop, ("never", "early", "balance")) == "balance" and not corpora.others:
        raise InputError("--stop balance weighs the target against other languages; give them with --others")
    source, stack = load_masked_lm(model, revision, device=place)
    depth, epoch = stack.cuts[-1], math.ceil(len(corpora.train) / batch)
    for plan in chosen:
        frozen_at(plan, 0, depth=depth, epoch=epoch)
    half = half_precision(dtype, place)
    best = chosen_reading(corpora)
    elsewhere = {"target": "others", "unit": "token"}
    rules = {
        "early": Stopping(best, patience=patience),
        "balance": at_balance(best.where, elsewhere, patience=patience),
    }
    rule = rules.get(stop)
    choice: Choice = best if rule is None else rule.selection
    tuning = Tuning(
        model,
        revision,
        place,
        Settings(
            at_least("epochs", epochs, 1) * epoch,
            at_least("seed", seed, 0),
            optimisation(
                steps=epochs * epoch, rate=rate, warm_up=warm_up, decay=decay, weight_decay=weight_decay, clip=clip
            ),
            report=at_least("probe", probe, 1),
            half=half,
        ),
        batch,
        epoch,
        dropout,
        at_least("checkpoint", checkpoint, 1),
        choice,
        rule,
        None if save_every is None else at_least("save_every", save_every, 1),
    )
    how = Readings(
        probe,
        at_least("distance", distance, 1),
        at_least("words", words, 4),
        attention,
        sets[0],
        seed if sample_seed is None else at_least("sample_seed", sample_seed, 0),
        torch.bfloat16 if half else None,
    )
    parallel = parallel_texts(bitext, corpora.languages)
    names = _names(model, native)
    beside = None if native is None else _native(native, names[1], stack, place)
    numbers = range(seed, seed + at_least("seeds", seeds, 1))
    trainings = [(plan, defects, each) for plan in chosen for defects in sets for each in numbers]

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        watch = start_watch(stack, corpora, parallel, how, native=beside, progress=progress)
        unknown = unknown_notes(stack.tokenizer, (corpora.train, *corpora.others))
        for sentence in (*watch.text.notes, *unknown, *overlap_notes(corpora, parallel)):
            run.note(sentence)
        before = {"model": names[0], "plan": UNTUNED, "seed": seed}
        # Read now and given last: until the first rows are there, a mistake leaves no folder behind.
        untuned = [row(**{**before, **one}) for one in evaluate_untuned(watch, source, stack, beside)]
        for number, (plan, defects, each) in enumerate(trainings, 1):
            place = {"model": names[0], "plan": str(plan), "condition": legacy_condition(defects), "seed": each}
            stage = f"tuning {training_name(place)}, seed {each} ({number} of {len(trainings)})"
            if defects != watch.how.defects:
                watch = with_defects(watch, defects, native=beside)
            yield from tune(run, tuning, watch, plan=plan, place=place, progress=named(progress, stage))
        yield untuned
        yield from curve_rows(run, corpora, model=names[0])
        yield from effect_rows(run.rows)

    hashes: dict[str, Any] = {"model": fingerprint(source, stack), "data": corpora.fingerprints}
    hashes |= {} if beside is None else {"native": fingerprint(beside.model, beside.stack)}
    hashes |= {"bitext": [one.fingerprint for one in bitext]} if bitext else {}
    return Work(names[0], work, hashes, legacy_notes(sets), depth)


def _names(model: str | Path, native: str | None) -> tuple[str, str]:
    """What the two models are called: their folders' names, with the folder above where those are the same."""
    paths = [Path(str(one)) for one in (model, native or "")]
    for parts in (1, 2, 3):
        named = ["/".join(one.absolute().parts[-parts:]) if one.is_dir() else str(one) for one in paths]
        if named[0] != named[1]:
            break
    return named[0], named[1]


def _native(name: str, called: str, stack: Stack, place: torch.device) -> Native:
    model, beside = load_masked_lm(name, device=place)
    if beside.cuts != stack.cuts:
        raise InputError(
            f"the native model {name} has {beside.cuts[-1]} layers and {stack.name} has {stack.cuts[-1]}; layers are "
            "compared one by one, so choose one of the same depth"
        )
    return Native(model, beside, called)
