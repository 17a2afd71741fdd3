"""Parallel data sets of the Hugging Face hub: `hf:owner/name`, `hf:owner/name@split`, or a folder saved to disk.

Three layouts are known: a configuration a pair of languages (`nld-eng`) with columns `sentence1` and
`sentence2`; a column `translation` holding one text a language; columns named after languages. The package
`datasets` is imported here and only here.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, assemble_bitext
from isogloss.text.languages import code, is_code, pick_languages
from isogloss.text.readers.tables import header

PREFIX = "hf:"
_SPLITS = ("test", "validation", "dev", "train")
_FIRST, _SECOND = "sentence1", "sentence2"


def _pair(text: str) -> tuple[str, str] | None:
    """The two languages a configuration's name tells: `nld-eng`, `en_nl`."""
    parts = re.split(r"[-_]", text)
    return (code(parts[0]), code(parts[1])) if len(parts) == 2 and all(map(is_code, parts)) else None


def read_hub(spec: str, languages: Sequence[str] | None) -> list[Bitext]:
    """The bitexts of a hub data set that hold the chosen languages; English needs not be chosen to be a side."""
    name, _, split = spec.removeprefix(PREFIX).partition("@")
    try:
        package: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise InputError(
            "reading hf: data sets needs the package datasets; install it with: pip install 'isogloss[datasets]'"
        ) from error
    try:
        if Path(name).is_dir():
            saved = package.load_from_disk(name)
            data = saved[_split(saved.keys(), spec, split)] if hasattr(saved, "keys") else saved
            return _bitexts(data, None, spec, languages)
        bitexts = []
        for config in _configs(package.get_dataset_config_names(name), spec, languages):
            splits = package.get_dataset_split_names(name, config)
            data = package.load_dataset(name, config, split=_split(splits, spec, split))
            bitexts += _bitexts(data, config, spec, languages)
        return bitexts
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{spec} cannot be loaded: {error}") from error


def _split(splits: Iterable[str], spec: str, wanted: str) -> str:
    available = list(splits)
    if wanted and wanted not in available:
        raise InputError(f"{spec}: there is no split {wanted!r}; there is {', '.join(available)}")
    return wanted or next((each for each in _SPLITS if each in available), available[0])


def _configs(configs: Sequence[str], spec: str, languages: Sequence[str] | None) -> list[str]:
    pairs = {config: pair for config in configs if (pair := _pair(config))}
    if not pairs:
        return list(configs[:1])
    fitting = [config for config, pair in pairs.items() if _is_allowed(pair, languages)]
    if not fitting:
        available = ", ".join("-".join(pair) for pair in pairs.values())
        raise InputError(f"{spec} has no pair of {', '.join(languages or ())}; it has {available}")
    return fitting


def _bitexts(data: Any, config: str | None, spec: str, languages: Sequence[str] | None) -> list[Bitext]:
    columns = list(data.column_names)
    if "translation" in columns:
        rows = list(data["translation"])
        return [_named({code(each): [row[each] for row in rows] for each in rows[0]}, spec, languages)]
    if _FIRST in columns and _SECOND in columns:
        return _sentence_pairs(data, config, spec, languages)
    named = header(columns)
    if named is None or not any(named):
        raise InputError(
            f"{spec} has the columns {', '.join(columns)}; expected sentence1 and sentence2, translation, or "
            "columns named after languages"
        )
    sides = {each: list(data[column]) for each, column in zip(named, columns, strict=True) if each}
    return [_named(sides, spec, languages)]


def _sentence_pairs(data: Any, config: str | None, spec: str, languages: Sequence[str] | None) -> list[Bitext]:
    """One bitext a pair: the configuration's, or those the column `lang` names."""
    names = list(data["lang"]) if "lang" in data.column_names else [config or ""] * len(data[_FIRST])
    groups: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for name, first, second in zip(names, data[_FIRST], data[_SECOND], strict=True):
        pair = _pair(name) or _pair(config or "")
        if pair is None:
            raise InputError(f"{spec}: neither its configuration nor its column lang names two languages ({name!r})")
        sides = groups.setdefault(pair, ([], []))
        sides[0].append(first)
        sides[1].append(second)
    return [
        _named(dict(zip(pair, sides, strict=True)), f"{spec}:{'-'.join(pair)}", _ordered(pair, languages))
        for pair, sides in groups.items()
        if _is_allowed(pair, languages)
    ]


def _is_allowed(pair: tuple[str, str], languages: Sequence[str] | None) -> bool:
    """Whether both languages were chosen; English needs not be."""
    return languages is None or set(pair) <= {*languages, "en"}


def _ordered(pair: Sequence[str], languages: Sequence[str] | None) -> list[str]:
    """The caller's order where it names both, else English first, as everywhere."""
    if languages is not None and set(pair) <= set(languages):
        return [each for each in languages if each in pair]
    return sorted(pair, key=lambda each: each != "en")


def _named(sides: dict[str, list[str]], name: str, languages: Sequence[str] | None) -> Bitext:
    wanted = pick_languages(languages, list(sides), where=name)
    return assemble_bitext([Corpus(each, sides[each], name=name) for each in wanted], name)
