"""Prompts whose answer is one word of a language, built from dictionaries: translations and gaps in sentences.

    Français: "fleur" - 中文: "花"          Een ___ slaapt op de stoel. ___: "kat"
    Français: "livre" - 中文: "             Wij drinken ___. ___: "

They end where the word would begin, after some examples of the same kind, and every language has its native name
(Wendler et al. 2024, *Do Llamas Work in English?*). The possible answers are known in several languages: the correct
word, its translation in a pivot language that does not occur in the prompt, and the word in the source language.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isogloss.errors import require
from isogloss.seeds import seed_of
from isogloss.text.corpora import Corpus, Lexicon
from isogloss.text.languages import own_name
from isogloss.text.words import spans, word_spans

GAP = "___"
Task = Literal["translation", "cloze"]
Words = Mapping[str, Sequence[str]]  # language -> words of one meaning, the usual one first


@dataclass(frozen=True)
class Prompt:
    """A text that ends where a word would begin, and that word in the languages that are measured.

    shots: the number of answered examples before it.
    """

    text: str
    words: Words
    shots: int


@dataclass(frozen=True)
class PromptSet:
    """Prompts of one task from one language to another, or for gaps, in one language."""

    task: Task
    source: str
    target: str
    prompts: Sequence[Prompt]


def meanings(lexicons: Sequence[Lexicon], pivot: str) -> dict[str, dict[str, list[str]]]:
    """Group the words of every language by the word of the pivot language, which is one side of every dictionary.

    >>> meanings([Lexicon("en", "fr", [("cat", "chat")]), Lexicon("nl", "en", [("kat", "cat")])], "en")
    {'cat': {'en': ['cat'], 'fr': ['chat'], 'nl': ['kat']}}
    """
    known: dict[str, dict[str, list[str]]] = {}
    for lexicon in lexicons:
        sides = (lexicon.source, lexicon.target)
        require(pivot in sides, f"the dictionary of {' and '.join(sides)} has no words of the pivot language {pivot}")
        other = sides[sides[0] == pivot]
        for pair in lexicon:
            word, translation = pair if sides[0] == pivot else pair[::-1]
            words = known.setdefault(word, {pivot: [word]}).setdefault(other, [])
            if translation not in words:
                words.append(translation)
    return known


@dataclass(frozen=True)
class Prompting:
    """How prompts are built.

    pivot: the language whose words are measured beside those of the prompt. most: maximum prompts of a set. shots:
    examples before each. seed: of the choice of both. askable: whether the words of a prompt can be distinguished.
    """

    pivot: str
    most: int
    shots: int
    seed: int
    askable: Callable[[Words], bool]

    def prompts(self, items: Sequence[tuple[str, Words]], *about: str) -> list[Prompt]:
        """Prompts for the first items in random order, each after other items as answered examples.

        No example has the same line or contains an answer. items: the question line and the words; about: the
        languages, of which the last is that of the answer.
        """
        chance, prompts = np.random.default_rng(seed_of(self.seed, *about)), []
        for number in chance.permutation(len(items))[: self.most].tolist():
            line, words = items[number]
            answers = [_spaced(word, about[-1]) for word in words[about[-1]]]
            drawn = [items[each] for each in chance.permutation(len(items)).tolist()]
            answered = [f'{asks}{meaning[about[-1]][0]}"\n' for asks, meaning in drawn if asks != line]
            examples = [text for text in answered if not any(answer in _spaced(text, about[-1]) for answer in answers)]
            shown = examples[: self.shots]
            prompts.append(Prompt("".join(shown) + line, words, len(shown)))
        return prompts


def _spaced(text: str, language: str) -> str:
    """The words of a text in lower case, with a space before and after each."""
    return f" {' '.join(text[start:end].lower() for start, end in spans(text, language))} "


def translations(known: Mapping[str, Words], source: str, target: str, how: Prompting) -> PromptSet:
    """Prompts that ask for the translation of a word."""
    asked = dict.fromkeys((target, how.pivot, source))
    chosen = [{code: words[code] for code in asked} for words in known.values() if all(code in words for code in asked)]
    names = own_name(source), own_name(target)
    lines: dict[str, Words] = {}  # for a word with several meanings, the first is used
    for words in filter(how.askable, chosen):
        lines.setdefault(f'{names[0]}: "{words[source][0]}" - {names[1]}: "', words)
    return PromptSet("translation", source, target, how.prompts(list(lines.items()), source, target))


def gaps(known: Mapping[str, Words], corpus: Corpus, how: Prompting) -> PromptSet:
    """Prompts that ask for the missing word of a sentence, the first of the corpus that contains it once."""
    target = corpus.language
    meaning = {words[target][0].lower(): words for words in known.values() if target in words}
    lines: dict[str, tuple[str, Words]] = {}
    for number, sentence in enumerate(corpus.sentences):
        places = word_spans(corpus, number)
        counts = Counter(sentence[start:end].lower() for start, end in places)
        for start, end in places:
            word = sentence[start:end]
            if (key := word.lower()) in meaning and key not in lines and counts[key] == 1:
                words = {target: [word], how.pivot: meaning[key][how.pivot]}
                if how.askable(words):
                    lines[key] = f'{sentence[:start]}{GAP}{sentence[end:]} {GAP}: "', words
    return PromptSet("cloze", target, target, how.prompts(list(lines.values()), "gaps", target))
