"""What a file's name says about its languages: `train.en.gz`, `qgis.en-nl.tsv`, `en_pud-ud-test.conllu`."""

import re
from collections.abc import Sequence
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.languages import code, is_code, plain
from isogloss.text.readers.lines import Source, plain_name

_ENDINGS = (".txt", ".tsv", ".conllu", ".json")


def _stem(source: Source) -> str:
    name = plain_name(source)
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return name


def language_of(source: Source) -> str | None:
    """The language a file's name tells, or None: `nl` for `nl.txt`, `europarl.nl.txt`, `train.nl.gz`."""
    name = plain_name(source)
    if name.endswith(".conllu"):
        first = name.split("_")[0]
        return code(first) if is_code(first) else None
    last = re.split(r"[.\-_]", _stem(source))[-1]
    return code(last) if last.islower() and is_code(last) else None


def languages_of(source: Source) -> tuple[str, ...] | None:
    """The languages a many-language file's name tells, or None: `("en", "nl")` for `qgis.en-nl.tsv`."""
    for part in _stem(source).split("."):
        codes = part.split("-")
        if len(codes) > 1 and all(each.islower() and is_code(each) for each in codes):
            return tuple(code(each) for each in codes)
    return None


def check_order(files: Sequence[Source], languages: Sequence[str]) -> None:
    """Refuse languages that the files' names have in another order: each text would be taken for the other's."""
    told = [language_of(one) for one in files]
    if None in told or told == list(languages) or {*told} != {*languages}:
        return
    raise InputError(
        f"{', '.join(str(one) for one in files)}: by their names these are {', '.join(map(str, told))}, and they were "
        f"given as {', '.join(languages)}; change the order of the files or of the languages"
    )


def chosen(languages: Sequence[str] | None) -> tuple[str, ...] | None:
    """The user's languages as canonical codes, checked: no unknown code, none twice."""
    if languages is None:
        return None
    if isinstance(languages, str):
        raise InputError(f"languages must be a list such as ('en', 'nl'), not the text {languages!r}")
    codes = tuple(code(each) for each in languages)
    twice = sorted({each for each in codes if codes.count(each) > 1})
    if twice:
        raise InputError(
            f"languages lists {', '.join(twice)} twice: {', '.join(languages)}; a language that stands in a text twice "
            f"has a number the second time, as in {twice[0]},{plain(twice[0])}2"
        )
    return codes


def pick(wanted: Sequence[str] | None, there: Sequence[str], *, where: Path | str) -> list[str]:
    """The wanted languages, or all there are; a missing one is an InputError naming those that are there."""
    if wanted is None:
        return list(there)
    missing = [each for each in wanted if each not in there]
    if missing:
        raise InputError(f"{where} has no language {', '.join(missing)}; it has {', '.join(there)}")
    return list(wanted)
