"""Code-switching: text in which some parts are in another language. Functions of text, dictionaries and chance.

There are three ways of it:

- a whole segment of a task's example (a premise, a question) is taken from the example's translation, as Pan et al.
  (2021) do (`segment_draws`);
- single words of an example are replaced by their translations in a dictionary (`switch_words`);
- words of the pretraining text are replaced, so that languages share more of them (`add_anchors`).

For examples every draw is a function of the seed, the epoch and the example's number: not of what was drawn before,
nor of the order in which examples are seen.

Extra anchors
-------------
Wu et al. (2020, "Emerging Cross-lingual Structure in Pretrained Language Models", section 4.2) ask how much of a
multilingual model's alignment comes from anchors, pieces that two languages spell alike. They make more of them: each
word of the text that a dictionary has is replaced by a translation with probability 0.3, at most 15% of the words of
a batch.

What differs here from the paper:

- the paper draws a word's translation weighted by PanLex's translation quality; MUSE files have none, so that among
  several translations one is drawn uniformly;
- its batch is a training batch, this one some paragraphs in the order of the text.

Words are those of `isogloss.text.words`, punctuation marks included, with one addition: a dictionary word may cover
several of them that stand with nothing between (`北京` is two ideographs, `well-known` three words), and then counts
as one. At each position the longest dictionary word that begins there is taken.

For Chinese this is segmentation by longest match, with one rule more: an ideograph of its own is a word only where no
other ideograph outside dictionary words stands beside it, for otherwise it is mostly part of a word the dictionary
lacks (the `家` of `国家杯` is no home). Against the word boundaries of the treebank GSDSimp (dev), with MUSE's 5,000
English words, 91% of the longer matches are words and 99% of the ideographs that stand alone, but only 32% of the
others. A dictionary in traditional characters finds little in simplified text: none is turned into the other here.
Thai, Lao, Khmer and Burmese get almost no anchors, a whole run between spaces being one word.
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
"""Translations of a word in lower case, into whatever languages."""
LanguageDictionary = Mapping[str, Mapping[str, Sequence[str]]]
"""Translations of a word in lower case, by language."""
Edit = tuple[int, int, int]
"""A span of the old text, and how many characters stand there now."""
_short_spans = lru_cache(maxsize=2**16)(spans)  # of two characters


@dataclass(frozen=True)
class Switching:
    """How training examples are switched.

    share: how likely a segment of an example is taken from its translation; to: `source`, that segment is of the
    source's text, or `any`, of any other language's; words: how likely a word is replaced by one of `dictionary`, the
    translations of all `lexicons`. It is false where nothing is switched.
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
        """The setting as it stands in the rows.

        >>> Switching(0.5).condition, Switching(0.5, "any", 0.25).condition, Switching().condition
        ('switch:0.5', 'switch:0.5/any switch-words:0.25', '')
        """
        segment = f"switch:{self.share:g}{'' if self.to == 'source' else f'/{self.to}'}" if self.share else ""
        return " ".join(filter(None, (segment, f"switch-words:{self.words:g}" if self.words else "")))


@dataclass(frozen=True)
class Switched:
    """A text in which words were replaced, and the edits, in order, that made it."""

    text: str
    edits: tuple[Edit, ...] = ()

    def moved(self, position: int) -> int:
        """Where a character of the old text is now; it must not be inside a replaced word.

        >>> Switched("een oude kat", ((0, 1, 3), (2, 5, 4))).moved(6)  # of "a old cat", the c
        9
        """
        return position + sum(size - (end - start) for start, end, size in self.edits if end <= position)


