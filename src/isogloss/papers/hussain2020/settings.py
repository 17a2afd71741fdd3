"""How the paper is run at each scale: models, texts and settings, the jobs they make, and what these cost."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Annotated, Any

from isogloss.errors import InputError
from isogloss.papers.hussain2020.published import EPOCHS, PLANS
from isogloss.papers.hussain2020.texts import (
    invented_texts,
    premises,
    training_part,
    tuned_text,
    write_texts,
)
from isogloss.papers.paper import SCALES as NAMES
from isogloss.papers.paper import Cost, Outline, Request
from isogloss.progress import Progress
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import at_least, model_name, one_of
from isogloss.stack.load import locate
from isogloss.text.corpora import Corpus

ABOUT = "Hussain & Dudev (2020), Evolution of representations in cross-lingual fine-tuning"
MULTILINGUAL, NATIVE = "multilingual", "native"  # folders, and names, of models that are pretrained on the spot
HELD_OUT, SEEDS, DEPTH = 0.1, 3, 12
XNLI = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
H200 = "an mBERT-shaped model on one H200"
BYTES = 16  # of a weight in training: itself, its gradient, and the two moments of Adam, in float32


@dataclass(frozen=True)
class Scale:
    """Settings of one scale. watched: sentences of each other language; parts: of XNLI, that premises come from.

    rate: the paper's, except where models are tiny. pretraining: options of the native model's. weights, tokens (of a
    sentence), step (seconds an update), read (sentences a second in evaluation) and basis are for the estimate.
    """

    language: str
    others: tuple[str, ...]
    sentences: int
    watched: int
    parts: tuple[str, ...] = ()
    model: str | None = None
    native: str | None = None
    rate: float = 5e-5
    every: int = 50
    distance: int = 250
    words: int = 2000
    checkpoint: int = 500
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    native_steps: int = 0
    weights: float = 0.0
    tokens: float = 0.0
    step: float = 0.0
    read: float = 1.0
    basis: str = ""


TINY = {
    "architecture": "modernbert", "depth": DEPTH, "width": 32, "heads": 2, "length": 32, "batch": 16, "rate": 1e-2,
    "warm_up": 10, "report": 20, "probe": 1000, "checkpoint": 1000, "held_out": 0.05,
}  # fmt: skip
SCALES = {
    "smoke": Scale(
        "qaa", ("qab", "qac"), 120, 12, rate=2e-3, every=6, distance=12, words=40, checkpoint=1000, pretraining=TINY,
        native_steps=60, weights=0.17e6, tokens=12, step=0.03, read=1000, basis="one core of an AMD EPYC",
    ),
    "mini": Scale(
        "nl", ("en", "de", "fr", "es", "ru", "zh"), 25_000, 417, ("dev",), model="mini", checkpoint=1250,
        pretraining={"vocabulary": 8_000, "length": 128, "batch": 256, "warm_up": 300, "probe": 1000},
        native_steps=3000, weights=33.7e6, tokens=36, step=8 / 240, read=28_900,
        basis=f"{H200}; mini is as deep and smaller, so this is more than it takes",
    ),
    "paper": Scale(
        "nl", XNLI, 100_000, 667, ("dev",), model="bert-base-multilingual-cased",
        native="wietsedv/bert-base-dutch-cased", distance=500, checkpoint=2500,
        weights=178e6, tokens=31, step=8 / 240, read=28_900, basis=H200,
    ),
}  # fmt: skip


def plan(
    request: Request,
    *,
    text: Annotated[str | None, "file of sentences to tune on; default: drift/LANG.txt of --data"] = None,
    native: Annotated[str | None, "masked LM of the language, equally deep; default: pretrained, or by --scale"] = None,
    native_text: Annotated[str | None, "file the native model is pretrained on; default: what is tuned on"] = None,
    native_steps: Annotated[int | None, "updates of that pretraining; default: by --scale"] = None,
    every: Annotated[int | None, "updates between readings of perplexity; default: by --scale"] = None,
    distance: Annotated[int | None, "updates between readings of distances; default: by --scale"] = None,
    watched: Annotated[int | None, "sentences of each other language; default: by --scale"] = None,
) -> Outline:
    """The jobs of a reproduction: what is to be pretrained first, then every plan with every seed."""
    name = one_of("scale", request.scale, NAMES)
    scale = SCALES[name]
    if name == "smoke" and (text or request.model or native or native_text):
        raise InputError("--scale smoke makes its own languages and models; text and models go with mini and paper")
    if native and native_text:
        raise InputError("--native-text is what a native model is pretrained on; with --native there is one already")
    count, every, distance, watched = (
        at_least(option, _or(asked, default), 1)
        for option, asked, default in (
            ("seeds", request.seeds, SEEDS),
            ("every", every, scale.every),
            ("distance", distance, scale.distance),
            ("watched", watched, scale.watched),
        )
    )
    steps = at_least("native-steps", _or(native_steps, scale.native_steps), 0)
    native = native or scale.native
    texts = _Texts(request, scale, watched, text, tuned_is_known=native is None and not native_text)
    model = request.model or scale.model or str(request.out / MULTILINGUAL / "model")
    given = ((request.model or scale.model, MULTILINGUAL), (native, NATIVE))
    called = [model_name(one) if one else own for one, own in given]
    before = list(_pretraining(request, scale, steps, native=native, text=native_text))
    shared: dict[str, Any] = {
        "target": {scale.language: str(texts.path(scale.language))},
        "others": {one: str(texts.path(one)) for one in scale.others},
        "native": native or str(request.out / NATIVE / "model"), "held_out": HELD_OUT, "epochs": EPOCHS, "batch": 8,
        "rate": scale.rate, "probe": every, "distance": distance,
        "words": scale.words, "checkpoint": scale.checkpoint, "sample_seed": 0,
        "device": request.device, "dtype": request.dtype,
    }  # fmt: skip
    jobs = []
    for seed in range(count):
        for each in PLANS:
            folder = f"{each.replace(':', '-').replace('/', '-')}-seed-{seed}"
            options = {**shared, "plans": each, "seed": seed}
            place = {"plan": each, "seed": seed}
            jobs.append(Job(folder, "drift", model, options, request.out / "jobs" / folder, place))
    arguments = {"paper": "hussain2020", "scale": name, "every": every, "distance": distance,
                 "watched": watched, "native_steps": steps if before else None,
                 "model": called[0], "native": called[1]}  # fmt: skip
    return Outline(
        f"{ABOUT}; at {name} scale: {called[0]} tuned on {scale.language}, watched on {', '.join(scale.others)}, "
        f"beside {called[1]}",
        arguments, texts.hashes, texts.write, before, jobs, _cost(scale, len(jobs), every, distance, watched), DEPTH,
        texts.notes,
    )  # fmt: skip


class _Texts:
    """The texts, read when they are first needed: a dry run needs none."""

    def __init__(self, request: Request, scale: Scale, watched: int, text: str | None, *, tuned_is_known: bool) -> None:
        self.request, self.scale, self.watched = request, scale, watched
        self.text, self.tuned_is_known = text, tuned_is_known

    def path(self, name: str) -> Path:
        """Where a text is written."""
        return self.request.out / "text" / f"{name}.txt"

    @cache  # noqa: B019 - as short-lived as the command
    def read(self) -> dict[str, Corpus]:
        """Every text by the name of its file."""
        scale, request = self.scale, self.request
        if scale.model is None:
            texts, known = invented_texts([scale.language, *scale.others], scale.sentences, self.watched)
            return texts | {f"known.{name}": corpus for name, corpus in known.items()}
        tuned = tuned_text(self.text, request.data, scale.language, scale.sentences)
        texts = {scale.language: tuned, **premises(request.data, scale.others, scale.parts, self.watched)}
        if self.tuned_is_known:
            texts["known.native"] = training_part(tuned, HELD_OUT)
        return texts

    def hashes(self) -> dict[str, str]:
        """A hash of each text."""
        return {name: corpus.fingerprint for name, corpus in self.read().items()}

    def notes(self) -> list[str]:
        """Which texts are shorter than the scale wants."""
        wanted = {self.scale.language: self.scale.sentences, **dict.fromkeys(self.scale.others, self.watched)}
        found = {name: len(corpus) for name, corpus in self.read().items() if name in wanted}
        return [
            f"the text of {name} has {count:,} sentences, where this scale takes {wanted[name]:,}"
            for name, count in found.items()
            if count < wanted[name]
        ]

    def write(self, progress: Progress) -> None:
        """Write them."""
        write_texts(self.request.out / "text", self.read())
        progress("writing texts", 1, 1)


def _pretraining(request: Request, scale: Scale, steps: int, *, native: str | None, text: str | None) -> Iterator[Job]:
    """The models that are pretrained on the spot: both at smoke, the native one at mini unless it is given."""
    out, target = request.out, scale.language
    shared = {**scale.pretraining, "steps": steps, "device": request.device, "dtype": request.dtype}
    known = str(out / "text" / "known.native.txt")
    if scale.model is None:
        files = {one: str(out / "text" / f"known.{one}.txt") for one in (target, *scale.others)}
        yield Job(MULTILINGUAL, "pretrain", files, {**shared, "vocabulary": 300}, out / MULTILINGUAL, {})
        yield Job(NATIVE, "pretrain", {target: known}, {**shared, "vocabulary": 160}, out / NATIVE, {})
    elif native is None:
        options = {**_shape(request.model or scale.model), **shared}
        yield Job(NATIVE, "pretrain", {target: text or known}, options, out / NATIVE, {})


def _shape(model: str) -> dict[str, Any]:
    """The options of pretrain that give a model of the same shape."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(locate(model))
    except (OSError, ValueError) as error:
        raise InputError(f"{model} cannot be read, so no native model of its shape can be made: {error}") from error
    return {
        "architecture": config.model_type, "depth": config.num_hidden_layers, "width": config.hidden_size,
        "heads": config.num_attention_heads, "feedforward": config.intermediate_size,
    }  # fmt: skip


def _cost(scale: Scale, jobs: int, every: int, distance: int, watched: int) -> Cost:
    train, held = round(scale.sentences * (1 - 2 * HELD_OUT)), round(scale.sentences * HELD_OUT)
    steps = EPOCHS * ceil(train / 8)
    readings = steps // every + 1
    read = readings * (held + watched * len(scale.others))
    seconds = steps * scale.step + read / scale.read
    sentences = EPOCHS * train + read
    basis = [
        f"{train:,} sentences to train on in batches of 8 for {EPOCHS} epochs, {readings:,} evaluations of "
        f"{held + watched * len(scale.others):,} sentences, about {scale.tokens:g} tokens a sentence",
        f"{scale.step * 1000:.0f} ms an update and {scale.read:,.0f} sentences/s in evaluation, as measured on "
        f"{scale.basis}",
        f"memory: {scale.weights / 1e6:.1f} million weights at {BYTES} bytes, and 1 GB for states and scores; "
        "distances, retrieval, loading and pretraining are not counted",
    ]
    memory = 1.0 + scale.weights * BYTES / 1e9
    return Cost(jobs * steps, round(jobs * sentences * scale.tokens), memory, jobs * seconds / 3600, basis)


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
