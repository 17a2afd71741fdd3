"""`isogloss lens`: what a language model would predict at every layer, and in which language (the logit lens).

The hidden states of each layer are passed through the final norm and the model's own head (`isogloss.stack.head`), as
if the model ended there. On running text this shows at which layer the next token is known. On prompts that ask for a
word of one language, it shows in which language the model "thinks" on the way (Wendler et al. 2024): how much
probability lies on tokens that begin the word asked for, and how much on those that begin its translation into another
language, the pivot. Probabilities by script need no dictionary.

Masked language models are read at masked tokens instead. Text and prompts are processed in batches and every layer is
reduced at once, so memory does not grow with them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import Annotated, Any

import numpy as np
import pandas as pd
import torch

from isogloss.errors import InputError, require
from isogloss.files import whole
from isogloss.measures.statistics import PARTS, mean_interval, ratio_interval, share_interval
from isogloss.progress import progress
from isogloss.recipes import recipe as options
from isogloss.recipes.recipe import Work, recipe
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.load import fingerprint, load_language_model
from isogloss.stack.stack import Chain, Stack, layer_list
from isogloss.text.corpora import Bitext, Corpus, Lexicon, bitexts_of
from isogloss.text.languages import code
from isogloss.text.prompts import Prompting, PromptSet, gaps, meanings, translations
from isogloss.text.readers.dictionaries import embedded
from isogloss.text.switching import read_lexicons
from isogloss.text.vocabulary import links_of, vocabulary
from isogloss.text.words import script_of
from isogloss.vectors.lens import Asked, Lens

GRID = "lens.parquet"  # examples shown on the page
MOST_WORDS, MOST_SHOWN = 1_000, 20  # word pairs taken from the links of a text; tokens or prompts shown in a grid
SENTENCES_SHOWN = 8  # for masked models, which predict only a few tokens of each sentence
LEAST_PROMPTS = 3
MASKED = "masked token"  # the unit of rows of masked models on running text


@recipe
def lens(
    model: options.Model = "mini",
    *bitext: Bitext | Corpus,
    lexicon: Annotated[
        list[str] | Sequence[Lexicon] | None, "dictionaries, SOURCE-TARGET=FILE; default: the word links of the text"
    ] = None,
    pivot: Annotated[str | None, "the language the model may think in; default English, or the first one"] = None,
    sample: Annotated[options.NonNegativeInt, "sentences per language to read, at most, drawn by seed"] = 100,
    prompts: Annotated[options.NonNegativeInt, "prompts of each kind per pair of languages, at most"] = 50,
    shots: Annotated[options.NonNegativeInt, "examples before each prompt"] = 4,
    layers: options.Layers = None,
    revision: options.Revision = None,
    seed: options.Seed = 0,
    device: options.ReadingDevice = "auto",
    dtype: options.Dtype = None,
    out: options.Out = None,
    resume: options.Resume = False,
) -> Work:
    """Read a language model's head at every layer: when the next token is known, and in which language.

    Without a bitext, the embedded sentences in seven languages and their word links (for the prompts) are used.

    Example: isogloss lens ./my-decoder --bitext en.txt --bitext fr.txt --languages en,fr --lexicon en-fr=words.txt

    >>> table = lens("./my-decoder", lexicon=["en-fr=en-fr.txt", "en-zh=en-zh.txt"])  # doctest: +SKIP
    """
    texts = options.named_texts(bitexts_of(bitext) or [embedded()])
    given = list(read_lexicons(lexicon))
    languages = dict.fromkeys(language for text in texts.values() for language in text.languages)
    languages |= dict.fromkeys(language for words in given for language in (words.source, words.target))
    centre = ("en" if "en" in languages else next(iter(languages))) if pivot is None else code(pivot)
    require(centre in languages, f"--pivot {pivot} is no language of the text, which has {', '.join(languages)}")
    meanings(given, centre)  # raises if a dictionary does not have the pivot
    require(sample or prompts, "--sample 0 and --prompts 0 leave nothing to read")
    if isinstance(model, Chain):
        raise InputError("a chain has no head that predicts words; give a whole model")
    stack = model if isinstance(model, Stack) else load_language_model(model, revision, dtype=dtype, device=device)
    cuts = layer_list(layers, stack) or tuple(stack.cuts)
    letters = {letter for text in texts.values() for corpus in text for line in corpus for letter in line}
    letters |= {letter for words in given for pair in words for word in pair for letter in word}
    reader = Lens(stack, cuts, sorted({script_of(letter) for letter in letters} - {""}))
    hashes = {
        "model": fingerprint(stack),
        "data": {name: text.fingerprint for name, text in texts.items()},
        "lexicons": [each.fingerprint for each in given],
    }

    def rows(run: Run) -> Iterator[Sequence[Row]]:
        shown: list[dict[str, Any]] = []
        base = {"model": run.facts["model"], "seed": seed}
        for name, text in texts.items():
            order = np.random.default_rng(seed).permutation(text.rows).tolist()[:sample]
            for corpus in (each.take(order) for each in text if sample):
                about = {**base, "data": name, "source": corpus.language, "task": "text"}
                about["unit"] = "token" if reader.causal else MASKED
                if not run.has(row("entropy", 0, **about, layer=cuts[-1])):
                    yield list(text_rows(reader, corpus, seed, about))
                few = corpus.take(range(1 if reader.causal else min(SENTENCES_SHOWN, len(corpus))))
                first = next(reader.asked_of_text(few, seed), None) if out is not None else None
                labels = [] if first is None else first.labels[:, 0].tolist()
                shown += _grid(reader, first, [_text(stack, [each]) for each in labels], about)
        for name, asked in prompt_sets(texts, given, Prompting(centre, prompts, shots, seed, reader.askable)):
            about = {**base, "data": name, "source": asked.source, "target": asked.target}
            about |= {"task": asked.task, "unit": "word"}
            pair = f"{asked.task} from {asked.source} to {asked.target}"
            if len(asked.prompts) < LEAST_PROMPTS:
                prompts_found = f"there are only {len(asked.prompts)} prompts, fewer than {LEAST_PROMPTS}"
                run.note(f"{pair} was left out: {prompts_found}")
                continue
            progress(f"asking for words: {pair}", 0, len(asked.prompts))
            if not run.has(row("entropy", 0, **about, layer=cuts[-1])):
                read = list(prompt_rows(reader, asked, centre, about))
                if not read:
                    run.note(f"{pair} was left out: every prompt is longer than the model reads; lower --shots")
                    continue
                yield read
            if lacking := sum(prompt.shots < shots for prompt in asked.prompts):
                fewer = f"{lacking} of {len(asked.prompts)} prompts have fewer than {shots} examples"
                run.note(f"{pair}: {fewer}, since other words would give the answer away")
            if out is None or any((each["task"], each["target"]) == (asked.task, asked.target) for each in shown):
                continue  # the page shows one source language per target
            labels = [prompt.words[asked.target][0] for prompt in asked.prompts]
            shortened = replace(asked, prompts=asked.prompts[:MOST_SHOWN])
            shown += _grid(reader, next(reader.asked_of_prompts(shortened), None), labels, about)
        if run.writes:
            with whole(run.folder / GRID) as beside:
                pd.DataFrame(shown).to_parquet(beside)

    return Work(options.model_name(stack.name), rows, hashes, stack.notes, stack.last)


def prompt_sets(
    texts: Mapping[str, Bitext], given: Sequence[Lexicon], how: Prompting
) -> Iterator[tuple[str, PromptSet]]:
    """Sets of prompts, each with the name of its text: translations between non-pivot languages, and gaps in sentences.

    If there is only one other language, words are translated from the pivot into it. Without given dictionaries, the
    linked words of each text are used. Translations with given dictionaries belong to no text; their name is empty.
    """
    for number, (name, text) in enumerate(texts.items()):
        if not how.most or (not given and how.pivot not in text.languages):
            continue
        lexicons = given or linked_lexicons(text, how.pivot)
        known = meanings(lexicons, how.pivot)
        others = list(dict.fromkeys(code for own in lexicons for code in (own.source, own.target) if code != how.pivot))
        pairs = list(permutations(others, 2)) or [(how.pivot, other) for other in others]
        for source, target in pairs if number == 0 or not given else ():
            yield "" if given else name, translations(known, source, target, how)
        yield from ((name, gaps(known, corpus, how)) for corpus in text if corpus.language in others)


def linked_lexicons(text: Bitext, pivot: str) -> list[Lexicon]:
    """A dictionary of the pivot with each other language, from the word links of the text, most frequent first."""
    rows = range(text.rows)
    pairs = [(pivot, language) for language in text.languages if language != pivot]
    found = {pair: links_of(text, pair, rows) for pair in pairs}
    least = {pair: 1 if is_given or text.rows < 500 else 2 for pair, (_, is_given) in found.items()}
    links = {pair: own for pair, (own, _) in found.items()}
    words = vocabulary(text, links, rows, limit=MOST_WORDS, at_least=least)
    lexicons = []
    for (source, target), numbers in words.pairs.items():
        own = ((words.types[source][one], words.types[target][other]) for one, other in numbers)
        lexicons.append(Lexicon(source, target, list(own), text.name))
    return lexicons


def text_rows(reader: Lens, corpus: Corpus, seed: int, about: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of the next token's probability and reciprocal rank, entropy and scripts, with intervals over sentences.

    Only sums over twenty parts of the sentences are kept, so memory does not grow with the text.
    """
    names = ["probability", "by chance", "mrr", "mrr by chance", "entropy", *reader.scripts]
    sums = torch.zeros(len(reader.layers), len(names), PARTS, dtype=torch.float64)
    counts = torch.zeros(PARTS, dtype=torch.float64)
    for asked in reader.asked_of_text(corpus, seed):
        parts = asked.owners % PARTS
        counts += torch.bincount(parts, minlength=PARTS)
        for own, reading in zip(sums, reader.read(asked), strict=True):
            values = [reading.mass, 1 / reading.rank, reading.entropy[:, None], reading.scripts[:, :-1]]
            own.index_add_(1, parts, torch.cat(values, dim=1).T)
    n = int(counts.sum())
    require(n, f"{corpus.name or corpus.language}: no token of these sentences can be predicted; give longer ones")
    for layer, own in zip(reader.layers, sums, strict=True):
        totals, where = dict(zip(names, own, strict=True)), {**about, "layer": layer}
        for name in ("probability", "mrr"):
            floor = float(totals["mrr by chance" if name == "mrr" else "by chance"].sum()) / n
            yield row(f"next_token_{name}", ratio_interval(totals[name], counts, n=n, floor=floor).clipped(), **where)
        for script, floor in zip(reader.scripts, reader.by_chance, strict=False):
            share = ratio_interval(totals[script], counts, n=n, floor=floor).clipped()
            yield row("script_share", share, **where, method="script", condition=script)
        yield row("entropy", ratio_interval(totals["entropy"], counts, n=n).clipped(0, np.inf), **where)


