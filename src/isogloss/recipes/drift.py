"""`isogloss drift`: fine-tune a language model on one language, and watch what happens to the others and to each layer.

Hussain & Dudev (2020) tune a multilingual model on Dutch. While it trains, perplexity is taken on held-out text of that
language and on text of others, the distance of every layer to a native model and to its own start, and retrieval on
parallel text. Every plan (which layers train, when) is run with every seed, one after the other; at the end each one's
best model is tested, and the steps where the curves cross and where gain and loss balance best are worked out.

Which sentences are held out is decided by the sentences themselves (`isogloss.text.sampling.hash_fraction`), so neither
the order of the file nor a seed changes it, and copies of a sentence are never on both sides. Masks and samples of the
measures are drawn from the run's first seed, whatever seed a training has, so that curves of different seeds and plans
are of the same tokens. A decoder predicts every token from those before it, a masked LM masked tokens; all else is the
same for both.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import torch

from isogloss.errors import InputError, require
from isogloss.measures.perplexity import balance_step, crossing, step_over_seeds
from isogloss.progress import listening, named, progress, silent
from isogloss.recipes import recipe, training_options
from isogloss.recipes.recipe import LanguageFile, LanguageFiles, Option, hidden
from isogloss.runs.run import Run
from isogloss.runs.table import START, UNTUNED, Row, frame, row, training_folder, training_name
from isogloss.seeds import seed_of
from isogloss.stack.edit import without_dropout
from isogloss.stack.load import choose_device, fingerprint, load_trainable, save_language_model
from isogloss.stack.stack import Part, Stack
from isogloss.text.batches import Sentences, tokenise
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.masking import masking_of
from isogloss.text.readers.parallel import joined_corpus
from isogloss.text.sampling import hash_fraction
from isogloss.training.checkpoints import Checkpoints, finish, finished, put_weights
from isogloss.training.distances import Distance, Sample, distance_probe, sample_vectors
from isogloss.training.language_modelling import sentence_modelling
from isogloss.training.loop import FINE_TUNING, Optimisation, Settings, Training, join, saved_models, steps_in_epoch
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.plans import Plan, apply_plan, frozen_at
from isogloss.training.probes import Probe, retrieval_probe
from isogloss.training.stopping import balance_of, select_by, stop_after

FIRST_BATCH = 16  # sentences of the batch that Hussain & Dudev (2020) measure distances on
EVERY_DISTANCE: tuple[Distance, ...] = ("l2", "cosine", "cka", "procrustes")
FEW_DISTANCES: tuple[Distance, ...] = ("l2", "cosine")  # 16 sentences hold fewer words than a layer has directions


@recipe.recipe
def drift(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    target: Annotated[LanguageFile, "text to tune on, LANG=FILE[,FILE], a sentence a line"],
    others: Annotated[
        LanguageFiles | None, "text of other languages to watch, LANG=FILE[,FILE], once a language"
    ] = None,
    native: Annotated[str | None, "a model of the target language, equally deep, to measure distances to"] = None,
    plans: Annotated[str, "what trains: last:6, freeze:0, unfreeze:4/epoch, ...; several with commas"] = "freeze:0",
    seeds: training_options.Seeds = 1,
    held_out: Annotated[recipe.PositiveShare, "share of the target's sentences for test, as many for validation"] = 0.1,
    epochs: training_options.Epochs = 3,
    batch: training_options.Batch = 8,
    rate: training_options.Rate = 5e-5,
    warm_up: training_options.WarmUp = 0.0,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.0,
    clip: training_options.Clip = 1.0,
    dropout: Annotated[bool, "the model's own dropout while it trains"] = True,
    probe: Annotated[recipe.PositiveInt | None, "updates between readings of loss and perplexity"] = 50,
    distance: Annotated[recipe.PositiveInt | None, "updates between readings of distances and retrieval"] = 250,
    words: Annotated[int, Option("words to measure distances on, besides the paper's 16 sentences", least=4)] = 2000,
    attention: Annotated[bool, "distances of what attention adds in each layer, too"] = False,
    stop: Annotated[
        Literal["never", "early", "balance"],
        "never; early: perplexity no longer falls; balance: gain no longer outweighs loss",
    ] = "never",
    patience: Annotated[int, "readings without improvement before stopping"] = 10,
    checkpoint: training_options.CheckpointEvery = 500,
    save_every: Annotated[recipe.PositiveInt | None, "updates between models kept in RUN/models; default none"] = None,
    revision: recipe.Revision = None,
    seed: recipe.Seed = 0,
    sample_seed: Annotated[recipe.Seed | None, "seed of masks and words that are measured on; default --seed"] = None,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    condition: Annotated[str, hidden("what rows say of these trainings")] = "",
    attend_padding: Annotated[bool, hidden("give no attention mask, so that padding is read as text")] = False,
    read_first: Annotated[int | None, hidden("sentences of a validation text that perplexity is read on")] = None,
    redraw_masks: Annotated[bool, hidden("draw the masks of validation texts anew at each reading")] = False,
    keep_worst: Annotated[bool, hidden("keep the model with the worst reading as the best")] = False,
    by_position: Annotated[bool, hidden("measure distances of positions, special tokens among them")] = False,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Tune a model on one language and watch: perplexity there and elsewhere, and how far each layer moves.

    Example: isogloss drift mini --target nl=nl.txt --others en=en.txt --others de=de.txt --plans last:12,last:1
    """
    training_options.one_process("drift")
    hardware, chosen = choose_device(device), training_options.plan_list(plans)
    corpora = read_corpora(target, others or [], share=held_out, batch=batch)
    train, validation, _, *watched = corpora
    languages = [train.language, *(corpus.language for corpus in watched)]
    weighs = "--stop balance weighs the target against other languages; give them with --others"
    require(watched or stop != "balance", weighs)
    parallel = training_options.parallel_texts(bitext, languages)
    source, stack = load_trainable(model, revision, device=hardware)
    depth, epoch = stack.cuts[-1], steps_in_epoch(train, batch)
    for plan in chosen:
        frozen_at(plan, 0, depth=depth, epoch=epoch)  # refuses a plan for a deeper model
    native_model, native_stack = (None, None) if native is None else load_trainable(native, device=stack.device)
    if native_stack is not None:
        other_kind = (
            f"the native model {native} and {stack.name} are not both decoders; their perplexities differ in kind"
        )
        require(native_stack.causal == stack.causal, other_kind)
    if native_stack is not None and native_stack.cuts != stack.cuts:
        raise InputError(
            f"the native model {native} has {native_stack.cuts[-1]} layers and {stack.name} has {depth}; layers are "
            "compared one by one, so choose one of the same depth"
        )
    name, native_name = model_names(model, native)
    steps, half = epochs * epoch, training_options.half_precision(dtype, hardware)
    report, far = probe or steps, distance or steps
    schedule = Optimisation(rate, round(warm_up * steps), decay, weight_decay, clip, *FINE_TUNING)
    selection = select_by("perplexity", target=languages[0], data="validation", unit="token")
    if stop == "balance":
        selection = balance_of(selection, select_by("perplexity", target="others", unit="token"))
    rule = None if stop == "never" else stop_after(selection, patience)
    best_by = replace(selection, higher=not selection.higher) if keep_worst else selection
    drawn_from = seed if sample_seed is None else sample_seed
    masking = masking_of(stack.tokenizer, causal=stack.causal)
    reading: dict[str, Any] = {"target": languages[0], "seed": drawn_from, "masking": masking}
    reading |= {"device": hardware, "dtype": torch.bfloat16 if half else None, "attend_padding": attend_padding}
    sampling: dict[str, Any] = {"validation": validation, "words": words, "attention": attention, "seed": drawn_from}
    sampling |= {"by_position": by_position, "attend_padding": by_position and attend_padding}

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        texts = tokenise_corpora(stack, corpora)
        cut = [
            f"{own.shortened:,} of {len(own):,} sentences of {own.name} ({own.language}) were cut to the model's length"
            for own in texts
            if own.shortened
        ]
        unknown = recipe.unknown_notes(stack.tokenizer, (train, *watched))
        for sentence in (*cut, *unknown, *overlap_notes(train, parallel)):
            run.note(sentence)
        # Measured now and yielded last: until the first rows are there, a mistake leaves no folder behind.
        progress("measuring before training", 0, 1)
        test: Callable[..., Probe] = partial(perplexity_probe, corpora=texts[2:3], every=1, **reading)
        readings = [{"model": name, **each} for each in test(source).take()]
        natives: dict[str, list[Sample]] = {}  # what distances are measured to besides the start
        if native_stack is not None:
            with listening(silent):
                own = tokenise_corpora(native_stack, corpora[1:3])
            native_masking = masking_of(native_stack.tokenizer, causal=native_stack.causal)
            tested = test(native_model, corpora=own, masking=native_masking).take()
            readings += [{"model": native_name, **each} for each in tested]
            natives[native_name] = word_samples(native_stack, **sampling)
        untuned = [row(**each, plan=UNTUNED, seed=seed) for each in readings]
        progress("measuring before training", 1, 1)

        def probes(training: Training, tuned: Stack) -> Iterator[Probe]:
            """What is read while a model is tuned: perplexity with the loss; distances and retrieval less often.

            Made before a checkpoint is restored: distances to the start are to step 0, wherever a resumed run goes on.
            """
            redraw = (lambda: seed_of(training.settings.seed, "redrawn", training.step)) if redraw_masks else None
            taken: dict[str, Any] = {"every": report, "limit": read_first, "redraw": redraw, **reading}
            yield perplexity_probe(training.model, [texts[1], *texts[3:]], **taken)
            references = {START: word_samples(tuned, **sampling), **natives}
            for samples in zip(*references.values(), strict=True):
                for other, sample in zip(references, samples, strict=True):
                    # On the first sentences, as in the paper, there are too few words for measures of directions.
                    measures = EVERY_DISTANCE if sample.corpus.name == "validation" else FEW_DISTANCES
                    yield distance_probe(tuned, sample, every=far, other=other, measures=measures)
            if parallel:
                yield retrieval_probe(lambda _: tuned, parallel, every=far)

        def tune(plan: Plan, coordinates: Row) -> Iterator[list[Row]]:
            """The rows of one training; none where it was finished earlier."""
            number, title = coordinates["seed"], training_name(coordinates)
            folder = run.folder / "checkpoints" / training_folder(coordinates)
            if finished(folder):
                return
            tuned = copy.deepcopy(source)
            own = replace(stack, model=tuned.base_model, language_model=tuned)
            if not dropout:
                without_dropout(tuned)
            settings = Settings(steps, number, schedule, report, half=half)
            planned = apply_plan(own, plan, epoch=epoch, seed=number)
            training = sentence_training(tuned, own, texts[0], settings, batch=batch, attend_padding=attend_padding)
            taken = list(probes(training, own))
            for sentence in dict.fromkeys(note for each in taken for note in each.notes):
                run.note(sentence)
            export = partial(save_language_model, tuned, own.tokenizer)
            if save_every is not None:
                about = {"model": str(model), "plan": title, "seed": number}
                kept = run.folder / "models" / folder.name
                taken.append(saved_models(training, kept, export, every=save_every, about=about))
            how: dict[str, Any] = {"checkpoints": Checkpoints(folder, export, checkpoint), "probes": taken}
            how |= {"loss": {"data": "train"}, "plan": planned, "selection": best_by, "stop": rule}
            yield from training_options.training_rows(training, coordinates, **how)
            if training.stopped:
                run.note(f"{title}, seed {number}: stopped at step {training.step}, {training.stopped}")
            if training.best_weights is None:
                raise InputError(f"{title}, seed {number}: no perplexity was a number; take another model or --dtype")
            put_weights(tuned, training.best_weights)
            yield [row(**{**each, **coordinates, "step": training.best_step}) for each in test(tuned).take()]
            finish(folder)

        trainings = list(product(chosen, range(seed, seed + seeds)))
        for position, (plan, number) in enumerate(trainings, 1):
            coordinates = {"model": name, "plan": str(plan), "condition": condition, "seed": number}
            stage = f"tuning {training_name(coordinates)}, seed {number} ({position} of {len(trainings)})"
            yield from named(stage, tune(plan, coordinates))
        yield untuned
        yield from curve_rows(run, languages[0], model=name)

    parts = ("train", "validation", "test", *languages[1:])
    hashes: dict[str, Any] = {"model": fingerprint(source, stack)}
    hashes["data"] = {part: text.fingerprint for part, text in zip(parts, corpora, strict=True)}
    hashes |= {} if native_stack is None else {"native": fingerprint(native_model, native_stack)}
    hashes |= {"bitext": [text.fingerprint for text in bitext]} if bitext else {}
    return recipe.Work(name, rows, hashes, list(stack.notes), depth=depth)


