"""How the post is run at each scale: models, data and settings, the jobs they make, and what these cost.

The post names no settings. Ours are fixed: batch 32 and a rate of 5e-5, as multilingual BERT's authors have them for
XNLI, three epochs with 10% warm-up and linear decay and the model chosen on English development data, as Wu & Dredze
(2019) have them, who freeze layers in the same way; at most 128 tokens. `mini`, being smaller, takes 1e-4. Freezing
changes which rate is best, so `rates` may be several, of which English development data chooses for each N and seed.

A job is one N with all its seeds: the states of the frozen layers are computed once for them. Longest ones come first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import ceil
from typing import Annotated, Any

from isogloss.errors import InputError
from isogloss.papers.jexus2020.published import ABOUT, DEPTH, NOTHING_FROZEN, plan_of
from isogloss.papers.jexus2020.texts import (
    DEV,
    DUTCH,
    DUTCH_PARALLEL,
    PARALLEL,
    TRAIN,
    Table,
    developed,
    invented_texts,
    read_texts,
    tested,
    write_texts,
)
from isogloss.papers.paper import SCALES as NAMES
from isogloss.papers.paper import Cost, Outline, Request
from isogloss.progress import Progress
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import at_least, model_name, one_of
from isogloss.stack.load import locate

MULTILINGUAL = "multilingual"  # folder, and name, of the model that is pretrained on the spot
SEEDS, BATCH, EPOCHS, RATE = 3, 32, 3, 5e-5
XNLI = ("ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
BYTES = 16  # of a weight in training: itself, its gradient, and the two moments of Adam, in float32
H200 = "an mBERT-shaped model on one H200"


@dataclass(frozen=True)
class Scale:
    """Settings of one scale. targets: languages of XNLI besides the source; dutch: whether SICK-NL is tested, too.

    train: pairs to train on; known: sentences of each language to pretrain on; pretraining: its options. pair: the two
    languages of the word map. weights, tokens (of a pair), step (seconds an update), read (pairs a second in
    evaluation) and basis are for the estimate.
    """

    source: str
    targets: tuple[str, ...]
    train: int
    test: int
    model: str | None = None
    dutch: bool = False
    pair: str = "zh"
    depth: int = DEPTH
    batch: int = BATCH
    epochs: int = EPOCHS
    rates: str = f"{RATE:g}"
    known: int = 0
    pretraining: Mapping[str, Any] = field(default_factory=dict)
    map: Mapping[str, Any] = field(default_factory=dict)
    weights: float = 0.0
    tokens: float = 45.0
    step: float = 64 / 1749
    read: float = 28_900
    basis: str = H200


TINY = {
    "architecture": "modernbert", "depth": DEPTH, "width": 32, "heads": 2, "length": 64, "batch": 32, "rate": 1e-2,
    "warm_up": 10, "steps": 60, "report": 20, "probe": 1000, "checkpoint": 1000, "held_out": 0.05, "vocabulary": 300,
}  # fmt: skip
SCALES = {
    "smoke": Scale(
        "qaa", ("qab", "qac"), 60, 60, pair="qab", batch=8, epochs=3, rates="1e-2", known=400, pretraining=TINY,
        map={"pool": 100, "words": 60, "points": 40}, weights=0.17e6, tokens=20, step=0.03, read=500,
        basis="one core of an AMD EPYC",
    ),
    "mini": Scale(
        "en", ("de", "fr", "es", "ru", "zh"), 20_000, 5_010, "mini", dutch=True, rates="1e-4", weights=33.7e6,
        map={"points": 300}, basis=f"{H200}; mini is as deep and smaller, so this is more than it takes",
    ),
    "paper": Scale(
        "en", XNLI, 392_702, 5_010, "bert-base-multilingual-cased", weights=178e6, map={"points": 300},
    ),
}  # fmt: skip


def plan(
    request: Request,
    *,
    train: Annotated[str | None, "file of English pairs to train on; default: nli_en/mnli_train.tsv of --data"] = None,
    languages: Annotated[str | None, "languages of XNLI besides English, with commas; default: by --scale"] = None,
    rates: Annotated[
        str | None, "learning rates, with commas; English development data chooses; default: by --scale"
    ] = None,
    epochs: Annotated[int | None, "times the training pairs are seen; default 3"] = None,
    limit: Annotated[int | None, "rows of every data set, at most, for a rehearsal; default: all"] = None,
) -> Outline:
    """The jobs of a reproduction: a training for every N, with all its seeds, and maps of the untrained model."""
    name = one_of("scale", request.scale, NAMES)
    scale = SCALES[name]
    if name == "smoke" and (request.model or train or languages or limit):
        raise InputError("--scale smoke makes its own languages and models; data and models go with mini and paper")
    seeds = at_least("seeds", SEEDS if request.seeds is None else request.seeds, 1)
    rounds = at_least("epochs", scale.epochs if epochs is None else epochs, 1)
    if limit is not None:
        at_least("limit", limit, 8)
    targets = tuple(one.strip() for one in languages.split(",")) if languages else scale.targets
    if scale.source in targets or DUTCH in targets:
        raise InputError(
            f"--languages are those of XNLI besides {scale.source}; {DUTCH} is tested on other data anyway"
        )
    texts = _Texts(request, scale, targets, train, limit)
    model = request.model or scale.model or str(request.out / MULTILINGUAL / "model")
    depth = _depth(request.model) if request.model else scale.depth
    shared = {"device": request.device, "dtype": request.dtype}
    options = {**_sets(texts, scale, targets), "seeds": seeds, "epochs": rounds, "batch": scale.batch,
               "rates": rates or scale.rates, "checkpoint": 5000, **shared}  # fmt: skip
    jobs = []
    for point in range(NOTHING_FROZEN, depth):
        folder = "freeze-nothing" if point == NOTHING_FROZEN else f"freeze-{point}"
        own, place = {"plans": plan_of(point)}, {"part": "transfer", "plan": plan_of(point)}
        jobs.append(Job(folder, "transfer", model, {**options, **own}, request.out / "jobs" / folder, place))
    jobs += _maps(request, scale, texts, targets, model)
    before = _pretraining(request, scale, targets, shared)
    given = request.model or scale.model
    called = model_name(given) if given else MULTILINGUAL
    arguments = {"paper": "jexus2020", "scale": name, "model": called, "languages": ",".join(targets), "seeds": seeds,
                 "rates": rates or scale.rates, "epochs": rounds, "limit": limit}  # fmt: skip
    extra = f", and on SICK-NL in {DUTCH}" * scale.dutch
    return Outline(
        f"{ABOUT}; at {name} scale: {called} trained on pairs of {scale.source}, N = {NOTHING_FROZEN} to {depth - 1}, "
        f"{seeds} seeds, tested on XNLI in {', '.join((scale.source, *targets))}{extra}",
        arguments, texts, before, jobs,
        _cost(scale, len(targets), trainings=(depth + 1) * seeds * len((rates or scale.rates).split(",")),
              epochs=rounds, limit=limit),
        depth, texts.notes,
    )  # fmt: skip


class _Texts:
    """The data, read when it is first needed: a dry run needs none."""

    def __init__(
        self, request: Request, scale: Scale, targets: Sequence[str], train: str | None, limit: int | None
    ) -> None:
        self.request, self.scale, self.targets, self.train, self.limit = request, scale, targets, train, limit

    def path(self, name: str, suffix: str = "tsv") -> str:
        """Where a table is written."""
        return str(self.request.out / "text" / f"{name}.{suffix}")

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Every table by the name of its file."""
        scale = self.scale
        if scale.model is None:
            return invented_texts(scale.source, self.targets, pairs=scale.train, known=scale.known)
        return read_texts(
            self.request.data, scale.source, self.targets, train=self.train, count=scale.train, limit=self.limit,
            dutch=scale.dutch,
        )  # fmt: skip

    def hashes(self) -> dict[str, str]:
        """A hash of each table."""
        return {name: sha256(repr(rows).encode()).hexdigest() for name, rows in self.tables.items()}

    def notes(self) -> list[str]:
        """What is less than the scale wants."""
        found, wanted = len(self.tables[TRAIN]), self.scale.train
        few = f"{found:,} pairs were trained on, where this scale takes {wanted:,}"
        told = [f"a rehearsal: every data set was cut to {self.limit:,} rows"] if self.limit else []
        return told or ([few] if found < wanted else [])

    def write(self, progress: Progress) -> None:
        """Write them."""
        write_texts(self.request.out / "text", self.tables)
        progress("writing texts", 1, 1)


