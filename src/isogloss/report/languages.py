"""Names, colours and marker shapes of languages.

Colours are the Okabe-Ito palette, which people with the common colour blindnesses can tell apart; its yellow is left
out, being too pale for a point on white. Seven colours meet eight shapes, so the first 56 languages all differ, and
the first seven differ in both.
"""

from collections.abc import Sequence

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
INK = "#1f2a33"
SHAPES = ("circle", "square", "triangle", "diamond", "wedge", "plus", "star", "hexagon")

_NAMES = """
af afr Afrikaans|ar ara Arabic|bg bul Bulgarian|bn ben Bengali|ca cat Catalan|cs ces Czech|cy cym Welsh
da dan Danish|de deu German|el ell Greek|en eng English|eo epo Esperanto|es spa Spanish|et est Estonian
eu eus Basque|fa pes Persian|fi fin Finnish|fo fao Faroese|fr fra French|fy fry Frisian|ga gle Irish
gl glg Galician|gu guj Gujarati|he heb Hebrew|hi hin Hindi|hr hrv Croatian|hu hun Hungarian|hy hye Armenian
id ind Indonesian|is isl Icelandic|it ita Italian|ja jpn Japanese|jv jav Javanese|ka kat Georgian
kk kaz Kazakh|kn kan Kannada|ko kor Korean|la lat Latin|lt lit Lithuanian|lv lvs Latvian|mk mkd Macedonian
ml mal Malayalam|mn mon Mongolian|mr mar Marathi|ms zsm Malay|mt mlt Maltese|my mya Burmese|nb nob Norwegian
nl nld Dutch|no nor Norwegian|pa pan Punjabi|pl pol Polish|pt por Portuguese|ro ron Romanian|ru rus Russian
sk slk Slovak|sl slv Slovenian|sq sqi Albanian|sr srp Serbian|sv swe Swedish|sw swh Swahili|ta tam Tamil
te tel Telugu|th tha Thai|tl tgl Tagalog|tr tur Turkish|uk ukr Ukrainian|ur urd Urdu|uz uzb Uzbek
vi vie Vietnamese|zh cmn Chinese|zh zho Chinese|ar arb Arabic|fa fas Persian|sw swa Swahili|lv lav Latvian
ms msa Malay
"""

NAMES = {
    code: name
    for entry in _NAMES.replace("\n", "|").split("|")
    if entry
    for short, long, name in [entry.split(" ", 2)]
    for code in (short, long)
}


def language_name(code: str) -> str:
    """The English name of a language code of two or three letters; an unknown code is its own name.

    >>> language_name("nl"), language_name("nld"), language_name("zh-Hans"), language_name("xx")
    ('Dutch', 'Dutch', 'Chinese', 'xx')
    """
    return NAMES.get(code) or NAMES.get(code.replace("_", "-").split("-")[0].lower(), code)


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