def model_names(model: str | Path, native: str | None) -> tuple[str, str]:
    """What rows call the two models: a folder or file by its name, with those above it where both are called alike."""
    for levels in (1, 2, 3):
        name, native_name = (
            "/".join(path.absolute().parts[-levels:]) if path.exists() else str(path)
            for path in (Path(model), Path(native or ""))
        )
        if name != native_name:
            break
    return name, native_name


# --- one training ----------------------------------------------------------------------------------------------------


def sentence_training(
    model: Any, stack: Stack, sentences: Sentences, settings: Settings, *, batch: int, attend_padding: bool
) -> Training:
    """The training of a model on sentences, several to a row where they can be: less padding, and few shapes.

    So updates on a GPU can be replayed as CUDA graphs.
    """
    table = stack.tables and not attend_padding
    how: dict[str, Any] = {"attend_padding": attend_padding, "table": table}
    how["masking"] = masking_of(stack.tokenizer, causal=stack.causal)
    objective = sentence_modelling(model, sentences, batch=batch, seed=settings.seed, device=stack.device, **how)
    return Training(model, objective, settings, join(stack.device))


def word_samples(stack: Stack, *, validation: Corpus, words: int, attention: bool, **how: Any) -> list[Sample]:
    """A stack's vectors of two samples of words: words of the validation text, and those of its first sentences.

    words: the size of the first sample. attention: whether to read what attention adds in each layer, besides the
    states. how: more arguments of `sample_vectors`.
    """
    first = validation.sentences[:FIRST_BATCH]
    batch = Corpus(validation.language, first, name=f"validation, first {len(first)}")
    parts: tuple[Part, ...] = ("states", "attention") if attention else ("states",)
    samples = product(((validation, words), (batch, None)), parts)
    return [sample_vectors(stack, corpus, words=count, part=part, **how) for (corpus, count), part in samples]


