"""A folder of parallel files becomes bitexts: Tatoeba's pairs, pair tables, line-aligned sets, treebanks.

| files in the folder | bitexts |
|---|---|
| `tatoeba.nld-eng.nld`, `tatoeba.nld-eng.eng` | one a language, English first |
| `en-nl.tsv`, `qgis.en-nl.tsv` | one a file |
| `train.en.gz`, `train.de.gz`, `val.en.gz` ... | one a stem, all its languages |
| `en_pud-ud-test.conllu`, `nl_pud-ud-test.conllu` | one of all treebanks |
| `talks.tsv` with a header of languages | one a file |
| `talk.en.txt`, `talk.nl.txt`; `en.txt`, `nl.txt` | one a stem, all its languages |
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from isogloss.errors import InputError
from isogloss.text.corpora import Bitext, Corpus
from isogloss.text.languages import code, is_code
from isogloss.text.readers.assemble import assemble
from isogloss.text.readers.conllu import read_treebanks
from isogloss.text.readers.lines import first_line, plain_name, read_lines
from isogloss.text.readers.names import language_of, languages_of, pick
from isogloss.text.readers.tables import header, read_table

_TATOEBA = re.compile(r"tatoeba\.([a-z]{3})-eng\.([a-z]{3})")


def aligned_corpora(paths: Sequence[Path], languages: Sequence[str]) -> list[Corpus]:
    """Files whose lines translate each other, one a language, all lines kept; unequal counts are an InputError."""
    sides = [read_lines(path) for path in paths]
    if len({len(side) for side in sides}) > 1:
        counts = ", ".join(f"{path} has {len(side):,} lines" for path, side in zip(paths, sides, strict=True))
        raise InputError(f"line-aligned files must have equally many lines: {counts}")
    named = zip(paths, languages, sides, strict=True)
    return [Corpus(language, side, name=path.name) for path, language, side in named]


def tatoeba_files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """The (English, other) files of each language in a Tatoeba folder; empty when it is none."""
    pairs: dict[str, tuple[Path, Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _TATOEBA.fullmatch(plain_name(path))
        if match and match.group(1) == match.group(2) and is_code(match.group(1)):
            english = path.with_name(path.name.replace(f"-eng.{match.group(1)}", "-eng.eng"))
            pairs[code(match.group(1))] = (english, path)
    return pairs


def _tatoeba(folder: Path, languages: Sequence[str] | None) -> list[Bitext]:
    pairs = tatoeba_files(folder)
    wanted = sorted(pairs) if languages is None else [each for each in languages if each != "en"]
    missing = [each for each in wanted if each not in pairs]
    if missing:
        raise InputError(
            f"{folder} has no pair with English for {', '.join(missing)}; it has {', '.join(sorted(pairs))}"
        )
    if not wanted:
        raise InputError(f"{folder} pairs English with others: name at least one of {', '.join(sorted(pairs))}")
    return [assemble(aligned_corpora(pairs[each], ("en", each)), f"tatoeba.en-{each}") for each in wanted]


def aligned_sets(folder: Path) -> dict[str, dict[str, Path]]:
    """Line-aligned sets of a folder: stem -> language -> file, for names such as `train.en.gz`.

    `source.en.txt` is not one of them: that is how running text is named, which is parallel to nothing.
    """
    return _by_stem({path: plain_name(path) for path in sorted(folder.iterdir()) if "." in plain_name(path)})


def aligned_texts(folder: Path) -> dict[str, dict[str, Path]]:
    """The same for `talk.en.txt` and `en.txt`: what a folder that holds nothing else is taken to mean."""
    names = {path: plain_name(path) for path in sorted(folder.iterdir())}
    return _by_stem({path: name.removesuffix(".txt") for path, name in names.items() if name.endswith(".txt")})


def _by_stem(names: dict[Path, str]) -> dict[str, dict[str, Path]]:
    sets: dict[str, dict[str, Path]] = {}
    for path, name in names.items():
        stem, _, last = name.rpartition(".")
        if last.islower() and is_code(last) and path.is_file():
            sets.setdefault(stem or path.parent.resolve().name, {})[code(last)] = path
    return {stem: files for stem, files in sets.items() if len(files) > 1}


def pair_tables(folder: Path) -> dict[Path, tuple[str, ...]]:
    """Tables whose name tells their languages (`en-nl.tsv`), with those languages."""
    tables: dict[Path, tuple[str, ...]] = {}
    for path in sorted(folder.iterdir()):
        languages = languages_of(path)
        if languages and plain_name(path).endswith(".tsv"):
            tables[path] = languages
    return tables


def headed_tables(folder: Path) -> dict[Path, tuple[str, ...]]:
    """Tables whose first line names two languages or more, with those languages."""
    tables: dict[Path, tuple[str, ...]] = {}
    for path in sorted(folder.iterdir()):
        if plain_name(path).endswith(".tsv") and path.is_file():
            languages = tuple(one for one in header(first_line(path).split("\t")) or () if one is not None)
            if len(languages) > 1:
                tables[path] = languages
    return tables


def read_folder(folder: Path, languages: Sequence[str] | None) -> list[Bitext]:
    """Every bitext of a folder that has the chosen languages; see the table above."""
    if tatoeba_files(folder):
        return _tatoeba(folder, languages)
    tables = pair_tables(folder)
    if tables:
        return _tables(folder, tables, languages)
    sets = aligned_sets(folder)
    if sets:
        return _sets(folder, sets, languages)
    banks = treebanks(folder)
    if banks:
        return [_treebanks(folder, banks, languages)]
    if tables := headed_tables(folder):
        return _tables(folder, tables, languages)
    if sets := aligned_texts(folder):
        return _sets(folder, sets, languages)
    raise InputError(
        f"{folder} holds no parallel text by the names of its files; expected tatoeba.xxx-eng.xxx, en-nl.tsv, "
        "train.en and train.nl, en.txt and nl.txt, or en_*.conllu; name the files one by one instead"
    )


def _covers(languages: Sequence[str] | None, there: Sequence[str]) -> bool:
    """Whether a set answers a choice of languages: it has all of them, or all that it has was chosen."""
    return languages is None or set(languages) <= set(there) or set(there) <= set(languages)


def _tables(folder: Path, tables: dict[Path, tuple[str, ...]], languages: Sequence[str] | None) -> list[Bitext]:
    fitting = {path: there for path, there in tables.items() if _covers(languages, there)}
    if not fitting:
        pairs = ", ".join("-".join(there) for there in tables.values())
        raise InputError(f"{folder} has no table of {', '.join(languages or ())}; it has {pairs}")
    return [
        assemble(
            read_table(path, None if languages is None else [each for each in languages if each in there]),
            path.name,
        )
        for path, there in fitting.items()
    ]


def _sets(folder: Path, sets: dict[str, dict[str, Path]], languages: Sequence[str] | None) -> list[Bitext]:
    fitting = {stem: files for stem, files in sets.items() if _covers(languages, list(files))}
    if not fitting:
        there = ", ".join(sorted({each for files in sets.values() for each in files}))
        raise InputError(f"{folder} has no aligned files of {', '.join(languages or ())}; it has {there}")
    bitexts = []
    for stem, files in fitting.items():
        chosen = [each for each in languages or files if each in files]
        bitexts.append(assemble(aligned_corpora([files[each] for each in chosen], chosen), stem))
    return bitexts


def treebanks(folder: Path) -> dict[str, list[Path]]:
    """The treebanks of a folder by language: `en_pud-ud-test.conllu` is English."""
    banks: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        language = language_of(path)
        if language and plain_name(path).endswith(".conllu"):
            banks.setdefault(language, []).append(path)
    return banks


def _treebanks(folder: Path, banks: dict[str, list[Path]], languages: Sequence[str] | None) -> Bitext:
    wanted = pick(languages, list(banks), where=folder)
    for each in wanted:
        if len(banks[each]) > 1:
            names = ", ".join(path.name for path in banks[each])
            raise InputError(f"{folder} has several treebanks of {each} ({names}); name the files one by one")
    return replace(read_treebanks([banks[each][0] for each in wanted], wanted), name=folder.name)
