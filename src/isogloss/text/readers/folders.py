"""What holds several bitexts: a folder of parallel files, or a data set of the Hugging Face hub.

A folder has Tatoeba's pairs, pair tables, line-aligned sets or treebanks:

| files in the folder | bitexts |
|---|---|
| `tatoeba.nld-eng.nld`, `tatoeba.nld-eng.eng` | one a language, English first |
| `en-nl.tsv`, `qgis.en-nl.tsv` | one a file |
| `train.en.gz`, `train.de.gz`, `val.en.gz` ... | one a stem, all its languages |
| `en_pud-ud-test.conllu`, `nl_pud-ud-test.conllu` | one of all treebanks |
| `talks.tsv` with a header of languages | one a file |
| `talk.en.txt`, `talk.nl.txt`; `en.txt`, `nl.txt` | one a stem, all its languages |

The first row of the table that a folder has files of is what it is taken for.

A data set of the hub is `hf:owner/name`, `hf:owner/name@split`, or a folder saved to disk. Three layouts are known: a
configuration a pair of languages (`nld-eng`) with columns `sentence1` and `sentence2`; a column `translation` holding
one text a language; columns named after languages. The package `datasets` is imported here and only here.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, assemble_bitext
from isogloss.text.languages import code, is_code, pick_languages
from isogloss.text.readers.conll import read_treebanks
from isogloss.text.readers.lines import (
    first_line,
    header,
    language_of,
    languages_of,
    plain_name,
    read_lines,
    read_table,
)

PREFIX = "hf:"
_SPLITS = ("test", "validation", "dev", "train")
_FIRST, _SECOND = "sentence1", "sentence2"
_TATOEBA = re.compile(r"tatoeba\.([a-z]{3})-eng\.([a-z]{3})")


@dataclass(frozen=True)
class ParallelFiles:
    """Files that hold one parallel text: a table, or one file of each language."""

    kind: Literal["tatoeba", "table", "aligned", "treebanks"]
    name: str
    languages: tuple[str, ...]
    files: tuple[Path, ...]


def parallel_files(folder: Path) -> list[ParallelFiles]:
    """The parallel texts of a folder, see the table above; a folder without any is an InputError."""
    paths = sorted(folder.iterdir())
    tables = [path for path in paths if plain_name(path).endswith(".tsv") and path.is_file()]
    texts = {path: plain_name(path).removesuffix(".txt") for path in paths if plain_name(path).endswith(".txt")}
    sets = (
        _tatoeba(paths)
        or _tables((path, languages_of(path) or ()) for path in tables)
        or _aligned(aligned_sets(folder))
        or _treebanks(folder, paths)
        or _tables((path, tuple(filter(None, header(first_line(path).split("\t")) or ()))) for path in tables)
        or _aligned(_by_stem(texts))
    )
    if not sets:
        raise InputError(
            f"{folder} holds no parallel text by the names of its files; expected tatoeba.xxx-eng.xxx, en-nl.tsv, "
            "train.en and train.nl, en.txt and nl.txt, or en_*.conllu; name the files one by one instead"
        )
    return sets


def aligned_sets(folder: Path) -> dict[str, dict[str, Path]]:
    """Line-aligned sets of a folder: stem -> language -> file, for names such as `train.en.gz`.

    `source.en.txt` is not one of them: that is how running text is named, which is parallel to nothing.
    """
    return _by_stem({path: plain_name(path) for path in sorted(folder.iterdir()) if "." in plain_name(path)})


def _by_stem(names: dict[Path, str]) -> dict[str, dict[str, Path]]:
    sets: dict[str, dict[str, Path]] = {}
    for path, name in names.items():
        stem, _, last = name.rpartition(".")
        if last.islower() and is_code(last) and path.is_file():
            sets.setdefault(stem or path.parent.resolve().name, {})[code(last)] = path
    return {stem: files for stem, files in sets.items() if len(files) > 1}


def _aligned(sets: dict[str, dict[str, Path]]) -> list[ParallelFiles]:
    return [ParallelFiles("aligned", stem, tuple(files), tuple(files.values())) for stem, files in sets.items()]


def _tatoeba(paths: Iterable[Path]) -> list[ParallelFiles]:
    sets = []
    for path in paths:
        match = _TATOEBA.fullmatch(plain_name(path))
        if match and match.group(1) == match.group(2) and is_code(match.group(1)):
            english = path.with_name(path.name.replace(f"-eng.{match.group(1)}", "-eng.eng"))
            language = code(match.group(1))
            sets.append(ParallelFiles("tatoeba", f"tatoeba.en-{language}", ("en", language), (english, path)))
    return sets


def _tables(tables: Iterable[tuple[Path, tuple[str, ...]]]) -> list[ParallelFiles]:
    return [ParallelFiles("table", path.name, each, (path,)) for path, each in tables if len(each) > 1]


def _treebanks(folder: Path, paths: Iterable[Path]) -> list[ParallelFiles]:
    """All treebanks of a folder, as one parallel text; a language may still have several."""
    banks = {path: language_of(path) for path in paths if plain_name(path).endswith(".conllu")}
    named = {path: language for path, language in banks.items() if language}
    return [ParallelFiles("treebanks", folder.name, tuple(named.values()), tuple(named))] if named else []


def read_folder(folder: Path, languages: Sequence[str] | None) -> list[Bitext]:
    """Every bitext of a folder that has the chosen languages; see the table above."""
    sets = parallel_files(folder)
    if sets[0].kind == "treebanks":
        return [_read_treebanks(folder, sets[0], languages)]
    if sets[0].kind == "tatoeba":
        fitting = _with_english(folder, sets, languages)
        languages = None
    else:
        # A text answers a choice of languages when it has all of them, or when all that it has was chosen.
        choice = set(languages or ())
        fitting = [each for each in sets if not choice or choice <= {*each.languages} or choice >= {*each.languages}]
    if not fitting:
        wanted, available = ", ".join(languages or ()), ", ".join("-".join(each.languages) for each in sets)
        missing = "table" if sets[0].kind == "table" else "aligned files"
        raise InputError(f"{folder} has no {missing} of {wanted}; it has {available}")
    bitexts = []
    for each in fitting:
        chosen = [language for language in languages or each.languages if language in each.languages]
        if each.kind == "table":
            corpora = read_table(each.files[0], None if languages is None else chosen)
        else:
            files = dict(zip(each.languages, each.files, strict=True))
            corpora = aligned_corpora([files[language] for language in chosen], chosen)
        bitexts.append(assemble_bitext(corpora, each.name))
    return bitexts


def aligned_corpora(paths: Sequence[Path], languages: Sequence[str]) -> list[Corpus]:
    """Files whose lines translate each other, one a language, all lines kept; unequal counts are an InputError."""
    sides = [read_lines(path) for path in paths]
    if len({len(side) for side in sides}) > 1:
        counts = ", ".join(f"{path} has {len(side):,} lines" for path, side in zip(paths, sides, strict=True))
        raise InputError(f"line-aligned files must have equally many lines: {counts}")
    named = zip(paths, languages, sides, strict=True)
    return [Corpus(language, side, name=path.name) for path, language, side in named]


def _with_english(folder: Path, pairs: Sequence[ParallelFiles], languages: Sequence[str] | None) -> list[ParallelFiles]:
    """The pairs of English and each chosen language; English itself needs not be chosen."""
    by_language = {pair.languages[1]: pair for pair in sorted(pairs, key=lambda pair: pair.languages)}
    wanted = list(by_language) if languages is None else [each for each in languages if each != "en"]
    available = ", ".join(by_language)
    missing = [each for each in wanted if each not in by_language]
    if missing:
        raise InputError(f"{folder} has no pair with English for {', '.join(missing)}; it has {available}")
    if not wanted:
        raise InputError(f"{folder} pairs English with others: name at least one of {available}")
    return [by_language[each] for each in wanted]


def _read_treebanks(folder: Path, banks: ParallelFiles, languages: Sequence[str] | None) -> Bitext:
    files: dict[str, list[Path]] = {}
    for language, path in zip(banks.languages, banks.files, strict=True):
        files.setdefault(language, []).append(path)
    wanted = pick_languages(languages, list(files), where=folder)
    for language in wanted:
        if len(paths := files[language]) > 1:
            names = ", ".join(path.name for path in paths)
            raise InputError(f"{folder} has several treebanks of {language} ({names}); name the files one by one")
    return replace(read_treebanks([files[language][0] for language in wanted], wanted), name=banks.name)


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
            data = saved[_hub_split(saved.keys(), spec, split)] if hasattr(saved, "keys") else saved
            return _hub_bitexts(data, None, spec, languages)
        bitexts, configs = [], package.get_dataset_config_names(name)
        pairs = {config: pair for config in configs if (pair := _pair(config))}
        fitting = [config for config, pair in pairs.items() if _is_allowed(pair, languages)]
        if pairs and not fitting:
            available = ", ".join("-".join(pair) for pair in pairs.values())
            raise InputError(f"{spec} has no pair of {', '.join(languages or ())}; it has {available}")
        for config in fitting or configs[:1]:
            splits = package.get_dataset_split_names(name, config)
            data = package.load_dataset(name, config, split=_hub_split(splits, spec, split))
            bitexts += _hub_bitexts(data, config, spec, languages)
        return bitexts
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{spec} cannot be loaded: {error}") from error


def _hub_split(splits: Iterable[str], spec: str, wanted: str) -> str:
    available = list(splits)
    if wanted and wanted not in available:
        raise InputError(f"{spec}: there is no split {wanted!r}; there is {', '.join(available)}")
    return wanted or next((each for each in _SPLITS if each in available), available[0])


def _hub_bitexts(data: Any, config: str | None, spec: str, languages: Sequence[str] | None) -> list[Bitext]:
    columns = list(data.column_names)
    if "translation" in columns:
        rows = list(data["translation"])
        return [_hub_bitext({code(each): [row[each] for row in rows] for each in rows[0]}, spec, languages)]
    if _FIRST in columns and _SECOND in columns:
        return _sentence_pairs(data, config, spec, languages)
    named = header(columns)
    if named is None or not any(named):
        raise InputError(
            f"{spec} has the columns {', '.join(columns)}; expected sentence1 and sentence2, translation, or "
            "columns named after languages"
        )
    sides = {each: list(data[column]) for each, column in zip(named, columns, strict=True) if each}
    return [_hub_bitext(sides, spec, languages)]


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
    bitexts = []
    for pair, sides in groups.items():
        if _is_allowed(pair, languages):
            # The caller's order where it names both, else English first, as everywhere.
            named = [each for each in languages or () if each in pair]
            order = named if len(named) == 2 else sorted(pair, key=lambda each: each != "en")
            bitexts.append(_hub_bitext(dict(zip(pair, sides, strict=True)), f"{spec}:{'-'.join(pair)}", order))
    return bitexts


def _is_allowed(pair: tuple[str, str], languages: Sequence[str] | None) -> bool:
    """Whether both languages were chosen; English needs not be."""
    return languages is None or set(pair) <= {*languages, "en"}


def _hub_bitext(sides: dict[str, list[str]], name: str, languages: Sequence[str] | None) -> Bitext:
    wanted = pick_languages(languages, list(sides), where=name)
    return assemble_bitext([Corpus(each, sides[each], name=name) for each in wanted], name)