# --- text ------------------------------------------------------------------------------------------------------------


def read_corpora(
    target: str | Mapping[str, Any], others: Sequence[str] | Mapping[str, Any], *, share: float, batch: int
) -> list[Corpus]:
    """Training, validation and test sentences of the target language, then a corpus of each other language.

    Args:
        target: `LANG=FILE[,FILE]`, or the files by their language.
        others: the same, once a language.
        share: of the target's sentences, for the test, and as many for the validation.
        batch: the fewest sentences to train on.
    """
    targets = recipe.language_files([target] if isinstance(target, str) else target, option="target")
    require(len(targets) == 1, f"--target is one language, LANG=FILE, not {len(targets)} ({', '.join(targets)})")
    watched = recipe.language_files(others, option="others")
    ((language, files),) = targets.items()
    if language in watched:
        raise InputError(f"--others has text of {language}, the language of --target; it is for other languages")
    whole = joined_corpus(language, files)
    test, validation, train = split(whole, share)
    few = f"{whole.name} has {len(whole):,} sentences, {len(train):,} of them to train on, fewer than one batch of"
    require(len(train) >= batch, f"{few} {batch}; give more sentences, or a smaller --batch or --held-out")
    return [train, validation, test, *(joined_corpus(code, paths) for code, paths in watched.items())]


