"""`isogloss align`: align the languages of a pretrained masked LM by further training on parallel text.

Pan et al. (2021) train a multilingual model further on pairs of translations, with two losses at once: TLM, which
predicts masked words from both languages, and a contrastive loss, which brings a sentence closer to its translation
than to other sentences (momentum contrast). Pairs are packed into token ids on disk, so that memory does not grow with
the text. Retrieval at every layer and the perplexity of every language are measured during training.

Pairs are held out for evaluation by the hash of their first sentence (`isogloss.text.sampling.hash_fraction`), so the
split depends neither on a seed nor on the order of a file. A pair that contains any held-out sentence is not trained
on, whatever its languages are: English that is evaluated with Dutch is not learned with German. The same holds for
pairs that contain a sentence of the text given for evaluation.
"""

import hashlib
import heapq
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, cast

from isogloss.errors import InputError, readable, require
from isogloss.files import clear_leftovers, one_at_a_time, whole_folder, write_text
from isogloss.progress import listening, silent
from isogloss.recipes import recipe, training_options
from isogloss.recipes.model_card import markdown_table, optimiser_facts, perplexity_lines, training_card
from isogloss.recipes.recipe import RARE, LanguageFiles, Option
from isogloss.runs.run import Run
from isogloss.runs.table import Row, frame
from isogloss.stack.edit import without_dropout
from isogloss.stack.families import trainable_family
from isogloss.stack.load import choose_device, fingerprint, load_language_model, save_language_model
from isogloss.stack.stack import Stack
from isogloss.text.batches import tokenise
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import name as language_name
from isogloss.text.masking import masking_of
from isogloss.text.readers.parallel import Pair, PairSource, find_pairs, joined_corpus
from isogloss.text.sampling import hash_fraction
from isogloss.text.streams import UNREADABLE, PairStream, borders_of, open_pairs, pack_pairs
from isogloss.training.alignment import Aligner, Alignment, Negatives, Pool, Projection, align_pairs
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Objective, Optimisation, Settings, Training, join
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.probes import Probe, retrieval_probe
from isogloss.training.stopping import select_by

SHORTEST = 8  # smallest maximum length of a pair, in tokens
MOST_HELD_OUT = 1_000  # held-out pairs per pair of languages, at most
LEAST_HELD_OUT = 8  # with fewer held-out pairs, retrieval is not measured


