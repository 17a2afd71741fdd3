"""Words as character spans: tokenizers disagree about pieces, but all of them refer to characters.

The default segmentation, for text without its own:

- a word is a run of letters, digits and their combining marks (including Arabic and Devanagari vowel signs);
- an apostrophe between letters does not split a word (`don't`, `foto's`), except that in languages with elision the
  part up to it is a separate word: `l'eau` -> `l'` `eau` (but `aujourd'hui` is one);
- Dutch and Afrikaans clitics keep their initial apostrophe: `'s avonds` -> `'s` `avonds`;
- a hyphenated word is split, and the hyphen is a word: `well-known` -> `well` `-` `known`; translations of the parts
  can then be linked one by one, and subword tokenizers split there too;
- a point or comma between digits does not split a number: `3.14`, `1,000`;
- every punctuation mark or symbol is a word; an emoji sequence is one word;
- every ideograph is a word; a run of hiragana is one, and so is a run of katakana;
- Thai, Lao, Khmer and Burmese are written without spaces: a whole run is one word here, unless the corpus has its own
  spans (as a treebank does).

White space, control and format characters belong to no word; everything else belongs to exactly one.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np

from isogloss.text.corpora import Corpus, Span
from isogloss.text.languages import plain

_ELISION = frozenset({"ca", "co", "fr", "fur", "it", "lij", "lmo", "oc", "pms", "sc", "scn", "vec", "wa"})
_CLITIC = {"nl": "ns|[stnkmrd]", "af": "[nkt]"}
_APOSTROPHE = "'’"
_WHOLE = "aujourd|presqu(?=.[îi]le)|prud"  # French words whose apostrophe does not split them
_LATIN = "0-9A-Za-zÀ-ÖØ-öø-ɏ"
_IDEOGRAPH = "々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA = "\u3041-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
SCRIPT_NAMES = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean"}
SCRIPT_NAMES |= {"IDEOGRAPHIC": "Chinese", "KATAKANA-HIRAGANA": "Japanese"}  # the marks of repetition and of length
NO_SCRIPT = frozenset(("", "MODIFIER", "FEMININE", "MASCULINE", "MICRO"))
# Planes 0 and 1 hold every letter and mark but ideographs; plane 14's selectors are added by hand.
_LAST = 0x1FFFF


@cache
def _class_of(categories: tuple[str, ...]) -> str:
    """The characters of these Unicode categories, as the content of a [...] in a regular expression."""
    numbers = [number for number in range(_LAST + 1) if unicodedata.category(chr(number)) in categories]
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return "".join(f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs)


@cache
def _pattern(elision: bool, clitic: str) -> re.Pattern[str]:
    """The regular expression whose matches are the words."""
    marks = _class_of(("Mn", "Mc", "Me")) + "\U000e0100-\U000e01ef"
    hidden = _class_of(("Cc", "Cf")) + "\U000e0000-\U000e007f"
    # Python's \w includes letters and digits but not combining marks, without which Hindi words are split. Latin
    # letters come first because their small set is tested fast; (?=\S) below skips spaces.
    letters = rf"(?:(?:[{_LATIN}]++|[^\W_{_IDEOGRAPH}{_HIRAGANA}{_KATAKANA}]++)[{marks}]*+)++"
    # Inside a word: joiners (Persian, Indic), soft hyphen, Catalan's middle dot, Hebrew's geresh.
    inner = rf"(?:[\u200c\u200d\u00ad]+|[·׳״](?=[^\W\d_]))?{letters}"
    apostrophe = "" if elision else rf"|[{_APOSTROPHE}](?=[^\W\d_]){letters}"
    run = rf"{letters}(?:{inner}|(?<=\d)[.,٫٬](?=\d){letters}{apostrophe})*"
    begins = rf"(?<![^\W_{_IDEOGRAPH}])"
    ways = [
        rf"{begins}[{_APOSTROPHE}](?:{clitic})(?![\w{marks}{_APOSTROPHE}])" if clitic else "",
        rf"(?i:{begins}(?:{_WHOLE})[{_APOSTROPHE}]){run}" if elision else "",
        rf"{run}[{_APOSTROPHE}](?=[^\W\d_])" if elision else "",
        run,
        rf"[{_IDEOGRAPH}][{marks}]*",
        rf"[{_HIRAGANA}](?:[{_HIRAGANA}{marks}]|ー)*",
        rf"[{_KATAKANA}][{_KATAKANA}{marks}]*",
        rf"(?:_|[^\w\s{marks}{hidden}])[{marks}\u20e3\U0001f3fb-\U0001f3ff]*(?:\u200d[^\w\s{marks}{hidden}][{marks}]*)*",
        rf"[{marks}]+",
    ]
    return re.compile(rf"(?=\S)(?:{'|'.join(way for way in ways if way)})")


def spans(text: str, language: str) -> list[Span]:
    """Character spans `(start, end)` of the words, in order.

    >>> spans("l'eau bout.", "fr")
    [(0, 2), (2, 5), (6, 10), (10, 11)]
    """
    short = plain(language)
    return [match.span() for match in _pattern(short in _ELISION, _CLITIC.get(short, "")).finditer(text)]


def word_spans(corpus: Corpus, row: int) -> Sequence[Span]:
    """Character spans of one sentence's words: the corpus's own ones, or the default segmentation."""
    return spans(corpus.sentences[row], corpus.language) if corpus.words is None else corpus.words[row]


def words_of(corpus: Corpus, row: int) -> list[str]:
    """The words of one sentence."""
    sentence = corpus.sentences[row]
    return [sentence[start:stop] for start, stop in word_spans(corpus, row)]


def script_of(character: str) -> str:
    """The script of a letter, "" for digits, punctuation and marks without a script.

    >>> script_of("k"), script_of("к"), script_of("書"), script_of("ك"), script_of("1")
    ('Latin', 'Cyrillic', 'Chinese', 'Arabic', '')
    """
    if not character.isalpha():
        return ""
    words = unicodedata.name(character, "").split(" ")
    first = words[1] if words[0] in ("FULLWIDTH", "HALFWIDTH") else words[0]
    return "" if first in NO_SCRIPT else SCRIPT_NAMES.get(first, first.capitalize())
