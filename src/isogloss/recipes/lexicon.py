"""`isogloss lexicon`: do the words of two languages have one shape, and at which layer? Dictionary induction.

Every word of a text gets one vector a layer, the mean over all its uses; single-piece words also their row of the
embedding matrix. A map is learned on one part of a dictionary, and the other part is looked up with it, among all
words. The two languages may be read by two models that never saw each other's: then only a map can bring them together
(Conneau, Wu et al. 2020).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import torch

from isogloss.errors import InputError
from isogloss.progress import Progress, silent
from isogloss.recipes.recipe import (
    RARE,
    Device,
    Dtype,
    LanguageFiles,
    Layers,
    Model,
    Option,
    Out,
    Resume,
    Revision,
    Seed,
    Work,
    at_least,
    describe_files,
    language_files,
    layer_list,
    model_name,
    recipe,
)
from isogloss.recipes.steps.inducing import Fits, check_widths, shared_layers
from isogloss.recipes.steps.lexiconrows import LEVELS, Plan, lexicon_rows
from isogloss.recipes.steps.lexicontext import fingerprint, read_lexicons
from isogloss.recipes.steps.statics import read_static
from isogloss.recipes.steps.ways import parse_ways
from isogloss.runs.run import Run
from isogloss.runs.table import Row
from isogloss.stack.load import load
from isogloss.stack.stack import Stack


@recipe
def lexicon(
    model: Model = "mini",
    *,
    text: Annotated[LanguageFiles, "text of a language, LANG=FILE[,FILE], a sentence a line; the source first"],
    train_lexicon: Annotated[
        list[str] | str | Path | None, "dictionaries to learn from, once a target; default: found in --data"
    ] = None,
    test_lexicon: Annotated[
        list[str] | str | Path | None, "dictionaries to look up, once a target; default: found in --data"
    ] = None,
    data: Annotated[str | None, "folder of data sets to find dictionaries in"] = None,
    other: Annotated[str | None, "a second model that reads the targets; default the same"] = None,
    levels: Annotated[str, "word: averaged over uses, by layer; piece: the embedding matrix"] = "word,piece",
    mappings: Annotated[
        str, "maps to compare: raw, centred, procrustes+iterative, ridge, ..."
    ] = "raw,procrustes+iterative",
    refine: Annotated[int, "rounds of refinement by mutual neighbours"] = 0,
    ridge_strength: Annotated[float, Option("strength of ridge", RARE)] = 1.0,
    static: Annotated[
        LanguageFiles | None, "a baseline: train (from the same text), or LANG=FILE of word vectors"
    ] = None,
    identical: Annotated[bool, "keep pairs that are written alike"] = True,
    sample: Annotated[int, "most sentences of a language, drawn by seed"] = 500_000,
    vocabulary: Annotated[int, "most words of a language, the most frequent"] = 20_000,
    min_count: Annotated[int, "uses a word must have"] = 3,
    layers: Layers = None,
    revision: Revision = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = None,
    out: Out = None,
    resume: Resume = False,
    progress: Progress = silent,
) -> Work:
    """Look words up in another language by their vectors, at every layer: P@1, P@5, P@10 before and after a map.

    Example: isogloss lexicon mini --text en=en.txt --text nl=nl.txt --train-lexicon en-nl.train.txt
    --test-lexicon en-nl.test.txt
    """
    chosen = parse_ways(mappings)
    wanted = _levels(levels)
    files = language_files(text)
    if len(files) < 2:
        raise InputError(f"--text has one language only ({', '.join(files)}); a lexicon joins two, the source first")
    for name, value in (("sample", sample), ("vocabulary", vocabulary), ("min_count", min_count)):
        at_least(name, value, 1)
    at_least("refine", refine, 0), at_least("ridge_strength", ridge_strength, 0), at_least("seed", seed, 0)
    source, *targets = files
    asked = {"train": _files(train_lexicon), "test": _files(test_lexicon)}
    if not any(one.learns for one in chosen):
        del asked["train"]
    lexicons = read_lexicons(asked, source, targets, data=data)
    baseline = None if static is None else read_static([static] if isinstance(static, str) else static, list(files))
    first = model if isinstance(model, Stack) else load(cast(Any, model), revision, dtype=dtype, device=device)
    second = first if other is None else load(other, dtype=dtype, device=device)
    names = model_name(first.name), None if other is None else model_name(second.name)
    check_widths((first.name, second.name), (first.width, second.width), chosen)
    cuts = shared_layers((first, second), layer_list(layers, first))
    layer_list(cuts, second)
    place = first.device if first.device.type == "cuda" else torch.device("cpu")
    plan = Plan(
        (first, second), names, files, lexicons, wanted, cuts, Fits(chosen, refine, ridge_strength, place), baseline,
        identical, sample, vocabulary, min_count, seed,
    )  # fmt: skip

    def steps(run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
        yield from lexicon_rows(plan, run, progress)

    def hashes(progress: Progress) -> dict[str, Any]:
        known: dict[str, Any] = {"model": first.fingerprint, "text": describe_files(files, progress)}
        known |= {} if other is None else {"other": second.fingerprint}
        known |= {"static": baseline.hashes(progress)} if baseline is not None else {}
        return known | {f"{split} {target}": fingerprint(one) for (split, target), one in lexicons.items()}

    return Work(names[0], steps, hashes, depth=first.cuts[-1])


def _levels(text: str) -> list[str]:
    found = [one.strip() for one in text.split(",")]
    if not found or not set(found) <= set(LEVELS) or len(set(found)) < len(found):
        raise InputError(f"--levels takes {' and '.join(LEVELS)}, separated by a comma, not {text!r}")
    return [one for one in LEVELS if one in found]


def _files(given: list[str] | str | Path | None) -> list[str] | None:
    if given is None or isinstance(given, list):
        return given
    return [str(given)] if isinstance(given, str | Path) else [str(file) for file in given]
