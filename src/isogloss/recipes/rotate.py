"""`isogloss rotate`: a rotation learned from parallel sentences, and how many translations of others it finds.

At every layer, a map is fitted on one parallel text and tried on another (Conneau, Wu et al. 2020, 5.1.3: learned on
XNLI's sentences, tried on Tatoeba's). The two languages may be read by two models that never saw each other's. CKA says
how alike the two spaces are before any map (5.2), from the same vectors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.arguments import at_least, model_name
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.inducing import Fits, Found, behind_rows, check_widths, shared_layers
from isogloss.recipes.steps.layers import layer_list
from isogloss.recipes.steps.likeness import distinct_rows, likeness_rows, relation_rows
from isogloss.recipes.steps.turning import layer_of, sentence_file, turned_rows
from isogloss.recipes.steps.ways import Way, parse_ways
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.seeds import seed_of
from isogloss.stack.edit import reinitialise
from isogloss.stack.load import load
from isogloss.stack.stack import Stack
from isogloss.text import read_bitexts, resolve
from isogloss.text.corpora import Bitext, Corpus, bitexts_of

WAYS = "raw,centred,procrustes,procrustes+iterative"
MAPS = "mappings"  # folder of maps that are kept


@dataclass(frozen=True)
class Trial:
    """Two languages: the sentences to learn from (None where nothing is learned) and those to look up.

    kept_out: sentences of the parallel text that are looked up, and so were not learned from.
    """

    name: str
    learned: Bitext | None
    asked: Bitext
    kept_out: int

    @property
    def languages(self) -> tuple[str, str]:
        """The language that is mapped, and the one it is mapped onto."""
        first, other = self.asked.languages
        return first, other


def rotate_job(
    model: str | Path | Stack = "mini",
    *bitext: Bitext | Corpus,
    train: Annotated[list[str] | None, "parallel text to learn from, named as --bitext is"] = None,
    data: Annotated[str | None, "folder of data sets to find --train in"] = None,
    other: Annotated[str | None, "a second model, which reads the other languages; default the same"] = None,
    random: Annotated[bool, "the other languages are read with fresh weights, drawn by seed"] = False,
    ways: Annotated[str, "maps to compare, with commas; 'none' for CKA alone"] = WAYS,
    pairs: Annotated[int, "most parallel sentences to learn from, drawn by seed"] = 10_000,
    pool: Annotated[int, "most sentences to look up, drawn by seed"] = 2000,
    refine: Annotated[int, "rounds of refinement by mutual neighbours"] = 0,
    strength: Annotated[float, "of ridge"] = 1.0,
    layers: Annotated[str | None, "cuts to read, as in 0,4,8-12; default all"] = None,
    keep: Annotated[str | None, "cuts whose maps stay in the run's folder, for export; default none"] = None,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
    seed: Annotated[int, "draws the sentences"] = 0,
    device: str = "auto",
    dtype: str | None = None,
) -> Job:
    """Learn a rotation from parallel sentences at every layer, and find the translations of others with it.

    Example: isogloss rotate mini --bitext tatoeba/ --languages nl,de --train europarl.tsv --out runs/rotated
    """
    chosen = [] if ways == "none" else parse_ways(ways)
    texts = _asked(bitext)
    for name, value in (("pairs", pairs), ("pool", pool)):
        at_least(name, value, 2)
    at_least("refine", refine, 0), at_least("strength", strength, 0), at_least("seed", seed, 0)
    if train is None and any(one.learns for one in chosen):
        needs = next(one.name for one in chosen if one.learns)
        raise InputError(f"{needs} is learned from parallel text; give it with --train, or choose --ways raw,centred")
    trials = [one for text in texts for one in _trials(text, train, data=data, most=pairs, pool=pool, seed=seed)]
    first = load(model, revision, dtype=dtype, device=device) if isinstance(model, str | Path) else model
    second = first if other is None else load(other, dtype=dtype, device=device)
    if random:
        every = range(1, second.last + 1)
        second = reinitialise(second, every, embeddings=True, seed=seed_of(seed, "random weights"))
    check_widths((first.name, second.name), (first.width, second.width), chosen)
    cuts = shared_layers((first, second), layer_list(layers, first))
    layer_list(cuts, second)
    kept = [] if keep is None else _kept(keep, first, cuts, chosen, trials)
    read = None if second is first else model_name(second.name) + (" random" if random else "")
    names = {"model": model_name(first.name), "other_model": read}
    fits = Fits(chosen, refine, strength, first.device if first.device.type == "cuda" else torch.device("cpu"))

    def steps(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        for number, trial in enumerate(trials):
            base = {**names, "task": "rotate", "data": trial.name, "unit": "sentence", "seed": seed}
            folder = run.scratch / str(number)
            yield from _trial_rows(trial, (first, second), cuts, kept, fits, base, folder, run, progress)

    hashes: dict[str, Any] = {"model": first.fingerprint}
    hashes |= {} if second is first else {"other": second.fingerprint}
    for one in trials:
        known = {"test": one.asked.fingerprint, "train": None if one.learned is None else one.learned.fingerprint}
        hashes[f"{one.name} {'-'.join(one.languages)}"] = known
    return Job(str(names["model"]), steps, hashes, depth=first.cuts[-1])


def rotate(
    model: str | Path | Stack = "mini",
    *bitext: Bitext | Corpus,
    train: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Learn a rotation from parallel sentences and look others up, from Python: `rotate_job` says what the options are.

    train: a bitext, several, or paths. Returns the table of rows.

    >>> table = rotate("mini", tatoeba, train=europarl)  # doctest: +SKIP
    """
    if out is None and options.get("keep") is not None:
        raise InputError("keep leaves maps in the run's folder; give it as out")
    job = rotate_job(model, *bitext, train=train, **options)
    plain = (
        train if train is None or isinstance(train, list) and all(isinstance(one, str) for one in train) else "given"
    )
    arguments = {"model": str(getattr(model, "name", model)), "train": plain, **options}
    return execute(
        job, command="rotate", arguments=arguments, seed=options.get("seed", 0), out=out, resume=resume,
        progress=progress,
    )  # fmt: skip


