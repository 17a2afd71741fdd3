"""`isogloss drift`: fine-tune a language model on one language, and measure what happens to other languages and layers.

Hussain & Dudev (2020) fine-tune a multilingual model on Dutch. The measures during training are perplexity on held-out
text of that language and on text of others, the distance of every layer to a native model and to its own start, and
retrieval on parallel text. Every plan (which layers train, when) is run with every seed, one after the other. At the
end each best model is tested, and the steps are computed where the curves cross and where gain and loss balance best.

Sentences are held out by their hash (`isogloss.text.sampling.hash_fraction`), so the split depends neither on the order
of the file nor on a seed, and copies of a sentence are always in the same part. Masks and samples of words are drawn
with the run's first seed, so that the curves of all seeds and plans use the same tokens. A decoder predicts every token
from those before it, a masked LM predicts masked tokens; everything else is the same for both.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from isogloss.errors import InputError, require
from isogloss.measures.perplexity import balance_step, crossing, step_over_seeds
from isogloss.progress import listening, named, progress, silent
from isogloss.recipes import recipe, training_options
from isogloss.recipes.recipe import LanguageFile, LanguageFiles, Option, hidden
from isogloss.runs.run import Run
from isogloss.runs.table import START, UNTUNED, Row, frame, row, training_folder, training_name
from isogloss.seeds import seed_of
from isogloss.stack.edit import without_dropout
from isogloss.stack.load import choose_device, fingerprint, load_language_model, save_language_model
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
from isogloss.training.stopping import Choice, Rule, balance_of, select_by, stop_after

FIRST_BATCH = 16  # sentences in the batch on which Hussain & Dudev (2020) measure distances
EVERY_DISTANCE: tuple[Distance, ...] = ("l2", "cosine", "cka", "procrustes")
FEW_DISTANCES: tuple[Distance, ...] = ("l2", "cosine")  # 16 sentences hold fewer words than a layer has dimensions


@recipe.recipe
def drift(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    target: Annotated[LanguageFile, "text to fine-tune on, LANG=FILE[,FILE], one sentence per line"],
    others: Annotated[
        LanguageFiles | None, "evaluation text of other languages, LANG=FILE[,FILE], once per language"
    ] = None,
    native: Annotated[str | None, "a model of the target language of the same depth, to measure distances to"] = None,
    plans: Annotated[str, "what trains: last:6, freeze:0, unfreeze:4/epoch, ...; several with commas"] = "freeze:0",
    seeds: training_options.Seeds = 1,
    held_out: Annotated[recipe.PositiveShare, "share of the target's sentences for test, same for validation"] = 0.1,
    epochs: training_options.Epochs = 3,
    batch: training_options.Batch = 8,
    rate: training_options.Rate = 5e-5,
    warm_up: training_options.WarmUp = 0.0,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.0,
    clip: training_options.Clip = 1.0,
    dropout: Annotated[bool, "keep the model's dropout during training"] = True,
    probe: Annotated[recipe.PositiveInt | None, "updates between readings of loss and perplexity"] = 50,
    distance: Annotated[recipe.PositiveInt | None, "updates between readings of distances and retrieval"] = 250,
    words: Annotated[int, Option("words to measure distances on, besides the paper's 16 sentences", least=4)] = 2000,
    attention: Annotated[bool, "also measure distances of the attention output in each layer"] = False,
    stop: Annotated[
        Literal["never", "early", "balance"],
        "never; early: the perplexity no longer improves; balance: the balance no longer improves",
    ] = "never",
    patience: Annotated[int, "readings without improvement before stopping"] = 10,
    checkpoint: training_options.CheckpointEvery = 500,
    save_every: Annotated[recipe.PositiveInt | None, "updates between models saved in RUN/models; default none"] = None,
    revision: recipe.Revision = None,
    seed: recipe.Seed = 0,
    sample_seed: Annotated[recipe.Seed | None, "seed of the masks and words for evaluation; default --seed"] = None,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    condition: Annotated[str, hidden("value of the column `condition` in the rows of these trainings")] = "",
    attend_padding: Annotated[bool, hidden("give no attention mask, so that padding is read as text")] = False,
    read_first: Annotated[int | None, hidden("number of validation sentences that perplexity is measured on")] = None,
    redraw_masks: Annotated[bool, hidden("draw new masks for validation texts at each reading")] = False,
    keep_worst: Annotated[bool, hidden("keep the model with the worst reading as the best")] = False,
    by_position: Annotated[bool, hidden("measure distances by token position, including special tokens")] = False,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Fine-tune a model on one language and measure perplexity in all languages, and how far each layer moves.

    Example: isogloss drift mini --target nl=nl.txt --others en=en.txt --others de=de.txt --plans last:12,last:1
    """
    training_options.one_process("drift")
    hardware, chosen = choose_device(device), training_options.plan_list(plans)
    corpora = read_corpora(target, others or [], share=held_out, batch=batch)
    train, _, _, *watched = corpora
    languages = [train.language, *(corpus.language for corpus in watched)]
    weighs = "--stop balance weighs the target against other languages; give them with --others"
    require(watched or stop != "balance", weighs)
    parallel = training_options.parallel_texts(bitext, languages)
    stack = load_language_model(model, revision, dtype="float32", device=hardware)
    epoch = steps_in_epoch(train, batch)
    for plan in chosen:
        frozen_at(plan, 0, depth=stack.last, epoch=epoch)  # refuses a plan for a deeper model
    name, native_name = model_names(model, native)
    natives = {} if native is None else {native_name: load_native(native, stack)}
    steps, precision = epochs * epoch, training_options.autocast_dtype(dtype, hardware)
    schedule = Optimisation(rate, warm_up, decay, weight_decay, clip, *FINE_TUNING)
    selection = select_by("perplexity", target=train.language, data="validation", unit="token")
    if stop == "balance":
        selection = balance_of(selection, select_by("perplexity", target="others", unit="token"))
    shared = Drift(
        name=name,
        condition=condition,
        stack=stack,
        natives=natives,
        corpora=corpora,
        parallel=parallel,
        plans=chosen,
        seeds=range(seed, seed + seeds),
        settings=Settings(steps, seed, schedule, probe or steps, dtype=precision),
        batch=batch,
        dropout=dropout,
        selection=replace(selection, higher=not selection.higher) if keep_worst else selection,
        stop=None if stop == "never" else stop_after(selection, patience),
        checkpoint=checkpoint,
        save_every=save_every,
        distance=distance or steps,
        words=words,
        attention=attention,
        sample_seed=seed if sample_seed is None else sample_seed,
        attend_padding=attend_padding,
        read_first=read_first,
        redraw_masks=redraw_masks,
        by_position=by_position,
    )
    parts = ("train", "validation", "test", *languages[1:])
    hashes: dict[str, Any] = {"model": fingerprint(stack)}
    hashes["data"] = {part: text.fingerprint for part, text in zip(parts, corpora, strict=True)}
    for native_stack in natives.values():
        hashes["native"] = fingerprint(native_stack)
    hashes |= {"bitext": [text.fingerprint for text in bitext]} if bitext else {}
    return recipe.Work(name, partial(_rows_of_drift, shared), hashes, list(stack.notes), depth=stack.last)


