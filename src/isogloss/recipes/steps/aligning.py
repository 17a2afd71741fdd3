"""What is measured while a model is aligned, by which reading its best step is known, and its card."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from isogloss.errors import InputError
from isogloss.recipes.steps.aligntext import Aligned
from isogloss.recipes.steps.card import markdown_table, perplexity_lines, yaml_word
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import name as language_name
from isogloss.training.alignment import Aligner, Alignment, loss_probe
from isogloss.training.loop import Training
from isogloss.training.masked_lm import masking_of, sentence_perplexity_probe, tokenise
from isogloss.training.probes import Probe, Reading, retrieval_probe
from isogloss.training.stopping import Selection

POOLED = {"others": "all"}  # a probe that has no language of its own pools all of them


@dataclass(frozen=True)
class BestRetrieval:
    """The best step by P@1 at a layer, averaged over all texts: a choice as `isogloss.training.stopping` has them."""

    layer: int

    @property
    def title(self) -> str:
        """The reading in words."""
        return f"mean P@1 at layer {self.layer}"

    def value(self, readings: Sequence[Reading]) -> float | None:
        """The mean over texts, if retrieval was read at this step."""
        found = [one["value"] for one in readings if one["measure"] == "p@1_mean" and one["layer"] == self.layer]
        return sum(found) / len(found) if found else None

    def better(self, new: float, old: float | None, *, least: float = 0.0) -> bool:
        """As P@1 declares it."""
        return Selection("p@1").better(new, old, least=least)


def make_probes(
    run: Run,
    aligner: Aligner,
    stack: Stack,
    *,
    parallel: Sequence[Bitext],
    corpora: Sequence[Corpus],
    every: int,
    report: int,
    best: bool,
    seed: int,
    dtype: torch.dtype | None,
) -> list[Probe]:
    """Losses of both terms, retrieval at every layer, perplexity of every text; best: a step is chosen by retrieval."""
    probes = [loss_probe(aligner, every=report)]
    if parallel:
        probes.append(retrieval_probe(lambda language: stack, parallel, every=every, seed=seed))
    elif best:
        raise InputError(
            "--best chooses by retrieval, and too few pairs were held out to measure it; raise --held-out, give "
            "--bitext, or leave --best out"
        )
    else:
        run.note("no retrieval is measured: too few pairs were held out; raise --held-out or give --bitext")
    if corpora:
        texts = [tokenise(stack.tokenizer, one, max_length=stack.max_length) for one in corpora]
        masking = masking_of(stack.tokenizer)
        probes.append(
            sentence_perplexity_probe(
                aligner.model, texts, target="", every=every, seed=seed, device=stack.device, dtype=dtype, **masking
            )
        )
    return probes


def align_row(reading: Reading, place: Mapping[str, Any]) -> Row | None:
    """A reading as a row; the joint loss is the sum of others, no row."""
    if reading["measure"] == "loss" and "task" not in reading:
        return None
    data = {"data": "train"} if reading["measure"] == "loss" else {}
    target = reading.get("target")
    pooled = {"target": POOLED[target]} if target in POOLED else {}
    return row(**{**reading, **place, **data, **pooled})


def objective_name(how: Alignment) -> str:
    """What is learned, in a word for the rows.

    >>> objective_name(Alignment(12)), objective_name(Alignment(12, tlm=0, negatives="batch", shuffle=False))
    ('tlm+queue', 'batch+unshuffled')
    """
    parts = {
        "tlm": how.tlm,
        how.negatives: how.contrastive,
        "pull": how.pull,
        "reset": how.reset,
        "unshuffled": not how.shuffle,
    }
    return "+".join(name for name, there in parts.items() if there)


def align_card(run: Run, training: Training, aligned: Aligned, *, step: int, batch: int, how: Alignment) -> str:
    """The README.md beside the model: from what it was made, how, and how far it came."""
    languages = list(dict.fromkeys(one for stream in aligned.pairs.values() for one in stream.languages))
    front = ["---", "language:", *(f"- {yaml_word(one)}" for one in languages)]
    front += ["library_name: transformers", "pipeline_tag: fill-mask", "tags:", "- isogloss", "---", ""]
    names = ", ".join(language_name(one) for one in languages)
    lines = [f"# {run.facts['model']}, aligned", ""]
    lines += [f"{run.facts['model']}, trained further on parallel text of {names} with `isogloss align`.", ""]
    way = training.settings.optimisation
    pooled = "first token" if how.pool == "first" else "mean of content tokens"
    facts = {
        "learned": objective_name(how),
        "weights of the terms": f"TLM {how.tlm:g}, contrastive {how.contrastive:g}, pull {how.pull:g}",
        "sentences": f"{pooled} at layer {how.layer}, projection {how.projection}, temperature {how.temperature:g}",
        "negatives": f"a queue of {how.size:,}, momentum {how.momentum:g}" if how.queued else "the batch",
        "steps": f"{step:,} of {training.settings.steps:,}, {batch} pairs each",
        "optimiser": f"AdamW, rate {way.rate:g}, {way.warm_up} steps of warm-up, {way.decay} decay, weight decay "
        f"{way.weight_decay:g}, clipping at {way.clip:g}",
        "seed": str(training.settings.seed),
    }
    lines += ["## Training", "", *markdown_table(("", ""), list(facts.items()))]
    text = [(title, f"{len(one):,}", f"{len(one.ids):,}") for title, one in aligned.pairs.items()]
    lines += ["", "## Text", "", *markdown_table(("languages", "pairs", "tokens"), text)]
    until = [one for one in run.rows if int(one["step"]) <= step]  # of the model that is left, not of what came after
    lines += ["", "## Held-out text", "", *_retrieval(until, how.layer), *perplexity_lines(until)]
    versions = ", ".join(f"{name} {version}" for name, version in run.facts["versions"].items())
    return "\n".join([*front, *lines, "", "## Made with", "", f"{versions}.", ""])


def best_note(choice: BestRetrieval, step: int, steps: int) -> str:
    """Which model `--best` has left, where it is not the last one.

    >>> best_note(BestRetrieval(12), 0, 400)
    '--best: the model is the one it began with, before any update: mean P@1 at layer 12 was never higher after it'
    >>> best_note(BestRetrieval(12), 100, 400)
    '--best: the model is that of step 100 of 400, where mean P@1 at layer 12 was highest'
    """
    if step:
        return f"--best: the model is that of step {step:,} of {steps:,}, where {choice.title} was highest"
    return f"--best: the model is the one it began with, before any update: {choice.title} was never higher after it"


def _retrieval(rows: Sequence[Row], layer: int) -> list[str]:
    """P@1 of each text before and after, at the layer that sentences were compared at."""
    found: dict[str, list[tuple[int, float]]] = {}
    for one in rows:
        if one["measure"] == "p@1_mean" and one["layer"] == layer:
            found.setdefault(one["data"], []).append((int(one["step"]), float(one["value"])))
    if not found:
        return []
    table = [(name, f"{min(curve)[1]:.3f}", f"{max(curve)[1]:.3f}") for name, curve in found.items()]
    head = ("text", "P@1 before", "P@1 after")
    return [f"Retrieval at layer {layer}, centred, both directions.", "", *markdown_table(head, table), ""]
