"""What is measured while a model is tuned on one language, and what the curves say at the end.

Perplexity on the target's validation text and on every other language; distances of each layer to a native model and
to the model's own start; retrieval on parallel text. Masks and samples are drawn from the run's first seed, whatever
seed a training has, so that curves of different seeds and plans are of the same tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from isogloss.measures.perplexity import StepOverSeeds, balance_interval, crossing_interval
from isogloss.progress import Progress, silent
from isogloss.recipes.steps.tunedtext import Corpora, Tokenised, tokenise_corpora
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row, training_name
from isogloss.seeds import seed_of
from isogloss.stack.stack import Part, Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.training.distances import Distance, Sampled, distance_probe, own_start
from isogloss.training.masked_lm import sentence_perplexity_probe
from isogloss.training.probes import Probe, Reading, retrieval_probe
from isogloss.training.stopping import Selection

BATCH = 16  # sentences of the batch that Hussain & Dudev (2020) measure distances on
TWO_BATCHES = 32
START = "start"
EVERY: tuple[Distance, ...] = ("l2", "cosine", "cka", "procrustes")
FEW: tuple[Distance, ...] = ("l2", "cosine")  # 16 sentences hold fewer words than a layer has directions


@dataclass(frozen=True)
class Native:
    """A model of the target language: with its head, as a stack, and its name in the rows."""

    model: Any
    stack: Stack
    name: str


@dataclass(frozen=True)
class Readings:
    """How the measures are taken.

    perplexity, distance: updates between readings. words: of the larger sample for distances. attention: distances of
    what attention adds, too. defects: those of the original code that are repeated (`legacy.DEFECTS`). seed: the run's
    first. dtype: of autocast for perplexity.
    """

    perplexity: int
    distance: int
    words: int
    attention: bool
    defects: frozenset[str]
    seed: int
    dtype: torch.dtype | None


@dataclass(frozen=True)
class Watch:
    """All that is read of a model in training: text, its ids, parallel text, and the native model's vectors.

    kept: (name of the corpus, part) -> vectors of the native model, whose name in the rows is `other`.
    """

    corpora: Corpora
    text: Tokenised
    parallel: Sequence[Bitext]
    how: Readings
    other: str = ""
    kept: Mapping[tuple[str, Part], Sampled] = field(default_factory=dict)


def start_watch(
    stack: Stack,
    corpora: Corpora,
    parallel: Sequence[Bitext],
    how: Readings,
    *,
    native: Native | None,
    progress: Progress = silent,
) -> Watch:
    """Tokenise the text and read the native model, once for all trainings."""
    text = tokenise_corpora(stack, corpora, progress=progress)
    if native is None:
        return Watch(corpora, text, parallel, how)
    return Watch(corpora, text, parallel, how, native.name, _vectors(native, corpora, how))


def with_defects(watch: Watch, defects: frozenset[str], *, native: Native | None) -> Watch:
    """The same with other defects; the native model is read again where words become positions or the reverse."""
    how = replace(watch.how, defects=defects)
    alike = _sampling(how) == _sampling(watch.how)
    return replace(watch, how=how, kept=watch.kept if native is None or alike else _vectors(native, watch.corpora, how))


def make_probes(watch: Watch, model: Any, stack: Stack, *, seed: int, step: Callable[[], int]) -> list[Probe]:
    """The probes of one training, of a model as it begins: made before a checkpoint is restored.

    seed: of the training, by which redrawn masks differ from those of other seeds; step(): where it is.
    """
    how, text = watch.how, watch.text
    perplexity = sentence_perplexity_probe(
        model,
        [text.validation, *text.others],
        every=how.perplexity,
        limit=TWO_BATCHES if "two-batches" in how.defects else None,
        redraw=(lambda: seed_of(seed, "redrawn", step())) if "redrawn" in how.defects else False,
        **_evaluation(watch, stack, text),
    )
    return [perplexity, *_distances(watch, stack), *_retrieval(watch, stack)]


def evaluate(watch: Watch, model: Any, stack: Stack, *, text: Tokenised, parts: Sequence[str]) -> list[Reading]:
    """Perplexity on the whole of some parts of the target's text ("validation", "test"), under fixed masks."""
    chosen = [getattr(text, part) for part in parts]
    return list(sentence_perplexity_probe(model, chosen, every=1, **_evaluation(watch, stack, text)).take())


def evaluate_untuned(watch: Watch, model: Any, stack: Stack, native: Native | None) -> Iterator[dict[str, Any]]:
    """Test perplexity of the model before it is tuned, and the native model's on validation and test."""
    yield from evaluate(watch, model, stack, text=watch.text, parts=["test"])
    if native is not None:
        own = tokenise_corpora(native.stack, watch.corpora, native=True)
        found = evaluate(watch, native.model, native.stack, text=own, parts=["validation", "test"])
        yield from ({**one, "model": native.name} for one in found)


