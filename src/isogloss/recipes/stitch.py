"""`isogloss stitch`: a task learned on top of one model's lower layers, and asked of another's through a rotation.

The lower layers of the source model, frozen, and some fresh layers with a head are trained on the source language. At
test the lower layers of the target model stand in their place, with a rotation between that was fitted on words in
context that translate each other (Conneau, Wu et al. 2020, 5.1.2). Every layer to cut at is a training of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd

from isogloss.errors import InputError
from isogloss.mappings.mapping import RESTORES
from isogloss.progress import Progress, named, silent
from isogloss.recipes.arguments import at_least, half_precision, model_name, one_of, share_of
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.inducing import shared_layers, underdetermined_note
from isogloss.recipes.steps.layers import layer_list
from isogloss.recipes.steps.seedmeans import mean_rows
from isogloss.recipes.steps.stitching import Stitched, fit_stitched, read_states, stitched_rows, ways_of
from isogloss.recipes.steps.taskfitting import Fitting
from isogloss.recipes.steps.tasktexts import Sets, lost_notes, read_sets, tokenise_set
from isogloss.recipes.steps.ways import Way, parse_ways
from isogloss.recipes.steps.wordpairs import pairs_at, read_words, word_pairs
from isogloss.recipes.steps.wordspaces import space_rows
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.load import choose_device, load
from isogloss.stack.stack import Stack
from isogloss.tasks import TASKS, find_task
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.training.loop import Settings, steps_in_epoch
from isogloss.training.optimisation import Optimisation
from isogloss.training.processes import launched


def stitch_job(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"what is learned: {', '.join(TASKS)}"],
    train: Annotated[str, "examples to train on, LANG=FILE[,FILE]: the source language"],
    dev: Annotated[list[str], "examples of the source language to choose the epoch by, LANG=FILE"],
    test: Annotated[list[str], "examples to test on, LANG=FILE[,FILE], once a set: the source's, and the target's"],
    other: Annotated[str | None, "the model that reads the target language; default the same model"] = None,
    layers: Annotated[str | None, "cuts to stitch at, as in 0,4,8-12; default all"] = None,
    fresh: Annotated[int, "fresh layers between the cut and the head"] = 4,
    way: Annotated[str, "the map: procrustes, least-squares or ridge, alone or with +iterative, +centred, +length"] = (
        "procrustes+iterative"
    ),
    restore: Annotated[str, f"in which terms mapped states are given: {', '.join(RESTORES)}"] = "recentred",
    pairs: Annotated[int, "most pairs of words to fit the map on, drawn by seed"] = 50_000,
    cap: Annotated[int, "most pairs that one word type is in"] = 20,
    pool: Annotated[str, "a word's vector: its first subword, or the mean of all"] = "first",
    space: Annotated[int, "most sentences of --bitext whose words are a language's space, drawn by seed"] = 50_000,
    refine: Annotated[int, "rounds of refinement by mutual neighbours among the paired words"] = 0,
    seeds: Annotated[int, "how many seeds each layer is trained with"] = 1,
    epochs: Annotated[int, "times the training examples are seen"] = 10,
    batch: Annotated[int, "examples in a batch"] = 32,
    rate: Annotated[float, "highest learning rate"] = 5e-5,
    warm_up: Annotated[float, "share of the updates until the rate is highest"] = 0.1,
    length: Annotated[int | None, "most tokens of an example; default the task's, or the model's if it is less"] = None,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    checkpoint: Annotated[int, "updates between checkpoints"] = 1000,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
    seed: Annotated[int, "the first seed: decides fresh weights, order and dropout, and draws pairs of words"] = 0,
    device: str = "auto",
    dtype: Annotated[str | None, "float32 or bfloat16; default float32 on a CPU, bfloat16 on a GPU"] = None,
) -> Job:
    """Learn a task on one model's lower layers, and ask it of another model's through a rotation, layer by layer.

    Example: isogloss stitch ./english --other ./dutch --task ner --train en=train.tsv --dev en=dev.tsv
    --test en=en.tsv --test nl=nl.tsv --bitext en.txt --bitext nl.txt --languages en,nl
    """
    if launched()[1] > 1:
        raise InputError("stitch trains in one process; start it without torchrun or accelerate")
    place, kind, mapped = choose_device(device), find_task(task), _way(way)
    one_of("restore", restore, RESTORES), one_of("pool", pool, ("first", "mean"))
    for name, value, least in (("fresh", fresh, 1), ("pairs", pairs, 2), ("cap", cap, 1), ("space", space, 2),
                               ("refine", refine, 0), ("epochs", epochs, 1), ("batch", batch, 1),
                               ("checkpoint", checkpoint, 1)):  # fmt: skip
        at_least(name, value, least)
    numbers = range(at_least("seed", seed, 0), seed + at_least("seeds", seeds, 1))
    share_of("warm_up", warm_up)
    sets = read_sets(kind, train, dev, test, skip_bad=skip_bad)
    target = _target(sets)
    parallel = _parallel(bitext, sets.source, target)
    half = half_precision(dtype, place)
    source = load(model, revision, dtype="float32", device=place)
    second = source if other is None else load(other, dtype="float32", device=place)
    _check_models(source, second)
    cuts = shared_layers((source, second), layer_list(layers, source))
    layer_list(cuts, second)
    size = min(source.max_length, second.max_length, length or kind.length)
    if size < 8:
        raise InputError(f"--length must be at least 8, not {size}")
    optimisation = Optimisation(rate, 0, "linear", 0.0, (0.9, 0.999), 1e-8, 1.0)
    languages = (target, sets.source)  # the map leads from the target's space to the one the task is learned in
    where = {"model": model_name(model), "other_model": None if other is None else model_name(other),
             "task": kind.name, "source": sets.source}  # fmt: skip

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        chosen = word_pairs(parallel, languages, most=pairs, cap=cap, seed=seed, progress=progress)
        sides = ([(one.row, one.first) for one in chosen], [(one.row, one.other) for one in chosen])
        drawn = space_rows(parallel.rows, most=space, seed=seed)
        (abroad, there), (home, here) = (
            read_words(stack, parallel[language], places, run.scratch, kind=mapped.normalise, rows=drawn, layers=cuts,
                       pool=pool, progress=progress)
            for stack, language, places in zip((second, source), languages, sides, strict=True)
        )  # fmt: skip
        text = _tokenised(run, kind, sets, (source, second), size, progress)
        epoch = steps_in_epoch(text.home[0], batch)
        warmed = replace(optimisation, warm_up=round(warm_up * epochs * epoch))
        # A loss is no row here, and to read one the device has to be waited for.
        settings = Settings(epochs * epoch, seed, warmed, report=epoch, half=half)
        fitting = Fitting(
            model=model,
            revision=revision,
            device=place,
            task=kind,
            sets=sets,
            settings=settings,
            batch=batch,
            checkpoint=checkpoint,
        )
        yield [
            row("skipped", one.skipped, target=one.language, data=one.name, **where) for one in sets.all if one.skipped
        ]
        for number, cut in enumerate(cuts):
            x, y = pairs_at((abroad, home), number)
            at = {**where, "layer": cut}
            data = parallel.name or "-".join(parallel.languages)
            yield [row("learned_from", len(x), target=target, data=data, unit="word", seed=seed, **at)]
            shapes = there[number], here[number]
            mapping = mapped.fit(x, y, spaces=(x, y), shapes=shapes, refine=refine, strength=1.0).restored(restore)
            if mapping.underdetermined:
                run.note(underdetermined_note(way, mapping.pairs, x.shape[1], "the parallel text"))
            states = cache(partial(read_states, (source, second), text, mapping, cut=cut, dtype=fitting.dtype,
                                   file=run.scratch / f"cut-{cut}", progress=progress))  # fmt: skip
            results: list[Row] = []
            for each in numbers:
                ways = ways_of(mapping, seed=seed_of(each, "random rotation", cut))
                told = named(progress, f"training on layer {cut} ({number + 1} of {len(cuts)}), seed {each}")
                spot = {**at, "seed": each}
                fit_stitched(run, fitting, text, source=source, fresh=fresh, ways=ways, states=states, place=spot,
                             progress=told)  # fmt: skip
                rows = stitched_rows(run, fitting, text, ways=list(ways), place=spot)
                results += rows
                yield rows
            yield mean_rows(results)
            for old in run.scratch.glob(f"cut-{cut}-*.states"):
                old.unlink()

    hashes: dict[str, Any] = {"model": source.fingerprint, "data": sets.hashes, "parallel text": parallel.fingerprint}
    hashes |= {} if other is None else {"other": second.fingerprint}
    return Job(str(where["model"]), work, hashes, sets.notes, source.last)


def stitch(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: str,
    train: str | Mapping[str, Any],
    dev: Sequence[str] | Mapping[str, Any],
    test: Sequence[str] | Mapping[str, Any],
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Stitch two models at every layer and ask a task of both, from Python: `stitch_job` says what the options are.

    train, dev, test: files by language. bitext: parallel text to fit the map on. Returns the rows.

    >>> stitch("english", europarl, other="dutch", task="ner", train={"en": "train.tsv"}, dev={"en": "dev.tsv"},
    ...        test={"en": "en.tsv", "nl": "nl.tsv"})  # doctest: +SKIP
    """
    given = {"task": task, "train": train, "dev": dev, "test": test}
    job = stitch_job(model, *bitext, **cast(Any, given), **options)
    arguments = {"model": str(model), **{name: str(value) for name, value in given.items()}, **options}
    return execute(
        job, command="stitch", arguments=arguments, seed=options.get("seed", 0), out=out, resume=resume,
        progress=progress,
    )  # fmt: skip