@dataclass(frozen=True, kw_only=True)
class Drift:
    """What all trainings of a run share, and what is measured before, during and after them."""

    name: str  # of the model, in rows
    condition: str  # in rows
    stack: Stack  # the model to be tuned, with its language modelling head; a training changes a copy
    natives: Mapping[str, Stack]  # the native model, if there is one, by its name in rows
    corpora: Sequence[Corpus]  # as returned by `read_corpora`
    parallel: Sequence[Bitext]  # text for retrieval
    plans: Sequence[Plan]  # which layers are trained, and when; each is run with every seed
    seeds: range
    settings: Settings  # those with the first seed; loss and perplexity are read every `report` updates
    batch: int  # sentences in a batch
    dropout: bool  # whether the model's dropout is kept
    selection: Choice  # the reading by which the best model is chosen
    stop: Rule | None  # may end a training early
    checkpoint: int  # updates between checkpoints
    save_every: int | None  # updates between models that are saved besides the best one, None for none
    distance: int  # updates between readings of distances and retrieval
    words: int  # on which distances are measured
    attention: bool  # whether distances of the attention output of each layer are measured, too
    sample_seed: int  # of the masks and words for evaluation
    attend_padding: bool  # whether padding is read as text
    read_first: int | None  # sentences of a validation text that perplexity is measured on, None for all
    redraw_masks: bool  # whether each reading during training draws new masks
    by_position: bool  # whether distances are measured by token position


