"""Which writing systems a set of words needs, in the names a reader knows them by."""

import unicodedata
from collections.abc import Iterable

_NAMED = {
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "KATAKANA": "Japanese",
    "HANGUL": "Korean",
    "LATIN": "Latin",
}
_WIDTHS = frozenset(("FULLWIDTH", "HALFWIDTH"))
_NO_SCRIPT = frozenset(("", "MODIFIER", "FEMININE", "MASCULINE", "MICRO"))
JOINED = frozenset(
    (
        "Arabic",
        "Hebrew",
        "Syriac",
        "Thaana",
        "Devanagari",
        "Bengali",
        "Gurmukhi",
        "Gujarati",
        "Oriya",
        "Tamil",
        "Telugu",
    )
    + ("Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Mongolian", "Nko")
)


def script_of(character: str) -> str:
    """The script of a letter, "" for digits, punctuation and marks that belong to none.

    >>> script_of("k"), script_of("к"), script_of("書"), script_of("ك"), script_of("1")
    ('Latin', 'Cyrillic', 'Chinese', 'Arabic', '')
    """
    if not character.isalpha():
        return ""
    words = unicodedata.name(character, "").split(" ")
    first = words[1] if words[0] in _WIDTHS else words[0]
    return "" if first in _NO_SCRIPT else _NAMED.get(first, first.capitalize())


def characters_by_script(words: Iterable[str]) -> dict[str, str]:
    """The distinct letters of each script in the words, in order of appearance."""
    found: dict[str, dict[str, None]] = {}
    for character in dict.fromkeys(character for word in words for character in word):
        script = script_of(character)
        if script:
            found.setdefault(script, {})[character] = None
    return {script: "".join(characters) for script, characters in found.items()}


def scripts_of(word: str) -> set[str]:
    """The scripts a word is written in."""
    return {script for script in map(script_of, word) if script}