def chosen_reading(corpora: Corpora) -> Selection:
    """What decides which model is the best: the target's validation perplexity per token."""
    return Selection("perplexity", {"target": corpora.language, "data": "validation", "unit": "token"})


def curve_rows(run: Run, corpora: Corpora, *, model: str) -> Iterator[list[Row]]:
    """Where the target's curve crosses that of the others, and the best balance of both, over the seeds of each plan.

    Curves that do not cross have no row; a note of the run says so.
    """
    read = [one for one in run.rows if one["measure"] == "perplexity" and "step" in one]
    for plan, condition in dict.fromkeys((one["plan"], one.get("condition", "")) for one in read):
        name = training_name({"plan": plan, "condition": condition})
        for unit in ("token", "character"):
            own = [
                one for one in read if (one["plan"], one.get("condition", ""), one["unit"]) == (plan, condition, unit)
            ]
            here = [one for one in own if (one["target"], one["data"]) == (corpora.language, "validation")]
            there = [one for one in own if one["target"] == "others"]
            if not there:
                continue
            steps, target, others = _table(here, there)
            crossed, balanced = crossing_interval(steps, target, others), balance_interval(steps, target, others)
            place = {"model": model, "plan": plan, "condition": condition, "unit": unit, "target": corpora.language}
            if crossed is None or crossed.share < 1:
                which = "" if crossed is None else f" in {_missing(crossed)} of {crossed.seeds} seeds"
                run.note(f"{name}: the curves of {corpora.language} and the others per {unit} do not cross{which}")
            found = {"crossing_step": crossed, "balance_step": balanced}
            yield [_step_row(name, one) | place for name, one in found.items() if one is not None]


def _step_row(measure: str, found: StepOverSeeds) -> dict[str, Any]:
    ends = {"low": found.low, "high": found.high} if found.low == found.low else {}
    return row(measure, found.value, n=found.seeds - _missing(found), over="seeds", **ends)


def _missing(found: StepOverSeeds) -> int:
    return found.seeds - round(found.share * found.seeds)


def _table(here: Sequence[Row], there: Sequence[Row]) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Steps (n,), and both curves (seeds, n), NaN where a seed was not read."""
    steps = sorted({int(one["step"]) for one in here})
    seeds = list(dict.fromkeys(int(one["seed"]) for one in here))
    both = []
    for readings in (here, there):
        table = np.full((len(seeds), len(steps)), np.nan)
        for one in readings:
            table[seeds.index(int(one["seed"])), steps.index(int(one["step"]))] = one["value"]
        both.append(table)
    return steps, both[0], both[1]


def _evaluation(watch: Watch, stack: Stack, text: Tokenised) -> dict[str, Any]:
    how = watch.how
    return {
        "target": watch.corpora.language,
        "seed": how.seed,
        "device": stack.device,
        "dtype": how.dtype,
        "attend_padding": "no-mask" in how.defects,
        **text.masking,
    }


def _vectors(native: Native, corpora: Corpora, how: Readings) -> dict[tuple[str, Part], Sampled]:
    return {
        (corpus.name, part): own_start(native.stack, corpus, words=words, part=part, **_sampling(how))
        for corpus, words, _ in _samples(corpora, how)
        for part in _parts(how)
    }


def _distances(watch: Watch, stack: Stack) -> Iterator[Probe]:
    """Distances on each sample: to the native model, if there is one, and to the stack as it is now."""
    how = watch.how
    for corpus, words, measures in _samples(watch.corpora, how):
        for part in _parts(how):
            sampling = {"words": words, "part": part, **_sampling(how)}
            references = {START: own_start(stack, corpus, **sampling)}
            references |= {watch.other: watch.kept[corpus.name, part]} if watch.kept else {}
            for other, kept in references.items():
                yield distance_probe(
                    stack, kept, corpus, every=how.distance, other=other, measures=measures, **sampling
                )


def _retrieval(watch: Watch, stack: Stack) -> list[Probe]:
    if not watch.parallel:
        return []
    return [retrieval_probe(lambda language: stack, watch.parallel, every=watch.how.distance, seed=watch.how.seed)]


def _samples(corpora: Corpora, how: Readings) -> list[tuple[Corpus, int | None, tuple[Distance, ...]]]:
    """The texts distances are read on, how many words of each (None for all), and by which measures."""
    first = list(range(min(BATCH, len(corpora.validation))))
    batch = corpora.validation.take(first)
    named = Corpus(batch.language, batch.sentences, name=f"validation, first {len(first)}")
    return [(corpora.validation, how.words, EVERY), (named, None, FEW)]


def _parts(how: Readings) -> tuple[Part, ...]:
    return ("states", "attention") if how.attention else ("states",)


def _sampling(how: Readings) -> dict[str, Any]:
    by_position = "by-position" in how.defects
    return {
        "seed": how.seed,
        "by_position": by_position,
        "attend_padding": by_position and "no-mask" in how.defects,
    }