# --- text and models -------------------------------------------------------------------------------------------------


def read_corpora(
    target: str | Mapping[str, Any], others: Sequence[str] | Mapping[str, Any], *, share: float, batch: int
) -> list[Corpus]:
    """Training, validation and test sentences of the target language, then a corpus of each other language.

    Args:
        target: `LANG=FILE[,FILE]`, or a mapping from the language to its files.
        others: The same for the other languages.
        share: Share of the target's sentences in the test set, and in the validation set.
        batch: Batch size, which is the minimum number of training sentences.
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
    """Split a corpus into test, validation and training sentences.

    Sentences are sorted by their hash. The first share is the test set, the next as many are the validation set, and
    the rest, in the order of the corpus, is the training set. Test and validation sets stay sorted by hash, so that
    their first 16 sentences do not depend on the order of the file. They get a few more sentences where copies of one
    would otherwise be split.

    >>> test, validation, train = split(Corpus("en", ["a", "b", "c", "d", "e"]), 0.2)
    >>> test.sentences, validation.sentences, train.sentences
    (['a'], ['c'], ['b', 'd', 'e'])
    """
    hashes = [hash_fraction(sentence) for sentence in corpus]
    order = sorted(range(len(corpus)), key=hashes.__getitem__)

    def with_copies(count: int) -> int:
        """The count, increased until no copies of a sentence are split."""
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


def load_native(native: str, stack: Stack) -> Stack:
    """Load the native model, which must be of the same kind and depth as the model to be tuned, on the same device."""
    loaded = load_language_model(native, dtype="float32", device=stack.device)
    kinds = f"the native model {native} and {stack.name} are not both decoders; their perplexities differ in kind"
    require(loaded.causal == stack.causal, kinds)
    depths = f"the native model {native} has {loaded.last} layers and {stack.name} has {stack.last}"
    require(loaded.cuts == stack.cuts, f"{depths}; layers are compared one by one, so choose one of the same depth")
    return loaded


def model_names(model: str | Path, native: str | None) -> tuple[str, str]:
    """The names of the two models in rows: that of the folder or file, preceded by its parents if both are equal."""
    for levels in (1, 2, 3):
        name, native_name = (
            "/".join(path.absolute().parts[-levels:]) if path.exists() else str(path)
            for path in (Path(model), Path(native or ""))
        )
        if name != native_name:
            break
    return name, native_name


# --- all trainings ---------------------------------------------------------------------------------------------------


def _rows_of_drift(drift: Drift, run: Run) -> Iterator[Sequence[Row]]:
    """The rows of all trainings, of the models before training, and of the finished curves."""
    train, validation, test, *watched = drift.corpora
    texts = tokenise_corpora(drift.stack, drift.corpora)
    cut = [
        f"{own.shortened:,} of {len(own):,} sentences of {own.name} ({own.language}) were cut to the model's length"
        for own in texts
        if own.shortened
    ]
    unknown = recipe.tokenizer_notes(drift.stack.tokenizer, (train, *watched))
    for sentence in (*cut, *unknown, *overlap_notes(train, drift.parallel)):
        run.note(sentence)
    # Measured now and yielded last: an error before the first row leaves no run folder behind.
    progress("measuring before training", 0, 1)
    readings = [{"model": drift.name, **each} for each in perplexity(drift, drift.stack, texts[2:3]).take()]
    references: dict[str, list[Sample]] = {}
    for name, native in drift.natives.items():
        with listening(silent):
            own = tokenise_corpora(native, [validation, test])
        readings += [{"model": name, **each} for each in perplexity(drift, native, own).take()]
        references[name] = word_samples(drift, native)
    untuned = [row(**each, plan=UNTUNED, seed=drift.settings.seed) for each in readings]
    progress("measuring before training", 1, 1)
    trainings = list(product(drift.plans, drift.seeds))
    for position, (plan, seed) in enumerate(trainings, 1):
        coordinates = {"model": drift.name, "plan": str(plan), "condition": drift.condition, "seed": seed}
        stage = f"tuning {training_name(coordinates)}, seed {seed} ({position} of {len(trainings)})"
        yield from named(stage, _rows_of_training(drift, plan, coordinates, texts=texts, others=references, run=run))
    yield untuned
    yield from curve_rows(run, train.language, model=drift.name)


def tokenise_corpora(stack: Stack, corpora: Sequence[Corpus]) -> list[Sentences]:
    """Tokenise every corpus; one without any token that can be predicted is refused."""
    texts = [tokenise(stack.tokenizer, corpus, max_length=stack.max_length) for corpus in corpora]
    for text in texts:
        masking_of(stack.tokenizer, causal=stack.causal).count(text)  # raises if there is none
    return texts


def overlap_notes(train: Corpus, parallel: Sequence[Bitext]) -> list[str]:
    """Notes on parallel texts that contain training sentences: retrieval on them is not on new text."""
    tuned, notes = set(train.sentences), []
    for text in parallel:
        side = text[train.language].sentences if train.language in text.languages else []
        if same := sum(sentence in tuned for sentence in side):
            notes.append(
                f"{same:,} of {len(side):,} sentences of {text.name} ({train.language}) are also in the training text: "
                "retrieval there is not on new text"
            )
    return notes


def perplexity(
    drift: Drift,
    stack: Stack,
    texts: Sequence[Sentences],
    *,
    every: int = 1,
    limit: int | None = None,
    redraw: Callable[[], int] | None = None,
) -> Probe:
    """The perplexity of a stack's language model on texts; every, limit, redraw: as in `perplexity_probe`."""
    return perplexity_probe(
        stack.language_model,
        texts,
        every=every,
        seed=drift.sample_seed,
        masking=masking_of(stack.tokenizer, causal=stack.causal),
        device=stack.device,
        target=drift.corpora[0].language,
        dtype=drift.settings.dtype,
        limit=limit,
        attend_padding=drift.attend_padding,
        redraw=redraw,
    )


