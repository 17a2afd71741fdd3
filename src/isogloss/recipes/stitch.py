"""`isogloss stitch`: a task learned on top of one model's lower layers, and asked of another's through a rotation.

The lower layers of the source model, frozen, and some fresh layers with a head are trained on the source language. At
test the lower layers of the target model stand in their place, with a rotation between that was fitted on words in
context that translate each other (Conneau, Wu et al. 2020, 5.1.2). Every layer to cut at is a training of its own.
"""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from isogloss.errors import InputError
from isogloss.mappings.mapping import RESTORES
from isogloss.mappings.specs import MappingSpec, parse_mappings, underdetermined_note
from isogloss.progress import Progress, named, silent
from isogloss.recipes.layer_comparison import shared_layers
from isogloss.recipes.recipe import (
    Batch,
    CheckpointEvery,
    Device,
    Epochs,
    LanguageFile,
    LanguageFiles,
    Layers,
    Out,
    Rate,
    Resume,
    Revision,
    Seed,
    Seeds,
    TrainDtype,
    WarmUp,
    Work,
    at_least,
    half_precision,
    layer_list,
    model_name,
    one_of,
    one_process,
    optimisation,
    recipe,
)
from isogloss.recipes.steps.stitching import Stitched, fit_stitched, read_states, stitched_rows, ways_of
from isogloss.recipes.steps.taskfitting import Fitting
from isogloss.recipes.steps.tasktexts import Sets, lost_notes, read_sets, tokenise_set
from isogloss.recipes.steps.wordpairs import pairs_at, read_words
from isogloss.recipes.steps.wordpairs import word_pairs as choose_word_pairs
from isogloss.recipes.steps.wordspaces import space_rows
from isogloss.runs.run import Run
from isogloss.runs.table import Row, mean_rows, row
from isogloss.seeds import seed_of
from isogloss.stack.load import choose_device, load
from isogloss.stack.stack import Stack
from isogloss.tasks import TASKS, find_task
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.training.loop import Settings, steps_in_epoch


