"""`isogloss pretrain`: pretrain a language model on plain text of one or many languages.

Text is packed once into token ids on disk. Training reads sequences of a fixed length from them, so nothing is padded
and memory does not grow with the text. Options control what languages share: vocabulary, embeddings, layers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch

from isogloss.errors import InputError, require
from isogloss.files import whole_folder, write_text
from isogloss.recipes import recipe, training_options
from isogloss.recipes.model_card import markdown_table, optimiser_facts, perplexity_lines, training_card
from isogloss.recipes.packed_text import PackedText, TextSource, repeat_files, tokenizer_options, word_starts
from isogloss.recipes.recipe import SCHEDULE, LanguageFiles, Option
from isogloss.runs.run import Run
from isogloss.runs.table import Row
from isogloss.stack.families import configure, trainable_family
from isogloss.stack.load import choose_device
from isogloss.text.batches import Sentences
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import name as language_name
from isogloss.text.masking import Masking, masking_of
from isogloss.text.streams import Frame, borders_of, cut_stream, sentence_ends
from isogloss.text.switching import read_dictionaries
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.language_modelling import language_modelling, row_sampler
from isogloss.training.loop import Optimisation, Settings, Training, join, together
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.probes import Probe, retrieval_probe
from isogloss.training.sharing import Languages, Sharing, build, parse, save, stack_of

MASK_SHARE = 0.15  # share of the tokens to predict, as in BERT
LEAST_HELD_OUT = 64  # with fewer tokens of held-out text, perplexity is not measured
SPACES = {
    "joint": ", of all languages together",
    "union": ", one tokenizer per language; identical tokens are shared",
    "prefix": ", one tokenizer per language; no tokens are shared",
    "own": " per language, with separate tokenizers and embeddings",
}


@recipe.recipe
def pretrain(
    text: Annotated[
        LanguageFiles | str | Path | None, "LANG=FILE[,FILE], once per language; or a folder of *.LANG.txt"
    ] = None,
    *bitext: Bitext | Corpus,
    repeat: Annotated[list[str] | str | None, "PATTERN=N: use matching files of --text N times; 0: not at all"] = None,
    streams: Annotated[str | None, "folder for packed text: made from --text, or read if there is no --text"] = None,
    evaluate: Annotated[LanguageFiles | None, "held-out text as LANG=FILE or a folder; default: --held-out"] = None,
    held_out: Annotated[recipe.Share, "share of the paragraphs held out for evaluation, by their hash"] = 0.02,
    tokenizer: Annotated[str, "wordpiece, unigram, or the folder of a tokenizer"] = "wordpiece",
    vocabulary: Annotated[int, "vocabulary size; per language with --vocabularies separate"] = 32_000,
    vocabularies: Annotated[
        Literal["joint", "separate"], "joint, or separate: one tokenizer per language, identical tokens shared"
    ] = "joint",
    lowercase: Annotated[bool, "lowercase the text"] = False,
    anchors: Annotated[
        Literal["default", "none", "extra"], "default; none: no token is shared; extra: words replaced from --lexicon"
    ] = "default",
    lexicon: Annotated[list[str] | str | None, "word pairs for --anchors extra, SOURCE-TARGET=FILE"] = None,
    separate: Annotated[str, "what languages do not share: nothing, embeddings, 1-3, embeddings+1-3"] = "nothing",
    architecture: Annotated[
        str,
        "model family: modernbert, bert, roberta, ... for masked LMs; llama for a decoder, trained as a causal LM",
    ] = "modernbert",
    depth: Annotated[int, Option("number of layers", least=1)] = 12,
    width: Annotated[int, Option("width of the hidden states", least=1)] = 384,
    heads: Annotated[int, Option("attention heads", least=1)] = 6,
    feedforward: Annotated[
        int | None, Option("width of the feed-forward layers; default 4 times the width, 8/3 if gated", least=1)
    ] = None,
    dropout: Annotated[float, Option("dropout probability in all layers", least=0, below=1)] = 0.0,
    config: Annotated[str | None, "JSON file with further fields of the configuration"] = None,
    rows: Annotated[
        Literal["streams", "texts", "pairs"],
        "streams: running text, cut anywhere; texts: one paragraph per row; pairs: its two halves, as in BERT",
    ] = "streams",
    next_sentence: Annotated[bool, "with --rows pairs: next-sentence prediction, as in BERT"] = False,
    length: Annotated[int, Option("tokens in a row, at most", least=8)] = 128,
    batch: Annotated[recipe.PositiveInt, "rows in a batch, over all processes"] = 512,
    steps: Annotated[recipe.NonNegativeInt, "updates; 0 saves a randomly initialised model"] = 10_000,
    exponent: Annotated[recipe.NonNegativeFloat, "sample languages in proportion to size to this power"] = 0.7,
    mask_share: Annotated[recipe.PositiveShare, "share of the tokens to predict"] = MASK_SHARE,
    whole_words: Annotated[bool, "mask all tokens of a word together"] = False,
    rate: training_options.Rate = 1e-3,
    warm_up: training_options.WarmUp = 0.05,
    decay: training_options.DecayName = "linear",
    weight_decay: training_options.WeightDecay = 0.01,
    clip: training_options.Clip = 1.0,
    micro_batch: training_options.MicroBatch = None,
    report: Annotated[recipe.PositiveInt, "updates between readings of the training loss"] = 50,
    probe: Annotated[recipe.PositiveInt | None, "updates between readings of perplexity and retrieval"] = 1000,
    checkpoint: training_options.CheckpointEvery = 1000,
    keep_checkpoints: Annotated[recipe.PositiveInt, Option("checkpoints kept", SCHEDULE)] = 1,
    compiled: training_options.Compiled = "auto",
    save_dtype: Annotated[
        Literal["float32", "float16"], "data type of the saved weights: float32 or float16"
    ] = "float32",
    licence: Annotated[str | None, "licence named in the model card"] = None,
    seed: recipe.Seed = 0,
    device: recipe.Device = "auto",
    dtype: training_options.TrainDtype = None,
    out: recipe.Out = None,
    resume: recipe.Resume = False,
) -> recipe.Work:
    """Pretrain a masked language model, or a decoder, on plain text of one or many languages.

    Perplexity on held-out text and retrieval on parallel sentences are measured during training.

    Example: isogloss pretrain --text en=en.txt --text nl=nl.txt --depth 6 --width 256 --heads 4 --out runs/mine
    """
    hardware, sharing = choose_device(device), parse(separate)
    if anchors == "extra" and (vocabularies == "separate" or not sharing.embeddings):
        raise InputError("--anchors extra puts words of one language into another, so they need one joint vocabulary")
    shared = "joint" if vocabularies == "joint" else "union"
    # How languages share the tokens of their vocabularies, a key of `SPACES`:
    spaces = ("prefix" if anchors == "none" else shared) if sharing.embeddings else "own"
    require(not lexicon or anchors == "extra", f"--lexicon goes with --anchors extra, not with --anchors {anchors}")
    require(rows == "pairs" or not next_sentence, f"--next-sentence goes with --rows pairs, not with --rows {rows}")
    source = TextSource(
        texts=repeat_files(recipe.language_files(text or []), repeat),
        evaluate=recipe.language_files(evaluate or [], option="evaluate"),
        streams=Path(streams) if streams else None,
        share=held_out,
        tokenizer=tokenizer_options(
            tokenizer, vocabulary, spaces=spaces, exponent=exponent, lowercase=lowercase, length=length
        ),
        dictionaries=read_dictionaries(lexicon),
        seed=seed,
    )
    source.check(spaces=spaces, anchors=anchors, separate=separate)
    sized = partial(configure, architecture, depth=depth, width=width, heads=heads, feedforward=feedforward)
    new_config = partial(sized, dropout=dropout, length=length, more=config)
    planned = new_config(vocabulary=vocabulary)  # a --config file may have set depth and width
    layers, causal = planned.num_hidden_layers, trainable_family(planned).kind == "decoder"
    masked_only = rows == "pairs" or whole_words or mask_share != MASK_SHARE
    for_masks = f"--rows pairs, --whole-words and --mask-share are for masked models, and {architecture} is a decoder"
    require(not causal or not masked_only, for_masks)
    too_many = f"blocks {sharing} are to be separate, but the model has {layers}; name a smaller number"
    require(sharing.blocks <= layers, too_many)
    variant = [f"vocabularies:{vocabularies}"] if spaces == "union" else []
    variant += [f"anchors:{anchors}"] if anchors != "default" else []
    variant += [f"separate:{separate}"] if separate != "nothing" else []
    name = " ".join([f"{architecture}-{layers}x{planned.hidden_size}", *variant])
    schedule = Optimisation(rate, warm_up, decay, weight_decay, clip)
    precision = training_options.autocast_dtype(dtype, hardware)
    compiles = compiled == "yes" or (compiled == "auto" and hardware.type == "cuda")
    parallel, save_half = training_options.parallel_texts(bitext, source.languages), save_dtype == "float16"
    outputs = Outputs(parallel, probe or max(1, steps), checkpoint, keep_checkpoints, half=save_half, licence=licence)
    work = partial(
        _rows_of_training,
        source=source,
        options=ModelOptions(new_config, sharing, next_sentence, hardware, compiles),
        batches=Batches(rows, batch, length, exponent, causal=causal, mask_share=mask_share, whole_words=whole_words),
        settings=Settings(steps, seed, schedule, report=report, piece=micro_batch, dtype=precision),
        outputs=outputs,
    )

    def hashes() -> dict[str, Any]:
        compared = {"bitext": [text.fingerprint for text in bitext]} if bitext else {}
        return {"data": source.facts(), **compared}

    return recipe.Work(name, work, hashes, depth=layers)


@dataclass(frozen=True)
class ModelOptions:
    """How the models to train are made: one, or one for each language if languages do not share all parts."""

    new_config: Callable[..., Any]  # makes a configuration of `vocabulary`, the number of pieces, and `tokenizer`
    sharing: Sharing  # the parts that languages share
    next_sentence: bool  # whether there is a head for next-sentence prediction
    device: torch.device  # where they are trained
    compiled: bool  # whether updates are compiled


@dataclass(frozen=True)
class Batches:
    """How batches are drawn from the text, and which of their tokens are predicted."""

    rows: str  # what a row holds: streams, texts or pairs
    batch: int  # rows in a batch, over all processes
    length: int  # most tokens in a row
    exponent: float  # languages are sampled in proportion to size to this power
    causal: bool  # whether each token is predicted from those before it, as in a decoder, and none is masked
    mask_share: float  # share of the tokens to predict, if they are masked
    whole_words: bool  # whether all tokens of a word are masked together


@dataclass(frozen=True)
class Outputs:
    """What is measured during training, and what is saved."""

    parallel: Sequence[Bitext]  # parallel text for retrieval
    probe: int  # updates between readings of perplexity and retrieval
    checkpoint: int  # updates between checkpoints
    keep_checkpoints: int  # how many of the latest checkpoints are kept
    half: bool  # whether weights are saved in float16
    licence: str | None  # named in the model card


@dataclass(frozen=True)
class TrainingText:
    """Packed text as a training run reads it."""

    packed: PackedText
    batches: Batches
    frame: Frame | None  # special tokens around the text or pair of texts in a row; None for streams
    maskings: Mapping[str, Masking]  # by language
    held_out: Sequence[Sentences]  # of each language that has enough held-out text for perplexity


def _rows_of_training(
    run: Run, *, source: TextSource, options: ModelOptions, batches: Batches, settings: Settings, outputs: Outputs
) -> Iterator[Sequence[Row]]:
    """Pack the text, train new models on it, and save them with their cards; the rows are losses and measures."""
    processes, seed = join(options.device), settings.seed
    packed = together(processes, lambda: source.packed(run.scratch, run.facts["hashes"]["data"]))
    text, tokenizers = training_text(packed, batches, run), packed.tokenizers
    configs = {
        code: options.new_config(vocabulary=len(pieces), tokenizer=pieces) for code, pieces in tokenizers.items()
    }
    sharing, next_sentence = options.sharing, options.next_sentence
    models = build(configs, packed.languages, sharing=sharing, seed=seed, next_sentence=next_sentence)
    models.to(processes.device)
    objective = language_modelling(
        models,
        {language: stream.ids for language, stream in packed.train.items()},
        batch=batches.batch,
        length=batches.length,
        masking=text.maskings,
        device=processes.device,
        seed=seed,
        exponent=batches.exponent,
        share=batches.mask_share,
        starts={code: word_starts(pieces) for code, pieces in tokenizers.items() if batches.whole_words},
        frame=text.frame,
        ends={code: sentence_ends(pieces) for code, pieces in tokenizers.items() if batches.rows == "pairs"},
        compiled=options.compiled,
    )
    training = Training(models, objective, settings, processes)
    probes = list(_probes(training, text, outputs))
    export = partial(save, models, tokenizers, half=outputs.half)
    checkpoints = Checkpoints(run.folder / "checkpoints", export, outputs.checkpoint, outputs.keep_checkpoints)
    about = {"model": run.facts["model"], "seed": seed}
    yield from training_options.training_rows(training, about, loss={}, checkpoints=checkpoints, probes=probes)
    if processes.first:
        with whole_folder(run.folder / "model") as folder:
            export(folder)
            write_cards(folder, run, training, text=text, licence=outputs.licence)
    processes.wait()


def training_text(packed: PackedText, batches: Batches, run: Run) -> TrainingText:
    """Find the special tokens and the held-out text of packed text; the run notes languages with too little of it.

    A tokenizer without a mask token is refused for a masked model, and one without special tokens except for streams.
    """
    tokenizers, rows = list(packed.tokenizers.values()), batches.rows
    masks_words = all(pieces.mask_token_id is not None for pieces in tokenizers)
    require(batches.causal or masks_words, "--tokenizer has no mask token, which masked-language modelling needs")
    frames = {} if rows == "streams" else borders_of(tokenizers[0])
    if frames and not any(frames[1]):
        raise InputError(
            f"--rows {rows}: --tokenizer puts no special token before or after a text, which tells it from the next; "
            "choose another, or --rows streams"
        )
    maskings = {code: masking_of(pieces, causal=batches.causal) for code, pieces in packed.tokenizers.items()}
    held = {language: stream for language, stream in packed.held_out.items() if stream.tokens >= LEAST_HELD_OUT}
    if without := [language for language in packed.languages if language not in held]:
        run.note(f"no perplexity is measured for {', '.join(without)}: too little text was held out")
    held_out = [cut_stream(stream, length=batches.length, frame=frames.get(1)) for stream in held.values()]
    return TrainingText(packed, batches, frames.get(2 if rows == "pairs" else 1), maskings, held_out)


def _probes(training: Training, text: TrainingText, outputs: Outputs) -> Iterator[Probe]:
    """What is measured during training: next-sentence prediction, perplexity of held-out text, and retrieval."""
    models, settings, processes = cast(Languages, training.model), training.settings, training.processes
    if models.next_sentence is not None:
        yield Probe(settings.report, partial(models.next_sentence.losses, processes))
    if text.held_out:
        yield perplexity_probe(
            {corpus.language: models.of(corpus.language) for corpus in text.held_out},
            text.held_out,
            every=outputs.probe,
            seed=settings.seed,
            masking=text.maskings,
            device=processes.device,
            dtype=settings.dtype,
            tokens=text.batches.length * settings.piece if settings.piece else None,  # as many rows as in training
        )
    if outputs.parallel:
        tokenizers, name = text.packed.tokenizers, "the model in training"
        stacks = {code: stack_of(models, code, pieces, name) for code, pieces in tokenizers.items()}
        yield retrieval_probe(stacks.__getitem__, outputs.parallel, every=outputs.probe)


# --- the cards of the models -----------------------------------------------------------------------------------------


def write_cards(folder: Path, run: Run, training: Training, *, text: TrainingText, licence: str | None) -> None:
    """Write README.md into every model folder at or below `folder`: one, or one per language."""
    packed, causal = text.packed, text.batches.causal
    facts, table = training_facts(training, text, run.rows), text_table(packed)
    names, learned = ", ".join(map(language_name, packed.languages)), "causal" if causal else "masked"
    for config in sorted(folder.rglob("config.json")):
        summary = [f"A {learned} language model of {names}, pretrained from scratch with `isogloss pretrain`."]
        own = config.parent.name
        if config.parent != folder:
            summary.append(f"This folder is its {language_name(own)} side; the other languages are beside it.")
        card = training_card(
            run,
            title=run.facts["model"],
            summary=summary,
            facts=facts,
            text=table,
            held_out=perplexity_lines(run.rows),
            languages=packed.languages if config.parent == folder else [own],
            licence=licence,
            causal=causal,
        )
        write_text(config.parent / "README.md", card)


def training_facts(training: Training, text: TrainingText, rows: Sequence[Row]) -> dict[str, Any]:
    """How the model was trained, for the table of its card; rows: those of the run."""
    models, settings, batches = cast(Languages, training.model), training.settings, text.batches
    batch, length, exponent = batches.batch, batches.length, batches.exponent
    streams = {language: stream.ids for language, stream in text.packed.train.items()}
    sampler = row_sampler(streams, text.frame, length=length, exponent=exponent, seed=settings.seed)
    seen = sampler.epochs(training.step, batch)
    most, tokens = "", training.step * batch * length
    if text.frame is not None:
        most, tokens = "at most ", round(sum(times * len(streams[language]) for language, times in seen.items()))
    predicted = f"{batches.mask_share:.0%}, of them 80% masked, 10% random, 10% as they are"
    predicted += "; whole words" if batches.whole_words else ""
    losses = [reading["value"] for reading in rows if reading["measure"] == "loss"]
    facts = {
        "weights": sum(weight.numel() for weight in models.models.parameters()),
        "vocabulary": vocabulary_facts(text.packed),
        "separate parts": str(models.sharing),
        "steps": training.step,
        "tokens seen": tokens,
        "times the text was seen": ", ".join(f"{language} {times:.1f}" for language, times in seen.items()),
        batches.rows: f"{batch} of {most}{length} tokens a step, languages by size ** {exponent}",
        "tokens predicted": "every token, from those before it" if batches.causal else predicted,
        "optimiser": optimiser_facts(settings),
        "last training loss": f"{losses[-1]:.3f} nats a predicted token" if losses else "none",
        "seed": settings.seed,
    }
    if models.next_sentence is not None:
        facts["next sentence"] = "also trained, on pairs half of which do not belong together; its head is not saved"
    return facts


def vocabulary_facts(packed: PackedText) -> str:
    """The number of pieces, the kind of tokenizer, and what languages share of it."""
    options, counts = packed.facts["tokenizer"], {len(tokenizer) for tokenizer in packed.tokenizers.values()}
    pieces = f"{min(counts):,} pieces" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,} pieces"
    vocabulary = f"{pieces}, {options.get('kind', 'tokenizer given')}"
    vocabulary += ", lower case" if options.get("lowercase") else ""
    vocabulary += SPACES[options.get("spaces", "joint")] if len(packed.languages) > 1 else ""
    return vocabulary + (", extra anchors" if "extra anchors" in packed.facts else "")


def text_table(packed: PackedText) -> list[str]:
    """The files of each language and the size of their text, a table in Markdown."""
    table = []
    for language, stream in packed.train.items():
        files, held = packed.facts["text"][language], packed.held_out.get(language)
        sources = [file["name"] + (f" ({file['times']} times)" if "times" in file else "") for file in files]
        megabytes = sum(file["bytes"] for file in files) / 1e6
        numbers = (f"{megabytes:,.1f}", f"{stream.paragraphs:,}", f"{stream.tokens:,}")
        table.append((language, ", ".join(sources), *numbers, f"{held.tokens:,}" if held else "none"))
    return markdown_table(("language", "files", "MB", "paragraphs", "tokens", "tokens held out"), table)
