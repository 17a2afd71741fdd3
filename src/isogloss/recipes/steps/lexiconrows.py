"""The rows of a lexicon run: text becomes vocabularies, vocabularies become spaces, and each space is looked up in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import InputError
from isogloss.progress import Progress
from isogloss.recipes.steps.inducing import Fits, Found, behind_rows, check_widths, coverage_rows, space_rows
from isogloss.recipes.steps.lexicontext import (
    Entries,
    Text,
    draw_sentences,
    entries,
    frequent_words,
    single_pieces,
)
from isogloss.recipes.steps.statics import Static, static_vectors
from isogloss.runs.run import Run
from isogloss.runs.table import Row, row
from isogloss.stack.stack import Stack
from isogloss.text.corpora import Lexicon
from isogloss.vectors.static import TypeVectors, open_types, type_vectors

LEVELS = ("word", "piece")
Words = Mapping[str, Sequence[str]]
Side = tuple[Sequence[str], Tensor]  # words and a vector of each
Place = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is read, by which models, and how it is judged. files: of each language, the source first."""

    stacks: tuple[Stack, Stack]
    names: tuple[str, str | None]
    files: Mapping[str, Sequence[Path]]
    lexicons: Mapping[tuple[str, str], Lexicon]
    levels: Sequence[str]
    layers: Sequence[int]
    fits: Fits
    static: Static | None
    identical: bool
    sentences: int
    vocabulary: int
    least: int
    seed: int

    @property
    def source(self) -> str:
        """The language that words are looked up from."""
        return next(iter(self.files))

    @property
    def targets(self) -> list[str]:
        """The languages they are looked up in."""
        return list(self.files)[1:]

    @property
    def model(self) -> dict[str, str | None]:
        """The coordinates of the models."""
        return {"model": self.names[0], "other_model": self.names[1]}

    def stack(self, language: str) -> Stack:
        """The model that reads a language."""
        return self.stacks[language != self.source]

    def entries(self, target: str, words: Sequence[Sequence[str]]) -> Entries:
        """What two vocabularies know of the dictionaries."""
        train, test = self.lexicons.get(("train", target)), self.lexicons["test", target]
        return entries(train, test, (words[0], words[1]), identical=self.identical)


@dataclass(frozen=True)
class Material:
    """What every language gives: vectors of types, of pieces, and static ones; empty where they are not asked for."""

    types: Mapping[str, TypeVectors]
    pieces: Mapping[str, Side]
    static: Mapping[str, Side]

    def words(self, level: str, language: str) -> list[str]:
        """The words of a level that have a vector."""
        if level == "piece":
            return list(self.pieces[language][0])
        one = self.types[language]
        return [word for word, count in zip(one.words, one.counts.tolist(), strict=True) if count]

    def vectors(self, level: str, language: str, layer: int | None) -> Tensor:
        """Their vectors, (words, width)."""
        if level == "piece" or layer is None:
            return self.pieces[language][1]
        one = self.types[language]
        return one.at(layer)[torch.from_numpy(np.flatnonzero(one.counts))]


