"""`isogloss pretrain`: a masked language model of one's own, of one language or many, from plain text.

Text is packed once into token ids on disk; training takes streams of a fixed length from them, so nothing is padded
and memory does not grow with the text. What languages share is an option: vocabulary, embeddings, layers.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import pandas as pd
import torch

from isogloss.errors import InputError
from isogloss.files import clear_leftovers, whole_folder
from isogloss.progress import Progress, silent
from isogloss.recipes.arguments import at_least, one_of, share_of
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.card import write_cards
from isogloss.recipes.steps.texts import (
    Packed,
    Texts,
    describe,
    open_packed,
    pack_texts,
    read_packed_facts,
    read_texts,
    repeat_files,
)
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.configure import configure
from isogloss.stack.load import choose_device, choose_dtype
from isogloss.text.anchors import Dictionary, add_anchors, read_dictionaries
from isogloss.text.batches import marks
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.readers import embedded
from isogloss.training import checkpoints as kept
from isogloss.training.checkpoints import Checkpoints
from isogloss.training.loop import Settings, Training, train
from isogloss.training.objectives import masked_lm
from isogloss.training.optimisation import Decay, Optimisation
from isogloss.training.probes import Probe, perplexity_probe, retrieval_probe
from isogloss.training.processes import Processes, join
from isogloss.training.sharing import Languages, Sharing, build, parse, save, stack_of

T = TypeVar("T")
LEAST = 64  # tokens of held-out text that perplexity is worth measuring on


@dataclass(frozen=True)
class Model:
    """What is trained: a family and its shape, and what its languages share."""

    architecture: str
    shape: Mapping[str, Any]
    sharing: Sharing

    @property
    def name(self) -> str:
        """Such as modernbert-12x384."""
        return f"{self.architecture}-{self.shape['depth']}x{self.shape['width']}"

    def build(self, packed: Packed, seed: int) -> Languages:
        """Fresh weights, with a vocabulary for each language's tokenizer."""
        configs = {
            one: configure(self.architecture, vocabulary=len(tokenizer), tokenizer=tokenizer, **self.shape)
            for one, tokenizer in packed.tokenizers.items()
        }
        return build(configs, packed.languages, sharing=self.sharing, seed=seed)


@dataclass(frozen=True)
class Source:
    """Where the text comes from: files that are packed, or a folder of packed text."""

    texts: Texts
    evaluate: Texts
    streams: Path | None
    held: float
    tokenizer: Mapping[str, Any]
    dictionaries: Mapping[str, Dictionary]
    seed: int

    def facts(self, progress: Progress = silent) -> dict[str, Any]:
        """What tells this text from any other; packed text brings its own."""
        if not self.texts:
            if self.streams is None:
                raise InputError("--text is missing: give LANG=FILE for each language, or --streams with packed text")
            if self.evaluate:
                raise InputError("--evaluate goes with --text; packed text brings its own held-out part")
            return read_packed_facts(self.streams)
        missing = [one for one in self.evaluate if one not in self.texts]
        if missing:
            raise InputError(f"--evaluate has text of {', '.join(missing)}, which --text has not")
        facts: dict[str, Any] = {"text": describe(self.texts, progress), "tokenizer": dict(self.tokenizer)}
        facts["held out"] = describe(self.evaluate) if self.evaluate else self.held
        if self.dictionaries:
            words = json.dumps(self.dictionaries, sort_keys=True, ensure_ascii=False).encode()
            facts["extra anchors"] = {"sha256": hashlib.sha256(words).hexdigest(), "seed": self.seed}
        return facts

    def packed(self, scratch: Path, facts: Mapping[str, Any], progress: Progress) -> Packed:
        """The packed text, made if it is not there yet."""
        if not self.texts:
            return open_packed(cast(Path, self.streams))
        change = partial(add_anchors, dictionaries=self.dictionaries, seed=self.seed)
        return pack_texts(
            self.texts,
            self.streams or scratch / "streams",
            facts=facts,
            held=self.held,
            evaluate=self.evaluate,
            tokenizer=self.tokenizer,
            change=change if self.dictionaries else lambda _, lines: lines,
            progress=progress,
        )