def split(corpus: Corpus, share: float) -> tuple[Corpus, Corpus, Corpus]:
    """Test, validation and training sentences of a corpus, named so.

    Sorted by the hash of each sentence, the first share is the test, the next as many the validation, the rest in its
    own order the training text. Test and validation stay in the order of their hashes, so that the first 16 of them are
    the same whatever the order of the file. A few more than the share go there where copies of a sentence would be
    parted.

    >>> test, validation, train = split(Corpus("en", ["a", "b", "c", "d", "e"]), 0.2)
    >>> test.sentences, validation.sentences, train.sentences
    (['a'], ['c'], ['b', 'd', 'e'])
    """
    hashes = [hash_fraction(sentence) for sentence in corpus]
    order = sorted(range(len(corpus)), key=hashes.__getitem__)

    def with_copies(count: int) -> int:
        """The count, or a few more so that no copies of a sentence are parted."""
        while 0 < count < len(order) and hashes[order[count]] == hashes[order[count - 1]]:
            count += 1
        return count

    wanted = round(share * len(corpus))
    first = with_copies(wanted)
    second = with_copies(first + wanted)
    require(
        0 < first < second,
        f"{corpus.name or corpus.language} has {len(corpus)} sentences, too few to hold out {share:g} of them twice; "
        "give more sentences or a larger --held-out",
    )
    parts = {"test": order[:first], "validation": order[first:second], "train": sorted(order[second:])}
    test, validation, train = (
        Corpus(corpus.language, [corpus.sentences[number] for number in numbers], name=name)
        for name, numbers in parts.items()
    )
    return test, validation, train


