"""How the paper is run at each scale: a job for each task, source and seed, with the reference and all six pairs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Annotated, Any

from isogloss.errors import InputError
from isogloss.papers.muller2021.published import ABOUT, PLANS, TASKS
from isogloss.papers.muller2021.scales import ICELANDIC, SCALES, Scale, entity_sets, treebank_sets
from isogloss.papers.muller2021.texts import Piece, Texts
from isogloss.papers.muller2021.treebanks import as_conllu, as_tags, invented_sets
from isogloss.papers.paper import SCALES as NAMES
from isogloss.papers.paper import Cost, Outline, Request
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import at_least, model_name, one_of
from isogloss.text.catalog import data_dir

MULTILINGUAL = "multilingual"  # folder, and name, of a model that is pretrained on the spot
SEEDS, DEPTH = 3, 12
BYTES = 16  # of a weight in training: itself, its gradient, and the two moments of Adam, in float32
LENGTH = 256  # tokens: Chinese WikiAnn has a space between characters
AT_THE_END = 1_000_000  # updates between scores: what is scored and compared is the model after its last update
WINDOWS = 203  # sentences of four windows of 200, each shifted by one
FOLDERS = {"treebanks": "ud_train", "pud": "ud_pud", "entities": "wikiann_panx"}
KNOWN_SENTENCES = 400  # invented ones that the model is pretrained on


def plan(
    request: Request,
    *,
    treebanks: Annotated[str | None, "folder of UD treebanks to train and test on; default: ud_train of --data"] = None,
    pud: Annotated[str | None, "folder of the parallel treebanks of UD; default: ud_pud of --data"] = None,
    entities: Annotated[str | None, "folder of WikiAnn; default: wikiann_panx of --data"] = None,
    examples: Annotated[int | None, "most sentences to train on; default: by --scale"] = None,
    tested: Annotated[int | None, "most sentences of a test set; default: by --scale"] = None,
    compared: Annotated[int | None, "most sentences that languages are compared on; default: by --scale"] = None,
    epochs: Annotated[int | None, "times the training sentences are seen; default: by --scale"] = None,
    rate: Annotated[float | None, "highest learning rate; default: by --scale"] = None,
) -> Outline:
    """The jobs of a reproduction: a model to pretrain where none is given, then every task, source and seed."""
    name = one_of("scale", request.scale, NAMES)
    folders = {"treebanks": treebanks, "pud": pud, "entities": entities}
    if name == "smoke" and (request.model or any(folders.values())):
        raise InputError("--scale smoke makes its own languages and models; data and models go with mini and paper")
    scale = _asked(SCALES[name], examples=examples, tested=tested, compared=compared, epochs=epochs, rate=rate)
    seeds = at_least("seeds", SEEDS if request.seeds is None else request.seeds, 1)
    texts = _texts(request, scale, folders)
    model = request.model or scale.model or str(request.out / MULTILINGUAL / "model")
    called = model_name(model) if request.model or scale.model else MULTILINGUAL
    jobs = [
        _job(request, scale, texts, pieces, model=model, task=task, source=source, seed=seed)
        for task, source, pieces in experiments(scale, texts)
        for seed in range(seeds)
    ]
    arguments = {
        "paper": "muller2021",
        "scale": name,
        "model": called,
        "examples": scale.examples,
        "tested": scale.tested,
        "compared": scale.compared,
        "epochs": scale.epochs,
        "rate": scale.rate,
    }
    sources = {kind: ", ".join(one) for kind, one in (("UD", scale.treebanks), ("WikiAnn", scale.entities))}
    conditions = (
        f"{ABOUT}; at {name} scale: {called}, parsing and POS from {sources['UD']} (UD), NER from "
        f"{sources['WikiAnn']} (WikiAnn), the reference and {len(PLANS) - 1} pairs of layers that begin anew"
    )
    return Outline(
        conditions, arguments, texts, list(_pretraining(request, scale)), jobs,
        _cost(scale, jobs, texts), DEPTH, partial(_notes, scale, texts),
    )  # fmt: skip


def experiments(scale: Scale, texts: Texts) -> Iterator[tuple[str, str, list[Piece]]]:
    """Every task and source with its files: train, dev, tests."""
    for task in TASKS:
        sources = scale.entities if task == "ner" else scale.treebanks
        for source in sources:
            found = entity_sets(scale, source) if task == "ner" else treebank_sets(scale, source)
            yield task, source, [piece for piece in found if texts.there(piece)]


def _asked(scale: Scale, **given: Any) -> Scale:
    """The scale with what the user decides."""
    for name, value in given.items():
        if value is not None:
            at_least(name, value, {"rate": 1e-9, "tested": 2, "compared": 16}.get(name, 1))
    asked = replace(scale, **{name: value for name, value in given.items() if value is not None})
    few = asked.compared is not None and asked.compared < WINDOWS
    return replace(asked, legacy="windows") if few else asked


def _texts(request: Request, scale: Scale, given: Mapping[str, str | None]) -> Texts:
    folders: dict[str, Path | None] = {}
    for kind, below in FOLDERS.items():
        named = given[kind]
        if named is not None and not Path(named).is_dir():
            raise InputError(f"--{kind} {named} is no folder")
        base = None if named or request.data is None or scale.model is None else data_dir(request.data)
        folders[kind] = Path(named) if named else None if base is None else base / below
    empty = Texts(request.out, folders, {}, (), scale.compared)
    pieces = {piece.name: piece for _, _, some in experiments(scale, empty) for piece in some}
    languages = [one for one in (*scale.pud, *scale.unseen) if one != ICELANDIC]
    parallel = [f"{one}_pud" for one in languages if f"{one}_pud" in pieces]
    made = partial(_invented, scale, pieces) if scale.model is None else None
    return Texts(request.out, folders, pieces, parallel, scale.compared, made)


def _invented(scale: Scale, pieces: Mapping[str, Piece]) -> dict[str, str]:
    """The files of invented languages, with those that the model is pretrained on."""
    assert scale.examples is not None and scale.tested is not None
    counts = {"known": KNOWN_SENTENCES, "train": scale.examples, "dev": scale.tested, "home": scale.tested,
              "pud": scale.tested}  # fmt: skip
    sets = invented_sets(scale.pud, counts)
    found = {}
    for piece in pieces.values():
        part = piece.name.rpartition(".")[2] if "." in piece.name else "home" if "home" in piece.name else "pud"
        words = sets[part][piece.language]
        if piece.folder == "entities":
            found[f"{piece.name}.tsv"] = as_tags(words)
        else:
            found[f"{piece.name}.conllu"] = as_conllu(words, piece.language, name=part)
    for name, part in (("known", "known"), ("pud", "pud")):
        said = {
            one: [" ".join(form for form, _ in words[:-1]) + words[-1][0] for words in sets[part][one]]
            for one in scale.pud
        }
        if name == "known":
            found |= {f"known.{one}.txt": "\n".join(lines) + "\n" for one, lines in said.items()}
        else:
            rows = ["\t".join(said), *map("\t".join, zip(*said.values(), strict=True))]
            found["pud.tsv"] = "\n".join(rows[: 1 + (scale.compared or len(rows))]) + "\n"
    return found


def _job(
    request: Request,
    scale: Scale,
    texts: Texts,
    pieces: Sequence[Piece],
    *,
    model: str,
    task: str,
    source: str,
    seed: int,
) -> Job:
    train, dev, *tests = pieces
    options = {
        "task": task,
        "train": {source: str(texts.path(train))},
        "dev": {source: str(texts.path(dev))},
        "test": [f"{one.language}={texts.path(one)}" for one in tests],
        "plans": ",".join(PLANS), "seed": seed, "epochs": scale.epochs, "batch": scale.batch,
        "rates": str(scale.rate), "length": LENGTH, "probe": AT_THE_END, "bitext": [str(texts.bitext)],
        "legacy": scale.legacy, "checkpoint": scale.checkpoint,
        "skip_bad": True, "device": request.device, "dtype": request.dtype,
    }  # fmt: skip
    name = f"{task}-{source}-seed-{seed}"
    place = {"task": task, "source": source, "seed": seed}
    return Job(name, "transfer", model, options, request.out / "jobs" / name, place)


def _pretraining(request: Request, scale: Scale) -> Iterator[Job]:
    """The model of invented languages."""
    if scale.model is None:
        files = {one: str(request.out / "text" / f"known.{one}.txt") for one in scale.pud}
        options = {**scale.pretraining, "device": request.device, "dtype": request.dtype}
        yield Job(MULTILINGUAL, "pretrain", files, options, request.out / MULTILINGUAL, {})


def _notes(scale: Scale, texts: Texts) -> list[str]:
    silent = [one for one in dict.fromkeys((*scale.treebanks, *scale.entities)) if one not in scale.pud]
    wanted = dict.fromkeys(piece.name for source in scale.treebanks for piece in treebank_sets(scale, source))
    missing = [name for name in wanted if name not in texts.pieces]
    found = [f"the parallel treebanks have no {one}: its similarity to others is not measured" for one in silent]
    return found + ([f"no test set is there of {', '.join(missing)}"] if missing else [])


def _cost(scale: Scale, jobs: Sequence[Job], texts: Texts) -> Cost:
    steps = sentences = read = 0
    for job in jobs:
        task, source = job.place["task"], job.place["source"]
        there = scale.sizes.get("ner" if task == "ner" else source)
        train = min(one for one in (there, scale.examples, 10**9) if one is not None)
        tests = len(job.options["test"]) * (scale.tested or 1000)
        steps += len(PLANS) * scale.epochs * ceil(train / scale.batch)
        sentences += len(PLANS) * scale.epochs * train
        read += len(PLANS) * (tests + len(texts.parallel) * (scale.compared or 1000))
    basis = [
        f"{len(PLANS)} trainings a job, {scale.epochs} epochs in batches of {scale.batch}, and {read:,} sentences "
        f"tested and compared, about {scale.tokens:g} tokens a sentence",
        f"{scale.step * 1000:.0f} ms an update and {scale.read:,.0f} sentences/s in evaluation, as on {scale.basis}",
        f"memory: {scale.weights / 1e6:.1f} million weights at {BYTES} bytes, and 2 GB for vectors and scores; loading "
        "and pretraining are not counted",
    ]
    hours = (steps * scale.step + read / scale.read) / 3600
    return Cost(steps, round((sentences + read) * scale.tokens), 2.0 + scale.weights * BYTES / 1e9, hours, basis)