def pretrain_job(
    *bitext: Bitext | Corpus,
    text: Annotated[list[str] | None, "LANG=FILE[,FILE], once a language; or a folder of *.LANG.txt"] = None,
    repeat: Annotated[list[str] | None, "PATTERN=N: text of files named so is taken N times, as in 'help.*=3'"] = None,
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
    seed: int = 0,
    device: str = "auto",
    dtype: str | None = None,
) -> Job:
    """Pretrain a masked language model on plain text of one or many languages.

    Perplexity on held-out text and retrieval on parallel sentences are measured while it trains.

    Example: isogloss pretrain --text en=en.txt --text nl=nl.txt --depth 6 --width 256 --heads 4 --out runs/mine
    """
    place = choose_device(device)
    model = Model(
        architecture,
        dict(
            depth=depth, width=width, heads=heads, feedforward=feedforward, dropout=dropout, length=length, more=config
        ),
        parse(separate),
    )
    spaces = _spaces(vocabularies, anchors, model.sharing)
    source = Source(
        repeat_files(read_texts(text) if text else {}, repeat or []),
        read_texts(evaluate, option="evaluate") if evaluate else {},
        Path(streams) if streams else None,
        share_of("held_out", held_out),
        _tokenizer(tokenizer, vocabulary, spaces, exponent, lowercase, length),
        read_dictionaries(lexicon or []) if anchors == "extra" else {},
        seed,
    )
    facts = source.facts()
    languages = list(facts["text"])
    if len(languages) < 2 and (anchors != "default" or separate != "nothing"):
        raise InputError("--anchors and --separate are about what languages share; the text has one language only")
    if not source.texts:
        _agree(facts, spaces, anchors)
    if anchors == "extra" and source.texts and not source.dictionaries:
        raise InputError("--anchors extra needs --lexicon SOURCE-TARGET=FILE")
    foreign = sorted(set(source.dictionaries) - set(languages))
    if foreign:
        raise InputError(f"--lexicon has words of {', '.join(foreign)}, of which there is no text")
    configure(architecture, vocabulary=vocabulary, **model.shape)
    settings = Settings(
        steps=at_least("steps", steps, 0),
        seed=at_least("seed", seed, 0),
        optimisation=Optimisation(rate, min(warm_up, steps), cast(Decay, decay), weight_decay, clip=clip),
        report=at_least("report", report, 1),
        piece=None if piece is None else at_least("piece", piece, 1),
        half=_half(dtype, place),
        compiled={"auto": place.type == "cuda", "yes": True, "no": False}[
            one_of("compiled", compiled, ("auto", "yes", "no"))
        ],
    )
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
    parallel = _known(bitext, languages)
    at_least("probe", probe, 1)
    variant = "+".join(
        f"{name}:{value}"
        for name, value, usual in (("anchors", anchors, "default"), ("separate", separate, "nothing"))
        if value != usual
    )

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        processes = join(place)
        packed = _together(processes, lambda: source.packed(run.scratch, facts, progress))
        models = model.build(packed, seed).to(processes.device)
        words = _words(packed)
        ids = {one: stream.ids for one, stream in packed.train.items()}
        training = Training(models, objective(models, ids, device=processes.device, **words), settings, processes)

        def export(folder: Path) -> None:
            save(models, packed.tokenizers, folder, half=half_stored)

        checkpoints = Checkpoints(run.folder / "checkpoints", export, **rhythm)
        if processes.first:
            clear_leftovers(checkpoints.folder)
        last = _together(processes, lambda: kept.latest(checkpoints.folder))
        if last is not None:
            training.restore(last)
        half = torch.bfloat16 if settings.half else None
        probes = _probes(run, packed, models, parallel, length=length, every=probe, seed=seed, dtype=half, **words)
        base: dict[str, Any] = {"model": model.name, "variant": variant, "seed": seed}
        for readings in train(training, probes=probes, checkpoints=checkpoints, progress=progress):
            yield [row(**{**base, **one}) for one in readings]
        if processes.first:
            with whole_folder(run.folder / "model") as beside:
                export(beside)
                write_cards(
                    beside, run, packed, facts=_told(training, models, run, objective.keywords), licence=licence
                )
        processes.wait()

    return Job(model.name, work, {"data": facts}, depth=depth)