def _way(text: str) -> Way:
    found = parse_ways(text)
    if len(found) > 1 or not found[0].learns:
        raise InputError(f"--way is one map that is fitted, such as procrustes+iterative, not {text!r}")
    return found[0]


def _target(sets: Sets) -> str:
    """The one language besides the source that is tested."""
    others = list(dict.fromkeys(one.language for one in sets.tests if one.language != sets.source))
    if len(others) != 1:
        there = ", ".join(others) or "none"
        raise InputError(
            f"--test must have sets of one language besides {sets.source}, the one that is stitched; it has {there}"
        )
    if len(sets.dev) > 1:
        raise InputError(f"--dev takes examples of {sets.source} only: the epoch is chosen without the target language")
    return others[0]


def _parallel(given: Sequence[Bitext | Corpus], source: str, target: str) -> Bitext:
    """The text that has both languages."""
    texts = bitexts_of(given)
    if not texts:
        raise InputError(
            f"--bitext is missing: parallel text of {source} and {target}, from whose words the map is learned"
        )
    for text in texts:
        if {source, target} <= set(text.languages):
            return text
    there = ", ".join("-".join(one.languages) for one in texts)
    raise InputError(f"--bitext has no parallel text of {source} and {target}; it has {there}")


def _check_models(source: Stack, target: Stack) -> None:
    for one in (source, target):
        if one.family.kind != "encoder":
            raise InputError(f"{one.name} is a {one.family.kind}; stitch cuts encoders")
    if source.width != target.width:
        raise InputError(
            f"{source.name} is {source.width} wide and {target.name} {target.width}; layers of one cannot stand on "
            "layers of the other: take models of one width"
        )


def _tokenised(
    run: Run, kind: Any, sets: Sets, stacks: tuple[Stack, Stack], length: int, progress: Progress
) -> Stitched:
    """Every set as items: of the source by the source model's tokenizer, of the target by the target model's."""
    here = [one for one in sets.all if one.language == sets.source]
    there = [one for one in sets.tests if one.language != sets.source]
    home, abroad = (
        [
            tokenise_set(kind, one, sets.labels, tokenizer=stack.tokenizer, length=length, progress=progress)
            for one in some
        ]
        for stack, some in zip(stacks, (here, there), strict=True)
    )
    for sentence in lost_notes([*here, *there], [*home, *abroad]):
        run.note(sentence)
    return Stitched(sets, home, abroad)
