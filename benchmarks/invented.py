"""Invented languages: parallel sentences with known word links, from nothing but a seed.

A sentence is first a meaning: someone does something to something, with articles, adjectives and an adverb.
Each language then says it with words of its own, in an order of its own, with or without articles. So tests
have translations whose gold links, dictionary and word order are known, and that no one owns.

The meanings depend on the seed alone, and a language on the seed and its code: the same language is spoken in
every bitext it takes part in. Use the codes ISO 639 reserves for local use, `qaa` to `qtz`.

`invented_data` is a whole folder of data sets in such languages, for papers at smoke scale: its files are named and
written as those of the public data sets. It is part of the package, and made anew by

    python -m benchmarks.invented src/isogloss/data/invented
"""

import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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


# ------------------------------------------------------------------------------------------------ data sets

LANGUAGES = ("qaa", "qab", "qac")  # of `invented_data`; the first stands for English
# Sentences of each part, which says the same in every language.
PARTS = {"text": 600, "drift": 150, "train": 60, "val": 60, "test": 60, "parallel": 180, "learned": 240, "asked": 60}
PARTS |= {"trees": 24, "questions": 180}
PARAPHRASED = 70  # of the learned ones
TAGS = {"noun": "NOUN", "verb": "VERB", "adjective": "ADJ", "adverb": "ADV", "article": "DET", "stop": "PUNCT"}
RELATIONS = {"ADJ": "amod", "ADV": "advmod", "DET": "det", "PUNCT": "punct", "VERB": "root"}
ENTITIES: Mapping[int | None, str] = {0: "B-PER", 1: "B-LOC"}  # by the number of the noun, modulo 4


def invented_data(*, seed: int = 1) -> dict[str, str]:
    """The files of a folder of data sets in invented languages, by their names.

    Tasks are trained in the first language: `nli_en`, `squad` and `drift` have it alone. There is so little of
    everything that a reproduction takes minutes, and what is asked means nothing, but can be learned.
    """
    bitext, start = invented(LANGUAGES, sum(PARTS.values()), seed=seed), 0
    parts: dict[str, dict[str, Sequence[str]]] = {}
    for name, count in PARTS.items():
        parts[name] = {corpus.language: corpus.sentences[start : start + count] for corpus in bitext}
        start += count
    source, *others = LANGUAGES
    files = {f"nli_en/mnli_{name}.tsv": inference(parts[name][source]) for name in ("train", "val")}
    files["xnli/xnli.15way.tsv"] = _lines([LANGUAGES, *zip(*parts["parallel"].values(), strict=True)])
    files["squad/train-v1.1.json"] = questions(parts["questions"][source])
    files[f"drift/{source}.txt"] = _lines(parts["drift"][source])
    for language in LANGUAGES:
        said, speech = {part: parts[part][language] for part in parts}, grammar(language, seed)
        files[f"train/invented.{language}.txt"] = _lines(said["text"])
        files[f"ud_pud/{language}_pud-ud-test.conllu"] = treebank(said["trees"], speech)
        files[f"xquad/xquad.{language}.json"] = questions(said["test"])
        files[f"mlqa/dev-context-{language}-question-{language}.json"] = questions(said["val"])
        for part, name in {"train": "train", "val": "dev", "test": "test"}.items():
            files[f"xnli/{name}-{language}.tsv"] = inference(said[part])
            files[f"ud_train/{language}_home-ud-{name}.conllu"] = treebank(said[part], speech)
            files[f"wikiann_panx/{name}-{language}.tsv"] = entities(said[part], speech)
    for other in others:
        asked, learned = ([parts[part][side] for side in (source, other)] for part in ("asked", "learned"))
        # Sentences that share a translation: the same with its first two words turned.
        words = [sentence.split() for sentence in learned[0][:PARAPHRASED]]
        turned = [" ".join([second, first, *rest]) for first, second, *rest in words]
        pairs = [*zip(*learned, strict=True), *zip(turned, learned[1], strict=False)]
        files[f"tatoeba/{source}-{other}.tsv"] = _lines(zip(*asked, strict=True))
        files[f"tatoeba_train/{source}-{other}.tsv"] = _lines(pairs)
        dictionary = list(map(" ".join, invented_lexicon(source, other, seed=seed).pairs))
        for half, name in enumerate(("0-5000", "5000-6500")):
            files[f"muse/{source}-{other}.{name}.txt"] = _lines(dictionary[half::2])
    return files


