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
_CONCEPTS = [f"{kind}{number}" for kind, count in _COUNTS.items() for number in range(count)]
_STOP: Concept = "stop"


@dataclass(frozen=True)
class Grammar:
    """How a language says it: its words, the order of subject, verb and object, adjectives, articles."""

    words: dict[Concept, str]
    order: str
    adjective_first: bool
    articles: bool


def _choose(chance: random.Random, kind: str) -> Concept:
    """One concept of a kind, frequent ones far more often than rare ones, as in any language (Zipf)."""
    weights = [1 / (rank + 1) for rank in range(_COUNTS[kind])]
    return f"{kind}{chance.choices(range(_COUNTS[kind]), weights)[0]}"


def _noun_phrase(chance: random.Random) -> Phrase:
    """An article, an adjective or none, and a noun."""
    adjective = (_choose(chance, "adjective"),) if chance.random() < 0.5 else ()
    return (_choose(chance, "article"), *adjective, _choose(chance, "noun"))


@cache
def grammar(language: str, seed: int = 0) -> Grammar:
    """The grammar and vocabulary of an invented language; no two concepts share a word."""
    chance = random.Random(f"grammar {seed} {code(language)}")
    consonants = chance.sample("bdfghjklmnprstvwz", 10)
    vowels = chance.sample("aeiou", 4)
    words: dict[Concept, str] = {_STOP: "."}
    for concept in _CONCEPTS:
        word = words[_STOP]
        while word in words.values():
            syllables = chance.choice((1, 2, 2, 3))
            word = "".join(chance.choice(consonants) + chance.choice(vowels) for _ in range(syllables))
            word += chance.choice((*consonants[:3], ""))
        words[concept] = word
    return Grammar(words, chance.choice(_ORDERS), chance.random() < 0.5, chance.random() < 0.7)


def _say(meaning: Sequence[Phrase], speech: Grammar) -> tuple[str, list[Span], list[int]]:
    """The text in which a language says it, its word spans, and which concept of the meaning each word stands for.

    There are spaces between words, none before the stop.
    """
    parts: dict[str, list[tuple[int, Concept]]] = {}
    number = 0
    for role, phrase in zip("svo", meaning, strict=True):
        concepts = list(enumerate(phrase, start=number))
        number += len(phrase)
        if role != "v":
            article, *rest = concepts
            concepts = rest if speech.adjective_first else rest[::-1]
            concepts = [article, *concepts] if speech.articles else concepts
        parts[role] = concepts
    said = [*(concept for role in speech.order for concept in parts[role]), (number, _STOP)]
    text, spans = "", list[Span]()
    for _, concept in said:
        text += " " if text and concept != _STOP else ""
        spans.append((len(text), len(text) + len(speech.words[concept])))
        text += speech.words[concept]
    return text, spans, [number for number, _ in said]


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
    meanings: list[tuple[Phrase, Phrase, Phrase]] = []  # subject, verb with or without adverb, object
    for _ in range(sentences):
        adverb = (_choose(chance, "adverb"),) if chance.random() < 0.3 else ()
        subject = _noun_phrase(chance)
        while (other := _noun_phrase(chance))[-1] == subject[-1]:  # a noun said twice would leave its link open
            pass
        meanings.append((subject, (_choose(chance, "verb"), *adverb), other))
    said = {each: [_say(meaning, grammar(each, seed)) for meaning in meanings] for each in codes}
    corpora = tuple(
        Corpus(each, [text for text, _, _ in rows], [spans for _, spans, _ in rows], f"invented {each}")
        for each, rows in said.items()
    )
    links: dict[tuple[str, str], list[list[Link]]] = {}
    for each in codes[1:]:
        rows = links[codes[0], each] = []
        for (_, _, first), (_, _, second) in zip(said[codes[0]], said[each], strict=True):
            words = {number: word for word, number in enumerate(second)}
            rows.append([(word, words[number]) for word, number in enumerate(first) if number in words])
    return Bitext(corpora, links, f"invented {seed}")


def invented_lexicon(source: str = "qaa", target: str = "qab", *, seed: int = 0) -> Lexicon:
    """The dictionary of two invented languages: every word and its translation, frequent ones first in each kind."""
    left, right = grammar(code(source), seed).words, grammar(code(target), seed).words
    pairs = [(left[concept], right[concept]) for concept in _CONCEPTS]
    return Lexicon(code(source), code(target), pairs, f"invented {seed}")