def overlap_notes(train: Corpus, parallel: Sequence[Bitext]) -> list[str]:
    """Which parallel texts have sentences that are tuned on: their retrieval is not of new text."""
    tuned, notes = set(train.sentences), []
    for text in parallel:
        side = text[train.language].sentences if train.language in text.languages else []
        if same := sum(sentence in tuned for sentence in side):
            notes.append(
                f"{same:,} of {len(side):,} sentences of {text.name} ({train.language}) are tuned on, too: "
                "retrieval there is not of new text"
            )
    return notes


def tokenise_corpora(stack: Stack, corpora: Sequence[Corpus]) -> list[Sentences]:
    """Every corpus as ids of the stack's tokenizer; one in which nothing can be predicted is refused."""
    texts = [tokenise(stack.tokenizer, corpus, max_length=stack.max_length) for corpus in corpora]
    for text in texts:
        masking_of(stack.tokenizer, causal=stack.causal).count(text)  # refuses one without any
    return texts


# --- what the curves say at the end ----------------------------------------------------------------------------------


def curve_rows(run: Run, language: str, *, model: str) -> Iterator[Sequence[Row]]:
    """Where the target's curve crosses that of the others, and the best balance of both, over the seeds of each plan.

    Curves that do not cross have no row; a note of the run says so. language: the one that was tuned on.
    """
    table = frame(run.rows)
    is_curve = (table["measure"] == "perplexity") & table["step"].notna() & table["unit"].isin(("token", "character"))
    for (plan, condition, unit), readings in table[is_curve].groupby(["plan", "condition", "unit"], sort=False):
        is_target = (readings["target"] == language) & (readings["data"] == "validation")
        target, others = (
            readings[chosen].groupby(["seed", "step"])["value"].last().unstack()  # NaN where a seed was not read
            for chosen in (is_target, readings["target"] == "others")
        )
        if others.empty:
            continue
        others = others.reindex(index=target.index, columns=target.columns)
        curves = target.columns.to_numpy(float), target.to_numpy(), others.to_numpy()
        crossed, balanced = (step_over_seeds(step_of, *curves) for step_of in (crossing, balance_step))
        if crossed is None or crossed.n < len(target):
            which = "" if crossed is None else f" in {len(target) - crossed.n} of {len(target)} seeds"
            name = training_name({"plan": plan, "condition": condition})
            run.note(f"{name}: the curves of {language} and the others per {unit} do not cross{which}")
        coordinates = {"model": model, "plan": plan, "condition": condition, "unit": unit, "target": language}
        rows = []
        for measure, step in (("crossing_step", crossed), ("balance_step", balanced)):
            if step is not None:
                rows.append(row(measure, step, over="seeds", **coordinates))
        yield rows
