"""Language codes: one canonical short code for each language, whatever standard a file uses.

Tatoeba names its files with ISO 639-3 (`nld`, `cmn`), treebanks and XNLI with ISO 639-1 (`nl`, `zh`), FLORES with
`nld_Latn`. Inside the toolkit a language has one code: two letters if ISO 639-1 has one, three otherwise. The code of a
standard variety is mapped to that of its language in those data sets (`cmn` -> `zh`, `pes` -> `fa`, `arb` -> `ar`,
`swh` -> `sw`, `lvs` -> `lv`, `zsm` -> `ms`); varieties with data sets of their own keep their code (`arz`, `yue`). ISO
639 reserves `qaa`..`qtz` for local use: they are accepted, for invented languages.
"""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from isogloss.errors import InputError

_LOCAL = re.compile(r"q[a-t][a-z]")
# A region or script after the code, as in pt-BR, zh_CN, nld_Latn; not in lower case, because en-nl is a pair. Or a
# number: en2 is a second English text beside en: paraphrases, or the input of a second model.
_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_](?:[A-Z]{2}|[A-Z][a-z]{3})|([2-9]))?")


@cache
def _records() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Read `languages.tsv`: accepted code -> canonical code, canonical code -> English name, and -> native name.

    A line contains the codes of a language, the canonical one first, its English name, and for some the native name.
    """
    canonical: dict[str, str] = {}
    names: dict[str, str] = {}
    own: dict[str, str] = {}
    table = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8")
    for line in table.splitlines()[1:]:
        codes, name, *native = line.split("\t")
        first, *others = codes.split()
        names[first] = name
        if native:
            own[first] = native[0]
        canonical |= dict.fromkeys((first, *others), first)
    return canonical, names, own


def is_code(text: str) -> bool:
    """Whether `code` would accept this text: `is_code("nl")` is True, `is_code("genre")` False."""
    return _lookup(text) is not None


def _lookup(text: str) -> str | None:
    match = _CODE.fullmatch(text)
    if match is None:
        return None
    short = match[1].lower()
    canonical = short if _LOCAL.fullmatch(short) else _records()[0].get(short)
    return canonical and canonical + (match[2] or "")


def code(text: str) -> str:
    """The canonical short code: `code("nld")` and `code("nl")` are `"nl"`, `code("zh_CN")` is `"zh"`.

    A number after the code marks a second text of the language: `code("eng2")` is `"en2"`, beside `en`.
    """
    short = _lookup(text)
    if short is None:
        raise InputError(
            f"unknown language code {text!r}; expected ISO 639-1 such as 'nl' or ISO 639-3 such as 'nld' "
            "(qaa..qtz for invented languages)"
        )
    return short


def plain(text: str) -> str:
    """The code without the number of a second text: `plain("en2")` is `"en"`."""
    return code(text).rstrip("23456789")


def name(text: str) -> str:
    """The English name: `name("nld")` is `"Dutch"`, `name("en2")` is `"English 2"`."""
    short = plain(text)
    english = f"Local language {short}" if _LOCAL.fullmatch(short) else _records()[1][short]
    return " ".join((english, *code(text)[len(short) :]))


def own_name(text: str) -> str:
    """The native name of a language if known, otherwise its code: `own_name("fra")` is `"Français"`."""
    return _records()[2].get(plain(text), plain(text))


def short_name(text: str) -> str:
    """The English name, or the code of an invented language: `short_name("qaa")` is `"qaa"`."""
    return text if _LOCAL.fullmatch(text) else name(text)


def checked_codes(languages: Sequence[str] | None) -> tuple[str, ...] | None:
    """The canonical codes of the languages a user chose; an unknown or repeated code is an InputError.

    Args:
        languages: codes of any known standard; None, for no choice, is returned unchanged.
    """
    if languages is None:
        return None
    if isinstance(languages, str):
        raise InputError(f"languages must be a list such as ('en', 'nl'), not the text {languages!r}")
    codes = tuple(code(each) for each in languages)
    twice = sorted({each for each in codes if codes.count(each) > 1})
    if twice:
        raise InputError(
            f"languages lists {', '.join(twice)} twice: {', '.join(languages)}; a second text of a "
            f"language has a number after the code, as in {twice[0]},{plain(twice[0])}2"
        )
    return codes
