"""`isogloss lexicon`: do the words of two languages have one shape, and at which layer? Dictionary induction.

Every word of a text gets one vector a layer, the mean over all its uses; single-piece words also their row of the
embedding matrix. A map is learned on one part of a dictionary, and the other part is looked up with it, among all
words. The two languages may be read by two models that never saw each other's: then only a map can bring them together
(Conneau, Wu et al. 2020).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import pandas as pd
import torch

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.arguments import at_least, model_name
from isogloss.recipes.recipe import Job, execute
from isogloss.recipes.steps.inducing import Fits, check_widths, shared_layers
from isogloss.recipes.steps.layers import layer_list
from isogloss.recipes.steps.lexiconrows import LEVELS, Plan, lexicon_rows
from isogloss.recipes.steps.lexicontext import read_lexicons
from isogloss.recipes.steps.statics import read_static
from isogloss.recipes.steps.texts import describe, read_texts
from isogloss.recipes.steps.ways import parse_ways
from isogloss.runs.run import Run
from isogloss.runs.table import Row
from isogloss.stack.load import load
from isogloss.stack.stack import Stack


def lexicon_job(
    model: str | Path | Stack = "mini",
    *,
    text: Annotated[list[str], "text of a language, LANG=FILE[,FILE], a sentence a line; the source first"],
    train: Annotated[list[str] | None, "dictionaries to learn from, once a target; default: found in --data"] = None,
    test: Annotated[list[str] | None, "dictionaries to look up, once a target; default: found in --data"] = None,
    data: Annotated[str | None, "folder of data sets to find dictionaries in"] = None,
    other: Annotated[str | None, "a second model that reads the targets; default the same"] = None,
    levels: Annotated[str, "word: averaged over uses, by layer; piece: the embedding matrix"] = "word,piece",
    ways: Annotated[
        str, "maps to compare: raw, centred, procrustes+iterative, ridge, ..."
    ] = "raw,procrustes+iterative",
    refine: Annotated[int, "rounds of refinement by mutual neighbours"] = 0,
    strength: Annotated[float, "of ridge"] = 1.0,
    static: Annotated[list[str] | None, "a baseline: train (from the same text), or LANG=FILE of word vectors"] = None,
    identical: Annotated[bool, "keep pairs that are written alike"] = True,
    sentences: Annotated[int, "most sentences of a language, drawn by seed"] = 500_000,
    vocabulary: Annotated[int, "most words of a language, the most frequent"] = 20_000,
    least: Annotated[int, "uses a word must have"] = 3,
    layers: Annotated[str | None, "cuts to read, as in 0,4,8-12; default all"] = None,
    revision: Annotated[str | None, "revision of a model on the hub"] = None,
    seed: Annotated[int, "draws the sentences"] = 0,
    device: str = "auto",
    dtype: str | None = None,
) -> Job:
    """Look words up in another language by their vectors, at every layer: P@1, P@5, P@10 before and after a map.

    Example: isogloss lexicon mini --text en=en.txt --text nl=nl.txt --train en-nl.train.txt --test en-nl.test.txt
    """
    chosen = parse_ways(ways)
    wanted = _levels(levels)
    files = read_texts(text)
    if len(files) < 2:
        raise InputError(f"--text has one language only ({', '.join(files)}); a lexicon joins two, the source first")
    for name, value in (("sentences", sentences), ("vocabulary", vocabulary), ("least", least)):
        at_least(name, value, 1)
    at_least("refine", refine, 0), at_least("strength", strength, 0), at_least("seed", seed, 0)
    source, *targets = files
    asked = {"train": train, "test": test} if any(one.learns for one in chosen) else {"test": test}
    lexicons = read_lexicons(asked, source, targets, data=data)
    baseline = None if static is None else read_static(static, list(files))
    first = load(model, revision, dtype=dtype, device=device) if isinstance(model, str | Path) else model
    second = first if other is None else load(other, dtype=dtype, device=device)
    names = model_name(first.name), None if other is None else model_name(second.name)
    check_widths((first.name, second.name), (first.width, second.width), chosen)
    cuts = shared_layers((first, second), layer_list(layers, first))
    layer_list(cuts, second)
    place = first.device if first.device.type == "cuda" else torch.device("cpu")
    plan = Plan(
        (first, second), names, files, lexicons, wanted, cuts, Fits(chosen, refine, strength, place), baseline,
        identical, sentences, vocabulary, least, seed,
    )  # fmt: skip

    def steps(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        yield from lexicon_rows(plan, run, progress)

    def hashes(progress: Progress) -> dict[str, Any]:
        known: dict[str, Any] = {"model": first.fingerprint, "text": describe(files, progress)}
        known |= {} if other is None else {"other": second.fingerprint}
        known |= {"static": baseline.hashes(progress)} if baseline is not None else {}
        return known | {f"{split} {target}": one.fingerprint for (split, target), one in lexicons.items()}

    return Job(names[0], steps, hashes, depth=first.cuts[-1])


def lexicon(
    model: str | Path | Stack = "mini",
    *,
    text: Sequence[str] | Mapping[str, Any],
    train: str | Path | Sequence[str] | None = None,
    test: str | Path | Sequence[str] | None = None,
    static: str | Sequence[str] | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> pd.DataFrame:
    """Look words up in another language by their vectors, from Python: `lexicon_job` says what the options are.

    text: files by language, the source first. Returns the table of rows.

    >>> lexicon("mini", text={"en": "en.txt", "nl": "nl.txt"}, train="en-nl.train.txt",
    ...         test="en-nl.test.txt")  # doctest: +SKIP
    """
    files: dict[str, Any] = {"train": _several(train), "test": _several(test)}
    files["static"] = [static] if isinstance(static, str) else static
    job = lexicon_job(model, text=cast(Any, text), **files, **options)
    arguments = {"model": str(getattr(model, "name", model)), "text": str(text), **files, **options}
    return execute(
        job, command="lexicon", arguments=arguments, seed=options.get("seed", 0), out=out, resume=resume,
        progress=progress,
    )  # fmt: skip


def _levels(text: str) -> list[str]:
    found = [one.strip() for one in text.split(",")]
    if not found or not set(found) <= set(LEVELS) or len(set(found)) < len(found):
        raise InputError(f"--levels takes {' and '.join(LEVELS)}, separated by a comma, not {text!r}")
    return [one for one in LEVELS if one in found]


def _several(given: str | Path | Sequence[str] | None) -> list[str] | None:
    if given is None:
        return None
    return [str(given)] if isinstance(given, str | Path) else [str(one) for one in given]
