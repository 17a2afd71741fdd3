"""How the paper is run at each scale: the models and the jobs that read them, and what these cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Annotated, Any

from isogloss.errors import InputError
from isogloss.papers.paper import SCALES as NAMES
from isogloss.papers.paper import Cost, Outline, Request
from isogloss.papers.wu2020.models import Models
from isogloss.papers.wu2020.published import ABOUT, CRAWL, DEPTH
from isogloss.papers.wu2020.scales import SCALES, Scale
from isogloss.papers.wu2020.texts import Texts
from isogloss.papers.wu2020.trials import STITCHED, Trials
from isogloss.recipes.jobs import Job
from isogloss.recipes.recipe import at_least, one_of

SEEDS = 3
BYTES = 16  # of a weight in training: itself, its gradient, and the two moments of Adam, in float32
LEAST = {"width": 8, "vocabulary": 300, "compared": 16, "tested": 8, "text_bytes": 1000}


def plan(
    request: Request,
    *,
    text: Annotated[str | None, "folder of text to pretrain on, *.LANG.txt; default: train of --data"] = None,
    crawl: Annotated[str | None, "folder of LANG.txt, for the row Wiki-CC; with --scale paper only"] = None,
    treebanks: Annotated[str | None, "folder of UD treebanks; default: ud_train of --data"] = None,
    entities: Annotated[str | None, "folder of WikiAnn; default: wikiann_panx of --data"] = None,
    text_bytes: Annotated[int | None, "bytes of text of a language to pretrain on; default: by --scale"] = None,
    steps: Annotated[int | None, "updates of every pretraining; default: by --scale"] = None,
    batch: Annotated[int | None, "streams in a batch of pretraining; default: by --scale"] = None,
    width: Annotated[int | None, "width of every model; default: by --scale"] = None,
    vocabulary: Annotated[int | None, "pieces of a bilingual model, half for one language; default: by --scale"] = None,
    compared: Annotated[int | None, "most parallel sentences to compare and learn maps on; default: by --scale"] = None,
    examples: Annotated[int | None, "most sentences to train tasks on; default: by --scale"] = None,
    tested: Annotated[int | None, "most sentences of a test set; default: by --scale"] = None,
) -> Outline:
    """The jobs of a reproduction: packing, pretraining, and everything that reads the models."""
    name = one_of("scale", request.scale, NAMES)
    given = {"text": text, "treebanks": treebanks, "entities": entities}
    if request.model:
        raise InputError("--model is no option here: the paper pretrains every model that it reads")
    if name == "smoke" and any(given.values()):
        raise InputError("--scale smoke makes its own languages and models; text goes with mini and paper")
    if crawl is not None and (name != "paper" or not Path(crawl).is_dir()):
        raise InputError(f"--crawl {crawl} goes with --scale paper, and is a folder of LANG.txt")
    asked = {"text_bytes": text_bytes, "steps": steps, "batch": batch, "width": width, "vocabulary": vocabulary,
             "compared": compared, "examples": examples, "tested": tested}  # fmt: skip
    scale = _asked(SCALES[name], {option: value for option, value in asked.items() if value is not None})
    seeds = at_least("seeds", SEEDS if request.seeds is None else request.seeds, 1)
    texts = Texts(request.out, scale, request.data, given)
    models = Models(request, scale, texts, seeds, crawl)
    trials = Trials(request, scale, texts, models, seeds).jobs()
    # What is done needs nothing: its models and packed text may have been left on another machine.
    jobs = [replace(job, needs=()) if job.done else job for job in (*models.jobs(), *trials)]
    shape = scale.shape
    called = f"{shape['architecture']}-{shape['depth']}x{shape['width']}"
    arguments = {"paper": "wu2020", "scale": name, "model": called, "seeds": seeds, "crawl": crawl is not None,
                 "text_bytes": scale.text, "steps": scale.steps, "batch": scale.training["batch"],
                 "vocabulary": scale.vocabulary, "compared": scale.pairs, "examples": scale.examples,
                 "tested": scale.tested}  # fmt: skip
    conditions = (
        f"{ABOUT}; at {name} scale: models {called}, {scale.steps:,} updates of {scale.training['batch']} streams of "
        f"{shape['length']} tokens, of {scale.source} with {', '.join(scale.pair_targets)}"
    )
    return Outline(
        conditions, arguments, texts, [], jobs, _cost(scale, jobs, seeds), DEPTH,
        partial(_notes, scale, crawl),
    )  # fmt: skip


def _asked(scale: Scale, given: Mapping[str, Any]) -> Scale:
    """The scale with what the user decides."""
    for name, value in given.items():
        at_least(name, value, LEAST.get(name, 1))
    training = {name: given[name] for name in ("steps", "batch") if name in given}
    if "steps" in given:  # the same share of them warms up
        training["warm_up"] = round(scale.training["warm_up"] * given["steps"] / scale.steps)
    shape = {"width": given["width"]} if "width" in given else {}
    plain = {name: given[name] for name in ("vocabulary", "examples", "tested") if name in given}
    plain |= {"pairs": given["compared"]} if "compared" in given else {}
    if "examples" in given:
        plain["inferred"] = given["examples"]
    if "text_bytes" in given:
        plain |= {"text": given["text_bytes"], "words": min(given["text_bytes"], scale.words or given["text_bytes"])}
    return replace(scale, training={**scale.training, **training}, shape={**scale.shape, **shape}, **plain)


def _notes(scale: Scale, crawl: str | None) -> list[str]:
    text = "the same text" if scale.text is None else "other text of the same language"
    found = [
        f"{scale.again} is {scale.source} once more: a model of another seed, and a bilingual one whose embeddings are "
        f"apart, on {text}; its sentences share a translation, where the paper has a back-translation"
    ]
    if scale.learned:
        told = ", ".join(f"{target} ({name})" for target, name in scale.learned.items())
        found.append(f"XNLI has no {told}: maps are learned and languages compared on other text there")
    if scale.text is not None and not scale.made:
        found.append(
            "text that is known to be parallel is not pretrained on; debates of one parliament in several languages are"
        )
    if crawl is None:
        found.append(f"the row {CRAWL} of Table 1 needs other text, and is run at paper scale alone, with --crawl")
    return found


def _cost(scale: Scale, jobs: Sequence[Job], seeds: int) -> Cost:
    parts = {part: [job for job in jobs if job.place["part"] == part] for part in ("pretrain", "stitch", "transfer")}
    streams = scale.training["batch"] * scale.shape["length"]
    tokens = len(parts["pretrain"]) * scale.steps * streams
    each = scale.steps * streams / scale.rate + scale.overhead
    layers = len(str(scale.stitched.get("layers", "0,1,2,3,4,5,6,7,8")).split(","))
    sentences = scale.examples or 12_544
    stitched = len(parts["stitch"]) * layers * seeds * _updates(sentences, scale.stitched)
    # Every epoch scores a development set, the source's test, and the target's by each of four ways.
    scored = int(5.5 * (scale.tested or 1000)) * int(scale.stitched["epochs"]) * layers * seeds
    rates = len(str(scale.tuned["rates"]).split(","))
    tuned = sum(
        rates * seeds * _updates(min(scale.inferred, 392_702) if job.place["task"] == "nli" else sentences, scale.tuned)
        for job in parts["transfer"]
    )
    steps = len(parts["pretrain"]) * scale.steps + stitched + tuned
    basis = [
        f"{len(parts['pretrain'])} models to pretrain, about {each:,.0f} seconds of the device each: "
        f"{len(parts['pretrain']) * each / 60:,.0f} minutes",
        f"{stitched:,} updates of {' and '.join(STITCHED)} on stitched layers in {len(parts['stitch'])} jobs, about "
        f"{_seconds(stitched, parts['stitch'], scale)} seconds each, {tuned:,} of Table 1 in {len(parts['transfer'])}, "
        f"about {_seconds(tuned, parts['transfer'], scale)} each, {1000 * scale.update:.0f} ms an update; these share "
        "a GPU well, with --parallel",
        f"each job of parsing on stitched layers finds the trees of {scored:,} sentences on one core, up to 1 ms each",
        f"{scale.rate:,.0f} tokens/s: {scale.basis}",
        f"memory: {scale.weights / 1e6:.1f} million weights at {BYTES} bytes, and 2 GB for vectors and scores; "
        "packing, rotate and lexicon are not counted",
    ]
    hours = (len(parts["pretrain"]) * each + (stitched + tuned) * scale.update) / 3600
    return Cost(steps, tokens, 2.0 + scale.weights * BYTES / 1e9, hours, basis)


def _updates(sentences: int, settings: Mapping[str, Any]) -> int:
    return int(settings["epochs"]) * ceil(sentences / int(settings["batch"]))


def _seconds(updates: int, jobs: Sequence[Job], scale: Scale) -> str:
    return f"{updates * scale.update / max(1, len(jobs)):,.0f}"
