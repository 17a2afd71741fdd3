"""`isogloss drift`: fine-tune a masked LM on one language, and watch what happens to the others and to each layer.

Hussain & Dudev (2020) tune a multilingual model on Dutch. While it trains, perplexity is taken on held-out text of that
language and on text of others, the distance of every layer to a native model and to its own start, and retrieval on
parallel text. Every plan (which layers train, when) is run with every seed, one after the other; at the end each one's
best model is tested, and the steps where the curves cross and where gain and loss balance best are worked out.

Which sentences are held out is decided by the sentences themselves (`isogloss.text.sampling.hash_fraction`), so neither
the order of the file nor a seed changes it, and copies of a sentence are never on both sides. Masks and samples of the
measures are drawn from the run's first seed, whatever seed a training has, so that curves of different seeds and plans
are of the same tokens.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import torch

from isogloss.errors import InputError
from isogloss.measures.perplexity import balance_interval, crossing_interval
from isogloss.progress import Progress, named, silent
from isogloss.recipes.kept_models import FOLDER
from isogloss.recipes.legacy import (
    DEFECTS,
    Protocol,
    Worst,
    effect_rows,
    legacy_condition,
    legacy_notes,
    parse_legacy,
    protocol_with,
)
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
    interval_of,
    joined_corpus,
    language_files,
    one_of,
    one_process,
    optimisation,
    parallel_texts,
    plan_list,
    recipe,
    share_of,
)
from isogloss.runs.run import Run
from isogloss.runs.table import START, UNTUNED, Row, frame, row, training_folder, training_name
from isogloss.seeds import seed_of
from isogloss.stack.edit import without_dropout
from isogloss.stack.load import choose_device, load_masked_lm, save_masked_lm
from isogloss.stack.stack import Part, Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.sampling import hash_fraction
from isogloss.text.words import unknown_notes
from isogloss.training.cuda_graphs import Captured, drops_attention
from isogloss.training.distances import Distance, Sampled, distance_probe, own_start
from isogloss.training.heads import fingerprint
from isogloss.training.loop import Settings, Training
from isogloss.training.masked_lm import Sentences, masked_sentences, masking_of, sentence_perplexity_probe, tokenise
from isogloss.training.plans import Plan, apply_plan, frozen_at
from isogloss.training.probes import Probe, Reading, retrieval_probe
from isogloss.training.processes import join
from isogloss.training.resumable import Resumable, SavedModels
from isogloss.training.stopping import Choice, Selection, Stopping, at_balance

FIRST_BATCH = 16  # sentences of the batch that Hussain & Dudev (2020) measure distances on
EVERY_DISTANCE: tuple[Distance, ...] = ("l2", "cosine", "cka", "procrustes")
FEW_DISTANCES: tuple[Distance, ...] = ("l2", "cosine")  # 16 sentences hold fewer words than a layer has directions


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
    probe: Annotated[int | None, "updates between readings of loss and perplexity"] = 50,
    distance: Annotated[int | None, "updates between readings of distances and retrieval"] = 250,
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
    hardware = choose_device(device)
    chosen, sets = plan_list(plans), parse_legacy(legacy)
    share = share_of("held_out", held_out, zero=False)
    corpora = read_corpora(target, others or [], share=share, batch=at_least("batch", batch, 1))
    if one_of("stop", stop, ("never", "early", "balance")) == "balance" and not corpora.others:
        raise InputError("--stop balance weighs the target against other languages; give them with --others")
    source, stack = load_masked_lm(model, revision, device=hardware)
    depth, epoch = stack.cuts[-1], math.ceil(len(corpora.train) / batch)
    for plan in chosen:
        frozen_at(plan, 0, depth=depth, epoch=epoch)
    steps, half = at_least("epochs", epochs, 1) * epoch, half_precision(dtype, hardware)
    schedule = optimisation(steps=steps, rate=rate, warm_up=warm_up, decay=decay, weight_decay=weight_decay, clip=clip)
    report = interval_of("probe", probe, steps)
    validation = Selection("perplexity", {"target": corpora.language, "data": "validation", "unit": "token"})
    stopping = Stopping(validation, patience=patience) if stop == "early" else None
    if stop == "balance":
        stopping = at_balance(validation.where, {"target": "others", "unit": "token"}, patience=patience)
    tuning = Tuning(
        model=model,
        revision=revision,
        device=hardware,
        settings=Settings(steps, at_least("seed", seed, 0), schedule, report=report, half=half),
        batch=batch,
        epoch=epoch,
        dropout=dropout,
        checkpoint=at_least("checkpoint", checkpoint, 1),
        selection=validation if stopping is None else stopping.selection,
        stopping=stopping,
        save_every=None if save_every is None else at_least("save_every", save_every, 1),
    )
    name, native_name = _names(model, native)
    parallel = parallel_texts(bitext, corpora.languages)
    own = None if native is None else _load_native(native, native_name, stack, hardware)
    start_watch = partial(
        Watch,
        corpora=corpora,
        parallel=parallel,
        native=own,
        perplexity=report,
        distance=interval_of("distance", distance, steps),
        words=at_least("words", words, 4),
        attention=attention,
        seed=seed if sample_seed is None else at_least("sample_seed", sample_seed, 0),
        dtype=torch.bfloat16 if half else None,
        protocol=protocol_with(sets[0]),
    )
    seed_numbers = range(seed, seed + at_least("seeds", seeds, 1))
    trainings = [(plan, defects, number) for plan in chosen for defects in sets for number in seed_numbers]

    def rows(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        watch = start_watch(text=tokenise_corpora(stack, corpora, progress=progress))
        unknown = unknown_notes(stack.tokenizer, (corpora.train, *corpora.others))
        for sentence in (*watch.text.notes, *unknown, *overlap_notes(corpora, parallel)):
            run.note(sentence)
        before = {"model": name, "plan": UNTUNED, "seed": seed}
        # Measured now and yielded last: until the first rows are there, a mistake leaves no folder behind.
        untuned = [row(**{**before, **reading}) for reading in evaluate_untuned(watch, source, stack)]
        for position, (plan, defects, number) in enumerate(trainings, 1):
            coordinates = {"model": name, "plan": str(plan), "condition": legacy_condition(defects), "seed": number}
            stage = f"tuning {training_name(coordinates)}, seed {number} ({position} of {len(trainings)})"
            watch = replace(watch, protocol=protocol_with(defects))
            yield from tune(run, tuning, watch, plan=plan, coordinates=coordinates, progress=named(progress, stage))
        yield untuned
        yield from curve_rows(run, corpora.language, model=name)
        yield from effect_rows(run.rows)

    texts = (corpora.train, corpora.validation, corpora.test, *corpora.others)
    named_texts = zip(("train", "validation", "test", *corpora.languages[1:]), texts, strict=True)
    hashes: dict[str, Any] = {"model": fingerprint(source, stack)}
    hashes["data"] = {part: text.fingerprint for part, text in named_texts}
    hashes |= {} if own is None else {"native": fingerprint(own.model, own.stack)}
    hashes |= {"bitext": [text.fingerprint for text in bitext]} if bitext else {}
    return Work(name, rows, hashes, legacy_notes(sets), depth)


def _names(model: str | Path, native: str | None) -> tuple[str, str]:
    """What the two models are called: their folders' names, with the folder above where those are the same."""
    paths = [Path(str(path)) for path in (model, native or "")]
    for parts in (1, 2, 3):
        names = ["/".join(path.absolute().parts[-parts:]) if path.is_dir() else str(path) for path in paths]
        if names[0] != names[1]:
            break
    return names[0], names[1]