def _trial_rows(
    trial: Trial,
    stacks: tuple[Stack, Stack],
    layers: Sequence[int],
    kept: Sequence[int],
    fits: Fits,
    base: Mapping[str, Any],
    folder: Path,
    run: Run,
    progress: Progress,
) -> Iterator[Sequence[Row]]:
    """All rows of two languages; how many sentences were learned from comes last, and says that they are all there."""
    source, target = trial.languages
    n = 0 if trial.learned is None else trial.learned.rows
    last = row("learned_from", n, n=n, source=source, target=target, **base)
    if run.has(last):
        return
    if trial.kept_out:
        run.note(f"{trial.kept_out:,} sentences for learning are looked up in {trial.name}, and were not learned from")
    texts = {"test": trial.asked} | ({} if trial.learned is None else {"train": trial.learned})
    distinct = distinct_rows(texts)
    files = {
        (part, language): sentence_file(stack, text[language], folder / f"{part}.{language}.npy", layers=layers,
                                        note=run.note, progress=progress)
        for part, text in texts.items()
        for language, stack in zip((source, target), stacks, strict=True)
    }  # fmt: skip
    keys = tuple(list(corpus.sentences) for corpus in trial.asked)
    found: dict[tuple[str, str], dict[int, Found]] = {(source, target): {}, (target, source): {}}
    maps = run.folder / MAPS / f"{source}-{target}"
    alike: list[Row] = []
    for place, layer in enumerate(layers):
        here = {direction: Found() for direction in found}
        x, y = ({part: layer_of(files[part, one], place).to(fits.device) for part in texts} for one in (source, target))
        sides = {part: (x[part], y[part]) for part in texts}
        at = {**base, "layer": layer}
        yield list(
            turned_rows(
                sides.get("train"), sides["test"], fits, keys=(keys[0], keys[1]), ways=(source, target), place=at,
                found=here, kept=maps / f"layer-{layer}" if layer in kept else None,
            )
        )  # fmt: skip
        where = {**at, "source": source, "target": target}
        alike += likeness_rows(sides, distinct, seed=base["seed"], place=where)
        yield [one for one in alike if one["layer"] == layer]
        for direction, one in here.items():
            found[direction][layer] = one
            for sentence in one.notes:
                run.note(sentence)
        progress(f"looking up {source} and {target}", place + 1, len(layers))
    for direction, by_layer in found.items():
        where = {**base, "source": direction[0], "target": direction[1]}
        yield list(behind_rows(by_layer, base=where, unit="sentence"))
    yield list(relation_rows(alike, found, place={**base, "source": source, "target": target}))
    yield [last]


