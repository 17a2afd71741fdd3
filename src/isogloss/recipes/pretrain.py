"""`isogloss pretrain`: a masked language model of one's own, of one language or many, from plain text.

Text is packed once into token ids on disk; training takes streams of a fixed length from them, so nothing is padded
and memory does not grow with the text. What languages share is an option: vocabulary, embeddings, layers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, whole_folder
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import (
    SCHEDULE,
    CheckpointEvery,
    Clip,
    Compiled,
    DecayName,
    Device,
    LanguageFiles,
    MicroBatch,
    Option,
    Out,
    Rate,
    Resume,
    Seed,
    TrainDtype,
    WarmUp,
    WeightDecay,
    Work,
    at_least,
    compiles,
    half_precision,
    language_files,
    one_of,
    optimisation,
    recipe,
    share_of,
)
from isogloss.recipes.steps.card import training_facts, write_cards
from isogloss.recipes.steps.probing import make_probes, parallel_texts
from isogloss.recipes.steps.sources import Source, piece_spaces, tokenizer_options
from isogloss.recipes.steps.texts import Packed, masking_words, repeat_files, word_starts
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.families import configure
from isogloss.stack.load import choose_device
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.switching import LanguageDictionary, read_dictionaries
from isogloss.training import checkpoints as kept
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Settings, Training, train
from isogloss.training.masked_lm import masked_lm
from isogloss.training.processes import join, together
from isogloss.training.sharing import Languages, Sharing, build, check_depth, parse, save


@dataclass(frozen=True)
class Model:
    """What is trained: a family and its shape, what its languages share, and in which words a table says so.

    size: depth and width as they are, which a --config file may have set otherwise than the shape.
    """

    architecture: str
    shape: Mapping[str, Any]
    size: tuple[int, int]
    sharing: Sharing
    variant: str

    @property
    def name(self) -> str:
        """Such as modernbert-12x384, or modernbert-12x384 separate:embeddings."""
        return f"{self.architecture}-{self.size[0]}x{self.size[1]} {self.variant}".strip()

    def build(self, packed: Packed, seed: int) -> Languages:
        """Fresh weights, with a vocabulary for each language's tokenizer."""
        configs = {
            one: configure(self.architecture, vocabulary=len(tokenizer), tokenizer=tokenizer, **self.shape)
            for one, tokenizer in packed.tokenizers.items()
        }
        return build(configs, packed.languages, sharing=self.sharing, seed=seed)


