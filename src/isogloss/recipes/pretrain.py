"""`isogloss pretrain`: a masked language model of one's own, of one language or many, from plain text.

Text is packed once into token ids on disk; training takes streams of a fixed length from them, so nothing is padded
and memory does not grow with the text. What languages share is an option: vocabulary, embeddings, layers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import torch

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, whole_folder
from isogloss.progress import Progress, silent
from isogloss.recipes.arguments import at_least, half_precision, one_of, share_of
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.card import training_facts, write_cards
from isogloss.recipes.steps.probing import make_probes, parallel_texts
from isogloss.recipes.steps.sources import Source, piece_spaces, tokenizer_options
from isogloss.recipes.steps.texts import Packed, masking_words, read_texts, repeat_files, word_starts
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.families import configure
from isogloss.stack.load import choose_device
from isogloss.text.anchors import Dictionary, read_dictionaries
from isogloss.text.corpora import Bitext, Corpus
from isogloss.training import checkpoints as kept
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Settings, Training, train
from isogloss.training.masked_lm import masked_lm
from isogloss.training.optimisation import Decay, Optimisation
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


def pretrain_job(
    *bitext: Bitext | Corpus,
    text: Annotated[list[str] | None, "LANG=FILE[,FILE], once a language; or a folder of *.LANG.txt"] = None,
    repeat: Annotated[list[str] | None, "PATTERN=N: text of files named so is taken N times, 0 for not at all"] = None,
    streams: Annotated[str | None, "folder for packed text: made from --text, or read if there is no --text"] = None,
    evaluate: Annotated[list[str] | None, "held-out text as LANG=FILE or a folder; default: --held-out"] = None,
    held_out: Annotated[float, "share of the paragraphs, by their hash, kept for evaluation"] = 0.02,
    tokenizer: Annotated[str, "wordpiece, unigram, or the folder of a tokenizer"] = "wordpiece",
    vocabulary: Annotated[int, "pieces; of each language with --vocabularies separate"] = 32_000,
    vocabularies: Annotated[str, "joint, or separate: one tokenizer a language, equal pieces shared"] = "joint",
    lowercase: Annotated[bool, "fold upper and lower case"] = False,
    anchors: Annotated[str, "default; none: no piece is shared; extra: words replaced from --lexicon"] = "default",
    lexicon: Annotated[list[str] | None, "for --anchors extra: SOURCE-TARGET=FILE, word pairs"] = None,
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
    rate: Annotated[float, "highest learning rate"] = 1e-3,
    warm_up: Annotated[int, "updates until the rate is highest"] = 500,
    decay: Annotated[str, "linear, cosine, trapezoid, inverse-sqrt or constant"] = "linear",
    weight_decay: Annotated[float, "AdamW's weight decay of matrices"] = 0.01,
    clip: Annotated[float, "largest norm of the gradient; 0 for any"] = 1.0,
    piece: Annotated[int | None, "streams in one forward pass, where the batch does not fit"] = None,
    report: Annotated[int, "updates between readings of the training loss"] = 50,
    probe: Annotated[int, "updates between readings of perplexity and retrieval"] = 1000,
    checkpoint: Annotated[int, "updates between checkpoints"] = 1000,
    keep: Annotated[int, "checkpoints kept"] = 1,
    compiled: Annotated[str, "auto, yes or no: compile the step (auto: on an NVIDIA GPU)"] = "auto",
    store: Annotated[str, "numbers the finished model is stored in: float32 or float16"] = "float32",
    licence: Annotated[str | None, "licence for the model's card"] = None,
    seed: Annotated[int, "decides the first weights, the text of each step, its masks and dropout"] = 0,
    device: str = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
) -> Job:
    """Pretrain a masked language model on plain text of one or many languages.

    Perplexity on held-out text and retrieval on parallel sentences are measured while it trains.

    Example: isogloss pretrain --text en=en.txt --text nl=nl.txt --depth 6 --width 256 --heads 4 --out runs/mine
    """
    place = choose_device(device)
    sharing = parse(separate)
    spaces = piece_spaces(vocabularies, anchors, sharing)
    source = Source(
        repeat_files(read_texts(text) if text else {}, repeat or []),
        read_texts(evaluate, option="evaluate") if evaluate else {},
        Path(streams) if streams else None,
        share_of("held_out", held_out),
        tokenizer_options(tokenizer, vocabulary, spaces=spaces, exponent=exponent, lowercase=lowercase, length=length),
        _dictionaries(lexicon or [], anchors),
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
        optimisation=Optimisation(rate, min(warm_up, steps), cast(Decay, decay), weight_decay, clip=clip),
        report=at_least("report", report, 1),
        piece=None if piece is None else at_least("piece", piece, 1),
        half=half_precision(dtype, place),
    )
    quick = {"auto": place.type == "cuda", "yes": True, "no": False}[
        one_of("compiled", compiled, ("auto", "yes", "no"))
    ]
    objective = partial(
        masked_lm,
        batch=at_least("batch", batch, 1),
        length=at_least("length", length, 8),
        exponent=at_least("exponent", exponent, 0),
        share=share_of("mask_share", mask_share, zero=False),
        seed=seed,
    )
    half_stored = one_of("store", store, ("float32", "float16")) == "float16"
    rhythm = {"every": at_least("checkpoint", checkpoint, 1), "keep": at_least("keep", keep, 1)}
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
            "rows": min(piece or 256, 256),
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

    return Job(model.name, work, hashes, depth=size[0])


def pretrain(
    text: str | Path | Sequence[str] | Mapping[str, Any] | None = None,
    *bitext: Bitext | Corpus,
    out: str | Path,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Pretrain a masked language model, from Python: `pretrain_job` says what the options are. Returns the rows.

    text: files by language, or a folder of files named `*.LANG.txt`. The model is in `out/model`, ready for `load`.

    >>> table = pretrain({"en": "en.txt", "nl": "nl.txt"}, out="runs/mine", steps=2_000)  # doctest: +SKIP
    """
    options |= {name: [options[name]] for name in ("repeat", "lexicon") if isinstance(options.get(name), str)}
    job = pretrain_job(*bitext, text=cast(Any, text), **options)
    arguments = {"text": text if text is None else str(text), **options}
    return execute(
        job, command="pretrain", arguments=arguments, seed=options.get("seed", 0), out=out, resume=resume,
        progress=progress,
    )  # fmt: skip


def _dictionaries(lexicon: Sequence[str], anchors: str) -> dict[str, Dictionary]:
    if lexicon and anchors != "extra":
        raise InputError(f"--lexicon goes with --anchors extra, not with --anchors {anchors}")
    return read_dictionaries(lexicon)


def _variant(spaces: str, anchors: str, separate: str) -> str:
    """How this model differs from one that shares everything: empty, or such as separate:embeddings."""
    ways = {"vocabularies:separate": spaces == "union", f"anchors:{anchors}": anchors != "default",
            f"separate:{separate}": separate != "nothing"}  # fmt: skip
    return " ".join(name for name, differs in ways.items() if differs)