# --- text ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpora:
    """Training, validation and test sentences of the target language, and a corpus of each other language."""

    train: Corpus
    validation: Corpus
    test: Corpus
    others: tuple[Corpus, ...] = ()

    @property
    def language(self) -> str:
        """The language that is tuned on."""
        return self.train.language

    @property
    def languages(self) -> list[str]:
        """That language first, then the others in the order given."""
        return [self.language, *(corpus.language for corpus in self.others)]


def read_corpora(
    target: str | Mapping[str, Any], others: Sequence[str] | Mapping[str, Any], *, share: float, batch: int
) -> Corpora:
    """Read the text of a drift run.

    Args:
        target: `LANG=FILE[,FILE]`, or the files by their language.
        others: the same, once a language.
        share: of the target's sentences, for the test, and as many for the validation.
        batch: the fewest sentences to train on.

    """
    targets = language_files([target] if isinstance(target, str) else target, option="target")
    if len(targets) != 1:
        raise InputError(f"--target is one language, LANG=FILE, not {len(targets)} ({', '.join(targets)})")
    watched = language_files(others, option="others")
    ((language, files),) = targets.items()
    if language in watched:
        raise InputError(f"--others has text of {language}, the language of --target; it is for other languages")
    whole = joined_corpus(language, files)
    test, validation, train = split(whole, share)
    if len(train) < batch:
        raise InputError(
            f"{whole.name} has {len(whole):,} sentences, {len(train):,} of them to train on, fewer than one batch of "
            f"{batch}; give more sentences, or a smaller --batch or --held-out"
        )
    return Corpora(train, validation, test, tuple(joined_corpus(code, paths) for code, paths in watched.items()))


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
    if not 0 < first < second:
        raise InputError(
            f"{corpus.name or corpus.language} has {len(corpus)} sentences, too few to hold out {share:g} of them "
            "twice; give more sentences or a larger --held-out"
        )
    parts = {"test": order[:first], "validation": order[first:second], "train": sorted(order[second:])}
    test, validation, train = (
        Corpus(corpus.language, [corpus.sentences[number] for number in numbers], name=name)
        for name, numbers in parts.items()
    )
    return test, validation, train


