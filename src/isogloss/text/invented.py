"""Invented languages: parallel sentences with known word links, from nothing but a seed.

A sentence is first a meaning: someone does something to something, with articles, adjectives and an adverb.
Each language then says it with words of its own, in an order of its own, with or without articles. So tests
have translations whose gold links, dictionary and word order are known, and that no one owns.

The meanings depend on the seed alone, and a language on the seed and its code: the same language is spoken in
every bitext it takes part in. Use the codes ISO 639 reserves for local use, `qaa` to `qtz`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, Lexicon, Link, Span
from isogloss.text.languages import code

Concept = str
Phrase = tuple[Concept, ...]

_COUNTS = {"noun": 40, "verb": 24, "adjective": 16, "adverb": 8, "article": 2}
_ORDERS = ("svo", "sov", "vso", "osv")
_STOP: Concept = "stop"


@dataclass(frozen=True)
class SentenceMeaning:
    """What a sentence says, before any language: subject and object are (article, adjective or none, noun)."""

    subject: Phrase
    verb: Phrase
    object: Phrase


@dataclass(frozen=True)
class Grammar:
    """How a language says it: its words, the order of subject, verb and object, adjectives, articles."""

    words: dict[Concept, str]
    order: str
    adjective_first: bool
    articles: bool


def _concepts() -> list[Concept]:
    return [f"{kind}{number}" for kind, count in _COUNTS.items() for number in range(count)]


def _choose(chance: random.Random, kind: str) -> Concept:
    """One concept of a kind, frequent ones far more often than rare ones, as in any language (Zipf)."""
    weights = [1 / (rank + 1) for rank in range(_COUNTS[kind])]
    return f"{kind}{chance.choices(range(_COUNTS[kind]), weights)[0]}"


def _noun_phrase(chance: random.Random) -> Phrase:
    adjective = (_choose(chance, "adjective"),) if chance.random() < 0.5 else ()
    return (_choose(chance, "article"), *adjective, _choose(chance, "noun"))


def _meaning(chance: random.Random) -> SentenceMeaning:
    adverb = (_choose(chance, "adverb"),) if chance.random() < 0.3 else ()
    subject = _noun_phrase(chance)
    while (other := _noun_phrase(chance))[-1] == subject[-1]:  # a noun said twice would leave its link open
        pass
    return SentenceMeaning(subject, (_choose(chance, "verb"), *adverb), other)


def _word(chance: random.Random, consonants: Sequence[str], vowels: Sequence[str]) -> str:
    syllables = chance.choice((1, 2, 2, 3))
    return "".join(chance.choice(consonants) + chance.choice(vowels) for _ in range(syllables)) + chance.choice(
        (*consonants[:3], "")
    )


@cache
def grammar(language: str, seed: int = 0) -> Grammar:
    """The grammar and vocabulary of an invented language; no two concepts share a word."""
    chance = random.Random(f"grammar {seed} {code(language)}")
    consonants = chance.sample("bdfghjklmnprstvwz", 10)
    vowels = chance.sample("aeiou", 4)
    words: dict[Concept, str] = {_STOP: "."}
    for concept in _concepts():
        while (word := _word(chance, consonants, vowels)) in words.values():
            pass
        words[concept] = word
    return Grammar(words, chance.choice(_ORDERS), chance.random() < 0.5, chance.random() < 0.7)


def _say(meaning: SentenceMeaning, speech: Grammar) -> list[tuple[int, Concept]]:
    """The concepts in the order the language says them, each with its number in the meaning."""
    parts: dict[str, list[tuple[int, Concept]]] = {}
    number = 0
    for role, phrase in (("s", meaning.subject), ("v", meaning.verb), ("o", meaning.object)):
        concepts = list(enumerate(phrase, start=number))
        number += len(phrase)
        if role != "v":
            article, *rest = concepts
            concepts = rest if speech.adjective_first else rest[::-1]
            concepts = [article, *concepts] if speech.articles else concepts
        parts[role] = concepts
    said = [concept for role in speech.order for concept in parts[role]]
    return [*said, (number, _STOP)]


def _write(said: Sequence[tuple[int, Concept]], speech: Grammar) -> tuple[str, list[Span]]:
    """The text and its word spans: spaces between words, none before the stop."""
    text, spans = "", list[Span]()
    for _, concept in said:
        text += " " if text and concept != _STOP else ""
        spans.append((len(text), len(text) + len(speech.words[concept])))
        text += speech.words[concept]
    return text, spans


def invented(languages: Sequence[str] = ("qaa", "qab"), sentences: int = 100, *, seed: int = 0) -> Bitext:
    """A bitext of invented languages with words, and gold links for every pair (first language, other).

    An article that one of the two languages does not say has no link.

    >>> bitext = invented(("qaa", "qab"), 1)
    >>> [len(corpus) for corpus in bitext], list(bitext.links)
    ([1, 1], [('qaa', 'qab')])
    """
    codes = [code(each) for each in languages]
    if len(codes) < 2 or sentences < 1:
        raise InputError(f"two languages and one sentence are the least, not {len(codes)} and {sentences}")
    chance = random.Random(f"meanings {seed}")
    meanings = [_meaning(chance) for _ in range(sentences)]
    said = {each: [_say(meaning, grammar(each, seed)) for meaning in meanings] for each in codes}
    corpora = []
    for each in codes:
        written = [_write(row, grammar(each, seed)) for row in said[each]]
        corpora.append(Corpus(each, [text for text, _ in written], [spans for _, spans in written], f"invented {each}"))
    links = {(codes[0], each): _links(said[codes[0]], said[each]) for each in codes[1:]}
    return Bitext(tuple(corpora), links, f"invented {seed}")


def _links(
    first: Sequence[Sequence[tuple[int, Concept]]], other: Sequence[Sequence[tuple[int, Concept]]]
) -> list[list[Link]]:
    """Words that say the same part of the meaning."""
    rows = []
    for left, right in zip(first, other, strict=True):
        said = {number: word for word, (number, _) in enumerate(right)}
        rows.append([(word, said[number]) for word, (number, _) in enumerate(left) if number in said])
    return rows


def invented_lexicon(source: str = "qaa", target: str = "qab", *, seed: int = 0) -> Lexicon:
    """The dictionary of two invented languages: every word and its translation, frequent ones first in each kind."""
    left, right = grammar(code(source), seed).words, grammar(code(target), seed).words
    pairs = [(left[concept], right[concept]) for concept in _concepts()]
    return Lexicon(code(source), code(target), pairs, f"invented {seed}")
