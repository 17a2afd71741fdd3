"""Code-switching: replace parts of a text by another language, as functions of text, dictionaries and a seed.

There are three methods:

- a whole segment of a task's example (a premise, a question) is taken from the example's translation, as in Pan et al.
  (2021) (`segment_draws`);
- single words of an example are replaced by their translations in a dictionary (`switch_words`);
- words of the pretraining text are replaced, so that languages share more of them (`add_anchors`).

For examples every draw is a function of the seed, the epoch and the example's index, independent of earlier draws and
of the order in which examples are seen.

Extra anchors: Wu et al. (2020, "Emerging Cross-lingual Structure in Pretrained Language Models", section
4.2) ask how much of a multilingual model's alignment comes from anchors, pieces with the same spelling in two
languages. They add anchors: each word of the text that is in a dictionary is replaced by a translation with probability
0.3, at most 15% of the words of a batch.

Differences from the paper:

- the paper draws a word's translation weighted by PanLex's translation quality; MUSE files have no such weights, so one
  of several translations is drawn uniformly;
- its batch is a training batch, here it is a number of consecutive paragraphs.

Words are those of `isogloss.text.words`, including punctuation marks, with one addition: a dictionary word may cover
several adjacent ones (`北京` is two ideographs, `well-known` three words), and then counts as one. At each position the
longest dictionary word that begins there is taken.

For Chinese this is segmentation by longest match, with one additional rule: a single ideograph is a word only if it is
not beside another ideograph outside dictionary words, since otherwise it is mostly part of a word that is not in the
dictionary (the `家` of `国家杯` does not mean home). Against the word boundaries of the treebank GSDSimp (dev), with
MUSE's 5,000 English words, 91% of the longer matches are words and 99% of the isolated ideographs, but only 32% of the
others. A dictionary in traditional characters finds little in simplified text: they are not converted here. Thai, Lao,
Khmer and Burmese get almost no anchors, because a whole run between spaces is one word.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from isogloss.errors import InputError
from isogloss.seeds import seed_of
from isogloss.text.corpora import Lexicon, Span
from isogloss.text.languages import code
from isogloss.text.readers.dictionaries import read_lexicon
from isogloss.text.words import spans

AS_IT_IS = -1
Dictionary = Mapping[str, Sequence[str]]
"""Translations of a word in lower case, into any languages."""
LanguageDictionary = Mapping[str, Mapping[str, Sequence[str]]]
"""Translations of a word in lower case, by language."""
Edit = tuple[int, int, int]
"""A span of the old text, and the number of characters that replace it."""
_short_spans = lru_cache(maxsize=2**16)(spans)  # of two characters


@dataclass(frozen=True)
class Switching:
    """How training examples are code-switched.

    share: the probability that a segment of an example is taken from its translation; to: `source`, the segment is
    taken from the source's text, or `any`, from any other language's; words: the probability that a word is replaced by
    one of `dictionary`, the translations of all `lexicons`. False if nothing is switched.
    """

    share: float = 0.0
    to: str = "source"
    words: float = 0.0
    lexicons: Sequence[Lexicon] = ()
    dictionary: LanguageDictionary = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.share > 0 or self.words > 0

    @property
    def condition(self) -> str:
        """The value of the column `condition` of the rows.

        >>> Switching(0.5).condition, Switching(0.5, "any", 0.25).condition, Switching().condition
        ('switch:0.5', 'switch:0.5/any switch-words:0.25', '')
        """
        segment = f"switch:{self.share:g}{'' if self.to == 'source' else f'/{self.to}'}" if self.share else ""
        return " ".join(filter(None, (segment, f"switch-words:{self.words:g}" if self.words else "")))


@dataclass(frozen=True)
class Switched:
    """A text in which words were replaced, and the edits, in order."""

    text: str
    edits: tuple[Edit, ...] = ()

    def moved(self, position: int) -> int:
        """The new position of a character of the old text, which must not be inside a replaced word.

        >>> Switched("een oude kat", ((0, 1, 3), (2, 5, 4))).moved(6)  # of "a old cat", the c
        9
        """
        return position + sum(size - (end - start) for start, end, size in self.edits if end <= position)


def segment_draws(
    seed: int, epoch: int, *, count: int, share: float, segments: int, others: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the segment of each example to take from a translation, and the translation: (count,), (count,).

    Draw i is a function of seed, epoch and i alone.

    Args:
        seed: the seed of training.
        epoch: the epoch, from 0.
        count: number of examples.
        share: the probability that an example is switched; otherwise the segment is `AS_IT_IS`.
        segments: number of segments, drawn uniformly.
        others: number of translations, drawn uniformly.

    >>> segment_draws(0, 0, count=3, share=1.0, segments=1, others=1)[0].tolist()
    [0, 0, 0]
    """
    chance = np.random.default_rng(seed_of(seed, "switch", epoch)).random((count, 3))
    segment = np.where(chance[:, 0] < share, (chance[:, 1] * segments).astype(np.int64), AS_IT_IS)
    return segment, (chance[:, 2] * others).astype(np.int64)


