"""Extra anchors: words of the training text replaced by translations, so that languages share more of them.

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
as one. At each place the longest dictionary word that begins there is taken.

For Chinese this is segmentation by longest match, with one rule more: an ideograph of its own is a word only where no
other ideograph outside dictionary words stands beside it, for otherwise it is mostly part of a word the dictionary
lacks (the `家` of `国家杯` is no home). Against the word boundaries of the treebank GSDSimp (dev), with MUSE's 5,000
English words, 91% of the longer matches are words and 99% of the ideographs that stand alone, but only 32% of the
others. A dictionary in traditional characters finds little in simplified text: none is turned into the other here.
Thai, Lao, Khmer and Burmese get almost no anchors, a whole run between spaces being one word.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice, pairwise
from pathlib import Path

from isogloss.errors import InputError
from isogloss.seeds import seed_of
from isogloss.text.corpora import Span
from isogloss.text.languages import code
from isogloss.text.readers import read_lexicon
from isogloss.text.words import spans

Dictionary = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _Finder:
    """A dictionary made ready for search.

    translations: word -> what may replace it. reach: the first word of dictionary words that cover several -> how
    many the longest of them covers.
    """

    translations: Mapping[str, Sequence[str]]
    reach: Mapping[str, int]


def read_dictionaries(given: Sequence[str]) -> dict[str, Dictionary]:
    """Dictionaries of each language from `SOURCE-TARGET=FILE` entries; a file serves both of its languages.

    Words are lower-cased, translations as the file spells them, each once, in the file's order. Several files add up:
    with en-fr and en-ru an English word has translations in both.

    >>> read_dictionaries(["en-fr=en-fr.txt"])  # doctest: +SKIP
    {'en': {'cat': ['chat', 'chatte']}, 'fr': {'chat': ['cat'], 'chatte': ['cat']}}
    """
    found: dict[str, dict[str, dict[str, None]]] = {}  # dictionaries as ordered sets
    for entry in given:
        languages, equals, file = entry.partition("=")
        source, dash, target = languages.partition("-")
        if not (equals and dash and file.strip()):
            raise InputError(f"--lexicon takes SOURCE-TARGET=FILE, as in en-fr=dictionary.txt, not {entry!r}")
        try:
            lexicon = read_lexicon(Path(file.strip()), source.strip(), target.strip())
        except InputError as error:
            raise InputError(f"--lexicon {entry}: {error}") from error
        for word, translation in lexicon:
            found.setdefault(lexicon.source, {}).setdefault(word.lower(), {})[translation] = None
            found.setdefault(lexicon.target, {}).setdefault(translation.lower(), {})[word] = None
    return {language: {word: list(several) for word, several in words.items()} for language, words in found.items()}


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

    A pure function of seed, language and text, a batch being read at a time.

    >>> anchors = add_anchors("en", ["Cats eat, cats sleep."], dictionaries={"en": {"cats": ["chats"]}}, seed=0,
    ...                       probability=1, most=1)
    >>> list(anchors)
    ['Chats eat, chats sleep.']
    """
    if batch < 1 or not 0 <= probability <= 1 or not 0 <= most <= 1:
        raise InputError(
            "extra anchors need a batch of at least one paragraph, and probability and most from 0 to 1, "
            f"not batch {batch}, probability {probability}, most {most}"
        )
    language = code(language)
    if not dictionaries.get(language):
        return iter(lines)
    finder = _finder(dictionaries[language], language)
    change = partial(_replaced, finder=finder, language=language, probability=probability, most=most)
    return _by_batch(iter(lines), batch, lambda some, number: change(some, draw=_draw(seed, language, number)))


def _draw(seed: int, language: str, number: int) -> random.Random:
    return random.Random(seed_of(seed, "anchors", language, number))


def _by_batch(lines: Iterator[str], batch: int, change: Callable[[list[str], int], list[str]]) -> Iterator[str]:
    number = 0
    while some := list(islice(lines, batch)):
        yield from change(some, number)
        number += 1


