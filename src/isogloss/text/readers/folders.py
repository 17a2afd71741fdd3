"""A folder of parallel files becomes bitexts: Tatoeba's pairs, pair tables, line-aligned sets, treebanks.

| files in the folder | bitexts |
|---|---|
| `tatoeba.nld-eng.nld`, `tatoeba.nld-eng.eng` | one a language, English first |
| `en-nl.tsv`, `qgis.en-nl.tsv` | one a file |
| `train.en.gz`, `train.de.gz`, `val.en.gz` ... | one a stem, all its languages |
| `en_pud-ud-test.conllu`, `nl_pud-ud-test.conllu` | one of all treebanks |
| `talks.tsv` with a header of languages | one a file |
| `talk.en.txt`, `talk.nl.txt`; `en.txt`, `nl.txt` | one a stem, all its languages |

The first row of the table that a folder has files of is what it is taken for.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus, assemble_bitext
from isogloss.text.languages import code, is_code, pick_languages
from isogloss.text.readers.conll import read_treebanks
from isogloss.text.readers.lines import first_line, language_of, languages_of, plain_name, read_lines
from isogloss.text.readers.tables import header, read_table

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
        or _tables((path, _header_languages(path)) for path in tables)
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


def _header_languages(path: Path) -> tuple[str, ...]:
    return tuple(each for each in header(first_line(path).split("\t")) or () if each is not None)


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
        fitting = [each for each in sets if _covers(languages, each.languages)]
    if not fitting:
        wanted, available = ", ".join(languages or ()), ", ".join("-".join(each.languages) for each in sets)
        if sets[0].kind == "table":
            raise InputError(f"{folder} has no table of {wanted}; it has {available}")
        raise InputError(f"{folder} has no aligned files of {wanted}; it has {available}")
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


def _covers(languages: Sequence[str] | None, available: Sequence[str]) -> bool:
    """Whether a text answers a choice of languages: it has all of them, or all that it has was chosen."""
    return languages is None or set(languages) <= set(available) or set(available) <= set(languages)


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
    files: dict[str, list[Path]] = {language: [] for language in banks.languages}
    for language, path in zip(banks.languages, banks.files, strict=True):
        files[language].append(path)
    wanted = pick_languages(languages, list(files), where=folder)
    for language in wanted:
        if len(paths := files[language]) > 1:
            names = ", ".join(path.name for path in paths)
            raise InputError(f"{folder} has several treebanks of {language} ({names}); name the files one by one")
    return replace(read_treebanks([files[language][0] for language in wanted], wanted), name=banks.name)