def overlap_notes(corpora: Corpora, parallel: Sequence[Bitext]) -> list[str]:
    """Which parallel texts have sentences that are tuned on: their retrieval is not of new text."""
    tuned, notes = set(corpora.train.sentences), []
    for text in parallel:
        side = text[corpora.language].sentences if corpora.language in text.languages else []
        if same := sum(sentence in tuned for sentence in side):
            notes.append(
                f"{same:,} of {len(side):,} sentences of {text.name} ({corpora.language}) are tuned on, too: "
                "retrieval there is not of new text"
            )
    return notes


@dataclass(frozen=True)
class Tokenised:
    """The same sentences as ids of one tokenizer, and what masking them needs: mask_id, marks, pool."""

    train: Sentences | None
    validation: Sentences
    test: Sentences
    others: tuple[Sentences, ...]
    masking: Mapping[str, Any]

    @property
    def all(self) -> list[Sentences]:
        """Every text that was tokenised."""
        return [text for text in (self.train, self.validation, self.test, *self.others) if text is not None]

    @property
    def notes(self) -> list[str]:
        """Which texts have sentences that were cut to the model's length."""
        return [
            f"{text.shortened:,} of {len(text):,} sentences of {text.name} ({text.language}) were cut to the model's "
            "length"
            for text in self.all
            if text.shortened
        ]


def tokenise_corpora(stack: Stack, corpora: Corpora, *, native: bool = False, progress: Progress = silent) -> Tokenised:
    """Every corpus as ids of the stack's tokenizer; native: only what a native model is evaluated on."""

    def ids(corpus: Corpus) -> Sentences:
        return tokenise(stack.tokenizer, corpus, max_length=stack.max_length, progress=progress)

    text = Tokenised(
        None if native else ids(corpora.train),
        ids(corpora.validation),
        ids(corpora.test),
        () if native else tuple(ids(corpus) for corpus in corpora.others),
        masking_of(stack.tokenizer),
    )
    for sentences in text.all:
        if np.isin(sentences.ids, text.masking["marks"]).all():
            raise InputError(
                f"the corpus {sentences.name} ({sentences.language}) has no token that could be masked; {stack.name} "
                "knows none of its words: give other text"
            )
    return text


# --- what is measured ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Native:
    """A model of the target language: with its head, as a stack, and its name in the rows."""

    model: Any
    stack: Stack
    name: str
    _sampled: dict[tuple[Any, ...], Sampled] = field(default_factory=dict)

    def vectors(self, corpus: Corpus, **sampling: Any) -> Sampled:
        """Its vectors of a sample, read once."""
        key = (corpus.name, *sampling.values())
        if key not in self._sampled:
            self._sampled[key] = own_start(self.stack, corpus, **sampling)
        return self._sampled[key]