def _sets(texts: _Texts, scale: Scale, targets: Sequence[str]) -> dict[str, Any]:
    """What transfer reads: English to train and choose by, target development sets for the oracle, tests of all."""
    everywhere = (scale.source, *targets, *([DUTCH] if scale.dutch else ()))
    return {
        "task": "nli",
        "train": {scale.source: texts.path(TRAIN)},
        "dev": {scale.source: texts.path(DEV), **{one: texts.path(developed(one)) for one in targets}},
        "test": {one: texts.path(tested(one)) for one in everywhere},
    }


def _maps(request: Request, scale: Scale, texts: _Texts, targets: Sequence[str], model: str) -> list[Job]:
    """Alignment of the source with every other language, and a word map of two languages as the post has it."""
    shared = {**scale.map, "pairs": "first", "device": request.device, "dtype": request.dtype}
    other = scale.pair if scale.pair in targets else targets[0]
    maps: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
        PARALLEL: (PARALLEL, (scale.source, *targets), {"points": 0}),
        f"{scale.source}-{other}": (PARALLEL, (scale.source, other), {}),
    }
    if scale.dutch:
        maps[DUTCH_PARALLEL] = (DUTCH_PARALLEL, (scale.source, DUTCH), {"points": 0})
    return [
        Job(f"map-{name}", "map", model, {"bitext": texts.path(text), "languages": ",".join(codes), **shared, **more},
            request.out / "jobs" / f"map-{name}", {"part": "map", "text": name})
        for name, (text, codes, more) in maps.items()
    ]  # fmt: skip