def word_samples(drift: Drift, stack: Stack) -> list[Sample]:
    """A stack's vectors of two samples of words: words of the validation text, and those of its first sentences."""
    validation = drift.corpora[1]
    first = validation.sentences[:FIRST_BATCH]
    batch = Corpus(validation.language, first, name=f"validation, first {len(first)}")
    parts: tuple[Part, ...] = ("states", "attention") if drift.attention else ("states",)
    how: dict[str, Any] = {"by_position": drift.by_position, "attend_padding": drift.attend_padding}
    samples = product(((validation, drift.words), (batch, None)), parts)
    return [
        sample_vectors(stack, corpus, seed=drift.sample_seed, words=count, part=part, **how)
        for (corpus, count), part in samples
    ]


# --- one training ----------------------------------------------------------------------------------------------------


def _rows_of_training(
    drift: Drift,
    plan: Plan,
    coordinates: Row,
    *,
    texts: Sequence[Sentences],
    others: Mapping[str, list[Sample]],
    run: Run,
) -> Iterator[list[Row]]:
    """The rows of one training; none if it was finished earlier.

    coordinates: model, plan, condition and seed, which all its rows have. texts: the tokenised corpora. others: vectors
    of other models to which distances are measured, by the name of the model in rows.
    """
    folder = run.folder / "checkpoints" / training_folder(coordinates)
    if finished(folder):
        return
    title, seed = training_name(coordinates), coordinates["seed"]
    tuned = copy.deepcopy(drift.stack.language_model)
    stack = replace(drift.stack, model=tuned.base_model, language_model=tuned)
    if not drift.dropout:
        without_dropout(tuned)
    before_update = apply_plan(stack, plan, epoch=steps_in_epoch(texts[0], drift.batch), seed=seed)
    settings, padding = replace(drift.settings, seed=seed), drift.attend_padding
    training = sentence_training(stack, texts[0], settings, batch=drift.batch, attend_padding=padding)
    probes = list(_probes_of_training(drift, training, stack, texts=texts, others=others))
    for note in dict.fromkeys(note for probe in probes for note in probe.notes):
        run.note(note)
    export = partial(save_language_model, tuned, stack.tokenizer)
    if drift.save_every is not None:
        about = {"model": stack.name, "plan": title, "seed": seed}
        models = run.folder / "models" / folder.name
        probes.append(saved_models(training, models, export, every=drift.save_every, about=about))
    yield from training_options.training_rows(
        training,
        coordinates,
        loss={"data": "train"},
        checkpoints=Checkpoints(folder, export, drift.checkpoint),
        probes=probes,
        plan=before_update,
        selection=drift.selection,
        stop=drift.stop,
    )
    if training.stopped:
        run.note(f"{title}, seed {seed}: stopped at step {training.step}, {training.stopped}")
    if training.best_weights is None:
        raise InputError(f"{title}, seed {seed}: no perplexity was a number; take another model or --dtype")
    put_weights(tuned, training.best_weights)
    readings = perplexity(drift, stack, texts[2:3]).take()
    yield [row(**{**each, **coordinates, "step": training.best_step}) for each in readings]
    finish(folder)