def joined_dictionary(lexicons: Iterable[Lexicon]) -> dict[str, dict[str, list[str]]]:
    """All distinct translations of each source word, in lower case, by language, in the given order.

    >>> joined_dictionary([Lexicon("en", "nl", [("Cat", "kat")]), Lexicon("en", "de", [("cat", "Katze")])])
    {'cat': {'nl': ['kat'], 'de': ['Katze']}}
    """
    joined: dict[str, dict[str, list[str]]] = {}
    for lexicon in lexicons:
        for word, translation in lexicon:
            known = joined.setdefault(word.lower(), {}).setdefault(lexicon.target, [])
            if translation not in known:
                known.append(translation)
    return joined


def switch_words(
    text: str,
    dictionary: LanguageDictionary,
    *,
    language: str,
    share: float,
    chance: np.random.Generator,
    kept: Sequence[Span] = (),
) -> Switched:
    """Replace each word that the dictionary knows with probability `share`.

    For every word, first the language is drawn, among those with a translation, then the translation. The translation
    of a capitalised word is capitalised. Everything that is not a word is unchanged.

    Args:
        text: the text.
        dictionary: translations of words in lower case, by language.
        language: the language of the text, which determines the segmentation into words.
        share: the probability that a word of the dictionary is replaced.
        chance: the random generator.
        kept: spans in which nothing changes; a word that overlaps one is not replaced.

    >>> every = np.random.default_rng(0)
    >>> switch_words("A cat.", {"cat": {"nl": ["kat"]}}, language="en", share=1.0, chance=every)
    Switched(text='A kat.', edits=((2, 5, 3),))
    """
    parts: list[str] = []
    edits: list[Edit] = []
    done = 0
    for start, end in known_words(text, dictionary, language=language):
        if any(start < last and first < end for first, last in kept) or chance.random() >= share:
            continue
        word = text[start:end]
        languages = dictionary[word.lower()]
        chosen = languages[list(languages)[int(chance.integers(len(languages)))]]
        new = chosen[int(chance.integers(len(chosen)))]
        new = new[:1].upper() + new[1:] if word[:1].isupper() else new
        parts += [text[done:start], new]
        edits.append((start, end, len(new)))
        done = end
    return Switched("".join([*parts, text[done:]]), tuple(edits))


def known_words(text: str, dictionary: LanguageDictionary, *, language: str) -> list[Span]:
    """Spans of the words that are in the dictionary, segmented by `isogloss.text.words`."""
    return [(start, end) for start, end in spans(text, language) if text[start:end].lower() in dictionary]


def read_lexicons(given: Sequence[str | Lexicon] | str | None) -> Iterator[Lexicon]:
    """Read the dictionaries of `SOURCE-TARGET=FILE` entries; a `Lexicon` is passed through."""
    for entry in [given] if isinstance(given, str) else given or ():
        if isinstance(entry, Lexicon):
            yield entry
            continue
        languages, equals, file = entry.partition("=")
        source, dash, target = languages.partition("-")
        if not (equals and dash and file.strip()):
            raise InputError(f"--lexicon takes SOURCE-TARGET=FILE, as in en-fr=dictionary.txt, not {entry!r}")
        try:
            yield read_lexicon(Path(file.strip()), source.strip(), target.strip())
        except InputError as error:
            raise InputError(f"--lexicon {entry}: {error}") from error


def read_dictionaries(given: Sequence[str] | str | None) -> dict[str, dict[str, list[str]]]:
    """Read a dictionary for each language from `SOURCE-TARGET=FILE` entries; a file is used in both directions.

    Words are lower-cased, translations keep their spelling, each once, in the file's order. Several files are joined:
    with en-fr and en-ru an English word has translations in both.

    >>> read_dictionaries(["en-fr=en-fr.txt"])  # doctest: +SKIP
    {'en': {'cat': ['chat', 'chatte']}, 'fr': {'chat': ['cat'], 'chatte': ['cat']}}
    """
    dictionaries: dict[str, dict[str, list[str]]] = {}
    for lexicon in read_lexicons(given):
        for pair in lexicon:
            for language, word, translation in ((lexicon.source, *pair), (lexicon.target, *reversed(pair))):
                known = dictionaries.setdefault(language, {}).setdefault(word.lower(), [])
                if translation not in known:
                    known.append(translation)
    return dictionaries