def _finder(dictionary: Dictionary, language: str) -> _Finder:
    """The words that can be replaced and what by, and which of them cover several words."""
    translations: dict[str, list[str]] = {}
    reach: dict[str, int] = {}
    for given, several in dictionary.items():
        word = given.lower()
        usable = [one for one in several if len(one.split()) == 1 and one.lower() != word]
        if not usable or len(word.split()) != 1:
            continue
        translations[word] = usable
        parts = spans(word, language)
        if len(parts) > 1:
            first = word[slice(*parts[0])]
            reach[first] = max(len(parts), reach.get(first, 0))
    return _Finder(translations, reach)


def _replaced(
    lines: list[str],
    *,
    finder: _Finder,
    language: str,
    probability: float,
    most: float,
    draw: random.Random,
) -> list[str]:
    """One batch: draw words, keep at most the share of them, then draw what replaces each."""
    drawn: list[tuple[int, Span]] = []
    count = 0
    for number, line in enumerate(lines):
        words, found = _find(line, finder, language)
        count += words
        drawn += [(number, place) for place in found if draw.random() < probability]
    cap = int(most * count + 1e-9)  # 0.29 * 100 is a little less than 29
    if len(drawn) > cap:
        drawn = sorted(draw.sample(drawn, cap))
    chosen: dict[int, list[tuple[Span, str]]] = {}
    for number, (start, end) in drawn:
        word = lines[number][start:end]
        translation = draw.choice(finder.translations[word.lower()])
        chosen.setdefault(number, []).append(((start, end), _in_the_case_of(word, translation)))
    return [_put(line, chosen[number], language) if number in chosen else line for number, line in enumerate(lines)]


def _find(text: str, finder: _Finder, language: str) -> tuple[int, list[Span]]:
    """How many words a text has, and the spans of those the dictionary has, the longest at each place."""
    places = spans(text, language)
    translations, reach = finder.translations, finder.reach
    found: list[Span] = []
    count = at = 0
    bare = -1  # where the last ideograph outside longer dictionary words ended
    while at < len(places):
        start, end = places[at]
        word = text[start:end].lower()
        taken = _longest(text, places, at, finder) if word in reach else 1
        if taken > 1:
            found.append((start, places[at + taken - 1][1]))
        elif end - start == 1 and _is_ideograph(word, language):
            if start == bare:  # two side by side: neither is surely a word
                if found and found[-1][1] == start:
                    found.pop()
            elif word in translations:
                found.append((start, end))
            bare = end
        elif word in translations:
            found.append((start, end))
        at += taken
        count += 1
    return count, found


def _longest(text: str, places: list[Span], at: int, finder: _Finder) -> int:
    """How many words the longest dictionary word covers that begins at this one; 1 if none covers several."""
    start, end = places[at]
    best = 1
    for ahead in range(1, finder.reach[text[start:end].lower()]):
        if at + ahead == len(places) or places[at + ahead][0] != end:
            break
        end = places[at + ahead][1]
        if text[start:end].lower() in finder.translations:
            best = ahead + 1
    return best


def _in_the_case_of(word: str, translation: str) -> str:
    """The translation with the capitals of the word: ("Cat", "chat") -> "Chat", ("CAT", "chat") -> "CHAT"."""
    if word.isupper() and sum(map(str.isalpha, word)) > 1:
        return translation.upper()
    if word[0].isupper() and word[1:] == word[1:].lower():
        return translation[0].title() + translation[1:]
    return translation


def _put(text: str, chosen: list[tuple[Span, str]], language: str) -> str:
    """The text with translations in these places, a space where one would grow together with its neighbour."""
    parts: list[str] = []
    done = 0
    for (start, end), translation in chosen:
        parts += [text[done:start], translation]
        done = end
    parts = [part for part in [*parts, text[done:]] if part]
    joints = [" " if _grow_together(left[-1], right[0], language) else "" for left, right in pairwise(parts)]
    return parts[0] + "".join(joint + part for joint, part in zip(joints, parts[1:], strict=True))


@lru_cache(maxsize=2**16)
def _is_ideograph(character: str, language: str) -> bool:
    """Whether this letter is a word by itself even beside another one."""
    return character.isalnum() and spans(2 * character, language) == [(0, 1), (1, 2)]


@lru_cache(maxsize=2**16)
def _grow_together(left: str, right: str, language: str) -> bool:
    """Whether two characters side by side belong to one word."""
    return spans(left + right, language) == [(0, 2)]
