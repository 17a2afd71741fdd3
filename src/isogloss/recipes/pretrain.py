"""`isogloss pretrain`: pretrain a language model on plain text of one or many languages.

Text is packed once into token ids on disk. Training reads sequences of a fixed length from them, so nothing is padded
and memory does not grow with the text. Options control what languages share: vocabulary, embeddings, layers.
"""

from collections.abc import Iterator, Mapping, Sequence
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
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import name as language_name
from isogloss.text.masking import masking_of
from isogloss.text.streams import Borders, borders_of, cut_stream, sentence_ends
from isogloss.text.switching import read_dictionaries
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.language_modelling import language_modelling, row_sampler
from isogloss.training.loop import Optimisation, Settings, Training, join, together
from isogloss.training.perplexities import perplexity_probe
from isogloss.training.probes import Probe, retrieval_probe
from isogloss.training.sharing import Languages, build, parse, save, stack_of

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
    # How languages share the tokens of their vocabularies, a key of `SPACES`:
    spaces = "joint" if vocabularies == "joint" else "union"
    if not sharing.embeddings or anchors == "none":
        spaces = "prefix" if sharing.embeddings else "own"
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
    shape: dict[str, Any] = {"depth": depth, "width": width, "heads": heads, "feedforward": feedforward}
    shape |= {"dropout": dropout, "length": length, "more": config}
    planned = configure(architecture, vocabulary=vocabulary, **shape)  # a --config file may have set depth and width
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
    schedule = Optimisation(rate, round(warm_up * steps), decay, weight_decay, clip)
    settings = Settings(
        steps,
        seed,
        optimisation=schedule,
        report=report,
        piece=micro_batch,
        half=training_options.half_precision(dtype, hardware),
    )
    parallel = training_options.parallel_texts(bitext, source.languages)

    def work(run: Run) -> Iterator[Sequence[Row]]:
        processes = join(hardware)
        packed = together(processes, lambda: source.packed(run.scratch, run.facts["hashes"]["data"]))
        tokenizers, frames = packed.tokenizers, special_tokens(packed, rows, causal=causal)
        configs = {
            language: configure(architecture, vocabulary=len(pieces), tokenizer=pieces, **shape)
            for language, pieces in tokenizers.items()
        }
        models = build(configs, packed.languages, sharing=sharing, seed=seed, next_sentence=next_sentence)
        models.to(processes.device)
        feed: dict[str, Any] = {"batch": batch, "length": length, "exponent": exponent, "share": mask_share}
        feed["frame"] = frames.get(2 if rows == "pairs" else 1)
        maskings = {code: masking_of(pieces, causal=causal) for code, pieces in tokenizers.items()}
        how: dict[str, Any] = {"masking": maskings}
        how["starts"] = {code: word_starts(pieces) for code, pieces in tokenizers.items()} if whole_words else None
        how["ends"] = {code: sentence_ends(pieces) for code, pieces in tokenizers.items() if rows == "pairs"}
        how["compiled"] = compiled == "yes" or (compiled == "auto" and hardware.type == "cuda")
        ids = {language: stream.ids for language, stream in packed.train.items()}
        objective = language_modelling(models, ids, seed=seed, device=processes.device, **feed, **how)
        training = Training(models, objective, settings, processes)
        held = {language: stream for language, stream in packed.held_out.items() if stream.tokens >= LEAST_HELD_OUT}
        if without := [language for language in packed.languages if language not in held]:
            run.note(f"no perplexity is measured for {', '.join(without)}: too little text was held out")
        held_out = [cut_stream(stream, length=length, frame=frames.get(1)) for stream in held.values()]
        head = models.next_sentence
        probes = [] if head is None else [Probe(report, partial(head.losses, processes))]
        reading: dict[str, Any] = {"every": probe or max(1, steps)}
        if held_out:
            of_languages = {text.language: models.of(text.language) for text in held_out}
            masked = {"seed": seed, "device": processes.device, "masking": how["masking"], **reading}
            masked |= {"dtype": torch.bfloat16 if settings.half else None}
            masked |= {"tokens": length * micro_batch if micro_batch else None}  # as many rows as in training
            probes.append(perplexity_probe(of_languages, held_out, **masked))
        if parallel:
            stacks = {code: stack_of(models, code, text, "the model in training") for code, text in tokenizers.items()}
            probes.append(retrieval_probe(stacks.__getitem__, parallel, **reading))
        export = partial(save, models, tokenizers, half=save_dtype == "float16")
        checkpoints = Checkpoints(run.folder / "checkpoints", export, every=checkpoint, keep=keep_checkpoints)
        about, taken = {"model": name, "seed": seed}, {"checkpoints": checkpoints, "probes": probes}
        yield from training_options.training_rows(training, about, loss={}, **taken)
        if processes.first:
            with whole_folder(run.folder / "model") as folder:
                export(folder)
                write_cards(folder, run, training, packed, feed=feed, whole_words=whole_words, licence=licence)
        processes.wait()

    def hashes() -> dict[str, Any]:
        compared = {"bitext": [text.fingerprint for text in bitext]} if bitext else {}
        return {"data": source.facts(), **compared}

    return recipe.Work(name, work, hashes, depth=layers)