def _kept(keep: str, stack: Stack, cuts: Sequence[int], ways: Sequence[Way], trials: Sequence[Trial]) -> list[int]:
    """The cuts whose maps are kept."""
    found = list(layer_list(keep, stack) or ())
    missing = [one for one in found if one not in cuts]
    if missing:
        raise InputError(f"--keep {keep}: layer {missing[0]} is not read; --layers has {', '.join(map(str, cuts))}")
    if not any(way.learns for way in ways):
        raise InputError("--keep keeps maps that are learned, and --ways has none; add procrustes")
    pairs = [one.languages for one in trials]
    if len(set(pairs)) < len(pairs):
        raise InputError("--keep goes with one --bitext: several ask for a map of the same two languages")
    return found


def _asked(given: Sequence[Bitext | Corpus]) -> list[Bitext]:
    texts = bitexts_of(given)
    if not texts:
        raise InputError("--bitext is missing: it names the parallel sentences that are looked up")
    for text in texts:
        if len(text.languages) < 2 or text.rows < 2:
            raise InputError(
                f"{text.name or 'the text'} has {text.rows} parallel sentences in {len(text.languages)} languages; "
                "two of each are the least"
            )
    return texts


def _trials(text: Bitext, train: Any, *, data: str | None, most: int, pool: int, seed: int) -> Iterator[Trial]:
    """The first language of a text with each other one."""
    name = text.name or "-".join(text.languages)
    first, *others = text.languages
    for other in others:
        asked = _drawn(_two(text, first, other), pool, seed, "asked")
        if train is None:
            yield Trial(name, None, asked, 0)
            continue
        whole = _two(_parallel(train, first, other, data=data), first, other)
        known = [set(corpus.sentences) for corpus in asked]
        sides = zip(*(corpus.sentences for corpus in whole), strict=True)
        apart = [number for number, (x, y) in enumerate(sides) if x not in known[0] and y not in known[1]]
        if len(apart) < 2:
            raise InputError(
                f"--train has {len(apart)} sentences of {first} and {other} that are not looked up in {name}; give more"
            )
        learned = _drawn(whole.take(apart), most, seed, "learned")
        yield Trial(name, learned, asked, whole.rows - len(apart))


def _parallel(train: Any, first: str, other: str, *, data: str | None) -> Bitext:
    """The text to learn from that has both languages."""
    if isinstance(train, Bitext):
        given = [train]
    elif all(isinstance(one, Bitext) for one in train):
        given = list(train)
    else:
        given = read_bitexts(*(resolve(path, data) for path in train), languages=(first, other))
    for text in given:
        if {first, other} <= set(text.languages):
            return text
    there = ", ".join("-".join(one.languages) for one in given)
    raise InputError(f"--train has no parallel text of {first} and {other}; it has {there}")


def _two(text: Bitext, first: str, other: str) -> Bitext:
    return Bitext((text[first], text[other]), name=text.name)


def _drawn(text: Bitext, most: int, seed: int, part: str) -> Bitext:
    """At most so many rows, drawn by the seed, in their order."""
    if text.rows <= most:
        return text
    chance = np.random.default_rng(seed_of(seed, part, *text.languages))
    return text.take(sorted(chance.choice(text.rows, size=most, replace=False).tolist()))