def _lines(lines: Iterable[str | Sequence[str]]) -> str:
    """Lines, or cells between tabs, as the content of a file."""
    return "".join(f"{line if isinstance(line, str) else chr(9).join(line)}\n" for line in lines)


def inference(sentences: Sequence[str]) -> str:
    """Pairs with every label in turn.

    A sentence entails its last word, is neutral to the one before it, and contradicts the three before it at once.
    """
    rows = []
    for at, first in enumerate(sentences):
        before = sentences[max(0, at - 3) : at] or [first]
        labels = {"entailment": first.split()[-1], "neutral": before[-1], "contradiction": " ".join(before)}
        label, second = list(labels.items())[at % len(labels)]
        rows.append((first, second, label))
    return _lines(rows)


def questions(sentences: Sequence[str]) -> str:
    """Texts of three sentences; asked by the first two words of the second, its last word is the answer.

    A question's id is its number, so that translations have the same one.
    """
    articles = []
    for number, texts in enumerate(zip(*(sentences[start::3] for start in range(3)), strict=True)):
        before, asked, after = texts
        words = asked.rstrip(".").split()
        answer = {"text": words[-1], "answer_start": len(before) + 1 + asked.rindex(words[-1])}
        entry = {"id": str(number), "question": " ".join(words[:2]), "answers": [answer]}
        paragraph = {"context": f"{before} {asked} {after}", "qas": [entry]}
        articles.append({"title": before, "paragraphs": [paragraph]})
    return json.dumps({"data": articles}, ensure_ascii=False)


def _concepts(sentence: str, speech: Grammar) -> list[tuple[str, Concept]]:
    """Every word of a sentence, the full stop among them, and what it stands for."""
    concepts = {word: concept for concept, word in speech.words.items()}
    return [(word, concepts[word]) for word in (*sentence.rstrip(".").split(), ".")]


def entities(sentences: Sequence[str], speech: Grammar) -> str:
    """A tag for every word: one noun in four is a person, one in four a place."""
    lines: list[Sequence[str]] = []
    for sentence in sentences:
        for word, concept in _concepts(sentence, speech):
            noun = int(concept[4:]) % 4 if concept.startswith("noun") else None
            lines.append((word, ENTITIES.get(noun, "O")))
        lines.append("")
    return _lines(lines)


def treebank(sentences: Sequence[str], speech: Grammar) -> str:
    """A tree for every sentence; the ids of sentences are the same in every language.

    The verb is the root, the first noun its subject (the second where the language begins with the object), articles
    and adjectives hang on their noun.
    """
    lines: list[str | Sequence[str]] = []
    for number, sentence in enumerate(sentences):
        lines += [f"# sent_id = {number}", f"# text = {sentence}"]
        words = _concepts(sentence, speech)
        tags = [TAGS[concept.rstrip("0123456789")] for _, concept in words]
        rows = zip(words, tags, _heads(tags, speech), strict=True)
        for at, ((word, _), tag, (head, relation)) in enumerate(rows, start=1):
            space = "SpaceAfter=No" if at >= len(words) - 1 else "_"
            lines.append((str(at), word, "_", tag, "_", "_", str(head), relation, "_", space))
        lines.append("")
    return _lines(lines)


def _heads(tags: Sequence[str], speech: Grammar) -> Iterator[tuple[int, str]]:
    """The head and the relation of every word."""
    verb = tags.index("VERB") + 1
    nouns = [position for position, tag in enumerate(tags, 1) if tag == "NOUN"]
    subject = nouns[1 if speech.order == "osv" else 0]
    for position, tag in enumerate(tags, 1):
        if tag == "NOUN":
            yield verb, "nsubj" if position == subject else "obj"
        elif tag == "DET" or (tag == "ADJ" and speech.adjective_first):
            yield min(noun for noun in nouns if noun > position), RELATIONS[tag]
        elif tag == "ADJ":
            yield max(noun for noun in nouns if noun < position), RELATIONS[tag]
        else:
            yield (0 if tag == "VERB" else verb), RELATIONS[tag]


if __name__ == "__main__":
    for name, content in invented_data().items():
        path = Path(sys.argv[1], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