def prompt_rows(reader: Lens, asked: PromptSet, pivot: str, about: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of the word's probability in each language, the lead of the pivot, scripts and entropy, over prompts.

    There are no rows if every prompt is longer than the model's maximum length.
    """
    batches = [reader.read(part) for part in reader.asked_of_prompts(asked)]
    languages = list(asked.prompts[0].words)
    for layer, readings in zip(reader.layers if batches else (), zip(*batches, strict=True), strict=True):
        mass, entropy, scripts = (
            torch.cat([getattr(reading, name) for reading in readings]) for name in ("mass", "entropy", "scripts")
        )
        where, own = {**about, "layer": layer}, dict(zip(languages, mass[:, ::2].T, strict=True))
        for language, chance in zip(languages, mass[:, 1::2].T, strict=True):
            interval = share_interval(own[language], floor=float(chance.mean()))
            yield row("word_probability", interval, **where, method="lexicon", condition=language)
        if pivot in own and pivot not in (asked.source, asked.target):
            lead = mean_interval(own[pivot] - own[asked.target], floor=0.0).clipped(-1, 1)
            yield row("pivot_lead", lead, **where, method="lexicon", condition=pivot)
        for script, share, floor in zip(reader.scripts, scripts.T, reader.by_chance, strict=False):
            interval = share_interval(share, floor=floor)
            yield row("script_share", interval, **where, method="script", condition=script)
        yield row("entropy", mean_interval(entropy).clipped(0, np.inf), **where)


def _grid(reader: Lens, asked: Asked | None, labels: Sequence[str], about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first positions of a batch for the page: the probability of the right token and the top token, by layer."""
    if asked is None:
        return []
    cells = []
    for layer, reading in zip(reader.layers, reader.read(asked), strict=True):
        for item, number in enumerate(asked.owners[:MOST_SHOWN].tolist()):
            label = labels[item] if about["task"] == "text" else labels[number]
            said = _text(reader.stack, [int(reading.top[item])])
            about_cell = {name: about.get(name, "") for name in ("data", "task", "source", "target")}
            cells.append({**about_cell, "item": item, "label": label, "layer": layer, "said": said})
            cells[-1]["value"] = float(reading.mass[item, 0])
    return cells


def _text(stack: Stack, ids: Sequence[int]) -> str:
    return str(stack.tokenizer.decode(ids))