@recipe.recipe
def align(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    train_bitext: Annotated[
        LanguageFiles | Bitext | str | Path,
        "pairs to train on, as en-nl=FILE,FILE or en-nl=TABLE; or a table, or a folder",
    ],
    evaluate: Annotated[
        LanguageFiles | None, "text to measure perplexity on, LANG=FILE; default: the held-out pairs"
    ] = None,
    held_out: Annotated[recipe.Share, "share of the pairs held out, at most 1,000 per pair of languages"] = 0.02,
    tlm: Annotated[recipe.NonNegativeFloat, "weight of TLM; 0 for none (the paper gives none; default: equal)"] = 1.0,
    contrastive: Annotated[
        recipe.NonNegativeFloat, "weight of the contrastive loss; 0 for none (the paper gives none; default: equal)"
    ] = 1.0,
    negatives: Annotated[Negatives, "queue: momentum contrast, as in the paper; batch: in-batch negatives"] = "queue",
    queue: Annotated[recipe.PositiveInt, "translations in the queue, a multiple of --batch (default: MoCo's)"] = 65_536,
    momentum: Annotated[recipe.Share, "momentum of the key encoder (default: MoCo's; InfoXLM 0.9999)"] = 0.999,
    temperature: Annotated[float, Option("softmax temperature (default: MoCo's; Wu & Dredze 0.1)", least=1e-4)] = 0.07,
    projection: Annotated[Projection, "projection head: none, linear or mlp (default: MoCo v2's)"] = "mlp",
    projection_width: Annotated[recipe.PositiveInt, "width of the projection (default: MoCo's)"] = 128,
    pooling: Annotated[Pool, "first: the first token, as in the paper; mean: the mean of content tokens"] = "first",
    layer: Annotated[int | None, "layer where sentences are compared; default the last, as in the paper"] = None,
    shuffle: Annotated[bool, "randomly choose which side comes first and is the query, as in the paper"] = True,
    reset_positions: Annotated[bool, "restart positions at the second sentence, as in XLM"] = False,
    mask_share: Annotated[recipe.PositiveShare, "share of the tokens that TLM predicts (default: the paper's)"] = 0.15,
    pull: Annotated[recipe.NonNegativeFloat, "weight of the distance to the original weights (Wu & Dredze 1.0)"] = 0.0,
    exponent: Annotated[recipe.NonNegativeFloat, "sample languages by size to this power (default: XLM's)"] = 0.7,
    length: Annotated[int | None, "most tokens per pair; default the model's maximum (Wu & Dredze 96)"] = None,
    batch: Annotated[recipe.PositiveInt, "pairs in a batch (default: our choice; InfoXLM 2048)"] = 128,
    steps: Annotated[recipe.NonNegativeInt, "updates (default: our choice; InfoXLM 200,000)"] = 2_000,
    rate: training_options.Rate = 5e-5,
    warm_up: training_options.WarmUp = 0.1,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.01,
    clip: training_options.Clip = 1.0,
    dropout: Annotated[bool, "the model's own dropout in training, in both encoders (the paper does not say)"] = True,
    micro_batch: training_options.MicroBatch = None,
    compiled: training_options.Compiled = "no",
    report: Annotated[recipe.PositiveInt, "updates between readings of the losses"] = 50,
    probe: Annotated[recipe.PositiveInt | None, "updates between readings of retrieval and perplexity"] = 500,
    best: Annotated[bool, "keep the model of the step with the best P@1 at --layer, not the last"] = False,
    packed: Annotated[str | None, Option("folder of packed pairs that runs share", RARE, recorded=False)] = None,
    checkpoint: training_options.CheckpointEvery = 500,
    revision: recipe.Revision = None,
    seed: recipe.Seed = 0,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Train a model further on parallel text, so that translations get similar vectors.

    The learning rate and its decay are BERT's for fine-tuning (InfoXLM uses 2e-4 and a warm-up of 0.05); weight decay
    and clipping are InfoXLM's.

    Example: isogloss align mini --train-bitext en-nl=en.txt,nl.txt --train-bitext en-de=pairs.tsv --out runs/aligned
    """
    training_options.one_process("align")
    hardware = choose_device(device)
    sources = find_pairs(cast(Any, train_bitext), option="train-bitext")
    files = recipe.language_files(evaluate or [], option="evaluate")
    corpora = [joined_corpus(code, paths) for code, paths in files.items()]
    stack = load_language_model(model, revision, dtype="float32", device=hardware)
    require(not stack.causal, f"{model} is a decoder; align trains masked language models")
    trainable_family(stack.language_model.config)
    how = Alignment(
        layer=stack.cuts[-1] if layer is None else layer,
        tlm=tlm,
        contrastive=contrastive,
        pull=pull,
        negatives=negatives,
        queue=queue,
        momentum=momentum,
        temperature=temperature,
        projection=projection,
        projection_width=projection_width,
        pooling=pooling,
        shuffle=shuffle,
        reset_positions=reset_positions,
        mask_share=mask_share,
    )
    longest = stack.max_length if length is None else length
    _refuse_mistakes(how, stack, longest=longest, batch=batch, micro_batch=micro_batch)
    schedule = Optimisation(rate, warm_up, decay, weight_decay, clip)
    settings = Settings(steps, seed, schedule, report, dtype=training_options.autocast_dtype(dtype, hardware))
    require(packed is None or not Path(packed).is_file(), f"--packed {packed} is a file; give a folder")
    languages = list(dict.fromkeys(language for pairs in sources for language in pairs.languages))
    bitexts = training_options.parallel_texts(bitext, languages) if bitext else []
    measured = [sentence for corpus in chain(*bitexts, corpora) for sentence in corpus]
    text = PairText(sources, held_out, longest, measured, packed)
    objective = partial(
        align_pairs, batch=batch, longest=longest, exponent=exponent, piece=micro_batch, compiled=compiled == "yes"
    )
    setup = AlignmentSetup(stack=stack, how=how, settings=settings, objective=objective, batch=batch, dropout=dropout)
    evaluation = Evaluation(bitexts, corpora, every=probe or max(1, steps), best=best, checkpoint=checkpoint)
    given: dict[str, Any] = {"bitext": [each.fingerprint for each in bitext]} if bitext else {}
    given |= {"evaluate": {corpus.language: corpus.fingerprint for corpus in corpora}} if corpora else {}
    return recipe.Work(
        recipe.model_name(model),
        partial(_rows_of_alignment, text, setup, evaluation),
        lambda: {"model": fingerprint(stack), "data": pair_facts(sources), **given},
        depth=stack.cuts[-1],
    )


def _refuse_mistakes(how: Alignment, stack: Stack, *, longest: int, batch: int, micro_batch: int | None) -> None:
    """Refuse options that contradict each other or the model."""
    most, queue, whole = stack.max_length, how.queue, how.queue // batch * batch
    require(how.layer in stack.cuts, f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layer asks for {how.layer}")
    fits = min(SHORTEST, most) <= longest <= most
    require(fits, f"--length must be {SHORTEST} to {most}, which {stack.name} reads, not {longest}")
    require(how.tlm or how.contrastive, "--tlm 0 and --contrastive 0 leave nothing to learn; give one of them a weight")
    if how.queued:
        too_few = f"--queue {queue} holds fewer than a batch of {batch}; raise it, or take --negatives batch"
        require(queue >= batch, too_few)
        require(
            queue == whole,
            f"--queue {queue} is not a multiple of --batch {batch}, so that a batch would be split at its end; give "
            f"--queue {whole} or {whole + batch}",
        )
    elif how.contrastive:
        require(batch >= 2, "--negatives batch takes them from the batch, so --batch must be at least 2")
        split = "--micro-batch splits the batch that --negatives batch compares; leave it out, or take a queue"
        require(micro_batch is None, split)
    if how.reset_positions:
        require(stack.family.packs, f"--reset-positions: {stack.name} works positions out by itself; leave it out")


def objective_name(how: Alignment) -> str:
    """The name of the training objective, used as the plan in the rows.

    >>> objective_name(Alignment(layer=12))
    'tlm+queue'
    >>> objective_name(Alignment(layer=12, tlm=0, negatives="batch", shuffle=False))
    'batch+unshuffled'
    """
    terms = {"tlm": how.tlm, how.negatives: how.contrastive, "pull": how.pull}
    parts = {**terms, "reset": how.reset_positions, "unshuffled": not how.shuffle}
    return "+".join(name for name, present in parts.items() if present)


@dataclass(frozen=True)
class PairText:
    """Pairs of translations, and how they are packed into token ids."""

    sources: Sequence[PairSource]
    share: float  # share of the pairs held out for evaluation
    longest: int  # maximum number of tokens per pair
    measured: Sequence[str]  # sentences given for evaluation; a pair that contains one is not trained on
    packed: str | None  # folder of packed pairs that runs share; None: the run packs its own


@dataclass(frozen=True)
class AlignmentSetup:
    """A model and how it is trained."""

    stack: Stack  # of the masked LM, which is trained in place
    how: Alignment  # what is learned
    settings: Settings  # updates, seed, optimiser, precision, and how often losses are read
    objective: Callable[..., Objective]  # `align_pairs` with the sizes of its batches and the mixture of languages
    batch: int  # pairs in a batch, for the model's card
    dropout: bool  # whether the model's dropout is kept


@dataclass(frozen=True)
class Evaluation:
    """What is measured during training, and which models are kept."""

    bitexts: Sequence[Bitext]  # text for retrieval; if empty, the held-out pairs
    corpora: Sequence[Corpus]  # text for perplexity; if empty, the sentences of the held-out pairs
    every: int  # updates between readings of retrieval and perplexity
    best: bool  # whether the model with the best retrieval is saved, not the last one
    checkpoint: int  # updates between checkpoints


def _rows_of_alignment(
    text: PairText, setup: AlignmentSetup, evaluation: Evaluation, run: Run
) -> Iterator[Sequence[Row]]:
    """Pack the pairs, train the model on them and save it; yields the rows of what is measured during training."""
    stack, model, settings = setup.stack, setup.stack.language_model, setup.settings
    tokenizer, seed, device = stack.tokenizer, settings.seed, stack.device
    pairs = find_packed(text, tokenizer, run.scratch / "pairs")
    for note in (*pairs.notes, *recipe.tokenizer_notes(tokenizer, _first_sentences(text.sources))):
        run.note(note)
    if not setup.dropout:
        without_dropout(model)
    aligner = Aligner(stack, setup.how, seed=seed)
    borders, masking = borders_of(tokenizer), masking_of(tokenizer)
    objective = setup.objective(aligner, pairs.streams, borders=borders, masking=masking, seed=seed, device=device)
    training = Training(aligner, objective, settings, join(device))
    export = partial(save_language_model, model, tokenizer)
    checkpoints = Checkpoints(run.folder / "checkpoints", export, every=evaluation.checkpoint)
    readings = training_options.training_rows(
        training,
        {"model": run.facts["model"], "plan": objective_name(setup.how), "seed": seed},
        loss={"data": "train"},
        checkpoints=checkpoints,
        probes=list(_probes(aligner, settings, evaluation, pairs=pairs, run=run)),
        selection=select_by("p@1_mean", layer=setup.how.layer) if evaluation.best else None,
    )
    for read in readings:
        # The total loss has no task; it is dropped, since each of its terms has a row. The perplexity probe has no
        # target language here, so its pooled `others` are all languages.
        kept = [entry for entry in read if "task" in entry or entry["measure"] != "loss"]
        yield [{**entry, "target": "all"} if entry.get("target") == "others" else entry for entry in kept]
    _save_model(run, training, setup, pairs=pairs, checkpoints=checkpoints)


# --- pairs to train on and to measure on -----------------------------------------------------------------------------


@dataclass(frozen=True)
class PackedPairs:
    """Training pairs, held-out pairs, and the number of pairs left out, by languages (`en-nl`).

    left_out: counts pairs that contain a sentence of the text given for evaluation.
    """

    streams: Mapping[str, PairStream]
    held_out: Mapping[str, Sequence[Pair]]
    left_out: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        """Sentences on pairs that were left out or truncated."""
        notes = []
        for title, stream in self.streams.items():
            counts = {
                "have an empty side and were left out": stream.left_out,
                "are longer than the model reads, and are cut": stream.cut,
                "have a sentence that is measured on, and were left out": self.left_out[title],
            }
            notes += [f"{title}: {count:,} pairs {what}" for what, count in counts.items() if count]
        return notes

    def bitexts(self) -> list[Bitext]:
        """The held-out pairs as text for retrieval; languages with fewer than `LEAST_HELD_OUT` pairs are dropped."""
        bitexts = []
        for title, pairs in self.held_out.items():
            if len(pairs) >= LEAST_HELD_OUT:
                sides = zip(self.streams[title].languages, zip(*pairs, strict=True), strict=True)
                bitexts.append(Bitext(tuple(Corpus(language, list(side)) for language, side in sides), name=title))
        return bitexts

    def corpora(self) -> list[Corpus]:
        """The distinct held-out sentences of each language, as text for perplexity."""
        sentences: dict[str, dict[str, None]] = {}
        for title, pairs in self.held_out.items():
            for number, language in enumerate(self.streams[title].languages):
                sentences.setdefault(language, {}).update((pair[number], None) for pair in pairs)
        return [Corpus(language, list(side), name="held-out") for language, side in sentences.items() if side]


def find_packed(text: PairText, tokenizer: Any, own: Path) -> PackedPairs:
    """Pack the pairs, or read those already packed: in the folder that runs share, else in the run's `own`."""
    folder = own
    if text.packed is not None:  # in a folder named by a hash of everything the packed pairs depend on
        facts = {"pairs": pair_facts(text.sources), "tokenizer": tokenizer.backend_tokenizer.to_str()}
        facts |= {"longest": text.longest, "share": text.share, "known": sorted(map(hash_fraction, text.measured))}
        folder = Path(text.packed) / hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    with one_at_a_time(folder):  # if several processes need the same pairs, one packs and the others wait
        return pack_text(text, tokenizer, folder)


def pair_facts(sources: Sequence[PairSource]) -> dict[str, Any]:
    """Facts that identify these pairs: the hash of every file, or of text in memory."""
    files: dict[str, list[Path]] = {}
    for source in sources:
        files.setdefault(source.title, []).extend(source.files)
    in_memory = [(source.title, source.mark) for source in sources if source.mark]
    return {**recipe.describe_files(files), **({"in memory": in_memory} if in_memory else {})}


def pack_text(text: PairText, tokenizer: Any, folder: Path) -> PackedPairs:
    """Pack pairs into `folder`, with the held-out pairs in `pairs.json`, or read those that are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "pairs.json"
    if not record.is_file():
        clear_leftovers(folder)
        titles = dict.fromkeys(source.title for source in text.sources)
        by_title = {title: [source for source in text.sources if source.title == title] for title in titles}
        held_out = {title: _held_out_pairs(sources, text.share) for title, sources in by_title.items()}
        excluded = {
            "measured": {hash_fraction(sentence) for sentence in text.measured},
            "held out": {hash_fraction(side) for pairs in held_out.values() for pair in pairs for side in pair},
        }
        facts = {}
        for title, sources in by_title.items():
            path, languages, counts = folder / f"{title}.npy", sources[0].languages, Counter[str]()
            trained_on = _training_pairs(sources, excluded, counts)
            stream = pack_pairs(tokenizer, trained_on, path, languages=languages, longest=text.longest)
            held, left_out = counts["held out"], counts["measured"]
            if not len(stream):
                other = left_out > held
                raise InputError(
                    f"--train-bitext {title}: no pair is left to train on: {stream.left_out:,} have an empty side, "
                    f"{held:,} a sentence that is held out, {left_out:,} one of the text given to measure on; give "
                    f"{'--bitext or --evaluate other text' if other else 'more text or a smaller --held-out'}"
                )
            facts[title] = {"held": held_out[title], "measured": left_out}
        write_text(record, json.dumps(facts, ensure_ascii=False))
    with readable(record, *UNREADABLE):
        known = json.loads(record.read_text(encoding="utf-8"))
        return PackedPairs(
            {title: open_pairs(folder / f"{title}.npy") for title in known},
            {title: [(first, second) for first, second in facts["held"]] for title, facts in known.items()},
            {title: facts["measured"] for title, facts in known.items()},
        )


def _held_out_pairs(sources: Sequence[PairSource], share: float) -> list[Pair]:
    """The pairs whose first sentence has the lowest hashes, if these are below the share."""
    pairs = (pair for source in sources for pair in source.open()) if share else ()
    hashed = ((hash_fraction(pair[0]), pair) for pair in pairs if all(side.strip() for side in pair))
    lowest = heapq.nsmallest(MOST_HELD_OUT, (entry for entry in hashed if entry[0] < share))
    return [pair for _, pair in lowest]


def _training_pairs(
    sources: Sequence[PairSource], excluded: Mapping[str, set[float]], counts: Counter[str]
) -> Iterator[Pair]:
    """The pairs without an excluded sentence; the others are counted in `counts` by the reason.

    excluded: hashes of sentences by the reason for leaving out their pairs; the first reason that applies counts.
    """
    for pair in (pair for source in sources for pair in source.open()):
        hashes = {hash_fraction(side) for side in pair}
        if not all(side.strip() for side in pair):
            yield "", ""  # counted as left out by `pack_pairs`
        elif reason := next((reason for reason, known in excluded.items() if hashes & known), None):
            counts[reason] += 1
        else:
            yield pair


def _first_sentences(sources: Sequence[PairSource]) -> Iterator[Corpus]:
    """The first sentences of both languages of every source, in which unknown tokens are counted."""
    for source in sources:
        for side, language in enumerate(source.languages):
            sentences = [pair[side] for pair in islice(source.open(), recipe.LOOKED_AT)]
            yield Corpus(language, sentences, name=source.name)


# --- what is measured during training, and what is saved -------------------------------------------------------------


def _probes(
    aligner: Aligner, settings: Settings, evaluation: Evaluation, *, pairs: PackedPairs, run: Run
) -> Iterator[Probe]:
    """Probes of the losses, retrieval and perplexity; on the held-out pairs where no text was given for evaluation.

    A note says if too few pairs were held out for retrieval.
    """
    stack, every, seed = aligner.stack, evaluation.every, settings.seed
    yield Probe(settings.report, aligner.losses)
    if bitexts := evaluation.bitexts or pairs.bitexts():
        yield retrieval_probe(lambda language: stack, bitexts, every=every)
    else:
        require(
            not evaluation.best,
            "--best chooses by retrieval, and too few pairs were held out to measure it; raise --held-out, give "
            "--bitext, or leave --best out",
        )
        run.note("no retrieval is measured: too few pairs were held out; raise --held-out or give --bitext")
    if corpora := evaluation.corpora or pairs.corpora():
        with listening(silent):
            texts = [tokenise(stack.tokenizer, corpus, max_length=stack.max_length) for corpus in corpora]
        masking, dtype = masking_of(stack.tokenizer), settings.dtype
        yield perplexity_probe(
            aligner.model, texts, every=every, seed=seed, masking=masking, device=stack.device, dtype=dtype, target=""
        )


def _save_model(
    run: Run, training: Training, setup: AlignmentSetup, *, pairs: PackedPairs, checkpoints: Checkpoints
) -> None:
    """Save the last model, or the best one, with its card; a note says which step the best one is of."""
    step = training.step if training.best_step is None else training.best_step
    if step < training.step:
        highest = f"mean P@1 at layer {setup.how.layer}"
        which = f"that of step {step:,} of {training.step:,}, where {highest} was highest on the text that is read"
        if not step:
            which = f"the one it began with, before any update: {highest} was never higher after it"
        run.note(f"--best: the model is {which}")
    with whole_folder(run.folder / "model") as folder:
        if (checkpoints.folder / "best").is_dir():
            shutil.copytree(checkpoints.folder / "best", folder, dirs_exist_ok=True)
        else:
            checkpoints.export(folder)
        write_text(folder / "README.md", alignment_card(run, training, setup, pairs=pairs, step=step))


def alignment_card(run: Run, training: Training, setup: AlignmentSetup, *, pairs: PackedPairs, step: int) -> str:
    """The card of the saved model, which is that of `step`."""
    how, settings = setup.how, training.settings
    languages = list(dict.fromkeys(language for stream in pairs.streams.values() for language in stream.languages))
    names = ", ".join(language_name(language) for language in languages)
    name = run.facts["model"]
    pooled = "first token" if how.pooling == "first" else "mean of content tokens"
    facts = {
        "learned": objective_name(how),
        "weights of the terms": f"TLM {how.tlm:g}, contrastive {how.contrastive:g}, pull {how.pull:g}",
        "sentences": f"{pooled} at layer {how.layer}, projection {how.projection}, temperature {how.temperature:g}",
        "negatives": f"a queue of {how.queue:,}, momentum {how.momentum:g}" if how.queued else "the batch",
        "steps": f"{step:,} of {settings.steps:,}, {setup.batch} pairs each",
        "optimiser": optimiser_facts(settings),
        "seed": settings.seed,
    }
    counts = [(title, f"{len(stream):,}", f"{len(stream.ids):,}") for title, stream in pairs.streams.items()]
    until = [reading for reading in run.rows if int(reading["step"]) <= step]
    read = frame(until).sort_values("step", kind="stable")
    precision = read[(read["measure"] == "p@1_mean") & (read["layer"] == how.layer)]
    held_out = perplexity_lines(until)
    if len(precision):
        curves = precision.groupby("data", sort=False)["value"]
        table = [(str(data), f"{curve.iloc[0]:.3f}", f"{curve.iloc[-1]:.3f}") for data, curve in curves]
        lines = markdown_table(("text", "P@1 before", "P@1 after"), table)
        held_out = [f"Retrieval at layer {how.layer}, centred, both directions.", "", *lines, "", *held_out]
    return training_card(
        run,
        title=f"{name}, aligned",
        summary=[f"{name}, trained further on parallel text of {names} with `isogloss align`."],
        facts=facts,
        text=markdown_table(("languages", "pairs", "tokens"), counts),
        held_out=held_out,
        languages=languages,
    )