@recipe
def pretrain(
    text: Annotated[
        LanguageFiles | str | Path | None, "LANG=FILE[,FILE], once a language; or a folder of *.LANG.txt"
    ] = None,
    *bitext: Bitext | Corpus,
    repeat: Annotated[
        list[str] | str | None, "PATTERN=N: text of files named so is taken N times, 0 for not at all"
    ] = None,
    streams: Annotated[str | None, "folder for packed text: made from --text, or read if there is no --text"] = None,
    evaluate: Annotated[LanguageFiles | None, "held-out text as LANG=FILE or a folder; default: --held-out"] = None,
    held_out: Annotated[float, "share of the paragraphs, by their hash, kept for evaluation"] = 0.02,
    tokenizer: Annotated[str, "wordpiece, unigram, or the folder of a tokenizer"] = "wordpiece",
    vocabulary: Annotated[int, "pieces; of each language with --vocabularies separate"] = 32_000,
    vocabularies: Annotated[str, "joint, or separate: one tokenizer a language, equal pieces shared"] = "joint",
    lowercase: Annotated[bool, "fold upper and lower case"] = False,
    anchors: Annotated[str, "default; none: no piece is shared; extra: words replaced from --lexicon"] = "default",
    lexicon: Annotated[list[str] | str | None, "for --anchors extra: SOURCE-TARGET=FILE, word pairs"] = None,
    separate: Annotated[str, "what languages do not share: nothing, embeddings, 1-3, embeddings+1-3"] = "nothing",
    architecture: Annotated[str, "family of the encoder: modernbert, bert, roberta, ..."] = "modernbert",
    depth: Annotated[int, "number of layers"] = 12,
    width: Annotated[int, "width of the hidden states"] = 384,
    heads: Annotated[int, "attention heads"] = 6,
    feedforward: Annotated[int | None, "width inside the layers; default 4 times the width, 8/3 where gated"] = None,
    dropout: Annotated[float, "dropout everywhere"] = 0.0,
    config: Annotated[str | None, "JSON file with further fields of the configuration"] = None,
    length: Annotated[int, "tokens in a stream"] = 128,
    batch: Annotated[int, "streams in a batch, over all processes"] = 512,
    steps: Annotated[int, "updates; 0 leaves a random encoder"] = 10_000,
    exponent: Annotated[float, "a language is drawn in proportion to its size to this power"] = 0.7,
    mask_share: Annotated[float, "share of the tokens to predict"] = 0.15,
    whole_words: Annotated[bool, "mask the pieces of a word together"] = False,
    rate: Rate = 1e-3,
    warm_up: WarmUp = 0.05,
    decay: DecayName = "linear",
    weight_decay: WeightDecay = 0.01,
    clip: Clip = 1.0,
    micro_batch: MicroBatch = None,
    report: Annotated[int, "updates between readings of the training loss"] = 50,
    probe: Annotated[int, "updates between readings of perplexity and retrieval"] = 1000,
    checkpoint: CheckpointEvery = 1000,
    keep_checkpoints: Annotated[int, Option("checkpoints kept", SCHEDULE)] = 1,
    compiled: Compiled = "auto",
    save_dtype: Annotated[str, "numbers the finished model is stored in: float32 or float16"] = "float32",
    licence: Annotated[str | None, "licence for the model's card"] = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: TrainDtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Pretrain a masked language model on plain text of one or many languages.

    Perplexity on held-out text and retrieval on parallel sentences are measured while it trains.

    Example: isogloss pretrain --text en=en.txt --text nl=nl.txt --depth 6 --width 256 --heads 4 --out runs/mine
    """
    place = choose_device(device)
    sharing = parse(separate)
    spaces = piece_spaces(vocabularies, anchors, sharing)
    source = Source(
        repeat_files(language_files(text) if text else {}, _several(repeat)),
        language_files(evaluate, option="evaluate") if evaluate else {},
        Path(streams) if streams else None,
        share_of("held_out", held_out),
        tokenizer_options(tokenizer, vocabulary, spaces=spaces, exponent=exponent, lowercase=lowercase, length=length),
        _dictionaries(_several(lexicon), anchors),
        seed,
    )
    source.check(spaces=spaces, anchors=anchors, separate=separate)
    shape: dict[str, Any] = {"depth": depth, "width": width, "heads": heads, "feedforward": feedforward,
                             "dropout": dropout, "length": length, "more": config}  # fmt: skip
    shaped = configure(architecture, vocabulary=vocabulary, **shape)
    size = shaped.num_hidden_layers, shaped.hidden_size
    check_depth(sharing, size[0])
    model = Model(architecture, shape, size, sharing, _variant(spaces, anchors, separate))
    settings = Settings(
        steps=at_least("steps", steps, 0),
        seed=at_least("seed", seed, 0),
        optimisation=optimisation(
            steps=steps,
            rate=rate,
            warm_up=warm_up,
            decay=decay,
            weight_decay=weight_decay,
            clip=clip,
            betas=(0.9, 0.98),
            epsilon=1e-6,
        ),
        report=at_least("report", report, 1),
        piece=None if micro_batch is None else at_least("micro_batch", micro_batch, 1),
        half=half_precision(dtype, place),
    )
    quick = compiles(compiled, place, auto=True)
    objective = partial(
        masked_lm,
        batch=at_least("batch", batch, 1),
        length=at_least("length", length, 8),
        exponent=at_least("exponent", exponent, 0),
        share=share_of("mask_share", mask_share, zero=False),
        seed=seed,
    )
    half_stored = one_of("save_dtype", save_dtype, ("float32", "float16")) == "float16"
    rhythm = {"every": at_least("checkpoint", checkpoint, 1), "keep": at_least("keep_checkpoints", keep_checkpoints, 1)}
    parallel = parallel_texts(bitext, source.languages)
    at_least("probe", probe, 1)

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        processes = join(place)
        packed = together(processes, lambda: source.packed(run.scratch, run.facts["hashes"]["data"], progress))
        models = model.build(packed, seed).to(processes.device)
        words = masking_words(packed)
        ids = {one: stream.ids for one, stream in packed.train.items()}
        starts = {one: word_starts(tokenizer) for one, tokenizer in packed.tokenizers.items()} if whole_words else None
        task = objective(models, ids, device=processes.device, starts=starts, compiled=quick, **words)
        training = Training(models, task, settings, processes)

        def export(folder: Path) -> None:
            save(models, packed.tokenizers, folder, half=half_stored)

        checkpoints = Checkpoints(run.folder / "checkpoints", export, **rhythm)
        if processes.first:
            clear_leftovers(checkpoints.folder)
        last = together(processes, lambda: kept.latest(checkpoints.folder))
        if last is not None:
            training.restore(last)
        half = torch.bfloat16 if settings.half else None
        how: dict[str, Any] = {
            "length": length,
            "every": probe,
            "seed": seed,
            "dtype": half,
            "rows": min(micro_batch or 256, 256),
        }
        probes = make_probes(run, packed, models, parallel, **how, **words)
        for readings in train(training, probes=probes, checkpoints=checkpoints, progress=progress):
            yield [row(**one, model=model.name, seed=seed) for one in readings]
        if processes.first:
            with whole_folder(run.folder / "model") as beside:
                export(beside)
                diet = {**objective.keywords, "whole words": whole_words}
                told = training_facts(training, models, run, packed, diet)
                write_cards(beside, run, packed, facts=told, licence=licence)
        processes.wait()

    def hashes(progress: Progress) -> dict[str, Any]:
        read = {"bitext": [one.fingerprint for one in bitext]} if bitext else {}
        return {"data": source.facts(progress), **read}

    return Work(model.name, work, hashes, depth=size[0])


def _dictionaries(lexicon: Sequence[str], anchors: str) -> dict[str, LanguageDictionary]:
    if lexicon and anchors != "extra":
        raise InputError(f"--lexicon goes with --anchors extra, not with --anchors {anchors}")
    return read_dictionaries(lexicon)


def _variant(spaces: str, anchors: str, separate: str) -> str:
    """How this model differs from one that shares everything: empty, or such as separate:embeddings."""
    ways = {"vocabularies:separate": spaces == "union", f"anchors:{anchors}": anchors != "default",
            f"separate:{separate}": separate != "nothing"}  # fmt: skip
    return " ".join(name for name, differs in ways.items() if differs)


def _several(given: list[str] | str | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or [])