def segment_draws(
    seed: int, epoch: int, *, count: int, share: float, segments: int, others: int
) -> tuple[np.ndarray, np.ndarray]:
    """Which segment of each example is taken from a translation, and from which: (count,), (count,).

    Draw i is a function of seed, epoch and i alone.

    Args:
        seed: the seed of training.
        epoch: the epoch, from 0.
        count: number of examples.
        share: how likely an example is to be switched; the segment is `AS_IT_IS` where it is not.
        segments: how many segments there are to choose from, each as likely as the next.
        others: how many translations there are to choose from, each as likely as the next.

    >>> segment_draws(0, 0, count=3, share=1.0, segments=1, others=1)[0].tolist()
    [0, 0, 0]
    """
    chance = np.random.default_rng(seed_of(seed, "switch", epoch)).random((count, 3))
    segment = np.where(chance[:, 0] < share, (chance[:, 1] * segments).astype(np.int64), AS_IT_IS)
    return segment, (chance[:, 2] * others).astype(np.int64)


def joined_dictionary(lexicons: Iterable[Lexicon]) -> dict[str, dict[str, list[str]]]:
    """All translations of each source word, in lower case, by language; each of them once, in the order given.

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

    The language of the translation is drawn anew for every word, among those that have one, then the translation. A
    word that begins with a capital has a translation that does. Spaces and all that is no word stay as they are.

    Args:
        text: the text.
        dictionary: translations of words in lower case, by language.
        language: the language of the text, which decides what a word is.
        share: how likely a word of the dictionary is to be replaced.
        chance: the source of chance.
        kept: spans in which nothing changes, nor in a word that reaches into one.

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
    """Spans of the words that a dictionary knows, as they are segmented everywhere (`isogloss.text.words`)."""
    return [(start, end) for start, end in spans(text, language) if text[start:end].lower() in dictionary]


def read_lexicons(given: Sequence[str | Lexicon] | str | None) -> Iterator[Lexicon]:
    """The dictionaries that `SOURCE-TARGET=FILE` entries name; one that is in memory is itself."""
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
    """Dictionaries of each language from `SOURCE-TARGET=FILE` entries; a file serves both of its languages.

    Words are lower-cased, translations as the file spells them, each once, in the file's order. Several files add up:
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
    """The paragraphs with some words replaced by translations; a language without a dictionary passes unchanged.

    Each word that has a translation is drawn with `probability`; where that makes more than the share `most` of the
    words of `batch` paragraphs, a random subset of just so many is kept. (The 5,000 commonest words of MUSE are about
    half of English text: with the paper's numbers the draw is close to the cap.) Translations of several words and
    those spelled like the word itself are no replacements. A translation takes the capitals of the word (Title ->
    Title, UPPER -> UPPER, otherwise as in the dictionary). All between words stays as it is; only where a translation
    would grow together with its neighbour (Chinese has no spaces, French has `l'eau`) a space is put between them.

    The result is a function of seed, language and text; a batch is read at a time.

    Args:
        language: the language of the text.
        lines: its paragraphs.
        dictionaries: a dictionary of each language, as `read_dictionaries` gives them.
        seed: the source of chance.
        probability: how likely a word of the dictionary is to be drawn.
        most: the share of a batch's words that is replaced at most.
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
        # Words are drawn, at most the share of them kept, and then what replaces each is drawn.
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
                # The capitals of the word: Cat, chat -> Chat; CAT, chat -> CHAT.
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

    translations: word -> what may replace it. reach: the first word of dictionary words that cover several -> how
    many the longest of them covers.
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
        """How many words a text has, and the spans of those that can be replaced."""
        words = spans(text, self.language)
        matches: list[Span] = []
        count = at = 0
        bare = -1  # where the last ideograph outside longer dictionary words ended
        while at < len(words):
            start, end = words[at]
            word = text[start:end].lower()
            covered, last = 1, end  # how many words the longest dictionary word covers that begins at this one
            for ahead in range(1, self.reach.get(word, 1)):
                if at + ahead == len(words) or words[at + ahead][0] != last:
                    break
                last = words[at + ahead][1]
                if text[start:last].lower() in self.translations:
                    covered = ahead + 1
            if covered > 1:
                matches.append((start, words[at + covered - 1][1]))
            elif end - start == 1 and word.isalnum() and _short_spans(2 * word, self.language) == [(0, 1), (1, 2)]:
                # An ideograph is a word by itself even beside another one; of two side by side neither surely is.
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
