"""How languages and figures look: names and colours of languages, colours of lines and shades, fonts, names of files.

Colours are the Okabe-Ito palette, which people with the common colour blindnesses can tell apart; its yellow is left
out, being too pale for a point on white. Seven colours meet eight shapes, so the first 56 languages all differ, and
the first seven differ in both.

A figure never shows an empty box: a word that no installed font covers stays unlabelled and its script is named in the
caption. Scripts whose letters join or run right to left also need a matplotlib that shapes text (3.11, with libraqm).
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from isogloss.files import whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "star", "hexagon")
SHADES = ("#f5f1e6", "#d9e4d3", "#a5cbbf", "#62a5a6", "#2f7b8c", "#1b5270", "#12294a")
INK, QUIET, RULE, PAPER, DARK = "#1f2a33", "#66707a", "#e4e0d6", "#ffffff", "#12294a"
CHANCE, REFERENCE = "#8a8577", "#CC79A7"
DASHES = 3
FILE_NAMES = {"p@1": "retrieval"}

BASE_FONT = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDER_FONTS = ("Last Resort", "LastResort", "Adobe Blank")  # every letter is a box or nothing in them
FONT_HINTS = {
    "Chinese": ("Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", "SimHei", "WenQuanYi"),
    "Japanese": ("Noto Sans CJK JP", "Noto Sans JP", "Hiragino Sans", "Yu Gothic"),
    "Korean": ("Noto Sans CJK KR", "Noto Sans KR", "Apple SD Gothic", "Malgun Gothic"),
    "Arabic": ("Noto Sans Arabic", "Geeza Pro", "Segoe UI"),
}
SCRIPT_NAMES = {"CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean"}
NO_SCRIPT = frozenset(("", "MODIFIER", "FEMININE", "MASCULINE", "MICRO"))
INDIC = ("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala")
ASIAN = ("Thai", "Lao", "Tibetan", "Myanmar", "Khmer", "Mongolian")
JOINED = frozenset(("Arabic", "Hebrew", "Syriac", "Thaana", "Nko", *INDIC, *ASIAN))


def colour(index: int) -> str:
    """The colour of the language, or the line, with this index."""
    return COLOURS[index % len(COLOURS)]


def text_colour(index: int) -> str:
    """The colour of a language's words: its own, darkened, since some are too pale to read as text.

    >>> colour(4), text_colour(4)
    ('#E69F00', '#8e6c16')
    """
    return mix(colour(index), INK, 0.44)


def mix(first: str, second: str, share: float) -> str:
    """A colour between two, `share` of the way to the second."""
    pairs = [(int(first[at : at + 2], 16), int(second[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def shape(index: int) -> str:
    """The marker shape of the language with this index."""
    return SHAPES[index % len(SHAPES)]


def file_name(measure: str) -> str:
    """A measure's name in the name of a file.

    >>> file_name("p@1"), file_name("word_agreement")
    ('retrieval', 'word-agreement')
    """
    plain = "".join(letter if letter.isalnum() else "-" for letter in measure).strip("-")
    return FILE_NAMES.get(measure, plain)


def printable(text: str) -> str:
    """Text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def write_file(path: Path, content: bytes) -> Path:
    """Write a file so that a reader meets the old one or the new one, never half of one; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as beside:
        beside.write_bytes(content)
    return path


def script_of(character: str) -> str:
    """The script of a letter, "" for digits, punctuation and marks that belong to none.

    >>> script_of("k"), script_of("к"), script_of("書"), script_of("ك"), script_of("1")
    ('Latin', 'Cyrillic', 'Chinese', 'Arabic', '')
    """
    if not character.isalpha():
        return ""
    words = unicodedata.name(character, "").split(" ")
    first = words[1] if words[0] in ("FULLWIDTH", "HALFWIDTH") else words[0]
    return "" if first in NO_SCRIPT else SCRIPT_NAMES.get(first, first.capitalize())


def characters_by_script(words: Iterable[str]) -> dict[str, str]:
    """The distinct letters of each script in the words, in order of appearance."""
    scripts: dict[str, str] = {}
    for character in dict.fromkeys(character for word in words for character in word):
        if script := script_of(character):
            scripts[script] = scripts.get(script, "") + character
    return scripts


@dataclass(frozen=True)
class FontChoice:
    """Fonts for a set of words.

    Attributes:
        families: the fonts to draw with, in order.
        letters: the code points that they cover.
        cannot: the scripts that stay undrawn, each with the reason.

    """

    families: tuple[str, ...]
    letters: frozenset[int]
    cannot: tuple[tuple[str, str], ...] = ()

    def draws(self, word: str) -> bool:
        """Whether every letter of a word can be drawn, and joined where its script needs that."""
        blocked = {script for script, _ in self.cannot}
        covered = all(ord(letter) in self.letters for letter in word if not letter.isspace())
        return covered and not {script_of(letter) for letter in word} & blocked

    def caption(self) -> str:
        """What is missing, in words; "" when nothing is."""
        return " ".join(f"{script} words not shown: {reason}." for script, reason in self.cannot)


def choose_fonts(words: Iterable[str]) -> FontChoice:
    """Choose families that together draw as many of the words as the installed fonts can."""
    families, letters = [BASE_FONT], _letters_of(BASE_FONT)
    cannot: list[tuple[str, str]] = []
    for script, characters in characters_by_script(words).items():
        needed = {ord(character) for character in characters}
        if script in JOINED and not _shapes_text():
            cannot.append((script, "this matplotlib cannot join or reorder letters; 3.11 can"))
            continue
        for family in _candidates(script):
            if needed <= letters:
                break
            more = _letters_of(family)
            if (needed - letters) & more:
                families.append(family)
                letters |= more
        if not needed & letters:
            cannot.append((script, "no installed font has them"))
        elif not needed <= letters:
            cannot.append((f"Some {script}", f"no installed font has {len(needed - letters)} of their letters"))
    return FontChoice(tuple(families), letters, tuple(cannot))


def _candidates(script: str) -> list[str]:
    """Installed families, the ones meant for the script first."""
    hints = FONT_HINTS.get(script, (f"Noto Sans {script}", f"Noto Serif {script}", f"Noto {script}"))
    wanted = {name: [not name.startswith(hint) for hint in hints] for name in _installed()}
    return sorted(wanted, key=lambda name: (wanted[name], "Sans" not in name, name))


@lru_cache(maxsize=1)
def _installed() -> dict[str, tuple[str, int]]:
    """Each family's upright regular face: its file, and its index in the file."""
    from matplotlib.font_manager import fontManager

    entries: list[Any] = [
        entry
        for entry in fontManager.ttflist
        if entry.style == "normal" and not entry.name.lstrip(".").startswith(PLACEHOLDER_FONTS)
    ]
    entries.sort(key=lambda entry: abs(entry.weight - 400) if isinstance(entry.weight, int) else 0, reverse=True)
    return {entry.name: (entry.fname, getattr(entry, "index", 0)) for entry in entries}


@lru_cache(maxsize=256)
def _letters_of(family: str) -> frozenset[int]:
    """The code points that a family has; none when its file cannot be read."""
    from matplotlib.ft2font import FT2Font

    path, index = _installed().get(family, ("", 0))
    try:
        font = FT2Font(path, face_index=index) if index else FT2Font(path)
        return frozenset(font.get_charmap())
    except (OSError, RuntimeError):
        return frozenset()


def _shapes_text() -> bool:
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


def language_look(index: int, code: str, name: str) -> dict[str, str]:
    """A language as the page draws it."""
    return {"code": code, "name": name, "colour": colour(index), "ink": text_colour(index), "shape": shape(index)}