def sentence_training(
    stack: Stack, sentences: Sentences, settings: Settings, *, batch: int, attend_padding: bool
) -> Training:
    """The training of a language model on sentences, several of them packed into a row if the model allows it.

    Packing means less padding and few tensor shapes, so that updates on a GPU can be replayed as CUDA graphs.
    """
    table, masking = stack.tables and not attend_padding, masking_of(stack.tokenizer, causal=stack.causal)
    how: dict[str, Any] = {"attend_padding": attend_padding, "table": table, "masking": masking}
    model, device = stack.language_model, stack.device
    objective = sentence_modelling(model, sentences, batch=batch, seed=settings.seed, device=device, **how)
    return Training(model, objective, settings, join(device))


def _probes_of_training(
    drift: Drift, training: Training, stack: Stack, *, texts: Sequence[Sentences], others: Mapping[str, list[Sample]]
) -> Iterator[Probe]:
    """The probes of one training of a stack: perplexity with the loss; distances and retrieval less often.

    They are created before a checkpoint is restored, so that distances to the start are always to step 0.
    """
    read, every = [texts[1], *texts[3:]], drift.settings.report
    redraw = (lambda: seed_of(training.settings.seed, "redrawn", training.step)) if drift.redraw_masks else None
    yield perplexity(drift, stack, read, every=every, limit=drift.read_first, redraw=redraw)
    references = {START: word_samples(drift, stack), **others}
    for samples in zip(*references.values(), strict=True):
        for other, sample in zip(references, samples, strict=True):
            # The first sentences, as in the paper, have too few words for CKA, which alone compares different widths.
            many = sample.corpus.name == "validation"
            if many or sample.values.shape[2] == stack.width:
                measures = EVERY_DISTANCE if many else FEW_DISTANCES
                yield distance_probe(stack, sample, every=drift.distance, other=other, measures=measures)
    if drift.parallel:
        yield retrieval_probe(lambda _: stack, drift.parallel, every=drift.distance)


# --- statistics of the finished curves -------------------------------------------------------------------------------


def curve_rows(run: Run, language: str, *, model: str) -> Iterator[Sequence[Row]]:
    """The steps where the target's curve crosses that of the others, and of the best balance, over seeds of each plan.

    Curves that do not cross have no row; a note of the run says so. language: the language of the training text.
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
