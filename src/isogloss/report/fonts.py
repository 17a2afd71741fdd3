"""Which installed fonts can draw a set of words, and which words none of them can.

A figure never shows an empty box: a word that no font covers stays unlabelled and its script is named in the caption.
Scripts whose letters join or run right to left also need a matplotlib that shapes text (3.11, with libraqm).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from isogloss.report.scripts import JOINED, characters_by_script, scripts_of

BASE = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDERS = ("Last Resort", "LastResort", "Adobe Blank")  # they have every letter, each drawn as a box or as nothing
HINTS = {
    "Chinese": ("Noto Sans CJK SC", "Noto Sans SC", "PingFang SC", "Microsoft YaHei", "SimHei", "WenQuanYi"),
    "Japanese": ("Noto Sans CJK JP", "Noto Sans JP", "Hiragino Sans", "Yu Gothic"),
    "Korean": ("Noto Sans CJK KR", "Noto Sans KR", "Apple SD Gothic", "Malgun Gothic"),
    "Arabic": ("Noto Sans Arabic", "Geeza Pro", "Segoe UI"),
}


@dataclass(frozen=True)
class FontChoice:
    """Fonts for a set of words.

    `families` to draw with, in order, and the `letters` they cover; `cannot` names the scripts that stay undrawn, each
    with the reason.
    """

    families: tuple[str, ...]
    letters: frozenset[int]
    cannot: tuple[tuple[str, str], ...] = ()

    def draws(self, word: str) -> bool:
        """Whether every letter of a word can be drawn, and joined where its script needs that."""
        blocked = {script for script, _ in self.cannot}
        return all(ord(letter) in self.letters for letter in word if not letter.isspace()) and not (
            scripts_of(word) & blocked
        )

    def caption(self) -> str:
        """What is missing, in words; "" when nothing is."""
        return " ".join(f"{script} words not shown: {reason}." for script, reason in self.cannot)


def choose_fonts(words: Iterable[str]) -> FontChoice:
    """Families that together draw as many of the words as the installed fonts can."""
    families, letters = [BASE], _letters_of(BASE)
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
            cannot_all = len(needed - letters)
            cannot.append((f"Some {script}", f"no installed font has {cannot_all} of their letters"))
    return FontChoice(tuple(families), letters, tuple(cannot))


def _candidates(script: str) -> list[str]:
    """Installed families, the ones meant for the script first."""
    hints = HINTS.get(script, (f"Noto Sans {script}", f"Noto Serif {script}", f"Noto {script}"))
    return sorted(
        _installed(),
        key=lambda name: (
            next((place for place, hint in enumerate(hints) if name.startswith(hint)), len(hints)),
            "Sans" not in name,
            name,
        ),
    )


@lru_cache(maxsize=1)
def _installed() -> dict[str, tuple[str, int]]:
    """Each family's upright regular face: file and index in the file."""
    from matplotlib.font_manager import fontManager

    drawn: list[Any] = [entry for entry in fontManager.ttflist if not entry.name.lstrip(".").startswith(PLACEHOLDERS)]
    entries = [entry for entry in drawn if entry.style == "normal"]
    entries.sort(key=lambda entry: abs(_weight(entry.weight) - 400), reverse=True)
    return {entry.name: (entry.fname, getattr(entry, "index", 0)) for entry in entries}


def _weight(weight: int | str) -> int:
    return weight if isinstance(weight, int) else 400


@lru_cache(maxsize=256)
def _letters_of(family: str) -> frozenset[int]:
    """Code points a family has; none when its file cannot be read."""
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