def add_anchors(
    language: str,
    lines: Iterable[str],
    *,
    dictionaries: Mapping[str, Dictionary],
    seed: int,
    probability: float = 0.3,
    most: float = 0.15,
    batch: int = 256,
) -> Iterator[str]:
    """Replace some words of the paragraphs by translations; a language without a dictionary is unchanged.

    Each word with a translation is drawn with `probability`; if these are more than the share `most` of the words of
    `batch` paragraphs, a random subset of that size is replaced. (The 5,000 most frequent words of MUSE are about half
    of English text: with the paper's numbers the draw is close to the cap.) Translations of several words and those
    with the spelling of the word itself are not used. A translation takes the case of the word (Title -> Title, UPPER
    -> UPPER, otherwise as in the dictionary). Text between words is unchanged; but if a translation would merge with
    its neighbour (Chinese has no spaces, French has `l'eau`), a space is inserted.

    The result is a function of seed, language and text; one batch is read at a time.

    Args:
        language: the language of the text.
        lines: its paragraphs.
        dictionaries: a dictionary of each language, from `read_dictionaries`.
        seed: the random seed.
        probability: the probability that a word of the dictionary is drawn.
        most: maximum share of a batch's words that is replaced.
        batch: paragraphs of a batch.

    >>> anchors = add_anchors("en", ["Cats eat, cats sleep."], dictionaries={"en": {"cats": ["chats"]}}, seed=0,
    ...                       probability=1, most=1)
    >>> list(anchors)
    ['Chats eat, chats sleep.']
    """
    language = code(language)
    if not dictionaries.get(language):
        yield from lines
        return
    finder = _WordFinder(dictionaries[language], language)
    remaining = iter(lines)
    for number in itertools.count():
        paragraphs = list(itertools.islice(remaining, batch))
        if not paragraphs:
            return
        chance = random.Random(seed_of(seed, "anchors", language, number))
        # Draw words, keep at most the share `most`, and then draw their translations.
        drawn: list[tuple[int, Span]] = []
        count = 0
        for row, line in enumerate(paragraphs):
            words, matches = finder.find(line)
            count += words
            drawn += [(row, span) for span in matches if chance.random() < probability]
        cap = int(most * count + 1e-9)  # 0.29 * 100 is a little less than 29
        if len(drawn) > cap:
            drawn = sorted(chance.sample(drawn, cap))
        replaced: list[list[Span]] = [[] for _ in paragraphs]
        for row, span in drawn:
            replaced[row].append(span)
        for line, matches in zip(paragraphs, replaced, strict=True):
            pieces: list[str] = []
            done = 0
            for start, end in matches:
                word = line[start:end]
                translation = chance.choice(finder.translations[word.lower()])
                # The case of the word: Cat, chat -> Chat; CAT, chat -> CHAT.
                if word.isupper() and sum(map(str.isalpha, word)) > 1:
                    translation = translation.upper()
                elif word[0].isupper() and word[1:] == word[1:].lower():
                    translation = translation[0].title() + translation[1:]
                pieces += [line[done:start], translation]
                done = end
            text = ""
            for piece in filter(None, [*pieces, line[done:]]):
                grows_together = text and _short_spans(text[-1] + piece[0], language) == [(0, 2)]
                text += f" {piece}" if grows_together else piece
            yield text


class _WordFinder:
    """Finds the words of a dictionary in a text, the longest one at each position.

    translations: word -> its possible replacements. reach: the first word of multi-word dictionary entries -> the
    number of words of the longest of them.
    """

    def __init__(self, dictionary: Dictionary, language: str) -> None:
        self.language = language
        self.translations: dict[str, list[str]] = {}
        self.reach: dict[str, int] = {}
        for word, translations in ((word.lower(), several) for word, several in dictionary.items()):
            usable = [each for each in translations if len(each.split()) == 1 and each.lower() != word]
            if not usable or len(word.split()) != 1:
                continue
            self.translations[word] = usable
            parts = spans(word, language)
            if len(parts) > 1:
                first = word[slice(*parts[0])]
                self.reach[first] = max(len(parts), self.reach.get(first, 0))

    def find(self, text: str) -> tuple[int, list[Span]]:
        """The number of words of a text, and the spans of those that can be replaced."""
        words = spans(text, self.language)
        matches: list[Span] = []
        count = at = 0
        bare = -1  # end of the last ideograph outside longer dictionary words
        while at < len(words):
            start, end = words[at]
            word = text[start:end].lower()
            covered, last = 1, end  # words covered by the longest dictionary word that begins here
            for ahead in range(1, self.reach.get(word, 1)):
                if at + ahead == len(words) or words[at + ahead][0] != last:
                    break
                last = words[at + ahead][1]
                if text[start:last].lower() in self.translations:
                    covered = ahead + 1
            if covered > 1:
                matches.append((start, words[at + covered - 1][1]))
            elif end - start == 1 and word.isalnum() and _short_spans(2 * word, self.language) == [(0, 1), (1, 2)]:
                # Spans make every ideograph a word, but two adjacent ones outside the dictionary are unlikely to be.
                if start == bare:
                    if matches and matches[-1][1] == start:
                        matches.pop()
                elif word in self.translations:
                    matches.append((start, end))
                bare = end
            elif word in self.translations:
                matches.append((start, end))
            at += covered
            count += 1
        return count, matches