@recipe
def stitch(
    model: str | Path = "mini",
    *bitext: Bitext | Corpus,
    task: Annotated[str, f"what is learned: {', '.join(TASKS)}"],
    train: Annotated[LanguageFile, "examples to train on, LANG=FILE[,FILE]: the source language"],
    dev: Annotated[LanguageFiles, "examples of the source language to choose the epoch by, LANG=FILE"],
    test: Annotated[LanguageFiles, "examples to test on, LANG=FILE[,FILE], once a set: the source's, and the target's"],
    other: Annotated[str | None, "the model that reads the target language; default the same model"] = None,
    layers: Layers = None,
    fresh_layers: Annotated[int, "fresh layers between the cut and the head"] = 4,
    mapping: Annotated[
        str, "the map: procrustes, least-squares or ridge, alone or with +iterative, +centred, +length"
    ] = ("procrustes+iterative"),
    denormalise: Annotated[str, f"in which terms mapped states are given: {', '.join(RESTORES)}"] = "recentred",
    word_pairs: Annotated[int, "most pairs of words to fit the map on, drawn by seed"] = 50_000,
    max_uses: Annotated[int, "most pairs that one word type is in"] = 20,
    pooling: Annotated[str, "a word's vector: its first subword, or the mean of all"] = "first",
    sample: Annotated[int, "most sentences of --bitext whose words are a language's space, drawn by seed"] = 50_000,
    refine: Annotated[int, "rounds of refinement by mutual neighbours among the paired words"] = 0,
    seeds: Seeds = 1,
    epochs: Epochs = 10,
    batch: Batch = 32,
    rate: Rate = 5e-5,
    warm_up: WarmUp = 0.1,
    length: Annotated[int | None, "most tokens of an example; default the task's, or the model's if it is less"] = None,
    skip_bad: Annotated[bool, "leave bad rows out and count them"] = False,
    checkpoint: CheckpointEvery = 1000,
    revision: Revision = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: TrainDtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Learn a task on one model's lower layers, and ask it of another model's through a rotation, layer by layer.

    Example: isogloss stitch ./english --other ./dutch --task ner --train en=train.tsv --dev en=dev.tsv
    --test en=en.tsv --test nl=nl.tsv --bitext en.txt --bitext nl.txt --languages en,nl
    """
    one_process("stitch")
    place, kind, mapped = choose_device(device), find_task(task), _way(mapping)
    one_of("denormalise", denormalise, RESTORES), one_of("pooling", pooling, ("first", "mean"))
    at_least("fresh_layers", fresh_layers, 1), at_least("word_pairs", word_pairs, 2), at_least("max_uses", max_uses, 1)
    at_least("sample", sample, 2), at_least("refine", refine, 0), at_least("epochs", epochs, 1)
    at_least("batch", batch, 1), at_least("checkpoint", checkpoint, 1)
    numbers = range(at_least("seed", seed, 0), seed + at_least("seeds", seeds, 1))
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
    optimisation(steps=1, rate=rate, warm_up=warm_up)  # checks them
    languages = (target, sets.source)  # the map leads from the target's space to the one the task is learned in
    where = {"model": model_name(model), "other_model": None if other is None else model_name(other),
             "task": kind.name, "source": sets.source}  # fmt: skip

    def work(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        chosen = choose_word_pairs(parallel, languages, most=word_pairs, cap=max_uses, seed=seed, progress=progress)
        sides = ([(one.row, one.first) for one in chosen], [(one.row, one.other) for one in chosen])
        drawn = space_rows(parallel.rows, most=sample, seed=seed)
        (abroad, there), (home, here) = (
            read_words(stack, parallel[language], places, run.scratch, kind=mapped.normalise, rows=drawn, layers=cuts,
                       pool=pooling, progress=progress)
            for stack, language, places in zip((second, source), languages, sides, strict=True)
        )  # fmt: skip
        text = _tokenised(run, kind, sets, (source, second), size, progress)
        epoch = steps_in_epoch(text.home[0], batch)
        warmed = optimisation(steps=epochs * epoch, rate=rate, warm_up=warm_up)
        # A loss is no row here, and to read one the device has to be waited for.
        settings = Settings(epochs * epoch, seed, warmed, report=epoch, half=half)
        fitting = Fitting(model, revision, place, kind, sets, settings, batch, None, checkpoint)
        yield [
            row("skipped", one.skipped, target=one.language, data=one.name, **where) for one in sets.all if one.skipped
        ]
        for number, cut in enumerate(cuts):
            x, y = pairs_at((abroad, home), number)
            at = {**where, "layer": cut}
            data = parallel.name or "-".join(parallel.languages)
            yield [row("learned_from", len(x), target=target, data=data, unit="word", seed=seed, **at)]
            shapes = there[number], here[number]
            fitted = mapped.fit(x, y, spaces=(x, y), normalisations=shapes, refine=refine).restored(denormalise)
            if fitted.underdetermined:
                run.note(underdetermined_note(mapping, fitted.pairs, x.shape[1], "the parallel text"))
            states = cache(partial(read_states, (source, second), text, fitted, cut=cut, dtype=fitting.dtype,
                                   file=run.scratch / f"cut-{cut}", progress=progress))  # fmt: skip
            results: list[Row] = []
            for each in numbers:
                ways = ways_of(fitted, seed=seed_of(each, "random rotation", cut))
                told = named(progress, f"training on layer {cut} ({number + 1} of {len(cuts)}), seed {each}")
                spot = {**at, "seed": each}
                fit_stitched(
                    run,
                    fitting,
                    text,
                    source=source,
                    fresh=fresh_layers,
                    ways=ways,
                    states=states,
                    place=spot,
                    progress=told,
                )
                rows = stitched_rows(run, fitting, text, ways=list(ways), place=spot)
                results += rows
                yield rows
            yield mean_rows(results)
            for old in run.scratch.glob(f"cut-{cut}-*.states"):
                old.unlink()

    hashes: dict[str, Any] = {"model": source.fingerprint, "data": sets.hashes, "parallel text": parallel.fingerprint}
    hashes |= {} if other is None else {"other": second.fingerprint}
    return Work(str(where["model"]), work, hashes, sets.notes, source.last)


def _way(text: str) -> MappingSpec:
    found = parse_mappings(text)
    if len(found) > 1 or not found[0].learns:
        raise InputError(f"--mapping is one map that is fitted, such as procrustes+iterative, not {text!r}")
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