def _load_native(path: str, name: str, stack: Stack, device: torch.device) -> Native:
    model, native = load_masked_lm(path, device=device)
    if native.cuts != stack.cuts:
        raise InputError(
            f"the native model {path} has {native.cuts[-1]} layers and {stack.name} has {stack.cuts[-1]}; layers are "
            "compared one by one, so choose one of the same depth"
        )
    return Native(model, native, name)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """All that is read of a model in training, and how."""

    corpora: Corpora
    text: Tokenised  # the same as ids of the model's tokenizer
    perplexity: int  # updates between readings of perplexity
    distance: int  # updates between readings of distances and retrieval
    words: int  # of the larger sample that distances are measured on
    parallel: Sequence[Bitext] = ()  # text that retrieval is measured on
    native: Native | None = None  # the model that distances are measured to, besides the start
    attention: bool = False  # distances of what attention adds in each layer, too
    seed: int = 0  # of masks and samples
    dtype: torch.dtype | None = None  # in which perplexity is computed; None for float32
    protocol: Protocol = field(default_factory=Protocol)  # the paper's, or one with defects of the original code


def make_probes(watch: Watch, model: Any, stack: Stack, *, seed: int, step: Callable[[], int]) -> list[Probe]:
    """The probes of one training, of a model as it begins: made before a checkpoint is restored.

    seed: of the training, by which redrawn masks differ from those of other seeds; step: the update it is at.
    """
    protocol = watch.protocol
    perplexity = sentence_perplexity_probe(
        model,
        [watch.text.validation, *watch.text.others],
        every=watch.perplexity,
        limit=protocol.limit,
        redraw=(lambda: seed_of(seed, "redrawn", step())) if protocol.redraw_masks else False,
        **_evaluation(watch, stack, watch.text),
    )
    probes = [perplexity]
    # Distances to the stack as it is now, and to the native model, on two samples of words: `words` words of the
    # validation text, by every measure, and its first sentences as in the paper.
    validation, every = watch.corpora.validation, watch.distance
    first = validation.sentences[:FIRST_BATCH]
    batch = Corpus(validation.language, first, name=f"validation, first {len(first)}")
    drawn = {
        "seed": watch.seed,
        "by_position": protocol.by_position,
        "attend_padding": protocol.by_position and protocol.attend_padding,
    }
    parts: tuple[Part, ...] = ("states", "attention") if watch.attention else ("states",)
    for corpus, words, measures in ((validation, watch.words, EVERY_DISTANCE), (batch, None, FEW_DISTANCES)):
        for part in parts:
            sampling: dict[str, Any] = {"words": words, "part": part, **drawn}
            references = {START: own_start(stack, corpus, **sampling)}
            if watch.native is not None:
                references[watch.native.name] = watch.native.vectors(corpus, **sampling)
            for other, vectors in references.items():
                how = {"other": other, "measures": measures, **sampling}
                probes.append(distance_probe(stack, vectors, corpus, every=every, **how))
    if watch.parallel:
        probes.append(retrieval_probe(lambda _: stack, watch.parallel, every=every, seed=watch.seed))
    return probes


def _evaluation(watch: Watch, stack: Stack, text: Tokenised) -> dict[str, Any]:
    return {
        "target": watch.corpora.language,
        "seed": watch.seed,
        "device": stack.device,
        "dtype": watch.dtype,
        "attend_padding": watch.protocol.attend_padding,
        **text.masking,
    }


def evaluate(watch: Watch, model: Any, stack: Stack, *, text: Tokenised, parts: Sequence[str]) -> list[Reading]:
    """Perplexity on the whole of some parts of the target's text ("validation", "test"), under fixed masks."""
    texts = [getattr(text, part) for part in parts]
    return list(sentence_perplexity_probe(model, texts, every=1, **_evaluation(watch, stack, text)).take())


def evaluate_untuned(watch: Watch, model: Any, stack: Stack) -> Iterator[dict[str, Any]]:
    """Test perplexity of the model before it is tuned, and the native model's on validation and test."""
    yield from evaluate(watch, model, stack, text=watch.text, parts=["test"])
    if (native := watch.native) is not None:
        text = tokenise_corpora(native.stack, watch.corpora, native=True)
        for reading in evaluate(watch, native.model, native.stack, text=text, parts=["validation", "test"]):
            yield {**reading, "model": native.name}


