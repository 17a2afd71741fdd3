"""What is measured while a model is pretrained: perplexity on held-out text, retrieval on parallel text."""

from collections.abc import Sequence
from typing import Any

from isogloss.errors import InputError
from isogloss.recipes.steps.texts import Packed
from isogloss.runs.run import Run
from isogloss.text import embedded
from isogloss.text.corpora import Bitext, Corpus, bitexts_of
from isogloss.training.probes import Probe, perplexity_probe, retrieval_probe
from isogloss.training.sharing import Languages, stack_of

LEAST = 64  # tokens of held-out text that perplexity is worth measuring on


def parallel_texts(given: Sequence[Bitext | Corpus], languages: Sequence[str]) -> list[Bitext]:
    """Parallel text in the model's languages: what was given, else the embedded sentences."""
    texts, found = bitexts_of(given), []
    for text in texts or [embedded()]:
        both = [one for one in text.languages if one in languages]
        if len(both) > 1:
            found.append(Bitext(tuple(text[one] for one in both), name=text.name))
    if texts and not found:
        raise InputError(f"--bitext has no two of the languages of the text, {', '.join(languages)}")
    return found


def make_probes(
    run: Run, packed: Packed, models: Languages, parallel: Sequence[Bitext], *, every: int, seed: int, **how: Any
) -> list[Probe]:
    """Perplexity on what was held out, and retrieval on parallel text; a language without text for it is noted."""
    held = {one: stream for one, stream in packed.held.items() if stream.tokens >= LEAST}
    silent_ones = [one for one in packed.languages if one not in held]
    if silent_ones:
        run.note(f"no perplexity is measured for {', '.join(silent_ones)}: too little text was held out")
    probes = []
    if held:
        probes.append(
            perplexity_probe(
                models.of,
                {one: stream.ids for one, stream in held.items()},
                {one: (stream.words, stream.characters) for one, stream in held.items()},
                every=every,
                seed=seed,
                device=next(models.parameters()).device,
                **how,
            )
        )
    if parallel:
        stacks = {
            one: stack_of(models, one, packed.tokenizers[one], str(run.facts["model"])) for one in packed.languages
        }
        probes.append(retrieval_probe(stacks.__getitem__, parallel, every=every))
    return probes
