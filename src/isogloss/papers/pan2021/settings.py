"""How the paper is run at each scale: alignments of one model, then what each aligned model is good for.

Every alignment, of which `scales` says the options, is a job of each seed. A model is then mapped and fine-tuned with
the seed it was aligned with; the model as it was, `before`, is fine-tuned with every seed, too. A job that reads an
aligned model needs the job that makes it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Annotated, Any

from isogloss.errors import InputError
from isogloss.papers.pan2021.published import ABOUT, BEFORE, BOTH, SWITCHED, TRANSLATED, ZERO
from isogloss.papers.pan2021.scales import AT_THE_END, SCALES, SWITCH, Scale
from isogloss.papers.pan2021.tasktexts import DUTCH
from isogloss.papers.pan2021.texts import Texts
from isogloss.papers.paper import SCALES as NAMES
from isogloss.papers.paper import Cost, Outline, Request
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import at_least, model_name, one_of

MULTILINGUAL = "multilingual"  # folder, and name, of a model that is pretrained on the spot
SEEDS = 3
BYTES = 16  # of a weight in training: itself, its gradient, and the two moments of Adam, in float32
FEWEST = 8  # rows that a rehearsal may be cut to
MAP = {"pairs": "first", "points": 0}


def plan(
    request: Request,
    *,
    texts: Annotated[str | None, "folder of texts that scripts/pan_text.py prepared, in place of --data"] = None,
    pairs: Annotated[str | None, "folder of parallel text, en-de.tsv and so on; default: that of --data"] = None,
    train: Annotated[str | None, "file of English pairs to train on; default: nli_en/mnli_train.tsv of --data"] = None,
    translated: Annotated[
        str | None, "folder of --train in other languages, LANG.tsv; default: XNLI's development sets take its place"
    ] = None,
    steps: Annotated[int | None, "updates of an alignment; default: by --scale"] = None,
    epochs: Annotated[int | None, "times the training examples of a task are seen; default: by --scale"] = None,
    limit: Annotated[int | None, "rows of every data set, at most, for a rehearsal; default: all"] = None,
    compiled: Annotated[bool | None, "compile the blocks that are aligned, on an NVIDIA GPU; default: no"] = None,
) -> Outline:
    """The jobs of a reproduction: alignments, then maps and fine-tuning before and after."""
    name = one_of("scale", request.scale, NAMES)
    if name == "smoke" and (request.model or texts or pairs or train or translated or limit):
        raise InputError("--scale smoke makes its own languages and models; data and models go with mini and paper")
    if translated is not None and train is None:
        raise InputError("--translated are the pairs of --train in other languages; give both")
    seeds = at_least("seeds", SEEDS if request.seeds is None else request.seeds, 1)
    scale = _asked(SCALES[name], steps, epochs, limit, compiled=bool(compiled))
    there = Texts(
        request.out / "text", scale, data=request.data, prepared=texts, train=train, pairs=pairs,
        translated=translated, limit=limit,
    )  # fmt: skip
    given = request.model or scale.model
    called = model_name(given) if given else MULTILINGUAL
    make = _Maker(request, scale, there, given or str(request.out / MULTILINGUAL / "model"))
    jobs = [job for seed in range(seeds) for job in make.alignments(seed)]
    jobs += [job for seed in range(seeds) for job in make.fine_tuning(seed)]
    jobs += make.maps(seeds)
    arguments = {"paper": "pan2021", "scale": name, "model": called, "steps": scale.align["steps"],
                 "epochs": scale.nli["epochs"], "limit": limit}  # fmt: skip
    return Outline(
        f"{ABOUT}; at {name} scale: {called} aligned in {', '.join((scale.source, *scale.aligned))}, "
        f"{len(scale.alignments)} ways and {seeds} seeds, then mapped and fine-tuned beside itself as it was",
        arguments, there, list(make.pretraining()), jobs, _cost(scale, jobs), None, there.notes,
    )  # fmt: skip


def _asked(scale: Scale, steps: int | None, epochs: int | None, limit: int | None, *, compiled: bool) -> Scale:
    """The scale with what the user decides; a rehearsal has batches that its few pairs fill."""
    align, longer = dict(scale.align), dict(scale.longer)
    if limit is not None:
        at_least("limit", limit, FEWEST)
        align |= {"batch": min(limit, align["batch"])}
        align["queue"] = 4 * align["batch"]
    if compiled:
        align["compiled"] = True
    if steps is not None:
        align["steps"] = at_least("steps", steps, 1)
        longer.pop("steps", None)
    tasks = {} if epochs is None else {"epochs": at_least("epochs", epochs, 1)}
    return replace(scale, align=align, longer=longer, nli={**scale.nli, **tasks}, qa={**scale.qa, **tasks})


class _Maker:
    """Makes the jobs of one reproduction."""

    def __init__(self, request: Request, scale: Scale, texts: Texts, model: str) -> None:
        self.request, self.scale, self.texts, self.model = request, scale, texts, model
        self.shared = {"device": request.device, "dtype": request.dtype}

    def pretraining(self) -> Iterator[Job]:
        """The model of invented languages."""
        if self.scale.model is None:
            languages = (self.scale.source, *self.scale.aligned)
            files = {one: self.texts.path(f"known/{one}.txt") for one in languages}
            options = {**self.scale.pretraining, **self.shared}
            yield Job(MULTILINGUAL, "pretrain", files, options, self.request.out / MULTILINGUAL, {})

    def alignments(self, seed: int) -> Iterator[Job]:
        """Every alignment with one seed; retrieval and perplexity are read before and after."""
        scale = self.scale
        evaluated = (scale.source, *(one for one in scale.aligned if one in scale.tested or one == DUTCH))
        for name, options in scale.alignments.items():
            own = {
                "train": self.texts.parts(scale.amounts.get(name, 1.0)),
                "evaluate": [f"{one}={self.texts.path(f'evaluate/{one}.txt')}" for one in evaluated],
                "bitext": self.texts.path("compared"), "held_out": 0.0, "probe": AT_THE_END,
                "checkpoint": max(500, options["steps"] // 10), "packed": str(self.request.out / "packed"),
                "seed": seed,
            }  # fmt: skip
            place = {"part": "align", "alignment": name, "seed": seed}
            yield Job(f"align-{_plain(name)}-seed-{seed}", "align", self.model, {**options, **own, **self.shared},
                      self._align(name, seed), place)  # fmt: skip

    def fine_tuning(self, seed: int) -> Iterator[Job]:
        """Questions first, which take longest; then inference, zero-shot and from translations, switched or not."""
        for name in self.scale.answering:
            yield self._job("qa", name, seed, self._questions(), ZERO)
        for name in (BEFORE, *self.scale.alignments):
            yield self._job("nli", name, seed, self._inference(), ZERO)
        for name in (BEFORE, BOTH):
            for part, options in self._translated().items():
                yield self._job(part, name, seed, options, TRANSLATED)
                switched = {**options, "switch": SWITCH, "switch_to": "source"}
                yield self._job(part, name, seed, switched, SWITCHED)

    def maps(self, seeds: int) -> Iterator[Job]:
        """The model as it was, and every aligned one."""
        yield self._map(BEFORE, 0)
        for seed in range(seeds):
            yield from (self._map(name, seed) for name in self.scale.alignments)

    def _map(self, name: str, seed: int) -> Job:
        options = {"bitext": self.texts.path("compared"), **MAP, **self.shared}
        called = f"map-{BEFORE}" if name == BEFORE else f"map-{_plain(name)}-seed-{seed}"
        place = {"part": "map", "alignment": name, "seed": seed}
        return Job(
            called, "map", self._first(name, seed), options, self._folder(called), place, self._needs(name, seed)
        )

    def _job(self, part: str, name: str, seed: int, options: Mapping[str, Any], training: str) -> Job:
        ways = {ZERO: part, TRANSLATED: part, SWITCHED: f"{part}-switched"}
        called = f"{ways[training]}-{_plain(name)}-seed-{seed}"
        place = {"part": part, "alignment": name, "training": training, "seed": seed}
        whole = {**options, "seed": seed, "probe": AT_THE_END, "checkpoint": 5000, "skip_bad": part == "qa"}
        return Job(called, "transfer", self._first(name, seed), {**whole, **self.shared}, self._folder(called), place,
                   self._needs(name, seed))  # fmt: skip

    def _inference(self) -> dict[str, Any]:
        scale, path = self.scale, self.texts.path
        tests = {one: path(f"nli/xnli-test-{one}.tsv") for one in (scale.source, *scale.tested)}
        tests |= {DUTCH: path(f"nli/sick-test-{DUTCH}.tsv")} if scale.dutch else {}
        return {"task": "nli", "train": {scale.source: path("nli/mnli-train.tsv")},
                "dev": {scale.source: path("nli/mnli-dev.tsv")}, "test": tests, **scale.nli}  # fmt: skip

    def _translated(self) -> dict[str, dict[str, Any]]:
        """What is trained on in every language at once: XNLI, and SICK where Dutch is aligned."""
        scale, path = self.scale, self.texts.path
        found = {
            "translate": {
                **self._inference(),
                "train": {scale.source: path(f"nli/xnli-train-{scale.source}.tsv")},
                "translated": [f"{one}={path(f'nli/xnli-train-{one}.tsv')}" for one in scale.tested],
                "test": {one: path(f"nli/xnli-test-{one}.tsv") for one in (scale.source, *scale.tested)},
            }
        }
        if scale.dutch:
            both = (scale.source, DUTCH)
            found["sick"] = {
                "task": "nli", "train": {scale.source: path(f"nli/sick-train-{scale.source}.tsv")},
                "translated": [f"{DUTCH}={path(f'nli/sick-train-{DUTCH}.tsv')}"],
                "dev": {scale.source: path(f"nli/sick-dev-{scale.source}.tsv")},
                "test": {one: path(f"nli/sick-test-{one}.tsv") for one in both}, **scale.nli,
            }  # fmt: skip
        return found

    def _questions(self) -> dict[str, Any]:
        scale, path = self.scale, self.texts.path
        tests = [("xquad", one) for one in (scale.source, *scale.asked)]
        tests += [("mlqa", one) for one in (scale.source, *scale.asked_too)]
        return {"task": "qa", "train": {scale.source: path("qa/squad-train.json")},
                "dev": {scale.source: path("qa/squad-dev.json")},
                "test": [f"{one}={path(f'qa/{name}-{one}.json')}" for name, one in tests], **scale.qa}  # fmt: skip

    def _first(self, name: str, seed: int) -> str:
        return self.model if name == BEFORE else str(self._align(name, seed) / "model")

    def _needs(self, name: str, seed: int) -> list[Path]:
        return [] if name == BEFORE else [self._align(name, seed)]

    def _align(self, name: str, seed: int) -> Path:
        return self._folder(f"align-{_plain(name)}-seed-{seed}")

    def _folder(self, called: str) -> Path:
        return self.request.out / "jobs" / called


def _plain(name: str) -> str:
    """A name that a folder may have: `10%` is `10`."""
    return name.rstrip("%")


def _cost(scale: Scale, jobs: list[Job]) -> Cost:
    parts = {"align": 0, "nli": 1, "translate": 1, "sick": 1, "qa": 2}
    examples = {"nli": scale.train, "translate": 2_490 * (1 + len(scale.tested)), "sick": 2 * 4_439}
    steps, tokens, seconds = 0, 0.0, 0.0
    for job in jobs:
        if (part := str(job.place["part"])) in parts:
            kind, batch = parts[part], job.options["batch"]
            rows = {**examples, "qa": round(1.2 * scale.questions)}.get(part, 0)  # long texts have several windows
            mine = job.options["steps"] if part == "align" else job.options["epochs"] * ceil(rows / batch)
            steps += mine
            tokens += mine * batch * scale.tokens[kind]
            seconds += mine * scale.seconds[kind]
    kinds = {part: sum(job.place["part"] == part for job in jobs) for part in (*parts, "map")}
    basis = [
        ", ".join(f"{count} of {part}" for part, count in kinds.items() if count),
        f"{1000 * scale.seconds[0]:.0f} ms an update of align, {1000 * scale.seconds[1]:.0f} of inference, "
        f"{1000 * scale.seconds[2]:.0f} of questions: {scale.basis}",
        f"memory: {scale.weights / 1e6:.1f} million weights at {BYTES} bytes and the second encoder's, and 3 GB for "
        "states and scores; loading, tests and maps are not counted",
    ]
    memory = 3.0 + scale.weights * (BYTES + 4) / 1e9
    return Cost(steps, round(tokens), memory, seconds / 3600, basis)
