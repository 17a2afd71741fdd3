"""How languages and figures look: colours and shapes of languages, colours of lines and shades, names of files.

Colours are the Okabe-Ito palette, which people with the common colour blindnesses can tell apart; its yellow is left
out, being too pale for a point on white. Seven colours meet eight shapes, so the first 56 languages all differ, and
the first seven differ in both.
"""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "star", "hexagon")
SHADES = ("#f5f1e6", "#d9e4d3", "#a5cbbf", "#62a5a6", "#2f7b8c", "#1b5270", "#12294a")
INK, QUIET, RULE, PAPER, DARK = "#1f2a33", "#66707a", "#e4e0d6", "#ffffff", "#12294a"
CHANCE, REFERENCE = "#8a8577", "#CC79A7"
DASHES = 3
FILE_NAMES = {"p@1": "retrieval"}


def mix(first: str, second: str, share: float) -> str:
    """A colour between two, `share` of the way to the second."""
    pairs = [(int(first[at : at + 2], 16), int(second[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def language_look(index: int, code: str, name: str) -> dict[str, str]:
    """A language as it is drawn; its words in its own colour, darkened, since some are too pale to read as text.

    >>> language_look(4, "nl", "Dutch")
    {'code': 'nl', 'name': 'Dutch', 'colour': '#E69F00', 'ink': '#8e6c16', 'shape': 'wedge'}
    """
    colour, shape = COLOURS[index % len(COLOURS)], SHAPES[index % len(SHAPES)]
    return {"code": code, "name": name, "colour": colour, "ink": mix(colour, INK, 0.44), "shape": shape}


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