def _pretraining(request: Request, scale: Scale, targets: Sequence[str], shared: Mapping[str, Any]) -> list[Job]:
    """The model that is made on the spot at smoke."""
    if scale.model is not None:
        return []
    files = {one: str(request.out / "text" / f"known.{one}.txt") for one in (scale.source, *targets)}
    return [Job(MULTILINGUAL, "pretrain", files, {**scale.pretraining, **shared}, request.out / MULTILINGUAL, {})]


def _depth(model: str) -> int:
    from transformers import AutoConfig

    try:
        return int(AutoConfig.from_pretrained(locate(model)).num_hidden_layers)
    except (OSError, ValueError) as error:
        raise InputError(f"{model} cannot be read, so it is not known how many layers it has: {error}") from error


def _cost(scale: Scale, targets: int, *, trainings: int, epochs: int, limit: int | None) -> Cost:
    train, test = (min(one, limit or one) for one in (scale.train, scale.test))
    steps = epochs * ceil(train / scale.batch)
    read = epochs * round(test * (targets + 1 + scale.dutch) + test / 2 * (targets + 2))
    seconds = trainings * (steps * scale.step + read / scale.read)
    basis = [
        f"{train:,} pairs to train on in batches of {scale.batch} for {epochs} epochs, after each about "
        f"{read // epochs:,} pairs to score, about {scale.tokens:g} tokens a pair",
        f"{scale.step * 1000:.0f} ms an update with nothing frozen and {scale.read:,.0f} pairs/s in evaluation, as "
        f"measured on {scale.basis}",
        f"memory: {scale.weights / 1e6:.1f} million weights at {BYTES} bytes, and 2 GB for states; what frozen layers "
        "save, the maps and loading are not counted",
    ]
    tokens = round(trainings * (epochs * train + read) * scale.tokens)
    return Cost(trainings * steps, tokens, 2.0 + scale.weights * BYTES / 1e9, seconds / 3600, basis)