# --- one training ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """How every training of the run goes: the model to begin with, batches, and what ends it or is kept."""

    model: str | Path  # to begin with
    revision: str | None  # of the model on the hub
    device: torch.device
    settings: Settings  # those of the first seed
    batch: int  # sentences in a batch
    epoch: int  # updates in an epoch
    dropout: bool  # whether the model's own dropout is on
    checkpoint: int  # updates between checkpoints
    selection: Choice  # the reading by which the best model is kept
    stopping: Stopping | None  # the rule that may end the training early
    save_every: int | None  # updates between models that are kept for good


def tune(
    run: Run, tuning: Tuning, watch: Watch, *, plan: Plan, coordinates: Mapping[str, Any], progress: Progress
) -> Iterator[list[Row]]:
    """The rows of one training, by the protocol of `watch`; none where it was finished earlier.

    coordinates: its model, plan, condition and seed in the rows, by which its folder below `checkpoints` is called.
    """
    name, seed = training_name(coordinates), coordinates["seed"]
    folder = training_folder(coordinates)
    cycle = Resumable(run.folder / "checkpoints" / folder, every=tuning.checkpoint)
    if cycle.finished():
        return
    protocol, selection = watch.protocol, tuning.selection
    model, stack = load_masked_lm(tuning.model, tuning.revision, device=tuning.device)
    if not (tuning.dropout and protocol.dropout):
        without_dropout(model)
    text = watch.text.train
    assert text is not None
    objective = masked_sentences(
        model,
        text,
        batch=tuning.batch,
        seed=seed,
        device=tuning.device,
        attend_padding=protocol.attend_padding,
        graphs=None if protocol.attend_padding else _graphs(stack, tuning, longest=int(text.lengths.max())),
        **watch.text.masking,
    )
    training = Training(model, objective, replace(tuning.settings, seed=seed), join(tuning.device))
    planned = apply_plan(stack, plan, epoch=tuning.epoch, seed=seed)
    # Before a checkpoint is restored: distances to the start are to step 0, wherever a resumed run goes on.
    probes = make_probes(watch, model, stack, seed=seed, step=lambda: training.step)
    for sentence in dict.fromkeys(note for probe in probes for note in probe.notes):
        run.note(sentence)
    saved = None
    if tuning.save_every is not None:
        record = {"model": str(tuning.model), "plan": name, "seed": seed}
        saved = SavedModels(run.folder / FOLDER / folder, tuning.save_every, record)
    training_steps = cycle.train(
        training,
        export=lambda path: save_masked_lm(model, stack.tokenizer, path),
        probes=probes,
        plan=planned,
        selection=cast(Choice, Worst(selection)) if protocol.keep_worst else selection,
        stop=tuning.stopping,
        saved=saved,
        progress=progress,
    )
    for readings in training_steps:
        yield [_tuning_row(reading, coordinates) for reading in readings]
    if training.stopped:
        run.note(f"{name}, seed {seed}: stopped at step {training.step}, {training.stopped}")
    best, best_stack = load_masked_lm(cycle.folder / "best", device=tuning.device)
    tested = evaluate(watch, best, best_stack, text=watch.text, parts=["test"])
    yield [_tuning_row(reading, {**coordinates, "step": training.best_step}) for reading in tested]
    cycle.finish()


def _graphs(stack: Stack, tuning: Tuning, *, longest: int) -> Captured | None:
    """The blocks as CUDA graphs, where there can be any."""
    packed = replace(stack, pack=True)
    if tuning.device.type != "cuda" or not tuning.settings.half or not packed.packs or drops_attention(stack):
        return None
    return Captured(packed, rows=tuning.batch, longest=longest)


def _tuning_row(reading: Reading, coordinates: Mapping[str, Any]) -> Row:
    data = {"data": "train"} if reading["measure"] == "loss" else {}
    return row(**{**reading, **coordinates, **data})


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
        crossing, balance = crossing_interval(*curves), balance_interval(*curves)
        if crossing is None or crossing.n < len(target):
            which = "" if crossing is None else f" in {len(target) - crossing.n} of {len(target)} seeds"
            name = training_name({"plan": plan, "condition": condition})
            run.note(f"{name}: the curves of {language} and the others per {unit} do not cross{which}")
        coordinates = {"model": model, "plan": plan, "condition": condition, "unit": unit, "target": language}
        rows = []
        for measure, step in (("crossing_step", crossing), ("balance_step", balance)):
            if step is not None:
                rows.append(row(measure, step, over="seeds", **coordinates))
        yield rows