def special_tokens(packed: PackedText, rows: str, *, causal: bool) -> Borders:
    """The special tokens around one text and around two, empty for streams.

    A tokenizer without them is refused, and one without a mask token unless the model is a decoder (`causal`).
    """
    tokenizers = list(packed.tokenizers.values())
    masks_words = all(pieces.mask_token_id is not None for pieces in tokenizers)
    require(causal or masks_words, "--tokenizer has no mask token, which masked-language modelling needs")
    frames = {} if rows == "streams" else borders_of(tokenizers[0])
    if frames and not any(frames[1]):
        raise InputError(
            f"--rows {rows}: --tokenizer puts no special token before or after a text, which tells it from the next; "
            "choose another, or --rows streams"
        )
    return frames


# --- the cards of the models -----------------------------------------------------------------------------------------


def write_cards(
    folder: Path,
    run: Run,
    training: Training,
    packed: PackedText,
    *,
    feed: Mapping[str, Any],
    whole_words: bool,
    licence: str | None,
) -> None:
    """Write README.md into every model folder at or below `folder`: one, or one per language.

    feed: the arguments batch, length, exponent, share and frame of `language_modelling`.
    """
    models, settings = cast(Languages, training.model), training.settings
    losses = [reading["value"] for reading in run.rows if reading["measure"] == "loss"]
    sizes = {language: stream.tokens for language, stream in packed.train.items()}
    streams = {language: stream.ids for language, stream in packed.train.items()}
    sampler = row_sampler(streams, feed["frame"], length=feed["length"], exponent=feed["exponent"], seed=settings.seed)
    seen = sampler.epochs(training.step, feed["batch"])
    kind, most, tokens = "streams", "", training.step * feed["batch"] * feed["length"]
    if feed["frame"] is not None:
        kind, most = "texts" if len(feed["frame"]) == 2 else "pairs", "at most "
        tokens = round(sum(times * sizes[language] for language, times in seen.items()))
    options, counts = packed.facts["tokenizer"], {len(tokenizer) for tokenizer in packed.tokenizers.values()}
    pieces = f"{min(counts):,} pieces" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,} pieces"
    vocabulary = f"{pieces}, {options.get('kind', 'tokenizer given')}"
    vocabulary += ", lower case" if options.get("lowercase") else ""
    vocabulary += SPACES[options.get("spaces", "joint")] if len(packed.languages) > 1 else ""
    vocabulary += ", extra anchors" if "extra anchors" in packed.facts else ""
    causal = trainable_family(next(iter(models.models.values())).config).kind == "decoder"
    predicted = f"{feed['share']:.0%}, of them 80% masked, 10% random, 10% as they are"
    predicted = "every token, from those before it" if causal else predicted + ("; whole words" if whole_words else "")
    facts = {
        "weights": sum(weight.numel() for weight in models.models.parameters()),
        "vocabulary": vocabulary,
        "separate parts": str(models.sharing),
        "steps": training.step,
        "tokens seen": tokens,
        "times the text was seen": ", ".join(f"{language} {times:.1f}" for language, times in seen.items()),
        kind: f"{feed['batch']} of {most}{feed['length']} tokens a step, languages by size ** {feed['exponent']}",
        "tokens predicted": predicted,
        "optimiser": optimiser_facts(settings.optimisation),
        "last training loss": f"{losses[-1]:.3f} nats a predicted token" if losses else "none",
        "seed": settings.seed,
    }
    if models.next_sentence is not None:
        facts["next sentence"] = "also trained, on pairs half of which do not belong together; its head is not saved"
    table = []
    for language, stream in packed.train.items():
        files, held = packed.facts["text"][language], packed.held_out.get(language)
        sources = [file["name"] + (f" ({file['times']} times)" if "times" in file else "") for file in files]
        megabytes = sum(file["bytes"] for file in files) / 1e6
        numbers = (f"{megabytes:,.1f}", f"{stream.paragraphs:,}", f"{stream.tokens:,}")
        table.append((language, ", ".join(sources), *numbers, f"{held.tokens:,}" if held else "none"))
    names = ", ".join(language_name(language) for language in packed.languages)
    for config in sorted(folder.rglob("config.json")):
        learned = "causal" if causal else "masked"
        summary = [f"A {learned} language model of {names}, pretrained from scratch with `isogloss pretrain`."]
        own = config.parent.name
        if config.parent != folder:
            summary.append(f"This folder is its {language_name(own)} side; the other languages are beside it.")
        card = training_card(
            run,
            title=run.facts["model"],
            summary=summary,
            facts=facts,
            text=markdown_table(("language", "files", "MB", "paragraphs", "tokens", "tokens held out"), table),
            held_out=perplexity_lines(run.rows),
            languages=packed.languages if config.parent == folder else [own],
            licence=licence,
            causal=causal,
        )
        write_text(config.parent / "README.md", card)