def pretrain(
    text: Sequence[str] | Mapping[str, Any] | None = None,
    *bitext: Bitext | Corpus,
    out: str | Path,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Pretrain a masked language model, from Python: `pretrain_job` says what the options are. Returns the rows.

    text: files by language. The model is in the folder `out/model`, ready for `load`.

    >>> table = pretrain({"en": "en.txt", "nl": "nl.txt"}, out="runs/mine", steps=2_000)  # doctest: +SKIP
    """
    job = pretrain_job(*bitext, text=cast(Any, text), **options)
    arguments = {"text": text if text is None else str(text), **options}
    return execute(
        job, command="pretrain", arguments=arguments, seed=options.get("seed", 0), out=out, resume=resume,
        progress=progress,
    )  # fmt: skip


def _probes(
    run: Run, packed: Packed, models: Languages, parallel: Sequence[Bitext], *, every: int, seed: int, **how: Any
) -> list[Probe]:
    """Perplexity on what was held out, and retrieval on parallel text; a language without text for it is noted."""
    held = {one: stream for one, stream in packed.held.items() if stream.tokens >= LEAST}
    silent_ones = [one for one in packed.languages if one not in held]
    if silent_ones:
        run.note(f"no perplexity is measured for {', '.join(silent_ones)}: too little text was held out")
    probes = []
    if held:
        probes.append(
            perplexity_probe(
                models.of,
                {one: stream.ids for one, stream in held.items()},
                {one: (stream.words, stream.characters) for one, stream in held.items()},
                every=every,
                seed=seed,
                device=next(models.parameters()).device,
                **how,
            )
        )
    if parallel:
        stacks = {
            one: stack_of(models, one, packed.tokenizers[one], str(run.facts["model"])) for one in packed.languages
        }
        probes.append(retrieval_probe(stacks.__getitem__, parallel, every=every))
    return probes


def _told(training: Training, models: Languages, run: Run, diet: Mapping[str, Any]) -> dict[str, Any]:
    """What the card says of the training."""
    losses = [one for one in run.rows if one["measure"] == "loss"]
    tokens = training.step * diet["batch"] * diet["length"]
    way = training.settings.optimisation
    return {
        "weights": sum(one.numel() for one in models.parameters()),
        "separate parts": str(models.sharing),
        "steps": training.step,
        "tokens seen": tokens,
        "streams": f"{diet['batch']} of {diet['length']} tokens a step, languages by size ** {diet['exponent']}",
        "tokens predicted": f"{diet['share']:.0%}, of them 80% masked, 10% random, 10% as they are",
        "optimiser": f"AdamW, rate {way.rate:g}, {way.warm_up} steps of warm-up, {way.decay} decay, weight decay "
        f"{way.weight_decay:g}, betas {way.betas}, clipping at {way.clip:g}",
        "last training loss": f"{losses[-1]['value']:.3f} nats a predicted token" if losses else "none",
        "seed": training.settings.seed,
    }


def _words(packed: Packed) -> dict[str, Any]:
    """The mask's id, the special ids, and the ids random words are drawn from; tokenizers of one run agree on marks."""
    first = packed.tokenizers[packed.languages[0]]
    if first.mask_token_id is None:
        raise InputError("--tokenizer has no mask token, which masked-language modelling needs")
    special = sorted({*marks(first), first.mask_token_id, first.unk_token_id} - {None})
    pools = {}
    for language, tokenizer in packed.tokenizers.items():
        content = torch.ones(len(tokenizer), dtype=torch.bool)
        content[special] = False
        pools[language] = content.nonzero().squeeze(1)
    return {"mask_id": first.mask_token_id, "marks": special, "pools": pools}


def _together(processes: Processes, make: Callable[[], T]) -> T:
    """What `make` gives, made by the first process before the others read it; what it cannot make, none of them has."""
    made, mistake = [], None
    if processes.first:
        try:
            made.append(make())
        except Exception as error:
            mistake = error
    failed = torch.tensor(float(mistake is not None), device=processes.device)
    processes.add([failed])
    if mistake is not None:
        raise mistake
    if failed:
        raise InputError("the first process could not go on, and says why")
    return made[0] if made else make()


def _half(dtype: str | None, place: torch.device) -> bool:
    chosen = choose_dtype(dtype, place)
    if chosen == torch.float16:
        raise InputError("--dtype float16 does not train stably; use bfloat16 or float32")
    return chosen == torch.bfloat16


def _spaces(vocabularies: str, anchors: str, sharing: Sharing) -> str:
    """How pieces are shared between languages, in the words of `train_tokenizers`."""
    one_of("vocabularies", vocabularies, ("joint", "separate"))
    if one_of("anchors", anchors, ("default", "none", "extra")) == "extra" and (
        vocabularies == "separate" or not sharing.embeddings
    ):
        raise InputError("--anchors extra puts words of one language into another, so they need one joint vocabulary")
    if not sharing.embeddings:
        return "own"
    if anchors == "none":
        return "prefix"
    return "joint" if vocabularies == "joint" else "union"


def _agree(facts: Mapping[str, Any], spaces: str, anchors: str) -> None:
    """Refuse packed text whose pieces are shared otherwise than the options say: ids would mean other pieces."""
    packed = facts["tokenizer"].get("spaces", "joint")
    if len(facts["text"]) > 1 and (packed != spaces or ("extra anchors" in facts) != (anchors == "extra")):
        raise InputError(
            "--streams was packed with other --vocabularies, --anchors or --separate; give the ones it was packed with"
        )


def _tokenizer(tokenizer: str, size: int, spaces: str, exponent: float, lowercase: bool, length: int) -> dict[str, Any]:
    if tokenizer in ("wordpiece", "unigram"):
        return {"kind": tokenizer, "size": size, "spaces": spaces, "exponent": exponent, "lowercase": lowercase,
                "max_length": length}  # fmt: skip
    if not Path(tokenizer).is_dir():
        raise InputError(f"--tokenizer takes wordpiece, unigram or the folder of a tokenizer, not {tokenizer!r}")
    if spaces != "joint":
        raise InputError("--tokenizer FOLDER is one tokenizer for all; it goes with joint vocabularies only")
    return {"folder": tokenizer}


def _known(given: Sequence[Bitext | Corpus], languages: Sequence[str]) -> list[Bitext]:
    """Parallel text in the model's languages: what was given, else the embedded sentences."""
    corpora = tuple(one for one in given if isinstance(one, Corpus))
    texts = [*([Bitext(corpora)] if corpora else []), *(one for one in given if isinstance(one, Bitext))]
    found = []
    for text in texts or [embedded()]:
        both = [one for one in text.languages if one in languages]
        if len(both) > 1:
            found.append(Bitext(tuple(text[one] for one in both), name=text.name))
    if texts and not found:
        raise InputError(f"--bitext has no two of the languages of the text, {', '.join(languages)}")
    return found
