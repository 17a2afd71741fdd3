"""Sentences of one language that say the same: pairs that share a translation, since there is no back-translation.

Conneau, Wu et al. (2020) compare English with English by a text and its back-translation through French. Where nothing
translates, a collection of translations has pairs of its own: "I am tired." and "I'm exhausted." may both stand beside
"Je suis fatigué.". That is looser than a back-translation, whose every sentence has one source.
"""

from collections.abc import Iterable

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import plain
from isogloss.text.split import place


def paraphrases(bitexts: Iterable[Bitext], language: str = "en") -> Bitext:
    """A bitext of `language` and itself (`en` and `en2`): different sentences that share a translation in some bitext.

    Sentences that differ in case, spaces and punctuation alone are one, and each is in one pair at most. Pairs come in
    the order of the texts; which sentence of a pair comes first is decided by a hash of both, not by the order of a
    sorted file. The same texts always give the same pairs.

    >>> french = Corpus("fr", ["C'est tard.", "C'est tard.", "Oui."])
    >>> found = paraphrases([Bitext((Corpus("en", ["It is late.", "It's late!", "Yes."]), french))])
    >>> sorted(corpus.sentences[0] for corpus in found), found.languages
    (['It is late.', "It's late!"], ('en', 'en2'))
    """
    short = plain(language)
    groups: dict[tuple[str, str], list[str]] = {}
    for bitext in bitexts:
        own = bitext[short]
        for other in bitext:
            if other.language != short:
                for sentence, translation in zip(own.sentences, other.sentences, strict=True):
                    groups.setdefault((other.language, translation), []).append(sentence)
    used: set[str] = set()
    found: list[tuple[str, str]] = []
    for sentences in groups.values():
        waiting = ""
        for sentence in sentences:
            if (key := _letters(sentence)) in used or not key:
                continue
            if not waiting:
                waiting = sentence
            elif key != _letters(waiting):
                used |= {key, _letters(waiting)}
                found.append(_turned(waiting, sentence))
                waiting = ""
    if not found:
        raise InputError(f"no two sentences of {short} share a translation in the texts given; give larger ones")
    sides = (Corpus(name, [pair[at] for pair in found]) for at, name in enumerate((short, f"{short}2")))
    return Bitext(tuple(sides), name=f"paraphrases.{short}")


def _letters(sentence: str) -> str:
    return "".join(letter for letter in sentence.casefold() if letter.isalnum())


def _turned(one: str, other: str) -> tuple[str, str]:
    return (one, other) if place(f"{one}\n{other}") < 0.5 else (other, one)