def lexicon_rows(plan: Plan, run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
    """All rows; what is wrong with dictionaries and baselines is found before a model reads anything."""
    texts = {
        language: draw_sentences(language, files, most=plan.sentences, seed=plan.seed)
        for language, files in plan.files.items()
    }
    words = {
        language: frequent_words(one, most=plan.vocabulary, least=plan.least, progress=progress)
        for language, one in texts.items()
    }
    for target in plan.targets:
        plan.entries(target, [words[plan.source], words[target]])
    static = {} if plan.static is None else static_vectors(plan.static, texts, words, seed=plan.seed, progress=progress)
    for target in plan.targets if static else ():
        widths = static[plan.source][1].shape[1], static[target][1].shape[1]
        check_widths((f"--static {plan.source}", f"--static {target}"), widths, plan.fits.ways)
    types = _read_types(plan, texts, words, run, progress) if "word" in plan.levels else {}
    pieces = {one: _pieces(plan.stack(one), words[one]) for one in plan.files} if "piece" in plan.levels else {}
    yield list(_text_rows(plan, texts, words, types))
    for target in plan.targets:
        yield from _pair_rows(plan, target, Material(types, pieces, static), run, progress)


def _pair_rows(plan: Plan, target: str, material: Material, run: Run, progress: Progress) -> Iterator[Sequence[Row]]:
    """All rows of the source and one target; the coverage comes last, and says that they are all there."""
    pair: Place = {
        "task": "lexicon", "data": plan.lexicons["test", target].name, "seed": plan.seed, "source": plan.source,
        "target": target,
    }  # fmt: skip
    if run.has(row("identical", 0, variant="test", unit=plan.levels[-1], **pair, **plan.model)):
        return
    last: list[Row] = []
    for level in plan.levels:
        words = [material.words(level, language) for language in (plan.source, target)]
        place = {**pair, "unit": level}
        try:
            known = plan.entries(target, words)
        except InputError as error:
            run.note(f"{level}s of {plan.source} and {target} are not judged: {error}")
            last += [row(name, 0.0, n=0, variant="test", **place, **plan.model) for name in ("coverage", "identical")]
            continue
        if known.shared:
            run.note(
                f"{known.shared:,} pairs of {plan.lexicons['train', target].name} were not learned from: their words "
                "are looked up in the test"
            )
        yield from _level_rows(plan, target, level, material, known, place, run, progress)
        if plan.static is not None:
            yield list(_static_rows(plan, target, words, material, place, run))
        last += coverage_rows(known, base={**place, **plan.model})
    yield last


def _level_rows(
    plan: Plan,
    target: str,
    level: str,
    material: Material,
    known: Entries,
    place: Place,
    run: Run,
    progress: Progress,
) -> Iterator[Sequence[Row]]:
    """The rows of a model's words at every layer, or of its pieces."""
    found: dict[int, Found] = {}
    layers: Sequence[int | None] = plan.layers if level == "word" else [None]
    for number, layer in enumerate(layers):
        here = Found()
        x, y = (material.vectors(level, language, layer) for language in (plan.source, target))
        where = {**place, **plan.model, "layer": layer}
        yield list(space_rows((x, y), known, plan.fits, place=where, found=here))
        _note(run, here)
        progress(f"looking up {level}s in {target}", number + 1, len(layers))
        if layer is not None:
            found[layer] = here
    yield list(behind_rows(found, base={**place, **plan.model}, unit=level))


def _static_rows(
    plan: Plan, target: str, known: Sequence[Sequence[str]], material: Material, place: Place, run: Run
) -> Iterator[Row]:
    """The baseline on the same vocabulary: words that the model has a vector of, and no others."""
    assert plan.static is not None
    sides, words = [], []
    for language, vocabulary in zip((plan.source, target), known, strict=True):
        names, vectors = material.static[language]
        numbers = {word: number for number, word in enumerate(names)}
        words.append([word for word in vocabulary if word in numbers])
        sides.append(vectors[[numbers[word] for word in words[-1]]])
    first, other = plan.static.names(plan.source, target)
    where = {**place, "model": first, "other_model": other}
    try:
        matched, found = plan.entries(target, words), Found()
    except InputError as error:
        run.note(f"{first} is not judged: {error}")
        return
    yield from space_rows((sides[0], sides[1]), matched, plan.fits, place=where, found=found)
    yield from coverage_rows(matched, base=where)
    _note(run, found, head=f"{first}: ")


def _note(run: Run, found: Found, *, head: str = "") -> None:
    for sentence in found.notes:
        run.note(head + sentence)


def _read_types(
    plan: Plan, texts: Mapping[str, Text], words: Words, run: Run, progress: Progress
) -> dict[str, TypeVectors]:
    """Type vectors of every language at the layers wanted; what a stopped run had read is not read again."""
    found = {}
    for language, text in texts.items():
        folder = run.scratch / "types"
        one = open_types(folder, language) or type_vectors(
            plan.stack(language), text, language, types=words[language], folder=folder, layers=plan.layers,
            total=len(text), progress=progress,
        )  # fmt: skip
        if one.shortened:
            run.note(
                f"{one.shortened:,} of {one.sentences:,} sentences of {language} were longer than "
                f"{plan.stack(language).max_length} tokens and were cut"
            )
        found[language] = one
    return found


def _pieces(stack: Stack, words: Sequence[str]) -> Side:
    places, vectors = single_pieces(stack, words)
    return [words[place] for place in places], vectors


def _text_rows(plan: Plan, texts: Mapping[str, Text], words: Words, read: Mapping[str, TypeVectors]) -> Iterator[Row]:
    """How many words each language has, of how many sentences, and how many of these were cut."""
    for language in texts:
        model = plan.names[language != plan.source] or plan.names[0]
        place: Place = {"model": model, "task": "lexicon", "source": language, "seed": plan.seed}
        yield row("vocabulary", len(words[language]), n=len(texts[language]), unit="word", **place)
        if language in read:
            yield row("truncated", read[language].shortened, n=read[language].sentences, unit="sentence", **place)
