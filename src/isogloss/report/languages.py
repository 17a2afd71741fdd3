"""Names, colours and marker shapes of languages.

Colours are the Okabe-Ito palette, which people with the common colour blindnesses can tell apart; its yellow is left
out, being too pale for a point on white. Seven colours meet eight shapes, so the first 56 languages all differ, and
the first seven differ in both.
"""

from collections.abc import Sequence

from isogloss.text import languages

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
INK = "#1f2a33"
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "star", "hexagon")


def language_name(code: str) -> str:
    """The English name of a language code; an unknown code is its own name.

    >>> language_name("nl"), language_name("nld"), language_name("zh-Hans"), language_name("??")
    ('Dutch', 'Dutch', 'Chinese', '??')
    """
    short = code.replace("_", "-").split("-")[0].lower()
    return languages.name(short) if languages.is_code(short) else code


def display_names(codes: Sequence[str]) -> dict[str, str]:
    """A name for each code; codes that would share a name keep the code behind it."""
    names = {code: language_name(code) for code in codes}
    shared = [name for name in names.values() if list(names.values()).count(name) > 1]
    return {code: f"{name} ({code})" if name in shared else name for code, name in names.items()}


def colour(index: int) -> str:
    """The colour of the language at this place in the list."""
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
    """The marker shape of the language at this place in the list."""
    return SHAPES[index % len(SHAPES)]
